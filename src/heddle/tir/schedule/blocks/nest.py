"""Blocks under loops of their own: finding and making them."""

from __future__ import annotations

from collections.abc import Sequence

from heddle.prim.nodes import PrimExpr, Range, Var, constant
from heddle.prim.substitute import substitute
from heddle.support.span import Span
from heddle.tir.analysis.access_region import with_access_regions
from heddle.tir.nodes import Buffer, For, ForKind, IterVar, SBlock, SBlockRealize, Stmt

_ALWAYS = constant(True)


def whole_axes(buffer: Buffer) -> list[IterVar]:
    """A spatial axis for each dimension of a buffer."""
    return [
        IterVar(Range.from_min_extent(constant(0, dim.dtype), dim), Var(f"v{k}", dim.dtype))
        for k, dim in enumerate(buffer.shape)
    ]


def loop_nest(axes: Sequence[IterVar], body: Stmt, name: str, condition: PrimExpr = _ALWAYS) -> Stmt:
    """A block over axes, each under a serial loop of its own; `condition` on the axes says which iterations
    there are."""
    return numbered_nest(with_access_regions(SBlock(tuple(axes), (), (), name, body)), condition)


def numbered_nest(block: SBlock, condition: PrimExpr = _ALWAYS, span: Span | None = None) -> Stmt:
    """Serial loops ax0, ax1, .. over all axes of a block."""
    loops = [Var(f"ax{k}", axis.var.dtype) for k, axis in enumerate(block.iter_vars)]
    return _under(loops, block, condition, span)


def _under(loops: list[Var], block: SBlock, condition: PrimExpr, span: Span | None) -> Stmt:
    bound = {axis.var: loop for axis, loop in zip(block.iter_vars, loops, strict=True)}
    stmt: Stmt = SBlockRealize(tuple(loops), substitute(condition, bound), block, span=span)
    for var, axis in zip(reversed(loops), reversed(block.iter_vars), strict=True):
        stmt = For(var, axis.dom.min, axis.dom.extent, ForKind.SERIAL, stmt, span=span)
    return stmt


def nest(block: SBlock, condition: PrimExpr = _ALWAYS) -> Stmt:
    """Serial loops over all axes of a block; `condition` on the axes says which iterations there are."""
    loops = [Var(axis.var.name.removeprefix("v_"), axis.var.dtype) for axis in block.iter_vars]
    return _under(loops, block, condition, block.span)
