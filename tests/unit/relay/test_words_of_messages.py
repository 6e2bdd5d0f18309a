"""What goes wrong with a Relay program is said in Relay's words: types, operators' names, what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.ir.op import OP_RECORDS, Op
from heddle.ops.load import load
from heddle.relay.op import lookup
from heddle.relay.transform import InferType
from heddle.support.diagnostics import HeddleError, InternalError
from heddle.support.span import ambient_span
from tests.unit.relay.programs import program

ANY = relay.Any()
OTHER_WORDS = re.compile(r"\bR\.|\bT\.|\brelax\.|annotation=")


def tensor(*shape: Any, dtype: str = "float32") -> Any:
    return relay.TensorType(shape, dtype)


GIVEN = [
    tensor(),
    tensor(2),
    tensor(0, dtype="int64"),
    tensor(2, 3, dtype="int8"),
    tensor(2, 3, 4, 5),
    tensor(2, 3, 4, 5, 6),
    tensor(ANY, 3, 4, 0, dtype="bool"),
    tensor(ANY, ANY),
    relay.TupleType([]),
    relay.TupleType([tensor(2, 3), relay.TupleType([tensor(ANY)])]),
]
VALUES: dict[str, list[Any]] = {
    "ints": [[], [2, 2], [-1]],
    "int": [0, -1],
    "float": [1.0],
    "floats": [[], [1.0, 2.0]],
    "bool": [True],
    "str": ["", "NCHW"],
    "dtype": ["float32"],
    "pairs": [[], [[1, 1]]],
    "device": ["cpu"],
}
load()


def _attributes(name: str) -> list[dict[str, Any]]:
    """All that are needed, with the values of their kinds; none, and each one alone."""
    record, alias = lookup(name)
    specs = alias.attrs_of(record)
    needed = [{spec.name: VALUES.get(spec.kind, [[1]])[place % 2 - 1] for spec in specs} for place in (0, 1)]
    alone = [{spec.name: value} for spec in specs for value in VALUES.get(spec.kind, [[1]])]
    return [{}, *needed, *alone]


@pytest.mark.parametrize("name", relay.op_names())
def test_calls_of_every_operator_that_do_not_fit(name: str) -> None:
    """Whatever an operator is given, the answer is a type, or a finding that has a code and Relay's words."""
    record, alias = lookup(name)
    count = len(alias.inputs_of(record))
    for number in {count, max(count - 1, 0), count + 1}:
        for ty in GIVEN:
            for attrs in _attributes(name):
                args = [relay.Var(f"x{place}", ty) for place in range(number)]
                error = _error_of(relay.Function(args, relay.Call(Op(name), args, attrs)))
                for finding in () if error is None else error.diagnostics:
                    head, colon, _ = finding.message.partition(": ")
                    assert not colon or head == name or f"relax.{head}" not in OP_RECORDS
                    assert not OTHER_WORDS.search(str(error)), str(error)


def _error_of(func: Any) -> HeddleError | None:
    """What inference finds. Raises: InternalError where it fails."""
    try:
        InferType()(heddle.IRModule.from_expr(func))
    except InternalError:
        raise
    except HeddleError as error:
        return error
    return None


RUNS: list[tuple[str, list[Any]]] = [
    ("Tensor[(2, 3), float32]", [np.zeros(2, "float32")]),
    ("Tensor[(2, ?), float32]", [np.zeros((2, 3), "int32")]),
    ("(float32, int32)", [np.zeros(2, "float32")]),
]


@pytest.mark.parametrize(("ty", "args"), RUNS)
def test_arguments_that_do_not_fit(ty: str, args: list[Any]) -> None:
    mod = program(f"def @main(%x: {ty}) {{ %x }}")
    vm = relay.vm.VirtualMachine(relay.vm.compile(mod, "llvm"), heddle.cpu())
    with pytest.raises(HeddleError) as caught:
        vm.run(*args)
    assert f"parameter 'x' of type {ty}" in str(caught.value)
    assert not OTHER_WORDS.search(str(caught.value))


def test_sizes_that_do_not_fit_when_the_program_runs() -> None:
    for body in ("%x + %y", "concatenate((%x, %y), axis=1)", "nn.dense(%x, %y)"):
        mod = program(f"def @main(%x: Tensor[(?, ?), float32], %y: Tensor[(?, ?), float32]) {{ {body} }}")
        vm = relay.vm.VirtualMachine(relay.vm.compile(mod, "llvm"), heddle.cpu())
        with pytest.raises(HeddleError, match="sizes that do not fit") as caught:
            vm.run(np.zeros((2, 3), "float32"), np.zeros((4, 5), "float32"))
        assert not OTHER_WORDS.search(str(caught.value))


def _if_scope_alone() -> None:
    builder = relay.ScopeBuilder()
    with builder.if_scope(relay.const(True)):
        builder.ret(relay.const(1))
    builder.ret(relay.const(2))


HELPED: list[tuple[Callable[[], Any], str, str]] = [
    (lambda: program("def @main(%x: Tensor[(2), float32]) { if (%x) { 1 } else { 2 } }"), "Q0301", "reduce"),
    (lambda: program("def @main(%x: float32) { %x(%x) }"), "Q0303", "are called"),
    (lambda: program("def @main(%x: float32) { @main(%x, %x) }"), "Q0302", "its type is fn"),
    (lambda: program("def @main() { free_var %z: float32; %z }"), "Q0307", "make it a parameter"),
    (lambda: program("def @main(%x: float32) { %x.0 }"), "Q0310", "take gives an element"),
    (lambda: program("def @main(%x: (float32,)) { %x.1 }"), "Q0310", "counted from 0"),
    (lambda: program("def @main(%x: Tensor[(2), float32]) { sum(%x, axis=[4]) }"), "R0205", "sum(data, axis"),
    (lambda: relay.var("x", "float32", shape=(2,)), "Q0101", "TensorType"),
    (_if_scope_alone, "Q0103", "else_scope"),
    (
        lambda: relay.create_executor("debug", program("def @main(%x: int32) { %x }")).evaluate()(),
        "Q0402",
        "x",
    ),
    (
        lambda: relay.vm.compile(program("def @main[A](%x: A) -> A { %x }")),
        "L0303",
        "call it from a function",
    ),
]


@pytest.mark.parametrize(("run", "code", "said"), HELPED)
def test_what_to_do_is_said(run: Callable[[], Any], code: str, said: str) -> None:
    with pytest.raises(HeddleError, match=code) as caught:
        run()
    assert any(said in (finding.help or "") for finding in caught.value.diagnostics)


def test_attributes_that_a_call_lacks_have_defaults() -> None:
    """A call that is built without them is the one that its text is."""
    x = relay.var("x", shape=(2, 3))
    for call in (relay.Call(Op("nn.softmax"), [x]), relay.Call(Op("sum"), [x], {"axis": (1,)})):
        made = InferType()(heddle.IRModule.from_expr(relay.Function([x], call)))
        assert set(made["main"].body.attrs) >= {"axis"}
        assert InferType()(made) is made
        again = relay.parse(made.astext())
        heddle.ir.assert_structural_equal(again, made)
        relay.vm.compile(made)
    with pytest.raises(HeddleError, match="I0403"):
        InferType()(heddle.IRModule.from_expr(relay.Function([x], relay.Call(Op("cast"), [x]))))
    with pytest.raises(HeddleError, match="scale"):
        InferType()(heddle.IRModule.from_expr(relay.Function([x], relay.Call(Op("exp"), [x], {"scale": 1}))))


def test_an_error_that_is_kept_leaves_the_places_of_later_programs_alone() -> None:
    """Somebody who keeps an error keeps the frames that it went through."""
    endless = """type N[A] { Z(A), S(N[(A, A)]) }
def @d[A](%n: N[A]) -> int32 { match (%n) { Z(_) => 0, S(%m) => 1 + @d(%m) } }
def @main(%x: int32) { @d(S(Z((%x, %x)))) }"""
    with pytest.raises(HeddleError, match="L0302") as kept:
        heddle.compile(program(endless))
    assert ambient_span() is None, kept
    good = program("def @main(%x: int32) { let %p = if (%x > 0) { (%x, 1f) } else { (0, 2f) }; %p.1 + 1f }")
    vm = heddle.relax.VirtualMachine(heddle.compile(good), heddle.cpu())
    with pytest.raises(HeddleError, match="parameter 'x'") as found:
        vm["main"](heddle.tensor(np.zeros(3, "float32")))
    assert "@d" not in str(found.value)
