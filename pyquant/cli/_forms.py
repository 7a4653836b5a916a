# SPDX-License-Identifier: Apache-2.0
"""The types that tensors are quantized to, how each is stored, and granularities."""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from pyquant.blocks import block_formats
from pyquant.cli._errors import Refused
from pyquant.dtypes import TYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "BLOCKS",
    "STORED",
    "Granularity",
    "Stored",
    "grouped",
    "named_parts",
    "stored_as",
]


class Stored(NamedTuple):
    """
    How codes of a type lie in a file.

    `codes` is what `pyquant.quantize` makes; `format` the type of the elements that hold
    them, and `suffix` what follows the name of the tensor. "plain": an element each;
    "words": words of 32 bits along the last axis, each row in words of its own, the first
    code in the low bits, signed codes with ``2**(bits - 1)`` added, as
    compressed-tensors has them; "bytes": two codes to a byte, as safetensors has them.
    """

    codes: str
    how: str
    format: str
    suffix: str = ""

    @property
    def bits(self) -> int:
        """Of a code."""
        return TYPES[self.codes].bits

    @property
    def middle(self) -> int:
        """What was added to signed codes to be stored."""
        if self.how != "words" or not self.codes.startswith("int"):
            return 0
        return 1 << (self.bits - 1)

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """That of the elements that hold the codes."""
        if self.how != "words":
            return shape
        return (*shape[:-1], -(-shape[-1] * self.bits // 32))


_PLAIN = (
    *("int8", "uint8", "int16", "uint16"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
)
_WORDS = ("int4", "uint4", "int2", "uint2")

STORED = {
    **{name: Stored(name, "plain", name) for name in _PLAIN},
    **{name: Stored(name, "words", "int32", "_packed") for name in _WORDS},
    "float4_e2m1fn": Stored("float4_e2m1fn", "bytes", "float4_e2m1fn"),
}
# In models of ONNX, whose packed codes run on from row to row.
_ONNX = {
    name: Stored(name, "bytes" if TYPES[name].bits < 8 else "plain", name, "_quantized")
    for name in STORED
}


def stored_as(type: str, kind: str) -> Stored:
    """How codes of a type lie in a kind of file."""
    return (_ONNX if kind == "onnx" else STORED)[type]


# Of GGUF, whose scales are among the codes.
BLOCKS = {one.name: one for one in block_formats() if one.encodes}


def named_parts(name: str, stored: Stored) -> dict[str, str]:
    """The names of the tensors that one becomes, as compressed-tensors has them."""
    parts = {"codes": f"{name}{stored.suffix}", "scale": f"{name}_scale"}
    parts["zero_point"] = f"{name}_zero_point"
    if stored.how == "words":
        parts["shape"] = f"{name}_shape"
    return parts


_GRANULARITY = re.compile(
    r"tensor|(axis):(-?\d{1,3})|(block):(\d{1,9})|(\d{1,9})x(\d{1,9})"
)


class Granularity:
    """
    Which elements share a scale: ``tensor``, ``axis:N``, ``block:N`` or ``NxM``.

    Parameters
    ----------
    text : str
        One of these: all elements; those at each index of an axis; so many next to each
        other along the last axis; a block of so many rows and columns.

    Raises
    ------
    Refused
        If it is none of them.
    """

    def __init__(self, text: str) -> None:
        found = _GRANULARITY.fullmatch(text)
        sizes = found and [int(n) for n in (found[4], found[5], found[6]) if n]
        if found is None or (sizes and min(sizes) < 1):
            expected = "tensor, axis:N, block:N or NxM"
            raise Refused(f"--granularity: expected {expected}, got {text!r}")
        self.text: str = text
        self._axis = int(found[2]) if found[1] else None
        self._sizes: list[int] = sizes or []

    def objection(self, shape: tuple[int, ...]) -> str | None:
        """Why a tensor of this shape cannot have it: what is expected, and what it is."""
        least = 2 if len(self._sizes) == 2 else 1
        if self._axis is not None:
            least = -self._axis if self._axis < 0 else self._axis + 1
        if len(shape) < min(least, 1) or len(shape) < least:
            few = "a dimension" if least == 1 else f"{least} dimensions"
            return f"expected at least {few} for {self.text}, got shape {shape}"
        return None

    def blocks(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The extents of what shares a scale."""
        if self._sizes:
            ones = (1,) * (len(shape) - len(self._sizes))
            return (*ones, *self._sizes)
        whole = [max(1, n) for n in shape]
        if self._axis is not None:
            whole[self._axis] = 1
        return tuple(whole)

    def call(self, ndim: int) -> dict[str, Any]:
        """Arguments of `pyquant.quantize` for it."""
        if len(self._sizes) == 1:
            return {"axis": ndim - 1, "block_size": self._sizes[0]}
        if self._sizes:
            return {"block_size": (*(1,) * (ndim - 2), *self._sizes)}
        return {} if self._axis is None else {"axis": self._axis % ndim}


def scale_shape(shape: tuple[int, ...], blocks: Sequence[int]) -> tuple[int, ...]:
    """How many scales there are along each axis; one for all has one dimension."""
    found = tuple(-(-n // b) for n, b in zip(shape, blocks, strict=True))
    return found if prod(found) != 1 else (1,)


def grouped(shape: tuple[int, ...], scales: tuple[int, ...]) -> str | None:
    """The granularity of a tensor by the shape of its scales, if that tells."""
    if prod(scales) == 1:
        return "tensor"
    if len(scales) != len(shape):
        return "axis:0" if scales == shape[:1] else None
    if 0 in scales or any(n % s for n, s in zip(shape, scales, strict=True)):
        return None
    sizes = [n // s for n, s in zip(shape, scales, strict=True)]
    many = [axis for axis, n in enumerate(scales) if n > 1]
    if len(many) == 1 and sizes[many[0]] == 1:
        return f"axis:{many[0]}"
    if all(size == 1 for size in sizes[:-1]):
        return f"block:{sizes[-1]}"
    if all(size == 1 for size in sizes[:-2]):
        return f"{sizes[-2]}x{sizes[-1]}"
    return None
