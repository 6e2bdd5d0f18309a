"""What the cases of costly tests take: the table `costs.toml`, which of the cases run, and how it is written.

A test is in the table where all of its cases together take over the budget. One that is not, also a new one,
runs with all of its cases: a table of cases that is new or changed is never green because a few were tried.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from zlib import crc32

import pytest

TABLE = Path(__file__).parent / "costs.toml"
BUDGET_S = 2.0
"""So much time the cases of one test may take without `--all`; one case always runs."""
_HEAD = """\
# Seconds that a case of a costly test takes, setting up included: `pytest --all --record-costs` writes this.
# Tests that are not listed run with all of their cases (see tests/costs.py).
"""


def read_costs(path: Path = TABLE) -> dict[str, float]:
    """Seconds for a case of each costly test, by its name: `tests/room/test_file.py::test_name`."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return {f"{file}::{name}": float(cost) for file, rows in table.items() for name, cost in rows.items()}


def write_costs(costs: Mapping[str, float], path: Path = TABLE) -> None:
    """Write the table, sorted by name."""
    by_file = defaultdict(list)
    for test, cost in sorted(costs.items()):
        file, _, name = test.partition("::")
        by_file[file].append(f'"{name}" = {cost:.2g}' if ":" in name else f"{name} = {cost:.2g}")
    parts = [_HEAD, *(f'["{file}"]\n' + "\n".join(rows) + "\n" for file, rows in by_file.items())]
    path.write_text("\n".join(parts), encoding="utf-8")


def some_cases(cases: Sequence[pytest.Item], case_s: float, turn: int) -> Sequence[pytest.Item]:
    """The cases of one test that fit the budget. All have their turn as the number counts up."""
    if case_s * len(cases) <= BUDGET_S:
        return cases
    count = max(1, int(BUDGET_S / case_s))
    ranked = sorted(cases, key=lambda case: crc32(case.nodeid.encode()))
    return [ranked[(turn * count + place) % len(ranked)] for place in range(min(count, len(ranked)))]


def merged(costs: Mapping[str, float], seconds: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The table with what a run took, by test: tests that it did not run stay as they were."""
    found = {test: cost for test, cost in costs.items() if test not in seconds}
    for test, each in seconds.items():
        if sum(each) > BUDGET_S and len(each) > 1:
            found[test] = sum(each) / len(each)
    return found


class CostRecorder:
    """Adds up what each case takes, in workers too, and writes the table when the run ends."""

    def __init__(self, path: Path = TABLE) -> None:
        self._path = path
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        write_costs(merged(read_costs(self._path), by_test(self._seconds.items())), self._path)


def by_test(seconds: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    """What the cases of each test took, of what each case took."""
    found: dict[str, list[float]] = defaultdict(list)
    for nodeid, taken in seconds:
        found[nodeid.partition("[")[0]].append(taken)
    return found
