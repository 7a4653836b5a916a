"""Measure how plainly comments, docstrings and pages are written, and reject unclear files.

    python .ci/prose.py                   compare every file with the targets
    python .ci/prose.py --worst PATH...   print the rates and the worst sentences of files

Rates are per 1000 words: sentences without a subject ("Which is ...", "Of those ..."),
relative constructions ("what is", "those that", "the same as") and empty nouns ("what",
"such", "others"). The fourth figure of a file is the mean number of words in a sentence.

A file fails if a rate exceeds its target. Files with fewer than 100 words are exempt.
"""

import argparse
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

TARGETS = {"heads": 1.0, "relative": 2.5, "vague": 5.0, "length": 16.0}
LEAST_WORDS = 100
ROOT = Path(__file__).resolve().parent.parent

HEAD = re.compile(
    r"^(What|Those|The same|Of|Which|Others|Other|Such|None|Whose|As|That of|That|Both"
    r"|Either|Few|Some of|Beside|By way)\b(?! (follows|example|a result|result|long as|well"
    r"|note|opposed|course|needed|usual|mentioned|noted|expected|such|an example|to)\b)"
)
RELATIVE = re.compile(
    r"\b(what (is|are|was|were|has|have|it|they|there|can|may|will|a|an|the|that|comes|came"
    r"|goes|says|others)|those (that|of|which|with|where|whose)|of (which|those|whom)"
    r"|that of|(the )?same (of|as)|which there (is|are)|as (it|they) (is|are|lie|lies)"
    r"|there (is|are) (no|none|few)|none (of|is|are)|whom|whose|but for|for which|in which"
    r"|to which|by which)\b",
    re.I,
)
VAGUE = re.compile(
    r"\b(what|those|others|such|none|the same|whom|thereof|as such|lies|lie|apart)\b", re.I
)


def c_paragraphs(text):
    """Return the comments of a C file."""
    pattern = re.compile(r"/\*.*?\*/|(?:^[ \t]*//[^\n]*\n?)+|//[^\n]*", re.S | re.M)
    for match in pattern.finditer(text):
        comment = re.sub(r"^/\*+|\*+/$|^[ \t]*//+!?<?", "", match[0], flags=re.M)
        yield re.sub(r"^[ \t]*\*+", "", comment, flags=re.M)


def python_paragraphs(text):
    """Return the comments and docstring paragraphs of a Python or Cython file."""
    lines = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                lines[token.start[0]] = token.string.lstrip("# ")
    except (tokenize.TokenError, SyntaxError):  # Cython
        for number, line in enumerate(text.splitlines()):
            if line.lstrip().startswith("#"):
                lines[number] = line.lstrip("# ")
    comment = []
    for number in sorted(lines):
        if number - 1 not in lines and comment:
            yield " ".join(comment)
            comment = []
        comment.append(lines[number])
    yield " ".join(comment)
    docstring = re.compile(r'^[ \t]*[rRfFuUbB]?("""|\'\'\')(.*?)\1', re.S | re.M)
    for match in docstring.finditer(text):
        plain = re.sub(r"^\s*(>>>|\.\.\.).*$", "", match[2], flags=re.M)
        yield from re.split(
            r"\n\s*\n", re.sub(r"^[ \t]*-{3,}[ \t]*$", "\n\n", plain, flags=re.M)
        )


def page_paragraphs(text):
    """Return the paragraphs and list items of a Markdown page, without code and tables."""
    text = re.sub(r"```.*?```|~~~.*?~~~", "\n\n", text, flags=re.S)
    text = re.sub(r"^([ \t]{4,}|[ \t]*\|).*$", "", text, flags=re.M)
    text = re.sub(r"^\s*([-*+]|\d+\.) ", "\n\n", text, flags=re.M)
    return re.split(r"\n\s*\n", re.sub(r"^(#+|=+|-+|\.\. ).*$", "\n\n", text, flags=re.M))


PARAGRAPHS = {
    **dict.fromkeys((".c", ".h", ".inc"), c_paragraphs),
    **dict.fromkeys((".py", ".pyi", ".pyx", ".pxi", ".pxd"), python_paragraphs),
    ".md": page_paragraphs,
}


def sentences(paragraph):
    """Return the sentences of a paragraph; code, quotations and addresses become X."""
    text = re.sub(r"`[^`]*`", "X", paragraph)
    text = re.sub(r"[\"\u201c][^\"\u201d]{1,80}[\"\u201d]", "X", text)
    text = " ".join(re.sub(r"https?://\S+|[*_]{1,2}", "", text).split())
    if re.search(r"SPDX|Copyright|License", text):
        return []
    parts = re.split(r"(?<=[.:;!?])\s+(?=[A-Z0-9X])", text)
    return [s for s in parts if len(re.findall(r"[A-Za-z]{2,}", s)) >= 4]


def faults(sentence):
    """Return the number of faults of each kind in a sentence."""
    return {
        "heads": int(bool(HEAD.match(sentence))),
        "relative": len(RELATIVE.findall(sentence)),
        "vague": len(VAGUE.findall(sentence)),
    }


def measure(path):
    """Return the words and the rates of a file."""
    text = path.read_text("utf-8", "replace")
    found = [s for p in PARAGRAPHS[path.suffix](text) for s in sentences(p)]
    words = sum(len(re.findall(r"[A-Za-z][A-Za-z'-]*", s)) for s in found)
    counts = [faults(s) for s in found]
    rates = {
        kind: round(1000 * sum(c[kind] for c in counts) / max(words, 1), 2)
        for kind in ("heads", "relative", "vague")
    }
    return {"words": words, **rates, "length": round(words / max(len(found), 1), 2)}


def tracked():
    """Return the paths of the files of the checkout that git tracks, relative to ROOT."""
    run = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [path for path in run.stdout.split("\0") if (ROOT / path).is_file()]


def measure_all():
    """Return the words and rates of all tracked files with at least 100 words, by path."""
    paths = [p for p in tracked() if Path(p).suffix in PARAGRAPHS and p != "CHANGELOG.md"]
    measured = {p: measure(ROOT / p) for p in paths}
    return {p: m for p, m in measured.items() if m["words"] >= LEAST_WORDS}


def worse(measured):
    """Return one line for each rate that exceeds its target."""
    return [
        f"{path}: {kind}: expected at most {target:.2f}, got {rates[kind]:.2f}"
        for path, rates in measured.items()
        for kind, target in TARGETS.items()
        if rates[kind] > target + 0.005
    ]


def show(paths, worst):
    """Print the rates of files and, if `worst` is true, the sentences with most faults."""
    for path in paths:
        print(f"{path}: " + ", ".join(f"{k} {v}" for k, v in measure(path).items()))
        found = [
            (sum(faults(s).values()), s)
            for p in PARAGRAPHS[path.suffix](path.read_text("utf-8", "replace"))
            for s in sentences(p)
        ]
        for count, sentence in sorted(found, reverse=True)[: 10 if worst else 0]:
            if count:
                print(f"    {count} {sentence[:160]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path, help="files to print the rates of")
    parser.add_argument("--worst", action="store_true", help="print their worst sentences")
    options = parser.parse_args()
    if options.paths:
        show(options.paths, options.worst)
        return
    lines = worse(measure_all())
    if lines:
        sys.exit("\n".join(["Rewrite these files in plainer English:", *lines]))


if __name__ == "__main__":
    main()
