"""Where the parts of values and objects lie."""

from heddle.runtime.native.abi import (
    HEAD_BYTES,
    Closure,
    Counted,
    Data,
    Head,
    Kind,
    Reference,
    Value,
)
from heddle.systems.types import Address, Atomic, Pointer, i32, i64, u32
from heddle.systems.words import cast, inline, null, offset, ref


@inline
def payload_place(register: Pointer[Value]) -> Pointer[Address]:
    """Where a register has the address of its object."""
    return cast(Pointer[Address], ref(register.payload))


@inline
def payload_of(register: Pointer[Value]) -> Address:
    """What a value points to; its kind says what that is."""
    return payload_place(register).value


@inline
def set_value(register: Pointer[Value], kind: i32, payload: Address) -> None:
    """Write to a register that holds nothing."""
    register.kind = kind
    payload_place(register).value = payload


@inline
def clear(register: Pointer[Value]) -> None:
    """Make a value of what was never one."""
    register.kind = Kind.NONE
    register.zero = 0
    register.payload = 0


@inline
def head_of(payload: Address) -> Pointer[Head]:
    """The head of an object, which stands before its payload."""
    return cast(Pointer[Head], offset(payload, -HEAD_BYTES))


@inline
def payload_behind(head: Pointer[Head]) -> Address:
    """The payload behind a head."""
    return cast(Address, offset(head, 1))


@inline
def kind_at(payload: Address) -> i32:
    """The kind of an object."""
    return head_of(payload).kind


@inline
def is_on_storage(head: Pointer[Head]) -> bool:
    """Whether the owner of an object is a storage."""
    owner = head.owner
    return owner != null and kind_at(owner) == Kind.STORAGE


@inline
def shared_count(storage: Address) -> Pointer[Atomic[i64]]:
    """The count of a storage, which any thread may change."""
    return cast(Pointer[Atomic[i64]], ref(head_of(storage).count))


@inline
def sizes_of(shape: Pointer[Counted]) -> Pointer[i64]:
    """The sizes of a shape."""
    return cast(Pointer[i64], offset(shape, 1))


@inline
def items_of(tuple_at: Pointer[Counted]) -> Pointer[Value]:
    """The values of a tuple."""
    return cast(Pointer[Value], offset(tuple_at, 1))


@inline
def bound_values(closure: Pointer[Closure]) -> Pointer[Value]:
    """The values that a closure binds."""
    return cast(Pointer[Value], offset(closure, 1))


@inline
def fields_of(data: Pointer[Data]) -> Pointer[Value]:
    """The fields of a value of a data type."""
    return cast(Pointer[Value], offset(data, 1))


@inline
def held_by(reference: Address) -> Pointer[Value]:
    """Where a reference has its value."""
    return ref(cast(Pointer[Reference], reference).value)


@inline
def element_bytes(dtype: i32) -> i64:
    """The bytes of an element: `dtype` is DLPack's word, code | bits << 8 | lanes << 16."""
    word = u32(dtype)
    return i64(((word >> 8 & 255) * (word >> 16) + 7) >> 3)
