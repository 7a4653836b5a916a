# SPDX-License-Identifier: Apache-2.0
"""Return the folders of the C headers, and of the files for CMake and pkg-config."""

from __future__ import annotations

import os

__all__ = ["get_cmake_dir", "get_include"]
__dir__: object = __all__.copy

# Do not import pathlib, because its import takes longer than the import of pyquant.
_FOLDER = os.path.dirname(__file__)
_PACKAGE = os.path.dirname(_FOLDER)


def get_include() -> str:
    """
    Return the folder of the C headers ``pyquant.h`` and ``pq.h``.

    Returns
    -------
    str
        Folder for ``include_dirs`` of an extension module. ``cimport pyquant`` in Cython
        also needs this folder. It is not necessary to link a library.

    Examples
    --------
    >>> import os
    >>> import pyquant as pq
    >>> sorted(os.listdir(pq.embed.get_include()))
    ['pq.h', 'pyquant.h']
    """
    headers = os.path.join(_PACKAGE, "include")
    checkout = os.path.join(os.path.dirname(_PACKAGE), "csrc")  # for an editable install
    return headers if os.path.isdir(headers) else checkout


def get_cmake_dir() -> str:
    """
    Return the folder of ``pyquant-config.cmake`` and ``pyquant.pc``.

    Returns
    -------
    str
        Folder for CMake's variable ``pyquant_DIR``, so that ``find_package(pyquant)``
        defines the target ``pyquant::headers``. If ``PKG_CONFIG_PATH`` contains the folder,
        ``pkg-config --cflags pyquant`` prints the compiler's option for the headers.

    Examples
    --------
    >>> import os
    >>> import pyquant as pq
    >>> sorted(name for name in os.listdir(pq.embed.get_cmake_dir()) if "-" in name)
    ['pyquant-config-version.cmake', 'pyquant-config.cmake']
    """
    return _FOLDER
