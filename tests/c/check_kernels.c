/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compare kernels of each table that this machine can run with the scalar kernels, byte for
 * byte. The scalar kernel uses plain memory, the other kernel memory between inaccessible
 * pages, at every alignment, with known bytes around its output. The scalar table is also
 * tested with itself, for its bounds. list.h states which program tests the other kernels.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "drivers.h"
#include "math/fpenv.h"
#include "run.h"

enum {
    MAX_N = 1 << 16,
    SHORT_N = 3 * 32 + 3, /* three of the largest chunks, and a tail */
    LONG_N = 5000,
    CANARY = 64
};

enum kind {
    QUANTIZE_GRP,
    QUANTIZE_VEC,
    DEQUANTIZE_GRP,
    DEQUANTIZE_VEC,
    QUANTIZE_WIDE,
    DEQUANTIZE_WIDE,
    QUANTIZE_SAME, /* float64 parameters, equal for all elements */
    DEQUANTIZE_SAME,
    QUANTIZE_WHOLE,
    DEQUANTIZE_WHOLE,
    QUANTIZE_WHOLE_GRP,
    DEQUANTIZE_WHOLE_GRP
};

/* A kernel and the options of its calls. */
struct op {
    enum kind kind;
    enum pq_type in, out, compute;
    enum pq_round round;
};

static int is_grp(const struct op *op)
{
    return op->kind == QUANTIZE_GRP || op->kind == DEQUANTIZE_GRP ||
           op->kind >= QUANTIZE_WHOLE_GRP;
}

static int is_same(const struct op *op)
{
    return op->kind == QUANTIZE_SAME || op->kind == DEQUANTIZE_SAME;
}

static int is_wide(const struct op *op)
{
    return op->kind == QUANTIZE_WIDE || op->kind == DEQUANTIZE_WIDE || is_same(op);
}

static int is_32_bit(const struct op *op)
{
    return op->kind >= QUANTIZE_WHOLE;
}

static int is_quantize(const struct op *op)
{
    return op->kind == QUANTIZE_GRP || op->kind == QUANTIZE_VEC ||
           op->kind == QUANTIZE_WIDE || op->kind == QUANTIZE_SAME ||
           op->kind == QUANTIZE_WHOLE || op->kind == QUANTIZE_WHOLE_GRP;
}

static int has_wide_codes(const struct op *op)
{
    return pq_is_64_bit(is_quantize(op) ? op->out : op->in);
}

static void run(const struct pq_kernels *k, const struct op *op, const void *x, void *y,
                size_t n, size_t g, const void *scale, const void *zero)
{
    const struct pq_run options = {.in = op->in,
                                   .out = op->out,
                                   .compute = op->compute,
                                   .round = op->round,
                                   .unsigned_zero = op->in == PQ_U64};
    run_kernel(k, &options, is_quantize(op), is_wide(op), x, y, n,
               is_same(op)  ? n
               : is_grp(op) ? g
                            : 1,
               scale, zero);
}

/* ---- a batch of input, and the output of the scalar kernel ---- */

static struct {
    struct op op;
    size_t n, g, params;                                  /* g: elements per scale */
    double x[MAX_N], y[MAX_N], scale[MAX_N], zero[MAX_N]; /* of any type */
} batch;

static struct {
    struct guarded x, y, scale, zero;
} memory;

static int has_control; /* whether the machine has a floating-point control state */

static size_t param_size(void)
{
    return is_wide(&batch.op) ? sizeof(double) : sizeof(float);
}

/* Return a magnitude beyond all codes of a type. */
static double reach_of(enum pq_type code)
{
    const struct limits limits = limits_of(code);
    return 2.5 * (double)limits.hi;
}

static void set_scale(size_t i, double scale)
{
    if (is_wide(&batch.op)) {
        batch.scale[i] = scale;
    } else {
        const float single = (float)scale;
        memcpy((char *)batch.scale + i * sizeof single, &single, sizeof single);
    }
}

static double scale_at(size_t i)
{
    float single;
    if (is_wide(&batch.op)) {
        return batch.scale[i];
    }
    memcpy(&single, (char *)batch.scale + i * sizeof single, sizeof single);
    return (double)single;
}

static void set_zero(size_t i, int64_t zero)
{
    if (has_wide_codes(&batch.op)) {
        memcpy(&batch.zero[i], &zero, sizeof zero);
    } else if (is_wide(&batch.op)) {
        batch.zero[i] = (double)zero;
    } else {
        const int32_t narrow = (int32_t)zero;
        memcpy((char *)batch.zero + i * sizeof narrow, &narrow, sizeof narrow);
    }
}

/* Draw a zero point in the range of the codes. Dequantizing accepts larger ones. */
static int64_t draw_zero(const struct op *op)
{
    const struct limits code = limits_of(is_quantize(op) ? op->out : op->in);
    if (is_32_bit(op)) {
        return 0;
    }
    if (has_wide_codes(op)) { /* any 64 bits, also for uint64 */
        return random_chance(50) ? draw_integer(code.lo, code.hi) : (int64_t)random_bits();
    }
    const int64_t most = is_wide(op) ? INT64_C(1) << 52 : INT64_C(1) << 30;
    if (!is_quantize(op) && random_chance(25)) {
        return draw_integer(-most, most);
    }
    return draw_integer(code.lo, code.hi);
}

static void draw_params(void)
{
    for (size_t i = 0; i < batch.params; i++) {
        const int doubles = batch.op.compute == PQ_F64 || batch.op.in == PQ_F64;
        set_scale(i, doubles ? draw_scale_f64() : (double)draw_scale());
        set_zero(i, draw_zero(&batch.op));
    }
    for (size_t i = 1; is_same(&batch.op) && i < batch.params; i++) {
        batch.scale[i] = batch.scale[0];
        batch.zero[i] = batch.zero[0];
    }
}

static void draw_input(void)
{
    for (size_t i = 0; i < batch.n; i++) {
        uint64_t bits;
        if (is_quantize(&batch.op)) {
            bits = draw_real(batch.op.in, scale_at(i / batch.g), reach_of(batch.op.out));
        } else {
            const struct limits code = limits_of(batch.op.in);
            bits = (uint64_t)draw_integer(code.lo, code.hi);
            bits = batch.op.in == PQ_U64 && random_chance(50) ? random_bits() : bits;
        }
        put_bits(batch.x, batch.op.in, i, bits);
    }
}

/* Compute the expected output in float64, which holds every 32-bit integer. */
static void expect_of_wide(void)
{
    static double scale[MAX_N], zero[MAX_N];
    struct op op = batch.op;
    op.kind = is_quantize(&op) ? QUANTIZE_WIDE : DEQUANTIZE_WIDE;
    for (size_t i = 0; i < batch.n; i++) {
        scale[i] = scale_at(i / batch.g);
    }
    run(&pq_kernels_scalar, &op, batch.x, batch.y, batch.n, 1, scale, zero);
}

static void expect(void)
{
    if (is_32_bit(&batch.op)) {
        expect_of_wide();
        return;
    }
    run(&pq_kernels_scalar, &batch.op, batch.x, batch.y, batch.n, batch.g, batch.scale,
        batch.zero);
}

static void begin_batch(const struct op *op, size_t n, size_t g)
{
    batch.op = *op;
    batch.n = n;
    batch.g = is_grp(op) ? g : 1;
    batch.params = (n + batch.g - 1) / batch.g;
}

static void draw_batch(const struct op *op, size_t n, size_t g)
{
    begin_batch(op, n, g);
    draw_params();
    draw_input();
    expect();
}

static uint64_t element_bits(const void *p, enum pq_type type, size_t i)
{
    const size_t size = pq_type_size(type);
    uint64_t bits = 0;
    memcpy(&bits, (const char *)p + i * size, size);
    return bits;
}

/* Report the first element that differs. */
static void report(const struct pq_kernels *k, const unsigned char *y)
{
    const struct op *op = &batch.op;
    const size_t size = pq_type_size(op->out);
    for (size_t i = 0; i < batch.n; i++) {
        if (memcmp(y + i * size, (char *)batch.y + i * size, size) != 0) {
            const size_t p = i / batch.g;
            int64_t zero;
            if (has_wide_codes(op)) {
                memcpy(&zero, &batch.zero[p], sizeof zero);
            } else if (is_wide(op)) {
                zero = (int64_t)batch.zero[p];
            } else {
                zero = get_integer(batch.zero, PQ_I32, p);
            }
            CHECK(0,
                  "%s, %s, %s: n %zu, g %zu, element %zu: x %#llx, scale %a, zero %lld "
                  "gave %#llx, expected %#llx",
                  k->name, round_name(op->round), type_name(op->compute), batch.n, batch.g,
                  i, (unsigned long long)element_bits(batch.x, op->in, i), scale_at(p),
                  (long long)zero, (unsigned long long)element_bits(y, op->out, i),
                  (unsigned long long)element_bits(batch.y, op->out, i));
            return;
        }
    }
}

/* Buffers start `offset` bytes after the first inaccessible page. With AT_END they end at
 * the last inaccessible page. */
enum { AT_END = -1 };

static unsigned char *place(const struct guarded *where, ptrdiff_t offset, size_t n)
{
    return offset == AT_END ? guarded_end(where, n) : where->base + offset;
}

/* Count the canary bytes before and after the `n` bytes at `at`. A side may have no room.
 */
static void span_around(const struct guarded *where, const unsigned char *at, size_t n,
                        size_t *below, size_t *above)
{
    const size_t under = (size_t)(at - where->base);
    const size_t over = where->size - under - n;
    *below = under < CANARY ? under : CANARY;
    *above = over < CANARY ? over : CANARY;
}

static int all_are(const unsigned char *p, size_t n, unsigned char value)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] != value) {
            return 0;
        }
    }
    return 1;
}

/* Return true if the engine runs the batch with flush-to-zero. */
static int may_flush(const struct op *op)
{
    for (size_t i = 0; i < batch.params; i++) {
        if (fabs(scale_at(i)) < 0x1p-124) {
            return 0;
        }
    }
    return is_quantize(op) && !is_wide(op) && op->round != PQ_AWAY &&
           op->round != PQ_CEIL && op->round != PQ_FLOOR && has_control;
}

static void run_flushing(const struct pq_kernels *k, const void *x, void *y,
                         const void *scale, const void *zero)
{
    const pq_fpenv found = pq_fpenv_set(1);
    run(k, &batch.op, x, y, batch.n, batch.g, scale, zero);
    pq_fpenv_leave(found);
}

static void verify(const struct pq_kernels *k, ptrdiff_t in, ptrdiff_t out)
{
    const struct op *op = &batch.op;
    const size_t in_bytes = batch.n * pq_type_size(op->in);
    const size_t out_bytes = batch.n * pq_type_size(op->out);
    const size_t params = batch.params * param_size();
    const ptrdiff_t side = in == AT_END ? AT_END : 0;
    unsigned char *x = place(&memory.x, in, in_bytes);
    unsigned char *y = place(&memory.y, out, out_bytes);
    unsigned char *scale = place(&memory.scale, side, params);
    unsigned char *zero = place(&memory.zero, side, params);
    const unsigned char fill = (unsigned char)(0xa5 ^ batch.n);
    size_t below, above;

    memcpy(x, batch.x, in_bytes);
    memcpy(scale, batch.scale, params);
    memcpy(zero, batch.zero, params);
    span_around(&memory.y, y, out_bytes, &below, &above);
    memset(y - below, fill, below + out_bytes + above);
    run(k, op, x, y, batch.n, batch.g, scale, zero);
    if (memcmp(y, batch.y, out_bytes) != 0) {
        report(k, y);
    }
    if (PQ_CAN_FLUSH && may_flush(op)) {
        memset(y, fill, out_bytes);
        run_flushing(k, x, y, scale, zero);
        if (memcmp(y, batch.y, out_bytes) != 0) {
            report(k, y);
        }
    }
    CHECK(all_are(y - below, below, fill) && all_are(y + out_bytes, above, fill),
          "%s: n %zu, g %zu: wrote outside its output", k->name, batch.n, batch.g);
    CHECK(memcmp(x, batch.x, in_bytes) == 0, "%s: n %zu: wrote to its input", k->name,
          batch.n);
}

static void verify_both_sides(const struct pq_kernels *k)
{
    verify(k, 0, 0);
    verify(k, AT_END, AT_END);
}

/* ---- lengths, alignments and groups ---- */

static void try_lengths(const struct pq_kernels *k, const struct op *op)
{
    for (size_t n = 0; n <= SHORT_N; n++) {
        draw_batch(op, n, n > 0 ? n : 1);
        verify_both_sides(k);
    }
}

static void try_random_lengths(const struct pq_kernels *k, const struct op *op,
                               size_t count)
{
    for (size_t i = 0; i < check_count(count); i++) {
        const size_t n = random_below(LONG_N + 1);
        draw_batch(op, n, n > 0 ? n : 1);
        verify_both_sides(k);
    }
}

static void try_alignments(const struct pq_kernels *k, const struct op *op)
{
    static const size_t lengths[] = {1, 7, 31, 33, 67, 100};
    const size_t steps = check_count(32);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        draw_batch(op, lengths[i], lengths[i]);
        for (ptrdiff_t in = 0; in < 32; in++) {
            for (size_t s = 0; s < steps; s++) {
                verify(k, in, (ptrdiff_t)(s * 32 / steps) + (steps < 32 ? in % 8 : 0));
            }
        }
    }
}

static void try_groups(const struct pq_kernels *k, const struct op *op)
{
    for (size_t g = 1; g <= 784; g = g == 67 ? 127 : g == 129 ? 784 : g + 1) {
        const size_t draws = check_count(4);
        for (size_t i = 0; i < draws; i++) {
            const size_t groups = random_below(g < 127 ? 12 : 4);
            const size_t n = groups * g + random_below(g + 1); /* the last may be short */
            draw_batch(op, n, g);
            verify_both_sides(k);
            draw_batch(op, groups * g, g);
            verify_both_sides(k);
        }
    }
}

/* Try long runs with results at every position of a cache line, where the first chunk may
 * be shorter. */
static void try_lines(const struct pq_kernels *k, const struct op *op)
{
    static const size_t lengths[] = {511, 512, 513, 1025, 2000};
    const size_t count = sizeof lengths / sizeof lengths[0];
    const ptrdiff_t step = check_count(8) < 8 ? 5 : 1;
    for (ptrdiff_t out = 0; out <= 64; out += step) {
        const size_t n = lengths[random_below(count)];
        draw_batch(op, n, n);
        verify(k, (ptrdiff_t)random_below(64), out);
    }
}

/* Try long runs with one scale: the kernel multiplies by the reciprocal. */
static void try_scales(const struct pq_kernels *k, const struct op *op)
{
    for (size_t i = 0; i < check_count(120); i++) {
        draw_batch(op, 2000, 500);
        verify(k, 0, AT_END);
    }
}

/* Try many groups, several in a chunk, with scales near each other except one. The kernel
 * multiplies by reciprocals unless the one scale has none. */
static void try_short_groups(const struct pq_kernels *k, const struct op *op)
{
    static const size_t sizes[] = {4, 8, 16};
    for (size_t i = 0; i < check_count(60); i++) {
        const size_t g = sizes[i % 3], groups = 1 + random_below(400);
        const int least = (int)random_below(150) - 80, zeros = random_chance(50);
        const int ones = random_chance(20); /* the significand without a reciprocal */
        begin_batch(op, groups * g - random_below(g), g);
        for (size_t p = 0; p < batch.params; p++) {
            const double significand = ones ? 0x1.fffffep0 : 1 + random_unit();
            set_scale(p, ldexp(significand, least + (int)random_below(14)));
            set_zero(p, zeros ? draw_zero(op) : 0);
        }
        if (random_chance(30)) {
            set_scale(random_below(batch.params), (double)draw_scale());
        }
        draw_input();
        expect();
        verify_both_sides(k);
    }
}

/* ---- families of kernels ---- */

static const enum pq_type reals[] = {PQ_F32, PQ_F16, PQ_BF16, PQ_F64};
static const enum pq_type codes[] = {PQ_I8,  PQ_U8,  PQ_I16, PQ_U16,
                                     PQ_I32, PQ_U32, PQ_I64, PQ_U64};
enum { CODES = 4, ALL_CODES = 8 }; /* the first types of `codes` */

static void check_quantize(const struct pq_kernels *k, enum pq_type real, enum pq_type code)
{
    const char *from = type_name(real), *to = type_name(code);
    struct op op = {QUANTIZE_GRP, real, code, PQ_F32, PQ_HALF_EVEN};
    check_begin("%s quantize_grp %s %s", k->name, from, to);
    try_lengths(k, &op);
    try_random_lengths(k, &op, 20);
    try_alignments(k, &op);
    try_groups(k, &op);
    try_lines(k, &op);
    try_scales(k, &op);
    try_short_groups(k, &op);
    check_end();

    check_begin("%s quantize_vec %s %s", k->name, from, to);
    for (size_t mode = 0; mode < STATIC_ROUNDS; mode++) {
        op.round = static_round(mode);
        op.kind = QUANTIZE_GRP;
        if (mode != PQ_HALF_EVEN) {
            try_groups(k, &op);
        }
        op.kind = QUANTIZE_VEC;
        try_lengths(k, &op);
        try_random_lengths(k, &op, 8);
        if (mode % 4 == 0) {
            try_alignments(k, &op);
        }
    }
    check_end();
}

static void check_dequantize(const struct pq_kernels *k, enum pq_type code,
                             enum pq_type real)
{
    const char *from = type_name(code), *to = type_name(real);
    struct op op = {DEQUANTIZE_GRP, code, real, PQ_F32, PQ_HALF_EVEN};
    check_begin("%s dequantize_grp %s %s", k->name, from, to);
    try_lengths(k, &op);
    try_random_lengths(k, &op, 20);
    try_alignments(k, &op);
    try_groups(k, &op);
    try_lines(k, &op);
    try_scales(k, &op);
    check_end();

    check_begin("%s dequantize_vec %s %s", k->name, from, to);
    op.kind = DEQUANTIZE_VEC;
    try_lengths(k, &op);
    try_random_lengths(k, &op, 30);
    try_alignments(k, &op);
    check_end();
}

/* Dequantize every code with random scales. */
static void check_every_code(const struct pq_kernels *k, enum pq_type code)
{
    const struct limits limits = limits_of(code);
    const size_t n = (size_t)(limits.hi - limits.lo) + 1;
    check_begin("%s dequantize every %s", k->name, type_name(code));
    for (int real = 0; real < PQ_REALS; real++) {
        const struct op op = {DEQUANTIZE_GRP, code, reals[real], PQ_F32, PQ_HALF_EVEN};
        for (size_t i = 0; i < check_count(16); i++) {
            begin_batch(&op, n, n);
            draw_params();
            for (size_t c = 0; c < n; c++) {
                put_bits(batch.x, code, c, (uint64_t)(limits.lo + (int64_t)c));
            }
            expect();
            verify(k, 0, 0);
        }
    }
    check_end();
}

/* Quantize every tie of an 8-bit code and its neighbours, with scales of any significand.
 * Two operations in place of a division must round each value to its side. */
static void check_ties(const struct pq_kernels *k, enum pq_type code)
{
    enum { TIES = 512, NEAR = 7 };
    static const uint32_t odd[] = {0, 1, 2, 0x7ffffd, 0x7ffffe, 0x7fffff};
    const struct op op = {QUANTIZE_GRP, PQ_F32, code, PQ_F32, PQ_HALF_EVEN};
    const struct limits limits = limits_of(code);
    const size_t count = sizeof odd / sizeof odd[0];
    check_begin("%s quantize ties %s", k->name, type_name(code));
    for (size_t i = 0; i < check_count(2000); i++) {
        const uint32_t significand = i < count ? odd[i] : random_bits() & 0x7fffff;
        const int exponent = i % 8 == 0   ? (int)random_between(-78, 78)
                             : i % 8 == 1 ? (random_chance(50) ? -76 : 75)
                                          : (int)random_between(-20, 4);
        const float s = ldexpf(f32_of_bits(0x3f800000 | significand), exponent);
        begin_batch(&op, TIES * NEAR, TIES * NEAR);
        set_scale(0, (double)s);
        set_zero(0, i % 2 == 0 ? limits.lo : limits.hi);
        for (size_t t = 0; t < TIES; t++) {
            const float tie = (float)(((double)t - TIES / 2 + 0.5) * (double)s);
            for (size_t d = 0; d < NEAR; d++) {
                put_bits(batch.x, PQ_F32, t * NEAR + d, bits_of_f32(tie) + d - NEAR / 2);
            }
        }
        expect();
        verify(k, 0, 0);
    }
    check_end();
}

/* Quantize every float16 or bfloat16 with random scales and every rounding mode. */
static void check_every_half(const struct pq_kernels *k, enum pq_type real)
{
    check_begin("%s quantize every %s", k->name, type_name(real));
    for (int code = 0; code < CODES; code++) {
        for (int kind = QUANTIZE_GRP; kind <= QUANTIZE_VEC; kind++) {
            const size_t modes = kind == QUANTIZE_VEC ? STATIC_ROUNDS : 1;
            for (size_t mode = 0; mode < modes; mode++) {
                const struct op op = {(enum kind)kind, real, codes[code], PQ_F32,
                                      modes == 1 ? PQ_HALF_EVEN : static_round(mode)};
                for (size_t i = 0; i < check_count(modes == 1 ? 16 : 2); i++) {
                    begin_batch(&op, MAX_N, MAX_N);
                    draw_params();
                    for (size_t p = 1; p < batch.params; p++) {
                        set_scale(p, scale_at(p % 7));
                    }
                    for (size_t x = 0; x < MAX_N; x++) {
                        put_bits(batch.x, real, x, x);
                    }
                    expect();
                    verify(k, 0, 0);
                }
            }
        }
    }
    check_end();
}

/* Try lengths around 256, the size of the tile of the general kernels. */
static void try_wide(const struct pq_kernels *k, const struct op *op)
{
    static const size_t lengths[] = {0, 1, 2, 3, 7, 8, 9, 31, 33, 255, 256, 257, 511, 600};
    const size_t count = sizeof lengths / sizeof lengths[0];
    const size_t step = check_count(8) < 8 ? 3 : 1;
    for (size_t i = random_below(step); i < count; i += step) {
        draw_batch(op, lengths[i], 1);
        verify_both_sides(k);
    }
}

static void check_quantize_int64(const struct pq_kernels *k, enum pq_type real,
                                 enum pq_type code)
{
    check_begin("%s quantize_wide %s %s", k->name, type_name(real), type_name(code));
    for (int compute = 0; compute < 4; compute++) {
        for (size_t mode = 0; mode < STATIC_ROUNDS; mode++) {
            const struct op op = {QUANTIZE_WIDE, real, code, reals[compute],
                                  static_round(mode)};
            try_wide(k, &op);
            if ((size_t)compute == mode % 4) {
                try_random_lengths(k, &op, 1);
            }
        }
    }
    const struct op op = {QUANTIZE_WIDE, real, code, PQ_F32, PQ_HALF_AWAY};
    try_alignments(k, &op);
    check_end();
}

static void check_dequantize_int64(const struct pq_kernels *k, enum pq_type code,
                                   enum pq_type real)
{
    const struct op op = {DEQUANTIZE_WIDE, code, real, real == PQ_F64 ? PQ_F64 : PQ_F32,
                          PQ_HALF_EVEN};
    check_begin("%s dequantize_wide %s %s", k->name, type_name(code), type_name(real));
    for (size_t n = 0; n <= SHORT_N; n++) {
        draw_batch(&op, n, 1);
        verify_both_sides(k);
    }
    try_wide(k, &op);
    try_random_lengths(k, &op, 20);
    try_alignments(k, &op);
    check_end();
}

/* Compare float64 with one scale, where kernels multiply by the reciprocal. */
static void check_same(const struct pq_kernels *k, enum pq_type code)
{
    const struct op ops[] = {{QUANTIZE_SAME, PQ_F64, code, PQ_F64, PQ_HALF_EVEN},
                             {DEQUANTIZE_SAME, code, PQ_F64, PQ_F64, PQ_HALF_EVEN},
                             {QUANTIZE_SAME, PQ_F64, code, PQ_F64, PQ_FLOOR},
                             {QUANTIZE_SAME, PQ_F32, code, PQ_F32, PQ_HALF_AWAY},
                             {DEQUANTIZE_SAME, code, PQ_F32, PQ_F32, PQ_HALF_EVEN}};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        check_begin("%s %s_same %s %s, %s", k->name,
                    is_quantize(&ops[i]) ? "quantize" : "dequantize", type_name(ops[i].in),
                    type_name(ops[i].out), round_name(ops[i].round));
        try_lengths(k, &ops[i]);
        try_random_lengths(k, &ops[i], i < 2 ? 120 : 10);
        try_lines(k, &ops[i]);
        check_end();
    }
}

static void check_whole(const struct pq_kernels *k, enum pq_type real, enum pq_type code)
{
    const struct op ops[] = {{QUANTIZE_WHOLE, real, code, PQ_F32, PQ_HALF_EVEN},
                             {DEQUANTIZE_WHOLE, code, real, PQ_F32, PQ_HALF_EVEN},
                             {QUANTIZE_WHOLE_GRP, real, code, PQ_F32, PQ_HALF_EVEN},
                             {DEQUANTIZE_WHOLE_GRP, code, real, PQ_F32, PQ_HALF_EVEN}};
    for (int i = 0; i < 4; i++) {
        check_begin("%s %s_whole%s %s %s", k->name, i % 2 == 0 ? "quantize" : "dequantize",
                    i < 2 ? "" : "_grp", type_name(ops[i].in), type_name(ops[i].out));
        try_lengths(k, &ops[i]);
        try_random_lengths(k, &ops[i], 60);
        try_alignments(k, &ops[i]);
        try_groups(k, &ops[i]);
        try_lines(k, &ops[i]);
        try_scales(k, &ops[i]);
        check_end();
    }
}

/* ---- rows with equal parameters, against single rows ---- */

static void try_rows(const struct pq_kernels *k, const struct pq_run *options,
                     int quantizes)
{
    static unsigned char expected[MAX_N];
    const size_t n = 1 + random_below(random_chance(80) ? 200 : 1300);
    const size_t rows = 1 + random_below(20), apart = random_below(3);
    const size_t in = pq_type_size(options->in), out = pq_type_size(options->out);
    const size_t in_stride = (n + apart) * in, out_stride = (n + apart) * out;
    if (rows * out_stride > sizeof expected || rows * in_stride > sizeof batch.x) {
        return;
    }
    const size_t in_bytes = (rows - 1) * in_stride + n * in;
    const size_t out_bytes = (rows - 1) * out_stride + n * out;
    unsigned char *x = guarded_end(&memory.x, in_bytes);
    unsigned char *y = guarded_end(&memory.y, out_bytes);
    float *scale = (void *)guarded_end(&memory.scale, n * sizeof *scale);
    int32_t *zero = (void *)guarded_end(&memory.zero, n * sizeof *zero);
    const enum pq_type code = quantizes ? options->out : options->in;
    const int is_float = pq_is_narrow_float(code);
    const double reach = is_float ? 600 : reach_of(code);
    const int tame =
        random_chance(70); /* one scale without a reciprocal makes the kernel divide */
    for (size_t i = 0; i < n; i++) {
        scale[i] = tame ? ldexpf(1 + (float)random_unit(), (int)random_between(-70, 70))
                        : draw_scale();
        zero[i] = is_float ? INT32_MIN : (int32_t)random_below(100);
    }
    for (size_t i = 0; i < in_bytes; i++) {
        x[i] = (unsigned char)random_bits();
    }
    for (size_t r = 0; quantizes && r < rows; r++) {
        for (size_t i = 0; i < n; i++) {
            put_bits(x + r * in_stride, options->in, i,
                     draw_real(options->in, (double)scale[i], reach));
        }
    }
    memset(expected, 0x5a, sizeof expected);
    memset(y - CANARY, 0x5a, CANARY + out_bytes);
    for (size_t r = 0; r < rows; r++) {
        run_kernel(&pq_kernels_scalar, options, quantizes, 0, x + r * in_stride,
                   expected + r * out_stride, n, 1, scale, zero);
    }
    struct pq_run all = *options;
    all.rows = rows;
    all.in_stride = (ptrdiff_t)in_stride;
    all.out_stride = (ptrdiff_t)out_stride;
    run_kernel(k, &all, quantizes, 0, x, y, n, 1, scale, zero);
    CHECK(memcmp(y, expected, out_bytes) == 0, "%s: %zu rows of %zu, %zu apart", k->name,
          rows, n, apart);
    CHECK(all_are(y - CANARY, CANARY, 0x5a), "%s: wrote before its output", k->name);
}

/* ---- groups with gaps between them, against single groups ---- */

static void try_gaps(const struct pq_kernels *k, const struct pq_run *options,
                     int quantizes)
{
    static unsigned char expected[MAX_N];
    const size_t most = random_chance(80) ? 200 : PQ_MAX_GAPPED_GROUP;
    const size_t g = PQ_MIN_GAPPED_GROUP + random_below(most - PQ_MIN_GAPPED_GROUP + 1);
    const size_t groups = 1 + random_below(20);
    const size_t in = pq_type_size(options->in), out = pq_type_size(options->out);
    const size_t in_stride = g * in + random_below(50);
    const size_t out_stride = g * out + random_below(50);
    if (groups * out_stride > sizeof expected || groups * in_stride > sizeof batch.x) {
        return;
    }
    const size_t in_bytes = (groups - 1) * in_stride + g * in;
    const size_t out_bytes = (groups - 1) * out_stride + g * out;
    unsigned char *x = guarded_end(&memory.x, in_bytes);
    unsigned char *y = guarded_end(&memory.y, out_bytes);
    float *scale = (void *)guarded_end(&memory.scale, groups * sizeof *scale);
    int32_t *zero = (void *)guarded_end(&memory.zero, groups * sizeof *zero);
    const enum pq_type code = quantizes ? options->out : options->in;
    const int is_float = pq_is_narrow_float(code);
    const double reach = is_float ? 600 : reach_of(code);
    const int tame =
        random_chance(70); /* one scale without a reciprocal makes the kernel divide */
    for (size_t i = 0; i < in_bytes; i++) {
        x[i] = (unsigned char)random_bits();
    }
    memset(expected, 0x5a, sizeof expected);
    memset(y - CANARY, 0x5a, CANARY + out_bytes);
    for (size_t r = 0; r < groups; r++) {
        scale[r] = tame ? ldexpf(1 + (float)random_unit(), (int)random_between(-70, 70))
                        : draw_scale();
        zero[r] = is_float ? INT32_MIN : (int32_t)random_below(100);
        for (size_t i = 0; quantizes && i < g; i++) {
            put_bits(x + r * in_stride, options->in, i,
                     draw_real(options->in, (double)scale[r], reach));
        }
        run_kernel(&pq_kernels_scalar, options, quantizes, 0, x + r * in_stride,
                   expected + r * out_stride, g, g, scale + r, zero + r);
    }
    struct pq_run all = *options;
    all.in_gap = (ptrdiff_t)(in_stride - g * in);
    all.out_gap = (ptrdiff_t)(out_stride - g * out);
    run_kernel(k, &all, quantizes, 0, x, y, groups * g, g, scale, zero);
    CHECK(memcmp(y, expected, out_bytes) == 0, "%s: %zu groups of %zu, gaps %td and %td",
          k->name, groups, g, all.in_gap, all.out_gap);
    CHECK(all_are(y - CANARY, CANARY, 0x5a), "%s: wrote before its output", k->name);
}

static void check_rows(const struct pq_kernels *k, enum pq_type real, enum pq_type code)
{
    const struct pq_run ways[] = {
        {.in = real, .out = code, .compute = PQ_F32, .round = PQ_HALF_EVEN},
        {.in = code, .out = real, .compute = PQ_F32},
        {.in = real, .out = code, .compute = PQ_F32, .round = PQ_FLOOR}};
    const int has_modes = pq_is_integer(code) && pq_bytes_of(code) < 4;
    check_begin("%s rows of %s and %s", k->name, type_name(real), type_name(code));
    for (size_t i = 0; i < check_count(150); i++) {
        for (int way = 0; way < (has_modes ? 3 : 2); way++) {
            try_rows(k, &ways[way], way != 1);
            try_gaps(k, &ways[way], way != 1);
        }
    }
    check_end();
}

/* ---- extrema: the sign of a zero is not specified ---- */

struct extrema {
    double lo, hi;
    uint32_t bits;
};

static int row_of(enum pq_type real)
{
    return real == PQ_F64 ? PQ_F64_ROW : pq_row_of(real);
}

/* Store extreme `i` in the type of the kernels. */
static void put_extreme(void *p, enum pq_type real, size_t i, double v)
{
    if (real == PQ_F64) {
        ((double *)p)[i] = v;
    } else {
        ((float *)p)[i] = (float)v;
    }
}

static double get_extreme(const void *p, enum pq_type real, size_t i)
{
    return real == PQ_F64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

static void merge_run(const struct pq_kernels *k, enum pq_type real, const void *x,
                      size_t n, struct extrema *e)
{
    double lo, hi; /* or float32 */
    put_extreme(&lo, real, 0, e->lo);
    put_extreme(&hi, real, 0, e->hi);
    k->minmax[row_of(real)](x, n, &lo, &hi, &e->bits);
    e->lo = get_extreme(&lo, real, 0);
    e->hi = get_extreme(&hi, real, 0);
}

static int is_finite(const struct extrema *e)
{
    return e->bits < 0x7f800000;
}

static void verify_minmax(const struct pq_kernels *k, enum pq_type real, size_t n,
                          struct extrema start, ptrdiff_t offset)
{
    const size_t bytes = n * pq_type_size(real);
    unsigned char *x = place(&memory.x, offset, bytes);
    struct extrema expected = start, got = start;
    memcpy(x, batch.x, bytes);
    merge_run(&pq_kernels_scalar, real, batch.x, n, &expected);
    merge_run(k, real, x, n, &got);
    CHECK(is_finite(&got) == is_finite(&expected), "%s: n %zu: bits %#x, expected %#x",
          k->name, n, (unsigned)got.bits, (unsigned)expected.bits);
    if (is_finite(&got)) {
        CHECK(got.lo == expected.lo && got.hi == expected.hi,
              "%s: n %zu: %a .. %a, expected %a .. %a", k->name, n, got.lo, got.hi,
              expected.lo, expected.hi);
    }
}

static void draw_minmax(enum pq_type real, size_t n, int finite)
{
    for (size_t i = 0; i < n; i++) {
        do {
            put_bits(batch.x, real, i, draw_real(real, 0.03, 1e6));
        } while (finite && !isfinite(get_real(batch.x, real, i)));
    }
}

/* Draw the bits of an infinity or NaN of either sign. */
static uint64_t not_finite(enum pq_type real)
{
    static const uint64_t infinities[] = {
        [PQ_F32] = 0x7f800000,
        [PQ_F16] = 0x7c00,
        [PQ_BF16] = 0x7f80,
        [PQ_F64] = UINT64_C(0x7ff0000000000000),
    };
    const int sign = (int)pq_type_size(real) * 8 - 1;
    return infinities[real] + random_below(3) + ((uint64_t)random_below(2) << sign);
}

static void check_minmax(const struct pq_kernels *k, enum pq_type real)
{
    const struct extrema none = {HUGE_VAL, -HUGE_VAL, 0};
    check_begin("%s minmax %s", k->name, type_name(real));
    for (size_t i = 0; i < check_count(40) * (SHORT_N + 1); i++) {
        const size_t n = i % 40 == 39 ? random_below(LONG_N) : i / 40 % (SHORT_N + 1);
        const int finite = !random_chance(10);
        const struct extrema some = {-3, 5e4, random_chance(10) ? 0x7f800000 : 0};
        draw_minmax(real, n, finite);
        if (n > 0 && random_chance(20)) { /* one element is not finite */
            put_bits(batch.x, real, random_below(n), not_finite(real));
        }
        const struct extrema start = random_chance(70) ? none : some;
        verify_minmax(k, real, n, start, AT_END);
        verify_minmax(k, real, n, start, (ptrdiff_t)random_below(32));
    }
    check_end();
}

/* Compare groups with scalar runs, and columns with scalar runs of one element. */
static void verify_minmaxes(const struct pq_kernels *k, enum pq_type real, size_t rows,
                            size_t n, size_t apart, ptrdiff_t offset)
{
    static double lo[LONG_N], hi[LONG_N]; /* or float32 */
    const size_t size = pq_type_size(real), stride = (n + apart) * size;
    const size_t bytes = rows == 0 ? 0 : (rows - 1) * stride + n * size;
    const int row = row_of(real);
    const char *from = (const char *)batch.x;
    unsigned char *x = place(&memory.x, offset, bytes);
    uint32_t got = 0, expected = 0;
    memcpy(x, from, bytes);
    if (apart == 0) {
        k->minmax_groups[row](x, rows, n, lo, hi, &got);
        for (size_t r = 0; r < rows; r++) {
            struct extrema e = {HUGE_VAL, -HUGE_VAL, 0};
            merge_run(&pq_kernels_scalar, real, from + r * stride, n, &e);
            expected = e.bits > expected ? e.bits : expected;
            const double least = get_extreme(lo, real, r), most = get_extreme(hi, real, r);
            CHECK(!is_finite(&e) || (least == e.lo && most == e.hi),
                  "%s: group %zu of %zu of %zu: %a .. %a, expected %a .. %a", k->name, r,
                  rows, n, least, most, e.lo, e.hi);
        }
        CHECK((got < 0x7f800000) == (expected < 0x7f800000), "%s: bits %#x", k->name,
              (unsigned)got);
    }
    for (size_t c = 0; c < n; c++) {
        put_extreme(lo, real, c, c % 3 == 0 ? -1.5 : HUGE_VAL);
        put_extreme(hi, real, c, c % 5 == 0 ? 2.5 : -HUGE_VAL);
    }
    put_extreme(lo, real, n, 77);
    put_extreme(hi, real, n, 77);
    got = expected = 0;
    k->minmax_columns[row](x, (ptrdiff_t)stride, rows, n, lo, hi, &got);
    for (size_t c = 0; c < n; c++) {
        struct extrema e = {c % 3 == 0 ? -1.5 : HUGE_VAL, c % 5 == 0 ? 2.5 : -HUGE_VAL, 0};
        for (size_t r = 0; r < rows; r++) {
            merge_run(&pq_kernels_scalar, real, from + r * stride + c * size, 1, &e);
        }
        expected = e.bits > expected ? e.bits : expected;
        const double least = get_extreme(lo, real, c), most = get_extreme(hi, real, c);
        CHECK(!is_finite(&e) || (least == e.lo && most == e.hi),
              "%s: column %zu of %zu, %zu rows: %a .. %a, expected %a .. %a", k->name, c, n,
              rows, least, most, e.lo, e.hi);
    }
    CHECK(get_extreme(lo, real, n) == 77 && get_extreme(hi, real, n) == 77,
          "%s: %zu columns: one more", k->name, n);
    CHECK((got < 0x7f800000) == (expected < 0x7f800000), "%s: bits %#x", k->name,
          (unsigned)got);
}

static void check_minmaxes(const struct pq_kernels *k, enum pq_type real)
{
    check_begin("%s minmax_groups and minmax_columns %s", k->name, type_name(real));
    for (size_t i = 0; i < check_count(400); i++) {
        const size_t n =
            1 + (random_chance(90) ? random_below(SHORT_N) : random_below(600));
        const size_t rows = random_below(random_chance(90) ? 40 : 150) + (size_t)(n < 32);
        const size_t apart = random_chance(50) ? 0 : random_below(4);
        if (rows * (n + apart) > MAX_N) {
            continue;
        }
        draw_minmax(real, rows * (n + apart), 1);
        if (rows > 0 && random_chance(20)) { /* not finite, in a row or between rows */
            put_bits(batch.x, real, random_below(rows * (n + apart)), not_finite(real));
        }
        verify_minmaxes(k, real, rows, n, apart, AT_END);
        verify_minmaxes(k, real, rows, n, apart, (ptrdiff_t)random_below(32));
    }
    check_end();
}

/* ---- parameters of extrema ---- */

/* Draw an extreme. `tame`: its magnitude is within the limits of the kernels. */
static float draw_end(int tame)
{
    float v;
    do {
        const uint32_t bits = (uint32_t)draw_real(PQ_F32, 0.03, 1e6);
        memcpy(&v, &bits, sizeof v);
    } while (!isfinite(v) || (tame && (fabsf(v) < 1e-20f || fabsf(v) > 1e20f)));
    return v;
}

static void verify_choose(pq_choose_fn *judge, pq_choose_fn *choose, const char *name,
                          enum pq_type code)
{
    const struct pq_range range = pq_range_of(code);
    const struct pq_reach to = {(double)range.lo, (double)range.hi,
                                (double)(range.lo + range.hi + 1) / 2, 0x1p-80, 0x1p120};
    float lo[PQ_CHOSEN], hi[PQ_CHOSEN], due[PQ_CHOSEN], scale[PQ_CHOSEN + 1];
    uint32_t due_zero[PQ_CHOSEN], zero[PQ_CHOSEN + 1];
    const size_t n = random_below(PQ_CHOSEN + 1);
    const int tame = random_chance(70);
    for (size_t i = 0; i < n; i++) {
        const float a = draw_end(tame), b = random_chance(10) ? -a : draw_end(tame);
        lo[i] = a < b ? a : b;
        hi[i] = a < b ? b : a;
    }
    scale[n] = 77;
    zero[n] = 77;
    const int chosen = judge(&to, lo, hi, due, due_zero, n);
    CHECK(choose(&to, lo, hi, scale, zero, n) == chosen, "%s %s: not %d", name,
          type_name(code), chosen);
    for (size_t i = 0; i < n && chosen; i++) {
        CHECK(scale[i] == due[i] && zero[i] == due_zero[i],
              "%s %s: %a .. %a: %a, %u, expected %a, %u", name, type_name(code),
              (double)lo[i], (double)hi[i], (double)scale[i], (unsigned)zero[i],
              (double)due[i], (unsigned)due_zero[i]);
    }
    CHECK(scale[n] == 77 && zero[n] == 77, "%s: one more than %zu", name, n);
}

static void check_choose(const struct pq_kernels *k)
{
    static const enum pq_type types[] = {PQ_I8, PQ_U8, PQ_I16, PQ_U16, PQ_U4, PQ_U2};
    check_begin("%s choose_middle and choose_asymmetric", k->name);
    for (size_t i = 0; i < check_count(2000); i++) {
        const enum pq_type code = types[i % (sizeof types / sizeof *types)];
        verify_choose(pq_kernels_scalar.choose_middle, k->choose_middle, k->name, code);
        verify_choose(pq_kernels_scalar.choose_asymmetric, k->choose_asymmetric, k->name,
                      code);
    }
    check_end();
}

/* ---- transposes ---- */

/* Transpose lines with gaps of `apart` bytes to rows without gaps. Input and output end at
 * an inaccessible page. */
static void verify_transpose(const struct pq_kernels *k, int which, size_t rows,
                             size_t columns, size_t apart)
{
    const size_t size = (size_t)1 << which, line = rows * size + apart;
    const size_t in_bytes = columns * line - apart, out_bytes = rows * columns * size;
    unsigned char *x = guarded_end(&memory.x, in_bytes);
    unsigned char *y = guarded_end(&memory.y, out_bytes);
    for (size_t i = 0; i < in_bytes; i++) {
        x[i] = (unsigned char)random_bits();
    }
    memset(y - CANARY, 0x5a, CANARY + out_bytes);
    k->transpose[which]((char *)x, (ptrdiff_t)line, (char *)y, (ptrdiff_t)(columns * size),
                        rows, columns);
    size_t wrong = 0;
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < columns; c++) {
            wrong +=
                memcmp(y + (r * columns + c) * size, x + c * line + r * size, size) != 0;
        }
    }
    CHECK(wrong == 0, "%s: %zu x %zu elements of %zu bytes: %zu wrong", k->name, rows,
          columns, size, wrong);
    CHECK(all_are(y - CANARY, CANARY, 0x5a), "%s: wrote outside its output", k->name);
}

static void check_transpose(const struct pq_kernels *k)
{
    check_begin("%s transpose", k->name);
    for (int which = 0; which < 4; which++) {
        for (size_t rows = 1; rows <= 33; rows++) {
            for (size_t i = 0; i < check_count(8); i++) {
                const size_t columns = 1 + random_below(40);
                verify_transpose(k, which, rows, columns, i % 2 * random_below(70));
            }
        }
    }
    check_end();
}

/* ---- a run gives the results of its elements ---- */

static void check_one_by_one(const struct pq_kernels *k)
{
    check_begin("%s elements one by one", k->name);
    for (size_t i = 0; i < check_count(400); i++) {
        struct op op = {(enum kind)random_below(4), reals[random_below(PQ_REALS)],
                        codes[random_below(CODES)], PQ_F32, PQ_HALF_EVEN};
        const size_t n = 1 + random_below(300);
        if (op.kind == QUANTIZE_VEC) {
            op.round = static_round(random_below(STATIC_ROUNDS));
        }
        if (!is_quantize(&op)) {
            const enum pq_type real = op.in;
            op.in = op.out;
            op.out = real;
        }
        draw_batch(&op, n, 1 + random_below(n));
        for (size_t e = 0; e < n; e++) {
            const size_t p = e / batch.g, size = pq_type_size(op.out);
            run(k, &op, (char *)batch.x + e * pq_type_size(op.in),
                (char *)batch.y + e * size, 1, 1, (char *)batch.scale + p * sizeof(float),
                (char *)batch.zero + p * sizeof(float));
        }
        verify(k, 0, 0); /* all elements in one call, against the calls of one element */
    }
    check_end();
}

/* ---- pixels ---- */

static void check_pixels(const struct pq_kernels *k)
{
    check_begin("%s split_pixels and join_pixels", k->name);
    for (size_t i = 0; k->split_pixels != NULL && i < check_count(2000); i++) {
        const size_t stride = 1 + random_below(8), n = random_below(100);
        const size_t channels = 1 + random_below(stride), row = n + random_below(9);
        unsigned char *x = guarded_end(&memory.x, n * stride);
        unsigned char *y = guarded_end(&memory.y, channels * row);
        for (size_t b = 0; b < n * stride; b++) {
            x[b] = (unsigned char)random_bits();
        }
        const size_t split = k->split_pixels((char *)x, (ptrdiff_t)stride, (char *)y,
                                             (ptrdiff_t)row, channels, n);
        for (size_t b = 0; b < split * channels; b++) {
            const size_t pixel = b / channels, c = b % channels;
            CHECK(y[c * row + pixel] == x[pixel * stride + c],
                  "split %zu of %zu pixels: channel %zu of %zu", pixel, n, c, stride);
        }
        x = guarded_end(&memory.x, n * stride);
        y = guarded_end(&memory.y, stride * row);
        for (size_t b = 0; b < stride * row; b++) {
            y[b] = (unsigned char)random_bits();
        }
        memset(x - CANARY, 0x5a, CANARY);
        const size_t joined = k->join_pixels((char *)y, (ptrdiff_t)row, (char *)x,
                                             (ptrdiff_t)stride, stride, n);
        for (size_t b = 0; b < joined * stride; b++) {
            const size_t pixel = b / stride, c = b % stride;
            CHECK(x[b] == y[c * row + pixel], "join %zu of %zu pixels: channel %zu of %zu",
                  pixel, n, c, stride);
        }
        CHECK(split <= n && joined <= n && all_are(x - CANARY, CANARY, 0x5a),
              "%zu pixels: %zu split, %zu joined", n, split, joined);
        CHECK(stride < 2 || stride > 4 || (split + 17 > n && joined + 16 > n),
              "%zu pixels of %zu bytes: %zu split, %zu joined", n, stride, split, joined);
    }
    check_end();
}

/* ---- magnitudes ---- */

static void check_magnitude(const struct pq_kernels *k)
{
    check_begin("%s magnitude", k->name);
    for (size_t i = 0; i < check_count(4000); i++) {
        const size_t n = PQ_MAGNITUDES + random_below(200);
        unsigned char *const x =
            place(&memory.x, random_chance(50) ? AT_END : (ptrdiff_t)random_below(16) * 4,
                  n * sizeof(float));
        const int finite = random_chance(70);
        uint32_t most = 0;
        for (size_t e = 0; e < n; e++) {
            uint32_t bits = (uint32_t)draw_real(PQ_F32, 0.03, 1e6);
            bits &= finite ? 0xbfffffff : UINT32_MAX; /* below 2 */
            most = (bits & 0x7fffffff) > most ? bits & 0x7fffffff : most;
            put_bits(x, PQ_F32, e, bits);
        }
        const uint32_t got = k->magnitude(x, n);
        CHECK(got == most, "%zu elements: %#x, expected %#x", n, (unsigned)got,
              (unsigned)most);
    }
    check_end();
}

/* ---- the functions that list.h names ---- */

static void check_pairs(const struct pq_kernels *k)
{
    for (int r = 0; r < PQ_REALS; r++) {
        for (int c = 0; c < CODES; c++) {
            check_quantize(k, reals[r], codes[c]);
            check_dequantize(k, codes[c], reals[r]);
        }
        check_whole(k, reals[r], PQ_I32);
        check_whole(k, reals[r], PQ_U32);
        for (int c = 0; c < 6; c++) {
            check_rows(k, reals[r], codes[c]);
        }
        check_rows(k, reals[r], PQ_F8E4M3FN);
        check_rows(k, reals[r], PQ_F8E5M2FNUZ);
    }
    for (int c = 0; c < CODES; c++) {
        check_every_code(k, codes[c]);
    }
    check_ties(k, PQ_I8);
    check_ties(k, PQ_U8);
    check_every_half(k, PQ_F16);
    check_every_half(k, PQ_BF16);
    check_one_by_one(k);
}

static void check_general(const struct pq_kernels *k)
{
    for (int c = 0; c < ALL_CODES; c++) {
        for (int r = 0; r < 4; r++) {
            check_quantize_int64(k, reals[r], codes[c]);
            check_dequantize_int64(k, codes[c], reals[r]);
        }
        check_same(k, codes[c]);
    }
}

static void check_extrema(const struct pq_kernels *k)
{
    for (int r = 0; r < PQ_EXTREMA; r++) {
        check_minmax(k, reals[r]);
        check_minmaxes(k, reals[r]);
    }
}

#undef KERNELS
#define KERNELS(check) check,
static driver_fn *const drivers[] = {
#include "kernels/list.h"
    NULL};

int main(int argc, char **argv)
{
    (void)argc;
    check_start(argv[0]);
    has_control = getenv("CHECK_NO_CONTROL") == NULL;
    memory.x = guarded_make(sizeof batch.x + 4096);
    memory.y = guarded_make(sizeof batch.y + 4096);
    memory.scale = guarded_make(sizeof batch.scale);
    memory.zero = guarded_make(sizeof batch.zero);
    run_drivers(drivers);
    guarded_free(&memory.x);
    guarded_free(&memory.y);
    guarded_free(&memory.scale);
    guarded_free(&memory.zero);
    return check_finish();
}
