"""What `astext` writes is read back to an equal program, whatever things are called; else it is refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle import relay
from heddle.ir.module import IRModule
from heddle.ir.structural import assert_structural_equal
from heddle.support.diagnostics import HeddleError, UsageError
from tests.unit.relay.programs import HEAD

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


def _refused(mod: IRModule, code: str, words: str = "") -> None:
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
