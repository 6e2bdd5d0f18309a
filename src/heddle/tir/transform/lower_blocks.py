"""LowerBlocks: blocks become plain statements under their loops.

    for i, r in grid(n, m):                    for i in n:
        with sblock("C"):                          C[i] = 0
            v_i, v_r = remap("SR", [i, r])         for r in m:
            init: C[v_i] = 0                  →        C[i] = C[i] + A[i, r]
            C[v_i] = C[v_i] + A[v_i, v_r]

Axes are replaced by their values. `init` goes in front of the innermost loops that only the reduction uses,
so it runs where they have no iterations too; elsewhere it runs where all reduction axes are at their start. A
block's buffers become allocations in front of its body; views of regions (match_buffer) become buffers with
an offset.
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.ir.node import map_children
from heddle.ir.transform import FunctionPass, PassContext
from heddle.prim.nodes import IntImm, PrimExpr, Var, is_const_int
from heddle.prim.ops import all as all_of
from heddle.prim.ops import equal
from heddle.prim.substitute import free_vars, substitute
from heddle.tir.nodes import (
    AllocBuffer,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    IterType,
    MatchBufferRegion,
    PrimFunc,
    SBlock,
    SBlockRealize,
    Stmt,
    seq,
)
from heddle.tir.substitute import StmtSubstituter


class LowerBlocks(FunctionPass):
    """Establishes: no blocks."""

    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)
    establishes: ClassVar[tuple[str, ...]] = ("no blocks",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        return func.with_body(lower_blocks(func.body))


def lower_blocks(stmt: Stmt) -> Stmt:
    """A statement without blocks."""
    lowered: Stmt = _Lower({}).visit(stmt)
    return lowered


class _Lower(StmtSubstituter):
    """Replaces axes by values on the way down."""

    def __init__(self, mapping: dict[Var, PrimExpr]) -> None:
        self._mapping = mapping
        super().__init__(mapping)
        self._views: dict[Buffer, tuple[Buffer, tuple[PrimExpr, ...]]] = {}
        self._initialized: set[int] = set()

    def visit_For(self, node: For) -> Stmt:
        nest = _reduction_nest(node)
        if nest is None:
            made: Stmt = map_children(node, self.visit)
            return made
        loops, realize = nest
        starts = {loop.loop_var: self.visit(loop.min) for loop in loops}
        values = [self.visit(value) for value in realize.iter_values]
        for axis, value in zip(realize.block.iter_vars, values, strict=True):
            self._mapping[axis.var] = value
        init = self._init(realize.block, [substitute(value, starts) for value in values])
        self._initialized.add(id(realize.block))
        predicate = self.visit(realize.predicate)
        if init is not None and not is_const_int(predicate, 1):
            init = IfThenElse(predicate, init, span=realize.span)
        return seq(init, map_children(node, self.visit))

    def visit_SBlockRealize(self, node: SBlockRealize) -> Stmt:
        block = node.block
        values = [self.visit(value) for value in node.iter_values]
        predicate = self.visit(node.predicate)
        for axis, value in zip(block.iter_vars, values, strict=True):
            self._mapping[axis.var] = value
        for match in block.match_buffers:
            self._add_view(match)
        stmts: list[Stmt | None] = [AllocBuffer(buffer, span=block.span) for buffer in block.alloc_buffers]
        stmts.append(self._init(block, values))
        stmts.append(self.visit(block.body))
        body = seq(*stmts)
        if isinstance(predicate, IntImm) and predicate.value == 1:
            return body
        return IfThenElse(predicate, body, span=node.span)

    def _init(self, block: SBlock, values: list[PrimExpr]) -> Stmt | None:
        if block.init is None or id(block) in self._initialized:
            return None
        starts = [
            equal(value, self.visit(axis.dom.min))
            for axis, value in zip(block.iter_vars, values, strict=True)
            if axis.iter_type is IterType.CommReduce
        ]
        condition = all_of(*starts)
        init: Stmt = self.visit(block.init)
        return init if isinstance(condition, IntImm) else IfThenElse(condition, init, span=block.span)

    def _add_view(self, match: MatchBufferRegion) -> None:
        """A view reads and writes the source at its own index plus the region's start."""
        source = match.source.buffer
        starts = tuple(self.visit(r.min) for r in match.source.region)
        self._views[match.buffer] = (source, starts)
        for dim, r in zip(
            match.buffer.shape,
            match.source.region[len(match.source.region) - match.buffer.ndim :],
            strict=True,
        ):
            if isinstance(dim, Var):
                self._mapping[dim] = self.visit(r.extent)

    def _through_view(
        self, buffer: Buffer, indices: tuple[PrimExpr, ...]
    ) -> tuple[Buffer, tuple[PrimExpr, ...]]:
        if buffer not in self._views:
            return buffer, indices
        source, starts = self._views[buffer]
        skip = len(starts) - len(indices)
        moved = tuple(start + index for start, index in zip(starts[skip:], indices, strict=True))
        return self._through_view(source, (*starts[:skip], *moved))

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        if node.buffer not in self._views:
            return super().visit_BufferLoad(node)
        indices = tuple(self.visit(index) for index in node.indices)
        buffer, moved = self._through_view(node.buffer, indices)
        return BufferLoad(buffer, moved, node.predicate, span=node.span)

    def visit_BufferStore(self, node: BufferStore) -> Any:
        indices, value = tuple(self.visit(index) for index in node.indices), self.visit(node.value)
        predicate = None if node.predicate is None else self.visit(node.predicate)
        buffer, moved = self._through_view(self.buffer(node.buffer), indices)
        return BufferStore(buffer, value, moved, predicate, span=node.span)


def _reduction_nest(node: For) -> tuple[list[For], SBlockRealize] | None:
    """Loops from `node` down to a block with `init`, if its reduction axes alone use them."""
    loops: list[For] = [node]
    while isinstance(loops[-1].body, For):
        loops.append(loops[-1].body)
    realize = loops[-1].body
    if not isinstance(realize, SBlockRealize) or realize.block.init is None or realize.block.match_buffers:
        return None
    if any(loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED) for loop in loops):
        return None
    spatial = [
        value
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        if axis.iter_type is not IterType.CommReduce
    ]
    used = set(free_vars(realize.predicate, *spatial))
    return None if any(loop.loop_var in used for loop in loops) else (loops, realize)
