"""Elementwise operations with numpy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from heddle import te
from heddle.arith.broadcast import broadcast_shape, same_dim
from heddle.prim.nodes import IntImm, Min, PrimExpr, constant, is_const_int
from heddle.prim.ops import cast, equal, select


def _never_stretches(dim: PrimExpr, size: PrimExpr) -> bool:
    """Whether a dimension can be 1 only if the size is 1: the dimension is the minimum of the size and a
    constant."""
    if not isinstance(dim, Min):
        return False
    return any(
        isinstance(limit, IntImm) and limit.value > 1 and same_dim(rest, size)
        for limit, rest in ((dim.a, dim.b), (dim.b, dim.a))
    )


def read_broadcast(x: te.Tensor, index: Sequence[PrimExpr], shape: Sequence[PrimExpr]) -> PrimExpr:
    """Return the element of `x` at an index into the broadcast shape. Axes of size 1 are read at 0; for axes
    that may have size 1, this is decided at run time."""
    skip = len(shape) - x.ndim
    own = [
        _read_at(dim, position, size)
        for dim, position, size in zip(x.shape, index[skip:], shape[skip:], strict=True)
    ]
    result: PrimExpr = x[tuple(own)] if own else x()
    return result


def _read_at(dim: PrimExpr, position: PrimExpr, size: PrimExpr) -> PrimExpr:
    first = constant(0, dim.dtype)
    if is_const_int(dim, 1):
        return position if is_const_int(size, 1) else first
    if isinstance(dim, IntImm) or same_dim(dim, size) or _never_stretches(dim, size):
        return position
    return select(equal(dim, 1), cast(position.dtype, first), position)


def elementwise(function: Callable[..., PrimExpr], *inputs: te.Tensor, name: str = "compute") -> te.Tensor:
    """Apply `function` to the elements of tensors, with broadcasting."""
    shape = broadcast_shape(*(x.shape for x in inputs))
    result: te.Tensor = te.compute(
        shape, lambda *i: function(*(read_broadcast(x, i, shape) for x in inputs)), name=name
    )
    return result


def broadcast_to(x: te.Tensor, shape: Sequence[PrimExpr]) -> te.Tensor:
    """Repeat x along dimensions of size 1 and along new leading dimensions.

    Shapes: x → shape. Dtypes: any; the result has x's.
    """
    result: te.Tensor = te.compute(shape, lambda *i: read_broadcast(x, i, shape), name="broadcast_to")
    return result
