# SPDX-License-Identifier: Apache-2.0
"""Read and write weights of bitsandbytes: NF4, FP4 and rows of int8.

bitsandbytes is not imported. Tensor names follow its safetensors files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex

import numpy as np

from pyquant import _core
from pyquant import dtypes as _dtypes
from pyquant._codebooks import TABLES
from pyquant._core import dequantize as _decoded
from pyquant._core import quantize as _encoded
from pyquant._shown import shown
from pyquant.packed import PackedArray
from pyquant.weights._elements import check_apart
from pyquant.weights._weight import REALS, check_out, real_of, refuse_nonfinite

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from pyquant._typing import ArrayLike

__all__ = [
    "FourBit",
    "Nested",
    "dequantize",
    "dequantize_int8",
    "from_tensors",
    "quantize",
    "quantize_int8",
    "to_tensors",
]

_BOOKS = {"nf4": "nf4", "fp4": "fp4_bnb"}
_BLOCKS = (32, 64, 128, 256, 512, 1024, 2048, 4096)
_NESTED_BLOCK = 256
# Further types of packed bytes in files (quant_storage). uint16: bits of bfloat16, which
# files return without ml_dtypes.
_STORAGE = ("int8", "uint16", *REALS)
_STATE = "quant_state.bitsandbytes__"
_LEAST = np.float32(1e-38)  # smallest divisor
_PIECE = 1 << 16  # elements of a buffer, a multiple of any block size
_PART = 1 << 20  # elements of a buffer for threads


def __dir__() -> list[str]:
    return sorted(__all__)


@dataclass(frozen=True, eq=False)
class Nested:
    """
    Parameters of scales that are quantized themselves.

    Attributes
    ----------
    absmax : ndarray
        float32 scales, one for each block of codes.
    offset : float
        The float32 number that is added to the products.
    quant_map : ndarray
        Table of 256 float32 numbers.
    block_size : int
        Number of codes that share a scale.
    """

    absmax: npt.NDArray[np.float32]
    offset: float
    quant_map: npt.NDArray[np.float32]
    block_size: int = _NESTED_BLOCK


@dataclass(frozen=True, eq=False)
class FourBit:
    """
    NF4 or FP4 codes in blocks, with the largest magnitude of each block.

    Attributes
    ----------
    data : ndarray
        One-dimensional uint8: two codes to a byte, the first in the high half, in C order.
        An odd number of elements is padded with the code of 0.
    absmax : ndarray
        Largest magnitude of each block: float32, or uint8 codes for nested scales.
    shape : tuple of int
        Shape of the weight.
    quant_map : ndarray
        Table of 16 float32 numbers, one for each code.
    quant_type : str
        "nf4" or "fp4".
    block_size : int
        Number of elements that share a scale; the last block may be short.
    dtype : str
        Original type of the weight, and default type of `dequantize`: "float32", "float16"
        or "bfloat16".
    nested : Nested or None
        Parameters of nested scales, if `absmax` contains codes.
    """

    data: npt.NDArray[np.uint8]
    absmax: npt.NDArray[Any]
    shape: tuple[int, ...]
    quant_map: npt.NDArray[np.float32]
    quant_type: str = "nf4"
    block_size: int = 64
    dtype: str = "float32"
    nested: Nested | None = None

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=object))


# ---- 4 bits ----


@_core.default_fpenv
def quantize(
    x: ArrayLike,
    *,
    block_size: SupportsIndex = 64,
    quant_type: str = "nf4",
    nested: bool = False,
    offset: SupportsFloat | None = None,
    threads: SupportsIndex = 1,
) -> FourBit:
    """
    Quantize to NF4 or FP4, like `bitsandbytes.functional.quantize_4bit` on CPUs.

    Parameters
    ----------
    x : array_like
        Finite values of float32, float16 or bfloat16, of any shape and strides.
    block_size : int, optional
        Number of elements in C order that share a scale: 32, 64 (the default), 128, 256,
        512, 1024, 2048 or 4096.
    quant_type : {"nf4", "fp4"}, optional
        The table of the codes.
    nested : bool, optional
        True: also quantize scales to 8 bits in blocks of 256. Default False.
    offset : float, optional
        For `nested`: the number that is subtracted from the scales. Default: their mean,
        with float64 sums.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on it.

    Returns
    -------
    FourBit
        Codes and scales.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong, or a value is not finite.

    Notes
    -----
    For a block with largest magnitude m, the quotient is ``x * (1 / max(m, 1e-38))``, and
    ``x / max(m, 1e-38)`` for a short block, in float32. The code is the index of the
    nearest number, and at a tie of the lower one. The bytes equal bitsandbytes 0.50.2.
    Nested scales differ: bitsandbytes' mean depends on PyTorch's order of additions, and
    its CPU code does not find the nearest of 256 numbers. pyquant finds the nearest, like
    bitsandbytes on GPUs.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import bitsandbytes
    >>> q = bitsandbytes.quantize(np.float32([1, -1, 0.5, 0.25, -0.7, 0]))
    >>> q.data.tobytes().hex(), q.absmax.tolist()
    ('f0ca17', [1.0])
    >>> bitsandbytes.dequantize(q)[:2]
    array([ 1., -1.], dtype=float32)
    """
    size = _block_size_of(block_size)
    book = _book_of(quant_type)
    _check_flag(nested, "nested")
    if offset is not None and not nested:
        msg = "offset: expected None without nested=True"
        raise ValueError(msg)
    array = _core.plain(x, "x")
    dtype = _dtypes.name_of(array.dtype)
    if dtype not in REALS:
        msg = f"x: expected float32, float16 or bfloat16, got {array.dtype}"
        raise TypeError(msg)
    try:
        absmax, codes = _blocks_of(array, size, book, threads)
    except ValueError:
        refuse_nonfinite(array, "x")  # raises with the full index
        raise
    given = TABLES[book]
    if not nested:
        return FourBit(codes, absmax, array.shape, given, quant_type, size, dtype)
    base = np.float32(_offset_of(offset, absmax))
    with np.errstate(all="ignore"):
        left = absmax - base
    scales = _absmax_of(left, _NESTED_BLOCK)
    kept = Nested(scales, float(base), TABLES["dynamic8"])
    small = _encoded(
        left,
        _inverse_of(scales),
        axis=0,
        block_size=_NESTED_BLOCK,
        inverse=True,
        codebook="dynamic8",
    )
    return FourBit(codes, small, array.shape, given, quant_type, size, dtype, kept)


@_core.default_fpenv
def dequantize(
    q: FourBit,
    *,
    dtype: npt.DTypeLike | None = None,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[Any]:
    """
    Convert NF4 or FP4 codes to real numbers.

    Parameters
    ----------
    q : FourBit
        Result of `quantize` or `from_tensors`.
    dtype : dtype_like, optional
        float32, float64, float16 or bfloat16. Default: the dtype of `out`, else
        ``q.dtype``.
    out : ndarray, optional
        Array for the result, with the shape of `q`. Any strides are allowed.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on it.

    Returns
    -------
    ndarray
        Array of shape ``q.shape``, or `out`.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong; `out` is unchanged.

    Notes
    -----
    ``quant_map[code] * absmax`` in float32, then rounded to `dtype`. Nested scales are
    first ``map[code] * absmax + offset``, with each step rounded to float32. The result
    equals bitsandbytes 0.50.2, except that code 8 of FP4 is always +0.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import bitsandbytes
    >>> q = bitsandbytes.quantize(np.float32([[3, 1], [0, -3]]), quant_type="fp4")
    >>> bitsandbytes.dequantize(q)
    array([[ 3.,  1.],
           [ 0., -3.]], dtype=float32)
    """
    if not isinstance(q, FourBit):
        msg = f"q: expected a FourBit, got {type(q).__name__}"
        raise TypeError(msg)
    _check(q, "q")
    codes = PackedArray(q.data, "uint4", q.size, layout="high-first")
    scales: Any = q.absmax
    if q.nested is not None:
        scales = _decoded(
            q.absmax,
            q.nested.absmax,
            axis=0,
            block_size=q.nested.block_size,
            codebook=q.nested.quant_map,
        )
        with np.errstate(all="ignore"):
            scales += np.float32(q.nested.offset)
    size = int(q.block_size)
    how: dict[str, Any] = {"axis": 0, "block_size": size, "codebook": q.quant_map}
    if out is None:
        kind = q.dtype if dtype is None else dtype
        made = _decoded(codes, scales, dtype=kind, threads=threads, **how)
        whole: npt.NDArray[Any] = made.reshape(q.shape)
        return whole
    check_out(out, q.shape, real_of(dtype, out))
    check_apart(out, q.data, q.absmax, q.quant_map)
    if q.nested is not None:
        check_apart(out, q.nested.absmax)
    if out.flags.c_contiguous:
        _decoded(codes, scales, out=out.reshape(-1), threads=threads, **how)
        return out
    for begin in range(0, q.size, _PIECE):
        end = min(begin + _PIECE, q.size)
        first, last = begin // size, -(-end // size)
        part = codes[begin:end]
        made = _decoded(part, scales[first:last], dtype=out.dtype, threads=threads, **how)
        out.flat[begin:end] = made
    return out


def _blocks_of(
    array: npt.NDArray[Any], size: int, book: str, threads: SupportsIndex
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint8]]:
    """Return scales and codes of blocks in C order."""
    if array.flags.c_contiguous:
        flat = array.reshape(-1)
        absmax = _absmax_of(flat, size)
        return absmax, _encode(flat, absmax, size, book, threads)
    absmax = np.empty(-(-array.size // size), np.float32)
    codes = np.empty((array.size + 1) // 2, np.uint8)
    for begin, part in _parts_of(array):
        some = _absmax_of(part, size)
        made = _encode(part, some, size, book, threads)
        absmax[begin // size :][: some.size] = some
        codes[begin // 2 :][: made.size] = made
    return absmax, codes


def _parts_of(array: npt.NDArray[Any]) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Yield elements in C order and their positions; all parts use one buffer."""
    room = np.empty(min(array.size, _PART), array.dtype)
    begin = filled = 0
    flags: Any = ["buffered", "external_loop", "zerosize_ok"]
    with np.nditer(array, flags, order="C", buffersize=_PIECE) as walk:
        some: Any
        for some in walk:
            done = 0
            while done < some.size:
                count = min(some.size - done, room.size - filled)
                room[filled : filled + count] = some[done : done + count]
                done, filled = done + count, filled + count
                if filled == room.size:
                    yield begin, room
                    begin, filled = begin + filled, 0
    if filled:
        yield begin, room[:filled]


def _encode(
    flat: npt.NDArray[Any],
    absmax: npt.NDArray[np.float32],
    size: int,
    book: str,
    threads: SupportsIndex,
) -> npt.NDArray[np.uint8]:
    """Multiply complete blocks by the reciprocals of their scales; divide a short block."""
    whole = flat.size // size
    how: dict[str, Any] = {"packed": "high-first", "codebook": book, "threads": threads}
    how |= {"axis": 0, "block_size": size, "inverse": True}
    inverse = _inverse_of(absmax[:whole])
    if whole == absmax.size:
        made: Any = _encoded(flat, inverse, **how)
        return np.asarray(made.data)
    data = np.empty((flat.size + 1) // 2, np.uint8)  # filled in parts, to save memory
    step = _PART // size
    for first in range(0, whole, step):
        last = min(first + step, whole)
        made = _encoded(flat[first * size : last * size], inverse[first:last], **how)
        data[first * size // 2 : last * size // 2] = made.data
    rest: Any = _encoded(
        flat[whole * size :], max(absmax[-1], _LEAST), packed="high-first", codebook=book
    )
    data[whole * size // 2 :] = rest.data
    if flat.size % 2:  # as if the block contained 0
        data[-1] |= int(_encoded(0.0, 1.0, codebook=book))
    return data


def _inverse_of(absmax: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the multipliers of blocks with these magnitudes."""
    with np.errstate(all="ignore"):
        return np.divide(np.float32(1), np.maximum(absmax, _LEAST), dtype=np.float32)


def _absmax_of(flat: npt.NDArray[Any], size: int) -> npt.NDArray[np.float32]:
    """Return the largest magnitude of each block; raise an error for values not finite."""
    lowest, highest = _core.extrema(flat, (size,))
    found: npt.NDArray[np.float32] = np.maximum(-lowest, highest).astype(np.float32)
    return found


def _offset_of(
    offset: SupportsFloat | None, absmax: npt.NDArray[np.float32]
) -> SupportsFloat:
    if offset is None:
        return float(absmax.mean(dtype=np.float64)) if absmax.size else 0.0
    if isinstance(offset, (str, bool, np.bool)) or not isinstance(offset, SupportsFloat):
        msg = f"offset: expected a number, got {type(offset).__name__}"
        raise TypeError(msg)
    if not abs(_real_of(offset)) <= float(np.finfo(np.float32).max):
        msg = f"offset: expected a finite float32, got {shown(offset):.60}"
        raise ValueError(msg)
    return float(offset)


def _real_of(value: SupportsFloat) -> float:
    """Convert to float. Larger values become infinity. Other objects raise."""
    try:
        return float(value)
    except OverflowError:
        return np.inf
    except (TypeError, ValueError):
        return np.nan


# ---- rows of int8 ----


@_core.default_fpenv
def quantize_int8(
    x: ArrayLike, *, threads: SupportsIndex = 1
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """
    Quantize rows to int8, as LLM.int8() stores weights.

    Parameters
    ----------
    x : array_like
        Finite values of float32, float16 or bfloat16, with two dimensions.
    threads : int, optional
        Largest number of threads. Default 1.

    Returns
    -------
    codes : ndarray
        int8 codes, with the shape of `x`.
    scb : ndarray
        Largest magnitude of each row, float32.

    Raises
    ------
    TypeError, ValueError
        If `x` is wrong, or a value is not finite.

    Notes
    -----
    ``round_half_even(x * (127 * (1 / scb)))``, each step in float32. Rows with `scb` 0 get
    codes 0. A ratio beyond float32, for rows below 4e-37, becomes its largest number.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import bitsandbytes
    >>> bitsandbytes.quantize_int8(np.float32([[1, -2], [0, 0]]))
    (array([[  64, -127],
           [   0,    0]], dtype=int8), array([2., 0.], dtype=float32))
    """
    array = _core.plain(x, "x")
    if array.ndim != 2:
        msg = f"x: expected two dimensions, got shape {array.shape}"
        raise ValueError(msg)
    if _dtypes.name_of(array.dtype) not in REALS:
        msg = f"x: expected float32, float16 or bfloat16, got {array.dtype}"
        raise TypeError(msg)
    ends = _core.extrema(array, (1, max(array.shape[1], 1)))
    scb = np.maximum(-ends[0], ends[1]).astype(np.float32).reshape(-1)
    scb = scb if array.shape[1] else np.zeros(len(array), np.float32)
    least = np.where(scb == 0, np.float32(1), scb)
    with np.errstate(all="ignore"):
        ratio = np.float32(127) * (np.float32(1) / least)
    ratio = np.minimum(ratio, np.finfo(np.float32).max)
    codes = _encoded(array, ratio, axis=0, dtype="int8", inverse=True, threads=threads)
    return np.asarray(codes, np.int8), scb


@_core.default_fpenv
def dequantize_int8(
    codes: ArrayLike,
    scb: ArrayLike,
    *,
    dtype: npt.DTypeLike | None = None,
    out: npt.NDArray[Any] | None = None,
) -> npt.NDArray[Any]:
    """
    Convert rows of int8 codes to real numbers.

    Parameters
    ----------
    codes : array_like
        Two-dimensional int8: `X.weight` of a file.
    scb : array_like
        float32, one for each row: `X.SCB` of a file.
    dtype : dtype_like, optional
        float32, float64, float16 or bfloat16. Default: the dtype of `out`, else float16.
    out : ndarray, optional
        Array for the result, with the shape of `codes` and that type. Any strides are
        allowed.

    Returns
    -------
    ndarray
        Array with the shape of `codes`, or `out`.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong; `out` is unchanged.

    Notes
    -----
    ``codes * scb * 0.007874015718698502``, with two float32 products, then rounded to
    `dtype`.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import bitsandbytes
    >>> bitsandbytes.dequantize_int8(np.int8([[127, -127]]), np.float32([2]))
    array([[ 2., -2.]], dtype=float16)
    """
    array = _core.plain(codes, "codes")
    if array.dtype != np.int8:
        msg = f"codes: expected int8, got {array.dtype}"
        raise TypeError(msg)
    if array.ndim != 2:
        msg = f"codes: expected two dimensions, got shape {array.shape}"
        raise ValueError(msg)
    scales = _core.plain(scb, "scb")
    if scales.dtype != np.float32:
        msg = f"scb: expected float32, got {scales.dtype}"
        raise TypeError(msg)
    if scales.shape != array.shape[:1]:
        msg = f"scb: expected shape {array.shape[:1]}, got {scales.shape}"
        raise ValueError(msg)
    kind = real_of("float16" if dtype is None and out is None else dtype, out)
    if out is None:
        out = np.empty(array.shape, kind)
    else:
        check_out(out, array.shape, kind)
        check_apart(out, array, scales)
    with np.errstate(all="ignore"):
        step = max(1, _PIECE // max(array.shape[1], 1))
        for begin in range(0, len(array), step):
            rows = slice(begin, begin + step)
            part = _decoded(array[rows], scales[rows], axis=0)
            part *= np.float32(0.007874015718698502)
            out[rows] = part
    return out


# ---- files ----


def to_tensors(q: FourBit, name: str) -> dict[str, npt.NDArray[Any]]:
    """
    Return the tensors that bitsandbytes stores for a weight.

    Parameters
    ----------
    q : FourBit
        Result of `quantize` or `from_tensors`.
    name : str
        Name of the weight, for example "model.layers.0.mlp.up_proj.weight".

    Returns
    -------
    dict
        Arrays by their names in a file, for `pyquant.write_weights`.

    Raises
    ------
    TypeError, ValueError
        If `q` is invalid.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import bitsandbytes
    >>> q = bitsandbytes.quantize(np.ones((2, 32), np.float16))
    >>> for key, tensor in bitsandbytes.to_tensors(q, "up.weight").items():
    ...     print(key, tensor.dtype, tensor.shape)
    up.weight uint8 (32, 1)
    up.weight.absmax float32 (1,)
    up.weight.quant_map float32 (16,)
    up.weight.quant_state.bitsandbytes__nf4 uint8 (81,)
    """
    if not isinstance(q, FourBit):
        msg = f"q: expected a FourBit, got {type(q).__name__}"
        raise TypeError(msg)
    _check(q, "q")
    _check_name(name)
    state: dict[str, Any] = {
        "quant_type": q.quant_type,
        "blocksize": int(q.block_size),
        "dtype": q.dtype,
        "shape": list(map(int, q.shape)),
    }
    found: dict[str, npt.NDArray[Any]] = {
        name: q.data.reshape(-1, 1),
        f"{name}.absmax": q.absmax,
        f"{name}.quant_map": q.quant_map,
    }
    if q.nested is not None:
        found[f"{name}.nested_absmax"] = q.nested.absmax
        found[f"{name}.nested_quant_map"] = q.nested.quant_map
        state["nested_blocksize"] = int(q.nested.block_size)
        state["nested_dtype"] = "float32"
        state["nested_offset"] = float(q.nested.offset)
    text = json.dumps(state).encode()
    found[f"{name}.{_STATE}{q.quant_type}"] = np.frombuffer(text, np.uint8)
    return found


@_core.default_fpenv
def from_tensors(tensors: Mapping[str, Any], name: str) -> FourBit:
    """
    Build a weight from the tensors that bitsandbytes stores.

    Parameters
    ----------
    tensors : mapping
        Arrays by their names, for example from `pyquant.open_weights`. Codes may have any
        type of ``quant_storage``: uint8, int8, float16, bfloat16 or float32.
    name : str
        Name of the weight.

    Returns
    -------
    FourBit
        Codes and scales, without a copy.

    Raises
    ------
    KeyError
        If the weight does not exist.
    TypeError, ValueError
        If the tensors are not a 4-bit weight, or do not match.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import bitsandbytes
    >>> q = bitsandbytes.quantize(np.ones((2, 32), np.float16), nested=True)
    >>> again = bitsandbytes.from_tensors(bitsandbytes.to_tensors(q, "w"), "w")
    >>> again.shape, again.dtype, again.nested.offset
    ((2, 32), 'float16', 1.0)
    """
    if not isinstance(tensors, Mapping):
        msg = f"tensors: expected a mapping, got {type(tensors).__name__}"
        raise TypeError(msg)
    _check_name(name)
    if name not in tensors:
        raise KeyError(f"name: expected that of a weight in tensors, got {name!r}")
    data = _array_of(tensors, name)
    if _dtypes.name_of(data.dtype) in _STORAGE:
        order = data.dtype.newbyteorder("<")
        data = np.ascontiguousarray(data, order).reshape(-1).view(np.uint8)
    keys = [f"{name}.{_STATE}{one}" for one in _BOOKS]
    present = [key for key in keys if key in tensors]
    if len(present) != 1:
        msg = f"tensors: expected one of {', '.join(keys)}, got {len(present)}"
        raise ValueError(msg)
    state = _state_of(_array_of(tensors, present[0]), present[0])
    nested = None
    if f"{name}.nested_absmax" in tensors:
        nested = Nested(
            _array_of(tensors, f"{name}.nested_absmax"),
            _number_in(state, "nested_offset", present[0]),
            _array_of(tensors, f"{name}.nested_quant_map"),
            _integer_in(state, "nested_blocksize", present[0]),
        )
    shape = state.get("shape")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        msg = f"tensors: expected a shape in {present[0]}, got {shape!r:.60}"
        raise ValueError(msg)
    found = FourBit(
        data.reshape(-1),
        _array_of(tensors, f"{name}.absmax"),
        tuple(shape),
        _array_of(tensors, f"{name}.quant_map"),
        str(state.get("quant_type")),
        _integer_in(state, "blocksize", present[0]),
        str(state.get("dtype")),
        nested,
    )
    _check(found, "tensors")
    return found


def _array_of(tensors: Mapping[str, Any], key: str) -> npt.NDArray[Any]:
    try:
        found = tensors[key]
    except KeyError as error:
        msg = f"tensors: expected {key} beside the others of the weight, got none"
        raise ValueError(msg) from error
    if not isinstance(found, np.ndarray) and hasattr(found, "view"):
        found = found.view()  # a tensor of a file
    if not isinstance(found, np.ndarray):
        msg = f"tensors: expected an array for {key}, got {type(found).__name__}"
        raise TypeError(msg)
    return found


def _state_of(text: npt.NDArray[Any], key: str) -> dict[str, Any]:
    try:
        if text.dtype != np.uint8 or text.size > _PIECE:
            raise ValueError
        state = json.loads(text.tobytes())
    except (ValueError, RecursionError):
        state = None
    if not isinstance(state, dict):
        got = f"{text.size} elements of {text.dtype}"
        msg = f"tensors: expected a JSON object in {key}, as uint8, got {got}"
        raise ValueError(msg)
    return state


def _integer_in(state: dict[str, Any], item: str, key: str) -> int:
    value = state.get(item)
    if type(value) is not int or not 1 <= value < 1 << 31:
        msg = f"tensors: expected a positive {item} in {key}, got {value!r:.60}"
        raise ValueError(msg)
    return value


def _number_in(state: dict[str, Any], item: str, key: str) -> float:
    value = state.get(item)
    if not _is_finite(value):
        msg = f"tensors: expected a finite {item} in {key}, got {value!r:.60}"
        raise ValueError(msg)
    return float(value)  # type: ignore[arg-type]


# ---- checks ----


def _block_size_of(block_size: SupportsIndex) -> int:
    try:
        size = _core.index(block_size)
    except TypeError:
        size = -1
    if size not in _BLOCKS:
        some = ", ".join(map(str, _BLOCKS))
        msg = f"block_size: expected one of {some}, got {shown(block_size):.60}"
        raise ValueError(msg)
    return size


def _book_of(quant_type: str) -> str:
    if not isinstance(quant_type, str) or quant_type not in _BOOKS:
        msg = f"quant_type: expected 'nf4' or 'fp4', got {shown(quant_type):.60}"
        raise ValueError(msg)
    return _BOOKS[quant_type]


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        msg = f"name: expected a string, got {type(name).__name__}"
        raise TypeError(msg)


def _check_flag(value: object, name: str) -> None:
    if not isinstance(value, (bool, np.bool)):
        msg = f"{name}: expected True or False, got {type(value).__name__}"
        raise TypeError(msg)


def _check(q: FourBit, name: str) -> None:
    """Check that the parts match."""
    if not isinstance(q.shape, tuple) or not all(map(_is_count, q.shape)):
        msg = f"{name}: expected a shape of integers from 0 on, got {shown(q.shape):.60}"
        raise ValueError(msg)
    _check_block(q.block_size, f"{name}: expected blocks of")
    whole = q.size
    blocks = -(-whole // int(q.block_size))
    if not (_is_one_of(q.quant_type, tuple(_BOOKS)) and _is_one_of(q.dtype, REALS)):
        msg = f"{name}: expected nf4 or fp4 of float32, float16 or bfloat16, got "
        msg += f"{shown(q.quant_type):.60} of {shown(q.dtype):.60}"
        raise ValueError(msg)
    parts: list[tuple[str, Any, type, int]] = [
        ("data", q.data, np.uint8, (whole + 1) // 2),
        ("absmax", q.absmax, np.float32 if q.nested is None else np.uint8, blocks),
        ("quant_map", q.quant_map, np.float32, 16),
    ]
    if q.nested is not None:
        if not isinstance(q.nested, Nested):
            msg = f"{name}: expected Nested or None in nested, got {shown(q.nested):.60}"
            raise ValueError(msg)
        _check_block(q.nested.block_size, f"{name}: expected nested blocks of")
        if not _is_finite(q.nested.offset):
            msg = f"{name}: expected a finite float32 as offset of nested scales, got "
            msg += f"{shown(q.nested.offset):.60}"
            raise ValueError(msg)
        groups = -(-blocks // int(q.nested.block_size))
        parts += [
            ("nested_absmax", q.nested.absmax, np.float32, groups),
            ("nested_quant_map", q.nested.quant_map, np.float32, 256),
        ]
    _check_parts(parts, name)


def _is_count(value: object) -> bool:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return whole and value >= 0  # type: ignore[operator]


def _is_one_of(value: object, names: tuple[str, ...]) -> bool:
    return isinstance(value, str) and value in names


def _is_finite(value: object) -> bool:
    """Return True for a number within float32."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating)):
        return False
    return abs(_real_of(value)) <= float(np.finfo(np.float32).max)


def _check_block(value: object, expected: str) -> None:
    if not _is_count(value) or value not in _BLOCKS:
        some = ", ".join(map(str, _BLOCKS))
        raise ValueError(f"{expected} {some}, got {shown(value):.60}")


def _check_parts(parts: Iterable[tuple[str, Any, type, int]], name: str) -> None:
    for part, array, kind, due in parts:
        if (
            not isinstance(array, np.ndarray)
            or array.dtype != kind
            or array.shape != (due,)
        ):
            got = f"{array.dtype} of shape {array.shape}" if hasattr(array, "dtype") else ""
            msg = f"{name}: expected {due} {np.dtype(kind)} in {part}, got "
            msg += got or type(array).__name__
            raise ValueError(msg)
