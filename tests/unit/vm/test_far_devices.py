"""Programs on devices whose memory the host may not touch (`tests/unit/runtime/far_device.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.graph.types import VDevice
from heddle.ir.instrument import verify_module
from heddle.lower.legalize_ops import LegalizeOps
from heddle.lower.place_kernels import RUNTIME_DEVICE, PlaceKernels
from heddle.relax.transform.realize_v_device import RealizeVDevice
from heddle.runtime.module import load_module
from heddle.runtime.storage import allocator_for
from heddle.script import ir as I
from heddle.script import relax as R
from heddle.script import tir as T
from heddle.support.diagnostics import Trap, TrapValueError, UsageError
from heddle.vm.relax import VirtualMachine
from tests.unit.relax.running import machine
from tests.unit.runtime.far_device import FarApi, far_devices

FAR, OTHER = heddle.ext_dev(0), heddle.ext_dev(1)
RNG = np.random.default_rng(5)


@pytest.fixture
def far() -> Iterator[FarApi]:
    with far_devices() as made:
        yield made


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7, 13), (2, 0, 3)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "bfloat16", "int4"])
def test_tensors_go_there_and_come_back(far: FarApi, shape: tuple[int, ...], dtype: str):
    values = heddle.runtime.tensor(RNG.integers(0, 2, shape), dtype=dtype)
    there = values.copyto(FAR)
    assert there.device == FAR and there.copyto(OTHER).device == OTHER
    for back in (there.copyto(heddle.cpu(0)), there.copyto(OTHER), there, there.reshape((-1, *shape[1:]))):
        if 0 not in shape:
            np.testing.assert_array_equal(back.numpy().reshape(shape), values.numpy())
    assert there.to_device(FAR) is there


def test_values_are_cast_and_written_on_the_way(far: FarApi):
    there = heddle.runtime.tensor(np.arange(6.0).reshape(2, 3), FAR, "float32")
    wide = heddle.runtime.empty((2, 3), "float64", OTHER).copyfrom(there)
    near = heddle.runtime.empty((2, 3), "int32").copyfrom(wide)
    np.testing.assert_array_equal(near.numpy(), np.arange(6).reshape(2, 3))
    there[1] = 9
    np.testing.assert_array_equal(there[:], [[0, 1, 2], [9, 9, 9]])
    there.copyfrom(np.asfortranarray(np.ones((2, 3))))
    assert there[:].sum() == 6
    with pytest.raises(TrapValueError, match="U0301"):
        there.copyfrom(np.ones((3, 2)))


@pytest.mark.parametrize("where", [heddle.cpu(0), FAR], ids=str)
def test_a_record_copies_and_launches_in_order(far: FarApi, where: Any):
    """Work that is put into streams is done when `synchronise` or an event was waited for, in order."""
    api, number, values = where.api, where.device_id, np.arange(8, dtype="int32")
    source, target, seen = values.ctypes.data, np.zeros_like(values), []
    first, second = api.allocate(number, 32), api.allocate(number, 32)
    assert first % 64 == second % 64 == 0
    stream = api.new_stream(number)
    api.copy_in(number, source, first, 32, stream)
    values[:] = -1  # the source was read
    api.copy_across((number, number), first, second, 32)
    api.launch(number, seen.append, ["launched"], stream)
    api.wait_event(number, stream, api.record_event(number, stream))
    assert seen == ["launched"]
    api.copy_out(number, second, target.ctypes.data, 32, stream)
    api.free_stream(number, stream)
    where.sync()
    assert target.tolist() == list(range(8))
    api.free(number, first)
    api.free(number, second)


@pytest.mark.parametrize("kind", ["pooled", "naive", "poisoned"])
def test_books_limits_and_blocks(far: FarApi, kind: str):
    memory = allocator_for(FAR, kind)
    block = memory.alloc(100)
    assert memory.books.bytes_in_use >= 100 and block.device == FAR
    del block
    assert memory.books.bytes_in_use == 0
    assert (far.live_blocks, memory.books.cached_bytes > 0) == ((1, True) if kind == "pooled" else (0, False))
    memory.clear()
    assert far.live_blocks == 0 and memory.books.cached_bytes == 0
    memory.memory_limit_bytes = 1000
    held = memory.alloc(800)
    with pytest.raises(Trap, match="U0601"):
        memory.alloc(800)
    memory.fail_allocation(0)
    with pytest.raises(Trap, match="U0601"):
        memory.alloc(8)
    with pytest.raises(TrapValueError, match="U0602"):
        memory.alloc(-1)
    memory.memory_limit_bytes = None
    del held


@I.ir_module
class Both:
    """The same operator on the host and on both devices, with sizes that are known at run time."""

    I.module_global_infos(
        {"vdevice": [I.vdevice("llvm", 0), I.vdevice("ext_dev", 0), I.vdevice("ext_dev", 1)]}
    )

    @R.function
    def main(x: R.Tensor(("n", 4), "float32", "llvm:0"), y: R.Tensor(("n", 4), "float32", "llvm:0")):
        n = T.int64()
        with R.dataflow():
            a = R.exp(R.add(x, y))
            b = R.to_vdevice(a, "ext_dev:0")
            c = R.exp(R.add(b, b))
            d = R.reshape(R.concat([c, c]), (n * 8,))
            e = R.to_vdevice(d, "ext_dev:1")
            f = R.add(e, R.const(np.full((1,), 0.5, "float32")))
            g = R.to_vdevice(f, "llvm:0")
            h = R.multiply(g, g)
            R.output(h)
        return h


def both(x: Any, y: Any) -> Any:
    c = np.exp(2 * np.exp(x + y))
    return (np.concatenate([c, c]).reshape(-1) + np.float32(0.5)) ** 2


def devices() -> list[Any]:
    return [heddle.cpu(0), FAR, OTHER]


def test_a_loop_function_is_for_one_device():
    """PlaceKernels: `relu` for the host and the two devices are three functions, for two CPUs one."""

    def functions(second: str, third: str) -> list[Any]:
        @I.ir_module
        class Three:
            I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice(second), I.vdevice(third, 1)]})

            @R.function
            def main(x: R.Tensor((4,), "float32", "llvm:0")):
                with R.dataflow():
                    a = R.nn.relu(x)
                    b = R.nn.relu(R.to_vdevice(a, VDevice(second)))
                    c = R.nn.relu(R.to_vdevice(b, VDevice(third, 1)))
                    R.output(c)
                return c

        mod = LegalizeOps()(RealizeVDevice()(Three))
        made = PlaceKernels()(mod)
        assert (made is mod) == (second == third == "llvm") and not verify_module(made)
        loops = [func for func in made.functions.values() if func.dialect == "tir"]
        return sorted((func.attrs.get(RUNTIME_DEVICE) for func in loops), key=str)

    assert functions("ext_dev", "ext_dev") == [1, 2, None]
    assert functions("llvm", "ext_dev") == [2, None]
    assert functions("llvm", "llvm") == [None]


@pytest.mark.parametrize("is_saved", [False, True])
def test_kernels_run_where_their_results_lie(far: FarApi, tmp_path: Any, is_saved: bool):
    vm = machine(Both, "bytecode", devices())
    if is_saved:
        vm.executable.export_library(str(tmp_path / "both.hdl"))
        vm = VirtualMachine(load_module(str(tmp_path / "both.hdl")), devices())
    for n in (3, 1, 0, 17):
        x, y = RNG.standard_normal((2, n, 4)).astype("float32") / 4
        far.launches.clear()
        np.testing.assert_allclose(vm["main"](x, y).numpy(), both(x, y), rtol=1e-5)
        assert {number for _, number in far.launches} == {0, 1}


def test_a_program_without_devices_runs_on_the_first(far: FarApi):
    @I.ir_module
    class Plain:
        @R.function
        def main(x: R.Tensor(("n", 5), "float32"), w: R.Tensor((5, 3), "float32")):
            return R.nn.relu(R.matmul(x, w))

    vm = machine(Plain, "bytecode", FAR)
    x, w = (RNG.standard_normal(shape).astype("float32") for shape in ((7, 5), (5, 3)))
    vm.set_input("main", x, w)
    vm.invoke_stateful("main")
    out = vm.get_outputs("main")
    assert out.device == FAR and far.launches
    np.testing.assert_allclose(out.numpy(), np.maximum(x @ w, 0), rtol=1e-5, atol=1e-6)


class Slow(FarApi):
    """Its clock counts the work that is done: nothing that is left waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[int] = []

    def synchronise(self, device_id: int, stream: int | None = None) -> None:
        self.done.append(len(self._queue))
        super().synchronise(device_id, stream)


def test_profiles_and_timings_wait_for_the_devices_work():
    @I.ir_module
    class Two:
        @R.function
        def main(x: R.Tensor(("n", 5), "float32"), w: R.Tensor((5, 3), "float32")):
            return R.nn.softmax(R.matmul(x, w))

    with far_devices(Slow()) as far:
        vm = machine(Two, "bytecode", FAR)
        x, w = (
            heddle.runtime.tensor(RNG.standard_normal(shape).astype("float32"), FAR)
            for shape in ((7, 5), (5, 3))
        )
        vm["main"](x, w)
        assert far._queue  # calls leave work behind
        far.done.clear()
        report = vm.profile("main", x, w)
        launches = [row for row in report.calls if row.flops is not None]
        assert launches and not far._queue
        assert sum(waiting > 0 for waiting in far.done) >= 1 + len(
            launches
        )  # each call's own, and what was left
        far.done.clear()
        result = vm.time_evaluator("main", FAR, number=3, repeat=2)(x, w)
        assert len(result.results) == 2 and not far._queue
        assert sum(waiting > 0 for waiting in far.done) == 3  # the call before, and each repeat's three


def test_relays_machine_runs_on_them(far: FarApi):
    mod = relay.fromtext(
        '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?, 4), float32]) { add(exp(%x), %x) }\n'
    )
    vm = heddle.runtime.vm.VirtualMachine(relay.vm.compile(mod, target="llvm"), FAR)
    x = RNG.standard_normal((5, 4)).astype("float32")
    out = vm.invoke("main", x)
    assert out.device == FAR and far.launches
    np.testing.assert_allclose(out.numpy(), np.exp(x) + x, rtol=1e-5, atol=1e-6)


def test_graphs_are_refused(far: FarApi):
    mod = relay.fromtext('#[version = "0.0.5"]\ndef @main(%x: Tensor[(3, 4), float32]) { exp(%x) }\n')
    factory = relay.build(mod, target="llvm")
    with pytest.raises(UsageError, match="V0311"):
        factory["default"](FAR)


def test_machine_code_of_programs_is_refused(far: FarApi):
    with pytest.raises(UsageError, match="V0311"):
        machine(Both, "compiled", devices())


def test_a_device_that_the_machine_lacks_is_refused(far: FarApi):
    executable = machine(Both, "bytecode", devices()).executable
    kernel = next(key for key in executable.program.metadata if key.startswith("device."))
    for text in ("7", "-2", "x", "²"):
        executable.program.metadata[kernel] = text
        with pytest.raises(UsageError, match="V0303"):
            VirtualMachine(executable, devices())


def test_what_cannot_be_reached_is_refused(far: FarApi):
    assert FAR.exist and not heddle.ext_dev(2).exist and not FAR.is_host
    with pytest.raises(UsageError, match="U0202"):
        heddle.runtime.empty((3,), "float32", heddle.ext_dev(2))
