"""The golden cases of passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from heddle.driver.passes import pass_classes
from heddle.support.diagnostics import InternalError, UsageError
from tests.cases.golden import FOLDER, PassCase, read_case, run_case
from tests.cases.sections import settle

PATHS = [path for name in pass_classes() for path in sorted((FOLDER / name).glob("*.txt"))]
CASE = """A binding that nothing uses goes.
run: n=3
--- before
@R.function
def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
    with R.dataflow():
        unused = R.exp(x)
        y = R.add(x, x)
        R.output(y)
    return y
--- after
{after}"""
KEPT = CASE.split("--- before\n")[1].split("--- after\n")[0]


def written(folder: Path, text: str) -> PassCase:
    path = folder / "DeadCodeElimination" / "case.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return read_case(path)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_pass_makes_what_the_case_has(path: Path, request: pytest.FixtureRequest) -> None:
    case = read_case(path)
    made, difference = run_case(case)
    settle(case.file, request, difference, after=str(made))


def test_a_folder_of_cases_is_a_pass() -> None:
    folders = {path.parent.name for path in FOLDER.glob("*/*.txt") if path.parent.name[0].isupper()}
    assert folders <= set(pass_classes()), "a folder of cases has the name of no pass"
    assert len(folders) >= 10


def test_a_case_that_differs_is_told_and_updated(tmp_path: Path) -> None:
    case = written(tmp_path, CASE.format(after=KEPT))
    made, difference = run_case(case)
    assert difference is not None
    case.file.updated(after=str(made))
    again = read_case(case.file.path)
    assert (again.file.head, again.before) == (case.file.head, case.before)
    assert run_case(again)[1] is None
    again.file.updated(after=str(made))
    assert read_case(case.file.path) == again


def test_a_case_without_a_program_after_says_so(tmp_path: Path) -> None:
    assert "no program" in str(run_case(written(tmp_path, CASE.format(after="")))[1])


def test_a_pass_that_changes_values_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = written(tmp_path, CASE.format(after=""))
    wrong = read_case(case.file.path).before.replace("R.add(x, x)", "R.multiply(x, x)")
    monkeypatch.setattr("tests.cases.golden.run_passes", lambda mod, options: parse_module(wrong))
    with pytest.raises(AssertionError, match="Not equal"):
        run_case(case)


def parse_module(text: str) -> object:
    from tests.cases.golden import module_of

    return module_of(text)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("--- before", "before", AssertionError),
        ("run: n=3", "runs: n=3", AssertionError),
        ("run: n=3", "run: n", UsageError),
        ("A binding that nothing uses goes.\n", "", AssertionError),
    ],
)
def test_a_malformed_case_is_refused(old: str, new: str, kind: type, tmp_path: Path) -> None:
    with pytest.raises(kind):
        written(tmp_path, CASE.format(after="").replace(old, new))


def test_a_case_names_passes_that_exist(tmp_path: Path) -> None:
    case = written(tmp_path, CASE.format(after="").replace("run: n=3", "passes: DeadCode"))
    with pytest.raises(UsageError, match="DeadCode") as caught:
        run_case(case)
    assert caught.value.code == "D0302" and not isinstance(caught.value, InternalError)
