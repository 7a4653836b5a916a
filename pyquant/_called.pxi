# quantize and dequantize as C functions that read their arguments without references. They
# only accept calls: wrong calls, and calls with names that are not interned, go to the
# functions above.

cdef extern from "Python.h":
    ctypedef PyObject *(*PyCFunction)(PyObject *, PyObject *)
    ctypedef struct PyMethodDef:
        const char *ml_name
        PyCFunction ml_meth
        int ml_flags
        const char *ml_doc
    int METH_FASTCALL, METH_KEYWORDS
    object PyCFunction_NewEx(PyMethodDef *, PyObject *, object)
    object PyObject_Vectorcall(object, PyObject *const *, size_t, PyObject *)
    Py_ssize_t PyTuple_GET_SIZE(PyObject *)
    PyObject *PyTuple_GET_ITEM(PyObject *, Py_ssize_t)

cdef enum:
    _PLACES = 3     # positional arguments
    _ARGUMENTS = 21


# Arguments in the order of the signatures.
cdef struct Known:
    int count
    PyObject *names[_ARGUMENTS]
    PyObject *defaults[_ARGUMENTS]


cdef struct QuantizeArgs:
    PyObject *x
    PyObject *scale
    PyObject *zero_point
    PyObject *dtype
    PyObject *axis
    PyObject *block_size
    PyObject *rounding
    PyObject *precision
    PyObject *saturate
    PyObject *packed
    PyObject *out
    PyObject *threads
    PyObject *offset
    PyObject *inverse
    PyObject *fill
    PyObject *quant_range
    PyObject *out_of_range
    PyObject *nan
    PyObject *seed
    PyObject *start
    PyObject *codebook


cdef struct DequantizeArgs:
    PyObject *q
    PyObject *scale
    PyObject *zero_point
    PyObject *dtype
    PyObject *axis
    PyObject *block_size
    PyObject *out
    PyObject *threads
    PyObject *offset
    PyObject *inverse
    PyObject *fill
    PyObject *bias
    PyObject *codebook


cdef bint _take(const Known *known, PyObject *const *args, Py_ssize_t n, PyObject *names,
                PyObject **given) noexcept:
    """Store all arguments without references, or return False. Names in programs are
    interned, so identity is compared."""
    cdef Py_ssize_t named = PyTuple_GET_SIZE(names) if names != NULL else 0, i, at
    cdef PyObject *name
    if not 1 <= n <= _PLACES:
        return False
    memcpy(given, known.defaults, known.count * sizeof(PyObject *))
    for i in range(n):
        given[i] = args[i]
    for i in range(named):
        name = PyTuple_GET_ITEM(names, i)
        at = n
        while at < known.count and known.names[at] != name:
            at += 1
        if at == known.count:
            return False
        given[at] = args[n + i]
    return True


cdef object _called_slowly(object function, tuple arguments, PyObject *const *args,
                           Py_ssize_t n, PyObject *names):
    """Call the function above. Propose a name for an unknown keyword argument."""
    try:
        return PyObject_Vectorcall(function, args, n, names)
    except TypeError:
        _refuse_unknown(function, arguments, names)
        raise


cdef int _refuse_unknown(object function, tuple arguments, PyObject *names) except -1:
    """Raise an error for the first unknown name, if a known name is close."""
    from pyquant._refused import hint_of_keyword

    unknown, end = hint_of_keyword(<object>names if names != NULL else (), dict(arguments))
    if end:
        raise TypeError(
            f"{function.__name__}() got an unexpected keyword argument {unknown!r}{end}"
        ) from None
    return 0


cdef object _quantize_called(PyObject *module, PyObject *const *args, Py_ssize_t n,
                             PyObject *names):
    cdef QuantizeArgs given
    if (
        not _take(&_quantize_known, args, n, names, <PyObject **>&given)
        or given.seed != <PyObject *>None or given.start != <PyObject *>None
        or given.codebook != <PyObject *>None
    ):
        return _called_slowly(_quantize_function, _quantize_arguments, args, n, names)
    return _quantize(
        _active, <object>given.x, <object>given.scale, <object>given.zero_point,
        <object>given.dtype, <object>given.axis, <object>given.block_size,
        <object>given.rounding, <object>given.precision, <object>given.saturate,
        <object>given.packed, <object>given.out, <object>given.threads,
        _affine(<object>given.offset, <object>given.inverse, <object>given.fill,
                <object>given.quant_range, <object>given.out_of_range, <object>given.nan),
        False
    )


cdef object _dequantize_called(PyObject *module, PyObject *const *args, Py_ssize_t n,
                               PyObject *names):
    cdef DequantizeArgs given
    if (
        not _take(&_dequantize_known, args, n, names, <PyObject **>&given)
        or given.codebook != <PyObject *>None
    ):
        return _called_slowly(
            _dequantize_function, _dequantize_arguments, args, n, names
        )
    return _dequantize(
        _active, <object>given.q, <object>given.scale, <object>given.zero_point,
        <object>given.dtype, <object>given.axis, <object>given.block_size,
        <object>given.out, <object>given.threads,
        _biased(<object>given.bias, <object>given.offset, <object>given.inverse,
                <object>given.fill),
        False
    )


cdef object _requiring_scale(function):
    """Return the signature without the default, which exists for an error message."""
    found = _signature(function)
    return found.replace(parameters=[
        one.replace(default=one.empty) if one.name == "scale" else one
        for one in found.parameters.values()
    ])


cdef bytes _text_of(function):
    """Return signature and docstring in the form of C functions."""
    signature = _requiring_scale(function)
    return f"{function.__name__}{signature}\n--\n\n{function.__doc__}".encode()


cdef tuple _known_of(function, Known *known, int count, bint of_method=False):
    """Set names and defaults of the arguments, which live forever. Skip `self` of methods;
    the first argument has no default."""
    arguments = tuple([
        (_intern(one.name), None if one.default is one.empty else one.default)
        for one in _signature(function).parameters.values()
    ])[of_method:]
    for at, (name, default) in zip(range(count), arguments, strict=True):
        known.names[<int>at] = <PyObject *>name
        known.defaults[<int>at] = <PyObject *>default
    known.count = count
    return arguments


cdef object _function_of(void *called, const char *name, bytes text, PyMethodDef *how):
    """Build the C function; its parts live forever."""
    how.ml_name = name
    how.ml_meth = <PyCFunction>called
    how.ml_flags = METH_FASTCALL | METH_KEYWORDS
    how.ml_doc = text
    return PyCFunction_NewEx(how, NULL, __name__)


cdef object _quantize_function = quantize, _dequantize_function = dequantize
cdef Known _quantize_known, _dequantize_known
cdef tuple _quantize_arguments = _known_of(
    quantize, &_quantize_known, sizeof(QuantizeArgs) // sizeof(PyObject *)
)
cdef tuple _dequantize_arguments = _known_of(
    dequantize, &_dequantize_known, sizeof(DequantizeArgs) // sizeof(PyObject *)
)
cdef bytes _quantize_text = _text_of(quantize), _dequantize_text = _text_of(dequantize)
cdef PyMethodDef _quantize_how, _dequantize_how
quantize = _function_of(
    <void *>_quantize_called, b"quantize", _quantize_text, &_quantize_how
)
dequantize = _function_of(
    <void *>_dequantize_called, b"dequantize", _dequantize_text, &_dequantize_how
)
