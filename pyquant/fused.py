# SPDX-License-Identifier: Apache-2.0
"""Choose parameters and quantize, or quantize and dequantize, in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeVar, overload

import numpy as np

from pyquant import _check, _core
from pyquant._core import fake_quantize
from pyquant.qparams import QParams, choose_qparams

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

    import numpy.typing as npt

    from pyquant._core import (
        _GranularityOptions,
        _Index,
        _Integers,
        _Known,
        _Layout,
        _Range,
        _Rounding,
        _Unpacked,
    )
    from pyquant._typing import ArrayLike, Like
    from pyquant.packed import PackedArray

    _Scalar = TypeVar("_Scalar", bound=np.generic)
    _Array = TypeVar("_Array", bound=npt.NDArray[Any])

    class _Options(_GranularityOptions, total=False):
        symmetric: bool | np.bool | None
        include_zero: bool | np.bool
        scale_out: npt.NDArray[Any] | None
        zero_point_out: npt.NDArray[Any] | None
        quant_range: _Range
        scale_dtype: npt.DTypeLike | None
        like: Like | None
        rounding: _Rounding
        seed: _Index
        start: _Index

    class _ToArray(_Options, _Unpacked, total=False): ...


__all__ = ["dynamic_quantize", "fake_quantize"]
__dir__: object = __all__.copy


@overload
def dynamic_quantize(
    x: ArrayLike, *, dtype: npt.DTypeLike = "int8", out: _Array, **options: Unpack[_ToArray]
) -> tuple[_Array, QParams]: ...
@overload
def dynamic_quantize(
    x: ArrayLike, *, dtype: _Known[_Scalar], out: None = None, **options: Unpack[_ToArray]
) -> tuple[npt.NDArray[_Scalar], QParams]: ...
@overload
def dynamic_quantize(
    x: ArrayLike,
    *,
    dtype: npt.DTypeLike = "int8",
    layout: _Layout,
    packed: Literal[False] = False,
    out: None = None,
    **options: Unpack[_Options],
) -> tuple[PackedArray, QParams]: ...
@overload
def dynamic_quantize(
    x: ArrayLike,
    *,
    dtype: npt.DTypeLike = "int8",
    layout: None = None,
    packed: Literal[True],
    out: None = None,
    **options: Unpack[_Options],
) -> tuple[PackedArray, QParams]: ...
@overload
def dynamic_quantize(
    x: ArrayLike,
    *,
    dtype: npt.DTypeLike = "int8",
    out: npt.NDArray[Any] | None = None,
    **options: Unpack[_ToArray],
) -> tuple[npt.NDArray[Any], QParams]: ...
@overload
def dynamic_quantize(
    x: ArrayLike,
    *,
    dtype: npt.DTypeLike = "int8",
    layout: _Layout | None = None,
    packed: bool | np.bool = False,
    out: npt.NDArray[Any] | None = None,
    **options: Unpack[_Options],
) -> tuple[Any, QParams]: ...
@_core.hinted
def dynamic_quantize(
    x: ArrayLike,
    *,
    dtype: npt.DTypeLike = "int8",
    axis: _Integers = None,
    block_size: _Integers = None,
    symmetric: bool | np.bool | None = None,
    include_zero: bool | np.bool = True,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    scale_dtype: npt.DTypeLike | None = None,
    like: Like | None = None,
    layout: _Layout | None = None,
    packed: bool | np.bool = False,
    out: npt.NDArray[Any] | None = None,
    scale_out: npt.NDArray[Any] | None = None,
    zero_point_out: npt.NDArray[Any] | None = None,
    rounding: _Rounding = "half_even",
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
    threads: SupportsIndex = 1,
) -> tuple[Any, QParams]:
    """
    Choose parameters from the data and quantize in one pass.

    Parameters
    ----------
    x : array_like
        Finite values of float32, float64, float16 or bfloat16, of any shape and strides.
    dtype : dtype_like, optional
        The quantized type, see `choose_qparams`. Default int8.
    axis, block_size : int or tuple of int, optional
        The granularity, see `quantize`. ``axis=0`` chooses one scale for each row. For an
        activation, each row is a token. Default: one scale for all of `x`.
    symmetric, include_zero, quant_range, scale_dtype, like
        See `choose_qparams`.
    layout, packed
        Return a `PackedArray`. See `quantize`.
    out : ndarray, optional
        Array for the codes, of the exact shape and dtype. Any strides are allowed.
    scale_out, zero_point_out : ndarray, optional
        Arrays for copies of the scales and zero points, of the exact shape and dtype. Any
        strides are allowed. To quantize one row, pass ``x[i : i + 1]`` and ``axis=0``.
    rounding : str or RoundMode, optional
        See `quantize`.
    seed, start : int, optional
        Options of stochastic rounding, see `quantize`. `start` is the position of the first
        element of `x` in a larger array in C order. Rows of the larger array can then be
        quantized in chunks.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on `threads`.

    Returns
    -------
    codes : ndarray or PackedArray
        The codes, with the shape of `x`, or `out`.
    parameters : QParams
        The parameters of the codes.

    Raises
    ------
    TypeError, numpy.exceptions.AxisError, ImportError
        See `quantize`.
    ValueError
        If a value or a shape is wrong. All outputs are then unchanged. If `x` contains NaN
        or an infinity. `out` may then contain codes of some rows or blocks.

    Notes
    -----
    The result equals `choose_qparams` followed by `QParams.quantize`, bit for bit. The
    elements of a scale are quantized while they are in the cache, so each element is read
    from memory once, unless the elements of one scale exceed the cache.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> x = np.float32([[-1, 0.5, 2], [0, 0, 0], [0.1, 0.2, 0.3]])
    >>> q, p = pq.dynamic_quantize(x, axis=0)
    >>> q
    array([[-64,  32, 127],
           [  0,   0,   0],
           [ 42,  85, 127]], dtype=int8)
    >>> p.scale
    array([0.01574803, 1.        , 0.0023622 ], dtype=float32)
    >>> cache, scales = np.zeros((9, 3), np.int8), np.zeros(9, np.float32)
    >>> _ = pq.dynamic_quantize(x, axis=0, out=cache[2:5], scale_out=scales[2:5])
    >>> scales[:4]
    array([0.        , 0.        , 0.01574803, 1.        ], dtype=float32)
    """
    if include_zero is not True and not _check.flag(include_zero, "include_zero"):
        x = _core.as_reals(x, "x")
        p = choose_qparams(
            x,
            dtype=dtype,
            axis=axis,
            block_size=block_size,
            symmetric=symmetric,
            include_zero=False,
            quant_range=quant_range,
            scale_dtype=scale_dtype,
            like=like,
            threads=threads,
        )
        types = str(p.scale.dtype), p._name
        both = scale_out, zero_point_out
        write = write_parameters(both, types, p.scale.shape, (x, out))
        given: Any = {"layout": layout, "packed": packed, "out": out, "rounding": rounding}
        codes = p.quantize(x, seed=seed, start=start, threads=threads, **given)
        write(p)
        return codes, p
    return _core.dynamic_quantize(
        QParams,
        x,
        dtype,
        axis,
        block_size,
        symmetric,
        quant_range,
        scale_dtype,
        like,
        layout,
        packed,
        out,
        scale_out,
        zero_point_out,
        rounding,
        seed,
        start,
        threads,
    )


def write_parameters(
    outs: tuple[Any, Any], names: tuple[str, str], shape: tuple[int, ...], apart: Any
) -> Callable[[QParams], None]:
    """Check scale_out and zero_point_out. Return a function that fills both arrays."""
    targets: list[Any] = []
    zeros = _core.typed_zeros(np.zeros(0, _core.zero_name(names[1])), names[1])
    kinds = _core.dtype_named(names[0]), zeros.dtype
    for name, out, kind in zip(("scale_out", "zero_point_out"), outs, kinds, strict=True):
        if out is not None:
            taken = [one for one in (*apart, *targets) if isinstance(one, np.ndarray)]
            out = _check.out(out, kind, shape, *taken, name=name, x=np.shape(apart[0]))
        targets.append(out)

    def write(p: QParams) -> None:
        for target, values in zip(targets, (p.scale, p.zero_point), strict=True):
            if target is not None:
                target[...] = values

    return write
