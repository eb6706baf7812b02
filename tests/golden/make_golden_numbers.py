#!/usr/bin/env python3
"""Golden numbers of SmolLM2-135M-Instruct, from PyTorch in float32 with the transformers package.

    makarna-quant SmolLM2-135M-Instruct.Q4_1.gguf -o smollm2-q8.mkn --type q8
    python3 make_golden_numbers.py --gguf SmolLM2-135M-Instruct.Q4_1.gguf --image smollm2-q8.mkn \\
        --text wikitext2-valid.txt --out DIRECTORY

Needs torch, transformers, accelerate and gguf. The weights are those that transformers dequantizes from the
GGUF, or those of the image, dequantized by mkn.py. transformers ignores `tokenizer.ggml.pre` (here `smollm`) and
splits text as GPT-2 does; the model's own tokenizer first cuts out every digit, which is put right here. No
BOS anywhere. To be made again whenever the quantizer's output changes.

numbers_smollm2.top64           what float32 predicts after each of the first 256 tokens of the text, with the source's
                                weights: uint32 positions, top, vocabulary (little-endian, as all of it), uint16
                                input ids [positions], then per position uint16 ids [top], float32 log-probabilities
                                [top] in falling order, float32 log of the probability left to all other tokens
numbers_smollm2_q8.top64        the same with the weights of the image
numbers_smollm2_greedy.txt      four lines a prompt: its text in hex, its ids, the ids of its greedy continuation
                                with the weights of the image, how far each was ahead of the runner-up (logits)
numbers_smollm2_perplexity.txt  first 8192 tokens in 16 windows of 512, each alone, with the source's weights: a line
                                with the perplexity and a line with the negative log-likelihood of each window
                                (511 predictions each)

--full-logits writes the logits with the weights of the image in full (float32 [256][49152], 50 MB), for
compare_logits.py and `makarna perplexity --tokens 256 --window 256 --logits FILE`.
"""

import argparse
import math
import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer

import mkn

TOP = 64
POSITIONS = 256
CONTINUATION = 48
WINDOWS, WINDOW = 16, 512
END = (0, 2)  # <|endoftext|>, <|im_end|>
PROMPTS = [
    "The Roman Empire was",
    "Once upon a time, there was a little girl who",
    "Water boils at a temperature of",
    'def fibonacci(n):\n    """Return the n-th Fibonacci number."""\n',
    "The three primary colours are red,",
]

def load_tokenizer(gguf: Path):
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return tokenizer


def encode(tokenizer, text: str) -> list[int]:
    """Ids of a text in which the spelling of a special token is nothing special."""
    backend = tokenizer.backend_tokenizer
    backend.encode_special_tokens = True
    ids = backend.encode(text, add_special_tokens=False).ids
    backend.encode_special_tokens = False
    return ids


def numbers(values) -> str:
    return " ".join(map(str, values))


def in_hex(text: str) -> str:
    return text.encode().hex()


def write(path: Path, title: str, lines: list[str]) -> None:
    path.write_text("\n".join([f"# {title}", *lines]) + "\n")


def write_greedy(tokenizer, model, path: Path) -> None:
    lines = []
    for prompt in PROMPTS:
        ids = encode(tokenizer, prompt)
        continuation, leads = [], []
        result = model(torch.tensor([ids]), use_cache=True)
        while len(continuation) < CONTINUATION and not (continuation and continuation[-1] in END):
            best = result.logits[0, -1].topk(2)
            continuation.append(best.indices[0].item())
            leads.append(f"{(best.values[0] - best.values[1]).item():.3f}")
            result = model(torch.tensor([continuation[-1:]]), past_key_values=result.past_key_values, use_cache=True)
        lines += [in_hex(prompt), numbers(ids), numbers(continuation), numbers(leads)]
    write(path, "prompt in hex, its ids, ids of the greedy continuation, lead of each in logits", lines)


def log_probabilities(model, ids: list[int]) -> torch.Tensor:
    return torch.log_softmax(model(torch.tensor([ids]), use_cache=False).logits[0].double(), dim=-1)


def write_perplexity(model, ids: list[int], path: Path) -> None:
    losses = []
    for start in range(0, WINDOWS * WINDOW, WINDOW):
        window = ids[start : start + WINDOW]
        scores = log_probabilities(model, window)
        losses.append(-scores[torch.arange(WINDOW - 1), torch.tensor(window[1:])].sum().item())
    perplexity = math.exp(sum(losses) / (WINDOWS * (WINDOW - 1)))
    write(path, f"perplexity, negative log-likelihood of each window of {WINDOW} tokens",
          [f"{perplexity:.6f}", numbers(f"{loss:.4f}" for loss in losses)])


def write_logits(model, ids: list[int], path: Path, full: Path | None) -> None:
    logits = model(torch.tensor([ids]), use_cache=False).logits[0]
    if full:
        logits.numpy().tofile(full)
    scores = torch.log_softmax(logits.double(), dim=-1)
    top = scores.topk(TOP)
    rest = scores.scatter(1, top.indices, -math.inf).logsumexp(dim=-1)
    with path.open("wb") as file:
        np.array([len(ids), TOP, logits.shape[1]], "<u4").tofile(file)
        np.array(ids, "<u2").tofile(file)
        for indices, values, left in zip(top.indices.numpy(), top.values.numpy(), rest.numpy()):
            indices.astype("<u2").tofile(file)
            values.astype("<f4").tofile(file)
            left.astype("<f4").tofile(file)


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", type=Path, required=True)
    parser.add_argument("--image", type=Path, required=True, help="makarna-quant's q8 image of the GGUF")
    parser.add_argument("--text", type=Path, required=True, help="WikiText-2 validation text, used as it is")
    parser.add_argument("--out", type=Path, required=True, help="directory for the golden files")
    parser.add_argument("--full-logits", type=Path, help="also write all logits, raw float32, to this file")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    arguments.out.mkdir(parents=True, exist_ok=True)
    tokenizer = load_tokenizer(arguments.gguf)
    ids = encode(tokenizer, arguments.text.read_bytes().decode())[: WINDOWS * WINDOW]

    model = mkn.torch_model(mkn.Image(arguments.image))
    write_logits(model, ids[:POSITIONS], arguments.out / "numbers_smollm2_q8.top64", arguments.full_logits)
    write_greedy(tokenizer, model, arguments.out / "numbers_smollm2_greedy.txt")

    model = AutoModelForCausalLM.from_pretrained(arguments.gguf.parent, gguf_file=arguments.gguf.name,
                                                 dtype=torch.float32, attn_implementation="eager").eval()
    write_logits(model, ids[:POSITIONS], arguments.out / "numbers_smollm2.top64", None)
    write_perplexity(model, ids, arguments.out / "numbers_smollm2_perplexity.txt")


if __name__ == "__main__":
    main()
