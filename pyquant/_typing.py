# SPDX-License-Identifier: Apache-2.0
"""What type checkers take for an array, of those objects that pyquant takes."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias

import numpy.typing as npt

__all__ = [
    "ArrayLike",
    "Like",
    "SupportsArrayInterface",
    "SupportsBuffer",
    "SupportsDLPack",
]


class SupportsDLPack(Protocol):
    """An array of any library, in memory of the CPU; `npt.ArrayLike` leaves it out."""

    def __dlpack__(self) -> Any: ...


class SupportsArrayInterface(Protocol):
    """The same, by NumPy's older protocol."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


class SupportsBuffer(Protocol):
    """Any buffer, which `npt.ArrayLike` of older NumPy has from Python 3.12 on only."""

    def __buffer__(self, flags: int, /) -> memoryview: ...


ArrayLike: TypeAlias = (
    npt.ArrayLike | SupportsDLPack | SupportsArrayInterface | SupportsBuffer
)

# Whose formula makes parameters of a range.
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
