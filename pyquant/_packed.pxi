# Packed arrays: elements of less than a byte, several in one.


cdef object _PackedArray = None


cdef object _packed_class():
    """PackedArray, whose module imports this one."""
    global _PackedArray
    if _PackedArray is None:
        from pyquant.packed import PackedArray

        _PackedArray = PackedArray
    return _PackedArray


cdef object _dtype_said(object obj):
    """The dtype that an object says it has, or None; of packed arrays the name, which needs
    no ml_dtypes."""
    if type(obj) is not _ndarray and isinstance(obj, _packed_class()):
        return obj._name
    return getattr(obj, "dtype", None)


cdef Py_ssize_t _packed_bytes(Call *call, pq_type code) noexcept:
    cdef Py_ssize_t per_byte = 8 // pq_type_bits(code)
    return (_size(&call.x) + per_byte - 1) // per_byte


# From this size on NumPy asks for large pages, which Python does not do for bytes.
cdef enum:
    _LARGE = 1 << 22


cdef object _hold_packed_out(Call *call, object out, pq_type code):
    """Hold new memory for packed codes; returns the owner, which nobody else has."""
    cdef Py_ssize_t size = _packed_bytes(call, code)
    if out is not None:
        raise ValueError(
            f"out: expected None with packed=True, got {type(out).__name__}"
        )
    if size < _LARGE:
        data = PyBytes_FromStringAndSize(NULL, size)
    else:
        data = _empty(size, _DTYPES["uint8"])
    PyObject_GetBuffer(data, &call.out.buffer, PyBUF_SIMPLE)
    call.out.held = True
    call.out.buffer.ndim = call.x.buffer.ndim
    call.out.buffer.shape = call.x.buffer.shape
    call.out.buffer.strides = NULL  # where its elements are, `_lay_bits` says
    call.out.type = code
    call.out.swapped = False
    call.out.packed = max(1, size)
    return data


cdef object _packed(Call *call, object data, str dtype):
    """The packed array of bytes that nobody else has, and nobody can write to any more."""
    cls = _packed_class()
    made = cls.__new__(cls)
    if type(data) is not bytes:
        data.flags.writeable = False
        data = memoryview(data)
    view = _ndarray((_packed_bytes(call, call.out.type),), _DTYPES["uint8"], data)
    # The class refuses assignments; these are what its own constructor does.
    PyObject_GenericSetAttr(made, "_data", view)
    PyObject_GenericSetAttr(made, "_name", dtype)
    PyObject_GenericSetAttr(made, "_shape", _shape(&call.x))
    PyObject_GenericSetAttr(made, "_layout", "onnx")
    return made


cdef int _hold_packed(object data, tuple shape, str dtype, Array *held) except -1:
    """Hold the bytes of a packed array. The buffer is one that has its shape; where its
    elements are, `_lay_bits` says."""
    # A subclass may say anything of itself: what counts are the bytes, and these numbers.
    if type(data) is not _ndarray:
        raise TypeError(f"data: expected an array of bytes, got {type(data).__name__}")
    if not all([type(n) is int for n in shape]):
        raise TypeError(f"shape: expected integers, got {shape}")
    cdef Py_ssize_t needed = -(-_prod(shape) // packed_per_byte(dtype))
    if data.size != needed:
        raise ValueError(f"data: expected {needed} bytes, got {data.size}")
    array = _ndarray(shape, _np.uint8, data if needed else b"", 0, (0,) * len(shape))
    _hold(array, held)
    held.type = <pq_type><int>_CODES[dtype]
    held.packed = max(1, data.size)
    return 0


cdef inline void _lay_bits(Call *call, pq_array *to, ptrdiff_t *strides) noexcept:
    """Packed elements follow each other in C order."""
    cdef ptrdiff_t stride = pq_type_bits(to.type)
    cdef int d
    for d in range(call.args.ndim - 1, -1, -1):
        strides[d] = stride
        stride *= call.args.shape[d]
    to.bit_strides = strides


cdef int _run_repack(Call *call) except -1:
    cdef int status
    if _size(&call.x) == 0:
        return 0
    with nogil:
        status = pq_repack(_active, &call.args, 0, 1)
    if status != PQ_OK:
        raise SystemError(f"pyquant: unexpected status {status} from the C core")
    return 0


def pack(q):
    """See packed.pack."""
    cdef Call call
    _forget(&call)
    try:
        array = q if type(q) is _ndarray else _plain(q, "q")
        name = _dtypes.ml_name(array.dtype)
        if name not in _PACKED:
            raise TypeError(f"q: expected {', '.join(_PACKED)}, got {_describe(array)}")
        _hold(array, &call.x)
        _set_input(&call)
        data = _hold_packed_out(&call, None, call.x.type)
        _set_output(&call)
        _run_repack(&call)
        return _packed(&call, data, name)
    finally:
        _release(&call)


cdef object _unpacked(object packed, pq_type *type):
    """A byte for each element, and of what type they are."""
    cdef Call call
    _forget(&call)
    try:
        _hold_packed(packed._data, packed.shape, packed._name, &call.x)
        _set_input(&call)
        out = _empty(_shape(&call.x), _np.uint8)
        _hold(out, &call.out)
        call.out.type = type[0] = call.x.type
        _set_output(&call)
        _run_repack(&call)
        return out
    finally:
        _release(&call)


def unpack(packed):
    """See PackedArray.unpack."""
    cdef pq_type type
    dtype = _dtype_of(packed._name)
    return _unpacked(packed, &type).view(dtype)


def packed_name(dtype):
    """The name of a type that can be packed."""
    return _name_in(_PACKED, dtype, "dtype", ", ".join(_PACKED))


def packed_per_byte(str name not None):
    """Elements in a byte."""
    return 8 // pq_type_bits(<pq_type><int>_PACKED[name])
