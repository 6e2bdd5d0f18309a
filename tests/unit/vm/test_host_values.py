"""Values of every kind on their way to functions of Python and back, in both modes."""

from __future__ import annotations

import gc
import math
import threading

import numpy as np
import pytest

from heddle.runtime import Array, DataType, FunctionModule, Shape, allocator_for, cpu, tensor
from heddle.runtime.data import ConstructorValue, RefValue
from heddle.runtime.shape import Texts, TextTensor
from heddle.vm.relax import VirtualMachine

from .programs import builder

pytestmark = pytest.mark.usefixtures("mode")  # bytecode and compiled


def through_python(value, maker):
    """What functions of Python see of a value that comes in as an argument, goes to one, comes back from it,
    and goes to another one; `maker` gives the value that the first gives back. The last is the result."""
    made, seen = builder(), []

    def look(given):
        seen.append(given)
        return maker(given)

    with made.function("main", 1):
        for number in range(2):
            made.emit_call("look", [made.r(number)], dst=made.r(number + 1))
        made.emit_ret(made.r(2))
    vm = VirtualMachine(made.get(imports=[FunctionModule({"look": look})]), cpu())
    result = vm["main"](value)
    return [*seen, result]


def _list(*items):
    found = ConstructorValue(0, ())
    for item in items:
        found = ConstructorValue(1, (item, found))
    return found


PLAIN = [
    None,
    True,
    False,
    0,
    -(1 << 63),
    (1 << 63) - 1,
    1 << 63,
    -(1 << 90),
    -0.0,
    math.inf,
    "text",
    Shape(),
    Shape([0]),
    Shape([3, -1, (1 << 63) - 1]),
    Shape([2, 1 << 63]),
    Array(),
    Array((1, True, 2.5, None, Shape([4]), "word", Array((Array(), 7)))),
    TextTensor((Shape([2]), Texts(("a", "\0b")))),
    Texts(("a", "")),
    DataType("float32"),
]


@pytest.mark.parametrize("value", PLAIN, ids=repr)
@pytest.mark.parametrize("is_same", [True, False])
def test_values_stay_what_they_are(value, is_same):
    """Whether it is the same object that comes back, or one that holds the same."""
    other = {Array: Array, Shape: Shape}.get(type(value))
    found = through_python(value, lambda given: other(list(given)) if other and not is_same else given)
    assert len(found) == 3
    for item in found:
        assert (type(item), item) == (type(value), value)
        assert not isinstance(value, float) or math.copysign(1, item) == math.copysign(1, value)
        assert not isinstance(value, tuple) or list(map(type, item)) == list(map(type, value))


@pytest.mark.parametrize("dtype", ["float32", "bool", "int64", "float16"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 5), (2, 3)])
def test_tensors_stay_what_they_are(dtype, shape):
    values = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    found = through_python(values, lambda given: tensor(given.numpy()))
    for item in found:
        assert (item.dtype, item.shape, item.device) == (DataType(dtype), shape, cpu())
        assert np.array_equal(item.numpy(), values)
    strided = np.repeat(values[..., None], 2, -1)[..., 0]
    for item in through_python(strided, lambda given: given):
        assert item.is_contiguous and np.array_equal(item.numpy(), values)


def test_nested_values_keep_what_is_shared():
    ref = RefValue(3)
    part = Array((ref, tensor(np.arange(3))))
    value = Array((part, _list(1, part, "x"), part))
    first, second, last = through_python(value, lambda given: Array(tuple(given)))
    for item in (first, second, last):
        assert item[0] is item[2] is part
        inner = item[1].fields[1].fields[0]
        assert inner[1].numpy().tolist() == [0, 1, 2]
        inner[0].value += 1
    assert ref.value == 6


@pytest.mark.parametrize("depth", [30, 20_000])
def test_values_that_are_deep_or_wide_when_they_are_taken_apart(depth):
    """A list as deep as it is long, and a value of two parts that are the same one, thirty times over."""
    value = _list(*range(depth)) if depth > 30 else Array((7,))
    for _ in range(depth if depth == 30 else 0):
        value = ConstructorValue(2, (value, value))
    found = through_python(value, lambda given: given)
    for item in found:
        steps = 0
        while isinstance(item, ConstructorValue) and item.fields:
            item, steps = item.fields[-1], steps + 1
        assert steps == depth


def test_tensors_of_the_machines_are_kept_by_who_has_them():
    """One that Python keeps, views of it, and what another thread drops."""
    made, kept = builder(), []
    with made.function("main", 1):
        float32 = made.convert_constant(DataType("float32"))
        made.emit_call(
            "vm.builtin.alloc_storage", [made.vm_state(), made.r(0), made.imm(0), float32], dst=made.r(1)
        )
        made.emit_call("vm.builtin.alloc_tensor", [made.r(1), made.imm(0), made.r(0), float32], dst=made.r(2))
        made.emit_call("keep", [made.r(2)], dst=made.r(3))
        made.emit_call("vm.builtin.reshape", [made.r(2), (6,)], dst=made.r(4))
        made.emit_call("keep", [made.r(4)], dst=made.r(5))
        made.emit_ret(made.r(5))

    def keep(given):
        kept.append(given)
        given.numpy()[...] = np.arange(6).reshape(given.shape) + len(kept)
        return given

    gc.collect()  # what earlier tests left would be given back meanwhile
    before = allocator_for(cpu()).books.bytes_in_use
    vm = VirtualMachine(made.get(imports=[FunctionModule({"keep": keep})]), cpu())
    result = vm["main"](Shape([2, 3]))
    assert [item.shape for item in kept] == [(2, 3), (6,)]
    assert result.numpy().tolist() == kept[1].numpy().tolist() == kept[0].numpy().reshape(-1).tolist()
    assert result.numpy().tolist() == [2, 3, 4, 5, 6, 7]
    del result
    worker = threading.Thread(target=kept.clear)
    worker.start()
    worker.join()
    assert allocator_for(cpu()).books.bytes_in_use == before
