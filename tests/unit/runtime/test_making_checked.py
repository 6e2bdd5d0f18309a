"""Making and looking at objects in the checking interpreter: storages, tensors, views, chains, conditions."""

import random

import pytest

from heddle.runtime.native import abi
from heddle.runtime.native.abi import Kind, Status
from heddle.runtime.native.source import chains, making
from heddle.systems.types import Address, i64, sized
from tests.unit.runtime.checked_objects import BOOL, FLOAT16X8, FLOAT32, INT64, TENSOR, Objects
from tests.unit.runtime.native_machine import last_error, machine_of

# ---- what is made


RANKS = [(), (0,), (1,), (7,), (3, 0, 5), (1, 1, 1, 1), (2, 3, 5, 7)]


@pytest.mark.parametrize("sizes", RANKS)
@pytest.mark.parametrize(("dtype", "width"), [(FLOAT32, 4), (INT64, 8), (BOOL, 1), (FLOAT16X8, 16)])
def test_a_tensor_says_what_it_was_made_of(sizes, dtype, width):
    count = 1
    for size in sizes:
        count *= size
    with machine_of() as machine:
        objects = Objects(machine, num_pools=2)
        assert objects.storage(0, *sizes, element=width, device=1) == Status.DONE
        storage = objects.payload(0)
        assert machine.field(storage, abi.Storage.layout, "size_bytes") == count * width
        assert objects.tensor(1, 0, *sizes, dtype=dtype) == Status.DONE
        names = ("rank", "dtype", "device_type", "device_id", "strides", "byte_offset")
        assert [objects.field(1, name) for name in names] == [len(sizes), dtype, 1, 1, 0, 0]
        assert objects.field(1, "data") == storage + abi.Storage.layout.size_bytes
        assert objects.sizes(1) == list(sizes)
        assert objects.reshape(2, 1, count) == Status.DONE
        assert objects.sizes(2) == [count]
        assert objects.field(2, "data") == objects.field(1, "data")
        assert objects.field(2, "device_id") == 1
        objects.end()


@pytest.mark.parametrize("device", [1, 2, -2, 1 << 30])
def test_a_device_that_is_not_there_is_an_error(device):
    with machine_of() as machine:
        objects = Objects(machine)
        for sizes in ((5,), (5, 5)):
            assert objects.storage(0, *sizes, device=device) == Status.FAILED
            assert last_error(machine) == (abi.NO_DEVICE, 1, device, making.bad_device.text)


@pytest.mark.parametrize(
    ("sizes", "got", "word"),
    [
        ((-1,), -1, abi.BAD_REQUEST),
        ((1 << 62, 4), (1 << 63) - 1, abi.NO_MEMORY),
        ((1 << 61, -1), -1, abi.BAD_REQUEST),
        (((1 << 40) + 1, 1 << 40), (1 << 63) - 1, abi.NO_MEMORY),
        ((1 << 62,), (1 << 63) - 1, abi.NO_MEMORY),
    ],
)
def test_storage_of_absurd_sizes_is_an_error(sizes, got, word):
    with machine_of() as machine:
        objects = Objects(machine)
        assert objects.storage(0, *sizes) == Status.FAILED
        assert last_error(machine)[0:3:2] == (word, got)


def test_zero_times_the_largest_is_zero():
    with machine_of() as machine:
        objects = Objects(machine)
        assert objects.storage(0, 1 << 62, 1 << 62, 0) == Status.DONE
        assert machine.field(objects.payload(0), abi.Storage.layout, "size_bytes") == 0
        objects.end()


@pytest.mark.parametrize(
    ("sizes", "start", "end"),
    [((26,), 0, 104), ((25,), 8, 108), ((-1,), 0, -1), ((1,), -8, -4), ((1 << 62,), 0, (1 << 63) - 1)],
)
def test_a_tensor_outside_its_storage_is_an_error(sizes, start, end):
    with machine_of() as machine:
        objects = Objects(machine)
        assert objects.storage(0, 100, element=1) == Status.DONE
        assert objects.tensor(1, 0, *sizes, start=start) == Status.FAILED
        assert last_error(machine) == (abi.BAD_REQUEST, 100, end, making.outside_storage.text)
        objects.end()


@pytest.mark.parametrize(("sizes", "want"), [((13,), 13), ((-1,), -1), ((1 << 40, 1 << 40), (1 << 63) - 1)])
def test_a_view_that_is_too_large_is_an_error(sizes, want):
    with machine_of() as machine:
        objects = Objects(machine)
        objects.new_tensor(0, 3, 4)
        assert objects.reshape(1, 0, *sizes) == Status.FAILED
        assert last_error(machine) == (abi.DIFFERS, 12, want, making.too_large_view.text)
        objects.end()


@pytest.mark.parametrize("index", [-1, 2, 1 << 40])
@pytest.mark.parametrize("function", ["heddle_tuple_getitem", "heddle_tuple_reset"])
def test_an_item_that_is_not_there_is_an_error(function, index):
    with machine_of() as machine:
        objects = Objects(machine)
        objects.set(1, Kind.INT, 5)
        assert objects.tuple(0, 1, 1) == Status.DONE
        place = () if function.endswith("reset") else (objects.register(2),)
        assert objects.call(function, *place, objects.payload(0), index) == Status.FAILED
        assert last_error(machine) == (abi.NO_ITEM, 2, index, making.no_such_item.text)
        objects.end()


MAKERS = {
    "storage": lambda objects: objects.storage(3, 1 << 20, 3),
    "tensor": lambda objects: objects.tensor(3, 0, 3),
    "view": lambda objects: objects.reshape(3, 1, 3),
    "view of a lent one": lambda objects: objects.reshape(3, 2, 1),
    "tuple": lambda objects: objects.tuple(3, 0, 1),
    "closure": lambda objects: objects.closure(3, 0, 0, 1),
    "shape": lambda objects: objects.shape(3, 1, 2),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_no_memory_is_an_error_and_nothing_is_lost(maker):
    with machine_of() as machine:
        objects = Objects(machine)
        machine.call("heddle_thread")
        assert objects.storage(0, 100) == Status.DONE
        assert objects.tensor(1, 0, 20) == Status.DONE
        objects.lent(2, 7, 1)
        objects.copy(3, 1)
        before = objects.holders(objects.payload(0)), objects.holders(objects.payload(1))
        machine.state["failing_allocation"] = 0
        assert MAKERS[maker](objects) == Status.FAILED
        machine.state["failing_allocation"] = None
        assert last_error(machine)[0] == abi.NO_MEMORY
        assert before == (objects.holders(objects.payload(0)), objects.holders(objects.payload(1)))
        assert objects.payload(3) == objects.payload(1)
        objects.end()
        assert objects.dropped == [7]


# ---- chains


def _chain(objects, first_rows, rows, width, dtype=FLOAT32):
    """A chain in register 0, its rows counted from 0; the bytes of all rows."""
    machine, size = objects.machine, {FLOAT32: 4, BOOL: 1, INT64: 8}[dtype]
    data = bytearray()
    objects.new_tensor(0, first_rows, width, dtype=dtype)
    for number in range(rows + 1):
        register = 0 if number == 0 else 1
        if number:
            objects.new_tensor(1, 1, width, dtype=dtype)
        count = (first_rows if number == 0 else 1) * width * size
        content = random.Random(number).randbytes(count)
        machine.memory.write(objects.field(register, "data"), content)
        data += content
        if number:
            assert objects.tuple(0, 0, 1) == Status.DONE
    return bytes(data)


@pytest.mark.parametrize(("first", "rows", "width"), [(0, 0, 3), (1, 0, 1), (2, 5, 3), (0, 2, 7), (3, 1, 0)])
@pytest.mark.parametrize("dtype", [FLOAT32, BOOL, INT64])
def test_rows_of_a_chain_become_one_tensor(first, rows, width, dtype):
    with machine_of() as machine:
        objects = Objects(machine)
        data = _chain(objects, first, rows, width, dtype)
        assert objects.call("heddle_stack_chain", objects.register(2), objects.register(0)) == Status.DONE
        assert objects.sizes(2) == [first + rows, width]
        assert objects.field(2, "dtype") == dtype
        assert machine.memory.read(objects.field(2, "data"), len(data)) == data
        objects.end()


def test_rows_begin_where_their_offset_says():
    with machine_of() as machine:
        objects = Objects(machine)
        data = random.Random(0).randbytes(36)
        objects.new_tensor(3, 3, 3)
        machine.memory.write(objects.field(3, "data"), b"\x77" * 12 + data[:24])
        _shift(objects, 3, 12, 2, 3)
        objects.new_tensor(4, 2, 3)
        machine.memory.write(objects.field(4, "data"), b"\x55" * 12 + data[24:36])
        _shift(objects, 4, 12, 1, 3)
        assert objects.tuple(5, 3, 4) == Status.DONE
        assert objects.call("heddle_stack_chain", objects.register(6), objects.register(5)) == Status.DONE
        assert machine.memory.read(objects.field(6, "data"), 36) == data[:36]
        objects.end()


def _shift(objects, register, byte_offset, *sizes):
    """Let a tensor begin so far behind its data, with fewer rows."""
    machine, payload = objects.machine, objects.payload(register)
    item = TENSOR.fields["byte_offset"]
    machine.store(payload + item.offset_bytes, sized(item.type), byte_offset)
    for number, size in enumerate(sizes):
        machine.store(objects.field(register, "sizes") + 8 * number, i64, size)


def _bad_chains(objects):
    """Makers of what is no chain: the kind that the message names."""

    def three(to):
        objects.tuple(to, 0, 1, 1)
        return Kind.TUPLE

    def number_last(to):
        objects.tuple(to, 0, 2)
        return Kind.TUPLE

    def number_first(to):
        objects.tuple(to, 2, 1)
        return Kind.INT

    def rankless(to):
        objects.new_tensor(to)
        return Kind.TENSOR

    def number(to):
        objects.copy(to, 2)
        return Kind.INT

    return [three, number_last, number_first, rankless, number]


@pytest.mark.parametrize("which", range(5))
def test_what_is_no_chain_is_an_error(which):
    with machine_of() as machine:
        objects = Objects(machine)
        objects.new_tensor(0, 2, 3)
        objects.new_tensor(1, 1, 3)
        objects.set(2, Kind.INT, 7)
        kind = _bad_chains(objects)[which](3)
        assert objects.call("heddle_stack_chain", objects.register(4), objects.register(3)) == Status.FAILED
        assert last_error(machine) == (abi.WRONG_KIND, 0, kind, chains.no_chain.text)
        objects.end()


@pytest.mark.parametrize(
    ("sizes", "dtype", "got"), [((1, 4), FLOAT32, 16), ((3,), INT64, 24), ((12,), BOOL, 12)]
)
def test_rows_that_differ_are_an_error(sizes, dtype, got):
    with machine_of() as machine:
        objects = Objects(machine)
        objects.new_tensor(0, 2, 3)
        objects.new_tensor(1, *sizes, dtype=dtype)
        objects.tuple(2, 0, 1)
        assert objects.call("heddle_stack_chain", objects.register(4), objects.register(2)) == Status.FAILED
        assert last_error(machine) == (abi.DIFFERS, 12, got, chains.ragged_chain.text)
        assert objects.kind(4) == Kind.NONE
        objects.end()


@pytest.mark.parametrize(
    ("sizes", "strides", "is_compact"),
    [
        ((), (), 1),
        ((3, 4), (4, 1), 1),
        ((3, 4), (1, 3), 0),
        ((3, 1), (1, 99), 1),
        ((1, 4), (99, 1), 1),
        ((2, 3, 4), (12, 4, 2), 0),
        ((0, 4), (4, 1), 1),
    ],
)
def test_strides_without_gaps_are_known(sizes, strides, is_compact):
    with machine_of() as machine:
        objects = Objects(machine)
        objects.new_tensor(0, *sizes)
        item = TENSOR.fields["strides"]
        machine.store(objects.payload(0) + item.offset_bytes, sized(item.type), objects.words(*strides))
        assert machine.call("is_compact", objects.payload(0)) == is_compact
        objects.end()


# ---- looking


@pytest.mark.parametrize(
    ("dtype", "data", "answer"),
    [
        (0x10800, b"\0", 0),
        (0x10801, b"\x80", 1),
        (BOOL, b"\1", 1),
        (0x11000, b"\0\1", 1),
        (0x12000, b"\0\0\0\0", 0),
        (INT64, b"\0\0\0\0\0\0\0\1", 1),
        (FLOAT32, b"\0\0\0\0", -1),
        (0x20800, b"\0\1", 1),
        (0x30800, b"\0\1\1", -1),
    ],
)
def test_the_truth_of_a_scalar_tensor(dtype, data, answer):
    with machine_of() as machine:
        objects = Objects(machine)
        objects.new_tensor(0, dtype=dtype)
        machine.memory.write(objects.field(0, "data"), data)
        assert machine.call("heddle_condition", objects.register(0)) == answer
        objects.end()


@pytest.mark.parametrize(
    ("kind", "payload", "answer"), [(1, 0, 0), (1, -1, 1), (2, 1, 1), (3, 1, -1), (0, 0, -1), (6, 1, -1)]
)
def test_the_truth_of_a_number(kind, payload, answer):
    with machine_of() as machine:
        objects = Objects(machine)
        objects.set(0, kind, payload)
        assert machine.call("heddle_condition", objects.register(0)) == answer
        assert machine.call("heddle_kind_of", objects.register(0)) == kind


def test_a_tensor_with_axes_is_no_condition():
    with machine_of() as machine:
        objects = Objects(machine)
        objects.new_tensor(0, 1, dtype=BOOL)
        assert machine.call("heddle_condition", objects.register(0)) == -1
        objects.end()


def test_sizes_of_tensors_and_shapes_and_of_nothing_else():
    with machine_of() as machine:
        objects = Objects(machine)
        objects.new_tensor(0, 5, 3)
        objects.shape(1, 7, 8, 9)
        objects.set(2, Kind.INT, 7)
        to = machine.new(Address)
        for number, sizes in ((0, [5, 3]), (1, [7, 8, 9])):
            assert machine.call("heddle_sizes", objects.register(number), to) == len(sizes)
            at = machine.load(to, Address)
            assert [machine.load(at + 8 * axis, i64) for axis in range(len(sizes))] == sizes
        assert machine.call("heddle_sizes", objects.register(2), to) == -1
        objects.end()


def test_an_error_names_the_type_of_an_object_of_the_host():
    with machine_of() as machine:
        objects = Objects(machine)
        found = machine.new(abi.HostObject.layout)
        machine.store(found + abi.HostObject.layout.fields["type"].offset_bytes, Address, 4321)
        objects.foreign(0, found)
        assert machine.call("heddle_kind_of", objects.register(0)) == 4321
        objects.end()
