# SPDX-License-Identifier: Apache-2.0
"""`pyquant verify`: whether a file can be right, or is what its original makes."""

from __future__ import annotations

import hashlib
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from pyquant import _core, dtypes
from pyquant.blocks import block_format, block_formats
from pyquant.cli._bands import as_json, bands, counted, decoded, grid, has_numbers, wide
from pyquant.cli._compare import differing, limits_of
from pyquant.cli._errors import Refused, shown
from pyquant.cli._forms import Granularity
from pyquant.cli._logical import Logical, logical, records_of
from pyquant.cli._models import open_model
from pyquant.files import Weight
from pyquant.observe import Observer
from pyquant.qparams import QParams, choose_qparams
from pyquant.rounding import RoundMode

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from pyquant.cli._models import Model, ModelTensor

__all__ = ["add", "run"]

DESCRIPTION = """\
Check a file: its structure; that scales are finite, and positive where codes are affine;
that codes and zero points are within their range; that what is quantized decodes to finite
numbers. With --against each tensor is made again of the original, with the scales of the
file, and all bits have to be the same; those of scales, too, where the file says how they
were chosen. --json has the SHA-256 of each part, too."""

EXAMPLES = """\
examples:
  pyquant verify model-int8.safetensors
  pyquant verify --against model.safetensors model-int8.safetensors
  pyquant verify --json model.gguf

exit status: 0; 1 where something is wrong; 2 for a file that cannot be read at all"""

PIECE = 1 << 20  # bytes that are hashed at a time
# What a record says that codes were made with.
RECORD = {
    "rounding": tuple(mode.value for mode in RoundMode),
    "method": ("minmax", "mse"),
    "symmetric": (True, False),
}
# Types that numbers are rounded to, by their names; files have one that NumPy has not.
REALS = {name: name for name in ("float64", "float32", "float16", "bfloat16")}
REALS["BF16"] = "bfloat16"
BLOCKS = {block.name for block in block_formats()}


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.add_argument("file", metavar="FILE", help="what to check")
    parser.add_argument(
        "--against", metavar="ORIGINAL", help="the file that it was made of"
    )
    parser.add_argument(
        "--json", action="store_true", help="a line of JSON for each tensor, and a summary"
    )


def run(arguments: argparse.Namespace) -> int:
    """Check all tensors, and show what is wrong."""
    path, other = arguments.file, arguments.against
    opened = open_model(other) if other is not None else nullcontext()
    with open_model(path) as model, opened as original:
        tensors = logical(model)
        records = records_of(model)
        originals = None if original is None else logical(original)
        said = {"file": path, "tensors": len(tensors), "faults": 0}
        for name, tensor in tensors.items():
            faults = [*_faults(tensor)]
            if originals is not None and not faults and name in originals:
                faults += _judged(model, tensor, originals[name], records.get(name, {}))
            said["faults"] += len(faults)
            _show_tensor(model, tensor, faults, arguments.json)
        loose = [*_sums(model), *_loose(tensors, records, originals)]
        said["faults"] += len(loose)
        _show_end(said, loose, other, arguments.json)
    return 0 if said["faults"] == 0 else 1


# ---- a tensor by itself ----


def _faults(tensor: Logical) -> Iterator[str]:
    """What is wrong with a tensor."""
    if tensor.scale is not None:
        yield from _scales(tensor)
    if tensor.zero_point is not None:
        yield from _zero_points(tensor)
    if tensor.scale is not None and limits_of(tensor.type) is not None:
        yield from _codes(tensor)
    if (tensor.scale is not None or tensor.type in BLOCKS) and has_numbers(tensor):
        bad = sum(
            int(np.count_nonzero(~np.isfinite(x))) for x in decoded(tensor, "float32")
        )
        if bad:
            yield f"expected finite numbers, got {bad} others"


def _scales(tensor: Logical) -> Iterator[str]:
    scale = np.asarray(tensor.scale).astype(np.float64)
    if tensor.type in BLOCKS:  # whose scales may be 0 and negative
        good, expected = np.isfinite(scale), "finite scales"
    else:
        good = np.isfinite(scale) & (scale > 0)
        expected = "finite and positive scales"
    yield from _others(scale, good, expected)


def _zero_points(tensor: Logical) -> Iterator[str]:
    limits = limits_of(tensor.type)
    if limits is not None:
        yield from _outside(np.asarray(tensor.zero_point), limits, "zero points")


def _codes(tensor: Logical) -> Iterator[str]:
    """Codes that are kept in more bits than they have; of whole bytes all are in range."""
    limits = limits_of(tensor.type)
    if limits is None or dtypes.TYPES[tensor.type].bits >= 8:
        return
    for rows in bands(tensor.shape):
        codes = tensor.codes(rows)
        if codes is not None:
            fault = next(_outside(codes, limits, "codes"), None)
            if fault is not None:
                yield fault
                return


def _outside(values: npt.NDArray[Any], limits: tuple[int, int], what: str) -> Iterator[str]:
    low, high = limits
    values = np.asarray(values).astype(np.int64)
    yield from _others(
        values, (values >= low) & (values <= high), f"{what} from {low} to {high}"
    )


def _others(
    values: npt.NDArray[Any], good: npt.NDArray[np.bool_], expected: str
) -> Iterator[str]:
    if not good.all():
        wrong = values[~good]
        yield f"expected {expected}, got {wrong.size} others, the first {wrong.flat[0]}"


# ---- a tensor beside its original ----


def _judged(
    model: Model, tensor: Logical, original: Logical, record: dict[str, Any]
) -> list[str]:
    try:
        return [*_unlike(model, tensor, original, record)]
    except ValueError as error:  # an original of which no parameters can be chosen
        raise Refused(f"{model.path}: tensor {tensor.name!r}: {error}") from None


def _unlike(
    model: Model, tensor: Logical, original: Logical, record: dict[str, Any]
) -> Iterator[str]:
    """Where a tensor is not what its original makes."""
    if original.shape != tensor.shape:
        yield f"expected shape {original.shape}, got {tensor.shape}"
        return
    if not (has_numbers(tensor) and has_numbers(original)):
        yield from _other_bytes(tensor, original)
        return
    if tensor.type in BLOCKS and original.type != tensor.type:
        counts = {"blocks": _other_blocks(model, tensor, original)}
    elif tensor.scale is not None and original.scale is None:
        fault = _record_fault(record)
        if fault is not None:
            yield fault
            return
        counts = _other_parameters(tensor, original, record)
        counts["codes"] = _other_codes(tensor, original, record)
    else:
        dtype = REALS.get(tensor.type) if original.type != tensor.type else None
        counts = {"elements": differing(original, tensor, dtype)}
    for unit, count in counts.items():
        if count:
            yield f"expected what the original makes, got {count} other {unit}"


def _record_fault(record: dict[str, Any]) -> str | None:
    """What a record says that pyquant does not write."""
    for key, known in RECORD.items():
        if key in record and record[key] not in known:
            return f"expected a record with {key} of {known}, got {record[key]!r}"[:300]
    return None


def _other_bytes(tensor: Logical, original: Logical) -> Iterator[str]:
    """Of complex numbers, and of types that are not known."""
    made, found = _sha256(original._tensor), _sha256(tensor._tensor)
    if made is None or made != found or original.type != tensor.type:
        yield f"expected the bytes of the original, as {original.type}, got others"


def _other_blocks(model: Model, tensor: Logical, original: Logical) -> int:
    """Count the blocks of which a bit is another."""
    block = block_format(tensor.type)
    stored: Any = model[tensor.parts[0]]
    raw = stored.raw.reshape(-1, block.block_bytes)
    count = first = 0
    for x in decoded(original, "float32"):
        made = block.encode(x.reshape(-1, x.shape[-1])).reshape(-1, block.block_bytes)
        found = raw[first : first + len(made)]
        count += int(np.count_nonzero((made != found).any(axis=1)))
        first += len(made)
    return count


def _other_parameters(
    tensor: Logical, original: Logical, record: dict[str, Any]
) -> dict[str, int]:
    """Count the scales and zero points that are others, if the record says how they were
    chosen."""
    if not {"method", "symmetric"} <= record.keys() or not tensor.shape:
        return {}
    granularity = Granularity(str(tensor.granularity))
    how, unit = granularity.call(tensor.ndim), granularity.blocks(tensor.shape)[0]
    asked = {"dtype": tensor.type, "symmetric": record["symmetric"]}
    dtype = wide({original.type})
    if unit < tensor.shape[0]:  # each band has parameters of its own
        chosen: Iterable[QParams] = (
            choose_qparams(x, method=record["method"], **asked, **how)
            for x in decoded(original, dtype, unit)
        )
    elif record["method"] == "minmax" and "block_size" not in how:
        observer = Observer(**how)
        for x in decoded(original, dtype):
            observer.update(x)
        chosen = [observer.qparams(tensor.type, symmetric=record["symmetric"])]
    else:
        x = original.decode(dtype=dtype)
        chosen = [choose_qparams(x, method=record["method"], **asked, **how)]
    found: Any = np.ravel(tensor.scale)  # type: ignore[arg-type]
    zeros: Any = None if tensor.zero_point is None else tensor.zero_point.ravel()
    counts, at = {"scales": 0, "zero points": 0}, 0
    for p in chosen:
        scale, zero = np.ravel(p.scale), np.ravel(_zeros_of(p))
        part = slice(at, at + scale.size)
        at += scale.size
        other = scale.astype(found.dtype) != found[part]
        counts["scales"] += int(np.count_nonzero(other))
        other = np.broadcast_to(zero != (0 if zeros is None else zeros[part]), scale.shape)
        counts["zero points"] += int(np.count_nonzero(other))
    return counts


def _zeros_of(p: QParams) -> npt.NDArray[np.int64]:
    """As integers, of types that NumPy does not have, too."""
    zero = np.asarray(0 if p._zero_point is None else p._zero_point).astype(np.int64)
    return zero.reshape(p.scale.shape) if zero.size == p.scale.size else zero


def _other_codes(tensor: Logical, original: Logical, record: dict[str, Any]) -> int:
    """Count the codes that are others."""
    count = 0
    rounding = record.get("rounding", "half_even")
    pairs = zip(bands(tensor.shape), decoded(original, wide({original.type})), strict=True)
    for rows, x in pairs:
        scale, sizes = grid(tensor.scale, tensor, rows)
        zero = None
        if tensor.zero_point is not None:
            zero = grid(tensor.zero_point, tensor, rows)[0]
        x = x if tensor.shape else x.reshape(())
        how: dict[str, Any] = {"block_size": sizes} if scale.size > 1 else {}
        made = _core.quantize(x, scale, zero, dtype=tensor.type, rounding=rounding, **how)
        found = tensor.codes(rows)
        if found is not None:
            count += int(np.count_nonzero(made.astype(found.dtype) != found))
            continue
        # Of narrow floats, whose numbers tell the codes apart, but for NaN.
        y = _core.dequantize(made, scale, zero, **how)
        same = y.view(np.uint32) == tensor.decode(rows, dtype="float32").view(np.uint32)
        count += same.size - int(np.count_nonzero(same))
    return count


# ---- the file ----


def _sums(model: Model) -> Iterator[str]:
    """What an index says of all files together."""
    said = model.metadata.get("total_size") if model.shards else None
    total = sum(tensor.nbytes for tensor in model.values())
    if said is not None and said != total:
        got = repr(said)[:40]
        yield f"expected a total_size of {total}, the bytes of all tensors, got {got}"


def _loose(
    tensors: dict[str, Any], records: dict[str, Any], originals: dict[str, Logical] | None
) -> Iterator[str]:
    """Names that are in one place only."""
    for name in records:
        if name not in tensors:
            yield f"tensor {name!r}: expected it in the file, got its record alone"
    if originals is None:
        return
    for name in originals:
        if name not in tensors:
            yield f"tensor {name!r}: expected it in the file, got it in the original alone"
    for name in tensors:
        if name not in originals:
            yield f"tensor {name!r}: expected it in the original, got it in the file alone"


# ---- what is shown ----


def _hashes(model: Model, tensor: Logical) -> dict[str, str | None]:
    return {part: _sha256(model[part]) for part in tensor.parts}


def _sha256(tensor: ModelTensor) -> str | None:
    """Of the bytes as they lie in the file, or would unpacked; None of unknown ones."""
    made = hashlib.sha256()
    if not isinstance(tensor, Weight):
        if tensor.dtype is None:
            return None
        for rows in bands(tensor.shape):
            part = np.ascontiguousarray(tensor.decode(rows, dtype=tensor.dtype))
            made.update(part.view(np.uint8).data if part.ndim else part.tobytes())
        return made.hexdigest()
    raw, stored = tensor.raw, tensor._tensor
    for first in range(0, raw.size, PIECE):
        made.update(raw[first : first + PIECE].data)
        stored.file.has_read(stored.start + first, stored.start + first + PIECE)
    return made.hexdigest()


def _show_tensor(model: Model, tensor: Logical, faults: list[str], as_lines: bool) -> None:
    if as_lines:
        said = {"tensor": tensor.name, "type": tensor.type, "faults": faults}
        print(as_json(said | {"sha256": _hashes(model, tensor)}))
        return
    for fault in faults:
        print(f"{shown(model.path)}: tensor {shown(repr(tensor.name))}: {shown(fault)}")


def _show_end(
    said: dict[str, Any], loose: list[str], other: str | None, as_lines: bool
) -> None:
    if as_lines:
        print(as_json({"summary": said | {"against": other, "others": loose}}))
        return
    for fault in loose:
        print(f"{shown(said['file'])}: {shown(fault)}")
    beside = "" if other is None else f", beside {shown(other)}"
    result = "nothing is wrong" if not said["faults"] else counted(said["faults"], "fault")
    print(f"{shown(said['file'])}: {counted(said['tensors'], 'tensor')}{beside}: {result}")
