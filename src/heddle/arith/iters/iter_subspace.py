"""Dividing an iterator map by a subspace: each index as outer * (inner's extent) + inner.

    [i * 8 + j * 4 + k] by {j, k}, j in [0, 2), k in [0, 4):    outer = i,    inner = j * 4 + k of extent 8
What blockize and tensorize do: the inner parts index a tile, the outer parts say which tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from heddle.arith.analyzer import Analyzer
from heddle.arith.iters.iter_detector import NotAffineError
from heddle.arith.iters.iter_map import detect_iter_map, normalize_iter_map_to_expr
from heddle.arith.iters.iter_nodes import IterMapLevel, IterMark, IterSplitExpr, IterSumExpr, marks_of
from heddle.prim.nodes import PrimExpr, Range, Var, constant
from heddle.prim.ops import all as all_of
from heddle.prim.ops import floordiv, greater_equal, less, multiply
from heddle.prim.substitute import free_vars

Division = tuple[IterMark, IterMark]


def subspace_divide(
    bindings: Sequence[Any],
    input_iters: Mapping[Var, Range],
    sub_iters: Iterable[Var],
    predicate: Any = True,
    check_level: IterMapLevel | str = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
    analyzer: Analyzer | None = None,
) -> list[Division]:
    """A pair (outer, inner) for each binding; the last pair's extents are the outer and the inner condition.

    `sub_iters` are the iterators of the inner space. The offset of a binding belongs to its inner part if
    there is no outer one, else to its outer part. Empty where a binding does not divide.
    """
    found = detect_iter_map(
        bindings, input_iters, predicate, check_level, simplify_trivial_iterators, analyzer
    )
    if not found.indices:
        return []
    known = Analyzer() if analyzer is None else analyzer.clone()
    for var, dom in input_iters.items():
        known.bind(var, dom, allow_override=True)
    divider = _Divider(known, frozenset(sub_iters))
    try:
        pairs = [divider.divide(index) for index in found.indices]
    except NotAffineError:
        return []
    nothing = IterSumExpr((), constant(0))
    outer, inner = (
        all_of(*conditions) for conditions in (divider.outer_conditions, divider.inner_conditions)
    )
    return [*pairs, (IterMark(nothing, outer), IterMark(nothing, inner))]


class _Divider:
    """Divides fused sums; collects the conditions of constrained iterators by the side they lie on."""

    def __init__(self, known: Analyzer, inner_vars: frozenset[Var]) -> None:
        self.known = known
        self.inner_vars = inner_vars
        self.outer_conditions: list[PrimExpr] = []
        self.inner_conditions: list[PrimExpr] = []

    def divide(self, index: IterSumExpr) -> Division:
        """The outer and inner mark of an index. Raises NotAffineError if inner digits are not the finest."""
        one = constant(1, index.dtype)
        if not index.args:
            return IterMark(index, one), self._empty(index.dtype)
        (split,) = index.args
        side = self._side(split)
        if side is not None:
            self._note_conditions(split, side)
            mark = IterMark(index, split.extent)
            return (self._empty(index.dtype), mark) if side else (mark, self._empty(index.dtype))
        if not self.known.can_prove_equal(split.scale, 1) or not self._is_whole(split):
            raise NotAffineError("an index mixes outer and inner iterators in digits or with a scale")
        source = split.source.source
        assert isinstance(source, IterSumExpr)
        outer, inner = self._cut(source.args)
        for arg in (*outer, *inner):
            self._note_conditions(arg, arg in inner)
        inner_extent = self._extent(inner)
        scaled = tuple(
            IterSplitExpr(
                arg.source,
                arg.lower_factor,
                arg.extent,
                self.known.simplify(floordiv(arg.scale, inner_extent)),
            )
            for arg in outer
        )
        base = self.known.simplify(index.base)
        quotient = self.known.simplify(floordiv(base, inner_extent))
        if not self.known.can_prove_equal(multiply(quotient, inner_extent), base):
            raise NotAffineError("an offset is not a multiple of the inner extent")
        return (
            IterMark(IterSumExpr(scaled, quotient), self._extent(outer)),
            IterMark(IterSumExpr(inner, constant(0, index.dtype)), inner_extent),
        )

    def _empty(self, dtype: Any) -> IterMark:
        return IterMark(IterSumExpr((), constant(0, dtype)), constant(1, dtype))

    def _side(self, split: IterSplitExpr) -> bool | None:
        """True if all variables are inner, False if all are outer, None if there are both."""
        used: set[bool] = set()
        for mark in marks_of([IterSumExpr((split,), constant(0, split.dtype))]):
            if not isinstance(mark.source, IterSumExpr):
                used.add(any(var in self.inner_vars for var in free_vars(mark.source)))
        return used.pop() if len(used) == 1 else None

    def _cut(
        self, args: tuple[IterSplitExpr, ...]
    ) -> tuple[tuple[IterSplitExpr, ...], tuple[IterSplitExpr, ...]]:
        """The coarse digits, all outer, and the fine ones, all inner."""
        sides = [self._side(arg) for arg in args]
        count = sum(side is True for side in sides)
        if sides != [False] * (len(args) - count) + [True] * count:
            raise NotAffineError("inner iterators are not the finest digits of an index")
        return args[: len(args) - count], args[len(args) - count :]

    def _extent(self, args: tuple[IterSplitExpr, ...]) -> PrimExpr:
        extent: Any = constant(1, args[0].dtype)
        for arg in args:
            extent = multiply(extent, arg.extent)
        result: PrimExpr = self.known.simplify(extent)
        return result

    def _is_whole(self, split: IterSplitExpr) -> bool:
        """Whether the split is all of an unconstrained fused mark."""
        source = split.source.source
        if not isinstance(source, IterSumExpr) or not self.known.can_prove_equal(source.base, 0):
            return False
        return self.known.can_prove_equal(split.lower_factor, 1) and self.known.can_prove_equal(
            split.extent, self._extent(source.args)
        )

    def _note_conditions(self, split: IterSplitExpr, is_inner: bool) -> None:
        """Where a mark's extent is less than its digits span, its value must stay below the extent."""
        for mark in marks_of([IterSumExpr((split,), constant(0, split.dtype))]):
            source = mark.source
            if not isinstance(source, IterSumExpr):
                continue
            conditions = self.inner_conditions if is_inner else self.outer_conditions
            value = normalize_iter_map_to_expr(source)
            if not self.known.can_prove_equal(mark.extent, self._extent(source.args)):
                conditions.append(less(value, mark.extent))
            if not self.known.can_prove_equal(source.base, 0):
                conditions.append(greater_equal(value, 0))
