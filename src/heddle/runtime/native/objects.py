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
| 12 | foreign | any other object, the Texts of a tensor among them |
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

from heddle.runtime.device import Device
from heddle.runtime.dtype import DataType
from heddle.runtime.dtype_word import dtype_from_packed
from heddle.runtime.layout import layout_of
from heddle.runtime.native.abi import HEAD_BYTES, IMMORTAL, DLTensor, Flag, Kind, Value
from heddle.runtime.native.errors import raise_native_error
from heddle.runtime.native.library import native_library
from heddle.runtime.native.memory import words_at
from heddle.runtime.shape import Array, Shape, Texts
from heddle.runtime.storage import Storage, allocator_at
from heddle.runtime.tensor import Tensor, make_tensor

VALUE_BYTES = Value.layout.size_bytes
NONE, INT, BOOL, FLOAT, MACHINE = Kind.NONE, Kind.INT, Kind.BOOL, Kind.FLOAT, Kind.MACHINE
TENSOR, SHAPE, TUPLE = Kind.TENSOR, Kind.SHAPE, Kind.TUPLE
CLOSURE, STORAGE, FOREIGN = Kind.CLOSURE, Kind.STORAGE, Kind.FOREIGN
_FOREIGN_OWNER, _IS_OWNER = Flag.FOREIGN_OWNER, Flag.IS_OWNER
_DL_BYTES = DLTensor.layout.size_bytes
_VALUE = struct.Struct("<iiq")
_FLOAT_VALUE = struct.Struct("<iid")
_DL = struct.Struct("<qiiiIqqq")
_HEAD = struct.Struct("<qiiqq")

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
    if not _runtime_of_process:
        _runtime_of_process.append(_Runtime())
    return _runtime_of_process[0]


def write_value(at: int, kind: int, payload: int) -> None:
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


def _keep(value: object) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def _object_at(address: int) -> Any:
    return ctypes.cast(address, ctypes.py_object).value


def _fits_word(value: int) -> bool:
    """Larger integers, and shapes of them, stay objects of Python: compiled code passes them on."""
    return -(1 << 63) <= value < 1 << 63


class ObjectTranslator:
    """Python objects to native values and back, for one machine.

    `closure(number, bound)` makes the Python form of a native closure.
    """

    def __init__(self, machine: Any, closure: Callable[[int, tuple[Any, ...]], Any]) -> None:
        self._machine = machine
        self._closure = closure

    def to_native(self, value: Any) -> tuple[int, int]:
        """Kind and payload; the count of a new object is the caller's."""
        if value is None:
            return NONE, 0
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
        if isinstance(value, Array) and not isinstance(value, Texts):
            return TUPLE, self._tuple(value)
        if isinstance(value, Storage):
            runtime().retain(STORAGE, value.payload)
            return STORAGE, value.payload
        payload = _new_object(FOREIGN, 0, id(value), _FOREIGN_OWNER)
        _keep(value)
        return FOREIGN, payload

    def _tuple(self, value: Array) -> int:
        """Programs may take items out of it for all its holders, and give it back: it stays the same."""
        items: list[tuple[int, int]] = []
        payload = None
        try:
            for item in value:
                items.append(self.to_native(item))
            content = b"".join(_VALUE.pack(kind, 0, item) for kind, item in items)
            payload = self._new(TUPLE, struct.pack("<q", len(value)) + content, value)
        finally:
            if payload is None:
                for kind, item in items:
                    runtime().release(None, kind, item)
        _keep(value)
        return payload

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

    def from_native(self, at: int) -> Any:
        """The Python object of a value, which stays the register's."""
        kind, payload = read_value(at)
        if kind == NONE:
            return None
        if kind == TENSOR:
            return self._tensor(payload)
        if kind == INT:
            return payload
        if kind == BOOL:
            return bool(payload)
        if kind == FLOAT:
            return _FLOAT_VALUE.unpack(_read(at, VALUE_BYTES))[2]
        if kind == SHAPE:
            return Shape(words_at(payload + 8, words_at(payload, 1)[0]))
        if kind == TUPLE:
            flags, owner = _owner(payload)
            if flags & _IS_OWNER:
                return _object_at(owner)
            return Array(self._values(payload + 8, words_at(payload, 1)[0]))
        if kind == CLOSURE:
            number, count = words_at(payload, 2)
            return self._closure(number, tuple(self._values(payload + 16, count)))
        if kind == STORAGE:
            return _storage(payload)
        return self._machine if kind == MACHINE else _object_at(_owner(payload)[1])

    def _values(self, at: int, count: int) -> list[Any]:
        return [self.from_native(at + VALUE_BYTES * index) for index in range(count)]

    def _tensor(self, payload: int) -> Tensor:
        flags, owner = _owner(payload)
        if flags & _IS_OWNER:
            same: Tensor = _object_at(owner)
            return same
        data, device_type, device_id, ndim, word, sizes, _, _ = _DL.unpack(_read(payload, _DL_BYTES))
        layout, dtype = layout_of(words_at(sizes, ndim)), DataType(dtype_from_packed(word))
        keeper: Any = None  # of a shape heap in a frame: only builtins of shapes get it, for the call
        if not owner:
            return make_tensor(data, layout, dtype, Device(device_type, device_id), keeper)
        if flags & _FOREIGN_OWNER:
            keeper = _object_at(owner)
        elif _HEAD.unpack(_read(owner - HEAD_BYTES, HEAD_BYTES))[1] == TENSOR:  # a view of a lent tensor
            keeper = _object_at(_owner(owner)[1])
        else:
            keeper = _storage(owner)
        return make_tensor(data, layout, dtype, Device(device_type, device_id), keeper)


def _owner(payload: int) -> tuple[int, int]:
    """Flags and owner in an object's head."""
    _, _, flags, owner, _ = _HEAD.unpack(_read(payload - HEAD_BYTES, HEAD_BYTES))
    return flags, owner


def _storage(payload: int) -> Storage:
    """A Python object for a native storage, with a count of its own."""
    return allocator_at(_owner(payload)[1]).share(payload)
