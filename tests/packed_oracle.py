"""The layouts of packed codes by their definitions, in Python's integers."""

import numpy as np

# Nibble i of a word of eight columns is this one, from the lowest on.
AWQ_COLUMNS = (0, 2, 4, 6, 1, 3, 5, 7)


def in_words(codes, bits):
    """A number in which code i counts 2**(bits * i), in digits of 32 bits."""
    number = sum(code * 2 ** (bits * i) for i, code in enumerate(codes))
    words = []
    for _ in range((len(codes) * bits + 31) // 32):
        number, word = divmod(number, 2**32)
        words.append(word)
    assert number == 0
    return words


def out_of_words(words, bits, count):
    number = sum(word * 2 ** (32 * k) for k, word in enumerate(words))
    codes = []
    for _ in range(count):
        number, code = divmod(number, 2**bits)
        codes.append(code)
    return codes


def in_awq(codes, bits):
    assert bits == 4
    words = []
    for c in range(0, len(codes), 8):
        eight = (list(codes[c : c + 8]) + [0] * 8)[:8]
        words.append(sum(eight[column] * 16**i for i, column in enumerate(AWQ_COLUMNS)))
    return words


def out_of_awq(words, bits, count):
    assert bits == 4
    codes = [None] * (8 * len(words))
    for c, word in enumerate(words):
        for i, column in enumerate(AWQ_COLUMNS):
            codes[8 * c + column] = word // 16**i % 16
    return codes[:count]


def in_halves(codes, bits):
    assert bits == 4
    data = []
    for c in range(0, len(codes), 32):
        block = (list(codes[c : c + 32]) + [0] * 32)[:32]
        data += [block[i] + 16 * block[i + 16] for i in range(16)]
    return data


def out_of_halves(data, bits, count):
    assert bits == 4
    codes = []
    for c in range(0, len(data), 16):
        codes += [byte % 16 for byte in data[c : c + 16]]
        codes += [byte // 16 for byte in data[c : c + 16]]
    return codes[:count]


def in_high_first(codes, bits):
    assert bits == 4
    pairs = [*codes, 0][: len(codes) + len(codes) % 2]
    return [16 * pairs[i] + pairs[i + 1] for i in range(0, len(pairs), 2)]


def out_of_high_first(data, bits, count):
    assert bits == 4
    return [half for byte in data for half in (byte // 16, byte % 16)][:count]


LAYOUTS = {
    "words": (np.uint32, in_words, out_of_words),
    "awq": (np.uint32, in_awq, out_of_awq),
    "halves": (np.uint8, in_halves, out_of_halves),
    "high-first": (np.uint8, in_high_first, out_of_high_first),
}


def _along(array, axis, convert, dtype):
    lines = np.moveaxis(array, axis, -1)
    count = int(np.prod(lines.shape[:-1]))
    rows = [convert(list(map(int, row))) for row in lines.reshape(count, lines.shape[-1])]
    width = len(convert([0] * lines.shape[-1]))
    made = np.array(rows, dtype).reshape(*lines.shape[:-1], width)
    return np.ascontiguousarray(np.moveaxis(made, -1, axis))


def packed(codes, layout, axis, bits):
    """Words of an array of uint8 codes."""
    dtype, pack, _ = LAYOUTS[layout]
    return _along(codes, axis, lambda row: pack(row, bits), dtype)


def unpacked(words, layout, axis, bits, count):
    """The uint8 codes, of which there are `count` along the axis."""
    _, _, unpack = LAYOUTS[layout]
    return _along(words, axis, lambda row: unpack(row, bits, count), np.uint8)
