"""Calls of a program's functions in the checking interpreter: closures, tail calls, the host, frames."""

import random
import struct

import pytest

from heddle.runtime.native import abi
from heddle.runtime.native.abi import Kind, Operand, Status
from heddle.runtime.native.source import calls, forks, making, stacks
from heddle.support.diagnostics import HeddleError
from heddle.systems.types import ArrayType, i64
from tests.unit.runtime.checked_objects import VALUE, Objects
from tests.unit.runtime.native_machine import books, changed_program, last_error, machine_of, new_pool

ENTRY = abi.Entry.layout


class Program:
    """Functions of a program: `work(args, result)` each, with the number of arguments; None is the host's."""

    def __init__(self, machine, *functions):
        self.machine, self.objects = machine, Objects(machine)
        self.asked = []
        table = machine.new(ArrayType(ENTRY, max(len(functions), 1)), "the functions")
        for number, (work, num_args) in enumerate(functions):
            code = 0 if work is None else machine.function(self.code(work))
            at = table + ENTRY.size_bytes * number
            machine.store(at, i64, code)
            machine.store(at + ENTRY.fields["num_args"].offset_bytes, i64, num_args)
        self.objects.set_context("functions", table)
        self.objects.set_context("host_call", machine.function(self.host))

    def code(self, work):
        def run(context, args, result):
            assert context == self.objects.context
            return work(args, result)

        return run

    def host(self, context, function, args, count, result):
        self.asked.append((function, self.words(args, count)))
        self.objects.write(result, Kind.INT, 77)
        return Status.DONE

    def words(self, at, count):
        """Kinds and payloads of values."""
        places = [at + VALUE.size_bytes * number for number in range(count)]
        return [(self.kind(place), self.payload(place)) for place in places]

    def kind(self, at):
        return self.machine.field(at, VALUE, "kind")

    def payload(self, at):
        return self.machine.field(at, VALUE, "payload")

    def call(self, function, *numbers, to=0):
        args, count = self.objects.values(*numbers), len(numbers)
        return self.objects.call("heddle_call", self.objects.register(to), function, args, count)

    def invoke(self, callee, *numbers, to=0):
        args, count = self.objects.values(*numbers), len(numbers)
        place = self.objects.register(callee)
        return self.objects.call("heddle_invoke", self.objects.register(to), place, args, count)


def _sum_of(machine, num_args):
    def work(args, result):
        total = 0
        for number in range(num_args):
            total = 3 * total + machine.field(args + VALUE.size_bytes * number, VALUE, "payload")
        machine.store(result, i64, Kind.INT)
        machine.store(result + VALUE.fields["payload"].offset_bytes, i64, total)
        return Status.DONE

    return work


@pytest.mark.parametrize("given", [0, 1, 2, 3])
def test_a_call_goes_to_the_code_or_to_the_host(given):
    with machine_of() as machine:
        program = Program(machine, (_sum_of(machine, 2), 2), (None, 2))
        objects = program.objects
        for number, value in enumerate((5, 7, 9)):
            objects.set(number + 1, Kind.INT, value)
        numbers = [1, 2, 3][:given]
        assert program.call(0, *numbers) == Status.DONE
        assert objects.payload(0) == (22 if given == 2 else 77)
        assert program.call(1, *numbers) == Status.DONE
        values = [(Kind.INT, value) for value in (5, 7, 9)[:given]]
        assert program.asked == [(0, values)] * (given != 2) + [(1, values)]


@pytest.mark.parametrize("num_bound", [0, 1, 2])
def test_a_closure_is_called_with_its_bound_values_behind(num_bound):
    with machine_of() as machine:
        program = Program(machine, (_sum_of(machine, 1 + num_bound), 1 + num_bound))
        objects = program.objects
        for number, value in enumerate((5, 7, 9)):
            objects.set(number + 1, Kind.INT, value)
        assert objects.closure(4, 0, *(2, 3)[:num_bound]) == Status.DONE
        assert program.invoke(4, 1) == Status.DONE
        assert objects.payload(0) == {0: 5, 1: 22, 2: 75}[num_bound]
        objects.end()


def test_what_is_no_closure_is_the_hosts_to_call():
    with machine_of() as machine:
        program = Program(machine)
        objects = program.objects
        objects.set(1, Kind.INT, 5)
        payload = objects.foreign(2, 88)
        assert program.invoke(2, 1, 1) == Status.DONE
        expected = [(Kind.FOREIGN, payload), (Kind.INT, 5), (Kind.INT, 5)]
        assert program.asked == [(calls.ANY_CALLABLE, expected)]
        objects.end()


def test_a_closure_that_drops_itself_lives_until_it_ends():
    with machine_of() as machine:
        cell = []

        def work(args, result):
            cell[0].objects.clear(4)
            return _sum_of(machine, 1)(args, result)

        program = Program(machine, (work, 1))
        cell.append(program)
        program.objects.set(1, Kind.INT, 5)
        assert program.objects.closure(4, 0, 1) == Status.DONE
        assert program.invoke(4) == Status.DONE
        assert program.objects.payload(0) == 5
        program.objects.end()


def _count_down(program, other):
    """A function that calls another one in tail position until its argument is 0; it carries a tensor."""

    def work(args, result):
        objects, machine = program[0].objects, program[0].machine
        left = machine.field(args, VALUE, "payload")
        if left < 0:
            return Status.FAILED
        if not left:
            machine.call("heddle_copy", objects.context, result, args + VALUE.size_bytes)
            return Status.DONE
        given = machine.new(ArrayType(VALUE, 2))
        machine.memory.copy(given, args, 32)
        machine.store(given + 8, i64, left - 1 if left != 1000 else -1)
        made = objects.call("heddle_make_closure", result, other, 2, given)
        return made or Status.GOES_ON

    return work


@pytest.mark.parametrize("count", [0, 1, 2, 13])
def test_calls_in_tail_position_are_made_by_the_caller(count):
    with machine_of() as machine:
        program = []
        program.append(Program(machine, (_count_down(program, 1), 2), (_count_down(program, 0), 2)))
        objects = program[0].objects
        objects.set(1, Kind.INT, count)
        objects.new_tensor(2, 3)
        assert program[0].call(0, 1, 2) == Status.DONE
        assert objects.payload(0) == objects.payload(2)
        assert objects.holders(objects.payload(0)) == 2
        objects.end()


def test_a_call_in_tail_position_that_fails_releases_its_arguments():
    with machine_of() as machine:
        program = []
        program.append(Program(machine, (_count_down(program, 0), 2)))
        objects = program[0].objects
        objects.set(1, Kind.INT, 1000)
        objects.new_tensor(2, 3)
        assert program[0].call(0, 1, 2) == Status.FAILED
        assert objects.holders(objects.payload(2)) == 1
        objects.end()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        heddle_release(context, Kind.CLOSURE, closure)\n", ""),
        ("        register.kind = Kind.NONE\n", ""),
    ],
)
def test_a_fault_in_tail_calls_is_found(tmp_path, old, new):
    program = changed_program(tmp_path, calls, old, new)
    with pytest.raises((AssertionError, HeddleError)):
        _run_tail_calls(program)


def _run_tail_calls(changed):
    with machine_of(changed) as machine:
        program = []
        program.append(Program(machine, (_count_down(program, 0), 2)))
        objects = program[0].objects
        objects.set(1, Kind.INT, 5)
        objects.new_tensor(2, 3)
        assert program[0].call(0, 1, 2) == Status.DONE
        objects.end()


@pytest.mark.parametrize("seed", range(6))
def test_operands_that_are_spelled_out(seed):
    rng = random.Random(seed)
    with machine_of() as machine:
        program = Program(machine, (None, 0))
        objects = program.objects
        for number in range(8):
            objects.set(number, Kind.INT, 100 + number)
        constants = machine.new(ArrayType(VALUE, 6), "constants")
        base = constants + 3 * VALUE.size_bytes
        for number in range(-3, 3):
            objects.write(base + VALUE.size_bytes * number, Kind.FLOAT, 200 + number)
        objects.set_context("constants", base)
        spelled, expected = [], []
        for _ in range(rng.randint(0, 5)):
            operand = rng.choice([Operand.REGISTER, Operand.CONSTANT, Kind.INT, Kind.NONE, Kind.BOOL])
            number = rng.randint(0, 7) if operand == Operand.REGISTER else rng.randint(-3, 2)
            spelled += [operand, number]
            known = {
                Operand.REGISTER: (Kind.INT, 100 + number),
                Operand.CONSTANT: (Kind.FLOAT, 200 + number),
            }
            expected.append(known.get(operand, (operand, number)))
        words = objects.words(0, 4321, len(expected), *spelled)
        room = machine.new(ArrayType(VALUE, 5), "room")
        given = objects.registers, objects.register(0), words, room
        assert objects.call("heddle_call_by_words", *given) == Status.DONE
        assert program.asked == [(0, expected)]
        assert objects.get_context("call_place") == 4321


# ---- frames


@pytest.mark.parametrize(("size", "is_good"), [(0, True), (999, True), (1000, True), (1001, False)])
def test_a_frame_needs_room(size, is_good):
    with machine_of() as machine:
        objects = Objects(machine)
        machine.state["frame"] = 5000
        objects.set_context("stack_limit", 4000)
        assert objects.call("heddle_room", size) == (Status.DONE if is_good else Status.FAILED)
        if not is_good:
            assert last_error(machine) == (abi.TOO_DEEP, 0, 0, stacks.too_deep.text)


@pytest.mark.parametrize("ends", ["heddle_leave", "heddle_fail"])
def test_a_frame_holds_its_arguments_until_it_ends(ends):
    with machine_of() as machine:
        objects = Objects(machine)
        objects.new_tensor(0, 3)
        frame = machine.new(ArrayType(VALUE, 3), "a frame")
        objects.call("heddle_enter", frame, objects.values(0, 0), 2)
        assert objects.holders(objects.payload(0)) == 3
        if ends == "heddle_leave":
            objects.call("heddle_leave", frame, 3, frame, objects.register(1))
            assert objects.holders(objects.payload(0)) == 2
        else:
            objects.call("heddle_fail", frame, 3, 12)
            objects.call("heddle_fail", frame, 3, 13)
            assert objects.get_context("error_place") == 12
            assert objects.holders(objects.payload(0)) == 1
        objects.end()


# ---- forks


def test_pools_of_all_threads_are_held_over_a_fork():
    with machine_of() as machine:
        pools = [new_pool(machine) for _ in range(3)]
        assert [machine.call("heddle_pool_register", pool) for pool in pools] == [0, 0, 0]
        machine.call("heddle_fork_before")
        assert [books(machine, pool, "lock") for pool in pools] == [(1,)] * 3
        machine.call("heddle_fork_parent")
        machine.call("heddle_fork_before")
        machine.call("heddle_fork_child")
        assert [books(machine, pool, "lock") for pool in pools] == [(0,)] * 3
        _forget_pools(machine, 3)


def _forget_pools(machine, count):
    """Pools are never unregistered: their list is no leak."""
    known = [block for block in machine.memory.alive("heap") if len(block.data) == 16]
    assert len(known) == count
    for block in known:
        machine.memory.release(block.start, "the end of the test")


@pytest.mark.parametrize("seed", range(12))
def test_threads_register_pools_while_one_forks(seed):
    with machine_of(seed=seed) as machine:
        pools = [new_pool(machine) for _ in range(4)]

        def register(*given):
            for pool in given:
                assert machine.call("heddle_pool_register", pool) == 0
                storage = machine.call("pool_take", pool, 64)
                machine.call("pool_give", storage)
                machine.call("heddle_pool_trim", pool)

        threads = [machine.spawn(lambda: register(*pools[:2])), machine.spawn(lambda: register(*pools[2:]))]
        for _ in range(3):
            machine.call("heddle_fork_before")
            machine.call("heddle_fork_parent")
        for thread in threads:
            machine.join(thread)
        machine.call("heddle_fork_before")
        assert [books(machine, pool, "lock") for pool in pools] == [(1,)] * 4
        machine.call("heddle_fork_parent")
        _forget_pools(machine, 4)


def test_no_memory_for_a_known_pool_is_an_error():
    with machine_of() as machine:
        machine.call("heddle_thread")
        machine.state["failing_allocation"] = 0
        assert machine.call("heddle_pool_register", new_pool(machine)) == -1
        size = forks.KnownPool.layout.size_bytes
        assert last_error(machine) == (abi.NO_MEMORY, 0, size, making.no_system_memory.text)
        assert struct.calcsize("<qq") == size
