"""Build the extension module `pyquant._core`. pyproject.toml has the remaining settings."""

import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from glob import glob
from pathlib import Path

from Cython.Build import cythonize
from numpy import get_include
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCE = "https://github.com/pyquant-simd/pyquant-simd"
FLAGS = [
    "-O3",
    "-std=c11",
    "-ffp-contract=off",  # Without this flag, a fused multiply-add could change results.
    "-fno-trapping-math",  # Allow vector comparisons. pyquant restores exception flags.
    "-fvisibility=hidden",
]
LINK_FLAGS = []
if "CFLAGS" not in os.environ:
    # -g0 disables -g, a flag of Python's build, with which the module is 7 times as large.
    FLAGS.append("-g0")
    # Remove the symbols that only debuggers need.
    LINK_FLAGS.append("-Wl,-x" if sys.platform == "darwin" else "-Wl,-s")
FILE_FLAGS = {
    # GCC's default for the first option makes the kernels up to 1.3 times slower, and its
    # default for the second option doubles the compile time. clang ignores both options.
    "kernels_scalar.c": [
        "--param=max-completely-peeled-insns=50",
        "--param=sccvn-max-alias-queries-per-access=200",
    ],
    # _core.c has no loops that need speed, so these flags make the module smaller. -O3
    # would make it 6 % larger, and alignment 1 %. Without the limit on inlined calls, the
    # wheel is 26 KB larger. Without the limit on copied jumps, the wheel is 16 KB larger
    # with GCC 14. The two limits make small calls 1 or 2 % slower.
    "_core.c": [
        *("-O2", "--param=max-inline-insns-single=15"),
        "--param=max-jump-thread-duplication-stmts=1",
        *("-fno-align-functions", "-fno-align-jumps", "-fno-align-loops"),
    ],
    # Without this limit on copied jumps, the code of these files is 4 to 9 % larger, and
    # not faster.
    **{
        name: ["--param=max-jump-thread-duplication-stmts=5"]
        for name in ("ops_avx2.c", "choose.c", "engine.c")
    },
    # -O3 would double the size of these files, to speed up loops that rarely run.
    **{name: ["-O2"] for name in ("fake_quantize.c", "saturation.c")},
    # -O3 makes presets.c larger by two thirds, and requantize_codes.c by half. -O2 is
    # enough, because these files have no loops over elements.
    **{name: ["-O2"] for name in ("presets.c", "requantize_codes.c")},
}
if sys.platform == "win32":
    FLAGS, FILE_FLAGS, LINK_FLAGS = ["/O2", "/std:c11"], {}, []
# Compile these files first. Each takes 5 to 30 s, and each other file at most 3 s.
SLOW = ("_core.c", "kernels_", "ops_avx2")


def description():
    """Return README.md with links to the files and pictures of this version."""
    version = re.search('"(.+)"', Path("pyquant/_version.py").read_text("utf-8"))[1]
    text = Path("README.md").read_text("utf-8")
    picture = r"(!\[[^]]*\]\(|src(?:set)?=\")(?!https://)"
    text = re.sub(picture, rf"\1{SOURCE}/raw/v{version}/", text)
    return re.sub(r"\]\((?!https://|#)", f"]({SOURCE}/blob/v{version}/", text)


class BuildExt(build_ext):
    """Compile the C files in parallel."""

    def build_extension(self, ext):
        self.compiler.compile([])  # finds MSVC before the threads start
        sources = cythonize([ext], force=self.force)[0].sources
        sources.sort(key=lambda path: (not any(name in path for name in SLOW), path))

        def compile_file(source):
            return self.compiler.compile(
                [source],
                output_dir=self.build_temp,
                macros=ext.define_macros,
                include_dirs=ext.include_dirs,
                debug=self.debug,
                extra_postargs=[*FLAGS, *FILE_FLAGS.get(Path(source).name, ())],
            )

        with ThreadPoolExecutor(self.parallel or os.cpu_count()) as pool:
            objects = [name for [name] in pool.map(compile_file, sources)]
        linked = copy(ext)
        linked.sources, linked.extra_objects, linked.depends = [], objects, objects
        super().build_extension(linked)


setup(
    cmdclass={"build_ext": BuildExt},
    long_description=description(),
    long_description_content_type="text/markdown",
    ext_modules=[
        Extension(
            "pyquant._core",
            ["pyquant/_cython/_core.pyx", *sorted(glob("csrc/*.c") + glob("csrc/*/*.c"))],
            include_dirs=["csrc", get_include()],
            define_macros=[
                ("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"),
                ("NPY_TARGET_VERSION", "NPY_2_0_API_VERSION"),
            ],
            libraries=[] if sys.platform == "win32" else ["m"],
            extra_link_args=LINK_FLAGS,
        )
    ],
)
