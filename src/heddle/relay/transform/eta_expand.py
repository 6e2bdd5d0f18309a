"""Functions and constructors that are used as values, in functions of their own."""

from __future__ import annotations

from typing import Any, cast

from heddle.ir.expr import Call, Function, GlobalVar, Var
from heddle.ir.module import IRModule
from heddle.ir.node import map_children
from heddle.ir.type_data import Constructor
from heddle.ir.types import FuncType
from heddle.relay.nodes import PatternConstructor
from heddle.relay.placement import parts, post_order
from heddle.relay.transform.rewriting import TypedPass, rewrite_nodes
from heddle.relay.unify import with_own_variables
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
            if isinstance(new, PatternConstructor):
                return new
            callee = new.op if isinstance(new, Call) else None

            def of(child: Any) -> Any:
                return wrappers.get(child, child) if _is_name(child) and child is not callee else child

            return map_children(new, of)

        return rewrite_nodes(func, change)

    def _is_wanted(self, expr: Any) -> bool:
        if isinstance(expr, Constructor):
            return self.expand_constructor
        return isinstance(expr, GlobalVar) and self.expand_global_var


def _is_name(node: Any) -> bool:
    return isinstance(node, (GlobalVar, Constructor))


def type_of_callee(callee: Any, mod: IRModule) -> FuncType:
    """The type of a function of the module, or of a constructor."""
    if isinstance(callee, GlobalVar):
        func = mod[callee]
        return FuncType(tuple(param.ty for param in func.params), func.ret_ty, True, func.type_params)
    data = mod.type_definition(callee.belong_to)
    return FuncType(callee.inputs, data.header(*data.type_vars), True, data.type_vars)


def wrapper(callee: Any, mod: IRModule) -> Function:
    """A function that calls what it wraps."""
    # with variables of its own: the function may stand in what it wraps
    ty = cast(FuncType, with_own_variables(type_of_callee(callee, mod)))
    params = tuple(Var(f"eta{place}", each, dialect="relay") for place, each in enumerate(ty.arg_types))
    return Function(params, Call(callee, params), ty.ret, type_params=ty.type_params, dialect="relay")
