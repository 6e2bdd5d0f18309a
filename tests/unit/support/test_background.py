"""Work behind the user's back ends before the process does, and what waits for it sees it done."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from heddle.support.background import in_background, settle
from heddle.support.on_threads import map_on_threads
from heddle.support.settings import settings


def test_work_of_one_name_is_done_in_order_and_settle_waits() -> None:
    done: list[int] = []
    gate = threading.Event()

    def first() -> None:
        gate.wait(60)
        done.append(1)

    in_background("a", first)
    assert done == []
    threading.Timer(0.05, gate.set).start()
    in_background("a", lambda: done.append(2))
    settle("another")
    settle("a")
    assert done == [1, 2]


def test_work_is_done_at_once_where_there_are_no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    done: list[int] = []
    in_background("a", lambda: done.append(1))
    assert done == [1]
    assert map_on_threads(lambda item: item * 2, range(5)) == [0, 2, 4, 6, 8]


def test_the_process_ends_behind_the_work() -> None:
    code = (
        "import time\n"
        "from heddle.support.background import in_background\n"
        "in_background('a', lambda: (time.sleep(0.3), print('done', flush=True)))\n"
        "print('end', flush=True)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert ran.stdout.split() == ["end", "done"]


def ended(code: str) -> subprocess.CompletedProcess[str]:
    """A process that runs the code to its end."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def test_an_abandoned_work_holds_up_no_end() -> None:
    ended(
        "import threading\n"
        "from heddle.support.background import abandon, in_background\n"
        "in_background('a', threading.Event().wait)\n"
        "abandon()\n"
    )


LATE = """
import atexit, threading, time
import numpy as np
from heddle.support.background import in_background, settle
from heddle.support.on_threads import map_on_threads

def late(when):
    found = map_on_threads(lambda item: item + 1, range(50))
    in_background("a", lambda: print(when, sum(found), flush=True))
    settle()

def thread():
    time.sleep(0.2)
    late("thread")

atexit.register(late, "atexit")
threading.Thread(target=thread).start()
"""


def test_threads_and_atexit_may_ask_for_work_while_the_interpreter_ends() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LATE], capture_output=True, text=True, timeout=120, check=True
    )
    assert ran.stdout.splitlines() == ["thread 1275", "atexit 1275"] and ran.stderr == ""


def test_two_that_wait_for_one_work_both_see_it_done() -> None:
    gate, seen = threading.Event(), list[bool]()
    done = threading.Event()

    def work() -> None:
        gate.wait(60)
        done.set()

    in_background("a", work)
    waiting = [threading.Thread(target=lambda: (settle("a"), seen.append(done.is_set()))) for _ in range(2)]
    for thread in waiting:
        thread.start()
    gate.set()
    for thread in waiting:
        thread.join()
    assert seen == [True, True]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_waits_for_no_thread_of_its_parent() -> None:
    gate = threading.Event()
    in_background("a", lambda: (gate.wait(60), None)[1])
    child = os.fork()
    if child == 0:
        settle()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    gate.set()
    settle()


def test_what_threads_find_is_in_order_and_the_first_failure_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = [item * item for item in range(50)]
    assert map_on_threads(lambda item: item * item, range(50)) == wanted
    assert map_on_threads(len, []) == []
    with pytest.raises(ZeroDivisionError):
        map_on_threads(lambda item: 1 // (item - 3), range(8))
    seen: set[str] = set()
    both = threading.Barrier(2, timeout=60)

    def meet(item: int) -> None:
        both.wait()
        seen.add(threading.current_thread().name)

    if settings().num_threads >= 2:
        map_on_threads(meet, range(2))
        assert len(seen) == 2
