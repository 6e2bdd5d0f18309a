"""Whether a block runs at all points of its axes, against a count of the points that it reaches."""

from __future__ import annotations

import itertools
import random

from heddle.script import from_source
from heddle.tir.schedule.coverage import leaves_out
from heddle.tir.schedule.tree import find_block

NUM_PROGRAMS = 400


def _program(extents: list[int], index: str, size: int) -> str:
    lines = [f"@T.prim_func\ndef main(A: T.Buffer(({size},), 'int32')):"]
    lines += [f"{'    ' * depth}for i{depth} in range({extent}):" for depth, extent in enumerate(extents, 1)]
    inside = "    " * (len(extents) + 1)
    body = ("with T.sblock('B'):", f"    v = T.axis.spatial({size}, {index})", "    A[v] = 1")
    return "\n".join([*lines, *(inside + line for line in body)])


def _index(rng: random.Random, depth: int) -> str:
    """Loops by factors, some after a division; two of them may be the same loop."""
    terms = [f"i{number} * {rng.choice([1, 2, 3, 4, 6, 8, 12])}" for number in range(1, depth + 1)]
    if rng.random() < 0.3:
        place = rng.randrange(depth)
        terms[place] = f"i{place + 1} // {rng.choice([2, 3])} * {rng.choice([1, 2, 3])}"
    if rng.random() < 0.2:
        terms.append(f"i{rng.randint(1, depth)} * {rng.choice([1, 2])}")
    return " + ".join(terms)


def test_a_block_that_leaves_out_a_point_is_seen() -> None:
    """Whoever reaches all points is nearly always known to; whoever does not never is."""
    rng = random.Random()
    num_whole = num_known = 0
    for _ in range(NUM_PROGRAMS):
        depth = rng.randint(1, 4)
        extents = [rng.choice([1, 2, 3, 4, 5]) for _ in range(depth)]
        index = _index(rng, depth)
        names = [f"i{number}" for number in range(1, depth + 1)]
        reached = {
            eval(index, {}, dict(zip(names, point, strict=True)))
            for point in itertools.product(*map(range, extents))
        }
        size = max(reached) + 1 if rng.random() < 0.8 else rng.randint(1, max(reached) + 3)
        func = from_source(_program(extents, index, size))
        is_known = not leaves_out(func, find_block(func, "B"))
        is_whole = reached >= set(range(size))
        assert is_whole or not is_known, (extents, index, size)
        num_whole += is_whole
        num_known += is_known
    assert num_known > num_whole / 2
