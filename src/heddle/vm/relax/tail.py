"""Tail calls: calls of the program's functions whose result is returned as it is.

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

from heddle.vm.relax.encode import decode_arg
from heddle.vm.relax.isa import CALL, GOTO, RET, VOID, ArgKind, FuncKind, Instruction
from heddle.vm.relax.program import FunctionRow, Program

_CLEAR, _COPY = "vm.builtin.null_value", "vm.builtin.copy"
_CALLEES = (FuncKind.VM, FuncKind.VMTIR)


def tail_calls(program: Program, row: FunctionRow) -> frozenset[int]:
    """The tail calls of a function, counted from its first instruction."""
    code = [program.instruction(index) for index in range(row.start, row.end)]
    returned: dict[int, int | None] = {}
    return frozenset(
        pc
        for pc, step in enumerate(code)
        if step.spec is CALL
        and program.functions[step.values[1]].kind in _CALLEES
        and step.values[0] < VOID
        and _returned_from(program, code, pc + 1, returned) == step.values[0]
    )


def _returned_from(
    program: Program, code: list[Instruction], pc: int, known: dict[int, int | None]
) -> int | None:
    """The register whose value is what the function returns from `pc` on, where nothing else happens. Found
    once for each instruction, from the return back."""
    path = []
    while pc not in known:
        path.append(pc)
        known[pc] = None  # until it is found out: a cycle returns nothing
        step = code[pc]
        if step.spec is RET:
            known[path.pop()] = step.values[0]
        elif step.spec is GOTO:
            pc += step.values[0]
        elif step.spec is CALL and program.functions[step.values[1]].name in (_CLEAR, _COPY):
            pc += 1
        else:
            path.pop()
    result = known[pc]
    for at in reversed(path):
        result = known[at] = _before(program, code[at], result)
    return result


def _before(program: Program, step: Instruction, register: int | None) -> int | None:
    """Where the value that is in `register` after a clear, copy or jump was before it."""
    if step.spec is GOTO or step.values[0] != register:
        return register
    if program.functions[step.values[1]].name != _COPY or len(step.args) != 1:
        return None
    kind, source = decode_arg(step.args[0])
    return source if kind is ArgKind.REGISTER and source < VOID else None


def tail_cycles(program: Program) -> list[int]:
    """A number for each function: equal for those that lead to each other through tail calls.

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
    found = {program.instruction(row.start + pc).values[1] for pc in tail_calls(program, row)}
    return tuple(sorted(number for number in found if program.functions[number].kind is FuncKind.VM))
