"""Python's cycle collector, paused where it finds nothing, and kept from what finalizers still use.

A compiler builds large graphs of nodes that live until it is done; each collection looks at all of them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from heddle.support.forks import ForkLock, Rank

_lock = ForkLock(Rank.LEAF)
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


def unseen(value: object) -> Any:
    """A holder that the collector does not look into; `holder[0]` is the value.

    Objects that die together in a cycle are all finalized, in any order, before any is emptied: the finalizer
    of one may call a kernel that another one owns. So the owner of machine code or of foreign memory must not
    be among them: behind a holder it dies when the last reference to the holder does. The value must not lead
    back to the holder, for such a cycle is never collected.
    """
    holder = np.empty(1, dtype=object)  # arrays take no part in collections
    holder[0] = value
    return holder
