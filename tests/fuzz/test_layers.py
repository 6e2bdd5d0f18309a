"""A few random networks of layers that differ in sizes alone."""

import pytest

from tests.fuzz.layers import try_seed


@pytest.mark.parametrize("seed", range(6))
def test_layers_agree_with_and_without_what_shares_their_code(seed):
    assert not try_seed(seed), f"python -m tests.fuzz.layers --seed {seed} --count 1"
