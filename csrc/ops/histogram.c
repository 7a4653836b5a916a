/* SPDX-License-Identifier: Apache-2.0 */
/* histogram: count the keys and the nonfinite values of one tensor, and find its extrema.
 * To count a key, load a counter, add 1 and store the counter. Successive keys use four
 * tables in turn, because a load of a counter waits for an earlier store to the same
 * counter. */
#include <math.h>

#include "args.h"
#include "engine/sweep.h"
#include "engine/tile.h"
#include "math/fpenv.h"
#include "ops/counting.h"
#include "types.h"

enum {
    TABLES = 4,
    /* Number of counters of a table. The size of a table is not a multiple of 4 KiB. If two
     * addresses differ by a multiple of 4 KiB, a load from one waits for a store to the
     * other. */
    TABLE_COUNTERS = PQ_COUNTERS / TABLES,
    PART_ELEMENTS = PQ_SIZE(1 << 16, 1 << 9), /* elements of the largest part */
    PREFETCH_BYTES = 4096, /* distance of the prefetched from the counted bytes */
    /* A call of fewer elements marks the page of each element. */
    MARK_EACH_ELEMENTS = PQ_SIZE(1 << 14, 1 << 8),
    ROW_ELEMENTS = PQ_SIZE(256, 16) /* elements of shorter rows are copied to a tile */
};

struct counting {
    struct pq_counting input;
    struct pq_counts *counts;
    bool marks_each;          /* mark pages while counting; else find pages afterwards */
    bool failed;              /* a nonfinite value ended the call */
    uint8_t marked[PQ_PAGES]; /* 1: the key of an element is in this page */
};

/* ---- extrema ---- */

void pq_merge_extrema(const struct pq_counting *counting, const struct pq_extrema *found,
                      size_t c, double *lowest, double *highest)
{
    const double lo = pq_extremum_at(&found->lo, counting->is_f64, c);
    const double hi = pq_extremum_at(&found->hi, counting->is_f64, c);
    *lowest = lo < *lowest ? lo + 0.0 : *lowest;
    *highest = hi > *highest ? hi + 0.0 : *highest;
}

/* ---- counting ---- */

/* Count float32 elements. An iteration counts 16 elements, and a load reads two keys.
 * Return the number of counted elements. */
static size_t count_f32(uint32_t *PQ_RESTRICT to, const char *x, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16, x += 64) {
        PQ_WILL_READ(x + PREFETCH_BYTES);
        for (int k = 0; k < 64; k += 16) {
            uint64_t a, b;
            memcpy(&a, x + k, sizeof a);
            memcpy(&b, x + k + 8, sizeof b);
            to[a >> 16 & 0xffff]++;
            to[TABLE_COUNTERS + (a >> 48)]++;
            to[2 * TABLE_COUNTERS + (b >> 16 & 0xffff)]++;
            to[3 * TABLE_COUNTERS + (b >> 48)]++;
        }
    }
    return i;
}

/* Count 16-bit keys. An iteration counts 32 keys. Return the number of counted keys.
 * `second` is the distance of the third table from the first, in counters. It is 0 for
 * float16, which uses only two tables: float16 has many adjacent keys, and four tables
 * would exceed the near caches. */
static size_t count_keys(uint32_t *to, size_t second, const char *x, size_t n)
{
    uint32_t *const tables[TABLES] = {to, to + TABLE_COUNTERS, to + second,
                                      to + second + TABLE_COUNTERS};
    size_t i = 0;
    for (; i + 32 <= n; i += 32, x += 64) {
        PQ_WILL_READ(x + PREFETCH_BYTES);
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

/* Count contiguous finite elements. */
static void count_elements(const struct counting *counting, const char *x, size_t n)
{
    const enum pq_type type = counting->input.type;
    uint32_t *counters = counting->counts->counters;
    uint16_t keys[PQ_GATHERED_ELEMENTS];
    size_t i;
    if (type == PQ_F32) {
        i = count_f32(counters, x, n);
    } else if (type == PQ_F64) {
        pq_keys_of_f64(keys, x, n);
        i = count_keys(counters, 2 * TABLE_COUNTERS, (const char *)keys, n);
    } else {
        i = count_keys(counters, type == PQ_F16 ? 0 : 2 * TABLE_COUNTERS, x, n);
    }
    for (; i < n; i++) {
        counters[pq_key_at(type, x + i * counting->input.size)]++;
    }
}

/* ---- pages ---- */

static void mark_page(struct pq_counts *counts, size_t page)
{
    counts->pages[page / 64] |= (uint64_t)1 << page % 64;
}

/* Return the number of counted elements in a page. The sum fits uint32, because it is at
 * most `pending`. */
static uint32_t sum_page(const uint32_t *counters, size_t page)
{
    uint32_t sum = 0;
    for (size_t table = 0; table < TABLES; table++) {
        const uint32_t *from = counters + table * TABLE_COUNTERS + page * PQ_PAGE;
        for (size_t k = 0; k < PQ_PAGE; k++) {
            sum += from[k];
        }
    }
    return sum;
}

/* Mark `page` if it is not empty, and also the page of the numbers with inverted sign.
 * Return the number of elements in both pages. */
static uint64_t mark_nonempty_pages(struct pq_counts *counts, size_t page)
{
    uint64_t both = 0;
    for (size_t sign = 0; sign < PQ_PAGES; sign += PQ_KEY_SIGN / PQ_PAGE) {
        const uint64_t n = sum_page(counts->counters, sign + page);
        if (n != 0) {
            mark_page(counts, sign + page);
        }
        both += n;
    }
    return both;
}

/* Mark the pages that contain elements: page 0, then pages from the largest magnitude down,
 * until all elements are found. Usually few pages contain all elements. */
static void find_pages(struct pq_counts *counts, size_t largest)
{
    uint64_t left = counts->pending - mark_nonempty_pages(counts, 0);
    for (size_t page = largest; left != 0 && page > 0; page--) {
        left -= mark_nonempty_pages(counts, page);
    }
}

/* ---- tiles ---- */

/* Copy the finite elements to `to`, and count the elements that are not finite. Return the
 * number of copied elements. */
static size_t copy_finite(const struct counting *counting, char *to, const char *x,
                          size_t n)
{
    struct pq_counts *counts = counting->counts;
    const size_t size = counting->input.size;
    size_t copied = 0;
    for (size_t i = 0; i < n; i++, x += size) {
        const double v = pq_counted_value(&counting->input, x);
        if (pq_is_finite_or_count(v, &counts->nan, &counts->inf)) {
            memcpy(to + copied++ * size, x, size);
        }
    }
    return copied;
}

/* Find the extrema of a tile of elements. Return true if all elements are finite. */
static bool find_extrema(const struct counting *counting, const char *x, size_t n,
                         struct pq_extrema *found)
{
    found->bits = 0;
    pq_clear_extrema(&found->lo, &found->hi, counting->input.is_f64, 1);
    counting->input.kernels->minmax[counting->input.row](x, n, &found->lo, &found->hi,
                                                         &found->bits);
    return pq_found_finite(found);
}

/* Count `n` finite elements. */
static void count_finite(struct counting *counting, const char *x, size_t n,
                         const struct pq_extrema *found)
{
    struct pq_counts *counts = counting->counts;
    double lowest = HUGE_VAL, highest = -HUGE_VAL;
    if (n == 0) {
        return;
    }
    counts->count += n;
    pq_merge_extrema(&counting->input, found, 0, &counts->lowest, &counts->highest);
    if (counts->counters == NULL) {
        return;
    }
    counts->pending += (uint32_t)n;
    pq_merge_extrema(&counting->input, found, 0, &lowest, &highest);
    if (lowest == highest) { /* all n elements have one key */
        counts->counters[pq_key_at(counting->input.type, x)] += (uint32_t)n;
    } else {
        count_elements(counting, x, n);
    }
    /* A mark is a byte, not a bit, because the CPU would have to load a byte to set one
     * bit. */
    for (size_t i = 0; counting->marks_each && i < n; i++, x += counting->input.size) {
        counting->marked[pq_key_at(counting->input.type, x) / PQ_PAGE] = 1;
    }
}

/* Count at most PQ_GATHERED_ELEMENTS contiguous elements. */
static void count_tile(struct counting *counting, const char *x, size_t n)
{
    struct pq_extrema found;
    char finite[PQ_GATHERED_ELEMENTS * sizeof(double)];
    if (!find_extrema(counting, x, n, &found)) {
        if (!counting->counts->ignore_nonfinite) {
            counting->failed = true;
            return;
        }
        n = copy_finite(counting, finite, x, n);
        x = finite;
        find_extrema(counting, x, n, &found);
    }
    count_finite(counting, x, n, &found);
}

/* Count contiguous elements. Without counters, the call finds only counts and extrema, and
 * needs tiles only if an element is not finite. */
static void count_part(struct counting *counting, const char *x, size_t n)
{
    struct pq_counts *counts = counting->counts;
    struct pq_extrema found;
    if (counts->counters == NULL && find_extrema(counting, x, n, &found)) {
        counts->count += n;
        pq_merge_extrema(&counting->input, &found, 0, &counts->lowest, &counts->highest);
        return;
    }
    for (size_t i = 0; i < n && !counting->failed; i += PQ_GATHERED_ELEMENTS) {
        count_tile(counting, x + i * counting->input.size,
                   n - i < PQ_GATHERED_ELEMENTS ? n - i : PQ_GATHERED_ELEMENTS);
    }
}

/* Count all elements of the plan. Count long contiguous rows in parts, and copy the
 * elements of all other rows to tiles. */
static void count_elements_of(struct counting *counting, const struct pq_array *in)
{
    const struct pq_plan *const plan = &counting->input.plan;
    ptrdiff_t extent[PQ_MAX_NDIM], stride[PQ_MAX_NDIM], left = 1, n;
    char buffer[PQ_GATHERED_ELEMENTS * sizeof(double)];
    const char *x = plan->in;
    struct pq_array rows = *in;
    struct pq_sweep sweep;
    for (int d = plan->ndim - 1, k = 0; d >= 0; d--, k++) {
        const struct pq_dim *const dim = &plan->dim[d];
        extent[k] = dim->end - dim->begin;
        stride[k] = dim->in;
        x += dim->begin * dim->in;
        left *= extent[k];
    }
    rows.data = (void *)(uintptr_t)x;
    rows.strides = stride;
    pq_sweep_init(&sweep, counting->input.kernels, &rows, plan->ndim, extent);
    for (; left > 0 && !counting->failed; left -= n) {
        const ptrdiff_t row = sweep.extent[0] - sweep.at;
        n = row < PART_ELEMENTS ? row : PART_ELEMENTS;
        if (row < ROW_ELEMENTS || pq_sweep_direct(&sweep, (size_t)n) == NULL) {
            n = left < PQ_GATHERED_ELEMENTS ? left : PQ_GATHERED_ELEMENTS;
        }
        x = pq_sweep_load(&sweep, in->type, 1, 0, (size_t)n, buffer, NULL);
        count_part(counting, x, (size_t)n);
    }
}

/* ---- calls ---- */

/* Split each dimension with groups into two dimensions: the elements of a group, and the
 * groups. Each group is a channel. */
static void split_blocks(struct pq_plan *plan)
{
    for (int d = 0; d < plan->ndim; d++) {
        struct pq_dim *dim = &plan->dim[d];
        if (pq_is_uniform(dim) || dim->group_size == 1) {
            continue;
        }
        memmove(dim + 1, dim, (size_t)(plan->ndim++ - d) * sizeof *dim);
        dim[1].end /= dim->group_size;
        dim[1].in *= dim->group_size;
        dim[1].group_size = 1;
        dim->end = dim->group_size;
        dim->scale = 0;
        dim->group_size = 1;
    }
}

enum pq_status pq_begin_counting(struct pq_counting *counting,
                                 const struct pq_kernels *kernels,
                                 const struct pq_args *args,
                                 const struct pq_array *channels, int part, int parts)
{
    PQ_TRY(pq_check_reals(args, &args->in));
    PQ_TRY(pq_check_part(part, parts));
    PQ_TRY(pq_check_options(args, pq_options_of(args), PQ_ACCEPTS_NONE));
    struct pq_args plain = *args;
    plain.block = NULL;
    plain.zero = plain.out = (struct pq_array){.data = NULL};
    plain.scale = channels != NULL ? *channels : plain.zero;
    counting->kernels = kernels;
    counting->type = args->in.type;
    counting->size = pq_type_size(args->in.type);
    counting->swapped = args->in.swapped != 0;
    counting->is_f64 = args->in.type == PQ_F64;
    counting->row = pq_extrema_row(args->in.type);
    PQ_TRY(pq_plan_init(&counting->plan, &plain, 0));
    split_blocks(&counting->plan);
    pq_plan_part(&counting->plan, part, parts, 1);
    return PQ_OK;
}

/* Return the number of elements of a plan, at most UINT32_MAX. */
static size_t count_plan(const struct pq_plan *plan)
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

/* Return the page that contains the key of the magnitude of a value. */
static size_t page_of(enum pq_type type, double v)
{
    const uint64_t bits = pq_bits_f64(v) & INT64_MAX;
    const uint32_t key =
        type == PQ_F16 ? pq_f16_from_f32((float)pq_f64_bits(bits)) : pq_key_of_f64(bits);
    return key / PQ_PAGE;
}

/* Add the count of the key of -0 to the count of the key of 0. */
static void merge_negative_zero(struct pq_counts *counts)
{
    for (size_t table = 0; table < TABLES; table++) {
        uint32_t *from = counts->counters + table * TABLE_COUNTERS + PQ_KEY_SIGN;
        if (*from != 0) {
            counts->counters[table * TABLE_COUNTERS] += *from;
            *from = 0;
            mark_page(counts, 0);
        }
    }
    if (sum_page(counts->counters, PQ_KEY_SIGN / PQ_PAGE) == 0) {
        counts->pages[PQ_KEY_SIGN / PQ_PAGE / 64] &= ~(uint64_t)1;
    }
}

/* Count all elements of the plan, and mark the pages of counters that are not 0. */
static void count_planned(struct counting *counting, const struct pq_array *in)
{
    struct pq_counts *counts = counting->counts;
    count_elements_of(counting, in);
    if (counts->counters == NULL) {
        return;
    }
    for (size_t page = 0; page < PQ_PAGES; page++) {
        counts->pages[page / 64] |= (uint64_t)counting->marked[page] << page % 64;
    }
    merge_negative_zero(counts);
    if (!counting->marks_each && counts->pending != 0) {
        const size_t lowest = page_of(counting->input.type, counts->lowest);
        const size_t highest = page_of(counting->input.type, counts->highest);
        find_pages(counts, lowest > highest ? lowest : highest);
    }
}

enum pq_status pq_histogram(const struct pq_kernels *kernels, const struct pq_args *args,
                            struct pq_counts *counts, int part, int parts)
{
    struct pq_args room;
    struct pq_counts copy;
    struct counting counting = {.counts = counts};
    PQ_TRY(pq_adapt_args_version(&args, &room));
    PQ_REQUIRE(kernels != NULL && counts != NULL, PQ_ERR_NULL);
    PQ_TRY(pq_copy_struct(&copy, counts, sizeof copy, sizeof copy));
    PQ_TRY(pq_begin_counting(&counting.input, kernels, args, NULL, part, parts));
    if (counting.input.plan.empty) {
        return PQ_OK;
    }
    const size_t n = count_plan(&counting.input.plan);
    PQ_REQUIRE(counts->counters == NULL || n <= UINT32_MAX - 1 - counts->pending,
               PQ_ERR_SHAPE);
    counting.marks_each = n < MARK_EACH_ELEMENTS;
    const pq_fpenv found = pq_fpenv_enter();
    count_planned(&counting, &args->in);
    pq_fpenv_leave(found);
    return counting.failed ? PQ_ERR_NONFINITE : PQ_OK;
}

/* Return the first page that is not empty, or -1. */
static int first_page(const struct pq_counts *counts)
{
    for (int word = 0; word < PQ_PAGES / 64; word++) {
        const uint64_t bits = counts->pages[word], lowest = bits & (0 - bits);
        if (bits != 0) { /* lowest = 2^bit, so the exponent is the bit number */
            return word * 64 + (int)(pq_bits_f64((double)lowest) >> 52) - 1023;
        }
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
        to[k] = from[k] + from[TABLE_COUNTERS + k] + from[2 * TABLE_COUNTERS + k] +
                from[3 * TABLE_COUNTERS + k];
    }
    for (int table = 0; table < TABLES; table++) {
        memset(from + (ptrdiff_t)table * TABLE_COUNTERS, 0, PQ_PAGE * sizeof *from);
    }
    return page;
}
