"""How much work a file may ask of the compiler: one table of limits.

A model of a few bytes can describe any amount of work: functions that call each other twice, operators that
double their input, powers of powers. So what grows faster than the file is counted, and stops at a limit.
The defaults are beyond what real models ask for. Where a limit only bounds what is done early (folding), the
rest is left to run time; else the model is refused, with the limit's name and how to raise it.

    with heddle.config.limits(nodes=1_000_000):
        mod = from_onnx("large.onnx")

A `with` holds in its own thread (its context), as those of `PassContext` do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, fields, replace
from typing import Any

from heddle.support.codes import S0302, S0601
from heddle.support.diagnostics import UsageError, did_you_mean
from heddle.support.frozen import frozen

MIB, GIB = 1 << 20, 1 << 30


def _limit(default: int, meaning: str) -> Any:
    return field(default=default, metadata={"meaning": meaning})


@frozen
class Limits:
    """The limits, all positive integers. Raises: UsageError S0302 for any other value."""

    nodes: int = _limit(
        250_000, "nodes of a model, each call of a function of the model counted as its nodes"
    )
    nesting: int = _limit(32, "subgraphs and functions inside one another in a model")
    message_bytes: int = _limit(2 * GIB, "bytes of a model file apart from large weights")
    text_bytes: int = _limit(256 * MIB, "bytes of script text")
    text_bits: int = _limit(4096, "bits of an integer that script text computes")
    text_items: int = _limit(1 << 20, "items of a list, tuple, string or range that script text computes")
    tuple_fields: int = _limit(1 << 14, "fields of a tuple, those of the tuples inside it included")
    size_nodes: int = _limit(1 << 12, "nodes of the formula of a tensor's size, shared parts written out")
    kernel_steps: int = _limit(
        1 << 44, "turns of innermost loops in one call of a loop function from untrusted text"
    )
    loop_turns: int = _limit(
        1 << 32,
        "turns of a loop of a model: those that the model states, with those of the loops around it, and "
        "those that an input states, where nothing else ends the loop",
    )
    call_depth: int = _limit(1_000_000, "expressions inside one another that the Relay interpreter computes")
    match_cases: int = _limit(1 << 13, "cases into which the clauses of a Relay match split the values")
    frames: int = _limit(250_000, "calls inside one another that a machine runs as bytecode")
    stack_bytes: int = _limit(
        512 * MIB, "bytes of stack that a machine's compiled code may take, beside that of its thread"
    )
    image_pixels: int = _limit(
        1 << 27, "pixels of an image that a model decodes; Pillow itself reads up to 178,956,970"
    )
    fold_bytes: int = _limit(
        2 * GIB, "bytes of all constants that folding makes from scalars, or makes larger"
    )
    fold_growth_bytes: int = _limit(64 * MIB, "bytes by which folding makes constants larger, all together")
    fold_work: int = _limit(1 << 33, "multiply-adds and elements of one operator that is folded")
    fold_total_work: int = _limit(1 << 36, "multiply-adds and elements of all operators that are folded")

    def __post_init__(self) -> None:
        for row in fields(self):
            value = getattr(self, row.name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise UsageError(
                    S0302, f"limit {row.name!r} must be a positive integer, got {value!r}", help=_KNOWN
                )


_KNOWN = "docs/limits.md lists the limits"
_current: ContextVar[Limits] = ContextVar("heddle_limits")


def limit_rows() -> list[tuple[str, int, str]]:
    """Name, default and meaning of each limit."""
    return [(row.name, int(row.default), row.metadata["meaning"]) for row in fields(Limits)]  # type: ignore[arg-type]


def current_limits() -> Limits:
    """The limits that hold here."""
    return _current.get(None) or _DEFAULT


@contextmanager
def limits(**changes: int) -> Iterator[Limits]:
    """Other values for the limits named, inside a `with`. Raises: UsageError S0302 for an unknown name or a
    value that is no positive integer."""
    known = [row.name for row in fields(Limits)]
    for name in changes:
        if name not in known:
            raise UsageError(S0302, f"there is no limit {name!r}", help=did_you_mean(name, known) or _KNOWN)
    token = _current.set(replace(current_limits(), **changes))
    try:
        yield current_limits()
    finally:
        _current.reset(token)


def parse_limits(items: Iterable[str]) -> dict[str, int]:
    """Limits as the command line has them, `NAME=VALUE`. Raises: UsageError S0302."""
    found: dict[str, int] = {}
    for item in items:
        name, equals, text = item.partition("=")
        if not equals or not text.isascii() or not text.isdigit() or len(text) > 18:
            raise UsageError(S0302, f"a limit is written NAME=VALUE with a positive integer, got {item!r}")
        found[name] = int(text)
    return found


def exceeded(name: str, what: str, span: Any = None) -> UsageError:
    """The error where a limit ends something that cannot be left out. `what` says what was asked for, `span`
    where."""
    value = getattr(current_limits(), name)
    return UsageError(
        S0601,
        f"{what}, and the limit {name!r} is {value}",
        span=span,
        help=f"to raise it: `--limit {name}=VALUE`, or `with heddle.config.limits({name}=VALUE)`",
    )


_DEFAULT = Limits()
