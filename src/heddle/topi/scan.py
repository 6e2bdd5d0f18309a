"""Running sums and products along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from heddle import te
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import cast, maximum, minimum
from heddle.runtime.dtype import DataType
from heddle.tir.nodes import Buffer, Stmt, seq
from heddle.topi.dims import positive_axis
from heddle.topi.loops import Cell, load, loop, nest, store
from heddle.topi.reduce import accumulator
from heddle.topi.transform import flatten

Combine = Callable[[PrimExpr, PrimExpr], PrimExpr]


def scan(
    x: te.Tensor,
    combine: Combine,
    start: int,
    axis: int | None,
    dtype: str | None,
    exclusive: bool,
    name: str,
) -> te.Tensor:
    """Along an axis the combination of all elements so far, without the element itself if `exclusive`."""
    if axis is None:
        return scan(x if x.ndim == 1 else flatten(x), combine, start, 0, dtype, exclusive, name)
    at, target = positive_axis(axis, x.ndim), DataType(dtype or x.dtype)
    wide = accumulator(target)
    if at < x.ndim - 1 and wide == target:
        return _scan_rows(x, combine, constant(start, target), at, exclusive, name)
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

        return nest("r", outer, row)

    result: te.Tensor = te.extern(tuple(x.shape), [x], body, name=name, dtype=target)
    return result


def _scan_rows(
    x: te.Tensor, combine: Combine, start: PrimExpr, at: int, exclusive: bool, name: str
) -> te.Tensor:
    """Along an axis that is not the last one: row after row, each of the row before and the next elements,
    so that memory is met in order. The totals are those that one element after the other would give.
    """
    before, length, behind = x.shape[:at], x.shape[at], x.shape[at + 1 :]
    dtype = start.dtype

    def body(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Stmt:
        def part(index: tuple[PrimExpr, ...]) -> Stmt:
            def element(buffer: Buffer, row: PrimExpr, rest: tuple[PrimExpr, ...]) -> PrimExpr:
                return cast(dtype, load(buffer, (*index, row, *rest)))

            def first(row: PrimExpr) -> Stmt:
                def each(rest: tuple[PrimExpr, ...]) -> Stmt:
                    value = start if exclusive else combine(start, element(inputs[0], row, rest))
                    return store(outputs[0], value, (*index, row, *rest))

                return nest("first", behind, each)

            def following(before_row: PrimExpr) -> Stmt:
                row = before_row + 1

                def each(rest: tuple[PrimExpr, ...]) -> Stmt:
                    own = element(inputs[0], before_row if exclusive else row, rest)
                    value = combine(element(outputs[0], before_row, rest), own)
                    return store(outputs[0], value, (*index, row, *rest))

                return nest("next", behind, each)

            return seq(loop("begin", minimum(length, 1), first), loop("i", maximum(length - 1, 0), following))

        return nest("r", before, part)

    result: te.Tensor = te.extern(tuple(x.shape), [x], body, name=name, dtype=dtype)
    return result


def cumsum(
    x: te.Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool = False
) -> te.Tensor:
    """Running sums."""
    return scan(x, lambda a, b: a + b, 0, axis, dtype, exclusive, "cumsum")


def cumprod(
    x: te.Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool = False
) -> te.Tensor:
    """Running products."""
    return scan(x, lambda a, b: a * b, 1, axis, dtype, exclusive, "cumprod")
