# SPDX-License-Identifier: Apache-2.0
"""Rounding modes of `quantize`."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["RoundMode"]


def __dir__() -> list[str]:
    return sorted(__all__)


class RoundMode(StrEnum):
    """
    Rounding modes. Each member equals its string.

    Notes
    -----
    The ``HALF_*`` modes round to the nearest integer and differ in ties.
    Parentheses contain the mode of nGraph Quantize, which is another name of the member;
    ``STOCHASTIC`` and ``HALF_ODD`` have no counterpart. Names may have any letter case.

    Examples
    --------
    >>> import pyquant as pq
    >>> pq.RoundMode("ROUND_NEAREST_UPWARD")
    <RoundMode.HALF_UP: 'half_up'>
    """

    HALF_EVEN = "half_even"
    """To the nearest, ties to the even one (ROUND_NEAREST_TOWARD_EVEN)."""
    HALF_AWAY = "half_away"
    """To the nearest, ties away from zero (ROUND_NEAREST_TOWARD_INFINITY)."""
    HALF_TOWARD_ZERO = "half_toward_zero"
    """To the nearest, ties toward zero (ROUND_NEAREST_TOWARD_ZERO)."""
    HALF_UP = "half_up"
    """To the nearest, ties toward positive infinity (ROUND_NEAREST_UPWARD)."""
    HALF_DOWN = "half_down"
    """To the nearest, ties toward negative infinity (ROUND_NEAREST_DOWNWARD)."""
    AWAY = "away"
    """Away from zero (ROUND_TOWARD_INFINITY)."""
    TRUNC = "trunc"
    """Toward zero (ROUND_TOWARD_ZERO)."""
    CEIL = "ceil"
    """Toward positive infinity (ROUND_UP)."""
    FLOOR = "floor"
    """Toward negative infinity (ROUND_DOWN)."""
    HALF_ODD = "half_odd"
    """To the nearest, ties to the odd one."""
    STOCHASTIC = "stochastic"
    """To a random neighbour, more often the nearer one: see ``seed`` and ``start``."""

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


# The modes of nGraph Quantize.
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
