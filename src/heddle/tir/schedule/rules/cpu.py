"""The schedule rules for CPUs, in order of preference."""

from __future__ import annotations

from heddle.tir.schedule.rules.along_rows import AlongRows
from heddle.tir.schedule.rules.attention import Attention
from heddle.tir.schedule.rules.contraction import Contraction
from heddle.tir.schedule.rules.convolution import ConvolutionRule
from heddle.tir.schedule.rules.elementwise import Elementwise
from heddle.tir.schedule.rules.interpolated_rows import InterpolatedRows
from heddle.tir.schedule.rules.plain_products import PlainProducts
from heddle.tir.schedule.rules.row_pass import RowPass
from heddle.tir.schedule.rules.rule import ScheduleRule
from heddle.tir.schedule.rules.sliding_window import SlidingWindow
from heddle.tir.schedule.rules.transpose import Transpose
from heddle.tir.schedule.rules.window import Window

CPU_RULES: tuple[ScheduleRule, ...] = (
    Transpose(),
    InterpolatedRows(),
    Elementwise(),
    ConvolutionRule(),
    AlongRows(),
    Contraction(),
    Attention(),
    Window(),
    SlidingWindow(),
    RowPass(),
)

PLAIN_RULES: tuple[ScheduleRule, ...] = (Elementwise(), PlainProducts(), RowPass())
"""Those that give little code, which compiles quickly."""
