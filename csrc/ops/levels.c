/* SPDX-License-Identifier: Apache-2.0 */
#include "../levels.h"

#include "../args.h"
#include "../fpenv.h"
#include "../job.h"

enum { TILE = 512, BEYOND = 64 /* which kernels may read */ };

struct fields {
    float low[TILE + BEYOND], high[TILE + BEYOND], slope[TILE + BEYOND];
    float shift[TILE + BEYOND], step[TILE + BEYOND], first[TILE + BEYOND];
};

struct walking {
    const struct pq_kernels *kernels;
    const struct pq_job *job;
    struct fields of;
};

static void put_params(struct fields *of, size_t i, const char *from)
{
    struct pq_level_params one;
    memcpy(&one, from, sizeof one);
    of->low[i] = one.low;
    of->high[i] = one.high;
    of->slope[i] = one.slope;
    of->shift[i] = one.shift;
    of->step[i] = one.step;
    of->first[i] = one.first;
}

/* Elements [i, i + n) of a row, the parameters of the first for all of them or `each` with
 * its own: where they lie if they follow each other, else at most a tile. */
static void run_some(struct walking *walking, struct pq_cursor at, ptrdiff_t i, ptrdiff_t n,
                     bool each)
{
    const struct pq_job *const job = walking->job;
    const struct pq_dim *const dim = &job->plan.dim[0];
    struct fields *const of = &walking->of;
    const struct pq_levels levels = {of->low,  of->high,  of->slope, of->shift,
                                     of->step, of->first, each};
    const size_t size = sizeof(float);
    const struct pq_tile in = {1, n, 0, dim->in, size, job->in_swapped};
    const struct pq_tile out = {1, n, 0, dim->out, size, job->out_swapped};
    const char *x = at.in + i * dim->in;
    char *const y = at.out + i * dim->out;
    float from[TILE], to[TILE];
    const size_t params = each ? (size_t)n : BEYOND;
    for (size_t k = 0; k < params; k++) {
        const ptrdiff_t place = each ? i + (ptrdiff_t)k : i;
        put_params(of, k, at.scale + pq_dim_scale(dim, place));
    }
    if (!pq_tile_direct(&in)) {
        pq_gather(walking->kernels, (char *)from, x, &in);
        x = (const char *)from;
    }
    const bool direct = pq_tile_direct(&out);
    walking->kernels->levels(&levels, x, direct ? y : (char *)to, (size_t)n);
    if (!direct) {
        pq_scatter(walking->kernels, y, (const char *)to, &out);
    }
}

static void run_row(void *p, struct pq_cursor at)
{
    struct walking *const walking = p;
    const struct pq_job *const job = walking->job;
    const struct pq_dim *const dim = &job->plan.dim[0];
    const bool direct = !job->in_swapped && !job->out_swapped &&
                        dim->in == (ptrdiff_t)sizeof(float) &&
                        dim->out == (ptrdiff_t)sizeof(float);
    const bool uniform = pq_dim_uniform(dim), each = !uniform && dim->block < BEYOND;
    for (ptrdiff_t i = dim->begin, n; i < dim->end; i += n) {
        n = dim->end - i;
        if (!uniform && !each && dim->block - i % dim->block < n) {
            n = dim->block - i % dim->block;
        }
        n = (each || !direct) && n > TILE ? TILE : n;
        run_some(walking, at, i, n, each);
    }
}

enum pq_status pq_fake_levels(const struct pq_kernels *kernels, const struct pq_args *args,
                              int part, int parts)
{
    struct pq_args room;
    struct pq_job job;
    enum pq_status status = pq_check_call(&args, &room, kernels, true, part, parts);
    if (status == PQ_OK &&
        (args->in.type != PQ_F32 || args->out.type != PQ_F32 ||
         args->scale.type != PQ_F32 || args->scale.swapped || args->zero.data != NULL)) {
        status = PQ_ERR_TYPE;
    }
    if (status != PQ_OK) {
        return status;
    }
    job.how = pq_no_method;
    status = pq_job_init(&job, kernels, args);
    if (status != PQ_OK) {
        return status;
    }
    struct walking walking;
    walking.kernels = kernels;
    walking.job = &job;
    pq_plan_part(&job.plan, part, parts, 1);
    if (!job.plan.empty) {
        const pq_fpenv found = pq_fpenv_enter();
        memset(&walking.of, 0, sizeof walking.of);
        pq_walk(&job.plan, 1, run_row, &walking);
        pq_fpenv_leave(found);
    }
    return PQ_OK;
}
