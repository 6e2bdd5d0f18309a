"""Sorting along an axis: a stable bottom-up merge sort of indices in loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from heddle import te
from heddle.prim.intrinsics import isnan
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import cast, logical_and, logical_not, logical_or, minimum
from heddle.prim.ops import less as less_than
from heddle.tir.nodes import AllocBuffer, Buffer, IfThenElse, Stmt, While, decl_buffer, seq
from heddle.topi.dims import as_dim, positive_axis
from heddle.topi.index import element_of
from heddle.topi.loops import Cell, load, loop, nest, store

Before = Callable[[PrimExpr, PrimExpr], PrimExpr]


def precedes(a: PrimExpr, b: PrimExpr, descending: bool) -> PrimExpr:
    """Whether a must stand before b. NaN is the greatest."""
    before: PrimExpr = a > b if descending else a < b
    if not a.dtype.is_float:
        return before
    first, second = (a, b) if descending else (b, a)
    return logical_or(before, logical_and(isnan(first), logical_not(isnan(second))))


def argsort(x: te.Tensor, axis: int = -1, descending: bool = False, dtype: str = "int32") -> te.Tensor:
    """The positions of the elements along an axis in sorted order; equal elements keep their order."""
    at = positive_axis(axis, x.ndim)
    size = x.shape[at]
    outer = [dim for k, dim in enumerate(x.shape) if k != at]

    def body(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Stmt:
        source, target = inputs[0], outputs[0]
        order, merged = (decl_buffer((size,), "int64", name) for name in ("order", "merged"))

        def row(index: tuple[PrimExpr, ...]) -> Stmt:
            def value(position: PrimExpr) -> PrimExpr:
                return load(source, (*index[:at], load(order, (position,)), *index[at:]))

            fill = loop("f", size, lambda i: store(order, i, (i,)))
            write = loop(
                "w",
                size,
                lambda i: store(target, cast(dtype, load(order, (i,))), (*index[:at], i, *index[at:])),
            )
            return seq(
                AllocBuffer(order),
                AllocBuffer(merged),
                fill,
                _merge_passes(size, order, merged, lambda a, b: precedes(value(a), value(b), descending)),
                write,
            )

        return nest("r", outer, row)

    result: te.Tensor = te.extern(tuple(x.shape), [x], body, name="argsort", dtype=dtype)
    return result


def _merge_passes(size: PrimExpr, order: Buffer, merged: Buffer, before: Before) -> Stmt:
    """Runs of width 1, 2, 4, ... are merged in pairs until one run is left. `before(a, b)` compares
    positions in `order`.
    """
    width, begin = Cell("width"), Cell("begin")
    left, right, middle, end = Cell("left"), Cell("right"), Cell("middle"), Cell("end")

    def place(k: PrimExpr) -> Stmt:
        """The next of the two runs' heads goes to place k."""
        take_left = seq(store(merged, load(order, (left.get(),)), (k,)), left.set(left.get() + 1))
        take_right = seq(store(merged, load(order, (right.get(),)), (k,)), right.set(right.get() + 1))
        compare = IfThenElse(before(right.get(), left.get()), take_right, take_left)
        both = IfThenElse(less_than(right.get(), end.get()), compare, take_left)
        return IfThenElse(less_than(left.get(), middle.get()), both, take_right)

    pair = seq(
        middle.set(minimum(begin.get() + width.get(), size)),
        end.set(minimum(begin.get() + width.get() * 2, size)),
        left.set(begin.get()),
        right.set(middle.get()),
        loop("k", end.get() - begin.get(), lambda k: place(begin.get() + k)),
        begin.set(end.get()),
    )
    one_pass = seq(
        begin.set(constant(0, "int64")),
        While(less_than(begin.get(), size), pair),
        loop("c", size, lambda i: store(order, load(merged, (i,)), (i,))),
        width.set(width.get() * 2),
    )
    cells = [cell.declare() for cell in (width, begin, left, right, middle, end)]
    return seq(*cells, width.set(constant(1, "int64")), While(less_than(width.get(), size), one_pass))


def gather_along(x: te.Tensor, order: te.Tensor, axis: int, length: PrimExpr, name: str) -> te.Tensor:
    """The first `length` elements of x along an axis in the order of positions."""
    at = positive_axis(axis, x.ndim)
    shape = (*x.shape[:at], length, *x.shape[at + 1 :])

    def element(*index: PrimExpr) -> PrimExpr:
        position = cast("int64", order[index])
        return element_of(x, (*index[:at], position, *index[at + 1 :]))

    result: te.Tensor = te.compute(shape, element, name=name)
    return result


def sort(x: te.Tensor, axis: int = -1, descending: bool = False) -> te.Tensor:
    """The elements along an axis in sorted order."""
    at = positive_axis(axis, x.ndim)
    return gather_along(x, argsort(x, at, descending, "int64"), at, x.shape[at], "sort")


def topk(
    x: te.Tensor,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    largest: bool = True,
    dtype: str = "int32",
) -> tuple[te.Tensor, ...] | te.Tensor:
    """The k greatest (least) elements along an axis, sorted, and their positions; fewer where the axis is
    shorter.
    """
    at = positive_axis(axis, x.ndim)
    order = argsort(x, at, largest, "int64")
    length = topk_length(x.shape[at], k)
    shape = (*x.shape[:at], length, *x.shape[at + 1 :])
    values = gather_along(x, order, at, length, "topk_values")
    positions: te.Tensor = te.compute(shape, lambda *i: cast(dtype, order[i]), name="topk_indices")
    if ret_type == "both":
        return values, positions
    return values if ret_type == "values" else positions


def topk_length(size: PrimExpr, k: int) -> PrimExpr:
    """How many elements `topk` gives."""
    return size if k < 1 else as_dim(minimum(as_dim(k), size))


def searchsorted(boundaries: te.Tensor, x: te.Tensor, right: bool, dtype: str) -> te.Tensor:
    """For every element of x where it would stand in the sorted boundaries: behind equal ones if `right`."""
    size = boundaries.shape[0]

    def body(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Stmt:
        low, high = Cell("low"), Cell("high")

        def find(index: tuple[PrimExpr, ...]) -> Stmt:
            middle = (low.get() + high.get()) // 2
            bound, value = load(inputs[0], (middle,)), load(inputs[1], index)
            beyond = bound <= value if right else bound < value
            halve = IfThenElse(beyond, low.set(middle + 1), high.set(middle))
            search = While(less_than(low.get(), high.get()), halve)
            return seq(
                low.set(constant(0, "int64")),
                high.set(size),
                search,
                store(outputs[0], cast(dtype, low.get()), index),
            )

        return seq(low.declare(), high.declare(), nest("e", x.shape, find))

    result: te.Tensor = te.extern(tuple(x.shape), [boundaries, x], body, name="searchsorted", dtype=dtype)
    return result
