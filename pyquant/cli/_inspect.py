# SPDX-License-Identifier: Apache-2.0
"""`pyquant inspect`: list and check the tensors of files."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from pyquant.cli._errors import shown
from pyquant.cli._logical import logical
from pyquant.cli._measure import STATISTICS, statistics
from pyquant.cli._models import open_model
from pyquant.cli._select import JSON, RAW, TENSOR, selected
from pyquant.cli._show import as_json, counted, print_json, print_table

if TYPE_CHECKING:
    import argparse

    from pyquant.cli._logical import Logical
    from pyquant.cli._models import Model


DESCRIPTION = """\
List the tensors of files: names, types, shapes, bytes and granularity. Codes,
scales and zero points of a quantized tensor are one line, under the name of the
original tensor."""

EXAMPLES = """\
examples:
  pyquant inspect model.safetensors
  pyquant inspect --stats --tensor 'layers.*.weight' model.safetensors
  pyquant inspect --check model-int8.safetensors
  pyquant inspect --json model.gguf
  pyquant inspect a.npy b.npz

exit status:
  0  done
  1  --check found a fault
  2  a file or an argument cannot be used"""

OPTIONS = (
    ("files", "FILE", "files or folders", {"nargs": "+"}),
    *(TENSOR, RAW),
    [
        ("--stats", None, "read all values: range, mean, outliers, NaN"),
        ("--check", None, "read all values; exit with 1 if one is faulty"),
    ],
    JSON,
)
KEYS = 8  # maximum number of entries of the metadata that are printed
WIDTH = 60  # maximum number of characters that are printed for an entry
COLUMNS = ("name", "type", "shape", "scales", "bytes", "bits")


def run(arguments: argparse.Namespace) -> int:
    """List or check the tensors of each file."""
    faults = 0
    for path in arguments.files:
        with open_model(path) as model:
            everything = logical(model, raw=arguments.raw)
            names = selected(arguments.tensor, everything)
            tensors = {name: everything[name] for name in names}
            if arguments.check:
                faults += _check(model, tensors, everything, arguments.json)
                continue
            show = _print_json if arguments.json else _print_text
            show(model, tensors, arguments.stats)
    return 1 if faults else 0


def _check(
    model: Model,
    tensors: dict[str, Logical],
    everything: dict[str, Logical],
    as_lines: bool,
) -> int:
    """Print the faults of a file, and return the number of faults."""
    from pyquant.cli._check import faults, file_faults

    path, count, quantized = shown(model.path), 0, 0
    for name, tensor in tensors.items():
        found = [*faults(tensor)]
        count += len(found)
        quantized += tensor.is_quantized
        if as_lines:
            print(as_json(_facts(model, name, tensor) | {"faults": found}))
        for fault in () if as_lines else found:
            print(f"{path}: tensor {shown(repr(name))}: {fault}")
    loose = [*file_faults(model, everything)]
    count += len(loose)
    if as_lines:
        summary = _summary(model, tensors) | {"quantized": quantized, "faults": loose}
        print(as_json({"summary": summary}))
        return count
    for fault in loose:
        print(f"{path}: {shown(fault)}")
    result = counted(count, "fault") if count else "no faults"
    result = f"{path}: {counted(quantized, 'quantized tensor')}, {result}"
    print(result if quantized or count else f"no quantized tensors in {path}")
    return count


# ---- facts ----


def _facts(model: Model, name: str, tensor: Logical) -> dict[str, Any]:
    return {
        "file": str(model.path),
        "tensor": name,
        "type": tensor.type,
        "shape": tensor.shape,
        "granularity": tensor.granularity,
        "bytes": tensor.nbytes,
        "parts": list(tensor.parts),
    }


def _summary(model: Model, tensors: dict[str, Logical]) -> dict[str, Any]:
    return {
        "file": str(model.path),
        "kind": model.kind,
        "tensors": len(tensors),
        "elements": sum(math.prod(one.shape) for one in tensors.values()),
        "bytes": sum(one.nbytes for one in tensors.values()),
    }


def _bits(nbytes: int, elements: int) -> str:
    return f"{8 * nbytes / elements if elements else 0:.2f}"


def _print_json(model: Model, tensors: dict[str, Logical], stats: bool) -> None:
    rows = (
        _facts(model, name, one) | ({"stats": statistics(one)} if stats else {})
        for name, one in tensors.items()
    )
    metadata = {key: _plain(value) for key, value in model.metadata.items()}
    print_json(rows, _summary(model, tensors) | {"metadata": metadata})


def _print_text(model: Model, tensors: dict[str, Logical], stats: bool) -> None:
    facts = _summary(model, tensors)
    count, elements = counted(facts["tensors"], "tensor"), facts["elements"]
    bits = f"{_bits(facts['bytes'], elements)} bits per element"
    size = f"{counted(elements, 'element')}, {facts['bytes']} bytes, {bits}"
    print(f"{shown(model.path)}: {model.kind}, {count}, {size}")
    for key in [*model.metadata][:KEYS]:
        text = shown(_plain(model.metadata[key]))
        text = text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."
        print(f"  {shown(key)} = {text}")
    if len(model.metadata) > KEYS:
        print(f"  and {len(model.metadata) - KEYS} more entries")
    rows = ((name, *_cells(one)) for name, one in tensors.items())
    print_table(COLUMNS, rows, right=("bytes", "bits"))
    if stats:
        found = ((name, statistics(one) or {}) for name, one in tensors.items())
        rows = ((name, *(_number(one.get(k)) for k in STATISTICS)) for name, one in found)
        print_table(("name", *STATISTICS), rows, right=STATISTICS)


def _cells(one: Logical) -> tuple[str, ...]:
    bits, shape = _bits(one.nbytes, one.size), " x ".join(map(str, one.shape)) or "one"
    return one.type, shape, one.granularity or "-", str(one.nbytes), bits


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _plain(value: Any) -> Any:
    """Convert a value of metadata for JSON. Replace a list by its length."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple, np.ndarray)):
        kind = value.dtype.name if isinstance(value, np.ndarray) else "strings"
        return f"[{len(value)} of {kind}]"
    return value if isinstance(value, (str, int, float, bool)) else str(value)
