"""Declaring every operator family, in a fixed order."""

from __future__ import annotations

from functools import cache

from heddle.ops import elementwise, linear, manipulate, pointwise, reduce
from heddle.ops.nn import activation, conv, norm, pool
from heddle.relax import core_ops

FAMILIES = (elementwise, pointwise, linear, manipulate, reduce, activation, norm, conv, pool)


@cache
def load() -> None:
    """Put all operators into the table; more calls do nothing."""
    core_ops.declare()
    for family in FAMILIES:
        family.declare()
