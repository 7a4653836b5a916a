# Immutable parameters: the state of QParams.


cdef object _number_at(const void *memory, int type):
    """Return the number at an address, or `None` for an unsupported type."""
    cdef pq_fpenv found
    cdef double real
    if type == PQ_F64:
        return (<const double *>memory)[0]
    if type == PQ_F32:  # includes subnormal numbers
        found = pq_fpenv_enter()
        real = (<const float *>memory)[0]
        pq_fpenv_leave(found)
        return real
    if type == PQ_I8:
        return (<const int8_t *>memory)[0]
    if type == PQ_U8:
        return (<const uint8_t *>memory)[0]
    if type == PQ_I16:
        return (<const int16_t *>memory)[0]
    if type == PQ_U16:
        return (<const uint16_t *>memory)[0]
    if type == PQ_I32:
        return (<const int32_t *>memory)[0]
    if type == PQ_U32:
        return (<const uint32_t *>memory)[0]
    if type == PQ_I64:
        return (<const int64_t *>memory)[0]
    return (<const uint64_t *>memory)[0] if type == PQ_U64 else None


cdef tuple _frozen(object array, str name):
    """Return shape, dtype and immutable bytes of an array, in native byte order, like a
    pickle."""
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
    """Return a single number as a Python float, unless its type affects `precision`."""
    shape, dtype, memory = frozen
    name = _SPELLED.get(dtype) if single else None
    if name == "float32" or name == "float64":
        return _number_at(PyBytes_AS_STRING(memory), <int>_REALS[name])
    array = _ndarray(shape, dtype, memory)
    if single and dtype.kind == "f" and dtype.itemsize >= 4:
        return cast(array, "float64").item()
    return array


cdef object _given_zero(tuple frozen, bint single):
    """Return `None` for zeros, or a Python integer for a single zero point."""
    shape, dtype, memory = frozen
    if single:
        return _number_at(PyBytes_AS_STRING(memory), <int>_CODES[_SPELLED[dtype]]) or None
    array = _ndarray(shape, dtype, memory)
    return array if array.any() else None


cdef object _zeros_of(Call *call, object zero_point):
    """Return zero points as an ndarray, unless a single one fits."""
    if isinstance(zero_point, Packed):
        numbers = _dequantize(zero_point, 1.0, None, None, None, None, None, 1, None, False)
        if _is_narrow_float(_TYPES[zero_point._name]) and numbers.any():
            zero_point = zero_point.unpack()  # raises the error of unpacked zero points
        else:
            zero_point = _np.asarray(numbers, _np.int16)
    elif PyLong_CheckExact(zero_point):
        zero_point = [zero_point]
    return _zero_array(call, zero_point)


cdef int _check_zeros_alone(Call *call, object zeros, tuple shape, str dtype) except -1:
    """Check everything that needs no data, for scales of a shape."""
    if zeros.size != 1 and zeros.shape != shape:
        raise ValueError(f"zero_point: expected shape {shape}, got {zeros.shape}")
    call.args.ndim = call.zero.ndim
    call.args.shape = call.zero.shape
    call.args.zero.strides = call.zero.strides
    call.args.block = NULL
    _check_zero(call, <pq_type><int>_CODES[dtype])
    return 0


cdef tuple _keeping_scale(Call *call, object scale):
    """Return immutable scales, and their fastest form for calls; from `call` if `scale` is
    `None`."""
    if scale is None:
        memory = PyBytes_FromStringAndSize(<const char *>&call.scale_value, 8)
        return ((), _DTYPES["float64"], memory), call.scale_value
    scales = _frozen(scale, "scale")
    return scales, _given_scale(scales, _size(&call.scale) == 1)


cdef tuple _keeping_zero(Call *call, object zeros, str dtype):
    """Return immutable zero points in a type, and their fastest form for calls."""
    if zeros.dtype is not _DTYPES[dtype]:
        zeros = cast(zeros, dtype)
    frozen = _frozen(zeros, "zero_point")
    return frozen, _given_zero(frozen, _size(&call.zero) == 1)


cdef tuple _parameter_shape_of(Call *call, object scale, object offset):
    """Return the shape of scales, or of offsets beside a single scale."""
    shape = () if scale is None else _shape(&call.scale)
    if offset is None or PyFloat_CheckExact(offset) or offset.size == 1:
        return shape
    if _prod(shape) != 1 and offset.shape != shape:
        raise ValueError(f"offset: expected shape {shape}, got {offset.shape}")
    return offset.shape


cdef tuple _frozen_parameters(object scale, object zero_point, str dtype, object axis,
                              object block_size, _Affine affine):
    """Return scale and zero point, immutable and in the fastest form for calls; `dtype`;
    axis and block size as Python integers. All checks without data come first. `affine`
    gets its offset in the form for calls."""
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
    axis, block_size = _settled(axis, "axis"), _settled(block_size, "block_size")
    _hold_scale(&call, scale)
    if offset is not None or not simple:
        shape = _parameter_shape_of(&call, scale, offset)
    if not simple:
        _hold_zero(&call, zero_point, scale)
        _check_zeros_alone(&call, zero_point, shape, dtype)
    if block_size is not None:
        _blocks(block_size)
        _check_blocked_axis(axis, block_size)
    scales, given_scale = _keeping_scale(&call, scale)
    if offset is not None:
        given_scale, affine.offset = _alike(given_scale, offset)
    if simple:
        zeros, given_zero = _frozen_zero(zero_point or 0, zero_type), zero_point or None
    else:
        zeros, given_zero = _keeping_zero(&call, zero_point, zero_type)
    return scales, zeros, given_scale, given_zero, dtype, axis, block_size


cdef tuple _frozen_offset(_Affine affine):
    """Return immutable offsets, which `affine` uses from now on."""
    cdef Call call
    cdef double value
    offset = affine.offset
    if offset is None:
        return None
    if PyFloat_CheckExact(offset):
        value = PyFloat_AS_DOUBLE(offset)
        memory = PyBytes_FromStringAndSize(<const char *>&value, sizeof(value))
        return (), _DTYPES["float64"], memory
    _checked_numbers(offset, &call.offset, "offset")
    frozen = _frozen(_np.asarray(offset), "offset")
    affine.offset = _ndarray(*frozen)
    return frozen


def typed_zeros(zeros, str name not None, /):
    """Return read-only zero points in the quantized type, or in the stored NumPy type
    without ml_dtypes."""
    if name not in _DTYPES:
        try:
            _dtype_of(name)
        except ImportError:
            return zeros.view()
    dtype = _DTYPES[name]
    if dtype == zeros.dtype:
        return zeros.view()
    # ml_dtypes stores integers in the low bits; zeros of floats have equal bytes.
    codes = _np.array(zeros.view(_np.uint8))
    codes &= (1 << pq_type_bits(<pq_type><int>_CODES[name])) - 1
    codes.flags.writeable = False
    return codes.view(dtype)
