# SPDX-License-Identifier: Apache-2.0
"""Read and write GPTQ weights, as AutoGPTQ and GPTQModel store them.

For K inputs and N outputs, a layer has these tensors:

- ``qweight`` of shape (K * bits / 32, N): 32-bit words. A column contains the codes of the
  K inputs without unused bits, and the first code is in the low bits of a word.
- ``qzeros`` of shape (groups, N * bits / 32): zero points. A row contains the zero points
  of the N outputs, packed like codes. Format "gptq" stores the zero point minus 1. Formats
  "gptq_v2" and "gptq_p" store the zero point.
- ``scales`` of shape (groups, N).
- ``g_idx`` of shape (K,), optional: the group of each input. If the tensor is absent or -1
  for all inputs, inputs are in the order of their groups.

Format "gptq_p" divides codes of 3, 5, 6 and 7 bits into planes. 32 consecutive codes fill
`bits` words. The first words contain the low bits of all 32 codes: two bits for 3-bit
codes, and four bits for wider codes. For 3, 5 and 6 bits, the following words contain the
other bits. For 7 bits, the following words contain the next two bits, and the last word the
highest bit.

Values are ``(code - zero_point) * scale``. Codes have 2, 3, 4 or 8 bits, and in format
"gptq_p" also 5, 6 or 7 bits.
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from pyquant import _check, _core
from pyquant._check import array, fail, listed
from pyquant.packed import Layout, PackedArray, unpack
from pyquant.weights import _weight
from pyquant.weights._weight import REALS, Planar, Weight

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyquant._typing import Array, ArrayLike, Bytes, Words

    _Format = Literal["gptq", "gptq_v2", "gptq_p"]

__all__ = ["from_tensors", "pack"]
__dir__: object = __all__.copy

_TENSORS = ("qweight", "qzeros", "scales", "g_idx")
_BITS = (2, 3, 4, 8)
_FORMATS = ("gptq", "gptq_v2", "gptq_p")
_STEP = 64  # number of sequences of 32 codes that are converted at a time
# Format "gptq_p": number of bits of a code -> number of bits in each plane. The first plane
# has the lowest bits.
_PLANES = {2: (2,), 3: (2, 1), 4: (4,), 5: (4, 1), 6: (4, 2), 7: (4, 2, 1), 8: (8,)}


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
    Return a weight from the tensors of a GPTQ layer, without a copy.

    Parameters
    ----------
    tensors : mapping
        A mapping from names to arrays: ``qweight`` and ``qzeros`` of int32 or uint32,
        ``scales`` of float16, float32 or bfloat16, and optionally ``g_idx`` of int32 or
        int64. The arrays may have an additional first axis for several experts.
    name : str, optional
        Name of the layer, with which the names begin. Default: no name.
    format : {"gptq", "gptq_v2", "gptq_p"}, optional
        Format of the zero points. Default: "gptq_p" for 5, 6 or 7 bits. For 2, 3, 4 and 8
        bits, the format "gptq" or "gptq_v2" in which every zero point is
        ``2**(bits - 1)``, as in symmetric weights. If no format fits, the function raises
        an error.
    group_size : int, optional
        Number of inputs in a group. Default: the size of groups in ``g_idx``, if inputs are
        in the order of their groups. Without ``g_idx``, the default is the only size that
        makes the given number of groups, or else the only power of two that does.
    wrap : bool, optional
        For format "gptq". True: a stored number ``2**bits - 1`` means zero point 0. By
        default, this number raises an error, because some readers add 1 without a mask and
        get the zero point ``2**bits``.

    Notes
    -----
    The value of ``checkpoint_format`` in a model's ``quantize_config.json`` is not always
    correct.

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
    kind = None if format is None else _check.choice(format, "format", _FORMATS)
    wrap = _check.flag(wrap, "wrap")
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
) -> tuple[str, dict[str, Array], Planar]:
    """Check that all tensors match each other, and return the common form."""
    words = _weight.word_array(qweight, "qweight")
    zeros = _weight.word_array(qzeros, "qzeros")
    scale = array(scales, "scales", REALS)
    rows, outputs = _weight.matrix_of(words, "qweight")
    groups, _ = _weight.matrix_of(scale, "scales")
    _weight.check_shape(scale, "scales", (groups, outputs))
    columns = _weight.matrix_of(zeros, "qzeros")[1]
    bits = columns * 32 // max(1, outputs)
    if zeros.shape != (groups, outputs * bits // 32) or bits not in _widths(kind):
        some = listed(map(str, _widths(kind)))
        expected = f"shape ({groups}, {outputs} * bits / 32) for {some} bits"
        raise fail(ValueError, "qzeros", expected, zeros.shape)
    if rows * 32 % bits:
        raise fail(ValueError, "qweight", f"rows of whole codes of {bits} bits", rows)
    inputs = rows * 32 // bits
    kind = kind or _detected(zeros, bits)
    _check_extents(inputs, outputs, bits, kind, "qweight")
    given = _weight.order_of(g_idx, "g_idx", inputs, groups)
    size = _weight.blocks_of(inputs, groups, group_size, "scales", given)
    order = _weight.groups_of(given, groups, size)
    tensors = _weight.by_name(_TENSORS, words, zeros, scale, given)
    if _has_planes(kind, bits):
        words, zeros = _to_stream(words, bits), _to_stream(zeros.T, bits).T
    codes = _codes_of(words, (inputs, outputs), 0, bits)
    zero: Any = _codes_of(zeros, scale.shape, 1, bits)
    if kind == "gptq":
        zero = _one_more(_weight.small_codes(zero), bits, wrap)
    return kind, tensors, Planar(codes, bits, 0, scale, zero, size, order)


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
        int32 of shape (K,): the group of each input. By default, and with -1 for all
        inputs, inputs are in the order of their groups.
    bits : int
        Number of bits of a code: 2, 3, 4 or 8. In format "gptq_p", also 5, 6 or 7.
    format : {"gptq", "gptq_v2", "gptq_p"}
        Format of the zero points, see `from_tensors`.
    group_size : int, optional
        Number of inputs in a group. Default: see `from_tensors`.
    wrap : bool, optional
        For format "gptq". True: store a zero point of 0 as ``2**bits - 1``. By default, a
        zero point of 0 raises an error.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on it.

    Returns
    -------
    Weight
        The packed weight, with ``g_idx``.

    Raises
    ------
    TypeError
        If an argument or its elements have the wrong type.
    ValueError
        If a value or a shape is wrong, codes do not fill words, or a zero point is 0 in
        format "gptq" without `wrap`.

    Notes
    -----
    Codes are ``round_half_even((x + zero * scale) / scale)``, like in AutoGPTQ. Each
    operation is rounded to float32, or to float64 if `x` is float64. Values out of range
    become the nearest code.

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
    kind = _check.choice(format, "format", _FORMATS)
    width: int = _check.choice(bits, "bits", _widths(kind))
    values, scale, zero = _weight.given(x, scales, zeros, width)
    outputs, inputs = values.shape
    _check_extents(inputs, outputs, width, kind, "x")
    groups = len(scale)
    given = _weight.order_of(g_idx, "g_idx", inputs, groups)
    size = _weight.blocks_of(inputs, groups, group_size, "scales", given)
    order = _weight.groups_of(given, groups, size)
    stored = _stored(zero, kind, width, _check.flag(wrap, "wrap"), "zeros")
    made = Planar(values.T, width, 0, scale, zero, size, order)
    words = _weight.quantized_words(made, "words", 0, threads)
    return _made(made, words, stored, scale, kind, wrap)


def _converted(made: Planar, *, format: str, wrap: bool = False) -> Weight:
    _weight.require(made, format, _widths(format))
    _check_extents(made.inputs, made.outputs, made.bits, format, "weight")
    scale, zeros = _weight.along(made, 0)
    stored = _stored(zeros, format, made.bits, _check.flag(wrap, "wrap"), "weight")
    words = _weight.repacked(made, axis=0, along=0)
    return _made(made, words, stored, scale, format, wrap)


def _detected(zeros: Words, bits: int) -> str:
    """Return the format, from the number of bits, or from symmetric zero points."""
    if bits not in _BITS:
        return "gptq_p"
    words = zeros.reshape(-1)
    count = words.size * 32 // bits
    stored = _weight.small_codes(_codes_of(words, count, 0, bits))
    middle = 1 << (bits - 1)
    if count and (stored == middle - 1).all():
        return "gptq"
    if count and (stored == middle).all():
        return "gptq_v2"
    expected = f"{middle - 1} or {middle} for all zero points to tell the format"
    got = f"{stored.min()} to {stored.max()}" if count else "none"
    got += "; use format='gptq', 'gptq_v2' or 'gptq_p'"
    raise fail(ValueError, "qzeros", expected, got)


def _to_stream(planes: Array, bits: int) -> Words:
    """Convert planes along the first axis to words with consecutive codes."""
    rows, outputs = planes.shape
    words = planes.reshape(rows // bits, bits, outputs)
    made = np.empty((rows, outputs), "<i4")
    for first in range(0, len(words), _STEP):
        some = words[first : first + _STEP]
        codes = np.zeros((len(some) * 32, outputs), np.uint8)
        for low, width in _planes_of(bits):
            plane = some[:, low : low + width].reshape(-1, outputs)
            codes |= unpack(_codes_of(plane, codes.shape, 0, width)) << np.uint8(low)
        made[first * bits : (first + _STEP) * bits] = _weight.dense(codes, bits, "words", 0)
    return made


def _to_planes(words: Array, bits: int) -> Words:
    """Convert words with consecutive codes along the first axis to planes."""
    rows, outputs = words.shape
    inputs = rows * 32 // bits
    stream = _codes_of(words, (inputs, outputs), 0, bits)
    made = np.empty((inputs // 32, bits, outputs), "<i4")
    for first in range(0, inputs // 32, _STEP):
        codes = unpack(stream[first * 32 : (first + _STEP) * 32])
        for low, width in _planes_of(bits):
            plane = _weight.dense(codes >> low & ((1 << width) - 1), width, "words", 0)
            plane = plane.reshape(-1, width, outputs)
            made[first : first + _STEP, low : low + width] = plane
    return made.reshape(rows, outputs)


def _planes_of(bits: int) -> Iterator[tuple[int, int]]:
    """Yield two numbers for each plane: the lowest bit in the code, and the bit count."""
    return zip(accumulate(_PLANES[bits], initial=0), _PLANES[bits], strict=False)


def _codes_of(
    words: Array, shape: int | tuple[int, ...], axis: int, bits: int
) -> PackedArray:
    layout = Layout("words", axis=axis, bits=bits)
    return PackedArray(np.ascontiguousarray(words), "uint8", shape, layout=layout)


def _has_planes(kind: str, bits: int) -> bool:
    return kind == "gptq_p" and len(_PLANES[bits]) > 1


def _widths(kind: str | None) -> tuple[int, ...]:
    return _BITS if kind in ("gptq", "gptq_v2") else tuple(_PLANES)


def _check_extents(inputs: int, outputs: int, bits: int, kind: str, name: str) -> None:
    """Check that inputs and outputs fill 32-bit words, or planes of 32 codes."""
    least = 1 if _has_planes(kind, bits) else bits
    _weight.require_whole(inputs, least, name, "inputs", f"{bits} bits")
    _weight.require_whole(outputs, least, name, "outputs", f"{bits} bits")


def _one_more(stored: Bytes, bits: int, wrap: bool) -> Bytes:
    """Convert stored zero points of format "gptq" to zero points, by adding 1."""
    most = np.uint8((1 << bits) - 1)
    if not wrap and (stored == most).any():
        place = tuple(np.argwhere(stored == most)[0].tolist())
        expected = f"at most {most - 1} in format 'gptq' without wrap=True"
        raise fail(ValueError, "qzeros", expected, f"{most} at {place}")
    return stored + np.uint8(1) & most


def _stored(zeros: Bytes, kind: str, bits: int, wrap: bool, name: str) -> Bytes:
    """Convert zero points to the numbers that a format stores."""
    if kind != "gptq":
        return zeros
    if not wrap and not zeros.all():
        place = tuple(np.argwhere(zeros == 0)[0].tolist())
        raise fail(
            ValueError, name, "zero points from 1 for format 'gptq'", f"0 at {place}"
        )
    return zeros - np.uint8(1) & np.uint8((1 << bits) - 1)


def _made(
    made: Planar, words: Any, stored: Any, scale: Any, kind: str, wrap: bool
) -> Weight:
    """Return a weight from words with consecutive codes, stored zero points and scales."""
    order, bits, size = made.groups, made.bits, made.block_size
    if order is None:
        order = np.arange(len(words) * 32 // bits) // size
    if _has_planes(kind, bits):
        words = _to_planes(words, bits)
        turned = _weight.dense(stored.T, bits, "words", 0)
        zeros = np.ascontiguousarray(_to_planes(turned, bits).T)
    else:
        zeros = _weight.dense(stored, bits, "words", 1)
    tensors = _weight.by_name(_TENSORS, words, zeros, scale, order.astype(np.int32))
    return Weight(kind, tensors, partial(_read, kind=kind, group_size=size, wrap=wrap))
