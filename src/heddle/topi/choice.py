"""One of many values, by the place of an index: what joins of tensors read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from heddle.prim.nodes import PrimExpr
from heddle.prim.ops import if_then_else

_ASKED_IN_TURN = 32
"""So many are asked for one after another, as loops that are cut at each of the places expect."""

Condition = Callable[[int], PrimExpr]


def choice(values: Sequence[PrimExpr], is_own: Condition, is_before: Condition) -> PrimExpr:
    """The value k for which `is_own(k)` holds, where it holds for none before k; the last one otherwise.

    Very many are halved by `is_before(k)`, which holds where the value is one before k: no reader of the
    expression recurses deep, and an element costs few comparisons.
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
