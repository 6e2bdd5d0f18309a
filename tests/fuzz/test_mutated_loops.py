"""A few loops that only look like those of operators."""

import random

import numpy as np
import pytest

from heddle.ir import structural_equal
from tests.fuzz import mutated_loops
from tests.fuzz.mutated_loops import FAMILIES, try_seed


@pytest.mark.parametrize("seed", range(20))
def test_loops_are_taken_for_what_they_are(seed, monkeypatch):
    monkeypatch.setenv("HEDDLE_STRICT_RULES", "1")
    assert not try_seed(seed), f"python -m tests.fuzz.mutated_loops --seed {seed} --count 1"


@pytest.mark.parametrize("family", dict.fromkeys(FAMILIES), ids=lambda family: family.__name__[1:])
def test_each_family_is_changed(family):
    changed = 0
    for seed in range(4):
        rng = random.Random(seed)
        mod = mutated_loops.module_of(family(rng), np.random.default_rng(seed))
        after, changes = mutated_loops.mutated(mod, rng)
        assert bool(changes) != structural_equal(after, mod)
        changed += bool(changes)
    assert changed > 0
