"""A folder of files that this user alone can have written: where machine code is kept between processes.

Whoever can write a file here decides what later processes run. So the folder is the user's own (created with
mode 0700; one of another owner, one that others can write, a link are refused), and each file carries an
HMAC-SHA256 over its name and the SHA-256 of each 4 MiB of its content, under a key that only the user can
read.

    file   magic (8 bytes), HMAC (32), content           named by its user, mode 0600
    key    32 random bytes                               mode 0600, made by the first process
    size   as many bytes as files have pages, about      mode 0600; missing or empty, it is made anew
    .NAME.HEX.part                                       a file that is being written (`heddle.support.parts`)

A file appears whole or not at all, and one that is damaged, of another key, or no ordinary file is as good
as missing; so nothing waits for the disk (no fsync). Links are not followed, and nothing waits for a pipe.
Above `limit_bytes` files that were used least recently go, and parts that dead processes left; of many files
a random sample is looked at, so that nobody waits for long. A file counts as whole pages of 4 KiB, so their
number is bounded, too. Nothing lists the folder before it is full: each writer appends to `size` as many
bytes as its file has pages. Processes may work on one folder at once.
"""

from __future__ import annotations

import hmac
import mmap
import os
import random
import stat
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

from heddle.support.codes import S0501
from heddle.support.diagnostics import Diagnostic, HeddleWarning, UsageError
from heddle.support.frozen import frozen
from heddle.support.on_threads import map_on_threads
from heddle.support.parts import Part, remove_dead_parts
from heddle.support.reading import descriptor_of_file
from heddle.support.settings import settings

KEY_NAME = "key"
SIZE_NAME = "size"
PAGE_BYTES = 4096
_MAGIC = b"HDLPRIV2"
_CHUNK_BYTES = 4 << 20
_KEY_BYTES = 32
HEAD_BYTES = len(_MAGIC) + 32
"""Where in a file its content begins."""
_KEPT_SHARE = 0.9
"""How full a cache is after the oldest files went."""
_SAMPLE = 2048
"""Of more than twice as many files, so many are looked at when some must go."""
_GROUP_OR_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@frozen
class CachedFile:
    """A file of the cache. Units: bytes; seconds since the epoch."""

    name: str
    size_bytes: int
    used_s: float

    @property
    def room_bytes(self) -> int:
        """What it takes of the cache's limit: whole pages."""
        return _pages(self.size_bytes) * PAGE_BYTES


def open_private_folder(path: Path) -> int:
    """A descriptor of a folder that only this user can write, made where it is missing.

    Raises: UsageError S0501 for a folder that others can write, or above which others can put another one in
    its place; OSError where it cannot be made.
    """
    real = Path(os.path.realpath(path.parent)) / path.name
    _make(real)
    for parent in real.parents:
        _check_parent(path, parent)
    if real.is_symlink():
        raise _refused(path, "it is a link")
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(real, flags)
    found = os.fstat(descriptor)
    why = None
    if found.st_uid != os.geteuid():
        why = f"it belongs to user {found.st_uid}"
    elif found.st_mode & _GROUP_OR_OTHERS_WRITE:
        why = f"others can write it (mode {stat.S_IMODE(found.st_mode):o})"
    if why is not None:
        os.close(descriptor)
        raise _refused(path, why)
    return descriptor


def _make(path: Path) -> None:
    """The folder and those above it, for this user alone whatever the process's mask is."""
    missing = [path]
    while not os.path.lexists(missing[-1].parent):
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)


def _check_parent(path: Path, parent: Path) -> None:
    """Nobody else can rename what lies in a parent: it is ours or the system's, and if others write it, its
    files are kept apart (the sticky bit)."""
    found = os.stat(parent)
    if found.st_uid not in (0, os.geteuid()):
        raise _refused(path, f"{parent} above it belongs to user {found.st_uid}")
    if found.st_mode & _GROUP_OR_OTHERS_WRITE and not found.st_mode & stat.S_ISVTX:
        raise _refused(path, f"others can write {parent} above it (mode {stat.S_IMODE(found.st_mode):o})")


def _refused(path: Path, why: str) -> UsageError:
    return UsageError(
        S0501,
        f"the folder {path} is not this user's alone: {why}",
        help="chmod go-w what is named, or let HEDDLE_CACHE_DIR name a folder of your own",
    )


def _never(_piece: memoryview) -> bool:
    return False


@dataclass(slots=True)
class PrivateCache:
    """Files by name. A cache whose folder is refused is off: nothing is found, nothing kept, and a warning
    says so once."""

    folder: Path
    limit_bytes: int
    _key: bytes | None = None
    _is_off: bool = False

    def read(self, name: str) -> bytes | None:
        """The content of a file, which is now the one used last; None where there is none to be trusted."""
        found = self.read_view(name)
        return None if found is None else bytes(found)

    def read_view(self, name: str) -> memoryview | None:
        """As `read`, without a copy: in memory of its own, `HEAD_BYTES` behind a page's begin."""
        with self._opened() as folder:
            if folder is None:
                return None
            data = _read_own(folder, name, self.limit_bytes)
            key = None if data is None else self._key or _read_key(folder)
            content = None if data is None or key is None else _authentic(key, name, data)
            if content is not None:
                with suppress(OSError):
                    os.utime(name, dir_fd=folder, follow_symlinks=False)
            return content

    def write(self, name: str, *pieces: bytes | memoryview) -> None:
        """Keep a file of these pieces, if that can be: a cache that cannot be written is no failure."""
        put = self.sealed(name, *pieces)
        if put is not None:
            put()

    def sealed(
        self, name: str, *pieces: bytes | memoryview, is_lasting: Callable[[memoryview], bool] = _never
    ) -> Callable[[], None] | None:
        """What keeps a file of these pieces, as they are now, when it is called; None where nothing can be
        kept. Should they change until then, the file is as good as missing. Pieces that nobody can change,
        as `is_lasting` says, are read only when it is called."""
        with self._opened() as folder, suppress(OSError):
            if folder is not None:
                return partial(self._put, name, _Seal(self._key_in(folder), name, pieces, is_lasting))
        return None

    def _put(self, name: str, seal: _Seal) -> None:
        with self._opened() as folder, suppress(OSError):
            if folder is not None:
                _put(folder, name, (seal.head(), *seal.pieces))
                self._account(folder, HEAD_BYTES + sum(memoryview(piece).nbytes for piece in seal.pieces))

    def files(self) -> list[CachedFile]:
        """All files, those used last first."""
        with self._opened() as folder:
            return [] if folder is None else _files(folder)

    def unusable(self) -> list[str]:
        """The names of files that would not be believed."""
        with self._opened() as folder:
            if folder is None:
                return []
            key = _read_key(folder) or b""
            return [
                file.name
                for file in _files(folder)
                if (data := _read_own(folder, file.name, self.limit_bytes)) is None
                or _authentic(key, file.name, data) is None
            ]

    def clear(self) -> int:
        """Remove all files, parts, the key and the size. The result is how many files there were."""
        with self._opened() as folder:
            if folder is None:
                return 0
            names = [file.name for file in _files(folder)]
            for name in (*names, KEY_NAME, SIZE_NAME):
                _remove(folder, name)
            remove_dead_parts(self.folder, folder)
            self._key = None
            return len(names)

    def check(self) -> None:
        """Raises: UsageError S0501 where the folder is refused; OSError where it cannot be made."""
        os.close(open_private_folder(self.folder))

    @contextmanager
    def _opened(self) -> Iterator[int | None]:
        """The folder's descriptor; None where the cache is off or cannot be made."""
        folder = self._open()
        try:
            yield folder
        finally:
            if folder is not None:
                os.close(folder)

    def _open(self) -> int | None:
        if self._is_off:
            return None
        try:
            return open_private_folder(self.folder)
        except OSError:
            return None
        except UsageError as error:
            self._is_off = True
            found = error.diagnostics[0]
            note = Diagnostic(S0501, found.message, None, ("the cache is off",), found.help, "warning")
            warnings.warn(note.render(), HeddleWarning, stacklevel=4)
            return None

    def _key_in(self, folder: int) -> bytes:
        """The user's key, made where there is none."""
        if self._key is None:
            self._key = _read_key(folder) or _make_key(folder)
        return self._key

    def _account(self, folder: int, added_bytes: int) -> None:
        """Notice what was added; above the limit, remove what was used least recently."""
        descriptor = _open_size(folder)
        try:
            is_known = os.fstat(descriptor).st_size > 0
            os.write(descriptor, bytes(_pages(added_bytes)))
            if not is_known or os.fstat(descriptor).st_size * PAGE_BYTES > self.limit_bytes:
                pages = os.fstat(descriptor).st_size if is_known else None
                os.ftruncate(descriptor, 0)  # whoever dies now leaves it unknown
                os.ftruncate(descriptor, self._swept(folder, pages))
        finally:
            os.close(descriptor)

    def _swept(self, folder: int, pages: int | None) -> int:
        """Remove dead parts and, above the limit, files that were used least recently. The result is how many
        pages the others have; `pages` is that before, if it is known."""
        remove_dead_parts(self.folder, folder)
        names = _names(folder)
        if pages is not None and len(names) > 2 * _SAMPLE:
            files = _files(folder, random.sample(names, _SAMPLE))
            likely = sum(file.room_bytes for file in files) / _SAMPLE * len(names)
            if likely > self.limit_bytes * _KEPT_SHARE:  # else files were replaced or removed
                oldest = files[-(_SAMPLE // 4) :]
                room = self._without_oldest(folder, oldest, pages * PAGE_BYTES)
                if room <= self.limit_bytes:
                    return room // PAGE_BYTES
        files = _files(folder)
        room = sum(file.room_bytes for file in files)
        if room > self.limit_bytes:
            room = self._without_oldest(folder, files, room)
        return room // PAGE_BYTES

    def _without_oldest(self, folder: int, files: list[CachedFile], room: int) -> int:
        """Remove files from the end until there is some room again. The result is how much is taken."""
        while files and room > self.limit_bytes * _KEPT_SHARE:
            oldest = files.pop()
            room -= oldest.room_bytes
            _remove(folder, oldest.name)
        return room


def user_cache() -> PrivateCache:
    """The cache that the settings name."""
    return PrivateCache(settings().cache_dir, settings().cache_limit_bytes)


class _Seal:
    """The head of a file to be. The digests of its chunks are made at once, but for those of pieces that
    last."""

    def __init__(
        self,
        key: bytes,
        name: str,
        pieces: Sequence[bytes | memoryview],
        is_lasting: Callable[[memoryview], bool],
    ) -> None:
        self._key, self._name, self.pieces = key, name, pieces
        self._chunks = list(_chunks(pieces))
        now = [
            number for number, parts in enumerate(self._chunks) if not all(is_lasting(part) for part in parts)
        ]
        made = map_on_threads(_digest_of_parts, [self._chunks[number] for number in now])
        self._digests = dict(zip(now, made, strict=True))

    def head(self) -> bytes:
        """The first `HEAD_BYTES` of the file."""
        later = [number for number in range(len(self._chunks)) if number not in self._digests]
        made = map_on_threads(_digest_of_parts, [self._chunks[number] for number in later])
        known = self._digests | dict(zip(later, made, strict=True))
        return _MAGIC + _mac(self._key, self._name, [known[number] for number in range(len(known))])


def _mac(key: bytes, name: str, digests: Sequence[bytes]) -> bytes:
    return hmac.digest(key, b"".join((name.encode(), b"\0", *digests)), "sha256")


def _digest_of_parts(parts: Sequence[memoryview]) -> bytes:
    digest = sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()


def _chunks(pieces: Iterable[bytes | memoryview]) -> list[list[memoryview]]:
    """The bytes of all pieces in chunks of one size but for the last; a chunk may lie in several pieces."""
    chunks: list[list[memoryview]] = [[]]
    room = _CHUNK_BYTES
    for piece in pieces:
        left = memoryview(piece).cast("B")
        while left:
            chunks[-1].append(left[:room])
            room -= len(chunks[-1][-1])
            left = left[len(chunks[-1][-1]) :]
            if not room:
                chunks.append([])
                room = _CHUNK_BYTES
    return chunks


def _authentic(key: bytes, name: str, data: memoryview) -> memoryview | None:
    """The content of a file that was written under the key, and under this name."""
    if len(data) < HEAD_BYTES or data[: len(_MAGIC)] != _MAGIC:
        return None
    mac, content = data[len(_MAGIC) : HEAD_BYTES], data[HEAD_BYTES:]
    digests = map_on_threads(_digest_of_parts, _chunks([content]))
    return content if hmac.compare_digest(mac, _mac(key, name, digests)) else None


def _read_own(
    folder: int, name: str, limit_bytes: int, forbidden: int = _GROUP_OR_OTHERS_WRITE
) -> memoryview | None:
    """An ordinary file of this user's, without following links or waiting; None for anything else, and for an
    empty one. The memory is aligned as pages are."""
    try:
        descriptor = descriptor_of_file(name, folder, os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        if found.st_size > limit_bytes:
            return None
        if found.st_uid != os.geteuid() or found.st_mode & forbidden:
            return None
        memory = mmap.mmap(-1, found.st_size)
        with os.fdopen(descriptor, "rb", buffering=0, closefd=False) as file:
            view, size = memoryview(memory), 0
            while count := file.readinto(view[size:]):
                size += count
            return view[:size]
    except (OSError, ValueError):
        return None
    finally:
        os.close(descriptor)


def _read_key(folder: int) -> bytes | None:
    key = _read_own(folder, KEY_NAME, _KEY_BYTES, stat.S_IRWXG | stat.S_IRWXO)
    return bytes(key) if key is not None and len(key) == _KEY_BYTES else None


def _make_key(folder: int) -> bytes:
    """A new key. Of processes that make one at once, the first wins; one that is damaged is replaced."""
    key = os.urandom(_KEY_BYTES)
    with Part(KEY_NAME, folder, 0o600) as part:
        part.write(key)
        try:
            part.become(replaces=False)
        except FileExistsError:
            found = _read_key(folder)
            if found is not None:
                return found
            part.become()
    return key


def _put(folder: int, name: str, pieces: Iterable[bytes | memoryview]) -> None:
    with Part(name, folder, 0o600, is_swept=True) as part:
        for piece in pieces:
            part.write(piece)
        part.become()


def _pages(size_bytes: int) -> int:
    """How many pages a file has. An empty one takes room, too."""
    return max(1, -(-size_bytes // PAGE_BYTES))


def _open_size(folder: int) -> int:
    """The file `size`, open for appending; an empty one in the place of what is no ordinary file."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    with suppress(OSError):
        descriptor = os.open(SIZE_NAME, flags, 0o600, dir_fd=folder)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
    _remove(folder, SIZE_NAME)
    return os.open(SIZE_NAME, flags, 0o600, dir_fd=folder)


def _remove(folder: int, name: str) -> None:
    with suppress(OSError):
        os.unlink(name, dir_fd=folder)


def _names(folder: int) -> list[str]:
    """What lies in the folder, apart from key, size and parts."""
    return [
        name for name in os.listdir(folder) if name not in (KEY_NAME, SIZE_NAME) and not name.startswith(".")
    ]


def _files(folder: int, names: Iterable[str] | None = None) -> list[CachedFile]:
    """The files of these names, or all, those used last first."""
    found = []
    for name in _names(folder) if names is None else names:
        with suppress(OSError):
            known = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISDIR(known.st_mode):
                found.append(CachedFile(name, known.st_size, known.st_mtime))
    return sorted(found, key=lambda file: (-file.used_s, file.name))
