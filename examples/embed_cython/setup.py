"""An extension module that cimports pyquant, and links nothing."""

from setuptools import Extension, setup

import pyquant

setup(
    ext_modules=[
        Extension(
            "embed_cython", ["embed_cython.pyx"], include_dirs=[pyquant.get_include()]
        )
    ]
)
