"""Which target an argument means."""

from __future__ import annotations

from typing import Any

from heddle.target import Target


def as_target(target: Any = None) -> Target:
    """The target that an argument means: itself, the current one, or this machine.

    Raises: UsageError H01.. for a malformed one, an empty text among them, and for one that LLVM cannot make
    code for.
    """
    given = target if isinstance(target, Target) or target is None else Target(target)
    found: Target = given or Target.current() or Target("llvm")
    found.check()
    return found
