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


def array_of(foreign, values, name, standard, tuple types not None):
    """An array of one of `types`, and which that is: arrays and scalars of NumPy and packed
    arrays as they are, Python numbers as the first type. `foreign` is called for what needs
    more of a look, also for what is to be refused."""
    array = _numbers(values, <pq_type><int>_TYPES[types[0]])
    if array is not None:
        return array, types[0]
    found = known(values)
    if found is None and isinstance(values, Packed):
        found = values._name
    if found is not None and found in types:
        return values, found
    return foreign(values, name, standard, types)


def list_of(foreign, values, name, standard, tuple types not None):
    """A list of Python numbers as an array of the first of `types`. `foreign` is called for
    what needs more of a look."""
    if PyList_CheckExact(values) or PyTuple_CheckExact(values):
        array = _numbers(values, <pq_type><int>_TYPES[types[0]])
        if array is not None:
            return array
    return foreign(values, name, standard, types)


def axes_within(foreign, axes, Py_ssize_t ndim, standard):
    """A set of axes, which are not negative, in ascending order. `foreign` is called for
    what needs more of a look, also for what is to be refused."""
    cdef tuple found
    kind = type(axes)
    if not (kind is tuple or kind is list or kind is set or kind is frozenset):
        return foreign(axes, ndim, standard)
    found = tuple(axes)
    for axis in found:
        if not PyLong_CheckExact(axis) or not 0 <= axis < ndim:
            return foreign(axes, ndim, standard)
    return found if len(found) < 2 else tuple(sorted(set(found)))


def first_zero(scales):
    """Where the first zero is in float32 scales of one dimension; -1 without one. By their
    bits: depending on the control state subnormal numbers are equal to zero."""
    cdef Py_buffer memory
    cdef Py_ssize_t i, found = -1
    cdef uint32_t bits = 0
    PyObject_GetBuffer(scales, &memory, PyBUF_STRIDED_RO)
    for i in range(memory.shape[0]):
        memcpy(&bits, <char *>memory.buf + i * memory.strides[0], sizeof(bits))
        if bits << 1 == 0:
            found = i
            break
    PyBuffer_Release(&memory)
    return found


# What most calls of a standard are given is recognised at once; whatever else it may be,
# and what is to be refused, the standard's module looks at.


@final
cdef class Usual:
    """Exact arrays and scalars of NumPy, of types that go together, with one scale or one
    for each index of an axis, and as many zero points of the type of the codes. `alike`:
    real numbers are of the type of the scale. `broadcasts`: one element is one scale,
    whatever the axis."""

    cdef bint[<int>PQ_TYPE_COUNT] inputs
    cdef bint[<int>PQ_TYPE_COUNT] scales
    cdef bint[<int>PQ_TYPE_COUNT] codes
    cdef bint alike
    cdef bint broadcasts

    def __init__(self, tuple inputs not None, tuple scales not None, tuple codes not None,
                 *, bint alike=False, bint broadcasts=False):
        for name in inputs:
            self.inputs[<int>_TYPES[name]] = True
        for name in scales:
            self.scales[<int>_TYPES[name]] = _is_real(<pq_type><int>_TYPES[name])
        for name in codes:
            self.codes[<int>_TYPES[name]] = _is_integer(<pq_type><int>_TYPES[name])
        self.alike = alike
        self.broadcasts = broadcasts

    cdef bint _hold(self, Call *call, object x, object scale, object zero,
                    object axis) except -1:
        """Whether it is so; then the call has it all."""
        if not (_hold(x, &call.x) and self.inputs[<int>call.x.type]):
            return False
        if not (_hold(scale, &call.scale) and self.scales[<int>call.scale.type]):
            return False
        call.args.zero.data = NULL
        if zero is not None:
            if not (_hold(zero, &call.zero) and self.codes[<int>call.zero.type]
                    and _same_shape(&call.scale, &call.zero)):
                return False
            _set_array(&call.args.zero, &call.zero)
        _set_array(&call.args.scale, &call.scale)
        _set_input(call)
        return self._place(call, axis)

    cdef bint _place(self, Call *call, object axis) except -1:
        cdef int ndim = call.x.ndim
        cdef Py_ssize_t at
        if call.scale.ndim > 1 or not (axis is None or PyLong_CheckExact(axis)):
            return False
        memset(call.scale_strides, 0, ndim * sizeof(ptrdiff_t))
        memset(call.zero_strides, 0, ndim * sizeof(ptrdiff_t))
        call.args.scale.strides = call.scale_strides
        call.args.zero.strides = call.zero_strides
        call.args.block = NULL
        if call.scale.ndim == 0:
            return axis is None or self.broadcasts
        if self.broadcasts and call.scale.shape[0] == 1:
            return True
        if axis is None or not -ndim <= axis < ndim:
            return False
        at = <Py_ssize_t>axis % ndim
        if call.scale.shape[0] != call.x.shape[at]:
            return False
        call.scale_strides[at] = call.scale.strides[0]
        call.zero_strides[at] = call.zero.strides[0] if _has_zero(call) else 0
        return True

    def quantize(self, x, scale, zero_point, axis, *, str code=None,
                 rounding="half_even", str precision=None, bint narrow_first=False):
        """Codes of the type `code`, or where that is None of that of the zero point;
        quotients are rounded to `precision`, or to the type of the scale. None for what is
        not usual."""
        cdef Call call
        cdef pq_type type
        _forget(&call)
        if not self._hold(&call, x, scale, zero_point, axis) or (
            self.alike and call.x.type != call.scale.type
        ):
            return None
        if code is None:
            type = call.zero.type if _has_zero(&call) else PQ_U8
        else:
            type = <pq_type><int>_CODES[code]
            if _has_zero(&call) and call.zero.type != type:
                return None
        call.args.round = <pq_round>_rounding(rounding)
        call.args.precision = call.scale.type
        if precision is not None:
            call.args.precision = <pq_type><int>_REALS[precision]
        call.args.narrow_first = narrow_first
        return self._run(&call, type, True)

    def dequantize(self, q, scale, zero_point, axis, *, str real=None):
        """Real numbers of the type of the scale, which is to be `real` if that is given;
        None for what is not usual."""
        cdef Call call
        _forget(&call)
        if not self._hold(&call, q, scale, zero_point, axis):
            return None
        if _has_zero(&call) and call.zero.type != call.x.type:
            return None
        if real is not None and call.scale.type != <pq_type><int>_REALS[real]:
            return None
        call.args.round = PQ_HALF_EVEN
        return self._run(&call, call.scale.type, False)

    cdef object _run(self, Call *call, pq_type type, bint quantizes):
        call.args.any_zeros = True
        made = _hold_out(call, None, <str>_NAMES[<int>type], type)
        _set_output(call)
        _run(_active, call, quantizes, 1)
        return made


cdef inline bint _has_zero(Call *call) noexcept:
    return call.args.zero.data != NULL
