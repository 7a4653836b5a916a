"""Test reports: the numbers, the HTML page by a parser, and the page in a browser."""

import os
import re
import shutil
from html.parser import HTMLParser
from itertools import pairwise
from math import prod

import numpy as np
import pytest
from support import case, peak_of, run_python, seeds

import pyquant as pq
from pyquant.cli import _measure, main
from pyquant.cli._charts import histogram
from pyquant.cli._errors import Refused
from pyquant.cli._forms import ONNX, Granularity
from pyquant.cli._logical import Joined, Logical, logical
from pyquant.cli._measure import Codes, measured
from pyquant.cli._models import Bytes, open_model
from pyquant.dtypes import TYPES
from pyquant.weights.files import StoredTensor

HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202e&amp;"
# If True, tests fail without a browser. If False, tests are skipped.
REQUIRED = os.environ.get("PYQUANT_REQUIRE_BROWSER") == "1"


def stored(array, dtype=None, shape=None):
    """Return an array as a tensor of a file. If `dtype` is given, the bytes of the array
    are elements of this type."""
    name, shape = dtype or str(array.dtype), array.shape if shape is None else shape
    file = Bytes("m", array.tobytes())
    return StoredTensor("w", file, name, name, shape, 0, array.nbytes)


def plain(x):
    return Logical("w", {"w": stored(x)}, ("w",), x.shape, str(x.dtype), None)


def quantized(x, dtype="int8", granularity="tensor", **how):
    shared = Granularity(granularity)
    finite = np.where(np.isfinite(x), x, 0).astype(x.dtype)
    p = pq.choose_qparams(finite, dtype=dtype, **shared.call(x.ndim))
    names = ("scale", "zero_point", "dtype", "axis", "block_size")
    p = pq.QParams(**{**{name: getattr(p, name) for name in names}, **how})
    packed = TYPES[dtype].bits < 8
    codes = p.quantize(x, layout="onnx").data if packed else p.quantize(x)
    model = {"codes": stored(codes, dtype, x.shape), "scale": stored(np.asarray(p.scale))}
    if p.zero_point is not None:
        zero = np.broadcast_to(p.zero_point, np.shape(p.scale)).astype(np.int16)
        model["zero_point"] = stored(zero)
    parts = {name: name for name in model}
    return Joined("w", x.shape, ONNX[dtype], shared, model, parts)


def normal(*shape, seed=0):
    x = np.random.default_rng(seed).standard_normal(shape)
    return x.astype(np.float32)


def measure(original, result):
    """Return the measured numbers and details of a tensor, merged into one dictionary."""
    numbers, details = measured(original, result, plots=True)
    return numbers | details


def of_codes(x, **how):
    return measure(plain(x), quantized(x, **how))


# Numbers


def test_counts_of_values():
    x = np.arange(0, 1281, dtype=np.float32).reshape(183, 7)
    found = of_codes(x)["histogram"]
    assert (found["low"], found["high"]) == (0, 1280)
    # the last bin includes its lower and its upper limit
    assert found["counts"] == [10] * 127 + [11]


def test_bands_change_nothing_but_last_bits(monkeypatch):
    x = normal(700, 33)
    whole = of_codes(x, granularity="axis:0")
    monkeypatch.setattr(_measure, "BAND", 600)
    parts = of_codes(x, granularity="axis:0")
    sums = ("sqnr", "cosine", "max/rms", "alternatives")
    assert {k: v for k, v in whole.items() if k not in sums} == {
        k: v for k, v in parts.items() if k not in sums
    }


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint4"])
def test_used_codes_are_the_codes_of_the_array(dtype):
    """The report marks the codes that an array uses, including code 0."""
    levels = np.arange(TYPES[dtype].lowest, TYPES[dtype].highest + 1)
    for seed in seeds(40):
        x = np.random.default_rng(seed).uniform(-1, 2, (4, 16)).astype(np.float32)
        p = pq.choose_qparams(x, dtype=dtype, symmetric=False)
        codes = np.asarray(p.quantize(x)).astype(np.int16)
        expected = "".join("01"[one] for one in np.isin(levels, codes).tolist())
        with case(seed=seed):
            found = of_codes(x, dtype=dtype, scale=p.scale, zero_point=p.zero_point)
            assert found["used"] == expected
            assert found["unused_codes"] == expected.count("0")
            assert [one["label"] for one in found["grids"]] == ["scale"]


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_count_no_code(odd):
    x = np.float32([[-3, 0, 2, 7]])
    expected = of_codes(x, dtype="int4", scale=np.float32(1.5))["used"]
    with_odd = np.append(x, [[np.float32(odd)]], axis=1)
    result = quantized(with_odd, "int4", scale=np.float32(1.5))
    assert measure(plain(with_odd), result)["used"] == expected


@pytest.mark.parametrize("name", [t.name for t in TYPES.values() if t.kind == "float"])
def test_levels_of_narrow_floats(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = np.dtype(getattr(ml_dtypes, name))
    codes = np.arange(1 << TYPES[name].bits, dtype=np.uint8).view(dtype)
    values = {float(code) for code in codes if np.isfinite(float(code))}
    codes = Codes(name)
    assert codes.levels.tolist() == sorted(values)
    # No two values have equal bits, so that a table can be indexed by the bits.
    assert np.unique(_measure._halves(codes.levels)).size == len(values)
    assert codes.gap == max(b - a for a, b in pairwise(codes.levels))


@pytest.mark.parametrize("dtype", ["int8", "uint4", "float8_e4m3fn", "float4_e2m1fn"])
@pytest.mark.parametrize("shape", [(40, 96), (8, 16, 3, 3), (6, 5, 70)])
def test_granularities_side_by_side(dtype, shape):
    """The report lists the errors of three granularities. Blocks are along the last
    axis."""
    x = normal(*shape)
    expected = {
        "tensor": pq.choose_qparams(x, dtype=dtype),
        "axis:0": pq.choose_qparams(x, dtype=dtype, axis=0),
        "block:32": pq.choose_qparams(x, dtype=dtype, axis=-1, block_size=32),
    }
    found = of_codes(x, dtype=dtype)["alternatives"]
    assert found == [
        {"granularity": name, "type": dtype, "sqnr": params.measure_error(x).sqnr}
        for name, params in expected.items()
    ]


def test_scales_and_codes_of_channels():
    x = np.float32(
        [[-8, 4, 7.5, 0, 3], [-8.5, 0, 1, 2, 3], [6, 6, 1, 0, 1], [0, 0, 0, 0, 0]]
    )
    scale = np.float32([0.5, 4, 1, 0])
    found = of_codes(x, dtype="int8", granularity="axis:0", scale=scale)
    assert found["scale_curve"] == [2, 0, -1]
    assert found["zero_scales"] == 1
    grids = [tuple(one.values()) for one in found["grids"]]
    assert grids == [
        *(("largest scale", 4, 0, -514, 510), ("median scale", 1, 0, -128.5, 127.5))
    ]


def test_shapes_of_a_histogram():
    shown = {"low": 0, "high": 128, "counts": [1] * 128}
    grid = {"label": "scale", "scale": 32, "low": 0, "high": 63.5}
    found = histogram(shown, [grid], [[0, 32, 64, 1000]], "1010")
    assert found["inside"] == "M1 100H1V0H256V100H511V100z"
    assert found["outside"] == "M1 100H256V0H511V100z"
    (strip,) = found["strips"]
    assert strip["used"] == "M1 106v10M256 106v10"
    assert strip["unused"] == "M128.5 106v10"
    assert (found["start"], found["stop"]) == (0, 128)
    # The plot extends to codes beyond the values, but on each side by at most the width of
    # the values.
    found = histogram(shown, [{**grid, "low": -64, "high": 1e9}], [], "")
    assert (found["start"], found["stop"]) == (-64, 256)
    assert found["outside"] == ""


def test_blocks_of_gguf_have_no_steps(here):
    x, q4 = normal(6, 512), pq.weights.blocks.block_format("Q4_K")
    pq.write_weights("w.gguf", {"w": (q4, q4.quantize(x))})
    with open_model("w.gguf") as model:
        found = measure(plain(x), logical(model)["w"])
    whole = pq.measure_error(x, q4.dequantize(q4.quantize(x)))
    assert (found["sqnr"], found["max_error"]) == (whole.sqnr, whole.max_error)
    assert {one["type"] for one in found["alternatives"]} == {"int4"}
    assert found["max_steps"] is None


ODD = {
    "no axes": np.float32(0.3),
    "no rows": np.zeros((0, 4), np.float32),
    "no columns": np.zeros((4, 0), np.float32),
    "zeros": np.zeros((3, 4), np.float32),
    "one number": np.full((3, 4), 0.3, np.float32),
    "NaN": np.full((3, 4), np.nan, np.float32),
    "not finite": np.float32([[np.nan, np.inf, -np.inf, 1e-45, 0.1]]),
    "tiny": np.float32([[1e-45, 3e-45, -1e-45]]),
    "huge": np.float32([[3.4e38, -3.4e38, 1]]),
    "huge float64": np.float64([[1e308, -1e308, 1e-10]]),
    "one axis": normal(9),
    "four axes": normal(3, 2, 5, 1),
    "float16": np.float16([[0.1, 65504, -3]]),
    **{dtype: np.arange(12).astype(dtype) for dtype in ("int64", "bool", "uint8")},
}


@pytest.mark.parametrize("name", ODD)
def test_odd_tensors(name, tmp_path):
    x = np.asarray(ODD[name])
    less = (x * 0.75).astype(x.dtype)
    results = [plain(x), plain(less), plain(np.zeros_like(x))]
    results += [quantized(x)] if x.dtype.kind == "f" and x.size else []
    for result in results:
        found = measure(plain(x), result)
        assert found["elements"] == x.size
        assert found["exact"] == np.array_equal(
            x, result.dequantize(dtype=x.dtype), equal_nan=True
        )
        if found.get("histogram"):
            assert sum(found["histogram"]["counts"]) == np.isfinite(x).sum()
        Page(written(tmp_path, [("w", plain(x), result)]))


@pytest.mark.parametrize("granularity", ["axis:0", "block:4"])
def test_memory_is_that_of_a_band(granularity, here):
    pq.write_weights("a.safetensors", {"w": np.resize(normal(64, 256), (1 << 15, 256))})
    options = ("--type", "int8", "--granularity", granularity)
    assert main(["quantize", "-q", "a.safetensors", "b.safetensors", *options]) == 0
    with open_model("a.safetensors") as a, open_model("b.safetensors") as b:
        original, result = logical(a)["w"], logical(b)["w"]
        found, peak = peak_of(lambda: measure(original, result))
        assert found["elements"] == 1 << 23
        assert peak < (8 << 20) + 4 * result.params()[0].nbytes


# The page

VOID = {"meta", "link", "br", "img", "rect", "path"}


class Page(HTMLParser):
    """Parse a page. Check that tags are closed, and collect the text of cells and the names
    of files that the page requests."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.tags, self.attributes, self.text = [], [], [], [], {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attributes]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attributes]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data
        elif self.open:
            self.text[self.open[-1]] = self.text.get(self.open[-1], "") + data


def written(folder, tensors, title="a → b"):
    pytest.importorskip("jinja2")  # skips the test without the package
    from pyquant.cli._report import Report

    path = folder / "report.html"
    report = Report(title, str(path), [], force=True)
    for one in tensors:
        report.add(*one)
    report.write()
    assert os.listdir(folder).count("report.html") == 1
    return path.read_text("utf-8")


def several():
    """Return pairs of tensors of different types. One has a hostile name, one no error."""
    tall = normal(64, 96) * np.exp(normal(64, 1, seed=1))
    clipped = normal(32, 64)
    same = normal(8, 8)
    return [
        ("same", plain(same), plain(same)),
        ("rows", plain(tall), quantized(tall, "int8", "axis:0")),
        ("blocks", plain(tall), quantized(tall, "int4", "block:32")),
        ("float", plain(tall), quantized(tall, "float8_e4m3fn", "32x32")),
        (HOSTILE, plain(clipped), quantized(clipped, scale=np.float32(0.01))),
        ("wasted", plain(clipped), quantized(clipped, scale=np.float32(1))),
        ("unsigned", plain(clipped + 2), quantized(clipped + 2, "uint8")),
        ("words", plain(clipped), quantized(clipped, "int16")),
        ("rounded", plain(tall), plain(tall.astype(np.float16).astype(np.float32))),
        ("one", plain(np.float32(1.25)), plain(np.float32(1.5))),
    ]


def test_page(tmp_path):
    page = Page(written(tmp_path, several(), title="<b>x & y"))
    assert page.text["h1"] == page.text["title"] == "<b>x & y"
    head, *rows = page.rows
    assert {len(row) for row in rows} == {len(head)}
    ratios = [float(row[5]) if row[5].strip() != "exact" else np.inf for row in rows]
    assert ratios == sorted(ratios)
    assert rows[-1][0] == "same"
    escaped = HOSTILE.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e")
    assert escaped in [row[0] for row in rows]
    assert page.tags.count("section") == len(rows) - 1


def test_page_asks_for_nothing_and_runs_nothing_else(tmp_path):
    page = Page(written(tmp_path, several()))
    assert page.tags.count("script") == page.tags.count("style") == 1
    assert not {"img", "link", "iframe", "object", "base", "form", "b"} & set(page.tags)
    names = {name for _, name, _ in page.attributes}
    assert not {"style", "src", "srcset", "action", "background"} & names
    assert not [name for name in names if name.startswith("on")]
    targets = [value for _, name, value in page.attributes if name == "href"]
    ids = {f"#{value}" for _, name, value in page.attributes if name == "id"}
    assert targets
    assert set(targets) <= ids
    assert "url(" not in page.text["style"]
    (policy,) = [v for _, name, v in page.attributes if name == "content" and "none" in v]
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-[\w+/]{43}='; "
        r"script-src 'sha256-[\w+/]{43}='; base-uri 'none'; form-action 'none'",
        policy,
    )


def test_totals(tmp_path):
    pytest.importorskip("jinja2")  # skips the test without the package
    from pyquant.cli._report import Report, _totals

    report, tensors = Report("t", str(tmp_path / "r.html"), [], force=False), several()
    for one in tensors:
        report.add(*one)
    ratios = [one["sqnr"] for one in report._tensors if one["sqnr"] != np.inf]
    assert len(ratios) == 9
    assert _totals(report._tensors) == {
        "tensors": 10,
        "exact": 1,
        "lossy": 9,
        "elements": sum(prod(x.shape) for _, x, _ in tensors),
        "bytes_before": sum(x.nbytes for _, x, _ in tensors),
        "bytes_after": sum(y.nbytes for _, _, y in tensors),
        "bits_per_weight": 8
        * sum(y.nbytes for _, _, y in tensors)
        / sum(prod(x.shape) for _, x, _ in tensors),
        "worst_sqnr": min(ratios),
        "median_sqnr": sorted(ratios)[4],
    }


@pytest.mark.parametrize("count", [400, 401, 801])
def test_of_many_the_worst_are_plotted(count, tmp_path):
    base = normal(2, 8)

    def tensors():
        for k in np.random.default_rng(0).permutation(count):
            yield f"w{k}", plain(base), plain(base * np.float32(1 - (count - k) / 1000))

    page = Page(written(tmp_path, tensors()))
    assert page.tags.count("tr") == count + 1
    plotted = count if count == 400 else 200
    assert page.tags.count("section") == plotted
    assert [row[0] for row in page.rows[1:]] == [f"w{k}" for k in range(count)]
    said = f"Plots of the 200 tensors with the lowest signal to noise follow, of {count}"
    assert (said in page.text["p"]) == (count > 400)


def test_nothing_is_left_of_a_page_that_cannot_be_written(tmp_path, monkeypatch):
    path = tmp_path / "report.html"

    def refuse(*paths):
        raise OSError(28, "No space left on device")

    before = written(tmp_path, [])
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        written(tmp_path, several())
    assert os.listdir(tmp_path) == ["report.html"]
    assert path.read_text("utf-8") == before


def test_without_jinja_one_line_names_the_package(monkeypatch):
    from pyquant.cli._report import Report

    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    with pytest.raises(Refused, match=r"^a report needs jinja2; run: pip install jinja2$"):
        Report("t", "r.html", [], force=False)


def test_jinja_is_imported_when_a_report_is_made():
    code = "import sys, pyquant.cli._report; assert 'jinja2' not in sys.modules"
    run_python(code)


# In a browser


@pytest.fixture(scope="module")
def chromium():
    """Yield the installed Chromium, started by Playwright."""
    if "PYQUANT_EMULATED" in os.environ:
        pytest.skip("the emulator starts no browsers")
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sync_playwright = None
    if path is None or sync_playwright is None:
        missing = "playwright" if path else "chromium"
        if REQUIRED:
            pytest.fail(f"a browser is required here, but {missing} is not installed")
        pytest.skip(f"{missing} is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()


class Shown:
    """A report in a browser, and the errors and requests that the page causes."""

    def __init__(self, chromium, path, **how):
        self.context = chromium.new_context(offline=True, **how)
        self.page = self.context.new_page()
        self.happened, self.requests = [], []
        for event in ("console", "pageerror", "dialog", "requestfailed"):
            self.page.on(event, lambda said, event=event: self._note(event, said))
        self.page.on("request", lambda one: self.requests.append(one.url))
        self.page.goto(path.as_uri())

    def _note(self, event, said):
        self.happened.append((event, getattr(said, "text", str(said))))
        if event == "dialog":
            said.dismiss()


@pytest.fixture
def show(chromium, tmp_path):
    opened = []

    def made(tensors=None, **how):
        written(tmp_path, several() if tensors is None else tensors)
        opened.append(Shown(chromium, tmp_path / "report.html", **how))
        return opened[-1]

    yield made
    for one in opened:
        assert one.happened == []
        assert one.requests == [(tmp_path / "report.html").as_uri()]
        one.context.close()


def test_browser_sorts(show):
    page = show().page
    assert page.get_attribute("html", "data-ready") == "10"

    def values(column):
        script = "(rows, k) => rows.map(row => row.cells[k].dataset.value)"
        return page.locator("tbody tr").evaluate_all(script, column)

    assert page.locator("thead th").nth(5).get_attribute("aria-sort") == "ascending"
    before = values(0)
    for column, head in enumerate(page.locator("thead button").all()):
        was = page.locator("thead th").nth(column).get_attribute("aria-sort")
        for _ in range(2):
            head.click()
            way = page.locator("thead th").nth(column).get_attribute("aria-sort")
            assert way != was
            assert page.locator("[aria-sort]").count() == 1
            found = values(column)
            given = [value for value in found if value]
            assert found == given + [""] * (len(found) - len(given))
            given = [float(one) if column > 2 else one.lower() for one in given]
            # names are not compared, because their order depends on the language
            if column:
                assert given == sorted(given, reverse=way == "descending")
            was = way
    assert sorted(values(0)) == sorted(before)
    page.locator("thead button").nth(5).click()
    assert values(0) == before


SHAPES = """() => [...document.querySelectorAll("svg")].flatMap(svg => {
  const outer = svg.getBoundingClientRect();
  const frame = (svg.querySelector(".frame") || svg).getBoundingClientRect();
  return [...svg.querySelectorAll("path, rect, text")].map(shape => {
    const inner = shape.getBoundingClientRect();
    const within = shape.matches(".inside, .outside, .line") ? frame : outer;
    const gaps = [inner.left - within.left, within.right - inner.right,
                  inner.top - within.top, within.bottom - inner.bottom];
    return [shape.outerHTML.slice(0, 80), outer.width * outer.height, Math.min(...gaps)];
  });
})"""


@pytest.mark.parametrize("width", [360, 1200, 2400])
def test_browser_keeps_shapes_in_their_frames(show, width):
    page = show(viewport={"width": width, "height": 900}).page
    shapes = page.evaluate(SHAPES)
    assert len(shapes) > 100
    assert [shape for shape in shapes if shape[1] < 64 or shape[2] < -0.5] == []
    # The page does not scroll sideways, even with a long name.
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_browser_follows_links_to_plots(show):
    page = show(viewport={"width": 1200, "height": 500}).page
    link = page.locator("tbody a").last
    name = link.inner_text()
    link.click()
    section = page.locator("section:target")
    assert section.locator("h3").inner_text() == name
    assert section.bounding_box()["y"] < 500


def brightness(color):
    return sum(map(int, re.findall(r"\d+", color)[:3]))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_browser_has_light_and_dark(show, scheme):
    page = show(color_scheme=scheme).page
    style = "k => getComputedStyle(document.querySelector(k))"
    paper = brightness(page.evaluate(f"({style})('body').backgroundColor"))
    ink = brightness(page.evaluate(f"({style})('body').color"))
    assert abs(paper - ink) > 500
    assert (paper > ink) == (scheme == "light")
    numerals = page.evaluate(f"({style})('td').fontVariantNumeric")
    assert numerals == "tabular-nums"


def test_browser_without_script(show):
    page = show(java_script_enabled=False).page
    assert page.locator("tbody tr").count() == 10
    assert page.locator("button").count() == 0
    assert page.get_attribute("html", "data-ready") is None
    assert page.locator("section path.inside").first.bounding_box()["height"] > 50


def test_browser_shows_a_report_of_nothing(show):
    page = show([]).page
    assert page.get_attribute("html", "data-ready") == "0"
