"""Writing files so that a reader sees the whole new file or the whole old one, never a part."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from heddle.support.codes import S0101
from heddle.support.diagnostics import UsageError


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
    folder = path.parent
    if not folder.is_dir():
        raise UsageError(S0101, f"cannot write {path}: there is no folder {folder}")
    if path.exists() and not path.is_file():
        raise UsageError(S0101, f"cannot write {path}: it is no ordinary file")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise UsageError(S0101, f"cannot write {path}: it is read-only")
