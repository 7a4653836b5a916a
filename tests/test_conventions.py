"""Check the signature and the docstring of each public function by the rules of
docs/api/conventions.md.
"""

import inspect
import pkgutil
import re
from enum import EnumType
from importlib import import_module
from types import ModuleType

import pytest

import pyquant as pq

# Modules that import an optional package.
OPTIONAL = ("pyquant.integrations.dask", "pyquant.integrations.zarr")
# Modules with the names, the order and the defaults of a standard.
STANDARDS = {
    f"pyquant.{name}" for name in ("ngraph", "onednn", "onnx", "com_microsoft", "openvino")
}
FIRST = ("dtype", "axis", "block_size")  # the order of the first keywords
DEFAULTS = {"axis": None, "block_size": None, "out": None, "threads": 1}


def modules():
    """Yield the names of the public modules."""
    yield "pyquant"
    for found in pkgutil.walk_packages(pq.__path__, "pyquant."):
        hidden = any(part.startswith("_") for part in found.name.split("."))
        if not hidden and not found.name.startswith("pyquant.cli"):
            yield found.name


def functions(name):
    """Yield the functions, classes and public methods of a module, with their names."""
    module = import_module(name)
    for key in module.__all__:
        one = getattr(module, key)
        if isinstance(one, ModuleType | EnumType) or not callable(one):
            continue
        yield key, one
        if name == "pyquant.integrations.zarr":  # zarr calls the methods of its codec
            continue
        for method in vars(one) if inspect.isclass(one) else ():
            if not method.startswith("_") and callable(getattr(one, method)):
                yield f"{key}.{method}", getattr(one, method)


def members(name):
    """Yield a module, and the public members of its classes, with their names."""
    yield name, import_module(name)
    for _, one in functions(name):
        for owner in one.__mro__ if inspect.isclass(one) else ():
            for key, value in vars(owner).items():
                known = isinstance(value, property) or inspect.isroutine(value)
                if known and owner.__module__.startswith("pyquant.") and key[0] != "_":
                    yield f"{one.__name__}.{key}", value


def parameters(one):
    """Return the parameters of a function, without `self`."""
    found = inspect.signature(one).parameters.values()
    return [p for p in found if p.name not in ("self", "cls")]


def faults_of_signature(one, *, defaults):
    """Yield the rules that a signature breaks."""
    found = parameters(one)
    keywords = [p.name for p in found if p.kind is p.KEYWORD_ONLY]
    head = [k for k in keywords if k in FIRST]
    if head != [k for k in FIRST if k in head]:
        yield f"order of {head}"
    if "threads" in keywords[:-1]:
        yield "threads is not the last keyword"
    for p in found:
        known = p.name in DEFAULTS if defaults else p.name in ("out", "threads")
        if p.kind is p.KEYWORD_ONLY and known and p.default != DEFAULTS[p.name]:
            yield f"{p.name}={p.default}"


# Words that begin a sentence without a subject.
HEADS = (
    *("as", "beside", "both", "either", "few", "how", "none", "of", "other", "others"),
    *("such", "that", "those", "what", "whether", "which", "whose"),
)


def faults_of_summary(one):
    """Yield a summary that editors cannot show alone, in 79 columns."""
    summary, _, rest = (inspect.getdoc(one) or "").partition("\n")
    one_line = 0 < len(summary) <= 79 and not rest.partition("\n")[0]
    subject = summary.partition(" ")[0].lower() not in HEADS
    if not (one_line and subject and summary.endswith(".")):
        yield f"summary: {summary!r}"


def faults_of_docstring(one):
    """Yield the rules that a docstring breaks."""
    text = inspect.getdoc(one) or ""
    yield from faults_of_summary(one)
    section = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\S|\Z)", text, re.S | re.M)
    lines = re.findall(
        r"^(\w[\w, *]*|\*\*\w+)(?: :|$)", section[1] if section else "", re.M
    )
    documented = [name.strip("* ") for line in lines for name in line.split(",")]
    expected = [p.name for p in parameters(one)]
    # Functions make the objects of a class that documents attributes only.
    if documented != expected and not (inspect.isclass(one) and not section):
        yield f"parameters: {documented}, expected {expected}"
    if "\nExamples\n--------\n" not in text:
        yield "no example"


@pytest.mark.parametrize("name", list(modules()))
def test_conventions(name):
    if name in OPTIONAL:
        pytest.importorskip(name, exc_type=ImportError)  # needs an optional package
    found = []
    for key, one in members(name):
        found += [f"{key}: {fault}" for fault in faults_of_summary(one)]
    for key, one in functions(name):
        faults = [*faults_of_docstring(one)]
        if name not in STANDARDS:
            faults += faults_of_signature(one, defaults="weights" not in name)
        found += [f"{key}: {fault}" for fault in faults]
    assert not found, "\n".join(found)
