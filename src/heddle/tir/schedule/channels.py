"""What blocks say of the channels that they sum over: notes of layout passes for schedule rules."""

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
