"""Replacing and collecting variables in scalar expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from heddle.ir.node import Node, children
from heddle.ir.visitor import Rewriter
from heddle.prim.nodes import Let, PrimExpr, Var
from heddle.prim.ops import fold_binary


class Substituter(Rewriter):
    """Replaces variables; binary nodes whose operands changed are folded again."""

    def __init__(self, mapping: Mapping[Var, PrimExpr] | Callable[[Var], PrimExpr | None]) -> None:
        self._lookup = mapping.get if isinstance(mapping, Mapping) else mapping

    def visit_Var(self, node: Var) -> Any:
        if not isinstance(node, Var):
            return node
        found = self._lookup(node)
        return node if found is None else found

    def visit_BinaryExpr(self, node: Any) -> Any:
        a, b = self.visit(node.a), self.visit(node.b)
        if a is node.a and b is node.b:
            return node
        folded = fold_binary(type(node), a, b)
        return folded if folded is not None else type(node)(a, b, span=node.span)


class SharedSubstituter(Substituter):
    """Rewrites each node once, for rules that do not depend on where it stands: one that is shared stays
    shared, and the work grows with the number of distinct nodes."""

    def __init__(self, mapping: Mapping[Var, PrimExpr] | Callable[[Var], PrimExpr | None]) -> None:
        super().__init__(mapping)
        self._made: dict[int, tuple[Any, Any]] = {}

    def visit(self, node: Any) -> Any:
        """What becomes of a node; of one that was visited before, what became of it then."""
        known = self._made.get(id(node))
        if known is None:
            known = self._made[id(node)] = node, super().visit(node)
        return known[1]


def substitute(expr: Any, mapping: Mapping[Var, PrimExpr] | Callable[[Var], PrimExpr | None]) -> Any:
    """`expr` with variables replaced; the same object where none occurs."""
    return SharedSubstituter(mapping).visit(expr)


def free_vars(*exprs: Node) -> tuple[Var, ...]:
    """The variables that occur free in scalar expressions, each once, in order of occurrence; a `Let` binds
    its own."""
    found: dict[Var, None] = {}
    bound: set[Var] = set()
    seen: set[int] = set()
    left = [*reversed(exprs)]
    while left:
        node = left.pop()
        if isinstance(node, Var):
            found[node] = None
        elif not node.is_leaf and id(node) not in seen:
            seen.add(id(node))
            if isinstance(node, Let):
                bound.add(node.var)
            below = children(node)
            below.reverse()
            left += below
    return tuple(var for var in found if var not in bound)
