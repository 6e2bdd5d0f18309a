"""A sample of `tests.fuzz.forks`: children of a process whose threads compute, allocate and compile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.command_line import environment

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_children_of_a_busy_process_do_their_work() -> None:
    """In a process of its own: nothing of the tests' is forked, and a hang ends by the children's alarm."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.forks", "--count", "60"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment(HEDDLE_NUM_THREADS="3"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "60 of 60 children done, 0 hung, 0 faults" in done.stdout


_FAILS_AT_FORK = """
import os, sys
os.register_at_fork(after_in_child=lambda: 1 // 0)
from tests.fuzz.forks import main
sys.argv = ["forks", "--count", "3"]
sys.exit(main())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_exceptions_that_python_only_reports_are_faults() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FAILS_AT_FORK],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment(),
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "0 of 3 children done, 0 hung, 3 faults" in done.stdout
