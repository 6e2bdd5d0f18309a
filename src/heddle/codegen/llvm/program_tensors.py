"""Tensors and storages that lie in the frame of a program's function (`program_uses.Uses`).

A tensor of the frame is an object as others are, with a count of one, but no memory of its own: who drops it
does not free it. Its storage is counted by these tensors and its own register alone, so that plain
arithmetic counts it. What does not fit becomes an object or an error. The library does it all
(`runtime.native.source.frames`): a program has hundreds of these steps, and each is one call.

    alloc_tensor in: %1, i0, %2      storage := %1; its bytes suffice for the sizes of %2, or an error
                                     storage.count += 1
                                     frame[3] := {data, sizes}; %3 := frame[3]
    null_value dst: %3               %3 := none; storage.count -= 1, and where nothing is left, it is released
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from heddle.codegen.llvm.program import ProgramEmitter
from heddle.codegen.llvm.program_uses import FrameTensor, TensorSlot
from heddle.codegen.program_steps import Step, TensorAsked, kind_of_operand, number_of, sizes_of
from heddle.ir.expr import Expr
from heddle.runtime.dtype import packed_dtype
from heddle.runtime.native.abi import HEAD_BYTES, DLTensor, Head

_DL_BYTES = DLTensor.layout.size_bytes
_COUNT_OFFSET = Head.layout.fields["count"].offset_bytes - HEAD_BYTES  # from an object's payload
_MAX_BITS = 62
_MAKERS = ("vm.builtin.alloc_tensor", "vm.builtin.reshape")

Size = int | str
"""A size that is known, or the name of its value."""


def reserve_tensors(emitter: ProgramEmitter, steps: Sequence[Step]) -> None:
    """Memory of the frame for all of its tensors."""
    makers = {step.dst: step for step in steps if step.name in _MAKERS}
    at = 0
    places: list[tuple[int, int]] = []
    for register, tensor in emitter.uses.tensors.items():
        places.append((register, at))
        at += -(-(HEAD_BYTES + _DL_BYTES + 8 * tensor.rank) // 16) * 16
    if not places:
        return
    memory = emitter.alloca(f"[{at} x i8], align 16", at)
    for register, start in places:
        step = makers[register]
        shape = step.operands[1 if emitter.uses.tensors[register].is_view else 2]
        payload = emitter.out.value(f"getelementptr i8, ptr {memory}, i64 {start + HEAD_BYTES}")
        sizes = emitter.out.value(f"getelementptr i8, ptr {payload}, i64 {_DL_BYTES}")
        emitter.tensor_slots[register] = TensorSlot(payload, sizes, _known_sizes(emitter, shape))


def _known_sizes(emitter: ProgramEmitter, shape: Expr) -> tuple[int | None, ...]:
    known = sizes_of(shape)
    return known if known is not None else emitter.shape_slots[number_of(shape)].known


def emit_frame_tensor(emitter: ProgramEmitter, step: Step, asked: TensorAsked) -> None:
    """An alloc_tensor whose result lies in the frame."""
    out, tensor, slot = emitter.out, emitter.uses.tensors[step.dst], emitter.tensor_slots[step.dst]
    sizes = _sizes_now(emitter, asked.shape)
    count, small = _product(emitter, [*sizes, tensor.dtype.itemsize])
    if asked.offset:
        count = out.value(f"add i64 {count}, {asked.offset}")
    end = _where(emitter, small, count)
    status = emitter.call(
        "heddle_frame_tensor",
        "%context",
        emitter.register(step.dst),
        slot.payload,
        emitter.register(asked.storage),
        str(asked.offset),
        end,
        _word_of(tensor),
        _written_sizes(emitter, slot, sizes),
    )
    emitter.check(status)


def emit_frame_view(emitter: ProgramEmitter, step: Step) -> None:
    """A reshape whose result lies in the frame, as its source does."""
    tensor, slot = emitter.uses.tensors[step.dst], emitter.tensor_slots[step.dst]
    source = emitter.tensor_slots[tensor.source]
    old: list[Size] = []
    for axis, size in enumerate(source.known):
        old.append(_word(emitter, source.sizes, axis) if size is None else size)
    sizes = _sizes_now(emitter, step.operands[1])
    (have, have_small), (want, want_small) = _product(emitter, old), _product(emitter, sizes)
    status = emitter.call(
        "heddle_frame_view",
        "%context",
        emitter.register(step.dst),
        slot.payload,
        emitter.register(tensor.source),
        source.payload,
        _where(emitter, have_small, have),
        _where(emitter, want_small, want),
        _word_of(tensor),
        _written_sizes(emitter, slot, sizes),
    )
    emitter.check(status)


def _word_of(tensor: FrameTensor) -> str:
    return str(packed_dtype(tensor.dtype) << 32 | tensor.rank)


def _where(emitter: ProgramEmitter, right: str, count: str) -> str:
    """A count, or -1 where it is not right."""
    if right in ("true", "false"):
        return count if right == "true" else "-1"
    return emitter.out.value(f"select i1 {right}, i64 {count}, i64 -1")


def _written_sizes(emitter: ProgramEmitter, slot: TensorSlot, sizes: Sequence[Size]) -> str:
    """The address of a tensor's sizes, which are in the frame where a run may change them."""
    if None not in slot.known:
        return emitter.constant_sizes([size for size in slot.known if size is not None])
    for axis, size in enumerate(sizes):
        place = emitter.out.value(f"getelementptr i64, ptr {slot.sizes}, i64 {axis}")
        emitter.out.effect(f"store i64 {size}, ptr {place}")
    return slot.sizes


def _sizes_now(emitter: ProgramEmitter, shape: Expr) -> list[Size]:
    known = sizes_of(shape)
    if known is not None:
        return list(known)
    assert kind_of_operand(shape) == "register"
    slot = emitter.shape_slots[number_of(shape)]
    return [
        _word(emitter, slot.memory, axis) if size is None else size for axis, size in enumerate(slot.known)
    ]


def _word(emitter: ProgramEmitter, memory: str, axis: int) -> str:
    return emitter.tensor_field(memory, 8 * axis, "i64")


def _product(emitter: ProgramEmitter, sizes: Sequence[Size]) -> tuple[str, str]:
    """The product of sizes, and whether it is right: no size is negative, and all are so small that nothing
    overflows."""
    out = emitter.out
    known = prod(size for size in sizes if isinstance(size, int))
    free = [size for size in sizes if isinstance(size, str)]
    bits = _MAX_BITS - known.bit_length()
    if bits < len(free):
        return "0", "false"
    if not free:
        return str(known), "true"
    together, result = free[0], free[0]
    for size in free[1:]:
        together = out.value(f"or i64 {together}, {size}")
        result = out.value(f"mul i64 {result}, {size}")
    small = out.value(f"icmp ult i64 {together}, {1 << bits // len(free)}")
    return out.value(f"mul i64 {result}, {known}"), small


def drop_frame_tensor(emitter: ProgramEmitter, register: int) -> None:
    """Clear a register of a tensor in the frame."""
    payload = emitter.tensor_slots[register].payload
    emitter.call("heddle_drop_tensor", "%context", emitter.register(register), payload)


def drop_frame_storage(emitter: ProgramEmitter, register: int) -> None:
    """Clear a register of a storage that is the frame's alone."""
    emitter.call("heddle_drop_storage", emitter.register(register))


def hand_over(emitter: ProgramEmitter, at: str, storage: str) -> None:
    """A register gives its storage to the tensor that was just made: they are its only holders."""
    counter = emitter.out.value(f"getelementptr i8, ptr {storage}, i64 {_COUNT_OFFSET}")
    emitter.out.effect(f"store i64 1, ptr {counter}")
    emitter.out.effect(f"store i32 0, ptr {at}")
