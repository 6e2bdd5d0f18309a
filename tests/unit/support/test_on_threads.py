"""Work on threads: results in order, failures where they are waited for, also where no thread can be had."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from heddle.support import on_threads
from heddle.support.on_threads import begun, map_on_threads
from heddle.support.settings import settings


@pytest.fixture(params=["threads", "one thread", "no more threads"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    count = 1 if request.param == "one thread" else 3
    monkeypatch.setattr(on_threads, "settings", lambda: replace(settings(), num_threads=count))
    if request.param == "no more threads":

        def refuse(_thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", refuse)
    return str(request.param)


def test_results_are_in_order(kind: str) -> None:
    assert map_on_threads(lambda item: 2 * item, range(50)) == list(range(0, 100, 2))
    assert map_on_threads(lambda item: item, []) == []


def test_a_failure_is_raised(kind: str) -> None:
    with pytest.raises(ZeroDivisionError):
        map_on_threads(lambda item: 1 // item, [1, 0, 1])


def test_begun_work_is_done_once(kind: str) -> None:
    done: list[str] = []
    finish = begun(lambda: done.append(threading.current_thread().name) or len(done))
    assert finish() == 1 and finish() == 1 and len(done) == 1
    assert (done[0] == "heddle-work") == (kind == "threads")


def test_begun_work_that_fails_does_so_where_it_is_waited_for(kind: str) -> None:
    finish = begun(lambda: 1 // 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            finish()
