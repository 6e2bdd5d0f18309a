"""What a call of Python by a program needs, in the checking interpreter: arguments as objects, and its result
in a register. Shapes, which calls of programs pass as well, are here too."""

import pytest

from heddle.runtime.native import abi
from heddle.runtime.native.abi import Flag, Kind
from heddle.systems.types import i64
from tests.unit.runtime.checked_objects import TENSOR
from tests.unit.runtime.checked_python import python_machine
from tests.unit.runtime.test_program_calls_checked import Program, _echo
from tests.unit.runtime.test_sequence_arguments_checked import _sequence


class Host:
    """A program whose registers Python looks at."""

    def __init__(self, machine):
        self.machine = machine
        self.program = Program(machine, _echo(machine), 1)
        self.python, self.objects = self.program.python, self.program.objects
        self.self = self.python.bound(b"", self.python.hold(self.program.keep))
        machine.call("heddle_thread")

    def objects_at(self, count, first=0):
        """The tuple of a number of registers' objects, or 0."""
        return self._call("heddle_objects_at", self.python.int(self.objects.register(first)), count)

    def store(self, number, value):
        return self._call("heddle_store_object", self.python.int(self.objects.register(number)), value)

    def _call(self, name, place, given):
        is_count = name == "heddle_objects_at"
        args = [place, self.python.int(given) if is_count else given]
        result = self.machine.call(name, self.self, self.python.words(*args), 2)
        self.python.drop_all(*args[: 1 + is_count])
        return result

    def shape(self, *sizes):
        """A Shape of Python's."""
        at = self.python.tuple(*map(self.python.int, sizes))
        self.python.types["shape"] = self.program.shapes
        self.machine.store(at + 8, i64, self.program.shapes)
        return at

    def end(self, *objects):
        self.python.drop_all(self.self, *objects)
        self.program.end()


def _numbers(python, at):
    return [python.contents[item] for item in python.items(at)]


@pytest.mark.parametrize("count", [0, 1, 3, 5])
def test_registers_become_objects_and_stay(count):
    with python_machine() as machine:
        host = Host(machine)
        objects, python = host.objects, host.python
        owner = python.thing()
        objects.set(0, Kind.INT, -5)
        objects.set(1, Kind.BOOL, 1)
        objects.foreign(2, python.hold(owner))
        objects.set(3, Kind.NONE, 0)
        objects.shape(4, 2, 0, 7)
        found = host.objects_at(count)
        items = python.items(found)
        assert items[1:4] == [python.true, owner, python.none][: max(count - 1, 0)]
        assert not count or python.contents[items[0]] == -5
        if count == 5:
            assert _numbers(python, items[4]) == [2, 0, 7]
        assert python.count(owner) == 2 + (count > 2)
        assert host.program.called() == ["shape"] * (count == 5)
        host.objects.clear(2)
        host.end(found, owner)


def test_a_tensor_of_the_programs_shares_its_storage_and_nothing_else():
    """Any thread may drop the object, so it does not count in the program's tensor."""
    with python_machine() as machine:
        host = Host(machine)
        objects, python = host.objects, host.python
        objects.new_tensor(0, 2, 3)
        payload = objects.payload(0)
        storage = machine.load(payload - abi.HEAD_BYTES + abi.Head.layout.fields["owner"].offset_bytes, i64)
        assert (objects.holders(payload), objects.holders(storage)) == (1, 1)
        found = host.objects_at(1)
        assert (objects.holders(payload), objects.holders(storage)) == (1, 2)
        (item,) = python.items(found)
        header = python.header(item)
        assert machine.field(header, TENSOR, "data") == objects.field(0, "data")
        at = machine.field(header, TENSOR, "sizes")
        assert at != objects.field(0, "sizes") and [machine.load(at + 8 * n, i64) for n in (0, 1)] == [2, 3]
        objects.clear(0)
        assert objects.holders(storage) == 1  # the object's
        assert host.program.called() == []
        host.end(found)


@pytest.mark.parametrize("failing", [0, "capsule", "bytes", "tensor", "tuple"])
def test_no_memory_for_a_tensors_object_is_an_exception(failing):
    with python_machine() as machine:
        host = Host(machine)
        objects, python = host.objects, host.python
        objects.set(0, Kind.INT, 4)
        objects.new_tensor(1, 3)
        if failing == 0:
            machine.state["failing_allocation"] = 0
        else:
            python.fails = failing
        assert host.objects_at(2) == 0
        machine.state["failing_allocation"], python.fails = None, ""
        assert host.program.called() == (["refuse"] if failing == 0 else [])
        assert host.program.raised()
        host.end()


@pytest.mark.parametrize("flags", [0, Flag.IN_FRAME])
def test_tensors_that_are_lent_come_back_and_those_of_frames_are_left_to_python(flags):
    """So are those that nothing owns."""
    with python_machine() as machine:
        host = Host(machine)
        objects, python = host.objects, host.python
        tensor = python.tensor(4)
        assert host.store(0, tensor) == python.none
        head = python.words(1, Kind.TENSOR | flags << 32, *[0] * 8)
        assert abi.Head.layout.fields["flags"].offset_bytes == 12
        objects.set(1, Kind.TENSOR, head + abi.HEAD_BYTES)
        found = host.objects_at(2)
        assert python.items(found) == [tensor, python.true]
        assert host.program.called() == ["from"]
        objects.set(1, Kind.NONE, 0)
        host.end(found, tensor, python.none)


def test_tuples_of_the_programs_are_left_to_python_and_others_come_back():
    with python_machine() as machine:
        host = Host(machine)
        objects, python = host.objects, host.python
        given = _sequence(host.program, python.int(1), python.tensor(2))
        assert host.store(0, given) == python.none
        assert objects.kind(0) == Kind.TUPLE
        objects.tuple(1, 0, 0)
        objects.data(2, 7, 0)
        found = host.objects_at(3)
        assert python.items(found) == [given, python.true, python.true]
        assert host.program.called() == ["from"] * 2
        host.end(found, given, python.none)


def test_an_object_that_fails_drops_those_before_it():
    with python_machine() as machine:
        host = Host(machine)
        host.objects.set(0, Kind.INT, 1 << 40)
        host.objects.new_tensor(1, 2)
        host.objects.closure(2, 3)
        host.program.answer = 0
        assert host.objects_at(3) == 0
        assert host.program.called() == ["from"] and host.program.raised()
        host.end()


def test_a_register_lets_go_of_what_it_held():
    with python_machine() as machine:
        host = Host(machine)
        objects, python = host.objects, host.python
        owner, tensor = python.thing(), python.tensor(2)
        objects.foreign(3, python.hold(owner))
        assert host.store(3, tensor) == python.none
        assert python.count(owner) == 1 and python.count(tensor) == 2
        assert host.store(3, python.true) == python.none
        assert (objects.kind(3), objects.payload(3)) == (Kind.BOOL, 1)
        assert python.count(tensor) == 1
        host.end(owner, tensor, *[python.none] * 2)


@pytest.mark.parametrize("why", ["host", "memory"])
def test_a_register_stays_as_it_was_where_its_value_fails(why):
    with python_machine() as machine:
        host = Host(machine)
        objects, python = host.objects, host.python
        objects.set(3, Kind.INT, 12)
        given = python.thing() if why == "host" else python.tensor(2)
        host.program.answer = 0
        machine.state["failing_allocation"] = None if why == "host" else 0
        assert host.store(3, given) == 0
        machine.state["failing_allocation"] = None
        assert (objects.kind(3), objects.payload(3)) == (Kind.INT, 12)
        assert host.program.called() == ["to" if why == "host" else "refuse"] and host.program.raised()
        host.end(given)


# ---- shapes


@pytest.mark.parametrize("sizes", [(), (0,), (3, -1), (5, 1 << 62, 7)])
def test_shapes_come_back_as_they_went(sizes):
    with python_machine() as machine:
        host = Host(machine)
        objects, python = host.objects, host.python
        shape = host.shape(*sizes)
        assert host.store(0, shape) == python.none
        assert objects.kind(0) == Kind.SHAPE and python.count(shape) == 1
        result = host.program(shape)
        assert _numbers(python, result) == list(sizes)
        assert host.program.called() == ["shape"]
        host.end(shape, result, python.none)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_shape_of_larger_sizes_goes_through_the_host(place):
    with python_machine() as machine:
        host = Host(machine)
        python = host.python
        sizes = [3, 4, 5]
        sizes[place] = 1 << 63
        shape = host.shape(*sizes)
        assert host.store(0, shape) == python.none
        assert host.program.called() == ["to"]
        assert host.objects.payload(0) == 99 and not python.raised
        host.end(shape, python.none)


@pytest.mark.parametrize("failing", ["tuple", "int", "class"])
def test_no_memory_for_a_shapes_object_is_an_exception(failing):
    with python_machine() as machine:
        host = Host(machine)
        python = host.python
        host.objects.shape(0, 1, 2)
        args = python.words(place := python.int(host.objects.register(0)), count := python.int(1))
        if failing == "class":
            python.contents[host.program.shapes] = ("shape", lambda items: 0)
        made = python.new_tuple
        if failing == "tuple":
            python.new_tuple = lambda count, calls=[]: (
                calls.append(count) or (made(count) if len(calls) < 2 else 0)
            )
        elif failing == "int":
            python.fails = "int"
        assert machine.call("heddle_objects_at", host.self, args, 2) == 0
        python.fails, python.new_tuple = "", made
        python.raised = False
        host.end(place, count)


def test_no_memory_for_a_shape_is_an_error():
    with python_machine() as machine:
        host = Host(machine)
        shape = host.shape(1, 2)
        machine.state["failing_allocation"] = 0
        assert host.store(0, shape) == 0
        machine.state["failing_allocation"] = None
        assert host.program.called() == ["refuse"] and host.program.raised()
        assert host.objects.kind(0) == Kind.NONE
        host.end(shape)
