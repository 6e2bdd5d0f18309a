"""What new users do first works, and what they get wrong is told: the journeys of `tools/first_hour.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tools.first_hour import JOURNEYS, Played, Step, page, play


@pytest.mark.parametrize("name", JOURNEYS)
def test_journey(name: str, tmp_path: Path) -> None:
    for package in ("typer", "rich", "onnx"):
        pytest.importorskip(package)
    played = play(JOURNEYS[name], tmp_path, Path(sys.executable).parent)
    wrong = [f"{each.step.command}: {each.fault}\n{each.output}" for each in played if each.fault]
    assert not wrong, "\n".join(wrong)
    assert all(step.command in page({name: played}) for step in JOURNEYS[name].steps)


def test_a_step_that_goes_wrong_is_told(tmp_path: Path) -> None:
    steps = [Step("echo one two", ("two", "one")), Step("exit 3"), Step("echo fine", ("fine",))]
    journey = type(JOURNEYS["port"])("t", "", {}, steps)
    faults = [each.fault for each in play(journey, tmp_path, tmp_path)]
    assert faults == ["'one' is not there", "status 3, expected 0", ""]


def test_every_command_is_on_the_page() -> None:
    text = (Path(__file__).parents[2] / "docs" / "first-hour.md").read_text()
    for journey in JOURNEYS.values():
        for step in journey.steps:
            assert f"$ {step.command}\n" in text, (
                f"docs/first-hour.md lacks {step.command}: run `make first-hour`"
            )


def test_long_outputs_are_cut_in_the_middle() -> None:
    played = Played(Step("ls"), "\n".join(map(str, range(100))), "")
    shown = page({"port": [played]})
    assert "\n0\n" in shown and "\n...\n" in shown and "\n99\n" in shown and "\n50\n" not in shown
