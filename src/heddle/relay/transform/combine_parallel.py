"""Operators that read one tensor and differ in their weights, as one operator with all weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from typing import Any

from heddle.ir.expr import Function, Tuple
from heddle.ir.module import IRModule
from heddle.ir.pass_options import option
from heddle.relay.placement import post_order
from heddle.relay.transform.copying import with_nodes
from heddle.relay.transform.rewriting import TypedPass, call
from heddle.support.frozen import frozen


@frozen(slots=False)
class CombineParallel(TypedPass):
    """What the passes share: `min_num_branches` calls at least become one."""

    min_num_branches: int = option(3, at_least=1)
    opt_level = 4

    @abstractmethod
    def key(self, expr: Any) -> Hashable:
        """Calls of one key are combined; None for one that cannot be."""

    @abstractmethod
    def combined(self, calls: list[Any]) -> list[Any]:
        """What stands for each of the calls."""

    def change(self, func: Function, mod: IRModule) -> Function:
        groups: dict[Hashable, list[Any]] = {}
        for expr in post_order(func):
            key = self.key(expr)
            if key is not None:
                groups.setdefault((id(expr.args[0]), key), []).append(expr)
        made: dict[int, Any] = {}
        for calls in groups.values():
            if len(calls) >= max(self.min_num_branches, 2) and _independent(calls):
                made |= {id(old): new for old, new in zip(calls, self.combined(calls), strict=True)}
        return with_nodes(func, made) if made else func


def _independent(calls: list[Any]) -> bool:
    """Whether no call's weight depends on another call: a combined one would depend on itself. Weights that
    are bound inside cannot be joined outside, so they are parameters, constants, or made of such."""
    named = {id(each) for each in calls}
    return not any(id(node) in named for each in calls for arg in each.args[1:] for node in post_order(arg))


def slices(whole: Any, widths: list[int], axis: int, ndim: int) -> list[Any]:
    """The parts of a tensor of these widths along an axis."""
    found, start = [], 0
    for width in widths:
        end = start + width
        found.append(
            call("strided_slice", whole, begin=[start], end=[end], strides=[1], axes=[axis], slice_mode="end")
        )
        start = end
    return found


def joined(tensors: list[Any], axis: int) -> Any:
    """Tensors one after the other along an axis."""
    return call("concatenate", Tuple(tuple(tensors)), axis=axis)
