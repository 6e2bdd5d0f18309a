"""What becomes of the functions that other compilers take: they are called from outside, or inside again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.ir.attrs import attrs_of
from heddle.ir.expr import Call, Function, GlobalVar, is_relay
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.transform import Pass, PassContext
from heddle.relay.transform.compiler_regions import COMPILER, GLOBAL_SYMBOL
from heddle.relay.transform.copying import applied
from heddle.relay.transform.merge_composite import COMPOSITE
from heddle.relay.transform.rewriting import map_relay, rewrite_nodes
from heddle.relay.typed import infer_module
from heddle.support.frozen import frozen

EXTERN = "Extern"
"""The attribute of a function whose code is elsewhere."""


def _is_for(func: Any, compiler_filter: str) -> bool:
    """Whether a function is one that a compiler takes; any, where the filter is empty."""
    compiler = func.attrs.get(COMPILER) if isinstance(func, Function) else None
    return compiler is not None and compiler_filter in ("", compiler)


@frozen(slots=False)
class MarkCompilerFunctionsAsExtern(Pass):
    """Give the functions that a compiler took the attribute `Extern` in the place of `Compiler`.

        def @f(%x: float32, Compiler="d", global_symbol="f") { tanh(%x) }

    becomes

        def @f(%x: float32, Extern=1, global_symbol="f") { tanh(%x) }

    An empty filter is every compiler.
    """

    compiler_filter: str = ""

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        made = {
            var: _as_extern(func) if _is_for(func, self.compiler_filter) else func
            for var, func in mod.functions.items()
        }
        return mod if made == dict(mod.functions) else mod.with_functions(made)


def _as_extern(func: Any) -> Any:
    kept = {key: func.attrs[key] for key in (GLOBAL_SYMBOL,) if key in func.attrs}
    return replace(func, attrs=attrs_of({**kept, EXTERN: 1}))


@frozen(slots=False)
class InlineCompilerFunctionsBoundTo(Pass):
    """Write the functions of some names that a compiler was to take where they are called, and the functions
    with the attribute `Composite` in them, and leave them out.

        def @main(%x: float32) { @f(%x) }
        def @f(%y: float32, Compiler="d") { tanh(%y) }

    becomes, with `global_vars=[f]`,

        def @main(%x: float32) { tanh(%x) }
    """

    global_vars: Sequence[GlobalVar | str]

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        asked = {getattr(var, "name_hint", var) for var in self.global_vars}
        names = {
            var.name_hint for var, f in mod.functions.items() if var.name_hint in asked and _is_for(f, "")
        }
        if not names:
            return mod
        bodies = {name: rewrite_nodes(mod[name], _inline_composite) for name in names}

        def inline(old: Any, new: Any) -> Any:
            if isinstance(new, Call) and isinstance(new.op, GlobalVar) and new.op.name_hint in names:
                return applied(bodies[new.op.name_hint], new.args)
            return new

        rest = {var: func for var, func in mod.functions.items() if var.name_hint not in names}
        return map_relay(mod.with_functions(rest), lambda func: rewrite_nodes(func, inline))


def _inline_composite(old: Any, new: Any) -> Any:
    func = new.op if isinstance(new, Call) else None
    if isinstance(func, Function) and COMPOSITE in func.attrs:
        return applied(func, new.args)
    return new


@frozen(slots=False)
class OutlineCompilerFunctionsWithExistingGlobalSymbols(Pass):
    """Make functions of the module of those that are called in place and say for which compiler and by which
    name they are.

        def @main(%x: float32) { (fn (%y: float32, Compiler="d", global_symbol="f") { tanh(%y) })(%x) }

    becomes

        def @main(%x: float32) { @f(%x) }
        def @f(%y: float32, Compiler="d", global_symbol="f") { tanh(%y) }

    Functions of one name that is there already are called by it. An empty filter is every compiler.
    """

    compiler_filter: str = ""

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        found: dict[str, tuple[GlobalVar, Function]] = {}

        def outline(old: Any, new: Any) -> Any:
            func: Any = new.op if isinstance(new, Call) else None
            if not _is_for(func, self.compiler_filter) or GLOBAL_SYMBOL not in func.attrs:
                return new
            name = str(func.attrs[GLOBAL_SYMBOL])
            var, _ = found.setdefault(name, (GlobalVar(name), func))
            return replace(new, op=var)

        made = {
            var: rewrite_nodes(func, outline) if is_relay(func) else func
            for var, func in mod.functions.items()
        }
        made |= {var: func for name, (var, func) in found.items() if name not in mod}
        return infer_module(mod.with_functions(made)) if found else mod
