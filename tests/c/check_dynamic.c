/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Check that parts of pq_dynamic_quantize() share no byte, the errors of dynamic_quantize
 * and fake_quantize, and pq_fake_levels() against its definition. fuzz_api.c checks the
 * results of the other two functions.
 */
#include <math.h>
#include <string.h>

#include "calls.h"
#include "drivers.h"
#include "math/narrow_float.h"
#include "ops/levels.h"
#include "types.h"

enum { FILLED = 0x5a };

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
    for (size_t i = 0; i < check_count(600) && !check_tired(); i++) {
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
    run_drivers(drivers);
    for (int i = 0; pq_isa_name(i) != NULL; i++) {
        const char *const name = pq_isa_name(i);
        check_parts_apart(pq_isa_find(name), name);
    }
    check_dynamic_errors(pq_isa_find(pq_isa_name(0)));
    check_fake_errors(pq_isa_find(pq_isa_name(0)));
    free_arenas();
    return check_finish();
}
