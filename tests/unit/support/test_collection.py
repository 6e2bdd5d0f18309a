import gc
import threading
from collections.abc import Iterator

import pytest

from heddle.support.collection import collection_paused


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = gc.isenabled()
    yield
    (gc.enable if before else gc.disable)()


def test_a_pause_ends_with_the_outermost_block() -> None:
    gc.enable()
    with collection_paused():
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_pause_ends_with_an_error() -> None:
    gc.enable()
    with pytest.raises(ValueError, match="inside"), collection_paused():
        raise ValueError("inside")
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with collection_paused():
        pass
    assert not gc.isenabled()


def test_pauses_of_threads_overlap() -> None:
    gc.enable()
    inside, may_leave = threading.Event(), threading.Event()

    def other() -> None:
        with collection_paused():
            inside.set()
            may_leave.wait(10)

    thread = threading.Thread(target=other)
    with collection_paused():
        thread.start()
        assert inside.wait(10)
    assert not gc.isenabled()
    may_leave.set()
    thread.join()
    assert gc.isenabled()
