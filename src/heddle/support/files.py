"""Files: written so that a reader sees the whole new one or the whole old one, never a part; read only where
they are ordinary files, so that nothing waits for the other end of a pipe."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import IO

from heddle.support.codes import S0101
from heddle.support.diagnostics import UsageError

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


def _new_neighbour(target: Path) -> tuple[int, str]:
    """A new file beside `target`, open, and its path. Who may read it: as for the file that it will replace,
    else as the process's mask says."""
    while True:
        name = str(target.with_name(f".{target.name}.{secrets.token_hex(6)}.part"))
        try:
            handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
        except FileExistsError:
            continue
        with suppress(OSError):
            os.fchmod(handle, stat.S_IMODE(target.stat().st_mode))
        return handle, name


@contextmanager
def atomic_writer(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary neighbour of `path`; on success flush, fsync and rename it over `path`, else remove
    it.

    Raises: UsageError S0101 where the place cannot be written (read-only, full, missing folder).
    """
    target = Path(path)
    check_replaceable(target)
    temporary: str | None = None
    try:
        handle, temporary = _new_neighbour(target)
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        temporary = None
    except OSError as error:
        raise UsageError(S0101, f"cannot write {target}: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """The path of an empty temporary neighbour, for a tool to write; on success it is renamed over `path`.

    Raises: UsageError S0101 where the place cannot be written.
    """
    target = Path(path)
    try:
        handle, name = _new_neighbour(target)
    except OSError as error:
        raise UsageError(S0101, f"cannot write {target}: {error.strerror or error}") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise UsageError(S0101, f"cannot write {target}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    with atomic_writer(path) as file:
        file.write(data)


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
