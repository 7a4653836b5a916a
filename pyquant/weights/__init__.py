# SPDX-License-Identifier: Apache-2.0
"""Read, write and convert the quantized weights of other packages."""

from typing import TYPE_CHECKING

from pyquant._lazy import lazy

if TYPE_CHECKING:
    from pyquant.weights import (
        awq,
        bitsandbytes,
        blocks,
        compressed_tensors,
        files,
        gptq,
        matmulnbits,
        mlx,
        mx,
        nvfp4,
    )

__all__ = [
    "awq",
    "bitsandbytes",
    "blocks",
    "compressed_tensors",
    "files",
    "gptq",
    "matmulnbits",
    "mlx",
    "mx",
    "nvfp4",
]

if not TYPE_CHECKING:  # type checkers would accept every name
    __getattr__, __dir__ = lazy(__name__, __all__, dict.fromkeys(__all__, __name__))
