# Calls for the modules of the standards.


@final
cdef class Usual:
    """The common calls of a standard: NumPy arrays and scalars of matching types.

    `places` lists the granularities. "scalar": one scale of rank 0, without an axis.
    "single": one scale of rank 0 or 1, with any axis. "axis": a scale for each index.
    "blocks": a scale for each block. `names` maps spellings of result types to names;
    without it, codes have the type of the zero points. `precision` is the type of
    quotients, by default the type of the scale. With `alike`, real numbers have the type of
    the scale. With `attributes`, parameters may also be lists of Python numbers, scales are
    rounded to float32, and quantize allows no zero scale. With `mixed`, zero points may
    differ from the type of the codes.
    """

    cdef bint[<int>PQ_TYPE_COUNT] inputs
    cdef bint[<int>PQ_TYPE_COUNT] scales
    cdef bint[<int>PQ_TYPE_COUNT] zeros
    cdef dict names
    cdef pq_type precision
    cdef bint scalar
    cdef bint single
    cdef bint axis
    cdef bint blocks
    cdef bint alike
    cdef bint attributes
    cdef bint mixed
    cdef bint zero_first
    cdef bint narrow_first

    def __init__(self, tuple inputs not None, tuple scales not None, tuple zeros not None,
                 tuple places not None, *, dict names=None, str precision=None,
                 bint alike=False, bint attributes=False, bint mixed=False,
                 bint zero_first=False, bint narrow_first=False):
        for name in inputs:
            self.inputs[<int>_TYPES[name]] = True
        for name in scales:
            self.scales[<int>_TYPES[name]] = _is_real(<pq_type><int>_TYPES[name])
        for name in zeros:
            self.zeros[<int>_TYPES[name]] = _is_integer(<pq_type><int>_TYPES[name])
        self.scalar = "scalar" in places
        self.single = "single" in places
        self.axis = "axis" in places
        self.blocks = "blocks" in places
        if names is not None:
            self.names = {spelled: _TYPES[name] for spelled, name in names.items()}
        self.precision = <pq_type><int>_REALS.get(precision, <int>PQ_NO_TYPE)
        self.alike = alike
        self.attributes = attributes
        self.mixed = mixed
        self.zero_first = zero_first
        self.narrow_first = narrow_first

    cdef pq_type _asked(self, object dtype) except *:
        """Return the requested type, or PQ_NO_TYPE if it is not known to be allowed."""
        if type(dtype) is not str:
            dtype = _spelled(dtype)
        found = self.names.get(dtype)
        return PQ_NO_TYPE if found is None else <pq_type><int>found

    cdef bint _hold(self, Call *call, object x, object scale, object zero) except -1:
        """Hold the parameters and return True, or return False."""
        if not (
            _hold_parameters(scale, &call.scale, PQ_F32, &call.scale_value)
            and self.scales[<int>call.scale.type]
        ):
            return False
        _set_array(&call.args.scale, &call.scale)
        call.args.zero.data = NULL
        if zero is not None:
            if not (
                _hold_parameters(zero, &call.zero, PQ_I64, &call.zero_value)
                and self.zeros[<int>call.zero.type]
                and _same_shape(&call.scale, &call.zero)
            ):
                return False
            _set_array(&call.args.zero, &call.zero)
        if not (_hold_input(call, x) and self.inputs[<int>call.x.type]):
            return False
        _set_input(call)
        return True

    cdef bint _place(self, Call *call, object axis, object block_size) except -1:
        cdef int ndim = call.x.ndim
        memset(call.scale_strides, 0, ndim * sizeof(ptrdiff_t))
        memset(call.zero_strides, 0, ndim * sizeof(ptrdiff_t))
        call.args.scale.strides = call.scale_strides
        call.args.zero.strides = call.zero_strides
        call.args.block = NULL
        if self.single and _is_single(&call.scale):
            return PyLong_CheckExact(axis) and _is_count(block_size)
        if self.scalar and axis is None:
            return call.scale.ndim == 0
        if block_size is not _NO_BLOCKS:
            return self.blocks and _place_usual_blocks(call, axis, block_size)
        return self.axis and _place_along(call, axis)

    def quantize(self, x, scale, zero_point, axis, *, dtype=None, rounding="half_even",
                 block_size=0):
        """Return codes, or `None` for an uncommon call."""
        cdef Call call
        cdef pq_type code = PQ_U8
        _forget(&call)
        if self.names is not None:
            code = self._asked(dtype)
        call.args.round = <pq_round>_rounding(rounding)
        if self.attributes:
            scale, zero_point = _listed(scale, PQ_F32), _listed(zero_point, PQ_I64)
        if code == PQ_NO_TYPE or not self._hold(&call, x, scale, zero_point):
            return None
        if self.alike and call.x.type != call.scale.type:
            return None
        if _has_zero(&call):
            if self.names is None:
                code = call.zero.type
            if not self._go_together(&call, code):
                return None
        if self.attributes and not _are_normal(&call.scale):
            return None
        if not self._place(&call, axis, block_size):
            return None
        call.args.precision = self.precision
        if self.precision == PQ_NO_TYPE:
            call.args.precision = call.scale.type
        call.args.overflow = not _is_integer(code)
        call.args.zero_first = self.zero_first
        call.args.narrow_first = self.narrow_first
        return self._run(&call, code, True)

    def dequantize(self, q, scale, zero_point, axis, *, dtype=None, block_size=0):
        """Return real numbers, or `None` for an uncommon call."""
        cdef Call call
        cdef pq_type real = PQ_NO_TYPE
        _forget(&call)
        if self.names is not None:
            real = self._asked(dtype)
        if self.attributes:
            scale, zero_point = _listed(scale, PQ_F32), _listed(zero_point, PQ_I64)
        if not self._hold(&call, q, scale, zero_point):
            return None
        if _has_zero(&call) and not self._go_together(&call, call.x.type):
            return None
        if self.names is not None and call.scale.type != real:
            return None
        if not self._place(&call, axis, block_size):
            return None
        call.args.round = PQ_HALF_EVEN
        return self._run(&call, call.scale.type, False)

    cdef bint _go_together(self, Call *call, pq_type code) noexcept:
        """Return True if the type of zero points matches the codes."""
        return call.zero.type == code or (self.mixed and _is_integer(code))

    cdef object _run(self, Call *call, pq_type type, bint quantizes):
        call.args.any_zeros = True
        made = _hold_out(call, None, <str>_NAMES[<int>type], type)
        _set_output(call)
        _run(call, quantizes, 1)
        return made


cdef object _NO_BLOCKS = 0


cdef inline bint _is_single(Array *a) noexcept:
    return a.ndim == 0 or (a.ndim == 1 and a.shape[0] == 1)


cdef inline bint _is_count(object number) except -1:
    return PyLong_CheckExact(number) and number >= 0


cdef inline bint _has_zero(Call *call) noexcept:
    return call.args.zero.data != NULL


cdef inline bint _hold_parameters(object given, Array *held, pq_type type,
                                  void *room) except -1:
    """Hold an exact array or scalar, or one number of a list in memory of the call."""
    if not (PyList_CheckExact(given) or PyTuple_CheckExact(given)):
        return _hold(given, held)
    one = tuple(given)
    if len(one) != 1 or not _put(one, type, room):
        return False
    held.data = <char *>room
    held.ndim = 1
    held.shape[0] = 1
    held.strides[0] = held.itemsize = pq_type_size(type)
    held.held = held.readonly = True
    held.type = type
    held.swapped = False
    return True


cdef inline bint _hold_input(Call *call, object x) except -1:
    """Hold an exact array or scalar, or a packed array."""
    if Py_TYPE(x) is not &PyArray_Type and isinstance(x, Packed):
        return (<Packed>x)._words is not None and _hold_packed(call, x) == 0
    return _hold(x, &call.x)


cdef inline bint _is_axis(object axis, int ndim) except -1:
    return PyLong_CheckExact(axis) and -ndim <= axis < ndim


cdef bint _place_along(Call *call, object axis) except -1:
    """Place one scale for each index of an axis."""
    cdef int ndim = call.x.ndim
    cdef Py_ssize_t at
    if call.scale.ndim != 1 or not _is_axis(axis, ndim):
        return False
    at = <Py_ssize_t>axis % ndim
    if call.scale.shape[0] != call.x.shape[at]:
        return False
    call.scale_strides[at] = call.scale.strides[0]
    call.zero_strides[at] = call.zero.strides[0] if _has_zero(call) else 0
    return True


cdef bint _set_blocks(Call *call, object axis, object block_size) except -1:
    """Read blocks along an axis with a short last block, or extents of blocks that divide
    the input."""
    cdef int ndim = call.x.ndim, d
    if PyLong_CheckExact(block_size):
        if not _is_axis(axis, ndim) or block_size < 1:
            return False
        for d in range(ndim):
            call.block[d] = 1
        d = <int>(<Py_ssize_t>axis % ndim)
        call.block[d] = _within(block_size, call.x.shape[d])
        return True
    if not PyTuple_CheckExact(block_size) or len(<tuple>block_size) != ndim:
        return False
    for d in range(ndim):
        block = (<tuple>block_size)[d]
        if not PyLong_CheckExact(block) or block < 1 or call.x.shape[d] % block:
            return False
        call.block[d] = _within(block, call.x.shape[d])
    return True


cdef bint _place_usual_blocks(Call *call, object axis, object block_size) except -1:
    """Place one scale for each block."""
    cdef int d
    if call.scale.ndim != call.x.ndim or not _set_blocks(call, axis, block_size):
        return False
    for d in range(call.x.ndim):
        if call.scale.shape[d] != _blocks_along(call, d):
            return False
        call.scale_strides[d] = call.scale.strides[d]
        call.zero_strides[d] = call.zero.strides[d] if _has_zero(call) else 0
    call.args.block = call.block
    return True


cdef object _listed(object values, pq_type type):
    """Convert Python numbers to an array, and float64 arrays to float32. Return all other
    objects, and lists of one number, unchanged."""
    if type == PQ_F32 and Py_TYPE(values) is &PyArray_Type:
        return _singles(values)
    if values is None or (
        (PyList_CheckExact(values) or PyTuple_CheckExact(values)) and len(values) == 1
    ):
        return values
    array = _numbers(values, type)
    return values if array is None else array


cdef object _singles(object array):
    cdef Array held
    cdef pq_fpenv found
    cdef double value = 0
    cdef float *to
    cdef Py_ssize_t i
    if not _hold(array, &held) or held.type != PQ_F64 or held.swapped or held.ndim != 1:
        return array
    made = _new_like(&held, PQ_F32)
    to = <float *>PyArray_DATA(<const PyArrayObject *>made)
    found = pq_fpenv_enter()
    for i in range(held.shape[0]):
        memcpy(&value, held.data + i * held.strides[0], sizeof(value))
        to[i] = <float>value
    pq_fpenv_leave(found)
    return made


cdef bint _are_normal(Array *scales) noexcept:
    """Return True if no scale is zero or subnormal. The function compares bits, because
    subnormal numbers may equal zero in some control states."""
    cdef uint32_t bits = 0
    cdef Py_ssize_t i
    if scales.swapped or scales.ndim > 1:
        return False
    for i in range(_size(scales)):
        memcpy(&bits, scales.data + (i * scales.strides[0] if scales.ndim else 0),
               sizeof(bits))
        if bits << 1 < 1 << 24:
            return False
    return True


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
