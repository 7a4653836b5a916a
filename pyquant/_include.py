# SPDX-License-Identifier: Apache-2.0
"""Where the C headers are."""

from __future__ import annotations

import os

__all__ = ["get_include"]


def get_include() -> str:
    """
    Return the folder of the C headers ``pyquant.h`` and ``pq.h``.

    Returns
    -------
    str
        For ``include_dirs`` of an extension module that is compiled against pyquant;
        nothing has to be linked. ``cimport pyquant`` in Cython needs the same folder.

    Examples
    --------
    >>> import os
    >>> import pyquant as pq
    >>> sorted(os.listdir(pq.get_include()))
    ['pq.h', 'pyquant.h']
    """
    # Not pathlib, whose import takes longer than all of pyquant's.
    package = os.path.dirname(__file__)
    headers = os.path.join(package, "include")
    checkout = os.path.join(os.path.dirname(package), "csrc")  # of an editable install
    return headers if os.path.isdir(headers) else checkout
