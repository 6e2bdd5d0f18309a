"""Gradients of functions that call operators alone."""

from __future__ import annotations

from typing import Any

from heddle.graph.gradient import Cotangent, added, backwards, is_differentiable
from heddle.ir.expr import Call, Constant, Function, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.op import Op
from heddle.ir.transform import Pass, PassContext
from heddle.ir.types import TupleType, Type
from heddle.relay.codes import Q0501
from heddle.relay.expand import expand, placeholder
from heddle.relay.op import relay_call
from heddle.relay.placement import post_order
from heddle.relay.transform.copying import without_lets
from heddle.relay.transform.rewriting import is_of_tensors, map_relay
from heddle.relay.typed import infer_expr, infer_module
from heddle.relay.words import RelayWords
from heddle.support.diagnostics import UsageError
from heddle.support.frozen import frozen


@frozen
class FirstOrderGradient(Pass):
    """Give each function of the module its gradient, as `gradient(mode="first_order")` does.

        def @main(%x: float32) { %x * %x }

    becomes

        def @main(%x: float32) -> (float32, (float32,)) { (%x * %x, (%x + %x,)) }
    """

    opt_level = 0

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        typed = infer_module(mod)
        return map_relay(typed, lambda func: first_order(func, typed))


def first_order(func: Function, mod: IRModule) -> Function:
    """The function with the gradients of its parameters beside its result. Raises: UsageError Q0501."""
    func = infer_expr(without_lets(func), mod)
    way = _Backwards(func)
    body = Tuple((func.body, Tuple(way.run())))
    attrs = func.attrs.without("global_symbol")
    return Function(func.params, body, None, attrs=attrs, dialect="relay", span=func.span)


def call_back(call: Call, args: Any, result: Any, grad: Cotangent) -> tuple[Cotangent, ...]:
    """What the arguments of a typed call of an operator get. `args` and `result` stand for them."""
    assert isinstance(call.op, Op)
    params = [placeholder(arg.ty) for arg in call.args]
    expr = expand(call.op.name, params, call.attrs)
    return backwards(expr, params, args, result, grad, RelayWords())


def seeds(expr: Any, ty: Type) -> Cotangent:
    """Ones for each float of a result."""
    if isinstance(ty, TupleType):
        return tuple(seeds(TupleGetItem(expr, place), item) for place, item in enumerate(ty.fields))
    return relay_call("ones_like", (expr,), {}) if is_differentiable(ty) else None


def filled(expr: Any, ty: Any, grad: Cotangent) -> Any:
    """A gradient as an expression: zeros where nothing came."""
    if isinstance(ty, TupleType):
        parts = grad if isinstance(grad, tuple) else (None,) * len(ty.fields)
        items = zip(ty.fields, parts, strict=True)
        return Tuple(tuple(filled(TupleGetItem(expr, k), item, part) for k, (item, part) in enumerate(items)))
    return grad if grad is not None else relay_call("zeros_like", (expr,), {})


class _Backwards:
    """The expressions of a function, and what has come for each."""

    def __init__(self, func: Function) -> None:
        self._func = func
        self._words = RelayWords()
        self._grads: dict[int, Cotangent] = {}
        for param in func.params:
            if not is_of_tensors(param.ty):
                raise UsageError(Q0501, f"parameter %{param.name_hint} is no tensor", span=param.span)

    def run(self) -> tuple[Any, ...]:
        body = self._func.body
        if not is_of_tensors(body.ty):
            raise UsageError(Q0501, "the result is no tensor", span=body.span)
        order = post_order(body)
        for expr in order:
            self._check(expr)
        self._give(body, seeds(body, body.ty))
        for expr in reversed(order):
            grad = self._grads.get(id(expr))
            if grad is not None:
                self._back(expr, grad)
        return tuple(filled(p, p.ty, self._grads.get(id(p))) for p in self._func.params)

    def _check(self, expr: Any) -> None:
        is_call = isinstance(expr, Call) and isinstance(expr.op, Op)
        if not is_call and not isinstance(expr, (Var, Constant, Tuple, TupleGetItem, Op)):
            raise UsageError(
                Q0501,
                f"a first-order gradient has no {type(expr).__name__}",
                span=expr.span,
                help='mode="higher_order" takes control flow and functions',
            )

    def _give(self, expr: Any, grad: Cotangent) -> None:
        if grad is not None:
            self._grads[id(expr)] = added(self._words, self._grads.get(id(expr)), grad)

    def _back(self, expr: Any, grad: Cotangent) -> None:
        if isinstance(expr, Tuple):
            for item, part in zip(expr.fields, grad, strict=True):
                self._give(item, part)
        elif isinstance(expr, TupleGetItem):
            count = len(expr.tuple_value.ty.fields)
            self._give(expr.tuple_value, tuple(grad if k == expr.index else None for k in range(count)))
        elif isinstance(expr, Call):
            for arg, part in zip(expr.args, call_back(expr, expr.args, expr, grad), strict=True):
                self._give(arg, part)
