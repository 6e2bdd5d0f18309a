"""A few random expressions of each type of integers; `python -m tests.fuzz.expressions` tries more."""

import pytest

from tests.fuzz.expressions import BATCH, INTS, run


@pytest.mark.parametrize("dtype", INTS)
def test_random_expressions(dtype: str) -> None:
    assert run(INTS.index(dtype) * BATCH, BATCH, "llvm -opt-level=1") == (BATCH, [])


@pytest.mark.parametrize("dtype", INTS)
def test_random_expressions_in_c(dtype: str) -> None:
    assert run((len(INTS) + INTS.index(dtype)) * BATCH, BATCH, "c") == (BATCH, [])
