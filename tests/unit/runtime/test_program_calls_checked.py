"""Calls of programs from Python, and back, in the checking interpreter."""

import random
import struct

import pytest

from heddle.runtime.native import abi
from heddle.runtime.native.abi import Kind, Status
from heddle.runtime.native.source import program_calls, python_values
from heddle.systems.types import Address, i64
from tests.unit.runtime.checked_objects import TENSOR, VALUE, Objects
from tests.unit.runtime.checked_python import FIELDS_SLOT, HEADER_SLOT, OWNER_SLOT, TAG_SLOT, python_machine

ELEMENT_TYPE = 0x7777
FLOAT32 = 0x12002
ARRAY = abi.NumpyArray.layout


class Program:
    """A function of a program that `work(context, args, result)` is, as Python calls it."""

    def __init__(self, machine, work, num_args):
        self.machine, self.python = machine, machine.state["python"]
        self.objects = Objects(machine)
        python, names = self.python, ("to", "from", "host", "refuse", "error", "watch", "sequence")
        works = (
            self.to_native,
            self.from_native,
            self.host,
            self.refuse,
            self.error,
            self.watch,
            self.sequence,
        )
        self.hooks = [python.function(name, work) for name, work in zip(names, works, strict=True)]
        slow = [python.function("slow", None), python.function("raise", None)]
        self.shapes = python.function("shape", self.sequence)
        machine.call("heddle_glue_configure", python.types["tensor"], HEADER_SLOT, OWNER_SLOT, *slow)
        elements = python.words(1, 2, ELEMENT_TYPE, FLOAT32)
        machine.call("heddle_arrays_configure", python.types["array"], elements, 2)
        classes = [*(python.types[name] for name in ("data", "tuple", "texts")), self.shapes]
        machine.call("heddle_program_configure", *self.hooks, *classes, TAG_SLOT, FIELDS_SLOT)
        machine.store(machine.global_at("host_drop"), Address, machine.function(self.drop_owner))
        self.hooks += [*slow, self.shapes]
        self.keep = python.thing()
        code = machine.function(work)
        record = struct.pack("<qqq", self.objects.context, code, num_args)
        self.bound = python.bound(record, python.hold(self.keep))
        self.answer = python.true

    def __call__(self, *args):
        return self.machine.call("heddle_call_program", self.bound, self.python.words(*args), len(args))

    # what the host does

    def drop_owner(self, owner):
        self.python.drop(owner)
        return 0

    def to_native(self, keep, arg, context, value):
        if self.answer:
            self.objects.write(value, Kind.INT, 99)
        return self.answer and self.python.hold(self.answer)

    def from_native(self, keep, value):
        return self.answer and self.python.hold(self.answer)

    def host(self, context, function, args, count, register):
        self.objects.write(register, Kind.INT, function * 100 + count)
        return self.answer and self.python.hold(self.answer)

    def refuse(self, keep, count):
        return 0

    def error(self, keep):
        return 0

    def watch(self, bound, args):
        return self.python.hold(self.answer)

    def sequence(self, items):
        """What Array makes of a tuple: here, the tuple."""
        return self.python.hold(items)

    def raised(self):
        """Whether an exception was set; it is forgotten."""
        was, self.python.raised = self.python.raised, False
        return was

    def end(self, *objects):
        python = self.python
        assert python.is_locked and not python.raised
        assert self.objects.get_context("calls") == 0
        assert self.objects.get_context("state") == 0
        python.drop_all(self.keep, self.bound, *self.hooks, *objects)
        self.objects.end()

    def called(self):
        return [name for name, _ in self.python.calls]


def _echo(machine, index=0):
    """The code of a function that gives one of its arguments back."""

    def work(context, args, result):
        assert not machine.state["python"].is_locked
        machine.call("heddle_copy", context, result, args + VALUE.size_bytes * index)
        return Status.DONE

    return work


def _objects_of(python):
    return {
        "int": python.int(1 << 62),
        "minus one": python.int(-1),
        "float": python.float(-0.0),
        "true": python.hold(python.true),
        "false": python.hold(python.false),
        "none": python.hold(python.none),
        "tensor": python.tensor(2, 3),
    }


KNOWN = ["int", "minus one", "float", "true", "false", "none", "tensor"]


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("index", [0, 1, 6])
def test_arguments_come_back_as_they_went(name, index):
    with python_machine() as machine:
        program, python = Program(machine, _echo(machine, index), 7), machine.state["python"]
        given = _objects_of(python)
        others = [given[other] for other in KNOWN if other != name]
        args = others[:index] + [given[name]] + others[index:]
        result = program(*args)
        assert python.type_of(result) == python.type_of(given[name])
        assert python.contents.get(result) == python.contents.get(given[name])
        if name in ("true", "false", "none", "tensor"):
            assert result == given[name]
        assert program.called() == []
        program.end(result, *args)


def test_what_native_code_does_not_know_goes_through_the_host():
    with python_machine() as machine:
        program, python = Program(machine, _echo(machine), 4), machine.state["python"]
        strided = python.tensor(2, strides=python.words(5))
        given = [python.thing(), strided, python.int(1 << 63), python.int(-1)]
        result = program(*given)
        assert program.called() == ["to"] * 3
        assert python.contents[result] == 99
        program.end(result, *given)


# ---- values of data types


def _shown(machine, at):
    """A value as Python's tuples: tag and fields, or kind and payload."""
    kind, payload = machine.field(at, VALUE, "kind"), machine.field(at, VALUE, "payload")
    if kind != Kind.DATA:
        return kind, payload if kind == Kind.INT else None
    count, tag = (machine.field(payload, abi.Data.layout, name) for name in ("count", "tag"))
    first = payload + abi.Data.layout.size_bytes
    return tag, [_shown(machine, first + VALUE.size_bytes * place) for place in range(count)]


@pytest.mark.parametrize("is_short", [False, True])
def test_values_of_data_types_become_native_ones(is_short):
    """Near the stack's end the host converts them."""
    with python_machine() as machine:
        seen = []

        def work(context, args, result):
            seen.append(_shown(machine, args))
            return Status.DONE

        program, python = Program(machine, work, 1), machine.state["python"]
        list_ = python.data(7, python.int(4), python.data(7, python.tensor(2), python.data(8)))
        machine.state["frame"] = 100 if is_short else 1 << 40
        program.end(program(list_), list_)
        wanted = (7, [(Kind.INT, 4), (7, [(Kind.TENSOR, None), (8, [])])])
        assert seen == [(Kind.INT, 99) if is_short else wanted]
        assert program.called() == (["to"] if is_short else [])


@pytest.mark.parametrize("odd", ["tag", "large tag", "fields", "nothing", "part"])
def test_what_is_odd_in_a_value_of_a_data_type_goes_through_the_host(odd):
    with python_machine() as machine:
        seen = []

        def work(context, args, result):
            seen.append(_shown(machine, args))
            return Status.DONE

        program, python = Program(machine, work, 1), machine.state["python"]
        made = {
            "tag": lambda: python.instance("data", python.tuple(), python.thing()),
            "large tag": lambda: python.data(1 << 70),
            "fields": lambda: python.instance("data", python.thing(), python.int(1)),
            "nothing": lambda: python.instance("data", 0, 0),
            "part": lambda: python.data(1, python.int(2), python.thing()),
        }[odd]()
        program.end(program(made), made)
        assert seen == [(1, [(Kind.INT, 2), (Kind.INT, 99)]) if odd == "part" else (Kind.INT, 99)]
        assert program.called() == ["to"]


def test_values_of_data_types_beyond_a_number_go_through_the_host(monkeypatch):
    with python_machine() as machine:
        program, python = Program(machine, lambda *_: Status.DONE, 1), machine.state["python"]
        one = python.data(8)
        whole = python.data(7, *(python.hold(one) for _ in range(python_values.MOST_NESTED)))
        program.end(program(whole), whole, one)
        assert program.called() == ["to"] * 2


@pytest.mark.parametrize("failing", range(4))
def test_no_memory_for_a_value_of_a_data_type_drops_its_parts(failing):
    with python_machine() as machine:
        program, python = Program(machine, lambda *_: Status.DONE, 1), machine.state["python"]
        given = python.data(7, python.tensor(2), python.data(7, python.tensor(3), python.data(8)))
        machine.call("heddle_thread")
        machine.state["failing_allocation"] = failing
        assert program(given) == 0
        machine.state["failing_allocation"] = None
        assert program.called() == ["refuse"] and program.raised()
        program.end(given)


@pytest.mark.parametrize("why", ["host", "memory", "array"])
def test_an_argument_that_cannot_be_converted_releases_those_before_it(why):
    with python_machine() as machine:
        program, python = Program(machine, _echo(machine), 3), machine.state["python"]
        if why == "array":
            last = _array(machine, python, 5)
        else:
            last = python.tensor(3) if why == "memory" else python.thing()
        given = [python.tensor(2), python.int(5), last]
        program.answer = 0
        machine.call("heddle_thread")
        machine.state["failing_allocation"] = {"host": None, "memory": 1, "array": 1}[why]
        assert program(*given) == 0
        machine.state["failing_allocation"] = None
        assert program.called() == ["to" if why == "host" else "refuse"]
        if why != "host":
            assert python.calls[0][1] == (program.keep, python_values.OWN_ERROR)
        assert program.raised()
        assert [python.count(at) for at in given] == [1, 1, 1]
        program.end(*given)


# ---- refusals


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_number_of_arguments_is_refused(count):
    with python_machine() as machine:
        program, python = Program(machine, _echo(machine), 2), machine.state["python"]
        assert program(*[python.none] * count) == 0
        assert python.calls == [("refuse", (program.keep, count))]
        assert program.raised()
        program.end()


def test_a_second_thread_is_refused_and_the_same_one_is_not():
    with python_machine() as machine:
        program, python = Program(machine, _echo(machine), 1), machine.state["python"]
        program.objects.set_context("calls", 1)
        program.objects.set_context("thread", 77)
        assert program(python.none) == 0
        assert python.calls == [("refuse", (program.keep, program_calls.BUSY))]
        assert program.raised()
        program.objects.set_context("thread", machine.scheduler.current.number + 1)
        assert program(python.none) == python.none
        assert program.objects.get_context("calls") == 1
        program.objects.set_context("calls", 0)
        program.end(python.none)


def test_a_watched_machine_runs_its_bytecode():
    with python_machine() as machine:
        program, python = Program(machine, None, 1), machine.state["python"]
        program.objects.set_context("watched", 1)
        number = python.int(5)
        assert program(number) == python.true
        ((name, (bound, _)),) = python.calls
        assert (name, bound) == ("watch", program.bound)
        program.end(python.true, number)


# ---- results


def _tensors(program, count):
    """The code of a function whose result is a tuple of new tensors in a tuple, or one tensor."""

    def work(context, args, result):
        objects = program[0].objects
        for number in range(count or 1):
            objects.new_tensor(number, number + 1)
        if count:
            objects.tuple(7, *range(count))
            objects.tuple(7, 7, 7)
        objects.machine.call("heddle_copy", context, result, objects.register(7 if count else 0))
        objects.call("heddle_release_all", objects.registers, objects.count)
        return Status.DONE

    return work


def test_a_tensor_that_nothing_else_holds_goes_to_python_whole():
    with python_machine() as machine:
        cell = []
        program, python = Program(machine, _tensors(cell, 0), 0), machine.state["python"]
        cell.append(program)
        result = program()
        assert python.type_of(result) == "tensor"
        header = python.header(result)
        assert machine.field(header, TENSOR, "rank") == 1
        assert machine.load(machine.field(header, TENSOR, "sizes"), i64) == 1
        assert program.called() == []
        program.end(result)


@pytest.mark.parametrize("count", [1, 3])
def test_tuples_of_results_are_sequences_of_pythons(count):
    """The inner one is there twice, so its tensors are not its own: the host makes objects of them."""
    with python_machine() as machine:
        cell = []
        program, python = Program(machine, _tensors(cell, count), 0), machine.state["python"]
        cell.append(program)
        result = program()
        inner = python.items(result)
        assert len(inner) == 2
        assert [python.items(item) for item in inner] == [[python.true] * count] * 2
        assert program.called() == (["from"] * count + ["sequence"]) * 2 + ["sequence"]
        program.end(result)


@pytest.mark.parametrize("failing", ["capsule", "bytes", "tensor", "tuple"])
def test_no_memory_for_a_result_is_an_exception(failing):
    with python_machine() as machine:
        cell = []
        program, python = (
            Program(machine, _tensors(cell, 2 * (failing == "tuple")), 0),
            machine.state["python"],
        )
        cell.append(program)
        python.fails = failing
        assert program() == 0
        python.fails = ""
        assert program.raised()
        program.end()


def test_a_result_in_a_tuple_that_fails_drops_those_before_it():
    with python_machine() as machine:
        cell = []

        def work(context, args, result):
            objects = cell[0].objects
            objects.set(0, Kind.INT, 5)
            objects.closure(1, 2)  # which the host makes
            objects.tuple(2, 0, 1)
            machine.call("heddle_copy", context, result, objects.register(2))
            objects.set(0, Kind.NONE, 0)
            objects.call("heddle_release_all", objects.registers, objects.count)
            return Status.DONE

        program = Program(machine, work, 0)
        cell.append(program)
        program.answer = 0
        assert program() == 0
        assert program.called() == ["from"]
        assert program.raised()
        program.end()


def test_a_tuple_that_came_from_python_goes_back_as_it_was():
    with python_machine() as machine:
        cell = []

        def work(context, args, result):
            owner = cell[0].owner
            flags = abi.Flag.FOREIGN_OWNER | abi.Flag.IS_OWNER
            made = machine.call("heddle_new", Kind.TUPLE, 8, owner, flags)
            machine.store(made, i64, 0)
            machine.call("heddle_put", context, result, Kind.TUPLE, made)
            return Status.DONE

        program, python = Program(machine, work, 0), machine.state["python"]
        cell.append(program)
        program.owner = python.hold(python.thing())
        assert program() == program.owner
        assert python.count(program.owner) == 2
        program.end(program.owner, program.owner)


def test_tuples_deeper_than_the_stack_are_an_error():
    with python_machine() as machine:
        cell = []
        program, python = Program(machine, _tensors(cell, 1), 0), machine.state["python"]
        cell.append(program)
        machine.call("stack_limit")
        machine.state["frame"] = 1000
        assert program() == 0
        assert python.calls == [("refuse", (program.keep, python_values.OWN_ERROR))]
        assert program.raised()
        program.end()


# ---- failures, and calls of the host


@pytest.mark.parametrize("is_pending", [False, True])
def test_a_program_that_fails_raises_once(is_pending):
    with python_machine() as machine:

        def work(context, args, result):
            machine.state["python"].raised = is_pending
            return Status.FAILED

        program, python = Program(machine, work, 1), machine.state["python"]
        program.objects.set_context("error_place", 12)
        tensor = python.tensor(3)
        assert program(tensor) == 0
        assert program.called() == ([] if is_pending else ["error"])
        assert program.raised()
        assert program.objects.get_context("error_place") == 12
        program.end(tensor)


@pytest.mark.parametrize("is_good", [True, False])
def test_calls_of_the_host_take_the_lock_and_drop_what_waits(is_good):
    with python_machine() as machine:
        cell = []

        def work(context, args, result):
            program = cell[0]
            objects, python = program.objects, program.python
            objects.foreign(0, program.owner)
            objects.clear(0)
            assert python.count(program.owner) == 2  # it waits for the lock
            status = machine.call("heddle_python_call", context, 7, args, 1, result)
            assert not python.is_locked
            assert python.count(program.owner) == 1
            return status

        program, python = Program(machine, work, 1), machine.state["python"]
        cell.append(program)
        program.owner = python.hold(python.thing())
        program.answer = python.true if is_good else 0
        number = python.int(4)
        result = program(number)
        assert program.called() == ["host"]
        assert program.raised() != is_good
        if is_good:
            assert python.contents[result] == 701
        program.end(program.owner, number, *[result] * is_good)


@pytest.mark.parametrize("seed", range(6))
def test_nested_calls_keep_the_context_of_the_outer_one(seed):
    rng = random.Random(seed)
    with python_machine() as machine:
        cell, depths = [], []

        def work(context, args, result):
            program = cell[0]
            depths.append(program.objects.get_context("calls"))
            if len(depths) < 4 and rng.random() < 0.8:
                machine.call("heddle_python_call", context, 1, args, 1, result)
            machine.call("heddle_copy", context, result, args)
            return Status.DONE

        program, python = Program(machine, work, 1), machine.state["python"]
        cell.append(program)
        number = python.int(3)
        program.host = lambda *_: program(number)
        python.contents[program.hooks[2]] = ("host", program.host)
        result = program(number)
        assert depths == [*range(1, len(depths) + 1)]
        program.end(number, result)


# ---- numpy's arrays


def _array(machine, python, *sizes, element=ELEMENT_TYPE, flags=1281, data=4096):
    at = python._new("array", ARRAY.size_bytes)
    words = {"data": data, "rank": len(sizes), "sizes": python.words(*sizes), "element_type": element}
    for name, value in (words | {"flags": flags}).items():
        item = ARRAY.fields[name]
        machine.store(at + item.offset_bytes, item.type, value)
    return at


@pytest.mark.parametrize("sizes", [(), (0,), (7,), (2, 3, 5)])
def test_an_array_becomes_a_tensor_without_a_step_of_python(sizes):
    with python_machine() as machine:
        program, python = Program(machine, _echo(machine), 1), machine.state["python"]
        array = _array(machine, python, *sizes)
        result = program(array)
        assert program.called() == []
        header = python.header(result)
        names = ("data", "device_type", "device_id", "rank", "dtype", "strides", "byte_offset")
        assert [machine.field(header, TENSOR, name) for name in names] == [
            4096, 1, 0, len(sizes), FLOAT32, 0, 0,
        ]  # fmt: skip
        at = machine.field(header, TENSOR, "sizes")
        assert [machine.load(at + 8 * axis, i64) for axis in range(len(sizes))] == list(sizes)
        assert python.count(array) == 2
        program.end(result, array)


@pytest.mark.parametrize(
    "change", [{"flags": 1280}, {"flags": 1025}, {"flags": 257}, {"data": 4104}, {"element": 3}]
)
def test_an_array_of_another_form_goes_through_the_host(change):
    with python_machine() as machine:
        program, python = Program(machine, _echo(machine), 1), machine.state["python"]
        array = _array(machine, python, 3, **change)
        result = program(array)
        assert program.called() == ["to"]
        program.end(result, array)


@pytest.mark.parametrize("failing", ["bytes", "tensor"])
def test_no_memory_for_the_tensor_of_an_array_goes_through_the_host(failing):
    with python_machine() as machine:
        program, python = Program(machine, _echo(machine), 1), machine.state["python"]
        array = _array(machine, python, 3)
        python.fails = failing
        result = program(array)
        assert program.called() == ["to"]
        program.end(result, array)


@pytest.mark.parametrize("is_held", [True, False])
def test_a_tensor_of_strings_goes_through_as_one_object(is_held):
    """It comes back as itself, and the program holds it as long as it has it."""
    with python_machine() as machine:
        cell = []

        def work(context, args, result):
            program = cell[0]
            assert program.python.count(texts) == 2
            objects = program.objects
            if is_held:
                machine.call("heddle_copy", context, objects.register(3), args)
            machine.call("heddle_copy", context, result, args)
            return Status.DONE

        program, python = Program(machine, work, 1), machine.state["python"]
        cell.append(program)
        texts = python.instance("texts")
        assert program(texts) == texts
        assert program.called() == []
        assert python.count(texts) == 2 + is_held
        program.objects.clear(3)
        program.end(texts, texts)


def test_signals_are_asked_for_once_a_second_and_end_a_program_without_end():
    """A cycle of functions in tail position: each turn leaves a closure for the next one."""
    with python_machine() as machine:
        python, turns = machine.state["python"], []

        def turn(context, args, result):
            turns.append(python.seconds)
            if len(turns) == 100:
                python.seconds += 1
            if len(turns) == 200:
                python.seconds, python.is_interrupted = python.seconds + 1, True
            return machine.call("heddle_make_closure", context, result, 0, 0, args) or Status.GOES_ON

        program = Program(machine, turn, 0)
        entry = struct.pack("<qq", machine.function(turn), 0)
        program.objects.set_context("functions", python.words(*struct.unpack("<qq", entry)))
        program.objects.set_context("host_call", machine.address_of(program_calls.heddle_python_call))
        program.objects.set_context("asks", 1)
        assert program() == 0
        assert len(turns) in range(200, 217)
        assert python.num_asked == 3
        assert program.raised()
        python.is_interrupted = False
        program.end()


def test_a_program_that_nobody_asks_for_calls_no_host():
    with python_machine() as machine:
        program = Program(machine, lambda context, args, result: Status.DONE, 0)
        for _ in range(64):
            machine.state["python"].drop(program())
        assert machine.state["python"].num_asked == 0
        program.end()
