"""Detect this machine: processor name, features and cache sizes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from heddle.runtime.processor import this_processor
from heddle.support.frozen import frozen
from heddle.support.settings import available_cores

_CACHE_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@frozen
class Host:
    """A machine. `features` is LLVM's list, "+avx2,-sse4a,..."; cache sizes in bytes are 0 if unknown."""

    triple: str
    cpu: str
    features: str
    num_cores: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int


def _size_bytes(text: str) -> int:
    text = text.strip()
    if text and text[-1] in _UNITS:
        return int(text[:-1]) * _UNITS[text[-1]]
    return int(text) if text.isdigit() else 0


def _data_caches(folder: Path) -> dict[int, int]:
    """Return the size in bytes of each level of data and unified caches of one core."""
    sizes: dict[int, int] = {}
    for entry in sorted(folder.glob("index*")) if folder.is_dir() else ():
        try:
            kind, level = (entry / "type").read_text().strip(), int((entry / "level").read_text())
            if kind != "Instruction":
                sizes[level] = _size_bytes((entry / "size").read_text())
        except (OSError, ValueError):
            continue
    return sizes


@cache
def host() -> Host:
    """Return this machine. The result is cached."""
    processor = this_processor()
    caches = _data_caches(_CACHE_FOLDER)
    return Host(
        processor.triple,
        processor.cpu,
        processor.features,
        available_cores(),
        caches.get(1, 0),
        caches.get(2, 0),
        caches.get(3, 0),
    )
