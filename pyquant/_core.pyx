# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, freethreading_compatible=True, autotestdict=False
# cython: auto_pickle=False
"""Arguments -> buffers -> C -> exceptions: the boundary between Python and csrc/pq.h.

Arrays of any rank, stride and byte order are read through NumPy's C API, once per call and
without a copy.
"""
import os
from collections.abc import Iterable as _Iterable
from math import prod as _prod
from inspect import signature as _signature
from sys import intern as _intern, maxsize as _maxsize, modules as _modules
from operator import index as _index

import numpy as _np
from numpy.exceptions import AxisError as _AxisError

from cython cimport cdivision, critical_section, final
from cpython.buffer cimport (
    PyBUF_SIMPLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_Check, PyFloat_CheckExact
from cpython.list cimport PyList_CheckExact
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.object cimport PyObject, Py_TYPE
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
from libc.math cimport INFINITY
from libc.stddef cimport ptrdiff_t, size_t
from libc.stdint cimport (
    INT64_MAX,
    int8_t,
    int16_t,
    int32_t,
    int64_t,
    uint8_t,
    uint16_t,
    uint32_t,
    uint64_t,
    uintptr_t,
)
from libc.string cimport memcmp, memcpy, memset

from pyquant cimport *
from pyquant._numpy cimport *
from pyquant._pq cimport *

cdef extern from *:
    """
    #ifdef PQ_NO_LINES  // see setup.py
    #undef __PYX_MARK_ERR_POS
    #define __PYX_MARK_ERR_POS(file, line)  \\
        { __pyx_filename = __pyx_f[file]; (void)__pyx_filename;  \\
          (void)__pyx_lineno; (void)__pyx_clineno; }
    #endif
    """

import_array()

cdef object _ndarray = _np.ndarray

# One module in rooms, none with two subjects. The first is what `dtypes` reads while it is
# imported.
include "_types.pxi"

from pyquant import _channels, _convert, _threads
from pyquant import dtypes as _dtypes
from pyquant._convert import is_masked
from pyquant._version import __version__

include "_memory.pxi"
include "_arrays.pxi"
include "_parameters.pxi"
include "_granularity.pxi"
include "_options.pxi"
include "_stochastic.pxi"
include "_codebook.pxi"
include "_affine.pxi"
include "_run.pxi"
include "_usual.pxi"
include "_layouts.pxi"
include "_packed.pxi"
include "_frozen.pxi"
include "_search.pxi"
include "_choose.pxi"
include "_observe.pxi"
include "_range.pxi"
include "_measure.pxi"
include "_blocks.pxi"
include "_isa.pxi"
include "_standards.pxi"


def quantize(x, scale=None, zero_point=None, *, dtype=None, axis=None, block_size=None,
             rounding="half_even", precision=None, saturate=True, packed=False, out=None,
             threads=1, offset=None, inverse=False, fill=None, quant_range=None,
             out_of_range="saturate", nan="lowest", seed=None, start=None, codebook=None):
    """
    Quantize real numbers: ``saturate(round(x / scale) + zero_point)``.

    Parameters
    ----------
    x : array_like
        float32, float64, float16 or bfloat16, of any shape, strides and byte order.
        Python numbers are taken as float64. Buffers and objects with one of NumPy's
        protocols, or with `__dlpack__` and memory of the CPU, are not copied.
    scale : array_like
        Real numbers, narrow floats and float8_e8m0fnu among them, rounded once to float32
        (float64 when `x` is float64). One element is one scale for all of `x`; otherwise
        the shape follows from `axis` and `block_size`, or is that of `x` with 1 for
        dimensions along which the scale does not vary. Negative, zero, infinite and NaN
        scales follow IEEE arithmetic.
    zero_point : array_like, optional
        Integers within the range of `dtype`, one or as many as `scale` has. Default 0,
        which is all that narrow floats take.
    dtype : dtype_like, optional
        int8, uint8, int16, uint16, int32, uint32, int64, uint64; int4, uint4, int2, uint2;
        or a narrow float: float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz,
        float8_e3m4, float8_e4m3, float8_e4m3b11fnuz, float6_e2m3fn, float6_e3m2fn,
        float4_e2m1fn. Default: that of `zero_point` if it is a NumPy array or scalar, but
        int64 and uint64 want a `dtype`, else int8. Types that NumPy lacks are those of
        ml_dtypes.
    axis : int or tuple of int, optional
        The axes along which the scale varies. The shape of `scale` is that of `x` at these
        axes, in ascending order.
    block_size : int or tuple of int, optional
        With an integer `axis`: so many consecutive elements along it share a scale, and
        `scale` has the shape of `x` but for ``ceil(n / block_size)`` there. A tuple, and
        no `axis`: the extents of a block along each dimension. The last block may be short.
    rounding : str or RoundMode, optional
        How the quotient becomes an integer. Default half to even, as narrow floats are
        always rounded, but for "stochastic": to one of the two neighbours, the nearer the
        likelier.
    precision : dtype_like, optional
        Type to which the exact quotient is rounded before it is rounded to an integer:
        float16, bfloat16, float32 or float64. Default float32, float64 when `x` is float64.
    saturate : bool, optional
        Narrow floats: whether what is too large becomes the largest number (the default),
        or infinity or NaN where the type has one. Integers always saturate: must be True.
    packed : bool, str or tuple, optional
        Return a `PackedArray` instead of a byte for each element: True for a type of 2 or 4
        bits in the layout of ONNX; or a layout, or a tuple of layout, axis and bits, as
        `pack` takes them. Of as many bits uint8 saturates. Needs no ml_dtypes, and takes no
        `out`.
    out : ndarray, optional
        Where to put the result: exact shape and dtype, any strides that keep the elements
        of one dimension clear of those of the next.
    threads : int, optional
        How many threads may share the work. The result does not depend on it.
    offset : array_like, optional
        Real numbers, one or as many as scales may be: the codes are those of
        ``(x - offset) / scale``, of which each step is rounded once, to float32 (to float64
        when `x` or `precision` is that). Infinite and NaN ones follow IEEE arithmetic.
    inverse : bool, optional
        Whether `scale` is what is multiplied by, ``(x - offset) * scale``. Default False.
    fill : int or sequence of int, optional
        Codes that stand for NaN: what is NaN in `x` becomes the first of them. Integers
        only.
    quant_range : (int, int), optional
        The lowest and the highest code, within the range of `dtype`. Zero points, unless
        all are 0, are among them. Integers only.
    out_of_range : {"saturate", "wrap", "raise"}, optional
        What becomes of a number whose code is beyond the range: the end of that (the
        default); the code modulo two to the number of bits, of integers only, the lowest
        one for an infinity; or an error, which says how many there are and where the first
        one is.
    nan : {"lowest", "raise"}, optional
        What becomes of NaN that no `fill` stands for: the lowest code, or what a narrow
        float has for it (the default); or an error, as of numbers out of range.
    seed : int, optional
        With stochastic rounding only: which random numbers, from 0 (the default) to
        2**64 - 1.
    start : int, optional
        The same: where in a larger array, in C order, the first element of `x` is, from 0
        (the default) to 2**64 - 1. Chunks along the first axis, each with its own, get the
        codes of the whole.
    codebook : str or array_like, optional
        A table of 4, 8, 16, 32, 64, 128 or 256 numbers, rounded once to float32, or the
        name of one: "nf4", "fp4_bnb", "dynamic8", "dynamic8_unsigned". Codes are then
        places in it, those of the numbers nearest to ``x / scale``, or to ``x * scale`` if
        `inverse`, as middles rounded to float32 tell; what is on one becomes the lower
        number, NaN the lowest. `dtype`
        is uint8 (the default), or of as many bits as the table needs, which is what
        `packed` makes of it: uint4, or uint2. No option goes with it but `inverse`, those
        of shape, and `threads`.

    Returns
    -------
    ndarray
        The codes, of the shape of `x`; `out` if given; a `PackedArray` if `packed`.
        NaN gives the lowest integer, NaN of a narrow float, -0 of one of 6 bits and 6 of
        float4_e2m1fn, which have none.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a value or a shape does not fit: `out` has not been written to. If something is
        out of range, or NaN, that is not to be: `out` holds what it would hold by default.
    numpy.exceptions.AxisError
        If an axis is out of bounds.
    ImportError
        If a type is one of ml_dtypes, which is not installed.

    Notes
    -----
    Bit for bit the definition of ONNX QuantizeLinear and, with `rounding`, of nGraph
    Quantize: one IEEE division, one rounding, exact addition, saturation.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> pq.quantize(np.array([0.5, 1.5, -3.0, 1e9], np.float32), 0.5, 1, dtype="uint8")
    array([  2,   4,   0, 255], dtype=uint8)
    """
    if codebook is not None:
        return _quantize_by_book(
            _active, x, scale, dtype, axis, block_size, packed, out, threads,
            _with_book(codebook, inverse, (
                zero_point, offset, fill, None, rounding, precision, saturate, quant_range,
                out_of_range, nan, seed, start,
            ))
        )
    return _quantize(_active, x, scale, zero_point, dtype, axis, block_size,
                     _with_noise(rounding, seed, start), precision, saturate, packed, out,
                     threads,
                     _affine(offset, inverse, fill, quant_range, out_of_range, nan), False)


def dequantize(q, scale=None, zero_point=None, *, dtype=None, axis=None, block_size=None,
               out=None, threads=1, offset=None, inverse=False, fill=None, bias=None,
               codebook=None):
    """
    Convert codes to real numbers: ``(q - zero_point) * scale``.

    Parameters
    ----------
    q : array_like
        Of a type that `quantize` has, of any shape, strides and byte order; or a
        `PackedArray`. Python integers are taken as int32, or uint32 if they need it.
    scale : array_like
        Real numbers, rounded once to float32 (float64 when `dtype` is float64); see
        `quantize` for shapes.
    zero_point : array_like, optional
        Integers within the range of the type of `q`, one or as many as `scale` has.
        Default 0.
    dtype : dtype_like, optional
        float32, float64, float16 or bfloat16. Default that of `out`, else float32.
    axis, block_size : int or tuple of int, optional
        As for `quantize`.
    out : ndarray, optional
        Where to put the result: exact shape and dtype, any strides that keep the elements
        of one dimension clear of those of the next.
    threads : int, optional
        How many threads may share the work. The result does not depend on it.
    offset : array_like, optional
        Real numbers, one or as many as scales may be, that are added to the products, which
        are rounded before: to float32 (to float64 when `dtype` is that), as the sums are.
    inverse : bool, optional
        Whether `scale` is what is divided by. Default False.
    fill : int or sequence of int, optional
        Codes that stand for NaN, which they become. Integers only.
    bias : array_like, optional
        The same as `offset`, by the name that formats of weights have for it: ``q * scale +
        bias`` of MLX. Not beside `offset`.
    codebook : str or array_like, optional
        As for `quantize`: `q` are places in a table, uint8, uint4 or uint2. The result is
        ``codebook[q] * scale``, or over `scale` if `inverse`, rounded to float32 and then
        to `dtype`.

    Returns
    -------
    ndarray
        Real numbers, of the shape of `q`; `out` if that was given.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a value or a shape does not fit. `out` has not been written to.
    numpy.exceptions.AxisError
        If an axis is out of bounds.
    ImportError
        If a type is one of ml_dtypes, which is not installed.

    Notes
    -----
    Bit for bit the definition of ONNX DequantizeLinear, nGraph Dequantize and oneDNN Graph
    Dequantize: an exact difference of integers, one conversion to float32 (float64 for
    float64 results), one multiplication, one conversion to `dtype`, each rounding half to
    even. NaN results are the positive quiet NaN on every CPU.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> pq.dequantize(np.array([2, 4, 0, 255], np.uint8), 0.5, 1)
    array([  0.5,   1.5,  -0.5, 127. ], dtype=float32)
    """
    if codebook is not None:
        return _dequantize_by_book(
            _active, q, scale, dtype, axis, block_size, out, threads,
            _with_book(codebook, inverse, (zero_point, offset, fill, bias))
        )
    return _dequantize(_active, q, scale, zero_point, dtype, axis, block_size, out, threads,
                       _biased(bias, offset, inverse, fill), False)


include "_called.pxi"


cdef class Calls:
    """The calls of QParams: methods of a C type take arguments as fast as functions do."""

    # Shape, dtype and memory of the arrays, which are made when they are asked for.
    cdef tuple _scales
    cdef tuple _zeros
    # As calls take them fastest.
    cdef object _given_scale
    cdef object _given_zero
    cdef object _dtype  # what most arrays of codes have; None where NumPy has no such type
    cdef readonly str _name
    cdef readonly object _axis
    cdef readonly object _block_size
    cdef tuple _offsets  # as the scales are kept; None for none
    cdef _Affine _affine  # with the offsets as calls take them; None where there is nothing

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
        """Check and copy everything, so that nothing can change it."""
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

    @classmethod
    def _choose(cls, x, dtype, axis, block_size, symmetric, quant_range, scale_dtype, like,
                method, weights, candidates, threads, /):
        """See qparams.choose_qparams."""
        cdef Calls made = cls.__new__(cls)
        cdef _Affine affine = _affine(None, False, None, quant_range, _SATURATE, _LOWEST)
        made._keep(_choose(_active, x, dtype, axis, block_size, symmetric, scale_dtype,
                           like, _search_of(method, weights, candidates), affine,
                           threads))
        made._affine = affine
        return made

    @classmethod
    def _from_range(cls, lo, hi, dtype, axis, block_size, symmetric, quant_range,
                    scale_dtype, like, /):
        """See qparams.qparams_from_range."""
        cdef Calls made = cls.__new__(cls)
        cdef _Affine affine = _affine(None, False, None, quant_range, _SATURATE, _LOWEST)
        made._keep(_from_range(lo, hi, dtype, axis, block_size, symmetric, scale_dtype,
                               like, affine))
        made._affine = affine
        return made

    @property
    def _scale(self):
        return _ndarray(*self._scales)

    @property
    def _zero_point(self):
        return _ndarray(*self._zeros)

    @property
    def _offset(self):
        return None if self._offsets is None else _ndarray(*self._offsets)

    @property
    def _fill(self):
        return self._affine.fill if self._affine and self._affine.fill else None

    @property
    def _quant_range(self):
        return None if self._affine is None else self._affine.quant_range

    def quantize(self, x, *, rounding="half_even", precision=None, saturate=True,
                 packed=False, out=None, threads=1, out_of_range="saturate",
                 nan="lowest", seed=None, start=None):
        """
        Quantize an array with these parameters.

        Parameters
        ----------
        x : array_like
            Real numbers.
        rounding, precision, saturate, packed, out, threads, out_of_range, nan, seed, start
            As for `pyquant.quantize`.

        Returns
        -------
        ndarray or PackedArray
            The codes.

        Raises
        ------
        TypeError, ValueError, numpy.exceptions.AxisError, ImportError
            As `pyquant.quantize` does.

        Examples
        --------
        >>> import pyquant as pq
        >>> pq.QParams(0.5, 3, "uint8").quantize([0.5, 1.5, -9.0])
        array([4, 6, 0], dtype=uint8)
        """
        if seed is not None or start is not None:
            rounding = _made_noise(rounding, seed, start)
        return _quantize(_active, x, self._given_scale, self._given_zero, self._name,
                         self._axis, self._block_size, rounding, precision, saturate,
                         packed, out, threads,
                         _with_policies(self._affine, out_of_range, nan), True)

    def dequantize(self, q, *, dtype=None, out=None, threads=1):
        """
        Convert codes to real numbers with these parameters.

        Parameters
        ----------
        q : array_like or PackedArray
            Codes.
        dtype, out, threads
            As for `pyquant.dequantize`.

        Returns
        -------
        ndarray
            Real numbers.

        Raises
        ------
        TypeError
            If `q` has another type than the parameters are for.

        Examples
        --------
        >>> import pyquant as pq
        >>> pq.QParams(0.5, 3, "uint8").dequantize([4, 6, 0])
        array([ 0.5,  1.5, -1.5], dtype=float32)
        """
        if type(q) is not _ndarray or q.dtype is not self._dtype:
            q = _codes_for(q, self._name)
        return _dequantize(_active, q, self._given_scale, self._given_zero, dtype,
                           self._axis, self._block_size, out, threads, self._affine,
                           True)


include "_called_params.pxi"


# The same on a named instruction set, for tests and benchmarks.


def quantize_at(str isa not None, x, scale, zero_point=None, *, dtype=None, axis=None,
                block_size=None, rounding="half_even", precision=None, saturate=True,
                packed=False, out=None, threads=1, offset=None, inverse=False, fill=None,
                quant_range=None, out_of_range="saturate", nan="lowest", seed=None,
                start=None, codebook=None):
    """Quantize with the kernels of `isa`."""
    if codebook is not None:
        return _quantize_by_book(_kernels_of(isa), x, scale, dtype, axis, block_size,
                                 packed, out, threads, _with_book(codebook, inverse, ()))
    return _quantize(_kernels_of(isa), x, scale, zero_point, dtype, axis, block_size,
                     _with_noise(rounding, seed, start), precision, saturate, packed, out,
                     threads,
                     _affine(offset, inverse, fill, quant_range, out_of_range, nan), False)


def dequantize_at(str isa not None, q, scale, zero_point=None, *, dtype=None, axis=None,
                  block_size=None, out=None, threads=1, offset=None, inverse=False,
                  fill=None, bias=None, codebook=None):
    """Dequantize with the kernels of `isa`."""
    if codebook is not None:
        return _dequantize_by_book(_kernels_of(isa), q, scale, dtype, axis, block_size, out,
                                   threads, _with_book(codebook, inverse, ()))
    return _dequantize(_kernels_of(isa), q, scale, zero_point, dtype, axis, block_size, out,
                       threads, _biased(bias, offset, inverse, fill), False)


def choose_qparams_at(str isa not None, x, *, dtype="int8", axis=None, block_size=None,
                      symmetric=None, quant_range=None, scale_dtype=None, like=None,
                      method="minmax", weights=None, candidates=None, threads=1):
    """Scale and zero point by the kernels of `isa`."""
    affine = _affine(None, False, None, quant_range, _SATURATE, _LOWEST)
    scales, zeros, *_ = _choose(_kernels_of(isa), x, dtype, axis, block_size, symmetric,
                                scale_dtype, like,
                                _search_of(method, weights, candidates), affine, threads)
    return _ndarray(*scales), _ndarray(*zeros)


include "_requantize.pxi"
include "_fused.pxi"
