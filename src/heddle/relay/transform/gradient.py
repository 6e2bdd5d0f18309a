"""Gradients of functions: `relay.transform.gradient`."""

from __future__ import annotations

from typing import Any

from heddle.ir.expr import Function, GlobalVar
from heddle.ir.module import IRModule
from heddle.relay.codes import Q0501
from heddle.relay.transform.first_order_gradient import first_order
from heddle.relay.transform.higher_order_gradient import higher_order
from heddle.relay.transform.to_a_normal_form import ToANormalFormExpr
from heddle.relay.typed import infer_expr
from heddle.support.diagnostics import UsageError

_MODES = ("first_order", "higher_order")


def gradient(expr: Any, mod: IRModule | None = None, mode: str = "higher_order") -> Any:
    """The gradient of a function.

        fn (%x: float32) { %x * %x }

    becomes

        fn (%x: float32) { (%x * %x, (%x + %x,)) }

    Its result is that of the function, and for each parameter the gradient of the sum of all floats in the
    result. Integers get zeros.

    `mode` "first_order" takes functions of operators alone and gives one; "higher_order" also control flow,
    closures, recursion, data types and references. Functions of `mod` that the expression calls get a
    gradient beside them in `mod`.

    Raises: UsageError Q0501 for another mode and for what has no gradient; IRTypeError R0210 for operators
    without one, Q0307 for variables that are not bound ("higher_order").
    """
    if mode not in _MODES:
        raise UsageError(Q0501, f"mode must be one of {', '.join(_MODES)}, got {mode!r}")
    module = mod if mod is not None else IRModule()
    if isinstance(expr, GlobalVar):
        expr = module[expr]
    typed = infer_expr(expr, module)
    if not isinstance(typed, Function):
        raise UsageError(Q0501, f"expected a function, got {type(expr).__name__}", span=expr.span)
    if typed.type_params:
        hint = "call it from a function whose parameters have types"
        raise UsageError(Q0501, "the function is generic", span=typed.span, help=hint)
    if mode == "first_order":
        return first_order(typed, module)
    return higher_order(infer_expr(ToANormalFormExpr(typed), module, is_closed=True), module)
