"""Programs without functions as values compute what they did."""

from __future__ import annotations

from typing import Any

import pytest

from heddle import IRModule, relay
from heddle.ir.expr import Call, Function, GlobalVar, Var
from heddle.ir.structural import assert_structural_equal
from heddle.ir.type_data import Constructor
from heddle.ir.types import FuncType
from heddle.ir.visitor import walk_distinct
from heddle.relay.placement import post_order
from heddle.relay.transform import Defunctionalization
from heddle.support.diagnostics import UsageError
from tests.unit.relay.corpus import ROWS, parsed, same
from tests.unit.relay.programs import program, run


def _first_order(mod: Any) -> Any:
    """The module with its main function changed, and with what that uses alone."""
    copy = IRModule(mod.functions, type_definitions=mod.type_definitions)
    copy["main"] = Defunctionalization(copy["main"], copy)
    return relay.transform.InferType()(relay.transform.RemoveUnusedFunctions()(copy))


def _assert_first_order(mod: Any) -> None:
    """No function is generic, a value, a parameter or a field."""
    fields = set()
    for func in mod.functions.values():
        assert not func.type_params
        for expr in post_order(func):
            if isinstance(expr, Var):
                fields |= {node for node in walk_distinct(expr.ty) if isinstance(node, FuncType)}
            assert expr is func or not isinstance(expr, Function) or expr.attrs.get("Primitive")
            operands = expr.args if isinstance(expr, Call) else ()
            assert not any(isinstance(arg, (GlobalVar, Constructor, Function)) for arg in operands)
            assert not isinstance(expr, Call) or not isinstance(expr.op, Var)
    assert not fields


@pytest.mark.parametrize("name", ROWS)
def test_values_of_the_corpus(name: str) -> None:
    make, reference = ROWS[name]
    args = make()
    mod = _first_order(parsed(name))
    _assert_first_order(mod)
    same(run(mod, *args), reference(*args))
    assert_structural_equal(relay.parse(mod.astext()), mod)


@pytest.mark.parametrize("name", list(ROWS)[::9])
def test_machines_run_them(name: str) -> None:
    make, reference = ROWS[name]
    args = make()
    same(relay.create_executor("vm", _first_order(parsed(name))).evaluate()(*args), reference(*args))


IDENTITY = "def @id[A](%x: A) -> A { %x } "
APPLY = "def @app[B](%f: fn(int32) -> B, %x: int32) -> B { %f(%x) } "
MAIN = "def @main(%n: int32) -> int32 "
PROGRAMS = {
    "a local generic function at two types": (
        "def @main(%n: int32) { let %k = fn [A](%x: A) -> (A, int32) { (%x, %n) }; "
        "let %a = %k(1); let %b = %k(True); (%a.0, %b.1) }"
    ),
    "a generic function by another name": (
        IDENTITY + "def @main(%n: int32) { let %g = @id; (%g(%n), %g(True)) }"
    ),
    "generic functions as arguments": (
        IDENTITY + APPLY + MAIN + "{ let %f = fn [A](%x: A) -> A { %x }; @app(@id, %n) + @app(%f, %n) }"
    ),
    "a generic constructor as an argument": (
        "type Opt[A] { None, Some(A) } " + APPLY + MAIN + "{ match (@app(Some, %n)) "
        "{ Some(%x) => %x, None => 0 } }"
    ),
    "a local function that calls itself": (
        MAIN + "{ let %f = fn (%k: int32) -> int32 { if (%k == 0) { %n } else { %f(%k - 1) + 1 } }; %f(5) }"
    ),
    "a local generic function that calls itself": (
        MAIN + "{ let %f = fn [A](%k: int32, %x: A) -> int32 "
        "{ if (%k == 0) { %n } else { %f(%k - 1, %x) + 1 } }; %f(5, True) + %f(2, 1) }"
    ),
    "functions in a reference": (
        MAIN + "{ let %r = ref(fn (%x: int32) -> int32 { %x }); "
        "let %u = ref_write(%r, fn (%x: int32) -> int32 { %x + %n }); let %g = ref_read(%r); %g(10) }"
    ),
    "functions out of branches and tuples": (
        MAIN + "{ let %f = if (%n > 2) { fn (%x: int32) -> int32 { %x * 2 } } "
        "else { fn (%x: int32) -> int32 { %x + %n } }; let %t = (%f, fn (%x: int32) -> int32 { %x - %n }); "
        "let %g = %t.0; let %h = %t.1; %g(%h(%n)) }"
    ),
    "a function of functions that nobody calls": (
        MAIN + "{ let %r = fn (%f: fn(bool) -> int32) -> int32 { %f(True) }; %n }"
    ),
    "functions that give functions": (
        MAIN + "{ let %add = fn (%a: int32) -> fn(int32) -> int32 { fn (%b: int32) -> int32 "
        "{ %a + %b + %n } }; let %p = %add(1); %p(2) }"
    ),
    "a function of certain sizes where any are taken": (
        "def @call(%f: fn(Tensor[(?), int32]) -> Tensor[(?), int32], %x: Tensor[(?), int32]) "
        "-> Tensor[(?), int32] { %f(%x) } def @main(%n: int32) "
        '{ @call(fn (%y: Tensor[(3), int32]) { %y + %n }, full(%n, shape=[3], dtype="int32")) }'
    ),
    "kernels as values": (
        APPLY + MAIN + "{ let %k = fn (%x: int32, Primitive=1) -> int32 { %x + 1 }; "
        "@app(%k, %n) + @app(fn (%x: int32, Primitive=1) -> int32 { %x + 2 }, %n) + %k(%n) }"
    ),
    "a data type that holds functions": (
        "type Box[A] { Box(fn(A) -> A), Empty } " + MAIN + "{ match (Box(fn (%x: int32) -> int32 "
        "{ %x + %n })) { Box(%f) => %f(3), Empty => 0 } }"
    ),
    "names that are taken": (
        "type Closure { Closure_main } def @apply(%n: int32) -> int32 { %n } "
        + MAIN
        + "{ let %main = fn (%x: int32) -> int32 { @apply(%x) + %n }; %main(%n) }"
    ),
}


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_values_of_programs(text: str) -> None:
    mod = program(text)
    made = _first_order(mod)
    _assert_first_order(made)
    same(run(made, 3), run(mod, 3))
    assert_structural_equal(relay.parse(made.astext()), made)


def test_the_work_is_linear_in_generic_functions() -> None:
    lines = ["let %g0 = fn [A](%x: A) -> A { %x };"]
    for number in range(1, 30):
        before = f"%g{number - 1}"
        lines.append(f"let %g{number} = fn [A](%x: A) -> A {{ let %a = {before}(%x); {before}(%a) }};")
    mod = _first_order(program(MAIN + "{ " + " ".join(lines) + " %g29(%n) }"))
    assert len(mod.functions) == 32


@pytest.mark.parametrize(
    "text",
    [
        "def @main(%f: fn(int32) -> int32) -> int32 { %f(1) }",
        "def @main[A](%x: A) -> A { %x }",
        "type Box { Box(fn(int32) -> int32) } def @main(%b: Box) -> int32 { 1 }",
        IDENTITY + MAIN + "{ let %g = if (%n > 1) { @id } else { @id }; %g(%n) }",
        "def @f[A](%k: int32, %x: A) -> int32 { if (%k == 0) { 0 } else { @f(%k - 1, (%x, %x)) } } "
        + MAIN
        + "{ @f(%n, 1) }",
        "def @f[A](%k: int32, %x: A) -> int32 { if (%k == 0) { 0 } else { @f(%k - 1, (%x,)) } } "
        + MAIN
        + "{ @f(%n, 1) }",
        "def @ap(%t: (fn(Tensor[(?), int32]) -> Tensor[(?), int32], int32)) -> Tensor[(?), int32] "
        '{ let %g = %t.0; %g(full(2, shape=[4], dtype="int32")) } '
        "def @main(%n: int32) { @ap((fn (%y: Tensor[(4), int32]) -> Tensor[(4), int32] { %y + %n }, 1)) }",
        "def @main(%n: int32) -> int32 { let %r = ref(fn (%x: Tensor[(?), int32]) -> int32 { 1 }); "
        "let %u = ref_write(%r, fn (%x: Tensor[(3), int32]) -> int32 { %n }); let %g = ref_read(%r); "
        '%g(full(%n, shape=[3], dtype="int32")) }',
        "type Nest[A] { End(fn(A) -> int32), More(A, Nest[(A, A)]) } "
        + MAIN
        + "{ match (End(fn (%x: int32) -> int32 { %x })) { End(%f) => %f(%n), More(%x, _) => %x } }",
    ],
)
def test_what_stays_as_it_is(text: str) -> None:
    mod = program(text)
    before = dict(mod.functions), dict(mod.type_definitions)
    with pytest.raises(UsageError, match="Q0503"):
        Defunctionalization(mod["main"], mod)
    assert (dict(mod.functions), dict(mod.type_definitions)) == before


def test_an_expression_that_is_no_function() -> None:
    with pytest.raises(UsageError, match="Q0503"):
        Defunctionalization(relay.const(1.0), IRModule())
