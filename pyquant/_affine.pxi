# Affine numbers, codes that are none, and what is out of range: options of both directions.

cdef object _SATURATE = "saturate"
cdef object _LOWEST = "lowest"
cdef dict _BEYOND = {
    "saturate": <int>PQ_SATURATE, "wrap": <int>PQ_WRAP, "raise": <int>PQ_REFUSE
}
cdef dict _NANS = {"lowest": False, "raise": True}


@final
cdef class _Affine:
    """Such options, converted: nothing in it is a user's any more."""
    cdef object offset      # None, a Python float, or an ndarray
    cdef bytes fill         # of int64
    cdef bint inverse
    cdef tuple quant_range  # None, or two Python integers
    cdef pq_beyond beyond
    cdef bint refuse_nan

    cdef int set(self, Call *call, str code, bint quantizes, int bits=0) except -1:
        """In the call, all but the offset; after what does not go with the type, or with
        codes of that many bits."""
        self.check(code, quantizes, bits)
        call.args.inverse = self.inverse
        call.args.fills = len(self.fill) // sizeof(int64_t)
        if call.args.fills:
            call.args.fill = <const int64_t *>PyBytes_AS_STRING(self.fill)
        if quantizes and self.quant_range is not None:
            call.args.lowest_code, call.args.highest_code = self.quant_range
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
        for one in self.fills():
            if not lo <= one <= hi:
                raise ValueError(
                    f"fill: expected integers from {lo} to {hi} for {code}, got {one}"
                )
        if self.quant_range is not None:
            self.check_range(code, lo, hi)
        return 0

    cdef int check_range(self, str code, object lo, object hi) except -1:
        first, last = self.quant_range
        if not lo <= first < last <= hi:
            raise ValueError(
                f"quant_range: expected two integers from {lo} to {hi} for {code}, the "
                f"first below the second, got {self.quant_range}"
            )
        for one in self.fills():
            if first <= one <= last:
                raise ValueError(
                    f"fill: expected codes outside of quant_range={self.quant_range}, "
                    f"got {one}"
                )
        if self.beyond == PQ_WRAP:
            raise ValueError(
                "out_of_range: expected 'saturate' or 'raise' beside quant_range, "
                "got 'wrap'"
            )
        return 0

    cdef int check_float(self, str code) except -1:
        if self.fill:
            raise ValueError(f"fill: expected None for {code}, got {self.fills()}")
        if self.quant_range is not None:
            raise ValueError(
                f"quant_range: expected None for {code}, got {self.quant_range}"
            )
        if self.beyond == PQ_WRAP:
            raise ValueError(
                f"out_of_range: expected 'saturate' or 'raise' for {code}, got 'wrap'"
            )
        return 0

    cdef list fills(self):
        return _np.frombuffer(self.fill, _np.int64).tolist()


cdef str _in_bits(str code, int bits):
    """Codes of fewer bits than their type has, as messages call them."""
    return code if bits == 8 else f"{code} in {bits} bits"


cdef object _offset_given(object offset):
    """None, a Python float or an ndarray of a type that scales have."""
    if offset is None or PyFloat_CheckExact(offset):
        return offset
    array = offset if type(offset) is _ndarray else _numbers(offset, PQ_F64)
    if array is None:
        array = _converted(_convert.reals, (offset, "offset"))
    return array


cdef bytes _fills_given(object fill):
    """The codes as int64; without any for None."""
    if fill is None:
        return b""
    if isinstance(fill, (str, bytes)) or not isinstance(fill, _Iterable):
        fill = (fill,)
    elif isinstance(fill, _ndarray) and fill.ndim == 0:
        fill = (fill[()],)
    codes = []
    for one in tuple(fill):
        one = _integer(one, "fill", "None, an integer or several")
        if not -2**63 <= one < 2**63:
            raise ValueError(f"fill: expected integers of the quantized type, got {one}")
        codes.append(one)
    if not codes:
        raise ValueError("fill: expected None, an integer or several, got none")
    return _np.array(codes, _np.int64).tobytes()


cdef tuple _range_given(object quant_range):
    if quant_range is None:
        return None
    try:
        first, last = quant_range
    except (TypeError, ValueError):
        got = " ".join(repr(quant_range).split())  # those of arrays have lines
        raise TypeError(f"quant_range: expected two integers, got {got:.60}") from None
    return tuple([
        _integer(one, "quant_range", "two integers") for one in (first, last)
    ])


cdef int _choice_of(dict choices, object value, str name) except -1:
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a string, got {type(value).__name__}")
    for one, number in choices.items():
        if value == one:
            return number
    raise ValueError(f"{name}: expected one of {', '.join(choices)}, got {str(value)!r}")


cdef inline object _affine(object offset, object inverse, object fill,
                           object quant_range, object out_of_range, object nan):
    """None where all are what they are by default."""
    if (
        offset is None and inverse is False and fill is None and quant_range is None
        and out_of_range is _SATURATE and nan is _LOWEST
    ):
        return None
    return _made_affine(offset, inverse, fill, quant_range, out_of_range, nan)


cdef object _made_affine(object offset, object inverse, object fill, object quant_range,
                         object out_of_range, object nan):
    cdef _Affine made = _Affine()
    made.offset = _offset_given(offset)
    made.inverse = _flag(inverse, "inverse")
    made.fill = _fills_given(fill)
    made.quant_range = _range_given(quant_range)
    made.beyond = <pq_beyond>_choice_of(_BEYOND, out_of_range, "out_of_range")
    made.refuse_nan = _choice_of(_NANS, nan, "nan")
    return made


cdef object _with_policies(_Affine parameters, object out_of_range, object nan):
    """Those of QParams, beside what a call asks for."""
    cdef _Affine made
    if out_of_range is _SATURATE and nan is _LOWEST:
        return parameters
    made = _made_affine(None, False, None, None, out_of_range, nan)
    if parameters is not None:
        made.offset = parameters.offset
        made.fill = parameters.fill
        made.quant_range = parameters.quant_range
    return made


cdef object _checked_numbers(object array, Array *held, str name):
    if not _hold(array, held):
        raise TypeError(f"{name}: expected real numbers, got {_describe(array)}")
    return array


cdef tuple _paired(Call *call, object scale, object offset):
    """Scale and offset as arrays of one type that lie alike; None for numbers, which the
    call has then."""
    if offset is None:
        return scale, None
    if not PyFloat_CheckExact(offset):
        _checked_numbers(offset, &call.offset, "offset")
        if scale is None and offset.size == 1:
            offset = float(cast(offset, "float64").reshape(())[()])
    if scale is None and PyFloat_CheckExact(offset):
        call.offset_value = PyFloat_AS_DOUBLE(offset)
        call.args.offset = &call.offset_value
        call.offset.held = False
        return None, None
    if scale is None:
        raise ValueError(
            f"offset: expected one element beside a single scale, got shape {offset.shape}"
        )
    _checked_numbers(scale, &call.scale, "scale")
    if PyFloat_CheckExact(offset):
        offset = _np.full(scale.shape, offset)
    elif offset.size == 1:
        offset = _np.full(scale.shape, cast(offset, "float64").reshape(())[()])
    elif offset.shape != scale.shape:
        raise ValueError(f"offset: expected shape {scale.shape}, got {offset.shape}")
    if scale.dtype != offset.dtype or scale.strides != offset.strides:
        scale = _np.ascontiguousarray(cast(scale, "float64")).reshape(scale.shape)
        offset = _np.ascontiguousarray(cast(offset, "float64")).reshape(scale.shape)
    return scale, offset


cdef int _hold_offset(Call *call, object array) except -1:
    """After the scale, at whose strides it lies; unless another thread has changed them."""
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
        raise ValueError("offset: expected an array that stays as it is, got a changed one")
    call.args.offset = call.offset.data
    return 0


cdef object _beyond_error(const pq_kernels *kernels, Call *call):
    """Of elements out of range: how many, and the first."""
    cdef size_t count = 0, first = 0
    with nogil:
        pq_count_beyond(kernels, &call.args, &count, &first)
    expected = []
    if call.args.beyond == PQ_REFUSE:
        name = _NAMES[<int>call.args.out.type]
        if call.args.out_layout != NULL and call.args.out.type == PQ_U8:
            name = _in_bits(name, call.args.out_layout.bits)
        within = f"numbers within the range of {name}"
        if call.args.lowest_code or call.args.highest_code:
            within = (
                f"numbers whose codes are from {call.args.lowest_code} to "
                f"{call.args.highest_code}"
            )
        expected.append(within)
    if call.args.refuse_nan:
        expected.append("no NaN")
    # Beyond the last where the data has changed since.
    first = min(first, <size_t>_size(&call.x) - 1)
    index = _np.unravel_index(first, _shape(&call.x)) if call.x.ndim else ()
    place = tuple([int(one) for one in index])
    raise ValueError(
        f"x: expected {' and '.join(expected)}, got {count} others, the first at index "
        f"{place}"
    )


cdef int _check_beside_affine(Call *call, _Affine affine) except -1:
    """Options that narrow the arithmetic, or saturate by other rules."""
    cdef pq_type precision = call.args.precision
    if not (
        precision == PQ_NO_TYPE or precision == PQ_F64
        or (precision == PQ_F32 and call.x.type != PQ_F64)
    ):
        least = "float64" if call.x.type == PQ_F64 else "float32 or float64"
        raise ValueError(
            f"precision: expected None or {least} beside offset, inverse, fill, "
            f"quant_range, out_of_range and nan, got {_NAMES[<int>precision]}"
        )
    if call.args.overflow and affine.beyond == PQ_REFUSE:
        raise ValueError("saturate: expected True beside out_of_range='raise', got False")
    return 0
