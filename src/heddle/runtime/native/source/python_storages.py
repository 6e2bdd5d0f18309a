"""Storages and tensors for Python: METH_FASTCALL bodies."""

from heddle.runtime.native.abi import DLTensor, HostObject, Kind, LenderRecord, Storage, TensorRecord
from heddle.runtime.native.source.counting import heddle_release, hold_storage
from heddle.runtime.native.source.making import tensor_on
from heddle.runtime.native.source.memory import pool_take
from heddle.runtime.native.source.python import (
    Object,
    Py_DecRef,
    PyCapsule_GetPointer,
    PyCapsule_New,
    PyLong_AsLongLong,
    PyLong_FromLongLong,
    PyType_GenericAlloc,
    bound_to,
    call_with_tuple,
    content_of,
    counted,
    none,
    slot_of,
)
from heddle.runtime.native.source.python_tensors import wrap_tensor
from heddle.systems.types import Address, Pointer, i32, i64, u64
from heddle.systems.words import Global, address, cast, export, inline, native, null, offset

storage_type = Global(Pointer[HostObject])
lease_slot = Global(i64)
allocator_slot = Global(i64)


@export
def heddle_storage_configure(type: Pointer[HostObject], lease: i64, allocator: i64) -> None:
    """Tell where storages of Python keep their lease and their allocator."""
    storage_type.value = type
    lease_slot.value = lease
    allocator_slot.value = allocator


@native
def end_lease(capsule: Object) -> None:
    """Let go of the storage that a capsule holds."""
    heddle_release(null, Kind.STORAGE, PyCapsule_GetPointer(capsule, null))


@native
def wrap_storage(storage: Address, allocator: Object) -> Object:
    """A Python storage over a native one, whose count it takes over; null with the exception set."""
    capsule = PyCapsule_New(storage, null, end_lease)
    if capsule == null:
        heddle_release(null, Kind.STORAGE, storage)
        return null
    made = PyType_GenericAlloc(storage_type.value, 0)
    if made == null:
        Py_DecRef(capsule)
        return null
    slot_of(made, lease_slot.value).value = capsule
    slot_of(made, allocator_slot.value).value = counted(allocator)
    return made


@inline
def payload_in(storage: Object) -> Address:
    """The native storage of a Python one."""
    return PyCapsule_GetPointer(slot_of(storage, lease_slot.value).value, null)


@export
def heddle_take_storage(self: Object, args: Pointer[Object], count: i64) -> Object:
    """A storage of args[0] bytes, or of the record's where nothing is given; None with the thread's error set
    where there is no memory. What `self` keeps is the allocator."""
    record = cast(Pointer[LenderRecord], content_of(bound_to(self).record))
    size_bytes = record.size_bytes
    if count != 0:
        size_bytes = PyLong_AsLongLong(args[0])
    storage = pool_take(record.pool, size_bytes)
    return none() if storage == null else wrap_storage(storage, bound_to(self).keep)


@export
def heddle_storage_payload(self: Object, args: Pointer[Object], count: i64) -> Object:
    """The payload of the storage in args[0], as an int."""
    return PyLong_FromLongLong(i64(address(payload_in(args[0]))))


@export
def heddle_share_storage(self: Object, args: Pointer[Object], count: i64) -> Object:
    """A Python storage for the native one whose payload is args[0] (counted once more); args[1] is its
    allocator."""
    storage = cast(Address, u64(PyLong_AsLongLong(args[0])))
    hold_storage(storage)
    return wrap_storage(storage, args[1])


@export
def heddle_place_tensor(self: Object, args: Pointer[Object], count: i64) -> Object:
    """The tensor of the record's form in the storage args[0]. What is no storage, or is too small, goes to
    what `self` keeps, which says what is wrong."""
    record = cast(Pointer[TensorRecord], content_of(bound_to(self).record))
    if count == 1 and args[0].type == storage_type.value:
        storage = cast(Pointer[Storage], payload_in(args[0]))
        if record.end <= storage.size_bytes:
            tensor = tensor_in_record(storage, record)
            if tensor != null:
                hold_storage(storage)
                return wrap_tensor(tensor)
    return call_with_tuple(bound_to(self).keep, self, args, count)


@inline
def tensor_in_record(storage: Pointer[Storage], record: Pointer[TensorRecord]) -> Pointer[DLTensor]:
    """A tensor at the place, and of the form, that a record says; null with an error."""
    sizes = cast(Pointer[i64], offset(record, 1))
    return tensor_on(storage, record.start, record.rank, sizes, i32(record.dtype))
