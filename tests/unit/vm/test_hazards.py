"""What happens between Python and machine code, in both modes: deep recursion, large values, threads."""

import gc
import sys
import threading
import weakref

import numpy as np
import pytest

from heddle.runtime import Array, DataType, FunctionModule, Shape, Tensor, allocator_for, cpu, tensor
from heddle.support.diagnostics import HeddleError, Trap
from heddle.support.limits import limits
from heddle.vm import VMClosure
from heddle.vm.encode import assemble, encode_arg
from heddle.vm.isa import ArgKind, Instruction
from heddle.vm.relax import FuncKind, FunctionRow, Program, VirtualMachine, VMExecutable
from heddle.vm.relax.isa import CALL, GOTO, RELAX, RET, VM_STATE

from .programs import HELPERS, builder, countdown, run_machine

pytestmark = pytest.mark.usefixtures("mode")  # bytecode and compiled


def machine(made, **functions):
    return VirtualMachine(made.get(imports=[FunctionModule({**HELPERS, **functions})]), cpu())


# Stacks


def endless():
    """main(n): for ever deeper, not in tail position."""
    made = builder()
    with made.function("main", 1):
        made.emit_call("main", [made.r(0)], dst=made.r(1))
        made.emit_call("vm.builtin.make_tuple", [made.r(1)], dst=made.r(2))
        made.emit_ret(made.r(2))
    with made.function("fine", 1):
        made.emit_ret(made.r(0))
    return made


@pytest.mark.parametrize("stack_kib", [128, 256, 1024, 16384])
def test_endless_recursion_is_a_trap_on_stacks_of_any_size(stack_kib):
    vm = machine(endless())
    seen = []

    def work():
        for name in ("main", "main"):
            try:
                vm[name](1)
            except Trap as error:
                seen.append(error.code)

    old = threading.stack_size(stack_kib << 10)
    try:
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
    finally:
        threading.stack_size(old)
    assert seen == ["V0305", "V0305"]
    assert vm["fine"](3) == 3


@pytest.mark.parametrize("is_allowed", [True, False])
def test_a_frame_larger_than_the_stack_has_a_segment_of_its_own(mode, is_allowed):
    """A function with more registers than a thread's stack holds: compiled code needs more stack, which the
    limit bounds."""
    made = builder()
    count = 40_000
    with made.function("main", 1):
        for number in range(count):
            made.emit_call("vm.builtin.copy", [made.r(0)], dst=made.r(number + 1))
        made.emit_ret(made.r(count))
    if mode == "compiled":
        # Too long to compile in a test: the frame of a function is what counts, so give it registers.
        made = builder()
        with made.function("main", 30_000):
            made.emit_ret(made.r(0))
    with limits(stack_bytes=64 << 20 if is_allowed else 1 << 20):
        vm = machine(made)
    seen = []

    def work():
        try:
            seen.append(vm["main"](*[7] * (1 if mode == "bytecode" else 30_000)))
        except Trap as error:
            seen.append(error.code)

    old = threading.stack_size(512 << 10)
    try:
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
    finally:
        threading.stack_size(old)
    assert seen == [7 if mode == "bytecode" or is_allowed else "V0305"]


def nest():
    """main(n): (((...))), n deep, made in a loop of tail calls; drop(n): the same, dropped."""
    made = builder()
    with made.function("grow", 2):
        made.emit_call("is_zero", [made.r(0)], dst=made.r(2))
        made.emit_if(made.r(2), 2)
        made.emit_ret(made.r(1))
        made.emit_call("minus_one", [made.r(0)], dst=made.r(3))
        made.emit_call("vm.builtin.make_tuple", [made.r(1)], dst=made.r(4))
        made.emit_call("grow", [made.r(3), made.r(4)], dst=made.r(5))
        made.emit_ret(made.r(5))
    with made.function("drop", 1):
        made.emit_call("grow", [made.r(0), made.imm(0)], dst=made.r(1))
        made.emit_call("vm.builtin.null_value", [], dst=made.r(1))
        made.emit_ret(made.r(0))
    with made.function("main", 1):
        made.emit_call("grow", [made.r(0), made.imm(0)], dst=made.r(1))
        made.emit_ret(made.r(1))
    with made.function("same", 1):
        made.emit_ret(made.r(0))
    return made


def depth(value):
    count = 0
    while isinstance(value, Array):
        value, count = value[0], count + 1
    return count


def test_tuples_die_at_any_depth():
    assert machine(nest())["drop"](60_000) == 60_000


def test_tuples_come_back_as_deep_as_the_stack_allows():
    vm = machine(nest())
    assert depth(vm["main"](3000)) == 3000
    try:
        assert depth(vm["main"](60_000)) == 60_000
    except Trap as error:
        assert error.code == "V0305"  # noqa: PT017 (bytecode gives the value)
    assert depth(vm["main"](3)) == 3


def test_deep_arguments_are_taken_or_refused():
    vm, deep = machine(nest()), Array((1,))
    for _ in range(100_000):
        deep = Array((deep,))
    try:
        assert depth(vm["same"](deep)) == 100_001
    except Trap as error:
        assert error.code == "V0305"  # noqa: PT017 (bytecode gives the value)
    while isinstance(deep, Array):  # Python's own destructor would recurse
        deep = deep[0]


# Values


def test_integers_larger_than_a_word_pass_through():
    made = builder()
    with made.function("main", 1):
        made.emit_call("plus", [made.r(0), made.convert_constant(1 << 80)], dst=made.r(1))
        made.emit_call("vm.builtin.make_tuple", [made.r(1), made.r(0)], dst=made.r(2))
        made.emit_ret(made.r(2))
    vm = machine(made)
    for n in (2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**30, 5):
        assert vm["main"](n) == (n + (1 << 80), n)
    made = builder()
    with made.function("main", 1):
        made.emit_ret(made.r(0))
    assert machine(made)["main"](Shape([2**70, 1])) == (2**70, 1)


@pytest.mark.parametrize(
    ("sizes", "code"),
    [
        ((2**62, 4), "U0601"),
        ((2**61, 8), "U0601"),
        ((2**40, 2**40), "U0601"),
        ((2**62,), "U0601"),
        ((-1, 4), "U0602"),
        ((-2, -3), "U0602"),
        ((2**40, 2**40, -1), "U0602"),
    ],
)
def test_sizes_that_overflow_are_no_small_storages(sizes, code):
    def emit(made):
        float32 = made.convert_constant(DataType("float32"))
        made.emit_call(
            "vm.builtin.alloc_storage", [made.vm_state(), made.r(0), made.imm(0), float32], dst=made.r(1)
        )
        made.emit_call("vm.builtin.alloc_tensor", [made.r(1), made.imm(0), made.r(0), float32], dst=made.r(2))
        made.emit_ret(made.r(2))

    made = builder()
    with made.function("main", 1):
        emit(made)
    vm = machine(made)
    with pytest.raises(Trap, match=code):
        vm["main"](Shape(sizes))
    assert vm["main"](Shape([2**40, 2**40, 0])).shape == (2**40, 2**40, 0)


@pytest.mark.fact("9.11")
@pytest.mark.parametrize(
    "sizes", [(2**62,), (2**61, 2), (2**31, 2**31, 4), (17,), (-1,), (2**63 - 1, 2**63 - 1)]
)
def test_tensors_do_not_leave_their_storage(sizes):
    made = builder()
    with made.function("main", 1):
        float32 = made.convert_constant(DataType("float32"))
        made.emit_call(
            "vm.builtin.alloc_storage", [made.vm_state(), (16,), made.imm(0), float32], dst=made.r(1)
        )
        made.emit_call("vm.builtin.alloc_tensor", [made.r(1), made.imm(0), made.r(0), float32], dst=made.r(2))
        made.emit_ret(made.r(2))
    with pytest.raises(ValueError, match="U0602"):
        machine(made)["main"](Shape(sizes))


@pytest.mark.parametrize("escapes", [False, True])
@pytest.mark.parametrize("slot", [2, 1000, 2**40, -1])
@pytest.mark.parametrize("builtin", ["match_shape", "make_shape", "match_prim_value", "make_prim_value"])
def test_shape_heaps_have_the_slots_they_have(builtin, slot, escapes):
    made = builder()
    operands = {
        "match_shape": lambda heap: [
            made.r(0),
            heap,
            *map(made.imm, (1, 1, slot)),
            made.convert_constant("c"),
        ],
        "make_shape": lambda heap: [heap, *map(made.imm, (1, 1, slot))],
        "match_prim_value": lambda heap: [
            made.r(1),
            heap,
            *map(made.imm, (1, slot)),
            made.convert_constant("c"),
        ],
        "make_prim_value": lambda heap: [heap, *map(made.imm, (1, slot))],
    }
    with made.function("main", 2):
        made.emit_call("vm.builtin.alloc_shape_heap", [made.vm_state(), made.imm(2)], dst=made.r(2))
        if escapes:
            made.emit_call("identity", [made.r(2)], dst=made.r(2))
        made.emit_call(f"vm.builtin.{builtin}", operands[builtin](made.r(2)), dst=made.r(3))
        made.emit_ret(made.r(3))
    with pytest.raises(IndexError, match=rf"V0408.*no slot {slot}: it has 2 slots"):
        machine(made)["main"](Shape([3]), 3)


@pytest.mark.parametrize("heap", [None, 3, np.zeros(2), np.zeros((2, 2), "int64"), Shape([1, 2])])
def test_what_is_no_heap_is_refused(heap):
    made = builder()
    with made.function("main", 1):
        made.emit_call("vm.builtin.make_shape", [made.r(0), *map(made.imm, (1, 1, 0))], dst=made.r(1))
        made.emit_ret(made.r(1))
    with pytest.raises(TypeError, match=r"V0402.*expected a shape heap"):
        machine(made)["main"](heap)


@pytest.mark.parametrize("value", [None, 1.5, "text", (1,), Shape([1]), np.array(1), np.array(True)])
def test_an_if_takes_a_bool_or_an_integer(value):
    made = builder()
    with made.function("main", 1):
        made.emit_if(made.r(0), 2)
        made.emit_ret(made.r(0))
        made.emit_ret(made.void_arg())
    vm = machine(made)
    with pytest.raises(TypeError, match="V0405") as caught:
        vm["main"](value)
    assert "instruction 0 of 'main'" in caught.value.diagnostics[0].notes[-1]
    assert [vm["main"](n) for n in (True, False, 7, 0, -1)] == [True, None, 7, None, -1]


@pytest.mark.fact("1.9")
def test_code_may_lie_in_any_order():
    """A shape is read by an instruction that comes before the one that makes it, in the text."""
    arg, imm = (lambda n: encode_arg(ArgKind.REGISTER, n)), (lambda n: encode_arg(ArgKind.IMMEDIATE, n))
    const = lambda n: encode_arg(ArgKind.CONSTANT, n)  # noqa: E731
    code = [
        Instruction(GOTO, (4,)),
        Instruction(CALL, (2, 2, (VM_STATE, arg(1), imm(0), const(0)))),
        Instruction(CALL, (3, 3, (arg(2), imm(0), arg(1), const(0)))),
        Instruction(RET, (3,)),
        Instruction(CALL, (4, 4, (VM_STATE, imm(1)))),
        Instruction(CALL, (1, 5, (arg(0), arg(4), imm(1), imm(1), imm(0), const(1)))),
        Instruction(CALL, (1, 1, (arg(4), imm(2), imm(1), imm(0), imm(0), imm(3)))),
        Instruction(GOTO, (-6,)),
    ]
    names = ("make_shape", "alloc_storage", "alloc_tensor", "alloc_shape_heap", "match_shape")
    offsets, words = assemble(code)
    rows = [FunctionRow(FuncKind.VM, "main", 1, 0, len(code), 5)]
    rows += [FunctionRow(FuncKind.PACKED, f"vm.builtin.{name}", -2) for name in names]
    executable = VMExecutable(Program(RELAX, tuple(rows), (DataType("float32"), "ctx"), offsets, words))
    assert VirtualMachine(executable, cpu())["main"](Shape([5])).shape == (5, 3)


# Closures


def test_closures_bind_functions_of_the_host_too():
    made = builder()
    with made.function("main", 1):
        made.emit_call(
            "vm.builtin.make_closure", [made.f("plus"), made.r(0)], dst=made.r(1)
        ) if False else None
        made.declare_function("plus")
        made.emit_call("vm.builtin.make_closure", [made.f("plus"), made.r(0)], dst=made.r(1))
        made.emit_ret(made.r(1))
    with made.function("call", 2):
        made.emit_call("vm.builtin.invoke_closure", [made.vm_state(), made.r(0), made.r(1)], dst=made.r(2))
        made.emit_ret(made.r(2))
    vm = machine(made)
    closure = vm["main"](5)
    assert vm.invoke_closure(closure, 2) == 7
    assert vm["call"](closure, 10) == 15


def test_closures_and_tensors_outlive_their_machine():
    made = builder()
    with made.function("pair", 2):
        made.emit_call("vm.builtin.make_tuple", [made.r(0), made.r(1)], dst=made.r(2))
        made.emit_ret(made.r(2))
    with made.function("bind", 1):
        made.emit_call("vm.builtin.make_closure", [made.f("pair"), made.r(0)], dst=made.r(1))
        made.emit_ret(made.r(1))
    with made.function("view", 1):
        made.emit_call("vm.builtin.reshape", [tensor(np.arange(6.0)), (2, 3)], dst=made.r(1))
        made.emit_call("vm.builtin.reshape", [made.r(0), (3, 2)], dst=made.r(2))
        made.emit_call("vm.builtin.make_tuple", [made.r(1), made.r(2)], dst=made.r(3))
        made.emit_ret(made.r(3))
    vm = machine(made)
    closure = vm["bind"](np.arange(3))
    constant, argument = vm["view"](np.arange(6.0) + 1)
    del vm
    gc.collect()
    assert isinstance(closure, VMClosure)
    other = machine(made)
    first, second = other.invoke_closure(closure, 4)
    assert (first, second.numpy().tolist()) == (4, [0, 1, 2])
    del other, closure
    gc.collect()
    assert constant.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert argument.numpy().tolist() == [[1, 2], [3, 4], [5, 6]]


def machine_that_its_callback_knows():
    made = builder()
    with made.function("main", 1):
        made.emit_call("again", [made.r(0)], dst=made.r(1))
        made.emit_ret(made.r(1))
    vm = machine(made, again=lambda n: vm["main"](n - 1) if n else 0)
    assert vm["main"](3) == 0
    return weakref.ref(vm)


def test_a_machine_that_a_callback_knows_is_collected():
    gone = machine_that_its_callback_knows()
    gc.collect()
    assert gone() is None


@pytest.mark.fact("9.12")
def test_a_reset_item_is_gone_for_everybody():
    made = builder()
    with made.function("main", 1):
        made.emit_call("vm.builtin.tuple_getitem", [made.r(0), made.imm(1)], dst=made.r(1))
        made.emit_call("vm.builtin.tuple_reset_item", [made.r(0), made.imm(1)])
        made.emit_call("vm.builtin.tuple_getitem", [made.r(0), made.imm(1)], dst=made.r(2))
        made.emit_call("vm.builtin.make_tuple", [made.r(1), made.r(2), made.r(0)], dst=made.r(3))
        made.emit_ret(made.r(3))
    with made.function("own", 1):
        made.emit_call("vm.builtin.make_tuple", [made.r(0), made.imm(2)], dst=made.r(1))
        made.emit_call("vm.builtin.tuple_reset_item", [made.r(1), made.imm(0)])
        made.emit_call("vm.builtin.null_value", [], dst=made.r(0))
        made.emit_ret(made.r(1))
    with made.function("wrong", 1):
        made.emit_call("vm.builtin.tuple_reset_item", [made.r(0), made.imm(3)])
        made.emit_ret(made.r(0))
    vm = machine(made)
    given = Array((1, "text", 3))
    was, now, same = vm["main"](given)
    assert (was, now) == ("text", None)
    assert given == (1, None, 3) == same
    assert vm["own"](np.zeros(3)) == (None, 2)
    with pytest.raises(IndexError, match="V0404"):
        vm["wrong"](given)
    with pytest.raises(TypeError, match="V0402"):
        vm["wrong"](3)
    weights = Array((tensor(np.zeros(1000)), 0, 0))
    gone, before = weakref.ref(weights[0]), allocator_for(cpu()).books.bytes_in_use
    with made.function("drop", 1):
        made.emit_call("vm.builtin.tuple_reset_item", [made.r(0), made.imm(0)])
        made.emit_ret(made.void_arg())
    machine(made)["drop"](weights)
    assert gone() is None
    assert allocator_for(cpu()).books.bytes_in_use < before


# Errors


def test_an_error_that_a_callback_took_leaves_no_place_behind():
    machines = []

    def attempt(n):
        try:
            machines[0]["fails"](n)
        except HeddleError:
            return 1

    made = builder()
    with made.function("fails", 1):
        made.emit_call(
            "vm.builtin.check_shape_info", [made.r(0), made.imm(1), made.convert_constant("inner")]
        )
        made.emit_ret(made.r(0))
    with made.function("main", 1):
        made.emit_call("attempt", [made.r(0)], dst=made.r(1))
        made.emit_call("vm.builtin.copy", [made.r(1)], dst=made.r(2))
        made.emit_call(
            "vm.builtin.check_shape_info", [made.r(2), made.imm(1), made.convert_constant("outer")]
        )
        made.emit_ret(made.r(2))
    machines.append(machine(made, attempt=attempt))
    with pytest.raises(TypeError, match="outer") as caught:
        machines[0]["main"](3)
    assert caught.value.diagnostics[0].notes == ("instruction 2 of 'main'",)


@pytest.mark.fact("6.5")
@pytest.mark.parametrize("kind", [KeyError, KeyboardInterrupt, MemoryError, TypeError, StopIteration])
def test_exceptions_of_callbacks_keep_their_type_wherever_they_come_from(kind):
    """From a function called directly, through a closure, within a nested call; nothing is left behind."""

    def boom(n):
        raise kind("mine")

    machines = []
    made = builder()
    with made.function("direct", 1):
        made.emit_call("boom", [made.r(0)], dst=made.r(1))
        made.emit_ret(made.r(1))
    with made.function("closure", 1):
        made.emit_call("vm.builtin.make_closure", [made.f("boom"), made.r(0)], dst=made.r(1))
        made.emit_call("vm.builtin.invoke_closure", [made.vm_state(), made.r(1)], dst=made.r(2))
        made.emit_ret(made.r(2))
    with made.function("nested", 1):
        made.emit_call("back", [made.r(0)], dst=made.r(1))
        made.emit_ret(made.r(1))
    with made.function("fine", 1):
        made.emit_ret(made.r(0))
    machines.append(machine(made, boom=boom, back=lambda n: machines[0]["direct"](n)))
    value = tensor(np.zeros(3))
    before = sys.getrefcount(value)
    for name in ("direct", "closure", "nested"):
        with pytest.raises(kind, match="mine") as caught:
            machines[0][name](value)
        assert type(caught.value) is kind
        del caught
        assert machines[0]["fine"](3) == 3
    gc.collect()
    assert sys.getrefcount(value) == before


def test_builtins_turn_operands_of_a_wrong_form_into_traps():
    made = builder()
    cases = {
        "reshape": lambda: [made.r(0), made.r(0)],
        "alloc_storage": lambda: [made.vm_state(), made.r(0), made.r(0), made.r(0)],
        "alloc_tensor": lambda: [made.r(0), made.r(0), made.r(0), made.r(0)],
        "to_device": lambda: [made.r(0), made.r(0), made.r(0)],
        "tensor_to_shape": lambda: [made.r(0)],
        "shape_of": lambda: [made.r(0)],
        "tuple_getitem": lambda: [made.r(0), made.r(0)],
        "call_py_func": lambda: [made.r(0)],
        "call_tir_dyn": lambda: [made.r(0), (1, 2)],
        "check_tuple_info": lambda: [made.r(0), made.r(0), made.r(0)],
    }
    for name, operands in cases.items():
        with made.function(name, 1):
            made.emit_call(f"vm.builtin.{name}", operands(), dst=made.r(1))
            made.emit_ret(made.r(1))
    vm = machine(made)
    for name in cases:
        for value in (3, None, "text", 1.5, Shape([2]), (1, 2), np.zeros(2)):
            try:
                vm[name](value)
            except HeddleError:
                continue
            assert (name, type(value)) in {("shape_of", np.ndarray), ("tuple_getitem", tuple)}


def test_a_function_that_was_never_defined_is_a_typed_error():
    made = builder()
    made.declare_function("ghost", FuncKind.VM)
    with made.function("main", 1):
        made.emit_ret(made.r(0))
    vm = machine(made)
    assert vm["main"](2) == 2
    with pytest.raises(HeddleError, match="V0301"):
        vm["ghost"]()


# Threads


def test_no_second_call_begins_while_one_converts_its_values(mode):
    """Conversion runs Python, where threads change. Constants are counted for one thread at a time."""
    made = builder()
    with made.function("main", 1):
        made.emit_call(
            "vm.builtin.make_tuple",
            [tensor(np.arange(3)), made.convert_constant("x"), made.r(0)],
            dst=made.r(1),
        )
        made.emit_ret(made.r(1))
    vm = machine(made)
    wrong, done = [], []

    def work(n):
        for _ in range(300):
            try:
                numbers, text, back = vm["main"]([n, np.int64(n), (n, "deep")])
            except Trap as error:
                if mode == "bytecode" or error.code != "V0307":
                    wrong.append(error)
                continue
            done.append(n)
            if (numbers.numpy().tolist(), text, back) != ([0, 1, 2], "x", (n, n, (n, "deep"))):
                wrong.append(n)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong
    assert done


def test_results_die_on_any_thread():
    vm = run_machine(countdown())
    made = builder()
    with made.function("main", 1):
        made.emit_call("vm.builtin.reshape", [tensor(np.arange(4.0)), (2, 2)], dst=made.r(1))
        made.emit_call("vm.builtin.reshape", [made.r(0), (2, 2)], dst=made.r(2))
        made.emit_call("vm.builtin.make_tuple", [made.r(1), made.r(2)], dst=made.r(3))
        made.emit_ret(made.r(3))
    vm = machine(made)
    results: list[Tensor] = []
    stop = threading.Event()

    def drop():
        while not stop.is_set() or results:
            if results:
                results.pop()

    dropper = threading.Thread(target=drop)
    dropper.start()
    for _ in range(2000):
        results.extend(vm["main"](np.zeros(4)))
    stop.set()
    dropper.join()
    constant, _ = vm["main"](np.zeros(4))
    assert constant.numpy().tolist() == [[0, 1], [2, 3]]
