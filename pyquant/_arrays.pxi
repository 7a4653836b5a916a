# Arrays: anything that a user may pass as an ndarray.


def is_untyped(values):
    """Whether these are Python numbers, alone or in sequences, which have no type."""
    if known(values) is not None or not isinstance(values, (int, float, list, tuple)):
        return False
    return not isinstance(values, _np.generic)


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


cdef object _code_array(object q, str name):
    """`q` as an ndarray, or the bytes, shape, type and layout of a packed array."""
    if type(q) is _ndarray:
        return q
    if isinstance(q, _packed_class()):
        return q._data, q.shape, q._name, q._how
    return _integers_of(q, _plain(q, name), name)


cdef object _hold_code(Call *call, object array, str name):
    """Hold what `_code_array` gave; returns the ndarray that owns the memory."""
    if type(array) is tuple:
        data, shape, dtype, how = <tuple>array
        _hold_packed(call, data, shape, dtype, how)
        return data
    if not _hold(array, &call.x) or not _is_code(call.x.type):
        raise TypeError(f"{name}: expected {_CODE_LIST}, got {_describe(array)}")
    return array


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
