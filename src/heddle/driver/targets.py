"""Resolve the target argument of the compiler."""

from __future__ import annotations

from typing import Any

from heddle.target import Target


def as_target(target: Any = None) -> Target:
    """Return the target that an argument means; None means the current target, else this machine.

    Raises: UsageError H01.. for a malformed or empty text, and for a target for which LLVM cannot generate
    code.
    """
    given = target if isinstance(target, Target) or target is None else Target(target)
    found: Target = given or Target.current() or Target("llvm")
    found.check()
    return found
