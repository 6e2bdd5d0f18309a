"""Data flow and control flow of single instructions, derived from the instruction table."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from heddle.vm.encode import decode_arg
from heddle.vm.isa import ArgKind, Effect, Instruction

_REGISTER, _ENDS = ArgKind.REGISTER, Effect.ENDS


def registers_read(instruction: Instruction) -> Iterator[int]:
    """Yield the registers that an instruction reads, including special ones, once per occurrence."""
    values = instruction.values
    for index, is_list, is_argument in instruction.spec.places.reads:
        for word in values[index] if is_list else (values[index],):
            if not is_argument:
                yield word
                continue
            kind, number = decode_arg(word)
            if kind is _REGISTER:
                yield number


def registers_written(instruction: Instruction) -> list[int]:
    """Return the registers that an instruction writes, including special ones."""
    values = instruction.values
    return [values[index] for index in instruction.spec.places.writes]


def jump_offsets(instruction: Instruction) -> list[int]:
    """Return the jump offsets of an instruction."""
    values = instruction.values
    return [values[index] for index in instruction.spec.places.offsets]


def successors(index: int, instruction: Instruction) -> tuple[int, ...]:
    """Return the possible successors of the instruction at `index`."""
    targets = tuple(index + offset for offset in jump_offsets(instruction))
    return targets if _ENDS in instruction.spec.effects else (index + 1, *targets)


def callee_of(instruction: Instruction) -> int | None:
    """Return the row of the function table that an instruction calls; None if it calls none."""
    place = instruction.spec.places.callee
    row: int | None = None if place is None else instruction.values[place]
    return row


def num_arguments(instruction: Instruction) -> int:
    """Return the number of items in the lists of an instruction."""
    return sum(len(instruction.values[index]) for index in instruction.spec.places.lists)


def arguments(instruction: Instruction) -> Iterator[tuple[ArgKind, int]]:
    """Yield the items of an instruction's lists of registers and argument words, in order."""
    for index, is_list, is_argument in instruction.spec.places.reads:
        if is_list:
            for word in instruction.values[index]:
                yield decode_arg(word) if is_argument else (_REGISTER, word)


def with_registers(instruction: Instruction, number_of: Callable[[int], int]) -> Instruction:
    """Return the instruction with its registers renumbered."""

    def renamed(word: int, is_argument: bool) -> int:
        if not is_argument:
            return number_of(word)
        kind, number = decode_arg(word)
        return number_of(number) if kind is _REGISTER else word

    places, values = instruction.spec.places, list(instruction.values)
    for index in places.writes:
        values[index] = number_of(values[index])
    for index, is_list, is_argument in places.reads:
        old = values[index]
        values[index] = (
            tuple(renamed(word, is_argument) for word in old) if is_list else renamed(old, is_argument)
        )
    return Instruction(instruction.spec, tuple(values))
