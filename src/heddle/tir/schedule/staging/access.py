"""Rewriting accesses of buffers, and exchanging a buffer for another in a whole function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heddle.arith import Analyzer
from heddle.ir.node import Map, replace
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk
from heddle.prim.nodes import PrimExpr, Range
from heddle.tir.analysis.access_region import with_access_regions
from heddle.tir.analysis.blocks import blocks_in
from heddle.tir.codes import T0408, T0424
from heddle.tir.nodes import Buffer, BufferLoad, BufferStore, For, PrimFunc, SBlock, SBlockRealize, Stmt
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.tree import find_block, replace_stmt
from heddle.tir.substitute import StmtSubstituter


class AccessRewriter(StmtSubstituter):
    """Rewrites loads and stores, after what is inside them, and finds the regions of blocks anew. The
    analyzer knows the ranges of the loops and axes around."""

    def __init__(self) -> None:
        super().__init__({})
        self.analyzer = Analyzer()

    def load(self, node: BufferLoad) -> PrimExpr:
        """What takes the place of a load; itself by default."""
        return node

    def store(self, node: BufferStore) -> Stmt:
        """What takes the place of a store; itself by default."""
        return node

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        return self.load(super().visit_BufferLoad(node))

    def visit_BufferStore(self, node: BufferStore) -> Any:
        value, indices = self.visit(node.value), tuple(self.visit(index) for index in node.indices)
        same = value is node.value and all(a is b for a, b in zip(indices, node.indices, strict=True))
        return self.store(
            node if same else BufferStore(node.buffer, value, indices, node.predicate, span=node.span)
        )

    def visit_For(self, node: For) -> Any:
        self.analyzer.bind(node.loop_var, Range.from_min_extent(node.min, node.extent), allow_override=True)
        return self.default(node)

    def visit_SBlockRealize(self, node: SBlockRealize) -> Any:
        values = tuple(self.visit(value) for value in node.iter_values)
        return replace(
            node, iter_values=values, predicate=self.visit(node.predicate), block=self.visit(node.block)
        )

    def visit_SBlock(self, node: SBlock) -> Any:
        for axis in node.iter_vars:
            self.analyzer.bind(axis.var, axis.dom, allow_override=True)
        init = None if node.init is None else self.visit(node.init)
        body = self.visit(node.body)
        if body is node.body and init is node.init:
            return node
        made = replace(node, body=body, init=init)
        return with_access_regions(made) if node.reads or node.writes else made

    def visit_BufferRegion(self, node: Any) -> Any:
        return node


class Redirect(AccessRewriter):
    """Accesses of one buffer as those of another at the same indices."""

    def __init__(self, old: Buffer, new: Buffer) -> None:
        super().__init__()
        self._old, self._new = old, new

    def load(self, node: BufferLoad) -> PrimExpr:
        """A load from the new buffer, where it was from the old one."""
        return replace(node, buffer=self._new) if node.buffer is self._old else node

    def store(self, node: BufferStore) -> Stmt:
        """A store to the new buffer, where it was to the old one."""
        return replace(node, buffer=self._new) if node.buffer is self._old else node


def exchange_buffer(
    func: PrimFunc, old: Buffer, new: Buffer, rewriter: Callable[[], AccessRewriter]
) -> PrimFunc:
    """The function with a buffer of the caller's, or an allocation, replaced and its accesses rewritten."""
    for realize in blocks_in(func.body):
        if any(match.source.buffer is old for match in realize.block.match_buffers):
            raise ScheduleError(
                T0408, f"block {realize.block.name_hint!r} matches a region of {old.name!r}", func, realize
            )
    func = func.with_body(rewriter().visit(func.body))
    if old in func.buffers:
        mapping = {param: new if b is old else b for param, b in func.buffer_map.items()}
        return replace(func, buffer_map=Map(mapping))
    for realize in blocks_in(func.body):
        owner = realize.block
        if old in owner.alloc_buffers:
            kept = tuple(new if buffer is old else buffer for buffer in owner.alloc_buffers)
            return replace_stmt(func, owner, replace(owner, alloc_buffers=kept))
    raise ScheduleError(T0408, f"buffer {old.name!r} is allocated by no block", func)


def buffer_of(func: PrimFunc, block_name: str, which: Any, writes: bool = True) -> Buffer:
    """The buffer of a block that is meant by a number (of a write, or of a read), a pair ("read", number) or
    ("write", number), a name, or the buffer itself. Raises: ScheduleError T0408."""
    block: SBlock = find_block(func, block_name).stmt.block
    regions = (*block.writes, *block.reads)
    if isinstance(which, Buffer) and any(region.buffer is which for region in regions):
        return which
    if isinstance(which, str):
        named = [region.buffer for region in regions if region.buffer.name == which]
        if named:
            return named[0]
    if isinstance(which, (tuple, list)) and len(which) == 2 and which[0] in ("read", "write"):
        which, writes = which[1], which[0] == "write"
    chosen = block.writes if writes else block.reads
    if isinstance(which, int) and 0 <= which < len(chosen):
        return chosen[which].buffer
    kind, names = "write" if writes else "read", ", ".join(region.buffer.name for region in regions)
    raise ScheduleError(
        T0408, f"block {block_name!r} has no {kind} {which!r}; it touches {names}", func, block
    )


def temporary_of(func: PrimFunc, block_name: str, which: Any, writes: bool = True) -> Buffer:
    """The same for a buffer that the function allocates itself. Raises: ScheduleError T0408."""
    buffer = buffer_of(func, block_name, which, writes)
    if buffer in func.buffers:
        block = find_block(func, block_name).stmt.block
        raise ScheduleError(T0408, f"buffer {buffer.name!r} belongs to the caller", func, block)
    return buffer


def single_index(func: PrimFunc, block: SBlock, buffer: Buffer) -> tuple[PrimExpr, ...]:
    """The one index at which a block touches a buffer. Raises: ScheduleError T0424."""
    found: Sequence[Any] = [
        node
        for part in (block.body, block.init)
        if part is not None
        for node in walk(part)
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer is buffer
    ]
    indices = [node.indices for node in found]
    if not indices or not all(structural_equal(index, indices[0]) for index in indices):
        raise ScheduleError(
            T0424,
            f"block {block.name_hint!r} touches {buffer.name!r} at {len(indices)} places, expected one index",
            func,
            block,
        )
    return tuple(indices[0])
