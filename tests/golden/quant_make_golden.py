"""Writes quant_dequantize.bin: random blocks of the GGUF tensor types that the quantizer reads, with their weights as
the `gguf` package dequantizes them. Needs numpy and gguf (0.19.0 was used).

    python3 quant_make_golden.py quant_dequantize.bin

For each type: source_type (u32, as in quant/read/source.h), weights (u32), bytes (u32), the blocks, the weights (float32).
"""
import struct
import sys

import numpy as np
from gguf import GGMLQuantizationType as T, dequantize

WEIGHTS = 512
SOURCE_TYPES = {T.F16: 1, T.BF16: 2, T.Q8_0: 3, T.Q4_0: 4, T.Q4_1: 5, T.Q6_K: 6}
# bytes of a block, weights of a block, places of its fp16 fields
SHAPES = {T.Q8_0: (34, 32, [0]), T.Q4_0: (18, 32, [0]), T.Q4_1: (20, 32, [0, 2]), T.Q6_K: (210, 256, [208])}


def blocks_of(kind, random):
    if kind in (T.F16, T.BF16):
        bits = random.integers(0, 1 << 16, WEIGHTS, dtype=np.uint16)
        top = 0x7c00 if kind == T.F16 else 0x7f80
        bits[(bits & top) == top] &= 0x83ff  # no infinities and NaNs, and so more small numbers
        bits[:8] = [0, 0x8000, 1, 0x8001, 0x3ff, 0x400, 0x7bff, 0xfbff]  # zeros, subnormals, extremes
        return bits.view(np.uint8)
    size, weights, halves = SHAPES[kind]
    data = random.integers(0, 256, (WEIGHTS // weights, size), dtype=np.uint8)
    for at in halves:
        values = random.normal(0, 0.01, len(data)).astype(np.float16)
        values[0] = np.float16(3e-7)  # subnormal
        data[:, at:at + 2] = values.view(np.uint8).reshape(-1, 2)
    return data.reshape(-1)


def main():
    random = np.random.default_rng(2024)
    with open(sys.argv[1], "wb") as out:
        for kind, number in SOURCE_TYPES.items():
            data = blocks_of(kind, random)
            weights = dequantize(data, kind).astype(np.float32).reshape(-1)
            assert len(weights) == WEIGHTS
            out.write(struct.pack("<3I", number, WEIGHTS, len(data)) + data.tobytes() + weights.tobytes())


main()
