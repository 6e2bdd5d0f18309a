"""Which registers of a program's function may hold an object, statement by statement.

    call alloc_tensor dst: %3      {%0}
    call f in: %3                  {%0, %3}
    call null_value dst: %3        {%0, %3}
    ret  %0                        {%0}            only %0 is to be dropped here

A forward analysis: what a jump brings along joins what is there. Registers whose values need no object
(`program_uses`) never hold one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from heddle.codegen.program_steps import step_of, word_of
from heddle.prim.nodes import Call
from heddle.tir.program_abi import VOID

_LABEL_OPERANDS = {"tir.vm_goto": 0, "tir.vm_branch": 1}
_ENDS = ("tir.vm_goto", "tir.vm_return", "tir.vm_again", "tir.vm_tail")


def held_registers(
    statements: Sequence[Call], num_args: int, without: Collection[int]
) -> list[frozenset[int]]:
    """The registers that may hold an object before each statement.

    A round visits every statement once; there are as many rounds as loops are nested, and one more.
    """
    labels: dict[int, frozenset[int]] = {}
    while True:
        before: list[frozenset[int]] = []
        known = dict(labels)
        now = frozenset(range(num_args))
        for call in statements:
            name = call.op.name
            if name == "tir.vm_label":
                now |= labels.get(word_of(call.args[0]), frozenset())
            before.append(now)
            if name in _LABEL_OPERANDS:
                label = word_of(call.args[_LABEL_OPERANDS[name]])
                labels[label] = labels.get(label, frozenset()) | now
            if name in _ENDS:
                now = frozenset()
            elif name == "tir.vm_call":
                now = _after(call, now, without)
        if labels == known:
            return before


def _after(call: Call, now: frozenset[int], without: Collection[int]) -> frozenset[int]:
    step = step_of(call)
    if step.name == "vm.builtin.null_value":
        return now - {step.dst}
    return now if step.dst == VOID or step.dst in without else now | {step.dst}
