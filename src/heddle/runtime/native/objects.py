"""Convert between Python objects and values of native programs, whose layout is defined in
`source/counting.py`.

| kind | value | Python object |
|---|---|---|
| 0-3 | none, int, bool, float | None, int, bool, float |
| 6 | the machine | the machine |
| 7 | tensor | Tensor |
| 8, 9 | shape, tuple | Shape, Array |
| 10 | closure | what `ObjectTranslator.closure` makes of it |
| 11 | storage | Storage |
| 12 | foreign | any other object, tensors of strings among them |
| 13 | data | ConstructorValue |
| 14 | reference | RefValue |
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

from heddle.runtime.codes import U0405, U0406
from heddle.runtime.data import ConstructorValue, RefValue, inside_out
from heddle.runtime.device import Device
from heddle.runtime.dtype import DataType, dtype_from_packed
from heddle.runtime.function import to_value
from heddle.runtime.layout import layout_of
from heddle.runtime.native.abi import HEAD_BYTES, IMMORTAL, DLTensor, Flag, Head, Kind, Value
from heddle.runtime.native.errors import raise_native_error
from heddle.runtime.native.library import native_library
from heddle.runtime.native.memory import words_at
from heddle.runtime.shape import Array, Shape, Texts, TextTensor
from heddle.runtime.storage import Storage, allocator_at
from heddle.runtime.tensor import Tensor, make_tensor
from heddle.support.diagnostics import Trap, TrapTypeError

VALUE_BYTES = Value.layout.size_bytes
NONE, INT, BOOL, FLOAT, MACHINE = Kind.NONE, Kind.INT, Kind.BOOL, Kind.FLOAT, Kind.MACHINE
TENSOR, SHAPE, TUPLE = Kind.TENSOR, Kind.SHAPE, Kind.TUPLE
CLOSURE, STORAGE, FOREIGN = Kind.CLOSURE, Kind.STORAGE, Kind.FOREIGN
DATA, REFERENCE = Kind.DATA, Kind.REFERENCE
_FOREIGN_OWNER, _IS_OWNER = Flag.FOREIGN_OWNER, Flag.IS_OWNER
_DL_BYTES = DLTensor.layout.size_bytes
_VALUE = struct.Struct("<iiq")
_FLOAT_VALUE = struct.Struct("<iid")
_DL = struct.Struct("<qiiiIqqq")
_HEAD = struct.Struct("<qiiqq")

_OWNER = Head.layout.fields["owner"].offset_bytes

_read = ctypes.string_at


class _Runtime:
    """The exported functions of the native library as ctypes functions."""

    def __init__(self) -> None:
        at = native_library().addresses
        word, pointer = ctypes.c_int64, ctypes.c_void_p
        self.new = ctypes.CFUNCTYPE(pointer, ctypes.c_int32, word, pointer, ctypes.c_int32)(at["heddle_new"])
        # These may release Python objects, so they are called with the GIL held.
        self.retain = ctypes.PYFUNCTYPE(None, ctypes.c_int32, pointer)(at["heddle_retain"])
        self.release = ctypes.PYFUNCTYPE(None, pointer, ctypes.c_int32, pointer)(at["heddle_release"])
        self.release_all = ctypes.PYFUNCTYPE(None, pointer, pointer, word)(at["heddle_release_all"])
        self.put = ctypes.PYFUNCTYPE(None, pointer, pointer, ctypes.c_int32, pointer)(at["heddle_put"])


_runtime_of_process: list[_Runtime] = []


def runtime() -> _Runtime:
    """Return the functions that all machines of this process share. They are created on first use."""
    if not _runtime_of_process:
        _runtime_of_process.append(_Runtime())
    return _runtime_of_process[0]


def write_value(at: int, kind: int, payload: int) -> None:
    """Write a value at an address: its kind, and its payload (a number or an object's address)."""
    ctypes.memmove(at, _VALUE.pack(kind, 0, payload), VALUE_BYTES)


def read_value(at: int) -> tuple[int, int]:
    """Read the kind and the payload of the value at an address."""
    kind, _, payload = _VALUE.unpack(_read(at, VALUE_BYTES))
    return kind, payload


def lend(tensor: Tensor) -> int:
    """Return the payload of a new native tensor over the memory of a Python tensor, which it keeps alive."""
    made = _new_object(TENSOR, _DL_BYTES, id(tensor), _FOREIGN_OWNER | _IS_OWNER)
    _keep(tensor)
    ctypes.memmove(made, tensor._header, _DL_BYTES)
    return made


def _new_object(kind: int, size_bytes: int, owner: int | None, flags: int) -> int:
    """Return the payload of a new native object. Raises: Trap U0601 if there is no memory."""
    made: int | None = runtime().new(kind, size_bytes, owner, flags)
    return raise_native_error() if made is None else made


_keep = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))
"""Increments the reference count of a Python object."""


def object_in(word: int) -> Any:
    """Return the Python object whose address is in a word of memory."""
    return ctypes.py_object.from_address(word).value


def _host_owner(payload: int) -> Any:
    """Return the Python object that owns a native object."""
    return object_in(payload - HEAD_BYTES + _OWNER)


def _fits_word(value: int) -> bool:
    """Whether an integer, or each size of a shape, fits into 64 bits. Other values stay Python objects, which
    compiled code only passes on."""
    return -(1 << 63) <= value < 1 << 63


class ObjectTranslator:
    """Converts Python objects to native values and back, for one machine.

    `closure(number, bound)` makes the Python form of a native closure. `is_ours()` says whether this thread
    may access the machine's objects, that is, no other thread runs the machine.
    """

    def __init__(
        self,
        machine: Any,
        closure: Callable[[int, tuple[Any, ...]], Any],
        is_ours: Callable[[], bool],
    ) -> None:
        self._machine = machine
        self._closure = closure
        self.is_ours = is_ours
        self._waiting: list[int] = []
        """Objects that were released while another thread ran the machine."""
        self._moving: list[RefValue] = []
        """References whose values are being converted."""

    def to_native(self, value: Any) -> tuple[int, int]:
        """Convert a Python object to kind and payload. A new native object's reference belongs to the
        caller.
        """
        if value is None:
            return NONE, 0
        if isinstance(value, (TextTensor, Texts)):
            return self._foreign(value)
        if isinstance(value, bool):
            return BOOL, int(value)
        if isinstance(value, int) and _fits_word(value):
            return INT, value
        if isinstance(value, float):
            return FLOAT, _VALUE.unpack(_FLOAT_VALUE.pack(0, 0, value))[2]
        if isinstance(value, Tensor):
            return TENSOR, lend(value if value.layout.strides is None else value.contiguous())
        if isinstance(value, Shape) and all(map(_fits_word, value)):
            return SHAPE, self._new(SHAPE, struct.pack(f"<{len(value) + 1}q", len(value), *value))
        if _is_nested(value):
            return self._nested(value)
        if isinstance(value, RefValue) and (found := self._reference(value)) is not None:
            return REFERENCE, found
        if isinstance(value, Storage):
            runtime().retain(STORAGE, value.payload)
            return STORAGE, value.payload
        return self._foreign(value)

    def _foreign(self, value: Any) -> tuple[int, int]:
        payload = _new_object(FOREIGN, 0, id(value), _FOREIGN_OWNER)
        _keep(value)
        return FOREIGN, payload

    def _nested(self, value: Any) -> tuple[int, int]:
        """Convert a tuple or a value of a data type, at any depth of nesting. Shared parts stay shared."""
        done: dict[int, tuple[int, int]] = {}
        try:
            for top in inside_out(value, _nested_items):
                done[id(top)] = self._of_items(top, done)
            return done.pop(id(value))
        finally:
            for kind, payload in done.values():
                runtime().release(None, kind, payload)

    def _of_items(self, value: Any, done: dict[int, tuple[int, int]]) -> tuple[int, int]:
        """Make a native object from its items. Nested items are already converted in `done`."""
        made: list[tuple[int, int]] = []
        try:
            for item in _items(value):
                if id(item) in done:
                    runtime().retain(*done[id(item)])
                    made.append(done[id(item)])
                else:
                    made.append(self.to_native(item))
            found = self._with_items(value, b"".join(_VALUE.pack(kind, 0, payload) for kind, payload in made))
            made = []  # their references now belong to the object
        finally:
            for kind, payload in made:
                runtime().release(None, kind, payload)
        return found

    def _with_items(self, value: Any, content: bytes) -> tuple[int, int]:
        if isinstance(value, ConstructorValue):
            head = struct.pack("<qq", len(value.fields), value.tag)
            return DATA, self._new(DATA, head + content)
        # A program may remove items from a tuple for all its holders and return it, so it must stay the same
        # object.
        payload = self._new(TUPLE, struct.pack("<q", len(value)) + content, value)
        _keep(value)
        return TUPLE, payload

    def _reference(self, value: RefValue) -> int | None:
        """Return the payload of a reference, which belongs to this machine from now on; None for a reference
        of another machine."""
        if value.cell is None:
            payload = self._new(REFERENCE, _VALUE.pack(NONE, 0, 0))
            cell = NativeCell(self, payload)
            if value in self._moving:
                raise TrapTypeError(U0406, "a reference that holds itself cannot be passed to machine code")
            self._moving.append(value)
            try:
                self.store(payload, value.value)
            finally:
                self._moving.pop()
            value.move(cell)
        if not isinstance(value.cell, NativeCell) or value.cell.translator is not self:
            return None
        runtime().retain(REFERENCE, value.cell.payload)
        return value.cell.payload

    def _new(self, kind: int, content: bytes, same: object = None) -> int:
        flags = 0 if same is None else _FOREIGN_OWNER | _IS_OWNER
        payload = _new_object(kind, len(content), None if same is None else id(same), flags)
        ctypes.memmove(payload, content, len(content))
        return payload

    def new_closure(self, number: int) -> int:
        """Return the payload of a closure of function `number` without bound values."""
        return self._new(CLOSURE, struct.pack("<qq", number, 0))

    def borrow(self, values: Sequence[Any]) -> tuple[ctypes.Array[Any], list[int]]:
        """Convert Python objects that the caller keeps alive. Return memory with the values, and their
        payloads. No references are counted, so the garbage collector sees all holders."""
        heads = [_HEAD.pack(IMMORTAL, FOREIGN, _FOREIGN_OWNER, id(value), 0) for value in values]
        memory = ctypes.create_string_buffer(b"".join(heads), HEAD_BYTES * len(heads) + 1)
        first = ctypes.addressof(memory) + HEAD_BYTES
        return memory, [first + HEAD_BYTES * number for number in range(len(heads))]

    def store(self, at: int, value: Any) -> None:
        """Write a value to a register and release the old value."""
        kind, payload = self.to_native(value)
        runtime().put(None, at, kind, payload & (1 << 64) - 1)

    def from_native(self, at: int, count: int) -> list[Any]:
        """Return the Python objects of consecutive registers. The registers keep their values."""
        return [self._object(*value) for value in _values_at(at, count)]

    def _object(self, kind: int, payload: int) -> Any:
        if kind == NONE:
            return None
        if kind == TENSOR:
            return self._tensor(payload)
        if kind == FOREIGN:
            return _host_owner(payload)
        if kind == INT:
            return payload
        if kind == BOOL:
            return bool(payload)
        if kind == FLOAT:
            return _FLOAT_VALUE.unpack(_VALUE.pack(kind, 0, payload))[2]
        if kind == SHAPE:
            return Shape(words_at(payload + 8, words_at(payload, 1)[0]))
        if kind in (TUPLE, DATA):
            return self._from_nested(kind, payload)
        if kind == REFERENCE:
            runtime().retain(REFERENCE, payload)
            return RefValue(cell=NativeCell(self, payload))
        if kind == CLOSURE:
            number, count = words_at(payload, 2)
            return self._closure(
                number, tuple(self._object(*item) for item in _values_at(payload + 16, count))
            )
        if kind == STORAGE:
            return _storage(payload)
        assert kind == MACHINE
        return self._machine

    def _from_nested(self, kind: int, payload: int) -> Any:
        """Return the Python object of a native tuple or value of a data type, at any depth of nesting."""
        done: dict[int, Any] = {}
        todo = [(kind, payload)]
        while todo:
            top_kind, top = todo[-1]
            items = _items_at(top_kind, top)
            missing = [item for item in items if item[0] in (TUPLE, DATA) and item[1] not in done]
            if missing:
                todo += missing
                continue
            todo.pop()
            if top not in done:
                found = [done[item[1]] if item[0] in (TUPLE, DATA) else self._object(*item) for item in items]
                done[top] = _of_items(top_kind, top, found)
        return done[payload]

    # ---- references that Python holds

    def let_go(self, payload: int) -> None:
        """Release a reference to an object. Only the thread that runs the machine may change reference
        counts, so releases from other threads are queued."""
        self._waiting.append(payload)
        if self.is_ours():
            while self._waiting:
                waiting = self._waiting.pop()
                runtime().release(None, REFERENCE, waiting)

    def _tensor(self, payload: int) -> Tensor:
        flags, owner = _owner(payload)
        if flags & _IS_OWNER:
            same: Tensor = _host_owner(payload)
            return same
        data, device_type, device_id, ndim, word, sizes, _, _ = _DL.unpack(_read(payload, _DL_BYTES))
        layout, dtype = layout_of(words_at(sizes, ndim)), DataType(dtype_from_packed(word))
        keeper: Any = None  # the shape heap is in a frame; only shape builtins get it, and only for one call
        if not owner:
            return make_tensor(data, layout, dtype, Device(device_type, device_id), keeper)
        if flags & _FOREIGN_OWNER:
            keeper = _host_owner(payload)
        elif _HEAD.unpack(_read(owner - HEAD_BYTES, HEAD_BYTES))[1] == TENSOR:  # a view of a lent tensor
            keeper = _host_owner(owner)
        else:
            keeper = _storage(owner)
        return make_tensor(data, layout, dtype, Device(device_type, device_id), keeper)


class NativeCell:
    """The native memory of a RefValue that Python holds. Raises: Trap U0405 if another thread is running the
    machine."""

    __slots__ = ("payload", "translator")

    def __init__(self, translator: ObjectTranslator, payload: int) -> None:
        """Take over the caller's reference to the payload."""
        self.translator, self.payload = translator, payload

    def read(self) -> Any:
        """Return the value in the cell as a Python object."""
        self._check()
        return self.translator.from_native(self.payload, 1)[0]

    def write(self, value: Any) -> None:
        """Store a value. Raises: TrapTypeError U0406 for a value that contains this reference."""
        self._check()
        value = to_value(value)
        if self._is_in(value):
            raise TrapTypeError(U0406, "a reference of machine code cannot hold itself")
        self.translator.store(self.payload, value)

    def _is_in(self, value: Any) -> bool:
        seen: dict[int, Any] = {}  # kept alive: the objects of values that references return are created anew
        todo = [value]
        while todo:
            top = todo.pop()
            cell = top.cell if isinstance(top, RefValue) else None
            is_near = isinstance(cell, NativeCell) and cell.translator is self.translator
            key = cell.payload if isinstance(cell, NativeCell) and is_near else id(top)
            if is_near and key == self.payload:
                return True
            if key in seen:
                continue
            seen[key] = top
            if isinstance(top, RefValue) and (cell is None or is_near):
                todo.append(top.value)
            elif _is_nested(top):
                todo += _items(top)
        return False

    def _check(self) -> None:
        if not self.translator.is_ours():
            raise Trap(U0405, "a reference is used while another thread runs its machine")

    def __del__(self) -> None:
        self.translator.let_go(self.payload)


def _is_nested(value: Any) -> bool:
    return isinstance(value, (Array, ConstructorValue)) and not isinstance(value, (Texts, TextTensor))


def _items(value: Any) -> Sequence[Any]:
    found: Sequence[Any] = value.fields if isinstance(value, ConstructorValue) else value
    return found


def _nested_items(value: Any) -> Sequence[Any]:
    return [item for item in _items(value) if _is_nested(item)]


def _values_at(at: int, count: int) -> list[tuple[int, int]]:
    """Return kinds and payloads of consecutive values."""
    read = _read(at, VALUE_BYTES * count)
    return [(kind, payload) for kind, _, payload in _VALUE.iter_unpack(read)]


def _items_at(kind: int, payload: int) -> list[tuple[int, int]]:
    """Return the items of a native tuple or value of a data type; none for a tuple that Python owns."""
    if kind == TUPLE and _owner(payload)[0] & _IS_OWNER:
        return []
    first = payload + (8 if kind == TUPLE else 16)
    return _values_at(first, words_at(payload, 1)[0])


def _of_items(kind: int, payload: int, items: list[Any]) -> Any:
    """Return the Python object of a tuple or value of a data type from its converted items."""
    if kind == DATA:
        return ConstructorValue(words_at(payload, 2)[1], tuple(items))
    return _host_owner(payload) if _owner(payload)[0] & _IS_OWNER else Array(items)


def _owner(payload: int) -> tuple[int, int]:
    """Return the flags and the owner from an object's head."""
    _, _, flags, owner, _ = _HEAD.unpack(_read(payload - HEAD_BYTES, HEAD_BYTES))
    return flags, owner


def _storage(payload: int) -> Storage:
    """Return a Python object for a native storage, with a reference of its own."""
    return allocator_at(_owner(payload)[1]).share(payload)
