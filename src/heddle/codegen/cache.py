"""The kernel cache: object code by what it was compiled from, in memory and on disk.

The key is a digest of the function (names of variables aside), the target, and the versions of compiler and
LLVM. An entry holds the function itself, as its structural bytes; it is used only where they are equal to
those of the function that is asked for, so that a collision of digests cannot give wrong code. A function
with free variables is compiled anew each time. Files are written whole or not at all; a damaged one is
ignored and written anew. `counters` tell how often code was compiled and how often found.

File: magic (8 bytes), digest of the rest (32), then with their lengths (8 bytes each, little-endian) a JSON
head and the function, and the object code.
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

from heddle.ir.structural import structural_bytes
from heddle.support.diagnostics import HeddleError
from heddle.support.files import write_bytes
from heddle.support.settings import settings
from heddle.target import Target

COMPILER_ROOMS = ("codegen", "tir", "arith", "prim", "target")
"""The rooms whose sources decide what code a function becomes."""
_MAGIC = b"HDLKRN02"
_DIGEST_BYTES = 32
_LENGTHS = struct.Struct("<QQ")


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
    """Object code of the function that `source` are the structural bytes of, and the names of its kernels."""

    source: bytes
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

    def find(self, func: Any, target: Target) -> CacheEntry | None:
        """The entry of a function for a target, or None."""
        source = structural_bytes(func)
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

    def add(self, func: Any, target: Target, object_code: bytes, functions: tuple[str, ...]) -> None:
        """Keep what was compiled."""
        source = structural_bytes(func)
        with self._lock:
            self.counters.compiles += 1
        if source is None:
            return
        key, entry = cache_key(source, target), CacheEntry(source, object_code, functions)
        with self._lock:
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


def cache_key(source: bytes, target: Target) -> str:
    """32 hexadecimal digits for a function's structural bytes and a target."""
    parts = (
        blake2b(source, digest_size=16).hexdigest(),
        str(target),
        target.mtriple,
        target.mcpu,
        target.features,
        compiler_digest(),
        llvmlite.__version__,
    )
    return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def _encode(entry: CacheEntry) -> bytes:
    head = json.dumps({"functions": list(entry.functions)}).encode()
    rest = _LENGTHS.pack(len(head), len(entry.source)) + head + entry.source + entry.object_code
    return _MAGIC + blake2b(rest, digest_size=_DIGEST_BYTES).digest() + rest


def _decode(data: bytes) -> CacheEntry | None:
    """The entry of a file; None where the file is damaged or of another version."""
    digest, rest = data[8 : 8 + _DIGEST_BYTES], data[8 + _DIGEST_BYTES :]
    if data[:8] != _MAGIC or blake2b(rest, digest_size=_DIGEST_BYTES).digest() != digest:
        return None
    head_length, source_length = _LENGTHS.unpack_from(rest)
    start = _LENGTHS.size + head_length
    try:
        functions = json.loads(rest[_LENGTHS.size : start])["functions"]
    except (ValueError, KeyError, TypeError):
        return None
    end = start + source_length
    return CacheEntry(rest[start:end], rest[end:], tuple(functions))


_shared: list[KernelCache] = []


def kernel_cache() -> KernelCache:
    """The process's cache, in `settings().cache_dir`."""
    if not _shared:
        chosen = settings()
        _shared.append(KernelCache(chosen.cache_dir / "kernels" if chosen.use_disk_cache else None))
    return _shared[0]
