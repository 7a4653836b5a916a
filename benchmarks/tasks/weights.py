# SPDX-License-Identifier: Apache-2.0
"""Quantize and dequantize weights in the layouts of model files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from tempfile import mkdtemp
from typing import Any, Literal, TypeAlias

import numpy as np

import pyquant as pq
from benchmarks.arrays import Array
from benchmarks.rivals import Candidate, bitsandbytes, compressed_tensors, mlx
from benchmarks.tasks._task import Made, Task, normal
from pyquant._codebooks import TABLES

SIZES = (1 << 20,)
GROUPS = ("weights",)
INPUTS = 1024  # of each output; all layouts accept these sizes
OUTPUTS = 8
GROUP = 128  # inputs that share a scale
BLOCK = 64  # inputs that share a scale, for codebooks
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # order of the nibbles of a word
SHIFTS = np.arange(0, 32, 4, dtype=np.uint32)
BOOKS: tuple[Literal["nf4", "fp4_bnb", "dynamic8"], ...] = ("nf4", "fp4_bnb", "dynamic8")

Build: TypeAlias = Callable[[int], Made]


def _matrix(n: int) -> Array:
    """Return normal numbers, one row for each output."""
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
    read: Callable[[Any], Array] = np.asarray,
    **rivals: Callable[[], Candidate],
) -> Made:
    """Describe a call that converts between `x` and codes of `bits` bits."""
    return Made(x.size, x.nbytes + x.size * bits // 8, call, read, rivals)


# ---- codebooks ----


def _nearest(x: Array, scale: Array, book: str) -> Candidate:
    """Find the closest table entry with `searchsorted`."""
    table = TABLES[book]
    order = np.argsort(table, kind="stable").astype(
        np.uint8
    )  # the indices of the sorted entries
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
    rival = partial(_nearest, x, scale, book)
    return _made(x, 8, lambda: pq.quantize(x, scale, **how), numpy=rival)


def _to_numbers(n: int, book: str) -> Made:
    x = _matrix(n)
    scale = _scales(x, BLOCK, 1)
    how: Any = {"axis": 1, "block_size": BLOCK, "codebook": book}
    codes = pq.quantize(x, scale, dtype="uint8", **how)
    y = np.empty_like(x)
    rival = partial(_taken, codes, scale, book)
    return _made(x, 8, lambda: pq.dequantize(codes, scale, out=y, **how), numpy=rival)


def _to_bitsandbytes(n: int, quant_type: str) -> Made:
    x = _matrix(n)
    rival = partial(bitsandbytes.quantized, x, quant_type)
    return _made(
        x,
        4,
        lambda: pq.weights.bitsandbytes.quantize(x, quant_type=quant_type),
        lambda made: np.asarray(made.tensors()["weight"]).reshape(-1),
        bitsandbytes=rival,
    )


def _of_bitsandbytes(n: int, quant_type: str) -> Made:
    x = _matrix(n)
    q, y = pq.weights.bitsandbytes.quantize(x, quant_type=quant_type), np.empty_like(x)
    rival = partial(bitsandbytes.dequantized, x, quant_type)
    return _made(x, 4, lambda: q.dequantize(out=y), bitsandbytes=rival)


# ---- integers in words ----


def _spread(parameters: Array, axis: int) -> Array:
    return np.asarray(np.repeat(parameters, GROUP, axis))


def _packed(codes: Array, axis: int, order: tuple[int, ...] = tuple(range(8))) -> Array:
    """Pack eight codes into a word along an axis."""
    words: Any = np.uint32(0)
    for place, shift in zip(order, SHIFTS, strict=True):
        part = codes[place::8] if axis == 0 else codes[:, place::8]
        words = words | part.astype(np.uint32) << shift
    return np.asarray(words)


def _unpacked(words: Array, axis: int, order: tuple[int, ...] = tuple(range(8))) -> Array:
    shifts = SHIFTS[np.argsort(order)]
    given = words.view(np.uint32)
    if axis == 0:
        codes = given[:, np.newaxis, :] >> shifts[:, np.newaxis] & np.uint32(15)
        return codes.reshape(-1, words.shape[1])
    codes = given[..., np.newaxis] >> shifts & np.uint32(15)
    return codes.reshape(len(words), -1)


def _packed_by_numpy(
    x: Array, scale: Array, zero: int, axis: int, along: int, order: tuple[int, ...]
) -> Candidate:
    """Return a call that packs codes into words along `along`, with groups along `axis`."""

    def call() -> Array:
        by = _spread(scale, axis)
        codes = np.clip(np.rint((x + zero * by) / by), 0, 15)
        return _packed(codes, along, order)

    return Candidate(call)


def _numbers_by_numpy(
    words: Array, scale: Array, zero: int, axis: int, along: int, order: tuple[int, ...]
) -> Candidate:
    def call() -> Array:
        codes = _unpacked(words, along, order).astype(np.float32)
        return np.asarray((codes - np.float32(zero)) * _spread(scale, axis))

    return Candidate(call)


PLAIN = tuple(range(8))
# For weights with inputs first: the axis of packed codes, and their order.
FIRST = {"gptq": (0, PLAIN), "awq": (1, AWQ_ORDER)}


def _first(n: int, name: str) -> tuple[Array, Array, Callable[[], Any]]:
    """Return weights and scales, inputs first, and a function that packs codes."""
    x = np.ascontiguousarray(_matrix(n).T)
    scale = np.ascontiguousarray(_scales(x.T, GROUP, 7).T)
    zero = np.full(scale.shape, 8, np.uint8)
    if name == "awq":
        return x, scale, lambda: pq.weights.awq.pack(x.T, scale, zero)
    how: Any = {"bits": 4, "format": "gptq_v2"}
    return x, scale, lambda: pq.weights.gptq.pack(x.T, scale, zero, **how)


def _to_first(n: int, name: str) -> Made:
    x, scale, call = _first(n, name)
    rival = partial(_packed_by_numpy, x, scale, 8, 0, *FIRST[name])
    return _made(x, 4, call, lambda w: np.asarray(w.tensors()["qweight"]), numpy=rival)


def _of_first(n: int, name: str) -> Made:
    x, scale, call = _first(n, name)
    w, y = call(), np.empty_like(x)
    words = w.tensors()["qweight"]
    rival = partial(_numbers_by_numpy, words, scale, 8, 0, *FIRST[name])
    return _made(x, 4, lambda: w.dequantize(out=y.T).T, numpy=rival)


def _by_onnxruntime(x: Array, columns: Array) -> Candidate:
    """Return a call of the 4-bit encoder, which has no public name."""
    state = import_module("onnxruntime.capi._pybind_state")
    made = pq.weights.matmulnbits.quantize(x, block_size=GROUP).tensors()
    B, scales = (np.zeros_like(made[name]) for name in ("B", "scales"))
    zeros = np.zeros((x.shape[0], -(-scales.shape[1] // 2)), np.uint8)
    given = np.ascontiguousarray(columns)

    def call() -> Array:
        encode = state.quantize_matmul_4bits
        encode(B, given, scales, zeros, GROUP, *x.shape, True)
        return B

    return Candidate(call)


def _to_matmulnbits(n: int) -> Made:
    x = _matrix(n)
    return _made(
        x,
        4,
        lambda: pq.weights.matmulnbits.quantize(x, block_size=GROUP),
        lambda w: np.asarray(w.tensors()["B"]),
        onnxruntime=partial(_by_onnxruntime, x, x.T),
    )


def _of_matmulnbits(n: int) -> Made:
    x = _matrix(n)
    w, y = pq.weights.matmulnbits.quantize(x, block_size=GROUP), np.empty_like(x)
    B, scales = w.tensors().values()
    words = B.reshape(len(x), -1).view(np.uint32)
    rival = partial(_numbers_by_numpy, words, scales, 8, 1, 1, PLAIN)
    return _made(x, 4, lambda: w.dequantize(out=y), numpy=rival)


def _to_compressed_tensors(n: int) -> Made:
    x = _matrix(n)
    scale = _scales(x, GROUP, 7)
    return _made(
        x,
        4,
        lambda: pq.weights.compressed_tensors.quantize(x, scale),
        lambda w: np.asarray(w.tensors()["weight_packed"]),
        numpy=partial(_packed_by_numpy, x, scale, 8, 1, 1, PLAIN),
        compressed_tensors=partial(compressed_tensors.packed, x, scale, GROUP),
    )


def _of_compressed_tensors(n: int) -> Made:
    x = _matrix(n)
    scale = _scales(x, GROUP, 7)
    w, y = pq.weights.compressed_tensors.quantize(x, scale), np.empty_like(x)
    words = w.tensors()["weight_packed"]
    return _made(
        x,
        4,
        lambda: w.dequantize(out=y),
        numpy=partial(_numbers_by_numpy, words, scale, 8, 1, 1, PLAIN),
        compressed_tensors=partial(compressed_tensors.unpacked, words, scale, GROUP),
    )


def _to_mlx(n: int) -> Made:
    x = _matrix(n)
    rival = partial(mlx.quantized, x)

    def words(w: Any) -> Array:
        return np.asarray(w.tensors()["weight"])

    return _made(x, 4, lambda: pq.weights.mlx.quantize(x), words, mlx=rival)


def _of_mlx(n: int) -> Made:
    x = _matrix(n)
    w, y = pq.weights.mlx.quantize(x), np.empty_like(x)
    return _made(x, 4, lambda: w.dequantize(out=y), mlx=partial(mlx.dequantized, x))


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


# Tasks by name: to codes, and to numbers.
PAIRS: dict[str, tuple[Build, Build]] = {
    **{
        book: (partial(_to_places, book=book), partial(_to_numbers, book=book))
        for book in BOOKS
    },
    **{
        f"bitsandbytes-{kind}": (
            partial(_to_bitsandbytes, quant_type=kind),
            partial(_of_bitsandbytes, quant_type=kind),
        )
        for kind in ("nf4", "fp4")
    },
    **{
        name: (partial(_to_first, name=name), partial(_of_first, name=name))
        for name in FIRST
    },
    "matmulnbits": (_to_matmulnbits, _of_matmulnbits),
    "compressed_tensors": (_to_compressed_tensors, _of_compressed_tensors),
    "mlx": (_to_mlx, _of_mlx),
}
# ---- rows of embedding tables ----


def _stored(x: Array, name: str) -> Any:
    """Return a table in a file of blocks, or as a weight of a format and its bits."""
    if name in ("Q8_0", "Q4_K"):
        path = f"{mkdtemp()}/table.gguf"
        pq.write_weights(
            path, {"w": (name, pq.weights.blocks.block_format(name).quantize(x))}
        )
        return pq.open_weights(path)["w"]
    return pq.weights.mlx.quantize(x, bits=int(name.removeprefix("int")))


def _table(n: int, name: str, contiguous: bool) -> Made:
    """Read an eighth of the rows of a table, by their numbers or as a slice."""
    x = _matrix(n)
    table, count = _stored(x, name), len(x) // 8
    index: Any = np.random.default_rng(0).permutation(len(x))[:count]
    index = slice(0, count) if contiguous else index
    out = np.empty((count, INPUTS), np.float32)
    call = partial(table.dequantize, index, out=out)
    return Made(out.size, out.nbytes, call)


TASKS = [
    Task(f"{verb}-{name}", build, SIZES, GROUPS)
    for name, pair in PAIRS.items()
    for verb, build in zip(("quantize", "dequantize"), pair, strict=True)
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
