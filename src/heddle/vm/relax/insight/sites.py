"""Instructions as somebody who watches sees them: names instead of numbers, and the user's place."""

from __future__ import annotations

from dataclasses import dataclass, field

from heddle.vm.relax.disasm import instruction_text
from heddle.vm.relax.encode import decode_arg
from heddle.vm.relax.executable import VMExecutable
from heddle.vm.relax.isa import CALL, GOTO, RET, VM_STATE, VOID, ArgKind
from heddle.vm.relax.link import LinkedFunction

CALL_TIR_DYN = "vm.builtin.call_tir_dyn"


@dataclass(frozen=True, slots=True)
class Site:
    """One instruction. `pc` counts from the start of its function.

    `callee` is what a call names, for `call_tir_dyn` the kernel behind it. `operands` are the registers that
    it reads, None in the place of arguments that are no registers; `first_argument` is the position among
    them of the callee's own first argument. `integers` are the arguments that the instruction holds itself.
    `dst` is the register it writes. `source` is the user's place from the line table.
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

    @property
    def place(self) -> str:
        """`main:9`, as breakpoints name it."""
        return f"{self.function}:{self.pc}"


@dataclass(slots=True)
class Sites:
    """The sites of an executable, made as they are asked for."""

    executable: VMExecutable
    _made: dict[int, Site] = field(default_factory=dict)

    def at(self, function: LinkedFunction, pc: int) -> Site:
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
        text, source = instruction_text(program, index), program.line_table.get(index)
        spec = instruction.spec
        if spec is not CALL:
            reads: tuple[int, ...] = () if spec is GOTO else instruction.values[:1]
            operands = tuple(_register(word) for word in reads)
            return Site(function, pc, spec.mnemonic, text, operands=operands, source=source)
        dst, number = instruction.values
        callee, first_argument = program.functions[number].name, 0
        operands = tuple(_register(word) for word in instruction.args)
        if callee == CALL_TIR_DYN:
            kind, value = decode_arg(instruction.args[0])
            if kind is ArgKind.FUNCTION:
                callee, first_argument = program.functions[value].name, 1
        target = None if dst in (VOID, VM_STATE) else dst
        own = [decode_arg(word) for word in instruction.args[first_argument:]]
        integers = tuple(value for kind, value in own if kind is ArgKind.IMMEDIATE)
        return Site(
            function, pc, spec.mnemonic, text, callee, operands, first_argument, target, source, integers
        )


def _register(word: int) -> int | None:
    kind, value = decode_arg(word)
    return value if kind is ArgKind.REGISTER and value < VOID else None


def is_return(site: Site) -> bool:
    return site.mnemonic == RET.mnemonic
