"""Python's cycle collector, paused where it finds nothing.

A compiler builds large graphs of nodes that live until it is done; each collection looks at all of them.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_pauses = [0]
_was_enabled = [False]


@contextmanager
def collection_paused() -> Iterator[None]:
    """Inside, in any thread, no cycles are collected; afterwards it is as it was before the first pause."""
    with _lock:
        if _pauses[0] == 0:
            _was_enabled[0] = gc.isenabled()
            gc.disable()
        _pauses[0] += 1
    try:
        yield
    finally:
        with _lock:
            _pauses[0] -= 1
            if _pauses[0] == 0 and _was_enabled[0]:
                gc.enable()
