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
    PyObject *PyModule_GetDict(PyObject *)
    PyObject *PyDict_GetItem(PyObject *, object)


# ---- hints in errors about places and names of arguments ----

# The vectorcall of functions of this module, which Cython defines.
cdef vectorcallfunc _call_cython = NULL


cdef int _raise_hint(object error, object function, tuple args, object names) except -1:
    """Raise an error with a hint if it is about places and names of arguments."""
    from pyquant._refused import hint_of_call

    message = hint_of_call(error, function, args, names)
    if message:
        raise TypeError(message) from None
    return 0


cdef int _fail() except -1:
    """Raise the error that is set."""
    return -1


cdef PyObject *_refuse(PyObject *function, PyObject *const *args, Py_ssize_t n,
                       PyObject *names) except NULL:
    """Raise the error of a call, maybe with a hint."""
    cdef Py_ssize_t i
    try:
        _fail()
    except TypeError as error:
        _raise_hint(error, <object>function, tuple([<object>args[i] for i in range(n)]),
                    <object>names if names != NULL else ())
        raise


cdef PyObject *_call_hinted(PyObject *function, PyObject *const *args, size_t n,
                            PyObject *names) except NULL:
    cdef PyObject *made = _call_cython(function, args, n, names)
    return made if made != NULL else _refuse(function, args, PyVectorcall_NARGS(n), names)


cdef PyObject *_call_method(PyObject *function, PyObject *const *args, size_t n,
                            PyObject *names) except NULL:
    """Call a method of Calls; Cython does not check the type of `self`."""
    if PyVectorcall_NARGS(n) > 0 and not isinstance(<object>args[0], Calls):
        raise TypeError(f"self: expected QParams, got {type(<object>args[0]).__name__}")
    return _call_hinted(function, args, n, names)


@final
cdef class _Definition:
    """Memory for the definition of a C function."""
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
    """Return signature and docstring in the form of C functions."""
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
    """Decorate a function: add hints to errors about places and names of arguments.

    Functions of this module get another vectorcall. Python functions become C functions,
    because a decorator in Python would double the time of a small call. C functions belong
    to a module. Here it is a module object that holds the Python function.
    """
    global _call_cython
    cdef _Definition made
    cdef vectorcallfunc called = PyVectorcall_Function(function)
    cdef Py_ssize_t offset = (<CalledType *>Py_TYPE(function)).tp_vectorcall_offset
    if type(function) is not _Function:
        if _call_cython == NULL:
            _call_cython = called
        if called == _call_cython and called != NULL:
            (<vectorcallfunc *>(<char *><PyObject *>function + offset))[0] = (
                <vectorcallfunc><void *>_call_method if "." in function.__qualname__
                else <vectorcallfunc><void *>_call_hinted
            )
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


# ---- the functions ----


@hinted
def quantize(x, scale, zero_point=None, *, dtype=None, axis=None, block_size=None,
             rounding="half_even", precision=None, saturate=True, packed=False, out=None,
             threads=1, offset=None, inverse=False, fill=None, quant_range=None,
             out_of_range="saturate", nan="lowest", seed=None, start=None, codebook=None):
    """
    Quantize real numbers: ``saturate(round(x / scale) + zero_point)``.

    Parameters
    ----------
    x : array_like
        Array of float32, float64, float16 or bfloat16, of any shape, strides and byte
        order. Python numbers become float64. NumPy arrays, buffers, DLPack tensors in CPU
        memory and objects with NumPy's array protocols are not copied.
    scale : array_like
        Real numbers of any float type, including narrow floats and float8_e8m0fnu. They are
        rounded once to float32 (float64 if `x` is float64). One element applies to all of
        `x`. Otherwise `axis` and `block_size` determine the shape. Without them, the scale
        has the rank of `x` and extent 1 along each axis that shares a scale. Negative,
        zero, infinite and NaN scales follow IEEE arithmetic.
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
        that share a scale. `scale` has the shape of `x`, except ``ceil(n / block_size)`` at
        `axis`. A tuple, without `axis`: the extents of a block, one for each dimension. The
        last block of an axis may be short.
    rounding : str or RoundMode, optional
        How to round the quotient to an integer. Default: half to even. Narrow floats allow
        only half to even and "stochastic". Stochastic rounding picks one of the two
        neighbours at random, the nearer one with the higher probability.
    precision : dtype_like, optional
        Type to round the exact quotient to, before it is rounded to an integer: float16,
        bfloat16, float32 or float64. Default: float32, or float64 if `x` is float64.
    saturate : bool, optional
        For narrow floats. True (the default): values that are too large become the largest
        finite number. False: they become infinity, or NaN if the type has no infinity.
        Integer types require True.
    packed : bool, str or tuple, optional
        Return a `PackedArray` instead of one byte for each element. True: the layout of
        ONNX, for types of 2 or 4 bits. A layout, or a tuple of layout, axis and bits: see
        `pack`. With `bits`, uint8 codes saturate to that width. `packed` does not need
        ml_dtypes and excludes `out`.
    out : ndarray, optional
        Array for the result, of the exact shape and dtype. Dimensions may have any
        strides, but must not interleave.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on it.
    offset : array_like, optional
        Real numbers: one element, or the shape of `scale`. The quotient is
        ``(x - offset) / scale``. Each step is rounded once, to float32 (float64 if `x` or
        `precision` is float64). Infinite and NaN offsets follow IEEE arithmetic.
    inverse : bool, optional
        True: multiply by `scale`, ``(x - offset) * scale``. Default False.
    fill : int or sequence of int, optional
        Codes that represent NaN. NaN in `x` becomes the first of them. Integer types only.
    quant_range : (int, int), optional
        Lowest and highest code, within the range of `dtype`. The range must contain all
        zero points, unless every zero point is 0. Integer types only.
    out_of_range : {"saturate", "wrap", "raise"}, optional
        Treatment of values out of range. "saturate" (the default): the nearest
        end of the range. "wrap", for integer types: the code modulo two to the number of
        bits, and the lowest code for an infinity. "raise": an error that states the number
        of these values and the index of the first.
    nan : {"lowest", "raise"}, optional
        Treatment of NaN if `fill` is not given. "lowest" (the default): the code under
        Returns. "raise": an error.
    seed : int, optional
        Seed of stochastic rounding, from 0 (the default) to 2**64 - 1.
    start : int, optional
        Position of the first element of `x` in a larger array in C order, from 0 (the
        default) to 2**64 - 1, for stochastic rounding. Chunks along the first axis, each
        with its own `start`, get the codes of one call on the complete array.
    codebook : str or array_like, optional
        Table of 4, 8, 16, 32, 64, 128 or 256 numbers, rounded once to float32, or a name:
        "nf4", "fp4_bnb", "dynamic8" or "dynamic8_unsigned". Each code is the index of the
        number nearest to ``x / scale`` (``x * scale`` with `inverse`). Midpoints are
        rounded to float32. A value at a midpoint becomes the lower number, and NaN the
        lowest. `dtype` is uint8 (the default) or the width of the table, uint4 or uint2,
        which `packed` selects. `codebook` allows only `inverse`, `axis`, `block_size`,
        `packed`, `out` and `threads` beside it.

    Returns
    -------
    ndarray or PackedArray
        The codes, with the shape of `x`. If `out` is given, the result is `out`. NaN
        becomes the lowest code of an integer type and NaN of a float8 type. Float6 types,
        which have no NaN, get -0; float4_e2m1fn gets 6.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a value or a shape is wrong; `out` is unchanged. If `out_of_range` or `nan` is
        "raise" and a value fails the check; `out` then holds the saturated codes.
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
            x, scale, dtype, axis, block_size, packed, out, threads,
            _with_book(codebook, inverse, (
                zero_point, offset, fill, None, rounding, precision, saturate, quant_range,
                out_of_range, nan, seed, start,
            ))
        )
    return _quantize(x, scale, zero_point, dtype, axis, block_size,
                     _with_noise(rounding, seed, start), precision, saturate, packed, out,
                     threads,
                     _affine(offset, inverse, fill, quant_range, out_of_range, nan), False)


@hinted
def dequantize(q, scale, zero_point=None, *, dtype=None, axis=None, block_size=None,
               out=None, threads=1, offset=None, inverse=False, fill=None, bias=None,
               codebook=None):
    """
    Convert codes to real numbers: ``(q - zero_point) * scale``.

    Parameters
    ----------
    q : array_like or PackedArray
        Codes of a type that `quantize` returns, of any shape, strides and byte order.
        Python integers become int32, or uint32 if int32 is too small.
    scale : array_like
        Real numbers, rounded once to float32 (float64 if `dtype` is float64). `quantize`
        describes the shapes.
    zero_point : array_like, optional
        Integers within the range of the type of `q`: one element, or the shape of `scale`.
        Default 0.
    dtype : dtype_like, optional
        float32, float64, float16 or bfloat16. Default: the dtype of `out`, else float32.
    axis, block_size : int or tuple of int, optional
        The granularity, see `quantize`.
    out : ndarray, optional
        Array for the result, of the exact shape and dtype. Dimensions may have any
        strides, but must not interleave.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on it.
    offset : array_like, optional
        Real numbers: one element, or the shape of `scale`. They are added to the products.
        Products and sums are rounded to float32 (float64 if `dtype` is float64).
    inverse : bool, optional
        True: divide by `scale`. Default False.
    fill : int or sequence of int, optional
        Codes that become NaN. Integer types only.
    bias : array_like, optional
        Another name of `offset`, used by weight formats: ``q * scale + bias`` of MLX.
        `bias` and `offset` exclude each other.
    codebook : str or array_like, optional
        A table, see `quantize`. `q` holds uint8, uint4 or uint2 indices into the table. The
        result is ``codebook[q] * scale`` (``codebook[q] / scale`` with `inverse`), rounded
        to float32 and then to `dtype`.

    Returns
    -------
    ndarray
        Real numbers, with the shape of `q`. If `out` is given, the result is `out`.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a value or a shape is wrong; `out` is unchanged.
    numpy.exceptions.AxisError
        If an axis is out of bounds.
    ImportError
        If a type needs ml_dtypes and the package is not installed.

    Notes
    -----
    The result equals the definition of ONNX DequantizeLinear, nGraph Dequantize and oneDNN
    Graph Dequantize, bit for bit: an exact integer difference, one conversion to float32
    (float64 for float64 results), one multiplication, one conversion to `dtype`. Each step
    rounds half to even. A NaN result is the positive quiet NaN on every CPU.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> pq.dequantize(np.array([2, 4, 0, 255], np.uint8), 0.5, 1)
    array([  0.5,   1.5,  -0.5, 127. ], dtype=float32)
    """
    if codebook is not None:
        return _dequantize_by_book(
            q, scale, dtype, axis, block_size, out, threads,
            _with_book(codebook, inverse, (zero_point, offset, fill, bias))
        )
    return _dequantize(q, scale, zero_point, dtype, axis, block_size, out, threads,
                       _biased(bias, offset, inverse, fill), False)


cdef class Calls:
    """Methods of QParams; a C type reads their arguments as fast as a function."""

    # Shape, dtype and memory of arrays that properties build on access.
    cdef tuple _scales
    cdef tuple _zeros
    # The fastest form for calls.
    cdef object _given_scale
    cdef object _given_zero
    cdef object _dtype  # dtype of codes, or None if NumPy lacks it
    cdef readonly str _name
    cdef readonly object _axis
    cdef readonly object _block_size
    cdef tuple _offsets  # stored like _scales, or None
    cdef _Affine _affine  # offsets in the form for calls, or None

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
        cdef Calls made = cls.__new__(cls)
        cdef _Affine affine = _affine(None, False, None, quant_range, _SATURATE, _LOWEST)
        made._keep(_choose(x, dtype, axis, block_size, symmetric, scale_dtype,
                           like, _search_of(method, weights, candidates), affine,
                           threads))
        made._affine = affine
        return made

    @staticmethod
    def _from_range(type cls not None, lo, hi, dtype, axis, block_size, symmetric,
                    quant_range, scale_dtype, like, /):
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
        return _quantize(x, self._given_scale, self._given_zero, self._name,
                         self._axis, self._block_size, rounding, precision, saturate,
                         packed, out, threads,
                         _with_policies(self._affine, out_of_range, nan), True)

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
        if type(q) is not _ndarray or q.dtype is not self._dtype:
            q = _codes_for(q, self._name)
        return _dequantize(q, self._given_scale, self._given_zero, dtype,
                           self._axis, self._block_size, out, threads, self._affine,
                           True)


hinted(Calls.quantize)
hinted(Calls.dequantize)
