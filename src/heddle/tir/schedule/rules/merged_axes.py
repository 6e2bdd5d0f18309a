"""Axes that lie side by side in all that a function reads and writes, as one axis.

    for b, c, a in grid(nb, nc, na):             for f, a in grid(nb * nc, na):
        B[b, c, a] = A[a, b, c]            →         B1[f, a] = A1[a, f]

A rule sees the last axis of what is read and of what is written: a few columns of many rows are then a run of
memory. Scheduled loops get their own buffers back, whose indices are quotients and remainders; flat addresses
have none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from heddle.arith.sizes import ravel, unravel
from heddle.ir.node import Map, children, replace
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import Rewriter, walk
from heddle.prim.nodes import IntImm, PrimExpr, Range, Var, constant, is_const_int
from heddle.prim.substitute import free_vars
from heddle.support.frozen import frozen
from heddle.tir.analysis.access_region import with_access_regions
from heddle.tir.analysis.blocks import plain_nests
from heddle.tir.nodes import (
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    IterVar,
    PrimFunc,
    SBlock,
    SBlockRealize,
    seq,
)
from heddle.tir.schedule.blocks.nest import nest

Pair = tuple[Var, Var]
Access = BufferLoad | BufferStore


@frozen
class Groups:
    """The buffer that another one stands for, and which dimensions `theirs` of it are together as large as
    which dimensions `own` of the other: a pair for each group, in order."""

    buffer: Buffer
    own: list[list[int]]
    theirs: list[list[int]]


@frozen
class MergedAxes:
    """A function of other axes, fewer or of other lengths; `given` says for buffers of its parameters what
    they stand for."""

    func: PrimFunc
    given: dict[Buffer, Groups]

    def taken_back(self, scheduled: PrimFunc) -> PrimFunc:
        """Scheduled loops of the function, over the buffers that the parameters had."""
        own = {merged: groups.buffer for merged, groups in self.given.items()}
        buffers = {param: own.get(buffer, buffer) for param, buffer in scheduled.buffer_map.items()}
        body = _Divided(self.given).visit(scheduled.body)
        return replace(scheduled, body=body, buffer_map=Map(buffers))


def with_merged_axes(func: PrimFunc) -> MergedAxes | None:
    """The function with one axis for axes that lie side by side everywhere; None where there are none."""
    blocks = plain_nests(func)
    if not blocks or not isinstance(func.body, SBlockRealize):
        return None
    pairs = common_pairs(blocks)
    if not any(pairs):
        return None
    groups: dict[Buffer, list[list[int]]] = {}
    for block, own in zip(blocks, pairs, strict=True):
        for access in accesses(block):
            groups.setdefault(access.buffer, _groups_of(access.indices, own))
    merged = {b: _merged_buffer(b, parts) for b, parts in groups.items() if len(parts) < len(b.shape)}
    nests = [
        nest(_merged_block(block, own, groups, merged)) for block, own in zip(blocks, pairs, strict=True)
    ]
    root = func.body.block
    allocated = tuple(merged.get(buffer, buffer) for buffer in root.alloc_buffers)
    body = replace(func.body, block=replace(root, body=seq(*nests), alloc_buffers=allocated))
    given = {param: merged.get(buffer, buffer) for param, buffer in func.buffer_map.items()}
    back = {
        merged[old]: Groups(old, [[k] for k in range(len(groups[old]))], groups[old])
        for old in func.buffers
        if old in merged
    }
    return MergedAxes(replace(func, body=body, buffer_map=Map(given)), back)


# ---- which axes


def accesses(block: SBlock) -> list[Access]:
    """All that a block reads and writes, one by one."""
    stmts = [block.body] if block.init is None else [block.init, block.body]
    return [n for stmt in stmts for n in walk(stmt) if isinstance(n, (BufferLoad, BufferStore))]


def common_pairs(blocks: list[SBlock]) -> list[set[Pair]]:
    """For each block the pairs of axes that may be one: all agree on the dimensions of each buffer."""
    pairs = [set(_pairs(block)) for block in blocks]
    while True:
        apart = {
            (access.buffer, place)
            for block, own in zip(blocks, pairs, strict=True)
            for access in accesses(block)
            for place in range(len(access.indices) - 1)
            if access.indices[place : place + 2] not in own
        }
        dropped = False
        for block, own in zip(blocks, pairs, strict=True):
            for access in accesses(block):
                for place in range(len(access.indices) - 1):
                    pair = access.indices[place : place + 2]
                    if pair in own and (access.buffer, place) in apart:
                        own.remove(pair)
                        dropped = True
        if not dropped:
            return pairs


def _pairs(block: SBlock) -> Iterator[Pair]:
    """Neighbouring axes of one kind that stand side by side wherever one of them does, the second over
    a whole dimension."""
    found = accesses(block)
    values = set(_values_in(block))
    if block.annotations or block.match_buffers or any(access.predicate is not None for access in found):
        return
    for first, second in zip(block.iter_vars, block.iter_vars[1:], strict=False):
        if first.iter_type is not second.iter_type or {first.var, second.var} & values:
            continue
        if is_const_int(first.dom.extent, 0) or is_const_int(second.dom.extent, 0):
            continue  # by which indices would be divided
        if not is_const_int(first.dom.min, 0) or not is_const_int(second.dom.min, 0):
            continue
        if all(_stand_together(access, first, second) for access in found):
            yield first.var, second.var


def _values_in(block: SBlock) -> Iterator[Var]:
    """The variables that a block uses other than as indices by themselves."""
    stack: list[Any] = [block.body] if block.init is None else [block.init, block.body]
    while stack:
        node = stack.pop()
        if isinstance(node, Var):
            yield node
        elif isinstance(node, (BufferLoad, BufferStore)):
            stack += [index for index in node.indices if not isinstance(index, Var)]
            stack += [node.value] if isinstance(node, BufferStore) else []
        elif not isinstance(node, Buffer):
            stack += children(node)


def _stand_together(access: Access, first: IterVar, second: IterVar) -> bool:
    """Whether an access has both axes, once and in their order, in a dense buffer, or neither."""
    places = [k for k, index in enumerate(access.indices) if index is first.var]
    if not places:
        return second.var not in free_vars(*access.indices)
    at, buffer = places[0], access.buffer
    used = [
        var for k, index in enumerate(access.indices) if k not in (at, at + 1) for var in free_vars(index)
    ]
    return (
        at + 1 < len(access.indices)
        and access.indices[at + 1] is second.var
        and first.var not in used
        and second.var not in used
        and not buffer.strides
        and structural_equal(buffer.shape[at + 1], second.dom.extent)
    )


# ---- the function with fewer axes


def _groups_of(indices: tuple[PrimExpr, ...], pairs: set[Pair]) -> list[list[int]]:
    """Which dimensions become one."""
    groups: list[list[int]] = []
    for place in range(len(indices)):
        if groups and indices[place - 1 : place + 1] in pairs:
            groups[-1].append(place)
        else:
            groups.append([place])
    return groups


def _merged_buffer(old: Buffer, groups: list[list[int]]) -> Buffer:
    return replace(old, shape=tuple(_product([old.shape[k] for k in group]) for group in groups))


def _product(sizes: list[PrimExpr]) -> PrimExpr:
    total = sizes[0]
    for size in sizes[1:]:
        total = total * size
    return total


def _merged_block(
    block: SBlock,
    pairs: set[Pair],
    groups: dict[Buffer, list[list[int]]],
    merged: dict[Buffer, Buffer],
) -> SBlock:
    """The block over its merged axes: the first axis of each group stands for all of it."""
    axes: list[IterVar] = []
    inner = {second for _, second in pairs}
    for axis in block.iter_vars:
        if axis.var not in inner:
            axes.append(axis)
            continue
        extent = axes[-1].dom.extent * axis.dom.extent
        axes[-1] = replace(axes[-1], dom=Range.from_min_extent(constant(0, extent.dtype), extent))
    rewriter = _Fewer(groups, merged)
    init = None if block.init is None else rewriter.visit(block.init)
    made = SBlock(tuple(axes), (), (), block.name_hint, rewriter.visit(block.body), init, span=block.span)
    return with_access_regions(made)


class _Fewer(Rewriter):
    """Accesses by the first index of each group."""

    def __init__(self, groups: dict[Buffer, list[list[int]]], merged: dict[Buffer, Buffer]) -> None:
        super().__init__()
        self._groups, self._merged = groups, merged

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        node = self.default(node)
        if node.buffer not in self._merged:
            return node
        indices = tuple(node.indices[group[0]] for group in self._groups[node.buffer])
        return BufferLoad(self._merged[node.buffer], indices, span=node.span)

    def visit_BufferStore(self, node: BufferStore) -> Any:
        node = self.default(node)
        if node.buffer not in self._merged:
            return node
        indices = tuple(node.indices[group[0]] for group in self._groups[node.buffer])
        return BufferStore(self._merged[node.buffer], node.value, indices, span=node.span)

    def visit_Buffer(self, node: Buffer) -> Any:
        return node


# ---- and back


class _Divided(Rewriter):
    """Accesses of buffers as such of those that they stand for."""

    def __init__(self, given: dict[Buffer, Groups]) -> None:
        super().__init__()
        self._given = given

    def visit_Buffer(self, node: Buffer) -> Any:
        return node

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        node = self.default(node)
        if node.buffer not in self._given:
            return node
        old, indices = self._place(node)
        return BufferLoad(old, indices, node.predicate, span=node.span)

    def visit_BufferStore(self, node: BufferStore) -> Any:
        node = self.default(node)
        if node.buffer not in self._given:
            return node
        old, indices = self._place(node)
        return BufferStore(old, node.value, indices, node.predicate, span=node.span)

    def visit_BufferRegion(self, node: BufferRegion) -> Any:
        node = self.default(node)
        if node.buffer not in self._given:
            return node
        groups = self._given[node.buffer]
        region: list[Range] = []
        for own, theirs in zip(groups.own, groups.theirs, strict=True):
            parts = [node.region[k] for k in own]
            region += _ranges(
                parts, [node.buffer.shape[k] for k in own], [groups.buffer.shape[k] for k in theirs]
            )
        return BufferRegion(groups.buffer, tuple(region), span=node.span)

    def _place(self, node: Access) -> tuple[Buffer, tuple[PrimExpr, ...]]:
        groups = self._given[node.buffer]
        indices: list[PrimExpr] = []
        for own, theirs in zip(groups.own, groups.theirs, strict=True):
            place = ravel([node.indices[k] for k in own], [node.buffer.shape[k] for k in own])
            indices += unravel(place, [groups.buffer.shape[k] for k in theirs])
        return groups.buffer, tuple(indices)


def _ranges(parts: list[Range], own: list[PrimExpr], theirs: list[PrimExpr]) -> list[Range]:
    """The ranges that hold some of a group of dimensions: one element, or whole dimensions."""
    if len(own) == len(theirs) == 1:
        return parts
    if all(is_const_int(part.extent, 1) for part in parts):
        place = ravel([part.min for part in parts], own)
        one = IntImm(place.dtype, 1)
        return [Range.from_min_extent(index, one) for index in unravel(place, theirs)]
    return [Range.from_min_extent(constant(0, size.dtype), size) for size in theirs]
