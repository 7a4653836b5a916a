"""Compare public functions with the rules of docs/api/conventions.md."""

import copy
import inspect
import pickle
import re

import public_calls
from support import case

# Modules with argument names, orders and defaults of a standard instead of pyquant's.
STANDARDS = tuple(
    f"{name}." for name in ("ngraph", "onednn", "onnx", "com_microsoft", "openvino")
)
FIRST = ("dtype", "axis", "block_size")  # the first keyword arguments have this order
DEFAULTS = {"axis": None, "block_size": None, "out": None, "threads": 1}


def parameters(one):
    """Return the parameters of a function, without `self`."""
    found = inspect.signature(one).parameters.values()
    return [p for p in found if p.name not in ("self", "cls")]


def faults_of_signature(one, *, defaults):
    """Yield the rules that the signature of a function breaks."""
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


# A summary must not begin with one of these words, because it would have no subject.
HEADS = (
    *("as", "beside", "both", "either", "few", "how", "none", "of", "other", "others"),
    *("such", "that", "those", "what", "whether", "which", "whose"),
)


def faults_of_summary(one):
    """Yield an error if the summary is not a separate line of at most 79 columns."""
    summary, _, rest = (inspect.getdoc(one) or "").partition("\n")
    one_line = 0 < len(summary) <= 79 and not rest.partition("\n")[0]
    subject = summary.partition(" ")[0].lower() not in HEADS
    if not (one_line and subject and summary.endswith(".")):
        yield f"summary: {summary!r}"


def faults_of_docstring(one):
    """Yield the rules that a docstring breaks."""
    text = inspect.getdoc(one) or ""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\S|\Z)", text, re.S | re.M)
    lines = re.findall(
        r"^(\w[\w, *]*|\*\*\w+)(?: :|$)", section[1] if section else "", re.M
    )
    documented = [name.strip("* ") for line in lines for name in line.split(",")]
    expected = [p.name for p in parameters(one)]
    # If a class documents only attributes, functions return its objects, and users do not
    # call the class.
    if documented != expected and not (inspect.isclass(one) and not section):
        yield f"parameters: {documented}, expected {expected}"
    if "\nExamples\n--------\n" not in text:
        yield "no example"


def faults_of(name, one):
    """Yield the rules that a public name breaks."""
    yield from faults_of_summary(one)
    if isinstance(one, property):
        return
    yield from faults_of_docstring(one)
    if not name.startswith(STANDARDS):
        weights = one.__module__.startswith("pyquant.weights")
        yield from faults_of_signature(one, defaults=not weights)


def test_conventions():
    names = dict(public_calls.public())
    # include the names of the module, but not the methods, which only zarr calls
    if zarr := public_calls.OPTIONAL.get("zarr"):
        names |= {f"zarr.{name}": getattr(zarr, name) for name in zarr.__all__}
    found = {
        name: [*faults_of(name, one)]
        for name, one in names.items()
        if not name.startswith("cli.")
    }
    for module in public_calls.public_modules():
        found[module.__name__] = [*faults_of_summary(module)]
    assert len(found) > 100
    assert not {name: faults for name, faults in found.items() if faults}


def test_functions_are_found_by_their_names():
    """Public functions have correct names, and can be copied and pickled, also functions
    with a decorator and functions of the extension module."""
    functions = [
        (name, one)
        for name, one in public_calls.public()
        if inspect.isroutine(one) and name.count(".") == 1
    ]
    assert len(functions) > 50
    for name, one in functions:
        with case(name=name):
            assert one.__qualname__ == one.__name__
            assert pickle.loads(pickle.dumps(one)) is copy.deepcopy(one) is one
