"""LowerAllocTensor: replace unplanned tensor allocations by a storage and a tensor on it.

y = R.builtin.alloc_tensor(R.shape([n, 4]), R.dtype("float32"), 0)
    →
s = R.memory.alloc_storage(R.shape([n * 16]), 0, R.str("global"), R.dtype("uint8"))
y = R.memory.alloc_tensor(s, 0, R.shape([n, 4]), R.dtype("float32"))
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.graph.storage_plan import size_bytes
from heddle.graph.types import ShapeExpr
from heddle.ir.expr import Call, DataTypeImm, Expr, Function, StringImm, Var
from heddle.ir.op import Op
from heddle.ir.transform import FunctionPass, PassContext
from heddle.prim.nodes import PrimExpr, constant
from heddle.runtime.dtype import DataType


class LowerAllocTensor(FunctionPass):
    dialects: ClassVar[tuple[str, ...] | None] = ("relax",)

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        return _Rewriter(mod).run(func)


class _Rewriter(BindingRewriter):
    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        if not is_call(value, "relax.builtin.alloc_tensor"):
            return value
        assert isinstance(value, Call)
        shape, dtype = value.args[0], value.args[1]
        if not isinstance(shape, ShapeExpr) or not isinstance(dtype, DataTypeImm):
            return value
        storage = self.emit(alloc_storage(size_bytes(shape, DataType(dtype.value)), value), "storage")
        return alloc_tensor(storage, constant(0, "int64"), shape, dtype)


def alloc_storage(size: PrimExpr, alloc: Call) -> Call:
    """A storage of `size` bytes on the device and in the scope that an `alloc_tensor` call names."""
    device = alloc.args[2] if len(alloc.args) > 2 else constant(0, "int64")
    scope = alloc.args[3] if len(alloc.args) > 3 else StringImm("global")
    return Call(
        Op.get("relax.memory.alloc_storage"), (ShapeExpr((size,)), device, scope, DataTypeImm("uint8"))
    )


def alloc_tensor(storage: Expr, offset: PrimExpr, shape: Expr, dtype: Expr) -> Call:
    """A tensor in a storage, `offset` bytes from its start."""
    return Call(Op.get("relax.memory.alloc_tensor"), (storage, offset, shape, dtype))
