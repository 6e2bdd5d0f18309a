"""The attribute `num_input`: the first parameters of a function are inputs of each call, the rest are model
parameters.

Model parameters are the same in every call, so passes may evaluate computations on them in advance.
"""

from __future__ import annotations

from heddle.ir.expr import Function

NUM_INPUT = "num_input"


def num_inputs(func: Function) -> int:
    """Return how many of a function's parameters are inputs; all of them, if there is no attribute."""
    stated = func.attrs.get(NUM_INPUT)
    return len(func.params) if stated is None else min(int(stated), len(func.params))
