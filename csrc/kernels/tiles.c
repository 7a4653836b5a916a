/* SPDX-License-Identifier: Apache-2.0 */
/* Divide a run into tiles, for kernels with a buffer. */
#include "kernels/kernels.h"

void pq_run_tiles(pq_kernel_fn *kernel, size_t room, bool has_gaps,
                  const struct pq_run *run, const char *x, size_t in, char *y, size_t out,
                  size_t n)
{
    const bool gapped = run->in_gap != 0 || run->out_gap != 0, joins = has_gaps || !gapped;
    const size_t g = run->group, step = g > room ? room : joins ? room / g * g : g;
    if (n <= room && joins && run->rows <= 1) {
        kernel(run, x, y, n);
        return;
    }
    struct pq_run tile = *run;
    tile.rows = 0;
    if (step <= g) {
        tile.in_gap = tile.out_gap = 0;
    }
    for (size_t row = 0; row == 0 || row < run->rows; row++) {
        const char *from = x + (ptrdiff_t)row * run->in_stride;
        char *to = y + (ptrdiff_t)row * run->out_stride;
        for (size_t done = 0, m; done < n; done += m) {
            const size_t first = done / g, left = (g > room ? (first + 1) * g : n) - done;
            const size_t most = step < left ? step : left;
            m = most < n - done ? most : n - done;
            tile.group = g < m ? g : m;
            pq_set_first_group(&tile, run, first);
            if (run->random_words != NULL) {
                tile.random_words = run->random_words + done;
            }
            kernel(&tile, from, to, m);
            const ptrdiff_t groups = gapped ? (ptrdiff_t)((done + m) / g - first) : 0;
            from += (ptrdiff_t)(m * in) + groups * run->in_gap;
            to += (ptrdiff_t)(m * out) + groups * run->out_gap;
        }
    }
}
