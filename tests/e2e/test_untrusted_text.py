"""The README says that script text is parsed and never executed: programs that try to get out of it.

Each command runs all of them in one process, which has to live to the end.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.attacks import REFUSED, STOPPED
from tests.e2e.command_line import DENSE, environment, heddle

pytest.importorskip("typer", reason="the command line needs the extra cli")
REFUSALS = ("error[S0401]", "error[D0104]", "error[I06", "error[R0102]")
"""A capability, C source, no such word, a function without type."""


def outcomes(command: list[str], names: list[str], folder: Path) -> dict[str, tuple[int, str]]:
    """Exit code and message of each attack under a command."""
    canary = folder / "canary"
    done = subprocess.run(
        [sys.executable, "-m", "tests.e2e.attacks", json.dumps(command), str(folder), json.dumps(names)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        env=environment(CANARY=str(canary), HEDDLE_NUM_THREADS="2"),
        timeout=600,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, (done.returncode, rows[-1] if rows else "", done.stderr[-2000:])
    assert not canary.exists()
    return {row["name"]: (row["code"], row["err"]) for row in rows if "name" in row}


COMMANDS = {
    "run": ["run", "--repeat", "0"],
    "run bytecode": ["run", "--repeat", "0", "--exec-mode", "bytecode"],
    "inspect": ["inspect"],
    "inspect tir": ["inspect", "--stage", "tir"],
    "explain": ["explain"],
    "debug": ["debug", "-c", "continue"],
    "compile": ["compile", "-o", "/dev/null/none.heddle"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses(command: str, tmp_path: Path) -> None:
    words = [
        word.replace("/dev/null/none.heddle", str(tmp_path / "out.heddle")) for word in COMMANDS[command]
    ]
    found = outcomes(words, list(REFUSED), tmp_path)
    wrong = {name: row for name, row in found.items() if row[0] != 1 or not row[1].startswith(REFUSALS)}
    assert not wrong, wrong
    assert found.keys() == REFUSED.keys()
    assert not (tmp_path / "out.heddle").exists()


@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
def test_a_run_is_stopped(mode: str, tmp_path: Path) -> None:
    found = outcomes(["run", "--repeat", "0", "--exec-mode", mode], list(STOPPED), tmp_path)
    wrong = {name: row for name, row in found.items() if row[0] != 1 or not row[1].startswith("error[")}
    assert not wrong, wrong
    assert found.keys() == STOPPED.keys()


def test_compiled_text_keeps_its_checks(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(STOPPED["store far away"])
    done = heddle("compile", "m.py", "-o", "m.heddle", cwd=tmp_path)
    assert done.code == 0, done.err
    heddle("run", "m.heddle", cwd=tmp_path).failed_with("U0603", "index 100000000", "'B'", "m.py:7:13")


def test_trust_lets_a_user_s_own_text_do_it(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(REFUSED["pure extern"])
    heddle("run", "m.py", cwd=tmp_path).failed_with("S0401", "m.py:7", "--trust", "foreign code")
    done = heddle("run", "m.py", "--trust", "--repeat", "0", cwd=tmp_path)
    assert done.code == 0, done.err


def test_a_sanitized_run_finds_what_a_trusted_text_does(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(STOPPED["store far away"])
    run = ("run", "m.py", "--trust", "--sanitize", "--repeat", "0")
    heddle(*run, cwd=tmp_path).failed_with("U0603", "index 100000000")
    (tmp_path / "good.py").write_text(DENSE)
    done = heddle("run", "good.py", "--sanitize", "--repeat", "0", cwd=tmp_path)
    assert done.code == 0, done.err
