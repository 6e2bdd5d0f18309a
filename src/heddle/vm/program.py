"""What an executable holds: the function table, the constants, the code, and where the code came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from heddle.support.frozen import frozen
from heddle.support.span import Span
from heddle.vm.constants import Constant
from heddle.vm.encode import decode
from heddle.vm.isa import FuncKind, Instruction, InstructionSet

CHECKS_LIFETIMES = "checks_lifetimes"
"""The metadata entry ("yes") of programs that are run with checks of lifetimes."""


@frozen
class FunctionRow:
    """A row of the function table. Instructions are `start` up to `end`; both are 0 for functions without
    bytecode.
    """

    kind: FuncKind
    name: str
    num_args: int
    start: int = 0
    end: int = 0
    register_file_size: int = 0
    param_names: tuple[str, ...] = ()

    @property
    def has_bytecode(self) -> bool:
        """Compiled functions may keep the bytecode they were made from: instruments and debuggers run it."""
        return self.end > self.start


@frozen
class Program:
    """What an executable holds, in the instructions of `isa`. `line_table` maps instructions to the places
    they came from; `memory_scopes` maps constants to the memory they belong in; `metadata` is free-form."""

    isa: InstructionSet
    functions: tuple[FunctionRow, ...]
    constants: tuple[Constant, ...]
    offsets: tuple[int, ...]
    words: tuple[int, ...]
    memory_scopes: Mapping[int, str] = field(default_factory=dict)
    line_table: Mapping[int, Span] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)

    def instruction(self, index: int) -> Instruction:
        """The instruction of a number, decoded."""
        return decode(self.isa, self.words, self.offsets[index])[0]
