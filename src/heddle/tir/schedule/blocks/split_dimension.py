"""Another layout for whole buffers of a function, its caller's included: one dimension in blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heddle.arith import Analyzer
from heddle.ir.node import Map, replace
from heddle.ir.visitor import walk
from heddle.prim.nodes import IntImm, PrimExpr, Range, Var, constant, is_const_int
from heddle.tir.analysis.access_region import with_access_regions
from heddle.tir.nodes import (
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    IterType,
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
from heddle.tir.substitute import StmtSubstituter


@dataclass(frozen=True, slots=True)
class DimensionSplit:
    """Dimension `dim` in blocks of `factor`, which divides it: B[i, c, j] is B'[i, c // f, j, c % f]."""

    dim: int
    factor: int

    def shape(self, shape: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        size = shape[self.dim]
        assert isinstance(size, IntImm) and size.value % self.factor == 0
        blocks = constant(size.value // self.factor, size.dtype)
        return (*shape[: self.dim], blocks, *shape[self.dim + 1 :], constant(self.factor, size.dtype))

    def index(self, index: tuple[PrimExpr, ...], analyzer: Analyzer) -> tuple[PrimExpr, ...]:
        at = index[self.dim]
        outer, inner = analyzer.simplify(at // self.factor), analyzer.simplify(at % self.factor)
        return (*index[: self.dim], outer, *index[self.dim + 1 :], inner)


def plain_nests(func: PrimFunc) -> list[SBlock] | None:
    """The blocks of a function whose root holds only perfect nests over all axes of one block each, without
    conditions; None for any other function."""
    if not isinstance(func.body, SBlockRealize):
        return None
    found: list[SBlock] = []
    for stmt in statements(root_block(func).body):
        loops: list[Var] = []
        while isinstance(stmt, For) and stmt.kind is ForKind.SERIAL and not stmt.annotations:
            loops.append(stmt.loop_var)
            stmt = stmt.body
        if not isinstance(stmt, SBlockRealize) or tuple(loops) != stmt.iter_values:
            return None
        if any(isinstance(node, SBlockRealize) for node in walk(stmt.block.body)):
            return None
        found.append(stmt.block)
    return found


def split_dimensions(func: PrimFunc, splits: Mapping[Buffer, DimensionSplit]) -> PrimFunc:
    """for c, j: B[c, j] = f(c, j)   →   for c_o, j, c_i: B[c_o, j, c_i] = f(c_o * 16 + c_i, j)

    Axes that index a split dimension by themselves are split with it: the inner part of a spatial axis runs
    innermost of the spatial ones, that of a reduction innermost of all. Requires `plain_nests`.
    """
    blocks = plain_nests(func)
    assert blocks is not None
    new = {
        old: decl_buffer(split.shape(old.shape), old.dtype, old.name, scope=old.scope)
        for old, split in splits.items()
    }
    root = root_block(func)
    body = seq(*(nest(_Splitter(block, splits, new).block()) for block in blocks))
    kept = tuple(new.get(buffer, buffer) for buffer in root.alloc_buffers)
    func = func.with_body(replace(func.body, block=replace(root, body=body, alloc_buffers=kept)))
    mapping = {param: new.get(buffer, buffer) for param, buffer in func.buffer_map.items()}
    return replace(func, buffer_map=Map(mapping))


def nest(block: SBlock) -> Stmt:
    """Serial loops over all axes of a block."""
    loops = [Var(axis.var.name.removeprefix("v_"), axis.var.dtype) for axis in block.iter_vars]
    stmt: Stmt = SBlockRealize(tuple(loops), constant(True), block, span=block.span)
    for var, axis in zip(reversed(loops), reversed(block.iter_vars), strict=True):
        stmt = For(var, axis.dom.min, axis.dom.extent, ForKind.SERIAL, stmt, span=block.span)
    return stmt


class _Splitter(StmtSubstituter):
    """Rewrites one block."""

    def __init__(
        self, block: SBlock, splits: Mapping[Buffer, DimensionSplit], new: Mapping[Buffer, Buffer]
    ) -> None:
        self._old, self._splits, self._new = block, splits, new
        self._analyzer = Analyzer()
        self._parts: dict[Var, tuple[IterVar, IterVar]] = {}
        for axis, factor in self._split_axes().items():
            self._parts[axis.var] = self._split(axis, factor)
        super().__init__({var: o.var * i.dom.extent + i.var for var, (o, i) in self._parts.items()})
        parts = {part for pair in self._parts.values() for part in pair}
        for axis in self._axes():
            if axis not in parts or not is_const_int(axis.dom.extent, 1):  # else it would vanish from indices
                self._analyzer.bind(axis.var, axis.dom)

    def _split_axes(self) -> dict[IterVar, int]:
        """The axes to split and by what: the stored buffer's say goes first."""
        accesses: list[Any] = [node for node in walk(self._old.body) if isinstance(node, BufferStore)]
        accesses += [node for node in walk(self._old.body) if isinstance(node, BufferLoad)]
        axes = {axis.var: axis for axis in self._old.iter_vars}
        found: dict[IterVar, int] = {}
        for access in accesses:
            split = self._splits.get(access.buffer)
            axis = None if split is None else axes.get(access.indices[split.dim])
            if split is None or axis is None or axis in found:
                continue
            extent = axis.dom.extent
            if isinstance(extent, IntImm) and extent.value % split.factor == 0:
                found[axis] = split.factor
        return found

    def _split(self, axis: IterVar, factor: int) -> tuple[IterVar, IterVar]:
        extent, dtype = axis.dom.extent, axis.var.dtype
        assert isinstance(extent, IntImm)
        made = []
        for suffix, size in (("o", extent.value // factor), ("i", factor)):
            dom = Range.from_min_extent(constant(0, dtype), constant(size, dtype))
            made.append(IterVar(dom, Var(f"{axis.var.name}_{suffix}", dtype), axis.iter_type))
        return made[0], made[1]

    def _axes(self) -> tuple[IterVar, ...]:
        ordered: list[IterVar] = []
        for kind in (IterType.DataPar, IterType.CommReduce):
            own = [axis for axis in self._old.iter_vars if axis.iter_type is kind]
            ordered += [self._parts[axis.var][0] if axis.var in self._parts else axis for axis in own]
            ordered += [self._parts[axis.var][1] for axis in own if axis.var in self._parts]
        return tuple(ordered)

    def block(self) -> SBlock:
        old = self._old
        init = None if old.init is None else self.visit(old.init)
        made = replace(old, iter_vars=self._axes(), body=self.visit(old.body), init=init)
        return with_access_regions(made)

    def _at(self, buffer: Buffer, index: tuple[PrimExpr, ...]) -> tuple[Buffer, tuple[PrimExpr, ...]]:
        if buffer not in self._splits:
            return buffer, index
        return self._new[buffer], self._splits[buffer].index(index, self._analyzer)

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        buffer, index = self._at(node.buffer, tuple(self.visit(i) for i in node.indices))
        return BufferLoad(buffer, index, node.predicate, span=node.span)

    def visit_BufferStore(self, node: BufferStore) -> Any:
        buffer, index = self._at(node.buffer, tuple(self.visit(i) for i in node.indices))
        return BufferStore(buffer, self.visit(node.value), index, node.predicate, span=node.span)
