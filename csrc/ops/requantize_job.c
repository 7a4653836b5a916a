/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the requantize kernel, and the definition where the kernel cannot compute. */
#include <string.h>

#include "ops/requantize.h"

/* If a sum exceeds int32, the definition computes a piece of this size. A piece holds a
 * tile, because parameters of single elements are not divided. */
enum { PIECE_ELEMENTS = PQ_SIZE(16384, PQ_TILE) };
_Static_assert((int)PIECE_ELEMENTS >= (int)PQ_TILE, "a tile does not fit a piece");

/* ---- the definition ---- */

#define LOAD(bits, type)                                                                   \
    case bits: {                                                                           \
        type v;                                                                            \
        memcpy(&v, x, sizeof v);                                                           \
        return (int64_t)v;                                                                 \
    }

PQ_INLINE int64_t load_element(const char *x, enum pq_type in)
{
    switch (in) {
        LOAD(PQ_I8, int8_t)
        LOAD(PQ_U8, uint8_t)
        LOAD(PQ_I16, int16_t)
        LOAD(PQ_U16, uint16_t)
        LOAD(PQ_I32, int32_t)
        LOAD(PQ_U32, uint32_t)
        LOAD(PQ_I64, int64_t)
    default:
        return 0;
    }
}
#undef LOAD

PQ_INLINE void store_code(char *y, size_t size, int64_t v)
{
    const uint8_t v8 = (uint8_t)v;
    const uint16_t v16 = (uint16_t)v;
    const uint32_t v32 = (uint32_t)v;
    memcpy(y, size == 1 ? (const void *)&v8 : size == 2 ? (const void *)&v16 : &v32, size);
}

/* Return the code of a sum. */
static int64_t code_of(const struct pq_requantization_job *call, int64_t sum,
                       const struct pq_multiplier *by)
{
    const int64_t lowest = call->how.lowest, highest = call->how.highest;
    int64_t r = pq_rounded_product(sum, call->args->arithmetic, by, lowest, highest);
    r = r > lowest ? r : lowest;
    r = r < highest ? r : highest;
    return r + call->args->zero;
}

void pq_requantize_element(void *p, struct pq_position at)
{
    struct pq_job *const job = p;
    const struct pq_requantization_job *const call = job->how.run.requantize;
    const struct pq_requantization *const args = call->args;
    const ptrdiff_t channel = pq_channel_of(call, at.scale);
    struct pq_multiplier by;
    int64_t bias;
    char x[sizeof(int64_t)] = {0}, y[sizeof(int64_t)] = {0};
    pq_load_multipliers(&by, args, channel, 0, 1);
    pq_load_biases(&bias, &args->bias, channel, 0, 1);
    pq_copy_element(x, at.in, job->in_size, job->in_swapped);
    const int64_t v = load_element(x, args->in.type);
    store_code(y, job->out_size, code_of(call, pq_sum_of(v, args->input_zero, bias), &by));
    pq_copy_element(at.out, y, job->out_size, job->out_swapped);
}

/* Requantize lines by the definition. */
PQ_NOINLINE void run_definition(const struct pq_requantization_job *call,
                                const struct pq_requantize_run *how, const char *x, char *y,
                                size_t n)
{
    const enum pq_type type = call->args->in.type;
    const size_t in = pq_bytes_of(type), out = pq_bytes_of(how->out);
    for (size_t line = 0; line < how->lines; line++) {
        for (size_t i = 0; i < n; i++) {
            const size_t place = how->each ? i : line;
            const struct pq_multiplier by = pq_multiplier_at(how, place);
            const int64_t v = load_element(x + i * in, type);
            store_code(y + i * out, out,
                       code_of(call, pq_sum_of(v, 0, how->bias[place]), &by));
        }
        x += how->in_stride;
        y += how->out_stride;
    }
}

/* ---- kernel calls ---- */

/* Convert to int32. Return false if int32 cannot represent an element. */
#define WIDEN(bits, type)                                                                  \
    case bits: {                                                                           \
        int64_t beyond = 0;                                                                \
        for (size_t i = 0; i < n; i++) {                                                   \
            type v;                                                                        \
            memcpy(&v, x + i * sizeof v, sizeof v);                                        \
            to[i] = (int32_t)(uint32_t)v;                                                  \
            beyond |= (int64_t)v ^ to[i];                                                  \
        }                                                                                  \
        return beyond == 0;                                                                \
    }

PQ_NOINLINE bool widen(int32_t *PQ_RESTRICT to, const char *PQ_RESTRICT x,
                       enum pq_type type, size_t n)
{
    switch (type) {
        WIDEN(PQ_I8, int8_t)
        WIDEN(PQ_U8, uint8_t)
        WIDEN(PQ_I16, int16_t)
        WIDEN(PQ_U16, uint16_t)
        WIDEN(PQ_U32, uint32_t)
        WIDEN(PQ_I64, int64_t)
    default:
        return false;
    }
}
#undef WIDEN

/* Run the kernel on int32 copies of lines: at most PQ_TILE elements. */
PQ_NOINLINE bool run_widened(const struct pq_requantization_job *call,
                             struct pq_requantize_run how, const char *x, char *y, size_t n)
{
    int32_t wide[PQ_TILE];
    bool fits = true;
    for (size_t line = 0; line < how.lines && fits; line++, x += how.in_stride) {
        fits = widen(wide + line * n, x, call->args->in.type, n);
    }
    how.in_stride = (ptrdiff_t)(n * sizeof *wide);
    return fits && call->kernels->requantize(&how, wide, y, n) != 0;
}

/* Requantize lines, a piece at a time. */
static void run_pieces(const struct pq_requantization_job *call,
                       struct pq_requantize_run how, size_t lines, const char *x, char *y,
                       size_t n)
{
    const enum pq_type in = call->args->in.type;
    const bool wide = in == PQ_I32, single = !how.each && how.kind == PQ_REQUANTIZE_NONE;
    const size_t most = wide ? PIECE_ELEMENTS : PQ_TILE;
    const size_t at_once = n < most && !single ? most / n : 1;
    for (size_t line = 0; line < lines; line += how.lines) {
        how.lines = lines - line < at_once ? lines - line : at_once;
        if (single) { /* a kernel may compute some lines */
            struct pq_requantize_range range = PQ_NO_REQUANTIZE_RANGE;
            pq_note_requantize_params(&range, *how.m, *how.down, *how.bias);
            pq_set_requantize_kind(&how, &range);
        }
        for (size_t done = 0, m; done < n; done += m) {
            const char *const from = x + done * pq_bytes_of(in);
            char *const to = y + done * pq_bytes_of(how.out);
            m = n - done < most ? n - done : most;
            if (how.kind == PQ_REQUANTIZE_NONE ||
                !(wide ? call->kernels->requantize(&how, from, to, m) != 0
                       : run_widened(call, how, from, to, m))) {
                run_definition(call, &how, from, to, m);
            }
        }
        const size_t places = how.each ? 0 : how.lines;
        how.m += places;
        how.down += places;
        how.bias += places;
        x += (ptrdiff_t)how.lines * how.in_stride;
        y += (ptrdiff_t)how.lines * how.out_stride;
    }
}

void pq_requantize_lines(const struct pq_run *run, const void *px, void *py, size_t n)
{
    const struct pq_requantization_job *const call = run->requantize;
    const struct pq_requantization *const args = call->args;
    struct pq_requantize_run how = call->how;
    const char *x = px;
    char *y = py;
    const size_t g = run->group;
    how.each = g == 1;
    how.m = run->scale.i32;
    how.down = run->offset.i32;
    how.bias = run->zero.i32;
    how.in_stride = (ptrdiff_t)(g * pq_bytes_of(args->in.type)) + run->in_gap;
    how.out_stride = (ptrdiff_t)(g * pq_bytes_of(args->out.type)) + run->out_gap;
    if (how.each) {
        how.in_stride = run->in_stride;
        how.out_stride = run->out_stride;
        run_pieces(call, how, run->rows > 1 ? run->rows : 1, x, y, n);
        return;
    }
    const size_t full = n / g;
    run_pieces(call, how, full, x, y, g);
    if (n % g != 0) {
        how.m += full;
        how.down += full;
        how.bias += full;
        run_pieces(call, how, 1, x + (ptrdiff_t)full * how.in_stride,
                   y + (ptrdiff_t)full * how.out_stride, n % g);
    }
}
