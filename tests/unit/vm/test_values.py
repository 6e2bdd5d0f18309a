"""What passes between Python and programs: arguments, results, saved calls, what instruments see."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from heddle.runtime import (
    Array,
    DataType,
    Function,
    FunctionModule,
    Shape,
    Tensor,
    cpu,
    from_dlpack,
    register_global_func,
    remove_global_func,
    tensor,
)
from heddle.support.diagnostics import Trap
from heddle.vm import VMClosure
from heddle.vm.relax import ExecBuilder, VirtualMachine

from .programs import HELPERS, builder, run_machine

pytestmark = pytest.mark.usefixtures("mode")  # bytecode and compiled


def identity_machine(functions: dict[str, Any] | None = None) -> VirtualMachine:
    """main(x): identity(x), through a Python function that may note what it gets."""
    made = builder()
    with made.function("main", 1, param_names=["x"]):
        made.emit_call("identity", [made.r(0)], dst=made.r(1))
        made.emit_ret(made.r(1))
    imports = [FunctionModule({**HELPERS, **(functions or {})})]
    return VirtualMachine(made.get(imports=imports), cpu())


class Lent:
    """An array of another library."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.mark.fact("6.2", "6.3")
def test_plain_values_arrive_and_come_back() -> None:
    seen: list[Any] = []
    vm = identity_machine({"identity": lambda x: seen.append(x) or x})
    for value in (3, -(2**62), 2.5, True, False, "text", "", None, cpu(1), Shape([2, 0]), Shape([])):
        assert vm["main"](value) == value
        assert type(seen[-1]) is type(value)
        assert seen[-1] == value
    for value in (DataType("float32"), np.dtype("float32"), np.float32):
        assert vm["main"](value) == "float32"
    assert vm["main"](np.int64(4)) == 4 and type(seen[-1]) is int
    assert vm["main"](Shape([3, 4]))[1] == 4 and vm["main"](Shape([3, 4])) == (3, 4)


@pytest.mark.fact("6.2", "6.3", "12.4")
def test_arrays_arrive_without_a_copy() -> None:
    seen: list[Any] = []
    vm = identity_machine({"identity": lambda x: seen.append(x) or x})
    mine = tensor(np.arange(4, dtype="float32"))
    assert vm["main"](mine) is mine
    array = np.arange(8, dtype="float32")
    for value in (array, Lent(array)):
        result = vm["main"](value)
        assert isinstance(seen[-1], Tensor) and isinstance(result, Tensor)
        assert np.shares_memory(result.numpy(), array)
    again = from_dlpack(np.from_dlpack(vm["main"](mine)))
    assert np.shares_memory(again.numpy(), mine.numpy())


@pytest.mark.fact("6.2", "6.3")
def test_tuples_and_callables() -> None:
    vm = identity_machine()
    outer = vm["main"]((np.zeros(2), [1, ("a", None)], Shape([3])))
    assert isinstance(outer, Array) and len(outer) == 3
    first, (number, (text, nothing)), shape = outer
    assert isinstance(first, Tensor) and (number, text, nothing, shape) == (1, "a", None, (3,))
    for value in (lambda x: x + 1, partial(lambda a, b: a + b, 1), Function(lambda x: x + 1)):
        result = vm["main"](value)
        assert isinstance(result, Function)
        assert vm.invoke_closure(result, 2) == 3


@pytest.mark.fact("6.7", "6.3")
def test_a_callable_is_called_by_the_program() -> None:
    made = builder()
    with made.function("twice", 2):
        for source, target in ((1, 2), (2, 3)):
            operands = [made.vm_state(), made.r(0), made.r(source)]
            made.emit_call("vm.builtin.invoke_closure", operands, dst=made.r(target))
        made.emit_ret(made.r(3))
    with made.function("next", 1):
        made.emit_call("plus", [made.r(0), made.imm(1)], dst=made.r(1))
        made.emit_ret(made.r(1))
    with made.function("get", 0):
        made.emit_call("vm.builtin.copy", [made.f("next")], dst=made.r(0))
        made.emit_ret(made.r(0))
    vm = run_machine(made)
    assert vm["twice"](lambda x: 3 * x, 2) == 18
    closure = vm["get"]()
    assert isinstance(closure, VMClosure)
    assert vm.invoke_closure(closure, 4) == 5
    assert vm["twice"](closure, 4) == 6


@pytest.mark.fact("5.5")
def test_callees_are_found_in_imports_of_any_depth() -> None:
    register_global_func("test.values.which", lambda: "global")
    try:
        made = builder()
        with made.function("main", 0):
            made.emit_call("test.values.which", [], dst=made.r(0))
            made.emit_ret(made.r(0))
        assert VirtualMachine(made.get(), cpu())["main"]() == "global"
        middle = FunctionModule({})
        middle.import_module(FunctionModule({"test.values.which": lambda: "import"}))
        assert VirtualMachine(made.get(imports=[FunctionModule({}), middle]), cpu())["main"]() == "import"
    finally:
        remove_global_func("test.values.which")
    with pytest.raises(RuntimeError, match=r"V0301.*test\.values\.which"):
        VirtualMachine(made.get(), cpu())


def writer() -> ExecBuilder:
    """main(x, y): fill(x, y), which writes into x and gives nothing; the result is x."""
    made = builder()
    with made.function("main", 2, param_names=["x", "y"]):
        made.emit_call("fill", [made.r(0), made.r(1)])
        made.emit_ret(made.r(0))
    return made


@pytest.mark.fact("7.4")
def test_inputs_on_the_device_are_the_callers_own() -> None:
    vm = run_machine(writer())
    x = tensor(np.zeros(3, "float32"))
    vm.set_input("main", x, 4)
    vm.invoke_stateful("main")
    assert vm.get_outputs("main") is x
    assert x.numpy().tolist() == [4, 4, 4]
    with pytest.raises(RuntimeError, match=r"V0302.*expects 2 arguments \(x, y\), got 1"):
        vm.set_input("main", x)
    with pytest.raises(ValueError, match="V0301"):
        vm.set_input("nothing", x)


@pytest.mark.fact("7.1", "7.3")
def test_bound_tensors_lie_on_the_first_device() -> None:
    vm = run_machine(writer(), [cpu(1), cpu(0)])
    elsewhere, array = tensor(np.zeros(2, "float32")), np.zeros(2, "float32")
    there = tensor(np.zeros(2, "float32"), cpu(1))
    for value, is_same in ((elsewhere, False), (array, False), (there, True)):
        vm.save_function("main", "saved", value, 7)
        result = vm["saved"]()
        assert result.device == cpu(1)
        assert (result is value) == is_same
    assert elsewhere.numpy().tolist() == array.tolist() == [0, 0]
    vm = identity_machine()
    vm.set_input("main", np.zeros(2))
    vm.invoke_stateful("main")
    assert vm.get_outputs("main").device == cpu(0)


@pytest.mark.fact("7.1")
def test_saved_results_may_be_dropped_and_names_reused() -> None:
    calls: list[Any] = []
    vm = identity_machine({"identity": lambda x: calls.append(x) or x})
    vm.save_function("main", "saved", "one")
    assert vm["saved"]() == "one"
    vm.save_function("main", "saved", "two", include_return=False)
    assert vm["saved"]() is None
    assert calls == ["one", "two"]
    with pytest.raises(AssertionError, match="V0302"):
        vm.save_function("main", "wrong", "three", x="four")


@pytest.mark.fact("7.9")
def test_timing() -> None:
    calls: list[Any] = []
    prepared: list[Any] = []
    vm = identity_machine({"identity": calls.append})
    register_global_func("test.values.prepare", prepared.append)
    try:
        timed = vm.time_evaluator("main", cpu(), number=2, repeat=3, f_preproc="test.values.prepare")(5)
    finally:
        remove_global_func("test.values.prepare")
    assert len(calls) == 1 + 3 * 2
    assert prepared == [5, 5, 5]
    results = np.array(timed.results)
    assert results.shape == (3,) and (results > 0).all()
    found = (timed.mean, timed.median, timed.min, timed.max, timed.std)
    expected = (results.mean(), np.median(results), results.min(), results.max(), results.std())
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    calls.clear()
    vm.time_evaluator("main", cpu(), number=1, min_repeat_ms=2)(5)
    assert len(calls) > 2  # the number grew until a repeat lasted 2 ms


@pytest.mark.fact("8.2")
@pytest.mark.parametrize(("answer", "runs"), [(0, True), (None, True), ("1", True), (2, True), (1, False)])
def test_answers_of_instruments(answer: Any, runs: bool) -> None:
    vm = identity_machine()
    after: list[Any] = []

    def instrument(func: Any, name: str, before: bool, value: Any, *args: Any) -> Any:
        if not before:
            after.append(value)
            return 1  # is ignored
        return answer

    vm.set_instrument(instrument)
    assert vm["main"](3) == (3 if runs else None)
    assert after == ([3] if runs else [])


@pytest.mark.fact("8.1", "8.3")
def test_what_instruments_get() -> None:
    made = builder()
    with made.function("inner", 1):
        made.emit_call("identity", [made.r(0)], dst=made.r(1))
        made.emit_ret(made.r(1))
    with made.function("main", 1):
        made.emit_call(
            "vm.builtin.check_tensor_info",
            [made.r(0), made.imm(1), DataType("int8"), made.convert_constant("c")],
        )
        made.emit_call("inner", [made.r(0)], dst=made.r(1))
        made.emit_ret(made.r(1))
    vm, seen = run_machine(made), []
    vm.set_instrument(lambda func, name, before, value, *args: seen.append((func, name, before, args)))
    x = tensor(np.zeros(2, "int8"))
    vm["main"](x)
    order = ["vm.builtin.check_tensor_info"] * 2 + ["inner", "identity", "identity", "inner"]
    assert [name for _, name, _, _ in seen] == order
    func, _, _, args = seen[0]
    assert isinstance(func, Function) and isinstance(args[2], str) and args[2] == "int8"
    assert isinstance(seen[2][0], VMClosure)
    assert callable(seen[3][0]) and seen[3][3][0] is x


@pytest.mark.fact("6.4", "6.5")
def test_errors_leave_the_machine_usable() -> None:
    def refuse(x: Any) -> Any:
        raise FileNotFoundError("missing")

    vm = identity_machine({"identity": refuse})
    for _ in range(2):
        with pytest.raises(FileNotFoundError, match="missing"):
            vm["main"](1)
    with pytest.raises(Trap, match=r"V0302.*expects 1 arguments \(x\), got 2"):
        vm["main"](1, 2)


@pytest.mark.fact("12.4")
def test_results_go_to_torch_and_come_back() -> None:
    torch = pytest.importorskip("torch")
    vm = identity_machine()
    given = torch.arange(6.0).reshape(2, 3)
    result = vm["main"](given)
    back = torch.from_dlpack(result)
    assert back.data_ptr() == given.data_ptr()
    assert from_dlpack(back).address == result.address


def test_constants_share_an_entry_exactly_where_their_bits_are_equal() -> None:
    rng = np.random.default_rng(31)
    made = ExecBuilder()
    base = rng.standard_normal((13, 1009)).astype(np.float32)
    first = made.convert_constant(tensor(base))
    assert made.convert_constant(tensor(base)) == first
    operands = {first, made.convert_constant(tensor(base.reshape(1009, 13)))}
    for place in rng.choice(base.size, 20, replace=False):  # wherever they differ, sampled or not
        other = base.copy()
        other.reshape(-1)[place] = np.nextafter(other.reshape(-1)[place], np.float32(9))
        operands.add(made.convert_constant(tensor(other)))
    assert len(operands) == 22
    zeros = tensor(np.zeros(5, np.float32)), tensor(np.negative(np.zeros(5, np.float32)))
    assert len({made.convert_constant(zero) for zero in zeros}) == 2
