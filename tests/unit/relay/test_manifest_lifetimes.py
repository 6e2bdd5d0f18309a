"""Names end behind their last use, and not before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.ir.structural import assert_structural_equal
from heddle.relay.nodes import Let
from heddle.relay.placement import post_order
from heddle.relay.transform import ManifestLifetimes
from heddle.relay.transform.rewriting import is_call
from tests.unit.relay.programs import program, run

X = "%x: float32"
CASES = {
    "a chain": (
        "let %a = tanh(%x); let %b = exp(%a); %b + %x",
        "let %a = tanh(%x); let %b = exp(%a); let %k = memory.kill(%a); %b + %x",
    ),
    "two at once, in their order": (
        "let %a = tanh(%x); let %b = exp(%x); let %c = %b + %a; %c",
        "let %a = tanh(%x); let %b = exp(%x); let %c = %b + %a; "
        "let %k = memory.kill(%a); let %l = memory.kill(%b); %c",
    ),
    "a value that nobody uses": (
        "let %a = tanh(%x); %x",
        "let %a = tanh(%x); let %k = memory.kill(%a); %x",
    ),
    "behind a branch that uses it": (
        "let %a = tanh(%x); let %b = if (%x < 0f) { exp(%a) } else { %x }; %b",
        "let %a = tanh(%x); let %b = if (%x < 0f) { exp(%a) } else { %x }; let %k = memory.kill(%a); %b",
    ),
    "inside of a branch": (
        "if (%x < 0f) { let %a = exp(%x); let %b = %a + %x; %b } else { %x }",
        "if (%x < 0f) { let %a = exp(%x); let %b = %a + %x; let %k = memory.kill(%a); %b } else { %x }",
    ),
    "in the last place": ("let %a = tanh(%x); %a + %x", "let %a = tanh(%x); %a + %x"),
    "what a function holds": (
        "let %a = tanh(%x); let %f = fn (%v: float32) { %v + %a }; let %b = %f(%x); %b",
        "let %a = tanh(%x); let %f = fn (%v: float32) { %v + %a }; let %k = memory.kill(%a); "
        "let %b = %f(%x); %b",
    ),
    "shared graphs": (
        "%0 = exp(%x); let %a = tanh(%0); let %b = %a + %0; let %c = %b * %0; %c",
        "%0 = exp(%x); let %a = tanh(%0); let %b = %a + %0; let %k = memory.kill(%a); "
        "let %c = %b * %0; let %l = memory.kill(%b); %c",
    ),
    "references": (
        "let %r = ref(%x); let %u = ref_write(%r, 2f); let %v = ref_read(%r); %v",
        "let %r = ref(%x); let %u = ref_write(%r, 2f); let %k = memory.kill(%u); let %v = ref_read(%r); %v",
    ),
    "recursion": (
        "let %f = fn (%n: float32) -> float32 { if (%n < 0f) { %n } else { %f(%n - 1f) } }; %f(%x)",
        "let %f = fn (%n: float32) -> float32 { if (%n < 0f) { %n } else { %f(%n - 1f) } }; %f(%x)",
    ),
}


def _do(mod: Any) -> Any:
    return ManifestLifetimes().transform(mod, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CASES)
def test_names_end_behind_their_last_use(name: str) -> None:
    before, after = (program(f"def @main({X}) {{ {text} }}") for text in CASES[name])
    made = _do(before)
    assert_structural_equal(made, after)
    assert _do(made) is made
    assert_structural_equal(relay.parse(made.astext()), made)
    for value in (-0.5, 1.5):
        wanted = run(before, np.float32(value))
        np.testing.assert_array_equal(run(made, np.float32(value)), wanted)
        vm = heddle.relax.VirtualMachine(heddle.compile(made), heddle.cpu())
        np.testing.assert_allclose(vm["main"](heddle.tensor(np.float32(value))).numpy(), wanted, rtol=1e-5)


def test_work_grows_with_the_chain() -> None:
    """Each of 3,000 lets is walked once; all but the last end."""
    x = relay.var("x", shape=())
    body: Any = relay.var("y0")
    values = [x]
    lines = []
    for k in range(3_000):
        name = relay.var(f"v{k}", shape=())
        lines.append((name, relay.tanh(values[-1])))
        values.append(name)
    body = values[-1]
    for name, value in reversed(lines):
        body = Let(name, value, body)
    made = _do(relay.transform.InferType()(heddle.IRModule.from_expr(relay.Function([x], body))))
    assert sum(is_call(node, "memory.kill") for node in post_order(made["main"])) == 2_999


def test_what_does_nothing_gives_its_value() -> None:
    mod = program(
        "def @main(%x: (float32, int32)) { (memory.kill(%x), debug(%x), annotation.with_funcid(%x.0)) }"
    )
    found = run(mod, (np.float32(2), np.int32(3)))
    assert found[0] == () and (float(found[1][0]), int(found[1][1]), float(found[2])) == (2.0, 3, 2.0)
