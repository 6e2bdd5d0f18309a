"""Values of data types and references in machine code: the emitters of their builtins.

Counts and checks are the runtime's (`runtime/native/source/data.py`).
"""

from __future__ import annotations

from heddle.codegen.llvm.program import ProgramEmitter
from heddle.codegen.program_steps import Step, text_of, words_of
from heddle.runtime.native.abi import Kind, MachineCode, machine_error

_NO_CLAUSE = machine_error(MachineCode.NO_CLAUSE)


def emit_make_data(emitter: ProgramEmitter, step: Step) -> None:
    """Machine code of the builtin `make_data`."""
    tag = words_of(step.operands[:1])
    if tag is None:
        emitter.host_call(step)
        return
    fields = emitter.arguments(step.operands[1:])
    count = str(len(step.operands) - 1)
    status = emitter.call(
        "heddle_make_data", "%context", emitter.destination(step), str(tag[0]), count, fields
    )
    emitter.finish(step, status)


def emit_has_tag(emitter: ProgramEmitter, step: Step) -> None:
    """Machine code of the builtin `has_tag`."""
    tag, out = words_of(step.operands[1:]), emitter.out
    if tag is None:
        emitter.host_call(step)
        return
    found = emitter.call("heddle_has_tag", emitter.value(step.operands[0]), str(tag[0]))
    emitter.fail_where(out.value(f"icmp slt i32 {found}, 0"))
    pointer = out.value(f"inttoptr i64 {out.value(f'zext i32 {found} to i64')} to ptr")
    emitter.call("heddle_put", "%context", emitter.destination(step), str(Kind.BOOL.value), pointer)


def emit_get_field(emitter: ProgramEmitter, step: Step) -> None:
    """Machine code of the builtin `get_field`."""
    index = words_of(step.operands[1:])
    if index is None:
        emitter.host_call(step)
        return
    data = emitter.value(step.operands[0])
    status = emitter.call("heddle_get_field", "%context", emitter.destination(step), data, str(index[0]))
    emitter.finish(step, status)


def emit_make_ref(emitter: ProgramEmitter, step: Step) -> None:
    """Machine code of the builtin `make_ref`."""
    held = emitter.value(step.operands[0])
    status = emitter.call("heddle_make_ref", "%context", emitter.destination(step), held)
    emitter.finish(step, status)


def emit_read_ref(emitter: ProgramEmitter, step: Step) -> None:
    """Machine code of the builtin `read_ref`."""
    ref = emitter.value(step.operands[0])
    status = emitter.call("heddle_read_ref", "%context", emitter.destination(step), ref)
    emitter.finish(step, status)


def emit_write_ref(emitter: ProgramEmitter, step: Step) -> None:
    """The operands lie side by side: only one immediate has a place of its own."""
    both = emitter.arguments(step.operands)
    value = emitter.out.value(f"getelementptr i8, ptr {both}, i64 16")
    emitter.check(emitter.call("heddle_write_ref", "%context", both, value))
    emitter.clear(step)


def emit_fatal(emitter: ProgramEmitter, step: Step) -> None:
    """Machine code of the builtin `fatal`."""
    message = text_of(step.operands[0])
    if message is None or "%" in message:
        emitter.host_call(step)
        return
    emitter.require("false", _NO_CLAUSE, message)
    emitter.clear(step)
