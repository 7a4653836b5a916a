# Choose parameters by their errors.


cdef class _Search:
    """Options of `method="mse"`."""
    cdef pq_search what
    cdef Array held
    cdef object weights     # user's weights, later broadcast
    cdef object candidates

    cdef int place(self, Call *call) except -1:
        """Set the weights of each element of x."""
        if self.weights is None:
            return 0
        shape = _shape(&call.x)
        try:
            self.weights = _np.broadcast_to(self.weights, shape)
        except ValueError:
            raise ValueError(
                f"weights: expected a shape that broadcasts to {shape}, "
                f"got {self.weights.shape}"
            ) from None
        _hold_real(self.weights, &self.held, "weights")
        _set_array(&self.what.weights, &self.held)
        return 0


cdef int _check_weights(object weights) except -1:
    """Return True if all weights are finite and at least 0."""
    cdef Call call
    cdef double ends[2]
    cdef ptrdiff_t none[PQ_MAX_NDIM]
    cdef int finite = 1, status
    _forget(&call)
    ends[0], ends[1] = 0, 0
    memset(none, 0, sizeof(none))
    _hold_real(weights, &call.x, "weights")
    _set_input(&call)
    call.args.block = NULL
    call.args.lowest.data = &ends[0]
    call.args.lowest.type = PQ_F64
    call.args.lowest.strides = none
    call.args.lowest.swapped = False
    call.args.lowest.bit_strides = NULL
    call.args.highest = call.args.lowest
    call.args.highest.data = &ends[1]
    with nogil:
        status = pq_minmax(_active, &call.args, &finite)
    if status != PQ_OK or not finite or ends[0] < 0:
        got = "others" if not finite else ends[0]
        raise ValueError(f"weights: expected finite numbers from 0, got {got}")
    return 0


cdef object _candidates_of(object given):
    """Return candidates as float64, at most 1; subnormal candidates are not 0."""
    cdef pq_fpenv found = pq_fpenv_enter()
    try:
        return _checked_candidates(given)
    finally:
        pq_fpenv_leave(found)


cdef object _checked_candidates(object given):
    array = _real_array(given, "candidates")
    if array.dtype.kind not in "iuf" and _dtypes.name_of(array.dtype) not in _REALS:
        raise TypeError(f"candidates: expected numbers, got {_describe(array)}")
    candidates = _np.array(array, _np.float64, ndmin=1)
    if candidates.ndim != 1 or candidates.size == 0:
        raise ValueError(
            f"candidates: expected one dimension of numbers, got shape {candidates.shape}"
        )
    for value in candidates:
        if not 0 < value <= 1:
            raise ValueError(
                f"candidates: expected numbers above 0, at most 1, got {value}"
            )
    return candidates


cdef _Search _search_of(object method, object weights, object candidates):
    """Return the options, or `None` for "minmax"."""
    cdef _Search search
    if not isinstance(method, str):
        raise TypeError(
            f"method: expected 'minmax' or 'mse', got {type(method).__name__}"
        )
    if method == "minmax":
        for name, value in (("weights", weights), ("candidates", candidates)):
            if value is not None:
                raise ValueError(
                    f"{name}: expected None with method='minmax', "
                    f"got {type(value).__name__}"
                )
        return None
    if method != "mse":
        other = str(method) in ("entropy", "percentile")
        raise ValueError(
            f"method: expected 'minmax' or 'mse', got {_shown(method)}"
            f"{'; entropy and percentile need Observer or calibrate' if other else ''}"
        )
    search = _Search()
    memset(&search.what, 0, sizeof(search.what))
    search.what.size = sizeof(pq_search)
    if weights is not None:
        search.weights = _real_array(weights, "weights")
        _check_weights(search.weights)
    if candidates is not None:
        search.candidates = _candidates_of(candidates)
        search.what.candidates = <const double *>PyArray_DATA(
            <const PyArrayObject *>search.candidates
        )
        search.what.count = <size_t>search.candidates.size
    return search


cdef struct Searching:
    const pq_choice *choice
    const pq_search *search


cdef int _search_part(const Job *job, int part) noexcept nogil:
    cdef const Searching *by = <const Searching *>job.more
    return pq_search_params(_active, job.args, by.choice, by.search, part, job.parts)


cdef int _run_search(Call *call, const pq_choice *choice, _Search search,
                     int threads) except -1:
    """Run the search and return a pq_status."""
    cdef Searching by = Searching(choice, &search.what)
    cdef Job job = Job(&call.args, &by, 1)
    if threads != 1:
        job.parts = _parts(_size(&call.x) * call.x.itemsize, threads)
    return _execute(_search_part, &job, _size(&call.x))
