"""Sizes that a program leaves open stay open behind passes, where what they are is known and differs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.relay import transform as passes
from tests.unit.relay.programs import program, run

ROWS = "Tensor[(?, 3), float32]"
TAKEN = 'take(ones(shape=[2, 3], dtype="float32"), arange(0, {}, 1, dtype="int32"), axis=0)'
HEAD = """type List[A] { Cons(A, List[A]), Nil }
type Two { Two(Tensor[(?, 3), float32], Tensor[(?, 3), float32]) }
def @keep[A](%c: bool, %x: A, %y: A, Inline=1) -> A { if (%c) { %x } else { %y } }
"""
PROGRAMS = {
    "branches": f"def @main(%c: bool) -> {ROWS} {{ "
    f"if (%c) {{ {TAKEN.format(0)} }} else {{ {TAKEN.format(1)} }} }}",
    "names": f"def @main(%c: bool) -> {ROWS} {{ let %x: {ROWS} = {TAKEN.format(0)}; "
    f'let %y: {ROWS} = ones(shape=[2, 3], dtype="float32"); if (%c) {{ %x }} else {{ %y }} }}',
    "arguments": f"def @main(%c: bool) -> {ROWS} {{ "
    f'@keep(%c, {TAKEN.format(0)}, ones(shape=[2, 3], dtype="float32")) }}',
    "clauses": f"def @main(%c: bool) {{ let %l: List[int32] = Nil; match (%l) {{ Nil => {TAKEN.format(0)}, "
    f"_ => {TAKEN.format(1)} }} }}",
    "data": f"def @main(%c: bool) {{ let %l: List[{ROWS}] = Cons({TAKEN.format(0)}, "
    f"Cons({TAKEN.format(1)}, Nil)); "
    f"match? (%l) {{ Cons(%x, Cons(%y, _)) => if (%c) {{ %x }} else {{ %y }} }} }}",
    "cells": f"def @main(%c: bool) {{ let %r: ref({ROWS}) = ref({TAKEN.format(0)}); "
    f"if (%c) {{ () }} else {{ ref_write(%r, {TAKEN.format(1)}) }}; ref_read(%r) }}",
    "lists without a type": "def @main(%c: bool) { let %l: List[int32] = Nil; "
    "if (%c) { match (%l) { Nil => 1, _ => 2 } } else { 3 } }",
    "another name with open sizes": "def @main(%c: bool) { "
    f'let %s = full(cast(%c, dtype="float32"), shape=[1, 3], dtype="float32"); let %b: {ROWS} = %s; '
    f"let %f = fn (%z: {ROWS}) -> {ROWS} {{ if (%c) {{ %z }} else {{ %b }} }}; "
    f"(%s + %s) * sum(%f({TAKEN.format(2)})) }}",
    "functions": f"def @main(%c: bool) {{ let %f = fn (%x: {ROWS}, %y: {ROWS}) -> {ROWS} "
    f"{{ if (%c) {{ %x }} else {{ concatenate((%x, %y), axis=0) }} }}; "
    f"%f({TAKEN.format(0)}, {TAKEN.format(1)}) }}",
}
PASSES: dict[str, Any] = {
    "PartialEvaluate": passes.PartialEvaluate(),
    "FoldConstant": passes.FoldConstant(),
    "ToGraphNormalForm": passes.ToGraphNormalForm(),
    "Inline": passes.Inline(),
    "DeadCodeElimination": passes.DeadCodeElimination(inline_once=True),
    "SimplifyExpr": passes.SimplifyExpr(),
    "DynamicToStatic": passes.DynamicToStatic(),
}


NO_TEXT = {(step, name) for step in ("FoldConstant", "DynamicToStatic") for name in ("arguments", "data")}
"""Calls whose type arguments leave sizes open that their arguments have: text does not say type arguments."""


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("step", PASSES)
def test_what_differs_in_size_comes_together(step: str, name: str) -> None:
    mod = program(HEAD + PROGRAMS[name])
    made = passes.InferType()(PASSES[step](mod))
    again = made if (step, name) in NO_TEXT else relay.parse(made.astext())
    for given in (np.array(True), np.array(False)):
        wanted = run(mod, given)
        for each in (made, again):
            np.testing.assert_array_equal(run(each, given), wanted)
        found = relay.create_executor("vm", made).evaluate()(given)
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_effects_of_arguments_come_once() -> None:
    mod = program(
        "def @twice(%x: int32, Inline=1) -> int32 { %x + %x } "
        "def @main(%n: int32) { let %r = ref(%n); let %f = fn () -> int32 { "
        "ref_write(%r, ref_read(%r) + 1); ref_read(%r) }; let %s = @twice(%f()); (%s, ref_read(%r)) }"
    )
    assert run(passes.Inline()(mod), 3) == run(mod, 3) == (8, 4)


def test_kernels_of_folded_constants_are_compiled_where_sizes_come_together() -> None:
    """Written in place, they make sizes known that differ between the branches."""
    rows = 'take(full({}f, shape=[2, 3], dtype="float32"), arange(0, {}, 1, dtype="int32"), axis=0)'
    branches = f"if (%c) {{ ({rows.format(2, 0)},) }} else {{ ({rows.format(0, 2)},) }}"
    source = f'#[version = "0.0.5"]\ndef @main(%c: bool) -> (Tensor[(?, 3), float32],) {{ {branches} }}'
    mod = relay.parse(source)
    with heddle.transform.PassContext(opt_level=4):
        folded = relay.transform.FoldConstant()(relay.transform.FuseOps()(mod))
    run = relay.create_executor("vm", folded).evaluate()
    for cond, shape in ((True, (0, 3)), (False, (2, 3))):
        assert run(np.array(cond))[0].numpy().shape == shape
