# The functions of csrc/pq.h and csrc/run.h and the guard in csrc/fpenv.h, for what they are
# linked with.
from libc.stddef cimport size_t
from libc.stdint cimport int64_t

from pyquant cimport (
    pq_api,
    pq_args,
    pq_choice,
    pq_kernels,
    pq_prepared,
    pq_status,
    pq_type,
    pq_type_info as pq_type_row,
)


cdef extern from "pq.h" nogil:
    const pq_kernels *pq_isa_find(const char *name) noexcept
    const char *pq_isa_name(int i) noexcept
    pq_status pq_quantize(const pq_kernels *, const pq_args *, int, int) noexcept
    pq_status pq_dequantize(const pq_kernels *, const pq_args *, int, int) noexcept
    pq_status pq_prepare_quantize(
        pq_prepared *, const pq_kernels *, const pq_args *
    ) noexcept
    pq_status pq_prepare_dequantize(
        pq_prepared *, const pq_kernels *, const pq_args *
    ) noexcept
    pq_status pq_run(const pq_prepared *, const void *, void *, int, int) noexcept
    pq_status pq_repack(const pq_kernels *, const pq_args *, int, int) noexcept
    pq_status pq_minmax(const pq_kernels *, const pq_args *, int *) noexcept
    pq_status pq_count_nonfinite(const pq_args *, size_t *, size_t *) noexcept
    pq_status pq_choose(
        const pq_choice *, size_t, const double *, const double *, void *, void *
    ) noexcept
    pq_status pq_choose_params(
        const pq_kernels *, const pq_args *, const pq_choice *, int, int
    ) noexcept
    pq_status pq_count_beyond(
        const pq_kernels *, const pq_args *, size_t *, size_t *
    ) noexcept
    int pq_zeros_within(const pq_args *, int64_t, int64_t, int64_t *) noexcept
    size_t pq_type_size(pq_type) noexcept
    int pq_type_bits(pq_type) noexcept
    const pq_type_row *row_of_type "pq_type_info"(pq_type) noexcept
    void pq_api_init(pq_api *, const pq_kernels *, const char *) noexcept


cdef extern from "run.h" nogil:
    pq_status pq_quantize_run(const pq_kernels *, const pq_args *) noexcept
    pq_status pq_dequantize_run(const pq_kernels *, const pq_args *) noexcept


cdef extern from "fpenv.h" nogil:
    ctypedef struct pq_fpenv:
        pass

    pq_fpenv pq_fpenv_enter() noexcept
    void pq_fpenv_leave(pq_fpenv) noexcept
