"""Tensors and storages in the frames of programs (`codegen.llvm.program_tensors`).

A tensor of a frame has a head and a DLTensor in the frame's own memory. Its count is one, and who drops it
frees nothing. It holds its storage; storages of a frame are counted by that frame alone, without locks.
"""

from heddle.runtime.native.abi import BAD_OPERANDS, Context, DLTensor, Flag, Kind, Status, Storage, Value
from heddle.runtime.native.source.counting import heddle_release
from heddle.runtime.native.source.looking import heddle_kind_of
from heddle.runtime.native.source.making import heddle_alloc_tensor, heddle_reshape, memory_of
from heddle.runtime.native.source.memory import pool_give
from heddle.runtime.native.source.thread import heddle_set_error
from heddle.runtime.native.source.values import head_of, payload_of, set_value
from heddle.systems.types import Address, Pointer, i32, i64, u8, u64
from heddle.systems.words import Text, cast, cold, export, inline, null, offset

expected_storage = Text("vm.builtin.alloc_tensor cannot take its operands: expected a storage, got %v")
expected_tensor = Text("vm.builtin.reshape cannot take its operands: expected a tensor, got %v")


@inline
def leave_storage(storage: Address) -> None:
    """One holder less; the last one gives the storage back."""
    head = head_of(storage)
    if head.count == 1:
        pool_give(cast(Pointer[Storage], storage))
    else:
        head.count -= 1


@inline
def holds(register: Pointer[Value], tensor: Pointer[DLTensor]) -> bool:
    """Whether a register holds this tensor of its frame."""
    return register.kind == Kind.TENSOR and payload_of(register) == cast(Address, tensor)


@inline
def put_tensor(
    context: Pointer[Context],
    register: Pointer[Value],
    tensor: Pointer[DLTensor],
    storage: Pointer[Storage],
    data: Address,
    word: i64,
    sizes: Pointer[i64],
) -> None:
    """Write a tensor of the frame into a register; its storage has one holder more."""
    if register.kind != Kind.NONE:
        heddle_drop_tensor(context, register, tensor)
    head_of(storage).count += 1
    head = head_of(tensor)
    head.count = 1
    head.kind = Kind.TENSOR
    head.flags = Flag.IN_FRAME
    head.owner = cast(Address, storage)
    tensor.data = data
    tensor.device_type = storage.device_type
    tensor.device_id = storage.device_id
    tensor.rank = i32(word)
    tensor.dtype = i32(word >> 32)
    tensor.sizes = sizes
    tensor.strides = null
    tensor.byte_offset = 0
    set_value(register, Kind.TENSOR, tensor)


@export
def heddle_drop_tensor(
    context: Pointer[Context], register: Pointer[Value], tensor: Pointer[DLTensor]
) -> None:
    """Clear the register of a tensor of the frame, which may hold an object in its place."""
    if holds(register, tensor):
        register.kind = Kind.NONE
        leave_storage(head_of(tensor).owner)
        return
    drop_object(context, register)


@inline
def drop_object(context: Pointer[Context], register: Pointer[Value]) -> None:
    """Empty a register and let go of what it held."""
    kind = register.kind
    register.kind = Kind.NONE
    if kind >= Kind.TENSOR:
        heddle_release(context, kind, payload_of(register))


@export
def heddle_drop_storage(register: Pointer[Value]) -> None:
    """Clear the register of a storage that is the frame's alone."""
    if register.kind == Kind.STORAGE:
        register.kind = Kind.NONE
        leave_storage(payload_of(register))


@cold
def wrong_kind(message: Pointer[u8], register: Pointer[Value]) -> None:
    """Set the error V0408 with the kind that a register holds."""
    heddle_set_error(BAD_OPERANDS, message, 0, heddle_kind_of(register))


@export
def heddle_frame_tensor(
    context: Pointer[Context],
    register: Pointer[Value],
    tensor: Pointer[DLTensor],
    source: Pointer[Value],
    start: i64,
    end: i64,
    word: i64,
    sizes: Pointer[i64],
) -> i32:
    """A tensor of the frame over bytes `start` to `end` of the storage in register `source`.

    `end` is negative where the sizes are so large that their product was not computed, or below 0. What does
    not fit becomes an object, or an error. Result: DONE, or FAILED with the error set.
    """
    if source.kind != Kind.STORAGE:
        wrong_kind(expected_storage, source)
        return Status.FAILED
    storage = cast(Pointer[Storage], payload_of(source))
    if u64(end) > u64(storage.size_bytes):
        return heddle_alloc_tensor(context, register, storage, start, i64(i32(word)), sizes, i32(word >> 32))
    put_tensor(context, register, tensor, storage, offset(memory_of(storage), start), word, sizes)
    return Status.DONE


@export
def heddle_frame_view(
    context: Pointer[Context],
    register: Pointer[Value],
    tensor: Pointer[DLTensor],
    source: Pointer[Value],
    viewed: Pointer[DLTensor],
    old_count: i64,
    count: i64,
    word: i64,
    sizes: Pointer[i64],
) -> i32:
    """A view of the frame: `count` elements of the tensor in register `source`, whose place in the frame is
    `viewed` and which has `old_count`. Counts are negative where they were not computed, or below 0."""
    if not holds(source, viewed) or old_count < 0 or u64(count) > u64(old_count):
        if source.kind != Kind.TENSOR:
            wrong_kind(expected_tensor, source)
            return Status.FAILED
        return heddle_reshape(
            context, register, cast(Pointer[DLTensor], payload_of(source)), i64(i32(word)), sizes
        )
    storage = cast(Pointer[Storage], head_of(viewed).owner)
    put_tensor(context, register, tensor, storage, viewed.data, word, sizes)
    return Status.DONE
