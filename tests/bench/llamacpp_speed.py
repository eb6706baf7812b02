#!/usr/bin/env python3
"""Speed of makarna beside llama.cpp on this machine: interleaved runs, medians, ratios.

The peer is built from source with native flags, in an environment of its own:

    python3 -m venv peer
    CMAKE_BUILD_PARALLEL_LEVEL=2 peer/bin/pip install --no-binary llama-cpp-python llama-cpp-python gguf
    peer/bin/python tests/golden/llamacpp_perplexity.py --gguf MODEL.gguf --text TEXT --work DIRECTORY

The last command leaves the same model as Q4_0 and Q8_0, made by llama.cpp's own quantizer, in DIRECTORY. Then:

    peer/bin/python tests/bench/llamacpp_speed.py --makarna build/host/makarna \\
        --pair q4 smollm2-q4.mkn DIRECTORY/q4_0.gguf --pair q8 smollm2-q8.mkn DIRECTORY/q8_0.gguf

For each pair and number of threads, `--runs` times in turn: a prompt of 512 tokens, then 128 tokens generated one
by one, by both engines. Prints the medians in tokens per second, and the median of the ratios.
"""

import argparse
import json
import statistics
import subprocess
import time

import llama_cpp

PROMPT, GENERATE = 512, 128


def run_makarna(program: str, image: str, threads: int) -> tuple[float, float]:
    command = [program, "bench", "-m", image, "-p", str(PROMPT), "-n", str(GENERATE), "-r", "1", "--json",
               "--threads", str(threads)]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return result["prompt"]["tokens_per_second"], result["generation"]["tokens_per_second"]


def run_peer(llama, vocabulary: int) -> tuple[float, float]:
    tokens = [(i * 7919 + 13) % vocabulary for i in range(PROMPT)]
    llama.reset()
    start = time.perf_counter()
    llama.eval(tokens)
    prompt = PROMPT / (time.perf_counter() - start)
    llama.reset()
    start = time.perf_counter()
    for i in range(GENERATE):
        llama.eval([tokens[i]])
    return prompt, GENERATE / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--makarna", required=True)
    parser.add_argument("--pair", nargs=3, action="append", required=True, metavar=("NAME", "IMAGE", "GGUF"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    print(f"llama-cpp-python {llama_cpp.__version__}, {arguments.runs} interleaved runs")
    for name, image, gguf in arguments.pair:
        for threads in arguments.threads:
            llama = llama_cpp.Llama(gguf, n_ctx=PROMPT + GENERATE, n_batch=PROMPT, n_threads=threads,
                                    n_threads_batch=threads, verbose=False)
            own, peer = [], []
            for _ in range(arguments.runs):
                own.append(run_makarna(arguments.makarna, image, threads))
                peer.append(run_peer(llama, llama.n_vocab()))
            for i, what in enumerate((f"prompt of {PROMPT}", f"generation of {GENERATE}")):
                ratio = statistics.median(a[i] / b[i] for a, b in zip(own, peer))
                print(f"{name}, {threads} threads, {what}: makarna {statistics.median(a[i] for a in own):.1f}, "
                      f"llama.cpp {statistics.median(b[i] for b in peer):.1f} tokens/s, ratio {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
