"""Making blocks under loops of their own."""

from __future__ import annotations

from collections.abc import Sequence

from heddle.prim.nodes import PrimExpr, Range, Var, constant
from heddle.tir.analysis.access_region import with_access_regions
from heddle.tir.nodes import Buffer, For, ForKind, IterVar, SBlock, SBlockRealize, Stmt


def whole_axes(buffer: Buffer) -> list[IterVar]:
    """A spatial axis for each dimension of a buffer."""
    return [
        IterVar(Range.from_min_extent(constant(0, dim.dtype), dim), Var(f"v{k}", dim.dtype))
        for k, dim in enumerate(buffer.shape)
    ]


def loop_nest(
    axes: Sequence[IterVar],
    body: Stmt,
    name: str,
    predicate: PrimExpr | None = None,
    init: Stmt | None = None,
) -> Stmt:
    """A block over axes, each under a serial loop of its own."""
    block = with_access_regions(SBlock(tuple(axes), (), (), name, body, init))
    loops = [Var(f"ax{k}", axis.var.dtype) for k, axis in enumerate(axes)]
    stmt: Stmt = SBlockRealize(tuple(loops), constant(True) if predicate is None else predicate, block)
    for var, axis in zip(reversed(loops), reversed(axes), strict=True):
        stmt = For(var, axis.dom.min, axis.dom.extent, ForKind.SERIAL, stmt)
    return stmt
