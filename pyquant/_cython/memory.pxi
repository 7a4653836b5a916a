# Memory of the arrays of a call, read through NumPy's C API, and new arrays.


# A copy of the description of an array. The caller keeps the array alive. Without the GIL,
# another thread may change the shape of the array itself.
cdef struct Array:
    char *data
    int ndim
    ptrdiff_t[PQ_MAX_NDIM] shape
    ptrdiff_t[PQ_MAX_NDIM] strides  # in bytes
    ptrdiff_t itemsize
    bint held  # true if the fields are set
    bint readonly
    pq_type type
    bint swapped
    size_t packed  # bytes of a packed array (without strides), else 0


cdef struct Call:
    pq_args args
    Array x, out, scale, zero, offset
    double scale_value, offset_value
    bint has_out    # true if the caller passed out
    bint as_offset  # a single scale, repeated for each offset
    bint as_bias    # true if the offset was passed as bias
    const char *whose  # the argument to blame if parameters of QParams do not fit, or NULL
    const pq_codebook *book
    int64_t zero_value
    ptrdiff_t block[PQ_MAX_NDIM]
    ptrdiff_t scale_strides[PQ_MAX_NDIM]
    ptrdiff_t zero_strides[PQ_MAX_NDIM]
    ptrdiff_t x_bits[PQ_MAX_NDIM]
    ptrdiff_t out_bits[PQ_MAX_NDIM]
    pq_layout x_layout, out_layout  # storage for the pointers in the arguments
    Py_ssize_t x_words, out_words   # words along the packed axes


cdef inline void _forget_options(pq_args *args) noexcept:
    args.size = sizeof(pq_args)
    args.scale.bit_strides = args.zero.bit_strides = NULL
    args.in_layout = args.out_layout = NULL
    args.round = PQ_HALF_EVEN
    args.precision = PQ_NO_TYPE
    args.overflow = False
    args.zero_first = False
    args.narrow_first = False
    args.any_zeros = False
    args.offset = NULL
    args.inverse = False
    args.fill = NULL
    args.fills = 0
    args.lowest_code = args.highest_code = 0
    args.beyond = PQ_SATURATE
    args.refuse_nan = False
    args.seed = args.start = 0


cdef inline void _forget(Call *call) noexcept:
    call.x.held = call.out.held = call.scale.held = call.zero.held = False
    call.offset.held = call.has_out = call.as_offset = call.as_bias = False
    call.book = NULL
    call.whose = NULL
    call.x.packed = call.out.packed = call.scale.packed = call.zero.packed = 0
    _forget_options(&call.args)


cdef inline int64_t _bits_of(object value) except? -1:
    """Return the 64 bits of an integer within int64 or uint64."""
    return value if value < 2**63 else <int64_t><uint64_t>value


cdef bint _BIG_ENDIAN = _np.dtype(">u2").isnative


cdef inline void _put_integer(int64_t value, size_t size, char *to) noexcept:
    """Write the low bytes of an integer."""
    cdef const char *low = <const char *>&value
    memcpy(to, low + sizeof(value) - size if _BIG_ENDIAN else low, size)


# NumPy's type numbers -> pq_type. NumPy assigns numbers to the types of ml_dtypes when they
# are registered; they are added on first use.
cdef enum:
    _OWN_TYPES = 32
    _USER_TYPES = 64


cdef pq_type[_OWN_TYPES] _own_types
cdef pq_type[_USER_TYPES] _user_types


cdef pq_type _integer_of(bint is_signed, size_t size) noexcept:
    if size == 4:
        return PQ_I32 if is_signed else PQ_U32
    return PQ_I64 if is_signed else PQ_U64


cdef void _read_numpy_types() noexcept:
    _own_types[<int>NPY_BYTE] = PQ_I8
    _own_types[<int>NPY_UBYTE] = PQ_U8
    _own_types[<int>NPY_SHORT] = PQ_I16
    _own_types[<int>NPY_USHORT] = PQ_U16
    _own_types[<int>NPY_INT] = _integer_of(True, sizeof(int))
    _own_types[<int>NPY_UINT] = _integer_of(False, sizeof(int))
    _own_types[<int>NPY_LONG] = _integer_of(True, sizeof(long))
    _own_types[<int>NPY_ULONG] = _integer_of(False, sizeof(long))
    _own_types[<int>NPY_LONGLONG] = PQ_I64
    _own_types[<int>NPY_ULONGLONG] = PQ_U64
    _own_types[<int>NPY_HALF] = PQ_F16
    _own_types[<int>NPY_FLOAT] = PQ_F32
    _own_types[<int>NPY_DOUBLE] = PQ_F64


_read_numpy_types()


cdef pq_type _user_type(object array, int number) except *:
    """Return the pq_type of an array with a registered type, or PQ_NO_TYPE. The function
    calls no Python code, because that could change the array."""
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


cdef inline void _hold_as(object array, pq_type type, bint swapped, Array *held) noexcept:
    """Read an array with a known element type."""
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


cdef bint _hold_scalar(object scalar, Array *held) except -1:
    """Read a NumPy scalar through its buffer."""
    cdef Py_buffer buffer
    kind = type(scalar)
    # The slow path hashes types with a user-defined metaclass.
    found = _SPELLED_TYPES.get(kind) if type(kind) is type else None
    if found is None:
        return False
    PyObject_GetBuffer(scalar, &buffer, PyBUF_SIMPLE)
    held.data = <char *>buffer.buf
    held.ndim = 0
    held.itemsize = buffer.itemsize
    held.held = held.readonly = True
    held.type = <pq_type><int>found
    held.swapped = False
    PyBuffer_Release(&buffer)
    return True


cdef bint _hold(object array, Array *held) except -1:
    """Read an exact ndarray or a NumPy scalar of a known element type, else return False.
    """
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


cdef inline void _set_array(pq_array *to, Array *a) noexcept:
    to.data = a.data
    to.strides = a.strides
    to.type = a.type
    to.swapped = a.swapped
    to.bit_strides = NULL


cdef void _lay_words(Call *call, pq_array *to, ptrdiff_t *strides, pq_layout *layout,
                     Py_ssize_t words) noexcept:
    """Describe words in place of the elements along an axis, in C order."""
    cdef ptrdiff_t stride = layout.word_bits
    cdef int d
    for d in range(call.args.ndim - 1, -1, -1):
        strides[d] = stride
        if d == layout.axis:
            layout.word_stride = stride
        stride *= words if d == layout.axis else call.args.shape[d]
    to.bit_strides = strides


cdef inline void _set_input(Call *call) noexcept:
    call.args.ndim = call.x.ndim
    call.args.shape = call.x.shape
    _set_array(&call.args.inp, &call.x)
    if call.args.in_layout != NULL:
        _lay_words(call, &call.args.inp, call.x_bits, &call.x_layout, call.x_words)
    elif call.x.packed:
        _lay_bits(call, &call.args.inp, call.x_bits)


cdef inline void _set_output(Call *call) noexcept:
    _set_array(&call.args.out, &call.out)
    if call.args.out_layout != NULL:
        _lay_words(call, &call.args.out, call.out_bits, &call.out_layout, call.out_words)
    elif call.out.packed:
        _lay_bits(call, &call.args.out, call.out_bits)


cdef bint _same_shape(Array *a, Array *b) noexcept:
    cdef int d
    if a.ndim != b.ndim:
        return False
    for d in range(a.ndim):
        if a.shape[d] != b.shape[d]:
            return False
    return True


cdef object _new_array(int ndim, const Py_ssize_t *shape, pq_type type):
    """Return a new array in C order."""
    cdef object dtype
    if _dtypes_held[<int>type] != NULL:
        dtype = <object>_dtypes_held[<int>type]
    else:
        dtype = _dtype_of(<str>_NAMES[<int>type])
    Py_INCREF(dtype)  # the array steals this reference
    try:
        return PyArray_NewFromDescr(
            &PyArray_Type, <PyArray_Descr *>dtype, ndim, shape, NULL, NULL, 0, NULL
        )
    except ValueError:  # NumPy's error names no argument
        raise ValueError(
            f"out: expected a shape that NumPy can make of {dtype}, "
            f"got {_extents(ndim, shape)}"
        ) from None


cdef inline object _new_like(Array *a, pq_type type):
    return _new_array(a.ndim, <const Py_ssize_t *>a.shape, type)


cdef object _exact_out(object out):
    """Return `out` as a plain ndarray, without calling methods of a subclass."""
    if out is None or type(out) is _ndarray:
        return out
    if not issubclass(type(out), _ndarray):
        raise TypeError(f"out: expected a NumPy array, got {type(out).__name__}")
    ma = _modules.get("numpy.ma")
    if ma is not None and issubclass(type(out), ma.MaskedArray):
        raise TypeError("out: expected an array without a mask, got a masked array")
    return _ndarray.view(out, _ndarray)


cdef object _hold_out(Call *call, object exact, str dtype, pq_type code):
    """Hold the result: `out` after all checks, or a new array."""
    if exact is None:
        exact = _new_like(&call.x, code)
        _hold_as(exact, code, False, &call.out)
        return exact
    # PQ_NO_TYPE allows any real type.
    if not _hold(exact, &call.out) or (
        call.out.type != code
        and not (code == PQ_NO_TYPE and _is_real(call.out.type))
    ):
        expected = _REAL_LIST if code == PQ_NO_TYPE else dtype
        raise TypeError(f"out: expected {expected}, got {_describe(exact)}")
    if not _same_shape(&call.x, &call.out):
        raise ValueError(f"out: expected shape {_shape(&call.x)}, got {exact.shape}")
    if call.out.readonly:
        raise ValueError("out: expected a writeable array, got a read-only one")
    return exact


cdef void _bounds(Array *a, uintptr_t *lo, uintptr_t *hi) noexcept:
    """Return the range of bytes that an array may touch."""
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
