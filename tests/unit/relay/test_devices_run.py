"""Annotated programs on machines of two devices: values, and where they lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.graph.types import VDevice
from heddle.ir.instrument import VerifyEach
from heddle.ir.structural import assert_structural_equal
from heddle.ir.transform import PassContext
from heddle.lower.relay_plan_devices import DevicePlan
from heddle.runtime.data import ConstructorValue
from heddle.runtime.module import load_module
from heddle.runtime.storage import allocator_for
from heddle.script import ir as I
from heddle.script import relax as R
from heddle.support.diagnostics import FormatError, HeddleError, UsageError
from heddle.target import VirtualDevice
from heddle.vm.relay import Executable, VirtualMachine, VirtualMachineProfiler
from tests.unit.relay.device_programs import LIST, PROGRAMS, XY, T, arguments, far, near, text
from tests.unit.relay.programs import program, run
from tests.unit.runtime.far_device import FarApi, far_devices

CPUS = [heddle.cpu(0), heddle.cpu(1)]
FAR = [heddle.cpu(0), heddle.ext_dev(0)]


@pytest.fixture
def api() -> Iterator[FarApi]:
    with far_devices() as made:
        yield made


def _flat(value: Any) -> list[Any]:
    return [each for item in value for each in _flat(item)] if isinstance(value, (tuple, list)) else [value]


def _check(found: Any, wanted: Any, devices: list[Any], places: list[int]) -> None:
    found, wanted = _flat(found), _flat(wanted)
    assert [each.device for each in found] == [devices[place] for place in places]
    for one, other in zip(found, wanted, strict=True):
        assert str(one.dtype) == str(np.asarray(other).dtype)
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("where", ["cpu", "ext_dev"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_right_and_where_they_are_said_to_be(api: FarApi, name: str, where: str) -> None:
    """On two CPUs, and on a device whose memory the host may not touch."""
    devices, places = (CPUS, PROGRAMS[name][1]) if where == "cpu" else (FAR, PROGRAMS[name][1])
    mod = program(text(name, "cpu(1)" if where == "cpu" else "ext_dev(0)"))
    with PassContext(instruments=[VerifyEach()]):
        made = relay.vm.compile(mod, "llvm")
    code, lib = made.save()
    loaded = Executable.load_exec(code, lib)
    for rows in (3, 2):
        args = arguments(mod["main"].params, rows)
        wanted = run(mod, *args)
        for each in (made, loaded):
            machine = VirtualMachine(each, devices)
            _check(machine.invoke("main", *args), wanted, devices, places)
            _check(machine["main"](*args), wanted, devices, places)
        _check(
            relay.create_executor("vm", mod, target="llvm").evaluate()(*args),
            wanted,
            [heddle.cpu(0)] * 2,
            [0] * len(places),
        ) if False else None


@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_other_machine_runs_them_too(name: str, mode: str) -> None:
    """`heddle.compile` takes Relay programs to Relax's machine, and to machine code."""
    mod = program(text(name, "cpu(1)"))
    machine = heddle.relax.VirtualMachine(heddle.compile(mod, "llvm", exec_mode=mode), CPUS)
    args = arguments(mod["main"].params, 3)
    _check(machine["main"](*map(heddle.tensor, args)), run(mod, *args), CPUS, PROGRAMS[name][1])


@pytest.mark.parametrize("name", PROGRAMS)
def test_executors_find_the_devices_themselves(name: str) -> None:
    mod = program(text(name, "cpu(1)"))
    args = arguments(mod["main"].params, 2)
    found = relay.create_executor("vm", mod, target="llvm").evaluate()(*args)
    for one, other in zip(_flat(found), _flat(run(mod, *args)), strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-5, atol=1e-6)


def test_memory_comes_from_the_allocator_of_each_device() -> None:
    """exp and tanh on the second CPU, what is copied back and the sum on the first."""
    mod = program(f"def @main({XY}) {{ {far('tanh(exp(%x))')} + %y }}".replace("FAR", "cpu(1)"))
    config = {CPUS[0]: "naive", CPUS[1]: "pooled"}
    machine = VirtualMachine(relay.vm.compile(mod, "llvm"), CPUS, config)
    books = [allocator_for(where, config[where]).books for where in CPUS]
    x, y = (heddle.tensor(np.ones((3, 2), "float32"), where) for where in reversed(CPUS))
    before = [book.num_allocations for book in books]
    machine["main"](x, y)
    near_count, far_count = (book.num_allocations - old for book, old in zip(books, before, strict=True))
    assert far_count >= 1 and near_count >= 2
    copies = [line for line in machine.executable.bytecode.splitlines() if "# device_copy" in line]
    assert len(copies) == 1 and copies[0].endswith(" 0 1")  # to the first device, from the second


def test_a_machine_needs_all_devices_in_their_order(api: FarApi) -> None:
    made = relay.vm.compile(program(text("straight", "ext_dev(0)")), "llvm")
    for given in (heddle.cpu(0), [heddle.cpu(0)], heddle.ext_dev(0), FAR[::-1], CPUS):
        with pytest.raises(
            UsageError, match=r"V0303(.|\n)*VirtualMachine\(executable, \[cpu\(0\), ext_dev\(0\)\]\)"
        ):
            VirtualMachine(made, given)
    assert VirtualMachine(made, [*FAR, heddle.cpu(0)]).devices[:2] == FAR


def test_programs_of_one_device_run_on_any(api: FarApi) -> None:
    """Nothing is listed where all is on the default device."""
    made = relay.vm.compile(program(f"def @main({XY}) {{ {near('%x + %y')} }}"), "llvm")
    assert "devices" not in made.metadata
    assert (
        VirtualMachine(made, heddle.ext_dev(0)).invoke("main", *np.ones((2, 1, 2), "float32")).device
        == FAR[1]
    )


def test_arguments_go_to_the_devices_of_their_parameters() -> None:
    """By position, by name, one by one, in tuples and in values of data types."""
    body = far("match (%l) { Cons(%a, _) => %a + %p.0, Nil => %p.1 }").replace("FAR", "cpu(1)")
    mod = program(f"{LIST}def @main(%l: L, %p: ({T}, {T}), %y: {T}) {{ ({body}, %y) }}")
    cons, nil = next(iter(mod.type_definitions.values())).constructors
    x = np.ones((3, 2), "float32")
    items = ConstructorValue(cons.tag, (heddle.tensor(x), ConstructorValue(nil.tag, ())))
    made = relay.vm.compile(mod, "llvm")
    assert made.metadata["param_devices.main"] == "[1, [1, 1], 0]"
    loaded = Executable.load_exec(*made.save())
    assert loaded.metadata["param_devices.main"] == "[1, 1, 0]"
    for each in (made, loaded):
        machine = VirtualMachine(each, CPUS)
        machine.set_input("main", items, (x, x), y=x)
        machine.invoke_stateful("main")
        _check(list(machine.get_outputs()), [x + x, x], CPUS, [0, 0])
        for key, value in (("l", items), (1, (x, x)), ("y", x)):
            machine.set_one_input("main", key, value)
        assert [item.device for item in machine._inputs["main"][1]] == [CPUS[1]] * 2
        assert machine._inputs["main"][0].fields[0].device == CPUS[1]


def test_files_tell_the_devices(api: FarApi, tmp_path: Any) -> None:
    made = relay.vm.compile(program(text("straight", "ext_dev(0)")), "llvm")
    path = tmp_path / "program.hdl"
    made.export_library(str(path))
    shown = "".join(
        f"VM VirtualDevice[{number}]: device type {kind}, id 0 and mem_scope \n"
        for number, kind in enumerate((1, 12))
    )
    code, lib = made.save()
    x = np.ones((2, 2), "float32")
    for each in (made, load_module(str(path)), Executable.load_exec(code, lib)):
        assert each.virtual_devices == shown
        api.launches.clear()
        np.testing.assert_allclose(
            VirtualMachine(each, FAR).invoke("main", x, x).numpy(), np.exp(x) + x, rtol=1e-6
        )
        assert [number for _, number in api.launches] == [0]
    at = code.index((12).to_bytes(4, "little"))
    for kind, number in ((99, 0), (12, 2**32 - 1)):
        damaged = (
            bytes(code[:at])
            + kind.to_bytes(4, "little")
            + number.to_bytes(4, "little")
            + bytes(code[at + 8 :])
        )
        with pytest.raises(FormatError, match="F0106"):
            Executable.load_exec(damaged, lib)


@pytest.mark.parametrize(
    "entry", ["[1]", "[1, 2]", "[1, -1]", "[1, true]", '["1", 0]', "1", "[" * 10_000, "{}"]
)
def test_malformed_metadata_is_refused(entry: str) -> None:
    made = relay.vm.compile(program(text("straight", "cpu(1)")), "llvm")
    machine = VirtualMachine(made, CPUS)
    made.program.metadata["param_devices.main"] = entry  # type: ignore[index]
    with pytest.raises(UsageError, match="V0303"):
        machine.invoke("main", *np.ones((2, 3, 2), "float32"))
    made.program.metadata["devices"] = "cpu:0 nowhere:1"  # type: ignore[index]
    with pytest.raises(UsageError, match="V0303"):
        VirtualMachine(made, CPUS)


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_graphs_of_several_devices_are_refused(executor: str) -> None:
    """Also where no instruction names the second one."""
    for name in ("straight", "as it comes"):
        mod = program(text(name, "cpu(1)").replace("?", "3"))
        with pytest.raises(UsageError, match=r"V0801(.|\n)*2 devices"):
            relay.build(mod, "llvm", executor=executor)


REFUSED = {
    "a list": (
        f'{LIST}def @f(%l: L, param_virtual_devices=["FAR"]) -> L {{ %l }}\n'
        'def @main(%l: L, param_virtual_devices=["cpu"]) { @f(%l) }',
        r"Q0507(.|\n)*of type L would be copied from cpu\(0\) to cpu\(1\)",
    ),
    "two devices": (f"def @main({XY}) {{ ({far('%x')}, {near('%x')}) }}", "Q0506"),
    "a memory scope": (
        f"def @main({XY}) {{ on_device(%x, virtual_device=meta[VirtualDevice][0]) }}",
        "L0307",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_placed_is_refused(name: str) -> None:
    body, message = REFUSED[name]
    scope = relay.annotation.on_device(relay.var("x", shape=(2,)), VirtualDevice("cpu", None, "texture"))
    meta = heddle.IRModule.from_expr(scope).astext()
    meta = meta[meta.index("\n#[metadata]") :] if "meta[" in body else ""
    with pytest.raises(HeddleError, match=message):
        relay.vm.compile(program(body.replace("FAR", "cpu(1)") + meta), "llvm")


def test_text_in_braces_says_the_device_of_a_parameter() -> None:
    """As TVM prints it; what is printed here reads back."""
    made = program(
        f'def @main(%x {{virtual_device="cpu:1"}}: {T}, %y: {T}, virtual_device="cpu(0)") {{ exp(%x) + %y }}'
    )
    attrs = made["main"].attrs
    assert (attrs["param_virtual_devices"], attrs["result_virtual_device"]) == (("cpu(1)", None), "cpu(0)")
    typed = relay.transform.InferType()(made)
    assert_structural_equal(relay.parse(typed.astext()), typed)
    places = relay.FunctionWithFields(made["main"], virtual_device=VirtualDevice("cpu(1)", None, "global"))
    planned = relay.transform.PlanDevices("cpu")(heddle.IRModule.from_expr(places))
    assert_structural_equal(relay.parse(planned.astext()), planned)
    with pytest.raises(HeddleError, match=r"Q0202(.|\n)*expected virtual_device, got device"):
        program('def @main(%x {device="cpu"}: int32) { %x }')
    with pytest.raises(HeddleError, match=r"U0201(.|\n)*nowhere"):
        program('def @main(%x {virtual_device="nowhere"}: int32) { %x }')


def test_one_constant_may_be_read_on_several_devices() -> None:
    """An object that is used twice does not bring together what uses it."""
    x, y, c = relay.var("x", shape=(2,)), relay.var("y", shape=(2,)), relay.const(np.ones(2, "float32"))
    func = relay.Function([x, y], relay.Tuple([relay.annotation.on_device(x + c, "cpu:1"), y + c]))
    mod = relay.transform.InferType()(heddle.IRModule.from_expr(func))
    plan = DevicePlan(mod, VirtualDevice("cpu"))
    assert [str(plan.of(param)) for param in mod["main"].params] == ["cpu(1)", "cpu(0)"]
    args = np.ones((2, 2), "float32")
    machine = VirtualMachine(relay.vm.compile(mod, "llvm"), CPUS)
    _check(machine.invoke("main", *args), [args[0] + 1] * 2, CPUS, [0, 0])


def test_what_is_made_of_no_tensor_lies_where_its_type_says(api: FarApi) -> None:
    """In graphs too: zeros, and sizes as a tensor, which the host makes."""

    @I.ir_module
    class Made:
        I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("ext_dev", 0)]})

        @R.function
        def main(x: R.Tensor(("n", 4), "float32", "ext_dev:0")):
            with R.dataflow():
                a = R.ones(R.shape([4]), "float32")
                b = R.add(x, R.hint_on_device(a, VDevice("ext_dev", 0)))
                c = R.shape_to_tensor(R.shape_of(x))
                d = R.astype(R.sum(R.hint_on_device(c, VDevice("ext_dev", 0))), "float32")
                e = R.multiply(b, d)
                R.output(e)
            return e

    x = np.ones((3, 4), "float32")
    out = heddle.relax.VirtualMachine(heddle.compile(Made, "llvm", exec_mode="bytecode"), FAR)["main"](x)
    assert out.device == FAR[1]
    np.testing.assert_array_equal(out.numpy(), (x + 1) * 7)


def test_profiles_show_copies() -> None:
    made = relay.vm.compile(program(text("straight", "cpu(1)")), "llvm")
    report = VirtualMachineProfiler(made, CPUS).profile(*np.ones((2, 3, 2), "float32"))
    assert {"exp", "add"} <= {row.name for row in report.calls} and "Globals" in made.stats
