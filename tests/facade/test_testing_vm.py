"""Functions for test programs under TVM's names."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from heddle.relax.testing.vm import check_saved_func

import heddle
from heddle.vm.relax import ExecBuilder


def of(name):
    return heddle.get_global_func(f"test.vm.{name}")


@pytest.mark.fact("12.2")
def test_functions_are_registered_on_import():
    a, b = heddle.runtime.tensor(np.array([1.0, 0.0])), heddle.runtime.tensor(np.array([3.0, 4.0]))
    assert of("move")(a) is a
    assert of("add")(a, b).numpy().tolist() == [4, 4]
    assert of("mul")(a, b).numpy().tolist() == [3, 0]
    assert of("equal_zero")(a).numpy().tolist() == [False, True]
    assert of("subtract_one")(b).numpy().tolist() == [2, 3]
    assert of("add_scalar")(2, 3) == 5
    assert of("get_device_id")(heddle.cpu(1)) == 1
    assert (of("check_if_defined")(a), of("check_if_defined")(None)) == (True, False)


@pytest.mark.fact("12.2")
def test_destinations_are_written_through():
    a = np.arange(6.0).reshape(2, 3)
    same, twice = np.zeros((2, 3)), np.zeros((2, 6))
    of("identity")(a, same)
    of("tile")(a, twice)
    np.testing.assert_array_equal(same, a)
    np.testing.assert_array_equal(twice, np.tile(a, (1, 2)))


@pytest.mark.fact("12.2")
def test_saved_function():
    ib = ExecBuilder()
    with ib.function("main", num_inputs=2):
        ib.emit_call("test.vm.add", [ib.r(0), ib.r(1)], dst=ib.r(2))
        ib.emit_ret(ib.r(2))
    vm = heddle.relax.VirtualMachine(ib.get(), heddle.cpu())
    x = heddle.runtime.tensor(np.ones(3))
    assert check_saved_func(vm, "main", x, x).numpy().tolist() == [2, 2, 2]
    state = []

    def counting(a, b):
        state.append(1)
        return heddle.runtime.tensor(a.numpy() * len(state))

    heddle.register_global_func("test.counting", counting)
    with ib.function("other", num_inputs=2):
        ib.emit_call("test.counting", [ib.r(0), ib.r(1)], dst=ib.r(2))
        ib.emit_ret(ib.r(2))
    vm = heddle.relax.VirtualMachine(ib.get(), heddle.cpu())
    with pytest.raises(AssertionError):
        check_saved_func(vm, "other", x, x)
    heddle.ffi.remove_global_func("test.counting")


def test_builtins_are_global_without_a_machine():
    """Programs look these names up with get_global_func."""
    program = "import heddle; heddle.get_global_func('vm.builtin.kv_state_clear')"
    subprocess.run([sys.executable, "-c", program], check=True)
