"""What a rewriter leaves as it is, and how much it visits."""

from __future__ import annotations

from typing import Any

from heddle import relay
from heddle.graph.op_builder import call_op
from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.ir.expr import Expr, Var
from heddle.lower.relay_to_relax import to_relax


class _Positive(BindingRewriter):
    """Takes `abs` for `negative`, where it is to change anything."""

    def __init__(self, mod: Any, changes: bool) -> None:
        super().__init__(mod)
        self.changes, self.visits = changes, 0

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        changed = self.changes and is_call(value, "relax.negative")
        return call_op("abs", value.args[0]) if changed else value  # type: ignore[attr-defined]

    def value(self, expr: Expr) -> Expr:
        self.visits += 1
        return super().value(expr)


def _visited(depth: int, changes: bool) -> tuple[bool, int]:
    """Whether a function of branches in each other is the same object after, and what was visited."""
    text = "%x"
    for _ in range(depth):
        text = f"if (%c) {{ negative({text}) }} else {{ abs(%x) }}"
    source = f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(3), float32], %c: bool) {{ {text} }}'
    mod = to_relax(relay.parse(source))
    rewriter = _Positive(mod, changes)
    made = rewriter.run(mod["main"])
    assert ("negative" in str(made)) is not changes
    return made is mod["main"], rewriter.visits


def test_branches_that_do_not_change_are_the_same_object() -> None:
    assert _visited(4, changes=False)[0]


def test_branches_in_each_other_are_visited_once() -> None:
    for changes in (False, True):
        few, many = (_visited(depth, changes)[1] for depth in (8, 32))
        assert many <= 4.5 * few
