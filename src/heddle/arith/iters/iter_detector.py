"""Rewriting expressions over loop iterators to sums of digits, fusing the sums, and checking the digits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heddle.arith.analyzer import Analyzer
from heddle.arith.iters.iter_nodes import IterMapLevel, IterMark, IterSplitExpr, IterSumExpr, marks_of
from heddle.prim.nodes import (
    LE,
    LT,
    Add,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    PrimExpr,
    Range,
    Sub,
    Var,
    constant,
    is_const_int,
)
from heddle.prim.ops import ceildiv, conjuncts, maximum, minimum, multiply
from heddle.prim.substitute import free_vars
from heddle.support.frozen import frozen


class NotAffineError(Exception):
    """Raised and caught inside detection; its text becomes an entry of `IterMapResult.errors`."""


@frozen
class _Constraint:
    """lower <= sum(splits) < upper; either end may be None."""

    args: tuple[IterSplitExpr, ...]
    lower: PrimExpr | None
    upper: PrimExpr | None


class IterMapDetector:
    """Rewrites expressions over given iterators to sums of splits. Marks are made once for each fused sum."""

    def __init__(
        self, input_iters: Mapping[Var, Range], analyzer: Analyzer, trivial: bool, exact: bool
    ) -> None:
        self.analyzer = analyzer
        self.exact = exact
        self.constraints: list[_Constraint] = []
        self._vars: dict[Var, IterSumExpr] = {}
        self._fused: list[IterMark] = []
        self.var_marks: list[IterMark] = []
        for var, dom in input_iters.items():
            low, extent = analyzer.simplify(dom.min), analyzer.simplify(dom.extent)
            if trivial and is_const_int(extent, 1):
                self._vars[var] = IterSumExpr((), low)
                continue
            mark = IterMark(var if is_const_int(low, 0) else var - low, extent)
            self.var_marks.append(mark)
            one = constant(1, var.dtype)
            self._vars[var] = IterSumExpr((IterSplitExpr(mark, one, extent, one),), low)

    # -- algebra of sums ---------------------------------------------------------------------------

    def simplify(self, expr: Any) -> Any:
        """The expression as the analyzer simplifies it, under the ranges of the iterators."""
        return self.analyzer.simplify(expr)

    def same(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Whether two expressions are proved to be equal."""
        return a is b or self.analyzer.can_prove_equal(a, b)

    def to_sum(self, expr: PrimExpr) -> IterSumExpr:
        """An expression as a sum of splits, not fused. Raises NotAffineError."""
        if isinstance(expr, Var) and expr in self._vars:
            return self._vars[expr]
        if not any(var in self._vars for var in free_vars(expr)):
            return IterSumExpr((), expr)
        if isinstance(expr, Add):
            return self._plus(self.to_sum(expr.a), self.to_sum(expr.b), 1)
        if isinstance(expr, Sub):
            return self._plus(self.to_sum(expr.a), self.to_sum(expr.b), -1)
        if isinstance(expr, Mul):
            a, b = self.to_sum(expr.a), self.to_sum(expr.b)
            if a.args and b.args:
                raise NotAffineError("an index multiplies two iterators")
            return self._times(a, b.base) if a.args else self._times(b, a.base)
        if isinstance(expr, (FloorDiv, FloorMod)):
            return self._divided(expr)
        raise NotAffineError(f"an index uses {expr.node_kind} on iterators")

    def fused_index(self, index: PrimExpr) -> IterSumExpr:
        """An index, as written or else simplified, as one fused split. As written keeps (6*i + j) // 4
        in one piece."""
        try:
            return self.fuse(self.to_sum(index))
        except NotAffineError:
            return self.fuse(self.to_sum(self.simplify(index)))

    def _plus(self, a: IterSumExpr, b: IterSumExpr, sign: int) -> IterSumExpr:
        args = list(a.args)
        for arg in b.args:
            for index, mine in enumerate(args):
                if self._same_digit(mine, arg):
                    scale = self.simplify(mine.scale + arg.scale * sign)
                    args[index] = IterSplitExpr(mine.source, mine.lower_factor, mine.extent, scale)
                    break
            else:
                scale = arg.scale if sign == 1 else self.simplify(arg.scale * -1)
                args.append(IterSplitExpr(arg.source, arg.lower_factor, arg.extent, scale))
        kept = tuple(arg for arg in args if not is_const_int(arg.scale, 0))
        return IterSumExpr(kept, self.simplify(a.base + b.base * sign))

    def _same_digit(self, a: IterSplitExpr, b: IterSplitExpr) -> bool:
        return (
            a.source is b.source
            and self.same(a.lower_factor, b.lower_factor)
            and self.same(a.extent, b.extent)
        )

    def _same_term(self, a: IterSplitExpr, b: IterSplitExpr) -> bool:
        return self._same_digit(a, b) and self.same(a.scale, b.scale)

    def _times(self, a: IterSumExpr, factor: PrimExpr) -> IterSumExpr:
        args = tuple(
            IterSplitExpr(arg.source, arg.lower_factor, arg.extent, self.simplify(arg.scale * factor))
            for arg in a.args
        )
        return IterSumExpr(args, self.simplify(a.base * factor))

    def _divided(self, expr: FloorDiv | FloorMod) -> IterSumExpr:
        """(split * scale + base) // c and % c where c divides the base."""
        divisor = self.to_sum(expr.b)
        if divisor.args:
            raise NotAffineError("an index divides by an iterator")
        c = divisor.base
        if is_const_int(c, 0):
            raise NotAffineError("an index divides by zero")  # where nothing runs
        fused = self.fuse(self.to_sum(expr.a))
        zero = constant(0, expr.dtype)
        if not self._divides(c, fused.base):
            raise NotAffineError("an offset is not a multiple of the divisor")
        base = self.simplify(fused.base // c) if isinstance(expr, FloorDiv) else zero
        if not fused.args:
            return IterSumExpr((), base)
        split = self._digit(fused.args[0], c, isinstance(expr, FloorDiv))
        return IterSumExpr((split,) if split is not None else (), base)

    def _divides(self, c: PrimExpr, value: PrimExpr) -> bool:
        if is_const_int(value, 0) or self.same(c, value):
            return True
        return not is_const_int(c, 0) and is_const_int(self.simplify(value % c), 0)

    def _digit(self, split: IterSplitExpr, c: PrimExpr, is_quotient: bool) -> IterSplitExpr | None:
        """The quotient or rest of a split by c; None where it is zero.

        With c = scale * k, (digit * scale) // c = digit // k and (digit * scale) % c = digit % k * scale;
        for k < 0 the quotient would be -ceil(digit / -k), which is no digit. Where k does not divide the
        extent, `source // lower % extent // k` is a digit of the source only if nothing lies above this one.
        """
        mark, lower, extent, scale = split.source, split.lower_factor, split.extent, split.scale
        one = constant(1, extent.dtype)
        if self._divides(c, scale):
            if not is_quotient:
                return None
            return IterSplitExpr(mark, lower, extent, self.simplify(scale // c))
        if not self._divides(scale, c):
            raise NotAffineError("a scale neither divides a divisor nor is divided by it")
        c = self.simplify(c // scale)
        if not self.analyzer.can_prove_greater_equal(c, 0):
            raise NotAffineError("a divisor and a scale may have different signs")
        if self._at_most(extent, c):
            return None if is_quotient else split
        if self._divides(c, extent):
            rest = self.simplify(extent // c)
        elif self.exact or not self._is_coarsest(split):
            raise NotAffineError("a divisor does not divide the extent of an iterator")
        else:
            rest = self.simplify((extent + c - 1) // c)
        if is_quotient:
            return IterSplitExpr(mark, self.simplify(lower * c), rest, one)
        return IterSplitExpr(mark, lower, c, scale)

    def _is_coarsest(self, split: IterSplitExpr) -> bool:
        """Whether the digit reaches the end of its iterator, so that it is what a division leaves."""
        return self._at_most(split.source.extent, multiply(split.lower_factor, split.extent))

    def _at_most(self, a: PrimExpr, b: PrimExpr) -> bool:
        return self.analyzer.can_prove(a <= b)

    # -- fusing ------------------------------------------------------------------------------------

    def fuse(self, expr: IterSumExpr) -> IterSumExpr:
        """The sum as one split of a mark: its scales must be the running products of its extents."""
        if not expr.args:
            return expr
        args, unit = self._compact(expr.args)
        constraint = self._constraint_of(args)
        if len(args) == 1 and constraint is None:
            return expr
        extent: Any = constant(1, expr.dtype)
        for arg in args:
            extent = extent * arg.extent
        mark, offset = self._fused_mark(args, self.simplify(extent), constraint)
        one = constant(1, expr.dtype)
        split = IterSplitExpr(mark, one, mark.extent, unit)
        return IterSumExpr((split,), self.simplify(expr.base + offset * unit))

    def _compact(self, args: tuple[IterSplitExpr, ...]) -> tuple[tuple[IterSplitExpr, ...], PrimExpr]:
        """The splits from the coarsest to the finest, over the scale of the finest, and that scale."""
        ordered, unit = self._ordered(args)
        return tuple(
            IterSplitExpr(arg.source, arg.lower_factor, arg.extent, self.simplify(arg.scale // unit))
            for arg in reversed(ordered)
        ), unit

    def _ordered(self, args: tuple[IterSplitExpr, ...]) -> tuple[list[IterSplitExpr], PrimExpr]:
        """The splits from the finest to the coarsest, and the scale of the finest. Raises if there are
        gaps."""
        rest = list(args)
        for first in sorted(rest, key=const_scale):
            unit = first.scale
            left, ordered, expected = [arg for arg in rest if arg is not first], [first], unit * first.extent
            while left:
                expected = self.simplify(expected)
                index = next((i for i, arg in enumerate(left) if self.same(arg.scale, expected)), None)
                if index is None:
                    break
                found = left.pop(index)
                ordered.append(found)
                expected = expected * found.extent
            if not left:
                return ordered, unit
        raise NotAffineError("the scales of the iterators in a sum leave gaps or overlap")

    def _fused_mark(
        self,
        args: tuple[IterSplitExpr, ...],
        extent: PrimExpr,
        constraint: _Constraint | None,
    ) -> tuple[IterMark, PrimExpr]:
        offset: PrimExpr = constant(0, extent.dtype)
        if constraint is not None:
            high = extent if constraint.upper is None else constraint.upper
            if not self._at_most(high, extent):
                high = self.simplify(minimum(high, extent))
            if constraint.lower is not None:
                offset = constraint.lower
                if not self.analyzer.can_prove_greater_equal(offset, 0):
                    offset = self.simplify(maximum(offset, 0))
            extent = self.simplify(high - offset)
        base = self.simplify(offset * -1)
        for mark in self._fused:  # a predicate may fuse the splits before it bounds them: not the same mark
            sums: Any = mark.source
            if (
                len(sums.args) == len(args)
                and all(self._same_term(a, b) for a, b in zip(sums.args, args, strict=True))
                and self.same(sums.base, base)
                and self.same(mark.extent, extent)
            ):
                return mark, offset
        mark = IterMark(IterSumExpr(args, base), extent)
        self._fused.append(mark)
        return mark, offset

    def _constraint_of(self, args: tuple[IterSplitExpr, ...]) -> _Constraint | None:
        """The constraint on exactly these splits, with these scales."""
        for item in self.constraints:
            if len(item.args) == len(args) and all(
                any(self._same_term(a, b) for b in item.args) for a in args
            ):
                return item
        return None

    # -- predicates --------------------------------------------------------------------------------

    def add_predicate(self, predicate: PrimExpr) -> None:
        """Take bounds on sums from a conjunction of comparisons. Raises NotAffineError for anything else."""
        bounds: list[_Constraint] = []
        for condition in conjuncts(self.simplify(predicate)):
            if isinstance(condition, IntImm):
                if not condition.value:
                    raise NotAffineError("the predicate never holds")
                continue
            bounds.append(self._compact_bound(self._bound_of(condition)))
        for bound in bounds:
            self._merge(bound)

    def _compact_bound(self, bound: _Constraint) -> _Constraint:
        args, unit = self._compact(bound.args)
        ends = [
            None if end is None else self.simplify(ceildiv(end, unit)) for end in (bound.lower, bound.upper)
        ]
        return _Constraint(args, *ends)

    def _bound_of(self, condition: PrimExpr) -> _Constraint:
        if not isinstance(condition, (LT, LE)):
            raise NotAffineError("the predicate is no conjunction of inequalities")
        gap = self._plus(self.to_sum(condition.b), self.to_sum(condition.a), -1)
        slack = 1 if isinstance(condition, LE) else 0
        scales = [self.analyzer.const_int_bound(arg.scale) for arg in gap.args]
        if scales and all(bound.max_value <= 0 for bound in scales):
            flipped = self._times(IterSumExpr(gap.args, constant(0, gap.dtype)), constant(-1, gap.dtype))
            return _Constraint(flipped.args, None, self.simplify(gap.base + slack))
        if scales and all(bound.min_value >= 0 for bound in scales):
            return _Constraint(gap.args, self.simplify(gap.base * -1 + (1 - slack)), None)
        raise NotAffineError("an inequality of the predicate has iterators on both sides")

    def _merge(self, bound: _Constraint) -> None:
        for index, item in enumerate(self.constraints):
            if self._constraint_of(bound.args) is item:
                lower = item.lower if bound.lower is None else bound.lower
                upper = item.upper if bound.upper is None else bound.upper
                if None not in (item.upper, bound.upper):
                    upper = self.simplify(minimum(item.upper, bound.upper))
                if None not in (item.lower, bound.lower):
                    lower = self.simplify(maximum(item.lower, bound.lower))
                self.constraints[index] = _Constraint(item.args, lower, upper)
                return
        self.constraints.append(bound)

    # -- checks ------------------------------------------------------------------------------------

    def check(self, sums: Sequence[IterSumExpr], level: IterMapLevel) -> None:
        """Raise where digits of an iterator overlap, or (bijective) where one is missing."""
        uses: dict[int, list[IterSplitExpr]] = {}
        marks = marks_of(sums)
        for item in (*sums, *(mark.source for mark in marks if isinstance(mark.source, IterSumExpr))):
            for arg in item.args:
                uses.setdefault(id(arg.source), []).append(arg)
        for mark in marks:
            self._check_digits(mark, uses[id(mark)], level)
        self._check_constraints(marks)
        if level is IterMapLevel.Bijective:
            missing = [mark for mark in self.var_marks if id(mark) not in uses]
            if any(not is_const_int(mark.extent, 1) for mark in missing):
                raise NotAffineError("an iterator does not occur in the indices")

    def _check_constraints(self, marks: list[IterMark]) -> None:
        fused = [mark.source.args for mark in marks if isinstance(mark.source, IterSumExpr)]
        for item in self.constraints:
            if not any(
                len(args) == len(item.args)
                and all(any(self._same_term(a, b) for b in args) for a in item.args)
                for args in fused
            ):
                raise NotAffineError("a predicate bounds a sum that is no part of the indices")

    def _check_digits(self, mark: IterMark, splits: list[IterSplitExpr], level: IterMapLevel) -> None:
        left = list(splits)
        expected: Any = constant(1, mark.extent.dtype)
        while left:
            found = next((arg for arg in left if self.same(arg.lower_factor, expected)), None)
            if found is None and level is not IterMapLevel.Bijective:
                gaps = [arg for arg in left if self._divides(expected, arg.lower_factor)]
                found = min(gaps, key=_const_lower, default=None)
                if found is not None and len(gaps) < len(left):
                    found = None
            if found is None:
                raise NotAffineError("the digits of an iterator overlap or leave gaps")
            del left[next(index for index, arg in enumerate(left) if arg is found)]
            expected = self.simplify(found.lower_factor * found.extent)
        whole = self.same(expected, mark.extent) or (
            level is not IterMapLevel.Bijective and self._divides(expected, mark.extent)
        )
        if not whole:
            raise NotAffineError("the digits of an iterator do not cover its extent")


def const_scale(split: IterSplitExpr) -> tuple[int, int]:
    """A key that sorts splits by the size of their scales: constants first, then symbolic ones as they
    stand."""
    return (0, abs(split.scale.value)) if isinstance(split.scale, IntImm) else (1, 0)


def _const_lower(split: IterSplitExpr) -> int:
    return split.lower_factor.value if isinstance(split.lower_factor, IntImm) else 0
