"""What computing an expression does beside giving a value."""

from __future__ import annotations

from typing import Any

from heddle.ir.expr import Call, Function
from heddle.ir.op import Op
from heddle.ir.type_data import Constructor
from heddle.relay.nodes import RefCreate, RefRead, RefWrite
from heddle.relay.placement import operands, post_order
from heddle.relay.transform.rewriting import is_pure_operator


def is_effect(expr: Any) -> bool:
    """Whether a node by itself touches a reference, or calls an operator with effects."""
    if isinstance(expr, (RefCreate, RefRead, RefWrite)):
        return True
    return isinstance(expr, Call) and isinstance(expr.op, Op) and not is_pure_operator(expr.op)


class Effects:
    """Whether expressions have effects when they are computed; each is looked at once. Calls of functions may
    have some, those of kernels apart; functions that are made have none."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, bool]] = {}
        """By identity, with the expression, which so lives as long."""

    def of(self, expr: Any) -> bool:
        """Whether computing an expression may have effects."""
        for node in post_order(expr, self._below):
            if id(node) not in self._known:
                self._known[id(node)] = (node, self._acts(node))
        return self._known[id(expr)][1]

    def _below(self, node: Any) -> list[Any]:
        return [] if isinstance(node, Function) or id(node) in self._known else operands(node)

    def _acts(self, node: Any) -> bool:
        if is_effect(node) or (isinstance(node, Call) and not is_known(node.op)):
            return True
        return any(self._known[id(child)][1] for child in self._below(node))


def has_effects(expr: Any) -> bool:
    """Whether computing an expression may have effects."""
    return Effects().of(expr)


def is_known(callee: Any) -> bool:
    """Whether a callee is an operator, a constructor or a kernel."""
    is_kernel = isinstance(callee, Function) and bool(callee.attrs.get("Primitive"))
    return is_kernel or isinstance(callee, (Op, Constructor))


def leads_to_effects(root: Any) -> bool:
    """Whether an expression has effects anywhere, inside of functions too."""
    return any(map(is_effect, post_order(root)))
