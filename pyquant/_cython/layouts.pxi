# Layouts of packed codes in words, and the arguments that select them.


@final
cdef class Layout:
    """
    The layout of codes in words.

    Codes along one axis are a stream of bits, from the lowest bit of the first word. Code i
    of a group has position ``order[i]``; an empty ``order`` means ascending positions.

    Attributes
    ----------
    name : str
        Name of the layout.
    widths : tuple of int
        Supported bits of a code.
    words : tuple of dtype
        Supported little-endian types of words; new arrays have the first.
    order : bytes
        Positions of the codes of a group.
    flat : bool
        True if the stream contains all elements in C order, without an axis.
    """

    cdef readonly str name
    cdef readonly tuple widths
    cdef readonly tuple words
    cdef readonly bytes order
    cdef readonly bint flat
    cdef readonly int word_bits
    cdef int group
    cdef dict types  # types with a supported width, and their names as text
    cdef str some

    # Not __init__, because callers could call it again.
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
        self.some = ", ".join(self.types)

    cpdef Py_ssize_t length(self, Py_ssize_t codes, int bits) noexcept:
        """Return the number of words of complete groups for a number of codes."""
        cdef Py_ssize_t groups = codes // self.group + (codes % self.group != 0)
        cdef Py_ssize_t all_bits = groups * self.group * bits
        return all_bits // self.word_bits + (all_bits % self.word_bits != 0)

    cpdef tuple shape(self, tuple extents, object axis, int bits):
        """Return the shape of the words of an array."""
        if axis is None:
            return (self.length(_prod(extents), bits),)
        words = self.length(extents[axis], bits)
        return (*extents[:axis], words, *extents[axis + 1:])


# Each layout is one row, with parameters for the C core.
cdef dict _LAYOUTS = {row.name: row for row in (
    Layout("onnx", (2, 4), ("<u1",), flat=True),
    Layout("words", (1, 2, 3, 4, 5, 6, 7, 8), ("<i4", "<u4")),
    Layout("awq", (4,), ("<i4", "<u4"), bytes((0, 4, 1, 5, 2, 6, 3, 7))),
    Layout("halves", (4,), ("<u1",), bytes([i % 16 * 2 + i // 16 for i in range(32)])),
    Layout("high-first", (4,), ("<u1",), bytes((1, 0))),
    Layout("packbits", (1,), ("<u1",), bytes(range(7, -1, -1))),
)}
cdef Layout _ALL_WIDTHS = _LAYOUTS["words"]

# Names of layout, axis and bits in messages: parameters, or elements of `packed`.
cdef tuple _OWN = ("layout", "axis", "bits")
cdef tuple _IN_PACKED = ("packed", "packed[1]", "packed[2]")

# Types of sub-byte codes by width.
cdef dict _NARROWER = {
    ("uint8", 4): "uint4",
    ("uint8", 2): "uint2",
    ("int8", 4): "int4",
    ("int8", 2): "int2",
}


def layouts():
    """Return all layouts by name."""
    return _LAYOUTS.copy()


cdef Layout _layout_named(object layout, tuple names):
    given = layout if type(layout) is str else None
    if given is None and isinstance(layout, str):
        given = str.__str__(layout)
    found = _LAYOUTS.get(given)
    if found is not None:
        return found
    some = " or ".join(", ".join(map(repr, _LAYOUTS)).rsplit(", ", 1))
    if given is None:
        raise TypeError(f"{names[0]}: expected {some}, got {type(layout).__name__}")
    raise ValueError(
        f"{names[0]}: expected {some}, got {given!r}{_hint(given, _LAYOUTS)}"
    )


cdef object _whole(object value, str name):
    """Return a Python integer; bool raises an error."""
    try:
        return _index(value)
    except TypeError:
        pass
    raise TypeError(f"{name}: expected an integer, got {type(value).__name__}")


cdef object _settled_along(Layout row, object axis, tuple names):
    """Return the packed axis of a layout as a Python integer, or `None` without an axis."""
    if not row.flat:
        return -1 if axis is None else _whole(axis, names[1])
    if axis is not None:
        got = _shown(axis) if isinstance(axis, int) else type(axis).__name__
        raise ValueError(f"{names[1]}: expected None for layout {row.name!r}, got {got}")
    return None


cdef object _along(Layout row, object settled, int ndim, tuple names):
    """Return the packed axis as a nonnegative integer."""
    if settled is None:
        return None
    if ndim == 0:
        raise ValueError(
            f"{names[0]}: expected 'onnx' for what has no axis, got {row.name!r}"
        )
    if not -ndim <= settled < ndim:
        raise _axis_error(settled, ndim, None if names is _OWN else names[1])
    return settled + ndim if settled < 0 else settled


cdef str _element_of(object dtype, object bits, Layout row, tuple names, int *width):
    """Return type and width of the codes of an array in a layout."""
    cdef str name
    cdef int own
    if bits is None and row.types:
        name = _name_in(row.types, dtype, "dtype", row.some)
        width[0] = pq_type_bits(<pq_type><int>_CODES[name])
        return name
    bits = None if bits is None else _whole(bits, names[2])
    name = _name_in(_ALL_WIDTHS.types, dtype, "dtype", _ALL_WIDTHS.some)
    name = _NARROWER.get((name, bits), name)
    own = pq_type_bits(<pq_type><int>_CODES[name])
    if bits is not None and name == "uint8" and not 1 <= bits <= 8:
        raise ValueError(f"{names[2]}: expected 1 to 8 for uint8, got {_shown(bits)}")
    if bits is not None and name != "uint8" and bits != own:
        raise ValueError(f"{names[2]}: expected {own} for {name}, got {_shown(bits)}")
    if bits not in row.widths:
        some = " or ".join(map(str, row.widths))
        raise ValueError(
            f"{names[2]}: expected {some} for layout {row.name!r}, got {_shown(bits)}"
        )
    width[0] = bits
    return name


# Largest size of a float64 array in NumPy, also of an empty one.
cdef Py_ssize_t _LARGEST = _maxsize
cdef Py_ssize_t _MOST = _LARGEST // 8


cdef int _check_product(tuple extents, str name) except -1:
    cdef Py_ssize_t size = 1, extent
    for one in extents:
        extent = max(<Py_ssize_t>one, 1)
        if extent > _MOST // size:
            raise ValueError(
                f"{name}: expected extents of product {_MOST} or less, 0 as 1, "
                f"got {_shown(extents)}"
            )
        size *= extent
    return 0


cdef tuple _extents_of(object shape):
    """Return a valid shape as Python integers."""
    cdef tuple extents
    given = shape if isinstance(shape, (tuple, list)) else (shape,)
    try:
        # From a list, because a generator makes Python allocate a larger tuple.
        extents = tuple([_whole(one, "shape") for one in given])
    except TypeError:
        raise TypeError(
            "shape: expected an integer or a tuple of integers, "
            f"got {type(shape).__name__}"
        ) from None
    for one in extents:
        if not 0 <= one <= _LARGEST:
            raise ValueError(
                f"shape: expected extents from 0 to {_LARGEST}, got {_shown(extents)}"
            )
    _check_product(extents, "shape")
    if len(extents) > PQ_MAX_NDIM:
        raise ValueError(
            f"shape: expected at most {<int>PQ_MAX_NDIM} dimensions, got {len(extents)}"
        )
    return extents


def words_of(dtype, shape, layout, axis, bits, /):
    """Return type and shape of the codes; layout, axis and bits; shape of the words;
    layout."""
    cdef int width = 0
    cdef Layout row = _layout_named(layout, _OWN)
    cdef str name = _element_of(dtype, bits, row, _OWN, &width)
    cdef tuple extents = _extents_of(shape)
    along = _along(row, _settled_along(row, axis, _OWN), len(extents), _OWN)
    words = row.shape(extents, along, width)
    return name, extents, (row.name, along, width), words, row


cdef tuple _requested(object packed, str dtype, bint fixed):
    """Return type of codes, layout, axis and bits from the argument `packed`, independent
    of user objects. If `fixed`, the type must be `dtype`."""
    cdef int width = 0
    cdef Layout row
    given = packed if isinstance(packed, tuple) else (packed,)
    if not 1 <= len(given) <= 3 or not isinstance(given[0], str):
        kind = type(packed).__name__
        got = f"a tuple of {len(given)}" if isinstance(packed, tuple) else kind
        raise TypeError(
            "packed: expected True, False, a layout or a tuple of layout, axis and bits, "
            f"got {got}"
        )
    layout, axis, bits = (*given, None, None)[:3]
    row = _layout_named(layout, _IN_PACKED)
    name = _element_of(dtype, bits, row, _IN_PACKED, &width)
    if fixed and name != dtype:
        raise ValueError(
            f"packed[2]: expected bits of {dtype}, which the parameters are for, "
            f"got {width}, those of {name}"
        )
    return name, row, _settled_along(row, axis, _IN_PACKED), width
