"""CompactBuffers: a temporary buffer shrinks to the region that its scope touches.

for i in range(n):                      for i in range(n):
    alloc T (n, 16)              →          alloc T (1, 16)
    T[i, j] = f(A[i, j])                    T[0, j] = f(A[i, j])
    C[i] = g(T[i, :])                       C[i] = g(T[0, :])
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.arith import Analyzer
from heddle.ir.node import replace
from heddle.ir.structural import structural_equal
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import Rewriter
from heddle.prim.nodes import IntImm, PrimExpr, Range, Var, constant, is_const_int
from heddle.tir.analysis.access_region import AccessRegions, Box
from heddle.tir.analysis.views import viewed_memory
from heddle.tir.nodes import (
    CHECK_BOUNDS,
    AllocBuffer,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    PrimFunc,
    SeqStmt,
    Stmt,
    decl_buffer,
    seq,
)

MAX_CONSTANT_EXTENT = 1 << 16
"""A dimension whose size varies is given its constant upper bound up to this many elements."""


class CompactBuffers(FunctionPass):
    """Requires: no blocks, allocations in place."""

    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)
    requires: ClassVar[tuple[str, ...]] = ("no blocks",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        viewed = viewed_memory(func.body)
        return func.with_body(_Compact(CHECK_BOUNDS in func.attrs, viewed).visit(func.body))


class _Compact(Rewriter):
    """With `is_checked`, a buffer shrinks only where its accesses surely lie inside it: one that reads
    outside shall be found, not be given room. What `viewed` names keeps its size."""

    def __init__(self, is_checked: bool, viewed: frozenset[Var]) -> None:
        self._viewed = viewed
        self._is_checked = is_checked
        self._analyzer = Analyzer()
        self._starts: dict[Buffer, tuple[Buffer, tuple[PrimExpr, ...]]] = {}

    def visit_For(self, node: For) -> Any:
        self._analyzer.bind(node.loop_var, Range.from_min_extent(node.min, node.extent), allow_override=True)
        return self.default(node)

    def visit_SeqStmt(self, node: SeqStmt) -> Any:
        parts: list[Stmt] = []
        for position, stmt in enumerate(node.seq):
            if isinstance(stmt, AllocBuffer) and not stmt.annotations:
                parts.append(self._shrink(stmt, seq(*node.seq[position + 1 :])))
            else:
                parts.append(self.visit(stmt))
        same = all(a is b for a, b in zip(parts, node.seq, strict=True))
        return node if same else SeqStmt(tuple(parts), span=node.span)

    def _shrink(self, alloc: AllocBuffer, scope: Stmt) -> AllocBuffer:
        buffer = alloc.buffer
        collector = AccessRegions(buffer)
        collector.visit(scope)
        boxes = [
            box for box in (collector.reads.get(buffer), collector.writes.get(buffer)) if box is not None
        ]
        if not boxes or buffer.strides or not buffer.shape or buffer.data in self._viewed:
            return alloc
        box = boxes[0] if len(boxes) == 1 else self._join(boxes[0], boxes[1])
        starts, extents = zip(
            *(self._dimension(low, high, dim) for (low, high), dim in zip(box, buffer.shape, strict=True)),
            strict=True,
        )
        if all(structural_equal(a, b) for a, b in zip(extents, buffer.shape, strict=True)):
            return alloc
        small = decl_buffer(
            extents, buffer.dtype, buffer.name, scope=buffer.scope, align_bytes=buffer.align_bytes
        )
        self._starts[buffer] = (small, starts)
        return replace(alloc, buffer=small)

    def _join(self, a: Box, b: Box) -> Box:
        collector = AccessRegions()
        return tuple(
            (collector._least(x[0], y[0]), collector._greatest(x[1], y[1])) for x, y in zip(a, b, strict=True)
        )

    def _dimension(self, low: PrimExpr, high: PrimExpr, dim: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        """Where the region starts, and how many elements to keep (constant where that has a small bound)."""
        extent = self._analyzer.simplify(high - low + 1)
        if not isinstance(extent, IntImm):
            bound = self._analyzer.const_int_bound(extent)
            if 0 < bound.max_value <= MAX_CONSTANT_EXTENT:
                extent = constant(bound.max_value, dim.dtype)
        if self._analyzer.can_prove(extent >= dim) and not self._analyzer.can_prove(extent > dim):
            return constant(0, dim.dtype), dim
        if self._is_checked and not (
            self._analyzer.can_prove(low >= 0) and self._analyzer.can_prove(high < dim)
        ):
            return constant(0, dim.dtype), dim
        return low, extent

    def _moved(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[Buffer, tuple[PrimExpr, ...]]:
        small, starts = self._starts[buffer]
        return small, tuple(
            index if is_const_int(start, 0) else self._analyzer.simplify(index - start)
            for index, start in zip(indices, starts, strict=True)
        )

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        made = self.default(node)
        if made.buffer not in self._starts:
            return made
        buffer, indices = self._moved(made.buffer, made.indices)
        return BufferLoad(buffer, indices, made.predicate, span=node.span)

    def visit_BufferStore(self, node: BufferStore) -> Any:
        made = self.default(node)
        if made.buffer not in self._starts:
            return made
        buffer, indices = self._moved(made.buffer, made.indices)
        return BufferStore(buffer, made.value, indices, made.predicate, span=node.span)
