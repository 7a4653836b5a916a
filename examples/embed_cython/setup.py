"""Build an extension module that cimports pyquant. The module links no library."""

import os

from Cython.Build import cythonize
from setuptools import Extension, setup

import pyquant

module = Extension(
    "embed_cython", ["embed_cython.pyx"], include_dirs=[pyquant.embed.get_include()]
)
# `include_path` is necessary if pyquant is an editable install.
setup(ext_modules=cythonize(module, include_path=[os.path.dirname(pyquant.__path__[0])]))
