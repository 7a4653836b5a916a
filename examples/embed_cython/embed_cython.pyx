# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3, boundscheck=False, wraparound=False
# cython: freethreading_compatible=True
"""Quantize embeddings to int8, with a scale for each row, in a loop without the GIL."""
cimport pyquant
from libc.math cimport fabsf
from libc.stddef cimport ptrdiff_t
from libc.string cimport memset

cdef const pyquant.pq_api *pq = pyquant.pyquant_import()


cdef float scale_of(const float *row, Py_ssize_t n) noexcept nogil:
    """Return the scale with which the largest magnitude of a row gets the code 127."""
    cdef float most = 0
    cdef Py_ssize_t i
    for i in range(n):
        most = max(most, fabsf(row[i]))
    return most / 127 if most > 0 else 1


cdef pyquant.pq_status quantize_rows(
    const float[:, ::1] x, float[::1] scales, signed char[:, ::1] out
) noexcept nogil:
    cdef pyquant.pq_args args
    cdef ptrdiff_t[2] shape, strides, codes, rows
    cdef Py_ssize_t i
    for i in range(x.shape[0]):
        scales[i] = scale_of(&x[i, 0], x.shape[1])
    shape[0], shape[1] = x.shape[0], x.shape[1]
    strides[0], strides[1] = x.strides[0], x.strides[1]
    codes[0], codes[1] = out.strides[0], out.strides[1]
    rows[0], rows[1] = sizeof(float), 0
    memset(&args, 0, sizeof(args))
    args.size = sizeof(args)
    args.ndim = 2
    args.shape = shape
    args.inp.data = <void *>&x[0, 0]
    args.inp.strides = strides
    args.inp.type = pyquant.PQ_F32
    args.out.data = &out[0, 0]
    args.out.strides = codes
    args.out.type = pyquant.PQ_I8
    args.scale.data = &scales[0]
    args.scale.strides = rows
    args.scale.type = pyquant.PQ_F32
    return pq.quantize(pq.kernels, &args, 0, 1)


def quantize_embeddings(const float[:, ::1] x, float[::1] scales, signed char[:, ::1] out):
    """Quantize `x` to `out`, and write the scale of each row to `scales`."""
    cdef pyquant.pq_status status
    if (out.shape[0], out.shape[1]) != (x.shape[0], x.shape[1]):
        raise ValueError(
            f"out: expected shape {x.shape[0], x.shape[1]}, "
            f"got {out.shape[0], out.shape[1]}"
        )
    if scales.shape[0] != x.shape[0]:
        raise ValueError(f"scales: expected {x.shape[0]} elements, got {scales.shape[0]}")
    if x.shape[0] == 0 or x.shape[1] == 0:
        return
    with nogil:
        status = quantize_rows(x, scales, out)
    if status != pyquant.PQ_OK:
        raise ValueError(pq.status_text(status).decode())
