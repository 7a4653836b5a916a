# Pass the checked arguments of a call to the core, and run the parts of the call on
# threads.

# Calls with fewer than _NOGIL_SIZE elements keep the GIL, because the release of the GIL
# costs more time than other threads gain.
cdef enum:
    _NOGIL_SIZE = 16384
    _FEW_ZEROS = 256


cdef struct Job:
    const pq_args *args
    const void *more  # arguments of an operation that pq_args does not contain
    int parts


# A function that runs a part of a job and returns a pq_status.
ctypedef int (*part_fn)(const Job *job, int part) noexcept nogil


@final
cdef class _Work:
    """A job with parts that run on different threads.

    The memory of the job is valid during the call only. `close` waits for parts that run.
    After an interrupt or an error, a part may still be in the queue of a thread. If this
    part starts after `close`, the part does nothing. `close` cannot be interrupted.
    """
    cdef part_fn run
    cdef const Job *job
    cdef int active
    cdef bint closed
    cdef PyThread_type_lock guard  # This lock protects `active` and `closed`.
    cdef PyThread_type_lock busy   # A call holds this lock while one of its parts runs.

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
    """Return the number of parts for a job that reads and writes `size` bytes. The number
    is at most `threads`, and lower if the parts would be too small."""
    if threads == 1 or size < 2 * <Py_ssize_t>_threads.MIN_PART_BYTES:
        return 1  # saves a Python call
    return _threads.useful_parts(size, threads)


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


cdef int _raise(int status, Array *out, Array *given, str name) except -1:
    """Raise the error of a pq_status. `given` describes the array of the argument `name`.
    """
    if status == PQ_ERR_OVERLAP:
        strides = tuple([out.strides[d] for d in range(out.ndim)])
        raise _error(ValueError, "out", "dimensions that neither overlap nor interleave",
                     f"strides {strides}")
    if status == PQ_ERR_SHAPE:  # a broadcast array is too large
        raise _error(ValueError, name, "an array that memory holds",
                     f"shape {_shape(given)}")
    raise SystemError(f"pyquant: unexpected status {status} from the C core")


cdef int _run_threads(part_fn run, const pq_args *args, const void *more, Py_ssize_t size,
                      Py_ssize_t itemsize, int threads) except -1:
    """Run an operation on `size` elements, and return a pq_status. `itemsize` is the number
    of bytes that the operation reads and writes for an element."""
    cdef Job job = Job(args, more, _parts(size * itemsize, threads))
    return _execute(run, &job, size)


cdef int _run_all(part_fn run, Call *call, const void *more, int threads,
                  str name="x") except -1:
    """Run an operation on all elements of call.x, and raise the error of the core. `name`
    is the argument that errors name."""
    cdef Py_ssize_t size = _size(&call.x)
    cdef int status = PQ_OK
    if size != 0:
        status = _run_threads(run, &call.args, more, size,
                              call.x.itemsize + call.out.itemsize, threads)
    if status != PQ_OK:
        _raise(status, &call.out, &call.x, name)
    return 0


cdef int _quantize_part(const Job *job, int part) noexcept nogil:
    return pq_quantize(_active, job.args, part, job.parts)


cdef int _dequantize_part(const Job *job, int part) noexcept nogil:
    return pq_dequantize(_active, job.args, part, job.parts)


cdef int _prepared_part(const Job *job, int part) noexcept nogil:
    return pq_run(<const pq_prepared *>job.more, job.args.inp.data, job.args.out.data, part,
                  job.parts)


cdef int _run_parts(Job *job, bint quantizes, Py_ssize_t size) except -1:
    """Check and plan a call once, then run the parts of the call on threads. Return a
    pq_status."""
    cdef pq_prepared plan
    cdef int status
    plan.size = sizeof(plan)
    with nogil:
        if quantizes:
            status = pq_prepare_quantize(&plan, _active, job.args)
        else:
            status = pq_prepare_dequantize(&plan, _active, job.args)
    if status != PQ_OK:
        return status
    job.more = &plan
    return _execute(_prepared_part, job, size)


cdef int _run(Call *call, bint quantizes, int threads) except -1:
    """Run a call, and raise the error of its pq_status."""
    cdef Py_ssize_t size = _size(&call.x)
    cdef int status
    cdef Job job = Job(&call.args, call.book, 1)
    if size == 0:
        return 0
    job.parts = _parts(size * (call.x.itemsize + call.out.itemsize), threads)
    if call.book != NULL:
        run = _book_quantize_part if quantizes else _book_dequantize_part
        status = _execute(run, &job, size)
    elif job.parts == 1:
        status = _execute(_quantize_part if quantizes else _dequantize_part, &job, size)
    else:
        status = _run_parts(&job, quantizes, size)
    if status == PQ_ERR_BEYOND:
        raise _beyond_error(call)
    if status == PQ_ERR_ZERO:
        if not call.args.any_zeros:
            _check_zero(call, call.out.type if quantizes else call.x.type)
        raise ValueError("zero_point: expected integers of at most 2**52 in magnitude")
    if status != PQ_OK:
        _raise(status, &call.out, &call.x, "x" if quantizes else "q")
    return 0
