"""Global functions in the place of their calls."""

from __future__ import annotations

from typing import Any

from heddle.ir.call_graph import is_recursive, names_in
from heddle.ir.expr import Call, Function, GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.transform import Pass, PassContext
from heddle.relay.builders import replace_vars
from heddle.relay.nodes import Let
from heddle.relay.transform.copying import Lines, lets, says_more, with_own_bindings
from heddle.relay.transform.effects import has_effects
from heddle.relay.transform.rewriting import map_relay, rewrite_nodes
from heddle.support.frozen import frozen

INLINE = "Inline"
"""The attribute of a function that is written where it is called."""


@frozen
class Inline(Pass):
    """Write functions with the attribute `Inline` where they are called, and leave them out.

        def @f(%x: float32, Inline=1) { tanh(%x) }
        def @main(%y: float32) { @f(%y) }

    becomes

        def @main(%y: float32) -> float32 { tanh(%y) }

    A function that leads back to itself stays; one of another compiler is called in place as a whole.
    """

    opt_level = 1

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        inlined = {
            var
            for var, func in mod.functions.items()
            if isinstance(func, Function) and func.attrs.get(INLINE) and not is_recursive(mod, var)
        }
        if not inlined:
            return mod
        made = map_relay(mod, lambda func: _Inliner(mod, inlined).function(func))
        gone = inlined - names_in(*made.functions.values())
        return made.with_functions({v: f for v, f in made.functions.items() if v not in gone})


class _Inliner:
    def __init__(self, mod: IRModule, names: set[GlobalVar]) -> None:
        self._mod, self._names = mod, names
        self._done: dict[GlobalVar, Function] = {}

    def function(self, func: Function) -> Function:
        return rewrite_nodes(func, self._rewrite)

    def _rewrite(self, old: Any, new: Any) -> Any:
        name: Any = new.op if isinstance(new, Call) else None
        if name not in self._names:
            return new
        if name not in self._done:
            self._done[name] = self.function(self._mod[name])
        func = with_own_bindings(self._done[name])
        if "Compiler" in func.attrs:
            return Call(func, new.args, span=new.span)
        types = dict(zip(func.type_params, new.ty_args, strict=False))
        held: Lines = []
        values: dict[Any, Any] = {}
        for param, before, arg in zip(func.params, old.args, new.args, strict=True):
            var = replace(param, ty=replace_vars(param.ty, types))
            is_held = says_more(Let(var, before, var)) or has_effects(arg)
            values[param] = var if is_held else arg
            held += [(var, arg)] if is_held else []
        return lets(held, replace_vars(func.body, values | types))
