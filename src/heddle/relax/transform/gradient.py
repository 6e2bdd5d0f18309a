"""Functions that also give gradients of their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.graph.block_builder import BlockBuilder
from heddle.graph.codes import R0210
from heddle.graph.copying import copy_with_new_vars
from heddle.graph.gradient import backwards_in
from heddle.graph.infer import type_of
from heddle.graph.nodes import SeqExpr, VarBinding
from heddle.graph.op_builder import call_op
from heddle.graph.types import TensorType
from heddle.graph.words import GraphWords
from heddle.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.op_def import op_def
from heddle.ir.pass_options import option
from heddle.ir.transform import Pass, PassContext
from heddle.ir.types import TupleType
from heddle.relax.transform.dead_code_elimination import remove_unused_bindings
from heddle.support.diagnostics import IRTypeError
from heddle.support.frozen import frozen


@frozen
class Gradient(Pass):
    """Add a function `NAME_adjoint` beside a function: it gives the same result and the gradients of its
    arguments.

        def main(x: R.Tensor((3,), "float32")):
            y = R.multiply(x, x)
            z = R.sum(y)
            return z

    becomes, beside it,

        def main_adjoint(x: R.Tensor((3,), "float32")):
            y = R.multiply(x, x)
            z = R.sum(y)
            lv = R.ones_like(z)
            ...
            return (z, (x_adjoint,))

    The gradient is of the result, or of part `target_index` of a tuple; a target of several elements counts
    by their sum. `require_grads` are the places of the parameters, None for all. The function must be
    operators alone. Raises: IRTypeError R0210.
    """

    func_name: str
    require_grads: Sequence[int] | None = None
    target_index: int = option(0, at_least=0)

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        name = f"{self.func_name}_adjoint"
        made = _adjoint(mod[self.func_name], name, mod, self.require_grads, self.target_index)
        var = made.get_global_var(name)
        return made.with_functions({**made.functions, var: remove_unused_bindings(made[var], made)})


def _adjoint(func: Any, name: str, mod: IRModule, wanted: Sequence[int] | None, target: int) -> IRModule:
    if not isinstance(func, Function):
        raise IRTypeError(R0210, "only graph functions have gradients")
    own = copy_with_new_vars(func)
    assert isinstance(own.body, SeqExpr)
    places = list(range(len(own.params))) if wanted is None else list(wanted)
    if any(not 0 <= place < len(own.params) for place in places):
        raise IRTypeError(R0210, f"the function has {len(own.params)} parameters, got the places {places}")
    builder = BlockBuilder(mod)
    with builder.function(name, list(own.params)):
        with builder.dataflow():
            for binding in own.body.bindings():
                _check(binding)
                builder.emit_normalized(binding)
            result = own.body.body
            grads = _gradients(own, result, target, GraphWords(builder))
            parts = [_filled(own.params[place], grads[place]) for place in places]
            out = builder.emit_output(Tuple((result, Tuple(tuple(parts)))))
        builder.emit_func_output(out)
    return builder.get()


def _check(binding: Any) -> None:
    value = getattr(binding, "value", None)
    is_call = isinstance(value, Call) and op_def(value.op) is not None
    is_plain = isinstance(value, (Var, Constant, Tuple, TupleGetItem))
    if not isinstance(binding, VarBinding) or not (is_call or is_plain):
        raise IRTypeError(R0210, f"the binding of {binding.var.name_hint} is no operator", span=binding.span)


def _gradients(func: Function, result: Expr, target: int, words: GraphWords) -> tuple[Any, ...]:
    ty = type_of(result)
    grad: Any
    if isinstance(ty, TupleType):
        chosen = TupleGetItem(result, target)
        ones = words.call("ones_like", (chosen,), {})
        grad = tuple(ones if place == target else None for place in range(len(ty.fields)))
    else:
        grad = words.call("ones_like", (result,), {})
    body = func.body
    assert isinstance(body, SeqExpr)
    return backwards_in(body, func.params, grad, words)


def _filled(param: Var, grad: Any) -> Any:
    ty = param.ty
    if isinstance(ty, TupleType) and grad is not None:
        parts = zip(ty.fields, grad, strict=True)
        return Tuple(
            tuple(_field(TupleGetItem(param, k), item, part) for k, (item, part) in enumerate(parts))
        )
    return _field(param, ty, grad)


def _field(expr: Expr, ty: Any, grad: Any) -> Any:
    if grad is not None:
        return grad
    if not isinstance(ty, TensorType):
        raise IRTypeError(R0210, f"a value of type {ty} has no gradient")
    return call_op("zeros_like", expr)
