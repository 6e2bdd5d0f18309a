"""Every sample of an operator as a graph function of one module, static and with symbolic dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from heddle.graph.block_builder import BlockBuilder
from heddle.graph.infer import type_of
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.op_def import OpDef
from heddle.ir.types import Type
from heddle.support.diagnostics import IRTypeError
from tests.ops.cases import Case, Typed, typed
from tests.ops.sizes import Run, runs


def result_type(typed: Typed) -> Type:
    """The type that inference gives the call."""
    builder = BlockBuilder()
    with builder.scope():
        return type_of(builder.value(replace(typed.call, ty=None)))


@dataclass(frozen=True)
class Program:
    """A function `name` of the operator's module and what it must compute."""

    name: str
    case: Case
    typed: Typed
    runs: tuple[Run, ...]


def typed_program(case: Case, dynamic: bool, is_apart: bool = False) -> Program | None:
    """None where the operator takes no symbolic dimensions here, or the sample has none. With `is_apart`
    every dimension is a symbol of its own.
    """
    arguments = case.arguments()
    made = typed(case, arguments, dynamic, is_apart)
    if dynamic and not (made.sizes or is_apart):
        return None
    try:
        result_type(made)
    except IRTypeError as error:
        if dynamic and error.code == "E0103":  # needs a constant
            return None
        raise
    want = case.record.reference(made.call.attrs, *arguments)
    name = f"s{case.index}_{case.dtype}_{'dynamic' if dynamic else 'static'}"
    return Program(name, case, made, () if is_apart else tuple(runs(case, made, arguments, want)))


def programs(record: OpDef) -> list[Program]:
    """All samples × dtypes of an operator, static and, where it can be, symbolic."""
    assert isinstance(record.samples, tuple)
    found = [
        typed_program(Case(record, sample, dtype, index), dynamic)
        for index, sample in enumerate(record.samples)
        for dtype in sample.dtypes
        for dynamic in (False, True)
    ]
    return [program for program in found if program is not None]


def module_of(made: list[Program]) -> IRModule:
    """One module with a function for each program."""
    builder = BlockBuilder()
    for program in made:
        with builder.function(program.name, program.typed.params):
            with builder.dataflow():
                result: Any = builder.emit_output(program.typed.call)
            builder.emit_func_output(result)
    return builder.get()
