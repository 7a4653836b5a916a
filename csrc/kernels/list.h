/* SPDX-License-Identifier: Apache-2.0 */
/* The members of struct pq_kernels, one row each. This file has no include guard. Before
 * each inclusion, the including file defines one macro:
 *
 * KERNEL(member, type, dimensions, presence, program, test)
 *
 * The member is a kernel, or an array of kernels. `presence` states which tables have the
 * kernel, and under which name:
 *
 *     ALWAYS   each table has PQ_NAME(member)
 *     LONG     each table has PQ_LONG(PQ_NAME(member))
 *     VECTOR   like ALWAYS, but null in the scalar table
 *     LOCAL    each table has a static function `member` of its file
 *     WIDE     like LOCAL, but null without registers of 512 bits
 *     FLOATS   an array of PQ_NAME(member_f32) and PQ_NAME(member_f64)
 *     others   an array with an entry for each type, size or format: see table.inc. A null
 *              entry: no kernel for this index
 *
 * `program` names a test program, and `test` names a function of this program. The function
 * compares the kernel on each instruction set. Its parameter has the type of the member.
 * See tests/c/drivers.h. */

/* One kernel for each pair of types. */
KERNEL(quantize, pq_kernel_fn, [PQ_REALS][PQ_CARRIERS], PAIRS, PAIRS, check_quantize)
KERNEL(dequantize, pq_kernel_fn, [PQ_CARRIERS][PQ_REALS], PAIRS, PAIRS, check_dequantize)
KERNEL(dequantize_row, pq_row_scales_fn, , ALWAYS, KERNELS, check_dequantize_row)
/* Kernels of packed int4 and uint4. Runs start at a full byte. Groups are complete, and the
 * size of a group is a multiple of PQ_PACKED_GROUP. Quotients are float32 and round half to
 * even. */
KERNEL(dequantize_packed, pq_kernel_fn, [2][PQ_REALS], REALS, KERNELS,
       check_dequantize_packed)
KERNEL(quantize_packed, pq_kernel_fn, [PQ_REALS], REALS, KERNELS, check_quantize_packed)
/* General kernels: any mode, any types except 64-bit codes, and float64 parameters. */
KERNEL(quantize_general, pq_kernel_fn, , LONG, PAIRS, check_quantize_general)
KERNEL(dequantize_general, pq_kernel_fn, , ALWAYS, PAIRS, check_dequantize_general)
/* Kernels of 64-bit codes, with 64-bit zero points. quantize_int64 applies the policies of
 * a struct pq_affine, too. */
KERNEL(quantize_int64, pq_kernel_fn, , ALWAYS, PAIRS, check_quantize_int64)
KERNEL(dequantize_int64, pq_kernel_fn, , ALWAYS, PAIRS, check_dequantize_int64)
/* Affine kernels of any types and group sizes: see struct pq_affine. */
KERNEL(quantize_affine, pq_kernel_fn, , LONG, API, check_quantize_affine)
KERNEL(dequantize_affine, pq_kernel_fn, , ALWAYS, API, check_dequantize_affine)
/* Like dequantize_packed, with offsets to add. If the entry is null, the engine unpacks to
 * bytes first. */
KERNEL(dequantize_affine_packed, pq_kernel_fn, [2][PQ_REALS], WIDE_PACKED, KERNELS,
       check_dequantize_affine_packed)
/* Quantize by stochastic rounding, with one pair of parameters or one for each element. */
KERNEL(quantize_stochastic, pq_kernel_fn, , ALWAYS, PAIRS, check_quantize_stochastic)
KERNEL(random_words, pq_random_words_fn, , ALWAYS, KERNELS, check_random_words)
/* Codes of fewer than 8 bits, which the kernels of pairs process as int8 and uint8. Three
 * kernels are for codes of 4 and 2 bits: `extend` sign-extends or zero-extends the low bits
 * of each byte; `unpack` extracts packed codes to bytes, and extends the codes; `narrow`
 * saturates int8 or uint8 to the range of the codes, also if `x` equals `y`. pack[b] joins
 * the low b bits of each byte to packed bytes. unpack_bits[b] reverses pack[b], without
 * sign extension. */
KERNEL(extend, pq_bytes_fn, [PQ_NARROWS], NARROWS, KERNELS, check_extend)
KERNEL(unpack, pq_bytes_fn, [PQ_NARROWS], NARROWS, KERNELS, check_unpack)
KERNEL(narrow, pq_bytes_fn, [PQ_NARROWS], NARROWS, KERNELS, check_narrow)
KERNEL(pack, pq_bytes_fn, [8], BITS, KERNELS, check_pack)
KERNEL(unpack_bits, pq_bytes_fn, [8], BITS, KERNELS, check_unpack_bits)
/* Kernels of 24-bit codes. dequantize_24 and quantize_24 convert codes to float32 and back,
 * half to even, with one scale, and at least a chunk of codes. unpack_24 and pack_24
 * convert codes to int32 and back, with saturation. */
KERNEL(dequantize_24, pq_kernel_fn, , VECTOR, KERNELS, check_dequantize_24)
KERNEL(quantize_24, pq_kernel_fn, , VECTOR, KERNELS, check_quantize_24)
KERNEL(unpack_24, pq_bytes_fn, , ALWAYS, KERNELS, check_unpack_24)
KERNEL(pack_24, pq_bytes_fn, , ALWAYS, KERNELS, check_pack_24)
KERNEL(unpack_words, pq_unpack_words_fn, , LOCAL, KERNELS, check_unpack_words)
/* Convert float32 to another type. Callers use pq_narrow_to(). */
KERNEL(to_f16, pq_narrow_fn, , LOCAL, RECORDS, check_to_f16)
KERNEL(to_bf16, pq_narrow_fn, , LOCAL, RECORDS, check_to_bf16)
KERNEL(to_f64, pq_narrow_fn, , LOCAL, RECORDS, check_to_f64)
KERNEL(transpose, pq_transpose_fn, [4], SIZES, KERNELS, check_transpose) /* [log2(size)] */
KERNEL(split_pixels, pq_pixels_fn, , VECTOR, KERNELS, check_split_pixels)
KERNEL(join_pixels, pq_pixels_fn, , VECTOR, KERNELS, check_join_pixels)
KERNEL(minmax, pq_minmax_fn, [PQ_EXTREMA], EXTREMA, KERNELS, check_minmax)
KERNEL(minmax_groups, pq_minmax_groups_fn, [PQ_EXTREMA], EXTREMA, KERNELS,
       check_minmax_groups)
KERNEL(minmax_columns, pq_minmax_columns_fn, [PQ_EXTREMA], EXTREMA, KERNELS,
       check_minmax_columns)
KERNEL(choose_middle, pq_choose_fn, , ALWAYS, KERNELS, check_choose_middle)
KERNEL(choose_asymmetric, pq_choose_fn, , ALWAYS, KERNELS, check_choose_asymmetric)
KERNEL(requantize, pq_requantize_fn, , ALWAYS, REQUANTIZE, check_requantize)
KERNEL(levels, pq_levels_fn, , ALWAYS, DYNAMIC, check_levels)
KERNEL(fake_quantize, pq_kernel_fn, , ALWAYS, KERNELS, check_fake_quantize)
KERNEL(magnitude, pq_magnitude_fn, , ALWAYS, KERNELS, check_magnitude)
/* Kernels of sums of float32 or float64 elements. widen_f16 is null in the scalar table,
 * and callers then convert element by element. */
KERNEL(add_errors, pq_errors_fn, [2], FLOATS, SUMS, check_add_errors)
KERNEL(total_errors, pq_total_fn, , ALWAYS, SUMS, check_total_errors)
KERNEL(widen_f16, pq_widen_fn, , VECTOR, SUMS, check_widen_f16)
KERNEL(fit, pq_fit_fn, [2], FLOATS, SUMS, check_fit)
KERNEL(sum_squares, pq_squares_fn, [2], FLOATS, SUMS, check_sum_squares)
KERNEL(grid_sums, pq_grid_fn, , ALWAYS, SUMS, check_grid_sums)
KERNEL(fit_codes, pq_fit_codes_fn, , ALWAYS, SUMS, check_fit_codes)
/* Kernels of GGUF blocks. If an entry of `encode` is null, search_blocks encodes the
 * format, or the format has no encoder. */
KERNEL(decode, pq_decode_fn, [PQ_GGUF_FORMATS], FORMATS, RECORDS, check_decode)
KERNEL(encode, pq_encode_fn, [PQ_GGUF_FORMATS], FORMATS, ENCODE, check_encode)
KERNEL(search_blocks, pq_gguf_search_fn, , ALWAYS, ENCODE, check_search_blocks)
/* Kernels of codebooks, see kernels.h. dequantize_book_packed converts packed 4-bit codes
 * to float32, for tables of 16 values. If it is null, the engine unpacks to bytes first. */
KERNEL(quantize_book, pq_kernel_fn, , ALWAYS, CODEBOOK, check_quantize_book)
KERNEL(dequantize_book, pq_kernel_fn, , ALWAYS, CODEBOOK, check_dequantize_book)
KERNEL(dequantize_book_packed, pq_kernel_fn, , WIDE, CODEBOOK, check_book_packed)

#undef KERNEL
