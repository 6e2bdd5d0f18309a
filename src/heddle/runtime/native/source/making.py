"""Making objects: storages, tensors, views, shapes, tuples and closures.

A function that gives a status gives `Status.DONE`, or `Status.FAILED` after heddle_set_error.
"""

from heddle.runtime.native.abi import (
    BAD_REQUEST,
    DIFFERS,
    HEAD_BYTES,
    HOST_DEVICE,
    NO_DEVICE,
    NO_ITEM,
    NO_MEMORY,
    Closure,
    Context,
    Counted,
    DLTensor,
    Flag,
    Head,
    Kind,
    Pool,
    PoolTable,
    Status,
    Storage,
    Value,
)
from heddle.runtime.native.source.counting import copy_values, heddle_copy, put, retain, retain_storage
from heddle.runtime.native.source.memory import no_system_memory, pool_take, pool_take_waiting
from heddle.runtime.native.source.system import malloc, signed_product, simplified
from heddle.runtime.native.source.thread import heddle_set_error
from heddle.runtime.native.source.values import (
    bound_values,
    element_bytes,
    head_of,
    items_of,
    kind_at,
    payload_behind,
    sizes_of,
)
from heddle.systems.types import Address, Pointer, i32, i64, u64
from heddle.systems.words import Text, cast, cold, copy, export, inline, native, null, offset, size_of

outside_storage = Text("tensor ends at byte %g of its storage, which has only %e bytes")
too_large_view = Text("cannot view a tensor of %e elements as one of %g elements")
no_such_item = Text("tuple index %g is out of range: the tuple has %e elements")
bad_device = Text("device index %g is out of range: there are %e devices")

MOST = (1 << 63) - 1
FEW_ELEMENTS = 1 << 40  # so many, of few bytes each: the product needs no check
FEW_BYTES = 1 << 12


@cold
def refuse_memory(size_bytes: u64) -> None:
    """Set the error U0601 with the bytes that the system did not give."""
    heddle_set_error(NO_MEMORY, no_system_memory, 0, i64(size_bytes))


@inline
def new_object(kind: i32, size_bytes: i64, owner: Address, flags: i32) -> Address:
    """The payload of a new object of so many bytes, which one holds; null after heddle_set_error."""
    whole = u64(size_bytes + HEAD_BYTES)
    head = cast(Pointer[Head], malloc(whole))
    if head == null:
        refuse_memory(whole)
        return null
    head.count = 1
    head.kind = kind
    head.flags = flags
    head.owner = owner
    return payload_behind(head)


@export
def heddle_new(kind: i32, size_bytes: i64, owner: Address, flags: i32) -> Address:
    """A new object's payload, of a count of 1; null with an error. `size_bytes` are the payload's."""
    return new_object(kind, size_bytes, owner, flags)


# ---- sizes


@inline
def product(count: i64, sizes: Pointer[i64]) -> i64:
    """The product of sizes: -1 where one is negative, the largest number where it is too large."""
    result: i64 = 1
    any_negative = False
    any_zero = False
    number: i64 = 0
    while number < count:
        size = sizes[number]
        any_negative = any_negative | (size < 0)
        any_zero = any_zero | (size == 0)
        grown, is_over = signed_product(result, size)
        result = MOST if is_over else grown
        number += 1
    known = 0 if any_zero else result
    return -1 if any_negative else known


@inline
def bytes_of(count: i64, element: i64) -> i64:
    """The bytes of so many elements: -1 where the number is negative, the largest number where they are too
    many."""
    grown, is_over = signed_product(count, element)
    bounded = MOST if is_over else grown
    return -1 if count < 0 else bounded


# ---- storages


@inline
def device_number(table: Pointer[PoolTable], device: i32) -> u64:
    """Where a device's pool is in the table: that of the host is the last one."""
    last = table.count - 1
    return u64(last if device == HOST_DEVICE else i64(device))


@inline
def pool_in(table: Pointer[PoolTable], number: u64) -> Pointer[Pool]:
    """The pool of a device; the number must be below the table's count."""
    return cast(Pointer[Pointer[Pool]], offset(table, 1))[number]


@simplified
@export
def heddle_alloc_storage(
    context: Pointer[Context],
    register: Pointer[Value],
    rank: i64,
    sizes: Pointer[i64],
    element: i64,
    device: i32,
) -> i32:
    """Storage for as many elements of `element` bytes as the sizes say. One size, and a block that waits in
    the pool: the usual case leaves out what the others need."""
    if rank == 1:
        count = sizes.value
        table = context.pools
        number = device_number(table, device)
        is_known = number < u64(table.count)
        if (u64(count) < FEW_ELEMENTS) & (u64(element) < FEW_BYTES) & is_known:
            storage = pool_take_waiting(pool_in(table, number), count * element)
            if storage != null:
                put(context, register, Kind.STORAGE, storage)
                return Status.DONE
    return alloc_any_storage(context, register, rank, sizes, element, device)


@native
def alloc_any_storage(
    context: Pointer[Context],
    register: Pointer[Value],
    rank: i64,
    sizes: Pointer[i64],
    element: i64,
    device: i32,
) -> i32:
    """Put a storage into a register, for so many elements. `element`: bytes of one. Errors: U0601, U0602,
    V0406."""
    size_bytes = bytes_of(product(rank, sizes), element)
    table = context.pools
    number = device_number(table, device)
    if number >= u64(table.count):
        heddle_set_error(NO_DEVICE, bad_device, table.count, i64(device))
        return Status.FAILED
    storage = pool_take(pool_in(table, number), size_bytes)
    if storage == null:
        return Status.FAILED
    put(context, register, Kind.STORAGE, storage)
    return Status.DONE


@inline
def memory_of(storage: Pointer[Storage]) -> Address:
    """Where a storage's memory begins."""
    return cast(Address, offset(storage, 1))


# ---- tensors


@inline
def new_tensor(
    data: Address,
    rank: i64,
    sizes: Pointer[i64],
    dtype: i32,
    device_type: i32,
    device_id: i32,
    owner: Address,
) -> Pointer[DLTensor]:
    """A tensor with sizes of its own. The owner's count is the new tensor's."""
    made = cast(Pointer[DLTensor], new_object(Kind.TENSOR, i64(size_of(DLTensor)) + 8 * rank, owner, 0))
    if made == null:
        return null
    made.data = data
    made.device_type = device_type
    made.device_id = device_id
    made.rank = i32(rank)
    made.dtype = dtype
    own_sizes = cast(Pointer[i64], offset(made, 1))
    made.sizes = own_sizes
    made.strides = null
    made.byte_offset = 0
    axis: i64 = 0
    while axis < rank:
        own_sizes[axis] = sizes[axis]
        axis += 1
    return made


@inline
def tensor_on(
    storage: Pointer[Storage], start: i64, rank: i64, sizes: Pointer[i64], dtype: i32
) -> Pointer[DLTensor]:
    """A tensor over the bytes of a storage from `start` on, which it is to hold."""
    data = offset(memory_of(storage), start)
    return new_tensor(data, rank, sizes, dtype, storage.device_type, storage.device_id, storage)


@simplified
@export
def heddle_alloc_tensor(
    context: Pointer[Context],
    register: Pointer[Value],
    storage: Pointer[Storage],
    start: i64,
    rank: i64,
    sizes: Pointer[i64],
    dtype: i32,
) -> i32:
    """Put a tensor in a storage into a register; `start` is in bytes. Errors: V0403 where it does not fit."""
    count = product(rank, sizes)
    end = bytes_of(count, element_bytes(dtype)) + start
    if (u64(end) > u64(storage.size_bytes)) | ((count | start) < 0):
        heddle_set_error(BAD_REQUEST, outside_storage, storage.size_bytes, end)
        return Status.FAILED
    made = tensor_on(storage, start, rank, sizes, dtype)
    if made == null:
        return Status.FAILED
    retain_storage(storage)
    put(context, register, Kind.TENSOR, made)
    return Status.DONE


@simplified
@export
def heddle_reshape(
    context: Pointer[Context],
    register: Pointer[Value],
    tensor: Pointer[DLTensor],
    rank: i64,
    sizes: Pointer[i64],
) -> i32:
    """A view of the same memory with other sizes. Its owner is the tensor's, or the tensor where the host
    owns the memory."""
    have = product(i64(tensor.rank), tensor.sizes)
    want = product(rank, sizes)
    if u64(want) > u64(have):
        heddle_set_error(DIFFERS, too_large_view, have, want)
        return Status.FAILED
    head = head_of(tensor)
    owner = cast(Address, tensor) if head.flags & Flag.FOREIGN_OWNER != 0 else head.owner
    dtype = tensor.dtype
    made = new_tensor(tensor.data, rank, sizes, dtype, tensor.device_type, tensor.device_id, owner)
    if made == null:
        return Status.FAILED
    if owner != null:
        retain(kind_at(owner), owner)
    put(context, register, Kind.TENSOR, made)
    return Status.DONE


# ---- shapes, tuples, closures


@simplified
@export
def heddle_make_shape(
    context: Pointer[Context], register: Pointer[Value], count: i64, sizes: Pointer[i64]
) -> i32:
    """Put a shape of `count` sizes into a register."""
    shape = cast(Pointer[Counted], new_object(Kind.SHAPE, i64(size_of(Counted)) + 8 * count, null, 0))
    if shape == null:
        return Status.FAILED
    shape.count = count
    copy(sizes_of(shape), sizes, count)
    put(context, register, Kind.SHAPE, shape)
    return Status.DONE


@simplified
@export
def heddle_make_tuple(
    context: Pointer[Context], register: Pointer[Value], count: i64, items: Pointer[Value]
) -> i32:
    """Put a tuple of `count` values into a register, which counts them."""
    size_bytes = i64(size_of(Counted)) + i64(size_of(Value)) * count
    made = cast(Pointer[Counted], new_object(Kind.TUPLE, size_bytes, null, 0))
    if made == null:
        return Status.FAILED
    made.count = count
    copy_values(items_of(made), items, count)
    put(context, register, Kind.TUPLE, made)
    return Status.DONE


@simplified
@export
def heddle_make_closure(
    context: Pointer[Context], register: Pointer[Value], function: i64, count: i64, items: Pointer[Value]
) -> i32:
    """Put a closure into a register: a function's number and `count` values that it binds."""
    size_bytes = i64(size_of(Closure)) + i64(size_of(Value)) * count
    closure = cast(Pointer[Closure], new_object(Kind.CLOSURE, size_bytes, null, 0))
    if closure == null:
        return Status.FAILED
    closure.function = function
    closure.num_bound = count
    copy_values(bound_values(closure), items, count)
    put(context, register, Kind.CLOSURE, closure)
    return Status.DONE


# ---- items of tuples


@cold
def refuse_item(tuple_at: Pointer[Counted], index: i64) -> i32:
    """Set the error V0404 with the index and the tuple's length. Gives `Status.FAILED`."""
    heddle_set_error(NO_ITEM, no_such_item, tuple_at.count, index)
    return Status.FAILED


@simplified
@export
def heddle_tuple_getitem(
    context: Pointer[Context], register: Pointer[Value], tuple_at: Pointer[Counted], index: i64
) -> i32:
    """Put a field of a tuple into a register. Errors: V0404."""
    if u64(index) >= u64(tuple_at.count):
        return refuse_item(tuple_at, index)
    heddle_copy(context, register, items_of(tuple_at)[index])
    return Status.DONE


@export
def heddle_tuple_reset(context: Pointer[Context], tuple_at: Pointer[Counted], index: i64) -> i32:
    """Take an item out of a tuple, for all its holders."""
    if u64(index) >= u64(tuple_at.count):
        return refuse_item(tuple_at, index)
    put(context, items_of(tuple_at)[index], Kind.NONE, null)
    return Status.DONE
