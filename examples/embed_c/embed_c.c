/* SPDX-License-Identifier: Apache-2.0 */
/* quantize_frames(frames, scale, zero_point, out): quantize float32 frames to uint8, like a
 * video or sensor pipeline. All frames use one plan, and the loop releases the GIL. */
#define PY_SSIZE_T_CLEAN
#include <pyquant.h>

static const struct pq_api *pq;

/* Prepare a plan for frames of `n` elements. The plan refers to `scale` and `zero`. */
static enum pq_status plan_frame(struct pq_prepared *plan, Py_ssize_t n, const float *scale,
                                 const unsigned char *zero)
{
    static const ptrdiff_t same[1] = {0}, floats[1] = {sizeof(float)}, bytes[1] = {1};
    const ptrdiff_t shape[1] = {n};
    float any_frame = 0; /* a valid address; pq->run receives the frame */
    unsigned char any_out = 0;
    struct pq_args args = {
        .size = sizeof args,
        .ndim = 1,
        .shape = shape,
        .in = {.data = &any_frame, .strides = floats, .type = PQ_F32},
        .out = {.data = &any_out, .strides = bytes, .type = PQ_U8},
        .scale = {.data = (void *)scale, .strides = same, .type = PQ_F32},
        .zero = {.data = (void *)zero, .strides = same, .type = PQ_U8},
    };
    return pq->prepare_quantize(plan, pq->kernels, &args);
}

static PyObject *quantize_frames(PyObject *self, PyObject *arguments)
{
    Py_buffer frames, out;
    float scale;
    unsigned char zero;
    enum pq_status status;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "y*fbw*", &frames, &scale, &zero, &out)) {
        return NULL;
    }
    const Py_ssize_t count = frames.len / (Py_ssize_t)sizeof(float);
    const Py_ssize_t frame = 640 * 480, whole = count / frame;
    if (frames.len % (Py_ssize_t)sizeof(float) != 0 || count % frame != 0 ||
        out.len != count) {
        PyErr_Format(PyExc_ValueError,
                     "frames: expected float32 frames of %zd elements and as many bytes in "
                     "out, got %zd bytes and %zd",
                     frame, frames.len, out.len);
        PyBuffer_Release(&frames);
        PyBuffer_Release(&out);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    struct pq_prepared plan = {.size = sizeof plan};
    status = plan_frame(&plan, frame, &scale, &zero);
    for (Py_ssize_t i = 0; status == PQ_OK && i < whole; i++) {
        status = pq->run(&plan, (const float *)frames.buf + i * frame,
                         (unsigned char *)out.buf + i * frame, 0, 1);
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&frames);
    PyBuffer_Release(&out);
    if (status != PQ_OK) {
        PyErr_SetString(PyExc_ValueError, pq->status_text(status));
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"quantize_frames", quantize_frames, METH_VARARGS,
     "quantize_frames(frames, scale, zero_point, out): float32 frames to uint8."},
    {NULL, NULL, 0, NULL},
};

static int find_pyquant(PyObject *module)
{
    (void)module;
    pq = pyquant_import();
    return pq != NULL ? 0 : -1;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)(uintptr_t)find_pyquant}, /* ISO C has no direct conversion */
#ifdef Py_mod_gil /* since Python 3.13 */
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "embed_c",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_embed_c(void)
{
    return PyModuleDef_Init(&definition);
}
