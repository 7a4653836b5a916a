# Read offsets, multipliers, codes for NaN and policies for values out of range.

cdef object _SATURATE = "saturate"
cdef object _LOWEST = "lowest"
cdef object _RAISE = "raise"
cdef dict _BEYOND = {
    "saturate": <int>PQ_SATURATE, "wrap": <int>PQ_WRAP, "raise": <int>PQ_REFUSE
}
cdef dict _NANS = {"lowest": False, "raise": True}


@final
cdef class _Affine:
    """Converted options, independent of user objects."""
    cdef object offset      # a Python float, an ndarray, or `None`
    cdef tuple fill         # codes as Python integers
    cdef bytes fill_bits    # these codes as int64
    cdef bint inverse
    cdef tuple quant_range  # two Python integers, or `None`
    cdef pq_beyond beyond
    cdef bint refuse_nan
    cdef bint is_policy     # only out_of_range and nan are set
    cdef bint as_bias       # true if the offset was passed as bias
    cdef _Codebook book     # the only option beside `inverse`, or `None`

    cdef int set(self, Call *call, str code, bint quantizes, int bits=0) except -1:
        """Store all options except the offset in the call, after the checks of type and
        width."""
        if self.is_policy:
            if code in _dtypes.NARROW_FLOATS:
                self.check_float(code)
            call.args.beyond = self.beyond
            call.args.refuse_nan = self.refuse_nan
            return 0
        call.args.inverse = self.inverse
        if self.book is not None:
            return _set_book(call, self.book, code, quantizes, bits)
        self.check(code, quantizes, bits)
        call.args.fills = len(self.fill)
        if call.args.fills:
            call.args.fill = <const int64_t *>PyBytes_AS_STRING(self.fill_bits)
        if quantizes and self.quant_range is not None:
            first, last = self.quant_range
            call.args.lowest_code, call.args.highest_code = _bits_of(first), _bits_of(last)
        if quantizes:
            call.args.beyond = self.beyond
            call.args.refuse_nan = self.refuse_nan
        return 0

    cdef int check(self, str code, bint quantizes, int bits=0) except -1:
        if code in _dtypes.NARROW_FLOATS:
            return self.check_float(code)
        lo, hi = _LIMITS[code]
        if bits != 0 and code == "uint8":
            hi = (1 << bits) - 1
            code = _in_bits(code, bits)
        for one in self.fill:
            if not lo <= one <= hi:
                raise ValueError(
                    f"fill: expected integers from {lo} to {hi} for {code}, "
                    f"got {_shown(one)}"
                )
        if self.quant_range is not None:
            self.check_range(code, lo, hi)
        return 0

    cdef int check_range(self, str code, object lo, object hi) except -1:
        first, last = self.quant_range
        if not lo <= first < last <= hi:
            raise ValueError(
                f"quant_range: expected two integers from {lo} to {hi} for {code}, the "
                f"first below the second, got {_shown(self.quant_range)}"
            )
        for one in self.fill:
            if first <= one <= last:
                raise ValueError(
                    f"fill: expected codes outside of quant_range={self.quant_range}, "
                    f"got {_shown(one)}"
                )
        if self.beyond == PQ_WRAP:
            raise ValueError(
                "out_of_range: expected 'saturate' or 'raise' beside quant_range, "
                "got 'wrap'"
            )
        return 0

    cdef int check_float(self, str code) except -1:
        if self.fill:
            raise ValueError(f"fill: expected None for {code}, got {list(self.fill)}")
        if self.quant_range is not None:
            raise ValueError(
                f"quant_range: expected None for {code}, got {self.quant_range}"
            )
        if self.beyond == PQ_WRAP:
            raise ValueError(
                f"out_of_range: expected 'saturate' or 'raise' for {code}, got 'wrap'"
            )
        return 0


cdef str _in_bits(str code, int bits):
    """Describe codes with fewer bits than their type, for messages."""
    return code if bits == 8 else f"{code} in {bits} bits"


cdef inline str _offset_name(bint as_bias):
    """Return the argument name of the offset, for messages."""
    return "bias" if as_bias else "offset"


cdef object _offset_given(object offset, str name):
    """Return `None`, a Python float or an ndarray of a type of scales."""
    if offset is None or PyFloat_CheckExact(offset):
        return offset
    array = offset if type(offset) is _ndarray else _numbers(offset, PQ_F64)
    if array is None:
        array = _converted(_convert.reals, (offset, name))
    return array


cdef tuple _fills_given(object fill):
    """Return the codes of `fill`, or an empty tuple."""
    if fill is None:
        return ()
    if isinstance(fill, (str, bytes)) or not isinstance(fill, _Iterable):
        fill = (fill,)
    elif isinstance(fill, _ndarray) and fill.ndim == 0:
        fill = (fill[()],)
    codes = []
    for one in fill:  # a row of an array is not an integer
        one = _integer(one, "fill", "None, an integer or several")
        if not -2**63 <= one < 2**64:
            raise ValueError(
                f"fill: expected integers of the quantized type, got {_shown(one)}"
            )
        codes.append(one)
    if not codes:
        raise ValueError("fill: expected None, an integer or several, got none")
    return tuple(codes)


cdef bytes _bits_of_all(tuple codes):
    cdef bytes bits = PyBytes_FromStringAndSize(NULL, len(codes) * sizeof(int64_t))
    cdef char *to = PyBytes_AS_STRING(bits)
    for one in codes:
        _put_integer(_bits_of(one), sizeof(int64_t), to)
        to += sizeof(int64_t)
    return bits


cdef tuple _range_given(object quant_range):
    if quant_range is None:
        return None
    try:
        first, last = quant_range
    except (TypeError, ValueError):
        # Containers are not printed, because they may be nested too deeply.
        plain = isinstance(quant_range, (int, float))
        got = _shown(quant_range) if plain else type(quant_range).__name__
        raise TypeError(f"quant_range: expected two integers, got {got}") from None
    return tuple([
        _integer(one, "quant_range", "two integers") for one in (first, last)
    ])


cdef int _choice_of(dict choices, object value, str name) except -1:
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a string, got {type(value).__name__}")
    if type(value) is str and value in choices:
        return choices[value]
    for one, number in choices.items():
        if value == one:
            return number
    raise ValueError(
        f"{name}: expected one of {', '.join(choices)}, got {str(value)!r}"
        f"{_hint(str(value), choices)}"
    )


cdef inline object _affine(object offset, object inverse, object fill,
                           object quant_range, object out_of_range, object nan):
    """Return `None` if all options have their defaults."""
    if (
        offset is not None or inverse is not False or fill is not None
        or quant_range is not None
    ):
        return _made_affine(offset, inverse, fill, quant_range, out_of_range, nan)
    if out_of_range is _SATURATE and nan is _LOWEST:
        return None
    return _policy(out_of_range, nan)


cdef object _policy(object out_of_range, object nan):
    """Shared options for policies without other options."""
    cdef int beyond = PQ_REFUSE
    if out_of_range is not _RAISE:
        beyond = _choice_of(_BEYOND, out_of_range, "out_of_range")
    return <object>_policies[beyond][
        False if nan is _LOWEST else _choice_of(_NANS, nan, "nan")
    ]


cdef object _biased(object bias, object offset, object inverse, object fill):
    """Return the options of dequantize."""
    if bias is None:
        return _affine(offset, inverse, fill, None, _SATURATE, _LOWEST)
    if offset is not None:
        raise ValueError(f"bias: expected None beside offset, got {type(bias).__name__}")
    return _made_affine(bias, inverse, fill, None, _SATURATE, _LOWEST, True)


cdef object _made_affine(object offset, object inverse, object fill, object quant_range,
                         object out_of_range, object nan, bint as_bias=False):
    cdef _Affine made = _Affine()
    made.as_bias = as_bias
    made.offset = _offset_given(offset, _offset_name(as_bias))
    made.inverse = _flag(inverse, "inverse")
    made.fill = _fills_given(fill)
    made.fill_bits = _bits_of_all(made.fill)
    made.quant_range = _range_given(quant_range)
    made.beyond = <pq_beyond>_choice_of(_BEYOND, out_of_range, "out_of_range")
    made.refuse_nan = _choice_of(_NANS, nan, "nan")
    return made


cdef PyObject *_policies[<int>PQ_BEYOND_COUNT][2]


cdef object _make_policies():
    """Return each policy; they live as long as the module."""
    cdef _Affine made
    cdef list kept = []
    for out_of_range, beyond in _BEYOND.items():
        for nan, refuse in _NANS.items():
            made = _made_affine(None, False, None, None, out_of_range, nan)
            made.is_policy = True
            _policies[<int>beyond][<int>refuse] = <PyObject *>made
            kept.append(made)
    return kept


cdef list _kept_policies = _make_policies()


cdef object _with_policies(_Affine parameters, object out_of_range, object nan):
    """Return the options of QParams with the policies of a call."""
    cdef _Affine made
    if out_of_range is _SATURATE and nan is _LOWEST:
        return parameters
    if parameters is None:
        return _policy(out_of_range, nan)
    made = _made_affine(None, False, None, None, out_of_range, nan)
    made.offset = parameters.offset
    made.fill, made.fill_bits = parameters.fill, parameters.fill_bits
    made.quant_range = parameters.quant_range
    return made


cdef object _checked_numbers(object array, Array *held, str name):
    if not _hold(array, held):
        raise TypeError(f"{name}: expected real numbers, got {_describe(array)}")
    return array


cdef object _number_alone(object values):
    """Return one number as a Python float, and any other array unchanged."""
    if PyFloat_CheckExact(values) or values.size != 1:
        return values
    return cast(values, "float64").item()


cdef object _in_order(object array):
    """Return float64 numbers in C order."""
    made = _doubles(array)
    return _np.ascontiguousarray(cast(array, "float64")) if made is None else made


cdef object _doubles(object array):
    """Return ordered float32 or float64 numbers without a copy, or `None`."""
    cdef Array held
    cdef pq_fpenv found
    cdef float value = 0
    cdef double *to
    cdef Py_ssize_t i
    if not (
        Py_TYPE(array) is &PyArray_Type and _hold(array, &held)
        and PyArray_IS_C_CONTIGUOUS(<const PyArrayObject *>array)
        and held.type in (PQ_F32, PQ_F64) and not held.swapped
    ):
        return None
    if held.type == PQ_F64:
        return array
    made = _new_like(&held, PQ_F64)
    to = <double *>PyArray_DATA(<const PyArrayObject *>made)
    found = pq_fpenv_enter()
    for i in range(_size(&held)):
        memcpy(&value, held.data + i * <Py_ssize_t>sizeof(value), sizeof(value))
        to[i] = value
    pq_fpenv_leave(found)
    return made


cdef object _repeated(double value, object like):
    """Return an array of a shape, filled with one number: of equal type and strides, if a
    float32 array can hold the number."""
    cdef Array held
    if like.dtype == _np.float32 and (<double><float>value == value or value != value):
        return _copied_like(value, like)
    cdef double *to
    cdef Py_ssize_t i
    if not _hold(like, &held):
        return _np.full(like.shape, value)
    made = _new_like(&held, PQ_F64)
    to = <double *>PyArray_DATA(<const PyArrayObject *>made)
    for i in range(_size(&held)):
        to[i] = value
    return made


cdef object _copied_like(object values, object like):
    """Return a copy of values with the type and, unless elements overlap, the strides of an
    array."""
    made = _np.empty_like(like, subok=False)
    made[...] = values
    return made


cdef tuple _alike(object scale, object offset, bint as_bias=False):
    """Return scales and offsets as two floats, or as arrays of equal type and strides."""
    scale, offset = _number_alone(scale), _number_alone(offset)
    if PyFloat_CheckExact(scale) and PyFloat_CheckExact(offset):
        return scale, offset
    if PyFloat_CheckExact(scale):
        scale = _repeated(scale, offset)
    elif PyFloat_CheckExact(offset):
        offset = _repeated(offset, scale)
    elif offset.shape != scale.shape:
        raise ValueError(
            f"{_offset_name(as_bias)}: expected shape {scale.shape}, got {offset.shape}"
        )
    if scale.dtype == offset.dtype and scale.strides != offset.strides:
        # Only the array that broadcasts is copied.
        if 0 in scale.strides:
            scale = _copied_like(scale, offset)
        else:
            offset = _copied_like(offset, scale)
    if scale.dtype != offset.dtype or scale.strides != offset.strides:
        scale, offset = _in_order(scale), _in_order(offset)
    return scale, offset


# Arrays of this number of parameters are always copied.
cdef enum:
    _FEW_PAIRS = 4096


cdef bint _are_too_many(Array *given, tuple extents) except -1:
    """Return True if no granularity of the array has this number of parameters."""
    if not given.held or _size(given) <= _FEW_PAIRS:
        return False
    return _size(given) > _prod([max(one, 1) for one in extents])


cdef tuple _paired(Call *call, object scale, _Affine affine, tuple extents):
    """Return scale and offset as arrays of equal type and strides, or `None` for numbers,
    which the call stores. Return only the longer one if its placement will fail, because
    a broadcast array may exceed the memory."""
    offset = affine.offset
    call.as_bias = affine.as_bias
    if not PyFloat_CheckExact(offset):
        _checked_numbers(offset, &call.offset, _offset_name(call.as_bias))
    if scale is None:
        scale = call.scale_value
    else:
        _checked_numbers(scale, &call.scale, "scale")
    call.as_offset = PyFloat_CheckExact(scale) or scale.size == 1
    if _are_too_many(&call.offset if call.as_offset else &call.scale, extents):
        return (offset if call.as_offset else scale), None
    scale, offset = _alike(scale, offset, call.as_bias)
    if not PyFloat_CheckExact(scale):
        return scale, offset
    call.scale_value = PyFloat_AS_DOUBLE(scale)
    call.offset_value = PyFloat_AS_DOUBLE(offset)
    call.args.scale.data = &call.scale_value
    call.args.scale.type = PQ_F64
    call.args.scale.swapped = False
    call.args.offset = &call.offset_value
    call.scale.held = call.offset.held = False
    return None, None


cdef int _hold_offset(Call *call, object array) except -1:
    """Place the offset with the strides of the scale, unless another thread changed them.
    """
    cdef int d
    cdef bint alike
    if array is None:
        return 0
    alike = (
        _hold(array, &call.offset)
        and call.offset.type == call.scale.type
        and call.offset.swapped == call.scale.swapped
        and _same_shape(&call.offset, &call.scale)
    )
    for d in range(call.offset.ndim if alike else 0):
        if call.scale.shape[d] > 1 and call.offset.strides[d] != call.scale.strides[d]:
            alike = False
    if not alike:
        raise ValueError(
            f"{_offset_name(call.as_bias)}: expected an array that stays as it is, "
            "got a changed one"
        )
    call.args.offset = call.offset.data
    return 0


cdef object _error_at(str text, size_t first, tuple shape, str end=""):
    """Return an error about elements that carries the index of the first element."""
    place = tuple([int(one) for one in _np.unravel_index(first, shape)])
    error = ValueError(f"{text}, the first at index {place}{end}")
    error.index = place
    return error


cdef tuple _ends_of(Call *call, pq_type code):
    """Return the requested range of codes."""
    lo, hi = <object>call.args.lowest_code, <object>call.args.highest_code
    return (lo % 2**64, hi % 2**64) if code == PQ_U64 else (lo, hi)


cdef object _beyond_error(Call *call):
    """Raise the error with the number of elements out of range and the first index."""
    cdef size_t count = 0, first = 0
    with nogil:
        pq_count_beyond(_active, &call.args, &count, &first)
    expected = []
    if call.args.beyond == PQ_REFUSE:
        name = _NAMES[<int>call.args.out.type]
        if call.args.out_layout != NULL and call.args.out.type == PQ_U8:
            name = _in_bits(name, call.args.out_layout.bits)
        within = f"numbers within the range of {name}"
        if call.args.lowest_code or call.args.highest_code:
            ends = _ends_of(call, call.args.out.type)
            within = f"numbers whose codes are from {ends[0]} to {ends[1]}"
        expected.append(within)
    if call.args.refuse_nan:
        expected.append("no NaN")
    # Beyond the last element if the data changed meanwhile.
    first = min(first, <size_t>_size(&call.x) - 1)
    written = "; out has all codes, as without 'raise'" if call.has_out else ""
    raise _error_at(
        f"x: expected {' and '.join(expected)}, got {count} others", first,
        _shape(&call.x), written
    )


cdef int _check_precision(Call *call, str beside) except -1:
    """Return True if `precision` does not narrow the quotient."""
    cdef pq_type precision = call.args.precision
    if not (
        precision == PQ_NO_TYPE or precision == PQ_F64
        or (precision == PQ_F32 and call.x.type != PQ_F64)
    ):
        least = "float64" if call.x.type == PQ_F64 else "float32 or float64"
        raise ValueError(
            f"precision: expected None or {least} beside {beside}, "
            f"got {_NAMES[<int>precision]}"
        )
    return 0


cdef int _check_beside_affine(Call *call, _Affine affine) except -1:
    """Raise an error for options that narrow the arithmetic or change saturation."""
    _check_precision(
        call, "offset, inverse, fill, quant_range, out_of_range and nan"
    )
    if call.args.overflow and affine.beyond == PQ_REFUSE:
        raise ValueError("saturate: expected True beside out_of_range='raise', got False")
    return 0
