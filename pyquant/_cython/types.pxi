# The table of types of csrc/types.h, and how callers may spell a type in Python.

# Tables of types. _REALS (real types), _CODES (quantized types), _PACKED (sub-byte types)
# and _TYPES (all types) map a name to a pq_type of csrc/types.h. _NAMES maps a pq_type to
# the name. _LIMITS maps the name of an integer type to the limits. _DTYPES maps a name to
# the dtype. A dtype of ml_dtypes is added on first use.
cdef dict _REALS = {}
cdef dict _CODES = {}
cdef dict _TYPES = {}
cdef dict _PACKED = {}
cdef dict _LIMITS = {}
cdef list _NAMES = [None]
cdef dict _DTYPES = {}


cdef dict _KINDS = {
    <int>PQ_KIND_REAL: "real",
    <int>PQ_KIND_INTEGER: "integer",
    <int>PQ_KIND_FLOAT: "float",
    <int>PQ_KIND_EXPONENT: "exponent",
}
cdef pq_kind[<int>PQ_TYPE_COUNT] _kinds  # by pq_type


def type_rows():
    """Return a row for each type, for pyquant.dtypes: name, kind, number of bits, number of
    bytes, and limits of an integer type."""
    cdef const pq_type_row *row
    rows = []
    for code in range(<int>PQ_NO_TYPE + 1, <int>PQ_TYPE_COUNT):
        row = row_of_type(<pq_type><int>code)
        is_integer = row.kind == PQ_KIND_INTEGER
        ends = (row.lowest, row.highest) if is_integer else (None, None)
        rows.append((row.name.decode(), _KINDS[<int>row.kind], row.bits, row.bytes, *ends))
    return rows


cdef inline bint _is_real(pq_type type) noexcept:
    return _kinds[<int>type] == PQ_KIND_REAL


cdef inline bint _is_narrow_float(pq_type type) noexcept:
    return _kinds[<int>type] == PQ_KIND_FLOAT


cdef inline bint _is_integer(pq_type type) noexcept:
    return _kinds[<int>type] == PQ_KIND_INTEGER


cdef bint _is_code(pq_type type) noexcept:
    return _is_narrow_float(type) or _is_integer(type)


cdef inline bint _is_wide(pq_type type) noexcept:
    return type == PQ_I64 or type == PQ_U64


# Borrowed references to the dtypes of _DTYPES and to the classes of NumPy scalars, by
# pq_type.
cdef PyObject *_dtypes_held[<int>PQ_TYPE_COUNT]
cdef PyObject *_scalar_types[<int>PQ_TYPE_COUNT]


cdef object _keep_dtype(str name, object dtype):
    _DTYPES[name] = dtype
    _dtypes_held[<int>_TYPES[name]] = <PyObject *>dtype
    return dtype


cdef void _read_types():
    cdef const pq_type_info *row
    cdef pq_type type
    _kinds[<int>PQ_NO_TYPE] = PQ_KIND_NONE
    for code in range(<int>PQ_NO_TYPE + 1, <int>PQ_TYPE_COUNT):
        type = <pq_type><int>code
        row = row_of_type(type)
        _kinds[<int>type] = row.kind
        name = _intern(row.name.decode())  # interned, for comparison with literals
        _TYPES[name] = code
        _NAMES.append(name)
        if _is_real(type):
            _REALS[name] = code
        if _is_code(type):
            _CODES[name] = code
            if row.bits in (2, 4):
                _PACKED[name] = code
            if _is_integer(type):
                _LIMITS[name] = (row.lowest, row.highest)
        scalar = getattr(_np, name, None)
        if scalar is not None:
            _scalar_types[<int>type] = <PyObject *>scalar
            _keep_dtype(name, _np.dtype(scalar))


_read_types()
# The name of a type for each spelling: a dtype, a class or a string. A lookup calls no
# NumPy code.
cdef dict _SPELLED = {name: name for name in _TYPES}
for _name, _dtype in _DTYPES.items():
    _SPELLED[_dtype] = _SPELLED[_dtype.type] = _name
del _name, _dtype
cdef dict _SPELLED_TYPES = {spelled: _TYPES[name] for spelled, name in _SPELLED.items()}
cdef object _dtype_class = _np.dtype
cdef str _REAL_LIST = "float32, float64, float16 or bfloat16"
cdef str _PRECISIONS = f"None, {_REAL_LIST}"
cdef str _CODE_LIST = "an integer type or a narrow float"
cdef str _CODE_NAMES = " or ".join(", ".join(_CODES).rsplit(", ", 1))
# The quantized types that `choose_qparams` accepts.
cdef dict _CHOSEN = {
    name: code for name, code in _CODES.items() if not _is_wide(<pq_type><int>code)
}
cdef str _CHOSEN_NAMES = " or ".join(", ".join(_CHOSEN).rsplit(", ", 1))


cdef pq_type _scalar_type(object scalar) noexcept:
    """Return the type of a NumPy scalar, or PQ_NO_TYPE."""
    for type in range(<int>PQ_NO_TYPE + 1, <int>PQ_TYPE_COUNT):
        if <PyObject *>Py_TYPE(scalar) == _scalar_types[type]:
            return <pq_type>type
    return PQ_NO_TYPE


cdef pq_type _known_type(object values) noexcept:
    """Return the type of a NumPy array or scalar in native byte order, or PQ_NO_TYPE. The
    function does not recognize types of ml_dtypes."""
    cdef const PyArray_Descr *descr
    if Py_TYPE(values) is not &PyArray_Type:
        return _scalar_type(values)
    descr = PyArray_DESCR(<const PyArrayObject *>values)
    if 0 <= descr.type_num < _OWN_TYPES and PyArray_ISNBO(descr.byteorder):
        return _own_types[descr.type_num]
    return PQ_NO_TYPE


cpdef object known(object values):
    """Return the name of the type that `_known_type` finds, or `None`."""
    return _NAMES[<int>_known_type(values)]


cdef inline bint _may_spell(object dtype) except -1:
    """Return True for a dtype, class or string, which the tables of spellings may contain.
    Hashing another object may run user code or recurse without end."""
    return type(dtype) is str or type(dtype) is type or isinstance(dtype, _dtype_class)


cpdef object spelled(object dtype):
    """Return the name of a known dtype, class or string, else `None`."""
    return _SPELLED.get(dtype) if _may_spell(dtype) else None


cdef inline int _spelled_type(object dtype) except -1:
    """Return the pq_type of a known dtype, class or string, or PQ_NO_TYPE."""
    found = _SPELLED_TYPES.get(dtype) if _may_spell(dtype) else None
    return <int>PQ_NO_TYPE if found is None else <int>found


cdef pq_type _type_in(dict types, object dtype, str name, str expected) except *:
    """Return the pq_type of `dtype`. Raise an error if `types` does not contain the type.
    """
    cdef object found = spelled(dtype)
    cdef object type
    if found is None:
        found = _dtypes.requested(dtype)
    type = types.get(found)
    if type is None:
        from pyquant._refused import hint_of_type

        raise _error(TypeError, name, expected,
                     f"{_dtypes.shown(dtype)}{hint_of_type(dtype, types)}")
    return <pq_type><int>type


cdef str _name_in(dict types, object dtype, str name, str expected):
    return _NAMES[<int>_type_in(types, dtype, name, expected)]


def limits(str name not None, /):
    """Return the lowest and the highest value of an integer type, or `None` for other
    types."""
    return _LIMITS.get(name)


cpdef object dtype_named(str name):
    """Return the dtype of a name, from ml_dtypes if NumPy lacks it."""
    dtype = _DTYPES.get(name)
    if dtype is None:
        dtype = _keep_dtype(name, _dtypes.ml_dtype(name))
    return dtype


cdef pq_type _zero_type(pq_type code) noexcept:
    """Return the type that stores the zero points of a QParams. The type never needs
    ml_dtypes."""
    cdef const pq_type_info *row = row_of_type(code)
    if not _is_integer(code):
        return PQ_I8
    return code if row.bits >= 8 else PQ_I8 if row.lowest < 0 else PQ_U8


cpdef str zero_name(str name):
    """Return the name of the type that stores the zero points of a quantized type."""
    return _NAMES[<int>_zero_type(<pq_type><int>_TYPES[name])]
