"""Work that nobody waits for but the end of the process, such as keeping a large file in a cache."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable

from heddle.support.forks import ForkLock, Rank

_lock = ForkLock(Rank.LEAF)
_running: dict[str, threading.Thread] = {}


def in_background(name: str, work: Callable[[], None]) -> None:
    """Do the work in a thread of its own, after what was given under the same name. The process ends when it
    is done, unless it is interrupted. Where the system has no more threads it is done at once.

    `work` reports its failures itself. A child that is forked meanwhile does not go on with it.
    """
    with _lock:
        before = _running.get(name)

        def run() -> None:
            if before is not None:
                before.join()
            work()
            with _lock:
                if _running.get(name) is thread:
                    del _running[name]

        thread = threading.Thread(target=run, name=f"heddle-{name}", daemon=True)
        _running[name] = thread
        try:
            thread.start()
        except RuntimeError:  # no more threads, or the interpreter is ending
            del _running[name]
        else:
            return
    if before is not None:
        before.join()
    work()


@atexit.register
def settle(name: str | None = None) -> None:
    """Wait until the work of this name is done; by default, all of it."""
    with _lock:
        waited = [*_running.values()] if name is None else [_running.get(name)]
    for thread in waited:
        if thread is not None and thread is not threading.current_thread():
            thread.join()


def abandon() -> None:
    """Let nobody wait for what is still to be done: the user asked the process to end."""
    with _lock:
        _running.clear()
