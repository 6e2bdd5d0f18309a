import gc
import sys
import threading
import traceback

import numpy as np
import pytest

from heddle.runtime import (
    Array,
    FunctionModule,
    Shape,
    Tensor,
    allocator_for,
    cpu,
    cuda,
    get_global_func,
    load_module,
    register_global_func,
    remove_global_func,
    tensor,
)
from heddle.support.diagnostics import Trap, UsageError
from heddle.support.limits import current_limits
from heddle.vm import VMClosure
from heddle.vm.relax import FuncKind, VirtualMachine, VMInstrumentReturnKind

from ..runtime.kernels import kernel_module
from .programs import HELPERS, builder, countdown, run_machine

pytestmark = pytest.mark.usefixtures("mode")  # bytecode and compiled


def adder():
    made = builder()
    with made.function("main", 2, param_names=["a", "b"]):
        made.emit_call("add", [made.r(0), made.r(1)], dst=made.r(2), place="net.py:7")
        made.emit_ret(made.r(2))
    return made


def returner(value_of):
    made = builder()
    with made.function("main", 1):
        value_of(made)
    return run_machine(made)


@pytest.mark.fact("6.2")
def test_call_with_tensors_and_numpy():
    vm = run_machine(adder())
    assert vm["main"](tensor([1.0]), np.array([2.0])).numpy().tolist() == [3.0]


@pytest.mark.fact("6.2")
def test_strided_input_is_made_compact():
    torch = pytest.importorskip("torch")
    vm = run_machine(adder())
    x = torch.arange(6.0).reshape(2, 3)
    assert vm["main"](x.T, x.T).numpy().tolist() == (2 * x.T).tolist()


@pytest.mark.fact("1.9", "6.6")
@pytest.mark.parametrize("n", [0, 1, 7, 5000])
def test_branches_and_recursion_deeper_than_pythons_stack(n):
    assert run_machine(countdown())["main"](n) == n


@pytest.mark.fact("6.8")
def test_recursion_through_closures_is_deep_too():
    made = builder()
    with made.function("down", 2):
        made.emit_call("is_zero", [made.r(0)], dst=made.r(2))
        made.emit_if(made.r(2), 2)
        made.emit_ret(made.r(1))
        made.emit_call("minus_one", [made.r(0)], dst=made.r(3))
        made.emit_call("vm.builtin.make_closure", [made.f("down"), made.r(1)], dst=made.r(4))
        made.emit_call("vm.builtin.invoke_closure", [made.vm_state(), made.r(4), made.r(3)], dst=made.r(5))
        made.emit_ret(made.r(5))
    vm = run_machine(made)
    assert vm["down"](3000, "end") == "end"
    vm.set_instrument(lambda *args: None)
    assert vm["down"](20, "end") == "end"


def test_results_of_python_functions_become_runtime_values():
    made = builder()
    with made.function("main", 0):
        made.emit_call("python", [], dst=made.r(0))
        made.emit_call("vm.builtin.check_tuple_info", [made.r(0), made.imm(2), made.convert_constant("")])
        made.emit_ret(made.r(0))
    functions = FunctionModule({"python": lambda: (np.zeros(2), [1])})
    result = VirtualMachine(made.get(imports=[functions]), cpu())["main"]()
    assert isinstance(result[0], Tensor)
    assert isinstance(result[1], Array)


def test_endless_recursion_is_a_trap_and_the_machine_stays_usable():
    made = builder()
    with made.function("main", 1):
        made.emit_call("main", [made.r(0)], dst=made.r(1))
        made.emit_call("vm.builtin.make_tuple", [made.r(1)], dst=made.r(2))
        made.emit_ret(made.r(2))
    with made.function("fine", 1):
        made.emit_ret(made.r(0))
    vm = run_machine(made)
    with pytest.raises(Trap, match="V0305"):
        vm["main"](1)
    assert vm["fine"](3) == 3


def test_a_call_in_tail_position_needs_no_frame():
    """More rounds than there may be frames; through a copy, a cleared register and a jump."""
    made = builder()
    with made.function("main", 2):
        made.emit_if(made.r(0), 8)
        made.emit_call("test.tail.minus_one", [made.r(0)], dst=made.r(2))
        made.emit_call("test.tail.plus_two", [made.r(1)], dst=made.r(3))
        made.emit_call("main", [made.r(2), made.r(3)], dst=made.r(4))
        made.emit_call("vm.builtin.null_value", [], dst=made.r(2))
        made.emit_call("vm.builtin.copy", [made.r(4)], dst=made.r(5))
        made.emit_goto(3)
        made.emit_call("vm.builtin.null_value", [], dst=made.r(3))
        made.emit_call("vm.builtin.copy", [made.r(1)], dst=made.r(5))
        made.emit_ret(made.r(5))
    functions = {"test.tail.minus_one": lambda n: n - 1, "test.tail.plus_two": lambda n: n + 2}
    executable = made.get(imports=[FunctionModule(functions)])
    rounds = current_limits().frames + 10
    assert VirtualMachine(executable, cpu())["main"](rounds, 1) == 1 + 2 * rounds


@pytest.mark.fact("6.9")
def test_void_destination_of_a_program_function_is_dropped():
    made = builder()
    with made.function("inner", 0):
        made.emit_call("vm.builtin.copy", [made.imm(1)], dst=made.r(0))
        made.emit_ret(made.r(0))
    with made.function("main", 1):
        made.emit_call("inner", [])
        made.emit_ret(made.r(0))
    assert run_machine(made)["main"](9) == 9


@pytest.mark.fact("6.3")
def test_results_of_every_kind():
    def result(value):
        def emit(made):
            made.emit_call("identity", [value(made)], dst=made.r(1))
            made.emit_ret(made.r(1))

        return returner(emit)["main"](0)

    assert result(lambda b: b.imm(-3)) == -3
    assert result(lambda b: b.convert_constant(2.5)) == 2.5
    assert result(lambda b: b.convert_constant("text")) == "text"
    assert result(lambda b: b.convert_constant(Shape([2, 3]))) == (2, 3)
    assert result(lambda b: b.void_arg()) is None
    assert result(lambda b: b.convert_constant(tensor([1.0]))).numpy().tolist() == [1.0]
    assert isinstance(result(lambda b: b.f("main")), VMClosure)


@pytest.mark.fact("6.2", "6.3")
def test_nested_tuples_come_back_as_arrays():
    made = builder()
    with made.function("main", 2):
        made.emit_call("vm.builtin.make_tuple", [made.r(0), made.r(1)], dst=made.r(2))
        made.emit_call("vm.builtin.make_tuple", [made.r(2), made.imm(4)], dst=made.r(3))
        made.emit_ret(made.r(3))
    (a, b), c = run_machine(made)["main"](np.zeros(1), (1, [2]))
    assert isinstance(a, Tensor)
    assert (b, c) == ((1, (2,)), 4)
    assert isinstance(b, Array)


@pytest.mark.fact("6.10")
def test_kill_leaves_copies_alive():
    made = builder()
    with made.function("main", 1):
        made.emit_call("vm.builtin.copy", [made.r(0)], dst=made.r(1))
        made.emit_call("vm.builtin.null_value", [], dst=made.r(0))
        made.emit_call("vm.builtin.make_tuple", [made.r(0), made.r(1)], dst=made.r(2))
        made.emit_ret(made.r(2))
    assert run_machine(made)["main"](5) == (None, 5)


@pytest.mark.fact("6.4")
def test_wrong_number_of_arguments_names_the_parameters():
    vm = run_machine(adder())
    with pytest.raises(RuntimeError, match=r"V0302.*expects 2 arguments \(a, b\), got 1"):
        vm["main"](1)


@pytest.mark.fact("5.5", "6.1", "7.1", "7.4")
def test_unknown_functions():
    vm = run_machine(adder())
    with pytest.raises(AttributeError, match=r"(?s)V0301.*did you mean 'main'"):
        vm["mian"]
    for call in (vm.save_function, vm.set_input):
        with pytest.raises(ValueError, match="V0301"):
            call("nothing", "x")
    made = builder()
    with made.function("main", 0):
        made.emit_call("nobody.provides.this", [], dst=made.r(0))
        made.emit_ret(made.r(0))
    with pytest.raises(RuntimeError, match=r"nobody\.provides\.this"):
        run_machine(made)


@pytest.mark.parametrize("name", [3, None, ["main"], {}])
def test_names_of_functions_are_texts(name):
    vm = run_machine(adder())
    calls = (vm.__getitem__, vm.set_input, vm.invoke_stateful, vm.get_outputs)
    for call in (*calls, lambda name: vm.save_function(name, "saved")):
        with pytest.raises(TypeError, match=r"V0402.*expected the name of a function"):
            call(name)
    assert vm["main"]


@pytest.mark.fact("5.5")
def test_imports_come_before_global_functions():
    register_global_func("identity", lambda x: "global")
    try:
        assert (
            returner(lambda b: (b.emit_call("identity", [b.r(0)], dst=b.r(1)), b.emit_ret(b.r(1))))["main"](3)
            == 3
        )
    finally:
        remove_global_func("identity")


@pytest.mark.fact("6.5")
def test_exceptions_keep_type_and_frame_and_leave_the_machine_clean():
    def boom(x):
        if x == 13:
            raise KeyError("bad luck")
        return x

    made = builder()
    with made.function("inner", 1):
        made.emit_call("boom", [made.r(0)], dst=made.r(1))
        made.emit_ret(made.r(1))
    with made.function("main", 1):
        made.emit_call("inner", [made.r(0)], dst=made.r(1))
        made.emit_ret(made.r(1))
    vm = VirtualMachine(made.get(imports=[FunctionModule({"boom": boom})]), cpu())
    for _ in range(3):
        with pytest.raises(KeyError) as caught:
            vm["main"](13)
        assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "boom"
        assert vm["main"](5) == 5


def test_traps_say_which_instruction_and_where_it_came_from():
    made = builder()
    with made.function("main", 1):
        made.emit_call(
            "vm.builtin.check_shape_info",
            [made.r(0), made.imm(1), made.convert_constant("ctx")],
            place="net.py:9",
        )
        made.emit_ret(made.r(0))
    with pytest.raises(TypeError) as caught:
        run_machine(made)["main"](3)
    assert caught.value.diagnostics[0].notes == ("instruction 0 of 'main'",)
    assert "\n  --> net.py:9\n" in str(caught.value)


@pytest.mark.fact("6.6")
def test_reentrancy_through_a_callback():
    machines = []
    made = builder()
    with made.function("main", 1):
        made.emit_call("back", [made.r(0)], dst=made.r(1))
        made.emit_call("plus", [made.r(0), made.r(1)], dst=made.r(2))
        made.emit_ret(made.r(2))
    back = lambda n: machines[0]["main"](n - 1) if n else 0  # noqa: E731
    machines.append(VirtualMachine(made.get(imports=[FunctionModule({**HELPERS, "back": back})]), cpu()))
    assert machines[0]["main"](10) == 55


def test_one_machine_in_several_threads(mode):
    """Bytecode has its frames in Python and may share; machine code refuses the second thread."""
    vm = run_machine(countdown())
    wrong = []

    def work(n):
        for _ in range(20):
            try:
                result = vm["main"](n)
            except Trap as error:
                if mode == "bytecode" or "V0307" not in str(error):
                    wrong.append(error)
                continue
            if result != n:
                wrong.append(n)

    workers = [threading.Thread(target=work, args=(n,)) for n in (50, 70, 90)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
    assert vm["main"](5) == 5


@pytest.mark.fact("4.2", "4.4")
def test_compiled_kernels_run(tmp_path):
    made = builder()
    with made.function("main", 2):
        made.emit_call("scale", [made.r(0), made.convert_constant(3.0), made.r(1)])
        made.emit_ret(made.r(1))
    executable = made.get(imports=[kernel_module()])
    executable.export_library(tmp_path / "k.heddle")
    loaded = load_module(tmp_path / "k.heddle")
    for each in (executable, loaded):
        vm = VirtualMachine(each, cpu())
        out = np.zeros(4, "float32")
        assert vm["main"](np.ones(4, "float32"), out).numpy().tolist() == [3.0] * 4
        assert out.tolist() == [3.0] * 4
        assert vm.module.imports[0].kind == vm.executable.mod.imports[0].kind == "llvm"
        assert vm.module.imports[0].get_function("scale", query_imports=True)
        with pytest.raises(AttributeError):
            vm.module.imports[0].get_function("scael", query_imports=True)


def test_compiled_functions_work_on_registers():
    def compiled(vm, registers, constants, functions):
        assert isinstance(vm, VirtualMachine)
        registers[2] = registers[0] + registers[1] + constants[0][0]

    made = builder()
    made.define_vmtir_function("twice", 2, 3, ["a", "b"])
    with made.function("main", 1):
        made.emit_call("twice", [made.r(0), made.imm(10)], dst=made.r(1))
        made.emit_call("identity", [(100,)], dst=made.r(2))
        made.emit_ret(made.r(1))
    assert made.get().program.functions[0].kind is FuncKind.VMTIR
    vm = VirtualMachine(made.get(imports=[FunctionModule({**HELPERS, "__vmtir__twice": compiled})]), cpu())
    assert vm["main"](1) == 111
    assert vm["twice"](1, 2) == 103
    with pytest.raises(RuntimeError, match="V0302"):
        vm["twice"](1)


# Devices and memory


@pytest.mark.fact("4.3", "5.1", "5.2")
def test_devices_and_host():
    executable = adder().get(imports=[FunctionModule(HELPERS)])
    devices = [cpu(0), cpu(1)]
    vm = VirtualMachine(executable, devices)
    assert vm.devices == [cpu(0), cpu(1)]
    assert vm.host_device == cpu(1)
    with pytest.raises(TypeError, match="V0303"):
        VirtualMachine(executable, "cpu")
    with pytest.raises(UsageError, match="U0202"):
        VirtualMachine(executable, cuda(0))
    with pytest.raises(ValueError, match="V0303"):
        VirtualMachine(object(), cpu())


@pytest.mark.fact("5.5", "4.6")
def test_constants_are_placed_on_the_first_device():
    def emit(made):
        made.emit_call("identity", [tensor([1.0])], dst=made.r(1))
        made.emit_ret(made.r(1))

    made = builder()
    with made.function("main", 0):
        emit(made)
    assert run_machine(made, cpu(2))["main"]().device == cpu(2)
    made.memory_scopes[0] = "texture"
    with pytest.raises(UsageError, match="texture"):
        run_machine(made)


@pytest.mark.fact("5.3", "5.4")
def test_memory_configurations():
    executable = adder().get(imports=[FunctionModule(HELPERS)])
    kinds = lambda config, devices: [a.kind for a in VirtualMachine(executable, devices, config).allocators]  # noqa: E731
    assert kinds(None, cpu()) == ["pooled"]
    assert kinds("naive", [cpu(0), cpu(1)]) == ["naive", "naive"]
    assert kinds({cpu(1): "naive"}, [cpu(0), cpu(1)]) == ["pooled", "naive"]
    assert VirtualMachine(executable, cpu()).allocators[0] is allocator_for(cpu())
    with pytest.raises(AssertionError, match="V0303"):
        kinds("arena", cpu())
    with pytest.raises(TypeError, match="V0303"):
        kinds(3, cpu())


@pytest.mark.fact("5.3", "9.14")
@pytest.mark.parametrize("config", ["naive", {cpu(1): "naive"}])
def test_copies_and_constants_come_from_the_configured_allocator(config):
    """Told by the books: in use of the naive allocator, not of the pool."""
    naive, pooled = allocator_for(cpu(1), "naive"), allocator_for(cpu(1))

    def in_use():
        return naive.books.bytes_in_use, pooled.books.bytes_in_use

    size_bytes = 4 * 1024
    made = builder()
    with made.function("main", 1):
        made.emit_call("vm.builtin.to_device", [made.r(0), made.imm(1), made.imm(1)], dst=made.r(1))
        made.emit_ret(made.r(1))
    with made.function("weights", 0):
        made.emit_call("identity", [tensor(np.ones(1024, "float32"))], dst=made.r(0))
        made.emit_ret(made.r(0))
    gc.collect()  # machines of other tests give back theirs
    start = in_use()
    vm = run_machine(made, [cpu(1), cpu(0)], memory_cfg=config)
    assert in_use() == (start[0] + size_bytes, start[1])  # the constant
    copy = vm["main"](np.zeros(1024, "float32"))
    assert copy.device == cpu(1)
    assert in_use() == (start[0] + 2 * size_bytes, start[1])
    vm.set_input("main", np.zeros(1024, "float32"))
    assert in_use() == (start[0] + 3 * size_bytes, start[1])
    made = builder()
    with made.function("main", 1):
        made.emit_call("vm.builtin.to_device", [made.r(0)], dst=made.r(1))
        made.emit_ret(made.r(1))
    with pytest.raises(RuntimeError, match="V0408"):
        run_machine(made)


# Saved functions and the stateful interface


@pytest.mark.fact("6.1", "7.1")
def test_save_function():
    vm = run_machine(adder())
    vm.save_function("main", "saved", np.array([1.0]), np.array([2.0]))
    assert vm["saved"]().numpy().tolist() == [3.0]
    vm.save_function("main", "saved", b=np.array([1.0]), a=np.array([5.0]))
    assert vm["saved"]().numpy().tolist() == [6.0]
    vm.save_function("main", "quiet", 1, 2, include_return=False)
    assert vm["quiet"]() is None
    vm.save_function("main", "main", 1, 2)
    assert vm["main"]().numpy().tolist() == 3


@pytest.mark.fact("7.2")
def test_save_function_keywords(capsys):
    vm = run_machine(adder())
    vm.save_function("main", "saved", 1, 2, wrong=3)
    assert "wrong is not a parameter of main" in capsys.readouterr().out
    vm.save_function("main", "saved", 4, a=3)
    assert vm["saved"]().item() == 7
    for args, kwargs in (((1, 2), {"a": 3}), ((), {"a": 3})):
        with pytest.raises(AssertionError, match="V0302"):
            vm.save_function("main", "saved", *args, **kwargs)


@pytest.mark.fact("7.3", "7.4")
def test_bound_values_become_tensors():
    made = builder()
    with made.function("main", 1):
        made.emit_ret(made.r(0))
    vm = run_machine(made)

    def bound(value):
        vm.set_input("main", value)
        vm.invoke_stateful("main")
        return vm.get_outputs("main")

    assert (bound(3).dtype, bound(True).dtype, bound(2.5).dtype) == ("int32", "int32", "float32")
    assert [(bound(value).shape, bound(value).item()) for value in (3, True, 2.5)] == [
        ((), 3),
        ((), 1),
        ((), 2.5),
    ]
    array = bound(np.arange(3))
    assert isinstance(array, Tensor) and array.device == cpu(0)
    assert bound(np.float16(1)).dtype == "float16"
    assert bound("text") == "text"
    assert isinstance(bound([1, (2.0,)]), tuple)
    same = tensor([1.0])
    assert bound(same) is same
    with pytest.raises(TypeError, match="V0303"):
        bound(object())


@pytest.mark.fact("7.4", "7.5", "7.6", "7.7")
def test_stateful_calls():
    made = builder()
    with made.function("main", 2, param_names=["a", "b"]):
        made.emit_call("add", [made.r(0), made.r(1)], dst=made.r(2))
        made.emit_call("vm.builtin.make_tuple", [made.r(2), made.r(0)], dst=made.r(3))
        made.emit_call("vm.builtin.make_tuple", [made.r(3), made.r(1)], dst=made.r(4))
        made.emit_ret(made.r(4))
    vm = run_machine(made)
    with pytest.raises(ValueError, match="set_input"):
        vm.invoke_stateful("main")
    with pytest.raises(RuntimeError, match="V0302"):
        vm.set_input("main", 1)
    vm.set_input("main", np.array([1.0]), b=np.array([2.0]))
    with pytest.raises(ValueError, match="invoke_stateful"):
        vm.get_outputs("main")
    vm.invoke_stateful("main")
    outputs = vm.get_outputs("main")
    assert type(outputs) is tuple
    assert type(outputs[0]) is tuple
    assert outputs[0][0].numpy().tolist() == [3.0]
    assert vm.get_output_arity("main") == 2
    assert vm.get_output_arity("main", 0) == 2
    assert vm.get_output_arity("main", 1) == -1
    assert vm.get_output("main", 0, 0).numpy().tolist() == [3.0]
    with pytest.raises(ValueError, match="is a tuple of 2"):
        vm.get_output("main", 0)
    with pytest.raises(IndexError):
        vm.get_output("main", 5)
    with pytest.raises(ValueError, match="V0306"):
        vm.get_output("main", 1, 0)
    assert vm.get_function_arity("main") == 2
    assert vm.get_function_param_name("main", 1) == "b"
    with pytest.raises(IndexError):
        vm.get_function_param_name("main", 2)
    with pytest.raises(RuntimeError, match="V0302"):
        vm["main"]()


@pytest.mark.fact("7.8")
def test_inputs_from_a_parameter_module():
    vm = run_machine(adder())
    vm.set_input_with_param_module(
        "main", np.array([1.0]), FunctionModule({"get_params": lambda: tensor([4.0])})
    )
    vm.invoke_stateful("main")
    assert vm.get_outputs("main").numpy().tolist() == [5.0]


@pytest.mark.fact("7.9")
def test_time_evaluator():
    calls = []
    made = builder()
    with made.function("main", 1):
        made.emit_call("note", [made.r(0)], dst=made.r(1))
        made.emit_ret(made.r(1))
    vm = VirtualMachine(made.get(imports=[FunctionModule({"note": calls.append})]), cpu())
    result = vm.time_evaluator("main", cpu(), number=3, repeat=2)(1)
    assert len(result.results) == 2
    assert len(calls) == 7
    vm.save_function("main", "saved", 2)
    vm.time_evaluator("saved", cpu(), number=1)()
    vm.set_input("main", 3)
    vm.time_evaluator("invoke_stateful", cpu(), number=1)("main")
    assert len(calls) == 11
    with pytest.raises(UsageError, match="U0801"):
        vm.time_evaluator("main", cpu(), number=0)
    with pytest.raises(AttributeError):
        vm.time_evaluator("missing", cpu())


# Instruments


@pytest.mark.fact("8.1")
def test_instrument_sees_every_call_before_and_after():
    seen = []
    vm = run_machine(countdown())
    vm.set_instrument(lambda func, name, before, value, *args: seen.append((name, before, value, args)))
    assert vm["main"](1) == 1
    assert seen == [
        ("is_zero", True, None, (1,)),
        ("is_zero", False, False, (1,)),
        ("minus_one", True, None, (1,)),
        ("minus_one", False, 0, (1,)),
        ("main", True, None, (0,)),
        ("is_zero", True, None, (0,)),
        ("is_zero", False, True, (0,)),
        ("vm.builtin.copy", True, None, (0,)),
        ("vm.builtin.copy", False, 0, (0,)),
        ("main", False, 0, (0,)),
        ("plus", True, None, (0, 1)),
        ("plus", False, 1, (0, 1)),
    ]
    vm.set_instrument(None)
    seen.clear()
    assert vm["main"](3) == 3
    assert seen == []


@pytest.mark.fact("8.2")
def test_instrument_can_skip():
    vm = run_machine(adder())
    after = []

    def skip(func, name, before, value, *args):
        after.append(before)
        return VMInstrumentReturnKind.SKIP_RUN

    vm.set_instrument(skip)
    assert vm["main"](1, 2) is None
    assert after == [True]


@pytest.mark.fact("8.3")
def test_instrument_gets_callables_and_can_be_a_global_name():
    seen = []

    def spy(func, name, before, value, *args):
        seen.append(func(*args) if before else None)

    register_global_func("test.instrument", spy)
    try:
        vm = run_machine(adder())
        vm.set_instrument("test.instrument")
        vm["main"](tensor([1.0]), tensor([2.0]))
    finally:
        remove_global_func("test.instrument")
    assert seen[0].numpy().tolist() == [3.0]
    with pytest.raises(ValueError, match="U0401"):
        vm.set_instrument("test.instrument")


def test_instrument_that_raises_leaves_the_machine_clean():
    vm = run_machine(countdown())

    def fail(func, name, before, value, *args):
        raise LookupError(name)

    vm.set_instrument(fail)
    with pytest.raises(LookupError):
        vm["main"](3)
    vm.set_instrument(None)
    assert vm["main"](3) == 3


def test_frames_do_not_keep_values_alive():
    vm = run_machine(adder())
    value = tensor([1.0])
    before = sys.getrefcount(value)
    vm["main"](value, value)
    assert sys.getrefcount(value) == before


def test_machine_registers_builtins():
    assert get_global_func("vm.builtin.copy")(3) == 3
