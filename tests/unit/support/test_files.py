"""Files are written whole or not at all."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

import pytest

from heddle.support import parts
from heddle.support.diagnostics import UsageError
from heddle.support.files import atomic_writer, replacing, write_bytes, write_secret
from heddle.support.parts import remove_dead_parts
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


def _dead_part(path: Path) -> Path:
    part = path.with_name(f".{path.name}.{0:016x}.part")
    part.write_bytes(b"half")
    return part


def test_the_next_writer_removes_what_a_dead_one_left(tmp_path: Path) -> None:
    """Of its own file; another file's parts, and one that a process is writing, stay."""
    path, other = tmp_path / "model.heddle", tmp_path / "other.heddle"
    dead, foreign = _dead_part(path), _dead_part(other)
    dead_folder = tmp_path / f".model.heddle.{1:016x}.part"
    dead_folder.mkdir()
    (dead_folder / "model.heddle").write_bytes(b"half")
    with atomic_writer(path) as first:
        first.write(b"first")
        assert not dead.exists() and not dead_folder.exists() and foreign.exists()
        write_bytes(path, b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert {entry.name for entry in tmp_path.iterdir()} == {"model.heddle", foreign.name}


@pytest.mark.parametrize("length", [1, 200, 201, 255])
def test_names_of_any_length(tmp_path: Path, length: int) -> None:
    path = tmp_path / ("x" * length)
    write_bytes(path, b"1")
    with replacing(path) as made:
        made.write_bytes(b"2")
    assert path.read_bytes() == b"2"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_part_that_is_removed_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer may see it in between, and no lock on it."""
    real, removed = parts._is_kept, []

    def raced(path: Path, descriptor: int, folder: int | None = None) -> bool:
        if not removed:
            removed.append(path)
            remove_dead_parts(tmp_path)
            assert not path.exists()
        return real(path, descriptor, folder)

    monkeypatch.setattr(parts, "_is_kept", raced)
    write_bytes(tmp_path / "a", b"1")
    removed.clear()
    with replacing(tmp_path / "b") as made:
        made.write_bytes(b"2")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"1", "b": b"2"}


def test_a_tool_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    write_bytes(tmp_path / "a", b"old")
    with suppress(RuntimeError), replacing(tmp_path / "a") as made:
        made.write_bytes(b"half")
        raise RuntimeError
    with pytest.raises(UsageError, match="S0101"), replacing(tmp_path / "a"):
        pass  # the tool wrote nothing
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"old"}


def test_a_secret_is_new_and_for_this_user(tmp_path: Path) -> None:
    path = tmp_path / "key"
    write_secret(path, b"secret")
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError, match=r"S0101.*exists"):
        write_secret(path, b"other")
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == {"key": b"secret"}


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
