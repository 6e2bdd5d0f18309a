"""How much LLVM may unroll in one text, and of how many loops its passes see.

LLVM unrolls each small loop of a fixed number of turns, however many there are. They become one block, and
its code generator takes the square of a block and more: 100 loops of 16 elements took 5 seconds, and 400
minutes. Its passes over loops take the square of their number.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_UNROLLED = 1200
"""Instructions beyond which LLVM unrolls no loop completely (`UnrollThreshold`, boosted)."""
MOST_ADDED = 8192
"""Instructions that unrolling may add to one text. Those of the ONNX model zoo add up to 3,220."""
MOST_LOOPS = 512
"""Loops of one text that LLVM's passes see. Beyond them the text is compiled as it is written."""


@dataclass(slots=True)
class UnrollBudget:
    """What was given out so far, in the order of the text."""

    added: int = 0
    num_loops: int = 0

    def may_unroll(self, size: int, turns: int | None) -> bool:
        """Whether LLVM may unroll a loop of `size` instructions, what is unrolled inside it included. `turns`
        is None where it is not fixed."""
        self.num_loops += 1
        if turns is None or size * turns > MOST_UNROLLED:
            return True
        more = size * max(turns - 1, 0)
        if self.added + more > MOST_ADDED:
            return False
        self.added += more
        return True
