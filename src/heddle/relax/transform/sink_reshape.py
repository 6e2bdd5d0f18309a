"""SinkReshape: move elementwise operators before a reshape, so that they fuse with its producer.

m = R.matmul(x, w)                        m = R.matmul(x, w)
a = R.reshape(m, (2, 3, 8))               b = R.tanh(m)
b = R.tanh(a)                      →      y = R.matmul(b, v)
c = R.reshape(b, (6, 8))
y = R.matmul(c, v)

An elementwise operator whose operands are reshaped from one shape to one other, or hold a single element, is
computed in the shape they had. A reshape of a reshape is one, and none where the shape is again what it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from heddle.graph.infer import tensor_dims, type_of
from heddle.graph.nodes import Binding
from heddle.graph.op_builder import call_op
from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.graph.types import ShapeExpr, TensorType
from heddle.ir.expr import Call, Expr, Function, Var
from heddle.ir.node import replace
from heddle.ir.op_def import AnyLayout, op_def
from heddle.ir.structural import structural_equal
from heddle.ir.transform import FunctionPass, PassContext
from heddle.prim.nodes import PrimExpr, is_const_int

RESHAPE = "relax.reshape"


class SinkReshape(FunctionPass):
    """Leaves reshapes that nothing uses any more to DeadCodeElimination."""

    dialects: ClassVar[tuple[str, ...] | None] = ("relax",)

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        return _Sinker(mod).run(func)


class _Sinker(BindingRewriter):
    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        self._sources: dict[Expr, Var] = {}

    def add(self, binding: Binding) -> None:
        super().add(binding)
        value = binding.value
        source = value.args[0] if isinstance(value, Call) and is_call(value, RESHAPE) else None
        if isinstance(source, Var) and (binding.var.is_dataflow or not source.is_dataflow):
            self._sources[binding.var] = source  # which is seen wherever the result is

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        if not isinstance(value, Call):
            return value
        if is_call(value, RESHAPE):
            return self._joined(value)
        record = op_def(value.op)
        if record is None or not isinstance(record.layout, AnyLayout):
            return value
        reshaped = [arg for arg in value.args if arg in self._sources]
        before, after = _dims([self._sources[arg] for arg in reshaped]), _dims(reshaped)
        if before is None or after is None or _has_zero(after):
            return value
        ndim = min(len(before), len(after))
        if not all(arg in self._sources or _is_single(arg, ndim) for arg in value.args):
            return value
        args = tuple(self._sources.get(arg, arg) for arg in value.args)
        moved = self.emit(replace(value, args=args, ty=None))
        return call_op("reshape", moved, ShapeExpr(after))

    def _joined(self, value: Call) -> Expr:
        """A reshape of what the operand was reshaped from."""
        source, after = self._sources.get(value.args[0]), _dims([value])
        if source is None or after is None or _has_zero(after):
            return value
        before = _dims([source])
        if before is not None and structural_equal(before, after):
            return source
        return replace(value, args=(source, ShapeExpr(after)), ty=None)


def _dims(exprs: Sequence[Expr]) -> tuple[PrimExpr, ...] | None:
    """The dimensions that tensors have in common, if they are known and the same."""
    found = [dims for expr in exprs if (dims := tensor_dims(expr)) is not None]
    same = len(found) == len(exprs) > 0 and all(structural_equal(found[0], other) for other in found[1:])
    return found[0] if same else None


def _has_zero(dims: Sequence[PrimExpr]) -> bool:
    """Whether a size is 0, which the reshape of another tensor reads as that tensor's size."""
    return any(is_const_int(dim, 0) for dim in dims)


def _is_single(arg: Expr, ndim: int) -> bool:
    """Whether an operand of at most so many dimensions holds one element, or is no tensor."""
    ty = type_of(arg)
    if not isinstance(ty, TensorType):
        return True
    return ty.dims is not None and len(ty.dims) <= ndim and all(is_const_int(dim, 1) for dim in ty.dims)
