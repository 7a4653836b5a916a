"""Build an extension module with the headers of pyquant. The module links no library."""

from setuptools import Extension, setup

import pyquant

setup(
    ext_modules=[
        Extension("embed_c", ["embed_c.c"], include_dirs=[pyquant.embed.get_include()])
    ]
)
