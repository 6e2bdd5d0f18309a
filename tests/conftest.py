"""Which tests run, and how. Without `--all`, tests that are in `costs.toml` run with as many cases as fit the
budget of time that it states, and those that are marked `long` not at all; all others, and those marked
`whole`, run with all their cases. `--turn N` takes other cases, `--budget S` more or fewer of them. `--all
--record-costs` writes the table anew.

Every test sees the operators declared, as users of the package do. A schedule rule that fails is an error
here, also in processes that tests start: for users it gives way to the next. Property tests have few,
deterministic examples and no deadline in time: a slow machine is no failure. Whole programs are not
kept on disk: tests that replace a part of the compiler must see it run. Where Python is not to write its
bytecode beside the sources, it writes that into a folder of the run's own: else each of the processes that
tests start would read all of our sources anew. Costly cases run first, and the workers of xdist get few cases
at a time, so that none is left with a long queue at the end."""

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
from dataclasses import replace

import pytest

from tests.costs import ChoiceReporter, CostRecorder, choose, costly_first, read_costs

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell ignores it for what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("HEDDLE_STRICT_RULES", "1")
os.environ.setdefault("HEDDLE_CACHE", "kernels")
if os.environ.pop("PYTHONDONTWRITEBYTECODE", "") and "PYTHONPYCACHEPREFIX" not in os.environ:
    # The workers of xdist and all other processes that are started from here have this environment.
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = tempfile.mkdtemp(prefix="heddle-bytecode-")
    atexit.register(shutil.rmtree, sys.pycache_prefix, ignore_errors=True)
    sys.dont_write_bytecode = False

from hypothesis import HealthCheck, settings

from heddle import ops

ops.load()
settings.register_profile(
    "tests", max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("tests")

CASES_AT_A_TIME = 8
"""So many cases a worker of xdist gets at once. With fewer, fixtures of a module are made by more workers."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="all tests with all their cases")
    parser.addoption(
        "--update", action="store_true", help="write what the compiler makes into the golden cases"
    )
    parser.addoption(
        "--turn", type=int, default=0, metavar="N", help="which of the cases: others for each number"
    )
    parser.addoption(
        "--budget",
        type=float,
        default=None,
        metavar="S",
        help="seconds of a core that the run may take, in place of those in tests/costs.toml",
    )
    parser.addoption(
        "--record-costs",
        action="store_true",
        help="write what the tests of this run took into tests/costs.toml",
    )


def pytest_configure(config: pytest.Config) -> None:
    is_worker = hasattr(config, "workerinput")  # reports go to the process that started the workers
    if config.getoption("maxschedchunk", CASES_AT_A_TIME) is None:  # xdist is there, and nobody asked
        config.option.maxschedchunk = CASES_AT_A_TIME
    config.pluginmanager.register(ChoiceReporter(), "choice")
    if config.getoption("--record-costs") and not is_worker:
        config.pluginmanager.register(CostRecorder(config.getoption("--all")))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes long, where whole files or folders were asked for."""
    is_chosen = config.getoption("keyword") or any("::" in arg for arg in config.args)
    if config.getoption("--update") or is_chosen:
        return
    costs, budget_s = read_costs(), config.getoption("--budget")
    items[:] = costly_first(items, costs)
    if config.getoption("--all"):
        return
    if budget_s is not None:
        costs = replace(costs, budget_s=budget_s)
    choice = choose(items, costs, config.getoption("--turn"))
    left_out = set(items) - set(choice.kept)
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        config.pluginmanager.get_plugin("choice").say(config, choice.line)
        items[:] = choice.kept


def pytest_collection_finish() -> None:
    """The modules and items live as long as the run: let no collection look at them again. Most of what tests
    that collect took was that."""
    gc.collect()
    gc.freeze()
