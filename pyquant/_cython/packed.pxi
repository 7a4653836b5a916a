# Layouts of packed codes, and the state of packed arrays.


# ---- layouts ----


@final
cdef class LayoutRow:
    """A row of the table of layouts.

    The codes along one axis form a stream of bits, which begins at the lowest bit of the
    first word. A group is ``len(order)`` consecutive codes. Code i of a group is at
    position ``order[i]`` of the group. If ``order`` is empty, the codes stay in ascending
    order.
    """

    cdef readonly str name
    cdef readonly tuple widths   # Supported widths of a code, in bits.
    cdef readonly tuple words    # Supported types of words. New arrays use the first.
    cdef readonly bytes order    # Positions of the codes of a group.
    cdef readonly bint flat      # True if the stream has all elements in C order.
    cdef readonly int word_bits  # Width of a word, in bits.
    cdef int group               # Number of codes of a group.
    cdef dict types              # The pq_type of each type of codes, by name.
    cdef str some                # The names in `types`, for errors.

    # __cinit__ runs once for each object, while a caller could repeat __init__.
    def __cinit__(self, str name not None, tuple widths not None, tuple words not None,
                  bytes order not None=b"", bint flat=False):
        first, *_ = words
        self.name = name
        self.widths = widths
        self.words = tuple([_np.dtype(word) for word in words])
        self.order = order
        self.flat = flat
        self.word_bits = 8 * _np.dtype(first).itemsize
        self.group = max(1, len(order))
        self.types = {
            name: code for name, code in _CODES.items()
            if pq_type_bits(<pq_type><int>code) in widths
        }
        if widths == (24,):  # the layout stores 24 bits of an int32
            self.types = {"int32": _CODES["int32"]}
        self.some = ", ".join(self.types)

    cpdef Py_ssize_t length(self, Py_ssize_t codes, int bits) noexcept:
        """Return the number of words for a number of codes, rounded up to complete groups.
        """
        cdef Py_ssize_t groups = codes, all_bits
        if self.group > 1:  # a group of one code needs no division
            groups = codes // self.group + (codes % self.group != 0)
        all_bits = groups * self.group * bits
        return all_bits // self.word_bits + (all_bits % self.word_bits != 0)

    cpdef tuple shape(self, tuple extents, object axis, int bits):
        """Return the shape of the words for codes of the shape `extents`."""
        if axis is None:
            return (self.length(_prod(extents), bits),)
        words = self.length(extents[axis], bits)
        return (*extents[:axis], words, *extents[axis + 1:])


# The row of each layout, by name.
cdef dict _LAYOUTS = {row.name: row for row in (
    LayoutRow("onnx", (2, 4), ("<u1",), flat=True),
    LayoutRow("words", (1, 2, 3, 4, 5, 6, 7, 8), ("<i4", "<u4")),
    LayoutRow("awq", (4,), ("<i4", "<u4"), bytes((0, 4, 1, 5, 2, 6, 3, 7))),
    LayoutRow("halves", (4,), ("<u1",), bytes([i % 16 * 2 + i // 16 for i in range(32)])),
    LayoutRow("high-first", (4,), ("<u1",), bytes((1, 0))),
    LayoutRow("packbits", (1,), ("<u1",), bytes(range(7, -1, -1))),
    LayoutRow("int24", (24,), ("<u1",)),
)}
cdef LayoutRow _ALL_WIDTHS = _LAYOUTS["words"]
cdef tuple _INT24 = (-(1 << 23), (1 << 23) - 1)


cdef tuple _limits_of(str name, int bits):
    """Return the lowest and the highest code of an integer type. `bits` is the width of the
    codes in a layout, or 0 without a layout."""
    if bits == 24:
        return _INT24
    return (0, (1 << bits) - 1) if bits and name == "uint8" else _LIMITS[name]


# The sub-byte type for a byte type and a width in bits.
cdef dict _NARROWER = {
    ("uint8", 4): "uint4",
    ("uint8", 2): "uint2",
    ("int8", 4): "int4",
    ("int8", 2): "int2",
}


def layouts():
    """Return a dict with the row of each layout by name."""
    return _LAYOUTS.copy()


cdef LayoutRow _layout_named(object layout):
    found = _LAYOUTS.get(str.lower(layout) if isinstance(layout, str) else None)
    if found is None:
        some = ", ".join(map(repr, _LAYOUTS))
        _check.choice(layout, "layout", _LAYOUTS, f"{some} or a Layout")
    return found


cdef tuple _checked_layout(object name, object axis, object bits, str of):
    """Check a layout as far as possible without an array. Return the row of the layout, and
    axis and bits as integers or `None`. In messages, `of` precedes the name of an argument.
    """
    cdef LayoutRow row = _layout_named(name)
    axis = None if axis is None else _integer(axis, "axis", "an integer", of)
    bits = None if bits is None else _integer(bits, "bits", "an integer", of)
    if row.flat and axis is not None:
        raise _error(ValueError, f"{of}axis", f"None for layout {row.name!r}", axis)
    if bits is not None and bits not in row.widths:
        some = " or ".join(map(str, row.widths))
        raise _error(ValueError, f"{of}bits", f"{some} for layout {row.name!r}", bits)
    return row, axis, bits


def layout_of(name, axis, bits, /):
    """Check name, axis and bits of a Layout, and return them."""
    row, axis, bits = _checked_layout(name, axis, bits, "")
    return row.name, axis, bits


cdef object _Layout = None
cdef object _PackedArray = None


cdef object _layout_class():
    """Return the class Layout. The import is late, because pyquant.packed imports this
    module."""
    global _Layout, _PackedArray
    if _Layout is None:
        from pyquant.packed import Layout, PackedArray

        _Layout, _PackedArray = Layout, PackedArray
    return _Layout


cdef tuple _layout_given(object layout):
    """Return row, axis and bits of the argument `layout`, a name or a Layout."""
    cdef tuple items
    if type(layout) is str or type(layout) is not _layout_class():
        return _layout_named(layout), None, None
    items = <tuple>layout  # Faster than indexing a Layout.
    if len(items) != 3:  # The caller may have used tuple.__new__.
        raise TypeError("layout: expected a Layout, got one that was never made")
    return _checked_layout(items[0], items[1], items[2], "layout.")


cdef object _along(LayoutRow row, object axis, int ndim):
    """Return the packed axis as a nonnegative integer, or `None` if the layout has no axis.
    """
    if row.flat:
        return None
    if ndim == 0:
        raise ValueError(f"layout: expected 'onnx' for shape (), got {row.name!r}")
    if axis is None:
        return ndim - 1
    if not -ndim <= axis < ndim:
        raise _axis_error(axis, ndim, "layout.axis")
    axis += ndim if axis < 0 else 0
    if row.widths[0] == 24 and axis != ndim - 1:
        raise _error(ValueError, "layout.axis", f"the last for layout {row.name!r}", axis)
    return axis


cdef str _element_of(object dtype, object bits, LayoutRow row, int *width):
    """Return the type of the codes of an array in a layout. Store the width of a code in
    `width`."""
    cdef str name
    if row.types and (bits is None or bits == 24):
        name = _name_in(row.types, dtype, "dtype", row.some)
        own = pq_type_bits(<pq_type><int>_CODES[name])
        width[0] = min(own, max(row.widths))
        return name
    width[0] = row.widths[0] if bits is None else bits
    name = _name_in(_ALL_WIDTHS.types, dtype, "dtype", _ALL_WIDTHS.some)
    name = _NARROWER.get((name, width[0]), name)
    own = pq_type_bits(<pq_type><int>_CODES[name])
    if name != "uint8" and width[0] != own:
        raise ValueError(f"layout.bits: expected {own} for {name}, got {width[0]}")
    return name


# NumPy's limit for the number of bytes of an array, and for the number of float64 elements.
cdef Py_ssize_t _LARGEST = _maxsize
cdef Py_ssize_t _MOST = _LARGEST // 8


cdef int _check_product(tuple extents, str name) except -1:
    cdef Py_ssize_t size = 1, extent
    for one in extents:
        extent = max(<Py_ssize_t>one, 1)
        if extent > _MOST // size:
            raise _error(ValueError, name, f"extents of product {_MOST} or less, 0 as 1",
                         extents)
        size *= extent
    return 0


cdef tuple _extents_of(object shape):
    """Check a shape, and return a tuple of Python integers."""
    cdef tuple extents
    given = shape if isinstance(shape, (tuple, list)) else (shape,)
    try:
        # tuple() of a generator would allocate more memory than tuple() of a list.
        extents = tuple([_integer(one, "shape", "an integer") for one in given])
    except TypeError:
        raise _error(TypeError, "shape", "an integer or a tuple of integers",
                     type(shape)) from None
    for one in extents:
        if not 0 <= one <= _LARGEST:
            raise _error(ValueError, "shape", f"extents from 0 to {_LARGEST}", extents)
    _check_product(extents, "shape")
    if len(extents) > PQ_MAX_NDIM:
        raise ValueError(
            f"shape: expected at most {<int>PQ_MAX_NDIM} dimensions, got {len(extents)}"
        )
    return extents


def words_of(dtype, shape, layout, /):
    """Return a tuple: the type of the codes, the shape of the codes, the tuple (layout,
    axis, bits), the shape of the words, and the row of the layout."""
    return _words_of(dtype, shape, _layout_given(layout))


cdef tuple _words_of(object dtype, object shape, tuple layout):
    cdef int width = 0
    cdef LayoutRow row
    row, axis, bits = layout
    cdef str name = _element_of(dtype, bits, row, &width)
    cdef tuple extents = _extents_of(shape)
    along = _along(row, axis, len(extents))
    return name, extents, (row.name, along, width), row.shape(extents, along, width), row


cdef str _ONNX_LAYOUT = "onnx"


cdef inline object _packing(object layout, object packed):
    """Return the layout that a call requests, or `None` if the result is not packed."""
    return layout if packed is False else _packing_by_flag(layout, packed)


cdef object _packing_by_flag(object layout, object packed):
    if type(packed) is str or type(packed) is tuple:
        raise _error(TypeError, "packed", "True or False",
                     f"{type(packed).__name__}; layout= names a layout")
    if not _flag(packed, "packed"):
        return layout
    if layout is not None:
        raise ValueError("packed: expected False beside layout, got True")
    return _ONNX_LAYOUT


cdef tuple _requested(object layout, str dtype, bint fixed):
    """Return the type of codes, the row of the layout, axis and bits of a result. If
    `fixed`, raise an error if the type of codes is not `dtype`."""
    cdef int width = 0
    cdef LayoutRow row
    row, axis, bits = _layout_given(layout)
    name = _element_of(dtype, bits, row, &width)
    if fixed and name != dtype:
        raise _error(ValueError, "layout.bits",
                     f"bits of {dtype}, which the parameters are for",
                     f"{width}, those of {name}")
    return name, row, axis, width


cdef tuple _how(tuple asked, int ndim):
    """Return the name of the layout, the packed axis and the bits of a result."""
    _, row, axis, width = asked
    return row.name, _along(row, axis, ndim), width


# ---- packed arrays ----


cdef class Packed:
    """State of a packed array: words and layout. A subclass cannot replace the state."""

    cdef object _words  # an ndarray or bytes
    cdef str _dtype
    cdef tuple _extents
    cdef tuple _lies  # layout, axis, bits

    def _keep(self, data, str name not None, tuple shape not None, tuple how not None, /):
        """Set the state. A second call raises an error."""
        _check_words(data, name, shape, how)
        with critical_section(self):
            if self._words is not None:
                raise AttributeError(
                    "data: expected no assignment, PackedArray is immutable"
                )
            self._dtype, self._extents, self._lies = name, shape, how
            self._words = data  # last, because `_words` marks a complete object

    # An object from `__new__` has no state until `__init__` runs.

    @property
    def _data(self):
        """Return a new array of the words that shares the memory of this packed array."""
        cdef LayoutRow row
        _check_made(self)
        if type(self._words) is not bytes:
            return self._words.view()
        layout, axis, bits = self._lies
        row = _LAYOUTS[layout]
        return _words_in(row.shape(self._extents, axis, bits), row.words[0], self._words)

    @property
    def _name(self):
        _check_made(self)
        return self._dtype

    @property
    def _shape(self):
        _check_made(self)
        return self._extents

    @property
    def _how(self):
        _check_made(self)
        return self._lies


cdef object _words_in(tuple shape, object dtype, bytes memory):
    """Return a read-only array of a shape and dtype on the memory of a bytes object."""
    cdef Py_ssize_t extents[PQ_MAX_NDIM]
    cdef int ndim = <int>len(shape), d
    for d in range(ndim):
        extents[d] = shape[d]
    Py_INCREF(dtype)  # the array steals this reference
    made = PyArray_NewFromDescr(
        &PyArray_Type, <PyArray_Descr *>dtype, ndim, extents, NULL,
        PyBytes_AS_STRING(memory), NPY_ARRAY_CARRAY_RO, NULL
    )
    Py_INCREF(memory)  # and this reference
    PyArray_SetBaseObject(<PyArrayObject *>made, <PyObject *>memory)
    return made


cdef inline int _check_made(Packed packed) except -1:
    if packed._words is None:
        raise TypeError("data: expected words, got a PackedArray that was never made")
    return 0


cdef tuple _NO_ARGUMENTS = ()


cdef Packed _empty_packed():
    """Return a PackedArray without state, faster than `Packed.__new__(...)`."""
    _layout_class()
    return <Packed>(<PyTypeObject *>Packed).tp_new(
        <type>_PackedArray, <PyObject *>_NO_ARGUMENTS, NULL
    )


cdef int _check_words(object data, str name, tuple shape, tuple how) except -1:
    """Raise an error if layout and shape do not fit `data`. Any caller can pass wrong
    arguments, because Python code can call `_keep`."""
    cdef LayoutRow row
    if type(data) is not _ndarray:
        raise TypeError(f"data: expected an array of bytes, got {type(data).__name__}")
    if not data.flags.c_contiguous:
        raise ValueError("data: expected contiguous words, got a strided array")
    layout, axis, bits = how
    found, extents, due, words, row = _words_of(
        name, shape, _checked_layout(layout, axis, bits, "layout.")
    )
    if found != name or due != how or type(bits) is not int or extents != shape:
        raise ValueError(f"layout: expected {due} for {found}, got {how} for {name}")
    if not all([type(n) is int for n in shape]):
        raise TypeError(f"shape: expected integers, got {shape}")
    if data.shape != words or data.itemsize * 8 != row.word_bits:
        raise _error(ValueError, "data",
                     f"shape {words} of {row.word_bits // 8} bytes each",
                     f"{data.shape} of {data.itemsize}")
    return 0


cdef object _dtype_said(object obj):
    """Return the dtype of an object, or `None`. For a packed array, return the name of the
    dtype, because the dtype itself may need ml_dtypes."""
    if isinstance(obj, Packed):
        return (<Packed>obj)._name
    return getattr(obj, "dtype", None)


# Number of bytes from which a result is a NumPy array instead of a bytes object. For this
# size, NumPy uses large memory pages, which make the first access faster.
cdef enum:
    _LARGE = 1 << 22


cdef object _bytes_out(Call *call, object out, LayoutRow row, tuple how):
    """Check `out`, and return a contiguous array. Only layouts without unused bits accept
    `out`."""
    shape = row.shape(_shape(&call.x), how[1], how[2])
    exact = out
    if not (type(out) is _ndarray and out.dtype is row.words[0] and out.shape == shape
            and out.flags.carray):
        exact = _check.out(out, row.words[0], shape)
    if not exact.flags.c_contiguous:
        raise _error(ValueError, "out", "contiguous bytes with packed codes",
                     f"strides {exact.strides}")
    return exact


cdef object _hold_packed_out(Call *call, object out, pq_type code, tuple how):
    """Use `out`, or new memory, for the packed codes of the result. Return the object that
    owns the memory."""
    cdef LayoutRow row = _LAYOUTS[how[0]]
    cdef Py_ssize_t size = 0
    cdef char *memory
    if out is not None and how[2] != 24:
        raise ValueError(f"out: expected None with packed codes, got {type(out).__name__}")
    if row.flat:
        size = row.length(_size(&call.x), pq_type_bits(code))
    else:
        call.out_words = _set_layout(&call.out_layout, row, how, call.x.shape)
        call.args.out_layout = &call.out_layout
        size = _bytes_of_words(row, &call.x, call.out_layout.axis, call.out_words)
    # New words are set to zero, because the core never writes unused bits.
    no_bits = row.flat or how[2] == 24
    if out is not None:
        call.has_out = True
        data = _bytes_out(call, out, row, how)
        memory = <char *>_data(data)
    elif size >= _LARGE:
        data = (_np.empty if no_bits else _np.zeros)(size, _DTYPES["uint8"])
        memory = <char *>_data(data)
    else:
        data = PyBytes_FromStringAndSize(NULL, size)
        memory = PyBytes_AS_STRING(data)
        if not no_bits:
            memset(memory, 0, size)
    call.out.ndim = call.x.ndim
    memcpy(call.out.shape, call.x.shape, call.x.ndim * sizeof(call.x.shape[0]))
    _hold_bytes(&call.out, memory, size, code)
    _set_output(call)
    return data


cdef object _packed(tuple shape, object data, str dtype, tuple how):
    """Return a packed array that owns `data`. Make `data` read-only."""
    cdef Packed made = _empty_packed()
    cdef LayoutRow row
    if type(data) is not bytes:
        data.flags.writeable = False
        row = _LAYOUTS[how[0]]
        words = row.shape(shape, how[1], how[2])
        data = _ndarray(words, row.words[0], memoryview(data))
    made._words = data
    made._dtype = dtype
    made._extents = shape
    made._lies = how
    return made


cdef Py_ssize_t _set_layout(pq_layout *layout, LayoutRow row, tuple how,
                            const ptrdiff_t *shape) except -1:
    """Set the layout of an array that is packed along an axis. Return the number of words
    along the axis."""
    layout.size = sizeof(pq_layout)
    layout.axis = how[1]
    layout.bits = how[2]
    layout.word_bits = row.word_bits
    layout.group = len(row.order)
    layout.order = <const unsigned char *><const char *>row.order if row.order else NULL
    return row.length(shape[layout.axis], layout.bits)


cdef Py_ssize_t _bytes_of_words(LayoutRow row, Array *a, int axis,
                                Py_ssize_t words) except -1:
    """Return the number of bytes of an array that has `words` words along an axis."""
    cdef Py_ssize_t size = row.word_bits // 8, extent
    cdef bint any_words = True
    cdef int d
    for d in range(a.ndim):
        extent = words if d == axis else a.shape[d]
        if extent == 0:
            any_words = False
        elif size > _LARGEST // extent:  # the limit also applies to empty arrays
            raise _error(ValueError, "layout",
                         f"one that has at most {_LARGEST} bytes for shape {_shape(a)}",
                         f"{row.name!r}")
        else:
            size *= extent
    return size if any_words else 0


cdef char *_words_at(Packed packed, Py_ssize_t *size) except? NULL:
    """Return the address of the words. Store the number of bytes of the words in `size`."""
    cdef object words = packed._words
    _check_made(packed)
    if type(words) is bytes:
        size[0] = len(<bytes>words)
        return PyBytes_AS_STRING(words)
    size[0] = words.nbytes
    return <char *>_data(words)


cdef int _hold_packed(Call *call, Packed packed) except -1:
    """Store the description of a packed array in call.x. `_set_input` sets the bit strides
    later."""
    cdef tuple shape = packed._extents
    cdef LayoutRow row
    cdef Py_ssize_t size = 0
    cdef int d
    cdef char *words = _words_at(packed, &size)
    call.x.ndim = len(shape)
    for d in range(call.x.ndim):
        call.x.shape[d] = shape[d]
    row = _LAYOUTS[packed._lies[0]]
    if not row.flat:
        call.x_words = _set_layout(&call.x_layout, row, packed._lies, call.x.shape)
        call.args.in_layout = &call.x_layout
    _hold_bytes(&call.x, words, size, <pq_type><int>_CODES[packed._dtype])
    return 0


cdef void _hold_bytes(Array *held, char *data, Py_ssize_t size, pq_type code) noexcept:
    """Store the description of packed codes in `held`, except `ndim` and `shape`. Set all
    strides to 0, because `_lay_bits` sets bit strides instead."""
    held.data = data
    held.packed = max(1, size)
    memset(held.strides, 0, held.ndim * sizeof(held.strides[0]))
    held.itemsize = 1
    held.held = held.readonly = True
    held.type = code
    held.swapped = False


cdef int _repack_part(const Job *job, int part) noexcept nogil:
    return pq_repack(_active, job.args, part, job.parts)


cdef dict _ONNX = {bits: (_ONNX_LAYOUT, None, bits) for bits in (2, 4)}


def pack(codes, layout, /):
    """See packed.pack."""
    cdef Call call
    cdef str name
    cdef int width = 0
    cdef LayoutRow row, is_32_bit
    row, axis, bits = _layout_given(layout)
    is_32_bit = row if row.types and (bits is None or bits == 24) else _ALL_WIDTHS
    _forget(&call)
    array = codes if type(codes) is _ndarray else plain(codes, "codes")
    found = known(array) or _dtypes.name_of(array.dtype)
    if found not in is_32_bit.types:
        end = ""
        if found in ("int8", "uint8") and 24 not in row.widths:
            end = f'; Layout("{row.name}", bits=4) converts {found}'
        raise TypeError(f"codes: expected {is_32_bit.some}, got {_describe(array)}{end}")
    name = _element_of(found, bits, row, &width)
    # The conversion of `bits` may run user code, which may change the type of the array.
    if not _hold(array, &call.x) or _NAMES[<int>call.x.type] != found:
        raise TypeError(f"codes: expected {found}, got {_describe(array)}")
    shape = _shape(&call.x)
    _check_product(shape, "codes")
    if width < pq_type_bits(call.x.type) and _size(&call.x) > 0:
        lo, hi = _limits_of(name, width)
        call.zero = call.x  # so that _zero_outside checks the codes
        _set_array(&call.args.zero, &call.zero)
        if _zero_outside(&call, lo, hi) is not None:
            raise _convert.unfit(array, lo, hi, width)
    call.x.type = <pq_type><int>_CODES[name]
    return _repacked(&call, row, axis, shape, name, width)


def repack(Packed packed not None, layout, /):
    """See PackedArray.repack."""
    cdef Call call
    cdef int width
    cdef LayoutRow row
    row, axis, bits = _layout_given(layout)
    _forget(&call)
    _hold_packed(&call, packed)
    width = packed._lies[2]
    if width not in row.widths or bits not in (None, width):
        raise _error(ValueError, "layout", f"one that has elements of {width} bits",
                     f"{row.name!r}{'' if bits is None else f' of {bits}'}")
    return _repacked(&call, row, axis, packed._extents, packed._dtype, width)


cdef object _repacked(Call *call, LayoutRow row, object axis, tuple shape, str name,
                      int width):
    """Pack the codes of call.x in a layout, and return a packed array."""
    cdef tuple how = (row.name, _along(row, axis, call.x.ndim), width)
    _set_input(call)
    data = _hold_packed_out(call, None, call.x.type, how)
    _run_all(_repack_part, call, NULL, 1, "codes")
    return _packed(shape, data, name, how)


cdef object _unpacked(Packed packed, pq_type *type):
    """Return the codes as a uint8 array, or an int32 array for 24-bit codes. Store the type
    of the codes in `type`."""
    cdef Call call
    _forget(&call)
    _hold_packed(&call, packed)
    _set_input(&call)
    out = _new_like(&call.x, PQ_I32 if call.x.type == PQ_I32 else PQ_U8)
    _hold(out, &call.out)
    call.out.type = type[0] = call.x.type
    _set_output(&call)
    _run_all(_repack_part, &call, NULL, 1, "codes")
    return out


def unpack(p, /):
    """See packed.unpack."""
    cdef pq_type code
    if not isinstance(p, Packed):
        raise TypeError(f"p: expected a PackedArray, got {type(p).__name__}")
    found = _unpacked(p, &code)
    return found.view(dtype_named((<Packed>p)._dtype))


def same_words(Packed one not None, Packed other not None, /):
    """Return True if the bytes of two arrays of equal shape and layout are equal."""
    cdef Py_ssize_t size = 0, others = 0
    cdef const char *a = _words_at(one, &size)
    cdef const char *b = _words_at(other, &others)
    cdef bint same
    if size != others or size == 0:
        return size == others
    with nogil:
        same = memcmp(a, b, size) == 0
    return same


def copied(Packed packed not None, data, tuple shape not None, /):
    """Return a packed array that owns a read-only copy of the words `data`, in C order."""
    cdef Packed made = _empty_packed()
    made._keep(_ndarray(data.shape, data.dtype, data.tobytes()), packed._name, shape,
               packed._how)
    return made
