"""Small Relay programs with data types, closures and references: the interpreter and all machines agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.runtime.data import ConstructorValue
from heddle.vm.relax import VirtualMachine
from tests.unit.relay.programs import floats
from tests.unit.relay.test_machine_data import with_prelude

PROGRAMS: dict[str, tuple[str, Any]] = {
    "closure captures field of unknown size": (
        """
def @main(%x: Tensor[(?), float32], %n: int32) {
  let %l = Cons(%x, Cons(tanh(%x), Nil));
  match (%l) { Cons(%a, _) => @map(fn (%y: Tensor[(?), float32]) -> Tensor[(?), float32] {
  concatenate((%y, %a), axis=0) }, %l), Nil => Nil }
}""",
        lambda: (floats(3), np.int32(2)),
    ),
    "option of function": (
        """
def @pick(%b: bool) -> Option[fn(float32) -> float32] { if (%b) {
  Some(fn (%x: float32) -> float32 { %x * 2f }) } else { None } }
def @main(%b: bool, %x: float32) { match (@pick(%b)) { Some(%f) => %f(%x), None => %x } }""",
        lambda: (np.bool_(True), np.float32(3)),
    ),
    "match in match in let": (
        """
def @main(%x: float32) {
  let %a = match (Some(%x)) { Some(%y) => match (Cons(%y, Nil)) {
  Cons(%z, Nil) => %z + 1f, _ => 0f }, None => 2f };
  let %b = match (Cons(%a, Nil)) { Nil => 0f, Cons(%q, %r) => { let %s = match (%r) {
  Nil => %q, _ => 9f }; %s * %a } };
  %b + %a
}""",
        lambda: (np.float32(3),),
    ),
    "tuple result of match": (
        """
def @main(%x: Tensor[(?, 2), float32]) {
  let %t = match (Some(%x)) { Some(%y) => (%y, concatenate((%y, %y), axis=0)), None => (%x, %x) };
  concatenate((%t.0, %t.1), axis=0)
}""",
        lambda: (floats(3, 2),),
    ),
    "same variable used in several clauses; dead fields": (
        """
def @f(%l: List[(int32, float32)]) -> float32 { match (%l) { Cons((%i, %v), %r) => if (%i == 0) {
  %v } else { %v + @f(%r) }, Nil => 0f } }
def @main(%x: float32) { @f(Cons((1, %x), Cons((2, %x), Cons((0, %x), Cons((5, %x), Nil))))) }""",
        lambda: (np.float32(1.25),),
    ),
    "references as state of a generator": (
        """
def @counter(%start: int32) -> fn() -> int32 { let %r = ref(%start); fn () -> int32 {
  let %v = ref_read(%r); ref_write(%r, %v + 1); %v } }
def @main(%n: int32) { let %a = @counter(%n); let %b = @counter(%n * 10); let %x = %a();
  let %y = %b(); let %z = %a(); (%x, %y, %z, %a(), %b()) }""",
        lambda: (np.int32(3),),
    ),
    "reference updated in branch": (
        """
def @main(%b: bool, %x: Tensor[(?), float32]) { let %r = ref(%x); if (%b) {
  ref_write(%r, concatenate((%x, %x), axis=0)) } else { () }; (ref_read(%r), ref_read(%r) * 2f) }""",
        lambda: (np.bool_(True), floats(0)),
    ),
    "aliasing: value in a data type is not overwritten": (
        """
def @main(%x: Tensor[(64), float32]) {
  let %a = %x * 2f; let %d = Some(%a); let %b = %a + 1f; let %c = %b * 3f; let %e = %c - 2f;
  let %g = exp(%e * 0.01f);
  match (%d) { Some(%y) => (%y, %g), None => (%g, %g) } }""",
        lambda: (floats(64),),
    ),
    "views in data": (
        """
def @main(%x: Tensor[(4, 6), float32]) { let %a = %x * 2f; let %v = reshape(%a, newshape=[6, 4]);
  let %d = Cons(%v, Nil); let %b = exp(%a); let %c = %b + 1f;
  match? (%d) { Cons(%y, _) => (%y, %c) } }""",
        lambda: (floats(4, 6),),
    ),
    "unused failing match": (
        """
def @main(%x: float32) { let %u = 1f; match? (Some(%x)) { Some(%y) => %y } }""",
        lambda: (np.float32(1),),
    ),
    "deep polymorphism": (
        """
def @pair[A](%x: A) -> (A, A) { (%x, %x) }
def @main(%x: float32) { let %l = @map(@pair, Cons(%x, Nil)); match? (%l) {
  Cons(%p, _) => @pair(Some(%p.0)) } }""",
        lambda: (np.float32(1),),
    ),
    "constructor partially typed": (
        """
def @main(%x: float32) { let %f = if (%x > 0f) { Some } else {
  fn (%y: float32) -> Option[float32] { None } }; match (%f(%x)) { Some(%z) => %z, None => -1f } }""",
        lambda: (np.float32(1),),
    ),
}


def flat(value: Any) -> Any:
    """Arrays, tuples of them, and tags with their fields."""
    if isinstance(value, ConstructorValue):
        return value.tag, tuple(flat(item) for item in value.fields)
    return tuple(map(flat, value)) if isinstance(value, (tuple, list)) else value.numpy()


def assert_same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            assert_same(a, b)
        return
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert np.shape(found) == np.shape(wanted)


@pytest.mark.parametrize("how", ["bytecode", "compiled", "sanitize", "relay"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, how: str) -> None:
    text, make = PROGRAMS[name]
    mod, args = with_prelude(text), make()
    wanted = flat(relay.create_executor("debug", mod).evaluate()(*args))
    mode = "compiled" if how == "compiled" else "bytecode"
    if how == "relay":
        executable = relay.vm.compile(mod)
    else:
        executable = heddle.compile(mod, exec_mode=mode, sanitize=how == "sanitize")
    run = VirtualMachine(executable, heddle.cpu())["main"]
    for _ in range(2):
        assert_same(flat(run(*(heddle.tensor(np.asarray(arg)) for arg in args))), wanted)
