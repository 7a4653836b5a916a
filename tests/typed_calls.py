# SPDX-License-Identifier: Apache-2.0
"""Calls that state the types of their results.

Type checkers check this file, and test_typing.py calls each function without parameters.
So each assertion is tested twice: for the type that a checker infers, and for the result.
"""

from __future__ import annotations

import array
import tempfile
from typing import TYPE_CHECKING, Any, assert_type

import numpy as np

import pyquant as pq
from pyquant import openvino
from pyquant.weights import Weight, convert, matmulnbits, mx, nvfp4
from pyquant.weights.blocks import BlockFormat, block_format, block_formats

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

X = np.zeros((2, 8), np.float32)
Q = np.zeros((2, 8), np.uint8)
SCALES = np.ones(8, np.float32)


def check(result: npt.NDArray[Any], dtype: str) -> None:
    """Check that a result is a NumPy array of a dtype."""
    assert type(result) is np.ndarray
    assert result.dtype == np.dtype(dtype)


def dynamic_quantize() -> None:
    i8, p = pq.dynamic_quantize(X, dtype=np.int8, axis=0)
    check(assert_type(i8, "npt.NDArray[np.int8]"), "int8")
    assert_type(p, pq.QParams)
    some, _ = pq.dynamic_quantize(X, dtype="uint8", symmetric=False, threads=2)
    check(assert_type(some, "npt.NDArray[Any]"), "uint8")
    packed, _ = pq.dynamic_quantize(X, dtype="int4", packed=True)
    assert type(assert_type(packed, pq.PackedArray)) is pq.PackedArray
    out: npt.NDArray[np.int8] = np.empty((2, 8), np.int8)
    scales: npt.NDArray[np.float32] = np.empty((), np.float32)
    same, _ = pq.dynamic_quantize(X, out=out, rounding="floor", scale_out=scales)
    assert assert_type(same, "npt.NDArray[np.int8]") is out


def fake_quantize() -> None:
    mask = np.empty(X.shape, np.bool)
    y = pq.fake_quantize(X, 0.5, 3, dtype="uint8", mask=mask, quant_range=(0, 15))
    check(assert_type(y, "npt.NDArray[np.float32]"), "float32")
    check(assert_type(pq.fake_quantize([1.0, 2.0], 0.5), "npt.NDArray[Any]"), "float64")
    out: npt.NDArray[np.float64] = np.empty(8)
    same = pq.fake_quantize(np.zeros(8), 0.5, out=out)
    assert assert_type(same, "npt.NDArray[np.float64]") is out
    faked = openvino.fake_quantize(X, -1, [1.0], 0, 8, 5)
    check(assert_type(faked, "npt.NDArray[Any]"), "float32")


def weights() -> None:
    w = matmulnbits.quantize(np.zeros((8, 16), np.float32), block_size=16)
    assert type(assert_type(w, Weight)) is Weight
    check(assert_type(w.dequantize(), "npt.NDArray[Any]"), "float32")
    again = assert_type(convert(w, "gptq_v2"), Weight)
    check(assert_type(again.dequantize(dtype="float16"), "npt.NDArray[Any]"), "float16")


def quantize_to_class_or_dtype() -> None:
    i8 = pq.quantize(X, 0.5, dtype=np.int8)
    check(assert_type(i8, "npt.NDArray[np.int8]"), "int8")
    u16 = pq.quantize(X, SCALES, 7, dtype=np.uint16, axis=1, rounding=pq.RoundMode.FLOOR)
    check(assert_type(u16, "npt.NDArray[np.uint16]"), "uint16")
    i32 = pq.quantize(X, 0.5, dtype=np.dtype(np.int32), threads=2)
    check(assert_type(i32, "npt.NDArray[np.int32]"), "int32")
    by_chance = pq.quantize(X, 0.5, dtype=np.int8, rounding="stochastic", seed=3, start=16)
    check(assert_type(by_chance, "npt.NDArray[np.int8]"), "int8")


def quantize_to_name() -> None:
    i8 = pq.quantize(X, 0.5, dtype="int8")
    check(assert_type(i8, "npt.NDArray[np.int8]"), "int8")
    u8 = pq.quantize(X, 0.5, dtype="uint8")
    check(assert_type(u8, "npt.NDArray[np.uint8]"), "uint8")
    i16 = pq.quantize(X, 0.5, dtype="int16")
    check(assert_type(i16, "npt.NDArray[np.int16]"), "int16")
    u16 = pq.quantize(X, 0.5, dtype="uint16")
    check(assert_type(u16, "npt.NDArray[np.uint16]"), "uint16")
    i32 = pq.quantize(X, 0.5, dtype="int32")
    check(assert_type(i32, "npt.NDArray[np.int32]"), "int32")
    u32 = pq.quantize(X, 0.5, dtype="uint32")
    check(assert_type(u32, "npt.NDArray[np.uint32]"), "uint32")
    i64 = pq.quantize(X, 0.5, dtype="int64", fill=-(2**63))
    check(assert_type(i64, "npt.NDArray[np.int64]"), "int64")
    u64 = pq.quantize(X, 0.5, 2**64 - 1, dtype="uint64")
    check(assert_type(u64, "npt.NDArray[np.uint64]"), "uint64")


def quantize_to_type_of_zero_point() -> None:
    default = pq.quantize(X, 0.5)
    check(assert_type(default, "npt.NDArray[np.int8]"), "int8")
    none = pq.quantize(X, 0.5, None)
    check(assert_type(none, "npt.NDArray[np.int8]"), "int8")
    number = pq.quantize(X, 0.5, 3)
    check(assert_type(number, "npt.NDArray[np.int8]"), "int8")
    u8 = pq.quantize(X, 0.5, np.uint8(3))
    check(assert_type(u8, "npt.NDArray[np.uint8]"), "uint8")
    i16 = pq.quantize(X, SCALES, np.zeros(8, np.int16), axis=1)
    check(assert_type(i16, "npt.NDArray[np.int16]"), "int16")


def quantize_into_out() -> None:
    out: npt.NDArray[np.uint8] = np.empty(X.shape, np.uint8)
    result = pq.quantize(X, 0.5, dtype="uint8", out=out)
    assert assert_type(result, "npt.NDArray[np.uint8]") is out


def quantize_by_mode() -> None:
    p = pq.QParams(0.5, None, "int8")
    for mode in pq.RoundMode:
        check(pq.quantize(X, 0.5, rounding=mode), "int8")
        check(p.quantize(X, rounding=mode), "int8")
    check(pq.quantize(X, 0.5, rounding="half_toward_zero"), "int8")
    check(p.quantize(X, rounding="floor"), "int8")


def quantize_packed() -> None:
    packed = pq.quantize(X, 0.5, dtype="int4", packed=True)
    assert type(assert_type(packed, pq.PackedArray)) is pq.PackedArray
    back = pq.dequantize(packed, 0.5)
    check(assert_type(back, "npt.NDArray[np.float32]"), "float32")
    words = pq.quantize(X, 0.5, dtype="uint4", layout="words")
    assert assert_type(words, pq.PackedArray).layout.name == "words"
    three = pq.quantize(X, 0.5, dtype="uint8", layout=pq.Layout("words", axis=0, bits=3))
    assert assert_type(three, pq.PackedArray).layout.bits == 3


def dtype_and_packed() -> tuple[npt.DTypeLike, bool]:
    return "int4", True


def quantize_to_unknown_type() -> None:
    dtype, packed = dtype_and_packed()
    some = pq.quantize(X, 0.5, dtype=dtype, packed=packed)
    assert type(assert_type(some, Any)) is pq.PackedArray
    listed = pq.quantize(X, 0.5, [1])
    check(assert_type(listed, "npt.NDArray[Any]"), "int8")


def dequantize_to() -> None:
    f32 = pq.dequantize(Q, 0.5)
    check(assert_type(f32, "npt.NDArray[np.float32]"), "float32")
    f64 = pq.dequantize(Q, 0.5, 3, dtype=np.float64)
    check(assert_type(f64, "npt.NDArray[np.float64]"), "float64")
    f16 = pq.dequantize(Q, SCALES, axis=-1, dtype="float16")
    check(assert_type(f16, "npt.NDArray[np.float16]"), "float16")
    assert_type(pq.dequantize(Q, 0.5, offset=SCALES, axis=-1), "npt.NDArray[np.float32]")
    named = pq.dequantize(Q, 0.5, dtype="float64")
    check(assert_type(named, "npt.NDArray[np.float64]"), "float64")
    out: npt.NDArray[np.float32] = np.empty(Q.shape, np.float32)
    assert assert_type(pq.dequantize(Q, 0.5, out=out), "npt.NDArray[np.float32]") is out


def parameters() -> None:
    p = assert_type(pq.choose_qparams(X, dtype=np.uint8, threads=2), pq.QParams)
    assert_type(pq.choose_qparams(X, method="mse", weights=X, candidates=[0.9]), pq.QParams)
    report = assert_type(p.measure_error(X, axis=0), pq.ErrorReport)
    assert_type(report + pq.measure_error(X, X, axis=0, threads=2), pq.ErrorReport)
    codes = p.quantize(X)
    check(assert_type(codes, "npt.NDArray[Any]"), "uint8")
    assert_type(pq.choose_qparams(X, like="pytorch", scale_dtype="float16"), pq.QParams)
    assert_type(pq.choose_qparams(X, include_zero=False, quant_range=(0, 9)), pq.QParams)
    given = pq.qparams_from_range(-1.0, [2.0][0], quant_range=(-64, 63), like="aten")
    assert_type(given, pq.QParams)
    f32 = p.dequantize(Q)
    check(assert_type(f32, "npt.NDArray[np.float32]"), "float32")
    f16 = p.dequantize(Q, dtype=np.float16)
    check(assert_type(f16, "npt.NDArray[np.float16]"), "float16")
    p4 = pq.QParams(0.5, None, "uint4")
    assert type(assert_type(p4.quantize(X, packed=True), pq.PackedArray)) is pq.PackedArray


class OnlyDLPack:
    """An object that provides its array only by the DLPack protocol."""

    def __dlpack__(self, **options: Any) -> Any:
        return X.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return X.__dlpack_device__()


class OnlyInterface:
    """An object that provides its array only by `__array_interface__`."""

    __array_interface__ = X.__array_interface__


def any_array() -> None:
    check(pq.quantize([1.0, 2.0], 0.5), "int8")
    check(pq.quantize(array.array("f", [1.0]), 0.5), "int8")
    check(pq.quantize(memoryview(array.array("f", [1.0])), 0.5), "int8")
    check(pq.quantize(OnlyDLPack(), 0.5), "int8")
    check(pq.quantize(OnlyInterface(), 0.5), "int8")
    check(pq.onnx.quantize_linear(OnlyDLPack(), np.float32(0.5)), "uint8")


def standards() -> None:
    """Pass integers of NumPy classes, lists and arrays to functions of standards."""
    one = np.int64(1)
    scales, zeros = np.ones(8, np.float32), np.zeros(8, np.uint8)
    check(pq.onnx.quantize_linear(X, scales, zeros, axis=one, saturate=np.True_), "uint8")
    back = pq.onnx.dequantize_linear(Q, scales, axis=one, block_size=np.int64(0))
    check(back, "float32")
    for given in (scales, [np.float32(1)] * 8, [1.0] * 8, scales.tolist()):
        made = pq.onednn.quantize(
            X, scales=given, zps=zeros, qtype="per_channel", axis=one, dtype="uint8"
        )
        check(made, "uint8")
    check(pq.onednn.quantize(X, scales=2.0, zps=[np.int64(3)], dtype="int8"), "int8")
    groups = np.ones((1, 4), np.float32)
    grouped = pq.onednn.dynamic_dequantize(
        Q, groups, qtype="per_group", group_shape=np.array([2, 2])
    )
    check(grouped, "float32")
    check(pq.com_microsoft.quantize_linear(X, scales, zeros, axis=one), "uint8")
    check(pq.ngraph.quantize(X, 1.0, np.int8(0), "i8", [one][:0], "ROUND_UP"), "int8")
    check(pq.ngraph.dequantize(Q, 1.0, np.uint8(0), np.float32, ()), "float32")


def packed_arrays() -> None:
    data = np.zeros(4, np.uint8)
    for shape in (8, np.int64(8), (2, np.int64(4)), [2, 4]):
        assert pq.PackedArray(data, "int4", shape).size == 8
    for buffer in (data, bytes(4), bytearray(4), memoryview(bytes(4))):
        assert pq.PackedArray.from_buffer(buffer, "int4", 8).nbytes == 4
    p = pq.PackedArray(data, "uint4", (2, 4))
    assert type(assert_type(p[:1], pq.PackedArray)) is pq.PackedArray
    assert assert_type(p.copy(), pq.PackedArray) == p
    words = pq.PackedArray(
        np.zeros((2, 1), np.int32), "uint4", (2, 4), layout=pq.Layout("words", axis=1)
    )
    assert assert_type(words.repack("awq"), pq.PackedArray).nbytes == 8
    assert assert_type(words.layout, pq.Layout).axis == 1
    packed = pq.pack(np.zeros(9, np.uint8), pq.Layout("words", bits=np.int64(3)))
    assert assert_type(packed.layout.bits, "int | None") == 3
    signs = assert_type(pq.pack_signs(X), "npt.NDArray[np.uint8]")
    check(signs, "uint8")
    assert assert_type(len(p), int) == 2


def packed_type() -> None:
    p = pq.PackedArray(np.zeros(4, np.uint8), "uint4", 8)
    try:
        assert str(assert_type(p.dtype, "np.dtype[Any]")) == "uint4"
    except ImportError:  # ml_dtypes is absent
        return


def requantized() -> None:
    sums = np.zeros((2, 8), np.int32)
    check(assert_type(pq.requantize(sums, 0.5), "npt.NDArray[np.int8]"), "int8")
    u8 = pq.requantize(sums, SCALES, 3, dtype="uint8", axis=1, bias=[1] * 8)
    check(assert_type(u8, "npt.NDArray[np.uint8]"), "uint8")
    i16 = pq.requantize(Q, 0.5, dtype=np.int16, arithmetic="tflite", quant_range=(0, 9))
    check(assert_type(i16, "npt.NDArray[np.int16]"), "int16")
    out: npt.NDArray[np.int8] = np.zeros((2, 8), np.int8)
    assert assert_type(pq.requantize(sums, 0.5, out=out), "npt.NDArray[np.int8]") is out
    m, shift = assert_type(pq.fixedpoint.fixed_point(0.5), tuple[np.int32, np.int8])
    i8 = pq.requantize(sums, m, shift=shift, arithmetic="tflite", threads=2)
    check(assert_type(i8, "npt.NDArray[np.int8]"), "int8")


def observers() -> None:
    o = pq.Observer(axis=0, histogram=True, mantissa_bits=3, nonfinite="ignore")
    o.update(X, threads=1)
    merged: pq.Observer = o + o
    merged.merge(o.copy())
    low, high = merged.quantile(0.5)
    lo, hi = merged.range("percentile", percentile=99.9, dtype="int8", symmetric=True)
    p: pq.QParams = merged.qparams("int8", method="mse", like="onnxruntime")
    batches = (X for _ in range(2))
    c: pq.QParams = pq.calibrate(batches, dtype="uint8", method="entropy", like="tflite")
    assert p.axis == 0
    assert c.axis is None
    assert (low <= high).all()
    assert (lo <= hi).all()


def files() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/a.safetensors"
        pq.write_weights(path, {"x": X, "p": pq.QParams(0.5, 0, "int8")})
        with pq.open_weights(path) as f:
            out = np.empty((2, 8), np.float32)
            assert_type(
                f["x"].dequantize(out=out),
                np.ndarray[tuple[int, int], np.dtype[np.float32]],
            )
            y: npt.NDArray[Any] = f["x"].dequantize(slice(0, 2), threads=2)
            assert_type(f["x"].shape, tuple[int, ...])
        check(y, "float32")


def blocks() -> None:
    fmt = assert_type(block_format("Q8_0"), BlockFormat)
    b = fmt.join(d=[0.5], qs=np.zeros((1, 32), np.int8))
    check(assert_type(b, "npt.NDArray[np.uint8]"), "uint8")
    y = fmt.dequantize(b, dtype="float16", threads=2)
    check(assert_type(y, "npt.NDArray[Any]"), "float16")
    out: npt.NDArray[np.float32] = np.empty(32, np.float32)
    assert assert_type(fmt.dequantize(b, out=out), "npt.NDArray[np.float32]") is out
    made = fmt.quantize(np.zeros((1, 32)), threads=2)
    assert_type(
        fmt.quantize(np.zeros((1, 32)), weights=[1.0] * 32, search=None),
        "npt.NDArray[np.uint8]",
    )
    assert_type(fmt.weighted, bool)
    check(assert_type(made, "npt.NDArray[np.uint8]"), "uint8")
    row: npt.NDArray[np.uint8] = made[0]
    assert assert_type(fmt.quantize(y, out=row), "npt.NDArray[np.uint8]") is row
    assert_type(fmt.split(b), "dict[str, npt.NDArray[Any]]")
    assert_type(fmt.encoded_shape((2, 64)), tuple[int, ...])
    assert_type(block_formats(), tuple[BlockFormat, ...])


def microscaling() -> None:
    w = assert_type(mx.quantize(X, "float8_e5m2", rule="even", threads=2), Weight)
    assert_type(w.tensors(), "dict[str, npt.NDArray[Any]]")
    assert_type(nvfp4.quantize(X, like="compressed_tensors"), Weight)
    check(assert_type(w.dequantize(), "npt.NDArray[Any]"), "float32")


def type_errors() -> None:
    """Calls with a type error raise. Checkers report an unnecessary `type: ignore`."""
    fails(lambda: pq.quantize(X, object()))  # type: ignore[call-overload]
    fails(lambda: pq.quantize(X, 0.5, dtype="int8", axis="x"))  # type: ignore[call-overload]
    fails(lambda: pq.dequantize(Q, 0.5, out=3))  # type: ignore[call-overload]
    fails(lambda: pq.quantize(X, 0.5, rounding="half-even"))  # type: ignore[call-overload]
    fails(lambda: pq.quantize(X, 0.5, axes=0))  # type: ignore[call-overload]
    fails(lambda: pq.quantize(X, 0.5, dtype=8))  # type: ignore[call-overload]
    fails(lambda: pq.quantize(X, 0.5, fill=0.5))  # type: ignore[call-overload]
    fails(lambda: pq.dequantize(Q, 0.5, mask=X))  # type: ignore[call-overload]
    fails(lambda: pq.dequantize(Q, 0.5, dtype=1.5))  # type: ignore[call-overload]
    fails(lambda: pq.requantize(Q, 0.5, quant_range=3))  # type: ignore[call-overload]
    fails(lambda: pq.fake_quantize(X, 0.5, nan="raise"))  # type: ignore[call-overload]
    fails(lambda: pq.dynamic_quantize(X, axes=0))  # type: ignore[call-overload]
    fails(lambda: pq.dynamic_quantize(X, like="onnx"))  # type: ignore[call-overload]
    p = pq.QParams(0.5, None, "int8")
    fails(lambda: p.dequantize(Q, scale=2))  # type: ignore[call-overload]
    fails(lambda: p.quantize(X, rounding="nearest"))  # type: ignore[call-overload]
    packed = pq.quantize(X, 0.5, dtype="int4", packed=True)
    fails(lambda: packed[0, 1])  # type: ignore[index]


def fails(call: Callable[[], object]) -> None:
    try:
        call()
    except (TypeError, ValueError):
        return
    raise AssertionError
