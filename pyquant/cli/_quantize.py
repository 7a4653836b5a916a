# SPDX-License-Identifier: Apache-2.0
"""The command `pyquant quantize`."""

from __future__ import annotations

import json
import textwrap
from itertools import chain
from typing import TYPE_CHECKING, Any

from pyquant.cli._errors import Refused
from pyquant.cli._forms import BLOCKS, STORED, Granularity, known_type
from pyquant.cli._logical import KIND, check_values, loads, logical
from pyquant.cli._plan import NUMPY, Copied, InBlocks, Quantized, Spec, already, objection
from pyquant.cli._select import REPORT, STATUS, chosen
from pyquant.cli._work import FILES, output_kind, perform

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping

    from pyquant.cli._logical import Logical
    from pyquant.cli._models import Model
    from pyquant.cli._plan import Job
    from pyquant.cli._work import Metadata

MIN_SIZE = 1024
VECTOR = "fewer than 2 dimensions"  # the reason why a vector is not quantized
# Kind of file -> types of codes that the file can store.
TYPES: dict[str, Any] = {
    "gguf": BLOCKS,
    "safetensors": STORED,
    "onnx": STORED,
    "npz": [name for name, stored in STORED.items() if stored.format in NUMPY],
}


def _wrapped(names: Iterable[str]) -> str:
    return textwrap.fill(" ".join(names), 76, subsequent_indent="    ")


DESCRIPTION = """\
Quantize the weights of a model file (safetensors, GGUF, ONNX, npz): all tensors
of real numbers with two or more dimensions. All other tensors are copied. OUT
holds codes and scales with the names of compressed-tensors, nodes of ONNX, or
blocks of GGUF. OUT appears only when it is complete. IN may be larger than the
memory, except an ONNX model without external data.
"""
EXAMPLES = f"""\
types:
  integers, for .safetensors, .onnx and .npz:
    {_wrapped(TYPES["npz"])}
  floats, for .safetensors and .onnx:
    {_wrapped(name for name in STORED if name not in TYPES["npz"])}
  blocks, for .gguf:
    {_wrapped(BLOCKS)}

granularity G:
  tensor   one scale for all elements
  channel  one scale for each output of a layer (default): each index of axis 0;
           in ONNX, the axis depends on the operator; for a vector, one scale
  axis:K   one scale for each index of axis K
  group:N  one scale for N elements in sequence on the last axis; also block:N
  NxM      one scale for a block of N rows and M columns

examples:
  pyquant quantize model.safetensors model-int8.safetensors --type int8
  pyquant quantize model.safetensors model.gguf --type Q4_K \\
      --tensor 'lm_head*=Q6_K'
  pyquant quantize model.safetensors out.safetensors --type int4 \\
      --granularity group:32 --keep '*lm_head*' --dry-run
  pyquant quantize weights.npy weights.npz --type uint8 --granularity tensor
  pyquant quantize model.onnx model-int8.onnx --type int8
{STATUS}"""


def _rules(option: str) -> dict[str, Any]:
    """Return arguments of argparse that add the values of --tensor and --keep to one list,
    in the order of the command line."""
    how = {"action": "append", "dest": "rules", "default": []}
    return how | {"type": lambda text: (option, text)}


_BY_NAME = "type by glob or re:REGEX (default: --type for all)"
_SMALLER = f"copy tensors below N elements (default: {MIN_SIZE})"
_METHODS = {"choices": ("minmax", "mse"), "default": "minmax"}
OPTIONS = (
    ("--type", "TYPE", "a type of the list below (required)", {"required": True}),
    ("--granularity", "G", "elements that share a scale (default: channel)"),
    ("--asymmetric", None, "choose zero points (default: 0 for signed types)"),
    ("--method", "", "range or least squared error (default: minmax)", _METHODS),
    ("--tensor", "PATTERN=TYPE[@G]", _BY_NAME, _rules("--tensor")),
    ("--keep", "PATTERN", "copy these tensors (default: none)", _rules("--keep")),
    ("--min-size", "N", _SMALLER, {"type": int}),
    ("--strict", None, "fail if a type does not fit (default: copy)"),
    *(REPORT, *FILES),
)


def run(arguments: argparse.Namespace) -> int:
    """Quantize a file."""
    kind = output_kind(arguments, "npz")
    if kind == "npy":
        raise Refused(f"OUT: expected .npz, for codes and scales, got {arguments.output!r}")
    return perform(arguments, kind, _Plan(arguments, kind))


class _Plan:
    """Plan a job for each tensor of a model from the options of the command line."""

    def __init__(self, options: argparse.Namespace, kind: str) -> None:
        self._options, self._kind = options, kind
        self._default = self._spec(options.type, options.granularity, "--type")
        # A rule has an option, a pattern, and a specification. With `None` in place of the
        # specification, the tensor is copied.
        self._rules = [self._rule(*one) for one in options.rules]

    def __call__(self, model: Model) -> tuple[list[Job], Metadata]:
        """Return the jobs, and a function that returns the metadata of a file."""
        tensors = logical(model, raw=self._options.raw)
        # Name of a tensor -> pattern and specification of the last rule that matches it.
        special: dict[str, tuple[str, Spec | None]] = {}
        for option, pattern, spec in self._rules:
            special |= chosen([(pattern, (pattern, spec))], list(tensors), option)
        default = (None, self._default)
        jobs = [
            self._job(model, one, *special.get(name, default))
            for name, one in tensors.items()
        ]
        _check_effects(special, jobs)
        reasons = [job.reason or _repetition(job) for job in jobs]
        if all(reasons):
            why = "; ".join(dict.fromkeys(map(str, (*reasons, *model.absences))))
            why = why or "no tensors"
            raise Refused(f"no tensor to quantize in {model.path}: {why}")
        return jobs, _metadata_of(model, jobs, self._kind)

    def _spec(self, text: str, granularity: str | None, what: str) -> Spec:
        """Return the specification for the type in an option, or raise Refused."""
        options, kind, type = self._options, self._kind, known_type(text, what)
        if type not in TYPES[kind]:
            known = ", ".join(TYPES[kind])
            raise Refused(f"{what}: .{kind} files cannot hold {type}; use one of {known}")
        if type in BLOCKS and granularity is not None:
            raise Refused(f"--granularity: {type} has its own blocks; omit the option")
        if type in BLOCKS and options.method != "minmax":
            raise Refused(f"--method: {type} has its own search; omit the option")
        if options.asymmetric and "int" not in type:
            raise Refused(f"--asymmetric: expected an integer type, got {type}")
        symmetric = False if options.asymmetric else None
        block = BLOCKS.get(type)
        usual = "channel" if block is None else f"block:{block.block_size}"
        shared = Granularity(granularity or usual)
        return Spec(type, shared, symmetric, options.method, kind)

    def _rule(self, option: str, text: str) -> tuple[str, str, Spec | None]:
        if option == "--keep":
            return option, text, None
        pattern, equals, wanted = text.rpartition("=")
        if not equals or not pattern:
            raise Refused(f"--tensor: expected PATTERN=TYPE[@G], got {text!r}")
        type, at, granularity = wanted.partition("@")
        blocks = known_type(type, "--tensor") in BLOCKS
        given = granularity if at else (None if blocks else self._options.granularity)
        return option, pattern, self._spec(type, given, "--tensor")

    def _job(
        self, model: Model, tensor: Logical, pattern: str | None, spec: Spec | None
    ) -> Job:
        options, reason = self._options, "--keep"
        if spec is not None:
            check_values(model, tensor)
            axis = model.channels(tensor.name)
            spec = spec.for_axis(axis if tensor.ndim > 1 else None)
            small = self._too_small(model, tensor, pattern)
            objections = small or objection(tensor, spec)
            if objections is None and self._kind == "onnx":
                from pyquant.cli import _onnx

                how = (spec.type, spec.granularity)
                objections = _onnx.objection(model, tensor.name, *how)
            strict = pattern is not None or tensor.is_real
            if objections and not small and options.strict and strict:
                raise Refused(f"tensor {tensor.name[:100]!r}: {objections}")
            if objections is None:
                # Only the summary shows the error. The command prints no summary with
                # --quiet, and if the output is stdout.
                quiet = options.quiet or options.output == "-"
                measure = options.json or not quiet
                memory, threads = options.max_memory, options.threads
                job = InBlocks if spec.type in BLOCKS else Quantized
                return job(tensor, spec, memory, threads, measure=measure)
            reason = objections
        return Copied(tensor, model, self._kind, reason)

    def _too_small(self, model: Model, tensor: Logical, pattern: str | None) -> str | None:
        """Return the reason why a tensor is too small to be quantized, or `None`.

        Codes of a small tensor save little memory, but may change results much. `pattern`
        is the pattern that selected the tensor, or `None`. If the pattern is the complete
        name of the tensor, the size does not matter.
        """
        if pattern == tensor.name:
            return None
        if pattern is None and not tensor.is_real:
            return f"expected real numbers, got {tensor.type}"
        least = self._options.min_size
        if least is None and model.kind in ("npy", "npz"):
            return None
        if tensor.ndim < 2:
            return VECTOR
        least = MIN_SIZE if least is None else least
        small = pattern is None and tensor.size < least
        return f"fewer than {least} elements" if small else None


def _check_effects(special: Mapping[str, tuple[str, Spec | None]], jobs: list[Job]) -> None:
    """Raise Refused for a pattern without effect, because it selects only vectors."""
    reasons: dict[str, set[str | None]] = {}
    for job in jobs:
        pattern, spec = special.get(job.source.name, ("", None))
        if spec is not None:
            reasons.setdefault(pattern, set()).add(job.reason)
    for pattern, found in reasons.items():
        if found == {VECTOR}:
            expected = f"a matrix that matches {pattern!r}, got vectors only"
            use = "select a vector by its complete name"
            raise Refused(f"--tensor: expected {expected}; {use}")


def _repetition(job: Job) -> str | None:
    """Return a reason if the tensor already has the type and granularity, else `None`."""
    source = job.source
    wanted = job.to, job.granularity
    repeats = source.is_quantized and wanted == (source.type, source.granularity)
    return already(source) if repeats else None


# ---- metadata ----


def _metadata_of(model: Model, jobs: list[Job], kind: str) -> Metadata:
    made = {job.source.name: job for job in jobs if isinstance(job, Quantized)}

    def metadata(names: set[str] | None) -> dict[str, Any]:
        found = {**model.metadata}
        if kind == "gguf":
            # general.file_type states the type of most tensors of the input, and may be
            # wrong for the output.
            found.pop("general.file_type", None)
            found["general.quantization_version"] = 2
            return found
        if model.kind == "gguf":
            found = {}
        found |= _records(model, made, names)
        config = _config(made, jobs)
        if config is not None:
            found["quantization_config"] = json.dumps(config, separators=(",", ":"))
        return found

    return metadata


def _records(
    model: Model, made: Mapping[str, Quantized], names: set[str] | None
) -> dict[str, str]:
    """Return the metadata with the records of the input and of each quantized tensor."""
    text = model.metadata.get("pyquant")
    records = loads(text) if isinstance(text, str) else {}  # `logical` has checked the text
    made = {
        n: job for n, job in made.items() if names is None or job.parts[0].name in names
    }
    rows = {name: row for name, row in records.items() if name not in made}.items()
    text = ",".join(map(_member, chain(rows, _rows(made))))
    return {"pyquant": f"{{{text}}}"}


def _rows(made: Mapping[str, Quantized]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the record of each quantized tensor.

    If codes are in words, also yield a record with which `WeightFile.read` returns them.
    """
    for name, job in made.items():
        yield name, {KIND: job.record}
        stored = STORED[job.to]
        if stored.how == "words":
            shape, bits = list(job.source.shape), stored.bits
            row = [f"uint{bits}", shape, "words", len(shape) - 1, bits]
            yield job.parts[0].name, {"packed": row}


def _member(row: tuple[str, dict[str, Any]]) -> str:
    """Return a name and a value as the text of a member of a JSON object."""
    name, value = (json.dumps(one, separators=(",", ":")) for one in row)
    return f"{name}:{value}"


# Type of codes -> "type" and "format" in the configuration of compressed-tensors.
_TYPES = {
    "int8": ("int", "int-quantized"),
    "float8_e4m3fn": ("float", "float-quantized"),
    "int4": ("int", "pack-quantized"),
    "uint4": ("int", "pack-quantized"),
}


def _config(made: Mapping[str, Quantized], jobs: list[Job]) -> dict[str, Any] | None:
    """Return the `quantization_config` for compressed-tensors, or `None` if no tensor has a
    scheme of this package."""
    groups: dict[str, dict[str, Any]] = {}  # JSON text without targets -> group
    for name, job in made.items():
        weights = _scheme(job)
        if weights is not None and name.endswith(".weight"):
            row: dict[str, Any] = {"targets": [], "weights": weights}
            row |= {"input_activations": None, "output_activations": None}
            row["format"] = _TYPES[job.to][1]
            targets = groups.setdefault(json.dumps(row), row)["targets"]
            targets.append(name.removesuffix(".weight"))
    if not groups:
        return None
    formats = {row["format"] for row in groups.values()}
    return {
        "quant_method": "compressed-tensors",
        "quantization_status": "compressed",
        "format": formats.pop() if len(formats) == 1 else "mixed-precision",
        "config_groups": {f"group_{n}": row for n, row in enumerate(groups.values())},
        "ignore": [],
    }


def _scheme(job: Quantized) -> dict[str, Any] | None:
    """Return the scheme of compressed-tensors for a job, or `None` without a scheme."""
    spec = job.spec
    if spec.type not in _TYPES or job.source.ndim != 2:
        return None
    text = spec.granularity.text
    strategy: dict[str, Any] | None = {"tensor": {"strategy": "tensor"}}.get(text)
    if text in ("axis:0", "axis:-2"):
        strategy = {"strategy": "channel"}
    elif text.startswith("block:"):
        strategy = {"strategy": "group", "group_size": int(text[6:])}
    elif text[0].isdigit() and spec.stored.how == "plain":
        sizes = [int(n) for n in text.split("x")]
        strategy = {"strategy": "block", "block_structure": sizes}
    if strategy is None:
        return None
    kind, _ = _TYPES[spec.type]
    symmetric = not spec.has_zero_points
    return {"num_bits": spec.stored.bits, "type": kind, "symmetric": symmetric, **strategy}
