"""EqualSizes: one way to write each size of a module.

A mask of `length + past` columns and scores of `past + length` columns have one shape. What compares shapes
after this (fusion, patterns of loops, schedules) may compare how they are written.
"""

from __future__ import annotations

from heddle.arith import Analyzer
from heddle.arith.terms import TermTable
from heddle.graph.types import ShapeExpr, TensorType
from heddle.ir.types import TupleType, Type
from heddle.prim.nodes import IntImm, PrimExpr, Var


class EqualSizes:
    """Sizes have keys: formulas that differ in the order of their terms and factors have one."""

    def __init__(self) -> None:
        self._terms = TermTable()
        self._simplified: dict[int, int] = {}
        self._written: dict[int, PrimExpr] = {}

    def of_type(self, ty: Type) -> Type:
        """The type with each of its sizes written as it was where it came up first."""
        if isinstance(ty, TupleType):
            fields = tuple(self.of_type(item) for item in ty.fields)
            return ty if all(a is b for a, b in zip(fields, ty.fields, strict=True)) else TupleType(fields)
        if not isinstance(ty, TensorType) or not isinstance(ty.shape, ShapeExpr):
            return ty
        shape = self.of_shape(ty.shape)
        return ty if shape is ty.shape else TensorType(shape, ty.dtype, ty.vdevice)

    def of_shape(self, shape: ShapeExpr) -> ShapeExpr:
        """The shape with each of its sizes written so."""
        sizes = tuple(self._first(size) for size in shape.values)
        same = all(a is b for a, b in zip(sizes, shape.values, strict=True))
        return shape if same else ShapeExpr(sizes, span=shape.span)

    def _first(self, size: PrimExpr) -> PrimExpr:
        if isinstance(size, (IntImm, Var)):
            return size
        key = self._key(size)
        if key not in self._simplified:
            self._simplified[key] = self._key(Analyzer().simplify(size))
        return self._written.setdefault(self._simplified[key], size)

    def _key(self, size: PrimExpr) -> int:
        return self._terms.key(self._terms.intern(size))
