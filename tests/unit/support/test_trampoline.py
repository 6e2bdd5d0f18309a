"""Recursion as generators: results, depth, and what an error leaves behind."""

from __future__ import annotations

import threading

import pytest

from heddle.support import trampoline
from heddle.support.span import TextSpan, ambient_span, at


def _depth(steps: int) -> trampoline.Recursion:
    return 0 if steps == 0 else 1 + (yield _depth(steps - 1))


def _fails(steps: int) -> trampoline.Recursion:
    with at(TextSpan(f"step {steps}")):
        if steps == 0:
            raise ValueError("the innermost call fails")
        return (yield _fails(steps - 1))


def test_recursion_goes_deeper_than_the_stack() -> None:
    assert trampoline.run(_depth(50_000)) == 50_000


def test_an_error_that_is_kept_leaves_the_ambient_span_as_it_was() -> None:
    with pytest.raises(ValueError) as kept:
        trampoline.run(_fails(3))
    assert ambient_span() is None, kept
    with pytest.raises(trampoline.TooDeepError) as deep:
        trampoline.run(_fails(30), most=10)
    assert ambient_span() is None, deep


def test_an_error_of_another_thread_may_be_dropped_here(recwarn: pytest.WarningsRecorder) -> None:
    kept: list[BaseException] = []

    def fail() -> None:
        try:
            trampoline.run(_fails(3))
        except ValueError as error:
            kept.append(error)

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    kept.clear()
    assert not recwarn.list
