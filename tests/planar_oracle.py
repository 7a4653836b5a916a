"""Make the tensors of weight formats. packed_oracle packs the codes."""

import numpy as np
from packed_oracle import LAYOUTS, pack_rows

PLANES = {3: (2, 1), 5: (4, 1), 6: (4, 2), 7: (4, 2, 1)}

stream = pack_rows


def byte_stream(rows, bits):
    """Pack each row of codes into bytes without gaps."""
    return pack_rows(rows, bits, "<u1")


def padded(rows, bits):
    """Pack `32 // bits` codes into each 32-bit word, so that no code crosses two words."""
    count = 32 // bits
    rows = np.pad(rows, ((0, 0), (0, -rows.shape[1] % count)))
    return pack_rows(rows.reshape(len(rows), -1, count), bits)[..., 0]


def planes(rows, bits):
    """Pack each 32 codes into planes: the low bits of all codes, then the higher bits."""
    groups, words = rows.reshape(len(rows), -1, 32), []
    for width in PLANES.get(bits, (bits,)):
        words.append(pack_rows(groups & ((1 << width) - 1), width))
        groups = groups >> width
    return np.concatenate(words, -1).reshape(len(rows), -1)


def awq(rows, bits):
    """Pack each row of codes in AWQ's order."""
    return pack_rows(rows, bits, *LAYOUTS["awq"])


def tensors(*arrays):
    """Return the tensors of a GPTQ or AWQ weight by name. Omit missing arrays."""
    names = ("qweight", "qzeros", "scales", "g_idx")
    return {name: one for name, one in zip(names, arrays, strict=False) if one is not None}


def layer(bits, inputs, outputs, size, lowest=0, dtype=np.float16):
    """Return random codes, zero points and scales. Axis 0 runs over inputs or groups."""
    rng = np.random.default_rng([bits, inputs, outputs, size])
    groups = -(-inputs // size)
    codes = rng.integers(0, 1 << bits, (inputs, outputs), dtype=np.uint8)
    zeros = rng.integers(lowest, 1 << bits, (groups, outputs), dtype=np.uint8)
    return codes, zeros, rng.standard_normal((groups, outputs)).astype(dtype)


KINDS = ("normal", "ties", "zero", "positive", "negative", "tiny", "subnormal", "sizes")


def data(kind, shape, dtype=np.float32):
    """Return random numbers of a kind, for example ties or subnormal numbers."""
    rng = np.random.default_rng([len(kind), *shape])
    x = rng.standard_normal(shape).astype(np.float32)
    x = {
        "normal": x,
        "ties": np.round(x * 8) / np.float32(8),
        "zero": x * 0,
        "positive": abs(x),
        "negative": -abs(x),
        "tiny": x * np.float32(1e-8),
        "subnormal": x * np.float32(1e-40),
        "sizes": x * np.float32(10) ** rng.integers(-30, 30, shape).astype(np.float32),
    }[kind]
    return x.astype(dtype)


def along(codes, axis, bits, pack=stream, dtype=np.int32):
    """Pack the codes of a matrix along an axis with the function `pack`."""
    words = pack(codes if axis == 1 else codes.T, bits).view(dtype)
    return np.ascontiguousarray(words if axis == 1 else words.T)


def numbers(codes, zeros, scales, groups, dtype=np.float32):
    """Return (code - zero) * scale, rounded once. Each row of the result is an output.

    Axis 0 of the arguments runs over inputs or their groups.
    """
    exact = codes.astype(np.int64) - zeros.astype(np.int64)[groups]
    return (exact.astype(np.float64) * scales.astype(np.float64)[groups]).T.astype(dtype)
