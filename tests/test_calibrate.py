"""calibrate: the numbers of ONNX Runtime's and PyTorch's calibrators, to the bit."""

import contextlib
import io

import numpy as np
import pytest
from support import amount

import pyquant as pq

NORMAL = np.random.default_rng(0).standard_normal(10000).astype(np.float32)
ENDS = (np.float32(-3.8994217), np.float32(3.4818373))
FEW = (np.arange(16) - 4).astype(np.float32)
THREE = [np.float32([-4, 3]), np.float32([-8, 10]), np.float32([0, 5])]


def same(found, due):
    lo, hi = found
    assert (type(lo), type(hi)) == (np.float32, np.float32)
    assert (lo, hi) == (np.float32(due[0]), np.float32(due[1]))


# ---- worked numbers of the packages, by running them ----


@pytest.mark.parametrize(
    ("batches", "options", "due"),
    [
        ([NORMAL], {"method": "minmax"}, ENDS),
        ([NORMAL], {"method": "minmax", "symmetric": True}, (-3.8994217, 3.8994217)),
        (
            [NORMAL],
            {"method": "percentile", "percentile": 99.9, "symmetric": False},
            (-3.3548737, 3.1301999),
        ),
        ([NORMAL], {"method": "percentile", "percentile": 99.9}, (-3.1968629, 3.1968629)),
        ([NORMAL], {"method": "entropy"}, ENDS),
        ([NORMAL], {"method": "entropy", "bins": 2048}, (-3.1873202, 3.1911283)),
        (
            [NORMAL],
            {"method": "entropy", "bins": 8001, "quantized_bins": 255},
            (-2.8593810, 2.8593807),
        ),
        (
            [FEW],
            {"method": "percentile", "percentile": 90, "bins": 8, "symmetric": False},
            (-4, 8.25),
        ),
        # Its lower end is within the extremes, as that of the package is.
        ([FEW], {"method": "percentile", "percentile": 90, "bins": 8}, (-4, 9.625)),
        (THREE, {"method": "minmax"}, (-8, 10)),
        (THREE, {"method": "minmax", "moving_average": True}, (-4, 6)),
        (THREE, {"method": "minmax", "like": "pytorch"}, (-8, 10)),
        (THREE, {"method": "moving", "like": "pytorch"}, (-3.9996, 3.0893)),
        ([NORMAL], {"method": "mse", "like": "pytorch"}, (-3.8994217, 3.4782333)),
        # What the package makes of data that is all the same: the lower end is higher.
        (
            [np.full(100, 3, np.float32)],
            {"method": "percentile", "symmetric": False},
            (3, 2.9970703),
        ),
        ([np.full(100, 3, np.float32)], {"method": "mse", "like": "pytorch"}, (3, 3)),
        ([np.zeros(9, np.float32)], {"method": "entropy"}, (0, 0)),
    ],
    ids=str,
)
def test_worked_numbers(batches, options, due):
    same(pq.calibrate(batches, **options), due)


def test_pytorchs_scales():
    """Of quint8 and of symmetric qint8, with amax / 127.5."""
    lo, hi = pq.calibrate([NORMAL], method="mse", like="pytorch")
    assert f"{(hi - lo) / np.float32(255):.7g}" == "0.02893198"  # as PyTorch prints them
    assert f"{-lo / np.float32(127.5):.6g}" == "0.0305837"


# ---- PyTorch 2.13: seed; HistogramObserver; MovingAverageMinMaxObserver(0.1) ----

PYTORCH = [
    (0, -6.106252670288086, 4.795897483825684, -6.106252670288086, 4.801223278045654),
    (1, -236.09326171875, 89.92929077148438, -98.94863891601562, 86.13585662841797),
    (
        2,
        0.00014756221207790077,
        13.22244644165039,
        0.000532300618942827,
        11.730284690856934,
    ),
    (3, 0.0, 6.23045539855957, 0.0, 4.256426811218262),
    (4, -2.231152296066284, 1.782961130142212, -2.231152296066284, 1.7849217653274536),
    (5, -5.7798638343811035, 5.4337477684021, -5.407580375671387, 5.123354911804199),
    (6, -32.55854034423828, 53.422508239746094, -30.2244873046875, 23.873260498046875),
    (
        7,
        0.0016389040974900126,
        14.66898250579834,
        0.0017191717633977532,
        11.250299453735352,
    ),
    (8, 0.0, 2.6931405067443848, 0.0, 2.694456100463867),
    (9, -2.0464072227478027, 1.622737169265747, -1.7906581163406372, 1.4325264692306519),
    (10, -5.260163307189941, 5.329732894897461, -4.747681140899658, 4.244077205657959),
    (11, -67.58228302001953, 47.101173400878906, -26.0524959564209, 13.282614707946777),
    (
        12,
        0.001082596485503018,
        13.824759483337402,
        0.001082596485503018,
        13.831512451171875,
    ),
    (13, 0.0, 3.9547228813171387, 0.0, 3.9326181411743164),
    (14, -1.6510485410690308, 1.3193877935409546, -1.4499577283859253, 1.159966230392456),
    (15, -5.427805423736572, 5.46860933303833, -2.824413537979126, 3.098714590072632),
    (16, -55.53618621826172, 49.55992126464844, -55.53618621826172, 49.611263275146484),
    (
        17,
        0.00022856581199448556,
        11.67194938659668,
        0.00034700267133302987,
        11.42206859588623,
    ),
    (18, 0.0, 5.014362335205078, 0.0, 4.641067028045654),
    (19, -2.4606988430023193, 1.9512574672698975, -2.0634937286376953, 1.6507949829101562),
]

DRAWS = [
    lambda rng, n: rng.standard_normal(n),
    lambda rng, n: rng.standard_t(2, n),
    lambda rng, n: rng.exponential(1, n),
    lambda rng, n: np.maximum(rng.standard_normal(n), 0),
    lambda rng, n: rng.integers(-5, 5, n) * 0.25,
]


def ragged(seed, parts):
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(parts):
        x = DRAWS[seed % 5](rng, int(rng.integers(1, 3000)))
        made.append(x.astype(np.float32) * np.float32(rng.uniform(0.5, 2)))
    return made


@pytest.mark.parametrize(("seed", "lo", "hi", "moving_lo", "moving_hi"), PYTORCH)
def test_pytorch(seed, lo, hi, moving_lo, moving_hi):
    batches = ragged(seed, 1 + seed % 4)
    bins = 256 if seed % 2 else 2048
    same(pq.calibrate(batches, method="mse", like="pytorch", bins=bins), (lo, hi))
    options = {"like": "pytorch", "averaging_constant": 0.1}
    found = pq.calibrate(batches, method="moving", **options)
    same(found, (moving_lo, moving_hi))


def test_pytorchs_histogram_of_a_constant_batch_before_others():
    """Bins without a width become a point of the later ones; PyTorch's own numbers."""
    batches = [np.full(50, 3, np.float32), np.linspace(-1, 5, 400, dtype=np.float32)]
    due = -1, float.fromhex("0x1.3fd0000000000p+2")
    same(pq.calibrate(batches, method="mse", like="pytorch"), due)
    batches = [np.zeros(9, np.float32), np.float32([-2, 1, 0.5] * 40)]
    due = -2, float.fromhex("0x1.ff40000000000p-1")
    same(pq.calibrate(batches, method="mse", like="pytorch"), due)


@pytest.mark.parametrize(
    ("x", "bins", "hi"),
    [
        (np.arange(-6, 6), 8, "-0x1.5083540000000p+45"),
        (np.arange(-6, 6), 16, "-0x1.8289040000000p+45"),
        ([-10, -6, -6, -4, -2, 0, 0, 2, 2, 2, 4, 8], 8, "-0x1.19f1800000000p+46"),
    ],
)
def test_pytorchs_errors_beyond_float32(x, bins, hi):
    """As long as errors are infinite, none is larger: PyTorch's own numbers."""
    x = np.float32(x) * np.float32(1e13)
    with np.errstate(all="ignore"):
        found = pq.calibrate([x], method="mse", like="pytorch", bins=bins)
    same(found, (float(x.min()), float.fromhex(hi)))


def test_pytorch_itself():
    torch = pytest.importorskip("torch")  # optional
    observers = pytest.importorskip("torch.ao.quantization.observer")  # optional
    for seed in range(amount(5, 60)):
        batches = ragged(seed, 1 + seed % 5)
        observer = observers.HistogramObserver(dtype=torch.quint8)
        for x in batches:
            observer(torch.from_numpy(x))
        due = [float(end) for end in observer._non_linear_param_search()]
        same(pq.calibrate(batches, method="mse", like="pytorch"), due)


# ---- ONNX Runtime, where it is installed ----


def collected(x, method, symmetric, bins, levels, percentile):
    calibrate = pytest.importorskip("onnxruntime.quantization.calibrate")  # optional
    collector = calibrate.HistogramCollector(
        method, symmetric, bins, levels, percentile, "same"
    )
    with contextlib.redirect_stdout(io.StringIO()):
        collector.collect({"x": x})
        return collector.compute_collection_result()["x"][:2]


@pytest.mark.parametrize("draw", range(5))
@pytest.mark.parametrize("symmetric", [True, False])
def test_onnxruntimes_percentiles(draw, symmetric):
    rng = np.random.default_rng(draw)
    for case in range(amount(5, 40)):
        x = DRAWS[draw](rng, int(rng.integers(2, 4000))).astype(np.float32)
        chunks = np.split(x, np.sort(rng.integers(0, x.size, 4)))
        percentile = (99.9, 99.999, 90, 0, 100)[case % 5]
        bins = 2048 if case % 2 else int(rng.integers(1, 500))
        due = collected(x, "percentile", symmetric, bins, 128, percentile)
        options = {"percentile": percentile, "symmetric": symmetric, "bins": bins}
        same(pq.calibrate(chunks, method="percentile", **options), due)


@pytest.mark.parametrize("draw", range(5))
def test_onnxruntimes_entropy(draw):
    rng = np.random.default_rng(draw)
    for case in range(amount(3, 12)):
        x = DRAWS[draw](rng, int(rng.integers(2, 4000))).astype(np.float32)
        chunks = np.split(x, np.sort(rng.integers(0, x.size, 4)))
        bins, levels = ((128, 128), (256, 64), (301, 77), (600, 128))[case % 4]
        due = collected(x, "entropy", False, bins, levels, 99)
        options = {"bins": bins, "quantized_bins": levels}
        same(pq.calibrate(chunks, method="entropy", **options), due)


def calibrated(batches, path, **options):
    """Of a model of one Relu, whose input is the batches; with one call of collect_data."""
    onnx = pytest.importorskip("onnx")  # optional
    calibrate = pytest.importorskip("onnxruntime.quantization.calibrate")  # optional
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    ends = [helper.make_tensor_value_info(name, kind, [None]) for name in ("x", "y")]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "relu", ends[:1], ends[1:]
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path / "relu")

    class Reader(calibrate.CalibrationDataReader):
        def __init__(self):
            self.left = iter(batches)

        def get_next(self):
            x = next(self.left, None)
            return None if x is None else {"x": x}

    calibrator = calibrate.create_calibrator(
        path / "relu",
        augmented_model_path=str(path / "augmented"),
        extra_options=options,
    )
    calibrator.set_execution_providers(["CPUExecutionProvider"])
    with contextlib.redirect_stdout(io.StringIO()):
        calibrator.collect_data(Reader())
        return [end.item() for end in calibrator.compute_data()["x"].range_value]


@pytest.mark.parametrize("options", [{}, {"symmetric": True}, {"moving_average": True}])
def test_onnxruntimes_extremes(options, tmp_path):
    batches = [x for seed in range(0, 40, 5) for x in ragged(seed, 3)]
    due = calibrated(batches, tmp_path, **options)
    same(pq.calibrate(batches, method="minmax", **options), due)


# ---- what the packages refuse, and options ----


def test_other_types_and_shapes():
    x = NORMAL[:6000].reshape(2, 3000)
    due = pq.calibrate([x], method="percentile", percentile=99)
    swapped = [x[:, ::2].astype(">f4"), x[:, 1::2].T]
    assert pq.calibrate(swapped, method="percentile", percentile=99) == due
    half = x.astype(np.float16)
    wide = half.astype(np.float32)
    for method in ("minmax", "percentile", "entropy"):
        same(pq.calibrate([half], method=method), pq.calibrate([wide], method=method))
    lo, hi = pq.calibrate([x.astype(np.float64)], method="percentile", percentile=99)
    assert type(hi) is np.float64
    same((np.float32(lo), np.float32(hi)), due)


def test_what_is_not_finite_can_be_left_out():
    bad = np.concatenate([NORMAL, np.float32([np.nan, np.inf, -np.inf])])
    for like, methods in (
        ("onnxruntime", ("minmax", "percentile", "entropy")),
        ("pytorch", ("minmax", "moving", "mse")),
        (None, ("minmax", "percentile", "mse", "entropy")),
    ):
        for method in methods:
            options = {"method": method, "like": like}
            with pytest.raises(ValueError, match="batches: expected finite values, got 3 "):
                pq.calibrate([bad], **options)
            found = pq.calibrate([bad], nonfinite="ignore", threads=2, **options)
            assert found == pq.calibrate([NORMAL], **options)


def test_errors_say_which_batch():
    for like in ("onnxruntime", "pytorch", None):
        for batch, error, got in (
            ([1.0, 2.0, np.inf], ValueError, "the first at index \\(2,\\)"),
            (np.int8([1]), TypeError, "got int8"),
        ):
            with pytest.raises(error, match=rf"^batches: expected .*, {got} in batch 1$"):
                pq.calibrate([NORMAL, batch, batch], method="minmax", like=like)


def test_like_none_is_an_observer():
    o = pq.Observer(histogram=True)
    o.update(NORMAL)
    batches = np.array_split(NORMAL, 7)
    for method in ("minmax", "percentile", "mse", "entropy"):
        for options in ({}, {"dtype": "uint8"}, {"symmetric": False}):
            found = pq.calibrate(batches, method=method, like=None, **options)
            assert found == o.range(method, **options)


def generated():
    yield NORMAL


def released():
    """A memoryview that is no more, which `iter` takes for a fault of its own."""
    view = memoryview(b"1")
    view.release()
    return view


class Once:
    """Has numbers when it is asked whether it can be iterated over, and once more."""

    def __init__(self):
        self.left = 2

    def __iter__(self):
        self.left -= 1
        return iter([NORMAL] if self.left >= 0 else [])


@pytest.mark.parametrize(
    ("batches", "options", "error", "text"),
    [
        (generated(), {}, TypeError, "batches: expected what can be iterated over twice"),
        (3, {}, TypeError, "batches: expected an iterable of arrays, got int"),
        (THREE[0][0], {}, TypeError, "batches: expected an iterable of arrays, got "),
        (np.array(1.0), {}, TypeError, "batches: expected an iterable of arrays, got "),
        (memoryview(b"1"), {}, TypeError, "batches: expected an iterable of arrays, got "),
        (released(), {}, TypeError, "batches: expected an iterable of arrays, got "),
        (Once(), {"method": "entropy"}, ValueError, "batches: expected the same numbers"),
        (Once(), {"method": "mse", "like": "pytorch"}, ValueError, "batches: expected the"),
        ([THREE[0]], {"like": []}, TypeError, "like: expected None, 'onnxruntime'"),
        ([THREE[0]], {"method": []}, TypeError, "method: expected one of minmax, perc"),
        ([THREE[0]], {"nonfinite": THREE[0]}, TypeError, "nonfinite: expected 'raise' or"),
        ([np.float64("nan")], {}, ValueError, "batches: expected finite values, got 1"),
        ("ab", {}, TypeError, "batches: expected an iterable of arrays, got str"),
        ([], {}, ValueError, "batches: expected at least one finite number, got none"),
        ([[]], {"like": None}, ValueError, "batches: expected at least one finite num"),
        ([THREE[0]], {"like": "tflite"}, ValueError, "like: expected None, 'onnxruntime'"),
        ([THREE[0]], {"method": "mse"}, ValueError, "method: expected one of minmax, perc"),
        (
            [THREE[0]],
            {"like": None, "method": "moving"},
            ValueError,
            "method: expected one of minmax, percentile, mse, entropy, got",
        ),
        ([THREE[0]], {"bins": 3}, TypeError, "bins: expected an option of 'minmax' (symm"),
        (
            [THREE[0]],
            {"like": "pytorch", "bins": 3},
            TypeError,
            "bins: expected an option of 'minmax' (none)",
        ),
        ([THREE[0]], {"symmetric": 1}, TypeError, "symmetric: expected True or False, got"),
        (
            [THREE[0]],
            {"method": "percentile", "percentile": 101},
            ValueError,
            "percentile: expected 0 to 100, got 101",
        ),
        (
            [THREE[0]],
            {"method": "percentile", "bins": 0},
            ValueError,
            "bins: expected 1 to 16777216, got 0",
        ),
        (
            [THREE[0]],
            {"method": "percentile", "bins": 2.5},
            TypeError,
            "bins: expected None, an integer",
        ),
        (
            [THREE[0]],
            {"method": "entropy", "bins": 64},
            ValueError,
            "quantized_bins: expected at most bins=64, got 128",
        ),
        (
            [THREE[0]],
            {"method": "mse", "like": "pytorch", "bits": 17},
            ValueError,
            "bits: expected 1 to 16, got 17",
        ),
        ([THREE[0]], {"nonfinite": "no"}, ValueError, "nonfinite: expected 'raise' or"),
        ([np.int8([1])], {}, TypeError, "batches: expected float32, "),
    ],
    ids=str,
)
def test_errors(batches, options, error, text):
    with pytest.raises(error) as caught:
        pq.calibrate(batches, **{"method": "minmax", **options})
    assert str(caught.value).startswith(text)
    assert "\n" not in str(caught.value)
