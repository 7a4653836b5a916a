# SPDX-License-Identifier: Apache-2.0
"""Derive facts about weights in published formats."""

from __future__ import annotations

__all__ = ["fitting_sizes", "group_size"]


def fitting_sizes(extent: int, groups: int) -> range:
    """Return the group sizes that divide an extent into a number of groups.

    The last group may be short. One group has the size of the extent.
    """
    if groups <= 1:
        return range(max(1, extent), extent + groups)
    return range(-(-extent // groups), -(-extent // (groups - 1)))


def group_size(extent: int, groups: int) -> int | None:
    """Return the only fitting size, or else the only fitting power of two.

    `None` means that the numbers leave several sizes or none.
    """
    sizes = fitting_sizes(extent, groups)
    if len(sizes) == 1:
        return sizes[0]
    powers = [one for one in sizes if one.bit_count() == 1]
    return powers[0] if len(powers) == 1 else None
