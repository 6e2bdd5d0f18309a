"""The files that services read name commands, versions and paths that exist."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.arch.tree import ROOT

WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
HOOKS = ROOT / ".pre-commit-config.yaml"
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
PROGRAMS = {"lint-imports": "import-linter", "ruff": "ruff", "mypy": "mypy"}
"""Programs and modules of the extra `dev`, and the packages that they come from."""


def _commands(path: Path) -> list[str]:
    return re.findall(r"^\s*(?:run|entry): (.+)$", path.read_text(), re.MULTILINE)


def _problem(command: str) -> str | None:
    """Why a command cannot run in a checkout with the extra `dev`; None where it can."""
    words = command.split()
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return None if words[1] in targets else f"the Makefile has no target {words[1]}"
    if words[:3] == ["python", "-m", "pip"]:
        return None
    if words[0].startswith("."):
        return None if os.access(ROOT / words[0], os.X_OK) else f"{words[0]} is no program"
    program = words[2] if words[:2] == ["python", "-m"] else words[0]
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["dev"]
    packages = {re.split(r"[^\w-]", line)[0] for line in extra}
    return None if PROGRAMS.get(program) in packages else f"{program} is not in the extra dev"


@pytest.mark.parametrize("path", [WORKFLOW, HOOKS], ids=lambda path: path.name)
def test_commands_exist(path: Path) -> None:
    commands = _commands(path)
    assert len(commands) >= 3
    assert not [problem for problem in map(_problem, commands) if problem]


@pytest.mark.parametrize("command", ["make nothing", "./none", "python -m black", "flake8"])
def test_commands_that_do_not_exist_are_found(command: str) -> None:
    assert _problem(command)


def test_hooks_do_what_make_check_does() -> None:
    made = (ROOT / "Makefile").read_text().partition("\nlint:\n")[2].partition("\n\n")[0]
    for command in _commands(HOOKS):
        words = ("lint_imports", "no-cache") if command == "lint-imports" else command.split()[2:]
        assert all(word in made for word in words), command


def test_ci_runs_every_version_that_the_package_supports() -> None:
    versions = re.findall(r'"(3\.\d+)"', WORKFLOW.read_text())
    least = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert f">={versions[0]}" == least
    minors = [int(version.partition(".")[2]) for version in versions]
    assert minors == list(range(minors[0], minors[-1] + 1))
    assert f"for version in {' '.join(versions)}; do" in (ROOT / ".ci" / "versions").read_text()


def _read(path: Path) -> Any:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed; it is no dependency")
    return yaml.safe_load(path.read_text())


def test_the_workflow_and_the_hooks_are_yaml() -> None:
    steps = _read(WORKFLOW)["jobs"]["test"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == _commands(WORKFLOW)
    hooks = _read(HOOKS)["repos"][0]["hooks"]
    assert [hook["entry"] for hook in hooks] == _commands(HOOKS)
    assert {hook["language"] for hook in hooks} == {"system"}


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_a_form_asks_for_something(path: Path) -> None:
    form = _read(path)
    if path.name == "config.yml":
        assert form == {"blank_issues_enabled": True}
        return
    assert form["name"] and form["description"]
    assert all(part["attributes"]["label"] for part in form["body"])
    assert any(part["validations"]["required"] for part in form["body"])
    assert len({part["id"] for part in form["body"]}) == len(form["body"])
