"""The builtin that evaluates branch conditions."""

from __future__ import annotations

from typing import Any

from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import TrapTypeError, TrapValueError
from heddle.vm.builtins.checks import scalar_of
from heddle.vm.builtins.table import builtin
from heddle.vm.codes import V0405


@builtin("read_if_cond")
def read_if_cond(condition: Any) -> bool:
    """Return the truth value of a bool, an int, or a one-element bool or integer tensor.

    Raises: TrapTypeError V0405 for another value, TrapValueError V0405 for a tensor with no or several
    elements.
    """
    if isinstance(condition, int):
        return condition != 0
    if not isinstance(condition, Tensor):
        raise TrapTypeError(
            V0405, f"a condition must be a bool, an integer or a tensor, got {type(condition).__name__}"
        )
    if not (condition.dtype.is_int or condition.dtype.is_bool):
        raise TrapTypeError(V0405, f"a condition must have a bool or integer dtype, got {condition.dtype}")
    if condition.layout.num_elements != 1:
        raise TrapValueError(
            V0405, f"a condition must have one element, got a tensor of shape {tuple(condition.shape)}"
        )
    return bool(scalar_of(condition))
