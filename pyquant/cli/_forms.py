# SPDX-License-Identifier: Apache-2.0
"""Types of quantized tensors, how files store them, and granularities."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pyquant._refused import hint
from pyquant.cli._errors import Refused
from pyquant.dtypes import TYPES
from pyquant.weights.blocks import block_formats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyquant.weights.blocks import BlockFormat


class Stored(NamedTuple):
    """
    A description of the stored codes of a type.

    `codes` is the type of the codes, and `format` is the type of the stored elements. The
    name of the stored tensor is the name of the original tensor and `suffix`. `how` is the
    layout of the codes:

    - "plain": an element is a code.
    - "words": 32-bit words along the last axis, as in compressed-tensors. Each row begins
      with a new word, and the first code is in the lowest bits. ``2**(bits - 1)`` is added
      to signed codes.
    - "bytes": packed codes without unused bits between rows, as in safetensors and ONNX.
    """

    codes: str
    how: str
    format: str
    suffix: str = ""

    @property
    def bits(self) -> int:
        """Number of bits of a code."""
        return TYPES[self.codes].bits

    @property
    def middle(self) -> int:
        """The number that is added to signed codes in words, or 0 for all other codes."""
        if self.how != "words" or not self.codes.startswith("int"):
            return 0
        return 1 << (self.bits - 1)

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the stored tensor for a tensor of a given shape."""
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
# Type -> how ONNX models store the codes. They have no padding between rows.
ONNX = {
    name: Stored(name, "bytes" if TYPES[name].bits < 8 else "plain", name, "_quantized")
    for name in STORED
}


# Name -> GGUF block format that pyquant encodes.
BLOCKS = {one.name: one for one in block_formats() if one.quantizes}


def encoded(block: BlockFormat, x: Any, **how: Any) -> Any:
    """Quantize `x` to blocks. For IQ4_NL, search for scales like llama.cpp's quantizer."""
    return block.quantize(x, search=True if block.name == "IQ4_NL" else None, **how)


def named_parts(name: str, stored: Stored) -> dict[str, str]:
    """Return the names of the stored tensors of a quantized tensor, by role.

    The names follow compressed-tensors.
    """
    parts = {"codes": name + stored.suffix, "scale": f"{name}_scale"}
    parts["zero_point"] = f"{name}_zero_point"
    if stored.how == "words":
        parts["shape"] = f"{name}_shape"
    return parts


def known_type(text: str, what: str) -> str:
    """Return the name of a type in its usual spelling.

    For an unknown type, raise Refused with the closest known name. The message begins with
    `what`, the name of an option.
    """
    known = {name.lower(): name for name in (*STORED, *BLOCKS)}
    if text.lower() in known:
        return known[text.lower()]
    end = hint(text, known.values()) or "; --help lists all types"
    raise Refused(f"{what}: {text!r} is not a type{end}")


_GRANULARITY = re.compile(
    r"tensor|channel|(axis):(-?\d{1,3})|(block|group):(\d{1,9})|(\d{1,9})x(\d{1,9})"
)


class Granularity:
    """
    A specification of the elements that share a scale. A malformed text raises Refused.

    - ``tensor``: all elements share a scale;
    - ``axis:K``: elements with an equal index along axis K share a scale;
    - ``channel``: like ``axis:K`` for an axis that depends on the model, or ``tensor`` for
      tensors with fewer than two dimensions;
    - ``block:N`` or ``group:N``: N consecutive elements along the last axis share a scale;
    - ``NxM``: the elements in a block of N rows and M columns share a scale.
    """

    def __init__(self, text: str) -> None:
        found = _GRANULARITY.fullmatch(text)
        sizes = found and [int(n) for n in (found[4], found[5], found[6]) if n]
        if found is None or (sizes and min(sizes) < 1):
            expected = "tensor, channel, axis:K, group:N, block:N or NxM"
            raise Refused(f"--granularity: expected {expected}, got {text!r}")
        self.text: str = text.replace("group", "block")
        self._axis = int(found[2]) if found[1] else None
        self._sizes: list[int] = sizes or []

    def objection(self, shape: tuple[int, ...]) -> str | None:
        """Return the reason why a shape does not allow this granularity, or `None`."""
        least = 2 if len(self._sizes) == 2 else 1
        if self._axis is not None:
            least = -self._axis if self._axis < 0 else self._axis + 1
        if len(shape) < least:
            few = "a dimension" if least == 1 else f"{least} dimensions"
            return f"expected at least {few} for {self.text}, got shape {shape}"
        return None

    def blocks(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the extents of a block of elements that share a scale."""
        if self._sizes:
            ones = (1,) * (len(shape) - len(self._sizes))
            return (*ones, *self._sizes)
        whole = [max(1, n) for n in shape]
        if self._axis is not None:
            whole[self._axis] = 1
        return tuple(whole)

    def call(self, ndim: int) -> dict[str, Any]:
        """Return the arguments `axis` and `block_size` of `pyquant.quantize`."""
        if len(self._sizes) == 1:
            return {"axis": ndim - 1, "block_size": self._sizes[0]}
        if self._sizes:
            return {"block_size": (*(1,) * (ndim - 2), *self._sizes)}
        return {} if self._axis is None else {"axis": self._axis % ndim}


def grid_of(shape: tuple[int, ...], blocks: Sequence[int]) -> tuple[int, ...]:
    """Return the number of blocks, each with a scale, along each axis."""
    return tuple(-(-n // b) for n, b in zip(shape, blocks, strict=True))


named = lru_cache(maxsize=256)(Granularity)  # many tensors share one object


def granularity_of(shape: tuple[int, ...], blocks: tuple[int, ...]) -> Granularity | None:
    """Return the granularity with blocks of these extents, or `None` if no text has it."""
    texts = ["tensor", *(f"axis:{axis}" for axis in range(len(shape)))]
    texts += [f"block:{size}" for size in blocks[-1:]]
    texts += ["{}x{}".format(*blocks[-2:])] if len(blocks) > 1 else []
    for text in texts:
        made = named(text)
        if made.objection(shape) is None and made.blocks(shape) == blocks:
            return made
    return None
