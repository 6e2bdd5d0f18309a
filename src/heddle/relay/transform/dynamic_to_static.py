"""Operators whose sizes are constants after all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.ir.call_graph import names_in
from heddle.ir.expr import Function
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.relay.transform.fold_constant import FoldConstant
from heddle.relay.transform.rewriting import TypedPass, array_of, call, is_call, rewrite_nodes
from heddle.relay.typed import infer_expr
from heddle.support.frozen import frozen

_ROUNDS = 100


@frozen
class DynamicToStatic(TypedPass):
    """Give operators of `dyn` their sizes as attributes where these are known.

        dyn.reshape(%x, meta[relay.Constant][0])

    becomes

        reshape(%x, newshape=[2, 3])

    Sizes that follow from others are folded in between. The result's type is found anew.
    """

    opt_level = 2

    def change(self, func: Function, mod: IRModule) -> Function:
        for _ in range(_ROUNDS):
            made = rewrite_nodes(FoldConstant().change(func, mod), _rewrite)
            if made is func:
                return func
            func = infer_expr(made if names_in(made) else replace(made, ret_ty=None), mod)
        return func


def _rewrite(old: Any, new: Any) -> Any:
    rule = _RULES.get(new.op.name) if is_call(new) else None
    if rule is None:
        return new
    known = [array_of(arg) for arg in new.args[1:]]
    return new if any(value is None for value in known) else rule(new, *(_numbers(each) for each in known))


def _numbers(value: Any) -> Any:
    return [int(each) for each in value.reshape(-1)] if value.dtype.kind in "iu" else value


_Rule = Callable[..., Any]
_RULES: dict[str, _Rule] = {
    "dyn.reshape": lambda expr, shape: call(
        "reshape", expr.args[0], newshape=shape, allowzero=expr.attrs.allowzero
    ),
    "dyn.broadcast_to": lambda expr, shape: call("broadcast_to", expr.args[0], shape=shape),
    "dyn.full": lambda expr, shape: call("full", expr.args[0], shape=shape, dtype=expr.attrs.dtype),
    "dyn.strided_slice": lambda expr, begin, end, strides: call(
        "strided_slice", expr.args[0], begin=begin, end=end, strides=strides
    ),
}
