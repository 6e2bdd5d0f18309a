"""A digest of the package's own sources: what an older state of the compiler made is never taken for this
one's."""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from pathlib import Path

_SUFFIXES = {".py", ".ll", ".h"}


@cache
def sources_digest(*rooms: str) -> str:
    """32 hexadecimal digits for the source files of these rooms; of the whole package where none is named."""
    digest = blake2b(digest_size=16)
    package = Path(__file__).parent.parent
    for folder in [package / room for room in rooms] or [package]:
        for path in sorted(folder.rglob("*")):
            if path.suffix in _SUFFIXES:
                digest.update(path.read_bytes())
    return digest.hexdigest()
