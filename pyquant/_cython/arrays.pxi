# The memory of arrays, and the conversion of user objects to arrays.


# ---- floating-point environment ----


def default_fpenv(function, /):
    """Decorate a function or class that computes with NumPy. Each call sets the default
    floating-point environment, and restores the caller's environment at the end.

    The environment consists of rounding mode, flush-to-zero, denormals-are-zero, trapped
    exceptions and exception flags. On x86, it includes the environments of SSE and of x87.
    In a decorated class, all public and special methods and properties use the default
    environment. The C core sets the environment itself, so code that only calls the core
    needs no decorator.
    """
    if isinstance(function, type):
        for name, member in list(vars(function).items()):
            if not name.startswith("_") or name.endswith("__"):
                _decorate(function, name, member)
        return function

    def in_default_fpenv(*args, **kwargs):
        cdef pq_fpenv_all found = pq_fpenv_enter_all()
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            _raise_hint(error, function, args, kwargs)
            raise
        finally:
            pq_fpenv_leave_all(found)

    return _update_wrapper(in_default_fpenv, function)


cdef int _decorate(object owner, str name, object member) except -1:
    if isinstance(member, property):
        setattr(owner, name, property(default_fpenv(member.fget), doc=member.__doc__))
    elif isinstance(member, classmethod):
        setattr(owner, name, classmethod(default_fpenv(member.__func__)))
    elif isinstance(member, _Function):
        setattr(owner, name, default_fpenv(member))
    return 0


# A new thread inherits the floating-point environment of the thread that starts it.
_threads._serve = default_fpenv(_threads._serve)


# ---- memory ----

# A copy of the address, shape, strides and type of an array. The caller keeps the array
# alive. While the GIL is released, another thread may change the shape of the array, but
# not the copy.
cdef struct Array:
    char *data
    int ndim
    ptrdiff_t[PQ_MAX_NDIM] shape
    ptrdiff_t[PQ_MAX_NDIM] strides  # in bytes
    ptrdiff_t itemsize
    bint held  # true if this struct describes an array
    bint readonly
    pq_type type
    bint swapped
    size_t packed  # number of bytes of a packed array, which has no strides, else 0


cdef struct Call:
    pq_args args
    Array x, out, scale, zero, offset
    double scale_value, offset_value
    bint has_out  # True if the caller passed `out`.
    const char *whose  # Name of the argument in errors if a QParams does not fit it.
    const pq_codebook *book
    int64_t zero_value
    ptrdiff_t block[PQ_MAX_NDIM]
    ptrdiff_t scale_strides[PQ_MAX_NDIM]
    ptrdiff_t zero_strides[PQ_MAX_NDIM]
    ptrdiff_t offset_strides[PQ_MAX_NDIM]
    ptrdiff_t x_bits[PQ_MAX_NDIM]
    ptrdiff_t out_bits[PQ_MAX_NDIM]
    pq_layout x_layout, out_layout  # `args` has pointers to these layouts.
    Py_ssize_t x_words, out_words   # Numbers of words along the packed axes.


cdef inline void _forget_options(pq_args *args) noexcept:
    args.size = sizeof(pq_args)
    args.scale.bit_strides = args.zero.bit_strides = args.offset.bit_strides = NULL
    args.in_layout = args.out_layout = NULL
    args.round = PQ_HALF_EVEN
    args.precision = PQ_NO_TYPE
    args.overflow = False
    args.zero_first = False
    args.narrow_first = False
    args.any_zeros = False
    args.offset.data = NULL
    args.inverse = False
    args.fill = NULL
    args.fills = 0
    args.lowest_code = args.highest_code = 0
    args.beyond = PQ_SATURATE
    args.refuse_nan = 0
    args.seed = args.start = 0


cdef inline void _forget(Call *call) noexcept:
    call.x.held = call.out.held = call.scale.held = call.zero.held = False
    call.offset.held = call.has_out = False
    call.book = NULL
    call.whose = NULL
    call.x.packed = call.out.packed = call.scale.packed = call.zero.packed = 0
    call.offset.packed = 0
    _forget_options(&call.args)


cdef inline int64_t _bits_of(object value) except? -1:
    """Return the int64 that has the 64 bits of an int64 or uint64 value."""
    return value if value < 2**63 else <int64_t><uint64_t>value


cdef bint _BIG_ENDIAN = _np.dtype(">u2").isnative


cdef inline void _put_integer(int64_t value, size_t size, char *to) noexcept:
    """Write the `size` low bytes of an integer in native byte order."""
    cdef const char *low = <const char *>&value
    memcpy(to, low + sizeof(value) - size if _BIG_ENDIAN else low, size)


# The pq_type for each type number of NumPy. NumPy assigns numbers to the types of ml_dtypes
# when ml_dtypes registers the types. `_user_type` adds a type on first use.
cdef enum:
    _OWN_TYPES = 32
    _USER_TYPES = 64


cdef pq_type[_OWN_TYPES] _own_types
cdef pq_type[_USER_TYPES] _user_types


cdef void _read_numpy_types() noexcept:
    _own_types[<int>NPY_BYTE] = PQ_I8
    _own_types[<int>NPY_UBYTE] = PQ_U8
    _own_types[<int>NPY_SHORT] = PQ_I16
    _own_types[<int>NPY_USHORT] = PQ_U16
    _own_types[<int>NPY_INT] = PQ_I32
    _own_types[<int>NPY_UINT] = PQ_U32
    _own_types[<int>NPY_LONG] = PQ_I64 if sizeof(long) == 8 else PQ_I32
    _own_types[<int>NPY_ULONG] = PQ_U64 if sizeof(long) == 8 else PQ_U32
    _own_types[<int>NPY_LONGLONG] = PQ_I64
    _own_types[<int>NPY_ULONGLONG] = PQ_U64
    _own_types[<int>NPY_HALF] = PQ_F16
    _own_types[<int>NPY_FLOAT] = PQ_F32
    _own_types[<int>NPY_DOUBLE] = PQ_F64


_read_numpy_types()


cdef pq_type _user_type(object array, int number) except *:
    """Return the pq_type of an array with a type of ml_dtypes, else PQ_NO_TYPE. The
    function calls no Python code, because Python code could change the array."""
    cdef pq_type type = PQ_NO_TYPE
    scalar = array.dtype.type
    if scalar.__module__ == "ml_dtypes":
        type = <pq_type><int>_TYPES.get(scalar.__name__, <int>PQ_NO_TYPE)
    if 0 <= number - NPY_USERDEF < _USER_TYPES:
        _user_types[number - NPY_USERDEF] = type
    return type


cdef inline pq_type _type_of_array(object array, int number) except *:
    cdef pq_type type = PQ_NO_TYPE
    if 0 <= number < _OWN_TYPES:
        return _own_types[number]
    if 0 <= number - NPY_USERDEF < _USER_TYPES:
        type = _user_types[number - NPY_USERDEF]
    return _user_type(array, number) if type == PQ_NO_TYPE else type


cdef inline void *_data(object array) noexcept:
    return PyArray_DATA(<const PyArrayObject *>array)


cdef inline void _hold_as(object array, pq_type type, bint swapped, Array *held) noexcept:
    """Store the description of an array with a known element type in `held`."""
    cdef const PyArrayObject *a = <const PyArrayObject *>array
    cdef const Py_ssize_t *shape = PyArray_DIMS(a)
    cdef const Py_ssize_t *strides = PyArray_STRIDES(a)
    cdef int d
    held.data = <char *>PyArray_DATA(a)
    held.ndim = PyArray_NDIM(a)
    for d in range(held.ndim):
        held.shape[d] = shape[d]
        held.strides[d] = strides[d]
    held.itemsize = PyArray_ITEMSIZE(a)
    held.held = True
    held.readonly = not PyArray_ISWRITEABLE(a)
    held.type = type
    held.swapped = swapped


cdef bint _hold_scalar(object scalar, Array *held) noexcept:
    """Store the description of a NumPy scalar in `held`. Return False for any other object.
    """
    cdef pq_type type = _scalar_type(scalar)
    if type == PQ_NO_TYPE:
        return False
    # Each type of NumPy scalar stores the value at the offset of `obval`.
    held.data = <char *>&(<PyDoubleScalarObject *>scalar).obval
    held.ndim = 0
    held.itemsize = pq_type_size(type)
    held.held = held.readonly = True
    held.type = type
    held.swapped = False
    return True


cdef bint _hold(object array, Array *held) except -1:
    """Store the description of an ndarray or NumPy scalar in `held`. Return False for other
    objects, for subclasses of ndarray, and for unknown element types."""
    cdef const PyArray_Descr *descr
    cdef pq_type type
    if Py_TYPE(array) is not &PyArray_Type:
        return _hold_scalar(array, held)
    descr = PyArray_DESCR(<const PyArrayObject *>array)
    type = _type_of_array(array, descr.type_num)
    if type == PQ_NO_TYPE:
        return False
    _hold_as(array, type, not PyArray_ISNBO(descr.byteorder), held)
    return True


cdef object _describe(object array):
    return _dtypes.described(array) if isinstance(array, _ndarray) else type(array).__name__


cdef inline Py_ssize_t _size(Array *a) noexcept:
    cdef Py_ssize_t size = 1
    cdef int d
    for d in range(a.ndim):
        size *= a.shape[d]
    return size


cdef tuple _extents(int ndim, const Py_ssize_t *shape):
    cdef tuple extents = PyTuple_New(ndim)
    cdef object extent
    cdef int d
    for d in range(ndim):
        extent = shape[d]
        Py_INCREF(extent)  # the tuple steals this reference
        PyTuple_SET_ITEM(extents, d, extent)
    return extents


cdef inline tuple _shape(Array *a):
    return _extents(a.ndim, <const Py_ssize_t *>a.shape)


cdef inline void _set_placed(pq_array *to, Array *a, ptrdiff_t *strides) noexcept:
    to[0] = pq_array(a.data, strides, a.type, a.swapped, NULL)


cdef inline void _set_array(pq_array *to, Array *a) noexcept:
    _set_placed(to, a, &a.strides[0])


cdef void _lay_bits(Call *call, pq_array *to, ptrdiff_t *strides, pq_layout *layout,
                    Py_ssize_t words) noexcept:
    """Set the strides, in bits, of packed codes in C order. `words` is the number of words
    along `layout.axis`. If `layout` is NULL, the codes follow each other without gaps."""
    cdef ptrdiff_t stride = layout.word_bits if layout else pq_type_bits(to.type)
    cdef int d
    for d in range(call.args.ndim - 1, -1, -1):
        strides[d] = stride
        if layout and d == layout.axis:
            layout.word_stride = stride
            stride *= words
        else:
            stride *= call.args.shape[d]
    to.bit_strides = strides


cdef inline void _set_input(Call *call) noexcept:
    call.args.ndim = call.x.ndim
    call.args.shape = call.x.shape
    _set_array(&call.args.inp, &call.x)
    if call.x.packed:
        _lay_bits(call, &call.args.inp, call.x_bits,
                  &call.x_layout if call.args.in_layout else NULL, call.x_words)


cdef inline void _set_output(Call *call) noexcept:
    _set_array(&call.args.out, &call.out)
    if call.out.packed:
        _lay_bits(call, &call.args.out, call.out_bits,
                  &call.out_layout if call.args.out_layout else NULL, call.out_words)


cdef bint _same_shape(Array *a, Array *b) noexcept:
    return a.ndim == b.ndim and PyArray_CompareLists(
        <const Py_ssize_t *>a.shape, <const Py_ssize_t *>b.shape, a.ndim
    )


cdef object _new_array(int ndim, const Py_ssize_t *shape, pq_type type):
    """Return a new array in C order."""
    cdef object dtype
    if _dtypes_held[<int>type] != NULL:
        dtype = <object>_dtypes_held[<int>type]
    else:
        dtype = dtype_named(<str>_NAMES[<int>type])
    Py_INCREF(dtype)  # the array steals this reference
    try:
        return PyArray_NewFromDescr(
            &PyArray_Type, <PyArray_Descr *>dtype, ndim, shape, NULL, NULL, 0, NULL
        )
    except ValueError:  # NumPy's message names no argument
        raise _error(ValueError, "out", f"a shape that NumPy can make of {dtype}",
                     f"{_extents(ndim, shape)}") from None


cdef inline object _new_like(Array *a, pq_type type):
    return _new_array(a.ndim, <const Py_ssize_t *>a.shape, type)


cdef object _exact_out(object out):
    """Return `out` as a plain ndarray, without calling methods of a subclass."""
    if type(out) is _ndarray:
        return out
    if not issubclass(type(out), _ndarray):
        raise TypeError(f"out: expected a NumPy array, got {type(out).__name__}")
    ma = _modules.get("numpy.ma")
    if ma is not None and issubclass(type(out), ma.MaskedArray):
        raise TypeError("out: expected an array without a mask, got a masked array")
    return _ndarray.view(out, _ndarray)


cdef object _hold_out(Call *call, object out, pq_type code):
    """Check type and shape of `out`, or create an array if `out` is `None`. Describe the
    array in call.out, and return a plain ndarray. The caller checks that `out` shares no
    memory with arguments."""
    if out is None:
        exact = _new_like(&call.x, code)
        _hold_as(exact, code, False, &call.out)
        _set_output(call)
        return exact
    call.has_out = True
    exact = _exact_out(out)
    # If `code` is PQ_NO_TYPE, the result may have any real type.
    if not _hold(exact, &call.out) or (
        call.out.type != code
        and not (code == PQ_NO_TYPE and _is_real(call.out.type))
    ):
        expected = _REAL_LIST if code == PQ_NO_TYPE else _NAMES[<int>code]
        raise TypeError(f"out: expected {expected}, got {_describe(exact)}")
    if not _same_shape(&call.x, &call.out):
        raise ValueError(f"out: expected shape {_shape(&call.x)}, got {exact.shape}")
    if call.out.readonly:
        raise ValueError("out: expected a writeable array, got a read-only one")
    _set_output(call)
    return exact


cdef void _bounds(Array *a, uintptr_t *lo, uintptr_t *hi) noexcept:
    """Store the first address of an array in `lo`, and the address after the last byte in
    `hi`."""
    cdef ptrdiff_t span
    cdef int d
    lo[0] = hi[0] = <uintptr_t>a.data
    for d in range(a.ndim):
        if a.shape[d] == 0:
            return
        span = (a.shape[d] - 1) * a.strides[d]
        if span < 0:
            lo[0] += <uintptr_t>span
        else:
            hi[0] += <uintptr_t>span
    hi[0] += max(<uintptr_t>a.itemsize, <uintptr_t>a.packed)


cdef bint _may_overlap(Array *a, Array *b) noexcept:
    """Return True if the address ranges of two arrays overlap. Return False if `b` is
    unset."""
    cdef uintptr_t a_lo = 0, a_hi = 0, b_lo = 0, b_hi = 0
    if not b.held:
        return False
    _bounds(a, &a_lo, &a_hi)
    _bounds(b, &b_lo, &b_hi)
    return b_hi > a_lo and a_hi > b_lo


cdef int _check_overlap(Call *call, object out, Array *a, object array, str name) except -1:
    """Raise an error if the caller's `out` shares memory with an argument."""
    if not call.has_out or not _may_overlap(&call.out, a):
        return 0
    try:
        shared = _np.shares_memory(out, array, max_work=10_000)
    except _np.exceptions.TooHardError:
        shared = True
    if shared:
        raise _error(ValueError, "out", "memory of its own",
                     f"an array that overlaps {name}")
    return 0


# ---- objects ----

# Convert user objects to ndarrays. This file converts NumPy arrays, NumPy scalars, and
# lists and tuples of Python numbers. _convert.py converts all other objects.


cdef object _as_array = _np.asarray


cpdef bint is_untyped(object values):
    """Return True for a Python number, list or tuple, because it has no dtype."""
    if not isinstance(values, (int, float, list, tuple)):
        return False
    return not isinstance(values, _np.generic)


cdef object _converted(object convert, tuple arguments):
    """Call a function of _convert.py with the default floating-point control state."""
    cdef pq_fpenv_all found = pq_fpenv_enter_all()
    try:
        return convert(*arguments)
    finally:
        pq_fpenv_leave_all(found)


cpdef object plain(object values, str name):
    """Convert any object to an ndarray, or to a masked array if the object has a mask."""
    return _converted(_convert.plain, (values, name))


cdef bint _put_reals(tuple values, pq_type type, void *to) except -1:
    """Write Python floats as float32 or float64, and Python integers as float64 only.
    Return False for other objects."""
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
    """Write Python integers as `type`. Return False for other objects or a value out of
    range."""
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
    """Write Python numbers as elements of `type`. Return False if a number does not fit."""
    cdef pq_fpenv found = pq_fpenv_enter()
    try:
        if _is_integer(type):
            return _put_integers(values, type, <char *>to)
        return _put_reals(values, type, to)
    finally:
        pq_fpenv_leave(found)


cdef object _numbers(object values, pq_type type):
    """Return a Python number, or a flat list or tuple of numbers, as an array of `type`.
    Return `None` for other objects or numbers that do not fit. The function supports
    float32, float64 and the integer types except uint64."""
    cdef tuple numbers
    cdef int ndim = 1
    cdef Py_ssize_t count
    if PyFloat_CheckExact(values) or PyLong_CheckExact(values):
        numbers, ndim = (values,), 0
    elif PyList_CheckExact(values) or PyTuple_CheckExact(values):
        numbers = tuple(values)
    else:
        return None
    count = len(numbers)
    if count == 0 or not (
        type == PQ_F32 or type == PQ_F64 or (_is_integer(type) and type != PQ_U64)
    ):
        return None
    array = _new_array(ndim, &count, row_of_type(type).carrier)
    return array if _put(numbers, type, _data(array)) else None


# A call converts all arguments before it reads the memory of arrays, because a conversion
# may run user code that changes another argument.


cdef object _real_array(object x, str name):
    """Return `x` as an ndarray. Objects without a dtype become arrays of real numbers."""
    if type(x) is _ndarray:
        return x
    if PyFloat_CheckExact(x) or _known_type(x) != PQ_NO_TYPE:
        return _as_array(x)
    array = _numbers(x, PQ_F64)
    return _converted(_convert.reals, (x, name)) if array is None else array


cdef int _hold_real(object array, Array *held, str name, str remedy="") except -1:
    """Store the description of an array of real numbers in `held`. The error about an array
    of integers proposes a conversion and ends with `remedy`."""
    if not _hold(array, held) or not _is_real(held.type):
        # For one-byte types, `_describe` adds a hint about codes. The hint would be wrong
        # where real numbers are expected.
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
    if _known_type(q) != PQ_NO_TYPE:
        return _as_array(q)
    array = _numbers(q, PQ_I32)
    return _converted(_convert.integers, (q, name)) if array is None else array


cdef object _hold_code(Call *call, object array, str name, object scale):
    """Store the description of an array from `_code_array` in call.x. Return the object
    that owns the memory."""
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
        return array.astype(dtype_named(name), copy=False)
    found = given if isinstance(q, Packed) else _dtypes.name_of(given)
    if found is None:  # for example a dtype of PyTorch
        q = plain(q, "q")
        given = q.dtype
        found = _dtypes.name_of(given)
    if found != name:
        got = _describe(q) if type(q) is _ndarray else given
        end = "; did you mean quantize?" if found in _REALS else ""
        raise TypeError(f"q: expected {name}, got {got}{end}")
    return q


def cast(array, str dtype not None, /):
    """Convert an array to a dtype with the default floating-point environment and without
    NumPy's warnings."""
    cdef pq_fpenv_all found = pq_fpenv_enter_all()
    try:
        with _np.errstate(all="ignore"):
            return array.astype(dtype_named(dtype))
    finally:
        pq_fpenv_leave_all(found)
