/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Check pq_dynamic_quantize() and pq_fake_quantize() on random views, with each
 * instruction set and in random parts, against two calls of the scalar kernels. Masks are
 * compared with a call for each element. The comparison includes the memory around the
 * arrays.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "drivers.h"
#include "math/narrow_float.h"
#include "ops/levels.h"
#include "types.h"

enum { SOME = 2500, FILLED = 0x5a, SHORT = 400 };

static const enum pq_type reals[] = {PQ_F32, PQ_F16, PQ_BF16, PQ_F64};
static const enum pq_type chosen[] = {
    PQ_I8,       PQ_U8,       PQ_I16,      PQ_U16,        PQ_I32,      PQ_U32,
    PQ_I4,       PQ_U4,       PQ_I2,       PQ_U2,         PQ_F8E4M3FN, PQ_F8E5M2,
    PQ_F6E2M3FN, PQ_F6E3M2FN, PQ_F4E2M1FN, PQ_F8E4M3FNUZ, PQ_F8E3M4,   PQ_F8E4M3};
static const enum pq_type codes[] = {
    PQ_I8, PQ_U8, PQ_I16, PQ_U16, PQ_I32, PQ_U32,      PQ_I64,    PQ_U64,     PQ_I4,
    PQ_U2, PQ_U4, PQ_I2,  PQ_I8,  PQ_U8,  PQ_F8E4M3FN, PQ_F8E5M2, PQ_F4E2M1FN};

static struct guarded masks, judged;

struct snapshot {
    unsigned char *out, *scale, *zero, *mask;
};
static struct snapshot kept;

static void fill_arenas(void)
{
    memset(memory.out.base, FILLED, memory.out.size);
    memset(masks.base, FILLED, masks.size);
}

static void keep(void)
{
    memcpy(kept.out, memory.out.base, memory.out.size);
    memcpy(kept.scale, memory.scale.base, memory.scale.size);
    memcpy(kept.zero, memory.zero.base, memory.zero.size);
    memcpy(kept.mask, masks.base, masks.size);
}

static int is_as_kept(void)
{
    return memcmp(kept.out, memory.out.base, memory.out.size) == 0 &&
           memcmp(kept.scale, memory.scale.base, memory.scale.size) == 0 &&
           memcmp(kept.zero, memory.zero.base, memory.zero.size) == 0 &&
           memcmp(kept.mask, masks.base, masks.size) == 0;
}

static size_t draw_size(void)
{
    return random_chance(3) ? MOST_ELEMENTS : random_chance(60) ? USUAL_ELEMENTS : SHORT;
}

/* Run all parts in a random order. */
static enum pq_status in_parts(enum pq_status (*run)(const void *what, int part, int parts),
                               const void *what)
{
    const int parts = random_chance(50) ? 1 : (int)random_between(2, 9);
    const int first = (int)random_below((size_t)parts);
    enum pq_status worst = PQ_OK;
    for (int k = 0; k < parts; k++) {
        const enum pq_status status = run(what, (first + k) % parts, parts);
        worst = status != PQ_OK ? status : worst;
    }
    return worst;
}

/* ---- dynamic ---- */

struct dynamic {
    const struct pq_kernels *kernels;
    struct pq_args args;
    struct pq_choice choice;
};

static enum pq_status run_dynamic(const void *what, int part, int parts)
{
    const struct dynamic *d = what;
    return pq_dynamic_quantize(d->kernels, &d->args, &d->choice, part, parts);
}

static enum pq_status by_two_calls(const struct dynamic *d)
{
    const struct pq_kernels *const scalar = pq_isa_find("scalar");
    struct pq_args args = d->args;
    const enum pq_status status = pq_choose_params(scalar, &args, &d->choice, 0, 1);
    args.lowest_code = d->choice.lowest_code;
    args.highest_code = d->choice.highest_code;
    if (pq_is_narrow_float(args.out.type)) {
        args.zero.data = NULL;
    }
    return status != PQ_OK ? status : pq_quantize(scalar, &args, 0, 1);
}

static void fill_finite(struct call *call, int broken)
{
    ptrdiff_t index[PQ_MAX_NDIM] = {0};
    const struct pq_array *in = &call->in.array;
    const int tiny = random_chance(10);
    if (call->n == 0) {
        return;
    }
    do {
        unsigned char bytes[8];
        uint64_t bits = draw_real(in->type, tiny ? 1e-39 : 0.01, 300);
        put_bits(bytes, in->type, 0, bits);
        if (!isfinite(get_real(bytes, in->type, 0))) {
            bits = 0;
        }
        put_element(in, element_at(in, call->args.ndim, index, NULL), bits);
    } while (step(call->args.ndim, call->shape, index));
    if (broken) {
        put_element(in, in->data,
                    in->type == PQ_F32   ? 0x7fc00000
                    : in->type == PQ_F16 ? 0x7c00
                    : in->type == PQ_F64 ? UINT64_C(0xfff0000000000000)
                                         : 0x7f80);
    }
}

static void draw_seed(struct call *call)
{
    call->args.seed = random_bits();
    call->args.start = random_chance(50) ? random_below(1000) : random_bits();
}

static void draw_dynamic(struct call *call, struct dynamic *d, int broken)
{
    const enum pq_type real = pick(reals, COUNT(reals));
    const enum pq_type code = pick(chosen, random_chance(50) ? 2 : COUNT(chosen));
    const enum layout layout = random_chance(60) ? PLAIN : GAPPED;
    const enum layout params = random_chance(60) ? PLAIN : ALIGNED;
    memset(call, 0, sizeof *call);
    draw_shape(call, draw_size());
    draw_granularity(call);
    const int ndim = call->args.ndim;
    draw_view(&call->in, &memory.in, ndim, call->shape, real,
              layout == PLAIN ? PLAIN : BROADCAST);
    if (pq_type_bits(code) < 8 && random_chance(60)) {
        draw_bits(&call->out, &memory.out, ndim, call->shape, code,
                  random_chance(70) ? PLAIN : GAPPED);
    } else if (ndim > 0 && pq_type_bits(code) <= 8 && random_chance(15)) {
        draw_words(&call->out, &memory.out, ndim, call->shape, code,
                   random_chance(70) ? PLAIN : GAPPED);
    } else {
        draw_view(&call->out, &memory.out, ndim, call->shape, code,
                  random_chance(30) ? PLAIN : layout);
    }
    draw_view(&call->scale, &memory.scale, ndim, call->counts,
              real == PQ_F64 ? PQ_F64 : PQ_F32, params);
    draw_view(&call->zero, &memory.zero, ndim, call->counts,
              pq_is_integer(code) ? pq_carrier_of(code) : PQ_I8, params);
    clear_unselected(call, &call->scale);
    clear_unselected(call, &call->zero);
    fill_finite(call, broken && call->n > 0);
    call->args.in = call->in.array;
    call->args.out = call->out.array;
    call->args.out_layout = call->out.has_words ? &call->out.words : NULL;
    call->args.scale = call->scale.array;
    call->args.zero = call->zero.array;
    call->args.round = random_chance(80)   ? PQ_HALF_EVEN
                       : random_chance(50) ? PQ_FLOOR
                                           : PQ_STOCHASTIC;
    draw_seed(call);
    d->args = call->args;
    d->choice = (struct pq_choice){.size = sizeof d->choice, .code = code};
    if (!pq_is_narrow_float(code)) {
        const struct pq_range all = pq_range_of(code);
        const int some =
            !call->out.has_words && random_chance(30); /* a type of fewer than 8 bits */
        d->choice.rule = (enum pq_rule)random_below(3);
        d->choice.lowest_code = !some ? 0 : all.lo < -5 ? -5 : all.lo;
        d->choice.highest_code = !some ? 0 : all.hi > 6 ? 6 : all.hi;
    }
}

static void check_dynamic(const struct pq_kernels *kernels, const char *name)
{
    check_begin("dynamic: %s", name);
    for (size_t i = 0; i < check_count(SOME) && !check_tired(); i++) {
        static struct call call;
        struct dynamic d;
        const int broken = random_chance(3);
        draw_dynamic(&call, &d, broken);
        d.kernels = kernels;
        fill_arenas();
        memset(memory.scale.base, FILLED, memory.scale.size);
        memset(memory.zero.base, FILLED, memory.zero.size);
        const enum pq_status want = by_two_calls(&d);
        keep();
        fill_arenas();
        memset(memory.scale.base, FILLED, memory.scale.size);
        memset(memory.zero.base, FILLED, memory.zero.size);
        const enum pq_status status = in_parts(run_dynamic, &d);
        CHECK(status == want, "%zu: status %d instead of %d", i, status, want);
        if (status == PQ_OK) {
            CHECK(is_as_kept(), "%zu: ndim %d, %s to %s, other bytes", i, call.args.ndim,
                  type_name(call.args.in.type), type_name(call.args.out.type));
        }
    }
    check_end();
}

/* Count the parts that write each byte: a part writes a byte if its old value makes no
 * difference. */
static void count_bytes(const struct dynamic *d, int part, int parts, size_t n,
                        unsigned char *by)
{
    unsigned char *const q = d->args.out.data;
    for (int fill = FILLED;; fill = 0xff & ~FILLED) {
        memset(q, fill, n);
        CHECK(run_dynamic(d, part, parts) == PQ_OK, "part %d of %d", part, parts);
        for (size_t i = 0; i < n; i++) {
            by[i] = (unsigned char)(by[i] | (q[i] != fill ? 1 << part : 0));
        }
        if (fill != FILLED) {
            return;
        }
    }
}

/* Check that no byte belongs to two parts, though groups can end within a byte. */
static void check_parts_apart(const struct pq_kernels *kernels, const char *name)
{
    enum { N = 999, PARTS = 5 };
    static const enum pq_type types[] = {PQ_I4, PQ_U2, PQ_I8};
    static const ptrdiff_t blocks[] = {1, 3, 7, 64, 333};
    static float x[N], scale[N];
    static unsigned char q[N], zero[N];
    const ptrdiff_t n = N, number = sizeof(float), byte = 1;
    for (int i = 0; i < N; i++) {
        x[i] = (float)(i % 17 - 8);
    }
    check_begin("dynamic, parts apart: %s", name);
    for (size_t t = 0; t < COUNT(types) * COUNT(blocks); t++) {
        const enum pq_type type = types[t / COUNT(blocks)];
        const ptrdiff_t bits = pq_type_bits(type);
        struct dynamic d = {
            .kernels = kernels,
            .args = {.size = sizeof d.args,
                     .ndim = 1,
                     .shape = &n,
                     .block = blocks + t % COUNT(blocks),
                     .in = {.data = x, .strides = &number, .type = PQ_F32},
                     .out = {.data = q, .bit_strides = &bits, .type = type},
                     .scale = {.data = scale, .strides = &number, .type = PQ_F32},
                     .zero = {.data = zero, .strides = &byte, .type = pq_carrier_of(type)}},
            .choice = {.size = sizeof d.choice, .code = type},
        };
        if (type == PQ_I8) {
            d.args.out.bit_strides = NULL;
            d.args.out.strides = &byte;
        }
        for (int parts = 1; parts <= PARTS; parts++) {
            unsigned char by[N] = {0};
            for (int part = 0; part < parts; part++) {
                count_bytes(&d, part, parts, sizeof q, by);
            }
            for (size_t i = 0; i < sizeof q; i++) {
                const int used = (ptrdiff_t)i < (N * bits + 7) / 8;
                CHECK((by[i] != 0) == used && (by[i] & (by[i] - 1)) == 0,
                      "byte %zu of %s, blocks of %td, is of parts %x of %d", i,
                      type_name(type), d.args.block[0], (unsigned)by[i], parts);
            }
        }
    }
    check_end();
}

static void check_dynamic_errors(const struct pq_kernels *kernels)
{
    const ptrdiff_t shape[2] = {2, 3}, in[2] = {12, 4}, out[2] = {3, 1}, row[2] = {4, 0};
    const ptrdiff_t one[2] = {1, 0}, overlap[2] = {1, 1};
    float x[6] = {1, 2, 3, 4, 5, 6}, scale[2] = {7, 7};
    signed char q[6] = {9, 9, 9, 9, 9, 9}, zero[2] = {7, 7};
    struct pq_choice choice = {.size = sizeof choice};
    const struct pq_args good = {
        .size = sizeof good,
        .ndim = 2,
        .shape = shape,
        .in = {.data = x, .strides = in, .type = PQ_F32},
        .out = {.data = q, .strides = out, .type = PQ_I8},
        .scale = {.data = scale, .strides = row, .type = PQ_F32},
        .zero = {.data = zero, .strides = one, .type = PQ_I8},
    };
    struct pq_args bad = good;
    check_begin("dynamic: errors");
#define REFUSED(code, ...)                                                                 \
    CHECK(pq_dynamic_quantize(kernels, __VA_ARGS__) == (code), "%s", #__VA_ARGS__)
    REFUSED(PQ_ERR_NULL, NULL, &choice, 0, 1);
    REFUSED(PQ_ERR_NULL, &good, NULL, 0, 1);
    REFUSED(PQ_ERR_PART, &good, &choice, 1, 1);
    bad.zero.data = NULL;
    REFUSED(PQ_ERR_NULL, &bad, &choice, 0, 1);
    bad = good;
    bad.out.type = PQ_U8;
    REFUSED(PQ_ERR_TYPE, &bad, &choice, 0, 1);
    bad = good;
    bad.in.type = PQ_I32;
    REFUSED(PQ_ERR_TYPE, &bad, &choice, 0, 1);
    bad = good;
    bad.scale.type = PQ_F64;
    REFUSED(PQ_ERR_TYPE, &bad, &choice, 0, 1);
    REFUSED(PQ_ERR_TYPE, &bad, &choice, 98, 99); /* a part without work */
    bad.in.swapped = 1;
    REFUSED(PQ_ERR_TYPE, &bad, &choice, 98, 99);
    bad = good;
    bad.round = PQ_ROUND_COUNT;
    REFUSED(PQ_ERR_ROUND, &bad, &choice, 0, 1);
    bad = good;
    bad.out.strides = overlap;
    REFUSED(PQ_ERR_OVERLAP, &bad, &choice, 0, 1);
    choice.size = 3;
    REFUSED(PQ_ERR_SIZE, &good, &choice, 0, 1);
#undef REFUSED
    CHECK(q[0] == 9 && q[5] == 9, "codes were written");
    check_end();
}

/* ---- fake ---- */

struct faking {
    const struct pq_kernels *kernels;
    struct pq_args args;
    struct pq_fake fake;
};

static enum pq_status run_fake(const void *what, int part, int parts)
{
    const struct faking *f = what;
    return pq_fake_quantize(f->kernels, &f->args, &f->fake, part, parts);
}

/* Quantize to a separate array of codes in C order, and dequantize it. */
static enum pq_status there_and_back(const struct faking *f)
{
    const struct pq_kernels *const scalar = pq_isa_find("scalar");
    struct pq_args args = f->args;
    ptrdiff_t strides[PQ_MAX_NDIM], next = (ptrdiff_t)pq_type_size(f->fake.code);
    for (int d = args.ndim - 1; d >= 0; d--) {
        strides[d] = next;
        next *= args.shape[d] > 0 ? args.shape[d] : 1;
    }
    args.out =
        (struct pq_array){.data = judged.base, .strides = strides, .type = f->fake.code};
    const enum pq_status status = pq_quantize(scalar, &args, 0, 1);
    if (status != PQ_OK) {
        return status;
    }
    args.in = args.out;
    args.out = f->args.out;
    args.precision = PQ_NO_TYPE;
    args.any_zeros = 0;
    return pq_dequantize(scalar, &args, 0, 1);
}

/* Quantize each element alone; an error means that it is out of range. */
static void find_mask(const struct faking *f)
{
    const struct pq_kernels *const scalar = pq_isa_find("scalar");
    ptrdiff_t index[PQ_MAX_NDIM] = {0};
    const struct pq_args *const all = &f->args;
    uint64_t place = all->start;
    do {
        char code[8];
        struct pq_args one = *all;
        one.ndim = 0;
        one.fills = 0;
        one.overflow = 0;
        one.beyond = PQ_REFUSE;
        one.refuse_nan = 1;
        one.start = place++;
        one.in.data = element_at(&all->in, all->ndim, index, NULL);
        one.scale.data = element_at(&all->scale, all->ndim, index, all->block);
        if (all->zero.data != NULL) {
            one.zero.data = element_at(&all->zero, all->ndim, index, all->block);
        }
        if (all->offset != NULL) {
            one.offset = (const char *)all->offset +
                         ((char *)one.scale.data - (char *)all->scale.data);
        }
        one.out = (struct pq_array){.data = code, .type = f->fake.code};
        unsigned char *const to = element_at(&f->fake.mask, all->ndim, index, NULL);
        *to = pq_quantize(scalar, &one, 0, 1) == PQ_OK;
    } while (step(all->ndim, all->shape, index));
}

static void draw_fake(struct call *call, struct view *mask, struct faking *f)
{
    const enum pq_type real = pick(reals, COUNT(reals));
    const enum pq_type code = pick(codes, random_chance(40) ? 4 : COUNT(codes));
    const int is_float = pq_is_narrow_float(code), masked = random_chance(30);
    const enum layout layout = random_chance(50) ? PLAIN : GAPPED;
    memset(call, 0, sizeof *call);
    draw_shape(call, masked ? SHORT : draw_size());
    draw_granularity(call);
    const int ndim = call->args.ndim;
    draw_view(&call->in, &memory.in, ndim, call->shape, real,
              layout == PLAIN ? PLAIN : BROADCAST);
    draw_view(&call->out, &memory.out, ndim, call->shape, code,
              layout); /* for the other members */
    draw_params(call, random_chance(50) ? PLAIN : GAPPED,
                random_chance(60) ? PQ_F32 : pick(reals, COUNT(reals)), pq_carrier_of(code),
                !is_float && random_chance(60));
    call->args.any_zeros = 0;
    call->args.round = random_chance(50)   ? PQ_HALF_EVEN
                       : random_chance(50) ? PQ_STOCHASTIC
                                           : (enum pq_round)random_below(PQ_ROUND_COUNT);
    draw_seed(call);
    call->args.precision = random_chance(70) ? PQ_NO_TYPE : pick(reals, COUNT(reals));
    call->args.overflow = is_float && random_chance(30);
    call->args.out = call->out.array;
    call->args.in = call->in.array;
    call->args.scale = call->scale.array;
    call->args.zero = call->zero.array;
    if (random_chance(40)) {
        draw_affine(call, 1);
        call->args.beyond = PQ_SATURATE;
        call->args.refuse_nan = 0;
    }
    if (masked) {
        call->args.precision = random_chance(50) ? PQ_NO_TYPE : PQ_F64;
    }
    fill_params(call, 1);
    fill_input(call, 1);
    draw_view(&call->out, &memory.out, ndim, call->shape, real,
              random_chance(30) ? PLAIN : layout);
    draw_view(mask, &masks, ndim, call->shape, PQ_U8, random_chance(30) ? PLAIN : layout);
    call->args.out = call->out.array;
    f->args = call->args;
    f->fake = (struct pq_fake){.size = sizeof f->fake, .code = code};
    if (masked) {
        f->fake.mask = mask->array;
    }
}

static void check_fake(const struct pq_kernels *kernels)
{
    check_begin("fake: %s", kernels->name);
    for (size_t i = 0; i < check_count(SOME) && !check_tired(); i++) {
        static struct call call;
        static struct view mask;
        struct faking f;
        draw_fake(&call, &mask, &f);
        f.kernels = kernels;
        fill_arenas();
        const enum pq_status want = there_and_back(&f);
        if (want == PQ_OK && f.fake.mask.data != NULL && call.n > 0) {
            find_mask(&f);
        }
        keep();
        fill_arenas();
        const enum pq_status status = in_parts(run_fake, &f);
        CHECK(status == want, "%zu: status %d instead of %d", i, status, want);
        if (status == PQ_OK) {
            CHECK(is_as_kept(), "%zu: ndim %d, %s by %s, mode %d, mask %d, other bytes", i,
                  call.args.ndim, type_name(call.args.in.type), type_name(f.fake.code),
                  (int)call.args.round, f.fake.mask.data != NULL);
        }
    }
    check_end();
}

static void check_fake_errors(const struct pq_kernels *kernels)
{
    const ptrdiff_t shape[1] = {6}, floats[1] = {4}, bytes[1] = {1}, none[1] = {0};
    float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {9, 9, 9, 9, 9, 9}, scale = 1;
    signed char zero = 1;
    unsigned char mask[6] = {9, 9, 9, 9, 9, 9};
    const struct pq_args good = {
        .size = sizeof good,
        .ndim = 1,
        .shape = shape,
        .in = {.data = x, .strides = floats, .type = PQ_F32},
        .out = {.data = y, .strides = floats, .type = PQ_F32},
        .scale = {.data = &scale, .strides = none, .type = PQ_F32},
        .zero = {.data = &zero, .strides = none, .type = PQ_I8},
    };
    struct pq_args bad = good;
    const struct pq_fake fake = {.size = sizeof fake,
                                 .code = PQ_I8,
                                 .mask = {.data = mask, .strides = bytes, .type = PQ_U8}};
    struct pq_fake other = fake;
    check_begin("fake: errors");
#define REFUSED(status, ...)                                                               \
    CHECK(pq_fake_quantize(kernels, __VA_ARGS__) == (status), "%s", #__VA_ARGS__)
    REFUSED(PQ_ERR_NULL, NULL, &fake, 0, 1);
    REFUSED(PQ_ERR_NULL, &good, NULL, 0, 1);
    REFUSED(PQ_ERR_PART, &good, &fake, -1, 1);
    other.size = 1;
    REFUSED(PQ_ERR_SIZE, &good, &other, 0, 1);
    other = fake;
    other.code = PQ_F32;
    REFUSED(PQ_ERR_TYPE, &good, &other, 0, 1);
    other.code = PQ_F8E4M3FN; /* a type without zero points */
    REFUSED(PQ_ERR_ZERO, &good, &other, 0, 1);
    other = fake;
    other.mask.type = PQ_I8;
    REFUSED(PQ_ERR_TYPE, &good, &other, 0, 1);
    other = fake;
    other.mask.strides = none;
    REFUSED(PQ_ERR_OVERLAP, &good, &other, 0, 1);
    bad.out.strides = none;
    REFUSED(PQ_ERR_OVERLAP, &bad, &fake, 0, 1);
    bad = good;
    bad.out.type = PQ_F64;
    REFUSED(PQ_ERR_TYPE, &bad, &fake, 0, 1);
    bad = good;
    bad.zero_first = 1;
    REFUSED(PQ_ERR_OPTION, &bad, &fake, 0, 1);
    bad = good;
    bad.beyond = PQ_REFUSE;
    REFUSED(PQ_ERR_OPTION, &bad, &fake, 0, 1);
    bad = good;
    bad.round = PQ_ROUND_COUNT;
    REFUSED(PQ_ERR_ROUND, &bad, &fake, 0, 1);
#undef REFUSED
    CHECK(y[0] == 9 && y[5] == 9 && mask[0] == 9 && mask[5] == 9, "something was written");
    check_end();
}

/* ---- levels ---- */

static float level_of(float x, const struct pq_level_params *p)
{
    if (!(p->low < p->high)) { /* an inverted range */
        const volatile float ratio = (x - p->low) / (p->high - p->low);
        const volatile float product = ratio * p->slope;
        const volatile float scaled = nearbyintf(product) / p->slope * p->step;
        return x > p->low ? p->shift : x > p->high ? scaled + p->first : p->first;
    }
    const float v = x > p->low ? (x < p->high ? x : p->high) : p->low;
    const volatile float product = v * p->slope;
    const volatile float sum = product + p->shift;
    return fmaf(nearbyintf(sum), p->step, p->first);
}

static void check_levels(const struct pq_kernels *kernels)
{
    check_begin("levels: %s", kernels->name);
    for (size_t i = 0; i < check_count(SOME / 4) && !check_tired(); i++) {
        static struct call call;
        ptrdiff_t index[PQ_MAX_NDIM] = {0}, strides[PQ_MAX_NDIM], next = 0;
        struct pq_level_params *const params = (void *)memory.scale.base;
        memset(&call, 0, sizeof call);
        draw_shape(&call, USUAL_ELEMENTS);
        draw_granularity(&call);
        const int ndim = call.args.ndim;
        const enum pq_type types[] = {PQ_F32, PQ_F64, PQ_F16, PQ_BF16};
        const enum pq_type type = types[random_chance(50) ? 0 : random_below(4)];
        draw_view(&call.in, &memory.in, ndim, call.shape, type, BROADCAST);
        draw_view(&call.out, &memory.out, ndim, call.shape, type,
                  random_chance(50) ? PLAIN : GAPPED);
        next = (ptrdiff_t)sizeof *params;
        for (int d = ndim - 1; d >= 0; d--) {
            strides[d] = call.selects[d] ? next : 0;
            next *= call.counts[d] > 0 ? call.counts[d] : 1;
        }
        for (ptrdiff_t k = 0; k < next / (ptrdiff_t)sizeof *params; k++) {
            const float low = (float)random_unit() * 4 - 3,
                        n = (float)random_below(300) + 1;
            const float high = low + (float)random_unit() * 3 + 0.01f;
            params[k] = (struct pq_level_params){low,
                                                 high,
                                                 n / (high - low),
                                                 -low * (n / (high - low)),
                                                 (float)random_unit() - 0.5f,
                                                 (float)random_unit() - 0.5f};
            if (random_chance(10)) {
                params[k].low = random_chance(30) ? low : high;
                params[k].high = low;
                params[k].slope = n;
                params[k].shift = params[k].first + params[k].step;
            }
        }
        fill_finite(&call, random_chance(10) && call.n > 0);
        call.args.in = call.in.array;
        call.args.out = call.out.array;
        call.args.scale =
            (struct pq_array){.data = params, .strides = strides, .type = PQ_F32};
        fill_arenas();
        const int parts = (int)random_between(1, 4);
        for (int part = 0; part < parts; part++) {
            CHECK(pq_fake_levels(kernels, &call.args, part, parts) == PQ_OK, "%zu", i);
        }
        for (int more = call.n > 0; more && !check_failed();
             more = step(ndim, call.shape, index)) {
            const struct pq_array *const in = &call.in.array, *const out = &call.out.array;
            const float x = (float)real_at(in, element_at(in, ndim, index, NULL));
            const float y = (float)real_at(out, element_at(out, ndim, index, NULL));
            const struct pq_level_params *const p =
                (const void *)element_at(&call.args.scale, ndim, index, call.args.block);
            const float exact = level_of(x, p);
            const float want = type == PQ_F16    ? pq_f32_from_f16(pq_f16_from_f32(exact))
                               : type == PQ_BF16 ? pq_f32_from_bf16(pq_bf16_from_f32(exact))
                                                 : exact;
            CHECK(bits_of_f32(y) == bits_of_f32(want), "%zu: %a gives %a instead of %a", i,
                  (double)x, (double)y, (double)want);
        }
    }
    check_end();
}

#undef DYNAMIC
#define DYNAMIC(check) check,
static driver_fn *const drivers[] = {
#include "kernels/list.h"
    NULL};

int main(void)
{
    check_start("check_dynamic");
    make_arenas();
    masks = guarded_make(ARENA);
    judged = guarded_make(MOST_ELEMENTS * sizeof(double) + 64);
    kept = (struct snapshot){malloc(memory.out.size), malloc(memory.scale.size),
                             malloc(memory.zero.size), malloc(masks.size)};
    run_drivers(drivers);
    for (int i = 0; pq_isa_name(i) != NULL; i++) {
        const char *const name = pq_isa_name(i);
        check_dynamic(pq_isa_find(name), name);
        check_parts_apart(pq_isa_find(name), name);
    }
    check_dynamic_errors(pq_isa_find(pq_isa_name(0)));
    check_fake_errors(pq_isa_find(pq_isa_name(0)));
    free(kept.out);
    free(kept.scale);
    free(kept.zero);
    free(kept.mask);
    guarded_free(&masks);
    guarded_free(&judged);
    free_arenas();
    return check_finish();
}
