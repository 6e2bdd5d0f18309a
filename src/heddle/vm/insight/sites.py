"""Instructions in the form that observers use: names instead of numbers, and the location in the user's
model."""

from __future__ import annotations

from dataclasses import dataclass, field

from heddle.support.frozen import frozen
from heddle.support.span import places_text
from heddle.vm.dataflow import arguments, callee_of, registers_read, registers_written
from heddle.vm.disasm import instruction_text
from heddle.vm.executable import Executable
from heddle.vm.isa import ArgKind, Effect, Instruction
from heddle.vm.program import Program
from heddle.vm.steps import LinkedFunction

CALL_TIR_DYN = "vm.builtin.call_tir_dyn"


@frozen
class Site:
    """One instruction. `pc` counts from the start of its function.

    `callee` is the name of the called function; for `call_tir_dyn`, of the kernel behind it. `operands` are
    the registers that the instruction reads, with None for arguments that are not registers. `first_argument`
    is the index in them of the callee's own first argument. `integers` are immediate arguments. `dst` is the
    register that it writes. `source` is the user's location from the line table. `returns`: it ends the
    function.
    """

    function: str
    pc: int
    mnemonic: str
    text: str
    callee: str | None = None
    operands: tuple[int | None, ...] = ()
    first_argument: int = 0
    dst: int | None = None
    source: str | None = None
    integers: tuple[int, ...] = ()
    returns: bool = False

    @property
    def place(self) -> str:
        """`main:9`, as breakpoints name it."""
        return f"{self.function}:{self.pc}"

    @property
    def sources(self) -> list[str]:
        """The user's places one by one."""
        return [place for place in (self.source or "").split("; ") if place]


@dataclass(slots=True)
class Sites:
    """The sites of an executable, made as they are asked for."""

    executable: Executable
    _made: dict[int, Site] = field(default_factory=dict)

    def at(self, function: LinkedFunction, pc: int) -> Site:
        """The site of an instruction, which is counted from the function's first."""
        index = function.first + pc
        found = self._made.get(index)
        if found is None:
            found = self._made[index] = self._make(function.name, pc, index)
        return found

    def of(self, name: str) -> tuple[Site, ...]:
        """All sites of a function of bytecode; none where there is no such function."""
        for row in self.executable.program.functions:
            if row.name == name and row.has_bytecode:
                return tuple(
                    self._at_index(row.name, row.start, index) for index in range(row.start, row.end)
                )
        return ()

    def _at_index(self, name: str, first: int, index: int) -> Site:
        found = self._made.get(index)
        if found is None:
            found = self._made[index] = self._make(name, index - first, index)
        return found

    def _make(self, function: str, pc: int, index: int) -> Site:
        program = self.executable.program
        instruction = program.instruction(index)
        name, number = None, callee_of(instruction)
        operands = _operands(program, instruction)
        first_argument = 0
        if number is not None:
            name = program.functions[number].name
            kind, value = operands[0] if operands else (ArgKind.REGISTER, 0)
            if name == CALL_TIR_DYN and kind is ArgKind.FUNCTION:
                name, first_argument = program.functions[value].name, 1
        written = (
            register for register in registers_written(instruction) if register not in program.isa.special
        )
        return Site(
            function,
            pc,
            instruction.spec.mnemonic,
            instruction_text(program, index),
            name,
            tuple(_register(program, kind, value) for kind, value in operands),
            first_argument,
            next(written, None),
            places_text(program.line_table.get(index)),
            tuple(value for kind, value in operands[first_argument:] if kind is ArgKind.IMMEDIATE),
            Effect.RETURNS in instruction.spec.effects,
        )


def _operands(program: Program, instruction: Instruction) -> list[tuple[ArgKind, int]]:
    """What a call passes on, else the registers that an instruction reads."""
    if Effect.CALLS in instruction.spec.effects:
        return list(arguments(instruction))
    return [(ArgKind.REGISTER, register) for register in registers_read(instruction)]


def _register(program: Program, kind: ArgKind, value: int) -> int | None:
    return value if kind is ArgKind.REGISTER and value not in program.isa.special else None


def is_return(site: Site) -> bool:
    """Whether the instruction at a site returns."""
    return site.returns
