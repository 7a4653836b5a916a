# Calls that do two operations in one pass over the data: dynamic_quantize and
# fake_quantize.


cdef int _dynamic_part(const Job *job, int part) noexcept nogil:
    return pq_dynamic_quantize(_active, job.args, job.more, part, job.parts)


cdef int _fake_part(const Job *job, int part) noexcept nogil:
    return pq_fake_quantize(_active, job.args, job.more, part, job.parts)


cdef int _levels_part(const Job *job, int part) noexcept nogil:
    return pq_fake_levels(_active, job.args, part, job.parts)


# ---- dynamic_quantize ----


cdef int _dynamic_parts(Call *call, tuple selecting, Py_ssize_t each,
                        int threads) except -1:
    """Return the number of threads for one pass. Return 0 if threads would share a group.
    The call then needs a first pass that chooses all parameters, and a second pass that
    quantizes."""
    cdef int parts = _parts(_size(&call.x) * each, threads)
    cdef int d
    if parts == 1:
        return 1
    for d in range(call.args.ndim):
        if call.args.shape[d] > 1:
            many = d in selecting and _blocks_along(call, d) >= 4 * parts
            return parts if many else 0
    return 0


cdef tuple _by_two_calls(type cls, object x, object name, object axis, object block_size,
                         object symmetric, object scale_dtype, object like, _Affine affine,
                         object rounding, object layout, object out, object threads):
    cdef Calls made = _made_params(
        cls, _choose(x, name, axis, block_size, symmetric, scale_dtype, like, None, affine,
                     threads), affine
    )
    codes = _quantize(x, made._given_scale, made._given_zero, made._name, made._axis,
                      made._block_size, rounding, None, True, layout, out, threads, affine,
                      True)
    return codes, made


cdef bint _is_usual_parameter(object out, pq_type type, ptrdiff_t groups, Run *given,
                              Run *codes, Run *to) except -1:
    """Return True if `out` is `None`, or a contiguous array with an element for each group.
    """
    to.n = 0
    return out is None or (
        _is_run(out, to)
        and to.type == type
        and to.n == groups
        and PyArray_NDIM(<const PyArrayObject *>out) == 1
        and PyArray_ISWRITEABLE(<const PyArrayObject *>out)
        and _are_apart(given, to)
        and _are_apart(codes, to)
    )


cdef tuple _dynamic_usual(type cls, object x, object dtype, object axis, object out,
                          object scale_out, object zero_point_out):
    """Choose parameters for each index of axis 0, and quantize to `out`, with default
    options. Return `None` if the call needs the general path."""
    cdef Run given, to, scale, zero
    cdef pq_args args
    cdef pq_choice choice
    cdef ptrdiff_t[2] shape, in_strides, out_strides, scale_strides, zero_strides
    cdef tuple groups, results
    cdef Job job
    cdef pq_type code = <pq_type>_spelled_type(dtype)
    if not _is_integer(code) or _is_wide(code) or pq_type_bits(code) < 8:
        return None
    if type(axis) is not int or axis != 0 or not _is_run(x, &given):
        return None
    to.type = code
    if not _is_real(given.type) or given.n == 0 or not _is_usual_out(out, x, &given, &to):
        return None
    memset(&choice, 0, sizeof(pq_choice))
    choice.size = sizeof(pq_choice)
    choice.code = code
    choice.rule = pq_usual_rule(choice.like, code)
    _set_data(&choice, given.type)
    shape[0] = PyArray_DIMS(<const PyArrayObject *>x)[0] if PyArray_NDIM(
        <const PyArrayObject *>x) else 0
    if (
        shape[0] == 0
        or not _is_usual_parameter(scale_out, choice.scale, shape[0], &given, &to, &scale)
        or not _is_usual_parameter(zero_point_out, code, shape[0], &given, &to, &zero)
        or (scale.n and zero.n and not _are_apart(&scale, &zero))
    ):
        return None
    shape[1] = given.n // shape[0]
    groups = (shape[0],)
    results = _new_results(&choice, groups)
    _forget_options(&args)
    in_strides[1], out_strides[1] = pq_type_size(given.type), pq_type_size(code)
    in_strides[0], out_strides[0] = in_strides[1] * shape[1], out_strides[1] * shape[1]
    scale_strides[0], scale_strides[1] = pq_type_size(choice.scale), 0
    zero_strides[0], zero_strides[1] = pq_type_size(code), 0
    args.ndim, args.shape, args.block = 2, shape, NULL
    args.inp = pq_array(given.data, &in_strides[0], given.type, False, NULL)
    args.out = pq_array(to.data, &out_strides[0], code, False, NULL)
    args.scale = pq_array(PyBytes_AS_STRING(results[0][2]), &scale_strides[0],
                          choice.scale, False, NULL)
    args.zero = pq_array(PyBytes_AS_STRING(results[1][2]), &zero_strides[0], code, False,
                         NULL)
    job = Job(&args, &choice, 1)
    if _execute(_dynamic_part, &job, given.n) != PQ_OK:
        return None
    if scale.n:
        memcpy(scale.data, args.scale.data, scale.n * pq_type_size(scale.type))
    if zero.n:
        memcpy(zero.data, args.zero.data, zero.n * pq_type_size(code))
    parameters = _finished(&choice, results, <str>_NAMES[<int>code], 0, None)
    return out, _made_params(cls, parameters, None)


def dynamic_quantize(type cls not None, x, dtype, axis, block_size, symmetric, quant_range,
                     scale_dtype, like, layout, packed, out, scale_out, zero_point_out,
                     rounding, seed, start, threads, /):
    """See fused.dynamic_quantize; `cls` is QParams."""
    cdef Call call
    cdef pq_choice choice
    cdef ptrdiff_t shape[PQ_MAX_NDIM]
    cdef int status, parts, width
    cdef tuple how = None, limits, results
    cdef object write = None
    cdef str name
    cdef Job job
    cdef _Affine affine
    if (
        out is not None and block_size is None and symmetric is None
        and quant_range is None and scale_dtype is None and like is None
        and layout is None and packed is False and rounding is _HALF_EVEN
        and seed is None and start is None and threads is _ONE
    ):
        results = _dynamic_usual(cls, x, dtype, axis, out, scale_out, zero_point_out)
        if results is not None:
            return results
    affine = _affine(None, False, None, quant_range, _SATURATE, _LOWEST)
    rounding = _with_noise(rounding, seed, start)
    _forget(&call)
    array = _real_array(x, "x")
    name = _set_choice(&choice, dtype, symmetric, scale_dtype, like, affine)
    layout = _packing(layout, packed)
    if layout is not None:
        how = _requested(layout, name, True)
        width = <int>how[3]
        if quant_range is None and width < row_of_type(choice.code).bits:
            # Choose parameters for codes of the layout, which have fewer bits than `dtype`.
            limits = _limits_of(name, width)
            affine = _affine(None, False, None, limits, _SATURATE, _LOWEST)
            _set_choice(&choice, dtype, symmetric, scale_dtype, like, affine)
    _check_options(name, _set_rounding(&call.args, rounding), True)
    axis, block_size = integers(axis, "axis"), integers(block_size, "block_size")
    threads = _threads_of(threads)
    if affine is not None:
        affine.set(&call, name, True, 0 if how is None else <int>how[3])
    _hold_real(array, &call.x, "x")
    _set_input(&call)
    selecting = _granularity(&call, axis, block_size)
    groups = _parameter_shape(&call, selecting)
    if how is not None:
        how = _how(how, call.x.ndim)
    repeats = _without_repeats(&call.x, selecting, shape, call.block)
    parts = _dynamic_parts(&call, selecting, call.x.itemsize + 1, threads)
    _set_data(&choice, call.x.type)
    if scale_out is not None or zero_point_out is not None:
        from pyquant.fused import write_parameters

        parts_out = scale_out, zero_point_out
        types = _NAMES[<int>choice.scale], name
        write = write_parameters(parts_out, types, groups, (array, out))
    if _size(&call.x) == 0 or repeats[0] != repeats[1] or parts == 0:
        out, made = _by_two_calls(cls, array, name, axis, block_size, symmetric,
                                  scale_dtype, like, affine, rounding, layout, out, threads)
        if write is not None:
            write(made)
        return out, made
    results = _new_results(&choice, groups)
    _place_results(&call, &choice, selecting, results)
    call.args.block = call.block
    if how is not None:
        extents = _shape(&call.x)
        _check_product(extents, "x")
        codes = _hold_packed_out(&call, out, choice.code, how)
    else:
        codes = _hold_out(&call, out, choice.code)
    _check_overlap(&call, codes, &call.x, array, "the input")
    job = Job(&call.args, &choice, parts)
    status = _execute(_dynamic_part, &job, _size(&call.x))
    if status == PQ_ERR_NONFINITE:
        error = _nonfinite_error(&call, repeats)
        if out is not None:
            index = error.index
            error = ValueError(f"{error}; out has codes of some")
            error.index = index
        raise error
    if status != PQ_OK:
        _raise(status, &call.out, &call.x, "x")
    if out is None:
        out = codes if how is None else _packed(extents, codes, name, how)
    made = _made_params(cls, _finished(&choice, results, name, axis, block_size), affine)
    if write is not None:
        write(made)
    return out, made


# ---- fake_quantize ----


cdef object _BOOL = _np.dtype(bool)


cdef bint _hold_mask(Call *call, object mask, Array *held) except -1:
    """Store the description of a contiguous boolean mask in `held`. Return False for any
    other mask, which needs the general checks."""
    if type(mask) is not _ndarray or mask.dtype is not _BOOL:
        return False
    held.packed = 0
    _hold_as(mask, PQ_U8, False, held)
    return (
        PyArray_IS_C_CONTIGUOUS(<const PyArrayObject *>mask)
        and _same_shape(&call.x, held) and not held.readonly
        and not _may_overlap(held, &call.x) and not _may_overlap(held, &call.scale)
        and not _may_overlap(held, &call.zero) and not _may_overlap(held, &call.offset)
        and not _may_overlap(held, &call.out)
    )


cdef object _fake(Call *call, object array, object scale, object zero_point, pq_type code,
                  object axis, object block_size, object offset, object mask, object out,
                  int threads):
    """Quantize and dequantize, after the conversion of all arguments."""
    cdef Array flags
    cdef pq_fake fake
    if mask is not None and (row_of_type(code).bytes == 8 or _is_narrow_float(code)):
        _check_precision(call, f"mask for {_NAMES[<int>code]}")
    _set_input(call)
    _hold_parameters(call, scale, zero_point, axis, block_size, NULL)
    _check_zero(call, code)
    fake.size = sizeof(pq_fake)
    fake.code = code
    fake.mask.data = NULL
    exact = _hold_out(call, out, call.x.type)
    _check_apart(call, exact, array, scale, zero_point, offset)
    if mask is not None and not _hold_mask(call, mask, &flags):
        others = [
            one for one in (array, scale, zero_point, offset, exact)
            if isinstance(one, _ndarray)
        ]
        mask = _check.out(mask, _np.dtype(bool), _shape(&call.x), *others, name="mask")
        _hold_as(mask, PQ_U8, False, &flags)
    if mask is not None:
        _set_array(&fake.mask, &flags)
    _run_all(_fake_part, call, &fake, threads)
    return exact if out is None else out


@hinted
def fake_quantize(x, scale, zero_point=None, *, dtype=None, axis=None, block_size=None,
                  rounding="half_even", precision=None, saturate=True, offset=None,
                  inverse=False, fill=None, quant_range=None, mask=None, out=None,
                  seed=None, start=None, threads=1):
    """
    Quantize and dequantize in one pass.

    Parameters
    ----------
    x : array_like
        float32, float64, float16 or bfloat16 array of any shape, strides and byte order.
    scale, zero_point, dtype, axis, block_size, rounding, precision, saturate
        See `quantize`.
    offset, inverse, fill, quant_range
        See `quantize` and `dequantize`.
    mask : ndarray of bool, optional
        Array with the shape of `x`. Any strides are allowed. An element becomes True if
        rounded quotient plus zero point is within the range of codes. The element becomes
        False if the code saturates or the element of `x` is NaN. Straight-through gradient
        estimators use this mask. For 64-bit codes and narrow floats, `mask` raises an error
        if `precision` is narrower than float32, or than float64 if `x` is float64.
    out : ndarray, optional
        Array for the result, with the shape and dtype of `x`. Any strides are allowed.
    seed, start : int, optional
        Options of stochastic rounding, see `quantize`.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on `threads`.

    Returns
    -------
    ndarray
        Real numbers with the shape and dtype of `x`. If `out` is given, the result is
        `out`.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError, ImportError
        See `quantize`. `out` and `mask` are unchanged.

    Notes
    -----
    The result equals ``dequantize(quantize(x, ...), ..., dtype=x.dtype)`` with equal
    arguments, bit for bit. At most a few thousand codes exist at a time.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> mask = np.empty(4, bool)
    >>> pq.fake_quantize(np.float32([0.6, 1.5, -3, 1e9]), 0.5, 1, dtype="uint8", mask=mask)
    array([  0.5,   1.5,  -0.5, 127. ], dtype=float32)
    >>> mask
    array([ True,  True, False, False])
    """
    return _quantize_any(
        x, scale, zero_point, dtype, axis, block_size, _with_noise(rounding, seed, start),
        precision, saturate, None, out, threads,
        _affine(offset, inverse, fill, quant_range, _SATURATE, _LOWEST), False, True, mask
    )


# ---- OpenVINO's FakeQuantize ----


def fake_levels(x, params, out, threads, /):
    """Quantize and dequantize `x` by levels. The last dimension of `params` has six float32
    parameters. All other dimensions broadcast to x. See openvino.fake_quantize and
    levels.h."""
    cdef Call call
    cdef int d, lacks
    _forget(&call)
    _hold_real(x, &call.x, "x")
    threads = _threads_of(threads)
    _set_input(&call)
    _hold(params, &call.scale)
    lacks = call.x.ndim - (call.scale.ndim - 1)
    for d in range(call.x.ndim):
        call.scale_strides[d] = 0
        if d >= lacks and call.scale.shape[d - lacks] != 1:
            call.scale_strides[d] = call.scale.strides[d - lacks]
    _set_placed(&call.args.scale, &call.scale, call.scale_strides)
    call.args.zero.data = NULL
    call.args.block = NULL
    exact = _hold_out(&call, out, call.x.type)
    _check_overlap(&call, exact, &call.x, x, "the input")
    _run_all(_levels_part, &call, NULL, threads)
    return exact if out is None else out


def as_reals(values, str name not None, /):
    """Return an array of real numbers. Objects without a dtype become float64."""
    cdef Array held
    if type(values) is int and -2**63 <= values < 2**63:
        values = 1.0 * values
    array = _real_array(values, name)
    _hold_real(array, &held, name)
    return array
