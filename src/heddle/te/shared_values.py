"""Values that an expression uses again and again become variables.

    y[i] = g * g with g = h * h, h = x[i] * x[i]    →    h: x[i] * x[i];  g: h * h;  y[i] = g * g

An expression in Python may use one part many times, and parts of it many times in turn: written out, it grows
by a power. Only large expressions change, and only parts that are computed in any case: what one branch of a
condition computes may not be computed outside of it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from heddle.ir.node import Node, children
from heddle.ir.visitor import post_order_visit, rebuild, walk_distinct
from heddle.prim.nodes import And, Call, Or, PrimExpr, Var
from heddle.tir.nodes import Bind

MOST_NODES = 1 << 10
"""Of an expression that is left as it is, each part counted as often as it is used."""


def with_shared_values(expr: PrimExpr) -> tuple[tuple[Bind, ...], PrimExpr]:
    """The variables to bind, in order, and the expression that uses them."""
    if _written_out(expr) <= MOST_NODES:
        return (), expr
    shared = _used_again(expr)
    binds: list[Bind] = []

    def change(old: Any, new: Any) -> Any:
        if id(old) not in shared:
            return new
        var = Var(f"part{len(binds)}", old.dtype)
        binds.append(Bind(var, new))
        return var

    made = rebuild(expr, change)
    return tuple(binds), made


def _written_out(expr: PrimExpr) -> int:
    """How many nodes an expression has where nothing is shared."""
    sizes: dict[int, int] = {}

    def note(node: Node) -> None:
        sizes[id(node)] = 1 + sum(sizes[id(child)] for child in children(node))

    post_order_visit(expr, note)
    return sizes[id(expr)]


def _used_again(expr: PrimExpr) -> set[int]:
    """The operations that are computed in any case, and used more than once, wherever."""
    uses = Counter(id(child) for node in walk_distinct(expr) for child in children(node))
    always, pending = {id(expr)}, [expr]
    found: set[int] = set()
    while pending:
        for child in _always_computed(pending.pop()):
            if id(child) in always:
                continue
            always.add(id(child))
            pending.append(child)
            if uses[id(child)] > 1 and not child.is_leaf:
                found.add(id(child))
    return found


def _always_computed(node: PrimExpr) -> list[PrimExpr]:
    """The operands of a node, without those that a condition decides about."""
    below: list[Any] = list(children(node))
    if isinstance(node, Call) and node.op.name == "tir.if_then_else":
        below = [node.args[0]]
    elif isinstance(node, (And, Or)):
        below = [node.a]
    return [child for child in below if isinstance(child, PrimExpr)]
