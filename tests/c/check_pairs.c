/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Check the kernels that quantize and dequantize. For each pair of types, options, shapes,
 * parameters and numbers are random. All instruction sets run equal calls. A part of the
 * results is compared with the definition, and the rest with the scalar kernels, bit for
 * bit. Arrays are between inaccessible pages, at any alignment.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "drivers.h"
#include "math/fpenv.h"
#include "oracle.h"
#include "types.h"

enum {
    LONG_RUN = 1 << 16,
    MAX_N = 2 * LONG_RUN + 1024,
    MAX_PIECES = 30,
    SHORT_N = 3 * 32 + 3, /* three chunks of the largest size, and a rest */
    PERIOD = 5003, /* number of elements after which the numbers of a long run repeat */
    MARGIN = 64,
    MOST_TABLES = COUNT(tables),
    AT_END = -1
};

/* The arguments of a kernel call. A call on rows with equal parameters has a piece for each
 * row. A call on groups with gaps between the groups has a piece for each group. Any other
 * call has one piece. */
static struct {
    pq_kernel_fn *kernels[MOST_TABLES]; /* the kernel of each instruction set */
    /* types and options of the call, and the number of elements of a group */
    struct pq_run run;
    int quantizes;
    size_t pieces, n;         /* number of pieces, number of elements of a piece */
    size_t in_step, out_step; /* bytes from the start of a piece to the next start */
    size_t params;
    /* arrays of any type; double only sets the size and the alignment */
    double x[MAX_N], y[MAX_N], scale[MAX_N], zero[MAX_N];
    uint32_t random_words[MAX_N];
} batch;

static struct {
    struct guarded x, y, scale, zero, random_words;
} memory;

static int has_control; /* 0 if CHECK_NO_CONTROL forbids control states */
static int last_table;  /* index of the scalar table in `tables` */

#define TYPE(type, ...) PQ_##type,
static const enum pq_type codes[] = {
    PQ_FOR_CODE(TYPE) PQ_FOR_32_BIT(TYPE) PQ_FOR_FLOAT(TYPE) PQ_I64, PQ_U64};
#undef TYPE

static enum pq_type code_type(void)
{
    return batch.quantizes ? batch.run.out : batch.run.in;
}

static int is_float(void)
{
    return pq_is_narrow_float(code_type());
}

static size_t in_bytes(void)
{
    return (batch.pieces - 1) * batch.in_step + batch.n * pq_bytes_of(batch.run.in);
}

static size_t out_bytes(void)
{
    return (batch.pieces - 1) * batch.out_step + batch.n * pq_bytes_of(batch.run.out);
}

static int has_gaps(void)
{
    return batch.pieces > 1 && batch.run.group > 1;
}

/* Return the index of the scale and the zero point of element `i` of a piece. */
static size_t param_of(size_t piece, size_t i)
{
    return has_gaps() ? piece : i / batch.run.group;
}

/* ---- parameters, in float32 and int32, or in the types of general kernels ---- */

static size_t param_size(void)
{
    return batch.run.general ? sizeof(double) : sizeof(float);
}

static double scale_at(size_t p)
{
    return get_real(batch.scale, batch.run.general ? PQ_F64 : PQ_F32, p);
}

static void set_scale(size_t p, double scale)
{
    const int general = batch.run.general;
    put_bits(batch.scale, general ? PQ_F64 : PQ_F32, p,
             general ? bits_of_f64(scale) : bits_of_f32((float)scale));
}

/* Return 1 if zero points are floating-point numbers, as for narrow floats and with
 * zero_first. Kernels add the number, except that general kernels subtract the number to
 * dequantize. */
static int has_number(void)
{
    return is_float() || batch.run.zero_first;
}

static double with_sign(double number)
{
    return batch.quantizes ? number : -number;
}

static void set_zero(size_t p, struct zero_point zero)
{
    if (pq_is_64_bit(code_type())) {
        put_bits(batch.zero, PQ_I64, p, (uint64_t)zero.integer);
    } else if (batch.run.general) {
        batch.zero[p] = has_number() ? with_sign(zero.number) : (double)zero.integer;
    } else {
        put_bits(batch.zero, PQ_I32, p,
                 has_number() ? bits_of_f32((float)zero.number) : (uint64_t)zero.integer);
    }
}

static struct zero_point zero_at(size_t p)
{
    if (pq_is_64_bit(code_type())) {
        return (struct zero_point){get_integer(batch.zero, PQ_I64, p), 0};
    }
    if (batch.run.general) {
        return has_number() ? (struct zero_point){0, with_sign(batch.zero[p])}
                            : (struct zero_point){(int64_t)batch.zero[p], 0};
    }
    return has_number() ? (struct zero_point){0, get_real(batch.zero, PQ_F32, p)}
                        : (struct zero_point){get_integer(batch.zero, PQ_I32, p), 0};
}

/* Return a random zero point in the range of the codes. Zero points for dequantize can also
 * be out of this range. */
static struct zero_point draw_zero(void)
{
    const enum pq_type code = code_type();
    const struct limits limits = limits_of(code);
    const int64_t most = batch.run.general ? INT64_C(1) << 52 : INT64_C(1) << 30;
    if (has_number()) {
        return (struct zero_point){
            0, random_chance(60) ? -0.0 : (double)random_between(-40, 40) / 4};
    }
    if (pq_is_64_bit(code) && random_chance(50)) {
        return (struct zero_point){(int64_t)random_bits(), 0};
    }
    if (pq_bits_of(code) == 32 && !batch.run.general) {
        return (struct zero_point){0, 0};
    }
    if (!batch.quantizes && random_chance(25)) {
        return (struct zero_point){draw_integer(-most, most), 0};
    }
    return (struct zero_point){draw_integer(limits.lo, limits.hi), 0};
}

/* Fill in random scales and zero points. The scales of a call are of all kinds, or ordinary
 * scales with a usable reciprocal, or of similar magnitude with perhaps one exception. */
static void draw_params(void)
{
    const int is_f64 = batch.run.compute == PQ_F64 || batch.run.in == PQ_F64;
    const enum pq_type real = batch.quantizes ? batch.run.in : batch.run.out;
    const int kind = (int)random_below(4), least = (int)random_between(-110, 80);
    const int flat = random_chance(50), ones = random_chance(10);
    const struct zero_point none = {0, -0.0};
    for (size_t p = 0; p < batch.params; p++) {
        const double significand = ones ? 0x1.fffffep0 : 1 + random_unit();
        double s = is_f64 ? draw_scale_f64() : (double)draw_scale();
        s = kind == 0   ? ldexp(significand, (int)random_between(-110, 20))
            : kind == 1 ? ldexp((double)(float)significand, least + (int)random_below(14))
                        : s;
        if (batch.run.compute != PQ_F32 && pq_bytes_of(real) == 2) {
            s = decode(real, random_bits() & 0xffff);
        }
        set_scale(p, is_f64 ? s : (double)(float)s);
        set_zero(p, flat ? none : draw_zero());
    }
    if (kind == 1 && batch.params > 1 && random_chance(30)) {
        set_scale(random_below(batch.params), (double)draw_scale());
    }
}

/* ---- elements ---- */

/* Return the bits of a random number. Its quotient by the scale is near a value of the
 * narrow float type, or near the midpoint of two neighbouring values. */
static uint64_t draw_near_number(double scale)
{
    const struct float_format *const f = format_of(code_type());
    const uint32_t m = (uint32_t)random_below(f->last + 1);
    const double v = value_of(f, m), next = value_of(f, m + 1);
    const float x = (float)(scale * (random_chance(75) ? (v + next) / 2 : v));
    const uint32_t bits = bits_of_f32(random_chance(50) ? x : -x);
    return (bits + (uint32_t)random_between(-2, 2)) >> (batch.run.in == PQ_BF16 ? 16 : 0);
}

static uint64_t draw_code(void)
{
    const struct limits limits = limits_of(code_type());
    return is_float() || random_chance(30) ? random_bits()
                                           : (uint64_t)draw_integer(limits.lo, limits.hi);
}

/* Fill in random input. In long runs, element i of a group is element i - PERIOD with 1
 * added to its bits, so that numbers near a tie stay near the tie. PERIOD is odd, so that
 * chunks begin at different numbers. */
static void draw_input(void)
{
    enum { NEAR = 7 };
    const enum pq_type in = batch.run.in, code = code_type();
    const int counts = batch.n >= LONG_RUN / 16 && pq_bytes_of(in) == 2 &&
                       random_chance(70); /* use all 16-bit patterns in order */
    const int ties = in == PQ_F32 && random_chance(10);
    const double limit = is_float()            ? 600
                         : !pq_is_64_bit(code) ? 2.5 * (double)limits_of(code).hi
                         : random_chance(50)   ? 0x1p67
                                               : 0x1p54;
    for (size_t i = 0; i < in_bytes(); i += sizeof(uint64_t)) {
        const uint64_t bits = random_bits();
        memcpy((char *)batch.x + i, &bits, sizeof bits);
    }
    for (size_t e = 0; e < batch.pieces * batch.n; e++) {
        const size_t piece = e / batch.n, i = e % batch.n;
        const double s = scale_at(param_of(piece, i));
        const double tie = ((double)(i / NEAR) - (double)(batch.n / NEAR / 2) + 0.5) * s;
        char *const x = (char *)batch.x + piece * batch.in_step;
        const int repeats = !ties && i % batch.run.group >= PERIOD;
        put_bits(x, in, i,
                 counts             ? i
                 : repeats          ? get_bits(x, in, i - PERIOD) + 1
                 : !batch.quantizes ? draw_code()
                 : ties             ? bits_of_f32((float)tie) + i % NEAR - NEAR / 2
                 : !is_float() || pq_bytes_of(in) > 4 || in == PQ_F16 || random_chance(30)
                     ? draw_real(in, s, limit)
                     : draw_near_number(s));
    }
    for (size_t i = 0; i < batch.n && batch.run.round == PQ_STOCHASTIC; i++) {
        batch.random_words[i] = random_chance(10) ? 0 : (uint32_t)random_bits();
    }
}

/* ---- options and shapes ---- */

/* Kinds of kernels: for one pair of types, for any pair, and for stochastic rounding. */
enum form { OF_PAIR, GENERAL, STOCHASTIC };

static void draw_options(enum pq_type real, enum pq_type code, int quantizes,
                         enum form form)
{
    struct pq_run *const run = &batch.run;
    const int bits = pq_bits_of(code), floats = pq_is_narrow_float(code);
    const int only_general = real == PQ_F64 || bits == 64;
    batch.quantizes = quantizes;
    *run = (struct pq_run){.in = quantizes ? real : code,
                           .out = quantizes ? code : real,
                           .compute = real == PQ_F64 ? PQ_F64 : PQ_F32,
                           .round = PQ_HALF_EVEN,
                           .general =
                               form == GENERAL ||
                               (form == STOCHASTIC && (only_general || random_chance(25)))};
    if (!quantizes) {
        run->unsigned_zero = code == PQ_U64 && random_chance(50);
        return;
    }
    run->overflow = floats && random_chance(50);
    run->zero_first = floats;
    if (form == STOCHASTIC) {
        run->round = PQ_STOCHASTIC;
    } else if (floats || random_chance(40)) {
        return;
    } else if (run->general) {
        run->compute = reals[random_below(4)];
        run->round = static_round(random_below(STATIC_ROUNDS));
    } else if (bits < 32 && random_chance(70)) {
        run->round = static_round(random_below(STATIC_ROUNDS));
    } else if (bits == 8 && real == PQ_F32) {
        run->zero_first = true;
    } else if (bits < 32 && real != PQ_F32) {
        run->compute = real;
    }
}

/* Choose a shape: groups with gaps if `gaps` is 1, else rows with equal parameters. */
static void draw_pieces(int gaps)
{
    const size_t in = pq_bytes_of(batch.run.in), out = pq_bytes_of(batch.run.out);
    const size_t most = random_chance(80) ? 200 : PQ_MAX_GAPPED_GROUP,
                 apart = random_below(3);
    batch.pieces = 2 + random_below(MAX_PIECES - 2);
    batch.n = gaps ? PQ_MIN_GAPPED_GROUP + random_below(most - PQ_MIN_GAPPED_GROUP + 1)
                   : 1 + random_below(most + 300);
    batch.in_step = batch.n * in + (gaps ? random_below(50) : apart * in);
    batch.out_step = batch.n * out + (gaps ? random_below(50) : apart * out);
    batch.run.group = gaps ? batch.n : 1;
    if (gaps) {
        batch.run.in_gap = (ptrdiff_t)(batch.in_step - batch.n * in);
        batch.run.out_gap = (ptrdiff_t)(batch.out_step - batch.n * out);
    } else {
        batch.run.rows = batch.pieces;
        batch.run.in_stride = (ptrdiff_t)batch.in_step;
        batch.run.out_stride = (ptrdiff_t)batch.out_step;
    }
}

static void draw_shape(size_t i)
{
    static const size_t sizes[] = {4, 8, 16, 32, 64, 96}, lines[] = {511, 512, 513, 2000};
    const int kind = (int)random_below(16), stochastic = batch.run.round == PQ_STOCHASTIC;
    const int one_piece = batch.run.general || stochastic;
    size_t n = i % (SHORT_N + 1), g = n;
    batch.pieces = 1;
    if (kind >= 14 && !one_piece) {
        draw_pieces(kind == 14);
        batch.params = batch.run.group > 1 ? batch.pieces : batch.n;
        return;
    }
    if (kind == 5) {
        g = n = random_below(random_chance(10) ? 5000 : 300);
    } else if (kind == 6) { /* the results begin at each position of a cache line */
        g = n = lines[random_below(COUNT(lines))];
    } else if (kind == 7) { /* groups so long that kernels align their chunks */
        g = 480 + random_below(600);
        n = g * (1 + random_below(4));
    } else if (kind == 8 || kind == 4) {
        /* many short groups, or groups of complete chunks */
        g = sizes[random_below(COUNT(sizes))];
        n = g * (1 + random_below(g < 32 ? 200 : 20)) - (i % 2) * random_below(g);
    } else if (kind >= 9 && kind < 13) {
        g = 1 + random_below(random_chance(80) ? 70 : 784);
        n = g * random_below(g < 127 ? 12 : 4) + random_below(g + 1);
    }
    batch.n = n;
    batch.run.group = random_chance(30) || g == 0 ? 1 : stochastic ? n + (n == 0) : g;
    batch.params = (n + batch.run.group - 1) / batch.run.group;
}

/* Choose the shape of a long run at random, because instruction sets can have special
 * kernels for long runs. */
static void draw_long_shape(void)
{
    const size_t least = batch.quantizes ? LONG_RUN : LONG_RUN / 16;
    batch.pieces = 1;
    batch.run.group = least + random_below(300);
    batch.n = random_chance(70)   ? batch.run.group - random_below(2)
              : random_chance(50) ? batch.run.group + random_below(batch.run.group)
                                  : least - 1;
    batch.params = (batch.n + batch.run.group - 1) / batch.run.group;
}

/* ---- results ---- */

static void run_kernel(pq_kernel_fn *kernel, const struct pq_run *options, const void *x,
                       void *y, size_t n, const void *scale, const void *zero,
                       const uint32_t *random_words)
{
    struct pq_run run = *options;
    if (run.round != PQ_STOCHASTIC && batch.quantizes && !run.general) {
        run.round = (enum pq_round)(is_float()              ? (int)PQ_HALF_EVEN
                                    : run.zero_first        ? (int)PQ_ZERO_FIRST
                                    : run.compute != PQ_F32 ? (int)PQ_ROUND_NARROWED
                                                            : (int)run.round);
    }
    run.random_words = run.round == PQ_STOCHASTIC ? random_words : NULL;
    run.scale.f64 = scale; /* or float32 */
    run.zero.f64 = zero;   /* or another type */
    kernel(&run, x, y, n);
}

/* Compute the expected results by the definition if `by_definition` is 1, else by the
 * scalar kernels. Fill the gaps of the output with `fill`. */
static void expect(int by_definition, unsigned char fill)
{
    struct pq_run single = batch.run;
    single.rows = 0;
    single.in_gap = single.out_gap = 0;
    memset(batch.y, fill, out_bytes());
    for (size_t p = 0; p < batch.pieces; p++) {
        const char *const x = (char *)batch.x + p * batch.in_step;
        char *const y = (char *)batch.y + p * batch.out_step;
        const size_t first = has_gaps() ? p * param_size() : 0;
        if (!by_definition) {
            run_kernel(batch.kernels[last_table], &single, x, y, batch.n,
                       (char *)batch.scale + first, (char *)batch.zero + first,
                       batch.random_words);
        }
        for (size_t i = 0; by_definition && i < batch.n; i++) {
            const size_t at = param_of(p, i);
            const char *const code = x + i * pq_bytes_of(single.in);
            put_bits(y, single.out, i,
                     batch.quantizes
                         ? quantized(&single, get_real(x, single.in, i), scale_at(at),
                                     zero_at(at), batch.random_words[i])
                         : dequantized(&single, code, scale_at(at), zero_at(at)));
        }
    }
}

/* Return 1 if the engine can run the batch while the CPU flushes subnormals to 0. */
static int may_flush(void)
{
    const enum pq_round round = batch.run.round;
    int may = PQ_CAN_FLUSH && has_control && batch.quantizes && !batch.run.general &&
              round != PQ_AWAY && round != PQ_CEIL && round != PQ_FLOOR &&
              round != PQ_STOCHASTIC && !(round == PQ_TRUNC && batch.run.zero_first);
    for (size_t p = 0; p < batch.params; p++) {
        const double zero = zero_at(p).number;
        may = may && !(fabs(scale_at(p)) < (is_float() ? 0x1p-107 : 0x1p-124)) &&
              (is_float() ? zero == 0 && signbit(zero)
                          : !batch.run.zero_first || zero == trunc(zero));
    }
    return may;
}

/* Report the first element of `y` that differs from the expected results. */
static void report(const struct pq_kernels *k, const unsigned char *y)
{
    const enum pq_type in = batch.run.in, out = batch.run.out;
    size_t byte = 0;
    while (y[byte] == ((unsigned char *)batch.y)[byte]) {
        byte++;
    }
    const size_t step = batch.pieces > 1 ? batch.out_step : out_bytes() + 1;
    const size_t piece = byte / step, i = byte % step / pq_bytes_of(out);
    const size_t p = i < batch.n ? param_of(piece, i) : 0;
    CHECK(0,
          "%s, %s, %s%s%s%s: %zu pieces of %zu, groups of %zu, element %zu %zu: x %#llx, "
          "scale %a, zero %lld %g gave %#llx, expected %#llx",
          k->name, round_name(batch.run.round), type_name(batch.run.compute),
          batch.run.general ? ", general" : "", batch.run.overflow ? ", overflow" : "",
          batch.run.zero_first ? ", zero_first" : "", batch.pieces, batch.n,
          batch.run.group, piece, i,
          (unsigned long long)get_bits((char *)batch.x + piece * batch.in_step, in, i),
          scale_at(p), (long long)zero_at(p).integer, zero_at(p).number,
          (unsigned long long)get_bits(y + piece * step, out, i),
          (unsigned long long)get_bits((char *)batch.y + piece * step, out, i));
}

/* Copy an array of `n` bytes to guarded memory, `offset` bytes after the start, or to the
 * end of the memory if `offset` is AT_END. Return the address of the copy. */
static void *place(const struct guarded *where, const void *from, size_t n,
                   ptrdiff_t offset)
{
    unsigned char *const to =
        offset == AT_END ? guarded_end(where, n) : where->base + offset;
    memcpy(to, from, n);
    return to;
}

/* Run the batch with the kernel of table `t`, and compare the output with the expected
 * results. The input begins `in` bytes and the output `out` bytes after the start of
 * guarded memory. With AT_END, an array ends where the memory ends. Bytes around the output
 * must not change. */
static void verify(int t, ptrdiff_t in, ptrdiff_t out, unsigned char fill)
{
    const ptrdiff_t side = in == AT_END ? AT_END : 0;
    const size_t params = batch.params * param_size(), bytes = out_bytes();
    unsigned char *const y =
        out == AT_END ? guarded_end(&memory.y, bytes) : memory.y.base + out;
    unsigned char *const begin = out == AT_END ? y - MARGIN : memory.y.base;
    unsigned char *const end = y + bytes + (out == AT_END ? 0 : MARGIN);
    void *const x = place(&memory.x, batch.x, in_bytes(), in);
    const void *const scale = place(&memory.scale, batch.scale, params, side);
    const void *const zero = place(&memory.zero, batch.zero, params, side);
    const int noisy = batch.run.round == PQ_STOCHASTIC;
    const uint32_t *const words = place(&memory.random_words, batch.random_words,
                                        noisy ? batch.n * sizeof *words : 0, side);
    memset(begin, fill, (size_t)(end - begin));
    const pq_fpenv found = pq_fpenv_set(may_flush() && random_chance(50));
    run_kernel(batch.kernels[t], &batch.run, x, y,
               batch.pieces > 1 && has_gaps() ? batch.pieces * batch.n : batch.n, scale,
               zero, words);
    pq_fpenv_leave(found);
    if (memcmp(y, batch.y, bytes) != 0) {
        report(tables[t], y);
    }
    for (const unsigned char *at = begin; at < end; at++) {
        at = at == y ? y + bytes : at;
        CHECK(at == end || *at == fill, "%s: n %zu: wrote outside its output",
              tables[t]->name, batch.n);
    }
    CHECK(memcmp(x, batch.x, in_bytes()) == 0, "%s: wrote to its input", tables[t]->name);
}

static void try_batch(int by_definition)
{
    const unsigned char fill = (unsigned char)random_bits();
    draw_params();
    draw_input();
    expect(by_definition, fill);
    for (int t = 0; t < last_table + by_definition; t++) {
        verify(t, AT_END, AT_END, fill);
        verify(t, (ptrdiff_t)random_below(65), (ptrdiff_t)random_below(65), fill);
    }
}

/* ---- the tests that kernels/list.h names ---- */

/* Check batch.kernels for a pair of types, with `percent` percent of the usual cases. */
static void check_form(enum pq_type real, enum pq_type code, int quantizes, enum form form,
                       size_t percent)
{
    static const char *const names[] = {"", " general", " stochastic"};
    static size_t pairs;
    /* each pair begins with another length, so that all pairs together test all lengths */
    const size_t first = 31 * pairs++;
    const size_t defined = (55 + check_count(400)) * percent / 100;
    const size_t all = (160 + check_count(1500)) * percent / 100;
    const char *const verb = quantizes ? "quantize" : "dequantize";
    check_begin("%s %s and %s%s", verb, type_name(real), type_name(code), names[form]);
    CASES(i, last_table > 0 ? all : defined) {
        draw_options(real, code, quantizes, form);
        draw_shape(first + i);
        try_batch(i < defined);
    }
    check_begin("long runs: %s %s and %s%s", verb, type_name(real), type_name(code),
                names[form]);
    CASES(i, last_table > 0 ? check_count(16 * percent / 100) : 0) {
        draw_options(real, code, quantizes, form);
        draw_long_shape();
        try_batch(0);
    }
}

/* Define a function that checks the kernels of every pair of types. */
#define OF_PAIRS(test, ins, outs, quantizes, percent)                                      \
    static void test(pq_kernel_fn *const(*const *kernels)[ins][outs])                      \
    {                                                                                      \
        for (int pair = 0; pair < PQ_REALS * PQ_CARRIERS; pair++) {                        \
            const int in = pair / outs, out = pair % outs;                                 \
            for (int t = 0; tables[t] != NULL; t++) {                                      \
                batch.kernels[t] = (*kernels[t])[in][out];                                 \
            }                                                                              \
            check_form(reals[quantizes ? in : out], codes[quantizes ? out : in],           \
                       quantizes, OF_PAIR, percent);                                       \
        }                                                                                  \
    }
OF_PAIRS(check_quantize, PQ_REALS, PQ_CARRIERS, 1, 70)
OF_PAIRS(check_dequantize, PQ_CARRIERS, PQ_REALS, 0, 75)

/* Check a kernel that supports several pairs of types, with the code types codes[first] to
 * codes[last] and all real types. */
static void check_any(pq_kernel_fn *const *const *kernels, int quantizes, enum form form,
                      size_t first, size_t last)
{
    for (int t = 0; tables[t] != NULL; t++) {
        batch.kernels[t] = *kernels[t];
    }
    for (size_t pair = 0; pair < REALS * (last - first + 1); pair++) {
        const enum pq_type real = reals[pair % REALS], code = codes[first + pair / REALS];
        const int only_general = real == PQ_F64 || first >= PQ_CARRIERS;
        check_form(real, code, quantizes, form,
                   form == STOCHASTIC ? 10
                   : only_general     ? 90
                                      : 25);
    }
}

#define ANY(test, ...)                                                                     \
    static void test(pq_kernel_fn *const *const *kernels)                                  \
    {                                                                                      \
        check_any(kernels, __VA_ARGS__);                                                   \
    }
ANY(check_quantize_general, 1, GENERAL, 0, PQ_CARRIERS - 1)
ANY(check_dequantize_general, 0, GENERAL, 0, PQ_CARRIERS - 1)
ANY(check_quantize_int64, 1, GENERAL, PQ_CARRIERS, COUNT(codes) - 1)
ANY(check_dequantize_int64, 0, GENERAL, PQ_CARRIERS, COUNT(codes) - 1)
ANY(check_quantize_stochastic, 1, STOCHASTIC, 0, COUNT(codes) - 1)

/* Collect the kernels of all instruction sets and check them together, because one
 * computation of the expected results serves all kernels. */
#undef PAIRS
#define PAIRS(test, member, type, dimensions)                                              \
    {                                                                                      \
        type *const(*kernels[MOST_TABLES]) dimensions;                                     \
        for (int t = 0; tables[t] != NULL; t++) {                                          \
            kernels[t] = &tables[t]->member;                                               \
        }                                                                                  \
        test(kernels);                                                                     \
    }
static void check_tables(void)
{
#include "kernels/list.h"
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    while (tables[last_table + 1] != NULL) {
        last_table++;
    }
    has_control = getenv("CHECK_NO_CONTROL") == NULL;
    guarded_make_all(&memory, sizeof memory, sizeof batch.x + 4096);
    check_tables();
    return check_finish();
}
