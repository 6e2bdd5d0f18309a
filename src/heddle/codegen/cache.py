"""The kernel cache: object code by what it was compiled from, in memory and on disk.

The key is a digest of the function (names of variables aside), the target, and the versions of compiler and
LLVM. An entry holds the function itself, as its structural bytes; it is used only where they are equal to
those of the function that is asked for, so that a collision of digests cannot give wrong code. A function
with free variables is compiled anew each time. On disk entries lie in a `PrivateCache`: nobody else can put
code there, and a damaged one is compiled and written anew. `counters` tell how often code was compiled and
how often found.

Entry: with their lengths (8 bytes each, little-endian) a JSON head and the function, and the object code.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import llvmlite

from heddle.support.forks import ForkLock, Rank
from heddle.support.frozen import frozen
from heddle.support.private_cache import PrivateCache
from heddle.support.settings import DEFAULT_CACHE_BYTES, settings
from heddle.support.sources import sources_digest
from heddle.target import Target

COMPILER_ROOMS = ("codegen", "tir", "arith", "prim", "target")
"""The rooms whose sources decide what code a function becomes."""
_LENGTHS = struct.Struct("<QQ")


@frozen
class CachedCode:
    """Object code, the names of its kernels, and the functions that its text declared: it may need them."""

    object_code: bytes
    functions: tuple[str, ...]
    declared: tuple[str, ...] = ()


@frozen
class CacheEntry:
    """The code of the function that `source` are the structural bytes of."""

    source: bytes
    code: CachedCode


@dataclass(slots=True)
class Counters:
    compiles: int = 0
    memory_hits: int = 0
    disk_hits: int = 0

    @property
    def hits(self) -> int:
        """How often code was found, in memory or on disk."""
        return self.memory_hits + self.disk_hits


@dataclass(slots=True)
class KernelCache:
    """`folder` is None where nothing is kept on disk; there, at most `limit_bytes` are."""

    folder: Path | None
    limit_bytes: int = DEFAULT_CACHE_BYTES
    counters: Counters = field(default_factory=Counters)
    _memory: dict[str, list[CacheEntry]] = field(default_factory=dict)
    _lock: ForkLock = field(default_factory=lambda: ForkLock(Rank.LEAF))
    _disk: PrivateCache | None = field(init=False)

    def __post_init__(self) -> None:
        self.move(self.folder)

    def find(self, source: bytes | None, target: Target) -> CacheEntry | None:
        """The entry of a function, given by its structural bytes, for a target, or None."""
        if source is None:
            return None
        key = cache_key(source, target)
        with self._lock:
            for entry in self._memory.get(key, ()):
                if entry.source == source:
                    self.counters.memory_hits += 1
                    return entry
        entry_on_disk = self._read(key)
        if entry_on_disk is None or entry_on_disk.source != source:
            return None
        with self._lock:
            self.counters.disk_hits += 1
            self._memory.setdefault(key, []).append(entry_on_disk)
        return entry_on_disk

    def add(self, source: bytes | None, target: Target, code: CachedCode) -> None:
        """Keep what a function, given by its structural bytes, was compiled to."""
        with self._lock:
            self.counters.compiles += 1
        if source is None:
            return
        key, entry = cache_key(source, target), CacheEntry(source, code)
        with self._lock:
            self._memory.setdefault(key, []).append(entry)
        if self._disk is not None:
            self._disk.write(_file_name(key), _encode(entry))

    def move(self, folder: Path | None) -> None:
        """Keep what is compiled from now on in another folder, or on no disk; drop what is in memory."""
        self.folder = folder
        self._disk = None if folder is None else PrivateCache(folder, self.limit_bytes)
        self.forget()

    def forget(self) -> None:
        """Drop what is in memory."""
        with self._lock:
            self._memory.clear()

    def _read(self, key: str) -> CacheEntry | None:
        data = None if self._disk is None else self._disk.read(_file_name(key))
        return None if data is None else _decode(data)


def _file_name(key: str) -> str:
    return f"kernel-{key}"


def cache_key(source: bytes, target: Target) -> str:
    """32 hexadecimal digits for a function's structural bytes and a target."""
    parts = (
        blake2b(source, digest_size=16).hexdigest(),
        str(target),
        target.mtriple,
        target.mcpu,
        target.features,
        sources_digest(*COMPILER_ROOMS),
        llvmlite.__version__,
    )
    return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def _encode(entry: CacheEntry) -> bytes:
    code = entry.code
    head = json.dumps({"functions": code.functions, "declared": code.declared}).encode()
    return _LENGTHS.pack(len(head), len(entry.source)) + head + entry.source + code.object_code


def _decode(data: bytes) -> CacheEntry | None:
    """The entry that `_encode` made; None where another version of it did."""
    try:
        head_length, source_length = _LENGTHS.unpack_from(data)
        start = _LENGTHS.size + head_length
        head = json.loads(data[_LENGTHS.size : start])
        functions, declared = tuple(head["functions"]), tuple(head["declared"])
    except (ValueError, KeyError, TypeError, struct.error):
        return None
    end = start + source_length
    return CacheEntry(data[start:end], CachedCode(data[end:], functions, declared))


_shared: list[KernelCache] = []


def kernel_cache() -> KernelCache:
    """The process's cache, in `settings().cache_dir`."""
    if not _shared:
        chosen = settings()
        folder = chosen.cache_dir if chosen.use_disk_cache else None
        _shared.append(KernelCache(folder, chosen.cache_limit_bytes))
    return _shared[0]
