"""Work of numpy and hashlib on all processors: they let other threads run while they are busy."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from heddle.support.settings import settings

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def map_on_threads(work: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
    """What `work` gives for each item, in order; it runs on as many threads as kernels may, where the system
    has so many. A failure is raised when all threads are done. Each item should be worth a millisecond.

    `concurrent.futures` refuses work while the interpreter ends, when threads and `atexit` may still compile.
    """
    todo = deque(enumerate(items))
    results: dict[int, _Result] = {}
    failures: list[Exception] = []

    def keep(number: int, item: _Item) -> None:
        results[number] = work(item)

    def run() -> None:
        while todo and not failures:
            try:
                number, item = todo.popleft()
            except IndexError:  # another thread took the last one
                return
            _try(partial(keep, number, item), failures)

    threads = _started(run, min(settings().num_threads, len(items)) - 1)
    run()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [results[number] for number in range(len(items))]


def begun(work: Callable[[], _Result]) -> Callable[[], _Result]:
    """Begin work in a thread of its own. What this gives waits for the result, or raises the failure; where
    the user or the system has no thread for it, the work is done then."""
    results: list[_Result] = []
    failures: list[Exception] = []

    def run() -> None:
        _try(lambda: results.append(work()), failures)

    threads = _started(run, 1) if settings().num_threads > 1 else []

    def finish() -> _Result:
        for thread in threads:
            thread.join()
        if not results and not failures:
            run()
        if failures:
            raise failures[0]
        return results[0]

    return finish


def _try(work: Callable[[], None], failures: list[Exception]) -> None:
    try:
        work()
    except Exception as error:  # it belongs to who waits, whichever thread met it
        failures.append(error)


def _started(work: Callable[[], None], count: int) -> list[threading.Thread]:
    threads: list[threading.Thread] = []
    while len(threads) < count:
        thread = threading.Thread(target=work, name="heddle-work", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no more, or the interpreter is ending
            break
        threads.append(thread)
    return threads
