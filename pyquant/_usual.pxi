# What most calls are given, recognised at once. Accepts only: anything else, and what is to
# be refused, goes the way of all other calls.


# A contiguous array, of which the dimensions do not matter.
cdef struct Run:
    char *data
    ptrdiff_t n
    pq_type type


# How a run is computed.
cdef struct How:
    double scale
    bint has_zero
    int64_t zero
    pq_round round
    bint quantizes


cdef inline bint _is_run(object array, Run *run) except -1:
    cdef const PyArrayObject *a = <const PyArrayObject *>array
    cdef const PyArray_Descr *descr
    if Py_TYPE(array) is not &PyArray_Type or not PyArray_IS_C_CONTIGUOUS(a):
        return False
    descr = PyArray_DESCR(a)
    run.type = _type_of_array(array, descr.type_num)
    run.data = <char *>PyArray_DATA(a)
    run.n = PyArray_SIZE(a)
    return run.type != PQ_NO_TYPE and PyArray_ISNBO(descr.byteorder)


cdef inline bint _has_shape_of(object array, object other) noexcept:
    cdef const PyArrayObject *a = <const PyArrayObject *>array
    cdef const PyArrayObject *b = <const PyArrayObject *>other
    cdef int ndim = PyArray_NDIM(a)
    if ndim != PyArray_NDIM(b):
        return False
    return ndim == 0 or memcmp(  # which takes no null pointers
        PyArray_DIMS(a), PyArray_DIMS(b), ndim * sizeof(Py_ssize_t)
    ) == 0


cdef inline bint _are_apart(Run *a, Run *b) noexcept:
    cdef uintptr_t from_a = <uintptr_t>a.data, from_b = <uintptr_t>b.data
    return (
        from_a + a.n * pq_type_size(a.type) <= from_b
        or from_b + b.n * pq_type_size(b.type) <= from_a
    )


cdef bint _is_usual_zero(object zero, How *how, pq_type code) except -1:
    """None, or a Python integer that `code` holds."""
    cdef const pq_type_row *row
    cdef int beyond = 0
    how.has_zero = zero is not None
    if zero is None:
        return True
    if not PyLong_CheckExact(zero) or not _is_integer(code):
        return False
    row = row_of_type(code)
    how.zero = PyLong_AsLongLongAndOverflow(zero, &beyond)
    return not beyond and row.lowest <= how.zero <= <int64_t>row.highest


cdef bint _is_usual_out(object out, object like, Run *given, Run *to) except -1:
    """Whether `out` is as a new array would be, of the type `to` has."""
    cdef pq_type type = to.type
    return (
        _is_run(out, to)
        and to.type == type
        and PyArray_ISWRITEABLE(<const PyArrayObject *>out)
        and _has_shape_of(out, like)
        and _are_apart(given, to)
    )


cdef bint _run_usual(const pq_kernels *kernels, Run *given, Run *to, How *how,
                     bint packs) noexcept:
    """Whether the core could do it."""
    cdef pq_args args
    cdef ptrdiff_t in_stride = pq_type_size(given.type)
    cdef ptrdiff_t out_stride = pq_type_size(to.type), same = 0
    cdef int status
    if given.n == 0:
        return True
    memset(&args, 0, sizeof(args))
    args.size = sizeof(args)
    args.ndim = 1
    args.shape = &given.n
    args.inp.data = given.data
    args.inp.strides = &in_stride
    args.inp.type = given.type
    args.out.data = to.data
    args.out.strides = &out_stride
    args.out.type = to.type
    if packs:
        out_stride = pq_type_bits(to.type)
        args.out.bit_strides = &out_stride
    args.scale.data = &how.scale
    args.scale.strides = &same
    args.scale.type = PQ_F64
    if how.has_zero:
        args.zero.data = &how.zero
        args.zero.strides = &same
        args.zero.type = PQ_I64
    args.round = how.round
    if given.n >= _NOGIL_SIZE:
        with nogil:
            status = _run_whole(kernels, &args, how.quantizes)
    else:
        status = _run_whole(kernels, &args, how.quantizes)
    return status == PQ_OK


cdef object _made_usual(const pq_kernels *kernels, object array, Run *given, pq_type type,
                        How *how, object out):
    """The result as an array, or None."""
    cdef const PyArrayObject *a = <const PyArrayObject *>array
    cdef Run to
    cdef object made = out
    to.type = type
    if out is None:
        made = _new_array(PyArray_NDIM(a), PyArray_DIMS(a), type)
        to.data = <char *>PyArray_DATA(<const PyArrayObject *>made)
    elif not _is_usual_out(out, array, given, &to):
        return None
    return made if _run_usual(kernels, given, &to, how, False) else None


cdef object _packed_usual(const pq_kernels *kernels, object array, Run *given,
                          pq_type type, How *how):
    """The result in ONNX's layout, or None."""
    cdef const PyArrayObject *a = <const PyArrayObject *>array
    cdef Py_ssize_t size = (given.n * pq_type_bits(type) + 7) // 8
    cdef Run to
    cdef str name = <str>_NAMES[<int>type]
    if size >= _LARGE or name not in _PACKED:
        return None
    data = PyBytes_FromStringAndSize(NULL, size)
    to.data = PyBytes_AS_STRING(data)
    to.type = type
    if not _run_usual(kernels, given, &to, how, True):
        return None
    shape = _extents(PyArray_NDIM(a), PyArray_DIMS(a))
    return _packed(shape, data, name, _ONNX[pq_type_bits(type)])


cdef object _quantize_usual(const pq_kernels *kernels, object x, object scale,
                            object zero_point, object dtype, object rounding,
                            object packed, object out):
    """Beside options that are their defaults. Names come first, and nothing whose hash may
    be a user's code: arrays must not change once they are looked at."""
    cdef Run given
    cdef How how
    cdef pq_type code = PQ_I8
    if dtype is not None:
        found = _CODES.get(_spelled(dtype))
        if found is None:
            return None
        code = <pq_type><int>found
    if type(rounding) is not str or (
        _is_narrow_float(code) and rounding is not _HALF_EVEN
    ):
        return None
    how.round = <pq_round>_rounding(rounding)
    if not PyFloat_CheckExact(scale) or not _is_usual_zero(zero_point, &how, code):
        return None
    if not _is_run(x, &given) or not _is_real(given.type):
        return None
    how.scale = PyFloat_AS_DOUBLE(scale)
    how.quantizes = True
    if packed is False:
        return _made_usual(kernels, x, &given, code, &how, out)
    return _packed_usual(kernels, x, &given, code, &how) if out is None else None


cdef object _dequantize_usual(const pq_kernels *kernels, object q, object scale,
                              object zero_point, object dtype, object out):
    cdef Run given, to
    cdef How how
    cdef pq_type type = PQ_F32
    if dtype is not None:
        found = _REALS.get(_spelled(dtype))
        if found is None:
            return None
        type = <pq_type><int>found
    if not PyFloat_CheckExact(scale) or not _is_run(q, &given) or not _is_code(given.type):
        return None
    if dtype is None and out is not None:
        if not _is_run(out, &to) or not _is_real(to.type):
            return None
        type = to.type
    if not _is_usual_zero(zero_point, &how, given.type):
        return None
    how.scale = PyFloat_AS_DOUBLE(scale)
    how.round = PQ_HALF_EVEN
    how.quantizes = False
    return _made_usual(kernels, q, &given, type, &how, out)


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
