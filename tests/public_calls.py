"""Calls of every public function and method, with values that are hard to round.

`CALLS` has a row for each function and method, `OBJECTS` an instance of each class. The
properties of the instances, and functions without required arguments, need no row.
"""

import atexit
import contextlib
import functools
import importlib
import inspect
import io
import pickle
import pkgutil
import re
import sys
import tempfile
from enum import EnumType
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from support import CODES as INTEGERS
from support import HAVE_BFLOAT16, adversarial

import pyquant
import pyquant as pq
from pyquant import cli, com_microsoft, ngraph, onednn, onnx, openvino
from pyquant.integrations import cf, products, tflite
from pyquant.weights import awq, compressed_tensors, gptq, mlx, mx, nvfp4
from pyquant.weights import bitsandbytes as bnb
from pyquant.weights import matmulnbits as nbits
from pyquant.weights.blocks import block_format, block_formats

OPTIONAL = {}  # these modules need optional packages
for _name in ("dask", "zarr"):
    with contextlib.suppress(ImportError):
        OPTIONAL[_name] = importlib.import_module(f"pyquant.integrations.{_name}")

FOLDER = tempfile.TemporaryDirectory()
atexit.register(FOLDER.cleanup)
PATH = Path(FOLDER.name)

# ---- values ----

_normal = np.random.default_rng(7).normal(size=(64, 64))
WEIGHT = _normal.astype(np.float32)
WEIGHT[0] *= np.float32(2e-39)  # subnormal numbers
WEIGHT[1] *= np.float32(1e-30)
HALF = _normal.astype(np.float16)
TINY = (_normal * 1e-39).astype(np.float32)
DOUBLE = np.append(_normal.ravel(), [1e-310, -3e-310, 5e-324, 0, 1 / 3])
THIRDS = DOUBLE / 3
ONE_TENTH, SMALL = np.float32([0.1]), np.float32(1e-40)
VALUES = adversarial("float32", 0.3, 333)
HARD = {name: adversarial(name, 0.3, 64 * 64).reshape(64, 64) for name in ("f4", "f2")}
HARD["f8"] = adversarial("f8", 0.3, 64 * 64).reshape(64, 64)
SHORT = np.arange(64, dtype=np.int8) - 30
CODES = np.arange(64 * 64, dtype=np.uint8).reshape(64, 64) % 251
SCALES = np.float32([0.1, 1e-39, 0.3, 1e-40] * 16)
LISTED = (SCALES, SCALES.tolist(), [1e300] * 64)
USUAL = np.float32([0.1, 2, 0.3, 7.5] * 16)
BLOCK_SCALES = np.resize(USUAL, (64, 4))
# Options of quantize and dequantize, without scales.
WIDE = {"out_of_range": "wrap", "fill": 99, "dtype": "int16"}
OPTIONS = (
    *({}, {"offset": USUAL[::-1]}, {"offset": 0.5, **WIDE}, {"rounding": "half_up"}),
    *({"zero_point": SHORT}, {"zero_point": SHORT, "inverse": True, "dtype": "int32"}),
    *({"quant_range": (-99, 100), "fill": [-128]}, {"rounding": "stochastic", "seed": 1}),
    *({"dtype": "int4", "packed": True}, {"dtype": "uint16", "precision": "float64"}),
)[: None if HAVE_BFLOAT16 else -2]
REVERSED = ({}, {"offset": USUAL[::-1]}, {"zero_point": SHORT, "inverse": True})
REVERSED += ({"fill": [3, 7], "offset": 0.5}, {"dtype": "float16"}, {"offset": SHORT})
BLOCKS_OF_16 = {"axis": 1, "block_size": 16}
GROUPS = ({"axis": 0}, {"axis": 1}, BLOCKS_OF_16, {"block_size": (8, 64)}, {"axis": ()})
BATCHES = [WEIGHT, TINY, SCALES[None] * -3, WEIGHT * np.float32(1.7)]
GROUPED = np.abs(WEIGHT[:2]) + np.float32(0.01)  # the scales of two groups
ZEROS = np.full((2, 64), 7, np.uint8)
MIDDLES = (CODES % 8 - 6.5).astype(np.float32) * GROUPED.repeat(32, 0)
CF = {"scale_factor": np.float32(0.1), "add_offset": 0.3, "_FillValue": -99}
CF_TINY = {"scale_factor": 1e-40, "_FillValue": -99}
CFS = (CF, CF_TINY, {"scale_factor": np.float32(1e-40)}, {"scale_factor": np.float64(0.1)})
ONNX = (WEIGHT, np.float32(0.1), np.int8(3))
# ODD has infinite or NaN quotients and products. WHOLE has integers that float64 rounds.
ODD = np.resize(np.float32([np.nan, np.inf, 1.0, 0.0, 3e38, 1e-45, -np.inf]), 333)
ODD_SCALES = (0.0, 1e-45, np.inf, np.nan)
WHOLE = [2**53 + 1, 2**53 + 3, 5]
ENDS = (np.float32([-3.4028235e38, 3.4028235e38]), np.float64([-1.7e308, 1.7e308]))
LOW = -np.linspace(1, 2, 64)
LEVELS = (WEIGHT, -1.1, 1.3, -0.9, 0.7, 16), (WEIGHT, -1e-36, 2e-36, 0.0, 1.0, 16)
LEVELS += ((WEIGHT, LOW, 2, LOW, 2, 256), (WEIGHT, -1, 1, -1e-39, 1e-39, 3))


def _detail(scales, zeros, dtype=np.int8):
    given = {"scales": np.float32(scales), "zero_points": np.int32(zeros)}
    return {
        "dtype": dtype,
        "quantization_parameters": {**given, "quantized_dimension": 0},
    }


DETAILS = (_detail([0.1], [3]), _detail([0], [3]), _detail(SCALES, np.full(64, 5)))


RANGES = (("minmax", None), *(("percentile", p) for p in (99.99, 99.9, 99.8)))
RANGES += (("mse", None), ("entropy", None))


def _updated(*batches, **options):
    """Return an observer after an update with each batch."""
    made = pq.Observer(**options)
    for batch in batches:
        made.update(batch)
    return made


_observer = functools.partial(_updated, *(batch[:, :4] for batch in BATCHES))
OBSERVERS = [
    *(_observer(), _observer(histogram=True), _observer(momentum=0.1)),
    _observer(histogram=True, axis=1, mantissa_bits=3),
]
OBSERVERS[0].update(np.array([1e-310]))  # The array selects float64.
OBSERVERS.append(pq.Observer(histogram=True))  # The ranks of 1000 values are exact.
OBSERVERS[-1].update(_normal.ravel()[:1000])
COUNTING = [one for one in OBSERVERS if one._options.histogram]
REPORTS = [
    *(pq.measure_error(WEIGHT, HALF.astype(np.float32), axis=axis) for axis in (None, 0)),
    pq.measure_error(np.zeros(3), np.float64([0, 1e-310, 1e300])),
    *(pq.measure_error(WEIGHT, WEIGHT), pq.measure_error(np.zeros(0), np.zeros(0))),
]
PARAMS = [pq.QParams(SCALES, None, "int8", axis=1), pq.QParams(1e-40, 3, "uint8")]
PACKED = pq.pack(CODES & 7, pq.Layout("words", axis=1, bits=3))  # of uint8
Q4_0, Q4_K = block_format("Q4_0"), block_format("Q4_K")
BLOCKS = Q4_0.quantize(WEIGHT)
BYTES = np.random.default_rng(8).integers(0, 256, (5, 600), np.uint8)
LINEAR = ("awq", "gptq", "compressed_tensors", "matmulnbits")
WEIGHTS = {
    "awq": awq.pack(WEIGHT.T, GROUPED, ZEROS),
    "gptq": gptq.pack(WEIGHT.T, GROUPED, ZEROS, bits=4, format="gptq"),
    "compressed_tensors": compressed_tensors.quantize(WEIGHT, group_size=32),
    "matmulnbits": nbits.quantize(WEIGHT.T),
    "mlx": mlx.quantize(WEIGHT),
    "nested": bnb.quantize(WEIGHT, nested=True),
    "rows": bnb.quantize_int8(WEIGHT),
}
SMALL_SCALES = np.full((64, 2), SMALL)
SMALL_WEIGHT = nbits.pack(CODES.T & 15, SMALL_SCALES, block_size=32)
pq.write_weights(PATH / "m.safetensors", {"w": WEIGHT, "b": HALF, "p": PARAMS[1]})
pq.write_weights(PATH / "w.safetensors", {"w": WEIGHT.reshape(16, 256), "b": HALF})
pq.write_weights(PATH / "m.gguf", {"w": (Q4_0, BLOCKS)}, metadata={"x": SMALL})
WEIGHT_FILE = pq.open_weights(PATH / "m.safetensors")
GGUF_FILE = pq.open_weights(PATH / "m.gguf")

OBJECTS = {
    "blocks.BlockFormat": [Q4_0],
    "dtypes.ElementType": [],
    "files.StoredTensor": [WEIGHT_FILE["w"], WEIGHT_FILE["b"], GGUF_FILE["w"]],
    "files.WeightFile": [WEIGHT_FILE],
    "observe.Observer": OBSERVERS,
    "packed.Layout": [PACKED.layout],
    "packed.PackedArray": [PACKED],
    "products.Prepared": [products.Prepared(SHORT[:, None], package="blas")],
    "qparams.QParams": PARAMS,
    "report.ErrorReport": REPORTS,
    "_weight.Weight": list(WEIGHTS.values()),
}


def _error(call, *args, **kwargs):
    """Return the result of a call, or the text of its error."""
    try:
        return call(*args, **kwargs)
    except ValueError as error:
        return str(error)


def _merged(a, b):
    a = a.copy()
    a.merge(b)
    return a


def _written(name, weights, metadata=None):
    pq.write_weights(PATH / name, weights, metadata=metadata)
    return (PATH / name).read_bytes()


def _command(*words, result=None):
    """Return the output of a command, and the bytes of its file."""
    with contextlib.redirect_stdout(io.StringIO()) as text:
        assert cli.main(list(map(str, words))) in (0, 1)
    return text.getvalue(), (PATH / result).read_bytes() if result else b""


def _commands():
    given, made, back = (PATH / f"{n}.safetensors" for n in ("w", "made", "back"))
    yield _command("quantize", given, made, "--type", "int8", "-f", result=made.name)
    yield _command("quantize", given, PATH / "made.gguf", "--type", "Q4_K", "-f")
    yield _command("compare", given, made)
    if find_spec("jinja2"):
        page = PATH / "page.html"
        yield _command("compare", given, made, "--report", page, "-f", result=page.name)
    yield _command("dequantize", made, back, "-f", result=back.name)
    yield _command("inspect", made)


def _linear(call):
    return lambda: {name: call(weight) for name, weight in WEIGHTS.items()}


# ---- calls ----

CALLS = {
    # The package.
    "blocks.block_format": lambda: block_format("Q4_K"),
    "observe.calibrate": lambda: [
        pq.calibrate(iter(BATCHES), dtype="uint8"),
        pq.calibrate(BATCHES, method="entropy"),
        pq.calibrate(BATCHES, momentum=0.3),
        pq.calibrate([np.float64([1e-310, 1])] * 2, momentum=0.3),
    ],
    "qparams.choose_qparams": lambda: (
        [
            pq.choose_qparams(x, symmetric=symmetric, **more)
            for x in (WEIGHT, TINY, DOUBLE)
            for more in (
                {"method": "mse"},
                {"like": "onnxruntime"},
                {"scale_dtype": "float16"},
            )
            for symmetric in (True, False)
        ]
        + [pq.choose_qparams(WEIGHT, method="mse", candidates=[1e-310, 1])]
        + [pq.choose_qparams(x, **how) for x in (WEIGHT, HALF) for how in GROUPS]
        + [pq.choose_qparams(WEIGHT, weights=np.abs(HALF), method="mse", axis=1)]
        + [pq.choose_qparams(x, include_zero=False) for x in (WEIGHT, TINY, DOUBLE)]
        + [pq.choose_qparams(WEIGHT, include_zero=False, **how) for how in GROUPS]
        + [pq.choose_qparams(x, symmetric=one) for x in ENDS for one in (True, False)]
        + [_error(pq.choose_qparams, ODD), _error(pq.choose_qparams, ODD[:3])]
    ),
    "qparams.qparams_from_range": lambda: [
        pq.qparams_from_range(-0.1, high, symmetric=False, include_zero=includes)
        for high in (1e-40, 0.3, 1e-310)
        for includes in (True, False)
    ],
    "_core.quantize": lambda: (
        [
            pq.quantize(x, scale, **more)
            for x in (VALUES, HALF, DOUBLE, 1e-40)
            for scale in (0.3, 1e-40)
            for more in ({}, {"dtype": "int32"}, {"offset": 0.1}, {"codebook": "nf4"})
        ]
        + [
            pq.quantize(x, USUAL, axis=axis, **options)
            for x in HARD.values()
            for axis in (0, 1)
            for options in OPTIONS
        ]
        + [pq.quantize(x, BLOCK_SCALES, **BLOCKS_OF_16) for x in HARD.values()]
        + [pq.quantize(VALUES, 0.3, 1, dtype=dtype) for dtype in INTEGERS]
        + [pq.quantize(ODD, scale) for scale in ODD_SCALES]
        + [pq.quantize(WHOLE, 0.1, dtype="int32"), pq.QParams(WHOLE, axis=0).scale]
    ),
    "_core.dequantize": lambda: (
        [
            pq.dequantize(CODES, SCALES, axis=1, **more)
            for more in ({}, {"offset": SCALES}, {"dtype": "float16"}, {"dtype": "float64"})
        ]
        + [
            pq.dequantize(q, USUAL, axis=axis, **options)
            for q in (CODES.view(np.int8), CODES.astype(np.int32))
            for axis in (0, 1)
            for options in REVERSED
        ]
        + [
            pq.dequantize(CODES, (SCALES, USUAL), **more)
            for more in ({}, {"offset": SCALES})
        ]
        + [pq.dequantize(CODES, BLOCK_SCALES, **BLOCKS_OF_16)]
        + [pq.dequantize(CODES.astype(dtype), 0.3, 1) for dtype in INTEGERS]
        + [pq.dequantize(SHORT, scale) for scale in ODD_SCALES]
    ),
    "_core.requantize": lambda: (
        [
            pq.requantize(CODES.astype(np.int32), multiplier, 3, bias=5)
            for multiplier in (0.1, 1e-40, ONE_TENTH, (SCALES, USUAL))
        ]
        + [
            pq.requantize(
                CODES.astype(q), USUAL, axis=axis, bias=SHORT, arithmetic=arithmetic
            )
            for q in (np.int8, np.int64)
            for axis in (0, 1)
            for arithmetic in ("float32", "rndnu", "tflite", "tflite_single", "fbgemm")
        ]
    ),
    "_core.fixed_point": lambda: [
        pq.fixedpoint.fixed_point(multiplier, arithmetic)
        for arithmetic in ("tflite", "rndnu", "fbgemm")
        for multiplier in (0.1, USUAL, *((1e-310, SCALES) * (arithmetic == "tflite")))
    ],
    "fused.dynamic_quantize": lambda: [
        pq.dynamic_quantize(x, **how, include_zero=includes)
        for x in (WEIGHT, TINY, HALF)
        for how in ({}, *GROUPS)
        for includes in (True, False)
    ],
    "_core.fake_quantize": lambda: [
        *(pq.fake_quantize(x, SCALES, axis=a) for x in (WEIGHT, HALF) for a in (0, 1)),
        pq.fake_quantize(HARD["f4"], USUAL, SHORT, axis=1, dtype="int16"),
    ],
    "report.measure_error": lambda: [
        *(pq.measure_error(WEIGHT, HALF.astype("f4"), axis=a) for a in (None, 0, 1)),
        pq.measure_error(WEIGHT, TINY),
        pq.measure_error(DOUBLE, THIRDS),
    ],
    "files.open_weights": lambda: dict(pq.open_weights(PATH / "m.gguf").metadata),
    "files.write_weights": lambda: [
        _written("a.safetensors", {"w": WEIGHT, "p": PARAMS[0]}),
        _written("a.gguf", {"w": (Q4_0, BLOCKS), "h": HALF}, {"x": 1e-40, "y": 0.1}),
    ],
    "packed.pack": lambda: pq.pack(CODES & 15, pq.Layout("words", axis=1, bits=4)),
    "packed.unpack": lambda: pq.unpack(PACKED),
    "packed.pack_signs": lambda: [
        pq.pack_signs(x, bitorder=order)
        for x in (WEIGHT, HALF)
        for order in ("big", "little")
    ],
    # Methods.
    "blocks.BlockFormat.encoded_shape": lambda: Q4_0.encoded_shape((3, 64)),
    "blocks.BlockFormat.decoded_shape": lambda: Q4_0.decoded_shape((3, 36)),
    "blocks.BlockFormat.dequantize": lambda: [
        fmt.dequantize(BYTES[:, : 2 * fmt.block_bytes], **how)
        for fmt in block_formats()
        for how in ({}, {"dtype": "float16"}, {"dtype": "float64"})
    ],
    "blocks.BlockFormat.quantize": lambda: (
        [
            Q4_K.quantize(np.tile(x, 4), **more)
            for x in (WEIGHT, TINY, HALF)
            for more in ({}, {"search": True}, {"weights": np.abs(_normal[0].repeat(4))})
        ]
        + [fmt.quantize(np.tile(HALF[:5], 8)) for fmt in block_formats() if fmt.quantizes]
    ),
    "blocks.BlockFormat.split": lambda: Q4_0.split(BLOCKS),
    "blocks.BlockFormat.join": lambda: [
        Q4_0.join(**Q4_0.split(BLOCKS)),
        _error(Q4_0.join, **Q4_0.split(BLOCKS) | {"d": SMALL_SCALES}),
    ],
    "observe.Observer.update": lambda: (
        [
            _updated(*BATCHES, HALF.astype(np.float64), axis=axis, **options)
            for axis in (None, 1)
            for options in ({}, {"histogram": True}, {"momentum": 0.3})
        ][1:]
        + [
            _updated(WEIGHT, TINY, axis=0, histogram=histogram)
            for histogram in (True, False)
        ]
    ),
    "observe.Observer.merge": lambda: [_merged(one, one) for one in COUNTING],
    "observe.Observer.copy": lambda: OBSERVERS[0].copy(),
    "observe.Observer.to_dict": lambda: [one.to_dict() for one in OBSERVERS],
    "observe.Observer.from_dict": lambda: [
        pq.Observer.from_dict(one.to_dict()) for one in OBSERVERS
    ],
    "observe.Observer.quantile": lambda: [
        one.quantile(q) for one in COUNTING for q in (0.1, 0.3, 0.999, 0.7, 1)
    ],
    "observe.Observer.range": lambda: [
        one.range(method, percentile=percentile, dtype=dtype, symmetric=symmetric)
        for one in COUNTING
        for method, percentile in RANGES
        for dtype in ("int8", "uint4")
        for symmetric in (True, False)
    ],
    "observe.Observer.qparams": lambda: [
        one.qparams("uint8", method=method, include_zero=includes)
        for one in COUNTING
        for method in ("minmax", "percentile", "mse", "entropy")
        for includes in (True, False)
    ],
    "packed.PackedArray.from_buffer": lambda: pq.PackedArray.from_buffer(
        b"abcd", "int4", 8
    ),
    "packed.PackedArray.repack": lambda: PACKED.repack(pq.Layout("words", axis=0)),
    "packed.PackedArray.copy": lambda: PACKED.copy(),
    "_core.Calls.quantize": lambda: [p.quantize(TINY) for p in PARAMS],
    "_core.Calls.dequantize": lambda: [p.dequantize(p.quantize(TINY)) for p in PARAMS],
    "qparams.QParams.to_dict": lambda: [p.to_dict() for p in PARAMS],
    "qparams.QParams.from_dict": lambda: [
        pq.QParams.from_dict(p.to_dict()) for p in PARAMS
    ],
    "qparams.QParams.from_normalization": lambda: [
        pq.QParams.from_normalization(THIRDS[:4], DOUBLE[:4], axis=0)
    ],
    "qparams.QParams.from_pcm": lambda: [pq.QParams.from_pcm(bits) for bits in (8, 24)],
    "qparams.QParams.requantize": lambda: [
        p.requantize(CODES, pq.QParams(s, 3, "uint8", axis=0))
        for p in PARAMS
        for s in (SCALES, SCALES[::-1])
    ],
    "qparams.QParams.measure_error": lambda: [p.measure_error(TINY) for p in PARAMS],
    "files.StoredTensor.dequantize": lambda: [
        WEIGHT_FILE["w"].dequantize(dtype="float16"),
        GGUF_FILE["w"].dequantize(),
    ],
    "files.WeightFile.get": lambda: WEIGHT_FILE.get("w").dequantize(),
    "files.WeightFile.read": lambda: WEIGHT_FILE.read("p"),
    "files.WeightFile.close": lambda: pq.open_weights(PATH / "m.safetensors").close(),
    **{
        f"_weight.Weight.{name}": _linear(call)
        for name, call in {
            "dequantize": lambda weight: [
                weight.dequantize(dtype=dtype) for dtype in ("float32", "float16")
            ],
            "tensors": lambda weight: weight.tensors(),
            "linear": lambda weight: weight.linear() if weight.format in LINEAR else None,
        }.items()
    },
    "_weight.Weight.blocks": lambda: [
        pq.weights.convert((Q4_0, BLOCKS), "compressed_tensors").blocks("Q4_0"),
        pq.weights.convert((Q4_0, BLOCKS), "mlx").blocks("Q4_1"),
        _error(SMALL_WEIGHT.blocks, "Q4_0"),
    ],
    # Formats of weights.
    "_published.find": lambda: list(pq.weights.find(WEIGHTS["awq"].tensors("a"))),
    "compressed_tensors.from_tensors": lambda: [
        compressed_tensors.from_tensors(WEIGHTS["compressed_tensors"].tensors()),
        compressed_tensors.from_tensors(
            {"weight": CODES.view(np.int8), "weight_scale": SCALES.reshape(64, 1)}
        ),
    ],
    "awq.from_tensors": lambda: awq.from_tensors(WEIGHTS["awq"].tensors()),
    "awq.pack": lambda: awq.pack(MIDDLES.T, GROUPED, ZEROS),
    "bitsandbytes.quantize": lambda: [
        bnb.quantize(x, **more)
        for x in (WEIGHT, TINY, VALUES[np.isfinite(VALUES)])
        for more in ({}, {"nested": True}, {"nested": True, "offset": 0.3})
    ],
    "bitsandbytes.quantize_int8": lambda: [bnb.quantize_int8(x) for x in (WEIGHT, TINY)],
    "bitsandbytes.from_tensors": lambda: bnb.from_tensors(WEIGHTS["nested"].tensors()),
    "compressed_tensors.quantize": lambda: [
        compressed_tensors.quantize(x, group_size=32, symmetric=symmetric)
        for x in (WEIGHT, HALF)
        for symmetric in (True, False)
    ],
    "gptq.from_tensors": lambda: gptq.from_tensors(
        WEIGHTS["gptq"].tensors(), format="gptq"
    ),
    "gptq.pack": lambda: gptq.pack(MIDDLES.T, GROUPED, ZEROS, bits=4, format="gptq"),
    "_weight.from_tensors": lambda: pq.weights.from_tensors(WEIGHTS["awq"].tensors()),
    "_weight.convert": lambda: [
        pq.weights.convert(w, format)
        for w in ((Q4_0, BLOCKS), WEIGHTS["compressed_tensors"])
        for format in ("awq", "gptq_v2")
    ],
    "matmulnbits.quantize": lambda: [
        nbits.quantize(x, symmetric=symmetric)
        for x in (WEIGHT, WEIGHT.T, TINY)
        for symmetric in (True, False)
    ],
    "matmulnbits.from_tensors": lambda: nbits.from_tensors(
        WEIGHTS["matmulnbits"].tensors(), K=64, N=64, block_size=32
    ),
    "matmulnbits.pack": lambda: nbits.pack(CODES.T & 15, GROUPED.T, block_size=32),
    "mlx.quantize": lambda: [mlx.quantize(x) for x in (WEIGHT, TINY, HALF, HALF * 0)],
    "mlx.from_tensors": lambda: mlx.from_tensors(WEIGHTS["mlx"].tensors(), bits=4),
    # Operators of standards, and functions for other packages.
    "cf.qparams": lambda: [cf.qparams(attrs, "int16") for attrs in CFS],
    "cf.encode": lambda: [
        cf.encode(x, attrs, dtype, out_of_range=beyond)
        for x in (WEIGHT, TINY)
        for attrs in CFS
        for dtype, beyond in (
            *(("int16", "saturate"), ("int16", "wrap")),
            ("float16", "saturate"),  # without "wrap", which uses x87 for float16
        )
    ],
    "cf.decode": lambda: [cf.decode(np.int16([3, -99, 7]), a) for a in CFS],
    "com_microsoft.quantize_linear": lambda: com_microsoft.quantize_linear(*ONNX),
    "com_microsoft.dequantize_linear": lambda: com_microsoft.dequantize_linear(
        CODES, SMALL
    ),
    "ngraph.quantize": lambda: ngraph.quantize(
        WEIGHT, SCALES, [0] * 64, "int8", {1}, "ROUND_NEAREST_TOWARD_EVEN"
    ),
    "ngraph.dequantize": lambda: ngraph.dequantize(CODES, SCALES, [0] * 64, "float32", {1}),
    "onednn.quantize": lambda: [
        onednn.quantize(WEIGHT, scales=scales, qtype="per_channel", dtype="s8")
        for scales in LISTED
    ],
    "onednn.dequantize": lambda: [
        onednn.dequantize(CODES, scales=scales, qtype="per_channel") for scales in LISTED
    ],
    "onednn.dynamic_quantize": lambda: [
        onednn.dynamic_quantize(WEIGHT, scales, qtype=qtype, dtype="u8")
        for scales, qtype in ((ONE_TENTH, "per_tensor"), (SCALES, "per_channel"))
    ],
    "onednn.dynamic_dequantize": lambda: [
        onednn.dynamic_dequantize(CODES, scales, qtype=qtype)
        for scales, qtype in ((ONE_TENTH, "per_tensor"), (SCALES, "per_channel"))
    ],
    "onnx.quantize_linear": lambda: onnx.quantize_linear(*ONNX),
    "onnx.dequantize_linear": lambda: onnx.dequantize_linear(CODES, SMALL),
    "onnx.reference_ops": None,  # Needs the package onnx, and does not compute.
    "onnx.qparams": None,  # Needs the package onnx.
    "onnx.dynamic_quantize_linear": lambda: [
        onnx.dynamic_quantize_linear(x) for x in (WEIGHT, TINY, VALUES, ODD, ODD[::-1])
    ],
    "openvino.qparams": None,  # needs a model of the package openvino
    "openvino.fake_quantize": lambda: [openvino.fake_quantize(*one) for one in LEVELS],
    "products.longest": lambda: [products.longest("int8", "uint4", "blas")],
    "products.matmul": lambda: [
        products.matmul(SHORT, one, package="blas")
        for one in (CODES.view(np.int8), CODES, *OBJECTS["products.Prepared"])
    ],
    "tflite.qparams": lambda: [tflite.qparams(detail) for detail in DETAILS],
    "cli.main": lambda: list(_commands()),
    "cli.run_as_program": None,  # `main` reads the process's arguments
}


if HAVE_BFLOAT16:  # ml_dtypes defines the types of the scales
    OPTIONAL |= {"mx": mx, "nvfp4": nvfp4}
    WEIGHTS |= {"mx": mx.quantize(WEIGHT, "float4_e2m1fn"), "nvfp4": nvfp4.quantize(WEIGHT)}
    CALLS |= {
        "mx.quantize": lambda: [
            mx.quantize(x, "float8_e4m3fn", rule=rule)
            for x in (WEIGHT, TINY, HALF, VALUES)
            for rule in ("floor", "ceil", "even", "rceil")
        ],
        "mx.from_tensors": lambda: mx.from_tensors(WEIGHTS["mx"].tensors()),
        "mx.unswizzle": lambda: mx.unswizzle(np.arange(512).astype(np.uint8), (128, 4)),
        "nvfp4.quantize": lambda: [
            nvfp4.quantize(x, like=like)
            for x in (WEIGHT, TINY, HALF, np.zeros((3, 2), np.float32))
            for like in ("torchao", "compressed_tensors")
        ],
        "nvfp4.pack": lambda: [
            nvfp4.pack(x, np.full((*x.shape[:-1], -(-x.shape[-1] // 16)), 56, "u1"), 2)
            for x in (WEIGHT, TINY, HALF)
        ],
        "nvfp4.from_tensors": lambda: nvfp4.from_tensors(WEIGHTS["nvfp4"].tensors()),
    }
if "dask" in OPTIONAL:
    import dask
    import dask.array as da

    def _computed(call):
        def run():
            with dask.config.set(scheduler="synchronous"):
                made = [call(da.from_array(x, chunks=32)) for x in (WEIGHT, TINY)]
                return [x.compute() if isinstance(x, da.Array) else x for x in made]

        return run

    CALLS |= {
        "dask.quantize": _computed(lambda x: OPTIONAL["dask"].quantize(x, 0.3)),
        "dask.dequantize": _computed(
            lambda x: OPTIONAL["dask"].dequantize(x.astype("int8"), 1e-40)
        ),
        "dask.choose_qparams": _computed(lambda x: OPTIONAL["dask"].choose_qparams(x)),
    }


# ---- names ----


def public_modules():
    """Yield the public modules that can be imported. The commands have no functions."""
    yield pyquant
    for found in pkgutil.walk_packages(pyquant.__path__, "pyquant."):
        parent, _, name = found.name.rpartition(".")
        if name.startswith("_") or parent == "pyquant.cli":
            continue
        if name not in ("dask", "zarr", "mx", "nvfp4") or name in OPTIONAL:
            yield importlib.import_module(found.name)


def public():
    """Yield name and object of each public function, class, method and property."""
    for module in public_modules():
        for name in module.__all__:
            yield from _members(getattr(module, name))


def _members(value):
    if not callable(value) or isinstance(value, EnumType):
        return
    if value.__module__.startswith("pyquant.integrations.zarr"):  # zarr calls its methods
        return
    yield name_of(value), value
    for owner in value.__mro__ if isinstance(value, type) else ():
        if owner.__module__.startswith("pyquant."):
            for name, member in vars(owner).items():
                is_property = isinstance(member, property)
                found = member if is_property else getattr(owner, name)
                if not name.startswith("_") and (is_property or inspect.isroutine(found)):
                    yield f"{name_of(owner)}.{name}", found


def name_of(value):
    module = re.sub(r"^pyquant\.(weights\.|integrations\.)?", "", value.__module__)
    return f"{module}.{value.__qualname__}"


def rows():
    """Return, for each public name, a function that makes calls of this name.

    Fail if a public name has no row.
    """
    made, missing = {}, []
    for name, value in public():
        owner, _, member = name.rpartition(".")
        if name in CALLS:
            made[name] = CALLS[name]
        elif isinstance(value, type) and name in OBJECTS:
            made[name] = lambda name=name: [
                (str(one), repr(one), one == OBJECTS[name][0]) for one in OBJECTS[name]
            ]
        elif isinstance(value, property) and owner in OBJECTS:
            made[name] = lambda owner=owner, member=member: [
                getattr(one, member) for one in OBJECTS[owner]
            ]
        elif not isinstance(value, property | type) and not _required(value):
            made[name] = value
        else:
            missing.append(name)
    unknown = CALLS.keys() - made.keys()
    assert not missing, f"public names without a row: {missing}"
    assert not unknown, f"rows of unknown names: {unknown}"
    return {name: call for name, call in made.items() if call is not None}


def _required(function):
    parameters = inspect.signature(function).parameters.values()
    return [one for one in parameters if one.default is one.empty]


@contextlib.contextmanager
def replaced(change, needs=None):
    """Replace calls of public functions by `change(function, args, kwargs)`.

    With `needs`, replace only functions with a parameter of this name. Do not replace calls
    that a public function makes. Yield the set of functions that nobody has called yet.
    """
    wrappers, missing, inside = {}, set(), []
    for _, function in public():
        if not inspect.isroutine(function) or isinstance(function, classmethod):
            continue
        if needs is None or needs in inspect.signature(function).parameters:

            @functools.wraps(function)
            def wrapper(*args, function=function, **kwargs):
                missing.discard(function)
                if inside:
                    return function(*args, **kwargs)
                inside.append(function)
                try:
                    return change(function, args, kwargs)
                finally:
                    inside.pop()

            wrappers[function] = wrapper
    missing.update(wrappers)
    with pytest.MonkeyPatch.context() as patch:
        for owner in _owners():
            for name, value in list(vars(owner).items()):
                if inspect.isroutine(value) and value in wrappers:
                    final = owner is pq.QParams.__base__  # an extension type
                    patch.setattr(pq.QParams if final else owner, name, wrappers[value])
        yield missing


def _owners():
    """Yield the modules and classes of the package."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "pyquant":
            yield module
            yield from {v for v in vars(module).values() if isinstance(v, type)}


def recorded():
    """Make the calls of all rows. Return name, function, arguments and result of each."""
    names = {value: name for name, value in public() if inspect.isroutine(value)}
    found, calls = [], rows()

    def record(function, args, kwargs):
        bound = inspect.signature(function).bind(*args, **kwargs)
        result = function(*args, **kwargs)
        found.append((names[function], function, bound, result))
        return result

    with replaced(record):
        for name in [one for one in calls if one != "cli.main"]:
            calls[name]()
    return found


def bits(value):
    """Convert the result of a call to objects that are equal only if all bits are equal."""
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return [bits(one) for one in value]
    if isinstance(value, dict):
        return [(key, bits(one)) for key, one in value.items()]
    if isinstance(value, pq.Observer):
        return bits(tuple(value._state))
    if isinstance(value, pq.ErrorReport):
        return bits(value._sums)
    if isinstance(value, pq.QParams):
        names = ("scale", "zero_point", "dtype", "axis", "block_size", "offset", "fill")
        return bits([getattr(value, name) for name in (*names, "quant_range")])
    if isinstance(value, pq.PackedArray):
        return bits((value._name, value.shape, tuple(value.layout), value.data))
    if hasattr(value, "__dataclass_fields__"):
        return bits([getattr(value, name) for name in value.__dataclass_fields__])
    return pickle.dumps(value)
