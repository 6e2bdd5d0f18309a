"""Select one of many values by an index, as concatenations of tensors do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from heddle.prim.nodes import PrimExpr
from heddle.prim.ops import if_then_else

_ASKED_IN_TURN = 32
"""Up to this many values are tested one after the other, which loop partitioning expects."""

Condition = Callable[[int], PrimExpr]


def choice(values: Sequence[PrimExpr], is_own: Condition, is_before: Condition) -> PrimExpr:
    """Return the value for the first k for which `is_own(k)` holds; if there is none, the last value.

    Many values are selected by binary search with `is_before(k)`, which says that the index is smaller than
    k. So the expression is not deeply nested, and each element needs few comparisons.
    """
    return _part(values, 0, is_own, is_before)


def _part(values: Sequence[PrimExpr], begin: int, is_own: Condition, is_before: Condition) -> PrimExpr:
    if len(values) > _ASKED_IN_TURN:
        middle = len(values) // 2
        low = _part(values[:middle], begin, is_own, is_before)
        high = _part(values[middle:], begin + middle, is_own, is_before)
        return if_then_else(is_before(begin + middle), low, high)
    value = values[-1]
    for k in reversed(range(len(values) - 1)):
        value = if_then_else(is_own(begin + k), values[k], value)
    return value
