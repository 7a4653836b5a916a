/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of weights, as they lie in files: to real numbers, and of these. */
#include "args.h"
#include "engine/params.h"
#include "engine/plan.h"
#include "engine/tile.h"
#include "kernels/kernels.h"
#include "math/fpenv.h"

const struct pq_block_format *pq_block_format(int i)
{
#define ROW(name, ...) {#name, __VA_ARGS__},
    static const struct pq_block_format rows[] = {PQ_FOR_BLOCK_FORMAT(ROW)};
#undef ROW
    return i >= 0 && i < PQ_GGUF_FORMATS ? &rows[i] : NULL;
}

static int place_of(int id)
{
    for (int i = 0; i < PQ_GGUF_FORMATS; i++) {
        if (pq_block_format(i)->id == id) {
            return i;
        }
    }
    return -1;
}

enum { INFINITE = 0x7f800000 };

/* Elements at once, of whole blocks: what follows finds them in L1. */
enum { PIECE = 1024 };

/* Rows whose means are taken at once. */
enum { ROWS = 4 };

/* Bytes of them, at most: of any format. */
#define ROOM(name, id, elements, bytes, ...) char name[PIECE / (elements) * (bytes)];
union room {
    PQ_FOR_BLOCK_FORMAT(ROOM)
};
#undef ROOM

struct coding;

/* Where a piece begins. */
struct place {
    char *blocks, *numbers;
    const char *weights; /* null: none */
};
typedef bool piece_fn(const struct coding *how, const struct place *at, ptrdiff_t n);

/* Numbers, or what their errors count. */
struct numbers {
    const struct pq_array *array;
    ptrdiff_t step;  /* from one to the next */
    ptrdiff_t apart; /* from a block of a piece to the next */
    size_t size;     /* of one */
    bool direct;     /* those of a row are where kernels have them */
};

/* What is the same for all rows, which are as many blocks as follow each other evenly on
 * both sides. */
struct coding {
    const struct pq_kernels *kernels;
    const struct pq_block_format *format;
    piece_fn *piece;      /* false: nothing that comes after it matters */
    pq_decode_fn *decode; /* not where numbers are encoded */
    pq_encode_fn *encode; /* null: by a search */
    struct pq_gguf_search search;
    bool of_rows;         /* whose mean is that of each row */
    pq_narrow_fn *narrow; /* of decoded ones; null: float32 */
    ptrdiff_t row;        /* blocks */
    int ndim;             /* dimensions of rows */
    const ptrdiff_t *shape;
    const struct pq_array *blocks;
    ptrdiff_t byte_step, blocks_apart; /* as those of numbers */
    struct numbers numbers, weights;   /* an array of null: no weights */
};

/* Whether blocks of a piece do not lie as kernels have them. */
static bool is_apart(const struct coding *how)
{
    return how->byte_step != 1 || how->blocks_apart != how->format->bytes;
}

/* As blocks: where bytes lie apart, in a copy. */
static const uint8_t *blocks_at(const struct coding *how, const char *from, ptrdiff_t n,
                                union room *room)
{
    char *bytes = (char *)room;
    if (!is_apart(how)) {
        return (const uint8_t *)from;
    }
    for (ptrdiff_t k = 0; k < n; k++, from += how->blocks_apart) {
        for (ptrdiff_t i = 0; i < how->format->bytes; i++) {
            *bytes++ = from[i * how->byte_step];
        }
    }
    return (const uint8_t *)room;
}

/* Numbers of a piece, a row for each block. */
static struct pq_tile tile_of(const struct coding *how, const struct numbers *numbers,
                              ptrdiff_t n)
{
    const ptrdiff_t elements = how->format->elements;
    const bool flat = numbers->apart == elements * numbers->step;
    return (struct pq_tile){.rows = flat ? 1 : n,
                            .columns = flat ? n * elements : elements,
                            .row_stride = numbers->apart,
                            .column_stride = numbers->step,
                            .size = numbers->size,
                            .swapped = numbers->array->swapped != 0};
}

/* At most PIECE elements. */
static bool decode_piece(const struct coding *how, const struct place *at, ptrdiff_t n)
{
    _Alignas(64) float numbers[PIECE];
    _Alignas(64) double narrowed[PIECE];
    union room room;
    const uint8_t *const blocks = blocks_at(how, at->blocks, n, &room);
    const ptrdiff_t count = n * how->format->elements;
    char *const to = at->numbers;
    /* Kernels that narrow want their numbers aligned. */
    const bool direct = how->numbers.direct &&
                        (how->narrow == NULL || (uintptr_t)to % how->numbers.size == 0);
    if (how->narrow == NULL) {
        how->decode(blocks, direct ? (void *)to : (void *)numbers, (size_t)n);
    } else {
        how->decode(blocks, numbers, (size_t)n);
        how->narrow(numbers, direct ? (void *)to : (void *)narrowed, (size_t)count);
    }
    if (direct) {
        return true;
    }
    const char *const made =
        how->narrow == NULL ? (const char *)numbers : (const char *)narrowed;
    const struct pq_tile tile = tile_of(how, &how->numbers, n);
    pq_scatter(how->kernels, to, made, &tile);
    return true;
}

/* As float32 that lie as kernels have them: `to`, where they have to be made. Of float64,
 * each number is rounded once. */
PQ_NOINLINE const float *numbers_at(const struct coding *how, const struct numbers *numbers,
                                    const char *from, float *to, ptrdiff_t n)
{
    _Alignas(64) double room[PIECE];
    const enum pq_type type = numbers->array->type;
    const ptrdiff_t count = n * how->format->elements;
    pq_widen_fn *const widen = how->kernels->sums->widen;
    if (!numbers->direct || (uintptr_t)from % numbers->size != 0) {
        const struct pq_tile tile = tile_of(how, numbers, n);
        char *const gathered = type == PQ_F32 ? (char *)to : (char *)room;
        pq_gather(how->kernels, gathered, from, &tile);
        from = gathered;
    }
    if (type == PQ_F32) {
        return (const float *)(const void *)from;
    }
    if (type == PQ_F16 && widen != NULL) {
        widen(to, from, (size_t)count);
    } else {
        const struct pq_params in_order = {from, (ptrdiff_t)numbers->size, type, 0};
        pq_load_scales_f32(to, &in_order, (size_t)count);
    }
    return to;
}

/* The same. */
static bool encode_piece(const struct coding *how, const struct place *at, ptrdiff_t n)
{
    _Alignas(64) float numbers[PIECE], weights[PIECE];
    union room room;
    const float *const x = numbers_at(how, &how->numbers, at->numbers, numbers, n);
    const bool apart = is_apart(how);
    char *to = at->blocks;
    uint8_t *const blocks = apart ? (uint8_t *)&room : (uint8_t *)to;
    const uint8_t *made = blocks;
    if (how->encode != NULL) {
        how->encode(x, blocks, (size_t)n);
    } else {
        const float *const w =
            at->weights == NULL ? NULL
                                : numbers_at(how, &how->weights, at->weights, weights, n);
        how->kernels->records->search(&how->search, x, w, blocks, (size_t)n);
    }
    for (ptrdiff_t k = 0; apart && k < n; k++, to += how->blocks_apart) {
        for (ptrdiff_t i = 0; i < how->format->bytes; i++) {
            to[i * how->byte_step] = (char)*made++;
        }
    }
    return true;
}

/* Whether numbers are finite. Two copies of a few are enough for a kernel. */
static bool check_piece(const struct coding *how, const struct place *at, ptrdiff_t n)
{
    _Alignas(64) float numbers[PIECE];
    const ptrdiff_t count = n * how->format->elements;
    const float *const x = numbers_at(how, &how->numbers, at->numbers, numbers, n);
    if (count >= PQ_MAGNITUDES) {
        return how->kernels->magnitude(x, (size_t)count) < INFINITE;
    }
    memmove(numbers, x, (size_t)count * sizeof *x);
    memcpy(numbers + count, numbers, (size_t)count * sizeof *x);
    return how->kernels->magnitude(numbers, 2 * (size_t)count) < INFINITE;
}

/* Whether those of a row go on in the next one. */
static bool goes_on(const struct numbers *numbers, int d, ptrdiff_t elements)
{
    return numbers->array == NULL || numbers->array->strides[d] == numbers->step * elements;
}

/* Rows that go on in the next row are one. Returns how many rows there are. */
static ptrdiff_t join_rows(struct coding *how)
{
    const ptrdiff_t bytes = how->byte_step * how->format->bytes;
    ptrdiff_t rows = 1;
    for (; how->ndim > 0 && !how->of_rows; how->ndim--) {
        const int d = how->ndim - 1;
        const ptrdiff_t elements = how->format->elements * how->row;
        const bool joined = how->blocks->strides[d] == bytes * how->row &&
                            goes_on(&how->numbers, d, elements) &&
                            goes_on(&how->weights, d, elements);
        if (!joined && how->shape[d] != 1) {
            break;
        }
        how->row *= how->shape[d];
    }
    for (int d = 0; d < how->ndim; d++) {
        rows *= how->shape[d];
    }
    return rows;
}

/* Whether an array is what it has to be; one that is written to has no memory twice. */
PQ_NOINLINE enum pq_status check_array(struct pq_args *as, const struct pq_array *array,
                                       bool written)
{
    struct pq_plan plan;
    as->in = as->out = *array;
    enum pq_status status = pq_check_shape(as);
    if (status == PQ_OK) {
        status = pq_check_array(as, array, false);
    }
    return status == PQ_OK && written ? pq_plan_init(&plan, as, pq_bytes_of(array->type))
                                      : status;
}

static enum pq_status check(const struct pq_blocks *args,
                            const struct pq_block_format *format, bool encodes)
{
    struct pq_args as = {.size = sizeof as, .ndim = args->ndim, .shape = args->shape};
    const struct pq_array *const numbers = encodes ? &args->in : &args->out;
    const struct pq_array *const blocks = encodes ? &args->out : &args->in;
    ptrdiff_t bytes[PQ_MAX_NDIM];
    as.in = as.out = *numbers;
    enum pq_status status = pq_check_shape(&as);
    if (status != PQ_OK) {
        return status;
    }
    if (blocks->type != PQ_U8 || !pq_is_real(numbers->type)) {
        return PQ_ERR_TYPE;
    }
    const int last = args->ndim - 1;
    if (last < 0 || args->shape[last] % format->elements != 0 ||
        blocks->bit_strides != NULL || numbers->bit_strides != NULL) {
        return PQ_ERR_SHAPE;
    }
    status = check_array(&as, numbers, !encodes);
    if (status != PQ_OK) {
        return status;
    }
    memcpy(bytes, args->shape, (size_t)args->ndim * sizeof *bytes);
    if (encodes && args->weights.data != NULL) {
        if (!pq_is_real(args->weights.type)) {
            return PQ_ERR_TYPE;
        }
        if (args->weights.bit_strides != NULL) {
            return PQ_ERR_SHAPE;
        }
        status = check_array(&as, &args->weights, false);
        if (status != PQ_OK) {
            return status;
        }
    }
    bytes[last] = bytes[last] / format->elements * format->bytes;
    as.shape = bytes;
    return check_array(&as, blocks, encodes);
}

static bool is_empty(const struct pq_blocks *args)
{
    for (int d = 0; d < args->ndim; d++) {
        if (args->shape[d] == 0) {
            return true;
        }
    }
    return false;
}

/*
 * The extents of the loop over rows of blocks. A piece has at most `piece` blocks. If the
 * elements of a row are not contiguous and the next row is beside them, a piece has one
 * block of each of several rows. The loop then visits `row` rows first, and `rows` counts
 * these groups of rows.
 */
struct walk {
    ptrdiff_t row, rows, columns, piece;
    ptrdiff_t block_column; /* from a column of blocks to the next */
    ptrdiff_t number_column, weight_column;
};

static struct walk walk_of(struct coding *how)
{
    const ptrdiff_t block = how->format->bytes * how->byte_step;
    const ptrdiff_t number = how->format->elements * how->numbers.step;
    const ptrdiff_t weight = how->format->elements * how->weights.step;
    const ptrdiff_t rows = join_rows(how);
    const ptrdiff_t piece = PIECE / how->format->elements;
    struct walk walk = {.rows = rows, .row = how->row, .columns = 1, .piece = piece};
    const int d = how->ndim - 1;
    how->blocks_apart = block;
    how->numbers.apart = number;
    how->weights.apart = weight;
    if (d >= 0 && !how->numbers.direct && !how->of_rows &&
        how->numbers.array->strides[d] == (ptrdiff_t)how->numbers.size) {
        walk = (struct walk){.row = how->shape[d],
                             .rows = rows / how->shape[d] * how->row,
                             .columns = how->row,
                             .piece = piece,
                             .block_column = block,
                             .number_column = number,
                             .weight_column = weight};
        how->blocks_apart = how->blocks->strides[d];
        how->numbers.apart = how->numbers.array->strides[d];
        if (how->weights.array != NULL) {
            how->weights.apart = how->weights.array->strides[d];
            how->weights.direct = false;
        }
        how->ndim = d;
    }
    return walk;
}

/* Where row number `r` begins, in C order. */
static struct place row_at(const struct coding *how, const struct walk *walk, ptrdiff_t r)
{
    const struct pq_array *const weights = how->weights.array;
    struct place row = {(char *)how->blocks->data, (char *)how->numbers.array->data,
                        weights == NULL ? NULL : (char *)weights->data};
    if (walk->columns != 1) {
        row.blocks += r % walk->columns * walk->block_column;
        row.numbers += r % walk->columns * walk->number_column;
        if (weights != NULL) {
            row.weights += r % walk->columns * walk->weight_column;
        }
        r /= walk->columns;
    }
    for (int d = how->ndim - 1; d >= 0; d--) {
        const ptrdiff_t i = r % how->shape[d];
        r /= how->shape[d];
        row.blocks += i * how->blocks->strides[d];
        row.numbers += i * how->numbers.array->strides[d];
        if (weights != NULL) {
            row.weights += i * weights->strides[d];
        }
    }
    return row;
}

/* Means of the squares of the last rows before `end`. */
struct means {
    ptrdiff_t end;
    float of[ROWS];
};

/* Those of rows from number `r` on, whose sums go from the first number to the last: each
 * addition waits for the one before, but not for those of other rows. */
PQ_NOINLINE void take_means(const struct coding *how, const struct walk *walk, ptrdiff_t r,
                            ptrdiff_t rows, struct means *means)
{
    _Alignas(64) float room[ROWS][PIECE];
    const ptrdiff_t elements = how->format->elements;
    const char *from[ROWS];
    const float *x[ROWS] = {NULL};
    float sums[ROWS] = {0};
    for (int j = 0; j < ROWS; j++) {
        from[j] = row_at(how, walk, r + (j < rows ? j : 0)).numbers;
    }
    for (ptrdiff_t i = 0, n; i < how->row; i += n) {
        n = how->row - i < walk->piece ? how->row - i : walk->piece;
        for (int j = 0; j < ROWS; j++) {
            const char *const at = from[j] + i * how->numbers.apart;
            x[j] = j < rows ? numbers_at(how, &how->numbers, at, room[j], n) : x[0];
        }
        for (ptrdiff_t k = 0; k < n * elements; k++) {
            for (int j = 0; j < ROWS; j++) {
                sums[j] += x[j][k] * x[j][k];
            }
            PQ_IN_ORDER(); /* vectors of it are much code */
        }
    }
    for (int j = 0; j < ROWS; j++) {
        means->of[j] = sums[j] / (float)(how->row * elements);
    }
    means->end = r + ROWS;
}

/* That of row number `r`, of rows up to `last` that come one after the other. */
static float mean_of(const struct coding *how, const struct walk *walk, ptrdiff_t r,
                     ptrdiff_t last, struct means *means)
{
    if (r >= means->end) {
        take_means(how, walk, r, last + 1 - r, means);
    }
    return means->of[ROWS - (means->end - r)];
}

/* Blocks [begin, end) of row number `r`. */
static bool code_row(const struct coding *how, const struct walk *walk, ptrdiff_t r,
                     ptrdiff_t begin, ptrdiff_t end)
{
    const ptrdiff_t piece = walk->piece;
    const struct place row = row_at(how, walk, r);
    for (ptrdiff_t i = begin; i < end; i += piece) {
        const struct place at = {
            row.blocks + i * how->blocks_apart, row.numbers + i * how->numbers.apart,
            row.weights == NULL ? NULL : row.weights + i * how->weights.apart};
        if (!how->piece(how, &at, end - i < piece ? end - i : piece)) {
            return false;
        }
    }
    return true;
}

/* Share number `part` of the blocks. Divisions are much of what one block takes. */
static bool code_share(struct coding *how, int part, int parts)
{
    const struct walk walk = walk_of(how);
    const ptrdiff_t all = walk.rows * walk.row;
    pq_narrow_fn *const narrow = how->kernels->long_to_bf16;
    if (how->numbers.array->type == PQ_BF16 && narrow != NULL &&
        all >= PQ_LONG_CALL / how->format->elements) {
        how->narrow = narrow;
    }
    const ptrdiff_t share = parts == 1 ? all : all / parts + (all % parts != 0);
    const pq_fpenv found = pq_fpenv_enter();
    bool wanted = true;
    struct means means = {.end = 0};
    if (part == 0 || part <= (all - 1) / share) { /* the product may be too large */
        const ptrdiff_t begin = share * part;
        const ptrdiff_t end = all - begin > share ? begin + share : all;
        for (ptrdiff_t at = begin; at < end && wanted;) {
            const ptrdiff_t r = at < walk.row ? 0 : at / walk.row, i = at - r * walk.row;
            const ptrdiff_t left = walk.row - i, n = end - at < left ? end - at : left;
            if (how->of_rows) {
                how->search.mean = mean_of(how, &walk, r, (end - 1) / walk.row, &means);
            }
            wanted = code_row(how, &walk, r, i, i + n);
            at += n;
        }
    }
    pq_fpenv_leave(found);
    return wanted;
}

static struct numbers numbers_of(const struct pq_array *array, int last)
{
    const size_t size = pq_bytes_of(array->type);
    const ptrdiff_t step = array->strides[last];
    return (struct numbers){.array = array,
                            .step = step,
                            .size = size,
                            .direct = step == (ptrdiff_t)size && !array->swapped};
}

static enum pq_status code_blocks(const struct pq_kernels *kernels,
                                  const struct pq_blocks *args, piece_fn *piece, int part,
                                  int parts)
{
    const bool encodes = piece != decode_piece;
    struct pq_blocks room;
    const void *given = args;
    if (kernels == NULL || args == NULL) {
        return PQ_ERR_NULL;
    }
    enum pq_status status =
        pq_known_struct(&given, &room, sizeof room, offsetof(struct pq_blocks, weights));
    if (status != PQ_OK) {
        return status;
    }
    args = given;
    const int place = place_of(args->format);
    if (place < 0 || (encodes && !pq_block_format(place)->encodes)) {
        return PQ_ERR_OPTION;
    }
    if (encodes && args->search && pq_block_format(place)->encodes < 2) {
        return PQ_ERR_OPTION;
    }
    if (parts < 1 || part < 0 || part >= parts) {
        return PQ_ERR_PART;
    }
    const struct pq_block_format *const format = pq_block_format(place);
    status = check(args, format, encodes);
    if (status != PQ_OK || is_empty(args)) {
        return status;
    }
    const int last = args->ndim - 1;
    const struct pq_array *const numbers = encodes ? &args->in : &args->out;
    const struct pq_array *const blocks = encodes ? &args->out : &args->in;
    const bool weighted =
        piece == encode_piece && format->weighted && args->weights.data != NULL;
    struct coding how = {
        .kernels = kernels,
        .format = format,
        .piece = piece,
        .decode = kernels->records->decode[place],
        .encode = weighted || args->search ? NULL : kernels->records->encode[place],
        .search = {.place = place, .bytes = format->bytes, .asked = args->search != 0},
        .of_rows = weighted && format->encodes == 1,
        .narrow = pq_narrow_to(kernels->records, numbers->type),
        .row = args->shape[last] / format->elements,
        .ndim = last,
        .shape = args->shape,
        .blocks = blocks,
        .byte_step = blocks->strides[last],
        .numbers = numbers_of(numbers, last),
    };
    if (weighted) {
        how.weights = numbers_of(&args->weights, last);
    }
    return code_share(&how, part, parts) ? PQ_OK : PQ_ERR_NONFINITE;
}

enum pq_status pq_block_decode(const struct pq_kernels *kernels,
                               const struct pq_blocks *args, int part, int parts)
{
    return code_blocks(kernels, args, decode_piece, part, parts);
}

enum pq_status pq_block_encode(const struct pq_kernels *kernels,
                               const struct pq_blocks *args, int part, int parts)
{
    return code_blocks(kernels, args, encode_piece, part, parts);
}

enum pq_status pq_block_finite(const struct pq_kernels *kernels,
                               const struct pq_blocks *args, int part, int parts)
{
    return code_blocks(kernels, args, check_piece, part, parts);
}
