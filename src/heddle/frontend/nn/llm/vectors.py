"""Vector expressions that the kernels are written in: loads, splats, and reductions over lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heddle.prim.nodes import Broadcast, PrimExpr, Ramp, Shuffle, as_expr, constant
from heddle.prim.ops import add, cast, maximum
from heddle.tir.builder import StmtBuilder
from heddle.tir.nodes import Buffer, BufferLoad, BufferStore

MAX_LANES = 16


def lanes_of(*dims: int) -> int:
    """The largest power of two up to `MAX_LANES` that divides all sizes."""
    lanes = MAX_LANES
    while any(dim % lanes for dim in dims):
        lanes //= 2
    return lanes


def ramp(first: Any, lanes: int, stride: int = 1) -> PrimExpr:
    """first, first + stride, ...; one lane is the scalar itself."""
    base = as_expr(first)
    return base if lanes == 1 else Ramp(base, constant(stride, base.dtype), lanes)


def splat(value: Any, lanes: int) -> PrimExpr:
    """A scalar in every lane; the scalar itself for one lane."""
    expr = as_expr(value)
    return expr if lanes == 1 else Broadcast(expr, lanes)


def load(buffer: Buffer, first: Any, lanes: int) -> PrimExpr:
    """Lanes of a one-dimensional buffer."""
    return BufferLoad(buffer, (ramp(first, lanes),))


def as_float32(value: PrimExpr) -> PrimExpr:
    """The value cast to float32, lane by lane."""
    return cast(f"float32x{value.dtype.lanes}" if value.dtype.lanes > 1 else "float32", value)


def store(b: StmtBuilder, buffer: Buffer, indices: Sequence[Any], value: PrimExpr) -> None:
    """Store a vector, cast to the buffer's element type; the last index has the vector's lanes."""
    b.emit(BufferStore(buffer, cast(buffer.dtype.with_lanes(value.dtype.lanes), value), tuple(indices)))


def _reduce(b: StmtBuilder, vector: PrimExpr, combine: Callable[[PrimExpr, PrimExpr], PrimExpr]) -> PrimExpr:
    """Combine lane i with lane i + n/2 until one is left: always in the same order."""
    lanes = vector.dtype.lanes
    while lanes > 1:
        lanes //= 2
        low, high = (Shuffle((vector,), tuple(range(first, first + lanes))) for first in (0, lanes))
        vector = b.let("part", combine(low, high))
    return vector


def lane_sum(b: StmtBuilder, vector: PrimExpr) -> PrimExpr:
    """The sum of a vector's lanes, halves added to halves."""
    return _reduce(b, vector, add)


def lane_max(b: StmtBuilder, vector: PrimExpr) -> PrimExpr:
    """The largest of a vector's lanes."""
    return _reduce(b, vector, maximum)
