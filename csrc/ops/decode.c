/* SPDX-License-Identifier: Apache-2.0 */
/* decode: blocks of weights, as they lie in files, to real numbers. */
#include "../args.h"
#include "../fpenv.h"
#include "../kernels.h"
#include "../plan.h"
#include "../tile.h"

const struct pq_block_format *pq_block_format(int i)
{
#define ROW(name, id, elements, bytes) {#name, id, elements, bytes},
    static const struct pq_block_format rows[] = {PQ_FOR_BLOCK_FORMAT(ROW)};
#undef ROW
    return i >= 0 && i < PQ_BLOCK_FORMATS ? &rows[i] : NULL;
}

static int place_of(int id)
{
    for (int i = 0; i < PQ_BLOCK_FORMATS; i++) {
        if (pq_block_format(i)->id == id) {
            return i;
        }
    }
    return -1;
}

/* Elements decoded at once, of whole blocks: what follows finds them in L1. */
enum { PIECE = 1024 };

/* Bytes of them, at most: of any format. */
#define ROOM(name, id, elements, bytes) char name[PIECE / (elements) * (bytes)];
union room {
    PQ_FOR_BLOCK_FORMAT(ROOM)
};
#undef ROOM

/* What is the same for all rows, which are as many blocks as follow each other evenly on
 * both sides. */
struct decoding {
    const struct pq_kernels *kernels;
    const struct pq_block_format *format;
    pq_decode_fn *decode;
    pq_narrow_fn *narrow; /* null: float32 */
    ptrdiff_t row;        /* blocks */
    int ndim;             /* dimensions of rows */
    const ptrdiff_t *shape;
    const struct pq_array *in, *out;
    ptrdiff_t in_step, out_step; /* from a byte, and an element, to the next */
    size_t size;                 /* of an element of `out` */
    bool direct;                 /* elements of a row of `out` are where narrow puts them */
};

/* As blocks: where bytes lie apart, in a copy. */
static const uint8_t *blocks_at(const struct decoding *how, const char *from, ptrdiff_t n,
                                union room *room)
{
    if (how->in_step == 1) {
        return (const uint8_t *)from;
    }
    char *const bytes = (char *)room;
    for (ptrdiff_t i = 0; i < n * how->format->bytes; i++) {
        bytes[i] = from[i * how->in_step];
    }
    return (const uint8_t *)bytes;
}

/* At most PIECE elements. */
static void decode_piece(const struct decoding *how, const char *from, char *to,
                         ptrdiff_t n)
{
    _Alignas(64) float numbers[PIECE];
    _Alignas(64) double narrowed[PIECE];
    union room room;
    const uint8_t *const blocks = blocks_at(how, from, n, &room);
    const ptrdiff_t count = n * how->format->elements;
    /* Kernels that narrow want their numbers aligned. */
    const bool direct =
        how->direct && (how->narrow == NULL || (uintptr_t)to % how->size == 0);
    if (how->narrow == NULL) {
        how->decode(blocks, direct ? (void *)to : (void *)numbers, (size_t)n);
    } else {
        how->decode(blocks, numbers, (size_t)n);
        how->narrow(numbers, direct ? (void *)to : (void *)narrowed, (size_t)count);
    }
    if (direct) {
        return;
    }
    const char *const made =
        how->narrow == NULL ? (const char *)numbers : (const char *)narrowed;
    const struct pq_tile tile = {.rows = 1,
                                 .columns = count,
                                 .column_stride = how->out_step,
                                 .size = how->size,
                                 .swapped = how->out->swapped != 0};
    pq_scatter(how->kernels, to, made, &tile);
}

/* Blocks [begin, end) of row number `r`, in C order. */
static void decode_row(const struct decoding *how, ptrdiff_t r, ptrdiff_t begin,
                       ptrdiff_t end)
{
    const struct pq_block_format *const format = how->format;
    const char *from = (const char *)how->in->data;
    char *to = (char *)how->out->data;
    for (int d = how->ndim - 1; d >= 0; d--) {
        const ptrdiff_t i = r % how->shape[d];
        r /= how->shape[d];
        from += i * how->in->strides[d];
        to += i * how->out->strides[d];
    }
    const ptrdiff_t piece = PIECE / format->elements;
    for (ptrdiff_t i = begin; i < end; i += piece) {
        const ptrdiff_t n = end - i < piece ? end - i : piece;
        decode_piece(how, from + i * format->bytes * how->in_step,
                     to + i * format->elements * how->out_step, n);
    }
}

/* Rows that go on in the next row are one. Returns how many rows there are. */
static ptrdiff_t join_rows(struct decoding *how)
{
    const ptrdiff_t in_block = how->in_step * how->format->bytes;
    const ptrdiff_t out_block = how->out_step * how->format->elements;
    ptrdiff_t rows = 1;
    for (; how->ndim > 0; how->ndim--) {
        const int d = how->ndim - 1;
        const bool goes_on = how->in->strides[d] == in_block * how->row &&
                             how->out->strides[d] == out_block * how->row;
        if (!goes_on && how->shape[d] != 1) {
            break;
        }
        how->row *= how->shape[d];
    }
    for (int d = 0; d < how->ndim; d++) {
        rows *= how->shape[d];
    }
    return rows;
}

/* Whether the arrays are what they have to be. */
static enum pq_status check(const struct pq_blocks *args,
                            const struct pq_block_format *format)
{
    struct pq_args as = {.size = sizeof as, .ndim = args->ndim, .shape = args->shape};
    struct pq_plan plan;
    ptrdiff_t bytes[PQ_MAX_NDIM];
    as.in = as.out = args->out;
    enum pq_status status = pq_check_shape(&as);
    if (status != PQ_OK) {
        return status;
    }
    if (args->in.type != PQ_U8 || !pq_is_real(args->out.type)) {
        return PQ_ERR_TYPE;
    }
    const int last = args->ndim - 1;
    if (last < 0 || args->shape[last] % format->elements != 0 ||
        args->in.bit_strides != NULL || args->out.bit_strides != NULL) {
        return PQ_ERR_SHAPE;
    }
    status = pq_check_array(&as, &args->out, false);
    if (status == PQ_OK) {
        status = pq_plan_init(&plan, &as, pq_bytes_of(args->out.type));
    }
    if (status != PQ_OK) {
        return status;
    }
    memcpy(bytes, args->shape, (size_t)args->ndim * sizeof *bytes);
    bytes[last] = bytes[last] / format->elements * format->bytes;
    as.shape = bytes;
    status = pq_check_shape(&as);
    return status != PQ_OK ? status : pq_check_array(&as, &args->in, false);
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

/* To types but float32. */
static pq_narrow_fn *narrow_to(const struct pq_records *records, enum pq_type type)
{
    return type == PQ_F16    ? records->to_f16
           : type == PQ_BF16 ? records->to_bf16
           : type == PQ_F64  ? records->to_f64
                             : NULL;
}

enum pq_status pq_block_decode(const struct pq_kernels *kernels,
                               const struct pq_blocks *args, int part, int parts)
{
    struct pq_blocks room;
    const void *given = args;
    if (kernels == NULL || args == NULL) {
        return PQ_ERR_NULL;
    }
    enum pq_status status = pq_known_struct(&given, &room, sizeof room, sizeof room);
    if (status != PQ_OK) {
        return status;
    }
    args = given;
    const int place = place_of(args->format);
    if (place < 0) {
        return PQ_ERR_OPTION;
    }
    if (parts < 1 || part < 0 || part >= parts) {
        return PQ_ERR_PART;
    }
    const struct pq_block_format *const format = pq_block_format(place);
    status = check(args, format);
    if (status != PQ_OK || is_empty(args)) {
        return status;
    }
    const int last = args->ndim - 1;
    const size_t size = pq_bytes_of(args->out.type);
    struct decoding how = {
        .kernels = kernels,
        .format = format,
        .decode = kernels->records->decode[place],
        .narrow = narrow_to(kernels->records, args->out.type),
        .row = args->shape[last] / format->elements,
        .ndim = last,
        .shape = args->shape,
        .in = &args->in,
        .out = &args->out,
        .in_step = args->in.strides[last],
        .out_step = args->out.strides[last],
        .size = size,
        .direct = args->out.strides[last] == (ptrdiff_t)size && !args->out.swapped,
    };
    const ptrdiff_t rows = join_rows(&how), all = rows * how.row;
    const ptrdiff_t share = all / parts + (all % parts != 0);
    const pq_fpenv found = pq_fpenv_enter();
    if (part <= (all - 1) / share) { /* the product may be too large */
        ptrdiff_t at = share * part;
        const ptrdiff_t end = all - at > share ? at + share : all;
        while (at < end) {
            const ptrdiff_t r = at / how.row, begin = at % how.row;
            const ptrdiff_t left = how.row - begin, n = end - at < left ? end - at : left;
            decode_row(&how, r, begin, begin + n);
            at += n;
        }
    }
    pq_fpenv_leave(found);
    return PQ_OK;
}
