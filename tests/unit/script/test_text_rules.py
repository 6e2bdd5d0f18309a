"""What script text may say, beside the words of its dialects: names, attributes, Python's operators, places."""

from __future__ import annotations

import numpy as np
import pytest

from heddle.script import from_source
from heddle.script import tir as T
from heddle.support.diagnostics import ParseError, UsageError
from heddle.support.limits import limits

GRAPH = """
@R.function
def {name}(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
    y = {value}
    return y
"""
CLASS = """
@I.ir_module
class {name}:
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return x
"""


def graph(value: str = "R.add(x, x)", name: str = "main") -> str:
    return GRAPH.format(value=value, name=name)


def constant_of(text: str) -> float:
    """The number that an operand of `main`'s only call is."""
    found = from_source(graph(f'R.add(x, R.const({text}, "float32"))'))
    return float(found.body.blocks[0].bindings[0].value.args[1].data.numpy())


class Settings:
    scale = 3.0

    def twice(self) -> float:
        return 2 * self.scale


def test_objects_that_the_caller_names_are_open() -> None:
    text = graph('R.multiply(x, R.const(own.scale + own.twice(), "float32"))')
    found = from_source(text, {"own": Settings()})
    assert float(found.body.blocks[0].bindings[0].value.args[1].data.numpy()) == 9.0
    with pytest.raises(ParseError, match=r"I0602.*numpy"):
        from_source(
            graph('R.const(R.const(own.scale, "float32").data.numpy(), "float32")'), {"own": Settings()}
        )


def test_a_local_name_does_not_open_what_it_hides() -> None:
    text = """
@R.function
def main(own: R.Tensor((2,), "float32")):
    y = R.const(own.span.source, "float32")
    return y
"""
    with pytest.raises(ParseError, match=r"I0602"):
        from_source(text, {"own": Settings()})


def test_text_of_the_running_program_reaches_all_that_it_names() -> None:
    rows = np.arange(3)

    @T.prim_func
    def fill(A: T.Buffer((3,), "int64")):
        for i in range(rows.size):
            A[i] = T.int64(rows.dtype.itemsize)

    assert "T.int64(8)" in fill.script() or "= 8" in fill.script()


def test_fields_of_nodes_are_words() -> None:
    text = """
@T.prim_func
def k(A: T.Buffer((4, 6), "float32")):
    for i in range(A.shape[1]):
        A[0, i] = T.Cast(A.dtype, i * A.ndim)
"""
    assert "range(6)" in from_source(text).script()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0 and 1 // 0", 0),
        ("2 or 1 // 0", 2),
        ("0 or 5", 5),
        ("{**{'a': 1}, 'b': 2, **{'a': 3}}['a']", 3),
        ("(True and False or 4)", 4),
    ],
)
def test_python_values(text: str, value: float) -> None:
    assert constant_of(text) == value


@pytest.mark.parametrize("text", ["1 in (1, 2)", "1 not in (1, 2)"])
def test_membership_is_refused_by_name(text: str) -> None:
    with pytest.raises(ParseError, match=r"I0601.*`in` is not part"):
        constant_of(text)


@pytest.mark.parametrize(
    "text",
    [
        CLASS.format(name="A") + CLASS.format(name="B"),
        CLASS.format(name="A") + graph(),
        graph() + CLASS.format(name="A"),
        graph() + graph(),
        CLASS.format(name="A")
        + '    @R.function\n    def main(x: R.Tensor((2,), "float32")):\n        return x\n',
    ],
    ids=[
        "two classes",
        "a function behind a class",
        "a class behind a function",
        "twins",
        "twins in a class",
    ],
)
def test_nothing_of_a_text_is_dropped(text: str) -> None:
    with pytest.raises(ParseError, match=r"I0601.*(one too many|two functions)"):
        from_source(text)


def test_private_functions_are_known_by_their_names() -> None:
    text = graph() + graph(name="other")
    mod = from_source(text.replace("@R.function", "@R.function(private=True)"))
    assert [var.name_hint for var in mod.functions] == ["main", "other"]
    assert "def other" in mod.script()


def test_places_count_characters() -> None:
    line = '    y = R.add(x, R.const(len("äöü€"), "float32") + nothing)'
    with pytest.raises(ParseError, match="nothing") as info:
        from_source(graph().replace("    y = R.add(x, x)", line))
    assert f":4:{line.index('nothing') + 1}" in str(info.value)


DEEP = {
    "signs": lambda count: "-" * count + "A[0]",
    "powers": lambda count: "A[0]" + "**A[0]" * count,
    "sums": lambda count: "+".join(["A[0]"] * count),
    "calls": lambda count: "A" + "()" * count,
    "attributes": lambda count: "A" + ".a" * count,
    "lambdas": lambda count: "lambda: " * count + "1",
}


@pytest.mark.parametrize("count", [900, 3000, 50_000])
@pytest.mark.parametrize("form", DEEP)
def test_a_text_nested_beyond_python_is_refused_in_words(form: str, count: int) -> None:
    """Whether Python's parser gives up, at times without a word, or what reads its tree does."""
    text = f'@T.prim_func\ndef main(A: T.Buffer((16,), "float32")):\n    A[0] = {DEEP[form](count)}\n'
    with pytest.raises(ParseError) as info:
        from_source(text)
    first = str(info.value).splitlines()[0]
    assert "nested too deeply" in first or "not part of the script language" in first


def shared_tuples(levels: int, taken: str) -> str:
    lines = ["t0 = (x, x)", *(f"t{k + 1} = (t{k}, t{k})" for k in range(levels)), f"return t{levels}{taken}"]
    head = '@R.function\ndef main(x: R.Tensor((2,), "float32")):\n'
    return head + "\n".join(f"    {line}" for line in lines)


@pytest.mark.parametrize("taken", ["", "[0]"])
def test_a_tuple_of_shared_tuples_has_as_many_fields_as_its_value(taken: str) -> None:
    """A text of 40 lines may not ask for 2 ** 41 fields, in its result or on the way to it."""
    from_source(shared_tuples(8, taken))
    with pytest.raises(UsageError, match=r"S0601.*'tuple_fields' is 16384"):
        from_source(shared_tuples(40, taken))
    with limits(tuple_fields=4), pytest.raises(UsageError, match="8 fields"):
        from_source(shared_tuples(2, taken))


def thirds(steps: int) -> str:
    """Each size is a formula of the one before, twice."""
    lines = ["a0 = x"]
    for k in range(steps):
        joined = f"R.concat((a{k}, x, a{k}), axis=0)"
        lines.append(f"a{k + 1} = R.strided_slice({joined}, (0,), (1,), (1099511627776,), (3,))")
    head = '@R.function\ndef main(x: R.Tensor(("n",), "float32")):\n'
    return head + "\n".join(f"    {line}" for line in [*lines, f"return a{steps}"])


def test_a_size_is_a_formula_of_stated_length() -> None:
    from_source(thirds(8))
    with pytest.raises(UsageError, match=r"S0601.*match_cast.*'size_nodes' is 4096"):
        from_source(thirds(30))
    with limits(size_nodes=40), pytest.raises(UsageError, match="has 47 nodes"):
        from_source(thirds(2))
