# SPDX-License-Identifier: Apache-2.0
"""Find the C headers."""

from __future__ import annotations

import os

__all__ = ["get_include"]
__dir__: object = __all__.copy


def get_include() -> str:
    """
    Return the folder of the C headers ``pyquant.h`` and ``pq.h``.

    Returns
    -------
    str
        Folder for ``include_dirs`` of an extension module. No library must be linked.
        ``cimport pyquant`` in Cython also needs this folder.

    Examples
    --------
    >>> import os
    >>> import pyquant as pq
    >>> sorted(os.listdir(pq.embed.get_include()))
    ['pq.h', 'pyquant.h']
    """
    # pathlib is avoided: its import takes longer than the import of pyquant.
    package = os.path.dirname(__file__)
    headers = os.path.join(package, "include")
    checkout = os.path.join(os.path.dirname(package), "csrc")  # an editable install
    return headers if os.path.isdir(headers) else checkout
