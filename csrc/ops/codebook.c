/* SPDX-License-Identifier: Apache-2.0 */
/* Codebooks: build the search tree of a table, and run calls with a table. */
#include "args.h"
#include "engine/job.h"
#include "math/fpenv.h"
#include "math/scalar_math.h"

/* Sort the codes by value. The sort is stable. It is fast for tables that are already
 * sorted, which are the usual case. */
static void sort_codes(uint8_t *code, const float *values, int count)
{
    for (int i = 0; i < count; i++) {
        int k = i;
        for (; k > 0 && values[code[k - 1]] > values[i]; k--) {
            code[k] = code[k - 1];
        }
        code[k] = (uint8_t)i;
    }
}

/* Fill in the search tree. The root divides the 2^levels positions of the sorted table into
 * two halves, and each next level divides each part in two. The bound of a division is the
 * midpoint of the values before and after the division. The midpoint is rounded correctly:
 * the float64 sum is inexact only if the exponents differ by at least 30, and the smaller
 * value then has no effect. */
static void build_tree(struct pq_codebook *book, int count)
{
    const int all = 1 << book->levels;
    int k = 1;
    for (int part = all; part > 1; part /= 2) {
        for (int i = part / 2 - 1; i < all; i += part) {
            const uint8_t *const code = book->code + i;
            book->bound[k] = pq_f32_bits(PQ_INFINITY_BITS);
            if (i < count - 1) {
                const double a = (double)book->value[code[0]];
                book->bound[k] = (float)((a + (double)book->value[code[1]]) / 2);
            }
            k++;
        }
    }
}

enum pq_status pq_codebook_init(struct pq_codebook *book, const float *values, int count)
{
    int bits = 2;
    bool finite = true;
    PQ_REQUIRE(book != NULL && values != NULL, PQ_ERR_NULL);
    PQ_REQUIRE(book->size == sizeof *book, PQ_ERR_SIZE);
    book->levels = 0;
    for (; bits < 8 && 1 << bits < count; bits++) {
    }
    PQ_REQUIRE(count == 1 << bits, PQ_ERR_OPTION);
    const pq_fpenv found = pq_fpenv_enter();
    memset(book, 0, sizeof *book);
    book->size = sizeof *book;
    sort_codes(book->code, values, count);
    book->bits = bits;
    book->levels = count <= PQ_SMALL_BOOK ? 4 : 8;
    for (int i = 0; i < PQ_BOOK; i++) {
        book->value[i] = values[i % count];
        finite = finite && pq_is_finite_f32(book->value[i]);
    }
    build_tree(book, count);
    book->levels = finite ? book->levels : 0;
    pq_fpenv_leave(found);
    return finite ? PQ_OK : PQ_ERR_OPTION;
}

/* Return true if codes of this array and layout can be the indices of the table. Every
 * table can dequantize codes of 8 bits, because the kernels ignore upper bits. */
static bool can_index(const struct pq_array *codes, const struct pq_layout *layout,
                      const struct pq_codebook *book, bool quantizes)
{
    const int packed = pq_packed_code_bits(codes, layout);
    const int bits = packed != 0 ? packed : pq_bits_of(codes->type);
    return quantizes ? bits >= book->bits : bits <= book->bits || packed == 0;
}

static enum pq_status run_codebook(const struct pq_kernels *kernels,
                                   const struct pq_args *args,
                                   const struct pq_codebook *book, bool quantizes, int part,
                                   int parts)
{
    struct pq_args room;
    struct pq_job job;
    PQ_TRY(pq_check_call(&args, &room, kernels, true, part, parts));
    PQ_REQUIRE(book != NULL, PQ_ERR_NULL);
    PQ_REQUIRE(book->size == sizeof *book, PQ_ERR_SIZE);
    PQ_REQUIRE(book->levels != 0, PQ_ERR_NULL);
    const struct pq_array *const codes = quantizes ? &args->out : &args->in;
    const struct pq_array *const numbers = quantizes ? &args->in : &args->out;
    const enum pq_type code = codes->type, real = numbers->type;
    PQ_REQUIRE((code == PQ_U8 || code == PQ_U4 || code == PQ_U2) && pq_is_real(real) &&
                   numbers->bit_strides == NULL && args->zero.data == NULL,
               PQ_ERR_TYPE);
    PQ_TRY(pq_check_options(args, pq_options_of(args), PQ_ACCEPTS_CODEBOOK));
    const struct pq_layout *const layout = quantizes ? args->out_layout : args->in_layout;
    PQ_REQUIRE(can_index(codes, layout, book, quantizes), PQ_ERR_OPTION);
    job.how = pq_no_method;
    job.how.kernel = quantizes ? kernels->quantize_book : kernels->dequantize_book;
    job.how.general = true;
    job.how.by_groups = true;
    job.how.single_scale = !quantizes || real != PQ_F64;
    job.how.run.book = book;
    job.how.run.in = args->in.type;
    job.how.run.out = args->out.type;
    job.how.run.inverse = args->inverse != 0;
    if (!quantizes && code == PQ_U4 && codes->bit_strides != NULL && real == PQ_F32 &&
        book->levels == 4 && !args->inverse) {
        job.how.packed = kernels->dequantize_book_packed;
        job.how.run.high_first = pq_is_high_first(args->in_layout);
    }
    return pq_job_run_args(&job, kernels, args, part, parts);
}

enum pq_status pq_codebook_quantize(const struct pq_kernels *kernels,
                                    const struct pq_args *args,
                                    const struct pq_codebook *book, int part, int parts)
{
    return run_codebook(kernels, args, book, true, part, parts);
}

enum pq_status pq_codebook_dequantize(const struct pq_kernels *kernels,
                                      const struct pq_args *args,
                                      const struct pq_codebook *book, int part, int parts)
{
    return run_codebook(kernels, args, book, false, part, parts);
}
