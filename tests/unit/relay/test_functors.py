"""Visitors and mutators of expressions and types, with TVM's method names."""

from __future__ import annotations

from typing import Any

import pytest

from heddle import relay
from heddle.ir.structural import assert_structural_equal, structural_equal
from heddle.relay.analysis import all_dtypes, check_constant, list_op_freqs, post_order_visit
from heddle.relay.text_values import type_text
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.programs import program

TEXT = (
    "type L { C(int32, L), N } def @main(%x: int32, %l: L) { let %f = fn (%y: int32) { %y + %x }; "
    "let %r = ref(%x); ref_write(%r, %f(1)); %0 = (ref_read(%r), %x); "
    "match (%l) { C(%z, _) => if (%z < 1) { %0.0 } else { %0.1 }, N => 2 } }"
)


class _Swap(relay.ExprMutator):
    def visit_call(self, call: Any) -> Any:
        made = super().visit_call(call)
        return (
            relay.Call(relay.op.get("multiply"), made.args) if getattr(made.op, "name", "") == "add" else made
        )


class _Count(relay.ExprVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def visit_var(self, var: Any) -> None:
        self.seen.append(var.name_hint)

    def visit_op(self, op: Any) -> None:
        self.seen.append(op.name)


def test_mutator() -> None:
    mod = program(TEXT)
    made = _Swap().visit(mod["main"])
    assert "multiply(" in str(made) and "add(" not in str(made)
    assert made is not mod["main"] and made.ty is None
    assert_structural_equal(_Swap().visit(made), made)
    assert relay.ExprMutator().visit(mod["main"]) is mod["main"]


def test_a_visitor_sees_each_node_once() -> None:
    visitor = _Count()
    visitor.visit(program(TEXT)["main"])
    assert sorted(visitor.seen) == sorted(
        ["x", "l", "f", "y", "r", "v_" if "v_" in visitor.seen else "_", "z", "add", "less"]
    )


def test_deep_programs_are_visited() -> None:
    expr = relay.parse_expr("negative(" * 3000 + "1" + ")" * 3000)
    assert relay.ExprMutator().visit(expr) is expr
    lets = relay.parse_expr("".join(f"let %a{i} = {i}; " for i in range(3000)) + "1 + 2")
    assert str(_Swap().visit(lets)).endswith("multiply(1, 2)")
    count = _Count()
    count.visit(lets)
    assert len(count.seen) == 3001


def test_wrong_nodes() -> None:
    with pytest.raises(HeddleError, match="Q0404"):
        relay.ExprVisitor().visit(relay.scalar_type("int8"))
    with pytest.raises(HeddleError, match="Q0404"):
        relay.TypeVisitor().visit(relay.const(1))


class _Widen(relay.TypeMutator):
    def visit_tensor_type(self, typ: Any) -> Any:
        return relay.TensorType(typ.dims, "int64")


def test_types() -> None:
    ty = relay.parse_expr("fn (%x: fn (int8, (bool,)) -> ref(Tensor[(?), int8])) { %x }").params[0].ty
    assert type_text(_Widen().visit(ty)) == "fn (int64, (int64,)) -> ref(Tensor[(?), int64])"
    assert relay.TypeMutator().visit(ty) is ty
    assert relay.TypeVisitor().visit(ty) is None


def test_counts() -> None:
    mod = program(TEXT)
    assert list_op_freqs(mod) == {"add": 1, "less": 1}
    assert all_dtypes(mod["main"]) == {"int32", "bool"}
    assert check_constant(relay.parse_expr("(1, (2f,))")) and not check_constant(relay.parse_expr("1 + 2"))
    seen: list[Any] = []
    post_order_visit(mod["main"], seen.append)
    assert seen[-1] is mod["main"] and structural_equal(seen[-1], mod["main"])
