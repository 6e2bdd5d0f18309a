"""Instructions to words and back, by the table."""

from __future__ import annotations

from collections.abc import Sequence

from heddle.vm.codes import V0101, V0102, V0111, V0203
from heddle.vm.objects import BytecodeError
from heddle.vm.relax.isa import BY_OPCODE, MAX_VALUE, VALUE_BITS, ArgKind, Instruction, Operand

_MASK = (1 << VALUE_BITS) - 1
_SIGN = 1 << (VALUE_BITS - 1)


def encode_arg(kind: ArgKind, value: int) -> int:
    """An argument word. Raises: BytecodeError V0203 for a value outside +-(2**55 - 1)."""
    if not -MAX_VALUE <= value <= MAX_VALUE:
        raise BytecodeError(V0203, f"operand value {value} does not fit {VALUE_BITS} bits")
    return kind << VALUE_BITS | value & _MASK


def decode_arg(word: int) -> tuple[ArgKind, int]:
    """Kind and value of an argument word. Raises: BytecodeError V0111 for an unknown kind."""
    kind = word >> VALUE_BITS
    if not 0 <= kind <= 3:
        raise BytecodeError(V0111, f"operand word {word:#x} has unknown kind {kind}")
    value = word & _MASK
    return ArgKind(kind), value - (1 << VALUE_BITS) if value & _SIGN else value


def encode(instruction: Instruction) -> list[int]:
    """The words of an instruction."""
    words = [instruction.spec.opcode]
    values = iter(instruction.values)
    for operand in instruction.spec.operands:
        if operand is Operand.ARGS:
            words += [len(instruction.args), *instruction.args]
        else:
            words.append(next(values))
    return words


def decode(words: Sequence[int], at: int) -> tuple[Instruction, int]:
    """The instruction at word `at`, and where the next one starts.

    Raises: BytecodeError V0101 for an unknown opcode, V0102 where words are missing.
    """
    if not 0 <= at < len(words):
        raise BytecodeError(V0102, f"word {at}: expected an instruction, got the end of the code")
    spec = BY_OPCODE.get(words[at])
    if spec is None:
        raise BytecodeError(V0101, f"word {at}: unknown opcode {words[at]}")
    next_word = at + 1
    values: list[int] = []
    args: tuple[int, ...] = ()
    for operand in spec.operands:
        if next_word >= len(words):
            raise BytecodeError(V0102, f"word {next_word}: {spec.mnemonic} lacks its {operand.name.lower()}")
        word = words[next_word]
        next_word += 1
        if operand is not Operand.ARGS:
            values.append(word)
        elif 0 <= word <= len(words) - next_word:
            args = tuple(words[next_word : next_word + word])
            next_word += word
        else:
            raise BytecodeError(
                V0102,
                f"word {next_word - 1}: {spec.mnemonic} lacks arguments: expected {word}, "
                f"got {len(words) - next_word} words",
            )
    return Instruction(spec, tuple(values), args), next_word
