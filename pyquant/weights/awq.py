# SPDX-License-Identifier: Apache-2.0
"""Read and write AWQ weights, as AutoAWQ stores them for its GEMM kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from pyquant import _core
from pyquant.packed import PackedArray
from pyquant.weights import _planar

if TYPE_CHECKING:
    import numpy.typing as npt

    from pyquant._typing import ArrayLike
    from pyquant.weights.blocks import BlockFormat

__all__ = ["Weight", "convert", "dequantize", "quantize"]

_BITS = (4,)
_PER_WORD = 8


def __dir__() -> list[str]:
    return sorted(__all__)


@dataclass(frozen=True, eq=False, repr=False)
class Weight(_planar.Weight):
    """
    AWQ weight: codes, zero points and scales of a layer.

    Parameters
    ----------
    qweight : array_like
        int32 or uint32 of shape (K, N / 8) for K inputs and N outputs: eight outputs to a
        word, in the order 0 2 4 6 1 3 5 7 from the lowest four bits.
    qzeros : array_like
        Zero points, packed like `qweight`, of shape (K / group, N / 8).
    scales : array_like
        float16, float32 or bfloat16 of shape (K / group, N).
    bits : int, optional
        Always 4.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong.

    Notes
    -----
    Values are ``(code - zero_point) * scale``. AutoAWQ's layouts "gemv" and "gemv_fast"
    differ and are not supported.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import awq
    >>> qweight = np.full((16, 1), 0x75316420, np.int32)
    >>> w = awq.Weight(qweight, np.zeros((1, 1), np.int32), np.ones((1, 8), np.float16))
    >>> w
    awq.Weight(shape=(16, 8), bits=4, block_size=16)
    >>> w.dequantize()[0].tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    """

    qweight: npt.NDArray[np.int32]
    qzeros: npt.NDArray[np.int32]
    scales: npt.NDArray[Any]
    bits: int = 4

    def __post_init__(self) -> None:
        """Check that all arguments match."""
        bits = _planar.one_of(self.bits, "bits", _BITS)
        words = _planar.word_array(self.qweight, "qweight")
        zeros = _planar.word_array(self.qzeros, "qzeros")
        scale = _planar.numbers_of(self.scales, "scales")
        inputs, columns = _planar.matrix_of(words, "qweight")
        groups, _ = _planar.matrix_of(scale, "scales")
        outputs = columns * _PER_WORD
        _planar.check_shape(scale, "scales", (groups, outputs))
        _planar.check_shape(zeros, "qzeros", (groups, columns))
        size = _size_of(inputs, groups)
        codes = PackedArray(words, "uint4", (inputs, outputs), layout="awq")
        zero = PackedArray(zeros, "uint4", (groups, outputs), layout="awq")
        self._keep(
            _planar.Planar(codes, bits, 0, inputs, scale, zero, size),
            qweight=words,
            qzeros=zeros,
            scales=scale,
            bits=bits,
        )


@_core.hinted
def dequantize(
    qweight: ArrayLike,
    qzeros: ArrayLike,
    scales: ArrayLike,
    *,
    bits: SupportsIndex = 4,
    dtype: npt.DTypeLike | None = None,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[Any]:
    """
    Convert the tensors of an AWQ layer to real numbers.

    Parameters
    ----------
    qweight, qzeros, scales : array_like
        The tensors, see `Weight`; or tensors of several experts along a first axis.
    bits : int, optional
        Always 4.
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
    then to `dtype`: float16 results from float16 scales equal AutoAWQ.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import awq
    >>> qweight = np.full((1, 1), 0x75316420, np.int32)
    >>> qzeros = np.full((1, 1), 0x11111111, np.int32)
    >>> awq.dequantize(qweight, qzeros, np.full((1, 8), 0.5, np.float16))
    array([[-0.5,  0. ,  0.5,  1. ,  1.5,  2. ,  2.5,  3. ]], dtype=float32)
    """
    given: Any = {"qweight": qweight, "qzeros": qzeros, "scales": scales}
    said: Any = {"bits": bits}
    return _planar.decoded_tensors(partial(Weight, **said), given, dtype, out, threads)


@_core.default_fpenv
def quantize(
    x: ArrayLike,
    scales: ArrayLike,
    zeros: ArrayLike,
    *,
    bits: SupportsIndex = 4,
    threads: SupportsIndex = 1,
) -> Weight:
    """
    Quantize and pack a weight with given scales and zero points.

    Parameters
    ----------
    x : array_like
        Real numbers of shape (K, N): a row for each input.
    scales : array_like
        float16, float32 or bfloat16 of shape (K / group, N).
    zeros : array_like
        Integers from 0 to 15, with the shape of `scales`.
    bits : int, optional
        Always 4.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on it.

    Returns
    -------
    Weight
        The packed tensors.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong.

    Notes
    -----
    ``round_half_even((x + zero * scale) / scale)``, each step rounded to float32 (to
    float64 if `x` is float64), like AutoAWQ. Values out of range become 0 or 15; AutoAWQ
    corrupts neighbouring codes.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import awq
    >>> x = np.float32([[-0.5, 0, 0.5, 1, 1.5, 2, 2.5, 3]])
    >>> w = awq.quantize(x, np.full((1, 8), 0.5, np.float16), np.ones((1, 8), np.uint8))
    >>> hex(w.qweight[0, 0])
    '0x75316420'
    """
    width: int = _planar.one_of(bits, "bits", _BITS)
    array = _planar.reals_of(x, "x")
    inputs, outputs = _planar.matrix_of(array, "x")
    _planar.check_whole(outputs, width, "x", "outputs", "AWQ")
    scale = _planar.numbers_of(scales, "scales")
    groups, _ = _planar.matrix_of(scale, "scales")
    size = _size_of(inputs, groups)
    _planar.check_shape(scale, "scales", (groups, outputs))
    zero = _planar.integers_of(zeros, "zeros", width)
    _planar.check_shape(zero, "zeros", (groups, outputs))
    words = _planar.words_by(array, scale, zero, width, size, None, "awq", 1, threads)
    return Weight(words, _planar.dense(zero, width, "awq", 1), scale)


@_core.hinted
def convert(
    weight: _planar.Weight | tuple[BlockFormat, npt.NDArray[np.uint8]],
) -> Weight:
    """
    Convert a weight of another format to AWQ without loss.

    Parameters
    ----------
    weight : Weight or tuple
        A weight of `gptq`, `matmulnbits`, `compressed_tensors` or of this module; or the
        GGUF format Q4_0 and the uint8 bytes of its blocks, with rows of K inputs.

    Returns
    -------
    Weight
        A weight with equal values. Scales keep their type.

    Raises
    ------
    TypeError, ValueError
        If AWQ cannot store the weight: codes of other widths, a number of outputs that is
        not a multiple of 8, a short last group, inputs out of the order of their groups, or
        biases.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import awq, matmulnbits
    >>> x = np.linspace(-1, 1, 256, dtype=np.float32).reshape(32, 8)
    >>> w = matmulnbits.quantize(x)
    >>> bool((awq.convert(w).dequantize() == w.dequantize()).all())
    True
    """
    made = _planar.planar_of(weight)
    _planar.check_width(made, _BITS, "AWQ")
    _planar.refuse_bias(made, "AWQ")
    _planar.refuse_groups(made, "AWQ")
    _planar.refuse_short(made, "AWQ")
    _planar.check_whole(made.outputs, made.bits, "weight", "outputs", "AWQ")
    scale, zeros = _planar.inputs_first(made)
    return Weight(
        _planar.repacked(made, axis=0, along=1, layout="awq"),
        _planar.dense(zeros, 4, "awq", 1),
        scale,
    )


def _size_of(inputs: int, groups: int) -> int:
    """Return the number of inputs in a group. AWQ has no short groups."""
    size = max(1, inputs // max(1, groups))
    if size * groups != inputs:
        msg = f"scales: expected groups that divide {inputs} inputs, got {groups} groups"
        raise ValueError(msg)
    return size
