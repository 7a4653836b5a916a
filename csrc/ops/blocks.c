/* SPDX-License-Identifier: Apache-2.0 */
/* Encode real numbers to GGUF blocks, and decode GGUF blocks. */
#include "args.h"
#include "engine/params.h"
#include "engine/plan.h"
#include "engine/tile.h"
#include "kernels/kernels.h"
#include "math/fpenv.h"
#include "math/scalar_math.h"

const struct pq_block_format *pq_block_format(int i)
{
#define ROW(name, ...) {#name, __VA_ARGS__},
    static const struct pq_block_format rows[] = {PQ_FOR_BLOCK_FORMAT(ROW)};
#undef ROW
    return i >= 0 && i < PQ_GGUF_FORMATS ? &rows[i] : NULL;
}

/* Return the index of the format that has the number `id` in ggml. Return -1 if no format
 * has this number. */
static int format_index(int id)
{
    for (int i = 0; i < PQ_GGUF_FORMATS; i++) {
        if (pq_block_format(i)->id == id) {
            return i;
        }
    }
    return -1;
}

enum {
    GGUF_TILE_ELEMENTS = PQ_SIZE(1024, 256), /* number of elements of a tile */
    MEAN_ROWS = 4 /* number of rows that compute_means() sums in parallel */
};

/* Memory for the encoded blocks of a tile. Each member has the size for one format. */
#define BYTES(name, id, elements, bytes, ...)                                              \
    char name[GGUF_TILE_ELEMENTS / (elements) * (bytes)];
union block_buffer {
    PQ_FOR_BLOCK_FORMAT(BYTES)
};
#undef BYTES

struct block_job;

/* The indices of the arrays of a call. OPERANDS is the number of arrays, including the
 * optional WEIGHTS. */
enum { BLOCKS, NUMBERS, WEIGHTS, OPERANDS };

/* The address of the first block of a tile in each array; at[WEIGHTS] can be null. */
struct position {
    char *at[OPERANDS];
};
/* Process `n` blocks. Return false if an element is not finite; the call then returns
 * PQ_ERR_NONFINITE. */
typedef bool tile_fn(const struct block_job *job, const struct position *at, ptrdiff_t n);

/* An array of blocks, numbers or weights. Strides are in bytes. */
struct operand {
    const struct pq_array *array;
    ptrdiff_t elements;       /* number of numbers, weights or bytes of a block */
    ptrdiff_t step;           /* distance of the starts of adjacent elements */
    ptrdiff_t block_stride;   /* distance of the starts of adjacent blocks */
    size_t size;              /* number of bytes of an element */
    bool is_direct;           /* elements of a block are contiguous, in native byte order */
    const ptrdiff_t *strides; /* distance of row starts along each dimension */
};

/* The parameters of a call. A row is a sequence of blocks at equal distances. */
struct block_job {
    const struct pq_kernels *kernels;
    const struct pq_block_format *format;
    tile_fn *run_tile;
    pq_decode_fn *decode;         /* kernel of pq_block_decode() */
    pq_encode_fn *encode;         /* kernel of pq_block_encode(); NULL: use `search` */
    struct pq_gguf_search search; /* parameters of encoding by search */
    bool needs_means;             /* the search needs the mean square of each row */
    pq_narrow_fn *narrow;   /* converts decoded float32 to the result; NULL: not needed */
    ptrdiff_t row_blocks;   /* number of blocks of a row */
    ptrdiff_t tile_blocks;  /* largest number of blocks of a tile */
    ptrdiff_t rows;         /* number of rows: product of `shape` */
    int ndim;               /* number of dimensions of `shape` */
    const ptrdiff_t *shape; /* number of rows along each dimension */
    int operands;           /* number of arrays: 3 with weights, else 2 */
    struct operand operand[OPERANDS];
};

/* Describe the elements of a tile as a rectangle with one row, or with a row for each
 * block. */
static struct pq_tile tile_of_operand(const struct operand *operand, ptrdiff_t n)
{
    const ptrdiff_t elements = operand->elements;
    const bool flat = operand->block_stride == elements * operand->step;
    return (struct pq_tile){.rows = flat ? 1 : n,
                            .columns = flat ? n * elements : elements,
                            .row_stride = operand->block_stride,
                            .column_stride = operand->step,
                            .size = operand->size,
                            .swapped = operand->array->swapped != 0};
}

/* Decode `n` blocks to float32, convert the numbers to the type of the result, and copy
 * them to the output. */
static bool decode_tile(const struct block_job *job, const struct position *at, ptrdiff_t n)
{
    _Alignas(64) float numbers[GGUF_TILE_ELEMENTS];
    _Alignas(64) double narrowed[GGUF_TILE_ELEMENTS];
    union block_buffer room;
    const struct operand *const operand = &job->operand[NUMBERS];
    const struct pq_tile bytes = tile_of_operand(&job->operand[BLOCKS], n);
    const void *blocks = at->at[BLOCKS];
    if (!pq_tile_direct(&bytes)) {
        pq_gather(job->kernels, (char *)&room, at->at[BLOCKS], &bytes);
        blocks = &room;
    }
    char *const to = at->at[NUMBERS];
    /* The kernel `narrow` requires aligned results. */
    const bool direct =
        operand->is_direct && (job->narrow == NULL || (uintptr_t)to % operand->size == 0);
    void *const last = direct                ? (void *)to
                       : job->narrow == NULL ? (void *)numbers
                                             : (void *)narrowed;
    job->decode(blocks, job->narrow == NULL ? last : numbers, (size_t)n);
    if (job->narrow != NULL) {
        job->narrow(numbers, last, (size_t)(n * operand->elements));
    }
    if (!direct) {
        const struct pq_tile tile = tile_of_operand(operand, n);
        pq_scatter(job->kernels, to, last, &tile);
    }
    return true;
}

/* Return the address of contiguous, aligned float32 elements of `n` blocks. The address is
 * `from` if the caller's elements are usable, else `to`, after a conversion with one
 * rounding. */
PQ_NOINLINE const float *load_numbers(const struct block_job *job, int operand,
                                      const char *from, float *to, ptrdiff_t n)
{
    _Alignas(64) double room[GGUF_TILE_ELEMENTS];
    const struct operand *const numbers = &job->operand[operand];
    const enum pq_type type = numbers->array->type;
    if (!numbers->is_direct || (uintptr_t)from % numbers->size != 0) {
        const struct pq_tile tile = tile_of_operand(numbers, n);
        char *const gathered = type == PQ_F32 ? (char *)to : (char *)room;
        pq_gather(job->kernels, gathered, from, &tile);
        from = gathered;
    }
    if (type == PQ_F32) {
        return (const float *)(const void *)from;
    }
    pq_load_reals_f32(job->kernels, to, from, type, (size_t)(n * job->format->elements));
    return to;
}

/* Encode `n` blocks. */
static bool encode_tile(const struct block_job *job, const struct position *at, ptrdiff_t n)
{
    _Alignas(64) float numbers[GGUF_TILE_ELEMENTS], weights[GGUF_TILE_ELEMENTS];
    union block_buffer room;
    const float *const x = load_numbers(job, NUMBERS, at->at[NUMBERS], numbers, n);
    const struct pq_tile bytes = tile_of_operand(&job->operand[BLOCKS], n);
    const bool direct = pq_tile_direct(&bytes);
    uint8_t *const blocks = direct ? (uint8_t *)at->at[BLOCKS] : (uint8_t *)&room;
    if (job->encode != NULL) {
        job->encode(x, blocks, (size_t)n);
    } else {
        const float *const w =
            at->at[WEIGHTS] == NULL
                ? NULL
                : load_numbers(job, WEIGHTS, at->at[WEIGHTS], weights, n);
        job->kernels->search_blocks(&job->search, x, w, blocks, (size_t)n);
    }
    if (!direct) {
        pq_scatter(job->kernels, at->at[BLOCKS], (char *)&room, &bytes);
    }
    return true;
}

/* Return true if all numbers of `n` blocks are finite. The kernel needs at least
 * PQ_MAGNITUDES numbers, so repeat the numbers of a shorter tile. */
static bool is_tile_finite(const struct block_job *job, const struct position *at,
                           ptrdiff_t n)
{
    _Alignas(64) float numbers[GGUF_TILE_ELEMENTS];
    const ptrdiff_t count = n * job->format->elements;
    const float *const x = load_numbers(job, NUMBERS, at->at[NUMBERS], numbers, n);
    if (count >= PQ_MAGNITUDES) {
        return job->kernels->magnitude(x, (size_t)count) < PQ_INFINITY_BITS;
    }
    memmove(numbers, x, (size_t)count * sizeof *x);
    memcpy(numbers + count, numbers, (size_t)count * sizeof *x);
    return job->kernels->magnitude(numbers, 2 * (size_t)count) < PQ_INFINITY_BITS;
}

/* Join each row with the next row if no gap separates the two rows. If adjacent numbers
 * belong to different rows, exchange the last dimension of rows with the dimension of
 * blocks. `room` is memory for the exchanged extents and strides. */
static void choose_rows(struct block_job *job, ptrdiff_t (*room)[PQ_MAX_NDIM])
{
    for (; job->ndim > 0 && !job->needs_means; job->ndim--) {
        const int d = job->ndim - 1;
        bool joined = true;
        for (int i = 0; i < job->operands; i++) {
            const struct operand *const operand = &job->operand[i];
            joined &= operand->strides[d] == operand->block_stride * job->row_blocks;
        }
        if (!joined && job->shape[d] != 1) {
            break;
        }
        job->row_blocks *= job->shape[d];
    }
    const int d = job->ndim - 1;
    const struct operand *const numbers = &job->operand[NUMBERS];
    if (d >= 0 && !numbers->is_direct && !job->needs_means &&
        numbers->strides[d] == (ptrdiff_t)numbers->size) {
        for (int i = 0; i < job->operands; i++) {
            struct operand *const operand = &job->operand[i];
            memcpy(room[i], operand->strides, (size_t)d * sizeof **room);
            room[i][d] = operand->block_stride;
            operand->block_stride = operand->strides[d];
            operand->strides = room[i];
        }
        memcpy(room[OPERANDS], job->shape, (size_t)d * sizeof **room);
        room[OPERANDS][d] = job->row_blocks;
        job->row_blocks = job->shape[d];
        job->shape = room[OPERANDS];
        job->operand[WEIGHTS].is_direct = false;
    }
    job->rows = 1;
    for (int k = 0; k <= d; k++) {
        job->rows *= job->shape[k];
    }
}

/* Check the strides of an array. The elements of an output array must not share memory. */
PQ_NOINLINE enum pq_status check_array(struct pq_args *as, const struct pq_array *array,
                                       bool is_written)
{
    struct pq_plan plan;
    as->in = as->out = *array;
    PQ_TRY(pq_check_array(as, array, false));
    return is_written ? pq_plan_init(&plan, as, pq_bytes_of(array->type)) : PQ_OK;
}

static enum pq_status check_arrays(const struct pq_blocks *args,
                                   const struct pq_block_format *format, bool encodes)
{
    struct pq_args as = {.size = sizeof as, .ndim = args->ndim, .shape = args->shape};
    const struct pq_array *const numbers = encodes ? &args->in : &args->out;
    const struct pq_array *const blocks = encodes ? &args->out : &args->in;
    ptrdiff_t bytes[PQ_MAX_NDIM];
    PQ_TRY(pq_check_shape(&as));
    PQ_REQUIRE(blocks->type == PQ_U8 && pq_is_real(numbers->type), PQ_ERR_TYPE);
    const int last = args->ndim - 1;
    PQ_REQUIRE(last >= 0 && args->shape[last] % format->elements == 0 &&
                   blocks->bit_strides == NULL && numbers->bit_strides == NULL,
               PQ_ERR_SHAPE);
    PQ_TRY(check_array(&as, numbers, !encodes));
    if (encodes && args->weights.data != NULL) {
        PQ_REQUIRE(pq_is_real(args->weights.type), PQ_ERR_TYPE);
        PQ_REQUIRE(args->weights.bit_strides == NULL, PQ_ERR_SHAPE);
        PQ_TRY(check_array(&as, &args->weights, false));
    }
    memcpy(bytes, args->shape, (size_t)args->ndim * sizeof *bytes);
    bytes[last] = bytes[last] / format->elements * format->bytes;
    as.shape = bytes;
    PQ_TRY(pq_check_shape(&as));
    return check_array(&as, blocks, encodes);
}

/* Return the address of row `r` in each array. `r` counts rows in C order. */
static struct position row_position(const struct block_job *job, ptrdiff_t r)
{
    struct position row = {{NULL}};
    for (int i = 0; i < job->operands; i++) {
        row.at[i] = (char *)job->operand[i].array->data;
    }
    for (int d = job->ndim - 1; d >= 0; d--) {
        const ptrdiff_t index = r % job->shape[d];
        r /= job->shape[d];
        for (int i = 0; i < job->operands; i++) {
            row.at[i] += index * job->operand[i].strides[d];
        }
    }
    return row;
}

/* The mean squares of the MEAN_ROWS rows before row `end`. */
struct means {
    ptrdiff_t end;
    float of[MEAN_ROWS];
};

/* Compute the mean squares of at most MEAN_ROWS rows. The first is row `r`, and `rows` rows
 * are left. Each sum adds the numbers of a row in order, so each addition waits for the
 * previous addition of the row. Additions of several rows run in parallel. */
PQ_NOINLINE void compute_means(const struct block_job *job, ptrdiff_t r, ptrdiff_t rows,
                               struct means *means)
{
    _Alignas(64) float room[MEAN_ROWS][GGUF_TILE_ELEMENTS];
    const ptrdiff_t elements = job->format->elements;
    const char *from[MEAN_ROWS];
    const float *x[MEAN_ROWS] = {NULL};
    float sums[MEAN_ROWS] = {0};
    for (int j = 0; j < MEAN_ROWS; j++) {
        from[j] = row_position(job, r + (j < rows ? j : 0)).at[NUMBERS];
    }
    for (ptrdiff_t i = 0, n; i < job->row_blocks; i += n) {
        n = job->row_blocks - i < job->tile_blocks ? job->row_blocks - i : job->tile_blocks;
        for (int j = 0; j < MEAN_ROWS; j++) {
            const char *const at = from[j] + i * job->operand[NUMBERS].block_stride;
            x[j] = j < rows ? load_numbers(job, NUMBERS, at, room[j], n) : x[0];
        }
        for (ptrdiff_t k = 0; k < n * elements; k++) {
            for (int j = 0; j < MEAN_ROWS; j++) {
                sums[j] += x[j][k] * x[j][k];
            }
            PQ_IN_ORDER(); /* prevents vectorization, which adds code and no speed */
        }
    }
    for (int j = 0; j < MEAN_ROWS; j++) {
        means->of[j] = sums[j] / (float)(job->row_blocks * elements);
    }
    means->end = r + MEAN_ROWS;
}

/* Process blocks [begin, end) of row `r`, tile by tile. Return false if a tile fails. */
static bool run_row(const struct block_job *job, ptrdiff_t r, ptrdiff_t begin,
                    ptrdiff_t end)
{
    const ptrdiff_t most = job->tile_blocks;
    const struct position row = row_position(job, r);
    for (ptrdiff_t i = begin; i < end; i += most) {
        struct position at = {{NULL}};
        for (int k = 0; k < job->operands; k++) {
            at.at[k] = row.at[k] + i * job->operand[k].block_stride;
        }
        if (!job->run_tile(job, &at, end - i < most ? end - i : most)) {
            return false;
        }
    }
    return true;
}

/* Process the blocks of one part of the call. Return false if a tile fails. Avoid divisions
 * for a single part and for row 0, because a division is slow compared with one block. */
static bool run_part(struct block_job *job, int part, int parts)
{
    ptrdiff_t room[OPERANDS + 1][PQ_MAX_NDIM];
    choose_rows(job, room);
    const ptrdiff_t columns = job->row_blocks, all = job->rows * columns;
    const struct pq_share share =
        parts == 1 ? (struct pq_share){0, all} : pq_share_of(all, part, parts);
    const pq_fpenv found = pq_fpenv_enter();
    bool is_running = true;
    struct means means = {.end = 0};
    for (ptrdiff_t at = share.begin; at < share.end && is_running;) {
        const ptrdiff_t r = at < columns ? 0 : at / columns, i = at - r * columns;
        const ptrdiff_t left = columns - i, rest = share.end - at;
        const ptrdiff_t n = rest < left ? rest : left;
        if (job->needs_means && r >= means.end) {
            compute_means(job, r, (share.end - 1) / columns + 1 - r, &means);
        }
        if (job->needs_means) {
            job->search.mean = means.of[MEAN_ROWS - (means.end - r)];
        }
        is_running = run_row(job, r, i, i + n);
        at += n;
    }
    pq_fpenv_leave(found);
    return is_running;
}

static struct operand as_operand(const struct pq_array *array, int last, ptrdiff_t elements)
{
    const size_t size = pq_bytes_of(array->type);
    const ptrdiff_t step = array->strides[last];
    return (struct operand){.array = array,
                            .elements = elements,
                            .step = step,
                            .block_stride = elements * step,
                            .size = size,
                            .is_direct = step == (ptrdiff_t)size && !array->swapped,
                            .strides = array->strides};
}

static enum pq_status run_blocks(const struct pq_kernels *kernels,
                                 const struct pq_blocks *args, tile_fn *run_tile, int part,
                                 int parts)
{
    const bool encodes = run_tile != decode_tile;
    const size_t least = offsetof(struct pq_blocks, weights);
    struct pq_blocks copy;
    PQ_REQUIRE(kernels != NULL && args != NULL, PQ_ERR_NULL);
    if (args->size != sizeof copy) { /* copying `job` takes 2 % of a short call */
        PQ_TRY(pq_copy_struct(&copy, args, sizeof copy, least));
        args = &copy;
    }
    const int place = format_index(args->format);
    const struct pq_block_format *const format = pq_block_format(place);
    const int encoder = !encodes ? 0 : args->search ? 2 : 1; /* as in `format->encodes` */
    PQ_REQUIRE(format != NULL && format->encodes >= encoder, PQ_ERR_OPTION);
    PQ_TRY(pq_check_part(part, parts));
    PQ_TRY(check_arrays(args, format, encodes));
    const int last = args->ndim - 1;
    const struct pq_array *const numbers = encodes ? &args->in : &args->out;
    const struct pq_array *const blocks = encodes ? &args->out : &args->in;
    const bool weighted =
        run_tile == encode_tile && format->weighted && args->weights.data != NULL;
    struct block_job job = {
        .kernels = kernels,
        .format = format,
        .run_tile = run_tile,
        .decode = kernels->decode[place],
        .encode = weighted || args->search ? NULL : kernels->encode[place],
        .search = {.place = place, .bytes = format->bytes, .asked = args->search != 0},
        .needs_means = weighted && format->encodes == 1,
        .narrow = pq_narrow_to(kernels, numbers->type),
        .row_blocks = args->shape[last] / format->elements,
        .tile_blocks = GGUF_TILE_ELEMENTS / format->elements,
        .ndim = last,
        .shape = args->shape,
        .operands = weighted ? OPERANDS : WEIGHTS,
        .operand = {[BLOCKS] = as_operand(blocks, last, format->bytes),
                    [NUMBERS] = as_operand(numbers, last, format->elements)},
    };
    if (weighted) {
        job.operand[WEIGHTS] = as_operand(&args->weights, last, format->elements);
    }
    return run_part(&job, part, parts) ? PQ_OK : PQ_ERR_NONFINITE;
}

enum pq_status pq_block_decode(const struct pq_kernels *kernels,
                               const struct pq_blocks *args, int part, int parts)
{
    return run_blocks(kernels, args, decode_tile, part, parts);
}

enum pq_status pq_block_encode(const struct pq_kernels *kernels,
                               const struct pq_blocks *args, int part, int parts)
{
    return run_blocks(kernels, args, encode_tile, part, parts);
}

enum pq_status pq_block_finite(const struct pq_kernels *kernels,
                               const struct pq_blocks *args, int part, int parts)
{
    return run_blocks(kernels, args, is_tile_finite, part, parts);
}
