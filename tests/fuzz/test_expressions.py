"""A few random expressions of each type of integers; `python -m tests.fuzz.expressions` tries more."""

import subprocess
import sys

import pytest

from tests.fuzz.expressions import BATCH, INTS, run


@pytest.mark.parametrize("dtype", INTS)
def test_random_expressions(dtype: str) -> None:
    assert run(INTS.index(dtype) * BATCH, BATCH, "llvm -opt-level=1") == (BATCH, [])


@pytest.mark.parametrize("dtype", INTS)
def test_random_expressions_in_c(dtype: str) -> None:
    assert run((len(INTS) + INTS.index(dtype)) * BATCH, BATCH, "c") == (BATCH, [])


def test_loops_that_divide_by_two_variables() -> None:
    """LLVM's two estimates of such a loop differ, upon which it ended the process: it does not see it now."""
    arguments = ["--seed", "61568", "--count", "1", "--target", "llvm -opt-level=3"]
    made = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.expressions", *arguments], capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr[-400:]
    assert "1 expressions, 0 differences" in made.stdout
