"""Cumulative sums and products along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from heddle import te
from heddle.arith.sizes import product
from heddle.ir.node import Map
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import cast, maximum, minimum
from heddle.runtime.dtype import DataType
from heddle.tir.allocation import STORAGE
from heddle.tir.nodes import AllocBuffer, Buffer, Stmt, decl_buffer, seq
from heddle.topi.dims import positive_axis
from heddle.topi.loops import Cell, load, loop, nest, on_threads, store
from heddle.topi.reduce import accumulator
from heddle.topi.transform import flatten

Combine = Callable[[PrimExpr, PrimExpr], PrimExpr]
_COST_OF_STEP = 8
"""Work in elements: an element of a row, each of which waits for the one before."""


def scan(
    x: te.Tensor,
    combine: Combine,
    start: int,
    axis: int | None,
    dtype: str | None,
    exclusive: bool,
    name: str,
) -> te.Tensor:
    """Return the running combination of the elements along an axis. With `exclusive`, the element itself is
    not included."""
    if axis is None:
        return scan(x if x.ndim == 1 else flatten(x), combine, start, 0, dtype, exclusive, name)
    at, target = positive_axis(axis, x.ndim), DataType(dtype or x.dtype)
    wide = accumulator(target)
    if at < x.ndim - 1:
        return _scan_rows(x, combine, constant(start, wide), at, exclusive, name, target)
    outer = [dim for k, dim in enumerate(x.shape) if k != at]

    def body(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Stmt:
        total = Cell(f"{name}_total", wide)

        def row(index: tuple[PrimExpr, ...]) -> Stmt:
            def step(position: PrimExpr) -> Stmt:
                full = (*index[:at], position, *index[at:])
                add = total.set(combine(total.get(), cast(wide, load(inputs[0], full))))
                write = store(outputs[0], cast(target, total.get()), full)
                return seq(write, add) if exclusive else seq(add, write)

            return seq(total.declare(), total.set(constant(start, wide)), loop("i", x.shape[at], step))

        return on_threads("r", outer, cast("int64", x.shape[at]) * _COST_OF_STEP, row)

    result: te.Tensor = te.extern(tuple(x.shape), [x], body, name=name, dtype=target)
    return result


def _scan_rows(
    x: te.Tensor,
    combine: Combine,
    start: PrimExpr,
    at: int,
    exclusive: bool,
    name: str,
    target: DataType,
) -> te.Tensor:
    """Along an axis that is not the last one: row after row, each of the totals of the row before and the
    next elements, so that memory is met in order. The totals are those that one element after the other would
    give; where they have more bits than the result, they have a row of their own.
    """
    before, length, behind = x.shape[:at], x.shape[at], x.shape[at + 1 :]
    wide = start.dtype

    def body(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Stmt:
        def part(index: tuple[PrimExpr, ...]) -> Stmt:
            rows = _Rows(outputs[0], index, behind, wide)

            def element(row: PrimExpr, rest: tuple[PrimExpr, ...]) -> PrimExpr:
                return cast(wide, load(inputs[0], (*index, row, *rest)))

            def first(row: PrimExpr) -> Stmt:
                return rows.fill(row, lambda rest: start if exclusive else combine(start, element(row, rest)))

            def following(last: PrimExpr) -> Stmt:
                row = last + 1

                def value(rest: tuple[PrimExpr, ...]) -> PrimExpr:
                    return combine(rows.total(last, rest), element(last if exclusive else row, rest))

                return rows.fill(row, value)

            steps = loop("begin", minimum(length, 1), first), loop("i", maximum(length - 1, 0), following)
            return seq(*rows.declare(), *steps)

        return on_threads("r", before, product((length, *behind)), part)

    result: te.Tensor = te.extern(tuple(x.shape), [x], body, name=name, dtype=target)
    return result


class _Rows:
    """The rows of a running total: those of the result, or, where totals are wider, one that is converted."""

    def __init__(
        self, result: Buffer, index: tuple[PrimExpr, ...], behind: Sequence[PrimExpr], wide: DataType
    ) -> None:
        self.result, self.index, self.behind = result, index, behind
        self.totals = None if wide == result.dtype else decl_buffer(tuple(behind), str(wide), "totals")

    def declare(self) -> list[Stmt]:
        """The statement that makes room for wider totals."""
        return [] if self.totals is None else [AllocBuffer(self.totals, Map({STORAGE: "workspace"}))]

    def total(self, row: PrimExpr, rest: tuple[PrimExpr, ...]) -> PrimExpr:
        """The total up to a row, which is the last that was filled."""
        if self.totals is not None:
            return load(self.totals, rest)
        return load(self.result, (*self.index, row, *rest))

    def fill(self, row: PrimExpr, value: Callable[[tuple[PrimExpr, ...]], PrimExpr]) -> Stmt:
        """A row of totals."""

        def place(rest: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
            return (*self.index, row, *rest)

        if self.totals is None:
            return nest("total", self.behind, lambda rest: store(self.result, value(rest), place(rest)))
        totals, dtype = self.totals, self.result.dtype
        return seq(
            nest("total", self.behind, lambda rest: store(totals, value(rest), rest)),
            nest(
                "narrow",
                self.behind,
                lambda rest: store(self.result, cast(dtype, load(totals, rest)), place(rest)),
            ),
        )


def cumsum(
    x: te.Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool = False
) -> te.Tensor:
    """Return the cumulative sums along an axis."""
    return scan(x, lambda a, b: a + b, 0, axis, dtype, exclusive, "cumsum")


def cumprod(
    x: te.Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool = False
) -> te.Tensor:
    """Return the cumulative products along an axis."""
    return scan(x, lambda a, b: a * b, 1, axis, dtype, exclusive, "cumprod")
