# Checked against the compiled module by stubtest.
from collections.abc import Callable, Iterable, Sequence
from typing import (
    Any,
    Final,
    Literal,
    SupportsIndex,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    final,
    overload,
)

import numpy as np
import numpy.typing as npt
from typing_extensions import disjoint_base

from pyquant._typing import Array, ArrayLike, Bytes, Floats
from pyquant.packed import Layout, PackedArray
from pyquant.qparams import QParams
from pyquant.rounding import RoundMode

_Index: TypeAlias = SupportsIndex | None
_Integers: TypeAlias = _Index | tuple[SupportsIndex, ...]
_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])
_Scalar = TypeVar("_Scalar", bound=np.generic)
_Array = TypeVar("_Array", bound=Array)
_Known: TypeAlias = type[_Scalar] | np.dtype[_Scalar]
_DType: TypeAlias = npt.DTypeLike | None
_Shape: TypeAlias = tuple[int, ...]
_How: TypeAlias = tuple[str, int | None, int]
_Rounding: TypeAlias = (
    RoundMode
    | Literal["half_even", "half_away", "half_toward_zero", "half_up", "half_down"]
    | Literal["away", "trunc", "ceil", "floor", "half_odd", "stochastic"]
)

_Range: TypeAlias = tuple[SupportsIndex, SupportsIndex] | None
_Beyond: TypeAlias = Literal["saturate", "wrap", "raise"]
_NaN: TypeAlias = Literal["lowest", "raise"]
_CodesLike: TypeAlias = ArrayLike | PackedArray
_Codes: TypeAlias = SupportsIndex | Iterable[SupportsIndex] | None

_Layout: TypeAlias = str | Layout
_FixedPoint: TypeAlias = Literal["tflite", "tflite_single", "rndnu", "fbgemm"]
_Arithmetic: TypeAlias = Literal["float32"] | _FixedPoint

# Keywords of the overloads. The last overload of a function lists all, with defaults.
class _GranularityOptions(TypedDict, total=False):
    axis: _Integers
    block_size: _Integers
    threads: SupportsIndex

class _AffineOptions(_GranularityOptions, total=False):
    offset: ArrayLike | None
    inverse: bool | np.bool
    fill: _Codes

class _RoundingOptions(TypedDict, total=False):
    rounding: _Rounding
    precision: _DType
    saturate: bool | np.bool
    seed: _Index
    start: _Index

class _CheckOptions(_RoundingOptions, total=False):
    out_of_range: _Beyond
    nan: _NaN

class _QuantizeOptions(_AffineOptions, _CheckOptions, total=False):
    quant_range: _Range

class _Unpacked(TypedDict, total=False):
    layout: None
    packed: Literal[False]

class _QuantizeUnpacked(_QuantizeOptions, _Unpacked, total=False): ...

class _QuantizeToArray(_QuantizeUnpacked, total=False):
    out: None

class _MethodOptions(_CheckOptions, total=False):
    threads: SupportsIndex

class _MethodUnpacked(_MethodOptions, _Unpacked, total=False): ...

class _DequantizeToArray(_AffineOptions, total=False):
    out: None

class _RequantizeOptions(TypedDict, total=False):
    input_zero_point: SupportsIndex
    bias: ArrayLike | None
    axis: _Integers
    arithmetic: _Arithmetic
    quant_range: _Range
    shift: ArrayLike | None
    threads: SupportsIndex

class _RequantizeToArray(_RequantizeOptions, total=False):
    out: None

class _FakeQuantizeOptions(_AffineOptions, _RoundingOptions, total=False):
    dtype: _DType
    quant_range: _Range
    mask: npt.NDArray[np.bool] | None

class _NewArray(TypedDict, total=False):
    out: None
    threads: SupportsIndex

isa_available: tuple[str, ...]
isa_active: str
no_scale: str

def use_isa(isa: str, /) -> str: ...

c_api: object

# Public functions in Python call these functions, and declare the arguments.
observed: Callable[..., tuple[Any, ...]]
dynamic_quantize: Callable[..., tuple[Any, QParams]]
layout_of: Callable[..., tuple[str, int | None, int | None]]
fake_levels: Callable[..., Array]
requantize_codes: Callable[..., Array]
extrema: Callable[..., Array]
range_ends: Callable[..., tuple[Array, Array, str]]
measure: Callable[..., tuple[Array, _Shape]]
measure_params: Callable[..., tuple[Array, _Shape]]
encode_blocks: Callable[..., Array]
decode_blocks: Callable[..., Array]

def is_masked(obj: object) -> bool: ...
def is_untyped(values: object) -> bool: ...
def known(values: object) -> str | None: ...

# Type of the result: the type of `out`, else `dtype`, else the zero point's, else int8.
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: _DType = None,
    out: _Array,
    **options: Unpack[_QuantizeUnpacked],
) -> _Array: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: _DType = None,
    layout: _Layout,
    packed: Literal[False] = False,
    out: None = None,
    **options: Unpack[_QuantizeOptions],
) -> PackedArray: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: _DType = None,
    packed: Literal[True],
    layout: None = None,
    out: None = None,
    **options: Unpack[_QuantizeOptions],
) -> PackedArray: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: _Known[_Scalar],
    **options: Unpack[_QuantizeToArray],
) -> npt.NDArray[_Scalar]: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: Literal["int8"],
    **options: Unpack[_QuantizeToArray],
) -> npt.NDArray[np.int8]: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: Literal["uint8"],
    **options: Unpack[_QuantizeToArray],
) -> npt.NDArray[np.uint8]: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: Literal["int16"],
    **options: Unpack[_QuantizeToArray],
) -> npt.NDArray[np.int16]: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: Literal["uint16"],
    **options: Unpack[_QuantizeToArray],
) -> npt.NDArray[np.uint16]: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: Literal["int32"],
    **options: Unpack[_QuantizeToArray],
) -> npt.NDArray[np.int32]: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: Literal["uint32"],
    **options: Unpack[_QuantizeToArray],
) -> npt.NDArray[np.uint32]: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: Literal["int64"],
    **options: Unpack[_QuantizeToArray],
) -> npt.NDArray[np.int64]: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: Literal["uint64"],
    **options: Unpack[_QuantizeToArray],
) -> npt.NDArray[np.uint64]: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: int | None = None,
    *,
    dtype: None = None,
    **options: Unpack[_QuantizeToArray],
) -> npt.NDArray[np.int8]: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: npt.NDArray[_Scalar] | _Scalar,
    *,
    dtype: None = None,
    **options: Unpack[_QuantizeToArray],
) -> npt.NDArray[_Scalar]: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: _DType = None,
    out: Array | None = None,
    **options: Unpack[_QuantizeUnpacked],
) -> Array: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: _DType = None,
    axis: _Integers = None,
    block_size: _Integers = None,
    out: None = None,
    rounding: _Rounding = "half_even",
    seed: _Index = None,
    start: _Index = None,
    precision: _DType = None,
    saturate: bool | np.bool = True,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    quant_range: _Range = None,
    out_of_range: _Beyond = "saturate",
    nan: _NaN = "lowest",
    layout: _Layout | None = None,
    packed: bool | np.bool = False,
    codebook: ArrayLike | None = None,
    threads: SupportsIndex = 1,
) -> Any:
    """
    Quantize real numbers: ``saturate(round(x / scale) + zero_point)``.

    Parameters
    ----------
    x : array_like
        Array of float32, float64, float16 or bfloat16, of any shape, strides and byte
        order. Python numbers become float64. NumPy arrays, buffers, DLPack tensors in CPU
        memory and objects with NumPy's array protocols are not copied.
    scale : array_like
        Real numbers of any float type, including narrow floats and float8_e8m0fnu. Scales
        are rounded once to float32 (float64 if `x` is float64). One element applies to all
        of `x`. Otherwise `axis` and `block_size` determine the shape. Without them, the
        scale has the rank of `x` and extent 1 along each axis that shares a scale.
        Negative, zero, infinite and NaN scales follow IEEE arithmetic.
    zero_point : array_like, optional
        Integers within the range of `dtype`: one element, or the shape of `scale`.
        Default 0. Floating-point code types allow only 0.
    dtype : dtype_like, optional
        int8, uint8, int16, uint16, int32, uint32, int64, uint64; int4, uint4, int2, uint2;
        or a narrow float: float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz,
        float8_e3m4, float8_e4m3, float8_e4m3b11fnuz, float6_e2m3fn, float6_e3m2fn,
        float4_e2m1fn. Default: the dtype of `zero_point` if that is a NumPy array or
        scalar, else int8. An int64 or uint64 `zero_point` requires `dtype`. The package
        ml_dtypes defines the types that NumPy lacks.
    axis : int or tuple of int, optional
        The axes along which the scale varies. The shape of `scale` is the shape of `x` at
        these axes, in ascending order.
    block_size : int or tuple of int, optional
        An integer, with an integer `axis`: the number of consecutive elements along `axis`
        that share a scale. `scale` has the shape of `x`, except that the extent n at `axis`
        becomes ``ceil(n / block_size)``. A tuple, without `axis`: the extents of a block,
        one for each dimension. The last block of an axis may be short.
    out : ndarray, optional
        Array for the result, of the exact shape and dtype. Dimensions may have any
        strides, but must not interleave.
    rounding : str or RoundMode, optional
        How to round the quotient to an integer, see `RoundMode`. Default: "half_even" (ties
        to the even integer). Narrow floats allow only "half_even" and "stochastic", which
        picks one of the two neighbours at random, the nearer one with higher probability.
    seed : int, optional
        Seed of stochastic rounding, from 0 (the default) to 2**64 - 1.
    start : int, optional
        Position of the first element of `x` in a larger array in C order, from 0 (the
        default) to 2**64 - 1, for stochastic rounding. Chunks along the first axis, each
        with its own `start`, get the codes of one call on the complete array.
    precision : dtype_like, optional
        Type to round the exact quotient to, before it is rounded to an integer: float16,
        bfloat16, float32 or float64. Default: float32, or float64 if `x` is float64.
    saturate : bool, optional
        For narrow floats. True (the default): values that are too large become the largest
        finite number. False: they become infinity, or NaN if the type has no infinity.
        Integer types require True.
    offset : array_like, optional
        Real numbers: one element, or the shape of `scale`. If there is a single scale: any
        shape that scales can have. ``np.broadcast_to(row, scale.shape)`` repeats a row. The
        quotient is ``(x - offset) / scale``. Each step is rounded once, to float32 (float64
        if `x` or `precision` is float64). Infinite and NaN offsets follow IEEE arithmetic.
    inverse : bool, optional
        True: multiply by `scale`, ``(x - offset) * scale``. Default False.
    fill : int or sequence of int, optional
        Codes that represent NaN. NaN in `x` becomes the first code. Integer types only.
    quant_range : (int, int), optional
        Lowest and highest code, within the range of `dtype`. The range must contain all
        zero points, unless every zero point is 0. Integer types only.
    out_of_range : {"saturate", "wrap", "raise"}, optional
        Treatment of values out of range. "saturate" (the default): the nearest end of the
        range. "wrap", for integer types: the code modulo two to the number of bits, and the
        lowest code for an infinity. "raise": an error with the number of values out of
        range and the index of the first.
    nan : {"lowest", "raise"}, optional
        Treatment of NaN if `fill` is not given. "lowest" (the default): NaN becomes the
        code that Returns describes. "raise": an error.
    layout : str or Layout, optional
        Return a `PackedArray` in this layout instead of one byte for each element. If the
        `Layout` has `bits`, uint8 codes saturate to that width. `layout` does not need
        ml_dtypes and excludes `out`.
    packed : bool, optional
        True: short for ``layout="onnx"``. Default False.
    codebook : str or array_like, optional
        Table of 4, 8, 16, 32, 64, 128 or 256 numbers, rounded once to float32, or a name:
        "nf4", "fp4_bnb", "dynamic8" or "dynamic8_unsigned". Each code is the index of the
        number nearest to ``x / scale`` (``x * scale`` with `inverse`). Midpoints are
        rounded to float32. A value at a midpoint becomes the lower number. NaN becomes the
        lowest number. `dtype` is uint8 (the default); for 16 numbers also uint4, and for 4
        uint2, which are the default with `layout`. `codebook` excludes all options except
        `inverse`, `axis`, `block_size`, `layout`, `packed`, `out` and `threads`.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on `threads`.

    Returns
    -------
    ndarray or PackedArray
        The codes, with the shape of `x`. If `out` is given, the result is `out`. NaN
        becomes the lowest code of an integer type and NaN of a float8 type. Float6 types
        have no NaN, so NaN becomes -0. For float4_e2m1fn, NaN becomes 6.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a value or a shape is wrong. `out` is then unchanged. If `out_of_range` or `nan`
        is "raise" and a value fails the check. `out` then contains the saturated codes.
    numpy.exceptions.AxisError
        If an axis is out of bounds.
    ImportError
        If a type needs ml_dtypes and the package is not installed.

    Notes
    -----
    The result equals the definition of ONNX QuantizeLinear and, with `rounding`, of nGraph
    Quantize, bit for bit: one IEEE division, one rounding, exact addition, saturation.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> pq.quantize(np.array([0.5, 1.5, -3.0, 1e9], np.float32), 0.5, 1, dtype="uint8")
    array([  2,   4,   0, 255], dtype=uint8)
    """

@overload
def dequantize(
    q: _CodesLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: _DType = None,
    out: _Array,
    **options: Unpack[_AffineOptions],
) -> _Array: ...
@overload
def dequantize(
    q: _CodesLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: _Known[_Scalar],
    **options: Unpack[_DequantizeToArray],
) -> npt.NDArray[_Scalar]: ...
@overload
def dequantize(
    q: _CodesLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: Literal["float32"] | None = None,
    **options: Unpack[_DequantizeToArray],
) -> npt.NDArray[np.float32]: ...
@overload
def dequantize(
    q: _CodesLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: Literal["float64"],
    **options: Unpack[_DequantizeToArray],
) -> npt.NDArray[np.float64]: ...
@overload
def dequantize(
    q: _CodesLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: Literal["float16"],
    **options: Unpack[_DequantizeToArray],
) -> npt.NDArray[np.float16]: ...
@overload
def dequantize(
    q: _CodesLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: _DType = None,
    axis: _Integers = None,
    block_size: _Integers = None,
    out: Array | None = None,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    codebook: ArrayLike | None = None,
    threads: SupportsIndex = 1,
) -> Array:
    """
    Convert codes to real numbers: ``(q - zero_point) * scale``.

    Parameters
    ----------
    q : array_like or PackedArray
        Codes of a type that `quantize` returns, of any shape, strides and byte order.
        Python integers become int32, or uint32 if int32 is too small.
    scale : array_like or (ndarray, ndarray)
        Real numbers, rounded once to float32 (float64 if `dtype` is float64). `quantize`
        describes the shapes. Two NumPy arrays with one dimension, such as ``(row_scale,
        column_scale)``: factors of the scales for the indices of two axes, see Notes.
    zero_point : array_like, optional
        Integers within the range of the type of `q`: one element, or the shape of `scale`.
        Default 0.
    dtype : dtype_like, optional
        float32, float64, float16 or bfloat16. Default: the dtype of `out`, else float32.
    axis, block_size : int or tuple of int, optional
        The granularity, see `quantize`.
    out : ndarray, optional
        Array for the result, see `quantize`.
    offset : array_like, optional
        Real numbers: one element, or the shape of `scale`. Offsets are added to the
        products. Products and sums are rounded to float32 (float64 if `dtype` is float64).
    inverse : bool, optional
        True: divide by `scale`. Default False.
    fill : int or sequence of int, optional
        Codes that become NaN. Integer types only.
    codebook : str or array_like, optional
        A table, see `quantize`. `q` holds uint8, uint4 or uint2 indices into the table. The
        result is ``codebook[q] * scale`` (``codebook[q] / scale`` with `inverse`), rounded
        to float32 and then to `dtype`.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on `threads`.

    Returns
    -------
    ndarray
        Real numbers, with the shape of `q`. If `out` is given, the result is `out`.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError, ImportError
        See `quantize`. `out` is unchanged.

    Notes
    -----
    The result equals the definition of ONNX DequantizeLinear, nGraph Dequantize and oneDNN
    Graph Dequantize, bit for bit: an exact integer difference, one conversion to float32
    (float64 for float64 results), one multiplication, one conversion to `dtype`. Each step
    rounds half to even. A NaN result is the positive quiet NaN on every CPU.

    Two arrays in `scale` are factors of the scales, as for the int32 sums of a matrix
    product. The result equals the call with the scales ``np.multiply.outer(*scale)``.
    Factors and products are rounded to float32, and the products are not stored. `axis` has
    two axes, by default the last two. `zero_point` has one element. `offset` has one number
    for each index of the second axis.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> pq.dequantize(np.array([2, 4, 0, 255], np.uint8), 0.5, 1)
    array([  0.5,   1.5,  -0.5, 127. ], dtype=float32)
    """

@disjoint_base
class Packed:
    _data: Final[Array]
    _name: Final[str]
    _shape: Final[_Shape]
    _how: Final[_How]
    def _keep(self, data: Array, name: str, shape: _Shape, how: _How, /) -> None: ...

@final
class LayoutRow:
    name: Final[str]
    widths: Final[tuple[int, ...]]
    words: Final[tuple[np.dtype[Any], ...]]
    order: Final[bytes]
    flat: Final[bool]
    word_bits: Final[int]
    def length(self, codes: int, bits: int) -> int: ...
    def shape(self, extents: _Shape, axis: int | None, bits: int) -> _Shape: ...

@disjoint_base
class Calls:
    _scale: Final[Array]
    _zero_point: Final[Array]
    _name: Final[str]
    _axis: Final[int | tuple[int, ...] | None]
    _block_size: Final[int | tuple[int, ...] | None]
    _offset: Final[Array | None]
    _fill: Final[tuple[int, ...] | None]
    _quant_range: Final[tuple[int, int] | None]
    _set: Callable[..., None]
    _choose: Callable[..., QParams]
    _from_range: Callable[..., QParams]
    @overload
    def quantize(
        self, x: ArrayLike, *, out: _Array, **options: Unpack[_MethodUnpacked]
    ) -> _Array: ...
    @overload
    def quantize(
        self,
        x: ArrayLike,
        *,
        layout: _Layout,
        packed: Literal[False] = False,
        out: None = None,
        **options: Unpack[_MethodOptions],
    ) -> PackedArray: ...
    @overload
    def quantize(
        self,
        x: ArrayLike,
        *,
        packed: Literal[True],
        layout: None = None,
        out: None = None,
        **options: Unpack[_MethodOptions],
    ) -> PackedArray: ...
    @overload
    def quantize(
        self, x: ArrayLike, *, out: Array | None = None, **options: Unpack[_MethodUnpacked]
    ) -> Array: ...
    @overload
    def quantize(
        self,
        x: ArrayLike,
        *,
        out: None = None,
        rounding: _Rounding = "half_even",
        seed: _Index = None,
        start: _Index = None,
        precision: _DType = None,
        saturate: bool | np.bool = True,
        out_of_range: _Beyond = "saturate",
        nan: _NaN = "lowest",
        layout: _Layout | None = None,
        packed: bool | np.bool = False,
        threads: SupportsIndex = 1,
    ) -> Any:
        """Quantize an array with these parameters."""

    @overload
    def dequantize(
        self,
        q: _CodesLike,
        *,
        dtype: _DType = None,
        out: _Array,
        threads: SupportsIndex = 1,
    ) -> _Array: ...
    @overload
    def dequantize(
        self, q: _CodesLike, *, dtype: _Known[_Scalar], **options: Unpack[_NewArray]
    ) -> npt.NDArray[_Scalar]: ...
    @overload
    def dequantize(
        self,
        q: _CodesLike,
        *,
        dtype: Literal["float32"] | None = None,
        **options: Unpack[_NewArray],
    ) -> npt.NDArray[np.float32]: ...
    @overload
    def dequantize(
        self, q: _CodesLike, *, dtype: Literal["float64"], **options: Unpack[_NewArray]
    ) -> npt.NDArray[np.float64]: ...
    @overload
    def dequantize(
        self, q: _CodesLike, *, dtype: Literal["float16"], **options: Unpack[_NewArray]
    ) -> npt.NDArray[np.float16]: ...
    @overload
    def dequantize(
        self,
        q: _CodesLike,
        *,
        dtype: _DType = None,
        out: Array | None = None,
        threads: SupportsIndex = 1,
    ) -> Array:
        """Convert codes to real numbers with these parameters."""

def plain(values: object, name: str) -> Array: ...
def cast(array: Array, dtype: str, /) -> Array: ...
def default_fpenv(function: _Decorated, /) -> _Decorated: ...
def hinted(function: _Decorated, /) -> _Decorated: ...
def spelled(dtype: object) -> str | None: ...
def type_rows() -> list[tuple[str, str, int, int, int | None, int | None]]: ...

@final
class Operator:
    def __init__(self, standard: str, **row: Any) -> None: ...
    run: Callable[..., Array]

def dynamic_range(x: Array, /) -> tuple[Floats, Bytes]: ...
def chosen(dtype: npt.DTypeLike, symmetric: object, /) -> tuple[str, bool]: ...
def pack(codes: ArrayLike, layout: object, /) -> PackedArray: ...
def repack(packed: PackedArray, layout: object, /) -> PackedArray: ...
def unpack(p: PackedArray, /) -> Array: ...
def same_words(one: PackedArray, other: PackedArray, /) -> bool: ...
def copied(packed: PackedArray, data: Array, shape: _Shape, /) -> PackedArray: ...
def layouts() -> dict[str, LayoutRow]: ...
def words_of(
    dtype: npt.DTypeLike, shape: SupportsIndex | Sequence[SupportsIndex], layout: object, /
) -> tuple[str, _Shape, _How, _Shape, LayoutRow]: ...
def zero_name(name: str) -> str: ...
def typed_zeros(zeros: Array, name: str, /) -> Array: ...
def limits(name: str, /) -> tuple[int, int] | None: ...
def dtype_named(name: str) -> np.dtype[Any]: ...
def index(value: SupportsIndex) -> int: ...
def integers(value: object, name: str) -> Any: ...
def presets() -> dict[str, tuple[str, ...]]:
    """Return a dict of tuples: the words that describe the formula of each `like`."""

def has_fixed_point(arithmetic: str, multiplier: float, /) -> bool: ...
@overload
def requantize(
    q: ArrayLike,
    multiplier: ArrayLike,
    zero_point: SupportsIndex = 0,
    *,
    dtype: npt.DTypeLike = "int8",
    out: _Array,
    **options: Unpack[_RequantizeOptions],
) -> _Array: ...
@overload
def requantize(
    q: ArrayLike,
    multiplier: ArrayLike,
    zero_point: SupportsIndex = 0,
    *,
    dtype: _Known[_Scalar],
    **options: Unpack[_RequantizeToArray],
) -> npt.NDArray[_Scalar]: ...
@overload
def requantize(
    q: ArrayLike,
    multiplier: ArrayLike,
    zero_point: SupportsIndex = 0,
    *,
    dtype: Literal["int8"] = "int8",
    **options: Unpack[_RequantizeToArray],
) -> npt.NDArray[np.int8]: ...
@overload
def requantize(
    q: ArrayLike,
    multiplier: ArrayLike,
    zero_point: SupportsIndex = 0,
    *,
    dtype: Literal["uint8"],
    **options: Unpack[_RequantizeToArray],
) -> npt.NDArray[np.uint8]: ...
@overload
def requantize(
    q: ArrayLike,
    multiplier: ArrayLike,
    zero_point: SupportsIndex = 0,
    *,
    dtype: Literal["int16"],
    **options: Unpack[_RequantizeToArray],
) -> npt.NDArray[np.int16]: ...
@overload
def requantize(
    q: ArrayLike,
    multiplier: ArrayLike,
    zero_point: SupportsIndex = 0,
    *,
    dtype: Literal["uint16"],
    **options: Unpack[_RequantizeToArray],
) -> npt.NDArray[np.uint16]: ...
@overload
def requantize(
    q: ArrayLike,
    multiplier: ArrayLike,
    zero_point: SupportsIndex = 0,
    *,
    dtype: Literal["int32"],
    **options: Unpack[_RequantizeToArray],
) -> npt.NDArray[np.int32]: ...
@overload
def requantize(
    q: ArrayLike,
    multiplier: ArrayLike,
    zero_point: SupportsIndex = 0,
    *,
    dtype: npt.DTypeLike = "int8",
    input_zero_point: SupportsIndex = 0,
    bias: ArrayLike | None = None,
    axis: _Integers = None,
    arithmetic: _Arithmetic = "float32",
    quant_range: _Range = None,
    shift: ArrayLike | None = None,
    out: Array | None = None,
    threads: SupportsIndex = 1,
) -> Array:
    """Convert integers to codes of another scale, in fixed point or float32."""

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
    """Convert real multipliers to the integers that `requantize` uses."""

@overload
def fake_quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    out: _Array,
    **options: Unpack[_FakeQuantizeOptions],
) -> _Array: ...
@overload
def fake_quantize(
    x: npt.NDArray[_Scalar],
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    out: None = None,
    **options: Unpack[_FakeQuantizeOptions],
) -> npt.NDArray[_Scalar]: ...
@overload
def fake_quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: _DType = None,
    axis: _Integers = None,
    block_size: _Integers = None,
    rounding: _Rounding = "half_even",
    precision: _DType = None,
    saturate: bool | np.bool = True,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    quant_range: _Range = None,
    mask: npt.NDArray[np.bool] | None = None,
    out: Array | None = None,
    seed: _Index = None,
    start: _Index = None,
    threads: SupportsIndex = 1,
) -> Array:
    """Quantize and dequantize in one pass."""

def as_reals(values: ArrayLike, name: str, /) -> Array: ...
def add_errors(first: Array, second: Array, /) -> Array: ...
def block_rows() -> list[tuple[str, int, int, int, int, bool]]: ...
