# Checked against the compiled module by stubtest.
from typing import Any, Literal, SupportsIndex, TypeAlias, TypeVar, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import disjoint_base

from pyquant._typing import ArrayLike
from pyquant.packed import PackedArray

_Integers: TypeAlias = SupportsIndex | tuple[SupportsIndex, ...] | None
_Scalar = TypeVar("_Scalar", bound=np.generic)
_Array = TypeVar("_Array", bound=npt.NDArray[Any])
_Known: TypeAlias = type[_Scalar] | np.dtype[_Scalar]

isa_available: tuple[str, ...]
isa_active: str
code_names: tuple[str, ...]
code_list: str
c_api: object

def is_masked(obj: object) -> bool: ...

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
    rounding: str = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[False] = False,
    out: _Array,
    threads: SupportsIndex = 1,
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
    rounding: str = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[True],
    out: None = None,
    threads: SupportsIndex = 1,
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
    rounding: str = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[False] = False,
    out: None = None,
    threads: SupportsIndex = 1,
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
    rounding: str = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[False] = False,
    out: None = None,
    threads: SupportsIndex = 1,
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
    rounding: str = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[False] = False,
    out: None = None,
    threads: SupportsIndex = 1,
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
    rounding: str = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[False] = False,
    out: None = None,
    threads: SupportsIndex = 1,
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
    rounding: str = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[False] = False,
    out: None = None,
    threads: SupportsIndex = 1,
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
    rounding: str = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[False] = False,
    out: None = None,
    threads: SupportsIndex = 1,
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
    rounding: str = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[False] = False,
    out: None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[np.uint32]: ...
@overload
def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: int | None = None,
    *,
    dtype: None = None,
    axis: _Integers = None,
    block_size: _Integers = None,
    rounding: str = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[False] = False,
    out: None = None,
    threads: SupportsIndex = 1,
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
    rounding: str = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[False] = False,
    out: None = None,
    threads: SupportsIndex = 1,
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
    rounding: str = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: Literal[False] = False,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
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
    rounding: str = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    packed: bool | np.bool = False,
    out: None = None,
    threads: SupportsIndex = 1,
) -> Any: ...
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
) -> npt.NDArray[Any]: ...

@disjoint_base
class Calls:
    def _keep(self, given: tuple[Any, Any, str, _Integers, _Integers]) -> None: ...
    @overload
    def quantize(
        self,
        x: ArrayLike,
        *,
        rounding: str = "half_even",
        precision: npt.DTypeLike | None = None,
        saturate: bool | np.bool = True,
        packed: Literal[False] = False,
        out: _Array,
        threads: SupportsIndex = 1,
    ) -> _Array: ...
    @overload
    def quantize(
        self,
        x: ArrayLike,
        *,
        rounding: str = "half_even",
        precision: npt.DTypeLike | None = None,
        saturate: bool | np.bool = True,
        packed: Literal[True],
        out: None = None,
        threads: SupportsIndex = 1,
    ) -> PackedArray: ...
    @overload
    def quantize(
        self,
        x: ArrayLike,
        *,
        rounding: str = "half_even",
        precision: npt.DTypeLike | None = None,
        saturate: bool | np.bool = True,
        packed: Literal[False] = False,
        out: npt.NDArray[Any] | None = None,
        threads: SupportsIndex = 1,
    ) -> npt.NDArray[Any]: ...
    @overload
    def quantize(
        self,
        x: ArrayLike,
        *,
        rounding: str = "half_even",
        precision: npt.DTypeLike | None = None,
        saturate: bool | np.bool = True,
        packed: bool | np.bool = False,
        out: None = None,
        threads: SupportsIndex = 1,
    ) -> Any: ...
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
    ) -> npt.NDArray[Any]: ...

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
def plain(values: ArrayLike, name: str) -> npt.NDArray[Any]: ...
def cast(array: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]: ...
def typed(values: ArrayLike, name: str, types: tuple[str, ...]) -> npt.NDArray[Any]: ...
def dynamic_range(
    x: npt.NDArray[Any],
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint8]]: ...
def pack(q: ArrayLike) -> PackedArray: ...
def unpack(packed: PackedArray) -> npt.NDArray[Any]: ...
def packed_name(dtype: npt.DTypeLike) -> str: ...
def packed_per_byte(name: str) -> int: ...
def zero_name(name: str) -> str: ...
def limits(name: str) -> tuple[int, int] | None: ...
def dtype_named(name: str) -> np.dtype[Any]: ...
def parameters(
    scale: ArrayLike,
    zero_point: ArrayLike | None,
    dtype: str,
    axis: _Integers,
    block_size: _Integers,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], Any, Any]: ...
def codes(q: ArrayLike, name: str) -> npt.NDArray[Any]: ...
def integers(value: object, name: str) -> Any: ...
def choose(
    x: ArrayLike,
    dtype: npt.DTypeLike,
    axis: _Integers,
    block_size: _Integers,
    symmetric: bool | np.bool,
) -> tuple[npt.NDArray[np.floating[Any]], npt.NDArray[np.integer[Any]], str]: ...
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
    packed: bool | np.bool = False,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
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
) -> npt.NDArray[Any]: ...
def choose_qparams_at(
    isa: str,
    x: ArrayLike,
    *,
    dtype: npt.DTypeLike = "int8",
    axis: _Integers = None,
    block_size: _Integers = None,
    symmetric: bool | np.bool = True,
) -> tuple[npt.NDArray[np.floating[Any]], npt.NDArray[np.integer[Any]]]: ...
