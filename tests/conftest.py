"""Without `--all` a test of many cases runs with a few of them; `--turn N` takes others.

Every test sees the operators declared, as users of the package do. A schedule rule that fails is an error
here, also in processes that tests start: for users it gives way to the next. Property tests have few,
deterministic examples and no deadline in time: a slow machine is no failure. Whole programs are not
kept on disk: tests that replace a part of the compiler must see it run."""

import os
import signal
from collections import defaultdict
from zlib import crc32

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell ignores it for what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("HEDDLE_STRICT_RULES", "1")
os.environ.setdefault("HEDDLE_CACHE", "kernels")

from hypothesis import HealthCheck, settings

from heddle import ops

ops.load()
settings.register_profile(
    "tests", max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("tests")

CASES = 4
"""So many cases of each test run without `--all`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="all cases of each test, not a few of them")
    parser.addoption(
        "--update", action="store_true", help="write what the compiler makes into the golden cases"
    )
    parser.addoption(
        "--turn", type=int, default=0, metavar="N", help="which of the cases: others for each number"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out cases, where whole files or folders were asked for."""
    is_chosen = config.getoption("keyword") or any("::" in arg for arg in config.args)
    if config.getoption("--all") or config.getoption("--update") or is_chosen:
        return
    by_test = defaultdict(list)
    for item in items:
        by_test[item.nodeid.partition("[")[0]].append(item)
    turn = config.getoption("--turn")
    kept = {item for cases in by_test.values() for item in some_cases(cases, turn)}
    left_out = [item for item in items if item not in kept]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item in kept]


def some_cases(cases: list[pytest.Item], turn: int) -> list[pytest.Item]:
    """A few cases of one test. All have their turn as the number counts up."""
    if len(cases) <= CASES:
        return cases
    ranked = sorted(cases, key=lambda case: crc32(case.nodeid.encode()))
    return [ranked[(turn * CASES + place) % len(ranked)] for place in range(CASES)]
