# SPDX-License-Identifier: Apache-2.0
"""Common parts of the commands that write a file: options, files, jobs and the summary."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from glob import escape
from math import isnan
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pyquant.cli._errors import Refused, fault, shown
from pyquant.cli._logical import logical
from pyquant.cli._models import EXTENSIONS, kind_of, open_model
from pyquant.cli._plan import OutOfRange
from pyquant.cli._select import FORCE, JSON, RAW
from pyquant.cli._show import Progress, print_json, print_table, sized
from pyquant.cli._write import LAYOUTS, File, Output, check_paths, sharded_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyquant.cli._models import Model
    from pyquant.cli._plan import Job
    from pyquant.cli._report import Report

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def memory_of(text: str) -> int:
    """Convert a text, for example "256M", to a number of bytes."""
    found = re.fullmatch(r"(\d{1,12})([KMG]?)(?:i?B)?", text, re.IGNORECASE)
    if found is None or int(found[1]) == 0:
        raise argparse.ArgumentTypeError(f"expected a size such as 256M, got {text!r}")
    return int(found[1]) * _UNITS[found[2].upper()]


def _positive(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,3}", text):
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return int(text)


_KINDS = {"choices": sorted(set(EXTENSIONS.values()))}
_FROM, _TO = {"dest": "kind_in", **_KINDS}, {"dest": "kind_out", **_KINDS}
_COUNT = {"type": _positive, "default": 1}
_SIZE = {"type": memory_of, "default": memory_of("256M")}
# The options of the commands that write a file.
FILES = (
    ("input", "IN", "a file, a folder, or - for stdin"),
    ("output", "OUT", "a file, a folder, or - for stdout"),
    RAW,
    ("--from", "", "file type of IN (default: by its extension)", _FROM),
    ("--to", "", "file type of OUT (default: by its extension)", _TO),
    ("--max-memory", "SIZE", "memory for buffers (default: 256M)", _SIZE),
    ("--threads", "N", "threads that share the work (default: 1)", _COUNT),
    ("--dry-run", None, "print the plan, write nothing"),
    FORCE,
    ("-q --quiet", None, "print no summary"),
    JSON,
)


def output_kind(arguments: argparse.Namespace, default: str) -> str:
    """Return the kind of the output file. For stdout, the kind is `default`."""
    path, kind = arguments.output, arguments.kind_out
    if path == "-":
        kind = kind or default
        if kind not in ("npy", "npz"):
            raise Refused(f"OUT: expected --to npy or npz for stdout, got {kind}")
    elif kind is None and _is_folder(path):
        return "safetensors"
    return str(kind or kind_of(path, "OUT"))


def _is_folder(path: str) -> bool:
    return path.endswith(("/", os.sep)) or os.path.isdir(path)


@contextmanager
def _where(path: str) -> Iterator[None]:
    """Insert `path` in the message of an error about a tensor."""
    try:
        yield
    except Refused as error:
        if str(error).startswith("tensor "):
            raise Refused(f"{path}: {error}", error.code) from None
        raise


# A function that returns the metadata of an output file. The argument has the names of the
# tensors in the file, or is `None` if one file has all tensors.
Metadata = Callable[[set[str] | None], Mapping[str, Any]]


def perform(
    arguments: argparse.Namespace,
    kind: str,
    plan: Callable[[Model], tuple[Sequence[Job], Metadata]],
) -> int:
    """Write an output file of a kind, print a summary, and return the exit status.

    `plan` returns a job for each tensor, and a function that returns metadata of files.
    """
    to_stdout = arguments.output == "-"
    if to_stdout:
        _check_stdout(arguments)
    with ExitStack() as stack:
        model = stack.enter_context(open_model(arguments.input, arguments.kind_in))
        stack.enter_context(_where(model.path))
        if kind == "onnx" and model.kind != "onnx":
            expected = "another kind of file, as IN is no model of ONNX"
            raise Refused(f"OUT: expected {expected}, got .onnx")
        jobs, metadata = plan(model)
        _check_names(jobs)
        path = arguments.output
        if to_stdout:  # write a file first, because the bytes are not written in order
            folder = stack.enter_context(TemporaryDirectory(prefix="pyquant-"))
            path = os.path.join(folder, f"out.{kind}")
        try:
            files = _files(arguments, path, model, jobs, kind, metadata)
        except (TypeError, ValueError) as error:  # the header of a file cannot be written
            raise Refused(f"{model.path}: {error}") from None
        path = files[-1].path
        check_paths(files, model.paths, arguments.force or arguments.dry_run)
        report = None
        if getattr(arguments, "report", None) is not None:
            from pyquant.cli._report import Report

            others, title = (*model.paths, *(f.path for f in files)), os.path.basename(path)
            report = Report(title, arguments.report, others, arguments.force)
        if not arguments.dry_run:
            _write(arguments, jobs, files)
            if report is not None:
                _fill(report, arguments, model, path)
        if not to_stdout:
            _tell(arguments, jobs, path)
            return 0
        with open(path, "rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    return 0


def _check_stdout(arguments: argparse.Namespace) -> None:
    only_files = ("dry_run", "json", "report")
    if any(getattr(arguments, name, None) for name in only_files):
        options = "--dry-run, --json and --report"
        raise Refused(f"OUT: expected a file for {options}, got '-'")
    if sys.stdout is None:
        raise Refused("OUT: expected a file, or stdout, got '-', which is closed")


def _check_names(jobs: Sequence[Job]) -> None:
    seen: set[str] = set()
    for job in jobs:
        for part in job.parts:
            if part.name in seen:
                expected, got = "names that no other tensor has", repr(part.name[:100])
                raise fault(None, expected, got, job.source.name)
            seen.add(part.name)


def _files(
    arguments: argparse.Namespace,
    path: str,
    model: Model,
    jobs: Sequence[Job],
    kind: str,
    metadata: Metadata,
) -> list[File]:
    parts = [part for job in jobs for part in job.parts]
    if _is_folder(path):
        path = os.path.join(path, os.path.basename(model.paths[0]))
    sharded = path.lower().endswith(".json")
    if sharded != bool(model.shards) and arguments.output != "-":
        expected = "a folder or a name that ends with .index.json"
        if sharded:
            expected = "a file, as IN is one"
        raise Refused(f"OUT: expected {expected}, got {arguments.output!r}")
    if sharded:
        shards = {
            p.name: model.shards[job.source.parts[0]] for job in jobs for p in job.parts
        }
        return sharded_files(path, parts, shards, metadata)
    if kind != (arguments.kind_out or kind_of(path, "OUT")):
        raise Refused(f"OUT: expected a name of .{kind}, got {path!r}")
    if kind == "onnx":
        from pyquant.cli._onnx import onnx_files

        return onnx_files(path, model, jobs)
    return [LAYOUTS[kind](path, parts, metadata(None))]


def _write(arguments: argparse.Namespace, jobs: Sequence[Job], files: list[File]) -> None:
    total, quiet = sum(job.source.nbytes for job in jobs), arguments.quiet or arguments.json
    lost: dict[str, OutOfRange] = {}
    with Output(files) as output, Progress(total, quiet=quiet) as progress:
        for job in jobs:
            name, done = job.source.name, progress.done
            try:
                job.do(output, partial(progress.advance, name=name), arguments.threads)
            except OutOfRange as error:
                lost[name] = error
            except ValueError as error:
                message = str(error).removeprefix("x: ")
                raise Refused(f"tensor {name[:100]!r}: {message}") from None
            progress.advance(done + job.source.nbytes - progress.done, name)
        _check_lost(lost, keeps=hasattr(arguments, "rules"))


def _check_lost(lost: Mapping[str, OutOfRange], *, keeps: bool) -> None:
    """Raise one error for all tensors with values that are out of the range of the type."""
    if not lost:
        return
    shown = ", ".join(f"{name!r} ({error})" for name, error in lost.items())
    use = "use float32 or bfloat16"
    if keeps:
        names = (shlex.quote(escape(name)) for name in lost)
        use = f"use another type, or add {' '.join(f'--keep {name}' for name in names)}"
    raise Refused(f"tensor {shown}: expected values in the range of the type; {use}")


# ---- summary and report ----


def _fill(report: Report, arguments: argparse.Namespace, model: Model, made: str) -> None:
    """Measure the written file against the input, and write the report."""
    with open_model(made, arguments.kind_out) as result:
        before = logical(model, raw=arguments.raw)
        for name, found in logical(result).items():
            if found.is_quantized and name in before:
                report.add(name, before[name], found)
        report.write()


def _row(job: Job) -> dict[str, Any]:
    row: dict[str, Any] = {
        "tensor": job.source.name,
        "shape": list(job.source.shape),
        "from": job.source.type,
        "to": job.to,
        "granularity": job.granularity,
        "bytes_in": job.source.nbytes,
        "bytes_out": job.nbytes,
    }
    if job.sqnr is not None:
        row["sqnr"] = job.sqnr
    return row if job.reason is None else {**row, "kept": job.reason}


def _tell(arguments: argparse.Namespace, jobs: Sequence[Job], path: str) -> None:
    changed = [job for job in jobs if job.reason is None]
    measured = {job.source.name: job.sqnr for job in jobs if job.sqnr is not None}
    finite = (name for name, sqnr in measured.items() if not isnan(sqnr))
    worst = min(finite, key=measured.__getitem__, default=None)
    before = sum(job.source.nbytes for job in jobs)
    after = sum(job.nbytes for job in jobs)
    if arguments.json:
        summary: dict[str, Any] = {
            "output": path,
            "tensors": len(jobs),
            "changed": len(changed),
            "kept": len(jobs) - len(changed),
            "bytes_in": before,
            "bytes_out": after,
            "dry_run": arguments.dry_run,
        }
        if worst is not None:
            summary["worst"] = {"tensor": worst, "sqnr": measured[worst]}
        print_json(map(_row, jobs), summary)
        return
    if arguments.quiet:
        return
    if arguments.dry_run:
        columns = ("tensor", "shape", "from", "to", "granularity, or reason", "bytes")
        cells = [
            (
                row["tensor"],
                "x".join(map(str, row["shape"])),
                row["from"],
                "kept" if "kept" in row else row["to"],
                row.get("kept", row["granularity"] or ""),
                row["bytes_out"],
            )
            for row in map(_row, jobs)
        ]
        print_table(columns, cells, right=("bytes",))
    verb = "would be" if arguments.dry_run else "are"
    kinds = (f"{job.to} {job.granularity or ''}".rstrip() for job in changed)
    types = ", ".join(dict.fromkeys(kinds))
    size = f"{sized(before)} to {sized(after)}"
    lost = "" if worst is None else f"; worst {measured[worst]:.1f} dB {shown(worst)}"
    done = f"{len(changed)} of {len(jobs)} tensors {verb} {types}"
    print(f"{shown(path)}: {done}; {size}{lost}")
