# Read rounding, flags and threads, and check that they match a type.

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


cdef str _hint(str given, object known):
    """Return the end of a message about an unknown name."""
    from pyquant._refused import hint

    return hint(given, known)


cdef int _rounding(object rounding) except -1:
    if rounding is _HALF_EVEN:
        return PQ_HALF_EVEN
    if not isinstance(rounding, str):
        raise TypeError(
            f"rounding: expected a string or a RoundMode, got {type(rounding).__name__}"
        )
    try:
        return _ROUNDS[rounding]
    except KeyError:
        pass
    raise ValueError(
        f"rounding: expected one of {', '.join(_ROUNDS)}, got {str(rounding)!r}"
        f"{_hint(str(rounding), _ROUNDS)}"
    )


cdef inline bint _flag(object value, str name, str expected="True or False") except -1:
    if value is True:
        return True
    return False if value is False else _other_flag(value, name, expected)


cdef bint _other_flag(object value, str name, str expected) except -1:
    if type(value) is _np.bool_:
        return bool(value)
    raise TypeError(f"{name}: expected {expected}, got {type(value).__name__}")


cdef int _threads_of(object threads) except -1:
    try:
        threads = _index(threads)
    except TypeError:
        raise TypeError(
            f"threads: expected a positive integer, got {type(threads).__name__}"
        ) from None
    if threads < 1:
        raise ValueError(f"threads: expected a positive integer, got {_shown(threads)}")
    return min(threads, 1 << 20)


cdef pq_type _type_of_zero(object zero_point) except *:
    """Return the default of dtype. int64 and uint64 zero points raise an error, because
    NumPy makes int64 of any integers. Invalid zero points raise an error later."""
    if PyLong_CheckExact(zero_point):
        return PQ_I8
    name = known(zero_point)
    if name is None and not is_masked(zero_point):
        name = _dtypes.name_of(_dtype_said(zero_point))
    if name in _CHOSEN:
        return <pq_type><int>_CHOSEN[name]
    if name in _TYPES and name not in _REALS:
        raise TypeError(
            f"dtype: expected {_CODE_LIST} where zero_point is {name}, got None"
        )
    return PQ_I8


cdef int _check_options(str name, object rounding, bint saturate, bint packed) except -1:
    """Raise an error for options that the quantized type does not support."""
    if name in _dtypes.NARROW_FLOATS:
        if rounding not in ("half_even", "stochastic"):
            raise ValueError(
                f"rounding: expected 'half_even' or 'stochastic' for {name}, "
                f"got {str(rounding)!r}"
            )
    elif not saturate:
        raise ValueError(f"saturate: expected True for {name}, got False")
    if packed and name not in _PACKED:
        raise ValueError(f"packed: expected False for {name}, got True")
    return 0
