"""The commands on the cache, and what a run does with one that is not private."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.command_line import DENSE, heddle

pytest.importorskip("typer", reason="the command line needs the extra cli")


def facts(folder: Path, command: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(
        heddle("cache", command, "--json", HEDDLE_CACHE_DIR=str(folder)).out
    )
    return found


def test_a_cache_is_filled_looked_at_checked_and_emptied(tmp_path: Path) -> None:
    model, folder = tmp_path / "dense.py", tmp_path / "cache"
    model.write_text(DENSE)
    assert facts(folder, "info")["num_files"] == 0
    assert heddle("run", model, "--repeat", 0, HEDDLE_CACHE_DIR=str(folder)).code == 0
    before = facts(folder, "info")
    assert before["folder"] == str(folder)
    assert int(str(before["num_files"])) > 1
    assert facts(folder, "verify") == {"num_files": before["num_files"], "unusable": []}
    kernel = next(folder.glob("kernel-*"))
    kernel.write_bytes(kernel.read_bytes()[:-1])
    done = heddle("cache", "verify", HEDDLE_CACHE_DIR=str(folder))
    assert done.code == 1
    assert kernel.name in done.out
    assert facts(folder, "clear")["removed"] == before["num_files"]
    assert facts(folder, "info")["num_files"] == 0


def test_a_run_goes_on_without_a_cache_that_others_write(tmp_path: Path) -> None:
    model, folder = tmp_path / "dense.py", tmp_path / "cache"
    model.write_text(DENSE)
    folder.mkdir()
    folder.chmod(0o777)
    done = heddle("run", model, "--repeat", 0, HEDDLE_CACHE_DIR=str(folder))
    assert done.code == 0, done.err
    assert "warning[S0501]" in done.err
    assert "private_cache.py" not in done.err
    assert list(folder.iterdir()) == []
    heddle("cache", "info", HEDDLE_CACHE_DIR=str(folder)).failed_with("S0501", "others can write", "chmod")
