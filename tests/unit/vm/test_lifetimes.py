"""Machines that check lifetimes: each fault of a program written by hand is found, with its place, and
programs without faults are run as ever. Each in both modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import heddle
from heddle.driver.compile import with_machine_code
from heddle.runtime import FunctionModule, Shape, cpu
from heddle.runtime.dtype import DataType
from heddle.runtime.storage import POISONED, allocator_for
from heddle.script import from_source
from heddle.support.diagnostics import Trap, UsageError
from heddle.target import Target
from heddle.vm.objects import BytecodeError
from heddle.vm.program import CHECKS_LIFETIMES
from heddle.vm.relax import ExecBuilder, VirtualMachine
from tests.fuzz.networks import CONVOLUTION, ENCODER, is_right

from .programs import HELPERS, builder

pytestmark = pytest.mark.parametrize("exec_mode", ["bytecode", "compiled"])
FLOAT = DataType("float32")
FILL = "fill"


def machine(made: ExecBuilder, exec_mode: str, checks: bool = True) -> VirtualMachine:
    if checks:
        made.metadata[CHECKS_LIFETIMES] = "yes"
    executable = made.get(imports=[FunctionModule(HELPERS)])
    if exec_mode == "compiled":
        executable = with_machine_code(executable, Target("llvm"), None)
    return VirtualMachine(executable, cpu())


class Program:
    """`main` over registers: storages, tensors of four floats on them, and what is done with them."""

    def __init__(self, num_inputs: int = 0) -> None:
        self.made = builder()
        self._context = self.made.function("main", num_inputs=num_inputs)
        self._context.__enter__()

    def storage(self, register: int, num_floats: int = 4) -> Program:
        operands = [self.made.vm_state(), Shape((num_floats,)), self.made.imm(0), FLOAT]
        return self.call("vm.builtin.alloc_storage", operands, register)

    def tensor(self, register: int, storage: int, first: int = 0, count: int = 4) -> Program:
        operands = [self.made.r(storage), self.made.imm(4 * first), Shape((count,)), FLOAT]
        return self.call("vm.builtin.alloc_tensor", operands, register)

    def fill(self, register: int, value: int) -> Program:
        return self.call(FILL, [self.made.r(register), self.made.imm(value)], None)

    def call(self, name: str, operands: list[Any], register: int | None) -> Program:
        self.made.emit_call(name, operands, dst=None if register is None else self.made.r(register))
        return self

    def on(self, name: str, registers: list[int], register: int | None) -> Program:
        return self.call(name, [self.made.r(number) for number in registers], register)

    def clear(self, register: int) -> Program:
        return self.call("vm.builtin.null_value", [], register)

    def ret(self, register: int) -> ExecBuilder:
        self.made.emit_ret(self.made.r(register))
        self._context.__exit__(None, None, None)
        return self.made


def two_tensors() -> Program:
    """%1 filled with 1, and %2 on the same memory, filled with 2."""
    return Program().storage(0).tensor(1, 0).fill(1, 1).tensor(2, 0).fill(2, 2)


FAULTS: dict[str, tuple[Callable[[], ExecBuilder], str, str]] = {
    "a tensor is read after it was cleared": (
        lambda: Program().storage(0).tensor(1, 0).clear(1).fill(1, 1).ret(0),
        "V0409.*register %1 of 'main' is read after instruction 2",
        "instruction 3 of 'main'",
    ),
    "a storage is used after it was cleared": (
        lambda: Program().storage(0).clear(0).tensor(1, 0).ret(1),
        "V0409.*register %0 of 'main'",
        "instruction 2 of 'main'",
    ),
    "a cleared register is the result": (
        lambda: Program().storage(0).tensor(1, 0).clear(1).ret(1),
        "V0409.*register %1",
        "instruction 3 of 'main'",
    ),
    "a tensor whose memory is another's is an operand": (
        lambda: two_tensors().on("add", [1, 2], 3).ret(3),
        "V0410.*register %1 of 'main' is read after instruction 3 of 'main'",
        "instruction 5 of 'main'",
    ),
    "it is the result": (lambda: two_tensors().ret(1), "V0410.*register %1", "instruction 5 of 'main'"),
    "it is a copy": (
        lambda: Program().storage(0).tensor(1, 0).on("vm.builtin.copy", [1], 3).tensor(2, 0).ret(3),
        "V0410.*register %2 of 'main'",
        "instruction 4 of 'main'",
    ),
    "it lies in a tuple": (
        lambda: (
            Program()
            .storage(0)
            .tensor(1, 0)
            .on("vm.builtin.make_tuple", [1], 3)
            .tensor(2, 0)
            .on("identity", [3], 4)
            .ret(4)
        ),
        "V0410.*register %2 of 'main'",
        "instruction 4 of 'main'",
    ),
    "a part of its memory is another's": (
        lambda: Program().storage(0, 6).tensor(1, 0).tensor(2, 0, 3, 3).ret(1),
        "V0410.*register %1",
        "instruction 3 of 'main'",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found_with_their_place(fault: str, exec_mode: str) -> None:
    make, message, place = FAULTS[fault]
    machine(make(), exec_mode, checks=False)  # the verifier takes it
    vm = machine(make(), exec_mode)
    for _ in range(2):
        with pytest.raises(Trap, match=message) as found:
            vm["main"]()
        assert place in found.value.diagnostics[0].notes[-1]


def test_a_register_that_is_never_written_is_found_before_anything_runs(exec_mode: str) -> None:
    with pytest.raises(BytecodeError, match="V0107"):
        machine(Program().on("identity", [3], 4).ret(4), exec_mode)


def neighbours() -> ExecBuilder:
    """Two tensors of one storage, which share none of its memory."""
    program = Program().storage(0, 8).tensor(1, 0).tensor(2, 0, 4).fill(1, 1).fill(2, 2)
    return program.on("add", [1, 2], 3).ret(3)


def one_after_the_other() -> ExecBuilder:
    """The first is dropped before its memory is given away; its element of a tuple is not asked for."""
    program = Program().storage(0).storage(5).tensor(1, 0).fill(1, 5).tensor(4, 5).fill(4, 3)
    program.on("vm.builtin.make_tuple", [1, 4], 6).clear(1).tensor(2, 0).fill(2, 0)
    program.call("vm.builtin.tuple_getitem", [program.made.r(6), program.made.imm(1)], 3)
    return program.ret(3)


def written_again() -> ExecBuilder:
    """A register that was cleared takes another value; one that holds nothing is read."""
    program = Program().storage(0).tensor(1, 0).clear(1).tensor(1, 0).fill(1, 3).clear(2)
    program.on("identity", [2], 4)
    return program.ret(1)


@pytest.mark.parametrize("make", [neighbours, one_after_the_other, written_again])
def test_good_programs_run(make: Callable[[], ExecBuilder], exec_mode: str) -> None:
    np.testing.assert_array_equal(machine(make(), exec_mode)["main"]().numpy(), np.full(4, 3, np.float32))


def test_memory_that_nobody_wrote_is_seen(exec_mode: str) -> None:
    """That of a storage, and that of a tensor on a storage which was used before."""
    fresh = machine(Program().storage(0).tensor(1, 0).ret(1), exec_mode)["main"]().numpy()
    used = Program().storage(0).tensor(1, 0).fill(1, 1).clear(1).tensor(2, 0).ret(2)
    assert np.isnan(fresh).all()
    assert np.isnan(machine(used, exec_mode)["main"]().numpy()).all()


def test_memory_that_was_given_back_is_seen(exec_mode: str) -> None:
    del exec_mode
    allocator = allocator_for(cpu(), POISONED)
    storage = allocator.alloc(64)
    held = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_float * 16).from_address(storage.address))
    held[:] = 1
    kept = allocator.books.keeps_blocks
    allocator.books.keeps_blocks = 1  # so that the block is not the system's while it is looked at
    try:
        del storage
        assert np.isnan(held).all()
    finally:
        allocator.books.keeps_blocks = kept
        allocator.clear()


@pytest.mark.parametrize("network", [ENCODER, CONVOLUTION], ids=lambda network: network.name)
def test_networks_have_no_faults(network: Any, exec_mode: str) -> None:
    executable = heddle.compile(from_source(network.source), exec_mode=exec_mode, sanitize=True)
    vm = VirtualMachine(executable, cpu())
    inputs, _ = network.inputs(np.random.default_rng(3))
    for _ in range(2):
        assert is_right(network, inputs, vm["main"](*inputs))


def test_a_profile_may_watch_it_meanwhile(exec_mode: str) -> None:
    vm = machine(two_tensors().ret(1), exec_mode)
    vm.profile("main")
    with vm.running_with(lambda function, args: 7):
        assert vm["main"]() == 7
        with pytest.raises(UsageError, match="V0501"), vm.running_with(lambda function, args: 8):
            pass
    with pytest.raises(Trap, match="V0410"):
        vm["main"]()
