"""What a schedule chooses from: tile sizes, and where a block may be computed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from random import Random

from heddle.prim.nodes import IntImm, Var
from heddle.tir.analysis.blocks import producers_and_consumers
from heddle.tir.codes import T0419
from heddle.tir.nodes import For, PrimFunc
from heddle.tir.schedule.blocks.compute_at import compute_at
from heddle.tir.schedule.blocks.inline import compute_inline
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.tree import find_block, find_loop, reads_buffer, scope_of

AT_ROOT_DECISION, INLINE_DECISION = -1, -2
"""Decisions of `sample_compute_location` that are no loop's position."""


@lru_cache(maxsize=4096)
def divisors(number: int) -> tuple[int, ...]:
    """In ascending order."""
    small = [k for k in range(1, int(number**0.5) + 1) if number % k == 0]
    return tuple(sorted({*small, *(number // k for k in small)}))


@lru_cache(maxsize=4096)
def count_tilings(extent: int, parts: int, max_last: int) -> int:
    """In how many ways an extent is a product of `parts` factors, the last at most `max_last`."""
    if parts == 1:
        return 1 if extent <= max_last else 0
    return sum(count_tilings(extent // first, parts - 1, max_last) for first in divisors(extent))


def draw_tiling(random: Random, extent: int, parts: int, max_last: int) -> list[int]:
    """One of the ways, each as likely as the others."""
    factors: list[int] = []
    for rest in range(parts - 1, 0, -1):
        options = divisors(extent)
        weights = [count_tilings(extent // first, rest, max_last) for first in options]
        factors.append(random.choices(options, weights)[0])
        extent //= factors[-1]
    return [*factors, extent]


def constant_extent_of(func: PrimFunc, loop_var: Var) -> int:
    """A loop's number of iterations. Raises: ScheduleError T0419 where it is not a positive constant."""
    loop: For = find_loop(func, loop_var).stmt
    if isinstance(loop.extent, IntImm) and loop.extent.value > 0:
        return loop.extent.value
    raise ScheduleError(
        T0419, f"loop {loop_var.name!r} has no positive constant extent: {loop.extent}", func, loop
    )


def sample_perfect_tile(
    func: PrimFunc,
    random: Random,
    loop_var: Var,
    parts: int,
    max_innermost: int,
    decision: Sequence[int] | None,
) -> list[int]:
    """for i in range(24), 2 parts   →   [1, 24] | [2, 12] | [3, 8] | [4, 6] | ...

    Factors whose product is the loop's extent. The innermost has an upper limit (0: none).
    """
    extent = constant_extent_of(func, loop_var)
    limit = max_innermost if max_innermost > 0 else extent
    if decision is not None:
        return _checked_tiling(func, loop_var, extent, parts, decision)
    if parts < 1 or count_tilings(extent, parts, limit) == 0:
        raise _nothing(func, loop_var, f"{extent} is no product of {parts} factors with the last to {limit}")
    return draw_tiling(random, extent, parts, limit)


def sample_partitioned_tile(
    func: PrimFunc,
    random: Random,
    loop_var: Var,
    parts: int,
    position: int,
    inner_factor: int,
    decision: Sequence[int] | None,
) -> list[int]:
    """for i in range(24), 3 parts, position 1, factor 4   →   [2, 3, 4] | [6, 1, 4] | [1, 2, 12] | ...

    Factors whose product is the loop's extent. The product of the factors from the given position on is a
    multiple of the given factor. If that is impossible, the first factor is the whole extent.
    """
    extent = constant_extent_of(func, loop_var)
    if not 0 <= position <= parts or parts < 1 or inner_factor < 1:
        raise _nothing(func, loop_var, f"no partition at {position} of {parts} factors by {inner_factor}")
    if decision is not None:
        return _checked_tiling(func, loop_var, extent, parts, decision)
    if extent % inner_factor or position in (0, parts):
        return (
            [extent] + [1] * (parts - 1)
            if extent % inner_factor
            else draw_tiling(random, extent, parts, extent)
        )
    rest = extent // inner_factor
    outers = divisors(rest)
    weights = [
        count_tilings(outer, position, outer) * count_tilings(extent // outer, parts - position, extent)
        for outer in outers
    ]
    outer = random.choices(outers, weights)[0]
    inner = extent // outer
    return [
        *draw_tiling(random, outer, position, outer),
        *draw_tiling(random, inner, parts - position, inner),
    ]


def _checked_tiling(
    func: PrimFunc, loop_var: Var, extent: int, parts: int, decision: Sequence[int]
) -> list[int]:
    factors = [int(factor) for factor in decision]
    if len(factors) != parts or prod(factors) != extent or min(factors, default=0) < 1:
        raise _nothing(func, loop_var, f"decision {factors} is no tiling of {extent} by {parts} factors")
    return factors


def _nothing(func: PrimFunc, loop_var: Var, why: str) -> ScheduleError:
    return ScheduleError(T0419, f"loop {loop_var.name!r}: {why}", func, find_loop(func, loop_var).stmt)


def sample_categorical(
    func: PrimFunc, random: Random, count: int, probs: Sequence[float], decision: int | None
) -> int:
    """candidates [a, b, c], probs [0.5, 0.25, 0.25]   →   a | b | c      as likely as `probs` says

    Gives the candidate's position.
    """
    if count == 0 or len(probs) != count or min(probs) < 0 or sum(probs) <= 0:
        raise ScheduleError(T0419, f"{count} candidates with probabilities {list(probs)}", func)
    if decision is None:
        return random.choices(range(count), list(probs))[0]
    if not 0 <= decision < count:
        raise ScheduleError(T0419, f"decision {decision} is none of {count} candidates", func)
    return decision


def sample_compute_location(
    func: PrimFunc, random: Random, block_name: str, decision: int | None
) -> tuple[int, Var | None]:
    """B[i] = f(A[i]);  for i, j: C[i, j] = g(B[i])   →   under i | under j | inlined (-2) | where it is (-1)

    One of the places where the block may be computed; gives the decision, and the loop where it is one. A
    decision that does not apply here becomes -1.
    """
    places: dict[int, Var | None] = {AT_ROOT_DECISION: None}
    place = find_block(func, block_name)
    if _applies(lambda: compute_inline(func, block_name)):
        places[INLINE_DECISION] = None
    buffers = [region.buffer for region in place.stmt.block.writes]
    consumers = [
        realize
        for realize in producers_and_consumers(scope_of(func, place))
        if realize is not place.stmt and any(reads_buffer(realize.block, buffer) for buffer in buffers)
    ]
    if consumers:
        loops = find_block(func, consumers[0].block.name_hint).loops()
        for k, loop in enumerate(loops):
            if _applies(lambda loop=loop: compute_at(func, block_name, loop.loop_var)):
                places[k] = loop.loop_var
    if decision is not None:
        chosen = decision if decision in places else AT_ROOT_DECISION
    else:
        chosen = random.choice(sorted(places))
    return chosen, places[chosen]


def _applies(action: object) -> bool:
    try:
        action()  # type: ignore[operator]
    except ScheduleError:
        return False
    return True
