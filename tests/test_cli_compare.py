"""Test `pyquant compare`: measured errors, differences of bits and exit status."""

import json
import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from support import STORED, dtype_of, expand, named_parts, peak_of

import pyquant as pq
from pyquant.cli import main
from pyquant.weights.blocks import block_format

pytestmark = pytest.mark.usefixtures("here")


def compare(capsys, *arguments):
    """Return the exit status, the JSON of each tensor, and the JSON of the summary."""
    status = main(["compare", "--json", *arguments])
    out, err = capsys.readouterr()
    assert err == ""
    *rows, end = [json.loads(line) for line in out.splitlines()]
    return status, rows, end["summary"]


def saved(name, **weights):
    pq.write_weights(name, {key.replace("__", "."): one for key, one in weights.items()})
    return name


def by_definition(x, q, scale, zero, gap):
    """Return the expected errors of codes. Python floats compute them by elements."""
    signal, noise, product, square, steps, most = [], [], [], [], 0.0, 0.0
    lists = (values.ravel().tolist() for values in (x, q, scale, zero))
    for a, code, s, z in zip(*lists, strict=True):
        b = float(np.float32(code - z) * np.float32(s))
        signal.append(a * a)
        noise.append((a - b) ** 2)
        product.append(a * b)
        square.append(b * b)
        most = max(most, abs(a - b))
        steps = max(steps, abs(a - b) / (s * gap))
    xx, ee, xy, yy = map(math.fsum, (signal, noise, product, square))
    return {
        "sqnr": 10 * math.log10(xx / ee),
        "cosine": xy / math.sqrt(xx) / math.sqrt(yy),
        "max_error": most,
        "max_steps": steps,
    }


HOW = {
    "tensor": {},
    "axis:0": {"axis": 0},
    "block:32": {"axis": -1, "block_size": 32},
}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float8_e4m3fn"])
@pytest.mark.parametrize("granularity", [*HOW, "squares"])
@pytest.mark.parametrize("shape", [(7, 96), (70, 1024), (5, 3, 64)], ids=str)
def test_compare_measures_codes(shape, granularity, dtype, capsys):
    squares = {"block_size": (*(1,) * (len(shape) - 2), 4, 8)}
    how = HOW.get(granularity, squares)
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    x = (x.T * np.linspace(0.1, 3, shape[0], dtype=np.float32)).T
    p, q, parts = named_parts(x, dtype, **how)
    saved("a.safetensors", w=x)
    saved("b.safetensors", **parts)
    status, (said,), end = compare(capsys, "a.safetensors", "b.safetensors")
    scale, zero = (
        0 if one is None else expand(np.asarray(one), x.shape, **how)
        for one in (p.scale, p.zero_point)
    )
    gap = 32 if "float" in dtype else 1  # the distance of the two largest codes
    wanted = by_definition(*np.broadcast_arrays(x, q, scale, zero), gap)
    assert status == 0
    assert said["max_error"] == wanted["max_error"]
    assert said["max_steps"] == wanted["max_steps"]
    # The command adds in another order, so that the last bits of the sums can differ.
    assert said["sqnr"] == pytest.approx(wanted["sqnr"], rel=1e-12)
    assert said["cosine"] == pytest.approx(wanted["cosine"], rel=1e-12)
    assert said["types"] == ["float32", dtype]
    assert (said["saturated"], said["not_finite"], said["fault"]) == (0, 0, None)
    assert end["worst"] == said["sqnr"]


@pytest.mark.parametrize(
    ("x", "dtype", "zero", "saturated", "most", "gap"),
    [
        ([0, 1, 127, 127.5, 127.75, -128.5, -128.75, 3], "int8", 0, 2 / 8, 0.75, 1),
        ([-10, -11, 245, 245.5, 246], "uint8", 10, 2 / 5, 1, 1),
        ([459, 465, 448, -700, 1], "float8_e4m3fn", 0, 2 / 5, 252, 32),  # to 448
    ],
)
def test_compare_counts_saturation(x, dtype, zero, saturated, most, gap, capsys):
    """A value counts as saturated if it is beyond the codes by more than half a step."""
    dtype_of(dtype)  # skips the test without the type
    saved("a.safetensors", w=np.float32([x]))
    p = pq.QParams(np.float32(1), zero or None, dtype)
    parts = {"w": p.quantize(np.float32([x])), "w_scale": np.float32([1])}
    if zero:
        parts["w_zero_point"] = np.array([zero], dtype)
    saved("b.safetensors", **parts)
    _, (said,), _ = compare(capsys, "a.safetensors", "b.safetensors")
    assert said["saturated"] == saturated
    assert (said["max_error"], said["max_steps"]) == (most, most / gap)


@pytest.mark.parametrize("dtype", ["int8", "int4", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("granularity", HOW)
def test_all_commands_measure_equal_errors(dtype, granularity, capsys):
    """compare, quantize, demo, inspect and --report measure equal values.
    A step is the largest distance between two neighbouring codes."""
    from pyquant.cli._logical import logical
    from pyquant.cli._measure import measured
    from pyquant.cli._models import open_model

    def reported():
        with open_model("a.safetensors") as a, open_model("b.safetensors") as b:
            numbers, details = measured(logical(a)["w"], logical(b)["w"], plots=True)
            assert details["exact"] is False
            return numbers

    x = np.random.default_rng(1).standard_normal((70, 1024)).astype(np.float32)
    saved("a.safetensors", w=x)
    options = ["--type", dtype, "--granularity", granularity]
    assert main(["quantize", "--json", "a.safetensors", "b.safetensors", *options]) == 0
    row, _ = map(json.loads, capsys.readouterr().out.splitlines())
    _, (found,), _ = compare(capsys, "a.safetensors", "b.safetensors")
    shown = reported()
    assert {name: found[name] for name in shown} == shown
    # quantize adds over larger bands of rows, so that the last bits of sums can differ.
    assert row["sqnr"] == pytest.approx(found["sqnr"], rel=1e-12)
    assert 0.4 < found["max_steps"] <= 0.5 + 1e-5  # 1e-5, because float32 rounds the values
    assert found["saturated"] == 0
    if dtype == "int8":
        assert main(["demo", "a.safetensors"]) == 0
        rows = capsys.readouterr().out.splitlines()[-len(HOW) :]
        number = [*HOW].index(granularity)
        shown = [f"{found['sqnr']:.2f}", f"{found['max_error']:.4g}"]
        assert rows[number].split()[-4:-2] == shown
    assert main(["inspect", "--json", "--stats", "a.safetensors"]) == 0
    stats = json.loads(capsys.readouterr().out.splitlines()[0])["stats"]
    # NumPy adds in another order, so that the last bits of the sums can differ.
    assert stats["rms"] == pytest.approx(np.sqrt(np.mean(np.square(x, dtype="f8"))))
    x[3, 4:6] = 1e3, -1e3  # two values out of the range of the codes
    saved("a.safetensors", w=x)
    _, (found,), _ = compare(capsys, "a.safetensors", "b.safetensors")
    assert found["saturated"] == reported()["saturated"] == 2 / x.size


def test_the_worst_comes_first(capsys):
    x = np.linspace(-1, 1, 640, dtype=np.float32).reshape(20, 32)
    same = {"none": x[:0], "same": x}
    saved("a.safetensors", good=x, bad=x, **same)
    saved("b.safetensors", good=x.astype("f2"), bad=np.round(x, 1), **same)
    status, rows, end = compare(capsys, "a.safetensors", "b.safetensors")
    assert [one["tensor"] for one in rows] == ["bad", "good", "none", "same"]
    assert [(one["sqnr"], one["max_error"]) for one in rows[2:]] == [("inf", 0)] * 2
    assert (status, end["compared"], end["equal"], end["failed"]) == (0, 4, 2, 0)
    assert end["worst"] == rows[0]["sqnr"]
    assert end["median"] == (rows[0]["sqnr"] + rows[1]["sqnr"]) / 2
    assert main(["compare", "a.safetensors", "a.safetensors"]) == 0
    out = capsys.readouterr().out
    assert out.endswith("4 tensors, all without an error\n")
    assert "nan" not in out


def test_fail_below(capsys):
    x = np.linspace(-1, 1, 640, dtype=np.float32)
    y = x.astype(np.float16)
    np.savez("a.npz", w=x)
    np.savez("b.npz", w=y)
    ratio = pq.measure_error(x, y).sqnr
    for limit, status in ((ratio - 1, 0), (ratio + 1, 1), (-9, 0), (999, 1)):
        found, (said,), end = compare(capsys, "--fail-below", str(limit), "a.npz", "b.npz")
        assert (found, end["failed"], said["fault"] is None) == (status, status, not status)
    assert compare(capsys, "--fail-below", "999", "a.npz", "a.npz")[0] == 0


def test_exact_compares_bits(capsys):
    """--exact reports different signs of zeros and NaNs. Values of a narrower type are
    equal if they are the rounded values."""
    x = np.float32([0.0, 1.5, np.nan, 1 / 3])
    y = np.float32([-0.0, 1.5, -np.nan, 1 / 3])
    half = x.astype("f2")
    a = {"w": x, "same": x, "half": x, "twice": x, "wide": half, "big": np.int64([2**62])}
    b = {"w": y, "same": x, "half": half, "twice": half * 2, "wide": half.astype("f8")}
    np.savez("a.npz", **a)
    np.savez("b.npz", **b, big=np.int64([2**62 + 1]))
    status, rows, end = compare(capsys, "--exact", "a.npz", "b.npz")
    counts = {one["tensor"]: one["differing"]["elements"] for one in rows}
    assert counts == {"w": 2, "same": 0, "half": 0, "twice": 2, "wide": 0, "big": 1}
    assert (status, end["failed"]) == (1, 3)
    assert compare(capsys, "--exact", "a.npz", "a.npz")[0] == 0
    assert compare(capsys, "a.npz", "b.npz")[0] == 0


@pytest.mark.parametrize(
    ("change", "sqnr", "equal", "status"),
    [
        ({}, "inf", 1, 0),
        ({0: np.nan, 3: np.nan}, None, 0, 1),
        ({1: np.inf}, None, 0, 1),
        ({2: 1e-200}, "inf", 0, 0),  # the square of the error is 0 in float64
    ],
    ids=["nothing", "NaN", "infinity", "a small value"],
)
def test_equal_tensors_have_no_changed_value(change, sqnr, equal, status, capsys):
    x = np.array([1.0, 1, 0, 1])
    y = x.copy()
    y[[*change]] = [*change.values()]
    np.savez("a.npz", w=x)
    np.savez("b.npz", w=y)
    for files in (["a.npz", "b.npz"], ["b.npz", "a.npz"]):
        found, (row,), summary = compare(capsys, *files)
        assert (found, row["sqnr"], summary["equal"]) == (status, sqnr, equal)


def test_values_that_are_not_finite_come_first_and_are_an_error(capsys):
    lost = np.float32([1, np.nan, np.inf, -np.inf, 2])
    np.savez("a.npz", exact=np.ones(3), lost=lost)
    np.savez("b.npz", exact=np.ones(3), lost=np.float32([1, np.nan, -np.inf, 7, np.nan]))
    status, (said, exact), summary = compare(capsys, "a.npz", "b.npz")
    fault = "3 different elements with NaN or infinity"
    assert (status, said["not_finite"], said["sqnr"]) == (1, 3, None)
    assert (said["fault"], exact["tensor"]) == (fault, "exact")
    assert [summary[key] for key in ("compared", "equal", "failed")] == [2, 1, 1]
    assert main(["compare", "a.npz", "b.npz"]) == 1
    _, row, _, *rest = capsys.readouterr().out.splitlines()
    assert row.split()[:3] == ["lost", "float32", "-"]
    assert rest == ["2 tensors, 1 without an error", f"lost: failed: {fault}"]


def test_different_names_and_shapes_fail(capsys):
    np.savez("a.npz", w=np.zeros((2, 3), "f4"), x=np.zeros(3, "f4"), s=np.ones(2, "f4"))
    np.savez("b.npz", w=np.zeros((3, 2), "f4"), y=np.zeros(3, "f4"), s=np.ones(2, "f4"))
    status, rows, end = compare(capsys, "a.npz", "b.npz")
    assert (status, end["failed"], end["compared"]) == (1, 3, 1)
    assert rows[:3] == [
        {"tensor": "x", "only_in": "a.npz", "fault": "only in a.npz"},
        {"tensor": "y", "only_in": "b.npz", "fault": "only in b.npz"},
        {
            "tensor": "w",
            "types": ["float32", "float32"],
            "shape": [2, 3],
            "shapes": [[2, 3], [3, 2]],
            "fault": "expected shape (2, 3), got (3, 2)",
        },
    ]
    assert compare(capsys, "--tensor", "s", "a.npz", "b.npz")[0] == 0
    assert main(["compare", "a.npz", "b.npz"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("x: only in a.npz\ny: only in b.npz\nw: expected shape (2, 3), ")
    assert out.endswith("\n4 tensors, 1 without an error\n")


def test_report_overwrites_only_with_force(refused):
    """--report overwrites a file only with -f, and never a compared file."""
    pytest.importorskip("jinja2")  # skips the test without the package
    saved("m-00001-of-00001.safetensors", w=np.ones(3, "f4"))
    saved("b.safetensors", w=np.zeros(3, "f4"))
    shard, index = Path("m-00001-of-00001.safetensors"), "m.safetensors.index.json"
    Path(index).write_text(json.dumps({"weight_map": {"w": shard.name}}), "utf-8")
    before = shard.read_bytes(), Path("b.safetensors").read_bytes()
    compare = "compare", index, "b.safetensors", "--report"
    for path in (shard.name, "b.safetensors", "./b.safetensors"):
        refused(f"--report: {path} is an input or an output", *compare, path, "-f")
    assert (shard.read_bytes(), Path("b.safetensors").read_bytes()) == before
    Path("r.html").write_text("mine", "utf-8")
    refused("r.html exists; use -f to overwrite it", *compare, "r.html")
    assert Path("r.html").read_text("utf-8") == "mine"
    assert main([*compare, "r.html", "-f"]) == 0
    page = Path("r.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert f"{index} and b.safetensors" in page
    # On Windows, which has no FIFOs, make a folder.
    getattr(os, "mkfifo", os.mkdir)("fifo.html")
    Path("folder.html").mkdir()
    for place, said in (
        ("fifo.html", "fifo.html is a FIFO, not a regular file; use another name"),
        ("folder.html", "folder.html is a folder, not a regular file; use another name"),
        ("none/r.html", "folder none does not exist"),
        ("", "--report: expected the name of a file, got ''"),
    ):
        refused(said, *compare, place, "-f")


@pytest.mark.parametrize("limit", ["", "x", "nan", "inf"])
def test_fail_below_needs_a_finite_number(limit, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["compare", "--fail-below", limit, "a.npy", "b.npy"])
    assert exit_.value.code == 2
    expected = f"argument --fail-below: expected a number of dB, got {limit!r}\n"
    assert capsys.readouterr().err.endswith(expected)


# --exact


X = np.random.default_rng(1).standard_normal((300, 1024)).astype(np.float32)


def exact(capsys, a, b):
    """Run `compare --exact`. Return the exit status, the differences by tensor, and the
    faults by tensor."""
    status, rows, end = compare(capsys, "--exact", a, b)
    faults = {row["tensor"]: row["fault"] for row in rows if row["fault"]}
    assert end["failed"] == len(faults)
    assert status == bool(faults)
    counts = {
        row["tensor"]: {unit: n for unit, n in row["differing"].items() if n}
        for row in rows
        if "differing" in row
    }
    return status, counts, faults


@pytest.fixture
def original():
    pq.write_weights("x.safetensors", {"w": X})
    return "x.safetensors"


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float8_e4m3fn"])
@pytest.mark.parametrize("how", STORED)
def test_exact_finds_changed_codes(how, dtype, original, capsys):
    if "float" in dtype:
        pytest.importorskip("ml_dtypes")  # skips the test without the type
    made = named_parts(X, dtype, **STORED[how])[2]
    assert exact(capsys, original, saved("q.safetensors", **made)) == (0, {"w": {}}, {})
    made["w"].view(np.uint8)[[5, 299], [1000, 1]] ^= 1
    status, counts, faults = exact(capsys, original, saved("q.safetensors", **made))
    assert (status, counts) == (1, {"w": {"codes": 2}})
    assert faults == {"w": "2 codes differ from the exact result"}


def test_every_bit_of_the_stored_shape_counts(capsys):
    pq.write_weights("x.safetensors", {"w": X[:4, :32]})
    options = ["--type", "int4", "--min-size", "1"]
    assert main(["quantize", "-q", "x.safetensors", "q.safetensors", *options]) == 0
    path = Path("q.safetensors")
    good = path.read_bytes()
    at = 8 + int.from_bytes(good[:8], "little")
    assert good[at : at + 16] == np.array([4, 32]).tobytes()
    for bit in range(128):
        data = bytearray(good)
        data[at + bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        assert exact(capsys, "x.safetensors", str(path))[:2] == (1, {"w": {"shapes": 1}})
    assert main(["inspect", "--check", str(path)]) == 1
    shape = (4, 32 - 2**63)
    expected = f"{path}: tensor 'w': the stored shape is {shape}, not (4, 32)\n"
    assert capsys.readouterr().out.startswith(expected)


@pytest.mark.parametrize("name", ["Q8_0", "Q4_K"])
def test_exact_finds_changed_blocks(name, original, capsys):
    block = block_format(name)
    data = block.quantize(X)
    pq.write_weights("q.gguf", {"w": (block, data)})
    assert exact(capsys, original, "q.gguf")[0] == 0
    data[299, -1] ^= 1
    data[3, 1] ^= 1
    pq.write_weights("q.gguf", {"w": (block, data)})
    assert exact(capsys, original, "q.gguf")[1] == {"w": {"blocks": 2}}


def quantized(x, *options):
    """Quantize an array to int8 in q.npz. Return the members of q.npz."""
    np.save("x.npy", x)
    assert main(["quantize", "-qf", "x.npy", "q.npz", "--type=int8", *options]) == 0
    return dict(np.load("q.npz"))


@pytest.mark.parametrize(
    ("method", "symmetric"), [("minmax", True), ("minmax", False), ("mse", False)]
)
@pytest.mark.parametrize(
    "granularity", ["tensor", "axis:0", "axis:1", "block:32", "128x64"]
)
def test_exact_finds_changed_parameters(granularity, method, symmetric, capsys):
    """--exact finds one changed scale and one changed code, also if bands of 21 rows begin
    inside blocks of 128 rows."""
    options = ["--granularity", granularity, "--method", method]
    options += [] if symmetric else ["--asymmetric"]
    x = np.random.default_rng(2).standard_normal((350, 3072)).astype(np.float32)
    made = quantized(x, *options)
    assert exact(capsys, "x.npy", "q.npz")[:2] == (0, {"x": {}})
    last = made["x_scale"].reshape(-1)[-1:]
    last[...] = np.nextafter(last, np.float32(9))
    made["x"][349, -1] ^= 1
    np.savez("q.npz", **made)
    counts = exact(capsys, "x.npy", "q.npz")[1]["x"]
    assert counts["scales"] == 1
    assert counts["codes"] >= 1
    if not symmetric:
        last[...] = np.nextafter(last, np.float32(0))
        made["x_zero_point"].reshape(-1)[-1] ^= 1
        np.savez("q.npz", **made)
        counts = exact(capsys, "x.npy", "q.npz")[1]["x"]
        assert (counts.get("scales"), counts["zero points"]) == (None, 1)


@pytest.mark.parametrize("shape", [(1, 96), (8, 96)])
@pytest.mark.parametrize("granularity", ["block:32", "128x64", "8x32"])
def test_exact_finds_changed_scales_of_few_rows(granularity, shape, capsys):
    """--exact finds a changed scale if one block contains all rows."""
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    quantized(x, "--granularity", granularity)
    assert exact(capsys, "x.npy", "q.npz")[:2] == (0, {"x": {}})
    x[0, 0] = 9
    np.save("x.npy", x)
    assert exact(capsys, "x.npy", "q.npz")[1]["x"]["scales"] == 1


def test_exact_needs_no_memory_for_all_parameters(capsys):
    x = np.random.default_rng(4).standard_normal((1 << 15, 128)).astype(np.float32)
    quantized(x, "--granularity", "block:4")
    found, peak = peak_of(lambda: exact(capsys, "x.npy", "q.npz"))
    assert found[0] == 0
    # scales occupy a quarter of the bytes of x: float32 for each 4 elements
    assert peak < 5 * x.nbytes / 4


@pytest.mark.parametrize(
    ("key", "value"),
    [("rounding", "x"), ("rounding", []), ("method", None), ("symmetric", "yes")],
)
def test_exact_rejects_unknown_records(key, value, refused):
    made = quantized(X)
    records = json.loads(json.loads(str(made["__pyquant__"]))["pyquant"])
    records["x"]["quantized"][key] = value
    text = json.dumps({"pyquant": json.dumps(records)})
    np.savez("q.npz", **{**made, "__pyquant__": np.array(text)})
    said = f"compare: q.npz: tensor 'x': the record has an unknown {key}, {value!r}\n"
    refused(said, "compare", "--exact", "x.npy", "q.npz")


def test_exact_rejects_an_original_without_parameters(refused):
    quantized(X)
    x = X.copy()
    x[3, 5] = np.nan
    np.save("x.npy", x)
    said = "compare: q.npz: tensor 'x': x: expected finite values"
    refused(said, "compare", "--exact", "x.npy", "q.npz")


@pytest.mark.parametrize("installed", [True, False])
def test_exact_rounds_to_bfloat16(installed, monkeypatch, capsys):
    words = X.astype(dtype_of("bfloat16")).view(np.uint16)
    if not installed:
        monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    values = (words.astype(np.uint32) << 16).view(np.float32)
    changed = values.copy()
    changed[3, 4] = 2
    pq.write_weights("x.safetensors", {"w": X})
    for name, one in {"y": values, "z": changed}.items():
        pq.write_weights(f"{name}.safetensors", {"w": ("bfloat16", one)})
    assert exact(capsys, "x.safetensors", "y.safetensors")[0] == 0
    assert exact(capsys, "x.safetensors", "z.safetensors")[1] == {"w": {"elements": 1}}
    for other, status in (("y", 0), ("z", 1)):
        assert exact(capsys, f"{other}.safetensors", "y.safetensors")[0] == status


def test_compare_compares_the_bytes_of_complex_numbers(capsys):
    a, b = np.array([1 + 2j, 3]), np.complex64([1 + 2j, 3])
    c = np.array(1 + 2j, ">c8")  # an array without dimensions, big-endian
    np.savez("x.npz", a=a, b=b, c=c, d=c)
    np.savez("q.npz", a=a, b=b + np.complex64([0, 1]), c=c.astype("<c8"), d=-c)
    assert exact(capsys, "x.npz", "x.npz")[0] == 0
    faults = dict.fromkeys("bd", "the bytes differ")
    assert exact(capsys, "x.npz", "q.npz")[2] == faults
    for option in ([], ["--exact"]):
        assert main(["compare", *option, "x.npz", "x.npz"]) == 0
        assert capsys.readouterr().out == "4 tensors, all without an error\n"
        assert main(["compare", *option, "x.npz", "q.npz"]) == 1
        said = "b: the bytes differ\nd: the bytes differ\n4 tensors, 2 without an error\n"
        assert capsys.readouterr().out == said
    np.savez("x.npz", a=a, x=X)
    np.savez("q.npz", a=-a, x=X)
    assert main(["compare", "x.npz", "q.npz"]) == 1
    first, *_, last = capsys.readouterr().out.splitlines()
    assert (first, last) == ("a: the bytes differ", "2 tensors, 1 without an error")
