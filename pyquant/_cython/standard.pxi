# Calls for the modules of the standards.


def quantize_standard(x, scale, zero_point, *, dtype, axis=None, block_size=None,
                      rounding="half_even", precision=None, saturate=True,
                      zero_first=False, narrow_first=False):
    """Quantize for a standard. Input may be int32, and zero points may be any integers or
    narrow floats. Options add the zero point before rounding, and round `x` and `scale`
    to `precision` before the division."""
    return _quantize_any(x, scale, zero_point, dtype, axis, block_size, rounding, precision,
                         saturate, False, None, 1, None, True, True, zero_first,
                         narrow_first)


def dequantize_standard(q, scale, zero_point, *, dtype, axis=None, block_size=None):
    """Dequantize with any zero points, including narrow floats."""
    return _dequantize(q, scale, zero_point, dtype, axis, block_size, None, 1, None, True)


def array_of(foreign, values, name, standard, tuple types not None, /):
    """Return an array of one of `types`, and the type. NumPy arrays, NumPy scalars and
    packed arrays are unchanged; Python numbers get the first type. `foreign` processes
    all other objects and raises errors."""
    if not types:
        raise TypeError("types: expected names of types, got none")
    array = _numbers(values, <pq_type><int>_TYPES[types[0]])
    if array is not None:
        return array, types[0]
    found = known(values)
    if found is None and isinstance(values, Packed):
        found = (<Packed>values)._name
    if found is not None and found in types:
        return values, found
    return foreign(values, name, standard, types)


def axes_within(foreign, axes, Py_ssize_t ndim, standard, /):
    """Return a set of nonnegative axes in ascending order. `foreign` processes all other
    objects and raises errors."""
    cdef tuple found
    kind = type(axes)
    if not (kind is tuple or kind is list or kind is set or kind is frozenset):
        return foreign(axes, ndim, standard)
    found = tuple(axes)
    for axis in found:
        if not PyLong_CheckExact(axis) or not 0 <= axis < ndim:
            return foreign(axes, ndim, standard)
    return found if len(found) < 2 else tuple(sorted(set(found)))


def first_zero(scales, /):
    """Return the index of the first zero in one-dimensional float32 scales, else -1. The
    function compares bits, because subnormal numbers may equal zero in some control
    states."""
    cdef Array held
    cdef Py_ssize_t i
    cdef uint32_t bits = 0
    if not _hold(scales, &held) or held.type != PQ_F32 or held.swapped or held.ndim != 1:
        raise TypeError(
            f"scales: expected float32 of one dimension, got {_describe(scales)}"
        )
    for i in range(held.shape[0]):
        memcpy(&bits, held.data + i * held.strides[0], sizeof(bits))
        if bits << 1 == 0:
            return i
    return -1
