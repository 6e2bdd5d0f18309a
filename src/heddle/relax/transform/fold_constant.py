"""FoldConstant: operators on constants are computed at once, by their numpy reference.

    y = R.permute_dims(R.const(w), axes=[1, 0])       →       uses of y become R.const(w.T)

A result much larger than its inputs (a broadcast, say) is left to run time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from heddle.ir.expr import Call, Constant, Expr, Function, Tuple, Var
from heddle.ir.op_def import OpDef, Without, op_def
from heddle.ir.transform import FunctionPass, PassContext
from heddle.prim.nodes import FloatImm, IntImm
from heddle.relax.infer import type_of
from heddle.relax.op_builder import const
from heddle.relax.rewriter import BindingRewriter
from heddle.relax.types import ShapeExpr, TensorType

MAX_FREE_BYTES = 1 << 16
"""Results of up to this size are folded whatever their inputs."""

MAX_MADE_BYTES = 1 << 30
"""Tensors filled with one value are folded up to this size."""


@dataclass(frozen=True)
class FoldConstant(FunctionPass):
    """Requires the normal form."""

    function_kind: ClassVar[type] = Function

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        return _Folder(mod).run(func)


class _Folder(BindingRewriter):
    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        record = op_def(value.op) if isinstance(value, Call) else None
        if record is None or isinstance(record.reference, Without) or not record.is_pure:
            return value
        assert isinstance(value, Call)
        args = [_known(arg) for arg in value.args]
        if any(arg is None for arg in args) or not any(
            isinstance(arg, Constant) for arg in _flat(value.args)
        ):
            return value
        if not self._is_worth(value):
            return value
        return self._folded(var, record, value, args)

    def _is_worth(self, value: Call) -> bool:
        ty = type_of(value)
        if not isinstance(ty, TensorType) or not ty.is_static or ty.dtype is None:
            return False
        size = math.prod(ty.static_shape()) * ty.dtype.itemsize
        tensors = [
            arg.data.numpy() for arg in _flat(value.args) if isinstance(arg, Constant) and arg.data.ndim
        ]
        if not tensors:  # a tensor made of scalars: a weight that the model describes instead of storing it
            return size <= MAX_MADE_BYTES
        given = sum(array.nbytes for array in tensors)
        return size <= max(MAX_FREE_BYTES, 2 * int(given))

    def _folded(self, var: Var, record: OpDef, value: Call, args: list[Any]) -> Expr | None:
        assert not isinstance(record.reference, Without)
        result = np.asarray(record.reference(value.attrs, *args))
        ty = type_of(value)
        assert isinstance(ty, TensorType) and ty.dtype is not None
        data = result.astype(ty.dtype.numpy(), order="C").reshape(ty.static_shape())
        folded = const(data, ty if ty.vdevice is not None else ty.dtype)
        if not var.is_dataflow:
            return folded
        self.renamed[var] = folded
        return None


def _flat(args: tuple[Expr, ...]) -> list[Expr]:
    return [item for arg in args for item in (arg.fields if isinstance(arg, Tuple) else (arg,))]


def _known(arg: Expr) -> Any:
    """The numpy (or Python) value of an argument that is known now; None where it is not."""
    if isinstance(arg, Constant):
        return arg.data.numpy()
    if isinstance(arg, ShapeExpr):
        known = all(isinstance(dim, IntImm) for dim in arg.values)
        return tuple(int(dim) for dim in arg.values) if known else None  # type: ignore[call-overload]
    if isinstance(arg, (IntImm, FloatImm)):
        return arg.value
    if isinstance(arg, Tuple):
        items = [_known(item) for item in arg.fields]
        return None if any(item is None for item in items) else tuple(items)
    return None
