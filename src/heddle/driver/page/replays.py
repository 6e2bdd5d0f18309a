"""How schedule rules made the loops of kernels, instruction by instruction.

The loops after each instruction are kept while the rule runs, so that no instruction is applied twice.
"""

from __future__ import annotations

from typing import Any

from heddle.driver.page.facts import Replay, ReplayStep
from heddle.driver.page.tables import Tables
from heddle.ir.module import IRModule
from heddle.lower.default_schedule import ApplyDefaultSchedule, Scheduled
from heddle.script.printer import function_lines
from heddle.tir.nodes import PrimFunc
from heddle.tir.schedule.instruction import Instruction
from heddle.tir.schedule.schedule import Schedule

_JOINED = "# loops for several cases, joined"


class _KeptSchedule(Schedule):
    """A schedule that keeps its function after each instruction."""

    def __init__(self, mod: Any, **options: Any) -> None:
        super().__init__(mod, **options)
        self.states: list[PrimFunc] = []

    def copy(self) -> _KeptSchedule:
        other = super().copy()
        assert isinstance(other, _KeptSchedule)
        other.states = list(self.states)
        return other

    def _record(self, instruction: Instruction, decision: Any) -> None:
        super()._record(instruction, decision)
        self.states.append(self.func)


def replays_of(tables: Tables, mod: IRModule, rules: ApplyDefaultSchedule) -> list[Replay]:
    """The replays of all functions of a module that the rules schedule; of equal ones the first."""
    found: list[Replay] = []
    seen: set[int] = set()
    for var, func in mod.functions.items():
        if not isinstance(func, PrimFunc) or _text(tables, func) in seen:
            continue
        seen.add(_text(tables, func))
        made = rules.scheduled(func, _KeptSchedule)
        if made is not None:
            found.append(_replay(tables, var.name_hint, made))
    return found


def _replay(tables: Tables, kernel: str, made: Scheduled) -> Replay:
    schedule, before = made.schedule, made.start
    text = _text(tables, before)
    replay = Replay(kernel, type(made.rule).__name__, text, [])
    if not isinstance(schedule, _KeptSchedule):  # a rule joined what it made for several cases
        replay.steps.append(ReplayStep(_JOINED, _text(tables, schedule.func)))
        return replay
    for line, func in zip(schedule.trace.as_python(), schedule.states, strict=True):
        text = text if func is before else _text(tables, func)
        before = func
        replay.steps.append(ReplayStep(line, text))
    return replay


def _text(tables: Tables, func: PrimFunc) -> int:
    return tables.text(function_lines(func, "main", []).build().split("\n"))
