"""RemoveUnusedParameters: remove unused parameters of private functions.

    cls.f(x, y)                         cls.f(x)
    def f(a, b):              →         def f(a):
        return R.exp(a)                     return R.exp(a)

If only a removed parameter defines a symbolic dimension, the dimension is passed as a shape instead.
"""

from __future__ import annotations

from heddle.arith import Analyzer
from heddle.graph.infer import type_of
from heddle.graph.rewriter import BindingRewriter
from heddle.graph.type_relations import definable_vars, match_dims
from heddle.graph.types import ShapeExpr, ShapeType
from heddle.ir.expr import Call, Expr, Function, GlobalVar, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.transform import Pass, PassContext
from heddle.ir.types import PrimType
from heddle.ir.visitor import walk_distinct
from heddle.prim.nodes import PrimExpr
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.substitute import free_vars, substitute
from heddle.relax.private_functions import CallRewrite, changeable_functions, with_new_signatures


class RemoveUnusedParameters(Pass):
    """Requires the normal form."""

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        functions: dict[GlobalVar, Function] = {}
        rules: dict[GlobalVar, CallRewrite] = {}
        for var, func in changeable_functions(mod).items():
            kept = _kept(func)
            if len(kept) < len(func.params):
                functions[var], rules[var] = _reduced(func, kept)
        return with_new_signatures(mod, functions, rules)


def _kept(func: Function) -> list[int]:
    """The parameters that are used, as values or, of shapes and scalars, for the dimensions they give."""
    used: set[object] = {node for node in walk_distinct(func.body) if isinstance(node, Var)}
    kept = [index for index, param in enumerate(func.params) if param in used]
    given = {dim for index in kept for dim in definable_vars(type_of(func.params[index]))}
    types = (func.ret_ty,) if func.ret_ty is not None else ()
    needed = set(free_vars(func.body, *types)) - given
    for index, param in enumerate(func.params):
        gives = set(definable_vars(type_of(param))) & needed
        if index not in kept and gives and isinstance(type_of(param), (ShapeType, PrimType)):
            kept.append(index)
            needed -= gives
    return sorted(kept)


def _reduced(func: Function, kept: list[int]) -> tuple[Function, CallRewrite]:
    params = [func.params[index] for index in kept]
    given = {dim for param in params for dim in definable_vars(type_of(param))}
    lost = {dim for param in func.params for dim in definable_vars(type_of(param))} - given
    types = (func.ret_ty,) if func.ret_ty is not None else ()
    needed: list[PrimVar] = [dim for dim in dict.fromkeys(free_vars(func.body, *types)) if dim in lost]
    extra = [Var("dims", ShapeType(tuple(needed)))] if needed else []
    old = func.params

    def call_site(rewriter: BindingRewriter, call: Call) -> Expr:
        dims: dict[PrimVar, PrimExpr] = {}
        for param, arg in zip(old, call.args, strict=True):
            match_dims(type_of(param), type_of(arg), arg, dims, Analyzer())
        args = [call.args[index] for index in kept]
        if needed:
            args.append(ShapeExpr(tuple(substitute(dim, dims) for dim in needed)))
        return replace(call, op=replace(call.op, ty=None), args=tuple(args), ty=None)

    return replace(func, params=(*params, *extra), ty=None), call_site
