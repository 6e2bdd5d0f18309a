"""Decode the four instructions to steps (`heddle.vm.steps`): resolve callees and turn operands into frame
slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heddle.vm.encode import decode_arg
from heddle.vm.isa import VOID, ArgKind
from heddle.vm.program import FunctionRow, Program
from heddle.vm.relax.isa import CALL, GOTO, RET
from heddle.vm.steps import DO, ENTER, JUMP, LEAVE, TAIL, TEST, UNKNOWN, LinkedFunction, Step, getter
from heddle.vm.tail import tail_calls


class _Slots:
    """The positions of operands in the frame of one function."""

    def __init__(self, num_registers: int, resolve: Callable[[ArgKind, int], Any]) -> None:
        self.void = num_registers
        self.template: list[Any] = [None] * (num_registers + 1)
        self._resolve = resolve
        self._known: dict[int, int] = {}

    def known(self, slot: int) -> Any:
        """Return the value of a slot if it is the same in every call; UNKNOWN for registers."""
        return UNKNOWN if slot < self.void else self.template[slot]

    def of(self, word: int) -> int:
        kind, value = decode_arg(word)
        if kind is ArgKind.REGISTER and value < VOID:
            return value
        slot = self._known.get(word)
        if slot is None:
            slot = self._known[word] = len(self.template)
            self.template.append(self._resolve(kind, value))
        return slot


Shorten = Callable[[Callable[..., Any], Sequence[Any]], tuple[int, Any] | None]


def _quickest(step: Step, places: Sequence[int], slots: _Slots, shorten: Shorten | None) -> Step:
    kind, function, _, dst = step
    if kind != DO or shorten is None:
        return step
    short = shorten(function, [slots.known(place) for place in places])
    if short is None:
        return step
    return short[0], short[1], places[0] if places else None, dst


def link_function(
    program: Program,
    row: FunctionRow,
    target: LinkedFunction,
    callee: Callable[[int, int], tuple[int, Any]],
    resolve: Callable[[ArgKind, int], Any],
    shorten: Shorten | None = None,
) -> None:
    """Fill `target` with the steps of `row`.

    `callee` returns the step kind and the callable for a function number and a number of arguments. `resolve`
    returns the value of an operand that is not a register. `shorten` returns a faster form of a call
    (`shortcuts.py`).
    """
    slots = _Slots(row.register_file_size, resolve)
    code: list[Step] = []
    steps: list[Step] = []
    tails = tail_calls(program, row)
    for index in range(row.start, row.end):
        instruction = program.instruction(index)
        if instruction.spec is CALL:
            dst, number, words = instruction.values
            kind, function = callee(number, len(words))
            if kind == ENTER and index - row.start in tails:
                kind = TAIL
            places = [slots.of(word) for word in words]
            code.append((kind, function, getter(places), slots.void if dst == VOID else dst))
            steps.append(_quickest(code[-1], places, slots, shorten))
            continue
        if instruction.spec is RET:
            code.append((LEAVE, slots.of(instruction.values[0]), None, 0))
        elif instruction.spec is GOTO:
            code.append((JUMP, index - row.start + instruction.values[0], None, 0))
        else:
            condition, false_offset = instruction.values
            code.append((TEST, condition, index - row.start + false_offset, 0))
        steps.append(code[-1])
    target.code, target.steps, target.template = code, steps, slots.template
