"""Arguments nested deeper than any stack: an exception that names them, and no crash."""

import pytest
from support import amount, run_python

SETUP = """
import collections, collections.abc, sys, threading
import numpy as np, pyquant as pq
import pyquant.openvino
from pyquant.integrations import cf, tflite

def nested(kind, levels):
    value = kind((1.0,))
    for _ in range(levels):
        value = kind((value,))
    return value

class Endless(collections.abc.Sequence):
    def __len__(self):
        return 1
    def __getitem__(self, i):
        if i:
            raise IndexError
        return Endless()

def made(name):
    return {
        "list": lambda: nested(list, LEVELS),
        "tuple": lambda: nested(tuple, LEVELS),
        "endless": Endless,
        "deque": lambda: nested(collections.deque, LEVELS),
    }[name]()

x, q, one, zero = np.ones((3, 4), "f4"), np.ones((3, 4), "i1"), np.float32(1), np.int8(0)
params = pq.QParams(1.0, 0, "int8")
packed = pq.quantize(x, 1.0, dtype="int4", packed=True)
QUANTIZE = dict(x=x, scale=one, zero_point=zero, dtype="int8", axis=None, block_size=None,
                rounding="half_even", precision=None, saturate=True, packed=False,
                layout=None, out=None, threads=1)
DEQUANTIZE = dict(q=q, scale=one, zero_point=zero, dtype="float32", axis=None,
                  block_size=None, out=None, threads=1)
CHOICE = dict(dtype="int8", symmetric=None, quant_range=(-5, 5), scale_dtype="float16",
              like=None)
PLACED = dict(axis=None, block_size=None)
NOISE = dict(rounding="stochastic", seed=0, start=0)
POLICIES = dict(offset=0.5, inverse=False, fill=-5, quant_range=(-4, 4))
seen = pq.Observer(histogram=True)
seen.update(x)
DETAIL = dict(dtype=np.int8, quantization_parameters=dict(
    scales=np.float32([0.5]), zero_points=np.int64([3]), quantized_dimension=0))
ATTRS = dict(scale_factor=0.5, _FillValue=np.int8(-1))
ONEDNN = dict(src=x, scales=[1.0] * 4, zps=[0] * 4, qtype="per_channel", axis=1)
CALLS = {
    "quantize": (pq.quantize, QUANTIZE),
    "dequantize": (pq.dequantize, DEQUANTIZE),
    "choose_qparams": (pq.choose_qparams, dict(
        x=x, dtype="int8", axis=None, block_size=None, symmetric=None)),
    "quantize, its other options": (pq.quantize, dict(
        x=x, scale=one, **NOISE, **POLICIES, out_of_range="saturate", nan="lowest")),
    "choose_qparams by search": (pq.choose_qparams, dict(
        x=x, **CHOICE, **PLACED, method="mse", weights=1.0, candidates=[1, 0.5],
        threads=1)),
    "qparams_from_range": (pq.qparams_from_range, dict(
        lo=-1.0, hi=1.0, **CHOICE, **PLACED)),
    "dynamic_quantize": (pq.dynamic_quantize, dict(
        x=x, **CHOICE, **PLACED, **NOISE, packed=False, out=None, threads=1)),
    "fake_quantize": (pq.fake_quantize, dict(
        x=x, scale=one, zero_point=zero, dtype="int8", **PLACED, **NOISE, **POLICIES,
        precision=None, saturate=True, mask=None, out=None, threads=1)),
    "openvino.fake_quantize": (pyquant.openvino.fake_quantize, dict(
        x=x, input_low=0, input_high=1, output_low=0, output_high=1, levels=4, out=None,
        threads=1)),
    "requantize": (pq.requantize, dict(
        q=q, multiplier=0.5, zero_point=zero, dtype="int8", input_zero_point=0, bias=None,
        axis=None, arithmetic="float32", quant_range=(-5, 5), out=None, threads=1)),
    "requantize by shifts": (pq.requantize, dict(
        q=q, multiplier=np.int32(1 << 30), arithmetic="tflite", shift=1)),
    "fixed_point": (pq.fixedpoint.fixed_point, dict(multiplier=0.5, arithmetic="tflite")),
    "measure_error": (pq.measure_error, dict(x=x, y=x, axis=None, threads=1)),
    "QParams.measure_error": (params.measure_error, dict(x=x, axis=None, threads=1)),
    "Observer": (pq.Observer, dict(
        axis=None, histogram=True, mantissa_bits=7, momentum=None, nonfinite="raise")),
    "Observer.update": (pq.Observer().update, dict(x=x, threads=1)),
    "Observer.merge": (pq.Observer(histogram=True).merge, dict(other=seen)),
    "Observer.quantile": (seen.quantile, dict(q=0.5)),
    "Observer.range": (seen.range, dict(
        method="percentile", percentile=99, dtype="int8", symmetric=True)),
    "Observer.qparams": (seen.qparams, dict(
        **CHOICE, method="percentile", percentile=99)),
    "calibrate": (pq.calibrate, dict(
        batches=[x, x], axis=0, method="percentile", percentile=99, **CHOICE,
        mantissa_bits=7, momentum=None, nonfinite="raise", threads=1)),
    "tflite.qparams": (tflite.qparams, dict(detail=DETAIL)),
    "cf.qparams": (cf.qparams, dict(attrs=ATTRS, dtype="int8")),
    "cf.decode": (cf.decode, dict(q=q, attrs=ATTRS, out=None, threads=1)),
    "cf.encode": (cf.encode, dict(
        x=x, attrs=ATTRS, dtype="int8", out_of_range="saturate", out=None, threads=1)),
    "QParams": (pq.QParams, dict(
        scale=one, zero_point=zero, dtype="int8", axis=None, block_size=None, offset=0.5,
        fill=None, quant_range=None)),
    "QParams.quantize": (params.quantize, {
        k: v for k, v in QUANTIZE.items()
        if k not in ("scale", "zero_point", "dtype", "axis", "block_size")}),
    "QParams.dequantize": (params.dequantize, {
        k: v for k, v in DEQUANTIZE.items()
        if k not in ("scale", "zero_point", "axis", "block_size")}),
    "pack": (pq.pack, dict(codes=q)),
    "PackedArray": (pq.PackedArray, dict(
        data=np.zeros(1, "u1"), dtype="int4", shape=2, layout="onnx")),
    "PackedArray[]": (packed.__getitem__, dict(index=slice(2))),
    "from_buffer": (pq.PackedArray.from_buffer, dict(buffer=b"a", dtype="int4", shape=2)),
    "onnx.quantize_linear": (pq.onnx.quantize_linear, dict(
        x=x, y_scale=one, y_zero_point=zero, axis=1, block_size=0, saturate=1,
        output_dtype=0, precision=0)),
    "onnx.dequantize_linear": (pq.onnx.dequantize_linear, dict(
        x=q, x_scale=one, x_zero_point=zero, axis=1, block_size=0, output_dtype=0)),
    "onnx.dynamic_quantize_linear": (pq.onnx.dynamic_quantize_linear, dict(x=x)),
    "com_microsoft.quantize_linear": (pq.com_microsoft.quantize_linear, dict(
        x=x, y_scale=one, y_zero_point=zero, axis=None)),
    "com_microsoft.dequantize_linear": (pq.com_microsoft.dequantize_linear, dict(
        x=q, x_scale=one, x_zero_point=zero, axis=None)),
    "ngraph.quantize": (pq.ngraph.quantize, dict(
        input=x, scale=one, zero_point=zero, type="i8", axes=(),
        round_mode="ROUND_UP")),
    "ngraph.dequantize": (pq.ngraph.dequantize, dict(
        input=q, scale=one, zero_point=zero, type="f32", axes=())),
    "onednn.quantize": (pq.onednn.quantize, dict(ONEDNN, dtype="s8")),
    "onednn.dequantize": (pq.onednn.dequantize, dict(ONEDNN, src=q)),
    "onednn.dynamic_quantize": (pq.onednn.dynamic_quantize, dict(ONEDNN, dtype="s8")),
    "onednn.dynamic_dequantize": (pq.onednn.dynamic_dequantize, dict(
        ONEDNN, src=q, group_shape=None)),
}

# What may be anything: its truth is asked for.
FLAGS = ("saturate", "packed", "symmetric", "inverse")

def attempt(kind, value):
    wrong = []
    for label, (function, kwargs) in CALLS.items():
        if label != "pack":  # which needs a type of ml_dtypes
            function(**kwargs)
        for name in kwargs:
            print(kind, label, name, file=sys.stderr, flush=True)
            try:
                function(**dict(kwargs, **{name: value}))
            except (TypeError, ValueError) as error:
                if not str(error).startswith(f"{name}: "):
                    wrong.append(f"{label}: {type(error).__name__}: {str(error)[:80]}")
            except BaseException as error:
                wrong.append(f"{label}({name}=): {type(error).__name__}: {str(error)[:80]}")
            else:
                if name not in FLAGS:
                    wrong.append(f"{label}({name}=) was taken")
    print("\\n".join(wrong) or "ok")
"""
# Whoever has a small stack may not be able to destroy the object: Python's own matter.
THREAD = """
value = made(KIND)
threading.stack_size(256 * 1024)
thread = threading.Thread(target=attempt, args=(KIND, value))
thread.start()
thread.join()
"""


KINDS = ["list", "tuple", "endless", "deque"]


def attempts(kind, levels, end):
    """Calls with one kind of object in each place, in an interpreter of their own."""
    run = run_python(f"LEVELS = {levels}\nKIND = {kind!r}\n{SETUP}\n{end}", timeout=300)
    assert run.returncode == 0, f"{run.returncode} at: {run.stderr[-200:]}"
    assert run.stdout == "ok\n"


@pytest.mark.parametrize("kind", KINDS)
def test_no_argument_overflows_the_stack(kind):
    attempts(kind, amount(30_000, 100_000), "attempt(KIND, made(KIND))")


@pytest.mark.parametrize("kind", KINDS)
def test_nor_the_small_stack_of_a_thread(kind):
    attempts(kind, 3_000, THREAD)
