# SPDX-License-Identifier: Apache-2.0
"""Recognise weights in published formats by the names and types of their tensors."""

from __future__ import annotations

import json
import os
import re
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from pyquant import dtypes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    _Finder = Callable[[Mapping[str, Any], Collection[str]], Iterator["Found"]]

__all__ = [
    "MARKER",
    "Found",
    "block_shape",
    "fitting_sizes",
    "found_in",
    "group_size",
    "likely_sizes",
    "listed",
    "named",
    "sizes_in",
    "type_of",
]

REALS = ("float32", "float64", "float16", "bfloat16")
# Suffixes of narrow floats, of their scales, and of the original tensor. Every scale is a
# factor of the codes, also a scale with the name "inv".
SCALES = (
    ("", "_scale", ""),  # compressed-tensors, FBGEMM, ModelOpt, ComfyUI
    ("", "_scale_inv", ""),  # DeepSeek, Qwen, MiniMax
    (".weight", ".scale", ".weight"),  # DeepSeek, without the package transformers
    (".weight", ".scale_weight", ".weight"),  # ComfyUI, earlier files
    (".weight", ".qscale_weight", ".weight"),  # Mistral
    (".weight", ".weights_scaling_factor", ".weight"),  # TensorRT-LLM
    ("._data", "._scale", ""),  # optimum-quanto
    ("._weight_qdata", "._weight_scale", ".weight"),  # torchao
)
MARKER = "scaled_fp8"  # the name of a float8 tensor that marks files of ComfyUI
MAX_CONFIG = 1 << 24  # bytes of a config.json


class _Format(NamedTuple):
    """
    Names of a format that only a module of pyquant decodes.

    A tensor has the format if its name ends with `codes`, its type is one of `types`, and
    a tensor with one of the suffixes `needs` exists with one of the types `scales`. No
    types means all types. No tensor may have a suffix of `without`, and `fits` must
    return true for the codes and their scales.
    """

    name: str
    module: str
    codes: str
    types: tuple[str, ...]
    needs: tuple[str, ...]
    rest: tuple[str, ...] = ()
    scales: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    fits: Callable[[Any, Any], bool] = lambda codes, scales: True


def _packs_outputs(codes: Any, scales: Any) -> bool:
    """Return true if 32-bit words hold eight outputs, as AWQ stores them."""
    return bool(scales.shape and codes.shape[-1:] == (scales.shape[-1] // 8,))


def _packs_inputs(codes: Any, scales: Any) -> bool:
    """Return true if 32-bit words hold several inputs, as GPTQ stores them."""
    return not _packs_outputs(codes, scales)


def _has_one_scale(codes: Any, scales: Any) -> bool:
    return bool(scales.size == 1)


_NF4, _FP4 = (f".quant_state.bitsandbytes__{name}" for name in ("nf4", "fp4"))
_NESTED = (".quant_map", ".nested_absmax", ".nested_quant_map")
_GLOBAL = ("_global_scale", "_scale_2")
_POWERS = ("uint8", "float8_e8m0fnu")
_E4M3 = ("float8_e4m3fn",)
_HALF = ("float16", "bfloat16")
_INTEGERS = ("int8", "uint8", "int32")
_WORDS = ("int32", "uint32")
_ZEROS = (".qzeros", ".g_idx")
_POINTS = ("_zero_point", "_g_idx")
_VPTQ = (
    *(".res_centroids.weight", ".outlier_indices", ".outlier_centroids.weight"),
    *(".weight_scale", ".weight_bias", ".perm"),
)
FORMATS = (
    _Format("bitsandbytes", "bitsandbytes", "", (), (".absmax", _NF4, _FP4), _NESTED),
    _Format("bitsandbytes", "bitsandbytes", ".weight", ("int8",), (".SCB",)),
    _Format("NVFP4", "nvfp4", "_packed", ("uint8",), ("_scale",), _GLOBAL, _E4M3),
    _Format("NVFP4", "nvfp4", "", ("uint8",), ("_scale",), _GLOBAL, _E4M3),
    _Format("MXFP4", "mx", "_packed", ("uint8",), ("_scale",), (), _POWERS),
    _Format("MXFP4", "mx", "_blocks", ("uint8",), ("_scales",), (), _POWERS),
    _Format("MXFP4", "mx", "", ("uint8",), ("_scale",), (), _POWERS),
    _Format("MXFP4", "mx", ".weight", _INTEGERS, (".scale",), (), _POWERS),
    _Format("AWQ", "awq", ".qweight", _WORDS, (".scales",), _ZEROS, fits=_packs_outputs),
    _Format("GPTQ", "gptq", ".qweight", _WORDS, (".scales",), _ZEROS, fits=_packs_inputs),
    _Format("MLX", "mlx", ".weight", ("uint32",), (".scales",), (".biases",)),
    _Format("AQLM", "", ".codes", (), (".codebooks",), (".scales",)),
    _Format("Marlin", "", ".B", ("int32",), (".s",), (".workspace",), ("float16",)),
    _Format("Marlin 2:4", "", ".B_24", ("int32",), (".s",), (".B_meta",), ("float16",)),
    _Format("QQQ", "", ".B", ("int32",), (".s_channel",), (".s_group",)),
    _Format("QQQ", "", ".qweight", ("int32",), (".s_channel",), (".s_group",)),
    _Format("SqueezeLLM", "", ".qweight", ("int32",), (".lookup_table",)),
    _Format("SVDQuant", "", ".qweight", ("int8",), (".wscales",), (".smooth_factor",)),
    _Format("VPTQ", "", ".indices", (), (".centroids.weight",), _VPTQ),
    _Format(
        *("BitNet", "", ".weight", ("uint8",), (".weight_scale",), (), _HALF),
        *((".weight_zero_point",), _has_one_scale),
    ),
    _Format(
        *("compressed-tensors without a shape", "compressed_tensors", "_packed"),
        *(_WORDS, ("_scale",), _POINTS, (), ("_shape",)),
    ),
)


def _words(*words: str) -> re.Pattern[str]:
    """Return a pattern for words of a name, which dots and underscores separate."""
    return re.compile(rf"(?:^|[._]+)(?:{'|'.join(words)})(?![^._])", re.IGNORECASE)


# Words of names. Tensors of a weight have equal names without these words.
_SCALE = ("scales?", "scaling", "scb", "absmax")
_ZERO = ("zeros?", "qzeros", "points?", "shift")
_CODES = ("q?weights?", "w", "q", "q?data", "packed", "codes", "blocks")
_HAS_SCALE, _HAS_PARAMETER = _words(*_SCALE), _words(*_SCALE, *_ZERO)
_ROLES = _words(*_SCALE, *_ZERO, *_CODES, "factor", "inv", "per", "tensor", "meta")


class Found(NamedTuple):
    """
    A weight in a published format.

    `name` is the name of the original tensor. `parts` maps "codes", "scale", "zero_point",
    "shape" and other keys to names of tensors. `fault` is the reason why scales and codes
    alone do not determine the values, or `None`.
    """

    name: str
    parts: dict[str, str]
    fault: str | None = None


def type_of(tensor: Any) -> str:
    """Return the name of the element type; of blocks and unknown types the format.

    A tensor of a weight file has the name of its type even without ml_dtypes.
    """
    stored = getattr(tensor, "_tensor", None)
    dtype = tensor.dtype if stored is None else stored.dtype
    name = dtype if stored is not None or dtype is None else dtypes.name_of(dtype)
    return str(name or dtype or tensor.format)


def found_in(tensors: Mapping[str, Any], known: Collection[str] = ()) -> Iterator[Found]:
    """
    Find the weights of published formats.

    Parameters
    ----------
    tensors : mapping
        Names to tensors with the attributes of `pyquant.Weight`.
    known : collection of str
        Names of tensors that belong to a weight already.

    Yields
    ------
    Found
        A weight. Narrow floats without a scale have a fault, too.
    """
    taken = {*known}
    finders = (*map(_each, (_undecoded, _packed, _scaled)), _related, _each(_unscaled))
    for find in finders:
        for made in find(tensors, taken):
            taken.update(made.parts.values())
            yield made


def _each(find: Callable[[Mapping[str, Any], str], Found | None]) -> _Finder:
    """Make a finder of a function that looks for the weight of one name."""

    def found(tensors: Mapping[str, Any], taken: Collection[str]) -> Iterator[Found]:
        for name in tensors:
            made = find(tensors, name) if name not in taken else None
            if made is not None:
                yield made

    return found


def named(tensors: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the names of the weights, and the modules that may read them.

    The name is empty if the tensors have the names of a format.
    """
    dotted = {f".{name}": tensor for name, tensor in tensors.items()}
    found: dict[str, list[str]] = {}
    for name in dotted:
        for row, base, _ in _rows_of(dotted, name):
            if row.module != "compressed_tensors":
                found.setdefault(base[1:], []).append(row.module)
        base = name.removesuffix(".weight_packed")
        has_scale = base != name and f"{base}.weight_scale" in dotted
        if has_scale and _has_type(dotted[name], _WORDS):
            found.setdefault(base[1:], []).append("compressed_tensors")
    return found


def _rows_of(
    tensors: Mapping[str, Any], name: str
) -> Iterator[tuple[_Format, str, list[str]]]:
    """Yield the formats of codes with a name, the name of the weight, and its tensors."""
    for row in FORMATS:
        base = name.removesuffix(row.codes)
        if (row.codes and base == name) or not _has_type(tensors[name], row.types):
            continue
        needed = [f"{base}{one}" for one in row.needs if f"{base}{one}" in tensors]
        if not needed or not _has_type(tensors[needed[0]], row.scales):
            continue
        if any(f"{base}{one}" in tensors for one in row.without):
            continue
        if not row.fits(tensors[name], tensors[needed[0]]):
            continue
        rest = [f"{base}{one}" for one in row.rest if f"{base}{one}" in tensors]
        yield row, base, [name, *needed, *rest]


def _undecoded(tensors: Mapping[str, Any], name: str) -> Found | None:
    """Find a weight that only a module of pyquant decodes."""
    for row, base, names in _rows_of(tensors, name):
        read = f"use pyquant.weights.{row.module}"
        use = read if row.module else "pyquant does not read this format"
        fault = f"{name} is quantized already ({row.name}); {use}"
        return Found(base, {one: one for one in names}, fault)
    return None


def _has_type(tensor: Any, types: tuple[str, ...]) -> bool:
    return not types or type_of(tensor) in types


def _packed(tensors: Mapping[str, Any], name: str) -> Found | None:
    """Find words of compressed-tensors with their shape and scales."""
    base = name.removesuffix("_packed")
    shape = tensors.get(f"{base}_shape")
    if base == name or shape is None or f"{base}_scale" not in tensors:
        return None
    if type_of(tensors[name]) != "int32" or type_of(shape) not in ("int32", "int64"):
        return None
    if shape.ndim != 1 or not 0 < shape.size <= 8:
        return None
    return _with_scale(tensors, base, name, f"{base}_scale", f"{base}_shape")


def _scaled(tensors: Mapping[str, Any], name: str) -> Found | None:
    """Find codes with a scale."""
    for scale, original in _scale_names(tensors[name], name).items():
        if scale in tensors:
            return _with_scale(tensors, original, name, scale, None)
    return None


def _scale_names(tensor: Any, name: str) -> dict[str, str]:
    """Map the possible names of a scale to the names of the original tensor."""
    spellings = {"int8": 2, "uint8": 1}.get(type_of(tensor), 0)
    narrow = _kind_of(tensor) == "float" and not name.endswith(MARKER)
    return {
        f"{base}{scale}": f"{base}{original}"
        for codes, scale, original in (SCALES if narrow else SCALES[:spellings])
        if ((base := name.removesuffix(codes)) != name or not codes) and _has_axes(tensor)
    }


def _related(tensors: Mapping[str, Any], taken: Collection[str]) -> Iterator[Found]:
    """Find codes beside a scale with another name of the weight, in any spelling."""
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
                yield Found(name, {one: one for one in names}, fault)
                break


def _unscaled(tensors: Mapping[str, Any], name: str) -> Found | None:
    """Find narrow floats without a scale."""
    if _kind_of(tensors[name]) != "float" or not _scale_names(tensors[name], name):
        return None
    expected = " or ".join([*_scale_names(tensors[name], name)][:2])
    type = type_of(tensors[name]).split("_")[0]
    fault = f"{name}: {type} codes without a scale; expected {expected}; "
    return Found(name, {"codes": name}, f"{fault}use --raw to treat codes as values")


def _kind_of(tensor: Any) -> str | None:
    """Return the kind of the elements in the table of types; `None` for other types."""
    row = dtypes.TYPES.get(type_of(tensor))
    return row.kind if row is not None else None


def _has_axes(tensor: Any) -> bool:
    return len(tensor.shape) > 0 and 0 not in tensor.shape


def _with_scale(
    tensors: Mapping[str, Any], name: str, codes: str, scale: str, shape: str | None
) -> Found:
    parts: dict[str, str] = {"codes": codes, "scale": scale}
    if f"{name}_zero_point" in tensors:
        parts["zero_point"] = f"{name}_zero_point"
    if shape is not None:
        parts["shape"] = shape
    marker = f"{name.removesuffix('.weight')}.comfy_quant"  # a description of the codes
    if marker in tensors:
        parts["marker"] = marker
    order, fault = f"{name}_g_idx", None
    if order in tensors:
        parts["g_idx"] = order
        groups = tensors[order].decode(dtype=tensors[order].dtype)
        if not (groups == -1).all():
            fault = f"{codes} has reordered groups ({order}); "
            fault += "use pyquant.weights.compressed_tensors"
    for part in (f"{name}{one}" for one in _GLOBAL):
        if part in tensors:
            parts[part], fault = (
                part,
                f"{codes} has two scales ({part}); use pyquant.weights.nvfp4",
            )
    return Found(name, parts, fault)


# ---- sizes of blocks ----


def fitting_sizes(extent: int, groups: int) -> range:
    """Return the group sizes that divide an extent into a number of groups.

    The last group may be short. One group has the size of the extent.
    """
    if groups <= 1:
        return range(max(1, extent), extent + groups)
    return range(-(-extent // groups), -(-extent // (groups - 1)))


def likely_sizes(extent: int, groups: int, *, even: bool = False) -> Sequence[int]:
    """Return the fitting sizes that programs choose.

    These are the powers of two and, if `even` is true, the size of equal groups, which
    compressed-tensors derives. Without a fitting power of two, all fitting sizes are
    returned.
    """
    sizes = fitting_sizes(extent, groups)
    powers = {one for one in sizes if one.bit_count() == 1}
    if len(sizes) == 1 or not powers:
        return sizes
    return sorted(powers | ({extent // groups} if even and extent % groups == 0 else set()))


def group_size(extent: int, groups: int, *, even: bool = False) -> int | None:
    """Return the only likely size; `None` if there are several sizes or none."""
    sizes = likely_sizes(extent, groups, even=even)
    return sizes[0] if len(sizes) == 1 else None


def block_shape(
    shape: tuple[int, ...],
    scales: tuple[int, ...],
    stated: Collection[tuple[int, ...]] = (),
) -> tuple[int, ...]:
    """
    Return the extents of the block that shares a scale.

    Parameters
    ----------
    shape : tuple of int
        Shape of the codes.
    scales : tuple of int
        Shape of the scales: one scale, one for each index of axis 0, or a grid.
    stated : collection of tuple of int
        Sizes along the last axes that the configuration of the model states.

    Returns
    -------
    tuple of int
        An extent for each axis.

    Raises
    ------
    ValueError
        If the scales do not fit the shape or the stated sizes, or if several sizes fit.
    """
    if prod(scales) == 1:
        return tuple(max(1, n) for n in shape)
    if scales == shape[:1]:
        scales = (*scales, *(1,) * (len(shape) - 1))
    fault = f"expected scales for shape {shape}, got shape {scales}"
    if len(scales) != len(shape) or 0 in scales:
        raise ValueError(fault)
    whole = [(*(1,) * (len(shape) - len(sizes)), *sizes) for sizes in stated]
    fitting = {sizes for sizes in whole if _counts(shape, sizes) == scales}
    # Sizes beyond the extent of an axis describe one block.
    if len({tuple(map(min, sizes, shape)) for sizes in fitting}) == 1:
        return min(fitting)
    counts = [*zip(shape, scales, strict=True)]
    # Blocks along several axes have powers of two: programs do not derive their sizes.
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
                f"shape {shape}, got {listed(sizes)}; config.json can state it as "
                "group_size or weight_block_size"
            )
    return tuple(sizes[0] for sizes in likely)


def _counts(shape: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, ...] | None:
    if len(sizes) != len(shape):
        return None
    return tuple(-(-n // size) for n, size in zip(shape, sizes, strict=True))


def listed(sizes: Sequence[int]) -> str:
    """Return sizes as text."""
    if isinstance(sizes, range) and len(sizes) > 1:
        return f"{sizes[0]} to {sizes[-1]}"
    return " or ".join(map(str, sizes))


def sizes_in(path: str, text: object = None) -> set[tuple[int, ...]]:
    """Return the block sizes that a configuration states: a JSON text, and the file
    config.json in the folder of a path."""
    texts: list[Any] = [text]
    file = os.path.join(os.path.dirname(path), "config.json")
    if path != "-" and os.path.isfile(file) and os.path.getsize(file) <= MAX_CONFIG:
        with open(file, "rb") as stream:
            texts.append(stream.read())
    found: set[tuple[int, ...]] = set()
    for one in texts:
        try:
            found |= {*_sizes(json.loads(one))} if one is not None else set()
        except (TypeError, ValueError, RecursionError):
            continue  # a configuration that is no JSON states no size
    return found


def _sizes(value: Any) -> Iterator[tuple[int, ...]]:
    """Find the sizes in a JSON value."""
    if isinstance(value, list):
        yield from chain.from_iterable(map(_sizes, value))
    for key, one in value.items() if isinstance(value, dict) else ():
        sizes = [one] if key == "group_size" else one
        named = key in ("group_size", "weight_block_size", "block_structure")
        if named and type(sizes) is list and all(type(n) is int and n > 0 for n in sizes):
            yield tuple(sizes)
        elif isinstance(one, (dict, list)):
            yield from _sizes(one)
