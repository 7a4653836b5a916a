# Stochastic rounding: the seed, and the position of the first element.


@final
cdef class _Noise:
    """A rounding mode with converted seed and start."""
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
    """Return only the mode if seed and start are absent, the common case."""
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
        raise ValueError(
            f"{name}: expected None beside rounding={str(rounding)!r}, got {got}"
        )
    return made


cdef object _set_rounding(pq_args *args, object rounding):
    """Return only the mode."""
    if type(rounding) is _Noise:
        args.seed = (<_Noise>rounding).seed
        args.start = (<_Noise>rounding).start
        rounding = (<_Noise>rounding).rounding
    args.round = <pq_round>_rounding(rounding)
    return rounding
