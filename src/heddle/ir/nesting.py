"""Programs that nest beyond what passes can follow: theirs is the fault then, and the message says so.

Passes recurse: a level of nesting takes them a few of the frames that Python has room for. How many depends
on the pass and on who calls it, so there is no limit in front of them. Where the frames run out, a program
that nests deeply is refused; one that does not has met a fault of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from heddle.ir.codes import I0510
from heddle.ir.node import Node
from heddle.ir.visitor import nesting, walk_distinct
from heddle.support.diagnostics import UsageError

ALWAYS_READ = 100
"""Nodes inside one another that every pass follows."""


@contextmanager
def refusing_deep_nesting(reader: str, functions: Iterable[Node]) -> Iterator[None]:
    """What is done inside a `with` recurses over functions; `reader` is who does it, for the message.

    Raises: UsageError I0510 where that takes more frames than Python has, because the functions nest deeply.
    """
    try:
        yield
    except RecursionError as error:
        depth = _depth(list(functions))
        if depth <= ALWAYS_READ:
            raise
        raise UsageError(
            I0510,
            f"{depth} loops, branches, expressions or types lie inside one another, too many for {reader}",
            help="give parts of long expressions names, make functions inside others global, and join loops",
        ) from error


def refusing_printer(script: Callable[..., str | None]) -> Callable[..., str | None]:
    """A printer of nodes that refuses those which nest too deep."""

    def printer(node: Node, **options: Any) -> str | None:
        with refusing_deep_nesting("the printer", [node]):
            return script(node, **options)

    return printer


def _depth(roots: list[Node]) -> int:
    """How many nodes lie inside one another at most, those of types too, which expressions only refer to."""
    types = {
        id(ty): ty for node in walk_distinct(*roots) if isinstance(ty := getattr(node, "ty", None), Node)
    }
    return nesting(*roots, *types.values())
