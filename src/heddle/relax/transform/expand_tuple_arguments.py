"""ExpandTupleArguments: pass the items of tuples to private functions, instead of the tuples.

cls.f((a, b), c)                              cls.f(a, b, c)
def f(t: R.Tuple(...), z):            →       def f(t_0, t_1, z):
    return R.add(t[0], z)                         t = (t_0, t_1)
                                                  return R.add(t[0], z)
"""

from __future__ import annotations

from heddle.graph.block_builder import BlockBuilder
from heddle.graph.infer import type_of
from heddle.graph.nodes import BindingBlock, VarBinding, body_of
from heddle.graph.rewriter import BindingRewriter
from heddle.ir.expr import Call, Expr, Function, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.transform import Pass, PassContext
from heddle.ir.types import TupleType
from heddle.relax.private_functions import CallRewrite, changeable_functions, with_new_signatures


class ExpandTupleArguments(Pass):
    """Requires the normal form. Tuples in tuples are taken apart too."""

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        found = {
            var: func
            for var, func in changeable_functions(mod).items()
            if any(isinstance(type_of(param), TupleType) for param in func.params)
        }
        functions = {var: _expanded(func, mod) for var, func in found.items()}
        rules: dict[object, CallRewrite] = dict.fromkeys(found, _call)
        return with_new_signatures(mod, functions, rules)  # type: ignore[arg-type]


def _expanded(func: Function, mod: IRModule) -> Function:
    params: list[Var] = []
    bindings: list[VarBinding] = []

    def expand(param: Var) -> None:
        ty = type_of(param)
        if not isinstance(ty, TupleType):
            params.append(param)
            return
        items = tuple(Var(f"{param.name_hint}_{k}", field) for k, field in enumerate(ty.fields))
        for item in items:
            expand(item)
        bindings.append(VarBinding(param, Tuple(items)))

    for param in func.params:
        expand(param)
    body = body_of(func)
    body = replace(body, blocks=(BindingBlock(tuple(bindings)), *body.blocks))
    return BlockBuilder(mod).normalize_function(replace(func, params=tuple(params), body=body, ty=None))


def _call(_rewriter: BindingRewriter, call: Call) -> Expr:
    args: list[Expr] = []

    def expand(arg: Expr) -> None:
        ty = type_of(arg)
        if not isinstance(ty, TupleType):
            args.append(arg)
            return
        for index in range(len(ty.fields)):
            expand(
                arg.fields[index] if isinstance(arg, Tuple) else TupleGetItem(arg, index, ty.fields[index])
            )

    for arg in call.args:
        expand(arg)
    return replace(call, op=replace(call.op, ty=None), args=tuple(args), ty=None)
