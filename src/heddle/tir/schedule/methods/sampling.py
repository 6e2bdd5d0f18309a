"""Primitives that make random choices. The trace records each choice as a decision; replay repeats it."""

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
    """Primitives whose results are random, or come from a given decision."""

    @recorded(rewrite=sample_perfect_tile, numbers=T0419)
    def sample_perfect_tile(
        self, loop: LoopRV, n: int, max_innermost_factor: int = 16, decision: Sequence[int] | None = None
    ) -> list[Var]:
        """Sample factors whose product is a loop's extent. All tilings are equally likely."""
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
        """Sample factors of a loop's extent. The product of the inner factors is a multiple of a given
        number."""
        func, position, factor = self.func, partition_pos, innerpart_factor
        chosen = sample_partitioned_tile(func, self._random, loop.var, n, position, factor, decision)
        return self._decided(chosen)

    @recorded(rewrite=sample_categorical, numbers=T0419)
    def sample_categorical(
        self, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None
    ) -> Var:
        """Sample one of several numbers."""
        chosen = sample_categorical(self.func, self._random, len(candidates), probs, decision)
        self._revised["decision"] = chosen
        return self._sampled(candidates[chosen])

    @recorded(rewrite=sample_compute_location, numbers=T0419)
    def sample_compute_location(self, block: SBlockRV | str, decision: int | None = None) -> LoopRV:
        """Sample a location for `compute_at`: a loop of the consumer, or one of two marks (inline, or
        stay).
        """
        found = sample_compute_location(self.func, self._random, self._name(block), decision)
        self._revised["decision"] = found[0]
        mark = INLINED if found[0] == INLINE_DECISION else AT_ROOT
        return LoopRV(mark if found[1] is None else found[1])

    @recorded()
    def enter_postproc(self) -> None:
        """Mark the begin of a tuner's postprocessing. `remove_postproc` drops the instructions after it."""

    def _decided(self, factors: list[int]) -> list[Any]:
        self._revised["decision"] = factors
        return [self._sampled(factor) for factor in factors]
