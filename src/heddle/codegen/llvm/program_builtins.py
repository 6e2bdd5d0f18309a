"""The machine's builtins written out in machine code: an emitter each.

An emitter that meets operands it does not know (a shape heap that escaped, a scope, a dtype that is no
constant) leaves the call to the host's builtin, which does the same. Messages are those of
`heddle.vm.builtins`; `%v` stands for the type of a value.

Over 450 lines: a table with an emitter for each builtin, in the order of `heddle.vm.builtins`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from heddle.codegen.llvm.program import ProgramEmitter
from heddle.codegen.llvm.program_conversions import (
    emit_has_value,
    emit_sequence_at,
    emit_sequence_concat,
    emit_sequence_erase,
    emit_sequence_insert,
    emit_sequence_length,
    emit_sequence_split,
    emit_shape_to_tensor,
    emit_tensor_to_shape,
    emit_value_of_optional,
)
from heddle.codegen.llvm.program_data import (
    emit_fatal,
    emit_get_field,
    emit_has_tag,
    emit_make_data,
    emit_make_ref,
    emit_read_ref,
    emit_write_ref,
)
from heddle.codegen.llvm.program_tensors import (
    drop_frame_storage,
    drop_frame_tensor,
    emit_frame_tensor,
    emit_frame_view,
    hand_over,
    reserve_tensors,
)
from heddle.codegen.llvm.program_uses import ShapeSlot
from heddle.codegen.llvm.types import INT64
from heddle.codegen.llvm.writer import ModuleWriter
from heddle.codegen.program_steps import (
    MAKE_CODES,
    MATCH_CODES,
    FrameReads,
    Step,
    TensorAsked,
    checked_tensor,
    dtype_of,
    kernel_of,
    kind_of_operand,
    made_sizes,
    matched_sizes,
    number_of,
    sizes_of,
    storage_asked,
    tensor_asked,
    text_of,
    words_of,
)
from heddle.ir.expr import Expr
from heddle.runtime.device import CPU
from heddle.runtime.dtype import DataType, packed_dtype
from heddle.runtime.native.abi import (
    DIFFERS,
    HEAD_BYTES,
    IMMORTAL,
    WRONG_KIND,
    DLTensor,
    Family,
    Head,
    Kind,
    MachineCode,
    MakeCode,
    MatchCode,
    machine_error,
)
from heddle.runtime.native.ir_types import field_offset, ir_struct
from heddle.runtime.native.library import kernel_symbol
from heddle.support.frozen import frozen
from heddle.tir.kernel_abi import TENSOR_FIELDS
from heddle.tir.nodes import PrimFunc
from heddle.tir.program_abi import VOID

Emit = Callable[[ProgramEmitter, Step], None]
_PREFIX = "vm.builtin."
_MATCH_CAST = machine_error(MachineCode.MATCH_CAST)
_BAD_SLOT = machine_error(MachineCode.MALFORMED, Family.INDEX)
_MAX_FRAME_SLOTS = 4096
_HEAP = f"{{ {ir_struct(Head)}, {ir_struct(DLTensor)}, i64 }}"
"""A shape heap as an object: its only size follows."""
_DL_BYTES = DLTensor.layout.size_bytes
_HEAP_BYTES = HEAD_BYTES + _DL_BYTES + 16
_FLAGS_OFFSET = field_offset(Head, "flags") - HEAD_BYTES  # from an object's payload

_TABLE: dict[str, Emit] = {}
FRAME_READS: dict[str, FrameReads] = {}
"""Of each builtin in the table, which operands it takes from the frame."""


def _writes(name: str, reads: FrameReads | None = None) -> Callable[[Emit], Emit]:
    """Declare the emitter below as the code of `vm.builtin.<name>`, with what it takes from the frame."""

    def declare(emit: Emit) -> Emit:
        assert _PREFIX + name not in _TABLE, f"builtin {name} is declared twice"
        _TABLE[_PREFIX + name], FRAME_READS[_PREFIX + name] = emit, reads or FrameReads()
        return emit

    return declare


def emit_program_function(module: ModuleWriter, func: PrimFunc) -> None:
    """Add a function whose calling convention is PROGRAM_CONV to a module."""
    module.add_function(
        kernel_symbol(str(func.attrs["global_symbol"])),
        ProgramEmitter(module, func, emit_call, reserve_slots, FRAME_READS).run(),
    )


def emit_call(emitter: ProgramEmitter, step: Step) -> None:
    """The code of a call: a builtin's, a kernel's, another function's, or the host's."""
    found = _TABLE.get(step.name)
    if found is not None:
        found(emitter, step)
    elif step.name in emitter.kernels:
        _kernel(emitter, step)
    else:
        emitter.host_call(step)


# ---- sizes


def _sizes(emitter: ProgramEmitter, operand: Expr) -> tuple[str, str] | None:
    """Count and address of a shape operand's sizes; None for what is neither constant nor in a register."""
    known = sizes_of(operand)
    if known is not None:
        return str(len(known)), emitter.constant_sizes(known)
    if kind_of_operand(operand) != "register":
        return None
    slot = emitter.shape_slots.get(number_of(operand))
    if slot is not None:
        return str(len(slot.known)), slot.memory
    value = emitter.value(operand)
    _require_kinds(emitter, value, (Kind.SHAPE,), "expected a shape")
    count = emitter.call("heddle_sizes", value, emitter.sizes_out)
    return count, emitter.out.value(f"load ptr, ptr {emitter.sizes_out}")


@frozen
class _Heap:
    """A shape heap: the address of its first element, and how many it has."""

    address: str
    size: str

    def slot(self, emitter: ProgramEmitter, index: int) -> str:
        """The address of an element. The code fails where there is none."""
        if index < 0 or not self.size.isdecimal() or index >= int(self.size):
            inside = emitter.out.value(f"icmp ult i64 {index}, {self.size}")
            message = f"shape heap has no slot {index}: it has %e slots"
            emitter.require(inside, _BAD_SLOT, message, self.size)
        return _word_at(emitter, self.address, index)


def _heap(emitter: ProgramEmitter, operand: Expr) -> _Heap:
    """What is in the frame, else an object that is a heap."""
    slot = emitter.heap_slots.get(number_of(operand)) if kind_of_operand(operand) == "register" else None
    if slot is not None:
        return _Heap(slot[0], str(slot[2]))
    value = emitter.value(operand)
    message = "expected a shape heap, got %v"
    is_tensor = emitter.is_kind(value, Kind.TENSOR)
    emitter.require(is_tensor, WRONG_KIND, message, got=f"kind of {value}")
    tensor, out = emitter.payload(value), emitter.out
    dtype = emitter.tensor_field(tensor, _offset("dtype"), "i32")
    ndim = emitter.tensor_field(tensor, _offset("ndim"), "i32")
    same_dtype = out.value(f"icmp eq i32 {dtype}, {packed_dtype(INT64)}")
    same_ndim = out.value(f"icmp eq i32 {ndim}, 1")
    is_heap = out.value(f"and i1 {same_dtype}, {same_ndim}")
    emitter.require(is_heap, WRONG_KIND, message, got=f"kind of {value}")
    shape = emitter.tensor_field(tensor, _offset("shape"), "ptr")
    return _Heap(emitter.tensor_field(tensor, 0, "ptr"), out.value(f"load i64, ptr {shape}"))


def _word_at(emitter: ProgramEmitter, words: str, index: int) -> str:
    return emitter.out.value(f"getelementptr i64, ptr {words}, i64 {index}")


def reserve_slots(emitter: ProgramEmitter, steps: Sequence[Step]) -> None:
    """Memory of the frame for shape heaps, shapes and tensors that need no object."""
    for step in steps:
        if step.dst in emitter.uses.heaps:
            words = words_of(step.operands[1:])
            if words is not None and 0 <= words[0] <= _MAX_FRAME_SLOTS:
                memory = emitter.alloca(f"[{max(words[0], 1)} x i64], align 64", 8 * words[0])
                head = emitter.alloca(f"{_HEAP}, align 16", _HEAP_BYTES)
                emitter.heap_slots[step.dst] = memory, head, words[0]
        elif step.dst in emitter.uses.shapes:
            pairs = made_sizes(step)
            assert pairs is not None
            memory = emitter.alloca(f"[{max(len(pairs), 1)} x i64], align 16", 8 * len(pairs))
            known = tuple(None if code == MakeCode.LOAD else operand for code, operand in pairs)
            emitter.shape_slots[step.dst] = ShapeSlot(memory, known)
    reserve_tensors(emitter, steps)


@_writes("alloc_shape_heap")
def _alloc_shape_heap(emitter: ProgramEmitter, step: Step) -> None:
    slot = emitter.heap_slots.get(step.dst)
    if slot is None:
        emitter.host_call(step)
        return
    memory, head, count = slot
    out = emitter.out
    callee = emitter.module.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1"])
    out.effect(f"call void {callee}(ptr {memory}, i8 0, i64 {8 * max(count, 1)}, i1 false)")
    tensor = out.value(f"getelementptr i8, ptr {head}, i64 {HEAD_BYTES}")
    size = out.value(f"getelementptr i8, ptr {tensor}, i64 {_DL_BYTES}")
    heads = {
        "count": ("i64", IMMORTAL),
        "kind": ("i32", Kind.TENSOR.value),
        "flags": ("i32", 0),
        "owner": ("ptr", "null"),
    }
    tensors = {
        "data": ("ptr", memory),
        "device_type": ("i32", CPU),
        "device_id": ("i32", 0),
        "rank": ("i32", 1),
        "dtype": ("i32", packed_dtype(INT64)),
        "sizes": ("ptr", size),
        "strides": ("ptr", "null"),
        "byte_offset": ("i64", 0),
    }
    out.effect(f"store i64 {count}, ptr {size}")
    for struct, at, fields in ((Head, head, heads), (DLTensor, tensor, tensors)):
        for name, (ty, value) in fields.items():
            place = out.value(f"getelementptr i8, ptr {at}, i64 {field_offset(struct, name)}")
            out.effect(f"store {ty} {value}, ptr {place}")
    emitter.set_value(emitter.register(step.dst), str(Kind.TENSOR.value), f"ptr {tensor}")


def _match(
    emitter: ProgramEmitter, heap: _Heap | None, size: str, code: int, operand: int, what: str
) -> None:
    out = emitter.out
    if code == MatchCode.NOTHING:
        return
    if code == MatchCode.EQUALS_IMM:
        expected = str(operand)
    else:
        assert heap is not None
        place = heap.slot(emitter, operand)
        if code == MatchCode.STORE:
            out.effect(f"store i64 {size}, ptr {place}")
            return
        expected = out.value(f"load i64, ptr {place}")
    equal = out.value(f"icmp eq i64 {size}, {expected}")
    emitter.require(equal, _MATCH_CAST, f"{what}: expected %e, got %g", expected, size)


def _matches(step: Step, *_: object) -> bool:
    return matched_sizes(step) is not None


@_writes("match_shape", FrameReads(heap=1, sizes=(0, matched_sizes), tensor=(0, _matches)))
def _match_shape(emitter: ProgramEmitter, step: Step) -> None:
    form = matched_sizes(step)
    if form is None:
        emitter.host_call(step)
        return
    (pairs, context), (value, heap_operand) = form, step.operands[:2]
    slot = emitter.shape_slots.get(number_of(value)) if kind_of_operand(value) == "register" else None
    if slot is not None:
        count, sizes = str(len(slot.known)), slot.memory
    else:
        at = emitter.value(value)
        count = emitter.call("heddle_sizes", at, emitter.sizes_out)
        is_shape = emitter.out.value(f"icmp sge i64 {count}, 0")
        message = f"{context} expected a tensor or shape, got %v"
        emitter.require(is_shape, WRONG_KIND, message, got=f"kind of {at}")
        sizes = emitter.out.value(f"load ptr, ptr {emitter.sizes_out}")
    same = emitter.out.value(f"icmp eq i64 {count}, {len(pairs)}")
    message = f"{context} match_cast error: shape size mismatch: expected {len(pairs)} sizes, got %g"
    emitter.require(same, _MATCH_CAST, message, got=count)
    needs_heap = any(code in (MatchCode.STORE, MatchCode.EQUALS_HEAP) for code, _ in pairs)
    heap = _heap(emitter, heap_operand) if needs_heap else None
    for axis, (code, operand) in enumerate(pairs):
        size = emitter.out.value(f"load i64, ptr {_word_at(emitter, sizes, axis)}")
        what = f"{context} match_cast error: size of dimension {axis}"
        _match(emitter, heap, size, code, operand, what)
    emitter.clear(step)


@_writes("make_shape", FrameReads(heap=0))
def _make_shape(emitter: ProgramEmitter, step: Step) -> None:
    pairs = made_sizes(step)
    if pairs is None:
        emitter.host_call(step)
        return
    out = emitter.out
    heap = _heap(emitter, step.operands[0]) if any(code == MakeCode.LOAD for code, _ in pairs) else None
    slot = emitter.shape_slots.get(step.dst)
    if slot is None:
        memory = emitter.alloca(f"[{max(len(pairs), 1)} x i64], align 16", 8 * len(pairs))
    else:
        memory = slot.memory
    for axis, (code, operand) in enumerate(pairs):
        size = str(operand)
        if code == MakeCode.LOAD and heap is not None:
            size = out.value(f"load i64, ptr {heap.slot(emitter, operand)}")
        out.effect(f"store i64 {size}, ptr {_word_at(emitter, memory, axis)}")
    if slot is None:
        given = emitter.destination(step), str(len(pairs)), memory
        emitter.finish(step, emitter.call("heddle_make_shape", "%context", *given))


@_writes("match_prim_value", FrameReads(heap=1))
def _match_prim_value(emitter: ProgramEmitter, step: Step) -> None:
    value, heap_operand, *rest = step.operands
    words, context = words_of(rest[:2]), text_of(rest[2])
    known = words is not None and words[0] in MATCH_CODES
    if words is None or not known or context is None or kind_of_operand(value) != "register":
        emitter.host_call(step)
        return
    at = emitter.value(value)
    _require_kinds(emitter, at, (Kind.INT, Kind.BOOL), f"{context} expected an integer")
    heap = _heap(emitter, heap_operand) if words[0] in (MatchCode.STORE, MatchCode.EQUALS_HEAP) else None
    _match(
        emitter, heap, emitter.payload(at, "i64"), words[0], words[1], f"{context} match_cast error: value"
    )
    emitter.clear(step)


@_writes("make_prim_value", FrameReads(heap=0))
def _make_prim_value(emitter: ProgramEmitter, step: Step) -> None:
    heap_operand, *rest = step.operands
    words = words_of(rest)
    if words is None or words[0] not in MAKE_CODES:
        emitter.host_call(step)
        return
    number = str(words[1])
    if words[0] == MakeCode.LOAD:
        place = _heap(emitter, heap_operand).slot(emitter, words[1])
        number = emitter.out.value(f"load i64, ptr {place}")
    pointer = emitter.out.value(f"inttoptr i64 {number} to ptr")
    emitter.call("heddle_put", "%context", emitter.destination(step), str(Kind.INT.value), pointer)


# ---- checks


def _require_kinds(emitter: ProgramEmitter, at: str, kinds: Sequence[int], message: str) -> None:
    out, kind = emitter.out, emitter.kind(at)
    found = out.value(f"icmp eq i32 {kind}, {int(kinds[0])}")
    for other in kinds[1:]:
        found = out.value(f"or i1 {found}, {out.value(f'icmp eq i32 {kind}, {int(other)}')}")
    emitter.require(found, WRONG_KIND, f"{message}, got %v", got=f"kind of {at}")


@_writes("check_tensor_info", FrameReads(tensor=(0, lambda step, *_: checked_tensor(step))))
def _check_tensor_info(emitter: ProgramEmitter, step: Step) -> None:
    form = checked_tensor(step)
    if form is None:
        emitter.host_call(step)
        return
    (ndim, dtype, context), value = form, step.operands[0]
    at = emitter.value(value)
    _require_kinds(emitter, at, (Kind.TENSOR,), f"{context} expected a tensor")
    tensor, out = emitter.payload(at), emitter.out
    if ndim != -1:
        got = out.value(f"sext i32 {emitter.tensor_field(tensor, _offset('ndim'), 'i32')} to i64")
        message = f"{context} expected a tensor with ndim {ndim}, got ndim %g"
        same = out.value(f"icmp eq i64 {got}, {ndim}")
        emitter.require(same, DIFFERS, message, got=got)
    if dtype is not None:
        got = emitter.tensor_field(tensor, _offset("dtype"), "i32")
        message = f"{context} expected a tensor with dtype {dtype}, got dtype %t"
        same = out.value(f"icmp eq i32 {got}, {packed_dtype(dtype)}")
        emitter.require(same, DIFFERS, message, got=out.value(f"zext i32 {got} to i64"))
    emitter.clear(step)


def _offset(field: str) -> int:
    return TENSOR_FIELDS[field].offset_bytes


def _check_count(kind: Kind, noun: str, unit: str) -> Emit:
    """Shapes and tuples start with their count."""

    def emit(emitter: ProgramEmitter, step: Step) -> None:
        value, count, text = step.operands
        context, counts = text_of(text), words_of([count])
        if context is None or counts is None:
            emitter.host_call(step)
            return
        at = emitter.value(value)
        _require_kinds(emitter, at, (kind,), f"{context} expected a {noun}")
        if counts[0] != -1 or kind is Kind.TUPLE:
            got = emitter.tensor_field(emitter.payload(at), 0, "i64")
            message = (
                f"{context} expected a {noun} with " + unit.format(counts[0]) + f", got {unit.format('%g')}"
            )
            same = emitter.out.value(f"icmp eq i64 {got}, {counts[0]}")
            emitter.require(same, DIFFERS, message, got=got)
        emitter.clear(step)

    return emit


_writes("check_shape_info")(_check_count(Kind.SHAPE, "shape", "ndim {}"))
_writes("check_tuple_info")(_check_count(Kind.TUPLE, "tuple", "{} elements"))


@_writes("check_func_info")
def _check_func_info(emitter: ProgramEmitter, step: Step) -> None:
    """A closure passes; of anything else the host knows whether it can be called, and says so."""
    out = emitter.out
    kind = emitter.kind(emitter.value(step.operands[0]))
    other, going = out.label("other"), out.label("closure")
    weights = emitter.module.metadata_once('!{!"branch_weights", i32 2000, i32 1}')
    out.branch(out.value(f"icmp eq i32 {kind}, {Kind.CLOSURE.value}"), going, other, weights)
    out.start(other)
    emitter.host_call(step)
    out.start(going)
    emitter.clear(step)


@_writes("check_prim_value_info")
def _check_prim_value_info(emitter: ProgramEmitter, step: Step) -> None:
    value, wanted, text = step.operands
    dtype, context = dtype_of(wanted), text_of(text)
    if dtype is None or context is None:
        emitter.host_call(step)
        return
    kinds = [Kind.INT, Kind.BOOL] + [Kind.FLOAT] * dtype.is_float
    if not dtype.is_handle:
        at = emitter.value(value)
        _require_kinds(emitter, at, kinds, f"{context} expected a value of dtype {dtype}")
    emitter.clear(step)


# ---- memory


@_writes("alloc_storage", FrameReads(sizes=(1, storage_asked)))
def _alloc_storage(emitter: ProgramEmitter, step: Step) -> None:
    asked = storage_asked(step)
    sizes = None if asked is None else _sizes(emitter, asked[0])
    if asked is None or sizes is None:
        emitter.host_call(step)
        return
    operands = (*sizes, str(asked[2].itemsize), str(asked[1]))
    status = emitter.call("heddle_alloc_storage", "%context", emitter.destination(step), *operands)
    emitter.finish(step, status)


@_writes("alloc_tensor", FrameReads(sizes=(2, tensor_asked)))
def _alloc_tensor(emitter: ProgramEmitter, step: Step) -> None:
    asked = tensor_asked(step)
    if asked is not None and step.dst in emitter.uses.tensors:
        emit_frame_tensor(emitter, step, asked)
    else:
        _alloc_tensor_object(emitter, step, asked)


def _alloc_tensor_object(emitter: ProgramEmitter, step: Step, asked: TensorAsked | None) -> None:
    sizes = None if asked is None else _sizes(emitter, asked.shape)
    if sizes is None or asked is None:
        emitter.host_call(step)
        return
    at, out = emitter.register(asked.storage), emitter.out
    native, other, done = out.label("native"), out.label("other"), out.label("allocated")
    out.branch(emitter.is_kind(at, Kind.STORAGE), native, other)
    out.start(other)  # a storage of the host's, or none at all
    emitter.host_call(step)
    out.terminate(f"br label %{done}")
    out.start(native)
    storage = emitter.payload(at)
    operands = (storage, str(asked.offset), *sizes, str(packed_dtype(asked.dtype)))
    status = emitter.call("heddle_alloc_tensor", "%context", emitter.destination(step), *operands)
    emitter.finish(step, status)
    if asked.storage in emitter.uses.handed:
        hand_over(emitter, at, storage)
    out.start(done)


@_writes("reshape", FrameReads(sizes=(1, lambda step: step)))
def _reshape(emitter: ProgramEmitter, step: Step) -> None:
    if step.dst in emitter.uses.tensors:
        emit_frame_view(emitter, step)
    else:
        _reshape_object(emitter, step)


def _reshape_object(emitter: ProgramEmitter, step: Step) -> None:
    tensor, shape = step.operands
    sizes = _sizes(emitter, shape)
    if sizes is None:
        emitter.host_call(step)
        return
    at = emitter.value(tensor)
    _require_kinds(emitter, at, (Kind.TENSOR,), "expected a tensor")
    status = emitter.call(
        "heddle_reshape", "%context", emitter.destination(step), emitter.payload(at), *sizes
    )
    emitter.finish(step, status)


@_writes("null_value")
def _null_value(emitter: ProgramEmitter, step: Step) -> None:
    if step.dst in emitter.uses.tensors:
        drop_frame_tensor(emitter, step.dst)
    elif step.dst in emitter.uses.storages:
        drop_frame_storage(emitter, step.dst)
    else:
        emitter.clear(step)


@_writes("copy")
def _copy(emitter: ProgramEmitter, step: Step) -> None:
    if step.dst != VOID:
        value = emitter.value(step.operands[0])
        emitter.call("heddle_copy", "%context", emitter.destination(step), value)


@_writes("shape_of")
def _shape_of(emitter: ProgramEmitter, step: Step) -> None:
    at = emitter.value(step.operands[0])
    _require_kinds(emitter, at, (Kind.TENSOR,), "expected a tensor")
    count = emitter.call("heddle_sizes", at, emitter.sizes_out)
    sizes = emitter.out.value(f"load ptr, ptr {emitter.sizes_out}")
    status = emitter.call("heddle_make_shape", "%context", emitter.destination(step), count, sizes)
    emitter.finish(step, status)


@_writes("shape_to_tensor", FrameReads(sizes=(0, lambda step: step)))
def _shape_to_tensor(emitter: ProgramEmitter, step: Step) -> None:
    sizes = _sizes(emitter, step.operands[0])
    if sizes is None:
        emitter.host_call(step)
    else:
        emit_shape_to_tensor(emitter, step, *sizes)


_writes("tensor_to_shape")(emit_tensor_to_shape)
_writes("sequence_length")(emit_sequence_length)
_writes("sequence_at")(emit_sequence_at)
_writes("sequence_insert")(emit_sequence_insert)
_writes("sequence_append")(emit_sequence_insert)
_writes("sequence_erase")(emit_sequence_erase)
_writes("sequence_concat")(emit_sequence_concat)
_writes("sequence_split")(emit_sequence_split)
_writes("has_value")(emit_has_value)
_writes("value_of_optional")(emit_value_of_optional)


# ---- tuples, conditions, calls


@_writes("make_tuple")
def _make_tuple(emitter: ProgramEmitter, step: Step) -> None:
    items = emitter.arguments(step.operands)
    status = emitter.call(
        "heddle_make_tuple", "%context", emitter.destination(step), str(len(step.operands)), items
    )
    emitter.finish(step, status)


@_writes("stack_chain")
def _stack_chain(emitter: ProgramEmitter, step: Step) -> None:
    at = emitter.value(step.operands[0])
    emitter.finish(step, emitter.call("heddle_stack_chain", "%context", emitter.destination(step), at))


@_writes("tuple_getitem")
def _tuple_getitem(emitter: ProgramEmitter, step: Step) -> None:
    indices = words_of(step.operands[1:])
    if indices is None:
        emitter.host_call(step)
        return
    at = emitter.value(step.operands[0])
    _require_kinds(emitter, at, (Kind.TUPLE,), "expected a tuple")
    status = emitter.call(
        "heddle_tuple_getitem",
        "%context",
        emitter.destination(step),
        emitter.payload(at),
        str(indices[0]),
    )
    emitter.finish(step, status)


@_writes("tuple_reset_item")
def _tuple_reset_item(emitter: ProgramEmitter, step: Step) -> None:
    """A tuple of the host's has another holder there, which the host's builtin tells first."""
    indices, out = words_of(step.operands[1:]), emitter.out
    if indices is None:
        emitter.host_call(step)
        return
    at = emitter.value(step.operands[0])
    _require_kinds(emitter, at, (Kind.TUPLE,), "expected a tuple")
    tuple_at = emitter.payload(at)
    flags = emitter.tensor_field(tuple_at, _FLAGS_OFFSET, "i32")
    shared, alone = out.label("shared"), out.label("alone")
    out.branch(out.value(f"icmp ne i32 {flags}, 0"), shared, alone)
    out.start(shared)
    emitter.host_call(step)
    out.start(alone)
    status = emitter.call("heddle_tuple_reset", "%context", tuple_at, str(indices[0]))
    emitter.check(status)
    emitter.clear(step)


def _is_condition(_: Step, dtype: DataType, rank: int) -> bool:
    return rank == 0 and (dtype.is_int or dtype.is_bool) and dtype.itemsize in (1, 2, 4, 8)


@_writes("read_if_cond", FrameReads(tensor=(0, _is_condition)))
def _read_if_cond(emitter: ProgramEmitter, step: Step) -> None:
    """0 or 1 of what the machine knows; the host judges the rest, and refuses what is no condition."""
    out = emitter.out
    known = emitter.call("heddle_condition", emitter.value(step.operands[0]))
    ask, told, go_on = out.label("ask"), out.label("told"), out.label("judged")
    out.branch(out.value(f"icmp slt i32 {known}, 0"), ask, told)
    out.start(ask)
    emitter.host_call(step)
    out.terminate(f"br label %{go_on}")
    out.start(told)
    pointer = out.value(f"inttoptr i64 {out.value(f'zext i32 {known} to i64')} to ptr")
    emitter.call("heddle_put", "%context", emitter.destination(step), str(Kind.BOOL.value), pointer)
    out.start(go_on)


def _kernel(emitter: ProgramEmitter, step: Step) -> None:
    _call_kernel(emitter, step, step.name, step.operands)


def _call_kernel(
    emitter: ProgramEmitter, step: Step, name: str, operands: Sequence[Expr], extra: Sequence[str] = ()
) -> None:
    args = emitter.arguments(operands, extra)
    callee = emitter.module.declare(kernel_symbol(name), "i32", ["ptr", "i32"])
    count = len(operands) + len(extra)
    emitter.check(emitter.out.value(f"call i32 {callee}(ptr {args}, i32 {count})"))
    emitter.clear(step)


@_writes("call_tir_dyn")
def _call_tir_dyn(emitter: ProgramEmitter, step: Step) -> None:
    """A kernel with the sizes of a shape after its tensors."""
    _, *tensors, shape = step.operands
    name, rank = kernel_of(step, emitter.kernels), emitter.uses.rank_of(shape)
    slot = emitter.shape_slots.get(number_of(shape)) if kind_of_operand(shape) == "register" else None
    if name is None or rank is None:
        emitter.host_call(step)
    elif (constant := sizes_of(shape)) is not None:
        _call_kernel(emitter, step, name, tensors, [str(size) for size in constant])
    elif slot is not None:
        _call_kernel(emitter, step, name, tensors, _words(emitter, slot.memory, rank))
    else:
        _call_with_object(emitter, step, name, tensors, rank)


def _call_with_object(
    emitter: ProgramEmitter, step: Step, name: str, tensors: Sequence[Expr], rank: int
) -> None:
    """Sizes of a shape that others hold, too. The host judges what is no shape of that rank."""
    out = emitter.out
    native, other, done = out.label("native"), out.label("other"), out.label("called")
    count = emitter.call("heddle_sizes", emitter.value(step.operands[-1]), emitter.sizes_out)
    out.branch(out.value(f"icmp eq i64 {count}, {rank}"), native, other)
    out.start(other)
    emitter.host_call(step)
    out.terminate(f"br label %{done}")
    out.start(native)
    sizes = out.value(f"load ptr, ptr {emitter.sizes_out}")
    _call_kernel(emitter, step, name, tensors, _words(emitter, sizes, rank))
    out.terminate(f"br label %{done}")
    out.start(done)


def _words(emitter: ProgramEmitter, memory: str, count: int) -> list[str]:
    """So many words that lie side by side."""
    return [emitter.out.value(f"load i64, ptr {_word_at(emitter, memory, axis)}") for axis in range(count)]


@_writes("make_closure")
def _make_closure(emitter: ProgramEmitter, step: Step) -> None:
    function, *bound = step.operands
    if kind_of_operand(function) != "function":
        emitter.host_call(step)
        return
    items = emitter.arguments(bound)
    number = str(number_of(function))
    status = emitter.call(
        "heddle_make_closure", "%context", emitter.destination(step), number, str(len(bound)), items
    )
    emitter.finish(step, status)


@_writes("invoke_closure")
def _invoke_closure(emitter: ProgramEmitter, step: Step) -> None:
    _, closure, *given = step.operands
    args = emitter.arguments(given)
    callee = emitter.value(closure)
    emitter.note_place()
    status = emitter.call(
        "heddle_invoke", "%context", emitter.destination(step), callee, args, str(len(given))
    )
    emitter.finish(step, status)


# ---- data types and references


_writes("make_data")(emit_make_data)
_writes("has_tag")(emit_has_tag)
_writes("get_field")(emit_get_field)
_writes("make_ref")(emit_make_ref)
_writes("read_ref")(emit_read_ref)
_writes("write_ref")(emit_write_ref)
_writes("fatal")(emit_fatal)
