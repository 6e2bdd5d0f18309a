"""Numbers of expressions as their places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.ir.expr import Expr, Function, Var, is_relay
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.transform import Pass, PassContext
from heddle.ir.visitor import rebuild
from heddle.relay.placement import operands, post_order
from heddle.support.frozen import frozen
from heddle.support.span import TextSpan


@frozen
class CapturePostDfsIndexInSpans(Pass):
    """Say of each expression of `main` its number, operands before what uses them, and that of its dominator:
    the first expression behind it that all ways from it to the result go through.

        tanh(%x)

    has the operator at `index:0:2`, the variable at `index:1:2`, and itself at `index:2:3`.
    """

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        main: Any = mod.get("main")
        if not is_relay(main):
            return mod
        return mod.with_functions({**mod.functions, mod.get_global_var("main"): _numbered(main)})


def _numbered(func: Function) -> Function:
    nodes = post_order(func)
    places = {
        id(node): TextSpan(f"index:{number}:{dominator}")
        for number, (node, dominator) in enumerate(zip(nodes, dominators(nodes), strict=True))
    }
    made: dict[Var, Var] = {}

    def change(old: Any, new: Any) -> Any:
        if id(old) not in places or not isinstance(old, Expr):
            return new
        if isinstance(old, Var):
            return made.setdefault(old, replace(old, span=places[id(old)]))
        return replace(new, span=places[id(old)])

    found: Function = rebuild(func, change)
    return found


def dominators(nodes: Sequence[Any]) -> list[int]:
    """For each of the expressions, operands before what uses them, the number of its dominator; the last one
    is its own."""
    number = {id(node): k for k, node in enumerate(nodes)}
    found = [-1] * (len(nodes) - 1) + [len(nodes) - 1]
    for user in reversed(range(len(nodes))):  # all users of a node come before it
        for child in operands(nodes[user]):
            k, other = number[id(child)], user
            while found[k] not in (-1, other):  # the nearest one that dominates both
                if found[k] < other:
                    found[k] = found[found[k]]
                else:
                    other = found[other]
            found[k] = other
    return found
