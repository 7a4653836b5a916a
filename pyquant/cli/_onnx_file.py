# SPDX-License-Identifier: Apache-2.0
"""ONNX models: initializers as tensors, and what DequantizeLinear makes of them."""

from __future__ import annotations

import os
import warnings
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pyquant import _core, _elements, dtypes
from pyquant.cli._errors import Refused
from pyquant.cli._forms import Granularity, Stored
from pyquant.cli._logical import Logical, _Joined
from pyquant.cli._models import Bytes, Model
from pyquant.files import RECORDS, Weight, _place, _result_type
from pyquant.packed import PackedArray

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

__all__ = [
    "MAX_PROTOBUF",
    "NARROW",
    "OPERATOR",
    "Linear",
    "OnnxModel",
    "Part",
    "fault",
    "format_name",
    "joined_by_nodes",
    "one_line",
    "open_onnx",
    "opset_of",
    "require",
]

MAX_PROTOBUF = 2**31 - 1  # what protobuf reads and writes
OPERATOR = "DequantizeLinear"
ROLES = ("codes", "scale", "zero_point")
DATA = tuple(
    f"{kind}_data" for kind in ("raw", "float", "int32", "int64", "double", "uint64")
)
NARROW = ("int4", "uint4", "int2", "uint2")


def require() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError:
        msg = "models of ONNX need onnx: pip install 'pyquant-simd[onnx]'"
        raise ImportError(msg) from None
    return onnx


def fault(path: str, expected: str, got: object, tensor: str | None = None) -> Refused:
    name = "" if tensor is None else f"tensor {tensor[:100]!r}: "
    return Refused(f"{path}: {name}expected {expected}, got {got}")


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


# ---- reading ----


class _Codes(Weight):
    """Integers of 2 and 4 bits, of which safetensors and GGUF have none."""

    __slots__ = ()

    def _packed(self, name: str) -> PackedArray:
        return PackedArray(self._tensor.raw(), name, self._tensor.shape)

    def decode(  # type: ignore[override]
        self,
        rows: slice | None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: npt.NDArray[Any] | None = None,
        threads: int = 1,
    ) -> npt.NDArray[Any]:
        """As `Weight.decode`."""
        source, name = self._known(), _result_type(dtype, out)
        shape, first = self._rows(rows)
        bits = dtypes.TYPES[source].bits
        before = first % (8 // bits)
        count = prod(shape) + before
        start = (first - before) * bits // 8
        raw = self._tensor.raw()[start : start + -(-count * bits // 8)]
        codes = PackedArray(raw, source, (count,)).unpack()[before:].reshape(shape)
        to = _place(shape, name or source, out)
        if name in (None, source):
            to[...] = codes
        else:
            _core.dequantize(codes, 1.0, dtype=name, out=to, threads=threads)
        return to if out is None else out


class Part(NamedTuple):
    """A DequantizeLinear of initializers: what stands for a tensor of real numbers."""

    name: str  # what the node makes
    names: dict[str, str]  # the initializers, by "codes", "scale" and "zero_point"
    type: str
    granularity: str


class Linear(_Joined):
    """What DequantizeLinear makes."""

    @property
    def real(self) -> str:
        """The type of its numbers, which is that of the scales."""
        return dtypes.name_of(self._found["scale"].dtype) or "float32"

    def codes(self, rows: slice | None = None) -> npt.NDArray[Any] | None:
        """Make integers of the codes of some rows; those of 2 and 4 bits as bytes."""
        found = super().codes(rows)
        if found is None or self.type not in NARROW:
            return found
        return found.astype(np.uint8 if self.type.startswith("u") else np.int8)


class OnnxModel(Model):
    """
    The initializers of a model, by name: those of its graph, and numbers.

    Parameters
    ----------
    path : str
        The file. External data lies in its folder, or below.

    Attributes
    ----------
    proto : onnx.ModelProto
        The model, without the data of these initializers.
    protos : dict of str to onnx.TensorProto
        What it says of them.
    weights : dict of str to Weight
        The tensors that it consists of.
    parts : dict of str to Part
        What DequantizeLinear makes of initializers, by its name.

    Raises
    ------
    ImportError
        If onnx is not installed.
    OSError, Refused
        If it, or its external data, cannot be read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._files: dict[str, Any] = {}
        self.proto: Any = _load(path)
        self.protos: dict[str, Any] = {}
        self.weights: dict[str, Weight] = {}
        self.parameters: set[str] | None = None  # found when it is asked for
        super().__init__(
            path, "onnx", self.weights, _metadata(self.proto), self._close_files
        )
        try:
            for proto in self.proto.graph.initializer:
                if proto.data_type == proto.STRING:
                    continue
                if proto.name in self.protos:
                    raise fault(path, "different names", "it twice", proto.name)
                self.protos[proto.name] = proto
                self.weights[proto.name] = self._tensor(proto)
                for field in DATA:
                    proto.ClearField(field)
            by_codes = {one.names["codes"]: one for one in self._find_parts()}
            self.parts: dict[str, Part] = {one.name: one for one in by_codes.values()}
        except BaseException:
            self.close()
            raise
        self.paths = (path, *self._files)

    @property
    def opset(self) -> int:
        """The version of the operators of ONNX itself."""
        return int(opset_of(self.proto).version)

    def _close_files(self) -> None:
        for file in self._files.values():
            if isinstance(file, _elements.Mapped):
                file.close()

    def _tensor(self, proto: Any) -> Weight:
        onnx, name = require(), proto.name
        format = format_name(proto.data_type)
        shape = tuple(proto.dims)
        if any(n < 0 for n in shape) or not _elements.sized(shape):
            raise fault(self.path, "a shape that NumPy can have", shape, name)
        dtype = None
        with suppress(KeyError):
            dtype = onnx.helper.tensor_dtype_to_np_dtype(proto.data_type).name
        if dtype not in (*dtypes.TYPES, "bool", "complex64"):
            dtype = None
        expected = None
        if dtype is not None:
            expected = -(-prod(shape) * _elements.bits_of(dtype) // 8)
        file, start, nbytes = self._data(proto, expected)
        if expected not in (None, nbytes):
            raise fault(self.path, f"{expected} bytes for {format}{[*shape]}", nbytes, name)
        tensor = _elements.Tensor(file, format, dtype, shape, start, nbytes)
        return (_Codes if dtype in NARROW else Weight)(name, tensor)

    def _data(self, proto: Any, expected: int | None) -> tuple[Any, int, int]:
        """Where the bytes lie."""
        onnx = require()
        if proto.data_location == onnx.TensorProto.EXTERNAL:
            return self.external(proto, expected)
        if proto.HasField("raw_data"):
            memory = proto.raw_data
        else:
            try:
                memory = onnx.numpy_helper.from_array(_values(proto)).raw_data
            except Exception as error:  # of several kinds, KeyError for unknown types
                expect = "data that fills the shape"
                raise fault(self.path, expect, one_line(error), proto.name) from None
        return Bytes(self.path, memory), 0, len(memory)

    def external(self, proto: Any, expected: int | None = None) -> tuple[Any, int, int]:
        """The file of external data, the first byte, and the number of bytes."""
        said = {entry.key: entry.value for entry in proto.external_data}
        file = self._file(said.get("location", ""), proto.name)
        try:
            start = int(said.get("offset", 0))
            nbytes = int(
                said.get("length", file.size - start if expected is None else expected)
            )
        except ValueError:
            expect = "whole numbers for offset and length"
            raise fault(self.path, expect, said, proto.name) from None
        if min(start, nbytes, file.size - start - nbytes) < 0:
            expect = f"bytes within the {file.size} of {file.path}"
            raise fault(self.path, expect, f"{nbytes} from {start} on", proto.name)
        return file, start, nbytes

    def _file(self, location: str, name: str) -> Any:
        folder = os.path.realpath(os.path.dirname(self.path))
        if not location or "\0" in location:
            raise fault(self.path, "a file of external data", repr(location), name)
        path = os.path.realpath(os.path.join(folder, location))
        if os.path.isabs(location) or not path.startswith(os.path.join(folder, "")):
            expected = "external data in the folder of the model"
            raise fault(self.path, expected, repr(location[:100]), name)
        if path not in self._files:
            empty = os.path.getsize(path) == 0
            self._files[path] = Bytes(path, b"") if empty else _elements.Mapped(path)
        return self._files[path]

    def _find_parts(self) -> Iterator[Part]:
        """The nodes of the graph that make real numbers of initializers alone."""
        inputs = {one.name for one in self.proto.graph.input}
        for node in self.proto.graph.node:
            names = [name for name in node.input if name]
            ours = node.op_type == OPERATOR and node.domain in ("", "ai.onnx")
            if ours and len(names) >= 2 and set(names) <= self.protos.keys() - inputs:
                part = self._part(node, dict(zip(ROLES, names, strict=False)))
                if part is not None:
                    yield part

    def _part(self, node: Any, names: dict[str, str]) -> Part | None:
        """What a node does, if it is what DequantizeLinear may do and granularities say."""
        said = {one.name: one.i for one in node.attribute}
        codes, scale = self[names["codes"]], self[names["scale"]]
        others = [self[one].shape for role, one in names.items() if role != "codes"]
        if said.get("output_dtype", 0) or codes.dtype is None or len({*others}) != 1:
            return None
        axis, block = said.get("axis", 1), said.get("block_size", 0)
        axis += codes.ndim * (axis < 0)
        text = "tensor" if scale.size == 1 and not block else None
        if text is None and 0 <= axis < codes.ndim:
            text = _granularity(codes.shape, axis, block, scale.shape)
        return None if text is None else Part(node.output[0], names, codes.dtype.name, text)


def joined_by_nodes(model: Model) -> dict[str, Logical]:
    """What DequantizeLinear makes of initializers, by its names."""
    found: dict[str, Logical] = {}
    assert isinstance(model, OnnxModel)
    for part in model.parts.values():
        tensors = {role: model[name] for role, name in part.names.items()}
        shape, granularity = tensors["codes"].shape, Granularity(part.granularity)
        how = Stored(part.type, "plain", part.type)
        found[part.name] = Linear(part.name, shape, how, granularity, tensors)
    return found


def _granularity(
    shape: tuple[int, ...], axis: int, block: int, scales: tuple[int, ...]
) -> str | None:
    """What shares a scale, if these are scales for it and there is a word for it."""
    if block == 0:
        return f"axis:{axis}" if scales == (shape[axis],) else None
    if scales != (*shape[:axis], -(-shape[axis] // block), *shape[axis + 1 :]):
        return None
    words = {1: f"block:{block}", 2: f"{block}x1"}
    return words.get(len(shape) - axis)


def open_onnx(path: str) -> OnnxModel:
    """Open a model; of its external data nothing is read."""
    return OnnxModel(path)


def _metadata(proto: Any) -> dict[str, Any]:
    """What a model says of itself; no records, as its nodes say what belongs together."""
    return {
        "ir_version": proto.ir_version,
        "opset": {one.domain or "ai.onnx": one.version for one in proto.opset_import},
        "producer": f"{proto.producer_name} {proto.producer_version}".strip(),
        **{one.key: one.value for one in proto.metadata_props if one.key != RECORDS},
    }


def _values(proto: Any) -> npt.NDArray[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made: npt.NDArray[Any] = require().numpy_helper.to_array(proto)
    return made


def _load(path: str) -> Any:
    onnx = require()
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size > MAX_PROTOBUF:
            raise fault(path, "a model of less than 2 GiB", "a larger one (external data?)")
        content = file.read()
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except Exception as error:  # of protobuf, which has several for it
        raise fault(path, "a model of ONNX", one_line(error)) from None
    if not proto.HasField("graph") or proto.ir_version < 1 or not proto.opset_import:
        raise fault(path, "a model of ONNX", "no graph, version or operators")
    if not _is_text(proto):
        raise fault(path, "a model of ONNX", "names that are no UTF-8")
    return proto


def _is_text(message: Any) -> bool:
    """Whether all that has to be is; protobuf gives bytes where it is not."""
    if message.DESCRIPTOR.name == "TensorProto":  # whose data is not looked at
        entries = [
            one for entry in message.external_data for one in (entry.key, entry.value)
        ]
        return all(isinstance(one, str) for one in (message.name, *entries))
    for field, value in message.ListFields():
        if field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
            continue
        values = [value] if isinstance(value, str | bytes) else value
        values = [value] if hasattr(value, "DESCRIPTOR") else values
        known = field.type == field.TYPE_STRING
        if not all(isinstance(one, str) if known else _is_text(one) for one in values):
            return False
    return True


def opset_of(proto: Any) -> Any:
    for one in proto.opset_import:
        if one.domain in ("", "ai.onnx"):
            return one
    onnx = require()
    return onnx.helper.make_opsetid("", onnx.defs.onnx_opset_version())


def format_name(data_type: int) -> str:
    try:
        return str(require().TensorProto.DataType.Name(data_type))
    except ValueError:
        return f"type {data_type}"
