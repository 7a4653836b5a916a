# Packed arrays: elements of less than a byte, several in one.


cdef object _PackedArray = None


cdef object _packed_module = None


cdef object _packed_class():
    """PackedArray, whose module imports this one."""
    global _PackedArray, _packed_module
    if _PackedArray is None:
        from pyquant import packed

        _packed_module = packed
        _PackedArray = packed.PackedArray
    return _PackedArray


cdef object _layouts():
    """The module that knows them."""
    _packed_class()
    return _packed_module


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


cdef object _hold_packed_out(Call *call, object out, pq_type code, tuple how):
    """Hold new memory for packed codes; returns the owner, which nobody else has."""
    cdef Py_ssize_t size = _packed_bytes(call, code)
    if out is not None:
        given = "packed=True" if how[1] is None else "packed codes"
        raise ValueError(f"out: expected None with {given}, got {type(out).__name__}")
    if how[1] is not None:
        shape = _shape(&call.x)
        call.out_words = _set_layout(&call.out_layout, how, shape)
        call.args.out_layout = &call.out_layout
        row = _layouts().LAYOUTS[how[0]]
        # Zeros: nothing is written to bits that no element has.
        data = _np.zeros(row.shape(shape, how[1], how[2]), row.words[0])
        size = data.nbytes
    elif size < _LARGE:
        data = PyBytes_FromStringAndSize(NULL, size)
    else:
        data = _np.empty(size, _DTYPES["uint8"])
    if type(data) is bytes:
        call.out.data = PyBytes_AS_STRING(data)
    else:
        call.out.data = <char *>PyArray_DATA(<const PyArrayObject *>data)
    # Where its elements are, `_set_output` says.
    call.out.held = True
    call.out.ndim = call.x.ndim
    memcpy(call.out.shape, call.x.shape, call.x.ndim * sizeof(call.x.shape[0]))
    memset(call.out.strides, 0, call.x.ndim * sizeof(call.x.shape[0]))
    call.out.itemsize = 1
    call.out.type = code
    call.out.swapped = False
    call.out.packed = max(1, size)
    return data


cdef object _packed(Call *call, object data, str dtype, tuple how):
    """The packed array of bytes that nobody else has, and nobody can write to any more."""
    cls = _packed_class()
    made = cls.__new__(cls)
    if type(data) is bytes:
        view = _ndarray((_packed_bytes(call, call.out.type),), _DTYPES["uint8"], data)
    else:
        data.flags.writeable = False
        view = _ndarray(data.shape, data.dtype, memoryview(data))
    # The class refuses assignments; these are what its own constructor does.
    PyObject_GenericSetAttr(made, "_data", view)
    PyObject_GenericSetAttr(made, "_name", dtype)
    PyObject_GenericSetAttr(made, "_shape", _shape(&call.x))
    PyObject_GenericSetAttr(made, "_how", how)
    return made


cdef Py_ssize_t _set_layout(pq_layout *layout, tuple how, tuple shape) except -1:
    """The layout of an array that is packed along an axis; returns the words along it."""
    row = _layouts().LAYOUTS[how[0]]
    layout.size = sizeof(pq_layout)
    layout.axis = how[1]
    layout.bits = how[2]
    layout.word_bits = row.word_bits
    layout.group = len(row.order)
    layout.order = <const unsigned char *><const char *>row.order if row.order else NULL
    return row.length(shape[layout.axis], layout.bits)


cdef int _hold_packed(Call *call, object data, tuple shape, str dtype,
                      tuple how) except -1:
    """Hold the bytes of a packed array as input. The buffer is one that has its shape;
    where its elements are, `_set_input` says."""
    # A subclass may say anything of itself: what counts are the bytes, and these numbers.
    if type(data) is not _ndarray:
        raise TypeError(f"data: expected an array of bytes, got {type(data).__name__}")
    if not all([type(n) is int for n in shape]):
        raise TypeError(f"shape: expected integers, got {shape}")
    layout, axis, bits = how
    if type(layout) is str and layout == "onnx":
        if dtype not in _PACKED:
            raise TypeError(f"dtype: expected {', '.join(_PACKED)}, got {dtype}")
        needed = -(-_prod(shape) * pq_type_bits(<pq_type><int>_PACKED[dtype]) // 8)
        if data.size != needed:
            raise ValueError(f"data: expected {needed} bytes, got {data.size}")
    else:
        words, itemsize, how = _layouts().words_said(dtype, shape, layout, axis, bits)
        if data.shape != words or data.itemsize != itemsize:
            raise ValueError(
                f"data: expected shape {words} of {itemsize} bytes each, "
                f"got {data.shape} of {data.itemsize}"
            )
        call.x_words = _set_layout(&call.x_layout, how, shape)
        call.args.in_layout = &call.x_layout
    array = _ndarray(shape, _np.uint8, data if data.size else b"", 0, (0,) * len(shape))
    _hold(array, &call.x)
    call.x.type = <pq_type><int>_CODES[dtype]
    call.x.packed = max(1, data.nbytes)
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


cdef dict _ONNX = {bits: ("onnx", None, bits) for bits in (2, 4)}
cdef dict _OF_WIDTHS = {}  # widths -> the types that have them


cdef dict _types_of(tuple widths):
    if widths not in _OF_WIDTHS:
        _OF_WIDTHS[widths] = {
            name: code for name, code in _CODES.items()
            if pq_type_bits(<pq_type><int>code) in widths
        }
    return _OF_WIDTHS[widths]


cdef enum:
    _BY_FLAG = 1
    _BY_LAYOUT = 2


cdef inline int _packs(object packed) except -1:
    """Whether quantize packs, and who says how."""
    if packed is False:
        return 0
    return _BY_FLAG if packed is True else _packs_otherwise(packed)


cdef int _packs_otherwise(object packed) except -1:
    if type(packed) is not _np.bool_:
        return _BY_LAYOUT
    return _BY_FLAG if packed else 0


cdef tuple _how(tuple asked, str name, int ndim):
    """Layout, axis and bits of codes that are asked for as `pack` is, or by a flag."""
    if asked is None:
        return _ONNX[pq_type_bits(<pq_type><int>_CODES[name])]
    row, axis, bits = asked
    if bits is None:
        bits = pq_type_bits(<pq_type><int>_CODES[name])
    along = _layouts().axis_of(axis, ndim, row, _layouts().IN_PACKED)
    return row.name, along, _index(bits)


cdef int _check_fit(object array, str name, int bits) except -1:
    """Refuse codes that need more bits."""
    cdef int64_t lo = 0, hi = (1 << bits) - 1
    if name != "uint8":
        lo, hi = _LIMITS[name]
    if array.size == 0 or (lo <= array.min() and array.max() <= hi):
        return 0
    at = array.argmin() if array.min() < lo else array.argmax()
    where = tuple([int(i) for i in _np.unravel_index(at, array.shape)])
    raise ValueError(
        f"q: expected integers from {lo} to {hi} for {bits} bits, "
        f"got {array[where]} at {where}"
    )


def pack(q, layout, axis, bits):
    """See packed.pack."""
    cdef Call call
    cdef str name
    cdef tuple how
    _forget(&call)
    row = _layouts().layout_named(layout)
    array = q if type(q) is _ndarray else _plain(q, "q")
    name = _dtypes.name_of(array.dtype)
    types = _types_of(row.widths if bits is None else tuple(range(1, 9)))
    if name not in types:
        raise TypeError(f"q: expected {', '.join(types)}, got {_describe(array)}")
    name, width = _layouts().element_of(name, bits, row)
    how = (row.name, _layouts().axis_of(axis, array.ndim, row), width)
    _hold(array, &call.x)
    if width < pq_type_bits(call.x.type):
        _check_fit(array, name, width)
    call.x.type = <pq_type><int>_CODES[name]
    _set_input(&call)
    codes = _hold_packed_out(&call, None, call.x.type, how)
    _set_output(&call)
    _run_repack(&call)
    return _packed(&call, codes, name, how)


def repack(packed, layout, axis):
    """See PackedArray.repack."""
    cdef Call call
    cdef tuple how
    cdef str name = packed._name
    cdef object data = packed._data
    _forget(&call)
    row = _layouts().layout_named(layout)
    _, _, bits = packed._how
    if bits not in row.widths:
        raise ValueError(
            f"layout: expected one that has elements of {bits} bits, got {row.name!r}"
        )
    _hold_packed(&call, data, packed.shape, name, packed._how)
    _set_input(&call)
    how = (row.name, _layouts().axis_of(axis, call.args.ndim, row), bits)
    codes = _hold_packed_out(&call, None, call.x.type, how)
    _set_output(&call)
    _run_repack(&call)
    return _packed(&call, codes, name, how)


cdef object _unpacked(object packed, pq_type *type):
    """A byte for each element, and of what type they are."""
    cdef Call call
    cdef object data = packed._data
    _forget(&call)
    _hold_packed(&call, data, packed.shape, packed._name, packed._how)
    _set_input(&call)
    out = _new_like(&call.x, _DTYPES["uint8"])
    _hold(out, &call.out)
    call.out.type = type[0] = call.x.type
    _set_output(&call)
    _run_repack(&call)
    return out


def unpack(packed):
    """See PackedArray.unpack."""
    cdef pq_type type
    dtype = _dtype_of(packed._name)
    return _unpacked(packed, &type).view(dtype)


def packed_name(dtype, tuple widths not None):
    """The name of a type of one of these widths, and its width."""
    types = _types_of(widths)
    name = _name_in(types, dtype, "dtype", ", ".join(types))
    return name, pq_type_bits(<pq_type><int>types[name])
