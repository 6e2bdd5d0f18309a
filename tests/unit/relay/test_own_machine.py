"""Relay's own machine: the corpus, programs that are saved and loaded, depth, and its interface."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay, runtime
from heddle.driver.relay_vm import compile_functions
from heddle.runtime import Tensor, allocator_for, tensor
from heddle.runtime.data import ConstructorValue
from heddle.support.diagnostics import HeddleError, Trap
from heddle.support.limits import limits
from heddle.vm.insight.debugger import Debugger
from heddle.vm.relay import Executable, VirtualMachine
from heddle.vm.relay.isa import INVOKE_PACKED, MOVE, RELAY
from tests.unit.relay.corpus import ROWS, parsed, same
from tests.unit.relay.programs import floats, plain, program, run
from tests.unit.relay.test_machine_data import RANGE, number, with_prelude


def machine(mod: Any, *names: str) -> VirtualMachine:
    return VirtualMachine(compile_functions(mod, names or ("main",)), heddle.cpu())


@pytest.mark.parametrize("name", ROWS)
def test_the_interpreter_and_both_machines_agree(name: str) -> None:
    mod = parsed(name)
    make, reference = ROWS[name]
    args = make()
    same(plain(relay.create_executor("vm", mod).evaluate()(*args)), reference(*args))
    relax = runtime.vm.VirtualMachine(heddle.compile(mod, exec_mode="bytecode"), heddle.cpu())["main"]
    own = VirtualMachine(relay.vm.compile(mod), heddle.cpu())
    params = mod["main"].params
    given = [
        tensor(np.asarray(arg, str(p.ty.dtype)))
        for arg, p in zip(args, params, strict=True)
        if hasattr(p.ty, "dtype")
    ]
    if len(given) == len(params):
        same(flat(own["main"](*given)), flat(relax(*given)))
        seen = own.record("main", *given)
        assert seen.error is None
        same(flat(seen.result), flat(relax(*given)))


def flat(value: Any) -> Any:
    """Arrays, tuples of them, and tags with their fields; what is given out last first in a list."""
    if isinstance(value, ConstructorValue):
        return (np.array(value.tag), *map(flat, value.fields))
    return tuple(map(flat, value)) if isinstance(value, (tuple, list)) else value.numpy()


# ---- saved, loaded in a fresh process, run

SAVED: dict[str, tuple[str, tuple[Any, ...], Any]] = {
    "list fold": (
        f"{RANGE} def @main(%n: int32) {{ "
        "@foldl(fn (%a: int32, %b: int32) { %a * 2 + %b }, 0, @range(%n, Nil)) }",
        (np.int32(10),),
        sum(k * 2 ** (10 - k) for k in range(1, 11)),
    ),
    "tree recursion": (
        "type T { L(int32), N(T, T) } "
        "def @grow(%n: int32) -> T { if (%n == 0) { L(1) } else { N(@grow(%n - 1), @grow(%n - 1)) } } "
        "def @add(%t: T) -> int32 { match (%t) { L(%x) => %x, N(%a, %b) => @add(%a) + @add(%b) } } "
        "def @main(%n: int32) { @add(@grow(%n)) }",
        (np.int32(6),),
        64,
    ),
    "mutual recursion": (
        "def @even(%n: int32) -> bool { if (%n == 0) { True } else { @odd(%n - 1) } } "
        "def @odd(%n: int32) -> bool { if (%n == 0) { False } else { @even(%n - 1) } } "
        "def @main(%n: int32) { (@even(%n), @odd(%n)) }",
        (np.int32(7),),
        (False, True),
    ),
    "higher order": (
        "def @twice[A](%f: fn(A) -> A, %x: A) -> A { %f(%f(%x)) } "
        "def @main(%x: float32) { "
        "@twice(fn (%y: float32) { @twice(fn (%z: float32) { %z + %x }, %y) }, %x) }",
        (np.float32(1.5),),
        7.5,
    ),
    "closure in a data type": (
        "def @main(%x: float32) { let %l = Cons(fn (%y: float32) { %y * %x }, Nil); "
        "match? (%l) { Cons(%f, _) => %f(%f(%x)) } }",
        (np.float32(3),),
        27,
    ),
    "sizes that are 0": (
        "def @main(%x: Tensor[(?, 2), float32]) { let %y = concatenate((%x, %x), axis=0); "
        "(sum(%y, axis=[0]), %y) }",
        (np.zeros((0, 2), "float32"),),
        (np.zeros(2), np.zeros((0, 2))),
    ),
    "while loop": (
        "def @while(%i: int32, %x: Tensor[(?), float32]) -> Tensor[(?), float32] { "
        "if (%i < 4) { @while(%i + 1, concatenate((%x, %x), axis=0) * 0.5f) } else { %x } } "
        "def @main(%x: Tensor[(?), float32]) { @while(0, %x) }",
        (np.ones(3, "float32"),),
        np.full(48, 1 / 16),
    ),
    "references": (
        "def @main(%n: int32) { let %r = ref(%n); ref_write(%r, ref_read(%r) * 5); "
        "let %s = ref_read(%r); ref_write(%r, 1); (%s, ref_read(%r)) }",
        (np.int32(4),),
        (20, 1),
    ),
    "tensor arrays": (
        "def @main(%x: Tensor[(2), float32]) { let %a = @update(Cons(%x, Cons(%x, Nil)), 1, tanh(%x)); "
        "(@nth(%a, 1), @nth(%a, 0)) }",
        (np.array([0.5, -1], "float32"),),
        (np.tanh(np.array([0.5, -1], "float32")), np.array([0.5, -1])),
    ),
}
LOAD = """
import json, sys, numpy as np, heddle
from heddle.runtime import load_module
from heddle.runtime.vm import Executable, VirtualMachine
folder, result = sys.argv[1], {}
def plain(x):
    return [*map(plain, x)] if isinstance(x, tuple) else {"shape": list(x.shape), "data": x.numpy().tolist()}
for name in json.loads(sys.argv[2]):
    args = [heddle.tensor(array) for array in np.load(f"{folder}/{name}.npz").values()]
    code = open(f"{folder}/{name}.ro", "rb").read()
    apart = Executable.load_exec(code, load_module(f"{folder}/{name}.lib"))
    for made in (apart, load_module(f"{folder}/{name}.heddle")):
        result.setdefault(name, []).append(plain(VirtualMachine(made, heddle.cpu())["main"](*args)))
print(json.dumps(result))
"""


def test_programs_are_saved_and_run_in_a_fresh_process(tmp_path: Path) -> None:
    for name, (text, args, _) in SAVED.items():
        made = relay.vm.compile(with_prelude(text))
        code, lib = made.save()
        assert lib is not None
        (tmp_path / f"{name}.ro").write_bytes(code)
        lib.export_library(tmp_path / f"{name}.lib")
        made.export_library(tmp_path / f"{name}.heddle")
        np.savez(tmp_path / f"{name}.npz", *args)
    command = [sys.executable, "-c", LOAD, str(tmp_path), json.dumps([*SAVED])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name, found in json.loads(done.stdout).items():
        text, args, wanted = SAVED[name]
        by_interpreter = run(with_prelude(text), *args)
        for value in found:
            same(stored(value), wanted)
            same(stored(value), by_interpreter)


def stored(value: Any) -> Any:
    """A result that was written as JSON."""
    if isinstance(value, list):
        return tuple(map(stored, value))
    return np.array(value["data"]).reshape(value["shape"])


# ---- depth and memory


def test_a_loop_of_calls_in_the_last_place_takes_no_memory() -> None:
    """By functions that call each other; the limit of calls inside one another is 1. The same loop of
    1,000,000 turns was run once by hand: it takes half a minute."""
    mod = program("""
def @even(%n: int32, %x: int32) -> int32 { if (%n == 0) { %x } else { @odd(%n - 1, %x + 2) } }
def @odd(%n: int32, %x: int32) -> int32 { if (%n == 0) { 0 - %x } else { @even(%n - 1, %x - 1) } }
def @main(%n: int32) { @even(%n, 0) }""")
    with limits(frames=1):
        vm = machine(mod)
    assert vm["main"](number(2000)).numpy() == 1000
    pool = allocator_for(heddle.cpu())
    gc.collect()  # what earlier tests left would be given back meanwhile
    in_use = pool.books.bytes_in_use
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        assert vm["main"](number(10_001)).numpy() == -5002
        grown = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert grown < 50_000 and pool.books.bytes_in_use == in_use


def test_calls_of_closures_in_the_last_place_take_no_room() -> None:
    """A loop in continuation-passing style: as many continuations call each other as there are turns."""
    mod = program("""
def @loop(%n: int32, %k: fn(int32) -> int32) -> int32 {
  if (%n == 0) { %k(0) } else { @loop(%n - 1, fn (%x: int32) -> int32 { %k(%x + %n) }) }
}
def @main(%n: int32) { @loop(%n, fn (%x: int32) -> int32 { %x * 2 }) }""")
    with limits(frames=2):
        vm = machine(mod)
    n = 3000
    assert vm["main"](number(n)).numpy() == n * (n + 1)
    seen = machine(mod).record("main", number(50))  # recordings keep callers
    assert seen.result.numpy() == 50 * 51


def test_deep_recursion_needs_no_stack_of_pythons_and_has_a_limit() -> None:
    mod = program("def @main(%n: int32) -> int32 { if (%n == 0) { 0 } else { @main(%n - 1) + 1 } }")
    executable = relay.vm.compile(mod)
    old = sys.getrecursionlimit()
    vm = VirtualMachine(executable, heddle.cpu())
    sys.setrecursionlimit(300)
    try:
        assert vm["main"](number(20_000)).numpy() == 20_000
    finally:
        sys.setrecursionlimit(old)
    with limits(frames=100):
        vm = VirtualMachine(executable, heddle.cpu())
    with pytest.raises(Trap, match=r"V0305.*at most 100 frames"):
        vm["main"](number(101))
    assert vm["main"](number(100)).numpy() == 100


# ---- what code is made


def test_matches_are_tags_and_branches_and_fail_with_fatal() -> None:
    mod = program(
        "type T { A(float32), B(float32, float32) } "
        "def @main(%t: T) { match (%t) { A(%x) => %x, B(%x, %y) => %x + %y } }"
    )
    made = relay.vm.compile(mod)
    names = [instruction.spec.mnemonic for instruction in instructions(made)]
    assert names.count("get_tag") == 2 and "fatal" in names and "get_field" in names
    assert not any("has_tag" in name or "fatal" in name for name in made.primitive_ops)


def instructions(made: Executable) -> list[Any]:
    return [made.program.instruction(index) for index in range(len(made.program.offsets))]


def test_kernels_write_their_last_arguments() -> None:
    mod = program("""
def @main(%x: Tensor[(?, 4), float32]) {
  let %y = split(%x, indices_or_sections=2, axis=1);
  (%y.0, exp(%y.1))
}""")
    made = relay.vm.compile(mod)
    kernels = [step for step in instructions(made) if step.spec is INVOKE_PACKED and step.value("outputs")]
    assert kernels and all(len(step.value("outputs")) >= 1 for step in kernels)
    x = floats(3, 4)
    first, second = VirtualMachine(made, heddle.cpu())["main"](tensor(x))
    np.testing.assert_allclose(first.numpy(), x[:, :2])
    np.testing.assert_allclose(second.numpy(), np.exp(x[:, 2:]), rtol=1e-5)


def test_profiles_and_places_are_those_of_the_kernels() -> None:
    mod = relay.parse(
        """#[version = "0.0.5"]
def @main(%x: Tensor[(?, 8), float32], %w: Tensor[(4, 8), float32]) {
  nn.dense(%x, %w, units=4)
}""",
        "net.relay",
    )
    vm = runtime.profiler_vm.VirtualMachineProfiler(relay.vm.compile(mod), heddle.cpu())
    report = vm.profile(floats(3, 8), w=floats(4, 8))
    flops = [row for row in report.calls if row.flops]
    assert sum(row.flops for row in flops) == 2 * 3 * 8 * 4
    assert any("net.relay:3" in place for row in flops for place in row.sources)
    with pytest.raises(HeddleError, match=r"V0401") as caught:
        vm.run(floats(3, 8), floats(4, 7))
    assert "net.relay:2" in str(caught.value) and "instruction" in str(caught.value)
    assert RELAY.by_opcode[0] is MOVE


def test_instruments_and_debuggers_see_every_call() -> None:
    mod = program("""
def @f(%x: Tensor[(2), float32]) { nn.relu(%x) }
def @main(%x: Tensor[(2), float32]) { exp(@f(%x)) }""")
    vm, x, seen = VirtualMachine(relay.vm.compile(mod), heddle.cpu()), floats(2), []
    vm.set_instrument(lambda func, name, before, result, *args: seen.append((name, before)))
    wanted = np.exp(np.maximum(x, 0))
    np.testing.assert_allclose(vm.run(x).numpy(), wanted, rtol=1e-5)
    assert seen.index(("f", True)) < seen.index(("relu", True)) < seen.index(("f", False))
    assert ("exp", False) in seen
    vm.set_instrument(None)
    count = len(seen)
    debugger = Debugger.of_call(vm, "main", tensor(x))
    places = []
    while not debugger.is_over:
        places.append(debugger.next_site.text if debugger.next_site is not None else "")
        debugger.step()
    assert any(place.startswith("invoke_packed PackedFunc[relu]") for place in places)
    np.testing.assert_allclose(debugger.recording.result.numpy(), wanted, rtol=1e-5)
    debugger.step_back()
    assert debugger.registers() and len(seen) == count


def test_public_names_resolve() -> None:
    """The names of TVM's interface to this machine."""
    for module, names in {
        relay.vm: "VMCompiler VMExecutor compile",
        relay.backend.vm: "VMCompiler VMExecutor compile",
        runtime.vm: "Executable VirtualMachine",
        runtime.profiler_vm: "VirtualMachineProfiler",
        relay: "save_param_dict load_param_dict create_executor",
        runtime: "save_param_dict load_param_dict",
        relay.vm.VMCompiler: "set_params get_params lower codegen get_exec optimize",
        Executable: "save load_exec bytecode constants globals primitives primitive_ops stats lib mod module "
        "virtual_devices get_function_params move_late_bound_consts get_late_bound_consts "
        "load_late_bound_consts load_late_bound_consts_from_map",
        VirtualMachine: "invoke run set_input set_one_input invoke_stateful get_outputs set_outputs "
        "invoke_with_outputs get_input_index benchmark profile NAIVE_ALLOCATOR POOLED_ALLOCATOR",
    }.items():
        for name in names.split():
            assert hasattr(module, name), f"{module} has no {name}"


# ---- the interface


def adder() -> Any:
    return program("def @main(%x: Tensor[(2), float32], %y: Tensor[(2), float32]) { add(%x, %y) }")


def test_calls_by_name_and_in_steps() -> None:
    vm = VirtualMachine(relay.vm.compile(adder()), heddle.cpu())
    x, y = floats(2), floats(2)
    for found in (
        vm["main"](x, y),
        vm.invoke("main", x, y),
        vm.invoke("main", x=x, y=y),
        vm.invoke("main", y, x=x),
        vm.run(x, y=y),
        vm.module["main"](x, y),
    ):
        np.testing.assert_array_equal(found.numpy(), x + y)
    vm.set_input("main", x, y)
    assert vm.invoke("main").numpy().tolist() == (x + y).tolist()
    vm.set_one_input("main", "x", y)
    vm.set_one_input("main", 1, x)
    vm.invoke_stateful("main")
    (found,) = vm.get_outputs()
    np.testing.assert_array_equal(found.numpy(), x + y)
    vm.set_one_input("main", y=y)
    assert vm.run().numpy().tolist() == (y + y).tolist()
    assert [vm.get_input_index(name) for name in ("x", "y", "z")] == [0, 1, -1]
    assert vm.benchmark(heddle.cpu(), x, y, repeat=2, number=1).results
    assert vm.benchmark(heddle.cpu(), x, y, repeat=2, number=1, end_to_end=True).results


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda vm: vm.invoke("other"), "V0301"),
        (lambda vm: vm.run(), "V0304"),
        (lambda vm: vm.get_outputs(), "V0304"),
        (lambda vm: vm.run(np.zeros(2, "float32")), "V0302"),
        (lambda vm: vm.set_input("main", 1, 2, 3), "V0302"),
        (lambda vm: vm.set_one_input("main", "z", 1), "V0306"),
        (lambda vm: vm.set_one_input("main", 2, 1), "V0306"),
        (lambda vm: vm.set_one_input("main", 2), "V0302"),
        (lambda vm: (vm.set_one_input("main", 0, 1), vm.run()), "V0304"),
        (lambda vm: vm.run(object(), 1), "V0303"),
        (lambda vm: vm.executable.get_function_params("other"), "V0301"),
    ],
)
def test_calls_that_are_wrong(call: Any, code: str) -> None:
    with pytest.raises(HeddleError, match=code):
        call(VirtualMachine(relay.vm.compile(adder()), heddle.cpu()))


def test_machines_that_are_wrong() -> None:
    made = relay.vm.compile(adder())
    for exe, device, config in (
        (5, heddle.cpu(), None),
        (made, "cpu", None),
        (made, heddle.cpu(), 7),
        (made, heddle.cpu(), {1: 2}),
    ):
        with pytest.raises(TypeError, match="V0303"):
            VirtualMachine(exe, device, config)  # type: ignore[arg-type]
    with pytest.raises(HeddleError, match="V0303"):
        VirtualMachine(heddle.compile(adder()), heddle.cpu())
    for config in (
        None,
        "naive",
        "pooled",
        {heddle.cpu(): 1},
        {heddle.cpu(): VirtualMachine.POOLED_ALLOCATOR},
    ):
        vm = VirtualMachine(made, [heddle.cpu()], config)
        assert vm.run(np.ones(2, "float32"), np.ones(2, "float32")).numpy().tolist() == [2, 2]
    assert type(runtime.vm.VirtualMachine(made, heddle.cpu())) is VirtualMachine


OUTPUTS = """
def @main(%x: Tensor[(?, 2), float32], %c: bool) {
  let %y = concatenate((%x, %x), axis=0);
  (reshape(exp(%y), newshape=[-1]), tanh(%x))
}
def @same(%x: Tensor[(2), float32]) { (%x, %x) }
def @either(%c: bool, %x: Tensor[(2), float32]) { if (%c) { exp(%x) } else { tanh(%x) } }
def @one(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { exp(%x) }"""


def test_results_are_written_into_tensors_of_the_callers() -> None:
    vm, x = machine(program(OUTPUTS), "main", "same", "either", "one"), floats(3, 2)
    first, second = tensor(np.zeros(12, "float32")), tensor(np.zeros((3, 2), "float32"))
    vm.invoke_with_outputs("main", {"x": x, "c": np.bool_(True)}, [first, second])
    np.testing.assert_allclose(first.numpy(), np.exp(np.concatenate([x, x])).reshape(-1), rtol=1e-5)
    np.testing.assert_allclose(second.numpy(), np.tanh(x), rtol=1e-5)
    kept = vm.get_outputs()
    assert [found.address for found in kept] == [first.address, second.address]
    other = vm.invoke("main", x, np.bool_(True))
    assert {found.address for found in other}.isdisjoint({first.address, second.address})

    one = tensor(np.zeros(2, "float32"))
    vm.set_outputs("one", one)
    for _ in range(2):
        y = floats(2)
        vm.invoke("one", y)
        np.testing.assert_allclose(one.numpy(), np.exp(y), rtol=1e-5)
    vm.set_outputs("one")
    assert vm.invoke("one", y).address != one.address


@pytest.mark.parametrize(
    ("name", "inputs", "outputs"),
    [
        ("same", {"x": np.ones(2, "float32")}, [np.zeros(2, "float32"), np.zeros(2, "float32")]),
        ("either", {"c": np.bool_(True), "x": np.ones(2, "float32")}, [np.zeros(2, "float32")]),
        ("one", {"x": np.ones(2, "float32")}, [np.zeros(3, "float32")]),
        ("one", {"x": np.ones(2, "float32")}, [np.zeros(2, "float64")]),
        ("one", {"x": np.ones(2, "float32")}, [np.zeros(2, "float32")] * 2),
    ],
)
def test_results_that_cannot_be_written_there(name: str, inputs: Any, outputs: list[Any]) -> None:
    vm = machine(program(OUTPUTS), "main", "same", "either", "one")
    with pytest.raises(HeddleError, match="V0310"):
        vm.invoke_with_outputs(name, inputs, [tensor(output) for output in outputs])
    assert isinstance(vm.invoke("one", np.ones(2, "float32")), Tensor)


def _fixed(array: Any) -> Any:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "output",
    [
        lambda x: _fixed(np.zeros(2, "float32")),
        lambda x: np.zeros(4, "float32")[::2],
        lambda x: np.zeros(2, "float32")[::-1],
        lambda x: np.zeros(12, "uint8")[1:9].view("float32"),
        lambda x: tensor(np.zeros(2, "float32")).readonly(),
        lambda x: [0.0, 0.0],
        lambda x: 1.0,
        lambda x: x,
        lambda x: x.reshape((2, 1)),
    ],
    ids=["fixed", "steps", "backwards", "aside", "a program's", "list", "number", "argument", "view"],
)
def test_results_that_would_be_lost_or_lie_over_arguments(output: Any) -> None:
    vm, x = machine(program(OUTPUTS), "one"), tensor(np.ones(2, "float32"))
    made = output(x)
    with pytest.raises(HeddleError, match="V0310"):
        vm.invoke_with_outputs("one", {"x": x}, [made])
    np.testing.assert_array_equal(x.numpy(), 1)
    np.testing.assert_allclose(vm.invoke("one", x).numpy(), np.exp(x.numpy()), rtol=1e-5)


def test_results_that_would_lie_over_each_other() -> None:
    vm, x, room = machine(program(OUTPUTS), "main"), floats(3, 2), np.zeros(20, "float32")
    given = {"x": x, "c": np.bool_(True)}
    for first, second in ((room[:12], room[8:14]), (room[:12], room[:6])):
        with pytest.raises(HeddleError, match="results 0 and 1 were given memory that overlaps"):
            vm.invoke_with_outputs("main", given, [tensor(first, copy=False), tensor(second, copy=False)])
    np.testing.assert_array_equal(room, 0)
    vm.invoke_with_outputs("main", given, [room[:12], room[12:18].reshape(3, 2)])  # side by side
    np.testing.assert_allclose(room[:12], np.exp(np.concatenate([x, x])).reshape(-1), rtol=1e-5)
    np.testing.assert_allclose(room[12:18].reshape(3, 2), np.tanh(x), rtol=1e-5)


def test_compiling_step_by_step_with_parameters() -> None:
    weight = floats(3)
    mod = program("def @main(%x: Tensor[(3), float32], %w: Tensor[(3), float32]) { %x * %w }")
    compiler = relay.vm.VMCompiler()
    with pytest.raises(HeddleError, match="D0103"):
        compiler.get_exec()
    with pytest.raises(HeddleError, match="D0103"):
        compiler.codegen()
    compiler.set_params({"w": weight, "unknown": weight})
    compiler.lower(mod, target={heddle.cpu(): "llvm"}, target_host="llvm")
    compiler.codegen()
    x = floats(3)
    for made in (compiler.get_exec(), relay.vm.compile(mod, "llvm", params={"w": weight})):
        assert made.get_function_params("main") == ["x"]
        assert (made.mod is made, made.module is made) == (True, True)
        np.testing.assert_allclose(VirtualMachine(made, heddle.cpu()).run(x).numpy(), x * weight)
    assert [*compiler.get_params()] == ["w", "unknown"]
    optimized, params = relay.vm.VMCompiler().optimize(mod, "llvm", params={"w": weight})
    assert "main" in {var.name_hint for var in optimized.functions} and [*params] == ["w"]
    func = relay.Function([], relay.const(2.5))
    assert float(VirtualMachine(relay.vm.compile(func), heddle.cpu()).run().numpy()) == 2.5
    with pytest.raises(ValueError, match="D0103"):
        relay.vm.compile(mod, {1: "llvm", 2: "llvm"})


def test_the_executor_takes_expressions_and_a_target() -> None:
    executor = relay.create_executor(
        "vm", target="llvm -mcpu=x86-64-v3" if sys.platform == "linux" else "llvm"
    )
    x = relay.var("x", shape=(2,), dtype="float32")
    found = executor.evaluate(relay.exp(x), {x: relay.const(np.zeros(2, "float32"))})
    assert found.numpy().tolist() == [1, 1]
    assert isinstance(
        relay.vm.VMExecutor(adder(), heddle.cpu(), "llvm").evaluate()(floats(2), floats(2)), Tensor
    )


def test_texts_about_an_executable() -> None:
    made = relay.vm.compile(program("def @main(%x: Tensor[(2), float32]) { %x + 1.5f }"))
    head, _, rest = made.stats.partition("\n")
    assert head == "Relay VM executable statistics:" and 'Globals (#1): [("main", 0)]' in rest
    assert made.virtual_devices == "VM VirtualDevice[0]: device type 1, id 0 and mem_scope \n"
    assert (
        made.primitives.splitlines()[-1]
        == f"VM PackedFunc[{len(made.primitive_ops) - 1}]: {made.primitive_ops[-1]}"
    )
    lines = made.bytecode.splitlines()
    assert lines[:1] == ["VM Function[0]: main(x)"] and lines[3] == "opcode, fields # inst(text):"
    assert made.constants.count("VM Const[") == len(made.program.constants)
    assert made["get_function_arity"]("main") == 1 and made["get_function_param_name"]("main", 0) == "x"
    assert made["vm_load_executable"]() is made


def test_threads_that_share_a_machine_get_their_own_results() -> None:
    vm, wrong = machine(program("def @main(%x: Tensor[(2, 3), float32]) { exp(%x) + %x }"), "main"), []

    def call(number: int) -> None:
        for turn in range(200):
            given = np.full((2, 3), number + turn / 1000, "float32")
            made = np.zeros((2, 3), "float32")
            vm.invoke_with_outputs("main", {"x": given}, [made])
            found = vm.invoke("main", given).numpy()
            if not (np.allclose(found, np.exp(given) + given, 1e-5) and np.array_equal(made, found)):
                wrong.append((number, turn))

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_results_of_a_call_with_outputs_are_all_written_somewhere() -> None:
    vm = machine(program(OUTPUTS), "one")
    with pytest.raises(HeddleError, match="V0310"):
        vm.invoke_with_outputs("one", {"x": np.ones(2, "float32")}, [])
