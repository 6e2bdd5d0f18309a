"""Executables as text: a listing, a Python program that builds them again, and a summary."""

from __future__ import annotations

from heddle.runtime.dtype import DataType
from heddle.runtime.shape import Shape
from heddle.runtime.tensor import Tensor
from heddle.vm.relax.constants import Constant
from heddle.vm.relax.encode import decode_arg
from heddle.vm.relax.isa import CALL, GOTO, RET, VM_STATE, VOID, ArgKind, FuncKind, Instruction
from heddle.vm.relax.program import Program


def _register(number: int) -> str:
    return {VOID: "%void", VM_STATE: "%vm"}.get(number, f"%{number}")


def _operand(program: Program, word: int) -> str:
    kind, value = decode_arg(word)
    if kind is ArgKind.REGISTER:
        return _register(value)
    if kind is ArgKind.FUNCTION:
        return f"f[{_function_name(program, value)}]"
    return f"i{value}" if kind is ArgKind.IMMEDIATE else f"c[{value}]"


def _function_name(program: Program, index: int) -> str:
    return program.functions[index].name if 0 <= index < len(program.functions) else f"?{index}"


def instruction_text(program: Program, index: int) -> str:
    """One line of a listing, without indentation."""
    instruction = program.instruction(index)
    if instruction.spec is CALL:
        dst, func = instruction.values
        arguments = ", ".join(_operand(program, word) for word in instruction.args)
        return f"{'call':<6}{_function_name(program, func):<16} in: {arguments:<12} dst: {_register(dst)}"
    if instruction.spec is RET:
        return f"{'ret ':<6}{_register(instruction.values[0])}"
    if instruction.spec is GOTO:
        return f"{'goto':<6}{instruction.values[0]}"
    cond, false_offset = instruction.values
    return f"{'If':<6}{_register(cond)}, {false_offset}"


def _listing(program: Program, start: int, end: int, with_sources: bool) -> str:
    lines, shown = [], None
    for index in range(start, end):
        place = program.line_table.get(index)
        if with_sources and place != shown:
            lines.append(f"  ; {place or 'no source'}\n")
            shown = place
        lines.append(f"  {instruction_text(program, index)}\n")
    return "".join(lines)


def as_text(program: Program, with_sources: bool = False, with_bytecode: bool = False) -> str:
    """A listing of every row of the function table, each followed by a blank line. `with_sources` adds a
    comment where the place that instructions came from changes; `with_bytecode` lists compiled functions by
    the bytecode that they were made from.
    """
    blocks = []
    for row in program.functions:
        if row.kind is FuncKind.PACKED:
            blocks.append(f"@{row.name} packed_func;\n")
        elif row.kind is FuncKind.VMTIR and not (with_bytecode and row.has_bytecode):
            blocks.append(f"@{row.name} num_inputs={row.num_args} vm_tir_func;\n")
        else:
            blocks.append(f"@{row.name}:\n{_listing(program, row.start, row.end, with_sources)}")
    return "".join(block + "\n" for block in blocks)


def _python_operand(program: Program, word: int) -> str:
    kind, value = decode_arg(word)
    if kind is ArgKind.REGISTER:
        return f"ib.r({ {VOID: 'void', VM_STATE: 'vm'}.get(value, value) })"
    if kind is ArgKind.FUNCTION:
        return f'ib.f("{_function_name(program, value)}")'
    return f"ib.imm({value})" if kind is ArgKind.IMMEDIATE else f"ib.c({value})"


def _python_line(program: Program, instruction: Instruction) -> str:
    if instruction.spec is CALL:
        dst, func = instruction.values
        arguments = ", ".join(_python_operand(program, word) for word in instruction.args)
        target = "" if dst == VOID else f", dst=ib.r({dst})"
        return f'ib.emit_call("{_function_name(program, func)}", args=[{arguments}]{target})'
    if instruction.spec is RET:
        return f"ib.emit_ret({_python_operand(program, instruction.values[0])})"
    if instruction.spec is GOTO:
        return f"ib.emit_goto({instruction.values[0]})"
    cond, false_offset = instruction.values
    return f"ib.emit_if({_python_operand(program, cond)}, {false_offset})"


def as_python(program: Program) -> str:
    """The calls on an ExecBuilder that make this program. Packed functions need no mention."""
    lines = ["ib = rx.Builder()"]
    for row in program.functions:
        if row.kind is FuncKind.VM:
            lines.append(f'with ib.function("{row.name}", num_inputs={row.num_args}):')
            lines += [
                f"    {_python_line(program, program.instruction(i))}" for i in range(row.start, row.end)
            ]
    return "\n".join(lines) + "\n"


def _constant_text(value: Constant) -> str:
    if isinstance(value, Tensor):
        return f"[{', '.join(map(str, value.shape))}]" if value.shape else "scalar"
    if isinstance(value, Shape):
        return f"shapetuple[{', '.join(map(str, value))}]"
    return f'"{value}"' if isinstance(value, str) and not isinstance(value, DataType) else str(value)


def stats(program: Program) -> str:
    """How many constants and functions there are, and which."""
    constants = ", ".join(_constant_text(value) for value in program.constants)
    names = ", ".join(f'"{row.name}"' for row in program.functions)
    return (
        f"Relax VM executable statistics:\n  Constant pool (# {len(program.constants)}): [{constants}]\n"
        f"  Globals (#{len(program.functions)}): [{names}]\n"
    )
