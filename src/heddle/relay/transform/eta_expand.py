"""Functions and constructors that are used as values, in functions of their own."""

from __future__ import annotations

from typing import Any

from heddle.ir.expr import Call, Function, GlobalVar, Var
from heddle.ir.module import IRModule
from heddle.ir.type_data import Constructor, TypeCall
from heddle.ir.types import FuncType
from heddle.relay.placement import parts, post_order
from heddle.relay.transform.rewriting import TypedPass, rewrite_nodes
from heddle.support.frozen import frozen


@frozen
class EtaExpand(TypedPass):
    """Wrap constructors (`expand_constructor`) and global functions (`expand_global_var`) used as values.

        @apply(@twice, %x)

    becomes

        @apply(fn (%x1: float32) -> float32 { @twice(%x1) }, %x)

    The functions are as polymorphic as what they wrap.
    """

    expand_constructor: bool = False
    expand_global_var: bool = False
    opt_level = 1

    def change(self, func: Function, mod: IRModule) -> Function:
        wrappers: dict[Any, Function] = {}
        for expr in post_order(func):
            for child, _ in parts(expr):
                is_callee = isinstance(expr, Call) and child is expr.op
                if not is_callee and self._is_wanted(child) and child not in wrappers:
                    wrappers[child] = wrapper(child, mod)
        if not wrappers:
            return func

        def change(old: Any, new: Any) -> Any:
            if isinstance(old, (GlobalVar, Constructor)) and old in wrappers:
                return wrappers[old]
            if isinstance(new, Call) and isinstance(old.op, (GlobalVar, Constructor)):
                return (
                    new if new.op is old.op else Call(old.op, new.args, new.attrs, new.ty_args, span=new.span)
                )
            return new

        return rewrite_nodes(func, change)

    def _is_wanted(self, expr: Any) -> bool:
        if isinstance(expr, Constructor):
            return self.expand_constructor
        return isinstance(expr, GlobalVar) and self.expand_global_var


def wrapper(callee: Any, mod: IRModule) -> Function:
    """A function that calls what it wraps."""
    if isinstance(callee, GlobalVar):
        func = mod[callee]
        ty = FuncType(tuple(p.ty for p in func.params), func.ret_ty, True, func.type_params)
    else:
        definition = mod.type_definitions[callee.belong_to]
        result = TypeCall(definition.header, tuple(definition.type_vars))
        ty = FuncType(tuple(callee.inputs), result, True, tuple(definition.type_vars))
    params = tuple(Var(f"eta{place}", each, dialect="relay") for place, each in enumerate(ty.params or ()))
    return Function(params, Call(callee, params), ty.ret, type_params=ty.type_params, dialect="relay")
