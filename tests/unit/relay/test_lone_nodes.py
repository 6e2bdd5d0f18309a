"""Each node of Relay alone, as text in Relay's words."""

from __future__ import annotations

from typing import Any

import pytest

import heddle
from heddle import relay
from tests.unit.relay.programs import program

X = relay.var("x", shape=(2,))
C = relay.var("c", "bool")
A = relay.TypeVar("A")
LIST = relay.GlobalTypeVar("List")
CONS = relay.Constructor("Cons", [A, LIST(A)], LIST)
FREE_X, FREE_C = "free_var %x: Tensor[(2), float32];\n", "free_var %c: bool;\n"

NODES: list[tuple[Any, str]] = [
    (A, "A"),
    (LIST, "List"),
    (LIST(A), "List[A]"),
    (relay.TypeData(LIST, [A], [CONS]), "type List[A] {\n  Cons(A, List[A]),\n}"),
    (CONS, "Cons"),
    (relay.RefType(A), "ref(A)"),
    (relay.Any(), "?"),
    (relay.If(C, X, X), f"{FREE_C}{FREE_X}if (%c) {{\n  %x\n}} else {{\n  %x\n}}"),
    (relay.Tuple([X, C]), f"{FREE_X}{FREE_C}(%x, %c)"),
    (relay.TupleGetItem(relay.Tuple([X, C]), 0), f"{FREE_X}{FREE_C}%0 = (%x, %c);\n%0.0"),
    (relay.RefCreate(X), f"{FREE_X}ref(%x)"),
    (relay.Clause(relay.PatternWildcard(), relay.const(1)), "_ => { 1 }"),
    (relay.PatternConstructor(CONS, [relay.PatternWildcard()]), "Cons(_)"),
]


@pytest.mark.parametrize(("node", "text"), NODES, ids=[type(node).__name__ for node, _ in NODES])
def test_its_text_is_relays(node: Any, text: str) -> None:
    assert str(node) == text
    assert node.astext(show_meta_data=False).startswith(f'#[version = "0.0.5"]\n{text}')


def test_a_span_knows_its_text() -> None:
    span = relay.parse('#[version = "0.0.5"]\ndef @main(%x: float32) { %x + 1f }', "file.rly")[
        "main"
    ].body.span
    assert (span.source_name, span.line, span.column) == ("file.rly", 2, 26)


def test_run_and_invoke_take_numbers() -> None:
    body = 'if (%n.0 > 0) { %x * 2f } else { cast(%n.1, dtype="float32") }'
    executable = relay.vm.compile(program(f"def @main(%x: float32, %n: (int32, int32)) {{ {body} }}"), "llvm")
    vm = heddle.vm.relay.VirtualMachine(executable, heddle.cpu())
    assert vm.run(2.5, (3, 7)).numpy() == 5
    assert vm.invoke("main", 2.5, (0, 7)).numpy() == 7
    with pytest.raises(TypeError, match="V0303"):
        heddle.vm.relay.VirtualMachine(3, heddle.cpu())


def test_the_profiler_calls_the_function_that_is_named() -> None:
    mod = program("def @twice(%x: float32) { %x + %x } def @thrice(%x: float32) { %x + %x + %x }")
    profiler = heddle.vm.relay.VirtualMachineProfiler(relay.vm.compile(mod, "llvm"), heddle.cpu())
    for word in ("func", "func_name"):
        assert "add" in str(profiler.profile(1.0, **{word: "thrice"}))
    with pytest.raises(heddle.support.diagnostics.HeddleError, match="V0301"):
        profiler.profile(1.0, func_name="other")
