"""Arguments of all kinds: buffers, array protocols, DLPack, PyTorch tensors, numbers."""

import array
import ctypes
import mmap
import os
import sys

import numpy as np
import pytest
from support import adversarial, amount, bit_view, codes, each, loop, peak_of, same

import pyquant as pq

N = amount(60_000, 300_000)
# a limit in bytes for memory of a call without a copy; the arrays are much larger
SMALL = 1 << 16


class Interface:
    """An object that supports only NumPy's array interface."""

    def __init__(self, values):
        self.values = values
        self.asked = 0

    @property
    def __array_interface__(self):
        self.asked += 1
        return self.values.__array_interface__


class Tensor:
    """An object that supports only DLPack."""

    device = None

    def __init__(self, values):
        self.values = values
        self.asked = 0

    def __dlpack__(self, **options):
        self.asked += 1
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device or self.values.__dlpack_device__()


class Sequence(Tensor):
    """A DLPack object that is also a sequence. NumPy would read it element by element."""

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        raise AssertionError("an element was fetched by itself")


class Column:
    """A column or table with attributes that count nulls. NumPy reads a null as NaN."""

    def __init__(self, **attributes):
        vars(self).update(attributes)

    def __array__(self, dtype=None, copy=None):
        return np.array([1, np.nan], np.float32)


PYARROW, POLARS = Column(null_count=1), Column(null_count=lambda: 1)
NULL, NAN = Column(na_value=None), Column(na_value=np.nan)  # dtypes of pandas
PANDAS = Column(dtype=NULL, isna=lambda: np.array([False, True]))
NULLS = {
    "pyarrow": PYARROW,
    "pyarrow table": Column(itercolumns=lambda: [Column(null_count=0), PYARROW]),
    "polars": POLARS,
    "polars table": Column(get_columns=lambda: [POLARS]),
    "polars arrays": Column(
        null_count=lambda: 0, dtype=Column(inner=None), explode=lambda: POLARS
    ),
    "pandas": PANDAS,
    "pandas table": Column(isna=None, columns="ab", items=lambda: [("a", PANDAS)]),
}
NO_NULLS = {
    "pyarrow": Column(null_count=0),
    "polars": Column(null_count=lambda: 0),
    "pandas": Column(dtype=NAN, isna=PANDAS.isna),
    "pandas with a NumPy dtype": Column(dtype=np.dtype("f4"), isna=PANDAS.isna),
}


def mapped(values):
    """Return a memoryview of mapped memory, with the element type of `values`."""
    memory = mmap.mmap(-1, values.nbytes)
    memory[:] = values.tobytes()
    return memoryview(memory).cast(values.dtype.char, values.shape)


def in_ctypes(values):
    kind = {"f": ctypes.c_float, "b": ctypes.c_int8}[values.dtype.char]
    for n in values.shape[::-1]:
        kind = kind * n
    return kind.from_buffer_copy(values)


# Each function returns an object, not a NumPy array, with the elements of a matrix.
HOLDERS = {
    "memoryview": lambda a: memoryview(bytearray(a)).cast("B").cast(a.dtype.char, a.shape),
    "memoryview with gaps": lambda a: np.repeat(a, 2, axis=0)[::2].data,
    "read-only memoryview": lambda a: memoryview(a.tobytes()).cast(a.dtype.char, a.shape),
    "map": mapped,
    "ctypes": in_ctypes,
    "array interface": Interface,
    "DLPack": Tensor,
    "DLPack with gaps": lambda a: Tensor(np.repeat(a, 2, axis=1)[:, ::2]),
    "DLPack of a sequence": Sequence,
}


def most(call):
    """Return the peak number of bytes that the second run of a call allocates."""
    call()
    return peak_of(call)[1]


def reals():
    return adversarial("float32", 0.3, N).reshape(-1, 100)


@pytest.mark.parametrize("holder", HOLDERS)
def test_data(holder):
    x, q = reals(), codes("int8", N).reshape(-1, 100)
    held, held_codes = HOLDERS[holder](x), HOLDERS[holder](q)
    out, back = np.empty(x.shape, np.int8), np.empty(q.shape, np.float32)
    p = pq.QParams(0.3, 1, "int8")
    for quantize, dequantize in (
        (
            lambda x, **out: pq.quantize(x, 0.3, 1, **out),
            lambda q, **out: pq.dequantize(q, 0.3, 1, **out),
        ),
        (p.quantize, p.dequantize),
    ):
        same(quantize(held), quantize(x))
        same(dequantize(held_codes), dequantize(q))
        assert most(lambda call=quantize: call(held, out=out)) < SMALL
        assert most(lambda call=dequantize: call(held_codes, out=back)) < SMALL
        same(out, quantize(x))
        same(back, dequantize(q))
    x = np.random.default_rng(1).normal(size=(N // 100, 100)).astype(np.float32)
    held = HOLDERS[holder](x)
    assert pq.choose_qparams(held, axis=1) == pq.choose_qparams(x, axis=1)
    assert most(lambda: pq.choose_qparams(held)) < SMALL


@pytest.mark.parametrize("holder", HOLDERS)
def test_parameters(holder):
    x = reals()[:5, :40].copy()
    scale, zero = (
        np.float32([[0.5], [1], [2], [3], [4]]),
        np.int8([[1], [2], [3], [4], [5]]),
    )
    given = HOLDERS[holder](scale), HOLDERS[holder](zero)
    kwargs = {"axis": 1, "block_size": 40}
    same(pq.quantize(x, *given, **kwargs), pq.quantize(x, scale, zero, **kwargs))
    p = pq.QParams(*given, "int8", **kwargs)
    assert p == pq.QParams(scale, zero, "int8", **kwargs)
    q = pq.onnx.quantize_linear(HOLDERS[holder](x), *given, **kwargs)
    same(q, pq.onnx.quantize_linear(x, scale, zero, **kwargs))


@each("code, dtype", ["f", "d"], ["int8", "uint16"])
def test_python_arrays_of_reals(code, dtype):
    x = adversarial(np.dtype(code), 0.3, N)
    held = array.array(code, x.tobytes())
    out = np.empty(N, dtype)
    assert most(lambda: pq.quantize(held, 0.3, dtype=dtype, out=out)) < SMALL
    same(out, pq.quantize(x, 0.3, dtype=dtype))


@pytest.mark.parametrize("code", "bBhHiI")
def test_python_arrays_of_codes(code):
    q = codes(np.dtype(code), N)
    held = array.array(code, q.tobytes())
    out = np.empty(N, np.float32)
    assert most(lambda: pq.dequantize(held, 0.3, 1, out=out)) < SMALL
    same(out, pq.dequantize(q, 0.3, 1))


def test_protocols_are_asked_once():
    for kind in (Interface, Tensor, Sequence):
        held = kind(np.float32([1, 2]))
        pq.quantize(held, 1.0)
        assert held.asked == 1


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_files_in_memory(tmp_path, mode):
    x = reals()
    np.save(tmp_path / "x.npy", x)
    file = np.load(tmp_path / "x.npy", mmap_mode=mode)
    out = np.empty(x.shape, np.int8)
    assert most(lambda: pq.quantize(file, 0.3, out=out)) < SMALL
    same(out, pq.quantize(x, 0.3))


def test_a_file_by_mmap(tmp_path):
    x = reals()
    path = tmp_path / "x.bin"
    path.write_bytes(x.tobytes())
    with path.open("rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    held = memoryview(memory).cast("f")
    same(pq.quantize(held, 0.3), pq.quantize(x.reshape(-1), 0.3))
    held.release()
    memory.close()  # This raises BufferError if pyquant still holds the memory.


# Errors


def test_released_memory_is_refused():
    assert np.ma  # The import of np.ma makes calls search lists for masked arrays.
    held = memoryview(bytearray(4))
    held.release()
    for x in (held, [held]):
        with pytest.raises(TypeError, match=r"^x: expected float32, .*, got object$"):
            pq.quantize(x, 1.0)


@pytest.mark.parametrize("name", ["x", "scale", "zero_point", "q"])
def test_memory_of_another_device_is_refused(name):
    class Elsewhere(Tensor):
        device = (2, 0)

    given = {"x": np.ones(3, np.float32), "scale": 1.0, name: Elsewhere(np.ones(1, "i1"))}
    call = pq.dequantize if name == "q" else pq.quantize
    if name == "q":
        del given["x"]
    message = (
        f"^{name}: expected an array in the memory of the CPU, "
        "got one on DLPack device type 2$"
    )
    with pytest.raises(TypeError, match=message):
        call(**given)
    assert given[name].asked == 0


def test_host_memory_of_another_device_is_taken():
    class Pinned(Tensor):
        device = (3, 0)

    same(pq.quantize(Pinned(np.float32([1.5])), 1.0), np.int8([2]))


@pytest.mark.parametrize("kind", [TypeError, BufferError, ValueError])
def test_errors_of_a_library_name_the_parameter(kind):
    class Refusing:
        def __array__(self, dtype=None, copy=None):
            raise kind("not\nso")

    class RefusingToLend:
        def __dlpack__(self, **options):
            raise kind("not\nso")

    expected = ValueError if kind is ValueError else TypeError
    for held in (Refusing(), RefusingToLend()):
        with pytest.raises(expected, match=r"^scale: expected an array, got .*not\sso$"):
            pq.quantize(np.float32([1]), held)


@pytest.mark.parametrize("column", NULLS)
@pytest.mark.parametrize("name", ["x", "scale", "zero_point", "q"])
def test_nulls_are_errors(name, column, monkeypatch):
    # calls search for nulls if pandas is in sys.modules
    monkeypatch.setitem(sys.modules, "pandas", None)
    call = pq.dequantize if name == "q" else pq.quantize
    message = f"^{name}: expected an array without nulls, got 1 in a Column; fill or drop"
    for held in (NULLS[column], [[1.0, 2.0], NULLS[column]]):
        given = {"x": np.ones(2, np.float32), "scale": 1.0, name: held}
        if name == "q":
            del given["x"]
        with pytest.raises(ValueError, match=message):
            call(**given)


@pytest.mark.parametrize("column", NO_NULLS)
def test_nan_in_columns_is_a_number(column, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    same(pq.quantize(NO_NULLS[column], 1.0), np.int8([1, -128]))


@pytest.mark.parametrize("module", ["pandas", "polars", "pyarrow"])
def test_nulls_of_packages_are_errors(module):
    package = pytest.importorskip(module)  # skips the test if the package is missing
    make = getattr(package, "Series", None) or package.array
    column = make([1.0, None], dtype="Float64") if module == "pandas" else make([1.0, None])
    with pytest.raises(ValueError, match=r"^x: expected an array without nulls, got 1 in"):
        pq.quantize(column, 1.0)


def test_out_wraps_memory_of_another_library():
    """`out` can be a NumPy array on memory of any object with a writeable buffer."""
    x = np.float32([1, 2])
    for held in (bytearray(2), array.array("b", b"ab"), mmap.mmap(-1, 2)):
        pq.quantize(x, 1.0, out=np.frombuffer(held, np.int8))
        assert bytes(memoryview(held)) == b"\1\2"
    memory = np.zeros(2, np.int8)
    pq.quantize(x, 1.0, out=np.asarray(Interface(memory)))
    assert memory.tolist() == [1, 2]


def test_out_over_an_input():
    memory = np.ones(8, np.float32)
    for held in (memory.data, Interface(memory), Tensor(memory)):
        with pytest.raises(ValueError, match=r"^out: expected memory of its own"):
            pq.quantize(held, 1.0, out=memory.view(np.int8)[:8])
    same(memory, np.ones(8, np.float32))


def test_files_in_memory_as_out(tmp_path):
    x = reals()
    path = tmp_path / "q.npy"
    out = np.lib.format.open_memmap(path, "w+", np.int8, x.shape)
    assert pq.quantize(x, 0.3, out=out) is out
    out.flush()
    same(np.load(path), pq.quantize(x, 0.3))
    with pytest.raises(ValueError, match=r"^out: expected a writeable array"):
        pq.quantize(x, 0.3, out=np.load(path, mmap_mode="r"))


# PyTorch


@pytest.fixture(scope="module")
def torch():
    if "PYQUANT_EMULATED" in os.environ:
        pytest.skip("too much for an emulated processor")
    return pytest.importorskip("torch")  # optional


def test_tensors(torch):
    x = reals()
    for view in (x, x.T, x[::3, ::2]):
        tensor = torch.from_numpy(view)
        out = np.empty(view.shape, np.int8)
        assert most(lambda t=tensor, o=out: pq.quantize(t, 0.3, 1, out=o)) < SMALL
        same(out, pq.quantize(view, 0.3, 1))
    for dtype in ("float64", "float16"):
        values = adversarial(dtype, 0.3, 999)
        same(pq.quantize(torch.from_numpy(values), 0.3), pq.quantize(values, 0.3))
    scale, zero = np.float32([0.5, 2]), np.int8([1, -2])
    given = torch.from_numpy(scale), torch.from_numpy(zero)
    same(pq.quantize(x[:2], *given, axis=0), pq.quantize(x[:2], scale, zero, axis=0))
    assert pq.choose_qparams(torch.ones(3), axis=0) == pq.choose_qparams(
        np.ones(3, np.float32), axis=0
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
def test_tensors_of_codes(torch, dtype):
    q = codes(dtype, 999)
    expected = pq.dequantize(q, 0.3, 1)
    same(pq.dequantize(torch.from_numpy(q), 0.3, 1), expected)
    p = pq.QParams(0.3, 1, dtype)
    same(p.dequantize(torch.from_numpy(q)), expected)
    other = torch.ones(3, dtype=torch.float32)
    with pytest.raises(TypeError, match=rf"^q: expected {dtype}, got float32; did"):
        p.dequantize(other)


ML_TYPES = {
    "bfloat16": "bfloat16",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e4m3fnuz": "float8_e4m3fnuz",
    "float8_e5m2": "float8_e5m2",
    "float8_e5m2fnuz": "float8_e5m2fnuz",
}


@pytest.mark.parametrize("name", ML_TYPES)
def test_tensors_of_types_that_numpy_lacks(torch, name):
    """pyquant reads tensors of bfloat16 and float8 types without a copy."""
    ml_dtypes = pytest.importorskip("ml_dtypes")  # skips the test without the types
    bits = torch.uint16 if name == "bfloat16" else torch.uint8
    dtype = np.dtype(getattr(ml_dtypes, name))
    patterns = np.arange(1 << (8 * dtype.itemsize), dtype=bit_view(dtype))
    tensor = torch.from_numpy(patterns.copy()).view(getattr(torch, name))
    values = tensor.view(bits).numpy().view(dtype)
    assert values.ctypes.data == tensor.data_ptr()
    # PyTorch converts the codes to equal numbers, except that NaN can have other bits.
    ours = pq.dequantize(values, 1.0) if name != "bfloat16" else values.astype("f4")
    theirs = tensor.float().numpy()
    number = ~np.isnan(theirs)
    assert (np.isnan(ours) == ~number).all()
    same(ours[number], theirs[number])
    if name == "bfloat16":
        same(pq.quantize(tensor, 0.3), pq.quantize(patterns.view(dtype), 0.3))
        out = np.empty(len(tensor), np.int8)
        assert most(lambda: pq.quantize(tensor, 0.3, out=out)) < SMALL
    else:
        same(pq.dequantize(tensor, 0.3), pq.dequantize(values, 0.3))
        p = pq.QParams(0.3, None, getattr(torch, name))
        same(p.dequantize(tensor), pq.dequantize(values, 0.3))
    back = torch.from_numpy(values.view(bit_view(dtype))).view(getattr(torch, name))
    assert back.data_ptr() == tensor.data_ptr()
    assert back.dtype == tensor.dtype


def test_tensors_that_numpy_does_not_take(torch):
    refused = {
        "Tensor that requires grad": torch.ones(3, dtype=torch.bfloat16).requires_grad_(),
        "SparseTensorImpl": torch.ones(3, dtype=torch.bfloat16).to_sparse(),
        "meta": torch.ones(3, device="meta"),
        "Sparse": torch.ones(3).to_sparse(),
        "requires grad. Use tensor.detach": torch.ones(3, requires_grad=True),
    }
    for word, tensor in refused.items():
        message = rf"^x: expected an array, got Tensor: .*{word}"
        with pytest.raises(TypeError, match=message):
            pq.quantize(tensor, 1.0)


@pytest.mark.parametrize("name", ["int8", "uint8", "int32", "uint4", "float8_e5m2"])
def test_types_of_torch(torch, name):
    pytest.importorskip("ml_dtypes")  # skips the test without uint4 and float8_e5m2
    x = reals()
    same(pq.quantize(x, 0.3, dtype=getattr(torch, name)), pq.quantize(x, 0.3, dtype=name))
    q = pq.quantize(x, 0.3)
    y = pq.dequantize(q, 0.3, dtype="float16")
    same(pq.dequantize(q, 0.3, dtype=torch.float16), y)
    with pytest.raises(TypeError, match=r"^dtype: expected int8, .*, got torch\.qint8$"):
        pq.quantize(x, 0.3, dtype=torch.qint8)


def test_types_that_numpy_lacks_through_dlpack(torch):
    held = Tensor(torch.ones(3, dtype=torch.bfloat16))
    with pytest.raises(TypeError, match=r"^x: expected an array, got Tensor: .*dtype"):
        pq.quantize(held, 1.0)


MOST = 2**63 - 1


class Whole(int):
    """A subclass of int."""


class Real(float):
    """A subclass of float."""


REALS = [
    0.5,
    -0.0,
    5e-324,
    1e308,
    float("inf"),
    float("nan"),
    3,
    2**53 + 1,  # a tie: float64 does not represent this number
    2**53 + 3,
    MOST,
    -(2**63),
    2**63,
    Whole(7),
    Real(0.25),
    np.float64(0.75),
]


@loop("one, kind", REALS, [list, tuple])
def test_reals_are_float64(kind, one):
    for values in ([one], [0.5, one], [one, 2]):
        expected = np.array([float(value) for value in values])
        parameters = pq.QParams(kind(values), None, "int8", axis=0)
        same(parameters.scale, expected)
        found = pq.quantize(kind(values), 0.7, dtype="int32")
        same(found, pq.quantize(expected, 0.7, dtype="int32"))


@loop("one", REALS)
def test_a_single_real(one):
    expected = np.array(float(one))
    found = pq.quantize(one, 0.7, dtype="int32")
    same(found, pq.quantize(expected, 0.7, dtype="int32"))


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([0, -1, 2**31 - 1, -(2**31)], np.int32),
        ((1, 2), np.int32),
        ([2**31, 0], np.uint32),
        ([2**32 - 1], np.uint32),
        ([Whole(3), 1], np.int32),
    ],
)
def test_integers_are_codes(values, dtype):
    expected = pq.dequantize(np.array(values, dtype), 0.5, dtype="float64")
    same(pq.dequantize(values, 0.5, dtype="float64"), expected)


LISTS = {
    "floats": ([0.1, 1e-45, 3e38], [1, 0, 255]),
    "integers": ([1, 2**24 + 1, 3], [0, 0, 0]),
    "beyond float32": ([1e300, 1.0, 2.0], [0, 0, 0]),
    "a number of NumPy": ([np.float64(0.1), 1.0, 2.0], [0, np.int64(3), 0]),
}


@pytest.mark.parametrize("name", LISTS)
@loop("kind", [list, tuple])
def test_lists_of_standards(name, kind):
    scales, zeros = LISTS[name]
    x = np.float32([[1, 2, 3], [-4, 5e37, -0.0]])
    with np.errstate(over="ignore"):
        s = np.array(scales, object).astype(np.float32)
    per_channel = {"qtype": "per_channel", "axis": 1, "dtype": "u8"}
    found = pq.onednn.quantize(x, scales=kind(scales), zps=kind(zeros), **per_channel)
    same(found, pq.onednn.dynamic_quantize(x, s, np.int32(zeros), **per_channel))
    found = pq.onnx.quantize_linear(x, kind(scales), kind(zeros), axis=1)
    same(found, pq.onnx.quantize_linear(x, s, np.uint8(zeros), axis=1))
    found = pq.ngraph.quantize(x, kind(scales), kind(zeros), "u8", kind([1]), "ROUND_UP")
    same(found, pq.ngraph.quantize(x, s, np.uint8(zeros), "u8", {1}, "ROUND_UP"))


@pytest.mark.parametrize(
    "axes", [(0, 1), [1, 0], {0, 1}, (1, 0, 1), np.array([0, 1]), (Whole(0), np.int8(1))]
)
def test_axes_are_a_set(axes):
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    s, z = np.ones((2, 3), np.float32), np.zeros((2, 3), np.uint8)
    same(pq.ngraph.quantize(x, s, z, "u8", axes, "ROUND_UP"), x.astype(np.uint8))


def test_nested_mask_is_found_near_the_recursion_limit():
    values = np.ma.masked_array([1.0], [1])
    for _ in range(60):
        values = [values]

    def deep(frames):
        if frames:
            return deep(frames - 1)
        with pytest.raises(TypeError, match=r"^x: expected an array without"):
            pq.quantize(values, 1.0)
        return True

    used = 0
    frame = sys._getframe()
    while frame is not None:
        used, frame = used + 1, frame.f_back
    assert deep(sys.getrecursionlimit() - used - 60)
