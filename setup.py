"""The extension module and the description; what is declarative is in pyproject.toml."""

import os
import re
import sys
import tomllib
from glob import glob
from pathlib import Path
from platform import machine

from numpy import get_include
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

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
            # Nothing is thrown through these functions. Who wants to see their callers in a
            # debugger or profiler sets CFLAGS: 5 % of the size.
            FLAGS.append("-fno-asynchronous-unwind-tables")

# The kernels are loops, which -O3 makes faster. What calls them is as fast by -O2, and the
# last level counts.
BETTER = {"pyquant/_core.c": ["-O2"]}
if sys.platform == "linux":  # GCC, or clang, which says that it does not know these
    # What Cython calls unlikely are refusals and errors: for size alone. Callers get copies
    # of small functions until all is a quarter larger, not two fifths, and execute no more
    # instructions. There are no loops whose beginnings would have to be aligned.
    BETTER["pyquant/_core.c"] += [
        "--param=builtin-expect-probability=100",
        "--param=inline-unit-growth=25",
        "-falign-jumps=1",
        "-falign-loops=1",
    ]
    # Many loops, whose remainders would be written out.
    FEW_REMAINDERS = ["--param=max-completely-peeled-insns=50"]
    BETTER["csrc/params.c"] = BETTER["csrc/blocks/encode.c"] = FEW_REMAINDERS
    if machine() in ("x86_64", "aarch64"):
        # For the few CPUs without AVX2, and to compare with: a third of the size for a
        # tenth of the speed of some. Where there are no other kernels speed counts.
        for table in ("kernels", "records", "stochastic"):
            BETTER[f"csrc/scalar/{table}_scalar.c"] = FEW_REMAINDERS


def description():
    """README.md, with links to the files of this version, wherever it is shown."""
    project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
    version = re.search('"(.+)"', Path("pyquant/_version.py").read_text("utf-8"))[1]
    files = f"{project['urls']['Source']}/blob/v{version}/"
    text = Path("README.md").read_text("utf-8")
    return re.sub(r"\]\((?!https://|#)", f"]({files}", text)


class BuildExt(build_ext):
    """-O3, but for the files that BETTER knows flags for."""

    def build_extensions(self):
        if sys.platform != "win32":
            compile_file = self.compiler._compile

            def compile_as_is_best(obj, src, ext, cc_args, extra_postargs, pp_opts):
                flags = [*extra_postargs, *BETTER.get(Path(src).as_posix(), ())]
                compile_file(obj, src, ext, cc_args, flags, pp_opts)

            self.compiler._compile = compile_as_is_best
        super().build_extensions()


setup(
    cmdclass={"build_ext": BuildExt},
    long_description=description(),
    long_description_content_type="text/markdown",
    ext_modules=[
        Extension(
            "pyquant._core",
            ["pyquant/_core.pyx", *sorted(glob("csrc/*.c") + glob("csrc/*/*.c"))],
            depends=[
                *glob("pyquant/*.pxi"),
                *glob("csrc/*.h"),
                *glob("csrc/*/*.h"),
                "csrc/kernels.inc",
                *glob("csrc/kernels/*.inc"),
            ],
            include_dirs=["csrc", get_include()],
            define_macros=[
                ("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"),
                ("NPY_TARGET_VERSION", "NPY_2_0_API_VERSION"),
            ],
            libraries=LIBRARIES,
            extra_compile_args=FLAGS,
            extra_link_args=LINK_FLAGS,
        )
    ],
)
