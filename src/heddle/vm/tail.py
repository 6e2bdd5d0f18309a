"""Tail calls: calls of the program's functions, or of closures, whose result is returned as it is.

    call f   in: %1   dst: %5
    call vm.builtin.null_value  dst: %1       nothing between the call and the return but registers that
    call vm.builtin.copy in: %5 dst: %6       are cleared or copied: the caller's frame is not needed
    goto 2                                    any more when f begins
    ...
    ret %6

A loop that a program writes as recursion, of one function or of several, runs in constant space because of
them.
"""

from __future__ import annotations

from heddle.vm.dataflow import arguments, callee_of, jump_offsets, registers_read, registers_written
from heddle.vm.isa import ArgKind, Effect, FuncKind, Instruction
from heddle.vm.program import FunctionRow, Program

_CLEAR, _COPY = "vm.builtin.null_value", "vm.builtin.copy"
_CALLEES = (FuncKind.VM, FuncKind.VMTIR)


def tail_calls(program: Program, row: FunctionRow) -> frozenset[int]:
    """Return the tail calls of a function, numbered from its first instruction."""
    code = program.instructions(row)
    returned: dict[int, int | None] = {}
    found = set()
    for pc, step in enumerate(code):
        written = _written(program, step)
        if written is None or not _enters(program, step):
            continue
        if _returned_from(program, code, pc + 1, returned) == written:
            found.add(pc)
    return frozenset(found)


def _enters(program: Program, step: Instruction) -> bool:
    """Whether an instruction may enter a function of the program: it names one, or it calls a closure."""
    number = callee_of(step)
    if number is None:
        return Effect.CALLS in step.spec.effects
    return program.functions[number].kind in _CALLEES


def _written(program: Program, step: Instruction) -> int | None:
    """The one register of the file that an instruction writes."""
    registers = [register for register in registers_written(step) if register not in program.isa.special]
    return registers[0] if len(registers) == 1 else None


def _returned_from(
    program: Program, code: list[Instruction], pc: int, known: dict[int, int | None]
) -> int | None:
    """Return the register whose value the function returns if execution continues at `pc` without other
    effects. The results are cached per instruction."""
    path = []
    while pc not in known:
        path.append(pc)
        known[pc] = None  # until it is found out: a cycle returns nothing
        step = code[pc]
        if Effect.RETURNS in step.spec.effects:
            known[path.pop()] = next(registers_read(step), None)
        elif step.spec.is_jump:
            pc += jump_offsets(step)[0]
        elif _only_moves(program, step):
            pc += 1
        else:
            path.pop()
    result = known[pc]
    for at in reversed(path):
        result = known[at] = _before(program, code[at], result)
    return result


def _only_moves(program: Program, step: Instruction) -> bool:
    """Whether an instruction only copies or clears a register."""
    number = callee_of(step)
    is_builtin = number is not None and program.functions[number].name in (_CLEAR, _COPY)
    return is_builtin or Effect.MOVES in step.spec.effects


def _before(program: Program, step: Instruction, register: int | None) -> int | None:
    """Return the place, before a clear, copy or jump, of the value that is in `register` afterwards."""
    if register is None or register not in registers_written(step):
        return register
    number = callee_of(step)
    if number is None:
        sources = [(ArgKind.REGISTER, source) for source in registers_read(step)]
    elif program.functions[number].name == _COPY:
        sources = list(arguments(step))
    else:
        return None
    if len(sources) != 1:
        return None
    kind, source = sources[0]
    return source if kind is ArgKind.REGISTER and source not in program.isa.special else None


def tail_cycles(program: Program) -> list[int]:
    """Return a number for each function. Functions that can reach each other through tail calls have the same
    number.

    Source: Tarjan, Depth-first search and linear graph algorithms, 1972; without recursion.
    """
    callees = [_bytecode_callees(program, row) for row in program.functions]
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    groups = [-1] * len(callees)
    open_rows: list[int] = []
    for start in range(len(callees)):
        path = [] if start in order else [(start, iter(callees[start]))]
        if path:
            order[start] = low[start] = len(order)
            open_rows.append(start)
        while path:
            row, left = path[-1]
            callee = next((other for other in left if other not in order or groups[other] < 0), None)
            if callee is None:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[row])
                if low[row] == order[row]:
                    while groups[row] < 0:
                        groups[open_rows.pop()] = row
            elif callee in order:
                low[row] = min(low[row], order[callee])
            else:
                order[callee] = low[callee] = len(order)
                open_rows.append(callee)
                path.append((callee, iter(callees[callee])))
    return groups


def _bytecode_callees(program: Program, row: FunctionRow) -> tuple[int, ...]:
    """The functions with bytecode that a function calls in tail position."""
    if row.kind is not FuncKind.VM or not row.has_bytecode:
        return ()
    found = {callee_of(program.instruction(row.start + pc)) for pc in tail_calls(program, row)}
    rows = (number for number in found if number is not None)
    return tuple(sorted(number for number in rows if program.functions[number].kind is FuncKind.VM))
