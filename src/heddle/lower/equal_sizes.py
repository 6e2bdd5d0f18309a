"""EqualSizes: one way to write each size of a module.

A mask of `length + past` columns and scores of `past + length` columns have one shape. What compares shapes
after this (fusion, patterns of loops, schedules) may compare how they are written.
"""

from __future__ import annotations

from collections.abc import Iterable

from heddle.arith import Analyzer
from heddle.graph.types import ShapeExpr, TensorType
from heddle.ir.node import Node, children
from heddle.ir.types import TupleType, Type
from heddle.ir.visitor import post_order
from heddle.prim.nodes import Add, BinaryExpr, IntImm, Max, Min, Mul, PrimExpr, Sub, Var


class EqualSizes:
    """Sizes are numbered: formulas that differ in the order of their terms and factors have one number."""

    def __init__(self) -> None:
        self._written: dict[int, PrimExpr] = {}
        self._simplified: dict[int, int] = {}
        self._numbers: dict[tuple[object, ...], int] = {}
        self._others: dict[int, PrimExpr] = {}

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
        written = self._number(size)
        if written not in self._simplified:
            self._simplified[written] = self._number(Analyzer().simplify(size))
        return self._written.setdefault(self._simplified[written], size)

    def _number(self, size: PrimExpr) -> int:
        numbers: dict[int, int] = {}
        for node in post_order(size, _parts):
            numbers[id(node)] = self._numbers.setdefault(self._key(node, numbers), len(self._numbers))
        return numbers[id(size)]

    def _key(self, node: PrimExpr, numbers: dict[int, int]) -> tuple[object, ...]:
        """What an expression is, by the numbers of its parts. A variable, or another kind of expression, is
        like itself alone."""
        if isinstance(node, IntImm):
            return IntImm, node.value, str(node.dtype)
        if isinstance(node, (Add, Sub)):
            return Add, *sorted((numbers[id(term)], is_subtracted) for term, is_subtracted in _terms(node))
        if isinstance(node, (Mul, Max, Min)):
            return type(node), *sorted(numbers[id(operand)] for operand in _operands(node))
        if isinstance(node, BinaryExpr):
            return type(node), numbers[id(node.a)], numbers[id(node.b)]
        self._others[id(node)] = node  # alive, so that nothing else is at its address
        return Var, id(node)


def _parts(node: PrimExpr) -> Iterable[Node]:
    if isinstance(node, (Add, Sub)):
        return [term for term, _ in _terms(node)]
    return _operands(node) if isinstance(node, (Mul, Max, Min)) else children(node)


def _terms(total: PrimExpr) -> list[tuple[PrimExpr, bool]]:
    """The terms of a sum, and whether each is subtracted."""
    found, todo = [], [(total, False)]
    while todo:
        term, is_subtracted = todo.pop()
        if isinstance(term, (Add, Sub)):
            todo.append((term.a, is_subtracted))
            todo.append((term.b, is_subtracted ^ isinstance(term, Sub)))
        else:
            found.append((term, is_subtracted))
    return found


def _operands(expr: BinaryExpr) -> list[PrimExpr]:
    """The operands of operations of one kind, one in another."""
    found: list[PrimExpr] = []
    todo: list[PrimExpr] = [expr]
    while todo:
        operand = todo.pop()
        if isinstance(operand, BinaryExpr) and type(operand) is type(expr):
            todo += (operand.a, operand.b)
        else:
            found.append(operand)
    return found
