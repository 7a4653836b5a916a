# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, freethreading_compatible=True, autotestdict=False
# cython: auto_pickle=False
"""Read Python arguments, call the functions of csrc/pq.h, and raise errors as exceptions.

A call reads an array of any rank, strides and byte order through NumPy's C API without a
copy. It reads the address, shape and strides of the array once.
"""
import os
from collections.abc import Iterable as _Iterable
from functools import update_wrapper as _update_wrapper
from math import prod as _prod
from sys import intern as _intern, maxsize as _maxsize, modules as _modules
from operator import index as _operator_index
from types import (
    FunctionType as _Function,
    ModuleType as _Module,
)

import numpy as _np

from cython cimport cdivision, critical_section, final
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_Check, PyFloat_CheckExact
from cpython.list cimport PyList_CheckExact
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.object cimport PyObject, PyTypeObject, Py_TYPE
from cpython.pycapsule cimport PyCapsule_New
from cpython.pythread cimport (
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_free_lock,
    PyThread_release_lock,
    PyThread_type_lock,
    WAIT_LOCK,
)
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_New, PyTuple_SET_ITEM
from libc.limits cimport INT_MAX
from libc.math cimport INFINITY
from libc.stddef cimport ptrdiff_t, size_t
from libc.stdint cimport (
    INT64_MAX,
    UINT16_MAX,
    int32_t,
    int64_t,
    uint16_t,
    uint32_t,
    uint64_t,
    uintptr_t,
)
from libc.string cimport memcmp, memcpy, memset

from pyquant cimport *
from pyquant._cython.numpy cimport *
from pyquant._cython.pq cimport *

import_array()

cdef object _ndarray = _np.ndarray

# types.pxi comes before the import of `dtypes`, because `dtypes` uses the table of types.
include "types.pxi"

from pyquant import dtypes as _dtypes
from pyquant import _check, _convert, _threads
from pyquant._check import axis_error as _axis_error, fail as _error, faulty as _faulty
from pyquant._check import listed as _listed, shown as _shown
from pyquant._convert import is_masked
from pyquant._version import __version__

include "arrays.pxi"
include "arguments.pxi"
include "run.pxi"
include "packed.pxi"
include "params.pxi"
include "observe.pxi"
include "blocks.pxi"
include "isa.pxi"
include "separable.pxi"
include "quantize.pxi"
include "standard.pxi"
include "requantize.pxi"
include "fused.pxi"
