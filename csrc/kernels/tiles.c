/* SPDX-License-Identifier: Apache-2.0 */
/* Divide a run into tiles, for kernels with a buffer. */
#include "kernels/kernels.h"

void pq_run_tiles(pq_kernel_fn *kernel, size_t room, bool has_gaps,
                  const struct pq_run *run, const char *x, size_t in, char *y, size_t out,
                  size_t n)
{
    const bool gapped = run->in_gap != 0 || run->out_gap != 0, joins = has_gaps || !gapped;
    const size_t g = run->group, step = g > room ? room : joins ? room / g * g : g;
    const size_t rows = run->rows > 1 ? run->rows : 1;
    const size_t most_rows = has_gaps && rows > 1 && n <= room ? room / n : 1;
    if (n <= room && joins && rows <= most_rows) {
        kernel(run, x, y, n);
        return;
    }
    const size_t groups = step / g; /* groups in a tile; 0: a tile is a part of a group */
    struct pq_run tile = *run;
    if (groups <= 1) {
        tile.in_gap = tile.out_gap = 0;
    }
    for (size_t row = 0; row < rows; row += most_rows) {
        const char *from = x + (ptrdiff_t)row * run->in_stride;
        char *to = y + (ptrdiff_t)row * run->out_stride;
        tile.rows = rows - row < most_rows ? rows - row : most_rows;
        for (size_t done = 0, first = 0, m, passed; done < n; done += m, first += passed) {
            const size_t left = (groups == 0 ? (first + 1) * g : n) - done;
            const size_t most = step < left ? step : left;
            m = most < n - done ? most : n - done;
            passed = groups == 0 ? m == left : groups;
            tile.group = g < m ? g : m;
            pq_set_first_group(&tile, run, first);
            if (run->random_words != NULL) {
                tile.random_words = run->random_words + done;
            }
            kernel(&tile, from, to, m);
            from += (ptrdiff_t)(m * in) + (ptrdiff_t)passed * run->in_gap;
            to += (ptrdiff_t)(m * out) + (ptrdiff_t)passed * run->out_gap;
        }
    }
}
