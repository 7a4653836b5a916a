# dequantize with scales that are products of two arrays.


# Products at a time. They fit the nearest cache, and the stack of a thread.
cdef enum:
    _PRODUCTS = 4096


cdef struct Pair:
    int[2] axes
    const float *first   # scales of each index of the first axis
    const float *second  # scales of each index of the second axis
    const float *offset  # offsets of each index of the second axis, or NULL


cdef int _pair_part(const Job *job, int part) noexcept nogil:
    """Dequantize a share of the first axis, in rectangles of at most _PRODUCTS scales."""
    cdef const Pair *by = <const Pair *>job.more
    cdef pq_args args = job.args[0]
    cdef float[_PRODUCTS] scales
    cdef float[_PRODUCTS] offsets
    cdef ptrdiff_t[PQ_MAX_NDIM] shape
    cdef ptrdiff_t[PQ_MAX_NDIM] strides
    cdef int a = by.axes[0], b = by.axes[1], status = PQ_OK
    cdef ptrdiff_t last = args.shape[a] * (part + 1) // job.parts
    cdef ptrdiff_t columns = args.shape[b], c = 0, width, height, r, i, k
    cdef pq_fpenv found = pq_fpenv_enter()
    memcpy(shape, args.shape, args.ndim * sizeof(shape[0]))
    memset(strides, 0, sizeof(strides))
    args.shape = shape
    args.scale.strides = strides
    args.scale.data = scales
    args.offset = offsets if by.offset != NULL else NULL
    strides[b] = sizeof(float)
    while c < columns and status == PQ_OK:
        width = shape[b] = min(columns - c, <ptrdiff_t>_PRODUCTS)
        height = _PRODUCTS // width
        strides[a] = width * <ptrdiff_t>sizeof(float)
        for i in range(height * width if by.offset != NULL else 0):
            offsets[i] = by.offset[c + i % width]
        r = job.args.shape[a] * part // job.parts
        while r < last and status == PQ_OK:
            shape[a] = min(height, last - r)
            for i in range(shape[a]):
                for k in range(width):
                    scales[i * width + k] = by.first[r + i] * by.second[c + k]
            args.inp.data = (
                <char *>job.args.inp.data
                + r * args.inp.strides[a] + c * args.inp.strides[b]
            )
            args.out.data = (
                <char *>job.args.out.data
                + r * args.out.strides[a] + c * args.out.strides[b]
            )
            status = pq_dequantize(_active, &args, 0, 1)
            r += shape[a]
        c += width
    pq_fpenv_leave(found)
    return status


cdef inline bint _is_pair(object scale):
    """Return True for a tuple of two arrays with one dimension."""
    if not PyTuple_CheckExact(scale) or len(<tuple>scale) != 2:
        return False
    return all([type(one) is _ndarray and one.ndim == 1 for one in <tuple>scale])


cdef object _singles(Call *call, object exact, object given, str name, Py_ssize_t n):
    """Return `n` contiguous float32 numbers; `out` shares no memory with them."""
    array = _real_array(given, name)
    _checked_numbers(array, &call.scale, name)
    if array.shape != (n,):
        raise _error(ValueError, name, f"shape {(n,)}", array.shape)
    _check_overlap(call, exact, &call.scale, array, name)
    if call.scale.type == PQ_F32 and not call.scale.swapped and (
        PyArray_IS_C_CONTIGUOUS(<const PyArrayObject *>array)
    ):
        return array
    return _np.ascontiguousarray(cast(array, "float32"))


cdef object _dequantize_by_pair(object q, tuple scale, object zero_point, object dtype,
                                object axis, object out, object offset, object threads):
    """Dequantize with products of two scales; `offset` belongs to the second axis."""
    cdef Call call
    cdef Pair pair
    cdef pq_prepared plan
    cdef pq_type type = PQ_F32 if out is None else PQ_NO_TYPE
    _forget(&call)
    array = _code_array(q, "q")
    if isinstance(array, Packed):
        raise TypeError("q: expected an array beside two scales, got a PackedArray")
    if dtype is not None:
        type = _type_in(_REALS, dtype, "dtype", _REAL_LIST)
    zero_point = _zero_array(&call, zero_point)
    axis = integers((-2, -1) if axis is None else axis, "axis")
    threads = _threads_of(threads)
    _hold_code(&call, array, "q", scale)
    _set_input(&call)
    if call.x.ndim < 2:
        got = f"shape {_shape(&call.x)}"
        raise _error(ValueError, "q", "two or more dimensions beside two scales", got)
    axes = _axes(axis, call.x.ndim)
    if len(axes) != 2:
        raise _error(ValueError, "axis", "two integers beside two scales", axis)
    _hold_zero(&call, zero_point, None)
    if call.zero.held and _size(&call.zero) != 1:
        got = f"shape {_shape(&call.zero)}"
        raise _error(ValueError, "zero_point", "one element beside two scales", got)
    _check_zero(&call, call.x.type)
    exact = _hold_out(&call, _exact_out(out), <str>_NAMES[<int>type], type)
    if out is not None:
        _check_apart(&call, exact, array, None, zero_point, None)
    _set_output(&call)
    pair.axes = axes
    first, second = [
        _singles(&call, exact, one, "scale", call.x.shape[<int>d])
        for one, d in zip(scale, axes)
    ]
    pair.first = <const float *>PyArray_DATA(<const PyArrayObject *>first)
    pair.second = <const float *>PyArray_DATA(<const PyArrayObject *>second)
    pair.offset = NULL
    if offset is not None:
        offset = _singles(&call, exact, offset, "offset", second.size)
        pair.offset = <const float *>PyArray_DATA(<const PyArrayObject *>offset)
    if _size(&call.x) != 0:
        memset(call.scale_strides, 0, sizeof(call.scale_strides))
        memset(call.zero_strides, 0, sizeof(call.zero_strides))
        call.args.block = NULL
        call.args.scale.data = <void *>pair.first
        call.args.scale.type, call.args.scale.swapped = PQ_F32, False
        call.args.scale.strides = call.scale_strides
        plan.size = sizeof(plan)  # only the checks of the complete call
        status = pq_prepare_dequantize(&plan, _active, &call.args)
        if status != PQ_OK:
            _raise(status, &call.out, &call.x, "q")
        _run_all(_pair_part, &call, &pair, threads, "q")
    return exact if out is None else out
