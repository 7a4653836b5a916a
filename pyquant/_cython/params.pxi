# QParams, and the formulas of scales and zero points.


# ---- immutable parameters ----

cdef object _integer_at(const char *memory, pq_type type):
    """Return the integer of the type `type` at an address."""
    cdef const pq_type_info *row = row_of_type(type)
    cdef int64_t value = 0
    cdef int unused = <int>(64 - 8 * row.bytes)
    memcpy(<char *>&value + (8 - row.bytes if _BIG_ENDIAN else 0), memory, row.bytes)
    if row.lowest == 0:
        return <uint64_t>value
    return <int64_t>(<uint64_t>value << unused) >> unused


cdef tuple _frozen(object array, str name):
    """Return shape and dtype of an array, and an immutable copy of the elements in native
    byte order."""
    try:
        if not array.dtype.isnative:
            array = array.byteswap().view(array.dtype.newbyteorder("="))
        return array.shape, array.dtype, array.tobytes()
    except MemoryError:
        raise MemoryError(
            f"{name}: expected an array that memory holds, got shape {array.shape}"
        ) from None


cdef tuple _frozen_zero(object value, str dtype):
    """Return shape, dtype and bytes of one zero point."""
    memory = PyBytes_FromStringAndSize(NULL, pq_type_size(<pq_type><int>_CODES[dtype]))
    _put_integer(_bits_of(value), len(memory), PyBytes_AS_STRING(memory))
    return (), _DTYPES[dtype], memory


cdef object _given_scale(tuple frozen, bint single):
    """Return a single float32 or float64 scale as a Python float, else an ndarray."""
    cdef pq_fpenv found
    cdef double real
    shape, dtype, memory = frozen
    name = _SPELLED.get(dtype) if single else None
    if name == "float64":
        return (<const double *>PyBytes_AS_STRING(memory))[0]
    if name == "float32":  # includes subnormal numbers
        found = pq_fpenv_enter()
        real = (<const float *>PyBytes_AS_STRING(memory))[0]
        pq_fpenv_leave(found)
        return real
    return _words_in(shape, dtype, memory)


cdef object _given_zero(tuple frozen, bint single):
    """Return `None` if all zero points are 0, a Python integer for a single zero point,
    else an ndarray."""
    shape, dtype, memory = frozen
    if single:
        code = <pq_type><int>_CODES[_SPELLED[dtype]]
        return _integer_at(PyBytes_AS_STRING(memory), code) or None
    array = _words_in(shape, dtype, memory)
    return array if array.any() else None


cdef object _zeros_of(Call *call, object zero_point):
    """Return a Python integer, a packed array or other zero points as an ndarray."""
    if isinstance(zero_point, Packed):
        numbers = _dequantize(zero_point, 1.0, None, None, None, None, None, 1, None, False)
        if _is_narrow_float(_TYPES[zero_point._name]) and numbers.any():
            zero_point = unpack(zero_point)  # a later check raises the error
        else:
            zero_point = _np.asarray(numbers, _np.int16)
    elif PyLong_CheckExact(zero_point):
        zero_point = [zero_point]
    return _zero_array(call, zero_point)


cdef int _check_zeros_alone(Call *call, object zeros, tuple shape, str dtype) except -1:
    """Check that zero points fit the shape of the scales and the quantized type. No array
    to quantize is known yet."""
    if zeros.size != 1 and zeros.shape != shape:
        raise ValueError(f"zero_point: expected shape {shape}, got {zeros.shape}")
    call.args.ndim = call.zero.ndim
    call.args.shape = call.zero.shape
    call.args.zero.strides = call.zero.strides
    call.args.block = NULL
    _check_zero(call, <pq_type><int>_CODES[dtype])
    return 0


cdef tuple _frozen_float(double value):
    """Return shape, dtype and bytes of a Python float."""
    memory = PyBytes_FromStringAndSize(<const char *>&value, sizeof(value))
    return (), _DTYPES["float64"], memory


cdef tuple _parameter_shape_of(Call *call, object scale, object offset):
    """Return the shape of the scales, or the shape of the offsets if there is a single
    scale."""
    shape = () if scale is None else _shape(&call.scale)
    if offset is None or PyFloat_CheckExact(offset) or offset.size == 1:
        return shape
    if _prod(shape) != 1 and offset.shape != shape:
        raise ValueError(f"offset: expected shape {shape}, got {offset.shape}")
    return offset.shape


cdef tuple _frozen_parameters(object scale, object zero_point, str dtype, object axis,
                              object block_size, _Affine affine):
    """Check the arguments of a QParams, as far as possible without an array to quantize.
    Return a tuple for `Calls._keep`: immutable copies of scales and zero points, scale and
    zero point as the types that calls read fastest, `dtype`, axis and block size."""
    cdef Call call
    cdef bint simple
    _forget(&call)
    if PyFloat_Check(scale) and not PyFloat_CheckExact(scale):
        scale = _np.asarray(scale)
    scale = _scale_array(&call, scale)
    zero_type = zero_name(dtype)
    lo, hi = _LIMITS.get(dtype, (0, 0))
    offset = None
    if affine is not None:
        offset = affine.offset
        if affine.quant_range is not None:
            lo, hi = affine.quant_range
            call.args.lowest_code, call.args.highest_code = _bits_of(lo), _bits_of(hi)
    simple = zero_point is None or (
        PyLong_CheckExact(zero_point) and (lo <= zero_point <= hi or zero_point == 0)
    )
    if not simple:
        zero_point = _zeros_of(&call, zero_point)
    axis, block_size = integers(axis, "axis"), integers(block_size, "block_size")
    _hold_scale(&call, scale)
    if offset is not None or not simple:
        shape = _parameter_shape_of(&call, scale, offset)
    if not simple:
        _hold_zero(&call, zero_point, scale)
        _check_zeros_alone(&call, zero_point, shape, dtype)
    if block_size is not None:
        _blocks(axis, block_size)
    if scale is None:  # a number
        scales, given_scale = _frozen_float(call.scale_value), call.scale_value
    else:
        scales = _frozen(scale, "scale")
        given_scale = _given_scale(scales, _size(&call.scale) == 1)
    if simple:
        zeros, given_zero = _frozen_zero(zero_point or 0, zero_type), zero_point or None
    else:
        if zero_point.dtype is not _DTYPES[zero_type]:
            zero_point = cast(zero_point, zero_type)
        zeros = _frozen(zero_point, "zero_point")
        given_zero = _given_zero(zeros, _size(&call.zero) == 1)
    return scales, zeros, given_scale, given_zero, dtype, axis, block_size


cdef tuple _frozen_offset(_Affine affine):
    """Replace the offsets of `affine` by an immutable copy. Return shape, dtype and bytes
    of the copy."""
    cdef Array held
    offset = affine.offset
    if offset is None:
        return None
    if PyFloat_CheckExact(offset):
        return _frozen_float(offset)
    _checked_numbers(offset, &held, "offset")
    frozen = _frozen(_np.asarray(offset), "offset")
    affine.offset = _ndarray(*frozen)
    return frozen


def typed_zeros(zeros, str name not None, /):
    """Return read-only zero points in the quantized type. If the type needs ml_dtypes and
    ml_dtypes is not installed, return the zero points in the NumPy type that stores the
    zero points."""
    if name not in _DTYPES:
        try:
            dtype_named(name)
        except ImportError:
            return zeros.view()
    dtype = _DTYPES[name]
    if dtype == zeros.dtype:
        return zeros.view()
    # ml_dtypes stores a narrow integer in the low bits of a byte. Zero points of floats are
    # 0.
    codes = _np.array(zeros.view(_np.uint8))
    codes &= (1 << pq_type_bits(<pq_type><int>_CODES[name])) - 1
    codes.flags.writeable = False
    return codes.view(dtype)


# ---- method="mse" ----


cdef class _Search:
    """Options of `method="mse"`."""
    cdef pq_search what
    cdef Array held
    cdef object weights     # first as passed by the caller, later broadcast to x
    cdef object candidates


cdef int _place_weights(Call *call, _Search search) except -1:
    """Broadcast the weights to x, and pass the weights to the core."""
    if search.weights is None:
        return 0
    shape = _shape(&call.x)
    try:
        search.weights = _np.broadcast_to(search.weights, shape)
    except ValueError:
        raise _error(ValueError, "weights", f"a shape that broadcasts to {shape}",
                     f"{search.weights.shape}") from None
    _hold_real(search.weights, &search.held, "weights")
    _set_array(&search.what.weights, &search.held)
    return 0


cdef int _check_weights(object weights) except -1:
    """Raise an error unless all weights are finite and at least 0."""
    cdef Call call
    cdef double ends[2]
    cdef int finite
    _forget(&call)
    _hold_real(weights, &call.x, "weights")
    _set_input(&call)
    finite = _find_ends(&call, ends)
    if not finite or ends[0] < 0:
        got = ends[0] if finite else "others"
        raise _error(ValueError, "weights", "finite numbers from 0", got)
    return 0


cdef void _set_ends(pq_args *args, double *lowest, double *highest,
                    const ptrdiff_t *strides) noexcept nogil:
    """Set the arrays of the core for minima and maxima, which have equal strides."""
    args.lowest = pq_array(lowest, strides, PQ_F64, False, NULL)
    args.highest = pq_array(highest, strides, PQ_F64, False, NULL)


cdef int _find_ends(Call *call, double *ends) noexcept:
    """Store in `ends` the lowest and the highest of 0 and all values. Return True if all
    values are finite."""
    cdef ptrdiff_t none[PQ_MAX_NDIM]
    cdef int finite = 1, status
    ends[0] = ends[1] = 0
    memset(none, 0, sizeof(none))
    call.args.block = NULL
    _set_ends(&call.args, &ends[0], &ends[1], none)
    with nogil:
        status = pq_minmax(_active, &call.args, &finite)
    return finite and status == PQ_OK


cdef object _candidates_of(object given):
    """Check candidates, and return a float64 array. Flush-to-zero is off, so that a
    subnormal candidate is above 0."""
    cdef pq_fpenv found = pq_fpenv_enter()
    try:
        array = _real_array(given, "candidates")
        if array.dtype.kind not in "iuf" and _dtypes.name_of(array.dtype) not in _REALS:
            raise TypeError(f"candidates: expected numbers, got {_describe(array)}")
        candidates = _np.array(array, _np.float64, ndmin=1)
        if candidates.ndim != 1 or candidates.size == 0:
            raise _error(ValueError, "candidates", "one dimension of numbers",
                         f"shape {candidates.shape}")
        for one in candidates:
            if not 0 < one <= 1:
                raise _error(ValueError, "candidates", "numbers above 0, at most 1",
                             f"{one}")
        return candidates
    finally:
        pq_fpenv_leave(found)


cdef _Search _search_of(object method, object weights, object candidates):
    """Return the options of `method="mse"`, or `None` for "minmax"."""
    cdef _Search search
    if not isinstance(method, str):
        raise _error(TypeError, "method", "'minmax' or 'mse'", type(method))
    if method == "minmax":
        if weights is None and candidates is None:
            return None
        name = "candidates" if weights is None else "weights"
        got = type(candidates if weights is None else weights).__name__
        raise ValueError(f"{name}: expected None with method='minmax', got {got}")
    if method != "mse":
        other = str(method) in ("entropy", "percentile")
        raise ValueError(
            f"method: expected 'minmax' or 'mse', got {_shown(method)}"
            f"{'; entropy and percentile need Observer or calibrate' if other else ''}"
        )
    search = _Search()
    memset(&search.what, 0, sizeof(search.what))
    search.what.size = sizeof(pq_search)
    if weights is not None:
        search.weights = _real_array(weights, "weights")
        _check_weights(search.weights)
    if candidates is not None:
        search.candidates = _candidates_of(candidates)
        search.what.candidates = <const double *>_data(search.candidates)
        search.what.count = <size_t>search.candidates.size
    return search


cdef struct Searching:
    const pq_choice *choice
    const pq_search *search


cdef int _search_part(const Job *job, int part) noexcept nogil:
    cdef const Searching *by = <const Searching *>job.more
    return pq_search_params(_active, job.args, by.choice, by.search, part, job.parts)


cdef int _run_search(Call *call, const pq_choice *choice, _Search search,
                     int threads) except -1:
    """Search for the scales with the least squared error, and return a pq_status."""
    cdef Searching by = Searching(choice, &search.what)
    return _run_threads(_search_part, &call.args, &by, _size(&call.x), call.x.itemsize,
                        threads)


# ---- choose_qparams ----

# The pq_like of each name that `like=` accepts.
cdef dict _LIKE = {
    pq_preset_of(<pq_like>like).name.decode(): like
    for like in range(<int>PQ_LIKE_PYQUANT + 1, <int>PQ_LIKE_COUNT)
}
# The types that `scale_dtype` accepts.
cdef dict _SCALES = {
    name: _TYPES[name] for name in (
        "float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e8m0fnu"
    )
}
cdef str _SCALE_NAMES = f"None, {_listed(_SCALES)}"


cdef int _check_like(const pq_choice *choice, str name, str like) except -1:
    """Raise an error if the formula `like` does not support the options in `choice`."""
    cdef const pq_preset *preset = pq_preset_of(choice.like)
    codes = [
        one for one, code in _CHOSEN.items()
        if pq_preset_has_code(preset, <pq_type><int>code)
    ]
    if name not in codes:
        raise _error(ValueError, "dtype",
                     f"{_listed(codes)} for like={like!r}", name)
    if not pq_preset_has_rule(preset, choice.rule):
        given = choice.rule == PQ_RULE_SYMMETRIC
        raise _error(ValueError, "symmetric", f"None or {not given} for like={like!r}",
                     given)
    if (
        (choice.lowest_code != 0 or choice.highest_code != 0)
        and not choice.lowest_code < 0 < choice.highest_code and like == "torchao_no_clip"
    ):
        raise _error(ValueError, "quant_range", f"codes of both signs for like={like!r}",
                     (choice.lowest_code, choice.highest_code))
    return 0


cdef str _set_choice(pq_choice *choice, object dtype, object symmetric,
                     object scale_dtype, object like, _Affine affine):
    """Fill in `choice` from the arguments of choose_qparams, with the range of codes in
    `affine`. Return the name of the quantized type."""
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
    """Store the type of the data. If `choice` has no type of scales, store the default
    type."""
    choice.real = real
    if choice.scale == PQ_NO_TYPE:
        choice.scale = PQ_F64 if real == PQ_F64 else PQ_F32


cdef bint _has_no_zero(const pq_choice *choice) noexcept:
    """Return True if the formula gives the zero point 0 for any data."""
    cdef bint signed = (
        _is_narrow_float(choice.code) or row_of_type(choice.code).lowest < 0
    )
    return (
        choice.rule == PQ_RULE_SYMMETRIC and choice.like == PQ_LIKE_PYQUANT and signed
        and choice.lowest_code == 0 and choice.highest_code == 0
    )


cdef tuple _without_repeats(Array *x, tuple selecting, ptrdiff_t *shape,
                            ptrdiff_t *block):
    """Reduce the extent of each broadcast dimension to 1, or to the number of blocks,
    because a broadcast array may have too many elements to visit. Return the product of
    these extents before and after the reduction."""
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


# If there are at most _FEW_PARAMETERS parameters for each thread, a thread gets a share of
# the elements instead of a share of the parameters.
cdef enum:
    _FEW_PARAMETERS = 64


cdef struct Choosing:
    const pq_choice *choice
    ptrdiff_t count
    ptrdiff_t strides[PQ_MAX_NDIM]  # Strides of `cells`, in bytes.
    double *cells                   # For each part, `count` minima, then `count` maxima.


cdef int _choose_part(const Job *job, int part) noexcept nogil:
    """Compute the share of parameters that belongs to one thread."""
    cdef const Choosing *by = <const Choosing *>job.more
    return pq_choose_params(_active, job.args, by.choice, part, job.parts)


cdef int _extrema_part(const Job *job, int part) noexcept nogil:
    """Find the extrema of one thread's share of the longest dimension. A share has complete
    blocks."""
    cdef const Choosing *by = <const Choosing *>job.more
    cdef pq_args args = job.args[0]
    cdef ptrdiff_t shape[PQ_MAX_NDIM]
    cdef ptrdiff_t block = 1, share, first
    cdef double *cells
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
    cells = by.cells + 2 * by.count * part
    cells = <double *>(<char *>cells + first // block * by.strides[longest])
    _set_ends(&args, cells, cells + by.count, by.strides)
    status = pq_minmax(_active, &args, &finite)
    return status if status != PQ_OK or finite else PQ_ERR_NONFINITE


cdef int _choose_by_extrema(Job *job, Choosing *by, Py_ssize_t size) except -1:
    """Find the extrema of parts, combine them, and compute the parameters."""
    cdef const pq_array *scale = &job.args.scale
    cdef ptrdiff_t width = pq_type_size(scale.type)
    cdef int d, status
    for d in range(job.args.ndim):
        by.strides[d] = scale.strides[d] // width * <ptrdiff_t>sizeof(double)
    cells = _np.empty((job.parts, 2, by.count))
    cells[:, 0], cells[:, 1] = INFINITY, -INFINITY
    by.cells = <double *>_data(cells)
    status = _execute(_extrema_part, job, size)
    if status != PQ_OK:
        return status
    lowest = _converted(cells[:, 0].min, (0,))
    highest = _converted(cells[:, 1].max, (0,))
    return pq_choose(by.choice, by.count, <const double *>_data(lowest),
                     <const double *>_data(highest), scale.data, job.args.zero.data)


cdef int _run_choice(Call *call, const pq_choice *choice, ptrdiff_t count,
                     int threads) except -1:
    """Compute scales and zero points of `count` groups, and return a pq_status. Each thread
    computes a share of the parameters. If there are few parameters, each thread reads a
    share of the elements."""
    cdef Choosing by
    cdef Job job = Job(&call.args, &by, 1)
    cdef ptrdiff_t size = 1
    cdef int d
    by.choice, by.count = choice, count
    for d in range(call.args.ndim):
        size *= call.args.shape[d]
    if call.args.ndim > 0:
        job.parts = _parts(size * call.x.itemsize, threads)
    if job.parts > 1 and count <= _FEW_PARAMETERS * job.parts:
        return _choose_by_extrema(&job, &by, size)
    return _execute(_choose_part, &job, size)


cdef tuple _new_results(const pq_choice *choice, tuple groups):
    """Return two tuples of shape, dtype and new memory: for the scales and for the zero
    points."""
    scale_dtype = dtype_named(_NAMES[<int>choice.scale])
    zero_dtype = <object>_dtypes_held[<int>_zero_type(choice.code)]
    return (
        (groups, scale_dtype, _new_memory(groups, scale_dtype, pq_type_size(choice.scale))),
        (groups, zero_dtype, _new_memory(groups, zero_dtype, pq_type_size(choice.code))),
    )


cdef tuple _finished(const pq_choice *choice, tuple results, str name, object axis,
                     object block_size):
    """Return chosen parameters in a tuple like `_frozen_parameters`."""
    cdef tuple scales = results[0], zeros = results[1]
    cdef bint only = len(<bytes>zeros[2]) == <Py_ssize_t>pq_type_size(choice.code)
    return (scales, zeros, _given_scale(scales, only),
            None if _has_no_zero(choice) else _given_zero(zeros, only), name, axis,
            block_size)


cdef ptrdiff_t _place_groups(Call *call, tuple selecting, ptrdiff_t size,
                             ptrdiff_t *strides) except -1:
    """Set the C-order strides of an array with `size` bytes for each group of x, and return
    the number of groups."""
    cdef ptrdiff_t count = 1
    cdef int d, i
    for d in range(call.args.ndim):
        strides[d] = 0
    for i in range(len(selecting) - 1, -1, -1):
        d = <int>selecting[i]
        strides[d] = count * size
        count *= _blocks_along(call, d)
    return count


cdef ptrdiff_t _place_results(Call *call, const pq_choice *choice, tuple selecting,
                              tuple results) except -1:
    """Pass the memory for scales and zero points to the core, and return the number of
    groups."""
    cdef bytes scales = results[0][2], zeros = results[1][2]
    cdef pq_type zero = _zero_type(choice.code)
    call.args.scale = pq_array(PyBytes_AS_STRING(scales), &call.scale_strides[0],
                               choice.scale, False, NULL)
    call.args.zero = pq_array(PyBytes_AS_STRING(zeros), &call.zero_strides[0], zero, False,
                              NULL)
    _place_groups(call, selecting, pq_type_size(choice.scale), call.scale_strides)
    return _place_groups(call, selecting, pq_type_size(zero), call.zero_strides)


cdef int _check_shape(tuple shape, object dtype) except -1:
    """Raise an error if NumPy does not support an array of this shape and dtype."""
    try:
        _np.empty(shape, dtype)
    except ValueError:  # NumPy's message names no argument
        due = f"a shape that NumPy can make of {dtype}"
        raise _error(ValueError, "x", due, shape) from None
    return 0


cdef bytes _new_memory(tuple shape, object dtype, Py_ssize_t size):
    """Return a bytes object for the elements of an array. The caller fills the bytes object
    before any other code can read the object."""
    try:
        count = shape[0] if len(shape) == 1 else _prod(shape)  # Faster than a call.
        if count == 0:  # NumPy rejects some empty shapes.
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
    cdef str name
    cdef tuple results
    _forget(&call)
    array = _real_array(x, "x")
    name = _set_choice(&choice, dtype, symmetric, scale_dtype, like, affine)
    axis, block_size = integers(axis, "axis"), integers(block_size, "block_size")
    threads = _threads_of(threads)
    _hold_real(array, &call.x, "x")
    _set_input(&call)
    selecting = _granularity(&call, axis, block_size)
    if search is not None:
        _place_weights(&call, search)
    _set_data(&choice, call.x.type)
    results = _new_results(&choice, _parameter_shape(&call, selecting))
    if len(<bytes>results[1][2]) > 0:
        count = _place_results(&call, &choice, selecting, results)
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
    return _finished(&choice, results, name, axis, block_size)


def dynamic_range(x, /):
    """Compute scale and zero point of ONNX DynamicQuantizeLinear."""
    cdef Call call
    cdef pq_choice choice
    cdef ptrdiff_t shape[PQ_MAX_NDIM]
    cdef int status
    _forget(&call)
    _hold_real(x, &call.x, "x")
    _set_input(&call)
    scale, zero = _new_array(0, NULL, PQ_F32), _new_array(0, NULL, PQ_U8)
    _hold(scale, &call.scale)
    _hold(zero, &call.zero)
    _set_placed(&call.args.scale, &call.scale, call.scale_strides)
    _set_placed(&call.args.zero, &call.zero, call.scale_strides)
    _place_groups(&call, (), 0, call.scale_strides)
    _without_repeats(&call.x, (), shape, NULL)
    call.args.shape = shape
    call.args.block = NULL
    memset(&choice, 0, sizeof(choice))
    choice.size = sizeof(choice)
    choice.rule = PQ_RULE_ONNX_DYNAMIC
    with nogil:
        status = pq_choose_params(_active, &call.args, &choice, 0, 1)
    if status != PQ_OK:
        _raise(status, NULL, &call.x, "x")
    return scale, zero


def extrema(x, block_size, bint as_magnitudes=False, axis=None, bint from_zero=True, /):
    """Return the lowest and the highest value of each group as float64. If `as_magnitudes`,
    return the largest magnitude of each group as float32, or `None` if a value is not
    finite. If `from_zero`, the extrema include 0. Otherwise an empty group has the extrema
    +infinity and -infinity."""
    cdef Call call
    cdef ptrdiff_t shape[PQ_MAX_NDIM]
    cdef int finite = 1, status
    _forget(&call)
    array = _real_array(x, "x")
    axis, block_size = integers(axis, "axis"), integers(block_size, "block_size")
    _hold_real(array, &call.x, "x")
    _set_input(&call)
    selecting = _granularity(&call, axis, block_size)
    groups = _parameter_shape(&call, selecting)
    found = _np.zeros((2 - as_magnitudes, *groups), "f4" if as_magnitudes else "f8")
    lowest, highest = found[0, ...], found[-1, ...]  # `...` keeps rank 0 arrays
    if not from_zero:
        lowest.fill(INFINITY)
        highest.fill(-INFINITY)
    _hold(lowest, &call.scale)
    _hold(highest, &call.zero)
    _set_placed(&call.args.lowest, &call.scale, call.scale_strides)
    _set_placed(&call.args.highest, &call.zero, call.scale_strides)
    _place_groups(&call, selecting, call.scale.itemsize, call.scale_strides)
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


# ---- qparams_from_range ----

# Number of ranges to convert to float64 at a time. Complete float64 copies would need more
# memory.
cdef enum:
    _RANGES = 4096


cdef object _ends_array(object ends, str name, bint *typed):
    """Convert the lower or upper ends of ranges to an ndarray. Set `typed` to False for
    Python numbers and lists, which have no dtype."""
    typed[0] = type(ends) not in (float, int, list, tuple)
    array = _real_array(ends, name)
    if typed[0]:
        return array
    single = cast(array, "float32")
    return array if _np.isinf(single).any() else single


def range_ends(lo, hi, /):
    """Return `lo` and `hi` as arrays of one type, and the name of that type."""
    cdef Array first, second
    cdef bint low_typed = False, high_typed = False
    lo = _ends_array(lo, "lo", &low_typed)
    hi = _ends_array(hi, "hi", &high_typed)
    _hold_real(lo, &first, "lo")
    _hold_real(hi, &second, "hi")
    if lo.shape != hi.shape:
        raise ValueError(f"hi: expected shape {lo.shape}, as lo, got {hi.shape}")
    if high_typed and not low_typed:
        type = second.type
    elif first.type == second.type or (low_typed and not high_typed):
        type = first.type
    else:
        type = PQ_F64 if PQ_F64 in (first.type, second.type) else PQ_F32
    name = _NAMES[<int>type]
    if first.type != type:
        lo = cast(lo, name)
    if second.type != type:
        hi = cast(hi, name)
    return lo, hi, name


cdef ptrdiff_t _first_misfit(const double *lo, const double *hi, ptrdiff_t n) noexcept:
    """Return the index of the first range that is not finite or has `lo` above `hi`, else
    -1."""
    cdef pq_fpenv found = pq_fpenv_enter()
    cdef ptrdiff_t i, first = -1
    for i in range(n):
        if not -INFINITY < lo[i] <= hi[i] < INFINITY:
            first = i
            break
    pq_fpenv_leave(found)
    return first


cdef object _misfit_error(object lo, object hi, size_t first, tuple shape):
    """Return the error about a range that is not finite or has `lo` above `hi`."""
    for name, end in ("lo", lo), ("hi", hi):
        if not -INFINITY < end < INFINITY:
            return _error_at(f"{name}: expected finite numbers, got {end}", first, shape)
    return _error_at(
        f"lo: expected numbers that are not above hi, got {lo} above {hi}", first, shape
    )


cdef int _choose_ranges(const pq_choice *choice, object lo, object hi, char *scales,
                        char *zeros) except -1:
    """Write the parameters of all ranges in C order to contiguous arrays."""
    cdef Array low, high
    cdef ptrdiff_t bad, n
    cdef pq_status status
    cdef ptrdiff_t scale_size = pq_type_size(choice.scale)
    cdef ptrdiff_t zero_size = pq_type_size(choice.code)
    lows, highs = lo.reshape(-1), hi.reshape(-1)
    for i in range(0, lo.size, _RANGES):
        some = cast(lows[i:i + _RANGES], "float64"), cast(highs[i:i + _RANGES], "float64")
        _hold(some[0], &low)
        _hold(some[1], &high)
        n = low.shape[0]
        bad = _first_misfit(<const double *>low.data, <const double *>high.data, n)
        if bad >= 0:
            raise _misfit_error(
                (<double *>low.data)[bad], (<double *>high.data)[bad], i + bad, lo.shape
            )
        with nogil:
            status = pq_choose(choice, n, <const double *>low.data,
                               <const double *>high.data, scales, zeros)
        if status != PQ_OK:
            _raise(status, NULL, &low, "lo")
        scales += n * scale_size
        zeros += n * zero_size
    return 0


cdef tuple _from_range(object lo, object hi, object dtype, object axis, object block_size,
                       object symmetric, object scale_dtype, object like, _Affine affine):
    """Return the parameters for given ranges, in a tuple like `_frozen_parameters`."""
    cdef pq_choice choice
    cdef tuple results
    lo, hi, real = range_ends(lo, hi)
    name = _set_choice(&choice, dtype, symmetric, scale_dtype, like, affine)
    axis, block_size = integers(axis, "axis"), integers(block_size, "block_size")
    if block_size is not None:
        _blocks(axis, block_size)
    _set_data(&choice, <pq_type><int>_REALS[real])
    results = _new_results(&choice, lo.shape)
    _choose_ranges(&choice, lo, hi, PyBytes_AS_STRING(<bytes>results[0][2]),
                   PyBytes_AS_STRING(<bytes>results[1][2]))
    return _finished(&choice, results, name, axis, block_size)


def presets():
    """Return a dict of tuples: the words that describe the formula of each `like`."""
    return {
        name: tuple(pq_preset_of(<pq_like><int>like).words.decode().lower().split())
        for name, like in _LIKE.items()
    }
