"""What a call of Python's by a program needs: the arguments as objects, and its result in a register.

Both are METH_FASTCALL functions of their own, so that what goes wrong is raised inside the call, which knows
its place in the program. Addresses come as integers.
"""

from heddle.runtime.native.abi import DLTensor, Flag, Head, Kind, Value
from heddle.runtime.native.source.counting import put, release_storage, retain_storage
from heddle.runtime.native.source.making import new_tensor
from heddle.runtime.native.source.python import (
    Object,
    Py_DecRef,
    PyLong_AsLongLong,
    PyTuple_New,
    PyTuple_SetItem,
    bound_to,
    none,
)
from heddle.runtime.native.source.python_tensors import wrap_tensor
from heddle.runtime.native.source.python_values import (
    ask_from_native,
    from_object,
    raise_own_error,
    to_object,
)
from heddle.runtime.native.source.values import head_of, is_on_storage, payload_of
from heddle.systems.types import Address, Pointer, i64, u64
from heddle.systems.words import cast, export, inline, local, native, null


@inline
def values_at(place: Object) -> Pointer[Value]:
    """The values at an address."""
    return cast(Pointer[Value], cast(Address, u64(PyLong_AsLongLong(place))))


@export
def heddle_objects_at(self: Object, args: Pointer[Object], count: i64) -> Object:
    """(address of values, how many): a tuple of their objects; null with an exception."""
    keep = bound_to(self).keep
    values = values_at(args[0])
    wanted = PyLong_AsLongLong(args[1])
    made = PyTuple_New(wanted)
    number: i64 = 0
    while made != null and number < wanted:
        item = held_object(keep, values[number])
        if item == null:
            Py_DecRef(made)
            return null
        PyTuple_SetItem(made, number, item)
        number += 1
    return made


@native
def held_object(keep: Object, value: Pointer[Value]) -> Object:
    """The object of a value that a register goes on holding; null with an exception. Tuples of the program's
    own are left to Python: it keeps shared what is shared, and needs no stack."""
    if value.kind == Kind.TENSOR:
        head = head_of(payload_of(value))
        if head.flags == 0 and is_on_storage(head):
            return tensor_beside(keep, head, cast(Pointer[DLTensor], payload_of(value)))
    if value.kind == Kind.TUPLE and head_of(payload_of(value)).flags & Flag.IS_OWNER == 0:
        return ask_from_native(keep, value)
    return to_object(keep, value, False)


@inline
def tensor_beside(keep: Object, head: Pointer[Head], tensor: Pointer[DLTensor]) -> Object:
    """A Python tensor over the storage of a program's: any thread may drop it, and so it has an object of its
    own, of which only the storage is shared."""
    retain_storage(head.owner)
    made = new_tensor(
        tensor.data,
        i64(tensor.rank),
        tensor.sizes,
        tensor.dtype,
        tensor.device_type,
        tensor.device_id,
        head.owner,
    )
    if made == null:
        release_storage(head.owner)
        raise_own_error(keep)
        return null
    return wrap_tensor(made)


@export
def heddle_store_object(self: Object, args: Pointer[Object], count: i64) -> Object:
    """(address of a register, object): the register holds the object's value; null with an exception."""
    value = local(Value)
    if not from_object(null, bound_to(self).keep, args[1], value):
        return null
    put(null, values_at(args[0]), value.kind, payload_of(value))
    return none()
