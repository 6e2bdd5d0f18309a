"""Instructions to words and back, by the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.vm.codes import V0101, V0102, V0111, V0203
from heddle.vm.isa import MAX_VALUE, VALUE_BITS, ArgKind, Instruction, InstructionSet, Kind, Spec
from heddle.vm.objects import BytecodeError

_MASK = (1 << VALUE_BITS) - 1
_SIGN = 1 << (VALUE_BITS - 1)
_LEAST_WORD, _MOST_WORD = -(1 << 63), (1 << 63) - 1


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
    """The words of an instruction. Raises: BytecodeError V0203 for values that are not the operands', or do
    not fit their words.
    """
    spec, values = instruction.spec, instruction.values
    if len(values) != len(spec.fields):
        raise BytecodeError(
            V0203, f"{spec.mnemonic} has {len(spec.fields)} operands besides counts, got {len(values)} values"
        )
    words = [spec.opcode]
    given = dict(zip((operand.name for operand in spec.fields), values, strict=True))
    for operand in spec.operands:
        if operand.kind is Kind.COUNT:
            words.append(len(_words_of(spec, operand.counts, True, given[operand.counts])))
        elif operand.is_list or operand.num_words > 1:
            words += _words_of(spec, operand.name, True, given[operand.name])
        else:
            words += _words_of(spec, operand.name, False, given[operand.name])
    if max(words) > _MOST_WORD or min(words) < _LEAST_WORD:
        raise BytecodeError(V0203, f"an operand of {spec.mnemonic} does not fit a word of 64 bits")
    return words


def _words_of(spec: Spec, name: str, is_many: bool, value: Any) -> Sequence[int]:
    words = value if isinstance(value, tuple) else (value,)
    if isinstance(value, tuple) != is_many or not all(isinstance(word, int) for word in words):
        expected = "a tuple of integers" if is_many else "an integer"
        raise BytecodeError(V0203, f"{name} of {spec.mnemonic} is {expected}, got {value!r}")
    return words


def decode(isa: InstructionSet, words: Sequence[int], at: int) -> tuple[Instruction, int]:
    """The instruction at word `at`, and where the next one starts.

    Raises: BytecodeError V0101 for an unknown opcode, V0102 where words are missing.
    """
    if not 0 <= at < len(words):
        raise BytecodeError(V0102, f"word {at}: expected an instruction, got the end of the code")
    spec = isa.by_opcode.get(words[at])
    if spec is None:
        raise BytecodeError(V0101, f"word {at}: unknown opcode {words[at]}")
    at += 1
    values: list[Any] = []
    lengths: dict[str, int] = {}
    for operand in spec.operands:
        count = lengths[operand.name] if operand.is_list else operand.num_words
        end = at + count
        if count < 0 or end > len(words):
            got = len(words) - at
            raise BytecodeError(
                V0102,
                f"word {at}: {spec.mnemonic} lacks its {operand.name}: expected {count} words, got {got}",
            )
        if operand.is_list or count > 1:
            values.append(tuple(words[at:end]))
        elif operand.kind is Kind.COUNT:
            lengths[operand.counts] = words[at]
        else:
            values.append(words[at])
        at = end
    return Instruction(spec, tuple(values)), at


def assemble(instructions: Sequence[Instruction]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The offset list and the word list of a sequence of instructions. Raises: as `encode`."""
    offsets: list[int] = []
    words: list[int] = []
    for instruction in instructions:
        offsets.append(len(words))
        words += encode(instruction)
    return tuple(offsets), tuple(words)
