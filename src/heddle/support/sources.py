"""A digest of the package's own sources: what an older state of the compiler made is never taken for this
one's."""

from __future__ import annotations

import os
from functools import cache
from hashlib import blake2b
from pathlib import Path

_SUFFIXES = (".py", ".ll", ".h")
_PACKAGE = Path(__file__).parent.parent


@cache
def sources_digest(*rooms: str) -> str:
    """32 hexadecimal digits for the source files of these rooms; of the whole package where none is named."""
    digest = blake2b(digest_size=16)
    for name in rooms or sorted(os.listdir(_PACKAGE)):
        digest.update(_digest_of(name))
    return digest.hexdigest()


@cache
def _digest_of(name: str) -> bytes:
    """That of a room, or of a file beside the rooms."""
    digest = blake2b(digest_size=16)
    for path in _sources(os.path.join(_PACKAGE, name)):
        with open(path, "rb", buffering=0) as file:
            digest.update(f"{path.removeprefix(str(_PACKAGE))}\0".encode())
            digest.update(file.readall())
    return digest.digest()


def _sources(path: str) -> list[str]:
    """The source files at or below a path, in order. Each process asks for all, so it is done without
    `pathlib`, which takes three times as long."""
    if not os.path.isdir(path):
        return [path] if path.endswith(_SUFFIXES) else []
    found: list[str] = []
    folders = [path]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.name.endswith(_SUFFIXES):
                    found.append(entry.path)
    return sorted(found)
