# What the modules of the standards ask for.


def quantize_standard(x, scale, zero_point, *, dtype, axis=None, block_size=None,
                      rounding="half_even", precision=None, saturate=True,
                      zero_first=False, narrow_first=False):
    """Quantize as standards may want it: from int32, too, with any zero points, which may
    be narrow floats, and these perhaps added before rounding; `x` and `scale` perhaps
    rounded to `precision` before they are divided."""
    return _quantize(_active, x, scale, zero_point, dtype, axis, block_size, rounding,
                     precision, saturate, False, None, 1, True, True, zero_first,
                     narrow_first)


def dequantize_standard(q, scale, zero_point, *, dtype, axis=None, block_size=None):
    """Dequantize with any zero points, which may be narrow floats."""
    return _dequantize(_active, q, scale, zero_point, dtype, axis, block_size, None, 1,
                       True)


cdef tuple _range_of(str name):
    return (-(2**63), 2**63 - 1) if name == "int64" else _LIMITS.get(name, (0, -1))


cdef object _single_floats(tuple values, tuple shape):
    """float32 of Python floats; None if one is something else."""
    cdef pq_fpenv found
    cdef float *to
    if not all([type(one) is float for one in values]):
        return None
    memory = PyBytes_FromStringAndSize(NULL, 4 * len(values))
    to = <float *>PyBytes_AS_STRING(memory)
    found = pq_fpenv_enter()
    for one in values:
        to[0] = <float>PyFloat_AS_DOUBLE(one)
        to += 1
    pq_fpenv_leave(found)
    return _ndarray(shape, _DTYPES["float32"], memory)


cdef object _fitting_integers(tuple values, tuple shape, str dtype):
    """Python integers as an array of a type that holds them; else None."""
    if dtype not in _CODES and dtype != "int64":
        return None
    lo, hi = _range_of(dtype)
    for one in values:
        if type(one) is not int or not lo <= one <= hi:
            return None
    own = dtype if dtype == "int64" else zero_name(dtype)
    return _np.array(values if shape else values[0], _DTYPES[own])


def usual(values, str dtype not None):
    """A Python number, or a sequence of some, as an array of the type that is for it; None
    for what needs more of a look."""
    cdef tuple all_of, shape = ()
    if type(values) is float or type(values) is int:
        all_of = (values,)
    elif (type(values) is list or type(values) is tuple) and len(values) > 0:
        all_of = tuple(values)
        shape = (len(all_of),)
    else:
        return None
    if dtype == "float32":
        return _single_floats(all_of, shape)
    return _fitting_integers(all_of, shape, dtype)


def first_zero(scales):
    """Where the first zero is in float32 scales of one dimension; -1 without one. By their
    bits: depending on the control state subnormal numbers are equal to zero."""
    cdef Call call
    cdef Py_ssize_t i
    cdef uint32_t bits = 0
    _forget(&call)
    try:
        _hold(scales, &call.scale)
        for i in range(call.scale.buffer.shape[0]):
            memcpy(&bits, <char *>call.scale.buffer.buf + i * call.scale.buffer.strides[0],
                   sizeof(bits))
            if bits << 1 == 0:
                return i
        return -1
    finally:
        _release(&call)
