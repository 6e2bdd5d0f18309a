"""PeelLastPair: the last step of a sum of pairs, whose pair has one factor only, becomes a step of its own.

    for k in 0 .. 33:                             for k in 0 .. 32:
        for l in 0 .. 16 (vectorized):                for l in 0 .. 16 (vectorized):
            for p in 0 .. 2 {dot_product}:                for p in 0 .. 2 {dot_product}:
                if k * 2 + p < 65:            →               C[l] = C[l] + ...k * 2 + p...
                    C[l] = C[l] + ...         for l in 0 .. 16 (vectorized):
                                                  for p in 0 .. 1 {dot_product}:
                                                      C[l] = C[l] + ...64 + p...

Only where the condition holds in all steps but the last.

Requires: flat buffers. Runs before LowerDotProducts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from heddle.arith import Analyzer
from heddle.ir.node import replace
from heddle.ir.transform import FunctionPass, PassContext
from heddle.prim.nodes import IntImm, PrimExpr, Range, Var, is_const_int
from heddle.prim.ops import const
from heddle.prim.substitute import free_vars, substitute
from heddle.tir.analysis.blocks import walk_stmts
from heddle.tir.dot_product import DOT_PRODUCT
from heddle.tir.fresh_definitions import definitions, with_fresh_definitions
from heddle.tir.nodes import For, ForKind, IfThenElse, PrimFunc, seq
from heddle.tir.stmt_rewriter import StmtRewriter
from heddle.tir.substitute import substitute_stmt


class PeelLastPair(FunctionPass):
    """See the module."""

    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        return func.with_body(_Loops().visit(func.body))


class _Loops(StmtRewriter):
    def visit_For(self, node: For) -> Any:
        extent = node.extent
        if node.kind is not ForKind.SERIAL or not isinstance(extent, IntImm) or not is_const_int(node.min, 0):
            return self.default(node)
        guarded = [
            loop
            for loop in walk_stmts(node.body)
            if isinstance(loop, For) and _is_guarded(loop, node.loop_var)
        ]
        if not guarded or extent.value < 2:
            return self.default(node)
        before = const(extent.value - 1, extent.dtype)
        kept = [_iterations(loop, {}, {node.loop_var: before}) or -1 for loop in guarded]
        last = [_iterations(loop, {node.loop_var: before}, {}) for loop in guarded]
        if None in last or not all(
            is_const_int(loop.extent, count) for loop, count in zip(guarded, kept, strict=True)
        ):
            return self.default(node)
        main = replace(node, extent=before, body=_Unguarded(guarded, kept).visit(node.body))
        rest = _Unguarded(guarded, last).visit(node.body)
        rest = with_fresh_definitions(substitute_stmt(rest, {node.loop_var: before}), definitions(rest))
        return seq(main, rest)


def _is_guarded(loop: For, step: Var) -> bool:
    """Whether a loop over factors side by side has as its body a condition about this step."""
    if DOT_PRODUCT not in loop.annotations or not is_const_int(loop.min, 0):
        return False
    body = loop.body
    if not isinstance(body, IfThenElse) or body.else_case is not None or not isinstance(loop.extent, IntImm):
        return False
    return set(free_vars(body.condition)) <= {step, loop.loop_var}


def _iterations(loop: For, at: dict[Var, PrimExpr], below: dict[Var, PrimExpr]) -> int | None:
    """How many first iterations a guard lets through, and no other, with variables at a value or in a range
    from 0; None where that is not known."""
    assert isinstance(loop.body, IfThenElse) and isinstance(loop.extent, IntImm)
    analyzer = Analyzer()
    for var, extent in below.items():
        analyzer.bind(var, Range.from_min_extent(const(0, var.dtype), extent))
    decided: list[int] = []
    for place in range(loop.extent.value):
        values = {**at, loop.loop_var: const(place, loop.loop_var.dtype)}
        found = analyzer.simplify(substitute(loop.body.condition, values))
        if not isinstance(found, IntImm):
            return None
        decided.append(int(found.value))
    count = sum(decided)
    return count if all(decided[:count]) else None


class _Unguarded(StmtRewriter):
    """The loops without their guards, with as many iterations as the guards let through."""

    def __init__(self, loops: Sequence[For], counts: Sequence[int | None]) -> None:
        self._counts = {id(loop): count for loop, count in zip(loops, counts, strict=True)}

    def visit_For(self, node: For) -> Any:
        count = self._counts.get(id(node))
        if count is None:
            return self.default(node)
        assert isinstance(node.body, IfThenElse)
        return replace(node, extent=const(count, node.extent.dtype), body=node.body.then_case)
