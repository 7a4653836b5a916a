# SPDX-License-Identifier: Apache-2.0
"""Quantize and dequantize weights in the layouts of model files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from tempfile import mkdtemp
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

import pyquant as pq
from benchmarks.arrays import Array
from benchmarks.rivals import Candidate, bitsandbytes, compressed_tensors, mlx
from benchmarks.tasks._task import Made, Task, normal
from pyquant._codebooks import TABLES

SIZES = (1 << 20,)
GROUPS = ("weights",)
# The number of inputs, and a divisor of the number of outputs. All formats accept these
# sizes.
INPUTS = 1024
OUTPUTS = 8
# The number of inputs that share a scale: in published formats, and with a codebook.
GROUP = 128
BLOCK = 64
SHIFTS = np.arange(0, 32, 4, dtype=np.uint32)
BOOKS: tuple[Literal["nf4", "fp4_bnb", "dynamic8"], ...] = ("nf4", "fp4_bnb", "dynamic8")

Rivals: TypeAlias = dict[str, Callable[[], Candidate]]


def _matrix(n: int) -> Array:
    """Return a matrix of normal numbers with a row for each output."""
    outputs = n // INPUTS // OUTPUTS * OUTPUTS
    return normal(outputs * INPUTS).reshape(outputs, INPUTS)


def _scales(x: Array, size: int, codes: int) -> Array:
    """Return the scale of each group of inputs, from its largest magnitude."""
    groups = np.abs(x.reshape(len(x), -1, size)).max(2)
    return np.asarray(groups / np.float32(codes))


def _made(
    x: Array,
    bits: int,
    call: Callable[[], Any],
    rivals: Rivals,
    read: Callable[[Any], Array] = np.asarray,
) -> Made:
    """Describe a call that converts between `x` and codes of `bits` bits."""
    return Made(x.size, x.nbytes + x.size * bits // 8, call, read, rivals)


# ---- codebooks ----


def _nearest(x: Array, scale: Array, book: str) -> Candidate:
    """Return a call that finds the closest entry of a codebook with `searchsorted`."""
    table = TABLES[book]
    order = np.argsort(table, kind="stable").astype(
        np.uint8
    )  # the indices of the entries in ascending order
    middles = (table[order][1:] + table[order][:-1]) / np.float32(2)
    numbers = x.reshape(*scale.shape, BLOCK)
    return Candidate(
        lambda: order[np.searchsorted(middles, numbers / scale[..., np.newaxis])],
        lambda codes: np.asarray(codes.reshape(x.shape)),
    )


def _taken(codes: Array, scale: Array, book: str) -> Candidate:
    table, grouped = TABLES[book], codes.reshape(*scale.shape, BLOCK)
    return Candidate(
        lambda: table[grouped] * scale[..., np.newaxis],
        lambda numbers: np.asarray(numbers.reshape(codes.shape)),
    )


def _to_places(n: int, book: str) -> Made:
    x = _matrix(n)
    scale = _scales(x, BLOCK, 1)
    out = np.empty(x.shape, np.uint8)
    how: Any = {"axis": 1, "block_size": BLOCK, "codebook": book, "out": out}
    rivals: Rivals = {"numpy": partial(_nearest, x, scale, book)}
    return _made(x, 8, lambda: pq.quantize(x, scale, **how), rivals)


def _to_numbers(n: int, book: str) -> Made:
    x = _matrix(n)
    scale = _scales(x, BLOCK, 1)
    how: Any = {"axis": 1, "block_size": BLOCK, "codebook": book}
    codes = pq.quantize(x, scale, dtype="uint8", **how)
    y = np.empty_like(x)
    rivals: Rivals = {"numpy": partial(_taken, codes, scale, book)}
    return _made(x, 8, lambda: pq.dequantize(codes, scale, out=y, **how), rivals)


# ---- published formats, with codes of 4 bits ----


class Packing(NamedTuple):
    """The positions of codes in words of 32 bits."""

    groups: int  # The axis along which GROUP elements share a scale.
    words: int  # The axis along which eight codes share a word.
    order: tuple[int, ...] = tuple(range(8))  # The codes of a word, from its low bits.


ROWS = Packing(1, 1)
PACKINGS = {"gptq": Packing(0, 0), "awq": Packing(0, 1, (0, 2, 4, 6, 1, 3, 5, 7))}


def _packed(codes: Array, packing: Packing) -> Array:
    words: Any = np.uint32(0)
    for place, shift in zip(packing.order, SHIFTS, strict=True):
        part = codes[place::8] if packing.words == 0 else codes[:, place::8]
        words = words | part.astype(np.uint32) << shift
    return np.asarray(words)


def _unpacked(words: Array, packing: Packing) -> Array:
    shifts = SHIFTS[np.argsort(packing.order)]
    given = words.view(np.uint32)
    if packing.words == 0:
        codes = given[:, np.newaxis, :] >> shifts[:, np.newaxis] & np.uint32(15)
        return codes.reshape(-1, words.shape[1])
    codes = given[..., np.newaxis] >> shifts & np.uint32(15)
    return codes.reshape(len(words), -1)


def _packed_by_numpy(x: Array, scale: Array, packing: Packing) -> Candidate:
    """Return a call that quantizes with the zero point 8, and packs the codes."""

    def call() -> Array:
        by = np.repeat(scale, GROUP, packing.groups)
        return _packed(np.clip(np.rint((x + 8 * by) / by), 0, 15), packing)

    return Candidate(call)


def _numbers_by_numpy(words: Array, scale: Array, packing: Packing) -> Candidate:
    """Return a call that unpacks codes, and dequantizes them with the zero point 8."""

    def call() -> Array:
        codes = _unpacked(words, packing).astype(np.float32) - np.float32(8)
        return np.asarray(codes * np.repeat(scale, GROUP, packing.groups))

    return Candidate(call, np.transpose if packing.groups == 0 else np.asarray)


class Weight(NamedTuple):
    """A matrix, the call of pyquant that quantizes it, and rivals in both directions."""

    x: Array  # a row for each output
    quantize: Callable[[], Any]
    quantizers: Rivals
    dequantizers: Rivals


def _bitsandbytes(n: int, quant_type: Any) -> Weight:
    x = _matrix(n)
    return Weight(
        x,
        partial(pq.weights.bitsandbytes.quantize, x, quant_type=quant_type),
        {"bitsandbytes": partial(bitsandbytes.quantized, x, quant_type)},
        {"bitsandbytes": partial(bitsandbytes.dequantized, x, quant_type)},
    )


def _inputs_first(n: int, name: str, **options: Any) -> Weight:
    """Return a matrix that is stored in memory with a row for each input."""
    x = np.ascontiguousarray(_matrix(n).T)
    scale, packing = np.ascontiguousarray(_scales(x.T, GROUP, 7).T), PACKINGS[name]
    pack, zero = getattr(pq.weights, name).pack, np.full(scale.shape, 8, np.uint8)
    call = partial(pack, x.T, scale, zero, **options)
    words = call().tensors()["qweight"]
    return Weight(
        x.T,
        call,
        {"numpy": partial(_packed_by_numpy, x, scale, packing)},
        {"numpy": partial(_numbers_by_numpy, words, scale, packing)},
    )


def _by_onnxruntime(x: Array) -> Candidate:
    """Return a call of the 4-bit encoder, which has no public name."""
    state = import_module("onnxruntime.capi._pybind_state")
    made = pq.weights.matmulnbits.quantize(x, block_size=GROUP).tensors()
    B, scales = (np.zeros_like(made[name]) for name in ("B", "scales"))
    zeros = np.zeros((x.shape[0], -(-scales.shape[1] // 2)), np.uint8)
    given = np.ascontiguousarray(x.T)

    def call() -> Array:
        encode = state.quantize_matmul_4bits
        encode(B, given, scales, zeros, GROUP, *x.shape, True)
        return B

    return Candidate(call)


def _matmulnbits(n: int) -> Weight:
    x = _matrix(n)
    call = partial(pq.weights.matmulnbits.quantize, x, block_size=GROUP)
    B, scales = call().tensors().values()
    words = B.reshape(len(x), -1).view(np.uint32)
    return Weight(
        x,
        call,
        {"onnxruntime": partial(_by_onnxruntime, x)},
        {"numpy": partial(_numbers_by_numpy, words, scales, ROWS)},
    )


def _compressed_tensors(n: int) -> Weight:
    x = _matrix(n)
    scale = _scales(x, GROUP, 7)
    call = partial(pq.weights.compressed_tensors.quantize, x, scale)
    words = call().tensors()["weight_packed"]
    return Weight(
        x,
        call,
        {
            "numpy": partial(_packed_by_numpy, x, scale, ROWS),
            "compressed_tensors": partial(compressed_tensors.packed, x, scale, GROUP),
        },
        {
            "numpy": partial(_numbers_by_numpy, words, scale, ROWS),
            "compressed_tensors": partial(compressed_tensors.unpacked, words, scale, GROUP),
        },
    )


def _mlx(n: int) -> Weight:
    x = _matrix(n)
    return Weight(
        x,
        partial(pq.weights.mlx.quantize, x),
        {"mlx": partial(mlx.quantized, x)},
        {"mlx": partial(mlx.dequantized, x)},
    )


FORMATS: dict[str, Callable[[int], Weight]] = {
    "bitsandbytes-nf4": partial(_bitsandbytes, quant_type="nf4"),
    "bitsandbytes-fp4": partial(_bitsandbytes, quant_type="fp4"),
    "gptq": partial(_inputs_first, name="gptq", bits=4, format="gptq_v2"),
    "awq": partial(_inputs_first, name="awq"),
    "matmulnbits": _matmulnbits,
    "compressed_tensors": _compressed_tensors,
    "mlx": _mlx,
}


def _codes(weight: Any) -> Array:
    """Return the first tensor of a weight, which contains the codes."""
    return np.asarray(next(iter(weight.tensors().values())))


def _quantize(n: int, name: str) -> Made:
    weight = FORMATS[name](n)
    return _made(weight.x, 4, weight.quantize, weight.quantizers, _codes)


def _dequantize(n: int, name: str) -> Made:
    weight = FORMATS[name](n)
    call = partial(weight.quantize().dequantize, out=np.empty_like(weight.x))
    return _made(weight.x, 4, call, weight.dequantizers)


# ---- words of codes of any number of bits ----


def _packed_words(codes: Array, bits: int) -> Array:
    """Pack codes with NumPy."""
    each = np.unpackbits(codes[..., np.newaxis], -1, bits, "little")
    flat = each.reshape(len(codes), -1)
    return np.packbits(flat, -1, "little").view(np.uint32)


def _unpacked_words(words: Array, bits: int) -> Array:
    """Unpack codes with NumPy."""
    each = np.unpackbits(words.view(np.uint8), -1, bitorder="little")
    codes = np.packbits(each.reshape(-1, bits), -1, "little")
    return codes.reshape(len(words), -1)


def _words(n: int, bits: int) -> tuple[Array, pq.PackedArray]:
    shape = _matrix(n).shape
    codes = np.random.default_rng(0).integers(0, 1 << bits, shape, np.uint8)
    return codes, pq.pack(codes, pq.Layout("words", axis=1, bits=bits))


def _to_words(n: int, bits: int) -> Made:
    codes, _ = _words(n, bits)
    return Made(
        n,
        n + n * bits // 8,
        lambda: pq.pack(codes, pq.Layout("words", axis=1, bits=bits)),
        lambda packed: np.asarray(packed.data).view(np.uint32),
        {"numpy": lambda: Candidate(lambda: _packed_words(codes, bits))},
    )


def _of_words(n: int, bits: int) -> Made:
    _, packed = _words(n, bits)
    words = np.asarray(packed.data)
    return Made(
        n,
        n + n * bits // 8,
        lambda: pq.unpack(packed),
        rivals={"numpy": lambda: Candidate(lambda: _unpacked_words(words, bits))},
    )


# ---- rows of embedding tables ----


def _stored(x: Array, name: str) -> Any:
    """Return an embedding table as a tensor of a GGUF file, or as a weight of MLX."""
    if name in ("Q8_0", "Q4_K"):
        path = f"{mkdtemp()}/table.gguf"
        pq.write_weights(
            path, {"w": (name, pq.weights.blocks.block_format(name).quantize(x))}
        )
        return pq.open_weights(path)["w"]
    return pq.weights.mlx.quantize(x, bits=int(name.removeprefix("int")))


def _table(n: int, name: str, contiguous: bool) -> Made:
    """Dequantize an eighth of the rows of a table: random rows, or the first rows."""
    x = _matrix(n)
    table, count = _stored(x, name), len(x) // 8
    index: Any = np.random.default_rng(0).permutation(len(x))[:count]
    index = slice(0, count) if contiguous else index
    out = np.empty((count, INPUTS), np.float32)
    call = partial(table.dequantize, index, out=out)
    return Made(out.size, out.nbytes, call)


TASKS = [
    Task(f"{verb}-{book}", partial(build, book=book), SIZES, GROUPS)
    for book in BOOKS
    for verb, build in (("quantize", _to_places), ("dequantize", _to_numbers))
]
TASKS += [
    Task(f"{verb}-{name}", partial(build, name=name), SIZES, GROUPS)
    for name in FORMATS
    for verb, build in (("quantize", _quantize), ("dequantize", _dequantize))
]
TASKS += [
    Task(f"{verb}-words{bits}", partial(build, bits=bits), SIZES, GROUPS)
    for bits in (1, 3, 4)
    for verb, build in (("pack", _to_words), ("unpack", _of_words))
]
TASKS += [
    Task(f"{'slice' if contiguous else 'rows'}-{name}", build, SIZES, GROUPS)
    for name in ("Q8_0", "Q4_K", "int8", "int4")
    for contiguous in (False, True)
    for build in (partial(_table, name=name, contiguous=contiguous),)
]
