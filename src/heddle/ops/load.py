"""Declaring every operator family, in a fixed order."""

from __future__ import annotations

from functools import cache

from heddle.ir.op import OP_RECORDS
from heddle.ops import (
    contraction,
    create,
    dynamic,
    elementwise,
    image,
    indexing,
    linear,
    manipulate,
    pointwise,
    quantization,
    reduce,
    sampling,
    slicing,
    sorting,
)
from heddle.ops.nn import activation, attention, conv, loss, norm, pad, pool
from heddle.relax import core_ops

FAMILIES = (
    elementwise,
    pointwise,
    linear,
    manipulate,
    slicing,
    indexing,
    create,
    reduce,
    activation,
    norm,
    conv,
    pool,
    pad,
    image,
    sorting,
    sampling,
    dynamic,
    contraction,
    attention,
    loss,
    quantization,
)


@cache
def load() -> None:
    """Put all operators into the table; more calls do nothing."""
    OP_RECORDS.fill_from(None)  # look-ups from here on must not ask for what is being declared
    core_ops.declare()
    for family in FAMILIES:
        family.declare()
