"""Iterator maps: indices written as sums of digits of loop iterators.

    mark  = IterMark(source, extent)            an iterator in [0, extent): a variable less its minimum,
    or a fused sum split = IterSplitExpr(mark, lower, extent, scale) = mark // lower % extent * scale
    sum   = IterSumExpr(splits, base)           = split + split + ... + base

A mark is one iterator: two splits are of the same iterator if they hold the same mark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

from heddle.arith.codes import A0102
from heddle.ir.expr import Expr
from heddle.ir.node import derived, node
from heddle.prim.nodes import PrimExpr, as_expr
from heddle.prim.ops import add, floordiv, floormod, multiply
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import UsageError, did_you_mean


class IterMapLevel(IntEnum):
    """How much a map must satisfy: each output point once, each at least once, or nothing."""

    Bijective = 0
    Surjective = 1
    NoCheck = 3

    @staticmethod
    def from_str(name: str) -> IterMapLevel:
        """The level that a name says, in any case. Raises: UsageError A0102 for a name of no level."""
        levels = {level.name.lower(): level for level in IterMapLevel}
        if name.lower() not in levels:
            help = did_you_mean(name.lower(), levels) or f"the levels are {', '.join(levels)}"
            raise UsageError(A0102, f"no level of iterator maps is called {name!r}", help=help)
        return levels[name.lower()]


class IterMapExpr(PrimExpr):
    """The base of the parts of an iterator map that have a value."""

    __slots__ = ()


@node("arith.IterMark")
class IterMark(Expr):
    source: PrimExpr
    extent: PrimExpr

    @property
    def ty(self) -> None:
        """None: a mark has no type."""
        return None


@node("arith.IterSplitExpr")
class IterSplitExpr(IterMapExpr):
    source: IterMark
    lower_factor: PrimExpr
    extent: PrimExpr
    scale: PrimExpr
    dtype: DataType = derived()

    def __post_init__(self) -> None:
        dtype = self.source.source.dtype
        self.set_derived("dtype", dtype)
        for name in ("lower_factor", "extent", "scale"):
            self.set_derived(name, as_expr(getattr(self, name), dtype))


@node("arith.IterSumExpr")
class IterSumExpr(IterMapExpr):
    args: tuple[IterSplitExpr, ...]
    base: PrimExpr
    dtype: DataType = derived()

    def __post_init__(self) -> None:
        self.set_derived("args", tuple(self.args))
        self.set_derived("base", as_expr(self.base, self.args[0].dtype if self.args else None))
        self.set_derived("dtype", self.base.dtype)


def iter_value(expr: Any, covers: Callable[[PrimExpr, PrimExpr], bool]) -> PrimExpr:
    """The scalar expression that a mark, a split or a sum stands for, not simplified. `covers(a, b)`
    says whether a = b could be proved: the remainder of a digit that reaches the iterator's extent is
    left out."""
    if isinstance(expr, IterMark):
        return iter_value(expr.source, covers)
    if isinstance(expr, IterSplitExpr):
        value = floordiv(iter_value(expr.source, covers), expr.lower_factor)
        if not covers(multiply(expr.lower_factor, expr.extent), expr.source.extent):
            value = floormod(value, expr.extent)
        return multiply(value, expr.scale)
    if isinstance(expr, IterSumExpr):
        total: Any = None
        for arg in expr.args:
            value = iter_value(arg, covers)
            total = value if total is None else add(total, value)
        return expr.base if total is None else add(total, expr.base)
    result: PrimExpr = expr
    return result


def marks_of(sums: Sequence[IterSumExpr]) -> list[IterMark]:
    """All marks below some sums, each once, users before what they use."""
    found: list[IterMark] = []
    seen: set[int] = set()

    def visit(mark: IterMark) -> None:
        if id(mark) in seen:
            return
        seen.add(id(mark))
        if isinstance(mark.source, IterSumExpr):
            for arg in mark.source.args:
                visit(arg.source)
        found.append(mark)

    for item in sums:
        for arg in item.args:
            visit(arg.source)
    return found[::-1]
