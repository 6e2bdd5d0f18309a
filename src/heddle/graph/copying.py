"""Copies of graph functions: with variables of their own, and with some variables replaced.

A function may stand twice in a module only as a copy, since a variable is bound once. `Copier` makes the
copy; passes that put a function's body in another place, or know some of its dimensions or parameters, give
it what to replace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heddle.graph.nodes import MatchCast, VarBinding
from heddle.graph.type_relations import symbolic_vars
from heddle.ir.expr import Expr, Function, Var
from heddle.ir.node import replace
from heddle.prim.nodes import PrimExpr
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.substitute import Substituter


class Copier(Substituter):
    """Copies what it visits: each definition gets a fresh variable, `variables` and `dims` are replaced.

    A symbolic dimension is defined by the first parameter or match_cast that mentions it.
    """

    def __init__(
        self, variables: Mapping[Var, Expr] | None = None, dims: Mapping[PrimVar, PrimExpr] | None = None
    ) -> None:
        self.variables: dict[Var, Expr] = dict(variables or {})
        self.dims: dict[PrimVar, PrimExpr] = dict(dims or {})
        super().__init__(self.dims)

    def visit_Var(self, node: Any) -> Any:
        return self.variables.get(node, node) if isinstance(node, Var) else super().visit_Var(node)

    def define(self, var: Var, is_dataflow: bool = False) -> Var:
        """The fresh variable for one that is defined here."""
        ty = None if var.ty is None else self.visit(var.ty)
        made = Var(var.name_hint, ty, is_dataflow, span=var.span)
        self.variables[var] = made
        return made

    def define_dims(self, *types: Any) -> None:
        """Fresh dimensions for those that types mention and nothing defined before."""
        for ty in types:
            for dim in symbolic_vars(ty) if ty is not None else ():
                if dim not in self.dims:
                    self.dims[dim] = replace(dim)

    def visit_Function(self, node: Function) -> Function:
        self.define_dims(*(param.ty for param in node.params))
        params = tuple(self.define(param) for param in node.params if param not in self.variables)
        ret = None if node.ret_ty is None else self.visit(node.ret_ty)
        same = len(params) == len(node.params)
        ty = self.visit(node.ty) if node.ty is not None and same else None
        return replace(node, params=params, body=self.visit(node.body), ret_ty=ret, ty=ty)

    def visit_VarBinding(self, node: VarBinding) -> VarBinding:
        if isinstance(node.value, Function):  # which may call itself
            var = self.define(node.var, node.var.is_dataflow)
            return replace(node, var=var, value=self.visit(node.value))
        value = self.visit(node.value)
        return replace(node, var=self.define(node.var, node.var.is_dataflow), value=value)

    def visit_MatchCast(self, node: MatchCast) -> MatchCast:
        value = self.visit(node.value)
        self.define_dims(node.ty)
        var = self.define(node.var, node.var.is_dataflow)
        return replace(node, var=var, value=value, ty=self.visit(node.ty))


def copy_with_new_vars(func: Function) -> Function:
    """The same function over fresh variables and symbolic dimensions."""
    made: Function = Copier().visit(func)
    return made
