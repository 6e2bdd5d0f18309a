"""heddle_check_args in the checking interpreter: it reads what is there, and no more."""

import struct

import pytest

from heddle.runtime.native import abi
from tests.unit.runtime.native_machine import last_error, machine_of

FLOAT32 = 0x12002
ALL, NONE = -1, 0


def words(*values):
    return struct.pack(f"<{len(values)}q", *values)


class Call:
    """A kernel of two tensors of (n, 4), `a` and `b`, and an int8 `k`."""

    names = b"f\0a\0float32\0b\0float32\0k\0int8\0n\0"
    table = words(
        *(3, 1, 1),
        *(1, 0, 0, 0),
        *(abi.ArgForm.TENSOR, 2, FLOAT32, 3, 0, 0, 0),
        *(0, NONE, 4, ALL),
        *(abi.ArgForm.TENSOR, 2, FLOAT32, 3, 0, 0, 0),
        *(0, NONE, 4, ALL),
        *(abi.ArgForm.INT, 0, 0, 0, 0, 8, 1),
    )

    def __init__(self, machine):
        self.machine = machine

    def put(self, data, name):
        at = self.machine.memory.allocate(len(data), 8, "text", name, "the test")
        self.machine.memory.set(at, 0, data)
        return at.start

    def tensor(self, sizes=(3, 4), strides=None, data=1 << 20, dtype=FLOAT32, device=1, rank=None):
        rank = len(sizes) if rank is None else rank
        sizes_at = self.put(words(*sizes), "sizes") if sizes else 0
        strides_at = self.put(words(*strides), "strides") if strides else 0
        fields = (data, device, 0, rank, dtype, sizes_at, strides_at, 0)
        return abi.Kind.TENSOR, self.put(struct.pack("<qiiiiqqq", *fields), "tensor")

    def __call__(self, *values):
        data = b"".join(struct.pack("<iiq", kind, 0, payload) for kind, payload in values)
        args = self.put(data, "args")
        table, names = self.put(self.table, "table"), self.put(self.names, "names")
        status = self.machine.call("heddle_check_args", args, len(values), table, names)
        return status if status == 0 else last_error(self.machine)


K = (abi.Kind.INT, 7)
AT = "f: argument {} ({}): expected "


def test_right_arguments():
    with machine_of() as machine:
        call = Call(machine)
        machine.call("heddle_thread")
        assert call(call.tensor(), call.tensor(), K) == 0
        assert call(call.tensor(), call.tensor(), (abi.Kind.BOOL, 1)) == 0
        assert call(call.tensor(), call.tensor(strides=(4, 1)), K) == 0
        assert call(call.tensor((1, 4)), call.tensor((1, 4), strides=(99, 1)), K) == 0
        empty = {"sizes": (0, 4), "strides": (9, 9), "data": 0}
        assert call(call.tensor(**empty), call.tensor(**empty), K) == 0


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"sizes": ()}, (abi.Family.VALUE, 2, 0, AT + "%e dimensions, got %g")),
        ({"rank": -1}, (abi.Family.VALUE, 2, -1, AT + "%e dimensions, got %g")),
        ({"dtype": 5}, (abi.Family.TYPE, FLOAT32, 5, AT + "dtype float32, got %t")),
        ({"device": 2}, (abi.Family.VALUE, 1, 2, AT + "a tensor on device type %e, got %g")),
        ({"sizes": (3, 5)}, (abi.Family.VALUE, 4, 5, AT + "dimension 1 to be %e, got %g")),
        ({"sizes": (2, 4)}, (abi.Family.VALUE, 3, 2, AT + "dimension 0 (n) to be %e, got %g")),
        (
            {"strides": (1, 3)},
            (abi.Family.VALUE, 4, 1, AT + "stride 0 to be %e, got %g (the kernel takes dense tensors)"),
        ),
        ({"data": 0}, (abi.Family.VALUE, 0, 0, "f: argument {} ({}): the tensor has no data")),
        (
            {"data": 6},
            (abi.Family.VALUE, 4, 2, AT + "data aligned to %e bytes, got an address %g bytes past that"),
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_tensors(change, error):
    with machine_of() as machine:
        call = Call(machine)
        machine.call("heddle_thread")
        found = call(call.tensor(), call.tensor(**change), K)
        assert found == (*error[:3], error[3].format(1, "'b'"))


@pytest.mark.parametrize("kind", [abi.Kind.NONE, abi.Kind.INT, abi.Kind.SHAPE])
def test_no_tensor(kind):
    with machine_of() as machine:
        call = Call(machine)
        machine.call("heddle_thread")
        found = call((kind, 5), call.tensor(), K)
        assert found == (abi.Family.TYPE, 0, kind, AT.format(0, "'a'") + "a tensor, got %k")


def test_numbers():
    with machine_of() as machine:
        call = Call(machine)
        machine.call("heddle_thread")
        for number in (-128, 127, 0):
            assert call(call.tensor(), call.tensor(), (abi.Kind.INT, number)) == 0
        for number in (-129, 128, 1 << 62, -(1 << 63)):
            found = call(call.tensor(), call.tensor(), (abi.Kind.INT, number))
            assert found == (abi.Family.VALUE, 0, number, "f: argument 2 ('k'): %g does not fit int8")
        found = call(call.tensor(), call.tensor(), (abi.Kind.FLOAT, 1))
        message = AT.format(2, "'k'") + "an integer for int8, got %k"
        assert found == (abi.Family.TYPE, 0, abi.Kind.FLOAT, message)


def test_too_few_arguments_are_not_read():
    with machine_of() as machine:
        call = Call(machine)
        machine.call("heddle_thread")
        assert call(K) == (abi.Family.TYPE, 3, 1, "f: expected %e arguments, got %g")
