"""Sequences of tensors: tuples with an element more or less, and tensors joined and split.

A function gives `Status.DONE`, `Status.FAILED` after heddle_set_error, or `Status.ASK_HOST` for operands that
it leaves to the host's builtin, which does the same and says what is wrong with them.
"""

from heddle.runtime.dtype import DTYPE_CODES
from heddle.runtime.native.abi import (
    HOST_DEVICE,
    Context,
    Counted,
    DLTensor,
    Kind,
    Status,
    Value,
)
from heddle.runtime.native.source.chains import elements_of, is_compact, tensor_in
from heddle.runtime.native.source.counting import copy_values, heddle_release, put, release_storage
from heddle.runtime.native.source.making import (
    bytes_of,
    device_number,
    new_object,
    pool_in,
    product,
    tensor_on,
)
from heddle.runtime.native.source.memory import pool_take
from heddle.runtime.native.source.rows import NO_AXIS, Rows, copy_parts
from heddle.runtime.native.source.system import simplified
from heddle.runtime.native.source.values import (
    clear,
    element_bytes,
    items_of,
    payload_of,
)
from heddle.systems.types import Pointer, i32, i64, u64
from heddle.systems.words import cast, export, inline, local, native, null, offset, size_of

MOST_AXES = 16
NOWHERE = -1
CPU_DEVICE = 1
INT64_WORD = DTYPE_CODES["int"] | 64 << 8 | 1 << 16


# ---- looking at operands


@inline
def sequence_in(value: Pointer[Value]) -> Pointer[Counted]:
    """Null for what is no sequence."""
    return cast(Pointer[Counted], payload_of(value)) if value.kind == Kind.TUPLE else null


@native
def plain_tensor(value: Pointer[Value]) -> Pointer[DLTensor]:
    """A tensor of this machine whose elements lie one after the other; null for anything else."""
    if value.kind != Kind.TENSOR:
        return null
    tensor = tensor_in(value)
    if (tensor.device_type != CPU_DEVICE) | (tensor.rank > MOST_AXES):
        return null
    return tensor if is_compact(tensor) else null


@native
def place_in(value: Pointer[Value], count: i64) -> i64:
    """A position, counted from the end where it is negative; NOWHERE where it is no int64 of rank 0 or out of
    range."""
    tensor = plain_tensor(value)
    if tensor == null:
        return NOWHERE
    if (tensor.dtype != INT64_WORD) | (tensor.rank != 0):
        return NOWHERE
    given = cast(Pointer[i64], elements_of(tensor)).value
    place = given + count if given < 0 else given
    return place if (place >= 0) & (place < count) else NOWHERE


# ---- an element more or less


@inline
def new_sequence(count: i64) -> Pointer[Counted]:
    """A sequence whose elements are still to be written; null after heddle_set_error."""
    size_bytes = i64(size_of(Counted)) + i64(size_of(Value)) * count
    made = cast(Pointer[Counted], new_object(Kind.TUPLE, size_bytes, null, 0))
    if made != null:
        made.count = count
    return made


@simplified
@export
def heddle_sequence_insert(
    context: Pointer[Context],
    register: Pointer[Value],
    sequence: Pointer[Value],
    item: Pointer[Value],
    place: Pointer[Value],
) -> i32:
    """The item goes before the element at a place, or behind all where there is no place."""
    given = sequence_in(sequence)
    if given == null:
        return Status.ASK_HOST
    count = given.count
    at = count
    if place != null:
        at = place_of_new(place, count)
        if at == NOWHERE:
            return Status.ASK_HOST
    made = new_sequence(count + 1)
    if made == null:
        return Status.FAILED
    old = items_of(given)
    new = items_of(made)
    copy_values(new, old, at)
    copy_values(offset(new, at), item, 1)
    copy_values(offset(new, at + 1), offset(old, at), count - at)
    put(context, register, Kind.TUPLE, made)
    return Status.DONE


@native
def place_of_new(value: Pointer[Value], count: i64) -> i64:
    """As `place_in`; a new element may stand behind all."""
    tensor = plain_tensor(value)
    if tensor == null:
        return NOWHERE
    if (tensor.dtype != INT64_WORD) | (tensor.rank != 0):
        return NOWHERE
    is_end = cast(Pointer[i64], elements_of(tensor)).value == count
    return count if is_end else place_in(value, count)


@simplified
@export
def heddle_sequence_erase(
    context: Pointer[Context], register: Pointer[Value], sequence: Pointer[Value], place: Pointer[Value]
) -> i32:
    """A sequence without the element at a place."""
    given = sequence_in(sequence)
    if given == null:
        return Status.ASK_HOST
    count = given.count
    at = place_in(place, count)
    if at == NOWHERE:
        return Status.ASK_HOST
    made = new_sequence(count - 1)
    if made == null:
        return Status.FAILED
    old = items_of(given)
    new = items_of(made)
    copy_values(new, old, at)
    copy_values(offset(new, at), offset(old, at + 1), count - at - 1)
    put(context, register, Kind.TUPLE, made)
    return Status.DONE


# ---- tensors joined and split


@native
def new_host_tensor(
    context: Pointer[Context], rank: i64, sizes: Pointer[i64], dtype: i32
) -> Pointer[DLTensor]:
    """A tensor with memory of its own; null after heddle_set_error."""
    size_bytes = bytes_of(product(rank, sizes), element_bytes(dtype))
    pool = pool_in(context.pools, device_number(context.pools, HOST_DEVICE))
    storage = pool_take(pool, size_bytes)
    if storage == null:
        return null
    made = tensor_on(storage, 0, rank, sizes, dtype)
    if made == null:
        release_storage(storage)
    return made


@native
def joined_sizes(items: Pointer[Value], count: i64, axis: i64, is_new: i64, sizes: Pointer[i64]) -> bool:
    """The sizes of elements joined along an axis, or a new one; False where they are not plain tensors that
    fit."""
    first = plain_tensor(items)
    if first == null:
        return False
    rank = i64(first.rank)
    if rank + is_new > MOST_AXES:
        return False
    number: i64 = 0
    total: i64 = 0
    while number < count:
        item = plain_tensor(items[number])
        if item == null:
            return False
        if (item.dtype != first.dtype) | (item.rank != first.rank):
            return False
        dim: i64 = 0
        while dim < rank:
            if (item.sizes[dim] != first.sizes[dim]) & ((dim != axis) | (is_new != 0)):
                return False
            dim += 1
        if is_new == 0:
            total += item.sizes[axis]
        number += 1
    dim = 0
    while dim < rank + is_new:
        if dim == axis:
            sizes[dim] = count if is_new != 0 else total
        else:
            sizes[dim] = first.sizes[dim - 1 if (is_new != 0) & (dim > axis) else dim]
        dim += 1
    return True


@export
def heddle_sequence_concat(
    context: Pointer[Context], register: Pointer[Value], sequence: Pointer[Value], axis: i64, is_new: i64
) -> i32:
    """The elements after each other along an axis that they have, or along a new one."""
    sizes = local(i64, MOST_AXES)
    given = sequence_in(sequence)
    if given == null:
        return Status.ASK_HOST
    items = items_of(given)
    count = given.count
    if count == 0:
        return Status.ASK_HOST
    first = plain_tensor(items)
    if first == null:
        return Status.ASK_HOST
    rank = i64(first.rank) + is_new
    place = axis + rank if axis < 0 else axis
    if (place < 0) | (place >= rank):
        return Status.ASK_HOST
    if not joined_sizes(items, count, place, is_new, sizes):
        return Status.ASK_HOST
    made = new_host_tensor(context, rank, sizes, first.dtype)
    if made == null:
        return Status.FAILED
    outer = product(place, sizes)
    inner = product(rank - place - 1, offset(sizes, place + 1)) * element_bytes(first.dtype)
    rows = local(Rows)
    rows.whole = elements_of(made)
    rows.parts = items
    rows.count = count
    rows.axis = NO_AXIS if is_new != 0 else place
    rows.index_bytes = inner
    rows.row_bytes = inner * sizes[place]
    rows.size_bytes = rows.row_bytes * outer
    rows.is_split = 0
    copy_parts(rows)
    put(context, register, Kind.TENSOR, made)
    return Status.DONE


@native
def parts_of(total: i64, wanted: Pointer[DLTensor], keeps_axis: i64) -> i64:
    """How many parts a split makes; NOWHERE where their sizes do not fit."""
    given = cast(Pointer[i64], elements_of(wanted))
    if wanted.rank == 0:
        size = given.value
        if (size < 1) | ((keeps_axis == 0) & (size != 1)):
            return NOWHERE
        return i64((u64(total) + u64(size) - 1) // u64(size))
    count = wanted.sizes.value
    left = total
    number: i64 = 0
    while number < count:
        size = given[number]
        if (size < 0) | (size > left) | ((keeps_axis == 0) & (size != 1)):
            return NOWHERE
        left -= size
        number += 1
    return count if left == 0 else NOWHERE


@export
def heddle_sequence_split(
    context: Pointer[Context],
    register: Pointer[Value],
    value: Pointer[Value],
    wanted: Pointer[Value],
    axis: i64,
    keeps_axis: i64,
) -> i32:
    """The parts of a tensor along an axis: of the sizes of a vector, or of one size, the last one less."""
    sizes = local(i64, MOST_AXES)
    tensor = plain_tensor(value)
    parts = plain_tensor(wanted)
    if (tensor == null) | (parts == null):
        return Status.ASK_HOST
    if (parts.dtype != INT64_WORD) | (parts.rank > 1) | (axis < 0) | (axis >= i64(tensor.rank)):
        return Status.ASK_HOST
    total = tensor.sizes[axis]
    count = parts_of(total, parts, keeps_axis)
    if count == NOWHERE:
        return Status.ASK_HOST
    made = new_sequence(count)
    if made == null:
        return Status.FAILED
    number: i64 = 0
    while number < count:
        clear(items_of(made)[number])
        number += 1
    rank = i64(tensor.rank)
    dim: i64 = 0
    to: i64 = 0
    while dim < rank:
        sizes[to] = tensor.sizes[dim]
        to += 1 if (keeps_axis != 0) | (dim != axis) else 0
        dim += 1
    status = fill_parts(context, made, tensor, parts, axis, keeps_axis, sizes)
    if status == Status.DONE:
        put(context, register, Kind.TUPLE, made)
    else:
        heddle_release(context, Kind.TUPLE, made)
    return status


@native
def fill_parts(
    context: Pointer[Context],
    made: Pointer[Counted],
    tensor: Pointer[DLTensor],
    parts: Pointer[DLTensor],
    axis: i64,
    keeps_axis: i64,
    sizes: Pointer[i64],
) -> i32:
    """The elements of a split; `sizes` are a part's, that of the axis aside."""
    rank = i64(tensor.rank)
    outer = product(axis, tensor.sizes)
    inner = product(rank - axis - 1, offset(tensor.sizes, axis + 1)) * element_bytes(tensor.dtype)
    left = tensor.sizes[axis]
    given = cast(Pointer[i64], elements_of(parts))
    number: i64 = 0
    while number < made.count:
        size = min(given.value, left) if parts.rank == 0 else given[number]
        if keeps_axis != 0:
            sizes[axis] = size
        part = new_host_tensor(context, rank if keeps_axis != 0 else rank - 1, sizes, tensor.dtype)
        if part == null:
            return Status.FAILED
        put(context, items_of(made)[number], Kind.TENSOR, part)
        left -= size
        number += 1
    rows = local(Rows)
    rows.whole = elements_of(tensor)
    rows.parts = items_of(made)
    rows.count = made.count
    rows.axis = axis if keeps_axis != 0 else NO_AXIS
    rows.index_bytes = inner
    rows.row_bytes = inner * tensor.sizes[axis]
    rows.size_bytes = rows.row_bytes * outer
    rows.is_split = 1
    copy_parts(rows)
    return Status.DONE
