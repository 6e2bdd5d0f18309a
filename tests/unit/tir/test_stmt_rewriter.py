"""A rewriter of statements, and what tells a pass that it has nothing to do."""

from __future__ import annotations

from typing import Any

import pytest

from heddle.prim.nodes import IntImm, PrimExpr
from heddle.prim.ops import const
from heddle.script import tir as T
from heddle.tir.analysis.dtypes import dtypes_in
from heddle.tir.nodes import For, Stmt
from heddle.tir.stmt_rewriter import StmtRewriter


@T.prim_func
def nested(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "int8")) -> None:
    for i in T.serial(4):
        for j in T.serial(4):
            if i < j:
                B[i, j] = T.Cast("int8", T.Cast("float16", A[i, j]))
            else:
                while B[i, j] < T.int8(3):
                    B[i, j] = B[i, j] + T.int8(1)


class _Seen(StmtRewriter):
    def __init__(self) -> None:
        self.kinds: list[str] = []

    def visit_Stmt(self, node: Stmt) -> Any:
        self.kinds.append(type(node).__name__)
        return self.default(node)

    def visit_PrimExpr(self, node: PrimExpr) -> Any:
        raise AssertionError(f"an expression was visited: {node}")


def test_every_statement_is_visited_and_no_expression() -> None:
    seen = _Seen()
    assert seen.visit(nested.body) is nested.body
    for kind in ("For", "IfThenElse", "While", "BufferStore"):
        assert kind in seen.kinds, seen.kinds
    assert seen.kinds.count("BufferStore") == 2


class _Shorter(StmtRewriter):
    def visit_For(self, node: For) -> Any:
        made = self.default(node)
        assert isinstance(made.extent, IntImm)
        return For(made.loop_var, made.min, const(made.extent.value - 1), made.kind, made.body)


def test_changed_statements_are_built_anew_around_the_same_expressions() -> None:
    made = _Shorter().visit(nested.body)
    text = nested.with_body(made).script()
    assert "range(3)" in text or "T.grid(3, 3)" in text, text
    assert "range(4)" not in text and "grid(4" not in text


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool"])
def test_dtypes_of_loads_casts_comparisons_and_stores_are_found(dtype: str) -> None:
    assert dtype in dtypes_in(nested.body)
    assert "float64" not in dtypes_in(nested.body)
