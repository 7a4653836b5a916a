# SPDX-License-Identifier: Apache-2.0
"""Read and write AWQ weights, as AutoAWQ stores them for its GEMM kernels.

A weight has K inputs, N outputs, and G inputs in a group. ``qweight`` has shape
(K, N / 8), ``qzeros`` has shape (K / G, N / 8), and ``scales`` has shape (K / G, N). A
32-bit word of ``qweight`` or ``qzeros`` contains the codes of eight outputs. From the
lowest four bits, the outputs are 0 2 4 6 1 3 5 7. Values are ``(code - zero_point) *
scale``. AutoAWQ's layouts "gemv" and "gemv_fast" are not supported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

from pyquant import _core
from pyquant._check import array, fail
from pyquant.packed import PackedArray
from pyquant.weights import _weight
from pyquant.weights._weight import REALS, Planar, Weight

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyquant._typing import Array, ArrayLike, Bytes

__all__ = ["from_tensors", "pack"]
__dir__: object = __all__.copy

_TENSORS = ("qweight", "qzeros", "scales")
_BITS = 4
_PER_WORD = 8


@_core.hinted
def from_tensors(tensors: Mapping[str, Any], name: str = "") -> Weight:
    """
    Return a weight from the tensors of an AWQ layer, without a copy.

    Parameters
    ----------
    tensors : mapping
        A mapping from names to arrays: ``qweight`` and ``qzeros`` of int32 or uint32, and
        ``scales`` of float16, float32 or bfloat16. The arrays may have an additional first
        axis for several experts.
    name : str, optional
        Name of the layer, with which the names begin. Default: no name.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import awq
    >>> qweight = np.full((16, 1), 0x75316420, np.int32)
    >>> scales = np.full((1, 8), 0.5, np.float16)
    >>> given = {"qweight": qweight, "qzeros": qweight[:1] * 0, "scales": scales}
    >>> awq.from_tensors(given).dequantize()[:, 0].tolist()
    [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5]
    """
    return _weight.make(_read, tensors, name, _TENSORS)


def _read(qweight: Any, qzeros: Any, scales: Any) -> tuple[str, dict[str, Array], Planar]:
    """Check that the tensors match each other, and return their common form."""
    words = _weight.word_array(qweight, "qweight")
    zeros = _weight.word_array(qzeros, "qzeros")
    scale = array(scales, "scales", REALS)
    inputs, columns = _weight.matrix_of(words, "qweight")
    groups, _ = _weight.matrix_of(scale, "scales")
    outputs = columns * _PER_WORD
    _weight.check_shape(scale, "scales", (groups, outputs))
    _weight.check_shape(zeros, "qzeros", (groups, columns))
    size = _size_of(inputs, groups)
    codes = PackedArray(words, "uint4", (inputs, outputs), layout="awq")
    zero = PackedArray(zeros, "uint4", (groups, outputs), layout="awq")
    given = _weight.by_name(_TENSORS, words, zeros, scale)
    return "awq", given, Planar(codes, _BITS, 0, scale, zero, size)


@_core.default_fpenv
def pack(
    x: ArrayLike, scales: ArrayLike, zeros: ArrayLike, *, threads: SupportsIndex = 1
) -> Weight:
    """
    Quantize and pack a weight with given scales and zero points.

    Parameters
    ----------
    x : array_like
        Real numbers of shape (N, K): a row for each output.
    scales : array_like
        float16, float32 or bfloat16 of shape (K / group, N).
    zeros : array_like
        Integers from 0 to 15, with the shape of `scales`.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on it.

    Notes
    -----
    Codes are ``round_half_even((x + zero * scale) / scale)``, like in AutoAWQ. Each
    operation is rounded to float32, or to float64 if `x` is float64. Codes out of range
    become 0 or 15. In AutoAWQ, they corrupt the other codes of the word.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import awq
    >>> x = np.float32([[-0.5], [0], [0.5], [1], [1.5], [2], [2.5], [3]])
    >>> w = awq.pack(x, np.full((1, 8), 0.5, np.float16), np.ones((1, 8), np.uint8))
    >>> hex(w.tensors()["qweight"][0, 0])
    '0x75316420'
    """
    values, scale, zero = _weight.given(x, scales, zeros, _BITS)
    outputs, inputs = values.shape
    _weight.require_whole(outputs, _BITS, "x", "outputs", "AWQ")
    size = _size_of(inputs, len(scale))
    made = Planar(values.T, _BITS, 0, scale, zero, size)
    return _made(_weight.quantized_words(made, "awq", 1, threads), zero, scale)


def _converted(made: Planar) -> Weight:
    _weight.require(made, "AWQ", (_BITS,), mixed=False, short=False)
    _weight.require_whole(made.outputs, made.bits, "weight", "outputs", "AWQ")
    scale, zeros = _weight.along(made, 0)
    return _made(_weight.repacked(made, axis=0, along=1, layout="awq"), zeros, scale)


def _made(words: Array, zeros: Bytes, scale: Array) -> Weight:
    stored = _weight.dense(zeros, _BITS, "awq", 1)
    return Weight("awq", _weight.by_name(_TENSORS, words, stored, scale), _read)


def _size_of(inputs: int, groups: int) -> int:
    """Return the number of inputs in a group. All groups have an equal number."""
    size = max(1, inputs // max(1, groups))
    if size * groups != inputs:
        expected = f"groups that divide {inputs} inputs"
        raise fail(ValueError, "scales", expected, f"{groups} groups")
    return size
