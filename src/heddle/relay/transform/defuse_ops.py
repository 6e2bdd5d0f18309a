"""Primitive functions that are called in place, as their bodies."""

from __future__ import annotations

from typing import Any

from heddle.ir.expr import Call, Function
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.relay.transform.compiler_regions import COMPILER
from heddle.relay.transform.copying import applied
from heddle.relay.transform.rewriting import RewritePass, map_typed, rewrite_nodes
from heddle.relay.transform.to_a_normal_form import PRIMITIVE
from heddle.support.frozen import frozen


@frozen
class DefuseOps(RewritePass):
    """Undo fusion.

        (fn (%p0: float32, Primitive=1) { exp(tanh(%p0)) })(%x)

    becomes

        exp(tanh(%x))

    Functions of another compiler stay.
    """

    opt_level = 3

    def rewrite(self, old: Any, new: Any) -> Any:
        func = new.op if isinstance(new, Call) else None
        return new if isinstance(func, Function) and COMPILER in func.attrs else _in_place(old, new)


def without_kernels(mod: IRModule) -> IRModule:
    """The module before fusion, with types: no function is marked as one kernel, and those that are called in
    place, of other compilers too, are written there."""
    return map_typed(mod, lambda func, _: _unmarked(func))


def _unmarked(func: Function) -> Function:
    made = rewrite_nodes(func, _in_place)
    is_kernel = bool(made.attrs.get(PRIMITIVE))
    return replace(made, attrs=made.attrs.without(PRIMITIVE)) if is_kernel else made


def _in_place(old: Any, new: Any) -> Any:
    """A call's body where it calls a function that is one kernel."""
    func = new.op if isinstance(new, Call) else None
    if not isinstance(func, Function) or not func.attrs.get(PRIMITIVE):
        return new
    return applied(func, new.args)
