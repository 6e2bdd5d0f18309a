"""Recursion of any depth in constant Python stack.

A recursive function is written as a generator: it yields the generators of the calls whose results it needs,
and returns its own result.

    def depth(tree):
        if tree is None:
            return 0
        return 1 + max((yield depth(tree.left)), (yield depth(tree.right)))

    run(depth(tree))

The calls in progress lie in a list. An error ends all of them at once, the innermost first. So what a call
set for a time (`with at(span)`) is as it was, even where somebody keeps the error and with it the frames.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any

Recursion = Generator[Any, Any, Any]
"""A call in progress; what it yields are further ones."""


class TooDeepError(Exception):
    """More calls are in progress than the caller of `run` allows."""


def run(call: Recursion, most: int = sys.maxsize) -> Any:
    """The result of a call. Raises: TooDeepError where more than `most` calls are in progress."""
    calls = [call]
    value: Any = None
    try:
        while calls:
            try:
                calls.append(calls[-1].send(value))
                value = None
                if len(calls) > most:
                    raise TooDeepError
            except StopIteration as done:
                calls.pop()
                value = done.value
    finally:
        while calls:
            calls.pop().close()
    return value
