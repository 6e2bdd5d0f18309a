"""Declaring every operator family, in a fixed order."""

from __future__ import annotations

from heddle.ir.op import OP_RECORDS
from heddle.ops import (
    contraction,
    create,
    detection,
    dynamic,
    elementwise,
    grid,
    image,
    indexing,
    linalg,
    linear,
    manipulate,
    pointwise,
    quantization,
    random,
    reduce,
    sampling,
    scatters,
    signal,
    slicing,
    sorting,
)
from heddle.ops.gradients import load as gradients
from heddle.ops.nn import activation, attention, conv, loss, norm, pad, pool, pool_gradient, pool_index

FAMILIES = (
    elementwise,
    pointwise,
    linear,
    manipulate,
    slicing,
    indexing,
    scatters,
    create,
    reduce,
    activation,
    norm,
    conv,
    pool,
    pool_gradient,
    pool_index,
    pad,
    image,
    grid,
    detection,
    linalg,
    signal,
    sorting,
    sampling,
    random,
    dynamic,
    contraction,
    attention,
    loss,
    quantization,
)


def load() -> None:
    """Put all operators into the table; more calls do nothing."""
    OP_RECORDS.fill()


def declare() -> None:
    """What the table asks for when a name is missing."""
    for family in FAMILIES:
        family.declare()
    gradients.declare()
