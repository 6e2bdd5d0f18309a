"""The order in which the nodes of a tree are computed, as loop functions.

A tree is given by the kinds of its nodes, children before their parents. The level of a node without children
is 0, of any other 1 more than the highest of its children. Nodes of one kind and level are computed at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle import te
from heddle.graph.types import TensorType
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.ops import equal, maximum
from heddle.runtime.dtype import DataType
from heddle.tir.builder import StmtBuilder
from heddle.tir.nodes import Buffer, PrimFunc, Stmt, decl_buffer
from heddle.topi.loops import Cell, nest, store

OWN, OWN_ROW, CHILDREN = 0, 1, 2
"""The rows of a kind's table: the number of a node, its number among the nodes of the kind, its children."""


def node_order(kinds: te.Tensor, num_children: Sequence[int]) -> list[te.Tensor]:
    """The order of a tree's nodes, all int64.

    `kinds` (n,) has the kind of each node, `num_children` the number of children of each kind. Gives the
    level of the root (); of each kind how many nodes lie below a level (kinds, n + 2); and for each kind its
    table (2 + children, n): one column a node, by level.
    """
    (count,) = kinds.shape
    tables = [(constant(CHILDREN + most, "int64"), count) for most in num_children]
    starts = (constant(len(num_children), "int64"), count + 2)

    def body(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Stmt:
        return _Order(inputs[0], outputs, num_children).body()

    made: list[te.Tensor] = te.extern([(), starts, *tables], [kinds], body, name="node_order", dtype="int64")
    return made


class _Order:
    """Writes the loops: levels first, then where each level begins, then the tables."""

    def __init__(self, kinds: Buffer, outputs: Sequence[Buffer], num_children: Sequence[int]) -> None:
        self.kinds, self.num_children = kinds, num_children
        self.depth, self.starts, *self.tables = outputs
        self.b = StmtBuilder()

    def body(self) -> Stmt:
        b, (count,) = self.b, self.kinds.shape
        levels = b.alloc("levels", (count,), "int64", "workspace")
        parts = b.alloc("parts", (max(self.num_children), count), "int64", "workspace")
        follow = b.alloc("follow", self.starts.shape, "int64", "workspace")
        b.emit(nest("z", self.starts.shape, lambda at: store(self.starts, constant(0, "int64"), at)))
        self._find_levels(levels, parts)
        for kind in range(len(self.num_children)):
            with b.loop("level", count + 1) as level:
                b.store(
                    self.starts, (kind, level + 1), self.starts[kind, level + 1] + self.starts[kind, level]
                )
        b.emit(nest("f", self.starts.shape, lambda at: store(follow, self.starts[at], at)))
        self._fill_tables(levels, parts, follow)
        return b.func("node_order", ()).body

    def _find_levels(self, levels: Buffer, parts: Buffer) -> None:
        """The level of each node, from those on the stack: the last ones are its children."""
        b, (count,) = self.b, self.kinds.shape
        stack = b.alloc("stack", (count,), "int64", "workspace")
        height, level = Cell.zero(b, "height"), Cell.zero(b, "level")
        with b.loop("node", count) as node:
            b.emit(level.set(constant(0, "int64")))
            for kind, most in enumerate(self.num_children):
                with b.when(equal(self.kinds[node], kind)):
                    for k in range(most):
                        child = b.let("child", stack[height.get() - (most - k)])
                        b.store(parts, (k, node), child)
                        b.emit(level.set(maximum(level.get(), levels[child] + 1)))
                    b.emit(height.set(height.get() - most))
                    at = (kind, level.get() + 1)
                    b.store(self.starts, at, self.starts[at] + 1)
            b.store(levels, (node,), level.get())
            b.store(stack, (height.get(),), node)
            b.emit(height.set(height.get() + 1))
        b.store(self.depth, (), level.get())

    def _fill_tables(self, levels: Buffer, parts: Buffer, follow: Buffer) -> None:
        b, (count,) = self.b, self.kinds.shape
        found = [Cell.zero(b, f"found_{kind}") for kind in range(len(self.tables))]
        with b.loop("node", count) as node:
            for kind, (table, most) in enumerate(zip(self.tables, self.num_children, strict=True)):
                with b.when(equal(self.kinds[node], kind)):
                    level = levels[node]
                    at = b.let("at", follow[kind, level])
                    b.store(follow, (kind, level), at + 1)
                    b.store(table, (OWN, at), node)
                    b.store(table, (OWN_ROW, at), found[kind].get())
                    b.emit(found[kind].set(found[kind].get() + 1))
                    for k in range(most):
                        b.store(table, (CHILDREN + k, at), parts[k, node])


def level_start(starts: te.Tensor, level: te.Tensor, kind: int) -> Any:
    """Where the nodes of a level begin in the table of a kind: ()."""
    return te.compute((), lambda: starts[kind, level()], name="start")


def level_size(starts: te.Tensor, level: te.Tensor, kind: int) -> Any:
    """How many nodes of a kind a level has: (1,)."""
    one = constant(1, "int64")
    return te.compute((one,), lambda _: starts[kind, level() + 1] - starts[kind, level()], name="size")


def rows_of_level(
    rows: te.Tensor, table: te.Tensor, start: te.Tensor, count: PrimExpr, column: int
) -> te.Tensor:
    """The rows that a table names for the `count` nodes from `start` on."""
    made: te.Tensor = te.compute(
        (count, *rows.shape[1:]), lambda r, *at: rows[(table[column, start() + r], *at)], name="rows"
    )
    return made


def rows_written(results: Sequence[TensorType], many: Sequence[bool]) -> PrimFunc:
    """A function that writes the results for some nodes into those of all.

    Its arguments are the results of all nodes (nodes, ...), the new ones (count, ...), the table of the kind,
    where the nodes begin in it (), and `count`. Where `many` is not set, all nodes have the same new result,
    which has no first dimension.
    """
    b = StmtBuilder()
    nodes, listed = (PrimVar(name, DataType("int64"), None, True) for name in ("nodes", "listed"))
    height, count = PrimVar("height", DataType("int64"), None, True), PrimVar("count", DataType("int64"))
    size = PrimVar("size", DataType("int64"), None, True)
    dims = [tuple(ty.dims or ()) for ty in results]
    dtypes = [str(ty.dtype) for ty in results]
    kept = [decl_buffer((nodes, *dim), dtype, "all") for dim, dtype in zip(dims, dtypes, strict=True)]
    new = [
        decl_buffer((size, *dim) if own else dim, dtype, "new")
        for dim, dtype, own in zip(dims, dtypes, many, strict=True)
    ]
    table, start = decl_buffer((height, listed), "int64", "table"), decl_buffer((), "int64", "start")
    with b.loop("row", count) as row:
        node = b.let("node", table[OWN, start[()] + row])
        for target, source, own in zip(kept, new, many, strict=True):
            b.emit(_row_copied(target, node, source, (row,) if own else ()))
    return b.func("rows_written", (*kept, *new, table, start, count))


def _row_copied(target: Buffer, node: PrimExpr, source: Buffer, row: tuple[PrimExpr, ...]) -> Stmt:
    """Copy a row of a buffer, or all of it, to row `node` of another."""
    return nest("k", target.shape[1:], lambda at: store(target, source[(*row, *at)], (node, *at)))


def no_results(count: PrimExpr, types: Sequence[TensorType]) -> list[te.Tensor]:
    """Room for the results of `count` nodes. One function gives all of it: two equal calls may become one,
    and what is written in place must not be one tensor."""
    return [_zeros((count, *(ty.dims or ())), ty) for ty in types]


def _zeros(shape: Sequence[PrimExpr], ty: TensorType) -> te.Tensor:
    zero = constant(0, ty.dtype)
    made: te.Tensor = te.compute(shape, lambda *_: zero, name="results")
    return made


def last_row(rows: te.Tensor) -> te.Tensor:
    """The last of some rows."""
    made: te.Tensor = te.compute(rows.shape[1:], lambda *at: rows[(rows.shape[0] - 1, *at)], name="last")
    return made
