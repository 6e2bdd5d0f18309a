"""Chains of rows: what a loop that adds a row in each round leaves behind, as one tensor."""

from heddle.runtime.native.abi import (
    DIFFERS,
    WRONG_KIND,
    Context,
    Counted,
    DLTensor,
    Kind,
    Status,
    Storage,
    Value,
)
from heddle.runtime.native.source.counting import put
from heddle.runtime.native.source.making import heddle_alloc_storage, heddle_alloc_tensor, product
from heddle.runtime.native.source.thread import heddle_set_error
from heddle.runtime.native.source.values import clear, element_bytes, items_of, payload_of
from heddle.systems.types import Address, Pointer, i32, i64
from heddle.systems.words import Text, cast, copy, export, inline, local, native, null, offset

no_chain = Text("expected a chain of rows, (((tensor, tensor), tensor), ...), got %v")
ragged_chain = Text("rows of a chain differ: expected a dense one of %e bytes, got one of %g bytes")


@native
def is_compact(tensor: Pointer[DLTensor]) -> bool:
    """Whether a tensor's strides, where it has some, are those of a tensor without gaps."""
    strides = tensor.strides
    if strides == null:
        return True
    step: i64 = 1
    axis = tensor.rank
    while axis > 0:
        axis -= 1
        size = tensor.sizes[axis]
        if strides[axis] != step and size != 1:
            return False
        step *= size
    return True


@native
def tensor_bytes(tensor: Pointer[DLTensor]) -> i64:
    """The bytes of a tensor's elements."""
    return product(i64(tensor.rank), tensor.sizes) * element_bytes(tensor.dtype)


@inline
def tensor_in(register: Pointer[Value]) -> Pointer[DLTensor]:
    """The tensor that a value is; it must be one."""
    return cast(Pointer[DLTensor], payload_of(register))


@inline
def elements_of(tensor: Pointer[DLTensor]) -> Address:
    """Where a tensor's first element lies."""
    return offset(cast(Address, tensor.data), i64(tensor.byte_offset))


@inline
def older(pair: Pointer[Value]) -> Pointer[Value]:
    """All of a chain but its last row."""
    return items_of(cast(Pointer[Counted], payload_of(pair)))[0]


@inline
def last_row(pair: Pointer[Value]) -> Pointer[Value]:
    """The last row of a chain: the second value of its pair."""
    return items_of(cast(Pointer[Counted], payload_of(pair)))[1]


@inline
def is_pair(value: Pointer[Value]) -> bool:
    """Whether a value is a tuple of a chain and a row."""
    if value.kind != Kind.TUPLE or cast(Pointer[Counted], payload_of(value)).count != 2:
        return False
    return last_row(value).kind == Kind.TENSOR


@inline
def chain_start(chain: Pointer[Value]) -> tuple[Pointer[Value], i64]:
    """Where a chain begins, and how many rows follow."""
    rows: i64 = 0
    while is_pair(chain):
        chain = older(chain)
        rows += 1
    return chain, rows


@inline
def is_start(value: Pointer[Value]) -> bool:
    """Whether a value is what a chain starts from: a compact tensor of rank 1 or more."""
    if value.kind != Kind.TENSOR:
        return False
    return tensor_in(value).rank > 0 and is_compact(tensor_in(value))


@inline
def make_room(
    context: Pointer[Context], temporary: Pointer[Value], rank: i64, sizes: Pointer[i64], dtype: i32
) -> bool:
    """Put a new tensor into a register that is empty; False after heddle_set_error."""
    status = heddle_alloc_storage(context, temporary, rank, sizes, element_bytes(dtype), 0)
    if status != Status.DONE:
        return False
    storage = cast(Pointer[Storage], payload_of(temporary))
    status = heddle_alloc_tensor(context, temporary, storage, 0, rank, sizes, dtype)
    if status != Status.DONE:
        put(context, temporary, Kind.NONE, null)
        return False
    return True


@inline
def copy_rows(chain: Pointer[Value], rows: i64, to: Address, row_bytes: i64, dtype: i32) -> bool:
    """Copy the last row first; False after heddle_set_error."""
    while rows > 0:
        row = tensor_in(last_row(chain))
        if tensor_bytes(row) != row_bytes or row.dtype != dtype or not is_compact(row):
            heddle_set_error(DIFFERS, ragged_chain, row_bytes, tensor_bytes(row))
            return False
        rows -= 1
        copy(offset(to, rows * row_bytes), elements_of(row), row_bytes)
        chain = older(chain)
    return True


@export
def heddle_stack_chain(context: Pointer[Context], register: Pointer[Value], chain: Pointer[Value]) -> i32:
    """The rows of a chain (((first, row), row), row) below those of the tensor `first`, as one new tensor."""
    start, rows = chain_start(chain)
    if not is_start(start):
        heddle_set_error(WRONG_KIND, no_chain, 0, i64(start.kind))
        return Status.FAILED
    first = tensor_in(start)
    rank = i64(first.rank)
    dtype = first.dtype
    first_rows = first.sizes[0]
    row_bytes = product(rank - 1, offset(first.sizes, 1)) * element_bytes(dtype)
    sizes = local(i64, rank)
    copy(sizes, first.sizes, rank)
    sizes.value = first_rows + rows
    temporary = local(Value)
    clear(temporary)
    if not make_room(context, temporary, rank, sizes, dtype):
        return Status.FAILED
    made = tensor_in(temporary)
    to = elements_of(made)
    copy(to, elements_of(first), first_rows * row_bytes)
    if not copy_rows(chain, rows, offset(to, first_rows * row_bytes), row_bytes, dtype):
        put(context, temporary, Kind.NONE, null)
        return Status.FAILED
    put(context, register, Kind.TENSOR, cast(Address, made))
    return Status.DONE
