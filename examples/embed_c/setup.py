"""An extension module compiled against the headers of pyquant; it links nothing."""

from setuptools import Extension, setup

import pyquant

setup(
    ext_modules=[
        Extension("embed_c", ["embed_c.c"], include_dirs=[pyquant.embed.get_include()])
    ]
)
