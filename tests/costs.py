"""What the cases of costly tests take: the table `costs.toml`, which of the cases run, and how it is written.

A test is in the table where all of its cases together take over `LISTED_S`. One that is not, also a new one,
runs with all of its cases: a table of cases that is new or changed is never green because a few were tried.

A listed test has a share of the time: at most `SHARE_S`, or what one case takes. Where all shares together go
over the budget that the table states, the largest become smaller until they fit. A share that is smaller than
a case lets one run in some turns only. `--turn N` counts through all cases of every test. A test that is
marked `whole` has all of its cases in every run, and the others share what it leaves.
"""

from __future__ import annotations

import math
import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

import pytest

TABLE = Path(__file__).parent / "costs.toml"
SHARE_S = 2.0
"""So much time the cases of one test may take without `--all`. One case runs, where the budget has room."""
LISTED_S = 0.5
"""A test whose cases together take less is not in the table."""
OTHER_CASE_S = 0.02
"""What a case of a test that is not listed is taken to need."""
EARLY_S = 4.0
"""A case that takes longer runs before the others: begun late, it would keep one worker busy at the end."""
_BUDGET = "default_budget_s"
_HEAD = f"""\
# Seconds that a case of a costly test takes, setting up included: `pytest --all --record-costs` writes this.
# Tests that are not listed run with all of their cases (see tests/costs.py). What runs without `--all` fits
# {_BUDGET}, summed over workers.

"""


@dataclass(frozen=True, slots=True)
class Costs:
    """`budget_s`: what all that runs without `--all` may take, summed over workers. `cases`: seconds for a
    case of each costly test, by its name: `tests/room/test_file.py::test_name`."""

    budget_s: float = math.inf
    cases: Mapping[str, float] = field(default_factory=dict)


def read_costs(path: Path = TABLE) -> Costs:
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    budget_s = float(table.pop(_BUDGET, math.inf))
    cases = {f"{file}::{name}": float(cost) for file, rows in table.items() for name, cost in rows.items()}
    return Costs(budget_s, cases)


def write_costs(costs: Costs, path: Path = TABLE) -> None:
    """Write the table, sorted by name."""
    by_file = defaultdict(list)
    for test, cost in sorted(costs.cases.items()):
        file, _, name = test.partition("::")
        by_file[file].append(f'"{name}" = {cost:.2g}' if ":" in name else f"{name} = {cost:.2g}")
    head = _HEAD if math.isinf(costs.budget_s) else f"{_HEAD}{_BUDGET} = {costs.budget_s:g}\n\n"
    parts = [f'["{file}"]\n' + "\n".join(rows) + "\n" for file, rows in by_file.items()]
    path.write_text(head + "\n".join(parts), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Choice:
    """The items that run, and a line about those that do not."""

    kept: Sequence[pytest.Item]
    line: str


def choose(items: Sequence[pytest.Item], costs: Costs, turn: int) -> Choice:
    """What runs of the tests that were collected, in the same order. Those that are marked `long` do not."""
    cases_of = defaultdict(list)
    for item in items:
        if item.get_closest_marker("long") is None:
            cases_of[item.nodeid.partition("[")[0]].append(item)
    counts = {test: len(cases) for test, cases in cases_of.items()}
    whole = {test for test, cases in cases_of.items() if cases[0].get_closest_marker("whole") is not None}
    share_of = shares(counts, costs, whole)
    kept: set[pytest.Item] = set()
    taken_s = 0.0
    for test, cases in cases_of.items():
        case_s = costs.cases.get(test, OTHER_CASE_S)
        some = some_cases(cases, case_s, share_of[test], turn) if test in costs.cases else cases
        taken_s += case_s * len(some)
        kept.update(some)
    left_out = len(items) - len(kept)
    line = (
        f"{left_out} of {len(items)} cases are left out: what runs takes about {taken_s:.0f} s of a core "
        f"by tests/costs.toml; --turn N takes other cases, --budget S more, --all takes all"
        if left_out
        else ""
    )
    return Choice([item for item in items if item in kept], line)


def costly_first(items: Sequence[pytest.Item], costs: Costs) -> list[pytest.Item]:
    """The items with those first that take over `EARLY_S`, the longest before all others. The rest stays in
    order, as modules share fixtures."""

    def place(item: pytest.Item) -> float:
        case_s = costs.cases.get(item.nodeid.partition("[")[0], OTHER_CASE_S)
        return -case_s if case_s > EARLY_S else 0.0

    return sorted(items, key=place)


def shares(counts: Mapping[str, int], costs: Costs, whole: Collection[str] = frozenset()) -> dict[str, float]:
    """The seconds for each test, from the number of its cases. Those not listed get what they take, and so do
    those of `whole`."""
    shared = {test for test in counts if test in costs.cases and test not in whole}
    wanted = {}
    for test, count in counts.items():
        case_s = costs.cases.get(test, OTHER_CASE_S)
        wanted[test] = min(case_s * count, max(SHARE_S, case_s)) if test in shared else case_s * count
    left_s = costs.budget_s - sum(wanted[test] for test in counts if test not in shared)
    listed = sorted(wanted[test] for test in shared)
    level = math.inf
    for place, share in enumerate(listed):
        if share * (len(listed) - place) > left_s:
            level = max(left_s, 0.0) / (len(listed) - place)
            break
        left_s -= share
    return {test: min(share, level) if test in shared else share for test, share in wanted.items()}


def some_cases(
    cases: Sequence[pytest.Item], case_s: float, share_s: float, turn: int
) -> Sequence[pytest.Item]:
    """The cases of one test that fit its share: on the average of all turns, where that is smaller than a
    case. All have their turn as the number counts up."""
    if case_s * len(cases) <= share_s * (1 + 1e-9):
        return cases
    each_turn = share_s / case_s
    if each_turn >= 1:
        each_turn = int(each_turn * (1 + 1e-9))
    first = crc32(cases[0].nodeid.partition("[")[0].encode()) / 2**32  # not all rare ones in the same turn
    start, end = (math.floor(number * each_turn + first) for number in (turn, turn + 1))
    ranked = sorted(cases, key=lambda case: crc32(case.nodeid.encode()))
    return [ranked[place % len(ranked)] for place in range(start, end)]


def merged(
    costs: Mapping[str, float], seconds: Mapping[str, Sequence[float]], has_all: bool = True
) -> dict[str, float]:
    """The table with what a run took, by test: tests that it did not run stay as they were. `has_all`: it had
    all cases of its tests; of a part that takes little it is not known what all of them take."""
    found = {test: cost for test, cost in costs.items() if test not in seconds}
    for test, each in seconds.items():
        if sum(each) > LISTED_S or (test in costs and not has_all):
            found[test] = sum(each) / len(each)
    return found


class CostRecorder:
    """Adds up what each case takes, in workers too, and writes the table when the run ends."""

    def __init__(self, has_all: bool, path: Path = TABLE) -> None:
        self._has_all = has_all
        self._path = path
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        costs = read_costs(self._path)
        cases = merged(costs.cases, by_test(self._seconds.items()), self._has_all)
        write_costs(Costs(costs.budget_s, cases), self._path)


class ChoiceReporter:
    """Shows the line of a choice once, also where workers chose."""

    def __init__(self) -> None:
        self._line = ""

    def say(self, config: pytest.Config, line: str) -> None:
        self._line = line
        if hasattr(config, "workeroutput"):
            config.workeroutput["choice"] = line

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        self._line = getattr(node, "workeroutput", {}).get("choice", self._line)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._line:
            terminalreporter.write_line(self._line)


def by_test(seconds: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    """What the cases of each test took, of what each case took."""
    found: dict[str, list[float]] = defaultdict(list)
    for nodeid, taken in seconds:
        found[nodeid.partition("[")[0]].append(taken)
    return found
