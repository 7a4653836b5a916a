# SPDX-License-Identifier: Apache-2.0
"""Show the instruction set that the kernels use.

pyquant chooses the best instruction set of CPU and operating system at import. The
environment variable ``PYQUANT_ISA`` can select another available instruction set. All
instruction sets return equal bits.
"""

from __future__ import annotations

from pyquant import _core

__all__ = ["active", "available"]
__dir__: object = __all__.copy


def active() -> str:
    """
    Return the name of the instruction set in use.

    Returns
    -------
    str
        ``"avx512"``, ``"avx2"``, ``"neon"`` or ``"scalar"``.

    Examples
    --------
    >>> import pyquant as pq
    >>> pq.isa.active() in pq.isa.available()
    True
    """
    return _core.isa_active


def available() -> tuple[str, ...]:
    """
    Return the names of the instruction sets that this machine can use.

    Returns
    -------
    tuple of str
        The names in the order from best to worst. The last name is always ``"scalar"``.

    Examples
    --------
    >>> import pyquant as pq
    >>> pq.isa.available()[-1]
    'scalar'
    """
    return _core.isa_available
