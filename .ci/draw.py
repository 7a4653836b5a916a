"""Print comments or function names of the C core, drawn at random, for a reader to judge.

    python .ci/draw.py comments COUNT SEED      a comment and the code line after it
    python .ci/draw.py functions COUNT SEED     a name and the line of its definition

A reader counts the comments that one reading explains, and the names that state the purpose
of the function. CONTRIBUTING.md has the targets.
"""

import random
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATTERNS = {
    "comments": re.compile(r"/\*(?! SPDX| ----).*?\*/[^\n]*(\n[^\n]*)?", re.S),
    "functions": re.compile(r"^\w[\w *]*?\b\w+\([^;{}()]*\)(?=\n\{)", re.M),
}


def matches(pattern):
    """Yield the place and the text of each match in csrc/."""
    for path in sorted((ROOT / "csrc").rglob("*.*")):
        if path.suffix in (".c", ".h", ".inc"):
            text = path.read_text("utf-8")
            for match in pattern.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                yield f"{path.relative_to(ROOT)}:{line}", match[0]


def main(kind, count, seed):
    """Print `count` matches of a kind."""
    found = list(matches(PATTERNS[kind]))
    for place, text in random.Random(int(seed)).sample(found, int(count)):
        print(f"\n{place}\n{text}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
