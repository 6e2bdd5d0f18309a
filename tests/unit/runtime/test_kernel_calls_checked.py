"""Calls of kernels from Python in the checking interpreter: values, counts of objects, and the lock."""

import random
import struct

import pytest

from heddle.runtime.native import abi
from heddle.runtime.native.abi import Kind
from heddle.runtime.native.source import kernel_calls
from heddle.systems.types import i64
from tests.unit.runtime.checked_python import HEADER_SLOT, OWNER_SLOT, python_machine

VALUE = abi.Value.layout


class KernelCall:
    """A kernel's Python function: `got` are the values that the kernel was called with last."""

    def __init__(self, machine, status=0):
        self.machine, self.python, self.status = machine, machine.state["python"], status
        python = self.python
        self.slow = python.function("slow", lambda bound, args: python.hold(python.true))
        self.hook = python.function("raise", lambda bound: 0)
        machine.call(
            "heddle_glue_configure", python.types["tensor"], HEADER_SLOT, OWNER_SLOT, self.slow, self.hook
        )
        self.got, self.was_locked = None, None
        self.bound = python.bound(struct.pack("<q", machine.function(self.kernel)), python.thing())

    def kernel(self, values, count):
        names = ("kind", "zero", "payload")
        places = [values + VALUE.size_bytes * number for number in range(count)]
        self.got = [tuple(self.machine.field(at, VALUE, name) for name in names) for at in places]
        self.was_locked = self.python.is_locked
        return self.status

    def __call__(self, *args):
        return self.machine.call("heddle_call_kernel", self.bound, self.python.words(*args), len(args))

    def end(self, *objects):
        assert self.python.is_locked
        self.python.drop_all(self.slow, self.hook, self.bound, *objects)


def _argument(python, rng):
    """An object, and its value."""
    kind = rng.choice(["int", "float", "true", "false", "none", "tensor"])
    if kind == "int":
        number = rng.choice((0, -1, 1, (1 << 63) - 1, -(1 << 63), rng.getrandbits(40)))
        return python.int(number), (Kind.INT, 0, number)
    if kind == "float":
        number = rng.choice((0.0, -0.0, float("inf"), rng.random()))
        return python.float(number), (Kind.FLOAT, 0, struct.unpack("<q", struct.pack("<d", number))[0])
    if kind == "tensor":
        tensor = python.tensor(*(rng.randint(0, 5) for _ in range(rng.randint(0, 3))))
        return tensor, (Kind.TENSOR, 0, python.header(tensor))
    if kind == "none":
        return python.hold(python.none), (Kind.NONE, 0, 0)
    return python.hold(getattr(python, kind)), (Kind.BOOL, 0, int(kind == "true"))


@pytest.mark.parametrize("seed", range(10))
def test_arguments_become_values(seed):
    rng = random.Random(seed)
    with python_machine() as machine:
        call, python = KernelCall(machine), machine.state["python"]
        pairs = [_argument(python, rng) for _ in range(rng.choice((0, 1, 2, 7, 13)))]
        before = [python.count(at) for at, _ in pairs]
        assert call(*[at for at, _ in pairs]) == python.none
        assert call.got == [value for _, value in pairs]
        python.drop(python.none)
        assert before == [python.count(at) for at, _ in pairs]
        assert python.calls == []
        call.end(*[at for at, _ in pairs])


@pytest.mark.parametrize(
    ("shapes", "is_locked"),
    [
        ([(4095,)], True),
        ([(4096,)], False),
        ([(64, 63), (63,)], True),
        ([(64, 63), (64,)], False),
        ([(0, 1 << 40)], True),
        ([()], True),
        ([(1 << 32, 1 << 31)], False),
    ],
)
def test_large_kernels_run_without_the_lock(shapes, is_locked):
    with python_machine() as machine:
        call, python = KernelCall(machine), machine.state["python"]
        tensors = [python.tensor(*shape) for shape in shapes]
        assert call(*tensors) == python.none
        assert call.was_locked == is_locked
        call.end(*tensors)


def test_an_integer_that_is_too_large_is_an_exception():
    with python_machine() as machine:
        call, python = KernelCall(machine), machine.state["python"]
        given = [python.int(3), python.int(1 << 63)]
        assert call(*given) == 0
        assert python.raised and call.got is None
        python.raised = False
        call.end(*given)


@pytest.mark.parametrize("place", [0, 2])
def test_what_is_not_known_goes_to_python(place):
    with python_machine() as machine:
        call, python = KernelCall(machine), machine.state["python"]
        given = [python.int(3), python.float(1.0), python.tensor(5)]
        python.drop(given[place])
        given[place] = python.thing()
        assert call(*given) == python.true
        ((name, (bound, args)),) = python.calls
        assert (name, bound, call.got) == ("slow", call.bound, None)
        assert machine.memory.at(args).freed_at is not None
        assert [python.count(at) for at in given] == [1, 1, 1]
        python.drop(python.true)
        call.end(*given)


@pytest.mark.parametrize("count", [kernel_calls.MOST_ARGS, kernel_calls.MOST_ARGS + 1])
def test_very_many_arguments_do_not_go_on_the_stack(count):
    with python_machine() as machine:
        call, python = KernelCall(machine), machine.state["python"]
        number = python.int(5)
        assert call(*[number] * count) == (python.none if count <= kernel_calls.MOST_ARGS else python.true)
        assert [name for name, _ in python.calls] == ["slow"] * (count > kernel_calls.MOST_ARGS)
        assert python.count(number) == 1
        call.end(number)


@pytest.mark.parametrize("sizes", [(3,), (5000,)])
def test_a_kernel_that_fails_raises(sizes):
    with python_machine() as machine:
        call, python = KernelCall(machine, status=-1), machine.state["python"]
        tensor = python.tensor(*sizes)
        assert call(tensor) == 0
        assert python.calls == [("raise", (call.bound,))]
        python.raised = False
        call.end(tensor)


def test_no_memory_for_the_tuple_of_a_slow_call_is_an_exception():
    with python_machine() as machine:
        call, python = KernelCall(machine), machine.state["python"]
        thing = python.thing()
        python.fails = "tuple"
        assert call(thing) == 0
        assert python.raised and python.calls == []
        python.raised = False
        machine.load(thing, i64)
        call.end(thing)
