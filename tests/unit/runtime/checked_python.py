"""CPython in the checking interpreter: objects with counts and types, exceptions, and the interpreter's lock.

Objects are blocks of the heap, so that one that nobody drops is found at the end. Each function wants the
lock, and objects that are alive.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from heddle.runtime.native import abi
from heddle.runtime.native.methods import CONTENT_OFFSET
from heddle.systems.interpret import Machine
from heddle.systems.types import Address, FunctionType, i64
from tests.unit.runtime.native_machine import machine_of

HEADER_SLOT, OWNER_SLOT, OBJECT_BYTES = 16, 24, 32
FIELDS_SLOT, TAG_SLOT = 16, 24
TUPLE_ITEMS = tuple.__basicsize__
_OBJECT = abi.HostObject.layout
_END = FunctionType((Address,), None)
_SAVED_STATE = 0xBEEF
_TYPES = (
    "none type",
    "tuple",
    "bytes",
    "capsule",
    "function",
    "tensor",
    "storage",
    "array",
    "data",
    "texts",
    "thing",
)


class Python:
    """`calls` are those of functions of Python's; an exception is set while `raised` says so."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.is_locked = True
        self.raised = False
        self.contents: dict[int, Any] = {}
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.fails: str = ""
        self.seconds, self.num_asked, self.is_interrupted = 1, 0, False
        machine.state["python"] = self
        names = {
            "int": "PyLong_Type",
            "float": "PyFloat_Type",
            "bool": "PyBool_Type",
            "none": "_Py_NoneStruct",
            "true": "_Py_TrueStruct",
            "false": "_Py_FalseStruct",
        }
        at = {name: machine.global_at(symbol) for name, symbol in names.items()}
        self.none, self.true, self.false = at["none"], at["true"], at["false"]
        self.types = {name: at[name] for name in ("int", "float", "bool")}
        for name in (
            "none type",
            "tuple",
            "bytes",
            "capsule",
            "function",
            "tensor",
            "storage",
            "array",
            "data",
            "texts",
            "thing",
        ):
            self.types[name] = machine.new(_OBJECT, name)
        for single, name in ((self.none, "none type"), (self.true, "bool"), (self.false, "bool")):
            self._begin(single, name, 1 << 40)

    def _begin(self, at: int, type_name: str, count: int = 1) -> None:
        self.machine.store(at, i64, count)
        self.machine.store(at + 8, i64, self.types[type_name])

    def _new(self, type_name: str, size_bytes: int = OBJECT_BYTES) -> int:
        """A new object of zeros, or 0 with an exception where `fails` names its type."""
        assert self.is_locked
        if self.fails == type_name:
            self.raised = True
            return 0
        block = self.machine.memory.allocate(size_bytes, 16, "heap", type_name, self.machine.place())
        self.machine.memory.set(block, 0, bytes(size_bytes))
        self._begin(block.start, type_name)
        return block.start

    # ---- objects

    def type_of(self, at: int) -> str:
        found = self.machine.load(at + 8, i64)
        return next(name for name, where in self.types.items() if where == found)

    def count(self, at: int) -> int:
        return self.machine.load(at, i64)

    def int(self, value: int) -> int:
        at = self._new("int")
        self.contents[at] = value
        return at

    def float(self, value: float) -> int:
        at = self._new("float")
        self.contents[at] = struct.unpack("<q", struct.pack("<d", value))[0]
        return at

    def thing(self) -> int:
        return self._new("thing")

    def bytes(self, content: bytes) -> int:
        at = self._new("bytes", CONTENT_OFFSET + len(content))
        if at and content:
            self.machine.memory.write(at + CONTENT_OFFSET, content)
        return at

    def tuple(self, *items: int) -> int:
        """It takes the items over."""
        at = self.new_tuple(len(items))
        for number, item in enumerate(items):
            self.machine.store(at + TUPLE_ITEMS + 8 * number, i64, item)
        return at

    def new_tuple(self, count: int) -> int:
        at = self._new("tuple", TUPLE_ITEMS + 8 * count)
        if at:
            self.machine.store(at + 16, i64, count)
        return at

    def items(self, at: int) -> list[int]:
        count = self.machine.load(at + 16, i64)
        return [self.machine.load(at + TUPLE_ITEMS + 8 * number, i64) for number in range(count)]

    def instance(self, type_name: str, *slots: int) -> int:
        """It takes what is in the slots over."""
        at = self._new(type_name)
        for number, slot in enumerate(slots):
            self.machine.store(at + HEADER_SLOT + 8 * number, i64, slot)
        return at

    def function(self, name: str, work: Callable[..., int]) -> int:
        at = self._new("function")
        self.contents[at] = (name, work)
        return at

    def capsule(self, pointer: int, end: int) -> int:
        at = self._new("capsule")
        if at:
            self.contents[at] = (pointer, end)
        return at

    def tensor(self, *sizes: int, dtype: int = 0x12002, strides: int = 0) -> int:
        """A Python tensor over no memory."""
        where = self.words(*sizes)
        words = struct.pack("<qiiiIqqq", 0, 1, 0, len(sizes), dtype, where, strides, 0)
        return self.instance("tensor", self.bytes(words), self.thing())

    def data(self, tag: int, *fields: int) -> int:
        """A value of a data type; it takes the fields over."""
        return self.instance("data", self.tuple(*fields), self.int(tag))

    def header(self, tensor: int) -> int:
        return self.machine.load(tensor + HEADER_SLOT, i64) + CONTENT_OFFSET

    def words(self, *words: int) -> int:
        block = self.machine.memory.allocate(8 * max(len(words), 1), 8, "global", "words", "the test")
        self.machine.memory.set(block, 0, struct.pack(f"<{len(words)}q", *words))
        return block.start

    def bound(self, record: bytes, keep: int) -> int:
        """What a Python function of ours has as `self`."""
        return self.tuple(self.bytes(record), keep)

    # ---- counts

    def hold(self, at: int) -> int:
        assert self.is_locked
        self.machine.store(at, i64, self.count(at) + 1)
        return at

    def drop(self, at: int) -> None:
        assert self.is_locked
        left = self.count(at) - 1
        self.machine.store(at, i64, left)
        if left:
            return
        kind = self.type_of(at)
        held = self.items(at) if kind in ("tuple", "sequence", "shape") else []
        if kind in ("tensor", "storage", "data"):
            held = [self.machine.load(at + slot, i64) for slot in (HEADER_SLOT, OWNER_SLOT)]
        if kind == "capsule":
            self.machine.call_address(self.contents[at][1], (at,), _END)
        for item in held:
            if item:
                self.drop(item)
        self.machine.memory.release(at, self.machine.place())

    def drop_all(self, *objects: int) -> None:
        for at in objects:
            self.drop(at)

    def call(self, callee: int, *args: Any) -> int:
        assert self.is_locked and not self.raised
        name, work = self.contents[callee]
        self.calls.append((name, args))
        result: int = work(*args)
        if not result:
            self.raised = True
        return result


def _python(machine: Machine) -> Python:
    found: Python = machine.state["python"]
    assert found.is_locked
    return found


def _as_word(machine: Machine, at: int) -> int:
    python = _python(machine)
    value: int = python.contents[at]
    if -(1 << 63) <= value < 1 << 63:
        return value
    python.raised = True
    return -1


def _save_thread(machine: Machine) -> int:
    _python(machine).is_locked = False
    return _SAVED_STATE


def _restore_thread(machine: Machine, state: int) -> None:
    python: Python = machine.state["python"]
    assert not python.is_locked and state == _SAVED_STATE
    python.is_locked = True


def _clear_error(machine: Machine) -> None:
    _python(machine).raised = False


def _check_signals(machine: Machine) -> int:
    """0, or -1 with an exception where a handler raises one."""
    python = _python(machine)
    python.num_asked += 1
    python.raised |= python.is_interrupted
    return -int(python.is_interrupted)


def _set_item(machine: Machine, items: int, number: int, item: int) -> int:
    _python(machine)
    machine.store(items + TUPLE_ITEMS + 8 * number, i64, item)
    return 0


def _bytes_of(machine: Machine, content: int, size: int) -> int:
    data = machine.memory.read(content, size) if content else bytes(size)
    return _python(machine).bytes(data)


def _allocate(machine: Machine, kind: int, count: int) -> int:
    python = _python(machine)
    return python.instance(next(name for name, at in python.types.items() if at == kind))


def _float_of(machine: Machine, bits: int) -> int:
    return _python(machine).float(struct.unpack("<d", struct.pack("<Q", bits & (1 << 64) - 1))[0])


PYTHON_MODELS: dict[str, Callable[..., Any]] = {
    "Py_IncRef": lambda machine, at: _python(machine).hold(at) and None,
    "Py_DecRef": lambda machine, at: _python(machine).drop(at),
    "PyLong_AsLongLong": _as_word,
    "PyLong_FromLongLong": lambda machine, value: _python(machine).int(value),
    "PyFloat_AsDouble": lambda machine, at: _python(machine).contents[at],
    "PyFloat_FromDouble": _float_of,
    "PyErr_Occurred": lambda machine: int(_python(machine).raised),
    "PyErr_Clear": _clear_error,
    "PyErr_CheckSignals": _check_signals,
    "time": lambda machine, result: machine.state["python"].seconds,
    "PyEval_SaveThread": _save_thread,
    "PyEval_RestoreThread": _restore_thread,
    "PyTuple_New": lambda machine, count: _python(machine).new_tuple(count),
    "PyTuple_SetItem": _set_item,
    "PyTuple_Size": lambda machine, at: len(_python(machine).items(at)),
    "PyTuple_GetItem": lambda machine, at, number: _python(machine).items(at)[number],
    "PyBytes_FromStringAndSize": _bytes_of,
    "PyType_GenericAlloc": _allocate,
    "PyCapsule_New": lambda machine, pointer, name, end: _python(machine).capsule(pointer, end),
    "PyCapsule_GetPointer": lambda machine, at, name: _python(machine).contents[at][0],
    "call_with_one": lambda machine, callee, *args: _python(machine).call(callee, *args),
    "call_with_two": lambda machine, callee, *args: _python(machine).call(callee, *args),
    "call_with_word": lambda machine, callee, *args: _python(machine).call(callee, *args),
    "call_with_places": lambda machine, callee, *args: _python(machine).call(callee, *args),
    "call_with_words": lambda machine, callee, *args: _python(machine).call(callee, *args),
}


def python_machine(**options: Any) -> Machine:
    machine = machine_of(externals=PYTHON_MODELS, **options)
    machine.state.update(frame=1 << 40, stack_end=1)
    Python(machine)
    return machine
