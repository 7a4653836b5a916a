/* SPDX-License-Identifier: Apache-2.0 */
#include "args.h"

#include <string.h>

#include "engine/params.h"
#include "engine/sweep.h"
#include "pq_compiler.h"
#include "types.h"

/* The largest number of elements, and the largest byte offset. Multiplied by the size of an
 * element, neither overflows. */
#define MAX_EXTENT (PTRDIFF_MAX / 16)
/* The largest bit offset. */
#define MOST_BITS (PTRDIFF_MAX / 8)

/* ---- sizes of structs ---- */

enum {
    FIRST_ARGS = offsetof(struct pq_args, highest) + sizeof(struct pq_array),
    LARGEST = 1 << 16 /* largest valid `size`, in bytes */
};

enum pq_status pq_copy_struct(void *to, const void *given, size_t size, size_t least)
{
    size_t has;
    PQ_REQUIRE(given != NULL, PQ_ERR_NULL);
    memcpy(&has, given, sizeof has);
    PQ_REQUIRE(has == size || (has >= least && has <= LARGEST), PQ_ERR_SIZE);
    for (size_t i = size; i < has; i++) {
        PQ_REQUIRE(((const char *)given)[i] == 0, PQ_ERR_SIZE);
    }
    const size_t copied = has < size ? has : size;
    memmove(to, given, copied);
    memset((char *)to + copied, 0, size - copied);
    memcpy(to, &size, sizeof size); /* the copy has the size of this version */
    return PQ_OK;
}

enum pq_status pq_adapt_args_version(const struct pq_args **args, struct pq_args *room)
{
    if (*args != NULL && (*args)->size == sizeof *room) {
        return PQ_OK;
    }
    PQ_TRY(pq_copy_struct(room, *args, sizeof *room, FIRST_ARGS));
    *args = room;
    return PQ_OK;
}

/* ---- shapes and strides ---- */

/* The product of two numbers with this many bits does not overflow. */
enum { FACTOR_BITS = (int)sizeof(ptrdiff_t) * 4 - 1 };

/* Return true if a * b <= most, for a, b >= 0. Small factors need no division, which would
 * take as long as all other checks of a call. */
static bool is_product_within(ptrdiff_t a, ptrdiff_t b, ptrdiff_t most)
{
    return (a | b) >> FACTOR_BITS == 0 ? a * b <= most : b == 0 || a <= most / b;
}

enum pq_status pq_check_shape(const struct pq_args *args)
{
    ptrdiff_t count = 1; /* the product of the extents that are not 0 */
    PQ_REQUIRE(args->ndim >= 0 && args->ndim <= PQ_MAX_NDIM, PQ_ERR_NDIM);
    PQ_REQUIRE(args->ndim == 0 || args->shape != NULL, PQ_ERR_NULL);
    for (int d = 0; d < args->ndim; d++) {
        const ptrdiff_t extent = args->shape[d];
        PQ_REQUIRE(extent >= 0 && (args->block == NULL || args->block[d] >= 1) &&
                       is_product_within(count, extent, MAX_EXTENT),
                   PQ_ERR_SHAPE);
        count *= extent > 0 ? extent : 1;
    }
    return PQ_OK;
}

bool pq_is_empty(const struct pq_args *args)
{
    for (int d = 0; d < args->ndim; d++) {
        if (args->shape[d] == 0) {
            return true;
        }
    }
    return false;
}

/* Return true if the distance of the lowest and the highest element in memory is less
 * than `most`, in the unit of the strides. */
static bool fits_span(const struct pq_args *args, const ptrdiff_t *strides, bool blocks,
                      ptrdiff_t most)
{
    const ptrdiff_t *const block = blocks ? args->block : NULL;
    ptrdiff_t span = 0;
    for (int d = 0; d < args->ndim; d++) {
        const ptrdiff_t last = args->shape[d] - 1;
        if (last <= 0 || strides[d] == 0) {
            continue;
        }
        const ptrdiff_t steps = block == NULL || block[d] == 1 ? last : last / block[d];
        const ptrdiff_t stride = strides[d] == PTRDIFF_MIN ? most
                                 : strides[d] < 0          ? -strides[d]
                                                           : strides[d];
        if (!is_product_within(steps, stride, most - span)) {
            return false;
        }
        span += steps * stride;
    }
    return span < most;
}

enum pq_status pq_check_array(const struct pq_args *args, const struct pq_array *array,
                              bool blocks)
{
    PQ_REQUIRE(array->data != NULL, PQ_ERR_NULL);
    if (array->bit_strides != NULL && !blocks) {
        return fits_span(args, array->bit_strides, false, MOST_BITS) ? PQ_OK : PQ_ERR_SHAPE;
    }
    PQ_REQUIRE(args->ndim == 0 || array->strides != NULL, PQ_ERR_NULL);
    return fits_span(args, array->strides, blocks, MAX_EXTENT) ? PQ_OK : PQ_ERR_SHAPE;
}

/* ---- layouts ---- */

/* Return true if `order` contains each number below `n` once. `n` is at most 256. */
static bool is_permutation(const unsigned char *order, int n)
{
    bool found[256] = {false};
    for (int i = 0; i < n; i++) {
        if (order[i] >= n || found[order[i]]) {
            return false;
        }
        found[order[i]] = true;
    }
    return true;
}

static bool is_valid_layout(const struct pq_args *args, const struct pq_layout *layout)
{
    const int word = layout->word_bits;
    const bool words = word == 8 || word == 16 || word == 32 || word == 64;
    const bool orders =
        layout->order == NULL || (layout->group >= 1 && layout->group <= 256 &&
                                  is_permutation(layout->order, layout->group));
    return layout->axis >= 0 && layout->axis < args->ndim && words && orders &&
           layout->word_stride % 8 == 0;
}

/* Return true if streams begin at bit 0 of a byte, and no offset of a word overflows. */
static bool streams_fit(const struct pq_args *args, const struct pq_array *array,
                        const struct pq_layout *layout)
{
    ptrdiff_t shape[PQ_MAX_NDIM], strides[PQ_MAX_NDIM];
    struct pq_args words = *args;
    for (int d = 0; d < args->ndim; d++) {
        shape[d] = args->shape[d];
        strides[d] = array->bit_strides[d];
        if (d == layout->axis) {
            /* An upper bound of the number of words: it assumes the most bits for each
             * code, and 256 further codes that complete the last group. */
            const ptrdiff_t bits = layout->bits > 8 ? layout->bits : 8;
            const ptrdiff_t most = (shape[d] + 256) / layout->word_bits * bits + bits;
            shape[d] = shape[d] > 0 ? most : 0;
            strides[d] = layout->word_stride;
        } else if (shape[d] > 1 && strides[d] % 8 != 0) {
            return false;
        }
    }
    words.shape = shape;
    return fits_span(&words, strides, false, MOST_BITS);
}

PQ_NOINLINE enum pq_status check_layout(const struct pq_args *args,
                                        const struct pq_array *array,
                                        const struct pq_layout *layout)
{
    struct pq_layout copy;
    const int all = pq_type_bits(array->type);
    const bool part = array->type == PQ_U8 && layout->bits >= 1 && layout->bits <= 8;
    const bool is_24_bit = array->type == PQ_I32 && layout->bits == 24 &&
                           layout->order == NULL && layout->word_bits == 8 &&
                           layout->word_stride == 8;
    PQ_REQUIRE(array->bit_strides != NULL, PQ_ERR_NULL);
    PQ_TRY(pq_copy_struct(&copy, layout, sizeof copy, sizeof copy));
    PQ_REQUIRE(is_24_bit || (pq_is_code(array->type) && all <= 8 &&
                             (layout->bits == 0 || layout->bits == all || part)),
               PQ_ERR_TYPE);
    return is_valid_layout(args, layout) && streams_fit(args, array, layout) ? PQ_OK
                                                                             : PQ_ERR_SHAPE;
}

static enum pq_status check_array_and_layout(const struct pq_args *args,
                                             const struct pq_array *array,
                                             const struct pq_layout *layout)
{
    return layout == NULL        ? pq_check_array(args, array, false)
           : array->data == NULL ? PQ_ERR_NULL
                                 : check_layout(args, array, layout);
}

/* ---- calls ---- */

/* Return true if the array has byte strides, or if its elements can have bit strides:
 * they have a layout or fewer than 8 bits. */
static bool has_valid_bit_strides(const struct pq_array *array,
                                  const struct pq_layout *layout)
{
    return array->bit_strides == NULL || layout != NULL || pq_bits_of(array->type) < 8;
}

/* Return PQ_ERR_NULL if a status is PQ_ERR_NULL, else the first error, else PQ_OK. */
static enum pq_status worse_status(enum pq_status status, enum pq_status other)
{
    return status == PQ_OK || other == PQ_ERR_NULL ? other : status;
}

enum pq_status pq_check_call(const struct pq_args **given, struct pq_args *room,
                             const struct pq_kernels *kernels, bool scaled, int part,
                             int parts)
{
    PQ_TRY(pq_adapt_args_version(given, room));
    const struct pq_args *const args = *given;
    PQ_TRY(kernels != NULL ? pq_check_shape(args) : PQ_ERR_NULL);
    enum pq_status status = check_array_and_layout(args, &args->in, args->in_layout);
    status =
        worse_status(status, check_array_and_layout(args, &args->out, args->out_layout));
    bool types = has_valid_bit_strides(&args->in, args->in_layout) &&
                 has_valid_bit_strides(&args->out, args->out_layout);
    const struct pq_array *const params[] = {&args->scale, &args->zero, &args->offset};
    for (int k = 0; scaled && k < 3; k++) {
        if (k == 0 || params[k]->data != NULL) { /* zero points and offsets are optional */
            status = worse_status(status, pq_check_array(args, params[k], true));
            types = types && params[k]->bit_strides == NULL &&
                    pq_type_info(params[k]->type) != NULL;
        }
    }
    PQ_TRY(status);
    PQ_TRY(pq_check_part(part, parts));
    return types ? PQ_OK : PQ_ERR_TYPE;
}

bool pq_has_valid_zero_type(const struct pq_args *args, enum pq_type code)
{
    return args->zero.data == NULL || pq_is_integer(args->zero.type) ||
           (pq_is_narrow_float(code) && args->zero.type == code);
}

enum pq_status pq_check_reals(const struct pq_args *args, const struct pq_array *array)
{
    PQ_TRY(pq_check_shape(args));
    PQ_TRY(pq_check_array(args, array, false));
    return pq_is_real(array->type) && array->bit_strides == NULL ? PQ_OK : PQ_ERR_TYPE;
}

enum pq_status pq_check_reduction(const struct pq_kernels *kernels,
                                  const struct pq_args *args, const struct pq_array *lowest,
                                  const struct pq_array *highest, int part, int parts)
{
    PQ_REQUIRE(kernels != NULL, PQ_ERR_NULL);
    PQ_TRY(pq_check_reals(args, &args->in));
    PQ_TRY(pq_check_array(args, lowest, true));
    PQ_TRY(pq_check_array(args, highest, true));
    PQ_TRY(pq_check_part(part, parts));
    return lowest->bit_strides == NULL && highest->bit_strides == NULL ? PQ_OK
                                                                       : PQ_ERR_TYPE;
}

/* ---- zero points ---- */

/* Process a row of `n` zero points. for_each_zero_row() calls the function for each row, in
 * C order, until a call returns false. */
typedef bool look_fn(void *what, struct pq_params row, size_t n);

static bool for_each_zero_row(const struct pq_args *args, look_fn *look, void *what)
{
    const struct pq_array *const zero = &args->zero;
    struct pq_sweep sweep;
    ptrdiff_t count[PQ_MAX_NDIM];
    for (int d = 0; d < args->ndim; d++) {
        const ptrdiff_t block = args->block != NULL ? args->block[d] : 1;
        count[d] = zero->strides[d] != 0 ? (args->shape[d] - 1) / block + 1 : 1;
    }
    pq_sweep_init(&sweep, NULL, zero, args->ndim, count);
    do {
        const struct pq_params row = {sweep.row, sweep.stride[0], zero->type,
                                      zero->swapped};
        if (!look(what, row, (size_t)sweep.extent[0])) {
            return false;
        }
    } while (pq_sweep_next_row(&sweep));
    return true;
}

/* Load zero point `i` of a row. A uint64 value is returned in two's complement. A narrow
 * float 0 is returned as 0, and every other narrow float as INT64_MAX. */
static int64_t load_zero(const struct pq_params *row, size_t i)
{
    const struct pq_params one = {row->data + (ptrdiff_t)i * row->stride, 0, row->type,
                                  row->swapped};
    float v;
    if (pq_is_integer(row->type)) {
        return pq_load_integer(&one);
    }
    pq_load_zeros_f32(&v, &one, 1);
    return v == 0 ? 0 : INT64_MAX;
}

/* Run `statements` for each zero point `v` of a row. Compilers vectorize the first loop. It
 * alternates between `parts` parts of the row, so that steps of two parts overlap. */
#define FOR_ZEROS(type, parts, statements)                                                 \
    type v;                                                                                \
    const size_t part = row.stride == (ptrdiff_t)sizeof v ? n / (parts) : 0;               \
    for (size_t i = 0; i < part; i++) {                                                    \
        for (size_t k = 0; k < (parts); k++) {                                             \
            memcpy(&v, row.data + (k * part + i) * sizeof v, sizeof v);                    \
            statements;                                                                    \
        }                                                                                  \
    }                                                                                      \
    for (size_t i = (parts) * part; i < n; i++) {                                          \
        memcpy(&v, row.data + (ptrdiff_t)i * row.stride, sizeof v);                        \
        statements;                                                                        \
    }

/* OR the zero points of a row into `zero_highest`, with the bits of negative zero points
 * inverted. With SSE2, a search for extrema would take 2 to 4 times as long. */
#define ADD_ROW(type)                                                                      \
    {                                                                                      \
        type all = 0, positive = 0;                                                        \
        if (is_signed) {                                                                   \
            FOR_ZEROS(type, 1, all = (type)(all | v);                                      \
                      v = (type)(v ^ (type)(0 - (v >> (8 * sizeof v - 1))));               \
                      positive = (type)(positive | v))                                     \
        } else {                                                                           \
            FOR_ZEROS(type, 2, all = (type)(all | v))                                      \
        }                                                                                  \
        facts->zero_highest |= is_signed ? positive : all;                                 \
        facts->zero_lowest |= -(is_signed && all >> (8 * sizeof all - 1) != 0);            \
        break;                                                                             \
    }

/* Widen the bounds to include a row of zero points. For a single zero point, compilers
 * remove the loops. */
PQ_INLINE void widen_bounds(struct pq_facts *facts, struct pq_params row, size_t n)
{
    const bool is_signed = pq_lowest_of(row.type) < 0;
    switch (row.swapped || !pq_is_integer(row.type) ? 0 : pq_bits_of(row.type)) {
    case 8:
        ADD_ROW(uint8_t)
    case 16:
        ADD_ROW(uint16_t)
    case 32:
        ADD_ROW(uint32_t)
    case 64:
        ADD_ROW(uint64_t)
    default:
        for (size_t i = 0; i < n; i++) {
            const int64_t zero = load_zero(&row, i);
            facts->zero_highest |= (uint64_t)(is_signed && zero < 0 ? ~zero : zero);
            facts->zero_lowest |= -(is_signed && zero < 0);
        }
    }
}
#undef ADD_ROW

static bool widen_by_row(void *facts, struct pq_params row, size_t n)
{
    widen_bounds(facts, row, n);
    return true;
}

/* Find the bounds of all zero points, unless an earlier call has found them. */
static void find_zero_bounds(const struct pq_args *args, struct pq_facts *facts)
{
    const struct pq_array *const zero = &args->zero;
    ptrdiff_t all = 1;
    if (facts->has_bounds || zero->data == NULL) {
        return;
    }
    for (int d = 0; d < args->ndim; d++) {
        all *= zero->strides[d] != 0 || args->shape[d] == 0 ? args->shape[d] : 1;
    }
    facts->has_bounds = true;
    facts->no_zeros = all == 0;
    if (all == 1) { /* most calls have at most one zero point */
        const struct pq_params one = {zero->data, 0, zero->type, zero->swapped};
        widen_bounds(facts, one, 1);
    } else if (all > 1) {
        for_each_zero_row(args, widen_by_row, facts);
    }
    facts->zero_lowest = facts->zero_lowest < 0 ? ~(int64_t)facts->zero_highest : 0;
}

/* The limits of zero points: int64, or if `is_unsigned`, uint64 in two's complement. */
struct bounds {
    int64_t lo, hi;
    bool is_unsigned;
    int64_t last; /* the last zero point that check_each_zero() read */
};

/* Check each zero point of a row. A uint64 beyond int64 is out of range, unless the bounds
 * are unsigned. A narrow float other than 0 is out of range, too. Signed values are
 * compared as unsigned values with a flipped sign bit. */
static bool check_each_zero(void *what, struct pq_params row, size_t n)
{
    struct bounds *const bounds = what;
    const bool is_signed = row.type == PQ_U64 && !bounds->is_unsigned;
    const uint64_t sign = bounds->is_unsigned ? 0 : UINT64_C(1) << 63;
    const uint64_t lo = (uint64_t)bounds->lo ^ sign, hi = (uint64_t)bounds->hi ^ sign;
    for (size_t i = 0; i < n; i++) {
        bounds->last = load_zero(&row, i);
        const uint64_t v = (uint64_t)bounds->last ^ sign;
        if (v < lo || v > hi || (is_signed && bounds->last < 0)) {
            return false;
        }
    }
    return true;
}

/* Return true if all zero points are within [lo, hi]. A zero point below `lo` wraps to a
 * large unsigned difference. */
#define CHECK_ROW(type)                                                                    \
    {                                                                                      \
        type outside = 0; /* as wide as a zero point, so that vectors have one length */   \
        const type least = (type)lo, span = (type)((uint64_t)hi - (uint64_t)lo);           \
        FOR_ZEROS(type, 1, outside = (type)(outside | ((type)(v - least) > span)))         \
        return outside == 0;                                                               \
    }
/* Check the zero points of a row, like check_each_zero() but without setting `last`. */
static bool check_zeros(void *what, struct pq_params row, size_t n)
{
    const struct bounds *const bounds = what;
    const int64_t lowest = pq_lowest_of(row.type);
    const uint64_t highest = pq_highest_of(row.type);
    const int64_t lo = bounds->lo > lowest ? bounds->lo : lowest;
    const int64_t hi =
        bounds->hi > 0 && (uint64_t)bounds->hi > highest ? (int64_t)highest : bounds->hi;
    switch (row.swapped || !pq_is_integer(row.type) || lo > hi ? 0 : pq_bits_of(row.type)) {
    case 8:
        CHECK_ROW(uint8_t)
    case 16:
        CHECK_ROW(uint16_t)
    case 32:
        CHECK_ROW(uint32_t)
    case 64:
        CHECK_ROW(uint64_t)
    default:
        return check_each_zero(what, row, n);
    }
}
#undef CHECK_ROW
#undef FOR_ZEROS

static bool contains(const struct bounds *bounds, int64_t lowest, uint64_t highest)
{
    return lowest >= bounds->lo && bounds->hi >= 0 && highest <= (uint64_t)bounds->hi;
}

bool pq_unsigned_zeros_fit(const struct pq_args *args, uint64_t lo, uint64_t hi,
                           uint64_t *outside)
{
    struct bounds bounds = {(int64_t)lo, (int64_t)hi, .is_unsigned = true};
    const bool within = args->zero.data == NULL || pq_is_empty(args) ||
                        for_each_zero_row(args, check_each_zero, &bounds);
    *outside = (uint64_t)bounds.last;
    return within;
}

bool pq_zeros_fit(const struct pq_args *args, struct pq_facts *facts, int64_t lo,
                  int64_t hi)
{
    struct bounds bounds = {.lo = lo, .hi = hi};
    const enum pq_type type = args->zero.type;
    if (args->zero.data == NULL ||
        (pq_is_integer(type) &&
         contains(&bounds, pq_lowest_of(type), pq_highest_of(type)))) {
        return true;
    }
    find_zero_bounds(args, facts);
    return facts->no_zeros || contains(&bounds, facts->zero_lowest, facts->zero_highest) ||
           for_each_zero_row(args, check_zeros, &bounds);
}

bool pq_zeros_are_0(const struct pq_args *args, struct pq_facts *facts)
{
    find_zero_bounds(args, facts);
    return facts->zero_lowest == 0 && facts->zero_highest == 0;
}

int pq_zeros_within(const struct pq_args *args, int64_t lo, int64_t hi, int64_t *outside)
{
    struct pq_args room;
    if (args == NULL || outside == NULL) {
        return 0;
    }
    *outside = 0;
    if (pq_adapt_args_version(&args, &room) != PQ_OK || pq_check_shape(args) != PQ_OK ||
        pq_check_array(args, &args->zero, true) != PQ_OK ||
        args->zero.bit_strides != NULL ||
        !(pq_is_integer(args->zero.type) || pq_is_narrow_float(args->zero.type))) {
        return 0;
    }
    if (pq_zeros_fit(args, &(struct pq_facts){0}, lo, hi)) {
        return 1;
    }
    struct bounds bounds = {.lo = lo, .hi = hi};
    for_each_zero_row(args, check_each_zero, &bounds);
    *outside = bounds.last;
    return 0;
}
