# SPDX-License-Identifier: Apache-2.0
"""Recognise weights in published formats by the names, types and shapes of tensors."""

from __future__ import annotations

import json
import os
import re
from itertools import chain, islice
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from pyquant import dtypes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    _Finder = Callable[[Mapping[str, Any], str], Iterator["Found"]]

REALS = ("float32", "float64", "float16", "bfloat16")
# A row has three suffixes of names: of a narrow float tensor, of the tensor of its scale,
# and of the original tensor. The comment names the packages that use these suffixes. Values
# are codes times the scale, even if the name of the scale contains "inv".
SCALES = (
    ("", "_scale", ""),  # compressed-tensors, FBGEMM, ModelOpt, ComfyUI
    ("", "_scale_inv", ""),  # DeepSeek, Qwen, MiniMax
    (".weight", ".scale", ".weight"),  # DeepSeek's own format, without transformers
    (".weight", ".scale_weight", ".weight"),  # older files of ComfyUI
    (".weight", ".qscale_weight", ".weight"),  # Mistral
    (".weight", ".weights_scaling_factor", ".weight"),  # TensorRT-LLM
    ("._data", "._scale", ""),  # optimum-quanto
    ("._weight_qdata", "._weight_scale", ".weight"),  # torchao
)
MARKER = "scaled_fp8"  # a float8 tensor with this name marks a file of ComfyUI
MAX_CONFIG = 1 << 24  # maximum number of bytes in a config.json


class _Format(NamedTuple):
    """
    Conditions by which the codes of a published format are recognised.

    Codes have the format if the following conditions are true:

    - The name of the codes ends with `codes`, and their type is one of `types`.
    - A tensor with the type `scales` has the name of the codes, but with a suffix from
      `needs` in place of `codes`.
    - No tensor has a suffix from `without` in place of `codes`.
    - `fits` returns true for the codes and the scales.

    Empty `types` or `scales` allow all types. `rest` has the suffixes of optional tensors.
    `formats` are the possible formats of `pyquant.weights.from_tensors`, or the title of a
    format that pyquant does not read.
    """

    formats: tuple[str, ...] | str
    codes: str
    types: tuple[str, ...]
    needs: tuple[str, ...]
    rest: tuple[str, ...] = ()
    scales: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    fits: Callable[[Any, Any], bool] = lambda codes, scales: True


def _packs_outputs(codes: Any, scales: Any) -> bool:
    """Return true if a 32-bit word contains the codes of eight outputs, as in AWQ."""
    shape = getattr(scales, "shape", ())  # AWQ's reader checks the complete shape later
    return bool(shape and codes.shape[-1:] == (shape[-1] // 8,))


_NF4, _FP4 = (f".quant_state.bitsandbytes__{name}" for name in ("nf4", "fp4"))
_NESTED = (".quant_map", ".nested_absmax", ".nested_quant_map")
_GLOBAL = ("_global_scale", "_scale_2")
_POWERS = ("uint8", "float8_e8m0fnu")
_E4M3 = ("float8_e4m3fn",)
_HALF = ("float16", "bfloat16")
_INTEGERS = ("int8", "uint8", "int32")
_WORDS = ("int32", "uint32")
_ZEROS = (".qzeros", ".g_idx")
_POINTS = ("_zero_point", "_g_idx", "_shape")
_VPTQ = (
    *(".res_centroids.weight", ".outlier_indices", ".outlier_centroids.weight"),
    *(".weight_scale", ".weight_bias", ".perm"),
)
_GPTQ = ("gptq", "gptq_v2", "gptq_p")
FORMATS = (
    _Format(("bitsandbytes",), "", (), (".absmax", _NF4, _FP4), _NESTED),
    _Format(("bitsandbytes",), ".weight", ("int8",), (".SCB",)),
    _Format(("nvfp4",), "_packed", ("uint8",), ("_scale",), _GLOBAL, _E4M3),
    _Format(("nvfp4",), "", ("uint8",), ("_scale",), _GLOBAL, _E4M3),
    _Format(("mx",), "_packed", ("uint8",), ("_scale",), (), _POWERS),
    _Format(("mx",), "_blocks", ("uint8",), ("_scales",), (), _POWERS),
    _Format(("mx",), "", ("uint8",), ("_scale",), (), _POWERS),
    _Format(("mx",), ".weight", _INTEGERS, (".scale",), (), _POWERS),
    _Format(("awq",), ".qweight", _WORDS, (".scales",), _ZEROS, fits=_packs_outputs),
    _Format(
        *(_GPTQ, ".qweight", _WORDS, (".scales",), _ZEROS),
        fits=lambda codes, scales: not _packs_outputs(codes, scales),
    ),
    _Format(("mlx",), ".weight", ("uint32",), (".scales",), (".biases",)),
    _Format("AQLM", ".codes", (), (".codebooks",), (".scales",)),
    _Format("Marlin", ".B", ("int32",), (".s",), (".workspace",), ("float16",)),
    _Format("Marlin 2:4", ".B_24", ("int32",), (".s",), (".B_meta",), ("float16",)),
    _Format("QQQ", ".B", ("int32",), (".s_channel",), (".s_group",)),
    _Format("QQQ", ".qweight", ("int32",), (".s_channel",), (".s_group",)),
    _Format("SqueezeLLM", ".qweight", ("int32",), (".lookup_table",)),
    _Format("SVDQuant", ".qweight", ("int8",), (".wscales",), (".smooth_factor",)),
    _Format("VPTQ", ".indices", (), (".centroids.weight",), _VPTQ),
    _Format(
        *("BitNet", ".weight", ("uint8",), (".weight_scale",), (), _HALF),
        *((".weight_zero_point",), lambda codes, scales: bool(scales.size == 1)),
    ),
    _Format(("compressed_tensors",), "_packed", _WORDS, ("_scale",), _POINTS),
)


def _words(*words: str) -> re.Pattern[str]:
    """Return a pattern that finds one of `words` between dots or underscores in a name."""
    return re.compile(rf"(?:^|[._]+)(?:{'|'.join(words)})(?![^._])", re.IGNORECASE)


# Words in the names of tensors that describe the role of a tensor in a weight. The names of
# all tensors of a weight are equal, except for these words.
_SCALE = ("scales?", "scaling", "scb", "absmax")
_ZERO = ("zeros?", "qzeros", "points?", "shift")
_CODES = ("q?weights?", "w", "q", "q?data", "packed", "codes", "blocks")
_HAS_SCALE, _HAS_PARAMETER = _words(*_SCALE), _words(*_SCALE, *_ZERO)
_ROLES = _words(*_SCALE, *_ZERO, *_CODES, "factor", "inv", "per", "tensor", "meta")


class Found(NamedTuple):
    """
    A quantized weight of a checkpoint.

    Attributes
    ----------
    name : str
        Name of the original tensor, such as "layers.0.up_proj.weight".
    parts : dict
        Names of the tensors of the weight, by role. The key of the codes is "codes".
    formats : tuple of str
        Formats of `from_tensors` that have tensors of these names, types and shapes.
    fault : str or None
        Reason why pyquant does not read the weight.
    """

    name: str
    parts: dict[str, str]
    formats: tuple[str, ...] = ()
    fault: str | None = None


def type_of(tensor: Any) -> str:
    """Return the name of the element type, or the format for blocks and unknown types.

    A `StoredTensor` has a name for its element type even if ml_dtypes is not installed.
    """
    if hasattr(tensor, "_type"):  # true for a StoredTensor
        return str(tensor._type or tensor.format)
    dtype = getattr(tensor, "dtype", None)
    name = None if dtype is None else dtypes.name_of(dtype)
    return str(name or dtype or getattr(tensor, "format", ""))


def find(tensors: Mapping[str, Any], known: Collection[str] = ()) -> Iterator[Found]:
    """
    Find the quantized weights of a checkpoint.

    The function uses the names, types and shapes of the tensors, and reads no elements.

    Parameters
    ----------
    tensors : mapping
        A mapping from names to arrays, or to tensors of `pyquant.open_weights`.
    known : collection of str, optional
        Names of tensors to ignore.

    Yields
    ------
    Found
        A weight: its `name` for `from_tensors`, the names of its tensors, and its possible
        formats. A weight that pyquant does not read has a `fault`. A narrow float tensor
        without a scale is also a weight with a `fault`.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> w = pq.weights.mlx.quantize(np.ones((2, 64), np.float32))
    >>> for found in pq.weights.find(w.tensors("layer")):
    ...     print(found.name, *found.formats, *found.parts.values())
    layer.weight mlx layer.weight layer.scales layer.biases
    """
    taken = {*known}

    def by_name(find: _Finder) -> Iterator[Found]:
        """Call `find` for each tensor without a weight, and yield the first result."""
        names = (one for one in tensors if isinstance(one, str) and one not in taken)
        return chain.from_iterable(islice(find(tensors, one), 1) for one in names)

    finders = (*map(by_name, (_named, _scaled)), _related(tensors, taken))
    for made in chain(*finders, by_name(_unscaled)):
        taken.update(made.parts.values())
        yield made


def find_one(tensors: Mapping[str, Any], name: str) -> list[Found]:
    """Return all ways to read a weight. `name` is its name, or the name of its layer."""
    weight = f"{name}.weight" if name else "weight"
    bases = (name, name.removesuffix("weight").removesuffix("."), weight)
    found: list[Found] = []
    names = [f"{base}{row.codes}".removeprefix(".") for base in bases for row in FORMATS]
    for codes in dict.fromkeys(names):
        found += _named(tensors, codes) if codes in tensors else []
    for one in (name, weight):
        for spelling, _, original in SCALES:
            codes = one.removesuffix(original) + spelling
            if not found and one.endswith(original) and codes in tensors:
                found += _scaled(tensors, codes)
    return [one for one in found if one.name in (name, weight)]


def _named(tensors: Mapping[str, Any], name: str) -> Iterator[Found]:
    """Yield a weight for each format in FORMATS that fits the tensor `name` as codes."""
    for row in FORMATS:
        dotted = f".{name}"  # suffixes begin with a dot, but a weight may have no name
        base = dotted.removesuffix(row.codes)
        if (row.codes and base == dotted) or not _has_type(tensors[name], row.types):
            continue

        def named(keys: tuple[str, ...], base: str = base) -> dict[str, str]:
            found = {key[1:]: f"{base}{key}"[1:] for key in keys}
            return {key: full for key, full in found.items() if full in tensors}

        needed = named(row.needs)
        scales = tensors[next(iter(needed.values()))] if needed else None
        if scales is None or not _has_type(scales, row.scales) or named(row.without):
            continue
        if not row.fits(tensors[name], scales):
            continue
        parts = {"codes": name, **needed, **named(row.rest)}
        original = f"{base}.weight" if row.codes.startswith(".") else base
        formats, fault = row.formats, None
        if isinstance(formats, str):
            use = "pyquant does not read this format"
            formats, fault = (), f"{name} is quantized already ({row.formats}); {use}"
        yield Found(original[1:], parts, formats, fault)


def _has_type(tensor: Any, types: tuple[str, ...]) -> bool:
    return not types or type_of(tensor) in types


def _scaled(tensors: Mapping[str, Any], name: str) -> Iterator[Found]:
    """Find the weight with the codes `name`, if a scale has one of the names in SCALES."""
    for scale, original in _scale_names(tensors[name], name).items():
        if scale not in tensors:
            continue
        # ComfyUI stores a description of the codes in this tensor.
        marker = f"{original.removesuffix('.weight')}.comfy_quant"
        rest = {"zero_point": f"{original}_zero_point", "marker": marker}
        rest["g_idx"] = f"{original}_g_idx"
        parts = {"codes": name, "scale": scale}
        parts |= {key: full for key, full in rest.items() if full in tensors}
        second = next((one for key in _GLOBAL if (one := original + key) in tensors), None)
        if second is None:
            yield Found(original, parts, ("compressed_tensors",))
        else:
            fault = f"{name} has two scales ({second})"
            yield Found(original, {**parts, second: second}, (), fault)


def _scale_names(tensor: Any, name: str) -> dict[str, str]:
    """Return a dict from possible names of the scale to the name of the original tensor.

    `tensor` and `name` are the codes and the name of the codes.
    """
    spellings = {"int8": 2, "uint8": 1}.get(type_of(tensor), 0)
    narrow = _kind_of(tensor) == "float" and not name.endswith(MARKER)
    return {
        f"{base}{scale}": f"{base}{original}"
        for codes, scale, original in (SCALES if narrow else SCALES[:spellings])
        if ((base := name.removesuffix(codes)) != name or not codes) and _has_axes(tensor)
    }


def _related(tensors: Mapping[str, Any], taken: Collection[str]) -> Iterator[Found]:
    """Find codes and scales whose names differ only in words like "weight" and "scale"."""
    scales = {
        _ROLES.sub("", name): name
        for name in tensors
        if name not in taken and _HAS_SCALE.search(name)
        if _kind_of(tensors[name]) in ("real", "float")
    }
    groups: dict[str, list[str]] = {}
    for name in tensors if scales else ():
        base = _ROLES.sub("", name)
        if name not in taken and base in scales:
            groups.setdefault(base, []).append(name)
    for base, names in groups.items():
        for name in names:
            tensor = tensors[name]
            coded = _kind_of(tensor) in ("integer", "float") and _has_axes(tensor)
            if coded and not _HAS_PARAMETER.search(name):
                fault = f"{name} is quantized already (its scale is {scales[base]}); "
                fault += "pyquant does not read this format"
                parts = {one: one for one in names if one != name}
                yield Found(name, {"codes": name, **parts}, (), fault)
                break


def _unscaled(tensors: Mapping[str, Any], name: str) -> Iterator[Found]:
    """Yield a weight with a fault if the tensor has narrow floats. No scale was found."""
    if _kind_of(tensors[name]) != "float" or not _scale_names(tensors[name], name):
        return
    expected = " or ".join([*_scale_names(tensors[name], name)][:2])
    type = type_of(tensors[name]).split("_")[0]
    fault = f"{name}: {type} codes without a scale; expected {expected}; "
    fault += "use --raw to treat codes as values"
    yield Found(name, {"codes": name}, (), fault)


def _kind_of(tensor: Any) -> str | None:
    """Return the kind of the element type, for example "real", or `None` if unknown."""
    row = dtypes.TYPES.get(type_of(tensor))
    return row.kind if row is not None else None


def _has_axes(tensor: Any) -> bool:
    return len(tensor.shape) > 0 and 0 not in tensor.shape


# ---- sizes of blocks ----


def likely_sizes(extent: int, groups: int, *, even: bool = False) -> Sequence[int]:
    """Return the likely sizes of groups, from an extent and the number of groups.

    The last group may be short. The size of a single group is the extent. The likely sizes
    are the powers of two that make `groups` groups. If `even` is true, the quotient of the
    extent and the number of groups is also likely, because compressed-tensors assumes this
    quotient. If no size is likely, the function returns all sizes that fit.
    """
    sizes = range(max(1, extent), extent + groups)
    if groups > 1:
        sizes = range(-(-extent // groups), -(-extent // (groups - 1)))
    powers = {one for one in sizes if one.bit_count() == 1}
    if len(sizes) == 1 or not powers:
        return sizes
    return sorted(powers | ({extent // groups} if even and extent % groups == 0 else set()))


def group_size(extent: int, groups: int, *, even: bool = False) -> int | None:
    """Return the only likely size of groups, or `None` if several or no sizes fit."""
    sizes = likely_sizes(extent, groups, even=even)
    return sizes[0] if len(sizes) == 1 else None


def block_shape(
    shape: tuple[int, ...],
    scales: tuple[int, ...],
    stated: Collection[tuple[int, ...]] = (),
    remedy: str = "config.json can state it as group_size or weight_block_size",
) -> tuple[int, ...]:
    """
    Return the extents of a block of codes that shares a scale.

    `shape` is the shape of the codes. `scales` is the shape of the scales. There is one
    scale, or a scale for each index of axis 0, or a grid with a scale for each block.
    `stated` has the block sizes in the configuration of the model. A stated size has an
    extent for each of the last axes. The function raises ValueError if the shapes do not
    fit, or if several block sizes fit. In the second case, the message ends with `remedy`.
    """
    if prod(scales) == 1:
        return tuple(max(1, n) for n in shape)
    if scales == shape[:1]:
        scales = (*scales, *(1,) * (len(shape) - 1))
    fault = f"expected scales for shape {shape}, got shape {scales}"
    if len(scales) != len(shape) or 0 in scales:
        raise ValueError(fault)
    whole = [(*(1,) * (len(shape) - len(sizes)), *sizes) for sizes in stated]
    grids = {
        sizes: tuple(-(-n // size) for n, size in zip(shape, sizes, strict=True))
        for sizes in whole
        if len(sizes) == len(shape)
    }
    fitting = {sizes for sizes, grid in grids.items() if grid == scales}
    # Sizes that reach the extent of an axis are equivalent: each makes one block.
    if len({tuple(map(min, sizes, shape)) for sizes in fitting}) == 1:
        return min(fitting)
    counts = [*zip(shape, scales, strict=True)]
    # Programs choose powers of two for blocks that are longer than 1 along several axes.
    # For blocks along the last axis only, equal groups are also likely.
    even = all(count in (1, n) for n, count in counts[:-1])
    likely = [
        sorted({one[axis] for one in fitting}) or likely_sizes(n, count, even=even)
        for axis, (n, count) in enumerate(counts)
    ]
    if not all(likely):
        raise ValueError(fault)
    if stated and not fitting and any(1 < count < n for n, count in counts):
        known = " or ".join(sorted("x".join(map(str, one)) for one in whole))
        got = f"scales of shape {scales} for shape {shape}"
        fit = " x ".join(listed(one) for one in likely)
        raise ValueError(
            f"expected blocks of {known}, which config.json or the metadata "
            f"states, got {got}, which fit blocks of {fit}"
        )
    for axis, sizes in enumerate(likely):
        if len(sizes) > 1:
            raise ValueError(
                f"expected one block size for {scales[axis]} scales along axis {axis} of "
                f"shape {shape}, got {listed(sizes)}; {remedy}"
            )
    return tuple(sizes[0] for sizes in likely)


def listed(sizes: Sequence[int]) -> str:
    """Return a list of sizes as text for an error message."""
    if isinstance(sizes, range) and len(sizes) > 1:
        return f"{sizes[0]} to {sizes[-1]}"
    return " or ".join(map(str, sizes))


def stated_in(path: str, text: object = None) -> dict[str, set[Any]]:
    """Return the facts about quantization in the configuration of a model.

    The configuration consists of the JSON text `text` and of the file config.json in the
    folder of `path`. The result has sets of all values that the configuration states. The
    keys are "sizes" (extents of blocks), "format" and "bits"."""
    texts: list[Any] = [text]
    file = os.path.join(os.path.dirname(path), "config.json")
    if path != "-" and os.path.isfile(file) and os.path.getsize(file) <= MAX_CONFIG:
        with open(file, "rb") as stream:
            texts.append(stream.read())
    found: dict[str, set[Any]] = {}
    for one in texts:
        try:
            for key, fact in _stated(json.loads(one)) if one is not None else ():
                found.setdefault(key, set()).add(fact)
        except (TypeError, ValueError, RecursionError):
            continue  # the text is not JSON, or the JSON value has an unexpected structure
    return found


def _stated(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the key and the value of each fact in a JSON value, for `stated_in`."""
    if isinstance(value, list):
        yield from chain.from_iterable(map(_stated, value))
    for key, one in value.items() if isinstance(value, dict) else ():
        sizes = [one] if key == "group_size" else one
        named = key in ("group_size", "weight_block_size", "block_structure")
        if named and type(sizes) is list and all(type(n) is int and n > 0 for n in sizes):
            yield "sizes", tuple(sizes)
        elif key == "checkpoint_format" and one in ("gptq", "gptq_v2"):
            yield "format", one
        elif key in ("bits", "num_bits") and type(one) is int:
            yield "bits", one
        elif isinstance(one, (dict, list)):
            yield from _stated(one)
