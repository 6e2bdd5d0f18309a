"""Locks over forks: all that there are when the fork happens are held."""

from __future__ import annotations

import threading
from typing import Any

from heddle.support import forks
from heddle.support.forks import ForkLock, Rank


class _Noted:
    """A lock that counts who has it; `on_acquire` stands for what another thread does meanwhile."""

    def __init__(self, on_acquire: Any = None) -> None:
        self.holders, self._on_acquire = 0, on_acquire

    def acquire(self) -> None:
        self.holders += 1
        if self._on_acquire is not None:
            self._on_acquire()

    def release(self) -> None:
        self.holders -= 1


def test_locks_made_while_others_are_taken_are_held_too() -> None:
    late = _Noted()
    made: list[ForkLock] = []

    def make() -> None:
        if not made:
            made.append(ForkLock(Rank.IMPORTING, late))

    first = _Noted(make)
    kept = ForkLock(Rank.LEAF, first)
    forks._take_all()
    try:
        held = first.holders, late.holders
    finally:
        forks._give_all()
    assert held == (1, 1)
    assert (first.holders, late.holders) == (0, 0)
    assert kept.rank == Rank.LEAF


def test_none_is_made_before_the_fork_is_over() -> None:
    made = threading.Event()

    def make() -> None:
        ForkLock(Rank.LEAF)
        made.set()

    forks._take_all()
    try:
        maker = threading.Thread(target=make)
        maker.start()
        assert not made.is_set()
    finally:
        forks._give_all()
    maker.join()
    assert made.is_set()
