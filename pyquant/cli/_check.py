# SPDX-License-Identifier: Apache-2.0
"""Find faults of a file, and differences between a tensor and the exact result."""

from __future__ import annotations

import hashlib
from itertools import chain
from operator import methodcaller
from typing import TYPE_CHECKING, Any

import numpy as np

from pyquant import _core, dtypes
from pyquant.cli._errors import Refused
from pyquant.cli._forms import BLOCKS, Granularity, encoded
from pyquant.cli._logical import Joined
from pyquant.cli._measure import decoded, has_numbers, pairs, wide
from pyquant.cli._plan import Spec, bytes_of, parameters
from pyquant.cli._show import counted
from pyquant.rounding import RoundMode
from pyquant.weights._elements import bfloat16_bits, readable
from pyquant.weights.blocks import block_format

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from pyquant._typing import Array
    from pyquant.cli._logical import Logical
    from pyquant.cli._models import Model

# Key of the record of a quantized tensor -> the values that pyquant writes.
RECORD = {
    "rounding": tuple(mode.value for mode in RoundMode),
    "method": ("minmax", "mse"),
    "symmetric": (True, False),
}
REALS = ("float64", "float32", "float16", "bfloat16")


# ---- faults ----


def faults(tensor: Logical) -> Iterator[str]:
    """Yield the faults of a tensor with codes.

    Faults are a wrong shape in the file, scales that are not finite and positive, zero
    points out of range, and values that are not finite. Codes need no check, because every
    code of a type is valid.
    """
    if not tensor.is_quantized or not has_numbers(tensor):
        return
    if isinstance(tensor, Joined):
        if tensor.stored_shape not in (None, tensor.shape):
            yield f"the stored shape is {tensor.stored_shape}, not {tensor.shape}"
        scale, zero, _ = tensor.params()
        scale, row = scale.astype(np.float64), dtypes.TYPES.get(tensor.type)
        good = np.isfinite(scale) & (scale > 0)
        yield from _bad(scale, good, "scales are not finite and positive")
        if zero is not None and row is not None:
            low, high, zero = row.lowest or 0, row.highest or 0, zero.astype(np.int64)
            good = (zero >= low) & (zero <= high)
            yield from _bad(zero, good, f"zero points are outside {low} to {high}")
            if not good.all():
                return  # invalid zero points would make the values meaningless
    values = decoded(tensor, "float32")
    bad = sum(int(np.count_nonzero(~np.isfinite(x))) for _, x in values)
    if bad:
        yield f"{bad} of {tensor.size} values are not finite"


def _bad(values: Array, good: npt.NDArray[np.bool_], what: str) -> Iterator[str]:
    if not good.all():
        wrong = values[~good]
        yield f"{wrong.size} of {values.size} {what}; the first is {wrong.flat[0]}"


def file_faults(model: Model, tensors: Mapping[str, Logical]) -> Iterator[str]:
    """Yield the faults of a file that are not faults of a single readable tensor.

    Faults are codes with unknown values, a wrong total size in an index, and a wrong
    checksum in a .npz file.
    """
    yield from model.faults()
    yield from dict.fromkeys(one.fault for one in tensors.values() if one.fault is not None)
    stated = model.metadata.get("total_size") if model.shards else None
    total = sum(tensor.nbytes for tensor in model.values())
    if stated is not None and stated != total:
        yield f"total_size is {repr(stated)[:40]}, but the tensors have {total} bytes"


# ---- differences ----


def has_equal_bytes(models: tuple[Model, Model], tensors: tuple[Logical, Logical]) -> bool:
    """Return true if two tensors have equal bytes. Their elements are not real numbers."""
    made = []
    for model, tensor in zip(models, tensors, strict=True):
        parts = [model[name] for name in tensor.parts]
        digest = hashlib.sha256(tensor.type.encode())
        for piece in chain.from_iterable(map(bytes_of, parts)):
            digest.update(piece.data)
        made.append(digest.digest())
    return made[0] == made[1]


def differences(
    model: Model, original: Logical, tensor: Logical, record: Mapping[str, Any]
) -> dict[str, int]:
    """
    Quantize the original again, and count the differences from a quantized tensor.

    The tensors have equal shapes and contain real numbers. `record` is pyquant's record of
    `tensor`, and may be empty. `model` is the file of `tensor`, for messages. The keys of
    the result are the kinds of items that are compared:

    - "blocks": GGUF blocks;
    - "codes": codes of the original with the scales of the file;
    - "scales" and "zero points", if `record` states how they were chosen;
    - "shapes": the shape in the file, if the file stores it;
    - "elements": real numbers, rounded to the type of `tensor`.

    The function raises Refused if `record` or `original` does not determine the result.
    """
    where = f"{model.path}: tensor {tensor.name[:100]!r}"
    for key, known in RECORD.items():
        if record.get(key, known[0]) not in known:
            got = repr(record[key])[:100]
            raise Refused(f"{where}: the record has an unknown {key}, {got}")
    try:
        if tensor.type in BLOCKS and original.type != tensor.type:
            return {"blocks": _other_blocks(model, original, tensor)}
        if isinstance(tensor, Joined) and not isinstance(original, Joined):
            counts = _other_parameters(original, tensor, record)
            if tensor.stored_shape is not None:
                counts["shapes"] = int(tensor.stored_shape != tensor.shape)
            return counts | {"codes": _other_codes(original, tensor, record)}
    except ValueError as error:  # for example, the original contains NaN
        raise Refused(f"{where}: {error}") from None
    rounded = tensor.type in REALS and original.type != tensor.type
    dtype = tensor.type if rounded else None
    return {"elements": _other_elements(original, tensor, dtype)}


def _other_elements(original: Logical, tensor: Logical, dtype: str | None) -> int:
    # float64 does not represent all integers of 64 bits.
    if original.type == tensor.type in ("int64", "uint64"):
        dtype = tensor.type
    dtype = dtype or wide({original.type, tensor.type})
    read, word = readable(dtype), f"u{dtypes.TYPES[dtype].nbytes}"
    bits = bfloat16_bits if read != dtype else methodcaller("view", word)
    found = pairs(original, tensor, read)
    return sum(int(np.count_nonzero(bits(x) != bits(y))) for _, x, y in found)


def _other_blocks(model: Model, original: Logical, tensor: Logical) -> int:
    block = block_format(tensor.type)
    stored: Any = model[tensor.parts[0]]
    raw = stored.raw.reshape(-1, block.block_bytes)
    count = first = 0
    for _, x in decoded(original, "float32"):
        made = encoded(block, x.reshape(-1, x.shape[-1])).reshape(-1, block.block_bytes)
        found = raw[first : first + len(made)]
        count += int(np.count_nonzero((made != found).any(axis=1)))
        first += len(made)
    return count


def _other_parameters(
    original: Logical, tensor: Joined, record: Mapping[str, Any]
) -> dict[str, int]:
    if not {"method", "symmetric"} <= record.keys() or not tensor.shape:
        return {}
    granularity = Granularity(str(tensor.granularity))
    spec = Spec(tensor.type, granularity, record["symmetric"], record["method"])
    scales, zero, _ = tensor.params()
    scales, zeros = scales.ravel(), np.zeros(1) if zero is None else zero.ravel()
    zeros = np.broadcast_to(zeros, scales.shape)
    counts, at = {"scales": 0, "zero points": 0}, 0
    for p in parameters(original, spec):
        scale = np.ravel(p.scale).astype(scales.dtype)
        zero = np.asarray(0 if p._zero_point is None else p._zero_point).astype(np.int64)
        zero = np.broadcast_to(zero.ravel(), scale.shape)
        part = slice(at, at + scale.size)
        at += scale.size
        counts["scales"] += int(np.count_nonzero(scale != scales[part]))
        counts["zero points"] += int(np.count_nonzero(zero != zeros[part]))
    return counts


def _other_codes(original: Logical, tensor: Joined, record: Mapping[str, Any]) -> int:
    count = 0
    rounding = record.get("rounding", "half_even")
    for rows, x in decoded(original, wide({original.type})):
        scale, zero, how = tensor.params(rows)
        made = _core.quantize(x, scale, zero, dtype=tensor.type, rounding=rounding, **how)
        found = tensor.codes(rows)
        if found is not None:
            count += int(np.count_nonzero(made.astype(found.dtype) != found))
            continue
        # Compare the values of narrow floats. Different codes have different values, except
        # codes of NaN.
        y = _core.dequantize(made, scale, zero, **how)
        same = y.view(np.uint32) == tensor.dequantize(rows, dtype="float32").view(np.uint32)
        count += same.size - int(np.count_nonzero(same))
    return count


def in_words(counts: Mapping[str, int]) -> str | None:
    """Return a text for the counts of differences, or `None` if all counts are 0."""
    found = [counted(n, unit.removesuffix("s")) for unit, n in counts.items() if n]
    if not found:
        return None
    one = len(found) == 1 and found[0].startswith("1 ")
    return f"{', '.join(found)} differ{'s' if one else ''} from the exact result"
