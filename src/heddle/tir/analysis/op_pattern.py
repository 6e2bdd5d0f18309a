"""Classify a loop function for operator fusion, from its loops."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk
from heddle.prim.nodes import Mul, PrimExpr, Var, is_const_int
from heddle.tir.analysis.blocks import producers_and_consumers
from heddle.tir.nodes import Buffer, BufferLoad, BufferStore, IterType, PrimFunc, SBlock, SBlockRealize


class OpPattern(IntEnum):
    """Fusion kinds, in order: a later kind can be fused in fewer ways."""

    ELEMENTWISE = 0  # out[i] from in[i]
    BROADCAST = 1  # out[i, j] from in[i]
    INJECTIVE = 2  # out[i] from in[f(i)]
    COMM_REDUCE = 3  # out[i] from all in[i, r]
    OUT_EWISE_FUSABLE = 4  # a contraction, several passes, a map of neighbours: elementwise work can follow
    TUPLE = 7
    OPAQUE = 8


def op_pattern(func: PrimFunc) -> OpPattern:
    """Return the pattern of a function that consists of blocks; OPAQUE for any other. The attribute
    `op_pattern` overrides it."""
    stated = func.attrs.get("op_pattern")
    if stated is not None:
        return OpPattern(int(stated))
    if not isinstance(func.body, SBlockRealize):
        return OpPattern.OPAQUE
    blocks = [realize.block for realize in producers_and_consumers(func.body.block)]
    kinds = [block_pattern(block) for block in blocks]
    if not kinds or OpPattern.OPAQUE in kinds or len(func.buffers) == 0:
        return OpPattern.OPAQUE
    if len(kinds) == 1:
        return kinds[0]
    if all(kind <= OpPattern.INJECTIVE for kind in kinds):
        return OpPattern.INJECTIVE
    last_is_map = kinds[-1] <= OpPattern.BROADCAST or kinds[-1] is OpPattern.OUT_EWISE_FUSABLE
    if kinds[-1] is OpPattern.COMM_REDUCE and all(kind <= OpPattern.INJECTIVE for kind in kinds[:-1]):
        return OpPattern.COMM_REDUCE if _one_output(func, blocks) else OpPattern.OPAQUE  # of what is padded
    return OpPattern.OUT_EWISE_FUSABLE if last_is_map and _one_output(func, blocks) else OpPattern.OPAQUE


def _one_output(func: PrimFunc, blocks: Sequence[SBlock]) -> bool:
    return sum(1 for buffer in func.buffers if any(_writes(block, buffer) for block in blocks)) == 1


def _writes(block: SBlock, buffer: object) -> bool:
    return any(region.buffer is buffer for region in block.writes)


def block_pattern(block: SBlock) -> OpPattern:
    """The pattern of one block."""
    if any(axis.iter_type not in (IterType.DataPar, IterType.CommReduce) for axis in block.iter_vars):
        return OpPattern.OPAQUE
    if any(axis.iter_type is IterType.CommReduce for axis in block.iter_vars):
        return OpPattern.OUT_EWISE_FUSABLE if is_contraction(block) else OpPattern.COMM_REDUCE
    if not isinstance(block.body, BufferStore) or (not block.iter_vars and block.body.buffer.shape):
        return OpPattern.OPAQUE
    return _map_pattern(block, block.body)


def is_contraction(block: SBlock) -> bool:
    """Whether a reduction multiplies values of two buffers (or two elements of one buffer): a matrix product
    or convolution."""
    products = [node for node in walk(block.body) if isinstance(node, Mul)]
    return any(
        len({load.buffer for load in _loads(product)} - {r.buffer for r in block.writes}) >= 2
        or _multiplies_two_places(product)
        for product in products
    )


def _multiplies_two_places(product: Mul) -> bool:
    a, b = product.a, product.b
    return isinstance(a, BufferLoad) and isinstance(b, BufferLoad) and not structural_equal(a, b)


def _loads(expr: PrimExpr) -> list[BufferLoad]:
    return [node for node in walk(expr) if isinstance(node, BufferLoad)]


def _map_pattern(block: SBlock, store: BufferStore) -> OpPattern:
    axes = [axis.var for axis in block.iter_vars]
    stored = [index for index in store.indices if not is_const_int(index, 0)]
    if not all(isinstance(index, Var) and index in axes for index in stored):
        return OpPattern.INJECTIVE
    loads = _loads(store.value)
    if _reads_neighbours(loads):
        return OpPattern.OUT_EWISE_FUSABLE
    return max((_load_pattern(load, store) for load in loads), default=OpPattern.ELEMENTWISE)


def _reads_neighbours(loads: list[BufferLoad]) -> bool:
    """Whether an element takes several elements of one operand: inside another loop nest, what makes that
    operand would be computed as often, and a window would compute the map for each of its places. Columns of
    stated numbers are read once each, as those of a matrix of three columns."""
    first: dict[Buffer, BufferLoad] = {}
    return not all(
        structural_equal(a, b) or (is_const_int(a) and is_const_int(b))
        for load in loads
        for a, b in zip(load.indices, first.setdefault(load.buffer, load).indices, strict=True)
    )


def _load_pattern(load: BufferLoad, store: BufferStore) -> OpPattern:
    """How a load's index relates to the store's. An axis of another size, as of what is padded or cut at its
    end, is no element for an element."""
    made = {i: size for i, size in zip(store.indices, store.buffer.shape, strict=True) if isinstance(i, Var)}
    for index, size in zip(load.indices, load.buffer.shape, strict=True):
        if isinstance(index, Var) and index in made and not structural_equal(made[index], size):
            return OpPattern.INJECTIVE
    if len(load.indices) == len(store.indices) and structural_equal(
        tuple(load.indices), tuple(store.indices)
    ):
        return OpPattern.ELEMENTWISE
    order = {index: k for k, index in enumerate(store.indices) if isinstance(index, Var)}
    positions = [
        order.get(index, -1) if isinstance(index, Var) else None
        for index in load.indices
        if not is_const_int(index, 0)
    ]
    if any(position is None or position < 0 for position in positions):
        return OpPattern.INJECTIVE
    known = [position for position in positions if position is not None]
    return OpPattern.BROADCAST if known == sorted(set(known)) else OpPattern.INJECTIVE
