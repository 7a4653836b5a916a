# The general call path: pass checked arguments to the core, in parts on threads.

# Calls with fewer elements keep the GIL, because releasing it costs more.
cdef enum:
    _NOGIL_SIZE = 16384
    _FEW_ZEROS = 256


cdef struct Job:
    const pq_args *args
    const void *more  # a further argument of the operation
    int parts


# Run a part of a job, and return its pq_status.
ctypedef int (*part_fn)(const Job *job, int part) noexcept nogil


@final
cdef class _Work:
    """A job in parts on different threads.

    The job lives as long as the call. After `close`, no part runs. A part that starts
    later, from a queue after an interrupt or an error, does nothing. `close` cannot be
    interrupted.
    """
    cdef part_fn run
    cdef const Job *job
    cdef int active
    cdef bint closed
    cdef PyThread_type_lock guard  # guards `active` and `closed`
    cdef PyThread_type_lock busy   # held while a part runs

    def __cinit__(self):
        self.guard = PyThread_allocate_lock()
        self.busy = PyThread_allocate_lock()
        if self.guard == NULL or self.busy == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.guard != NULL:
            PyThread_free_lock(self.guard)
        if self.busy != NULL:
            PyThread_free_lock(self.busy)

    cdef bint enter(self) noexcept:
        cdef bint allowed
        PyThread_acquire_lock(self.guard, WAIT_LOCK)
        allowed = not self.closed
        if allowed:
            if self.active == 0:
                PyThread_acquire_lock(self.busy, WAIT_LOCK)
            self.active += 1
        PyThread_release_lock(self.guard)
        return allowed

    cdef void leave(self) noexcept:
        PyThread_acquire_lock(self.guard, WAIT_LOCK)
        self.active -= 1
        if self.active == 0:
            PyThread_release_lock(self.busy)
        PyThread_release_lock(self.guard)

    cdef void close(self) noexcept:
        PyThread_acquire_lock(self.guard, WAIT_LOCK)
        self.closed = True
        PyThread_release_lock(self.guard)
        with nogil:
            PyThread_acquire_lock(self.busy, WAIT_LOCK)
        PyThread_release_lock(self.busy)

    def __call__(self, int part):
        cdef int status
        if not self.enter():
            return <int>PQ_OK
        with nogil:
            status = self.run(self.job, part)
        self.leave()
        return status


cdef int _parts(Py_ssize_t size, int threads) except -1:
    """Return the useful number of parts for a number of bytes."""
    cdef Py_ssize_t least = _threads.MIN_PART_BYTES
    cdef Py_ssize_t worth = size // max(1, least)
    if worth < 2:  # small calls do not count the CPUs
        return 1
    return min(threads, _threads.cpu_count(), worth)


cdef int _execute(part_fn run, const Job *job, Py_ssize_t size) except -1:
    """Run all parts of a job on `size` elements, and return a pq_status."""
    cdef int status
    cdef _Work work
    if job.parts > 1:
        work = _Work()
        work.run, work.job = run, job
        try:
            return _threads.run(work, job.parts)
        finally:
            work.close()
    if size < _NOGIL_SIZE:
        return run(job, 0)
    with nogil:
        status = run(job, 0)
    return status


cdef object _overlapping(str name, Array *a):
    strides = tuple([a.strides[d] for d in range(a.ndim)])
    return ValueError(
        f"{name}: expected dimensions that neither overlap nor interleave, "
        f"got strides {strides}"
    )


cdef int _raise(int status, Array *out, Array *given, str name) except -1:
    """Raise the error of a pq_status; `given` is the array of the argument `name`."""
    if status == PQ_ERR_OVERLAP:
        raise _overlapping("out", out)
    if status == PQ_ERR_SHAPE:  # broadcast arrays can exceed the memory
        raise ValueError(
            f"{name}: expected an array that memory holds, got shape {_shape(given)}"
        )
    raise SystemError(f"pyquant: unexpected status {status} from the C core")


cdef int _quantize_part(const Job *job, int part) noexcept nogil:
    return pq_quantize(_active, job.args, part, job.parts)


cdef int _dequantize_part(const Job *job, int part) noexcept nogil:
    return pq_dequantize(_active, job.args, part, job.parts)


cdef int _prepared_part(const Job *job, int part) noexcept nogil:
    return pq_run(<const pq_prepared *>job.more, job.args.inp.data, job.args.out.data, part,
                  job.parts)


cdef int _run_once(Call *call, bint quantizes, int threads) except -1:
    """Run a call, and return a pq_status. Threads check and plan the call once."""
    cdef Py_ssize_t size = _size(&call.x)
    cdef pq_prepared plan
    cdef int status
    cdef Job job = Job(&call.args, call.book, 1)
    if threads != 1:
        job.parts = _parts(size * (call.x.itemsize + call.out.itemsize), threads)
    if call.book != NULL:
        run = _book_quantize_part if quantizes else _book_dequantize_part
        return _execute(run, &job, size)
    if job.parts == 1:
        return _execute(_quantize_part if quantizes else _dequantize_part, &job, size)
    plan.size = sizeof(plan)
    with nogil:
        if quantizes:
            status = pq_prepare_quantize(&plan, _active, &call.args)
        else:
            status = pq_prepare_dequantize(&plan, _active, &call.args)
    if status != PQ_OK:
        return status
    job.more = &plan
    return _execute(_prepared_part, &job, size)


cdef int _run(Call *call, bint quantizes, int threads) except -1:
    cdef int status
    if _size(&call.x) == 0:
        return 0
    status = _run_once(call, quantizes, threads)
    if status == PQ_ERR_BEYOND:
        raise _beyond_error(call)
    if status == PQ_ERR_ZERO:
        if not call.args.any_zeros:
            _check_zero(call, call.out.type if quantizes else call.x.type)
        raise ValueError("zero_point: expected integers of at most 2**52 in magnitude")
    if status != PQ_OK:
        _raise(status, &call.out, &call.x, "x" if quantizes else "q")
    return 0


cdef object _apply(Call *call, object array, object scale, object zero_point, pq_type code,
                   str dtype, pq_type type, object axis, object block_size, object out,
                   object threads, bint quantizes, tuple how, bint any_zero, object offset):
    """Run both directions, after the conversion of all arguments. `how` is the layout of
    packed results, or `None`."""
    _set_input(call)
    _hold_scale(call, scale)
    _hold_offset(call, offset)
    _hold_zero(call, zero_point, scale)
    if any_zero:  # QParams; standards check shapes before the call
        call.whose = b"x" if quantizes else b"q"
    _place_parameters(call, axis, block_size)
    call.args.any_zeros = any_zero
    # For many integers, the core checks them while it reads them.
    if not any_zero and call.args.zero.data != NULL and (
        not call.zero.held
        or _size(&call.zero) < _FEW_ZEROS
        or _size(&call.x) == 0
        or _is_narrow_float(code)
        or _is_narrow_float(call.args.zero.type)
    ):
        _check_zero(call, code)
    if how is not None:
        shape = _shape(&call.x)
        _check_product(shape, "x")
        data = _hold_packed_out(call, out, type, how, "packed")
        _set_output(call)
        _run(call, quantizes, threads)
        return _packed(shape, data, dtype, how)
    exact = _hold_out(call, _exact_out(out), dtype, type)
    if out is not None:
        call.has_out = True
        _check_overlap(call, exact, &call.x, array, "the input")
        _check_overlap(call, exact, &call.scale, scale, "scale")
        _check_overlap(call, exact, &call.zero, zero_point, "zero_point")
        _check_overlap(call, exact, &call.offset, offset, _offset_name(call.as_bias))
    _set_output(call)
    _run(call, quantizes, threads)
    return exact if out is None else out


cdef object _quantize(object x, object scale, object zero_point, object dtype, object axis,
                      object block_size, object rounding, object precision, object saturate,
                      object packed, object out, object threads, _Affine affine,
                      bint any_zero):
    """Quantize; with `any_zero`, zero points are unchecked, because QParams checked them.
    """
    if (
        axis is None and block_size is None and precision is None and saturate is True
        and threads is _ONE and (packed is False or packed is True)
        and (affine is None or affine.is_policy)
    ):
        made = _quantize_usual(x, scale, zero_point, dtype, rounding, packed, out, affine)
        if made is not None:
            return made
    return _quantize_any(x, scale, zero_point, dtype, axis, block_size, rounding, precision,
                         saturate, packed, out, threads, affine, any_zero, False, False,
                         False)


cdef object _quantize_any(object x, object scale, object zero_point, object dtype,
                          object axis, object block_size, object rounding, object precision,
                          object saturate, object packed, object out, object threads,
                          _Affine affine, bint any_zero, bint int32, bint zero_first,
                          bint narrow_first):
    """Quantize any arguments. Standards allow any zero points; `int32` allows int32 input.
    """
    cdef Call call
    cdef int packs
    cdef tuple how = None
    cdef str name
    cdef object offset = None
    cdef pq_type code = PQ_I8
    _forget(&call)
    array = _real_array(x, "x")
    if dtype is not None:
        code = _type_in(_CODES, dtype, "dtype", _CODE_NAMES)
    elif zero_point is not None:
        code = _type_of_zero(zero_point)
    name = <str>_NAMES[<int>code]
    rounding = _set_rounding(&call.args, rounding)
    if precision is not None:
        call.args.precision = _type_in(_REALS, precision, "precision", _PRECISIONS)
    call.args.overflow = not _flag(saturate, "saturate")
    call.args.zero_first = zero_first
    call.args.narrow_first = narrow_first
    packs = _packs(packed)
    if packs == _BY_LAYOUT:
        how = _requested(packed, name, any_zero)
        name = <str>how[0]
        code = <pq_type><int>_CODES[name]
    if packs == _BY_FLAG or call.args.overflow or _is_narrow_float(code):
        _check_options(name, rounding, not call.args.overflow, packs == _BY_FLAG)
    scale = _scale_array(&call, scale)
    zero_point = _zero_array(&call, zero_point)
    axis = _settled(axis, "axis")
    block_size = _settled(block_size, "block_size")
    if threads is not _ONE:
        threads = _threads_of(threads)
    if affine is not None:
        if affine.offset is not None:
            scale, offset = _paired(&call, scale, affine, array.shape)
        affine.set(&call, name, True, <int>how[3] if packs == _BY_LAYOUT else 0)
    _hold_real(array, &call.x, "x", int32, ", or change the scale of codes with requantize")
    if affine is not None:
        _check_beside_affine(&call, affine)
    if packs:
        how = _how(how, name, call.x.ndim)
    return _apply(&call, array, scale, zero_point, code, name, code, axis, block_size, out,
                  threads, True, how, any_zero, offset)


cdef object _dequantize(object q, object scale, object zero_point, object dtype,
                        object axis, object block_size, object out, object threads,
                        _Affine affine, bint any_zero):
    cdef Call call
    cdef int bits
    cdef str name = "float32"
    cdef object offset = None
    cdef pq_type type = PQ_F32
    if axis is None and block_size is None and threads is _ONE and affine is None:
        made = _dequantize_usual(q, scale, zero_point, dtype, out)
        if made is not None:
            return made
    _forget(&call)
    array = _code_array(q, "q")
    if dtype is not None:
        type = _type_in(_REALS, dtype, "dtype", _REAL_LIST)
        name = <str>_NAMES[<int>type]
    elif out is not None:
        type = PQ_NO_TYPE  # the type of `out`
    scale = _scale_array(&call, scale)
    zero_point = _zero_array(&call, zero_point)
    axis = _settled(axis, "axis")
    block_size = _settled(block_size, "block_size")
    if threads is not _ONE:
        threads = _threads_of(threads)
    if affine is not None and affine.offset is not None:
        extents = array._shape if isinstance(array, Packed) else array.shape
        scale, offset = _paired(&call, scale, affine, extents)
    array = _hold_code(&call, array, "q", scale)
    call.args.round = PQ_HALF_EVEN
    if affine is not None:
        bits = call.x_layout.bits if call.args.in_layout != NULL else 0
        affine.set(&call, <str>_NAMES[<int>call.x.type], False, bits)
        if call.book != NULL:
            _check_places(&call, array)
    return _apply(&call, array, scale, zero_point, call.x.type, name, type, axis,
                  block_size, out, threads, False, None, any_zero, offset)
