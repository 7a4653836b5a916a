# SPDX-License-Identifier: Apache-2.0
"""Declarations of pq.h for `cimport pyquant`; the functions are in the table.

    cimport pyquant

    cdef const pyquant.pq_api *pq = pyquant.pyquant_import()

Pass the folder that `pyquant.embed.get_include()` returns to the compiler.
"""
from libc.stddef cimport ptrdiff_t, size_t
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t


cdef extern from "pq.h" nogil:
    enum:
        PQ_MAX_NDIM
        PQ_API_MAJOR, PQ_API_MINOR

    enum pq_type:
        PQ_NO_TYPE
        PQ_F32, PQ_F16, PQ_BF16, PQ_F64
        PQ_I8, PQ_U8, PQ_I16, PQ_U16, PQ_I32, PQ_U32, PQ_I64, PQ_U64
        PQ_I4, PQ_U4, PQ_I2, PQ_U2
        PQ_F8E4M3FN, PQ_F8E4M3FNUZ, PQ_F8E5M2, PQ_F8E5M2FNUZ
        PQ_F6E2M3FN, PQ_F6E3M2FN, PQ_F4E2M1FN, PQ_F8E8M0FNU
        PQ_F8E3M4, PQ_F8E4M3, PQ_F8E4M3B11FNUZ
        PQ_TYPE_COUNT

    enum pq_round:
        PQ_HALF_EVEN, PQ_HALF_AWAY, PQ_HALF_TOWARD_ZERO, PQ_HALF_UP, PQ_HALF_DOWN
        PQ_AWAY, PQ_TRUNC, PQ_CEIL, PQ_FLOOR, PQ_STOCHASTIC, PQ_HALF_ODD
        PQ_ROUND_COUNT

    enum pq_status:
        PQ_OK, PQ_ERR_NULL, PQ_ERR_NDIM, PQ_ERR_SHAPE, PQ_ERR_TYPE, PQ_ERR_ROUND
        PQ_ERR_PART, PQ_ERR_ZERO, PQ_ERR_OVERLAP, PQ_ERR_SIZE, PQ_ERR_NONFINITE,
        PQ_ERR_OPTION, PQ_ERR_BEYOND

    enum pq_beyond:
        PQ_SATURATE, PQ_WRAP, PQ_REFUSE, PQ_BEYOND_COUNT

    struct pq_array:
        void *data
        const ptrdiff_t *strides
        pq_type type
        int swapped
        const ptrdiff_t *bit_strides

    struct pq_layout:
        size_t size
        int axis
        int bits
        int word_bits
        int group
        ptrdiff_t word_stride
        const unsigned char *order

    struct pq_args:
        size_t size
        int ndim
        const ptrdiff_t *shape
        const ptrdiff_t *block
        pq_array inp "in"
        pq_array out
        pq_array scale
        pq_array zero
        pq_round round
        pq_type precision
        int overflow
        int zero_first
        int narrow_first
        int any_zeros
        pq_array lowest
        pq_array highest
        const pq_layout *in_layout
        const pq_layout *out_layout
        pq_array offset
        int inverse
        const int64_t *fill
        size_t fills
        int64_t lowest_code
        int64_t highest_code
        pq_beyond beyond
        int refuse_nan
        uint64_t seed
        uint64_t start

    enum pq_rule:
        PQ_RULE_USUAL, PQ_RULE_SYMMETRIC, PQ_RULE_ASYMMETRIC, PQ_RULE_ONNX_DYNAMIC

    enum pq_like:
        PQ_LIKE_PYQUANT, PQ_LIKE_ONNXRUNTIME, PQ_LIKE_PYTORCH, PQ_LIKE_ATEN
        PQ_LIKE_FBGEMM, PQ_LIKE_TORCHAO, PQ_LIKE_TORCHAO_NO_CLIP
        PQ_LIKE_COMPRESSED_TENSORS, PQ_LIKE_TFLITE, PQ_LIKE_XNNPACK, PQ_LIKE_QUARK_PO2
        PQ_LIKE_COUNT

    struct pq_choice:
        size_t size
        pq_type real
        pq_type code
        pq_rule rule
        int64_t lowest_code
        int64_t highest_code
        pq_like like
        pq_type scale

    enum pq_arithmetic:
        PQ_ARITHMETIC_FLOAT32, PQ_ARITHMETIC_RNDNU, PQ_ARITHMETIC_TFLITE
        PQ_ARITHMETIC_TFLITE_SINGLE, PQ_ARITHMETIC_FBGEMM, PQ_ARITHMETIC_COUNT

    struct pq_channels:
        const void *data
        ptrdiff_t stride
        pq_type type
        int swapped

    struct pq_requantization:
        size_t size
        int ndim
        const ptrdiff_t *shape
        pq_array inp "in"
        pq_array out
        int axis
        pq_arithmetic arithmetic
        pq_channels multiplier
        pq_channels shift
        pq_channels bias
        int64_t input_zero
        int64_t zero
        int clips
        int64_t lowest_code
        int64_t highest_code

    struct pq_fake:
        size_t size
        pq_type code
        pq_array mask

    enum:
        PQ_PAGES, PQ_PAGE, PQ_COUNTERS

    struct pq_counts:
        size_t size
        int ignore_nonfinite
        uint32_t pending
        uint32_t *counters
        uint64_t count
        uint64_t nan
        uint64_t inf
        double lowest
        double highest
        uint64_t[8] pages

    struct pq_search:
        size_t size
        pq_array weights
        const double *candidates
        size_t count

    enum:
        PQ_MEASURE_CHUNK

    struct pq_error:
        double xx
        double yy
        double xy
        double e
        double ee
        double most
        int64_t index
        int64_t count
        int64_t nan
        int64_t inf
        int64_t exponent
        int64_t low
        int64_t high
        int64_t bad_scales

    enum pq_kind:
        PQ_KIND_NONE, PQ_KIND_REAL, PQ_KIND_INTEGER, PQ_KIND_FLOAT, PQ_KIND_EXPONENT

    struct pq_type_info:
        const char *name
        pq_kind kind
        int bits
        size_t bytes
        pq_type carrier
        int64_t lowest
        uint64_t highest

    struct pq_block_format:
        const char *name
        int id
        int elements
        int bytes
        int encodes
        int weighted

    struct pq_blocks:
        size_t size
        int format
        int ndim
        const ptrdiff_t *shape
        pq_array inp "in"
        pq_array out
        pq_array weights
        int search

    struct pq_codebook:
        size_t size
        int bits

    struct pq_kernels:
        pass

    struct pq_prepared:
        size_t size

    struct pq_api:
        unsigned major
        unsigned minor
        const char *version
        const pq_kernels *kernels
        const pq_kernels *(*isa_find)(const char *name) noexcept nogil
        const char *(*isa_name)(int i) noexcept nogil
        pq_status (*quantize)(
            const pq_kernels *kernels, const pq_args *args, int part, int parts
        ) noexcept nogil
        pq_status (*dequantize)(
            const pq_kernels *kernels, const pq_args *args, int part, int parts
        ) noexcept nogil
        pq_status (*prepare_quantize)(
            pq_prepared *prepared, const pq_kernels *kernels, const pq_args *args
        ) noexcept nogil
        pq_status (*prepare_dequantize)(
            pq_prepared *prepared, const pq_kernels *kernels, const pq_args *args
        ) noexcept nogil
        # The parameter has no name, because its name in C, `in`, is a keyword of Python.
        pq_status (*run)(
            const pq_prepared *prepared, const void *, void *out, int part, int parts
        ) noexcept nogil
        pq_status (*repack)(
            const pq_kernels *kernels, const pq_args *args, int part, int parts
        ) noexcept nogil
        pq_status (*minmax)(
            const pq_kernels *kernels, const pq_args *args, int *finite
        ) noexcept nogil
        pq_status (*count_nonfinite)(
            const pq_args *args, size_t *count, size_t *first
        ) noexcept nogil
        pq_status (*choose)(
            const pq_choice *choice, size_t n, const double *smallest,
            const double *largest, void *scale, void *zero
        ) noexcept nogil
        int (*zeros_within)(
            const pq_args *args, int64_t lo, int64_t hi, int64_t *outside
        ) noexcept nogil
        size_t (*type_size)(pq_type type) noexcept nogil
        int (*type_bits)(pq_type type) noexcept nogil
        const char *(*status_text)(pq_status status) noexcept nogil
        const pq_type_info *(*type_info)(pq_type type) noexcept nogil
        pq_status (*choose_params)(
            const pq_kernels *kernels, const pq_args *args, const pq_choice *choice,
            int part, int parts
        ) noexcept nogil
        pq_status (*count_beyond)(
            const pq_kernels *kernels, const pq_args *args, size_t *count, size_t *first
        ) noexcept nogil
        pq_status (*dynamic_quantize)(
            const pq_kernels *kernels, const pq_args *args, const pq_choice *choice,
            int part, int parts
        ) noexcept nogil
        pq_status (*fake_quantize)(
            const pq_kernels *kernels, const pq_args *args, const pq_fake *fake,
            int part, int parts
        ) noexcept nogil
        pq_status (*histogram)(
            const pq_kernels *kernels, const pq_args *args, pq_counts *counts,
            int part, int parts
        ) noexcept nogil
        int (*histogram_take)(pq_counts *counts, uint64_t *to) noexcept nogil
        pq_status (*requantize)(
            const pq_kernels *kernels, const pq_requantization *args, int part, int parts
        ) noexcept nogil
        pq_status (*fixed_point)(
            pq_arithmetic arithmetic, double multiplier, int32_t *integer, int *shift
        ) noexcept nogil
        pq_status (*search_params)(
            const pq_kernels *kernels, const pq_args *args, const pq_choice *choice,
            const pq_search *search, int part, int parts
        ) noexcept nogil
        pq_status (*measure)(
            const pq_kernels *kernels, const pq_args *args, const unsigned char *kept,
            pq_error *errors, int part, int parts
        ) noexcept nogil
        ptrdiff_t (*measure_chunks)(ptrdiff_t size) noexcept nogil
        void (*add_error)(pq_error *sum, const pq_error *error) noexcept nogil
        pq_status (*measure_params)(
            const pq_kernels *kernels, const pq_args *args, pq_type code,
            const unsigned char *kept, pq_error *errors, int part, int parts
        ) noexcept nogil
        const pq_block_format *(*block_format)(int i) noexcept nogil
        pq_status (*block_decode)(
            const pq_kernels *kernels, const pq_blocks *args, int part, int parts
        ) noexcept nogil
        pq_status (*block_encode)(
            const pq_kernels *kernels, const pq_blocks *args, int part, int parts
        ) noexcept nogil
        pq_status (*codebook_init)(
            pq_codebook *book, const float *values, int count
        ) noexcept nogil
        pq_status (*codebook_quantize)(
            const pq_kernels *kernels, const pq_args *args, const pq_codebook *book,
            int part, int parts
        ) noexcept nogil
        pq_status (*codebook_dequantize)(
            const pq_kernels *kernels, const pq_args *args, const pq_codebook *book,
            int part, int parts
        ) noexcept nogil
        pq_status (*requantize_codes)(
            const pq_kernels *kernels, const pq_args *from_args, const pq_args *to,
            int part, int parts
        ) noexcept nogil


cdef extern from "pyquant.h":
    const pq_api *pyquant_import() except NULL
