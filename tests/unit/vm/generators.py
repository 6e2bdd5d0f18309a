"""Random instructions and programs of any machine, from its table alone."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

from heddle.runtime.dtype import DataType, packed_dtype
from heddle.vm.dataflow import registers_read, registers_written, successors
from heddle.vm.encode import assemble, encode_arg
from heddle.vm.isa import (
    MAX_VALUE,
    ArgKind,
    Effect,
    FuncKind,
    Instruction,
    InstructionSet,
    Kind,
    Operand,
    Spec,
)
from heddle.vm.program import FunctionRow, Program

WORDS = st.integers(-MAX_VALUE, MAX_VALUE)
DTYPES = ("bool", "int8", "uint32", "float16", "bfloat16", "float32x4", "float8_e5m2")


@st.composite
def instructions(draw: Any, isa: InstructionSet) -> Instruction:
    """Any instruction that can be encoded, whatever its operands mean."""
    spec = draw(st.sampled_from(isa.instructions))
    values = []
    for operand in spec.fields:
        if operand.is_list:
            values.append(tuple(draw(st.lists(WORDS, max_size=5))))
        elif operand.num_words > 1:
            values.append(tuple(draw(WORDS) for _ in range(operand.num_words)))
        else:
            values.append(draw(WORDS))
    return Instruction(spec, tuple(values))


class Maker:
    """Makes programs whose operands are mostly in range: some pass the verifier and some do not."""

    def __init__(self, isa: InstructionSet, rng: random.Random, mistakes: float = 0.01) -> None:
        self.isa, self.rng, self.mistakes = isa, rng, mistakes
        self.rows: list[FunctionRow] = []
        self.num_constants = rng.randrange(3)

    def program(self) -> Program:
        rng = self.rng
        lengths = [rng.randint(1, 9) for _ in range(rng.randint(1, 3))]
        start = 0
        for number, length in enumerate(lengths):
            num_args = rng.randrange(3)
            size = num_args + rng.randint(0, min(3, length))
            row = FunctionRow(FuncKind.VM, f"f{number}", num_args, start, start + length, size)
            self.rows.append(row)
            start += length
        self.rows.append(FunctionRow(FuncKind.PACKED, "outside", -2))
        code = [self._one(row, index) for row in self.rows for index in range(row.start, row.end)]
        constants = tuple(f"c{number}" for number in range(self.num_constants))
        return Program(self.isa, tuple(self.rows), constants, *assemble(code))

    def _one(self, row: FunctionRow, index: int) -> Instruction:
        specs = self.isa.instructions
        if index == row.end - 1:
            specs = tuple(spec for spec in specs if Effect.ENDS in spec.effects)
        spec = self.rng.choice(specs)
        callee = self.rng.randrange(len(self.rows))
        return Instruction(
            spec, tuple(self._value(spec, operand, row, index, callee) for operand in spec.fields)
        )

    def _value(self, spec: Spec, operand: Operand, row: FunctionRow, index: int, callee: int) -> Any:
        if not operand.is_list:
            return callee if operand.kind is Kind.CALLEE else self._item(operand, row, index)
        is_called = any(other.kind is Kind.CALLEE for other in spec.fields)
        wanted = self.rows[callee].num_args if is_called else -1
        count = wanted if wanted >= 0 else self.rng.randrange(3)
        return tuple(self._item(operand, row, index) for _ in range(count))

    def _item(self, operand: Operand, row: FunctionRow, index: int) -> Any:
        rng = self.rng
        if operand.kind is Kind.DTYPE:
            word = packed_dtype(DataType(rng.choice(DTYPES)))
            return word & 0xFF, word >> 8 & 0xFF, word >> 16
        if rng.random() < self.mistakes:
            return rng.choice((-1, 0, 1, 99, MAX_VALUE))
        if operand.kind in (Kind.READ, Kind.WRITE):
            known = (*range(row.register_file_size), *operand.special)
            return rng.choice(known) if known else 0
        if operand.kind is Kind.ARGUMENT:
            return self._argument(operand, row)
        if operand.kind is Kind.FUNCTION:
            return rng.randrange(len(self.rows))
        if operand.kind is Kind.CONSTANT:
            return rng.randrange(max(self.num_constants, 1))
        if operand.kind is Kind.OFFSET:
            return rng.randrange(row.start, row.end) - index or 1
        least = 0 if operand.least is None else operand.least
        return rng.randint(least, least + 9 if operand.most is None else operand.most)

    def _argument(self, operand: Operand, row: FunctionRow) -> int:
        kind = self.rng.choice(self.isa.arg_kinds)
        known = {
            ArgKind.REGISTER: (*range(row.register_file_size), *operand.special),
            ArgKind.IMMEDIATE: (self.rng.randint(-MAX_VALUE, MAX_VALUE),),
            ArgKind.CONSTANT: tuple(range(self.num_constants)),
            ArgKind.FUNCTION: tuple(range(len(self.rows))),
        }[kind]
        return encode_arg(kind, self.rng.choice(known) if known else 0)


def walk(program: Program, row: FunctionRow, rng: random.Random, most: int = 40) -> None:
    """Go a random way through a function and fail where a register is read that was not written, or where
    control is not at an instruction of the function."""
    written = set(range(row.num_args))
    at = row.start
    for _ in range(most):
        assert row.start <= at < row.end, f"control left {row.name!r}"
        instruction = program.instruction(at)
        for register in registers_read(instruction):
            assert register in written or register in program.isa.special, f"{register} at {at}"
        written.update(registers_written(instruction))
        after = successors(at, instruction)
        if not after:
            return
        at = rng.choice(after)
