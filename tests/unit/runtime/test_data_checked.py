"""Values of data types, references and segments of stack in the checking interpreter."""

import random

import pytest

from heddle.runtime.native import abi
from heddle.runtime.native.abi import Kind, Status
from heddle.runtime.native.source import data, stacks
from heddle.systems.types import Address
from tests.unit.runtime.checked_objects import Objects
from tests.unit.runtime.native_machine import last_error, machine_of

CONS, NIL = 7 << 24, (7 << 24) + 1
HERE = 1 << 40  # where the thread's own stack is


def test_a_value_says_what_it_was_made_of():
    with machine_of() as machine:
        objects = Objects(machine)
        objects.new_tensor(0, 3)
        objects.set(1, Kind.INT, 5)
        assert objects.data(2, CONS, 0, 1) == Status.DONE
        assert objects.holders(objects.payload(0)) == 2
        assert (objects.has_tag(2, CONS), objects.has_tag(2, NIL)) == (1, 0)
        for index in (0, 1):
            assert objects.field_of(3, 2, index) == Status.DONE
            assert (objects.kind(3), objects.payload(3)) == (objects.kind(index), objects.payload(index))
        assert objects.data(2, NIL) == Status.DONE  # the old value of the register dies
        assert objects.holders(objects.payload(0)) == 1
        assert objects.has_tag(2, NIL) == 1
        objects.end()


@pytest.mark.parametrize("index", [-1, 2, 1 << 40])
def test_a_field_that_is_not_there_is_an_error(index):
    with machine_of() as machine:
        objects = Objects(machine)
        objects.set(1, Kind.INT, 5)
        assert objects.data(0, CONS, 1, 1) == Status.DONE
        assert objects.field_of(2, 0, index) == Status.FAILED
        assert last_error(machine) == (abi.NO_ITEM, 2, index, data.no_such_field.text)
        assert objects.kind(2) == Kind.NONE
        objects.end()


@pytest.mark.parametrize("kind", ["int", "tensor", "tuple", "other"])
def test_another_kind_of_value_is_an_error(kind):
    with machine_of() as machine:
        objects = Objects(machine)
        objects.set(0, Kind.INT, 5)
        objects.set(1, Kind.INT, 5)
        if kind == "tensor":
            objects.new_tensor(0, 2)
        if kind == "tuple":
            assert objects.tuple(0, 1) == Status.DONE
        assert objects.data(2, CONS) == objects.reference(3, 1) == Status.DONE
        no_data = 3 if kind == "other" else 0
        no_ref = 2 if kind == "other" else 0
        word, text = abi.WRONG_KIND, data.no_data.text
        assert objects.has_tag(no_data, CONS) == Status.FAILED
        assert last_error(machine) == (word, 0, objects.kind(no_data), text)
        assert objects.field_of(4, no_data, 0) == Status.FAILED
        assert objects.read(4, no_ref) == objects.write_ref(no_ref, 1) == Status.FAILED
        assert last_error(machine) == (word, 0, objects.kind(no_ref), data.no_reference.text)
        objects.end()


def test_all_who_have_a_reference_see_what_is_written():
    with machine_of() as machine:
        objects = Objects(machine)
        objects.new_tensor(0, 3)
        assert objects.reference(1, 0) == Status.DONE
        objects.copy(2, 1)
        objects.new_tensor(3, 4)
        assert objects.write_ref(2, 3) == Status.DONE
        assert objects.holders(objects.payload(0)) == 1
        assert objects.read(4, 1) == Status.DONE
        assert objects.payload(4) == objects.payload(3) and objects.holders(objects.payload(3)) == 3
        assert objects.write_ref(1, 4) == Status.DONE  # what it holds already
        assert objects.holders(objects.payload(3)) == 3
        objects.end()


def test_a_long_list_dies_without_a_stack():
    with machine_of() as machine:
        objects = Objects(machine)
        objects.new_tensor(1, 2)
        assert objects.data(0, NIL) == Status.DONE
        for _ in range(300):
            assert objects.data(0, CONS, 1, 0) == Status.DONE
        assert objects.holders(objects.payload(1)) == 301
        objects.clear(0)
        assert objects.holders(objects.payload(1)) == 1
        objects.end()


@pytest.mark.parametrize("what", ["data", "reference"])
def test_no_memory_is_an_error_and_nothing_is_lost(what):
    with machine_of() as machine:
        objects = Objects(machine)
        machine.call("heddle_thread")
        objects.new_tensor(0, 3)
        machine.state["failing_allocation"] = 0
        made = objects.data(1, CONS, 0) if what == "data" else objects.reference(1, 0)
        machine.state["failing_allocation"] = None
        assert made == Status.FAILED and last_error(machine)[0] == abi.NO_MEMORY
        assert objects.holders(objects.payload(0)) == 1
        objects.end()


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_lose_nothing(seed):
    """Against a model of values in Python: what registers lead to stays alive, the rest dies."""
    rng = random.Random(seed)
    with machine_of(seed=seed) as machine:
        objects = Objects(machine, num_registers=6)
        known = [None] * 6
        for _ in range(120):
            to, a, b = (rng.randrange(6) for _ in range(3))
            action = rng.randrange(6)
            if action == 0:
                objects.new_tensor(to, 2)
                known[to] = object()
            elif action == 1:
                assert objects.data(to, CONS, a, b) == Status.DONE
                known[to] = (known[a], known[b])
            elif action == 2 and isinstance(known[a], tuple):
                assert objects.field_of(to, a, 1) == Status.DONE
                known[to] = known[a][1]
            elif action == 3:
                assert objects.reference(to, a) == Status.DONE
                known[to] = [known[a]]
            elif action == 4 and isinstance(known[a], list):
                assert objects.read(to, a) == Status.DONE
                known[to] = known[a][0]
            else:
                objects.clear(to)
                known[to] = None
            kinds = {tuple: Kind.DATA, list: Kind.REFERENCE, type(None): Kind.NONE}
            assert objects.kind(to) == kinds.get(type(known[to]), Kind.TENSOR)
        objects.end()


# ---- segments of stack


class Stack:
    """A thread's stack, and a function of a program that needs more of it."""

    def __init__(self, machine, left, work):
        self.machine, self.objects = machine, Objects(machine)
        machine.state["frame"] = HERE
        self.objects.set_context("stack_limit", HERE - 1000)
        self.objects.set_context("stack_left", left)
        self.code = machine.function(work)

    def grow(self, size):
        place = self.objects.register(0)
        return self.objects.call("heddle_grow", size, self.code, place, place)


@pytest.mark.parametrize("status", list(Status))
def test_a_call_without_room_runs_on_a_segment(status):
    seen = []

    def work(context, args, result):
        seen.append([stack.objects.get_context(name) for name in ("stack_left", "home", "home_limit")])
        here = machine.state["frame"]
        assert stack.objects.get_context("stack_limit") < here
        assert stack.objects.call("heddle_has_room", 4096) == 1
        machine.state["frame"] = stack.objects.get_context("stack_limit") + 100
        assert stack.objects.call("heddle_has_room", 101) == 0
        machine.state["frame"] = here
        return status

    with machine_of() as machine:
        left = 2 * stacks.SEGMENT_BYTES
        stack = Stack(machine, left, work)
        assert stack.grow(640) == status
        [(rest, home, limit)] = seen
        assert rest == left - stacks.SEGMENT_BYTES - 640
        assert home == HERE - stacks.ACTIVE_BYTES and limit == HERE - 1000
        after = [stack.objects.get_context(name) for name in ("stack_left", "home", "stack_limit")]
        assert after == [left, 0, HERE - 1000]


def test_segments_are_bounded():
    depth = []

    def work(context, args, result):
        depth.append(stack.objects.get_context("stack_left"))
        return stack.grow(100)

    with machine_of() as machine:
        machine.call("heddle_thread")
        stack = Stack(machine, 3 * stacks.SEGMENT_BYTES + 999, work)
        assert stack.grow(100) == Status.FAILED
        assert last_error(machine) == (abi.TOO_DEEP, 0, 0, stacks.too_deep.text)
        assert len(depth) == 3 and stack.objects.get_context("stack_left") == 3 * stacks.SEGMENT_BYTES + 999


def test_no_memory_for_a_segment_is_an_error():
    with machine_of() as machine:
        machine.call("heddle_thread")
        stack = Stack(machine, 1 << 40, lambda *_: 0)
        machine.state["failing_allocation"] = 0
        assert stack.grow(100) == Status.FAILED
        machine.state["failing_allocation"] = None
        assert last_error(machine)[0] == abi.NO_MEMORY


def test_the_host_is_called_on_the_threads_own_stack():
    """It may call the program again, which has segments again."""
    frames = []

    def host(context, function, args, count, result):
        frames.append(machine.state["frame"])
        assert stack.objects.get_context("stack_limit") == HERE - 1000
        assert stack.objects.get_context("home") == 0
        if len(frames) == 1:
            assert stack.grow(100) == Status.DONE
        return Status.DONE

    def work(context, args, result):
        place = stack.objects.register(0)
        return stack.objects.call("heddle_call", place, 0, place, 0)

    with machine_of() as machine:
        stack = Stack(machine, 1 << 30, work)
        stack.objects.set_context("host_call", machine.function(host))
        entry = machine.new(abi.Entry.layout, "the function")
        stack.objects.set_context("functions", entry)
        assert machine.load(entry, Address) == 0
        assert stack.grow(100) == Status.DONE
        first = (HERE - stacks.ACTIVE_BYTES) // 64 * 64 - 1000
        assert frames == [first, (first - stacks.ACTIVE_BYTES) // 64 * 64 - 1000]
