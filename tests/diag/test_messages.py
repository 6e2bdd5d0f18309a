"""Golden cases of diagnostics: wrong texts and the whole messages about them. README.md tells how to add
one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from heddle import relay
from heddle.frontend.onnx import from_onnx
from heddle.ir.instrument import verify_module
from heddle.script import parse
from heddle.support.diagnostics import HeddleError, InternalError
from heddle.target import Target
from tests.cases.golden import module_of
from tests.cases.sections import CaseFile, read_sections, settle

FOLDER = Path(__file__).parent


def _script(text: str) -> None:
    parse(text)


def _verifier(text: str) -> str:
    return "\n".join(finding.render() for finding in verify_module(module_of(text)))


def _target(text: str) -> None:
    Target(text.strip())


def _relay(text: str) -> None:
    relay.parse(text, source_name="case.relay")


def _onnx(text: str) -> None:
    parser = pytest.importorskip("onnx.parser", reason="needs the extra onnx")
    with np.errstate(all="ignore"):
        from_onnx(parser.parse_model(text))


READERS: dict[str, Callable[[str], str | None]] = {
    "onnx": _onnx,
    "relay": _relay,
    "script": _script,
    "target": _target,
    "verifier": _verifier,
}
"""What reads the sources of a folder's cases. It raises, or gives its findings as a text."""
PATHS = sorted(FOLDER.glob("*/*.txt"))


def message_of(case: CaseFile) -> str:
    """What is said of a case's source; empty where nothing is wrong with it."""
    try:
        return READERS[case.path.parent.name](case.sections["source"]) or ""
    except InternalError:
        raise
    except HeddleError as error:
        return str(error)


def difference_of(case: CaseFile, made: str) -> str | None:
    """How a message differs from the case's; None where it does not. Raises: AssertionError for none."""
    assert made.startswith("error["), f"{case.path}: nothing is said of the source: {made!r}"
    return None if made.rstrip() == case.sections.get("message", "").rstrip() else "another message"


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_message_is_that_of_the_case(path: Path, request: pytest.FixtureRequest) -> None:
    case = read_sections(path, "source", ("message",))
    made = message_of(case)
    settle(case, request, difference_of(case, made), message=made)


def test_every_reader_has_cases_and_every_folder_a_reader() -> None:
    assert {path.parent.name for path in PATHS} == set(READERS)


def test_a_source_without_fault_fails(tmp_path: Path) -> None:
    folder = tmp_path / "target"
    folder.mkdir()
    (folder / "fine.txt").write_text("Nothing is wrong.\n--- source\nllvm\n--- message\n")
    case = read_sections(folder / "fine.txt", "source", ("message",))
    with pytest.raises(AssertionError, match="nothing is said"):
        difference_of(case, message_of(case))


def test_another_message_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "target"
    folder.mkdir()
    (folder / "kind.txt").write_text(
        "A kind.\n--- source\nllvmm\n--- message\nerror[H0102]: something else\n"
    )
    case = read_sections(folder / "kind.txt", "source", ("message",))
    made = message_of(case)
    assert difference_of(case, made) is not None
    case.updated(message=made)
    again = read_sections(case.path, "source", ("message",))
    assert difference_of(again, made) is None and again.head == case.head


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Words.\n", "expected a line"),
        ("Words.\n--- source\nx\n--- sauce\ny\n", "unknown section 'sauce'"),
        ("Words.\n--- source\nx\n--- source\ny\n", "stands twice"),
        ("Words.\nspeed: 3\n--- source\nx\n", "unknown option 'speed'"),
    ],
)
def test_files_of_another_form_are_refused(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "case.txt").write_text(text)
    with pytest.raises(AssertionError, match=reason):
        read_sections(tmp_path / "case.txt", "source", ("message",))
