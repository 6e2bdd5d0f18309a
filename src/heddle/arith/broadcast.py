"""Broadcasting of shapes by numpy's rule, where sizes may be symbolic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.arith.analyzer import Analyzer
from heddle.ir.structural import structural_equal
from heddle.prim.nodes import EQ, IntImm, PrimExpr, Select, Var, constant, is_const_int
from heddle.prim.ops import equal, greater_equal, select
from heddle.prim.substitute import free_vars, substitute


def broadcast_dim(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Return the broadcast dimension of two dimensions. If one is symbolic and the other a constant other
    than 1, it is the constant.

    If both are symbolic and may differ, it is `b if a == 1 else a`, because either may be 1 at run time. For
    more dimensions these nest: `c if b == 1 else b` and so on, each dimension once.
    """
    if is_const_int(a, 1):
        return b
    if is_const_int(b, 1) or same_dim(a, b):
        return a
    if isinstance(a, IntImm) or isinstance(b, IntImm):
        return a if isinstance(a, IntImm) else b
    for one, other in ((a, b), (b, a)):
        if _is_one_with(one, other):
            return other
    atoms = choices(a)
    more = [dim for dim in choices(b) if not any(same_dim(dim, known) for known in atoms)]
    if not more:
        return a
    if len(more) + len(atoms) == len(choices(b)):
        return b
    result = more.pop()
    for dim in reversed([*atoms, *more]):
        result = select(equal(dim, 1), result, dim)
    return result


def _is_one_with(dim: PrimExpr, var: PrimExpr) -> bool:
    """Whether a dimension is 1 whenever a variable is: for example `min(n, 512)` and n, for the rows of a
    table of 512."""
    if not isinstance(var, Var) or var not in free_vars(dim):
        return False
    return is_const_int(Analyzer().simplify(substitute(dim, {var: constant(1, var.dtype)})), 1)


def choices(dim: PrimExpr) -> list[PrimExpr]:
    """Return the dimensions that `broadcast_dim` combined, in order. Each matters only if all those before it
    are 1."""
    found: list[PrimExpr] = []
    while (
        isinstance(dim, Select)
        and isinstance(dim.condition, EQ)
        and is_const_int(dim.condition.b, 1)
        and structural_equal(dim.condition.a, dim.false_value)
    ):
        found.append(dim.false_value)
        dim = dim.true_value
    return [*found, dim]


def same_dim(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether two dimensions (both nonnegative) are provably equal."""
    if a is b or structural_equal(a, b) or Analyzer().can_prove_equal(a, b):
        return True
    formulas = [dim for dim in (a, b) if not isinstance(dim, (IntImm, Var))]
    if not formulas or not set(free_vars(a)) & set(free_vars(b)):
        return False
    analyzer = Analyzer()
    for dim in formulas:
        analyzer.assume(greater_equal(dim, 0))
    return analyzer.can_prove_equal(a, b)


def stretches_to(dim: PrimExpr, size: PrimExpr) -> tuple[PrimExpr, PrimExpr] | None:
    """Return a pair of expressions that are equal if a dimension is 1 or equals the broadcast size. None if
    that is certain."""
    if is_const_int(dim, 1) or same_dim(dim, choices(size)[0]):
        return None
    return size, dim if isinstance(dim, IntImm) else select(equal(dim, 1), size, dim)


def broadcast_shape(*shapes: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
    """Return the shape to which all shapes broadcast, by numpy's rule. Shapes are not checked; type rules do
    that."""
    ndim = max_len(shapes)
    result: list[PrimExpr] = []
    for axis in range(ndim):
        dims = [shape[axis - ndim + len(shape)] for shape in shapes if axis - ndim + len(shape) >= 0]
        joined = dims[0]
        for dim in dims[1:]:
            joined = broadcast_dim(joined, dim)
        result.append(joined)
    return tuple(result)


def max_len(shapes: Sequence[Sequence[Any]]) -> int:
    """Return the length of the longest shape; 0 if there are none."""
    return max((len(shape) for shape in shapes), default=0)
