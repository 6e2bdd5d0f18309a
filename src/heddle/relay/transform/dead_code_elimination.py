"""Lets whose values nobody uses, left out."""

from __future__ import annotations

from collections import Counter
from typing import Any

from heddle.ir.expr import Function, Var
from heddle.ir.module import IRModule
from heddle.relay.nodes import Let
from heddle.relay.placement import parts, post_order
from heddle.relay.transform.copying import says_more, with_values
from heddle.relay.transform.effects import Effects
from heddle.relay.transform.rewriting import TypedPass, rewrite_nodes
from heddle.support.frozen import frozen


@frozen
class DeadCodeElimination(TypedPass):
    """Leave out lets whose variable is not used, where their values have no effects.

        let %y = tanh(%x); let %z = exp(%y); %x

    becomes

        %x

    References, calls of unknown functions and operators with effects stay, unless `ignore_impurity`. With
    `inline_once`, a value that is used once stands where it is used, unless that is in another scope.
    """

    inline_once: bool = False
    ignore_impurity: bool = False
    opt_level = 1

    def change(self, func: Function, mod: IRModule) -> Function:
        while True:
            made = self._once(func)
            if made is func:
                return func
            func = made

    def _once(self, func: Function) -> Function:
        uses, effects = _Uses(func), Effects()
        values: dict[Var, Any] = {}
        movable = _used_outside_functions(func) if self.inline_once else set()

        def drop(old: Any, new: Any) -> Any:
            if not isinstance(new, Let):
                return new
            is_pure = self.ignore_impurity or not effects.of(new.value)
            if uses.of(old.var) <= 0 and is_pure:
                uses.leave_out(old)
                return new.body
            is_once = old.var in movable and uses.of(old.var) == 1 and not says_more(old)
            if is_once and not effects.of(new.value):
                values[old.var] = new.value
                return new.body
            return new

        made = rewrite_nodes(func, drop)
        return with_values(made, values) if values else made


class _Uses:
    """How often each expression is used. A function's own name inside of it does not count."""

    def __init__(self, root: Any) -> None:
        self._counts: Counter[int] = Counter()
        self._left_out: set[int] = set()
        order = post_order(root)
        for expr in order:
            self._counts.update(id(child) for child, _ in parts(expr))
        for expr in order:
            if isinstance(expr, Let) and isinstance(expr.value, Function) and self.of(expr.var):
                self._counts[id(expr.var)] -= sum(
                    child is expr.var for inner in post_order(expr.value) for child, _ in parts(inner)
                )

    def of(self, expr: Any) -> int:
        """How often an expression is still used."""
        return self._counts[id(expr)]

    def leave_out(self, let: Let) -> None:
        """A let's value goes, and what nothing else uses goes with it."""
        self._left_out.add(id(let))
        todo: list[Any] = [let.value]
        while todo:
            expr = todo.pop()
            self._counts[id(expr)] -= 1
            if self.of(expr) == 0 and not isinstance(expr, Var):
                is_gone = id(expr) in self._left_out
                todo += [expr.body] if is_gone else [child for child, _ in parts(expr)]


def _used_outside_functions(root: Any) -> set[Var]:
    """Variables that no function but the outermost one, branch or clause reads from outside of itself."""
    inside: set[Var] = set()
    for expr in post_order(root):
        for child, scope in parts(expr):
            if scope is not None and expr is not root:
                inside |= {node for node in post_order(child) if isinstance(node, Var)}
    return {expr.var for expr in post_order(root) if isinstance(expr, Let)} - inside
