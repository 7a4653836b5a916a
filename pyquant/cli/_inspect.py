# SPDX-License-Identifier: Apache-2.0
"""`pyquant inspect`: what is in a file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pyquant.cli._bands import as_json, counted, decoded, extents, has_numbers, wide
from pyquant.cli._errors import shown
from pyquant.cli._logical import logical
from pyquant.cli._models import open_model
from pyquant.cli._select import add_patterns, chosen
from pyquant.cli._show import print_table
from pyquant.report import measure_error

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from pyquant.cli._logical import Logical
    from pyquant.cli._models import Model


__all__ = ["add", "run", "statistics"]

DESCRIPTION = """\
Show the tensors of files: names, types, shapes, bytes, and how they are quantized. A
quantized tensor is one with its scales and zero points, under the name it had before."""

EXAMPLES = """\
examples:
  pyquant inspect model.safetensors
  pyquant inspect --stats --tensor 'layers.*.weight' model.safetensors
  pyquant inspect --json model.gguf
  pyquant inspect a.npy b.npz
"""

KEYS = 8  # of metadata that are shown
WIDTH = 60  # of one of its values
COLUMNS = ("name", "type", "shape", "scales", "bytes", "bits")
STATISTICS = ("min", "max", "mean", "rms", "max/rms", "zeros", "nan", "inf")


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.add_argument("files", nargs="+", metavar="FILE", help="what to look into")
    add_patterns(parser)
    parser.add_argument(
        "--stats",
        action="store_true",
        help="read the numbers: range, mean, outliers, zeros, NaN and infinities",
    )
    parser.add_argument(
        "--json", action="store_true", help="a line of JSON for each tensor and each file"
    )


def run(arguments: argparse.Namespace) -> int:
    """Show one file after the other."""
    for path in arguments.files:
        with open_model(path) as model:
            tensors = _asked(model, arguments.tensor)
            show = _print_json if arguments.json else _print_text
            show(model, tensors, arguments.stats)
    return 0


def _asked(model: Model, patterns: list[str]) -> dict[str, Logical]:
    """The tensors of a model that patterns name; all without any."""
    tensors: dict[str, Logical] = logical(model)
    if not patterns:
        return tensors
    rules = [(pattern, None) for pattern in patterns]
    return {name: tensors[name] for name in chosen(rules, tensors)}


# ---- what there is to say ----


def statistics(tensor: Logical) -> dict[str, Any] | None:
    """
    Look at all numbers of a tensor, some rows at a time.

    Parameters
    ----------
    tensor : Logical
        The tensor.

    Returns
    -------
    dict or None
        ``min``, ``max``, ``mean`` and ``rms`` of what is finite, None where nothing is;
        ``max/rms``, the largest magnitude by the root mean square; the numbers of
        ``zeros``, ``nan`` and ``inf``. None for elements that are no real numbers.
    """
    if not has_numbers(tensor):
        return None
    low, high, zeros, report = math.inf, -math.inf, 0, None
    for band in decoded(tensor, wide({tensor.type})):
        # From 0 the error of a number is the number: one exact pass has all sums of it.
        more = measure_error(band, np.broadcast_to(band.dtype.type(0), band.shape))
        report = more if report is None else report + more
        zeros += band.size - int(np.count_nonzero(band))
        finite = band[np.isfinite(band)] if more.nan or more.inf else band
        if finite.size:
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
    if report is None or low > high:
        nan, inf = (report.nan, report.inf) if report else (0, 0)
        return dict.fromkeys(STATISTICS) | {"zeros": 0, "nan": nan, "inf": inf}
    rms = math.sqrt(report.mse)
    largest = report.max_error / rms if rms else 0.0
    values = (low, high, report.mean_error, rms, largest, zeros, report.nan, report.inf)
    return dict(zip(STATISTICS, values, strict=True))


def _summary(model: Model, tensors: dict[str, Logical]) -> dict[str, Any]:
    return {
        "file": str(model.path),
        "kind": model.kind,
        "tensors": len(tensors),
        "elements": sum(math.prod(one.shape) for one in tensors.values()),
        "bytes": sum(one.nbytes for one in tensors.values()),
    }


def _bits(nbytes: int, elements: int) -> float:
    return 8 * nbytes / elements if elements else 0.0


# ---- for programs ----


def _print_json(model: Model, tensors: dict[str, Logical], stats: bool) -> None:
    for name, one in tensors.items():
        said = {
            "file": str(model.path),
            "tensor": name,
            "type": one.type,
            "shape": one.shape,
            "granularity": one.granularity,
            "bytes": one.nbytes,
            "parts": list(one.parts),
        }
        print(as_json(said | ({"stats": statistics(one)} if stats else {})))
    metadata = dict(_metadata(model.metadata, None))
    print(as_json({"summary": _summary(model, tensors) | {"metadata": metadata}}))


# ---- for people ----


def _print_text(model: Model, tensors: dict[str, Logical], stats: bool) -> None:
    said = _summary(model, tensors)
    bits = _bits(said["bytes"], said["elements"])
    print(f"{shown(model.path)}: {model.kind}, {_counted(said, bits)}")
    for key, value in _metadata(model.metadata, KEYS):
        print(f"  {shown(key)} = {_short(shown(value))}")
    if len(model.metadata) > KEYS:
        print(f"  and {len(model.metadata) - KEYS} more of metadata")
    rows = [_row(name, one) for name, one in tensors.items()]
    print_table(COLUMNS, rows, right=("bytes", "bits"))
    if stats:
        rows = [_numbers(name, statistics(one)) for name, one in tensors.items()]
        print_table(("name", *STATISTICS), rows, right=STATISTICS)


def _counted(said: dict[str, Any], bits: float) -> str:
    tensors, elements = counted(said["tensors"], "tensor"), said["elements"]
    counts = f"{tensors}, {counted(elements, 'element')}"
    return f"{counts}, {said['bytes']} bytes, {bits:.2f} bits per element"


def _row(name: str, one: Logical) -> tuple[str, ...]:
    bits = _bits(one.nbytes, math.prod(one.shape))
    scales = one.granularity or "-"
    shape = extents(one.shape)
    return name, one.type, shape, scales, str(one.nbytes), f"{bits:.2f}"


def _numbers(name: str, said: dict[str, Any] | None) -> tuple[str, ...]:
    if said is None:
        return (name, *("-" for _ in STATISTICS))
    return (name, *(_number(one) for one in said.values()))


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _short(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."


def _metadata(found: Mapping[str, Any], most: int | None) -> Iterator[tuple[str, Any]]:
    """What a file says of itself; of long lists only what they are."""
    for key in list(found)[:most]:
        yield key, _plain(found[key])


def _plain(value: Any) -> Any:
    """A value as JSON has it; of arrays how many."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple, np.ndarray)):
        kind = value.dtype.name if isinstance(value, np.ndarray) else "strings"
        return f"[{len(value)} of {kind}]"
    return value if isinstance(value, (str, int, float, bool)) else str(value)
