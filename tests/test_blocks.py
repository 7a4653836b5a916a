# SPDX-License-Identifier: Apache-2.0
"""Compare decoded GGUF blocks with an oracle: values, types, memory, threads, files."""

import copy
import functools
import pickle

import blocks_oracle
import numpy as np
import pytest
from blocks_oracle import DECODERS
from support import (
    LEVELS,
    REALS,
    Guarded,
    at_level,
    bit_view,
    case,
    cast,
    dtype_of,
    is_nan,
    loop,
    peak_of,
    poisoned,
    split_small_arrays,
    untouched,
)
from test_files import stored_gguf

import pyquant as pq
from pyquant import _core
from pyquant.weights.blocks import BlockFormat, block_format, block_formats

FORMATS = block_formats()
SOME = [block_format(name) for name in ("Q4_0", "Q6_K", "NVFP4")]
by_name = pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
some = pytest.mark.parametrize("fmt", SOME, ids=lambda fmt: fmt.name)


def random_blocks(rng, fmt, *shape):
    """Return rows of blocks with random bytes. The last number of `shape` is the number of
    blocks in a row."""
    return rng.integers(0, 256, (*shape[:-1], shape[-1] * fmt.block_bytes), np.uint8)


def expected(fmt, b):
    """Return the float32 numbers of blocks by the definition. All NaNs have equal bits."""
    values = DECODERS[fmt.name](b.reshape(-1, fmt.block_bytes))
    with np.errstate(over="ignore"):
        found = values.astype(np.float32)
    found[is_nan(found)] = np.nan
    return found.reshape(fmt.decoded_shape(b.shape))


def same_bits(got, wanted):
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    words = bit_view(wanted.dtype)
    assert np.array_equal(got.view(words), wanted.view(words))


# ---- formats ----


def test_formats():
    assert {
        fmt.name: (fmt.ggml_id, fmt.block_size, fmt.block_bytes) for fmt in FORMATS
    } == blocks_oracle.FORMATS
    assert [fmt.ggml_id for fmt in FORMATS] == sorted(fmt.ggml_id for fmt in FORMATS)
    for fmt in FORMATS:
        assert block_format(fmt.name) is fmt
        assert block_format(np.int64(fmt.ggml_id)) is fmt
        assert fmt.bits_per_element == 8 * fmt.block_bytes / fmt.block_size


def test_a_format_is_one_object():
    fmt = block_format("Q4_K")
    assert pickle.loads(pickle.dumps(fmt)) is copy.deepcopy(fmt) is fmt
    assert repr(fmt) == "BlockFormat('Q4_K', block_size=256, block_bytes=144)"
    with pytest.raises(AttributeError, match=r"^name: expected no assignment"):
        fmt.name = "Q5_K"
    with pytest.raises(AttributeError, match=r"^_row: expected no deletion"):
        del fmt._row
    with pytest.raises(TypeError, match=r"^BlockFormat: expected block_format"):
        type(fmt)()
    with pytest.raises(TypeError, match=r"^BlockFormat: expected block_format"):
        BlockFormat.__new__(BlockFormat)


def test_forged_formats():
    """An object of a subclass with a wrong size decodes like the format of its name."""
    nothing = object.__new__(BlockFormat)
    named = lambda f: f.name  # noqa: E731
    for use in (repr, copy.copy, pickle.dumps, lambda f: f.dequantize(b""), named):
        with pytest.raises(AttributeError, match="_row"):
            use(nothing)

    class Small(BlockFormat):
        __slots__ = ()
        _row = property(lambda _: ("Q4_K", 12, 256, 1, True))

    small = object.__new__(Small)
    with pytest.raises(ValueError, match=r"^b: expected rows of a multiple of 144 bytes"):
        small.dequantize(np.zeros(1, np.uint8))
    assert small.quantize(np.zeros(256, np.float32)).shape == (144,)
    assert copy.copy(small) is block_format("Q4_K")


@by_name
def test_shapes(fmt):
    assert fmt.encoded_shape((3, 2 * fmt.block_size)) == (3, 2 * fmt.block_bytes)
    assert fmt.decoded_shape([3, 2 * fmt.block_bytes]) == (3, 2 * fmt.block_size)
    assert fmt.encoded_shape((0,)) == (0,)


# ---- numbers ----


def check_values(fmt, b):
    """Assert that each instruction set decodes blocks to the values of the definition."""
    wanted = expected(fmt, b)
    for isa in LEVELS:
        with case(isa=isa):
            same_bits(at_level(isa, _core.decode_blocks, fmt._row, b), wanted)
    return wanted


@by_name
def test_values(fmt, rng):
    check_values(fmt, random_blocks(rng, fmt, 3, 200))


@by_name
def test_values_of_finite_scales(fmt, rng):
    """Without the mask 0xBB, many random scales would be infinite."""
    assert np.isfinite(check_values(fmt, random_blocks(rng, fmt, 300) & 0xBB)).all()


def test_every_scale():
    """Blocks with all 65536 float16 scales decode correctly, including results of -0."""
    fmt = block_format("Q4_0")
    b = fmt.join(
        d=np.arange(65536, dtype=np.uint16).view(np.float16),
        qs=np.tile(np.arange(16) * 17, (65536, 1)),
    )
    check_values(fmt, b)


@pytest.mark.parametrize("name", ["MXFP4", "NVFP4"])
def test_every_scale_of_a_byte(name):
    fmt, field = block_format(name), {"MXFP4": "e", "NVFP4": "d"}[name]
    parts = fmt.split(np.zeros((256, fmt.block_bytes), np.uint8))
    scales = np.arange(256).reshape(256, 1, *[1] * (parts[field].ndim - 2))
    count = parts["qs"].shape[-1]
    codes = np.resize(np.arange(16) * 17, (256, 1, count))
    b = fmt.join(qs=codes, **{field: np.broadcast_to(scales, parts[field].shape)})
    check_values(fmt, b)


def test_every_byte_of_digits():
    """All 256 values of a byte decode correctly, although encoders write only some."""
    fmt = block_format("TQ1_0")
    for shift in range(4):
        qs = (np.arange(256)[:, None] + shift * np.arange(48)) % 256
        qh = (np.arange(256)[:, None] * 3 + shift * np.arange(4)) % 256
        b = fmt.join(d=np.full(256, 1, np.float16), qs=qs, qh=qh)
        check_values(fmt, b)


@by_name
@loop("dtype, isa", REALS, LEVELS)
def test_types(fmt, dtype, isa, rng):
    """Results of another type are the float32 results, rounded to the type."""
    b = random_blocks(rng, fmt, 70)
    wanted = cast(expected(fmt, b), dtype)
    found = at_level(isa, _core.decode_blocks, fmt._row, b, dtype)
    assert np.array_equal(is_nan(found), is_nan(wanted))
    number = ~is_nan(wanted)
    same_bits(found[number], wanted[number])
    out = np.empty(fmt.decoded_shape(b.shape), dtype)
    assert at_level(isa, _core.decode_blocks, fmt._row, b, out=out) is out
    same_bits(out, found)


@loop("name", ["Q4_K", "Q8_K", "MXFP4"])
def test_long_calls_to_bfloat16(name, rng):
    """Long calls round to bfloat16, including subnormal numbers, infinities and NaN."""
    fmt = block_format(name)
    b = random_blocks(rng, fmt, 70000 // fmt.block_size)
    if name == "Q8_K":
        b.reshape(-1, fmt.block_bytes)[:9, 2:4] = [1, 0]  # a small scale
    wanted = cast(expected(fmt, b), dtype_of("bfloat16"))
    wanted[is_nan(wanted)] = np.nan
    for isa in LEVELS:
        same_bits(at_level(isa, _core.decode_blocks, fmt._row, b, wanted.dtype), wanted)


# ---- memory ----


@some
@loop("dtype", REALS)
def test_rows_side_by_side(fmt, dtype, rng, monkeypatch):
    """Blocks decode correctly to a transposed array. The core then decodes the blocks of
    several rows together."""
    b = random_blocks(rng, fmt, 2, 70, 3)
    wanted = fmt.dequantize(b, dtype=dtype)
    planes, rows, columns = wanted.shape
    apart = np.repeat(b, 2, axis=-1)[..., ::2]
    with split_small_arrays(monkeypatch):
        for given, threads in ((b, 1), (b, 2), (apart, 5)):
            out = poisoned(dtype, (planes, columns, rows)).transpose(0, 2, 1)
            fmt.dequantize(given, out=out, threads=threads)
            same_bits(out.copy(), wanted)
            out = poisoned(dtype, (columns, rows + 2)).T
            fmt.dequantize(given[1], out=out[1:-1], threads=threads)
            same_bits(out[1:-1].copy(), wanted[1])
            assert untouched(out[:1])
            assert untouched(out[-1:])


@by_name
@loop("isa", LEVELS)
def test_decode_writes_only_its_result(fmt, isa, rng):
    """A call reads and writes no bytes before or after the arrays, which begin at an even
    or an odd address."""
    for offset in (0, 1):
        memory = Guarded(np.uint8, 5 * fmt.block_bytes, offset)
        result = Guarded(np.float32, 5 * fmt.block_size, offset)
        memory.array[...] = random_blocks(rng, fmt, 5)
        at_level(isa, _core.decode_blocks, fmt._row, memory.array, out=result.array)
        same_bits(result.array.copy(), expected(fmt, memory.array))
        result.check()
        memory.check()


def test_other_memory(rng):
    """Arguments can be buffers, lists and empty arrays, and `out` can have gaps."""
    fmt = block_format("Q8_0")
    b = random_blocks(rng, fmt, 2, 3) & 0xBB  # finite scales
    x = fmt.dequantize(b)
    q = fmt.quantize(x)
    same_bits(fmt.dequantize(memoryview(b)), x)
    same_bits(fmt.dequantize(bytearray(b.tobytes())), x.ravel())
    same_bits(fmt.quantize(memoryview(x)), q)
    same_bits(fmt.quantize(x.tolist()), q)
    for shape in ((0,), (0, 34), (3, 0), (2, 0, 68)):
        found = fmt.dequantize(np.empty(shape, np.uint8))
        assert (found.shape, found.dtype) == (fmt.decoded_shape(shape), np.float32)
        same_bits(fmt.quantize(found), np.empty(shape, np.uint8))
    numbers = MEMORY.view(np.float32)[:256]
    Q4_K.dequantize(MEMORY[1024:1168], out=numbers)
    Q4_K.quantize(np.ones(256), weights=numbers, out=MEMORY[1024:1168])
    fmt.quantize(numbers, out=MEMORY[1024:1296])


def test_nothing_is_allocated(rng):
    fmt = block_format("Q4_K")
    b = random_blocks(rng, fmt, 256, 16)
    for out in (np.empty((256, 4096), np.float32), np.empty((256, 4096), "f2", order="F")):
        for given in (b, b[::-1]):
            call = functools.partial(fmt.dequantize, given, out=out)
            assert peak_of(call)[1] < 4096


# ---- what is refused ----

Q4_K = block_format("Q4_K")
ROWS = np.zeros((2, 288), np.uint8)
MEMORY = np.zeros(4096, np.uint8)


# ---- fields ----


@by_name
def test_fields(fmt, rng):
    b = random_blocks(rng, fmt, 3, 4)
    parts = fmt.split(b)
    assert list(parts) == [
        text.split(":")[0] for text in pq.weights.blocks._FIELDS[fmt.name].split()
    ]
    assert sum(part.nbytes for part in parts.values()) == b.nbytes
    assert all(np.shares_memory(part, b) for part in parts.values())
    assert all(part.shape[:2] == (3, 4) for part in parts.values())
    same_bits(fmt.join(**parts), b)
    apart = fmt.split(np.repeat(b, 2, axis=-1)[..., ::2])
    same_bits(fmt.join(**apart), b)


def test_fields_by_hand():
    """A block written by hand has the right fields: Q5_1 with the scale 0.5, the minimum -2
    and the upper bits 0xffff0000."""
    text = "0038 00c0 0000ffff 00112233445566778899aabbccddeeff"
    b = np.frombuffer(bytes.fromhex(text), np.uint8)
    parts = block_format("Q5_1").split(b)
    assert parts["d"].tolist() == [0.5]
    assert parts["m"].tolist() == [-2.0]
    assert parts["qh"].tolist() == [0xFFFF0000]
    assert parts["qs"][0, :3].tolist() == [0, 0x11, 0x22]
    assert block_format("Q5_1").dequantize(b).tolist() == [
        *(np.arange(16) * 0.5 - 2),
        *(np.arange(16, 32) * 0.5 - 2),
    ]


def test_fields_that_are_written_change_the_bytes(rng):
    fmt = block_format("Q8_0")
    b = random_blocks(rng, fmt, 2)
    fmt.split(b)["d"][1] = 0
    assert not fmt.dequantize(b)[32:].any()


# Tests of BlockFormat.join(), mostly with the fields of Q8_0: scales and codes.


def test_scales_may_be_any_numbers_that_fields_hold():
    """Scales of join() can have any real or integer type, if the field holds the values
    exactly. NumPy would round int64 values before a comparison."""
    fmt, qs = block_format("Q8_0"), np.zeros((3, 32), np.int8)
    wanted = fmt.join(d=np.float16([1, -2, 2048]), qs=qs)
    for dtype in ("int64", "float64", dtype_of("bfloat16")):
        same_bits(fmt.join(d=np.array([1, -2, 2048], dtype), qs=qs), wanted)
    same_bits(fmt.join(d=[1, -2, 2048], qs=qs), wanted)
    assert np.isnan(fmt.split(fmt.join(d=np.float32([1, np.nan, 2]), qs=qs))["d"][1])
    wide, rest = block_format("Q8_K"), {"qs": np.zeros((1, 256), int)}
    rest["bsums"] = np.zeros((1, 16), int)
    assert wide.split(wide.join(d=[2**60], **rest))["d"] == 2.0**60
    for beyond in (2**60 + 1, 2**63 - 1, -(2**63) + 1):
        with pytest.raises(ValueError, match=rf"^d: expected .* float32 holds, .*{beyond}"):
            wide.join(d=[beyond], **rest)
    with pytest.raises(ValueError, match=r"^d: expected numbers that float16 holds, got"):
        fmt.join(d=np.array([1, 2, 1e30], dtype_of("bfloat16")), qs=qs)


# ---- files ----


@by_name
def test_files(fmt, rng, tmp_path):
    path = tmp_path / "a.gguf"
    b = random_blocks(rng, fmt, 3, 5, 2)
    pq.write_weights(path, {"w": (fmt.name, b), "v": (fmt.name, b[0, 0])})
    wanted = fmt.dequantize(b)
    with pq.open_weights(path) as f:
        assert f["w"].shape == wanted.shape
        same_bits(f["w"].dequantize(), wanted)
        same_bits(
            f["w"].dequantize(slice(1, 3), dtype="float64"),
            fmt.dequantize(b[1:], dtype="float64"),
        )
        same_bits(f["w"].dequantize(slice(-1, None)), wanted[2:])
        assert f["w"].dequantize(slice(2, 2)).shape == (0, *wanted.shape[1:])
        out = np.empty(wanted.shape, np.float16, order="F")
        assert f["w"].dequantize(out=out, threads=2) is out
        same_bits(out.copy(order="C"), fmt.dequantize(b, dtype="float16"))
        size = fmt.block_size
        same_bits(f["v"].dequantize(), wanted[0, 0])
        same_bits(f["v"].dequantize(slice(size, None)), wanted[0, 0, size:])
        message = rf"^rows: expected whole blocks of {size} for {fmt.name}, got "
        for rows in (slice(1, None), slice(0, size - 1), slice(1, size + 1)):
            with pytest.raises(ValueError, match=message):
                f["v"].dequantize(rows)
        with pytest.raises(TypeError, match=rf"^dtype: .* for {fmt.name}, got int8"):
            f["w"].dequantize(dtype="int8")
        assert f["w"].raw.tobytes() == b.tobytes()
        message = rf"without blocks, got {fmt.name}; dequantize\(\) decodes it; raw has"
        with pytest.raises(ValueError, match=message):
            np.asarray(f["w"])
        same_bits(f["w"][[2, 0, 1]], wanted[[2, 0, 1]])


def test_files_in_pieces(rng, tmp_path, monkeypatch):
    """Tensors decode correctly in spans. The memory pages of a span are released."""
    monkeypatch.setattr(pq.weights._elements, "SPAN", 1 << 9)
    fmt = block_format("Q6_K")
    b = random_blocks(rng, fmt, 30, 3)
    pq.write_weights(tmp_path / "a.gguf", {"w": ("Q6_K", b)})
    wanted = fmt.dequantize(b)
    with pq.open_weights(tmp_path / "a.gguf") as f:
        same_bits(f["w"].dequantize(), wanted)
        same_bits(f["w"].dequantize(slice(4, 29), threads=3), wanted[4:29])
        out = np.empty(wanted.shape, np.float32, order="F")
        same_bits(f["w"].dequantize(out=out).copy(order="C"), wanted)


def test_files_into_gaps_in_pieces(rng, tmp_path, monkeypatch):
    """One call decodes a limited number of elements, even if a tensor has only one row."""
    monkeypatch.setattr(pq.weights._elements, "SPAN", 1 << 10)
    fmt, sizes = block_format("Q4_K"), []
    decode = BlockFormat.dequantize

    def counted(self, b, *, out, threads):
        sizes.append(out.size)
        return decode(self, b, out=out, threads=threads)

    monkeypatch.setattr(BlockFormat, "dequantize", counted)
    for shape in ((1, 1, 41), (1, 7, 3), (2, 1, 9), (3, 40, 1), (11,)):
        b = random_blocks(rng, fmt, *shape)
        pq.write_weights(tmp_path / "a.gguf", {"w": ("Q4_K", b)})
        wanted = decode(fmt, b)
        memory = np.zeros((*wanted.shape[:-1], 2 * wanted.shape[-1]), np.float32)
        for out in (memory[..., ::-2], np.zeros(wanted.shape[::-1], np.float32).T):
            with pq.open_weights(tmp_path / "a.gguf") as f:
                f["w"].dequantize(out=out)
                same_bits(out.copy(), wanted)
    assert max(sizes) <= 1 << 10


@loop("name", ["Q4_K", "F32"])
def test_files_into_memory_that_is_shared(name, tmp_path, monkeypatch):
    """If elements of `out` overlap, the error is raised before an element is written."""
    monkeypatch.setattr(pq.weights._elements, "SPAN", 1 << 9)
    x = np.ones((4, 512), np.float32)
    made = ("Q4_K", np.ones((4, 288), np.uint8)) if name == "Q4_K" else x
    pq.write_weights(tmp_path / "a.gguf", {"w": made})
    memory = np.zeros(4096, np.float32)
    with pq.open_weights(tmp_path / "a.gguf") as f:
        for strides in ((512 * 4 - 4, 4), (0, 4), (4, 0), (-4, 4)):
            out = np.lib.stride_tricks.as_strided(memory[1024:], (4, 512), strides)
            with pytest.raises(ValueError, match=r"^out: expected dimensions that neither"):
                f["w"].dequantize(out=out)
            assert not memory.any()
        f["w"].dequantize(out=memory[:2048].reshape(4, 512)[::-1].view(np.matrix))
        same_bits(memory[:2048].reshape(4, 512)[::-1].copy(), f["w"].dequantize())


def test_no_rows(rng, tmp_path):
    """A slice without elements can begin at any element of a block."""
    fmt = block_format("Q4_K")
    pq.write_weights(tmp_path / "a.gguf", {"w": ("Q4_K", random_blocks(rng, fmt, 2))})
    with pq.open_weights(tmp_path / "a.gguf") as f:
        for rows in (slice(3, 3), slice(0, 0), slice(512, None), slice(300, 200)):
            assert f["w"].dequantize(rows, dtype="float16").shape == (0,)


@by_name
def test_big_endian_files(fmt, rng, tmp_path):
    """In big-endian files, scales are big-endian, as in llama.cpp. Formats with integers of
    several bytes raise an error."""
    b = random_blocks(rng, fmt, 3, 2)
    path = tmp_path / "a.gguf"
    file, fields = b.copy(), pq.weights.blocks._FIELDS[fmt.name].split()
    for field in fmt.split(file).values():
        if field.dtype.itemsize > 1:
            field[...] = field.byteswap()
    tensors = [("w", fmt.decoded_shape(b.shape)[::-1], fmt.ggml_id, 0)]
    path.write_bytes(stored_gguf((), tensors, file.tobytes(), ">"))
    with pq.open_weights(path) as f:
        if any(field.split(":")[1] in ("u2", "u4", "i2") for field in fields):
            message = rf"^format: expected little-endian blocks of {fmt.name}, got big"
            with pytest.raises(ValueError, match=message):
                f["w"].dequantize()
            return
        same_bits(f["w"].dequantize(), fmt.dequantize(b))
        same_bits(
            f["w"].dequantize(slice(1, 2), dtype="float64"),
            fmt.dequantize(b[1:2], dtype="float64"),
        )
        assert f["w"].raw.tobytes() == file.tobytes()
