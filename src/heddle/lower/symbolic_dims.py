"""Find the symbolic dimensions of a function, and remove them from its types."""

from __future__ import annotations

from collections import Counter
from typing import Any

from heddle.graph.infer import type_of
from heddle.graph.nodes import MatchCast, SeqExpr, VarBinding
from heddle.graph.type_relations import erase_vars, is_base_of, sizes_of_type, symbolic_vars
from heddle.graph.types import ShapeExpr
from heddle.ir.expr import Call, Expr, Function, If, Tuple, Var
from heddle.ir.node import replace
from heddle.ir.types import PrimType, TupleType, Type
from heddle.ir.visitor import Rewriter, walk
from heddle.prim.nodes import PrimExpr
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.substitute import free_vars


def symbolic_exprs(func: Function) -> list[PrimExpr]:
    """The symbolic expressions of a function that need a slot: dimensions in its types and values."""
    found: list[PrimExpr] = []
    for param in func.params:
        found.extend(dims_of_type(type_of(param)))
    for node in walk(func.body):
        if isinstance(node, MatchCast):
            found.extend(dims_of_type(node.ty))
        elif isinstance(node, ShapeExpr):
            found.extend(dim for dim in node.values if free_vars(dim))
        else:
            found.extend(part for part in _operands(node) if isinstance(part, PrimExpr) and free_vars(part))
    if func.ret_ty is not None and not is_base_of(func.ret_ty, type_of(func.body.body)):  # type: ignore[attr-defined]
        found.extend(dims_of_type(func.ret_ty))
    variables = list(dict.fromkeys(var for expr in found for var in free_vars(expr)))
    return [*variables, *(expr for expr in found if not isinstance(expr, PrimVar))]


def variables_read(body: Expr) -> frozenset[Var]:
    """The variables that stand somewhere beside their binding."""
    places = Counter(node for node in walk(body) if isinstance(node, Var))
    return frozenset(var for var, count in places.items() if count > 1)


def _operands(node: Any) -> tuple[Any, ...]:
    """The places of a node where a scalar may stand as a value."""
    if isinstance(node, Call) and not isinstance(node, PrimExpr):
        return node.args
    if isinstance(node, Tuple):
        return node.fields
    if isinstance(node, If):
        return (node.cond,)
    if isinstance(node, SeqExpr):
        return (node.body,)
    return (node.value,) if isinstance(node, VarBinding) else ()


def dims_of_type(ty: Type) -> list[PrimExpr]:
    """The dimensions of a type, and values of scalars, that have variables."""
    if isinstance(ty, TupleType):
        return [dim for item in ty.fields for dim in dims_of_type(item)]
    if isinstance(ty, PrimType):
        return [] if ty.value is None or not free_vars(ty.value) else [ty.value]
    dims = sizes_of_type(ty)
    return [dim for dim in dims or () if free_vars(dim)]


class _DimEraser(Rewriter):
    """Takes from types what they say of dimensions that nothing defines any more."""

    def __init__(self, gone: set[PrimVar]) -> None:
        self._gone = gone
        self._renamed: dict[Var, Var] = {}

    def visit_Type(self, node: Type) -> Type:
        return erase_vars(node, self._gone)

    def visit_Var(self, node: Var) -> Var:
        if node not in self._renamed:
            ty = None if node.ty is None else erase_vars(node.ty, self._gone)
            self._renamed[node] = node if ty is node.ty else replace(node, ty=ty)
        return self._renamed[node]

    def visit_Constant(self, node: Any) -> Any:
        return node


def without_matched_dims(lowered: Function, func: Function) -> Function:
    """The function without the names of dimensions that match_casts defined: they live in the heap now."""
    known = {var for param in func.params for var in symbolic_vars(type_of(param))}
    matched = {
        var for node in walk(func.body) if isinstance(node, MatchCast) for var in symbolic_vars(node.ty)
    } - known
    if not matched:
        return lowered
    ret_ty = lowered.ret_ty
    kept = ret_ty if ret_ty is None else erase_vars(ret_ty, matched)
    return replace(lowered, body=_DimEraser(matched).visit(lowered.body), ret_ty=kept)
