# Scale and zero point of a call.

cdef tuple _HOLDABLE = (_ndarray, _np.float32, _np.float16)


cdef object _scale_array(Call *call, object scale):
    """`scale` as an ndarray, None for a number, which the call has then."""
    call.args.scale.strides = call.scale_strides
    if PyFloat_Check(scale):  # float64 scalars are Python floats, too
        call.scale_value = PyFloat_AS_DOUBLE(scale)
        call.args.scale.data = &call.scale_value
        call.args.scale.type = PQ_F64
        call.args.scale.swapped = False
        return None
    # NumPy scalars lend their bits as arrays do; converting them here would depend on the
    # floating-point control state.
    if type(scale) in _HOLDABLE:
        return scale
    if scale is None:
        raise TypeError(
            "scale: expected an array of real numbers, got None (choose_qparams finds one)"
        )
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
    """`zero_point` as an ndarray, None for none and for a number, which the call has."""
    call.args.zero.strides = call.zero_strides
    call.args.zero.data = NULL
    call.zero.type = PQ_NO_TYPE
    if zero is None:
        return None
    if PyLong_CheckExact(zero):
        # Beyond int64 is beyond every type: keep the sign for the message's sake.
        try:
            call.zero_value = zero
        except OverflowError:
            raise ValueError(
                f"zero_point: expected an integer that the quantized type holds, got {zero}"
            ) from None
        call.args.zero.data = &call.zero_value
        call.args.zero.type = PQ_I64
        call.args.zero.swapped = False
        return None
    if type(zero) is _ndarray or known(zero) is not None:
        return zero
    if isinstance(zero, Packed):
        return _unpacked(zero, &call.zero.type)
    array = _numbers(zero, PQ_I64)
    return _converted(_convert.zeros, (zero, "zero_point")) if array is None else array


cdef int _hold_zero(Call *call, object array) except -1:
    cdef pq_type packed = call.zero.type
    if array is None:
        return 0
    if not _hold(array, &call.zero) or not (
        _is_integer(call.zero.type) or _is_narrow_float(call.zero.type)
    ):
        raise TypeError(f"zero_point: expected integers, got {_describe(array)}")
    if packed != PQ_NO_TYPE:
        call.zero.type = packed
    call.args.zero.data = call.zero.data
    call.args.zero.type = call.zero.type
    call.args.zero.swapped = call.zero.swapped
    return 0


cdef int _check_zero(Call *call, pq_type code) except -1:
    """Refuse zero points outside the quantized type, and forget those of narrow floats,
    which are zeros: nothing is added then, not even to -0. The core refuses integers, too,
    but does not say which."""
    cdef const pq_type_info *row
    cdef int64_t outside = 0, lo, hi
    cdef bint floats = _is_narrow_float(code), within
    cdef pq_args zeros
    if call.args.zero.data == NULL or (call.args.zero.type == code and not floats):
        return 0
    row = row_of_type(code)
    lo, hi = row.lowest, <int64_t>row.highest
    if call.args.zero.data == &call.zero_value and not floats:
        if lo <= call.zero_value <= hi:
            return 0
    name = _NAMES[<int>code]
    if _is_narrow_float(call.args.zero.type) and call.args.zero.type != code:
        raise TypeError(
            f"zero_point: expected integers, got {_NAMES[<int>call.args.zero.type]}"
        )
    # Of their own shape: all are looked at, also where there are no elements.
    zeros.size = sizeof(pq_args)
    zeros.zero = call.args.zero
    zeros.block = NULL
    zeros.ndim = 0
    if call.args.zero.data != &call.zero_value:
        zeros.ndim = call.zero.ndim
        zeros.shape = call.zero.shape
        zeros.zero.strides = call.zero.strides
    if call.zero.held and _size(&call.zero) >= _NOGIL_SIZE:
        with nogil:
            within = pq_zeros_within(&zeros, lo, hi, &outside)
    else:
        within = pq_zeros_within(&zeros, lo, hi, &outside)
    if not within:
        got = outside % 2**64 if call.args.zero.type == PQ_U64 else outside
        if floats:
            raise ValueError(f"zero_point: expected None or zeros for {name}")
        raise ValueError(
            f"zero_point: expected integers from {lo} to {hi} for {name}, got {got}"
        )
    if floats:
        call.args.zero.data = NULL
    return 0
