"""Bodies of several loop functions in one: what fusion of a graph's calls and of its loops share.

A tensor of a callee takes a place: a buffer of the merged function, or one element of its leading dimensions
(a row of a stack, one of two versions of a value that changes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from heddle.ir.node import map_children, replace
from heddle.ir.visitor import Rewriter
from heddle.prim.nodes import PrimExpr, Range, constant
from heddle.prim.nodes import Var as PrimVar
from heddle.support.frozen import frozen
from heddle.support.names import NameSupply
from heddle.support.span import Span
from heddle.tir.fresh_definitions import with_fresh_definitions
from heddle.tir.nodes import (
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    IterVar,
    PrimFunc,
    SBlock,
    Stmt,
    decl_buffer,
)
from heddle.tir.schedule.blocks.nest import loop_nest
from heddle.tir.schedule.tree import root_block
from heddle.tir.substitute import StmtSubstituter

Dims = tuple[PrimExpr, ...]


@frozen
class TensorPlace:
    """Where a tensor lies: `buffer[*at, ...]`."""

    buffer: Buffer
    at: Dims = ()

    @property
    def dims(self) -> Dims:
        """The sizes of the tensor."""
        return self.buffer.shape[len(self.at) :]


Operand = TensorPlace | PrimExpr
"""Of a callee: where a tensor lies, or the value of a tensor of one number that is only read."""


@dataclass
class MergedBodies:
    """Statements of callees, in order, under names that differ, and the memory that they take."""

    block_names: NameSupply = field(default_factory=lambda: NameSupply(("root",)))
    buffer_names: NameSupply = field(default_factory=NameSupply)
    allocated: list[Buffer] = field(default_factory=list)

    def body(
        self,
        callee: PrimFunc,
        operands: Sequence[Operand],
        scalars: Sequence[PrimExpr],
        span: Span | None = None,
    ) -> Stmt:
        """What a callee does to its tensors, which `operands` are in order, with these values of its other
        parameters. `span` is the place of the call: equal calls share a callee, which has the place of the
        first one."""
        root = with_fresh_definitions(root_block(callee))
        variables: dict[PrimVar, PrimExpr] = {}
        places: dict[Buffer, TensorPlace] = {}
        values: dict[Buffer, PrimExpr] = {}
        for formal, given in zip(callee.buffers, operands, strict=True):
            if isinstance(given, PrimExpr):
                values[formal] = given
                continue
            places[formal] = given
            variables[formal.data] = given.buffer.data
            for dim, size in zip(formal.shape, given.dims, strict=True):
                if isinstance(dim, PrimVar):
                    variables.setdefault(dim, size)
        plain = [param for param in callee.params if param not in callee.buffer_map]
        variables.update(zip(plain, scalars, strict=True))
        copier = _Copier(variables, places, values, self.block_names)
        for buffer in root.alloc_buffers:
            self.allocated.append(copier.renamed(buffer, self.buffer_names.fresh(buffer.name)))
        copied: Stmt = copier.visit(root.body)
        if span is None or callee.span is None or span == callee.span:
            return copied
        moved: Stmt = _Mover(callee.span, span).visit(copied)
        return moved

    def copy(self, source: TensorPlace | PrimExpr, out: TensorPlace, hint: str) -> Stmt:
        """The elements of one place, or a number, to another place of its sizes."""
        axes = [
            IterVar(Range.from_min_extent(constant(0, dim.dtype), dim), PrimVar(f"v{k}", dim.dtype))
            for k, dim in enumerate(out.dims)
        ]
        index = tuple(axis.var for axis in axes)
        value = BufferLoad(source.buffer, (*source.at, *index)) if isinstance(source, TensorPlace) else source
        store = BufferStore(out.buffer, value, (*out.at, *index))
        return loop_nest(axes, store, self.block_names.fresh(hint))


class _Mover(Rewriter):
    """Gives all that comes from one place another one."""

    def __init__(self, old: Span, new: Span) -> None:
        self._old, self._new = old, new

    def visit(self, node: Any) -> Any:
        if isinstance(node, (PrimVar, Buffer)):
            return node
        made = map_children(node, self.visit)
        is_there = node.span is self._old or node.span == self._old
        return replace(made, span=self._new) if is_there else made


class _Copier(StmtSubstituter):
    """Copies statements; blocks get names of their own, and tensors their places."""

    def __init__(
        self,
        variables: dict[PrimVar, PrimExpr],
        places: Mapping[Buffer, TensorPlace],
        values: Mapping[Buffer, PrimExpr],
        names: NameSupply,
    ) -> None:
        super().__init__(variables, {formal: place.buffer for formal, place in places.items()})
        self._at = {formal: place.at for formal, place in places.items() if place.at}
        self._values = values
        self._block_names = names

    def renamed(self, old: Buffer, name: str) -> Buffer:
        """The buffer of the copy for one that the callee allocates."""
        shape = tuple(self.visit(dim) for dim in old.shape)
        made = decl_buffer(shape, old.dtype, name, scope=old.scope, align_bytes=old.align_bytes)
        self.buffers[old] = made
        return made

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        if node.buffer in self._values:
            return self._values[node.buffer]
        if node.buffer not in self._at:
            return super().visit_BufferLoad(node)
        return BufferLoad(
            self.buffer(node.buffer), self._index(node), self._predicate(node.predicate), span=node.span
        )

    def visit_BufferStore(self, node: BufferStore) -> Any:
        if node.buffer not in self._at:
            return self.default(node)
        value, index = self.visit(node.value), self._index(node)
        return BufferStore(
            self.buffer(node.buffer), value, index, self._predicate(node.predicate), span=node.span
        )

    def _index(self, node: BufferLoad | BufferStore) -> Dims:
        return (*self._at[node.buffer], *(self.visit(index) for index in node.indices))

    def _predicate(self, predicate: PrimExpr | None) -> PrimExpr | None:
        return None if predicate is None else self.visit(predicate)

    def visit_BufferRegion(self, node: BufferRegion) -> Any:
        if node.buffer not in self._at:
            return self.default(node)
        first = tuple(
            Range.from_min_extent(index, constant(1, index.dtype)) for index in self._at[node.buffer]
        )
        return BufferRegion(
            self.buffer(node.buffer), (*first, *(self.visit(part) for part in node.region)), span=node.span
        )

    def visit_SBlock(self, node: SBlock) -> Any:
        reads = tuple(region for region in node.reads if region.buffer not in self._values)
        made = self.default(node if len(reads) == len(node.reads) else replace(node, reads=reads))
        return replace(made, name_hint=self._block_names.fresh(node.name_hint))
