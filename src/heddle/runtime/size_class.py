"""Size classes of memory pools: `size_class` of `native/source/memory.py` in Python.

There are eight classes per power of two, from 64 bytes up. A block is at most 12.5% or 64 bytes larger than
the request.
"""

from __future__ import annotations

_LEAST_BYTES = 64
_LOG_CLASSES = 3  # classes per power of two


def block_bytes(size_bytes: int) -> int:
    """Return the size in bytes of the block that a pool lends for `size_bytes`."""
    last = max(size_bytes, _LEAST_BYTES) - 1
    step_log = max(last.bit_length() - 1 - _LOG_CLASSES, 0)
    return ((last >> step_log) + 1) << step_log
