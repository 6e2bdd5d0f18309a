"""Operations whose result's size depends on values: first the size is counted, then a tensor of it is
filled.
"""

from __future__ import annotations

from collections.abc import Sequence

from heddle import te
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import cast, if_then_else, logical_and, not_equal
from heddle.prim.ops import less as less_than
from heddle.tir.nodes import Buffer, IfThenElse, Stmt, seq
from heddle.topi.index import element_of
from heddle.topi.loops import Cell, load, loop, nest, store
from heddle.topi.reduce import reduce_element


def count_nonzero(x: te.Tensor) -> te.Tensor:
    """How many elements are not zero: int64, shape (1,)."""
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
    """The positions of elements that are not zero: int64, (rank, count), in row-major order."""
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


def group_starts(x: te.Tensor, order: te.Tensor) -> te.Tensor:
    """1 where, in sorted order, a new value of the vector x begins, else 0."""

    def element(i: PrimExpr) -> PrimExpr:
        value, previous = x[order[i]], x[order[i - 1]]
        return if_then_else(i > 0, cast("int64", not_equal(value, previous)), constant(1, "int64"))

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
