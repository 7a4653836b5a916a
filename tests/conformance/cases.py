"""Read the cases of the data files in this folder as calls with NumPy arrays."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

HERE = Path(__file__).parent
V1 = sorted((HERE / "v1").glob("*.json"))
FILES = [*V1, *sorted(HERE.glob("*.json"))]
BLOCKS = [path for path in FILES if path.name.startswith("ggml-")]
WEIGHTS = [
    path
    for path in FILES
    if path.name.startswith(("bitsandbytes-", "mlx-", "compressed-tensors-packed-"))
]
STANDARDS = [path for path in FILES if path not in (*BLOCKS, *WEIGHTS)]


class Call(NamedTuple):
    """A call of a case. `args` and `expect` are unchanged JSON values of the file."""

    id: str
    op: str
    args: dict
    expect: dict | list
    error: dict | None = None  # the exception that pyquant raises if the call is an error
    flags: tuple = ()

    @property
    def refused(self):
        return "refused" in self.expect

    @property
    def acceptable(self):
        """Return the permitted results: arrays, or lists. pyquant returns the first one."""
        if self.refused:
            return []
        is_open = isinstance(self.expect, dict) and "any_of" in self.expect
        return self.expect["any_of"] if is_open else [self.expect]


def calls(path):
    """Yield every call of a file. A call inherits missing members from its case."""
    for case in json.loads(path.read_text(encoding="utf-8"))["cases"]:
        for call in case["calls"]:
            op = call.get("op") or case["op"]
            args = case.get("args", {}) | call.get("args", {})
            rest = call.get("pyquant"), tuple(call.get("flags", ()))
            yield Call(call["id"], op, args, call["expect"], *rest)


def dtype_of(name):
    """Return the dtype with a name of NumPy or ml_dtypes."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def number(value):
    """Return a JSON number unchanged, or convert a C99 hexadecimal string to a float."""
    return float.fromhex(value) if isinstance(value, str) else value


def pattern_of(value):
    """Return an integer code unchanged, or convert a string of hexadecimal digits."""
    return int(value, 16) if isinstance(value, str) else value


def array(spec):
    """Return the array that an object with a "dtype" describes."""
    dtype = dtype_of(spec["dtype"])
    if "fill" in spec:
        return np.full(spec["shape"], spec["fill"]).astype(dtype)
    if "hex" in spec:
        numbers = np.frombuffer(bytes.fromhex(spec["hex"]), dtype.newbyteorder("<"))
        return numbers.astype(dtype).reshape(spec["shape"])
    given = np.array(spec["data"], dtype=object)
    shape = spec.get("shape", given.shape)
    if spec.get("encoding") == "bits":
        pattern = np.dtype(f"u{dtype.itemsize}")
        nan = int(np.array(np.nan).astype(dtype).view(pattern)) if dtype.itemsize > 1 else 0
        values = [nan if v == "nan" else pattern_of(v) for v in given.flat]
        return np.array(values, dtype=pattern).reshape(shape).view(dtype)
    if "int" in dtype.name:
        values = np.array(list(given.flat), dtype=np.int64)
    else:
        values = np.array([number(v) for v in given.flat], dtype=np.float64)
    result = values.astype(dtype).reshape(shape)
    back = result.astype(values.dtype).reshape(-1)
    assert np.array_equal(back, values, equal_nan=values.dtype.kind == "f"), "not exact"
    return result


def argument(value):
    """Return an argument of a call: an array, a list of numbers, or the given value."""
    if isinstance(value, dict):
        return tuple(value["tuple"]) if "tuple" in value else array(value)
    if isinstance(value, list):
        return [number(v) for v in value]
    return value


def any_nan(spec):
    """Return a mask that is true for elements where any NaN is a correct result."""
    expected = array(spec)
    if spec.get("encoding") != "bits":
        return np.zeros(expected.shape, bool)
    flags = [v == "nan" for v in np.array(spec["data"], dtype=object).flat]
    return np.array(flags, dtype=bool).reshape(expected.shape)
