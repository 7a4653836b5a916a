# Find the extrema of an array, and count the elements for each value of the upper 16 bits.

from cpython.buffer cimport PyBUF_READ
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree, PyMem_RawRealloc
from cpython.memoryview cimport PyMemoryView_FromMemory


cdef class _Counters:
    """A set of counters for the C core. Between calls, each counter is zero."""
    cdef uint32_t *data

    def __cinit__(self):
        self.data = <uint32_t *>PyMem_RawCalloc(PQ_COUNTERS, sizeof(uint32_t))
        if self.data == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_RawFree(self.data)


# At most one set of counters is kept between calls, because a new set needs a megabyte of
# zeros. To clear a megabyte takes longer than to count a few thousand numbers. A call
# removes the set from the list while the call uses the set.
cdef list _kept_counters = []


cdef _Counters _take_counters():
    try:
        return _kept_counters.pop()
    except IndexError:
        return _Counters()


cdef int _count_part(const Job *job, int part) noexcept nogil:
    return pq_histogram(
        _active, job.args, &(<pq_counts *>job.more)[part], part, job.parts
    )


cdef class _PartCounts:
    """For each part of an array, a pq_counts and a set of counters."""
    cdef list memory
    cdef pq_counts *counts  # one for each element of `memory`

    def __cinit__(self):
        self.memory = []

    def __dealloc__(self):
        PyMem_RawFree(self.counts)

    cdef int start(self, int many, bint histogram, bint ignore) except -1:
        """Allocate the counts and counters of `many` parts."""
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
        """Reset all counters to zero, and keep one set for the next call."""
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


cdef class _Observed:
    """Statistics of one array: the result of `observed`."""
    cdef object counts, nans, infs, lowest, highest  # for each channel
    cdef Py_ssize_t channels
    cdef int mantissa_bits
    cdef object pages, table  # ascending numbers of nonempty pages; counters of each page

    cdef int start(self, Py_ssize_t channels, int mantissa_bits, int parts) except -1:
        """Allocate the statistics, with an element for each part and channel."""
        cdef tuple shape = (parts, channels)
        zeros, uint64 = _np.zeros, _DTYPES["uint64"]
        self.channels = channels
        self.mantissa_bits = mantissa_bits
        self.counts, self.nans, self.infs = [zeros(shape, uint64) for _ in range(3)]
        self.lowest, self.highest = zeros(shape), zeros(shape)
        self.lowest.fill(INFINITY)  # faster than full()
        self.highest.fill(-INFINITY)
        self.pages = zeros(0, _DTYPES["uint16"])
        self.table = zeros((0, channels, 1 << mantissa_bits), uint64)
        return 0

    cdef tuple found(self):
        """Combine the parts, and return the statistics of each channel."""
        cdef tuple all_parts = (
            self.counts, self.nans, self.infs, self.lowest, self.highest
        )
        if len(self.counts) == 1:  # the common case
            numbers = tuple([found[0] for found in all_parts])
        else:
            numbers = (
                *[found.sum(0) for found in all_parts[:3]],
                self.lowest.min(0), self.highest.max(0),
            )
        return (*numbers, self.pages, self.table)


# ---- one channel ----


cdef tuple _taken(pq_counts *found, int bits):
    """Return the ascending numbers of the nonempty pages of a part, and the counters of
    each page. Reset the part's counters to zero."""
    cdef uint64_t[PQ_PAGE] page
    cdef uint64_t *to
    cdef int k
    pages = _np.array([
        k for k in range(PQ_PAGES) if found.pages[k // 64] >> (k % 64) & 1
    ], _np.uint16)
    table = _np.zeros((len(pages), 1 << bits), _np.uint64)
    to = <uint64_t *>_data(table)
    while pq_histogram_take(found, page) >= 0:
        for k in range(PQ_PAGE):
            to[k >> (7 - bits)] += page[k]
        to += 1 << bits
    return pages, table


cdef int _add_counts(_Observed to, pq_counts *found, list tables) except -1:
    """Add the counts of a part to the statistics. Append the pages and counters of the part
    to `tables`."""
    cdef double *lowest = <double *>_data(to.lowest)
    cdef double *highest = <double *>_data(to.highest)
    (<uint64_t *>_data(to.counts))[0] += found.count
    (<uint64_t *>_data(to.nans))[0] += found.nan
    (<uint64_t *>_data(to.infs))[0] += found.inf
    lowest[0] = min(lowest[0], found.lowest)
    highest[0] = max(highest[0], found.highest)
    if found.counters != NULL:
        tables.append(_taken(found, to.mantissa_bits))
    return 0


cdef int _add_tables(_Observed to, list tables) except -1:
    """Store the sums of the counters of all parts in the statistics."""
    if len(tables) == 1:
        pages, table = tables[0]
    else:
        pages = _np.unique(_np.concatenate([some for some, _ in tables]))
        table = _np.zeros((len(pages), 1 << to.mantissa_bits), _np.uint64)
        for some, counts in tables:
            table[_np.searchsorted(pages, some)] += counts
    to.pages, to.table = pages, table[:, None]
    return 0


cdef int _count_tensor(const pq_args *args, _Observed found, Py_ssize_t size,
                       bint histogram, bint ignore, int parts) except -1:
    """Count the elements of the complete array, and return a pq_status. If 32-bit counters
    could overflow, divide the array into more parts, and count the parts one after another
    with one set of counters."""
    cdef Py_ssize_t shares = size // (1 << 31) + 1 if histogram else 1
    cdef int status = PQ_OK, i
    cdef _PartCounts to = _PartCounts()
    cdef list tables = []
    cdef Job job = Job(args, NULL, parts)
    to.start(parts if shares <= parts else 1, histogram, ignore)
    job.more = to.counts
    if shares <= parts:
        status = _execute(_count_part, &job, size)
        for i in range(parts if status == PQ_OK else 0):
            _add_counts(found, &to.counts[i], tables)
    else:
        job.parts = <int>shares
        for i in range(job.parts):
            with nogil:
                status = pq_histogram(_active, job.args, to.counts, i, job.parts)
            if status != PQ_OK:
                break
            _add_counts(found, to.counts, tables)
            to.forget(0)
    to.give_back(parts if shares <= parts else 1)
    if tables:
        _add_tables(found, tables)
    return status


# ---- many channels ----

cdef enum:
    _NO_MEMORY = 1 << 16  # not a pq_status
    _FIRST_ROWS = 32
    _FIRST_BYTES = 1 << 22
    _LANES = 8  # number of copies of each counter, for an array of few channels


cdef int _more_rows(pq_channel_counts *to) noexcept nogil:
    """Double the number of rows of the table. Add at most _FIRST_BYTES bytes, but at least
    one row."""
    cdef size_t row = to.stride * (sizeof(uint32_t) if to.is_32_bit else sizeof(uint16_t))
    cdef size_t more = max(to.room, <int>_FIRST_ROWS)
    cdef int room
    cdef void *table
    more = max(<size_t>1, min(more, _FIRST_BYTES // max(row, <size_t>1)))
    room = min(<int>PQ_PAGES, to.room + <int>more)
    if to.table == NULL:
        table = PyMem_RawCalloc(room, row)
    else:  # reallocation can remap large memory without a copy
        table = PyMem_RawRealloc(to.table, room * row)
        if table != NULL:
            memset(<char *>table + to.room * row, 0, (room - to.room) * row)
    if table == NULL:
        return _NO_MEMORY
    to.table = table
    to.room = room
    return PQ_OK


cdef int _channels_part(const Job *job, int part) noexcept nogil:
    """Count the elements of one part of an array, with the counters of this part."""
    cdef pq_channel_counts *to = &(<pq_channel_counts *>job.more)[part]
    cdef int status = pq_count_channels(_active, job.args, to, part, job.parts)
    while status == PQ_OK and to.full:
        status = _more_rows(to)
        if status == PQ_OK:
            status = pq_count_channels(_active, job.args, to, part, job.parts)
    return status


cdef class _ChannelCounts:
    """The statistics of all channels, separately for each part of an array."""
    cdef int parts
    cdef pq_channel_counts *counts  # for each part

    def __dealloc__(self):
        cdef int i
        for i in range(self.parts if self.counts != NULL else 0):
            PyMem_RawFree(self.counts[i].table)
        PyMem_RawFree(self.counts)

    cdef int start(self, _Observed found, Py_ssize_t size, bint histogram,
                   bint ignore) except -1:
        """Allocate counters for channels of `size` elements."""
        cdef int i
        cdef Py_ssize_t n = found.channels, row = n << found.mantissa_bits
        cdef pq_channel_counts *to
        self.counts = <pq_channel_counts *>PyMem_RawCalloc(
            self.parts, sizeof(pq_channel_counts)
        )
        if self.counts == NULL:
            raise MemoryError
        for i in range(self.parts):
            to = &self.counts[i]
            to.ignore_nonfinite = ignore
            to.mantissa_bits = found.mantissa_bits
            to.is_32_bit = size > UINT16_MAX
            to.channels = n
            to.lanes = _LANES if n < _LANES else 1
            to.count = (<uint64_t *>_data(found.counts)) + i * n
            to.nan = (<uint64_t *>_data(found.nans)) + i * n
            to.inf = (<uint64_t *>_data(found.infs)) + i * n
            to.lowest = (<double *>_data(found.lowest)) + i * n
            to.highest = (<double *>_data(found.highest)) + i * n
            # If the size of a row were a multiple of a memory page, all rows would compete
            # for a few cache sets.
            to.stride = to.lanes * row + (PQ_PAGE if to.lanes * row % 1024 == 0 else 0)
            if histogram and _more_rows(to) != PQ_OK:
                raise MemoryError
        return 0

    cdef int give(self, _Observed found, Py_ssize_t size) except -1:
        """Store the sums of the counters of all parts in the statistics."""
        cdef int i, r
        cdef pq_channel_counts *part
        cdef list parts = []
        from pyquant.observe import joined

        for i in range(self.parts):
            part = &self.counts[i]
            memory = PyMemoryView_FromMemory(
                <char *>part.table, part.rows * part.stride * (4 if part.is_32_bit else 2),
                PyBUF_READ
            )
            pages = [part.pages[r] for r in range(part.rows)]
            parts.append((memory, pages, part.stride, part.lanes))
        found.pages, found.table = joined(
            parts, size, found.channels, 1 << found.mantissa_bits
        )
        return 0


cdef int _count_channels(Call *call, _Observed found, int parts, bint histogram,
                         bint ignore) except -1:
    """Count the elements of all channels in the order of memory, and return a pq_status."""
    cdef _ChannelCounts to = _ChannelCounts()
    cdef Job job = Job(&call.args, NULL, parts)
    cdef Py_ssize_t size = _size(&call.x) // found.channels
    cdef int status
    to.parts = parts
    to.start(found, size, histogram, ignore)
    job.more = to.counts
    status = _execute(_channels_part, &job, _size(&call.x))
    if status == _NO_MEMORY:
        raise MemoryError
    if status == PQ_OK and histogram:
        to.give(found, size)
    return status


cdef bint _find_channels(Call *call, _Observed found) except -1:
    """Find extrema and counts without histograms. Return False if a value is not finite."""
    cdef int finite = 1, status
    with nogil:
        status = pq_minmax(_active, &call.args, &finite)
    if status != PQ_OK:
        _raise(status, NULL, &call.x, "x")
    if not finite:
        found.lowest.fill(INFINITY)
        found.highest.fill(-INFINITY)
        return False
    found.lowest += 0.0  # excludes -0
    found.highest += 0.0
    found.counts[0] = _size(&call.x) // found.channels  # for any number of parts
    return True


def observed(x, axis, bint histogram, int mantissa_bits, bint ignore, threads, /):
    """Return the statistics of `x` for each index of `axis`.

    The result is a tuple. The first items are the name of the type and the shape of the
    channels. The next items are arrays with an element for each channel: the number of
    finite elements, of NaN and of infinities, and the lowest and the highest finite
    element. The last items are the numbers of nonempty pages (see pq.h) and the counters of
    each page and channel.
    """
    cdef Call call
    cdef ptrdiff_t strides[PQ_MAX_NDIM]
    cdef _Observed found = _Observed()
    cdef int status = PQ_OK, parts
    _forget(&call)
    array = _real_array(x, "x")
    axis = integers(axis, "axis")
    threads = _threads_of(threads)
    _hold_real(array, &call.x, "x")
    _set_input(&call)
    selecting = _granularity(&call, axis, None)
    call.args.block = call.block
    channels = _parameter_shape(&call, selecting)
    parts = _parts(_size(&call.x) * call.x.itemsize, threads)
    if axis is not None:  # so that no 32-bit counter of a part overflows
        parts = max(parts, <int>(_size(&call.x) // max(1, _prod(channels)) >> 31) + 1)
    try:
        found.start(_prod(channels), mantissa_bits, 1 if axis is None else parts)
    except (MemoryError, ValueError, OverflowError):
        _check_shape(channels, _np.dtype(_np.float64))  # raises the message
        raise MemoryError from None
    if axis is None:
        status = _count_tensor(&call.args, found, _size(&call.x), histogram, ignore, parts)
    elif found.channels != 0 and _size(&call.x) != 0:
        if histogram:
            from pyquant.observe import observed_apart

            each = observed_apart(
                observed, array, selecting, parts, mantissa_bits, ignore, threads
            )
            if each is not None:
                return (_NAMES[<int>call.x.type], channels, *each)
        _place_groups(&call, selecting, sizeof(double), strides)
        _set_ends(&call.args, <double *>_data(found.lowest),
                  <double *>_data(found.highest), strides)
        if histogram or not _find_channels(&call, found):
            status = _count_channels(&call, found, parts, histogram, ignore)
    if status == PQ_ERR_NONFINITE:
        raise _nonfinite_error(&call, (1, 1))
    if status != PQ_OK:
        _raise(status, NULL, &call.x, "x")
    return (_NAMES[<int>call.x.type], channels, *found.found())


def chosen(dtype, symmetric, /):
    """Return the name of the quantized type, and True if the parameters are symmetric."""
    cdef str name = _name_in(_CHOSEN, dtype, "dtype", _CHOSEN_NAMES)
    cdef pq_type code = <pq_type><int>_CHOSEN[name]
    if symmetric is None:
        return name, _is_narrow_float(code) or row_of_type(code).lowest < 0
    return name, _flag(symmetric, "symmetric", "None, True or False")


# ---- errors between two arrays ----

# struct pq_error.
cdef tuple _ERROR_SUMS = ("xx", "yy", "xy", "e", "ee", "most")
cdef tuple _ERROR_COUNTS = (
    "index", "count", "nan", "inf", "exponent", "low", "high", "bad_scales"
)
cdef object _ERROR = _np.dtype(
    [(name, _np.float64) for name in _ERROR_SUMS]
    + [(name, _np.int64) for name in _ERROR_COUNTS]
)


cdef struct Measuring:
    const unsigned char *kept
    pq_type code  # if PQ_NO_TYPE, compare the input with call.args.out
    pq_error *errors


cdef int _measure_part(const Job *job, int part) noexcept nogil:
    """Measure the errors of one part of the array, on one thread."""
    cdef const Measuring *by = <const Measuring *>job.more
    if by.code != PQ_NO_TYPE:
        return pq_measure_params(_active, job.args, by.code, by.kept, by.errors, part,
                                 job.parts)
    return pq_measure(_active, job.args, by.kept, by.errors, part, job.parts)


cdef tuple _find_errors(Call *call, tuple selecting, pq_type code, int threads):
    """Measure errors for each index of the axes `selecting`, and return errors and axes. If
    `code` is PQ_NO_TYPE, compare the input with call.args.out, else with the dequantized
    codes of the type `code`."""
    cdef unsigned char kept[PQ_MAX_NDIM]
    cdef ptrdiff_t count = 1, size = 1, chunks, g, c
    cdef int d, status
    cdef pq_error *errors
    cdef pq_error *totals
    cdef Measuring by
    for d in range(call.args.ndim):
        kept[d] = d in selecting
        if kept[d]:
            count *= call.args.shape[d]
        else:
            size *= call.args.shape[d]
    chunks = pq_measure_chunks(size)
    result = _np.empty(tuple([call.args.shape[d] for d in selecting]), _ERROR)
    found = result if chunks == 1 else _np.empty((count, chunks), _ERROR)
    errors = <pq_error *>_data(found)
    totals = <pq_error *>_data(result)
    by = Measuring(&kept[0], code, errors)
    status = _run_threads(_measure_part, &call.args, &by, count * size,
                          2 * call.x.itemsize, threads)
    if status != PQ_OK:
        _raise(status, NULL, &call.x, "x")
    for g in range(count if chunks > 1 else 0):
        totals[g] = errors[g * chunks]
        for c in range(1, chunks):
            pq_add_error(&totals[g], &errors[g * chunks + c])
    return result, selecting


def measure(x, y, axis=None, threads=1):
    """Return the errors of `y` against `x` for each index of `axis`, and the ascending
    axes."""
    cdef Call call
    _forget(&call)
    array, other = _real_array(x, "x"), _real_array(y, "y")
    axis = integers(axis, "axis")
    threads = _threads_of(threads)
    _hold_real(array, &call.x, "x")
    _hold_real(other, &call.scale, "y")
    if _shape(&call.scale) != _shape(&call.x):
        raise ValueError(
            f"y: expected shape {_shape(&call.x)}, got {_shape(&call.scale)}"
        )
    _set_input(&call)
    _set_array(&call.args.out, &call.scale)
    selecting = _granularity(&call, axis, None)
    call.args.block = NULL
    return _find_errors(&call, selecting, PQ_NO_TYPE, threads)


def measure_params(Calls params not None, x, axis=None, threads=1, /):
    """Measure the error of quantizing `x` with given parameters."""
    cdef Call call
    _forget(&call)
    array = _real_array(x, "x")
    axis = integers(axis, "axis")
    threads = _threads_of(threads)
    _hold_real(array, &call.x, "x")
    _set_input(&call)
    selecting = _granularity(&call, axis, None)
    kept = _hold_params(&call, params, True, b"x")
    return _find_errors(&call, selecting, <pq_type><int>_CODES[params._name], threads)


def add_errors(first, second, /):
    """Add two arrays of pq_error, element by element."""
    cdef ptrdiff_t i
    cdef pq_error *sums
    cdef const pq_error *added
    total = _np.array(first, _ERROR, order="C")
    other = _np.ascontiguousarray(second, _ERROR)
    sums = <pq_error *>_data(total)
    added = <const pq_error *>_data(other)
    for i in range(<ptrdiff_t>total.size):
        pq_add_error(&sums[i], &added[i])
    return total
