"""Primitive functions that are called in place, as their bodies."""

from __future__ import annotations

from typing import Any

from heddle.ir.attrs import attrs_of
from heddle.ir.expr import Call, Function
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.relay.builders import replace_vars
from heddle.relay.transform.compiler_regions import COMPILER
from heddle.relay.transform.copying import with_own_bindings
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
    if not made.attrs.get(PRIMITIVE):
        return made
    return replace(made, attrs=attrs_of({key: v for key, v in made.attrs.items() if key != PRIMITIVE}))


def _in_place(old: Any, new: Any) -> Any:
    """A call's body where it calls a function that is one kernel."""
    func = new.op if isinstance(new, Call) else None
    if not isinstance(func, Function) or not func.attrs.get(PRIMITIVE):
        return new
    own = with_own_bindings(func)
    return replace_vars(own.body, dict(zip(own.params, new.args, strict=True)))
