"""Tail calls: calls of the program's functions whose result is returned as it is.

    call f   in: %1   dst: %5
    call vm.builtin.null_value  dst: %1       nothing between the call and the return but registers that
    call vm.builtin.copy in: %5 dst: %6       are cleared or copied: the caller's frame is not needed
    goto 2                                    any more when f begins
    ...
    ret %6

A loop that a program writes as recursion runs in constant space because of them.
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
