# Checked against the compiled module by stubtest.
from typing import Any

import numpy as np
import numpy.typing as npt

isa_available: tuple[str, ...]
isa_active: str
code_names: tuple[str, ...]

def quantize(
    x: npt.ArrayLike,
    scale: npt.ArrayLike,
    zero_point: npt.ArrayLike | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    axis: int | tuple[int, ...] | None = None,
    block_size: int | tuple[int, ...] | None = None,
    rounding: str = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool = True,
    packed: bool = False,
    out: npt.NDArray[Any] | None = None,
    threads: int = 1,
) -> npt.NDArray[Any]: ...
def dequantize(
    q: npt.ArrayLike,
    scale: npt.ArrayLike,
    zero_point: npt.ArrayLike | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    axis: int | tuple[int, ...] | None = None,
    block_size: int | tuple[int, ...] | None = None,
    out: npt.NDArray[Any] | None = None,
    threads: int = 1,
) -> npt.NDArray[Any]: ...
def integers(value: object, name: str) -> Any: ...
def choose(
    x: npt.ArrayLike,
    dtype: npt.DTypeLike,
    axis: int | tuple[int, ...] | None,
    block_size: int | tuple[int, ...] | None,
    symmetric: bool,
) -> tuple[npt.NDArray[np.floating[Any]], npt.NDArray[np.integer[Any]], str]: ...
def quantize_at(
    isa: str,
    x: npt.ArrayLike,
    scale: npt.ArrayLike,
    zero_point: npt.ArrayLike | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    axis: int | tuple[int, ...] | None = None,
    block_size: int | tuple[int, ...] | None = None,
    rounding: str = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool = True,
    packed: bool = False,
    out: npt.NDArray[Any] | None = None,
    threads: int = 1,
) -> npt.NDArray[Any]: ...
def dequantize_at(
    isa: str,
    q: npt.ArrayLike,
    scale: npt.ArrayLike,
    zero_point: npt.ArrayLike | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    axis: int | tuple[int, ...] | None = None,
    block_size: int | tuple[int, ...] | None = None,
    out: npt.NDArray[Any] | None = None,
    threads: int = 1,
) -> npt.NDArray[Any]: ...
def choose_qparams_at(
    isa: str,
    x: npt.ArrayLike,
    *,
    dtype: npt.DTypeLike = "int8",
    axis: int | tuple[int, ...] | None = None,
    block_size: int | tuple[int, ...] | None = None,
    symmetric: bool = True,
) -> tuple[npt.NDArray[np.floating[Any]], npt.NDArray[np.integer[Any]]]: ...
