"""Build the extension module `pyquant._core`. pyproject.toml has the remaining settings."""

import os
import re
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from glob import glob
from pathlib import Path

from Cython.Build import cythonize
from numpy import get_include
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.modified import newer_group

FLAGS = [
    "-O3",
    "-std=c11",
    "-ffp-contract=off",  # a fused multiply-add would change results
    "-fno-trapping-math",  # pyquant restores the exception flags: vectorize comparisons
    "-fvisibility=hidden",
    "-MMD",  # list the headers of each object file, for `is_current`
]
if "CFLAGS" not in os.environ:
    FLAGS.append("-g0")  # Python's own flags include -g: a module 7 times as large
# GCC's default makes the scalar kernels up to 1.3 times slower. clang ignores the option.
FILE_FLAGS = {"kernels_scalar.c": ["--param=max-completely-peeled-insns=50"]}
if sys.platform == "win32":
    FLAGS, FILE_FLAGS = ["/O2", "/std:c11"], {}
SLOW = ("_core.c", "kernels_")  # 10 to 30 s each; the remaining files take 0.1 to 2 s


def description():
    """Return README.md with links to the files and pictures of this version."""
    project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
    version = re.search('"(.+)"', Path("pyquant/_version.py").read_text("utf-8"))[1]
    source = project["urls"]["Source"]
    text = Path("README.md").read_text("utf-8")
    picture = r"(!\[[^]]*\]\(|src(?:set)?=\")(?!https://)"
    text = re.sub(picture, rf"\1{source}/raw/v{version}/", text)
    return re.sub(r"\]\((?!https://|#)", f"]({source}/blob/v{version}/", text)


def is_current(obj):
    """Return true if an object file is newer than its source, its headers and setup.py."""
    try:
        rule = Path(obj).with_suffix(".d").read_text("utf-8")
    except FileNotFoundError:
        return False  # the first build, or MSVC, which writes no list
    files = rule.replace("\\\n", " ").split()[1:]
    return not newer_group([*files, "setup.py"], obj, missing="newer")


class BuildExt(build_ext):
    """Compile the C files in parallel, and compile only changed files again."""

    def build_extension(self, ext):
        self.compiler.compile([])  # finds MSVC, which must happen before threads start
        sources = cythonize([ext], force=self.force)[0].sources
        sources.sort(key=lambda path: (not any(name in path for name in SLOW), path))
        has_affinity = hasattr(os, "sched_getaffinity")
        cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count()
        with ThreadPoolExecutor(self.parallel or cores) as pool:
            objects = list(pool.map(lambda path: self.compile_file(path, ext), sources))
        linked = copy(ext)
        linked.sources, linked.extra_objects, linked.depends = [], objects, objects
        super().build_extension(linked)

    def compile_file(self, source, ext):
        """Compile a C file if it has changed, and return the name of its object file."""
        [obj] = self.compiler.object_filenames([source], output_dir=self.build_temp)
        if self.force or not is_current(obj):
            self.compiler.compile(
                [source],
                output_dir=self.build_temp,
                macros=ext.define_macros,
                include_dirs=ext.include_dirs,
                debug=self.debug,
                extra_postargs=[*FLAGS, *FILE_FLAGS.get(Path(source).name, ())],
            )
        return obj


setup(
    cmdclass={"build_ext": BuildExt},
    long_description=description(),
    long_description_content_type="text/markdown",
    ext_modules=[
        Extension(
            "pyquant._core",
            ["pyquant/_core.pyx", *sorted(glob("csrc/*.c") + glob("csrc/*/*.c"))],
            include_dirs=["csrc", get_include()],
            define_macros=[
                ("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"),
                ("NPY_TARGET_VERSION", "NPY_2_0_API_VERSION"),
            ],
            libraries=[] if sys.platform == "win32" else ["m"],
        )
    ],
)
