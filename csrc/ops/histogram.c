/* SPDX-License-Identifier: Apache-2.0 */
/*
 * histogram: how often the upper 16 bits of numbers occur, their extrema, and what is not
 * finite. One load, one addition and one store for each element, in four tables by turns,
 * as a counter that was just stored cannot be loaded at once.
 */
#include <math.h>

#include "args.h"
#include "engine/params.h"
#include "engine/tile.h"
#include "engine/walk.h"
#include "kernels/kernels.h"
#include "math/fpenv.h"
#include "math/scalar_math.h"
#include "ops/keys.h"
#include "types.h"

enum {
    KEYS = 1 << 16,
    LANES = 4,
    LANE = PQ_COUNTERS /
        LANES, /* not a multiple of a page: caches and CPUs mistake those */
    TILE = 1024,
    AHEAD = 4096,  /* bytes from what is counted to what is asked for */
    FEW = 1 << 14, /* of less elements pages are told by looking at each */
    NOT_FINITE = 0x7f800000
};

/* A call: its plan, what it adds to, and what it found. */
struct counting {
    const struct pq_kernels *kernels;
    struct pq_counts *counts;
    enum pq_type type;
    size_t size; /* of an element */
    bool swapped;
    bool looks; /* at each element for its page */
    bool failed;
    pq_minmax_fn *minmax;
    struct pq_plan plan;
    uint8_t seen[PQ_PAGES]; /* 1: a page that it found so */
};

/* ---- counting ---- */

/* 16 elements and more at a time: two keys, or four, to each load. */
static size_t count_f32(uint32_t *PQ_RESTRICT to, const char *x, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16, x += 64) {
        PQ_WILL_READ(x + AHEAD);
        for (int k = 0; k < 64; k += 16) {
            uint64_t a, b;
            memcpy(&a, x + k, sizeof a);
            memcpy(&b, x + k + 8, sizeof b);
            to[a >> 16 & 0xffff]++;
            to[LANE + (a >> 48)]++;
            to[2 * LANE + (b >> 16 & 0xffff)]++;
            to[3 * LANE + (b >> 48)]++;
        }
    }
    return i;
}

/* `odd` and `second`: how far from table to table. Float16 has as many numbers beside each
 * other as need more than caches near hold, in as many tables. */
static size_t count_keys(uint32_t *to, size_t odd, size_t second, const char *x, size_t n)
{
    uint32_t *const tables[LANES] = {to, to + odd, to + second, to + second + odd};
    size_t i = 0;
    for (; i + 32 <= n; i += 32, x += 64) {
        PQ_WILL_READ(x + AHEAD);
        for (int k = 0; k < 64; k += 8) {
            uint64_t a;
            memcpy(&a, x + k, sizeof a);
            tables[0][a & 0xffff]++;
            tables[1][a >> 16 & 0xffff]++;
            tables[2][a >> 32 & 0xffff]++;
            tables[3][a >> 48]++;
        }
    }
    return i;
}

/* Finite elements, which follow each other, with the keys of the lowest and the highest. */
static void count_elements(const struct counting *counting, const char *x, size_t n)
{
    struct pq_counts *counts = counting->counts;
    uint16_t keys[TILE];
    size_t i;
    if (counting->type == PQ_F32) {
        i = count_f32(counts->counters, x, n);
    } else if (counting->type == PQ_F64) {
        pq_keys_of_f64(keys, x, n);
        i = count_keys(counts->counters, LANE, 2 * LANE, (const char *)keys, n);
    } else {
        i = count_keys(counts->counters, LANE, counting->type == PQ_F16 ? 0 : 2 * LANE, x,
                       n);
    }
    for (; i < n; i++) {
        counts->counters[pq_key_at(counting->type, x + i * counting->size)]++;
    }
}

/* ---- pages ---- */

static void hit(struct pq_counts *counts, size_t page)
{
    counts->pages[page / 64] |= (uint64_t)1 << page % 64;
}

/* Stores, none of which waits for the last. */
static void look_for_pages(struct counting *counting, const char *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        counting->seen[pq_key_at(counting->type, x + i * counting->size) / PQ_PAGE] = 1;
    }
}

static void take_seen(struct counting *counting)
{
    for (size_t page = 0; page < PQ_PAGES; page++) {
        counting->counts->pages[page / 64] |= (uint64_t)counting->seen[page] << page % 64;
    }
}

/* No more than are pending, which 32 bits hold. */
static uint32_t counted(const uint32_t *counters, size_t page)
{
    uint32_t sum = 0;
    for (size_t lane = 0; lane < LANES; lane++) {
        const uint32_t *from = counters + lane * LANE + page * PQ_PAGE;
        for (size_t k = 0; k < PQ_PAGE; k++) {
            sum += from[k];
        }
    }
    return sum;
}

/* How many elements are counted in a page of magnitudes, of either sign. */
static uint64_t find_page(struct pq_counts *counts, size_t page)
{
    uint64_t both = 0;
    for (size_t sign = 0; sign < PQ_PAGES; sign += PQ_KEY_SIGN / PQ_PAGE) {
        const uint64_t n = counted(counts->counters, sign + page);
        if (n != 0) {
            hit(counts, sign + page);
        }
        both += n;
    }
    return both;
}

/* The pages of what was counted: that of zeros, then from the largest magnitude down until
 * all is found, which mostly takes a few of them. */
static void find_pages(struct pq_counts *counts, size_t largest)
{
    uint64_t left = counts->pending - find_page(counts, 0);
    for (size_t page = largest; left != 0 && page > 0; page--) {
        left -= find_page(counts, page);
    }
}

/* ---- tiles ---- */

union extreme {
    float single;
    double wide;
};

static double value_of(const struct counting *counting, const union extreme *extreme)
{
    return counting->type == PQ_F64 ? extreme->wide : (double)extreme->single;
}

/* Whether all are finite; the extrema. */
static bool find_extrema(const struct counting *counting, const char *x, size_t n,
                         double *lowest, double *highest)
{
    union extreme lo, hi;
    uint32_t bits = 0;
    if (counting->type == PQ_F64) {
        lo.wide = HUGE_VAL;
        hi.wide = -HUGE_VAL;
    } else {
        lo.single = INFINITY;
        hi.single = -INFINITY;
    }
    counting->minmax(x, n, &lo, &hi, &bits);
    *lowest = value_of(counting, &lo);
    *highest = value_of(counting, &hi);
    return bits < NOT_FINITE;
}

/* The finite ones of `n` elements, as contiguous as before; the others are counted. */
static size_t take_finite(const struct counting *counting, char *to, const char *x,
                          size_t n)
{
    struct pq_counts *counts = counting->counts;
    size_t taken = 0;
    for (size_t i = 0; i < n; i++, x += counting->size) {
        const struct pq_params at = {x, 0, counting->type, 0};
        double v;
        pq_load_scales_f64(&v, &at, 1, 0);
        const uint64_t bits = pq_bits_f64(v) & INT64_MAX;
        if (bits >> 52 != 0x7ff) {
            memcpy(to + taken++ * counting->size, x, counting->size);
        } else if (bits << 12 != 0) {
            counts->nan++;
        } else {
            counts->inf++;
        }
    }
    return taken;
}

/* All of them finite. */
static void add_finite(struct counting *counting, const char *x, size_t n, double lowest,
                       double highest)
{
    struct pq_counts *counts = counting->counts;
    if (n == 0) {
        return;
    }
    counts->count += n;
    /* Not -0, which some kernels find before 0. */
    counts->lowest = lowest < counts->lowest ? lowest + 0.0 : counts->lowest;
    counts->highest = highest > counts->highest ? highest + 0.0 : counts->highest;
    if (counts->counters == NULL) {
        return;
    }
    counts->pending += (uint32_t)n;
    if (lowest == highest) { /* the same key again and again */
        counts->counters[pq_key_at(counting->type, x)] += (uint32_t)n;
    } else {
        count_elements(counting, x, n);
    }
    if (counting->looks) {
        look_for_pages(counting, x, n);
    }
}

/* At most TILE elements that follow each other. */
static void count_tile(struct counting *counting, const char *x, size_t n)
{
    double lowest, highest;
    char finite[TILE * sizeof(double)];
    if (!find_extrema(counting, x, n, &lowest, &highest)) {
        if (!counting->counts->ignore_nonfinite) {
            counting->failed = true;
            return;
        }
        n = take_finite(counting, finite, x, n);
        x = finite;
        find_extrema(counting, x, n, &lowest, &highest);
    }
    add_finite(counting, x, n, lowest, highest);
}

static void count_row(struct counting *counting, const char *x, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n && !counting->failed; i += TILE) {
        const ptrdiff_t left = n - i;
        count_tile(counting, x + i * (ptrdiff_t)counting->size,
                   (size_t)(left < TILE ? left : TILE));
    }
}

/* Rows that are gathered, as many at a time as a tile has room for. */
static void count_rows(struct counting *counting, const char *x, ptrdiff_t rows,
                       ptrdiff_t n)
{
    const struct pq_dim *dim = &counting->plan.dim[0], *outer = &counting->plan.dim[1];
    char buffer[TILE * sizeof(double)];
    const ptrdiff_t columns = n < TILE ? n : TILE, some = TILE / columns;
    for (ptrdiff_t r = 0; r < rows; r += some) {
        const ptrdiff_t now = rows - r < some ? rows - r : some;
        for (ptrdiff_t i = 0; i < n && !counting->failed; i += columns) {
            const ptrdiff_t width = n - i < columns ? n - i : columns;
            const struct pq_tile tile = {now,     width,          outer->in,
                                         dim->in, counting->size, counting->swapped};
            pq_gather(counting->kernels, buffer, x + r * outer->in + i * dim->in, &tile);
            count_tile(counting, buffer, (size_t)(now * width));
        }
    }
}

/* All of the two innermost dimensions. */
static void count_plane(void *p, struct pq_position at)
{
    enum { LONG = 256 }; /* a row that is not worth to be gathered with others */
    struct counting *counting = p;
    const struct pq_dim *dim = &counting->plan.dim[0], *outer = &counting->plan.dim[1];
    const ptrdiff_t n = dim->end - dim->begin, rows = outer->end - outer->begin;
    const char *x = at.in + dim->begin * dim->in + outer->begin * outer->in;
    const bool contiguous =
        !counting->swapped && (n == 1 || dim->in == (ptrdiff_t)counting->size);
    if (contiguous && (n >= LONG || rows == 1)) {
        for (ptrdiff_t r = 0; r < rows; r++) {
            count_row(counting, x + r * outer->in, n);
        }
    } else {
        count_rows(counting, x, rows, n);
    }
}

/* ---- calls ---- */

/* How many elements the plan has; UINT32_MAX for more than counters hold. */
static size_t planned(const struct pq_plan *plan)
{
    size_t count = 1;
    for (int d = 0; d < plan->ndim; d++) {
        const size_t n = (size_t)(plan->dim[d].end - plan->dim[d].begin);
        if (n != 0 && count >= UINT32_MAX / n) {
            return UINT32_MAX;
        }
        count *= n;
    }
    return count;
}

static enum pq_status check(const struct pq_kernels *kernels, const struct pq_args *args,
                            const struct pq_counts *counts, int part, int parts)
{
    struct pq_counts room;
    const void *given = counts;
    if (kernels == NULL || counts == NULL) {
        return PQ_ERR_NULL;
    }
    enum pq_status status = pq_known_struct(&given, &room, sizeof room, sizeof room);
    if (status == PQ_OK) {
        status = pq_check_shape(args);
    }
    if (status == PQ_OK) {
        status = pq_check_array(args, &args->in, false);
    }
    if (status == PQ_OK && (part < 0 || part >= parts)) {
        status = PQ_ERR_PART;
    }
    if (status == PQ_OK && (!pq_is_real(args->in.type) || args->in.bit_strides != NULL)) {
        status = PQ_ERR_TYPE;
    }
    return status;
}

static size_t page_of(enum pq_type type, double v)
{
    const uint64_t bits = pq_bits_f64(v) & INT64_MAX;
    const uint32_t key =
        type == PQ_F16 ? pq_f16_from_f32((float)pq_f64_bits(bits)) : pq_key_of_f64(bits);
    return key / PQ_PAGE;
}

/* What is between -0 and the next key is counted with 0. */
static void fold_zeros(struct pq_counts *counts)
{
    for (size_t lane = 0; lane < LANES; lane++) {
        uint32_t *from = counts->counters + lane * LANE + PQ_KEY_SIGN;
        if (*from != 0) {
            counts->counters[lane * LANE] += *from;
            *from = 0;
            hit(counts, 0);
        }
    }
    if (counted(counts->counters, PQ_KEY_SIGN / PQ_PAGE) == 0) {
        counts->pages[PQ_KEY_SIGN / PQ_PAGE / 64] &= ~(uint64_t)1;
    }
}

static void count_planned(struct counting *counting)
{
    struct pq_counts *counts = counting->counts;
    pq_for_each_row(&counting->plan, 2, count_plane, counting);
    if (counts->counters == NULL) {
        return;
    }
    take_seen(counting);
    fold_zeros(counts);
    if (!counting->looks && counts->pending != 0) {
        const size_t lowest = page_of(counting->type, counts->lowest);
        const size_t highest = page_of(counting->type, counts->highest);
        find_pages(counts, lowest > highest ? lowest : highest);
    }
}

enum pq_status pq_histogram(const struct pq_kernels *kernels, const struct pq_args *args,
                            struct pq_counts *counts, int part, int parts)
{
    struct pq_args room;
    enum pq_status status = pq_known_args(&args, &room);
    if (status == PQ_OK) {
        status = check(kernels, args, counts, part, parts);
    }
    if (status != PQ_OK) {
        return status;
    }
    struct pq_args plain = *args;
    plain.block = NULL;
    plain.in_layout = plain.out_layout = NULL;
    plain.scale = plain.zero = plain.out = (struct pq_array){.data = NULL};
    struct counting counting = {
        .kernels = kernels,
        .counts = counts,
        .type = args->in.type,
        .size = pq_type_size(args->in.type),
        .swapped = args->in.swapped != 0,
        .minmax = kernels->minmax[args->in.type == PQ_F64 ? (int)PQ_F64_ROW
                                                          : pq_row_of(args->in.type)],
    };
    status = pq_plan_init(&counting.plan, &plain, 0);
    if (status != PQ_OK) {
        return status;
    }
    pq_plan_part(&counting.plan, part, parts, 1);
    if (counting.plan.empty) {
        return PQ_OK;
    }
    const size_t n = planned(&counting.plan);
    if (counts->counters != NULL && n > UINT32_MAX - 1 - counts->pending) {
        return PQ_ERR_SHAPE;
    }
    counting.looks = n < FEW;
    const pq_fpenv found = pq_fpenv_enter();
    count_planned(&counting);
    pq_fpenv_leave(found);
    return counting.failed ? PQ_ERR_NONFINITE : PQ_OK;
}

/* The first page that was hit; -1: none. */
static int first_page(const struct pq_counts *counts)
{
    for (int word = 0; word < PQ_PAGES / 64; word++) {
        uint64_t bits = counts->pages[word];
        int page = word * 64;
        if (bits == 0) {
            continue;
        }
        for (; (bits & 0xff) == 0; bits >>= 8) {
            page += 8;
        }
        for (; (bits & 1) == 0; bits >>= 1) {
            page++;
        }
        return page;
    }
    return -1;
}

int pq_histogram_take(struct pq_counts *counts, uint64_t *to)
{
    const int page = counts->counters != NULL ? first_page(counts) : -1;
    if (page < 0) {
        counts->pending = 0;
        return -1;
    }
    counts->pages[page / 64] &= ~((uint64_t)1 << page % 64);
    uint32_t *const from = counts->counters + (ptrdiff_t)page * PQ_PAGE;
    for (int k = 0; k < PQ_PAGE; k++) {
        to[k] = from[k] + from[LANE + k] + from[2 * LANE + k] + from[3 * LANE + k];
    }
    for (int lane = 0; lane < LANES; lane++) {
        memset(from + (ptrdiff_t)lane * LANE, 0, PQ_PAGE * sizeof *from);
    }
    return page;
}
