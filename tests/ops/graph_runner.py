"""Runs a call's lowering: the loop function through an evaluator, or the decomposition binding by binding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from heddle.ir.expr import Call, Constant, Expr, GlobalVar, Tuple, TupleGetItem, Var
from heddle.ir.node import replace
from heddle.ir.op_def import OpDef, op_def
from heddle.ir.types import TupleType, Type
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import PrimExpr
from heddle.prim.nodes import Var as PrimVar
from heddle.relax.block_builder import BlockBuilder
from heddle.relax.infer import type_of
from heddle.relax.nodes import MatchCast
from heddle.relax.types import ShapeExpr, ShapeType, TensorType
from tests.ops.cases import Typed

RunKernel = Callable[..., None]


def lowered(record: OpDef, typed: Typed) -> tuple[BlockBuilder, Any, Expr]:
    """The builder with the loop functions, the bindings, and the value of the result."""
    builder = BlockBuilder()
    with builder.scope() as scope:
        call = builder.value(typed.call)
        if record.lower is not None:
            value: Expr = builder.call_te(
                lambda *args: record.lower(call.attrs, *args), *call.args, primfunc_name_hint="kernel"
            )
        else:
            value = record.decompose(builder, call)
        result = builder.leaf(builder.value(value))
        scope.close_block()
        return builder, [b for block in scope.blocks for b in block.bindings], result


def legalized(builder: BlockBuilder, expr: Expr) -> Expr:
    """An operator's call as the call of its loop function."""
    record = op_def(expr.op) if isinstance(expr, Call) else None
    if record is None or record.lower is None:
        return expr
    with builder.scope():
        return builder.value(
            builder.call_te(
                lambda *args: record.lower(expr.attrs, *args), *expr.args, primfunc_name_hint="kernel"
            )
        )


class GraphRunner:
    """Evaluates bindings; `run_kernel(func, *arrays and scalars)` runs a loop function."""

    def __init__(self, builder: BlockBuilder, typed: Typed, run_kernel: RunKernel) -> None:
        self.builder, self.run_kernel = builder, run_kernel
        self.sizes: dict[PrimVar, int] = dict(typed.sizes)
        self.values: dict[Var, Any] = dict(zip(typed.params, typed.arrays, strict=True))

    def run(self, bindings: Any, result: Expr) -> Any:
        for binding in bindings:
            value = self.eval(binding.value)
            if isinstance(binding, MatchCast):
                self._match(binding.ty, value)
            self.values[binding.var] = value
        return self.eval(result)

    def dims(self, values: Any) -> tuple[int, ...]:
        return tuple(int(evaluate(value, self.sizes)) for value in values)

    def eval(self, expr: Expr) -> Any:
        if isinstance(expr, Var):
            return self.values[expr]
        if isinstance(expr, Constant):
            return expr.data.numpy()
        if isinstance(expr, Tuple):
            return tuple(self.eval(item) for item in expr.fields)
        if isinstance(expr, TupleGetItem):
            return self.eval(expr.tuple_value)[expr.index]
        if isinstance(expr, ShapeExpr):
            return self.dims(expr.values)
        if isinstance(expr, PrimExpr):
            return evaluate(expr, self.sizes)
        assert isinstance(expr, Call), expr
        return self._call(expr)

    def _call(self, call: Call) -> Any:
        made = legalized(self.builder, call)
        if made.op.name == "relax.call_tir":
            return self._call_tir(made)
        record = op_def(made.op)
        if record.decompose is not None:
            with self.builder.scope() as scope:
                value = self.builder.leaf(self.builder.value(record.decompose(self.builder, made)))
                scope.close_block()
            return self.run([b for block in scope.blocks for b in block.bindings], value)
        return record.reference(made.attrs, *(self.eval(arg) for arg in made.args))

    def _call_tir(self, call: Call) -> Any:
        func, args = call.args[0], call.args[1]
        assert isinstance(func, GlobalVar)
        (out_type,) = call.ty_args
        types = out_type.fields if isinstance(out_type, TupleType) else (out_type,)
        outputs = [np.full(self.dims(ty.dims), 77, dtype=ty.dtype.numpy()) for ty in types]
        scalars = self.eval(call.args[2]) if len(call.args) > 2 else ()
        self.run_kernel(
            self.builder.module[func], *(np.asarray(a) for a in self.eval(args)), *outputs, *scalars
        )
        return tuple(outputs) if isinstance(out_type, TupleType) else outputs[0]

    def _match(self, ty: Type, value: Any) -> None:
        dims = ty.values if isinstance(ty, ShapeType) else ty.dims if isinstance(ty, TensorType) else None
        sizes = value if isinstance(ty, ShapeType) else np.shape(value)
        for dim, size in zip(dims or (), sizes, strict=False):
            if isinstance(dim, PrimVar) and dim not in self.sizes:
                self.sizes[dim] = int(size)
            assert evaluate(dim, self.sizes) == size


def result_type(typed: Typed) -> Type:
    """The type that inference gives the call."""
    builder = BlockBuilder()
    with builder.scope():
        return type_of(builder.value(replace(typed.call, ty=None)))
