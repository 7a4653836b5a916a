/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine runs the kernels of a job over its plan. Its code does not depend on the
 * operation.
 *
 * Kernels read and write long contiguous rows directly. If many rows have equal parameters
 * in each column, one kernel call processes many rows. All other data passes through tiles
 * of at most PQ_TILE elements: the engine gathers the elements, and copies the parameters
 * of short groups to each element. Codes of fewer than 8 bits are copied to bytes before a
 * kernel call, unless the kernel reads packed codes. Resulting bytes are packed after the
 * call, unless the kernel writes packed codes.
 */
#include "engine/job.h"
#include "math/fpenv.h"

enum {
    CACHE_LINE_BYTES = 64,
    SQUARE_BYTES = 64 * 256,     /* size of a transposed rectangle in bytes */
    MAX_FEW_ROWS = 8,            /* maximum number of rows for columns_for_few_rows() */
    MAX_CHANNELS = 4,            /* number of channels up to which joining pixels is fast */
    MAX_GROUPS_OF_ROW = 4,       /* maximum number of groups in run_rows_by_groups() */
    MIN_SHARED_ROWS = 8,         /* minimum number of rows with equal parameters */
    JOINED_ELEMENTS = 256,       /* maximum number of elements in joined short rows */
    MIN_JOINED_ROWS = 64,        /* minimum number of rows after short rows are joined */
    STAGED_BYTES = 16 * PQ_TILE, /* size of a buffer for unpacked codes in run_area() */
    TRANSPOSED_ROWS = 16,        /* minimum number of rows of a full transposed tile */
    CACHE_BYTES = PQ_SIZE(1 << 20, 1 << 12), /* larger data exceeds the near caches */
    /* For less data than these sizes, prefetch hints cost more time than the hints save. */
    PREFETCH_RUN_BYTES = PQ_SIZE(1 << 23, 1 << 12),
    /* Kernels need more time for groups than for one run, so prefetch hints save time only
     * for larger data. */
    PREFETCH_GROUP_BYTES = PQ_SIZE(1 << 25, 1 << 12)
};

/* ---- many rows in one kernel call ---- */

/* Return true if `how.kernel` (unlike `how.packed`) cannot process the codes directly. */
static bool converts_codes(const struct pq_job *job)
{
    return pq_job_unpacks(job) || job->pack.convert != NULL || job->pack.bits != 0;
}

/* Set the parameters of the next kernel call. Each group of `group` elements uses one pair
 * of loaded parameters. The pair of the first group has index `from`. */
static void set_params(struct pq_job *job, size_t group, ptrdiff_t from)
{
    struct pq_run *const run = &job->how.run;
    run->group = group;
    if (job->how.general) {
        run->scale.f64 = job->scale.f64 + from;
        run->zero.f64 = job->zero.f64 + from;
        run->offset.f64 = job->offset.f64 + from;
    } else {
        run->scale.f32 = job->scale.f32 + from;
        run->zero.i32 = job->zero.i32 + from;
        run->offset.f32 = job->offset.f32 + from;
    }
}

/* Return true if kernels can process rows of `columns` elements as groups with gaps. */
static bool accepts_gaps(const struct pq_job *job, ptrdiff_t columns)
{
    return columns >= PQ_MIN_GAPPED_GROUP && columns <= PQ_MAX_GAPPED_GROUP &&
           !job->how.general && job->how.copy == NULL &&
           !pq_needs_random_words(&job->how) && !converts_codes(job);
}

/* Process rows of `columns` elements in one kernel call. Each row is a group with its own
 * loaded parameters, and the bytes between rows are gaps. */
static void run_gapped(struct pq_job *job, const char *x, ptrdiff_t in_stride, char *y,
                       ptrdiff_t out_stride, ptrdiff_t rows, ptrdiff_t columns)
{
    struct pq_run *const run = &job->how.run;
    set_params(job, (size_t)columns, 0);
    run->in_gap = in_stride - columns * job->in_step;
    run->out_gap = out_stride - columns * job->out_step;
    job->how.kernel(run, x, y, (size_t)(rows * columns));
    run->in_gap = 0;
    run->out_gap = 0;
}

/* ---- tiles ---- */

/* Return true if each row is contiguous, but rows are not adjacent. */
static bool has_gaps(const struct pq_tile *tile)
{
    return pq_tile_has_contiguous_rows(tile) && !pq_tile_direct(tile);
}

/* A rectangle of elements: rows are indices of dimension 1, columns of dimension 0. Areas
 * and positions are passed by address. Copying would stall, because a copy loads several
 * members at once, before the separate stores to the members are complete. */
struct area {
    ptrdiff_t row, rows, column, columns;
};

static struct pq_tile input_tile(const struct pq_job *job, const struct area *area)
{
    return (struct pq_tile){area->rows,          area->columns,        job->plan.dim[1].in,
                            job->plan.dim[0].in, (size_t)job->in_step, job->in_swapped};
}

static struct pq_tile output_tile(const struct pq_job *job, const struct area *area)
{
    return (struct pq_tile){
        area->rows,           area->columns,         job->plan.dim[1].out,
        job->plan.dim[0].out, (size_t)job->out_step, job->out_swapped};
}

static const char *input_at(const struct pq_job *job, const struct pq_position *at,
                            ptrdiff_t row, ptrdiff_t column)
{
    return at->in + row * job->plan.dim[1].in + column * job->plan.dim[0].in;
}

static char *output_at(const struct pq_job *job, const struct pq_position *at,
                       ptrdiff_t row, ptrdiff_t column)
{
    return at->out + row * job->plan.dim[1].out + column * job->plan.dim[0].out;
}

/* Unpack the codes of a tile to `bytes`, row by row. If `packs` is true, instead pack the
 * results at `bytes` to the codes of the tile. */
PQ_NOINLINE void convert_rows(const struct pq_job *job, char *bytes,
                              const struct pq_position *at, const struct area *area,
                              bool packs)
{
    const struct pq_dim *dim = job->plan.dim;
    const struct pq_codes *const codes = packs ? &job->pack : &job->unpack;
    const size_t n = (size_t)area->columns;
    const struct pq_position first = pq_position_at(*at, &dim[0], area->column);
    for (ptrdiff_t r = 0; r < area->rows; r++, bytes += n * codes->size) {
        const struct pq_position row = pq_position_at(first, &dim[1], area->row + r);
        if (packs && codes->stream != NULL) {
            pq_pack_stream(codes, row.out, dim[0].out, row.out_code, dim[0].out_code, bytes,
                           n);
        } else if (packs) {
            pq_pack_codes(codes, row.out, dim[0].out, bytes, n);
        } else if (codes->stream != NULL) {
            pq_unpack_stream(codes, bytes, row.in, dim[0].in, row.in_code, dim[0].in_code,
                             n);
        } else {
            pq_unpack_codes(codes, bytes, row.in, dim[0].in, n);
        }
    }
}

/* Return the input of a tile for a kernel: the array itself, or a copy in `buffer`. */
static const char *load_tile(const struct pq_job *job, char *buffer,
                             const struct pq_position *at, const struct area *area,
                             const struct pq_tile *tile)
{
    const char *x = input_at(job, at, area->row, area->column);
    const bool direct = pq_tile_direct(tile);
    if (job->unpack.stream != NULL || (job->unpack.bits != 0 && !direct)) {
        convert_rows(job, buffer, at, area, false);
        return buffer;
    }
    if (!direct) {
        pq_gather(job->kernels, buffer, x, tile);
        x = buffer;
    }
    if (pq_job_unpacks(job)) {
        pq_unpack_codes(&job->unpack, buffer, x, job->in_step,
                        (size_t)(tile->rows * tile->columns));
        x = buffer;
    }
    return x;
}

static void store_tile(const struct pq_job *job, const struct pq_position *at,
                       const struct area *area, char *result, const struct pq_tile *tile)
{
    char *const y = output_at(job, at, area->row, area->column);
    if (job->pack.bits != 0 && job->pack.stream == NULL && pq_tile_direct(tile)) {
        pq_pack_codes(&job->pack, y, job->out_step, result,
                      (size_t)(tile->rows * tile->columns));
    } else if (job->pack.bits != 0) {
        convert_rows(job, result, at, area, true);
    } else if (result != y) {
        pq_scatter(job->kernels, y, result, tile);
    }
}

/* Generate the random words of a tile from the positions of its elements in C order. */
PQ_NOINLINE void load_random_words(struct pq_job *job, const struct pq_position *at,
                                   const struct area *area)
{
    const struct pq_dim *dim = job->plan.dim;
    const uint64_t along = dim[0].place, across = dim[1].place;
    const uint64_t first =
        at->place + (uint64_t)area->row * across + (uint64_t)area->column * along;
    const size_t columns = (size_t)area->columns, rows = (size_t)area->rows;
    job->how.run.random_words = job->random_words;
    if (rows == 1 || across == columns * along) {
        job->kernels->random_words(job->random_words, job->seed, first, along,
                                   rows * columns);
        return;
    }
    for (size_t r = 0; r < rows; r++) {
        job->kernels->random_words(job->random_words + r * columns, job->seed,
                                   first + r * across, along, columns);
    }
}

/* Process at most PQ_TILE elements, or a longer row that needs no buffer. If `ready` is not
 * null, the input is in this contiguous buffer. If `result_at` is not null, the output goes
 * to this contiguous buffer. Rows with gaps are copied if the data exceeds the near caches,
 * because a copy can wait for several cache lines in parallel. */
static void run_tile(struct pq_job *job, const struct pq_position *at,
                     const struct area *area, const char *ready, char *result_at)
{
    const ptrdiff_t rows = area->rows, columns = area->columns;
    const struct pq_tile in = input_tile(job, area), out = output_tile(job, area);
    const size_t n = (size_t)(rows * columns);
    char in_tile[PQ_TILE * sizeof(double)], out_tile[PQ_TILE * sizeof(double)];
    const ptrdiff_t share =
        job->how.copy != NULL
            ? 1
            : pq_load_tile_params(job, at->params, area->row, rows, area->column, columns);
    const bool gapped = share != 1 && !job->exceeds_cache && accepts_gaps(job, columns);
    const bool from_rows = gapped && ready == NULL && has_gaps(&in);
    const bool to_rows = gapped && result_at == NULL && has_gaps(&out);
    const char *x = ready;
    if (pq_needs_random_words(&job->how)) {
        load_random_words(job, at, area);
    }
    if (from_rows) {
        x = input_at(job, at, area->row, area->column);
    } else if (ready == NULL) {
        x = load_tile(job, in_tile, at, area, &in);
    }
    char *const y =
        result_at != NULL ? result_at : output_at(job, at, area->row, area->column);
    const bool direct = pq_tile_direct(&out) && job->pack.bits == 0;
    char *const result = result_at != NULL || to_rows || direct ? y : out_tile;
    if (from_rows || to_rows) {
        if (share > columns) {
            pq_repeat_param(job, 0, 0, rows);
        }
        run_gapped(job, x, from_rows ? in.row_stride : columns * job->in_step, result,
                   to_rows ? out.row_stride : columns * job->out_step, rows, columns);
    } else if (job->how.copy != NULL) {
        job->how.copy(x, result, n);
    } else {
        set_params(job, (size_t)share, 0);
        job->how.kernel(&job->how.run, x, result, n);
    }
    pq_saturate_codes(&job->pack, result, n);
    if (result_at == NULL) {
        store_tile(job, at, area, result, &out);
    }
}

static bool is_longer_stride(ptrdiff_t stride, ptrdiff_t other)
{
    return pq_magnitude(stride) > pq_magnitude(other);
}

/* Choose the size of a tile. A tile has complete rows if the rows are short, and at most
 * PQ_TILE / TRANSPOSED_ROWS columns if one side is transposed. */
static void tile_shape(const struct pq_job *job, ptrdiff_t *rows, ptrdiff_t *columns)
{
    const struct pq_dim *dim = job->plan.dim;
    const ptrdiff_t n0 = dim[0].end - dim[0].begin, n1 = dim[1].end - dim[1].begin;
    ptrdiff_t most = PQ_TILE;
    if (n1 > 1 && (is_longer_stride(dim[0].in, dim[1].in) ||
                   is_longer_stride(dim[0].out, dim[1].out))) {
        most = PQ_TILE / TRANSPOSED_ROWS;
    }
    *columns = n0 < most || job->loads_rows ? n0 : most;
    *rows = n1 < PQ_TILE / *columns ? n1 : PQ_TILE / *columns;
    if (*rows > dim[1].group_size) { /* a tile has complete groups of rows */
        *rows -= *rows % dim[1].group_size;
    }
}

/* Process dimensions 0 and 1 in tiles. The outer loop is over columns, because a tile and
 * the tile below it can share loaded parameters. */
static void run_tiles(void *p, const struct pq_position *at)
{
    struct pq_job *job = p;
    const struct pq_dim *dim = job->plan.dim;
    ptrdiff_t rows, columns;
    tile_shape(job, &rows, &columns);
    for (ptrdiff_t c = dim[0].begin; c < dim[0].end; c += columns) {
        const ptrdiff_t nc = dim[0].end - c < columns ? dim[0].end - c : columns;
        for (ptrdiff_t r = dim[1].begin; r < dim[1].end; r += rows) {
            const ptrdiff_t nr = dim[1].end - r < rows ? dim[1].end - r : rows;
            const struct area area = {r, nr, c, nc};
            run_tile(job, at, &area, NULL, NULL);
        }
    }
}

/* Return true if one call of pq_load_rows() can load the parameters of several rows. */
static bool can_load_rows(const struct pq_job *job)
{
    const struct pq_dim *dim = job->plan.dim;
    const ptrdiff_t groups = pq_dim_groups(dim);
    return dim[1].group_size == 1 &&
           (job->how.load == NULL || groups == 1 || dim[1].scale == groups * dim[0].scale);
}

/* Return true if the engine loads the parameters of many rows together, and then copies the
 * parameters to each element. Rows must be complete and short. */
static bool loads_rows(const struct pq_job *job)
{
    const struct pq_dim *dim = job->plan.dim;
    const ptrdiff_t columns = dim[0].end;
    const bool one_pair =
        pq_dim_groups(dim) == 1 && columns >= PQ_GROUP && job->how.by_groups;
    return dim[0].begin == 0 && columns <= PQ_TILE && !one_pair &&
           !pq_is_uniform(&dim[1]) && can_load_rows(job) && job->unpack.stream == NULL &&
           job->pack.stream == NULL && !pq_needs_random_words(&job->how);
}

/* Return the number of bytes that the job reads and writes. */
static size_t total_bytes(const struct pq_job *job)
{
    size_t bytes = job->in_size + job->out_size;
    for (int d = 0; d < job->plan.ndim; d++) {
        bytes *= (size_t)(job->plan.dim[d].end - job->plan.dim[d].begin);
    }
    return bytes;
}

/* Return true if the input or the output has codes of 24 bits. */
static bool has_24_bits(const struct pq_job *job)
{
    return job->unpack.size != 1 || job->pack.size != 1;
}

/* Return true if kernels should prefetch. Kernels must read and write the arrays directly.
 * The data must exceed PREFETCH_RUN_BYTES, PREFETCH_GROUP_BYTES if groups are small, or
 * CACHE_BYTES if codes have 24 bits. */
static bool needs_prefetch(const struct pq_job *job)
{
    const struct pq_dim *dim = job->plan.dim;
    const size_t both = job->in_size + job->out_size;
    const bool alone = !pq_is_uniform(dim) && dim->group_size == 1;
    const ptrdiff_t same = pq_is_uniform(dim) ? dim->end - dim->begin : dim->group_size;
    const bool smooth = alone || (size_t)same * both > PREFETCH_RUN_BYTES;
    if (has_24_bits(job)) {
        return job->how.packed != NULL && total_bytes(job) > CACHE_BYTES;
    }
    return total_bytes(job) > (smooth ? PREFETCH_RUN_BYTES : PREFETCH_GROUP_BYTES) &&
           !converts_codes(job);
}

/* ---- one side transposed ---- */

/* Return true if the input and the output are contiguous along different dimensions. */
static bool is_transposed(const struct pq_job *job)
{
    const struct area some = {0, 2, 0, 2};
    const struct pq_dim *dim = job->plan.dim;
    const struct pq_tile in = input_tile(job, &some), out = output_tile(job, &some);
    return dim[1].end - dim[1].begin > 1 && !converts_codes(job) && job->unpack.bits == 0 &&
           ((pq_tile_is_transposed(&in) && pq_tile_has_contiguous_rows(&out)) ||
            (pq_tile_has_contiguous_rows(&in) && pq_tile_has_contiguous_columns(&out)));
}

PQ_INLINE void prefetch_rows(const char *at, ptrdiff_t stride, ptrdiff_t rows,
                             ptrdiff_t bytes, bool writes)
{
    if (stride > 0 && stride < CACHE_LINE_BYTES) { /* rows share cache lines */
        bytes += (rows - 1) * stride;
        rows = 1;
    }
    for (ptrdiff_t r = 0; r < rows; r++) {
        for (ptrdiff_t i = 0; i < bytes; i += CACHE_LINE_BYTES) {
            if (writes) {
                PQ_WILL_WRITE(at + r * stride + i);
            } else {
                PQ_WILL_READ(at + r * stride + i);
            }
        }
    }
}

/*
 * Prefetch data for the next steps while the kernel computes `part` of the rectangle `all`.
 * Hardware does not prefetch short rows, or columns with strides of 4 KiB or more.
 *
 * If the input is transposed (`gathers`), it is gathered before the first part. Each call
 * then prefetches output rows of the next part, and a share of the input columns of the
 * next rectangle. If the output is transposed, it is scattered after the last part. Each
 * call then prefetches input rows of the next rectangle, and a share of output columns.
 */
static void prefetch_next(const struct pq_job *job, const struct pq_position *at,
                          const struct area *all, const struct area *part, bool gathers)
{
    const struct pq_dim *dim = job->plan.dim;
    const ptrdiff_t in = (ptrdiff_t)job->in_size, out = (ptrdiff_t)job->out_size;
    const ptrdiff_t lines = part->rows * all->columns / all->rows;
    const ptrdiff_t across =
        all->column + (part->row - all->row) * all->columns / all->rows;
    if (gathers) {
        prefetch_rows(input_at(job, at, all->row, across + all->columns), dim[0].in, lines,
                      all->rows * in, false);
        const bool few = all->rows <= MAX_FEW_ROWS; /* the rectangle has all rows */
        prefetch_rows(output_at(job, at, part->row + (few ? 0 : part->rows),
                                part->column + (few ? all->columns : 0)),
                      dim[1].out, part->rows, all->columns * out, true);
    } else {
        prefetch_rows(input_at(job, at, part->row, part->column + all->columns), dim[1].in,
                      part->rows, all->columns * in, false);
        prefetch_rows(output_at(job, at, all->row, across), dim[0].out, lines,
                      all->rows * out, true);
    }
}

/*
 * Transpose a rectangle in one step, and run the kernel on parts of the rectangle. The copy
 * uses complete cache lines on both sides. Smaller steps would load a line several times if
 * the strides are powers of two, because caches then evict a line before its next use.
 */
static void run_transposed_square(struct pq_job *job, const struct pq_position *at,
                                  const struct area *all)
{
    char square[SQUARE_BYTES / 16 * 25]; /* `all` can have 25/16 of the usual area */
    const struct pq_tile in = input_tile(job, all), out = output_tile(job, all);
    const bool gathers = pq_tile_is_transposed(&in);
    const size_t size = gathers ? job->in_size : job->out_size;
    const ptrdiff_t step = all->columns < PQ_TILE ? PQ_TILE / all->columns : 1;
    if (gathers) {
        pq_gather(job->kernels, square, input_at(job, at, all->row, all->column), &in);
    }
    for (ptrdiff_t r = 0; r < all->rows; r += step) {
        const ptrdiff_t rows = all->rows - r < step ? all->rows - r : step;
        const struct area area = {all->row + r, rows, all->column, all->columns};
        char *const part = square + (size_t)(r * all->columns) * size;
        if (job->exceeds_cache) {
            prefetch_next(job, at, all, &area, gathers);
        }
        run_tile(job, at, &area, gathers ? part : NULL, gathers ? NULL : part);
    }
    if (!gathers) {
        pq_scatter(job->kernels, output_at(job, at, all->row, all->column), square, &out);
    }
}

/* Return the number of elements from address `from` up to the last cache-line boundary
 * within `most` elements. If few of the `left` elements would remain, return `left`. */
static ptrdiff_t elements_up_to_line(const char *from, size_t size, ptrdiff_t most,
                                     ptrdiff_t left)
{
    const ptrdiff_t into = (ptrdiff_t)((uintptr_t)from % CACHE_LINE_BYTES / size);
    const ptrdiff_t n = into < most ? most - into : most;
    return left - n < most / 4 ? left : n;
}

/* Return the number of columns of a rectangle that contains all rows, for example the
 * channels of pixels. elements_up_to_line() can add a quarter of the columns, and a row
 * must still fit in a tile. A row with one pair of parameters can be longer, because the
 * kernel reads and writes the row without a tile. */
static ptrdiff_t columns_for_few_rows(const struct pq_job *job, ptrdiff_t rows, size_t size)
{
    enum { MOST_IN_TILE = PQ_TILE / 4 * 3 };
    _Static_assert(MOST_IN_TILE + MOST_IN_TILE / 4 <= PQ_TILE, "a row exceeds a tile");
    const ptrdiff_t columns = SQUARE_BYTES / rows / (ptrdiff_t)size;
    const ptrdiff_t most = pq_is_uniform(&job->plan.dim[0]) ? 2 * PQ_TILE : MOST_IN_TILE;
    return columns < most ? columns : most;
}

/*
 * Transpose in rectangles that are longer along the contiguous side (dimension 0), so that
 * prefetched lines are used. Cut rectangles at cache-line boundaries, because a line shared
 * by two rectangles would be loaded twice.
 *
 * Rectangles are tall (64 rows) only if the elements of the transposed side have 1 or 2
 * bytes. If the input is the transposed side, the data must also be large. With less data,
 * output rows of a tall rectangle at distances of 4 KiB would not fit in L1.
 */
static void run_transposed(void *p, const struct pq_position *at)
{
    struct pq_job *job = p;
    const struct pq_dim *dim = job->plan.dim;
    const bool gathers = pq_magnitude(dim[1].in) == (ptrdiff_t)job->in_size;
    const size_t across = gathers ? job->in_size : job->out_size;
    const size_t along = gathers ? job->out_size : job->in_size;
    const bool tall = across <= 2 && (!gathers || total_bytes(job) > PREFETCH_GROUP_BYTES);
    const ptrdiff_t all = dim[1].end - dim[1].begin, rows = tall ? 64 : 32;
    const ptrdiff_t columns = (tall && !gathers ? 128 : 256) / (ptrdiff_t)across;
    const ptrdiff_t most =
        all <= MAX_FEW_ROWS ? columns_for_few_rows(job, all, across) : columns;
    struct area area;
    for (area.row = dim[1].begin; area.row < dim[1].end; area.row += area.rows) {
        area.column = dim[0].begin;
        const char *const first = gathers ? input_at(job, at, area.row, area.column)
                                          : output_at(job, at, area.row, area.column);
        area.rows = all <= MAX_FEW_ROWS
                        ? all
                        : elements_up_to_line(first, across, rows, dim[1].end - area.row);
        for (; area.column < dim[0].end; area.column += area.columns) {
            const char *const row = gathers ? output_at(job, at, area.row, area.column)
                                            : input_at(job, at, area.row, area.column);
            area.columns = elements_up_to_line(row, along, most, dim[0].end - area.column);
            run_transposed_square(job, at, &area);
        }
    }
}

/* ---- rows ---- */

/* Process at most PQ_TILE contiguous elements with the parameters that set_params() has
 * set. If necessary, copy input codes to bytes in a buffer before the kernel call, and
 * convert resulting bytes to codes after the call. */
static void run_converted(const struct pq_job *job, const char *x, char *y, size_t n)
{
    char from[PQ_TILE * sizeof(int32_t)], to[PQ_TILE * sizeof(int32_t)];
    if (pq_job_unpacks(job)) {
        pq_unpack_codes(&job->unpack, from, x, job->in_step, n);
        x = from;
    }
    char *const result = job->pack.bits != 0 ? to : y;
    job->how.kernel(&job->how.run, x, result, n);
    pq_saturate_codes(&job->pack, result, n);
    if (job->pack.bits != 0) {
        pq_pack_codes(&job->pack, y, job->out_step, to, n);
    }
}

/* Process complete groups, or one group of 24-bit codes, by a kernel for packed codes.
 * Return false if the job has no kernel of this kind, or the kernel does not support the
 * groups or the position of the codes. */
static bool run_packed(const struct pq_job *job, const char *x, char *y, size_t n, size_t g)
{
    const bool unpacks = job->unpack.bits != 0;
    const int flip = unpacks ? job->unpack.flip : job->pack.flip;
    const bool is_supported = has_24_bits(job) ? g >= n && n >= PQ_PACKED_GROUP
                                               : n % g == 0 && g % PQ_PACKED_GROUP == 0;
    if (job->how.packed == NULL || !is_supported ||
        (flip != 0 && !job->how.run.high_first)) {
        return false;
    }
    const ptrdiff_t at = unpacks ? x - job->unpack.base : y - job->pack.base;
    if (at % 8 == 0) {
        job->how.packed(&job->how.run, unpacks ? job->unpack.base + at / 8 : x,
                        unpacks ? y : job->pack.base + at / 8, n);
    }
    return at % 8 == 0;
}

/* Process `n` elements in groups of `g`. Group 0 has loaded parameters at index `from`. */
static void run_groups(struct pq_job *job, const char *x, char *y, size_t n, size_t g,
                       ptrdiff_t from)
{
    const struct pq_run *const run = &job->how.run;
    set_params(job, g, from);
    if (!converts_codes(job)) {
        job->how.kernel(run, x, y, n);
        return;
    }
    if (run_packed(job, x, y, n, g)) {
        return;
    }
    job->how.run.exceeds_cache = false; /* the kernel's buffers are in the cache */
    /* A step processes as many complete groups as fit in a tile, or a part of a larger
     * group. */
    const size_t step = g < PQ_TILE ? PQ_TILE / g * g : PQ_TILE;
    for (size_t done = 0; done < n;) {
        const size_t group = done / g;
        size_t m = n - done < step ? n - done : step;
        if (g >= PQ_TILE && (group + 1) * g - done < m) {
            m = (group + 1) * g - done;
        }
        set_params(job, g < m ? g : m, from + (ptrdiff_t)group);
        run_converted(job, x + (ptrdiff_t)done * job->in_step,
                      y + (ptrdiff_t)done * job->out_step, m);
        done += m;
    }
}

/* Process a contiguous row of groups, or of one group. Load the parameters of many groups
 * together. */
static void run_grouped_row(void *p, const struct pq_position *at)
{
    struct pq_job *job = p;
    const struct pq_dim *dim = &job->plan.dim[0];
    const ptrdiff_t g = pq_is_uniform(dim) ? dim->end : dim->group_size;
    const ptrdiff_t last = (dim->end - 1) / g;
    for (ptrdiff_t i = dim->begin, n; i < dim->end; i += n) {
        const ptrdiff_t first = i / g; /* a part of a call can begin within a group */
        const ptrdiff_t groups = i != first * g ? 1 : PQ_TILE;
        const ptrdiff_t m = last - first + 1 < groups ? last - first + 1 : groups;
        const ptrdiff_t stop = (first + m) * g;
        const struct pq_addresses from = pq_addresses_at(at->params, dim, first);
        n = (stop < dim->end ? stop : dim->end) - i;
        if (!pq_has_loaded(job, &from) || job->loaded.columns < m) {
            job->loaded.at = from;
            pq_load_params(job, 0, &job->loaded.at, dim, (size_t)m);
            pq_set_flush(job);
            job->loaded.columns = m;
        }
        run_groups(job, at->in + i * dim->in, at->out + i * dim->out, (size_t)n,
                   (size_t)(pq_is_uniform(dim) ? n : g), 0);
    }
}

/* Return true if the plan has several rows of at most PQ_TILE elements, and the engine can
 * load the parameters of many rows together. */
static bool can_run_rows(const struct pq_job *job)
{
    const struct pq_dim *dim = job->plan.dim;
    const ptrdiff_t groups = pq_dim_groups(dim), rows = dim[1].end - dim[1].begin;
    const bool complete = pq_is_uniform(dim) || dim[0].begin % dim[0].group_size == 0;
    return rows > 1 && dim[0].end - dim[0].begin <= PQ_TILE && groups <= PQ_TILE / 4 &&
           complete && (pq_is_uniform(&dim[1]) || can_load_rows(job));
}

/* Process the last group of every row in one step, then the group before it, and so on. If
 * the last group has fewer than PQ_MIN_GAPPED_GROUP elements, its step also processes
 * elements of the group before it. The next step overwrites the wrong results of these
 * elements. */
static void run_rows_by_groups(struct pq_job *job, struct pq_position at, ptrdiff_t rows,
                               ptrdiff_t n, ptrdiff_t g)
{
    const struct pq_dim *dim = job->plan.dim;
    const bool same = pq_is_uniform(&dim[1]);
    for (ptrdiff_t group = (n - 1) / g; group >= 0; group--) {
        const ptrdiff_t left = n - group * g, width = left < g ? left : g;
        const ptrdiff_t columns = width < PQ_MIN_GAPPED_GROUP ? PQ_MIN_GAPPED_GROUP : width;
        const ptrdiff_t from = group * g + width - columns;
        const struct pq_addresses params = pq_addresses_at(at.params, &dim[0], group);
        pq_load_params(job, 0, &params, &dim[1], same ? 1 : (size_t)rows);
        pq_set_flush(job);
        if (same) {
            pq_repeat_param(job, 0, 0, rows);
        }
        run_gapped(job, at.in + from * dim[0].in, dim[1].in, at.out + from * dim[0].out,
                   dim[1].out, rows, columns);
    }
}

/* Process dimensions 0 and 1 if the rows are contiguous and short. */
static void run_rows(void *p, const struct pq_position *start)
{
    struct pq_job *job = p;
    const struct pq_dim *dim = job->plan.dim;
    const bool same = pq_is_uniform(&dim[1]);
    const ptrdiff_t groups = pq_dim_groups(dim), first = dim[0].begin;
    const ptrdiff_t n = dim[0].end - first, g = groups == 1 ? n : dim[0].group_size;
    /* run_rows_by_groups() is faster for rows with a short last group, but would count some
     * elements twice. */
    const bool by_groups = groups <= MAX_GROUPS_OF_ROW && n % g != 0 && !job->how.counts;
    const bool gapped = accepts_gaps(job, g) && (groups == 1 || by_groups);
    const ptrdiff_t some = gapped && groups > 1 ? STAGED_BYTES / n : PQ_TILE / groups;
    const bool joins = !same && n % g == 0 && dim[1].in == n * dim[0].in &&
                       dim[1].out == n * dim[0].out; /* the rows are adjacent in memory */
    const ptrdiff_t step = same && !gapped ? dim[1].end - dim[1].begin : some;
    const struct pq_position at = pq_position_at(*start, &dim[0], first);
    for (ptrdiff_t r = dim[1].begin; r < dim[1].end; r += step) {
        const ptrdiff_t rows = dim[1].end - r < step ? dim[1].end - r : step;
        const struct pq_position row = pq_position_at(at, &dim[1], r);
        if (gapped) {
            run_rows_by_groups(job, row, rows, n, g);
            continue;
        }
        pq_load_rows(job, row.params, same ? 1 : rows);
        pq_set_flush(job);
        for (ptrdiff_t i = 0; i < rows; i += joins ? rows : 1) {
            run_groups(job, row.in + i * dim[1].in, row.out + i * dim[1].out,
                       (size_t)(joins ? rows * n : n), (size_t)g, same ? 0 : i * groups);
        }
    }
    job->loaded.at.scale = NULL;
}

/* Process a contiguous row with one zero point. The scale is one number, or the kernel
 * reads a float32 scale for each element in place. The offset is like the scale. */
static void run_row_per_element(void *p, const struct pq_position *at)
{
    struct pq_job *job = p;
    struct pq_run *const run = &job->how.run;
    const struct pq_dim *dim = &job->plan.dim[0];
    const struct pq_addresses *const loaded = &job->loaded.at, *const params = &at->params;
    if (loaded->zero != params->zero ||
        (dim->scale == 0 && loaded->scale != params->scale) ||
        (dim->offset == 0 && loaded->offset != params->offset)) {
        pq_load_params(job, 0, params, dim, 1);
        pq_repeat_param(job, 0, 0, dim->end < PQ_TILE ? dim->end : PQ_TILE);
        job->loaded.at = *params;
    }
    set_params(job, 1, 0);
    for (ptrdiff_t i = dim->begin; i < dim->end; i += PQ_TILE) {
        const ptrdiff_t n = dim->end - i < PQ_TILE ? dim->end - i : PQ_TILE;
        if (dim->scale != 0) {
            run->scale.f32 = (const void *)(params->scale + i * dim->scale);
        }
        if (dim->offset != 0) {
            run->offset.f32 = (const void *)(params->offset + i * dim->offset);
        }
        run_converted(job, at->in + i * dim->in, at->out + i * dim->out, (size_t)n);
    }
}

/* ---- columns ---- */

/* Return the number of short rows to join to one row. `rows` rows share the parameters of
 * each column. Few rows are not joined, because the joined row needs a copy of the
 * parameters for each of its short rows. */
static ptrdiff_t count_joined_rows(const struct pq_job *job, ptrdiff_t rows)
{
    const struct pq_dim *dim = job->plan.dim;
    const ptrdiff_t columns = dim[0].end - dim[0].begin;
    const ptrdiff_t most = rows / MIN_JOINED_ROWS;
    if (most < 2 || columns > JOINED_ELEMENTS / 2 || dim[1].in != columns * dim[0].in ||
        dim[1].out != columns * dim[0].out || converts_codes(job)) {
        return 1;
    }
    return JOINED_ELEMENTS / columns < most ? JOINED_ELEMENTS / columns : most;
}

/* Return true if several rows have equal parameters in each column. Then the engine loads
 * the parameters once, and one kernel call processes many rows. Codes of fewer than 8
 * bits are copied to and from bytes. Rows with codes in streams may also have a single
 * pair of parameters. */
static bool can_run_columns(const struct pq_job *job)
{
    const struct pq_dim *dim = job->plan.dim, *const rows = &dim[1];
    const ptrdiff_t all = rows->end - rows->begin;
    const ptrdiff_t share =
        pq_is_uniform(rows) || rows->group_size > all ? all : rows->group_size;
    const bool in_adjacent = job->unpack.stream != NULL || dim->in == job->in_step;
    const bool out_adjacent = job->pack.stream != NULL || dim->out == job->out_step;
    const bool streams = job->unpack.stream != NULL || job->pack.stream != NULL;
    const bool stages_bytes = job->unpack.size == 1 && job->pack.size == 1;
    return stages_bytes && in_adjacent && out_adjacent && !job->in_swapped &&
           !job->out_swapped && !job->how.general && job->how.by_groups &&
           job->how.copy == NULL && dim->group_size == 1 &&
           (!pq_is_uniform(dim) || streams) &&
           (dim->end - dim->begin) * count_joined_rows(job, share) >= PQ_GROUP &&
           share >= MIN_SHARED_ROWS;
}

/* Process the rows of an area with the loaded parameters. For the kernel, `joined`
 * successive rows are one row. */
static void run_area(struct pq_job *job, const struct pq_position *at,
                     const struct area *area, ptrdiff_t joined)
{
    char in_rows[STAGED_BYTES], out_rows[STAGED_BYTES];
    struct pq_run *const run = &job->how.run;
    const bool packs = job->pack.bits != 0 || job->pack.convert != NULL;
    const bool unpacks = pq_job_unpacks(job);
    const struct pq_tile out = output_tile(job, area);
    const char *const x = unpacks ? in_rows : input_at(job, at, area->row, area->column);
    char *const y = packs ? out_rows : output_at(job, at, area->row, area->column);
    const bool single = pq_is_uniform(&job->plan.dim[0]);
    if (unpacks) {
        convert_rows(job, in_rows, at, area, false);
    }
    set_params(job, single ? (size_t)area->columns : 1, 0);
    const ptrdiff_t count = joined > 1 ? area->rows / joined : area->rows;
    const ptrdiff_t before = count * joined, last = area->rows - before;
    run->rows = single ? 0 : (size_t)count;
    run->in_stride = joined * (unpacks ? area->columns : job->plan.dim[1].in);
    run->out_stride = joined * (packs ? area->columns : job->plan.dim[1].out);
    if (!single) {
        job->how.kernel(run, x, y, (size_t)(joined * area->columns));
    }
    if (last != 0) {
        run->rows = 0;
        job->how.kernel(run, x + before * job->plan.dim[1].in,
                        y + before * job->plan.dim[1].out, (size_t)(last * area->columns));
    }
    for (ptrdiff_t r = 0; single && r < area->rows; r++) {
        job->how.kernel(run, x + r * run->in_stride, y + r * run->out_stride,
                        (size_t)area->columns);
    }
    run->rows = 0; /* for all other loops, which process one row in each call */
    if (packs) {
        pq_saturate_codes(&job->pack, out_rows, (size_t)(area->rows * area->columns));
        store_tile(job, at, area, out_rows, &out);
    }
}

/* Process dimensions 0 and 1 in areas. An area has as many rows as share parameters and fit
 * in the buffers. */
static void run_columns(void *p, const struct pq_position *at)
{
    struct pq_job *job = p;
    const struct pq_dim *dim = job->plan.dim, *const rows = &dim[1];
    const ptrdiff_t tile = pq_is_uniform(dim) ? STAGED_BYTES / MIN_SHARED_ROWS : PQ_TILE;
    struct area area;
    for (area.column = dim->begin; area.column < dim->end; area.column += area.columns) {
        area.columns = dim->end - area.column < tile ? dim->end - area.column : tile;
        const ptrdiff_t most =
            converts_codes(job) ? STAGED_BYTES / area.columns : rows->end;
        for (area.row = rows->begin; area.row < rows->end; area.row += area.rows) {
            const ptrdiff_t left = rows->end - area.row;
            const ptrdiff_t share =
                pq_is_uniform(rows) ? left : rows->group_size - area.row % rows->group_size;
            area.rows = left < share ? left : share;
            area.rows = area.rows < most ? area.rows : most;
            const ptrdiff_t joined = count_joined_rows(job, area.rows);
            pq_load_tile_params(job, at->params, area.row, joined, area.column,
                                area.columns);
            run_area(job, at, &area, joined);
        }
    }
}

/* ---- the choice of a function for rows ---- */

static bool has_contiguous_rows(const struct pq_job *job)
{
    const struct pq_dim *dim = &job->plan.dim[0];
    return !job->in_swapped && !job->out_swapped && dim->in == job->in_step &&
           dim->out == job->out_step && job->unpack.stream == NULL &&
           job->pack.stream == NULL;
}

/* Return true if a kernel can read the parameters of a row in place, as float32 numbers, or
 * if the row has only one parameter. */
static bool is_in_place(ptrdiff_t stride, enum pq_type type, int swapped)
{
    return stride == 0 ||
           (stride == (ptrdiff_t)sizeof(float) && type == PQ_F32 && !swapped);
}

/* Return the function for pq_for_each_row(). Store in `first` the number of inner
 * dimensions that one call of the function processes. */
static pq_row_fn *choose_walk(const struct pq_job *job, int *first)
{
    const struct pq_dim *dim = job->plan.dim;
    const ptrdiff_t n = dim[0].end - dim[0].begin;
    const bool single_row = dim[1].end - dim[1].begin == 1;
    const bool small = !job->how.general && job->how.load == NULL &&
                       (dim->group_size == PQ_GROUP / 2 || dim->group_size == PQ_GROUP / 4);
    const bool in_groups = pq_is_uniform(dim) || dim->group_size >= PQ_GROUP ||
                           (small && (n % PQ_GROUP == 0 || n >= PQ_TILE || single_row));
    const bool direct =
        has_contiguous_rows(job) && job->how.by_groups && job->how.copy == NULL;
    if (pq_needs_random_words(&job->how)) { /* only run_tiles() generates random words */
        *first = 2;
        return run_tiles;
    }
    *first = 1;
    if (direct && (n >= PQ_GROUP || single_row) && in_groups) {
        *first = can_run_rows(job) ? 2 : 1;
        return *first == 2 ? run_rows : run_grouped_row;
    }
    const bool by_columns = can_run_columns(job);
    if (!by_columns && direct && !job->how.general && (n >= PQ_TILE / 2 || single_row) &&
        dim->group_size == 1 && dim->zero == 0 &&
        is_in_place(dim->scale, job->scale_type, job->scale_swapped) &&
        is_in_place(dim->offset, job->offset_type, job->offset_swapped)) {
        return run_row_per_element;
    }
    *first = 2;
    return by_columns ? run_columns : is_transposed(job) ? run_transposed : run_tiles;
}

/* Swap dimensions 0 and 1 if the input is transposed, but the engine can transpose the
 * results faster. This is true for input codes of 24 bits. Without packed codes, it is true
 * for more than MAX_FEW_ROWS rows of at most MAX_CHANNELS elements or of smaller
 * results. */
static void order_by_input(struct pq_job *job)
{
    struct pq_dim *dim = job->plan.dim;
    const bool is_smaller = (job->out_size < job->in_size || dim[0].end <= MAX_CHANNELS) &&
                            !job->in_swapped && dim[1].end > MAX_FEW_ROWS;
    if (dim[1].in == job->in_step && is_longer_stride(dim[0].in, dim[1].in) &&
        dim[0].out == (ptrdiff_t)job->out_size &&
        (job->unpack.bits == 0 ? is_smaller : job->unpack.size != 1) && !job->out_swapped &&
        job->pack.bits == 0 && !pq_needs_random_words(&job->how)) {
        const struct pq_dim inner = dim[0];
        dim[0] = dim[1];
        dim[1] = inner;
    }
}

/* Return true if the job is one contiguous row with one pair of parameters, like most small
 * calls. */
static bool is_uniform_row(const struct pq_job *job)
{
    const struct pq_dim *dim = job->plan.dim;
    return job->plan.ndim == 2 && dim[1].end == 1 && dim[0].begin == 0 &&
           pq_is_uniform(dim) && has_contiguous_rows(job) && job->how.copy == NULL &&
           job->how.element == NULL && !pq_needs_random_words(&job->how);
}

static void run_uniform_row(struct pq_job *job)
{
    const size_t n = (size_t)job->plan.dim[0].end;
    job->how.run.exceeds_cache = needs_prefetch(job);
    pq_load_params(job, 0, &job->plan.params, job->plan.dim, 1);
    pq_set_flush(job);
    run_groups(job, job->plan.in, job->plan.out, n, n, 0);
}

/* Return true if parts that begin at multiples of 8 elements share no byte of the output.
 * For this, the first element must begin at bit 0 of a byte, and negative strides must be
 * multiples of 8 bits. */
static bool has_complete_bytes(const struct pq_job *job)
{
    const struct pq_dim *const dim = job->plan.dim;
    bool complete = (job->plan.out - job->pack.base) % 8 == 0;
    for (int d = 0; d < job->plan.ndim; d++) {
        complete = complete && (dim[d].out >= 0 || dim[d].out % 8 == 0);
    }
    return complete;
}

/* Mark the parameter tiles as empty. Set `one_zero` if all elements share a zero point. */
static void init_tiles(struct pq_job *job)
{
    job->loaded.at.scale = NULL;
    job->loaded.at.zero = NULL;
    job->one_zero = true;
    for (int d = 0; d < job->plan.ndim; d++) {
        job->one_zero = job->one_zero && job->plan.dim[d].zero == 0;
    }
}

/* Initialize the state of a run. Set the pointers to members of the job again, because the
 * pointers in a copied job refer to the original. */
static void init_run(struct pq_job *job)
{
    job->how.run.affine = &job->how.affine;
    job->how.run.general = job->how.general;
    job->how.run.out_of_range = &job->out_of_range;
    job->out_of_range = 0;
    job->flushes_subnormals = false;
    job->has_small_scale = false;
    job->zeros_there = 0;
}

void pq_job_run_row(struct pq_job *job, const struct pq_args *args, size_t n)
{
    init_run(job);
    if (n == 0) {
        return;
    }
    pq_job_set_params(job, args);
    job->flushes_subnormals =
        job->how.flush_min_scale != 0; /* flush until pq_set_flush() finds a small scale */
    static const struct pq_dim single = {.end = 1, .group_size = 1};
    const struct pq_addresses at = {args->scale.data, args->zero.data, args->offset.data};
    const size_t both = pq_bytes_of(args->in.type) + pq_bytes_of(args->out.type);
    job->how.run.exceeds_cache = n * both > PREFETCH_RUN_BYTES;
    const pq_fpenv found = pq_fpenv_set(job->flushes_subnormals);
    pq_load_params(job, 0, &at, &single, 1);
    set_params(job, n, 0);
    job->how.kernel(&job->how.run, args->in.data, args->out.data, n);
    pq_fpenv_leave(found);
}

void pq_job_run(struct pq_job *job, int part, int parts)
{
    if (job->pack.bits != 0 && !has_complete_bytes(job)) { /* part 0 processes everything */
        job->plan.empty = job->plan.empty || part != 0;
        parts = 1;
    }
    pq_plan_part(&job->plan, part, parts, pq_alignment_elements(job));
    init_run(job);
    if (job->plan.empty) {
        return;
    }
    const pq_fpenv found = pq_fpenv_enter();
    if (is_uniform_row(job)) {
        run_uniform_row(job);
    } else {
        int first = 0;
        order_by_input(job);
        init_tiles(job);
        job->exceeds_cache = total_bytes(job) > CACHE_BYTES;
        pq_row_fn *const visit =
            job->how.element != NULL ? job->how.element : choose_walk(job, &first);
        const bool by_tiles = visit == run_tiles || visit == run_transposed;
        job->loads_rows = visit == run_tiles && loads_rows(job);
        job->how.run.exceeds_cache = visit == run_columns && converts_codes(job)
                                         ? job->exceeds_cache
                                         : !by_tiles && needs_prefetch(job);
        pq_for_each_row(&job->plan, first, visit, job);
    }
    pq_fpenv_leave(found);
}

bool pq_job_is_direct(const struct pq_job *job)
{
    int first;
    if (job->plan.empty || converts_codes(job) || job->how.element != NULL) {
        return false;
    }
    pq_row_fn *const visit =
        is_uniform_row(job) ? run_grouped_row : choose_walk(job, &first);
    return visit != run_tiles && visit != run_transposed;
}

bool pq_job_can_run_groups(const struct pq_job *job)
{
    const struct pq_dim *dim = job->plan.dim;
    return !job->plan.empty && job->plan.ndim == 2 && dim[1].end == 1 &&
           dim[0].begin == 0 && has_contiguous_rows(job) && job->how.by_groups &&
           job->how.copy == NULL && job->how.element == NULL;
}

void pq_job_run_groups(struct pq_job *job, struct pq_position at, size_t n, size_t g)
{
    const struct pq_dim *dim = &job->plan.dim[0];
    init_run(job);
    job->one_zero = false;
    pq_load_params(job, 0, &at.params, dim, (n - 1) / g + 1);
    pq_set_flush(job);
    run_groups(job, at.in, at.out, n, g, 0);
    if (job->flushes_subnormals) {
        pq_fpenv_set(0);
    }
}
