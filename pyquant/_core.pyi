# Checked against the compiled module by stubtest.
from collections.abc import Callable, Iterable, Sequence
from typing import (
    Any,
    Literal,
    Self,
    SupportsIndex,
    TypeAlias,
    TypeVar,
    final,
    overload,
)

import numpy as np
import numpy.typing as npt
from typing_extensions import disjoint_base

from pyquant._typing import ArrayLike, Like
from pyquant.packed import PackedArray
from pyquant.rounding import RoundMode

_Integers: TypeAlias = SupportsIndex | tuple[SupportsIndex, ...] | None
_Scalar = TypeVar("_Scalar", bound=np.generic)
_Array = TypeVar("_Array", bound=npt.NDArray[Any])
_Made = TypeVar("_Made", bound=Calls)
_Known: TypeAlias = type[_Scalar] | np.dtype[_Scalar]
_Rounding: TypeAlias = (
    RoundMode
    | Literal["half_even", "half_away", "half_toward_zero", "half_up", "half_down"]
    | Literal["away", "trunc", "ceil", "floor", "stochastic"]
)

_Beyond: TypeAlias = Literal["saturate", "wrap", "raise"]
_NaN: TypeAlias = Literal["lowest", "raise"]
_Codes: TypeAlias = SupportsIndex | Iterable[SupportsIndex] | None

# A layout, or one with its axis and bits.
_Packing: TypeAlias = (
    str
    | tuple[str]
    | tuple[str, SupportsIndex | None]
    | tuple[str, SupportsIndex | None, SupportsIndex | None]
)

_FixedPoint: TypeAlias = Literal["tflite", "tflite_single", "rndnu", "fbgemm"]
_Arithmetic: TypeAlias = Literal["float32"] | _FixedPoint

isa_available: tuple[str, ...]
isa_active: str
c_api: object

def is_masked(obj: object) -> bool: ...
def is_untyped(values: object, /) -> bool: ...
def known(values: object) -> str | None: ...

# The type of `out`, else what `dtype` names, else that of the zero point, else int8.
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    axis: _Integers = None,
    block_size: _Integers = None,
    rounding: _Rounding = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[False] = False,
    out: _Array,
    threads: SupportsIndex = 1,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    out_of_range: _Beyond = "saturate",
    nan: _NaN = "lowest",
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
) -> _Array: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    axis: _Integers = None,
    block_size: _Integers = None,
    rounding: _Rounding = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[True] | _Packing,
    out: None = None,
    threads: SupportsIndex = 1,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    out_of_range: _Beyond = "saturate",
    nan: _NaN = "lowest",
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
) -> PackedArray: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: _Known[_Scalar],
    axis: _Integers = None,
    block_size: _Integers = None,
    rounding: _Rounding = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[False] = False,
    out: None = None,
    threads: SupportsIndex = 1,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    out_of_range: _Beyond = "saturate",
    nan: _NaN = "lowest",
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
) -> npt.NDArray[_Scalar]: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: Literal["int8"],
    axis: _Integers = None,
    block_size: _Integers = None,
    rounding: _Rounding = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[False] = False,
    out: None = None,
    threads: SupportsIndex = 1,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    out_of_range: _Beyond = "saturate",
    nan: _NaN = "lowest",
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
) -> npt.NDArray[np.int8]: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: Literal["uint8"],
    axis: _Integers = None,
    block_size: _Integers = None,
    rounding: _Rounding = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[False] = False,
    out: None = None,
    threads: SupportsIndex = 1,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    out_of_range: _Beyond = "saturate",
    nan: _NaN = "lowest",
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
) -> npt.NDArray[np.uint8]: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: Literal["int16"],
    axis: _Integers = None,
    block_size: _Integers = None,
    rounding: _Rounding = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[False] = False,
    out: None = None,
    threads: SupportsIndex = 1,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    out_of_range: _Beyond = "saturate",
    nan: _NaN = "lowest",
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
) -> npt.NDArray[np.int16]: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: Literal["uint16"],
    axis: _Integers = None,
    block_size: _Integers = None,
    rounding: _Rounding = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[False] = False,
    out: None = None,
    threads: SupportsIndex = 1,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    out_of_range: _Beyond = "saturate",
    nan: _NaN = "lowest",
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
) -> npt.NDArray[np.uint16]: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: Literal["int32"],
    axis: _Integers = None,
    block_size: _Integers = None,
    rounding: _Rounding = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[False] = False,
    out: None = None,
    threads: SupportsIndex = 1,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    out_of_range: _Beyond = "saturate",
    nan: _NaN = "lowest",
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
) -> npt.NDArray[np.int32]: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: Literal["uint32"],
    axis: _Integers = None,
    block_size: _Integers = None,
    rounding: _Rounding = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[False] = False,
    out: None = None,
    threads: SupportsIndex = 1,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    out_of_range: _Beyond = "saturate",
    nan: _NaN = "lowest",
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
) -> npt.NDArray[np.uint32]: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: Literal["int64"],
    axis: _Integers = None,
    block_size: _Integers = None,
    rounding: _Rounding = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[False] = False,
    out: None = None,
    threads: SupportsIndex = 1,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    out_of_range: _Beyond = "saturate",
    nan: _NaN = "lowest",
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
) -> npt.NDArray[np.int64]: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: Literal["uint64"],
    axis: _Integers = None,
    block_size: _Integers = None,
    rounding: _Rounding = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[False] = False,
    out: None = None,
    threads: SupportsIndex = 1,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    out_of_range: _Beyond = "saturate",
    nan: _NaN = "lowest",
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
) -> npt.NDArray[np.uint64]: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: int | None = None,
    *,
    dtype: None = None,
    axis: _Integers = None,
    block_size: _Integers = None,
    rounding: _Rounding = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[False] = False,
    out: None = None,
    threads: SupportsIndex = 1,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    out_of_range: _Beyond = "saturate",
    nan: _NaN = "lowest",
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
) -> npt.NDArray[np.int8]: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: npt.NDArray[_Scalar] | _Scalar,
    *,
    dtype: None = None,
    axis: _Integers = None,
    block_size: _Integers = None,
    rounding: _Rounding = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[False] = False,
    out: None = None,
    threads: SupportsIndex = 1,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    out_of_range: _Beyond = "saturate",
    nan: _NaN = "lowest",
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
) -> npt.NDArray[_Scalar]: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    axis: _Integers = None,
    block_size: _Integers = None,
    rounding: _Rounding = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[False] = False,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    out_of_range: _Beyond = "saturate",
    nan: _NaN = "lowest",
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
) -> npt.NDArray[Any]: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    axis: _Integers = None,
    block_size: _Integers = None,
    rounding: _Rounding = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: bool | np.bool | _Packing = False,
    out: None = None,
    threads: SupportsIndex = 1,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    out_of_range: _Beyond = "saturate",
    nan: _NaN = "lowest",
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
    codebook: ArrayLike | None = None,
) -> Any:
    """
    Quantize real numbers: ``saturate(round(x / scale) + zero_point)``.

    Parameters
    ----------
    x : array_like
        float32, float64, float16 or bfloat16, of any shape, strides and byte order.
        Python numbers are taken as float64. Buffers and objects with one of NumPy's
        protocols, or with `__dlpack__` and memory of the CPU, are not copied.
    scale : array_like
        Real numbers, narrow floats and float8_e8m0fnu among them, rounded once to float32
        (float64 when `x` is float64). One element is one scale for all of `x`; otherwise
        the shape follows from `axis` and `block_size`, or is that of `x` with 1 for
        dimensions along which the scale does not vary. Negative, zero, infinite and NaN
        scales follow IEEE arithmetic.
    zero_point : array_like, optional
        Integers within the range of `dtype`, one or as many as `scale` has. Default 0,
        which is all that narrow floats take.
    dtype : dtype_like, optional
        int8, uint8, int16, uint16, int32, uint32, int64, uint64; int4, uint4, int2, uint2;
        or a narrow float: float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz,
        float8_e3m4, float8_e4m3, float8_e4m3b11fnuz, float6_e2m3fn, float6_e3m2fn,
        float4_e2m1fn. Default: that of `zero_point` if it is a NumPy array or scalar, but
        int64 and uint64 want a `dtype`, else int8. Types that NumPy lacks are those of
        ml_dtypes.
    axis : int or tuple of int, optional
        The axes along which the scale varies. The shape of `scale` is that of `x` at these
        axes, in ascending order.
    block_size : int or tuple of int, optional
        With an integer `axis`: so many consecutive elements along it share a scale, and
        `scale` has the shape of `x` but for ``ceil(n / block_size)`` there. A tuple, and
        no `axis`: the extents of a block along each dimension. The last block may be short.
    rounding : str or RoundMode, optional
        How the quotient becomes an integer. Default half to even, as narrow floats are
        always rounded, but for "stochastic": to one of the two neighbours, the nearer the
        likelier.
    precision : dtype_like, optional
        Type to which the exact quotient is rounded before it is rounded to an integer:
        float16, bfloat16, float32 or float64. Default float32, float64 when `x` is float64.
    saturate : bool, optional
        Narrow floats: whether what is too large becomes the largest number (the default),
        or infinity or NaN where the type has one. Integers always saturate: must be True.
    packed : bool, str or tuple, optional
        Return a `PackedArray` instead of a byte for each element: True for a type of 2 or 4
        bits in the layout of ONNX; or a layout, or a tuple of layout, axis and bits, as
        `pack` takes them. Of as many bits uint8 saturates. Needs no ml_dtypes, and takes no
        `out`.
    out : ndarray, optional
        Where to put the result: exact shape and dtype, any strides that keep the elements
        of one dimension clear of those of the next.
    threads : int, optional
        How many threads may share the work. The result does not depend on it.
    offset : array_like, optional
        Real numbers, one or as many as scales may be: the codes are those of
        ``(x - offset) / scale``, of which each step is rounded once, to float32 (to float64
        when `x` or `precision` is that). Infinite and NaN ones follow IEEE arithmetic.
    inverse : bool, optional
        Whether `scale` is what is multiplied by, ``(x - offset) * scale``. Default False.
    fill : int or sequence of int, optional
        Codes that stand for NaN: what is NaN in `x` becomes the first of them. Integers
        only.
    quant_range : (int, int), optional
        The lowest and the highest code, within the range of `dtype`. Zero points, unless
        all are 0, are among them. Integers only.
    out_of_range : {"saturate", "wrap", "raise"}, optional
        What becomes of a number whose code is beyond the range: the end of that (the
        default); the code modulo two to the number of bits, of integers only, the lowest
        one for an infinity; or an error, which says how many there are and where the first
        one is.
    nan : {"lowest", "raise"}, optional
        What becomes of NaN that no `fill` stands for: the lowest code, or what a narrow
        float has for it (the default); or an error, as of numbers out of range.
    seed : int, optional
        With stochastic rounding only: which random numbers, from 0 (the default) to
        2**64 - 1.
    start : int, optional
        The same: where in a larger array, in C order, the first element of `x` is, from 0
        (the default) to 2**64 - 1. Chunks along the first axis, each with its own, get the
        codes of the whole.
    codebook : str or array_like, optional
        A table of 4, 8, 16, 32, 64, 128 or 256 numbers, rounded once to float32, or the
        name of one: "nf4", "fp4_bnb", "dynamic8", "dynamic8_unsigned". Codes are then
        places in it, those of the numbers nearest to ``x / scale``, or to ``x * scale`` if
        `inverse`, as middles rounded to float32 tell; what is on one becomes the lower
        number, NaN the lowest. `dtype`
        is uint8 (the default), or of as many bits as the table needs, which is what
        `packed` makes of it: uint4, or uint2. No option goes with it but `inverse`, those
        of shape, and `threads`.

    Returns
    -------
    ndarray
        The codes, of the shape of `x`; `out` if given; a `PackedArray` if `packed`.
        NaN gives the lowest integer, NaN of a narrow float, -0 of one of 6 bits and 6 of
        float4_e2m1fn, which have none.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a value or a shape does not fit: `out` has not been written to. If something is
        out of range, or NaN, that is not to be: `out` holds what it would hold by default.
    numpy.exceptions.AxisError
        If an axis is out of bounds.
    ImportError
        If a type is one of ml_dtypes, which is not installed.

    Notes
    -----
    Bit for bit the definition of ONNX QuantizeLinear and, with `rounding`, of nGraph
    Quantize: one IEEE division, one rounding, exact addition, saturation.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> pq.quantize(np.array([0.5, 1.5, -3.0, 1e9], np.float32), 0.5, 1, dtype="uint8")
    array([  2,   4,   0, 255], dtype=uint8)
    """

@overload
def dequantize(
    q: ArrayLike | PackedArray,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    axis: _Integers = None,
    block_size: _Integers = None,
    out: _Array,
    threads: SupportsIndex = 1,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    bias: ArrayLike | None = None,
) -> _Array: ...
@overload
def dequantize(
    q: ArrayLike | PackedArray,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: _Known[_Scalar],
    axis: _Integers = None,
    block_size: _Integers = None,
    out: None = None,
    threads: SupportsIndex = 1,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    bias: ArrayLike | None = None,
) -> npt.NDArray[_Scalar]: ...
@overload
def dequantize(
    q: ArrayLike | PackedArray,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: Literal["float32"] | None = None,
    axis: _Integers = None,
    block_size: _Integers = None,
    out: None = None,
    threads: SupportsIndex = 1,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    bias: ArrayLike | None = None,
) -> npt.NDArray[np.float32]: ...
@overload
def dequantize(
    q: ArrayLike | PackedArray,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: Literal["float64"],
    axis: _Integers = None,
    block_size: _Integers = None,
    out: None = None,
    threads: SupportsIndex = 1,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    bias: ArrayLike | None = None,
) -> npt.NDArray[np.float64]: ...
@overload
def dequantize(
    q: ArrayLike | PackedArray,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: Literal["float16"],
    axis: _Integers = None,
    block_size: _Integers = None,
    out: None = None,
    threads: SupportsIndex = 1,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    bias: ArrayLike | None = None,
) -> npt.NDArray[np.float16]: ...
@overload
def dequantize(
    q: ArrayLike | PackedArray,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    axis: _Integers = None,
    block_size: _Integers = None,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    bias: ArrayLike | None = None,
    codebook: ArrayLike | None = None,
) -> npt.NDArray[Any]:
    """
    Convert codes to real numbers: ``(q - zero_point) * scale``.

    Parameters
    ----------
    q : array_like
        Of a type that `quantize` has, of any shape, strides and byte order; or a
        `PackedArray`. Python integers are taken as int32, or uint32 if they need it.
    scale : array_like
        Real numbers, rounded once to float32 (float64 when `dtype` is float64); see
        `quantize` for shapes.
    zero_point : array_like, optional
        Integers within the range of the type of `q`, one or as many as `scale` has.
        Default 0.
    dtype : dtype_like, optional
        float32, float64, float16 or bfloat16. Default that of `out`, else float32.
    axis, block_size : int or tuple of int, optional
        As for `quantize`.
    out : ndarray, optional
        Where to put the result: exact shape and dtype, any strides that keep the elements
        of one dimension clear of those of the next.
    threads : int, optional
        How many threads may share the work. The result does not depend on it.
    offset : array_like, optional
        Real numbers, one or as many as scales may be, that are added to the products, which
        are rounded before: to float32 (to float64 when `dtype` is that), as the sums are.
    inverse : bool, optional
        Whether `scale` is what is divided by. Default False.
    fill : int or sequence of int, optional
        Codes that stand for NaN, which they become. Integers only.
    bias : array_like, optional
        The same as `offset`, by the name that formats of weights have for it: ``q * scale +
        bias`` of MLX. Not beside `offset`.
    codebook : str or array_like, optional
        As for `quantize`: `q` are places in a table, uint8, uint4 or uint2. The result is
        ``codebook[q] * scale``, or over `scale` if `inverse`, rounded to float32 and then
        to `dtype`.

    Returns
    -------
    ndarray
        Real numbers, of the shape of `q`; `out` if that was given.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a value or a shape does not fit. `out` has not been written to.
    numpy.exceptions.AxisError
        If an axis is out of bounds.
    ImportError
        If a type is one of ml_dtypes, which is not installed.

    Notes
    -----
    Bit for bit the definition of ONNX DequantizeLinear, nGraph Dequantize and oneDNN Graph
    Dequantize: an exact difference of integers, one conversion to float32 (float64 for
    float64 results), one multiplication, one conversion to `dtype`, each rounding half to
    even. NaN results are the positive quiet NaN on every CPU.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> pq.dequantize(np.array([2, 4, 0, 255], np.uint8), 0.5, 1)
    array([  0.5,   1.5,  -0.5, 127. ], dtype=float32)
    """

@disjoint_base
class Packed:
    @property
    def _data(self) -> npt.NDArray[Any]: ...
    @property
    def _name(self) -> str: ...
    @property
    def _shape(self) -> tuple[int, ...]: ...
    @property
    def _how(self) -> tuple[str, int | None, int]: ...
    def _keep(
        self,
        data: npt.NDArray[Any],
        name: str,
        shape: tuple[int, ...],
        how: tuple[str, int | None, int],
        /,
    ) -> None: ...

@final
class Layout:
    @property
    def name(self) -> str: ...
    @property
    def widths(self) -> tuple[int, ...]: ...
    @property
    def words(self) -> tuple[np.dtype[Any], ...]: ...
    @property
    def order(self) -> bytes: ...
    @property
    def flat(self) -> bool: ...
    @property
    def word_bits(self) -> int: ...
    def __new__(
        cls,
        name: str,
        widths: tuple[int, ...],
        words: tuple[str, ...],
        order: bytes = ...,
        flat: bool = ...,
    ) -> Self: ...
    def length(self, codes: int, bits: int) -> int: ...
    def shape(
        self, extents: tuple[int, ...], axis: int | None, bits: int
    ) -> tuple[int, ...]: ...

@disjoint_base
class Calls:
    @property
    def _scale(self) -> npt.NDArray[Any]: ...
    @property
    def _zero_point(self) -> npt.NDArray[Any]: ...
    @property
    def _name(self) -> str: ...
    @property
    def _axis(self) -> int | tuple[int, ...] | None: ...
    @property
    def _block_size(self) -> int | tuple[int, ...] | None: ...
    @property
    def _offset(self) -> npt.NDArray[Any] | None: ...
    @property
    def _fill(self) -> tuple[int, ...] | None: ...
    @property
    def _quant_range(self) -> tuple[int, int] | None: ...
    def _set(
        self,
        scale: ArrayLike,
        zero_point: ArrayLike | None,
        dtype: npt.DTypeLike,
        axis: _Integers,
        block_size: _Integers,
        offset: ArrayLike | None,
        fill: _Codes,
        quant_range: tuple[SupportsIndex, SupportsIndex] | None,
        /,
    ) -> None: ...
    @classmethod
    def _choose(
        cls,
        x: ArrayLike,
        dtype: npt.DTypeLike,
        axis: _Integers,
        block_size: _Integers,
        symmetric: bool | np.bool | None,
        quant_range: tuple[SupportsIndex, SupportsIndex] | None,
        scale_dtype: npt.DTypeLike | None,
        like: Like | None,
        method: str,
        weights: ArrayLike | None,
        candidates: ArrayLike | None,
        threads: SupportsIndex,
        /,
    ) -> Self: ...
    @classmethod
    def _from_range(
        cls,
        lo: ArrayLike,
        hi: ArrayLike,
        dtype: npt.DTypeLike,
        axis: _Integers,
        block_size: _Integers,
        symmetric: bool | np.bool | None,
        quant_range: tuple[SupportsIndex, SupportsIndex] | None,
        scale_dtype: npt.DTypeLike | None,
        like: Like | None,
        /,
    ) -> Self: ...
    @overload
    def quantize(
        self,
        x: ArrayLike,
        *,
        rounding: _Rounding = "half_even",
        precision: npt.DTypeLike | None = None,
        saturate: bool | np.bool = True,
        packed: Literal[False] = False,
        out: _Array,
        threads: SupportsIndex = 1,
        out_of_range: _Beyond = "saturate",
        nan: _NaN = "lowest",
        seed: SupportsIndex | None = None,
        start: SupportsIndex | None = None,
    ) -> _Array: ...
    @overload
    def quantize(
        self,
        x: ArrayLike,
        *,
        rounding: _Rounding = "half_even",
        precision: npt.DTypeLike | None = None,
        saturate: bool | np.bool = True,
        packed: Literal[True] | _Packing,
        out: None = None,
        threads: SupportsIndex = 1,
        out_of_range: _Beyond = "saturate",
        nan: _NaN = "lowest",
        seed: SupportsIndex | None = None,
        start: SupportsIndex | None = None,
    ) -> PackedArray: ...
    @overload
    def quantize(
        self,
        x: ArrayLike,
        *,
        rounding: _Rounding = "half_even",
        precision: npt.DTypeLike | None = None,
        saturate: bool | np.bool = True,
        packed: Literal[False] = False,
        out: npt.NDArray[Any] | None = None,
        threads: SupportsIndex = 1,
        out_of_range: _Beyond = "saturate",
        nan: _NaN = "lowest",
        seed: SupportsIndex | None = None,
        start: SupportsIndex | None = None,
    ) -> npt.NDArray[Any]: ...
    @overload
    def quantize(
        self,
        x: ArrayLike,
        *,
        rounding: _Rounding = "half_even",
        precision: npt.DTypeLike | None = None,
        saturate: bool | np.bool = True,
        packed: bool | np.bool | _Packing = False,
        out: None = None,
        threads: SupportsIndex = 1,
        out_of_range: _Beyond = "saturate",
        nan: _NaN = "lowest",
        seed: SupportsIndex | None = None,
        start: SupportsIndex | None = None,
    ) -> Any:
        """
        Quantize an array with these parameters.

        Parameters
        ----------
        x : array_like
            Real numbers.
        rounding, precision, saturate, packed, out, threads, out_of_range, nan, seed, start
            As for `pyquant.quantize`.

        Returns
        -------
        ndarray or PackedArray
            The codes.

        Raises
        ------
        TypeError, ValueError, numpy.exceptions.AxisError, ImportError
            As `pyquant.quantize` does.

        Examples
        --------
        >>> import pyquant as pq
        >>> pq.QParams(0.5, 3, "uint8").quantize([0.5, 1.5, -9.0])
        array([4, 6, 0], dtype=uint8)
        """

    @overload
    def dequantize(
        self,
        q: ArrayLike | PackedArray,
        *,
        dtype: npt.DTypeLike | None = None,
        out: _Array,
        threads: SupportsIndex = 1,
    ) -> _Array: ...
    @overload
    def dequantize(
        self,
        q: ArrayLike | PackedArray,
        *,
        dtype: _Known[_Scalar],
        out: None = None,
        threads: SupportsIndex = 1,
    ) -> npt.NDArray[_Scalar]: ...
    @overload
    def dequantize(
        self,
        q: ArrayLike | PackedArray,
        *,
        dtype: Literal["float32"] | None = None,
        out: None = None,
        threads: SupportsIndex = 1,
    ) -> npt.NDArray[np.float32]: ...
    @overload
    def dequantize(
        self,
        q: ArrayLike | PackedArray,
        *,
        dtype: Literal["float64"],
        out: None = None,
        threads: SupportsIndex = 1,
    ) -> npt.NDArray[np.float64]: ...
    @overload
    def dequantize(
        self,
        q: ArrayLike | PackedArray,
        *,
        dtype: Literal["float16"],
        out: None = None,
        threads: SupportsIndex = 1,
    ) -> npt.NDArray[np.float16]: ...
    @overload
    def dequantize(
        self,
        q: ArrayLike | PackedArray,
        *,
        dtype: npt.DTypeLike | None = None,
        out: npt.NDArray[Any] | None = None,
        threads: SupportsIndex = 1,
    ) -> npt.NDArray[Any]:
        """
        Convert codes to real numbers with these parameters.

        Parameters
        ----------
        q : array_like or PackedArray
            Codes.
        dtype, out, threads
            As for `pyquant.dequantize`.

        Returns
        -------
        ndarray
            Real numbers.

        Raises
        ------
        TypeError
            If `q` has another type than the parameters are for.

        Examples
        --------
        >>> import pyquant as pq
        >>> pq.QParams(0.5, 3, "uint8").dequantize([4, 6, 0])
        array([ 0.5,  1.5, -1.5], dtype=float32)
        """

def quantize_standard(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None,
    *,
    dtype: npt.DTypeLike,
    axis: _Integers = None,
    block_size: _Integers = None,
    rounding: str = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    zero_first: bool | np.bool = False,
    narrow_first: bool | np.bool = False,
) -> npt.NDArray[Any]: ...
def dequantize_standard(
    q: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None,
    *,
    dtype: npt.DTypeLike,
    axis: _Integers = None,
    block_size: _Integers = None,
) -> npt.NDArray[Any]: ...
def plain(values: object, name: str, /) -> npt.NDArray[Any]: ...
def cast(array: npt.NDArray[Any], dtype: str, /) -> npt.NDArray[Any]: ...
def undisturbed(
    function: Callable[..., npt.NDArray[Any]], /, *args: Any
) -> npt.NDArray[Any]: ...
def spelled(dtype: object, /) -> str | None: ...
def type_rows() -> list[tuple[str, str, int, int, int | None, int | None]]: ...

@final
class Usual:
    def __init__(
        self,
        inputs: tuple[str, ...],
        scales: tuple[str, ...],
        zeros: tuple[str, ...],
        places: tuple[str, ...],
        *,
        names: dict[str, str] | None = ...,
        precision: str | None = ...,
        alike: bool = ...,
        attributes: bool = ...,
        mixed: bool = ...,
        zero_first: bool = ...,
        narrow_first: bool = ...,
    ) -> None: ...
    def quantize(
        self,
        x: ArrayLike,
        scale: ArrayLike,
        zero_point: ArrayLike | None,
        axis: SupportsIndex | None,
        *,
        dtype: npt.DTypeLike | None = ...,
        rounding: str = ...,
        block_size: SupportsIndex = ...,
    ) -> npt.NDArray[Any] | None: ...
    def dequantize(
        self,
        q: ArrayLike | PackedArray,
        scale: ArrayLike,
        zero_point: ArrayLike | None,
        axis: SupportsIndex | None,
        *,
        dtype: npt.DTypeLike | None = ...,
        block_size: SupportsIndex | Iterable[SupportsIndex] = ...,
    ) -> npt.NDArray[Any] | None: ...

def array_of(
    foreign: Callable[[Any, str, str, tuple[str, ...]], tuple[Any, str]],
    values: ArrayLike | PackedArray,
    name: str,
    standard: str,
    types: tuple[str, ...],
    /,
) -> tuple[Any, str]: ...
def axes_within(
    foreign: Callable[[Any, int, str], tuple[int, ...]],
    axes: Iterable[SupportsIndex],
    ndim: int,
    standard: str,
    /,
) -> tuple[int, ...]: ...
def dynamic_range(
    x: npt.NDArray[Any],
    /,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint8]]: ...
@overload
def extrema(
    x: ArrayLike, block_size: tuple[int, ...], as_magnitudes: Literal[False] = False, /
) -> npt.NDArray[np.float64]: ...
@overload
def extrema(
    x: ArrayLike, block_size: tuple[int, ...], as_magnitudes: Literal[True], /
) -> npt.NDArray[np.float32] | None: ...
def observed(
    x: ArrayLike,
    axis: int | tuple[int, ...] | None,
    histogram: bool,
    mantissa_bits: int,
    ignore: bool,
    threads: SupportsIndex,
    /,
) -> tuple[
    str,
    tuple[int, ...],
    npt.NDArray[np.uint64],
    npt.NDArray[np.uint64],
    npt.NDArray[np.uint64],
    npt.NDArray[np.float64],
    npt.NDArray[np.float64],
    npt.NDArray[np.uint16],
    npt.NDArray[np.uint16],
    npt.NDArray[np.uint64],
    npt.NDArray[np.uint64],
]: ...
def chosen(dtype: npt.DTypeLike, symmetric: object, /) -> tuple[str, bool]: ...
def limits_of(name: str, /) -> tuple[int, int] | None: ...
def first_zero(scales: npt.NDArray[np.float32], /) -> int: ...
def pack(q: ArrayLike, layout: object, axis: object, bits: object, /) -> PackedArray: ...
def repack(packed: PackedArray, layout: object, axis: object, /) -> PackedArray: ...
def unpack(packed: PackedArray, /) -> npt.NDArray[Any]: ...
def same_words(one: PackedArray, other: PackedArray, /) -> bool: ...
def copied(
    packed: PackedArray,
    data: npt.NDArray[Any],
    shape: tuple[int, ...],
    /,
) -> PackedArray: ...
def layouts() -> dict[str, Layout]: ...
def words_of(
    dtype: npt.DTypeLike,
    shape: SupportsIndex | Sequence[SupportsIndex],
    layout: object,
    axis: SupportsIndex | None,
    bits: SupportsIndex | None,
    /,
) -> tuple[str, tuple[int, ...], tuple[str, int | None, int], tuple[int, ...], Layout]: ...
def zero_name(name: str, /) -> str: ...
def typed_zeros(zeros: npt.NDArray[Any], name: str, /) -> npt.NDArray[Any]: ...
def limits(name: str, /) -> tuple[int, int] | None: ...
def dtype_named(name: str, /) -> np.dtype[Any]: ...
def integers(value: object, name: str, /) -> Any: ...
def quantize_at(
    isa: str,
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    axis: _Integers = None,
    block_size: _Integers = None,
    rounding: str = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: bool | np.bool | _Packing = False,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    out_of_range: _Beyond = "saturate",
    nan: _NaN = "lowest",
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
    codebook: ArrayLike | None = None,
) -> npt.NDArray[Any]: ...
def dequantize_at(
    isa: str,
    q: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    axis: _Integers = None,
    block_size: _Integers = None,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    bias: ArrayLike | None = None,
    codebook: ArrayLike | None = None,
) -> npt.NDArray[Any]: ...
def choose_qparams_at(
    isa: str,
    x: ArrayLike,
    *,
    dtype: npt.DTypeLike = "int8",
    axis: _Integers = None,
    block_size: _Integers = None,
    symmetric: bool | np.bool | None = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    scale_dtype: npt.DTypeLike | None = None,
    like: Like | None = None,
    method: str = "minmax",
    weights: ArrayLike | None = None,
    candidates: ArrayLike | None = None,
    threads: SupportsIndex = 1,
) -> tuple[npt.NDArray[np.floating[Any]], npt.NDArray[np.integer[Any]]]: ...
def presets() -> dict[str, tuple[str, ...]]:
    """The switches of each formula, in words, as the core has them."""

def has_fixed_point(arithmetic: str, multiplier: float, /) -> bool: ...
def requantize_at(
    isa: str,
    q: ArrayLike,
    multiplier: ArrayLike,
    zero_point: SupportsIndex = 0,
    *,
    dtype: npt.DTypeLike = "int8",
    input_zero_point: SupportsIndex = 0,
    bias: ArrayLike | None = None,
    axis: SupportsIndex | None = None,
    arithmetic: _Arithmetic = "float32",
    clip: tuple[SupportsIndex, SupportsIndex] | None = None,
    shift: ArrayLike | None = None,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[Any]: ...
@overload
def requantize(
    q: ArrayLike,
    multiplier: ArrayLike,
    zero_point: SupportsIndex = 0,
    *,
    dtype: npt.DTypeLike = "int8",
    input_zero_point: SupportsIndex = 0,
    bias: ArrayLike | None = None,
    axis: SupportsIndex | None = None,
    arithmetic: _Arithmetic = "float32",
    clip: tuple[SupportsIndex, SupportsIndex] | None = None,
    shift: ArrayLike | None = None,
    out: _Array,
    threads: SupportsIndex = 1,
) -> _Array: ...
@overload
def requantize(
    q: ArrayLike,
    multiplier: ArrayLike,
    zero_point: SupportsIndex = 0,
    *,
    dtype: _Known[_Scalar],
    input_zero_point: SupportsIndex = 0,
    bias: ArrayLike | None = None,
    axis: SupportsIndex | None = None,
    arithmetic: _Arithmetic = "float32",
    clip: tuple[SupportsIndex, SupportsIndex] | None = None,
    shift: ArrayLike | None = None,
    out: None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[_Scalar]: ...
@overload
def requantize(
    q: ArrayLike,
    multiplier: ArrayLike,
    zero_point: SupportsIndex = 0,
    *,
    dtype: Literal["int8"] = "int8",
    input_zero_point: SupportsIndex = 0,
    bias: ArrayLike | None = None,
    axis: SupportsIndex | None = None,
    arithmetic: _Arithmetic = "float32",
    clip: tuple[SupportsIndex, SupportsIndex] | None = None,
    shift: ArrayLike | None = None,
    out: None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[np.int8]: ...
@overload
def requantize(
    q: ArrayLike,
    multiplier: ArrayLike,
    zero_point: SupportsIndex = 0,
    *,
    dtype: Literal["uint8"],
    input_zero_point: SupportsIndex = 0,
    bias: ArrayLike | None = None,
    axis: SupportsIndex | None = None,
    arithmetic: _Arithmetic = "float32",
    clip: tuple[SupportsIndex, SupportsIndex] | None = None,
    shift: ArrayLike | None = None,
    out: None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[np.uint8]: ...
@overload
def requantize(
    q: ArrayLike,
    multiplier: ArrayLike,
    zero_point: SupportsIndex = 0,
    *,
    dtype: Literal["int16"],
    input_zero_point: SupportsIndex = 0,
    bias: ArrayLike | None = None,
    axis: SupportsIndex | None = None,
    arithmetic: _Arithmetic = "float32",
    clip: tuple[SupportsIndex, SupportsIndex] | None = None,
    shift: ArrayLike | None = None,
    out: None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[np.int16]: ...
@overload
def requantize(
    q: ArrayLike,
    multiplier: ArrayLike,
    zero_point: SupportsIndex = 0,
    *,
    dtype: Literal["uint16"],
    input_zero_point: SupportsIndex = 0,
    bias: ArrayLike | None = None,
    axis: SupportsIndex | None = None,
    arithmetic: _Arithmetic = "float32",
    clip: tuple[SupportsIndex, SupportsIndex] | None = None,
    shift: ArrayLike | None = None,
    out: None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[np.uint16]: ...
@overload
def requantize(
    q: ArrayLike,
    multiplier: ArrayLike,
    zero_point: SupportsIndex = 0,
    *,
    dtype: Literal["int32"],
    input_zero_point: SupportsIndex = 0,
    bias: ArrayLike | None = None,
    axis: SupportsIndex | None = None,
    arithmetic: _Arithmetic = "float32",
    clip: tuple[SupportsIndex, SupportsIndex] | None = None,
    shift: ArrayLike | None = None,
    out: None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[np.int32]: ...
@overload
def requantize(
    q: ArrayLike,
    multiplier: ArrayLike,
    zero_point: SupportsIndex = 0,
    *,
    dtype: npt.DTypeLike,
    input_zero_point: SupportsIndex = 0,
    bias: ArrayLike | None = None,
    axis: SupportsIndex | None = None,
    arithmetic: _Arithmetic = "float32",
    clip: tuple[SupportsIndex, SupportsIndex] | None = None,
    shift: ArrayLike | None = None,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[Any]:
    """
    Turn codes into codes of another scale: ``saturate(R(q - input_zero_point + bias) +
    zero_point)``, where R multiplies and rounds.

    Parameters
    ----------
    q : array_like
        int8, int16, int32, int64, uint8, uint16 or uint32, of any shape, strides and byte
        order: codes, or sums of products of codes. Python integers are taken as int32.
    multiplier : array_like
        float32 or float64 numbers above 0: the scale of `q` over that of the result. One,
        or one for each index of `axis`. With `shift` integers from 0 to 2**31 - 1.
    zero_point : int, optional
        Of the result, within the range of `dtype`. Default 0.
    dtype : dtype_like, optional
        int8 (the default), uint8, int16, uint16 or int32.
    input_zero_point : int, optional
        Of `q`, within the range of its type. Default 0.
    bias : array_like, optional
        Integers in the scale of `q`, one or one for each index of `axis`.
    axis : int, optional
        The axis along which multipliers, shifts and biases vary.
    arithmetic : str, optional
        How R multiplies and rounds: "float32" (the default), "rndnu", "tflite",
        "tflite_single" or "fbgemm"; see Notes.
    clip : (int, int), optional
        The lowest and the highest code of the result, within the range of `dtype`: a fused
        ReLU begins at `zero_point`.
    shift : array_like, optional
        Integers, as `fixed_point` gives them beside its multipliers, for parameters that
        are stored so: from -31 to 30 for "tflite" and "tflite_single", from 1 to 62 for
        "rndnu" and "fbgemm".
    out : ndarray, optional
        Where to put the result: exact shape and dtype, any strides that keep the elements
        of one dimension clear of those of the next. Not the memory of `q`.
    threads : int, optional
        How many threads may share the work. The result does not depend on it.

    Returns
    -------
    ndarray
        The codes, of the shape of `q`; `out` if that was given.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a value or a shape does not fit, or a multiplier is none that the arithmetic has.
        `out` has not been written to.
    numpy.exceptions.AxisError
        If the axis is out of bounds.

    Notes
    -----
    The sum ``v = q - input_zero_point + bias`` is exact (and at an end of int64 where that
    does not hold it). Then, in integers without limits but for "float32", with m and shift
    of `fixed_point`, ``>>`` rounding down::

        float32         half_even(float32(v) * float32(multiplier)), the product in float32
        rndnu, fbgemm   (v * m + 2**(shift - 1)) >> shift
        tflite_single   (v * m + 2**(30 - shift)) >> (31 - shift)
        tflite          (v * m + 2**(30 - shift)) >> (31 - shift) where shift >= 0, else
                        half_away(x / 2**-shift) of x = (v * m + 2**30) >> 31

    Where implementations overflow, results saturate.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> sums = np.int32([[1000, -2000], [30, 500]])
    >>> pq.requantize(sums, [0.05, 0.02], axis=1)
    array([[ 50, -40],
           [  2,  10]], dtype=int8)
    >>> pq.requantize(sums, [0.05, 0.02], axis=1, arithmetic="tflite_single")
    array([[ 50, -40],
           [  1,  10]], dtype=int8)
    """

@overload
def fixed_point(
    multiplier: float, arithmetic: _FixedPoint = "tflite"
) -> tuple[np.int32, np.int8]: ...
@overload
def fixed_point(
    multiplier: Sequence[float], arithmetic: _FixedPoint = "tflite"
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int8]]: ...
@overload
def fixed_point(
    multiplier: ArrayLike, arithmetic: _FixedPoint = "tflite"
) -> tuple[Any, Any]:
    """
    The integers that stand for real multipliers in an arithmetic of `requantize`.

    Parameters
    ----------
    multiplier : array_like
        float32 or float64 numbers above 0, of any shape.
    arithmetic : str, optional
        "tflite" (the default), "tflite_single", "rndnu" or "fbgemm".

    Returns
    -------
    multiplier : ndarray or int32
        Of the shape of the argument, int32.
    shift : ndarray or int8
        The same, int8: the number is ``multiplier * 2**(shift - 31)`` for "tflite" and
        "tflite_single", ``multiplier / 2**shift`` for "rndnu" and "fbgemm".

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a number is none that the arithmetic has; the message names its range.

    Notes
    -----
    "tflite" and "tflite_single" round to 31 bits, half away from zero; less than 2**-32 is
    0. "tflite_single" takes the largest there is, ``(2**31 - 1, 30)``, from 2**30 on.
    "rndnu" has the 24 bits of float32, from 2**-32 to less than 2**8; "fbgemm" the same,
    from 2**-32 to less than 2**30, as a multiplier from 2**30 on.

    Examples
    --------
    >>> import pyquant as pq
    >>> m, shift = pq.fixed_point(1 / 3)
    >>> int(m), int(shift)
    (1431655765, -1)
    """

def dynamic_quantize(
    cls: type[_Made],
    isa: str | None,
    x: ArrayLike,
    dtype: npt.DTypeLike,
    axis: _Integers,
    block_size: _Integers,
    symmetric: bool | np.bool | None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None,
    scale_dtype: npt.DTypeLike | None,
    like: str | None,
    packed: bool | np.bool | _Packing,
    out: npt.NDArray[Any] | None,
    threads: SupportsIndex,
    rounding: str,
    seed: SupportsIndex | None,
    start: SupportsIndex | None,
    /,
) -> tuple[Any, _Made]: ...
def fake_quantize(
    isa: str | None,
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None,
    dtype: npt.DTypeLike | None,
    axis: _Integers,
    block_size: _Integers,
    rounding: str,
    precision: npt.DTypeLike | None,
    saturate: bool | np.bool,
    offset: ArrayLike | None,
    inverse: bool | np.bool,
    fill: _Codes,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None,
    mask: npt.NDArray[np.bool] | None,
    out: npt.NDArray[Any] | None,
    threads: SupportsIndex,
    seed: SupportsIndex | None,
    start: SupportsIndex | None,
    /,
) -> npt.NDArray[Any]: ...
def fake_levels(
    isa: str | None,
    x: npt.NDArray[np.float32],
    params: npt.NDArray[np.float32],
    out: npt.NDArray[np.float32] | None,
    threads: SupportsIndex,
    /,
) -> npt.NDArray[np.float32]: ...
def as_reals(values: ArrayLike, name: str, /) -> npt.NDArray[Any]: ...
def measure(
    x: ArrayLike,
    y: ArrayLike,
    axis: _Integers = None,
    threads: SupportsIndex = 1,
    isa: str | None = None,
) -> tuple[npt.NDArray[Any], tuple[int, ...]]: ...
def measure_params(
    params: Calls,
    x: ArrayLike,
    axis: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
    threads: SupportsIndex = 1,
    isa: str | None = None,
    /,
) -> tuple[npt.NDArray[Any], tuple[int, ...]]: ...
def add_errors(
    first: npt.NDArray[Any], second: npt.NDArray[Any], /
) -> npt.NDArray[Any]: ...
def block_rows() -> list[tuple[str, int, int, int, int, bool]]: ...
def encode_blocks(
    row: tuple[str, int, int, int, int, bool],
    x: ArrayLike,
    weights: ArrayLike | None = None,
    search: bool = False,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
    isa: str | None = None,
) -> npt.NDArray[Any]: ...
def decode_blocks(
    row: tuple[str, int, int, int, int, bool],
    b: ArrayLike,
    dtype: npt.DTypeLike | None = None,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
    isa: str | None = None,
) -> npt.NDArray[Any]: ...
