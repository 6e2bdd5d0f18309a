"""What the sources use of CPython. All of it needs the interpreter's lock, but for taking the lock."""

from heddle.runtime.native.abi import HostObject
from heddle.systems.types import Address, Function, Pointer, Struct, f64, i32, i64
from heddle.systems.words import (
    EXTERNAL,
    Global,
    PlatformValue,
    Text,
    cast,
    external,
    inline,
    inline_ir,
    native,
    null,
    offset,
)

BYTES_CONTENT = PlatformValue("BYTES_CONTENT", i64)
TUPLE_ITEMS = PlatformValue("TUPLE_ITEMS", i64)

Object = Pointer[HostObject]
CapsuleEnd = Function[[Object], None]

PyLong_Type = Global(HostObject, linkage=EXTERNAL)
PyBool_Type = Global(HostObject, linkage=EXTERNAL)
PyFloat_Type = Global(HostObject, linkage=EXTERNAL)
_Py_NoneStruct = Global(HostObject, linkage=EXTERNAL)
_Py_TrueStruct = Global(HostObject, linkage=EXTERNAL)
_Py_FalseStruct = Global(HostObject, linkage=EXTERNAL)

object_and_word = Text("OL")
two_objects_and_words = Text("OOLL")
five_words = Text("LLLLL")


class Bound(Struct):
    """What a Python function of ours has as `self`: its record, bytes, and what it keeps alive."""

    record: Pointer[HostObject]
    keep: Pointer[HostObject]


@inline
def bound_to(self: Object) -> Pointer[Bound]:
    """The items of a tuple."""
    return cast(Pointer[Bound], offset(cast(Address, self), TUPLE_ITEMS))


@inline
def content_of(data: Object) -> Address:
    """The contents of a bytes object."""
    return offset(cast(Address, data), BYTES_CONTENT)


@inline
def num_items(items: Object) -> i64:
    """The items of a tuple."""
    return cast(Pointer[i64], offset(cast(Address, items), TUPLE_ITEMS))[-1]


@inline
def item_of(items: Object, number: i64) -> Object:
    """An item of a tuple, not counted."""
    return cast(Pointer[Object], offset(cast(Address, items), TUPLE_ITEMS))[number]


@inline
def slot_of(owner: Object, at: i64) -> Pointer[Object]:
    """A slot of an object."""
    return cast(Pointer[Object], offset(cast(Address, owner), at))


@inline
def counted(found: Object) -> Object:
    """The object, held once more."""
    Py_IncRef(found)
    return found


@inline
def none() -> Object:
    """None, counted."""
    return counted(_Py_NoneStruct)


@external
def Py_IncRef(found: Object) -> None: ...


@external
def Py_DecRef(found: Object) -> None: ...


@external
def PyLong_AsLongLong(found: Object) -> i64: ...


@external
def PyLong_FromLongLong(number: i64) -> Object: ...


@external
def PyFloat_AsDouble(found: Object) -> f64: ...


@external
def PyFloat_FromDouble(number: f64) -> Object: ...


@external
def PyErr_Occurred() -> Object: ...


@external
def PyErr_CheckSignals() -> i32:
    """Run the handlers of signals that have come, in the main thread: -1 where one raises."""


@external
def PyErr_Clear() -> None: ...


@external
def PyEval_SaveThread() -> Address: ...


@external
def PyEval_RestoreThread(state: Address) -> None: ...


@external
def PyTuple_New(count: i64) -> Object: ...


@external
def PyTuple_SetItem(items: Object, number: i64, item: Object) -> i32: ...


@external
def PyTuple_Size(items: Object) -> i64: ...


@external
def PyTuple_GetItem(items: Object, number: i64) -> Object: ...


@external
def PyBytes_FromStringAndSize(content: Address, size_bytes: i64) -> Object: ...


@external
def PyType_GenericAlloc(type: Object, count: i64) -> Object: ...


@external
def PyCapsule_New(pointer: Address, name: Address, end: CapsuleEnd) -> Object: ...


@external
def PyCapsule_GetPointer(capsule: Object, name: Address) -> Address: ...


@inline_ir(
    "call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr {callee}, ptr {first}, ptr null)",
    "declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)",
)
def call_with_one(callee: Object, first: Object) -> Object:
    """Call with one argument; null with an exception."""


@inline_ir(
    "call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr {callee}, ptr {first}, ptr {second}, ptr null)",
    "declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)",
)
def call_with_two(callee: Object, first: Object, second: Object) -> Object:
    """Call with two arguments; null with an exception."""


@inline_ir(
    "call ptr (ptr, ptr, ...) @PyObject_CallFunction("
    "ptr {callee}, ptr @object_and_word, ptr {first}, i64 {word})",
    "declare ptr @PyObject_CallFunction(ptr, ptr, ...)",
)
def call_with_word(callee: Object, first: Object, word: i64) -> Object:
    """Call with an object and a number; null with an exception."""


@inline_ir(
    "call ptr (ptr, ptr, ...) @PyObject_CallFunction("
    "ptr {callee}, ptr @two_objects_and_words, ptr {first}, ptr {second}, ptr {third}, ptr {fourth})",
    "declare ptr @PyObject_CallFunction(ptr, ptr, ...)",
)
def call_with_places(
    callee: Object, first: Object, second: Object, third: Address, fourth: Address
) -> Object:
    """Call with two objects and two addresses as numbers; null with an exception."""


@inline_ir(
    "call ptr (ptr, ptr, ...) @PyObject_CallFunction("
    "ptr {callee}, ptr @five_words, ptr {context}, i64 {function}, ptr {args}, i64 {count}, ptr {register})",
    "declare ptr @PyObject_CallFunction(ptr, ptr, ...)",
)
def call_with_words(
    callee: Object, context: Address, function: i64, args: Address, count: i64, register: Address
) -> Object:
    """Call with five numbers; null with an exception."""


@native
def call_with_tuple(function: Object, self: Object, args: Pointer[Object], count: i64) -> Object:
    """function(self, arguments as a tuple)"""
    items = PyTuple_New(count)
    if items == null:
        return null
    number: i64 = 0
    while number < count:
        PyTuple_SetItem(items, number, counted(args[number]))
        number += 1
    result = call_with_two(function, self, items)
    Py_DecRef(items)
    return result
