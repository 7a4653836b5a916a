# Declarations of the functions of csrc/pq.h and args.h, and of the guard in
# csrc/math/fpenv.h, for the modules that are linked with them.
from libc.stddef cimport ptrdiff_t, size_t
from libc.stdint cimport int32_t, int64_t, uint16_t, uint64_t

from pyquant cimport (
    pq_api,
    pq_args,
    pq_arithmetic,
    pq_block_format as pq_block_row,
    pq_blocks,
    pq_choice,
    pq_codebook,
    pq_counts,
    pq_error,
    pq_fake,
    pq_kernels,
    pq_like,
    pq_prepared,
    pq_requantization,
    pq_rule,
    pq_search,
    pq_status,
    pq_type,
    pq_type_info as pq_type_row,
)


# Functions that run a part of a job have a parameter of type `const void *`, because
# Job.more has this type.
cdef extern from "pq.h" nogil:
    pq_status pq_search_params(
        const pq_kernels *, const pq_args *, const pq_choice *, const pq_search *, int, int
    )
    ptrdiff_t pq_measure_chunks(ptrdiff_t)
    pq_status pq_measure(
        const pq_kernels *, const pq_args *, const unsigned char *, pq_error *, int, int
    )
    pq_status pq_measure_params(
        const pq_kernels *, const pq_args *, pq_type, const unsigned char *, pq_error *,
        int, int
    )
    void pq_add_error(pq_error *, const pq_error *)

    const pq_block_row *row_of_blocks "pq_block_format"(int)
    pq_status pq_block_decode(const pq_kernels *, const void *, int, int)
    pq_status pq_block_encode(const pq_kernels *, const void *, int, int)

    const pq_kernels *pq_isa_find(const char *name)
    const char *pq_isa_name(int i)
    pq_status pq_quantize(const pq_kernels *, const pq_args *, int, int)
    pq_status pq_dequantize(const pq_kernels *, const pq_args *, int, int)
    pq_status pq_prepare_quantize(pq_prepared *, const pq_kernels *, const pq_args *)
    pq_status pq_prepare_dequantize(pq_prepared *, const pq_kernels *, const pq_args *)
    pq_status pq_run(const pq_prepared *, const void *, void *, int, int)
    pq_status pq_repack(const pq_kernels *, const pq_args *, int, int)
    pq_status pq_minmax(const pq_kernels *, const pq_args *, int *)
    pq_status pq_count_nonfinite(const pq_args *, size_t *, size_t *)
    pq_status pq_choose(
        const pq_choice *, size_t, const double *, const double *, void *, void *
    )
    pq_status pq_choose_params(
        const pq_kernels *, const pq_args *, const pq_choice *, int, int
    )
    pq_status pq_dynamic_quantize(
        const pq_kernels *, const pq_args *, const void *, int, int
    )
    pq_status pq_fake_quantize(const pq_kernels *, const pq_args *, const void *, int, int)
    pq_status pq_count_beyond(const pq_kernels *, const pq_args *, size_t *, size_t *)
    pq_status pq_histogram(const pq_kernels *, const pq_args *, pq_counts *, int, int)
    int pq_histogram_take(pq_counts *, uint64_t *)
    pq_status pq_requantize(const pq_kernels *, const void *, int, int)
    pq_status pq_requantize_codes(
        const pq_kernels *, const pq_args *, const void *, int, int
    )
    pq_status pq_codebook_init(pq_codebook *, const float *, int)
    pq_status pq_codebook_quantize(
        const pq_kernels *, const pq_args *, const void *, int, int
    )
    pq_status pq_codebook_dequantize(
        const pq_kernels *, const pq_args *, const void *, int, int
    )
    pq_status pq_fixed_point(pq_arithmetic, double, int32_t *, int *)
    int pq_zeros_within(const pq_args *, int64_t, int64_t, int64_t *)
    size_t pq_type_size(pq_type)
    int pq_type_bits(pq_type)
    const pq_type_row *row_of_type "pq_type_info"(pq_type)
    void pq_api_init(pq_api *, const pq_kernels *, const char *)


cdef extern from "blocks/formats.h" nogil:
    pq_status pq_block_finite(const pq_kernels *, const void *, int, int)


cdef extern from "ops/levels.h" nogil:
    pq_status pq_fake_levels(const pq_kernels *, const pq_args *, int, int)


cdef extern from "ops/channels.h" nogil:
    struct pq_channel_counts:
        bint ignore_nonfinite
        int mantissa_bits
        size_t channels
        size_t lanes
        uint64_t *count
        uint64_t *nan
        uint64_t *inf
        double *lowest
        double *highest
        void *table
        bint is_32_bit
        size_t stride
        int rows
        int room
        uint16_t *pages
        bint full

    pq_status pq_count_channels(
        const pq_kernels *, const pq_args *, pq_channel_counts *, int, int
    )


cdef extern from "ops/presets.h" nogil:
    struct pq_preset:
        const char *name
        const char *words
        int most_bits

    const pq_preset *pq_preset_of(pq_like)
    bint pq_preset_has_code(const pq_preset *, pq_type)
    bint pq_preset_has_rule(const pq_preset *, pq_rule)
    pq_rule pq_usual_rule(pq_like, pq_type)


cdef extern from "args.h" nogil:
    bint pq_unsigned_zeros_fit(const pq_args *, uint64_t, uint64_t, uint64_t *)
    pq_status pq_quantize_run(const pq_kernels *, const pq_args *)
    pq_status pq_dequantize_run(const pq_kernels *, const pq_args *)


cdef extern from "math/fpenv.h" nogil:
    ctypedef struct pq_fpenv:
        pass

    pq_fpenv pq_fpenv_enter()
    void pq_fpenv_leave(pq_fpenv)

    ctypedef struct pq_fpenv_all:
        pass

    pq_fpenv_all pq_fpenv_enter_all()
    void pq_fpenv_leave_all(pq_fpenv_all)
