"""Find the buffer regions that a block or statement reads and writes."""

from __future__ import annotations

from typing import Any

from heddle.arith import Analyzer, IntervalSet, neg_inf, pos_inf
from heddle.ir.node import children, replace
from heddle.ir.structural import structural_equal
from heddle.prim.intrinsics import is_prefetch
from heddle.prim.nodes import IntImm, Let, PrimExpr, Range, Var, constant
from heddle.prim.ops import maximum, minimum
from heddle.prim.substitute import free_vars
from heddle.tir.nodes import (
    AllocBuffer,
    Bind,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    For,
    SBlock,
    SBlockRealize,
    Stmt,
)

Box = tuple[tuple[PrimExpr, PrimExpr], ...]
"""For every dimension its least and greatest index."""


class AccessRegions:
    """Collects, per buffer, the bounding box of all loads and stores over the ranges of inner loops. With
    `only`, for that buffer alone."""

    def __init__(self, only: Buffer | None = None) -> None:
        self._only = only
        self.reads: dict[Buffer, Box | None] = {}
        self.writes: dict[Buffer, Box | None] = {}
        self._dom: dict[Var, IntervalSet] = {}
        self._inner: set[Var] = set()
        self._local: set[Buffer] = set()
        self._analyzer = Analyzer()
        self._waiting: list[For] = []
        """The loops around, outermost first, of which no index has asked yet: most ask for none."""
        self._seen: set[int] = set()
        """Expressions of the innermost loop that were looked at: a shared one is, once."""

    def visit(self, node: Any) -> None:
        """Collect what a statement or expression reads and writes, over all values of the loops inside it."""
        if isinstance(node, PrimExpr):
            if id(node) in self._seen:
                return
            self._seen.add(id(node))
        if isinstance(node, For):
            self._loop(node)
        elif isinstance(node, SBlockRealize):
            self._nested_block(node)
        elif isinstance(node, BufferStore):
            self._touch(self.writes, node.buffer, node.indices)
            self._children(node)
        elif isinstance(node, BufferLoad):
            self._touch(self.reads, node.buffer, node.indices)
            self._children(node)
        elif not is_prefetch(node):
            if isinstance(node, (AllocBuffer, DeclBuffer)):
                self._local.add(node.buffer)
            if isinstance(node, (Bind, Let)):
                self._inner.add(node.var)
            self._children(node)

    def _children(self, node: Any) -> None:
        for child in children(node):
            self.visit(child)

    def _loop(self, node: For) -> None:
        self._inner.add(node.loop_var)
        self._waiting.append(node)
        outer, self._seen = self._seen, set()
        self._children(node)
        self._seen = outer
        if self._waiting:
            self._waiting.pop()

    def _bind_loops(self) -> None:
        """Tell the ranges of the loops around."""
        for node in self._waiting:
            first, last = node.min, node.min + node.extent - 1
            low, high = (self._analyzer.int_set(end, self._dom) for end in (first, last))
            self._dom[node.loop_var] = IntervalSet(low.min_value, high.max_value)
            span = Range.from_min_extent(node.min, node.extent)
            self._analyzer.bind(node.loop_var, span, allow_override=True)
        self._waiting.clear()

    def _nested_block(self, node: SBlockRealize) -> None:
        """An inner block touches what it declares."""
        self._bind_loops()
        block = node.block
        for axis, value in zip(block.iter_vars, node.iter_values, strict=True):
            self._inner.add(axis.var)
            self._dom[axis.var] = self._analyzer.int_set(value, self._dom)
        for table, regions in ((self.reads, block.reads), (self.writes, block.writes)):
            for region in regions:
                self._touch_region(table, region)

    def _touch_region(self, table: dict[Buffer, Box | None], region: BufferRegion) -> None:
        if not self._is_wanted(region.buffer):
            return
        lows = [self._bounds(r.min) for r in region.region]
        highs = [self._bounds(r.min + r.extent - 1) for r in region.region]
        box = [
            None if low is None or high is None else (low[0], high[1])
            for low, high in zip(lows, highs, strict=True)
        ]
        self._merge(table, region.buffer, box)

    def _touch(self, table: dict[Buffer, Box | None], buffer: Buffer, indices: tuple[PrimExpr, ...]) -> None:
        if self._is_wanted(buffer):
            self._merge(table, buffer, [self._bounds(index) for index in indices])

    def _is_wanted(self, buffer: Buffer) -> bool:
        return buffer not in self._local and (self._only is None or buffer is self._only)

    def _bounds(self, index: PrimExpr) -> tuple[PrimExpr, PrimExpr] | None:
        """The least and greatest value of an index over the inner loops; None where it is not bounded by
        them."""
        if isinstance(index, IntImm) or (isinstance(index, Var) and index not in self._inner):
            return index, index
        if not any(var in self._inner for var in free_vars(index)):
            return (index, index) if not _has_load(index) else None
        self._bind_loops()
        found = self._analyzer.int_set(index, self._dom)
        if found.min_value is neg_inf or found.max_value is pos_inf:
            return None
        low, high = self._analyzer.simplify(found.min_value), self._analyzer.simplify(found.max_value)
        if any(var in self._inner for var in free_vars(low, high)) or _has_load(low) or _has_load(high):
            return None
        return low, high

    def _merge(
        self, table: dict[Buffer, Box | None], buffer: Buffer, box: list[tuple[PrimExpr, PrimExpr] | None]
    ) -> None:
        whole = [
            bounds if bounds is not None else (constant(0, dim.dtype), dim - 1)
            for bounds, dim in zip(box, buffer.shape, strict=True)
        ]
        before = table.get(buffer)
        if before is None:
            table[buffer] = tuple(whole)
            return
        table[buffer] = tuple(
            (self._least(a[0], b[0]), self._greatest(a[1], b[1])) for a, b in zip(before, whole, strict=True)
        )

    def _least(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        is_same = a is b or self._analyzer.can_prove_equal(a, b)
        return a if is_same else self._analyzer.simplify(minimum(a, b))

    def _greatest(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        is_same = a is b or self._analyzer.can_prove_equal(a, b)
        return a if is_same else self._analyzer.simplify(maximum(a, b))

    def regions(self, table: dict[Buffer, Box | None]) -> tuple[BufferRegion, ...]:
        """A region for each buffer of a table whose box is known, in the order of the table."""
        return tuple(
            BufferRegion(buffer, tuple(self._range(low, high) for low, high in box))
            for buffer, box in table.items()
            if box is not None
        )

    def _range(self, low: PrimExpr, high: PrimExpr) -> Range:
        if low is high:
            return Range.from_min_extent(low, constant(1, low.dtype))
        return Range.from_min_extent(low, self._analyzer.simplify(high - low + 1))


def _has_load(expr: PrimExpr) -> bool:
    return isinstance(expr, BufferLoad) or any(_has_load(child) for child in children(expr))  # type: ignore[arg-type]


def access_regions(stmt: Stmt) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """Return the regions that a statement reads and writes. An index that is known only at run time gives the
    whole dimension."""
    collector = AccessRegions()
    collector.visit(stmt)
    return collector.regions(collector.reads), collector.regions(collector.writes)


def block_access_regions(block: SBlock) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """Return the regions that one run of a block reads and writes, in terms of its iteration variables.

    The update of a reduction also reads what it writes; this read is omitted if `init` writes it first, and
    does not read it. Other reads of the same buffer are included.
    """
    collector = AccessRegions()
    collector._local.update(block.alloc_buffers)
    first: set[Buffer] = set()
    if block.init is not None:
        collector.visit(block.init)
        first = set(collector.writes) - set(collector.reads)
    collector.visit(block.body)
    reads, writes = collector.regions(collector.reads), collector.regions(collector.writes)
    own = {region.buffer: region for region in writes if region.buffer in first}
    matched = {match.buffer: match.source for match in block.match_buffers}
    reads = tuple(
        matched.get(r.buffer, r)
        for r in reads
        if r.buffer not in own or not structural_equal(r, own[r.buffer])
    )
    return reads, tuple(matched.get(r.buffer, r) for r in writes)


def with_access_regions(block: SBlock) -> SBlock:
    """Return the block with recomputed regions."""
    reads, writes = block_access_regions(block)
    return replace(block, reads=reads, writes=writes)


get_sblock_access_region = block_access_regions
