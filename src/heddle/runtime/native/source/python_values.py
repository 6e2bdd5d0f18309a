"""Values of native programs as objects of Python, and back."""

from heddle.runtime.native.abi import (
    TOO_DEEP,
    Context,
    Counted,
    Data,
    DLTensor,
    Flag,
    Head,
    HostObject,
    Kind,
    Value,
)
from heddle.runtime.native.source.counting import heddle_release
from heddle.runtime.native.source.kernel_calls import set_bool, set_float, set_int
from heddle.runtime.native.source.making import new_object
from heddle.runtime.native.source.python import (
    Object,
    Py_DecRef,
    Py_IncRef,
    PyBool_Type,
    PyErr_Clear,
    PyFloat_FromDouble,
    PyFloat_Type,
    PyLong_FromLongLong,
    PyLong_Type,
    PyTuple_GetItem,
    PyTuple_New,
    PyTuple_SetItem,
    PyTuple_Size,
    _Py_FalseStruct,
    _Py_NoneStruct,
    _Py_TrueStruct,
    call_with_one,
    call_with_places,
    call_with_word,
    counted,
    item_of,
    none,
    num_items,
    slot_of,
)
from heddle.runtime.native.source.python_tensors import (
    array_type,
    header_of,
    lend_tensor,
    tensor_over_array,
    tensor_type,
    view_of,
    wrap_tensor,
)
from heddle.runtime.native.source.thread import heddle_set_error, stack_is_short
from heddle.runtime.native.source.values import (
    clear,
    fields_of,
    head_of,
    is_on_storage,
    items_of,
    kind_at,
    payload_of,
    set_value,
    sizes_of,
)
from heddle.systems.types import Address, Pointer, f64, i64
from heddle.systems.words import Global, Text, address, cast, cold, inline, local, native, null, ref, size_of

data_type = Global(Pointer[HostObject])  # the class of values of data types
tuple_type = Global(Pointer[HostObject])
tag_slot = Global(i64)
fields_slot = Global(i64)
to_native = Global(Pointer[HostObject])  # (keep, object, context, address of a value): writes the value
from_native = Global(Pointer[HostObject])  # (keep, address of a value): the object
refuse_hook = Global(Pointer[HostObject])  # (keep, number of arguments): raises
text_type = Global(Pointer[HostObject])  # the class of tensors of strings
shape_type = Global(Pointer[HostObject])  # the class of shapes: made of a tuple
sequence_type = Global(Pointer[HostObject])  # what tuples become: made of a tuple

nested_too_deep = Text("the stack has no room for the tuples in a result's tuple")

MOST_NESTED = 10_000  # sequences and values of data types in an argument that are not left to Python
OWN_ERROR = -2  # in place of a number of arguments: this thread's error


@cold
def raise_own_error(keep: Object) -> None:
    """Raise this thread's error without a place in the program."""
    call_with_word(refuse_hook.value, keep, OWN_ERROR)


# ---- to Python


@native
def to_object(keep: Object, value: Pointer[Value], is_alone: bool) -> Object:
    """The Python object of a value. Tensors that nothing else holds (`is_alone`: neither does what holds the
    value) take their native object along."""
    kind = value.kind
    if kind == Kind.TENSOR:
        return tensor_object(keep, value, is_alone)
    if kind == Kind.TUPLE:
        return sequence_object(keep, value, is_alone)
    if kind == Kind.NONE:
        return none()
    if kind == Kind.INT:
        return PyLong_FromLongLong(value.payload)
    if kind == Kind.BOOL:
        return counted(_Py_TrueStruct if value.payload != 0 else _Py_FalseStruct)
    if kind == Kind.FLOAT:
        return PyFloat_FromDouble(cast(Pointer[f64], ref(value.payload)).value)
    if kind == Kind.FOREIGN:
        return counted(cast(Pointer[HostObject], head_of(payload_of(value)).owner))
    if kind == Kind.SHAPE:
        return shape_object(cast(Pointer[Counted], payload_of(value)))
    return ask_from_native(keep, value)


@native
def ask_from_native(keep: Object, value: Pointer[Value]) -> Object:
    """Let Python make an object of a value; null with an exception."""
    return call_with_word(from_native.value, keep, i64(address(value)))


@inline
def tensor_object(keep: Object, value: Pointer[Value], is_alone: bool) -> Object:
    """Only storages are counted for all threads: what views a tensor of the host's keeps that tensor."""
    payload = payload_of(value)
    head = head_of(payload)
    if head.flags & Flag.IS_OWNER != 0:
        return counted(cast(Pointer[HostObject], head.owner))
    if is_alone and head.count == 1 and is_on_storage(head):
        head.count = 2
        return wrap_tensor(payload)
    if is_view_of_lent(head):
        return view_of(cast(Pointer[HostObject], head_of(head.owner).owner), cast(Pointer[DLTensor], payload))
    return ask_from_native(keep, value)


@inline
def is_view_of_lent(head: Pointer[Head]) -> bool:
    """Whether a tensor's memory is that of a tensor of Python's."""
    if head.flags != 0 or head.owner == null:
        return False
    return kind_at(head.owner) == Kind.TENSOR and head_of(head.owner).flags & Flag.IS_OWNER != 0


@native
def sequence_object(keep: Object, value: Pointer[Value], is_alone: bool) -> Object:
    """The tuple or value of a data type that a value is, with its parts; null with an exception."""
    payload = payload_of(value)
    head = head_of(payload)
    if head.flags & Flag.IS_OWNER != 0:
        return counted(cast(Pointer[HostObject], head.owner))
    if stack_is_short():
        heddle_set_error(TOO_DEEP, nested_too_deep, 0, 0)
        raise_own_error(keep)
        return null
    items = tuple_of(keep, cast(Pointer[Counted], payload), is_alone and head.count == 1)
    if items == null:
        return null
    found = call_with_one(sequence_type.value, items)
    Py_DecRef(items)
    return found


@inline
def tuple_of(keep: Object, source: Pointer[Counted], is_alone: bool) -> Object:
    """A tuple of Python's with the items of one of ours; null with the exception set."""
    count = source.count
    made = PyTuple_New(count)
    number: i64 = 0
    while made != null and number < count:
        item = to_object(keep, items_of(source)[number], is_alone)
        if item == null:
            Py_DecRef(made)
            return null
        PyTuple_SetItem(made, number, item)
        number += 1
    return made


@native
def shape_object(shape: Pointer[Counted]) -> Object:
    """The Shape of a program's shape; null with an exception."""
    made = PyTuple_New(shape.count)
    number: i64 = 0
    while made != null and number < shape.count:
        size = PyLong_FromLongLong(sizes_of(shape)[number])
        if size == null:
            Py_DecRef(made)
            return null
        PyTuple_SetItem(made, number, size)
        number += 1
    if made == null:
        return null
    found = call_with_one(shape_type.value, made)
    Py_DecRef(made)
    return found


# ---- from Python


@native
def from_object(context: Pointer[Context], keep: Object, arg: Object, value: Pointer[Value]) -> bool:
    """Write the value of an object; False with the exception set."""
    clear(value)
    type = arg.type
    if type == tensor_type.value:
        if header_of(arg).strides == null:
            return lend(keep, arg, value)
    elif type == PyLong_Type:
        if set_int(value, arg):
            return True
        clear(value)
        PyErr_Clear()
    elif type == PyFloat_Type:
        set_float(value, arg)
        return True
    elif type == PyBool_Type:
        set_bool(value, arg)
        return True
    elif arg == _Py_NoneStruct:
        return True
    elif type == array_type.value:
        over = tensor_over_array(arg)
        if over != null:
            is_lent = lend(keep, over, value)
            Py_DecRef(over)
            return is_lent
    elif type == text_type.value:
        return hold_object(keep, arg, value)
    elif type == shape_type.value:
        return shape_from_object(context, keep, arg, value)
    elif has_parts(arg):
        left = local(i64)
        left.value = MOST_NESTED
        return from_nested(context, keep, arg, value, left)
    return ask_to_native(context, keep, arg, value)


@native
def hold_object(keep: Object, arg: Object, value: Pointer[Value]) -> bool:
    """An object that stays one of Python's."""
    made = new_object(Kind.FOREIGN, 0, arg, Flag.FOREIGN_OWNER)
    if made == null:
        raise_own_error(keep)
        return False
    Py_IncRef(arg)
    set_value(value, Kind.FOREIGN, made)
    return True


@native
def shape_from_object(context: Pointer[Context], keep: Object, arg: Object, value: Pointer[Value]) -> bool:
    """Write the value of a Shape; False with the exception set. Python looks at one with larger sizes than
    fit 64 bits."""
    count = num_items(arg)
    made = cast(Pointer[Counted], new_object(Kind.SHAPE, i64(size_of(Counted)) + 8 * count, null, 0))
    if made == null:
        raise_own_error(keep)
        return False
    made.count = count
    size = local(Value)
    number: i64 = 0
    while number < count:
        if not set_int(size, item_of(arg, number)):
            PyErr_Clear()
            heddle_release(null, Kind.SHAPE, made)
            return ask_to_native(context, keep, arg, value)
        sizes_of(made)[number] = size.payload
        number += 1
    set_value(value, Kind.SHAPE, made)
    return True


@inline
def has_parts(arg: Object) -> bool:
    """Whether an object is a sequence or a value of a data type."""
    return arg.type == sequence_type.value or arg.type == data_type.value


@native
def from_nested(
    context: Pointer[Context], keep: Object, arg: Object, value: Pointer[Value], left: Pointer[i64]
) -> bool:
    """Write the value of a sequence or of an object of a data type; False with the exception set. Beyond so
    many of them (`left`) and near the end of the stack Python converts it: it keeps shared what is shared,
    and needs no stack."""
    left.value -= 1
    if left.value <= 0 or stack_is_short():
        return ask_to_native(context, keep, arg, value)
    if arg.type == data_type.value:
        return data_from_object(context, keep, arg, value, left)
    return sequence_from_object(context, keep, arg, value, left)


@native
def sequence_from_object(
    context: Pointer[Context], keep: Object, arg: Object, value: Pointer[Value], left: Pointer[i64]
) -> bool:
    """A tuple with the items of a sequence, which it keeps. What it has when an item raises an exception dies
    with it."""
    count = PyTuple_Size(arg)
    size_bytes = i64(size_of(Counted)) + i64(size_of(Value)) * count
    made = cast(Pointer[Counted], new_object(Kind.TUPLE, size_bytes, arg, Flag.FOREIGN_OWNER | Flag.IS_OWNER))
    if made == null:
        raise_own_error(keep)
        return False
    Py_IncRef(arg)
    made.count = 0
    while made.count < count:
        number = made.count
        if not part_from_object(context, keep, PyTuple_GetItem(arg, number), items_of(made)[number], left):
            heddle_release(null, Kind.TUPLE, cast(Address, made))
            return False
        made.count = number + 1
    set_value(value, Kind.TUPLE, cast(Address, made))
    return True


@native
def data_from_object(
    context: Pointer[Context], keep: Object, arg: Object, value: Pointer[Value], left: Pointer[i64]
) -> bool:
    """Write the value of an object of a data type; False with the exception set. Where its parts are of other
    kinds, Python converts it."""
    tag = slot_of(arg, tag_slot.value).value
    fields = slot_of(arg, fields_slot.value).value
    is_usual = tag != null and fields != null
    if not is_usual or tag.type != PyLong_Type or fields.type != tuple_type.value:
        return ask_to_native(context, keep, arg, value)
    number = local(Value)
    clear(number)
    if not set_int(number, tag):
        PyErr_Clear()
        return ask_to_native(context, keep, arg, value)
    count = num_items(fields)
    size_bytes = i64(size_of(Data)) + i64(size_of(Value)) * count
    made = cast(Pointer[Data], new_object(Kind.DATA, size_bytes, null, 0))
    if made == null:
        raise_own_error(keep)
        return False
    made.tag = number.payload
    made.count = 0
    while made.count < count:
        if not part_from_object(
            context, keep, item_of(fields, made.count), fields_of(made)[made.count], left
        ):
            heddle_release(null, Kind.DATA, made)
            return False
        made.count += 1
    set_value(value, Kind.DATA, made)
    return True


@inline
def part_from_object(
    context: Pointer[Context], keep: Object, arg: Object, value: Pointer[Value], left: Pointer[i64]
) -> bool:
    """Write the value of a field or item."""
    if has_parts(arg):
        clear(value)
        return from_nested(context, keep, arg, value, left)
    return from_object(context, keep, arg, value)


@inline
def lend(keep: Object, tensor: Object, value: Pointer[Value]) -> bool:
    """Make a value of a tensor, which stays Python's. False with an exception."""
    lent = lend_tensor(tensor, header_of(tensor))
    if lent == null:
        raise_own_error(keep)
        return False
    set_value(value, Kind.TENSOR, lent)
    return True


@native
def ask_to_native(context: Pointer[Context], keep: Object, arg: Object, value: Pointer[Value]) -> bool:
    """Let Python make a value of an object. False with an exception."""
    made = call_with_places(to_native.value, keep, arg, context, value)
    if made == null:
        return False
    Py_DecRef(made)
    return True
