#!/usr/bin/env python3
"""Kullback-Leibler divergence between the predictions in two files of logits.

    python3 compare_logits.py REFERENCE OTHER --vocab 49152

Both are raw float32, little-endian, [positions][vocab]. REFERENCE may also be a *.top64 file
of make_golden_numbers.py: then all tokens outside its top 64 count as one, which gives a
lower bound of the divergence. Prints KL(REFERENCE || OTHER), natural logarithm, over the
positions that both have, and how often the most likely token is the same. With --max, the
exit status is 1 if the mean exceeds it.
"""

import argparse
import sys
from pathlib import Path

import numpy as np


def log_softmax(logits: np.ndarray) -> np.ndarray:
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=-1, keepdims=True)
    return wide - np.log(np.exp(wide).sum(axis=-1, keepdims=True))


def read_top(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids [positions][top], their log-probabilities, and those of the rest."""
    data = path.read_bytes()
    positions, top, _ = np.frombuffer(data, "<u4", 3)
    record = np.dtype([("ids", "<u2", top), ("scores", "<f4", top), ("rest", "<f4")])
    records = np.frombuffer(data, record, positions, offset=12 + 2 * positions)
    return records["ids"].astype(np.int64), records["scores"].astype(np.float64), records["rest"].astype(np.float64)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reference", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("--vocab", type=int, required=True)
    parser.add_argument("--max", type=float, help="largest mean divergence to accept")
    arguments = parser.parse_args()

    other = np.memmap(arguments.other, "<f4", "r").reshape(-1, arguments.vocab)
    summarised = arguments.reference.suffix == ".top64"
    if summarised:
        ids, scores, rest = read_top(arguments.reference)
    else:
        reference = np.memmap(arguments.reference, "<f4", "r").reshape(-1, arguments.vocab)
    divergence, same = [], 0
    for position in range(min(len(other), len(ids if summarised else reference))):
        q = log_softmax(other[position])
        if summarised:
            same += q.argmax() == ids[position][0]
            outside = np.ones(arguments.vocab, bool)
            outside[ids[position]] = False
            p = np.append(scores[position], rest[position])
            q = np.append(q[ids[position]], np.logaddexp.reduce(q[outside]))
        else:
            p = log_softmax(reference[position])
            same += q.argmax() == p.argmax()
        divergence.append((np.exp(p) * (p - q)).sum())
    mean = np.mean(divergence)
    print(f"positions {len(divergence)}  mean KL {mean:.6f}  median {np.median(divergence):.6f}"
          f"  max {max(divergence):.6f} at {int(np.argmax(divergence))}  same top token {same / len(divergence):.4f}")
    return int(arguments.max is not None and mean > arguments.max)


if __name__ == "__main__":
    sys.exit(main())
