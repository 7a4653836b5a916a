"""Fail if an unlisted function of csrc/ has a loop and reads the size of a group.

    python .ci/group_loops.py

`kernels/group_loop.inc` has the loops over groups of a run, for chunk bodies. In
`kernels/tiles.c`, `pq_run_tiles` divides a run into tiles of groups, for kernels with a
buffer. Code for a new operation is a chunk body or a kernel for tiles, and contains no loop
over groups. The lists below name the existing exceptions, and no new name may be added.

SHAPES lists functions that divide a shape into runs, boxes and parameters. They read no
elements. EXCEPTIONS lists functions with another loop over groups. A comment in each of
these functions or files states the reason, with the measured cost. LINES lists functions
that receive all lines of a tile at once, like the kernel `requantize`.
"""

import re
import sys
from pathlib import Path

CORE = Path(__file__).resolve().parent.parent / "csrc"
LOOPS = {
    "kernels/group_loop.inc",
    "kernels/tiles.c",
    "kernels/extrema.inc",  # one result for each group, without chunk bodies
}
SHAPES = """
engine/engine.c: run_columns run_grouped_row run_groups run_rows run_rows_by_groups
engine/params.c: load_row_params pq_load_tile_params
engine/plan.c: hide_words pq_merge_dims pq_pad_dims pq_plan_init
engine/reduce.c: enter_box reduce_boxes reduce_groups reduce_row reduce_rows
engine/streams.c: copy_in_groups
ops/dynamic.c: find_extrema find_magnitudes run_groups
ops/fake_quantize.c: find_in_range_by_count
ops/histogram.c: split_blocks
"""
EXCEPTIONS = """
kernels/bytes.inc: dequantize_packed quantize_packed
kernels/levels.inc: levels
kernels/requantize.inc: requantize
ops/saturation.c: pq_count_saturated
x86/kernels_avx512.c: dequantize_by_group_tables
"""
LINES = """
kernels/requantize.inc: requantize_line
ops/requantize.c: run_by_definition run_widened
scalar/sums_scalar.c: requantize
"""

LOOP = re.compile(r"\b(?:for|while)\b *\(|\bdo\b *\{")
SIZE = re.compile(
    r"(?:->|\.)(?!covers_)\w*group\b"  # A member, for example run->group or area.row_group.
    r"|(?:->|\.)lines\b"  # A line is a row or a group: see pq_requantize_run.
    r"|->per_element\b"  # A group has one parameter, or each element has one.
    r"|\b\w*group_(?:size|elements|length)\b|\b(?:run|row|of)_group\b"
    r"|\b(?:size_t|ptrdiff_t|int) \*?(?:g|group|\w+_group)\b(?= *[,)])"  # a parameter
)
MACRO = re.compile(r"^ *# *define (?P<name>\w+)(?P<body>(?:.*\\\n)*.*)", re.MULTILINE)
FUNCTION = re.compile(
    r"^\w[^;{}]*?\b(?!PQ_NAME\b|OF\b)(?P<name>\w+)\)?(?P<body>\([^;{}]*\)\n\{.*?)^\}",
    re.DOTALL | re.MULTILINE,
)


def loops(path):
    """Return the functions and macros of a file that loop and read the size of a group."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    bodies = [*MACRO.finditer(text), *FUNCTION.finditer(MACRO.sub("", text))]
    return {m["name"] for m in bodies if LOOP.search(m["body"]) and SIZE.search(m["body"])}


def main():
    known = set()
    for line in (SHAPES + EXCEPTIONS + LINES).strip().splitlines():
        path, _, names = line.partition(":")
        known |= {(path, name) for name in names.split()}
    found = set()
    for path in sorted(CORE.rglob("*.[chi]*")):
        place = path.relative_to(CORE).as_posix()
        if place not in LOOPS:
            found |= {(place, name) for name in loops(path)}
    for path, name in sorted(found - known):
        print(f"csrc/{path}: {name} loops over groups: use group_loop.inc or pq_run_tiles")
    for path, name in sorted(known - found):
        print(f"csrc/{path}: {name} has no loop over groups: delete it from the list")
    sys.exit(found != known)


if __name__ == "__main__":
    main()
