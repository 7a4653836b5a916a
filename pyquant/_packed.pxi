# Packed arrays: elements of less than a byte, several in one.


cdef class Packed:
    """What a packed array keeps: words, and how elements lie in them. Whatever a subclass
    says of itself, this is what counts."""

    cdef object _memory  # an ndarray of words, or bytes, of which one is made if asked for
    cdef readonly str _name
    cdef readonly tuple _shape
    cdef readonly tuple _how  # layout, axis, bits

    def _keep(self, data, str name not None, tuple shape not None, tuple how not None):
        """Set all of it, once."""
        _check_words(data, name, shape, how)
        with critical_section(self):
            if self._memory is not None:
                raise AttributeError(
                    "data: expected no assignment, PackedArray is immutable"
                )
            self._memory, self._name, self._shape, self._how = data, name, shape, how

    @property
    def _data(self):
        cdef bytes memory
        if type(self._memory) is not bytes:
            return self._memory
        memory = self._memory
        return _ndarray((len(memory),), _DTYPES["uint8"], memory)


cdef object _PackedArray = None
cdef object _packed_module = None


cdef int _find_packed() except -1:
    """The module imports this one."""
    global _PackedArray, _packed_module
    from pyquant import packed

    _packed_module = packed
    _PackedArray = packed.PackedArray
    return 0


cdef object _layouts():
    """The module that knows them."""
    if _packed_module is None:
        _find_packed()
    return _packed_module


cdef int _check_words(object data, str name, tuple shape, tuple how) except -1:
    """Refuse what would have to be read beyond its end."""
    if type(data) is not _ndarray:
        raise TypeError(f"data: expected an array of bytes, got {type(data).__name__}")
    if not data.flags.c_contiguous:
        raise ValueError("data: expected contiguous words, got a strided array")
    if not all([type(n) is int for n in shape]):
        raise TypeError(f"shape: expected integers, got {shape}")
    _layouts().extents_of(shape)
    layout, axis, bits = how
    if type(layout) is str and layout == "onnx":
        if name not in _PACKED or bits != pq_type_bits(<pq_type><int>_PACKED[name]):
            raise TypeError(f"dtype: expected {', '.join(_PACKED)}, got {name}")
        if axis is not None:
            raise ValueError(f"axis: expected None for layout 'onnx', got {axis!r}")
        words, itemsize = (-(-_prod(shape) * bits // 8),), 1
    else:
        words, itemsize = _layouts().words_said(name, shape, layout, axis, bits)
    if data.shape != words or data.itemsize != itemsize:
        raise ValueError(
            f"data: expected shape {words} of {itemsize} bytes each, "
            f"got {data.shape} of {data.itemsize}"
        )
    return 0


cdef object _dtype_said(object obj):
    """The dtype that an object says it has, or None; of packed arrays the name, which needs
    no ml_dtypes."""
    if isinstance(obj, Packed):
        return (<Packed>obj)._name
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


cdef object _packed(tuple shape, object data, str dtype, tuple how):
    """The packed array of bytes that nobody else has, and nobody can write to any more."""
    cdef Packed made
    if _PackedArray is None:
        _find_packed()
    made = <Packed>Packed.__new__(_PackedArray)
    if type(data) is not bytes:
        data.flags.writeable = False
        data = _ndarray(data.shape, data.dtype, memoryview(data))
    made._memory = data
    made._name = dtype
    made._shape = shape
    made._how = how
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


cdef int _hold_packed(Call *call, Packed packed) except -1:
    """Read a packed array as input. Where its elements are, `_set_input` says."""
    cdef tuple shape = packed._shape
    cdef object memory = packed._memory
    cdef int d
    if memory is None:
        raise TypeError("q: expected a packed array, got one that was never made")
    if type(memory) is bytes:
        call.x.data = PyBytes_AS_STRING(memory)
        call.x.packed = len(<bytes>memory)
    else:
        call.x.data = <char *>PyArray_DATA(<const PyArrayObject *>memory)
        call.x.packed = memory.nbytes
    if packed._how[1] is not None:
        call.x_words = _set_layout(&call.x_layout, packed._how, shape)
        call.args.in_layout = &call.x_layout
    call.x.packed = max(1, call.x.packed)
    call.x.ndim = len(shape)
    for d in range(call.x.ndim):
        call.x.shape[d] = shape[d]
        call.x.strides[d] = 0
    call.x.itemsize = 1
    call.x.held = call.x.readonly = True
    call.x.type = <pq_type><int>_CODES[packed._name]
    call.x.swapped = False
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


cdef tuple _WIDTHS = tuple(range(1, 9))
cdef dict _ONNX = {bits: ("onnx", None, bits) for bits in (2, 4)}
cdef dict _OF_WIDTHS = {}  # widths -> the types that have them, and these as a text


cdef tuple _types_of(tuple widths):
    if widths not in _OF_WIDTHS:
        types = {
            name: code for name, code in _CODES.items()
            if pq_type_bits(<pq_type><int>code) in widths
        }
        _OF_WIDTHS[widths] = types, ", ".join(types)
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
    types, some = _types_of(row.widths if bits is None else _WIDTHS)
    if name not in types:
        raise TypeError(f"q: expected {some}, got {_describe(array)}")
    name, width = _layouts().element_of(name, bits, row)
    how = (row.name, _layouts().axis_of(axis, array.ndim, row), width)
    _hold(array, &call.x)
    if width < pq_type_bits(call.x.type):
        _check_fit(array, name, width)
    call.x.type = <pq_type><int>_CODES[name]
    _set_input(&call)
    data = _hold_packed_out(&call, None, call.x.type, how)
    _set_output(&call)
    _run_repack(&call)
    return _packed(_shape(&call.x), data, name, how)


def repack(Packed packed not None, layout, axis):
    """See PackedArray.repack."""
    cdef Call call
    cdef tuple how
    cdef str name = packed._name
    _forget(&call)
    row = _layouts().layout_named(layout)
    _hold_packed(&call, packed)
    _, _, bits = packed._how
    if bits not in row.widths:
        raise ValueError(
            f"layout: expected one that has elements of {bits} bits, got {row.name!r}"
        )
    _set_input(&call)
    how = (row.name, _layouts().axis_of(axis, call.args.ndim, row), bits)
    data = _hold_packed_out(&call, None, call.x.type, how)
    _set_output(&call)
    _run_repack(&call)
    return _packed(_shape(&call.x), data, name, how)


cdef object _unpacked(Packed packed, pq_type *type):
    """A byte for each element, and of what type they are."""
    cdef Call call
    _forget(&call)
    _hold_packed(&call, packed)
    _set_input(&call)
    out = _new_like(&call.x, PQ_U8)
    _hold(out, &call.out)
    call.out.type = type[0] = call.x.type
    _set_output(&call)
    _run_repack(&call)
    return out


def unpack(Packed packed not None):
    """See PackedArray.unpack."""
    cdef pq_type type
    found = _unpacked(packed, &type)
    return found.view(_dtype_of(packed._name))


def packed_name(dtype, tuple widths not None):
    """The name of a type of one of these widths, and its width."""
    types, some = _types_of(widths)
    name = _name_in(types, dtype, "dtype", some)
    return name, pq_type_bits(<pq_type><int>types[name])
