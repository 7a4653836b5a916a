# SPDX-License-Identifier: Apache-2.0
"""Make the arrays of a form at a size, and the calls of pyquant on these arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import pyquant as pq
from benchmarks import dtypes
from benchmarks.forms import Form
from pyquant import _core, onnx

Array: TypeAlias = np.ndarray[Any, Any]
Shape: TypeAlias = tuple[int, ...]

SCALE = 0.02
COLUMNS = 1024
RAGGED_COLUMNS = 56  # not a multiple of 32
FEATURES = 768
CHANNELS = 3
LINE = 64
# At these magnitudes of `x`, the remainder of a division underflows.
TINY = {"float32": np.float32(1e-33), "float64": 1e-310}
# The number of elements on which the results of rivals are compared, with values that are
# hard to round.
HARD_COUNT = 1 << 14
# If a form has a fill value, the distance in elements of the elements that are NaN.
FILL_STEP = 64


class Case(NamedTuple):
    """
    The arrays and parameters of a form at one size.

    `x` is the input as a NumPy array. `given` is the input of pyquant: `x`, or a
    `PackedArray` of its codes. `spread`, `zero_spread` and `offset_spread` are scale, zero
    point and offset in a shape that broadcasts to `x`. `where` has the arguments `axis` and
    `block_size`.
    """

    form: Form
    x: Array
    given: Any
    out: Array | None
    scale: Any
    spread: Any
    zero: Any
    zero_spread: Any
    offset: Any
    offset_spread: Any
    where: dict[str, Any]

    @property
    def elements(self) -> int:
        """The number of elements that a call converts."""
        return self.x.size

    @property
    def nbytes(self) -> int:
        """The number of bytes of input, parameters and result."""
        result = self.x.size * dtypes.dtype_named(self.form.target).itemsize
        if self.form.packed and self.form.quantizes:
            result = dtypes.packed_bytes(self.form.target, self.x.size)
        if self.form.through == "choose":
            result = 0  # the results are the scales, which the sum below contains
        zeros = self.zero.nbytes if self.form.zeros else 0
        offset = np.asarray(self.offset).nbytes if self.form.offset else 0
        scale = np.asarray(self.scale).nbytes
        return int(self.given.nbytes + result + scale + offset + zeros)


# ---- granularities: size -> shape of x, and the arguments axis and block_size ----


def _flat(n: int) -> tuple[Shape, dict[str, Any]]:
    return (n,), {}


def _matrix(n: int, columns: int = COLUMNS) -> Shape:
    columns = min(n, columns)
    return (n // columns, columns)


def _axis(axis: int, n: int, columns: int = COLUMNS) -> tuple[Shape, dict[str, Any]]:
    return _matrix(n, columns), {"axis": axis}


def _block(size: int, n: int, columns: int = COLUMNS) -> tuple[Shape, dict[str, Any]]:
    shape = _matrix(n, columns)
    return shape, {"axis": 1, "block_size": min(size, shape[1])}


def _plane(side: int, n: int) -> tuple[Shape, dict[str, Any]]:
    return (max(1, n // side**2), side, side), {"axis": 0}


def _channels(n: int) -> tuple[Shape, dict[str, Any]]:
    return (CHANNELS, *_matrix(max(1, n // CHANNELS))), {"axis": 0}


def _tile(size: int, n: int) -> tuple[Shape, dict[str, Any]]:
    rows = 1 << (n.bit_length() - 1) // 2
    shape = (rows, n // rows)
    return shape, {"block_size": (min(size, shape[0]), min(size, shape[1]))}


GRANULARITIES: dict[str, Callable[[int], tuple[Shape, dict[str, Any]]]] = {
    "tensor": _flat,
    "unit": _flat,  # one scale, which is 1
    "axis": partial(_axis, 1),
    "first": partial(_axis, 0),
    "each": partial(_block, 1),  # one scale for each element
    "block16": partial(_block, 16),
    "block32": partial(_block, 32),
    "block64": partial(_block, 64),
    "block128": partial(_block, 128),
    "plane7": partial(_plane, 7),
    "plane14": partial(_plane, 14),
    "tile128": partial(_tile, 128),
    "features": partial(_axis, 1, columns=FEATURES),
    "channels": _channels,
    "ragged32": partial(_block, 32, columns=RAGGED_COLUMNS),
    "rows32": partial(_axis, 0, columns=32),
}


def block_extents(shape: Shape, where: dict[str, Any]) -> Shape:
    """Return the extent of a block along each dimension."""
    axis, size = where.get("axis"), where.get("block_size")
    if isinstance(size, tuple):
        return size
    if size is not None:
        return tuple(size if d == axis else 1 for d in range(len(shape)))
    return tuple(1 if d == axis else extent for d, extent in enumerate(shape))


def _spread(scale: Array, shape: Shape, blocks: Shape) -> Array:
    """Return scales that broadcast to `shape`, repeated along axes with several blocks."""
    counts = [-(-n // b) for n, b in zip(shape, blocks, strict=True)]
    wide = scale.reshape(counts)
    for d, block in enumerate(blocks):
        if block > 1 and counts[d] > 1:
            # The last block may be short.
            wide = np.repeat(wide, block, axis=d).take(range(shape[d]), axis=d)
    return wide


def _scales(form: Form, shape: Shape, where: dict[str, Any]) -> tuple[Any, Any]:
    """Return scales in the shape for pyquant, and in a shape that NumPy broadcasts."""
    compute = np.dtype(form.computed).type
    # float16 and bfloat16 represent these scales, for rivals with scales of 16 bits.
    narrow = np.float16 if form.real in ("float16", "bfloat16") else np.float32
    if not where:
        usual = 1 / SCALE if form.inverse else SCALE
        one = 1.0 if form.granularity == "unit" else float(np.asarray(usual, narrow))
        return one, compute(one)
    blocks = block_extents(shape, where)
    counts = [-(-n // b) for n, b in zip(shape, blocks, strict=True)]
    values = np.random.default_rng(1).uniform(SCALE / 2, 2 * SCALE, counts)
    scale: Array = values.astype(narrow).astype(np.float32)
    spread = _spread(scale, shape, blocks)
    return (scale if "block_size" in where else scale.reshape(-1)), spread


def _zeros(form: Form, scale: Any, shape: Shape, where: dict[str, Any]) -> tuple[Any, Any]:
    """Return zero points in the shape for pyquant, and in a shape that NumPy broadcasts."""
    if form.zeros is None:
        return form.zero_point, form.zero_point
    middle = 1 << 7 if form.code.startswith("u") else 0
    drawn = np.random.default_rng(3).integers(middle - 20, middle + 20, scale.shape)
    zero: Array = drawn.astype(form.zeros)
    return zero, _spread(zero, shape, block_extents(shape, where))


def _offsets(
    form: Form, scale: Any, shape: Shape, where: dict[str, Any]
) -> tuple[Any, Any]:
    """Return offsets in the shape for pyquant, and in a shape that NumPy broadcasts."""
    if not form.offset:
        return None, None
    drawn = np.random.default_rng(4).uniform(-1, 1, np.shape(scale)).astype(np.float32)
    if not where:
        return float(drawn), np.dtype(form.computed).type(drawn)
    if form.repeats_offset:
        drawn = np.broadcast_to(drawn[:1], drawn.shape)
    return drawn, _spread(drawn, shape, block_extents(shape, where))


# ---- layouts: functions that make an array of a shape and a dtype ----


def _c_order(shape: Shape, dtype: Any) -> Array:
    # Reads of np.zeros would be too fast: until a write, all pages are one page of zeros.
    return np.ones(shape, np.uint8).astype(dtype)


def _every_second(shape: Shape, dtype: Any) -> Array:
    return _c_order((*shape[:-1], 2 * shape[-1]), dtype)[..., ::2]


def _transposed(shape: Shape, dtype: Any) -> Array:
    return _c_order(shape[::-1], dtype).T


def _past_line(shape: Shape, dtype: Any) -> Array:
    """Return an array that begins 16 bytes past a cache line, like large ones of NumPy."""
    nbytes = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.ones(nbytes + 2 * LINE, np.uint8)
    begin = -memory.ctypes.data % LINE + 16
    array: Array = memory[begin : begin + nbytes].view(dtype).reshape(shape)
    return array


def _as_pixels(shape: Shape, dtype: Any) -> Array:
    """Return channels, rows and columns, with the channels of a pixel contiguous."""
    return _c_order((*shape[1:], shape[0]), dtype).transpose(2, 0, 1)


def _as_reversed_pixels(shape: Shape, dtype: Any) -> Array:
    """Return channels, rows and columns of pixels with channels in reverse order."""
    return _as_pixels(shape, dtype)[::-1]


def _in_records(shape: Shape, dtype: Any) -> Array:
    """Return the rows of a structured array. Each record has a scale and a row."""
    kind = np.dtype([("scale", np.float32), ("row", dtype, shape[1:])])
    rows: Array = _c_order(shape[:1], np.uint8).astype(kind)["row"]
    return rows


Layout: TypeAlias = Callable[[Shape, Any], Array]
LAYOUTS: dict[str, tuple[Layout, Layout]] = {
    "plain": (_c_order, _c_order),
    "in2": (_every_second, _c_order),
    "out2": (_c_order, _every_second),
    "transposed": (_transposed, _c_order),
    "line16": (_past_line, _past_line),
    "records": (_in_records, _in_records),
    "from_pixels": (_as_pixels, _c_order),
    "from_reversed": (_as_reversed_pixels, _c_order),
    "to_pixels": (_c_order, _as_pixels),
}


# ---- data ----


def fill(case: Case) -> None:
    """Fill a real input with normal numbers. Do nothing for codes."""
    if case.form.quantizes:
        rng = np.random.default_rng(0)
        values: Array = rng.standard_normal(case.x.size, np.float32)
        if case.form.tiny:
            values = values.astype(case.form.computed)
            values[rng.random(case.x.size) < case.form.tiny] *= TINY[case.form.computed]
        case.x[...] = values.astype(case.x.dtype).reshape(case.x.shape)
        _settle(case)


def _settle(case: Case) -> None:
    """Clip the input to the range of the codes, or add NaN, if the form requires this."""
    limits = dtypes.limits(case.form.target)
    if case.form.out_of_range == "raise" and limits is not None:
        np.clip(case.x, *(end * case.spread for end in limits), out=case.x)
    if case.form.fill is not None:
        case.x.flat[::FILL_STEP] = np.nan


def fill_hard(case: Case) -> None:
    """Fill the start of a real input with values that become ties after the division."""
    if not case.form.quantizes or case.x.size == 0:
        return
    rng = np.random.default_rng(2)
    values: Array
    scale: Array = np.broadcast_to(case.spread, case.x.shape).reshape(-1)[:HARD_COUNT]
    if case.form.code.startswith("float"):
        values = rng.standard_normal(scale.size) * np.exp2(rng.uniform(-9, 1, scale.size))
    else:
        values = rng.integers(-300, 300, scale.size) + 0.5
    flat = np.array(case.x, copy=True).reshape(-1)
    limit = 5.0 if case.form.code.startswith("float") else np.inf
    hard = values.clip(-limit, limit)
    hard = hard / scale if case.form.inverse else hard * scale
    if case.offset is not None:
        shift = np.broadcast_to(case.offset_spread, case.x.shape)
        hard = hard + shift.reshape(-1)[: scale.size]
    flat[: scale.size] = hard
    case.x[...] = flat.reshape(case.x.shape)
    _settle(case)


def _codes(form: Form, shape: Shape) -> Array:
    """Return random codes. Integer codes are from -128 to 255, and floats are not NaN."""
    limits = dtypes.limits(form.source)
    rng = np.random.default_rng(0)
    if limits is not None:
        lo, hi = max(limits[0], -128), min(limits[1], 255)
        return rng.integers(lo, hi, shape, endpoint=True)
    return rng.standard_normal(shape, np.float32)


def build(form: Form, n: int) -> Case:
    """
    Make the arrays of a form for about `n` elements.

    Raises
    ------
    ImportError
        If a dtype of the form needs ml_dtypes, and the package is missing.
    """
    source, target = dtypes.dtype_named(form.source), dtypes.dtype_named(form.target)
    shape, where = GRANULARITIES[form.granularity](n)
    if form.layout == "transposed":
        shape = _matrix(n)[::-1]
    scale, spread = _scales(form, shape, where)
    offset, offset_spread = _offsets(form, scale, shape, where)
    zero, zero_spread = _zeros(form, scale, shape, where)
    make_x, make_out = LAYOUTS[form.layout]
    x = make_x(shape, source)
    if not form.quantizes:
        x[...] = _codes(form, shape).astype(source)
        if form.fill is not None:
            x.flat[::FILL_STEP] = form.fill
    given: Any = pq.pack(x) if form.packed and not form.quantizes else x
    no_out = (
        form.fresh or (form.packed and form.quantizes) or form.through in ("choose", "onnx")
    )
    out = None if no_out else make_out(shape, target)
    placed = (scale, spread, zero, zero_spread, offset, offset_spread)
    case = Case(form, x, given, out, *placed, where)
    fill(case)
    return case


# ---- calls of pyquant ----


def _method(case: Case) -> Callable[[], Any]:
    form = case.form
    return partial(
        pq.QParams(case.scale, case.zero, form.target, **case.where).quantize,
        case.given,
        out=case.out,
    )


def _operator(case: Case) -> Callable[[], Any]:
    form = case.form
    zero = np.asarray(case.zero, dtypes.dtype_named(form.code))
    scale = np.asarray(case.scale, np.float32)
    name = "quantize_linear" if form.quantizes else "dequantize_linear"
    return partial(getattr(onnx, name), case.given, scale, zero, **case.where)


def _choice(case: Case) -> Callable[[], Any]:
    return partial(pq.choose_qparams, case.given, dtype=case.form.target, **case.where)


# Calls that run only with the active instruction set: methods and operators.
CALLS: dict[str, Callable[[Case], Callable[[], Any]]] = {
    "qparams": _method,
    "onnx": _operator,
    "choose": _choice,
}


def pyquant_call(case: Case, isa: str, threads: int | None = None) -> Callable[[], Any]:
    """
    Return the call of pyquant that the form describes, with the kernels of `isa`.

    Like most users, the call omits arguments with default values.
    """
    form = case.form
    if form.through in CALLS:
        return CALLS[form.through](case)
    keywords = dict(case.where)
    zero = (case.zero,) if form.zero_point or form.zeros else ()
    optional = {
        "rounding": (form.rounding, "half_even"),
        "precision": (form.precision, None),
        "offset": (case.offset, None),
        "inverse": (form.inverse, False),
        "fill": (form.fill, None),
        "out_of_range": (form.out_of_range, "saturate"),
        "packed": (form.packed and form.quantizes, False),
        "out": (case.out, None),
        "threads": (threads or form.threads, 1),
    }
    keywords |= {k: value for k, (value, usual) in optional.items() if value is not usual}
    keywords["dtype"] = form.target
    public = pq.quantize if form.quantizes else pq.dequantize
    call = partial(public, case.given, case.scale, *zero, **keywords)
    return call if isa == pq.isa.active() else partial(at_level, isa, call)


def at_level(isa: str, call: Callable[[], Any]) -> Any:
    """Call a function with the kernels of `isa`."""
    before = _core.use_isa(isa)
    try:
        return call()
    finally:
        _core.use_isa(before)


def levels(form: Form) -> tuple[str, ...]:
    """Return the instruction sets that can run a form, the best one first."""
    return (pq.isa.active(),) if form.through in CALLS else pq.isa.available()


def as_array(result: Any) -> Array:
    """Return the result of pyquant as an ndarray, or the scales of a `QParams`."""
    if isinstance(result, pq.QParams):
        return np.asarray(result.scale)
    return result.data if isinstance(result, pq.PackedArray) else np.asarray(result)
