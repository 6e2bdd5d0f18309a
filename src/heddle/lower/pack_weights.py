"""PackWeights: store constant weights in the order in which contractions read them into vectors.

    conv(x, w: (64, 3, 7, 7))       →       conv(x, w': (2, 3, 7, 7, 32)),   w'[o // 32, i, y, x, o % 32] =
    w[o, i, y, x]

For each contraction that reads a parameter for which every caller passes a constant, the spatial axis that
only the parameter uses is cut into blocks, which become the last dimension. The constants are rearranged at
compile time. Where the loops for one row take two blocks at a time, there are an even number of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from typing import Any, ClassVar

import numpy as np

from heddle.arith import Analyzer
from heddle.graph.op_builder import const, typed_constant
from heddle.graph.rewriter import BindingRewriter, loop_call
from heddle.graph.types import TensorType
from heddle.ir.expr import Call, Constant, Expr, Function, GlobalVar, Tuple, Var
from heddle.ir.module import IRModule
from heddle.ir.node import Map, replace
from heddle.ir.transform import Pass, PassContext
from heddle.ir.visitor import walk
from heddle.lower.normal_form import GRAPHS
from heddle.prim.nodes import IntImm, PrimExpr, constant, is_const_int
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.substitute import free_vars
from heddle.runtime.tensor import Tensor, empty
from heddle.support.frozen import frozen
from heddle.support.on_threads import map_on_threads
from heddle.target import Target
from heddle.tir.analysis.access_region import with_access_regions
from heddle.tir.analysis.blocks import blocks_in
from heddle.tir.analysis.op_pattern import is_contraction
from heddle.tir.dot_product import packed_depth
from heddle.tir.nodes import Buffer, BufferLoad, IterType, PrimFunc, SBlock, SBlockRealize, decl_buffer
from heddle.tir.schedule.rules.convolution_tile import (
    choose_panel,
    find_convolution,
    weight_blocks,
)
from heddle.tir.schedule.rules.register_tile import MOST_VECTORS, Axes, choose_tile, lanes_of
from heddle.tir.schedule.rules.rule import extent_of, is_reduction
from heddle.tir.schedule.tree import replace_stmt
from heddle.tir.substitute import StmtSubstituter

BLOCKS = (64, 48, 32, 16, 8)
"""Block sizes: the first that divides the axis, or nearly: the last block is filled up by zeros."""

MAX_FILL = 0.05
"""The share of an axis that may be zeros for the sake of a larger block."""
_PART_BYTES = 1 << 20
"""How much of the weights a thread rearranges at a time."""


@frozen(slots=False)
class PackWeights(Pass):
    """Requires: calls of loop functions; runs before schedules are chosen."""

    dialects: ClassVar[tuple[str, ...] | None] = GRAPHS

    target: Target

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        constants = always_constant(mod)
        plans: dict[GlobalVar, list[_Packing]] = {}
        table: dict[GlobalVar, Any] = dict(mod.functions)
        for var, positions in constants.items():
            packed, plan = _pack_function(mod[var], positions, self.target)
            if plan:
                table[var], plans[var] = packed, plan
        if not plans:
            return mod
        rewriter = _ConstantPacker(mod, plans)
        for var, func in self.functions(mod):
            table[var] = rewriter.run(func)
        return mod.with_functions(table)


@frozen
class _Packing:
    """Dimensions of parameter `position` are cut into blocks: `blocks` has (dimension, size), and the insides
    of blocks become the last dimensions in this order. The blocks of dimension `first`, which lie in vector
    lanes, become the first dimension; `in_pairs`: of which there are an even number."""

    position: int
    blocks: tuple[tuple[int, int], ...]
    first: int
    in_pairs: bool = False

    def shape(self, shape: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
        made = list(shape)
        for dim, block in self.blocks:
            size = shape[dim]
            assert isinstance(size, IntImm)
            made[dim] = constant(self._count(dim, size.value, block), size.dtype)
        sizes = [constant(block, shape[dim].dtype) for dim, block in self.blocks]
        return (*self._ordered(made), *sizes)

    def _count(self, dim: int, size: int, block: int) -> int:
        """How many blocks a dimension has."""
        count = -(-size // block)
        return count + count % 2 if self.in_pairs and dim == self.first else count

    def index(self, index: Sequence[PrimExpr], analyzer: Analyzer) -> tuple[PrimExpr, ...]:
        made = list(index)
        for dim, block in self.blocks:
            made[dim] = index[dim] // block
        insides = [index[dim] % block for dim, block in self.blocks]
        if all(isinstance(index[dim], PrimVar) for dim, _ in self.blocks):
            return (*self._ordered(made), *insides)
        made, insides = ([analyzer.simplify(item) for item in part] for part in (made, insides))
        return (*self._ordered(made), *insides)

    def _ordered(self, outer: Sequence[Any]) -> tuple[Any, ...]:
        return (outer[self.first], *(item for k, item in enumerate(outer) if k != self.first))

    def data(self, weights: Tensor) -> Tensor:
        """The weights rearranged, in memory that is written once: it is most of what a model has."""
        sizes, array = dict(self.blocks), weights.numpy()
        filled = [
            self._count(dim, size, sizes[dim]) * sizes[dim] if dim in sizes else size
            for dim, size in enumerate(array.shape)
        ]
        fill = [(0, new - size) for new, size in zip(filled, array.shape, strict=True)]
        if any(after for _, after in fill):
            array = np.pad(array, fill)
        shape: list[int] = []
        outer: list[int] = []
        inside: dict[int, int] = {}
        for dim, size in enumerate(array.shape):
            outer.append(len(shape))
            shape.append(size // sizes.get(dim, 1))
            if dim in sizes:
                inside[dim] = len(shape)
                shape.append(sizes[dim])
        order = (*self._ordered(outer), *(inside[dim] for dim, _ in self.blocks))
        moved = array.reshape(shape).transpose(order)
        made = empty(moved.shape, weights.dtype)
        _copy(made.numpy(), moved)
        return made


def _copy(target: np.ndarray[Any, Any], source: np.ndarray[Any, Any]) -> None:
    """Copy an array in parts, each of some rows of the first dimension."""
    rows = max(1, len(source) * _PART_BYTES // max(1, source.nbytes))
    parts = [slice(start, start + rows) for start in range(0, len(source), rows)]
    map_on_threads(lambda part: np.copyto(target[part], source[part]), parts)


def always_constant(mod: IRModule) -> dict[GlobalVar, set[int]]:
    """For every called loop function, the arguments that are constants in all calls."""
    found: dict[GlobalVar, set[int]] = {}
    graphs = [func for func in mod.functions.values() if isinstance(func, Function)]
    for callee, args in (call for func in graphs for call in map(loop_call, walk(func)) if call is not None):
        given = {k for k, arg in enumerate(args.fields) if isinstance(arg, Constant)}
        found[callee] = found[callee] & given if callee in found else given
    return {
        var: positions for var, positions in found.items() if positions and isinstance(mod.get(var), PrimFunc)
    }


def _pack_function(func: PrimFunc, positions: set[int], target: Target) -> tuple[PrimFunc, list[_Packing]]:
    buffers = [func.buffer_map.get(param) for param in func.params]
    plans: list[_Packing] = []
    for realize in blocks_in(func.body):
        block = realize.block
        if not is_reduction(block) or not is_contraction(block):
            continue
        for position in sorted(positions):
            buffer = buffers[position]
            plan = None if buffer is None else _plan(func, block, buffer, position, target)
            if plan is not None and buffer is not None:
                func = _apply(func, buffer, plan)
                plans.append(plan)
                func, beside = _put_channels_side_by_side(func, position)
                plans.extend(beside)
        break
    return func, plans


def _put_channels_side_by_side(func: PrimFunc, position: int) -> tuple[PrimFunc, list[_Packing]]:
    """Weights of a convolution, packed by blocks of channels, are packed again: within a block, input
    channels lie side by side for dot products."""
    buffer = func.buffer_map[func.params[position]]
    conv = find_convolution([realize.block for realize in blocks_in(func.body)])
    if conv is None or conv.weights.buffer is not buffer or len(buffer.shape) != conv.packed_ndim:
        return func, []
    depth = packed_depth(conv.data.dtype, buffer.dtype, conv.result.dtype)
    inside = conv.packed_ndim - 2
    channel, within = conv.weights.indices[inside], conv.data.indices
    is_last = within[-1] is channel and channel not in free_vars(*within[:-1])
    size = conv.extent(channel) if isinstance(channel, PrimVar) and channel in conv.reduce else None
    if not is_last or size is None or depth is None or size % depth:
        return func, []
    plan = _Packing(position, ((inside, depth),), 0)
    return _apply(func, buffer, plan), [plan]


def _plan(func: PrimFunc, block: SBlock, buffer: Buffer, position: int, target: Target) -> _Packing | None:
    loads = [node for node in walk(block.body) if isinstance(node, BufferLoad)]
    own = [load for load in loads if load.buffer is buffer]
    other_blocks = [
        r.block for r in blocks_in(func.body) if r.block is not block and r.block.name_hint != "root"
    ]
    if len(own) != 1 or any(region.buffer is buffer for b in other_blocks for region in b.reads):
        return None
    conv = find_convolution([block])
    panel = None if conv is None else choose_panel(conv, other_blocks, target)
    if conv is not None and panel is not None:
        blocks = weight_blocks(conv, panel) if conv.weights.buffer is buffer else None
        return _Packing(position, blocks, blocks[-1][0]) if blocks else None
    written = {region.buffer for region in block.writes}
    data = [load for load in loads if load.buffer is not buffer and load.buffer not in written]
    spatial = {axis.var for axis in block.iter_vars if axis.iter_type is IterType.DataPar}
    used = {var for load in data for var in free_vars(*load.indices)}
    for dim, index in enumerate(own[0].indices):
        if isinstance(index, PrimVar) and index in spatial and index not in used:
            size = buffer.shape[dim]
            most = _columns_of_a_tile(block, index, used, set(free_vars(*own[0].indices)), target)
            columns = choose_block(size.value, most) if isinstance(size, IntImm) else None
            if columns is None:
                return None
            beside = _side_by_side(block, own[0], data)
            assert isinstance(size, IntImm)
            in_pairs = size.value * MAX_FILL >= columns and _takes_pairs(columns, block, target)
            return _Packing(position, ((dim, columns), *beside), dim, in_pairs)
    return None


def _takes_pairs(columns: int, block: SBlock, target: Target) -> bool:
    """Whether a tile of one row takes two panels of so many columns: then twice as many sums are under way,
    and the processor foresees two streams of weights."""
    most = MOST_VECTORS * lanes_of(block.writes[0].buffer.dtype, target)
    return 2 * columns <= most


def _columns_of_a_tile(
    block: SBlock, columns: PrimVar, in_data: Set[PrimVar], in_weights: Set[PrimVar], target: Target
) -> int:
    """How many columns a register tile takes. A panel of as many is read from front to end, and the next one
    after it, which the processor foresees; in a wider one each step would read another line far away. The
    longest axis of rows decides."""
    extents = {
        axis.var: extent_of(axis.dom.extent)
        for axis in block.iter_vars
        if axis.iter_type is IterType.DataPar and axis.var in in_data and axis.var not in in_weights
    }
    rows = max(extents, key=lambda var: math.inf if (size := extents[var]) is None else size, default=None)
    tile = choose_tile(block, Axes(rows, columns, (), (), packed=BLOCKS[0]), target)
    return BLOCKS[0] if tile is None else max(tile.columns, BLOCKS[-1])


def _side_by_side(
    block: SBlock, weights: BufferLoad, data: Sequence[BufferLoad]
) -> tuple[tuple[int, int], ...]:
    """The dimension of the weights whose elements lie side by side for dot products, and how many: steps of
    the only reduction, which the data have in their last dimension. The last few may be filled up."""
    reduce = [axis for axis in block.iter_vars if axis.iter_type is IterType.CommReduce]
    if len(reduce) != 1 or len(data) != 1:
        return ()
    depth = packed_depth(data[0].dtype, weights.dtype, block.writes[0].buffer.dtype)
    axis, indices = reduce[0], data[0].indices
    steps = extent_of(axis.dom.extent)
    if depth is None or steps is None or steps < depth:
        return ()
    used = [dim for dim, index in enumerate(weights.indices) if axis.var in free_vars(index)]
    is_last = indices[-1] is axis.var and axis.var not in free_vars(*indices[:-1])
    if not is_last or len(used) != 1 or weights.indices[used[0]] is not axis.var:
        return ()
    return ((used[0], depth),)


def choose_block(size: int, most: int) -> int | None:
    """The block for an axis of this size, of at most so many columns; None where every one would be mostly
    zeros."""
    fills = {block: -size % block / max(1, size) for block in BLOCKS if block <= most}
    return next((block for block, fill in fills.items() if fill <= MAX_FILL), None)


def _apply(func: PrimFunc, old: Buffer, plan: _Packing) -> PrimFunc:
    new = decl_buffer(plan.shape(old.shape), old.dtype, old.name)
    for realize in blocks_in(func.body):
        if any(region.buffer is old for region in realize.block.reads):
            moved = _Repoint(old, new, plan, realize.block).visit(realize.block)
            func = replace_stmt(func, realize.block, with_access_regions(moved))
    mapping = Map({param: new if buffer is old else buffer for param, buffer in func.buffer_map.items()})
    return replace(func, buffer_map=mapping)


class _Repoint(StmtSubstituter):
    def __init__(self, old: Buffer, new: Buffer, plan: _Packing, block: SBlock) -> None:
        super().__init__({})
        self._old, self._new, self._plan = old, new, plan
        self._analyzer = Analyzer()
        for axis in block.iter_vars:
            if not is_const_int(axis.dom.extent, 1):
                self._analyzer.bind(axis.var, axis.dom)

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        if node.buffer is not self._old:
            return super().visit_BufferLoad(node)
        return BufferLoad(self._new, self._plan.index(node.indices, self._analyzer), span=node.span)

    def visit_BufferRegion(self, node: Any) -> Any:
        return node

    def visit_SBlockRealize(self, node: SBlockRealize) -> Any:
        return node


class _ConstantPacker(BindingRewriter):
    """Rearranges the constants at the calls; each constant once."""

    def __init__(self, mod: IRModule, plans: dict[GlobalVar, list[_Packing]]) -> None:
        super().__init__(mod)
        self._plans = plans
        self._packed: dict[tuple[int, _Packing], Constant] = {}

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        called = loop_call(value)
        if not isinstance(value, Call) or called is None or called[0] not in self._plans:
            return value
        callee, args = called
        fields = list(args.fields)
        for plan in self._plans[callee]:
            fields[plan.position] = self._constant(fields[plan.position], plan)
        return replace(value, args=(callee, Tuple(tuple(fields)), *value.args[2:]))

    def _constant(self, old: Expr, plan: _Packing) -> Constant:
        assert isinstance(old, Constant)
        key = (id(old.data), plan)
        if key not in self._packed:
            self._packed[key] = _placed_as(old, plan.data(old.data))
        return self._packed[key]


def _placed_as(old: Constant, data: Tensor) -> Constant:
    """A constant on the device of the old one."""
    made = typed_constant(data)
    device = old.ty.vdevice if isinstance(old.ty, TensorType) else None
    return made if device is None else const(made, TensorType(None, data.dtype, device))
