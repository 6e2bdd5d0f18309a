"""Sequences in the checking interpreter: elements more and less, tensors joined and split, against numpy."""

from __future__ import annotations

import random

import numpy as np
import pytest

from heddle.runtime.native.abi import Kind, Status
from heddle.runtime.native.source.sequences import MOST_AXES
from heddle.systems.types import i64
from tests.unit.runtime.checked_objects import FLOAT32, INT64, Objects
from tests.unit.runtime.native_machine import machine_of

ITEMS = 12
SEQUENCE, PLACE, RESULT = ITEMS, ITEMS + 1, ITEMS + 2
DTYPES = {FLOAT32: np.float32, INT64: np.int64}


class Sequences(Objects):
    """Items in the first registers, then a sequence of some of them, a place, and a result."""

    def __init__(self, machine):
        super().__init__(machine, num_registers=ITEMS + 4)

    def put(self, number, array):
        array = np.array(array, order="C")
        dtype = next(word for word, kind in DTYPES.items() if kind == array.dtype)
        self.new_tensor(number, *array.shape, dtype=dtype)
        self.machine.memory.write(self.field(number, "data"), array.tobytes())

    def array(self, number):
        dtype, sizes = DTYPES[self.field(number, "dtype")], self.sizes(number)
        count = int(np.prod(sizes)) * np.dtype(dtype).itemsize
        data = self.machine.memory.read(self.field(number, "data"), count) if count else b""
        return np.frombuffer(data, dtype).reshape(sizes)

    def length(self):
        return self.machine.load(self.payload(RESULT), i64)

    def ask(self, name, *operands):
        given = [self.register(value) if is_register else value for value, is_register in operands]
        return self.call(f"heddle_sequence_{name}", self.register(RESULT), *given)


def register(number):
    return number, True


def number(value):
    return value, False


@pytest.mark.parametrize("seed", range(6))
def test_elements_more_and_less(seed):
    rng = random.Random(seed)
    with machine_of() as machine:
        objects = Sequences(machine)
        for item in range(ITEMS):
            objects.put(item, np.full((1,), item, np.float32))
        own = [rng.randrange(ITEMS) for _ in range(rng.randrange(5))]
        objects.tuple(SEQUENCE, *own)
        for _ in range(12):
            place = rng.randrange(-len(own) - 2, len(own) + 3)
            objects.put(PLACE, np.array(place))
            inserts, item = rng.random() < 0.6, rng.randrange(ITEMS)
            if inserts:
                ends = rng.random() < 0.3
                operands = [register(SEQUENCE), register(item), number(0) if ends else register(PLACE)]
                status = objects.ask("insert", *operands)
                fits = ends or -len(own) <= place <= len(own)
                wanted = [*own[: len(own) if ends else place], item, *own[len(own) if ends else place :]]
            else:
                status = objects.ask("erase", register(SEQUENCE), register(PLACE))
                fits = -len(own) <= place < len(own)
                wanted = own[:]
                if fits:
                    del wanted[place]
            assert status == (Status.DONE if fits else Status.ASK_HOST), (own, place)
            if fits:
                own = wanted
                objects.copy(SEQUENCE, RESULT)
                objects.clear(RESULT)
            found = []
            for index in range(len(own)):
                objects.item(RESULT, SEQUENCE, index)
                found.append(int(objects.array(RESULT)[0]))
            assert found == own
            objects.clear(RESULT)
        objects.end()


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize(
    ("shape", "axis"), [((3,), 0), ((2, 3), 0), ((2, 3), 1), ((2, 0, 3), 2), ((2, 2, 3), 1)]
)
@pytest.mark.parametrize("is_new", [0, 1])
def test_joined(shape, axis, is_new, dtype):
    rng = np.random.default_rng()
    with machine_of() as machine:
        objects = Sequences(machine)
        for place in (axis, axis - len(shape) - is_new):
            arrays = []
            for item, size in enumerate((shape[axis], 1, 0, 5)):
                own = list(shape)
                own[axis] = shape[axis] if is_new else size
                arrays.append(rng.integers(0, 99, own).astype(dtype))
                objects.put(item, arrays[-1])
            objects.tuple(SEQUENCE, *range(len(arrays)))
            status = objects.ask("concat", register(SEQUENCE), number(place), number(is_new))
            assert status == Status.DONE
            join = np.stack if is_new else np.concatenate
            np.testing.assert_array_equal(objects.array(RESULT), join(arrays, axis))
        objects.end()


@pytest.mark.parametrize("case", ["nothing", "no tensor", "rank", "dtype", "size", "axis", "too many axes"])
def test_what_does_not_join_is_the_hosts(case):
    with machine_of() as machine:
        objects = Sequences(machine)
        shape, axis = (2, 3), 0
        objects.put(0, np.zeros(shape, np.float32))
        objects.put(1, np.zeros(shape, np.float32))
        items = [0, 1]
        if case == "nothing":
            items = []
        elif case == "no tensor":
            objects.shape(1, 2, 3)
        elif case == "rank":
            objects.put(1, np.zeros((2, 3, 1), np.float32))
        elif case == "dtype":
            objects.put(1, np.zeros(shape, np.int64))
        elif case == "size":
            objects.put(1, np.zeros((2, 4), np.float32))
        elif case == "axis":
            axis = 2
        else:
            for item in items:
                objects.put(item, np.zeros((1,) * (MOST_AXES + 1), np.float32))
        objects.tuple(SEQUENCE, *items)
        assert objects.ask("concat", register(SEQUENCE), number(axis), number(0)) == Status.ASK_HOST
        assert objects.kind(RESULT) == Kind.NONE
        assert objects.ask("concat", register(0), number(0), number(0)) == Status.ASK_HOST
        objects.end()


FAILING = {
    "insert": [(SEQUENCE, 0, PLACE)],
    "erase": [(SEQUENCE, PLACE)],
    "concat": [(SEQUENCE,), (0, 0)],
    "split": [(0, PLACE), (0, 1)],
}


@pytest.mark.parametrize("name", FAILING)
@pytest.mark.parametrize("failing", range(5))
def test_no_memory_is_an_error_and_nothing_is_lost(name, failing):
    registers, numbers = (*FAILING[name], ())[:2]
    with machine_of() as machine:
        objects = Sequences(machine)
        machine.call("heddle_thread")
        for item in range(2):
            objects.put(item, np.zeros((6,), np.float32))
        objects.tuple(SEQUENCE, 0, 1)
        objects.put(PLACE, np.array(1))
        machine.state["failing_allocation"] = failing
        status = objects.ask(name, *map(register, registers), *map(number, numbers))
        machine.state["failing_allocation"] = None
        assert status in (Status.DONE, Status.FAILED)
        assert (objects.kind(RESULT) == Kind.NONE) == (status == Status.FAILED)
        if failing == 0:
            assert status == Status.FAILED
        objects.end()


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(
    ("sizes", "keeps"), [(2, 1), (1, 1), (1, 0), (9, 1), ([1, 3, 0], 1), ([4], 1), ([1, 1, 1, 1], 0), ([], 1)]
)
def test_split(axis, sizes, keeps):
    shape = [2, 3, 2]
    shape[axis] = 0 if sizes == [] else 4
    x = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    with machine_of() as machine:
        objects = Sequences(machine)
        objects.put(0, x)
        objects.put(PLACE, np.array(sizes, np.int64))
        assert objects.ask("split", register(0), register(PLACE), number(axis), number(keeps)) == Status.DONE
        ends = np.cumsum(sizes).tolist() if isinstance(sizes, list) else [*range(sizes, 4, sizes), 4]
        assert objects.length() == len(ends)
        for index, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
            objects.item(1, RESULT, index)
            part = x.take(np.arange(begin, end, dtype=np.int64), axis)
            np.testing.assert_array_equal(objects.array(1), part if keeps else part.squeeze(axis))
        objects.end()


@pytest.mark.parametrize(
    ("sizes", "keeps", "axis"),
    [
        (0, 1, 0),
        (-1, 1, 0),
        (2, 0, 0),
        ([1, 2], 1, 0),
        ([-1, 5], 1, 0),
        ([2, 2], 0, 0),
        (2, 1, 1),
        (2, 1, -1),
    ],
)
def test_what_does_not_split_is_the_hosts(sizes, keeps, axis):
    with machine_of() as machine:
        objects = Sequences(machine)
        objects.put(0, np.zeros(4, np.float32))
        objects.put(PLACE, np.array(sizes, np.int64))
        given = register(0), register(PLACE), number(axis), number(keeps)
        assert objects.ask("split", *given) == Status.ASK_HOST
        assert objects.kind(RESULT) == Kind.NONE
        objects.end()
