"""Where wrong texts are shown to be wrong, and what is said of them."""

from __future__ import annotations

import pytest

import heddle
from heddle import relay
from heddle.ir.structural import assert_structural_equal
from heddle.support.diagnostics import HeddleError

HEAD = '#[version = "0.0.5"]\n'
_PARAMS = "(%x: int32, %y: float32)"


def _shown(text: str) -> tuple[str, str, str]:
    """The code of the error, the text that it points to, and all that it says."""
    with pytest.raises(HeddleError) as caught:
        relay.parse(HEAD + text)
    span = caught.value.diagnostics[0].span
    assert span is not None and span.line == span.end_line
    line = (HEAD + text).splitlines()[span.line - 1]
    return str(caught.value.code), line[span.column - 1 : span.end_column - 1], str(caught.value)


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("if (%x) { %x } else { %x }", "if (%x) { %x } else { %x }"),
        ("add(%x, 1); if (True) { %x } else { %y }", "if (True) { %x } else { %y }"),
        ("if (True) { %x } else { 1f }", "1f"),
        ("match (True) { _ => %x, _ => %y }", "_ => %y"),
        ("let %z: float32 = %x; %z", "let %z: float32 = %x; %z"),
        ("let %r = ref(%x); ref_write(%r, %y); 1", "ref_write(%r, %y)"),
        ("ref_read(%x)", "ref_read(%x)"),
        ("add(%x, 1); @f(%x)", "@f(%x)"),
        ("@f(add(%x, 1))", "add(%x, 1)"),
    ],
)
def test_types_that_differ_are_shown_where_they_meet(body: str, place: str) -> None:
    """Not where a variable is defined."""
    text = f"def @f(%a: float32) -> float32 {{ %a }}\ndef @main{_PARAMS} {{ {body} }}"
    assert _shown(text)[:2] == ("Q0301", place)


def test_a_result_of_another_type_is_shown_at_the_function() -> None:
    assert _shown(f"def @main{_PARAMS} -> int64 {{ %x }}")[1].startswith("def @main")


@pytest.mark.parametrize(
    ("text", "code", "place", "words"),
    [
        ("df @main() { 1 }", "Q0202", "df", "did you mean 'def'"),
        ("def @main() { %0 = 1; %0 = 2; %0 }", "Q0207", "%0", "%0 is bound twice in one scope"),
        ("def @main() { lett %x = 1; %x }", "Q0205", "lett", "did you mean 'let'"),
        ("def @main() { if (True) { 1 } els { 2 } }", "Q0202", "els", "did you mean 'else'"),
        ("def @main() { matc (1) { _ => 2 } }", "Q0205", "matc", "did you mean 'match'"),
        ("def @main() { int32 }", "Q0202", "int32", "expected a value, got the type int32"),
        ("def @main() { add(1, Tensor[(3), int32]) }", "Q0202", "Tensor", "got the type Tensor"),
        ("type T { A } def @main() { T }", "Q0202", "T", "expected a value, got the type T"),
        ("def @main(%x: int3) { %x }", "Q0205", "int3", "did you mean 'int32'"),
        ("def @main(%x: ((int32,),)) { %x.0.0 }", "Q0201", "0.0", "written (%x.1).0"),
        ("def @main() { let %x = 1 %x }", "Q0202", "%x", "expected ';', got '%x'"),
    ],
)
def test_what_is_said_of_mistakes(text: str, code: str, place: str, words: str) -> None:
    found = _shown(text)
    assert found[:2] == (code, place) and words in found[2]


def test_graph_variables_of_other_scopes_may_have_the_same_number() -> None:
    relay.parse(HEAD + "def @main(%c: bool) { %0 = 1; if (%c) { %0 = 2; %0 } else { %0 } }")


@pytest.mark.parametrize("name", ["g.1.0", "a.b", "layer.0/w"])
def test_functions_with_dots_in_their_names_are_read_back(name: str) -> None:
    x = relay.var("x.1.0", shape=(2,))
    mod = heddle.IRModule()
    mod[name] = relay.Function([x], relay.add(x, x))
    mod["main"] = relay.Function([y := relay.var("y", shape=(2,))], mod.get_global_var(name)(y))
    mod = relay.transform.InferType()(mod)
    assert_structural_equal(relay.parse(mod.astext()), mod)
