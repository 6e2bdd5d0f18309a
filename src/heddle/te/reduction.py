"""Reductions of tensor expressions: sum, product, minimum, maximum, and user-defined commutative reducers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from heddle.prim.nodes import Var, as_expr, constant
from heddle.prim.ops import max_value, maximum, min_value, minimum, multiply
from heddle.te.tensor import CommReducer, Reduce
from heddle.tir.nodes import IterVar


def comm_reducer(
    fcombine: Callable[[Any, Any], Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Callable[..., Any]:
    """Make a reduction from a combining function and its identity. `fidentity(dtype)` returns the identity;
    for tuples of values, both functions take and return several values.

    The result `r(expr, axis)` reduces over an axis or a list of axes. Called with values only, it combines
    them: `max(x, 0)`, `max(x, y, z)`.
    """

    def reduce(expr: Any, axis: Any, where: Any = None, init: Any = None, *more: Any) -> Any:
        if not isinstance(axis, (IterVar, list, tuple)):
            values = [value for value in (axis, where, init) if value is not None]
            return functools.reduce(fcombine, [*values, *more], as_expr(expr))
        sources = tuple(as_expr(e) for e in (expr if isinstance(expr, tuple) else (expr,)))
        lhs = tuple(Var(f"x{k}", source.dtype) for k, source in enumerate(sources))
        rhs = tuple(Var(f"y{k}", source.dtype) for k, source in enumerate(sources))
        several = isinstance(expr, tuple)
        combined = fcombine(lhs, rhs) if several else fcombine(lhs[0], rhs[0])
        identity = fidentity(*(source.dtype for source in sources))
        combiner = CommReducer(
            lhs, rhs, tuple(combined) if several else (combined,), tuple(identity) if several else (identity,)
        )
        axes = tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
        condition = as_expr(where) if where is not None else constant(True)
        start = (
            ()
            if init is None
            else tuple(as_expr(i) for i in (init if isinstance(init, (list, tuple)) else [init]))
        )
        made = tuple(Reduce(combiner, sources, axes, condition, k, start) for k in range(len(sources)))
        return made if several else made[0]

    reduce.__name__ = name
    return reduce


sum = comm_reducer(lambda x, y: x + y, lambda dtype: constant(0, dtype), "sum")
prod = comm_reducer(multiply, lambda dtype: constant(1, dtype), "prod")
max = comm_reducer(maximum, min_value, "max")
min = comm_reducer(minimum, max_value, "min")
