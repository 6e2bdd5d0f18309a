"""HoistDivisions: a division by a size that a loop does not change is done once, before the loop.

    for f in 0 .. n * h (parallel):         for f in 0 .. n * h (parallel):
        for i in 0 .. w:                        row: int64 = f % h
            if 1 <= f % h:           →          for i in 0 .. w:
                A[f % h, i] = 1.0                   if 1 <= row:
                                                        A[row, i] = 1.0

LLVM moves arithmetic out of loops by itself, but no division that stands behind a condition: it might trap.
Ours cannot: what is divided by 0 is 0. Divisions by constants become products, which LLVM moves.
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.ir.node import replace
from heddle.ir.structural import structural_equal
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import Rewriter, walk, walk_distinct
from heddle.prim.nodes import Call, Div, FloorDiv, FloorMod, IntImm, Mod, PrimExpr, Var
from heddle.tir.fresh_definitions import defined_by
from heddle.tir.nodes import Bind, BufferLoad, For, PrimFunc, seq
from heddle.tir.stmt_rewriter import StmtRewriter

_DIVISIONS = (FloorDiv, FloorMod, Div, Mod)


class HoistDivisions(FunctionPass):
    """Outer loops first, so that a division moves out as far as it can."""

    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        return func.with_body(_Hoister().visit(func.body))


def _is_slow(node: Any) -> bool:
    """Whether a node is a division of integers by something that is no constant."""
    return (
        isinstance(node, _DIVISIONS)
        and not isinstance(node.b, IntImm)
        and node.dtype.is_int
        and node.dtype.lanes == 1
    )


def _invariant(divisions: list[Any], loop: For) -> list[PrimExpr]:
    """The divisions, of those in a loop's body, that need nothing which is defined there; those that others
    hold come before them."""
    inside = {name for node in walk_distinct(loop) for name in defined_by(node)}
    found: list[Any] = []
    for node in divisions:
        if not any(structural_equal(node, known) for known in found):
            parts = list(walk(node))
            if not any(part in inside or _reads_or_acts(part) for part in parts):
                found.append(node)
    return sorted(found, key=lambda expr: sum(1 for _ in walk(expr)))


def _reads_or_acts(part: Any) -> bool:
    return isinstance(part, BufferLoad) or (isinstance(part, Call) and not part.op.record.is_pure)


class _Hoister(StmtRewriter):
    def visit_For(self, node: For) -> Any:
        divisions = [part for part in walk_distinct(node.body) if _is_slow(part)]
        if not divisions:
            return node
        binds = [Bind(Var("quotient", expr.dtype), expr) for expr in _invariant(divisions, node)]
        if binds:
            replaced = _Replaced(binds)
            node = replace(node, body=replaced.visit(node.body))
            binds = [Bind(bind.var, replaced.default(bind.value)) for bind in binds]
        body = self.visit(node.body)
        loop = node if body is node.body else replace(node, body=body)
        return seq(*binds, loop) if binds else loop


class _Replaced(Rewriter):
    """Divisions as the variables that they are bound to."""

    def __init__(self, binds: list[Bind]) -> None:
        self._binds = binds

    def _known(self, node: Any) -> Any:
        if _is_slow(node):
            for bind in self._binds:
                if structural_equal(node, bind.value):
                    return bind.var
        return self.default(node)

    visit_FloorDiv = visit_FloorMod = visit_Div = visit_Mod = _known
