"""A program that nests too deeply for the compiler is refused with a code, at whatever depth."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import heddle
from heddle.ir.module import IRModule
from heddle.ir.nesting import ALWAYS_READ, refusing_deep_nesting
from heddle.ir.visitor import nesting
from heddle.prim.nodes import Add, IntImm, PrimExpr, Var
from heddle.support.diagnostics import ParseError, UsageError
from heddle.tir.nodes import BufferStore, For, ForKind, IfThenElse, PrimFunc, Stmt, decl_buffer
from heddle.tir.transform.compact_buffers import CompactBuffers

A, B = decl_buffer((16,), "int32", "A"), decl_buffer((16,), "int32", "B")


def loops(depth: int) -> Stmt:
    body: Stmt = BufferStore(B, A[0], (0,))
    for number in range(depth):
        body = For(Var(f"i{number}", "int32"), IntImm("int32", 0), IntImm("int32", 1), ForKind.SERIAL, body)
    return body


def branches(depth: int) -> Stmt:
    body: Stmt = BufferStore(B, A[0], (0,))
    for number in range(depth):
        body = IfThenElse(A[number % 16] > number, BufferStore(B, A[1], (0,)), body)
    return body


def sums(depth: int) -> Stmt:
    value: PrimExpr = A[0]
    for number in range(depth):
        value = Add(value, A[number % 16])
    return BufferStore(B, value, (0,))


FORMS = {"loops": loops, "branches": branches, "sums": sums}


def function(body: Stmt) -> PrimFunc:
    return PrimFunc((A, B), body, attrs={"global_symbol": "main"})


@pytest.mark.parametrize("form", FORMS)
def test_what_nests_within_reason_compiles(form: str) -> None:
    heddle.compile(function(FORMS[form](ALWAYS_READ - 20)), target="llvm")


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("depth", [250, 1000, 5000])
@pytest.mark.parametrize("form", FORMS)
def test_what_nests_too_deeply_is_refused(form: str, depth: int, target: str) -> None:
    """Some have room at 250; none has at 1000."""
    code = code_of(lambda: heddle.compile(function(FORMS[form](depth)), target=target))
    assert code == "I0510" or (depth == 250 and not code)


def code_of(work: Callable[[], object]) -> str:
    """The code of the error; empty where there is none."""
    try:
        work()
    except UsageError as error:
        return str(error.code)
    return ""


def test_many_axes_of_a_text_are_refused() -> None:
    names = ", ".join(f"i{k}" for k in range(2000))
    head = '@T.prim_func\ndef main(A: T.Buffer((16,), "float32")):\n'
    text = f"{head}    for {names} in T.grid({', '.join(['1'] * 2000)}):\n        A[0] = A[1]\n"
    with pytest.raises((ParseError, UsageError), match=r"I0510|I0601.*nested too deeply"):
        heddle.compile(heddle.script.from_source(text), target="llvm")


def test_a_pass_alone_refuses_too() -> None:
    with pytest.raises(UsageError, match=r"I0510.*1004 loops.*pass CompactBuffers"):
        CompactBuffers()(IRModule({"main": function(loops(1000))}))


def test_recursion_without_nesting_is_no_fault_of_the_program() -> None:
    func = function(loops(3))
    assert nesting(func) < ALWAYS_READ
    with pytest.raises(RecursionError), refusing_deep_nesting("it", (func,)):
        raise RecursionError


def test_nesting_visits_a_shared_node_once() -> None:
    value: PrimExpr = A[0]
    for _ in range(60):
        value = Add(value, value)
    assert nesting(value) == 60 + nesting(A[0])
