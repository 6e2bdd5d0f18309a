"""Verify bytecode before it runs. Each finding names the function, the instruction and the word.

Rules: rows name disjoint, in-range stretches of code (V0109); every instruction decodes, and the offset list
says exactly where instructions start (V0101, V0102); registers, constants and functions are in range (V0103
to V0105) and of known kinds (V0111); numbers and dtypes are those that the table allows (V0113); jumps stay
inside their function (V0106) and its last instruction does not fall through (V0110); on every path a register
is written before it is read (V0107: a forward data-flow analysis; the state is the set of registers that are
definitely written, joined by intersection); calls of the program's own functions have the right number of
arguments (V0108). Builtins and kernels check their arguments themselves at run time.

A hostile program cannot make verification or execution expensive: registers are counted over all functions
(V0109), and only the first `MAX_FINDINGS` findings are reported. The analysis of V0107 stores sets of
registers at jump targets only. It rejects a program that would need many more such sets than it has
instructions (V0112).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import islice

from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import Code, Diagnostic, IRTypeError
from heddle.vm.codes import (
    V0102,
    V0103,
    V0104,
    V0105,
    V0106,
    V0107,
    V0108,
    V0109,
    V0110,
    V0111,
    V0112,
    V0113,
)
from heddle.vm.dataflow import (
    jump_offsets,
    num_arguments,
    registers_read,
    registers_written,
    successors,
)
from heddle.vm.disasm import dtype_text
from heddle.vm.encode import decode, decode_arg
from heddle.vm.isa import (
    MAX_REGISTERS,
    UNDEFINED_ARGS,
    ArgKind,
    Effect,
    FuncKind,
    Instruction,
    Kind,
    Operand,
)
from heddle.vm.objects import BytecodeError
from heddle.vm.placement import placement_of
from heddle.vm.program import FunctionRow, Program

_READ, _WRITE, _ARGUMENT, _OFFSET = Kind.READ, Kind.WRITE, Kind.ARGUMENT, Kind.OFFSET
_FUNCTION, _CALLEE, _CONSTANT, _DTYPE = Kind.FUNCTION, Kind.CALLEE, Kind.CONSTANT, Kind.DTYPE
MAX_FINDINGS = 100
WORK_AT_LEAST, WORK_PER_INSTRUCTION = 1 << 20, 256
"""The budget of the analysis of a program, in 64-bit words of register sets."""


def check_program(program: Program) -> None:
    """Verify a program. Raises: BytecodeError with all findings of `verify_program`, if there are any."""
    findings = verify_program(program)
    if findings:
        raise BytecodeError(findings)


def verify_program(program: Program) -> list[Diagnostic]:
    """Return the findings in code order. Later rules are checked only if earlier ones hold."""
    return list(islice(_findings(program), MAX_FINDINGS))


def _findings(program: Program) -> Iterator[Diagnostic]:
    instructions, findings = _decode_all(program)
    findings += _check_rows(program)
    yield from findings
    if findings:
        return
    budget = [WORK_AT_LEAST + WORK_PER_INSTRUCTION * len(instructions)]
    for row in program.functions:
        if row.has_bytecode:
            found = False
            for finding in _check_function(program, row, instructions):
                found = True
                yield finding
            if not found:
                yield from _check_definite_writes(program, row, instructions, budget)


def _decode_all(program: Program) -> tuple[list[Instruction], list[Diagnostic]]:
    instructions: list[Instruction] = []
    at = 0
    for index, offset in enumerate(program.offsets):
        if offset != at:
            return [], [Diagnostic(V0102, f"instruction {index} at word {offset}: expected it at word {at}")]
        try:
            instruction, at = decode(program.isa, program.words, at)
        except BytecodeError as error:
            first = error.diagnostics[0]
            return [], [Diagnostic(first.code, f"instruction {index}, {first.message}")]
        instructions.append(instruction)
    if at != len(program.words):
        return [], [
            Diagnostic(V0102, f"word {at}: {len(program.words) - at} words follow the last instruction")
        ]
    return instructions, []


def _check_rows(program: Program) -> list[Diagnostic]:
    findings = []
    names: set[str] = set()
    free = num_registers = 0
    for number, row in enumerate(program.functions):
        problem = _row_problem(row, free, len(program.offsets), program.isa.max_writes)
        if row.name in names:
            problem = "its name is taken"
        names.add(row.name)
        if row.has_bytecode:
            free = max(free, row.end)
            num_registers += row.register_file_size
            if num_registers > MAX_REGISTERS and problem is None:
                problem = (
                    f"the functions up to it have {num_registers} registers: expected at most {MAX_REGISTERS}"
                )
        if problem:
            findings.append(Diagnostic(V0109, f"function {number} {row.name!r}: {problem}"))
    for constant, text in program.memory_scopes.items():
        if placement_of(text) is None:
            findings.append(Diagnostic(V0104, f"memory scope of constant {constant} is malformed: {text!r}"))
        if not 0 <= constant < len(program.constants):
            findings.append(
                Diagnostic(V0104, f"memory scope of constant {constant}: there are {len(program.constants)}")
            )
    return findings


def _row_problem(row: FunctionRow, free: int, num_instructions: int, max_writes: int) -> str | None:
    if row.kind is FuncKind.PACKED or row.num_args == UNDEFINED_ARGS:
        return "it has code but is not defined" if row.end != row.start else None
    most = row.num_args + max_writes * (row.end - row.start) + 1
    if row.has_bytecode and row.register_file_size > most:
        return f"{row.register_file_size} registers are more than its instructions can write"
    if not 0 <= row.num_args <= row.register_file_size <= MAX_REGISTERS:
        return f"{row.num_args} arguments do not fit {row.register_file_size} of {MAX_REGISTERS} registers"
    if len(row.param_names) not in (0, row.num_args):
        return f"expected {row.num_args} parameter names, got {len(row.param_names)}"
    if row.kind is FuncKind.VMTIR:
        if row.register_file_size <= row.num_args:
            return "it needs a register for its result"
        if row.start == row.end:
            return None
    if not free <= row.start < row.end <= num_instructions:
        return f"instructions {row.start} to {row.end} are empty, overlap another function, or do not exist"
    return None


def _finding(program: Program, row: FunctionRow, index: int, code: Code, message: str) -> Diagnostic:
    place = f"function {row.name!r}, instruction {index} (word {program.offsets[index]})"
    return Diagnostic(code, f"{place}: {message}", program.line_table.get(index))


def _check_function(
    program: Program, row: FunctionRow, instructions: list[Instruction]
) -> Iterator[Diagnostic]:
    for index in range(row.start, row.end):
        instruction = instructions[index]
        for code, message in _operand_problems(program, row, index, instruction):
            yield _finding(program, row, index, code, message)
    if Effect.ENDS not in instructions[row.end - 1].spec.effects:
        yield _finding(program, row, row.end - 1, V0110, "control falls through the function's end")


def _operand_problems(
    program: Program, row: FunctionRow, index: int, instruction: Instruction
) -> Iterator[tuple[Code, str]]:
    for operand, value in instruction.items():
        if operand.kind in (_READ, _WRITE):
            yield from _register_problem(row, operand, value)
        elif operand.kind is _ARGUMENT:
            yield from _argument_problem(program, row, operand, value)
        elif operand.kind in (_FUNCTION, _CALLEE):
            found = list(_function_problem(program, value, operand))
            yield from found
            if operand.kind is _CALLEE and not found:
                yield from _count_problem(program.functions[value], num_arguments(instruction))
        elif operand.kind is _CONSTANT:
            yield from _constant_problem(program, value)
        elif operand.kind is _DTYPE:
            yield from _dtype_problem(operand, value)
        else:
            is_jump = operand.kind is _OFFSET
            yield from _bounds_problem(V0106 if is_jump else V0113, operand, value)
            if is_jump and (value == 0 or not row.start <= index + value < row.end):
                yield V0106, f"a jump by {value} leaves the function or goes nowhere"


def _bounds_problem(code: Code, operand: Operand, value: int) -> Iterator[tuple[Code, str]]:
    name = operand.name.replace("_", "-")
    if operand.least is not None and value < operand.least:
        yield code, f"a {name} must be more than {operand.least - 1}, got {value}"
    if operand.most is not None and value > operand.most:
        yield code, f"a {name} must be less than {operand.most + 1}, got {value}"


def _register_problem(row: FunctionRow, operand: Operand, number: int) -> Iterator[tuple[Code, str]]:
    if not 0 <= number < row.register_file_size and number not in operand.special:
        yield V0103, f"register {number} is out of range: the function has {row.register_file_size}"


def _function_problem(program: Program, number: int, operand: Operand) -> Iterator[tuple[Code, str]]:
    if not 0 <= number < len(program.functions):
        yield V0105, f"function {number} is out of range: the table has {len(program.functions)}"
        return
    row = program.functions[number]
    if _is_undefined(row):
        yield V0105, f"function {row.name!r} was declared and never defined"
    elif operand.rows and row.kind not in operand.rows:
        kinds = " or ".join(kind.name for kind in operand.rows)
        yield V0105, f"function {row.name!r} is of kind {row.kind.name}: expected {kinds}"


def _is_undefined(row: FunctionRow) -> bool:
    return row.kind is not FuncKind.PACKED and row.num_args == UNDEFINED_ARGS


def _count_problem(callee: FunctionRow, num_args: int) -> Iterator[tuple[Code, str]]:
    if callee.kind is not FuncKind.PACKED and callee.num_args != num_args:
        yield V0108, f"function {callee.name!r} takes {callee.num_args} arguments, got {num_args}"


def _argument_problem(
    program: Program, row: FunctionRow, operand: Operand, word: int
) -> Iterator[tuple[Code, str]]:
    try:
        kind, value = decode_arg(word)
    except BytecodeError as error:
        yield V0111, error.diagnostics[0].message
        return
    if kind not in program.isa.arg_kinds:
        yield V0111, f"operand word {word:#x} is of kind {kind.name}, which the machine does not have"
    elif kind is ArgKind.REGISTER:
        yield from _register_problem(row, operand, value)
    elif kind is ArgKind.CONSTANT:
        yield from _constant_problem(program, value)
    elif kind is ArgKind.FUNCTION:
        yield from _function_problem(program, value, operand)


def _constant_problem(program: Program, number: int) -> Iterator[tuple[Code, str]]:
    if not 0 <= number < len(program.constants):
        yield V0104, f"constant {number} is out of range: the pool has {len(program.constants)}"


def _dtype_problem(operand: Operand, words: tuple[int, int, int]) -> Iterator[tuple[Code, str]]:
    text = dtype_text(words)
    try:
        DataType(text)
    except IRTypeError:
        yield V0113, f"{operand.name} is no dtype: {text}"


@dataclass(slots=True)
class _Block:
    """A basic block: the registers that it writes, as a bit set, and its successors."""

    start: int
    end: int
    writes: int
    successors: tuple[int, ...]


def _blocks(row: FunctionRow, instructions: list[Instruction]) -> dict[int, _Block]:
    """Return the basic blocks of a function by their first instruction."""
    body = range(row.start, row.end)
    jumps = [index for index in body if instructions[index].spec.jumps]
    targets = {index + offset for index in jumps for offset in jump_offsets(instructions[index])}
    targets |= {index + 1 for index in jumps}
    starts = sorted({row.start, *targets} & set(body))
    blocks = {}
    for start, end in zip(starts, (*starts[1:], row.end), strict=True):
        bits = bytearray(row.register_file_size // 8 + 1)
        last = start
        for last in range(start, end):
            for register in registers_written(instructions[last]):
                if register < row.register_file_size:
                    bits[register >> 3] |= 1 << (register & 7)
            if Effect.ENDS in instructions[last].spec.effects:
                break
        after = successors(last, instructions[last])
        blocks[start] = _Block(start, last + 1, int.from_bytes(bits, "little"), after)
    return blocks


def _check_definite_writes(
    program: Program, row: FunctionRow, instructions: list[Instruction], budget: list[int]
) -> Iterator[Diagnostic]:
    """Check that registers are written before they are read (V0107).

    A set of registers is an int with one bit per register. The state of a block only loses bits, so the
    analysis terminates. Blocks are processed in code order: where paths join, all paths from above have been
    processed, so a chain of branches needs one pass. `budget` is the number of set words that may still be
    processed.
    """
    blocks = _blocks(row, instructions)
    written: dict[int, int] = {row.start: (1 << row.num_args) - 1}
    pending = [row.start]
    is_pending = {row.start}
    cost = 16 + row.register_file_size // 64
    while pending:
        block = blocks[heappop(pending)]
        is_pending.remove(block.start)
        after = written[block.start] | block.writes
        for successor in block.successors:
            budget[0] -= cost
            before = written.get(successor)
            met = after if before is None else before & after
            if met != before:
                written[successor] = met
                if successor not in is_pending:
                    is_pending.add(successor)
                    heappush(pending, successor)
        if budget[0] < 0:
            yield _finding(program, row, row.start, V0112, "its jumps and registers are too many to check")
            return
    for start in sorted(written):
        known = written[start].to_bytes(row.register_file_size // 8 + 1, "little")
        fresh: set[int] = set()
        for index in range(start, blocks[start].end):
            instruction = instructions[index]
            for register in dict.fromkeys(registers_read(instruction)):
                is_special = register >= row.register_file_size
                is_known = is_special or register in fresh or known[register >> 3] >> (register & 7) & 1
                if not is_known:
                    message = f"register {register} is read before it is written on every path"
                    yield _finding(program, row, index, V0107, message)
            fresh.update(registers_written(instruction))
