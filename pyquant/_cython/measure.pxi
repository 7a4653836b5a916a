# Measure the error between two arrays.

# struct pq_error.
cdef tuple _ERROR_SUMS = ("xx", "yy", "xy", "e", "ee", "most")
cdef tuple _ERROR_COUNTS = (
    "index", "count", "nan", "inf", "exponent", "low", "high", "bad_scales"
)
cdef object _ERROR = _np.dtype(
    [(name, _np.float64) for name in _ERROR_SUMS]
    + [(name, _np.int64) for name in _ERROR_COUNTS]
)


cdef struct Measuring:
    const unsigned char *kept
    pq_type code  # PQ_NO_TYPE: compare with a given array
    pq_error *errors


cdef int _measure_part(const Job *job, int part) noexcept nogil:
    """Measure a part of the chunks of all groups."""
    cdef const Measuring *by = <const Measuring *>job.more
    if by.code != PQ_NO_TYPE:
        return pq_measure_params(_active, job.args, by.code, by.kept, by.errors, part,
                                 job.parts)
    return pq_measure(_active, job.args, by.kept, by.errors, part, job.parts)


cdef tuple _find_errors(Call *call, object axis, pq_type code, Calls params, int threads):
    """Measure the errors of groups along the axes, of the input quantized with `params`, or
    of a given output."""
    cdef unsigned char kept[PQ_MAX_NDIM]
    cdef ptrdiff_t count = 1, size = 1, chunks, g, c
    cdef int d, status, parts = 1
    cdef pq_error *errors
    cdef pq_error *totals
    cdef Measuring by
    cdef Job job
    call.args.block = NULL
    selecting = _granularity(call, axis, None)
    groups = _parameter_shape(call, selecting)
    for d in range(call.args.ndim):
        kept[d] = d in selecting
        if kept[d]:
            count *= call.args.shape[d]
        else:
            size *= call.args.shape[d]
    if params is not None:
        call.whose = b"x"
        _place_parameters(call, params._axis, params._block_size)
    chunks = pq_measure_chunks(size)
    if threads > 1:
        parts = _parts(_size(&call.x) * 2 * call.x.itemsize, threads)
    result = _np.empty(groups, _ERROR)
    found = result if chunks == 1 else _np.empty((count, chunks), _ERROR)
    errors = <pq_error *>PyArray_DATA(<const PyArrayObject *>found)
    totals = <pq_error *>PyArray_DATA(<const PyArrayObject *>result)
    by = Measuring(&kept[0], code, errors)
    job = Job(&call.args, &by, parts)
    status = _execute(_measure_part, &job, count * size)
    if status != PQ_OK:
        _raise(status, NULL, &call.x, "x")
    for g in range(count if chunks > 1 else 0):
        totals[g] = errors[g * chunks]
        for c in range(1, chunks):
            pq_add_error(&totals[g], &errors[g * chunks + c])
    return result, selecting


def measure(x, y, axis=None, threads=1):
    """Return the errors of `y` for each index of the axes, and the ascending axes."""
    cdef Call call
    _forget(&call)
    array, other = _real_array(x, "x"), _real_array(y, "y")
    axis = _settled(axis, "axis")
    threads = 1 if threads is _ONE else _threads_of(threads)
    _hold_real(array, &call.x, "x")
    _hold_real(other, &call.scale, "y")
    if _shape(&call.scale) != _shape(&call.x):
        raise ValueError(
            f"y: expected shape {_shape(&call.x)}, got {_shape(&call.scale)}"
        )
    _set_input(&call)
    _set_array(&call.args.out, &call.scale)
    return _find_errors(&call, axis, PQ_NO_TYPE, None, threads)


def measure_params(Calls params not None, x, axis=None, threads=1, /):
    """Measure the error of quantizing `x` with given parameters."""
    cdef Call call
    cdef pq_type code
    cdef _Affine affine = params._affine
    _forget(&call)
    array, offset = _real_array(x, "x"), None
    call.args.round = PQ_HALF_EVEN
    scale = _scale_array(&call, params._given_scale)  # else without parameters
    code = <pq_type><int>_CODES[params._name]
    zero_point = _zero_array(&call, params._given_zero)
    axis = _settled(axis, "axis")
    threads = 1 if threads is _ONE else _threads_of(threads)
    if affine is not None:
        if affine.offset is not None:
            scale, offset = _paired(&call, scale, affine, array.shape)
        affine.set(&call, params._name, True, 0)
    _hold_real(array, &call.x, "x")
    _set_input(&call)
    _hold_scale(&call, scale)
    _hold_offset(&call, offset)
    _hold_zero(&call, zero_point, scale)
    return _find_errors(&call, axis, code, params, threads)


def add_errors(first, second, /):
    """Add the errors of both, group by group."""
    cdef ptrdiff_t i
    cdef pq_error *sums
    cdef const pq_error *added
    total = _np.array(first, _ERROR, order="C")
    other = _np.ascontiguousarray(second, _ERROR)
    sums = <pq_error *>PyArray_DATA(<const PyArrayObject *>total)
    added = <const pq_error *>PyArray_DATA(<const PyArrayObject *>other)
    for i in range(<ptrdiff_t>total.size):
        pq_add_error(&sums[i], &added[i])
    return total
