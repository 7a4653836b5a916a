# Compute parameters from known ranges.

# Ranges at a time, so that only the results are allocated.
cdef enum:
    _RANGES = 4096


cdef object _ends_array(object ends, str name, bint *typed):
    """Return an ndarray; Python numbers and lists of them have no type."""
    typed[0] = type(ends) not in (float, int, list, tuple)
    array = _real_array(ends, name)
    if typed[0]:
        return array
    single = cast(array, "float32")
    return array if _np.isinf(single).any() else single


cdef tuple _ends_arrays(object lo, object hi):
    """Return both ends as arrays of the type of the data, by default float32."""
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
    return lo, hi, <int>type


cdef ptrdiff_t _first_misfit(const double *lo, const double *hi, ptrdiff_t n) noexcept:
    """Return the first range that is not finite or is inverted, else -1."""
    cdef pq_fpenv found = pq_fpenv_enter()
    cdef ptrdiff_t i, first = -1
    for i in range(n):
        if not -INFINITY < lo[i] <= hi[i] < INFINITY:
            first = i
            break
    pq_fpenv_leave(found)
    return first


cdef object _misfit_error(object lo, object hi, size_t first, tuple shape):
    """Convert Python floats."""
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
    """Return parameters like `_choose`, from given extrema."""
    cdef pq_choice choice
    cdef bytes scale_memory, zero_memory
    cdef bint only
    lo, hi, type = _ends_arrays(lo, hi)
    name = _set_choice(&choice, dtype, symmetric, scale_dtype, like, affine)
    axis, block_size = _settled(axis, "axis"), _settled(block_size, "block_size")
    if block_size is not None:
        _blocks(block_size)
        _check_blocked_axis(axis, block_size)
    _set_data(&choice, <pq_type><int>type)
    scale_dtype = _dtype_of(_NAMES[<int>choice.scale])
    zero_dtype = _DTYPES[zero_name(name)]
    scale_memory = _new_memory(lo.shape, scale_dtype, pq_type_size(choice.scale))
    zero_memory = _new_memory(lo.shape, zero_dtype, pq_type_size(choice.code))
    _choose_ranges(&choice, lo, hi, PyBytes_AS_STRING(scale_memory),
                   PyBytes_AS_STRING(zero_memory))
    scales = lo.shape, scale_dtype, scale_memory
    zeros = lo.shape, zero_dtype, zero_memory
    only = lo.size == 1
    return (scales, zeros, _given_scale(scales, only),
            None if _has_no_zero(&choice) else _given_zero(zeros, only), name, axis,
            block_size)


def presets():
    """Return the switches of each formula, in words."""
    return {
        name: tuple(pq_preset_of(<pq_like><int>like).words.decode().lower().split())
        for name, like in _LIKE.items()
    }
