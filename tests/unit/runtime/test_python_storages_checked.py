"""Storages and tensors for Python in the checking interpreter."""

import struct

import pytest

from heddle.runtime.native import abi
from heddle.runtime.size_class import block_bytes
from heddle.systems.types import i64
from tests.unit.runtime.checked_objects import TENSOR
from tests.unit.runtime.checked_python import HEADER_SLOT, OWNER_SLOT, python_machine
from tests.unit.runtime.native_machine import books, last_error, new_pool

FLOAT32 = 0x12002


class Lender:
    """A pool, and the Python functions that lend from it."""

    def __init__(self, machine, size_bytes=0):
        self.machine, self.python, self.pool = machine, machine.state["python"], new_pool(machine)
        python = self.python
        nothing = python.function("nothing", None)
        machine.call(
            "heddle_glue_configure", python.types["tensor"], HEADER_SLOT, OWNER_SLOT, nothing, nothing
        )
        machine.call("heddle_storage_configure", python.types["storage"], HEADER_SLOT, OWNER_SLOT)
        python.drop(nothing)
        self.allocator = python.thing()
        record = struct.pack("<qq", self.pool, size_bytes)
        self.bound = python.bound(record, python.hold(self.allocator))

    def take(self, *args):
        return self.machine.call("heddle_take_storage", self.bound, self.python.words(*args), len(args))

    def payload(self, storage):
        number = self.machine.call("heddle_storage_payload", 0, self.python.words(storage), 1)
        value = self.python.contents[number]
        self.python.drop(number)
        return value

    def end(self, *objects):
        self.python.drop_all(self.bound, self.allocator, *objects)
        assert books(self.machine, self.pool, "bytes_in_use", "lock") == (0, 0)
        self.machine.call("heddle_pool_trim", self.pool)


@pytest.mark.parametrize("size", [0, 1, 100, 4097])
@pytest.mark.parametrize("is_given", [True, False])
def test_a_storage_lives_as_long_as_its_python_object(size, is_given):
    with python_machine() as machine:
        lender, python = Lender(machine, size_bytes=size), machine.state["python"]
        wish = python.int(size)
        storage = lender.take(*[wish] * is_given)
        assert books(machine, lender.pool, "bytes_in_use") == (block_bytes(size),)
        payload = lender.payload(storage)
        assert machine.field(payload, abi.Storage.layout, "size_bytes") == size
        number = python.int(payload)
        other = machine.call("heddle_share_storage", 0, python.words(number, lender.allocator), 2)
        assert lender.payload(other) == payload
        python.drop(storage)
        assert books(machine, lender.pool, "bytes_in_use") == (block_bytes(size),)
        lender.end(other, wish, number)


@pytest.mark.parametrize("size", [-1, (1 << 63) - 1, 1 << 60])
def test_where_there_is_no_memory_the_answer_is_none(size):
    with python_machine() as machine:
        lender, python = Lender(machine), machine.state["python"]
        wish = python.int(size)
        assert lender.take(wish) == python.none
        assert last_error(machine)[2] == size
        lender.end(wish, python.none)


@pytest.mark.parametrize("failing", ["capsule", "storage"])
def test_no_memory_for_the_object_gives_the_storage_back(failing):
    with python_machine() as machine:
        lender, python = Lender(machine, 100), machine.state["python"]
        python.fails = failing
        assert lender.take() == 0
        assert python.raised
        lender.end()


def _placer(lender, start, *sizes):
    """A Python function that puts a tensor into a storage, and one that says what is wrong."""
    python, count = lender.python, 1
    for size in sizes:
        count *= size
    words = (start, start + 4 * count, FLOAT32, len(sizes), *sizes)
    fallback = python.function("fallback", lambda bound, args: python.hold(python.true))
    return python.bound(struct.pack(f"<{len(words)}q", *words), fallback)


def _place(lender, bound, *args):
    return lender.machine.call("heddle_place_tensor", bound, lender.python.words(*args), len(args))


@pytest.mark.parametrize(("start", "sizes"), [(0, ()), (8, (23,)), (0, (5, 5)), (100, (0,)), (4, (2, 3, 4))])
def test_a_tensor_is_placed_in_a_storage_and_holds_it(start, sizes):
    with python_machine() as machine:
        lender, python = Lender(machine, 100), machine.state["python"]
        storage, bound = lender.take(), _placer(lender, start, *sizes)
        memory = lender.payload(storage) + abi.Storage.layout.size_bytes
        tensor = _place(lender, bound, storage)
        header = python.header(tensor)
        names = ("data", "rank", "dtype", "device_type", "strides")
        expected = [memory + start, len(sizes), FLOAT32, 0, 0]
        assert [machine.field(header, TENSOR, name) for name in names] == expected
        at = machine.field(header, TENSOR, "sizes")
        assert [machine.load(at + 8 * axis, i64) for axis in range(len(sizes))] == list(sizes)
        python.drop(storage)
        assert books(machine, lender.pool, "bytes_in_use") == (block_bytes(100),)
        assert python.calls == []
        lender.end(tensor, bound)


@pytest.mark.parametrize("what", ["too small", "no storage", "two", "none", "no memory"])
def test_what_cannot_be_placed_goes_to_the_fallback(what):
    with python_machine() as machine:
        lender, python = Lender(machine, 100), machine.state["python"]
        storage, thing = lender.take(), python.thing()
        bound = _placer(lender, 4 * (what == "too small"), 25)
        args = {"no storage": [thing], "two": [storage, thing], "none": []}.get(what, [storage])
        machine.call("heddle_thread")
        machine.state["failing_allocation"] = 0 if what == "no memory" else None
        assert _place(lender, bound, *args) == python.true
        machine.state["failing_allocation"] = None
        ((name, (given, _)),) = python.calls
        assert (name, given) == ("fallback", bound)
        assert (python.count(storage), python.count(thing)) == (1, 1)
        lender.end(python.true, storage, thing, bound)


@pytest.mark.parametrize("failing", ["capsule", "bytes", "tensor"])
def test_no_memory_for_the_tensors_object_gives_it_back(failing):
    with python_machine() as machine:
        lender, python = Lender(machine, 100), machine.state["python"]
        storage, bound = lender.take(), _placer(lender, 0, 25)
        python.fails = failing
        assert _place(lender, bound, storage) == 0
        assert python.raised
        python.fails = ""
        lender.end(storage, bound)
