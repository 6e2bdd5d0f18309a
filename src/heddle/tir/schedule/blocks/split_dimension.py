"""Another layout for whole buffers of a function, its caller's included: one dimension in blocks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from heddle.arith import Analyzer
from heddle.ir.node import Map, replace
from heddle.ir.visitor import walk
from heddle.prim.nodes import IntImm, PrimExpr, Range, Var, constant, is_const_int
from heddle.prim.ops import all as all_of
from heddle.prim.ops import if_then_else
from heddle.prim.substitute import free_vars
from heddle.support.frozen import frozen
from heddle.tir.analysis.access_region import with_access_regions
from heddle.tir.analysis.blocks import plain_nests, walk_stmts
from heddle.tir.analysis.op_pattern import is_contraction
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
)
from heddle.tir.schedule.blocks.nest import nest
from heddle.tir.schedule.channels import GROUPS, SUMMED_CHANNELS
from heddle.tir.schedule.tree import root_block
from heddle.tir.substitute import StmtSubstituter


@frozen
class DimensionSplit:
    """Dimension `dim` in blocks of `factor`: B[i, c, j] is B'[i, c // f, j, c % f]. The last block is filled
    up by elements that mean nothing."""

    dim: int
    factor: int

    def shape(self, shape: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """The sizes of a buffer whose dimension `dim` lies in blocks: (.., d, ..) → (.., d/factor rounded up,
        .., factor).
        """
        size = shape[self.dim]
        assert isinstance(size, IntImm)
        blocks = constant(-(-size.value // self.factor), size.dtype)
        return (*shape[: self.dim], blocks, *shape[self.dim + 1 :], constant(self.factor, size.dtype))

    def index(self, index: tuple[PrimExpr, ...], analyzer: Analyzer) -> tuple[PrimExpr, ...]:
        """The indices of an element after the split: the block's number in place of the index, and what
        remains at the end.
        """
        at = index[self.dim]
        outer, inner = analyzer.simplify(at // self.factor), analyzer.simplify(at % self.factor)
        return (*index[: self.dim], outer, *index[self.dim + 1 :], inner)


@frozen
class Growth:
    """Dimension `dim` of a buffer is longer now: what is new repeats the last elements, or is zero."""

    dim: int
    size: int
    is_zero: bool


def split_dimensions(
    func: PrimFunc, splits: Mapping[Buffer, DimensionSplit], constants: Collection[Buffer] = ()
) -> tuple[PrimFunc, dict[Buffer, tuple[Growth, ...]]]:
    """for c, j: B[c, j] = f(c, j)   →   for c_o, j, c_i: B[c_o, j, c_i] = f(c_o * 16 + c_i, j)

    Axes that index a split dimension by themselves are split with it: the inner part of a spatial axis runs
    innermost of the spatial ones, that of a reduction innermost of all. Where blocks do not divide an axis,
    it grows to whole blocks: elements of `constants` beyond the end are to be given by the caller (the second
    result tells which), other buffers that are not split are not read there. Requires `plain_nests`.
    """
    blocks = plain_nests(func)
    assert blocks is not None
    splitters = [_Splitter(block, splits) for block in blocks]
    grown = _merged([part for splitter in splitters for part in splitter.growths(constants)])
    new = {
        old: decl_buffer(split.shape(old.shape), old.dtype, old.name, scope=old.scope)
        for old, split in splits.items()
    }
    new |= {old: _grown_buffer(old, growths) for old, growths in grown.items()}
    root = root_block(func)
    body = seq(*(splitter.nest(new, grown) for splitter in splitters))
    kept = tuple(new.get(buffer, buffer) for buffer in root.alloc_buffers)
    func = func.with_body(replace(func.body, block=replace(root, body=body, alloc_buffers=kept)))
    mapping = {param: new.get(buffer, buffer) for param, buffer in func.buffer_map.items()}
    return replace(func, buffer_map=Map(mapping)), grown


def _merged(found: list[tuple[Buffer, Growth]]) -> dict[Buffer, tuple[Growth, ...]]:
    """The growths of each buffer, one a dimension: a sum over it wants zeros."""
    made: dict[Buffer, dict[int, Growth]] = {}
    for buffer, growth in found:
        of_buffer = made.setdefault(buffer, {})
        other = of_buffer.get(growth.dim, growth)
        of_buffer[growth.dim] = Growth(
            growth.dim, max(growth.size, other.size), growth.is_zero or other.is_zero
        )
    return {buffer: tuple(of_buffer.values()) for buffer, of_buffer in made.items()}


def _grown_buffer(old: Buffer, growths: tuple[Growth, ...]) -> Buffer:
    shape = list(old.shape)
    for growth in growths:
        shape[growth.dim] = constant(growth.size, shape[growth.dim].dtype)
    return decl_buffer(tuple(shape), old.dtype, old.name, scope=old.scope)


class _Splitter(StmtSubstituter):
    """Rewrites one block."""

    def __init__(self, block: SBlock, splits: Mapping[Buffer, DimensionSplit]) -> None:
        self._old, self._splits = block, splits
        self._analyzer = Analyzer()
        self._parts: dict[Var, tuple[IterVar, IterVar]] = {}
        self._ends: dict[Var, int] = {}
        for axis, factor in self._split_axes().items():
            self._parts[axis.var] = self._split(axis, factor)
        self._values = {var: o.var * i.dom.extent + i.var for var, (o, i) in self._parts.items()}
        super().__init__(self._values)
        parts = {part for pair in self._parts.values() for part in pair}
        for axis in self._axes():
            if axis not in parts or not is_const_int(axis.dom.extent, 1):  # else it would vanish from indices
                self._analyzer.bind(axis.var, axis.dom)

    def _split_axes(self) -> dict[IterVar, int]:
        """The axes to split and by what: the stored buffer's say goes first."""
        accesses: list[Any] = [node for node in walk_stmts(self._old.body) if isinstance(node, BufferStore)]
        accesses += self._loads()
        axes = {axis.var: axis for axis in self._old.iter_vars}
        found: dict[IterVar, int] = {}
        for access in accesses:
            split = self._splits.get(access.buffer)
            axis = None if split is None else axes.get(access.indices[split.dim])
            if split is None or axis is None or axis in found:
                continue
            extent = axis.dom.extent
            if isinstance(extent, IntImm) and (extent.value % split.factor == 0 or self._may_grow(axis)):
                found[axis] = split.factor
        return found

    def _loads(self) -> list[BufferLoad]:
        return [node for node in walk(self._old.body) if isinstance(node, BufferLoad)]

    def _may_grow(self, axis: IterVar) -> bool:
        """A sum may go on over products with zeros."""
        if axis.iter_type is IterType.DataPar:
            return True
        factors = [load for load in self._loads() if axis.var in free_vars(*load.indices)]
        return is_contraction(self._old) and any(
            load.buffer not in self._splits and any(index is axis.var for index in load.indices)
            for load in factors
        )

    def _split(self, axis: IterVar, factor: int) -> tuple[IterVar, IterVar]:
        extent, dtype = axis.dom.extent, axis.var.dtype
        assert isinstance(extent, IntImm)
        if extent.value % factor:
            self._ends[axis.var] = extent.value
        made = []
        for suffix, size in (("o", -(-extent.value // factor)), ("i", factor)):
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

    def growths(self, constants: Collection[Buffer]) -> list[tuple[Buffer, Growth]]:
        """What `constants` are to have beyond their ends."""
        kinds = {axis.var: axis.iter_type for axis in self._old.iter_vars}
        return [
            (load.buffer, Growth(dim, self._grown_extent(index), kinds[index] is IterType.CommReduce))
            for load in self._loads()
            if load.buffer in constants and load.buffer not in self._splits
            for dim, index in enumerate(load.indices)
            if isinstance(index, Var) and index in self._ends
        ]

    def _grown_extent(self, var: Var) -> int:
        outer, inner = (part.dom.extent for part in self._parts[var])
        assert isinstance(outer, IntImm) and isinstance(inner, IntImm)
        return outer.value * inner.value

    def nest(self, new: Mapping[Buffer, Buffer], grown: Mapping[Buffer, tuple[Growth, ...]]) -> Stmt:
        """The block and its loops over new buffers."""
        self._new, self._grown = new, grown
        old = self._old
        init = None if old.init is None else self.visit(old.init)
        notes = Map({**old.annotations, **self._notes()})
        made = replace(old, iter_vars=self._axes(), body=self.visit(old.body), init=init, annotations=notes)
        return nest(with_access_regions(made), self._stored_only())

    def _notes(self) -> dict[str, int]:
        """How many channels a sum goes over that are no filling."""
        summed = {axis.var for axis in self._old.iter_vars if axis.iter_type is IterType.CommReduce}
        found = [end for var, end in self._ends.items() if var in summed]
        return {SUMMED_CHANNELS: found[0]} if found else {}

    def _stored_only(self) -> PrimExpr:
        """Whether an iteration's element exists in what is stored: only along a split dimension there is room
        for more, where the axis stands for itself."""
        stores = [node for node in walk_stmts(self._old.body) if isinstance(node, BufferStore)]
        used = free_vars(*(index for store in stores for index in self._without_room(store)))
        ends = [self._values[var] < end for var, end in self._ends.items() if var in used]
        return all_of(*ends) if ends else constant(True)

    def _without_room(self, store: BufferStore) -> list[PrimExpr]:
        split = self._splits.get(store.buffer)
        return [
            index
            for dim, index in enumerate(store.indices)
            if split is None or dim != split.dim or index not in self._ends
        ]

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        index = tuple(self.visit(i) for i in node.indices)
        split = self._splits.get(node.buffer)
        made = index if split is None else split.index(index, self._analyzer)
        load = BufferLoad(self._new.get(node.buffer, node.buffer), made, node.predicate, span=node.span)
        ends = [self._values[var] < self._ends[var] for var in self._beyond(node)]
        return if_then_else(all_of(*ends), load, constant(0, node.dtype)) if ends else load

    def _beyond(self, node: BufferLoad) -> list[Var]:
        """The axes that have grown, where they lead out of a buffer."""
        split = self._splits.get(node.buffer)
        longer = {growth.dim for growth in self._grown.get(node.buffer, ())}
        if split is not None:
            longer.add(split.dim)
        rest = [
            index for dim, index in enumerate(node.indices) if dim not in longer or index not in self._ends
        ]
        # where starts of groups are clamped, only channels that stand for themselves lead out
        used = rest if GROUPS[0] in self._old.annotations else free_vars(*rest)
        return [var for var in self._ends if var in used]

    def visit_BufferStore(self, node: BufferStore) -> Any:
        index = tuple(self.visit(i) for i in node.indices)
        split = self._splits.get(node.buffer)
        index = index if split is None else split.index(index, self._analyzer)
        buffer = self._new.get(node.buffer, node.buffer)
        return BufferStore(buffer, self.visit(node.value), index, node.predicate, span=node.span)
