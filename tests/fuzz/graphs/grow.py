"""Grows a graph to a number of nodes by recipes taken at random."""

from __future__ import annotations

import random

from tests.fuzz.graphs.builder import Builder, Plan, Unfit
from tests.fuzz.graphs.recipes.registry import RECIPES
from tests.fuzz.graphs.values import ALL, FLOAT32, FLOATS

SIZES = (0, 1, 2, 3, 5, 7, 11, 13)
OPSETS = (13, 17, 18, 21, 23, 26)
OLD_OPSETS = (7, 8, 9, 10, 11, 12)
OLD_SHARE = 0.2
SAMPLES = 3


def plan_of(seed: int) -> Plan:
    """The kind of graph that a seed means."""
    rng = random.Random(seed)
    empty = rng.random() < 0.15
    sizes = []
    for _ in range(rng.randint(1, 3)):
        column = tuple(rng.choice(SIZES[0 if empty and s == SAMPLES - 1 else 1 :]) for s in range(SAMPLES))
        sizes.append((rng.choice(SIZES[2:]), *column[1:]))
    nodes = rng.choice((5, 8, 12, 20, 30, 60)) if rng.random() < 0.3 else rng.randint(5, 15)
    opset = rng.choice(OLD_OPSETS if rng.random() < OLD_SHARE else OPSETS)
    return Plan(seed, opset, nodes, tuple(sizes), rng.random() < 0.1)


def make_graph(seed: int) -> Builder:
    """The graph of a seed: the same in every process."""
    plan = plan_of(seed)
    rng = random.Random(seed + 1)
    b = Builder(plan, rng)
    main = FLOAT32 if rng.random() < 0.7 else rng.choice(FLOATS)
    for rank in rng.sample((1, 2, 3, 4), rng.randint(1, 2)):
        b.fresh(main, [b.size() for _ in range(rank)], constant=False)
    b.fresh(rng.choice(ALL), [b.size() for _ in range(rng.randint(0, 2))])
    grow(b, plan.nodes)
    return b


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
