# SPDX-License-Identifier: Apache-2.0
"""ONNX models: read initializers as tensors, and edit the graph.

`quantize` replaces an initializer by codes and a DequantizeLinear node. The output of this
node gets the name of the initializer, so that no other node changes.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from math import prod
from typing import TYPE_CHECKING, Any

import onnx
import onnx.external_data_helper

from pyquant import _core, dtypes
from pyquant.cli._errors import converting, fault
from pyquant.cli._forms import Granularity, Stored, grid_of, named
from pyquant.cli._logical import Joined, published
from pyquant.cli._models import Bytes, Model
from pyquant.cli._plan import Decoded, Quantized
from pyquant.cli._write import File
from pyquant.weights import _elements
from pyquant.weights._weight import from_tensors
from pyquant.weights.files import RECORDS, StoredTensor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from io import BufferedWriter

    from pyquant.cli._logical import Logical
    from pyquant.cli._plan import Job
    from pyquant.weights._elements import Part

MAX_PROTOBUF = 2**31 - 1  # protobuf's limit for the number of bytes in a message
OPERATOR = "DequantizeLinear"
ROLES = ("codes", "scale", "zero_point")
# Names for the inputs of MatMulNBits after the first, and names of its integer attributes.
PACKED, SIZES = ("B", "scales", "zero_points", "g_idx"), ("K", "N", "bits", "block_size")
DATA = tuple(
    f"{kind}_data" for kind in ("raw", "float", "int32", "int64", "double", "uint64")
)
# A tensor in external data begins at a multiple of this number of bytes, so that a runtime
# can map the tensor.
ALIGNMENT = 4096
# Maximum number of bytes in a small initializer. A small initializer may be a shape, which
# onnx needs to check a model; a larger initializer is a weight.
SMALL = 1024
# Operators of ONNX and of ONNX Runtime with inputs of codes as weights.
ON_CODES = {
    *("QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul", "MatMulNBits"),
    *("MatMulBnb4", "GatherBlockQuantized", "QMoE", "QGemm", "QAttention"),
    "DynamicQuantizeLSTM",
}
# Operator -> index of an input that can be a weight -> the axis of the outputs in the
# weight, and the attribute that swaps the last two axes of the weight. Gather is missing,
# because its attribute `axis` is the axis of the outputs.
_PRODUCTS = {0: (-2, "transA"), 1: (-1, "transB")}
_RECURRENT = {1: (1, ""), 2: (1, "")}
OUTPUTS: dict[str, dict[int, tuple[int, str]]] = {
    **dict.fromkeys(("MatMul", "Gemm", "FusedMatMul", "FusedGemm"), _PRODUCTS),
    **dict.fromkeys(("RNN", "GRU", "LSTM"), _RECURRENT),
    "Conv": {1: (0, "")},
    "ConvTranspose": {1: (1, "")},
}


_errors_of_onnx = partial(converting, most=300)  # converts errors of onnx and protobuf

# ---- messages of protobuf ----


def _messages(message: Any, *kinds: str) -> Iterator[Any]:
    """Yield a message and all messages inside, in any order.

    If `kinds` is not empty, yield only messages of these kinds.
    """
    waiting = [message]
    while waiting:
        message = waiting.pop()
        kind = message.DESCRIPTOR.name
        if not kinds or kind in kinds:
            yield message
        if kind == "TensorProto":  # the method ListFields would copy the data
            waiting.extend(message.external_data)
        # A ValueInfoProto contains no message of a kind that the callers want.
        elif kind != "ValueInfoProto" or not kinds:
            for field, value in message.ListFields():
                if field.type == field.TYPE_MESSAGE:
                    waiting.extend([value] if hasattr(value, "DESCRIPTOR") else value)


def _is_text(message: Any) -> bool:
    """Return true if all strings are UTF-8. protobuf returns invalid ones as bytes."""
    if message.DESCRIPTOR.name == "TensorProto":
        return isinstance(message.name, str)
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING:
            texts = [value] if isinstance(value, (str, bytes)) else value
            if not all(isinstance(text, str) for text in texts):
                return False
    return True


def _used(graph: Any) -> Iterator[str]:
    """Yield the names that nodes of a graph and of its subgraphs use as inputs, and the
    names of the outputs of all these graphs."""
    for one in _messages(graph, "NodeProto", "GraphProto"):
        is_node = one.DESCRIPTOR.name == "NodeProto"
        yield from one.input if is_node else (output.name for output in one.output)


def _names(graph: Any) -> Iterator[str]:
    """Yield the names of all nodes and values in a graph and in its subgraphs."""
    for one in _messages(graph, "NodeProto", "ValueInfoProto", "TensorProto"):
        yield one.name
        if one.DESCRIPTOR.name == "NodeProto":
            yield from (*one.input, *one.output)


def _format_name(data_type: int) -> str:
    try:
        return str(onnx.TensorProto.DataType.Name(data_type))
    except ValueError:
        return f"type {data_type}"


# ---- reading ----


class OnnxModel(Model):
    """
    A mapping from names to the initializers with numbers in the graph of an ONNX model.

    Before, weights of Constant nodes and of subgraphs become initializers of the graph.
    `proto` is the model without the data of the initializers. `protos` maps names to the
    initializers. `linear` has a logical tensor for each DequantizeLinear node of
    initializers. `joined` has these tensors, and the weights of MatMulNBits nodes.
    """

    def __init__(self, path: str) -> None:
        self._external: dict[str, Any] = {}  # path -> file of external data
        self.proto: Any = _load(path)
        versions = [
            one.version for one in self.proto.opset_import if one.domain in ("", "ai.onnx")
        ]
        self.opset = int([*versions, onnx.defs.onnx_opset_version()][0])
        self.protos: dict[str, Any] = {}
        _lift_weights(self.proto.graph)
        metadata = _metadata(self.proto)
        super().__init__(path, "onnx", [], {}, metadata)
        try:
            for proto in self.proto.graph.initializer:
                if proto.data_type == proto.STRING:
                    continue
                if proto.name in self.protos:
                    raise fault(path, "different names", "it twice", proto.name)
                self.protos[proto.name] = proto
                self._tensors[proto.name] = self._tensor(proto)
                for field in DATA:
                    proto.ClearField(field)
            by_codes = {one.parts[0]: one for one in self._find_linear()}
            self.linear: dict[str, Joined] = {one.name: one for one in by_codes.values()}
            self.joined = {**self.linear, **{one.name: one for one in self._find_packed()}}
        except BaseException:
            self.close()
            raise
        self.paths = (path, *self._external)

    @property
    def absences(self) -> tuple[str, ...]:
        """Reasons why the model does not contain all weights of the file."""
        _, *bodies = _messages(self.proto.graph, "GraphProto")
        items = [one for body in bodies for one in (*body.node, *body.initializer)]
        tensors = [tensor for _, tensor in map(_constant, items) if tensor is not None]
        returned = "a branch of If, or a body of Loop or Scan, returns a weight"
        return (returned,) if any(map(_is_weight, tensors)) else ()

    @cached_property
    def parameters(self) -> set[str]:
        """Names of codes, scales and offsets: all inputs, except the first, of operators in
        `ON_CODES`."""
        nodes = _messages(self.proto.graph, "NodeProto")
        inputs = [node.input[1:] for node in nodes if node.op_type in ON_CODES]
        return {name for names in inputs for name in names}

    @cached_property
    def _uses(self) -> dict[str, list[tuple[Any, int]]]:
        """Name of a value -> the nodes that use it, each with the index of the input."""
        uses: dict[str, list[tuple[Any, int]]] = {}
        for node in reversed([*_messages(self.proto.graph, "NodeProto")]):
            for place, one in enumerate(node.input):
                uses.setdefault(one, []).append((node, place))
        return uses

    def channels(self, name: str) -> int:
        """Return the axis of a weight that has an index for each output of its operator."""
        ndim = (self.joined.get(name) or self[name]).ndim
        # Search the uses of these values: the tensor, its copies and its transposes. For
        # each axis of the value, the list has the corresponding axis of the tensor `name`.
        waiting: list[tuple[str, list[int]]] = [(name, [*range(ndim)])]
        seen = {name}
        while waiting:
            one, axes = waiting.pop()
            for node, place in self._uses.get(one, ()):
                given = {a.name: list(a.ints) or a.i for a in node.attribute}
                axis = _outputs_axis(node.op_type, place, given)
                if axis is not None and -ndim <= axis < ndim:
                    return axes[axis]
                order = [*range(ndim)]
                if node.op_type == "Transpose":
                    order = given.get("perm", order[::-1])
                elif node.op_type not in ("Identity", "Cast"):
                    continue
                if sorted(order) == [*range(ndim)] and seen.isdisjoint(node.output):
                    seen.update(node.output)
                    waiting += [(o, [axes[k] for k in order]) for o in node.output]
        return 0

    def _tensor(self, proto: Any) -> StoredTensor:
        name, format = proto.name, _format_name(proto.data_type)
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
            need = f"{expected} bytes for {format}{[*shape]}"
            raise fault(self.path, need, nbytes, name)
        return StoredTensor(name, file, format, dtype, shape, start, nbytes)

    def _data(self, proto: Any, expected: int | None) -> tuple[Any, int, int]:
        """Return the file or memory with the data of an initializer, the index of the first
        byte, and the number of bytes."""
        if onnx.external_data_helper.uses_external_data(proto):
            return self.external(proto, expected)
        if proto.HasField("raw_data"):
            memory = proto.raw_data
        else:
            need = "data that fills the shape"
            with _errors_of_onnx(self.path, need, proto.name), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                array = onnx.numpy_helper.to_array(proto)
                memory = onnx.numpy_helper.from_array(array).raw_data
        return Bytes(self.path, memory), 0, len(memory)

    def external(self, proto: Any, expected: int | None = None) -> tuple[Any, int, int]:
        """Return the file with the external data of an initializer, the index of the first
        byte, and the number of bytes."""
        fields = {entry.key: entry.value for entry in proto.external_data}
        file = self._file(fields.get("location", ""), proto.name)
        try:
            start = int(fields.get("offset", 0))
            left = file.size - start if expected is None else expected
            nbytes = int(fields.get("length", left))
        except ValueError:
            need = "whole numbers for offset and length"
            raise fault(self.path, need, fields, proto.name) from None
        if min(start, nbytes, file.size - start - nbytes) < 0:
            need = f"bytes within the {file.size} of {file.path}"
            raise fault(self.path, need, f"{nbytes} from {start} on", proto.name)
        return file, start, nbytes

    def _file(self, location: str, name: str) -> Any:
        folder = os.path.realpath(os.path.dirname(self.path))
        if not location or "\0" in location:
            raise fault(self.path, "a file of external data", repr(location), name)
        path = os.path.realpath(os.path.join(folder, location))
        if os.path.isabs(location) or not path.startswith(os.path.join(folder, "")):
            need = "external data in the folder of the model"
            raise fault(self.path, need, repr(location[:100]), name)
        if path not in self._external:
            empty = os.path.getsize(path) == 0
            self._external[path] = Bytes(path, b"") if empty else _elements.Mapped(path)
            self._files.append(self._external[path])
        return self._external[path]

    def _nodes(self, operator: str, roles: tuple[str, ...]) -> Iterator[Any]:
        """Yield the nodes of an operator with initializers as inputs.

        `roles` has a role for each input. An input with the role "" may be any value. An
        initializer that is also an input of the graph does not count. The second and third
        item of a result map roles to names and to tensors.
        """
        known = self.protos.keys() - {one.name for one in self.proto.graph.input}
        for node in self.proto.graph.node:
            if node.op_type == operator:
                named = zip(roles, node.input, strict=False)
                parts = {role: name for role, name in named if role and name}
                if known.issuperset(parts.values()):
                    yield node, parts, {role: self[name] for role, name in parts.items()}

    def _find_linear(self) -> Iterator[Joined]:
        """Yield a logical tensor for each DequantizeLinear node of initializers."""
        for node, parts, tensors in self._nodes(OPERATOR, ROLES):
            if {*ROLES[:2]} <= parts.keys() and node.domain in ("", "ai.onnx"):
                granularity = _granularity_of(node, **tensors)
                if granularity is not None:
                    codes = tensors["codes"]
                    how = Stored(codes.dtype.name, "plain", codes.dtype.name)
                    shared = named(granularity)
                    yield Joined(node.output[0], codes.shape, how, shared, self, parts)

    def _find_packed(self) -> Iterator[Logical]:
        """Yield a logical tensor for the weight of each MatMulNBits node."""
        for node, parts, tensors in self._nodes("MatMulNBits", ("", *PACKED)):
            if {*PACKED[:2]} <= parts.keys():
                given = {one.name: one.i for one in node.attribute}
                how = {key: given[key] for key in SIZES if key in given}
                read = partial(from_tensors, tensors, format="matmulnbits", **how)
                name = parts["B"].removesuffix(f"_Q{how.get('bits', 4)}")
                with suppress(TypeError, ValueError):
                    yield published(name, self, (*parts.values(),), read)


def _outputs_axis(operator: str, place: int, given: dict[str, Any]) -> int | None:
    """Return the axis of the outputs in a weight, or `None` if the input is no weight.

    `place` is the index of the input, and `given` has the attributes of the node.
    """
    if operator == "Gather" and place == 0:
        return int(given.get("axis", 0))
    axis, swap = OUTPUTS.get(operator, {}).get(place, (None, ""))
    return -3 - axis if axis is not None and given.get(swap) else axis


def _granularity_of(
    node: Any, codes: Any, scale: Any, zero_point: Any = None
) -> str | None:
    """Return the text for the granularity of a DequantizeLinear node, or `None` without a
    text for it."""
    given = {one.name: one.i for one in node.attribute}
    fits = zero_point is None or zero_point.shape == scale.shape
    if given.get("output_dtype", 0) or codes.dtype is None or not fits:
        return None
    shape, axis, block = codes.shape, given.get("axis", 1), given.get("block_size", 0)
    axis += codes.ndim * (axis < 0)
    if scale.size == 1 and not block:
        return "tensor"
    if not 0 <= axis < codes.ndim:
        return None
    if block == 0:
        return f"axis:{axis}" if scale.shape == (shape[axis],) else None
    if scale.shape != (*shape[:axis], -(-shape[axis] // block), *shape[axis + 1 :]):
        return None
    return {1: f"block:{block}", 2: f"{block}x1"}.get(codes.ndim - axis)


def _metadata(proto: Any) -> dict[str, Any]:
    """Return the metadata of a model. Nodes, not records, describe quantized tensors."""
    return {
        "ir_version": proto.ir_version,
        "opset": {one.domain or "ai.onnx": one.version for one in proto.opset_import},
        "producer": f"{proto.producer_name} {proto.producer_version}".strip(),
        **{one.key: one.value for one in proto.metadata_props if one.key != RECORDS},
    }


def _load(path: str) -> Any:
    proto = onnx.ModelProto()
    with _elements.open_file(path) as file:
        if os.fstat(file.fileno()).st_size > MAX_PROTOBUF:
            got = "a larger one (external data?)"
            raise fault(path, "a model of less than 2 GiB", got)
        with _errors_of_onnx(path, "a model of ONNX"):
            proto.ParseFromString(file.read())
    if not proto.HasField("graph") or proto.ir_version < 1 or not proto.opset_import:
        raise fault(path, "a model of ONNX", "no graph, version or operators")
    if not all(map(_is_text, _messages(proto))):
        raise fault(path, "a model of ONNX", "names that are no UTF-8")
    return proto


def _lift_weights(graph: Any) -> None:
    """Make initializers of the graph from weights of Constant nodes and of subgraphs.

    A subgraph is a body of If, Loop or Scan. Its nodes can use the initializers of the
    graph. If several subgraphs define a name, a number is added to the name. A weight that
    is an output of a subgraph stays, because a subgraph must define its outputs.
    """
    scopes = [*_messages(graph, "GraphProto")]
    counts = Counter(name for scope in scopes for name in _defined(scope))
    for scope in (graph, *scopes[:0:-1]):
        inside = scope is not graph
        fixed = {one.name for one in (*scope.input, *scope.output)} if inside else set()
        for place in (scope.node, scope.initializer)[: 1 + inside]:
            gone = []
            for at, item in enumerate(place):
                name, tensor = _constant(item)
                if tensor is None or name in fixed or not _is_weight(tensor):
                    continue
                new = name
                if inside and counts[name] > 1:
                    inner = [*_messages(scope, "GraphProto")][1:]
                    if any(name in _defined(one) for one in inner):
                        continue
                    numbers = (f"{name}_{n}" for n in range(1, len(counts) + 2))
                    new = next(one for one in numbers if one not in counts)
                    counts[new] = 1
                    for node in _messages(scope, "NodeProto"):
                        node.input[:] = [new if n == name else n for n in node.input]
                graph.initializer.add().CopyFrom(tensor)
                graph.initializer[-1].name = new
                gone.append(at)
            for at in reversed(gone):
                del place[at]


def _defined(graph: Any) -> set[str]:
    """Return the names of the values that a graph defines, without its subgraphs."""
    outputs = {name for node in graph.node for name in node.output}
    return outputs | {one.name for one in (*graph.input, *graph.initializer)}


def _constant(item: Any) -> tuple[str, Any]:
    """Return the name and the tensor of an initializer or a Constant node.

    For all other nodes, the tensor is `None`.
    """
    if item.DESCRIPTOR.name == "TensorProto":
        return item.name, item
    given = {one.name: one for one in item.attribute if item.op_type == "Constant"}
    if "value" not in given or not item.output:
        return "", None
    return item.output[0], given["value"].t


def _is_weight(tensor: Any) -> bool:
    reals = ("FLOAT", "FLOAT16", "BFLOAT16")
    return len(tensor.dims) > 1 and _format_name(tensor.data_type) in reals


# ---- conditions for DequantizeLinear ----


def _attributes_for(granularity: Granularity, ndim: int) -> dict[str, int] | None:
    """Return the attributes of DequantizeLinear for a granularity.

    Return `None` for blocks along several axes, because the operator does not support them.
    """
    call = granularity.call(ndim)
    sizes = call.get("block_size")
    if not isinstance(sizes, tuple):
        return call
    along = [axis for axis, size in enumerate(sizes) if size > 1] or [ndim - 1]
    if len(along) > 1:
        return None
    return {"axis": along[0], "block_size": sizes[along[0]]}


def objection(model: Model, name: str, type: str, granularity: Granularity) -> str | None:
    """Return the reason why an initializer cannot be quantized, or `None`.

    The function reads no data.
    """
    assert isinstance(model, OnnxModel)
    proto = model.protos[name]  # `name` is an initializer, not the result of a node
    if _format_name(proto.data_type) not in ("FLOAT", "FLOAT16", "BFLOAT16"):
        need = "expected float32, float16 or bfloat16"
        return f"{need}, got {_format_name(proto.data_type)}"
    if any(one.name == name for one in model.proto.graph.input):
        return "expected an initializer alone, got an input of the graph, too"
    if name in model.parameters:
        return "expected a weight, got what goes with codes"
    attributes = _attributes_for(granularity, len(proto.dims))
    if attributes is None:
        return f"expected blocks along one axis for {OPERATOR}, got {granularity.text}"
    if _since(model, name, type, attributes) is None:
        return f"expected a type that {OPERATOR} has, got {type}"
    return None


def _since(
    model: OnnxModel, name: str, type: str, attributes: Mapping[str, int]
) -> int | None:
    """Return the lowest opset, from the model's opset on, that can dequantize the codes.

    Return `None` if no opset supports the type of the codes.
    """
    try:
        code = onnx.helper.np_dtype_to_tensor_dtype(_core.dtype_named(type))
    except (ValueError, KeyError, TypeError):
        return None
    types = [
        f"tensor({_format_name(t).lower()})" for t in (code, model.protos[name].data_type)
    ]
    for version in range(max(model.opset, 10), onnx.defs.onnx_opset_version() + 1):
        schema = onnx.defs.get_schema(OPERATOR, version)
        fits = all(t in schema.inputs[n].types for n, t in enumerate(types))
        if fits and attributes.keys() <= schema.attributes.keys():
            return version
    return None


# ---- editing ----


class _Edited:
    """
    An edited copy of a model, without the data of the tensors that jobs write.

    `proto` is the model, with an initializer for each of the written tensors. `tensors`
    maps names of written tensors to their initializers. The name of an initializer in the
    graph may differ from the name of the tensor.
    """

    def __init__(self, model: OnnxModel, path: str, jobs: Sequence[Job]) -> None:
        self.model, self.path = model, path
        self.proto: Any = onnx.ModelProto()
        self.proto.CopyFrom(model.proto)
        graph = self.proto.graph
        del graph.initializer[:]
        self.tensors: dict[str, Any] = {}
        made = [job for job in jobs if isinstance(job, Quantized)]
        undone = {job.source.name for job in jobs if isinstance(job, Decoded)}
        self._load_nested_data()
        self._raise_opset(made)
        initializers = model.proto.graph.initializer
        self._taken = {*_names(graph), *(one.name for one in initializers)}
        nodes = [node for node in graph.node if not undone & {*node.output}]
        links = []
        for job in jobs:  # jobs have the order of the initializers
            if isinstance(job, Quantized):
                links.append(self._link(job))
            elif isinstance(job, Decoded):
                self._undo(job.parts[0])
            else:
                for part in job.parts:
                    self.tensors[part.name] = _without_data(model.protos[part.name])
        del graph.node[:]
        graph.node.extend([*links, *nodes])
        self._add_initializers({job.source.name for job in made}, undone)

    def _load_nested_data(self) -> None:
        """Copy external data into tensors that are not initializers of the graph.

        Subgraphs, attributes, functions and sparse initializers contain such tensors.
        """
        for tensor in _messages(self.proto, "TensorProto"):
            if onnx.external_data_helper.uses_external_data(tensor):
                file, start, nbytes = self.model.external(tensor)
                tensor.raw_data = bytes(file.opened()[start : start + nbytes])
                tensor.ClearField("external_data")
                tensor.ClearField("data_location")

    def _raise_opset(self, made: Sequence[Quantized]) -> None:
        """Convert the model to the lowest opset that supports all new nodes."""
        model = self.model
        needs = [
            _since(model, job.source.name, job.to, _attributes_of(job)) or 0 for job in made
        ]
        wanted = max([*needs, model.opset])
        if wanted > model.opset:
            _convert(self.proto, model, wanted)
        if made:
            opsets = [onnx.helper.make_opsetid("", wanted)]
            least = onnx.helper.find_min_ir_version_for(opsets, ignore_unknown=True)
            self.proto.ir_version = max(self.proto.ir_version, least)

    def _link(self, job: Quantized) -> Any:
        """Return a DequantizeLinear node. Its output has the name of the initializer."""
        name, shape, attributes = job.source.name, job.source.shape, _attributes_of(job)
        blocks = job.spec.granularity.blocks(shape)
        scales = grid_of(shape, blocks)
        if "block_size" not in attributes:
            scales = (prod(scales),) if attributes else ()
        shapes = {"quantized": shape, "scale": scales, "zero_point": scales}
        inputs = []
        for (role, form), part in zip(shapes.items(), job.parts, strict=False):
            inputs.append(self._free(f"{name}_{role}"))
            self.tensors[part.name] = _tensor(inputs[-1], part.format, form)
        node = self._free(f"{name}_{OPERATOR}")
        return onnx.helper.make_node(OPERATOR, inputs, [name], node, **attributes)

    def _undo(self, part: Part) -> None:
        """Add an initializer of real numbers in place of a DequantizeLinear node."""
        linear = self.model.linear.get(part.name)
        if linear is None:
            raise fault(self.path, f"a result of {OPERATOR}", part.format, part.name)
        if part.format != linear.real:
            need = f"{linear.real}, as the graph has it"
            raise fault(self.path, need, part.format, part.name)
        self.tensors[part.name] = _tensor(part.name, part.format, part.shape)

    def _free(self, name: str) -> str:
        """Return a name that the graph does not use: `name`, or `name` with a number."""
        made, number = name, 1
        while made in self._taken:
            made, number = f"{name}_{number}", number + 1
        self._taken.add(made)
        return made

    def _add_initializers(self, changed: set[str], undone: set[str]) -> None:
        """Check the model, and add the initializers that jobs write.

        During the check, the new tensors are inputs of the graph, because they have no data
        yet.
        """
        graph, model = self.proto.graph, self.model
        codes = {name for one in undone for name in model.linear[one].parts}
        written = {one.name for one in self.tensors.values()}
        gone = written | changed | codes - {*_used(graph)}
        converted = [*graph.initializer]
        del graph.initializer[:]
        for one in model.proto.graph.initializer:
            if one.name not in gone:
                graph.initializer.append(_with_data(model, one))
        graph.initializer.extend(converted)
        count, known = len(graph.input), {one.name for one in graph.input}
        tensors = self.tensors.values()
        graph.input.extend(_value_info(one) for one in tensors if one.name not in known)
        with _errors_of_onnx(model.path, "a model that onnx.checker accepts"):
            onnx.checker.check_model(self.proto)
        del graph.input[count:]
        for name, tensor in self.tensors.items():
            graph.initializer.append(tensor)
            self.tensors[name] = graph.initializer[-1]


def _attributes_of(job: Quantized) -> dict[str, Any]:
    found = _attributes_for(job.spec.granularity, job.source.ndim)
    assert found is not None  # `objection` has rejected blocks along several axes
    return found


def _tensor(name: str, type: str, shape: tuple[int, ...]) -> Any:
    code = onnx.helper.np_dtype_to_tensor_dtype(_core.dtype_named(type))
    return onnx.TensorProto(name=name, data_type=code, dims=shape)


def _without_data(tensor: Any) -> Any:
    copy = onnx.TensorProto()
    copy.CopyFrom(tensor)
    copy.ClearField("external_data")
    copy.ClearField("data_location")
    return copy


def _with_data(model: OnnxModel, tensor: Any) -> Any:
    """Return a copy of an initializer with its data.

    An initializer of strings is no tensor of the model, and still contains its data.
    """
    copy = _without_data(tensor)
    if tensor.name in model:
        copy.raw_data = bytes(model[tensor.name]._bytes())
    return copy


def _value_info(tensor: Any) -> Any:
    return onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)


def _convert(proto: Any, model: OnnxModel, version: int) -> None:
    """Convert a model to a higher opset with onnx's version converter.

    Large initializers are inputs of the graph during the conversion, so that the converter
    does not copy their data.
    """
    graph = proto.graph
    need = f"a model that onnx.version_converter raises to opset {version}"
    if proto.functions:
        raise fault(model.path, need, f"functions, and opset {model.opset}")
    stub = onnx.ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import)
    stub.graph.CopyFrom(graph)
    given = {one.name for one in graph.input}
    initializers = {one.name: one for one in model.proto.graph.initializer}
    for name, one in initializers.items():
        if name not in model or model[name].nbytes <= SMALL:
            stub.graph.initializer.append(_with_data(model, one))
        elif name not in given:
            stub.graph.input.append(_value_info(one))
    with _errors_of_onnx(model.path, need, before=f"opset {model.opset}: "):
        made = onnx.version_converter.convert_version(stub, version)
    outputs = [{o for node in g.node for o in node.output} for g in (graph, made.graph)]
    if not outputs[0] <= outputs[1]:
        got = f"opset {model.opset}, and other names for its values"
        raise fault(model.path, need, got)
    new = [one for one in made.graph.initializer if one.name not in initializers]
    graph.initializer.extend(new)
    del graph.node[:], proto.opset_import[:]
    graph.node.extend(made.graph.node)
    proto.opset_import.extend(made.opset_import)


# ---- files ----


class _ModelFile(File):
    """An output file for a model that stays in memory until all tensors are complete.

    `tensors` maps names to initializers of the model that jobs fill. `sizes` has the
    numbers of bytes of these initializers.
    """

    def __init__(
        self, path: str, proto: Any, tensors: Mapping[str, Any], sizes: Mapping[str, int]
    ) -> None:
        # At most 16 bytes for each tensor are for the lengths of fields.
        size = proto.ByteSize() + sum(sizes.values()) + 16 * len(sizes)
        if size > MAX_PROTOBUF:
            raise fault(path, "less than 2 GiB, or external data in IN", f"{size} bytes")
        super().__init__(path, dict.fromkeys(sizes, 0), size)
        self._proto, self._tensors = proto, tensors

    @contextmanager
    def writing(self, stream: BufferedWriter) -> Iterator[None]:
        """Allocate memory for the tensors. After the `with` block, write the model."""
        self._data = {name: bytearray() for name in self.places}
        yield
        while self._data:  # `popitem` lets the loop free the data of each tensor
            name, data = self._data.popitem()
            self._tensors[name].raw_data = bytes(data)
        stream.write(self._proto.SerializeToString())

    def write(self, name: str, data: memoryview) -> None:
        """Append bytes to the data of a tensor."""
        self._data[name] += data


def onnx_files(path: str, model: Model, jobs: Sequence[Job]) -> list[File]:
    """Return the output files: the model, and before it a file of external data.

    The file of external data has the suffix ``.data``. It exists only if the input has
    external data. The function raises Refused if onnx cannot convert the model to the
    necessary opset, if onnx.checker rejects the result, or if the result exceeds 2 GiB.
    """
    assert isinstance(model, OnnxModel)  # `perform` raises Refused for all other models
    edited = _Edited(model, path, jobs)
    places: dict[str, int] = {}
    sizes, end, location = {}, 0, f"{os.path.basename(path)}.data"
    for part in (part for job in jobs for part in job.parts):
        if len(model.paths) == 1 or part.nbytes <= SMALL:
            sizes[part.name] = part.nbytes
            continue
        places[part.name] = end = -(-end // ALIGNMENT) * ALIGNMENT
        tensor = edited.tensors[part.name]
        tensor.raw_data = b""  # set_external_data requires this field
        onnx.external_data_helper.set_external_data(tensor, location, end, part.nbytes)
        tensor.ClearField("raw_data")
        end += part.nbytes
    files: list[File] = [File(f"{path}.data", places, end)] if places else []
    return [*files, _ModelFile(path, edited.proto, edited.tensors, sizes)]
