"""Products of 16-bit floats whose sums are float32: the rows of a tile are converted once.

    for k:  sums[m, n] += f32(X[m, k]) * f32(W[k, n])
    →   X32[m, k] = f32(X[m, k])                            for the rows of a tile, by vectors
        for k:  sums[m, n] += X32[m, k] * f32(W[k, n])

A step of the sum reads one element of each row, for all lanes; its conversion takes as long as a product.
"""

from __future__ import annotations

from heddle.tir.schedule.rules.register_tile import Axes, Tile, operands
from heddle.tir.schedule.rules.rule import block_of, constant_product, extent_of
from heddle.tir.schedule.schedule import SBlockRV, Schedule

_LEAST_WIDENED, _MOST_WIDENED = 4, 1 << 15
"""Rows of a tile whose conversion is worth a copy, and bytes of the copy, which stays in the first cache."""
_HALVES = ("float16", "bfloat16")


def gains_by_widening(sch: Schedule, handle: SBlockRV, axes: Axes, tile: Tile) -> bool:
    """Whether the product has rows of 16-bit floats whose tiles are few enough bytes as float32."""
    block = block_of(sch, handle)
    data, weights = operands(block, axes)
    steps = constant_product([extent_of(a.dom.extent) for a in block.iter_vars if a.var in axes.reduce])
    return (
        axes.m is not None
        and axes.depth == 1
        and len(axes.reduce) == 1
        and data.indices[-1] is axes.reduce[0]
        and str(data.dtype) in _HALVES
        and data.buffer is not weights.buffer
        and block.writes[0].buffer.dtype == "float32"
        and block.writes[0].region[-1].min is axes.n
        and tile.rows >= _LEAST_WIDENED
        and steps is not None
        and 4 * tile.rows * steps <= _MOST_WIDENED
    )


def widen_rows(sch: Schedule, handle: SBlockRV, axes: Axes, pads: dict[str, str]) -> dict[str, str]:
    """Hold the rows of a tile as float32: those that are padded, or a copy."""
    block = block_of(sch, handle)
    data = operands(block, axes)[0].buffer
    makers = {producer.name for producer in sch.get_producers(handle)}
    padded = [n for n in pads if n in makers and block_of(sch, SBlockRV(n)).writes[0].buffer is data]
    reads = [region.buffer for region in block.reads]
    name = padded[0] if padded else sch.cache_read(handle, reads.index(data), "local").name
    sch.unsafe_set_dtype(name, 0, "float32")
    return {name: "m"}
