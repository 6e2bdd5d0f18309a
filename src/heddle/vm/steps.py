"""Bytecode made ready to run: decoded once into Python tuples, callees resolved, operands turned into slots.

A function's frame is a list: its registers, one slot that swallows what goes to void, then one slot for every
distinct constant, immediate, function and special operand. The last group is filled in `template`, so that an
instruction's arguments are one `itemgetter` over the frame, whatever their kinds. Steps:

    (DO,    callable, getter, dst)    frame[dst] = callable(*getter(frame))
    (ENTER, function, getter, dst)    as DO, for a function of the program: a new frame, no Python recursion
    (TAIL, function, getter, dst)     as ENTER, where the result is this function's own: its frame may go
    (INVOKE, None, getter, dst)       as ENTER, for the closure that is the second argument (the first: the
                                      machine)
    (INVOKE_LAST, None, getter, dst)  as INVOKE, where the result is this function's own: its frame may go
    (LEAVE, src, None, 0)             return frame[src]
    (JUMP,  target, None, 0)          absolute
    (TEST,  src, target, 0)           to target where frame[src] is false, else on
    (CLEAR, None, None, dst)          frame[dst] = None
    (DO0,   callable, None, dst)      frame[dst] = callable()
    (DO1,   callable, src, dst)       frame[dst] = callable(frame[src])
    (COMPARE, getter, other, target)  to target where the two operands are one integer, else to other

Each machine's `link` makes steps of its instructions; what watches a machine (`insight`) runs those of
`code`, which has the first eight kinds and COMPARE alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from heddle.vm.program import FunctionRow

DO, ENTER, TAIL, INVOKE, INVOKE_LAST, LEAVE, JUMP, TEST, CLEAR, DO0, DO1, COMPARE = range(12)
Step = tuple[int, Any, Any, int]
UNKNOWN = object()
"""Stands for an operand whose value is not known at decoding time: a register."""


class LinkedFunction:
    """A decoded function of the program. `first` is the number of its first instruction in the program.
    `code` has one step per instruction in the plain form, `steps` in the fastest form."""

    __slots__ = ("code", "first", "name", "num_args", "param_names", "steps", "template")

    def __init__(self, row: FunctionRow) -> None:
        self.name = row.name
        self.num_args = row.num_args
        self.param_names = row.param_names
        self.first = row.start
        self.code: list[Step] = []
        self.steps: list[Step] = []
        self.template: list[Any] = []


def getter(slots: Sequence[int]) -> Callable[[list[Any]], Any]:
    """Return a function that fetches the operands from a frame, as a sequence to unpack."""
    if len(slots) > 1:
        return itemgetter(*slots)
    return itemgetter(slice(slots[0], slots[0] + 1) if slots else slice(0, 0))
