"""Tensors and storages that lie in the frame of a program's function (`program_uses.Uses`).

A tensor of the frame is an object as others are, with a count of one, but no memory of its own: who drops it
does not free it (flag `IN_FRAME`). Its storage is counted by these tensors and its own register alone, so
that plain arithmetic counts it. What does not fit, or is not what it should be, goes the way of every other
tensor, which says what is wrong.

    alloc_tensor in: %1, i0, %2      storage := %1; its bytes suffice for the sizes of %2, or the slow way
                                     storage.count += 1
                                     frame[3] := {data, sizes}; %3 := frame[3]
    null_value dst: %3               %3 := none; storage.count -= 1, and where nothing is left, it is released
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from heddle.codegen.llvm.program import ProgramEmitter
from heddle.codegen.llvm.program_steps import Step, TensorAsked, kind_of_operand, number_of, sizes_of
from heddle.codegen.llvm.program_uses import FrameTensor, TensorSlot
from heddle.ir.expr import Expr
from heddle.runtime.dtype_word import packed_dtype
from heddle.tir.program_abi import ObjectKind

IN_FRAME = 4
_HEAD_BYTES, _DL_BYTES = 32, 48
_OWNER_OFFSET, _COUNT_OFFSET = -16, -32  # of an object's head, from its payload
_STORAGE_DEVICE_OFFSET, _STORAGE_DATA_OFFSET = 16, 32  # of a storage's payload
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
        at += -(-(_HEAD_BYTES + _DL_BYTES + 8 * tensor.rank) // 16) * 16
    if not places:
        return
    memory = emitter.alloca(f"[{at} x i8], align 16", at)
    for register, start in places:
        step = makers[register]
        shape = step.operands[1 if emitter.uses.tensors[register].is_view else 2]
        payload = emitter.out.value(f"getelementptr i8, ptr {memory}, i64 {start + _HEAD_BYTES}")
        sizes = emitter.out.value(f"getelementptr i8, ptr {payload}, i64 {_DL_BYTES}")
        emitter.tensor_slots[register] = TensorSlot(payload, sizes, _known_sizes(emitter, shape))


def _known_sizes(emitter: ProgramEmitter, shape: Expr) -> tuple[int | None, ...]:
    known = sizes_of(shape)
    return known if known is not None else emitter.shape_slots[number_of(shape)].known


def emit_frame_tensor(
    emitter: ProgramEmitter, step: Step, asked: TensorAsked, slow: Callable[[], None]
) -> None:
    """An alloc_tensor whose result lies in the frame; `slow` emits the general way."""
    out, tensor, slot = emitter.out, emitter.uses.tensors[step.dst], emitter.tensor_slots[step.dst]
    at = emitter.register(asked.storage)
    look, make, other, done = (out.label(hint) for hint in ("look", "make", "other", "made"))
    out.branch(emitter.is_kind(at, ObjectKind.STORAGE), look, other)
    out.start(look)
    storage = emitter.payload(at)
    sizes = _sizes_now(emitter, asked.shape)
    count, small = _product(emitter, [*sizes, tensor.dtype.itemsize])
    end = out.value(f"add i64 {count}, {asked.offset}")
    inside = out.value(f"icmp ule i64 {end}, {emitter.tensor_field(storage, 0, 'i64')}")
    out.branch(out.value(f"and i1 {small}, {inside}"), make, other)
    out.start(other)
    slow()
    out.terminate(f"br label %{done}")
    out.start(make)
    data = out.value(f"getelementptr i8, ptr {storage}, i64 {_STORAGE_DATA_OFFSET + asked.offset}")
    device = emitter.tensor_field(storage, _STORAGE_DEVICE_OFFSET, "i64")
    _fill(emitter, step, tensor, slot, storage, data, device, sizes)
    out.start(done)


def emit_frame_view(emitter: ProgramEmitter, step: Step, slow: Callable[[], None]) -> None:
    """A reshape whose result lies in the frame, as its source does."""
    out, tensor, slot = emitter.out, emitter.uses.tensors[step.dst], emitter.tensor_slots[step.dst]
    source = emitter.tensor_slots[tensor.source]
    at = emitter.register(tensor.source)
    look, make, other, done = (out.label(hint) for hint in ("look", "make", "other", "made"))
    out.branch(_is_own(emitter, at, source), look, other)
    out.start(look)
    old: list[Size] = []
    for axis, size in enumerate(source.known):
        old.append(_word(emitter, source.sizes, axis) if size is None else size)
    sizes = _sizes_now(emitter, step.operands[1])
    (have, old_small), (want, small) = _product(emitter, old), _product(emitter, sizes)
    both_small = out.value(f"and i1 {old_small}, {small}")
    inside = out.value(f"icmp ule i64 {want}, {have}")
    out.branch(out.value(f"and i1 {both_small}, {inside}"), make, other)
    out.start(other)
    slow()
    out.terminate(f"br label %{done}")
    out.start(make)
    storage = emitter.tensor_field(source.payload, _OWNER_OFFSET, "ptr")
    data = emitter.tensor_field(source.payload, 0, "ptr")
    device = emitter.tensor_field(source.payload, 8, "i64")
    _fill(emitter, step, tensor, slot, storage, data, device, sizes)
    out.start(done)


def _is_own(emitter: ProgramEmitter, at: str, slot: TensorSlot) -> str:
    """Whether a register holds the tensor of its slot."""
    out = emitter.out
    same = out.value(f"icmp eq ptr {emitter.payload(at)}, {slot.payload}")
    return out.value(f"and i1 {same}, {emitter.is_kind(at, ObjectKind.TENSOR)}")


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


def _fill(
    emitter: ProgramEmitter,
    step: Step,
    tensor: FrameTensor,
    slot: TensorSlot,
    storage: str,
    data: str,
    device: str,
    sizes: Sequence[Size],
) -> None:
    """Write the tensor; its storage has one holder more."""
    out, at = emitter.out, emitter.register(step.dst)
    counter = out.value(f"getelementptr i8, ptr {storage}, i64 {_COUNT_OFFSET}")
    holders = out.value(f"load i64, ptr {counter}")
    out.effect(f"store i64 {out.value(f'add i64 {holders}, 1')}, ptr {counter}")
    if emitter.uses.goes_back:
        drop_frame_tensor(emitter, step.dst)
    shape = slot.sizes
    if None not in slot.known:
        shape = emitter.constant_sizes([size for size in slot.known if size is not None])
    else:
        for axis, size in enumerate(sizes):
            place = out.value(f"getelementptr i64, ptr {slot.sizes}, i64 {axis}")
            out.effect(f"store i64 {size}, ptr {place}")
    fields = {
        _COUNT_OFFSET: "i64 1",
        -24: f"i64 {IN_FRAME << 32 | ObjectKind.TENSOR.value}",  # flags, kind
        _OWNER_OFFSET: f"ptr {storage}",
        0: f"ptr {data}",
        8: f"i64 {device}",
        16: f"i64 {packed_dtype(tensor.dtype) << 32 | tensor.rank}",
        24: f"ptr {shape}",
        32: "ptr null",
        40: "i64 0",
    }
    for offset, value in fields.items():
        place = out.value(f"getelementptr i8, ptr {slot.payload}, i64 {offset}")
        out.effect(f"store {value}, ptr {place}")
    emitter.set_value(at, str(ObjectKind.TENSOR.value), f"ptr {slot.payload}")


def drop_frame_tensor(emitter: ProgramEmitter, register: int) -> None:
    """Clear a register of a tensor in the frame."""
    out, at, slot = emitter.out, emitter.register(register), emitter.tensor_slots[register]
    own, other, done = (out.label(hint) for hint in ("own", "other", "dropped"))
    out.branch(_is_own(emitter, at, slot), own, other)
    out.start(other)
    emitter.drop(at)
    out.terminate(f"br label %{done}")
    out.start(own)
    out.effect(f"store i32 0, ptr {at}")
    _let_go(emitter, emitter.tensor_field(slot.payload, _OWNER_OFFSET, "ptr"))
    out.start(done)


def drop_frame_storage(emitter: ProgramEmitter, register: int) -> None:
    """Clear a register of a storage that is the frame's alone."""
    out, at = emitter.out, emitter.register(register)
    held, done = out.label("held"), out.label("dropped")
    out.branch(emitter.is_kind(at, ObjectKind.STORAGE), held, done)
    out.start(held)
    out.effect(f"store i32 0, ptr {at}")
    _let_go(emitter, emitter.payload(at))
    out.start(done)


def _let_go(emitter: ProgramEmitter, storage: str) -> None:
    """One holder less; the last one gives the storage back."""
    out = emitter.out
    last, fewer, done = (out.label(hint) for hint in ("last", "fewer", "let_go"))
    counter = out.value(f"getelementptr i8, ptr {storage}, i64 {_COUNT_OFFSET}")
    count = out.value(f"load i64, ptr {counter}")
    out.branch(out.value(f"icmp eq i64 {count}, 1"), last, fewer)
    out.start(last)
    emitter.call("heddle_release", "%context", str(ObjectKind.STORAGE.value), storage)
    out.terminate(f"br label %{done}")
    out.start(fewer)
    out.effect(f"store i64 {out.value(f'sub i64 {count}, 1')}, ptr {counter}")
    out.start(done)


def hand_over(emitter: ProgramEmitter, at: str, storage: str) -> None:
    """A register gives its storage to the tensor that was just made: they are its only holders."""
    counter = emitter.out.value(f"getelementptr i8, ptr {storage}, i64 {_COUNT_OFFSET}")
    emitter.out.effect(f"store i64 1, ptr {counter}")
    emitter.out.effect(f"store i32 0, ptr {at}")
