#!/usr/bin/env python3
"""Perplexity of a model in llama.cpp, as float32, Q8_0 and Q4_0, on the windows makarna uses.

The GGUF given is dequantized to float32 and written as a new GGUF with the same metadata;
llama.cpp then quantizes that file with every matrix, the tied embedding included, as Q8_0
and as Q4_0. Perplexity: the first WINDOWS * 512 tokens of the text (no BOS), each window of
512 evaluated alone; exp of the mean negative log-likelihood of the 511 predictions of each
window. `makarna perplexity` prints the same quantity.

The peer is built from source, for the machine at hand, in an environment of its own:

    python3 -m venv peer
    CMAKE_BUILD_PARALLEL_LEVEL=2 peer/bin/pip install --no-binary llama-cpp-python llama-cpp-python gguf
    peer/bin/python llamacpp_perplexity.py --gguf MODEL.gguf --text TEXT --work DIRECTORY

Bits per weight count all tensors (norms, which stay float32, included) and no metadata.
"""

import argparse
import math
from pathlib import Path

import gguf
import llama_cpp
import numpy as np

WINDOW = 512
KL_TOKENS = 256


def write_float32(source: Path, target: Path) -> None:
    """Copy a GGUF file with every tensor dequantized to float32."""
    reader = gguf.GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(target, architecture)
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        sub_type = field.types[1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), field.types[0], sub_type)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, values.astype(np.float32).reshape(tensor.shape[::-1]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def quantize(source: Path, target: Path, file_type: int, tensor_type: int) -> None:
    """Quantize every matrix to one type with llama.cpp's own quantizer."""
    options = llama_cpp.llama_model_quantize_default_params()
    options.nthread = 2
    options.ftype = file_type
    options.output_tensor_type = tensor_type
    options.token_embedding_type = tensor_type
    options.pure = True
    if llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), options):
        raise SystemExit(f"llama.cpp could not quantize {source}")


def bits_per_weight(path: Path) -> tuple[float, dict[str, int]]:
    """Bits per weight over all tensors, and how many tensors there are of each type."""
    tensors = gguf.GGUFReader(path).tensors
    types: dict[str, int] = {}
    for tensor in tensors:
        types[tensor.tensor_type.name] = types.get(tensor.tensor_type.name, 0) + 1
    size = sum(int(tensor.n_bytes) for tensor in tensors)
    return 8 * size / sum(int(tensor.n_elements) for tensor in tensors), types


def log_probabilities(logits: np.ndarray) -> np.ndarray:
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=-1, keepdims=True)
    return wide - np.log(np.exp(wide).sum(axis=-1, keepdims=True))


def measure(path: Path, text: bytes, windows: int, logits_out: Path, f32_cache: bool) -> tuple[float, list[int]]:
    """Perplexity of one file, and the ids; the logits of the first KL_TOKENS tokens go to logits_out."""
    cache = {"type_k": llama_cpp.GGML_TYPE_F32, "type_v": llama_cpp.GGML_TYPE_F32} if f32_cache else {}
    model = llama_cpp.Llama(str(path), n_ctx=WINDOW, n_batch=WINDOW, n_ubatch=WINDOW, n_threads=2,
                            n_threads_batch=2, logits_all=True, verbose=False, **cache)
    ids = model.tokenize(text, add_bos=False, special=False)[: windows * WINDOW]
    total = 0.0
    for start in range(0, len(ids), WINDOW):
        window = ids[start : start + WINDOW]
        model.reset()
        model.eval(window)
        if start == 0:
            model.scores[:KL_TOKENS].astype(np.float32).tofile(logits_out)
        scores = log_probabilities(model.scores[: WINDOW - 1])
        total -= scores[np.arange(WINDOW - 1), window[1:]].sum()
    model.close()
    return math.exp(total / (windows * (WINDOW - 1))), ids


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", type=Path, required=True, help="the model, of any type that the gguf package reads")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="directory for the GGUF files and logits")
    parser.add_argument("--windows", type=int, default=16)
    parser.add_argument("--ids-out", type=Path, help="write the token ids of the windows, one line")
    parser.add_argument("--f32-cache", action="store_true",
                        help="float32 KV cache instead of llama.cpp's default, float16")
    arguments = parser.parse_args()

    arguments.work.mkdir(parents=True, exist_ok=True)
    text = arguments.text.read_bytes()
    f32 = arguments.work / "model-f32.gguf"
    if not f32.exists():
        write_float32(arguments.gguf, f32)
    rows = [("f32", f32)]
    for name, file_type, tensor_type in (
        ("q8_0", llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0, llama_cpp.GGML_TYPE_Q8_0),
        ("q4_0", llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0, llama_cpp.GGML_TYPE_Q4_0),
    ):
        path = arguments.work / f"model-{name}.gguf"
        if not path.exists():
            quantize(f32, path, file_type, tensor_type)
        rows.append((name, path))
    rows.append(("source", arguments.gguf))
    print(f"llama-cpp-python {llama_cpp.__version__}, {arguments.windows} windows of {WINDOW} tokens")
    for name, path in rows:
        bits, types = bits_per_weight(path)
        logits_out = arguments.work / f"logits-{name}.f32"
        perplexity, ids = measure(path, text, arguments.windows, logits_out, arguments.f32_cache)
        print(f"{name:7} bits per weight {bits:7.4f}  perplexity {perplexity:8.4f}  tensors {types}", flush=True)
    if arguments.ids_out:
        arguments.ids_out.write_text(" ".join(map(str, ids)) + "\n")


if __name__ == "__main__":
    main()
