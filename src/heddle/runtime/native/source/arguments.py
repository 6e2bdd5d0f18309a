"""heddle_check_args: whether a kernel's arguments are what it was compiled for.

The kernel brings a table (`ArgTable`) and names, each with a zero byte behind it: its own, for each parameter
the name and the dtype, and for each `SameSize` how the size is written. A kernel asks only where a quick look
of its own found something that it did not expect: it may still be right.
"""

from heddle.runtime.native.abi import (
    ArgCheck,
    ArgForm,
    ArgTable,
    DLTensor,
    Family,
    Kind,
    SameSize,
    SizeCheck,
    Status,
    Value,
)
from heddle.runtime.native.source.chains import tensor_in
from heddle.runtime.native.source.thread import MESSAGE_BYTES, heddle_set_error
from heddle.systems.types import Array, Pointer, Struct, i32, i64, u8, u64
from heddle.systems.words import Text, address, cast, export, inline, local, native, null, offset, ref

other_count = Text(": expected %e arguments, got %g")
argument = Text(": argument ")
name_begins = Text(" ('")
name_ends = Text("'): ")
no_tensor = Text("expected a tensor, got %k")
other_rank = Text("expected %e dimensions, got %g")
other_dtype = Text("expected dtype ")
got_dtype = Text(", got %t")
other_device = Text("expected a tensor on device type %e, got %g")
no_integer = Text("expected an integer for ")
no_number = Text("expected a number for ")
got_kind = Text(", got %k")
too_wide = Text("%g does not fit ")
no_pointer = Text("expected a pointer, got %k")
other_size = Text("expected dimension ")
size_begins = Text(" (")
size_ends = Text(")")
to_be = Text(" to be %e, got %g")
other_stride = Text("expected stride ")
takes_dense = Text(" (the kernel takes dense tensors)")
without_data = Text("the tensor has no data")
not_aligned = Text("expected data aligned to %e bytes, got an address %g bytes past that")

ZERO_DIGIT = 48


class Message(Struct):
    """A text about an argument that is being put together; what has no place is left out."""

    names: Pointer[u8]
    index: i64
    used: i64
    text: Array[u8, MESSAGE_BYTES]


# ---- the table


@inline
def same_sizes(table: Pointer[ArgTable]) -> Pointer[SameSize]:
    """The sizes that arguments share."""
    return cast(Pointer[SameSize], offset(table, 1))


@inline
def first_check(table: Pointer[ArgTable]) -> Pointer[ArgCheck]:
    """What the first parameter takes."""
    return cast(Pointer[ArgCheck], offset(same_sizes(table), table.num_same))


@inline
def size_checks(check: Pointer[ArgCheck]) -> Pointer[SizeCheck]:
    """The sizes that a parameter takes."""
    return cast(Pointer[SizeCheck], offset(check, 1))


@inline
def next_check(check: Pointer[ArgCheck]) -> Pointer[ArgCheck]:
    """What the next parameter takes."""
    return cast(Pointer[ArgCheck], offset(size_checks(check), check.rank))


@inline
def size_of_argument(args: Pointer[Value], param: i64, axis: i64) -> i64:
    """A dimension of a tensor, or a number."""
    if axis < 0:
        return args[param].payload
    return tensor_in(args[param]).sizes[axis]


# ---- numbers


@inline
def is_whole(kind: i32) -> bool:
    """Whether values of a kind are whole numbers."""
    return kind == Kind.INT or kind == Kind.BOOL


@inline
def has_right_kind(kind: i32, form: i64) -> bool:
    """Whether a scalar may be of this kind."""
    if form == ArgForm.INT:
        return is_whole(kind)
    if form == ArgForm.FLOAT:
        return is_whole(kind) or kind == Kind.FLOAT
    return kind == Kind.POINTER or kind == Kind.NONE


@inline
def fits(number: i64, check: Pointer[ArgCheck]) -> bool:
    """Whether an integer has no more bits than it may have."""
    if check.num_bits == 0:
        return True
    shift = 64 - check.num_bits
    if check.is_signed != 0:
        return ((number << shift) >> shift) == number
    return i64((u64(number) << u64(shift)) >> u64(shift)) == number


# ---- what is wrong?


@native
def append(message: Pointer[Message], text: Pointer[u8]) -> None:
    """Put a text behind what is there."""
    used = message.used
    while text.value != 0 and used < MESSAGE_BYTES - 1:
        message.text[used] = text.value
        used += 1
        text = offset(text, 1)
    message.text[used] = 0
    message.used = used


@native
def append_number(message: Pointer[Message], number: i64) -> None:
    """Append a number that is not negative."""
    digits = local(u8, 24)
    left = u64(number)
    at: i64 = 23
    digits[at] = 0
    while left > 9:
        at -= 1
        digits[at] = u8(left % 10) + ZERO_DIGIT
        left = left // 10
    at -= 1
    digits[at] = u8(left) + ZERO_DIGIT
    append(message, offset(digits, at))


@native
def name_at(names: Pointer[u8], number: i64) -> Pointer[u8]:
    """One of several names, counted from 0."""
    while number > 0:
        while names.value != 0:
            names = offset(names, 1)
        names = offset(names, 1)
        number -= 1
    return names


@native
def begin(message: Pointer[Message], names: Pointer[u8], index: i64) -> None:
    """A message about an argument, which is written when there is something to say."""
    message.names = names
    message.index = index
    message.used = 0


@native
def add(message: Pointer[Message], text: Pointer[u8]) -> None:
    """Append a text; before the first one, which kernel it is about, and which of its arguments."""
    if message.used == 0:
        append(message, message.names)
        append(message, argument)
        append_number(message, message.index)
        append(message, name_begins)
        append(message, name_at(message.names, 2 * message.index + 1))
        append(message, name_ends)
    append(message, text)


@native
def report(message: Pointer[Message], end: Pointer[u8], family: i32, expected: i64, got: i64) -> i32:
    """Make a message with this end the thread's error."""
    add(message, end)
    heddle_set_error(family, ref(message.text[0]), expected, got)
    return Status.FAILED


@native
def find_wrong_scalar(
    value: Pointer[Value], check: Pointer[ArgCheck], message: Pointer[Message], dtype: Pointer[u8]
) -> i32:
    """Kind and width of a number."""
    kind = i64(value.kind)
    if has_right_kind(value.kind, check.form):
        if check.form != ArgForm.INT or fits(value.payload, check):
            return Status.DONE
        add(message, too_wide)
        return report(message, dtype, Family.VALUE, 0, value.payload)
    if check.form == ArgForm.POINTER:
        return report(message, no_pointer, Family.TYPE, 0, kind)
    if check.form == ArgForm.INT:
        add(message, no_integer)
    else:
        add(message, no_number)
    add(message, dtype)
    return report(message, got_kind, Family.TYPE, 0, kind)


@native
def find_wrong_header(
    value: Pointer[Value],
    check: Pointer[ArgCheck],
    device: i64,
    message: Pointer[Message],
    dtype: Pointer[u8],
) -> i32:
    """Kind, rank, dtype and device."""
    if value.kind != Kind.TENSOR:
        return report(message, no_tensor, Family.TYPE, 0, i64(value.kind))
    tensor = tensor_in(value)
    if i64(tensor.rank) != check.rank:
        return report(message, other_rank, Family.VALUE, check.rank, i64(tensor.rank))
    if i64(tensor.dtype) != check.dtype:
        add(message, other_dtype)
        add(message, dtype)
        return report(message, got_dtype, Family.TYPE, check.dtype, i64(tensor.dtype))
    if i64(tensor.device_type) != device:
        return report(message, other_device, Family.VALUE, device, i64(tensor.device_type))
    return Status.DONE


@native
def same_size_of(table: Pointer[ArgTable], param: i64, axis: i64) -> i64:
    """The number of the `SameSize` about a dimension, or -1."""
    number: i64 = 0
    while number < table.num_same:
        same = same_sizes(table)[number]
        if same.param == param and same.axis == axis:
            return number
        number += 1
    return -1


@native
def find_wrong_size(
    args: Pointer[Value],
    param: i64,
    check: Pointer[ArgCheck],
    table: Pointer[ArgTable],
    names: Pointer[u8],
    message: Pointer[Message],
) -> i32:
    """Dimensions of a tensor whose rank is right."""
    tensor = tensor_in(args[param])
    axis: i64 = 0
    while axis < check.rank:
        got = tensor.sizes[axis]
        wanted = got
        number = same_size_of(table, param, axis)
        if number >= 0:
            same = same_sizes(table)[number]
            wanted = size_of_argument(args, same.other, same.other_axis)
        elif size_checks(check)[axis].mask != 0:
            wanted = size_checks(check)[axis].size
        if got != wanted:
            add(message, other_size)
            append_number(message, axis)
            if number >= 0:
                add(message, size_begins)
                add(message, name_at(names, 2 * table.num_params + 1 + number))
                add(message, size_ends)
            return report(message, to_be, Family.VALUE, wanted, got)
        axis += 1
    return Status.DONE


@native
def is_empty(tensor: Pointer[DLTensor]) -> bool:
    """Whether a tensor has no elements."""
    axis: i32 = 0
    while axis < tensor.rank:
        if tensor.sizes[axis] == 0:
            return True
        axis += 1
    return False


@native
def dense_stride(tensor: Pointer[DLTensor], axis: i64) -> i64:
    """The stride of a dimension where there are no gaps."""
    step: i64 = 1
    last = i64(tensor.rank) - 1
    while last > axis:
        step *= tensor.sizes[last]
        last -= 1
    return step


@native
def find_wrong_memory(tensor: Pointer[DLTensor], check: Pointer[ArgCheck], message: Pointer[Message]) -> i32:
    """Strides and address of a tensor; of an empty one nothing is asked."""
    if is_empty(tensor):
        return Status.DONE
    strides = tensor.strides
    axis: i64 = 0
    while axis < check.rank and strides != null and check.has_own_strides == 0:
        wanted = dense_stride(tensor, axis)
        if strides[axis] != wanted and tensor.sizes[axis] != 1:
            add(message, other_stride)
            append_number(message, axis)
            add(message, to_be)
            return report(message, takes_dense, Family.VALUE, wanted, strides[axis])
        axis += 1
    address_of_first = i64(address(tensor.data)) + tensor.byte_offset
    if address_of_first == 0:
        return report(message, without_data, Family.VALUE, 0, 0)
    past = address_of_first & check.low_bits
    if past != 0:
        return report(message, not_aligned, Family.VALUE, check.low_bits + 1, past)
    return Status.DONE


@native
def find_wrong_kind(
    args: Pointer[Value], table: Pointer[ArgTable], names: Pointer[u8], message: Pointer[Message]
) -> i32:
    """What can be told of each argument alone, without its memory."""
    check = first_check(table)
    index: i64 = 0
    while index < table.num_params:
        begin(message, names, index)
        dtype = name_at(names, 2 * index + 2)
        status: i32 = 0
        if check.form == ArgForm.TENSOR:
            status = find_wrong_header(args[index], check, table.device_type, message, dtype)
        else:
            status = find_wrong_scalar(args[index], check, message, dtype)
        if status != Status.DONE:
            return status
        check = next_check(check)
        index += 1
    return Status.DONE


@native
def find_wrong_tensors(
    args: Pointer[Value], table: Pointer[ArgTable], names: Pointer[u8], message: Pointer[Message]
) -> i32:
    """Sizes and memory of all tensors, whose ranks are right."""
    check = first_check(table)
    index: i64 = 0
    while index < table.num_params:
        if check.form == ArgForm.TENSOR:
            begin(message, names, index)
            status = find_wrong_size(args, index, check, table, names, message)
            if status == Status.DONE:
                status = find_wrong_memory(tensor_in(args[index]), check, message)
            if status != Status.DONE:
                return status
        check = next_check(check)
        index += 1
    return Status.DONE


@export
def heddle_check_args(args: Pointer[Value], count: i32, table: Pointer[ArgTable], names: Pointer[u8]) -> i32:
    """0, or -1 after heddle_set_error for the first thing that is wrong: kinds of all arguments first, then
    sizes and memory of tensors."""
    message = local(Message)
    if i64(count) != table.num_params:
        begin(message, names, 0)
        append(message, names)
        append(message, other_count)
        heddle_set_error(Family.TYPE, ref(message.text[0]), table.num_params, i64(count))
        return Status.FAILED
    status = find_wrong_kind(args, table, names, message)
    if status == Status.DONE:
        status = find_wrong_tensors(args, table, names, message)
    return status
