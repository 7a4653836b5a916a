# SPDX-License-Identifier: Apache-2.0
"""Scale and zero point together, and how to choose them from data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from pyquant import _core

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from pyquant._typing import ArrayLike

__all__ = ["QParams", "choose_qparams"]


def __dir__() -> list[str]:
    return sorted(__all__)


class QParams(_core.Calls):
    """
    Immutable quantization parameters.

    Parameters
    ----------
    scale : array_like
        Scales, of the shape that `axis` and `block_size` ask for; see `quantize`.
    zero_point : array_like or None
        Zero points, one or as many as scales; None is 0. They are kept in `dtype`, whatever
        type they come in.
    dtype : dtype_like
        The quantized type.
    axis, block_size : int or tuple of int, optional
        Granularity, as for `quantize`.
    offset : array_like, optional
        Real numbers, one or as many as scales, that are subtracted before numbers are
        divided, and added to products.
    fill : int or sequence of int, optional
        Codes that stand for NaN, which becomes the first of them.
    quant_range : (int, int), optional
        The lowest and the highest code, of those that `dtype` has.

    Attributes
    ----------
    scale, zero_point : ndarray
        Read-only. Zero points have the quantized type.
    dtype : numpy.dtype
        The quantized type.
    axis, block_size : int, tuple of int or None
        Granularity.
    offset : ndarray or None
        Read-only.
    fill : tuple of int or None
        Codes that stand for NaN.
    quant_range : tuple of int or None
        The lowest and the highest code.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> x = np.array([[-1.0, 0.5], [4.0, 2.0]], np.float32)
    >>> p = pq.choose_qparams(x, axis=0)
    >>> p.quantize(x)
    array([[-127,   64],
           [ 127,   64]], dtype=int8)
    """

    __slots__ = ()

    def __init__(
        self,
        scale: ArrayLike,
        zero_point: ArrayLike | None,
        dtype: npt.DTypeLike,
        *,
        axis: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
        block_size: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
        offset: ArrayLike | None = None,
        fill: SupportsIndex | Iterable[SupportsIndex] | None = None,
        quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    ) -> None:
        """Check and copy everything, so that nothing can change it."""
        self._set(scale, zero_point, dtype, axis, block_size, offset, fill, quant_range)

    @property
    def scale(self) -> npt.NDArray[Any]:
        """The scales, read-only."""
        return self._scale

    @property
    def zero_point(self) -> npt.NDArray[Any]:
        """The zero points, read-only, of the quantized type.

        Where that is one of ml_dtypes, which is not installed, of int8 or uint8.
        """
        return _core.typed_zeros(self._zero_point, self._name)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The quantized type; of ml_dtypes where NumPy has none."""
        return _core.dtype_named(self._name)

    @property
    def axis(self) -> int | tuple[int, ...] | None:
        """The axes along which the scale varies."""
        return self._axis

    @property
    def block_size(self) -> int | tuple[int, ...] | None:
        """The extents of blocks."""
        return self._block_size

    @property
    def offset(self) -> npt.NDArray[Any] | None:
        """The offsets, read-only."""
        return self._offset

    @property
    def fill(self) -> tuple[int, ...] | None:
        """The codes that stand for NaN."""
        return self._fill

    @property
    def quant_range(self) -> tuple[int, int] | None:
        """The lowest and the highest code."""
        return self._quant_range

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: the parameters never change."""
        msg = f"{name}: expected no assignment, QParams is immutable"
        raise AttributeError(msg)

    def __delattr__(self, name: str) -> None:
        """Refuse: the parameters never change."""
        msg = f"{name}: expected no deletion, QParams is immutable"
        raise AttributeError(msg)

    def __eq__(self, other: object) -> bool:
        """Compare type, granularity, shapes and the bits of all parameters."""
        if not isinstance(other, QParams):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        """Hash what `__eq__` compares."""
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        arrays = [
            None if a is None else (a.dtype, a.shape, a.tobytes())
            for a in (self._scale, self._zero_point, self._offset)
        ]
        rest = (self._name, self._axis, self._block_size, self._fill, self._quant_range)
        return (*arrays, *rest)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as the call that makes an equal one."""
        parts = (self._scale, self._zero_point, self._name, self._axis, self._block_size)
        return (_unpickled, (*parts, *self._affine_parts()))

    def _affine_parts(self) -> tuple[Any, ...]:
        """What most parameters do not have."""
        parts = (self._offset, self._fill, self._quant_range)
        return parts if any(part is not None for part in parts) else ()

    def __repr__(self) -> str:
        """Show everything, but of long arrays a few elements of each end."""
        more = ""
        if self._offset is not None:
            more += f", offset={_shown(self._offset)}"
        if self._fill is not None:
            more += f", fill={self._fill}"
        if self._quant_range is not None:
            more += f", quant_range={self._quant_range}"
        return (
            f"QParams(scale={_shown(self._scale)}, zero_point={_shown(self.zero_point)}, "
            f"dtype={self._name!r}, axis={self._axis}, block_size={self._block_size}{more})"
        )


def _unpickled(
    scale: npt.NDArray[Any],
    zero_point: npt.NDArray[Any],
    dtype: str,
    axis: int | tuple[int, ...] | None,
    block_size: int | tuple[int, ...] | None,
    offset: npt.NDArray[Any] | None = None,
    fill: tuple[int, ...] | None = None,
    quant_range: tuple[int, int] | None = None,
) -> QParams:
    return QParams(
        scale,
        zero_point,
        dtype,
        axis=axis,
        block_size=block_size,
        offset=offset,
        fill=fill,
        quant_range=quant_range,
    )


def _shown(array: npt.NDArray[Any]) -> str:
    """The repr of an array; of a long one a line or two, whatever its dimensions."""
    shape = f".reshape{array.shape}" if array.size > 20 and array.ndim > 1 else ""
    with np.printoptions(threshold=20, edgeitems=2, floatmode="unique"):
        return repr(array.reshape(-1) if shape else array) + shape


def choose_qparams(
    x: ArrayLike,
    *,
    dtype: npt.DTypeLike = "int8",
    axis: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
    block_size: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
    symmetric: bool | np.bool | None = None,
    threads: SupportsIndex = 1,
) -> QParams:
    """
    Choose scales and zero points that cover the range of the data.

    Parameters
    ----------
    x : array_like
        float32, float64, float16 or bfloat16; all finite.
    dtype : dtype_like, optional
        The quantized type, int8 by default; see `quantize`. With narrow floats the
        largest magnitude becomes their largest number.
    axis, block_size : int or tuple of int, optional
        Granularity, as for `quantize`. Default one scale for all of `x`.
    symmetric : bool, optional
        Whether the zero point is the same for all data: 0, for unsigned types the middle
        code (128 of uint8); or one that makes use of all codes. Default: symmetric for
        signed types and narrow floats, all codes for unsigned types.
    threads : int, optional
        How many threads may share the work. The result does not depend on it.

    Returns
    -------
    QParams
        With float32 scales (float64 when `x` is float64).

    Raises
    ------
    ValueError
        If `x` holds a NaN or an infinity; the message says how many and where the first is.
    MemoryError
        If there are more scales than memory holds.

    Notes
    -----
    With ``lo = min(0, min(x))``, ``hi = max(0, max(x))`` of a group, and `qmin`, `qmax` the
    limits of `dtype`, in float64 arithmetic, the scale rounded once to its type::

        symmetric    scale = max(hi, -lo) / qmax
                     zero_point = 0
        unsigned     scale = max(hi, -lo) / (qmax / 2)
                     zero_point = (qmax + 1) / 2
        asymmetric   scale = (hi - lo) / (qmax - qmin)
                     zero_point = saturate(round_half_even(qmin - lo / scale))

    A group of zeros, or an empty one, gets scale 1. Should ``hi - lo`` overflow, both are
    halved. The scale is the next larger one where rounding down would let data saturate by
    more than half a step, and one beside it where data at the end of the range of its type
    would come back infinite: what is dequantized to the type of `x` is finite, and within
    half a step of the data, as far as the quotient and the product are not rounded.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> p = pq.choose_qparams(np.float32([-1, 0.5, 2]), dtype="uint8", symmetric=False)
    >>> float(p.scale), int(p.zero_point)
    (0.0117647061124444, 85)
    """
    return QParams._choose(x, dtype, axis, block_size, symmetric, threads)
