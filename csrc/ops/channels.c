/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channels: histograms along axes. Tiles are made rows of columns, a channel each, so that
 * elements beside each other have counters of their own, none of which has to wait for the
 * last store to it, and so that memory is read once and in its order.
 */
#include "ops/channels.h"

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
    TILE = PQ_CHANNEL_TILE,
    BESIDE = 64,            /* columns that are beside each other in memory */
    STREAMS = 16,           /* of those that are not, so many are read at a time */
    COLUMNS = 256,          /* at most, of few rows */
    NOWHERE = PQ_PAGES - 1, /* the page of what is not finite, of any type */
    NOT_FINITE = 0x7f800000
};

union extremes {
    float single[COLUMNS];
    double wide[COLUMNS];
};

/* A call; the plan has columns as dim[0] and rows as dim[1]. */
struct counting {
    const struct pq_kernels *kernels;
    struct pq_channel_counts *to;
    enum pq_type type;
    size_t size; /* of an element */
    bool swapped;
    bool wide;
    bool stopped;
    enum pq_status status;
    pq_minmax_vec_fn *columns;
    ptrdiff_t most_columns;
    size_t tile; /* the number of the next */
    struct pq_plan plan;
    size_t at[PQ_PAGES]; /* of each page what a key is to be added to; ABSENT: no row */
};

#define ABSENT (SIZE_MAX / 2 + 1)

/*
 * A tile: n columns, whose channels are `step` apart, and its keys. Narrow ones are taken
 * as `width`, some rows beside each other.
 */
struct columns {
    const char *x; /* contiguous */
    size_t rows, n, width;
    /* Addresses, perhaps beyond all arrays, that caches are asked for as `width` keys are
     * counted; 0: not. */
    uintptr_t ahead, ahead_step;
    size_t first, step;
    bool finite;
    size_t base[COLUMNS]; /* the counters of each column in a row of the table */
    uint16_t keys[TILE];  /* but for the bits that do not count */
};

static size_t channel_of(const struct columns *columns, size_t c)
{
    return columns->first + c * columns->step;
}

/* ---- extrema ---- */

static void set_none(const struct counting *counting, union extremes *lo,
                     union extremes *hi, size_t n)
{
    for (size_t c = 0; c < n; c++) {
        if (counting->wide) {
            lo->wide[c] = HUGE_VAL;
            hi->wide[c] = -HUGE_VAL;
        } else {
            lo->single[c] = INFINITY;
            hi->single[c] = -INFINITY;
        }
    }
}

static void merge(struct counting *counting, size_t channel, double lowest, double highest)
{
    double *lo = counting->to->lowest + channel, *hi = counting->to->highest + channel;
    /* Not -0, which some kernels find before 0. */
    *lo = lowest < *lo ? lowest + 0.0 : *lo;
    *hi = highest > *hi ? highest + 0.0 : *hi;
}

/* Returns whether all are finite. */
static bool find_extrema(const struct counting *counting, const struct columns *columns,
                         union extremes *lo, union extremes *hi)
{
    const size_t width = columns->width, together = width / columns->n;
    const size_t many = columns->rows / together;
    const ptrdiff_t stride = (ptrdiff_t)(width * counting->size);
    uint32_t bits = 0;
    set_none(counting, lo, hi, width);
    counting->columns(columns->x, stride, many, width, lo, hi, &bits);
    counting->columns(columns->x + (ptrdiff_t)many * stride, stride, 1,
                      columns->rows % together * columns->n, lo, hi, &bits);
    return bits < NOT_FINITE;
}

static void take_extrema(struct counting *counting, struct columns *columns)
{
    union extremes lo, hi;
    columns->finite = find_extrema(counting, columns, &lo, &hi);
    if (!columns->finite) {
        return;
    }
    for (size_t k = 0; k < columns->width; k += columns->n) {
        for (size_t c = 0; c < columns->n; c++) {
            const size_t i = k + c;
            merge(counting, channel_of(columns, c),
                  counting->wide ? lo.wide[i] : (double)lo.single[i],
                  counting->wide ? hi.wide[i] : (double)hi.single[i]);
        }
    }
}

/* ---- keys ---- */

static void make_keys(const struct counting *counting, struct columns *columns)
{
    const size_t n = columns->rows * columns->n;
    const int shift = 7 - counting->to->mantissa_bits;
    uint16_t *PQ_RESTRICT keys = columns->keys;
    if (counting->type == PQ_F64) {
        pq_keys_of_f64(keys, columns->x, n);
    } else if (counting->type == PQ_F32) {
        for (size_t i = 0; i < n; i++) {
            uint32_t bits;
            memcpy(&bits, columns->x + i * sizeof bits, sizeof bits);
            keys[i] = (uint16_t)(bits >> 16);
        }
    } else {
        memcpy(keys, columns->x, n * sizeof *keys);
    }
    for (size_t i = 0; i < n; i++) { /* what has the key of -0 is counted with 0 */
        keys[i] = (uint16_t)((keys[i] == PQ_KEY_SIGN ? 0 : keys[i]) >> shift);
    }
}

static double value_at(const struct counting *counting, const struct columns *columns,
                       size_t i)
{
    const struct pq_params at = {columns->x + i * counting->size, 0, counting->type, 0};
    double v;
    pq_load_scales_f64(&v, &at, 1, 0);
    return v;
}

/* The key of what is not finite. */
static size_t none_of(const struct counting *counting)
{
    return (size_t)NOWHERE << counting->to->mantissa_bits;
}

static bool is_finite(double v)
{
    return (pq_bits_f64(v) >> 52 & 0x7ff) != 0x7ff;
}

/* Extrema and keys where some are not finite. */
static void look_at_each(struct counting *counting, struct columns *columns)
{
    for (size_t i = 0; i < columns->rows * columns->n; i++) {
        const double v = value_at(counting, columns, i);
        if (is_finite(v)) {
            merge(counting, channel_of(columns, i % columns->n), v, v);
        } else {
            columns->keys[i] = (uint16_t)none_of(counting);
        }
    }
}

/* ---- rows of the table ---- */

/* Pages from the last one on, so that no sum is below 0; columns have that less. */
static void place_page(struct counting *counting, int row)
{
    const size_t page = counting->to->pages[row];
    counting->at[page] = (size_t)row * counting->to->stride +
                         ((PQ_PAGES - page) << counting->to->mantissa_bits);
}

/* A row for what has none; false where there is no room. */
PQ_RARE bool add_page(struct counting *counting, size_t page)
{
    struct pq_channel_counts *to = counting->to;
    if (to->rows == to->room) {
        to->wanted = to->rows + 1;
        return false;
    }
    to->pages[to->rows] = (uint16_t)page;
    place_page(counting, to->rows++);
    return true;
}

/* ---- counting ---- */

PQ_RARE void note_wrap(struct counting *counting, size_t key, size_t channel)
{
    struct pq_channel_counts *to = counting->to;
    const int bits = to->mantissa_bits;
    const uint64_t place = (uint64_t)(key >> bits) * to->channels + channel;
    to->wraps[to->wrapped++] = (place << bits) + (key & (((size_t)1 << bits) - 1));
}

PQ_INLINE void add_one(struct counting *counting, const struct columns *columns, size_t c,
                       size_t key, size_t at)
{
    if (++counting->to->table[at + key + columns->base[c]] == 0) {
        note_wrap(counting, key, channel_of(columns, c % columns->n));
    }
}

/* A key that is that of no number, or whose page may be new; false where there is no room.
 */
static bool add_any(struct counting *counting, const struct columns *columns, size_t c,
                    size_t key)
{
    const size_t page = key >> counting->to->mantissa_bits;
    if (page == NOWHERE) {
        return true;
    }
    if (counting->at[page] == ABSENT && !add_page(counting, page)) {
        return false;
    }
    add_one(counting, columns, c, key, counting->at[page]);
    return true;
}

/* Returns how many are counted: less than all where there is no room for a page. */
static size_t count_keys(struct counting *counting, const struct columns *columns)
{
    enum { UNROLLED = 4, LINE = 64 };
    uintptr_t ahead = columns->ahead;
    const size_t n = columns->rows * columns->n, width = columns->width;
    const int bits = counting->to->mantissa_bits;
    const size_t *at = counting->at;
    for (size_t i = 0; i < n; i += width) {
        const size_t many = n - i < width ? n - i : width;
        const uint16_t *keys = columns->keys + i;
        size_t c = 0;
        for (size_t k = 0; ahead != 0 && k < width * counting->size; k += LINE) {
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
                    add_one(counting, columns, c, k0, a0);
                    add_one(counting, columns, c + 1, k1, a1);
                    add_one(counting, columns, c + 2, k2, a2);
                    add_one(counting, columns, c + 3, k3, a3);
                    c = next;
                    continue;
                }
            }
            for (; c < next && c < many; c++) {
                if (!add_any(counting, columns, c, keys[c])) {
                    return i + c;
                }
            }
        }
    }
    return n;
}

/* Forget the first `n` keys of a tile. */
static void take_back(struct counting *counting, const struct columns *columns, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const size_t key = columns->keys[i];
        if (key != none_of(counting)) {
            const size_t at = counting->at[key >> counting->to->mantissa_bits];
            counting->to->table[at + key + columns->base[i % columns->width]]--;
        }
    }
}

/* All of a tile, or nothing. */
static bool count_or_not(struct counting *counting, const struct columns *columns)
{
    struct pq_channel_counts *to = counting->to;
    const size_t wrapped = to->wrapped;
    if (to->table == NULL) {
        return true;
    }
    if (to->wraps_room - wrapped < TILE) {
        return false;
    }
    const size_t counted = count_keys(counting, columns);
    if (counted < columns->rows * columns->n) {
        take_back(counting, columns, counted);
        to->wrapped = wrapped;
        return false;
    }
    return true;
}

static void count_numbers(struct counting *counting, const struct columns *columns)
{
    struct pq_channel_counts *to = counting->to;
    for (size_t c = 0; c < columns->n; c++) {
        to->count[channel_of(columns, c)] += columns->rows;
    }
    for (size_t i = 0; !columns->finite && i < columns->rows * columns->n; i++) {
        const size_t channel = channel_of(columns, i % columns->n);
        const double v = value_at(counting, columns, i);
        if (!is_finite(v)) {
            to->count[channel]--;
            (v != v ? to->nan : to->inf)[channel]++;
        }
    }
}

static void count_tile(struct counting *counting, struct columns *columns)
{
    take_extrema(counting, columns);
    if (!columns->finite && !counting->to->ignore_nonfinite) {
        counting->status = PQ_ERR_NONFINITE;
        counting->stopped = true;
        return;
    }
    if (counting->to->table != NULL) {
        make_keys(counting, columns);
    }
    if (!columns->finite) {
        look_at_each(counting, columns);
    }
    if (count_or_not(counting, columns)) {
        count_numbers(counting, columns);
        counting->to->done++;
    } else {
        counting->to->full = counting->stopped = true;
    }
}

/* ---- tiles ---- */

/* Columns side by side, as many as loops are worth; of each channel those beside each other
 * have counters of their own, in lanes. */
static void place_columns(const struct counting *counting, struct columns *columns)
{
    const struct pq_channel_counts *to = counting->to;
    const size_t together = columns->n < BESIDE ? BESIDE / columns->n : 1;
    columns->width = (together < columns->rows ? together : columns->rows) * columns->n;
    for (size_t c = 0; c < columns->width; c++) {
        const size_t lane = c / columns->n % to->lanes;
        const size_t cell = lane * to->channels + channel_of(columns, c % columns->n);
        columns->base[c] = (cell - PQ_PAGES) << to->mantissa_bits;
    }
}

/* All of the two innermost dimensions. */
static void count_plane(void *p, struct pq_position at)
{
    struct counting *counting = p;
    const struct pq_dim *dim = &counting->plan.dim[0], *outer = &counting->plan.dim[1];
    const ptrdiff_t n = dim->end - dim->begin, rows = outer->end - outer->begin;
    const ptrdiff_t step = (ptrdiff_t)sizeof(uint64_t);
    const ptrdiff_t least = rows < TILE / COLUMNS ? TILE / COLUMNS : rows;
    const ptrdiff_t some =
        least < TILE / counting->most_columns ? TILE / least : counting->most_columns;
    const ptrdiff_t width = n < some ? n : some;
    const ptrdiff_t height = outer->scale != 0 ? 1 : TILE / width;
    char buffer[TILE * sizeof(double)];
    struct columns columns;
    at = pq_position_at(pq_position_at(at, dim, dim->begin), outer, outer->begin);
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
                                         counting->size,
                                         counting->swapped};
            columns.x = first.in;
            const bool direct = pq_tile_direct(&tile);
            if (!direct) {
                pq_gather(counting->kernels, buffer, first.in, &tile);
                columns.x = buffer;
            }
            columns.rows = (size_t)tile.rows;
            columns.n = (size_t)tile.columns;
            columns.first =
                (size_t)((first.scale - (const char *)counting->to->count) / step);
            columns.step = (size_t)(dim->scale / step); /* may be negative */
            place_columns(counting, &columns);
            columns.ahead = 0;
            if (direct || (pq_tile_rows(&tile) && columns.width == columns.n)) {
                const uintptr_t row = (uintptr_t)tile.row_stride; /* modulo all addresses */
                columns.ahead_step = direct ? columns.width * counting->size : row;
                columns.ahead = (uintptr_t)first.in +
                                (direct ? TILE * counting->size : columns.rows * row);
            }
            count_tile(counting, &columns);
        }
    }
}

/* ---- the plan ---- */

/* Dimensions that were joined, channels and elements of each, are two again. */
static void split_blocks(struct pq_plan *plan)
{
    for (int d = 0; d < plan->ndim; d++) {
        struct pq_dim *dim = &plan->dim[d];
        if (pq_dim_uniform(dim) || dim->group_size == 1) {
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

/* The innermost dimension from `first` on with more than one index that is one of channels,
 * or is not. */
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

static void move_dim(struct pq_plan *plan, int from, int to)
{
    const struct pq_dim dim = plan->dim[from];
    memmove(plan->dim + to + 1, plan->dim + to, (size_t)(from - to) * sizeof dim);
    plan->dim[to] = dim;
}

/* Columns are the innermost channels, rows the innermost of the rest; returns how many
 * columns are taken at a time: one, if it has lanes, where memory goes on within it. */
static ptrdiff_t choose_dims(struct pq_plan *plan, size_t lanes)
{
    const bool beside = plan->dim[0].scale != 0;
    move_dim(plan, find_dim(plan, 1, !beside), 1);
    if (beside) {
        return BESIDE;
    }
    move_dim(plan, 1, 0);
    return lanes > 1 ? 1 : STREAMS;
}

/* ---- calls ---- */

static enum pq_status check(const struct pq_kernels *kernels, const struct pq_args *args,
                            const struct pq_channel_counts *channels, int part, int parts)
{
    if (kernels == NULL || channels == NULL) {
        return PQ_ERR_NULL;
    }
    enum pq_status status = pq_check_shape(args);
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

enum pq_status pq_count_channels(const struct pq_kernels *kernels,
                                 const struct pq_args *args,
                                 struct pq_channel_counts *channels, int part, int parts)
{
    struct counting counting;
    enum pq_status status = check(kernels, args, channels, part, parts);
    if (status != PQ_OK) {
        return status;
    }
    struct pq_args plain = *args;
    plain.block = NULL;
    plain.in_layout = plain.out_layout = NULL;
    plain.zero = plain.out = (struct pq_array){.data = NULL};
    plain.scale = args->lowest;
    plain.scale.data = channels->count;
    status = pq_plan_init(&counting.plan, &plain, 0);
    if (status != PQ_OK) {
        return status;
    }
    split_blocks(&counting.plan);
    pq_plan_part(&counting.plan, part, parts, 1);
    channels->full = false;
    if (counting.plan.empty) {
        return PQ_OK;
    }
    counting.kernels = kernels;
    counting.to = channels;
    counting.type = args->in.type;
    counting.size = pq_type_size(args->in.type);
    counting.swapped = args->in.swapped != 0;
    counting.wide = args->in.type == PQ_F64;
    counting.columns =
        kernels->minmax_columns[counting.wide ? (int)PQ_F64_ROW : pq_row_of(args->in.type)];
    counting.stopped = false;
    counting.status = PQ_OK;
    counting.tile = 0;
    for (int page = 0; page < PQ_PAGES; page++) {
        counting.at[page] = ABSENT;
    }
    for (int row = 0; row < channels->rows; row++) {
        place_page(&counting, row);
    }
    counting.most_columns = choose_dims(&counting.plan, channels->lanes);
    const pq_fpenv found = pq_fpenv_enter();
    pq_for_each_row(&counting.plan, 2, count_plane, &counting);
    pq_fpenv_leave(found);
    return counting.status;
}
