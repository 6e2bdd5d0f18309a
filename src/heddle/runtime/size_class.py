"""How large the block is that a pool lends for a size: `size_class` of `native/source/memory.py` in Python.

Eight classes to a power of two, from 64 bytes: at most 12.5% more than was asked for, or 64 bytes.
"""

from __future__ import annotations

_LEAST_BYTES = 64
_LOG_CLASSES = 3  # to a power of two


def block_bytes(size_bytes: int) -> int:
    """The bytes of the block for a storage of `size_bytes`."""
    last = max(size_bytes, _LEAST_BYTES) - 1
    step_log = max(last.bit_length() - 1 - _LOG_CLASSES, 0)
    return ((last >> step_log) + 1) << step_log
