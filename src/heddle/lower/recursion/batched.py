"""A loop function for many sets of operands at once.

    def f(x[300], w[300, 20], out[20])    →    def f(x[n, 300], w[300, 20], out[n, 20])

Operands that all sets share stay as they are; the others, the results and what lies between get a first
dimension, and each block an axis along it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.ir.node import Map, replace
from heddle.ir.visitor import walk_distinct
from heddle.lower.merged_bodies import MergedBodies, TensorPlace
from heddle.prim.nodes import Range, constant
from heddle.prim.nodes import Var as PrimVar
from heddle.runtime.dtype import DataType
from heddle.tir.nodes import (
    Buffer,
    For,
    ForKind,
    IterVar,
    PrimFunc,
    SBlock,
    SBlockRealize,
    Stmt,
    decl_buffer,
    seq,
    statements,
)
from heddle.tir.schedule.tree import root_block
from heddle.tir.stmt_rewriter import StmtRewriter
from heddle.tir.substitute import substitute_stmt

_INT64 = DataType("int64")


def batched(func: PrimFunc, is_batched: Sequence[bool]) -> PrimFunc | None:
    """The loop function for many sets of operands. `is_batched` says it of each buffer parameter, in order.
    None for a function that is more than loops around blocks: nothing says what its parts write."""
    if not isinstance(func.body, SBlockRealize):
        return None
    root = root_block(func)
    inner = [node for node in walk_distinct(root.body) if isinstance(node, SBlock)]
    if not inner or any(map(_is_more, inner)) or not all(map(_is_nest, statements(root.body))):
        return None
    count, row = PrimVar("rows", _INT64, None, True), PrimVar("row", _INT64)
    places = [
        TensorPlace(_with_rows(buffer, count), (row,)) if many else TensorPlace(_like(buffer))
        for buffer, many in zip(func.buffers, is_batched, strict=True)
    ]
    between = [_with_rows(buffer, count) for buffer in root.alloc_buffers]
    scalars = [param for param in func.params if param not in func.buffer_map]
    handles = {PrimVar(buffer.name, DataType("handle")): buffer for buffer in root.alloc_buffers}
    exposed = replace(
        func,
        params=(*func.params, *handles),
        buffer_map=Map({**func.buffer_map, **handles}),
        body=replace(func.body, block=replace(root, alloc_buffers=())),
    )
    operands = [*places, *(TensorPlace(buffer, (row,)) for buffer in between)]
    body = MergedBodies().body(exposed, operands, scalars)
    nests = [_under_rows(nest, row, count) for nest in statements(body)]
    made = replace(root, alloc_buffers=tuple(between), body=seq(*nests))
    buffers = iter(place.buffer for place in places)
    params = tuple(param if param in scalars else next(buffers) for param in func.params)
    return replace(func, params=params, buffer_map=Map({}), body=replace(func.body, block=made))


def _is_more(block: SBlock) -> bool:
    """Whether a block holds others, or memory of its own."""
    parts = (block.body, *(() if block.init is None else (block.init,)))
    nested = any(isinstance(node, SBlockRealize) for part in parts for node in walk_distinct(part))
    return nested or bool(block.alloc_buffers) or bool(block.match_buffers)


def _is_nest(stmt: Stmt) -> bool:
    """Whether a statement is serial loops around one block."""
    while isinstance(stmt, For) and stmt.kind is ForKind.SERIAL:
        stmt = stmt.body
    return isinstance(stmt, SBlockRealize)


def _with_rows(buffer: Buffer, count: PrimVar) -> Buffer:
    return decl_buffer((count, *buffer.shape), buffer.dtype, buffer.name, scope=buffer.scope)


def _like(buffer: Buffer) -> Buffer:
    return decl_buffer(buffer.shape, buffer.dtype, buffer.name, scope=buffer.scope)


def _under_rows(stmt: Stmt, row: PrimVar, count: PrimVar) -> Stmt:
    """A nest as many times, its block with an axis for them."""
    loop = PrimVar("row", _INT64)
    inner: Stmt = _RowAxis(row, loop, count).visit(stmt)
    return For(loop, constant(0, "int64"), count, ForKind.SERIAL, inner)


class _RowAxis(StmtRewriter):
    """Gives blocks a first axis, which stands for the row."""

    def __init__(self, row: PrimVar, loop: PrimVar, count: PrimVar) -> None:
        self._row, self._loop, self._count = row, loop, count

    def visit_SBlockRealize(self, node: SBlockRealize) -> Any:
        axis = IterVar(Range.from_min_extent(constant(0, "int64"), self._count), PrimVar("v_row", _INT64))
        block: SBlock = substitute_stmt(node.block, {self._row: axis.var})
        block = replace(block, iter_vars=(axis, *block.iter_vars))
        values = (self._loop, *node.iter_values)
        return replace(node, iter_values=values, block=block)
