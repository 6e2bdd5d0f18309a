"""Elementwise operations on tensors whose shapes broadcast as numpy's do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heddle import te
from heddle.prim.nodes import IntImm, PrimExpr, constant, is_const_int


def broadcast_dim(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """The dimension of the result; a symbolic one against a constant other than 1 is the constant."""
    if is_const_int(a, 1):
        return b
    if is_const_int(b, 1) or a is b:
        return a
    if isinstance(a, IntImm) or isinstance(b, IntImm):
        return a if isinstance(a, IntImm) else b
    return a


def broadcast_shape(*shapes: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
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
    return max((len(shape) for shape in shapes), default=0)


def read_broadcast(x: te.Tensor, index: Sequence[PrimExpr], shape: Sequence[PrimExpr]) -> PrimExpr:
    """The element of `x` for an index into the broadcast shape: axes of size 1 are read at 0."""
    skip = len(shape) - x.ndim
    own = []
    for dim, position, size in zip(x.shape, index[skip:], shape[skip:], strict=True):
        own.append(constant(0, dim.dtype) if is_const_int(dim, 1) and not is_const_int(size, 1) else position)
    result: PrimExpr = x[tuple(own)] if own else x()
    return result


def elementwise(function: Callable[..., PrimExpr], *inputs: te.Tensor, name: str = "compute") -> te.Tensor:
    """`function` applied to the elements of tensors that broadcast."""
    shape = broadcast_shape(*(x.shape for x in inputs))
    result: te.Tensor = te.compute(
        shape, lambda *i: function(*(read_broadcast(x, i, shape) for x in inputs)), name=name
    )
    return result


def broadcast_to(x: te.Tensor, shape: Sequence[PrimExpr]) -> te.Tensor:
    result: te.Tensor = te.compute(shape, lambda *i: read_broadcast(x, i, shape), name="broadcast_to")
    return result
