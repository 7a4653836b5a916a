"""`choose_qparams` against exact arithmetic, and the `QParams` that it returns."""

import pickle

import numpy as np
import oracle
import pytest
from support import (
    AVAILABLE_CODES,
    CHOSEN_NAMES,
    CODES,
    REALS,
    TYPES,
    WIDE,
    adversarial,
    amount,
    bit_view,
    by_family,
    codes,
    compute_dtype,
    copies,
    dtype_of,
    float_of_bits,
    is_finite,
    loop,
    same,
    set_attribute,
    uniform_bits,
)

import pyquant as pq
from pyquant import _core


def groups(dtype):
    """Yield finite groups: one-sided, mixed, tiny, huge, constant."""
    rng = np.random.default_rng(11)
    dtype = np.dtype(dtype)
    info = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38}
    largest = info.get(dtype.name) or float(np.finfo(dtype).max)
    tiny = float(float_of_bits([1], dtype)[0])
    yield [0.0, -0.0]
    yield [-0.0]
    yield [1.0]
    yield [-1.0]
    yield [0.0, 1e-3]
    yield [-2.0, 3.0]
    yield [tiny]
    yield [-tiny]
    yield [-tiny, 2 * tiny]
    yield [3 * tiny, 100 * tiny]
    yield [127 * tiny, -3 * tiny]
    yield [190 * tiny, 191 * tiny]
    yield [largest]
    yield [-largest]
    yield [-largest, largest]
    yield [-largest, largest / 2]
    yield [-tiny, largest]
    for _ in range(amount(10, 60)):
        yield rng.normal(rng.normal(), 1, rng.integers(1, 9)) * np.exp2(
            rng.integers(-13, 13)
        )
    for seed in range(amount(10, 60)):
        values = uniform_bits(dtype, 5, seed)
        yield values[is_finite(values)]


CHOSEN_CODES = [name for name in AVAILABLE_CODES if name not in ("int64", "uint64")]


@by_family("target", CHOSEN_CODES)
@loop("source, symmetric", REALS, [True, False])
def test_per_tensor_is_exact(source, target, symmetric):
    if not symmetric and TYPES[target].kind != "integer":
        return  # Floating-point codes have no zero points.
    for group in groups(source):
        x = np.array(group).astype(source) if len(group) else np.empty(0, source)
        info = np.finfo(compute_dtype(source))
        size = float(abs(x).max(initial=0))
        usual = info.smallest_normal * 2.0**20 < size < info.max / 4
        if TYPES[target].kind != "integer" and not usual:
            continue  # test_ranges.py tests floating-point codes at both ends of a type.
        p = pq.choose_qparams(x, dtype=target, symmetric=symmetric)
        scale, zero = oracle.choose_qparams(x, dtype=target, symmetric=symmetric)
        assert p.scale.dtype == compute_dtype(source)
        assert p.zero_point.dtype == target
        same(p.scale.reshape(1), scale)
        assert int(p.zero_point) == zero
        assert p.scale.shape == p.zero_point.shape == ()


FORMS = [
    ((6,), 0, None),
    ((3, 4), 0, None),
    ((3, 4), -1, None),
    ((2, 3, 5), (0, 2), None),
    ((2, 3, 5), (2, -2), None),
    ((2, 3, 5), (0, 1, 2), None),
    ((3, 10), 1, 4),
    ((10, 3), 0, 4),
    ((10, 3), -2, 100),
    ((5, 7), None, (2, 3)),
    ((3, 4, 5), None, (2, 4, 2)),
    ((3, amount(500, 5000)), 0, None),
    ((amount(500, 5000), 3), 1, None),
    ((3, 1000), 1, 32),
]


def members(x, axis, block):
    """Yield the flat groups of an array in the order of their parameters."""
    rank = x.ndim
    if block is None:
        axes = sorted(a % rank for a in (axis if np.iterable(axis) else [axis]))
        sizes = [1 if a in axes else x.shape[a] for a in range(rank)]
    elif np.iterable(block):
        sizes = list(block)
    else:
        sizes = [block if a == axis % rank else 1 for a in range(rank)]
    counts = [-(-n // b) for n, b in zip(x.shape, sizes, strict=True)]
    for index in np.ndindex(*counts):
        where = tuple(slice(i * b, (i + 1) * b) for i, b in zip(index, sizes, strict=True))
        yield x[where].reshape(-1)


@loop("form, source, code, symmetric", FORMS, REALS, CHOSEN_CODES, [True, False], draws=210)
def test_every_granularity(form, source, code, symmetric):
    shape, axis, block = form
    symmetric = symmetric or TYPES[code].kind != "integer"
    rng = np.random.default_rng(5)
    x = (rng.normal(0.3, 1, shape) * np.exp2(rng.integers(-9, 9, shape))).astype(source)
    x[(0,) * len(shape)] = 0
    p = pq.choose_qparams(x, dtype=code, axis=axis, block_size=block, symmetric=symmetric)
    expected = [
        pq.choose_qparams(g, dtype=code, symmetric=symmetric)
        for g in members(x, axis, block)
    ]
    assert p.scale.shape == p.zero_point.shape
    same(p.scale.reshape(-1), np.array([e.scale for e in expected], p.scale.dtype))
    same(p.zero_point.reshape(-1), np.array([e.zero_point for e in expected]))
    # The parameters have the shape that quantize expects for this axis and block.
    same(
        p.quantize(x),
        pq.quantize(x, p.scale, p.zero_point, axis=axis, block_size=block, dtype=code),
    )
    # Fortran order, reversed rows and gaps give equal parameters.
    for view in (x.copy("F"), x[::-1].copy()[::-1], x.repeat(2, axis=-1)[..., ::2]):
        kwargs = {"axis": axis, "block_size": block, "symmetric": symmetric}
        assert pq.choose_qparams(view, dtype=code, **kwargs) == p


def test_the_formulas_by_example():
    p = pq.choose_qparams(np.float32([-1.0, 2.54]))
    assert (p.scale.tolist(), p.zero_point.tolist()) == (float(np.float32(0.02)), 0)
    p = pq.choose_qparams(np.float32([-1.0, 1.55]), symmetric=False)
    assert (p.scale.tolist(), p.zero_point.tolist()) == (float(np.float32(0.01)), -28)
    p = pq.choose_qparams(np.float32([1.0, 2.55]), symmetric=False, dtype="uint8")
    assert (p.scale.tolist(), p.zero_point.tolist()) == (float(np.float32(0.01)), 0)
    p = pq.choose_qparams(np.float32([0, 0]), symmetric=False)
    assert (p.scale.tolist(), p.zero_point.tolist()) == (1.0, -128)


def test_no_elements():
    p = pq.choose_qparams(np.empty(0, np.float32))
    assert (p.scale.tolist(), p.zero_point.tolist()) == (1.0, 0)
    p = pq.choose_qparams(np.empty((3, 0), np.float32), axis=0)
    assert (p.scale.tolist(), p.zero_point.tolist()) == ([1.0] * 3, [0] * 3)
    p = pq.choose_qparams(np.empty((3, 0), np.float32), axis=1)
    assert p.scale.shape == (0,)
    assert p.quantize(np.empty((3, 0), np.float32)).shape == (3, 0)


def test_zero_points_without_elements_are_not_read():
    # The array of zero points is empty: pyquant must not read its memory.
    none = np.lib.stride_tricks.as_strided(np.array([300]), (0,), (0,))
    p = pq.QParams(np.ones(0, np.float32), none, "int8", axis=0)
    assert p.zero_point.shape == (0,)
    x = np.empty((0, 2), np.float32)
    assert pq.quantize(x, np.ones(0), none, dtype="int8", axis=0).shape == (0, 2)


@loop("order", "<>")
def test_byte_orders_of_parameters_do_not_matter(order):
    axis_scale, one_scale = np.array([0.5, -0.0, np.nan]), np.array(0.5)
    for scale, axis in ((axis_scale, 0), (one_scale, None)):
        native = pq.QParams(scale, 3, "int16", axis=axis, offset=scale)
        given = scale.astype(f"{order}f8")
        p = pq.QParams(given, np.array(3, f"{order}i2"), "int16", axis=axis, offset=given)
        assert (p, hash(p), repr(p)) == (native, hash(native), repr(native))
        assert all(other == p for other in copies(p))
        assert p.scale.dtype.isnative
        assert p.offset.dtype.isnative


def test_zero_dimensions_and_array_likes():
    assert pq.choose_qparams(np.float32(2.54)) == pq.choose_qparams(np.float32([2.54]))
    assert pq.choose_qparams(2.54).scale.dtype == np.float64
    assert pq.choose_qparams([1, 2]).scale.dtype == np.float64
    big = np.array([-1.0, 1.55], ">f4")
    assert pq.choose_qparams(big) == pq.choose_qparams(big.astype("f4"))


@loop("dtype, bad", REALS, [np.nan, np.inf, -np.inf])
def test_nonfinite_values_are_counted_and_found(dtype, bad):
    for shape, where, index in (
        ((4,), [2], "(2,)"),
        ((3, 50), [(1, 40), (2, 0)], "(1, 40)"),
        ((3, 50), [(0, 49), (2, 0), (0, 3)], "(0, 3)"),
        ((2, 3, 4), [(1, 2, 3)], "(1, 2, 3)"),
    ):
        x = np.ones(shape, dtype)
        for at in where:
            x[at] = bad
        for view in (x, x.copy("F"), x[::-1].copy()[::-1]):
            for axis in (None, 0):
                with pytest.raises(ValueError, match=r"^x: ") as error:
                    pq.choose_qparams(view, axis=axis)
                assert str(error.value) == (
                    f"x: expected finite values, got {len(where)} not finite,"
                    f" the first at index {index}"
                )


def test_a_signaling_nan_is_not_finite():
    for dtype in REALS:
        x = np.ones(70, dtype)
        nan = {
            2: 0x7C01 if dtype.name == "float16" else 0x7F81,
            4: 0x7F800001,
            8: 0x7FF << 52 | 1,
        }
        x.view(bit_view(dtype))[67] = nan[dtype.itemsize]
        with pytest.raises(ValueError, match=r"1 not finite, the first at index \(67,\)$"):
            pq.choose_qparams(x)


# QParams


def some():
    return pq.choose_qparams(
        np.random.default_rng(1).normal(size=(4, 6)).astype(np.float32),
        dtype="uint8",
        axis=0,
    )


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")  # NumPy 2.5
def test_attributes_are_read_only():
    p = some()
    assert (p.axis, p.block_size, p.dtype) == (0, None, np.dtype("uint8"))
    assert isinstance(p.dtype, np.dtype)
    before = hash(p)
    for name in ("scale", "zero_point", "dtype", "axis", "block_size", "new"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(p, name, 1)
    for array in (p.scale, p.zero_point):
        assert array.shape == (4,)
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True
    set_attribute(p.scale, "shape", (2, 2))  # of a view
    set_attribute(p.zero_point, "shape", (1, 4))
    with pytest.raises(AttributeError):
        p.__init__(3.0, 0, "uint8")
    assert p == some()
    assert hash(p) == before
    assert p.scale.shape == p.zero_point.shape == (4,)


def test_made_by_hand():
    scale = np.float32([0.5, 0.25])
    p = pq.QParams(scale, np.int8([1, 2]), np.dtype("int8"), axis=1, block_size=None)
    scale[0] = 7  # QParams copied the array.
    x = np.float32([[1, 1], [2, 2]])
    same(p.quantize(x), pq.quantize(x, p.scale, p.zero_point, axis=1))
    assert p.scale.tolist() == [0.5, 0.25]


def test_comparison():
    p = some()
    assert p == some()
    fields = {"scale": p.scale, "zero_point": p.zero_point, "dtype": p.dtype}
    fields |= {"axis": p.axis, "block_size": p.block_size}
    assert pq.QParams(**fields) == p
    for change in (
        {"scale": p.scale * 2},
        {"zero_point": p.zero_point ^ 1},
        {"axis": 1},
        {"scale": p.scale[:1], "zero_point": p.zero_point[:1]},
    ):
        assert pq.QParams(**(fields | change)) != p
    assert p != "something else"
    assert p != None  # noqa: E711


@loop("zero", [None, 0, 3])
def test_copies(zero):
    x = np.ones((4, 6), np.float32)
    for p in (some(), pq.QParams(0.5, zero, "int8"), pq.QParams(0.5, zero, "uint32")):
        for other in copies(p):
            assert (other, hash(other), repr(other)) == (p, hash(p), repr(p))
            assert not other.scale.flags.writeable
            assert not other.zero_point.flags.writeable
            same(other.quantize(x), p.quantize(x))


ONE = {"dtype": "int8", "shape": []}


def test_methods_pass_everything_on():
    p = some()
    x = adversarial("float32", 0.01, 24).reshape(4, 6)
    kwargs = {"axis": 0, "dtype": "uint8"}
    args = p.scale, p.zero_point
    out = np.empty((4, 6), np.uint8)
    assert p.quantize(x, out=out, threads=2, rounding="ceil") is out
    same(out, pq.quantize(x, *args, rounding="ceil", **kwargs))
    same(
        p.quantize(x, precision="float16"),
        pq.quantize(x, *args, precision="float16", **kwargs),
    )
    q = codes("uint8", 24).reshape(4, 6)
    same(p.dequantize(q), pq.dequantize(q, *args, axis=0))
    real = np.empty((4, 6), np.float16)
    assert p.dequantize(q, dtype="float16", out=real, threads=2) is real
    same(real, pq.dequantize(q, *args, axis=0, dtype="float16"))


MANY_GROUPS = [((3, 7, 5, 997), (0, 1, 3)), ((1, 9001), 1), ((5003, 2), 0)]


@loop("form, symmetric", MANY_GROUPS, [True, False])
def test_many_groups(form, symmetric):
    """Reduce more groups than fit into one pass, and compare with each row alone."""
    shape, axis = form
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    p = pq.choose_qparams(x, axis=axis, symmetric=symmetric)
    axes = axis if isinstance(axis, tuple) else (axis,)
    rest = tuple(d for d in range(x.ndim) if d not in axes)
    lo = np.minimum(x.min(axis=rest), 0).astype(np.float64)
    hi = np.maximum(x.max(axis=rest), 0).astype(np.float64)
    widest = np.maximum(hi, -lo) / 127 if symmetric else (hi - lo) / 255
    same(p.scale, widest.astype(np.float32))
    for i in np.ndindex(p.scale.shape[:1]):
        at = [slice(None)] * x.ndim
        at[axes[0]] = slice(i[0], i[0] + 1)
        alone = pq.choose_qparams(x[tuple(at)], axis=axis, symmetric=symmetric)
        same(alone.zero_point, p.zero_point[i[0] : i[0] + 1])


@loop("dtype, block", REALS, [(2, 3, 1), (1, 1, 1), (4, 5, 6), (9, 1, 4), (3, 2, 5)])
def test_extrema_of_blocks(dtype, block):
    """pyquant.integrations.dask merges these extrema. All ranges contain 0."""
    x = uniform_bits(dtype, 120, seed=3).reshape(4, 5, 6)
    x[~is_finite(x)] = 0
    for array in (x, x.T.copy().T, x[::-1, :, ::-1], np.broadcast_to(x[:, :1], x.shape)):
        found = _core.extrema(array, block)
        for which, find in enumerate((np.minimum, np.maximum)):
            due = np.asarray(array, np.float64)
            for d, size in enumerate(block):
                due = find.reduceat(due, range(0, due.shape[d], size), d)
            np.testing.assert_array_equal(found[which], find(due, 0))


def test_extrema_of_few():
    assert _core.extrema(np.float16(-2), ()).tolist() == [-2, 0]
    assert _core.extrema(np.empty((0, 3), np.float32), (2, 1)).shape == (2, 0, 3)
    assert _core.extrema(np.empty((3, 0), np.float32), (2, 4)).tolist() == [[[]] * 2] * 2
    with pytest.raises(ValueError, match=r"got 1 not finite, .* \(1, 0\)$") as caught:
        _core.extrema(np.array([[0], [np.nan]]), (2, 1))
    assert caught.value.index == (1, 0)


def test_many_groups_with_one_that_is_not_finite():
    x = np.ones((3, 5000), np.float32)
    x[2, 4321] = np.nan
    message = (
        r"^x: expected finite values, got 1 not finite, the first at index \(2, 4321\)$"
    )
    with pytest.raises(ValueError, match=message):
        pq.choose_qparams(x, axis=(0, 1))


@loop("name", AVAILABLE_CODES)
def test_zero_points_have_the_quantized_type(name):
    dtype = dtype_of(name)
    one = 0 if dtype.kind not in "iu" and "int" not in name else 1
    for given in (None, 0, one, np.int64(one), np.array([one]), [one, 0]):
        scale, axis = ([1.0, 2.0], 0) if isinstance(given, list) else (1.0, None)
        p = pq.QParams(scale, given, name, axis=axis)
        assert p.zero_point.dtype == dtype
        assert not p.zero_point.flags.writeable
        expected = np.broadcast_to(0 if given is None else given, p.zero_point.shape)
        assert (p.zero_point.astype(int) == expected).all()
        x = np.float32([4, -2])
        same(p.quantize(x), pq.quantize(x, scale, given, dtype=name, axis=axis))
    if dtype in WIDE:
        with pytest.raises(
            TypeError, match=f"^dtype: expected {CHOSEN_NAMES}, got {name}$"
        ):
            pq.choose_qparams([1.0], dtype=name)
    else:
        p = pq.choose_qparams(np.float32([[-1, 2], [3, 4]]), dtype=name, axis=0)
    assert p.zero_point.dtype == dtype
    assert pickle.loads(pickle.dumps(p)).zero_point.dtype == dtype


@loop("name", [n for n in AVAILABLE_CODES if n in pq.onnx.QUANTIZED])
def test_onnx_accepts_the_parameters(name):
    dtype_of(name)
    x = np.float32([[-1, 2], [3, 4]])
    p = pq.choose_qparams(x, dtype=name)
    q = p.quantize(x)
    same(pq.onnx.dequantize_linear(q, np.asarray(p.scale), p.zero_point), p.dequantize(q))
    same(pq.onnx.quantize_linear(x, np.asarray(p.scale), p.zero_point), q)
    p = pq.choose_qparams(x, dtype=name, axis=1)
    q = p.quantize(x)
    same(pq.onnx.dequantize_linear(q, p.scale, p.zero_point, axis=1), p.dequantize(q))


@loop("name", AVAILABLE_CODES)
def test_zeros_of_any_type_are_equal(name):
    dtype = dtype_of(name)
    p = pq.QParams(0.5, None, name)
    for zero in (0, np.int64(0), np.uint8(0), np.int32([0])[0], np.zeros((), dtype)):
        other = pq.QParams(0.5, zero, name)
        assert p == other
        assert hash(p) == hash(other)
        assert repr(p) == repr(other)
    assert len({p, pq.QParams(0.5, 0, name), pickle.loads(pickle.dumps(p))}) == 1


@loop("name", AVAILABLE_CODES)
def test_a_repr_of_few_makes_an_equal_one(name):
    names = {"array": np.array, "float32": np.float32, "QParams": pq.QParams}
    names |= {dtype.name: dtype for dtype in CODES}
    dtype = dtype_of(name)
    names[dtype.name] = dtype
    for axis in (None, 0):
        x = np.float32([[-1, 2], [3, 1 / 3]])
        chosen = "int8" if dtype in WIDE else name
        p = pq.choose_qparams(x, dtype=chosen, axis=axis)
        assert eval(repr(p), names) == p
        zero = np.asarray(p.zero_point, dtype) + dtype.type(dtype in WIDE)
        p = pq.QParams(p.scale * 0 + np.float32(0.5), zero, name, axis=axis)
        assert eval(repr(p), names) == p
        assert all(other == p for other in copies(p))


@loop("shape, bad", [(0,), (3, 0), (0, 3)], [300, -129, np.int16(300), 2**63, -(2**70)])
def test_zero_points_of_empty_arrays_are_checked(shape, bad):
    x, q = np.empty(shape, np.float32), np.empty(shape, np.int8)
    axis = shape.index(0) - 1
    calls = [
        lambda zero, **k: pq.quantize(x, 1.0, zero, dtype="int8", **k),
        lambda zero, **k: pq.dequantize(q, 1.0, zero, **k),
        lambda zero, **k: pq.QParams(1.0, zero, "int8", **k),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=rf"^zero_point: .* got {int(bad)}(;|$)"):
            call(bad)
        call(0)
    if shape[axis]:  # There are zero points for rows without elements.
        n = shape[axis]
        for function, numbers in ((pq.quantize, x), (pq.dequantize, q)):
            typed = {"dtype": "int8"} if function is pq.quantize else {}
            with pytest.raises(ValueError, match=rf"^zero_point: .* got {int(bad)}(;|$)"):
                function(numbers, np.ones(n), [0, int(bad), 0], axis=axis, **typed)
            result = function(numbers, np.ones(n), [0, -128, 127], axis=axis, **typed)
            assert result.shape == shape


def test_a_repr_is_short_whatever_the_dimensions():
    scale = np.linspace(1, 2, 4 * 6 * 8 * 9, dtype=np.float32).reshape(4, 6, 8, 9)
    for shape in (scale.shape, (100, 1, 1, 1), (1, 96, 1, 1), (48, 36, 1, 1)):
        p = pq.QParams(np.resize(scale, shape), None, "int8")
        assert repr(p).count("\n") <= 4
        assert f".reshape{shape}" in repr(p)


def test_parameters_larger_than_memory():
    huge = np.broadcast_to(np.float32(1), (2**60,))
    with pytest.raises(MemoryError, match=r"^scale: expected an array that memory holds"):
        pq.QParams(huge, None, "int8")


@loop("shape, order", [(1, 5000), (3, 2000), (2000, 3), (40, 50, 3)], "CF")
def test_byte_order_of_long_rows(shape, order):
    rng = np.random.default_rng(len(shape))
    x = np.asarray(rng.normal(0, 5, shape).astype(np.float32), order=order)
    for axis in (None, *range(len(shape))):
        native = pq.choose_qparams(x, axis=axis)
        assert pq.choose_qparams(x.astype(">f4", order=order), axis=axis) == native
