"""Bind parameters or symbolic dimensions of functions to known values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heddle.arith import Analyzer
from heddle.graph.codes import R0208
from heddle.graph.copying import Copier
from heddle.graph.infer import type_of
from heddle.graph.op_builder import const, graph_expr
from heddle.graph.type_relations import match_dims, symbolic_vars
from heddle.graph.types import dim
from heddle.ir.dialect import dialect_of
from heddle.ir.expr import Expr, Function, Var
from heddle.prim.nodes import PrimExpr
from heddle.prim.nodes import Var as PrimVar
from heddle.support.diagnostics import UsageError, did_you_mean


class BindingError(UsageError, ValueError):
    """A name or value that a function's parameters or dimensions cannot be bound to."""


def bind_params(func: Function, params: Mapping[Any, Any]) -> Function:
    """Return the function without the parameters whose values are given, by name or variable.

    Arrays and tensors become constants; their shapes bind symbolic dimensions everywhere.
    Raises: BindingError R0208 for an unknown parameter, or a value that does not match its type.
    """
    variables: dict[Var, Expr] = {}
    dims: dict[PrimVar, PrimExpr] = {}
    for key, value in params.items():
        param = _parameter(func, key)
        made = _bound_value(value)
        problem = match_dims(type_of(param), type_of(made), made, dims, Analyzer())
        if problem:
            raise BindingError(R0208, f"parameter {param.name_hint!r}: {problem}", span=func.span)
        variables[param] = made
    return _normal(Copier(variables, dims).visit(func)) if variables else func


def _bound_value(value: Any) -> Expr:
    if isinstance(value, Expr):
        return value
    return graph_expr(value) if isinstance(value, (tuple, list)) else const(value)


def _parameter(func: Function, key: Any) -> Var:
    for param in func.params:
        if param is key or (isinstance(key, str) and param.name_hint == key):
            return param
    names = [param.name_hint for param in func.params]
    shown = key if isinstance(key, str) else getattr(key, "name_hint", key)
    raise BindingError(
        R0208,
        f"the function has no parameter {shown!r}: it has {', '.join(names) or 'none'}",
        span=func.span,
        help=did_you_mean(str(shown), names),
    )


def bind_symbolic_vars(func: Function, values: Mapping[Any, Any]) -> Function:
    """Replace symbolic dimensions of a function, given by name or variable, by numbers or expressions.

    Raises: BindingError R0208 for a dimension that its parameters do not mention, or that is given twice.
    """
    known = symbolic_dims(func)
    dims: dict[PrimVar, PrimExpr] = {}
    for key, value in values.items():
        found = [var for var in known if var is key or (isinstance(key, str) and var.name == key)]
        if not found or found[0] in dims:
            names = [var.name for var in known]
            shown = key if isinstance(key, str) else getattr(key, "name", key)
            raise BindingError(
                R0208,
                f"the function has no dimension {shown!r} to bind: it has {', '.join(names) or 'none'}",
                span=func.span,
                help=did_you_mean(str(shown), names),
            )
        dims.update(dict.fromkeys(found, dim(value)))
    return _normal(Copier(dims=dims).visit(func)) if dims else func


def symbolic_dims(func: Function) -> tuple[PrimVar, ...]:
    """Return the symbolic dimensions that a function's parameters mention, each once."""
    return tuple(dict.fromkeys(var for param in func.params for var in symbolic_vars(type_of(param))))


def _normal(func: Function) -> Function:
    made: Function = dialect_of(func).normalize(func, None)
    return made
