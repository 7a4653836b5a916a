/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Check the errors of pq_requantize_codes(). Compare pq_fake_levels() with the definition.
 * fuzz_api.c checks the results of pq_requantize_codes().
 */
#include <math.h>
#include <string.h>

#include "calls.h"
#include "drivers.h"
#include "ops/levels.h"
#include "oracle.h"
#include "types.h"

static void fill_finite(struct call *call, int broken)
{
    const struct pq_array *in = &call->in.array;
    const int tiny = random_chance(10);
    EACH_INDEX(index, call->args.ndim, call->shape) {
        unsigned char bytes[8];
        uint64_t bits = draw_real(in->type, tiny ? 1e-39 : 0.01, 300);
        put_bits(bytes, in->type, 0, bits);
        if (!isfinite(get_real(bytes, in->type, 0))) {
            bits = 0;
        }
        put_element(in, element_at(in, call->args.ndim, index, NULL), bits);
    }
    if (broken) {
        const double v = random_chance(50) ? (double)NAN : HUGE_VAL;
        put_element(in, in->data, encode(in->type, v, 1, 0));
    }
}

/* ---- codes to codes ---- */

/* Check the errors of pq_requantize_codes(). A call with an error must write no codes. */
static void check_requantize_errors(const struct pq_kernels *kernels)
{
    enum { BOXES = 40000 };
    static unsigned char x[BOXES], y[BOXES];
    const ptrdiff_t shape[2] = {BOXES, 1}, other[2] = {BOXES, 2}, strides[2] = {1, 1};
    const ptrdiff_t none[2] = {0, 0}, bits[2] = {8, 8};
    const float scale = 1;
    const int16_t zero = 300;
    const struct pq_args good = {
        .size = sizeof good,
        .ndim = 2,
        .shape = shape,
        .in = {.data = x, .strides = strides, .type = PQ_U8},
        .out = {.data = y, .strides = strides, .type = PQ_F32},
        .scale = {.data = (void *)&scale, .strides = none, .type = PQ_F32},
    };
    const struct pq_array large = {.data = (void *)&zero, .strides = none, .type = PQ_I16};
    struct pq_args from = good, args;
    check_begin("requantize_codes: errors");
    memset(y, 9, sizeof y);
#define FROM(due, change)                                                                  \
    from = good;                                                                           \
    change;                                                                                \
    TO(due, (void)0)
#define TO(due, change)                                                                    \
    AFTER(due, args.out.type = PQ_U8;                                                      \
          change, pq_requantize_codes(kernels, &from, &args, 0, 1))
    EXPECT(PQ_ERR_NULL, pq_requantize_codes(kernels, NULL, &good, 0, 1));
    EXPECT(PQ_ERR_NULL, pq_requantize_codes(kernels, &good, NULL, 0, 1));
    EXPECT(PQ_ERR_NULL, pq_requantize_codes(NULL, &good, &good, 0, 1));
    EXPECT(PQ_ERR_PART, pq_requantize_codes(kernels, &good, &good, 1, 1));
    FROM(PQ_ERR_SIZE, from.size = 1);
    from = good;
    from.ndim = -1;
    EXPECT(PQ_ERR_NDIM, pq_requantize_codes(kernels, &from, &from, 0, 1));
    FROM(PQ_ERR_TYPE, from.in.type = PQ_F32);
    FROM(PQ_ERR_TYPE, from.out.type = PQ_U8);
    FROM(PQ_ERR_ZERO, from.zero = large);
    FROM(PQ_ERR_OPTION, from.precision = PQ_F32);
    FROM(PQ_ERR_SHAPE, from.in.bit_strides = bits);
    from = good;
    TO(PQ_ERR_SIZE, args.size = 1);
    TO(PQ_ERR_SHAPE, args.ndim = 1);
    TO(PQ_ERR_SHAPE, args.shape = other);
    TO(PQ_ERR_NULL, args.shape = NULL);
    TO(PQ_ERR_SHAPE, args.out.bit_strides = bits);
    TO(PQ_ERR_TYPE, args.out.type = PQ_F32);
    TO(PQ_ERR_ZERO, args.zero = large);
    TO(PQ_ERR_OVERLAP, args.out.strides = none);
    TO(PQ_ERR_ROUND, args.round = PQ_ROUND_COUNT);
    TO(PQ_ERR_OPTION, args.round = PQ_STOCHASTIC);
    TO(PQ_ERR_OPTION, args.beyond = PQ_REFUSE);
    TO(PQ_ERR_OPTION, args.refuse_nan = 1);
    CHECK(y[0] == 9 && y[BOXES - 1] == 9, "codes were written");
    TO(PQ_OK, (void)0);
    CHECK(y[0] == 0 && y[BOXES - 1] == 0, "codes were not written");
#undef TO
#undef FROM
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

static void check_levels(const struct pq_kernels *of, pq_levels_fn *kernel)
{
    struct pq_kernels table = pq_kernels_scalar;
    table.levels = kernel;
    check_begin("levels: %s", of->name);
    CASES(i, check_count(600)) {
        static struct call call;
        ptrdiff_t *const strides = call.scale.strides;
        struct pq_level_params *const params = (void *)memory.scale.base;
        memset(&call, 0, sizeof call);
        draw_shape(&call, USUAL_ELEMENTS);
        draw_granularity(&call);
        const int ndim = call.args.ndim;
        const enum pq_type type = reals[random_chance(50) ? 0 : random_below(REALS)];
        draw_view(&call.in, &memory.in, ndim, call.shape, type, BROADCAST);
        draw_view(&call.out, &memory.out, ndim, call.shape, type,
                  random_chance(50) ? PLAIN : GAPPED);
        set_dense_strides(strides, ndim, call.counts, sizeof *params);
        clear_unselected(&call, &call.scale);
        for (size_t k = 0; k < elements_of(ndim, call.counts); k++) {
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
            CHECK(pq_fake_levels(&table, &call.args, part, parts) == PQ_OK, "%zu", i);
        }
        EACH_INDEX(index, ndim, call.shape) {
            const struct pq_array *const in = &call.in.array, *const out = &call.out.array;
            const float x = (float)real_at(in, element_at(in, ndim, index, NULL));
            const float y = (float)real_at(out, element_at(out, ndim, index, NULL));
            const struct pq_level_params *const p =
                (const void *)element_at(&call.args.scale, ndim, index, call.args.block);
            const float exact = level_of(x, p);
            const double want = decode(type, encode(type, (double)exact, 1, 0));
            CHECK(bits_of_f32(y) == bits_of_f32((float)want),
                  "%zu: %a gives %a instead of %a", i, (double)x, (double)y, want);
        }
    }
}

static void check_alone(void)
{
    make_arenas();
    check_requantize_errors(tables[0]);
}

#undef DYNAMIC
#define DYNAMIC TEST
#include "program.h"
