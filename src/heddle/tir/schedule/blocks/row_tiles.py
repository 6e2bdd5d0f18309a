"""Cutting the rows of a result into tiles, together with the rows of all that it is computed from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from heddle.arith import Analyzer
from heddle.ir.node import replace
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk
from heddle.prim.nodes import PrimExpr, Range, Var, constant, is_const_int
from heddle.prim.ops import ceildiv, minimum
from heddle.prim.substitute import free_vars
from heddle.tir.analysis.access_region import with_access_regions
from heddle.tir.analysis.blocks import plain_nests
from heddle.tir.codes import T0426
from heddle.tir.nodes import (
    Buffer,
    BufferLoad,
    BufferStore,
    IterType,
    IterVar,
    PrimFunc,
    SBlock,
    Stmt,
    decl_buffer,
    seq,
    statements,
)
from heddle.tir.schedule.blocks.nest import nest
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.tree import find_block, root_block
from heddle.tir.substitute import StmtSubstituter


def tile_rows(func: PrimFunc, block_name: str, axis: int, rows: int) -> PrimFunc:
    """for i < n: B[i] = f(A[i]);  for i < n: C[i] = g(B[i])
    →   for t < ceil(n / 4), r < 4: B[t, r] = f(A[min(4 t + r, n - 1)])
        for t < ceil(n / 4), r < 4: if 4 t + r < n: C[4 t + r] = g(B[t, r])

    An axis of a block becomes two, tiles and rows of one; and so does that axis of every temporary that a row
    of the block's result is computed from, and of the blocks that make these. Rows beyond the end compute the
    last row again. For functions of plain nests, before other primitives; each row of a temporary is made by
    one block, for itself.
    """
    last: SBlock = find_block(func, block_name).stmt.block
    blocks = plain_nests(func)
    stores = [block.body for block in blocks or () if isinstance(block.body, BufferStore)]
    if blocks is None or len(stores) < len(blocks) or rows < 1 or not 0 <= axis < len(last.iter_vars):
        raise ScheduleError(
            T0426,
            f"no axis {axis} of {block_name!r} in a function of plain nests to tile by {rows}",
            func,
            last,
        )
    root = root_block(func)
    if not is_const_int(last.iter_vars[axis].dom.min, 0):
        raise ScheduleError(T0426, f"axis {axis} of {block_name!r} does not begin at 0", func, last)
    rows_of = _row_axes(func, blocks, last, last.iter_vars[axis])
    _check_only_writers(func, blocks, rows_of)
    dims = {
        store.buffer: _dim(func, block, rows_of[block.name_hint])
        for block, store in zip(blocks, stores, strict=True)
        if block is not last and block.name_hint in rows_of and store.buffer in root.alloc_buffers
    }
    tiler = _Tiling(rows, dims)
    body = [
        tiler.nest(block, rows_of[block.name_hint]) if block.name_hint in rows_of else stmt
        for block, stmt in zip(blocks, statements(root.body), strict=True)
    ]
    kept = tuple(tiler.buffers.get(buffer, buffer) for buffer in root.alloc_buffers)
    return func.with_body(replace(func.body, block=replace(root, body=seq(*body), alloc_buffers=kept)))


# ---- which axes are rows


def _row_axes(func: PrimFunc, blocks: Sequence[SBlock], last: SBlock, axis: IterVar) -> dict[str, IterVar]:
    """By name, the blocks whose results hold rows for the rows of `last`, and the axis over these."""
    makers = {
        block.body.buffer: block
        for block in blocks
        if isinstance(block.body, BufferStore) and block is not last  # its result stays as it is, for all
    }
    found = {last.name_hint: axis}
    for block in reversed(blocks):
        row = found.get(block.name_hint)
        for load in _temporaries(block, makers):
            maker = makers[load.buffer]
            if row is None or row.var not in free_vars(*load.indices):
                continue
            dim = _only_at(func, block, load.indices, row.var)
            own = _axis_at(func, maker, dim)
            if found.setdefault(maker.name_hint, own) is not own or not _same(own.dom, row.dom):
                raise ScheduleError(
                    T0426, f"block {maker.name_hint!r} makes other rows of {load.buffer.name!r}", func, maker
                )
    for block in blocks:
        _check_reads_its_rows(func, block, found, makers)
    return found


def _check_reads_its_rows(
    func: PrimFunc, block: SBlock, found: Mapping[str, IterVar], makers: Mapping[Buffer, SBlock]
) -> None:
    row = found.get(block.name_hint)
    for load in _temporaries(block, makers):
        if makers[load.buffer].name_hint in found and (row is None or row.var not in load.indices):
            raise ScheduleError(
                T0426,
                f"block {block.name_hint!r} reads other rows of {load.buffer.name!r} than its own",
                func,
                block,
            )


def _check_only_writers(func: PrimFunc, blocks: Sequence[SBlock], rows_of: Mapping[str, IterVar]) -> None:
    """What is tiled must be so for all that write it."""
    writers = Counter(block.body.buffer for block in blocks if isinstance(block.body, BufferStore))
    for block in blocks:
        assert isinstance(block.body, BufferStore)
        if block.name_hint in rows_of and writers[block.body.buffer] > 1:
            raise ScheduleError(
                T0426, f"{block.body.buffer.name!r} is written by more than {block.name_hint!r}", func, block
            )


def _same(a: Range, b: Range) -> bool:
    return structural_equal(a.min, b.min) and structural_equal(a.extent, b.extent)


def _temporaries(block: SBlock, makers: Mapping[Buffer, SBlock]) -> list[BufferLoad]:
    """The loads of what other blocks make."""
    return [load for load in _loads(block) if makers.get(load.buffer, block) is not block]


def _loads(block: SBlock) -> list[BufferLoad]:
    parts = [block.body] if block.init is None else [block.init, block.body]
    return [node for part in parts for node in walk(part) if isinstance(node, BufferLoad)]


def _only_at(func: PrimFunc, block: SBlock, indices: Sequence[PrimExpr], row: Var) -> int:
    """Which index is the axis itself, where no other one depends on it."""
    uses = [k for k, index in enumerate(indices) if row in free_vars(index)]
    if len(uses) == 1 and indices[uses[0]] is row:
        return uses[0]
    raise ScheduleError(T0426, f"axis {row.name!r} of block {block.name_hint!r} is no row", func, block)


def _axis_at(func: PrimFunc, block: SBlock, dim: int) -> IterVar:
    assert isinstance(block.body, BufferStore)
    index = block.body.indices[dim]
    for axis in block.iter_vars:
        if axis.var is index:
            return axis
    raise ScheduleError(T0426, f"block {block.name_hint!r} makes no rows", func, block)


def _dim(func: PrimFunc, block: SBlock, row: IterVar) -> int:
    """Which dimension of the temporary that a block makes has its rows, of which it may make one again."""
    store = block.body
    assert isinstance(store, BufferStore)
    own = [load for load in _loads(block) if load.buffer is store.buffer]
    is_apart = all(structural_equal(tuple(load.indices), tuple(store.indices)) for load in own)
    if row.iter_type is not IterType.DataPar or not is_apart:
        raise ScheduleError(
            T0426,
            f"block {block.name_hint!r} makes rows of {store.buffer.name!r} from each other",
            func,
            block,
        )
    return _only_at(func, block, store.indices, row.var)


# ---- the tiled program


class _Tiling:
    """`dims`: the temporaries that get tiles, and the dimension of their rows."""

    def __init__(self, rows: int, dims: Mapping[Buffer, int]) -> None:
        self.rows, self.dims = rows, dims
        self.buffers = {buffer: self._tiled(buffer, dim) for buffer, dim in dims.items()}

    def _tiled(self, buffer: Buffer, dim: int) -> Buffer:
        size = buffer.shape[dim]
        tiles = ceildiv(size, self.rows), constant(self.rows, size.dtype)
        shape = (*buffer.shape[:dim], *tiles, *buffer.shape[dim + 1 :])
        return decl_buffer(shape, buffer.dtype, buffer.name, scope=buffer.scope)

    def nest(self, block: SBlock, row: IterVar) -> Stmt:
        """A block over its new axes, and loops around it."""
        size, dtype, analyzer = row.dom.extent, row.var.dtype, Analyzer()
        tile, place = (Var(f"{row.var.name}_{suffix}", dtype) for suffix in ("t", "r"))
        axes = [
            IterVar(Range(ceildiv(size, self.rows)), tile, row.iter_type),
            IterVar(Range(constant(self.rows, dtype)), place, row.iter_type),
        ]
        at = tile * self.rows + place
        is_whole = analyzer.can_prove_equal(ceildiv(size, self.rows) * self.rows, size)
        is_temporary = block.body.buffer in self.dims  # type: ignore[attr-defined]
        clamped = at if is_whole or not is_temporary else minimum(at, size - 1)
        rewrite = _Rows(row.var, clamped, (tile, place), self)
        position = block.iter_vars.index(row)
        made = replace(
            block,
            iter_vars=(*block.iter_vars[:position], *axes, *block.iter_vars[position + 1 :]),
            body=rewrite.visit(block.body),
            init=None if block.init is None else rewrite.visit(block.init),
        )
        condition = constant(True) if is_whole or is_temporary else at < size
        return nest(with_access_regions(made), condition)


class _Rows(StmtSubstituter):
    """Rewrites the accesses of one block; `at` is the row that a tile's row stands for."""

    def __init__(self, row: Var, at: PrimExpr, parts: tuple[Var, Var], tiling: _Tiling) -> None:
        super().__init__({row: at})
        self._parts, self._tiling = parts, tiling

    def _indices(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
        dim = self._tiling.dims.get(buffer)
        if dim is None:
            return tuple(self.visit(index) for index in indices)
        before, after = indices[:dim], indices[dim + 1 :]
        return (*(self.visit(i) for i in before), *self._parts, *(self.visit(i) for i in after))

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        buffer = self._tiling.buffers.get(node.buffer, node.buffer)
        indices, lanes = self._indices(node.buffer, node.indices), self._lanes(node)
        return BufferLoad(buffer, indices, lanes, span=node.span)

    def visit_BufferStore(self, node: BufferStore) -> Any:
        buffer = self._tiling.buffers.get(node.buffer, node.buffer)
        indices, lanes = self._indices(node.buffer, node.indices), self._lanes(node)
        return BufferStore(buffer, self.visit(node.value), indices, lanes, span=node.span)

    def _lanes(self, node: BufferLoad | BufferStore) -> PrimExpr | None:
        return None if node.predicate is None else self.visit(node.predicate)
