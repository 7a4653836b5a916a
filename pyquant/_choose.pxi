# Choosing parameters: the extrema of an array, and scales and zero points of them.


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
