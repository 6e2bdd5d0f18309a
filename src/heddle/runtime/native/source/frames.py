"""Tensors and storages in the frames of programs (`codegen.llvm.program_tensors`), and calls by words.

A tensor of a frame has a head and a DLTensor in the frame's own memory. Its count is one, and who drops it
frees nothing. It holds its storage; storages of a frame are counted by that frame alone, without locks.
"""

from heddle.runtime.native.abi import (
    BAD_OPERANDS,
    HEAD_BYTES,
    IN_FRAME,
    Context,
    DLTensor,
    Head,
    Kind,
    Operand,
    Storage,
    Value,
)
from heddle.runtime.native.source.memory import pool_give
from heddle.runtime.native.source.thread import heddle_set_error
from heddle.systems.types import Address, Pointer, i32, i64, u8, u64
from heddle.systems.words import Text, cast, cold, copy, export, external, inline, null, offset

expected_storage = Text("vm.builtin.alloc_tensor cannot take its operands: expected a storage, got %v")
expected_tensor = Text("vm.builtin.reshape cannot take its operands: expected a tensor, got %v")


@external
def heddle_release(context: Pointer[Context], kind: i32, payload: Address) -> None: ...


@external
def heddle_kind_of(register: Pointer[Value]) -> i64: ...


@external
def heddle_alloc_tensor(
    context: Pointer[Context],
    register: Pointer[Value],
    storage: Pointer[Storage],
    start: i64,
    rank: i64,
    sizes: Pointer[i64],
    dtype: i32,
) -> i32: ...


@external
def heddle_reshape(
    context: Pointer[Context],
    register: Pointer[Value],
    tensor: Pointer[DLTensor],
    rank: i64,
    sizes: Pointer[i64],
) -> i32: ...


@external
def heddle_call(
    context: Pointer[Context], register: Pointer[Value], function: i64, args: Pointer[Value], count: i64
) -> i32: ...


@inline
def payload_place(register: Pointer[Value]) -> Pointer[Address]:
    return cast(Pointer[Address], offset(cast(Address, register), 8))


@inline
def payload_of(register: Pointer[Value]) -> Address:
    return payload_place(register).value


@inline
def head_of(payload: Address) -> Pointer[Head]:
    return cast(Pointer[Head], offset(payload, -HEAD_BYTES))


@inline
def let_go(storage: Address) -> None:
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
    register: Pointer[Value],
    tensor: Pointer[DLTensor],
    storage: Pointer[Storage],
    data: Address,
    word: i64,
    sizes: Pointer[i64],
) -> None:
    """Write a tensor of the frame into a register that is empty; its storage has one holder more."""
    head_of(cast(Address, storage)).count += 1
    head = head_of(cast(Address, tensor))
    head.count = 1
    head.kind = Kind.TENSOR
    head.flags = IN_FRAME
    head.owner = cast(Address, storage)
    tensor.data = data
    tensor.device_type = storage.device_type
    tensor.device_id = storage.device_id
    tensor.rank = i32(word)
    tensor.dtype = i32(word >> 32)
    tensor.sizes = sizes
    tensor.strides = null
    tensor.byte_offset = 0
    register.kind = Kind.TENSOR
    payload_place(register).value = cast(Address, tensor)


@export
def heddle_drop_tensor(
    context: Pointer[Context], register: Pointer[Value], tensor: Pointer[DLTensor]
) -> None:
    """Clear the register of a tensor of the frame, which may hold an object in its place."""
    if holds(register, tensor):
        register.kind = Kind.NONE
        let_go(head_of(cast(Address, tensor)).owner)
        return
    drop_object(context, register)


@inline
def drop_object(context: Pointer[Context], register: Pointer[Value]) -> None:
    kind = register.kind
    register.kind = Kind.NONE
    if kind >= Kind.TENSOR:
        heddle_release(context, kind, payload_of(register))


@export
def heddle_drop_storage(register: Pointer[Value]) -> None:
    """Clear the register of a storage that is the frame's alone."""
    if register.kind == Kind.STORAGE:
        register.kind = Kind.NONE
        let_go(payload_of(register))


@cold
def wrong_kind(message: Pointer[u8], register: Pointer[Value]) -> None:
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
    not fit becomes an object, or an error. Result: 0, or -1 with the error set.
    """
    if source.kind != Kind.STORAGE:
        wrong_kind(expected_storage, source)
        return -1
    storage = cast(Pointer[Storage], payload_of(source))
    if u64(end) > u64(storage.size_bytes):
        return heddle_alloc_tensor(context, register, storage, start, i64(i32(word)), sizes, i32(word >> 32))
    if register.kind != Kind.NONE:
        heddle_drop_tensor(context, register, tensor)
    put_tensor(register, tensor, storage, offset(cast(Address, offset(storage, 1)), start), word, sizes)
    return 0


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
            return -1
        return heddle_reshape(
            context, register, cast(Pointer[DLTensor], payload_of(source)), i64(i32(word)), sizes
        )
    if register.kind != Kind.NONE:
        heddle_drop_tensor(context, register, tensor)
    storage = cast(Pointer[Storage], head_of(cast(Address, viewed)).owner)
    put_tensor(register, tensor, storage, viewed.data, word, sizes)
    return 0


@export
def heddle_call_by_words(
    context: Pointer[Context],
    registers: Pointer[Value],
    register: Pointer[Value],
    words: Pointer[i64],
    args: Pointer[Value],
) -> i32:
    """Call a function of the program or of the host, with operands that are spelled out.

    `words`: the function's number, the place of the call, the number of operands, then for each its
    `Operand` and its number. `args` is room for the operands.
    """
    context.call_place = words[1]
    count = words[2]
    number: i64 = 0
    while number < count:
        read_operand(context, registers, args[number], words[3 + 2 * number], words[4 + 2 * number])
        number += 1
    return heddle_call(context, register, words[0], args, count)


@inline
def read_operand(
    context: Pointer[Context], registers: Pointer[Value], to: Pointer[Value], operand: i64, number: i64
) -> None:
    if operand == Operand.REGISTER:
        copy(to, registers[number])
    elif operand == Operand.CONSTANT:
        copy(to, context.constants[number])
    else:
        to.kind = i32(operand)
        to.payload = number
