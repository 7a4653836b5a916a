# Blocks of weights, as files have them, to numbers.


cdef class _BlockWork(_Work):
    """Shares of the blocks."""
    cdef const pq_kernels *kernels
    cdef const pq_blocks *args
    cdef int parts

    cdef int do(self, int part) noexcept nogil:
        return pq_block_decode(self.kernels, self.args, part, self.parts)


def block_rows():
    """Name, number, elements and bytes of the formats."""
    cdef int i = 0
    cdef const pq_block_row *row = row_of_blocks(0)
    rows = []
    while row != NULL:
        rows.append((row.name.decode(), row.id, row.elements, row.bytes))
        i += 1
        row = row_of_blocks(i)
    return rows


cdef int _run_blocks(const pq_kernels *kernels, const pq_blocks *args, Py_ssize_t size,
                     int parts) except -1:
    cdef _BlockWork work
    if parts == 1 and size < _NOGIL_SIZE:
        return pq_block_decode(kernels, args, 0, 1)
    work = _BlockWork()
    work.kernels, work.args, work.parts = kernels, args, parts
    return _run_work(work, parts)


cdef int _hold_blocks(Call *call, object array, tuple row) except -1:
    """Hold the bytes in place of scales, and for `x` the shape of their numbers."""
    cdef Py_ssize_t elements = row[2], nbytes = row[3], blocks
    cdef int d, last
    if not _hold(array, &call.scale) or call.scale.type != PQ_U8:
        raise TypeError(f"b: expected uint8, got {_describe(array)}")
    last = call.scale.ndim - 1
    if last < 0:
        raise ValueError("b: expected rows of bytes, got an array without dimensions")
    blocks = call.scale.shape[last] // nbytes
    if call.scale.shape[last] % nbytes:
        raise ValueError(
            f"b: expected rows of a multiple of {nbytes} bytes for {row[0]}, "
            f"got {call.scale.shape[last]}"
        )
    if blocks > <Py_ssize_t>_maxsize // elements:  # of an array that was broadcast
        raise _too_many_blocks(array)
    call.x.ndim = call.scale.ndim
    for d in range(last):
        call.x.shape[d] = call.scale.shape[d]
    call.x.shape[last] = blocks * elements
    return 0


cdef object _too_many_blocks(object array):
    return ValueError(f"b: expected an array that memory holds, got shape {array.shape}")


def decode_blocks(tuple row not None, b, dtype=None, out=None, threads=1, isa=None):
    """The numbers of blocks of a format, one of block_rows()."""
    cdef const pq_kernels *kernels = _active if isa is None else _kernels_of(isa)
    cdef Call call
    cdef pq_blocks args
    cdef pq_type type = PQ_F32
    cdef int status, parts = 1
    _forget(&call)
    array = b if Py_TYPE(b) is &PyArray_Type else _plain(b, "b")
    if dtype is not None:
        type = _type_in(_REALS, dtype, "dtype", _REAL_LIST)
    elif out is not None:
        type = PQ_NO_TYPE  # that of `out`
    threads = 1 if threads is _ONE else _threads_of(threads)
    _hold_blocks(&call, array, row)
    exact = _hold_out(&call, _exact_out(out), _NAMES[<int>type], type)
    if out is not None:
        _check_overlap(&call, exact, &call.scale, array, "b")
    args.size = sizeof(args)
    args.format = row[1]
    args.ndim = call.out.ndim
    args.shape = call.out.shape
    _set_array(&args.inp, &call.scale)
    _set_array(&args.out, &call.out)
    if threads > 1:
        parts = _parts(_size(&call.out) * call.out.itemsize, threads)
    status = _run_blocks(kernels, &args, _size(&call.out), parts)
    if status == PQ_ERR_OVERLAP:
        raise _overlapping("out", &call.out)
    if status == PQ_ERR_SHAPE:
        raise _too_many_blocks(array)
    if status != PQ_OK:
        raise SystemError(f"pyquant: unexpected status {status} from the C core")
    return exact if out is None else out
