# Convert GGUF blocks to numbers and back.


cdef int _decode_part(const Job *job, int part) noexcept nogil:
    return pq_block_decode(_active, job.more, part, job.parts)


cdef int _finite_part(const Job *job, int part) noexcept nogil:
    return pq_block_finite(_active, job.more, part, job.parts)


cdef int _encode_part(const Job *job, int part) noexcept nogil:
    return pq_block_encode(_active, job.more, part, job.parts)


def block_rows():
    """Return a tuple for each block format: name, id in the core, number of elements and
    number of bytes of a block, kind of encoder, and True if the encoder uses weights."""
    cdef int i = 0
    cdef const pq_block_row *row = row_of_blocks(0)
    rows = []
    while row != NULL:
        rows.append((
            row.name.decode(), row.id, row.elements, row.bytes, row.encodes,
            row.weighted != 0
        ))
        i += 1
        row = row_of_blocks(i)
    return rows


cdef int _set_rows(Call *call, str name, str kind, Py_ssize_t unit, str expected,
                   Py_ssize_t made) except -1:
    """Store the shape of the result in call.x. The shape is the shape of call.scale, but
    the last axis has `made` elements for each `unit` elements of call.scale."""
    cdef int d, last = call.scale.ndim - 1
    if last < 0:
        raise ValueError(
            f"{name}: expected rows of {kind}, got an array without dimensions"
        )
    if call.scale.shape[last] % unit:
        raise _error(ValueError, name, expected, call.scale.shape[last])
    call.x.ndim = call.scale.ndim
    for d in range(last):
        call.x.shape[d] = call.scale.shape[d]
    call.x.shape[last] = call.scale.shape[last] // unit
    if call.x.shape[last] > <Py_ssize_t>_maxsize // made:  # for a broadcast array
        _raise(PQ_ERR_SHAPE, NULL, &call.scale, name)
    call.x.shape[last] *= made
    return 0


cdef int _hold_input(Call *call, object array, str name) except -1:
    """Store the description of an array of real numbers in call.scale, and use the array as
    the input of the core."""
    _hold_real(array, &call.scale, name)
    call.args.ndim = call.scale.ndim
    call.args.shape = call.scale.shape
    _set_array(&call.args.inp, &call.scale)
    return 0


cdef void _set_blocks(pq_blocks *args, Call *call, Array *numbers, int format) noexcept:
    """Set the arguments of the core. `numbers` is call.scale to encode, or call.out to
    decode."""
    memset(args, 0, sizeof(pq_blocks))
    args.size = sizeof(pq_blocks)
    args.format = format
    args.ndim = numbers.ndim
    args.shape = numbers.shape
    _set_array(&args.inp, &call.scale)
    args.out = call.args.out


def decode_blocks(tuple row not None, b, dtype=None, out=None, threads=1):
    """Decode blocks to numbers. `row` is the tuple that block_rows() returns for the
    format."""
    cdef Call call
    cdef pq_blocks args
    cdef pq_type type = PQ_F32
    cdef int max_threads, status
    _forget(&call)
    array = b if Py_TYPE(b) is &PyArray_Type else plain(b, "b")
    if dtype is not None:
        type = _type_in(_REALS, dtype, "dtype", _REAL_LIST)
    elif out is not None:
        type = PQ_NO_TYPE  # the type of `out`
    max_threads = _threads_of(threads)
    if not _hold(array, &call.scale) or call.scale.type != PQ_U8:
        raise TypeError(f"b: expected uint8, got {_describe(array)}")
    _set_rows(&call, "b", "bytes", row[3],
              f"rows of a multiple of {row[3]} bytes for {row[0]}", row[2])
    exact = _hold_out(&call, out, type)
    _check_overlap(&call, exact, &call.scale, array, "b")
    _set_blocks(&args, &call, &call.out, row[1])
    status = _run_threads(_decode_part, NULL, &args, _size(&call.out), call.out.itemsize,
                          max_threads)
    if status != PQ_OK:
        _raise(status, &call.out, &call.scale, "b")
    return exact if out is None else out


# ---- encode ----

cdef object _not_encoded(Call *call, object array, int finite, const double *ends,
                         str name):
    """Return the error for a value that is not finite as float32."""
    cdef size_t count = 0, first = 0
    if finite:
        end = ends[0] if -ends[0] > ends[1] else ends[1]
        return ValueError(f"{name}: expected numbers that float32 holds, got {end}")
    with nogil:
        pq_count_nonfinite(&call.args, &count, &first)
    place = tuple([int(one) for one in _np.unravel_index(first, _shape(&call.scale))])
    one = _np.float64(array[place])
    return ValueError(f"{name}: expected finite numbers, got {one} at {place}")


# ---- weights of errors ----

cdef int _hold_block_weights(Call *call, Array *x, object array) except -1:
    """Store the description of the weights, which have the shape of `x`, or one number for
    each column of `x`."""
    cdef int last = x.ndim - 1
    _hold_input(call, array, "weights")
    if not (
        call.scale.ndim == 1 and call.scale.shape[0] == x.shape[last]
        or _same_shape(&call.scale, x)
    ):
        columns = f"({x.shape[last]},)"
        other = "" if last == 0 else f" or {_shape(x)}"
        raise ValueError(f"weights: expected shape {columns}{other}, got {array.shape}")
    return 0


cdef int _check_block_weights(Call *call, object array) except -1:
    """Raise an error unless all weights are finite as float32 and at least 0."""
    cdef double ends[2]
    cdef int finite = _find_ends(call, ends)
    if not finite or ends[1] >= _BEYOND_F32:
        raise _not_encoded(call, array, finite, ends, "weights")
    if ends[0] < 0:
        raise ValueError(f"weights: expected numbers of at least 0, got {ends[0]}")
    return 0


# The smallest float64 that rounds to an infinite float32.
cdef double _BEYOND_F32 = float.fromhex("0x1.ffffffp127")


def encode_blocks(tuple row not None, x, weights=None, search=False, out=None, threads=1):
    """Encode numbers to blocks. `row` is the tuple that block_rows() returns for the
    format."""
    cdef Call call, other
    cdef pq_blocks args
    cdef ptrdiff_t steps[PQ_MAX_NDIM]
    cdef double ends[2]
    cdef Py_ssize_t size, itemsize
    cdef int max_threads, status
    _forget(&call)
    _forget(&other)
    array = _real_array(x, "x")
    if weights is not None:
        weights = _real_array(weights, "weights")
    max_threads = _threads_of(threads)
    _hold_input(&call, array, "x")
    _set_rows(&call, "x", "numbers", row[2],
              f"a last extent that is a multiple of {row[2]} for {row[0]}", row[3])
    if weights is not None:
        _hold_block_weights(&other, &call.scale, weights)
    exact = _hold_out(&call, out, PQ_U8)
    _check_overlap(&call, exact, &call.scale, array, "x")
    _check_overlap(&call, exact, &other.scale, weights, "weights")
    _set_blocks(&args, &call, &call.scale, row[1])
    size, itemsize = _size(&call.scale), call.scale.itemsize
    status = _run_threads(_finite_part, NULL, &args, size, itemsize, max_threads)
    if status == PQ_OK and weights is not None:
        _check_block_weights(&other, weights)
        memset(steps, 0, sizeof(steps))
        _set_array(&args.weights, &other.scale)
        if other.scale.ndim < call.scale.ndim:  # all rows of x share one row of weights
            steps[call.scale.ndim - 1] = other.scale.strides[0]
            args.weights.strides = steps
    args.search = search
    if status == PQ_OK:
        status = _run_threads(_encode_part, NULL, &args, size, itemsize, max_threads)
    elif status == PQ_ERR_NONFINITE:
        finite = _find_ends(&call, ends)
        raise _not_encoded(&call, array, finite, ends, "x")
    if status != PQ_OK:
        _raise(status, &call.out, &call.scale, "x")
    return exact if out is None else out
