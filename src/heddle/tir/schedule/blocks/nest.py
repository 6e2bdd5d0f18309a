"""Blocks under loops of their own: finding and making them."""

from __future__ import annotations

from collections.abc import Sequence

from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk
from heddle.prim.nodes import PrimExpr, Range, Var, constant, is_const_int
from heddle.prim.substitute import substitute
from heddle.support.span import Span
from heddle.tir.analysis.access_region import with_access_regions
from heddle.tir.nodes import Buffer, For, ForKind, IterVar, PrimFunc, SBlock, SBlockRealize, Stmt, statements
from heddle.tir.schedule.tree import root_block

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


def plain_nests(func: PrimFunc) -> list[SBlock] | None:
    """The blocks of a function whose root holds only perfect nests of one block each, which runs for every
    value of its axes once, without conditions; None for any other function."""
    if not isinstance(func.body, SBlockRealize):
        return None
    found: list[SBlock] = []
    for stmt in statements(root_block(func).body):
        loops: list[For] = []
        while isinstance(stmt, For) and stmt.kind is ForKind.SERIAL and not stmt.annotations:
            loops.append(stmt)
            stmt = stmt.body
        if not isinstance(stmt, SBlockRealize) or not is_const_int(stmt.predicate, 1):
            return None
        if tuple(loop.loop_var for loop in loops) != stmt.iter_values:
            return None
        if not all(map(_runs_over, loops, stmt.block.iter_vars)):
            return None
        if any(isinstance(node, SBlockRealize) for node in walk(stmt.block.body)):
            return None
        found.append(stmt.block)
    return found


def _runs_over(loop: For, axis: IterVar) -> bool:
    """Whether a loop takes an axis through its whole domain."""
    return structural_equal((loop.min, loop.extent), (axis.dom.min, axis.dom.extent))


def nest(block: SBlock, condition: PrimExpr = _ALWAYS) -> Stmt:
    """Serial loops over all axes of a block; `condition` on the axes says which iterations there are."""
    loops = [Var(axis.var.name.removeprefix("v_"), axis.var.dtype) for axis in block.iter_vars]
    return _under(loops, block, condition, block.span)
