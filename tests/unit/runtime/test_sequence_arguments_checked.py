"""Sequences as arguments of programs, and views of arguments as results, in the checking interpreter."""

import pytest

from heddle.systems.types import i64
from tests.unit.runtime.checked_objects import TENSOR, VALUE
from tests.unit.runtime.checked_python import OWNER_SLOT, python_machine
from tests.unit.runtime.test_program_calls_checked import Program, _echo


def _sequence(program, *items):
    """A tuple of the type that sequences have; it takes the items over."""
    python = program.python
    python.types["sequence"] = program.hooks[6]
    at = python.tuple(*items)
    program.machine.store(at + 8, i64, program.hooks[6])
    return at


def test_sequences_come_back_as_they_went():
    with python_machine() as machine:
        program, python = Program(machine, _echo(machine), 1), machine.state["python"]
        inner = _sequence(program, python.int(5), python.tensor(3))
        given = _sequence(program, python.tensor(2), inner, _sequence(program), python.hold(python.none))
        result = program(given)
        assert result == given and python.count(given) == 2
        assert program.called() == []
        program.end(result, given)


@pytest.mark.parametrize("failing", [None, 0, 1, 2, 3])
def test_a_sequence_whose_item_fails_leaves_nothing(failing):
    """An item that the host refuses, or memory that ends at one of the four objects."""
    with python_machine() as machine:
        program, python = Program(machine, _echo(machine), 1), machine.state["python"]
        last = python.thing() if failing is None else python.tensor(2)
        given = _sequence(program, python.tensor(4), _sequence(program, python.int(1), last))
        program.answer = 0
        machine.call("heddle_thread")
        machine.state["failing_allocation"] = failing
        assert program(given) == 0
        machine.state["failing_allocation"] = None
        assert program.called() == ["to" if failing is None else "refuse"]
        assert program.raised()
        assert python.count(given) == 1
        program.end(given)


def test_a_view_of_an_argument_keeps_the_argument():
    """It is made without the host, has sizes of its own, and holds the tensor whose memory it shows."""
    with python_machine() as machine:
        python = machine.state["python"]

        def work(context, args, result):
            sizes = python.words(3, 1, 2)
            tensor = machine.load(args + VALUE.size_bytes // 2, i64)
            return machine.call("heddle_reshape", context, result, tensor, 3, sizes)

        program = Program(machine, work, 1)
        given = python.tensor(2, 3)
        result = program(given)
        assert python.type_of(result) == "tensor" and result != given
        assert machine.load(result + OWNER_SLOT, i64) == given and python.count(given) == 2
        header = python.header(result)
        assert machine.field(header, TENSOR, "data") == machine.field(python.header(given), TENSOR, "data")
        sizes = machine.field(header, TENSOR, "sizes")
        assert sizes == header + TENSOR.size_bytes
        assert [machine.load(sizes + 8 * axis, i64) for axis in range(3)] == [3, 1, 2]
        assert program.called() == []
        program.end(result, given)
