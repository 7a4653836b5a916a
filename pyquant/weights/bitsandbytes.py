# SPDX-License-Identifier: Apache-2.0
"""Read and write weights of bitsandbytes: NF4, FP4 and rows of int8.

The package bitsandbytes is not imported. Tensors have the names that the package uses in
safetensors files.
"""

from __future__ import annotations

import json
from collections import ChainMap
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex

import numpy as np

from pyquant import _check, _core, dtypes
from pyquant._check import array, fail, shown
from pyquant._codebooks import TABLES
from pyquant.packed import PackedArray
from pyquant.weights import _weight
from pyquant.weights._weight import REALS, Scaled, Weight

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyquant._typing import Array, ArrayLike, Bytes, Floats

__all__ = ["from_tensors", "quantize", "quantize_int8"]
__dir__: object = __all__.copy

_BOOKS = {"nf4": "nf4", "fp4": "fp4_bnb"}
_BLOCKS = (32, 64, 128, 256, 512, 1024, 2048, 4096)
_NESTED_BLOCK = 256
# Types of the tensor with packed codes (quant_storage), in addition to uint8. If ml_dtypes
# is not installed, a bfloat16 tensor is read as uint16.
_STORAGE = ("int8", "uint16", *REALS)
_STATES = {name: f"weight.quant_state.bitsandbytes__{name}" for name in _BOOKS}
_CODED = ("weight", "weight.absmax", "weight.quant_map")
_NESTED = ("weight.nested_absmax", "weight.nested_quant_map")
_ROWS = ("weight", "SCB")
_STEP = np.float32(0.007874015718698502)  # bitsandbytes' constant for 1 / 127
# The smallest divisor, and 1. They are arrays, because NumPy reads arrays faster.
_LEAST, _ONE = np.array(1e-38, np.float32), np.array(1, np.float32)
_MOST = float(np.finfo(np.float32).max)
_PIECE = 1 << 16  # number of elements in the buffer of np.nditer
# Number of elements that are quantized at a time, enough for several threads. It is a
# multiple of all block sizes.
_PART = 1 << 20


# ---- 4 bits ----


@_core.default_fpenv
def quantize(
    x: ArrayLike,
    *,
    block_size: SupportsIndex = 64,
    quant_type: str = "nf4",
    nested: bool = False,
    offset: SupportsFloat | None = None,
    threads: SupportsIndex = 1,
) -> Weight:
    """
    Quantize to NF4 or FP4, like `bitsandbytes.functional.quantize_4bit` on CPUs.

    Parameters
    ----------
    x : array_like
        Finite values of float32, float16 or bfloat16, of any shape and strides.
    block_size : int, optional
        Number of elements in C order that share a scale: 32, 64 (the default), 128, 256,
        512, 1024, 2048 or 4096.
    quant_type : {"nf4", "fp4"}, optional
        The table with the value of each code.
    nested : bool, optional
        True: also quantize the scales to 8 bits, in blocks of 256 scales. Default False.
    offset : float, optional
        With `nested`: the number that is subtracted from the scales before they are
        quantized. Default: the mean of the scales, computed in float64.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on it.

    Returns
    -------
    Weight
        Codes and scales. The weight also stores the name of the type of `x`.

    Notes
    -----
    Let m be the largest magnitude in a block. The quotient of an element x is
    ``x * (1 / max(m, 1e-38))``, and in a short last block ``x / max(m, 1e-38)``, computed
    in float32. The code is the index of the number in the table that is nearest to the
    quotient. If two numbers are equally near, the lower number is used.

    Codes and scales equal the results of bitsandbytes 0.50.2, bit for bit, except nested
    scales. The mean in bitsandbytes depends on PyTorch's order of additions. On CPUs,
    bitsandbytes does not find the nearest of the 256 numbers for a scale. pyquant finds the
    nearest number, like bitsandbytes on GPUs.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import bitsandbytes
    >>> w = bitsandbytes.quantize(np.float32([1, -1, 0.5, 0.25, -0.7, 0]))
    >>> w.tensors()["weight"].tobytes().hex(), w.tensors()["weight.absmax"].tolist()
    ('f0ca17', [1.0])
    >>> w.dequantize()[:2]
    array([ 1., -1.], dtype=float32)
    """
    size: int = _check.choice(block_size, "block_size", _BLOCKS)
    kind: str = _check.choice(quant_type, "quant_type", _BOOKS)
    is_nested = _check.flag(nested, "nested")
    if offset is not None and not is_nested:
        raise ValueError("offset: expected None without nested=True")
    values = array(x, "x", REALS)
    try:
        absmax, codes = _blocks_of(values, size, _BOOKS[kind], threads)
    except ValueError:
        _weight.refuse_nonfinite(values, "x")  # the error contains the index in `x`
        raise
    # This f-string is faster than `json.dumps`, and has equal text.
    state = f'"quant_type": "{kind}", "blocksize": {size}, '
    state += f'"dtype": "{dtypes.name_of(values.dtype)}", "shape": {[*values.shape]}'
    tensors: dict[str, Any] = {
        _CODED[0]: codes.reshape(-1, 1),
        _CODED[1]: absmax,
        _CODED[2]: TABLES[_BOOKS[kind]],
    }
    if is_nested:
        base = np.float32(_offset_of(offset, absmax))
        with np.errstate(all="ignore"):
            left = absmax - base
        scales = _absmax_of(left, _NESTED_BLOCK)
        how: dict[str, Any] = {"axis": 0, "block_size": _NESTED_BLOCK}
        how |= {"inverse": True, "codebook": "dynamic8"}
        tensors[_CODED[1]] = _core.quantize(left, _inverse_of(scales), **how)
        tensors |= dict(zip(_NESTED, (scales, TABLES["dynamic8"]), strict=True))
        state += f', "nested_blocksize": {_NESTED_BLOCK}, "nested_dtype": "float32"'
        state += f', "nested_offset": {float(base)!r}'
    tensors[_STATES[kind]] = np.frombuffer(f"{{{state}}}".encode(), np.uint8)
    return Weight("bitsandbytes", tensors, _read)


def _blocks_of(
    x: Array, size: int, book: str, threads: SupportsIndex
) -> tuple[Floats, Bytes]:
    """Return the scales and the codes of blocks, in C order of the elements."""
    if x.flags.c_contiguous and x.size % size == 0:
        flat = x.reshape(-1)
        absmax = _absmax_of(flat, size)
        return absmax, _encode(flat, absmax, size, book, threads)
    absmax = np.empty(-(-x.size // size), np.float32)
    codes = np.empty((x.size + 1) // 2, np.uint8)
    for begin, part in _parts_of(x):
        some = _absmax_of(part, size)
        made = _encode(part, some, size, book, threads)
        absmax[begin // size :][: some.size] = some
        codes[begin // 2 :][: made.size] = made
    return absmax, codes


def _parts_of(x: Array) -> Iterator[tuple[int, Array]]:
    """Yield consecutive elements in C order, and the index of the first element.

    Without C order in memory, each part is a copy, and all copies share one buffer.
    """
    if x.flags.c_contiguous:
        flat = x.reshape(-1)
        yield from ((at, flat[at : at + _PART]) for at in range(0, x.size, _PART))
        return
    room = np.empty(min(x.size, _PART), x.dtype)
    begin = filled = 0
    flags: Any = ["buffered", "external_loop", "zerosize_ok"]
    with np.nditer(x, flags, order="C", buffersize=_PIECE) as walk:
        some: Any
        for some in walk:
            done = 0
            while done < some.size:
                count = min(some.size - done, room.size - filled)
                room[filled : filled + count] = some[done : done + count]
                done, filled = done + count, filled + count
                if filled == room.size:
                    yield begin, room
                    begin, filled = begin + filled, 0
    if filled:
        yield begin, room[:filled]


def _encode(
    flat: Array, absmax: Floats, size: int, book: str, threads: SupportsIndex
) -> Bytes:
    """Return the packed codes of blocks.

    The quotients of complete blocks are products with the reciprocal of the scale. The
    elements of a short last block are divided by the scale, like in bitsandbytes.
    """
    whole = flat.size // size
    how: dict[str, Any] = {"layout": "high-first", "codebook": book, "threads": threads}
    made: Any = _core.quantize(
        *(flat[: whole * size], _inverse_of(absmax[:whole])),
        **(how | {"axis": 0, "block_size": size, "inverse": True}),
    )
    if whole == absmax.size:
        codes: Bytes = made.data
        return codes
    rest: Any = _core.quantize(flat[whole * size :], max(absmax[-1], _LEAST), **how)
    codes = np.concatenate([made.data, rest.data])
    if flat.size % 2:  # the last byte also needs a second code, the code of 0
        codes[-1] |= int(_core.quantize(0.0, 1.0, codebook=book))
    return codes


def _inverse_of(absmax: Floats) -> Floats:
    """Return the reciprocals of the largest magnitudes of blocks."""
    made: Floats = np.maximum(absmax, _LEAST)
    with np.errstate(all="ignore"):
        return np.divide(_ONE, made, out=made)


def _absmax_of(flat: Array, size: int) -> Floats:
    """Return the largest magnitude of each block. Raise an error for NaN and infinity."""
    found: Floats | None = _core.extrema(flat, (size,), True)
    # The first call returns `None` if a value is not finite. The second call then raises
    # the error.
    return _core.extrema(flat, (size,)) if found is None else found


def _offset_of(offset: SupportsFloat | None, absmax: Floats) -> SupportsFloat:
    if offset is None:
        return float(absmax.mean(dtype=np.float64)) if absmax.size else 0.0
    found = _check.number(offset, "offset")
    if not abs(found) <= _MOST:
        raise fail(ValueError, "offset", "a finite float32", offset)
    return found


# ---- rows of int8 codes ----


@_core.default_fpenv
def quantize_int8(x: ArrayLike, *, threads: SupportsIndex = 1) -> Weight:
    """
    Quantize rows to int8, as LLM.int8() stores weights.

    Parameters
    ----------
    x : array_like
        Finite values of float32, float16 or bfloat16, with two dimensions.
    threads : int, optional
        Largest number of threads. Default 1.

    Returns
    -------
    Weight
        int8 codes, and the largest magnitude of each row.

    Notes
    -----
    Let scb be the largest magnitude of a row. The codes are
    ``round_half_even(x * (127 * (1 / scb)))``. Each operation is rounded to float32. If scb
    is 0, the codes are 0. If ``127 * (1 / scb)`` exceeds float32, because scb is less than
    about 4e-37, the factor is the largest float32 number.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import bitsandbytes
    >>> w = bitsandbytes.quantize_int8(np.float32([[1, -2], [0, 0]]))
    >>> list(w.tensors().values())
    [array([[  64, -127],
           [   0,    0]], dtype=int8), array([2., 0.], dtype=float32)]
    """
    values = array(x, "x", REALS)
    rows, inputs = _weight.matrix_of(values, "x")
    low, high = _core.extrema(values, (1, max(inputs, 1))).reshape(2, rows)
    scb = np.maximum(-low, high).astype(np.float32) if inputs else np.zeros(rows, "f4")
    least = np.where(scb == 0, np.float32(1), scb)
    with np.errstate(all="ignore"):
        ratio = np.float32(127) * (np.float32(1) / least)
    ratio = np.minimum(ratio, np.float32(_MOST))
    how: dict[str, Any] = {"axis": 0, "inverse": True, "threads": threads}
    codes = _core.quantize(values, ratio, dtype="int8", **how)
    return Weight("bitsandbytes", {"weight": codes, "SCB": scb}, _read_rows)


# ---- files ----


@_core.hinted
def from_tensors(tensors: Mapping[str, Any], name: str = "") -> Weight:
    """
    Return a weight from the tensors that bitsandbytes stores, without a copy.

    Parameters
    ----------
    tensors : mapping
        A mapping from names to arrays. A weight of 4 bits has these tensors:

        - ``weight`` of a type of ``quant_storage``: uint8, int8, float16, bfloat16 or
          float32;
        - ``weight.absmax`` and ``weight.quant_map``;
        - ``weight.quant_state.bitsandbytes__nf4``, or the name with ``fp4`` at the end;
        - for nested scales, ``weight.nested_absmax`` and ``weight.nested_quant_map``.

        A weight with rows of int8 has the tensors ``weight`` and ``SCB``.
    name : str, optional
        Name of the weight, such as "layer.weight", or of its layer. Default: no name.

    Notes
    -----
    Values are ``quant_map[code] * absmax`` in float32. If scales are nested, ``absmax`` has
    8-bit codes, and a scale is ``nested_quant_map[code] * nested_absmax + offset``. Each
    operation is rounded to float32. The values equal bitsandbytes 0.50.2, except that code
    8 of FP4 is always +0. Values of int8 rows are ``code * SCB * 0.007874015718698502``,
    and both products are rounded to float32.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import bitsandbytes
    >>> w = bitsandbytes.quantize(np.float32([[3, 1], [0, -3]]), quant_type="fp4")
    >>> bitsandbytes.from_tensors(w.tensors("up"), "up.weight").dequantize()
    array([[ 3.,  1.],
           [ 0., -3.]], dtype=float32)
    """
    if _weight.tensor_of(tensors, name, "SCB") is not None:
        return _weight.make(_read_rows, tensors, name, _ROWS, stacks=False)
    data = _weight.tensor_of(tensors, name, "weight")
    if hasattr(data, "raw"):  # a StoredTensor, which `raw` reads even without ml_dtypes
        tensors = ChainMap({_weight.joined(name, "weight", tensors): data.raw}, {**tensors})
    rest = (*_NESTED, *_STATES.values())
    return _weight.make(_read, tensors, name, _CODED, rest, stacks=False)


def _read_rows(weight: Any, SCB: Any) -> tuple[str, dict[str, Array], Scaled]:
    """Check a weight with rows of int8, and return its common form."""
    codes = array(weight, "weight", ("int8",))
    rows, inputs = _weight.matrix_of(codes, "weight")
    scb = array(SCB, "SCB", ("float32",), (rows,))
    made = Scaled(codes, codes.shape, scb[:, np.newaxis], (1, inputs), factor=_STEP)
    return "bitsandbytes", _weight.by_name(_ROWS, codes, scb), made


@_core.default_fpenv
def _read(**given: Any) -> tuple[str, dict[str, Array], Scaled]:
    """Check the tensors of a weight of 4 bits, and return its common form."""
    keys = [key for key in _STATES.values() if key in given]
    if len(keys) != 1:
        raise fail(
            ValueError, "tensors", f"one of {', '.join(_STATES.values())}", len(keys)
        )
    get = _state_of(given[keys[0]], keys[0])
    get("quant_type", "'nf4' or 'fp4'", _BOOKS.__contains__)
    get("dtype", "float32, float16 or bfloat16", REALS.__contains__)
    size = get("blocksize", f"one of {_BLOCKS}", _is_block)
    extents = get(
        *("shape", "a list of integers from 0 on"),
        lambda value: type(value) is list and all(type(n) is int and n >= 0 for n in value),
    )
    shape: tuple[int, ...] = tuple(extents)
    count = prod(shape)
    scales = -(-count // size)
    data = array(given["weight"], "weight", ("uint8", *_STORAGE))
    if data.dtype != np.uint8:
        data = np.ascontiguousarray(data, data.dtype.newbyteorder("<")).view(np.uint8)
    nested = _NESTED[0] in given or _NESTED[1] in given
    inner, offset = 0, 0.0
    parts = [
        ("weight", data, "uint8", (count + 1) // 2),
        (_CODED[1], given[_CODED[1]], "uint8" if nested else "float32", scales),
        (_CODED[2], given[_CODED[2]], "float32", 16),
    ]
    if nested:
        inner = get("nested_blocksize", f"one of {_BLOCKS}", _is_block)
        offset = get(
            *("nested_offset", "a finite float32"),
            lambda value: type(value) in (int, float) and abs(value) <= _MOST,
        )
        groups = -(-scales // inner)
        due = ((_NESTED[0], groups), (_NESTED[1], 256))
        parts += [(key, given.get(key), "float32", n) for key, n in due]
    found = {key: _part(one, key, kind, n) for key, one, kind, n in parts}
    scale = found[_CODED[1]]
    if nested:
        how: dict[str, Any] = {"axis": 0, "block_size": inner}
        nested_scale, book = (found[key] for key in _NESTED)
        scale = _core.dequantize(scale, nested_scale, codebook=book, **how)
        with np.errstate(all="ignore"):
            scale += np.float32(offset)
    # If blocks do not cross rows, the weight keeps its shape. Otherwise, blocks divide the
    # one-dimensional sequence of all elements in C order.
    form: tuple[int, ...] = (count,)
    blocks: tuple[int, ...] = (size,)
    codes = found["weight"]
    if shape and shape[-1] and shape[-1] % size == 0:
        *lead, last = form = shape
        blocks = (*(1 for _ in lead), size)
        codes, scale = codes.reshape(*lead, last // 2), scale.reshape(*lead, last // size)
    packed = PackedArray(codes, "uint4", form, layout="high-first")
    made = Scaled(packed, shape, scale, blocks, None, found[_CODED[2]])
    stored = {**found, "weight": found["weight"].reshape(-1, 1), keys[0]: given[keys[0]]}
    return "bitsandbytes", stored, made


def _part(given: Any, key: str, kind: str, count: int) -> Array:
    """Return the tensor `key`. Check that it has one dimension and `count` elements."""
    made = array(given, key, (kind,))
    if made.size != count:
        raise fail(ValueError, key, f"size {count}", f"shape {made.shape}")
    return np.ascontiguousarray(made).reshape(-1)


def _state_of(text: Any, key: str) -> Callable[[str, str, Callable[[Any], bool]], Any]:
    """Read a JSON object, and return a function that checks and returns one item."""
    items = None
    with suppress(ValueError, RecursionError):
        if text.dtype == np.uint8 and text.size <= _PIECE:
            items = json.loads(text.tobytes())
    if not isinstance(items, dict):
        got = f"{text.size} elements of {text.dtype}"
        raise fail(ValueError, key, "a JSON object, as uint8", got)

    def get(item: str, expected: str, fits: Callable[[Any], bool]) -> Any:
        value = items.get(item)
        with suppress(TypeError):  # for example, a list cannot be hashed
            if fits(value):
                return value
        raise fail(ValueError, key, f"{expected} as {item}", f"{shown(value):.60}")

    return get


def _is_block(value: Any) -> bool:
    return type(value) is int and value in _BLOCKS
