"""Schedules of loop functions: primitives, traces, and the rules that choose them."""

from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.instruction import Instruction
from heddle.tir.schedule.schedule import ExprRV, LoopRV, SBlockRV, Schedule
from heddle.tir.schedule.trace import Trace

__all__ = ["ExprRV", "Instruction", "LoopRV", "SBlockRV", "Schedule", "ScheduleError", "Trace"]
