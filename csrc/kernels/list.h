/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members of struct pq_kernels, one row each. This file has no include guard. A file
 * that includes this file defines two macros:
 *
 * KERNEL(member, type, dimensions, presence, test)   a kernel, or an array of kernels
 * TABLE(member, type, test)                          a table of further kernels
 *
 * `presence` states which tables have the kernel, and under which name:
 *
 *     ALWAYS   each table has PQ_NAME(member)
 *     LONG     each table has PQ_LONG(PQ_NAME(member))
 *     VECTOR   like ALWAYS, but null in the scalar table
 *     LOCAL    each table has a static function `member` of its file
 *     WIDE     like LOCAL, but null without registers of 512 bits
 *     TYPES    an array that table.inc fills; a null entry: no kernel for this index
 *
 * `test` names a test program and its function. The function compares the kernel on each
 * instruction set. See tests/c/drivers.h.
 */

/* One kernel for each pair of types. */
KERNEL(quantize, pq_kernel_fn, [PQ_REALS][PQ_CARRIERS], TYPES, PAIRS(check_pairs))
KERNEL(dequantize, pq_kernel_fn, [PQ_CARRIERS][PQ_REALS], TYPES, PAIRS(check_pairs))
/* Packed int4 and uint4. Runs start at a full byte. Groups are complete and have multiples
 * of PQ_PACKED_GROUP elements. Quotients are float32 and round half to even. */
KERNEL(dequantize_packed, pq_kernel_fn, [2][PQ_REALS], TYPES, KERNELS(check_packed))
KERNEL(quantize_packed, pq_kernel_fn, [PQ_REALS], TYPES, KERNELS(check_packed))
/* Any mode, and any types except codes of 64 bits, with float64 parameters. */
KERNEL(quantize_general, pq_kernel_fn, , LONG, PAIRS(check_pairs))
KERNEL(dequantize_general, pq_kernel_fn, , ALWAYS, PAIRS(check_pairs))
/* Codes of 64 bits, with zero points of 64 bits. quantize_int64 applies the policies of a
 * struct pq_affine, too. */
KERNEL(quantize_int64, pq_kernel_fn, , ALWAYS, PAIRS(check_pairs))
KERNEL(dequantize_int64, pq_kernel_fn, , ALWAYS, PAIRS(check_pairs))
/* Any types and sizes of groups: see struct pq_affine. */
KERNEL(quantize_affine, pq_kernel_fn, , LONG, API(check_affine))
KERNEL(dequantize_affine, pq_kernel_fn, , ALWAYS, API(check_affine))
/* Like dequantize_packed, and adds offsets. Null: the engine unpacks to bytes first. */
KERNEL(dequantize_affine_packed, pq_kernel_fn, [2][PQ_REALS], TYPES, KERNELS(check_packed))
/* Stochastic rounding to any type, with one pair of parameters or a pair for each element.
 */
KERNEL(quantize_stochastic, pq_kernel_fn, , ALWAYS, PAIRS(check_pairs))
KERNEL(random_words, pq_random_words_fn, , ALWAYS, KERNELS(check_words))
/* Codes of fewer than 8 bits, which the kernels of pairs process as int8 and uint8. For
 * codes of 4 and 2 bits, extend: sign-extend or zero-extend the low bits of each byte.
 * unpack: extract packed codes to bytes, and extend them. narrow: saturate int8 or uint8 to
 * the range of the codes; `x` and `y` may be equal. pack[b]: join the low b bits of each
 * byte to packed bytes. unpack_bits[b]: the inverse of pack[b], without sign extension. */
KERNEL(extend, pq_bytes_fn, [PQ_NARROWS], TYPES, KERNELS(check_bytes))
KERNEL(unpack, pq_bytes_fn, [PQ_NARROWS], TYPES, KERNELS(check_bytes))
KERNEL(narrow, pq_bytes_fn, [PQ_NARROWS], TYPES, KERNELS(check_bytes))
KERNEL(pack, pq_bytes_fn, [8], TYPES, KERNELS(check_bits))
KERNEL(unpack_bits, pq_bytes_fn, [8], TYPES, KERNELS(check_bits))
KERNEL(unpack_words, pq_unpack_words_fn, , LOCAL, KERNELS(check_unpack_words))
/* float32 to another type. Callers use pq_narrow_to(). */
KERNEL(to_f16, pq_narrow_fn, , LOCAL, RECORDS(check_narrowing))
KERNEL(to_bf16, pq_narrow_fn, , LOCAL, RECORDS(check_narrowing))
KERNEL(to_f64, pq_narrow_fn, , LOCAL, RECORDS(check_narrowing))
KERNEL(transpose, pq_transpose_fn, [4], TYPES, KERNELS(check_transpose)) /* [log2(size)] */
KERNEL(split_pixels, pq_pixels_fn, , VECTOR, KERNELS(check_pixels))
KERNEL(join_pixels, pq_pixels_fn, , VECTOR, KERNELS(check_pixels))
KERNEL(minmax, pq_minmax_fn, [PQ_EXTREMA], TYPES, KERNELS(check_extrema))
KERNEL(minmax_groups, pq_minmax_groups_fn, [PQ_EXTREMA], TYPES, KERNELS(check_extrema))
KERNEL(minmax_columns, pq_minmax_columns_fn, [PQ_EXTREMA], TYPES, KERNELS(check_extrema))
KERNEL(choose_middle, pq_choose_fn, , ALWAYS, KERNELS(check_choose))
KERNEL(choose_asymmetric, pq_choose_fn, , ALWAYS, KERNELS(check_choose))
KERNEL(requantize, pq_requantize_fn, , ALWAYS, REQUANTIZE(check_calls))
KERNEL(levels, pq_levels_fn, , ALWAYS, DYNAMIC(check_levels))
KERNEL(fake_quantize, pq_kernel_fn, , ALWAYS, FUZZ(check_fake))
KERNEL(magnitude, pq_magnitude_fn, , ALWAYS, KERNELS(check_magnitude))
TABLE(sums, struct pq_sums, SUMS(check_kernels))
TABLE(records, struct pq_gguf_kernels, RECORDS(check_kernels))
TABLE(books, struct pq_books, CODEBOOK(check_books))
/* Like books->dequantize, from packed 4-bit codes to float32, for tables of 16 values.
 * Null: the engine unpacks to bytes first. */
KERNEL(dequantize_book_packed, pq_kernel_fn, , WIDE, CODEBOOK(check_book_packed))

#undef KERNEL
#undef TABLE
