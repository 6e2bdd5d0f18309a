"""Tensors and storages of frames in the checking interpreter: who holds what, and that nothing is left."""

import random

import pytest

from heddle.runtime.native import abi
from heddle.runtime.native.source import frames, making
from heddle.runtime.size_class import block_bytes
from heddle.support.diagnostics import HeddleError
from heddle.systems.types import Struct, i64
from tests.unit.runtime.native_machine import books, changed_program, last_error, machine_of, new_pool

FLOAT32_RANK_1 = 0x12002 << 32 | 1
VALUE, TENSOR = abi.Value.layout, abi.DLTensor.layout


class FrameTensor(Struct):
    head: abi.Head
    tensor: abi.DLTensor


class Frame:
    """Registers of storages, and of tensors that each have a place in the frame."""

    def __init__(self, machine, num_storages, num_tensors):
        self.machine, self.pool = machine, new_pool(machine)
        self.context = machine.new(abi.Context.layout)
        self.storages = [self._register() for _ in range(num_storages)]
        self.tensors = [self._register() for _ in range(num_tensors)]
        self.places = [machine.new(FrameTensor.layout) + abi.HEAD_BYTES for _ in self.tensors]
        self.sizes = machine.new(i64)
        machine.store(self.sizes, i64, 3)

    def _register(self):
        register = self.machine.new(VALUE)
        self.put(register, abi.Kind.NONE, 0)
        return register

    def put(self, register, kind, payload):
        for name, value in (("kind", kind), ("payload", payload)):
            field = VALUE.fields[name]
            self.machine.store(register + field.offset_bytes, field.type, value)

    def kind(self, register):
        return self.machine.field(register, VALUE, "kind")

    def take(self, number, size):
        storage = self.machine.call("pool_take", self.pool, size)
        self.put(self.storages[number], abi.Kind.STORAGE, storage)
        return storage

    def tensor(self, number, source, start, end):
        return self.machine.call(
            "heddle_frame_tensor",
            *(self.context, self.tensors[number], self.places[number], self.storages[source]),
            *(start, end, FLOAT32_RANK_1, self.sizes),
        )

    def view(self, number, source, old_count, count):
        return self.machine.call(
            "heddle_frame_view",
            *(self.context, self.tensors[number], self.places[number]),
            *(self.tensors[source], self.places[source]),
            *(old_count, count, FLOAT32_RANK_1, self.sizes),
        )

    def drop(self, number):
        self.machine.call("heddle_drop_tensor", self.context, self.tensors[number], self.places[number])

    def field(self, number, name):
        return self.machine.field(self.places[number], TENSOR, name)


def checked_machine(program=None):
    return machine_of(program)


def play(frame, seed, steps=60):
    """Random steps; after each, the storages on loan are those that something holds."""
    rng = random.Random(seed)
    sizes = [0] * len(frame.storages)
    holders = [set() for _ in sizes]  # of each storage: tensors, and -1 for its own register
    source = {}
    for _ in range(steps):
        act, storage, tensor = (
            rng.choice(["take", "tensor", "view", "drop", "release"]),
            rng.randrange(3),
            rng.randrange(5),
        )
        if act == "take" and not holders[storage]:
            sizes[storage] = rng.choice((0, 64, 100, 4096))
            frame.take(storage, sizes[storage])
            holders[storage] = {-1}
        elif act == "tensor" and -1 in holders[storage]:
            for held in holders:
                held.discard(tensor)
            source[tensor] = storage
            holders[storage].add(tensor)
            assert frame.tensor(tensor, storage, 0, rng.randint(0, sizes[storage])) == 0
        elif act == "view" and tensor in source and tensor in holders[source[tensor]]:
            viewer = rng.choice([other for other in range(5) if other != tensor])
            for held in holders:
                held.discard(viewer)
            source[viewer] = source[tensor]
            holders[source[tensor]].add(viewer)
            assert frame.view(viewer, tensor, 12, rng.randint(0, 12)) == 0
            assert frame.field(viewer, "data") == frame.field(tensor, "data")
        elif act == "drop":
            frame.drop(tensor)
            for held in holders:
                held.discard(tensor)
        elif act == "release":
            frame.machine.call("heddle_drop_storage", frame.storages[storage])
            holders[storage].discard(-1)
        on_loan = sum(block_bytes(size) for size, held in zip(sizes, holders, strict=True) if held)
        assert books(frame.machine, frame.pool, "bytes_in_use") == (on_loan,)
    for number in range(len(frame.tensors)):
        frame.drop(number)
    for register in frame.storages:
        frame.machine.call("heddle_drop_storage", register)
    assert books(frame.machine, frame.pool, "bytes_in_use") == (0,)
    frame.machine.call("heddle_pool_trim", frame.pool)


@pytest.mark.parametrize("seed", range(6))
def test_a_storage_is_on_loan_while_something_holds_it(seed):
    with checked_machine() as machine:
        play(Frame(machine, 3, 5), seed)


def test_a_tensor_says_where_its_elements_are():
    with checked_machine() as machine:
        frame = Frame(machine, 1, 2)
        storage = frame.take(0, 100)
        assert frame.tensor(0, 0, 16, 28) == 0
        assert frame.field(0, "data") == storage + abi.Storage.layout.size_bytes + 16
        assert (frame.field(0, "rank"), frame.field(0, "dtype")) == (1, 0x12002)
        assert (frame.field(0, "sizes"), frame.field(0, "strides"), frame.field(0, "byte_offset")) == (
            frame.sizes,
            0,
            0,
        )
        frame.drop(0)
        machine.call("heddle_drop_storage", frame.storages[0])
        machine.call("heddle_pool_trim", frame.pool)


@pytest.mark.parametrize(
    ("end", "size", "word"),
    [(101, 24, abi.BAD_REQUEST), (1 << 62, 24, abi.BAD_REQUEST), (-1, -1, abi.BAD_REQUEST)],
)
def test_what_does_not_fit_is_an_error(end, size, word):
    with checked_machine() as machine:
        frame = Frame(machine, 1, 1)
        frame.take(0, 100)
        machine.store(frame.sizes, i64, size)
        assert frame.tensor(0, 0, 8, end) == -1
        got = 8 + (4 * size if size >= 0 else -1)
        assert last_error(machine) == (abi.BAD_REQUEST, 100, got, making.outside_storage.text)
        assert frame.kind(frame.tensors[0]) == abi.Kind.NONE
        machine.call("heddle_drop_storage", frame.storages[0])
        machine.call("heddle_pool_trim", frame.pool)


def test_what_fits_but_was_not_computed_becomes_an_object():
    with checked_machine() as machine:
        frame = Frame(machine, 1, 2)
        frame.take(0, 100)
        assert frame.tensor(0, 0, 0, -1) == 0
        assert frame.view(1, 0, 3, 2) == 0
        for register in frame.tensors:
            assert frame.kind(register) == abi.Kind.TENSOR
            assert machine.field(register, VALUE, "payload") not in frame.places
        assert [machine.field(frame.storages[0], VALUE, "kind")] == [abi.Kind.STORAGE]
        frame.drop(0)
        frame.drop(1)
        machine.call("heddle_drop_storage", frame.storages[0])
        assert books(machine, frame.pool, "bytes_in_use") == (0,)
        machine.call("heddle_pool_trim", frame.pool)


@pytest.mark.parametrize(("old_count", "count", "size"), [(3, 4, 4), (-1, 0, 4), (3, -1, -1)])
def test_a_view_that_does_not_fit_is_an_error(old_count, count, size):
    with checked_machine() as machine:
        frame = Frame(machine, 1, 2)
        frame.take(0, 100)
        assert frame.tensor(0, 0, 0, 12) == 0
        own = machine.new(i64)
        machine.store(own, i64, 3)
        machine.store(frame.places[0] + TENSOR.fields["sizes"].offset_bytes, i64, own)
        machine.store(frame.sizes, i64, size)
        assert frame.view(1, 0, old_count, count) == -1
        assert last_error(machine) == (abi.DIFFERS, 3, size, making.too_large_view.text)
        frame.drop(0)
        machine.call("heddle_drop_storage", frame.storages[0])
        machine.call("heddle_pool_trim", frame.pool)


def test_registers_without_a_storage_or_tensor_are_errors():
    with checked_machine() as machine:
        frame = Frame(machine, 1, 2)
        assert frame.tensor(0, 0, 0, 0) == -1
        assert last_error(machine) == (abi.BAD_OPERANDS, 0, abi.Kind.NONE, frames.expected_storage.text)
        assert frame.view(0, 1, 1, 1) == -1
        assert last_error(machine) == (abi.BAD_OPERANDS, 0, abi.Kind.NONE, frames.expected_tensor.text)


def test_an_object_in_the_place_of_a_tensor_is_released():
    with checked_machine() as machine:
        frame = Frame(machine, 1, 1)
        made = machine.call("heddle_new", abi.Kind.SHAPE, 8, 0, 0)
        frame.put(frame.tensors[0], abi.Kind.SHAPE, made)
        frame.drop(0)
        frame.drop(0)
        assert machine.memory.at(made).freed_at is not None


def _play_all(program):
    with checked_machine(program) as machine:
        for seed in range(6):
            play(Frame(machine, 3, 5), seed)


def test_a_lost_count_would_be_found(tmp_path):
    program = changed_program(tmp_path, frames, "        head.count -= 1\n", "        pass\n")
    with pytest.raises((AssertionError, HeddleError)):
        _play_all(program)
