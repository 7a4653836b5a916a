# SPDX-License-Identifier: Apache-2.0
"""The command `pyquant dequantize`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyquant.cli._errors import Refused
from pyquant.cli._logical import Joined, check_values, loads, logical
from pyquant.cli._plan import Copied, Decoded
from pyquant.cli._select import STATUS
from pyquant.cli._work import FILES, output_kind, perform
from pyquant.weights._published import MARKER

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from pyquant.cli._models import Model
    from pyquant.cli._plan import Job
    from pyquant.cli._work import Metadata

DESCRIPTION = """\
Restore real numbers from a quantized file: from blocks of GGUF, and from codes
with scales, as `pyquant quantize`, compressed-tensors and float8 checkpoints
store them. All other tensors are copied."""
EXAMPLES = f"""\
examples:
  pyquant dequantize model-int8.safetensors model.safetensors --type bfloat16
  pyquant dequantize model.Q4_K.gguf model.safetensors
  pyquant dequantize weights.npz - --to npy > weights.npy
{STATUS}"""
_TYPE = "default: float32; for .onnx the type in the graph"
_TYPES = {"choices": ("float32", "float16", "bfloat16")}
OPTIONS = (*FILES, ("--type", "", _TYPE, _TYPES))

# Keys of metadata that describe quantized tensors. A dequantized file omits the keys.
UNDONE = ("quantization_config", "general.file_type", "general.quantization_version")


def run(arguments: argparse.Namespace) -> int:
    """Dequantize a file."""
    kind = output_kind(arguments, "npy")
    if kind in ("npy", "npz") and arguments.type == "bfloat16":
        raise Refused(f"--type: .{kind} files cannot hold bfloat16; use float32")

    def plan(model: Model) -> tuple[list[Copied | Decoded], Metadata]:
        tensors = [
            tensor
            for name, tensor in logical(model, raw=arguments.raw).items()
            if not name.endswith(MARKER)  # the marker means that the file has float8 codes
        ]
        for tensor in tensors:
            check_values(model, tensor)
        memory, threads = arguments.max_memory, arguments.threads
        type, graph = arguments.type, kind == "onnx"
        jobs = [
            Decoded(tensor, type or (tensor.real if graph else "float32"), memory, threads)
            if tensor.is_quantized and (not graph or isinstance(tensor, Joined))
            else Copied(tensor, model, kind, "not quantized")
            for tensor in tensors
        ]
        return jobs, metadata_of(model, jobs, kind, "quantized tensors")

    return perform(arguments, kind, plan)


def metadata_of(
    model: Model, jobs: Sequence[Job], kind: str, what: str, why: str = ""
) -> Metadata:
    """Return a function that returns the metadata of the new file.

    The metadata has no records of tensors that are no longer quantized. If no job changes a
    tensor, raise Refused. In the message, `what` is the kind of tensors that the command
    changes, and `why` is a reason.
    """
    same = [job for job in jobs if job.reason is not None]
    if len(same) == len(jobs):
        raise Refused(f"no {what} in {model.path}{why}")
    kept = {name for job in same for name in (job.source.name, *job.source.parts)}

    def metadata(names: set[str] | None) -> dict[str, Any]:
        if (kind == "gguf") != (model.kind == "gguf"):
            return {}
        found = {**model.metadata}
        for key in UNDONE:
            found.pop(key, None)
        if kind != "gguf" and "pyquant" in found:
            records = loads(found.pop("pyquant"))
            rest = {name: row for name, row in records.items() if name in kept}
            if rest:
                found["pyquant"] = json.dumps(rest, separators=(",", ":"))
        return found

    return metadata
