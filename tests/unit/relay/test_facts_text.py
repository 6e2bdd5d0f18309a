"""Relay text, by the numbered facts that users' programs rely on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from heddle.config import limits
from heddle.error import DiagnosticError
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle import relay
from heddle.ir.module import IRModule
from heddle.ir.structural import assert_structural_equal, structural_equal
from heddle.relay.text_values import type_text
from tests.unit.relay.programs import HEAD, program, value


def _plain(expr: Any) -> str:
    return relay.astext(expr, annotate=lambda _: "")


def _again(node: Any) -> Any:
    """What is read from a node's text, after a check that it prints the same."""
    text = _plain(node)
    read = relay.parse(text) if isinstance(node, IRModule) else relay.parse_expr(text)
    assert _plain(read) == text
    return read


def test_3_1_version() -> None:
    text = "def @main() { 1 }"
    assert relay.fromtext(HEAD + text)["main"].checked_type is not None
    for wrong in (text, '#[version = "0.0.4"]\n' + text, ""):
        with pytest.raises(DiagnosticError, match="Q0203"):
            relay.parse(wrong)
    assert relay.parse_expr("1").ty is None and relay.parse_expr(HEAD + "1").ty is None


@pytest.mark.parametrize("text", ["1 // end", "/* a /* b */ c */1", "\r\n\t1 ", "/**/1//\n", "1/* // */"])
def test_3_2_comments_and_space(text: str) -> None:
    assert value(relay.parse_expr(text)) == 1


@pytest.mark.parametrize("text", ["1\r", "/* /* */ 1", "1 */", "1 # 2", "`"])
def test_3_2_no_comment(text: str) -> None:
    with pytest.raises(DiagnosticError, match="Q020"):
        relay.parse_expr(text)


def test_3_3_names() -> None:
    func = relay.parse_expr("fn (%a/b: int32, %_c2: int32) { %0 = %a/b * %_c2; nn.relu(%0) }")
    assert [param.name_hint for param in func.params] == ["a/b", "_c2"]
    assert func.body.op.name == "nn.relu"


@pytest.mark.parametrize(
    ("text", "number", "dtype"),
    [
        ("1", 1, "int32"),
        ("2147483648", 2**31, "int64"),
        ("-2147483648", -(2**31), "int32"),
        ("3i64", 3, "int64"),
        ("3i16", 3, "int16"),
        ("-9223372036854775808", -(2**63), "int64"),
        ("1f", 1.0, "float32"),
        ("1.5e-3f", 1.5e-3, "float32"),
        ("1.f64", 1.0, "float64"),
        ("65504f16", 65504.0, "float16"),
        ("inff", np.inf, "float32"),
        ("-inff64", -np.inf, "float64"),
        ("--3", 3, "int32"),
        ("---3", -3, "int32"),
        ("-0f", -0.0, "float32"),
        ("True", True, "bool"),
        ("False", False, "bool"),
    ],
)
def test_3_4_numbers(text: str, number: Any, dtype: str) -> None:
    made = relay.parse_expr(text)
    assert str(made.data.dtype) == dtype
    wanted = np.asarray(number, dtype)
    assert made.data.numpy().tobytes() == wanted.tobytes() and tuple(made.data.shape) == ()
    assert_structural_equal(_again(made), made)


@pytest.mark.parametrize(
    "text",
    ["32768i16", "9223372036854775808", "1e39f", "70000f16", "1.5", "1-2", "1e3", "1.2.3f", "- 1", "1x"],
)
def test_3_4_wrong_numbers(text: str) -> None:
    with pytest.raises(DiagnosticError, match="Q020"):
        relay.parse_expr(text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("7 - 2 - 1", 4),
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("8 / 2 / 2", 2),
        ("1 + 2 < 4", True),
        ("1 < 2 == True", True),
        ("3 >= 4 != False", False),
        ("2 * 3 == 6", True),
        ("5 <= 4", False),
    ],
)
def test_3_5_operators(text: str, wanted: Any) -> None:
    assert value(relay.parse_expr(text)) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "Tensor[(2, ?), float32]",
        "Tensor[(0), int8]",
        "bool",
        "uint8",
        "(int8, float16)",
        "(int8,)",
        "()",
        "fn (int8, (bool,)) -> ()",
        "fn [A](A) -> ref(A)",
        "List[List[int8]]",
        "L0",
        "ref((int8, bool))",
        "bfloat16",
    ],
)
def test_3_6_types(text: str) -> None:
    mod = relay.parse(f"{HEAD}type List[A] {{ Nil }} extern type L0 def @main(%x: {text}) {{ %x }}")
    ty = mod["main"].params[0].type_annotation
    assert type_text(ty) == text
    assert structural_equal(mod["main"].ret_type, ty)
    assert_structural_equal(_again(mod), mod)


def test_3_6_scalars() -> None:
    x = relay.parse_expr("fn (%x: Tensor[(), int32], %y: int32, %z: _) { %x }")
    assert structural_equal(x.params[0].type_annotation, x.params[1].type_annotation)
    assert x.params[2].type_annotation is None


def test_3_7_definitions() -> None:
    mod = program(
        'def @main(%x: L[int8], Primitive=1, name="v") -> L[int8] { @f(%x) } '
        "def @f[A](%x: L[A]) -> L[A] { %x } type L[A] { C(A, L[A]), N, } extern type S"
    )
    assert mod["main"].attrs.Primitive == 1 and mod["main"].attrs["name"] == "v"
    assert [item.name_hint for item in mod.get_type("L")[1:]] == ["C", "N"]
    assert mod.get_type("S")[1:] == ()
    assert_structural_equal(_again(mod), mod)
    for wrong in (
        "extern type T { A }",
        "type T { A, A }",
        "type T { A } type T { B }",
        "type T { A } type U { A }",
        "def @f() { 1 } def @f() { 2 }",
        "def @f(%x: int8, %x: int8) { 1 }",
        "fn () { 1 }",
    ):
        with pytest.raises(DiagnosticError):
            program(wrong)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("let %x: int32 = 1; %x", 1),
        ("1; 2", 2),
        ("%0 = 3; %0 + %0", 6),
        ("%7 = 3; %2 = %7; %2", 3),
        ("if (True) { 1 } else { 2 }", 1),
        ("if (False) { 1 } else if (True) { 3 } else { 2 }", 3),
        ("(1,)", (1,)),
        ("()", ()),
        ("(1, (2, 3)).1", (2, 3)),
        ("((1, (2, 3)).1).0", 2),
        ("{ 4 }", 4),
        ("fn (%x: int32) { fn (%y: int32) { %x - %y } }(5)(3)", 2),
        ("let %r = ref(1); ref_write(%r, ref_read(%r) + 1); ref_read(%r)", 2),
        ("match ((1, 2)) { (%a, %b) => %a + %b, }", 3),
        ("match (1, 2) { (%a, _) => %a }", 1),
        ("let %f = fn [A](%x: A) -> A { %x }; %f(2)", 2),
        ("let %x = 1; let %x = %x + 1; %x", 2),
    ],
)
def test_3_8_expressions(text: str, wanted: Any) -> None:
    expr = relay.parse_expr(text)
    assert value(expr) == wanted
    assert_structural_equal(_again(expr), expr)


def test_3_8_free_variables_and_constructors() -> None:
    expr = relay.parse_expr("free_var %x: int8; add(%x, %x)")
    assert expr.args[0] is expr.args[1]
    mod = program("type L { N, C(L) } def @main() { match (C(N)) { C(N) => 1, _ => 2 } }")
    assert isinstance(mod["main"].body.data.args[0], relay.Call)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("%x", "no variable is called %x"),
        ("let %abc = 1; %abd", "did you mean 'abc'"),
        ("%0", "not bound before"),
        ("nn.rleu(1f)", "did you mean 'nn.relu'"),
        ("Cons(1)", "no operator or constructor"),
        ("match (1) { Z => 1 }", "no constructor is called 'Z'"),
        ("if (True) { 1 }", "expected else"),
        ("(1", "expected '\\)'"),
        ("let %x 1; %x", "expected '='"),
        ("1 2", "expected the end"),
        ("add(1,, 2)", "expected an expression"),
        ("%0 = 1", "expected ';'"),
        ("ref_write(1)", "expected ','"),
        ("fn (%x: Foo) { 1 }", "no type is called 'Foo'"),
        ("meta[relay.Constant][0]", "0 entries"),
    ],
)
def test_3_8_wrong_texts_show_the_place(text: str, words: str) -> None:
    with pytest.raises(DiagnosticError, match=words) as error:
        relay.parse_expr(text)
    assert "from_string:1:" in str(error.value) and "^" in str(error.value)


def test_3_9_attributes() -> None:
    call = relay.parse_expr('free_var %x: float32; nn.conv2d(%x, %x, strides=[2, 2], out_dtype="float16")')
    assert call.attrs.strides == (2, 2) and call.attrs.padding == (0, 0) and call.attrs.out_dtype == "float16"
    with pytest.raises(DiagnosticError, match="no attribute 'stride'"):
        relay.parse_expr("free_var %x: float32; nn.conv2d(%x, %x, stride=[2, 2])")
    other = relay.parse_expr(
        'free_var %f: fn (int8) -> int8; %f(1, a.b=None, c=[True, 1.5f, "t"], attrs_type_key="DictAttrs")'
    )
    assert dict(other.attrs.items()) == {"a.b": None, "c": (True, 1.5, "t")}
    assert len(relay.parse_expr("free_var %x: float32; add(%x, %x)").attrs) == 0
    assert structural_equal(_again(other), other, map_free_vars=True)


def test_3_11_metadata() -> None:
    data = np.random.default_rng().standard_normal((2, 3)).astype("float32")
    expr = relay.const(data) + relay.const(data * 2)
    text = relay.astext(expr)
    assert "meta[relay.Constant][1]" in text and "#[metadata]" in text
    assert_structural_equal(_again(expr), expr)
    np.testing.assert_array_equal(value(relay.parse_expr(text)), data + data * 2)
    with pytest.raises(DiagnosticError, match="Q0206"):
        relay.parse_expr(text + "\n#[metadata]\n{}")
    with pytest.raises(DiagnosticError, match="Q0206"):
        relay.parse_expr(text[: len(text) // 2 + 40])
    table = {"relay.Constant": [relay.const(data)]}
    mod = relay.parse(HEAD + "def @main() { meta[relay.Constant][0] }", init_meta_table=table)
    np.testing.assert_array_equal(value(mod["main"].body), data)


def test_3_12_spans() -> None:
    expr = relay.parse_expr("let %x =\n  add(1,\n 2); %x", "name")
    span = expr.value.span
    assert (span.source.name, span.line, span.end_line, span.column, span.end_column) == ("name", 2, 3, 3, 4)
    assert expr.span.line == 1 and expr.body.span is not None


def test_3_13_str_and_astext() -> None:
    mod = program("type Z { ZZ } type A { AA } def @z() { 1 } def @a() { 2 }")
    text = str(mod)
    assert not text.startswith("#[version") and mod.astext().startswith('#[version = "0.0.5"]\n')
    assert [line.split()[1][:2] for line in text.splitlines() if line[:4] in ("type", "def ")] == [
        "A",
        "Z",
        "@a",
        "@z",
    ]
    assert "\n}\n\ntype" in text and "\n}\n\ndef" in text
    big = relay.const(np.zeros((2, 2), "float32"))
    assert "#[metadata]" not in str(big) and "#[metadata]" in relay.astext(big)
    assert "omitted" in relay.astext(big, show_meta_data=False)


def test_3_14_names_of_the_graph() -> None:
    x, other = relay.var("x", shape=(2,)), relay.var("x", shape=(2,))
    number = relay.var("1st")
    shared = relay.tanh(x)
    expr = relay.Let(number, shared, shared + other + relay.exp(shared) * number)
    text = str(expr)
    assert text.startswith("free_var %x: Tensor[(2), float32];\nfree_var %x1: ")
    assert text.count("tanh(") == 1 and "let %v1st = %0;" in text
    assert structural_equal(_again(expr), expr, map_free_vars=True)
    twice = relay.Function([x, x], x)
    assert "%x-malformed-ir" in str(twice)


def test_3_14_sharing_across_branches() -> None:
    """An expression that two branches share is bound before them, one that only one of them uses inside."""
    c, x = relay.var("c", "bool"), relay.var("x", "float32")
    both, one = relay.exp(x), relay.tanh(x)
    func = relay.Function([c, x], relay.If(c, both + (one * one), relay.negative(both)))
    text = str(func)
    assert text.index("exp(") < text.index("if (") < text.index("tanh(")
    assert_structural_equal(_again(func), func)


def test_3_15_annotations() -> None:
    mod = program("def @main(%x: float32) { let %y = tanh(%x); (%y, 1.5f) }")
    text = mod.astext()
    assert "tanh(%x) /* ty=float32 span=test:2:35 */" in text and "1.5f /* ty=float32" in text
    assert "%x: float32 /* ty=float32" in text
    assert "/*" not in _plain(mod)
    marked = relay.astext(mod["main"], annotate=lambda e: " /* here */" if isinstance(e, relay.Call) else "")
    assert marked.count("/* here */") == 1
    call = relay.parse_expr("free_var %x: float32; nn.softmax(%x, axis=-1)")
    assert str(call).endswith("nn.softmax(%x)")
    call = relay.parse_expr("free_var %x: float32; clip(%x, a_min=1f, a_max=2.5f)")
    assert "a_min=1.0f, a_max=2.5f" in str(call) and 'dtype="int8"' in str(relay.var("x").astype("int8"))


def test_3_16_round_trips() -> None:
    mod = program(
        "type L[A] { C(A, L[A]), N } "
        "def @map[A, B](%f: fn (A) -> B, %l: L[A]) -> L[B] "
        "{ match (%l) { C(%x, %r) => C(%f(%x), @map(%f, %r)), N => N } } "
        "def @main(%x: Tensor[(?, 2), float32], %l: L[int16]) "
        "{ let %f = fn (%i) { if (%i < 1i16) { %i } else { let %j = %i - 1i16; %j * %j } }; "
        "(@map(%f, %l), nn.softmax(%x, axis=0), {let %q = 1; %q}) }"
    )
    assert_structural_equal(_again(mod), mod)
    for func in mod.functions.values():
        assert structural_equal(relay.astext(func), relay.astext(func))


def test_untrusted_texts_are_bounded() -> None:
    with pytest.raises(DiagnosticError, match="nested more than 100 deep"):
        relay.parse_expr(f"fn (%x: {'(' * 300}int8{')' * 300}) {{ 1 }}")
    with pytest.raises(DiagnosticError, match="nested more than 100 deep"):
        relay.parse_expr(f"match (1) {{ {'(' * 300}%x{')' * 300} => 1 }}")
    with pytest.raises(DiagnosticError, match="text_bytes"), limits(text_bytes=100):
        relay.parse_expr("1 + " * 100 + "1")
    for text in (
        "9" * 5000,
        "1" * 100 + "f16",
        "%" + "9" * 500,
        "e" * 10000 + "(",
        "@",
        '"' * 3,
        "#[metadata]",
    ):
        with pytest.raises(DiagnosticError):
            relay.parse_expr(text)


TAKEN = (
    "fn",
    "ref",
    "Tensor",
    "meta",
    "_",
    "int32",
    "uint8",
    "bool",
    "bfloat16",
    "float8_e4m3fn",
    "nanf",
    "inff16",
)
"""Words that begin a type of another form, or a number."""


def _twice(hints: tuple[str, ...]) -> relay.Function:
    """A function over variables for types, and one inside it that has the same again."""
    outer, inner = ([relay.TypeVar(hint) for hint in hints] for _ in range(2))
    ys = [relay.Var(f"y{place}", item) for place, item in enumerate(inner)]
    body = relay.Function(ys, ys[0], inner[0], inner)
    xs = [relay.Var("x", item) for item in outer]
    kind = relay.FuncType(inner, inner[-1], inner)
    function = relay.Var("f", kind)
    return relay.Function([*xs, function], relay.Tuple([body, xs[-1]]), None, outer)


@pytest.mark.parametrize("hint", [*TAKEN, "A", "a b", "", "1", "inf", "True", "def", "type", "x/y"])
def test_variables_for_types_are_read_back_whatever_they_are_called(hint: str) -> None:
    for hints in ((hint,), (hint, hint), (hint, "A", hint)):
        func = _twice(hints)
        assert_structural_equal(_again(func), func)
    mod = relay.transform.InferType()(IRModule({"main": _twice((hint,))}))
    assert_structural_equal(_again_with_version(mod), mod)


@settings(max_examples=60)
@given(
    hints=st.lists(st.text("abfinrtuT_3216/é -", max_size=6) | st.sampled_from(TAKEN), min_size=1, max_size=9)
)
def test_random_names_of_variables_for_types(hints: list[str]) -> None:
    """`int3` nine times is `int3` to `int38`, among them `int32`."""
    for names in (hints, hints[:1] * 9, ["int3"] * 9, ["float1", *["float"] * 20]):
        func = _twice(tuple(names))
        assert_structural_equal(_again(func), func)


def _again_with_version(mod: IRModule) -> IRModule:
    return relay.parse(relay.astext(mod, annotate=lambda _: ""))


def test_a_variable_that_is_called_as_a_data_type_is_read_back() -> None:
    mod = relay.parse(HEAD + "type List[A] {\n Cons(A, List[A]),\n Nil,\n}\ndef @main() { 1 }")
    (header,) = mod.type_definitions
    item = relay.TypeVar("List")
    x, rest = relay.Var("x", item), relay.Var("rest", relay.TypeCall(header, [item]))
    mod["first"] = relay.Function([x, rest], x, item, [item])
    mod = relay.transform.InferType()(mod)
    assert_structural_equal(_again_with_version(mod), mod)


@pytest.mark.parametrize("word", ["fn", "ref", "Tensor", "meta", "_", "int32", "bool"])
@pytest.mark.parametrize(
    "text", ["def @main[{}]() {{ 1 }}", "type {} {{ A }}", "type B[{}] {{ A }}", "extern type {}"]
)
def test_words_of_types_name_no_other_type(word: str, text: str) -> None:
    with pytest.raises(DiagnosticError, match=r"Q0202(.|\n)*that word is a type"):
        relay.parse(HEAD + text.format(word) + "\n")


@pytest.mark.parametrize("digits", [1, 10, 11, 12, 14, 18])
def test_graph_variables_of_many_digits_are_several(digits: int) -> None:
    low = 10**digits - 2
    text = f"%{low} = add(1, 1);\n%{low + 1} = multiply(5, 5);\nsubtract(%{low}, %{low + 1})"
    assert value(relay.parse_expr(text)) == -23


@pytest.mark.parametrize("digits", [19, 400, 10_000])
def test_graph_variables_of_too_many_digits_are_refused(digits: int) -> None:
    name = "%" + "9" * digits
    with pytest.raises(DiagnosticError, match="Q0204") as error:
        relay.parse_expr(f"{name} = 1;\n{name}")
    assert "at most 18 digits" in str(error.value) and "from_string:1:1" in str(error.value)
