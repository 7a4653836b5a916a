# The parts of NumPy's C API that read and create arrays. NumPy's own numpy.pxd declares all
# parts.
from cpython.object cimport PyObject, PyTypeObject


cdef extern from "numpy/arrayobject.h" nogil:
    ctypedef struct PyArray_Descr:
        char byteorder
        int type_num

    ctypedef struct PyArrayObject:
        pass

    cdef enum:
        NPY_BYTE
        NPY_UBYTE
        NPY_SHORT
        NPY_USHORT
        NPY_INT
        NPY_UINT
        NPY_LONG
        NPY_ULONG
        NPY_LONGLONG
        NPY_ULONGLONG
        NPY_HALF
        NPY_FLOAT
        NPY_DOUBLE
        NPY_USERDEF
        NPY_ARRAY_CARRAY_RO

    void *PyArray_DATA(const PyArrayObject *)
    int PyArray_NDIM(const PyArrayObject *)
    const Py_ssize_t *PyArray_DIMS(const PyArrayObject *)
    const Py_ssize_t *PyArray_STRIDES(const PyArrayObject *)
    Py_ssize_t PyArray_ITEMSIZE(const PyArrayObject *)
    PyArray_Descr *PyArray_DESCR(const PyArrayObject *)
    bint PyArray_ISWRITEABLE(const PyArrayObject *)
    bint PyArray_IS_C_CONTIGUOUS(const PyArrayObject *)
    bint PyArray_ISCARRAY_RO(const PyArrayObject *)
    bint PyArray_SAMESHAPE(const PyArrayObject *, const PyArrayObject *)
    bint PyArray_CompareLists(const Py_ssize_t *, const Py_ssize_t *, int)
    Py_ssize_t PyArray_SIZE(const PyArrayObject *)
    bint PyArray_ISNBO(char)


cdef extern from "numpy/arrayscalars.h" nogil:
    ctypedef struct PyDoubleScalarObject:
        double obval


cdef extern from "numpy/arrayobject.h":
    PyTypeObject PyArray_Type
    int import_array "_import_array"() except -1
    object PyArray_NewFromDescr(
        PyTypeObject *, PyArray_Descr *, int, const Py_ssize_t *, const Py_ssize_t *,
        void *, int, PyObject *
    )
    int PyArray_SetBaseObject(PyArrayObject *, PyObject *) except -1
