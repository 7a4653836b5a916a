# SPDX-License-Identifier: Apache-2.0
"""Types of objects that pyquant accepts as arrays, for type checkers."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "Array",
    "ArrayLike",
    "Bytes",
    "Floats",
    "Like",
    "ScaleRule",
    "SupportsArrayInterface",
    "SupportsBuffer",
    "SupportsDLPack",
    "Words",
]

# Arrays with elements of any type, of float32, of uint8 or of int32.
Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float32]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Words: TypeAlias = npt.NDArray[np.int32]


class SupportsDLPack(Protocol):
    """An array of any library in CPU memory. `npt.ArrayLike` does not include DLPack."""

    def __dlpack__(self) -> Any: ...


class SupportsArrayInterface(Protocol):
    """An array of any library with `__array_interface__`, NumPy's older protocol."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


class SupportsBuffer(Protocol):
    """Any buffer. In older NumPy, `npt.ArrayLike` includes buffers only from Python 3.12
    on."""

    def __buffer__(self, flags: int, /) -> memoryview: ...


ArrayLike: TypeAlias = (
    npt.ArrayLike | SupportsDLPack | SupportsArrayInterface | SupportsBuffer
)

# Rules that round scales to powers of two.
ScaleRule: TypeAlias = Literal["floor", "ceil", "even", "rceil"]

# Names of the formulas for scale and zero point.
Like: TypeAlias = Literal[
    "onnxruntime",
    "pytorch",
    "aten",
    "fbgemm",
    "torchao",
    "torchao_no_clip",
    "compressed_tensors",
    "tflite",
    "xnnpack",
    "quark_po2",
]
