"""Objects of programs in the checking interpreter: who holds what, and what dies with whom."""

import random
from dataclasses import dataclass, field

import pytest

from heddle.runtime.native import abi
from heddle.runtime.native.abi import Kind, Status
from heddle.runtime.native.source import counting, making
from heddle.runtime.size_class import block_bytes
from heddle.support.diagnostics import HeddleError
from heddle.systems.types import ArrayType, sized, u8
from tests.unit.runtime.checked_objects import HEAD, Objects
from tests.unit.runtime.native_machine import books, changed_program, machine_of, new_pool

# ---- random programs, against a model of who holds what


@dataclass(eq=False)
class Thing:
    """An object of the model: what it holds, and how many hold it."""

    kind: Kind
    parts: list = field(default_factory=list)
    size: int = 0
    holders: int = 0
    owner: int = 0


class Model:
    """Registers of things. `released` are the owners of foreign things that died."""

    def __init__(self, count):
        self.registers = [None] * count
        self.released = []

    def hold(self, thing):
        if thing is not None:
            thing.holders += 1
        return thing

    def leave(self, thing):
        if thing is not None:
            thing.holders -= 1
            if not thing.holders:
                for part in thing.parts:
                    self.leave(part)
                if thing.owner:
                    self.released.append(thing.owner)

    def put(self, to, thing):
        """A register gets a thing that is counted for it already."""
        old, self.registers[to] = self.registers[to], thing
        self.leave(old)

    def alive(self):
        found, waiting = set(), [thing for thing in self.registers if thing]
        while waiting:
            thing = waiting.pop()
            if thing not in found:
                found.add(thing)
                waiting += [part for part in thing.parts if part]
        return found


def play(objects, seed, steps=80):
    rng, model = random.Random(seed), Model(objects.count)
    pick = lambda: rng.randrange(objects.count)  # noqa: E731
    for step in range(steps):
        act, to, source = rng.choice(ACTS), pick(), pick()
        ACT_OF[act](objects, model, rng, to, source, step)
        check(objects, model)
    return model


def _is(model, number, *kinds):
    thing = model.registers[number]
    return thing is not None and thing.kind in kinds


def _storage(objects, model, rng, to, source, step):
    size = rng.choice((0, 1, 64, 100, 4096))
    assert objects.storage(to, size, element=1, device=rng.choice((0, -1))) == Status.DONE
    model.put(to, model.hold(Thing(Kind.STORAGE, size=size)))


def _tensor(objects, model, rng, to, source, step):
    if _is(model, source, Kind.STORAGE):
        storage = model.registers[source]
        size = rng.randint(0, storage.size)
        assert objects.tensor(to, source, size, dtype=0x10801) == Status.DONE
        model.put(to, model.hold(Thing(Kind.TENSOR, [model.hold(storage)], size)))


def _view(objects, model, rng, to, source, step):
    if _is(model, source, Kind.TENSOR):
        tensor = model.registers[source]
        size = rng.randint(0, tensor.size)
        assert objects.reshape(to, source, 1, size) == Status.DONE
        owner = tensor if tensor.owner else tensor.parts[0] if tensor.parts else None
        parts = [model.hold(owner)] if owner else []
        model.put(to, model.hold(Thing(Kind.TENSOR, parts, size)))


def _lent(objects, model, rng, to, source, step):
    size = rng.randint(0, 5)
    objects.lent(to, step + 1, size)
    model.put(to, model.hold(Thing(Kind.TENSOR, [], size, owner=step + 1)))


def _foreign(objects, model, rng, to, source, step):
    objects.foreign(to, step + 1)
    model.put(to, model.hold(Thing(Kind.FOREIGN, owner=step + 1)))


def _tuple(objects, model, rng, to, source, step):
    items = [rng.randrange(objects.count) for _ in range(rng.randint(0, 3))]
    make = rng.choice((objects.tuple, lambda to, *items: objects.closure(to, 3, *items)))
    assert make(to, *items) == Status.DONE
    kind = Kind.TUPLE if make == objects.tuple else Kind.CLOSURE
    model.put(to, model.hold(Thing(kind, [model.hold(model.registers[item]) for item in items])))


def _item(objects, model, rng, to, source, step):
    if _is(model, source, Kind.TUPLE) and model.registers[source].parts:
        parts = model.registers[source].parts
        index = rng.randrange(len(parts))
        assert objects.item(to, source, index) == Status.DONE
        model.put(to, model.hold(parts[index]))


def _reset(objects, model, rng, to, source, step):
    if _is(model, source, Kind.TUPLE) and model.registers[source].parts:
        parts = model.registers[source].parts
        index = rng.randrange(len(parts))
        assert objects.call("heddle_tuple_reset", objects.payload(source), index) == Status.DONE
        old, parts[index] = parts[index], None
        model.leave(old)


def _copy(objects, model, rng, to, source, step):
    objects.copy(to, source)
    model.put(to, model.hold(model.registers[source]))


def _clear(objects, model, rng, to, source, step):
    objects.clear(to)
    model.put(to, None)


def _shape(objects, model, rng, to, source, step):
    assert objects.shape(to, *range(rng.randint(0, 3))) == Status.DONE
    model.put(to, model.hold(Thing(Kind.SHAPE)))


def _again(objects, model, rng, to, source, step):
    args = [rng.randrange(objects.count) for _ in range(rng.randint(0, objects.count))]
    given = objects.values(*args)
    objects.call("heddle_again", objects.registers, objects.count, given, len(args))
    kept = [model.hold(model.registers[arg]) for arg in args]
    for number in range(objects.count):
        model.put(number, None)
    model.registers[: len(kept)] = kept


def _lock(objects, model, rng, to, source, step):
    """The interpreter's lock is taken or given up."""
    if objects.get_context("state"):
        objects.set_context("state", 0)
        objects.call("drop_deferred")
    else:
        objects.set_context("state", 1)


ACT_OF = {
    "storage": _storage,
    "tensor": _tensor,
    "view": _view,
    "lent": _lent,
    "foreign": _foreign,
    "tuple": _tuple,
    "item": _item,
    "reset": _reset,
    "copy": _copy,
    "clear": _clear,
    "shape": _shape,
    "again": _again,
    "lock": _lock,
}
ACTS = [*ACT_OF, "tensor", "view", "tuple", "tuple", "copy", "clear", "clear"]


def check(objects, model):
    """Registers, counts, storages on loan, and what the host was given back."""
    in_use = sum(block_bytes(thing.size) for thing in model.alive() if thing.kind == Kind.STORAGE)
    assert books(objects.machine, objects.pools[0], "bytes_in_use") == (in_use,)
    for number, thing in enumerate(model.registers):
        assert objects.kind(number) == (Kind.NONE if thing is None else thing.kind)
        if thing is not None:
            assert objects.holders(objects.payload(number)) == thing.holders
    if not objects.get_context("state"):
        assert sorted(objects.dropped) == sorted(model.released)
    assert set(objects.dropped) <= set(model.released)


@pytest.mark.parametrize("seed", range(12))
def test_objects_live_while_something_holds_them(seed):
    with machine_of() as machine:
        objects = Objects(machine)
        model = play(objects, seed)
        objects.set_context("state", 0)
        objects.call("drop_deferred")
        objects.end()
        assert set(objects.dropped) >= set(model.released)


LEFT = "    head.count = left\n    if left != 0:\n        return\n"
LAST = "        release_storage(head.owner)\n        free(head)\n"
HOLD = "    if owner != null:\n        retain(kind_at(owner), owner)\n"
FAULTS = {
    "a holder less is not counted": (counting, LEFT, ""),
    "a copy is not counted": (counting, "    retain(kind, payload)\n    put(", "    put("),
    "an item is not counted": (counting, "        retain(kind, payload)\n        number", "        number"),
    "a view does not hold": (making, HOLD, ""),
    "a tensor does not hold": (making, "    retain_storage(storage)\n    put(", "    put("),
    "parts are forgotten": (counting, "all_go(dead, items_of(counted)", "all_go(null, items_of(counted)"),
    "what dies is freed twice": (counting, LAST + "        return\n", LAST),
}


def _play_all(program):
    for seed in range(12):
        with machine_of(program) as machine:
            objects = Objects(machine)
            play(objects, seed)
            objects.set_context("state", 0)
            objects.call("drop_deferred")
            objects.end()


@pytest.mark.parametrize(("source", "old", "new"), FAULTS.values(), ids=FAULTS)
def test_a_fault_in_counting_is_found(tmp_path, source, old, new):
    program = changed_program(tmp_path, source, old, new)
    with pytest.raises((AssertionError, HeddleError)):
        _play_all(program)


# ---- deep and wide


def test_tuples_of_tuples_die_without_the_stack():
    with machine_of(max_steps=10_000_000) as machine:
        objects = Objects(machine)
        for _ in range(3000):
            assert objects.tuple(0, 0) == Status.DONE
        objects.end()


def test_an_object_of_a_frame_is_not_freed():
    with machine_of() as machine:
        objects = Objects(machine)
        memory = machine.new(ArrayType(u8, 128), "a frame")
        for name, value in {"count": 1, "kind": Kind.TENSOR, "flags": abi.Flag.IN_FRAME, "owner": 0}.items():
            item = HEAD.fields[name]
            machine.store(memory + item.offset_bytes, sized(item.type), value)
        objects.set(0, Kind.TENSOR, memory + abi.HEAD_BYTES)
        objects.end()


@pytest.mark.parametrize("seed", range(12))
def test_threads_drop_tensors_of_one_storage(seed):
    """Each tensor is one thread's; the last one gives the storage back."""
    with machine_of(seed=seed, max_steps=100_000) as machine:
        objects = Objects(machine)
        assert objects.storage(0, 100) == Status.DONE
        for number in (1, 2, 3):
            assert objects.tensor(number, 0, number) == Status.DONE
        objects.clear(0)

        def drop(number):
            return lambda: machine.call("heddle_release", 0, Kind.TENSOR, objects.payload(number))

        threads = [machine.spawn(drop(number)) for number in (1, 2)]
        machine.call("heddle_release", 0, Kind.TENSOR, objects.payload(3))
        for thread in threads:
            machine.join(thread)
        for number in (1, 2, 3):
            objects.set(number, Kind.NONE, 0)
        objects.end()


RACES = {
    "a careless holder less": ("count.sub(1, ACQ_REL) == 1", "count.sub(1, RELAXED) == 1"),
    "a careless look": ("count.load(ACQUIRE) == 1", "count.load(RELAXED) == 1"),
}


def _two_threads_write_and_release(program, seed):
    """Whoever is last gives the storage back, which the pool overwrites."""
    with machine_of(program, seed, max_steps=100_000) as machine:
        pool = new_pool(machine, poisons=1)
        storage = machine.call("pool_take", pool, 100)
        machine.call("heddle_retain", Kind.STORAGE, storage)

        def work(number):
            machine.store(storage + abi.Storage.layout.size_bytes + number, u8, number)
            machine.call("heddle_release", 0, Kind.STORAGE, storage)

        other = machine.spawn(lambda: work(1))
        work(2)
        machine.join(other)
        machine.call("heddle_pool_trim", pool)


@pytest.mark.parametrize("seed", range(20))
def test_what_threads_wrote_is_there_before_the_storage_goes_back(seed):
    _two_threads_write_and_release(None, seed)


def _race(program):
    for seed in range(20):
        _two_threads_write_and_release(program, seed)


@pytest.mark.parametrize(("old", "new"), RACES.values(), ids=RACES)
def test_a_race_for_the_last_holder_is_found(tmp_path, old, new):
    program = changed_program(tmp_path, counting, old, new)
    with pytest.raises(HeddleError, match="Y0405"):
        _race(program)
