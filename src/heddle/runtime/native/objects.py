"""Values of native programs as Python sees them: `source/counting.py` in ctypes, and objects to and from
Python.

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
    """The exported functions, typed."""

    def __init__(self) -> None:
        at = native_library().addresses
        word, pointer = ctypes.c_int64, ctypes.c_void_p
        self.new = ctypes.CFUNCTYPE(pointer, ctypes.c_int32, word, pointer, ctypes.c_int32)(at["heddle_new"])
        # These may drop Python objects, and so keep the interpreter's lock.
        self.retain = ctypes.PYFUNCTYPE(None, ctypes.c_int32, pointer)(at["heddle_retain"])
        self.release = ctypes.PYFUNCTYPE(None, pointer, ctypes.c_int32, pointer)(at["heddle_release"])
        self.release_all = ctypes.PYFUNCTYPE(None, pointer, pointer, word)(at["heddle_release_all"])
        self.put = ctypes.PYFUNCTYPE(None, pointer, pointer, ctypes.c_int32, pointer)(at["heddle_put"])


_runtime_of_process: list[_Runtime] = []


def runtime() -> _Runtime:
    """What this process shares between machines; made when it is first asked for."""
    if not _runtime_of_process:
        _runtime_of_process.append(_Runtime())
    return _runtime_of_process[0]


def write_value(at: int, kind: int, payload: int) -> None:
    """Write a value at an address: its kind, and what it holds or where its object lies."""
    ctypes.memmove(at, _VALUE.pack(kind, 0, payload), VALUE_BYTES)


def read_value(at: int) -> tuple[int, int]:
    """Kind and payload."""
    kind, _, payload = _VALUE.unpack(_read(at, VALUE_BYTES))
    return kind, payload


def lend(tensor: Tensor) -> int:
    """The payload of a new tensor object over a Python tensor, which it keeps."""
    made = _new_object(TENSOR, _DL_BYTES, id(tensor), _FOREIGN_OWNER | _IS_OWNER)
    _keep(tensor)
    ctypes.memmove(made, tensor._header, _DL_BYTES)
    return made


def _new_object(kind: int, size_bytes: int, owner: int | None, flags: int) -> int:
    """The payload of a new object. Raises: Trap U0601."""
    made: int | None = runtime().new(kind, size_bytes, owner, flags)
    return raise_native_error() if made is None else made


_keep = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))
"""One holder more of a Python object."""


def object_in(word: int) -> Any:
    """The Python object whose address a word of memory holds."""
    return ctypes.py_object.from_address(word).value


def _host_owner(payload: int) -> Any:
    """The Python object that owns a native one."""
    return object_in(payload - HEAD_BYTES + _OWNER)


def _fits_word(value: int) -> bool:
    """Larger integers, and shapes of them, stay objects of Python: compiled code passes them on."""
    return -(1 << 63) <= value < 1 << 63


class ObjectTranslator:
    """Python objects to native values and back, for one machine.

    `closure(number, bound)` makes the Python form of a native closure; `is_ours()` says whether this thread
    may look at the machine's objects: nobody else runs it.
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
        """Objects that were let go while another thread ran the machine."""
        self._moving: list[RefValue] = []
        """References whose values are being converted."""

    def to_native(self, value: Any) -> tuple[int, int]:
        """Kind and payload; the count of a new object is the caller's."""
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
        """A tuple or a value of a data type, as deep as it may be. What is shared stays shared."""
        done: dict[int, tuple[int, int]] = {}
        try:
            for top in inside_out(value, _nested_items):
                done[id(top)] = self._of_items(top, done)
            return done.pop(id(value))
        finally:
            for kind, payload in done.values():
                runtime().release(None, kind, payload)

    def _of_items(self, value: Any, done: dict[int, tuple[int, int]]) -> tuple[int, int]:
        """An object that holds its items, of which those that have items are done."""
        made: list[tuple[int, int]] = []
        try:
            for item in _items(value):
                if id(item) in done:
                    runtime().retain(*done[id(item)])
                    made.append(done[id(item)])
                else:
                    made.append(self.to_native(item))
            found = self._with_items(value, b"".join(_VALUE.pack(kind, 0, payload) for kind, payload in made))
            made = []  # they are the object's
        finally:
            for kind, payload in made:
                runtime().release(None, kind, payload)
        return found

    def _with_items(self, value: Any, content: bytes) -> tuple[int, int]:
        if isinstance(value, ConstructorValue):
            head = struct.pack("<qq", len(value.fields), value.tag)
            return DATA, self._new(DATA, head + content)
        # Programs may take items out of a tuple for all its holders, and give it back: it stays the same.
        payload = self._new(TUPLE, struct.pack("<q", len(value)) + content, value)
        _keep(value)
        return TUPLE, payload

    def _reference(self, value: RefValue) -> int | None:
        """The payload of a reference, which is this machine's from now on; None for another machine's."""
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
        """The payload of a closure of function `number` that binds nothing."""
        return self._new(CLOSURE, struct.pack("<qq", number, 0))

    def borrow(self, values: Sequence[Any]) -> tuple[ctypes.Array[Any], list[int]]:
        """Memory with objects of Python that the caller keeps alive, and their payloads: nothing counts them,
        so that the garbage collector sees all who hold them."""
        heads = [_HEAD.pack(IMMORTAL, FOREIGN, _FOREIGN_OWNER, id(value), 0) for value in values]
        memory = ctypes.create_string_buffer(b"".join(heads), HEAD_BYTES * len(heads) + 1)
        first = ctypes.addressof(memory) + HEAD_BYTES
        return memory, [first + HEAD_BYTES * number for number in range(len(heads))]

    def store(self, at: int, value: Any) -> None:
        """Write a value to a register, whose old one is dropped."""
        kind, payload = self.to_native(value)
        runtime().put(None, at, kind, payload & (1 << 64) - 1)

    def from_native(self, at: int, count: int) -> list[Any]:
        """The Python objects of values side by side, which stay the registers'."""
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
        """The Python object of a tuple or a value of a data type, as deep as it may be."""
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
        """One holder less of an object. Counts belong to the thread that runs the machine: what another
        thread drops waits."""
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
        keeper: Any = None  # of a shape heap in a frame: only builtins of shapes get it, for the call
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
    """What a reference that Python holds stands for: a native one. Raises: Trap U0405 where another thread
    runs the machine meanwhile."""

    __slots__ = ("payload", "translator")

    def __init__(self, translator: ObjectTranslator, payload: int) -> None:
        """The payload's count is the cell's."""
        self.translator, self.payload = translator, payload

    def read(self) -> Any:
        """The value in the cell, as a value of Python."""
        self._check()
        return self.translator.from_native(self.payload, 1)[0]

    def write(self, value: Any) -> None:
        """Raises: TrapTypeError U0406 for a value that leads to this reference."""
        self._check()
        value = to_value(value)
        if self._is_in(value):
            raise TrapTypeError(U0406, "a reference of machine code cannot hold itself")
        self.translator.store(self.payload, value)

    def _is_in(self, value: Any) -> bool:
        seen: dict[int, Any] = {}  # kept alive: what references give is made anew
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
    """Kinds and payloads of values side by side."""
    read = _read(at, VALUE_BYTES * count)
    return [(kind, payload) for kind, _, payload in _VALUE.iter_unpack(read)]


def _items_at(kind: int, payload: int) -> list[tuple[int, int]]:
    """The items of a tuple or a value of a data type; none of a tuple that Python has."""
    if kind == TUPLE and _owner(payload)[0] & _IS_OWNER:
        return []
    first = payload + (8 if kind == TUPLE else 16)
    return _values_at(first, words_at(payload, 1)[0])


def _of_items(kind: int, payload: int, items: list[Any]) -> Any:
    """The Python object of a tuple or a value of a data type, its items converted."""
    if kind == DATA:
        return ConstructorValue(words_at(payload, 2)[1], tuple(items))
    return _host_owner(payload) if _owner(payload)[0] & _IS_OWNER else Array(items)


def _owner(payload: int) -> tuple[int, int]:
    """Flags and owner in an object's head."""
    _, _, flags, owner, _ = _HEAD.unpack(_read(payload - HEAD_BYTES, HEAD_BYTES))
    return flags, owner


def _storage(payload: int) -> Storage:
    """A Python object for a native storage, with a count of its own."""
    return allocator_at(_owner(payload)[1]).share(payload)
