"""Ordinary files, read only where they are ordinary, so that nothing waits for the other end of a pipe."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader

from heddle.support.codes import S0102
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


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Inside, a file that the system cannot read or map, or that is no UTF-8 text where text is expected, and
    what is no path are refused. Raises: UsageError S0102."""
    try:
        if not isinstance(path, (str, os.PathLike)):
            raise UsageError(S0102, f"expected a path, got {type(path).__name__}")
        yield
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(S0102, f"cannot read {os.fspath(path)}: {why}") from error
