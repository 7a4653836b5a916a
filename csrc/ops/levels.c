/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/levels.h"

#include <math.h>

#include "args.h"
#include "engine/job.h"
#include "engine/params.h"
#include "math/fpenv.h"

enum {
    TILE = PQ_SIZE(512, 64),
    BEYOND = 64, /* elements after a tile that kernels may read */
    NARROW = 32  /* kernels of type pq_narrow_fn convert multiples of 32 elements */
};

/* The members of struct pq_level_params, in order, for each element. */
enum { MEMBERS = sizeof(struct pq_level_params) / sizeof(float) };
struct fields {
    float of[MEMBERS][TILE + BEYOND];
};

struct walking {
    const struct pq_kernels *kernels;
    const struct pq_job *job;
    enum pq_type type; /* of inputs and outputs */
    struct fields fields;
};

/* Return true if the low end of the input range is not below the high end. */
static bool is_inverted(const struct pq_level_params *p)
{
    return !(p->low < p->high);
}

/* Copy the parameters of one element, or zeros for an inverted range, because kernels
 * require an ascending range. Return true for an inverted range. */
static bool put_params(struct fields *fields, size_t i, const char *from)
{
    struct pq_level_params one;
    float members[MEMBERS] = {0};
    memcpy(&one, from, sizeof one);
    const bool inverted = is_inverted(&one);
    if (!inverted) {
        memcpy(members, &one, sizeof one);
    }
    for (int k = 0; k < MEMBERS; k++) {
        fields->of[k][i] = members[k];
    }
    return inverted;
}

/* Compute one element of an inverted range by the text of the specification. */
static float compute_inverted_element(float x, const struct pq_level_params *p)
{
    if (!(x > p->high)) {
        return p->first;
    }
    if (x > p->low) {
        return p->shift;
    }
    const float level = rintf((x - p->low) / (p->high - p->low) * p->slope);
    return level / p->slope * p->step + p->first;
}

/* Compute the elements of inverted ranges. Arrays need no alignment. */
static void compute_inverted_elements(const struct pq_dim *dim, const char *params,
                                      ptrdiff_t i, const char *x, char *y, ptrdiff_t n)
{
    for (ptrdiff_t k = 0; k < n; k++) {
        struct pq_level_params one;
        float v;
        memcpy(&one, params + pq_dim_scale(dim, i + k), sizeof one);
        if (is_inverted(&one)) {
            memcpy(&v, x + k * (ptrdiff_t)sizeof v, sizeof v);
            v = compute_inverted_element(v, &one);
            memcpy(y + k * (ptrdiff_t)sizeof v, &v, sizeof v);
        }
    }
}

/* Return elements as contiguous float32 values, in `room` if they must be copied. */
static const char *load_tile(const struct walking *walking, const char *x, ptrdiff_t n,
                             float *room)
{
    const struct pq_job *const job = walking->job;
    const struct pq_tile tile = {
        1, n, 0, job->plan.dim[0].in, job->in_size, job->in_swapped};
    char gathered[TILE * sizeof(double)];
    char *const to = walking->type == PQ_F32 ? (char *)room : gathered;
    if (!pq_tile_direct(&tile)) {
        pq_gather(walking->kernels, to, x, &tile);
        x = to;
    }
    if (walking->type == PQ_F32) {
        return x;
    }
    pq_load_reals_f32(walking->kernels, room, x, walking->type, (size_t)n);
    return (const char *)room;
}

/* Convert a tile of float32 values to the type of the output, and store it. The array
 * `from` has room for NARROW more elements. */
static void store_tile(const struct walking *walking, char *y, ptrdiff_t n, float *from)
{
    const struct pq_job *const job = walking->job;
    const size_t size = pq_bytes_of(walking->type);
    const struct pq_tile tile = {1, n, 0, job->plan.dim[0].out, size, job->out_swapped};
    _Alignas(64) double narrow[TILE];
    pq_narrow_fn *const convert = pq_narrow_to(walking->kernels, walking->type);
    if (convert != NULL) {
        memset(from + n, 0, NARROW * sizeof *from);
        convert(from, narrow, ((size_t)n + NARROW - 1) / NARROW * NARROW);
    }
    const void *const made = convert != NULL ? (void *)narrow : (void *)from;
    pq_scatter(walking->kernels, y, made, &tile);
}

/* Process the elements [i, i + n) of a row with the parameters of the first element, or, if
 * `each`, with their own. If any stride or type needs a copy, n is at most TILE. */
static void run_some(struct walking *walking, struct pq_position at, ptrdiff_t i,
                     ptrdiff_t n, bool each, bool direct)
{
    const struct pq_dim *const dim = &walking->job->plan.dim[0];
    struct fields *const fields = &walking->fields;
    const struct pq_levels levels = {fields->of[0], fields->of[1], fields->of[2],
                                     fields->of[3], fields->of[4], fields->of[5],
                                     each};
    _Alignas(64) float from[TILE + NARROW], to[TILE + NARROW];
    const size_t params = each ? (size_t)n : BEYOND;
    bool inverted = false;
    for (size_t k = 0; k < params; k++) {
        const ptrdiff_t place = each ? i + (ptrdiff_t)k : i;
        inverted = put_params(fields, k, at.scale + pq_dim_scale(dim, place)) || inverted;
    }
    const char *const x = load_tile(walking, at.in + i * dim->in, n, from);
    char *const y = at.out + i * dim->out, *const made = direct ? y : (char *)to;
    if (each || !inverted) {
        walking->kernels->levels(&levels, x, made, (size_t)n);
    }
    if (inverted) {
        compute_inverted_elements(dim, at.scale, i, x, made, n);
    }
    if (!direct) {
        store_tile(walking, y, n, to);
    }
}

static void run_row(void *p, struct pq_position at)
{
    struct walking *const walking = p;
    const struct pq_job *const job = walking->job;
    const struct pq_dim *const dim = &job->plan.dim[0];
    const ptrdiff_t size = (ptrdiff_t)sizeof(float);
    const bool direct = walking->type == PQ_F32 && !job->out_swapped && dim->out == size;
    const bool tiles = !direct || job->in_swapped || dim->in != size;
    const bool uniform = pq_dim_uniform(dim), each = !uniform && dim->group_size < BEYOND;
    for (ptrdiff_t i = dim->begin, n; i < dim->end; i += n) {
        n = dim->end - i;
        if (!uniform && !each && dim->group_size - i % dim->group_size < n) {
            n = dim->group_size - i % dim->group_size;
        }
        n = (each || tiles) && n > TILE ? TILE : n;
        run_some(walking, at, i, n, each, direct);
    }
}

enum pq_status pq_fake_levels(const struct pq_kernels *kernels, const struct pq_args *args,
                              int part, int parts)
{
    struct pq_args room;
    struct pq_job job;
    PQ_TRY(pq_check_call(&args, &room, kernels, true, part, parts));
    if (!pq_is_real(args->in.type) || args->out.type != args->in.type ||
        args->scale.type != PQ_F32 || args->scale.swapped || args->zero.data != NULL) {
        return PQ_ERR_TYPE;
    }
    PQ_TRY(pq_check_options(args, pq_options_of(args), 0));
    job.how = pq_no_method;
    PQ_TRY(pq_job_init(&job, kernels, args));
    struct walking walking;
    walking.kernels = kernels;
    walking.job = &job;
    walking.type = args->in.type;
    pq_plan_part(&job.plan, part, parts, 1);
    if (!job.plan.empty) {
        const pq_fpenv found = pq_fpenv_enter();
        memset(&walking.fields, 0, sizeof walking.fields);
        pq_for_each_row(&job.plan, 1, run_row, &walking);
        pq_fpenv_leave(found);
    }
    return PQ_OK;
}
