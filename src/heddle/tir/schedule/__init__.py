"""Schedules of loop functions: primitives, traces, and the rules that choose them."""

from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.schedule import LoopRV, SBlockRV, Schedule
from heddle.tir.schedule.trace import Instruction, Trace

__all__ = ["Instruction", "LoopRV", "SBlockRV", "Schedule", "ScheduleError", "Trace"]
