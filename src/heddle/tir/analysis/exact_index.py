"""Prove facts about index arithmetic as the machine executes it, for hostile programs.

The Analyzer assumes that integers of 32 bits and more do not overflow. An untrusted program may let them
overflow: in int32

    for i in 0 .. 8: A[(i * 2**30) // 2**30]        is A[0], A[1], A[-2], A[-1], ... on a machine

and not A[i]. Here, an expression is *exact* only if no part of it can leave the range of its dtype; nothing
is proved about other expressions. Facts come from loops with exact bounds, from exact conditions, and from
sizes of at most `MAX_SIZE`, which the checked function asserts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from heddle.arith import Analyzer
from heddle.arith.const_int_bound import ConstIntBound
from heddle.ir.node import children
from heddle.ir.visitor import walk
from heddle.prim.nodes import (
    Add,
    And,
    BinaryExpr,
    Call,
    Cast,
    CompareExpr,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Range,
    Sub,
    Var,
    as_expr,
)
from heddle.prim.ops import const, greater_equal, less, logical_not, multiply
from heddle.runtime.dtype import DataType
from heddle.tir.nodes import BufferLoad, For

MAX_SIZE = 1 << 31
"""The largest symbolic size with which a proof holds: products of two still fit 64 bits."""
DIVISIONS = (Div, Mod, FloorDiv, FloorMod)
_ARITHMETIC = (Add, Sub, Mul, Min, Max, *DIVISIONS)
_PLAIN_CALLS = ("tir.likely", "tir.if_then_else")


class ExactIndices:
    """Proofs about expressions at one place of a function; the place moves as facts come and go."""

    def __init__(self) -> None:
        self._analyzer = Analyzer()

    # ---- facts

    def know_size(self, var: Var, is_summand: bool = False) -> None:
        """A size: not negative, at most MAX_SIZE. A summand of sizes may be negative."""
        self._analyzer.update(var, ConstIntBound(-MAX_SIZE if is_summand else 0, MAX_SIZE), override=True)

    def know_loop(self, loop: For) -> bool:
        """Learn a loop's range, if its bounds are exact; else nothing is known of its variable."""
        end = loop.min + loop.extent
        if not (self.is_exact(end) and _reads_nothing(end)):
            return False
        self._analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent), allow_override=True)
        return True

    def know_value(self, var: Var, value: PrimExpr) -> None:
        """Learn what a variable is bound to."""
        if not (var.dtype.is_int and var.dtype.lanes == 1 and self.is_exact(value)):
            return
        if _reads_nothing(value):
            self._analyzer.bind(var, value, allow_override=True)
        else:
            self._analyzer.update(var, self._analyzer.const_int_bound(value), override=True)

    @contextmanager
    def under(self, condition: Any, holds: bool = True) -> Iterator[None]:
        """Where a condition holds (or does not). One that reads memory says nothing: memory changes."""
        if condition.dtype.lanes > 1 or not (_reads_nothing(condition) and self.is_exact(condition)):
            yield
            return
        with self._analyzer.constraint_scope(condition if holds else logical_not(condition)):
            yield

    # ---- questions

    def is_exact(self, expr: Any) -> bool:
        """Whether the machine's value is the mathematical one."""
        if isinstance(expr, (IntImm, Var)):
            return True
        if isinstance(expr, BufferLoad):
            return True  # some value of its dtype
        if isinstance(expr, (CompareExpr, And, Or, Not)):
            return all(self.is_exact(child) for child in children(expr))
        if isinstance(expr, Call):
            return expr.op.name in _PLAIN_CALLS and all(self.is_exact(arg) for arg in expr.args)
        if not isinstance(expr, (*_ARITHMETIC, Cast)) or expr.dtype.lanes > 1:
            return False
        if not (expr.dtype.is_int and all(self.is_exact(child) for child in children(expr))):
            return False
        if isinstance(expr, Cast):
            given = expr.value.dtype
            return (given.is_int or given.is_bool) and self._fits(expr.value, expr.dtype)
        if isinstance(expr, DIVISIONS) and not self.is_nonzero(expr.b):
            return False
        return self._fits(expr, expr.dtype)

    def is_inside(self, index: PrimExpr, extent: PrimExpr) -> bool:
        """Whether 0 <= index < extent for sure."""
        loads = sum(isinstance(node, BufferLoad) for node in walk(index))
        if loads > 1 or not self.is_exact(index) or not self.is_exact(extent):
            return False  # two loads of one place need not give one value: another thread may write it
        return bool(
            self._analyzer.can_prove(greater_equal(index, const(0, index.dtype)))
            and self._is_less(index, extent)
        )

    def _is_less(self, index: PrimExpr, extent: PrimExpr) -> bool:
        """index < extent; of a quotient by c, floor(a / c) < extent <=> a < extent * c."""
        if self._analyzer.can_prove(less(index, extent)):
            return True
        if not (isinstance(index, FloorDiv) and isinstance(index.b, IntImm) and index.b.value > 0):
            return False
        whole = multiply(extent, index.b)
        return self.is_exact(whole) and self._is_less(index.a, whole)

    def is_nonzero(self, divisor: PrimExpr) -> bool:
        """Whether a divisor is proved to be an integer other than 0, in every lane."""
        if isinstance(divisor, IntImm):
            return divisor.value != 0
        if divisor.dtype.lanes > 1 or not divisor.dtype.is_int or not self.is_exact(divisor):
            return False
        bound = self._analyzer.const_int_bound(divisor)
        return bound.min_value > 0 or bound.max_value < 0

    def is_at_most(self, expr: PrimExpr, limit: int) -> bool:
        """Whether an expression is exact and lies in [0, limit]."""
        if not self.is_exact(expr):
            return False
        bound = self._analyzer.const_int_bound(expr)
        return bound.min_value >= 0 and bound.max_value <= limit

    def _fits(self, expr: PrimExpr, dtype: DataType) -> bool:
        bound = self._analyzer.const_int_bound(expr)
        low, high = limits(dtype)
        inside = low <= bound.min_value and bound.max_value <= high
        if isinstance(expr, BinaryExpr):  # the ends of int64 stand for "no bound"
            inside = inside and bound.min_value > ConstIntBound.NEG_INF
            inside = inside and bound.max_value < ConstIntBound.POS_INF
        return inside


def limits(dtype: DataType) -> tuple[int, int]:
    """The least and the greatest integer of a dtype."""
    if dtype.is_unsigned:
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


def _reads_nothing(expr: Any) -> bool:
    return not any(isinstance(node, BufferLoad) for node in walk(as_expr(expr)))
