"""The contents of an executable: function table, constants, code, and source locations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from heddle.support.frozen import frozen
from heddle.support.span import Span
from heddle.vm.constants import Constant
from heddle.vm.encode import decode
from heddle.vm.isa import FuncKind, Instruction, InstructionSet

CHECKS_LIFETIMES = "checks_lifetimes"
"""The metadata entry ("yes") of programs that run with lifetime checks."""


@frozen
class FunctionRow:
    """A row of the function table. Its instructions are `start` up to `end`, exclusive; both are 0 for
    functions without bytecode."""

    kind: FuncKind
    name: str
    num_args: int
    start: int = 0
    end: int = 0
    register_file_size: int = 0
    param_names: tuple[str, ...] = ()

    @property
    def has_bytecode(self) -> bool:
        """Whether the row has bytecode. Compiled functions may keep the bytecode from which they were made,
        for instruments and debuggers."""
        return self.end > self.start


@frozen
class Program:
    """The contents of an executable, in the instructions of `isa`. `line_table` maps instructions to source
    locations. `memory_scopes` maps constants to memory scopes. `metadata` holds texts by name."""

    isa: InstructionSet
    functions: tuple[FunctionRow, ...]
    constants: tuple[Constant, ...]
    offsets: tuple[int, ...]
    words: tuple[int, ...]
    memory_scopes: Mapping[int, str] = field(default_factory=dict)
    line_table: Mapping[int, Span] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)

    def instruction(self, index: int) -> Instruction:
        """Decode the instruction with this number."""
        return decode(self.isa, self.words, self.offsets[index])[0]

    def instructions(self, row: FunctionRow | None = None) -> list[Instruction]:
        """Decode the instructions of a function, or all."""
        numbers = range(len(self.offsets)) if row is None else range(row.start, row.end)
        return [self.instruction(index) for index in numbers]
