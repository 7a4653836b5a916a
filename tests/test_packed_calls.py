"""Tests that calls with packed codes return the results of calls with unpacked codes.

`packed_oracle` defines the layouts. Calls of the scalar instruction set with unpacked codes
define the numbers. Shapes, types, parameters and strides are random.
"""

import numpy as np
import packed_oracle
import pytest
from support import (
    ANY_ZEROS,
    EVERY_CODE,
    FOR_OUT,
    FORMS,
    LAYOUTS,
    LEVELS,
    MODES,
    PRECISIONS,
    REALS,
    adversarial,
    amount,
    case,
    dequantize_at,
    dtype_of,
    each,
    misaligned,
    mixed_scales,
    parameters_of,
    poisoned,
    quantize_at,
    same,
    seeds,
    usual_scales,
)

import pyquant as pq
from pyquant.dtypes import TYPES

ml_dtypes = pytest.importorskip("ml_dtypes")  # it defines the types

BITS = {name: TYPES[name].bits for name in EVERY_CODE if TYPES[name].bits <= 8}
FOUR_BITS = ("awq", "halves", "high-first")
BYTES = ("onnx", "halves", "high-first", "packbits")
# Layout, type and number of bits of the codes. uint8 codes may have fewer than 8 bits.
PACKINGS = [
    *(("onnx", name, bits) for name, bits in BITS.items() if bits in (2, 4)),
    *(("words", name, bits) for name, bits in BITS.items()),
    *(("words", "uint8", bits) for bits in (1, 3, 5, 6, 7)),
    *((layout, name, 4) for layout in FOUR_BITS for name in BITS if BITS[name] == 4),
    ("packbits", "uint8", 1),
]
# Layout, bits.
STREAMS = sorted({(layout, bits) for layout, _, bits in PACKINGS})

SHAPES = [
    *((1,), (3,), (7,), (64,), (1027,), (8, 1), (1, 9), (33, 5), (64, 40), (5, 33)),
    *((3, 64), (40, 1), (3, 11, 5), (2, 3, 70), (35, 2, 3), (0,), (0, 3), (3, 0)),
]


def choose(rng, options):
    """Return a random element of a sequence."""
    return options[rng.integers(len(options))]


def choose_copy(rng, shape):
    """Return the name of a random memory layout of FOR_OUT that fits a shape."""
    return choose(rng, FOR_OUT) if shape else "contiguous"


def random_draws(packing, default, everything):
    """Return pairs: a seed, and a generator that depends on the seed and the packing."""
    place = PACKINGS.index(packing)
    return [
        (seed, np.random.default_rng([seed, place]))
        for seed in seeds(amount(default, everything))
    ]


def choose_form(rng):
    """Return a random row (shape, axis, block size) of FORMS, and an axis to pack along."""
    form = choose(rng, FORMS)
    return form, int(rng.integers(len(form[0]))) if form[0] else None


def random_codes(shape, name, bits, seed=0):
    """Return random codes. The unused upper bits of a type are random, too."""
    width = 8 if bits == BITS[name] else bits
    rng = np.random.default_rng([seed, bits, *shape])
    codes = rng.integers(0, 1 << width, shape, np.uint8)
    return codes.view(dtype_of(name)) if bits == BITS[name] else codes


def low_bits(codes, bits):
    """Return codes as uint8 without the unused upper bits."""
    return np.ascontiguousarray(codes).view(np.uint8) & np.uint8((1 << bits) - 1)


def layout_of(packing, axis):
    """Return the layout of a row of PACKINGS."""
    layout, name, bits = packing
    along = None if layout == "onnx" else axis
    return pq.Layout(layout, axis=along, bits=None if bits == BITS[name] else bits)


def pack(codes, packing, axis):
    """Pack codes by a row of PACKINGS."""
    return pq.pack(codes, layout_of(packing, axis))


def usable(form, packing):
    """Return true if a packing supports a shape. Only ONNX supports a scalar."""
    return form[0] != () or packing[0] == "onnx"


def check_packed(got, codes, packing, axis):
    """Assert that a packed array has the attributes and the bytes of codes."""
    __tracebackhide__ = True
    layout, name, bits = packing
    along = None if layout == "onnx" else axis % codes.ndim
    words = packed_oracle.packed(low_bits(codes, bits), layout, along, bits)
    assert type(got) is pq.PackedArray
    assert got.layout == (layout, along, bits)
    assert (got.shape, got.dtype) == (codes.shape, dtype_of(name))
    assert (got.nbytes, got.ndim, got.size) == (words.nbytes, codes.ndim, codes.size)
    assert got.data.dtype == (np.uint8 if layout in BYTES else np.int32)
    same(got.data.view(words.dtype), words)


# Packing and unpacking


@pytest.mark.parametrize("packing", PACKINGS, ids=str)
def test_pack(packing):
    _, name, bits = packing
    for shape in SHAPES:
        codes = random_codes(shape, name, bits)
        for axis in range(-len(shape), len(shape)):
            copies = LAYOUTS if axis >= 0 else ["contiguous"]
            for copy in copies:
                with case(shape=shape, axis=axis, copy=copy):
                    got = pack(LAYOUTS[copy](codes), packing, axis)
                    check_packed(got, codes, packing, axis)
            assert pq.unpack(got).dtype == dtype_of(name)
            same(pq.unpack(got).view(np.uint8), low_bits(codes, bits))
        assert pack(codes, packing, None) == pack(codes, packing, len(shape) - 1)


@pytest.mark.parametrize("packing", PACKINGS, ids=str)
def test_pack_of_every_length(packing):
    _, name, bits = packing
    for count in (*range(70), 127, 128, 129, 255, 1000, 4099):
        codes = random_codes((count,), name, bits)
        with case(count=count):
            got = pack(codes, packing, 0)
            check_packed(got, codes, packing, 0)
            same(pq.unpack(got).view(np.uint8), low_bits(codes, bits))


@pytest.mark.parametrize("packing", PACKINGS, ids=str)
def test_unused_bits_of_words_are_ignored(packing):
    layout, name, bits = packing
    for shape in SHAPES:
        for axis in range(len(shape)):
            with case(shape=shape, axis=axis):
                p = pack(random_codes(shape, name, bits), packing, axis)
                rng = np.random.default_rng([1, *shape])
                words = rng.integers(0, 256, p.nbytes, np.uint8).view(p.data.dtype)
                words = words.reshape(p.data.shape)
                codes = packed_oracle.unpacked(words, layout, axis, bits, shape)
                p = pq.PackedArray(words, p.dtype, shape, layout=p.layout)
                same(pq.unpack(p).view(np.uint8), codes)
                clean = codes.view(dtype_of(name)) if bits == BITS[name] else codes
                check_packed(pack(clean, packing, axis), codes, packing, axis)


def test_pack_of_int8_codes():
    codes = np.arange(-8, 8, dtype=np.int8)
    for layout in ("onnx", "words", *FOUR_BITS):
        got = pq.pack(codes, pq.Layout(layout, bits=4))
        assert got.dtype == ml_dtypes.int4
        assert pq.unpack(got).astype(np.int8).tolist() == codes.tolist()


def test_pack_of_scalars_and_repeated_elements():
    for name in (name for layout, name, _ in PACKINGS if layout == "onnx"):
        one = random_codes((1,), name, BITS[name]).reshape(())
        for scalar in (one, one[()]):
            got = pq.unpack(pq.pack(scalar)).view("u1")
            same(got, low_bits(one, BITS[name]).reshape(()))
        row = random_codes((7,), name, BITS[name])
        for view in (
            np.broadcast_to(row, (5, 7)),
            np.broadcast_to(row[:, None], (7, 5)),
            np.lib.stride_tricks.sliding_window_view(row, 3),
        ):
            assert pq.pack(view) == pq.pack(view.copy())
        assert pq.pack([row, row]) == pq.pack(np.stack([row, row]))


@pytest.mark.parametrize("first", STREAMS, ids=str)
def test_repack(first):
    layout, bits = first
    for shape in SHAPES:
        codes = random_codes(shape, "uint8", bits)
        for axis in range(len(shape)):
            axis = None if layout == "onnx" else axis
            how = pq.Layout(layout, axis=axis, bits=bits)
            p = pq.pack(codes, how)
            for second in (name for name, width in STREAMS if width == bits):
                for other in [None] if second == "onnx" else range(len(shape)):
                    with case(shape=shape, axis=axis, second=second, other=other):
                        got = p.repack(pq.Layout(second, axis=other))
                        to = pq.Layout(second, axis=other, bits=bits)
                        assert got == pq.pack(codes, to)
                        assert got.repack(how) == p


# Quantizing and dequantizing


def scales_and_zeros(rng, form, name, source):
    """Return random parameters for a row of FORMS, some beyond the fast paths' limits."""
    make = choose(rng, [mixed_scales, usual_scales])
    return parameters_of(form, name, source, int(rng.integers(1000)), make)


def limit(codes, packing):
    """Limit codes to the largest code of a packing that has fewer bits than the type."""
    _, name, bits = packing
    return codes if bits == BITS[name] else np.minimum(codes, (1 << bits) - 1)


@pytest.mark.parametrize("packing", PACKINGS, ids=str)
def test_quantize(packing, small_parts):
    _, name, _ = packing
    for seed, rng in random_draws(packing, 40, 120):
        form, axis = choose_form(rng)
        source, threads = choose(rng, REALS), int(rng.integers(1, 6))
        copy = choose_copy(rng, form[0])
        options = {**scales_and_zeros(rng, form, name, source), "dtype": name}
        if rng.random() < 0.25:
            options |= {"rounding": "stochastic", "seed": seed, "start": 5}
        elif TYPES[name].kind == "integer" and rng.random() < 0.5:
            options["rounding"] = choose(rng, MODES)
        if rng.random() < 0.3:
            options["precision"] = choose(rng, PRECISIONS)
        if not usable(form, packing):
            continue
        x = adversarial(source, 0.3, int(np.prod(form[0])), seed).reshape(form[0])
        codes = limit(quantize_at("scalar", x, **options), packing)
        layout, expected = layout_of(packing, axis), pack(codes, packing, axis)
        check_packed(expected, codes, packing, axis)
        options["threads"] = threads
        values = {"form": form, "axis": axis, "source": source, "threads": threads}
        for isa in LEVELS:
            with case(seed=seed, copy=copy, isa=isa, **values):
                got = quantize_at(isa, LAYOUTS[copy](x), layout=layout, **options)
                assert got == expected


@each("mode, isa", MODES, LEVELS)
def test_quantize_rounds_complete_groups_in_each_mode(mode, isa):
    """Test every rounding mode. Only half_even has a kernel that packs 32 codes at once."""
    x = np.arange(-256, 256, dtype=np.float32) / 16
    for name in ("int4", "uint4"):
        options = {"dtype": name, "rounding": mode}
        codes = quantize_at("scalar", x, 1.0, 3, **options)
        assert quantize_at(isa, x, 1.0, 3, packed=True, **options) == pq.pack(codes)


@pytest.mark.parametrize("packing", PACKINGS, ids=str)
def test_dequantize(packing, small_parts):
    _, name, bits = packing
    for seed, rng in random_draws(packing, 40, 120):
        form, axis = choose_form(rng)
        target, threads = choose(rng, REALS), int(rng.integers(1, 6))
        copy, offset = choose_copy(rng, form[0]), int(rng.integers(32))
        options = {**scales_and_zeros(rng, form, name, target), "dtype": target}
        if not usable(form, packing):
            continue
        codes = random_codes(form[0], name, bits, seed)
        p = pack(codes, packing, axis)
        data = misaligned(p.data, offset - offset % p.data.itemsize)
        moved = pq.PackedArray(data, name, p.shape, layout=p.layout)
        expected = dequantize_at("scalar", codes, **options)
        options["threads"] = threads
        values = {"form": form, "axis": axis, "target": target, "threads": threads}
        for isa in LEVELS:
            with case(seed=seed, copy=copy, isa=isa, **values):
                same(dequantize_at(isa, moved, **options), expected)
                out = LAYOUTS[copy](poisoned(target, form[0]))
                assert dequantize_at(isa, p, **options, out=out) is out
                same(out.astype(target, order="C"), expected)


# Shapes with complete and incomplete tiles, and a block size along the first axis. The
# rows that share parameters are too large for the core's buffer of packed bytes.
COMMON = (((45, 1101), 20), ((33, 2050), None), ((19, 65), 11))


@pytest.mark.parametrize("packing", PACKINGS, ids=str)
def test_rows_with_common_parameters(packing):
    _, name, bits = packing
    for seed, (shape, block) in enumerate(COMMON):
        form = (shape, 0, block) if block else (shape, None, None)
        make = mixed_scales if seed == 0 else usual_scales
        codes = random_codes(shape, name, bits, seed)
        x = adversarial("float32", 0.3, codes.size, seed=seed).reshape(shape)
        how = parameters_of(form, name, seed=seed, make=make)
        alone = how
        if block:  # Compare with separate parameters for each row.
            rows = np.arange(shape[0]) // block
            alone = {key: how[key][rows] for key in how.keys() & {"scale", "zero_point"}}
            alone["axis"] = (0, 1)
        made = limit(quantize_at("scalar", x, dtype=name, **alone), packing)
        numbers = {
            target: dequantize_at("scalar", codes, dtype=target, **alone)
            for target in ("float32", "float16")
        }
        for axis in (0, 1):
            p, expected = pack(codes, packing, axis), pack(made, packing, axis)
            check_packed(expected, made, packing, axis)
            for isa in LEVELS:
                with case(shape=shape, block=block, axis=axis, isa=isa):
                    for target, due in numbers.items():
                        same(dequantize_at(isa, p, dtype=target, **how), due)
                    layout = layout_of(packing, axis)
                    got = quantize_at(isa, x, dtype=name, layout=layout, **how)
                    assert got == expected


def test_float4_without_saturation():
    x = adversarial("float32", 0.3, 333)
    options = {"dtype": "float4_e2m1fn", "saturate": False}
    codes = quantize_at("scalar", x, 0.3, **options)
    for isa in LEVELS:
        got = quantize_at(isa, x, 0.3, packed=True, **options)
        check_packed(got, codes, ("onnx", "float4_e2m1fn", 4), 0)


def test_packed_and_large_zero_points():
    codes = random_codes((16, 24), "uint8", 4)
    zeros = random_codes((2, 24), "uint8", 4, 1)
    scale = usual_scales("float32", 48).reshape(2, 24)
    expected = pq.dequantize(codes, scale, zeros, axis=0, block_size=8)
    large = np.int64([2**62, -(2**62)] * 8)
    scales, of_rows = np.ones(16, np.float32), {"axis": 0, "block_size": 0}
    for layout in ("words", *FOUR_BITS):
        q = pq.pack(codes, pq.Layout(layout, axis=0, bits=4))
        z = pq.pack(zeros, pq.Layout(layout, bits=4))
        same(pq.dequantize(q, scale, z, axis=0, block_size=8), expected)
        numbers = ANY_ZEROS.run(pq.unpack(q), scales, large, dtype="float32", **of_rows)
        same(ANY_ZEROS.run(q, scales, large, dtype="float32", **of_rows), numbers)


# Threads


NEIGHBOURS = [("onnx", "int4", 4), ("onnx", "uint2", 2)]
NEIGHBOURS += [("words", "uint8", bits) for bits in (1, 3, 5, 7)] + [("words", "uint4", 4)]


@pytest.mark.parametrize("packing", NEIGHBOURS, ids=str)
def test_threads_share_no_word(packing, small_parts):
    # If two threads write to one word, a code is lost, but only in a few of many calls.
    _, name, bits = packing
    code = 1 if packing[0] == "onnx" else (1 << bits) - 1
    for shape, axis in (((2049,), 0), ((301, 3), 0), ((3, 1003), 1), ((7, 33), 1)):
        x = np.full(shape, code, np.float32)
        kwargs = {"dtype": name, "layout": layout_of(packing, axis)}
        codes = np.full(shape, code, np.uint8).view(dtype_of(name))
        expected = pack(codes, packing, axis)
        for _ in range(amount(10, 100)):
            with case(shape=shape, axis=axis):
                assert pq.quantize(x, 1.0, threads=7, **kwargs) == expected


# Parameters


@pytest.mark.parametrize("name", BITS)
def test_parameters_accept_their_own_packed_codes(name):
    x = adversarial("float32", 0.3, 40)
    for layout, bits in STREAMS:
        how = {"layout": pq.Layout(layout, bits=bits)}
        fits = bits == BITS[name] if layout == "onnx" else (layout, name, bits) in PACKINGS
        for zero in sorted({0, TYPES[name].highest or 0}):
            p = pq.QParams(0.5, zero, name)
            with case(zero=zero, **how):
                if fits:
                    q = p.quantize(x, **how)
                    assert q == pq.quantize(x, 0.5, zero, dtype=name, **how)
                    same(p.dequantize(q), pq.dequantize(q, 0.5, zero))
                else:
                    text = r"^layout\.bits: expected [^\n]+, got \d"
                    with pytest.raises(ValueError, match=text):
                        p.quantize(x, **how)


# ---- Memory of the result ----


def test_out_must_not_overlap_the_bytes():
    memory = np.zeros(64, np.uint8)
    text = "out: expected memory of its own, got an array that overlaps the input"
    out = memory.view(np.float32)[:8]
    for start in (0, 1, 31):
        p = pq.PackedArray(memory[start : start + 4], "int4", 8)
        before = memory.copy()
        with case(start=start), pytest.raises(ValueError, match=f"^{text}$"):
            pq.dequantize(p, 1.0, 1, out=out)
        same(memory, before)
    for start in (32, 60):
        p = pq.PackedArray(memory[start : start + 4], "int4", 8)
        same(pq.dequantize(p, 1.0, 1, out=out), np.float32([-1] * 8))


def test_out_between_the_bytes():
    # `out` may be between rows of memory if no byte is shared: the codes use 4 bytes of a
    # row of 16 bytes, and the result uses 4 different bytes of each row.
    memory = np.zeros((8, 16), np.uint8)
    p = pq.PackedArray(memory[3, 4:8], "int4", 8)
    out = memory.view(np.float32)[:, 2]
    same(pq.dequantize(p, 1.0, 1, out=out).copy(), np.float32([-1] * 8))
