"""Loops as recursive functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heddle.ir.expr import Expr, Function, If, Tuple, Var
from heddle.relay.builders import as_expr
from heddle.relay.nodes import Let


def while_loop(
    cond: Callable[..., Any], loop_vars: Sequence[Var], loop_bodies: Callable[..., Sequence[Any]]
) -> Expr:
    """A function that takes the first values of the variables and gives the tuple of the last ones.

        loop = while_loop(lambda i, s: relay.less(i, n), [i, s], lambda i, s: [i + one, s + i])
        loop(relay.const(0), relay.const(0))

    `cond(*vars)` says whether to go on, `loop_bodies(*vars)` gives the next values.
    """
    loop = Var("while_loop", dialect="relay")
    fresh = tuple(loop_vars)
    following = [as_expr(value) for value in loop_bodies(*fresh)]
    body = If(as_expr(cond(*fresh)), loop(*following), Tuple(fresh))
    return Let(loop, Function(fresh, body, dialect="relay"), loop)
