"""DecomposeOpsForInference: replace batch norms with given statistics by scales and shifts, and drop dropout.

    t = R.nn.batch_norm(x, gamma, beta, mean, var, axis=1)
    y = t[0]
        →
    scale = gamma * rsqrt(var + epsilon)
    y = x * scale + (beta - mean * scale)

With constant statistics scale and shift fold to constants, and the rest fuses with what is around it. Nothing
is dropped outside of training: `R.nn.dropout(x)` is `(x, R.ones_like(x))`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.graph import op
from heddle.graph.infer import type_of
from heddle.graph.op_builder import const
from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.graph.types import TensorType
from heddle.ir.expr import Call, Expr, Function, Tuple, Var
from heddle.ir.transform import FunctionPass, PassContext


class DecomposeOpsForInference(FunctionPass):
    """Requires the normal form. Batch norms with `training` set, or of unknown rank, stay."""

    dialects: ClassVar[tuple[str, ...] | None] = ("relax",)

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        return _Decomposer(mod).run(func)


class _Decomposer(BindingRewriter):
    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        if isinstance(value, Call) and is_call(value, "relax.nn.dropout"):
            x = value.args[0]
            return Tuple((x, self.emit(op.ones_like(x), "mask")))
        if not isinstance(value, Call) or not is_call(value, "relax.nn.batch_norm") or value.attrs.training:
            return value
        ty = type_of(value.args[0])
        if not isinstance(ty, TensorType) or ty.ndim < 1 or ty.dtype is None:
            return value
        return self._batch_norm(value, ty)

    def _batch_norm(self, call: Call, ty: TensorType) -> Expr:
        x, gamma, beta, mean, variance = call.args
        scale: Expr = op.rsqrt(op.add(variance, const(float(call.attrs.epsilon), ty.dtype)))
        if call.attrs.scale:
            scale = op.multiply(gamma, scale)
        scale = self.emit(scale, "scale")
        shift: Expr = op.negative(op.multiply(mean, scale))
        if call.attrs.center:
            shift = op.add(beta, shift)
        axis = int(call.attrs.axis) % ty.ndim
        others = [k for k in range(ty.ndim) if k != axis]
        if others:
            scale, shift = op.expand_dims(scale, others), op.expand_dims(shift, others)
        y = self.emit(op.add(op.multiply(x, scale), shift), "normed")
        return Tuple((y, mean, variance))
