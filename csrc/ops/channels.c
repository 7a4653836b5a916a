/* SPDX-License-Identifier: Apache-2.0 */
/* Count histograms of many channels. A tile has one channel in each column. Adjacent
 * elements of a row therefore have different counters, so an addition does not wait for the
 * store of the previous addition. Tiles follow the order of memory, not of channels. pq.h
 * defines keys and pages of keys. */
#include "ops/channels.h"

#include "args.h"
#include "engine/tile.h"
#include "math/fpenv.h"
#include "ops/counting.h"
#include "types.h"

enum {
    KEY_ELEMENTS = PQ_SIZE(2048, 512), /* maximum number of elements of a tile */
    ADJACENT_COLUMNS = 64, /* maximum number of columns of a tile, if adjacent in memory */
    SEPARATE_COLUMNS = 16, /* maximum number of columns, if not adjacent in memory */
    COLUMNS = PQ_COUNT_COLUMNS,   /* maximum number of columns, for few rows */
    NONFINITE_PAGE = PQ_PAGES - 1 /* the keys of NaN and infinities */
};

/* The state of a call. dim[0] of the plan counts columns, and dim[1] counts rows. */
struct counting {
    struct pq_counting input;
    struct pq_channel_counts *to;
    bool stopped;
    enum pq_status status;
    ptrdiff_t most_columns;
    size_t tile;         /* the number of the next tile */
    size_t at[PQ_PAGES]; /* see set_page_offset(); ABSENT if a page has no row */
};

#define ABSENT (SIZE_MAX / 2 + 1)

/* A tile of `n` columns. Column c belongs to channel `first` + c * `step`. A loop counts
 * `width` elements in each iteration: one row, or several rows if `n` is small. */
struct columns {
    const char *x; /* the elements of the tile, contiguous, row by row */
    size_t rows, n, width;
    /* The next address to prefetch, and the number of bytes by which it increases for
     * `width` keys. The address may be outside of the array. If it is 0, the loop does not
     * prefetch. */
    uintptr_t ahead, ahead_step;
    size_t first, step;
    bool finite;
    size_t base[COLUMNS];        /* for each column, see set_column_offsets() */
    uint16_t keys[KEY_ELEMENTS]; /* keys with `mantissa_bits` mantissa bits */
};

static size_t channel_of(const struct columns *columns, size_t c)
{
    return columns->first + c * columns->step;
}

/* ---- extrema ---- */

/* Find the extrema of a tile, and set `finite` if all elements are finite. If `finite` is
 * set, merge the extrema into the extrema of the channels. */
static void merge_extrema(struct counting *counting, struct columns *columns)
{
    const struct pq_counting *input = &counting->input;
    const size_t width = columns->width, joined = width / columns->n;
    const size_t many = columns->rows / joined;
    const ptrdiff_t stride = (ptrdiff_t)(width * input->size);
    pq_minmax_columns_fn *minmax = input->kernels->minmax_columns[input->row];
    struct pq_extrema found;
    found.bits = 0;
    pq_clear_extrema(&found.lo, &found.hi, input->is_f64, width);
    minmax(columns->x, stride, many, width, &found.lo, &found.hi, &found.bits);
    minmax(columns->x + (ptrdiff_t)many * stride, stride, 1,
           columns->rows % joined * columns->n, &found.lo, &found.hi, &found.bits);
    columns->finite = pq_found_finite(&found);
    for (size_t i = 0; columns->finite && i < width; i++) {
        const size_t channel = channel_of(columns, i % columns->n);
        pq_merge_extrema(input, &found, i, counting->to->lowest + channel,
                         counting->to->highest + channel);
    }
}

/* ---- keys ---- */

/* Write the keys of a tile. The key of -0 becomes the key of 0. */
static void make_keys(const struct counting *counting, struct columns *columns)
{
    const size_t n = columns->rows * columns->n;
    const int shift = 7 - counting->to->mantissa_bits;
    uint16_t *PQ_RESTRICT keys = columns->keys;
    if (counting->input.type == PQ_F64) {
        pq_keys_of_f64(keys, columns->x, n);
    } else if (counting->input.type == PQ_F32) {
        for (size_t i = 0; i < n; i++) {
            uint32_t bits;
            memcpy(&bits, columns->x + i * sizeof bits, sizeof bits);
            keys[i] = (uint16_t)(bits >> 16);
        }
    } else {
        memcpy(keys, columns->x, n * sizeof *keys);
    }
    for (size_t i = 0; i < n; i++) {
        keys[i] = (uint16_t)((keys[i] == PQ_KEY_SIGN ? 0 : keys[i]) >> shift);
    }
}

/* Merge each finite value of a tile into the extrema of the value's channel. Replace the
 * keys of NaN and infinities by a key of NONFINITE_PAGE. */
static void merge_finite(struct counting *counting, struct columns *columns)
{
    uint64_t unused = 0;
    for (size_t i = 0; i < columns->rows * columns->n; i++) {
        const double v =
            pq_counted_value(&counting->input, columns->x + i * counting->input.size);
        double *lo = counting->to->lowest + channel_of(columns, i % columns->n);
        double *hi = counting->to->highest + channel_of(columns, i % columns->n);
        if (pq_is_finite_or_count(v, &unused, &unused)) {
            *lo = v < *lo ? v + 0.0 : *lo;
            *hi = v > *hi ? v + 0.0 : *hi;
        } else {
            columns->keys[i] = (uint16_t)(NONFINITE_PAGE << counting->to->mantissa_bits);
        }
    }
}

/* ---- rows of the table ---- */

/* Store at[page], a part of the index of each counter. A key (page << mantissa_bits) + low
 * in column c has the counter with the index
 *     at[page] + base[c] + key = row * stride + (cell << mantissa_bits) + low,
 * because base[c] is (cell - PQ_PAGES) << mantissa_bits. `cell` numbers the channels of all
 * sections of a row. at[page] is not negative, because it contains PQ_PAGES. */
static void set_page_offset(struct counting *counting, int row)
{
    const size_t page = counting->to->pages[row];
    counting->at[page] = (size_t)row * counting->to->stride +
                         ((PQ_PAGES - page) << counting->to->mantissa_bits);
}

/* Add a row for a page. Return false if the table is full. */
PQ_RARE bool add_page(struct counting *counting, size_t page)
{
    struct pq_channel_counts *to = counting->to;
    if (to->rows == to->room) {
        return false;
    }
    to->pages[to->rows] = (uint16_t)page;
    set_page_offset(counting, to->rows++);
    return true;
}

/* ---- counting ---- */

/* Increment the counter of a key in column `c`. `at` is the entry counting->at[page] for
 * the page of the key. */
PQ_INLINE void increment(const struct counting *counting, const struct columns *columns,
                         size_t c, size_t key, size_t at, bool is_32_bit)
{
    const size_t place = at + key + columns->base[c];
    if (is_32_bit) {
        ((uint32_t *)counting->to->table)[place]++;
    } else {
        ((uint16_t *)counting->to->table)[place]++;
    }
}

/* Count a key, unless the value is not finite. Add a row to the table if the page of the
 * key has no row. Return false if no row is left. */
static bool count_key(struct counting *counting, const struct columns *columns, size_t c,
                      size_t key)
{
    const size_t page = key >> counting->to->mantissa_bits;
    if (page == NONFINITE_PAGE) {
        return true;
    }
    if (counting->at[page] == ABSENT && !add_page(counting, page)) {
        return false;
    }
    increment(counting, columns, c, key, counting->at[page], counting->to->is_32_bit);
    return true;
}

/* Count the keys of a tile, except the first `counted` keys. Return false if the table is
 * full. */
PQ_INLINE bool count_keys(struct counting *counting, const struct columns *columns,
                          bool is_32_bit)
{
    enum { UNROLLED = 4, LINE = 64 };
    struct pq_channel_counts *to = counting->to;
    uintptr_t ahead = columns->ahead;
    const size_t n = columns->rows * columns->n, width = columns->width;
    const int bits = to->mantissa_bits;
    const size_t *at = counting->at;
    size_t c = to->counted % width;
    for (size_t i = to->counted - c; i < n; i += width, c = 0) {
        const size_t many = n - i < width ? n - i : width;
        const uint16_t *keys = columns->keys + i;
        for (size_t k = 0; ahead != 0 && k < width * counting->input.size; k += LINE) {
            PQ_WILL_READ((const void *)(ahead + k));
        }
        ahead += ahead != 0 ? columns->ahead_step : 0;
        while (c < many) {
            const size_t next = c + UNROLLED;
            if (next <= many) {
                const size_t k0 = keys[c], k1 = keys[c + 1];
                const size_t k2 = keys[c + 2], k3 = keys[c + 3];
                const size_t a0 = at[k0 >> bits], a1 = at[k1 >> bits];
                const size_t a2 = at[k2 >> bits], a3 = at[k3 >> bits];
                if (((a0 | a1 | a2 | a3) & ABSENT) == 0) {
                    increment(counting, columns, c, k0, a0, is_32_bit);
                    increment(counting, columns, c + 1, k1, a1, is_32_bit);
                    increment(counting, columns, c + 2, k2, a2, is_32_bit);
                    increment(counting, columns, c + 3, k3, a3, is_32_bit);
                    c = next;
                    continue;
                }
            }
            for (; c < next && c < many; c++) {
                if (!count_key(counting, columns, c, keys[c])) {
                    to->counted = i + c;
                    return false;
                }
            }
        }
    }
    to->counted = 0;
    return true;
}

/* Count the finite values, NaN and infinities of a tile, without keys. */
static void count_numbers(struct counting *counting, const struct columns *columns)
{
    struct pq_channel_counts *to = counting->to;
    for (size_t c = 0; c < columns->n; c++) {
        to->count[channel_of(columns, c)] += columns->rows;
    }
    for (size_t i = 0; !columns->finite && i < columns->rows * columns->n; i++) {
        const size_t channel = channel_of(columns, i % columns->n);
        const double v =
            pq_counted_value(&counting->input, columns->x + i * counting->input.size);
        to->count[channel] -=
            !pq_is_finite_or_count(v, &to->nan[channel], &to->inf[channel]);
    }
}

/* Count a tile. Set `stopped` if the table is full, or if a nonfinite value is an error. */
static void count_tile(struct counting *counting, struct columns *columns)
{
    merge_extrema(counting, columns);
    if (!columns->finite && !counting->to->ignore_nonfinite) {
        counting->status = PQ_ERR_NONFINITE;
        counting->stopped = true;
        return;
    }
    if (counting->to->table != NULL) {
        make_keys(counting, columns);
    }
    if (!columns->finite) {
        merge_finite(counting, columns);
    }
    if (counting->to->table == NULL ||
        (counting->to->is_32_bit ? count_keys(counting, columns, true)
                                 : count_keys(counting, columns, false))) {
        count_numbers(counting, columns);
        counting->to->done++;
    } else {
        counting->to->full = counting->stopped = true;
    }
}

/* ---- tiles ---- */

/* Set the width, and the offset of each column in a row of the table. If an iteration
 * counts several rows of the tile, successive rows use the `lanes` sections of the table in
 * turn. */
static void set_column_offsets(const struct counting *counting, struct columns *columns)
{
    const struct pq_channel_counts *to = counting->to;
    const size_t joined = columns->n < ADJACENT_COLUMNS ? ADJACENT_COLUMNS / columns->n : 1;
    columns->width = (joined < columns->rows ? joined : columns->rows) * columns->n;
    for (size_t c = 0; c < columns->width; c++) {
        const size_t lane = c / columns->n % to->lanes;
        const size_t cell = lane * to->channels + channel_of(columns, c % columns->n);
        columns->base[c] = (cell - PQ_PAGES) << to->mantissa_bits;
    }
}

/* Count the elements of the two innermost dimensions of the plan, in tiles. */
static void count_plane(void *p, const struct pq_position *start)
{
    struct counting *counting = p;
    const struct pq_dim *dim = &counting->input.plan.dim[0],
                        *outer = &counting->input.plan.dim[1];
    const ptrdiff_t n = dim->end - dim->begin, rows = outer->end - outer->begin;
    const ptrdiff_t step = (ptrdiff_t)sizeof(uint64_t);
    const ptrdiff_t least = rows < KEY_ELEMENTS / COLUMNS ? KEY_ELEMENTS / COLUMNS : rows;
    const ptrdiff_t some = least < KEY_ELEMENTS / counting->most_columns
                               ? KEY_ELEMENTS / least
                               : counting->most_columns;
    const ptrdiff_t width = n < some ? n : some;
    const ptrdiff_t height = outer->scale != 0 ? 1 : KEY_ELEMENTS / width;
    char buffer[KEY_ELEMENTS * sizeof(double)];
    struct columns columns;
    const struct pq_position at =
        pq_position_at(pq_position_at(*start, dim, dim->begin), outer, outer->begin);
    for (ptrdiff_t c = 0; c < n; c += width) {
        for (ptrdiff_t r = 0; r < rows && !counting->stopped; r += height) {
            if (counting->tile++ < counting->to->done) {
                continue;
            }
            const struct pq_position first =
                pq_position_at(pq_position_at(at, dim, c), outer, r);
            const struct pq_tile tile = {rows - r < height ? rows - r : height,
                                         n - c < width ? n - c : width,
                                         outer->in,
                                         dim->in,
                                         counting->input.size,
                                         counting->input.swapped};
            columns.x = first.in;
            const bool direct = pq_tile_direct(&tile);
            if (!direct) {
                pq_gather(counting->input.kernels, buffer, first.in, &tile);
                columns.x = buffer;
            }
            columns.rows = (size_t)tile.rows;
            columns.n = (size_t)tile.columns;
            columns.first =
                (size_t)((first.params.scale - (const char *)counting->to->count) / step);
            columns.step = (size_t)(dim->scale / step); /* modulo 2^64 if negative */
            set_column_offsets(counting, &columns);
            columns.ahead = 0;
            if (direct ||
                (pq_tile_has_contiguous_rows(&tile) && columns.width == columns.n)) {
                const uintptr_t row = (uintptr_t)tile.row_stride; /* wraps if negative */
                columns.ahead_step = direct ? columns.width * counting->input.size : row;
                columns.ahead =
                    (uintptr_t)first.in +
                    (direct ? KEY_ELEMENTS * counting->input.size : columns.rows * row);
            }
            count_tile(counting, &columns);
        }
    }
}

/* ---- the plan ---- */

/* Return the innermost dimension d >= `first` with more than one index that selects
 * channels, or that does not if `of_channels` is false. If no dimension matches, return
 * `first`. */
static int find_dim(const struct pq_plan *plan, int first, bool of_channels)
{
    for (int d = first; d < plan->ndim; d++) {
        const struct pq_dim *dim = &plan->dim[d];
        if (dim->end > 1 && (dim->scale != 0) == of_channels) {
            return d;
        }
    }
    return first;
}

/* Move the dimension with index `from` inward, to index `to`. */
static void move_dim(struct pq_plan *plan, int from, int to)
{
    const struct pq_dim dim = plan->dim[from];
    memmove(plan->dim + to + 1, plan->dim + to, (size_t)(from - to) * sizeof dim);
    plan->dim[to] = dim;
}

/* Move the innermost dimension of channels to dim[0], and the innermost other dimension to
 * dim[1]. Return the largest number of columns of a tile. This number is 1 if adjacent
 * elements belong to one channel, because the elements then use different lanes of the
 * table. */
static ptrdiff_t choose_dims(struct pq_plan *plan, size_t lanes)
{
    const bool beside = plan->dim[0].scale != 0;
    move_dim(plan, find_dim(plan, 1, !beside), 1);
    if (beside) {
        return ADJACENT_COLUMNS;
    }
    move_dim(plan, 1, 0);
    return lanes > 1 ? 1 : SEPARATE_COLUMNS;
}

/* ---- calls ---- */

enum pq_status pq_count_channels(const struct pq_kernels *kernels,
                                 const struct pq_args *args,
                                 struct pq_channel_counts *channels, int part, int parts)
{
    struct counting counting = {.to = channels, .status = PQ_OK};
    PQ_REQUIRE(kernels != NULL && channels != NULL, PQ_ERR_NULL);
    struct pq_array selecting = args->lowest;
    selecting.data = channels->count;
    const enum pq_status status =
        pq_begin_counting(&counting.input, kernels, args, &selecting, part, parts);
    channels->full = status != PQ_OK && channels->full;
    if (status != PQ_OK || counting.input.plan.empty) {
        return status;
    }
    for (int page = 0; page < PQ_PAGES; page++) {
        counting.at[page] = ABSENT;
    }
    for (int row = 0; row < channels->rows; row++) {
        set_page_offset(&counting, row);
    }
    counting.most_columns = choose_dims(&counting.input.plan, channels->lanes);
    const pq_fpenv found = pq_fpenv_enter();
    pq_for_each_row(&counting.input.plan, 2, count_plane, &counting);
    pq_fpenv_leave(found);
    return counting.status;
}
