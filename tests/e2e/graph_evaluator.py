"""An evaluator of graph functions over numpy arrays, with the operators' own references: an oracle for importers.

It runs what the importer builds before any pass: operators, tuples, `match_cast`, branches, calls of global functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.ir.expr import Call, Constant, DataTypeImm, Function, GlobalVar, If, StringImm, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.node import Map
from heddle.ir.op_def import op_def
from heddle.ir.types import TupleType, Type
from heddle.ir.attrs import Attrs
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import PrimExpr
from heddle.prim.nodes import Var as PrimVar
from heddle.relax.nodes import MatchCast, SeqExpr
from heddle.relax.types import ShapeExpr, ShapeType, TensorType


class CastError(Exception):
    """A `match_cast` or parameter whose value does not have the stated type."""


class GraphEvaluator:
    """`GraphEvaluator(mod).run("main", *arrays)`."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod

    def run(self, name: str, *args: Any) -> Any:
        func: Function = self.mod[name]
        frame = _Frame(self)
        for param, arg in zip(func.params, args, strict=True):
            frame.match(param.ty, arg, param.name_hint)
            frame.values[param] = arg
        return frame.eval(func.body)


class _Frame:
    def __init__(self, owner: GraphEvaluator) -> None:
        self.owner = owner
        self.values: dict[Var, Any] = {}
        self.dims: dict[PrimVar, int] = {}

    def match(self, ty: Type | None, value: Any, what: str) -> None:
        """Check a value against a type; dimensions that stand alone and are new are bound."""
        if isinstance(ty, TupleType):
            for index, (field, item) in enumerate(zip(ty.fields, value, strict=True)):
                self.match(field, item, f"{what}[{index}]")
        shape: tuple[int, ...] | None = None
        expected: tuple[PrimExpr, ...] | None = None
        if isinstance(ty, TensorType):
            shape, expected = np.shape(value), ty.dims
            if ty.dtype is not None and np.asarray(value).dtype != ty.dtype.numpy():
                raise CastError(f"{what}: expected {ty.dtype}, got {np.asarray(value).dtype}")
            if ty.ndim >= 0 and len(shape) != ty.ndim:
                raise CastError(f"{what}: expected {ty.ndim} dimensions, got {shape}")
        elif isinstance(ty, ShapeType):
            shape, expected = tuple(value), ty.values
        if shape is None or expected is None:
            return
        if len(shape) != len(expected):
            raise CastError(f"{what}: expected {expected}, got {shape}")
        for dim, size in zip(expected, shape, strict=True):
            if isinstance(dim, PrimVar):
                self.dims.setdefault(dim, size)
        for dim, size in zip(expected, shape, strict=True):
            if self.scalar(dim) != size:
                raise CastError(f"{what}: expected {dim} = {self.scalar(dim)}, got {size}")

    def scalar(self, expr: PrimExpr) -> Any:
        return evaluate(expr, {var: np.asarray(size, var.dtype.numpy())[()] for var, size in self.dims.items()})

    def eval(self, expr: Any) -> Any:
        if isinstance(expr, PrimExpr):
            return self.scalar(expr)
        return getattr(self, f"eval_{type(expr).__name__}")(expr)

    def eval_Var(self, expr: Var) -> Any:
        return self.values[expr]

    def eval_Constant(self, expr: Constant) -> Any:
        return expr.data.numpy()

    def eval_ShapeExpr(self, expr: ShapeExpr) -> tuple[int, ...]:
        return tuple(self.scalar(dim) for dim in expr.values)

    def eval_Tuple(self, expr: Tuple) -> tuple[Any, ...]:
        return tuple(self.eval(item) for item in expr.fields)

    def eval_TupleGetItem(self, expr: TupleGetItem) -> Any:
        return self.eval(expr.tuple_value)[expr.index]

    def eval_StringImm(self, expr: StringImm) -> str:
        return expr.value

    def eval_DataTypeImm(self, expr: DataTypeImm) -> str:
        return expr.value

    def eval_If(self, expr: If) -> Any:
        return self.eval(expr.true_branch if bool(self.eval(expr.cond)) else expr.false_branch)

    def eval_SeqExpr(self, expr: SeqExpr) -> Any:
        for binding in expr.bindings():
            value = self.eval(binding.value)
            self.match(binding.ty if isinstance(binding, MatchCast) else binding.var.ty, value, str(binding.value)[:80])
            self.values[binding.var] = value
        return self.eval(expr.body)

    def eval_Call(self, expr: Call) -> Any:
        args = [self.eval(arg) for arg in expr.args]
        if isinstance(expr.op, GlobalVar):
            return self.owner.run(expr.op.name_hint, *args)
        record = op_def(expr.op)
        assert record is not None, expr.op
        result = record.reference(self._attrs(expr.attrs), *args)
        return result if isinstance(result, (tuple, list)) else np.asarray(result)

    def _attrs(self, attrs: Attrs) -> Attrs:
        return Attrs(Map({key: self._attr(value) for key, value in attrs.items()}))

    def _attr(self, value: Any) -> Any:
        if isinstance(value, PrimExpr):
            return self.scalar(value)
        return tuple(self._attr(item) for item in value) if isinstance(value, tuple) else value
