# Checked against the compiled module by stubtest.
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import disjoint_base

from pyquant.packed import PackedArray

_Integers: TypeAlias = SupportsIndex | tuple[SupportsIndex, ...] | None

isa_available: tuple[str, ...]
isa_active: str
code_names: tuple[str, ...]
code_list: str
c_api: object

def is_masked(obj: object) -> bool: ...
def quantize(
    x: npt.ArrayLike,
    scale: npt.ArrayLike,
    zero_point: npt.ArrayLike | None = None,
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
) -> Any: ...
def dequantize(
    q: npt.ArrayLike | PackedArray,
    scale: npt.ArrayLike,
    zero_point: npt.ArrayLike | None = None,
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
    def quantize(
        self,
        x: npt.ArrayLike,
        *,
        rounding: str = "half_even",
        precision: npt.DTypeLike | None = None,
        saturate: bool | np.bool = True,
        packed: bool | np.bool = False,
        out: npt.NDArray[Any] | None = None,
        threads: SupportsIndex = 1,
    ) -> Any: ...
    def dequantize(
        self,
        q: npt.ArrayLike | PackedArray,
        *,
        dtype: npt.DTypeLike | None = None,
        out: npt.NDArray[Any] | None = None,
        threads: SupportsIndex = 1,
    ) -> npt.NDArray[Any]: ...

def quantize_standard(
    x: npt.ArrayLike,
    scale: npt.ArrayLike,
    zero_point: npt.ArrayLike | None,
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
    q: npt.ArrayLike,
    scale: npt.ArrayLike,
    zero_point: npt.ArrayLike | None,
    *,
    dtype: npt.DTypeLike,
    axis: _Integers = None,
    block_size: _Integers = None,
) -> npt.NDArray[Any]: ...
def plain(values: npt.ArrayLike, name: str) -> npt.NDArray[Any]: ...
def cast(array: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]: ...
def typed(values: npt.ArrayLike, name: str, types: tuple[str, ...]) -> npt.NDArray[Any]: ...
def dynamic_range(
    x: npt.NDArray[Any],
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint8]]: ...
def pack(q: npt.ArrayLike) -> PackedArray: ...
def unpack(packed: PackedArray) -> npt.NDArray[Any]: ...
def packed_name(dtype: npt.DTypeLike) -> str: ...
def packed_per_byte(name: str) -> int: ...
def zero_name(name: str) -> str: ...
def limits(name: str) -> tuple[int, int] | None: ...
def dtype_named(name: str) -> np.dtype[Any]: ...
def parameters(
    scale: npt.ArrayLike,
    zero_point: npt.ArrayLike | None,
    dtype: str,
    axis: _Integers,
    block_size: _Integers,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], Any, Any]: ...
def codes(q: npt.ArrayLike, name: str) -> npt.NDArray[Any]: ...
def integers(value: object, name: str) -> Any: ...
def choose(
    x: npt.ArrayLike,
    dtype: npt.DTypeLike,
    axis: _Integers,
    block_size: _Integers,
    symmetric: bool | np.bool,
) -> tuple[npt.NDArray[np.floating[Any]], npt.NDArray[np.integer[Any]], str]: ...
def quantize_at(
    isa: str,
    x: npt.ArrayLike,
    scale: npt.ArrayLike,
    zero_point: npt.ArrayLike | None = None,
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
    q: npt.ArrayLike,
    scale: npt.ArrayLike,
    zero_point: npt.ArrayLike | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    axis: _Integers = None,
    block_size: _Integers = None,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[Any]: ...
def choose_qparams_at(
    isa: str,
    x: npt.ArrayLike,
    *,
    dtype: npt.DTypeLike = "int8",
    axis: _Integers = None,
    block_size: _Integers = None,
    symmetric: bool | np.bool = True,
) -> tuple[npt.NDArray[np.floating[Any]], npt.NDArray[np.integer[Any]]]: ...
