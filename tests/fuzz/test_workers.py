"""Mutations in processes: none is lost, and one that ends its process or hangs is named."""

from __future__ import annotations

import os

import pytest

from tests.fuzz.workers import Count, Watch, run_numbers


class _Fuzzer:
    """Ends its process at one number, and never comes back from another."""

    def __init__(self, deadly: int, endless: int) -> None:
        self.count = Count()
        self._deadly, self._endless = deadly, endless

    def one(self, number: int) -> None:
        if number == self._deadly:
            os._exit(7)
        while number == self._endless:
            pass
        self.count.outcomes["accepted"] += 1


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_every_mutation_runs_once(jobs: int) -> None:
    total = run_numbers(_Fuzzer(-1, -1), range(5, 36), jobs, Watch(lambda: None))
    assert total.outcomes == {"accepted": 31} and not total.faults


def test_crashes_and_hangs_are_named_and_the_others_go_on() -> None:
    total = run_numbers(_Fuzzer(12, 17), range(10, 20), 2, Watch(lambda: None, seconds=0.5))
    assert sorted(total.faults) == [
        "mutation 12: the process ends with 7",
        "mutation 17: the process hangs (0.5 s)",
    ]
    # A worker that ends takes the counts of what it did before with it.
    assert total.num_faults == 2 and total.outcomes["accepted"] == 3 + 1
