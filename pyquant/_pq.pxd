# The mirror of csrc/pq.h, and of the guard in csrc/fpenv.h.
from libc.stddef cimport ptrdiff_t, size_t
from libc.stdint cimport int64_t


cdef extern from "pq.h" nogil:
    enum:
        PQ_MAX_NDIM

    enum pq_type:
        PQ_F32, PQ_F16, PQ_BF16, PQ_F64
        PQ_I8, PQ_U8, PQ_I16, PQ_U16, PQ_I32, PQ_U32, PQ_I64, PQ_U64
        PQ_I4, PQ_U4, PQ_I2, PQ_U2
        PQ_F8E4M3FN, PQ_F8E4M3FNUZ, PQ_F8E5M2, PQ_F8E5M2FNUZ
        PQ_F6E2M3FN, PQ_F6E3M2FN, PQ_F4E2M1FN, PQ_F8E8M0FNU

    enum pq_round:
        PQ_HALF_AWAY, PQ_HALF_TOWARD_ZERO, PQ_HALF_UP, PQ_HALF_DOWN, PQ_HALF_EVEN
        PQ_AWAY, PQ_TRUNC, PQ_CEIL, PQ_FLOOR

    enum pq_status:
        PQ_OK, PQ_ERR_NULL, PQ_ERR_NDIM, PQ_ERR_SHAPE, PQ_ERR_TYPE, PQ_ERR_ROUND
        PQ_ERR_PART, PQ_ERR_ZERO, PQ_ERR_OVERLAP

    struct pq_array:
        void *data
        const ptrdiff_t *strides
        pq_type type
        int swapped
        int packed

    struct pq_args:
        int ndim
        const ptrdiff_t *shape
        const ptrdiff_t *block
        pq_array inp "in"
        pq_array out
        pq_array scale
        pq_array zero
        pq_round round
        pq_type precision
        int saturate
        int zero_first

    struct pq_choice:
        pq_type real
        pq_type code
        int symmetric

    struct pq_kernels:
        pass

    const pq_kernels *pq_isa_find(const char *name) noexcept
    const char *pq_isa_name(int i) noexcept
    pq_status pq_quantize(const pq_kernels *, const pq_args *, int, int) noexcept
    pq_status pq_dequantize(const pq_kernels *, const pq_args *, int, int) noexcept
    pq_status pq_repack(const pq_kernels *, const pq_args *, int, int) noexcept
    pq_status pq_minmax(const pq_kernels *, const pq_args *, int *) noexcept
    pq_status pq_count_nonfinite(const pq_args *, size_t *, size_t *) noexcept
    pq_status pq_choose(
        const pq_choice *, size_t, const double *, const double *, void *, void *
    ) noexcept
    int pq_zeros_within(const pq_args *, int64_t, int64_t, int64_t *) noexcept
    size_t pq_type_size(pq_type) noexcept
    int pq_type_bits(pq_type) noexcept


cdef extern from "fpenv.h" nogil:
    ctypedef struct pq_fpenv:
        pass

    pq_fpenv pq_fpenv_enter() noexcept
    void pq_fpenv_leave(pq_fpenv) noexcept
