"""What is known of a program is computed when it is compiled, and what is not stays as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.ir.structural import assert_structural_equal
from heddle.relay import transform as passes
from heddle.relay.placement import post_order
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.corpus import ROWS, parsed
from tests.unit.relay.programs import listed, plain, program, run

STEPS = heddle.transform.Sequential(
    [
        passes.PartialEvaluate(),
        passes.DeadCodeElimination(),
        passes.RemoveUnusedFunctions(),
    ]
)
LIST = "type L { N, C(int32, L) } "
SUM = "def @sum(%l: L) -> int32 { match (%l) { N => 0, C(%h, %t) => %h + @sum(%t) } } "

GOLDEN: dict[str, tuple[str, str]] = {
    "recursion to a known depth": (
        "def @pow(%n: int32, %x: float32) -> float32 { if (%n == 0) { 1f } else { %x * @pow(%n - 1, %x) } } "
        "def @main(%x: float32) { @pow(2, %x) }",
        "def @main(%x: float32) -> float32 { let %a = %x * 1f; let %b = %x * %a; %b }",
    ),
    "recursion over known data": (
        LIST + SUM + "def @main(%x: int32) { @sum(C(%x, C(3, N))) }",
        LIST + "def @main(%x: int32) -> int32 { let %a = %x + 3; %a }",
    ),
    "local recursion": (
        "def @main(%x: int32) { let %f = fn (%k: int32) -> int32 "
        "{ if (%k == 0) { 0 } else { %x + %f(%k - 1) } }; %f(2) }",
        "def @main(%x: int32) -> int32 { let %a = %x + 0; let %b = %x + %a; %b }",
    ),
    "functions as arguments": (
        "def @twice[A](%f: fn (A) -> A, %x: A) -> A { %f(%f(%x)) } "
        "def @main(%x: float32, %y: float32) { @twice(fn (%a: float32) { %a * %y }, %x) }",
        "def @main(%x: float32, %y: float32) -> float32 { let %a = %x * %y; let %b = %a * %y; %b }",
    ),
    "closures in data": (
        "type B { F(fn (float32) -> float32) } "
        "def @main(%x: float32) { let %b = F(fn (%a: float32) { tanh(%a) }); "
        "match (%b) { F(%f) => %f(%x) } }",
        "type B { F(fn (float32) -> float32) } def @main(%x: float32) -> float32 { let %a = tanh(%x); %a }",
    ),
    "branches": (
        "def @main(%x: float32) { if (less(2, 3)) { exp(%x) } else { tanh(%x) } }",
        "def @main(%x: float32) -> float32 { let %a = exp(%x); %a }",
    ),
    "fields of tuples": (
        "def @swap[A, B](%p: (A, B)) -> (B, A) { (%p.1, %p.0) } "
        "def @main(%x: float32, %y: int32) { @swap(@swap((%x, %y))).1 }",
        "def @main(%x: float32, %y: int32) -> int32 { %y }",
    ),
    "cells": (
        "def @main(%x: float32) { let %r = ref(%x); let %a = ref_write(%r, ref_read(%r) * 2f); "
        "ref_read(%r) }",
        "def @main(%x: float32) -> float32 { let %r = ref(%x); let %a = %x * 2f; "
        "let %b = ref_write(%r, %a); %a }",
    ),
    "what one branch writes is not known": (
        "def @main(%x: float32, %c: bool) { let %r = ref(%x); let %s = ref(%x); "
        "let %u = if (%c) { ref_write(%r, 1f) } else { () }; ref_read(%r) + ref_read(%s) }",
        "def @main(%x: float32, %c: bool) -> float32 { let %r = ref(%x); let %s = ref(%x); "
        "let %u = if (%c) { let %w = ref_write(%r, 1f); %w } else { let %e = (); %e }; "
        "let %v = ref_read(%r); let %y = %v + %x; %y }",
    ),
    "a call may write": (
        "def @main(%f: fn () -> (), %x: float32) { let %r = ref(%x); let %u = %f(); ref_read(%r) }",
        "def @main(%f: fn () -> (), %x: float32) -> float32 "
        "{ let %r = ref(%x); let %u = %f(); let %y = ref_read(%r); %y }",
    ),
    "a cell that is another or not": (
        "def @main(%s: ref(float32), %x: float32) { let %r = ref(%x); let %u = ref_write(%s, 1f); "
        "ref_read(%r) }",
        "def @main(%s: ref(float32), %x: float32) -> float32 { let %r = ref(%x); "
        "let %u = ref_write(%s, 1f); let %y = ref_read(%r); %y }",
    ),
    "a function is for any content of a cell": (
        "def @main(%x: float32) { let %r = ref(%x); fn () -> float32 { ref_read(%r) } }",
        "def @main(%x: float32) -> fn () -> float32 { let %r = ref(%x); "
        "let %f = fn () -> float32 { let %y = ref_read(%r); %y }; %f }",
    ),
    "unknown depths": (
        LIST + SUM + "def @main(%l: L) { @sum(%l) }",
        LIST + "def @sum(%l: L) -> int32 { let %s = match (%l) { N => 0, "
        "C(%h, %t) => { let %a = @sum(%t); let %b = %h + %a; %b } }; %s } "
        "def @main(%l: L) -> int32 { let %a = @sum(%l); %a }",
    ),
    "a counter that does not come to an end": (
        "def @f(%n: int32, %k: int32) -> int32 { if (%n == 0) { %k } else { @f(%n - 1, %k + 1) } } "
        "def @main(%n: int32) { @f(%n, 0) }",
        "def @f(%n: int32, %k: int32) -> int32 { let %c = %n == 0; let %r = if (%c) { %k } else "
        "{ let %a = %n - 1; let %b = %k + 1; let %d = @f(%a, %b); %d }; %r } "
        "def @main(%n: int32) -> int32 { let %r = @f(%n, 0); %r }",
    ),
    "what comes to an end inside of what does not": (
        "def @f(%n: int32, %k: int32) -> int32 { if (%n == 0) { %k } else { @f(%n - 1, @g(2, %k)) } } "
        "def @g(%n: int32, %k: int32) -> int32 { if (%n == 0) { %k } else { @g(%n - 1, %k * %k) } } "
        "def @main(%n: int32) { @f(%n, 0) }",
        "def @f(%n: int32, %k: int32) -> int32 { let %c = %n == 0; let %r = if (%c) { %k } else "
        "{ let %a = %n - 1; let %b = %k * %k; let %e = %b * %b; let %d = @f(%a, %e); %d }; %r } "
        "def @main(%n: int32) -> int32 { let %r = @f(%n, 0); %r }",
    ),
    "cells behind a call that stays": (
        "def @f(%n: int32, %r: ref(int32)) -> int32 { if (%n == 9) { ref_read(%r) } else { "
        "ref_write(%r, %n); @f(%n + 1, %r) } } "
        "def @main() { let %r = ref(5); let %a = @f(0, %r); ref_read(%r) - %a }",
        "def @f(%n: int32, %r: ref(int32)) -> int32 { let %c = %n == 9; let %x = if (%c) "
        "{ let %y = ref_read(%r); %y } else { let %u = ref_write(%r, %n); let %z = %n + 1; "
        "let %w = @f(%z, %r); %w }; %x } "
        "def @main() -> int32 { let %r = ref(5); let %a = @f(0, %r); let %b = ref_read(%r); "
        "let %c = %b - %a; %c }",
    ),
    "a function composed with itself": (
        "def @compose[A, B, C](%f: fn (B) -> C, %g: fn (A) -> B) -> fn (A) -> C "
        "{ fn (%x: A) -> C { %f(%g(%x)) } } def @main(%x: float32) { "
        "let %h = @compose(fn (%a: float32) { %a + 1f }, fn (%b: float32) { %b * %b }); "
        "@compose(%h, %h)(%x) }",
        "def @main(%x: float32) -> float32 { let %a = %x * %x; let %b = %a + 1f; let %c = %b * %b; "
        "let %d = %c + 1f; %d }",
    ),
    "functions that do not call themselves any more": (
        "type C { First, Last(C), Whole } def @cut(%c: C, %x: int32) -> int32 { match (%c) { Whole => %x, "
        "First => %x + 1, Last(_) => @cut(First, %x * 2) } } def @main(%c: C, %x: int32) { "
        "let %f = fn (%d: C, %y: int32) -> int32 { match (%d) { Whole => %y, First => %y - 1, "
        "Last(_) => %f(Whole, %y * 3) } }; @cut(%c, %f(%c, %x)) }",
        "type C { First, Last(C), Whole } def @main(%c: C, %x: int32) -> int32 { "
        "let %a = match (%c) { Whole => %x, First => { let %b = %x - 1; %b }, "
        "Last(_) => { let %d = %x * 3; %d } }; let %e = match (%c) { Whole => %a, "
        "First => { let %g = %a + 1; %g }, Last(_) => { let %h = %a * 2; let %i = %h + 1; %i } }; %e }",
    ),
    "a function composed with itself, called in itself": (
        "def @twice(%f: fn (int32) -> int32) -> fn (int32) -> int32 { "
        "fn (%x: int32) -> int32 { %f(%f(%x)) } } "
        "def @main(%x: int32) { let %g = @twice(@twice(fn (%y: int32) -> int32 { %y * 3 })); %g(%x) }",
        "def @main(%x: int32) -> int32 { let %a = %x * 3; let %b = %a * 3; let %c = %b * 3; "
        "let %d = %c * 3; %d }",
    ),
    "a generic function by another name": (
        "def @apply[A, B](%f: fn (A) -> B, %x: A) -> B { %f(%x) } "
        "def @main(%x: float32) { let %pair = fn [A](%a: A) -> (A, A) { (%a, %a) }; @apply(%pair, %x).1 }",
        "def @main(%x: float32) -> float32 { %x }",
    ),
    "kernels": (
        "def @main(%x: float32) { let %f = fn (%a: float32, Primitive=1) -> float32 { tanh(%a) }; %f(%x) }",
        "def @main(%x: float32) -> float32 "
        "{ let %b = fn (%a: float32, Primitive=1) -> float32 { tanh(%a) }(%x); %b }",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_programs_before_and_after(name: str) -> None:
    before, after = (program(text) for text in GOLDEN[name])
    made = STEPS(before)
    assert_structural_equal(made, after)
    assert_structural_equal(relay.parse(made.astext()), made)
    assert STEPS(made) is made


@pytest.mark.parametrize("name", ROWS)
def test_programs_of_the_corpus_are_evaluated_at_once(name: str) -> None:
    made = passes.PartialEvaluate()(parsed(name))
    assert passes.PartialEvaluate()(made) is made


def test_dead_chains_go_at_once() -> None:
    """A chain of lets that nobody uses takes one walk, not one a let; what is shared with others stays."""
    x = relay.var("x", shape=())
    shared = relay.exp(x)
    names = [relay.var(f"v{k}") for k in range(400)]
    body: Any = shared
    for k in reversed(range(400)):
        body = relay.Let(names[k], relay.add(names[k - 1] if k else x, shared), body)
    mod = passes.InferType()(heddle.IRModule.from_expr(relay.Function([x], body)))
    walks: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes.DeadCodeElimination, "_once", _counted(walks))
        made = passes.DeadCodeElimination()(mod)
    assert len(walks) == 2
    assert_structural_equal(made, program("def @main(%x: float32) -> float32 { exp(%x) }"))


def _counted(walks: list[Any]) -> Any:
    once = passes.DeadCodeElimination._once

    def counted(step: Any, func: Any) -> Any:
        walks.append(func)
        return once(step, func)

    return counted


RUNS: dict[str, tuple[str, list[Any], Any]] = {
    "more calls than are unfolded": (
        "def @fib(%n: int32) -> int32 { if (%n < 2) { %n } else { @fib(%n - 1) + @fib(%n - 2) } } "
        "def @main() { @fib(8) }",
        [],
        21,
    ),
    "data that leads to itself by its type alone": (
        "type Fix { In(fn (Fix, int32) -> int32) } "
        "def @main(%n: int32) { let %f = fn (%s: Fix, %k: int32) -> int32 "
        "{ if (%k == 0) { 7 } else { match (%s) { In(%g) => %g(%s, %k - 1) } } }; %f(In(%f), %n) }",
        [np.int32(5)],
        7,
    ),
    "arguments that grow and shrink in turn": (
        "def @f(%a: int32, %b: int32, %c: int32) -> int32 { if (%c == 0) { %a * 100 + %b } else { "
        "@f(%b + 1, %a - 1, %c - 1) } } def @main(%c: int32) { @f(3, 5, %c) }",
        [np.int32(4)],
        305,
    ),
    "order of effects": (
        "def @put(%r: ref(int32), %v: int32) -> () { ref_write(%r, ref_read(%r) * 10 + %v) } "
        "def @main(%c: bool) { let %r = ref(0); let %a = @put(%r, 1); "
        "let %b = if (%c) { @put(%r, 2) } else { @put(%r, 3) }; let %d = @put(%r, 4); ref_read(%r) }",
        [np.bool_(True)],
        124,
    ),
    "a branch that nobody takes asks for what no operator gives": (
        "def @main(%c: bool) { if (%c) { take([1, 2], 0) } else { 5 } }".replace(
            "[1, 2]", "reshape(3, newshape=[1])"
        ),
        [np.bool_(False)],
        5,
    ),
    "generic data of two types": (
        "type P[A, B] { Q(A, B) } def @first[A, B](%p: P[A, B]) -> A { match (%p) { Q(%a, _) => %a } } "
        "def @main(%x: float32) { let %p = Q(2f, Q(%x, 1)); @first(match (%p) { Q(_, %q) => %q }) * "
        "@first(%p) }",
        [np.float32(4)],
        8.0,
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_values_stay(name: str) -> None:
    text, args, wanted = RUNS[name]
    mod = program(text)
    made = passes.PartialEvaluate(unfoldings=40)(mod)
    assert run(mod, *args) == run(made, *args) == wanted
    assert plain(relay.create_executor("vm", made).evaluate()(*args)) == wanted
    assert_structural_equal(relay.parse(made.astext()), made)


def test_failures_come_when_the_program_runs() -> None:
    mod = program(LIST + "def @main() { match? (N) { C(%h, _) => %h } }")
    made = passes.PartialEvaluate()(mod)
    with pytest.raises(HeddleError, match="Q0401"):
        run(made)


def test_the_prelude_over_known_lists() -> None:
    """Map, filter and fold leave no call behind; the elements are not known, the length is."""
    mod = heddle.IRModule()
    mod.import_from_std("prelude.rly")
    text = (
        "def @main(%x: int32, %y: int32) { "
        "@foldl(fn (%a: int32, %v: int32) { %a * %v }, 1, "
        "@map(fn (%v: int32) { %v + 1 }, Cons(%x, Cons(%y, Nil)))) }"
    )
    made = STEPS(program(text, mod))
    assert [var.name_hint for var in made.functions] == ["main"]
    assert not any(isinstance(node, relay.Match) for node in post_order(made["main"]))
    assert run(made, np.int32(2), np.int32(4)) == 15


def test_work_is_that_of_a_graph() -> None:
    """A ladder of functions that call the one below twice: the calls that are unfolded are counted."""
    text = "def @f0(%x: int32) -> int32 { %x + 1 } " + " ".join(
        f"def @f{k}(%x: int32) -> int32 {{ @f{k - 1}(@f{k - 1}(%x)) }}" for k in range(1, 12)
    )
    mod = program(text + " def @main(%x: int32) { @f11(%x) }")
    made = passes.PartialEvaluate(unfoldings=100)(mod)
    assert all(len(post_order(func)) < 400 for func in made.functions.values())
    assert run(made, np.int32(1)) == 1 + 2**11


def test_long_lists_need_no_stack() -> None:
    mod = heddle.IRModule()
    mod.import_from_std("prelude.rly")
    text = "Cons(%x, " * 300 + "Nil" + ")" * 300
    made = STEPS(program(f"def @main(%x: int32) {{ @rev({text}) }}", mod))
    assert listed(run(made, np.int32(3))) == [3] * 300
