"""Files are written whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from heddle.support.diagnostics import UsageError
from heddle.support.files import write_bytes
from heddle.support.temporary import tempdir


def _full(_handle: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.heddle"
    write_bytes(path, b"old")
    monkeypatch.setattr(os, "fsync", _full)
    with pytest.raises(UsageError, match=r"S0101.*No space left"):
        write_bytes(path, b"new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.heddle"]
    assert path.read_bytes() == b"old"


def _interrupted(_handle: int) -> None:
    raise KeyboardInterrupt


def test_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_bytes(tmp_path / "model.heddle", b"new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["missing/model.heddle", "."])
def test_places_that_cannot_be_written(tmp_path: Path, place: str) -> None:
    with pytest.raises(UsageError, match="S0101"):
        write_bytes(tmp_path / place, b"new")


def test_a_device_is_not_replaced() -> None:
    with pytest.raises(UsageError, match="S0101"):
        write_bytes("/dev/null", b"new")
    assert Path("/dev/null").is_char_device()


def test_temporary_folder() -> None:
    folder = tempdir()
    write_bytes(folder.relpath("a"), b"1")
    assert folder.listdir() == ["a"]
    folder.remove()
    assert not folder.path.exists()


def test_who_may_read_a_file(tmp_path: Path) -> None:
    """A new file follows the process's mask, one that replaces another keeps its mode."""
    path = tmp_path / "model.heddle"
    mask = os.umask(0o027)
    try:
        write_bytes(path, b"1")
        assert path.stat().st_mode & 0o777 == 0o640
        path.chmod(0o604)
        write_bytes(path, b"2")
        assert path.stat().st_mode & 0o777 == 0o604
    finally:
        os.umask(mask)
