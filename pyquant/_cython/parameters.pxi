# Read scale and zero point of a call.

no_scale = "scale: expected an array of real numbers, got None (choose_qparams finds one)"


cdef tuple _HOLDABLE = (_ndarray, _np.float32, _np.float16)


cdef object _scale_array(Call *call, object scale):
    """Return `scale` as an ndarray, or store a number in the call and return `None`."""
    call.args.scale.strides = call.scale_strides
    if PyFloat_Check(scale):  # a float64 scalar is also a Python float
        call.scale_value = PyFloat_AS_DOUBLE(scale)
        call.args.scale.data = &call.scale_value
        call.args.scale.type = PQ_F64
        call.args.scale.swapped = False
        return None
    # NumPy scalars are read like arrays, because a conversion here would depend on the
    # floating-point control state.
    if type(scale) in _HOLDABLE:
        return scale
    if scale is None:
        raise TypeError(no_scale)
    array = _numbers(scale, PQ_F64)
    return _converted(_convert.reals, (scale, "scale")) if array is None else array


cdef int _hold_scale(Call *call, object array) except -1:
    if array is None:
        return 0
    if not _hold(array, &call.scale):
        raise TypeError(f"scale: expected real numbers, got {_describe(array)}")
    call.args.scale.data = call.scale.data
    call.args.scale.type = call.scale.type
    call.args.scale.swapped = call.scale.swapped
    return 0


cdef object _zero_array(Call *call, object zero):
    """Return `zero_point` as an ndarray, or store a number in the call and return `None`.
    """
    cdef int beyond = 0
    call.args.zero.strides = call.zero_strides
    call.args.zero.data = NULL
    call.zero.type = PQ_NO_TYPE
    if zero is None:
        return None
    if PyLong_CheckExact(zero):
        call.args.zero.type = PQ_I64
        call.zero_value = PyLong_AsLongLongAndOverflow(zero, &beyond)
        if beyond:
            if not 0 <= zero < 2**64:
                raise ValueError(
                    "zero_point: expected an integer that the quantized type holds, "
                    f"got {_shown(zero)}"
                )
            call.args.zero.type = PQ_U64
            call.zero_value = _bits_of(zero)
        call.args.zero.data = &call.zero_value
        call.args.zero.swapped = False
        return None
    if type(zero) is _ndarray or known(zero) is not None:
        return zero
    if isinstance(zero, Packed):
        return _unpacked(zero, &call.zero.type)
    array = _numbers(zero, PQ_I64)
    return _converted(_convert.zeros, (zero, "zero_point")) if array is None else array


cdef int _hold_zero(Call *call, object array, object scale) except -1:
    cdef pq_type packed = call.zero.type
    if array is None:
        return 0
    if not _hold(array, &call.zero) or not (
        _is_integer(call.zero.type) or _is_narrow_float(call.zero.type)
    ):
        from pyquant._refused import hint_of_swap

        end = hint_of_swap(scale, array)
        raise TypeError(f"zero_point: expected integers, got {_describe(array)}{end}")
    if packed != PQ_NO_TYPE:
        call.zero.type = packed
    call.args.zero.data = call.zero.data
    call.args.zero.type = call.zero.type
    call.args.zero.swapped = call.zero.swapped
    return 0


cdef void _set_zeros(pq_args *zeros, Call *call) noexcept:
    """Check all zero points in their own shape, even if `x` is empty."""
    cdef bint number = call.args.zero.data == &call.zero_value
    zeros.size = sizeof(pq_args)
    zeros.zero = call.args.zero
    zeros.zero.strides = call.zero.strides
    zeros.block = NULL
    zeros.ndim = 0 if number else call.zero.ndim
    zeros.shape = call.zero.shape


cdef bint _are_zeros_within(Call *call, int64_t lo, int64_t hi,
                            int64_t *outside) noexcept:
    cdef pq_args zeros
    cdef bint within
    if call.args.zero.data == &call.zero_value and call.args.zero.type == PQ_I64:
        outside[0] = call.zero_value
        return lo <= call.zero_value <= hi
    _set_zeros(&zeros, call)
    if zeros.ndim == 0 or _size(&call.zero) < _NOGIL_SIZE:
        return pq_zeros_within(&zeros, lo, hi, outside)
    with nogil:
        within = pq_zeros_within(&zeros, lo, hi, outside)
    return within


cdef bint _are_zeros_kept(Call *call, pq_type code, int64_t *outside) noexcept:
    """Return True if all zero points are within a range; uint64 as two's complement."""
    cdef int64_t lo = call.args.lowest_code, hi = call.args.highest_code
    cdef uint64_t found = 0
    cdef pq_args zeros
    if code != PQ_U64:
        return _are_zeros_within(call, lo, hi, outside)
    _set_zeros(&zeros, call)
    if pq_unsigned_zeros_fit(&zeros, <uint64_t>lo, <uint64_t>hi, &found):
        return True
    outside[0] = <int64_t>found
    return False


cdef object _zero_outside(Call *call, int64_t outside):
    return outside % 2**64 if call.args.zero.type == PQ_U64 else outside


cdef int _check_zero_in_type(Call *call, pq_type code) except -1:
    cdef const pq_type_info *row = row_of_type(code)
    cdef int64_t outside = 0, lo = row.lowest
    cdef int64_t hi = INT64_MAX if code == PQ_U64 else <int64_t>row.highest
    cdef bint floats = _is_narrow_float(code)
    if call.args.zero.type == code and not floats:
        return 0
    name = _NAMES[<int>code]
    if _is_narrow_float(call.args.zero.type) and call.args.zero.type != code:
        raise TypeError(
            f"zero_point: expected integers, got {_NAMES[<int>call.args.zero.type]}"
        )
    if not _are_zeros_within(call, lo, hi, &outside):
        if floats:
            raise ValueError(f"zero_point: expected None or zeros for {name}")
        raise ValueError(
            f"zero_point: expected integers from {lo} to {row.highest} for {name}, "
            f"got {_zero_outside(call, outside)}"
        )
    return 0


cdef int _check_zero_in_range(Call *call, pq_type code) except -1:
    """Return True for zero points that are all 0, which any range allows."""
    cdef int64_t outside = 0
    if not (
        _are_zeros_within(call, 0, 0, &outside) or _are_zeros_kept(call, code, &outside)
    ):
        raise ValueError(
            f"zero_point: expected integers within quant_range={_ends_of(call, code)}, or "
            f"zeros alone, got {_zero_outside(call, outside)}"
        )
    return 0


cdef int _check_zero(Call *call, pq_type code) except -1:
    """Raise an error for zero points outside the quantized type or the requested range.
    Drop the zeros of narrow floats, so that -0 stays -0. The core also rejects integers,
    but without their index."""
    if call.args.zero.data == NULL:
        return 0
    _check_zero_in_type(call, code)
    if call.args.lowest_code != 0 or call.args.highest_code != 0:
        _check_zero_in_range(call, code)
    if _is_narrow_float(code):
        call.args.zero.data = NULL
    return 0
