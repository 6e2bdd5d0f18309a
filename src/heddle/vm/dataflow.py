"""What an instruction reads and writes and where control goes after it, by the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from heddle.vm.encode import decode_arg
from heddle.vm.isa import ArgKind, Effect, Instruction

_REGISTER, _ENDS = ArgKind.REGISTER, Effect.ENDS


def registers_read(instruction: Instruction) -> Iterator[int]:
    """The registers that an instruction reads, special ones too, as often as it names them."""
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
    """The registers that an instruction writes, special ones too."""
    values = instruction.values
    return [values[index] for index in instruction.spec.places.writes]


def jump_offsets(instruction: Instruction) -> list[int]:
    """How far an instruction may jump, one number a place."""
    values = instruction.values
    return [values[index] for index in instruction.spec.places.offsets]


def successors(index: int, instruction: Instruction) -> tuple[int, ...]:
    """The instructions that may come after the one at `index`."""
    targets = tuple(index + offset for offset in jump_offsets(instruction))
    return targets if _ENDS in instruction.spec.effects else (index + 1, *targets)


def callee_of(instruction: Instruction) -> int | None:
    """The row of the function table that an instruction calls."""
    place = instruction.spec.places.callee
    row: int | None = None if place is None else instruction.values[place]
    return row


def num_arguments(instruction: Instruction) -> int:
    """How many items an instruction's lists have, whatever they are."""
    return sum(len(instruction.values[index]) for index in instruction.spec.places.lists)


def arguments(instruction: Instruction) -> Iterator[tuple[ArgKind, int]]:
    """The items of an instruction's lists of registers and argument words, in order."""
    for index, is_list, is_argument in instruction.spec.places.reads:
        if is_list:
            for word in instruction.values[index]:
                yield decode_arg(word) if is_argument else (_REGISTER, word)


def with_registers(instruction: Instruction, number_of: Callable[[int], int]) -> Instruction:
    """The instruction with other registers."""

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
