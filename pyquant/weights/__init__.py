# SPDX-License-Identifier: Apache-2.0
"""Read, write and convert the quantized weights of other packages.

The module `blocks` contains the GGUF block formats, such as Q4_K.
"""

from typing import TYPE_CHECKING

from pyquant._installed import lazy

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
    from pyquant.weights._published import find
    from pyquant.weights._weight import Weight, convert, from_tensors

__all__ = [
    "Weight",
    "awq",
    "bitsandbytes",
    "blocks",
    "compressed_tensors",
    "convert",
    "files",
    "find",
    "from_tensors",
    "gptq",
    "matmulnbits",
    "mlx",
    "mx",
    "nvfp4",
]

if not TYPE_CHECKING:  # type checkers would accept any name because of __getattr__
    _NAMES = {
        __name__: "awq bitsandbytes blocks compressed_tensors files gptq matmulnbits mlx "
        "mx nvfp4",
        f"{__name__}._published": "find",
        f"{__name__}._weight": "Weight convert from_tensors",
    }
    __getattr__, __dir__ = lazy(__name__, __all__, _NAMES)
