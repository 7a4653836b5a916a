# quantize and dequantize, as functions and as methods of QParams.

cdef extern from "Python.h":
    ctypedef PyObject *(*PyCFunction)(PyObject *, PyObject *)
    ctypedef PyObject *(*vectorcallfunc)(
        PyObject *, PyObject *const *, size_t, PyObject *
    ) noexcept
    ctypedef struct PyMethodDef:
        const char *ml_name
        PyCFunction ml_meth
        int ml_flags
        const char *ml_doc
    ctypedef struct CalledType "PyTypeObject":
        Py_ssize_t tp_vectorcall_offset
    int METH_FASTCALL, METH_KEYWORDS
    object PyCFunction_NewEx(PyMethodDef *, PyObject *, object)
    PyObject *PyObject_Vectorcall(PyObject *, PyObject *const *, size_t, PyObject *)
    vectorcallfunc PyVectorcall_Function(object)
    Py_ssize_t PyVectorcall_NARGS(size_t)
    PyObject *PyTuple_GET_ITEM(PyObject *, Py_ssize_t)
    Py_ssize_t PyTuple_GET_SIZE(PyObject *)
    PyObject *PyModule_GetDict(PyObject *)
    PyObject *PyDict_GetItem(PyObject *, object)


# ---- hints in errors about places and names of arguments ----

# The vectorcall function that Cython gives to all functions of this module.
cdef vectorcallfunc _call_cython = NULL
cdef PyObject *_quantize_function = NULL
cdef PyObject *_quantize_method = NULL


cdef int _raise_hint(object error, object function, tuple args, object names) except -1:
    """If `error` is about positions or names of arguments, raise the error with a hint."""
    from pyquant._refused import hint_of_call

    message = hint_of_call(error, function, args, names)
    if message:
        raise TypeError(message) from None
    return 0


cdef int _fail() except -1:
    """Raise the exception that is set already."""
    return -1


cdef PyObject *_refuse(PyObject *function, PyObject *const *args, Py_ssize_t n,
                       PyObject *names) except NULL:
    """Raise the error of a failed call, with a hint if the arguments do not match."""
    try:
        _fail()
    except TypeError as error:
        given = tuple([<object>args[i] for i in range(n)])
        _raise_hint(error, <object>function, given,
                    <object>names if names != NULL else ())
        raise


cdef PyObject *_call_hinted(PyObject *function, PyObject *const *args, size_t n,
                            PyObject *names) except NULL:
    cdef PyObject *made = _call_cython(function, args, n, names)
    return made if made != NULL else _refuse(function, args, PyVectorcall_NARGS(n), names)


# Common keywords. This file parses common keywords itself, because Cython's parser needs a
# third of the time of a small call. Each function accepts a contiguous part of this list.
cdef enum:
    _KEY_AXIS, _KEY_BLOCK, _KEY_DTYPE, _KEY_OUT, _KEY_THREADS, _KEY_PACKED, _KEY_ROUNDING
    _KEY_BEYOND, _KEY_NAN, _COMMON_KEYS


cdef tuple _KEYS = (
    "axis", "block_size", "dtype", "out", "threads", "packed", "rounding", "out_of_range",
    "nan"
)
cdef tuple _DEFAULTS = (
    None, None, None, None, _ONE, False, _HALF_EVEN, _SATURATE, _LOWEST
)


cdef bint _has_common_keywords(PyObject *const *args, size_t n, PyObject *names, int first,
                               int end, PyObject **given) noexcept:
    """Store in `given` the values or the defaults of all common keywords. Return False if
    the call has any keyword except the common keywords with indices from `first` to `end -
    1`."""
    cdef Py_ssize_t i, count = PyVectorcall_NARGS(n)
    cdef int k
    for k in range(_COMMON_KEYS):
        given[k] = PyTuple_GET_ITEM(<PyObject *>_DEFAULTS, k)
    for i in range(0 if names == NULL else PyTuple_GET_SIZE(names)):
        k = first
        while k < end and (
            PyTuple_GET_ITEM(names, i) != PyTuple_GET_ITEM(<PyObject *>_KEYS, k)
        ):
            k += 1
        if k == end:
            return False
        given[k] = args[count + i]
    return True


cdef inline PyObject *_at(PyObject *const *objects, int i) noexcept:
    """Return a borrowed reference to an object of an array. Without this function, Cython
    would increase the reference count, which takes time."""
    return objects[i]


cdef PyObject *_call_function(PyObject *function, PyObject *const *args, size_t n,
                              PyObject *names) except NULL:
    """Call quantize or dequantize, without Cython's parser if all keywords are common."""
    cdef PyObject *given[_COMMON_KEYS]
    cdef bint quantizes = function == _quantize_function
    cdef Py_ssize_t count = PyVectorcall_NARGS(n)
    cdef PyObject *zero = <PyObject *>None
    if not 2 <= count <= 3 or (
        not quantizes and PyTuple_CheckExact(<object>_at(args, 1))  # a pair of scales
    ) or not _has_common_keywords(
        args, n, names, 0, _COMMON_KEYS if quantizes else _KEY_PACKED, given
    ):
        return _call_hinted(function, args, n, names)
    if count == 3:
        zero = args[2]
    if quantizes:
        made = _quantize(
            <object>_at(args, 0), <object>_at(args, 1), <object>zero,
            <object>_at(given, _KEY_DTYPE), <object>_at(given, _KEY_AXIS),
            <object>_at(given, _KEY_BLOCK), <object>_at(given, _KEY_ROUNDING), None, True,
            _packing(None, <object>_at(given, _KEY_PACKED)), <object>_at(given, _KEY_OUT),
            <object>_at(given, _KEY_THREADS),
            _affine(None, False, None, None, <object>_at(given, _KEY_BEYOND),
                    <object>_at(given, _KEY_NAN)), False
        )
    else:
        made = _dequantize(
            <object>_at(args, 0), <object>_at(args, 1), <object>zero,
            <object>_at(given, _KEY_DTYPE), <object>_at(given, _KEY_AXIS),
            <object>_at(given, _KEY_BLOCK), <object>_at(given, _KEY_OUT),
            <object>_at(given, _KEY_THREADS), None, False
        )
    Py_INCREF(made)
    return <PyObject *>made


cdef PyObject *_call_method(PyObject *function, PyObject *const *args, size_t n,
                            PyObject *names) except NULL:
    """Call a method of Calls, without Cython's parser if all keywords are common. Check the
    type of `self` first, because Cython does not check the type."""
    cdef PyObject *given[_COMMON_KEYS]
    cdef bint quantizes = function == _quantize_method
    if PyVectorcall_NARGS(n) > 0 and not isinstance(<object>_at(args, 0), Calls):
        raise TypeError(f"self: expected QParams, got {type(<object>args[0]).__name__}")
    if PyVectorcall_NARGS(n) != 2 or not _has_common_keywords(
        args, n, names, _KEY_OUT if quantizes else _KEY_DTYPE,
        _COMMON_KEYS if quantizes else _KEY_PACKED, given
    ):
        return _call_hinted(function, args, n, names)
    if quantizes:
        made = _quantize_by(
            <Calls>_at(args, 0), <object>_at(args, 1), <object>_at(given, _KEY_ROUNDING),
            None, True, _packing(None, <object>_at(given, _KEY_PACKED)),
            <object>_at(given, _KEY_OUT), <object>_at(given, _KEY_THREADS),
            <object>_at(given, _KEY_BEYOND), <object>_at(given, _KEY_NAN)
        )
    else:
        made = _dequantize_by(
            <Calls>_at(args, 0), <object>_at(args, 1), <object>_at(given, _KEY_DTYPE),
            <object>_at(given, _KEY_OUT), <object>_at(given, _KEY_THREADS)
        )
    Py_INCREF(made)
    return <PyObject *>made


@final
cdef class _Definition:
    """A PyMethodDef, and the name and docstring that it points to."""
    cdef bytes name
    cdef bytes text
    cdef PyMethodDef how


cdef str _FUNCTION = "function"


cdef PyObject *_call_python(PyObject *module, PyObject *const *args, Py_ssize_t n,
                            PyObject *names) except NULL:
    cdef PyObject *function = PyDict_GetItem(PyModule_GetDict(module), _FUNCTION)
    cdef PyObject *made = PyObject_Vectorcall(function, args, n, names)
    return made if made != NULL else _refuse(function, args, n, names)


cdef bytes _text_of(function):
    """Return the docstring of a C function: the signature, then the text."""
    code = function.__code__
    count = code.co_argcount
    names = code.co_varnames[:count + code.co_kwonlyargcount]
    defaults = function.__defaults__ or ()
    known = dict(zip(names[count - len(defaults):count], defaults))
    known.update(function.__kwdefaults__ or {})
    shown = [f"{name}={known[name]!r}" if name in known else name for name in names]
    if count < len(shown):
        shown.insert(count, "*")
    return f"{function.__name__}({', '.join(shown)})\n--\n\n{function.__doc__}".encode()


def hinted(function, /):
    """Decorate a function so that errors about positions and names of arguments have hints.

    Functions of this module get a new vectorcall. Python functions become C functions,
    because a decorator in Python would double the time of a small call. The `__self__` of
    the C function is a module object, and an attribute of the module object is the Python
    function.
    """
    global _call_cython, _quantize_function, _quantize_method
    cdef _Definition made
    cdef vectorcallfunc called = PyVectorcall_Function(function)
    cdef Py_ssize_t offset = (<CalledType *>Py_TYPE(function)).tp_vectorcall_offset
    if type(function) is not _Function:
        if _call_cython == NULL:
            _call_cython = called
        if called == _call_cython and called != NULL:
            name = function.__qualname__
            called = <vectorcallfunc><void *>_call_hinted
            if "." in name:
                called = <vectorcallfunc><void *>_call_method
                if name == "Calls.quantize":
                    _quantize_method = <PyObject *>function
            elif name in ("quantize", "dequantize"):
                called = <vectorcallfunc><void *>_call_function
                if name == "quantize":
                    _quantize_function = <PyObject *>function
            (<vectorcallfunc *>(<char *><PyObject *>function + offset))[0] = called
        return function
    made = _Definition()
    made.name = function.__name__.encode()
    made.text = _text_of(function)
    made.how.ml_name = made.name
    made.how.ml_meth = <PyCFunction><void *>_call_python
    made.how.ml_flags = METH_FASTCALL | METH_KEYWORDS
    made.how.ml_doc = made.text
    module = _Module(function.__module__)
    module.function, module.definition = function, made
    return PyCFunction_NewEx(&made.how, <PyObject *>module, function.__module__)


# ---- common calls ----

# The fast path of common calls raises no errors. Calls with errors, and calls that the fast
# path does not support, use the general path.


# A contiguous array, as a sequence of elements.
cdef struct Run:
    char *data
    ptrdiff_t n
    pq_type type


cdef ptrdiff_t _same = 0  # the stride of a parameter that all elements share


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


cdef inline bint _are_apart(Run *a, Run *b) noexcept:
    cdef uintptr_t from_a = <uintptr_t>a.data, from_b = <uintptr_t>b.data
    return (
        from_a + a.n * pq_type_size(a.type) <= from_b
        or from_b + b.n * pq_type_size(b.type) <= from_a
    )


cdef bint _is_usual_zero(object zero, pq_args *args, int64_t *room,
                         pq_type code) except -1:
    """Store the zero point in `args`: `None`, or a Python integer within the type `code`.
    `room` is memory for the integer. Return False for any other zero point."""
    cdef const pq_type_row *row
    cdef int beyond = 0
    args.zero.data = NULL
    if zero is None:
        return True
    if not PyLong_CheckExact(zero) or not _is_integer(code):
        return False
    row = row_of_type(code)
    room[0] = PyLong_AsLongLongAndOverflow(zero, &beyond)
    args.zero = pq_array(room, &_same, PQ_I64, False, NULL)
    return not beyond and row.lowest <= room[0] <= <int64_t>row.highest


cdef bint _is_usual_out(object out, object like, Run *given, Run *to) except -1:
    """Return True if `out` is C-contiguous, has the type of the result and the shape of
    `like`."""
    cdef pq_type type = to.type
    return (
        _is_run(out, to)
        and to.type == type
        and PyArray_ISWRITEABLE(<const PyArrayObject *>out)
        and PyArray_SAMESHAPE(<const PyArrayObject *>out, <const PyArrayObject *>like)
        and _are_apart(given, to)
    )


cdef inline int _run_checked(const pq_args *args, bint quantizes) noexcept nogil:
    if quantizes:
        return pq_quantize_run(_active, args)
    return pq_dequantize_run(_active, args)


cdef bint _run_usual(pq_args *args, Run *given, Run *to, bint quantizes,
                     bint packs) noexcept:
    """Run a call whose options and parameters are set. Return False if the core rejects the
    call. The general path then repeats the call and raises the error."""
    cdef ptrdiff_t in_stride = pq_type_size(given.type)
    cdef ptrdiff_t out_stride = pq_type_size(to.type)
    cdef int status
    if given.n == 0:
        return True
    args.ndim = 1
    args.shape = &given.n
    args.block = NULL
    args.inp = pq_array(given.data, &in_stride, given.type, False, NULL)
    args.out = pq_array(to.data, &out_stride, to.type, False, NULL)
    if packs:
        out_stride = pq_type_bits(to.type)
        args.out.bit_strides = &out_stride
    if given.n >= _NOGIL_SIZE:
        with nogil:
            status = _run_checked(args, quantizes)
    else:
        status = _run_checked(args, quantizes)
    return status == PQ_OK


cdef object _made_usual(pq_args *args, object array, Run *given, pq_type type, object out,
                        bint quantizes):
    """Run the fast path. Return the result, or `None` if the call needs the general path.
    """
    cdef const PyArrayObject *a = <const PyArrayObject *>array
    cdef Run to
    cdef object made = out
    to.type = type
    if out is None:
        if _dtypes_held[<int>type] == NULL:  # importing the dtype may run any code
            return None
        made = _new_array(PyArray_NDIM(a), PyArray_DIMS(a), type)
        to.data = <char *>_data(made)
    elif not _is_usual_out(out, array, given, &to):
        return None
    return made if _run_usual(args, given, &to, quantizes, False) else None


cdef object _packed_usual(pq_args *args, object array, Run *given, pq_type type):
    """Run the fast path, and pack the codes in the layout "onnx". Return the result, or
    `None` if the call needs the general path."""
    cdef const PyArrayObject *a = <const PyArrayObject *>array
    cdef Py_ssize_t size = (given.n * pq_type_bits(type) + 7) // 8
    cdef Run to
    cdef str name = <str>_NAMES[<int>type]
    if given.n == 0 or size >= _LARGE or name not in _PACKED:
        return None
    # Read the shape before the run, because another thread may change the shape during the
    # run.
    shape = _extents(PyArray_NDIM(a), PyArray_DIMS(a))
    data = PyBytes_FromStringAndSize(NULL, size)
    to.data = PyBytes_AS_STRING(data)
    to.type = type
    if not _run_usual(args, given, &to, True, True):
        return None
    return _packed(shape, data, name, _ONNX[pq_type_bits(type)])


cdef object _quantize_usual(object x, object scale, object zero_point, object dtype,
                            object rounding, object layout, object out, _Affine policy):
    """Quantize on the fast path, with default options and a given policy. Check names
    before arrays, because the hash function of a user's object could change an array."""
    cdef Run given
    cdef pq_args args
    cdef double scale_room
    cdef int64_t zero_room
    cdef pq_round round
    cdef pq_type code = PQ_I8
    if dtype is not None:
        code = <pq_type>_spelled_type(dtype)
        if not _is_code(code):
            return None
    if type(rounding) is not str or (
        _is_narrow_float(code) and rounding is not _HALF_EVEN
    ):
        return None
    round = <pq_round>_rounding(rounding)
    if not PyFloat_CheckExact(scale) or (
        not _is_usual_zero(zero_point, &args, &zero_room, code)
    ):
        return None
    if not _is_run(x, &given) or not _is_real(given.type):
        return None
    _forget_options(&args)
    args.round = round
    scale_room = PyFloat_AS_DOUBLE(scale)
    args.scale = pq_array(&scale_room, &_same, PQ_F64, False, NULL)
    if policy is not None:
        args.beyond, args.refuse_nan = policy.beyond, policy.refuse_nan
    if layout is None:
        return _made_usual(&args, x, &given, code, out, True)
    return _packed_usual(&args, x, &given, code) if out is None else None


cdef object _dequantize_usual(object q, object scale, object zero_point, object dtype,
                              object out):
    cdef Run given, to
    cdef pq_args args
    cdef double scale_room
    cdef int64_t zero_room
    cdef pq_type type = PQ_F32
    if dtype is not None:
        type = <pq_type>_spelled_type(dtype)
        if not _is_real(type):
            return None
    if not PyFloat_CheckExact(scale) or not _is_run(q, &given) or not _is_code(given.type):
        return None
    if dtype is None and out is not None:
        if not _is_run(out, &to) or not _is_real(to.type):
            return None
        type = to.type
    if not _is_usual_zero(zero_point, &args, &zero_room, given.type):
        return None
    _forget_options(&args)
    scale_room = PyFloat_AS_DOUBLE(scale)
    args.scale = pq_array(&scale_room, &_same, PQ_F64, False, NULL)
    return _made_usual(&args, q, &given, type, out, False)


# ---- all calls ----

cdef inline int _hold_parameters(Call *call, object scale, object zero_point, object axis,
                                 object block_size, const char *whose) except -1:
    """Store the descriptions and strides of scale and zero point in the call. `whose` is
    stored in call.whose."""
    _hold_scale(call, scale)
    _hold_zero(call, zero_point, scale)
    call.whose = whose
    return _place_parameters(call, axis, block_size)


cdef inline int _check_apart(Call *call, object exact, object array, object scale,
                             object zero_point, object offset) except -1:
    """Raise an error if the caller's `out` shares memory with another argument."""
    if not call.has_out:
        return 0
    _check_overlap(call, exact, &call.x, array, "the input")
    _check_overlap(call, exact, &call.scale, scale, "scale")
    _check_overlap(call, exact, &call.zero, zero_point, "zero_point")
    _check_overlap(call, exact, &call.offset, offset, "offset")
    return 0


cdef object _apply(Call *call, object array, object scale, object zero_point, pq_type code,
                   pq_type type, object axis, object block_size, object out, int threads,
                   bint quantizes, tuple how, bint any_zero, object offset):
    """Quantize or dequantize, after the conversion of all arguments. `how` is the tuple
    (layout, axis, bits) of a packed result, or `None`."""
    cdef const char *whose = NULL
    if any_zero:  # QParams
        whose = b"x" if quantizes else b"q"
    _set_input(call)
    _hold_parameters(call, scale, zero_point, axis, block_size, whose)
    call.args.any_zeros = any_zero and not quantizes and _is_integer(code)
    if how is not None and how[2] == 24:
        call.args.out_layout = &call.out_layout  # Limits zero points to 24 bits.
    # A QParams has checked that zero points fit int32, but not that zero points fit 24
    # bits. If there are many integer zero points, the core checks each zero point when it
    # reads the zero point.
    if call.args.zero.data != NULL and (_has_24_bits(call, code) or not any_zero and (
        not call.zero.held
        or _size(&call.zero) < _FEW_ZEROS
        or _size(&call.x) == 0
        or _is_narrow_float(code)
        or _is_narrow_float(call.args.zero.type)
    )):
        _check_zero(call, code)
    if how is not None:
        shape = _shape(&call.x)
        _check_product(shape, "x")
        made = _hold_packed_out(call, out, type, how)
    else:
        made = _hold_out(call, out, type)
    _check_apart(call, made, array, scale, zero_point, offset)
    _run(call, quantizes, threads)
    if out is not None:
        return out
    return made if how is None else _packed(shape, made, _NAMES[<int>type], how)


cdef object _quantize(object x, object scale, object zero_point, object dtype, object axis,
                      object block_size, object rounding, object precision, object saturate,
                      object layout, object out, object threads, _Affine affine,
                      bint any_zero):
    """Quantize, on the fast path if possible. If `any_zero`, a QParams has checked the zero
    points."""
    if (
        axis is None and block_size is None and precision is None and saturate is True
        and threads is _ONE and (layout is None or layout is _ONNX_LAYOUT)
        and (affine is None or affine.is_policy)
    ):
        made = _quantize_usual(x, scale, zero_point, dtype, rounding, layout, out, affine)
        if made is not None:
            return made
    return _quantize_any(x, scale, zero_point, dtype, axis, block_size, rounding, precision,
                         saturate, layout, out, threads, affine, any_zero)


cdef object _quantize_any(object x, object scale, object zero_point, object dtype,
                          object axis, object block_size, object rounding, object precision,
                          object saturate, object layout, object out, object threads,
                          _Affine affine, bint any_zero, bint fakes=False,
                          object mask=None):
    cdef Call call
    cdef tuple how = None
    cdef str name
    cdef object offset = None
    cdef pq_type code = PQ_I8
    _forget(&call)
    array = _real_array(x, "x")
    if dtype is not None:
        code = _type_in(_CODES, dtype, "dtype", _CODE_NAMES)
    elif zero_point is not None:
        code = _type_of_zero(zero_point)
    name = <str>_NAMES[<int>code]
    rounding = _set_rounding(&call.args, rounding)
    if precision is not None:
        call.args.precision = _type_in(_REALS, precision, "precision", _PRECISIONS)
    call.args.overflow = not _flag(saturate, "saturate")
    if layout is not None:
        how = _requested(layout, name, any_zero)
        name = <str>how[0]
        code = <pq_type><int>_CODES[name]
    if call.args.overflow or _is_narrow_float(code):
        _check_options(name, rounding, not call.args.overflow)
    scale = _scale_array(&call, scale)
    zero_point = _zero_array(&call, zero_point)
    axis = integers(axis, "axis")
    block_size = integers(block_size, "block_size")
    threads = _threads_of(threads)
    if affine is not None:
        if affine.offset is not None:
            offset = affine.offset
            _hold_offset(&call, scale, offset)
        affine.set(&call, name, True, 0 if how is None else <int>how[3])
    _hold_real(array, &call.x, "x",
               "" if fakes else ", or change the scale of codes with QParams.requantize")
    if affine is not None:
        _check_precision(
            &call, "offset, inverse, fill, quant_range, out_of_range and nan"
        )
        if call.args.overflow and affine.beyond == PQ_REFUSE:
            raise ValueError(
                "saturate: expected True beside out_of_range='raise', got False"
            )
    if fakes:
        return _fake(&call, array, scale, zero_point, code, axis, block_size, offset, mask,
                     out, threads)
    if how is not None:
        how = _how(how, call.x.ndim)
    return _apply(&call, array, scale, zero_point, code, code, axis, block_size, out,
                  threads, True, how, any_zero, offset)


cdef inline object _dequantize(object q, object scale, object zero_point, object dtype,
                               object axis, object block_size, object out, object threads,
                               _Affine affine, bint any_zero):
    if axis is None and block_size is None and threads is _ONE and affine is None:
        made = _dequantize_usual(q, scale, zero_point, dtype, out)
        if made is not None:
            return made
    return _dequantize_any(q, scale, zero_point, dtype, axis, block_size, out, threads,
                           affine, any_zero)


cdef object _dequantize_any(object q, object scale, object zero_point, object dtype,
                            object axis, object block_size, object out, object threads,
                            _Affine affine, bint any_zero):
    cdef Call call
    cdef int bits
    cdef object offset = None
    cdef pq_type type = PQ_F32
    _forget(&call)
    array = _code_array(q, "q")
    if dtype is not None:
        type = _type_in(_REALS, dtype, "dtype", _REAL_LIST)
    elif out is not None:
        type = PQ_NO_TYPE  # the type of `out`
    scale = _scale_array(&call, scale)
    zero_point = _zero_array(&call, zero_point)
    axis = integers(axis, "axis")
    block_size = integers(block_size, "block_size")
    threads = _threads_of(threads)
    if affine is not None and affine.offset is not None:
        offset = affine.offset
        _hold_offset(&call, scale, offset)
    array = _hold_code(&call, array, "q", scale)
    if affine is not None:
        bits = call.x_layout.bits if call.args.in_layout != NULL else 0
        affine.set(&call, <str>_NAMES[<int>call.x.type], False, bits)
        if call.book != NULL:
            _check_places(&call, array)
    return _apply(&call, array, scale, zero_point, call.x.type, type, axis, block_size, out,
                  threads, False, None, any_zero, offset)


# ---- the functions ----


@hinted
def quantize(x, scale, zero_point=None, *, dtype=None, axis=None, block_size=None, out=None,
             rounding="half_even", seed=None, start=None, precision=None, saturate=True,
             offset=None, inverse=False, fill=None, quant_range=None,
             out_of_range="saturate", nan="lowest", layout=None, packed=False,
             codebook=None, threads=1):
    """
    Quantize real numbers: ``saturate(round(x / scale) + zero_point)``.

    Parameters
    ----------
    x : array_like
        Array of float32, float64, float16 or bfloat16, of any shape, strides and byte
        order. Python numbers become float64. NumPy arrays, buffers, DLPack tensors in CPU
        memory and objects with NumPy's array protocols are not copied.
    scale : array_like
        Real numbers of any float type, including narrow floats and float8_e8m0fnu. Scales
        are rounded once to float32 (float64 if `x` is float64). One element applies to all
        of `x`. Otherwise `axis` and `block_size` determine the shape. Without them, the
        scale has the rank of `x` and extent 1 along each axis that shares a scale.
        Negative, zero, infinite and NaN scales follow IEEE arithmetic.
    zero_point : array_like, optional
        Integers within the range of `dtype`: one element, or the shape of `scale`.
        Default 0. Floating-point code types allow only 0.
    dtype : dtype_like, optional
        int8, uint8, int16, uint16, int32, uint32, int64, uint64; int4, uint4, int2, uint2;
        or a narrow float: float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz,
        float8_e3m4, float8_e4m3, float8_e4m3b11fnuz, float6_e2m3fn, float6_e3m2fn,
        float4_e2m1fn. Default: the dtype of `zero_point` if that is a NumPy array or
        scalar, else int8. An int64 or uint64 `zero_point` requires `dtype`. The package
        ml_dtypes defines the types that NumPy lacks.
    axis : int or tuple of int, optional
        The axes along which the scale varies. The shape of `scale` is the shape of `x` at
        these axes, in ascending order.
    block_size : int or tuple of int, optional
        An integer, with an integer `axis`: the number of consecutive elements along `axis`
        that share a scale. `scale` has the shape of `x`, except that the extent n at `axis`
        becomes ``ceil(n / block_size)``. A tuple, without `axis`: the extents of a block,
        one for each dimension. The last block of an axis may be short.
    out : ndarray, optional
        Array for the result, of the exact shape and dtype. Dimensions may have any
        strides, but must not interleave.
    rounding : str or RoundMode, optional
        How to round the quotient to an integer, see `RoundMode`. Default: "half_even" (ties
        to the even integer). Narrow floats allow only "half_even" and "stochastic", which
        picks one of the two neighbours at random, the nearer one with higher probability.
    seed : int, optional
        Seed of stochastic rounding, from 0 (the default) to 2**64 - 1.
    start : int, optional
        Position of the first element of `x` in a larger array in C order, from 0 (the
        default) to 2**64 - 1, for stochastic rounding. Chunks along the first axis, each
        with its own `start`, get the codes of one call on the complete array.
    precision : dtype_like, optional
        Type to round the exact quotient to, before it is rounded to an integer: float16,
        bfloat16, float32 or float64. Default: float32, or float64 if `x` is float64.
    saturate : bool, optional
        For narrow floats. True (the default): values that are too large become the largest
        finite number. False: they become infinity, or NaN if the type has no infinity.
        Integer types require True.
    offset : array_like, optional
        Real numbers: one element, or the shape of `scale`. If there is a single scale: any
        shape that scales can have. ``np.broadcast_to(row, scale.shape)`` repeats a row. The
        quotient is ``(x - offset) / scale``. Each step is rounded once, to float32 (float64
        if `x` or `precision` is float64). Infinite and NaN offsets follow IEEE arithmetic.
    inverse : bool, optional
        True: multiply by `scale`, ``(x - offset) * scale``. Default False.
    fill : int or sequence of int, optional
        Codes that represent NaN. NaN in `x` becomes the first code. Integer types only.
    quant_range : (int, int), optional
        Lowest and highest code, within the range of `dtype`. The range must contain all
        zero points, unless every zero point is 0. Integer types only.
    out_of_range : {"saturate", "wrap", "raise"}, optional
        Treatment of values out of range. "saturate" (the default): the nearest end of the
        range. "wrap", for integer types: the code modulo two to the number of bits, and the
        lowest code for an infinity. "raise": an error with the number of values out of
        range and the index of the first.
    nan : {"lowest", "raise"}, optional
        Treatment of NaN if `fill` is not given. "lowest" (the default): NaN becomes the
        code that Returns describes. "raise": an error.
    layout : str or Layout, optional
        Return a `PackedArray` in this layout instead of one byte for each element. If the
        `Layout` has `bits`, uint8 codes saturate to that width. `layout` does not need
        ml_dtypes and excludes `out`.
    packed : bool, optional
        True: short for ``layout="onnx"``. Default False.
    codebook : str or array_like, optional
        Table of 4, 8, 16, 32, 64, 128 or 256 numbers, rounded once to float32, or a name:
        "nf4", "fp4_bnb", "dynamic8" or "dynamic8_unsigned". Each code is the index of the
        number nearest to ``x / scale`` (``x * scale`` with `inverse`). Midpoints are
        rounded to float32. A value at a midpoint becomes the lower number. NaN becomes the
        lowest number. `dtype` is uint8 (the default); for 16 numbers also uint4, and for 4
        uint2, which are the default with `layout`. `codebook` excludes all options except
        `inverse`, `axis`, `block_size`, `layout`, `packed`, `out` and `threads`.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on `threads`.

    Returns
    -------
    ndarray or PackedArray
        The codes, with the shape of `x`. If `out` is given, the result is `out`. NaN
        becomes the lowest code of an integer type and NaN of a float8 type. Float6 types
        have no NaN, so NaN becomes -0. For float4_e2m1fn, NaN becomes 6.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a value or a shape is wrong. `out` is then unchanged. If `out_of_range` or `nan`
        is "raise" and a value fails the check. `out` then contains the saturated codes.
    numpy.exceptions.AxisError
        If an axis is out of bounds.
    ImportError
        If a type needs ml_dtypes and the package is not installed.

    Notes
    -----
    The result equals the definition of ONNX QuantizeLinear and, with `rounding`, of nGraph
    Quantize, bit for bit: one IEEE division, one rounding, exact addition, saturation.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> pq.quantize(np.array([0.5, 1.5, -3.0, 1e9], np.float32), 0.5, 1, dtype="uint8")
    array([  2,   4,   0, 255], dtype=uint8)
    """
    if codebook is not None:
        return _quantize_by_book(
            x, scale, dtype, axis, block_size, _packing(layout, packed), out, threads,
            _with_book(codebook, inverse, (
                zero_point, offset, fill, rounding, precision, saturate, quant_range,
                out_of_range, nan, seed, start,
            ))
        )
    return _quantize(x, scale, zero_point, dtype, axis, block_size,
                     _with_noise(rounding, seed, start), precision, saturate,
                     _packing(layout, packed), out, threads,
                     _affine(offset, inverse, fill, quant_range, out_of_range, nan), False)


@hinted
def dequantize(q, scale, zero_point=None, *, dtype=None, axis=None, block_size=None,
               out=None, offset=None, inverse=False, fill=None, codebook=None, threads=1):
    """
    Convert codes to real numbers: ``(q - zero_point) * scale``.

    Parameters
    ----------
    q : array_like or PackedArray
        Codes of a type that `quantize` returns, of any shape, strides and byte order.
        Python integers become int32, or uint32 if int32 is too small.
    scale : array_like or (ndarray, ndarray)
        Real numbers, rounded once to float32 (float64 if `dtype` is float64). `quantize`
        describes the shapes. Two NumPy arrays with one dimension, such as ``(row_scale,
        column_scale)``: factors of the scales for the indices of two axes, see Notes.
    zero_point : array_like, optional
        Integers within the range of the type of `q`: one element, or the shape of `scale`.
        Default 0.
    dtype : dtype_like, optional
        float32, float64, float16 or bfloat16. Default: the dtype of `out`, else float32.
    axis, block_size : int or tuple of int, optional
        The granularity, see `quantize`.
    out : ndarray, optional
        Array for the result, see `quantize`.
    offset : array_like, optional
        Real numbers: one element, or the shape of `scale`. Offsets are added to the
        products. Products and sums are rounded to float32 (float64 if `dtype` is float64).
    inverse : bool, optional
        True: divide by `scale`. Default False.
    fill : int or sequence of int, optional
        Codes that become NaN. Integer types only.
    codebook : str or array_like, optional
        A table, see `quantize`. `q` holds uint8, uint4 or uint2 indices into the table. The
        result is ``codebook[q] * scale`` (``codebook[q] / scale`` with `inverse`), rounded
        to float32 and then to `dtype`.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on `threads`.

    Returns
    -------
    ndarray
        Real numbers, with the shape of `q`. If `out` is given, the result is `out`.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError, ImportError
        See `quantize`. `out` is unchanged.

    Notes
    -----
    The result equals the definition of ONNX DequantizeLinear, nGraph Dequantize and oneDNN
    Graph Dequantize, bit for bit: an exact integer difference, one conversion to float32
    (float64 for float64 results), one multiplication, one conversion to `dtype`. Each step
    rounds half to even. A NaN result is the positive quiet NaN on every CPU.

    Two arrays in `scale` are factors of the scales, as for the int32 sums of a matrix
    product. The result equals the call with the scales ``np.multiply.outer(*scale)``.
    Factors and products are rounded to float32, and the products are not stored. `axis` has
    two axes, by default the last two. `zero_point` has one element. `offset` has one number
    for each index of the second axis.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> pq.dequantize(np.array([2, 4, 0, 255], np.uint8), 0.5, 1)
    array([  0.5,   1.5,  -0.5, 127. ], dtype=float32)
    """
    if codebook is not None:
        affine = _with_book(codebook, inverse, (zero_point, offset, fill))
        if type(q) is not _ndarray and _dtype_said(q) is None:
            q = _codes_for(q, "uint8")
        return _dequantize(q, scale, None, dtype, axis, block_size, out, threads, affine,
                           False)
    if _is_pair(scale):
        for name, given, usual in (
            ("block_size", block_size, None),
            ("inverse", inverse, False),
            ("fill", fill, None),
        ):
            if given is not usual:
                raise _error(ValueError, name, f"{usual} beside two scales", given)
        return _dequantize_by_pair(q, scale, zero_point, dtype, axis, out, offset, threads)
    return _dequantize(q, scale, zero_point, dtype, axis, block_size, out, threads,
                       _affine(offset, inverse, fill, None, _SATURATE, _LOWEST), False)


cdef object _array_of(tuple frozen):
    """Return a read-only array for a tuple of shape, dtype and bytes."""
    shape, dtype, memory = frozen
    return _words_in(shape, dtype, memory)


cdef class Calls:
    """The C base class of QParams, because methods of C types read arguments faster."""

    # Shape, dtype and bytes of the scales and of the zero points. Properties return arrays.
    cdef tuple _scales
    cdef tuple _zeros
    # Scale and zero point as the types that calls read fastest: a Python number or an
    # ndarray.
    cdef object _given_scale
    cdef object _given_zero
    cdef object _dtype  # The dtype of codes, or None if ml_dtypes defines the dtype.
    cdef readonly str _name
    cdef readonly object _axis
    cdef readonly object _block_size
    cdef tuple _offsets  # Stored like _scales, or None.
    cdef _Affine _affine  # Offsets, fill and quant_range for calls, or None.
    cdef object __weakref__
    cdef tuple _rescaling  # last requantize(): weak reference to the source, parameters

    cdef int _keep(self, tuple parameters) except -1:
        with critical_section(self):
            self._refuse_change()
            (self._scales, self._zeros, self._given_scale, self._given_zero, self._name,
             self._axis, self._block_size) = parameters
            self._dtype = _DTYPES.get(self._name)
        return 0

    cdef int _refuse_change(self) except -1:
        if self._name is not None:
            raise AttributeError("scale: expected no assignment, QParams is immutable")
        return 0

    def _set(self, scale, zero_point, dtype, axis, block_size, offset, fill, quant_range,
             /):
        """Check and copy all arguments, so that no caller can change them later."""
        cdef _Affine affine
        self._refuse_change()
        name = _name_in(_CODES, dtype, "dtype", _CODE_NAMES)
        affine = _affine(offset, False, fill, quant_range, _SATURATE, _LOWEST)
        offsets = None
        if affine is not None:
            affine.check(name, True)
            offsets = _frozen_offset(affine)
        self._keep(
            _frozen_parameters(scale, zero_point, name, axis, block_size, affine)
        )
        self._offsets = offsets
        self._affine = affine

    @staticmethod
    def _choose(type cls not None, x, dtype, axis, block_size, symmetric, quant_range,
                scale_dtype, like, method, weights, candidates, threads, /):
        """See qparams.choose_qparams."""
        cdef _Affine affine = _affine(None, False, None, quant_range, _SATURATE, _LOWEST)
        search = _search_of(method, weights, candidates)
        return _made_params(
            cls, _choose(x, dtype, axis, block_size, symmetric, scale_dtype, like, search,
                         affine, threads), affine
        )

    @staticmethod
    def _from_range(type cls not None, lo, hi, dtype, axis, block_size, symmetric,
                    quant_range, scale_dtype, like, /):
        """See qparams.qparams_from_range."""
        cdef _Affine affine = _affine(None, False, None, quant_range, _SATURATE, _LOWEST)
        return _made_params(
            cls, _from_range(lo, hi, dtype, axis, block_size, symmetric, scale_dtype, like,
                             affine), affine
        )

    @property
    def _scale(self):
        return _array_of(self._scales)

    @property
    def _zero_point(self):
        return _array_of(self._zeros)

    @property
    def _offset(self):
        return None if self._offsets is None else _array_of(self._offsets)

    @property
    def _fill(self):
        return self._affine.fill if self._affine and self._affine.fill else None

    @property
    def _quant_range(self):
        return None if self._affine is None else self._affine.quant_range

    def quantize(self, x, *, out=None, rounding="half_even", seed=None, start=None,
                 precision=None, saturate=True, out_of_range="saturate", nan="lowest",
                 layout=None, packed=False, threads=1):
        """
        Quantize an array with these parameters.

        Parameters
        ----------
        x : array_like
            Real numbers.
        out, rounding, seed, start, precision, saturate, out_of_range, nan, layout, packed
            See `pyquant.quantize`.
        threads : int, optional
            See `pyquant.quantize`.

        Returns
        -------
        ndarray or PackedArray
            The codes.

        Raises
        ------
        TypeError, ValueError, numpy.exceptions.AxisError, ImportError
            See `pyquant.quantize`.

        Examples
        --------
        >>> import pyquant as pq
        >>> pq.QParams(0.5, 3, "uint8").quantize([0.5, 1.5, -9.0])
        array([4, 6, 0], dtype=uint8)
        """
        if seed is not None or start is not None:
            rounding = _made_noise(rounding, seed, start)
        return _quantize_by(self, x, rounding, precision, saturate,
                            _packing(layout, packed), out, threads, out_of_range, nan)

    def dequantize(self, q, *, dtype=None, out=None, threads=1):
        """
        Convert codes to real numbers with these parameters.

        Parameters
        ----------
        q : array_like or PackedArray
            Codes of the type `dtype`.
        dtype, out, threads
            See `pyquant.dequantize`.

        Returns
        -------
        ndarray
            Real numbers.

        Raises
        ------
        TypeError
            If `q` does not have the quantized type of the parameters.

        Examples
        --------
        >>> import pyquant as pq
        >>> pq.QParams(0.5, 3, "uint8").dequantize([4, 6, 0])
        array([ 0.5,  1.5, -1.5], dtype=float32)
        """
        return _dequantize_by(self, q, dtype, out, threads)


cdef Calls _made_params(type cls, tuple parameters, _Affine affine):
    """Return a QParams of the class `cls` from checked parameters."""
    cdef Calls made = cls.__new__(cls)
    made._keep(parameters)
    made._affine = affine
    return made


cdef object _quantize_by(Calls params, object x, object rounding, object precision,
                         object saturate, object layout, object out, object threads,
                         object out_of_range, object nan):
    return _quantize(x, params._given_scale, params._given_zero, params._name,
                     params._axis, params._block_size, rounding, precision, saturate,
                     layout, out, threads,
                     _with_policies(params._affine, out_of_range, nan), True)


cdef object _dequantize_by(Calls params, object q, object dtype, object out,
                           object threads):
    if type(q) is not _ndarray or q.dtype is not params._dtype:
        q = _codes_for(q, params._name)
    return _dequantize(q, params._given_scale, params._given_zero, dtype, params._axis,
                       params._block_size, out, threads, params._affine, True)


hinted(Calls.quantize)
hinted(Calls.dequantize)


# ---- from codes to codes ----


cdef tuple _hold_params(Call *call, Calls params, bint quantizes, const char *whose):
    """Store the parameters of a QParams in a call that has its input already. Return the
    arrays that own the memory of the parameters. The caller must keep the arrays alive.
    `whose` is the value for Call.whose."""
    cdef _Affine affine = params._affine
    scale = _scale_array(call, params._given_scale)
    zero_point = _zero_array(call, params._given_zero)
    if affine is not None:
        if affine.offset is not None:
            _hold_offset(call, scale, affine.offset)
        affine.set(call, params._name, quantizes)
    _hold_parameters(call, scale, zero_point, params._axis, params._block_size, whose)
    return scale, zero_point


cdef int _requantize_codes_part(const Job *job, int part) noexcept nogil:
    return pq_requantize_codes(_active, job.args, job.more, part, job.parts)


cdef Calls _rescaling_of(Calls target, Calls source):
    """Return parameters that convert codes of `source` to codes of `target` by a
    multiplication. Return `None` if there are no such parameters."""
    cdef tuple known
    cdef Calls made = None
    with critical_section(target):
        known = target._rescaling
    if known is None or known[0]() is not source:
        from weakref import ref

        from pyquant.qparams import rescaling

        found = rescaling(target, source)
        if found is not None:
            scale, zero_point, axis, offset = found
            made = Calls.__new__(Calls)
            made._set(scale, zero_point, target._name, axis, None, offset, None, None)
            made._affine.inverse = True
        known = ref(source), made
        with critical_section(target):
            target._rescaling = known
    return known[1]


def requantize_codes(Calls target not None, Calls source not None, q, out, threads, /):
    """See QParams.requantize."""
    cdef Call call, to
    cdef Calls params
    cdef pq_type code = <pq_type><int>_CODES[target._name]
    threads = _threads_of(threads)
    if isinstance(q, Packed):
        raise TypeError(
            "q: expected an array with a code in each element, got a PackedArray; call "
            "quantize(source.dequantize(q))"
        )
    if type(q) is not _ndarray or q.dtype is not source._dtype:
        q = _codes_for(q, source._name)
    codes = _code_array(q, "q")
    params = _rescaling_of(target, source)
    _forget(&call)
    codes = _hold_code(&call, codes, "q", None)
    _set_input(&call)
    if params is not None:
        kept = _hold_params(&call, params, True, b"q")
        exact = _hold_out(&call, out, code)
        _check_overlap(&call, exact, &call.x, codes, "the input")
        _run(&call, True, threads)
        return exact if out is None else out
    kept = _hold_params(&call, source, False, b"q")
    call.args.any_zeros = _is_integer(call.x.type)
    call.args.out.type = PQ_F32
    _forget(&to)
    to.x = call.x
    _set_input(&to)
    kept_too = _hold_params(&to, target, True, b"q")
    exact = _hold_out(&to, out, code)
    _check_overlap(&to, exact, &to.x, codes, "the input")
    call.out = to.out  # for the number of parts, and for errors
    _run_all(_requantize_codes_part, &call, &to.args, threads, "q")
    return exact if out is None else out
