"""Bind subexpressions that an expression uses several times to variables.

    y[i] = g * g with g = h * h, h = x[i] * x[i]    →    h: x[i] * x[i];  g: h * h;  y[i] = g * g

A Python expression may use one object many times, and nested uses multiply: expanded to a tree, the
expression grows exponentially. Only large expressions are changed, and only subexpressions that are always
evaluated: what one branch of a condition computes must not be computed outside of it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from heddle.ir.node import Node, children
from heddle.ir.visitor import post_order_visit, rebuild, walk_distinct
from heddle.prim.nodes import And, Call, Or, PrimExpr, Var
from heddle.tir.nodes import Bind

MOST_NODES = 1 << 10
"""The size up to which an expression is left unchanged, counted as a tree."""


def with_shared_values(expr: PrimExpr) -> tuple[tuple[Bind, ...], PrimExpr]:
    """Return the variables to bind, in order, and the expression that uses them."""
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
    """Return the number of nodes of an expression as a tree, that is, without sharing."""
    sizes: dict[int, int] = {}

    def note(node: Node) -> None:
        sizes[id(node)] = 1 + sum(sizes[id(child)] for child in children(node))

    post_order_visit(expr, note)
    return sizes[id(expr)]


def _used_again(expr: PrimExpr) -> set[int]:
    """Return the ids of the operations that are always evaluated and used more than once."""
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
    """Return the operands of a node that are always evaluated, without those behind a condition."""
    below: list[Any] = list(children(node))
    if isinstance(node, Call) and node.op.name == "tir.if_then_else":
        below = [node.args[0]]
    elif isinstance(node, (And, Or)):
        below = [node.a]
    return [child for child in below if isinstance(child, PrimExpr)]
