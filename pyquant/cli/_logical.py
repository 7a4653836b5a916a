# SPDX-License-Identifier: Apache-2.0
"""Join the stored codes and parameters of a file to logical tensors.

A logical tensor is a tensor of a model. A file may store a logical tensor in several parts,
for example codes and scales.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from importlib import import_module
from inspect import signature
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from pyquant import dtypes
from pyquant.cli._errors import Refused, fault
from pyquant.cli._forms import (
    STORED,
    Granularity,
    Stored,
    granularity_of,
    grid_of,
    named,
    named_parts,
)
from pyquant.cli._show import counted
from pyquant.packed import Layout, PackedArray, unpack
from pyquant.weights._published import block_shape, find, stated_in, type_of
from pyquant.weights._weight import FORMATS, Scaled, Weight, from_tensors
from pyquant.weights.blocks import block_formats
from pyquant.weights.files import StoredTensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyquant._typing import Array
    from pyquant.cli._models import Model
    from pyquant.weights._published import Found

# In pyquant's metadata, the entry of a quantized tensor has a record with this key.
KIND = "quantized"
# The ways in which files store codes in 32-bit words.
_PACKED = (
    *(STORED["int4"], STORED["int2"]),
    Stored("int8", "words", "int32", "_packed"),  # only other programs write int8 in words
)
_SCALES = ("float32", "float64", "float16", "bfloat16", "float8_e8m0fnu")
_BLOCK_SIZES = {one.name: one.block_size for one in block_formats()}
SMALL = 16  # maximum number of members of a JSON object that `loads` shares


@dataclass(slots=True, eq=False, repr=False)  # slots save memory for many tensors
class Logical:
    """
    A logical tensor: values, or codes with scales and zero points.

    `type` is the type of the values or codes, or the name of the format. Examples are
    ``"float32"``, ``"int8"``, ``"Q4_K"`` and ``"gptq"``. `granularity` has a text like
    ``"tensor"``, ``"axis:0"``, ``"block:32"`` or ``"8x8"``, or is `None` without codes.
    `parts` has the names of the stored tensors. `nbytes` is the sum of the numbers of bytes
    of all parts. `fault` is the reason why the file does not determine the values, or
    `None`.
    """

    name: str
    _model: Mapping[str, StoredTensor]
    parts: tuple[str, ...]
    shape: tuple[int, ...]
    type: str
    granularity: str | None
    _read: Callable[[], Weight] | None = None
    nbytes: int = field(init=False)
    fault: str | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.shape = _shared(self.shape)
        self.nbytes = sum(self._model[part].nbytes for part in self.parts)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def is_quantized(self) -> bool:
        """True if the tensor has codes."""
        return self.granularity is not None

    @property
    def is_real(self) -> bool:
        """True if the tensor has codes, or floats of any width."""
        row = dtypes.TYPES.get(self.type)
        return self.is_quantized or (row is not None and row.kind in ("real", "float"))

    @property
    def real(self) -> str:
        """The type of the real numbers that an ONNX graph computes from the codes."""
        return "float32"

    def read(self) -> Weight | None:
        """Return a `Weight`, or `None` for values and GGUF blocks."""
        return None if self._read is None else self._read()

    def dequantize(self, rows: slice | None = None, **how: Any) -> Array:
        """Return the real numbers of some rows, see `StoredTensor.dequantize`."""
        weight = weight_of(self)
        if weight is None:
            return self._model[self.name].dequantize(rows, **how)
        made = weight.dequantize(rows, **how)
        first, stop, extent = 0, 1, 1
        if rows is not None and rows.stop < self.shape[0]:
            first, stop, extent = rows.start, rows.stop, self.shape[0]
        for tensor in (self._model[name] for name in self.parts):
            ends = (tensor._start + tensor.nbytes * at // extent for at in (first, stop))
            tensor._file.has_read(*ends)  # releases pages of the file after many reads
        return made


@lru_cache(maxsize=256)
def _shared(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the same object for equal tuples, to save memory for many tensors."""
    return values


@lru_cache(maxsize=4)  # `compare` reads two tensors alternately
def weight_of(tensor: Logical) -> Weight | None:
    """Return `tensor.read()`, or the cached result of an earlier call."""
    return tensor.read()


def published(
    name: str,
    model: Mapping[str, StoredTensor],
    parts: tuple[str, ...],
    read: Callable[[], Weight],
) -> Logical:
    """Return a logical tensor for the weight that `read` returns."""
    made = read()
    blocks = f"block:{made.block_size}"
    return Logical(name, model, parts, made.shape, made.format, blocks, read)


class Joined(Logical):
    """A logical tensor of codes with a scale for each block.

    The argument `parts` maps roles, such as "codes", to the names of stored tensors.
    """

    __slots__ = ("_how", "_roles")

    def __init__(
        self, name: str, shape: tuple[int, ...], how: Stored, granularity: Granularity,
        model: Mapping[str, StoredTensor], parts: dict[str, str],
    ) -> None:  # fmt: skip
        names = tuple(parts.values())
        super().__init__(name, model, names, shape, how.codes, granularity.text)
        self._how, self._roles = how, _shared(tuple(parts))

    @property
    def _found(self) -> dict[str, StoredTensor]:
        """The stored tensors of the file, by role."""
        tensors = map(self._model.__getitem__, self.parts)
        return _readable(dict(zip(self._roles, tensors, strict=True)))

    def read(self) -> Weight:
        """Return the weight. The weight refers to the file."""
        found, how = self._found, self._how
        zero: Any = None
        blocks = named(str(self.granularity)).blocks(self.shape)
        grid = grid_of(self.shape, blocks)
        if "zero_point" in found:
            zero = found["zero_point"].dequantize(dtype=found["zero_point"].dtype)
            if how.how == "words" and zero.dtype == np.int32:
                zero = unpack(_from_words(zero, grid, how.bits, 0)).astype(np.int16)
            elif how.how == "words":  # int8 zero points are signed, unlike codes
                zero = zero.astype(np.int16) + (1 << (how.bits - 1))
            zero = zero.reshape(grid)
        elif how.middle:
            zero = np.int16(how.middle)
        kind = found["codes"].dtype  # raises an error if ml_dtypes is not installed
        codes: Any = found["codes"].raw
        if how.how == "words":
            words = codes.astype(np.int32, copy=False)
            codes = _from_words(words, self.shape, how.bits, self.ndim - 1)
        elif not isinstance(codes, PackedArray):
            codes = codes.astype(kind, copy=False)  # the file may have another byte order
        elif not self.shape or self.shape[-1] * how.bits % 8:
            codes = unpack(codes)
        scale = found["scale"].dequantize().reshape(grid)
        made = Scaled(codes, self.shape, scale, blocks, zero)
        return Weight("pyquant", {}, (made,))

    @property
    def real(self) -> str:
        """The name of the type of the scales in the file."""
        return type_of(self._found["scale"])

    @property
    def _form(self) -> Scaled:
        weight = weight_of(self)
        form = None if weight is None else weight._each[0]
        assert isinstance(form, Scaled)
        return form

    @property
    def stored_shape(self) -> tuple[int, ...] | None:
        """The shape, if the file stores it in a separate tensor, or else `None`."""
        tensor = self._found.get("shape")
        return None if tensor is None else extents_of(tensor)

    def params(
        self, rows: slice | None = None
    ) -> tuple[Array, Array | None, dict[str, Any]]:
        """
        Return scales, zero points and further arguments of `quantize` for some rows.

        Scales have as many dimensions as the tensor. Zero points have the shape of the
        scales and the type of the codes. If all zero points are 0, they may be `None`.
        """
        form, how = self._form, self._how
        scale, blocks = form.scale, form.blocks
        zero: Any = form.zero_point
        if rows is not None:
            scale, zero, blocks = form.parameters(rows)
        if "zero_point" not in self._roles:
            zero = None
        elif how.how == "words":
            zero = (zero - how.middle).astype(np.int8 if how.middle else np.uint8)
        return scale, zero, {"block_size": blocks} if scale.size > 1 else {}

    def codes(self, rows: slice | None = None) -> Array | None:
        """Return the codes of some rows as integers, or `None` for narrow floats."""
        if dtypes.TYPES[self.type].kind != "integer":
            return None
        form = self._form
        stored = (form if rows is None else form.taken(rows)).codes
        found = unpack(stored) if isinstance(stored, PackedArray) else stored
        # Types of less than 8 bits become int8 or uint8.
        if self._how.middle or self._how.bits < 8:
            kind = np.uint8 if self.type.startswith("u") else np.int8
            return (found.astype(np.int16) - self._how.middle).astype(kind)
        return found


def _from_words(words: Any, shape: tuple[int, ...], bits: int, axis: int) -> PackedArray:
    """Return the unsigned codes in 32-bit words that are packed along an axis."""
    layout = Layout("words", axis=axis, bits=bits)
    return PackedArray(words, "uint8", shape, layout=layout)


def extents_of(tensor: StoredTensor) -> tuple[int, ...]:
    """Return the elements of a tensor as a tuple of integers, for example a shape."""
    return tuple(tensor.dequantize(dtype=tensor.dtype).reshape(-1).tolist())


def _plain(model: Model, name: str) -> Logical:
    """Return a logical tensor for one stored tensor of values or GGUF blocks."""
    tensor, size = model[name], _BLOCK_SIZES.get(model[name].format)
    type = type_of(tensor)
    blocks = None if size is None or type != tensor.format else f"block:{size}"
    return Logical(name, model, (name,), tensor.shape, type, blocks)


def loads(text: str) -> Any:
    """Parse JSON, and share one Python object among equal small JSON objects.

    This saves memory, because the records of many tensors are equal.
    """
    seen: dict[str, Any] = {}

    def shared(found: dict[str, Any]) -> dict[str, Any]:
        small = len(found) <= SMALL
        return seen.setdefault(repr(found), found) if small else found

    return json.loads(text, object_hook=shared)


def records_of(model: Model) -> dict[str, dict[str, Any]]:
    """Return pyquant's records of quantized tensors in a file, by name of the tensor."""
    text = model.metadata.get("pyquant")
    try:
        found = loads(text) if isinstance(text, str) else {}
        if not isinstance(found, dict):
            raise ValueError("no object")
        rows = {n: r[KIND] for n, r in found.items() if isinstance(r, dict) and KIND in r}
        if not all(isinstance(row, dict) for row in rows.values()):
            raise ValueError("a record that is no object")
    except (ValueError, RecursionError) as error:
        said = " ".join(str(error).split())[:100]
        raise Refused(f"{model.path}: expected records of pyquant, got {said}") from None
    return rows


def logical(model: Model, *, raw: bool = False) -> dict[str, Logical]:
    """
    Return the logical tensors of a file by the names of the original tensors.

    Records of pyquant, nodes of ONNX, and the names of published formats identify the parts
    of a tensor. If `raw` is true, the function ignores the names of published formats, so
    that codes are values. The logical tensors have the order of the file. A record that
    does not fit the file raises Refused.
    """
    records = records_of(model)
    joined: dict[str, Logical] = {}
    for name in list(records):
        joined[name] = _by_record(model, name, records.pop(name))  # `pop` frees memory
    joined |= model.joined
    faults = {} if raw else _join_by_names(model, joined)
    owners = {part: made for made in joined.values() for part in made.parts}
    found: dict[str, Logical] = {}
    for name in model:
        made = owners.get(name) or _plain(model, name)
        made.fault = faults.get(name)
        found.setdefault(made.name, made)
    return found


def check_values(model: Model, tensor: Logical) -> None:
    """Raise Refused if the file does not determine the values of a tensor."""
    if tensor.fault is not None:
        raise Refused(f"{model.path}: {tensor.fault}")


def _join_by_names(model: Model, joined: dict[str, Logical]) -> dict[str, str]:
    """Add weights of published formats to `joined`. Return faults by stored tensor."""
    faults: dict[str, str] = {}
    stated = stated_in(model.path, model.metadata.get("quantization_config"))
    sizes = stated.pop("sizes", set())
    stated["group_size"] = {size[0] for size in sizes if len(size) == 1}
    facts = {key: one for key, ones in stated.items() if len(ones) == 1 for one in ones}
    known = {part for made in joined.values() for part in made.parts}
    for one in find(model, known):
        try:
            if one.fault is not None:
                raise ValueError(one.fault)
            joined.setdefault(one.name, _by_name(model, one, sizes, facts))
        except (TypeError, ValueError) as error:
            fault = one.fault or f"{one.parts['codes']}: {error}"
            faults |= dict.fromkeys(one.parts.values(), fault)
    return faults if model.kind != "onnx" else {}


def _by_record(model: Model, name: str, record: dict[str, Any]) -> Logical:
    def refused(got: object) -> Refused:
        shown = " ".join(str(got).split())[:200]
        return fault(model.path, "a record of what the file has", shown, name)

    how = STORED.get(str(record.get("type")))
    shape = record.get("shape")
    sizes = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
    if how is None or not sizes or not isinstance(shape, list):
        raise refused(json.dumps(record))
    parts = {
        part: model[full] for part, full in named_parts(name, how).items() if full in model
    }
    try:
        granularity = named(str(record.get("granularity")))
    except Refused as error:
        raise refused(error) from None
    extents = tuple(shape)
    objection = granularity.objection(extents)
    if objection or "codes" not in parts or "scale" not in parts:
        raise refused(objection or f"{', '.join(parts) or 'none'} of its parts")
    misfit = _misfit(extents, how, granularity, parts)
    if misfit:
        raise Refused(f"{model.path}: tensor {name[:100]!r}: {misfit}")
    names = {role: part.name for role, part in parts.items()}
    return Joined(name, extents, how, granularity, model, names)


def _misfit(
    shape: tuple[int, ...],
    how: Stored,
    granularity: Granularity,
    parts: dict[str, StoredTensor],
) -> str | None:
    """Return a text about a part with a wrong shape or type, or `None` if all parts fit."""
    codes, form = parts["codes"].shape, how.shape_of(shape)
    if codes != form:
        return f"expected codes of shape {form}, got {codes}"
    stored = type_of(parts["codes"])
    if stored in dtypes.TYPES and stored != how.format:
        return f"expected codes of type {how.format}, got {stored}"
    blocks = granularity.blocks(shape)
    form, scale = grid_of(shape, blocks), parts["scale"]
    if scale.size != prod(form) or type_of(scale) not in _SCALES:
        expected = f"{counted(prod(form), 'scale')} of type {' or '.join(_SCALES)}"
        return f"expected {expected}, got {scale.size} of type {type_of(scale)}"
    zero = parts.get("zero_point")
    if zero is None:
        return None
    words = (-(-form[0] * how.bits // 32), *form[1:]) if form else form
    packed = how.how == "words" and type_of(zero) == "int32"
    if (zero.shape != words) if packed else (zero.size != prod(form)):
        needed = words if packed else form
        return f"expected zero points of shape {needed}, got {zero.shape}"
    type = "int8" if how.how == "words" else how.codes
    if not packed and type_of(zero) != type:
        return f"expected zero points of type {type}, got {type_of(zero)}"
    return None


def _by_name(
    model: Model, found: Found, sizes: set[tuple[int, ...]], facts: dict[str, Any]
) -> Logical:
    """Return a logical tensor for a weight in a published format.

    Raise ValueError if shapes or types of its parts do not fit each other.
    """
    if found.formats != ("compressed_tensors",):
        return _published(model, found, facts)
    parts = _readable({part: model[full] for part, full in found.parts.items()})
    codes, scale = parts["codes"], parts["scale"]
    shape, known, order = codes.shape, [*STORED.values()], parts.get("g_idx")
    if "shape" in parts:
        shape, known = extents_of(parts["shape"]), [*_PACKED]
    if min(shape, default=0) < 0:
        raise ValueError(f"expected extents of 0 or more, got shape {shape}")
    stored = type_of(codes), codes.shape
    fitting = [how for how in known if (how.format, how.shape_of(shape)) == stored]
    # With this g_idx, inputs are not in the order of their groups.
    if order is not None and set(extents_of(order)) != {-1}:
        fitting = []
    if len(fitting) != 1:
        return _published(model, found, facts)
    blocks = block_shape(shape, scale.shape, sizes)
    granularity = granularity_of(shape, blocks)
    if granularity is None:
        raise ValueError(f"expected blocks along the last two axes, got blocks {blocks}")
    fault = _misfit(shape, fitting[0], granularity, parts)
    if fault:
        raise ValueError(fault)
    return Joined(found.name, shape, fitting[0], granularity, model, found.parts)


def _published(model: Model, found: Found, facts: dict[str, Any]) -> Logical:
    """Return a logical tensor for a weight that `pyquant.weights` reads.

    If the names and shapes do not determine the arguments, use the arguments in `facts`,
    which are from the configuration of the model.
    """
    module = import_module(f"pyquant.weights.{FORMATS[found.formats[0]]}")
    known, names = signature(module.from_tensors).parameters, (*found.parts.values(),)
    read = partial(from_tensors, model, found.name)
    try:
        return published(found.name, model, names, read)
    except ValueError:
        how = {key: fact for key, fact in facts.items() if key in known}
        if not how:
            raise
        return published(found.name, model, names, partial(read, **how))


def _readable(parts: dict[str, StoredTensor]) -> dict[str, StoredTensor]:
    """Change the type of a uint8 scale to float8_e8m0fnu. Some files store its bytes."""
    scale = parts.get("scale")
    if scale is not None and type_of(scale) == "uint8":
        parts["scale"] = replace(scale, format="F8_E8M0", _type="float8_e8m0fnu")
    return parts
