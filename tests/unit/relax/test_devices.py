"""Several devices in one program: where passes put tensors, and whose memory the machine takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle.graph.types import VDevice
from heddle.ir.expr import Constant, Function
from heddle.ir.instrument import verify_module
from heddle.ir.structural import assert_structural_equal
from heddle.ir.visitor import walk
from heddle.relax import BlockBuilder, TensorType, op
from heddle.relax.transform.realize_v_device import RealizeVDevice
from heddle.relax.transform.update_v_device import UpdateVDevice
from heddle.runtime.module import load_module
from heddle.runtime.storage import allocator_for
from heddle.script import ir as I
from heddle.script import relax as R
from heddle.support.diagnostics import IRTypeError, UsageError
from heddle.vm.objects import BytecodeError
from heddle.vm.relax import ExecBuilder, VirtualMachine
from tests.unit.relax.running import MODES, assert_same, machine

RNG = np.random.default_rng(11)
CPUS = [heddle.cpu(0), heddle.cpu(1)]
WEIGHT = RNG.standard_normal((4, 5)).astype("float32")


@I.ir_module
class Hinted:
    I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 1)]})

    @R.function
    def main(
        x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n", 4), "float32"), z: R.Tensor(("n", 5), "float32")
    ) -> R.Tensor(("n", 5), "float32"):
        with R.dataflow():
            a = R.hint_on_device(x, "llvm:0")
            b = R.add(a, y)
            c = R.hint_on_device(b, heddle.cpu(1))
            d = R.matmul(c, R.const(WEIGHT))
            e = R.add(d, z)
            R.output(e)
        return e


@I.ir_module
class Realized:
    I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 1)]})

    @R.function
    def main(
        x: R.Tensor(("n", 4), "float32", "llvm:0"),
        y: R.Tensor(("n", 4), "float32", "llvm:0"),
        z: R.Tensor(("n", 5), "float32", "llvm:1"),
    ) -> R.Tensor(("n", 5), "float32", "llvm:1"):
        with R.dataflow():
            a = x
            b = R.add(a, y)
            c = R.to_vdevice(b, "llvm:1")
            d = R.matmul(c, R.const(WEIGHT))
            e = R.add(d, z)
            R.output(e)
        return e


def arguments(n: int) -> list[Any]:
    shapes = (n, 4), (n, 4), (n, 5)
    return [RNG.standard_normal(shape).astype("float32") for shape in shapes]


@pytest.mark.fact("5.6")
def test_hints_become_copies_and_types_name_their_devices():
    """RealizeVDevice runs first; what an operator computes lies where its operands do."""
    made = RealizeVDevice()(Hinted)
    assert not verify_module(made)
    assert_structural_equal(made, Realized, map_free_vars=True)
    constants = [node for node in walk(made["main"]) if isinstance(node, Constant)]
    assert [node.ty.vdevice.vdevice_id for node in constants] == [1]
    assert "R.to_vdevice(b" in made.script() and "hint_on_device" not in made.script()


def test_a_module_without_devices_stays_the_same_object():
    @I.ir_module
    class Plain:
        @R.function
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            y = R.add(x, x)
            return y

    assert RealizeVDevice()(Plain) is Plain


@pytest.mark.fact("5.6")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("mod", [Hinted, Realized], ids=["hinted", "realized"])
def test_two_cpus_in_one_program(mod: Any, mode: str):
    """`devices[i]` by runtime device index, copies by `vm.builtin.to_device`."""
    vm = machine(mod, mode, CPUS)
    assert "vm.builtin.to_device" in vm.executable.as_text()
    for n in (1, 3, 0):
        x, y, z = arguments(n)
        out = vm["main"](x, y, z)
        assert out.device == heddle.cpu(1)
        np.testing.assert_allclose(out.numpy(), (x + y) @ WEIGHT + z, rtol=1e-4, atol=1e-5)


@pytest.mark.fact("5.6", "5.4")
@pytest.mark.parametrize("mode", MODES)
def test_each_devices_memory_comes_from_its_own_allocator(mode: str):
    """Told by the allocators' books."""
    vm = machine(Hinted, mode, CPUS, memory_cfg={heddle.cpu(0): "naive", heddle.cpu(1): "pooled"})
    x, y, z = arguments(7)
    values = [heddle.runtime.tensor(*pair) for pair in ((x,), (y,), (z, heddle.cpu(1)))]
    kinds = [(where, kind) for where in CPUS for kind in ("naive", "pooled")]
    books = {(where.device_id, kind): allocator_for(where, kind).books for where, kind in kinds}
    before = {key: book.num_allocations for key, book in books.items()}
    out = vm["main"](*values)
    taken = {key: book.num_allocations - before[key] for key, book in books.items()}
    assert taken[0, "naive"] == 1  # x + y, on the first device
    assert taken[1, "pooled"] == 2  # its copy there, and the result
    assert taken[0, "pooled"] == taken[1, "naive"] == 0
    assert out.device == heddle.cpu(1)
    in_use = books[1, "pooled"].bytes_in_use
    del out
    assert books[1, "pooled"].bytes_in_use < in_use


@pytest.mark.fact("5.6")
@pytest.mark.parametrize("mode", MODES)
def test_the_list_decides_which_device_an_index_means(mode: str):
    """The same program on devices in another order."""

    @I.ir_module
    class Swapped:
        I.module_global_infos({"vdevice": [I.vdevice("llvm", 1), I.vdevice("llvm", 0)]})

        @R.function
        def main(x: R.Tensor((3,), "float32", "llvm:1")) -> R.Tensor((3,), "float32", "llvm:1"):
            y = R.add(x, x)
            return y

    assert Swapped["main"].params[0].ty.vdevice.vdevice_id == 0  # the second of the module's llvm devices
    x = RNG.standard_normal(3).astype("float32")
    out = machine(Swapped, mode, [heddle.cpu(1), heddle.cpu(0)])["main"](x)
    assert out.device == heddle.cpu(0)
    assert_same(out, x + x)


@pytest.mark.fact("4.6", "5.6", "5.5")
@pytest.mark.parametrize("mode", MODES)
def test_constants_lie_on_their_device(mode: str, tmp_path: Any):
    """The table of memory scopes says where, also in a file."""

    @I.ir_module
    class Constants:
        I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 1)]})

        @R.function
        def main(x: R.Tensor((4, 5), "float32", "llvm:1")) -> R.Tuple(
            R.Tensor((4, 5), "float32"), R.Tensor((4, 5), "float32"), R.Tensor((4, 5), "float32")
        ):
            near = R.const(WEIGHT, R.Tensor((4, 5), "float32", "llvm:0"))
            far = R.const(WEIGHT, R.Tensor((4, 5), "float32", "llvm:1"))
            total = R.add(x, far)
            return (near, far, total)

    x = RNG.standard_normal((4, 5)).astype("float32")
    vm = machine(Constants, mode, CPUS)
    path = tmp_path / "program.heddle"
    vm.executable.export_library(str(path))
    for each in (vm, VirtualMachine(load_module(str(path)), CPUS)):
        scopes = each.executable.program.memory_scopes
        assert sorted(scopes.values()) == ["global", "global@1"]  # equal bits, two places, two entries
        near, far, total = each["main"](x)
        assert [near.device, far.device, total.device] == [CPUS[0], CPUS[1], CPUS[1]]
        assert_same((near, far, total), (WEIGHT, WEIGHT, x + WEIGHT))


def test_a_machine_with_too_few_devices_is_refused():
    with pytest.raises(
        UsageError, match=r"V0303(.|\n)*for 2 devices: expected cpu\(0\), cpu\(1\), got cpu\(0\)"
    ):
        machine(Realized, "bytecode", [heddle.cpu(0)])


def test_a_malformed_placement_does_not_verify():
    builder = ExecBuilder()
    with builder.function("main", num_inputs=0):
        number = builder.convert_constant(heddle.runtime.tensor(WEIGHT), "global@x")
        builder.emit_call("vm.builtin.copy", [number], dst=builder.r(0))
        builder.emit_ret(builder.r(0))
    with pytest.raises(BytecodeError, match=r"V0104(.|\n)*'global@x'"):
        builder.get().verify()


@pytest.mark.parametrize("mode", MODES)
def test_devices_through_tuples_branches_and_calls(mode: str):
    @I.ir_module
    class Ways:
        I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 1)]})

        @R.function(private=True)
        def twice(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            y = R.add(x, x)
            return y

        @R.function
        def main(
            c: R.Tensor((), "bool"), x: R.Tensor((6,), "float32"), y: R.Tensor((3,), "float32")
        ) -> R.Tuple(R.Tensor((3,), "float32"), R.Tensor((3,), "float32")):
            cls = Ways
            here = R.hint_on_device(x, "llvm:0")
            parts = R.split(here, 2)
            first = parts[0]
            there = R.to_vdevice(first, "llvm:1")
            doubled = cls.twice(there)
            if c:
                out = R.subtract(doubled, y)
            else:
                out = y
            return (parts[1], out)

    made = RealizeVDevice()(Ways)
    assert not verify_module(made)
    assert made["twice"].params[0].ty.vdevice.vdevice_id == 1
    assert [field.vdevice.vdevice_id for field in made["main"].ret_ty.fields] == [0, 1]
    vm = machine(Ways, mode, CPUS)
    x, y = (RNG.standard_normal(size).astype("float32") for size in (6, 3))
    for choice in (True, False):
        kept, out = vm["main"](np.array(choice), x, heddle.runtime.tensor(y, heddle.cpu(1)))
        assert (kept.device, out.device) == (CPUS[0], CPUS[1])
        assert_same((kept, out), (x[3:], 2 * x[:3] - y if choice else y))


def test_the_second_hint_about_one_tensor_is_a_copy():
    @I.ir_module
    class Twice:
        I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 1)]})

        @R.function
        def main(
            x: R.Tensor((3,), "float32"),
        ) -> R.Tuple(R.Tensor((3,), "float32"), R.Tensor((3,), "float32")):
            a = R.hint_on_device(x, "llvm:1")
            b = R.hint_on_device(x, "llvm:0")
            c = R.exp(a)
            d = R.exp(b)
            return (c, d)

    made = RealizeVDevice()(Twice)
    assert made["main"].params[0].ty.vdevice.vdevice_id == 1
    assert made.script().count("R.to_vdevice") == 1
    x = RNG.standard_normal(3).astype("float32")
    for mode in MODES:
        near, far = machine(Twice, mode, CPUS)["main"](heddle.runtime.tensor(x, heddle.cpu(1)))
        assert (near.device, far.device) == (CPUS[1], CPUS[0])
        assert_same((near, far), (np.exp(x), np.exp(x)))


def test_operands_on_different_devices_are_refused():
    x = heddle.relax.Var("x", TensorType((3,), "float32", VDevice("llvm", 0)))
    y = heddle.relax.Var("y", TensorType((3,), "float32", VDevice("llvm", 1)))
    builder = BlockBuilder()
    with builder.function("main", [x, y]):
        with pytest.raises(IRTypeError, match=r"R0207(.|\n)*to_vdevice"):
            builder.emit(op.add(x, y))
        builder.emit_func_output(x)


def test_a_name_that_the_module_does_not_list_is_refused():
    with pytest.raises(IRTypeError, match=r"R0207(.|\n)*there are 1 of kind 'llvm'"):
        heddle.script.from_source(
            "@I.ir_module\nclass M:\n"
            '    I.module_global_infos({"vdevice": [I.vdevice("llvm", 0)]})\n'
            "    @R.function\n"
            '    def main(x: R.Tensor((3,), "float32", "llvm:1")) -> R.Any:\n'
            "        return x\n"
        )


def test_update_replaces_every_mention():
    made = UpdateVDevice(VDevice("cuda", 2, "global"), 1)(Realized)
    assert not verify_module(made)
    assert [str(item.kind) for item in made.global_infos["vdevice"]] == ["llvm", "cuda"]
    func = made["main"]
    assert isinstance(func, Function)
    assert [param.ty.vdevice.kind for param in func.params] == ["llvm", "llvm", "cuda"]
    assert 'R.to_vdevice(b, dst_vdevice=R.VDevice("cuda", 2, "global"))' in func.script()
    assert '"llvm", 1' not in made.script()
    assert Realized["main"].params[2].ty.vdevice.kind == "llvm"
    with pytest.raises(IRTypeError, match="R0207"):
        UpdateVDevice(VDevice("cuda"), 2)(Realized)


def test_text_names_devices_and_reads_back():
    made = RealizeVDevice()(Hinted)
    constants: list[Any] = []
    again = heddle.script.from_source(made.script(constants=constants), constants=constants)
    assert_structural_equal(again, made)
    found = [node for node in walk(again["main"]) if isinstance(node, Constant)]
    assert found[0].ty.vdevice.vdevice_id == 1


def test_devices_of_a_target_text():
    assert VDevice("cuda -arch=sm_80", 3).device == heddle.cuda(3)
    assert VDevice({"kind": "llvm", "mcpu": "znver5"}).target == "llvm -mcpu=znver5"
    assert VDevice().device == heddle.cpu(0)
