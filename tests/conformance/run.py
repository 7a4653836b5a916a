"""
Compare results of implementations with the conformance files and print differences.

python tests/conformance/run.py                    print the table of deviations/
python tests/conformance/run.py --impl torch       compare torch with the vectors
python tests/conformance/run.py --impl torch --write    write its deviations
python tests/conformance/run.py --page             write the tables of docs/conformance.md
"""

import argparse
import json
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
# Remove this folder from the path, because its modules would hide equally named packages.
sys.path[:] = [str(HERE.parent), *(p for p in sys.path if Path(p).resolve() != HERE)]

from conformance import cases  # noqa: E402
from conformance.adapters import Unsupported  # noqa: E402

IMPLEMENTATIONS = (
    "onnx_reference",
    "onnxruntime",
    "openvino",
    "torch",
    "ml_dtypes",
    "numkong",
    "gguf",
)
VERDICTS = ("same", "deviates", "refuses", "unsupported")
VECTORS = [path for path in cases.FILES if path.stem != "pyquant"]


def calls_of(ops):
    """Yield every call of some operators, with the name of the file and the id."""
    for path in VECTORS:
        for call in cases.calls(path):
            if call.op in ops:
                yield f"{path.stem}-{call.id}", call


def spelled(results):
    """Convert results to the JSON objects that the files contain."""
    made = []
    for result in map(np.asarray, results):
        bits = np.ascontiguousarray(result).view(f"u{result.dtype.itemsize}").reshape(-1)
        little = bits.astype(bits.dtype.newbyteorder("<"))
        shape, text = [*result.shape], little.tobytes().hex()
        made.append({"dtype": result.dtype.name, "shape": shape, "hex": text})
    return made


def agrees(results, expected):
    """Return True if all results have the expected bits. A float NaN may have any bits."""
    expected = expected if isinstance(expected, list) else [expected]
    if len(results) != len(expected):
        return False
    for result, spec in zip(map(np.asarray, results), expected, strict=True):
        wanted = cases.array(spec)
        if (result.dtype, result.shape) != (wanted.dtype, wanted.shape):
            return False
        unsigned = f"u{wanted.dtype.itemsize}"
        same = np.ascontiguousarray(result).view(unsigned) == wanted.view(unsigned)
        free = np.zeros(wanted.shape, bool)
        if wanted.dtype.name.startswith(("float", "bfloat")) and wanted.size:
            free = np.isnan(wanted.astype(np.float32)) & np.isnan(result.astype(np.float32))
        if not np.all(same | free):
            return False
    return True


def judged(adapter, call):
    """Run a call. If the results are not as expected, return an entry for `deviations/`."""
    try:
        results = adapter.results(call)
    except Unsupported:
        return "unsupported"
    except Exception:
        return None if call.refused else "refused"
    if any(agrees(results, expected) for expected in call.acceptable):
        return None
    return spelled(results)


def record(name):
    """Run all calls of an implementation. Return the contents for `deviations/`."""
    adapter = import_module(f"conformance.adapters.{name}")
    found = {key: judged(adapter, call) for key, call in calls_of(adapter.OPS)}
    return {
        "implementation": adapter.NAME,
        "version": adapter.VERSION,
        "vectors": max(json.loads(p.read_text("utf-8"))["version"] for p in VECTORS),
        "ops": sorted(adapter.OPS),
        "deviations": {key: found[key] for key in found if found[key] is not None},
    }


def verdict(deviation):
    words = {None: "same", "refused": "refuses", "unsupported": "unsupported"}
    return "deviates" if isinstance(deviation, list) else words[deviation]


def matrix(records):
    """Yield implementation, version, standard, and the number of calls for each verdict."""
    for kept in records:
        rows = {}
        for key, call in calls_of(kept["ops"]):
            row = rows.setdefault(call.op.split(".")[0], Counter())
            row[verdict(kept["deviations"].get(key))] += 1
        for standard, row in rows.items():
            yield kept["implementation"], kept["version"], standard, row


def kept_records():
    paths = sorted((HERE / "deviations").glob("*.json"))
    return [json.loads(path.read_text("utf-8")) for path in paths]


def text_of(kept):
    """Return the JSON text of a file of deviations, with a line for each deviation."""
    rows = (f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in kept["deviations"].items())
    head = {key: kept[key] for key in kept if key != "deviations"}
    top = "".join(f"  {json.dumps(key)}: {json.dumps(head[key])},\n" for key in head)
    return f'{{\n{top}  "deviations": {{\n' + ",\n".join(rows) + "\n  }\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--impl", choices=IMPLEMENTATIONS)
    parser.add_argument("--json", action="store_true", help="print all results as JSON")
    parser.add_argument("--write", action="store_true", help="store results of --impl")
    parser.add_argument("--page", action="store_true", help="write docs/conformance.md")
    args = parser.parse_args()
    records = [record(args.impl)] if args.impl else kept_records()
    if args.write and args.impl:
        (kept,) = records
        name = f"{kept['implementation']}-{kept['version']}.json"
        (HERE / "deviations" / name).write_text(text_of(kept), "utf-8", newline="\n")
    if args.page:
        from conformance import page

        page.write(kept_records())
    if args.json:
        print(json.dumps(records if len(records) != 1 else records[0], indent=2))
        return
    print(f"{'':32}{'':16}" + "".join(f"{v:>12}" for v in VERDICTS))
    for name, version, standard, row in matrix(records):
        counts = "".join(f"{row[v]:12}" for v in VERDICTS)
        print(f"{name + ' ' + version:32}{standard:16}{counts}")


if __name__ == "__main__":
    main()
