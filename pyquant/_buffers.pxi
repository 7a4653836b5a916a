# Buffers: the memory of a call, taken through the buffer protocol, and new arrays.


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
    pq_layout x_layout, out_layout  # where the arguments point to them
    Py_ssize_t x_words, out_words   # along their axes


cdef inline void _forget(Call *call) noexcept:
    call.x.held = call.out.held = call.scale.held = call.zero.held = False
    call.x.packed = call.out.packed = call.scale.packed = call.zero.packed = 0
    call.args.size = sizeof(pq_args)
    call.args.scale.bit_strides = call.args.zero.bit_strides = NULL
    call.args.in_layout = call.args.out_layout = NULL
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


cdef inline void _put_integer(int64_t value, size_t size, char *to) noexcept:
    """Write its low bytes."""
    cdef const char *low = <const char *>&value
    memcpy(to, low + sizeof(value) - size if _BIG_ENDIAN else low, size)


cdef bint _hold_as(object array, pq_type type, bint swapped, Array *held) except False:
    """Take the buffer of an array whose element type is known."""
    PyObject_GetBuffer(array, &held.buffer, PyBUF_STRIDED_RO)
    held.held = True
    held.type = type
    held.swapped = swapped
    return True


cdef bint _hold(object array, Array *held):
    """Take the buffer of an ndarray whose element type has a pq_type; else return False."""
    cdef int type
    cdef tuple found
    # To ask for a buffer of these in vain would cost as much as all the rest of a call.
    if _ML_DTYPES:
        found = _ML_DTYPES.get(array.dtype)
        if found is not None:
            return _hold_as(array, <pq_type><int>found[0], found[1], held)
    try:
        PyObject_GetBuffer(array, &held.buffer, PyBUF_RECORDS_RO)
    except (ValueError, BufferError):  # no format for its dtype: datetime64, bfloat16
        name = _dtypes.ml_name(array.dtype.type)
        if name is None:
            return False
        _ML_DTYPES[array.dtype] = _TYPES[name], not array.dtype.isnative
        return _hold(array, held)
    held.held = True
    type = _type_of_format(held.buffer.format, held.buffer.itemsize, &held.swapped)
    held.type = <pq_type>type
    return type != PQ_NO_TYPE


cdef object _describe(object array):
    return _dtypes.described(array) if isinstance(array, _ndarray) else type(array).__name__


cdef inline Py_ssize_t _size(Array *a) noexcept:
    cdef Py_ssize_t size = 1
    cdef int d
    for d in range(a.buffer.ndim):
        size *= a.buffer.shape[d]
    return size


cdef tuple _shape(Array *a):
    cdef tuple shape = PyTuple_New(a.buffer.ndim)
    cdef object extent
    cdef int d
    for d in range(a.buffer.ndim):
        extent = a.buffer.shape[d]
        Py_INCREF(extent)  # which the tuple takes over
        PyTuple_SET_ITEM(shape, d, extent)
    return shape


cdef inline void _set_array(pq_array *to, Array *a) noexcept:
    to.data = a.buffer.buf
    to.strides = <const ptrdiff_t *>a.buffer.strides
    to.type = a.type
    to.swapped = a.swapped
    to.bit_strides = NULL


cdef void _lay_words(Call *call, pq_array *to, ptrdiff_t *strides, pq_layout *layout,
                     Py_ssize_t words) noexcept:
    """Words that have the place of the elements along an axis, in C order."""
    cdef ptrdiff_t stride = layout.word_bits
    cdef int d
    for d in range(call.args.ndim - 1, -1, -1):
        strides[d] = stride
        if d == layout.axis:
            layout.word_stride = stride
        stride *= words if d == layout.axis else call.args.shape[d]
    to.bit_strides = strides


cdef inline void _set_input(Call *call) noexcept:
    call.args.ndim = call.x.buffer.ndim
    call.args.shape = <const ptrdiff_t *>call.x.buffer.shape
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
    if a.buffer.ndim != b.buffer.ndim:
        return False
    for d in range(a.buffer.ndim):
        if a.buffer.shape[d] != b.buffer.shape[d]:
            return False
    return True


cdef object _new(tuple shape, object dtype, str name="out"):
    try:
        return _empty(shape, dtype)
    except ValueError:  # of NumPy, which names no argument
        raise ValueError(
            f"{name}: expected a shape that NumPy can make of {dtype}, got {shape}"
        ) from None


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
        _hold_as(exact, code, False, &call.out)
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
