# SPDX-License-Identifier: Apache-2.0
"""
Measure the speed and the memory of `pyquant quantize` on a safetensors file.

    python -m benchmarks.checkpoint [FOLDER] [--gib 1.125] [--runs 3]

Each type of codes runs in its own process, on one CPU if the system allows this. FOLDER
(default: a temporary folder) needs free space of twice the size of the file.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

ROWS, COLUMNS = 1024, 4096
FORMS = {
    "int8 axis:0": ("out.safetensors", "--type", "int8"),
    "int4 block:32": ("out.safetensors", "--type", "int4", "--granularity", "block:32"),
    "Q8_0": ("out.gguf", "--type", "Q8_0"),
    "Q4_K": ("out.gguf", "--type", "Q4_K"),
}
# Run the command. Then print the wall time, the CPU time and the largest number of resident
# bytes.
PROGRAM = """
import os, re, resource, sys, time
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
from pyquant.cli import main
start, before = time.perf_counter(), time.process_time()
status = main(sys.argv[1:])
end, after = time.perf_counter(), time.process_time()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
if sys.platform == "linux":  # ru_maxrss includes the parent process
    said = open("/proc/self/status").read()
    peak = int(re.search("VmHWM:[^0-9]*([0-9]+)", said)[1]) * 1024
print(end - start, after - before, peak)
sys.exit(status)
"""


class Run(NamedTuple):
    """Wall time and CPU time in seconds, and the peak of resident bytes."""

    wall: float
    cpu: float
    peak: float


def write_checkpoint(path: Path, gib: float) -> int:
    """Write float32 layers of `gib` GiB in total. Return the total number of bytes."""
    layer = np.random.default_rng(0).standard_normal((ROWS, COLUMNS), np.float32) / 50
    count = max(1, round(gib * 2**30 / layer.nbytes))
    entries = {
        f"model.layers.{i}.mlp.weight": {
            "dtype": "F32",
            "shape": [ROWS, COLUMNS],
            "data_offsets": [i * layer.nbytes, (i + 1) * layer.nbytes],
        }
        for i in range(count)
    }
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for i in range(count):
            file.write(np.roll(layer, i, axis=1).data)
    return count * layer.nbytes


def measure(folder: Path, form: str) -> Run:
    """Quantize the checkpoint in a new process, and return its time and memory."""
    out, *options = FORMS[form]
    command = [sys.executable, "-P", "-c", PROGRAM, "quantize", "-q", "-f", *options]
    files = folder / "in.safetensors", folder / out
    run = subprocess.run([*command, *files], capture_output=True, check=True)
    return Run(*map(float, run.stdout.split()))


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each type of codes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--gib", type=float, default=1.125)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        nbytes = write_checkpoint(folder / "in.safetensors", given.gib)
        print(f"{nbytes / 2**30:.2f} GiB of float32, {os.uname().machine}")
        print(f"{'form':16}{'GB/s':>8}{'GB/s of CPU':>14}{'MB resident':>14}")
        for form in FORMS:
            runs = [measure(folder, form) for _ in range(given.runs)]
            speed, cpu = (nbytes / 1e9 / median(r[i] for r in runs) for i in (0, 1))
            peak = max(run.peak for run in runs) / 1e6
            print(f"{form:16}{speed:8.2f}{cpu:14.2f}{peak:14.0f}")


if __name__ == "__main__":
    main()
