"""Compare `choose_qparams` with exact arithmetic, and test `QParams`."""

import pickle

import numpy as np
import pytest
from support import (
    AVAILABLE_CODES,
    CHOSEN_NAMES,
    CODES,
    REALS,
    TYPES,
    WIDE,
    amount,
    bit_view,
    copies,
    dtype_of,
    is_finite,
    loop,
    same,
    set_attribute,
    uniform_bits,
)

import pyquant as pq
from pyquant import _core

CHOSEN_CODES = [name for name in AVAILABLE_CODES if name not in ("int64", "uint64")]


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
    """Yield the elements of each group, in the order of the parameters."""
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
    # `p.scale` has the shape that quantize expects for this axis and block size.
    same(
        p.quantize(x),
        pq.quantize(x, p.scale, p.zero_point, axis=axis, block_size=block, dtype=code),
    )
    # The memory order does not change the parameters: Fortran order, reversed rows, gaps.
    for view in (x.copy("F"), x[::-1].copy()[::-1], x.repeat(2, axis=-1)[..., ::2]):
        kwargs = {"axis": axis, "block_size": block, "symmetric": symmetric}
        assert pq.choose_qparams(view, dtype=code, **kwargs) == p


def test_no_elements():
    p = pq.choose_qparams(np.empty(0, np.float32))
    assert (p.scale.tolist(), p.zero_point.tolist()) == (1.0, 0)
    p = pq.choose_qparams(np.empty((3, 0), np.float32), axis=0)
    assert (p.scale.tolist(), p.zero_point.tolist()) == ([1.0] * 3, [0] * 3)
    p = pq.choose_qparams(np.empty((3, 0), np.float32), axis=1)
    assert p.scale.shape == (0,)
    assert p.quantize(np.empty((3, 0), np.float32)).shape == (3, 0)


def test_zero_points_without_elements_are_not_read():
    # The array of zero points is empty, so pyquant must not read its memory.
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
    scale[0] = 7  # `p` has a copy of the scale
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


ONE = {"dtype": "int8", "shape": []}  # for errors.txt


@loop("dtype, block", REALS, [(2, 3, 1), (1, 1, 1), (4, 5, 6), (9, 1, 4), (3, 2, 5)])
def test_extrema_of_blocks(dtype, block):
    """Compare `_core.extrema` with NumPy. Each range is extended to contain 0."""
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
    if shape[axis]:  # The data has no elements, but its rows have zero points.
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
