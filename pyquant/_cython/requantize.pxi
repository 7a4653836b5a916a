# Convert codes, or sums of products of codes, to codes of another scale.

cdef dict _FIXED_POINT = {
    "rndnu": <int>PQ_ARITHMETIC_RNDNU,
    "tflite": <int>PQ_ARITHMETIC_TFLITE,
    "tflite_single": <int>PQ_ARITHMETIC_TFLITE_SINGLE,
    "fbgemm": <int>PQ_ARITHMETIC_FBGEMM,
}
cdef dict _ARITHMETICS = {"float32": <int>PQ_ARITHMETIC_FLOAT32, **_FIXED_POINT}
cdef dict _REQUANTIZED = {
    name: _CODES[name] for name in ("int8", "uint8", "int16", "uint16", "int32")
}
cdef str _REQUANTIZED_NAMES = "int8, uint8, int16, uint16 or int32"
cdef frozenset _ACCUMULATED = frozenset(
    (*_REQUANTIZED.values(), <int>PQ_U32, <int>PQ_I64)
)
cdef str _ACCUMULATED_NAMES = "int8 to int64 or uint8 to uint32"


cdef int _requantize_part(const Job *job, int part) noexcept nogil:
    return pq_requantize(_active, job.more, part, job.parts)


cdef object _hold_whole(object array, Array *held, str name):
    """Store the description of an array of integers in `held`, after a check of the type.
    Return the array."""
    if not _hold(array, held) or <int>held.type not in _ACCUMULATED:
        raise TypeError(f"{name}: expected {_ACCUMULATED_NAMES}, got {_describe(array)}")
    return array


cdef int _place_channels(Call *call, str name, Array *a, object axis,
                         pq_channels *to) except -1:
    """Store in `to` the description of an array that has one element, or an element for
    each index of `axis`."""
    to[0] = pq_channels(a.data, 0, a.type, a.swapped)
    if _size(a) == 1:
        return 0
    if axis is None:
        raise _error(ValueError, name, "one element without axis",
                     f"shape {_shape(a)}{_fitting(call, name, a)}")
    if a.ndim != 1 or a.shape[0] != call.args.shape[<int>axis]:
        raise ValueError(
            f"{name}: expected shape {(call.args.shape[<int>axis],)}, got {_shape(a)}"
        )
    # A stride of 0 would mean that all channels share one element.
    to.stride = a.strides[0] if a.shape[0] > 0 else 1
    return 0


cdef int64_t _code_of(object value, str name, pq_type type) except? -1:
    """Check that an integer is within the range of a type, and return the integer."""
    cdef const pq_type_info *row = row_of_type(type)
    one = _integer(value, name, "an integer")
    if not row.lowest <= one <= row.highest:
        expected = f"an integer from {row.lowest} to {row.highest} for {_NAMES[<int>type]}"
        raise _error(ValueError, name, expected, one)
    return one


def has_fixed_point(str arithmetic not None, double multiplier, /):
    """Return True if a fixed-point arithmetic can represent a real multiplier."""
    cdef int32_t m
    cdef int s, number = _ARITHMETICS[arithmetic]
    return pq_fixed_point(<pq_arithmetic>number, multiplier, &m, &s) == PQ_OK


cdef object _refused_multiplier(object arithmetic, object multiplier, object shift):
    """Return the error for a multiplier that the core rejects."""
    from pyquant._refused import of_multiplier

    return of_multiplier(str(arithmetic), multiplier, shift)


@hinted
def requantize(q, multiplier, zero_point=0, *, dtype="int8", input_zero_point=0, bias=None,
               axis=None, arithmetic="float32", quant_range=None, shift=None, out=None,
               threads=1):
    """
    Convert integers to codes of another scale, in fixed point or float32.

    The result is ``saturate(R(q - input_zero_point + bias) + zero_point)``, where R
    multiplies by `multiplier` and rounds.

    Parameters
    ----------
    q : array_like
        int8, int16, int32, int64, uint8, uint16 or uint32 array of any shape, strides and
        byte order: codes, or sums of products of codes. Python integers become int32.
    multiplier : array_like
        float32 or float64 numbers above 0: the scale of `q` divided by the scale of the
        result. One element, or one for each index of `axis`. With `shift`: integers from 0
        to 2**31 - 1. Two NumPy arrays with one dimension, such as ``(row_scale,
        column_scale)``: factors of the multipliers for two axes, see Notes.
    zero_point : int, optional
        Zero point of the result, within the range of `dtype`. Default 0.
    dtype : dtype_like, optional
        int8 (the default), uint8, int16, uint16 or int32.
    input_zero_point : int, optional
        Zero point of `q`, within the range of its type. Default 0.
    bias : array_like, optional
        Integers in the scale of `q`: one element, or one for each index of `axis`. With two
        axes: one for each index of the second axis.
    axis : int or (int, int), optional
        The axis along which multipliers, shifts and biases vary. With two arrays of
        multipliers: two axes, by default the last two.
    arithmetic : str, optional
        The arithmetic of R: "float32" (the default), "rndnu", "tflite", "tflite_single" or
        "fbgemm"; see Notes.
    quant_range : (int, int), optional
        Lowest and highest code of the result, within the range of `dtype`. To fuse a ReLU,
        pass `zero_point` as the lowest code.
    shift : array_like, optional
        Integers that `fixed_point` returns beside its multipliers: from -31 to 30 for
        "tflite" and "tflite_single", from 1 to 62 for "rndnu" and "fbgemm".
    out : ndarray, optional
        Array for the result, of the exact shape and dtype. Dimensions may have any strides,
        but must not interleave. `out` must not share memory with `q`.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on `threads`.

    Returns
    -------
    ndarray
        The codes, with the shape of `q`. If `out` is given, the result is `out`.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a value or a shape is wrong, or the arithmetic cannot represent a multiplier;
        `out` is unchanged.
    numpy.exceptions.AxisError
        If the axis is out of bounds.

    Notes
    -----
    The sum ``v = q - input_zero_point + bias`` is exact within int64, and saturates beyond
    int64. The formulas below, except "float32", use unbounded integers and the m and shift
    that `fixed_point` returns. ``>>`` rounds down::

        float32         half_even(float32(v) * float32(multiplier)), the product in float32
        rndnu, fbgemm   (v * m + 2**(shift - 1)) >> shift
        tflite_single   (v * m + 2**(30 - shift)) >> (31 - shift)
        tflite          (v * m + 2**(30 - shift)) >> (31 - shift) where shift >= 0, else
                        half_away(x / 2**-shift) of x = (v * m + 2**30) >> 31

    Where other implementations overflow, the result saturates.

    Two arrays in `multiplier` contain factors of multipliers. The multiplier of an element
    is the product of two factors, one for the index of the element along each axis. Factors
    and products are rounded to float32.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> sums = np.int32([[1000, -2000], [30, 500]])
    >>> pq.requantize(sums, [0.05, 0.02], axis=1)
    array([[ 50, -40],
           [  2,  10]], dtype=int8)
    >>> pq.requantize(sums, [0.05, 0.02], axis=1, arithmetic="tflite_single")
    array([[ 50, -40],
           [  1,  10]], dtype=int8)
    """
    cdef Call call
    cdef Array held_bias
    cdef Pair pair
    cdef bint by_pair = shift is None and _is_pair(multiplier)
    cdef pq_requantization args
    cdef pq_type code
    cdef int status
    cdef tuple ends
    _forget(&call)
    held_bias.held = False
    memset(&args, 0, sizeof(args))
    args.size = sizeof(args)
    # Convert all arguments before reading arrays, because a conversion may run user code
    # that changes an array.
    array = _code_array(q, "q")
    if isinstance(array, Packed):
        raise TypeError(f"q: expected {_ACCUMULATED_NAMES}, got a PackedArray")
    code = _type_in(_REQUANTIZED, dtype, "dtype", _REQUANTIZED_NAMES)
    args.arithmetic = <pq_arithmetic>_choice_of(_ARITHMETICS, arithmetic, "arithmetic")
    if shift is not None:
        if args.arithmetic == PQ_ARITHMETIC_FLOAT32:
            raise ValueError("shift: expected None for arithmetic='float32'")
        shift = _code_array(shift, "shift")
        multiplier = _code_array(multiplier, "multiplier")
    elif not by_pair:
        multiplier = _real_array(multiplier, "multiplier")
    if bias is not None:
        bias = _code_array(bias, "bias")
    axis = integers(axis, "axis")
    if PyTuple_CheckExact(axis) and not by_pair:
        raise TypeError("axis: expected None or an integer, got tuple")
    args.zero = _code_of(zero_point, "zero_point", code)
    input_zero_point = _integer(input_zero_point, "input_zero_point", "an integer")
    ends = _range_given(quant_range)
    threads = _threads_of(threads)
    # Hold the memory.
    _hold_whole(array, &call.x, "q")
    _set_input(&call)
    args.input_zero = _code_of(input_zero_point, "input_zero_point", call.x.type)
    if by_pair:
        pair.axes = _pair_axes(&call, axis, "multipliers")
        axis = pair.axes[1]
    elif axis is not None:
        axis = _axes(axis, call.x.ndim)[0]
    if axis is not None:
        args.axis = axis
    if shift is not None:
        _hold_whole(multiplier, &call.scale, "multiplier")
        _hold_whole(shift, &call.zero, "shift")
        _place_channels(&call, "shift", &call.zero, axis, &args.shift)
    elif not by_pair and (
        not _hold(multiplier, &call.scale) or call.scale.type not in (PQ_F32, PQ_F64)
    ):
        raise _error(TypeError, "multiplier",
                     "float32 or float64, or integers beside shift", _describe(multiplier))
    if not by_pair:
        _place_channels(&call, "multiplier", &call.scale, axis, &args.multiplier)
    if bias is not None:
        _hold_whole(bias, &held_bias, "bias")
        _place_channels(&call, "bias", &held_bias, axis, &args.bias)
    if ends is not None:
        lo, hi = _LIMITS[<str>_NAMES[<int>code]]
        if not lo <= ends[0] <= ends[1] <= hi:
            raise ValueError(
                f"quant_range: expected two integers from {lo} to {hi} for "
                f"{_NAMES[<int>code]}, the first not above the second, got {ends}"
            )
        args.clips = True
        args.lowest_code, args.highest_code = ends
    exact = _hold_out(&call, out, code)
    _check_overlap(&call, exact, &call.x, array, "q")
    _check_overlap(&call, exact, &call.scale, multiplier, "multiplier")
    _check_overlap(&call, exact, &call.zero, shift, "shift")
    _check_overlap(&call, exact, &held_bias, bias, "bias")
    args.ndim = call.x.ndim
    args.shape = call.x.shape
    args.inp = call.args.inp
    args.out = call.args.out
    if by_pair:
        _requantize_by_pair(&call, exact, &pair, multiplier, bias, &args, arithmetic,
                            threads)
        return exact if out is None else out
    status = _run_threads(_requantize_part, NULL, &args, _size(&call.x),
                          call.x.itemsize + call.out.itemsize, threads)
    if status == PQ_ERR_OPTION:
        raise _refused_multiplier(arithmetic, multiplier, shift)
    if status != PQ_OK:
        _raise(status, &call.out, &call.x, "q")
    return exact if out is None else out


@default_fpenv
def fixed_point(multiplier, arithmetic="tflite"):
    """
    Convert real multipliers to the integers that `requantize` uses.

    Parameters
    ----------
    multiplier : array_like
        float32 or float64 numbers above 0, of any shape.
    arithmetic : str, optional
        "tflite" (the default), "tflite_single", "rndnu" or "fbgemm".

    Returns
    -------
    multiplier : ndarray or int32
        int32 multipliers, with the shape of the argument.
    shift : ndarray or int8
        int8 shifts, with the shape of the argument. The real number is ``multiplier *
        2**(shift - 31)`` for "tflite" and "tflite_single", and ``multiplier / 2**shift``
        for "rndnu" and "fbgemm".

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If the arithmetic cannot represent a number. The message states the range.

    Notes
    -----
    "tflite" and "tflite_single" round to 31 bits, half away from zero. Numbers below 2**-32
    become 0. For numbers from 2**30 on, "tflite_single" returns the largest pair, ``(2**31
    - 1, 30)``. "rndnu" keeps the 24 bits of float32, for numbers from 2**-32 to less than
    2**8. "fbgemm" also keeps 24 bits, for numbers from 2**-32 to less than 2**30, and
    returns integers from 2**30 on.

    Examples
    --------
    >>> import pyquant as pq
    >>> m, shift = pq.fixedpoint.fixed_point(1 / 3)
    >>> int(m), int(shift)
    (1431655765, -1)
    """
    cdef Array held
    cdef int32_t m = 0
    cdef int s = 0, number
    number = _choice_of(_FIXED_POINT, arithmetic, "arithmetic")
    array = _real_array(multiplier, "multiplier")
    if not _hold(array, &held) or not (held.type == PQ_F32 or held.type == PQ_F64):
        raise _error(TypeError, "multiplier", "float32 or float64", _describe(array))
    flat = array.reshape(-1)  # NumPy's iterators have at most 32 dimensions
    integers = _np.empty(flat.shape, _np.int32)
    shifts = _np.empty(flat.shape, _np.int8)
    for i, one in enumerate(flat):
        if pq_fixed_point(<pq_arithmetic>number, one, &m, &s) != PQ_OK:
            raise _refused_multiplier(arithmetic, one, None)
        integers[i] = m
        shifts[i] = s
    return integers.reshape(array.shape)[()], shifts.reshape(array.shape)[()]
