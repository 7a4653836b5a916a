/* SPDX-License-Identifier: Apache-2.0 */
#include "calls.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "oracle.h"
#include "types.h"

struct arenas memory;

void make_arenas(void)
{
    guarded_make_all(&memory, sizeof memory, ARENA);
}

/* ---- random views ---- */

/* Choose random strides for a view. Return the number of bytes (of bits with bit strides)
 * that the elements span. Elements overlap only if the layout is BROADCAST. */
static size_t draw_strides(struct view *view, int ndim, const ptrdiff_t *extents,
                           ptrdiff_t size, enum layout layout, unsigned gaps)
{
    int order[MOST_NDIM];
    if (layout == PLAIN) {
        return (size_t)set_dense_strides(view->strides, ndim, extents, size);
    }
    ptrdiff_t span = size, next = size;
    const int is_integer =
        layout == ALIGNED || random_chance(50); /* 1 if strides are multiples of `size` */
    for (int d = 0; d < ndim; d++) {
        order[d] = d;
    }
    for (int d = ndim - 1; d > 0; d--) {
        const int other = random_chance(60) ? d : (int)random_below((size_t)d + 1);
        const int t = order[d];
        order[d] = order[other];
        order[other] = t;
    }
    for (int i = ndim - 1; i >= 0; i--) {
        const int d = order[i];
        const ptrdiff_t n = extents[d];
        ptrdiff_t stride = next;
        if (n <= 1) { /* an unused stride can have any value */
            view->strides[d] = random_chance(50) ? random_between(-999, 999) * size : next;
            continue;
        }
        if (layout == BROADCAST && random_chance(15)) {
            view->strides[d] = 0;
            continue;
        }
        if (layout == BROADCAST && is_integer && random_chance(20)) {
            stride = random_between(1, 3) * size;
            span += (n - 1) * stride;
            view->strides[d] = stride;
            continue;
        }
        if (random_chance(gaps)) {
            const ptrdiff_t gap = random_between(0, 9);
            stride = span + (is_integer ? gap * size : gap);
        }
        if (layout == ALIGNED) {
            stride = (stride + size - 1) / size * size;
        }
        span += (n - 1) * stride;
        next = stride * n;
        view->strides[d] = random_chance(20) ? -stride : stride;
    }
    return (size_t)span;
}

/* Return the distance from the element at the lowest address to the element at index 0, in
 * the unit of the strides. */
static ptrdiff_t first_of(const struct view *view, int ndim, const ptrdiff_t *extents)
{
    ptrdiff_t first = 0;
    for (int d = 0; d < ndim; d++) {
        first -= view->strides[d] < 0 && extents[d] > 1
                     ? (extents[d] - 1) * view->strides[d]
                     : 0;
    }
    return first;
}

void draw_view(struct view *view, const struct guarded *where, int ndim,
               const ptrdiff_t *extents, enum pq_type type, enum layout layout)
{
    const ptrdiff_t size = (ptrdiff_t)pq_type_size(type);
    unsigned gaps = random_chance(50) ? 0 : 30;
    do {
        view->bytes = draw_strides(view, ndim, extents, size, layout, gaps);
        gaps = 0;
    } while (view->bytes + 64 > where->size);
    ptrdiff_t first = first_of(view, ndim, extents);
    /* a call without elements must not access the address */
    if (elements_of(ndim, extents) == 0) {
        view->bytes = 0;
        view->lowest = guarded_end(where, 0);
        first = 0;
    } else if (random_chance(50)) {
        view->lowest = guarded_end(where, view->bytes);
    } else {
        const size_t slack = layout == ALIGNED || random_chance(50) ? 0 : random_below(33);
        view->lowest = where->base + slack;
    }
    view->array.data = view->lowest + first;
    view->array.strides = view->strides;
    view->array.type = type;
    view->array.swapped = layout == PLAIN || layout == ALIGNED ? 0 : random_chance(25);
    view->array.bit_strides = NULL;
    view->has_words = 0;
}

void draw_bits(struct view *view, const struct guarded *where, int ndim,
               const ptrdiff_t *extents, enum pq_type type, enum layout layout)
{
    const size_t span = draw_strides(view, ndim, extents, pq_type_bits(type), layout, 10);
    const ptrdiff_t first = first_of(view, ndim, extents);
    const int empty = elements_of(ndim, extents) == 0;
    /* the element at index 0 begins at bit 0 of a byte */
    const ptrdiff_t bytes = (first + 7) / 8;
    view->bytes = empty ? 0 : ((size_t)(8 * bytes - first) + span + 7) / 8;
    view->lowest = random_chance(50) ? guarded_end(where, view->bytes)
                                     : where->base + random_below(33);
    view->array = (struct pq_array){.data = view->lowest + (empty ? 0 : bytes),
                                    .bit_strides = view->strides,
                                    .type = type,
                                    .swapped = random_chance(5)};
    view->has_words = 0;
}

/* Choose the size of a group at random, and a random order of the codes in a group. */
static void draw_order(struct view *view)
{
    const int n = random_chance(80) ? 1 + (int)random_below(40) : 256;
    for (int i = 0; i < n; i++) {
        const int other = (int)random_below((size_t)i + 1);
        view->order[i] = view->order[other];
        view->order[other] = (unsigned char)i;
    }
    view->words.group = n;
    view->words.order = view->order;
}

void draw_words(struct view *view, const struct guarded *where, int ndim,
                const ptrdiff_t *extents, enum pq_type type, enum layout layout)
{
    const int is_24 = type == PQ_I32, own = pq_type_bits(type);
    const int axis = is_24 ? ndim - 1 : (int)random_below((size_t)ndim);
    const int bits = is_24                                ? 24
                     : type == PQ_U8 && random_chance(70) ? 1 + (int)random_below(8)
                                                          : own;
    const int word = is_24 ? 8 : 8 << random_below(4);
    ptrdiff_t counts[PQ_MAX_NDIM] = {0}, unit = 1;
    const int empty = elements_of(ndim, extents) == 0;
    view->words = (struct pq_layout){.size = sizeof view->words,
                                     .axis = axis,
                                     .bits = bits == own && random_chance(50) ? 0 : bits,
                                     .word_bits = word,
                                     .group = (int)random_below(300)};
    if (is_24) {
        layout = PLAIN;
    } else if (random_chance(50)) {
        draw_order(view);
        unit = view->words.group;
    }
    for (int d = 0; d < ndim; d++) {
        counts[d] = extents[d];
    }
    counts[axis] = ((counts[axis] + unit - 1) / unit * unit * bits + word - 1) / word;
    const size_t span = draw_strides(view, ndim, counts, word / 8, layout, 10);
    /* the words of long groups may not fit, so choose another layout */
    if (span + 64 > where->size) {
        draw_words(view, where, ndim, extents, type, layout);
        return;
    }
    const ptrdiff_t first = first_of(view, ndim, counts);
    for (int d = 0; d < ndim; d++) {
        view->strides[d] *= 8;
    }
    view->words.word_stride = view->strides[axis];
    /* a call ignores the stride of the layout's axis */
    view->strides[axis] = (ptrdiff_t)random_bits();
    view->bytes = empty ? 0 : span;
    view->lowest = random_chance(50) ? guarded_end(where, view->bytes)
                                     : where->base + random_below(33);
    view->array = (struct pq_array){.data = view->lowest + (empty ? 0 : first),
                                    .bit_strides = view->strides,
                                    .type = type};
    view->has_words = 1;
}

static int bits_of(const struct pq_array *array, const struct pq_layout *layout)
{
    return layout != NULL && layout->bits != 0 ? layout->bits : pq_type_bits(array->type);
}

/* Return the lowest and the highest code that fit in a layout. NULL means no layout. */
static struct limits range_in(enum pq_type code, const struct pq_layout *layout)
{
    const int bits = layout != NULL ? layout->bits : 0;
    return bits == 24                   ? (struct limits){-(1 << 23), (1 << 23) - 1}
           : code == PQ_U8 && bits != 0 ? (struct limits){0, (INT64_C(1) << bits) - 1}
                                        : limits_of(code);
}

/* Return the number of bits from `data` to bit `b` of the element at `index`. */
static ptrdiff_t bit_of(const struct pq_array *array, const struct pq_layout *layout,
                        int ndim, const ptrdiff_t *index, int b)
{
    ptrdiff_t at = layout != NULL ? 0 : b;
    for (int d = 0; d < ndim; d++) {
        if (layout == NULL || d != layout->axis) {
            at += index[d] * array->bit_strides[d];
        }
    }
    if (layout == NULL) {
        return at;
    }
    ptrdiff_t i = index[layout->axis];
    if (layout->order != NULL) {
        const ptrdiff_t group = i / layout->group;
        i = group * layout->group + layout->order[i - group * layout->group];
    }
    const ptrdiff_t bit = i * bits_of(array, layout) + b;
    return at + bit / layout->word_bits * layout->word_stride + bit % layout->word_bits;
}

static int is_dense(const struct pq_args *args, const struct pq_array *array)
{
    ptrdiff_t next = pq_type_bits(array->type);
    for (int d = args->ndim - 1; d >= 0; d--) {
        if (args->shape[d] != 1 && array->bit_strides[d] != next) {
            return 0;
        }
        next *= args->shape[d];
    }
    return 1;
}

unsigned char *element_at(const struct pq_array *array, int ndim, const ptrdiff_t *index,
                          const ptrdiff_t *block)
{
    ptrdiff_t offset = 0;
    for (int d = 0; d < ndim; d++) {
        offset += index[d] / (block != NULL ? block[d] : 1) * array->strides[d];
    }
    return (unsigned char *)array->data + offset;
}

void put_element(const struct pq_array *array, void *at, uint64_t bits)
{
    put_bits(at, array->type, 0, bits);
    if (array->swapped) {
        swap_bytes_of(at, pq_type_size(array->type));
    }
}

/* Copy an element, and convert the copy to native byte order. */
static void get_element(const struct pq_array *array, const void *at, void *to)
{
    const size_t size = pq_type_size(array->type);
    memcpy(to, at, size);
    if (array->swapped) {
        swap_bytes_of(to, size);
    }
}

double real_at(const struct pq_array *array, const void *at)
{
    unsigned char bytes[8];
    get_element(array, at, bytes);
    return get_real(bytes, array->type, 0);
}

int64_t integer_at(const struct pq_array *array, const void *at)
{
    unsigned char bytes[8];
    get_element(array, at, bytes);
    return get_integer(bytes, array->type, 0);
}

/* Return a scale. The stored scale can be a real, a narrow float or an integer. */
static double scale_at(const struct pq_array *array, const void *at)
{
    if (is_real_type(array->type)) {
        return real_at(array, at);
    }
    if (array->type == PQ_F8E8M0FNU) {
        const int exponent = *(const unsigned char *)at;
        return exponent == 255 ? (double)NAN : ldexp(1, exponent - 127);
    }
    if (pq_is_narrow_float(array->type)) {
        return decode(array->type, *(const unsigned char *)at);
    }
    const int64_t v = integer_at(array, at);
    return array->type == PQ_U64 ? (double)(uint64_t)v : (double)v;
}

ptrdiff_t set_dense_strides(ptrdiff_t *strides, int ndim, const ptrdiff_t *extents,
                            ptrdiff_t size)
{
    for (int d = ndim - 1; d >= 0; d--) {
        strides[d] = size;
        size *= extents[d] > 0 ? extents[d] : 1;
    }
    return size;
}

int step(int ndim, const ptrdiff_t *extents, ptrdiff_t *index)
{
    for (int d = ndim - 1; d >= 0; d--) {
        if (++index[d] < extents[d]) {
            return 1;
        }
        index[d] = 0;
    }
    return 0;
}

size_t elements_of(int ndim, const ptrdiff_t *extents)
{
    size_t n = 1;
    for (int d = 0; d < ndim; d++) {
        n *= (size_t)extents[d];
    }
    return n;
}

/* ---- random calls ---- */

void draw_shape(struct call *call, size_t most)
{
    call->args.size = sizeof call->args;
    const int ndim =
        random_chance(5) ? (int)random_below(MOST_NDIM + 1) : (int)random_below(6);
    const int longest =
        random_chance(25) && ndim > 0 ? (int)random_below((size_t)ndim) : -1;
    call->args.ndim = ndim;
    for (int d = 0; d < ndim; d++) {
        call->shape[d] = 1;
    }
    if (longest >= 0) {
        call->shape[longest] = random_between(1, (ptrdiff_t)most);
        most /= (size_t)call->shape[longest];
    }
    const int first = ndim > 0 ? (int)random_below((size_t)ndim) : 0;
    for (int i = 0; i < ndim; i++) {
        const int d = (first + i) % ndim;
        if (d != longest) {
            const ptrdiff_t extent = random_between(random_chance(2) ? 0 : 1, 40);
            call->shape[d] = (size_t)extent <= most ? extent : (ptrdiff_t)(most + 1) / 2;
            most /= call->shape[d] > 0 ? (size_t)call->shape[d] : 1;
        }
    }
    call->args.shape = call->shape;
    call->n = elements_of(ndim, call->shape);
}

static ptrdiff_t draw_block(ptrdiff_t extent)
{
    static const ptrdiff_t usual[] = {1, 2, 4, 7, 8, 16, 31, 32, 33, 64, 128, 600};
    if (random_chance(1)) {
        return PTRDIFF_MAX;
    }
    switch (random_below(4)) {
    case 0:
        return random_between(1, extent + 2);
    case 1:
        return usual[random_below(COUNT(usual))];
    default:
        return 1;
    }
}

void draw_granularity(struct call *call)
{
    const int ndim = call->args.ndim;
    const int kind = (int)random_below(4);
    const int axis = ndim > 0 ? (int)random_below((size_t)ndim) : 0;
    int blocks = 0;
    for (int d = 0; d < ndim; d++) {
        const int chosen = (kind == 1 && d == axis) || (kind >= 2 && random_chance(50));
        call->selects[d] = chosen;
        call->block[d] = chosen || random_chance(10) ? draw_block(call->shape[d]) : 1;
        if (chosen) {
            const ptrdiff_t b = call->block[d];
            call->counts[d] = call->shape[d] > 0 ? (call->shape[d] - 1) / b + 1 : 0;
        } else {
            call->counts[d] = 1;
        }
        blocks = blocks || call->block[d] != 1;
    }
    call->args.block = blocks || random_chance(50) ? call->block : NULL;
}

void clear_unselected(const struct call *call, struct view *view)
{
    for (int d = 0; d < call->args.ndim; d++) {
        if (!call->selects[d]) {
            view->strides[d] = 0;
        }
    }
}

enum pq_type pick(const enum pq_type *types, size_t n)
{
    return types[random_below(n)];
}

/* Choose the strides of an array of parameters at random. In some calls, all strides are 0,
 * so that one parameter applies to all elements. */
static void draw_param_view(const struct call *call, struct view *view,
                            const struct guarded *where, enum pq_type type,
                            enum layout layout)
{
    draw_view(view, where, call->args.ndim, call->counts, type, layout);
    clear_unselected(call, view);
    if (random_chance(15) && view->bytes > 0) {
        memset(view->strides, 0, sizeof view->strides);
    }
}

/* Choose random strides for the scales and, if `with_zero` is 1, for the zero points. */
void draw_params(struct call *call, enum layout layout, enum pq_type scale_type,
                 enum pq_type zero_type, int with_zero)
{
    draw_param_view(call, &call->scale, &memory.scale, scale_type, layout);
    if (with_zero) {
        draw_param_view(call, &call->zero, &memory.zero, zero_type,
                        random_chance(50) ? PLAIN : layout);
    } else {
        call->zero.array = (struct pq_array){NULL, NULL, PQ_I8, 0, 0};
    }
}

void draw_options(struct call *call, enum pq_type code, int quantize)
{
    struct pq_args *const args = &call->args;
    const int is_float = pq_is_narrow_float(code);
    if (!quantize) {
        args->any_zeros = !is_float;
        return;
    }
    args->zero_first = !is_float && random_chance(15);
    args->narrow_first = random_chance(15);
    args->overflow = is_float && random_chance(50);
    args->round = random_chance(50) ? PQ_HALF_EVEN
                  : is_float        ? PQ_STOCHASTIC
                                    : (enum pq_round)random_below(PQ_ROUND_COUNT);
    args->precision = random_chance(30)   ? PQ_NO_TYPE
                      : random_chance(60) ? PQ_F32
                                          : pick(reals, REALS);
    args->seed = random_chance(50) ? 0 : random_bits();
    args->start = random_chance(50) ? random_below(1 << 20) : random_bits();
}

/* ---- affine calls ---- */

static void draw_range(struct call *call, struct limits all)
{
    const int64_t a = draw_integer(all.lo, all.hi), b = draw_integer(all.lo, all.hi);
    call->args.lowest_code = a < b ? a : b;
    call->args.highest_code = a < b ? b : a;
}

static void draw_fills(struct call *call, struct limits all)
{
    struct pq_args *const args = &call->args;
    const int ranged = args->lowest_code != 0 || args->highest_code != 0;
    const size_t most = 1 + random_below(MOST_FILLS);
    args->fill = call->fill;
    for (size_t i = 0; i < most; i++) {
        const int64_t code = draw_integer(all.lo, all.hi);
        if (!ranged || code < args->lowest_code || code > args->highest_code) {
            call->fill[args->fills++] = code;
        }
    }
}

static void draw_policies(struct call *call, int is_float)
{
    struct pq_args *const args = &call->args;
    const int ranged = args->lowest_code != 0 || args->highest_code != 0;
    args->refuse_nan = random_chance(30);
    args->beyond = !random_chance(60)                        ? PQ_SATURATE
                   : is_float || ranged || random_chance(50) ? PQ_REFUSE
                                                             : PQ_WRAP;
    args->zero_first = args->narrow_first = 0;
    args->overflow = args->overflow && args->beyond == PQ_SATURATE;
    if (args->precision == PQ_F16 || args->precision == PQ_BF16 ||
        call->in.array.type == PQ_F64) {
        args->precision = random_chance(50) ? PQ_NO_TYPE : PQ_F64;
    }
}

/* Choose random strides and a type for the offsets, which often differ from the strides and
 * the type of the scales. */
static void draw_offsets(struct call *call)
{
    const enum pq_type type = random_chance(60)
                                  ? call->scale.array.type
                                  : (enum pq_type)(1 + random_below(PQ_TYPE_COUNT - 1));
    draw_param_view(call, &call->offset, &memory.offset, type,
                    random_chance(40) ? PLAIN : BROADCAST);
    call->args.offset = call->offset.array;
}

void draw_affine(struct call *call, int quantize)
{
    struct pq_args *const args = &call->args;
    const struct view *const codes = quantize ? &call->out : &call->in;
    const int is_float = pq_is_narrow_float(codes->array.type);
    const struct limits all =
        range_in(codes->array.type, codes->has_words ? &codes->words : NULL);
    if (random_chance(60)) {
        draw_offsets(call);
    }
    args->inverse = random_chance(30);
    if (quantize && !is_float && random_chance(25)) {
        draw_range(call, all);
    }
    if (!is_float && random_chance(30)) {
        draw_fills(call, all);
    }
    if (quantize) {
        draw_policies(call, is_float);
    }
}

static int64_t draw_zero(const struct call *call, int quantize)
{
    const struct view *const codes = quantize ? &call->out : &call->in;
    const enum pq_type type = codes->array.type;
    const int free = !quantize || pq_is_narrow_float(type) || call->args.zero_first;
    const struct limits own = limits_of(call->zero.array.type);
    const struct limits code =
        pq_is_narrow_float(type)
            ? (struct limits){-100, 100}
            : range_in(type, type == PQ_I32 && codes->has_words ? &codes->words : NULL);
    const int64_t most = INT64_C(1) << 52;
    const struct limits kept = {call->args.lowest_code, call->args.highest_code};
    const int ranged = kept.lo != 0 || kept.hi != 0;
    struct limits range = ranged ? kept : code;
    /* calls with zero_first support only zero points up to `most` */
    if (pq_is_64_bit(type) && quantize && call->args.zero_first) {
        range = (struct limits){code.lo < -most ? -most : code.lo, most};
    }
    if (type == PQ_U64 && call->zero.array.type == type && !call->args.zero_first &&
        !ranged && random_chance(50)) {
        return (int64_t)random_bits();
    }
    if (pq_is_narrow_float(call->zero.array.type)) {
        return (int64_t)random_below(256);
    }
    /* the type of zero points holds no number of `range` */
    if (range.lo > own.hi || range.hi < own.lo) {
        return 0;
    }
    if (free && random_chance(30)) {
        const int64_t around[] = {INT64_C(1) << 30, (INT64_C(1) << 30) + 1, INT32_MAX,
                                  most};
        const int64_t z = around[random_below(4)] * (random_chance(50) ? 1 : -1);
        if (z >= own.lo && z <= own.hi) {
            return z;
        }
        range = (struct limits){-most, most};
    }
    return draw_integer(range.lo > own.lo ? range.lo : own.lo,
                        range.hi < own.hi ? range.hi : own.hi);
}

static uint64_t draw_offset(enum pq_type type, double scale)
{
    if (!is_real_type(type)) {
        return random_chance(50) ? random_below(100) : random_bits();
    }
    return draw_real(type, random_chance(50) ? scale : 1.0, random_chance(50) ? 2 : 300);
}

void fill_params(struct call *call, int quantize)
{
    const int ndim = call->args.ndim;
    const struct pq_array *scale = &call->scale.array, *zero = &call->zero.array;
    const struct pq_array *offset = &call->args.offset;
    const int plain = random_chance(50); /* 1 for ordinary scales, 0 for any */
    EACH_INDEX(index, ndim, call->counts) {
        double s = plain ? 0.001 + 0.1 * random_unit() : (double)draw_scale();
        uint64_t bits;
        if (scale->type == PQ_F64) {
            bits = bits_of_f64(plain || random_chance(50) ? s : draw_scale_f64());
        } else if (scale->type == PQ_F32) {
            bits = bits_of_f32((float)s);
        } else if (!is_real_type(scale->type)) {
            bits = plain ? random_below(100) : random_bits();
            /* these bits are often NaN in float8 types */
            bits |= !plain && random_chance(15) ? 0x7f : 0;
        } else {
            bits = plain ? draw_real(scale->type, 1.0, 2) : random_bits();
        }
        put_element(scale, element_at(scale, ndim, index, NULL), bits);
        if (offset->data != NULL) {
            put_element(offset, element_at(offset, ndim, index, NULL),
                        draw_offset(offset->type, s));
        }
        if (zero->data != NULL) {
            put_element(zero, element_at(zero, ndim, index, NULL),
                        (uint64_t)draw_zero(call, quantize));
        }
    }
}

/* Return the bits of a random real number. The magnitude is at most 0.4 * `most` *
 * |`scale`|, so that the call seldom saturates. */
static uint64_t draw_within(enum pq_type type, double scale, double most)
{
    for (int i = 0; i < 9; i++) {
        unsigned char bytes[8];
        const uint64_t bits = draw_real(type, scale, 0.4 * most);
        put_bits(bytes, type, 0, bits);
        if (fabs(get_real(bytes, type, 0)) <= 0.4 * most * fabs(scale)) {
            return bits;
        }
    }
    return 0;
}

void fill_input(struct call *call, int quantize)
{
    const struct pq_args *args = &call->args;
    const int tame = args->beyond == PQ_REFUSE && random_chance(60);
    const struct pq_array *in = &call->in.array;
    if (in->bit_strides != NULL) {
        for (size_t i = 0; i < call->in.bytes; i++) {
            call->in.lowest[i] = (unsigned char)random_bits();
        }
        return;
    }
    EACH_INDEX(index, args->ndim, call->shape) {
        uint64_t bits;
        if (quantize) {
            const double s =
                scale_at(&call->scale.array,
                         element_at(&call->scale.array, args->ndim, index, args->block));
            const enum pq_type code = call->out.array.type;
            const double most = pq_is_narrow_float(code) ? 500 : (double)limits_of(code).hi;
            bits = in->type == PQ_I32 ? (uint64_t)draw_integer(INT32_MIN, INT32_MAX)
                                      : draw_real(in->type, s, 2.5 * most);
            if (tame && in->type != PQ_I32) {
                bits = draw_within(in->type, s, most);
            }
        } else {
            const struct limits limits = limits_of(in->type);
            bits = pq_type_bits(in->type) < 8 || pq_is_narrow_float(in->type)
                       ? random_bits() /* the bits above a narrow code are random, too */
                       : (uint64_t)draw_integer(limits.lo, limits.hi);
            bits = in->type == PQ_U64 && random_chance(50) ? random_bits() : bits;
        }
        put_element(in, element_at(in, args->ndim, index, NULL), bits);
    }
}

void collect_args(struct call *call)
{
    struct pq_args *const args = &call->args;
    args->shape = call->shape;
    args->in = call->in.array;
    args->out = call->out.array;
    args->scale = args->lowest = call->scale.array;
    args->zero = args->highest = call->zero.array;
    args->in_layout = call->in.has_words ? &call->in.words : NULL;
    args->out_layout = call->out.has_words ? &call->out.words : NULL;
}

size_t usual_size(void)
{
    return random_chance(1) ? MOST_ELEMENTS : USUAL_ELEMENTS;
}

/* ---- expected results, by a loop over single elements ---- */

/* Read the input element at `index` into `to`. Extend codes of fewer than 8 bits to a
 * byte. */
static void take_element(const struct pq_args *args, const ptrdiff_t *index,
                         unsigned char *to)
{
    const struct pq_array *array = &args->in;
    const struct pq_layout *layout = args->in_layout;
    if (array->bit_strides != NULL) {
        const int bits = bits_of(array, layout);
        uint32_t code = 0;
        for (int b = 0; b < bits; b++) {
            const ptrdiff_t at = bit_of(array, layout, args->ndim, index, b),
                            byte = at >= 0 ? at / 8 : -((7 - at) / 8);
            const int bit = ((unsigned char *)array->data)[byte] >> (at - 8 * byte) & 1;
            code |= (uint32_t)bit << b;
        }
        put_bits(to, array->type, 0, bits == 24 ? (code ^ 1 << 23) - (1 << 23) : code);
    } else {
        get_element(array, element_at(array, args->ndim, index, NULL), to);
    }
    if (pq_is_narrow_integer(array->type)) {
        to[0] = (unsigned char)get_integer(to, array->type, 0);
    }
}

/* Store a result at `index` of a copy of the output. Saturate a narrow code, and store only
 * its low bits. */
static void give_element(const struct call *call, const ptrdiff_t *index,
                         unsigned char *from, int is_last, unsigned char *lowest)
{
    const struct pq_args *args = &call->args;
    const struct pq_array *array = &args->out;
    const struct pq_layout *layout = args->out_layout;
    const int bits = bits_of(array, layout);
    if (pq_is_integer(array->type) && bits <= 24) {
        const struct limits range = range_in(array->type, layout);
        const enum pq_type carrier = pq_carrier_of(array->type);
        const int64_t v = get_integer(from, carrier, 0);
        const int64_t code = v < range.lo ? range.lo : v > range.hi ? range.hi : v;
        put_bits(from, carrier, 0, (uint64_t)code & ((1u << bits) - 1));
    }
    if (array->bit_strides != NULL) {
        const ptrdiff_t base = 8 * ((unsigned char *)array->data - call->out.lowest);
        int stop = bits;
        if (layout == NULL && is_last && is_dense(args, array)) {
            /* The call sets the unused bits of the last byte of a dense array to 0. */
            stop +=
                7 - (int)((base + bit_of(array, NULL, args->ndim, index, bits - 1)) % 8);
        }
        for (int b = 0; b < stop; b++) {
            const size_t at = (size_t)(base + bit_of(array, layout, args->ndim, index, b));
            const int bit = b < bits ? (int)(get_bits(from, array->type, 0) >> b & 1) : 0;
            lowest[at / 8] =
                (unsigned char)((lowest[at / 8] & ~(1 << at % 8)) | bit << at % 8);
        }
        return;
    }
    if (array->swapped) {
        swap_bytes_of(from, pq_type_size(array->type));
    }
    memcpy(lowest + (element_at(array, args->ndim, index, NULL) - call->out.lowest), from,
           pq_type_size(array->type));
}

/* Return the zero point of the element at `index`. The member `number` is negated for
 * dequantize, because the definition adds `number`. */
static struct zero_point zero_of(const struct call *call, const ptrdiff_t *index,
                                 int quantize)
{
    const struct pq_args *args = &call->args;
    if (args->zero.data == NULL) {
        return (struct zero_point){0, -0.0};
    }
    const unsigned char *at = element_at(&args->zero, args->ndim, index, args->block);
    const int is_float = pq_is_narrow_float(args->zero.type);
    const int64_t integer = is_float ? 0 : integer_at(&args->zero, at);
    const double number = is_float ? decode(args->zero.type, *at) : (double)integer;
    return (struct zero_point){integer, quantize ? number : -number};
}

static enum pq_type precision_of(const struct pq_args *args)
{
    return args->precision != PQ_NO_TYPE ? args->precision
           : args->in.type == PQ_F64     ? PQ_F64
                                         : PQ_F32;
}

/* ---- expected results of affine calls ---- */

static int clips(const struct pq_args *args)
{
    return args->lowest_code != 0 || args->highest_code != 0;
}

static int is_affine(const struct pq_args *args, int quantize)
{
    return args->offset.data != NULL || args->inverse || args->fills != 0 ||
           (quantize && (clips(args) || args->beyond != PQ_SATURATE || args->refuse_nan));
}

/* Round a number to `carrier`, the type of the computation: float32 or float64. */
static double rounded_to(enum pq_type carrier, double v)
{
    return carrier == PQ_F64 ? v : (double)(float)v;
}

static double offset_at(const struct pq_args *args, const ptrdiff_t *index)
{
    const enum pq_type real = pq_is_real(args->in.type) ? args->in.type : args->out.type;
    const struct pq_array *const offset = &args->offset;
    if (offset->data == NULL) {
        return 0;
    }
    return rounded_to(real,
                      scale_at(offset, element_at(offset, args->ndim, index, args->block)));
}

/* Return the sum, difference, product or quotient of `a` and `b`, computed in `carrier`.
 * The result is rounded to float64 and then to `carrier`. Because float64 has more than
 * twice the bits of float32, the two roundings equal a single rounding. */
static double calculated(enum pq_type carrier, char operation, double a, double b)
{
    a = rounded_to(carrier, a);
    b = rounded_to(carrier, b);
    return rounded_to(carrier, operation == '+'   ? a + b
                               : operation == '-' ? a - b
                               : operation == '*' ? a * b
                                                  : a / b);
}

static int is_fill(const struct pq_args *args, int64_t code)
{
    size_t k = 0;
    while (k < args->fills && args->fill[k] != code) {
        k++;
    }
    return k < args->fills;
}

static void dequantize_affine(const struct pq_args *args, const unsigned char *x,
                              unsigned char *y, double scale, double offset,
                              struct zero_point zero)
{
    const enum pq_type carrier = args->out.type == PQ_F64 ? PQ_F64 : PQ_F32;
    const struct pq_run run = {.in = pq_carrier_of(args->in.type),
                               .out = carrier,
                               .unsigned_zero = args->zero.type == PQ_U64};
    double v = decode(carrier, dequantized(&run, x, args->inverse ? 1 : scale, zero));
    v = args->inverse ? calculated(carrier, '/', v, scale) : v;
    v = args->offset.data != NULL ? calculated(carrier, '+', v, offset) : v;
    if (isnan(v) || (args->fills != 0 && is_fill(args, get_integer(x, run.in, 0)))) {
        v = (double)NAN;
    }
    put_bits(y, args->out.type, 0, encode(args->out.type, v, 1, 0));
}

/* The random word for stochastic rounding of the current element. `single` is 1 if the word
 * is compared with a float32 fraction, and 0 for a float64 fraction. */
static struct {
    uint32_t word;
    int single;
} chance;

static double rounded_by(enum pq_round round, double q)
{
    return rounded(round, q, chance.word, chance.single);
}

/* Return the lowest and the highest code that a call can write: lowest_code and
 * highest_code, or the limits of the codes. */
static struct limits range_of(const struct pq_args *args)
{
    return clips(args) ? (struct limits){args->lowest_code, args->highest_code}
                       : range_in(args->out.type, args->out_layout);
}

/* Return the code in the range that equals q + z modulo the size of the range. */
static int64_t wrapped_to(struct limits range, double q, int64_t z)
{
    const int64_t size = range.hi - range.lo + 1;
    const int64_t v = ((int64_t)fmod(q, (double)size) + z - range.lo) % size;
    return range.lo + (v < 0 ? v + size : v);
}

/* Return 1 if a magnitude exceeds the largest finite number after rounding half to even. A
 * tie above the largest number rounds up if the code of the largest number is odd. */
static int is_too_large(double v, enum pq_type type)
{
    const struct float_format *const f = format_of(type);
    const double most = value_of(f, f->last);
    const double tie = most + (most - value_of(f, f->last - 1)) / 2;
    return fabs(v) > tie || (fabs(v) == tie && f->last % 2 != 0);
}

/* Return `a` - `b` or `a` * `b`. If the result is NaN, it gets the sign of `a`. A negative
 * multiplier `b` inverts this sign. */
static double moved(enum pq_type carrier, char operation, double a, double b)
{
    const double v = calculated(carrier, operation, a, b);
    const int negative =
        signbit(a) ? !(operation == '*' && signbit(b)) : operation == '*' && signbit(b);
    return isnan(v) ? copysign((double)NAN, negative ? -1.0 : 1.0) : v;
}

/* Compare two integers of `type`, int64 or uint64. Return 1 if `a` is greater, 0 if both
 * are equal, else -1. */
static int compare_wide(int64_t a, int64_t b, enum pq_type type)
{
    const int above = type == PQ_U64 ? (uint64_t)a > (uint64_t)b : a > b;
    return above ? 1 : a == b ? 0 : -1;
}

static int quantize_int64(const struct pq_args *args, unsigned char *y, double x, double q,
                          int64_t zero)
{
    const enum pq_type code = args->out.type;
    const int64_t lowest = clips(args) ? args->lowest_code : code == PQ_U64 ? 0 : INT64_MIN;
    const int64_t highest = clips(args)      ? args->highest_code
                            : code == PQ_U64 ? -1
                                             : INT64_MAX;
    const double r = rounded_by(args->round, q);
    int side = isnan(q) || r < 0 ? -1 : 1;
    int64_t result = lowest;
    if (isfinite(q)) {
        result = sum_of_64_bits(r, zero, code, &side);
    }
    if (args->beyond != PQ_WRAP && (side != 0 || !isfinite(q))) {
        result = side < 0 ? lowest : highest;
    }
    const int below = compare_wide(result, lowest, code) < 0;
    const int above = compare_wide(result, highest, code) > 0;
    const int fills = args->fills != 0 && isnan(x);
    result = below ? lowest : above ? highest : result;
    put_bits(y, code, 0, (uint64_t)(fills ? args->fill[0] : result));
    return isnan(q) ? args->refuse_nan && !fills
                    : args->beyond == PQ_REFUSE && (side != 0 || below || above);
}

/* Quantize an element with affine options into `y`. Return 1 if the call counts the element
 * as out of range. */
static int quantize_affine(const struct pq_args *args, const unsigned char *px,
                           unsigned char *y, double scale, double offset,
                           struct zero_point zero_point)
{
    const double zero = zero_point.number;
    const enum pq_type carrier = precision_of(args), code = args->out.type;
    const double x = get_real(px, args->in.type, 0);
    double v = args->offset.data != NULL ? moved(carrier, '-', x, offset) : x;
    v = args->inverse ? moved(carrier, '*', v, scale) : v;
    const double q = args->inverse ? v : calculated(carrier, '/', v, scale);
    if (pq_is_64_bit(code)) {
        return quantize_int64(args, y, x, q, zero_point.integer);
    }
    if (pq_is_narrow_float(code)) {
        const struct pq_run run = {.in = carrier,
                                   .out = code,
                                   .compute = carrier,
                                   .round = args->round,
                                   .overflow = args->overflow};
        const double sum = calculated(carrier, '+', q, rounded_to(carrier, zero));
        const double r = args->round != PQ_STOCHASTIC
                             ? sum
                             : rounded_to_number(code, sum, chance.word, chance.single);
        *y = (unsigned char)quantized(&run, v, args->inverse ? 1 : scale, zero_point,
                                      chance.word);
        return isnan(sum) ? args->refuse_nan
                          : args->beyond == PQ_REFUSE && is_too_large(r, code);
    }
    const struct limits range = range_of(args);
    const double r = rounded_by(args->round, q), sum = r + zero;
    const int wraps = args->beyond == PQ_WRAP && isfinite(q);
    const int64_t result =
        isnan(q) || sum<(double)range.lo ? range.lo : sum>(double) range.hi ? range.hi
                                                                            : (int64_t)sum;
    const int64_t wound = wraps ? wrapped_to(range, r, (int64_t)zero) : range.lo;
    const int fills = args->fills != 0 && isnan(x);
    put_bits(y, pq_carrier_of(code), 0,
             (uint64_t)(fills                                  ? args->fill[0]
                        : args->beyond == PQ_WRAP && !isnan(q) ? wound
                                                               : result));
    return isnan(q) ? args->refuse_nan && !fills
                    : args->beyond == PQ_REFUSE &&
                          (sum < (double)range.lo || sum > (double)range.hi);
}

/* Round a number to `type`. A NaN is unchanged, so that its sign is kept. */
static double narrowed(enum pq_type type, double v)
{
    return isnan(v) ? v : decode(type, encode(type, v, 1, 0));
}

/* Quantize an element without affine options into `y`. */
static void quantize_plain(const struct pq_run *run, const unsigned char *px,
                           unsigned char *y, double scale, struct zero_point zero)
{
    /* the definition rounds int32 input to `compute` first */
    const int is_integer = run->in == PQ_I32;
    double x = is_integer ? (double)get_integer(px, run->in, 0) : get_real(px, run->in, 0);
    x = is_integer || run->narrow_first ? narrowed(run->compute, x) : x;
    scale = run->narrow_first ? narrowed(run->compute, scale) : scale;
    put_bits(y, run->out, 0, quantized(run, x, scale, zero, chance.word));
}

struct out_of_range naive(const struct call *call, int quantize, unsigned char *lowest)
{
    const struct pq_args *args = &call->args;
    const int ndim = args->ndim, affine = is_affine(args, quantize);
    struct out_of_range out_of_range = {0, 0};
    const enum pq_type compute = quantize                   ? precision_of(args)
                                 : args->out.type == PQ_F64 ? PQ_F64
                                                            : PQ_F32;
    const struct pq_run general = {.in = pq_carrier_of(args->in.type),
                                   .out = pq_carrier_of(args->out.type),
                                   .compute = compute,
                                   .round = quantize ? args->round : PQ_HALF_EVEN,
                                   .zero_first = args->zero_first,
                                   .overflow = args->overflow,
                                   .narrow_first = quantize && args->narrow_first,
                                   .unsigned_zero = args->zero.type == PQ_U64};
    size_t position = 0;
    EACH_INDEX(index, ndim, call->shape) {
        unsigned char x[8], y[8];
        double scale =
            scale_at(&args->scale, element_at(&args->scale, ndim, index, args->block));
        if ((quantize ? args->in.type : args->out.type) != PQ_F64 &&
            !general.narrow_first) {
            scale = (double)(float)scale;
        }
        const struct zero_point zero = zero_of(call, index, quantize);
        take_element(args, index, x);
        chance.word = args->round != PQ_STOCHASTIC
                          ? 0
                          : random_word(args->seed, args->start + position);
        chance.single = compute != PQ_F64;
        if (!affine && quantize) {
            quantize_plain(&general, x, y, scale, zero);
        } else if (!affine) {
            put_bits(y, general.out, 0, dequantized(&general, x, scale, zero));
        } else if (!quantize) {
            dequantize_affine(args, x, y, scale, offset_at(args, index), zero);
        } else if (quantize_affine(args, x, y, scale, offset_at(args, index), zero)) {
            out_of_range.first = out_of_range.count++ == 0 ? position : out_of_range.first;
        }
        give_element(call, index, y, ++position == call->n, lowest);
    }
    return out_of_range;
}

void naive_repack(const struct call *call, unsigned char *lowest)
{
    const struct pq_args *args = &call->args;
    size_t position = 0;
    EACH_INDEX(index, args->ndim, call->shape) {
        unsigned char x[8];
        take_element(args, index, x);
        if (pq_is_narrow_float(args->in.type)) {
            x[0] &= (unsigned char)((1 << pq_type_bits(args->in.type)) - 1);
        }
        give_element(call, index, x, ++position == call->n, lowest);
    }
}

void describe(const struct call *call, int quantize, char *text, size_t size)
{
    const struct pq_args *a = &call->args;
    size_t used = 0;
#define SAY(...)                                                                           \
    used += used < size ? (size_t)snprintf(text + used, size - used, __VA_ARGS__) : 0
    SAY("%s %s%s to %s%s, %s, precision %s, scale %s%s, zero %s%s, parts %d;",
        quantize ? "quantize" : "dequantize", type_name(a->in.type),
        a->in.swapped ? "'" : "", type_name(a->out.type), a->out.swapped ? "'" : "",
        round_name(a->round), type_name(a->precision), type_name(a->scale.type),
        a->scale.swapped ? "'" : "",
        a->zero.data != NULL ? type_name(a->zero.type) : "none", a->zero.swapped ? "'" : "",
        call->parts);
    for (int d = 0; d < a->ndim; d++) {
        SAY(" [%td: block %td, in %td, out %td, scale %td, zero %td]", a->shape[d],
            a->block != NULL ? a->block[d] : 1, call->in.strides[d], call->out.strides[d],
            a->scale.strides[d], a->zero.data != NULL ? a->zero.strides[d] : 0);
    }
    if (is_affine(a, quantize)) {
        SAY("; %s%s%zu fills, codes %lld to %lld, beyond %d%s",
            a->offset.data != NULL ? "offset, " : "", a->inverse ? "inverse, " : "",
            a->fills, (long long)a->lowest_code, (long long)a->highest_code, (int)a->beyond,
            a->refuse_nan ? ", no NaN" : "");
    }
#undef SAY
}
