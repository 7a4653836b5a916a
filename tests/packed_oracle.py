"""Pack and unpack codes bit by bit, to define the layouts of packed codes."""

import numpy as np

# For each layout: the dtype of a word, and the indices of the codes of a group in stored
# order. Each code is stored in the lowest free bits.
LAYOUTS = {
    "onnx": ("<u1", [0]),
    "words": ("<u4", [0]),
    "awq": ("<u4", [0, 2, 4, 6, 1, 3, 5, 7]),
    "halves": ("<u1", [i // 2 + i % 2 * 16 for i in range(32)]),
    "high-first": ("<u1", [1, 0]),
    "packbits": ("<u1", [7, 6, 5, 4, 3, 2, 1, 0]),
}


def _padded(rows, multiple):
    """Append zeros to rows until their length is divisible by `multiple`."""
    zeros = np.zeros((*rows.shape[:-1], -rows.shape[-1] % multiple), np.uint8)
    return np.concatenate([rows, zeros], -1)


def _in_order(rows, order):
    """Permute the codes of each group into the stored order."""
    groups = rows.reshape(*rows.shape[:-1], rows.shape[-1] // len(order), len(order))
    return groups[..., order].reshape(rows.shape)


def pack_rows(rows, bits, word="<u4", order=(0,)):
    """Pack the codes of each row into words of a type, in the order of a layout."""
    rows = _in_order(_padded(rows.astype(np.uint8), len(order)), order)
    stream = (rows[..., None] >> np.arange(bits, dtype=np.uint8) & 1).astype(np.uint8)
    stream = stream.reshape(*rows.shape[:-1], rows.shape[-1] * bits)
    stream = _padded(stream, 8 * np.dtype(word).itemsize)
    return np.packbits(stream, -1, "little").view(word)


def packed(codes, layout, axis, bits):
    """Pack uint8 codes into words along an axis. The ONNX layout ignores the axis."""
    if layout == "onnx":
        return pack_rows(codes.reshape(-1), bits, *LAYOUTS[layout])
    words = pack_rows(np.moveaxis(codes, axis, -1), bits, *LAYOUTS[layout])
    return np.moveaxis(words, -1, axis).copy("C")


def unpacked(words, layout, axis, bits, shape):
    """Unpack words into uint8 codes of a shape. The ONNX layout ignores the axis."""
    word, order = LAYOUTS[layout]
    count = int(np.prod(shape)) if layout == "onnx" else shape[axis]
    lines = words if layout == "onnx" else np.moveaxis(words, axis, -1)
    lines = lines.astype(word, order="C")
    stream = np.unpackbits(lines.view(np.uint8), -1, bitorder="little")
    groups = stream.shape[-1] // (bits * len(order))
    stream = stream[..., : groups * bits * len(order)]
    rows = stream.reshape(*lines.shape[:-1], groups * len(order), bits)
    rows = (rows << np.arange(bits, dtype=np.uint8)).sum(-1, dtype=np.uint8)
    rows = _in_order(rows, np.argsort(order))[..., :count]
    return (
        rows.reshape(shape) if layout == "onnx" else np.moveaxis(rows, -1, axis).copy("C")
    )
