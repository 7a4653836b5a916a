# Choose parameters: the extrema of an array, and scales and zero points from them.

# Formulas of `like=`, by number.
cdef dict _LIKE = {
    pq_preset_of(<pq_like>like).name.decode(): like
    for like in range(<int>PQ_LIKE_PYQUANT + 1, <int>PQ_LIKE_COUNT)
}
# Types of chosen scales.
cdef dict _SCALES = {
    name: _TYPES[name] for name in (
        "float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e8m0fnu"
    )
}
cdef str _SCALE_NAMES = "None, " + " or ".join(", ".join(_SCALES).rsplit(", ", 1))


cdef int _check_like(const pq_choice *choice, str name, str like) except -1:
    """Return True if the formula supports the type of codes and symmetry."""
    cdef const pq_preset *preset = pq_preset_of(choice.like)
    codes = [
        one for one, code in _CHOSEN.items()
        if pq_preset_has_code(preset, <pq_type><int>code)
    ]
    if name not in codes:
        raise ValueError(
            f"dtype: expected {' or '.join(', '.join(codes).rsplit(', ', 1))} for "
            f"like={like!r}, got {name}"
        )
    if not pq_preset_has_rule(preset, choice.rule):
        given = choice.rule == PQ_RULE_SYMMETRIC
        raise ValueError(
            f"symmetric: expected None or {not given} for like={like!r}, got {given}"
        )
    if (
        (choice.lowest_code != 0 or choice.highest_code != 0)
        and not choice.lowest_code < 0 < choice.highest_code and like == "torchao_no_clip"
    ):
        raise ValueError(
            f"quant_range: expected codes of both signs for like={like!r}, "
            f"got {(choice.lowest_code, choice.highest_code)}"
        )
    return 0


cdef str _set_choice(pq_choice *choice, object dtype, object symmetric,
                     object scale_dtype, object like, _Affine affine):
    """Read the options of the choice, with the range of codes in `affine`, and return the
    name of the quantized type."""
    cdef bint flag
    name = _name_in(_CHOSEN, dtype, "dtype", _CHOSEN_NAMES)
    memset(choice, 0, sizeof(pq_choice))
    choice.size = sizeof(pq_choice)
    choice.code = <pq_type><int>_CHOSEN[name]
    if like is not None:
        choice.like = <pq_like>_choice_of(_LIKE, like, "like")
    if symmetric is None:
        choice.rule = pq_usual_rule(choice.like, choice.code)
    else:
        flag = _flag(symmetric, "symmetric", "None, True or False")
        choice.rule = PQ_RULE_SYMMETRIC if flag else PQ_RULE_ASYMMETRIC
    if choice.rule == PQ_RULE_ASYMMETRIC and _is_narrow_float(choice.code):
        raise ValueError(f"symmetric: expected True for {name}, got False")
    if affine is not None:
        affine.check(name, True)
        choice.lowest_code, choice.highest_code = affine.quant_range
    if scale_dtype is not None:
        choice.scale = _type_in(_SCALES, scale_dtype, "scale_dtype", _SCALE_NAMES)
    if like is not None:
        _check_like(choice, name, str(like))
    return name


cdef void _set_data(pq_choice *choice, pq_type real) noexcept:
    """Set the type of the data, and the default type of scales."""
    choice.real = real
    if choice.scale == PQ_NO_TYPE:
        choice.scale = PQ_F64 if real == PQ_F64 else PQ_F32


cdef bint _has_no_zero(const pq_choice *choice) noexcept:
    """Return True if every zero point is 0 by the formula."""
    cdef bint signed = (
        _is_narrow_float(choice.code) or row_of_type(choice.code).lowest < 0
    )
    return (
        choice.rule == PQ_RULE_SYMMETRIC and choice.like == PQ_LIKE_PYQUANT and signed
        and choice.lowest_code == 0 and choice.highest_code == 0
    )


cdef tuple _without_repeats(Array *x, tuple selecting, ptrdiff_t *shape,
                            ptrdiff_t *block):
    """Reduce repeated elements of a broadcast array to one element each, because it may
    have too many elements to visit. Return the numbers of elements before and after."""
    cdef int d
    cdef bint empty = _size(x) == 0
    before, after = 1, 1
    for d in range(x.ndim):
        shape[d] = x.shape[d]
        if shape[d] > 1 and (empty or x.strides[d] == 0):
            if d in selecting:
                shape[d] = (shape[d] + block[d] - 1) // block[d]
                block[d] = 1
            else:
                shape[d] = 1
            before, after = before * x.shape[d], after * shape[d]
    return before, after


cdef object _nonfinite_error(Call *call, tuple repeats):
    cdef size_t count = 0, first = 0
    with nogil:
        pq_count_nonfinite(&call.args, &count, &first)
    walked = tuple([call.args.shape[d] for d in range(call.args.ndim)])
    return _error_at(
        f"x: expected finite values, got {count * repeats[0] // repeats[1]} not finite",
        first, walked
    )


# With fewer parameters for each thread, threads share the elements instead.
cdef enum:
    _FEW_PARAMETERS = 64


cdef struct Choosing:
    const pq_choice *choice
    ptrdiff_t count
    ptrdiff_t strides[PQ_MAX_NDIM]  # strides of extrema
    double *cells                   # for each part: `count` lowest, then highest numbers


cdef int _choose_part(const Job *job, int part) noexcept nogil:
    """Compute a share of the parameters."""
    cdef const Choosing *by = <const Choosing *>job.more
    return pq_choose_params(_active, job.args, by.choice, part, job.parts)


cdef int _extrema_part(const Job *job, int part) noexcept nogil:
    """Find the extrema of a share of the longest dimension, in complete blocks."""
    cdef const Choosing *by = <const Choosing *>job.more
    cdef pq_args args = job.args[0]
    cdef ptrdiff_t shape[PQ_MAX_NDIM]
    cdef ptrdiff_t block = 1, share, first
    cdef int d, longest = 0, finite = 1, status
    for d in range(args.ndim):
        shape[d] = args.shape[d]
        if shape[d] > shape[longest]:
            longest = d
    if by.strides[longest] != 0:
        block = args.block[longest]
    share = ((shape[longest] - 1) // block // job.parts + 1) * block
    first = share * part
    if first >= shape[longest]:
        return PQ_OK
    shape[longest] = min(share, shape[longest] - first)
    args.shape = shape
    args.inp.data = <char *>args.inp.data + first * args.inp.strides[longest]
    args.lowest.data = (
        <char *>(by.cells + 2 * by.count * part) + first // block * by.strides[longest]
    )
    args.lowest.strides = by.strides
    args.lowest.type = PQ_F64
    args.lowest.swapped = False
    args.lowest.bit_strides = NULL
    args.highest = args.lowest
    args.highest.data = <double *>args.lowest.data + by.count
    status = pq_minmax(_active, &args, &finite)
    return status if status != PQ_OK or finite else PQ_ERR_NONFINITE


cdef int _choose_by_extrema(Job *job, Choosing *by, Py_ssize_t size) except -1:
    """Find the extrema of parts, combine them, and compute the parameters."""
    cdef const pq_array *scale = &job.args.scale
    cdef ptrdiff_t width = pq_type_size(scale.type), i
    cdef pq_fpenv found
    cdef double *cells
    cdef int d, part, status
    for d in range(job.args.ndim):
        by.strides[d] = scale.strides[d] // width * <ptrdiff_t>sizeof(double)
    memory = PyBytes_FromStringAndSize(
        NULL, 2 * by.count * job.parts * <ptrdiff_t>sizeof(double)
    )
    by.cells = <double *>PyBytes_AS_STRING(memory)
    for i in range(2 * by.count * job.parts):
        by.cells[i] = INFINITY if i // by.count % 2 == 0 else -INFINITY
    status = _execute(_extrema_part, job, size)
    if status != PQ_OK:
        return status
    found = pq_fpenv_enter()
    for part in range(1, job.parts):
        cells = by.cells + 2 * by.count * part
        for i in range(by.count):
            by.cells[i] = min(by.cells[i], cells[i])
            by.cells[by.count + i] = max(by.cells[by.count + i], cells[by.count + i])
    pq_fpenv_leave(found)
    return pq_choose(by.choice, by.count, by.cells, by.cells + by.count, scale.data,
                     job.args.zero.data)


cdef int _run_choice(Call *call, const pq_choice *choice, ptrdiff_t count,
                     int threads) except -1:
    """Compute scales and zero points of `count` groups, and return a pq_status. Each thread
    has a share of the parameters; if these are few, a share of the elements."""
    cdef Choosing by
    cdef Job job = Job(&call.args, &by, 1)
    cdef ptrdiff_t size = 1
    cdef int d
    by.choice, by.count = choice, count
    for d in range(call.args.ndim):
        size *= call.args.shape[d]
    if threads != 1 and call.args.ndim > 0:
        job.parts = _parts(size * call.x.itemsize, threads)
    if job.parts > 1 and count <= _FEW_PARAMETERS * job.parts:
        return _choose_by_extrema(&job, &by, size)
    return _execute(_choose_part, &job, size)


cdef ptrdiff_t _place_results(Call *call, tuple selecting, tuple groups, bytes scales,
                              bytes zeros) except -1:
    """Set C-contiguous strides, and return the number of elements."""
    cdef ptrdiff_t count = 1
    cdef int d, i
    for d in range(call.args.ndim):
        call.scale_strides[d] = call.zero_strides[d] = 0
    for i in range(len(selecting) - 1, -1, -1):
        d = <int>selecting[i]
        call.scale_strides[d] = count * <ptrdiff_t>pq_type_size(call.args.scale.type)
        call.zero_strides[d] = count * <ptrdiff_t>pq_type_size(call.args.zero.type)
        count *= <ptrdiff_t>groups[i]
    call.args.scale.data = PyBytes_AS_STRING(scales)
    call.args.zero.data = PyBytes_AS_STRING(zeros)
    call.args.scale.strides = call.scale_strides
    call.args.zero.strides = call.zero_strides
    call.args.scale.swapped = call.args.zero.swapped = False
    return count


cdef int _check_shape(tuple shape, object dtype) except -1:
    """Raise an error if NumPy does not support the array, even if it is empty."""
    try:
        _np.empty(shape, dtype)
    except ValueError:  # this error names no argument
        raise ValueError(
            f"x: expected a shape that NumPy can make of {dtype}, got {shape}"
        ) from None
    return 0


cdef bytes _new_memory(tuple shape, object dtype, Py_ssize_t size):
    """Return immutable memory for an array, to be filled immediately."""
    try:
        count = _prod(shape)
        if count == 0:  # NumPy may reject the shape
            _check_shape(shape, dtype)
        return PyBytes_FromStringAndSize(NULL, count * size)
    except (MemoryError, OverflowError):
        _check_shape(shape, dtype)  # raises the message
        raise MemoryError from None


cdef tuple _choose(object x, object dtype, object axis, object block_size, object symmetric,
                   object scale_dtype, object like, _Search search, _Affine affine,
                   object threads):
    """Return immutable scales and zero points, in a tuple like `_frozen_parameters`."""
    cdef Call call
    cdef pq_choice choice
    cdef ptrdiff_t shape[PQ_MAX_NDIM]
    cdef ptrdiff_t count
    cdef int status
    cdef bint only
    cdef str name
    cdef bytes scale_memory, zero_memory
    _forget(&call)
    array = _real_array(x, "x")
    name = _set_choice(&choice, dtype, symmetric, scale_dtype, like, affine)
    axis, block_size = _settled(axis, "axis"), _settled(block_size, "block_size")
    if threads is not _ONE:
        threads = _threads_of(threads)
    _hold_real(array, &call.x, "x")
    _set_input(&call)
    selecting = _granularity(&call, axis, block_size)
    groups = _parameter_shape(&call, selecting)
    if search is not None:
        search.place(&call)
    _set_data(&choice, call.x.type)
    call.args.scale.type = choice.scale
    zero_dtype = _DTYPES[zero_name(name)]
    call.args.zero.type = <pq_type><int>_TYPES[zero_name(name)]
    scale_dtype = _dtype_of(_NAMES[<int>choice.scale])
    scale_memory = _new_memory(groups, scale_dtype, pq_type_size(call.args.scale.type))
    zero_memory = _new_memory(groups, zero_dtype, pq_type_size(call.args.zero.type))
    if len(zero_memory) > 0:
        count = _place_results(&call, selecting, groups, scale_memory, zero_memory)
        call.args.block = call.block
        if search is None or _size(&call.x) == 0:
            repeats = _without_repeats(&call.x, selecting, shape, call.block)
            call.args.shape = shape
            status = _run_choice(&call, &choice, count, threads)
        else:
            repeats = 1, 1
            status = _run_search(&call, &choice, search, threads)
        if status == PQ_ERR_NONFINITE:
            raise _nonfinite_error(&call, repeats)
        if status != PQ_OK:
            _raise(status, NULL, &call.x, "x")
    scales = groups, scale_dtype, scale_memory
    zeros = groups, zero_dtype, zero_memory
    only = len(zero_memory) == <Py_ssize_t>pq_type_size(call.args.zero.type)
    return (scales, zeros, _given_scale(scales, only),
            None if _has_no_zero(&choice) else _given_zero(zeros, only), name, axis,
            block_size)


def dynamic_range(x, /):
    """Compute scale and zero point of ONNX DynamicQuantizeLinear."""
    cdef Call call
    cdef pq_choice choice
    cdef ptrdiff_t shape[PQ_MAX_NDIM]
    cdef int status
    _forget(&call)
    _hold_real(x, &call.x, "x")
    _set_input(&call)
    scale, zero = _np.empty((), _np.float32), _np.empty((), _np.uint8)
    _hold(scale, &call.scale)
    _hold(zero, &call.zero)
    _set_array(&call.args.scale, &call.scale)
    _set_array(&call.args.zero, &call.zero)
    _without_repeats(&call.x, (), shape, NULL)
    memset(call.scale_strides, 0, sizeof(call.scale_strides))
    call.args.shape = shape
    call.args.block = NULL
    call.args.scale.strides = call.args.zero.strides = call.scale_strides
    memset(&choice, 0, sizeof(choice))
    choice.size = sizeof(choice)
    choice.rule = PQ_RULE_ONNX_DYNAMIC
    with nogil:
        status = pq_choose_params(_active, &call.args, &choice, 0, 1)
    if status != PQ_OK:
        _raise(status, NULL, &call.x, "x")
    return scale, zero


def extrema(x, tuple block_size, bint as_magnitudes=False, /):
    """Return the extrema of each block including 0, as float64, or the larger magnitude as
    float32. Return `None` if a value is not finite."""
    cdef Call call
    cdef ptrdiff_t shape[PQ_MAX_NDIM]
    cdef int finite = 1, status
    _forget(&call)
    array = _real_array(x, "x")
    _hold_real(array, &call.x, "x")
    _set_input(&call)
    selecting = _granularity(&call, None, block_size)
    groups = _parameter_shape(&call, selecting)
    found = _np.zeros((2 - as_magnitudes, *groups), "f4" if as_magnitudes else "f8")
    lowest, highest = found[0, ...], found[-1, ...]  # arrays, also for one block
    _hold(lowest, &call.scale)
    _hold(highest, &call.zero)
    _set_array(&call.args.lowest, &call.scale)
    _set_array(&call.args.highest, &call.zero)
    repeats = _without_repeats(&call.x, selecting, shape, call.block)
    call.args.shape = shape
    call.args.block = call.block
    with nogil:
        status = pq_minmax(_active, &call.args, &finite)
    if status != PQ_OK:
        _raise(status, NULL, &call.x, "x")
    if as_magnitudes:
        return lowest if finite else None
    if not finite:
        raise _nonfinite_error(&call, repeats)
    return found
