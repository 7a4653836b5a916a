# Observing: the extrema of an array and how often the upper 16 bits of its elements occur.

from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree


cdef class _Counters:
    """Memory that C counts in, of zeros between calls."""
    cdef uint32_t *data

    def __cinit__(self):
        self.data = <uint32_t *>PyMem_RawCalloc(PQ_COUNTERS, sizeof(uint32_t))
        if self.data == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_RawFree(self.data)


# Kept from call to call, as to get a megabyte of zeros takes longer than to count a few
# thousand numbers. Who takes them out has them alone; of those given back one is kept.
cdef list _kept_counters = []


cdef _Counters _take_counters():
    try:
        return _kept_counters.pop()
    except IndexError:
        return _Counters()


cdef class _CountingWork(_Work):
    """An array, its parts counted on threads. One at a time where they are more than
    counters hold."""
    cdef const pq_kernels *kernels
    cdef const pq_args *args
    cdef int parts
    cdef list memory
    cdef pq_counts *counts  # of each that is there

    def __cinit__(self):
        self.memory = []

    def __dealloc__(self):
        PyMem_RawFree(self.counts)

    cdef int do(self, int part) noexcept nogil:
        return pq_histogram(
            self.kernels, self.args, &self.counts[part], part, self.parts
        )

    cdef int start(self, int many, bint histogram, bint ignore) except -1:
        """Room for so many parts."""
        cdef int i
        self.counts = <pq_counts *>PyMem_RawCalloc(many, sizeof(pq_counts))
        if self.counts == NULL:
            raise MemoryError
        for i in range(many):
            self.counts[i].size = sizeof(pq_counts)
            self.counts[i].ignore_nonfinite = ignore
            if histogram:
                self.memory.append(_take_counters())
                self.counts[i].counters = (<_Counters>self.memory[i]).data
            self.forget(i)
        return 0

    cdef void forget(self, int i) noexcept:
        self.counts[i].count = self.counts[i].nan = self.counts[i].inf = 0
        self.counts[i].lowest = INFINITY
        self.counts[i].highest = -INFINITY

    cdef int give_back(self, int many) except -1:
        """Memory whose counters are zeros."""
        cdef uint64_t[PQ_PAGE] page
        cdef int i
        for i in range(many):
            while pq_histogram_take(&self.counts[i], page) >= 0:
                pass
        while self.memory:
            counters = self.memory.pop()
            if not _kept_counters:
                _kept_counters.append(counters)
        return 0


cdef inline void *_data(object array) noexcept:
    return PyArray_DATA(<const PyArrayObject *>array)


cdef class _Observed:
    """What an update finds, of each channel."""
    cdef object counts, nans, infs, lowest, highest
    cdef object table   # of pages in the order in which they are found, channels, counters
    cdef list pages     # their numbers
    cdef int[512] rows  # of each number, where it has one
    cdef Py_ssize_t channels
    cdef int mantissa_bits

    cdef int start(self, Py_ssize_t channels, int mantissa_bits) except -1:
        cdef int page
        self.channels = channels
        self.mantissa_bits = mantissa_bits
        self.counts = _np.zeros(channels, _np.uint64)
        self.nans = _np.zeros(channels, _np.uint64)
        self.infs = _np.zeros(channels, _np.uint64)
        self.lowest = _np.full(channels, INFINITY)
        self.highest = _np.full(channels, -INFINITY)
        self.pages = []
        self.table = _np.zeros((0, channels, 1 << mantissa_bits), _np.uint64)
        for page in range(PQ_PAGES):
            self.rows[page] = -1
        return 0

    cdef int make_room(self, pq_counts *found) except -1:
        """For all pages that were hit."""
        cdef int page
        for page in range(PQ_PAGES):
            if self.rows[page] < 0 and found.pages[page // 64] >> (page % 64) & 1:
                self.rows[page] = <int>len(self.pages)
                self.pages.append(page)
        if len(self.pages) > len(self.table):
            table = _np.zeros(
                (2 * len(self.pages) if self.channels > 1 else len(self.pages),
                 self.channels, 1 << self.mantissa_bits), _np.uint64
            )
            table[:len(self.table)] = self.table
            self.table = table
        return 0

    cdef int add(self, pq_counts *found, Py_ssize_t channel) except -1:
        """What is in `found`, which is empty then."""
        cdef uint64_t[PQ_PAGE] page
        cdef uint64_t *to
        cdef double *lowest = <double *>_data(self.lowest)
        cdef double *highest = <double *>_data(self.highest)
        cdef int number, k, shift = 7 - self.mantissa_bits
        (<uint64_t *>_data(self.counts))[channel] += found.count
        (<uint64_t *>_data(self.nans))[channel] += found.nan
        (<uint64_t *>_data(self.infs))[channel] += found.inf
        lowest[channel] = min(lowest[channel], found.lowest)
        highest[channel] = max(highest[channel], found.highest)
        if found.counters == NULL:
            return 0
        self.make_room(found)
        while True:
            number = pq_histogram_take(found, page)
            if number < 0:
                return 0
            to = <uint64_t *>_data(self.table)
            to += (self.rows[number] * self.channels + channel) << self.mantissa_bits
            for k in range(PQ_PAGE):
                to[k >> shift] += page[k]

    cdef tuple histogram(self):
        """The pages that have something, ascending, and their counters."""
        pages = _np.array(self.pages, _np.uint16)
        table = self.table[:len(pages)]
        if self.pages != sorted(self.pages):
            order = pages.argsort()
            return pages[order], table[order]
        return pages, table


cdef int _count_tensor(_CountingWork work, _Observed found, Py_ssize_t size, bint histogram,
                       bint ignore, int parts) except -1:
    """All of the array; returns a pq_status."""
    cdef Py_ssize_t shares = size // (1 << 31) + 1 if histogram else 1
    cdef int status = PQ_OK, i
    work.parts = parts
    if shares > parts:
        parts, work.parts = 1, <int>shares
    work.start(parts, histogram, ignore)
    try:
        if parts > 1:
            status = _threads.run(work, parts)
    finally:
        work.close()
    if parts > 1:
        for i in range(parts if status == PQ_OK else 0):
            found.add(&work.counts[i], 0)
    else:
        for i in range(work.parts):
            if size < _NOGIL_SIZE:
                status = pq_histogram(work.kernels, work.args, work.counts, i, work.parts)
            else:
                with nogil:
                    status = pq_histogram(
                        work.kernels, work.args, work.counts, i, work.parts
                    )
            if status != PQ_OK:
                break
            found.add(work.counts, 0)
            work.forget(0)
    work.give_back(parts)
    return status


cdef int _count_channels(_CountingWork work, _Observed found, tuple selecting,
                         bint histogram, bint ignore) except -1:
    """One channel after the other; returns a pq_status."""
    cdef pq_args args = work.args[0]
    cdef ptrdiff_t shape[PQ_MAX_NDIM]
    cdef ptrdiff_t strides[PQ_MAX_NDIM]
    cdef ptrdiff_t index, offset
    cdef Py_ssize_t channel
    cdef int status = PQ_OK, d
    args.ndim = 0
    args.block = NULL
    for d in range(work.args.ndim):
        if d not in selecting:
            shape[args.ndim] = work.args.shape[d]
            strides[args.ndim] = work.args.inp.strides[d]
            args.ndim += 1
    args.shape = shape
    args.inp.strides = strides
    work.start(1, histogram, ignore)
    for channel in range(found.channels):
        index, offset = channel, 0
        for d in reversed(selecting):
            offset += index % work.args.shape[d] * work.args.inp.strides[d]
            index = index // work.args.shape[d]
        args.inp.data = <char *>work.args.inp.data + offset
        with nogil:
            status = pq_histogram(work.kernels, &args, work.counts, 0, 1)
        if status != PQ_OK:
            break
        found.add(work.counts, channel)
        work.forget(0)
    work.give_back(1)
    return status


cdef bint _find_channels(const pq_kernels *kernels, Call *call, tuple selecting,
                         _Observed found) except -1:
    """Extrema and numbers of all channels at once; False where some are not finite, or
    there are none."""
    cdef ptrdiff_t strides[PQ_MAX_NDIM]
    cdef ptrdiff_t step = sizeof(double)
    cdef int d, finite = 1, status
    if found.channels == 0 or _size(&call.x) == 0:
        return True
    for d in range(call.args.ndim):
        strides[d] = 0
    for d in reversed(selecting):
        strides[d] = step
        step *= call.args.shape[d]
    call.args.lowest.data = _data(found.lowest)
    call.args.highest.data = _data(found.highest)
    call.args.lowest.strides = call.args.highest.strides = strides
    call.args.lowest.type = call.args.highest.type = PQ_F64
    call.args.lowest.swapped = call.args.highest.swapped = False
    call.args.lowest.bit_strides = call.args.highest.bit_strides = NULL
    with nogil:
        status = pq_minmax(kernels, &call.args, &finite)
    if status != PQ_OK:
        raise SystemError(f"pyquant: unexpected status {status} from the C core")
    if not finite:
        found.lowest.fill(INFINITY)
        found.highest.fill(-INFINITY)
        return False
    found.lowest += 0.0  # not -0
    found.highest += 0.0
    found.counts.fill(_size(&call.x) // found.channels)
    return True


def observed(x, axis, bint histogram, int mantissa_bits, bint ignore, threads):
    """
    What is in `x`, per index of `axis`.

    Returns its type by name, the shape of the channels, and arrays with an element for each
    of these: how many finite elements there are, NaN, infinities, the lowest, the highest;
    then the numbers of the pages that are not empty, see pq.h, and for each of these and
    each channel an array of counters.
    """
    cdef Call call
    cdef _CountingWork work = _CountingWork()
    cdef _Observed found = _Observed()
    cdef int status = PQ_OK
    _forget(&call)
    array = _real_array(x, "x")
    axis = _settled(axis, "axis")
    threads = _threads_of(threads)
    _hold_real(array, &call.x, "x")
    _set_input(&call)
    selecting = _granularity(&call, axis, None)
    call.args.block = call.block
    channels = _parameter_shape(&call, selecting)
    try:
        found.start(_prod(channels), mantissa_bits)
    except (MemoryError, ValueError, OverflowError):
        _check_shape(channels, _np.dtype(_np.float64))  # for its message
        raise MemoryError from None
    work.kernels = _active
    work.args = &call.args
    if axis is None:
        parts = 1 if threads == 1 else _parts(_size(&call.x) * call.x.itemsize, threads)
        status = _count_tensor(work, found, _size(&call.x), histogram, ignore, parts)
    elif histogram or not _find_channels(_active, &call, selecting, found):
        status = _count_channels(work, found, selecting, histogram, ignore)
    if status == PQ_ERR_NONFINITE:
        raise _nonfinite_error(&call, (1, 1))
    if status != PQ_OK:
        raise ValueError(f"x: expected an array that memory holds, got shape {array.shape}")
    return (_NAMES[<int>call.x.type], channels, found.counts, found.nans, found.infs,
            found.lowest, found.highest, *found.histogram())


def chosen(dtype, symmetric):
    """What `choose_qparams` takes these for: the type by name, and whether zero points are
    the same for all data."""
    cdef str name = _name_in(_CHOSEN, dtype, "dtype", _CHOSEN_NAMES)
    cdef pq_type code = <pq_type><int>_CHOSEN[name]
    if symmetric is None:
        return name, _is_narrow_float(code) or row_of_type(code).lowest < 0
    return name, _flag(symmetric, "symmetric", "None, True or False")


def limits_of(str name not None):
    """The lowest and the highest code of an integer type; None for narrow floats."""
    cdef pq_type code = <pq_type><int>_CHOSEN[name]
    if _is_narrow_float(code):
        return None
    return row_of_type(code).lowest, <int64_t>row_of_type(code).highest
