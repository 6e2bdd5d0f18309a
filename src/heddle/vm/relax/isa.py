"""The instruction set: four instructions over registers that hold any runtime value.

Code is a list of signed 64-bit words. The program counter counts instructions; a second list says at which
word each starts. An argument word has its kind in the top 8 bits and a sign-extended value in the other 56:

    63      56 55                                             0
    [  kind  ][                    value                      ]      kinds: 0 r, 1 i, 2 c, 3 f

Registers from 2**54 up are not in the register file: 2**54 is `void` (reads None, drops what is written), the
next is the machine itself. Offsets are relative to their own instruction.

Everything else (encoder, decoder, disassembler, verifier, docs, generators of tests) derives from
`INSTRUCTIONS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, Flag, IntEnum, auto


class Operand(Enum):
    """What a word of an instruction means."""

    DST = "register to write, or void"
    SRC = "register to read"
    FUNC = "index into the function table"
    ARGS = "number of arguments, then that many argument words"
    OFFSET = "instructions to jump, not 0"
    FALSE_OFFSET = "instructions to jump where the condition is false, more than 1"


class Effect(Flag):
    CALLS = auto()
    ENDS = auto()  # control does not reach the next instruction
    JUMPS = auto()  # control may go elsewhere


@dataclass(frozen=True, slots=True)
class Spec:
    """One instruction. `operands` are its words after the opcode, in order."""

    mnemonic: str
    opcode: int
    operands: tuple[Operand, ...]
    effects: Effect
    semantics: str


CALL = Spec(
    "call", 1, (Operand.DST, Operand.FUNC, Operand.ARGS), Effect.CALLS, "dst := func(args...); pc += 1"
)
RET = Spec("ret", 2, (Operand.SRC,), Effect.ENDS, "return src to the caller")
GOTO = Spec("goto", 3, (Operand.OFFSET,), Effect.ENDS | Effect.JUMPS, "pc += offset")
IF = Spec("if", 4, (Operand.SRC, Operand.FALSE_OFFSET), Effect.JUMPS, "pc += 1 if src != 0 else false_offset")

INSTRUCTIONS = (CALL, RET, GOTO, IF)
BY_OPCODE = {spec.opcode: spec for spec in INSTRUCTIONS}


class ArgKind(IntEnum):
    REGISTER = 0
    IMMEDIATE = 1
    CONSTANT = 2
    FUNCTION = 3


class FuncKind(IntEnum):
    """Kinds of function-table rows: resolved outside, bytecode of this executable, machine code over
    registers.
    """

    PACKED = 0
    VM = 1
    VMTIR = 2


VALUE_BITS = 56
MAX_VALUE = (1 << 55) - 1
VOID = 1 << 54
VM_STATE = VOID + 1
UNDEFINED_ARGS = -2  # num_args of a function that was declared and not defined
MAX_REGISTERS = 1 << 20


@dataclass(frozen=True, slots=True)
class Instruction:
    """A decoded instruction: the fixed operands in the table's order, and the argument words of a call."""

    spec: Spec
    values: tuple[int, ...]
    args: tuple[int, ...] = ()
