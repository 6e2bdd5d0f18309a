"""Ordinary files, written so that a reader sees the whole new one or the whole old one, never a part
(`heddle.support.parts`).

This is the one way to write a file for a user. What is written is on the disk (fsync) before it gets its
name; the name itself may be lost with the power, and then the old file is there. A link is replaced, not
followed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from heddle.support.codes import S0101
from heddle.support.diagnostics import UsageError
from heddle.support.parts import Part, PartFolder
from heddle.support.reading import open_file


@contextmanager
def atomic_writer(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary neighbour of `path`; on success flush, fsync and rename it over `path`, else remove
    it.

    Raises: UsageError S0101 where the place cannot be written (read-only, full, missing folder).
    """
    target = Path(path)
    check_replaceable(target)
    with _refusals(target), Part(target) as part:
        with os.fdopen(part.descriptor, "wb", closefd=False) as file:
            yield file
            file.flush()
        os.fsync(part.descriptor)
        part.become()


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path in a new folder beside `path`, for a tool to write a file to; on success it is renamed over
    `path`.

    Raises: UsageError S0101 where the place cannot be written.
    """
    target = Path(path)
    check_replaceable(target)
    with _refusals(target), PartFolder(target) as folder:
        made = folder.path / target.name
        yield made
        with open_file(made) as file:
            os.fsync(file.fileno())
        os.replace(made, target)


@contextmanager
def _refusals(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(S0101, f"cannot write {target}: {error.strerror or error}") from error


def make_folder(path: str | os.PathLike[str]) -> None:
    """Make a folder, with those above it, unless it is there. Raises: UsageError S0101."""
    target = Path(path)
    with _refusals(target):
        target.mkdir(parents=True, exist_ok=True)


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a whole file or nothing. Raises: UsageError S0101 where the path cannot be written."""
    with atomic_writer(path) as file:
        file.write(data)


def write_secret(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a new file that only this user can read. Raises: UsageError S0101, also where there is one."""
    target = Path(path)
    check_new(target)
    with _refusals(target), Part(target, mode=0o600) as part:
        part.write(data)
        os.fsync(part.descriptor)
        part.become(replaces=False)


def check_new(path: str | os.PathLike[str]) -> None:
    """Raises: UsageError S0101 where there is a file, or none can be made."""
    target = Path(path)
    check_replaceable(target)
    if os.path.lexists(target):
        raise UsageError(S0101, f"cannot write {target}: {os.strerror(errno.EEXIST)}")


def check_replaceable(path: Path) -> None:
    """A device or folder is not renamed away, and a file that is read-only stays as it is.

    Raises: UsageError S0101 also where the folder is missing or cannot be written.
    """
    if "\0" in str(path):
        raise UsageError(S0101, f"cannot write {str(path)!r}: there is a zero byte in the name")
    folder = path.parent
    if not folder.is_dir():
        raise UsageError(S0101, f"cannot write {path}: there is no folder {folder}")
    if path.exists() and not path.is_file():
        raise UsageError(S0101, f"cannot write {path}: it is no ordinary file")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise UsageError(S0101, f"cannot write {path}: it is read-only")
