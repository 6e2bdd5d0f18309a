"""What the systems language refuses, with the place and the words of each message."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.support.diagnostics import VerifyError
from heddle.systems.interpret import Machine
from heddle.systems.program import read_program
from tests.unit.systems.sources import WORDS, module_of, program_of

PAIR = """
class Pair(Struct):
    first: u64
    second: i32
    lock: Atomic[i32]
    more: Array[u16, 3]
count = Global(u64)
@external
def read(pair: Pointer[Pair]) -> u64: ...
SIZE = 4
@native
def two(x: u64) -> tuple[u64, u64]:
    return x, x
"""

WRONG = [
    ("Y0101", "for n in pair:\n        pass", "For is not part of the systems language"),
    ("Y0101", "x = lambda: 0", "Lambda is not part"),
    ("Y0101", "x = [1]", "List is not part"),
    ("Y0101", "x = number / 2", "operator Div is not part"),
    ("Y0101", "x = 0 < number < 3", "comparisons are not chained"),
    ("Y0101", "number", "the value is not used"),
    ("Y0101", "count = number", "'count' is a name of the module"),
    ("Y0101", "SIZE, other = two(number)", "'SIZE' is a name of the module"),
    ("Y0101", "other, count = two(number)", "'count' is a name of the module"),
    ("Y0101", "min, other = two(number)", "'min' is a name of the module"),
    ("Y0101", "x: u64", "a declaration names a local and its value"),
    ("Y0201", "x = numbre + 1", "name 'numbre' is not defined"),
    ("Y0201", "x = Pair", "'Pair' is no value"),
    ("Y0202", "x = number + pair.second", "expected u64, got i32"),
    ("Y0202", "pair.first = pair.second", "expected u64, got i32"),
    ("Y0202", "x = pair.second // 3", "// takes unsigned integers, got i32"),
    ("Y0202", "if number:\n        pass", "expected bool, got u64"),
    ("Y0202", "x: u64 = True", "expected u64, got bool"),
    ("Y0202", "x = -pair", "expected an integer, got Pointer[Pair]"),
    ("Y0202", "pair.more = pair.more", "Array[u16, 3] is not assigned as a whole"),
    ("Y0202", "x = cast(u64, pair)", "expected a pointer type, got u64"),
    ("Y0202", "x = cast(Address, pair).first", "nobody knows what lies at an Address"),
    ("Y0202", "x = number\n    x = pair", "expected u64, got Pointer[Pair]"),
    ("Y0202", "x = pair.lock + 1", "expected Pointer[Atomic[i32]], got an integer"),
    ("Y0202", "a, b = number", "u64 cannot be unpacked into (a, b)"),
    ("Y0202", "return pair.second", "expected u64, got i32"),
    ("Y0202", "x = abs(number)", "abs takes i32 or i64, got u64"),
    ("Y0202", "x = null", "null needs a type"),
    ("Y0203", "x = 3", "a constant needs a type"),
    ("Y0203", "x = number + 18446744073709551616", "18446744073709551616 does not fit into u64"),
    ("Y0203", "x = number & -64", "-64 does not fit into u64"),
    ("Y0203", "pair.more[0] = 1 << 16", "65536 does not fit into u16"),
    ("Y0204", "x = pair.frist", "Pair has no field 'frist'"),
    ("Y0204", "x = pair.lock.swap(1, ACQUIRE)", "Atomic[i32] has no method 'swap'"),
    ("Y0204", "x = count.first", "u64 has no field 'first'"),
    ("Y0205", "x = read()", "read takes 1 arguments, got 0"),
    ("Y0205", "x = read(pair=pair)", "arguments are given by position"),
    ("Y0205", "x = number(3)", "number is u64, not a function"),
    ("Y0201", "x = len(pair)", "name 'len' is not defined"),
    ("Y0205", "x = Pair(number)", "Pair is no function of the systems language"),
    ("Y0205", "pair.lock.store(1, 2)", "expected a memory order, got 2"),
    ("Y0206", "x: Pair = pair", "Pair cannot be the value of a local"),
    ("Y0206", "x: Pear = pair", "Pear is not a type"),
    ("Y0206", "x: Pointer[bool] = pair", "bool cannot be in memory"),
    ("Y0301", "if number > 1:\n        x = number\n    y = x", "'x' has no value on some way to here"),
    ("Y0301", "while number > 1:\n        x = number\n    y = x", "'x' has no value"),
    ("Y0301", "while True:\n        if number > 1:\n            break\n        x = number\n    y = x", "'x'"),
    ("Y0302", "return number\n    count.value = 1", "nothing ever comes here"),
    ("Y0302", "while True:\n        pass\n    count.value = 1", "nothing ever comes here"),
    ("Y0304", "pair.lock.store(1, ACQUIRE)", "a store cannot acquire"),
    ("Y0304", "x = pair.lock.load(RELEASE)", "a load cannot release"),
    ("Y0304", "x = pair.lock.compare_exchange(0, 1, ACQ_REL, RELEASE)", "a load cannot release"),
]


@pytest.mark.parametrize(("code", "body", "message"), WRONG)
def test_wrong_statements_are_refused_with_their_place(tmp_path, code, body, message):
    head = "@native\ndef wrong(pair: Pointer[Pair], number: u64) -> u64:\n    "
    module = module_of(tmp_path, PAIR + head + body + "\n    return 0\n")
    with pytest.raises(VerifyError) as caught:
        read_program([module])
    found = caught.value.diagnostics[0]
    assert found.code.name == code
    assert message in found.message
    assert found.span.source.name == module.__file__
    first = (WORDS + PAIR + head).count("\n") + 1
    assert first <= found.span.line <= first + body.count("\n") + 1
    assert "^" in found.render()


@pytest.mark.parametrize(
    ("code", "text", "message"),
    [
        ("Y0206", "@native\ndef f(x) -> u64:\n    return 0", "parameter 'x' has no type"),
        ("Y0206", "@native\ndef f(x: u64):\n    return 0", "f does not say what it gives"),
        ("Y0206", "@native\ndef f(x: int) -> None:\n    pass", "int is not a type"),
        ("Y0101", "@native\ndef f(x: u64 = 0) -> None:\n    pass", "parameters have names and types"),
        (
            "Y0101",
            "g = Global(u64)\n@native\ndef f(g: u64) -> None:\n    pass",
            "'g' is a name of the module",
        ),
        (
            "Y0302",
            "@native\ndef f(x: u64) -> u64:\n    while x > 1:\n        x -= 1",
            "may end without a result",
        ),
        ("Y0202", "@native\ndef f() -> None:\n    return 1", "expected None"),
        ("Y0205", "@external\ndef f() -> u64:\n    return 1", "is declared only"),
        ("Y0303", "@inline\ndef f() -> u64:\n    return f()", "f is inline and calls itself"),
        (
            "Y0303",
            "@inline\ndef f() -> u64:\n    return g()\n@inline\ndef g() -> u64:\n    return f()",
            "f is inline and calls itself",
        ),
        ("Y0202", "@native\ndef f(x: f64) -> f64:\n    return x + x", "expected integers, got f64"),
        ("Y0202", "@native\ndef f(x: f64) -> bool:\n    return x == x", "== does not compare f64"),
        ("Y0202", "@native\ndef f(x: f64) -> u64:\n    return u64(x)", "expected an integer or a bool"),
        ("Y0202", "@native\ndef f() -> f64:\n    return 1", "expected f64, got an integer"),
        (
            "Y0101",
            "@native\ndef f(n: u64) -> None:\n    while n > 0:\n        x = local(u8, n)\n        n -= 1",
            "memory of a free size would be taken again and again here",
        ),
        ("Y0101", "@inline\ndef f(n: u64) -> Pointer[u8]:\n    return local(u8, n)", "again and again here"),
        ("Y0202", "@native\ndef f(a: Address, b: Address) -> None:\n    copy(a, b)", "nobody knows the size"),
        ("Y0202", "@native\ndef f(x: Pointer[u8]) -> None:\n    copy(x, x, x)", "expected an integer"),
        ("Y0205", "@native\ndef f() -> None:\n    local()", "local takes 1 or 2 arguments, got 0"),
        (
            "Y0202",
            "@inline\ndef f() -> None:\n    pass\n@native\ndef g(h: Function[[], None]) -> None:\n    g(f)",
            "it has no address",
        ),
    ],
)
def test_wrong_functions_are_refused(tmp_path, code, text, message):
    with pytest.raises(VerifyError, match=code) as caught:
        program_of(tmp_path, text)
    assert message in str(caught.value)


def test_all_functions_of_a_program_are_judged_at_once(tmp_path):
    text = "@native\ndef f() -> u64:\n    return a\n@native\ndef g() -> u64:\n    return b\n"
    with pytest.raises(VerifyError) as caught:
        program_of(tmp_path, text)
    assert [d.message for d in caught.value.diagnostics] == [
        "name 'a' is not defined",
        "name 'b' is not defined",
    ]


_DECLARED = [
    "@native\ndef same() -> None:\n    pass\n",
    "same = Text('one')\n",
    "same = Text('another')\n",
    "same = Global(u64)\n",
]


@pytest.mark.parametrize("first", _DECLARED)
@pytest.mark.parametrize("second", _DECLARED)
def test_two_parts_of_one_name_are_refused_with_both_places(tmp_path, first, second):
    modules = [module_of(tmp_path, text) for text in (first, second)]
    with pytest.raises(VerifyError, match=r"Y0207.*same is declared by") as caught:
        read_program(modules)
    (found,) = caught.value.diagnostics
    line = 2 if "def" in second else 1
    assert modules[0].__file__ in found.message
    assert found.span.source.name == modules[1].__file__
    assert found.span.source.line(found.span.line) == second.splitlines()[line - 1]


def test_a_text_that_another_module_uses_is_one(tmp_path):
    owner = module_of(tmp_path, "shown = Text('one')\n")
    user = module_of(tmp_path, "@native\ndef f() -> Pointer[u8]:\n    return shown\n")
    user.shown = owner.shown
    assert list(read_program([owner, user]).texts) == ["shown"]
    assert list(read_program([user]).texts) == ["shown"]


@pytest.mark.parametrize("word", ["Pointer[bool]", "Array[bool, 3]", "Atomic[Array[u8, 2]]", "Pointer[int]"])
def test_types_that_cannot_be_in_memory_are_refused_where_they_are_declared(tmp_path, word):
    with pytest.raises(TypeError):
        module_of(tmp_path, f"class Wrong(Struct):\n    field: {word}\n")


def _constants(draw, depth):
    """A random expression of integer constants, and its value."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        name = draw(st.sampled_from(("SIZE", "MASK", None, None)))
        value = {"SIZE": 4, "MASK": 0xFF}.get(name, draw(st.integers(0, 70)))
        return name or str(value), value
    left, a = _constants(draw, depth - 1)
    if draw(st.integers(0, 3)) == 0:
        sign = draw(st.sampled_from("-~"))
        return f"{sign}({left})", -a if sign == "-" else ~a
    right, b = _constants(draw, depth - 1)
    op = draw(st.sampled_from([sign for sign in FOLDED if sign in "+-*|&^" or 0 < b < 64]))
    return f"({left} {op} {right})", FOLDED[op](a, b)


FOLDED = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "|": lambda a, b: a | b,
    "&": lambda a, b: a & b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
}


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_constants_are_what_python_makes_of_them(tmp_path_factory, data):
    """Every operator of the language folds, of names and numbers."""
    made = [_constants(data.draw, 3) for _ in range(20)]
    made += [(f"({a} {op} {b})", FOLDED[op](a, b)) for op in FOLDED for a, b in ((77, 5), (6, 3))]
    texts = [(text, value) for text, value in made if -(1 << 63) <= value < 1 << 63]
    functions = [f"@export\ndef f{n}() -> i64:\n    return {text}\n" for n, (text, _) in enumerate(texts)]
    head = "SIZE = 4\nMASK = 0xFF\n"
    program = program_of(tmp_path_factory.mktemp("constants"), head + "".join(functions))
    machine = Machine(program, models={})
    for number, (text, value) in enumerate(texts):
        assert machine.call(f"f{number}") == value, text


@pytest.mark.parametrize(
    "text", ["1 // 0", "1 % 0", "1 << 64", "1 << (1 << 40)", "1 << -1", "8 >> -1", "8 >> 64"]
)
def test_constants_without_a_value_are_refused(tmp_path, text):
    module = module_of(tmp_path, f"@export\ndef f() -> i64:\n    x = {text}\n    return 0\n")
    with pytest.raises(VerifyError, match="Y0203"):
        read_program([module])
