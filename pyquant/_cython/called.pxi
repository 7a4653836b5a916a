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
    PyObject *PyModule_GetDict(PyObject *)
    PyObject *PyDict_GetItem(PyObject *, object)

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


cdef object _called_slowly(object function, PyObject *const *args, Py_ssize_t n,
                           PyObject *names):
    """Call a function with a signature. An error about the arguments gets a hint."""
    cdef Py_ssize_t i
    try:
        return PyObject_Vectorcall(function, args, n, names)
    except TypeError as error:
        _raise_hint(error, function, tuple([<object>args[i] for i in range(n)]),
                    <object>names if names != NULL else ())
        raise


cdef int _raise_hint(object error, object function, tuple args, object names) except -1:
    """Raise an error with a hint if the function lacks a place or name of the call."""
    from pyquant._refused import hint_of_call

    message = hint_of_call(error, function, args, names)
    if message:
        raise TypeError(message) from None
    return 0


cdef object _quantize_called(PyObject *module, PyObject *const *args, Py_ssize_t n,
                             PyObject *names):
    cdef QuantizeArgs given
    if (
        not _take(&_quantize_known, args, n, names, <PyObject **>&given)
        or given.seed != <PyObject *>None or given.start != <PyObject *>None
        or given.codebook != <PyObject *>None
    ):
        return _called_slowly(_quantize_function, args, n, names)
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
        return _called_slowly(_dequantize_function, args, n, names)
    return _dequantize(
        _active, <object>given.q, <object>given.scale, <object>given.zero_point,
        <object>given.dtype, <object>given.axis, <object>given.block_size,
        <object>given.out, <object>given.threads,
        _biased(<object>given.bias, <object>given.offset, <object>given.inverse,
                <object>given.fill),
        False
    )


cdef list _arguments_of(function):
    """Return a tuple for each argument: its name, and its default if it has one."""
    code = function.__code__
    count = code.co_argcount
    names = code.co_varnames[:count + code.co_kwonlyargcount]
    defaults = function.__defaults__ or ()
    known = dict(zip(names[count - len(defaults):count], defaults))
    known.update(function.__kwdefaults__ or {})
    return [(name, known[name]) if name in known else (name,) for name in names]


cdef bytes _text_of(function):
    """Return signature and docstring in the form of C functions. The default of `scale`
    exists for an error message."""
    shown = [
        one[0] if len(one) == 1 or one[0] == "scale" else f"{one[0]}={one[1]!r}"
        for one in _arguments_of(function)
    ]
    count = function.__code__.co_argcount
    if count < len(shown):
        shown.insert(count, "*")
    return f"{function.__name__}({', '.join(shown)})\n--\n\n{function.__doc__}".encode()


cdef list _known_of(function, Known *known, int count, bint of_method=False):
    """Set names and defaults of the arguments, which live forever. Skip `self` of methods;
    the first argument has no default."""
    arguments = [
        (_intern(name), *(default or (None,))) for name, *default in _arguments_of(function)
    ][of_method:]
    for at, (name, default) in zip(range(count), arguments, strict=True):
        known.names[<int>at] = <PyObject *>name
        known.defaults[<int>at] = <PyObject *>default
    known.count = count
    return arguments


@final
cdef class _Definition:
    """Memory for the definition of a C function."""
    cdef bytes name
    cdef bytes text
    cdef PyMethodDef how


cdef str _FUNCTION = "function"


cdef object _hinted_called(PyObject *module, PyObject *const *args, Py_ssize_t n,
                           PyObject *names):
    cdef PyObject *function = PyDict_GetItem(PyModule_GetDict(module), _FUNCTION)
    return _called_slowly(<object>function, args, n, names)


def hinted(function, /):
    """Decorate a function: add hints to errors about places and names of arguments.

    The result is a C function, because a decorator in Python would double the time of a
    small call. C functions belong to a module. Here it is a module object that holds the
    Python function.
    """
    cdef _Definition made = _Definition()
    made.name = function.__name__.encode()
    made.text = _text_of(function)
    made.how.ml_name = made.name
    made.how.ml_meth = <PyCFunction><void *>_hinted_called
    made.how.ml_flags = METH_FASTCALL | METH_KEYWORDS
    made.how.ml_doc = made.text
    module = _Module(function.__module__)
    module.function, module.definition = function, made
    return PyCFunction_NewEx(&made.how, <PyObject *>module, function.__module__)


cdef object _function_of(void *called, const char *name, bytes text, PyMethodDef *how):
    """Build the C function; its parts live forever."""
    how.ml_name = name
    how.ml_meth = <PyCFunction>called
    how.ml_flags = METH_FASTCALL | METH_KEYWORDS
    how.ml_doc = text
    return PyCFunction_NewEx(how, NULL, __name__)


cdef object _quantize_function = quantize, _dequantize_function = dequantize
cdef Known _quantize_known, _dequantize_known
cdef list _quantize_arguments = _known_of(
    quantize, &_quantize_known, sizeof(QuantizeArgs) // sizeof(PyObject *)
)
cdef list _dequantize_arguments = _known_of(
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
