"""What an instruction reads and writes and where control goes after it, by the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from heddle.vm.encode import decode_arg
from heddle.vm.isa import ArgKind, Effect, Instruction, Kind, Operand


def registers_read(instruction: Instruction) -> Iterator[int]:
    """The registers that an instruction reads, special ones too, as often as it names them."""
    for operand, value in instruction.items():
        if operand.kind is Kind.READ:
            yield value
        elif operand.kind is Kind.ARGUMENT:
            kind, number = decode_arg(value)
            if kind is ArgKind.REGISTER:
                yield number


def registers_written(instruction: Instruction) -> Iterator[int]:
    """The registers that an instruction writes, special ones too."""
    for operand, value in zip(instruction.spec.fields, instruction.values, strict=True):
        if operand.kind is Kind.WRITE:
            yield value


def jump_offsets(instruction: Instruction) -> Iterator[int]:
    """How far an instruction may jump, one number a place."""
    if instruction.spec.jumps:
        for operand, value in instruction.items():
            if operand.kind is Kind.OFFSET:
                yield value


def successors(index: int, instruction: Instruction) -> tuple[int, ...]:
    """The instructions that may come after the one at `index`."""
    targets = tuple(index + offset for offset in jump_offsets(instruction))
    return targets if Effect.ENDS in instruction.spec.effects else (index + 1, *targets)


def callee_of(instruction: Instruction) -> int | None:
    """The row of the function table that an instruction calls."""
    for operand, value in zip(instruction.spec.fields, instruction.values, strict=True):
        if operand.kind is Kind.CALLEE:
            row: int = value
            return row
    return None


def num_arguments(instruction: Instruction) -> int:
    """How many items an instruction's list of arguments has, whatever they are."""
    pairs = zip(instruction.spec.fields, instruction.values, strict=True)
    return sum(len(value) for operand, value in pairs if operand.is_list)


def arguments(instruction: Instruction) -> Iterator[tuple[ArgKind, int]]:
    """The items of an instruction's lists of registers and argument words, in order."""
    for operand, value in instruction.items():
        if operand.is_list and operand.kind is Kind.ARGUMENT:
            yield decode_arg(value)
        elif operand.is_list and operand.kind is Kind.READ:
            yield ArgKind.REGISTER, value


def with_registers(instruction: Instruction, number_of: Callable[[int], int]) -> Instruction:
    """The instruction with other registers."""

    def renamed(operand: Operand, value: int) -> int:
        if operand.kind in (Kind.READ, Kind.WRITE):
            return number_of(value)
        if operand.kind is Kind.ARGUMENT and decode_arg(value)[0] is ArgKind.REGISTER:
            return number_of(decode_arg(value)[1])
        return value

    def of(operand: Operand, value: Any) -> Any:
        if operand.is_list:
            return tuple(renamed(operand, item) for item in value)
        return renamed(operand, value)

    pairs = zip(instruction.spec.fields, instruction.values, strict=True)
    return replace(instruction, values=tuple(of(operand, value) for operand, value in pairs))
