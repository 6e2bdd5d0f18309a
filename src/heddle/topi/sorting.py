"""Sorting along an axis: a stable bottom-up merge sort of indices, and a heap for the first few elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from heddle import te
from heddle.arith.sizes import as_dim
from heddle.prim.intrinsics import isnan
from heddle.prim.nodes import IntImm, Min, PrimExpr, constant
from heddle.prim.ops import cast, equal, logical_and, logical_not, logical_or, minimum
from heddle.prim.ops import less as less_than
from heddle.tir.nodes import AllocBuffer, Buffer, IfThenElse, Stmt, While, decl_buffer, seq
from heddle.topi.dims import positive_axis
from heddle.topi.index import element_of
from heddle.topi.loops import Cell, load, loop, on_threads, store

_COST_OF_SORTING, _COST_OF_CHOOSING, _COST_OF_SEARCHING = 64, 4, 64
"""Work in elements: for each of an axis that is sorted, or of which few are chosen, and for a search."""

Before = Callable[[PrimExpr, PrimExpr], PrimExpr]
Prepare = Callable[[PrimExpr, PrimExpr], Stmt]


def precedes(a: PrimExpr, b: PrimExpr, descending: bool) -> PrimExpr:
    """Whether a must come before b. NaN is the greatest value."""
    before: PrimExpr = a > b if descending else a < b
    if not a.dtype.is_float:
        return before
    first, second = (a, b) if descending else (b, a)
    return logical_or(before, logical_and(isnan(first), logical_not(isnan(second))))


def argsort(x: te.Tensor, axis: int = -1, descending: bool = False, dtype: str = "int32") -> te.Tensor:
    """Return the indices that sort the elements along an axis. The sort is stable."""
    at = positive_axis(axis, x.ndim)
    size = cast("int64", x.shape[at])
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
                merge_passes(size, order, merged, lambda a, b: precedes(value(a), value(b), descending)),
                write,
            )

        return on_threads("r", outer, size * _COST_OF_SORTING, row)

    result: te.Tensor = te.extern(tuple(x.shape), [x], body, name="argsort", dtype=dtype)
    return result


def merge_passes(
    size: PrimExpr, order: Buffer, merged: Buffer, before: Before, prepare: Prepare | None = None
) -> Stmt:
    """Runs of width 1, 2, 4, ... are merged in pairs until one run is left. `before(a, b)` compares
    positions in `order`, after `prepare(a, b)` ran.
    """
    width, begin = Cell("width"), Cell("begin")
    left, right, middle, end = Cell("left"), Cell("right"), Cell("middle"), Cell("end")

    def place(k: PrimExpr) -> Stmt:
        """The next of the two runs' heads goes to place k."""
        take_left = seq(store(merged, load(order, (left.get(),)), (k,)), left.set(left.get() + 1))
        take_right = seq(store(merged, load(order, (right.get(),)), (k,)), right.set(right.get() + 1))
        compare: Stmt = IfThenElse(before(right.get(), left.get()), take_right, take_left)
        compare = compare if prepare is None else seq(prepare(right.get(), left.get()), compare)
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


FEW = 1024
"""So many elements of an axis of unknown size are taken by a heap, and of known size a fourth of it."""


def _are_few(count: PrimExpr, size: PrimExpr) -> bool:
    """Whether a heap of the first ones is better than to sort all."""
    if not isinstance(count, IntImm):
        count = count.b if isinstance(count, Min) and isinstance(count.b, IntImm) else count
    if not isinstance(count, IntImm) or count.value == 0:
        return False
    return count.value <= (size.value // 4 if isinstance(size, IntImm) else FEW)


def first_positions(x: te.Tensor, axis: int, count: PrimExpr, descending: bool) -> te.Tensor:
    """Return the first `count` (at least one) indices of `argsort` along an axis, int64, without sorting the
    rest.

    A heap keeps the best `count` elements seen so far with the worst of them on top, so most elements need
    one comparison. Source: Knuth, The Art of Computer Programming 3, section 5.2.3 (heapsort).
    """
    at = positive_axis(axis, x.ndim)
    size = cast("int64", x.shape[at])
    outer = [dim for k, dim in enumerate(x.shape) if k != at]
    shape = (*x.shape[:at], count, *x.shape[at + 1 :])

    def body(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Stmt:
        source, target = inputs[0], outputs[0]
        heap = decl_buffer((count,), "int64", "heap")
        zero = constant(0, "int64")

        def row(index: tuple[PrimExpr, ...]) -> Stmt:
            def value(position: PrimExpr) -> PrimExpr:
                return load(source, (*index[:at], position, *index[at:]))

            def follows(a: PrimExpr, b: PrimExpr) -> PrimExpr:
                """Whether the element at place a of the heap stands behind that at b."""
                first, second = load(heap, (a,)), load(heap, (b,))
                is_tie = logical_not(precedes(value(first), value(second), descending))
                return logical_or(
                    precedes(value(second), value(first), descending), logical_and(is_tie, first > second)
                )

            hole, last = Cell("hole"), Cell("last")

            def consider(i: PrimExpr) -> Stmt:
                """Element i takes the place of the last one where it stands before it."""
                better = precedes(value(i), value(load(heap, (zero,))), descending)
                return IfThenElse(better, seq(store(heap, i, (zero,)), sink_in(zero, count)))

            def sink_in(top: PrimExpr, end: PrimExpr) -> Stmt:
                return sink(heap, top, end, hole, last, follows)

            def put_last(i: PrimExpr) -> Stmt:
                """The top of the heap moves behind it: what follows all others comes to its place."""
                end = count - 1 - i
                behind = load(heap, (end,))
                return seq(
                    last.set(behind),
                    store(heap, load(heap, (zero,)), (end,)),
                    store(heap, last.get(), (zero,)),
                    sink_in(zero, end),
                )

            return seq(
                AllocBuffer(heap),
                hole.declare(),
                last.declare(),
                loop("f", count, lambda i: store(heap, i, (i,))),
                loop("h", count, lambda i: sink_in(count - 1 - i, count)),
                loop("e", size - count, lambda i: consider(count + i)),
                loop("s", count, put_last),
                loop("w", count, lambda i: store(target, load(heap, (i,)), (*index[:at], i, *index[at:]))),
            )

        return on_threads("r", outer, size * _COST_OF_CHOOSING, row)

    result: te.Tensor = te.extern(shape, [x], body, name="first_positions", dtype="int64")
    return result


def sink(heap: Buffer, top: PrimExpr, end: PrimExpr, hole: Cell, last: Cell, follows: Before) -> Stmt:
    """The element at place `top` sinks below those nearer to the top, in a heap of positions that ends at
    place `end`.

    `follows(a, b)` says whether what is at place a of the heap belongs nearer to the top than what is at b.
    `hole` and `last` are declared by the caller.
    """

    def look(child: PrimExpr) -> Stmt:
        behind = IfThenElse(follows(child, last.get()), last.set(child))
        return IfThenElse(less_than(child, end), behind)

    left = hole.get() * 2 + 1
    other = Cell("other")
    swap = seq(
        other.declare(),
        other.set(load(heap, (hole.get(),))),
        store(heap, load(heap, (last.get(),)), (hole.get(),)),
        store(heap, other.get(), (last.get(),)),
        hole.set(last.get()),
    )
    step = seq(
        last.set(hole.get()),
        look(left),
        look(left + 1),
        IfThenElse(equal(last.get(), hole.get()), hole.set(end), swap),
    )
    return seq(hole.set(top), While(less_than(hole.get(), end), step))


def gather_along(x: te.Tensor, order: te.Tensor, axis: int, length: PrimExpr, name: str) -> te.Tensor:
    """Return the first `length` elements of x along an axis, in the order of the indices."""
    at = positive_axis(axis, x.ndim)
    shape = (*x.shape[:at], length, *x.shape[at + 1 :])

    def element(*index: PrimExpr) -> PrimExpr:
        position = cast("int64", order[index])
        return element_of(x, (*index[:at], position, *index[at + 1 :]))

    result: te.Tensor = te.compute(shape, element, name=name)
    return result


def sort(x: te.Tensor, axis: int = -1, descending: bool = False) -> te.Tensor:
    """Return the sorted elements along an axis."""
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
    """Return the k largest (or smallest) elements along an axis, sorted, and their indices. If the axis is
    shorter than k, all are returned."""
    at = positive_axis(axis, x.ndim)
    length = topk_length(x.shape[at], k)
    if _are_few(length, x.shape[at]):
        order = first_positions(x, at, cast("int64", length), largest)
    else:
        order = argsort(x, at, largest, "int64")
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
    """Return for every element of x its insertion position in the sorted boundaries: after equal ones if
    `right`, else before.

    Boundaries are a vector, or (..., n) for elements (..., m): then each row has its own.
    """
    size = boundaries.shape[-1]

    def body(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Stmt:
        low, high = Cell("low"), Cell("high")

        def find(index: tuple[PrimExpr, ...]) -> Stmt:
            middle = (low.get() + high.get()) // 2
            row = index[:-1] if boundaries.ndim > 1 else ()
            bound, value = load(inputs[0], (*row, middle)), load(inputs[1], index)
            beyond = bound <= value if right else bound < value
            halve = IfThenElse(beyond, low.set(middle + 1), high.set(middle))
            search = While(less_than(low.get(), high.get()), halve)
            return seq(
                low.declare(),
                high.declare(),
                low.set(constant(0, "int64")),
                high.set(size),
                search,
                store(outputs[0], cast(dtype, low.get()), index),
            )

        return on_threads("e", x.shape, constant(_COST_OF_SEARCHING, "int64"), find)

    result: te.Tensor = te.extern(tuple(x.shape), [boundaries, x], body, name="searchsorted", dtype=dtype)
    return result
