# SPDX-License-Identifier: Apache-2.0
"""Read and write GPTQ weights, as AutoGPTQ and GPTQModel store them.

For K inputs and N outputs a layer has these tensors:

- ``qweight`` of shape (K * bits / 32, N): a stream of codes along the inputs, the first in
  the low bits of a word. In format "gptq_p", 32 codes have `bits` words: for 3 bits the low
  two bits of all codes, then the third; for 5, 6 and 7 bits the low four, then the
  remaining 1, 2 or 3 bits.
- ``qzeros`` of shape (groups, N * bits / 32): zero points, packed along the outputs.
  Format "gptq" stores them minus 1; "gptq_v2" and "gptq_p" store them unchanged.
- ``scales`` of shape (groups, N).
- ``g_idx`` of shape (K,), optional: the group of each input. Without it, or with -1 for all
  inputs, inputs are in the order of their groups.

Values are ``(code - zero_point) * scale``. Codes have 2, 3, 4 or 8 bits; in format "gptq_p"
also 5, 6 or 7.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from pyquant import _core
from pyquant._standard import listed
from pyquant.packed import Layout, PackedArray, unpack
from pyquant.weights import _weight
from pyquant.weights._weight import Planar, Weight

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from pyquant._typing import ArrayLike

    _Format = Literal["gptq", "gptq_v2", "gptq_p"]

__all__ = ["from_tensors", "pack"]

_TENSORS = ("qweight", "qzeros", "scales", "g_idx")
_BITS = (2, 3, 4, 8)
_FORMATS = ("gptq", "gptq_v2", "gptq_p")
# The bits of each plane by width of the codes, the lowest first.
_PLANES = {2: (2,), 3: (2, 1), 4: (4,), 5: (4, 1), 6: (4, 2), 7: (4, 2, 1), 8: (8,)}


def __dir__() -> list[str]:
    return sorted(__all__)


@_core.hinted
def from_tensors(
    tensors: Mapping[str, Any],
    name: str = "",
    *,
    format: _Format | None = None,
    group_size: SupportsIndex | None = None,
    wrap: bool = False,
) -> Weight:
    """
    Return a weight from the tensors of a GPTQ layer.

    Parameters
    ----------
    tensors : mapping
        Names to arrays: ``qweight`` and ``qzeros`` of int32 or uint32, ``scales`` of
        float16, float32 or bfloat16, and ``g_idx`` of int32 or int64, if the layer has it;
        or arrays of several experts along a first axis.
    name : str, optional
        Name of the layer, without the last part of the names. Default: no name.
    format : {"gptq", "gptq_v2", "gptq_p"}, optional
        Format of the zero points. Default: the format that makes all of them the middle of
        the codes, as in symmetric weights; or "gptq_p" for 5, 6 or 7 bits.
    group_size : int, optional
        Number of inputs in a group. Default: the size of ordered groups in ``g_idx``; else
        the only size, or else the only power of two, that makes as many groups.
    wrap : bool, optional
        For format "gptq". True: a stored ``2**bits - 1`` means 0. By default it raises an
        error, because readers that add 1 without a mask read ``2**bits``.

    Returns
    -------
    Weight
        The weight. It refers to the arrays.

    Raises
    ------
    TypeError, ValueError
        If an argument or a tensor is wrong, or if `format` is necessary.

    Notes
    -----
    ``checkpoint_format`` in ``quantize_config.json`` is not always correct.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import gptq
    >>> qweight, scales = np.full((2, 8), 0x76543210, np.int32), np.ones((1, 8), np.float16)
    >>> qzeros = np.full((1, 1), 0x77777777, np.int32)
    >>> w = gptq.from_tensors({"qweight": qweight, "qzeros": qzeros, "scales": scales})
    >>> w
    Weight(format='gptq', shape=(8, 16), bits=4, block_size=16)
    >>> w.dequantize()[0, :8].tolist()
    [-8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0]
    """
    kind = None if format is None else _weight.one_of(format, "format", _FORMATS)
    wrap = _weight.flag_of(wrap, "wrap")
    read = partial(_read, kind=kind, group_size=group_size, wrap=wrap)
    return _weight.make(read, tensors, name, _TENSORS[:3], _TENSORS[3:])


def _read(
    qweight: Any,
    qzeros: Any,
    scales: Any,
    g_idx: Any = None,
    *,
    kind: str | None,
    group_size: SupportsIndex | None,
    wrap: bool,
) -> tuple[str, dict[str, npt.NDArray[Any]], Planar]:
    """Check that all tensors match."""
    words = _weight.word_array(qweight, "qweight")
    zeros = _weight.word_array(qzeros, "qzeros")
    scale = _weight.numbers_of(scales, "scales")
    rows, outputs = _weight.matrix_of(words, "qweight")
    groups, _ = _weight.matrix_of(scale, "scales")
    _weight.check_shape(scale, "scales", (groups, outputs))
    columns = _weight.matrix_of(zeros, "qzeros")[1]
    bits = columns * 32 // max(1, outputs)
    if zeros.shape != (groups, outputs * bits // 32) or bits not in _widths(kind):
        some = listed(map(str, _widths(kind)))
        msg = (
            f"qzeros: expected shape ({groups}, {outputs} * bits / 32) for {some} bits, "
            f"got {zeros.shape}"
        )
        raise ValueError(msg)
    if rows * 32 % bits:
        msg = f"qweight: expected rows of whole codes of {bits} bits, got {rows}"
        raise ValueError(msg)
    inputs = rows * 32 // bits
    kind = kind or _detected(zeros, bits)
    _check_extents(inputs, outputs, bits, kind, "qweight")
    given = _weight.order_of(g_idx, "g_idx", inputs, groups)
    size = _weight.blocks_of(inputs, groups, group_size, "scales", given)
    order = _weight.groups_of(given, groups, size)
    codes: Any
    zero: Any
    if kind == "gptq_p" and len(_PLANES[bits]) > 1:
        codes = _Planes(words, bits)
        zero = _Planes(np.ascontiguousarray(zeros.T), bits)[:].T
    else:
        form = (inputs, outputs)
        layout = Layout("words", axis=0, bits=bits)
        codes = PackedArray(words, "uint8", form, layout=layout)
        layout = Layout("words", bits=bits)
        zero = PackedArray(zeros, "uint8", scale.shape, layout=layout)
    if kind == "gptq":
        zero = _one_more(_weight.small_codes(zero), bits, wrap)
    tensors = _weight.by_name(_TENSORS, words, zeros, scale, given)
    return kind, tensors, Planar(codes, bits, 0, inputs, scale, zero, size, order)


@_core.default_fpenv
def pack(
    x: ArrayLike,
    scales: ArrayLike,
    zeros: ArrayLike,
    g_idx: ArrayLike | None = None,
    *,
    bits: SupportsIndex,
    format: _Format,
    group_size: SupportsIndex | None = None,
    wrap: bool = False,
    threads: SupportsIndex = 1,
) -> Weight:
    """
    Quantize and pack a weight with given scales and zero points.

    Parameters
    ----------
    x : array_like
        Real numbers of shape (N, K): a row for each output.
    scales : array_like
        float16, float32 or bfloat16 of shape (groups, N).
    zeros : array_like
        Zero points: integers from 0 to ``2**bits - 1``, with the shape of `scales`.
    g_idx : array_like, optional
        int32 of shape (K,): the group of each input. Default, or -1 for all inputs: inputs
        in the order of groups.
    bits : int
        2, 3, 4 or 8; also 5, 6 and 7 in format "gptq_p".
    format : {"gptq", "gptq_v2", "gptq_p"}
        Format of the zero points, see `from_tensors`.
    group_size : int, optional
        Number of inputs in a group. Default: see `from_tensors`.
    wrap : bool, optional
        For format "gptq". True: store a zero point of 0 as ``2**bits - 1``. Default: it
        raises an error.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on it.

    Returns
    -------
    Weight
        The packed weight, with ``g_idx``.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong.

    Notes
    -----
    ``round_half_even((x + zero * scale) / scale)``, each step rounded to float32 (to
    float64 if `x` is float64), like AutoGPTQ. Values out of range become the nearest code.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import gptq
    >>> x = np.tile(np.arange(-4, 4, dtype=np.float32), (32, 4))
    >>> scales, zeros = np.ones((1, 32), np.float16), np.full((1, 32), 4)
    >>> w = gptq.pack(x, scales, zeros, bits=3, format="gptq_v2")
    >>> [f"{word:x}" for word in w.tensors()["qweight"][:, 0].view(np.uint32)]
    ['88fac688', 'c688fac6', 'fac688fa']
    """
    kind = _weight.one_of(format, "format", _FORMATS)
    width: int = _weight.one_of(bits, "bits", _widths(kind))
    array = _weight.reals_of(x, "x")
    outputs, inputs = _weight.matrix_of(array, "x")
    _check_extents(inputs, outputs, width, kind, "x")
    scale = _weight.numbers_of(scales, "scales")
    groups, _ = _weight.matrix_of(scale, "scales")
    _weight.check_shape(scale, "scales", (groups, outputs))
    zero = _weight.integers_of(zeros, "zeros", width)
    _weight.check_shape(zero, "zeros", (groups, outputs))
    given = _weight.order_of(g_idx, "g_idx", inputs, groups)
    size = _weight.blocks_of(inputs, groups, group_size, "scales", given)
    order = _weight.groups_of(given, groups, size)
    stored = _stored(zero, kind, width, _weight.flag_of(wrap, "wrap"), "zeros")
    words = _weight.words_by(array.T, scale, zero, width, size, order, "words", 0, threads)
    return _made(words, stored, scale, order, width, kind, size, wrap)


def _converted(made: Planar, *, format: str, wrap: bool = False) -> Weight:
    _weight.check_width(made, _widths(format), format)
    _weight.refuse_bias(made, format)
    _check_extents(made.inputs, made.outputs, made.bits, format, "weight")
    scale, zeros = _weight.along(made, 0)
    stored = _stored(zeros, format, made.bits, _weight.flag_of(wrap, "wrap"), "weight")
    words = _weight.repacked(made, axis=0, along=0)
    order, size = made.groups, made.block_size
    return _made(words, stored, scale, order, made.bits, format, size, wrap)


def _detected(zeros: npt.NDArray[np.int32], bits: int) -> str:
    """Return the format that stores the zero points of a symmetric weight."""
    if bits not in _BITS:
        return "gptq_p"
    words = zeros.reshape(-1)
    count = words.size * 32 // bits
    codes = PackedArray(words, "uint8", count, layout=Layout("words", bits=bits))
    stored = _weight.small_codes(codes)
    middle = 1 << (bits - 1)
    if count and (stored == middle - 1).all():
        return "gptq"
    if count and (stored == middle).all():
        return "gptq_v2"
    got = f"{int(stored.min())} to {int(stored.max())}" if count else "none"
    msg = (
        f"qzeros: expected {middle - 1} or {middle} for all zero points to tell the "
        f"format, got {got}; use format='gptq', 'gptq_v2' or 'gptq_p'"
    )
    raise ValueError(msg)


class _Planes:
    """Codes along the first axis, in bit planes of 32 codes."""

    def __init__(self, words: npt.NDArray[np.int32], bits: int) -> None:
        self.words = words
        self.bits = bits
        self.shape: tuple[int, ...] = (words.shape[0] // bits * 32, words.shape[1])

    def taken(self, outputs: Any) -> _Planes:
        return _Planes(self.words[:, outputs], self.bits)

    def __getitem__(self, part: slice) -> npt.NDArray[np.uint8]:
        """Return codes of complete groups of 32."""
        first, last, _ = part.indices(self.shape[0])
        count, outputs = (last - first) // 32, self.shape[1]
        words = self.words[first // 32 * self.bits : last // 32 * self.bits]
        words = words.view("<u4").reshape(count, self.bits, 1, outputs)
        codes = np.zeros((count * 32, outputs), np.uint8)
        low = 0
        for width in _PLANES[self.bits]:
            each = words[:, low : low + width] >> _shifts(width) & ((1 << width) - 1)
            codes |= each.astype(np.uint8).reshape(count * 32, outputs) << low
            low += width
        return codes


def _shifts(width: int) -> npt.NDArray[np.uint32]:
    return np.arange(0, 32, width, dtype=np.uint32)[:, np.newaxis]


def _in_planes(words: npt.NDArray[Any], bits: int) -> npt.NDArray[np.int32]:
    """Convert words of a stream along the first axis to planes of 32 codes."""
    rows, outputs = words.shape
    inputs = rows * 32 // bits
    layout = Layout("words", axis=0, bits=bits)
    stream = PackedArray(words, "uint8", (inputs, outputs), layout=layout)
    made = np.empty((inputs // 32, bits, outputs), "<u4")
    step = 64
    for first in range(0, inputs // 32, step):
        codes = unpack(stream[first * 32 : (first + step) * 32])
        low = 0
        for width in _PLANES[bits]:
            each = (codes >> low & ((1 << width) - 1)).astype("<u4")
            each = each.reshape(-1, width, 32 // width, outputs) << _shifts(width)
            plane = np.bitwise_or.reduce(each, axis=2)
            made[first : first + step, low : low + width] = plane
            low += width
    return made.reshape(rows, outputs).view("<i4")


def _widths(kind: str | None) -> tuple[int, ...]:
    return _BITS if kind in ("gptq", "gptq_v2") else tuple(_PLANES)


def _check_extents(inputs: int, outputs: int, bits: int, kind: str, name: str) -> None:
    """Check that codes fill words, and planes of 32 codes."""
    least = 1 if kind == "gptq_p" and len(_PLANES[bits]) > 1 else bits
    _weight.check_whole(inputs, least, name, "inputs", f"{bits} bits")
    _weight.check_whole(outputs, least, name, "outputs", f"{bits} bits")


def _one_more(
    stored: npt.NDArray[np.uint8], bits: int, wrap: bool
) -> npt.NDArray[np.uint8]:
    """Add 1 to stored zero points."""
    most = np.uint8((1 << bits) - 1)
    if not wrap and (stored == most).any():
        place = tuple(np.argwhere(stored == most)[0].tolist())
        msg = (
            f"qzeros: expected at most {most - 1} in format 'gptq' without wrap=True, got "
            f"{most} at {place}"
        )
        raise ValueError(msg)
    return stored + np.uint8(1) & most


def _stored(
    zeros: npt.NDArray[np.uint8], kind: str, bits: int, wrap: bool, name: str
) -> npt.NDArray[np.uint8]:
    """Return zero points as a format stores them."""
    if kind != "gptq":
        return zeros
    if not wrap and not zeros.all():
        place = tuple(np.argwhere(zeros == 0)[0].tolist())
        msg = f"{name}: expected zero points from 1 for format 'gptq', got 0 at {place}"
        raise ValueError(msg)
    return zeros - np.uint8(1) & np.uint8((1 << bits) - 1)


def _made(
    words: npt.NDArray[Any],
    stored: npt.NDArray[np.uint8],
    scale: npt.NDArray[Any],
    order: npt.NDArray[np.int64] | None,
    bits: int,
    kind: Any,
    size: int,
    wrap: bool,
) -> Weight:
    """Build the weight from words of streams."""
    inputs = len(words) * 32 // bits
    if order is None:
        order = np.arange(inputs) // size
    if kind == "gptq_p" and len(_PLANES[bits]) > 1:
        words = _in_planes(words, bits)
        turned = np.ascontiguousarray(_weight.dense(stored.T, bits, "words", 0))
        zeros = np.ascontiguousarray(_in_planes(turned, bits).T)
    else:
        zeros = _weight.dense(stored, bits, "words", 1)
    tensors = _weight.by_name(_TENSORS, words, zeros, scale, order.astype(np.int32))
    return from_tensors(tensors, format=kind, group_size=size, wrap=wrap)
