"""ApplyDefaultSchedule: schedule every unscheduled loop function by rules.

Loops that were split by hand are straightened first. The first rule that fits a function schedules it;
functions with the attribute `tir.is_scheduled` are left alone. The chosen rule's name stays as the attribute
`schedule_rule`.

A rule that fails gives way to the next. Why it failed is told in a warning (HeddleWarning L0401), one for a
function, and stays as the attribute `failed_rules`, which `heddle explain` shows. With
`HEDDLE_STRICT_RULES=1`, as in our tests, the failure is raised.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar

from heddle.ir.transform import FunctionPass, PassContext
from heddle.lower.codes import L0401
from heddle.prim.nodes import Var
from heddle.prim.ops import equal
from heddle.support.diagnostics import Diagnostic, HeddleWarning
from heddle.support.frozen import frozen
from heddle.support.settings import settings
from heddle.target import Target
from heddle.tir.analysis.blocks import blocks_in
from heddle.tir.nodes import PrimFunc, SBlockRealize
from heddle.tir.schedule.blocks.guarded import with_made_reads
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.rules.along_rows import FEW_ROWS, AlongRows, size_of_few_rows
from heddle.tir.schedule.rules.attention import size_of_one_query
from heddle.tir.schedule.rules.cpu import CPU_RULES
from heddle.tir.schedule.rules.one_column import either, size_of_rows, turns_for_each_row, with_one_column
from heddle.tir.schedule.rules.one_row import size_of_one_row
from heddle.tir.schedule.rules.rule import ScheduleRule
from heddle.tir.schedule.rules.straight_loops import with_straight_loops
from heddle.tir.schedule.schedule import Schedule

FAILED_RULES = "failed_rules"
Begin = Callable[[PrimFunc], Schedule]


@frozen
class Scheduled:
    """What a rule made of a function: `schedule` leads from `start` to loops that are, apart from axes that
    were merged for them, those of `func`."""

    rule: ScheduleRule
    start: PrimFunc
    schedule: Schedule
    func: PrimFunc


@frozen(slots=False)
class ApplyDefaultSchedule(FunctionPass):
    """`rules` in order of preference; by default those for CPUs. With `own_loops`, free sizes have loops of
    their own where they are 1, or few."""

    target: Target
    rules: tuple[ScheduleRule, ...] = CPU_RULES
    own_loops: bool = True
    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        if not _is_for_rules(func):
            return func
        failed: list[str] = []
        straight = _prepared(func)
        found = self._scheduled(straight, failed)
        if found is None:
            return _with_failures(func, failed, _name_of(func, mod))
        rule, made = found.rule, found.func
        if rule.wants_rows and self.own_loops:
            made = self._for_one_row(straight, made, failed)
            made = self._for_few_rows(straight, made, failed)
        if rule.wants_columns and self.own_loops:
            made = self._for_any_columns(straight, made, failed)
        marks: dict[str, Any] = {"tir.is_scheduled": True, "schedule_rule": type(rule).__name__}
        return _with_failures(made.with_attr(marks), failed, _name_of(func, mod))

    def scheduled(self, func: PrimFunc, begin: Begin = Schedule) -> Scheduled | None:
        """What the first rule that fits makes of a function, loops for single columns left out; None where
        none fits, or the pass leaves the function alone. `begin` makes the schedules that rules work on."""
        return self._scheduled(_prepared(func), [], begin) if _is_for_rules(func) else None

    def _scheduled(self, func: PrimFunc, failed: list[str], begin: Begin = Schedule) -> Scheduled | None:
        for rule in self.rules:
            made = self._over_other_axes(rule, func, failed, begin)
            if made is not None:
                return made
            plain = self._apply(rule, func, failed, begin)
            if plain is not None:
                return Scheduled(rule, func, plain, plain.func)
        return None

    def _over_other_axes(
        self, rule: ScheduleRule, func: PrimFunc, failed: list[str], begin: Begin
    ) -> Scheduled | None:
        """The function scheduled over axes that suit the rule better; None where its own do."""
        merged = rule.over_other_axes(func, self.target)
        made = None if merged is None else self._apply(rule, merged.func, failed, begin)
        if merged is None or made is None:
            return None
        return Scheduled(rule, merged.func, made, merged.taken_back(made.func))

    def _for_any_columns(self, func: PrimFunc, made: PrimFunc, failed: list[str]) -> PrimFunc:
        """The scheduled function; where its rows may have one element, with loops of their own for that."""
        size = size_of_rows(func)
        if size is None or not turns_for_each_row(made, size):
            return made
        return self._with_form_for_one(func, size, made, failed)

    def _for_one_row(self, func: PrimFunc, made: PrimFunc, failed: list[str]) -> PrimFunc:
        """The scheduled function; where it is a product or attention of any number of rows, with loops of
        their own for one."""
        found = size_of_one_row(func)
        size = size_of_one_query(func) if found is None else found
        return made if size is None else self._with_form_for_one(func, size, made, failed)

    def _with_form_for_one(self, func: PrimFunc, size: Var, made: PrimFunc, failed: list[str]) -> PrimFunc:
        """The scheduled function, and beside it that for a size of one, where a rule takes it."""
        one = self._scheduled(with_one_column(func, size), failed)
        return made if one is None else either(equal(size, 1), one.func, made)

    def _for_few_rows(self, func: PrimFunc, made: PrimFunc, failed: list[str]) -> PrimFunc:
        """The scheduled function; where it transposes weights for any number of rows, with loops for a few
        that read them as they are."""
        size = size_of_few_rows(func)
        few = None if size is None else self._apply(AlongRows(has_few_rows=True), func, failed, Schedule)
        return made if size is None or few is None else either(size <= FEW_ROWS, few.func, made)

    def _apply(self, rule: ScheduleRule, func: PrimFunc, failed: list[str], begin: Begin) -> Schedule | None:
        try:
            return rule.apply(begin(func), self.target)
        except Exception as error:  # whatever a rule did not foresee costs speed, not the model
            if settings().strict_rules:
                raise
            failed.append(f"{type(rule).__name__}: {_reason_of(error)}")
            return None


def _is_for_rules(func: PrimFunc) -> bool:
    """Whether the function has loops, and no schedule yet."""
    is_plain = isinstance(func.body, SBlockRealize) and not func.attrs.get("tir.is_scheduled")
    return is_plain and len(blocks_in(func.body)) > 1


def _prepared(func: PrimFunc) -> PrimFunc:
    """The function as rules take it."""
    return with_made_reads(with_straight_loops(func))


def _reason_of(error: Exception) -> str:
    """Why a rule failed, in one line."""
    if isinstance(error, ScheduleError):
        return error.diagnostics[0].message
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


def _name_of(func: PrimFunc, mod: Any) -> str:
    return next((var.name_hint for var, known in mod.functions.items() if known is func), "a function")


def _with_failures(func: PrimFunc, failed: list[str], name: str) -> PrimFunc:
    if not failed:
        return func
    note = Diagnostic(
        L0401,
        f"{name} may be slow: a rule for its loops failed",
        func.span,
        tuple(failed),
        "the result is right; `heddle explain` shows what the kernel costs",
        "warning",
    )
    warnings.warn(note.render(), HeddleWarning, stacklevel=2)
    result: PrimFunc = func.with_attr({FAILED_RULES: tuple(failed)})
    return result
