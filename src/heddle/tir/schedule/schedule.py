"""Schedule: a loop function and the rewrites that were applied to it.

    sch = Schedule(func)
    block = sch.get_sblock("C")
    i, j, k = sch.get_loops(block)
    i_0, i_1 = sch.split(i, [None, 8])
    sch.parallel(i_0)
    sch.mod, sch.trace

Handles (`SBlockRV`, `LoopRV`) stay valid as long as their block or loop exists. Each primitive checks that it
preserves the program's meaning; otherwise it raises ScheduleError and changes nothing. The trace can be
replayed on an equal function. Primitives are in `methods/` by topic; the rewrite of each primitive is in a
file of its name.
"""

from __future__ import annotations

from heddle.tir.analysis.blocks import blocks_in
from heddle.tir.codes import T0401
from heddle.tir.nodes import SBlockRealize
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.handles import ExprRV, LoopRV, SBlockRV
from heddle.tir.schedule.methods.blocks import BlockMethods
from heddle.tir.schedule.methods.buffers import BufferMethods
from heddle.tir.schedule.methods.layouts import LayoutMethods
from heddle.tir.schedule.methods.loops import LoopMethods
from heddle.tir.schedule.methods.queries import QueryMethods
from heddle.tir.schedule.methods.sampling import SamplingMethods
from heddle.tir.schedule.tree import find_block, root_block


class Schedule(QueryMethods, LoopMethods, BlockMethods, BufferMethods, LayoutMethods, SamplingMethods):
    """A program, the handles of its blocks and loops, and the trace of the applied primitives."""

    def work_on(self, func_name: str) -> None:
        """Select the function that the following primitives rewrite."""
        self._mod.get_global_var(func_name)
        self._target = func_name

    def copy(self) -> Schedule:
        """Return an independent schedule of the same program. Handles are valid in both."""
        other = type(self)(self._mod, seed=self.fork_seed())
        other._target, other._is_checked = self._target, self._is_checked
        other._values = dict(self._values)
        other.trace = self.trace.copy()
        return other

    def realization(self, handle: SBlockRV) -> SBlockRealize:
        """Return the realization of a block: the values of its axes, and its predicate."""
        realize: SBlockRealize = find_block(self.func, handle.name).stmt
        return realize

    def show(self, style: str | None = None, black_format: bool | None = None) -> None:
        """Print the current module and then the trace."""
        self.mod.show(style, black_format)
        self.trace.show(style, black_format)

    def blocks(self) -> list[SBlockRV]:
        """Return all blocks except the root, in text order."""
        root = root_block(self.func)
        return [SBlockRV(r.block.name_hint) for r in blocks_in(self.func.body) if r.block is not root]

    def loop_of(self, block: SBlockRV | str, index: int) -> LoopRV:
        """Return one of a block's loops by index. Raises: ScheduleError T0401."""
        loops = find_block(self.func, self._name(block)).loops()
        if not -len(loops) <= index < len(loops):
            raise ScheduleError(T0401, f"block has {len(loops)} loops, no loop {index}", self.func)
        return LoopRV(loops[index].loop_var)


__all__ = ["ExprRV", "LoopRV", "SBlockRV", "Schedule"]
