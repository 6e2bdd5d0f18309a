"""Values of data types, and references.

A function that gives a status gives `Status.DONE`, or `Status.FAILED` after heddle_set_error.
"""

from heddle.runtime.native.abi import NO_ITEM, WRONG_KIND, Context, Data, Kind, Reference, Status, Value
from heddle.runtime.native.source.counting import copy_values, heddle_copy, put
from heddle.runtime.native.source.looking import heddle_kind_of
from heddle.runtime.native.source.making import new_object
from heddle.runtime.native.source.system import simplified
from heddle.runtime.native.source.thread import heddle_set_error
from heddle.runtime.native.source.values import fields_of, held_by, payload_of
from heddle.systems.types import Pointer, i32, i64, u8, u64
from heddle.systems.words import Text, cast, cold, export, inline, null, size_of

no_data = Text("expected a value of a data type, got %v")
no_reference = Text("expected a reference, got %v")
no_such_field = Text("field %g is out of range: the value of a data type has %e fields")


@cold
def refuse_kind(message: Pointer[u8], value: Pointer[Value]) -> i32:
    """Set the error V0402 with a value's kind. Gives `Status.FAILED`."""
    heddle_set_error(WRONG_KIND, message, 0, heddle_kind_of(value))
    return Status.FAILED


@inline
def data_in(value: Pointer[Value]) -> Pointer[Data]:
    """Null where a value is of no data type."""
    return cast(Pointer[Data], payload_of(value)) if value.kind == Kind.DATA else null


@simplified
@export
def heddle_make_data(
    context: Pointer[Context], register: Pointer[Value], tag: i64, count: i64, items: Pointer[Value]
) -> i32:
    """Put a value of a data type into a register: its constructor's tag and `count` fields."""
    size_bytes = i64(size_of(Data)) + i64(size_of(Value)) * count
    made = cast(Pointer[Data], new_object(Kind.DATA, size_bytes, null, 0))
    if made == null:
        return Status.FAILED
    made.count = count
    made.tag = tag
    copy_values(fields_of(made), items, count)
    put(context, register, Kind.DATA, made)
    return Status.DONE


@simplified
@export
def heddle_has_tag(value: Pointer[Value], tag: i64) -> i32:
    """1 where a value has this tag, 0 where it has another one; -1 after heddle_set_error for what is of no
    data type."""
    data = data_in(value)
    if data == null:
        return refuse_kind(no_data, value)
    return i32(data.tag == tag)


@simplified
@export
def heddle_get_field(
    context: Pointer[Context], register: Pointer[Value], value: Pointer[Value], index: i64
) -> i32:
    """Put a field into a register. Errors: V0402 for no data type's value, V0404 for no such field."""
    data = data_in(value)
    if data == null:
        return refuse_kind(no_data, value)
    if u64(index) >= u64(data.count):
        heddle_set_error(NO_ITEM, no_such_field, data.count, index)
        return Status.FAILED
    heddle_copy(context, register, fields_of(data)[index])
    return Status.DONE


# ---- references


@simplified
@export
def heddle_make_ref(context: Pointer[Context], register: Pointer[Value], value: Pointer[Value]) -> i32:
    """Put a new reference to a value into a register."""
    made = new_object(Kind.REFERENCE, i64(size_of(Reference)), null, 0)
    if made == null:
        return Status.FAILED
    copy_values(held_by(made), value, 1)
    put(context, register, Kind.REFERENCE, made)
    return Status.DONE


@simplified
@export
def heddle_read_ref(context: Pointer[Context], register: Pointer[Value], value: Pointer[Value]) -> i32:
    """Put what a reference holds into a register. Errors: V0402."""
    if value.kind != Kind.REFERENCE:
        return refuse_kind(no_reference, value)
    heddle_copy(context, register, held_by(payload_of(value)))
    return Status.DONE


@simplified
@export
def heddle_write_ref(context: Pointer[Context], to: Pointer[Value], value: Pointer[Value]) -> i32:
    """Let a reference hold another value. Errors: V0402."""
    if to.kind != Kind.REFERENCE:
        return refuse_kind(no_reference, to)
    heddle_copy(context, held_by(payload_of(to)), value)
    return Status.DONE
