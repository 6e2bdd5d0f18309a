"""The attribute `num_input`: a function's first parameters are inputs of each call, the rest are the model's.

What the model's parameters hold is the same in every call, so passes may compute with it ahead.
"""

from __future__ import annotations

from heddle.ir.expr import Function

NUM_INPUT = "num_input"


def num_inputs(func: Function) -> int:
    """How many of a function's parameters are inputs: all, where the attribute is missing."""
    stated = func.attrs.get(NUM_INPUT)
    return len(func.params) if stated is None else min(int(stated), len(func.params))
