"""What lies beyond the end of an axis that is rounded up to whole tiles."""

from __future__ import annotations

from heddle.tir.schedule.rules.rule import block_of, try_primitive
from heddle.tir.schedule.schedule import SBlockRV, Schedule


def read_in_place(sch: Schedule, pad: str) -> bool:
    """Whether rows can be read where they are, the last one again beyond the end."""

    def inline() -> None:
        sch.clamp_padding(pad)
        sch.compute_inline(pad)

    return try_primitive(sch, inline)


def inline_unpad(sch: Schedule, handle: SBlockRV) -> None:
    """The copy of the unpadded part goes into the epilogue, if there is one."""
    block = block_of(sch, handle)
    if block.writes[0].buffer not in sch.func.buffers:
        sch.compute_inline(handle)
