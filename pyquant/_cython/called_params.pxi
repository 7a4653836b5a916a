# QParams.quantize as a C method, like called.pxi.

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        PyObject *tp_dict
    object PyDescr_NewMethod(PyTypeObject *, PyMethodDef *)
    int PyDict_SetItemString(PyObject *, const char *, object) except -1
    void PyType_Modified(PyTypeObject *)


cdef struct ParamsArgs:
    PyObject *x
    PyObject *rounding
    PyObject *precision
    PyObject *saturate
    PyObject *packed
    PyObject *out
    PyObject *threads
    PyObject *out_of_range
    PyObject *nan
    PyObject *seed
    PyObject *start


cdef object _params_called(PyObject *params, PyObject *const *args, Py_ssize_t n,
                           PyObject *names):
    cdef ParamsArgs given
    if (
        n != 1 or not _take(&_params_known, args, n, names, <PyObject **>&given)
        or given.seed != <PyObject *>None or given.start != <PyObject *>None
    ):
        return _called_slowly(_Method(_params_function, <object>params), args, n, names)
    return _quantize_by(
        <Calls>params, <object>given.x, <object>given.rounding, <object>given.precision,
        <object>given.saturate, <object>given.packed, <object>given.out,
        <object>given.threads, <object>given.out_of_range, <object>given.nan
    )


cdef inline object _quantize_by(Calls params, object x, object rounding, object precision,
                                object saturate, object packed, object out, object threads,
                                object out_of_range, object nan):
    # Without references to constants, because references take time.
    return _quantize(
        _active, x, <object><PyObject *>params._given_scale,
        <object><PyObject *>params._given_zero, <object><PyObject *>params._name,
        <object><PyObject *>params._axis, <object><PyObject *>params._block_size, rounding,
        precision, saturate, packed, out, threads,
        _with_policies(params._affine, out_of_range, nan), True
    )


cdef object _params_function = Calls.quantize
cdef Known _params_known
cdef list _params_arguments = _known_of(
    _params_function, &_params_known, sizeof(ParamsArgs) // sizeof(PyObject *), True
)
cdef bytes _params_text = _text_of(_params_function).replace(b"(self", b"($self", 1)
cdef PyMethodDef _params_how
_params_how.ml_name = b"quantize"
_params_how.ml_meth = <PyCFunction><void *>_params_called
_params_how.ml_flags = METH_FASTCALL | METH_KEYWORDS
_params_how.ml_doc = _params_text
PyDict_SetItemString(
    (<PyTypeObject *>Calls).tp_dict, b"quantize",
    PyDescr_NewMethod(<PyTypeObject *>Calls, &_params_how)
)
PyType_Modified(<PyTypeObject *>Calls)
