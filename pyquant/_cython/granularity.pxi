# Read `axis` and `block_size`, and place parameters along the dimensions of x.


cdef object _index(object value):
    """Return a Python integer. `bool` and NumPy's bool raise TypeError."""
    if PyLong_CheckExact(value):
        return value
    if isinstance(value, (bool, _np.bool_)):
        raise TypeError
    return int(_operator_index(value))


def index(value, /):
    """Return a Python integer. `bool` and NumPy's bool raise TypeError."""
    return _index(value)


cdef object _integer(object value, str name,
                     str expected="None, an integer or a tuple of integers"):
    """Return an integer; bool raises an error."""
    try:
        return _index(value)
    except TypeError:
        pass
    raise TypeError(f"{name}: expected {expected}, got {type(value).__name__}")


def integer(value, str name not None, least=None, most=None, /):
    """Return a Python integer from `least` to `most`. `bool` raises TypeError."""
    number = _integer(value, name, "an integer")
    if least is None or (least <= number and (most is None or number <= most)):
        return number
    expected = "a positive integer"
    if most is not None:
        expected = f"an integer from {least} to {most}"
    raise ValueError(f"{name}: expected {expected}, got {_shown(number)}")


cdef inline object _settled(object value, str name):
    """Return `None`, an integer or a tuple of Python integers, independent of user objects.
    """
    return value if value is None or PyLong_CheckExact(value) else integers(value, name)


cdef inline tuple _one_or_more(object settled):
    return settled if PyTuple_CheckExact(settled) else (settled,)


def integers(value, name, /):
    """Return `None`, a Python integer or a tuple of Python integers."""
    if isinstance(value, tuple):
        return tuple([_integer(one, name) for one in value])
    return None if value is None else _integer(value, name)


cdef str _dimensions(Call *call, str of):
    """Describe a number of dimensions that a QParams does not fit, for messages."""
    cdef int ndim = call.args.ndim
    cdef str name = call.whose.decode()
    have = f"{name} has {ndim} dimension{'' if ndim == 1 else 's'}"
    remedy = "pass the complete array, then index the result"
    return f"{have}; these parameters are for {of}; {remedy}"


cdef tuple _axes(object axis, int ndim, Call *call=NULL):
    """Return the axes as ascending nonnegative integers."""
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


cdef tuple _blocks(object block_size):
    cdef tuple blocks = _one_or_more(block_size)
    for one in blocks:
        if one < 1:
            raise ValueError(
                f"block_size: expected positive integers, got {_shown(block_size)}"
            )
    return blocks


cdef int _check_blocked_axis(object axis, object block_size) except -1:
    if isinstance(block_size, tuple):
        if axis is not None:
            raise ValueError(
                f"axis: expected None beside a block_size per dimension, got {_shown(axis)}"
            )
    elif axis is None or isinstance(axis, tuple):
        raise ValueError(
            f"axis: expected one integer beside block_size={_shown(block_size)}, "
            f"got {_shown(axis)}"
            f"{'; blocks along the last axis need axis=-1' if axis is None else ''}"
        )
    return 0


cdef ptrdiff_t _within(object block, ptrdiff_t extent):
    """Return a positive block size, at most the extent of a nonempty dimension."""
    if extent < 1:
        return 1
    return extent if block > extent else block


cdef tuple _DIMENSIONS = tuple(range(PQ_MAX_NDIM))


cdef tuple _granularity(Call *call, object axis, object block_size):
    """Fill call.block and return the dimensions that select a parameter. Only this function
    interprets `axis` and `block_size`."""
    cdef int ndim = call.args.ndim, d
    for d in range(ndim):
        call.block[d] = 1
    if block_size is None:
        return () if axis is None else _axes(axis, ndim, call)
    cdef tuple blocks = _blocks(block_size)
    _check_blocked_axis(axis, block_size)
    if isinstance(block_size, tuple):
        if len(blocks) != ndim:
            if call.whose != NULL:
                raise ValueError(_dimensions(call, f"{len(blocks)} dimensions"))
            raise ValueError(
                f"block_size: expected {ndim} integers, one per dimension, "
                f"got {_shown(block_size)}"
            )
        for d in range(ndim):
            call.block[d] = _within(blocks[d], call.args.shape[d])
    else:
        d = _axes(axis, ndim, call)[0]
        call.block[d] = _within(blocks[0], call.args.shape[d])
    return _DIMENSIONS[:ndim]


@cdivision(True)
cdef inline ptrdiff_t _blocks_along(Call *call, int d) noexcept:
    """Return the number of blocks; a block of one element needs no division."""
    cdef ptrdiff_t n = call.args.shape[d], block = call.block[d]
    return n if block == 1 else (n + block - 1) // block


cdef tuple _parameter_shape(Call *call, tuple selecting):
    return tuple([_blocks_along(call, d) for d in selecting])


cdef bint _has_parameter_shape(Call *call, Array *a, tuple selecting) except -1:
    cdef int d, i = 0
    if a.ndim != len(selecting):
        return False
    for d in selecting:
        if a.shape[i] != _blocks_along(call, d):
            return False
        i += 1
    return True


cdef tuple _kept_shape(Call *call, tuple selecting):
    """Return the shape of parameters with the rank of x, for broadcasting."""
    return tuple([
        call.args.shape[d] if d in selecting else 1 for d in range(call.args.ndim)
    ])


cdef bint _keeps_dimensions(Call *call, Array *a) noexcept:
    """Return True if the shape broadcasts to x and has at least two dimensions. A single
    dimension could mean any axis."""
    cdef int d
    if a.ndim != call.args.ndim or call.args.ndim < 2:
        return False
    for d in range(call.args.ndim):
        if a.shape[d] != 1 and a.shape[d] != call.args.shape[d]:
            return False
    return True


cdef void _place_kept(Array *a, ptrdiff_t *strides) noexcept:
    cdef int d
    for d in range(a.ndim):
        strides[d] = a.strides[d] if a.shape[d] != 1 else 0


cdef int _place(Call *call, str name, Array *a, tuple selecting, bint blocks,
                ptrdiff_t *strides) except -1:
    """Return the strides of parameters over the dimensions of x."""
    cdef int d, i = 0
    if not a.held or _size(a) == 1:
        return 0
    if _has_parameter_shape(call, a, selecting):
        for d in selecting:
            strides[d] = a.strides[i]
            i += 1
    elif not blocks and _shape(a) == _kept_shape(call, selecting):
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


cdef str _of_scales(Call *call):
    """Describe the source of the shape of scales, for messages."""
    return _offset_name(call.as_bias) if call.as_offset else "scale"


cdef object _fitting(Call *call, str name, Array *a):
    """Name the axes or block sizes that fit the shape of parameters, for messages."""
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
    """Place parameters with the rank of x, without axis and block_size."""
    if not _keeps_dimensions(call, &call.scale):
        name = _of_scales(call)
        raise ValueError(
            f"{name}: expected one element, or all dimensions of x, without "
            f"axis or block_size, got shape {_shape(&call.scale)}"
            f"{_fitting(call, name, &call.scale)}"
        )
    _place_kept(&call.scale, call.scale_strides)
    if call.zero.held and _size(&call.zero) != 1:
        if _shape(&call.zero) != _shape(&call.scale):
            raise ValueError(
                f"zero_point: expected shape {_shape(&call.scale)}, "
                f"got {_shape(&call.zero)}"
            )
        _place_kept(&call.zero, call.zero_strides)
    return 0


cdef int _place_parameters(Call *call, object axis, object block_size) except -1:
    cdef tuple selecting = None
    cdef bint blocks = block_size is not None
    cdef int ndim = call.args.ndim
    memset(call.scale_strides, 0, ndim * sizeof(ptrdiff_t))
    memset(call.zero_strides, 0, ndim * sizeof(ptrdiff_t))
    call.args.block = NULL
    if axis is not None or blocks:
        selecting = _granularity(call, axis, block_size)
        call.args.block = call.block
    cdef bint one_scale = not call.scale.held or _size(&call.scale) == 1
    cdef bint one_zero = not call.zero.held or _size(&call.zero) == 1
    if one_scale and one_zero:
        return 0
    if one_scale:
        raise ValueError(
            f"zero_point: expected one element beside a single scale, "
            f"got shape {_shape(&call.zero)}"
        )
    if selecting is None:
        return _place_unnamed(call)
    _place(call, _of_scales(call), &call.scale, selecting, blocks, call.scale_strides)
    _place(call, "zero_point", &call.zero, selecting, blocks, call.zero_strides)
    return 0
