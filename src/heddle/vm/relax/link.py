"""Bytecode made ready to run: decoded once into Python tuples, callees resolved, operands turned into slots.

A function's frame is a list: its registers, one slot that swallows what goes to void, then one slot for every
distinct constant, immediate, function and special operand. The last group is filled in `template`, so that an
instruction's arguments are one `itemgetter` over the frame, whatever their kinds. Steps:

    (DO,    callable, getter, dst)    frame[dst] = callable(*getter(frame))
    (ENTER, function, getter, dst)    as DO, for a function of the program: a new frame, no Python recursion
    (TAIL, function, getter, dst)     as ENTER, where the result is this function's own: its frame may go
    (INVOKE, None, getter, dst)       as ENTER, for the closure that is the second argument (the first: the
                                      machine)
    (LEAVE, src, None, 0)             return frame[src]
    (JUMP,  target, None, 0)          absolute
    (TEST,  src, target, 0)           to target where frame[src] is false, else on
    (CLEAR, None, None, dst)          frame[dst] = None: this and the next two are shortcuts.py's
    (DO0,   callable, None, dst)      frame[dst] = callable()
    (DO1,   callable, src, dst)       frame[dst] = callable(frame[src])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from heddle.vm.relax.encode import decode_arg
from heddle.vm.relax.isa import CALL, GOTO, RET, VOID, ArgKind
from heddle.vm.relax.program import FunctionRow, Program
from heddle.vm.relax.tail import tail_calls

DO, ENTER, TAIL, INVOKE, LEAVE, JUMP, TEST, CLEAR, DO0, DO1 = range(10)
Step = tuple[int, Any, Any, int]


class LinkedFunction:
    """A function of the program, ready to run. `first` is its first instruction's number in the program;
    `code` has a step for each instruction in its plain form, `steps` in its quickest."""

    __slots__ = ("code", "first", "name", "num_args", "param_names", "steps", "template")

    def __init__(self, row: FunctionRow) -> None:
        self.name = row.name
        self.num_args = row.num_args
        self.param_names = row.param_names
        self.first = row.start
        self.code: list[Step] = []
        self.steps: list[Step] = []
        self.template: list[Any] = []


class _Slots:
    """Where operands lie in the frame of one function."""

    def __init__(self, num_registers: int, resolve: Callable[[ArgKind, int], Any]) -> None:
        self.void = num_registers
        self.template: list[Any] = [None] * (num_registers + 1)
        self._resolve = resolve
        self._known: dict[int, int] = {}

    def known(self, slot: int) -> Any:
        """What the slot holds in every call, UNKNOWN for registers."""
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


UNKNOWN = object()
"""Stands for an operand that is a register."""
Shorten = Callable[[Callable[..., Any], Sequence[Any]], tuple[int, Any] | None]


def _getter(slots: Sequence[int]) -> Callable[[list[Any]], Any]:
    """What takes the arguments out of a frame, as something to be unpacked."""
    if len(slots) > 1:
        return itemgetter(*slots)
    return itemgetter(slice(slots[0], slots[0] + 1) if slots else slice(0, 0))


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

    `callee` gives the step kind and callable for a function's number and a number of arguments; `resolve` the
    value of an operand that is no register; `shorten` a quicker form of a call (`shortcuts.py`).
    """
    slots = _Slots(row.register_file_size, resolve)
    code: list[Step] = []
    steps: list[Step] = []
    tails = tail_calls(program, row)
    for index in range(row.start, row.end):
        instruction = program.instruction(index)
        if instruction.spec is CALL:
            dst, number = instruction.values
            kind, function = callee(number, len(instruction.args))
            if kind == ENTER and index - row.start in tails:
                kind = TAIL
            places = [slots.of(word) for word in instruction.args]
            code.append((kind, function, _getter(places), slots.void if dst == VOID else dst))
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
