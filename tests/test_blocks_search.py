# SPDX-License-Identifier: Apache-2.0
"""Encode GGUF blocks with a search for scales. Oracle: blocks_encoders."""

import blocks_encoders
import numpy as np
import pytest
from blocks_encoders import LEGACY, SEARCHED
from hypothesis import given, settings
from hypothesis import strategies as st
from support import (
    LEVELS,
    REALS,
    amount,
    at_level,
    cast,
    loop,
    misaligned,
)

from pyquant import _core
from pyquant.weights.blocks import block_format, block_formats

FORMS = [
    *((block_format(name), "plain") for name in SEARCHED),
    (block_format("IQ4_NL"), "search"),
    *((block_format(name), "weights") for name in (*LEGACY, *SEARCHED)),
]
by_form = pytest.mark.parametrize(
    ("fmt", "form"), FORMS, ids=lambda one: getattr(one, "name", one)
)
WEIGHTED = [fmt for fmt, form in FORMS if form == "weights"]
by_weighted = pytest.mark.parametrize("fmt", WEIGHTED, ids=lambda fmt: fmt.name)
# A format for each search and for each kind of mean.
some = pytest.mark.parametrize(
    "fmt",
    [block_format(name) for name in ("Q2_K", "Q3_K", "Q6_K", "IQ4_NL", "Q4_0", "Q5_1")],
    ids=lambda fmt: fmt.name,
)
COLUMNS = 768


@pytest.fixture
def rng():
    """Return a generator that starts anew for each test."""
    return np.random.default_rng(29)


def normal(rng, *shape):
    return rng.standard_normal((*shape, COLUMNS)).astype(np.float32)


def data(rng, kind, rows):
    """Return rows of numbers of a kind. Most kinds have ties and equal sums."""
    shape = (rows, COLUMNS)
    groups = (rows, COLUMNS // 32)
    x = rng.standard_normal(shape)

    def by_group(numbers):
        return numbers.repeat(32, axis=-1)

    def made():
        if kind == "ties":
            return rng.integers(-32, 33, shape) / 8
        if kind == "zeros":
            few = np.where(rng.random(shape) < 0.5, rng.choice([0.0, -0.0], shape), x)
            return few * by_group(rng.random(groups) < 0.7)
        if kind == "constant":
            return rng.standard_normal((rows, COLUMNS // 16)).repeat(16, axis=-1)
        if kind == "positive":
            return np.abs(x) + 0.5
        if kind == "negative":
            return -np.abs(x) - 0.5
        if kind == "outlier":
            x[:, ::32] *= 1e5
            return x
        if kind == "wide":
            return np.ldexp(x, rng.integers(-24, 8, shape))
        if kind == "subnormal":
            return np.ldexp(x, by_group(rng.integers(-150, -115, groups)))
        if kind == "huge":
            return np.ldexp(x, by_group(rng.integers(40, 125, groups)))
        bits = rng.integers(0, 2**32, shape, np.uint32).view(np.float32)
        return np.where(np.isfinite(bits), bits, 0)

    return made().astype(np.float32)


KINDS = (
    "ties",
    "zeros",
    "constant",
    "positive",
    "negative",
    "outlier",
    "wide",
    "subnormal",
    "huge",
    "bits",
)


def importance(rng, *shape):
    """Return weights of ten bits. A fifth of the weights is 0."""
    some = rng.random((*shape, COLUMNS)) < 0.8
    return np.where(some, rng.integers(1, 1024, (*shape, COLUMNS)) / 256, 0)


def options_of(form, rng):
    if form == "search":
        return {"search": True}
    return {"weights": importance(rng)} if form == "weights" else {}


def expected(fmt, x, **options):
    rows = np.ascontiguousarray(x, np.float32).reshape(-1, x.shape[-1])
    made = blocks_encoders.encode(fmt.name, rows, **options)
    return made.reshape(fmt.encoded_shape(x.shape))


def same(got, wanted):
    assert got.dtype == wanted.dtype == np.uint8
    assert got.shape == wanted.shape
    assert np.array_equal(got, wanted)


# ---- bytes ----


@by_form
def test_bytes(fmt, form, rng):
    for kind in KINDS:
        x, options = data(rng, kind, 8), options_of(form, rng)
        wanted = expected(fmt, x, **options)
        for isa in LEVELS:
            same(at_level(isa, _core.encode_blocks, fmt._row, x, **options), wanted)


def test_last_sweep(rng):
    """One column in thousands of Q3_K is not done after four sweeps."""
    fmt = block_format("Q3_K")
    x = (rng.integers(-32, 33, (400, COLUMNS)) / 8).astype(np.float32)
    wanted = expected(fmt, x)
    for isa in LEVELS:
        same(at_level(isa, _core.encode_blocks, fmt._row, x), wanted)


@by_weighted
def test_quotients_too_large_to_be_rounded(fmt, rng):
    """Numbers of little weight are far below the offset that suits the other numbers.

    Divided by the scale they exceed the integers of float32.
    """
    groups = (amount(80, 200), COLUMNS // 32, 1)
    counts = rng.random((COLUMNS // 32, 32)) < rng.random((COLUMNS // 32, 1))
    near = -1 - np.ldexp(rng.random((*groups[:2], 32)), -rng.integers(0, 24, groups))
    far = -np.ldexp(rng.random((*groups[:2], 32)), rng.integers(0, 24, groups))
    x = np.where(counts, near, far).astype(np.float32).reshape(-1, COLUMNS)
    little = np.ldexp(1.0, -rng.integers(0, 60, (COLUMNS // 32, 1)))
    weights = np.where(counts, rng.random(counts.shape), little).ravel()
    wanted = expected(fmt, x, weights=weights)
    for isa in LEVELS:
        same(at_level(isa, _core.encode_blocks, fmt._row, x, weights), wanted)


FEW = st.floats(-8, 8, width=16)
FEW |= st.floats(width=32, allow_nan=False, allow_infinity=False)


@by_form
@settings(max_examples=amount(12, 30))
@given(st.lists(FEW, min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_few_numbers(fmt, form, numbers, seed):
    """The numbers have many ties and equal sums."""
    rng = np.random.default_rng(seed)
    x = rng.choice(np.float32(numbers), (1, 256))
    options = options_of(form, rng)
    if form == "weights":
        options["weights"] = options["weights"][:256]
    same(fmt.quantize(x, **options), expected(fmt, x, **options))


@by_weighted
def test_weights_of_all_numbers(fmt, rng):
    """Each row has its own weights."""
    x, weights = normal(rng, 2, 3), importance(rng, 2, 3)
    wanted = np.array(
        [
            [expected(fmt, x[i, j][None], weights=weights[i, j])[0] for j in range(3)]
            for i in range(2)
        ]
    )
    same(fmt.quantize(x, weights=weights), wanted)
    one = fmt.quantize(x[0, 0], weights=weights[0, 0])
    same(one, wanted[0, 0])


@by_weighted
@loop("value", [0, 1, 3e38, 1e-44])
def test_equal_weights(fmt, value, rng):
    x = normal(rng, 3)
    weights = np.full(COLUMNS, value, np.float32)
    wanted = expected(fmt, x, weights=weights)
    for isa in LEVELS:
        same(at_level(isa, _core.encode_blocks, fmt._row, x, weights), wanted)


def test_formats_that_use_weights(rng):
    x, weights = normal(rng, 2), importance(rng)
    encoding = [fmt for fmt in block_formats() if fmt.quantizes]
    assert len(encoding) == 20
    for fmt in encoding:
        used = not np.array_equal(fmt.quantize(x, weights=weights), fmt.quantize(x))
        assert fmt.weighted == used == (fmt in WEIGHTED)


# ---- memory ----


@some
@loop("dtype", REALS)
def test_types_and_strides(fmt, dtype, rng):
    x = cast(np.round(normal(rng, 4, 3) * 16) / 16, dtype)
    weights = cast(importance(rng, 4, 3), dtype)
    exact = weights.astype(np.float32)
    wanted = fmt.quantize(np.ascontiguousarray(x, np.float32), weights=exact)

    def forms(array):
        wide = np.concatenate([array, array[..., :3]], axis=-1)
        yield from (array, wide[..., :COLUMNS], np.repeat(array, 2, axis=-1)[..., ::2])
        yield np.asfortranarray(array)
        yield array[::-1, :, ::-1].copy()[::-1, :, ::-1]
        yield misaligned(array, 1)
        if array.dtype.kind == "f":
            yield array.astype(array.dtype.newbyteorder())

    for one, other in zip(forms(x), reversed([*forms(weights)]), strict=True):
        same(fmt.quantize(one, weights=other), wanted)
    wanted = fmt.quantize(x, weights=exact[:1, :1].repeat(4, 0).repeat(3, 1))
    for other in forms(weights):
        same(fmt.quantize(x, weights=other[0, 0]), wanted)
        same(fmt.quantize(x, weights=np.broadcast_to(other[0, 0], x.shape)), wanted)
    out = np.empty((*wanted.shape[:-1], 2 * wanted.shape[-1]), np.uint8)[..., ::2]
    assert fmt.quantize(x, weights=other[0, 0], out=out) is out
    same(out, wanted)


def test_float64_weights_are_rounded_once(rng):
    fmt = block_format("Q6_K")
    x, weights = normal(rng, 2), rng.random(COLUMNS) + 1
    wanted = expected(fmt, x, weights=weights.astype(np.float32))
    same(fmt.quantize(x, weights=weights), wanted)
    same(fmt.quantize(x, weights=weights.tolist()), wanted)


def test_empty():
    fmt = block_format("Q4_K")
    for shape in [(0,), (0, 256), (3, 0)]:
        found = fmt.quantize(np.zeros(shape), weights=np.zeros(shape[-1]))
        assert (found.shape, found.dtype) == (fmt.encoded_shape(shape), np.uint8)


# ---- options ----


def test_search(rng):
    x, weights = normal(rng, 2), importance(rng)
    iq4 = block_format("IQ4_NL")
    same(iq4.quantize(x, search=False), iq4.quantize(x))
    assert not np.array_equal(iq4.quantize(x, search=True), iq4.quantize(x))
    error, other = (
        ((iq4.dequantize(iq4.quantize(x, search=search)) - x) ** 2).sum()
        for search in (True, False)
    )
    assert error < other
    same(
        iq4.quantize(x, weights=weights, search=np.True_), iq4.quantize(x, weights=weights)
    )
    for name, always in {"Q4_K": True, "Q8_0": False, "Q4_0": False}.items():
        fmt = block_format(name)
        same(fmt.quantize(x, search=always), fmt.quantize(x))
        message = f"search: expected {always} or None for {name}, got {not always}"
        with pytest.raises(ValueError, match=f"^{message}$"):
            fmt.quantize(x, search=not always)
    for fmt in (iq4, block_format("Q4_0")):
        message = f"search: expected True or None for {fmt.name} with weights, got False"
        with pytest.raises(ValueError, match=f"^{message}$"):
            fmt.quantize(x, weights=weights, search=False)
    with pytest.raises(TypeError, match=r"^search: expected True or False, got str$"):
        iq4.quantize(x, search="yes")


X = np.zeros((2, 3, 256), np.float32)
ONES = np.ones(256)


def test_weights_of_one_row():
    fmt = block_format("Q4_K")
    with pytest.raises(ValueError, match=r"^weights: expected shape \(256,\), got \(3,\)$"):
        fmt.quantize(np.zeros(256), weights=np.ones(3))
    assert np.array_equal(
        fmt.quantize(np.ones(256), weights=ONES * -0.0),
        fmt.quantize(np.ones(256), weights=ONES * 0),
    )


def test_weights_overlap():
    memory = np.zeros(4096, np.uint8)
    weights = memory.view(np.float32)[:256]
    with pytest.raises(ValueError, match=r"^out: expected .* overlaps weights$"):
        block_format("Q4_K").quantize(ONES, weights=weights, out=memory[1000:1144])
    block_format("Q4_K").quantize(ONES, weights=weights, out=memory[1024:1168])
