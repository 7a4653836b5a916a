"""The extension module; everything declarative is in pyproject.toml."""

import sys
from glob import glob

from setuptools import Extension, setup

if sys.platform == "win32":
    FLAGS, LIBRARIES = ["/O2", "/std:c11"], []
else:
    FLAGS = ["-O3", "-std=c11", "-ffp-contract=off", "-fvisibility=hidden"]
    LIBRARIES = ["m"]

setup(
    ext_modules=[
        Extension(
            "pyquant._core",
            ["pyquant/_core.pyx", *sorted(glob("csrc/*.c") + glob("csrc/*/*.c"))],
            depends=[*glob("csrc/*.h"), *glob("csrc/*/*.h"), "csrc/kernels.inc"],
            include_dirs=["csrc"],
            libraries=LIBRARIES,
            extra_compile_args=FLAGS,
        )
    ]
)
