"""WidenGroups: grouped convolutions whose groups do not fill vectors read the channels of all groups that a
vector meets, against zeros.

    conv(x: (1, 8, h, w), w: (48, 2, 1, 1))              conv(x, w': (48, 4, 1, 1))
    y[o] = sum_i x[o // 12 * 2 + i] * w[o, i]      →     y[o] = sum_j x[start(o // 16) + j] * w'[o, j]

A vector of output channels o // 16 then reads the same input channels in all its lanes. w' holds w's elements
where start + j is a channel of o's group, else 0; it is as wide as the most groups that a vector meets. Only
constant weights are widened.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from heddle.arith import Analyzer
from heddle.graph.op_builder import const
from heddle.graph.rewriter import BindingRewriter, loop_call
from heddle.ir.expr import Call, Constant, Expr, GlobalVar, Tuple, Var
from heddle.ir.module import IRModule
from heddle.ir.node import Map, replace
from heddle.ir.transform import Pass, PassContext
from heddle.ir.visitor import walk
from heddle.lower.normal_form import GRAPHS
from heddle.prim.nodes import FloorDiv, IntImm, PrimExpr, Range, constant, is_const_int
from heddle.prim.ops import minimum
from heddle.support.frozen import frozen
from heddle.target import Target
from heddle.tir.analysis.access_region import with_access_regions
from heddle.tir.analysis.blocks import plain_nests
from heddle.tir.nodes import BufferLoad, PrimFunc, SBlock, decl_buffer
from heddle.tir.schedule.blocks.nest import nest
from heddle.tir.schedule.channels import GROUPS, channel_block, group_start
from heddle.tir.schedule.rules.convolution_tile import Convolution, find_convolution
from heddle.tir.schedule.tree import find_block, replace_stmt
from heddle.tir.substitute import StmtSubstituter


@frozen(slots=False)
class WidenGroups(Pass):
    """Requires: merged loop functions (FuseTIR). Runs before layouts are converted."""

    dialects: ClassVar[tuple[str, ...] | None] = GRAPHS

    target: Target

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        lanes = self.target.vector_width_bits // 32
        found = {
            var: _groups(func, lanes) for var, func in mod.functions.items() if isinstance(func, PrimFunc)
        }
        plans = {var: plan for var, plan in found.items() if plan is not None}
        if not plans:
            return mod
        rewriter = _Widener(mod, plans)
        for var, func in self.functions(mod):
            rewriter.update_func(var, rewriter.run(func))
        return rewriter.get()


@frozen
class _Groups:
    """Channels in and out of one group and in all, and how many of the latter a vector takes."""

    conv: Convolution
    position: int
    ins: int
    outs: int
    in_channels: int
    lanes: int

    def _span(self, vector: int) -> tuple[int, int]:
        """The first group that a vector meets, and the number of groups."""
        first = vector * self.lanes // self.outs
        last = min((vector * self.lanes + self.lanes - 1) // self.outs, self.in_channels // self.ins - 1)
        return first, last - first + 1

    @property
    def width(self) -> int:
        """Input channels that a vector reads."""
        out_channels = self.in_channels // self.ins * self.outs
        return max(self._span(vector)[1] for vector in range(-(-out_channels // self.lanes))) * self.ins

    def start(self, channel: Any, least: Any = minimum) -> Any:
        """The first input channel that an output channel's vector reads."""
        vector = channel // self.lanes
        return group_start(self.numbers, vector, least)

    @property
    def numbers(self) -> tuple[int, ...]:
        return self.lanes, self.outs, self.ins, self.in_channels - self.width

    def weights(self, array: Any) -> Any:
        channels = np.arange(array.shape[0])
        made = np.zeros((array.shape[0], self.width, *array.shape[2:]), array.dtype)
        shift = channels // self.outs * self.ins - self.start(channels, np.minimum)
        for k in range(self.ins):
            made[channels, shift + k] = array[:, k]
        return made


def _groups(func: PrimFunc, lanes: int) -> _Groups | None:
    """What to widen; None for a function without groups, or whose groups fill vectors or are single
    channels."""
    conv = find_convolution(plain_nests(func) or [])
    if conv is None or conv.lane is not None or conv.weights.buffer not in func.buffers:
        return None
    channel, out = conv.c, conv.weights.buffer.shape[0]
    index, size = conv.data.indices[1], conv.data.buffer.shape[1]
    divisors = [node.b for node in walk(index) if isinstance(node, FloorDiv) and node.a is channel]
    if (
        len(divisors) != 1
        or conv.weights.indices[0] is not channel
        or conv.weights.indices[1] not in conv.reduce
    ):
        return None
    (outs,), reduced = divisors, conv.weights.indices[1]
    ins = conv.extent(reduced)  # type: ignore[arg-type]
    if not (isinstance(outs, IntImm) and isinstance(size, IntImm) and isinstance(out, IntImm)) or ins is None:
        return None
    in_order = is_const_int(Analyzer().simplify(index - (channel // outs * ins + reduced)), 0)
    if not in_order or not conv.sums_products:
        return None
    block = channel_block(out.value, lanes)
    if block is None or outs.value % block == 0:
        return None
    position = func.buffers.index(conv.weights.buffer)
    return _Groups(conv, position, ins, outs.value, size.value, block)


def _widened(func: PrimFunc, plan: _Groups) -> PrimFunc:
    conv = plan.conv
    old = conv.weights.buffer
    shape = (old.shape[0], constant(plan.width, old.shape[1].dtype), *old.shape[2:])
    new = decl_buffer(shape, old.dtype, old.name)
    channel, reduced = conv.axes[1], conv.weights.indices[1]
    at: PrimExpr = plan.start(channel) + reduced
    block: SBlock = _Reread(conv, new, at).visit(conv.block)
    axes = tuple(
        replace(axis, dom=Range.from_min_extent(axis.dom.min, shape[1])) if axis.var is reduced else axis
        for axis in conv.block.iter_vars
    )
    notes = Map({**conv.block.annotations, **dict(zip(GROUPS, plan.numbers, strict=True))})
    block = with_access_regions(replace(block, iter_vars=axes, annotations=notes))
    place = find_block(func, conv.block.name_hint)
    func = replace_stmt(func, place.loops()[0], nest(block))
    mapping = {param: new if buffer is old else buffer for param, buffer in func.buffer_map.items()}
    return replace(func, buffer_map=Map(mapping))


class _Reread(StmtSubstituter):
    """Reads other input channels, and other weights."""

    def __init__(self, conv: Convolution, weights: Any, channel: PrimExpr) -> None:
        super().__init__({})
        self._conv, self._weights, self._channel = conv, weights, channel

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        if node.buffer is self._conv.weights.buffer:
            return BufferLoad(self._weights, node.indices, span=node.span)
        if node.buffer is self._conv.data.buffer:
            return BufferLoad(
                node.buffer, (node.indices[0], self._channel, *node.indices[2:]), span=node.span
            )
        return super().visit_BufferLoad(node)

    def visit_BufferRegion(self, node: Any) -> Any:
        return node


class _Widener(BindingRewriter):
    def __init__(self, mod: IRModule, plans: dict[GlobalVar, _Groups]) -> None:
        super().__init__(mod)
        self._plans = plans
        self._made: dict[GlobalVar, GlobalVar] = {}

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        called = loop_call(value)
        if not isinstance(value, Call) or called is None or called[0] not in self._plans:
            return value
        callee, args = called
        plan = self._plans[callee]
        weights = args.fields[plan.position]
        if not isinstance(weights, Constant):
            return value
        if callee not in self._made:
            func = self.module[callee]
            assert isinstance(func, PrimFunc)
            self._made[callee] = self.add_func(_widened(func, plan), callee.name_hint)
        fields = list(args.fields)
        fields[plan.position] = const(plan.weights(weights.data.numpy()), weights.data.dtype)
        return replace(value, args=(self._made[callee], Tuple(tuple(fields)), *value.args[2:]))
