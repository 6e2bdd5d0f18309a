"""Which divisors are known not to be zero, so that a division needs no look at them.

for f in range(n * m): C[f // m, f % m] = ...       inside, n and m are not 0: the loop has an iteration
for i in range(n): C[i] = A[i // m]                 m may be 0: the quotient is 0 then, and nothing traps
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from heddle.codegen.expressions import does_not_overflow, plain_int
from heddle.ir.structural import structural_equal
from heddle.prim.nodes import (
    EQ,
    Add,
    Broadcast,
    Cast,
    FloorDiv,
    IntImm,
    Max,
    Mul,
    PrimExpr,
    Select,
    Var,
)


class Divisors:
    """What is known at a place of a function: `nonzero` expressions, and the values of bound variables."""

    def __init__(self, is_nonnegative: Callable[[PrimExpr], bool]) -> None:
        self.nonzero: tuple[PrimExpr, ...] = ()
        self.values: dict[Var, PrimExpr] = {}
        self._is_nonnegative = is_nonnegative

    def copy_from(self, other: Divisors) -> None:
        """Take over the nonzero expressions of another place, and add its values to the own."""
        self.nonzero = other.nonzero
        self.values.update(other.values)

    def inside(self, extent: PrimExpr) -> tuple[PrimExpr, ...]:
        """What is not zero in a loop of that extent."""
        return (*self.nonzero, *_nonzero_with(extent, self.values))

    @contextmanager
    def in_loop(self, extent: PrimExpr) -> Iterator[None]:
        """The body of a loop of that extent."""
        before, self.nonzero = self.nonzero, self.inside(extent)
        try:
            yield
        finally:
            self.nonzero = before

    def may_be_zero(self, divisor: PrimExpr, in_index: bool) -> bool:
        """Whether an integer divisor has to be looked at when the program runs. Products and sums `in_index`
        do not wrap to zero."""
        constant = plain_int(divisor)
        if constant is not None:
            return constant.value == 0
        if isinstance(divisor, Select) and isinstance(divisor.condition, EQ):
            test, compared = divisor.condition, plain_int(divisor.condition.b)
            guards = compared is not None and compared.value == 0
            if guards and structural_equal(test.a, divisor.false_value):
                return self.may_be_zero(divisor.true_value, in_index)
        return not self._is_nonzero(divisor, in_index)

    def _is_nonzero(self, expr: PrimExpr, in_index: bool) -> bool:
        if any(expr is known or structural_equal(expr, known) for known in self.nonzero):
            return True
        if isinstance(expr, IntImm):
            return expr.value != 0
        if isinstance(expr, Broadcast):
            return self._is_nonzero(expr.value, in_index)
        if isinstance(expr, Cast):
            grows = expr.value.dtype.is_int and expr.value.dtype.bits <= expr.dtype.bits
            return grows and self._is_nonzero(expr.value, in_index)
        if isinstance(expr, Max):
            return any(isinstance(side, IntImm) and side.value > 0 for side in (expr.a, expr.b))
        if isinstance(expr, Mul):
            no_wrap = does_not_overflow(expr.dtype, in_index)
            return no_wrap and all(self._is_nonzero(side, in_index) for side in (expr.a, expr.b))
        if isinstance(expr, Add):
            sides = (expr.a, expr.b)
            return (
                does_not_overflow(expr.dtype, in_index)
                and all(self._is_nonnegative(side) for side in sides)
                and any(self._is_nonzero(side, in_index) for side in sides)
            )
        return False


def _nonzero_with(expr: PrimExpr, values: Mapping[Var, PrimExpr]) -> Iterator[PrimExpr]:
    """Expressions that are not zero where `expr` is not: its factors, and both sides of a quotient."""
    yield expr
    if isinstance(expr, Var) and expr in values:
        yield from _nonzero_with(values[expr], values)
    elif isinstance(expr, Cast) and expr.value.dtype.is_int:
        yield from _nonzero_with(expr.value, values)
    elif isinstance(expr, Mul):
        yield from _nonzero_with(expr.a, values)
        yield from _nonzero_with(expr.b, values)
    elif isinstance(expr, FloorDiv):
        yield from _nonzero_with(expr.b, values)
        yield from _nonzero_with(_rounded_up(expr), values)


def _rounded_up(quotient: FloorDiv) -> PrimExpr:
    """x of (x + c - 1) // c; else what is divided."""
    top, divisor = quotient.a, quotient.b
    if isinstance(top, Add) and isinstance(top.b, IntImm) and isinstance(divisor, IntImm):
        if 0 < top.b.value < divisor.value:
            return top.a
    return top
