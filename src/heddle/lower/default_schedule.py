"""ApplyDefaultSchedule: every loop function that has no schedule yet gets one by rule.

The first rule that fits a function schedules it; functions with the attribute `tir.is_scheduled` are left
alone. The
chosen rule's name stays as the attribute `schedule_rule`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from heddle.ir.transform import FunctionPass, PassContext
from heddle.target import Target
from heddle.tir.nodes import PrimFunc, SBlockRealize
from heddle.tir.schedule.rules.attention import Attention
from heddle.tir.schedule.rules.contraction import Contraction
from heddle.tir.schedule.rules.convolution import ConvolutionRule
from heddle.tir.schedule.rules.elementwise import Elementwise
from heddle.tir.schedule.rules.row_pass import RowPass
from heddle.tir.schedule.rules.rule import ScheduleRule
from heddle.tir.schedule.rules.transpose import Transpose
from heddle.tir.schedule.rules.window import Window
from heddle.tir.schedule.schedule import Schedule
from heddle.tir.schedule.tree import blocks_in

CPU_RULES: tuple[ScheduleRule, ...] = (
    Transpose(),
    Elementwise(),
    ConvolutionRule(),
    Contraction(),
    Attention(),
    Window(),
    RowPass(),
)


@dataclass(frozen=True)
class ApplyDefaultSchedule(FunctionPass):
    """`rules` in order of preference; by default those for CPUs."""

    target: Target
    rules: tuple[ScheduleRule, ...] = CPU_RULES
    function_kind: ClassVar[type] = PrimFunc

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        if func.attrs.get("tir.is_scheduled") or not isinstance(func.body, SBlockRealize):
            return func
        if len(blocks_in(func.body)) < 2:
            return func
        for rule in self.rules:
            scheduled = rule.apply(Schedule(func), self.target)
            if scheduled is not None:
                marks = {"tir.is_scheduled": True, "schedule_rule": type(rule).__name__}
                result: PrimFunc = scheduled.func.with_attr(marks)
                return result
        return func
