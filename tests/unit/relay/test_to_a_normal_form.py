"""Programs in A-normal form: where lets stand, the order of effects, and values as before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.ir.expr import Call, Constant, Function, GlobalVar, If, Tuple, TupleGetItem, Var
from heddle.ir.op import Op
from heddle.ir.structural import assert_structural_equal
from heddle.ir.type_data import Constructor
from heddle.relay.nodes import Let, Match
from heddle.relay.placement import parts, post_order
from heddle.relay.transform.to_a_normal_form import ToANormalForm, ToANormalFormExpr
from heddle.relay.typed import infer_module
from tests.unit.relay.corpus import ROWS, parsed, same
from tests.unit.relay.programs import HEAD, floats, program, run

ATOMS = (Var, GlobalVar, Constant, Op, Constructor)


def formed(text: str) -> heddle.IRModule:
    return infer_module(ToANormalForm()(program(text)))


def shown(mod: Any) -> str:
    return str(mod.astext(annotate=lambda _: "")).removeprefix(HEAD)


def assert_formed(root: Any) -> None:
    """Operands are atoms; bodies, branches and clauses end in atoms; each variable is bound once."""
    seen = set()
    for expr in post_order(root):
        bodies = [child for child, number in parts(expr) if number is not None]
        if isinstance(expr, Let):
            assert not isinstance(expr.value, Let) and expr.var not in seen
            seen.add(expr.var)
            bodies.append(expr.body)
        else:
            operands = [child for child, number in parts(expr) if number is None]
            assert all(isinstance(child, ATOMS) for child in operands)
        assert all(isinstance(body, (*ATOMS, Let)) for body in bodies)


@pytest.mark.parametrize("name", ROWS)
def test_corpus(name: str) -> None:
    mod = parsed(name)
    made = infer_module(ToANormalForm()(mod))
    for func in made.functions.values():
        assert_formed(func)
    make, reference = ROWS[name]
    args = make()
    same(run(made, *args), reference(*args))
    assert ToANormalForm()(made) is made
    again = relay.parse(made.astext())
    assert_structural_equal(again, made)
    assert ToANormalForm()(again) is again


def test_a_shared_value_stands_in_the_innermost_scope_around_its_uses() -> None:
    made = formed("""
def @main(%c: bool, %x: float32) {
  %0 = tanh(%x);
  %1 = exp(%x);
  if (%c) { %0 + %1 } else { %0 * %0 }
}""")
    assert (
        shown(made)
        == """def @main(%c: bool, %x: float32) -> float32 {
  let %x1: float32 = tanh(%x);
  let %x5: float32 = if (%c) {
    let %x2: float32 = exp(%x);
    let %x3: float32 = add(%x1, %x2);
    %x3
  } else {
    let %x4: float32 = multiply(%x1, %x1);
    %x4
  };
  %x5
}
"""
    )


def test_a_let_where_a_value_is_expected_moves_out() -> None:
    made = formed("def @main(%x: float32) { exp({ let %y = tanh(%x); %y * %y }) + %x }")
    body = made["main"].body
    names = []
    while isinstance(body, Let):
        names.append(body.value.op.name)
        body = body.body
    assert names == ["tanh", "multiply", "exp", "add"] and isinstance(body, Var)


def test_effects_keep_their_order() -> None:
    text = """
def @main(%x: float32) {
  let %a = ref(%x);
  (ref_read(%a), { ref_write(%a, ref_read(%a) * 2f); ref_read(%a) }, { ref_write(%a, 7f); %a },
   ref_read(%a)).3 + ref_read(%a) - (if (ref_read(%a) > 1f) { ref_write(%a, 3f); ref_read(%a) } else { 0f })
}"""
    before, made = program(text), formed(text)
    assert run(made, 1.5) == run(before, 1.5) == 11.0


def test_polymorphic_functions_stay_polymorphic() -> None:
    made = formed("""
def @pair[A](%a: A) -> (A, A) { (%a, %a) }
def @main(%x: float32) {
  let %swap = fn [A, B](%p: (A, B)) -> (B, A) { (%p.1, %p.0) };
  (%swap(@pair(%x)), %swap((%x, @pair(1))))
}""")
    assert run(made, 2.0) == ((2.0, 2.0), ((1, 1), 2.0))
    assert len(made["pair"].type_params) == 1


def test_primitive_functions_are_atoms() -> None:
    x = relay.var("x", shape=(3,))
    p = relay.var("p", shape=(3,))
    primitive = relay.Function([p], relay.tanh(relay.exp(p))).with_attr("Primitive", 1)
    made = ToANormalFormExpr(relay.Function([x], relay.exp(Call(primitive, (x,)))))
    assert isinstance(made.body, Let) and made.body.value.op is primitive


def test_an_expression_alone() -> None:
    x = relay.var("x", shape=())
    both = Tuple((relay.exp(x), x))
    made = ToANormalFormExpr(TupleGetItem(both, 0))
    assert [type(e) for e in (made.value, made.body.value, made.body.body.value)] == [
        Call,
        Tuple,
        TupleGetItem,
    ]
    assert ToANormalFormExpr(made) is made and ToANormalFormExpr(x) is x


def test_unchanged_functions_stay_the_same_objects() -> None:
    mod = program("def @id(%x: int32) { %x } def @main(%x: int32) { @id(%x) + 1 }")
    made = ToANormalForm()(mod)
    assert made["id"] is mod["id"] and made["main"] is not mod["main"]


def test_the_prelude() -> None:
    mod = heddle.IRModule()
    mod.import_from_std("prelude.rly")
    mod = relay.parse(
        HEAD + "def @main(%x: float32) { @foldl(fn (%a, %b) { %a - %b }, 0f, Cons(%x, Cons(2f, Nil))) }",
        "test",
        mod,
    )
    made = infer_module(ToANormalForm()(mod))
    assert run(made, 5.0) == run(mod, 5.0) == -7.0
    for func in made.functions.values():
        assert_formed(func)


@pytest.mark.parametrize("depth", [0, 1, 7, 3000])
def test_graphs_of_any_depth(depth: int) -> None:
    x = relay.var("x", shape=(2,))
    body: Any = x
    for place in range(depth):
        body = relay.add(body, x) if place % 2 else relay.add(x, body)
    data = floats(2)
    func = ToANormalFormExpr(relay.Function([x], body))
    assert_formed(func)
    made = infer_module(heddle.IRModule.from_expr(func))
    np.testing.assert_allclose(run(made, data), data * (depth + 1), rtol=1e-3)


def test_nested_branches_and_functions_of_any_depth() -> None:
    x = relay.var("x", shape=())
    body: Any = x
    for place in range(1200):
        cond = relay.less(x, relay.const(0.0))
        body = If(cond, x, body) if place % 2 else Call(Function((), body), ())
    assert_formed(ToANormalFormExpr(relay.Function([x], body)))


def test_a_call_in_the_last_place_takes_no_room() -> None:
    made = formed("def @main(%n: int32) -> int32 { if (%n == 0) { 0 } else { @main(%n - 1) } }")
    with heddle.config.limits(call_depth=100):
        assert run(made, 1000) == 0


def test_matches_are_named_too() -> None:
    made = formed(
        "type T { A(int32), B } def @main(%n: int32) { (match (A(%n)) { A(%k) => %k + 1, B => 0 }) * 2 }"
    )
    assert run(made, 3) == 8 and any(isinstance(e, Match) for e in post_order(made["main"]))


@pytest.mark.parametrize(
    "text",
    [
        "def @main(%x: float32) { let %b = { let %c = %x; let %d = { let %e = %c + 1f; %e }; %d * %c }; %b }",
        "def @main(%x: float32) { let %r = ref(%x); let %a = { let %b = ref_write(%r, 1f); "
        "let %c = { let %d = ref_write(%r, ref_read(%r) + 2f); () }; () }; ref_read(%r) }",
    ],
)
def test_lets_in_the_lets_of_a_value_move_out(text: str) -> None:
    made = formed(text)
    assert_formed(made["main"])
    x = floats(1)[0]
    np.testing.assert_array_equal(run(made, x), run(program(text), x))
