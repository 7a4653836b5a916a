# Convert user objects to ndarrays. This file reads NumPy arrays, NumPy scalars and usual
# Python numbers; _convert.py converts all other objects.

cdef object _as_array = _np.asarray


def is_untyped(values, /):
    """Return True for Python numbers, alone or in sequences, which have no type."""
    if known(values) is not None or not isinstance(values, (int, float, list, tuple)):
        return False
    return not isinstance(values, _np.generic)


cdef object _converted(object convert, tuple arguments):
    """Call a function of _convert.py with the default floating-point control state."""
    cdef pq_fpenv_all found = pq_fpenv_enter_all()
    try:
        return convert(*arguments)
    finally:
        pq_fpenv_leave_all(found)


cdef object _plain(object obj, str name):
    """Return an exact ndarray; keep masks, and leave the dtype of Python numbers open."""
    return _converted(_convert.plain, (obj, name))


cdef bint _put_reals(tuple values, pq_type type, void *to) except -1:
    """Write Python floats, or integers as float64; return False for any other object."""
    cdef Py_ssize_t i = 0
    cdef double value
    cdef int beyond = 0
    for one in values:
        if PyFloat_CheckExact(one):
            value = PyFloat_AS_DOUBLE(one)
        elif type == PQ_F64 and PyLong_CheckExact(one):
            value = <double>PyLong_AsLongLongAndOverflow(one, &beyond)
            if beyond:
                return False
        else:
            return False
        if type == PQ_F64:
            (<double *>to)[i] = value
        else:
            (<float *>to)[i] = <float>value
        i += 1
    return True


cdef bint _put_integers(tuple values, pq_type type, char *to) except -1:
    """Write Python integers; return False for any other object or a value out of range."""
    cdef const pq_type_info *row = row_of_type(type)
    cdef int64_t value
    cdef int beyond = 0
    for one in values:
        if not PyLong_CheckExact(one):
            return False
        value = PyLong_AsLongLongAndOverflow(one, &beyond)
        if beyond or value < row.lowest or value > <int64_t>row.highest:
            return False
        _put_integer(value, row.bytes, to)
        to += row.bytes
    return True


cdef bint _put(tuple values, pq_type type, void *to) except -1:
    """Write Python numbers in a type; return False if the type does not fit."""
    cdef pq_fpenv found = pq_fpenv_enter()
    try:
        if _is_integer(type):
            return _put_integers(values, type, <char *>to)
        return _put_reals(values, type, to)
    finally:
        pq_fpenv_leave(found)


cdef object _filled(tuple values, int ndim, pq_type type):
    """Return Python numbers as an array of rank 0 or 1."""
    cdef Py_ssize_t count = len(values)
    array = _new_array(ndim, &count, row_of_type(type).carrier)
    put = _put(values, type, PyArray_DATA(<const PyArrayObject *>array))
    return array if put else None


cdef object _numbers(object values, pq_type type):
    """Return a Python number, or a flat sequence of numbers, as an array of a fitting type
    (float32, float64 or an integer type within int64), else `None`."""
    cdef tuple numbers
    cdef int ndim = 1
    if PyFloat_CheckExact(values) or PyLong_CheckExact(values):
        numbers, ndim = (values,), 0
    elif PyList_CheckExact(values) or PyTuple_CheckExact(values):
        numbers = tuple(values)
    else:
        return None
    if type == PQ_F32 or type == PQ_F64 or (_is_integer(type) and type != PQ_U64):
        return _filled(numbers, ndim, type) if numbers else None
    return None


# All arguments are converted first, because their code may change other arguments. Memory
# is accessed afterwards.


cdef object _real_array(object x, str name):
    """Return `x` as an ndarray; objects without a type become real numbers."""
    if type(x) is _ndarray:
        return x
    if PyFloat_CheckExact(x) or known(x) is not None:
        return _as_array(x)
    array = _numbers(x, PQ_F64)
    return _converted(_convert.reals, (x, name)) if array is None else array


cdef int _hold_real(object array, Array *held, str name, bint int32=False,
                    str remedy="") except -1:
    """Hold an array of real numbers; some calls allow int32. The error about integers names
    the conversion, and then `remedy`."""
    if not _hold(array, held) or not (
        _is_real(held.type) or (int32 and held.type == PQ_I32)
    ):
        # No one-byte type is allowed, so the hint of the message would be wrong.
        got = _describe(array) if array.dtype.itemsize > 1 else array.dtype
        end = ""
        if array.dtype.kind in "iu":
            end = f'; convert it with .astype("float32"){remedy}'
        raise TypeError(f"{name}: expected {_REAL_LIST}, got {got}{end}")
    return 0


cdef object _code_array(object q, str name):
    """Return `q` as an ndarray or packed array."""
    if type(q) is _ndarray:
        return q
    if isinstance(q, Packed):
        return q
    if known(q) is not None:
        return _as_array(q)
    array = _numbers(q, PQ_I32)
    return _converted(_convert.integers, (q, name)) if array is None else array


cdef object _hold_code(Call *call, object array, str name, object scale):
    """Hold the result of `_code_array`, and return the owner of the memory."""
    if isinstance(array, Packed):
        _hold_packed(call, array)
        return (<Packed>array)._words
    if not _hold(array, &call.x) or not _is_code(call.x.type):
        end = "; did you mean quantize?" if array.dtype.kind == "f" else ""
        if end and type(scale) is _ndarray and scale.dtype.kind in "iu":
            end = f"; are {name} and scale swapped?"
        raise TypeError(f"{name}: expected {_CODE_LIST}, got {_describe(array)}{end}")
    return array


cdef object _codes_for(object q, str name):
    """Return `q` as codes of the type `name`, or raise an error."""
    given = _dtype_said(q)
    if given is None:
        array = _converted(_convert.codes, (q, "q", name, _LIMITS.get(name)))
        return array.astype(_dtype_of(name), copy=False)
    found = _dtypes.name_of(given)
    if found is None:  # a dtype of another package
        q = _plain(q, "q")
        given = q.dtype
        found = _dtypes.name_of(given)
    if found != name:
        got = _describe(q) if type(q) is _ndarray else given
        end = "; did you mean quantize?" if found in _REALS else ""
        raise TypeError(f"q: expected {name}, got {got}{end}")
    return q


def plain(values, str name not None, /):
    """Return any object as an ndarray, or raise an error with the reason."""
    return _plain(values, name)


def cast(array, str dtype not None, /):
    """Convert with the default control state, without NumPy's warnings."""
    return _undisturbed(array.astype, (_dtype_of(dtype),))


cdef object _undisturbed(object function, tuple args):
    cdef pq_fpenv_all found = pq_fpenv_enter_all()
    try:
        with _np.errstate(all="ignore"):
            return function(*args)
    finally:
        pq_fpenv_leave_all(found)
