"""The functions of heddle.h in the checking interpreter."""

import struct

import pytest

from heddle.runtime.dtype import DataType, packed_dtype
from heddle.runtime.native import abi
from heddle.runtime.native.abi import Kind, Status
from heddle.runtime.native.source import c_api
from heddle.systems.types import ArrayType, i64, sized, u32
from tests.unit.runtime.checked_objects import FLOAT32, TENSOR, VALUE, Objects
from tests.unit.runtime.native_machine import books, machine_of

TABLES, PROGRAM, ENTRY = abi.ProgramTables.layout, c_api.Program.layout, abi.Entry.layout


def _compare(machine, left, right):
    a, b = machine.text(left), machine.text(right)
    return (a > b) - (a < b)


def _write_number(machine, to, size_bytes, number):
    digits = str(number).encode()
    assert len(digits) < size_bytes
    machine.memory.write(to, digits + b"\0")
    return len(digits)


def _text(machine, text):
    block = machine.memory.allocate(len(text) + 1, 1, "text", text, "the test")
    machine.memory.set(block, 0, text.encode() + b"\0")
    return block.start


def c_machine(threads=None, processors=4, seed=0):
    def environment(machine, name):
        assert machine.text(name) == "HEDDLE_NUM_THREADS"
        return 0 if threads is None else _text(machine, threads)

    def processor_count(machine, what):
        assert what == 84
        return processors

    externals = {
        "strcmp": _compare,
        "getenv": environment,
        "atoi": lambda machine, text: int(machine.text(text)),
        "sysconf": processor_count,
        "write_number": _write_number,
    }
    machine = machine_of(externals=externals, seed=seed, max_steps=100_000)
    machine.state.update(frame=1 << 40, stack_end=1)
    return machine


class Library:
    """An exported library: functions `work(args, result)` by their names; None is one of the host's."""

    def __init__(self, machine, **functions):
        self.machine = machine
        self.helper = Objects(machine)
        tables, count = machine.global_at("heddle_program"), len(functions)
        names = machine.new(ArrayType(i64, max(count, 1)), "names")
        entries = machine.new(ArrayType(ENTRY, max(count, 1)), "entries")
        for number, (name, (work, num_args)) in enumerate(functions.items()):
            machine.store(names + 8 * number, i64, _text(machine, name) if work else 0)
            code = machine.function(lambda context, args, result, work=work: work(args, result))
            machine.store(entries + ENTRY.size_bytes * number, i64, code if work else 0)
            at = entries + ENTRY.size_bytes * number + ENTRY.fields["num_args"].offset_bytes
            machine.store(at, i64, num_args)
        pools = machine.new(ArrayType(i64, 2), "pools")
        machine.store(pools, i64, 1)
        machine.store(pools + 8, i64, machine.global_at("heddle_library_pool"))
        words = {"num_functions": count, "names": names, "functions": entries, "constants": 0, "pools": pools}
        for name, value in words.items():
            machine.store(tables + TABLES.fields[name].offset_bytes, i64, value)
        self.program = machine.call("heddle_open")

    def run(self, name, *inputs):
        given = self.helper.words(*inputs)
        return self.machine.call("heddle_run", self.program, _text(self.machine, name), given, len(inputs))

    def tensor(self, *sizes, strides=None):
        at = self.machine.new(TENSOR, "an input")
        words = {"data": 4096, "device_type": 1, "rank": len(sizes), "dtype": FLOAT32}
        words["sizes"] = self.helper.words(*sizes)
        words["strides"] = 0 if strides is None else self.helper.words(*strides)
        for name, value in words.items():
            item = TENSOR.fields[name]
            self.machine.store(at + item.offset_bytes, sized(item.type), value)
        return at

    def error(self):
        return self.machine.text(self.machine.call("heddle_error", self.program))

    def outputs(self):
        count = self.machine.call("heddle_num_outputs", self.program)
        found = [self.machine.call("heddle_output", self.program, index) for index in range(count)]
        assert self.machine.call("heddle_output", self.program, count) == 0
        assert self.machine.call("heddle_output", self.program, -1) == 0
        return found

    def end(self):
        machine = self.machine
        machine.call("heddle_close", self.program)
        pool = machine.global_at("heddle_library_pool")
        assert books(machine, pool, "bytes_in_use", "lock") == (0, 0)
        machine.call("heddle_pool_trim", pool)
        self.helper.end()


def _echo(machine, num_args):
    """All arguments as a tuple; one alone as it is."""

    def work(args, result):
        if num_args == 1:
            machine.call("heddle_copy", 0, result, args)
            return Status.DONE
        return machine.call("heddle_make_tuple", 0, result, num_args, args)

    return work


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_inputs_come_back_as_outputs(count):
    with c_machine() as machine:
        library = Library(machine, other=(None, 0), echo=(_echo(machine, count), count))
        given = [library.tensor(2, number, strides=(number, 1)) for number in range(count)]
        for _ in range(2):
            assert library.run("echo", *given) == Status.DONE
            outputs = library.outputs()
            assert len(outputs) == count
            for number, output in enumerate(outputs):
                assert machine.field(output, TENSOR, "data") == 4096
                assert machine.field(output, TENSOR, "strides") == 0
                sizes = machine.field(output, TENSOR, "sizes")
                assert [machine.load(sizes + 8 * axis, i64) for axis in range(2)] == [2, number]
        assert library.error() == ""
        library.end()


def test_an_input_begins_where_its_offset_says():
    with c_machine() as machine:
        library = Library(machine, echo=(_echo(machine, 1), 1))
        given = library.tensor(2, 3)
        machine.store(given + TENSOR.fields["byte_offset"].offset_bytes, i64, 24)
        assert library.run("echo", given) == Status.DONE
        (output,) = library.outputs()
        assert [machine.field(output, TENSOR, name) for name in ("data", "byte_offset")] == [4096 + 24, 0]
        library.end()


def test_results_that_are_no_tensors_are_outputs_without_a_tensor():
    with c_machine() as machine:

        def number(args, result):
            machine.store(result, i64, Kind.INT)
            return Status.DONE

        def numbers(args, result):
            pair = machine.new(ArrayType(VALUE, 2))
            machine.memory.set(machine.memory.at(pair), 0, struct.pack("<iiq", Kind.INT, 0, 5) * 2)
            return machine.call("heddle_make_tuple", 0, result, 2, pair)

        def nothing(args, result):
            return Status.DONE

        library = Library(machine, number=(number, 0), numbers=(numbers, 0), nothing=(nothing, 0))
        assert library.outputs() == []
        for name in ("number", "nothing"):
            assert library.run(name) == Status.DONE
            assert library.outputs() == [0]
        assert library.run("missing") == Status.FAILED
        assert library.outputs() == []
        assert library.run("numbers") == Status.DONE
        assert library.outputs() == [0, 0]
        library.end()


@pytest.mark.parametrize(
    ("name", "count", "message"),
    [
        ("missing", 0, c_api.no_function.text),
        ("ech", 0, c_api.no_function.text),
        ("theirs", 0, c_api.no_function.text),
        ("echo", 2, "the function takes 1 arguments, and got 2"),
        ("echo", 0, "the function takes 1 arguments, and got 0"),
    ],
)
def test_calls_that_cannot_be_are_errors(name, count, message):
    with c_machine() as machine:
        library = Library(machine, theirs=(None, 0), echo=(_echo(machine, 1), 1))
        assert library.run(name, *[library.tensor(3)] * count) == Status.FAILED
        assert library.error() == message
        assert library.error() == ""
        library.end()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_input_with_gaps_is_refused(place):
    with c_machine() as machine:
        library = Library(machine, echo=(_echo(machine, 3), 3))
        given = [library.tensor(3, 4, strides=(8 if number == place else 4, 1)) for number in range(3)]
        assert library.run("echo", *given) == Status.FAILED
        assert library.error() == f"argument {place} has strides: pass tensors without gaps"
        library.end()


@pytest.mark.parametrize("at", [0, 1])
def test_no_memory_for_an_input_is_an_error(at):
    with c_machine() as machine:
        library = Library(machine, echo=(_echo(machine, 2), 2))
        machine.call("heddle_thread")
        given = [library.tensor(3), library.tensor(3)]
        machine.state["failing_allocation"] = at
        assert library.run("echo", *given) == Status.FAILED
        machine.state["failing_allocation"] = None
        assert library.error() == "the system has no 80 bytes of memory left"
        library.end()


def test_no_memory_for_a_program_is_null():
    with c_machine() as machine:
        Library(machine).end()
        machine.state["failing_allocation"] = 0
        assert machine.call("heddle_open") == 0
        machine.call("heddle_close", 0)


def test_the_host_is_not_in_a_library():
    with c_machine() as machine:

        def work(args, result):
            return machine.call("refuse_host", library.program, 3, args, 0, result)

        library = Library(machine, main=(work, 0))
        assert library.run("main") == Status.FAILED
        assert library.error() == c_api.needs_host.text
        library.end()


DTYPES = (
    *("bool", "int2", "int8", "int64", "uint4", "uint16", "float16", "float64", "bfloat16", "float4_e2m1fn"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
)

KINDS = {
    Kind.NONE: "nothing",
    Kind.INT: "an int",
    Kind.BOOL: "a bool",
    Kind.FLOAT: "a float",
    Kind.POINTER: "a pointer",
    Kind.TENSOR: "a tensor",
    Kind.SHAPE: "a shape",
    Kind.TUPLE: "a tuple",
    Kind.CLOSURE: "a closure",
    Kind.STORAGE: "a storage",
    Kind.DATA: "a value of a data type",
    Kind.REFERENCE: "a reference",
}


@pytest.mark.parametrize(
    ("text", "expected", "got", "shown"),
    [
        ("", 1, 2, ""),
        ("plain", 1, 2, "plain"),
        ("%e and %g", -5, 1 << 62, f"-5 and {1 << 62}"),
        ("%g%g%e", 1, -(1 << 63), f"-{1 << 63}-{1 << 63}1"),
        ("100%", 1, 2, "100%"),
        ("100% of %g%%", 1, 2, "100% of 2%%"),
        *((mark, 1, kind, name) for mark in ("%v", "%k") for kind, name in KINDS.items()),
        ("%v", 1, 99, "a value"),
        ("got %t!", 1, 3 | 7 << 8, "got code 3!"),
        ("%t", 1, 255, "code 255"),
        *(("%t", 1, packed_dtype(DataType(name)), name) for name in DTYPES),
    ],
)
def test_numbers_and_dtypes_stand_in_messages(text, expected, got, shown):
    with c_machine() as machine:
        library = Library(machine)
        machine.call("heddle_set_error", 5, _text(machine, text), expected, got)
        assert library.error() == shown
        library.end()


def test_the_longest_message_fits():
    with c_machine() as machine:
        library = Library(machine)
        machine.call("heddle_set_error", 5, _text(machine, "%e" * 300), -(1 << 63), 0)
        text = library.error()
        assert c_api.ERROR_BYTES - c_api.DIGITS_BYTES <= len(text) < c_api.ERROR_BYTES
        assert text == str(-(1 << 63)) * (len(text) // 20)
        library.end()


@pytest.mark.parametrize(
    ("given", "processors", "threads"),
    [
        (None, 4, 4),
        (None, 0, 1),
        (None, 5000, 1024),
        ("3", 4, 3),
        ("0", 4, 1),
        ("-7", 4, 1),
        ("9999", 4, 1024),
    ],
)
def test_threads_are_as_many_as_asked_for_or_as_there_are_processors(given, processors, threads):
    with c_machine(given, processors) as machine:
        Library(machine).end()
        assert machine.load(machine.global_at("num_threads"), u32) == threads


@pytest.mark.parametrize("seed", range(8))
def test_two_threads_open_a_library_at_once(seed):
    with c_machine(seed=seed) as machine:
        library = Library(machine, echo=(_echo(machine, 1), 1))
        machine.store(machine.global_at("set_up_state"), sized(c_api.set_up_state.type), 0)

        def work():
            program = machine.call("heddle_open")
            pool = machine.global_at("heddle_library_pool")
            machine.call("pool_give", machine.call("pool_take", pool, 100))
            machine.call("heddle_close", program)

        other = machine.spawn(work)
        work()
        machine.join(other)
        library.end()
