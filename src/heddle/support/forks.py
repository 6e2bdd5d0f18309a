"""Locks that a forked child can use, whatever other threads were doing.

A child has the memory of its parent and one thread: a lock that another thread held stays taken for ever, and
what it protects may be half changed. So the forking thread takes these locks first, and gives them back in
the parent and in the child.

Locks are taken by rank. A thread that holds one of them may wait for one of a higher rank only; so forking
never waits for a thread that waits for it.

| rank | of what |
|---|---|
| IMPORTING | tables that import modules to fill themselves |
| LINKING | modules of kernels while they are linked |
| LIBRARY | the native library, and LLVM's binding while it is loaded |
| LLVM | calls of LLVM (the lock of the package llvmlite) |
| LEAF | what holds nothing else |

The native library's own locks are held by its handlers (`runtime/native/source/forks.py`).
"""

from __future__ import annotations

import os
import threading
import weakref
from enum import IntEnum
from typing import Any


class Rank(IntEnum):
    """In the order in which locks are taken."""

    IMPORTING = 0
    LINKING = 1
    LIBRARY = 2
    LLVM = 3
    LEAF = 4


class ForkLock:
    """A lock that its own thread may take again, held over forks. A context manager."""

    __slots__ = ("__weakref__", "_lock", "rank")

    def __init__(self, rank: Rank, lock: Any = None) -> None:
        self.rank = rank
        self._lock = threading.RLock() if lock is None else lock
        with _table:
            _locks.add(self)

    def __enter__(self) -> ForkLock:
        self._lock.acquire()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._lock.release()

    def acquire(self) -> None:
        """Wait for the lock and take it."""
        self._lock.acquire()

    def release(self) -> None:
        """Give the lock back. Raises: RuntimeError where nobody holds it."""
        self._lock.release()


_table = threading.RLock()
"""Of `_locks`. Who forks waits for no lock while it has this one: others make locks while they hold some."""
_locks: weakref.WeakSet[ForkLock] = weakref.WeakSet()
_held: list[ForkLock] = []


def _take_all() -> None:
    """Take all locks, and the table of them: none is made until the fork is over."""
    while True:
        with _table:
            known = sorted(_locks, key=lambda lock: lock.rank)
        for lock in known:
            lock.acquire()
            _held.append(lock)
        _table.acquire()
        if set(_held).issuperset(_locks):
            return
        _table.release()  # locks were made since, and somebody may hold them
        _release_held()


def _give_all() -> None:
    _release_held()
    _table.release()


def _release_held() -> None:
    while _held:
        _held.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take_all, after_in_parent=_give_all, after_in_child=_give_all)
