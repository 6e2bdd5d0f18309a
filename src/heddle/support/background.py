"""Work that nobody waits for but the end of the process, such as keeping a large file in a cache."""

from __future__ import annotations

import threading
from collections.abc import Callable

_running: dict[str, threading.Thread] = {}


def in_background(name: str, work: Callable[[], None]) -> None:
    """Do the work in a thread of its own, after what was given under the same name. The interpreter ends when
    it is done. Where the system has no more threads it is done at once.

    `work` reports its failures itself. A child that is forked meanwhile does not go on with it.
    """
    settle(name)
    thread = threading.Thread(target=work, name=f"heddle-{name}")
    try:
        thread.start()
    except RuntimeError:  # no more threads, or the interpreter is ending
        work()
    else:
        _running[name] = thread


def settle(name: str | None = None) -> None:
    """Wait until the work of this name is done; by default, all of it."""
    for each in list(_running) if name is None else [name]:
        thread = _running.pop(each, None)
        if thread is not None and thread is not threading.current_thread():
            thread.join()
