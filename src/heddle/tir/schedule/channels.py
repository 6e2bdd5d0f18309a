"""Channels: how many of an image lie side by side, and what blocks say of those that they sum over."""

from __future__ import annotations

from typing import Any

from heddle.prim.ops import minimum

GROUPS = ("group_lanes", "group_outs", "group_ins", "group_last")
"""Annotations of a block whose vectors of output channels read the input channels of all the groups that they
meet: lanes, channels out of a group, channels into one, the last input channel where a vector may begin."""

SUMMED_CHANNELS = "summed_channels"
"""Annotation of a block that sums over whole blocks of channels: how many of them are no filling. Weights of
the others are zero."""


def group_start(groups: tuple[int, ...], vector: Any, least: Any = minimum) -> Any:
    """The first input channel that a vector of output channels reads."""
    lanes, outs, ins, last = groups
    return least(vector * lanes // outs * ins, last)


def group_end(groups: tuple[int, ...], vector: Any) -> Any:
    """The input channel after the last group that a vector meets."""
    lanes, outs, ins, _ = groups
    return ((vector * lanes + lanes - 1) // outs + 1) * ins


MOST_FILL = 1 / 3
"""The share of an image's channels that may be filling for the sake of whole vectors."""
DOT_PRODUCT_BLOCK = 4
"""The fewest channels that lie side by side in images of small integers: one dot product of bytes, or two of
pairs."""


def channel_block(channels: int, lanes: int, *, is_summed_by_dots: bool = False) -> int | None:
    """How many channels of an image lie side by side: the lanes of a vector, or half of them; None where
    neither divides them or could be filled up. Fewer vectors are better than less filling. Few channels of an
    image that dot products read (`is_summed_by_dots`) fill at least one of those."""
    sizes = [size for size in (lanes, lanes // 2) if size > 1 and channels > 1]
    if is_summed_by_dots:
        sizes.append(DOT_PRODUCT_BLOCK)
    return next((size for size in sizes if _is_filled_well(channels, size)), None)


def fills_dot_products(channels: int) -> bool:
    """Whether a convolution over so many channels is worth dot products of small integers."""
    return _is_filled_well(channels, DOT_PRODUCT_BLOCK)


def _is_filled_well(channels: int, block: int) -> bool:
    return -channels % block <= channels * MOST_FILL
