# Read the options of a call.


# ---- scale and zero point ----

no_scale = "scale: expected an array of real numbers, got None (choose_qparams finds one)"


cdef object _scale_array(Call *call, object scale):
    """Return `scale` as an ndarray. For a Python float, store the float in the call and
    return `None`."""
    if PyFloat_Check(scale):  # a float64 scalar is also a Python float
        call.scale_value = PyFloat_AS_DOUBLE(scale)
        call.args.scale = pq_array(&call.scale_value, &call.scale_strides[0], PQ_F64, False,
                                   NULL)
        return None
    # NumPy scalars are read like arrays, because a conversion to a Python float would
    # depend on the floating-point control state.
    if type(scale) is _ndarray or _is_real(_scalar_type(scale)):
        return scale
    if scale is None:
        raise TypeError(no_scale)
    array = _numbers(scale, PQ_F64)
    return _converted(_convert.reals, (scale, "scale")) if array is None else array


cdef int _hold_scale(Call *call, object array) except -1:
    if array is None:
        return 0
    if not _hold(array, &call.scale):
        raise TypeError(f"scale: expected real numbers, got {_describe(array)}")
    _set_placed(&call.args.scale, &call.scale, call.scale_strides)
    return 0


cdef object _zero_array(Call *call, object zero):
    """Return `zero_point` as an ndarray. For a Python integer, store the integer in the
    call and return `None`."""
    cdef int beyond = 0
    call.args.zero = pq_array(NULL, &call.zero_strides[0], PQ_I64, False, NULL)
    call.zero.type = PQ_NO_TYPE
    if zero is None:
        return None
    if PyLong_CheckExact(zero):
        call.zero_value = PyLong_AsLongLongAndOverflow(zero, &beyond)
        if beyond:
            if not 0 <= zero < 2**64:
                raise _error(ValueError, "zero_point",
                             "an integer that the quantized type holds", zero)
            call.args.zero.type = PQ_U64
            call.zero_value = _bits_of(zero)
        call.args.zero.data = &call.zero_value
        return None
    if type(zero) is _ndarray or _scalar_type(zero) != PQ_NO_TYPE:
        return zero
    if isinstance(zero, Packed):
        return _unpacked(zero, &call.zero.type)
    array = _numbers(zero, PQ_I64)
    return _converted(_convert.zeros, (zero, "zero_point")) if array is None else array


cdef int _hold_zero(Call *call, object array, object scale) except -1:
    cdef pq_type packed = call.zero.type
    if array is None:
        return 0
    if not _hold(array, &call.zero) or not (
        _is_integer(call.zero.type) or _is_narrow_float(call.zero.type)
    ):
        from pyquant._refused import hint_of_swap

        end = hint_of_swap(scale, array)
        raise TypeError(f"zero_point: expected integers, got {_describe(array)}{end}")
    if packed != PQ_NO_TYPE:
        call.zero.type = packed
    _set_placed(&call.args.zero, &call.zero, call.zero_strides)
    return 0


cdef object _zero_outside(Call *call, int64_t lo, int64_t hi, bint is_unsigned=False):
    """Return a zero point outside a range, or `None`. The check reads each element of the
    array of zero points, even if `x` is empty. If `is_unsigned`, the ends of the range are
    uint64 values."""
    cdef pq_args zeros
    cdef int64_t outside = call.zero_value
    cdef bint within, number = call.args.zero.data == &call.zero_value
    zeros.size = sizeof(pq_args)
    zeros.zero = call.args.zero
    zeros.zero.strides = call.zero.strides
    zeros.block = NULL
    zeros.ndim = 0 if number else call.zero.ndim
    zeros.shape = call.zero.shape
    if is_unsigned:
        within = pq_unsigned_zeros_fit(&zeros, <uint64_t>lo, <uint64_t>hi,
                                       <uint64_t *>&outside)
    elif number and call.args.zero.type == PQ_I64:
        within = lo <= outside <= hi
    elif number or _size(&call.zero) < _NOGIL_SIZE:
        within = pq_zeros_within(&zeros, lo, hi, &outside)
    else:
        with nogil:
            within = pq_zeros_within(&zeros, lo, hi, &outside)
    if within:
        return None
    return outside % 2**64 if call.args.zero.type == PQ_U64 else outside


cdef bint _has_24_bits(Call *call, pq_type code) noexcept:
    """Return True if the layout of the call stores int32 codes in 24 bits."""
    return code == PQ_I32 and (
        call.args.in_layout != NULL or call.args.out_layout != NULL
    )


cdef int _check_zero_in_type(Call *call, pq_type code) except -1:
    """Raise an error if zero points are outside the range of the quantized type `code`."""
    cdef const pq_type_info *row = row_of_type(code)
    cdef int64_t lo = row.lowest
    cdef int64_t hi = INT64_MAX if code == PQ_U64 else <int64_t>row.highest
    cdef bint floats = _is_narrow_float(code), short = _has_24_bits(call, code)
    name, highest = _NAMES[<int>code], row.highest
    if short:
        name, (lo, hi) = _in_bits(name, 24), _INT24
        highest = hi
    if _is_narrow_float(call.args.zero.type) and call.args.zero.type != code:
        raise TypeError(
            f"zero_point: expected integers, got {_NAMES[<int>call.args.zero.type]}"
        )
    got = _zero_outside(call, lo, hi)
    if got is not None:
        if floats:
            raise ValueError(f"zero_point: expected None or zeros for {name}")
        expected = f"integers from {lo} to {highest} for {name}"
        # The hint proposes another `dtype`. 24-bit codes get no hint, because no dtype
        # helps. dequantize gets no hint, because it has no argument for the type of codes.
        if not short and not (call.x.held and _is_code(call.x.type)):
            from pyquant._refused import hint_of_integer

            got = f"{got}{hint_of_integer(got, 'dtype', _CODES)}"
        raise _error(ValueError, "zero_point", expected, got)
    return 0


cdef int _check_zero(Call *call, pq_type code) except -1:
    """Raise an error for zero points outside the quantized type or outside `quant_range`.
    The core also rejects wrong zero points, but does not report the value. If the quantized
    type is a narrow float, remove the zero points, which are all 0, because adding 0 would
    change -0 to +0."""
    cdef int64_t lo, hi
    if call.args.zero.data == NULL:
        return 0
    if (call.args.zero.type != code or _is_narrow_float(code)
            or _has_24_bits(call, code)):
        _check_zero_in_type(call, code)
    lo, hi = call.args.lowest_code, call.args.highest_code
    if (lo != 0 or hi != 0) and _zero_outside(call, 0, 0) is not None:
        got = _zero_outside(call, lo, hi, code == PQ_U64)
        if got is not None:
            expected = f"integers within quant_range={_ends_of(call, code)}, or zeros alone"
            raise _error(ValueError, "zero_point", expected, got)
    if _is_narrow_float(code):
        call.args.zero.data = NULL
    return 0


# ---- axis and block_size ----

cpdef object index(object value):
    """Return `value` as a Python integer. `bool` and NumPy's bool raise TypeError."""
    if PyLong_CheckExact(value):
        return value
    if isinstance(value, (bool, _np.bool_)):
        raise TypeError
    return int(_operator_index(value))


cdef object _integer(object value, str name,
                     str expected="None, an integer or a tuple of integers", str of=""):
    """Return `value` as a Python integer. If `value` is no integer, or a bool, raise an
    error. The error names the argument `of + name`."""
    try:
        return index(value)
    except TypeError:
        pass
    raise _error(TypeError, of + name, expected, type(value))


cpdef object integers(object value, str name):
    """Convert `value` to a Python integer, or a tuple to a tuple of Python integers. `None`
    stays `None`."""
    if value is None or PyLong_CheckExact(value):
        return value
    if isinstance(value, tuple):
        return tuple([_integer(one, name) for one in value])
    return _integer(value, name)


cdef inline tuple _one_or_more(object settled):
    return settled if PyTuple_CheckExact(settled) else (settled,)


cdef str _dimensions(Call *call, str of):
    """Return the message about an array whose number of dimensions does not fit the
    parameters. The text `of` names what the parameters fit."""
    cdef int ndim = call.args.ndim
    cdef str name = call.whose.decode()
    have = f"{name} has {ndim} dimension{'' if ndim == 1 else 's'}"
    remedy = "pass the complete array, then index the result"
    return f"{have}; these parameters are for {of}; {remedy}"


cdef tuple _axes(object axis, int ndim, Call *call=NULL):
    """Return the axes of `axis`, an integer or a tuple, as ascending nonnegative integers.
    """
    cdef list axes
    if PyLong_CheckExact(axis) and 0 <= axis < ndim:
        return (axis,)
    axes = []
    for at in _one_or_more(axis):
        if not -ndim <= at < ndim:
            if call != NULL and call.whose != NULL:
                few = _dimensions(call, f"axis {_shown(at)}")
                raise _np.exceptions.AxisError(few)
            raise _axis_error(at, ndim)
        axes.append(at + ndim if at < 0 else at)
    if len(set(axes)) != len(axes):
        raise ValueError(f"axis: expected different axes, got {_shown(axis)}")
    return tuple(sorted(axes))


cdef tuple _blocks(object axis, object block_size):
    """Check `block_size`, and that `axis` fits `block_size`. Return the block sizes in a
    tuple."""
    cdef tuple blocks = _one_or_more(block_size)
    for one in blocks:
        if one < 1:
            raise _error(ValueError, "block_size", "positive integers", block_size)
    if isinstance(block_size, tuple):
        if axis is not None:
            raise _error(ValueError, "axis", "None beside a block_size per dimension", axis)
    elif axis is None or isinstance(axis, tuple):
        raise ValueError(
            f"axis: expected one integer beside block_size={_shown(block_size)}, "
            f"got {_shown(axis)}"
            f"{'; blocks along the last axis need axis=-1' if axis is None else ''}"
        )
    return blocks


cdef ptrdiff_t _within(object block, ptrdiff_t extent):
    """Limit a block size to the extent of the dimension. Return 1 for an empty dimension.
    """
    if extent < 1:
        return 1
    return extent if block > extent else block


cdef tuple _DIMENSIONS = tuple(range(PQ_MAX_NDIM))


cdef tuple _granularity(Call *call, object axis, object block_size):
    """Store the extents of a block in call.block. Return the dimensions of x along which
    the parameters may vary. Only this function interprets `axis` and `block_size`."""
    cdef int ndim = call.args.ndim, d
    for d in range(ndim):
        call.block[d] = 1
    if block_size is None:
        return () if axis is None else _axes(axis, ndim, call)
    cdef tuple blocks = _blocks(axis, block_size)
    if isinstance(block_size, tuple):
        if len(blocks) != ndim:
            if call.whose != NULL:
                raise ValueError(_dimensions(call, f"{len(blocks)} dimensions"))
            raise _error(ValueError, "block_size", f"{ndim} integers, one per dimension",
                         block_size)
        for d in range(ndim):
            call.block[d] = _within(blocks[d], call.args.shape[d])
    else:
        d = _axes(axis, ndim, call)[0]
        call.block[d] = _within(blocks[0], call.args.shape[d])
    return _DIMENSIONS[:ndim]


@cdivision(True)
cdef inline ptrdiff_t _blocks_along(Call *call, int d) noexcept:
    """Return the number of blocks along dimension `d`."""
    cdef ptrdiff_t n = call.args.shape[d], block = call.block[d]
    return n if block == 1 else (n + block - 1) // block


cdef tuple _parameter_shape(Call *call, tuple selecting):
    return tuple([_blocks_along(call, d) for d in selecting])


cdef bint _keeps_dimensions(Call *call, Array *a) noexcept:
    """Return True if `a` and x have an equal number of dimensions, at least 2, and the
    shape of `a` broadcasts to x. An array with one dimension needs `axis`."""
    cdef int d
    if a.ndim != call.args.ndim or call.args.ndim < 2:
        return False
    for d in range(call.args.ndim):
        if a.shape[d] != 1 and a.shape[d] != call.args.shape[d]:
            return False
    return True


cdef void _place_kept(Array *a, ptrdiff_t *strides) noexcept:
    cdef int d
    for d in range(a.ndim if a.held else 0):
        strides[d] = a.strides[d] if a.shape[d] != 1 else 0


cdef inline bint _is_alone(Array *a) noexcept:
    return not a.held or _size(a) == 1


cdef int _place(Call *call, str name, Array *a, tuple selecting, bint blocks,
                ptrdiff_t *strides) except -1:
    """Set `strides` to the strides of a parameter array along each dimension of x."""
    cdef int d, i = 0
    cdef bint fits = a.ndim == len(selecting)
    if _is_alone(a):
        return 0
    if fits:
        for d in selecting:
            fits = fits and a.shape[i] == _blocks_along(call, d)
            strides[d] = a.strides[i]
            i += 1
    if fits:
        return 0
    # Without blocks, an array of parameters may also have the rank of x, and extent 1 along
    # each axis where the parameters do not vary.
    kept = tuple([
        call.args.shape[d] if d in selecting else 1 for d in range(call.args.ndim)
    ])
    if not blocks and _shape(a) == kept:
        _place_kept(a, strides)
    else:
        expected = _parameter_shape(call, selecting)
        if call.whose != NULL:
            if blocks and a.ndim != call.args.ndim:
                raise ValueError(_dimensions(call, f"{a.ndim} dimensions"))
            few = _dimensions(call, f"axis {selecting[0]}") if call.args.ndim == 1 else ""
            raise ValueError(
                f"{call.whose.decode()}: expected a shape that needs scales of shape "
                f"{_shape(a)} along axes {selecting}, got shape {_shape(&call.x)}"
                f"{'; ' if few else ''}{few}"
            )
        end = _fitting(call, name, a) if name == "scale" else ""
        raise ValueError(f"{name}: expected shape {expected}, got {_shape(a)}{end}")
    return 0


cdef inline Array *_lead(Call *call) noexcept:
    """Return the array that determines the shape of all parameters. This is the scale, or
    the offset if the scale is a single number."""
    one = _is_alone(&call.scale) and call.offset.held
    return &call.offset if one else &call.scale


cdef int _check_like_lead(Call *call, str name, Array *a) except -1:
    """Raise an error if `a` has several elements, but not the shape of `_lead(call)`."""
    if not _is_alone(a) and not _same_shape(a, _lead(call)):
        raise ValueError(f"{name}: expected shape {_shape(_lead(call))}, got {_shape(a)}")
    return 0


cdef object _fitting(Call *call, str name, Array *a):
    """Return the end of an error message: axes or block sizes that fit the parameters."""
    from pyquant.weights._published import group_size

    if a.ndim > call.x.ndim and _size(a) > _size(&call.x) > 0:
        return f"; are {'x' if _is_real(call.x.type) else 'q'} and {name} swapped?"
    fitting = [
        f"axis={d}" for d in range(call.args.ndim)
        if a.ndim == 1 and call.args.shape[d] == a.shape[0]
    ]
    if a.ndim == call.args.ndim > 1:
        sizes = [group_size(call.args.shape[d], a.shape[d]) for d in range(a.ndim)]
        fitting = [] if None in sizes else [f"block_size={tuple(sizes)}"]
    return f", which fits {' or '.join(fitting)}" if fitting else ""


cdef int _place_unnamed(Call *call) except -1:
    """Set the strides of parameters that have the rank of x, in a call without `axis` and
    `block_size`."""
    cdef Array *lead = _lead(call)
    if not _keeps_dimensions(call, lead):
        name = "scale" if lead == &call.scale else "offset"
        raise ValueError(
            f"{name}: expected one element, or all dimensions of x, without "
            f"axis or block_size, got shape {_shape(lead)}{_fitting(call, name, lead)}"
        )
    # Check again, because another thread may have changed a shape since the first check.
    _check_like_lead(call, "offset", &call.offset)
    _check_like_lead(call, "zero_point", &call.zero)
    _place_kept(&call.scale, call.scale_strides)
    _place_kept(&call.zero, call.zero_strides)
    _place_kept(&call.offset, call.offset_strides)
    return 0


cdef int _place_parameters(Call *call, object axis, object block_size) except -1:
    cdef tuple selecting = None
    cdef bint blocks = block_size is not None
    cdef int ndim = call.args.ndim
    memset(call.scale_strides, 0, ndim * sizeof(ptrdiff_t))
    memset(call.zero_strides, 0, ndim * sizeof(ptrdiff_t))
    memset(call.offset_strides, 0, ndim * sizeof(ptrdiff_t))
    call.args.block = NULL
    if axis is not None or blocks:
        selecting = _granularity(call, axis, block_size)
        call.args.block = call.block
    cdef bint single = _is_alone(_lead(call))
    if single and _is_alone(&call.zero):
        return 0
    if single:
        raise ValueError(
            f"zero_point: expected one element beside a single scale, "
            f"got shape {_shape(&call.zero)}"
        )
    if selecting is None:
        return _place_unnamed(call)
    _place(call, "scale", &call.scale, selecting, blocks, call.scale_strides)
    _place(call, "offset", &call.offset, selecting, blocks, call.offset_strides)
    _place(call, "zero_point", &call.zero, selecting, blocks, call.zero_strides)
    return 0


# ---- rounding, flags and threads ----

cdef object _ONE = 1
cdef object _HALF_EVEN = "half_even"

cdef dict _ROUNDS = {
    "half_away": <int>PQ_HALF_AWAY,
    "half_toward_zero": <int>PQ_HALF_TOWARD_ZERO,
    "half_up": <int>PQ_HALF_UP,
    "half_down": <int>PQ_HALF_DOWN,
    "half_even": <int>PQ_HALF_EVEN,
    "half_odd": <int>PQ_HALF_ODD,
    "away": <int>PQ_AWAY,
    "trunc": <int>PQ_TRUNC,
    "ceil": <int>PQ_CEIL,
    "floor": <int>PQ_FLOOR,
    "stochastic": <int>PQ_STOCHASTIC,
}


cdef int _rounding(object rounding) except -1:
    if rounding is _HALF_EVEN:
        return PQ_HALF_EVEN
    if not isinstance(rounding, str):
        raise _error(TypeError, "rounding", "a string or a RoundMode", type(rounding))
    found = _ROUNDS.get(rounding)
    if found is None:  # a name that nGraph uses, or a name in another letter case
        from pyquant.rounding import RoundMode

        found = _ROUNDS[RoundMode(rounding)]
    return found


cdef inline bint _flag(object value, str name, str expected="True or False") except -1:
    if value is True:
        return True
    return False if value is False else _other_flag(value, name, expected)


cdef bint _other_flag(object value, str name, str expected) except -1:
    if type(value) is _np.bool_:
        return bool(value)
    raise _error(TypeError, name, expected, type(value))


cdef int _threads_of(object threads) except -1:
    if threads is _ONE:
        return 1
    threads = _integer(threads, "threads", "a positive integer")
    if threads < 1:
        raise _error(ValueError, "threads", "a positive integer", threads)
    return min(threads, 1 << 20)


cdef pq_type _type_of_zero(object zero_point) except *:
    """Return the quantized type of a call without `dtype`: the type of the zero point, or
    int8. int64 and uint64 zero points raise an error, because NumPy gives Python integers
    the type int64, which the caller may not intend. Invalid zero points raise an error
    later."""
    cdef pq_type type = _known_type(zero_point)
    if type == PQ_NO_TYPE and not PyLong_CheckExact(zero_point) and (
        not is_masked(zero_point)
    ):
        name = _dtypes.name_of(_dtype_said(zero_point))
        type = <pq_type><int>_TYPES.get(name, <int>PQ_NO_TYPE)
    if type == PQ_NO_TYPE or _is_real(type):
        return PQ_I8
    if _is_wide(type) or not _is_code(type):
        name = _NAMES[<int>type]
        raise _error(TypeError, "dtype", f"{_CODE_LIST} where zero_point is {name}", None)
    return type


cdef int _check_options(str name, object rounding, bint saturate) except -1:
    """Raise an error for options that the quantized type does not support."""
    if name in _dtypes.NARROW_FLOATS:
        if _rounding(rounding) not in (PQ_HALF_EVEN, PQ_STOCHASTIC):
            raise _error(ValueError, "rounding", f"'half_even' or 'stochastic' for {name}",
                         f"{str(rounding)!r}")
    elif not saturate:
        raise ValueError(f"saturate: expected True for {name}, got False")
    return 0


# ---- seed and start ----


@final
cdef class _Noise:
    """A rounding mode, with seed and start as C integers."""
    cdef object rounding
    cdef uint64_t seed, start


cdef uint64_t _word_given(object value, str name) except? 0:
    cdef str expected = "an integer from 0 to 2**64 - 1"
    if value is None:
        return 0
    value = _integer(value, name, expected)
    if not 0 <= value < 2**64:
        raise ValueError(f"{name}: expected {expected}, got {_shown(value)}")
    return value


cdef inline object _with_noise(object rounding, object seed, object start):
    """Return `rounding` alone if seed and start are `None`, else a `_Noise`."""
    if seed is None and start is None:
        return rounding
    return _made_noise(rounding, seed, start)


cdef object _made_noise(object rounding, object seed, object start):
    cdef _Noise made = _Noise()
    made.rounding = rounding
    made.seed = _word_given(seed, "seed")
    made.start = _word_given(start, "start")
    if _rounding(rounding) != PQ_STOCHASTIC:
        name, got = ("seed", made.seed) if seed is not None else ("start", made.start)
        raise _error(ValueError, name, f"None beside rounding={str(rounding)!r}", got)
    return made


cdef object _set_rounding(pq_args *args, object rounding):
    """Store rounding mode, seed and start in `args`, and return the rounding mode."""
    if type(rounding) is _Noise:
        args.seed = (<_Noise>rounding).seed
        args.start = (<_Noise>rounding).start
        rounding = (<_Noise>rounding).rounding
    args.round = <pq_round>_rounding(rounding)
    return rounding


# ---- codebook ----


@final
cdef class _Codebook:
    """A codebook for the core, with copies of the numbers and of the midpoints between
    numbers. Quantization searches the midpoints."""
    cdef pq_codebook table


cdef dict _named_books = {}  # codebooks by name, added on first use


cdef _Codebook _book_of(object given):
    """Return the codebook for a name or for an array of numbers."""
    cdef _Codebook made
    name = None
    if isinstance(given, str):
        name = str.__str__(given)
        if name not in _named_books:
            name = name.lower()
        if name in _named_books:
            return _named_books[name]
        from pyquant._codebooks import TABLES

        if name not in TABLES:
            expected = f"{', '.join(TABLES)} or a table of numbers"
            raise _error(ValueError, "codebook", expected, given, TABLES)
        given = TABLES[name]
    made = _made_book(_converted(_convert.reals, (given, "codebook")))
    if name is not None:
        _named_books[name] = made
    return made


cdef _Codebook _made_book(object array):
    cdef Array held
    cdef _Codebook made = _Codebook()
    cdef Py_ssize_t count
    cdef const float *numbers
    _checked_numbers(array, &held, "codebook")
    count = held.shape[0] if held.ndim == 1 else 0
    if count not in (4, 8, 16, 32, 64, 128, 256):
        raise _error(ValueError, "codebook",
                     "one dimension of 4, 8, 16, 32, 64, 128 or 256 numbers",
                     f"shape {array.shape}")
    values = _np.ascontiguousarray(cast(array, "float32"))
    numbers = <const float *>_data(values)
    made.table.size = sizeof(pq_codebook)
    if pq_codebook_init(&made.table, numbers, <int>count) != PQ_OK:
        raise ValueError("codebook: expected finite numbers, as float32, got others")
    return made


# Defaults of the options that `codebook` excludes, and the names of these options.
cdef tuple _BESIDE_BOOK = (
    None, None, None, _HALF_EVEN, None, True, None, "saturate", "lowest", None, None
)
cdef tuple _NAMES_BESIDE_BOOK = (
    "zero_point", "offset", "fill", "rounding", "precision", "saturate", "quant_range",
    "out_of_range", "nan", "seed", "start",
)


cdef _Affine _with_book(object codebook, object inverse, tuple others):
    """Return the options of a call with a codebook. Raise an error if an option in `others`
    is not the default."""
    cdef _Affine made = _Affine()
    cdef Py_ssize_t i
    for i in range(len(others)):
        if others[i] is not _BESIDE_BOOK[i]:
            from pyquant._refused import check_beside_book

            check_beside_book(_NAMES_BESIDE_BOOK[i], others[i], _BESIDE_BOOK[i])
    made.book = _book_of(codebook)
    made.inverse = _flag(inverse, "inverse")
    return made


cdef object _quantize_by_book(object x, object scale, object dtype, object axis,
                              object block_size, object layout, object out, object threads,
                              _Affine affine):
    cdef int bits = affine.book.table.bits
    if dtype is None:
        dtype = f"uint{bits}" if bits in (2, 4) and layout is not None else "uint8"
    if layout is not None:
        row, along, width = _layout_given(layout)
        layout = _layout_class()(row.name, axis=along, bits=width or bits)
    return _quantize_any(x, scale, None, dtype, axis, block_size, _HALF_EVEN, None, True,
                         layout, out, threads, affine, False)


cdef int _set_book(Call *call, _Codebook book, str code, bint quantizes,
                   int bits) except -1:
    """Check that type and width of the codes fit `book`, and store `book` in the call."""
    cdef int own = book.table.bits
    if code not in ("uint8", "uint4", "uint2"):
        raise _error(TypeError, "dtype" if quantizes else "q",
                     "uint8, uint4 or uint2 beside codebook", code)
    if bits == 0:  # The codes are not packed. A uint8 holds a code of any width.
        bits = own if code == "uint8" else pq_type_bits(<pq_type><int>_CODES[code])
    if bits != own:
        raise _error(ValueError, "codebook",
                     f"{1 << bits} numbers for codes of {bits} bits", 1 << own)
    call.book = &book.table
    return 0


cdef int _check_places(Call *call, object array) except -1:
    """Raise an error if a uint8 code is no index of the codebook."""
    cdef int bits = call.book.bits
    if bits == 8 or call.x.packed or call.x.type != PQ_U8 or _size(&call.x) == 0:
        return 0
    most = _np.maximum.reduce(array, axis=None)
    if most >> bits:
        raise ValueError(f"q: expected codes from 0 to {(1 << bits) - 1}, got {most}")
    return 0


cdef int _book_quantize_part(const Job *job, int part) noexcept nogil:
    return pq_codebook_quantize(_active, job.args, job.more, part, job.parts)


cdef int _book_dequantize_part(const Job *job, int part) noexcept nogil:
    return pq_codebook_dequantize(_active, job.args, job.more, part, job.parts)


# ---- offset, fill, quant_range and policies ----

cdef object _SATURATE = "saturate"
cdef object _LOWEST = "lowest"
cdef dict _BEYOND = {
    "saturate": <int>PQ_SATURATE, "wrap": <int>PQ_WRAP, "raise": <int>PQ_REFUSE
}
cdef dict _NANS = {"lowest": 0, "raise": 1}


@final
cdef class _Affine:
    """Copies of the options of a call, which user code cannot change."""
    cdef object offset      # A Python float, an ndarray, or `None`.
    cdef tuple fill         # Codes that represent NaN, as Python integers.
    cdef bytes fill_bits    # The codes of `fill`, as int64 values.
    cdef bint inverse
    cdef tuple quant_range  # Two Python integers, or `None`.
    cdef pq_beyond beyond
    cdef int refuse_nan
    cdef bint is_policy     # True if only out_of_range and nan are set.
    cdef _Codebook book     # `None`, or a table. A table allows only the option `inverse`.

    cdef int set(self, Call *call, str code, bint quantizes, int bits=0) except -1:
        """Check that the options fit codes of the type `code` and the width `bits`. Then
        store all options except the offset in the call."""
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
        # Do not pass the range of 24-bit codes, because packing saturates to 24 bits and is
        # faster than a check of the range.
        if quantizes and self.quant_range is not None and (
            bits != 24 or self.quant_range != _INT24
        ):
            first, last = self.quant_range
            call.args.lowest_code, call.args.highest_code = _bits_of(first), _bits_of(last)
        if quantizes:
            call.args.beyond = self.beyond
            call.args.refuse_nan = self.refuse_nan
        return 0

    cdef int check(self, str code, bint quantizes, int bits=0) except -1:
        if code in _dtypes.NARROW_FLOATS:
            return self.check_float(code)
        lo, hi = _limits_of(code, bits)
        if bits == 24 or bits and code == "uint8":
            code = _in_bits(code, bits)
        for one in self.fill:
            if not lo <= one <= hi:
                raise _error(ValueError, "fill", f"integers from {lo} to {hi} for {code}",
                             one)
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
                raise _error(ValueError, "fill",
                             f"codes outside of quant_range={self.quant_range}", one)
        if self.beyond == PQ_WRAP:
            raise _error(ValueError, "out_of_range",
                         "'saturate' or 'raise' beside quant_range", "'wrap'")
        return 0

    cdef int check_float(self, str code) except -1:
        if self.fill:
            raise ValueError(f"fill: expected None for {code}, got {list(self.fill)}")
        if self.quant_range is not None:
            raise _error(ValueError, "quant_range", f"None for {code}", self.quant_range)
        if self.beyond == PQ_WRAP:
            raise _error(ValueError, "out_of_range", f"'saturate' or 'raise' for {code}",
                         "'wrap'")
        return 0


cdef str _in_bits(str code, int bits):
    """Return a text for messages with the type of codes, and the width if it is not 8."""
    return code if bits == 8 else f"{code} in {bits} bits"


cdef tuple _fills_given(object fill):
    """Return the codes of `fill` as a tuple, which is empty if `fill` is `None`."""
    if fill is None:
        return ()
    if isinstance(fill, (str, bytes)) or not isinstance(fill, _Iterable):
        fill = (fill,)
    elif isinstance(fill, _ndarray) and fill.ndim == 0:
        fill = (fill[()],)
    codes = []
    for one in fill:  # a row of a 2-dimensional array raises an error
        one = _integer(one, "fill", "None, an integer or several")
        if not -2**63 <= one < 2**64:
            raise _error(ValueError, "fill", "integers of the quantized type", one)
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
        # The message shows only the type of a container, because Python cannot print a
        # deeply nested container.
        plain = isinstance(quant_range, (int, float))
        got = _shown(quant_range) if plain else type(quant_range).__name__
        raise TypeError(f"quant_range: expected two integers, got {got}") from None
    return tuple([
        _integer(one, "quant_range", "two integers") for one in (first, last)
    ])


cdef int _choice_of(dict choices, object value, str name) except -1:
    if type(value) is str and value in choices:
        return choices[value]
    return choices[_check.choice(value, name, choices)]


cdef inline object _affine(object offset, object inverse, object fill,
                           object quant_range, object out_of_range, object nan):
    """Return the options as an `_Affine`, or `None` if all options have their defaults."""
    if (
        offset is not None or inverse is not False or fill is not None
        or quant_range is not None
    ):
        return _made_affine(offset, inverse, fill, quant_range, out_of_range, nan)
    if out_of_range is _SATURATE and nan is _LOWEST:
        return None
    return _policy(out_of_range, nan)


cdef dict _policies = {}  # an `_Affine` for each policy, added on first use


cdef object _policy(object out_of_range, object nan):
    """Return an `_Affine` that sets only out_of_range and nan. Calls with equal values
    share one object."""
    if type(out_of_range) is not str or type(nan) is not str:
        return _made_affine(None, False, None, None, out_of_range, nan)
    key = out_of_range if nan is _LOWEST else (out_of_range, nan)  # tuples are slow
    made = _policies.get(key)
    if made is None:
        made = _policies[key] = _made_affine(None, False, None, None, out_of_range, nan)
    return made


cdef object _made_affine(object offset, object inverse, object fill, object quant_range,
                         object out_of_range, object nan):
    cdef _Affine made = _Affine()
    if not (offset is None or PyFloat_CheckExact(offset) or type(offset) is _ndarray):
        array = _numbers(offset, PQ_F64)
        offset = _converted(_convert.reals, (offset, "offset")) if array is None else array
    made.offset = offset
    made.inverse = _flag(inverse, "inverse")
    made.fill = _fills_given(fill)
    made.fill_bits = _bits_of_all(made.fill)
    made.quant_range = _range_given(quant_range)
    made.beyond = <pq_beyond>_choice_of(_BEYOND, out_of_range, "out_of_range")
    made.refuse_nan = _choice_of(_NANS, nan, "nan")
    made.is_policy = (
        offset is None and not made.inverse and not made.fill and quant_range is None
    )
    return made


cdef object _with_policies(_Affine parameters, object out_of_range, object nan):
    """Combine the options of a QParams with out_of_range and nan of a call."""
    cdef _Affine made
    if out_of_range is _SATURATE and nan is _LOWEST:
        return parameters
    if parameters is None:
        return _policy(out_of_range, nan)
    made = _made_affine(None, False, None, None, out_of_range, nan)
    made.offset = parameters.offset
    made.fill, made.fill_bits = parameters.fill, parameters.fill_bits
    made.quant_range = parameters.quant_range
    made.is_policy = False
    return made


cdef object _checked_numbers(object array, Array *held, str name):
    if not _hold(array, held):
        raise TypeError(f"{name}: expected real numbers, got {_describe(array)}")
    return array


cdef int _hold_offset(Call *call, object scale, object offset) except -1:
    """Store an offset in the call. The offset is a Python float, an array with one number,
    or an array with the shape of the scale."""
    if PyFloat_CheckExact(offset):
        call.offset_value = PyFloat_AS_DOUBLE(offset)
        call.args.offset = pq_array(&call.offset_value, &call.offset_strides[0], PQ_F64,
                                    False, NULL)
    else:
        _checked_numbers(offset, &call.offset, "offset")
        _set_placed(&call.args.offset, &call.offset, call.offset_strides)
    _hold_scale(call, scale)
    return _check_like_lead(call, "offset", &call.offset)


cdef object _error_at(str text, size_t first, tuple shape, str end=""):
    """Return an error about wrong elements. The message and the attribute `index` contain
    the index of the first wrong element, which is at the position `first` in C order."""
    place = tuple([int(one) for one in _np.unravel_index(first, shape)])
    error = ValueError(f"{text}, the first at index {place}{end}")
    error.index = place
    return error


cdef tuple _ends_of(Call *call, pq_type code):
    """Return the lowest and the highest code of the argument `quant_range`."""
    lo, hi = <object>call.args.lowest_code, <object>call.args.highest_code
    return (lo % 2**64, hi % 2**64) if code == PQ_U64 else (lo, hi)


cdef object _beyond_error(Call *call):
    """Raise the error about values out of range or NaN, with the number of wrong values and
    the index of the first."""
    cdef size_t count = 0, first = 0
    with nogil:
        pq_count_beyond(_active, &call.args, &count, &first)
    expected = []
    if call.args.beyond == PQ_REFUSE:
        name = _NAMES[<int>call.args.out.type]
        if call.args.out_layout != NULL and call.args.out.type in (PQ_U8, PQ_I32):
            name = _in_bits(name, call.args.out_layout.bits)
        within = f"numbers within the range of {name}"
        if call.args.lowest_code or call.args.highest_code:
            ends = _ends_of(call, call.args.out.type)
            within = f"numbers whose codes are from {ends[0]} to {ends[1]}"
        expected.append(within)
    if call.args.refuse_nan:
        expected.append("no NaN")
    # If another thread changed the data, the core may find no wrong element. `first` is
    # then beyond the last element.
    first = min(first, <size_t>_size(&call.x) - 1)
    written = "; out has all codes, as without 'raise'" if call.has_out else ""
    raise _error_at(
        f"x: expected {' and '.join(expected)}, got {_faulty(count)}", first,
        _shape(&call.x), written
    )


cdef int _check_precision(Call *call, str beside) except -1:
    """Raise an error if `precision` is narrower than the type of the quotient."""
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
