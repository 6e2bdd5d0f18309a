"""Calls of loop functions in graphs: what is called, and with which scalars."""

from __future__ import annotations

from heddle.graph.rewriter import is_call
from heddle.graph.types import ShapeExpr
from heddle.ir.expr import Call, Expr, GlobalVar
from heddle.ir.node import replace
from heddle.prim.nodes import PrimExpr

_CALLS = ("relax.call_tir", "relax.call_tir_inplace")


def callee_and_scalars(value: Expr) -> tuple[GlobalVar, tuple[PrimExpr, ...]] | None:
    """The loop function of the module that an expression calls, and the scalars that it gives it one by one.
    None for any other expression, and where the scalars are one variable."""
    if not isinstance(value, Call) or not any(is_call(value, name) for name in _CALLS):
        return None
    callee, scalars = value.args[0], value.args[2] if len(value.args) > 2 else ShapeExpr(())
    if not isinstance(callee, GlobalVar) or not isinstance(scalars, ShapeExpr):
        return None
    return callee, scalars.values


def with_callee(call: Call, callee: GlobalVar, scalars: tuple[PrimExpr, ...]) -> Call:
    """The call with another function and other scalars."""
    given = (ShapeExpr(scalars),) if scalars else ()
    changed: Call = replace(call, args=(callee, call.args[1], *given))
    return changed
