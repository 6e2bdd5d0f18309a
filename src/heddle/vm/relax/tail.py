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
    return frozenset(pc for pc in range(len(code)) if _is_tail_call(program, code, pc))


def _is_tail_call(program: Program, code: list[Instruction], pc: int) -> bool:
    call = code[pc]
    if call.spec is not CALL or program.functions[call.values[1]].kind not in _CALLEES:
        return False
    result, at = call.values[0], pc + 1
    if result >= VOID:
        return False
    for _ in code:  # more steps than instructions: a cycle
        step = code[at]
        if step.spec is RET:
            return step.values[0] == result
        if step.spec is GOTO:
            at += step.values[0]
            continue
        if step.spec is not CALL:
            return False
        dst, name = step.values[0], program.functions[step.values[1]].name
        if name == _COPY and len(step.args) == 1 and decode_arg(step.args[0]) == (ArgKind.REGISTER, result):
            result = dst
        elif name not in (_CLEAR, _COPY) or dst == result:
            return False
        at += 1
    return False
