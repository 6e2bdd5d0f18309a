"""ConvertToBlockedLayout: images lie with a vector's worth of channels innermost, where convolutions make or
take them.

    y = cls.conv2d(x, w): (1, 64, 56, 56)         y = cls.conv2d(x, w): (1, 4, 56, 56, 16)
    z = cls.max_pool2d(y): (1, 64, 28, 28)   →    z = cls.max_pool2d(y): (1, 4, 28, 28, 16)
    gv = cls.softmax(z)                           gv = cls.softmax(z)

Tensors (n, c, h, w) between loop functions become (n, ceil(c / b), h, w, b), and (n, c, d, h, w) likewise;
the functions' accesses and loops are rewritten to match, so that none is copied: what reads a blocked tensor
and writes a plain one, or the other way, does so in its own loops. The last block is filled up where b does
not divide c; constants grow to match. A tensor is blocked if a convolution reads or writes it, or a function
that leaves channels where they are does so together with one that is. What else sees the tensor (other
functions, results, reshapes) keeps it plain. A convolution that multiplies each element of a plain image
often copies it into blocks first; one of each channel by itself leaves plain images as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from heddle.arith import Analyzer
from heddle.graph.nodes import Binding, SeqExpr, VarBinding
from heddle.graph.op_builder import const
from heddle.graph.rewriter import BindingRewriter, loop_call
from heddle.graph.types import TensorType
from heddle.ir.expr import Call, Constant, Expr, Function, GlobalVar, If, Tuple, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.transform import Pass, PassContext
from heddle.ir.visitor import walk, walk_distinct
from heddle.lower.fuse_tir import drop_unused_loops
from heddle.lower.normal_form import GRAPHS
from heddle.lower.pack_weights import always_constant
from heddle.prim.nodes import IntImm, PrimExpr, constant, is_const_int
from heddle.prim.substitute import substitute
from heddle.support.frozen import frozen
from heddle.target import Target
from heddle.tir.analysis.blocks import plain_nests
from heddle.tir.analysis.op_pattern import OpPattern, block_pattern
from heddle.tir.nodes import Buffer, BufferLoad, BufferStore, PrimFunc, SBlock
from heddle.tir.schedule.blocks.split_dimension import (
    DimensionSplit,
    Growth,
    split_dimensions,
)
from heddle.tir.schedule.channels import channel_block
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.rules.convolution_tile import Convolution, find_convolution
from heddle.tir.schedule.rules.rule import constant_product, extent_of
from heddle.tir.schedule.staging.cache import cache_read, cache_write
from heddle.tir.schedule.tree import root_block

CHANNELS = 1
"""The dimension of channels in images."""
MIN_PRODUCTS = 64
"""How often an element of an image is multiplied, from which on a copy of the image in blocks pays."""
_NARROW_BITS = 16
IMAGE_NDIMS = (4, 5)
"""Of images (n, c, h, w) and volumes (n, c, d, h, w)."""


@frozen(slots=False)
class ConvertToBlockedLayout(Pass):
    """Requires: merged loop functions (FuseTIR). Runs before weights are packed and schedules chosen."""

    dialects: ClassVar[tuple[str, ...] | None] = GRAPHS

    target: Target

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        lanes = self.target.vector_width_bits // 32
        facts = {
            var: _Facts.of(func, lanes) for var, func in mod.functions.items() if isinstance(func, PrimFunc)
        }
        if not any(fact.is_convolution for fact in facts.values()):
            return mod
        rewriter = _Rewriter(mod, facts, lanes)
        for var, func in self.functions(mod):
            rewriter.update_func(var, rewriter.convert(func))
        return drop_unused_loops(rewriter.get())


# ---- what loop functions do with channels


@frozen
class _Facts:
    """`is_convolution`: it correlates images. `wants_blocks`: so much so that its images are blocked.
    `keeps_channels`: what it does elsewhere leaves every channel in its place, up to a shift by a number,
    or by whole blocks."""

    is_convolution: bool
    wants_blocks: bool
    keeps_channels: bool

    @staticmethod
    def of(func: PrimFunc, lanes: int) -> _Facts:
        blocks = plain_nests(func)
        if blocks is None:
            return _Facts(False, False, False)
        found = find_convolution(blocks)
        others = [block for block in blocks if found is None or block is not found.block]
        wants_blocks = found is not None and not _takes_channels_apart(found)
        return _Facts(found is not None, wants_blocks, all(_keeps_channels(block, lanes) for block in others))


def _takes_channels_apart(conv: Convolution) -> bool:
    """Whether each channel of a plain image makes one of the result: then nothing is gained by blocks that
    are made for it alone."""
    ones = {var: constant(0, var.dtype) for var in conv.reduce if conv.extent(var) == 1}
    channel = substitute(conv.data.indices[CHANNELS], ones)
    return conv.lane is None and is_const_int(_difference(channel, conv.c), 0)


def _keeps_channels(block: SBlock, lanes: int) -> bool:
    store = block.body
    if not isinstance(store, BufferStore) or len(store.indices) <= CHANNELS:
        return False
    if block_pattern(block) is OpPattern.OUT_EWISE_FUSABLE and block.init is not None:
        return False  # products have tiles of their own, which read plain matrices
    loads = [node for node in walk(store.value) if isinstance(node, BufferLoad)]
    images = [load for load in loads if _has_channels(load.buffer)]
    made = store.indices[CHANNELS]
    shifts = [_difference(load.indices[CHANNELS], made) for load in images]
    blocks = _whole_blocks(store.buffer, lanes)
    return all(
        isinstance(shift, IntImm) or (blocks and Analyzer().can_prove_equal(shift % lanes, 0))
        for shift in shifts
    )


def _whole_blocks(buffer: Buffer, lanes: int) -> bool:
    """Whether an image's channels fill blocks of the largest size."""
    channels = _channels(buffer.shape)
    return channels > 0 and channels % lanes == 0


def _difference(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    result: PrimExpr = Analyzer().simplify(a - b)
    return result


def _has_channels(buffer: Buffer) -> bool:
    return _channels(buffer.shape) > 1


def _channels(shape: Sequence[Any]) -> int:
    """The number of channels of an image or a volume; 0 for what is none or has no known number."""
    size = shape[CHANNELS] if len(shape) in IMAGE_NDIMS else None
    return size.value if isinstance(size, IntImm) else 0


def _block(channels: int, dtype: Any, lanes: int) -> int | None:
    """The size of blocks of an image's channels, if their number is known; images of small integers are read
    by dot products."""
    if channels == 0:
        return None
    return channel_block(channels, lanes, is_summed_by_dots=dtype.is_int and dtype.bits <= _NARROW_BITS)


# ---- which tensors


def _blocked_vars(func: Function, facts: dict[GlobalVar, _Facts]) -> set[Var]:
    """The variables that get the blocked layout."""
    made: set[Var] = set()
    plain: set[Var] = set()
    groups: list[tuple[bool, set[Var]]] = []
    for sequence in (node for node in walk_distinct(func) if isinstance(node, SeqExpr)):
        plain.update(node for node in walk_distinct(sequence.body) if isinstance(node, Var))
        for binding in sequence.bindings():
            call = loop_call(binding.value) if isinstance(binding, VarBinding) else None
            if call is None or not isinstance(binding.var.ty, TensorType):
                value = binding.value.cond if isinstance(binding.value, If) else binding.value
                plain.update(node for node in walk_distinct(value) if isinstance(node, Var))
                continue
            images = {arg for arg in call[1].fields if isinstance(arg, Var)} | {binding.var}
            made.add(binding.var)
            fact = facts.get(call[0])
            if fact is None or not fact.keeps_channels:
                plain |= images
            else:
                groups.append((fact.wants_blocks, images))
    wanted: set[Var] = set().union(*(images for wants_blocks, images in groups if wants_blocks))
    size = -1
    while size != len(wanted):
        size = len(wanted)
        for _, images in groups:
            if images & wanted:
                wanted |= {
                    var for var in images if isinstance(var.ty, TensorType) and var.ty.ndim in IMAGE_NDIMS
                }
    return (wanted & made) - plain


_Made = tuple[GlobalVar, dict[int, tuple[Growth, ...]]]
"""A loop function for layouts of its arguments, and which constant ones among them have to grow."""


class _Rewriter(BindingRewriter):
    """Makes the loop functions for the layouts of their arguments, each once, and gives variables their
    types."""

    def __init__(self, mod: IRModule, facts: dict[GlobalVar, _Facts], lanes: int) -> None:
        super().__init__(mod)
        self._facts, self._lanes = facts, lanes
        self._blocked: dict[Var, DimensionSplit] = {}
        self._made: dict[tuple[GlobalVar, tuple[DimensionSplit | None, ...]], _Made] = {}
        self._constants = always_constant(mod)
        self._longer: dict[tuple[int, tuple[Growth, ...]], Constant] = {}

    def convert(self, func: Function) -> Function:
        for var in _blocked_vars(func, self._facts):
            assert isinstance(var.ty, TensorType)
            size = _block(_channels(var.ty.dims or ()), var.ty.dtype, self._lanes)
            if size is not None:
                self._blocked[var] = DimensionSplit(CHANNELS, size)
        return self.run(func)

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        call = loop_call(value)
        if call is None or not isinstance(value, Call) or call[0] not in self._facts:
            return value
        layouts = tuple(self._layout(arg) for arg in (*call[1].fields, var))
        if not any(layouts) and not self._facts[call[0]].is_convolution:
            return value
        callee, grown = self._function(call[0], layouts)
        ty, out = value.ty_args[0], layouts[-1]
        if out is not None:
            assert isinstance(ty, TensorType) and ty.dims is not None
            ty = TensorType(out.shape(tuple(ty.dims)), ty.dtype, ty.vdevice)
        args = Tuple(tuple(self._grown(arg, grown.get(k)) for k, arg in enumerate(call[1].fields)))
        return replace(value, args=(callee, args, *value.args[2:]), ty_args=(ty,), ty=None)

    def _grown(self, arg: Expr, growths: tuple[Growth, ...] | None) -> Expr:
        if growths is None or not isinstance(arg, Constant):
            return arg
        key = id(arg), growths  # the module keeps its constants alive
        if key not in self._longer:
            self._longer[key] = _grown_constant(arg, growths)
        return self._longer[key]

    def binding(self, binding: Binding) -> None:
        super().binding(binding)
        new = self.renamed.get(binding.var)
        if isinstance(new, Var) and binding.var in self._blocked:
            self._blocked[new] = self._blocked[binding.var]

    def _layout(self, arg: Expr) -> DimensionSplit | None:
        return self._blocked.get(arg) if isinstance(arg, Var) else None

    def _function(self, var: GlobalVar, layouts: tuple[DimensionSplit | None, ...]) -> _Made:
        key = var, layouts
        if key not in self._made:
            func = self.module[var]
            assert isinstance(func, PrimFunc)
            made, grown = _with_layouts(func, layouts, self._lanes, self._constants.get(var, set()))
            self._made[key] = self.add_func(made, var.name_hint), grown
        return self._made[key]


def _with_layouts(
    func: PrimFunc, layouts: Sequence[DimensionSplit | None], lanes: int, constants: set[int]
) -> tuple[PrimFunc, dict[int, tuple[Growth, ...]]]:
    """The function over parameters in their layouts, and which of the constant ones have to grow. What a
    convolution accumulates and pads, and what follows it inside the function, is blocked whether its results
    are or not."""
    buffers = func.buffers
    splits = {buffer: split for buffer, split in zip(buffers, layouts, strict=True) if split is not None}
    found = find_convolution(plain_nests(func) or [])
    if found is not None and not splits and _takes_channels_apart(found):
        return func, {}
    if found is not None and found.result not in splits and found.result in func.buffers:
        func = _accumulating_apart(func, found)
        found = find_convolution(plain_nests(func) or [])
    if found is not None and found.data.buffer not in splits and _pays_to_copy(func, found, lanes):
        func = _reading_apart(func, found)
        found = find_convolution(plain_nests(func) or [])
    given = {_channels(buffer.shape): split.factor for buffer, split in splits.items()}
    for buffer in root_block(func).alloc_buffers:
        channels = _channels(buffer.shape)
        size = _block(channels, buffer.dtype, lanes)
        if size is None and CHANNELS < len(buffer.shape) < min(IMAGE_NDIMS):
            size = given.get(extent_of(buffer.shape[CHANNELS]) or 0)  # a sum over pixels
        if size is None and channels and found is not None and buffer is found.result:
            size = lanes // 2  # few channels: lanes that are filled up beat one channel after the other
        if size is not None:
            splits[buffer] = DimensionSplit(CHANNELS, size)
    func, grown = split_dimensions(func, splits, [buffers[k] for k in sorted(constants)])
    return func, {k: grown[buffer] for k, buffer in enumerate(buffers) if buffer in grown}


def _accumulating_apart(func: PrimFunc, conv: Convolution) -> PrimFunc:
    """The function with what a convolution accumulates in a buffer of its own; as it is where the convolution
    leaves elements of the result as they were: they must not be written, and the result stays plain."""
    try:
        return cache_write(func, conv.block.name_hint, conv.result, "global")[0]
    except ScheduleError:
        return func


def _pays_to_copy(func: PrimFunc, conv: Convolution, lanes: int) -> bool:
    """Whether a convolution that reads a plain argument is faster with a copy in blocks: where each element
    is multiplied often enough."""
    channels, simplify = _channels(conv.data.buffer.shape), Analyzer().simplify
    if conv.data.buffer not in func.buffers or _block(channels, conv.data.dtype, lanes) is None:
        return False
    products = constant_product([conv.extent(var) for var in (conv.c, *conv.reduce)])
    at = zip(conv.spatial, conv.data.indices[2:], strict=True)
    strides = [extent_of(simplify(substitute(index, {var: var + 1}) - index)) for var, index in at]
    return products is not None and products >= MIN_PRODUCTS * channels * (
        constant_product(strides) or products
    )


def _reading_apart(func: PrimFunc, conv: Convolution) -> PrimFunc:
    """The function with a copy of the image that a convolution reads."""
    try:
        return cache_read(func, conv.block.name_hint, conv.data.buffer, "global")[0]
    except ScheduleError:
        return func


def _grown_constant(constant: Constant, growths: tuple[Growth, ...]) -> Constant:
    """Longer by zeros, and by its last elements where nothing sums over them: filling then is finite where
    the channels are."""
    array = constant.data.numpy()
    for growth in sorted(growths, key=lambda item: not item.is_zero):
        widths = [(0, growth.size - size if dim == growth.dim else 0) for dim, size in enumerate(array.shape)]
        array = np.pad(array, widths, mode="constant" if growth.is_zero else "edge")
    made = const(array, constant.data.dtype)
    assert isinstance(made, Constant)
    return made
