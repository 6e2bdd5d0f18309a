"""Operations whose result's size depends on values: first the size is counted, then a tensor of it is
filled.
"""

from __future__ import annotations

from collections.abc import Sequence

from heddle import te
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import (
    cast,
    if_then_else,
    logical_and,
    logical_not,
    logical_or,
    minimum,
    not_equal,
)
from heddle.prim.ops import less as less_than
from heddle.tir.nodes import AllocBuffer, Buffer, IfThenElse, Stmt, While, decl_buffer, seq
from heddle.topi.index import element_of
from heddle.topi.loops import Cell, load, loop, nest, store
from heddle.topi.reduce import reduce_element
from heddle.topi.sorting import merge_passes, precedes


def count_nonzero(x: te.Tensor) -> te.Tensor:
    """Return the number of nonzero elements: int64, shape (1,)."""
    zero = constant(0, x.dtype)
    total = reduce_element(
        x.shape,
        tuple(range(x.ndim)),
        False,
        te.sum,
        lambda i: cast("int64", not_equal(element_of(x, i), zero)),
        "count",
    )
    result: te.Tensor = te.compute((constant(1, "int64"),), lambda _i: total(), name="count_vector")
    return result


def nonzero(x: te.Tensor, size: Sequence[PrimExpr]) -> te.Tensor:
    """Return the indices of the nonzero elements in row-major order: int64, (rank, count)."""
    (count,) = size
    ndim = constant(x.ndim, "int64")

    def body(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Stmt:
        found = Cell("found")

        def visit(index: tuple[PrimExpr, ...]) -> Stmt:
            writes = [store(outputs[0], p, (constant(k, "int64"), found.get())) for k, p in enumerate(index)]
            hit = logical_and(
                not_equal(load(inputs[0], index), constant(0, x.dtype)), less_than(found.get(), count)
            )
            return IfThenElse(hit, seq(*writes, found.set(found.get() + 1)))

        return seq(found.declare(), found.set(constant(0, "int64")), nest("i", x.shape, visit))

    result: te.Tensor = te.extern((ndim, count), [x], body, name="nonzero", dtype="int64")
    return result


def row_numbers(x: te.Tensor) -> te.Tensor:
    """(n, m) → int64 (n,): the place of each row among the different rows, in rising order. Rows are compared
    by their first elements that differ; NaN is the greatest, and equal to itself.
    """
    size, width = (cast("int64", dim) for dim in x.shape)

    def body(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Stmt:
        order, merged = (decl_buffer((size,), "int64", name) for name in ("order", "merged"))
        column, number = Cell("column"), Cell("number")

        def value(position: PrimExpr) -> PrimExpr:
            return load(inputs[0], (load(order, (position,)), minimum(column.get(), width - 1)))

        def differ(a: PrimExpr, b: PrimExpr) -> PrimExpr:
            first, second = value(a), value(b)
            return logical_or(precedes(first, second, False), precedes(second, first, False))

        def find(a: PrimExpr, b: PrimExpr) -> Stmt:
            """The first column in which two rows differ, or the width."""
            goes_on = logical_and(less_than(column.get(), width), logical_not(differ(a, b)))
            return seq(column.set(constant(0, "int64")), While(goes_on, column.set(column.get() + 1)))

        def is_before(a: PrimExpr, b: PrimExpr) -> PrimExpr:
            return logical_and(less_than(column.get(), width), precedes(value(a), value(b), False))

        def count(i: PrimExpr) -> Stmt:
            is_new = IfThenElse(less_than(column.get(), width), number.set(number.get() + 1))
            step = IfThenElse(less_than(constant(0, "int64"), i), seq(find(i, i - 1), is_new))
            return seq(step, store(outputs[0], number.get(), (load(order, (i,)),)))

        sort = IfThenElse(
            less_than(constant(0, "int64"), width), merge_passes(size, order, merged, is_before, find)
        )
        numbers = IfThenElse(
            less_than(constant(0, "int64"), width),
            loop("n", size, count),
            loop("z", size, lambda i: store(outputs[0], constant(0, "int64"), (i,))),
        )
        return seq(
            *(AllocBuffer(buffer) for buffer in (order, merged)),
            *(cell.declare() for cell in (column, number)),
            loop("f", size, lambda i: store(order, i, (i,))),
            sort,
            number.set(constant(0, "int64")),
            numbers,
        )

    result: te.Tensor = te.extern((x.shape[0],), [x], body, name="row_numbers", dtype="int64")
    return result


def group_starts(x: te.Tensor, order: te.Tensor) -> te.Tensor:
    """1 where, in sorted order, a new value of the vector x begins, else 0. NaN is one value."""

    def element(i: PrimExpr) -> PrimExpr:
        is_new = precedes(x[order[i - 1]], x[order[i]], False)
        return if_then_else(i > 0, cast("int64", is_new), constant(1, "int64"))

    result: te.Tensor = te.compute((x.shape[0],), element, name="group_starts")
    return result


def unique_parts(
    x: te.Tensor, order: te.Tensor, starts: te.Tensor, size: Sequence[PrimExpr]
) -> list[te.Tensor]:
    """Values, first positions, the group of every element, and group sizes, by sorted value."""
    (count,) = size
    length = x.shape[0]

    def body(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Stmt:
        values, firsts, groups, counts = outputs
        group = Cell("group")

        def visit(i: PrimExpr) -> Stmt:
            position = load(inputs[1], (i,))
            at = (group.get(),)
            begin = seq(
                group.set(group.get() + 1),
                store(values, load(inputs[0], (position,)), at),
                store(firsts, position, at),
                store(counts, constant(0, "int64"), at),
            )
            return seq(
                IfThenElse(not_equal(load(inputs[2], (i,)), constant(0, "int64")), begin),
                store(groups, group.get(), (position,)),
                store(counts, load(counts, at) + 1, at),
            )

        return seq(group.declare(), group.set(constant(-1, "int64")), loop("i", length, visit))

    made: list[te.Tensor] = te.extern(
        [(count,), (count,), (length,), (count,)],
        [x, order, starts],
        body,
        name="unique",
        dtype=[x.dtype, "int64", "int64", "int64"],
    )
    return made
