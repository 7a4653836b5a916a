# SPDX-License-Identifier: Apache-2.0
"""Quantize and dequantize dask arrays.

Every code and value equals the result of a call of pyquant on the complete array in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

import dask.array as da
import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from pyquant import _convert, _core, _standard
from pyquant import qparams as _qparams
from pyquant._check import fail
from pyquant.qparams import QParams

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from pyquant._typing import ArrayLike

__all__ = ["choose_qparams", "dequantize", "quantize"]

_da: Any = da  # type Any, because some annotations of dask are missing or wrong
_NO_OPTIONS = ("out", "layout", "packed", "threads", "codebook")
__dir__: object = __all__.copy


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
    Quantize a dask array, chunk by chunk.

    Parameters
    ----------
    x : dask.array.Array
        Real numbers; see `pyquant.quantize`. Each chunk must end where a block ends.
    scale, zero_point : array_like
        Arrays in memory, with the shapes for the complete array. Each chunk gets the scales
        and zero points of its blocks.
    dtype : dtype_like, optional
        The quantized type.
    axis, block_size : int or tuple of int, optional
        The granularity.
    offset : array_like, optional
        An array in memory, with the shape of `scale`.
    **options
        All options of `pyquant.quantize` except `out`, `layout`, `packed`, `threads` and
        `codebook`. Stochastic rounding raises an error, because it depends on the index of
        an element in the complete array.

    Returns
    -------
    dask.array.Array
        Codes, with the chunks of `x`. Calls with equal arguments return arrays with equal
        dask names.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong. The call raises this error. The computation raises the
        errors of the options `out_of_range` and `nan`. The message states the number of
        wrong elements in a chunk, and the index of the first wrong element in the complete
        array. If the sizes of chunks are unknown, the index is an index in the chunk.

    Examples
    --------
    >>> import dask.array as da
    >>> import pyquant.integrations.dask
    >>> x = da.arange(8, chunks=4, dtype="float32").reshape(2, 4)
    >>> q = pyquant.integrations.dask.quantize(x, [[0.5, 1], [1, 2]], axis=1, block_size=2)
    >>> q.dtype, q.compute(scheduler="synchronous").tolist()
    (dtype('int8'), [[0, 2, 2, 3], [4, 5, 3, 4]])
    """
    if options.get("rounding") == "stochastic":
        expected = "a mode without positions, which chunks do not know"
        raise fail(ValueError, "rounding", expected, "'stochastic'")
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
    Convert the codes of a dask array to real numbers, chunk by chunk.

    Parameters
    ----------
    q : dask.array.Array
        Codes; see `pyquant.dequantize`. Each chunk must end where a block ends.
    scale, zero_point : array_like
        See `quantize`.
    dtype : dtype_like, optional
        The real type. Default float32.
    axis, block_size : int or tuple of int, optional
        The granularity.
    offset : array_like, optional
        See `quantize`.
    **options
        All options of `pyquant.dequantize` except `out`, `threads` and `codebook`.

    Returns
    -------
    dask.array.Array
        Real numbers, with the chunks of `q`.

    Examples
    --------
    >>> import dask.array as da
    >>> import pyquant.integrations.dask
    >>> q = da.arange(6, chunks=3, dtype="int8")
    >>> pyquant.integrations.dask.dequantize(q, 0.5, 1).compute(scheduler="synchronous")
    array([-0.5,  0. ,  0.5,  1. ,  1.5,  2. ], dtype=float32)
    """
    named = {"scale": scale, "zero_point": zero_point, "offset": offset}
    return _mapped(
        _core.dequantize, "q", q, named, axis, block_size, {**options, "dtype": dtype}
    )


@_core.hinted
def choose_qparams(
    x: da.Array,
    *,
    dtype: npt.DTypeLike = "int8",
    axis: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
    block_size: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
    symmetric: bool | None = None,
) -> QParams:
    """
    Compute a dask array, and choose scales and zero points from its values.

    Parameters
    ----------
    x : dask.array.Array
        Finite real numbers. Each chunk must end where a block ends.
    dtype, axis, block_size, symmetric : optional
        See `pyquant.choose_qparams`.

    Returns
    -------
    QParams
        Parameters of the complete array. The function finds the extremes of each chunk, and
        combines a few extremes at a time in a tree.

    Examples
    --------
    >>> import dask
    >>> import dask.array as da
    >>> import pyquant.integrations.dask
    >>> x = da.linspace(-4, 127, 132, chunks=50)
    >>> with dask.config.set(scheduler="synchronous"):
    ...     p = pyquant.integrations.dask.choose_qparams(x)
    >>> float(p.scale)
    1.0
    """
    _check_chunked(x, "x")
    _qparams.choose_qparams(np.empty(0, x.dtype), dtype=dtype, symmetric=symmetric)
    extents, cuts, shape = _groups("x", x, axis, block_size)
    shared = [d for d, sizes in enumerate(cuts) if sizes == (1,)]
    spread = [(1,) * x.numblocks[d] if d in shared else cuts[d] for d in range(x.ndim)]
    how: Any = {"new_axis": 0, "chunks": ((2,), *spread), "dtype": x.dtype}
    how |= {"meta": np.empty((0,) * (x.ndim + 1), x.dtype), "token": "extrema"}
    ends = _da.map_blocks(_ends, x, extents=extents, starts=_starts(x), **how)
    if shared:
        along = [d + 1 for d in shared]
        ends = _da.reduction(
            ends, _highest, _highest, axis=along, keepdims=True, dtype=x.dtype
        )
    found = ends.compute().reshape(2, -1)
    np.negative(found[:1], out=found[:1])
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
    """Call a function of the core for each chunk, with the parameters of the chunk."""
    _check_chunked(x, name)
    for option in _NO_OPTIONS:
        if option in options:
            got = f"{_standard.shown(options[option]):.60}"
            raise fail(TypeError, option, "none for chunks", got)
    given = {k: v for k, v in named.items() if v is not None or k == "scale"}
    converted = {"zero_point": _convert.zeros}
    arrays = {k: converted.get(k, _core.plain)(v, k) for k, v in given.items()}
    one_scale = arrays["scale"].size == 1 and "offset" in arrays
    longest = "offset" if one_scale else "scale"
    due = arrays[longest].shape
    sliced = [key for key, value in arrays.items() if value.size != 1]
    for key in sliced:
        if arrays[key].shape != due:
            raise fail(ValueError, key, f"shape {due}", arrays[key].shape)
    # A call with an empty array raises an error for wrong arguments now. Without this call,
    # every chunk would raise the error later.
    ahead = {key: v[None] if key in sliced else v for key, v in arrays.items()}
    kind = function(np.empty((0, *due), x.dtype), **ahead, **options).dtype
    # Without a granularity, scales are broadcast like arrays in NumPy.
    if sliced and axis is None and block_size is None:
        if len(due) != x.ndim or x.ndim < 2:
            raise fail(ValueError, longest, "one element", f"shape {due}")
        axis = tuple(d for d, n in enumerate(due) if n != 1)
    extents, parts = None, []
    if axis is not None or block_size is not None:
        extents, cuts, shape = _groups(name, x, axis, block_size)
        kept = tuple(map(sum, cuts))
        if sliced and due not in (shape, kept):
            raise fail(ValueError, longest, f"shape {shape}", f"shape {due}")
        parts = [_da.from_array(arrays[key].reshape(kept), chunks=cuts) for key in sliced]
    whole = {key: value for key, value in arrays.items() if key not in sliced}
    given = {"function": function, "sliced": sliced, "extents": extents, "kind": kind}
    given |= {"options": {**options, **whole}, "starts": _starts(x)}
    how: Any = {"token": function.__name__, "dtype": kind}
    how["meta"] = np.empty((0,) * x.ndim, kind)
    made: da.Array = _da.map_blocks(_chunk, x, *parts, **given, **how)
    return made


def _chunk(
    block: npt.NDArray[Any],
    *parts: npt.NDArray[Any],
    function: Callable[..., Any],
    sliced: list[str],
    extents: tuple[int, ...] | None,
    kind: np.dtype[Any],
    options: dict[str, Any],
    starts: Any,
    block_id: tuple[int, ...] = (),
) -> npt.NDArray[Any]:
    """Return the codes or values of a chunk, for the scales in `parts`."""
    if block.size == 0:
        return np.empty(block.shape, kind)
    own: dict[str, Any] = dict(zip(sliced, parts, strict=True))
    if extents is not None:
        own["block_size"] = _within(block, extents)
    return _placed(starts, block_id, function, block, **own, **options)


@_core.default_fpenv
def _ends(
    block: npt.NDArray[Any],
    extents: tuple[int, ...],
    starts: Any,
    block_id: tuple[int, ...] = (),
) -> npt.NDArray[Any]:
    """Return two numbers for each group of a chunk: max(-x, 0) and max(x, 0)."""
    if block.size == 0:
        wide = zip(block.shape, extents, strict=True)
        return np.zeros((2, *(-(-n // b) if b else 1 for n, b in wide)), block.dtype)
    place = starts, block_id[1:]  # axis 0 of the result is not an axis of the chunk
    found = _placed(*place, _core.extrema, block, _within(block, extents))
    np.negative(found[:1], out=found[:1])
    return found.astype(block.dtype)


@_core.default_fpenv
def _highest(ends: npt.NDArray[Any], **options: Any) -> npt.NDArray[Any]:
    """Return the maxima along axes. dask calls the function on its threads."""
    found: npt.NDArray[Any] = np.maximum.reduce(ends, **options)
    return found


def _within(block: npt.NDArray[Any], extents: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(b or n for b, n in zip(extents, block.shape, strict=True))


def _placed(
    starts: Any,
    block_id: tuple[int, ...],
    function: Callable[..., npt.NDArray[Any]],
    *given: Any,
    **options: Any,
) -> npt.NDArray[Any]:
    """Call a function for a chunk. Convert the index in an error to the complete array."""
    try:
        return function(*given, **options)
    except ValueError as error:
        index = getattr(error, "index", None)
        if index is None or not starts:
            raise
        begin = (one[i] for one, i in zip(starts, block_id, strict=True))
        place = tuple(map(sum, zip(index, begin, strict=True)))
        what = str(error).removesuffix(f", the first at index {index}")
    msg = f"{what} in a chunk, the first at index {place}"
    raise ValueError(msg)


def _starts(x: da.Array) -> list[list[int]]:
    """Return the first indices of chunks along each axis, or [] if a size is unknown."""
    if any(np.isnan(n) for n in x.shape):
        return []
    return [np.cumsum([0, *sizes[:-1]]).tolist() for sizes in x.chunks]


def _groups(
    name: str, x: da.Array, axis: Any, block_size: Any
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Return the extents of groups, the chunks of the scales, and the shape of the scales.

    A group is a block of elements that share a scale. An extent of 0 means that a group
    covers the complete axis.
    """
    if any(np.isnan(n) for n in x.shape):
        expected = "chunks of known sizes (compute_chunk_sizes)"
        raise fail(ValueError, name, expected, f"{x.shape}")
    lengths = tuple(int(n) for n in x.shape)
    alike = np.broadcast_to(np.float32(0), lengths)
    shape = _qparams.choose_qparams(alike, axis=axis, block_size=block_size).scale.shape
    blocks = _core.integers(block_size, "block_size")
    if not isinstance(blocks, tuple):
        axes = () if axis is None else normalize_axis_tuple(axis, x.ndim)
        others = 0 if blocks is None else 1
        blocks = [(blocks or 1) if d in axes else others for d in range(x.ndim)]
    wide = zip(blocks, lengths, strict=True)
    extents = tuple(0 if b >= n > 0 else b for b, n in wide)
    cuts = []
    for d, (b, sizes) in enumerate(zip(extents, x.chunks, strict=True)):
        wrong = [n for n in sizes[:-1] if b and n % b]
        if wrong:
            near = max(round(wrong[0] / b), 1) * b
            got = f"one of {wrong[0]} (rechunk({{{d}: {near}}}))"
            expected = f"chunks of whole blocks of {b} along axis {d}"
            raise fail(ValueError, name, expected, got)
        cuts.append(tuple(-(-n // b) for n in sizes) if b else (1,))
    return extents, tuple(cuts), shape


def _check_chunked(x: Any, name: str) -> None:
    if not isinstance(x, da.Array):
        raise fail(TypeError, name, "an array of dask", type(x))
