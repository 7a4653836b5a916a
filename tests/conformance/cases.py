"""The cases of the data files beside this one, as calls with NumPy arrays."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

FILES = sorted(Path(__file__).parent.glob("*.json"))
BLOCKS = [path for path in FILES if path.name.startswith("ggml-")]
WEIGHTS = [
    path
    for path in FILES
    if path.name.startswith(("bitsandbytes-", "mlx-", "compressed-tensors-packed-"))
]
STANDARDS = [path for path in FILES if path not in (*BLOCKS, *WEIGHTS)]


class Call(NamedTuple):
    """One call of one case; `args` and `expect` as the file has them."""

    id: str
    op: str
    args: dict
    expect: dict | list


def calls(path):
    """Every call of a file; what a call does not say, its case says."""
    for case in json.loads(path.read_text(encoding="utf-8"))["cases"]:
        for i, call in enumerate(case["calls"]):
            op = call.get("op") or case["op"]
            args = case.get("args", {}) | call.get("args", {})
            yield Call(f"{case['id']}-{i}", op, args, call["expect"])


def dtype_of(name):
    """The dtype of a name of NumPy or of ml_dtypes."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def number(value):
    """A JSON number, or the float that a C99 string stands for."""
    return float.fromhex(value) if isinstance(value, str) else value


def array(spec):
    """The array that an object with a "dtype" describes."""
    dtype = dtype_of(spec["dtype"])
    if "fill" in spec:
        return np.full(spec["shape"], spec["fill"]).astype(dtype)
    if "hex" in spec:
        numbers = np.frombuffer(bytes.fromhex(spec["hex"]), dtype.newbyteorder("<"))
        return numbers.astype(dtype).reshape(spec["shape"])
    given = np.array(spec.get("bits", spec.get("data")), dtype=object)
    shape = spec.get("shape", given.shape)
    pattern = np.dtype(f"u{dtype.itemsize}")
    if "bits" in spec:
        nan = int(np.array(np.nan).astype(dtype).view(pattern)) if dtype.itemsize > 1 else 0
        values = [nan if v == "nan" else int(v, 16) for v in given.flat]
        return np.array(values, dtype=pattern).reshape(shape).view(dtype)
    if dtype.name.startswith(("float8_", "float6_", "float4_")):
        return np.array(list(given.flat), dtype=pattern).reshape(shape).view(dtype)
    if "int" in dtype.name:
        values = np.array(list(given.flat), dtype=np.int64)
    else:
        values = np.array([number(v) for v in given.flat], dtype=np.float64)
    result = values.astype(dtype).reshape(shape)
    back = result.astype(values.dtype).reshape(-1)
    assert np.array_equal(back, values, equal_nan=values.dtype.kind == "f"), "not exact"
    return result


def argument(value):
    """An argument of a call: an array, a list of numbers, or what the file says."""
    if isinstance(value, dict):
        return tuple(value["tuple"]) if "tuple" in value else array(value)
    if isinstance(value, list):
        return [number(v) for v in value]
    return value


def any_nan(spec):
    """Where an expected array may hold any NaN."""
    expected = array(spec)
    flags = [v == "nan" for v in np.array(spec.get("bits", []), dtype=object).flat]
    return np.array(flags or [False] * expected.size, dtype=bool).reshape(expected.shape)
