"""
Export the calls of the conformance files for programs in any language.

python tests/conformance/export.py onnx FOLDER     a folder for each call, like ONNX's tests
python tests/conformance/export.py text            a line for each element, as bits
python tests/conformance/export.py tables FOLDER   codes of all float16 and bfloat16 values
"""

import argparse
import hashlib
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:] = [str(HERE.parent), *(p for p in sys.path if Path(p).resolve() != HERE)]

from conformance import cases  # noqa: E402

import pyquant as pq  # noqa: E402

V1 = {path.stem: path for path in cases.V1}


def settled(name):
    """Yield the calls of a file of `v1/` that have exactly one acceptable result."""
    for call in cases.calls(V1[name]):
        if len(call.acceptable) == 1:
            yield call


# ---- Tests for ONNX backends ----

OPSETS = (13, 19, 21, 23, 25)  # The opsets to try, before the newest one.
PRECISE = 23  # The first opset that defines the type of the quotient.


def checked_model(call, results):
    """Return a model of a call, with the oldest opset that works, and its inputs."""
    import onnx
    from conformance.adapters._model import model_of, type_of

    newest = onnx.defs.onnx_opset_version()
    for opset in (*OPSETS, newest):
        model, feeds, _ = model_of(call, opset)
        for info, array in zip(model.graph.output, results, strict=True):
            typed = onnx.helper.make_tensor_type_proto(type_of(array.dtype), array.shape)
            info.type.CopyFrom(typed)
        divided = {feeds[key].dtype.name for key in ("x", "y_scale") if key in feeds}
        if "y_scale" in feeds and opset < PRECISE and divided != {"float32"}:
            continue
        try:
            onnx.checker.check_model(model, full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
            if opset == newest:
                raise
        else:
            return model, feeds
    return None


def write_onnx(folder):
    """Write a folder test_ID to `folder` for each call. Return the number of folders."""
    from conformance.adapters import Unsupported
    from onnx import numpy_helper

    count = 0
    for call in settled("onnx"):
        one = call.acceptable[0]
        results = [cases.array(spec) for spec in (one if isinstance(one, list) else [one])]
        try:
            model, feeds = checked_model(call, results)
        except Unsupported:
            continue  # the model cannot store a Python number as zero point
        made = {info.name: a for info, a in zip(model.graph.output, results, strict=True)}
        data = Path(folder, f"test_{call.id.replace('-', '_')}", "test_data_set_0")
        data.mkdir(parents=True)
        (data.parent / "model.onnx").write_bytes(model.SerializeToString())
        for kind, arrays in (("input", feeds), ("output", made)):
            for i, (name, array) in enumerate(arrays.items()):
                tensor = numpy_helper.from_array(array, name)
                (data / f"{kind}_{i}.pb").write_bytes(tensor.SerializeToString())
        count += 1
    return count


# Lines of text, for example `quantize f32 i8 half_even x=3f000000 s=3f800000 z=00 -> 00`.

SHORT = {"float32": "f32", "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16"}
SHORT |= {"int32": "i32", "int4": "i4", "uint4": "u4", "int2": "i2", "uint2": "u2"}
SHORT |= {"float8_e4m3fn": "f8e4m3fn", "float8_e4m3fnuz": "f8e4m3fnuz"}
SHORT |= {"float8_e5m2": "f8e5m2", "float8_e5m2fnuz": "f8e5m2fnuz"}
# Calls with any other argument are not written as lines of text.
PLAIN = {"x", "x_scale", "x_zero_point", "y_scale", "y_zero_point", "saturate"}
PLAIN |= {"output_dtype", "input", "scale", "zero_point", "type", "axes", "round_mode"}


def pattern(array):
    """Return the bits of each element in hexadecimal. Narrow elements fill a byte."""
    bits = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}.get(array.dtype.name)
    size = array.dtype.itemsize
    mask = (1 << (bits or 8 * size)) - 1
    return [f"{int(v) & mask:0{2 * size}x}" for v in array.view(f"u{size}").flat]


def lines_of(call):
    """Yield a line for each element if the values and the one scale are float32."""
    args = {key: cases.argument(value) for key, value in call.args.items()}
    if isinstance(call.acceptable[0], list) or not set(args) <= PLAIN:
        return
    x, result = args.get("x", args.get("input")), cases.array(call.acceptable[0])
    scale = next(args[key] for key in args if key.endswith("scale"))
    op = call.op.split(".")[1].removesuffix("_linear")
    real, codes = (x, result) if op == "quantize" else (result, x)
    zero = next((args[key] for key in args if key.endswith("zero_point")), None)
    zero = np.zeros((), codes.dtype) if zero is None else np.asarray(zero)
    known = codes.dtype.name in SHORT and zero.dtype == codes.dtype
    if not known or real.dtype != np.float32 or scale.dtype != np.float32:
        return
    if codes.dtype == np.float32 or scale.size != 1 or zero.size != 1:
        return
    how = pq.RoundMode(args.get("round_mode", "half_even")).value
    (s,), (z,) = pattern(scale), pattern(zero)
    if codes.dtype.name.startswith("float8"):
        if z != "00":
            return  # oneDNN adds the zero point before rounding
        how += " saturate" if args.get("saturate", 1) else " overflow"
    nans = np.isnan(result.astype(np.float32)).flat
    head = f"{op} {SHORT[x.dtype.name]} {SHORT[result.dtype.name]} {how}"
    for given, made, is_nan in zip(pattern(x), pattern(result), nans, strict=True):
        yield f"{head} x={given} s={s} z={z} -> {'nan' if is_nan else made}"


def text():
    """Return the lines of all calls, without repeated lines."""
    files = ("ngraph", "onnx")
    calls = (call for name in files for call in settled(name))
    return list(dict.fromkeys(line for call in calls for line in lines_of(call)))


# ---- Tables with a byte for each of the 65536 patterns of float16 or bfloat16 ----


def tables():
    """Yield the names and the bytes of all tables. tables.sha256 has their checksums."""
    for source in ("float16", "bfloat16"):
        x = np.arange(1 << 16, dtype=np.uint16).view(cases.dtype_of(source))
        for target in (name for name in SHORT if name.startswith("float8")):
            for how in ("saturate", "overflow"):
                made = pq.quantize(x, 1.0, dtype=target, saturate=how == "saturate")
                yield f"{source}-{target}-{how}.bin", made.tobytes()


def main():
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("form", choices=("onnx", "text", "tables"))
    parser.add_argument("folder", nargs="?", default=".")
    args = parser.parse_args()
    Path(args.folder).mkdir(parents=True, exist_ok=True)
    if args.form == "onnx":
        print(write_onnx(args.folder), "folders")
    elif args.form == "text":
        print("\n".join(text()))
    else:
        for name, data in tables():
            Path(args.folder, name).write_bytes(data)
            print(f"{hashlib.sha256(data).hexdigest()}  {name}")


if __name__ == "__main__":
    main()
