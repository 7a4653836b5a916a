# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, freethreading_compatible=True, autotestdict=False
# cython: auto_pickle=False
"""Arguments -> buffers -> C -> exceptions: the boundary between Python and csrc/pq.h.

Arrays of any rank, stride and byte order are taken through the buffer protocol, once per
call and without a copy.
"""
import os
from inspect import signature as _signature
from sys import modules as _modules
from operator import index as _index

import numpy as _np
from numpy.exceptions import AxisError as _AxisError

from collections.abc import Sequence as _Sequence

from cython cimport cdivision, critical_section
from cpython.buffer cimport (
    PyBUF_RECORDS_RO,
    PyBUF_SIMPLE,
    PyBuffer_Release,
    PyObject_CheckBuffer,
    PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_Check, PyFloat_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject_GenericSetAttr
from cpython.pycapsule cimport PyCapsule_New
from cpython.pythread cimport (
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_free_lock,
    PyThread_release_lock,
    PyThread_type_lock,
    WAIT_LOCK,
)
from libc.math cimport INFINITY
from libc.stddef cimport ptrdiff_t, size_t
from libc.stdint cimport (
    int8_t,
    int16_t,
    int32_t,
    int64_t,
    uint8_t,
    uint16_t,
    uint32_t,
    uintptr_t,
)
from libc.string cimport memcpy, memset

from pyquant cimport *
from pyquant._pq cimport *

from pyquant import _threads
from pyquant import dtypes as _dtypes
from pyquant._version import __version__

cdef object _ndarray = _np.ndarray
cdef object _empty = _np.empty
cdef object _ONE = 1
cdef object _HALF_EVEN = "half_even"
cdef tuple _HOLDABLE = (_ndarray, _np.float32, _np.float16)

# Below this many elements a call keeps the GIL: giving it up costs more than the work.
cdef enum:
    _NOGIL_SIZE = 16384
    _FEW_ZEROS = 256

cdef dict _ROUNDS = {
    "half_away": <int>PQ_HALF_AWAY,
    "half_toward_zero": <int>PQ_HALF_TOWARD_ZERO,
    "half_up": <int>PQ_HALF_UP,
    "half_down": <int>PQ_HALF_DOWN,
    "half_even": <int>PQ_HALF_EVEN,
    "away": <int>PQ_AWAY,
    "trunc": <int>PQ_TRUNC,
    "ceil": <int>PQ_CEIL,
    "floor": <int>PQ_FLOOR,
}

# Name -> pq_type, as csrc/types.h has them: real types, quantized ones, all; quantized ones
# of which a byte holds several; limits of integers; names; dtypes, NumPy's own at once and
# those of ml_dtypes when they are asked for.
cdef dict _REALS = {}
cdef dict _CODES = {}
cdef dict _TYPES = {}
cdef dict _PACKED = {}
cdef dict _LIMITS = {}
cdef list _NAMES = [None]
cdef dict _DTYPES = {}


cdef pq_kind[<int>PQ_TYPE_COUNT] _kinds  # by pq_type


cdef inline bint _is_real(pq_type type) noexcept:
    return _kinds[<int>type] == PQ_KIND_REAL


cdef inline bint _is_narrow_float(pq_type type) noexcept:
    return _kinds[<int>type] == PQ_KIND_FLOAT


cdef inline bint _is_integer(pq_type type) noexcept:
    return _kinds[<int>type] == PQ_KIND_INTEGER


cdef bint _is_code(pq_type type) noexcept:
    return _is_narrow_float(type) or (_is_integer(type) and pq_type_bits(type) <= 32)


cdef void _read_types():
    cdef const pq_type_info *row
    cdef pq_type type
    _kinds[<int>PQ_NO_TYPE] = PQ_KIND_NONE
    for code in range(<int>PQ_NO_TYPE + 1, <int>PQ_TYPE_COUNT):
        type = <pq_type><int>code
        row = row_of_type(type)
        _kinds[<int>type] = row.kind
        name = row.name.decode()
        _TYPES[name] = code
        _NAMES.append(name)
        if _is_real(type):
            _REALS[name] = code
        if _is_code(type):
            _CODES[name] = code
            if row.bits in (2, 4):
                _PACKED[name] = code
            if _is_integer(type):
                _LIMITS[name] = (row.lowest, row.highest)
        if hasattr(_np, name):
            _DTYPES[name] = _np.dtype(name)


_read_types()
# What users write for a dtype -> its name, without asking NumPy each time.
cdef dict _SPELLED = {name: name for name in _TYPES}
for _name, _dtype in _DTYPES.items():
    _SPELLED[_dtype] = _SPELLED[_dtype.type] = _name
del _name, _dtype
cdef object _dtype_class = _np.dtype
# dtype of ml_dtypes -> pq_type, dtype of the same bits, byte order; as they come along.
cdef dict _ML_DTYPES = {}
cdef str _REAL_LIST = "float32, float64, float16 or bfloat16"
cdef str _CODE_LIST = "an integer type of 2 to 32 bits or a narrow float"
cdef str _CODE_NAMES = " or ".join(", ".join(_CODES).rsplit(", ", 1))


cdef struct Array:
    Py_buffer buffer
    bint held  # the buffer must be released
    pq_type type
    bint swapped
    size_t packed  # bytes of a packed array, whose buffer has its shape only; else 0


cdef struct Call:
    pq_args args
    Array x, out, scale, zero
    double scale_value
    int64_t zero_value
    ptrdiff_t block[PQ_MAX_NDIM]
    ptrdiff_t scale_strides[PQ_MAX_NDIM]
    ptrdiff_t zero_strides[PQ_MAX_NDIM]
    ptrdiff_t x_bits[PQ_MAX_NDIM]
    ptrdiff_t out_bits[PQ_MAX_NDIM]


# ---- arrays ----


cdef inline void _forget(Call *call) noexcept:
    call.x.held = call.out.held = call.scale.held = call.zero.held = False
    call.x.packed = call.out.packed = call.scale.packed = call.zero.packed = 0
    call.args.size = sizeof(pq_args)
    call.args.scale.bit_strides = call.args.zero.bit_strides = NULL
    call.args.precision = PQ_NO_TYPE
    call.args.overflow = False
    call.args.zero_first = False
    call.args.narrow_first = False
    call.args.any_zeros = False


cdef void _release(Call *call):
    if call.x.held:
        PyBuffer_Release(&call.x.buffer)
    if call.out.held:
        PyBuffer_Release(&call.out.buffer)
    if call.scale.held:
        PyBuffer_Release(&call.scale.buffer)
    if call.zero.held:
        PyBuffer_Release(&call.zero.buffer)


cdef int _type_of_format(const char *fmt, Py_ssize_t size, bint *swapped) noexcept:
    """The pq_type of a PEP 3118 format, or PQ_NO_TYPE."""
    cdef char order = fmt[0]
    if order in (b"<", b">", b"=", b"@", b"!", b"^"):
        fmt += 1
    swapped[0] = size > 1 and (
        order == b"<" if _BIG_ENDIAN else order == b">" or order == b"!"
    )
    cdef char kind = fmt[0]
    if kind == 0 or fmt[1] != 0:
        return PQ_NO_TYPE
    if kind == b"f":
        return PQ_F32
    if kind == b"e":
        return PQ_F16
    if kind == b"d":
        return PQ_F64
    if kind in (b"b", b"h", b"i", b"l", b"q"):
        if size == 1:
            return PQ_I8
        if size == 2:
            return PQ_I16
        return PQ_I32 if size == 4 else PQ_I64
    if kind in (b"B", b"H", b"I", b"L", b"Q"):
        if size == 1:
            return PQ_U8
        if size == 2:
            return PQ_U16
        return PQ_U32 if size == 4 else PQ_U64
    return PQ_NO_TYPE


cdef bint _BIG_ENDIAN = _np.dtype(">u2").isnative


cdef bint _hold_bits(object array, Array *held):
    """Take the buffer of an array of ml_dtypes, which have no format in PEP 3118."""
    type, bits, swapped = <tuple>_ML_DTYPES[array.dtype]
    PyObject_GetBuffer(array.view(bits), &held.buffer, PyBUF_RECORDS_RO)
    held.held = True
    held.type = <pq_type><int>type
    held.swapped = swapped
    return True


cdef bint _hold(object array, Array *held):
    """Take the buffer of an ndarray whose element type has a pq_type; else return False."""
    cdef int type
    # To ask for a buffer of these in vain would cost as much as all the rest of a call.
    if _ML_DTYPES and array.dtype in _ML_DTYPES:
        return _hold_bits(array, held)
    try:
        PyObject_GetBuffer(array, &held.buffer, PyBUF_RECORDS_RO)
    except (ValueError, BufferError):  # no format for its dtype: datetime64, bfloat16
        name = _dtypes.ml_name(array.dtype.type)
        if name is None:
            return False
        bits = _DTYPES["uint16" if name == "bfloat16" else "uint8"]
        _ML_DTYPES[array.dtype] = (_TYPES[name], bits, not array.dtype.isnative)
        return _hold_bits(array, held)
    held.held = True
    type = _type_of_format(held.buffer.format, held.buffer.itemsize, &held.swapped)
    held.type = <pq_type>type
    return type != PQ_NO_TYPE


cpdef object known(object values):
    """The name of the element type of an exact array, or scalar, of a type of NumPy's own
    and in its byte order; at once, and None for anything else."""
    kind = type(values)
    if kind is _ndarray:
        return _SPELLED.get(values.dtype)
    # To hash types whose own type may be a user's is left to others.
    return _SPELLED.get(kind) if type(kind) is type else None


def is_untyped(values):
    """Whether these are Python numbers, alone or in sequences, which have no type."""
    if known(values) is not None or not isinstance(values, (int, float, list, tuple)):
        return False
    return not isinstance(values, _np.generic)


cdef object _describe(object array):
    return _dtypes.described(array) if isinstance(array, _ndarray) else type(array).__name__


def is_masked(obj):
    """Whether `obj` is a masked array, without an import that takes a megabyte."""
    ma = _modules.get("numpy.ma")
    return ma is not None and isinstance(obj, ma.MaskedArray)


# So many sequences in each other are all that NumPy follows; deeper ones it refuses.
cdef enum:
    _NPY_MAXDIMS = 64


cdef bint _has_mask(object obj, int depth):
    """Whether a masked array is hidden in sequences, at most `depth` of them deep."""
    if type(obj) is float or type(obj) is int:
        return False
    if isinstance(obj, _ndarray):
        return is_masked(obj)
    if depth == 0 or PyObject_CheckBuffer(obj):  # buffers are of numbers, perhaps many
        return False
    if isinstance(obj, _Sequence) and not isinstance(obj, (str, bytes)):
        return any([_has_mask(one, depth - 1) for one in obj])
    return False


# What NumPy looks for before it takes an object for one element.
cdef tuple _SEEN_BY_NUMPY = ("__array__", "__array_interface__", "__array_struct__")
# Of the devices of DLPack those whose memory NumPy reads: CPU, and host memory of others.
cdef tuple _HOST_DEVICES = (1, 3, 11, 13)


cdef object _array_of(object obj, str name):
    """`obj` as NumPy takes it, or through DLPack where only that has the data."""
    if not hasattr(obj, "__dlpack__") or PyObject_CheckBuffer(obj):
        return _np.asarray(obj)
    if any([hasattr(obj, way) for way in _SEEN_BY_NUMPY]):
        return _np.asarray(obj)
    if hasattr(obj, "__dlpack_device__"):
        kind, _ = obj.__dlpack_device__()
        if kind not in _HOST_DEVICES:
            raise TypeError(
                f"{name}: expected an array in the memory of the CPU, "
                f"got one on DLPack device type {int(kind)}"
            )
    try:
        return _np.from_dlpack(obj)
    except RuntimeError as error:  # NumPy's for a type or a version that it lacks
        raise TypeError(error) from None


cdef object _plain(object obj, str name):
    """`obj` as an exact ndarray; masks are not lost, Python numbers have no dtype yet."""
    if isinstance(obj, (str, bytes, dict, set, frozenset)) or obj is None:
        raise TypeError(f"{name}: expected an array, got {type(obj).__name__}")
    if "numpy.ma" in _modules and _has_mask(obj, _NPY_MAXDIMS):
        raise TypeError(f"{name}: expected an array without a mask, got a masked array")
    return _converted(obj, name)


cdef object _converted(object obj, str name):
    """`obj` as NumPy takes it, or one line that says why NumPy does not."""
    # NumPy may have to convert, which must not depend on the control state.
    cdef pq_fpenv found = pq_fpenv_enter()
    try:
        return _array_of(obj, name)
    except (ValueError, OverflowError, RecursionError) as error:
        said = " ".join(str(error).split())
        raise ValueError(f"{name}: expected an array, got {said}") from None
    except (TypeError, BufferError, RuntimeError) as error:  # as libraries refuse
        # Others' own errors are passed on; those of PyTorch say what cannot be an array.
        if isinstance(error, RuntimeError) and not hasattr(type(obj), "__dlpack__"):
            raise
        said = " ".join(str(error).split())
        if said.startswith(f"{name}: "):
            raise
        raise TypeError(
            f"{name}: expected an array, got {type(obj).__name__}: {said}"
        ) from None
    finally:
        pq_fpenv_leave(found)


cdef int _refuse_huge(object obj, object array, str name, str expected) except -1:
    """Python integers that no one integer type of NumPy holds, which makes objects or
    float64 of them, are a wrong value, not a wrong type."""
    if _is_untyped(obj) and array.dtype.kind in "Of":
        values = list(_np.asarray(obj, dtype=object).flat)
        if values and all([type(v) is int for v in values]):
            raise ValueError(f"{name}: expected {expected}, got {max(values, key=abs)}")
    return 0


cdef bint _is_untyped(object obj):
    """Python numbers, alone or in sequences, whose element type is ours to choose."""
    return isinstance(obj, (int, float, list, tuple))


cdef object _floats_of(object obj, object array, str name):
    """float64 for Python integers, each converted by Python: NumPy's conversion of arrays
    depends on the floating-point control state."""
    kind = array.dtype.kind
    if kind in "iu" or (kind == "O" and all([type(v) is int for v in array.flat])):
        try:
            return _np.asarray(obj, dtype=_np.float64)
        except OverflowError:
            raise ValueError(f"{name}: expected numbers that float64 holds") from None
    return array


# Arguments are first converted, all of them, which may run code of theirs that changes the
# others; then buffers are taken.


cdef object _real_array(object x, str name):
    """`x` as an ndarray, of real numbers where it has no type."""
    if type(x) is _ndarray:
        return x
    array = _plain(x, name)
    return _floats_of(x, array, name) if _is_untyped(x) else array


cdef int _hold_real(object array, Array *held, str name, bint int32=False) except -1:
    """Hold an array of real numbers, perhaps of int32."""
    if not _hold(array, held) or not (
        _is_real(held.type) or (int32 and held.type == PQ_I32)
    ):
        # No type of one byte would do, which the hint for such arrays names.
        got = _describe(array) if array.dtype.itemsize > 1 else array.dtype
        raise TypeError(f"{name}: expected {_REAL_LIST}, got {got}")
    return 0


cdef object _integers_of(object obj, object array, str name):
    """int32, or uint32 where that is needed, for Python integers."""
    if array.size:
        _refuse_huge(obj, array, name, "integers that int32 or uint32 holds")
    if not _is_untyped(obj) or (array.size and array.dtype.kind not in "iu"):
        return array
    for dtype in ("int32", "uint32"):
        lo, hi = _LIMITS[dtype]
        if array.size == 0 or (array.min() >= lo and array.max() <= hi):
            return array.astype(dtype)
    raise ValueError(
        f"{name}: expected integers that int32 or uint32 holds, "
        f"got {array.min()} to {array.max()}"
    )


cdef object _prod = __import__("math").prod


cdef object _PackedArray = None


cdef object _packed_class():
    """PackedArray, whose module imports this one."""
    global _PackedArray
    if _PackedArray is None:
        from pyquant.packed import PackedArray

        _PackedArray = PackedArray
    return _PackedArray


cdef object _dtype_said(object obj):
    """The dtype that an object says it has, or None; of packed arrays the name, which needs
    no ml_dtypes."""
    if type(obj) is not _ndarray and isinstance(obj, _packed_class()):
        return obj._name
    return getattr(obj, "dtype", None)


cdef int _hold_packed(object data, tuple shape, str dtype, Array *held) except -1:
    """Hold the bytes of a packed array. The buffer is one that has its shape; where its
    elements are, `_lay_bits` says."""
    # A subclass may say anything of itself: what counts are the bytes, and these numbers.
    if type(data) is not _ndarray:
        raise TypeError(f"data: expected an array of bytes, got {type(data).__name__}")
    if not all([type(n) is int for n in shape]):
        raise TypeError(f"shape: expected integers, got {shape}")
    cdef Py_ssize_t needed = -(-_prod(shape) // packed_per_byte(dtype))
    if data.size != needed:
        raise ValueError(f"data: expected {needed} bytes, got {data.size}")
    array = _ndarray(shape, _np.uint8, data if needed else b"", 0, (0,) * len(shape))
    _hold(array, held)
    held.type = <pq_type><int>_CODES[dtype]
    held.packed = max(1, data.size)
    return 0


cdef object _code_array(object q, str name):
    """`q` as an ndarray, or the bytes, shape and type of a packed array."""
    if type(q) is _ndarray:
        return q
    if isinstance(q, _packed_class()):
        return q._data, q.shape, q._name
    return _integers_of(q, _plain(q, name), name)


cdef object _hold_code(object array, Array *held, str name):
    """Hold what `_code_array` gave; returns the ndarray that owns the memory."""
    if type(array) is tuple:
        data, shape, dtype = <tuple>array
        _hold_packed(data, shape, dtype, held)
        return data
    if not _hold(array, held) or not _is_code(held.type):
        raise TypeError(f"{name}: expected {_CODE_LIST}, got {_describe(array)}")
    return array


# ---- scale and zero point ----


cdef object _scale_array(Call *call, object scale):
    """`scale` as an ndarray, None for a number, which the call has then."""
    call.args.scale.strides = call.scale_strides
    if PyFloat_Check(scale):  # float64 scalars are Python floats, too
        call.scale_value = PyFloat_AS_DOUBLE(scale)
        call.args.scale.data = &call.scale_value
        call.args.scale.type = PQ_F64
        call.args.scale.swapped = False
        return None
    # NumPy scalars lend their bits as arrays do; converting them here would depend on the
    # floating-point control state.
    if type(scale) in _HOLDABLE:
        return scale
    if scale is None:
        raise TypeError(
            "scale: expected an array of real numbers, got None (choose_qparams finds one)"
        )
    array = _plain(scale, "scale")
    return _floats_of(scale, array, "scale") if _is_untyped(scale) else array


cdef int _hold_scale(Call *call, object array) except -1:
    if array is None:
        return 0
    if not _hold(array, &call.scale):
        raise TypeError(f"scale: expected real numbers, got {_describe(array)}")
    call.args.scale.data = call.scale.buffer.buf
    call.args.scale.type = call.scale.type
    call.args.scale.swapped = call.scale.swapped
    return 0


cdef object _zero_array(Call *call, object zero):
    """`zero_point` as an ndarray, None for none and for a number, which the call has."""
    call.args.zero.strides = call.zero_strides
    call.args.zero.data = NULL
    call.zero.type = PQ_NO_TYPE
    if zero is None:
        return None
    if PyLong_CheckExact(zero):
        # Beyond int64 is beyond every type: keep the sign for the message's sake.
        try:
            call.zero_value = zero
        except OverflowError:
            raise ValueError(
                f"zero_point: expected an integer that the quantized type holds, got {zero}"
            ) from None
        call.args.zero.data = &call.zero_value
        call.args.zero.type = PQ_I64
        call.args.zero.swapped = False
        return None
    if type(zero) is _ndarray or known(zero) is not None:
        return zero
    if isinstance(zero, _packed_class()):
        return _unpacked(zero, &call.zero.type)
    array = _plain(zero, "zero_point")
    _refuse_huge(zero, array, "zero_point", "integers that the quantized type holds")
    if array.size == 0 and _is_untyped(zero):
        return array.astype(_np.int64)
    return array


cdef int _hold_zero(Call *call, object array) except -1:
    cdef pq_type packed = call.zero.type
    if array is None:
        return 0
    if not _hold(array, &call.zero) or not (
        _is_integer(call.zero.type) or _is_narrow_float(call.zero.type)
    ):
        raise TypeError(f"zero_point: expected integers, got {_describe(array)}")
    if packed != PQ_NO_TYPE:
        call.zero.type = packed
    call.args.zero.data = call.zero.buffer.buf
    call.args.zero.type = call.zero.type
    call.args.zero.swapped = call.zero.swapped
    return 0


cdef inline Py_ssize_t _size(Array *a) noexcept:
    cdef Py_ssize_t size = 1
    cdef int d
    for d in range(a.buffer.ndim):
        size *= a.buffer.shape[d]
    return size


cdef tuple _shape(Array *a):
    return tuple([a.buffer.shape[d] for d in range(a.buffer.ndim)])


cdef object _integer(object value, str name):
    """An integer that is no bool, where a tuple of them would do as well."""
    try:
        if value is not True and value is not False:
            return _index(value)
    except TypeError:
        pass
    raise TypeError(
        f"{name}: expected None, an integer or a tuple of integers, "
        f"got {type(value).__name__}"
    )


cdef inline object _settled(object value, str name):
    return value if value is None or PyLong_CheckExact(value) else integers(value, name)


def integers(value, name):
    """None, an integer or a tuple of integers, each as a Python int."""
    if isinstance(value, tuple):
        return tuple([_integer(one, name) for one in value])
    return None if value is None else _integer(value, name)


cdef list _axes(object axis, int ndim):
    """The axes as ascending non-negative integers."""
    cdef list axes = []
    if PyLong_CheckExact(axis) and 0 <= axis < ndim:
        return [axis]
    found = integers(axis, "axis")
    for at in found if isinstance(axis, tuple) else (found,):
        if not -ndim <= at < ndim:
            raise _AxisError(at, ndim, "axis")
        axes.append(at + ndim if at < 0 else at)
    if len(set(axes)) != len(axes):
        raise ValueError(f"axis: expected different axes, got {axis}")
    return sorted(axes)


cdef list _blocks(object block_size):
    found = integers(block_size, "block_size")
    blocks = list(found) if isinstance(found, tuple) else [found]
    if min(blocks, default=1) < 1:
        raise ValueError(f"block_size: expected positive integers, got {block_size}")
    return blocks


cdef int _check_blocked_axis(object axis, object block_size) except -1:
    if isinstance(block_size, tuple):
        if axis is not None:
            raise ValueError(
                f"axis: expected None beside a block_size per dimension, got {axis}"
            )
    elif axis is None or isinstance(axis, tuple):
        raise ValueError(
            f"axis: expected one integer beside block_size={block_size}, got {axis}"
        )
    return 0


cdef list _granularity(Call *call, object axis, object block_size):
    """Fill call.block; returns the dimensions that select a parameter, and is the one
    place that knows what `axis` and `block_size` mean."""
    cdef int ndim = call.args.ndim, d
    for d in range(ndim):
        call.block[d] = 1
    if block_size is None:
        return [] if axis is None else _axes(axis, ndim)
    cdef list blocks = _blocks(block_size)
    _check_blocked_axis(axis, block_size)
    if isinstance(block_size, tuple):
        if len(blocks) != ndim:
            raise ValueError(
                f"block_size: expected {ndim} integers, one per dimension, got {block_size}"
            )
        for d in range(ndim):
            call.block[d] = min(blocks[d], max(1, call.args.shape[d]))
    else:
        d = _axes(axis, ndim)[0]
        call.block[d] = min(blocks[0], max(1, call.args.shape[d]))
    return list(range(ndim))


cdef tuple _parameter_shape(Call *call, list selecting):
    return tuple([
        (call.args.shape[d] + call.block[d] - 1) // call.block[d] for d in selecting
    ])


cdef tuple _kept_shape(Call *call, list selecting):
    """The shape of parameters that keep the dimensions of x, as NumPy broadcasts them."""
    return tuple([
        call.args.shape[d] if d in selecting else 1 for d in range(call.args.ndim)
    ])


cdef bint _keeps_dimensions(Call *call, Array *a) noexcept:
    """Whether NumPy would broadcast it to x, and to nothing larger, by its own dimensions.
    One dimension may be meant for any axis."""
    cdef int d
    if a.buffer.ndim != call.args.ndim or call.args.ndim < 2:
        return False
    for d in range(call.args.ndim):
        if a.buffer.shape[d] != 1 and a.buffer.shape[d] != call.args.shape[d]:
            return False
    return True


cdef void _place_kept(Array *a, ptrdiff_t *strides) noexcept:
    cdef int d
    for d in range(a.buffer.ndim):
        strides[d] = a.buffer.strides[d] if a.buffer.shape[d] != 1 else 0


cdef int _place(Call *call, str name, Array *a, list selecting, bint blocks,
                ptrdiff_t *strides) except -1:
    """Strides, over the dimensions of x, of an array of parameters."""
    cdef int d, i = 0
    if not a.held or _size(a) == 1:
        return 0
    expected = _parameter_shape(call, selecting)
    if _shape(a) == expected:
        for d in selecting:
            strides[d] = a.buffer.strides[i]
            i += 1
    elif not blocks and _shape(a) == _kept_shape(call, selecting):
        _place_kept(a, strides)
    else:
        raise ValueError(f"{name}: expected shape {expected}, got {_shape(a)}")
    return 0


cdef object _fitting_axes(Call *call, Array *a):
    """For the message: which axes a single dimension fits."""
    fitting = [
        f"axis={d}" for d in range(call.args.ndim)
        if a.buffer.ndim == 1 and call.args.shape[d] == a.buffer.shape[0]
    ]
    return f", which fits {' or '.join(fitting)}" if fitting else ""


cdef int _place_unnamed(Call *call) except -1:
    """Without axis and block_size: parameters that keep the dimensions of x."""
    if not _keeps_dimensions(call, &call.scale):
        raise ValueError(
            "scale: expected one element, or all dimensions of x, without axis or "
            f"block_size, got shape {_shape(&call.scale)}"
            f"{_fitting_axes(call, &call.scale)}"
        )
    _place_kept(&call.scale, call.scale_strides)
    if call.zero.held and _size(&call.zero) != 1:
        if _shape(&call.zero) != _shape(&call.scale):
            raise ValueError(
                f"zero_point: expected shape {_shape(&call.scale)}, "
                f"got {_shape(&call.zero)}"
            )
        _place_kept(&call.zero, call.zero_strides)
    return 0


cdef int _place_parameters(Call *call, object axis, object block_size) except -1:
    cdef list selecting = None
    cdef bint blocks = block_size is not None
    cdef int ndim = call.args.ndim
    memset(call.scale_strides, 0, ndim * sizeof(ptrdiff_t))
    memset(call.zero_strides, 0, ndim * sizeof(ptrdiff_t))
    call.args.block = NULL
    if axis is not None or blocks:
        selecting = _granularity(call, axis, block_size)
        call.args.block = call.block
    cdef bint one_scale = not call.scale.held or _size(&call.scale) == 1
    cdef bint one_zero = not call.zero.held or _size(&call.zero) == 1
    if one_scale and one_zero:
        return 0
    if one_scale:
        raise ValueError(
            f"zero_point: expected one element beside a single scale, "
            f"got shape {_shape(&call.zero)}"
        )
    if selecting is None:
        return _place_unnamed(call)
    _place(call, "scale", &call.scale, selecting, blocks, call.scale_strides)
    _place(call, "zero_point", &call.zero, selecting, blocks, call.zero_strides)
    return 0


cdef int _check_zero(Call *call, pq_type code) except -1:
    """Refuse zero points outside the quantized type, and forget those of narrow floats,
    which are zeros: nothing is added then, not even to -0. The core refuses integers, too,
    but does not say which."""
    cdef int64_t outside = 0, lo = 0, hi = 0
    cdef bint floats = _is_narrow_float(code), within
    cdef pq_args zeros
    if call.args.zero.data == NULL or (call.args.zero.type == code and not floats):
        return 0
    name = _NAMES[<int>code]
    if not floats:
        lo, hi = _LIMITS[name]
    if _is_narrow_float(call.args.zero.type) and call.args.zero.type != code:
        raise TypeError(
            f"zero_point: expected integers, got {_NAMES[<int>call.args.zero.type]}"
        )
    # Of their own shape: all are looked at, also where there are no elements.
    zeros.size = sizeof(pq_args)
    zeros.zero = call.args.zero
    zeros.block = NULL
    zeros.ndim = 0
    if call.args.zero.data != &call.zero_value:
        zeros.ndim = call.zero.buffer.ndim
        zeros.shape = <const ptrdiff_t *>call.zero.buffer.shape
        zeros.zero.strides = <const ptrdiff_t *>call.zero.buffer.strides
    if call.zero.held and _size(&call.zero) >= _NOGIL_SIZE:
        with nogil:
            within = pq_zeros_within(&zeros, lo, hi, &outside)
    else:
        within = pq_zeros_within(&zeros, lo, hi, &outside)
    if not within:
        got = outside % 2**64 if call.args.zero.type == PQ_U64 else outside
        if floats:
            raise ValueError(f"zero_point: expected None or zeros for {name}")
        raise ValueError(
            f"zero_point: expected integers from {lo} to {hi} for {name}, got {got}"
        )
    if floats:
        call.args.zero.data = NULL
    return 0


# ---- options ----


cdef int _rounding(object rounding) except -1:
    if rounding is _HALF_EVEN:
        return PQ_HALF_EVEN
    if not isinstance(rounding, str):
        raise TypeError(
            f"rounding: expected a string or a RoundMode, got {type(rounding).__name__}"
        )
    try:
        return _ROUNDS[rounding]
    except KeyError:
        pass
    raise ValueError(
        f"rounding: expected one of {', '.join(_ROUNDS)}, got {str(rounding)!r}"
    )


cdef inline bint _flag(object value, str name, str expected="True or False") except -1:
    if value is True:
        return True
    return False if value is False else _other_flag(value, name, expected)


cdef bint _other_flag(object value, str name, str expected) except -1:
    if type(value) is _np.bool_:
        return bool(value)
    raise TypeError(f"{name}: expected {expected}, got {type(value).__name__}")


cdef int _threads_of(object threads) except -1:
    if threads is True or threads is False:
        raise TypeError("threads: expected a positive integer, got bool")
    try:
        threads = _index(threads)
    except TypeError:
        raise TypeError(
            f"threads: expected a positive integer, got {type(threads).__name__}"
        ) from None
    if threads < 1:
        raise ValueError(f"threads: expected a positive integer, got {threads}")
    return min(threads, 1 << 20)


cdef inline object _spelled(object dtype):
    """The name of a dtype, class or string that is known, or None. To hash anything else
    may recurse without end, or be a user's code."""
    if type(dtype) is str or type(dtype) is type or isinstance(dtype, _dtype_class):
        return _SPELLED.get(dtype)
    return None


def spelled(dtype):
    """The name of a dtype, class or string that is known; None for anything else."""
    return _spelled(dtype)


cdef pq_type _type_in(dict types, object dtype, str name, str expected) except *:
    """The pq_type of `dtype` when that is a key of `types`."""
    cdef object found = _spelled(dtype)
    cdef object type
    if found is None:
        found = _dtypes.requested(dtype)
    type = types.get(found)
    if type is None:
        raise TypeError(f"{name}: expected {expected}, got {_dtypes.shown(dtype)}")
    return <pq_type><int>type


cdef str _name_in(dict types, object dtype, str name, str expected):
    return _NAMES[<int>_type_in(types, dtype, name, expected)]


cdef str _name_of_zero(object zero_point):
    """The default of dtype. What cannot be a zero point is refused as that, later."""
    dtype = _dtype_said(zero_point)
    name = _spelled(dtype)
    if name is None:
        name = _dtypes.name_of(dtype)
    if name not in _TYPES or name in _REALS or is_masked(zero_point):
        return "int8"
    if name not in _CODES:
        raise TypeError(
            f"dtype: expected {_CODE_LIST} where zero_point is {name}, got None"
        )
    return name


# ---- result ----


cdef bint _same_shape(Array *a, Array *b) noexcept:
    cdef int d
    if a.buffer.ndim != b.buffer.ndim:
        return False
    for d in range(a.buffer.ndim):
        if a.buffer.shape[d] != b.buffer.shape[d]:
            return False
    return True


def typed_zeros(zeros, str name not None):
    """Zero points, kept in a type of NumPy, in the quantized type, read-only; as they are
    kept where there is no such type."""
    if name not in _DTYPES:
        try:
            _dtype_of(name)
        except ImportError:
            return zeros.view()
    dtype = _DTYPES[name]
    if dtype == zeros.dtype:
        return zeros.view()
    # ml_dtypes keeps integers in the low bits, where floats have zeros.
    codes = _np.array(zeros.view(_np.uint8))
    codes &= (1 << pq_type_bits(<pq_type><int>_CODES[name])) - 1
    codes.flags.writeable = False
    return codes.view(dtype)


def limits(str name not None):
    """Lowest and highest value of an integer type; None for others."""
    return _LIMITS.get(name)


cdef object _dtype_of(str name):
    if name not in _DTYPES:
        _DTYPES[name] = _dtypes.ml_dtype(name)
    return _DTYPES[name]


def dtype_named(str name not None):
    """The dtype of that name, of ml_dtypes where NumPy has none."""
    return _dtype_of(name)


cdef object _new(tuple shape, object dtype, str name="out"):
    try:
        return _empty(shape, dtype)
    except ValueError:  # of NumPy, which names no argument
        raise ValueError(
            f"{name}: expected a shape that NumPy can make of {dtype}, got {shape}"
        ) from None


cdef Py_ssize_t _packed_bytes(Call *call, pq_type code) noexcept:
    cdef Py_ssize_t per_byte = 8 // pq_type_bits(code)
    return (_size(&call.x) + per_byte - 1) // per_byte


# From this size on NumPy asks for large pages, which Python does not do for bytes.
cdef enum:
    _LARGE = 1 << 22


cdef object _hold_packed_out(Call *call, object out, pq_type code):
    """Hold new memory for packed codes; returns the owner, which nobody else has."""
    cdef Py_ssize_t size = _packed_bytes(call, code)
    if out is not None:
        raise ValueError(
            f"out: expected None with packed=True, got {type(out).__name__}"
        )
    if size < _LARGE:
        data = PyBytes_FromStringAndSize(NULL, size)
    else:
        data = _empty(size, _DTYPES["uint8"])
    PyObject_GetBuffer(data, &call.out.buffer, PyBUF_SIMPLE)
    call.out.held = True
    call.out.buffer.ndim = call.x.buffer.ndim
    call.out.buffer.shape = call.x.buffer.shape
    call.out.buffer.strides = NULL  # where its elements are, `_lay_bits` says
    call.out.type = code
    call.out.swapped = False
    call.out.packed = max(1, size)
    return data


cdef object _packed(Call *call, object data, str dtype):
    """The packed array of bytes that nobody else has, and nobody can write to any more."""
    cls = _packed_class()
    made = cls.__new__(cls)
    if type(data) is not bytes:
        data.flags.writeable = False
        data = memoryview(data)
    view = _ndarray((_packed_bytes(call, call.out.type),), _DTYPES["uint8"], data)
    # The class refuses assignments; these are what its own constructor does.
    PyObject_GenericSetAttr(made, "_data", view)
    PyObject_GenericSetAttr(made, "_name", dtype)
    PyObject_GenericSetAttr(made, "_shape", _shape(&call.x))
    PyObject_GenericSetAttr(made, "_layout", "onnx")
    return made


cdef object _exact_out(object out):
    """`out` as what it is, not as what a subclass says of itself, and without a call of its
    methods."""
    if out is None or type(out) is _ndarray:
        return out
    if not issubclass(type(out), _ndarray):
        raise TypeError(f"out: expected a NumPy array, got {type(out).__name__}")
    ma = _modules.get("numpy.ma")
    if ma is not None and issubclass(type(out), ma.MaskedArray):
        raise TypeError("out: expected an array without a mask, got a masked array")
    return _ndarray.view(out, _ndarray)


cdef object _hold_out(Call *call, object exact, str dtype, pq_type code):
    """Hold the result: an array, after all checks of it, or for None a new one."""
    if exact is None:
        exact = _new(_shape(&call.x), _dtype_of(dtype))
        _hold(exact, &call.out)
        return exact
    # PQ_NO_TYPE: any real type.
    if not _hold(exact, &call.out) or (
        call.out.type != code
        and not (code == PQ_NO_TYPE and _is_real(call.out.type))
    ):
        expected = _REAL_LIST if code == PQ_NO_TYPE else dtype
        raise TypeError(f"out: expected {expected}, got {_describe(exact)}")
    if not _same_shape(&call.x, &call.out):
        raise ValueError(f"out: expected shape {_shape(&call.x)}, got {exact.shape}")
    if call.out.buffer.readonly:
        raise ValueError("out: expected a writeable array, got a read-only one")
    return exact


cdef void _bounds(Array *a, uintptr_t *lo, uintptr_t *hi) noexcept:
    """The bytes from the first to past the last that an array may touch."""
    cdef ptrdiff_t span
    cdef int d
    lo[0] = hi[0] = <uintptr_t>a.buffer.buf
    for d in range(a.buffer.ndim):
        if a.buffer.shape[d] == 0:
            return
        span = (a.buffer.shape[d] - 1) * a.buffer.strides[d]
        if span < 0:
            lo[0] += <uintptr_t>span
        else:
            hi[0] += <uintptr_t>span
    hi[0] += max(<uintptr_t>a.buffer.itemsize, <uintptr_t>a.packed)


cdef int _check_overlap(Call *call, object out, Array *a, object array, str name) except -1:
    cdef uintptr_t out_lo = 0, out_hi = 0, lo = 0, hi = 0
    if not a.held:
        return 0
    _bounds(&call.out, &out_lo, &out_hi)
    _bounds(a, &lo, &hi)
    if hi <= out_lo or out_hi <= lo:
        return 0
    try:
        shared = _np.shares_memory(out, array, max_work=10_000)
    except _np.exceptions.TooHardError:
        shared = True
    if shared:
        raise ValueError(
            f"out: expected memory of its own, got an array that overlaps {name}"
        )
    return 0


# ---- the call ----


cdef class _Work:
    """A prepared call, a part at a time; the parts may run on different threads.

    The arguments live only as long as the call. After `close` no part is running, and one
    that starts late, from a queue that an interrupt or an error has left behind, does
    nothing. Nothing in `close` can be interrupted.
    """
    cdef const pq_prepared *plan
    cdef const pq_args *args
    cdef int parts
    cdef int active
    cdef bint closed
    cdef PyThread_type_lock guard  # of `active` and `closed`, held for moments
    cdef PyThread_type_lock busy   # held while a part is running

    def __cinit__(self):
        self.guard = PyThread_allocate_lock()
        self.busy = PyThread_allocate_lock()
        if self.guard == NULL or self.busy == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.guard != NULL:
            PyThread_free_lock(self.guard)
        if self.busy != NULL:
            PyThread_free_lock(self.busy)

    cdef bint enter(self) noexcept:
        cdef bint allowed
        PyThread_acquire_lock(self.guard, WAIT_LOCK)
        allowed = not self.closed
        if allowed:
            if self.active == 0:
                PyThread_acquire_lock(self.busy, WAIT_LOCK)
            self.active += 1
        PyThread_release_lock(self.guard)
        return allowed

    cdef void leave(self) noexcept:
        PyThread_acquire_lock(self.guard, WAIT_LOCK)
        self.active -= 1
        if self.active == 0:
            PyThread_release_lock(self.busy)
        PyThread_release_lock(self.guard)

    cdef void close(self) noexcept:
        PyThread_acquire_lock(self.guard, WAIT_LOCK)
        self.closed = True
        PyThread_release_lock(self.guard)
        with nogil:
            PyThread_acquire_lock(self.busy, WAIT_LOCK)
        PyThread_release_lock(self.busy)

    def __call__(self, int part):
        cdef pq_status status
        if not self.enter():
            return <int>PQ_OK
        with nogil:
            status = pq_run(
                self.plan, self.args.inp.data, self.args.out.data, part, self.parts
            )
        self.leave()
        return <int>status


cdef int _parts(Call *call, int threads) except -1:
    cdef Py_ssize_t each = call.x.buffer.itemsize + call.out.buffer.itemsize
    cdef Py_ssize_t least = _threads.MIN_PART_BYTES
    cdef Py_ssize_t worth = _size(&call.x) * each // max(1, least)
    if worth < 2:  # small calls do not ask how many CPUs there are
        return 1
    return min(threads, _threads.cpu_count(), worth)


cdef int _run_parts(const pq_kernels *kernels, Call *call, bint quantizes,
                    int parts) except -1:
    """Check and plan once, and run the parts on threads."""
    cdef pq_prepared plan
    cdef int status
    cdef _Work work = _Work()
    plan.size = sizeof(plan)
    with nogil:
        if quantizes:
            status = pq_prepare_quantize(&plan, kernels, &call.args)
        else:
            status = pq_prepare_dequantize(&plan, kernels, &call.args)
    if status != PQ_OK:
        return status
    work.plan = &plan
    work.args = &call.args
    work.parts = parts
    try:
        return _threads.run(work, parts)
    finally:
        work.close()


cdef int _run_whole(const pq_kernels *kernels, const pq_args *args,
                    bint quantizes) noexcept nogil:
    if quantizes:
        return pq_quantize(kernels, args, 0, 1)
    return pq_dequantize(kernels, args, 0, 1)


cdef int _run(const pq_kernels *kernels, Call *call, bint quantizes,
              int threads) except -1:
    cdef int parts, status
    if _size(&call.x) == 0:
        return 0
    parts = 1 if threads == 1 else _parts(call, threads)
    if parts > 1:
        status = _run_parts(kernels, call, quantizes, parts)
    elif _size(&call.x) >= _NOGIL_SIZE:
        with nogil:
            status = _run_whole(kernels, &call.args, quantizes)
    else:
        status = _run_whole(kernels, &call.args, quantizes)
    if status == PQ_ERR_OVERLAP:
        strides = tuple([call.out.buffer.strides[d] for d in range(call.out.buffer.ndim)])
        raise ValueError(
            "out: expected dimensions that neither overlap nor interleave, "
            f"got strides {strides}"
        )
    if status == PQ_ERR_ZERO:
        if not call.args.any_zeros:
            _check_zero(call, call.out.type if quantizes else call.x.type)
        raise ValueError("zero_point: expected integers of at most 2**52 in magnitude")
    if status == PQ_ERR_SHAPE:  # of arrays that were broadcast
        raise ValueError(
            f"{'x' if quantizes else 'q'}: expected an array that memory holds, "
            f"got shape {_shape(&call.x)}"
        )
    if status != PQ_OK:
        raise SystemError(f"pyquant: unexpected status {status} from the C core")
    return 0


cdef inline void _set_array(pq_array *to, Array *a) noexcept:
    to.data = a.buffer.buf
    to.strides = <const ptrdiff_t *>a.buffer.strides
    to.type = a.type
    to.swapped = a.swapped
    to.bit_strides = NULL


cdef inline void _lay_bits(Call *call, pq_array *to, ptrdiff_t *strides) noexcept:
    """Packed elements follow each other in C order."""
    cdef ptrdiff_t stride = pq_type_bits(to.type)
    cdef int d
    for d in range(call.args.ndim - 1, -1, -1):
        strides[d] = stride
        stride *= call.args.shape[d]
    to.bit_strides = strides


cdef inline void _set_input(Call *call) noexcept:
    call.args.ndim = call.x.buffer.ndim
    call.args.shape = <const ptrdiff_t *>call.x.buffer.shape
    _set_array(&call.args.inp, &call.x)
    if call.x.packed:
        _lay_bits(call, &call.args.inp, call.x_bits)


cdef inline void _set_output(Call *call) noexcept:
    _set_array(&call.args.out, &call.out)
    if call.out.packed:
        _lay_bits(call, &call.args.out, call.out_bits)


cdef object _apply(const pq_kernels *kernels, Call *call, object array, object scale,
                   object zero_point, pq_type code, str dtype, pq_type type, object axis,
                   object block_size, object out, object threads, bint quantizes,
                   bint packed, bint any_zero):
    """What both directions share, once all is converted and `call.x` is held."""
    _set_input(call)
    _hold_scale(call, scale)
    _hold_zero(call, zero_point)
    _place_parameters(call, axis, block_size)
    call.args.any_zeros = any_zero
    # Of many integers the core says so first, which has to look at them anyway.
    if not any_zero and (
        not call.zero.held
        or _size(&call.zero) < _FEW_ZEROS
        or _size(&call.x) == 0
        or _is_narrow_float(code)
        or _is_narrow_float(call.args.zero.type)
    ):
        _check_zero(call, code)
    if packed:
        data = _hold_packed_out(call, out, type)
        _set_output(call)
        _run(kernels, call, quantizes, threads)
        return _packed(call, data, dtype)
    exact = _hold_out(call, _exact_out(out), dtype, type)
    if out is not None:
        _check_overlap(call, exact, &call.x, array, "the input")
        _check_overlap(call, exact, &call.scale, scale, "scale")
        _check_overlap(call, exact, &call.zero, zero_point, "zero_point")
    _set_output(call)
    _run(kernels, call, quantizes, threads)
    return exact if out is None else out


cdef int _check_options(str name, object rounding, bint saturate, bint packed) except -1:
    """Refuse what the quantized type does not go with."""
    if name in _dtypes.NARROW_FLOATS:
        if rounding != "half_even":
            raise ValueError(
                f"rounding: expected 'half_even' for {name}, got {str(rounding)!r}"
            )
    elif not saturate:
        raise ValueError(f"saturate: expected True for {name}, got False")
    if packed and name not in _PACKED:
        raise ValueError(f"packed: expected False for {name}, got True")
    return 0


cdef object _quantize(const pq_kernels *kernels, object x, object scale, object zero_point,
                      object dtype, object axis, object block_size, object rounding,
                      object precision, object saturate, object packed, object out,
                      object threads, bint any_zero=False, bint int32=False,
                      bint zero_first=False, bint narrow_first=False):
    """`any_zero`: zero points are not looked at; standards allow any, and QParams has
    done it. `int32`: input may be that, too."""
    cdef Call call
    cdef bint packs
    cdef str name
    cdef pq_type code = PQ_I8
    _forget(&call)
    try:
        array = _real_array(x, "x")
        if dtype is not None:
            code = _type_in(_CODES, dtype, "dtype", _CODE_NAMES)
        elif zero_point is not None:
            code = <pq_type><int>_CODES[_name_of_zero(zero_point)]
        name = <str>_NAMES[<int>code]
        call.args.round = <pq_round>_rounding(rounding)
        if precision is not None:
            call.args.precision = _type_in(
                _REALS, precision, "precision", "None, " + _REAL_LIST
            )
        call.args.overflow = not _flag(saturate, "saturate")
        call.args.zero_first = zero_first
        call.args.narrow_first = narrow_first
        packs = _flag(packed, "packed")
        if packs or call.args.overflow or _is_narrow_float(code):
            _check_options(name, rounding, not call.args.overflow, packs)
        scale = _scale_array(&call, scale)
        zero_point = _zero_array(&call, zero_point)
        axis = _settled(axis, "axis")
        block_size = _settled(block_size, "block_size")
        if threads is not _ONE:
            threads = _threads_of(threads)
        _hold_real(array, &call.x, "x", int32)
        return _apply(kernels, &call, array, scale, zero_point, code, name, code, axis,
                      block_size, out, threads, True, packs, any_zero)
    finally:
        _release(&call)


cdef object _dequantize(const pq_kernels *kernels, object q, object scale,
                        object zero_point, object dtype, object axis, object block_size,
                        object out, object threads, bint any_zero=False):
    cdef Call call
    cdef str name = "float32"
    cdef pq_type type = PQ_F32
    _forget(&call)
    try:
        array = _code_array(q, "q")
        if dtype is not None:
            type = _type_in(_REALS, dtype, "dtype", _REAL_LIST)
            name = <str>_NAMES[<int>type]
        elif out is not None:
            type = PQ_NO_TYPE  # that of `out`
        scale = _scale_array(&call, scale)
        zero_point = _zero_array(&call, zero_point)
        axis = _settled(axis, "axis")
        block_size = _settled(block_size, "block_size")
        if threads is not _ONE:
            threads = _threads_of(threads)
        array = _hold_code(array, &call.x, "q")
        call.args.round = PQ_HALF_EVEN
        return _apply(kernels, &call, array, scale, zero_point, call.x.type, name, type,
                      axis, block_size, out, threads, False, False, any_zero)
    finally:
        _release(&call)


# ---- packing ----


cdef int _run_repack(Call *call) except -1:
    cdef int status
    if _size(&call.x) == 0:
        return 0
    with nogil:
        status = pq_repack(_active, &call.args, 0, 1)
    if status != PQ_OK:
        raise SystemError(f"pyquant: unexpected status {status} from the C core")
    return 0


def pack(q):
    """See packed.pack."""
    cdef Call call
    _forget(&call)
    try:
        array = q if type(q) is _ndarray else _plain(q, "q")
        name = _dtypes.ml_name(array.dtype)
        if name not in _PACKED:
            raise TypeError(f"q: expected {', '.join(_PACKED)}, got {_describe(array)}")
        _hold(array, &call.x)
        _set_input(&call)
        data = _hold_packed_out(&call, None, call.x.type)
        _set_output(&call)
        _run_repack(&call)
        return _packed(&call, data, name)
    finally:
        _release(&call)


cdef object _unpacked(object packed, pq_type *type):
    """A byte for each element, and of what type they are."""
    cdef Call call
    _forget(&call)
    try:
        _hold_packed(packed._data, packed.shape, packed._name, &call.x)
        _set_input(&call)
        out = _empty(_shape(&call.x), _np.uint8)
        _hold(out, &call.out)
        call.out.type = type[0] = call.x.type
        _set_output(&call)
        _run_repack(&call)
        return out
    finally:
        _release(&call)


def unpack(packed):
    """See PackedArray.unpack."""
    cdef pq_type type
    dtype = _dtype_of(packed._name)
    return _unpacked(packed, &type).view(dtype)


def packed_name(dtype):
    """The name of a type that can be packed."""
    return _name_in(_PACKED, dtype, "dtype", ", ".join(_PACKED))


def packed_per_byte(str name not None):
    """Elements in a byte."""
    return 8 // pq_type_bits(<pq_type><int>_PACKED[name])


# ---- quantization parameters ----


def codes(q, str name not None):
    """What has no dtype as an array of an integer type that holds it all."""
    array = _plain(q, "q")
    if _dtypes.name_of(array.dtype) == name:
        return array
    if array.size and name in _LIMITS:
        _refuse_huge(q, array, "q", f"integers that {name} holds")
    if array.size and (array.dtype.kind not in "iu" or name not in _LIMITS):
        raise TypeError(f"q: expected {name}, got {_describe(array)}")
    lo, hi = _LIMITS.get(name, (0, 0))
    for value in (array.min(), array.max()) if array.size else ():
        if not lo <= value <= hi:
            raise ValueError(
                f"q: expected integers from {lo} to {hi} for {name}, got {value}"
            )
    return array.astype(_dtype_of(name))


cdef object _number_at(const void *memory, int type):
    """The number that lies there, of a type that quantized codes or scales have; None for
    other types."""
    cdef pq_fpenv found
    cdef double real
    if type == PQ_F64:
        return (<const double *>memory)[0]
    if type == PQ_F32:  # a subnormal one, too
        found = pq_fpenv_enter()
        real = (<const float *>memory)[0]
        pq_fpenv_leave(found)
        return real
    if type == PQ_I8:
        return (<const int8_t *>memory)[0]
    if type == PQ_U8:
        return (<const uint8_t *>memory)[0]
    if type == PQ_I16:
        return (<const int16_t *>memory)[0]
    if type == PQ_U16:
        return (<const uint16_t *>memory)[0]
    if type == PQ_I32:
        return (<const int32_t *>memory)[0]
    return (<const uint32_t *>memory)[0] if type == PQ_U32 else None


cdef tuple _frozen(object array, str name):
    """What an array is made of again, on immutable memory: shape, dtype, bytes."""
    try:
        return array.shape, array.dtype, array.tobytes()
    except MemoryError:
        raise MemoryError(
            f"{name}: expected an array that memory holds, got shape {array.shape}"
        ) from None


cdef tuple _frozen_zero(int64_t value, str dtype):
    """The same of one zero point of that type, which holds it."""
    cdef Py_ssize_t size = pq_type_size(<pq_type><int>_CODES[dtype])
    cdef const char *low = <const char *>&value
    if _BIG_ENDIAN:
        low += sizeof(value) - size
    return (), _DTYPES[dtype], PyBytes_FromStringAndSize(low, size)


cdef object _given_scale(tuple frozen, bint single):
    """A single number as a Python float, unless its type matters beside `precision`."""
    shape, dtype, memory = frozen
    name = _SPELLED.get(dtype) if single else None  # none of a foreign byte order
    if name == "float32" or name == "float64":
        return _number_at(PyBytes_AS_STRING(memory), <int>_REALS[name])
    array = _ndarray(shape, dtype, memory)
    if single and dtype.kind == "f" and dtype.itemsize >= 4:
        return cast(array, "float64").item()
    return array


cdef object _given_zero(tuple frozen, bint single):
    """None for zeros, a Python integer for a single other one."""
    shape, dtype, memory = frozen
    if single:
        return _number_at(PyBytes_AS_STRING(memory), <int>_CODES[_SPELLED[dtype]]) or None
    array = _ndarray(shape, dtype, memory)
    return array if array.any() else None


cdef object _zeros_of(Call *call, object zero_point):
    """Zero points that are not simply one that fits, as an ndarray."""
    if isinstance(zero_point, _packed_class()):
        zero_point = _np.asarray(_dequantize(_active, zero_point, 1.0, None, None, None,
                                             None, None, 1), _np.int8)
    elif PyLong_CheckExact(zero_point):
        zero_point = [zero_point]
    return _zero_array(call, zero_point)


cdef int _check_zeros_alone(Call *call, object zeros, tuple shape, str dtype) except -1:
    """What can be checked without data, beside scales of that shape."""
    if zeros.size != 1 and zeros.shape != shape:
        raise ValueError(f"zero_point: expected shape {shape}, got {zeros.shape}")
    call.args.ndim = call.zero.buffer.ndim
    call.args.shape = <const ptrdiff_t *>call.zero.buffer.shape
    call.args.zero.strides = <const ptrdiff_t *>call.zero.buffer.strides
    call.args.block = NULL
    _check_zero(call, <pq_type><int>_CODES[dtype])
    return 0


cdef tuple _keeping_scale(Call *call, object scale):
    """Scales, frozen, and as calls take them fastest; of `call` if `scale` is None."""
    if scale is None:
        memory = PyBytes_FromStringAndSize(<const char *>&call.scale_value, 8)
        return ((), _DTYPES["float64"], memory), call.scale_value
    scales = _frozen(scale, "scale")
    return scales, _given_scale(scales, _size(&call.scale) == 1)


cdef tuple _keeping_zero(Call *call, object zeros, str dtype):
    """The same of zero points, in that type, whatever they came in: it has them all."""
    if zeros.dtype is not _DTYPES[dtype]:
        zeros = cast(zeros, dtype)
    frozen = _frozen(zeros, "zero_point")
    return frozen, _given_zero(frozen, _size(&call.zero) == 1)


cdef tuple _frozen_parameters(object scale, object zero_point, str dtype, object axis,
                              object block_size):
    """Scale and zero point, frozen; the same as calls take them fastest; `dtype`, and axis
    and block size as Python integers. After what can be checked without data."""
    cdef Call call
    cdef bint simple
    _forget(&call)
    try:
        if PyFloat_Check(scale) and not PyFloat_CheckExact(scale):
            scale = _np.asarray(scale)
        scale = _scale_array(&call, scale)
        zero_type = zero_name(dtype)
        lo, hi = _LIMITS.get(dtype, (0, 0))
        simple = zero_point is None or (
            PyLong_CheckExact(zero_point) and lo <= zero_point <= hi
        )
        if not simple:
            zero_point = _zeros_of(&call, zero_point)
        axis, block_size = _settled(axis, "axis"), _settled(block_size, "block_size")
        _hold_scale(&call, scale)
        if not simple:
            _hold_zero(&call, zero_point)
            shape = () if scale is None else _shape(&call.scale)
            _check_zeros_alone(&call, zero_point, shape, dtype)
        if block_size is not None:
            _blocks(block_size)
            _check_blocked_axis(axis, block_size)
        scales, given_scale = _keeping_scale(&call, scale)
        if simple:
            zeros, given_zero = _frozen_zero(zero_point or 0, zero_type), zero_point or None
        else:
            zeros, given_zero = _keeping_zero(&call, zero_point, zero_type)
        return scales, zeros, given_scale, given_zero, dtype, axis, block_size
    finally:
        _release(&call)


cdef tuple _without_repeats(Array *x, list selecting, ptrdiff_t *shape,
                            ptrdiff_t *block):
    """The shape of x, and its blocks, with one element of each run of the same one, which
    an array that was broadcast may have more of than can be walked. Returns how many there
    were in place of how many."""
    cdef int d
    cdef bint empty = _size(x) == 0
    before, after = 1, 1
    for d in range(x.buffer.ndim):
        shape[d] = x.buffer.shape[d]
        if shape[d] > 1 and (empty or x.buffer.strides[d] == 0):
            if d in selecting:
                shape[d] = (shape[d] + block[d] - 1) // block[d]
                block[d] = 1
            else:
                shape[d] = 1
            before, after = before * x.buffer.shape[d], after * shape[d]
    return before, after


cdef object _nonfinite_error(Call *call, tuple repeats):
    cdef size_t count = 0, first = 0
    pq_count_nonfinite(&call.args, &count, &first)
    walked = tuple([call.args.shape[d] for d in range(call.args.ndim)])
    at = tuple([int(i) for i in _np.unravel_index(first, walked)])
    return ValueError(
        f"x: expected finite values, got {count * repeats[0] // repeats[1]} not finite, "
        f"the first at index {at}"
    )


# Groups whose extrema are held at a time: all of them could be larger than the input.
cdef enum:
    _EXTREMA = 512


cdef struct Choosing:
    const pq_kernels *kernels
    Call *call
    pq_choice choice
    bint selects[PQ_MAX_NDIM]
    ptrdiff_t shape[PQ_MAX_NDIM]  # of the box of groups at hand
    double lo[_EXTREMA]
    double hi[_EXTREMA]
    char *scale  # where its results go
    char *zero


cdef void _set_cells(pq_array *to, double *cells, ptrdiff_t *strides) noexcept:
    to.data = cells
    to.strides = strides
    to.type = PQ_F64
    to.swapped = False
    to.bit_strides = NULL


cdef int _choose_box(Choosing *c, ptrdiff_t count, int *finite) noexcept nogil:
    """Scales and zero points of a box of `count` groups; returns a pq_status."""
    cdef ptrdiff_t i
    for i in range(count):
        c.lo[i] = INFINITY
        c.hi[i] = -INFINITY
    cdef int status = pq_minmax(c.kernels, &c.call.args, finite)
    if status == PQ_OK and finite[0]:
        status = pq_choose(&c.choice, count, c.lo, c.hi, c.scale, c.zero)
    c.scale += count * (sizeof(double) if c.choice.real == PQ_F64 else sizeof(float))
    c.zero += count * pq_type_size(c.choice.code)
    return status


cdef int _choose_boxes(Choosing *c, int *finite) noexcept nogil:
    """The same for any number: cut along the outermost dimension of more than one group,
    which leaves the results of both halves contiguous."""
    cdef pq_args *args = &c.call.args
    cdef ptrdiff_t count = 1, groups, cut = 0, whole
    cdef char *data = <char *>args.inp.data
    cdef int d, outermost = -1, status
    for d in reversed(range(args.ndim)):
        c.call.scale_strides[d] = 0
        if c.selects[d]:
            groups = (c.shape[d] + c.call.block[d] - 1) // c.call.block[d]
            c.call.scale_strides[d] = count * <ptrdiff_t>sizeof(double)
            count *= groups
            if groups > 1:
                outermost = d
                cut = groups // 2 * c.call.block[d]
    if count <= _EXTREMA:
        return _choose_box(c, count, finite)
    d = outermost
    whole = c.shape[d]
    c.shape[d] = cut
    status = _choose_boxes(c, finite)
    if status == PQ_OK and finite[0]:
        c.shape[d] = whole - cut
        args.inp.data = data + cut * args.inp.strides[d]
        status = _choose_boxes(c, finite)
    c.shape[d] = whole
    args.inp.data = data
    return status


def zero_name(str name not None):
    """The type of zero points: NumPy's own, so that it needs no other package."""
    if name in _LIMITS and name not in _PACKED:
        return name
    return "uint8" if name.startswith("u") else "int8"


cdef bytes _new_memory(tuple shape, object dtype, Py_ssize_t size):
    """Immutable memory for an array of elements of `size` bytes, to be filled at once."""
    try:
        count = _prod(shape)
        if count == 0:  # of a shape that NumPy may refuse
            _new(shape, dtype, "x")
        return PyBytes_FromStringAndSize(NULL, count * size)
    except (MemoryError, OverflowError):
        _new(shape, dtype, "x")  # for its message
        raise MemoryError from None


cdef tuple _choose(const pq_kernels *kernels, object x, object dtype, object axis,
                   object block_size, object symmetric):
    """Scales and zero points, frozen, in a tuple like that of `_frozen_parameters`."""
    cdef Call call
    cdef Choosing c
    cdef int finite = 1, status = PQ_OK, d
    cdef bint flag
    cdef str name
    cdef bytes scale_memory, zero_memory
    _forget(&call)
    try:
        array = _real_array(x, "x")
        name = _name_in(_CODES, dtype, "dtype", _CODE_NAMES)
        c.choice.code = <pq_type><int>_CODES[name]
        if symmetric is None:
            flag = _is_narrow_float(c.choice.code) or not name.startswith("u")
        else:
            flag = _flag(symmetric, "symmetric", "None, True or False")
        axis, block_size = _settled(axis, "axis"), _settled(block_size, "block_size")
        _hold_real(array, &call.x, "x")
        _set_input(&call)
        selecting = _granularity(&call, axis, block_size)
        shape = _parameter_shape(&call, selecting)
        if not flag and _is_narrow_float(c.choice.code):
            raise ValueError(f"symmetric: expected True for {name}, got False")
        c.choice.size = sizeof(pq_choice)
        c.choice.real = call.x.type
        c.choice.rule = PQ_RULE_SYMMETRIC if flag else PQ_RULE_ASYMMETRIC
        real = PQ_F64 if call.x.type == PQ_F64 else PQ_F32
        scale_dtype, zero_dtype = _DTYPES[_NAMES[<int>real]], _DTYPES[zero_name(name)]
        scale_memory = _new_memory(shape, scale_dtype, pq_type_size(real))
        zero_memory = _new_memory(shape, zero_dtype, pq_type_size(c.choice.code))
        if len(zero_memory) > 0:
            c.kernels = kernels
            c.call = &call
            c.scale = PyBytes_AS_STRING(scale_memory)
            c.zero = PyBytes_AS_STRING(zero_memory)
            for d in range(call.args.ndim):
                c.selects[d] = d in selecting
            repeats = _without_repeats(&call.x, selecting, c.shape, call.block)
            call.args.shape = c.shape
            call.args.block = call.block
            call.args.out.data = NULL
            _set_cells(&call.args.lowest, c.lo, call.scale_strides)
            _set_cells(&call.args.highest, c.hi, call.scale_strides)
            with nogil:
                status = _choose_boxes(&c, &finite)
        if status != PQ_OK:
            raise SystemError(f"pyquant: unexpected status {status} from the C core")
        if not finite:
            raise _nonfinite_error(&call, repeats)
        scales, zeros = (shape, scale_dtype, scale_memory), (shape, zero_dtype, zero_memory)
        flag = len(zero_memory) == <Py_ssize_t>pq_type_size(c.choice.code)
        return (scales, zeros, _given_scale(scales, flag), _given_zero(zeros, flag), name,
                axis, block_size)
    finally:
        _release(&call)


# ---- instruction sets ----


cdef dict _find_all():
    """Addresses of the tables by name, best first."""
    cdef dict tables = {}
    cdef int i = 0
    while pq_isa_name(i) != NULL:
        tables[pq_isa_name(i).decode()] = <uintptr_t>pq_isa_find(pq_isa_name(i))
        i += 1
    return tables


cdef dict _tables = _find_all()
isa_available = tuple(_tables)


cdef const pq_kernels *_kernels_of(str isa) except NULL:
    if isa not in _tables:
        raise ValueError(f"isa: expected one of {', '.join(_tables)}, got {isa!r}")
    return <const pq_kernels *><uintptr_t>_tables[isa]


def _choose_isa():
    wanted = os.environ.get("PYQUANT_ISA", "")
    if not wanted:
        return isa_available[0]
    if wanted not in isa_available:
        raise ImportError(
            f"PYQUANT_ISA: expected one of {', '.join(isa_available)}, got {wanted!r}"
        )
    return wanted


isa_active = _choose_isa()
cdef const pq_kernels *_active = _kernels_of(isa_active)

# The interface for other extension modules, see csrc/pyquant.h. The bytes of the version
# live as long as this module's names, which nothing takes away.
cdef bytes _version = __version__.encode()
cdef pq_api _api
pq_api_init(&_api, _active, PyBytes_AS_STRING(_version))
c_api = PyCapsule_New(&_api, "pyquant._core.c_api", NULL)


# ---- Python functions ----


def quantize(x, scale=None, zero_point=None, *, dtype=None, axis=None, block_size=None,
             rounding="half_even", precision=None, saturate=True, packed=False, out=None,
             threads=1):
    """
    Quantize real numbers: ``saturate(round(x / scale) + zero_point)``.

    Parameters
    ----------
    x : array_like
        float32, float64, float16 or bfloat16, of any shape, strides and byte order.
        Python numbers are taken as float64. Buffers and objects with one of NumPy's
        protocols, or with `__dlpack__` and memory of the CPU, are not copied.
    scale : array_like
        Real numbers, narrow floats and float8_e8m0fnu among them, rounded once to float32
        (float64 when `x` is float64). One element is one scale for all of `x`; otherwise
        the shape follows from `axis` and `block_size`, or is that of `x` with 1 for
        dimensions along which the scale does not vary. Negative, zero, infinite and NaN
        scales follow IEEE arithmetic.
    zero_point : array_like, optional
        Integers within the range of `dtype`, one or as many as `scale` has. Default 0,
        which is all that narrow floats take.
    dtype : dtype_like, optional
        int8, uint8, int16, uint16, int32, uint32; int4, uint4, int2, uint2; or a narrow
        float: float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz,
        float6_e2m3fn, float6_e3m2fn, float4_e2m1fn. Default: that of `zero_point` if it is
        a NumPy array or scalar, else int8. Types that NumPy lacks are those of ml_dtypes.
    axis : int or tuple of int, optional
        The axes along which the scale varies. The shape of `scale` is that of `x` at these
        axes, in ascending order.
    block_size : int or tuple of int, optional
        With an integer `axis`: so many consecutive elements along it share a scale, and
        `scale` has the shape of `x` but for ``ceil(n / block_size)`` there. A tuple, and
        no `axis`: the extents of a block along each dimension. The last block may be short.
    rounding : str or RoundMode, optional
        How the quotient becomes an integer. Default half to even, as narrow floats are
        always rounded.
    precision : dtype_like, optional
        Type to which the exact quotient is rounded before it is rounded to an integer:
        float16, bfloat16, float32 or float64. Default float32, float64 when `x` is float64.
    saturate : bool, optional
        Narrow floats: whether what is too large becomes the largest number (the default),
        or infinity or NaN where the type has one. Integers always saturate: must be True.
    packed : bool, optional
        Return a `PackedArray` of a type of 2 or 4 bits instead of a byte for each element.
        Needs no ml_dtypes, and takes no `out`.
    out : ndarray, optional
        Where to put the result: exact shape and dtype, any strides that keep the elements
        of one dimension clear of those of the next.
    threads : int, optional
        How many threads may share the work. The result does not depend on it.

    Returns
    -------
    ndarray
        The codes, of the shape of `x`; `out` if given; a `PackedArray` if `packed`.
        NaN gives the lowest integer, NaN of a narrow float, -0 of one of 6 bits and 6 of
        float4_e2m1fn, which have none.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a value or a shape does not fit. `out` has not been written to.
    numpy.exceptions.AxisError
        If an axis is out of bounds.
    ImportError
        If a type is one of ml_dtypes, which is not installed.

    Notes
    -----
    Bit for bit the definition of ONNX QuantizeLinear and, with `rounding`, of nGraph
    Quantize: one IEEE division, one rounding, exact addition, saturation.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> pq.quantize(np.array([0.5, 1.5, -3.0, 1e9], np.float32), 0.5, 1, dtype="uint8")
    array([  2,   4,   0, 255], dtype=uint8)
    """
    return _quantize(_active, x, scale, zero_point, dtype, axis, block_size, rounding,
                     precision, saturate, packed, out, threads)


def dequantize(q, scale=None, zero_point=None, *, dtype=None, axis=None, block_size=None,
               out=None, threads=1):
    """
    Turn codes back into real numbers: ``(q - zero_point) * scale``.

    Parameters
    ----------
    q : array_like
        Of a type that `quantize` has, of any shape, strides and byte order; or a
        `PackedArray`. Python integers are taken as int32, or uint32 if they need it.
    scale : array_like
        Real numbers, rounded once to float32 (float64 when `dtype` is float64); see
        `quantize` for shapes.
    zero_point : array_like, optional
        Integers within the range of the type of `q`, one or as many as `scale` has.
        Default 0.
    dtype : dtype_like, optional
        float32, float64, float16 or bfloat16. Default that of `out`, else float32.
    axis, block_size : int or tuple of int, optional
        As for `quantize`.
    out : ndarray, optional
        Where to put the result: exact shape and dtype, any strides that keep the elements
        of one dimension clear of those of the next.
    threads : int, optional
        How many threads may share the work. The result does not depend on it.

    Returns
    -------
    ndarray
        Real numbers, of the shape of `q`; `out` if that was given.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a value or a shape does not fit. `out` has not been written to.
    numpy.exceptions.AxisError
        If an axis is out of bounds.
    ImportError
        If a type is one of ml_dtypes, which is not installed.

    Notes
    -----
    Bit for bit the definition of ONNX DequantizeLinear, nGraph Dequantize and oneDNN Graph
    Dequantize: an exact difference of integers, one conversion to float32 (float64 for
    float64 results), one multiplication, one conversion to `dtype`, each rounding half to
    even. NaN results are the positive quiet NaN on every CPU.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> pq.dequantize(np.array([2, 4, 0, 255], np.uint8), 0.5, 1)
    array([  0.5,   1.5,  -0.5, 127. ], dtype=float32)
    """
    return _dequantize(_active, q, scale, zero_point, dtype, axis, block_size, out, threads)


cdef object _requiring_scale(function):
    """Its signature without the default, which serves a message of our own."""
    found = _signature(function)
    return found.replace(parameters=[
        one.replace(default=one.empty) if one.name == "scale" else one
        for one in found.parameters.values()
    ])


quantize.__signature__ = _requiring_scale(quantize)
dequantize.__signature__ = _requiring_scale(dequantize)


cdef object _codes_for(object q, str name):
    """`q` as codes of the type `name`; other types are refused."""
    given = _dtype_said(q)
    if given is None:
        return codes(q, name)
    found = _dtypes.name_of(given)
    if found is None:  # a dtype of another library
        q = _plain(q, "q")
        given = q.dtype
        found = _dtypes.name_of(given)
    if found != name:
        got = _describe(q) if type(q) is _ndarray else given
        raise TypeError(f"q: expected {name}, got {got}")
    return q


cdef class Calls:
    """The calls of QParams: methods of a C type take arguments as fast as functions do."""

    # Shape, dtype and memory of the arrays, which are made when they are asked for.
    cdef tuple _scales
    cdef tuple _zeros
    # As calls take them fastest.
    cdef object _given_scale
    cdef object _given_zero
    cdef object _dtype  # what most arrays of codes have; None where NumPy has no such type
    cdef readonly str _name
    cdef readonly object _axis
    cdef readonly object _block_size

    cdef int _keep(self, tuple parameters) except -1:
        with critical_section(self):
            self._refuse_change()
            (self._scales, self._zeros, self._given_scale, self._given_zero, self._name,
             self._axis, self._block_size) = parameters
            self._dtype = _DTYPES.get(self._name)
        return 0

    cdef int _refuse_change(self) except -1:
        if self._name is not None:
            raise AttributeError("scale: expected no assignment, QParams is immutable")
        return 0

    def _set(self, scale, zero_point, dtype, axis, block_size):
        """Check and copy everything, so that nothing can change it."""
        self._refuse_change()
        name = _name_in(_CODES, dtype, "dtype", _CODE_NAMES)
        self._keep(_frozen_parameters(scale, zero_point, name, axis, block_size))

    @classmethod
    def _choose(cls, x, dtype, axis, block_size, symmetric):
        """See qparams.choose_qparams."""
        cdef Calls made = cls.__new__(cls)
        made._keep(_choose(_active, x, dtype, axis, block_size, symmetric))
        return made

    @property
    def _scale(self):
        return _ndarray(*self._scales)

    @property
    def _zero_point(self):
        return _ndarray(*self._zeros)

    def quantize(self, x, *, rounding="half_even", precision=None, saturate=True,
                 packed=False, out=None, threads=1):
        """
        Quantize `x` with these parameters.

        Parameters
        ----------
        x : array_like
            Real numbers.
        rounding, precision, saturate, packed, out, threads
            As for `pyquant.quantize`.

        Returns
        -------
        ndarray or PackedArray
            The codes.

        Raises
        ------
        TypeError, ValueError, numpy.exceptions.AxisError, ImportError
            As `pyquant.quantize` does.

        Examples
        --------
        >>> import pyquant as pq
        >>> pq.QParams(0.5, 3, "uint8").quantize([0.5, 1.5, -9.0])
        array([4, 6, 0], dtype=uint8)
        """
        return _quantize(_active, x, self._given_scale, self._given_zero, self._name,
                         self._axis, self._block_size, rounding, precision, saturate,
                         packed, out, threads, True)

    def dequantize(self, q, *, dtype=None, out=None, threads=1):
        """
        Turn codes back into real numbers.

        Parameters
        ----------
        q : array_like or PackedArray
            Codes.
        dtype, out, threads
            As for `pyquant.dequantize`.

        Returns
        -------
        ndarray
            Real numbers.

        Raises
        ------
        TypeError
            If `q` has another type than the parameters are for.

        Examples
        --------
        >>> import pyquant as pq
        >>> pq.QParams(0.5, 3, "uint8").dequantize([4, 6, 0])
        array([ 0.5,  1.5, -1.5], dtype=float32)
        """
        if type(q) is not _ndarray or q.dtype is not self._dtype:
            q = _codes_for(q, self._name)
        return _dequantize(_active, q, self._given_scale, self._given_zero, dtype,
                           self._axis, self._block_size, out, threads, True)


def quantize_standard(x, scale, zero_point, *, dtype, axis=None, block_size=None,
                      rounding="half_even", precision=None, saturate=True,
                      zero_first=False, narrow_first=False):
    """Quantize as standards may want it: from int32, too, with any zero points, which may
    be narrow floats, and these perhaps added before rounding; `x` and `scale` perhaps
    rounded to `precision` before they are divided."""
    return _quantize(_active, x, scale, zero_point, dtype, axis, block_size, rounding,
                     precision, saturate, False, None, 1, True, True, zero_first,
                     narrow_first)


def dequantize_standard(q, scale, zero_point, *, dtype, axis=None, block_size=None):
    """Dequantize with any zero points, which may be narrow floats."""
    return _dequantize(_active, q, scale, zero_point, dtype, axis, block_size, None, 1,
                       True)


def plain(values, str name not None):
    """Anything as an ndarray, or the error that says why not."""
    return _plain(values, name)


def cast(array, str dtype not None):
    """Convert, whatever the control state, and without NumPy's warnings."""
    cdef pq_fpenv found = pq_fpenv_enter()
    try:
        with _np.errstate(all="ignore"):
            return array.astype(_dtype_of(dtype))
    finally:
        pq_fpenv_leave(found)


cdef object _encoded(object array, str name):
    """Numbers as a narrow float that has them all; else None."""
    found = _quantize(_active, array, 1.0, None, name, None, None, "half_even", None, True,
                      False, None, 1)
    decoded = _dequantize(_active, found, 1.0, None, None, None, None, None, 1)
    return found if (decoded == array).all() else None


cdef tuple _range_of(str name):
    return (-(2**63), 2**63 - 1) if name == "int64" else _LIMITS.get(name, (0, -1))


cdef object _single_floats(tuple values, tuple shape):
    """float32 of Python floats; None if one is something else."""
    cdef pq_fpenv found
    cdef float *to
    if not all([type(one) is float for one in values]):
        return None
    memory = PyBytes_FromStringAndSize(NULL, 4 * len(values))
    to = <float *>PyBytes_AS_STRING(memory)
    found = pq_fpenv_enter()
    for one in values:
        to[0] = <float>PyFloat_AS_DOUBLE(one)
        to += 1
    pq_fpenv_leave(found)
    return _ndarray(shape, _DTYPES["float32"], memory)


cdef object _fitting_integers(tuple values, tuple shape, str dtype):
    """Python integers as an array of a type that holds them; else None."""
    if dtype not in _CODES and dtype != "int64":
        return None
    lo, hi = _range_of(dtype)
    for one in values:
        if type(one) is not int or not lo <= one <= hi:
            return None
    own = dtype if dtype == "int64" else zero_name(dtype)
    return _np.array(values if shape else values[0], _DTYPES[own])


cdef object _usual(object values, str dtype):
    """A Python number, or a list of some, as an array of the type that is for it; None for
    what needs more of a look."""
    cdef tuple all_of, shape = ()
    if type(values) is float or type(values) is int:
        all_of = (values,)
    elif type(values) is list and len(values) > 0:
        all_of = tuple(values)
        shape = (len(all_of),)
    else:
        return None
    if dtype == "float32":
        return _single_floats(all_of, shape)
    return _fitting_integers(all_of, shape, dtype)


def typed(values, str name not None, tuple types not None):
    """Python numbers as an array of the first of `types` that is for them."""
    array = _usual(values, types[0])
    if array is not None:
        return array
    array = _plain(values, name)
    kind = array.dtype.kind
    reals = any([one in _REALS for one in types])
    if reals and kind == "O" and _is_untyped(values):  # integers that no integer type has
        array = _floats_of(values, array, name)
        kind = array.dtype.kind
    if array.size and (kind == "O" or not reals):
        _refuse_huge(values, array, name, f"numbers that {types[0]} holds")
    for one in types:
        if one in _REALS and kind in "fiu" or array.size == 0:
            return cast(array, one)
        if one in _TYPES and kind in "iu":
            lo, hi = _range_of(one)
            if lo <= array.min() and array.max() <= hi:
                return array.astype(zero_name(one) if one != "int64" else one)
        if one in _dtypes.NARROW_FLOATS and len(types) == 1 and kind in "fiu":
            found = _encoded(array.astype(_np.float64), one)
            if found is not None:
                return found
    lo, hi = _range_of(types[0])
    if kind in "iu" and lo < hi:
        unfit = [v for v in array.ravel().tolist() if not lo <= v <= hi]
        raise ValueError(f"{name}: expected integers that {types[0]} holds, got {unfit[0]}")
    return array


def first_zero(scales):
    """Where the first zero is in float32 scales of one dimension; -1 without one. By their
    bits: depending on the control state subnormal numbers are equal to zero."""
    cdef Call call
    cdef Py_ssize_t i
    cdef uint32_t bits = 0
    _forget(&call)
    try:
        _hold(scales, &call.scale)
        for i in range(call.scale.buffer.shape[0]):
            memcpy(&bits, <char *>call.scale.buffer.buf + i * call.scale.buffer.strides[0],
                   sizeof(bits))
            if bits << 1 == 0:
                return i
        return -1
    finally:
        _release(&call)


cdef int _find_range(Call *call, object x, double *lo, double *hi) except -1:
    """Smallest and largest number and 0; both NaN if there is one."""
    cdef int finite = 1, status
    cdef ptrdiff_t shape[PQ_MAX_NDIM]
    cdef ptrdiff_t strides[PQ_MAX_NDIM]
    cdef pq_args extrema = call.args
    lo[0] = hi[0] = 0
    memset(strides, 0, sizeof(strides))
    _without_repeats(&call.x, [], shape, NULL)
    extrema.shape = shape
    extrema.out.data = NULL
    extrema.block = NULL
    _set_cells(&extrema.lowest, lo, strides)
    _set_cells(&extrema.highest, hi, strides)
    with nogil:
        status = pq_minmax(_active, &extrema, &finite)
    if status != PQ_OK:
        raise ValueError(f"x: expected an array that memory holds, got shape {x.shape}")
    if not finite:  # what is not a number hides in the extrema; NumPy keeps it
        once = x[tuple([slice(shape[d]) for d in range(x.ndim)])]
        lo[0], hi[0] = once.min(), once.max()
    return 0


@cdivision(True)
def dynamic_range(x):
    """Scale and zero point of ONNX DynamicQuantizeLinear, in float32."""
    cdef Call call
    cdef double least = 0, most = 0
    cdef float lo, hi, scale, zero
    cdef pq_fpenv found
    _forget(&call)
    try:
        _hold_real(x, &call.x, "x")
        _set_input(&call)
        # NaN, too, is compared and converted, also where that would be an exception.
        found = pq_fpenv_enter()
        try:
            if _size(&call.x) > 0:
                _find_range(&call, x, &least, &most)
            lo = least if not least > 0 else 0
            hi = most if not most < 0 else 0
            scale = (hi - lo) / <float>255
            zero = <float>0 - lo / scale
            if lo == hi:
                scale = 1
            # Adding 1.5 * 2^23 rounds half to even; NaN is 0.
            zero = zero if zero < 255 else <float>255 if zero == zero else <float>0
            zero = (zero + <float>12582912 - <float>12582912) if zero > 0 else <float>0
            return _np.array(scale, _np.float32), _np.array(<int>zero, _np.uint8)
        finally:
            pq_fpenv_leave(found)
    finally:
        _release(&call)


# The same on a named instruction set, for tests and benchmarks.


def quantize_at(str isa not None, x, scale, zero_point=None, *, dtype=None, axis=None,
                block_size=None, rounding="half_even", precision=None, saturate=True,
                packed=False, out=None, threads=1):
    """Quantize with the kernels of `isa`."""
    return _quantize(_kernels_of(isa), x, scale, zero_point, dtype, axis, block_size,
                     rounding, precision, saturate, packed, out, threads)


def dequantize_at(str isa not None, q, scale, zero_point=None, *, dtype=None, axis=None,
                  block_size=None, out=None, threads=1):
    """Dequantize with the kernels of `isa`."""
    return _dequantize(_kernels_of(isa), q, scale, zero_point, dtype, axis, block_size, out,
                       threads)


def choose_qparams_at(str isa not None, x, *, dtype="int8", axis=None, block_size=None,
                      symmetric=None):
    """Scale and zero point by the kernels of `isa`."""
    scales, zeros, *_ = _choose(_kernels_of(isa), x, dtype, axis, block_size, symmetric)
    return _ndarray(*scales), _ndarray(*zeros)
