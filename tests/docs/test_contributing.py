"""The worked examples of CONTRIBUTING.md apply to the tree and do what the page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.worked_examples import PAGE, ROOT, DiffError, Example, apply_diff, read_examples

EXAMPLES = read_examples(PAGE.read_text())
LIMIT_S = 300
MOST_FILES = {
    "An operator": 1,
    "A graph pass": 2,
    "A pass outside the tree": 0,
    "A builtin of the machine": 1,
    "An instruction of the machine": 4,
    "A schedule rule": 2,
    "A kind of targets": 3,
    "An intrinsic of loop functions": 1,
    "A dialect": 3,
}
"""How many files an addition may touch at most: more means that a fact is in two places."""


def _copy_of_the_tree(folder: Path) -> None:
    shutil.copytree(ROOT / "src", folder / "src")
    shutil.copytree(ROOT / "tests" / "cases", folder / "tests" / "cases")
    (folder / "tests" / "__init__.py").touch()


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_an_example_does_what_the_page_says(example: Example, tmp_path: Path) -> None:
    _copy_of_the_tree(tmp_path)
    assert apply_diff(example.diff, tmp_path) == example.num_files
    (tmp_path / "script.py").write_text(example.script)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tmp_path / 'src'}{os.pathsep}{tmp_path}",
        "HEDDLE_CACHE": "0",
    }
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert _lines(done.stdout) == _lines(example.output)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


def test_every_diff_applies(tmp_path: Path) -> None:
    """Of the scripts a few run without `--all`; that the diffs fit the tree is checked every time."""
    _copy_of_the_tree(tmp_path)
    for example in EXAMPLES:
        apply_diff(example.diff, tmp_path)


def test_no_addition_touches_more_files_than_it_may() -> None:
    assert {example.name: example.num_files for example in EXAMPLES} == MOST_FILES


def test_the_page_names_files_that_exist() -> None:
    text = PAGE.read_text()
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#]+)\)", prose)
    paths = re.findall(r"\b(?:tests|src|docs)/[\w/.-]*\w", prose)
    assert links and paths
    assert not [path for path in (*links, *paths) if not (ROOT / path).exists()]


DIFF = """--- a/file.txt
+++ b/file.txt
@@ -1,3 +1,3 @@
 one
-two
+2

--- /dev/null
+++ b/folder/new.txt
@@ -0,0 +1 @@
+hello
"""


def test_a_diff_is_applied(tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text("zero\none\ntwo\n\nthree\n")
    assert apply_diff(DIFF, tmp_path) == 2
    assert (tmp_path / "file.txt").read_text() == "zero\none\n2\n\nthree\n"
    assert (tmp_path / "folder" / "new.txt").read_text() == "hello\n"
    with pytest.raises(DiffError, match="found 0 times"):
        apply_diff(DIFF, tmp_path)


def test_a_diff_that_fits_in_part_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text("one\ntwo\n\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "new.txt").touch()
    with pytest.raises(DiffError, match=r"folder/new.txt exists"):
        apply_diff(DIFF, tmp_path)
    assert (tmp_path / "file.txt").read_text() == "one\ntwo\n\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (" one\n", "", "does not count"),
        ("@@ -1,3", "@@ -1,4", "does not count"),
        ("+++ b/file.txt", "file.txt", "name of a file"),
        ("-two", "-too", "found 0 times"),
    ],
)
def test_a_diff_that_does_not_fit_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text("one\ntwo\n\n")
    assert old in DIFF
    with pytest.raises(DiffError, match=message):
        apply_diff(DIFF.replace(old, new), tmp_path)


def test_lines_that_stand_twice_are_no_place(tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text("one\ntwo\n\n" * 2)
    with pytest.raises(DiffError, match="found 2 times"):
        apply_diff(DIFF, tmp_path)
