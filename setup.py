"""The extension module; everything declarative is in pyproject.toml."""

import os
import sys
from glob import glob

from setuptools import Extension, setup

LINK_FLAGS = []
if sys.platform == "win32":
    FLAGS, LIBRARIES = ["/O2", "/std:c11"], []
else:
    # No contraction: a fused multiply-add would change results. Nobody reads the exception
    # flags, which are put back: without them comparisons can be vectorized.
    FLAGS = [
        "-O3",
        "-std=c11",
        "-ffp-contract=off",
        "-fno-trapping-math",
        "-fvisibility=hidden",
    ]
    LIBRARIES = ["m"]
    if "CFLAGS" not in os.environ:
        FLAGS.append("-g0")  # the interpreter asks for debug data: seven times the size
        if sys.platform == "linux":
            LINK_FLAGS.append("-s")  # names of static functions, 4 % of the size

setup(
    ext_modules=[
        Extension(
            "pyquant._core",
            ["pyquant/_core.pyx", *sorted(glob("csrc/*.c") + glob("csrc/*/*.c"))],
            depends=[*glob("csrc/*.h"), *glob("csrc/*/*.h"), "csrc/kernels.inc"],
            include_dirs=["csrc"],
            libraries=LIBRARIES,
            extra_compile_args=FLAGS,
            extra_link_args=LINK_FLAGS,
        )
    ]
)
