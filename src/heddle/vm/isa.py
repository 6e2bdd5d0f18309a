"""Instruction sets as data: a table of instructions, from which everything about their encoding is derived.

Code is a list of signed 64-bit words. The program counter counts instructions; a second list gives the word
at which each instruction starts. An instruction is its opcode and then the words of its operands, in the
table's order:

    opcode | a register | a count of 2 | another operand | two words of the list that was counted
      7    |     4      |      2       |       -3        |      0    1

The encoder and decoder (`encode.py`), the listing (`disasm.py`), the verifier (`verify.py`), tail calls
(`tail.py`), the sites that profilers and debuggers show, the documentation, and the test generators read
`Spec` and know no instruction by name. A new machine is a new `InstructionSet`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import Enum, Flag, IntEnum, auto
from typing import Any

from heddle.support.frozen import frozen


class Kind(Enum):
    """What the words of an operand contain."""

    READ = "a register that is read"
    WRITE = "a register that is written"
    ARGUMENT = "an argument word: a register that is read, an immediate, a constant or a function"
    CALLEE = "a row of the function table, which is called with the instruction's lists"
    FUNCTION = "a row of the function table"
    CONSTANT = "an entry of the constant pool"
    OFFSET = "instructions to jump, counted from this one, not 0"
    NUMBER = "an integer"
    DTYPE = "three words: DLPack's code, bits and lanes of a dtype"
    COUNT = "the length of a list"


class ArgKind(IntEnum):
    """The top eight bits of an argument word."""

    REGISTER = 0
    IMMEDIATE = 1
    CONSTANT = 2
    FUNCTION = 3


class FuncKind(IntEnum):
    """Kinds of function table rows: an external function, bytecode of this executable, machine code that uses
    registers."""

    PACKED = 0
    VM = 1
    VMTIR = 2


class Effect(Flag):
    """Effects of an instruction besides reading and writing operands. Jumps are described by operands."""

    CALLS = auto()  # calls another function
    ENDS = auto()  # the next instruction is not a successor
    RETURNS = auto()  # returns the register that it reads
    MOVES = auto()  # only copies what it reads to what it writes, or clears it


_LISTED = (Kind.READ, Kind.ARGUMENT, Kind.FUNCTION, Kind.CONSTANT, Kind.NUMBER)
VALUE_BITS = 56
MAX_VALUE = (1 << 55) - 1
MAX_REGISTERS = 1 << 20
VOID = 1 << 54
"""A register outside every frame that reads as None and ignores writes, if a machine has one."""
VM_STATE = VOID + 1
"""A register outside every frame that holds the machine itself."""
UNDEFINED_ARGS = -2  # num_args of a function that was declared and not defined


@frozen
class Operand:
    """An operand of an instruction.

    The length of a list is given by an earlier COUNT operand, which names it in `counts`. `special` are the
    allowed registers outside the register file. `least` and `most` bound numbers and offsets. `rows` are the
    allowed kinds of functions; empty means all. Listings omit an operand that has its `default` value.
    """

    name: str
    kind: Kind
    meaning: str = ""
    is_list: bool = False
    counts: str = ""
    special: tuple[int, ...] = ()
    least: int | None = None
    most: int | None = None
    rows: tuple[FuncKind, ...] = ()
    default: int | None = None
    num_words: int = field(init=False, repr=False, compare=False)
    """The number of words of one item."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_words", 3 if self.kind is Kind.DTYPE else 1)


ONE, LIST, WORDS, COUNT = range(4)
"""The encodings of an operand: one word, a list, a fixed number of words above one, or the length of a
list.
"""


@frozen
class Places:
    """The positions of frequently used values of an instruction, as indices into `values`.

    `layout` lists, for each operand in word order, its encoding and the index of its value (for a count, that
    of the list). `reads` says for each operand that reads registers whether it is a list, and whether it
    consists of argument words.
    """

    layout: tuple[tuple[int, int], ...]
    reads: tuple[tuple[int, bool, bool], ...]
    writes: tuple[int, ...]
    offsets: tuple[int, ...]
    lists: tuple[int, ...]
    callee: int | None


def _places(operands: tuple[Operand, ...], fields: tuple[Operand, ...]) -> Places:
    index = {operand.name: number for number, operand in enumerate(fields)}
    layout = []
    for operand in operands:
        if operand.kind is Kind.COUNT:
            layout.append((COUNT, index[operand.counts]))
        else:
            form = LIST if operand.is_list else WORDS if operand.num_words > 1 else ONE
            layout.append((form, index[operand.name]))
    of_kind = {kind: tuple(n for n, operand in enumerate(fields) if operand.kind is kind) for kind in Kind}
    reads = sorted((*of_kind[Kind.READ], *of_kind[Kind.ARGUMENT]))
    return Places(
        tuple(layout),
        tuple((n, fields[n].is_list, fields[n].kind is Kind.ARGUMENT) for n in reads),
        of_kind[Kind.WRITE],
        of_kind[Kind.OFFSET],
        tuple(n for n, operand in enumerate(fields) if operand.is_list),
        next(iter(of_kind[Kind.CALLEE]), None),
    )


@frozen
class Spec:
    """One instruction of an instruction set.

    `operands` are its words after the opcode, in order. `text` is the template of its line in a listing.
    `python` is the template of a builder call (the method's name, then its arguments). In both, `{operand}`
    stands for an operand and `{operand.value}` for its number. `fuel` is its cost in a run with a budget.

    Raises: ValueError for operands that do not fit together; the table is part of Heddle's source.
    """

    mnemonic: str
    opcode: int
    operands: tuple[Operand, ...]
    effects: Effect
    semantics: str
    text: str
    python: tuple[str, ...] = ()
    fuel: int = 1
    fields: tuple[Operand, ...] = field(init=False, repr=False, compare=False)
    """The operands that have a value in an instruction: all but counts."""
    places: Places = field(init=False, repr=False, compare=False)
    jumps: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        fields = tuple(operand for operand in self.operands if operand.kind is not Kind.COUNT)
        object.__setattr__(self, "fields", fields)
        self._check()
        object.__setattr__(self, "places", _places(self.operands, fields))
        object.__setattr__(self, "jumps", bool(self.places.offsets))

    def _check(self) -> None:
        names = [operand.name for operand in self.operands]
        if len(set(names)) != len(names):
            raise ValueError(f"{self.mnemonic}: two operands have one name")
        counted: set[str] = set()
        for operand in self.operands:
            if operand.kind is Kind.COUNT:
                counted.add(operand.counts)
            elif operand.is_list != (operand.name in counted):
                raise ValueError(f"{self.mnemonic}: a list is what was counted before")
            elif operand.is_list and operand.kind not in _LISTED:
                raise ValueError(f"{self.mnemonic}: there are no lists of {operand.kind.name}")
        if not counted <= set(names):
            raise ValueError(f"{self.mnemonic}: a count of no operand")
        callees = sum(operand.kind is Kind.CALLEE for operand in self.fields)
        lists = sum(operand.is_list for operand in self.fields)
        if callees > 1 or (callees and not lists):
            raise ValueError(f"{self.mnemonic}: one callee is called with the instruction's lists")
        reads = [operand for operand in self.fields if operand.kind in (Kind.READ, Kind.ARGUMENT)]
        writes = [operand for operand in self.fields if operand.kind is Kind.WRITE]
        if Effect.RETURNS in self.effects and (len(reads) != 1 or Effect.ENDS not in self.effects):
            raise ValueError(f"{self.mnemonic}: what returns reads one register and ends")
        if Effect.MOVES in self.effects and (len(writes) != 1 or len(reads) > 1):
            raise ValueError(f"{self.mnemonic}: what moves writes one register and reads one at most")

    @property
    def num_writes(self) -> int:
        """The maximum number of registers that it writes."""
        return sum(operand.kind is Kind.WRITE for operand in self.fields)

    @property
    def is_jump(self) -> bool:
        """Whether it is an unconditional jump without other effects."""
        kinds = [operand.kind for operand in self.fields]
        return kinds == [Kind.OFFSET] and Effect.ENDS in self.effects


@frozen
class InstructionSet:
    """The instructions of one machine.

    `special` names the registers outside the register file. `arg_kinds` are the kinds of argument words that
    the machine knows. `register_text` and `separator` are how listings write a register and separate list
    items.

    Raises: ValueError for an opcode or mnemonic that is used twice.
    """

    name: str
    title: str
    text: str
    instructions: tuple[Spec, ...]
    special: Mapping[int, str] = field(default_factory=dict)
    arg_kinds: tuple[ArgKind, ...] = tuple(ArgKind)
    register_text: str = "%{}"
    separator: str = ", "
    by_opcode: Mapping[int, Spec] = field(init=False, repr=False, compare=False)
    max_writes: int = field(init=False, repr=False, compare=False)
    """The maximum number of registers that one instruction writes."""

    def __post_init__(self) -> None:
        by_opcode = {spec.opcode: spec for spec in self.instructions}
        mnemonics = {spec.mnemonic for spec in self.instructions}
        if not len(by_opcode) == len(mnemonics) == len(self.instructions):
            raise ValueError(f"{self.name}: two instructions have one opcode or mnemonic")
        object.__setattr__(self, "by_opcode", by_opcode)
        object.__setattr__(self, "max_writes", max(spec.num_writes for spec in self.instructions))

    def operands(self) -> Iterator[Operand]:
        """Each operand once, in the order of the table."""
        yield from dict.fromkeys(operand for spec in self.instructions for operand in spec.operands)


@frozen
class Instruction:
    """A decoded instruction. `values` correspond to `spec.fields`: an int for an operand of one word, a tuple
    of ints for a list or a dtype."""

    spec: Spec
    values: tuple[Any, ...]

    def value(self, name: str) -> Any:
        """Return the value of an operand by name."""
        for operand, value in zip(self.spec.fields, self.values, strict=True):
            if operand.name == name:
                return value
        raise KeyError(name)

    def items(self) -> Iterator[tuple[Operand, Any]]:
        """Yield each operand with its value; for lists, once per item."""
        for operand, value in zip(self.spec.fields, self.values, strict=True):
            if operand.is_list:
                for item in value:
                    yield operand, item
            else:
                yield operand, value
