"""A few random programs for every schedule primitive; `python -m tests.fuzz.scripts` tries more."""

import pytest

from tests.fuzz.scripts import PRIMITIVES, run


@pytest.mark.parametrize("name", PRIMITIVES)
def test_random_programs(name):
    [tally] = run([name], seed=0, count=8).values()
    assert tally.faults == []
    assert tally.applied + tally.refused.total() > 0
