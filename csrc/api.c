/* SPDX-License-Identifier: Apache-2.0 */
/* The table of public functions, and the texts of status codes. */
#include "pq.h"

const char *pq_status_text(enum pq_status status)
{
    static const char *const texts[] = {
        [PQ_OK] = "success",
        [PQ_ERR_NULL] = "a pointer that is needed is null",
        [PQ_ERR_NDIM] = "the number of dimensions is negative or more than 64",
        [PQ_ERR_SHAPE] = ("an extent is negative, a block is smaller than one element, or "
                          "the array is larger than memory, or a layout makes no sense"),
        [PQ_ERR_TYPE] = "an argument has a type that it cannot have",
        [PQ_ERR_ROUND] = "the rounding mode is unknown",
        [PQ_ERR_PART] = "the part is not one of the parts",
        [PQ_ERR_ZERO] = "a zero point is outside the range of codes",
        [PQ_ERR_OVERLAP] = "elements of the output share memory with each other",
        [PQ_ERR_SIZE] = "a struct has a size that this version does not know",
        [PQ_ERR_NONFINITE] = "an element is NaN or infinite",
        [PQ_ERR_OPTION] =
            ("a code is outside the range of the quantized type, or options do "
             "not go together"),
        [PQ_ERR_BEYOND] = "an element is out of range",
    };
    const unsigned i = (unsigned)status;
    return i < sizeof texts / sizeof texts[0] ? texts[i] : "an unknown status";
}

void pq_api_init(struct pq_api *api, const struct pq_kernels *kernels, const char *version)
{
    *api = (struct pq_api){
        .major = PQ_API_MAJOR,
        .minor = PQ_API_MINOR,
        .version = version,
        .kernels = kernels,
        .isa_find = pq_isa_find,
        .isa_name = pq_isa_name,
        .quantize = pq_quantize,
        .dequantize = pq_dequantize,
        .prepare_quantize = pq_prepare_quantize,
        .prepare_dequantize = pq_prepare_dequantize,
        .run = pq_run,
        .repack = pq_repack,
        .minmax = pq_minmax,
        .count_nonfinite = pq_count_nonfinite,
        .choose = pq_choose,
        .zeros_within = pq_zeros_within,
        .type_size = pq_type_size,
        .type_bits = pq_type_bits,
        .status_text = pq_status_text,
        .type_info = pq_type_info,
        .choose_params = pq_choose_params,
        .count_beyond = pq_count_beyond,
        .dynamic_quantize = pq_dynamic_quantize,
        .fake_quantize = pq_fake_quantize,
        .histogram = pq_histogram,
        .histogram_take = pq_histogram_take,
        .requantize = pq_requantize,
        .fixed_point = pq_fixed_point,
        .search_params = pq_search_params,
        .measure = pq_measure,
        .measure_chunks = pq_measure_chunks,
        .add_error = pq_add_error,
        .measure_params = pq_measure_params,
        .block_format = pq_block_format,
        .block_decode = pq_block_decode,
        .block_encode = pq_block_encode,
        .codebook_init = pq_codebook_init,
        .codebook_quantize = pq_codebook_quantize,
        .codebook_dequantize = pq_codebook_dequantize,
        .requantize_codes = pq_requantize_codes,
    };
}
