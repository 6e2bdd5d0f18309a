"""A sample of the faults that `tests.fuzz.faults` and `tests.fuzz.scarcity` try at every call."""

from __future__ import annotations

import pytest

from tests.fuzz.interposed import numbers, start, why_not_here

pytestmark = pytest.mark.skipif(why_not_here() is not None, reason=str(why_not_here()))

SAMPLES = {
    "every kill": ("--kinds", "1", "artefact", "keys", "signature", "recording", "cache", "parameters"),
    "every kind": ("--most", "2", "artefact", "keys", "parameters", "import"),
    "a linker's": ("--most", "3", "--kinds", "1", "library"),
}


@pytest.mark.parametrize("sample", SAMPLES)
def test_files_survive_faults_of_the_system(sample: str) -> None:
    done = start("tests.fuzz.faults", *SAMPLES[sample])
    assert done.returncode == 0, done.stdout
    assert "faults" in done.stdout and ": 0 faults" not in done.stdout, done.stdout


SCARCE = {
    "views": ("view-python",),
    "python": ("--most", "6", "import-python", "link-python", "run-compiled-python", "run-bytecode-python"),
    "native": ("--most", "20", "run-compiled-native"),
    "recursion": ("--most", "6", "run-recursive-compiled-native", "run-recursive-relay-native"),
    "recursion in python": ("--most", "100", "run-recursive-compiled-python", "run-recursive-relay-python"),
}


@pytest.mark.parametrize("sample", SCARCE)
def test_memory_that_is_refused_is_told_and_nothing_is_lost(sample: str) -> None:
    done = start("tests.fuzz.scarcity", *SCARCE[sample])
    assert done.returncode == 0, done.stdout
    assert "refusals" in done.stdout and ": 0 refusals" not in done.stdout, done.stdout


def test_numbers_are_spread() -> None:
    assert numbers(5, 10) == [1, 2, 3, 4, 5]
    chosen = numbers(10_000, 20)
    assert chosen[:3] == [1, 2, 3] and chosen[-1] > 5000 and len(chosen) <= 25
    assert chosen == sorted(set(chosen))
