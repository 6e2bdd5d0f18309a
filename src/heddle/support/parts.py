"""Files that are being written, under names of their own until they are whole.

    .NAME.HEX.part      a file or folder that shall become NAME, beside it

Whoever writes one holds a lock on it (flock), which ends with the process however that ends. So the next
writer of the same name can tell a part that a dead process left, and removes it. Where the system has no such
locks nothing is removed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from types import TracebackType

try:
    import fcntl
except ImportError:  # not a Unix
    fcntl = None  # type: ignore[assignment]

_LONGEST_STEM_BYTES = 200
"""Of a longer name the part has a digest: names have an end at 255 bytes."""
_CREATE = (
    os.O_WRONLY
    | os.O_CREAT
    | os.O_EXCL
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_NEVER_WAIT = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_LOOK = os.O_RDONLY | _NEVER_WAIT | getattr(os, "O_CLOEXEC", 0)
_PART = re.compile(r"\.(.+)\.[0-9a-f]{16}\.part", re.DOTALL)


class Part:
    """A new file beside `target`, open for writing; it vanishes at the end of the `with` unless it became the
    target. Dead parts of the same target are removed first, unless the folder `is_swept` by its owner:
    looking for them takes as long as the folder is large.

    `folder`: a descriptor of the folder that relative paths mean. `mode`: who may use the file; None: those
    who may use the one that it replaces, else as the process's mask says. Raises: OSError.
    """

    def __init__(
        self,
        target: str | os.PathLike[str],
        folder: int | None = None,
        mode: int | None = None,
        is_swept: bool = False,
    ) -> None:
        self._target, self._folder, self._mode, self._is_swept = Path(target), folder, mode, is_swept
        self._path: Path | None = None
        self.descriptor = -1

    def __enter__(self) -> Part:
        if not self._is_swept:
            remove_dead_parts(self._target.parent, self._folder, self._target.name)
        while not self._create():
            pass
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._path is not None:
            _remove(self._path, self._folder)
        os.close(self.descriptor)

    def write(self, data: bytes | memoryview) -> None:
        """Write all of it: the system may take it piece by piece."""
        left = memoryview(data)
        while left:
            left = left[os.write(self.descriptor, left) :]

    def become(self, replaces: bool = True) -> None:
        """Take the target's name. Raises: OSError; FileExistsError where it is taken and not `replaces`."""
        assert self._path is not None
        if replaces:
            os.replace(self._path, self._target, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            self._path = None
        else:
            where = {"src_dir_fd": self._folder, "dst_dir_fd": self._folder}
            os.link(self._path, self._target, **where, follow_symlinks=False)

    def _create(self) -> bool:
        """Whether there is a part now that is locked and still has its name."""
        path = _path_of_part(self._target)
        descriptor = os.open(path, _CREATE, 0o666 if self._mode is None else self._mode, dir_fd=self._folder)
        try:
            if _is_kept(path, descriptor, self._folder):
                self._set_mode(descriptor)
                self._path, self.descriptor = path, descriptor
        finally:
            if self._path is None:
                _remove(path, self._folder)
                os.close(descriptor)
        return self._path is not None

    def _set_mode(self, descriptor: int) -> None:
        if self._mode is not None:
            os.fchmod(descriptor, self._mode)
            return
        with suppress(OSError):
            os.fchmod(descriptor, stat.S_IMODE(os.stat(self._target, dir_fd=self._folder).st_mode))


class PartFolder:
    """As `Part`, a folder `path` for tools that write files themselves. It does not become the target."""

    path: Path

    def __init__(self, target: Path) -> None:
        self._target = target
        self._descriptor = -1

    def __enter__(self) -> PartFolder:
        remove_dead_parts(self._target.parent, None, self._target.name)
        while not self._create():
            pass
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _remove_folder(self.path)
        os.close(self._descriptor)

    def _create(self) -> bool:
        self.path = _path_of_part(self._target)
        os.mkdir(self.path, 0o700)
        try:
            self._descriptor = os.open(self.path, _LOOK)
        except FileNotFoundError:
            return False
        if _is_kept(self.path, self._descriptor):
            return True
        os.close(self._descriptor)
        return False


def remove_dead_parts(
    place: str | os.PathLike[str], folder: int | None = None, name: str | None = None
) -> None:
    """Remove the parts in a folder that no process is writing: those of the file `name`, by default all.

    `folder` is a descriptor of the folder, in place of the path `place`.
    """
    stem = None if name is None else _stem(name)
    for part in _names_of_parts(place if folder is None else folder, stem):
        path = Path(place, part) if folder is None else Path(part)
        with suppress(OSError):
            descriptor = os.open(path, _LOOK, dir_fd=folder)
            try:
                if _is_free(descriptor):
                    _remove(path, folder)
            finally:
                os.close(descriptor)


def _names_of_parts(place: str | os.PathLike[str] | int, stem: str | None) -> Iterator[str]:
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            found = _PART.fullmatch(entry.name)
            if found is not None and stem in (None, found[1]):
                yield entry.name


def _stem(name: str) -> str:
    data = os.fsencode(name)
    return name if len(data) <= _LONGEST_STEM_BYTES else blake2b(data, digest_size=16).hexdigest()


def _path_of_part(target: Path) -> Path:
    return target.with_name(f".{_stem(target.name)}.{os.urandom(8).hex()}.part")


def _is_kept(path: Path, descriptor: int, folder: int | None = None) -> bool:
    """Lock a new part; whether it is still there. Another writer may have taken it for a dead one before."""
    if fcntl is not None:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        found = os.stat(path, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(descriptor))


def _is_free(descriptor: int) -> bool:
    """Whether nobody holds the lock, which is now ours."""
    if fcntl is None:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return True


def _remove(path: Path, folder: int | None) -> None:
    with suppress(OSError):
        if stat.S_ISDIR(os.stat(path, dir_fd=folder, follow_symlinks=False).st_mode):
            _remove_folder(path, folder)
        else:
            os.unlink(path, dir_fd=folder)


def _remove_folder(path: Path, folder: int | None = None) -> None:
    import shutil  # it loads three compression libraries, half a megabyte that few processes need

    shutil.rmtree(path, ignore_errors=True, dir_fd=folder)
