"""Values that are computed twice, once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from heddle.ir.expr import Call, Constant, Function, TupleGetItem
from heddle.ir.module import IRModule
from heddle.ir.structural import structural_equal, structural_hash
from heddle.relay.transform.rewriting import TypedPass, is_pure_operator, rewrite_nodes
from heddle.support.frozen import frozen


@frozen
class EliminateCommonSubexpr(TypedPass):
    """Share calls of one operator with the same attributes and arguments, and projections of one tuple.

        add(tanh(%x), tanh(%x))

    becomes

        %0 = tanh(%x);
        add(%0, %0)

    Calls with effects stay, and those for which `fskip(call)` is true.
    """

    fskip: Callable[[Any], bool] | None = None
    opt_level = 3

    def change(self, func: Function, mod: IRModule) -> Function:
        known: dict[Hashable, list[Any]] = {}
        kept: list[Any] = []

        def share(old: Any, new: Any) -> Any:
            key = self._key(new)
            if key is None:
                return new
            kept.append(new)  # so that no identity is given twice
            alike = known.setdefault(key, [])
            for other in alike:
                if _is_same(other, new):
                    return other
            alike.append(new)
            return new

        return rewrite_nodes(func, share)

    def _key(self, expr: Any) -> Hashable:
        if isinstance(expr, TupleGetItem):
            return "item", id(expr.tuple_value), expr.index
        if not isinstance(expr, Call) or not is_pure_operator(expr.op):
            return None
        if self.fskip is not None and self.fskip(expr):
            return None
        return getattr(expr.op, "name", ""), structural_hash(expr.attrs), tuple(map(_identity, expr.args))


def _identity(arg: Any) -> Hashable:
    return ("constant", structural_hash(arg)) if isinstance(arg, Constant) else id(arg)


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, TupleGetItem):
        return True
    alike = all(
        a is b or (isinstance(a, Constant) and isinstance(b, Constant) and structural_equal(a, b))
        for a, b in zip(one.args, other.args, strict=True)
    )
    return alike and structural_equal(one.attrs, other.attrs)
