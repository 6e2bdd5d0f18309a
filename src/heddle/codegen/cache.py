"""The kernel cache: object code by what it was compiled from, in memory and on disk.

The key is a digest of the function (names of variables aside), the target, and the versions of compiler and
LLVM. An entry holds the function itself as JSON; it is used only where that function is structurally equal to
the one asked for, so that a collision of digests cannot give wrong code. Files are written whole or not at
all; a damaged one is ignored and written anew. `counters` tell how often code was compiled and how often
found.

File: magic (8 bytes), digest of the rest (32), then a JSON head with its length (8 bytes, little-endian),
object code.
"""

from __future__ import annotations

import json
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import llvmlite

from heddle.ir.json_codec import load_json, save_json
from heddle.ir.structural import structural_digest, structural_equal
from heddle.support.diagnostics import HeddleError
from heddle.support.files import write_bytes
from heddle.support.settings import settings
from heddle.target import Target

COMPILER_ROOMS = ("codegen", "tir", "arith", "prim", "target")
"""The rooms whose sources decide what code a function becomes."""
_MAGIC = b"HDLKRN01"
_DIGEST_BYTES = 32
_HEAD_LENGTH = struct.Struct("<Q")


@cache
def compiler_digest() -> str:
    """A digest of the compiler's own sources, so that code of another state of it is never taken."""
    digest = blake2b(digest_size=16)
    package = Path(__file__).parent.parent
    for room in COMPILER_ROOMS:
        for path in sorted((package / room).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """Object code of the function `source` and the names of its kernels."""

    source: Any
    object_code: bytes
    functions: tuple[str, ...]


@dataclass(slots=True)
class Counters:
    compiles: int = 0
    memory_hits: int = 0
    disk_hits: int = 0

    @property
    def hits(self) -> int:
        return self.memory_hits + self.disk_hits


@dataclass(slots=True)
class KernelCache:
    """`folder` is None where nothing is kept on disk."""

    folder: Path | None
    counters: Counters = field(default_factory=Counters)
    _memory: dict[str, list[CacheEntry]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, source: Any, target: Target) -> CacheEntry | None:
        """The entry of a function for a target, or None."""
        key = cache_key(source, target)
        with self._lock:
            for entry in self._memory.get(key, ()):
                if structural_equal(entry.source, source):
                    self.counters.memory_hits += 1
                    return entry
        entry_on_disk = self._read(key)
        if entry_on_disk is None or not structural_equal(entry_on_disk.source, source):
            return None
        with self._lock:
            self.counters.disk_hits += 1
            self._memory.setdefault(key, []).append(entry_on_disk)
        return entry_on_disk

    def add(self, source: Any, target: Target, object_code: bytes, functions: tuple[str, ...]) -> None:
        """Keep what was compiled."""
        key, entry = cache_key(source, target), CacheEntry(source, object_code, functions)
        with self._lock:
            self.counters.compiles += 1
            self._memory.setdefault(key, []).append(entry)
        if self.folder is None:
            return
        # A cache that cannot be written is no failure: the next process compiles again.
        with suppress(OSError, HeddleError):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_bytes(self.path(key), _encode(entry))

    def path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / f"kernel-{key}.bin"

    def forget(self) -> None:
        """Drop what is in memory."""
        with self._lock:
            self._memory.clear()

    def _read(self, key: str) -> CacheEntry | None:
        if self.folder is None:
            return None
        try:
            return _decode(self.path(key).read_bytes())
        except OSError:
            return None


def cache_key(source: Any, target: Target) -> str:
    """32 hexadecimal digits."""
    parts = (
        structural_digest(source).hex(),
        str(target),
        target.mtriple,
        target.mcpu,
        target.features,
        compiler_digest(),
        llvmlite.__version__,
    )
    return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def _encode(entry: CacheEntry) -> bytes:
    head = json.dumps({"functions": list(entry.functions), "source": save_json(entry.source)}).encode()
    rest = _HEAD_LENGTH.pack(len(head)) + head + entry.object_code
    return _MAGIC + blake2b(rest, digest_size=_DIGEST_BYTES).digest() + rest


def _decode(data: bytes) -> CacheEntry | None:
    """The entry of a file; None where the file is damaged or of another version."""
    digest, rest = data[8 : 8 + _DIGEST_BYTES], data[8 + _DIGEST_BYTES :]
    if data[:8] != _MAGIC or blake2b(rest, digest_size=_DIGEST_BYTES).digest() != digest:
        return None
    (length,) = _HEAD_LENGTH.unpack_from(rest)
    try:
        head = json.loads(rest[_HEAD_LENGTH.size : _HEAD_LENGTH.size + length])
        source = load_json(head["source"])
    except (ValueError, KeyError, TypeError):
        return None
    return CacheEntry(source, rest[_HEAD_LENGTH.size + length :], tuple(head["functions"]))


_shared: list[KernelCache] = []


def kernel_cache() -> KernelCache:
    """The process's cache, in `settings().cache_dir`."""
    if not _shared:
        chosen = settings()
        _shared.append(KernelCache(chosen.cache_dir / "kernels" if chosen.use_disk_cache else None))
    return _shared[0]
