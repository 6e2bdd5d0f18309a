"""Builtins called by programs, in both modes: machine code has its own form of most of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle.runtime import Array, DataType, Function, Shape, Tensor, cpu, tensor
from heddle.vm.relax import VirtualMachine

from .programs import builder, call_builtin, run_machine

pytestmark = pytest.mark.usefixtures("mode")  # bytecode and compiled

FLOATS = tensor(np.arange(6, dtype="float32").reshape(2, 3))


def call(name: str, value: Any, *operands: Any) -> Any:
    """`name(value, *operands)`, the value a parameter, so that nobody knows it before it runs."""
    return call_builtin(
        name, lambda ib: [ib.r(0), *(ib.convert_constant(each) for each in operands)], 1, (value,)
    )


def match(value: Any, before: tuple[int, ...], rank: int, *words: int) -> Any:
    """What a heap with the slots `before` holds after `value` was matched with the context "here"."""
    made = builder()
    slots = len(before)
    with made.function("main", 1):
        heap, numbers = made.r(1), [made.imm(word) for word in words]
        made.emit_call("vm.builtin.alloc_shape_heap", [made.vm_state(), made.imm(slots)], dst=heap)
        stores = [made.imm(word) for slot in range(slots) for word in (1, slot)]
        context = made.convert_constant("here")
        made.emit_call("vm.builtin.match_shape", [before, heap, made.imm(slots), *stores, context])
        made.emit_call("vm.builtin.match_shape", [made.r(0), heap, made.imm(rank), *numbers, context])
        loads = [made.imm(word) for slot in range(slots) for word in (1, slot)]
        made.emit_call("vm.builtin.make_shape", [heap, made.imm(slots), *loads], dst=made.r(2))
        made.emit_ret(made.r(2))
    return run_machine(made)["main"](value)


@pytest.mark.fact("9.2", "9.3")
@pytest.mark.parametrize("value", [tensor(np.zeros((2, 5, 7))), Shape([2, 5, 7])])
def test_match_shape(value: Any) -> None:
    assert match(value, (0, 7), 3, 1, 0, 2, 0, 3, 1) == (2, 7)
    assert match(value, (9, 9), 3, 1, 1, 0, 5, 1, 0) == (7, 2)
    assert match(value, (9,), 3, 2, 0, 2, 0, 2, 0) == (9,)
    assert match(value, (9,), 3, 1, 0, 2, 0, 2, 0) == (2,)


@pytest.mark.fact("9.2")
def test_what_does_not_match() -> None:
    value = Shape([2, 5, 7])
    with pytest.raises(RuntimeError, match=r"here.*shape size mismatch: expected 2 sizes, got 3"):
        match(value, (0,), 2, 2, 0, 2, 0)
    with pytest.raises(RuntimeError, match=r"here.*match_cast error.*dimension 1: expected 6, got 5"):
        match(value, (0,), 3, 1, 0, 0, 6, 2, 0)
    with pytest.raises(RuntimeError, match=r"here.*match_cast error.*dimension 2: expected 2, got 7"):
        match(value, (0,), 3, 1, 0, 2, 0, 3, 0)
    for other in (3, "text", None, Array((2, 5, 7))):
        with pytest.raises(TypeError, match="here"):
            match(other, (0,), 3, 2, 0, 2, 0, 2, 0)


@pytest.mark.fact("9.2")
def test_what_was_stored_before_a_failure_stays() -> None:
    made = builder()
    with made.function("main", 2):
        codes = [made.imm(1), made.imm(0), made.imm(0), made.imm(6)]
        context = made.convert_constant("here")
        made.emit_call("vm.builtin.match_shape", [made.r(0), made.r(1), made.imm(2), *codes, context])
        made.emit_ret(made.r(1))
    heap = tensor(np.zeros(1, "int64"))
    with pytest.raises(RuntimeError, match="expected 6, got 5"):
        run_machine(made)["main"](Shape([4, 5]), heap)
    assert heap[0] == 4


@pytest.mark.fact("9.4")
def test_scalars() -> None:
    made = builder()
    with made.function("main", 1):
        heap, context = made.r(1), made.convert_constant("here")
        made.emit_call("vm.builtin.alloc_shape_heap", [made.vm_state(), made.imm(2)], dst=heap)
        for words in ((1, 1), (3, 1)):
            numbers = [made.imm(word) for word in words]
            made.emit_call("vm.builtin.match_prim_value", [made.r(0), heap, *numbers, context])
        made.emit_call(
            "vm.builtin.match_prim_value", [made.r(0), made.void_arg(), made.imm(0), made.imm(5), context]
        )
        made.emit_call("vm.builtin.make_prim_value", [heap, made.imm(1), made.imm(1)], dst=made.r(2))
        made.emit_call(
            "vm.builtin.make_prim_value", [made.void_arg(), made.imm(0), made.imm(-3)], dst=made.r(3)
        )
        made.emit_call("vm.builtin.make_tuple", [made.r(2), made.r(3)], dst=made.r(4))
        made.emit_ret(made.r(4))
    vm = run_machine(made)
    assert vm["main"](5) == (5, -3)
    with pytest.raises(RuntimeError, match=r"here.*match_cast error.*expected 5, got 6"):
        vm["main"](6)


FLOAT32, INT8 = DataType("float32"), DataType("int8")
PASSES = [
    ("check_tensor_info", FLOATS, (2, FLOAT32, "here")),
    ("check_tensor_info", FLOATS, (-1, FLOAT32, "here")),
    ("check_tensor_info", FLOATS, (2, "here")),
    ("check_shape_info", Shape([1, 2]), (2, "here")),
    ("check_shape_info", Shape([1, 2]), (-1, "here")),
    ("check_tuple_info", Array((1, 2)), (2, "here")),
    ("check_func_info", Function(len), ("here",)),
    ("check_prim_value_info", 1, (DataType("int64"), "here")),
    ("check_prim_value_info", True, (DataType("int32"), "here")),
    ("check_prim_value_info", 2, (FLOAT32, "here")),
    ("check_prim_value_info", 1.5, (FLOAT32, "here")),
]
FAILS = [
    ("check_tensor_info", Shape([1]), (1, FLOAT32, "here"), TypeError, "tensor"),
    ("check_tensor_info", 3, (1, "here"), TypeError, "tensor"),
    ("check_tensor_info", FLOATS, (3, FLOAT32, "here"), ValueError, "ndim 3.*ndim 2"),
    ("check_tensor_info", FLOATS, (2, INT8, "here"), ValueError, "dtype int8.*dtype float32"),
    ("check_shape_info", Array((1, 2)), (2, "here"), TypeError, "shape"),
    ("check_shape_info", FLOATS, (2, "here"), TypeError, "shape"),
    ("check_shape_info", Shape([1, 2]), (3, "here"), ValueError, "ndim 3.*ndim 2"),
    ("check_tuple_info", Shape([1]), (1, "here"), TypeError, "tuple"),
    ("check_tuple_info", Array((1, 2)), (3, "here"), ValueError, "3 elements.*2 elements"),
    ("check_func_info", 3, ("here",), TypeError, "function"),
    ("check_prim_value_info", 1.5, (DataType("int64"), "here"), TypeError, "int64"),
    ("check_prim_value_info", FLOATS, (DataType("int64"), "here"), TypeError, "int64"),
    ("check_prim_value_info", "text", (FLOAT32, "here"), TypeError, "float32"),
]


@pytest.mark.fact("9.5", "9.6", "9.7", "9.8", "9.9")
@pytest.mark.parametrize(("name", "value", "operands"), PASSES)
def test_checks_that_pass(name: str, value: Any, operands: tuple[Any, ...]) -> None:
    assert call(name, value, *operands) is None


@pytest.mark.fact("9.5", "9.6", "9.7", "9.8", "9.9")
@pytest.mark.parametrize(("name", "value", "operands", "kind", "words"), FAILS)
def test_checks_that_fail(
    name: str, value: Any, operands: tuple[Any, ...], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=f"here.*{words}"):
        call(name, value, *operands)


def storage_program(shape: tuple[int, ...], index: int, dtype: str, scope: str, views: Any) -> Any:
    """A storage, and a tuple of the tensors (offset, shape, dtype) on it; its register is cleared."""
    made = builder()
    with made.function("main", 0):
        operands = [made.vm_state(), shape, made.imm(index), DataType(dtype), made.convert_constant(scope)]
        made.emit_call("vm.builtin.alloc_storage", operands, dst=made.r(0))
        for number, (offset, view, kind) in enumerate(views, 1):
            place = [made.r(0), made.imm(offset), view, DataType(kind)]
            made.emit_call("vm.builtin.alloc_tensor", place, dst=made.r(number))
        made.emit_call("vm.builtin.null_value", [], dst=made.r(0))
        tensors = [made.r(number) for number in range(1, len(views) + 1)]
        made.emit_call("vm.builtin.make_tuple", tensors, dst=made.r(len(views) + 1))
        made.emit_ret(made.r(len(views) + 1))
    return made


@pytest.mark.fact("9.10", "9.11")
def test_storages_and_views() -> None:
    views = [(0, (2, 4), "float32"), (16, (4,), "float32"), (0, (32,), "uint8")]
    first, second, raw = run_machine(storage_program((8,), 0, "float32", "global", views))["main"]()
    second[:] = np.arange(4)
    assert first[1].tolist() == [0, 1, 2, 3]
    assert raw[16:].tobytes() == np.arange(4, dtype="float32").tobytes()
    for index, where in ((0, cpu(1)), (1, cpu(2)), (-1, cpu(2))):
        made = storage_program((8,), index, "uint8", "", [(0, (8,), "int8")])
        assert run_machine(made, [cpu(1), cpu(2)])["main"]()[0].device == where


@pytest.mark.fact("9.10", "9.11")
def test_storages_that_cannot_be() -> None:
    for index, scope in ((1, "global"), (-2, "global"), (0, "texture")):
        with pytest.raises(ValueError, match="V0406"):
            run_machine(storage_program((8,), index, "uint8", scope, []))["main"]()
    for view in ((1, (2,), "float32"), (0, (9,), "uint8"), (9, (0,), "uint8")):
        with pytest.raises(ValueError, match="U0602"):
            run_machine(storage_program((8,), 0, "uint8", "global", [view]))["main"]()


@pytest.mark.fact("9.12")
def test_tuples() -> None:
    made = builder()
    with made.function("main", 2):
        made.emit_call("vm.builtin.make_tuple", [made.r(0), made.r(1), made.imm(7)], dst=made.r(2))
        made.emit_call("vm.builtin.tuple_getitem", [made.r(2), made.imm(1)], dst=made.r(3))
        made.emit_call("vm.builtin.tuple_reset_item", [made.r(2), made.imm(1)])
        made.emit_call("vm.builtin.make_tuple", [made.r(2), made.r(3)], dst=made.r(4))
        made.emit_ret(made.r(4))
    x = tensor([1.0])
    left, item = run_machine(made)["main"](x, x)
    assert item is x
    assert left == (x, None, 7)
    assert call("copy", x) is x
    for index in (2, -1):
        with pytest.raises(IndexError, match="V0404"):
            call("tuple_getitem", Array((1, 2)), index)
    with pytest.raises(TypeError, match="V0402"):
        call("tuple_getitem", 3, 0)


@pytest.mark.fact("9.13")
def test_shapes_of_tensors() -> None:
    assert call("shape_of", FLOATS) == (2, 3)
    view = call("reshape", FLOATS, (3, 2))
    assert view.shape == (3, 2)
    assert np.shares_memory(view.numpy(), FLOATS.numpy())
    with pytest.raises(ValueError, match="V0403"):
        call("reshape", FLOATS, (7,))
    for dtype in ("int16", "int32", "int64"):
        assert call("tensor_to_shape", tensor(np.array([3, 4], dtype))) == (3, 4)
    for bad in (np.array([3], "uint8"), np.array([[3]]), np.array([3.0])):
        with pytest.raises(TypeError, match="V0402"):
            call("tensor_to_shape", tensor(bad))
    assert call("ensure_zero_offset", FLOATS) is FLOATS


@pytest.mark.fact("9.14")
def test_to_device() -> None:
    for scope in ((), ("global",)):
        moved = call("to_device", FLOATS, 1, 2, *scope)
        assert moved.device == cpu(2)
        assert moved.numpy().tolist() == FLOATS.numpy().tolist()
        assert not np.shares_memory(moved.numpy(), FLOATS.numpy())
    with pytest.raises(ValueError, match="V0406"):
        call("to_device", FLOATS, 1, 0, "texture")


@pytest.mark.fact("9.15")
def test_conditions() -> None:
    made = builder()
    with made.function("main", 1):
        made.emit_call("vm.builtin.read_if_cond", [made.r(0)], dst=made.r(1))
        made.emit_if(made.r(1), 3)
        made.emit_call("vm.builtin.copy", [made.imm(1)], dst=made.r(2))
        made.emit_goto(2)
        made.emit_call("vm.builtin.copy", [made.imm(0)], dst=made.r(2))
        made.emit_ret(made.r(2))
    vm = run_machine(made)
    for value in (True, 2, -1, np.array(True), np.array(3, "uint8"), np.array([[5]], "int64")):
        assert vm["main"](value) == 1
    for value in (False, 0, np.array(False), np.array(0, "int16"), np.array([0])):
        assert vm["main"](value) == 0
    for bad in (np.array(1.0), "text", 1.5):
        with pytest.raises(TypeError, match="V0405"):
            vm["main"](bad)
    for several in (np.array([0, 1]), np.array([], "int32")):
        with pytest.raises(ValueError, match="V0405"):
            vm["main"](several)


SEQUENCE = Array([FLOATS, tensor(np.zeros((3,), "int32")), None])


@pytest.mark.parametrize("sizes", [(), (7,), (0, 2**62, 3)])
def test_sizes_as_a_tensor(sizes: tuple[int, ...]) -> None:
    made = call("shape_to_tensor", Shape(sizes))
    assert made.dtype == "int64" and tuple(made.numpy()) == sizes and made.shape == (len(sizes),)
    with pytest.raises(TypeError, match="V0402"):
        call("shape_to_tensor", FLOATS)


def test_a_tensor_as_sizes() -> None:
    for dtype in ("int16", "int32", "int64"):
        assert call("tensor_to_shape", tensor(np.array([5, 0, -3], dtype))) == (5, 0, -3)
    assert call("tensor_to_shape", tensor(np.zeros((0,), "int64"))) == ()
    for bad in (FLOATS, tensor(np.zeros((), "int64")), tensor(np.zeros((2,), "uint64"))):
        with pytest.raises(TypeError, match="V0402"):
            call("tensor_to_shape", bad)


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_places_in_a_sequence(dtype: str, shape: tuple[int, ...]) -> None:
    def at(place: int) -> Any:
        return call("sequence_at", SEQUENCE, tensor(np.full(shape, place, dtype)))

    assert at(0) is FLOATS and at(-3) is FLOATS and at(1) is SEQUENCE[1]
    assert at(2) is None and at(-1) is None
    for place in (3, -4):
        with pytest.raises(IndexError, match=rf"position {place} is out of range: .* 3 elements"):
            at(place)
    with pytest.raises(TypeError, match="expected a sequence"):
        call("sequence_at", FLOATS, tensor(np.zeros(shape, dtype)))


def test_lengths_and_optional_values() -> None:
    for value, length in ((SEQUENCE, 3), (Array([]), 0)):
        made = call("sequence_length", value)
        assert made.dtype == "int64" and made.shape == () and made.item() == length
    with pytest.raises(TypeError, match="expected a sequence"):
        call("sequence_length", FLOATS)
    for value, is_there in ((FLOATS, True), (SEQUENCE, True), (None, False)):
        made = call("has_value", value)
        assert made.dtype == "bool" and made.shape == () and made.item() is is_there
    assert call("value_of_optional", FLOATS) is FLOATS
    with pytest.raises(ValueError, match="the optional value is empty"):
        call("value_of_optional", None)


@pytest.mark.fact("9.16")
def test_dynamic_calls() -> None:
    seen: list[Any] = []
    made = builder()
    with made.function("main", 3):
        made.emit_call("vm.builtin.call_tir_dyn", [made.r(0), made.r(1), made.r(2)])
        made.emit_ret(made.r(1))
    vm: VirtualMachine = run_machine(made)
    assert vm["main"](lambda *args: seen.extend(args), FLOATS, Shape([4, 5])) is FLOATS
    assert isinstance(seen[0], Tensor) and seen[1:] == [4, 5]
