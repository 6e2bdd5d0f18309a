"""Grows a graph to a number of nodes by recipes taken at random."""

from __future__ import annotations

import random
from typing import Any

from tests.fuzz.graphs.builder import Builder, Plan, Unfit
from tests.fuzz.graphs.recipes.registry import RECIPES
from tests.fuzz.graphs.values import ALL, FLOAT32, FLOATS

SIZES = (0, 1, 2, 3, 5, 7, 11, 13)
NUMBERS = ((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 4, 8), (1, 3, 5, 7, 16))
"""Few sizes to a graph, and few sets of them: what is alike in two graphs was compiled already."""
WIDE_SIZES = (1, 17, 64, 127, 130, 255, 257)
WIDE_NUMBERS = (3, 33, 64, 128)
WIDE_SHARE = 0.04
"""Graphs of tensors that are worth several threads, tiles and loops of vectors."""
MAX_ELEMENTS, MAX_WIDE_ELEMENTS = 1024, 1 << 18
OPSETS = (13, 17, 18, 21, 23, 26)
OLD_OPSETS = (7, 8, 9, 10, 11, 12)
OLD_SHARE = 0.2
SAMPLES = 3


def plan_of(seed: int) -> Plan:
    """The kind of graph that a seed means."""
    rng = random.Random(seed)
    empty, is_wide = rng.random() < 0.15, rng.random() < WIDE_SHARE
    choices = WIDE_SIZES if is_wide else SIZES
    sizes = []
    for _ in range(rng.randint(1, 3)):
        column = tuple(0 if empty and s == SAMPLES - 1 else rng.choice(choices[1:]) for s in range(SAMPLES))
        sizes.append((rng.choice(choices[2:]), *column[1:]))
    opset = rng.choice(OLD_OPSETS if rng.random() < OLD_SHARE else OPSETS)
    return Plan(
        seed,
        opset,
        _num_nodes(rng, is_wide),
        tuple(sizes),
        rng.random() < 0.1,
        WIDE_NUMBERS if is_wide else rng.choice(NUMBERS),
        MAX_WIDE_ELEMENTS if is_wide else MAX_ELEMENTS,
    )


def is_wide(seed: int) -> bool:
    return plan_of(seed).max_elements == MAX_WIDE_ELEMENTS


def _num_nodes(rng: random.Random, is_wide: bool) -> int:
    """Mostly few, which costs little and shows most faults; some graphs of the size of a network's block."""
    lot = rng.random()
    if lot < 0.82 or is_wide:
        return rng.randint(3, 7)
    return rng.randint(8, 14) if lot < 0.98 else rng.choice((30, 60))


def make_graph(seed: int) -> Builder:
    """The graph of a seed: the same in every process."""
    plan = plan_of(seed)
    rng = random.Random(seed + 1)
    b = Builder(plan, rng)
    main = FLOAT32 if rng.random() < 0.7 else rng.choice(FLOATS)
    for rank in (2, 3) if is_wide(seed) else rng.sample((1, 2, 3, 4), rng.randint(1, 2)):
        _given(b, main, rank, constant=False)
    _given(b, rng.choice(ALL), rng.randint(0, 2))
    grow(b, plan.nodes)
    return b


def _given(b: Builder, dtype: Any, rank: int, constant: bool | None = None) -> None:
    """An input; one of fewer dimensions where those drawn are too large together."""
    try:
        b.fresh(dtype, [b.size() for _ in range(rank)], constant=constant)
    except Unfit:
        _given(b, dtype, rank - 1, constant)


def grow(b: Builder, nodes: int) -> None:
    """Add recipes until there are as many nodes. What fails leaves what it had already made."""
    kinds = [item for item in RECIPES.values() if item[2] or not b.plan.special]
    weights = [weight for _, weight, _ in kinds]
    for _ in range(12 * nodes):
        if len(b.nodes) >= nodes:
            return
        function = b.rng.choices(kinds, weights)[0][0]
        try:
            function(b)
        except Unfit:
            continue
