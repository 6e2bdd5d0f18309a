"""Data types, matches and references on the machine: values in and out, depth, errors, and no leaks."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.driver.relay_vm import compile_functions
from heddle.ir.instrument import verify_module
from heddle.ir.module import IRModule
from heddle.runtime import allocator_for
from heddle.runtime.data import ConstructorValue, RefValue
from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import HeddleError, Trap
from heddle.support.limits import limits
from heddle.vm.relax import VirtualMachine
from tests.unit.relay.programs import floats, listed, plain, program

MODES = pytest.mark.parametrize("mode", ["bytecode", "compiled", "relay"])
"""The two modes of Relax's machine, and Relay's own machine."""


def with_prelude(text: str) -> IRModule:
    mod = IRModule()
    mod.import_from_std("prelude.rly")
    return program(text, mod)


def executable_of(mod: IRModule, mode: str, names: Sequence[str] = ("main",)) -> Any:
    if mode == "relay":
        return compile_functions(mod, names)
    return heddle.compile(relay.to_relax(mod, names), exec_mode=mode)


def machine(mod: IRModule, mode: str, names: Sequence[str] = ("main",)) -> Any:
    """Of Relax or of Relay, as the executable needs."""
    return VirtualMachine(executable_of(mod, mode, names), heddle.cpu())


def number(value: int) -> Tensor:
    return heddle.tensor(np.array(value, "int32"))


def long_list(tags: tuple[int, int], items: Any) -> ConstructorValue:
    made = ConstructorValue(tags[1], ())
    for item in items:
        made = ConstructorValue(tags[0], (item, made))
    return made


def tags_of(mod: IRModule, name: str = "List") -> tuple[int, ...]:
    return tuple(made.tag for made in mod.get_type(name)[1:])


RANGE = """
def @range(%n: int32, %l: List[int32]) -> List[int32] {
  if (%n == 0) { %l } else { @range(%n - 1, Cons(%n, %l)) }
}
"""

# ---- values in and out


@MODES
def test_values_of_data_types_come_out_and_go_in(mode: str) -> None:
    mod = with_prelude(
        f"{RANGE} def @main(%n: int32) {{ @range(%n, Nil) }} def @total(%l: List[int32]) {{ @sum(%l) }}"
    )
    vm = machine(mod, mode, ["main", "total"])
    made = vm["main"](number(5))
    cons, nil = tags_of(mod)
    assert made.tag == cons and len(made.fields) == 2 and made.constructor is None
    assert listed(made) == [1, 2, 3, 4, 5]
    while len(made):
        made = made[1]
    assert made.tag == nil and made.fields == ()
    assert plain(vm["total"](vm["main"](number(100)))) == 5050
    assert plain(vm["total"](long_list((cons, nil), [np.array(k, "int32") for k in range(8)]))) == 28
    assert plain(vm["total"](ConstructorValue(nil, ()))) == 0


@pytest.mark.parametrize("kind", ["debug", "vm"])
def test_executors_name_constructors_and_take_their_values(kind: str) -> None:
    mod = with_prelude("""
def @main(%x: float32) { Cons((%x, Some(%x)), Nil) }
def @first(%l: List[(float32, Option[float32])]) -> float32 {
  match? (%l) { Cons((_, Some(%x)), _) => %x }
}""")
    executor = relay.create_executor(kind, mod)
    made = executor.evaluate()(2.5)
    assert made.constructor is mod.get_type("List")[1] and made.fields[0][1].constructor.name_hint == "Some"
    assert plain(executor.evaluate(mod.get_global_var("first"))(made)) == 2.5


@MODES
def test_what_is_shared_stays_shared(mode: str) -> None:
    """A tree whose two branches are one value, 60 deep, has 2**60 leaves and 61 objects."""
    mod = program("""
type Tree { Leaf(int32), Node((Tree, Tree)) }
def @grow(%n: int32, %t: Tree) -> Tree { if (%n == 0) { %t } else { @grow(%n - 1, Node((%t, %t))) } }
def @main(%n: int32) { @grow(%n, Leaf(7)) }
def @left(%t: Tree) -> int32 { match (%t) { Leaf(%x) => %x, Node((%l, _)) => @left(%l) } }""")
    vm = machine(mod, mode, ["main", "left"])
    tree = vm["main"](number(60))
    assert tree.fields[0][0] is tree.fields[0][1]
    assert plain(vm["left"](tree)) == 7


@MODES
def test_a_closure_that_was_given_out_keeps_its_reference(mode: str) -> None:
    mod = program("""
def @main(%x: int32) {
  let %r = ref(%x);
  (fn () -> int32 { ref_write(%r, ref_read(%r) + 1); ref_read(%r) }, %r)
}""")
    vm = machine(mod, mode)
    count, ref = vm["main"](number(5))
    assert [int(vm.invoke_closure(count).numpy()) for _ in range(3)] == [6, 7, 8]
    assert isinstance(ref, RefValue) and ref.value.numpy() == 8
    ref.value = number(20)
    assert vm.invoke_closure(count).numpy() == 21
    executor = relay.create_executor("vm" if mode == "compiled" else "debug", mod)
    again, _ = executor.evaluate()(1)
    assert [int(again().numpy()) for _ in range(2)] == [2, 3]


@MODES
def test_references_of_python(mode: str) -> None:
    mod = program("""
def @main(%r: ref(float32), %x: float32) { ref_write(%r, ref_read(%r) + %x); ref_read(%r) }""")
    vm, mine = machine(mod, mode), RefValue(np.array(1.5, "float32"))
    x = heddle.tensor(np.array(2, "float32"))
    assert vm["main"](mine, x).numpy() == 3.5
    assert mine.value.numpy() == 3.5
    mine.value = np.array(10, "float32")
    assert vm["main"](mine, x).numpy() == 12
    itself = RefValue()
    itself.value = (itself,)
    with pytest.raises(HeddleError):
        vm["main"](itself, x)


@MODES
def test_tuples_in_data_and_references(mode: str) -> None:
    mod = with_prelude("""
def @main(%x: float32, %y: float32) {
  let %r = ref((%x, (%y,)));
  let %nothing = ref(());
  let %before = ref_read(%r);
  ref_write(%r, (%y, (%x,)));
  ref_write(%nothing, ());
  (%before, ref_read(%r), ref_read(%nothing), Some((%x, (), (%y, %y))), Cons((), Nil))
}""")
    before, after, nothing, some, units = machine(mod, mode)["main"](
        *(heddle.tensor(np.array(value, "float32")) for value in (1.5, 2.5))
    )
    assert plain(before) == (1.5, (2.5,)) and plain(after) == (2.5, (1.5,)) and plain(nothing) == ()
    assert plain(some.fields[0]) == (1.5, (), (2.5, 2.5)) and listed(units) == [()]


def test_a_reference_belongs_to_one_machine_of_compiled_code() -> None:
    mod = program("def @main(%r: ref(float32)) { ref_read(%r) }")
    one, other = machine(mod, "compiled"), machine(mod, "compiled")
    mine = RefValue(np.zeros((), "float32"))
    assert one["main"](mine).numpy() == 0
    with pytest.raises(Trap, match=r"V0402.*expected a reference"):
        other["main"](mine)
    assert one["main"](mine).numpy() == 0


def test_references_are_dropped_by_any_thread() -> None:
    mod = program("def @main(%x: float32) { ref(%x) }")
    vm = machine(mod, "compiled")
    x = heddle.tensor(np.array(2, "float32"))
    made = [vm["main"](x) for _ in range(50)]

    def drop() -> None:
        while made:
            made.pop()

    workers = [threading.Thread(target=drop) for _ in range(2)]
    for worker in workers:
        worker.start()
    for _ in range(200):
        assert vm["main"](x).value.numpy() == 2
    for worker in workers:
        worker.join()


def test_a_reference_is_not_looked_at_while_another_thread_runs_its_machine() -> None:
    from heddle.script import ir as I
    from heddle.script import relax as R

    seen: list[Any] = []

    @heddle.register_global_func("test.relay.look", override=True)
    def look(ref: Any) -> Any:
        def other() -> None:
            try:
                seen.append(ref.value)
            except Trap as error:
                seen.append(error.code)

        worker = threading.Thread(target=other)
        worker.start()
        worker.join()
        seen.append(ref.value.numpy().item())  # the machine's own thread may
        ref.value = number(8)
        return ref

    @I.ir_module
    class Program:
        @R.function(pure=False)
        def main(n: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            ref = R.make_ref(n)
            same = R.call_packed("test.relay.look", ref, ty_args=[R.Object()])
            return R.read_ref(same, ty_args=[R.Tensor((), "int32")])

    vm = VirtualMachine(heddle.compile(Program, exec_mode="compiled"), heddle.cpu())
    assert vm["main"](number(3)).numpy() == 8
    assert seen == ["U0405", 3]


# ---- depth


@MODES
def test_long_lists_and_deep_calls(mode: str) -> None:
    """100,000 calls that are not in the last place; a list as long is made, read, given out and dropped."""
    size = 100_000 if mode == "compiled" else 20_000
    mod = with_prelude(
        f"{RANGE} def @main(%n: int32) {{ let %l = @range(%n, Nil); (@length(%l), @rev(%l), @sum(%l)) }}"
    )
    length, reverse, total = machine(mod, mode)["main"](number(size))
    assert length.numpy() == size and total.numpy() == np.int32(size * (size + 1) // 2 % 2**32)
    assert listed(reverse)[:3] == [size, size - 1, size - 2]


def test_a_million_steps_in_the_last_place() -> None:
    mod = with_prelude(f"{RANGE} def @main(%n: int32) {{ @sum(@range(%n, Nil)) * 0 + %n }}")
    with limits(stack_bytes=1):
        vm = machine(mod, "compiled")
    assert vm["main"](number(1_000_000)).numpy() == 1_000_000


@MODES
def test_the_limit_of_calls_is_an_error(mode: str) -> None:
    mod = program("def @main(%n: int32) -> int32 { if (%n == 0) { 0 } else { @main(%n - 1) + 1 } }")
    executable = executable_of(mod, mode)
    with limits(frames=500, stack_bytes=1):
        vm = VirtualMachine(executable, heddle.cpu())
    with pytest.raises(Trap, match="V0305") as caught:
        vm["main"](number(100_000))
    assert caught.value.diagnostics[0].span is not None
    assert vm["main"](number(50)).numpy() == 50


def test_python_is_called_from_deep_inside() -> None:
    """Functions of the host run on the thread's own stack, and call the machine again from there."""
    calls = []

    @heddle.register_global_func("test.relay.deep", override=True)
    def deep(x: Any) -> Any:
        calls.append(int(x.numpy()))
        return vm["down"](number(3_000)) if len(calls) == 1 else x

    from heddle.script import ir as I
    from heddle.script import relax as R

    @I.ir_module
    class Program:
        @R.function(pure=False)
        def down(n: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            cls = Program
            more = R.greater(n, R.const(0, "int32"))
            if more:
                less = R.subtract(n, R.const(1, "int32"))
                inner = cls.down(less)
                found = R.add(inner, R.const(1, "int32"))
            else:
                found = R.call_packed("test.relay.deep", n, ty_args=[R.Tensor((), "int32")])
            return found

    vm = VirtualMachine(heddle.compile(Program, exec_mode="compiled"), heddle.cpu())
    assert vm["down"](number(20_000)).numpy() == 23_000
    assert calls == [0, 0]


# ---- errors


@MODES
def test_no_clause_fits(mode: str) -> None:
    mod = with_prelude("def @main(%n: int32) -> int32 { match? (Cons(%n, Nil)) { Nil => 1 } }")
    with pytest.raises(Trap, match=r"V0411.*no clause of the match fits") as caught:
        machine(mod, mode)["main"](number(1))
    assert caught.value.diagnostics[0].span is not None


@MODES
@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda tags: number(1), "V0402"),
        (lambda tags: (number(1),), "V0402"),
        (lambda tags: None, "V0402"),
        (lambda tags: ConstructorValue(tags[0] ^ 1 << 20, (number(1), number(1))), "V0411"),
        (lambda tags: ConstructorValue(tags[0], (number(1),)), "V0404"),
        (lambda tags: ConstructorValue(tags[0], (number(1), number(2))), "V0402"),
    ],
)
def test_arguments_that_are_no_list(mode: str, make: Any, code: str) -> None:
    mod = with_prelude("def @main(%l: List[int32]) { @length(%l) }")
    vm, given = machine(mod, mode), make(tags_of(mod))
    if mode == "relay" and isinstance(given, tuple):
        code = "V0411"  # there, a tuple is a value with the tag 0, which no clause fits
    with pytest.raises(Trap, match=code):
        vm["main"](given)
    assert vm["main"](ConstructorValue(tags_of(mod)[1], ())).numpy() == 0


@pytest.mark.parametrize(
    "text",
    [
        "def @main(%x: float32) { ref(fn () -> float32 { %x }) }",
        "type T { T(ref(T)), E } def @main() { ref(E) }",
        "type T[A] { T(A) } def @main(%x: float32) { ref((T(ref(T(fn () -> float32 { %x }))), 1)) }",
        "type T[A] { T(A, T[(A, A)]), E } def @f[A](%x: A) -> T[A] { E } "
        "def @main(%x: float32) { ref(@f(%x)) }",
    ],
)
def test_references_that_may_lead_to_themselves_are_refused(text: str) -> None:
    with pytest.raises(HeddleError, match="L0304") as caught:
        relay.to_relax(program(text))
    assert caught.value.diagnostics[0].span is not None


def test_references_to_references_and_lists_of_them_are_not_refused() -> None:
    mod = with_prelude("def @main(%x: float32) { ref((ref(%x), Cons(ref(%x), Nil))) }")
    normal = relay.to_relax(mod)
    assert verify_module(normal) == [] and not normal["main"].is_pure
    assert relay.to_relax(with_prelude("def @main(%x: float32) { Cons(%x, Nil) }"))["main"].is_pure


def test_many_clauses() -> None:
    names = [f"C{k}" for k in range(60)]
    clauses = ", ".join(f"{name}(%x) => %x + {k}" for k, name in enumerate(names))
    mod = program(
        f"type T {{ {', '.join(f'{name}(int32)' for name in names)} }} "
        f"def @pick(%t: T) -> int32 {{ match (%t) {{ {clauses} }} }} "
        "def @main(%n: int32) { (@pick(C0(%n)), @pick(C50(%n)), @pick(C59(%n))) }"
    )
    assert plain(machine(mod, "compiled")["main"](number(5))) == (5, 55, 64)


@pytest.mark.parametrize("kind", ["match", "if"])
def test_branches_that_are_nested_too_deeply_are_refused(kind: str) -> None:
    names = [f"C{k}" for k in range(100)]
    text = "%n"
    for k in range(100):
        text = f"if (%n == {k}) {{ %n * {k} }} else {{ {text} }}"
    if kind == "match":
        clauses = ", ".join(f"{name} => {k}" for k, name in enumerate(names))
        text = f"match (if (%n == 0) {{ C0 }} else {{ C1 }}) {{ {clauses} }}"
    mod = program(f"type T {{ {', '.join(names)} }} def @main(%n: int32) -> int32 {{ {text} }}")
    with pytest.raises(HeddleError, match="L0305"):
        relay.to_relax(mod)


# ---- memory


@MODES
def test_nothing_is_left_behind(mode: str) -> None:
    mod = with_prelude("""
def @main(%x: Tensor[(1000), float32], %n: int32) {
  let %r = ref(Nil);
  let %loop = fn (%i: int32) -> () {
    if (%i == 0) { () } else { ref_write(%r, Cons(%x * 2f, ref_read(%r))); %loop(%i - 1) }
  };
  %loop(%n);
  let %l = ref_read(%r);
  (%l, @map(fn (%y: Tensor[(1000), float32]) -> Tensor[(1000), float32] { %y + %x }, %l), %r)
}""")
    vm, pool = machine(mod, mode), allocator_for(heddle.cpu())
    x = heddle.tensor(floats(1000))
    vm["main"](x, number(1))
    gc.collect()
    before = pool.books.bytes_in_use
    for _ in range(3):
        found = vm["main"](x, number(20))
        assert len(listed(found[0])) == len(listed(found[1])) == 20
        np.testing.assert_allclose(listed(found[1])[7], x.numpy() * 3, rtol=1e-6)
        del found
        gc.collect()
        assert pool.books.bytes_in_use == before
    with pytest.raises(HeddleError):
        vm["main"](heddle.tensor(floats(999)), number(20))
    gc.collect()
    assert pool.books.bytes_in_use == before


def test_saved_and_run_in_a_fresh_process(tmp_path: Any) -> None:
    mod = with_prelude(
        f"{RANGE} def @main(%n: int32) {{ @map(fn (%x: int32) -> int32 {{ %x * %n }}, @range(%n, Nil)) }}"
    )
    for mode in ("bytecode", "compiled"):
        heddle.compile(mod, exec_mode=mode).export_library(str(tmp_path / f"{mode}.so"))
        code = (
            "import numpy as np, heddle\n"
            "from heddle.runtime.module import load_module\n"
            "from heddle.vm.relax import VirtualMachine\n"
            f"vm = VirtualMachine(load_module({str(tmp_path / f'{mode}.so')!r}), heddle.cpu())\n"
            "found = vm['main'](heddle.tensor(np.array(4, 'int32')))\n"
            "while len(found): print(found[0].numpy(), end=' '); found = found[1]\n"
        )
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert ran.stdout == "4 8 12 16 ", ran.stderr
