"""The digest that keeps what one state of the compiler made from another."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from heddle.codegen.cache import COMPILER_ROOMS
from heddle.support import sources
from heddle.support.sources import sources_digest


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of two rooms and the files beside them."""
    for name in ("arith", "prim"):
        shutil.copytree(
            sources._PACKAGE / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(sources._PACKAGE / "__init__.py", tmp_path)
    monkeypatch.setattr(sources, "_PACKAGE", tmp_path)
    yield tmp_path
    forget()


def forget() -> None:
    sources_digest.cache_clear()
    sources._digest_of.cache_clear()


def digests() -> tuple[str, str]:
    forget()
    return sources_digest(), sources_digest("prim")


@pytest.mark.parametrize("change", ["text", "name", "new", "gone", "deep"])
def test_each_change_of_a_source_is_seen(package: Path, change: str) -> None:
    before = digests()
    assert digests() == before
    path = package / "prim" / "values.py"
    if change == "text":
        path.write_text(path.read_text().replace("low, high", "high, low", 1))
    elif change == "name":
        path.rename(path.with_name("other.py"))
    elif change == "new":
        path.with_name("other.ll").write_text("")
    elif change == "gone":
        path.unlink()
    else:
        (package / "prim" / "below").mkdir()
        (package / "prim" / "below" / "deep.py").write_text("x = 1\n")
    after = digests()
    assert after[0] != before[0] and after[1] != before[1]


def test_other_rooms_and_other_files_do_not_count(package: Path) -> None:
    before = digests()
    (package / "prim" / "notes.txt").write_text("nothing")
    assert digests() == before
    (package / "arith" / "more.py").write_text("x = 1\n")
    after = digests()
    assert after[0] != before[0] and after[1] == before[1]
    (package / "beside.py").write_text("x = 1\n")
    assert digests()[0] != after[0]


def test_the_rooms_of_the_compiler_are_there() -> None:
    for room in COMPILER_ROOMS:
        assert list((sources._PACKAGE / room).rglob("*.py")) or (sources._PACKAGE / room).is_file(), room
