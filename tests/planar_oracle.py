"""Weights of codes and parameters in arrays of their own, bit by bit."""

import numpy as np

AWQ_COLUMNS = (0, 2, 4, 6, 1, 3, 5, 7)
PLANES = {3: (2, 1), 5: (4, 1), 6: (4, 2), 7: (4, 2, 1)}


def stream(codes, bits):
    """Words of 32 bits in which code i has the bits from bits * i on."""
    number = sum(int(code) << (bits * i) for i, code in enumerate(codes))
    count = -(-len(codes) * bits // 32)
    return [(number >> (32 * k)) & 0xFFFFFFFF for k in range(count)]


def byte_stream(codes, bits):
    number = sum(int(code) << (bits * i) for i, code in enumerate(codes))
    return [(number >> (8 * k)) & 0xFF for k in range(-(-len(codes) * bits // 8))]


def padded(codes, bits):
    """As many whole codes to a word as it has room for."""
    each = 32 // bits
    parts = [codes[i : i + each] for i in range(0, len(codes), each)]
    return [sum(int(c) << (bits * i) for i, c in enumerate(part)) for part in parts]


def planes(codes, bits):
    words = []
    for i in range(0, len(codes), 32):
        low = 0
        for width in PLANES.get(bits, (bits,)):
            part = [int(c) >> low & ((1 << width) - 1) for c in codes[i : i + 32]]
            words += stream(part, width)
            low += width
    return words


def awq(codes, bits):
    assert bits == 4
    parts = [codes[i : i + 8] for i in range(0, len(codes), 8)]
    return [
        sum(int(part[column]) << (4 * i) for i, column in enumerate(AWQ_COLUMNS))
        for part in parts
    ]


def along(codes, axis, bits, pack=stream, dtype=np.int32):
    """Words of a matrix, packed along an axis."""
    lines = codes if axis == 1 else codes.T
    unsigned = np.dtype(
        dtype.__name__.replace("int", "uint") if dtype is np.int32 else dtype
    )
    made = np.array([pack(list(line), bits) for line in lines], unsigned).view(dtype)
    return np.ascontiguousarray(made if axis == 1 else made.T)


def numbers(codes, zeros, scales, groups, dtype=np.float32):
    """(code - zero) * scale of inputs along the first axis, rounded once."""
    exact = codes.astype(np.int64) - zeros.astype(np.int64)[groups]
    return (exact.astype(np.float64) * scales.astype(np.float64)[groups]).astype(dtype)
