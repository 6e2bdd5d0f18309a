"""Calls of graph operators on constants of one element, computed at once."""

from __future__ import annotations

import math

import numpy as np

from heddle.graph.op_builder import const
from heddle.ir.expr import Call, Constant
from heddle.ir.op_def import OpDef, Without

FOLDED = frozenset(
    {
        "add",
        "subtract",
        "multiply",
        "divide",
        "power",
        "sqrt",
        "negative",
        "floor",
        "ceil",
        "equal",
        "less",
        "greater",
        "logical_not",
        "logical_and",
        "logical_or",
        "where",
        "exp",
        "log",
        "maximum",
        "minimum",
    }
)


def folded(record: OpDef, call: Call) -> Constant | None:
    """The result of an elementwise operator of single constants: scales, bounds and epsilons."""
    if record.name not in FOLDED or isinstance(record.reference, Without) or not call.args:
        return None
    if not all(isinstance(arg, Constant) and math.prod(arg.data.shape) <= 1 for arg in call.args):
        return None
    with np.errstate(all="ignore"):
        result = record.reference(call.attrs, *(arg.data.numpy() for arg in call.args))  # type: ignore[attr-defined]
    return const(np.asarray(result))
