"""Decode the blocks of GGUF types in exact arithmetic.

float64 holds every value exactly: a scale has at most 24 bits, and its factor at most 11.
Tests round these float64 values once, to the type of the result.
"""

import re
from pathlib import Path

import numpy as np

# GGUF type: its number in ggml, the number of elements and of bytes in a block.
FORMATS = {
    "Q4_0": (2, 32, 18),
    "Q4_1": (3, 32, 20),
    "Q5_0": (6, 32, 22),
    "Q5_1": (7, 32, 24),
    "Q8_0": (8, 32, 34),
    "Q8_1": (9, 32, 36),
    "Q2_K": (10, 256, 84),
    "Q3_K": (11, 256, 110),
    "Q4_K": (12, 256, 144),
    "Q5_K": (13, 256, 176),
    "Q6_K": (14, 256, 210),
    "Q8_K": (15, 256, 292),
    "IQ2_XXS": (16, 256, 66),
    "IQ2_XS": (17, 256, 74),
    "IQ3_XXS": (18, 256, 98),
    "IQ1_S": (19, 256, 50),
    "IQ4_NL": (20, 32, 18),
    "IQ3_S": (21, 256, 110),
    "IQ2_S": (22, 256, 82),
    "IQ4_XS": (23, 256, 136),
    "IQ1_M": (29, 256, 56),
    "TQ1_0": (34, 256, 54),
    "TQ2_0": (35, 256, 66),
    "MXFP4": (39, 32, 17),
    "NVFP4": (40, 64, 36),
    "Q1_0": (41, 128, 18),
    "Q2_0": (42, 64, 18),
}

# Doubled values of the codes of float4_e2m1fn (0 instead of -0), and values of IQ4 codes.
E2M1_TWICE = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], float)
IQ4_LEVELS = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], float
)

# Grid: number of bits of an element, values of an element, number of elements of an entry.
GRIDS = {
    "iq1s": (2, (-1, 0, 1), 8),
    "iq2xxs": (2, (8, 25, 43), 8),
    "iq2xs": (2, (8, 25, 43), 8),
    "iq2s": (2, (8, 25, 43), 8),
    "iq3xxs": (3, (4, 12, 20, 28, 36, 44, 52, 62), 4),
    "iq3s": (3, (1, 3, 5, 7, 9, 11, 13, 15), 4),
}


def grid_of(name):
    """Read a grid from csrc/blocks/grids.c. Return it in shape (entries, elements)."""
    path = Path(__file__).resolve().parent.parent / "csrc" / "blocks" / "grids.c"
    found = re.search(rf"pq_grid_{name}\[(\d+)\] = {{([^}}]*)}}", path.read_text())
    # A 64-bit number of the source holds four entries, the first one in the highest bits.
    numbers = "".join(re.findall("0x([0-9a-f]{16})", found[2]))
    entries = np.array([int(number, 16) for number in re.findall("....", numbers)])
    assert len(entries) == int(found[1])
    bits, levels, elements = GRIDS[name]
    indices = entries[:, None] >> bits * np.arange(elements) & (1 << bits) - 1
    assert (entries >> bits * elements == 0).all()
    return np.array(levels, float)[indices]


GRID = {name: grid_of(name) for name in GRIDS}


class Block:
    """Reader of the fields of GGUF blocks, from the first field to the last."""

    def __init__(self, data):
        assert data.dtype == np.uint8
        assert data.ndim == 2
        self.data = data
        self.at = 0

    def take(self, count, dtype="u1"):
        """Return the next `count` little-endian numbers of every block."""
        dtype = np.dtype(f"<{dtype}")
        end = self.at + count * dtype.itemsize
        field = np.ascontiguousarray(self.data[:, self.at : end]).view(dtype)
        self.at = end
        return field.astype(float if dtype.kind == "f" else np.int64)

    def done(self, value):
        assert self.at == self.data.shape[1]
        return value.reshape(len(self.data), -1)


def bits_of(field, bits, count=None):
    """Divide integers into numbers of `bits` bits, and return the lowest bits first."""
    shifts = bits * np.arange(count or 8 // bits)
    return (field[..., None] >> shifts & (1 << bits) - 1).reshape(len(field), -1)


def planes(field, bits, width):
    """Unpack each group of `width` bytes.

    The lowest `bits` bits of all bytes are the first codes, the next bits the next codes.
    """
    groups = field.reshape(len(field), -1, 1, width)
    shifts = np.arange(0, 8, bits)[:, None]
    return (groups >> shifts & (1 << bits) - 1).reshape(len(field), -1)


def halves(field, width=16):
    return planes(field, 4, width)


def spread(field, count):
    """Repeat the value of each group for the `count` elements of the group."""
    return np.repeat(field, count, axis=-1)


def signs_of(field):
    """Return -1 for each bit that is 1, and 1 for each bit that is 0."""
    return 1.0 - 2.0 * bits_of(field, 1)


def seven_signs(field):
    """Return eight signs: of the 7 bits of a number, and of the parity of these bits."""
    parity = sum(field >> k & 1 for k in range(7)) % 2
    return signs_of(field | parity << 7)


def q4_0(data):
    block = Block(data)
    d, codes = block.take(1, "f2"), halves(block.take(16))
    return block.done(d * (codes - 8))


def q4_1(data):
    block = Block(data)
    d, m, codes = block.take(1, "f2"), block.take(1, "f2"), halves(block.take(16))
    return block.done(d * codes + m)


def q5_codes(block):
    high = bits_of(block.take(1, "u4"), 1, 32)
    return halves(block.take(16)) + 16 * high


def q5_0(data):
    block = Block(data)
    d = block.take(1, "f2")
    return block.done(d * (q5_codes(block) - 16))


def q5_1(data):
    block = Block(data)
    d, m = block.take(1, "f2"), block.take(1, "f2")
    return block.done(d * q5_codes(block) + m)


def q8_0(data):
    block = Block(data)
    return block.done(block.take(1, "f2") * block.take(32, "i1"))


def q8_1(data):
    block = Block(data)
    d, _sum = block.take(1, "f2"), block.take(1, "f2")
    return block.done(d * block.take(32, "i1"))


def q8_k(data):
    block = Block(data)
    value = block.take(1, "f4") * block.take(256, "i1")
    block.take(16, "i2")  # sums
    return block.done(value)


def q2_k(data):
    block = Block(data)
    scales, codes = block.take(16), planes(block.take(64), 2, 32)
    d, dmin = block.take(1, "f2"), block.take(1, "f2")
    return block.done(d * spread(scales & 15, 16) * codes - dmin * spread(scales >> 4, 16))


def q3_k(data):
    block = Block(data)
    high, low = planes(block.take(32), 1, 32), planes(block.take(64), 2, 32)
    scales, d = block.take(12), block.take(1, "f2")
    scales = halves(scales[:, :8], 8) | planes(scales[:, 8:], 2, 4) << 4
    return block.done(d * spread(scales - 32, 16) * (low + 4 * high - 4))


def scales_and_mins(b):
    """Unpack eight 6-bit scales and eight 6-bit minima from 12 bytes."""
    scales = [b[:, j] & 63 for j in range(4)]
    mins = [b[:, j + 4] & 63 for j in range(4)]
    for j in range(4, 8):
        scales.append(b[:, j + 4] & 15 | b[:, j - 4] >> 6 << 4)
        mins.append(b[:, j + 4] >> 4 | b[:, j] >> 6 << 4)
    return np.stack(scales, -1), np.stack(mins, -1)


def q4_k(data):
    block = Block(data)
    d, dmin = block.take(1, "f2"), block.take(1, "f2")
    scales, mins = scales_and_mins(block.take(12))
    codes = planes(block.take(128), 4, 32)
    return block.done(d * spread(scales, 32) * codes - dmin * spread(mins, 32))


def q5_k(data):
    block = Block(data)
    d, dmin = block.take(1, "f2"), block.take(1, "f2")
    scales, mins = scales_and_mins(block.take(12))
    high = planes(block.take(32), 1, 32)
    codes = planes(block.take(128), 4, 32) + 16 * high
    return block.done(d * spread(scales, 32) * codes - dmin * spread(mins, 32))


def q6_k(data):
    block = Block(data)
    codes = planes(block.take(128), 4, 64) + 16 * planes(block.take(64), 2, 32)
    scales, d = spread(block.take(16, "i1"), 16), block.take(1, "f2")
    return block.done(d * scales * (codes - 32))


def iq4_nl(data):
    block = Block(data)
    d, codes = block.take(1, "f2"), halves(block.take(16))
    return block.done(d * IQ4_LEVELS[codes])


def iq4_xs(data):
    block = Block(data)
    d, high = block.take(1, "f2"), bits_of(block.take(1, "u2"), 2, 8)
    scales = bits_of(block.take(4), 4) | high << 4
    return block.done(d * spread(scales - 32, 32) * IQ4_LEVELS[halves(block.take(128))])


def tq1_0(data):
    block = Block(data)
    first, second, last = block.take(32), block.take(16), block.take(4)

    def digits(field, count):
        """Return the first base-3 digits of all bytes, then the second digits, etc."""
        parts = [(field * 3**n % 256) * 3 >> 8 for n in range(count)]
        return np.concatenate(parts, -1)

    codes = np.concatenate([digits(first, 5), digits(second, 5), digits(last, 4)], -1)
    return block.done(block.take(1, "f2") * (codes - 1))


def tq2_0(data):
    block = Block(data)
    codes = planes(block.take(64), 2, 32)
    return block.done(block.take(1, "f2") * (codes - 1))


def mxfp4(data):
    block = Block(data)
    d = np.ldexp(1.0, block.take(1) - 128)
    return block.done(d * E2M1_TWICE[halves(block.take(16))])


def ue4m3(code):
    """Decode an NVFP4 scale and halve it. 0x7F gives 0 and 0xFF gives 240, like in ggml."""
    exponent, mantissa = code >> 3 & 15, code & 7
    value = np.where(
        exponent == 0, np.ldexp(mantissa, -9), np.ldexp(mantissa + 8.0, exponent - 10)
    )
    return np.where(code == 0x7F, 0, value) / 2


def nvfp4(data):
    block = Block(data)
    d = spread(ue4m3(block.take(4)), 16)
    return block.done(d * E2M1_TWICE[halves(block.take(32), 8)])


def q1_0(data):
    block = Block(data)
    d = block.take(1, "f2")
    return block.done(d * -signs_of(block.take(16)))


def q2_0(data):
    block = Block(data)
    d = block.take(1, "f2")
    return block.done(d * (bits_of(block.take(16), 2) - 1))


def with_grid(name, indices):
    """Replace each index by the elements of that grid entry."""
    return GRID[name][indices].reshape(len(indices), -1)


def iq2_xxs(data):
    block = Block(data)
    d, words = block.take(1, "f2"), block.take(16, "u4")
    grid = with_grid("iq2xxs", bits_of(words[:, 0::2], 8, 4))
    a = words[:, 1::2]
    signs = seven_signs(bits_of(a, 7, 4))
    return block.done(d * spread((a >> 28) + 0.5, 32) / 4 * grid * signs)


def iq2_xs(data):
    block = Block(data)
    d, words, scales = block.take(1, "f2"), block.take(32, "u2"), block.take(8)
    scales = spread(bits_of(scales, 4) + 0.5, 16) / 4
    return block.done(
        d * scales * with_grid("iq2xs", words & 511) * seven_signs(words >> 9)
    )


def iq2_s(data):
    block = Block(data)
    d, low, signs = block.take(1, "f2"), block.take(32), signs_of(block.take(32))
    high = bits_of(block.take(8), 2)
    scales = spread(bits_of(block.take(8), 4) + 0.5, 16) / 4
    return block.done(d * scales * with_grid("iq2s", low | high << 8) * signs)


def iq3_xxs(data):
    block = Block(data)
    d, indices, a = block.take(1, "f2"), block.take(64), block.take(8, "u4")
    scales = spread((a >> 28) + 0.5, 32) / 2
    return block.done(
        d * scales * with_grid("iq3xxs", indices) * seven_signs(bits_of(a, 7, 4))
    )


def iq3_s(data):
    block = Block(data)
    d, low, high = block.take(1, "f2"), block.take(64), bits_of(block.take(8), 1)
    signs = signs_of(block.take(32))
    scales = spread(1 + 2 * bits_of(block.take(4), 4), 32)
    return block.done(d * scales * with_grid("iq3s", low | high << 8) * signs)


def iq1_s(data):
    block = Block(data)
    d, low, high = block.take(1, "f2"), block.take(32), block.take(8, "u2")
    grid = with_grid("iq1s", low | bits_of(high, 3, 4) << 8)
    shifts = spread(np.where(high >> 15, -0.125, 0.125), 32)
    return block.done(d * spread(2 * (high >> 12 & 7) + 1, 32) * (grid + shifts))


def iq1_m(data):
    block = Block(data)
    low, high, scales = block.take(32), bits_of(block.take(16), 4), block.take(4, "u2")
    d = sum(scales[:, k] >> 12 << 4 * k for k in range(4))
    d = d.astype(np.uint16).view(np.float16).astype(float)[:, None]
    grid = with_grid("iq1s", low | (high & 7) << 8)
    shifts = spread(np.where(high & 8, -0.125, 0.125), 8)
    return block.done(d * spread(2 * bits_of(scales, 3, 4) + 1, 16) * (grid + shifts))


def quietly(function):
    """Decode without warnings. An infinite scale times 0 gives NaN."""

    def decode(data):
        with np.errstate(invalid="ignore"):
            return function(data)

    return decode


# Each function decodes uint8 (blocks, bytes) to float64 (blocks, elements).
DECODERS = {name: quietly(globals()[name.lower()]) for name in FORMATS}
