# SPDX-License-Identifier: Apache-2.0
"""Read and write GPTQ weights, as AutoGPTQ and GPTQModel store them.

Files store zero points in different ways, which `format` must name. "gptq" stores zero
points minus 1, and "gptq_v2" stores them unchanged. "gptq_p" also stores them unchanged,
with codes in bit planes.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from pyquant import _core
from pyquant.packed import PackedArray
from pyquant.weights import _planar

if TYPE_CHECKING:
    import numpy.typing as npt

    from pyquant._typing import ArrayLike
    from pyquant.weights.blocks import BlockFormat

    _Format = Literal["gptq", "gptq_v2", "gptq_p"]

__all__ = ["Weight", "convert", "dequantize", "detect", "quantize"]

_BITS = (2, 3, 4, 8)
_FORMATS = ("gptq", "gptq_v2", "gptq_p")
# The bits of each plane by width of the codes, the lowest first.
_PLANES = {2: (2,), 3: (2, 1), 4: (4,), 5: (4, 1), 6: (4, 2), 7: (4, 2, 1), 8: (8,)}


def __dir__() -> list[str]:
    return sorted(__all__)


@dataclass(frozen=True, eq=False, repr=False)
class Weight(_planar.Weight):
    """
    GPTQ weight: codes, zero points, scales and group indices of a layer.

    Parameters
    ----------
    qweight : array_like
        int32 or uint32 of shape (K * bits / 32, N) for K inputs and N outputs: a stream of
        codes along the inputs, the first in the low bits of a word. In format "gptq_p", 32
        codes have `bits` words: for 3 bits the low two bits of all codes, then the third;
        for 5, 6 and 7 bits the low four, then the remaining 1, 2 or 3 bits.
    qzeros : array_like
        Zero points, packed along the outputs, of shape (groups, N * bits / 32).
    scales : array_like
        float16, float32 or bfloat16 of shape (groups, N).
    g_idx : array_like, optional
        int32 of shape (K,): the group of each input. Default, or -1 for all inputs: inputs
        in the order of groups.
    bits : int
        2, 3, 4 or 8; also 5, 6 and 7 in format "gptq_p".
    format : {"gptq", "gptq_v2", "gptq_p", "detect"}
        "gptq" stores zero points minus 1; "gptq_v2" and "gptq_p" store them unchanged.
        "detect" uses the result of `detect`, and raises an error if that fails.
    group_size : int, optional
        Number of inputs in a group. Default: the size of ordered groups in ``g_idx``; else
        the only size, or else the only power of two, that makes as many groups.
    wrap : bool, optional
        For format "gptq". True: a stored ``2**bits - 1`` means 0. By default it raises an
        error, because readers that add 1 without a mask read ``2**bits``.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong.

    Notes
    -----
    Values are ``(code - zero_point) * scale``.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import gptq
    >>> qweight = np.full((2, 8), 0x76543210, np.int32)
    >>> qzeros, scales = np.full((1, 1), 0x77777777, np.int32), np.ones((1, 8), np.float16)
    >>> w = gptq.Weight(qweight, qzeros, scales, bits=4, format="gptq")
    >>> w
    gptq.Weight(shape=(16, 8), bits=4, block_size=16)
    >>> w.dequantize()[:8, 0].tolist()
    [-8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0]
    """

    qweight: npt.NDArray[np.int32]
    qzeros: npt.NDArray[np.int32]
    scales: npt.NDArray[Any]
    g_idx: npt.NDArray[np.int32] | None = None
    _: KW_ONLY
    bits: int
    format: _Format | Literal["detect"]
    group_size: int | None = None
    wrap: bool = False

    def __post_init__(self) -> None:
        """Check that all arguments match."""
        kind = _planar.one_of(self.format, "format", (*_FORMATS, "detect"))
        bits = _width(self.bits, kind)
        wrap = _planar.flag_of(self.wrap, "wrap")
        words = _planar.word_array(self.qweight, "qweight")
        zeros = _planar.word_array(self.qzeros, "qzeros")
        scale = _planar.numbers_of(self.scales, "scales")
        rows, outputs = _planar.matrix_of(words, "qweight")
        if rows * 32 % bits:
            msg = f"qweight: expected rows of whole codes of {bits} bits, got {rows}"
            raise ValueError(msg)
        inputs = rows * 32 // bits
        groups, _ = _planar.matrix_of(scale, "scales")
        _planar.check_shape(scale, "scales", (groups, outputs))
        _check_extents(inputs, outputs, bits, kind, "qweight")
        _planar.check_shape(zeros, "qzeros", (groups, outputs * bits // 32))
        if kind == "detect":
            kind = detect(zeros, bits=bits)
        given = _planar.order_of(self.g_idx, "g_idx", inputs, groups)
        size = _planar.blocks_of(inputs, groups, self.group_size, "scales", given)
        order = _planar.groups_of(given, groups, size)
        codes: Any
        zero: Any
        if kind == "gptq_p" and len(_PLANES[bits]) > 1:
            codes = _Planes(words, bits)
            zero = _Planes(np.ascontiguousarray(zeros.T), bits)[:].T
        else:
            form = (inputs, outputs)
            codes = PackedArray(words, "uint8", form, layout="words", axis=0, bits=bits)
            zero = PackedArray(zeros, "uint8", scale.shape, layout="words", bits=bits)
        if kind == "gptq":
            zero = _one_more(_planar.small_codes(zero), bits, wrap)
        self._keep(
            _planar.Planar(codes, bits, 0, inputs, scale, zero, size, order),
            qweight=words,
            qzeros=zeros,
            scales=scale,
            g_idx=given,
            bits=bits,
            format=kind,
            group_size=size,
            wrap=wrap,
        )


@_core.hinted
def dequantize(
    qweight: ArrayLike,
    qzeros: ArrayLike,
    scales: ArrayLike,
    g_idx: ArrayLike | None = None,
    *,
    bits: SupportsIndex,
    format: _Format | Literal["detect"],
    group_size: SupportsIndex | None = None,
    wrap: bool = False,
    dtype: npt.DTypeLike | None = None,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[Any]:
    """
    Convert the tensors of a GPTQ layer to real numbers.

    Parameters
    ----------
    qweight, qzeros, scales, g_idx : array_like
        The tensors, see `Weight`; or tensors of several experts along a first axis.
    bits : int
        2, 3, 4 or 8; also 5, 6 and 7 in format "gptq_p".
    format : {"gptq", "gptq_v2", "gptq_p", "detect"}
        Format of the zero points, see `Weight`.
    group_size : int, optional
        Number of inputs in a group. Default: see `Weight`.
    wrap : bool, optional
        For format "gptq". True: a stored ``2**bits - 1`` means 0. Default: it raises an
        error.
    dtype : dtype_like, optional
        float32 (the default), float64, float16 or bfloat16.
    out : ndarray, optional
        Array for the result, of that shape and type. Any strides are allowed.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on it.

    Returns
    -------
    ndarray
        Array of shape (K, N) or (experts, K, N), with a row for each input, or `out`.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong; `out` is unchanged.

    Notes
    -----
    ``(code - zero_point) * scale``, rounded to float32 (to float64 for float64 results),
    then to `dtype`.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import gptq
    >>> qweight, qzeros = np.full((1, 8), 0x76543210, np.int32), np.zeros((1, 1), np.int32)
    >>> scales = np.full((1, 8), 0.5, np.float16)
    >>> gptq.dequantize(qweight, qzeros, scales, bits=4, format="gptq_v2")[:, 0].tolist()
    [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5]
    """
    given = {"qweight": qweight, "qzeros": qzeros, "scales": scales, "g_idx": g_idx}
    said: Any = {"bits": bits, "format": format, "group_size": group_size, "wrap": wrap}
    return _planar.decoded_tensors(partial(Weight, **said), given, dtype, out, threads)


@_core.default_fpenv
def quantize(
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
        Real numbers of shape (K, N): a row for each input.
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
        Format of the zero points, see `Weight`.
    group_size : int, optional
        Number of inputs in a group. Default: see `Weight`.
    wrap : bool, optional
        For format "gptq". True: store a zero point of 0 as ``2**bits - 1``. Default: it
        raises an error.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on it.

    Returns
    -------
    Weight
        The packed tensors, including `g_idx`.

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
    >>> x = np.tile(np.arange(-4, 4, dtype=np.float32)[:, np.newaxis], (4, 32))
    >>> scales, zeros = np.ones((1, 32), np.float16), np.full((1, 32), 4)
    >>> w = gptq.quantize(x, scales, zeros, bits=3, format="gptq_v2")
    >>> [f"{word:x}" for word in w.qweight[:, 0].view(np.uint32)]
    ['88fac688', 'c688fac6', 'fac688fa']
    """
    kind = _planar.one_of(format, "format", _FORMATS)
    width = _width(bits, kind)
    array = _planar.reals_of(x, "x")
    inputs, outputs = _planar.matrix_of(array, "x")
    _check_extents(inputs, outputs, width, kind, "x")
    scale = _planar.numbers_of(scales, "scales")
    groups, _ = _planar.matrix_of(scale, "scales")
    _planar.check_shape(scale, "scales", (groups, outputs))
    zero = _planar.integers_of(zeros, "zeros", width)
    _planar.check_shape(zero, "zeros", (groups, outputs))
    given = _planar.order_of(g_idx, "g_idx", inputs, groups)
    size = _planar.blocks_of(inputs, groups, group_size, "scales", given)
    order = _planar.groups_of(given, groups, size)
    stored = _stored(zero, kind, width, _planar.flag_of(wrap, "wrap"), "zeros")
    words = _planar.words_by(array, scale, zero, width, size, order, "words", 0, threads)
    return _made(words, stored, scale, order, inputs, width, kind, size, wrap)


@_core.hinted
def convert(
    weight: _planar.Weight | tuple[BlockFormat, npt.NDArray[np.uint8]],
    *,
    format: _Format,
    wrap: bool = False,
) -> Weight:
    """
    Convert a weight of another format to GPTQ without loss.

    Parameters
    ----------
    weight : Weight or tuple
        A weight of `awq`, `matmulnbits`, `compressed_tensors` or of this module; or
        a GGUF format, Q4_0 or Q8_0, and the uint8 bytes of its blocks, with rows of K
        inputs.
    format : {"gptq", "gptq_v2", "gptq_p"}
        Format of the result, see `Weight`.
    wrap : bool, optional
        For format "gptq". True: store a zero point of 0 as ``2**bits - 1``, for readers
        that add 1 modulo ``2**bits``. Default: it raises an error.

    Returns
    -------
    Weight
        A weight with equal values. Scales keep their type.

    Raises
    ------
    TypeError, ValueError
        If GPTQ cannot store the weight: codes of other widths, extents that do not fill
        words, or biases.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import awq, gptq
    >>> qweight = np.full((8, 1), 0x75316420, np.int32)
    >>> qzeros, scales = np.zeros((1, 1), np.int32), np.ones((1, 8), np.float16)
    >>> w = awq.Weight(qweight, qzeros, scales)
    >>> gptq.convert(w, format="gptq_v2").dequantize()[0].tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    >>> gptq.convert(w, format="gptq")
    Traceback (most recent call last):
    ValueError: weight: expected zero points from 1 for format 'gptq', got 0 at (0, 0)
    """
    kind = _planar.one_of(format, "format", _FORMATS)
    made = _planar.planar_of(weight)
    _planar.check_width(made, _widths(kind), kind)
    _planar.refuse_bias(made, kind)
    _check_extents(made.inputs, made.outputs, made.bits, kind, "weight")
    scale, zeros = _planar.inputs_first(made)
    stored = _stored(zeros, kind, made.bits, _planar.flag_of(wrap, "wrap"), "weight")
    words = _planar.repacked(made, axis=0, along=0)
    return _made(
        words,
        stored,
        scale,
        made.groups,
        made.inputs,
        made.bits,
        kind,
        made.block_size,
        wrap,
    )


@_core.hinted
def detect(qzeros: ArrayLike, *, bits: SupportsIndex) -> Literal["gptq", "gptq_v2"]:
    """
    Detect the zero-point format of a layer with symmetric weights.

    Parameters
    ----------
    qzeros : array_like
        int32 or uint32 of any shape.
    bits : int
        2, 3, 4 or 8.

    Returns
    -------
    str
        "gptq" if all stored values are ``2**(bits - 1) - 1``, "gptq_v2" if all are
        ``2**(bits - 1)``.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If `qzeros` contains another value, because the format is then unknown.

    Notes
    -----
    The function assumes symmetric weights. Asymmetric weights with equal zero points may be
    detected wrongly. ``checkpoint_format`` in ``quantize_config.json`` is not always
    correct.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import gptq
    >>> gptq.detect(np.full((2, 4), 0x77777777, np.int32), bits=4)
    'gptq'
    """
    width = _width(bits, "gptq")
    words = _planar.word_array(qzeros, "qzeros").reshape(-1)
    count = words.size * 32 // width
    codes = PackedArray(words, "uint8", count, layout="words", bits=width)
    stored = _planar.small_codes(codes)
    middle = 1 << (width - 1)
    if count and (stored == middle - 1).all():
        return "gptq"
    if count and (stored == middle).all():
        return "gptq_v2"
    got = f"{int(stored.min())} to {int(stored.max())}" if count else "none"
    msg = (
        f"qzeros: expected {middle - 1} or {middle} for all zero points to tell the "
        f"format, got {got}"
    )
    raise ValueError(msg)


class _Planes:
    """Codes along the first axis, in bit planes of 32 codes."""

    def __init__(self, words: npt.NDArray[np.int32], bits: int) -> None:
        self.words = words
        self.bits = bits
        self.shape: tuple[int, ...] = (words.shape[0] // bits * 32, words.shape[1])

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
    stream = PackedArray(
        words, "uint8", (inputs, outputs), layout="words", axis=0, bits=bits
    )
    made = np.empty((inputs // 32, bits, outputs), "<u4")
    step = 64
    for first in range(0, inputs // 32, step):
        codes = stream[first * 32 : (first + step) * 32].unpack()
        low = 0
        for width in _PLANES[bits]:
            each = (codes >> low & ((1 << width) - 1)).astype("<u4")
            each = each.reshape(-1, width, 32 // width, outputs) << _shifts(width)
            plane = np.bitwise_or.reduce(each, axis=2)
            made[first : first + step, low : low + width] = plane
            low += width
    return made.reshape(rows, outputs).view("<i4")


def _widths(kind: str) -> tuple[int, ...]:
    return tuple(_PLANES) if kind == "gptq_p" else _BITS


def _width(bits: object, kind: str) -> int:
    width: int = _planar.one_of(bits, "bits", _widths(kind))
    return width


def _check_extents(inputs: int, outputs: int, bits: int, kind: str, name: str) -> None:
    """Check that codes fill words, and planes of 32 codes."""
    least = 1 if kind == "gptq_p" and len(_PLANES[bits]) > 1 else bits
    _planar.check_whole(inputs, least, name, "inputs", f"{bits} bits")
    _planar.check_whole(outputs, least, name, "outputs", f"{bits} bits")


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
    inputs: int,
    bits: int,
    kind: Any,
    size: int,
    wrap: bool,
) -> Weight:
    """Build the tensors from words of streams."""
    if order is None:
        order = np.arange(inputs) // size
    if kind == "gptq_p" and len(_PLANES[bits]) > 1:
        words = _in_planes(words, bits)
        turned = np.ascontiguousarray(_planar.dense(stored.T, bits, "words", 0))
        zeros = np.ascontiguousarray(_in_planes(turned, bits).T)
    else:
        zeros = _planar.dense(stored, bits, "words", 1)
    return Weight(
        words,
        zeros,
        scale,
        order.astype(np.int32),
        bits=bits,
        format=kind,
        group_size=size,
        wrap=wrap,
    )
