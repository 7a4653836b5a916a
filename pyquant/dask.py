# SPDX-License-Identifier: Apache-2.0
"""Arrays in chunks, of dask, which this module imports.

Every code and every number is that which one process would compute of the whole.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, SupportsIndex

import dask.array as da
import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from pyquant import _core
from pyquant import qparams as _qparams
from pyquant.qparams import QParams

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from pyquant._typing import ArrayLike

__all__ = ["choose_qparams", "dequantize", "quantize"]

_NO_OPTIONS = ("out", "packed", "threads")


def __dir__() -> list[str]:
    return sorted(__all__)


def quantize(
    x: da.Array,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    axis: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
    block_size: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
    offset: ArrayLike | None = None,
    **options: Any,
) -> da.Array:
    """
    Quantize, chunk by chunk and when it is computed.

    Parameters
    ----------
    x : dask.array.Array
        Real numbers; see `pyquant.quantize`. Chunks end where blocks end.
    scale, zero_point, offset : array_like
        In memory, of the shapes for the whole array, of which each chunk gets its part.
    dtype : dtype_like, optional
        The quantized type.
    axis, block_size : int or tuple of int, optional
        Granularity.
    **options
        The others of `pyquant.quantize`, but for `out`, `packed` and `threads`.

    Returns
    -------
    dask.array.Array
        Codes, in the chunks of `x`. The same arguments give the same names.

    Raises
    ------
    TypeError, ValueError
        If an argument does not fit, at once. What `out_of_range` and `nan` raise comes when
        it is computed, and its index is that in a chunk.

    Examples
    --------
    >>> import dask.array as da
    >>> import pyquant.dask
    >>> x = da.arange(8, chunks=4, dtype="float32").reshape(2, 4)
    >>> q = pyquant.dask.quantize(x, [[0.5, 1], [1, 2]], axis=1, block_size=2)
    >>> q.dtype, q.compute(scheduler="synchronous").tolist()
    (dtype('int8'), [[0, 2, 2, 3], [4, 5, 3, 4]])
    """
    if dtype is None and not isinstance(zero_point, np.ndarray | np.generic):
        dtype = "int8"
    named = {"scale": scale, "zero_point": zero_point, "offset": offset}
    return _mapped(
        _core.quantize, "x", x, named, axis, block_size, {**options, "dtype": dtype}
    )


def dequantize(
    q: da.Array,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    axis: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
    block_size: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
    offset: ArrayLike | None = None,
    **options: Any,
) -> da.Array:
    """
    Turn codes back into real numbers, chunk by chunk and when it is computed.

    Parameters
    ----------
    q : dask.array.Array
        Codes; see `pyquant.dequantize`. Chunks end where blocks end.
    scale, zero_point, offset : array_like
        As for `quantize`.
    dtype : dtype_like, optional
        The real type, float32 by default.
    axis, block_size : int or tuple of int, optional
        Granularity.
    **options
        The others of `pyquant.dequantize`, but for `out` and `threads`.

    Returns
    -------
    dask.array.Array
        Real numbers, in the chunks of `q`.

    Raises
    ------
    TypeError, ValueError
        If an argument does not fit, at once.

    Examples
    --------
    >>> import dask.array as da
    >>> import pyquant.dask
    >>> q = da.arange(6, chunks=3, dtype="int8")
    >>> pyquant.dask.dequantize(q, 0.5, 1).compute(scheduler="synchronous")
    array([-0.5,  0. ,  0.5,  1. ,  1.5,  2. ], dtype=float32)
    """
    named = {"scale": scale, "zero_point": zero_point, "offset": offset}
    return _mapped(
        _core.dequantize, "q", q, named, axis, block_size, {**options, "dtype": dtype}
    )


def choose_qparams(
    x: da.Array,
    *,
    dtype: npt.DTypeLike = "int8",
    axis: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
    block_size: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
    symmetric: bool | None = None,
) -> QParams:
    """
    Choose scales and zero points, of the extremes of all chunks, which are computed.

    Parameters
    ----------
    x : dask.array.Array
        Real numbers, all finite. Chunks end where blocks end.
    dtype, axis, block_size, symmetric : optional
        As for `pyquant.choose_qparams`.

    Returns
    -------
    QParams
        As of the whole array. Extremes are found in chunks, and meet in a tree.

    Raises
    ------
    TypeError, ValueError
        If an argument does not fit, or there is a NaN or an infinity.

    Examples
    --------
    >>> import dask
    >>> import dask.array as da
    >>> import pyquant.dask
    >>> x = da.linspace(-4, 127, 132, chunks=50)
    >>> with dask.config.set(scheduler="synchronous"):
    ...     p = pyquant.dask.choose_qparams(x)
    >>> float(p.scale)
    1.0
    """
    _check_chunked(x, "x")
    _qparams.choose_qparams(np.empty(0, x.dtype), dtype=dtype, symmetric=symmetric)
    extents, shape = _groups("x", x, axis, block_size, None)
    chunks = _chunks_of_groups("x", x, extents)
    single = tuple(d for d, sizes in enumerate(chunks) if sizes == (1,))
    spread = [(1,) * n if d in single else chunks[d] for d, n in enumerate(x.numblocks)]
    ends = []
    for find in (np.minimum, np.maximum):
        meta = np.empty((0,) * x.ndim, x.dtype)
        parts = da.map_blocks(_extremes, x, find, extents, chunks=spread, meta=meta)
        if single:
            meet = find.reduce
            parts = da.reduction(
                parts, meet, meet, axis=single, keepdims=True, dtype=x.dtype, meta=meta
            )
        ends.append(parts)
    found = np.stack([np.ravel(end) for end in da.compute(*ends)])
    wrong = np.flatnonzero(~np.isfinite(found).all(axis=0))
    if wrong.size:
        place = tuple(map(int, np.unravel_index(wrong[0], shape)))
        where = f" in {wrong.size} groups, the first at index {place}" if shape else ""
        msg = f"x: expected finite numbers, got NaN or infinities{where}"
        raise ValueError(msg)
    p = _qparams.choose_qparams(found, dtype=dtype, axis=1, symmetric=symmetric)
    scale, zero_point = p.scale.reshape(shape), p.zero_point.reshape(shape)
    return QParams(scale, zero_point, p.dtype, axis=axis, block_size=block_size)


def _mapped(
    function: Callable[..., Any],
    name: str,
    x: da.Array,
    named: dict[str, Any],
    axis: Any,
    block_size: Any,
    options: dict[str, Any],
) -> da.Array:
    """A function of the core over chunks, each with its own parameters."""
    _check_chunked(x, name)
    for option in _NO_OPTIONS:
        if option in options:
            msg = f"{option}: expected none for chunks, got {options[option]!r:.60}"
            raise TypeError(msg)
    arrays = {key: _core.plain(v, key) for key, v in named.items() if v is not None}
    due = arrays["scale"].shape
    sliced = [key for key, value in arrays.items() if value.size != 1]
    for key in sliced:
        if arrays[key].shape != due:
            msg = f"{key}: expected shape {due}, got {arrays[key].shape}"
            raise ValueError(msg)
    # What this refuses, which has no elements, every chunk would refuse.
    ahead = {key: v[None] if key in sliced else v for key, v in arrays.items()}
    kind = function(np.empty((0, *due), x.dtype), **ahead, **options).dtype
    extents, parts = None, []
    if sliced or axis is not None or block_size is not None:
        extents, _ = _groups(name, x, axis, block_size, due if sliced else None)
        chunks: Any = _chunks_of_groups(name, x, extents)
        for key in sliced:
            part = arrays[key].reshape([sum(sizes) for sizes in chunks])
            parts += [da.from_array(part, chunks=chunks), range(x.ndim)]
    whole = {key: value for key, value in arrays.items() if key not in sliced}
    made: da.Array = da.blockwise(
        _chunk,
        range(x.ndim),
        x,
        range(x.ndim),
        *parts,
        function=function,
        sliced=sliced,
        extents=extents,
        options={**options, **whole},
        kind=kind,
        align_arrays=False,
        dtype=kind,
        meta=np.empty((0,) * x.ndim, kind),
    )
    return made


def _chunk(
    block: npt.NDArray[Any],
    *parts: npt.NDArray[Any],
    function: Callable[..., Any],
    sliced: list[str],
    extents: tuple[int, ...] | None,
    options: dict[str, Any],
    kind: np.dtype[Any],
) -> npt.NDArray[Any]:
    """What one process would make of a chunk."""
    if block.size == 0:
        return np.empty(block.shape, kind)
    if extents is not None:
        sizes = tuple(b or max(n, 1) for b, n in zip(extents, block.shape, strict=True))
        options = {**options, "block_size": sizes}
    made: npt.NDArray[Any] = function(
        block, **dict(zip(sliced, parts, strict=True)), **options
    )
    return made


def _extremes(
    block: npt.NDArray[Any], find: np.ufunc, extents: tuple[int, ...]
) -> npt.NDArray[Any]:
    """Of each group in a chunk. All ranges contain 0."""
    for d, b in enumerate(extents):
        if b == 0:
            block = find.reduce(block, axis=d, keepdims=True, initial=0)
        elif b > 1 and block.shape[d] > 0:
            block = find.reduceat(block, range(0, block.shape[d], b), axis=d)
    return block


def _groups(
    name: str, x: da.Array, axis: Any, block_size: Any, given: tuple[int, ...] | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The extents of groups, 0 for all of a dimension, and the shape of scales; `given` is
    that of those that are there.
    """
    if any(np.isnan(n) for n in x.shape):
        msg = f"{name}: expected chunks of known sizes (compute_chunk_sizes), got {x.shape}"
        raise ValueError(msg)
    lengths = tuple(int(n) for n in x.shape)
    # What is wrong with these by themselves.
    nothing = np.zeros((0,) * x.ndim, np.float32)
    _qparams.choose_qparams(nothing, axis=axis, block_size=block_size)
    axes: list[int] = [] if axis is None else sorted(normalize_axis_tuple(axis, x.ndim))
    if isinstance(block_size, tuple):
        extents = [operator.index(b) for b in block_size]
    elif block_size is not None:
        extents = [1] * x.ndim
        extents[axes[0]] = operator.index(block_size)
    else:
        extents = [1 if d in axes else 0 for d in range(x.ndim)]
    shape = tuple(-(-n // b) if b else 1 for n, b in zip(lengths, extents, strict=True))
    if block_size is None and axis is not None:
        shape = tuple(lengths[d] for d in axes)
    elif block_size is None and (given is None or len(given) != x.ndim):
        shape = ()
    elif block_size is None and given is not None:
        extents = [0 if n == 1 else 1 for n in given]
        shape = tuple(n if b else 1 for n, b in zip(lengths, extents, strict=True))
    if given is not None and given != shape:
        due = "one element" if axis is None and block_size is None else f"shape {shape}"
        msg = f"scale: expected {due}, got shape {given}"
        raise ValueError(msg)
    wide = zip(lengths, extents, strict=True)
    return tuple(0 if b >= n > 0 else b for n, b in wide), shape


def _chunks_of_groups(
    name: str, x: da.Array, extents: tuple[int, ...]
) -> tuple[tuple[int, ...], ...]:
    """How parameters are cut, that have the dimensions of the array."""
    chunks = []
    for d, (b, sizes) in enumerate(zip(extents, x.chunks, strict=True)):
        wrong = [n for n in sizes[:-1] if b and n % b]
        if wrong:
            near = max(round(wrong[0] / b), 1) * b
            msg = (
                f"{name}: expected chunks of whole blocks of {b} along axis {d}, "
                f"got one of {wrong[0]} (rechunk({{{d}: {near}}}))"
            )
            raise ValueError(msg)
        chunks.append(tuple(-(-n // b) for n in sizes) if b else (1,))
    return tuple(chunks)


def _check_chunked(x: Any, name: str) -> None:
    if not isinstance(x, da.Array):
        msg = f"{name}: expected an array of dask, got {type(x).__name__}"
        raise TypeError(msg)
