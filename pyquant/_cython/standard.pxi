# The operators that standards define: check the arguments of a call, and run the call.


cdef object _standard = None  # the module; Operator imports it

# An Operator checks arguments in a fixed order. Each step reads one argument.
cdef enum:
    _INPUT, _SCALE, _ZERO, _DTYPE, _ROUNDING, _NONZERO, _PLACES, _FLOAT8, _PRECISION, _CLIPS
    _MOST_STEPS = 16


cdef dict _STEPS = {
    "input": _INPUT, "scale": _SCALE, "zero": _ZERO, "dtype": _DTYPE,
    "rounding": _ROUNDING, "nonzero": _NONZERO, "places": _PLACES, "float8": _FLOAT8,
    "precision": _PRECISION, "saturate": _CLIPS,
}

cdef object _NOTHING = 0  # for comparison with ONNX's defaults

# Rules for the shape of scales:
cdef enum:
    _BY_SCALAR    # A scale of rank 0, or a scale for each index of an axis.
    _BY_AXES      # A scale for each index of a set of axes.
    _BY_BLOCKS    # One scale, or one for each index of an axis or each block along an axis.
    _BY_ELEMENT   # One scale.
    _BY_AXIS      # A scale for each index of an axis.
    _BY_GROUPS    # A scale for each block. Block extents divide the extents of the input.


cdef dict _RULES = {"scalar": _BY_SCALAR, "axes": _BY_AXES, "blocks": _BY_BLOCKS}
cdef dict _QTYPES = {
    "per_tensor": _BY_ELEMENT, "per_channel": _BY_AXIS, "per_group": _BY_GROUPS
}

# Results of the steps of a call.
cdef struct Steps:
    bint foreign    # True if a step may have run user code.
    pq_type real    # Type of the input of quantize.
    pq_type code    # Type of the input of dequantize, or of the result of quantize.
    pq_type scale
    pq_type dtype   # The requested type.
    pq_type precision
    bint clips
    int n                 # Number of dimensions of the scales.
    signed char at[PQ_MAX_NDIM]  # Dimension of the input for each dimension of the scales.


@final
cdef class _Argument:
    """The name and the allowed element types of an argument that is an array."""

    cdef str name
    cdef tuple types  # Names of types. A Python number gets the first type that fits.
    cdef pq_type first    # The first of `types`.
    cdef bint[<int>PQ_TYPE_COUNT] allowed
    cdef bint follows      # The type is the type of another argument.
    cdef bint is_list      # An attribute, which is a number or a list.
    cdef bint is_required  # `None` is an error.
    cdef bint is_typing    # The type of zero points is the type of the result.

    def __init__(self, str name not None, tuple types=None, str kind=""):
        self.name, self.types, self.follows = name, types, types is None
        self.is_list, self.is_typing = kind == "list", kind == "typing"
        self.is_required = kind == "required"
        for one in reversed(types or ()):
            self.first = <pq_type><int>_TYPES[one]
            self.allowed[<int>self.first] = True


@final
cdef class _Type:
    """The name, the allowed types and the spellings of an argument that selects a type."""

    cdef str name
    cdef tuple types
    cdef dict spelled
    cdef str words  # Text before the types in error messages.
    cdef dict known  # The pq_type of each valid spelling.
    cdef bint optional  # True if 0 selects the default.

    def __init__(self, str name not None, tuple types not None, dict spelled not None,
                 str words=""):
        self.name, self.types, self.spelled, self.words = name, types, spelled, words
        self.known = {one: _TYPES[one] for one in types}
        for text, one in spelled.items():
            if one is None or one in types:
                self.known[text] = <int>PQ_NO_TYPE if one is None else _TYPES[one]
        self.optional = 0 in spelled


@final
cdef class Operator:
    """An operator that a standard defines. The keywords describe the checks, and the order
    of the keywords is the order of the checks.

    input, scale, zero: name, types and kind of an array. Without types, an array has the
    type of the input or of the result. The kind "list" accepts a number or a list, and
    "required" rejects `None`. Zero points of kind "typing" select the type of the result.
    dtype, precision: name, types, spellings of the types, and words for errors.
    rounding: name of the argument, and names of the modes.
    nonzero: the operator rejects scales of 0.
    places: the rule for the shape of scales, or the names of rules that `qtype` selects.
    float8: for float8 codes, "refuse" rejects zero points, "zeros" rejects zero points
    that are not 0, and "drop" ignores zero points of 0.
    saturate: the operator has this flag.

    `quotient` is the type of the division, by default the type of the scale.
    """

    cdef str standard
    cdef int count
    cdef int[_MOST_STEPS] steps
    cdef _Argument input, scale, zero
    cdef _Type dtype, precision
    cdef tuple remedy  # name and types of the argument that sets the type of zero points
    cdef str float8, mode
    cdef dict modes
    cdef int rule
    cdef dict rules
    cdef bint quantizes, zero_first, narrow_first, overflows
    cdef pq_type quotient

    def __init__(self, str standard not None, *, str quotient=None, bint zero_first=False,
                 bint narrow_first=False, bint overflows=False, **row):
        global _standard
        from pyquant import _standard as module

        _standard = module
        self.standard, self.overflows = standard, overflows
        self.zero_first, self.narrow_first = zero_first, narrow_first
        self.quotient = <pq_type><int>_REALS.get(quotient, <int>PQ_NO_TYPE)
        self.modes = {}
        for name in row:
            self.steps[self.count] = _STEPS[name]
            self.count += 1
        self.input, self.scale = _Argument(*row["input"]), _Argument(*row["scale"])
        self.zero = _Argument(*row["zero"])
        self.quantizes = self.input.allowed[<int>PQ_F32]
        self.dtype = _Type(*row["dtype"]) if "dtype" in row else None
        self.precision = _Type(*row["precision"]) if "precision" in row else None
        self.remedy = ("", self.zero.types or ())
        if self.dtype is not None:
            self.remedy = (self.dtype.name, self.dtype.types)
        self.float8 = row.get("float8")
        self.mode, modes = row.get("rounding", ("", {}))
        for name, one in modes.items():
            self.modes[name] = self.modes[one] = _ROUNDS[one]
        if isinstance(row["places"], tuple):
            self.rules = {name: _QTYPES[name] for name in row["places"]}
        else:
            self.rule = _RULES[row["places"]]

    def run(self, x, scale, zero_point, axis=None, out=None, threads=1, dtype=None,
            block_size=None, qtype=None, saturate=1, precision=0, rounding=None):
        """Check the arguments in the order of the operator's steps, and return the result.
        """
        cdef Call call
        cdef Steps found
        cdef pq_type type
        cdef int i, step
        unset = None if self.dtype is None else _NOTHING  # the default of `dtype`
        if (
            out is None and threads is _ONE and saturate is _ONE and precision is _NOTHING
            and rounding is None and dtype is unset and block_size is unset
        ):
            result = self._run_usual(x, scale, zero_point, axis)
            if result is not None:
                return result
        _forget(&call)
        memset(&found, 0, sizeof(found))
        found.clips = True
        call.args.zero.data = NULL
        call.zero.ndim = 0
        for i in range(self.count):
            step = self.steps[i]
            if step == _INPUT:
                x = self._take_input(&call, x, &found)
            elif step == _SCALE:
                scale = self._take_scale(&call, scale, &found)
            elif step == _ZERO:
                if zero_point is not None or self.zero.is_required:
                    zero_point = self._take_zero(&call, zero_point, &found)
            elif step == _DTYPE:
                self._take_dtype(dtype, &found)
            elif step == _ROUNDING:
                call.args.round = self._mode_of(rounding, &found)
            elif step == _NONZERO:
                self._check_nonzero(&call.scale)
            elif step == _PLACES:
                self._place(&call, axis, block_size, qtype, &found)
            elif step == _FLOAT8:
                if call.zero.held and _is_float8(found.code):
                    self._check_float8(&call, zero_point, found.code)
            elif step == _PRECISION:
                found.precision = self._type_of(self.precision, precision, &found)
            elif saturate is not _ONE:  # _CLIPS
                found.foreign = True
                found.clips = _standard.flag_of(saturate, "saturate", self.standard)
        if threads is not _ONE:
            found.foreign |= not PyLong_CheckExact(threads)
            threads = _threads_of(threads)
        if found.foreign:
            self._again(&call, x, scale, zero_point)
        type = self._finish(&call, &found)
        exact = _hold_out(&call, out, type)
        if isinstance(x, Packed):
            x = (<Packed>x)._words
        _check_overlap(&call, exact, &call.x, x, "the input")
        _check_overlap(&call, exact, &call.scale, scale, self.scale.name)
        _check_overlap(&call, exact, &call.zero, zero_point, self.zero.name)
        _run(&call, self.quantizes, threads)
        return exact if out is None else out

    cdef object _run_usual(self, object x, object scale, object zero, object axis):
        """Run the fast path, for a float32 scale and a zero point of rank 0. Return the
        result, or `None` if the call needs the general path."""
        cdef Run given
        cdef pq_args args
        cdef Array s, z
        cdef float scale_room
        cdef int64_t zero_room
        cdef pq_type code = PQ_U8
        if self.rules is not None or self.zero_first or not (
            PyLong_CheckExact(axis) if self.rule == _BY_BLOCKS
            else axis is None and self.rule == _BY_SCALAR
        ):
            return None
        if not _hold(scale, &s) or s.type != PQ_F32 or s.ndim != 0 or s.swapped:
            return None
        if not _is_run(x, &given) or not self.input.allowed[<int>given.type]:
            return None
        if not self.quantizes:
            code = given.type
        elif given.type != PQ_F32:
            return None
        args.zero.data = NULL
        if zero is not None:
            if not _hold(zero, &z) or z.ndim != 0 or z.swapped:
                return None
            if z.type != code if self.zero.follows else not self.zero.allowed[<int>z.type]:
                return None
            code = z.type
            memcpy(&zero_room, z.data, z.itemsize)
            args.zero = pq_array(&zero_room, &_same, code, False, NULL)
        if not _is_integer(code) or not 8 <= pq_type_bits(code) <= 16:
            return None
        memcpy(&scale_room, s.data, sizeof(scale_room))
        args.scale = pq_array(&scale_room, &_same, PQ_F32, False, NULL)
        _forget_options(&args)
        return _made_usual(&args, x, &given, code if self.quantizes else PQ_F32, None,
                           self.quantizes)

    cdef object _wrong(self, object kind, str name, str expected, object got):
        """Return the error about an argument. `got` is a text or an object to show."""
        text = got if type(got) is str else _shown(got)
        return kind(f"{name}: {self.standard} expects {expected}, got {text}")

    cdef int _again(self, Call *call, object x, object scale, object zero) except -1:
        """Update the descriptions of the arrays, because user code may have changed the
        arrays."""
        if isinstance(x, Packed):
            _hold_packed(call, x)
        else:
            _hold_again(x, &call.x, self.input.name)
        _hold_again(scale, &call.scale, self.scale.name)
        if call.zero.held:
            _hold_again(zero, &call.zero, self.zero.name)
        return 0

    cdef pq_type _finish(self, Call *call, Steps *found) except *:
        """Set the arguments of the core, and return the type of the result."""
        cdef pq_type type = PQ_U8 if found.code == PQ_NO_TYPE else found.code
        cdef int i
        _set_input(call)
        _set_placed(&call.args.scale, &call.scale, call.scale_strides)
        if call.zero.held:
            _set_placed(&call.args.zero, &call.zero, call.zero_strides)
        memset(call.scale_strides, 0, call.x.ndim * sizeof(ptrdiff_t))
        memset(call.zero_strides, 0, call.x.ndim * sizeof(ptrdiff_t))
        for i in range(found.n):
            call.scale_strides[found.at[i]] = call.scale.strides[i]
            if call.zero.ndim == found.n:
                call.zero_strides[found.at[i]] = call.zero.strides[i]
        if not self.quantizes:
            call.args.any_zeros = _is_integer(call.x.type)
            if found.dtype != PQ_NO_TYPE:
                return found.dtype
            return PQ_F32 if self.scale.is_list else found.scale
        call.args.zero_first = self.zero_first and _is_integer(type)
        call.args.narrow_first = self.narrow_first
        call.args.overflow = _is_float8(found.code) and (
            self.overflows or not found.clips
        )
        call.args.precision = found.precision
        if call.args.precision == PQ_NO_TYPE:
            call.args.precision = self.quotient
        if call.args.precision == PQ_NO_TYPE:
            call.args.precision = found.scale if _is_real(found.scale) else PQ_F32
        return type

    # ---- arrays ----

    cdef object _take(self, _Argument of, object values, pq_type only, Array *held,
                      void *room, pq_type *type, Steps *found):
        """Store the description of an array in `held`, and return the array. If `room` is
        not NULL, store a Python number in `room`, and return `None`. The element type must
        be `only`, or any allowed type of the argument if `only` is PQ_NO_TYPE."""
        cdef bint any_type = only == PQ_NO_TYPE
        if _hold(values, held):
            type[0] = held.type
            if of.allowed[<int>held.type] if any_type else held.type == only:
                return values
        type[0] = of.first if any_type else only
        if room != NULL and _hold_number(values, held, type[0], room):
            return None
        if isinstance(values, Packed):
            _check_made(<Packed>values)
            type[0] = <pq_type><int>_CODES[(<Packed>values)._dtype]
            if of.allowed[<int>type[0]] if any_type else type[0] == only:
                array = _unpacked(values, type)
                _hold(array, held)
                held.type = type[0]
                return array
        array = _numbers(values, type[0])
        if array is None:
            found.foreign = True
            array, name = _standard.converted(
                values, of.name, self.standard,
                of.types if any_type else (_NAMES[<int>only],),
                self.remedy if of is self.zero and self.quantizes else ("", ())
            )
            type[0] = <pq_type><int>_TYPES[name] if any_type else only
        if not _hold(array, held):
            raise _changed(of.name)
        return array

    cdef object _take_input(self, Call *call, object x, Steps *found):
        cdef pq_type type = PQ_NO_TYPE
        if isinstance(x, Packed) and self.input.allowed[<int>_CODES[(<Packed>x)._name]]:
            _hold_packed(call, x)
            type = call.x.type
        else:
            x = self._take(self.input, x, PQ_NO_TYPE, &call.x, NULL, &type, found)
        if self.quantizes:
            found.real = type
        else:
            found.code = type
        return x

    cdef object _take_scale(self, Call *call, object scale, Steps *found):
        cdef pq_type only = PQ_NO_TYPE
        if self.scale.follows:
            only = found.real if self.quantizes else found.dtype
        scale = self._take(self.scale, scale, only, &call.scale, &call.scale_value,
                           &found.scale, found)
        if self.scale.is_list:
            scale = self._as_list(self.scale, scale, &call.scale)
            if call.scale.swapped or call.scale.type not in (PQ_F32, PQ_F64):
                scale = cast(scale, "float32")
                _hold(scale, &call.scale)
        return scale

    cdef object _take_zero(self, Call *call, object zero, Steps *found):
        cdef pq_type only = PQ_NO_TYPE, type = PQ_NO_TYPE
        if self.zero.follows:
            only = found.code
        elif self.zero.is_typing and is_untyped(zero):
            only = PQ_U8 if found.dtype == PQ_NO_TYPE else found.dtype
        zero = self._take(self.zero, zero, only, &call.zero, &call.zero_value, &type, found)
        if self.zero.is_list:
            zero = self._as_list(self.zero, zero, &call.zero)
        if self.zero.is_typing:
            if found.dtype != PQ_NO_TYPE and type != found.dtype:
                raise self._wrong(
                    ValueError, self.dtype.name,
                    f"the type of {self.zero.name}, {_NAMES[<int>type]}",
                    _NAMES[<int>found.dtype]
                )
            found.code = type
        return zero

    cdef object _as_list(self, _Argument of, object values, Array *held):
        """Return an attribute as an array with one dimension, or raise an error."""
        if held.ndim > 1:
            raise self._wrong(ValueError, of.name, "a list", f"shape {_shape(held)}")
        if held.ndim == 0:
            held.ndim = held.shape[0] = 1
            held.strides[0] = held.itemsize
            return None if values is None else _np.reshape(values, -1)
        return values

    cdef int _check_nonzero(self, Array *scales) except -1:
        """Raise an error if a scale is 0 after conversion to float32."""
        cdef pq_fpenv env = pq_fpenv_enter()  # so that subnormal numbers differ from 0
        cdef Py_ssize_t i = 0
        cdef double value = 0
        cdef float single = 1
        cdef bint any_zero = False
        for i in range(scales.shape[0]):
            memcpy(&value, scales.data + i * scales.strides[0], scales.itemsize)
            memcpy(&single, &value, sizeof(single))
            if scales.type == PQ_F64:
                single = <float>value
            any_zero = single == 0
            if any_zero:
                break
        pq_fpenv_leave(env)
        if any_zero:
            raise self._wrong(ValueError, self.scale.name, "no zero", f"one at index {i}")
        return 0

    cdef int _check_float8(self, Call *call, object zero, pq_type code) except -1:
        cdef str name = _NAMES[<int>code]
        if self.float8 == "refuse":
            raise self._wrong(ValueError, self.zero.name, f"None for {name}", "zero points")
        if _standard.all_zero(zero):
            call.zero.held = self.float8 != "drop"
        elif self.float8 == "zeros":
            got = "another number"
            raise self._wrong(ValueError, self.zero.name, f"zeros for {name}", got)
        return 0

    # ---- types and modes ----

    cdef pq_type _type_of(self, _Type of, object given, Steps *found) except *:
        """Return the type that an argument selects, or PQ_NO_TYPE for the default."""
        if given is _NOTHING and of.optional:
            return PQ_NO_TYPE
        kind, number = type(given), None
        if kind is str or kind is int:
            number = of.known.get(given)
        elif _may_spell(given):
            number = of.known.get(_SPELLED.get(given))
        if number is not None:
            return <pq_type><int>number
        found.foreign = True
        name = _standard.type_of(given, of.types, of.spelled)
        if name is None or name in of.types:
            return <pq_type><int>(PQ_NO_TYPE if name is None else _TYPES[name])
        some = " or ".join(", ".join(of.types).rsplit(", ", 1))
        kind = ValueError if name == "dynamic" else TypeError
        raise self._wrong(kind, of.name, f"{of.words}{some}", name)

    cdef int _take_dtype(self, object dtype, Steps *found) except -1:
        found.dtype = self._type_of(self.dtype, dtype, found)
        if self.quantizes:
            found.code = found.dtype
        elif found.dtype == PQ_NO_TYPE and not _is_real(found.scale):
            name = _NAMES[<int>found.scale]
            expected = f"a type where {self.scale.name} is {name}"
            raise self._wrong(ValueError, self.dtype.name, expected, dtype)
        return 0

    cdef pq_round _mode_of(self, object rounding, Steps *found) except *:
        found.foreign |= type(rounding) is not str
        number = self.modes.get(rounding) if isinstance(rounding, str) else None
        if number is None:
            number = _standard.mode_of(rounding, self.modes, self.mode, self.standard)
        return <pq_round><int>number

    # ---- places ----

    cdef int _place(self, Call *call, object axis, object block, object qtype,
                    Steps *found) except -1:
        """Find the dimensions of the scales, and check all shapes."""
        cdef int ndim = call.x.ndim, rule = self.rule, d
        cdef int64_t size = 0, at = 0
        cdef bint single = call.scale.ndim <= 1 and _size(&call.scale) == 1
        call.args.block = NULL
        if self.rules is not None:
            rule = self._rule_of(qtype, block)
        elif rule == _BY_AXES:
            self._take_axes(axis, ndim, found)
        elif rule == _BY_BLOCKS:
            size = self._integer(block, "block_size", found)
            at = self._integer(axis, "axis", found)
            if size < 0:
                raise self._wrong(ValueError, "block_size", "0 or more", block)
        if self.rules is None:
            self._match_zero(call, rule == _BY_BLOCKS and call.zero.ndim < 2)
        if rule == _BY_BLOCKS and single:
            return 0
        if rule == _BY_SCALAR:
            if axis is not None:
                rule = _BY_AXIS
            elif call.scale.ndim != 0:
                self._misplaced(call, "a scalar without axis")
        elif rule == _BY_BLOCKS and size == 0:
            if call.scale.ndim > 1:
                self._misplaced(call, "a scalar or one dimension without block_size")
            rule = _BY_AXIS
        elif rule == _BY_AXES and call.scale.ndim != found.n:
            expected = f"as many dimensions as axes, {found.n}"
            raise self._wrong(ValueError, self.scale.name, expected, call.scale.ndim)
        elif rule == _BY_ELEMENT and not single:
            got = _shape(&call.scale)
            raise self._wrong(ValueError, self.scale.name, "one element", got)
        if rule == _BY_AXIS or rule == _BY_BLOCKS:
            at = self._integer(axis, "axis", found)
            if not -ndim <= at < ndim:
                raise _axis_error(index(axis), ndim, f"axis: {self.standard}")
            found.n = 1
            found.at[0] = <signed char>(at + ndim if at < 0 else at)
        if rule == _BY_BLOCKS or rule == _BY_GROUPS:
            call.args.block = call.block
            found.n = ndim
            for d in range(ndim):
                call.block[d] = 1
                if rule == _BY_BLOCKS and d == found.at[0]:
                    call.block[d] = max(1, min(size, call.x.shape[d]))
            for d in range(ndim):
                found.at[d] = <signed char>d
        if rule == _BY_GROUPS:
            self._take_groups(call, block, found)
        if found.n or rule == _BY_GROUPS:
            self._match_scale(call, found)
        if self.rules is not None:
            self._match_zero(call, rule != _BY_GROUPS)
        return 0

    cdef int _misplaced(self, Call *call, str expected) except -1:
        got = f"shape {_shape(&call.scale)}"
        raise self._wrong(ValueError, self.scale.name, expected, got)

    cdef int _match_scale(self, Call *call, Steps *found) except -1:
        cdef bint fits = call.scale.ndim == found.n
        cdef Py_ssize_t[PQ_MAX_NDIM] extents
        cdef int i
        call.args.shape = call.x.shape
        for i in range(found.n):
            extents[i] = call.x.shape[found.at[i]]
            if call.args.block != NULL:
                extents[i] = _blocks_along(call, i)
            fits = fits and call.scale.shape[i] == extents[i]
        if not fits:
            due = _extents(found.n, extents)
            got = f"{_shape(&call.scale)}{self._fitting(call)}"
            raise self._wrong(ValueError, self.scale.name, f"shape {due}", got)
        return 0

    cdef str _fitting(self, Call *call):
        """Return the end of an error message: axes that fit scales with one dimension."""
        axes = [d for d in range(call.x.ndim) if call.x.shape[d] == call.scale.shape[0]]
        if call.scale.ndim != 1 or not axes or call.args.block != NULL:
            return ""
        if self.rules is None and self.rule == _BY_AXES:
            return f", which fits axes=({axes[0]},)"
        return f", which fits axis={' or '.join(map(str, axes))}"

    cdef int _match_zero(self, Call *call, bint any_rank) except -1:
        """Check that zero points have the shape of the scales. If `any_rank`, a single zero
        point of another rank fits a single scale."""
        if not call.zero.held or _same_shape(&call.zero, &call.scale):
            return 0
        if any_rank and _size(&call.zero) == _size(&call.scale) == 1:
            return 0
        due = f"the shape of {self.scale.name}, {_shape(&call.scale)}"
        raise self._wrong(ValueError, self.zero.name, due, _shape(&call.zero))

    cdef int _rule_of(self, object qtype, object groups) except -1:
        text = qtype
        if type(qtype) is not str:
            text = str.__str__(qtype) if isinstance(qtype, str) else None
        rule = self.rules.get(text)
        if rule is None:
            kind = TypeError if text is None else ValueError
            expected = f"one of {', '.join(self.rules)}"
            raise self._wrong(kind, "qtype", expected, _shown(qtype))
        if groups is not None and rule != _BY_GROUPS:
            expected = f"None with qtype {_shown(qtype)}"
            raise self._wrong(ValueError, "group_shape", expected, _shown(groups))
        return rule

    cdef int64_t _integer(self, object value, str name, Steps *found) except? -1:
        """Return `value` as an int64. Integers beyond int64 become INT64_MAX or -INT64_MAX.
        """
        cdef int beyond = 0
        cdef int64_t nearest
        cdef object number = value
        if not PyLong_CheckExact(value):
            found.foreign = True
            try:
                number = index(value)
            except TypeError:
                number = None
            if number is None:
                raise self._wrong(TypeError, name, "an integer", type(value).__name__)
        nearest = PyLong_AsLongLongAndOverflow(number, &beyond)
        return beyond * INT64_MAX if beyond else nearest

    cdef tuple _integers(self, object values, str name, str expected, Steps *found):
        found.foreign |= type(values) is not tuple
        try:
            numbers = tuple(values)
            for one in numbers:
                found.foreign |= not PyLong_CheckExact(one)
            return tuple([index(one) for one in numbers])
        except TypeError:
            pass
        raise self._wrong(TypeError, name, expected, _shown(values))

    cdef int _take_axes(self, object axes, int ndim, Steps *found) except -1:
        """Store a set of nonnegative axes in `found`."""
        if type(axes) is tuple and not axes:
            return 0
        numbers = self._integers(axes, "axes", "a set of integers", found)
        for axis in sorted(set(numbers)):
            if not 0 <= axis < ndim:
                raise _axis_error(axis, ndim, f"axes: {self.standard}")
            found.at[found.n] = axis
            found.n += 1
        return 0

    cdef int _take_groups(self, Call *call, object groups, Steps *found) except -1:
        """Check that the extents of groups divide the extents of the input. Store the
        extents in call.block."""
        cdef int d = 0
        if groups is None:
            expected = "an integer for each dimension"
            raise self._wrong(ValueError, "group_shape", expected, "None")
        numbers = self._integers(groups, "group_shape", "integers", found)
        fits = len(numbers) == call.x.ndim
        for one in numbers if fits else ():
            if one < 1 or call.x.shape[d] % one:
                fits = False
            else:
                call.block[d] = _within(one, call.x.shape[d])
            d += 1
        if not fits:
            due = f"divisors of shape {_shape(&call.x)}"
            raise self._wrong(ValueError, "group_shape", due, _shown(groups))
        return 0


cdef inline bint _is_float8(pq_type type) noexcept:
    return _is_narrow_float(type) and pq_type_bits(type) == 8


cdef object _changed(str name):
    return _error(ValueError, name, "an array that stays as it is", "a changed one")


cdef int _hold_again(object array, Array *held, str name) except -1:
    """Update the description of an array. Raise an error if its shape or element size
    changed."""
    cdef Array now
    cdef int d
    if array is None:  # a number
        return 0
    if not (
        _hold(array, &now) and now.itemsize == held.itemsize and _same_shape(&now, held)
    ):
        raise _changed(name)
    held.data = now.data
    for d in range(now.ndim):
        held.strides[d] = now.strides[d]
    return 0


cdef bint _hold_number(object given, Array *held, pq_type type, void *room) except -1:
    """Store a Python number, or the only number of a list, in `room` as the type `type`.
    Return False for any other object, or if the number does not fit the type."""
    cdef tuple one
    cdef bint is_list = PyList_CheckExact(given) or PyTuple_CheckExact(given)
    if not (
        type == PQ_F32 or type == PQ_F64 or (_is_integer(type) and type != PQ_U64)
    ) or not (is_list or PyFloat_CheckExact(given) or PyLong_CheckExact(given)):
        return False
    one = tuple(given) if is_list else (given,)
    if len(one) != 1 or not _put(one, type, room):
        return False
    held.data = <char *>room
    held.ndim = is_list
    held.shape[0] = 1
    held.type = row_of_type(type).carrier
    held.strides[0] = held.itemsize = pq_type_size(held.type)
    held.held = held.readonly = True
    held.swapped = False
    return True
