"""Rows of another length, for convolutions of single pixels.

    for n, k, h, w in grid(N, K, 14, 14):        for n, k, h, w in grid(N, K, 2, 98):
        C[n, k, h, w] += A[n, c, h, w] * B[k]  →     C1[n, k, h, w] += A1[n, c, h, w] * B[k]

Pixels that are computed each by itself lie one behind the other in memory, so rows may end anywhere: tiles of
6 divide neither 14 nor 28, and leave little of 98. Scheduled loops get their own buffers back, whose indices
are quotients and remainders; flat addresses have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from heddle.arith import Analyzer
from heddle.ir.node import Map, replace
from heddle.ir.visitor import Rewriter
from heddle.prim.nodes import Range, Var, constant, is_const_int
from heddle.prim.substitute import substitute
from heddle.tir.analysis.access_region import with_access_regions
from heddle.tir.analysis.blocks import plain_nests
from heddle.tir.nodes import Buffer, BufferLoad, PrimFunc, SBlock, SBlockRealize, seq
from heddle.tir.schedule.blocks.nest import nest
from heddle.tir.schedule.rules.convolution_tile import Convolution, find_convolution, reads_single_pixels
from heddle.tir.schedule.rules.merged_axes import Groups, MergedAxes, Pair, accesses, common_pairs
from heddle.tir.schedule.rules.rule import extent_of


def with_rows_of(func: PrimFunc, length: int) -> MergedAxes | None:
    """The function, a convolution of single pixels, over rows of so many of them; None where something in it
    needs the rows that there are."""
    blocks = plain_nests(func)
    conv = find_convolution(blocks or [])
    if not blocks or conv is None or not isinstance(func.body, SBlockRealize):
        return None
    height, width = pixels = [conv.extent(var) for var in conv.spatial[-2:]]
    if height is None or width is None or not reads_single_pixels(conv) or height * width % length:
        return None
    blocks = [_without_taps(conv) if block is conv.block else block for block in blocks]
    found = _axes_of_pixels(blocks, conv.spatial[-2:], pixels)
    if found is None:
        return None
    pairs, places = found
    sizes = (height * width // length, length)
    made = {buffer: _with_sizes(buffer, place, sizes) for buffer, place in places.items()}
    nests = [nest(_with_rows(block, pair, sizes, made)) for block, pair in zip(blocks, pairs, strict=True)]
    root = func.body.block
    allocated = tuple(made.get(buffer, buffer) for buffer in root.alloc_buffers)
    body = replace(func.body, block=replace(root, body=seq(*nests), alloc_buffers=allocated))
    given = {param: made.get(buffer, buffer) for param, buffer in func.buffer_map.items()}
    back = {made[old]: _groups(old, places[old]) for old in func.buffers if old in made}
    return MergedAxes(replace(func, body=body, buffer_map=Map(given)), back)


# ---- which axes


def _without_taps(conv: Convolution) -> SBlock:
    """The block of a convolution of one tap, whose number is left out of the pixel's place."""
    zeros = {
        axis.var: constant(0, axis.var.dtype)
        for axis in conv.block.iter_vars
        if axis.var in conv.reduce and is_const_int(axis.dom.extent, 1)
    }
    indices = tuple(Analyzer().simplify(substitute(index, zeros)) for index in conv.data.indices)
    plain = _Instead({conv.data: replace(conv.data, indices=indices)})
    return replace(conv.block, body=plain.visit(conv.block.body))


def _axes_of_pixels(
    blocks: list[SBlock], axes: tuple[Var, ...], pixels: list[int | None]
) -> tuple[list[Pair | None], dict[Buffer, int]] | None:
    """For each block its axes of pixels, and where they stand in each buffer; None where axes or buffers have
    other sizes, or stand otherwise."""
    allowed = common_pairs(blocks)
    pairs: list[Pair | None] = [
        next((pair for pair in own if _are_same(pair, axes)), None) for own in allowed
    ]
    if not any(pairs):
        return None
    places: dict[Buffer, int] = {}
    is_new = True
    while is_new:
        is_new = False
        for k, (block, own) in enumerate(zip(blocks, allowed, strict=True)):
            for buffer, place, pair in _pairs_of(block, own):
                is_own, is_there = _are_same(pair, pairs[k]), places.get(buffer) == place
                if is_own and buffer not in places:
                    places[buffer] = place
                    is_new = True
                elif is_there and pairs[k] is None:
                    pairs[k] = pair
                    is_new = True
                elif is_own != is_there:
                    return None
    domains = {axis.var: extent_of(axis.dom.extent) for block in blocks for axis in block.iter_vars}
    shapes = [buffer.shape[place : place + 2] for buffer, place in places.items()]
    sizes = [[domains[var] for var in pair] for pair in pairs if pair is not None]
    sizes += [[extent_of(dim) for dim in shape] for shape in shapes]
    return (pairs, places) if all(each == pixels for each in sizes) else None


def _are_same(pair: Pair, other: tuple[Var, ...] | None) -> bool:
    return other is not None and pair[0] is other[0] and pair[1] is other[1]


def _pairs_of(block: SBlock, own: set[Pair]) -> Iterator[tuple[Buffer, int, Pair]]:
    """Where the pairs of axes of a block stand."""
    for access in accesses(block):
        for place in range(len(access.indices) - 1):
            pair = access.indices[place : place + 2]
            if pair in own:
                yield access.buffer, place, pair


# ---- the function with other rows


def _with_sizes(buffer: Buffer, place: int, sizes: tuple[int, int]) -> Buffer:
    dims = tuple(constant(size, buffer.shape[place].dtype) for size in sizes)
    return replace(buffer, shape=(*buffer.shape[:place], *dims, *buffer.shape[place + 2 :]))


def _groups(buffer: Buffer, place: int) -> Groups:
    groups = [[k] for k in range(len(buffer.shape)) if k != place + 1]
    groups[place].append(place + 1)
    return Groups(buffer, groups, groups)


def _with_rows(
    block: SBlock, pair: Pair | None, sizes: tuple[int, int], made: dict[Buffer, Buffer]
) -> SBlock:
    extents = {} if pair is None else dict(zip(pair, sizes, strict=True))
    axes = tuple(
        replace(axis, dom=_range(axis.var, extents[axis.var])) if axis.var in extents else axis
        for axis in block.iter_vars
    )
    instead = _Instead(made)
    init = None if block.init is None else instead.visit(block.init)
    body = instead.visit(block.body)
    plain = SBlock(axes, (), (), block.name_hint, body, init, span=block.span)
    return with_access_regions(plain)


def _range(var: Var, extent: int) -> Range:
    return Range.from_min_extent(constant(0, var.dtype), constant(extent, var.dtype))


class _Instead(Rewriter):
    """Some nodes in place of others."""

    def __init__(self, nodes: Mapping[Any, Any]) -> None:
        super().__init__()
        self._nodes = nodes

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        found = self._nodes.get(node)
        return self.default(node) if found is None else found

    def visit_Buffer(self, node: Buffer) -> Any:
        return self._nodes.get(node, node)
