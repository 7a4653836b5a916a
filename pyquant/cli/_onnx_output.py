# SPDX-License-Identifier: Apache-2.0
"""ONNX models that are written: codes and DequantizeLinear in the place of initializers,
and back.

DequantizeLinear gets the name that the initializer had, so that whatever uses it, nodes of
subgraphs and outputs of the graph among them, stays as it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyquant import _core, dtypes
from pyquant.cli._errors import Refused
from pyquant.cli._onnx_file import (
    MAX_PROTOBUF,
    OPERATOR,
    OnnxModel,
    fault,
    format_name,
    one_line,
    opset_of,
    require,
)
from pyquant.cli._output import File

if TYPE_CHECKING:
    from pyquant.cli._forms import Granularity
    from pyquant.cli._models import Model
    from pyquant.cli._output import Part
    from pyquant.cli._plan import Job

__all__ = ["Change", "change_for", "objection", "onnx_files"]

ALIGNMENT = 4096  # of external data, so that runtimes can map it
SMALL = 1024  # bytes: larger initializers are no arguments that decide what a node does
# Operators of ONNX, and of ONNX Runtime, whose weights are codes already.
ON_CODES = {
    *("QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul", "MatMulNBits"),
    *("MatMulBnb4", "GatherBlockQuantized", "QMoE", "QGemm", "QAttention"),
    "DynamicQuantizeLSTM",
}
# Fields of the protocol that are written by hand, so that data need not be in memory:
# a graph of a model, an initializer of a graph, the raw data of a tensor.
GRAPH, INITIALIZER, RAW_DATA = (bytes([number << 3 | 2]) for number in (7, 5, 9))


# ---- what DequantizeLinear can do ----


class Change(NamedTuple):
    """How an initializer is to be quantized, as DequantizeLinear can undo it."""

    type: str
    axis: int | None = None
    block_size: int | None = None

    def shape_of_scales(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """For a tensor of that shape."""
        if self.axis is None:
            return ()
        if self.block_size is None:
            return (shape[self.axis],)
        blocks = -(-shape[self.axis] // self.block_size)
        return (*shape[: self.axis], blocks, *shape[self.axis + 1 :])


def change_for(type: str, granularity: Granularity, ndim: int) -> Change | None:
    """
    Say what DequantizeLinear has for a granularity.

    Parameters
    ----------
    type : str
        Of the codes.
    granularity : Granularity
        What shares a scale.
    ndim : int
        The number of dimensions of the tensor.

    Returns
    -------
    Change or None
        None for blocks along two axes, which it has not.
    """
    call = granularity.call(ndim)
    sizes = call.get("block_size")
    if not isinstance(sizes, tuple):
        return Change(type, call.get("axis"), sizes)
    along = [axis for axis, size in enumerate(sizes) if size > 1] or [ndim - 1]
    return Change(type, along[0], sizes[along[0]]) if len(along) == 1 else None


def objection(model: Model, name: str, type: str, granularity: Granularity) -> str | None:
    """
    Say why an initializer cannot take a form; nothing of it is read.

    Parameters
    ----------
    model : Model
        Of ONNX, whose initializer it is.
    name : str
        Its name.
    type : str
        Of the codes.
    granularity : Granularity
        What shares a scale.

    Returns
    -------
    str or None
        What was expected, and what came.
    """
    assert isinstance(model, OnnxModel)
    if name not in model.protos:
        return f"expected an initializer, got what {OPERATOR} makes"
    proto = model.protos[name]
    if format_name(proto.data_type) not in ("FLOAT", "FLOAT16", "BFLOAT16"):
        expected = "expected float32, float16 or bfloat16"
        return f"{expected}, got {format_name(proto.data_type)}"
    if any(one.name == name for one in model.proto.graph.input):
        return "expected an initializer alone, got an input of the graph, too"
    if name in _parameters(model):
        return "expected a weight, got what goes with codes"
    change = change_for(type, granularity, len(proto.dims))
    if change is None:
        return f"expected blocks along one axis for {OPERATOR}, got {granularity.text}"
    if _since(model, name, change) is None:
        return f"expected a type that {OPERATOR} has, got {type}"
    return None


def _parameters(model: OnnxModel) -> set[str]:
    """What operators on codes take beside their first input: codes, scales, offsets."""
    if model.parameters is None:
        graph = model.proto.graph
        nodes = (n for one in (graph, *_graphs(graph.node)) for n in one.node)
        model.parameters = {
            name for node in nodes if node.op_type in ON_CODES for name in node.input[1:]
        }
    return model.parameters


def _since(model: OnnxModel, name: str, change: Change) -> int | None:
    """The first version of the operators, from the model's on, that can do it."""
    onnx = require()
    try:
        code = onnx.helper.np_dtype_to_tensor_dtype(_core.dtype_named(change.type))
    except (ValueError, KeyError, TypeError):
        return None
    wanted = {"axis"} if change.axis is not None else set()
    wanted |= {"block_size"} if change.block_size else set()
    code_type, real_type = (
        f"tensor({format_name(t).lower()})" for t in (code, model.protos[name].data_type)
    )
    for version in range(max(model.opset, 10), onnx.defs.onnx_opset_version() + 1):
        schema = onnx.defs.get_schema(OPERATOR, version)
        codes, scales = (set(schema.inputs[n].types) for n in (0, 1))
        fits = code_type in codes and real_type in scales
        if fits and wanted <= schema.attributes.keys():
            return version
    return None


# ---- the graph ----


class _Edited:
    """
    A model as it will be, without the data of its initializers.

    Attributes
    ----------
    proto : onnx.ModelProto
        All but the initializers of its graph that are written as parts.
    tensors : dict of str to onnx.TensorProto
        What is said of each part, by its name; the name in the graph may be another.
    """

    def __init__(self, model: OnnxModel, path: str, jobs: Sequence[Job]) -> None:
        self.model, self.path = model, path
        self.proto: Any = require().ModelProto()
        self.proto.CopyFrom(model.proto)
        self.tensors: dict[str, Any] = {}
        made = [job for job in jobs if job.spec is not None]
        undone = {job.source.name for job in jobs if job.changed is not None}
        changes = {job.source.name: _change_of(job) for job in made}
        self._inline()
        self._raise_opset(changes)
        self._remove_nodes(undone)
        self._taken = set(_names(self.proto.graph)) - undone
        nodes = [self._link(job, changes[job.source.name]) for job in made]
        for job in jobs:
            if job.changed is not None:
                self._undo(job.parts[0])
            elif job.spec is None:
                self.tensors |= {part.name: _said(model, part.name) for part in job.parts}
        kept = list(self.proto.graph.node)
        del self.proto.graph.node[:]
        self.proto.graph.node.extend([*nodes, *kept])
        self._keep_initializers({*changes}, undone)
        self._check()

    def _inline(self) -> None:
        """Data outside of the model that is of no initializer of the graph."""
        ours = {one.name for one in self.proto.graph.initializer}
        for tensor in _tensors_of(self.proto):
            if tensor.data_location == tensor.EXTERNAL and tensor.name not in ours:
                file, start, nbytes = self.model.external(tensor)
                _give(tensor, bytes(file.opened()[start : start + nbytes]))

    def _raise_opset(self, changes: Mapping[str, Change]) -> None:
        """To what the changes need."""
        model, onnx = self.model, require()
        needs = [_since(model, name, change) or 0 for name, change in changes.items()]
        wanted = max([*needs, model.opset])
        if wanted > model.opset:
            _convert(self.proto, model, wanted)
        if changes:
            opsets = [onnx.helper.make_opsetid("", wanted)]
            least = onnx.helper.find_min_ir_version_for(opsets, ignore_unknown=True)
            self.proto.ir_version = max(self.proto.ir_version, least)

    def _remove_nodes(self, made: set[str]) -> None:
        """Those whose results become initializers."""
        graph = self.proto.graph
        kept = [node for node in graph.node if not made & {*node.output}]
        del graph.node[:]
        graph.node.extend(kept)

    def _link(self, job: Job, change: Change) -> Any:
        """The node that has the name of the initializer; what it takes are parts."""
        name, shape = job.source.name, job.source.shape
        forms = [shape, *[change.shape_of_scales(shape)] * 2]
        roles, named = ("quantized", "scale", "zero_point"), []
        for role, part, form in zip(roles, job.parts, forms, strict=False):
            named.append(self._free(f"{name}_{role}"))
            self.tensors[part.name] = _tensor(named[-1], part.type, form)
        said = {} if change.axis is None else {"axis": change.axis}
        if change.block_size:
            said["block_size"] = change.block_size
        node = self._free(f"{name}_{OPERATOR}")
        return require().helper.make_node(OPERATOR, named, [name], node, **said)

    def _undo(self, part: Part) -> None:
        """Numbers in the place of a node."""
        linear = self.model.parts.get(part.name)
        if linear is None:
            raise fault(self.path, f"what {OPERATOR} makes", part.type, part.name)
        real = dtypes.name_of(_known(self.model[linear.names["scale"]].dtype))
        if part.type != real:
            raise fault(self.path, f"{real}, as the graph has it", part.type, part.name)
        self.tensors[part.name] = _tensor(part.name, part.type, part.shape)

    def _free(self, name: str) -> str:
        """The name, or the first like it that nothing has."""
        made, number = name, 1
        while made in self._taken:
            made, number = f"{name}_{number}", number + 1
        self._taken.add(made)
        return made

    def _keep_initializers(self, changed: set[str], undone: set[str]) -> None:
        """Those that are no parts: texts, and what another node takes, too."""
        graph, model = self.proto.graph, self.model
        codes = {name for one in undone for name in model.parts[one].names.values()}
        gone = (
            {one.name for one in self.tensors.values()} | changed | codes - {*_used(graph)}
        )
        kept = [one for one in graph.initializer if one.name not in gone]
        for one in kept:
            if one.name in model:
                _give(one, _raw(model, one.name))
        del graph.initializer[:]
        graph.initializer.extend(kept)

    def _check(self) -> None:
        """Whether onnx accepts it; what will be parts are inputs here."""
        onnx = require()
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        known = {one.name for one in proto.graph.input}
        for one in self.tensors.values():
            if one.name not in known:
                proto.graph.input.append(_value_info(one))
        try:
            onnx.checker.check_model(proto)
        except Exception as error:  # of several kinds
            expected = "a model that onnx.checker accepts"
            raise fault(self.model.path, expected, one_line(error)) from None


def _change_of(job: Job) -> Change:
    spec = job.spec
    change = spec and change_for(spec.type, spec.granularity, job.source.ndim)
    if change is None:  # which `objection` says before
        raise Refused(f"tensor {job.source.name[:100]!r}: expected blocks along one axis")
    return change


def _known(dtype: Any) -> Any:
    assert dtype is not None  # of scales, as `OnnxModel` has found them
    return dtype


def _tensor(name: str, type: str, shape: tuple[int, ...]) -> Any:
    onnx = require()
    code = onnx.helper.np_dtype_to_tensor_dtype(_core.dtype_named(type))
    return onnx.TensorProto(name=name, data_type=code, dims=shape)


def _said(model: OnnxModel, name: str) -> Any:
    """What the model says of an initializer, but for its data."""
    copy = require().TensorProto()
    copy.CopyFrom(model.protos[name])
    copy.ClearField("external_data")
    copy.ClearField("data_location")
    return copy


def _give(tensor: Any, data: bytes) -> None:
    tensor.raw_data = data
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")


def _raw(model: OnnxModel, name: str) -> bytes:
    return bytes(model.weights[name].raw)


def _value_info(tensor: Any) -> Any:
    helper = require().helper
    return helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)


def _graphs(nodes: Iterable[Any]) -> Iterator[Any]:
    """The subgraphs of nodes, and theirs."""
    for node in nodes:
        for attribute in node.attribute:
            own = [attribute.g] if attribute.HasField("g") else []
            for graph in (*own, *attribute.graphs):
                yield graph
                yield from _graphs(graph.node)


def _used(graph: Any) -> Iterator[str]:
    """What nodes take, those of subgraphs too, and what graphs give."""
    for one in (graph, *_graphs(graph.node)):
        for node in one.node:
            yield from node.input
        yield from (output.name for output in one.output)


def _names(graph: Any) -> Iterator[str]:
    """Every name of a graph and its subgraphs, of values and of nodes."""
    for one in (graph, *_graphs(graph.node)):
        for node in one.node:
            yield from (node.name, *node.input, *node.output)
        for values in (one.input, one.output, one.value_info, one.initializer):
            yield from (value.name for value in values)
        yield from (sparse.values.name for sparse in one.sparse_initializer)


def _tensors_of(proto: Any) -> Iterator[Any]:
    """Every tensor of a model: of graphs, of attributes, of functions."""
    bodies = [proto.graph, *_graphs(proto.graph.node)]
    for function in proto.functions:
        bodies += [function, *_graphs(function.node)]
    for body in bodies:
        yield from getattr(body, "initializer", ())
        for sparse in getattr(body, "sparse_initializer", ()):
            yield from (sparse.values, sparse.indices)
        for node in body.node:
            for attribute in node.attribute:
                yield from ([attribute.t] if attribute.HasField("t") else [])
                yield from attribute.tensors


def _convert(proto: Any, model: OnnxModel, version: int) -> None:
    """Raise the version of the operators, by what onnx has for that. It sees large
    initializers as inputs."""
    import onnx.version_converter

    graph, have = proto.graph, opset_of(proto).version
    expected = f"a model that onnx.version_converter raises to opset {version}"
    if proto.functions:
        raise fault(model.path, expected, f"functions, and opset {have}")
    stub = onnx.ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import)
    stub.graph.CopyFrom(graph)
    del stub.graph.initializer[:]
    given = {one.name for one in graph.input}
    for one in graph.initializer:
        if one.name not in model or model[one.name].nbytes <= SMALL:
            small = stub.graph.initializer.add()
            small.CopyFrom(one)
            if one.name in model:
                _give(small, _raw(model, one.name))
        elif one.name not in given:
            stub.graph.input.append(_value_info(one))
    try:
        made = onnx.version_converter.convert_version(stub, version)
    except Exception as error:  # of several kinds, from C++
        raise fault(model.path, expected, f"opset {have}: {one_line(error)}") from None
    outputs = [{o for node in g.node for o in node.output} for g in (graph, made.graph)]
    if not outputs[0] <= outputs[1]:
        raise fault(model.path, expected, f"opset {have}, and other names for its values")
    known = {one.name for one in graph.initializer}
    graph.initializer.extend(o for o in made.graph.initializer if o.name not in known)
    del graph.node[:], proto.opset_import[:]
    graph.node.extend(made.graph.node)
    proto.opset_import.extend(made.opset_import)


# ---- files ----


def onnx_files(path: str, model: Model, jobs: Sequence[Job]) -> list[File]:
    """
    Lay out a model, and a file of external data if the one that is read has such.

    Parameters
    ----------
    path : str
        The model. External data goes to a file of that name and ``.data``.
    model : Model
        What is read: a model of ONNX, too.
    jobs : sequence of Job
        What becomes of each initializer.

    Returns
    -------
    list of File
        The model is the last.

    Raises
    ------
    Refused
        If what is read is none; if onnx cannot raise the version of its operators to what
        the changes need, or onnx.checker does not accept the result; or if it is larger
        than protobuf can write.
    """
    if not isinstance(model, OnnxModel):
        raise Refused(f"OUT: expected a kind of file that {model.kind} becomes, got onnx")
    edited = _Edited(model, path, jobs)
    parts = [part for job in jobs for part in job.parts]
    outside = [p for p in parts if p.nbytes > SMALL] if len(model.paths) > 1 else []
    files, places, end = [], {}, 0
    for part in outside:
        places[part.name] = end = -(-end // ALIGNMENT) * ALIGNMENT
        end += part.nbytes
        proto, said = (
            edited.tensors[part.name],
            {"location": f"{os.path.basename(path)}.data"},
        )
        proto.data_location = proto.EXTERNAL
        said |= {"offset": str(places[part.name]), "length": str(part.nbytes)}
        for key, value in said.items():
            proto.external_data.add(key=key, value=value)
    if outside:
        files.append(File(f"{path}.data", [], places, end))
    return [*files, _model_file(path, edited, parts, {*places})]


def _model_file(path: str, edited: _Edited, parts: list[Part], outside: set[str]) -> File:
    """The bytes of a model, with room for those of its parts."""
    graph = edited.proto.graph.SerializeToString()
    pieces, places, at = [(0, graph)], {}, len(graph)
    for part in parts:
        said = edited.tensors[part.name].SerializeToString()
        nbytes = 0 if part.name in outside else part.nbytes
        before = b"" if part.name in outside else RAW_DATA + _varint(nbytes)
        length = _varint(len(said) + len(before) + nbytes)
        head = INITIALIZER + length + said + before
        pieces.append((at, head))
        at += len(head)
        if part.name not in outside:
            places[part.name] = at
        at += nbytes
    edited.proto.ClearField("graph")
    head = edited.proto.SerializeToString() + GRAPH + _varint(at)
    size = len(head) + at
    if size > MAX_PROTOBUF:
        raise fault(path, "less than 2 GiB, or external data in IN", f"{size} bytes")
    pieces = [(0, head), *((len(head) + place, data) for place, data in pieces)]
    return File(path, pieces, {n: len(head) + place for n, place in places.items()}, size)


def _varint(number: int) -> bytes:
    """As protobuf writes lengths."""
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
