# SPDX-License-Identifier: Apache-2.0
"""
Rivals: packages that the benchmarks compare with pyquant.

A rival returns a call that does the work of a form (kind of call), if its package supports
the form.

The call reads the input of the case. If the package allows this, the call writes to memory
that earlier calls used. Otherwise, only some candidates would spend time on new memory.

Each rival has a file in this folder and a row in this file. A file imports its package only
when it builds a candidate, so the benchmarks also run without the package.
"""

from benchmarks.rivals._rival import (
    CAST,
    LEGEND,
    MARKS,
    OTHER_BITS,
    SAME,
    Candidate,
    Rival,
    Verdict,
    build,
    differing,
    judge,
    no_form,
    quietly,
    verdict,
    version,
)
from benchmarks.rivals.cast_value_rs import with_cast_value_rs
from benchmarks.rivals.gguf import with_gguf
from benchmarks.rivals.ml_dtypes import with_ml_dtypes
from benchmarks.rivals.numcodecs import with_numcodecs
from benchmarks.rivals.numkong import with_numkong
from benchmarks.rivals.numpy import with_numpy
from benchmarks.rivals.onnxruntime import with_onnxruntime
from benchmarks.rivals.openvino import with_openvino
from benchmarks.rivals.pyquant import one_thread
from benchmarks.rivals.torch import with_torch, with_torch_eager
from benchmarks.rivals.xarray import with_xarray

__all__ = [
    "CAST",
    "LEGEND",
    "MARKS",
    "ONE_THREAD",
    "OTHER_BITS",
    "RIVALS",
    "SAME",
    "Candidate",
    "Rival",
    "Verdict",
    "build",
    "differing",
    "judge",
    "quietly",
    "verdict",
    "version",
]

# The rival of forms with several threads is pyquant on one thread.
ONE_THREAD = Rival("1-thread", "pyquant", one_thread)
RIVALS = {
    rival.name: rival
    for rival in (
        Rival("numpy", "numpy", with_numpy),
        Rival("ml_dtypes", "ml_dtypes", with_ml_dtypes),
        Rival("onnxruntime", "onnxruntime", with_onnxruntime),
        Rival("torch", "torch", with_torch),
        Rival("torch_eager", "torch", with_torch_eager),
        Rival("numkong", "numkong", with_numkong),
        Rival("gguf", "gguf", with_gguf),
        Rival("cast_value_rs", "cast-value-rs", with_cast_value_rs),
        Rival("openvino", "openvino", with_openvino),
        Rival("xarray", "xarray", with_xarray),
        Rival("numcodecs", "numcodecs", with_numcodecs),
        Rival("libgguf", "libgguf", no_form),
        Rival("bitsandbytes", "bitsandbytes", no_form),
        Rival("compressed_tensors", "compressed-tensors", no_form),
        Rival("mlx", "mlx", no_form),
    )
}
