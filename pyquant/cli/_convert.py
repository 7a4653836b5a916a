# SPDX-License-Identifier: Apache-2.0
"""The command `pyquant convert`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyquant._refused import hint
from pyquant.cli._dequantize import metadata_of
from pyquant.cli._errors import Refused
from pyquant.cli._logical import Joined, check_values, logical, weight_of
from pyquant.cli._plan import Copied, Job
from pyquant.cli._select import STATUS, TENSOR, selected
from pyquant.cli._work import FILES, output_kind, perform
from pyquant.cli._write import Output
from pyquant.weights._elements import Part
from pyquant.weights._published import type_of
from pyquant.weights._weight import _BLOCKS, FORMATS, WRITTEN, convert, from_tensors
from pyquant.weights.blocks import block_format

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from pyquant._typing import Array
    from pyquant.cli._logical import Logical
    from pyquant.cli._models import Model
    from pyquant.cli._work import Metadata

# Kind of file -> formats that the file can store. MatMulNBits is missing, because only ONNX
# nodes have this format.
KNOWN: dict[str, list[str]] = {
    "safetensors": [name for name in WRITTEN if name != "matmulnbits"],
    "gguf": [*_BLOCKS],
}
UNSELECTED = "not selected by --tensor"
REMEDY = "quantize the original file with --type int4"

DESCRIPTION = """\
Convert the quantized weights of a file to another format without loss: codes,
scales and zero points are stored anew, and no value changes. An error names the
weight that the format cannot hold. All other tensors are copied."""
EXAMPLES = f"""\
formats:
  for .safetensors:
    {" ".join(KNOWN["safetensors"])}
  for .gguf:
    {" ".join(KNOWN["gguf"])}

examples:
  pyquant convert model-awq.safetensors model-gptq.safetensors --format gptq
  pyquant convert model.Q4_0.gguf model.safetensors --format compressed_tensors
  pyquant convert model-gptq.safetensors model.gguf --format Q4_0
{STATUS}"""
OPTIONS = (
    ("--format", "FORMAT", "format of OUT (required)", {"required": True}),
    *(TENSOR, *FILES),
)


def run(arguments: argparse.Namespace) -> int:
    """Convert a file."""
    kind = output_kind(arguments, "npz")
    if kind not in KNOWN:
        raise Refused(f"OUT: expected .safetensors or .gguf, got {arguments.output!r}")
    known = KNOWN[kind]
    format = {name.lower(): name for name in known}.get(arguments.format.lower(), "")
    if not format:
        end = hint(arguments.format, known) or f"; use one of {', '.join(known)}"
        raise Refused(f"--format: {arguments.format!r} is no format of .{kind} files{end}")

    def plan(model: Model) -> tuple[list[Job], Metadata]:
        tensors, jobs = logical(model, raw=arguments.raw), list[Job]()
        names = {*selected(arguments.tensor, tensors)}
        for name, tensor in tensors.items():
            found = _reader_of(model, tensor, format) if name in names else UNSELECTED
            if isinstance(found, str):
                jobs.append(Copied(tensor, model, kind, found))
            else:
                jobs.append(Converted(tensor, format, found))
        reasons = dict.fromkeys(job.reason for job in jobs if job.reason)
        why = "; ".join(reasons) or "no tensors"
        return jobs, metadata_of(model, jobs, kind, "weights to convert", f": {why}")

    return perform(arguments, kind, plan)


def _reader_of(model: Model, tensor: Logical, format: str) -> Callable[[], Any] | str:
    """Return a function that reads the weight of a tensor.

    If the tensor must be copied unchanged, return the reason as a string.
    """
    check_values(model, tensor)
    name, type = tensor.name, tensor.type
    if not tensor.is_quantized:
        return "not quantized"
    # If codes are packed in words and the file stores the shape, the format is
    # compressed_tensors.
    has_words = isinstance(tensor, Joined) and tensor.stored_shape is not None
    if format == ("compressed_tensors" if has_words else type):
        return f"already {format}"
    if type in FORMATS:
        return lambda: weight_of(tensor)
    if has_words:
        return lambda: from_tensors(model, name, "compressed_tensors")
    if type in _BLOCKS and tensor.ndim == 2 and format not in _BLOCKS:
        return lambda: (
            block_format(type),
            model[name]._bytes().reshape(tensor.shape[0], -1),
        )
    if isinstance(tensor, Joined):
        return f"convert does not read {type} codes ({REMEDY})"
    return f"convert does not change {type} to {format} (use quantize)"


class Converted(Job):
    """A job that converts a weight twice: for the header, and for the data of the file."""

    __slots__ = ("_parts", "_read")

    def __init__(self, source: Logical, format: str, read: Callable[[], Any]) -> None:
        super().__init__(source, format, None)
        self._read = read
        arrays = self._made()
        self._parts = [Part.of(key, type_of(one), one.shape) for key, one in arrays.items()]
        if format in _BLOCKS:
            self._parts = [Part(source.name, format, source.shape, self._parts[0].nbytes)]

    @property
    def parts(self) -> list[Part]:
        return self._parts

    def _made(self) -> dict[str, Array]:
        name, format = self.source.name, self.to
        try:
            if format in _BLOCKS:
                return {name: self._read().blocks(format)}
            return convert(self._read(), format).tensors(name)
        except ValueError as error:
            text = str(error).removeprefix("weight: ")
            raise Refused(f"tensor {name[:100]!r}: {text}") from None

    def do(self, output: Output, advance: Callable[[int], None], threads: int) -> None:
        for name, array in self._made().items():
            output.write(name, array)
        advance(self.source.nbytes)
