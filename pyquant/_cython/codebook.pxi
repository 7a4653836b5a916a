# The option `codebook`: codes that are indices of a table of numbers.


@final
cdef class _Codebook:
    """A table and its search bounds, independent of user objects."""
    cdef pq_codebook table


cdef dict _named_books = {}  # filled on first use


cdef _Codebook _book_of(object given):
    """Return a named table, or a table from numbers."""
    cdef _Codebook made
    name = None
    if isinstance(given, str):
        name = str.__str__(given)
        if name not in _named_books:
            name = name.lower()
        if name in _named_books:
            return _named_books[name]
        from pyquant._codebooks import TABLES

        if name not in TABLES:
            raise ValueError(
                f"codebook: expected {', '.join(TABLES)} or a table of numbers, "
                f"got {str.__str__(given)!r}{_hint(name, TABLES)}"
            )
        given = TABLES[name]
    made = _made_book(_converted(_convert.reals, (given, "codebook")))
    if name is not None:
        _named_books[name] = made
    return made


cdef _Codebook _made_book(object array):
    cdef Array held
    cdef _Codebook made = _Codebook()
    cdef Py_ssize_t count
    cdef const float *numbers
    _checked_numbers(array, &held, "codebook")
    count = held.shape[0] if held.ndim == 1 else 0
    if count not in (4, 8, 16, 32, 64, 128, 256):
        raise ValueError(
            "codebook: expected one dimension of 4, 8, 16, 32, 64, 128 or 256 numbers, "
            f"got shape {array.shape}"
        )
    values = _np.ascontiguousarray(cast(array, "float32"))
    numbers = <const float *>PyArray_DATA(<const PyArrayObject *>values)
    made.table.size = sizeof(pq_codebook)
    if pq_codebook_init(&made.table, numbers, <int>count) != PQ_OK:
        raise ValueError("codebook: expected finite numbers, as float32, got others")
    return made


cdef tuple _BESIDE_BOOK = (
    ("zero_point", None), ("offset", None), ("fill", None), ("bias", None),
    ("rounding", "half_even"), ("precision", None), ("saturate", True),
    ("quant_range", None), ("out_of_range", "saturate"), ("nan", "lowest"), ("seed", None),
    ("start", None),
)


cdef _Affine _with_book(object codebook, object inverse, tuple others):
    """Return the options of a call with a codebook; all options in `others` must be
    defaults."""
    cdef _Affine made = _Affine()
    for (name, usual), value in zip(_BESIDE_BOOK, others):
        if value is not usual and not (isinstance(value, str) and value == usual):
            shows = isinstance(value, (str, int))
            got = _shown(value) if shows else type(value).__name__
            raise ValueError(f"{name}: expected {usual!r} beside codebook, got {got}")
    made.book = _book_of(codebook)
    made.inverse = _flag(inverse, "inverse")
    return made


cdef object _quantize_by_book(object x, object scale, object dtype, object axis,
                              object block_size, object packed, object out, object threads,
                              _Affine affine):
    cdef int bits = affine.book.table.bits
    if dtype is None:
        dtype = f"uint{bits}" if bits in (2, 4) and packed is not False else "uint8"
    if isinstance(packed, str):
        packed = (packed, None, bits)
    elif isinstance(packed, tuple) and len(packed) in (1, 2):
        packed = (*packed, None)[:2] + (bits,)
    return _quantize_any(x, scale, None, dtype, axis, block_size, _HALF_EVEN, None, True,
                         packed, out, threads, affine, False, False, False, False)


cdef object _dequantize_by_book(object q, object scale, object dtype, object axis,
                                object block_size, object out, object threads,
                                _Affine affine):
    if type(q) is not _ndarray and _dtype_said(q) is None:
        q = _codes_for(q, "uint8")
    return _dequantize(q, scale, None, dtype, axis, block_size, out, threads, affine, False)


cdef int _set_book(Call *call, _Codebook book, str code, bint quantizes,
                   int bits) except -1:
    """Store the table in the call, after the checks of type and width."""
    cdef int own = book.table.bits
    if code not in ("uint8", "uint4", "uint2"):
        raise TypeError(
            f"{'dtype' if quantizes else 'q'}: expected uint8, uint4 or uint2 beside "
            f"codebook, got {code}"
        )
    if bits == 0:  # width of the type; bytes hold any code
        bits = own if code == "uint8" else pq_type_bits(<pq_type><int>_CODES[code])
    if bits != own:
        raise ValueError(
            f"codebook: expected {1 << bits} numbers for codes of {bits} bits, "
            f"got {1 << own}"
        )
    call.book = &book.table
    return 0


cdef int _check_places(Call *call, object array) except -1:
    """Return True if all bytes are indices of the table."""
    cdef int bits = call.book.bits
    if bits == 8 or call.x.packed or call.x.type != PQ_U8 or _size(&call.x) == 0:
        return 0
    most = _np.maximum.reduce(array, axis=None)
    if most >> bits:
        raise ValueError(f"q: expected codes from 0 to {(1 << bits) - 1}, got {most}")
    return 0


cdef int _book_quantize_part(const Job *job, int part) noexcept nogil:
    return pq_codebook_quantize(
        _active, job.args, <const pq_codebook *>job.more, part, job.parts
    )


cdef int _book_dequantize_part(const Job *job, int part) noexcept nogil:
    return pq_codebook_dequantize(
        _active, job.args, <const pq_codebook *>job.more, part, job.parts
    )
