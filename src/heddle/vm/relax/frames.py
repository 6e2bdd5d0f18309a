"""Entering functions: what the machine's loop and the loops that watch it have to agree on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.support.diagnostics import HeddleError, Trap
from heddle.vm.codes import V0302, V0305
from heddle.vm.objects import VMClosure
from heddle.vm.relax.link import LinkedFunction

MAX_FRAMES = 100_000


def closure_target(args: Sequence[Any]) -> tuple[LinkedFunction | None, Sequence[Any]]:
    """What the operands (machine, closure, arguments...) of an invocation enter, and with which arguments; no
    target where the closure is not bytecode."""
    _, closure, *rest = args
    if type(closure) is not VMClosure or closure.target is None:
        return None, args[1:]
    target: LinkedFunction = closure.target
    rest += closure.bound
    if len(rest) != target.num_args:
        raise wrong_count(target.name, target.num_args, target.param_names, len(rest))
    return target, rest


def wrong_count(name: str, expected: int, param_names: Sequence[str], got: int) -> Trap:
    names = f" ({', '.join(param_names)})" if param_names else ""
    return Trap(V0302, f"function {name!r} expects {expected} arguments{names}, got {got}")


def too_deep(function: LinkedFunction) -> Trap:
    return Trap(V0305, f"call depth exceeded in {function.name!r}: expected at most {MAX_FRAMES} frames")


def add_notes(error: HeddleError, notes: Sequence[str]) -> None:
    """Say where a failure was, once."""
    for note in notes:
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)


def new_frame(function: LinkedFunction, args: Sequence[Any]) -> list[Any]:
    """The registers and constants that a call of `function` starts with. Raises: Trap V0302."""
    if len(args) != function.num_args:
        raise wrong_count(function.name, function.num_args, function.param_names, len(args))
    frame = function.template.copy()
    frame[: function.num_args] = args
    return frame
