"""Objects that hold inside of `with` blocks."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from heddle.support.scoped import Scoped


@dataclass(slots=True)
class _Settings(Scoped):
    number: int = 0


class _Others(Scoped):
    pass


class _Special(_Others):
    pass


def test_the_innermost_block_counts_and_an_object_may_be_entered_twice() -> None:
    first, second = _Settings(1), _Settings(2)
    assert _Settings.innermost() is None
    with first as given, second:
        assert given is first
        assert _Settings.innermost() is second
        with first:
            assert _Settings.innermost() is first
        assert _Settings.innermost() is second
    assert _Settings.innermost() is None


def test_a_class_shares_blocks_with_its_base_and_with_no_other() -> None:
    with _Special() as special:
        assert _Others.innermost() is special
        assert _Settings.innermost() is None


def test_a_block_ends_with_an_error_and_holds_in_its_thread_alone() -> None:
    seen: list[object] = []
    try:
        with _Settings(1):
            thread = threading.Thread(target=lambda: seen.append(_Settings.innermost()))
            thread.start()
            thread.join()
            raise ValueError
    except ValueError:
        pass
    assert seen == [None]
    assert _Settings.innermost() is None
