"""Type inference of Relay, by the numbered facts that users' programs rely on."""

from __future__ import annotations

import pytest
from heddle.error import DiagnosticError
from heddle.relay.ty import is_dynamic

import heddle as tvm
from heddle import relay
from heddle.ir.structural import structural_equal
from heddle.relay.analysis import check_kind, unmatched_cases
from heddle.relay.text_values import type_text
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.programs import program

TYPES = "type List[A] { Cons(A, List[A]), Nil }\ntype Pair[A, B] { Both(A, B) }\n"


def returns(text: str, name: str = "main") -> str:
    return type_text(program(TYPES + text)[name].ret_type)


def refused(text: str) -> HeddleError:
    with pytest.raises(DiagnosticError) as error:
        program(TYPES + text)
    assert error.value.diagnostics[0].span is not None
    return error.value


def test_2_1_the_result_has_types_everywhere() -> None:
    mod = program(
        "def @f[A](%x: A) { %x } def @g[A](%x: A, %y: A) { %y } "
        "def @main(%x: int8, %y) { let %z = %x + @f(%y); @g(%y, %x) }"
    )
    main = mod["main"]
    assert structural_equal(main.params[1].type_annotation, relay.scalar_type("int8"))
    assert type_text(main.body.var.type_annotation) == "int8" == type_text(main.ret_type)
    assert [type_text(ty) for ty in main.body.body.type_args] == ["int8"]
    assert type_text(main.body.value.checked_type) == "int8"


def test_2_1_what_nothing_says_is_an_error() -> None:
    error = refused("def @main(%x) { %x }")
    assert "unable to infer a type" in str(error) and "%x" in str(error)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "def @main(%c: bool, %x: Tensor[(?, 2), float32], %y: Tensor[(3, 2), float32]) "
            "{ if (%c) { %x } else { %y } }",
            "Tensor[(?, 2), float32]",
        ),
        (
            "def @main(%c: bool, %x: Tensor[(?, 2), float32], %y: Tensor[(3, 2), float32]) "
            "{ if (%c) { %y } else { %x } }",
            "Tensor[(?, 2), float32]",
        ),
        (
            "def @f(%x: (int8, Tensor[(?), bool])) { %x } "
            "def @main(%y: (int8, Tensor[(4), bool])) { @f(%y) }",
            "(int8, Tensor[(?), bool])",
        ),
    ],
)
def test_2_2_unification(text: str, wanted: str) -> None:
    assert returns(text) == wanted


def test_2_2_a_type_does_not_contain_itself() -> None:
    assert "contain itself" in str(refused("def @main() { let %f = fn (%x) { %x(%x) }; %f }"))


def test_2_3_calls() -> None:
    text = (
        "def @f(%x: Tensor[(?, 4), float32]) -> Tensor[(?, 4), float32] { %x } "
        "def @main(%x: Tensor[(3, 4), float32]) { (@f(%x), %x) }"
    )
    assert returns(text) == "(Tensor[(?, 4), float32], Tensor[(3, 4), float32])"
    assert "takes 1 arguments, got 2" in str(refused("def @f(%x: int8) { %x } def @main() { @f(1, 2) }"))
    assert "takes 1 arguments, got 0" in str(refused("def @f(%x: int8) { %x } def @main() { @f() }"))
    assert "is called" in str(refused("def @main(%x: int8) { %x(%x) }"))
    assert returns("def @main() { let %f = fn (%x) { %x }; %f(1i64) }") == "int64"


def test_2_4_branches_and_matches() -> None:
    assert "condition of if" in str(refused("def @main(%x: int8) { if (%x) { 1 } else { 2 } }"))
    assert "branches" in str(refused("def @main(%x: bool) { if (%x) { 1 } else { 2f } }"))
    wrong = "def @main(%x: List[int8]) { match (%x) { Cons(_, _) => 1, Nil => 2f } }"
    assert "clauses" in str(refused(wrong))
    wrong = "def @main(%x: List[int8]) { match (%x) { Cons(_) => 1, Nil => 2 } }"
    assert "has 2 fields, the pattern 1" in str(refused(wrong))


def test_2_5_lets() -> None:
    assert (
        returns("def @main() { let %f = fn [A](%x: A) -> A { %x }; (%f(1), %f(2f)) }") == "(int32, float32)"
    )
    refused("def @main() { let %f = fn (%x) { %x }; (%f(1), %f(2f)) }")
    text = "def @main() { let %f = fn (%x: int32) -> int32 { if (%x < 1) { 0 } else { %f(%x - 1) } }; %f(3) }"
    assert returns(text) == "int32"
    mutual = (
        "def @even(%n: int32) -> bool { if (%n == 0) { True } else { @odd(%n - 1) } } "
        "def @odd(%n: int32) -> bool { if (%n == 0) { False } else { @even(%n - 1) } } "
        "def @main() { @even(3) }"
    )
    assert returns(mutual) == "bool"


def test_2_6_references_constructors_projections() -> None:
    assert returns("def @main() { let %r = ref(1); ref_write(%r, 2) }") == "()"
    assert returns("def @main() { let %r = ref(1); (ref_read(%r), %r) }") == "(int32, ref(int32))"
    assert returns("def @main() { let %make = Both; %make(1, 2f) }") == "Pair[int32, float32]"
    assert "field 2 of a tuple of 2 fields" in str(refused("def @main(%x: (int8, int8)) { %x.2 }"))


@pytest.mark.parametrize(
    ("lhs", "rhs", "result"),
    [
        ("(2, 3)", "(3)", "(2, 3)"),
        ("(2, 1)", "(1, 3)", "(2, 3)"),
        ("(?)", "(5)", "(5)"),
        ("(5)", "(?)", "(5)"),
        ("(?)", "(1)", "(?)"),
        ("(?)", "(?)", "(?)"),
        ("(0, 3)", "(1, 3)", "(0, 3)"),
        ("(4, ?, 3)", "(?, 3)", "(4, ?, 3)"),
    ],
)
def test_2_7_broadcasting(lhs: str, rhs: str, result: str) -> None:
    params = f"%x: Tensor[{lhs}, float16], %y: Tensor[{rhs}, float16]"
    assert returns(f"def @main({params}) {{ add(%x, %y) }}") == f"Tensor[{result}, float16]"
    assert returns(f"def @main({params}) {{ less(%x, %y) }}") == f"Tensor[{result}, bool]"


def test_2_7_what_does_not_broadcast() -> None:
    wrong = "def @main(%x: Tensor[(2), float32], %y: Tensor[(3), float32]) { %x + %y }"
    assert "Incompatible broadcast type" in str(refused(wrong))
    wrong = "def @main(%x: Tensor[(2), float32], %y: Tensor[(2), int8]) { %x + %y }"
    error = str(refused(wrong))
    assert "data types" in error and "do not match" in error


def test_2_8_relations_are_tried_again() -> None:
    """The type of %x is known only from its last use."""
    text = "def @main() { let %f = fn (%x) { let %y = %x + %x; let %z = nn.relu(%y); (%z, @g(%x)) }; %f }"
    mod = program("def @g(%x: Tensor[(2), float32]) { %x } " + text)
    assert type_text(mod["main"].ret_type).startswith("fn (Tensor[(2), float32]) -> (Tensor[(2), float32]")


@pytest.mark.parametrize(
    ("clauses", "missed"),
    [
        ("", ["_"]),
        ("Cons(_, _) => 1", ["Nil"]),
        ("%y => 1", []),
        ("_ => 1", []),
        ("Cons(_, Nil) => 1, Nil => 2", ["Cons(_, Cons(_, _))"]),
        ("Cons(_, Cons(_, Nil)) => 1", ["Cons(_, Cons(_, Cons(_, _)))", "Cons(_, Nil)", "Nil"]),
        ("Nil => 1, Cons(_, %r) => 2", []),
    ],
)
def test_2_9_unmatched_cases(clauses: str, missed: list[str]) -> None:
    mod = program(TYPES + f"def @main(%x: List[int8]) -> int32 {{ match? (%x) {{ {clauses} }} }}")
    found = unmatched_cases(mod["main"].body, mod)
    assert [str(case) for case in found] == missed
    if missed and clauses:
        wrong = f"def @main(%x: List[int8]) -> int32 {{ match (%x) {{ {clauses} }} }}"
        assert all(case in str(refused(wrong)) for case in missed)


def test_2_9_tuples_of_cases() -> None:
    clauses = "(Nil, _) => 1, (_, Nil) => 2"
    mod = program(TYPES + f"def @main(%x: (List[int8], List[int8])) {{ match? (%x) {{ {clauses} }} }}")
    assert [str(case) for case in unmatched_cases(mod["main"].body, mod)] == ["(Cons(_, _), Cons(_, _))"]


def test_2_9_cases_that_grow_exponentially_end_at_a_limit() -> None:
    """Each clause looks at two fields of its own; what fits none of them has two forms for each."""
    rows = [["_"] * 2 * number + ["Nil", "Nil"] + ["_"] * (38 - 2 * number) for number in range(20)]
    clauses = ", ".join(f"({', '.join(row)}) => 1" for row in rows)
    ty = ", ".join(["List[int8]"] * 40)
    message = str(refused(f"def @main(%x: ({ty})) {{ match (%x) {{ {clauses} }} }}"))
    assert "S0601" in message and "match_cases" in message and "^" in message


@pytest.mark.parametrize("last", ["_", "%all", "(" + ", ".join(["_"] * 80) + ")"])
def test_a_clause_that_fits_all_leaves_no_case(last: str) -> None:
    """Without a look at the cases of forty clauses over eighty fields, which double with each clause."""
    pairs = [["T" if k == 2 * n else "F" if k == 2 * n + 1 else "_" for k in range(80)] for n in range(40)]
    clauses = ", ".join(f"({', '.join(pair)}) => {n}" for n, pair in enumerate(pairs))
    params, fields = (", ".join(f"%b{n}{ty}" for n in range(80)) for ty in (": Flag", ""))
    mod = program(
        f"type Flag {{ T, F }}\ndef @main({params}) {{ match (({fields})) {{ {clauses}, {last} => 40 }} }}"
    )
    assert unmatched_cases(mod["main"].body, mod) == []


def test_2_10_kinds() -> None:
    gtv = relay.GlobalTypeVar("List")
    assert check_kind(gtv) == relay.TypeKind.AdtHandle
    assert check_kind(relay.TensorType((relay.Any(),))) == relay.TypeKind.Type
    mod = program(TYPES + "def @main() { 1 }")
    assert check_kind(gtv(relay.scalar_type("int8")), mod) == relay.TypeKind.Type
    for wrong in (gtv(), relay.TupleType([gtv]), relay.RefType(gtv), gtv(gtv)):
        with pytest.raises(HeddleError):
            check_kind(wrong, mod)
    assert "takes 1 arguments, got 0" in str(refused("def @main(%x: List) { %x }"))
    assert is_dynamic(relay.TensorType((relay.Any(),))) and not is_dynamic(relay.TensorType((2,)))
    ty = tvm.relay.transform.InferTypeLocal(relay.parse_expr("add(1f, 2f)"))
    assert type_text(ty) == "float32"
    pair = relay.TupleWrapper(relay.Tuple([relay.const(1), relay.const(True)]), 2)
    assert type_text(tvm.relay.transform.InferTypeLocal(pair)) == "(int32, bool)"


def test_several_findings_at_once() -> None:
    error = refused("def @main(%x: int8) { (@absent(%x), %x + 1f, %x.1) }")
    assert [finding.code.name for finding in error.diagnostics] == ["Q0307", "R0204", "Q0310"]


def test_inference_changes_nothing_twice() -> None:
    mod = program(TYPES + "def @f(%x: int8) { %x } def @main(%x: int8) { @f(%x) }")
    assert relay.transform.InferType()(mod) is mod
    mod["f"] = relay.parse_expr("fn (%x: int8) { %x + %x }")
    again = relay.transform.InferType()(mod)
    assert again["main"] is not mod["main"] or type_text(again["f"].ret_type) == "int8"
    mod["f"] = relay.parse_expr("fn (%x: int8) { 1f }")  # and @main says that it gives int8
    with pytest.raises(DiagnosticError, match="expected int8, got float32"):
        relay.transform.InferType()(mod)


def test_a_message_about_a_function_of_unknown_sizes():
    text = """#[version = "0.0.5"]
def @main(%x: Tensor[(?), float32]) {
  let %f = fn (%y: Tensor[(?), float32]) -> Tensor[(?), float32] { %y };
  %f > (0, %x)
}
"""
    with pytest.raises(HeddleError, match=r"must be a tensor, got fn \(Tensor\[\(\?\), float32\]\) ->"):
        relay.parse(text)


def test_a_type_variable_is_not_applied_to_types() -> None:
    text = "type App[F, A] { App(F[A]) }\ntype Id[A] { Id(A) }\n"
    with pytest.raises(HeddleError, match=r"Q0306.*only a data type can be applied to types, got F"):
        program(text + "def @main(%x: int32) { match (App(Id(%x))) { App(Id(%y)) => %y } }")
