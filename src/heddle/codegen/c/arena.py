"""How much memory a run of a program takes, where that is known when it is compiled.

A program with fixed sizes and without branches makes the same objects in the same order in every run. This
runs it without its numbers: it makes what `heddle_runtime.h` makes, counts holders as that does, and notes
how many blocks of each size are in use at once. The runtime gives out blocks of the very size that is asked
for, so that the sum over sizes is what an arena needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from heddle.codegen.codes import G0204
from heddle.runtime.dtype import DataType
from heddle.runtime.shape import Shape
from heddle.support.diagnostics import UsageError
from heddle.vm.encode import decode_arg
from heddle.vm.isa import ArgKind, FuncKind, Instruction
from heddle.vm.program import FunctionRow, Program
from heddle.vm.relax import isa

_BLOCK, _HEAD, _STORAGE, _TENSOR, _CELL = 64, 32, 32, 48, 16
"""Bytes of heddle_runtime.h: a block's header (and unit), an object's head, a storage's and a tensor's
payload, and a value."""
Workspaces = Mapping[str, tuple[int | None, ...]]
"""By kernel: the bytes that it takes while it runs; None where they depend on sizes."""


@dataclass(eq=False, slots=True)
class _Object:
    """Something in memory: its block, and what it holds."""

    block_bytes: int
    holds: list[_Object | None] = field(default_factory=list)
    count: int = 1


def arena_bytes(program: Program, workspaces: Workspaces) -> int:
    """The bytes that any function of a program takes, its inputs' heads and its outputs among them.

    Raises: UsageError G0204 where sizes or the order of objects depend on inputs.
    """
    rows = [row for row in program.functions if row.kind is FuncKind.VMTIR and row.has_bytecode]
    called = {name for row in rows for name in _callees(program, row)}
    found = [_Run(program, workspaces).of(row) for row in rows if row.name not in called]
    return max(found, default=0)


def _callees(program: Program, row: FunctionRow) -> set[str]:
    code = [program.instruction(index) for index in range(row.start, row.end)]
    return {program.functions[step.value("func")].name for step in code if step.spec is isa.CALL}


class _Run:
    """One run of a function after another; blocks of the run before are free again."""

    def __init__(self, program: Program, workspaces: Workspaces) -> None:
        self._program, self._workspaces = program, workspaces
        self._live: Counter[int] = Counter()
        self._peak: Counter[int] = Counter()
        self._depth: list[str] = []

    def of(self, row: FunctionRow) -> int:
        self._new(_CELL * row.num_args)
        args: list[_Object | None] = [self._new(_HEAD + _TENSOR) for _ in range(row.num_args)]
        self._call(row, args)
        return sum(size * count for size, count in self._peak.items())

    # ---- objects

    def _new(self, size_bytes: int, holds: list[_Object | None] | None = None) -> _Object:
        block = (size_bytes + 2 * _BLOCK - 1) // _BLOCK * _BLOCK
        self._live[block] += 1
        self._peak[block] = max(self._peak[block], self._live[block])
        for held in holds or ():
            if held is not None:
                held.count += 1
        return _Object(block, list(holds or ()))

    def _drop(self, found: _Object | None) -> None:
        if found is None:
            return
        found.count -= 1
        if found.count == 0:
            self._live[found.block_bytes] -= 1
            for held in found.holds:
                self._drop(held)

    # ---- functions

    def _call(self, row: FunctionRow, args: list[_Object | None]) -> _Object | None:
        if row.name in self._depth:
            raise _unknown(row, "it calls itself, and how often is not known")
        self._depth.append(row.name)
        registers: dict[int, _Object | None] = dict(enumerate(args))
        for held in args:
            if held is not None:
                held.count += 1
        result = None
        for index in range(row.start, row.end):
            step = self._program.instruction(index)
            if step.spec is isa.RET:
                result = self._operand(registers, step.values[0])
                break
            if step.spec is not isa.CALL:
                raise _unknown(row, "it has branches")
            self._step(row, registers, step)
        if result is not None:
            result.count += 1
        for held in registers.values():
            self._drop(held)
        self._depth.pop()
        return result

    def _operand(self, registers: Mapping[int, _Object | None], word: int) -> _Object | None:
        kind, value = decode_arg(word)
        return registers.get(value) if kind is ArgKind.REGISTER else None

    def _step(self, row: FunctionRow, registers: dict[int, _Object | None], step: Instruction) -> None:
        dst, number, words = step.values
        callee = self._program.functions[number]
        made = self._made(row, registers, callee, words)
        before = registers.get(dst)
        if dst >= isa.VOID:
            self._drop(made)
            return
        registers[dst] = made
        self._drop(before)

    def _made(
        self,
        row: FunctionRow,
        registers: Mapping[int, _Object | None],
        callee: FunctionRow,
        words: tuple[int, ...],
    ) -> _Object | None:
        """What a call leaves in its register."""
        operands = [self._operand(registers, word) for word in words]
        name = callee.name.removeprefix("vm.builtin.")
        if callee.kind is FuncKind.VMTIR:
            return self._call(callee, operands)
        if callee.name in self._workspaces:
            self._kernel(row, callee.name)
            return None
        if name == "call_tir_dyn":
            self._kernel(row, self._program.functions[decode_arg(words[0])[1]].name)
            return None
        if name in ("alloc_storage", "alloc_tensor", "reshape"):
            return self._memory(row, registers, name, words)
        if name == "make_tuple":
            return self._new(_HEAD + 8 + _CELL * len(words), operands)
        if name in ("copy", "tuple_getitem"):
            found = operands[0]
            if name == "tuple_getitem" and found is not None:
                found = found.holds[decode_arg(words[1])[1]]
            if found is not None:
                found.count += 1
            return found
        if name in _WITHOUT_RESULT:
            return None
        raise _unknown(row, f"it calls {callee.name}, whose memory depends on inputs")

    def _memory(
        self, row: FunctionRow, registers: Mapping[int, _Object | None], name: str, words: tuple[int, ...]
    ) -> _Object:
        sizes = self._sizes(row, words[2 if name == "alloc_tensor" else 1])
        if name == "alloc_storage":
            dtype = self._constant(words[3])
            assert isinstance(dtype, DataType)
            return self._new(_HEAD + _STORAGE + prod(sizes) * dtype.itemsize)
        source = self._operand(registers, words[0])
        owner = [source] if name == "alloc_tensor" else source.holds[:1] if source is not None else []
        return self._new(_HEAD + _TENSOR + 8 * len(sizes), owner)

    def _kernel(self, row: FunctionRow, name: str) -> None:
        taken = []
        for size_bytes in self._workspaces.get(name, (None,)):
            if size_bytes is None:
                raise _unknown(row, f"kernel {name!r} takes memory that depends on sizes")
            taken.append(self._new(size_bytes))
        for each in taken:
            self._drop(each)

    def _constant(self, word: int) -> object:
        kind, value = decode_arg(word)
        return self._program.constants[value] if kind is ArgKind.CONSTANT else None

    def _sizes(self, row: FunctionRow, word: int) -> tuple[int, ...]:
        found = self._constant(word)
        if not isinstance(found, Shape):
            raise _unknown(row, "it has sizes that inputs decide")
        return tuple(found)


_WITHOUT_RESULT = ("null_value", "match_shape", "check_tensor_info", "check_shape_info", "check_tuple_info")


def _unknown(row: FunctionRow, reason: str) -> UsageError:
    return UsageError(
        G0204,
        f"the memory of function {row.name!r} is not known when it is compiled: {reason}",
        help="fix the sizes of the inputs, or leave out the arena: memory then comes from malloc",
    )
