"""Primitives that choose. What was chosen is the decision in the trace; replay takes it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.prim.nodes import Var
from heddle.tir.codes import T0419
from heddle.tir.schedule.base import ScheduleBase, recorded
from heddle.tir.schedule.handles import AT_ROOT, INLINED, LoopRV, SBlockRV
from heddle.tir.schedule.sampling import (
    INLINE_DECISION,
    sample_categorical,
    sample_compute_location,
    sample_partitioned_tile,
    sample_perfect_tile,
)


class SamplingMethods(ScheduleBase):
    """Primitives whose results come from the schedule's random numbers, or from a given decision."""

    @recorded(rewrite=sample_perfect_tile, numbers=T0419)
    def sample_perfect_tile(
        self, loop: LoopRV, n: int, max_innermost_factor: int = 16, decision: Sequence[int] | None = None
    ) -> list[Var]:
        """Factors of a loop's extent, each tiling as likely as the others."""
        func, var = self.func, loop.var
        chosen = sample_perfect_tile(func, self._random, var, n, max_innermost_factor, decision)
        return self._decided(chosen)

    @recorded(rewrite=sample_partitioned_tile, numbers=T0419)
    def sample_partitioned_tile(
        self,
        loop: LoopRV,
        n: int,
        partition_pos: int = 0,
        innerpart_factor: int = 1,
        decision: Sequence[int] | None = None,
    ) -> list[Var]:
        """Factors of a loop's extent, of which the inner ones together are a multiple of a number."""
        func, position, factor = self.func, partition_pos, innerpart_factor
        chosen = sample_partitioned_tile(func, self._random, loop.var, n, position, factor, decision)
        return self._decided(chosen)

    @recorded(rewrite=sample_categorical, numbers=T0419)
    def sample_categorical(
        self, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None
    ) -> Var:
        """Choose one of the candidates at random."""
        chosen = sample_categorical(self.func, self._random, len(candidates), probs, decision)
        self._revised["decision"] = chosen
        return self._sampled(candidates[chosen])

    @recorded(rewrite=sample_compute_location, numbers=T0419)
    def sample_compute_location(self, block: SBlockRV | str, decision: int | None = None) -> LoopRV:
        """Choose a place for `compute_at`: a loop of the consumer, -2 (inlined) or -1 (left where it is)."""
        found = sample_compute_location(self.func, self._random, self._name(block), decision)
        self._revised["decision"] = found[0]
        mark = INLINED if found[0] == INLINE_DECISION else AT_ROOT
        return LoopRV(mark if found[1] is None else found[1])

    @recorded()
    def enter_postproc(self) -> None:
        """Mark where a tuner's postprocessing begins; `remove_postproc` drops what follows."""

    def _decided(self, factors: list[int]) -> list[Any]:
        self._revised["decision"] = factors
        return [self._sampled(factor) for factor in factors]
