"""Print texts or function names, drawn at random, for a reader to judge.

    python .ci/draw.py texts COUNT SEED         a comment, docstring, paragraph or help text
    python .ci/draw.py comments COUNT SEED      a comment of the C core, and its code
    python .ci/draw.py functions COUNT SEED     a name of the C core, and its definition

A reader counts the texts and comments that are clear at first reading, and the names that
state the purpose of the function. CONTRIBUTING.md has the targets.
"""

import random
import re
import sys

from prose import PARAGRAPHS, ROOT, sentences, tracked

PATTERNS = {
    "comments": re.compile(r"/\*(?! SPDX| ----).*?\*/[^\n]*(\n[^\n]*)?", re.S),
    # The name can be an argument of a macro: OF(map), PQ_NAME(requantize).
    "functions": re.compile(r"^\w[\w *]*?\b\w+(\(\w+\))?\([^;{}()]*\)(?=\n\{)", re.M),
}
# The first line of a function, struct or enum. Indented comments are inside a function,
# struct or enum.
DEFINITION = re.compile(r"^(?!#)\w.*", re.M)
HELP = re.compile(r"\bhelp=\(?((?:\s*f?\"[^\"]*\")+)")
# Skip texts with a match. They are code in strings of tests, or markers for tools.
CODE = re.compile(r"^\s*(def|import|from|assert|for|type: ignore)\b", re.M)


def matches(pattern):
    """Yield the place of each match in csrc/, and its text below its definition line."""
    for path in sorted((ROOT / "csrc").rglob("*.*")):
        if path.suffix in (".c", ".h", ".inc"):
            text = path.read_text("utf-8")
            for match in pattern.finditer(text):
                start = text.rfind("\n", 0, match.start()) + 1
                place = f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, start) + 1}"
                around = DEFINITION.findall(text, 0, start) if text[start] == " " else []
                yield place, "\n".join([*around[-1:], text[start : match.end()]])


def texts():
    """Yield the path and the text of each comment, paragraph and help text."""
    for name in tracked():
        path = ROOT / name
        if path.suffix in PARAGRAPHS:
            text = path.read_text("utf-8")
            yield from (
                (name, part.strip())
                for part in PARAGRAPHS[path.suffix](text)
                if sentences(part) and not CODE.search(part)
            )
            yield from ((name, match[1].strip()) for match in HELP.finditer(text))


def main(kind, count, seed):
    """Print `count` texts or matches of a kind."""
    found = list(texts() if kind == "texts" else matches(PATTERNS[kind]))
    for place, text in random.Random(int(seed)).sample(found, int(count)):
        print(f"\n{place}\n{text}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
