# SPDX-License-Identifier: Apache-2.0
"""Rounding modes of `quantize`."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["RoundMode"]
__dir__: object = __all__.copy


class RoundMode(StrEnum):
    """
    Rounding modes. Each member equals a string: the mode's name.

    Notes
    -----
    The ``HALF_*`` modes round to the nearest integer, and differ for ties between two
    integers. Names may have any letter case. nGraph Quantize has names for all modes but
    half_odd and stochastic. nGraph's names are accepted, too:

    ==================== =============================
    half_even            ROUND_NEAREST_TOWARD_EVEN
    half_away            ROUND_NEAREST_TOWARD_INFINITY
    half_toward_zero     ROUND_NEAREST_TOWARD_ZERO
    half_up              ROUND_NEAREST_UPWARD
    half_down            ROUND_NEAREST_DOWNWARD
    away                 ROUND_TOWARD_INFINITY
    trunc                ROUND_TOWARD_ZERO
    ceil                 ROUND_UP
    floor                ROUND_DOWN
    ==================== =============================

    Examples
    --------
    >>> import pyquant as pq
    >>> pq.RoundMode("ROUND_NEAREST_UPWARD")
    <RoundMode.HALF_UP: 'half_up'>
    """

    HALF_EVEN = "half_even"
    """Round to the nearest integer, and ties to the even integer."""
    HALF_AWAY = "half_away"
    """Round to the nearest integer, and ties away from zero."""
    HALF_TOWARD_ZERO = "half_toward_zero"
    """Round to the nearest integer, and ties toward zero."""
    HALF_UP = "half_up"
    """Round to the nearest integer, and ties toward positive infinity."""
    HALF_DOWN = "half_down"
    """Round to the nearest integer, and ties toward negative infinity."""
    AWAY = "away"
    """Round away from zero."""
    TRUNC = "trunc"
    """Round toward zero."""
    CEIL = "ceil"
    """Round toward positive infinity."""
    FLOOR = "floor"
    """Round toward negative infinity."""
    HALF_ODD = "half_odd"
    """Round to the nearest integer, and ties to the odd integer."""
    STOCHASTIC = "stochastic"
    """Round to a random neighbour, more often the nearer one, by ``seed`` and ``start``."""

    @classmethod
    def _missing_(cls, value: object) -> RoundMode:
        """Accept names in any letter case, and nGraph's names."""
        if isinstance(value, str):
            text = value.lower()
            for name, mode in (*cls._value2member_map_.items(), *NGRAPH.items()):
                if text == name.lower():
                    return cls(str(mode))
        # Python's own message contains repr(value), which fails for deeply nested values.
        from pyquant._check import fail

        got = value if isinstance(value, str) else type(value)
        raise fail(ValueError, "rounding", f"one of {', '.join(cls)}", got, cls)


# nGraph's names of the rounding modes.
NGRAPH = {
    "ROUND_NEAREST_TOWARD_INFINITY": RoundMode.HALF_AWAY,
    "ROUND_NEAREST_TOWARD_ZERO": RoundMode.HALF_TOWARD_ZERO,
    "ROUND_NEAREST_UPWARD": RoundMode.HALF_UP,
    "ROUND_NEAREST_DOWNWARD": RoundMode.HALF_DOWN,
    "ROUND_NEAREST_TOWARD_EVEN": RoundMode.HALF_EVEN,
    "ROUND_TOWARD_INFINITY": RoundMode.AWAY,
    "ROUND_TOWARD_ZERO": RoundMode.TRUNC,
    "ROUND_UP": RoundMode.CEIL,
    "ROUND_DOWN": RoundMode.FLOOR,
}
