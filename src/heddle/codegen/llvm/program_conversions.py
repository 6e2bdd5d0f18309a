"""Builtins that turn sizes, sequences and optional values into tensors and back, in machine code.

Each has the operands that programs mostly give it written out, and leaves others to the host's builtin, which
also says what is wrong with them. New tensors come from the host's pool, as the builtins' do.
"""

from __future__ import annotations

from collections.abc import Sequence

from heddle.codegen.llvm.program import ProgramEmitter
from heddle.codegen.llvm.types import INT64
from heddle.codegen.program_steps import Step, words_of
from heddle.ir.expr import Expr
from heddle.runtime.dtype import DataType, packed_dtype
from heddle.runtime.native.abi import HOST_DEVICE, DLTensor, Kind, Status
from heddle.runtime.native.ir_types import field_offset

_BOOL = DataType("bool")


class _QuickWay:
    """Code for the usual operands; where a condition does not hold, the host's builtin runs instead.

    After `end`, both ways have met.
    """

    def __init__(self, emitter: ProgramEmitter, step: Step) -> None:
        self._emitter, self._step = emitter, step
        self._other, self._done = emitter.out.label("other"), emitter.out.label("done")

    def require(self, condition: str) -> None:
        out = self._emitter.out
        usual = out.label("usual")
        out.branch(condition, usual, self._other)
        out.start(usual)

    def end(self) -> None:
        out = self._emitter.out
        out.terminate(f"br label %{self._done}")
        out.start(self._other)
        self._emitter.host_call(self._step)
        out.terminate(f"br label %{self._done}")
        out.start(self._done)


def _field(emitter: ProgramEmitter, tensor: str, name: str, ty: str) -> str:
    return emitter.tensor_field(tensor, field_offset(DLTensor, name), ty)


def _int64_tensor(emitter: ProgramEmitter, quick: _QuickWay, operand: Expr, rank: int) -> str:
    """The payload of an operand that is an int64 tensor of a rank."""
    at, out = emitter.value(operand), emitter.out
    quick.require(emitter.is_kind(at, Kind.TENSOR))
    tensor = emitter.payload(at)
    same_dtype = out.value(f"icmp eq i32 {_field(emitter, tensor, 'dtype', 'i32')}, {packed_dtype(INT64)}")
    same_rank = out.value(f"icmp eq i32 {_field(emitter, tensor, 'rank', 'i32')}, {rank}")
    quick.require(out.value(f"and i1 {same_dtype}, {same_rank}"))
    return tensor


def _new_tensor(emitter: ProgramEmitter, step: Step, rank: int | str, sizes: str, dtype: DataType) -> str:
    """The address of the elements of a new tensor on the host, which becomes the step's result."""
    to = emitter.destination(step)
    form = (str(rank), sizes)
    emitter.check(
        emitter.call("heddle_alloc_storage", "%context", to, *form, str(dtype.itemsize), str(HOST_DEVICE))
    )
    storage, out = emitter.payload(to), emitter.out
    status = emitter.call(
        "heddle_alloc_tensor", "%context", to, storage, "0", *form, str(packed_dtype(dtype))
    )
    drop, going = out.label("drop"), out.label("kept")
    out.branch(out.value(f"icmp ne i32 {status}, 0"), drop, going)
    out.start(drop)  # nothing else would: the register counts as empty until the step is done
    emitter.call("heddle_put", "%context", to, "0", "null")
    out.terminate(f"br label %{going}")
    out.start(going)
    emitter.check(status)
    return _field(emitter, emitter.payload(to), "data", "ptr")


def _scalar(emitter: ProgramEmitter, step: Step, dtype: DataType) -> str:
    return _new_tensor(emitter, step, 0, emitter.constant_sizes((1,)), dtype)


def emit_tensor_to_shape(emitter: ProgramEmitter, step: Step) -> None:
    """Machine code of the builtin `tensor_to_shape`."""
    quick = _QuickWay(emitter, step)
    tensor = _int64_tensor(emitter, quick, step.operands[0], 1)
    count = emitter.out.value(f"load i64, ptr {_field(emitter, tensor, 'sizes', 'ptr')}")
    data = _field(emitter, tensor, "data", "ptr")
    status = emitter.call("heddle_make_shape", "%context", emitter.destination(step), count, data)
    emitter.finish(step, status)
    quick.end()


def emit_shape_to_tensor(emitter: ProgramEmitter, step: Step, count: str, sizes: str) -> None:
    """Machine code of the builtin `shape_to_tensor`."""
    out = emitter.out
    rank = emitter.alloca("i64", 8)
    out.effect(f"store i64 {count}, ptr {rank}")
    data = _new_tensor(emitter, step, 1, rank, INT64)
    copy = emitter.module.declare("llvm.memcpy.p0.p0.i64", "void", ["ptr", "ptr", "i64", "i1"])
    size_bytes = out.value(f"mul i64 {count}, 8")
    out.effect(f"call void {copy}(ptr {data}, ptr {sizes}, i64 {size_bytes}, i1 false)")
    emitter.finish(step, "0")


def emit_sequence_length(emitter: ProgramEmitter, step: Step) -> None:
    """Machine code of the builtin `sequence_length`."""
    at, out = emitter.value(step.operands[0]), emitter.out
    quick = _QuickWay(emitter, step)
    quick.require(emitter.is_kind(at, Kind.TUPLE))
    count = out.value(f"load i64, ptr {emitter.payload(at)}")
    out.effect(f"store i64 {count}, ptr {_scalar(emitter, step, INT64)}")
    emitter.finish(step, "0")
    quick.end()


def emit_sequence_at(emitter: ProgramEmitter, step: Step) -> None:
    """Machine code of the builtin `sequence_at`."""
    sequence, place = step.operands
    at, out = emitter.value(sequence), emitter.out
    quick = _QuickWay(emitter, step)
    quick.require(emitter.is_kind(at, Kind.TUPLE))
    items = emitter.payload(at)
    data = _field(emitter, _int64_tensor(emitter, quick, place, 0), "data", "ptr")
    given, count = out.value(f"load i64, ptr {data}"), out.value(f"load i64, ptr {items}")
    from_end, is_negative = out.value(f"add i64 {given}, {count}"), out.value(f"icmp slt i64 {given}, 0")
    index = out.value(f"select i1 {is_negative}, i64 {from_end}, i64 {given}")
    quick.require(out.value(f"icmp ult i64 {index}, {count}"))
    status = emitter.call("heddle_tuple_getitem", "%context", emitter.destination(step), items, index)
    emitter.finish(step, status)
    quick.end()


def _ask_runtime(emitter: ProgramEmitter, step: Step, name: str, operands: Sequence[str]) -> None:
    """Call a function of the library, which may leave the step to the host's builtin."""
    out = emitter.out
    status = emitter.call(name, "%context", emitter.destination(step), *operands)
    quick = _QuickWay(emitter, step)
    quick.require(out.value(f"icmp ne i32 {status}, {Status.ASK_HOST.value}"))
    emitter.finish(step, status)
    quick.end()


def emit_sequence_insert(emitter: ProgramEmitter, step: Step) -> None:
    """Machine code of the builtins `sequence_insert` and `sequence_append`, which has no place."""
    operands = [emitter.value(operand) for operand in step.operands]
    _ask_runtime(emitter, step, "heddle_sequence_insert", [*operands, "null"][:3])


def emit_sequence_erase(emitter: ProgramEmitter, step: Step) -> None:
    """Machine code of the builtin `sequence_erase`."""
    operands = [emitter.value(operand) for operand in step.operands]
    _ask_runtime(emitter, step, "heddle_sequence_erase", operands)


def emit_sequence_concat(emitter: ProgramEmitter, step: Step) -> None:
    """Machine code of the builtin `sequence_concat`."""
    _with_numbers(emitter, step, "heddle_sequence_concat", 1)


def emit_sequence_split(emitter: ProgramEmitter, step: Step) -> None:
    """Machine code of the builtin `sequence_split`."""
    _with_numbers(emitter, step, "heddle_sequence_split", 2)


def _with_numbers(emitter: ProgramEmitter, step: Step, name: str, num_values: int) -> None:
    numbers = words_of(step.operands[num_values:])
    if numbers is None:
        emitter.host_call(step)
        return
    values = [emitter.value(operand) for operand in step.operands[:num_values]]
    _ask_runtime(emitter, step, name, [*values, *map(str, numbers)])


def emit_has_value(emitter: ProgramEmitter, step: Step) -> None:
    """Machine code of the builtin `has_value`."""
    at, out = emitter.value(step.operands[0]), emitter.out
    is_there = out.value(f"icmp ne i32 {emitter.kind(at)}, {Kind.NONE.value}")
    byte = out.value(f"zext i1 {is_there} to i8")
    out.effect(f"store i8 {byte}, ptr {_scalar(emitter, step, _BOOL)}")
    emitter.finish(step, "0")


def emit_value_of_optional(emitter: ProgramEmitter, step: Step) -> None:
    """Machine code of the builtin `value_of_optional`."""
    at = emitter.value(step.operands[0])
    quick = _QuickWay(emitter, step)
    quick.require(emitter.out.value(f"icmp ne i32 {emitter.kind(at)}, {Kind.NONE.value}"))
    emitter.call("heddle_copy", "%context", emitter.destination(step), at)
    emitter.finish(step, "0")
    quick.end()
