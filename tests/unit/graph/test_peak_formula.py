"""Peaks of memory as text: sums that another one has are left out, by work that grows with the sums."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from heddle.graph import peak_formula
from heddle.graph.peak_formula import peak_text
from heddle.prim.nodes import SizeVar


class CountingSizes(Counter):
    compared = 0

    def __le__(self, other):
        CountingSizes.compared += 1
        return super().__le__(other)


def test_branches_after_each_other_are_compared_with_their_neighbours_alone(monkeypatch):
    names = [SizeVar(f"n{k}") for k in range(4000)]
    made = [CountingSizes({names[k]: 1, names[k + 1]: 1, names[0]: 1}) for k in range(1, 3999)]
    made += [CountingSizes({names[k]: 1, names[0]: 1}) for k in range(1, 4000)]
    monkeypatch.setattr(CountingSizes, "compared", 0)
    text = peak_text(made)
    assert text.count("block(n0)") == 3998  # the smaller sums are left out
    assert CountingSizes.compared < 4 * len(made)


@pytest.mark.parametrize("seed", range(10))
def test_the_sums_that_no_other_has_are_left(seed):
    rng, names = random.Random(seed), [SizeVar(f"n{k}") for k in range(6)]
    made = [Counter(rng.choices(names, k=rng.randint(1, 4))) for _ in range(400)]
    made = list({frozenset(sizes.items()): sizes for sizes in made}.values())
    assert len(made) > peak_formula._MAX_COMPARED
    expected = [sizes for sizes in made if not any(sizes < other for other in made)]
    left = peak_formula._without_dominated(made)
    assert sorted(map(made.index, left)) == sorted(map(made.index, expected))
