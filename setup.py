"""The extension module and the description; what is declarative is in pyproject.toml."""

import os
import re
import subprocess
import sys
import tomllib
from glob import glob
from pathlib import Path
from platform import machine

from numpy import get_include
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

LINK_FLAGS = []
# Where CFLAGS say nothing: a module that is small.
IS_SMALL = "CFLAGS" not in os.environ
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
    if IS_SMALL:
        FLAGS.append("-g0")  # the interpreter asks for debug data: seven times the size
        if sys.platform == "linux":
            LINK_FLAGS.append("-s")  # names of static functions, 4 % of the size
            # Nothing is thrown through these functions. Who wants to see their callers in a
            # debugger or profiler sets CFLAGS: 5 % of the size.
            FLAGS.append("-fno-asynchronous-unwind-tables")

# Tracebacks name the functions of _core, but no lines of files that no wheel has: 2 % of
# the size.
NO_LINES = [("PQ_NO_LINES", None)] if IS_SMALL else []

# The kernels are loops, which -O3 makes faster. What calls them is as fast by -O2, and the
# last level counts.
BETTER = {"pyquant/_core.c": ["-O2"]}

# What Cython calls unlikely are refusals and errors: for size alone. Callers get copies of
# small functions, of at most 35 instructions, until all is a quarter larger, not of 70 and
# two fifths: a call executes 0.7 % more instructions. There are no loops whose beginnings
# would have to be aligned.
BETTER_BY_GCC = {
    "pyquant/_core.c": [
        "--param=builtin-expect-probability=100",
        "--param=inline-unit-growth=25",
        "--param=max-inline-insns-single=35",
        "-falign-jumps=1",
        "-falign-loops=1",
    ]
}
# Many loops, whose remainders would be written out; those of parameters, which are few,
# as shorter vectors, too.
FEW_REMAINDERS = ["--param=max-completely-peeled-insns=50"]
BETTER_BY_GCC["csrc/params.c"] = [*FEW_REMAINDERS, "--param=vect-epilogues-nomask=0"]
# Words are vectors already; of what is around them others would be twice the size.
for path in glob("csrc/*/searches_*.c"):
    BETTER_BY_GCC[Path(path).as_posix()] = ["-O2", "-fno-tree-vectorize"]
if machine() in ("x86_64", "aarch64"):
    # For the few CPUs without AVX2, and to compare with: a third of the size for a tenth of
    # the speed of some. Where there are no other kernels speed counts.
    for name in ("kernels", "stochastic"):
        BETTER_BY_GCC[f"csrc/scalar/{name}_scalar.c"] = FEW_REMAINDERS
    BETTER["csrc/scalar/codebook_scalar.c"] = ["-O2"]
# Blocks of weights are as fast so, at every level.
for folder, level in (("scalar", "scalar"), ("x86", "avx2"), ("arm", "neon")):
    BETTER_BY_GCC[f"csrc/{folder}/records_{level}.c"] = [
        *FEW_REMAINDERS,
        "-fno-ipa-cp-clone",
    ]


def description():
    """README.md, with links to the files of this version, wherever it is shown."""
    project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
    version = re.search('"(.+)"', Path("pyquant/_version.py").read_text("utf-8"))[1]
    files = f"{project['urls']['Source']}/blob/v{version}/"
    text = Path("README.md").read_text("utf-8")
    return re.sub(r"\]\((?!https://|#)", f"]({files}", text)


def is_gcc(compiler):
    """Whether the compiler is GCC, and not clang, which may have its name."""
    said = subprocess.run([*compiler, "--version"], capture_output=True, check=False)
    return b"Free Software Foundation" in said.stdout


class BuildExt(build_ext):
    """-O3, but for the files that BETTER knows flags for."""

    def build_extensions(self):
        if sys.platform != "win32":
            compile_file = self.compiler._compile
            by_gcc = BETTER_BY_GCC if is_gcc(self.compiler.compiler_so) else {}

            def compile_as_is_best(obj, src, ext, cc_args, extra_postargs, pp_opts):
                name = Path(src).as_posix()
                better = [*BETTER.get(name, ()), *by_gcc.get(name, ())]
                flags = [*extra_postargs, *better]
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
                *NO_LINES,
            ],
            libraries=LIBRARIES,
            extra_compile_args=FLAGS,
            extra_link_args=LINK_FLAGS,
        )
    ],
)
