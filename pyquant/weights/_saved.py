# SPDX-License-Identifier: Apache-2.0
"""Write files for `write_weights`, and read objects for `WeightFile.read`."""

from __future__ import annotations

import errno
import json
import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from pyquant import _core, dtypes
from pyquant._check import fail
from pyquant.packed import Layout, PackedArray
from pyquant.qparams import QParams
from pyquant.weights import _gguf, _safetensors
from pyquant.weights._elements import Part, bits_of, copied_bytes, special_kind
from pyquant.weights.files import RECORDS, StoredTensor, WeightFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from io import BufferedWriter

    from pyquant._typing import Array

    _Item = tuple[Part, Array]

PARTS = ("scale", "zero_point", "offset")
# Types with elements of less than 8 bits that safetensors files store without unused bits.
WHOLE = ("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn")


def write(path: str, weights: Mapping[str, Any], metadata: dict[str, Any]) -> None:
    """Write tensors to a temporary file in the folder of `path`, and rename the file."""
    for name in weights:
        if type(name) is not str:
            raise fail(TypeError, "weights", "strings for names", type(name))
    head: bytes | bytearray
    if path.endswith(".gguf"):
        items = [_blocks(name, value) for name, value in weights.items()]
        data = {part.name: array for part, array in items}
        kept = _gguf.unsplit(path, metadata)
        head, parts, alignment = _gguf.header([part for part, _ in items], kept)
    else:
        items, alignment = _recorded(weights, metadata), 1
        data = {part.name: array for part, array in items}
        head, parts = _safetensors.header([part for part, _ in items], metadata)
    with replacing(path) as (file,):
        file.write(head)
        for part in parts:
            _write_item(file, part, data[part.name], alignment)


@contextmanager
def replacing(*paths: str) -> Iterator[list[BufferedWriter]]:
    """Yield a temporary file for each path, and then rename each file to its path.

    Before the first file is renamed, all files are complete on the disk. Files are renamed
    in the order of `paths`. An error removes the temporary files that are left.
    """
    for path in paths:
        folder, kind = os.path.dirname(path), special_kind(path, replace=True)
        if folder and not os.path.isdir(folder):
            raise FileNotFoundError(errno.ENOENT, "path: the folder does not exist", folder)
        if kind is not None:
            expected = f"path: expected a regular file, got {kind}"
            raise FileExistsError(errno.EEXIST, expected, path)
    names = [f"{path}.{os.getpid()}.{os.urandom(4).hex()}.tmp" for path in paths]
    try:
        with ExitStack() as stack:
            files = []
            for path, name in zip(paths, names, strict=True):
                with naming(path):
                    files.append(stack.enter_context(open(name, "xb")))
            yield files
            for file in files:
                file.flush()
                os.fsync(file.fileno())
        for path, name in zip(paths, names, strict=True):
            os.replace(name, path)
    except BaseException:
        for name in names:
            if os.path.exists(name):
                os.unlink(name)
        raise


@contextmanager
def naming(path: str) -> Iterator[None]:
    """In an OSError, replace the name of the temporary file by `path`, its final name."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


def _write_item(file: BufferedWriter, part: Part, data: Any, alignment: int) -> None:
    written, is_raw = 0, data.dtype == np.uint8
    for piece in copied_bytes(data, 8 if is_raw else bits_of(part.format)):
        file.write(piece.data)
        written += piece.size
    file.write(bytes(-written % alignment))


def _blocks(name: str, value: Any) -> _Item:
    """Return the description and the data of a tensor for a GGUF file.

    `value` is an array, a stored tensor, or a pair of a format and the bytes of its blocks.
    """
    if not isinstance(value, (tuple, StoredTensor)):
        return _plain(name, value)
    if isinstance(value, tuple) and _is_pair(value) and value[0] == "bfloat16":
        return _rounded(name, value[1])
    if isinstance(value, StoredTensor):
        of_blocks = value.format in _gguf.FORMATS and value._type is None
        if of_blocks and not value._blocks:
            expected = "bytes of a format with that format beside them"
            raise fail(ValueError, "weights", expected, f"{value!r}")
        return _as_it_is(name, value)
    format, data = value if len(value) == 2 else (None, None)
    format = getattr(format, "name", format)
    is_bytes = isinstance(data, np.ndarray) and data.dtype == np.uint8
    if not isinstance(format, str) or format not in _gguf.FORMATS or not is_bytes:
        expected = "a format of GGUF and an array of uint8"
        got = f"{_shown(value)} for {name[:100]!r}"
        raise fail(TypeError, "weights", expected, got)
    data = _core.plain(data, "weights")
    block, each = _gguf.FORMATS[format]
    if not data.ndim or data.shape[-1] % each:
        expected = f"rows of a multiple of {each} bytes for {format}"
        raise fail(ValueError, "weights", expected, f"shape {data.shape}")
    shape = (*data.shape[:-1], data.shape[-1] // each * block)
    return Part(name, format, shape, data.nbytes), data


def _shown(pair: tuple[Any, ...]) -> str:
    """Describe a tuple for an error message about a wrong pair of a format and bytes."""
    if len(pair) != 2:
        return f"a tuple of {len(pair)}"
    format, data = getattr(pair[0], "name", pair[0]), pair[1]
    what = repr(format[:100]) if isinstance(format, str) else type(format).__name__
    if isinstance(data, np.ndarray):
        return f"{what} and an array of {dtypes.described(data)}"
    return f"{what} and {type(data).__name__}"


def _is_pair(value: Any) -> bool:
    """Return True for a pair of a format, or of a string, and any object."""
    if not isinstance(value, tuple) or len(value) != 2:
        return False
    return isinstance(getattr(value[0], "name", value[0]), str)


def _as_it_is(name: str, value: StoredTensor) -> _Item:
    if value._order == ">":
        raise fail(ValueError, "weights", "little-endian weights", f"{value!r}")
    return Part(name, value.format, value.shape, value.nbytes), value._bytes()


def _rounded(name: str, value: Any) -> _Item:
    """Return the description of a bfloat16 tensor, and the float32 array to round."""
    array = _core.plain(value, "weights")
    if array.dtype.newbyteorder("=") != np.float32:
        got = f"{dtypes.described(array)} for {name[:100]!r}"
        raise fail(TypeError, "weights", "float32 beside 'bfloat16'", got)
    return Part.of(name, "bfloat16", array.shape), array


def _plain(name: str, value: Any) -> _Item:
    """Return the description and the data of a tensor for an array of numbers."""
    array = _core.plain(value, "weights")
    dtype = dtypes.name_of(array.dtype)
    if dtype is None or array.dtype.kind in "OSUMm" or array.dtype.names:
        got = f"{dtypes.described(array)} for {name[:100]!r}"
        raise fail(TypeError, "weights", "an array of numbers", got)
    bits = bits_of(dtype) if dtype in WHOLE else array.dtype.itemsize * 8
    return Part(name, dtype, array.shape, array.size * bits // 8), array


def _recorded(weights: Mapping[str, Any], metadata: dict[str, Any]) -> list[_Item]:
    """Return the tensors to write, and add a record for `read` to `metadata`.

    The record describes packed arrays, parameters, and types that safetensors lacks.
    """
    items: list[_Item] = []
    records: dict[str, Any] = {}
    for name, value in weights.items():
        if isinstance(value, QParams):
            arrays = {part: getattr(value, f"_{part}") for part in PARTS}
            made = {part: one for part, one in arrays.items() if one is not None}
            items += [_plain(f"{name}.{part}", one) for part, one in made.items()]
            rest = [value.axis, value.block_size, value.fill, value.quant_range]
            records[name] = {"qparams": [value._name, *rest]}
        elif isinstance(value, PackedArray):
            record = [value._name, list(value.shape), *value.layout]
            records[name] = {"packed": record}
            items.append(_plain(name, value.data))
        elif isinstance(value, StoredTensor):
            items.append(_as_it_is(name, value))
        elif _is_pair(value) and value[0] == "bfloat16":
            items.append(_rounded(name, value[1]))
        elif _is_pair(value):
            expected = "an array, PackedArray or QParams for a safetensors file"
            got = f"{_shown(value)} for {name[:100]!r}"
            raise fail(TypeError, "weights", expected, got)
        else:
            items.append(_known(*_plain(name, value), records))
    names = [part.name for part, _ in items]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        got = f"{twice[:100]!r} twice"
        raise fail(ValueError, "weights", "different names", got)
    if RECORDS in metadata:
        raise fail(ValueError, "metadata", f"other keys than {RECORDS!r}", "it")
    if records:
        metadata[RECORDS] = json.dumps(records, separators=(",", ":"))
    return items


def _known(part: Part, array: Array, records: dict[str, Any]) -> _Item:
    """Return the description and the data of a tensor.

    If safetensors cannot store its type or number of bits, the tensor has type uint8.
    """
    if part.format not in dtypes.TYPES or (
        part.format in _safetensors.FORMATS.values()
        and array.size * bits_of(part.format) % 8 == 0
    ):
        return part, array
    records[part.name] = {"type": part.format}
    data = array.view(np.uint8)
    return Part(part.name, "uint8", part.shape, data.nbytes), data


def read(file: WeightFile, name: str) -> Array | PackedArray | QParams:
    """Return the object that `write_weights` wrote with a name."""
    text = file.metadata.get(RECORDS, "{}")
    try:
        records = json.loads(text)
        record = records.get(name, {})
        kind, said = next(iter(record.items()), ("", ()))
        if kind == "qparams":
            return _params(file, name, *said)
        if kind == "packed":
            return _packed(file[name], *said)
        if kind == "type":
            return _typed(file[name], str(said))
    except KeyError:
        raise
    except (TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
        said = " ".join(str(error).split())[:200]
        msg = f"{file.path}: expected metadata of pyquant for {name[:100]!r}, got {said}"
        raise ValueError(msg) from None
    return _whole(file[name])


def _whole(weight: StoredTensor) -> Array:
    return weight.dequantize(dtype=weight.dtype)


def _typed(weight: StoredTensor, dtype: str) -> Array:
    row = dtypes.TYPES.get(dtype)
    if weight.format != "U8" or row is None or row.nbytes != 1:
        raise ValueError(f"{weight!r} of type {dtype!r}")
    return _whole(weight).view(_core.dtype_named(dtype))


def _packed(
    weight: StoredTensor, dtype: str, shape: list[int], layout: str, axis: int, bits: int
) -> PackedArray:
    how = Layout(layout, axis=axis, bits=bits)
    return PackedArray(_whole(weight), dtype, tuple(shape), layout=how)


def _params(
    file: WeightFile, name: str, dtype: str, axis: Any, block: Any, fill: Any, limits: Any
) -> QParams:
    how: dict[str, Any] = {"axis": axis, "block_size": block, "fill": fill}
    how["quant_range"] = limits
    how = {key: tuple(one) if isinstance(one, list) else one for key, one in how.items()}
    for part in PARTS:
        if f"{name}.{part}" in file:
            how[part] = _whole(file[f"{name}.{part}"])
    return QParams(dtype=dtype, **how)
