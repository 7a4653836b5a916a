/* SPDX-License-Identifier: Apache-2.0 */
/* Measure the errors of each group of elements. The order of additions does not depend on
 * strides, on the instruction set, or on the number of threads. A group consists of chunks
 * of PQ_MEASURE_CHUNK elements, and a chunk consists of runs of RUN_ELEMENTS elements. The
 * kernel sums a run in lanes (struct pq_lanes), and adds the upper half of the lanes to the
 * lower half, until one lane is left. The sum of a chunk adds the sums of runs in order. A
 * turn measures up to MAX_GROUPS groups together. */
#include <math.h>

#include "args.h"
#include "engine/params.h"
#include "engine/plan.h"
#include "engine/slabs.h"
#include "engine/sweep.h"
#include "math/fpenv.h"
#include "math/scalar_math.h"
#include "ops/fake_quantize.h"

enum {
    RUN_ELEMENTS = 4096, /* number of elements of a run */
    BUFFER_BYTES = 1 << 14,
    MAX_GROUPS = 16,           /* maximum number of groups of a turn */
    MAX_JOB_GROUPS = 8,        /* maximum number of groups if y is a round trip */
    FINITE_TILE_ELEMENTS = 256 /* elements of a copy without NaN and infinities */
};

/* Input of the kernel: contiguous elements of each group of a turn. */
struct piece {
    const char *x, *y;
    ptrdiff_t next; /* distance of the starts of successive groups, in bytes */
};

/* The sums of a run of one group. */
struct found {
    struct pq_lanes lanes;
    struct pq_total total;
    struct pq_error error; /* add_runs() sets the sums; `most` includes earlier runs */
    bool has_most;         /* error.most has been set */
};

/* Memory for the groups of a turn, which is not cleared before a call. `raw` contains
 * elements before the conversion to float32 or float64. A box of `turns` contains the
 * groups of a turn. */
struct rooms {
    struct pq_boxes turns;
    struct pq_sweep x_sweep, y_sweep;
    struct found found[MAX_GROUPS];
    _Alignas(64) char x[BUFFER_BYTES], y[BUFFER_BYTES], raw[BUFFER_BYTES / 2];
};

/* The job that quantizes and dequantizes elements of a group, starting at any element. */
struct round_trip {
    struct pq_job job;
    struct pq_tile_steps tile_steps;
    struct pq_saturation saturation;
    int ndim; /* number of dimensions of a group; dim[0] is the innermost */
    struct pq_dim dim[PQ_MAX_NDIM];
    struct pq_addresses params; /* parameters of the first element */
};

struct measuring {
    const struct pq_kernels *kernels;
    const struct pq_args *args;
    ptrdiff_t outer[PQ_MAX_NDIM]; /* number of groups along each dimension */
    ptrdiff_t inner[PQ_MAX_NDIM]; /* elements of a group along each dimension */
    ptrdiff_t groups, size;       /* number of groups, number of elements in a group */
    int beside; /* the dimension along which a turn has several groups; -1: none */
    ptrdiff_t x_beside, y_beside; /* strides of the dimension `beside`, in bytes */
    ptrdiff_t next;               /* step in `errors` between neighbours along `beside` */
    size_t rows;                  /* number of groups of the turn */
    bool is_f64;                  /* float64, else float32 */
    int exponent;                 /* elements are multiplied by 2^-exponent */
    bool clean;                   /* replace nonfinite values by 0 */
    struct round_trip *trip;      /* not NULL: `y` is the round trip of `x`, not an array */
    struct pq_addresses params;   /* parameters at index 0 of dimension `beside` */
    ptrdiff_t index;              /* index of the first measured group along `beside` */
    ptrdiff_t position;           /* position of the next element in its group */
    size_t most_rows;
    struct rooms *rooms;
};

static const struct pq_error nothing = {.index = -1};

/* Add the sums and counts of `added` to the sums and counts of `to`, and keep the larger
 * error. The elements of `added` follow the elements of `to`, in C order. */
static void add_error(struct pq_error *to, const struct pq_error *added)
{
    to->xx += added->xx;
    to->yy += added->yy;
    to->xy += added->xy;
    to->e += added->e;
    to->ee += added->ee;
    if (added->index >= 0 && (to->index < 0 || added->most > to->most)) {
        to->most = added->most;
        to->index = to->count + added->index;
    }
    to->count += added->count;
    to->nan += added->nan;
    to->inf += added->inf;
    to->low += added->low;
    to->high += added->high;
    to->bad_scales += added->bad_scales;
}

/* ---- round trips ---- */

/* Prepare round trips of groups with extents `inner`. The method depends on the parameters
 * of all groups, so that all groups use one method. Return an error for an option that
 * `code` does not accept. */
static enum pq_status init_round_trip(struct round_trip *trip, struct pq_fake_call *call,
                                      const struct pq_args *all, const ptrdiff_t *inner)
{
    struct pq_job *const job = &trip->job;
    struct pq_args args = *all;
    args.in.type = args.out.type = all->in.type == PQ_F64 ? PQ_F64 : PQ_F32;
    ptrdiff_t strides[PQ_MAX_NDIM], stride = (ptrdiff_t)pq_bytes_of(args.in.type);
    PQ_TRY(pq_set_tile_steps(&job->how, &trip->tile_steps, call, &args));
    job->how.counts = true; /* saturated elements */
    for (int d = args.ndim - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= inner[d];
    }
    args.shape = inner;
    args.in.strides = args.out.strides = strides;
    args.in.swapped = args.out.swapped = 0;
    PQ_TRY(pq_job_init(job, call->kernels, &args));
    trip->saturation = pq_saturation_of(call->kernels, &args, &job->how, call->code);
    trip->tile_steps.saturation = &trip->saturation;
    trip->params = job->plan.params;
    trip->ndim = job->plan.ndim;
    memcpy(trip->dim, job->plan.dim, (size_t)trip->ndim * sizeof *trip->dim);
    return PQ_OK;
}

/* Return the address of element 0 of a dimension. `p` is the address of element `i`. */
static char *origin_of(const char *p, ptrdiff_t i, ptrdiff_t stride)
{
    return (char *)((uintptr_t)p - (uintptr_t)i * (uintptr_t)stride);
}

/* Quantize and dequantize the elements with indices [i, i + n) in dimension `d` and any
 * indices in the inner dimensions. */
static void round_trip_box(struct round_trip *trip, struct pq_position at, int d,
                           ptrdiff_t i, ptrdiff_t n)
{
    static const struct pq_dim single = {.end = 1, .group_size = 1};
    struct pq_plan *const plan = &trip->job.plan;
    const struct pq_dim *const dim = &trip->dim[d];
    plan->ndim = d > 0 ? d + 1 : 2;
    plan->dim[1] = single;
    memcpy(plan->dim, trip->dim, (size_t)(d + 1) * sizeof *plan->dim);
    if (pq_is_uniform(dim)) {
        i = 0;
    }
    plan->dim[d].begin = i;
    plan->dim[d].end = i + n;
    plan->in = origin_of(at.in, i, dim->in);
    plan->out = origin_of(at.out, i, dim->out);
    plan->params = at.params;
    pq_job_run(&trip->job, 0, 1);
}

/* Quantize and dequantize `n` elements of dimensions 0 to `d`. The first element has the
 * position `first` in C order. */
static void round_trip_range(struct round_trip *trip, struct pq_position at, int d,
                             ptrdiff_t first, ptrdiff_t n)
{
    const struct pq_dim *const dim = &trip->dim[d];
    ptrdiff_t within = 1, some;
    for (int k = 0; k < d; k++) {
        within *= trip->dim[k].end;
    }
    while (n > 0) {
        const ptrdiff_t i = first / within, into = first % within;
        some = within - into < n ? within - into : n;
        if (some == within) {
            some = n / within * within;
            round_trip_box(trip, at, d, i, n / within);
        } else {
            struct pq_position inner = at;
            inner.params = pq_addresses_at(at.params, dim, pq_dim_group(dim, i));
            round_trip_range(trip, inner, d - 1, into, some);
        }
        at.in += some * trip->dim[0].in;
        at.out += some * trip->dim[0].out;
        first += some;
        n -= some;
    }
}

/* ---- tiles ---- */

PQ_INLINE double element_as_f64(const char *p, size_t i, bool is_f64)
{
    if (is_f64) {
        double v;
        memcpy(&v, p + i * sizeof v, sizeof v);
        return v;
    }
    float v;
    memcpy(&v, p + i * sizeof v, sizeof v);
    return (double)v;
}

PQ_RARE const char *scale_down(char *to, const char *from, size_t n, int exponent)
{
    const double by = ldexp(1, -(exponent / 2)), rest = ldexp(1, exponent / 2 - exponent);
    for (size_t i = 0; i < n; i++) {
        const double v = element_as_f64(from, i, true) * by * rest;
        memcpy(to + i * sizeof v, &v, sizeof v);
    }
    return to;
}

/* Quantize and dequantize the elements `x` of each group. Return the buffer of results. */
static const char *round_trip_rows(struct measuring *m, const char *x, ptrdiff_t next,
                                   size_t n)
{
    struct round_trip *const trip = m->trip;
    const struct pq_args *const args = m->args;
    const int d = m->beside < 0 ? 0 : m->beside;
    for (ptrdiff_t r = 0; r < (ptrdiff_t)m->rows; r++) {
        struct pq_error *const to = &m->rooms->found[r].error;
        struct pq_position at = {
            .in = x + r * next, .out = m->rooms->y + r * next, .params = m->params};
        at.params.scale += pq_param_offset(args, &args->scale, d, m->index + r);
        at.params.zero += pq_param_offset(args, &args->zero, d, m->index + r);
        at.params.offset += pq_param_offset(args, &args->offset, d, m->index + r);
        trip->saturation.low = &to->low;
        trip->saturation.high = &to->high;
        trip->saturation.bad = &to->bad_scales;
        round_trip_range(trip, at, trip->ndim - 1, m->position, (ptrdiff_t)n);
    }
    return m->rooms->y;
}

/* Load the next `n` elements x of each group of the turn. Load the elements y, or compute y
 * by round trips of x. */
static struct piece load_tile(struct measuring *m, size_t n)
{
    struct rooms *const rooms = m->rooms;
    const enum pq_type type = pq_real_of(m->is_f64);
    struct piece piece = {.next = (ptrdiff_t)(n * pq_bytes_of(type))};
    piece.x =
        pq_sweep_load(&rooms->x_sweep, type, m->rows, m->x_beside, n, rooms->x, rooms->raw);
    piece.y = m->trip != NULL ? round_trip_rows(m, piece.x, piece.next, n)
                              : pq_sweep_load(&rooms->y_sweep, type, m->rows, m->y_beside,
                                              n, rooms->y, rooms->raw);
    m->position += (ptrdiff_t)n;
    if (m->exponent != 0) {
        piece.x = scale_down(rooms->x, piece.x, n * m->rows, m->exponent);
        piece.y = scale_down(rooms->y, piece.y, n * m->rows, m->exponent);
    }
    return piece;
}

/* Return the number of elements of the next tile of each group. It is a multiple of
 * PQ_SUM_LANES, or `left`. */
static size_t tile_size(const struct measuring *m, size_t left)
{
    const size_t size = pq_bytes_of(pq_real_of(m->is_f64));
    const size_t most = BUFFER_BYTES / size / m->rows / PQ_SUM_LANES * PQ_SUM_LANES;
    return left < most ? left : most;
}

/* Add the errors of a tile. If x or y of an element is not finite, replace both by 0. */
PQ_RARE void add_finite_errors(const struct measuring *m, struct found *to, const char *x,
                               const char *y, size_t n)
{
    const size_t size = pq_bytes_of(pq_real_of(m->is_f64));
    char bx[FINITE_TILE_ELEMENTS * sizeof(double)],
        by[FINITE_TILE_ELEMENTS * sizeof(double)];
    for (size_t i = 0, some; i < n; i += some) {
        some = n - i < FINITE_TILE_ELEMENTS ? n - i : FINITE_TILE_ELEMENTS;
        memcpy(bx, x + i * size, some * size);
        memcpy(by, y + i * size, some * size);
        for (size_t k = 0; k < some; k++) {
            const double a = element_as_f64(bx, k, m->is_f64),
                         b = element_as_f64(by, k, m->is_f64);
            if (!pq_is_finite_f64(a) || !pq_is_finite_f64(b)) {
                ++*(a != a || b != b ? &to->error.nan : &to->error.inf);
                memset(bx + k * size, 0, size);
                memset(by + k * size, 0, size);
            }
        }
        m->kernels->add_errors[m->is_f64](bx, by, some, &to->lanes);
    }
}

/* Return the first of the `n` elements of a lane that has the error `error`, or `n` if no
 * element has this error. `error` contains the bits of an error shifted left by 1, and so
 * without the sign. Comparing bits is faster than comparing values. */
PQ_INLINE size_t find_in_lane(const char *x, const char *y, size_t lane, size_t n,
                              uint64_t error, bool is_f64)
{
    for (size_t i = lane; i < n; i += PQ_SUM_LANES) {
        const double e = element_as_f64(x, i, is_f64) - element_as_f64(y, i, is_f64);
        if (pq_bits_f64(e) << 1 == error) {
            return i;
        }
    }
    return n;
}

/* Return the first element of the tile that has the largest error. */
static size_t find_max_error(const struct measuring *m, const struct pq_lanes *lanes,
                             const char *x, const char *y, size_t n, double error)
{
    const uint64_t bits = pq_bits_f64(error) << 1;
    size_t first = n;
    for (size_t lane = 0; lane < PQ_SUM_LANES; lane++) {
        if (pq_bits_f64(lanes->most[lane]) << 1 == bits) {
            first = m->is_f64 ? find_in_lane(x, y, lane, first, bits, true)
                              : find_in_lane(x, y, lane, first, bits, false);
        }
    }
    return first;
}

static void add_tile(const struct measuring *m, struct found *to, const char *x,
                     const char *y, size_t n)
{
    struct pq_error *const error = &to->error;
    const int64_t others = error->nan + error->inf;
    if (m->clean) {
        add_finite_errors(m, to, x, y, n);
    } else {
        m->kernels->add_errors[m->is_f64](x, y, n, &to->lanes);
    }
    m->kernels->total_errors(&to->lanes, &to->total);
    const double most = to->total.most;
    const bool has_nonzero = error->nan + error->inf - others < (int64_t)n;
    if (has_nonzero && (most > error->most || !to->has_most)) {
        to->has_most = true;
        error->most = most;
        error->index = error->count + (int64_t)find_max_error(m, &to->lanes, x, y, n, most);
    }
    error->count += (int64_t)n;
}

/* ---- chunks ---- */

_Static_assert(offsetof(struct pq_total, most) == offsetof(struct pq_error, most),
               "the sums of both structs have an equal order");

/* Sum a run of each group. Return false if the sum of squared errors is not finite. */
static bool sum_run(struct measuring *m, const struct pq_error *before, size_t n)
{
    struct found *const found = m->rooms->found;
    bool finite = true;
    memset(found, 0, m->rows * sizeof *found);
    for (size_t r = 0; r < m->rows; r++, before += m->next) {
        found[r].error = nothing;
        found[r].error.most = before->most;
        found[r].has_most = before->index >= 0;
    }
    for (size_t i = 0, some; i < n; i += some) {
        some = tile_size(m, n - i);
        const struct piece piece = load_tile(m, some);
        for (size_t r = 0; r < m->rows; r++) {
            add_tile(m, &found[r], piece.x + (ptrdiff_t)r * piece.next,
                     piece.y + (ptrdiff_t)r * piece.next, some);
            finite = finite && pq_is_finite_f64(found[r].total.ee);
        }
    }
    return finite;
}

static void seek_element(struct measuring *m, ptrdiff_t first)
{
    m->position = first;
    pq_sweep_seek(&m->rooms->x_sweep, first);
    if (m->trip == NULL) {
        pq_sweep_seek(&m->rooms->y_sweep, first);
    }
}

/* Add the sums of runs to the sums of the chunk. First clear the sums of the chunk if the
 * chunk begins here. */
static void add_runs(struct measuring *m, struct pq_error *to, ptrdiff_t first, ptrdiff_t n)
{
    for (size_t r = 0; first % PQ_MEASURE_CHUNK == 0 && r < m->rows; r++) {
        to[(ptrdiff_t)r * m->next] = nothing;
    }
    seek_element(m, first);
    for (ptrdiff_t i = 0; i < n; i += RUN_ELEMENTS) {
        const size_t some = (size_t)(n - i < RUN_ELEMENTS ? n - i : RUN_ELEMENTS);
        if (!sum_run(m, to, some)) {
            m->clean = true;
            seek_element(m, first + i);
            sum_run(m, to, some);
            m->clean = false;
        }
        for (size_t r = 0; r < m->rows; r++) {
            struct found *const run = &m->rooms->found[r];
            memcpy(&run->error, &run->total, offsetof(struct pq_total, most));
            add_error(to + (ptrdiff_t)r * m->next, &run->error);
        }
    }
}

/* Return the exponent of the largest finite magnitude of a chunk, or 0 if this magnitude is
 * 0. */
PQ_RARE int chunk_exponent(struct measuring *m, ptrdiff_t first, ptrdiff_t n)
{
    double most = 0;
    int exponent = 0;
    seek_element(m, first);
    for (size_t left = (size_t)n, some; left > 0; left -= some) {
        some = tile_size(m, left);
        const struct piece piece = load_tile(m, some);
        for (size_t k = 0; k < some; k++) {
            const double a = fabs(element_as_f64(piece.x, k, m->is_f64));
            const double b = fabs(element_as_f64(piece.y, k, m->is_f64));
            if (pq_is_finite_f64(a) && pq_is_finite_f64(b)) {
                most = a > most ? a : most;
                most = b > most ? b : most;
            }
        }
    }
    frexp(most, &exponent);
    return exponent;
}

/* Return true if squares may have overflowed or underflowed to 0, which happens for float64
 * only. The caller then measures the chunk again, multiplied by a power of 2. */
static bool needs_scaling(const struct pq_error *error)
{
    const double size = error->xx + error->yy;
    return !(size >= 0x1p-700 && size <= 0x1p1000);
}

/* ---- groups ---- */

/* Return the dimension with the smallest stride if the index of this dimension selects the
 * group, else -1. */
static int adjacent_group_dim(const struct measuring *m, const ptrdiff_t *stride)
{
    int nearest = -1;
    for (int d = m->args->ndim - 1; d >= 0; d--) {
        if (m->args->shape[d] > 1 &&
            (nearest < 0 || pq_magnitude(stride[d]) < pq_magnitude(stride[nearest]))) {
            nearest = d;
        }
    }
    return nearest >= 0 && m->outer[nearest] > 1 ? nearest : -1;
}

static void set_dims(struct measuring *m, const unsigned char *kept)
{
    const struct pq_args *const args = m->args;
    const ptrdiff_t *const x = args->in.strides, *const y = args->out.strides;
    struct pq_boxes *const turns = &m->rooms->turns;
    m->groups = m->size = m->next = 1;
    for (int d = 0; d < args->ndim; d++) {
        const bool keeps = kept != NULL && kept[d] != 0;
        m->outer[d] = keeps ? args->shape[d] : 1;
        m->inner[d] = keeps ? 1 : args->shape[d];
        m->groups *= m->outer[d];
        m->size *= m->inner[d];
        turns->step[d] = m->inner[d];
    }
    m->beside = adjacent_group_dim(m, x);
    if (m->beside < 0) {
        m->beside = adjacent_group_dim(m, y);
    }
    if (m->beside >= 0) {
        m->x_beside = x[m->beside];
        m->y_beside = y[m->beside];
        m->next = pq_measure_chunks(m->size);
        for (int d = m->beside + 1; d < args->ndim; d++) {
            m->next *= m->outer[d];
        }
        turns->step[m->beside] = (ptrdiff_t)m->most_rows;
    }
    turns->all = m->groups;
    if (m->groups != 0 && m->size != 0) {
        pq_init_boxes(turns, args);
    }
}

/* Set the addresses and the readers (x_sweep, y_sweep) for the groups of a turn. Return the
 * index of the first group. */
static ptrdiff_t enter_turn(struct measuring *m, ptrdiff_t turn)
{
    struct pq_boxes *const turns = &m->rooms->turns;
    const struct pq_args *const args = m->args, *const at = &turns->box;
    const int d = m->beside < 0 ? 0 : m->beside;
    ptrdiff_t group = 0;
    pq_enter_box(turns, args, turn);
    m->rows = m->beside < 0 ? 1 : (size_t)turns->shape[d];
    m->index = m->beside < 0 ? 0 : turns->first[d];
    for (int k = 0; k < args->ndim; k++) {
        group = group * m->outer[k] + turns->first[k];
    }
    if (m->trip != NULL) {
        m->params = m->trip->params;
        for (int k = 0; k < args->ndim; k++) {
            const ptrdiff_t i = k == m->beside ? 0 : turns->first[k];
            m->params.scale += pq_param_offset(args, &args->scale, k, i);
            m->params.zero += pq_param_offset(args, &args->zero, k, i);
            m->params.offset += pq_param_offset(args, &args->offset, k, i);
        }
    }
    pq_sweep_init(&m->rooms->x_sweep, m->kernels, &at->in, args->ndim, m->inner);
    pq_sweep_init(&m->rooms->y_sweep, m->kernels, &at->out, args->ndim, m->inner);
    return group;
}

/* Measure each group again that has squares that may have overflowed or underflowed to
 * 0. */
static void remeasure_groups(struct measuring *m, struct pq_error *to, ptrdiff_t first,
                             ptrdiff_t n)
{
    const size_t rows = m->rows;
    for (size_t r = 0; r < rows; r++) {
        if (needs_scaling(to)) {
            m->rows = 1;
            const int exponent = chunk_exponent(m, first, n);
            if (exponent != 0) {
                const struct pq_error plain = *to;
                m->exponent = exponent;
                add_runs(m, to, first, n);
                m->exponent = 0;
                to->exponent = exponent;
                /* scaled differences can underflow to 0, and unscaled differences can
                 * overflow */
                const bool overflows = !pq_is_finite_f64(plain.most);
                to->most = overflows ? ldexp(to->most, exponent) : plain.most;
                to->index = overflows ? to->index : plain.index;
            }
        }
        to += m->next;
        m->rooms->x_sweep.row += m->x_beside;
        m->rooms->y_sweep.row += m->y_beside;
        m->index++;
    }
}

/* Measure one chunk of each group of the turns [turn, end). If groups are adjacent, measure
 * a run of every turn before the next run, because adjacent groups share memory pages and
 * cache lines. */
static void measure_chunk(struct measuring *m, struct pq_error *errors, ptrdiff_t chunk,
                          ptrdiff_t turn, ptrdiff_t end)
{
    const ptrdiff_t chunks = pq_measure_chunks(m->size), first = chunk * PQ_MEASURE_CHUNK;
    const ptrdiff_t step = m->beside >= 0 ? RUN_ELEMENTS : PQ_MEASURE_CHUNK;
    const ptrdiff_t left = m->size - first;
    const ptrdiff_t n = left < PQ_MEASURE_CHUNK ? left : PQ_MEASURE_CHUNK;
    for (ptrdiff_t i = 0; i < n; i += step) {
        for (ptrdiff_t t = turn; t < end; t++) {
            struct pq_error *const to = errors + enter_turn(m, t) * chunks + chunk;
            add_runs(m, to, first + i, n - i < step ? n - i : step);
            if (m->is_f64 && i + step >= n) {
                remeasure_groups(m, to, first, n);
            }
        }
    }
}

/* Measure a part of the call. Measure chunk 0 of all turns, then chunk 1 of all turns, and
 * so on, because the groups of different turns often share cache lines. */
static void measure_part(struct measuring *m, struct pq_error *errors, int part, int parts)
{
    const ptrdiff_t turns = m->rooms->turns.all, units = turns * pq_measure_chunks(m->size);
    const struct pq_share share = pq_share_of(units, part, parts);
    const pq_fpenv found = pq_fpenv_enter();
    for (ptrdiff_t u = share.begin, next; u < share.end; u = next) {
        next = u - u % turns + turns < share.end ? u - u % turns + turns : share.end;
        if (m->size == 0) {
            errors[u] = nothing;
            next = u + 1;
            continue;
        }
        measure_chunk(m, errors, u / turns, u % turns, (next - 1) % turns + 1);
    }
    pq_fpenv_leave(found);
}

/* ---- calls ---- */

ptrdiff_t pq_measure_chunks(ptrdiff_t size)
{
    return size > 0 ? (size - 1) / PQ_MEASURE_CHUNK + 1 : 1;
}

enum pq_status pq_measure(const struct pq_kernels *kernels, const struct pq_args *args,
                          const unsigned char *kept, struct pq_error *errors, int part,
                          int parts)
{
    struct pq_args room, own;
    struct rooms rooms;
    struct measuring m = {
        .kernels = kernels, .args = &own, .most_rows = MAX_GROUPS, .rooms = &rooms};
    PQ_REQUIRE(kernels != NULL && errors != NULL, PQ_ERR_NULL);
    PQ_TRY(pq_adapt_args_version(&args, &room));
    PQ_TRY(pq_check_reals(args, &args->in));
    PQ_TRY(pq_check_reals(args, &args->out));
    PQ_TRY(pq_check_options(args, pq_options_of(args), PQ_ACCEPTS_NONE));
    PQ_TRY(pq_check_part(part, parts));
    own = *args;
    own.scale.data = own.zero.data = NULL;
    m.is_f64 = args->in.type == PQ_F64 || args->out.type == PQ_F64;
    set_dims(&m, kept);
    measure_part(&m, errors, part, parts);
    return PQ_OK;
}

/* ---- errors of quantization parameters ---- */

enum pq_status pq_measure_params(const struct pq_kernels *kernels,
                                 const struct pq_args *args, enum pq_type code,
                                 const unsigned char *kept, struct pq_error *errors,
                                 int part, int parts)
{
    struct pq_args room, own;
    struct pq_fake_call call = {.kernels = kernels, .code = code};
    struct rooms rooms;
    struct round_trip trip;
    struct measuring m = {
        .kernels = kernels, .args = &own, .most_rows = MAX_JOB_GROUPS, .rooms = &rooms};
    PQ_REQUIRE(kernels != NULL && errors != NULL, PQ_ERR_NULL);
    PQ_TRY(pq_adapt_args_version(&args, &room));
    own = *args;
    own.out = own.in;
    args = &own;
    PQ_TRY(pq_check_call(&args, &room, kernels, true, part, parts));
    PQ_TRY(pq_check_fake_quantize(&call, &own, PQ_ACCEPTS_MEASURE_PARAMS));
    m.is_f64 = own.in.type == PQ_F64;
    set_dims(&m, kept);
    PQ_TRY(init_round_trip(&trip, &call, &own, m.inner));
    m.trip = &trip;
    measure_part(&m, errors, part, parts);
    return PQ_OK;
}

/* ---- sums of struct pq_error ---- */

/* Divide the sums by powers of two, so that the binary exponent of the sums becomes
 * `exponent`, which is larger. */
PQ_RARE void raise_exponent(struct pq_error *error, int64_t exponent)
{
    const int64_t by = error->exponent - exponent, least = -4096;
    const int shift = (int)(by > least ? by : least);
    error->xx = ldexp(error->xx, 2 * shift);
    error->yy = ldexp(error->yy, 2 * shift);
    error->xy = ldexp(error->xy, 2 * shift);
    error->e = ldexp(error->e, shift);
    error->ee = ldexp(error->ee, 2 * shift);
    error->exponent = exponent;
}

static bool has_nonzero(const struct pq_error *error)
{
    return error->xx != 0 || error->yy != 0;
}

void pq_add_error(struct pq_error *sum, const struct pq_error *given)
{
    struct pq_error added = *given;
    const pq_fpenv found = pq_fpenv_enter();
    if (!has_nonzero(sum)) {
        sum->exponent = added.exponent;
    } else if (!has_nonzero(&added)) {
        added.exponent = sum->exponent;
    } else if (sum->exponent < added.exponent) {
        raise_exponent(sum, added.exponent);
    } else if (sum->exponent > added.exponent) {
        raise_exponent(&added, sum->exponent);
    }
    add_error(sum, &added);
    pq_fpenv_leave(found);
}
