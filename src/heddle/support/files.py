"""Ordinary files: read only where they are ordinary, so that nothing waits for the other end of a pipe;
written so that a reader sees the whole new one or the whole old one, never a part (`heddle.support.parts`).

This is the one way to write a file for a user. What is written is on the disk (fsync) before it gets its
name; the name itself may be lost with the power, and then the old file is there. A link is replaced, not
followed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import IO

from heddle.support.codes import S0101
from heddle.support.diagnostics import UsageError
from heddle.support.parts import Part, PartFolder

_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def descriptor_of_file(name: str | os.PathLike[str], folder: int | None = None, flags: int = 0) -> int:
    """A descriptor to read an ordinary file with; a pipe, socket or device is not opened, nor waited for.

    Raises: OSError EINVAL where it is no ordinary file, and as `os.open`.
    """
    try:
        descriptor = os.open(name, _READ | flags, dir_fd=folder)
    except ValueError as error:  # a zero byte in the name
        raise OSError(errno.EINVAL, str(error)) from error
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
    os.close(descriptor)
    if is_folder:
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(errno.EINVAL, "it is no ordinary file")


def open_file(path: str | os.PathLike[str]) -> BufferedReader:
    """Open an ordinary file for reading. Raises: as `descriptor_of_file`."""
    return os.fdopen(descriptor_of_file(path), "rb")


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The content of an ordinary file. Raises: as `descriptor_of_file`."""
    with open_file(path) as file:
        return file.read()


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


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
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
