"""Encode instructions to words and decode them, according to the instruction table."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from heddle.vm.codes import V0101, V0102, V0111, V0203
from heddle.vm.isa import (
    COUNT,
    LIST,
    MAX_VALUE,
    ONE,
    VALUE_BITS,
    WORDS,
    ArgKind,
    Instruction,
    InstructionSet,
    Spec,
)
from heddle.vm.objects import BytecodeError

_MASK = (1 << VALUE_BITS) - 1
_SIGN = 1 << (VALUE_BITS - 1)
_KINDS = tuple(ArgKind)


def encode_arg(kind: ArgKind, value: int) -> int:
    """Encode an argument word. Raises: BytecodeError V0203 for a value outside +-(2**55 - 1)."""
    if not -MAX_VALUE <= value <= MAX_VALUE:
        raise BytecodeError(V0203, f"operand value {value} does not fit {VALUE_BITS} bits")
    return kind << VALUE_BITS | value & _MASK


def decode_arg(word: int) -> tuple[ArgKind, int]:
    """Decode an argument word to kind and value. Raises: BytecodeError V0111 for an unknown kind."""
    kind = word >> VALUE_BITS
    if not 0 <= kind < len(_KINDS):
        raise BytecodeError(V0111, f"operand word {word:#x} has unknown kind {kind}")
    value = word & _MASK
    return _KINDS[kind], value - (1 << VALUE_BITS) if value & _SIGN else value


def encode(instruction: Instruction) -> list[int]:
    """Encode an instruction to words. Raises: BytecodeError V0203 for values that do not match the operands
    or do not fit into their words."""
    spec, values = instruction.spec, instruction.values
    words = [spec.opcode]
    try:
        for form, index in spec.places.layout:
            if form == ONE:
                words.append(values[index])
            elif form == COUNT:
                words.append(len(values[index]))
            else:
                words += values[index]
        struct.pack(f"<{len(words)}q", *words)
        fits = len(values) == len(spec.fields) and len(words) == num_words(spec, values)
    except (TypeError, IndexError, struct.error):
        fits = False
    if not fits:
        names = ", ".join(operand.name for operand in spec.fields)
        raise BytecodeError(V0203, f"{spec.mnemonic} has integers for {names}, got {values!r}")
    return words


def num_words(spec: Spec, values: Sequence[Any]) -> int:
    """Return the length of an instruction in words."""
    lists = sum(len(values[index]) for index in spec.places.lists)
    return 1 + lists + sum(operand.num_words for operand in spec.operands if not operand.is_list)


def decode(isa: InstructionSet, words: Sequence[int], at: int) -> tuple[Instruction, int]:
    """Decode the instruction at word `at`. Return it and the index of the word after it.

    Raises: BytecodeError V0101 for an unknown opcode, V0102 if words are missing.
    """
    if not 0 <= at < len(words):
        raise BytecodeError(V0102, f"word {at}: expected an instruction, got the end of the code")
    spec = isa.by_opcode.get(words[at])
    if spec is None:
        raise BytecodeError(V0101, f"word {at}: unknown opcode {words[at]}")
    at += 1
    values: list[Any] = []
    counts: dict[int, int] = {}
    limit = len(words)
    for form, index in spec.places.layout:
        count = counts[index] if form == LIST else spec.fields[index].num_words if form == WORDS else 1
        end = at + count
        if count < 0 or end > limit:
            lacks = f"{spec.mnemonic} lacks operands: expected {count} words, got {limit - at}"
            raise BytecodeError(V0102, f"word {at}: {lacks}")
        if form == ONE:
            values.append(words[at])
        elif form == COUNT:
            counts[index] = words[at]
        else:
            values.append(tuple(words[at:end]))
        at = end
    return Instruction(spec, tuple(values)), at


def assemble(instructions: Sequence[Instruction]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Encode a sequence of instructions. Return the list of their offsets and the list of words. Raises: as
    `encode`."""
    offsets: list[int] = []
    words: list[int] = []
    for instruction in instructions:
        offsets.append(len(words))
        words += encode(instruction)
    return tuple(offsets), tuple(words)
