"""What `astext` writes is read back to an equal program, whatever things are called; else it is refused."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle import relay
from heddle.ir.module import IRModule
from heddle.ir.structural import assert_structural_equal
from heddle.support.diagnostics import HeddleError, IRTypeError, UsageError
from tests.unit.relay.programs import HEAD
from tests.unit.relay.programs import value as number

X = relay.var("x", shape=(2,))
F = relay.Function([X], X + X)
NAMES = [
    "my-func",
    "a b",
    "1abc",
    "",
    "é",
    "a.b",
    "a..b",
    "a.1",
    ".",
    "@x",
    "//",
    "/*",
    "#[metadata]",
    "\\",
    "def",
]
UNWRITABLE = ["a\nb", 'a"b', "\r", "a\r\n"]


def _check(mod: IRModule) -> None:
    mod = relay.transform.InferType()(mod)
    assert_structural_equal(relay.parse(relay.astext(mod)), mod)


def _refused(mod: IRModule, code: str, words: str) -> None:
    mod = relay.transform.InferType()(mod)
    assert str(mod)  # which shows it nevertheless
    with pytest.raises(HeddleError, match=words) as caught:
        relay.astext(mod)
    assert caught.value.code == code


def _check_or_refused(mod: IRModule) -> None:
    """Inferred, written and read back; or refused when written."""
    mod = relay.transform.InferType()(mod)
    with contextlib.suppress(UsageError):  # Q0209
        assert_structural_equal(relay.parse(relay.astext(mod)), mod)


@pytest.mark.parametrize("name", ["models/*.rly", "a*/b", "/*/", "*/*", "//", '"', "a\nb", "*", "/", "é"])
def test_any_name_of_a_file(name: str) -> None:
    _check(relay.parse(HEAD + "def @main(%x: int32) { %x + 1 }", name))


def _calls(name: str) -> IRModule:
    return IRModule({name: F, "caller": relay.Function([X], relay.GlobalVar(name)(X))})


@pytest.mark.parametrize("name", NAMES)
def test_global_functions_keep_their_names(name: str) -> None:
    _check(_calls(name))


@pytest.mark.parametrize("name", UNWRITABLE)
def test_global_functions_without_a_text(name: str) -> None:
    _refused(_calls(name), "Q0209", "a function cannot be called")


@settings(max_examples=60)
@given(st.text('a1./*-_ "\n\ré@%#[]', max_size=6))
def test_random_names_of_functions(name: str) -> None:
    _check_or_refused(_calls(name))


def _data(type_name: str, names: tuple[str, ...]) -> IRModule:
    """A data type, and functions that build it, match on it and hold it."""
    header = relay.GlobalTypeVar(type_name)
    made = [relay.Constructor(name, [relay.TensorType((), "int32")], header) for name in names]
    ty, item = relay.TypeCall(header, []), relay.Var("item")
    value = relay.Var("value", ty)
    match = relay.Match(
        value,
        [relay.Clause(relay.PatternConstructor(c, [relay.PatternVar(item)]), item) for c in made[:1]],
        complete=len(made) == 1,
    )
    mod = IRModule()
    mod[header] = relay.TypeData(header, [], made)
    mod["take"] = relay.Function([value], match)
    mod["make"] = relay.Function([], relay.Call(made[0], [relay.const(1)]), ty)
    return mod


@pytest.mark.parametrize(
    "name", ["a-b", "x y", "int32", "Tensor", "fn", "ref", "_", "meta", "type", "", "inff", "é", "a.b"]
)
def test_data_types_that_cannot_be_called_so(name: str) -> None:
    _refused(_data(name, ("A",)), "Q0209", "a data type cannot be called")


KEYWORDS = [
    "fn",
    "match",
    "ref",
    "ref_read",
    "ref_write",
    "let",
    "if",
    "True",
    "False",
    "meta",
    "free_var",
    "_",
]


@pytest.mark.parametrize("name", [*KEYWORDS, "a-b", "x y", "a.b", "", "é", "1f"])
def test_constructors_that_cannot_be_called_so(name: str) -> None:
    _refused(_data("T", (name,)), "Q0209", "a constructor cannot be called")


@pytest.mark.parametrize("word", KEYWORDS)
def test_keywords_define_no_constructor(word: str) -> None:
    with pytest.raises(HeddleError, match=r"Q0202(.|\n)*that word is a keyword"):
        relay.parse(f"{HEAD}type T {{ {word}(int32) }}")


@pytest.mark.parametrize(
    "name", ["type", "def", "extern", "else", "Tensor", "int32", "T", "A/b", "virtual_device"]
)
def test_constructors_that_are_called_as_other_words(name: str) -> None:
    _check(_data("T", (name, "Other")))


@pytest.mark.parametrize("name", ["def", "extern", "else", "if", "match", "let", "A/b", "True"])
def test_data_types_that_are_called_as_other_words(name: str) -> None:
    mod = _data(name, ("A",))
    other = relay.GlobalTypeVar(f"{name}_z")
    mod[other] = relay.TypeData(other, [], [])
    _check(mod)


def test_constructors_and_operators_that_the_text_confuses() -> None:
    mod = _data("T", ("add",))
    _check(mod)
    mod["main"] = F
    _refused(mod, "Q0209", "an operator and a constructor are called 'add'")
    mod = _data("T", ("A",))
    header = relay.GlobalTypeVar("S")
    mod[header] = relay.TypeData(header, [], [relay.Constructor("A", [], header)])
    _refused(mod, "Q0209", "two data types have a constructor 'A'")


WORDS = st.text("afnrTe12_/-. é", max_size=4) | st.sampled_from(KEYWORDS)


@settings(max_examples=60)
@given(WORDS, WORDS)
def test_random_names_of_data_types(type_name: str, constructor: str) -> None:
    _check_or_refused(_data(type_name, (constructor,)))


KEYS = [*NAMES, "a-b", "a key", "virtual_device", "virtual_device.a", "attrs_type_key", "fn", "a=b", "a,"]


def _with_attribute(key: str, value: Any = 1) -> list[IRModule]:
    f = relay.Var("f", relay.FuncType([relay.TensorType((2,))], relay.TensorType((2,))))
    call = relay.Call(f, [X], {key: value, "b": 2})
    return [
        IRModule({"main": F.with_attr(key, value)}),
        IRModule({"main": relay.Function([X, f], call)}),
        IRModule({"main": F.with_attr("c", {key: value})}),
    ]


@pytest.mark.parametrize("key", KEYS)
def test_attributes_keep_their_names(key: str) -> None:
    for mod in _with_attribute(key):
        _check(mod)


@pytest.mark.parametrize("key", UNWRITABLE)
def test_attributes_without_a_text(key: str) -> None:
    *plain, nested = _with_attribute(key)
    for mod in plain:
        _refused(mod, "Q0209", "an attribute cannot be called")
    _check(nested)


@pytest.mark.parametrize(
    "text", ["#[metadata] x", '"#[metadata] x', "\n#[metadata]\n", '#[metadata\n"', "*/", "\r", "é\u2028"]
)
def test_strings_of_attributes(text: str) -> None:
    for mod in _with_attribute("a", (text, relay.const([1.0, 2.0]))):
        _check(mod)


def test_names_in_quotes_of_texts() -> None:
    func = relay.parse_expr('fn ("a b"=1, a.b=2, "virtual_device"=3) { 1 }')
    assert dict(func.attrs.items()) == {"a b": 1, "a.b": 2, "virtual_device": 3}
    for wrong in ('fn ("a".b=1) { 1 }', 'fn ("a" 1) { 1 }', 'fn ("a") { 1 }', 'add("a", 1)'):
        with pytest.raises(HeddleError, match="Q020"):
            relay.parse_expr(wrong)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (np.float32(1.5), 1.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        ([np.uint8(3), {"b": np.float64(2)}], (3, {"b": 2.0})),
    ],
)
def test_numbers_of_numpy_become_numbers_of_python(given: Any, wanted: Any) -> None:
    for mod in _with_attribute("a", given):
        _check(mod)
    (value,) = F.with_attr("a", given).attrs.values.values()
    assert value == wanted and type(value) is type(wanted)


@pytest.mark.parametrize("value", [b"x", 1j, np.zeros(2), np.bytes_(b"x"), object(), {1, 2}, range(3)])
def test_attributes_that_have_no_text(value: Any) -> None:
    for mod in _with_attribute("a", value) + _with_attribute("a", [value]):
        with pytest.raises(IRTypeError, match=r"I0202.*no JSON form for"):
            relay.astext(mod)


@pytest.mark.parametrize("head", ["", "1 ", "- x"])
def test_long_runs_of_signs(head: str) -> None:
    """Half an hour where each sign looks at all that are behind it."""
    with pytest.raises(HeddleError, match="Q020"):
        relay.parse_expr(head + "-" * 400_000)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("--3", 3), ("---3", -3), ("4 - --3", 1), ("4 - -3", 7), ("(4)--3", None), ("--inff", np.inf)],
)
def test_runs_of_signs(text: str, wanted: Any) -> None:
    if wanted is None:
        with pytest.raises(HeddleError, match="Q0202"):
            relay.parse_expr(text)
    else:
        assert number(relay.parse_expr(text)) == wanted


def _nested(wrap: Callable[[Any], Any], levels: int, inner: Any) -> Any:
    for _ in range(levels):
        inner = wrap(inner)
    return inner


TENSOR = relay.TensorType((2,))
WRAPS: dict[str, Callable[[Any], Any]] = {
    "tuple": lambda ty: relay.TupleType([ty]),
    "pair": lambda ty: relay.TupleType([TENSOR, ty]),
    "ref": lambda ty: relay.RefType(ty),
    "result": lambda ty: relay.FuncType([], ty),
    "argument": lambda ty: relay.FuncType([ty], TENSOR),
    "call": lambda ty: relay.TypeCall(relay.GlobalTypeVar("Box"), [ty]),
}


def _of_type(ty: Any) -> IRModule:
    mod, header, item = IRModule(), relay.GlobalTypeVar("Box"), relay.TypeVar("A")
    mod[header] = relay.TypeData(header, [item], [relay.Constructor("B", [item], header)])
    mod["main"] = relay.Function([relay.Var("x", ty)], relay.const(1))
    return mod


@pytest.mark.parametrize("kind", WRAPS)
@pytest.mark.parametrize("inner", [TENSOR, relay.TupleType([])])
def test_depth_of_types(kind: str, inner: Any) -> None:
    _check(_of_type(_nested(WRAPS[kind], 99, inner)))
    for levels in (100, 105):
        _refused(_of_type(_nested(WRAPS[kind], levels, inner)), "Q0208", "more than 100 deep")


@pytest.mark.parametrize(
    "wrap", [lambda value: (value,), lambda value: {"a": value}, lambda value: (1, value)]
)
@pytest.mark.parametrize("inner", [1, ()])
def test_depth_of_attributes(wrap: Any, inner: Any) -> None:
    _check(IRModule({"main": F.with_attr("a", _nested(wrap, 99, inner))}))
    _refused(IRModule({"main": F.with_attr("a", _nested(wrap, 100, inner))}), "Q0208", "more than 100 deep")


@pytest.mark.parametrize("annotation", [None, TENSOR])
def test_depth_of_patterns(annotation: Any) -> None:
    """Of patterns, and of the types in them, which are inside."""
    most = 99 if annotation is None else 98
    for levels in (most, most + 1):
        x, item = relay.Var("x"), relay.PatternVar(relay.Var("y", annotation))
        pattern = _nested(lambda inner: relay.PatternTuple([inner]), levels, item)
        match = relay.Function([x], relay.Match(x, [relay.Clause(pattern, relay.const(1))]))
        if levels == most:
            assert_structural_equal(relay.parse_expr(relay.astext(match)), match)
        else:
            with pytest.raises(UsageError, match="Q0208"):
                relay.astext(match)


def test_deep_types_in_comments_are_no_fault() -> None:
    deep = _nested(lambda inner: relay.Tuple([inner]), 120, X)
    _check(
        IRModule(
            {"main": relay.Function([X], _nested(lambda inner: relay.TupleGetItem(inner, 0), 120, deep))}
        )
    )
    _refused(IRModule({"main": relay.Function([X], deep)}), "Q0208", "deep")  # its result


@pytest.mark.parametrize("dtype", ["float32x4", "handle", "uint1"])
def test_element_types_that_have_no_text(dtype: str) -> None:
    for shape in ((2,), ()):
        _refused(_of_type(relay.TensorType(shape, dtype)), "Q0209", f"no element type {dtype}")


GENERIC = """#[version = "0.0.5"]
type L[A] { N, C(A, L[A]) }
type Pair[A, B] { P(A, A, B), Left(A), Right(B) }
def @last[A](%x: A, %y: A) -> A { %y }
def @empty[A]() -> L[A] { N }
def @length[A](%l: L[A]) -> int32 { match (%l) { N => 0, C(_, %t) => 1 + @length(%t) } }
def @either[A, B](%e: Pair[A, B]) -> int32 { 1 }
def @main(%p: Tensor[(2, 3), float32], %z: Tensor[(0, 3), float32]) {
  EXPR
}
"""


@pytest.mark.parametrize(
    ("expr", "shown"),
    [
        ("@last[Tensor[(?, 3), float32]](%p, %z)", "@last[Tensor[(?, 3), float32]](%p, %z)"),
        ("@last[Tensor[(?, 3), float32]](%p, %p)", "@last[Tensor[(?, 3), float32]](%p, %p)"),
        ("@last(%p, %p)", "@last(%p, %p)"),
        ("@last[Tensor[(2, 3), float32]](%p, %p)", "@last(%p, %p)"),
        ("@length(@empty[int32]())", "@empty[int32]()"),
        ("@length[int32](N)", "@length[int32](N"),
        ("@length(N[int32])", "@length[int32](N"),
        ("@length(C(1, N))", "@length(%1)"),
        ("@length(C(N[bool], N))", "@length[L[bool]](%1)"),
        ("@either(Left[int32, bool](1))", "@either[int32, bool](%1)"),
        (
            "@either(P[Tensor[(?, 3), float32], int64](%p, %z, 1i64))",
            "P[Tensor[(?, 3), float32], int64](%p, %z",
        ),
        ("let %f = fn [A](%a: A) -> A { %a }; %f[int32](1)", "%f(1"),
    ],
)
def test_type_arguments_are_written_where_the_arguments_do_not_say_them(expr: str, shown: str) -> None:
    mod = relay.parse(GENERIC.replace("EXPR", expr))
    text = relay.astext(mod)
    assert shown in text, text
    assert_structural_equal(relay.parse(text), mod)


def test_type_arguments_without_inference_are_written() -> None:
    call = relay.Call(relay.GlobalVar("f"), [relay.const(1)], type_args=[relay.scalar_type("int32")])
    text = relay.astext(call)
    assert "@f[int32](1)" in text
    assert_structural_equal(relay.parse_expr(text), call)


def test_folding_may_narrow_the_arguments_of_a_generic_call() -> None:
    """The call has the type that it had; the text said nothing of it, and was refused with Q0301."""
    empty, full = (f'arange({size}, 3, 1, dtype="int32")' for size in (3, 0))
    rows = [f'take(ones(shape=[3, 2], dtype="float32"), {indices}, axis=0)' for indices in (empty, full)]
    source = f"""#[version = "0.0.5"]
def @last[A](%x: A, %y: A) -> A {{ %y }}
def @main() {{ @last({", ".join(rows)}) }}"""
    mod = relay.transform.FoldConstant()(relay.parse(source))
    assert "@last[Tensor[(?, 2), float32]](" in relay.astext(mod)
    _check(mod)


@pytest.mark.parametrize(
    ("expr", "code"),
    [
        ("@length[L](N)", "Q0306"),
        ("@length[int32, bool](N)", "Q0302"),
        ("@last[bool](1, 2)", "Q0301"),
        ("@last[](1, 2)", "Q0202"),
        ("@last[int32]", "Q0202"),
        ("add[int32](1, 2)", "Q0202"),
        ("N[Nothing]", "Q0205"),
    ],
)
def test_wrong_type_arguments(expr: str, code: str) -> None:
    with pytest.raises(HeddleError) as caught:
        relay.parse(GENERIC.replace("EXPR", expr))
    assert caught.value.code == code, str(caught.value)


@pytest.mark.parametrize("attrs", ["a=1, a=2", 'a=1, "a"=1'])
def test_an_attribute_of_a_function_comes_once(attrs: str) -> None:
    with pytest.raises(HeddleError, match="comes twice") as caught:
        relay.parse(f'#[version = "0.0.5"]\ndef @main(%x: int32, {attrs}) -> int32 {{ %x }}')
    assert caught.value.code == "Q0207"
