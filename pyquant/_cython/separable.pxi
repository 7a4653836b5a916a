# dequantize and requantize with scales that are products of two arrays.


cdef extern from *:
    """
    #include "kernels/kernels.h"

    /* Dequantize a row of a matrix of int32. */
    static void dequantize_row(const struct pq_kernels *kernels, const char *x, char *y,
                               float by, const float *scales, const float *offsets,
                               ptrdiff_t n)
    {
        kernels->dequantize_row(x, y, by, scales, offsets, (size_t)n);
    }

    /* Write products. Compilers vectorize the loop of 16 numbers, also with -O2. */
    static void multiply(float *restrict to, float by, const float *restrict x, ptrdiff_t n)
    {
        for (; n >= 16; n -= 16, x += 16, to += 16) {
            for (int i = 0; i < 16; i++) {
                to[i] = by * x[i];
            }
        }
        for (ptrdiff_t i = 0; i < n; i++) {
            to[i] = by * x[i];
        }
    }
    """
    const int PQ_MIN_ROW
    void dequantize_row(const pq_kernels *, const char *, char *, float, const float *,
                        const float *, ptrdiff_t) noexcept nogil
    void multiply(float *, float, const float *, ptrdiff_t) noexcept nogil


# Number of products of scales to compute at a time. The products fit the L1 cache and a
# thread's stack.
cdef enum:
    _PRODUCTS = 4096


cdef struct Pair:
    int[2] axes
    const float *first   # A scale for each index of the first axis.
    const float *second  # A scale for each index of the second axis.
    # A number for each index of the second axis, or NULL. For dequantize, float32 offsets.
    # For requantize, int64 biases, or int64 zero points if in_floats.
    const char *added
    const pq_requantization *more  # Arguments of requantize. NULL for dequantize.
    bint in_floats  # True to requantize by pq_dequantize and pq_quantize.
    int64_t zero    # Zero point of all columns, if in_floats and `added` is NULL.


cdef bint _is_joined(const pq_array *x, int a, int b, ptrdiff_t columns) noexcept nogil:
    """Return True if each row of `columns` elements begins where the previous row ends."""
    return x.strides[a] == columns * x.strides[b]


cdef int _requantize_rectangle(const pq_args *at, const Pair *pair, const float *scales,
                               const void *biases, ptrdiff_t *shape) noexcept nogil:
    """Requantize a rectangle, with a multiplier for each of its elements."""
    cdef pq_requantization args = pair.more[0]
    cdef int a = pair.axes[0], b = pair.axes[1], status
    cdef ptrdiff_t height = shape[a], width = shape[b]
    shape[a], shape[b] = 1, height * width
    args.shape, args.inp, args.out, args.axis = shape, at.inp, at.out, b
    args.multiplier = pq_channels(scales, sizeof(float), PQ_F32, 0)
    if pair.added != NULL:
        args.bias = pq_channels(biases, sizeof(int64_t), PQ_I64, 0)
    status = pq_requantize(_active, &args, 0, 1)
    shape[a], shape[b] = height, width
    return status


cdef int _requantize_in_floats(const pq_args *at, const Pair *pair,
                               const int64_t *zeros) noexcept nogil:
    """Requantize a rectangle of a matrix. Write products to a tile, then round the
    products."""
    cdef float[_PRODUCTS] tile
    cdef float one = 1
    cdef ptrdiff_t[2] equal = [0, 0]
    cdef ptrdiff_t[2] by_column = [0, sizeof(int64_t)]
    cdef pq_args args = at[0]
    cdef int status
    args.offset.data = NULL
    args.out = pq_array(&tile[0], args.scale.strides, PQ_F32, 0, NULL)
    args.zero = pq_array(<void *>&pair.zero, &equal[0], PQ_I64, 0, NULL)
    if pair.added != NULL:
        args.zero.data, args.zero.strides = <void *>zeros, &by_column[0]
    args.any_zeros = True
    status = pq_dequantize(_active, &args, 0, 1)
    if status != PQ_OK:
        return status
    args.any_zeros = False
    args.inp, args.out = args.out, at.out
    args.scale = pq_array(&one, &equal[0], PQ_F32, 0, NULL)
    args.zero = pq_array(<void *>&pair.more.zero, &equal[0], PQ_I64, 0, NULL)
    args.lowest_code, args.highest_code = pair.more.lowest_code, pair.more.highest_code
    return pq_quantize(_active, &args, 0, 1)


cdef inline bint _has_plain_rows(const pq_args *args, int b) noexcept nogil:
    """Return True if the input is int32, the result is float32, the elements of each row
    are adjacent, and there are no zero points."""
    cdef const pq_array *x = &args.inp
    cdef const pq_array *y = &args.out
    return (
        args.zero.data == NULL and x.type == PQ_I32 and y.type == PQ_F32
        and not x.swapped and not y.swapped
        and x.strides[b] == sizeof(int32_t) and y.strides[b] == sizeof(float)
    )


cdef int _pair_part(const Job *job, int part) noexcept nogil:
    """Compute the results for a share of the first axis, in rectangles of at most _PRODUCTS
    elements."""
    cdef const Pair *by = <const Pair *>job.more
    cdef pq_args args = job.args[0]
    cdef float[_PRODUCTS] scales
    cdef int64_t[_PRODUCTS] added
    cdef ptrdiff_t[PQ_MAX_NDIM] shape
    cdef ptrdiff_t[PQ_MAX_NDIM] strides
    cdef int a = by.axes[0], b = by.axes[1], status = PQ_OK
    cdef ptrdiff_t last = args.shape[a] * (part + 1) // job.parts
    cdef ptrdiff_t columns = args.shape[b], c = 0, width, height, r, i
    cdef ptrdiff_t size = sizeof(float) if by.more == NULL else sizeof(int64_t)
    cdef bint plain = by.more == NULL and args.ndim == 2 and _has_plain_rows(&args, b)
    cdef pq_fpenv found = pq_fpenv_enter()
    memcpy(shape, args.shape, args.ndim * sizeof(shape[0]))
    memset(strides, 0, sizeof(strides))
    args.shape = shape
    args.scale.strides = strides
    args.scale.data = scales
    if by.added != NULL:
        args.offset = pq_array(&added[0], &strides[0], PQ_F32, 0, NULL)
    strides[b] = sizeof(float)
    while c < columns and status == PQ_OK:
        width = shape[b] = min(columns - c, <ptrdiff_t>_PRODUCTS)
        height = _PRODUCTS // width
        if by.more != NULL and not by.in_floats and not (
            _is_joined(&args.inp, a, b, width) and _is_joined(&args.out, a, b, width)
        ):
            height = 1
        strides[a] = width * <ptrdiff_t>sizeof(float)
        for i in range(height if by.added != NULL else 0):
            memcpy(<char *>added + i * width * size, by.added + c * size, width * size)
        r = job.args.shape[a] * part // job.parts
        while r < last and status == PQ_OK:
            shape[a] = min(height, last - r)
            args.inp.data = (
                <char *>job.args.inp.data
                + r * args.inp.strides[a] + c * args.inp.strides[b]
            )
            args.out.data = (
                <char *>job.args.out.data
                + r * args.out.strides[a] + c * args.out.strides[b]
            )
            if plain and width >= PQ_MIN_ROW:
                for i in range(shape[a]):
                    dequantize_row(
                        _active, <char *>args.inp.data + i * args.inp.strides[a],
                        <char *>args.out.data + i * args.out.strides[a], by.first[r + i],
                        &by.second[c],
                        NULL if by.added == NULL else <const float *>by.added + c, width
                    )
                r += shape[a]
                continue
            for i in range(shape[a]):
                multiply(&scales[i * width], by.first[r + i], &by.second[c], width)
            if by.more == NULL:
                status = pq_dequantize(_active, &args, 0, 1)
            elif by.in_floats:
                status = _requantize_in_floats(&args, by, added)
            else:
                status = _requantize_rectangle(&args, by, scales, added, shape)
            r += shape[a]
        c += width
    pq_fpenv_leave(found)
    return status


cdef inline bint _is_pair(object scale):
    """Return True for a tuple of two arrays with one dimension."""
    if not PyTuple_CheckExact(scale) or len(<tuple>scale) != 2:
        return False
    return all([type(one) is _ndarray and one.ndim == 1 for one in <tuple>scale])


cdef object _singles(Call *call, object exact, object given, str name, Py_ssize_t n):
    """Return `n` aligned contiguous float32 numbers that share no memory with `out`."""
    array = _real_array(given, name)
    _checked_numbers(array, &call.scale, name)
    if array.shape != (n,):
        raise _error(ValueError, name, f"shape {(n,)}", array.shape)
    _check_overlap(call, exact, &call.scale, array, name)
    if call.scale.type == PQ_F32 and PyArray_ISCARRAY_RO(<const PyArrayObject *>array):
        return array
    return _np.ascontiguousarray(cast(array, "float32"))


cdef tuple _hold_pair(Call *call, object exact, tuple given, str name, Pair *pair):
    """Store two arrays of scales in `pair`. Return the objects that own the memory of the
    arrays."""
    first, second = [
        _singles(call, exact, one, name, call.x.shape[pair.axes[<int>i]])
        for i, one in enumerate(given)
    ]
    pair.first = <const float *>_data(first)
    pair.second = <const float *>_data(second)
    pair.added, pair.more = NULL, NULL
    memset(call.scale_strides, 0, sizeof(call.scale_strides))
    call.args.block = NULL
    call.args.scale = pq_array(<void *>pair.first, &call.scale_strides[0], PQ_F32, 0, NULL)
    return first, second


cdef tuple _pair_axes(Call *call, object axis, str name):
    """Return the two axes of separable scales."""
    if call.x.ndim < 2:
        got = f"shape {_shape(&call.x)}"
        raise _error(ValueError, "q", f"two or more dimensions beside two {name}", got)
    axes = _axes((-2, -1) if axis is None else axis, call.x.ndim)
    if len(axes) != 2:
        raise _error(ValueError, "axis", f"two integers beside two {name}", axis)
    return axes


cdef object _dequantize_by_pair(object q, tuple scale, object zero_point, object dtype,
                                object axis, object out, object offset, object threads):
    """Dequantize with products of two scales. `offset` has a number for each index of the
    second axis."""
    cdef Call call
    cdef Pair pair
    cdef pq_prepared plan
    cdef pq_type type = PQ_F32 if out is None else PQ_NO_TYPE
    _forget(&call)
    array = _code_array(q, "q")
    if isinstance(array, Packed):
        raise TypeError("q: expected an array beside two scales, got a PackedArray")
    if dtype is not None:
        type = _type_in(_REALS, dtype, "dtype", _REAL_LIST)
    zero_point = _zero_array(&call, zero_point)
    axis = integers(axis, "axis")
    threads = _threads_of(threads)
    _hold_code(&call, array, "q", scale)
    _set_input(&call)
    pair.axes = _pair_axes(&call, axis, "scales")
    _hold_zero(&call, zero_point, None)
    if call.zero.held and _size(&call.zero) != 1:
        got = f"shape {_shape(&call.zero)}"
        raise _error(ValueError, "zero_point", "one element beside two scales", got)
    _check_zero(&call, call.x.type)
    exact = _hold_out(&call, out, type)
    _check_apart(&call, exact, array, None, zero_point, None)
    scale = _hold_pair(&call, exact, scale, "scale", &pair)
    if offset is not None:
        offset = _singles(&call, exact, offset, "offset", call.x.shape[pair.axes[1]])
        pair.added = <const char *>_data(offset)
    if _size(&call.x) != 0:
        memset(call.zero_strides, 0, sizeof(call.zero_strides))
        plan.size = sizeof(plan)  # this plan only checks the call
        status = pq_prepare_dequantize(&plan, _active, &call.args)
        if status != PQ_OK:
            _raise(status, &call.out, &call.x, "q")
        _run_all(_pair_part, &call, &pair, threads, "q")
    return exact if out is None else out


cdef void _set_extremes(const float *x, ptrdiff_t n, float *ends) noexcept nogil:
    """Set `ends` to the least and the largest number, or both to NaN if one is NaN."""
    ends[0] = ends[1] = x[0]
    for i in range(1, n):
        if x[i] < ends[0] or x[i] != x[i]:
            ends[0] = x[i]
        if x[i] > ends[1]:
            ends[1] = x[i]


cdef int _check_pair(Call *call, Pair *pair, pq_requantization *args,
                     float *product) except -1:
    """Check the products of the least and greatest row and column multipliers.

    The least and the greatest of all products are among these four products. Return the
    status of C. After PQ_ERR_OPTION, `product` is the rejected product.
    """
    cdef float[2] rows
    cdef float[2] columns
    cdef int i, status = PQ_OK
    cdef pq_fpenv found = pq_fpenv_enter()
    args.multiplier = pq_channels(product, 0, PQ_F32, 0)
    _set_extremes(pair.first, call.x.shape[pair.axes[0]], rows)
    _set_extremes(pair.second, call.x.shape[pair.axes[1]], columns)
    for i in range(4):
        if status == PQ_OK:
            product[0] = rows[i // 2] * columns[i % 2]
            # The last of INT_MAX parts has no elements, so the call only checks arguments.
            status = pq_requantize(_active, args, INT_MAX - 1, INT_MAX)
    pq_fpenv_leave(found)
    return status


cdef bint _suits_floats(Call *call, pq_requantization *args):
    """Return True if pq_dequantize and pq_quantize can compute the codes of requantize."""
    if args.arithmetic != PQ_ARITHMETIC_FLOAT32 or call.x.ndim != 2:
        return False
    if call.x.type == PQ_I64:  # a code minus a zero point may exceed int64
        return False
    if not args.clips:
        return True
    if args.lowest_code == 0 and args.highest_code == 0:  # in pq_args, this means no range
        return False
    return args.lowest_code <= args.zero <= args.highest_code


cdef int _requantize_by_pair(Call *call, object exact, Pair *pair, tuple multiplier,
                             object bias, pq_requantization *args, object arithmetic,
                             int threads) except -1:
    """Requantize with products of two multipliers. `bias` has one number, or a number for
    each index of the second axis."""
    cdef float product
    multiplier = _hold_pair(call, exact, multiplier, "multiplier", pair)
    pair.more = args
    pair.in_floats = _suits_floats(call, args)
    pair.zero = args.input_zero
    if bias is not None:
        bias = _np.ascontiguousarray(bias, _np.int64)
        # With a bias of larger magnitude, the zero point minus the bias could exceed int64.
        if pair.in_floats and bias.size != 0:
            pair.in_floats = bias.min() > -(2**62) and bias.max() < 2**62
        if pair.in_floats:
            bias = args.input_zero - bias
        if args.bias.stride != 0:
            pair.added = <const char *>_data(bias)
        elif pair.in_floats:
            pair.zero = bias.item()
    if call.x.shape[pair.axes[0]] == 0 or call.x.shape[pair.axes[1]] == 0:
        return 0
    status = _check_pair(call, pair, args, &product)
    if status == PQ_ERR_OPTION:
        raise _refused_multiplier(arithmetic, product, None)
    if status != PQ_OK:
        _raise(status, &call.out, &call.x, "q")
    return _run_all(_pair_part, call, pair, threads, "q")
