"""Whose memory results are: constants are lent read-only, results that are inputs are the inputs, and what a
program computed is the caller's.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.graph.types import TensorType
from heddle.script import ir as I
from heddle.script import relax as R
from heddle.support.diagnostics import TrapValueError

MODES = ("compiled", "bytecode")


@I.ir_module
class Program:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            w = R.const([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "float32")
            v = R.reshape(w, (3, 2))
            y = R.add(x, w)
            z = R.reshape(y, (3, 2))
            u = R.reshape(x, (3, 2))
            result = (w, (v, w), x, u, y, z)
            R.output(result)
        return result

    @R.function
    def chosen(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        if c:
            r = R.const([1.0, 2.0], "float32")
        else:
            r = x
        return r


def machine(mode: str) -> Any:
    return relax.VirtualMachine(heddle.compile(Program, target="llvm", exec_mode=mode), heddle.cpu())


def results(vm: Any, x: Any) -> tuple[Any, ...]:
    w, (v, again), same, u, y, z = vm["main"](x)
    return w, v, again, same, u, y, z


@pytest.mark.parametrize("mode", MODES)
def test_constants_and_their_views_are_lent_read_only(mode: str) -> None:
    vm, x = machine(mode), heddle.runtime.tensor(np.ones((2, 3), "float32"))
    for shared in results(vm, x)[:3]:
        assert shared.is_readonly
        assert not shared.numpy().flags.writeable
        assert not np.asarray(shared).flags.writeable
        assert not shared.reshape((6,)).numpy().flags.writeable
        with pytest.raises(TrapValueError, match="constant of a program") as caught:
            shared[0, 0] = 9
        assert caught.value.code == "U0304"
        with pytest.raises(TrapValueError, match="constant of a program"):
            shared.copyfrom(np.zeros(tuple(shared.shape), "float32"))
        own = np.from_dlpack(shared)
        assert own.ctypes.data != shared.address
        with pytest.raises(BufferError, match="only as a copy"):
            shared.__dlpack__(copy=False)
        copy = heddle.runtime.tensor(shared)
        copy[0, 0] = 9
        assert not copy.is_readonly
    assert results(machine(mode), x)[0].numpy()[0, 0] == 1


@pytest.mark.parametrize("mode", MODES)
def test_a_constant_that_was_chosen_is_read_only(mode: str) -> None:
    vm, x = machine(mode), heddle.runtime.tensor(np.zeros(2, "float32"))
    assert vm["chosen"](np.array(True), x).is_readonly
    assert not vm["chosen"](np.array(False), x).is_readonly


@pytest.mark.parametrize("mode", MODES)
def test_results_that_are_inputs_are_the_inputs(mode: str) -> None:
    vm, x = machine(mode), heddle.runtime.tensor(np.ones((2, 3), "float32"))
    same, u = results(vm, x)[3:5]
    assert same.address == u.address == x.address
    u[0, 0] = 7
    assert x.numpy()[0, 0] == same.numpy()[0, 0] == 7


@pytest.mark.parametrize("mode", MODES)
def test_results_are_the_callers(mode: str) -> None:
    """Two results of one value share memory; the next call's results do not share it with them."""
    vm, x = machine(mode), heddle.runtime.tensor(np.ones((2, 3), "float32"))
    y, z = results(vm, x)[5:]
    assert y.address == z.address
    y[0, 0] = 100
    assert z.numpy()[0, 0] == 100
    other = results(vm, x)[5]
    assert other.address != y.address
    assert other.numpy()[0, 0] == 2
    assert y.numpy()[0, 0] == 100
    np.from_dlpack(other)  # shares: it may be written where numpy allows it
    assert np.from_dlpack(other).ctypes.data == other.address


@pytest.mark.parametrize("mode", MODES)
def test_stateful_calls_give_the_same_memory(mode: str) -> None:
    vm, x = machine(mode), heddle.runtime.tensor(np.ones((2, 3), "float32"))
    vm.set_input("main", x)
    vm.invoke_stateful("main")
    w, _, same, _, y, _ = vm.get_outputs("main")
    assert w.is_readonly
    assert not y.is_readonly
    assert same.address == x.address or not same.is_readonly


def test_a_loaded_program_lends_its_constants_too(tmp_path: Any) -> None:
    path = tmp_path / "p.heddle"
    heddle.compile(Program, target="llvm").export_library(str(path))
    vm = relax.VirtualMachine(heddle.runtime.load_module(str(path)), heddle.cpu())
    assert vm["chosen"](np.array(True), np.zeros(2, "float32")).is_readonly


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["int4", "uint4"])
def test_four_bit_results_have_their_element_type(name: str, mode: str) -> None:
    """Computed, an argument, a view of one and a constant; stored one to a byte, as ml_dtypes stores them."""
    made = np.array([1, 5, 7, 3] if name == "uint4" else [1, -3, -8, 7]).astype(getattr(ml_dtypes, name))
    builder = relax.BlockBuilder()
    x, q = relax.Var("x", TensorType((4,), "float32")), relax.Var("q", TensorType((4,), name))
    with builder.function("main", [x, q]):
        fields = (
            builder.emit(relax.op.astype(x, name)),
            q,
            builder.emit(relax.op.reshape(q, (2, 2))),
            relax.const(made.astype(np.int8), name),
            builder.emit(relax.op.astype(q, "float32")),
        )
        builder.emit_func_output(relax.Tuple(fields))
    program = heddle.compile(builder.get(), target="llvm", exec_mode=mode)
    got = relax.VirtualMachine(program, heddle.cpu())["main"](np.float32([1, 2, 3, 4]), made)
    for one in got[:4]:
        assert one.dtype == name
        assert one.numpy().dtype == made.dtype
        assert np.asarray(one).dtype == made.dtype
    assert [one.numpy().reshape(-1).tolist() for one in got[:4]] == [[1, 2, 3, 4], *[made.tolist()] * 3]
    assert got[4].numpy().tolist() == made.astype("float32").tolist()
