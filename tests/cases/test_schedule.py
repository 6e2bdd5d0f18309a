"""The golden cases of schedule primitives."""

from __future__ import annotations

from pathlib import Path

import pytest

from heddle.ir.instrument import verify_module
from heddle.ir.module import IRModule
from heddle.ir.structural import structural_equal
from heddle.script import parse
from heddle.script.round_trip import check_round_trip
from heddle.tir.schedule import Schedule
from heddle.tir.schedule.base import PRIMITIVES
from heddle.tir.tensor_intrin import TensorIntrin
from tests.cases.golden import FOLDER, assert_same_values, difference_of, module_of, sizes_of
from tests.cases.sections import CaseFile, read_sections, settle

PATHS = sorted((FOLDER / "schedule").glob("*.txt"))


def read_case(path: Path) -> CaseFile:
    """Raises: AssertionError for a file of another form."""
    return read_sections(path, "before", ("description", "implementation", "steps", "after"), ("run",))


def run_case(case: CaseFile) -> tuple[IRModule, str | None]:
    """The program after the steps, and how it differs from the case's; None where it does not.

    Raises: what the primitives raise; AssertionError where the result does not verify, does not print and
    parse alike, computes something else, or is another one when the trace is run again.
    """
    if "description" in case.sections:
        texts = (case.sections["description"], case.sections["implementation"])
        TensorIntrin.register(f"case.{case.path.stem}", *map(parse, texts), override=True)
    before = module_of(case.sections["before"])
    sch = Schedule(before)
    exec(case.sections["steps"], {"sch": sch})
    made = sch.mod
    found = [finding.render() for finding in verify_module(made)]
    assert not found, "\n".join(found)
    assert (problem := check_round_trip(made)) is None, problem
    again = Schedule(before)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert structural_equal(again.mod, made), f"the trace makes another program:\n{sch.trace}"
    if (sizes := sizes_of(case)) is not None:
        assert_same_values(before, made, sizes)
    return made, difference_of(made, case.sections.get("after", ""))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_steps_make_what_the_case_has(path: Path, request: pytest.FixtureRequest) -> None:
    case = read_case(path)
    made, difference = run_case(case)
    settle(case, request, difference, after=str(made))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_steps_have_the_primitive_of_the_name(path: Path) -> None:
    assert f"sch.{path.stem.partition('.')[0]}(" in read_case(path).sections["steps"]


def test_every_primitive_has_a_case() -> None:
    assert {path.stem.partition(".")[0] for path in PATHS} == set(PRIMITIVES)


def test_steps_that_change_values_fail(tmp_path: Path) -> None:
    text = (FOLDER / "schedule" / "narrow.txt").read_text().replace("\n--- before", "\nrun:\n--- before", 1)
    (tmp_path / "narrow.txt").write_text(text)
    with pytest.raises(AssertionError, match="Not equal"):
        run_case(read_case(tmp_path / "narrow.txt"))
