"""FitTiles: a tile that reaches beyond the end of its axis runs with the rows that are there.

    for i in 0 .. (n + 5) // 6:                           for i in 0 .. (n + 5) // 6:
        for r in 0 .. 6 {rows_left: n - i * 6}: ...           if n - i * 6 > 5:
        for k in 0 .. 64:                                         for r in 0 .. 6: ...
            for r in 0 .. 6 {rows_left: n - i * 6}: ...   →       for k in 0 .. 64:
        epilogue of the rows below n                                  for r in 0 .. 6: ...
                                                              else if n - i * 6 > 4: ... and so on to 1
                                                              epilogue of the rows below n

A schedule marks loops over the rows of a tile, of a constant number, whose rows from `rows_left` on are of no
use. Each number of rows becomes code of its own, whose accumulators stay in registers: one row of a free
number of rows costs what one row of a known number costs. Above six rows only every second number has code.
Statements side by side that are marked with the same number are one case together. Runs where indices are
flat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from heddle.ir.node import replace
from heddle.ir.structural import structural_equal
from heddle.ir.transform import FunctionPass, PassContext
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import IntImm, PrimExpr, Var
from heddle.prim.ops import const
from heddle.prim.substitute import free_vars
from heddle.tir.analysis.blocks import walk_stmts
from heddle.tir.fresh_definitions import definitions, with_fresh_definitions
from heddle.tir.nodes import For, IfThenElse, PrimFunc, SeqStmt, Stmt, seq
from heddle.tir.sizes import ROWS_LEFT
from heddle.tir.stmt_rewriter import StmtRewriter


class FitTiles(FunctionPass):
    """See the module."""

    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        loops = (stmt for stmt in walk_stmts(func.body) if isinstance(stmt, For))
        if not any(ROWS_LEFT in loop.annotations for loop in loops):
            return func
        return func.with_body(_Loops().visit(func.body))


class _Loops(StmtRewriter):
    """Opens cases in the loop over tiles: the innermost one whose variable the marks use."""

    def visit_For(self, node: For) -> Any:
        made = self.default(node)
        stmts = made.body.seq if isinstance(made.body, SeqStmt) else (made.body,)
        found = [_mark(stmt, node.loop_var) for stmt in stmts]
        if not any(mark is not None for mark in found):
            return made
        parts: list[Stmt] = []
        for mark, together in _runs(stmts, found):
            parts.append(seq(*together) if mark is None else _cases(seq(*together), node, mark))
        return replace(made, body=seq(*parts))


def _cases(tile: Stmt, loop: For, mark: For) -> Stmt:
    """The tile of each height that the loop over tiles needs, the highest first."""
    left = mark.annotations[ROWS_LEFT]
    assert isinstance(mark.extent, IntImm) and isinstance(left, PrimExpr)
    lower, *higher = _needed_heights(left, loop, int(mark.extent.value))
    result: Stmt = _Fitted(lower).visit(tile)
    for height in higher:
        case = _Fitted(height).visit(tile)
        result = IfThenElse(left > lower, with_fresh_definitions(case, definitions(case)), result)
        lower = height
    return result


def heights(rows: int) -> list[int]:
    """The heights that tiles have: every one up to six rows, then every second one, and the whole tile."""
    return [height for height in range(1, rows) if height <= 6 or (rows - height) % 2 == 0] + [rows]


def _needed_heights(left: PrimExpr, loop: For, rows: int) -> list[int]:
    """Those of `heights` that some tile needs, as far as the sizes are known."""
    found = heights(rows)
    if free_vars(left) != (loop.loop_var,) or not isinstance(loop.extent, IntImm):
        return found
    first, count = evaluate(loop.min), int(loop.extent.value)
    tiles = {0, max(count - 2, 0), count - 1}
    needed = [evaluate(left, {loop.loop_var: first + tile}) for tile in tiles]
    return sorted({next(height for height in found if height >= min(need, rows)) for need in needed})


def _mark(stmt: Stmt, var: Var) -> For | None:
    """The first loop in a statement whose number of rows is left to this loop over tiles."""
    for node in walk_stmts(stmt):
        if isinstance(node, For) and var in free_vars(node.annotations.get(ROWS_LEFT, const(0))):
            return node
    return None


def _runs(stmts: Sequence[Stmt], marks: Sequence[For | None]) -> list[tuple[For | None, list[Stmt]]]:
    """Statements side by side with the same mark, together."""
    runs: list[tuple[For | None, list[Stmt]]] = []
    for stmt, mark in zip(stmts, marks, strict=True):
        if runs and _same(runs[-1][0], mark):
            runs[-1][1].append(stmt)
        else:
            runs.append((mark, [stmt]))
    return runs


def _same(one: For | None, other: For | None) -> bool:
    if one is None or other is None:
        return one is other
    return structural_equal(one.extent, other.extent) and structural_equal(
        one.annotations[ROWS_LEFT], other.annotations[ROWS_LEFT]
    )


class _Fitted(StmtRewriter):
    """Marked loops with a number of rows, and without their marks."""

    def __init__(self, count: int) -> None:
        self._count = count

    def visit_For(self, node: For) -> Any:
        made = self.default(node)
        if ROWS_LEFT not in made.annotations:
            return made
        return replace(
            made,
            extent=const(self._count, made.extent.dtype),
            annotations=made.annotations.without(ROWS_LEFT),
        )
