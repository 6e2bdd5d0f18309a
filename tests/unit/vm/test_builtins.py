import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.runtime import (
    Array,
    DataType,
    Function,
    Shape,
    cpu,
    empty,
    get_global_func,
    register_global_func,
    remove_global_func,
    tensor,
)
from heddle.support.diagnostics import HeddleError, Trap
from heddle.vm import VMClosure
from heddle.vm.builtins.table import BUILTINS
from heddle.vm.isa import FuncKind
from heddle.vm.relax import register_builtins

from .programs import builder, call_builtin, run_machine

register_builtins()

pytestmark = pytest.mark.usefixtures("mode")  # bytecode and compiled


def b(name):
    return get_global_func(f"vm.builtin.{name}")


def heap(*values):
    return tensor(np.array(values, "int64"))


def test_every_builtin_is_global_and_documented():
    for name in BUILTINS:
        assert get_global_func(name).call is BUILTINS[name]


@pytest.mark.parametrize(
    ("name", "count"),
    [("invoke_closure", 1), ("copy", 0), ("copy", 2), ("check_tensor_info", 1), ("alloc_tensor", 6)],
)
def test_wrong_number_of_operands_is_refused_before_running(name, count):
    made = builder()
    with made.function("main", 1):
        made.emit_call(f"vm.builtin.{name}", [made.r(0)] * count)
        made.emit_ret(made.r(0))
    with pytest.raises(RuntimeError, match=f"V0408.*{name}' does not take {count} arguments"):
        run_machine(made)


@pytest.mark.fact("9.1")
def test_alloc_shape_heap():
    made = call_builtin("alloc_shape_heap", lambda ib: [ib.vm_state(), ib.imm(3)])
    assert (made.shape, made.dtype, made.device) == ((3,), "int64", cpu(0))
    assert made.numpy().tolist() == [0, 0, 0]


@pytest.mark.fact("9.2")
@pytest.mark.parametrize("value", [tensor(np.zeros((2, 5, 7))), Shape([2, 5, 7])])
def test_match_shape(value):
    slots = heap(0, 7)
    b("match_shape")(value, slots, 3, 0, 2, 1, 0, 3, 1, "ctx")
    assert slots.numpy().tolist() == [5, 7]
    b("match_shape")(value, slots, 3, 2, 99, 2, 99, 2, 99, "ctx")
    with pytest.raises(RuntimeError, match=r"ctx.*shape size mismatch: expected 2 sizes, got 3"):
        b("match_shape")(value, slots, 2, 2, 0, 2, 0, "ctx")
    with pytest.raises(RuntimeError, match=r"here.*match_cast error.*dimension 1: expected 6, got 5"):
        b("match_shape")(value, slots, 3, 1, 0, 0, 6, 2, 0, "here")
    assert slots[0] == 2  # what was stored before the failure stays
    with pytest.raises(RuntimeError, match=r"match_cast error.*dimension 2: expected 2, got 7"):
        b("match_shape")(value, slots, 3, 2, 0, 2, 0, 3, 0, "ctx")


@pytest.mark.fact("9.2")
def test_match_shape_without_heap():
    b("match_shape")(Shape([4]), None, 1, 0, 4, "ctx")
    with pytest.raises(TypeError, match="V0402"):
        b("match_shape")(3, None, 1, 0, 4, "ctx")


@pytest.mark.fact("9.3")
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), max_size=5))
def test_make_shape(dims):
    slots = heap(10, 11, 12, 13, 14)
    words = [word for loads, operand in dims for word in (int(loads), operand)]
    expected = tuple(10 + operand if loads else operand for loads, operand in dims)
    made = b("make_shape")(slots, len(dims), *words)
    assert made == expected
    assert isinstance(made, Shape)


@pytest.mark.fact("9.1", "9.2", "9.3")
def test_kernels_and_builtins_share_the_heap():
    made = call_builtin("alloc_shape_heap", lambda ib: [ib.vm_state(), ib.imm(2)])
    b("match_shape")(Shape([9]), made, 1, 1, 1, "")
    made.numpy()[0] = 4
    assert b("make_shape")(made, 2, 1, 0, 1, 1) == (4, 9)


@pytest.mark.fact("9.4")
def test_prim_values():
    slots = heap(0, 5)
    b("match_prim_value")(7, slots, 1, 0, "ctx")
    b("match_prim_value")(5, slots, 3, 1, "ctx")
    b("match_prim_value")(5, None, 0, 5, "ctx")
    assert b("make_prim_value")(slots, 1, 0) == 7
    assert b("make_prim_value")(None, 0, 3) == 3
    with pytest.raises(RuntimeError, match=r"ctx.*match_cast error.*expected 5, got 6"):
        b("match_prim_value")(6, slots, 3, 1, "ctx")


@pytest.mark.fact("9.5")
def test_check_tensor_info():
    x = tensor(np.zeros((2, 3), "float32"))
    check = b("check_tensor_info")
    check(x, 2, DataType("float32"), "ctx")
    check(x, -1, None, "ctx")
    check(x, 2, "ctx")
    with pytest.raises(TypeError, match=r"ctx.*tensor"):
        check(Shape([1]), 2, "ctx")
    with pytest.raises(ValueError, match=r"ctx.*ndim 3.*ndim 2"):
        check(x, 3, "ctx")
    with pytest.raises(ValueError, match=r"ctx.*dtype int8.*dtype float32"):
        check(x, -1, DataType("int8"), "ctx")


@pytest.mark.fact("9.6")
def test_check_shape_info():
    check = b("check_shape_info")
    check(Shape([1, 2]), 2, "ctx")
    check(Shape([1, 2]), -1, "ctx")
    with pytest.raises(ValueError, match=r"ctx.*ndim 3.*ndim 2"):
        check(Shape([1, 2]), 3, "ctx")
    for value in ([1, 2], 3, tensor([1])):
        with pytest.raises(TypeError, match=r"ctx"):
            check(value, 2, "ctx")


@pytest.mark.fact("9.7")
def test_check_prim_value_info():
    check = b("check_prim_value_info")
    for value, dtype in ((1, "int64"), (True, "int32"), (1.5, "float32"), (2, "float32"), (True, "bool")):
        check(value, DataType(dtype), "ctx")
    for value, dtype in ((1.5, "int64"), (tensor(1), "int64"), ("s", "float32"), (1.5, "bool")):
        with pytest.raises(TypeError, match="ctx"):
            check(value, DataType(dtype), "ctx")


@pytest.mark.fact("9.8")
def test_check_tuple_info():
    check = b("check_tuple_info")
    check(Array((1, 2)), 2, "ctx")
    with pytest.raises(ValueError, match=r"ctx.*3 elements.*2 elements"):
        check(Array((1, 2)), 3, "ctx")
    with pytest.raises(TypeError, match="ctx"):
        check(Shape([1]), 1, "ctx")


@pytest.mark.fact("9.9")
def test_check_func_info():
    check = b("check_func_info")
    check(Function(len), "ctx")
    check(VMClosure("f", lambda vm: 0), "ctx")
    with pytest.raises(TypeError, match="ctx"):
        check(3, "ctx")


@pytest.mark.fact("9.10", "9.11")
def test_alloc_storage_and_tensor():
    def emit(ib):
        ib.emit_call(
            "vm.builtin.alloc_storage",
            [ib.vm_state(), (64,), ib.imm(0), DataType("uint8"), ib.convert_constant("global")],
            dst=ib.r(0),
        )
        for number, offset in ((1, 0), (2, 16)):
            ib.emit_call(
                "vm.builtin.alloc_tensor",
                [ib.r(0), ib.imm(offset), (2, 4), DataType("float32")],
                dst=ib.r(number),
            )
        ib.emit_call("vm.builtin.make_tuple", [ib.r(1), ib.r(2)], dst=ib.r(3))
        ib.emit_call("vm.builtin.null_value", [], dst=ib.r(0))
        ib.emit_ret(ib.r(3))

    made = builder()
    with made.function("main", 0):
        emit(made)
    first, second = run_machine(made)["main"]()
    assert second.address == first.address + 16
    first[1, :] = 7
    assert second[0].tolist() == [7.0] * 4  # the two alias


@pytest.mark.fact("9.10", "9.11")
def test_alloc_errors():
    class Machine:
        allocators = run_machine(builder_with_identity()).allocators

    with pytest.raises(ValueError, match="V0406"):
        b("alloc_storage")(Machine, Shape([4]), 3, DataType("uint8"), "global")
    with pytest.raises(ValueError, match="V0406"):
        b("alloc_storage")(Machine, Shape([4]), 0, DataType("uint8"), "texture")
    storage = b("alloc_storage")(Machine, Shape([4, 2]), -1, DataType("float32"))
    assert storage.size_bytes == 32
    with pytest.raises(ValueError, match="U0602"):
        b("alloc_tensor")(storage, 16, Shape([5]), DataType("float32"))
    with pytest.raises(ValueError, match="U0602"):
        b("alloc_storage")(Machine, Shape([-4]), 0, DataType("uint8"))


def builder_with_identity():
    made = builder()
    with made.function("main", 1):
        made.emit_ret(made.r(0))
    return made


@pytest.mark.fact("5.4")
def test_memory_manager_clear_is_callable():
    assert b("memory_manager.clear")() is None


@pytest.mark.fact("9.12")
def test_copy_null_and_tuples():
    x = tensor([1.0])
    assert b("copy")(x) is x
    assert b("null_value")() is None
    made = b("make_tuple")(1, x)
    assert isinstance(made, Array)
    assert b("tuple_getitem")(made, 1) is x
    for index in (2, -1):
        with pytest.raises(IndexError, match="V0404"):
            b("tuple_getitem")(made, index)
    b("tuple_reset_item")(made, 1)
    assert made == (1, None)
    with pytest.raises(TypeError):
        b("tuple_getitem")(3, 0)


@pytest.mark.fact("9.13")
def test_shapes_of_tensors():
    x = tensor(np.zeros((2, 3)))
    assert b("shape_of")(x) == (2, 3)
    view = b("reshape")(x, Shape([3, 2]))
    view[0, 0] = 5
    assert x[0, 0] == 5
    assert b("reshape")(x, Shape([4])).shape == (4,)
    with pytest.raises(ValueError, match="V0403"):
        b("reshape")(x, Shape([7]))
    assert b("tensor_to_shape")(tensor(np.array([3, 4], "int32"))) == (3, 4)
    for bad in (np.array([3], "uint8"), np.array([[3]]), np.array([3.0])):
        with pytest.raises(HeddleError, match="V0402"):
            b("tensor_to_shape")(tensor(bad))
    assert b("ensure_zero_offset")(x) is x


@pytest.mark.fact("9.14")
def test_to_device():
    x = tensor([1.0, 2.0])
    moved = b("to_device")(x, 1, 1, "global")
    assert moved.device == cpu(1)
    assert moved.numpy().tolist() == [1.0, 2.0]
    assert moved.address != x.address
    assert b("to_device")(Array((x, Array((x,)))), 1, 1)[1][0].device == cpu(1)
    with pytest.raises(ValueError, match="V0406"):
        b("to_device")(x, 1, 0, "texture")
    with pytest.raises(HeddleError, match="U0202"):
        b("to_device")(x, 2, 0)


@pytest.mark.fact("9.15")
def test_read_if_cond():
    read = b("read_if_cond")
    assert [read(v) for v in (True, False, 2, 0)] == [True, False, True, False]
    for value in (True, 1, np.uint8(3), np.int64(-1)):
        assert read(tensor(np.array(value))) is True
    assert read(tensor(np.array([[0]]))) is False
    for bad in (tensor(1.0), "s", 1.5, empty((0,), "int32"), tensor(np.array([[0, 1]]))):
        with pytest.raises(Trap, match="V0405"):
            read(bad)


@pytest.mark.fact("6.7", "6.8", "9.16")
def test_closures_bind_the_last_parameters():
    made = builder()
    with made.function("four", 4):
        made.emit_call("vm.builtin.make_tuple", [made.r(i) for i in range(4)], dst=made.r(4))
        made.emit_ret(made.r(4))
    with made.function("main", 2):
        made.emit_call("vm.builtin.make_closure", [made.f("four"), made.r(0), made.r(1)], dst=made.r(2))
        made.emit_call(
            "vm.builtin.invoke_closure", [made.vm_state(), made.r(2), made.imm(1), made.imm(2)], dst=made.r(3)
        )
        made.emit_ret(made.r(3))
    with made.function("make", 1):
        made.emit_call("vm.builtin.make_closure", [made.f("four"), made.r(0)], dst=made.r(1))
        made.emit_ret(made.r(1))
    vm = run_machine(made)
    assert vm["main"](3, 4) == (1, 2, 3, 4)
    closure = vm["make"](9)
    assert isinstance(closure, VMClosure)
    assert vm.invoke_closure(closure, 1, 2, 3) == (1, 2, 3, 9)
    with pytest.raises(RuntimeError, match="V0302"):
        vm.invoke_closure(closure, 1)
    assert b("make_closure")(Function(lambda *a: a), 5)(1) == (1, 5)
    assert vm.invoke_closure(Function(lambda a: a + 1), 1) == 2
    with pytest.raises(TypeError):
        vm.invoke_closure(3)


@pytest.mark.fact("9.16")
def test_call_tir_dyn_unpacks_the_shape():
    seen = []
    x = tensor([1.0])
    assert b("call_tir_dyn")(Function(lambda *args: seen.extend(args)), x, Shape([4, 5])) is None
    assert seen == [x, 4, 5]
    with pytest.raises(TypeError):
        b("call_tir_dyn")(Function(print), x)


@pytest.mark.fact("9.17")
def test_python_functions():
    b("register_py_func")("test.double", lambda x: [x, x])
    assert b("get_py_func")("test.double")(2) == (2, 2)
    assert b("call_py_func")(("test.double", (3,))) == (3, 3)
    b("clear_py_func_registry")()
    with pytest.raises(Trap, match="V0407"):
        b("call_py_func")(("test.double", (3,)))


@pytest.mark.fact("9.18")
def test_debugging_hooks(capsys):
    seen = []
    register_global_func("test.debug", lambda *args: seen.append(args))
    try:
        b("invoke_debug_func")(None, "test.debug", "line 3", 1, 2)
    finally:
        remove_global_func("test.debug")
    assert seen == [("line 3", 1, 2)]
    with pytest.raises(ValueError, match="register_global_func"):
        b("invoke_debug_func")(None, "test.debug", "line 3")
    b("debug_print")("hello", 3)
    assert capsys.readouterr().out == "hello 3\n"


@pytest.mark.fact("9.2", "9.3")
def test_a_constant_shape_is_matched_and_a_heap_in_the_frame_reaches_pythons_builtin():
    """The second match has a code that does not exist: the machine's own builtin refuses it, heap and all."""
    made = builder()
    with made.function("main", num_inputs=1):
        heap = made.r(1)
        made.emit_call("vm.builtin.alloc_shape_heap", [made.vm_state(), made.imm(2)], dst=heap)
        sizes, context = made.convert_constant(Shape((3, 4))), made.convert_constant("here")
        codes = [made.imm(code) for code in (1, 1, 1, 0)]
        made.emit_call("vm.builtin.match_shape", [sizes, heap, made.imm(2), *codes, context])
        made.emit_call("vm.builtin.make_shape", [heap, made.imm(2), *codes], dst=made.r(2))
        made.emit_if(made.r(0), 2)
        made.emit_call("vm.builtin.match_shape", [sizes, heap, made.imm(2), made.imm(9), *codes[1:], context])
        made.emit_ret(made.r(2))
    vm = run_machine(made)
    assert vm["main"](False) == (3, 4)
    with pytest.raises(RuntimeError, match="V0408"):
        vm["main"](True)


def test_a_closure_is_called_by_the_machine_alone() -> None:
    """A program that was changed may give anything in the machine's place."""
    with pytest.raises(Trap, match=r"V0402.*expected the machine as the first argument, got Tensor"):
        BUILTINS["vm.builtin.invoke_closure"](tensor(np.ones(2)), 1)


@pytest.mark.parametrize(
    ("name", "given"), [("copy", [1, 2]), ("reshape", [1]), ("shape_of", [1]), ("tensor_to_shape", [3])]
)
@pytest.mark.parametrize("num_bound", [0, 1])
def test_a_builtin_as_a_value_says_what_is_wrong_with_its_operands(
    name: str, given: list[int], num_bound: int
) -> None:
    made = builder()
    with made.function("main", 0):
        made.declare_function(f"vm.builtin.{name}", FuncKind.PACKED)
        function = made.f(f"vm.builtin.{name}")
        if num_bound:
            made.emit_call("vm.builtin.make_closure", [function, made.imm(7)], dst=made.r(0))
            function = made.r(0)
        operands = [made.vm_state(), function, *map(made.imm, given)]
        made.emit_call("vm.builtin.invoke_closure", operands, dst=made.r(1))
        made.emit_ret(made.r(1))
    with pytest.raises(HeddleError, match=r"V04\d\d"):
        run_machine(made)["main"]()
