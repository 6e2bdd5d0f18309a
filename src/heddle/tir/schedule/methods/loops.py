"""Primitives on loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.ir.node import replace
from heddle.prim.nodes import PrimExpr
from heddle.tir.codes import T0403, T0420, T0422
from heddle.tir.nodes import ForKind
from heddle.tir.schedule.base import ScheduleBase, recorded
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.handles import LoopRV, SBlockRV
from heddle.tir.schedule.nests import loops as on_loops
from heddle.tir.schedule.nests.bind import bind
from heddle.tir.schedule.nests.merge import merge
from heddle.tir.schedule.nests.partition import loop_partition
from heddle.tir.schedule.tree import replace_stmt


class LoopMethods(ScheduleBase):
    """Primitives that cut, join, order and mark loops."""

    @recorded(rewrite=on_loops.split, numbers=T0403)
    def split(
        self,
        loop: LoopRV,
        factors: Sequence[int | PrimExpr | None],
        preserve_unit_iters: bool = True,
        disable_predication: bool = False,
    ) -> list[LoopRV]:
        """Split a loop into nested loops, one per factor; one factor may be None (inferred).

        With `disable_predication`, no condition guards iterations beyond the extent. The caller must ensure
        that there are none, or that they do no harm.
        """
        func, new = on_loops.split(self.func, loop.var, factors, disable_predication)
        self._update(func)
        return [LoopRV(var) for var in new]

    @recorded(rewrite=on_loops.split_overlapping, numbers=T0403)
    def split_overlapping(self, loop: LoopRV, factor: int) -> list[LoopRV]:
        """Split a loop into two without a condition: the last inner loop repeats iterations of the one before
        it. The caller must ensure that repeating them is harmless."""
        func, new = on_loops.split_overlapping(self.func, loop.var, factor)
        self._update(func)
        return [LoopRV(var) for var in new]

    @recorded(rewrite=on_loops.split_part, numbers=T0403)
    def split_part(self, loop: LoopRV, factor: int, begin: PrimExpr, count: PrimExpr) -> list[LoopRV]:
        """Make two nested loops over a part of the iterations: `count` times `factor` iterations from `begin`
        on. The last inner loop may repeat some. The caller must ensure that the other iterations run
        elsewhere."""
        func, new = on_loops.split_part(self.func, loop.var, factor, begin, count)
        self._update(func)
        return [LoopRV(var) for var in new]

    @recorded(rewrite=on_loops.split_ragged, numbers=T0403)
    def split_ragged(self, loop: LoopRV, factor: int) -> list[LoopRV]:
        """Split a loop into two without a condition: the last inner loop is shorter."""
        func, new = on_loops.split_ragged(self.func, loop.var, factor)
        self._update(func)
        return [LoopRV(var) for var in new]

    @recorded(rewrite=on_loops.fuse)
    def fuse(self, *loops: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
        """Fuse directly nested loops into one loop over the product of their extents."""
        func, fused = on_loops.fuse(self.func, [loop.var for loop in loops])
        self._update(func)
        return LoopRV(fused)

    @recorded(rewrite=on_loops.reorder)
    def reorder(self, *ordered_loops: LoopRV) -> None:
        """Reorder the loops of a nest."""
        self._update(on_loops.reorder(self.func, [loop.var for loop in ordered_loops]))

    @recorded(rewrite=loop_partition, numbers=T0420)
    def loop_partition(
        self, loop: LoopRV, factors: Sequence[int | PrimExpr | None], preserve_unit_iters: bool = True
    ) -> list[LoopRV]:
        """Partition a loop into consecutive loops, each over the next `factor` iterations; one factor may be
        None (inferred)."""
        func, new = loop_partition(self.func, loop.var, factors)
        self._update(func)
        return [LoopRV(var) for var in new]

    @recorded(rewrite=merge)
    def merge(self, *loops: LoopRV) -> LoopRV:
        """Merge adjacent loop nests into one nest that does the work of all."""
        func, merged = merge(self.func, [loop.var for loop in loops])
        self._update(func)
        return LoopRV(merged)

    @recorded(rewrite=on_loops.add_unit_loop)
    def add_unit_loop(self, block_or_loop: SBlockRV | LoopRV) -> LoopRV:
        """Add a loop with one iteration around a block or loop."""
        func, var = on_loops.add_unit_loop(
            self.func, self.get(block_or_loop), isinstance(block_or_loop, LoopRV)
        )
        self._update(func)
        return LoopRV(var)

    # ---- kinds

    @recorded(rewrite=on_loops.set_kind)
    def parallel(self, loop: LoopRV) -> None:
        """Run a loop's iterations in parallel on several threads."""
        self._update(on_loops.set_kind(self.func, loop.var, ForKind.PARALLEL))

    @recorded(rewrite=on_loops.set_kind)
    def vectorize(self, loop: LoopRV) -> None:
        """Run a loop's iterations as vector lanes. The extent must be constant."""
        self._update(on_loops.set_kind(self.func, loop.var, ForKind.VECTORIZED))

    @recorded(rewrite=on_loops.set_kind)
    def unroll(self, loop: LoopRV) -> None:
        """Repeat a loop's body for each iteration."""
        self._update(on_loops.set_kind(self.func, loop.var, ForKind.UNROLLED))

    @recorded(rewrite=bind)
    def bind(self, loop: LoopRV, thread_axis: str) -> None:
        """Bind a loop to a thread axis of an accelerator."""
        self._update(bind(self.func, loop.var, thread_axis))

    @recorded(rewrite=on_loops.narrow, numbers=T0403)
    def narrow(self, loop: LoopRV, extent: int | PrimExpr) -> None:
        """Run only the first iterations of a loop. The caller must ensure that the others change nothing."""
        self._update(on_loops.narrow(self.func, loop.var, extent))

    # ---- hints

    @recorded()
    def annotate(self, block_or_loop: SBlockRV | LoopRV, ann_key: str, ann_val: Any) -> None:
        """Attach a hint to a block or loop.

        for i in range(n)   →   for i in serial(n, annotations={key: value})
        """
        self._annotate(block_or_loop, ann_key, ann_val)

    @recorded()
    def unannotate(self, block_or_loop: SBlockRV | LoopRV, ann_key: str) -> None:
        """Remove a hint from a block or loop.

            for i in serial(n, annotations={key: value})   →   for i in range(n)

        Raises: ScheduleError T0422 if there is no such hint.
        """
        stmt = self.get(block_or_loop)
        if ann_key not in dict(stmt.annotations):
            raise ScheduleError(T0422, f"no annotation is called {ann_key!r}", self.func, stmt)
        self._annotate(block_or_loop, ann_key, None)

    def _annotate(self, target: SBlockRV | LoopRV, key: str, value: Any) -> None:
        stmt = self.get(target)
        notes = stmt.annotations.without(key) if value is None else stmt.annotations.with_item(key, value)
        self._update(replace_stmt(self.func, stmt, replace(stmt, annotations=notes)))
