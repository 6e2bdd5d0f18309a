"""Sets of integers given by symbolic bounds: the values that an expression takes while variables run over sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from heddle.ir.op import is_op
from heddle.prim.nodes import (
    Add, Call, Cast, FloorDiv, FloorMod, IntImm, Max, Min, Mul, PrimExpr, Range, Select, Sub, Var, constant,
)
from heddle.prim.ops import maximum, minimum
from heddle.prim.substitute import free_vars


@dataclass(frozen=True, slots=True, eq=False)
class IntervalSet:
    """The integers from `min_value` to `max_value`, both included; None is unbounded on that side."""

    min_value: PrimExpr | None
    max_value: PrimExpr | None

    @staticmethod
    def single_point(value: PrimExpr) -> IntervalSet:
        return IntervalSet(value, value)

    @staticmethod
    def everything() -> IntervalSet:
        return IntervalSet(None, None)

    @staticmethod
    def from_range(value: Range) -> IntervalSet:
        return IntervalSet(value.min, value.min + value.extent - 1)

    @property
    def is_bounded(self) -> bool:
        return self.min_value is not None and self.max_value is not None

    @property
    def is_single_point(self) -> bool:
        return self.min_value is not None and self.min_value is self.max_value

    def union(self, other: IntervalSet) -> IntervalSet:
        """The least interval with both sets in it."""
        low, high = _both(minimum, self.min_value, other.min_value), _both(maximum, self.max_value, other.max_value)
        return IntervalSet(low, high)


def _both(function: Callable[[Any, Any], Any], a: PrimExpr | None, b: PrimExpr | None) -> PrimExpr | None:
    if a is None or b is None:
        return None
    return a if a is b else function(a, b)


class IntSetEvaluator:
    """Evaluates one expression after the other under the same variables' sets; `nonneg` proves expr >= 0."""

    def __init__(self, domain: Mapping[Var, IntervalSet], nonneg: Callable[[PrimExpr], bool]) -> None:
        self._domain, self._nonneg = domain, nonneg

    def eval(self, expr: PrimExpr) -> IntervalSet:
        if not any(var in self._domain for var in free_vars(expr)):
            return IntervalSet.single_point(expr)
        if isinstance(expr, Var):
            return self._domain[expr]
        if isinstance(expr, (Add, Sub)):
            return self._sum(expr, isinstance(expr, Sub))
        if isinstance(expr, Mul):
            return self._product(expr.a, expr.b)
        if isinstance(expr, FloorDiv):
            return self._floordiv(expr)
        if isinstance(expr, FloorMod):
            return self._floormod(expr)
        if isinstance(expr, (Min, Max)):
            return self._extreme(expr, minimum if isinstance(expr, Min) else maximum)
        if isinstance(expr, Select):
            return self.eval(expr.true_value).union(self.eval(expr.false_value))
        if isinstance(expr, Call) and is_op(expr.op, "tir.if_then_else"):
            return self.eval(expr.args[1]).union(self.eval(expr.args[2]))  # type: ignore[arg-type]
        if isinstance(expr, Cast) and expr.dtype.is_int and expr.value.dtype.is_int and expr.dtype.bits >= expr.value.dtype.bits:
            return _each(self.eval(expr.value), lambda bound: Cast(expr.dtype, bound))
        return IntervalSet.everything()

    def _sum(self, expr: Add | Sub, minus: bool) -> IntervalSet:
        a, b = self.eval(expr.a), self.eval(expr.b)
        if minus:
            b = IntervalSet(b.max_value, b.min_value)
        combine = (lambda x, y: x - y) if minus else (lambda x, y: x + y)
        return IntervalSet(_pair(combine, a.min_value, b.min_value), _pair(combine, a.max_value, b.max_value))

    def _product(self, a: PrimExpr, b: PrimExpr) -> IntervalSet:
        """One factor does not vary: scale by it, exchanging the bounds where it is negative."""
        left, right = self.eval(a), self.eval(b)
        if not right.is_single_point:
            left, right, a, b = right, left, b, a
        if not right.is_single_point:
            return self._product_of_sets(left, right)
        factor = right.min_value
        assert factor is not None
        scaled = _each(left, lambda bound: bound * factor)
        if self._nonneg(factor):
            return scaled
        if self._nonneg(constant(0, factor.dtype) - factor):
            return IntervalSet(scaled.max_value, scaled.min_value)
        return IntervalSet.everything()

    def _product_of_sets(self, a: IntervalSet, b: IntervalSet) -> IntervalSet:
        lows = (a.min_value, b.min_value)
        if all(low is not None and self._nonneg(low) for low in lows):
            times: Callable[[Any, Any], Any] = lambda x, y: x * y  # noqa: E731 (a value handed on)
            return IntervalSet(_pair(times, *lows), _pair(times, a.max_value, b.max_value))
        return IntervalSet.everything()

    def _floordiv(self, expr: FloorDiv) -> IntervalSet:
        b = self.eval(expr.b)
        divisor = b.min_value
        if not b.is_single_point or divisor is None or not self._nonneg(divisor - 1):
            return IntervalSet.everything()
        return _each(self.eval(expr.a), lambda bound: bound // divisor)

    def _floormod(self, expr: FloorMod) -> IntervalSet:
        """In [0, b); tighter where the dividend stays within one period."""
        b = self.eval(expr.b)
        divisor = b.min_value
        if not b.is_single_point or divisor is None or not self._nonneg(divisor - 1):
            return IntervalSet.everything()
        a = self.eval(expr.a)
        if isinstance(divisor, IntImm) and a.min_value is not None and a.max_value is not None:
            if self._nonneg(a.min_value // divisor - a.max_value // divisor):
                return _each(a, lambda bound: bound % divisor)
        return IntervalSet(constant(0, divisor.dtype), divisor - 1)

    def _extreme(self, expr: Min | Max, function: Callable[[Any, Any], Any]) -> IntervalSet:
        a, b = self.eval(expr.a), self.eval(expr.b)
        one_sided = isinstance(expr, Min)
        low, high = _pair(function, a.min_value, b.min_value), _pair(function, a.max_value, b.max_value)
        if one_sided and high is None:
            high = a.max_value if b.max_value is None else b.max_value
        if not one_sided and low is None:
            low = a.min_value if b.min_value is None else b.min_value
        return IntervalSet(low, high)


def _pair(function: Callable[[Any, Any], Any], a: PrimExpr | None, b: PrimExpr | None) -> PrimExpr | None:
    return None if a is None or b is None else function(a, b)


def _each(interval: IntervalSet, function: Callable[[PrimExpr], PrimExpr]) -> IntervalSet:
    low, high = interval.min_value, interval.max_value
    if low is high and low is not None:
        return IntervalSet.single_point(function(low))
    return IntervalSet(None if low is None else function(low), None if high is None else function(high))
