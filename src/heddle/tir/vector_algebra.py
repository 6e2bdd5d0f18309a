"""Arithmetic of index vectors that keeps ramps: contiguous accesses stay visible as Ramp(base, 1, lanes).

ramp(b, s) + x → ramp(b + x, s)
ramp(b, s) * c → ramp(b * c, s * c)
ramp(b, s) + ramp(c, t) → ramp(b + c, s + t)
"""

from __future__ import annotations

from typing import Any

from heddle.prim.nodes import Add, Broadcast, Mul, PrimExpr, Ramp, Sub
from heddle.prim.ops import cast, fold_binary
from heddle.runtime.dtype import DataType


def broadcast(expr: PrimExpr, lanes: int) -> PrimExpr:
    """A scalar in all lanes; a vector of that many lanes as it is."""
    return expr if expr.dtype.lanes == lanes else Broadcast(expr, lanes)


def scalar_of(expr: PrimExpr) -> PrimExpr | None:
    """The value of all lanes, where they are plainly equal."""
    if isinstance(expr, Broadcast):
        return expr.value
    return expr if expr.dtype.lanes == 1 else None


def vector_binary(cls: Any, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """`cls(a, b)` for operands of one element type, of which one or both may be vectors."""
    lanes = max(a.dtype.lanes, b.dtype.lanes)
    if lanes == 1:
        return _fold(cls, a, b)
    a_value, b_value = scalar_of(a), scalar_of(b)
    if a_value is not None and b_value is not None:
        inner = _fold(cls, a_value, b_value)
        return Broadcast(inner, lanes)
    if a.dtype.is_int:
        found = _ramp(cls, a, b)
        if found is not None:
            return found
    result: PrimExpr = cls(broadcast(a, lanes), broadcast(b, lanes))
    return result


def _fold(cls: Any, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    found = fold_binary(cls, a, b)
    result: PrimExpr = found if found is not None else cls(a, b)
    return result


def _ramp(cls: Any, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    a_value, b_value = scalar_of(a), scalar_of(b)
    if cls is Add or cls is Sub:
        if isinstance(a, Ramp) and isinstance(b, Ramp):
            return _make(_fold(cls, a.base, b.base), _fold(cls, a.stride, b.stride), a.lanes)
        if isinstance(a, Ramp) and b_value is not None:
            return Ramp(_fold(cls, a.base, b_value), a.stride, a.lanes)
        if isinstance(b, Ramp) and a_value is not None:
            zero = _fold(Mul, b.stride, _like(b.stride, -1)) if cls is Sub else b.stride
            return Ramp(_fold(cls, a_value, b.base), zero, b.lanes)
    if cls is Mul:
        if isinstance(a, Ramp) and b_value is not None:
            return Ramp(_fold(Mul, a.base, b_value), _fold(Mul, a.stride, b_value), a.lanes)
        if isinstance(b, Ramp) and a_value is not None:
            return Ramp(_fold(Mul, b.base, a_value), _fold(Mul, b.stride, a_value), b.lanes)
    return None


def _like(expr: PrimExpr, value: int) -> PrimExpr:
    return cast(expr.dtype, value)


def _make(base: PrimExpr, stride: PrimExpr, lanes: int) -> PrimExpr:
    zero = getattr(stride, "value", None) == 0
    return Broadcast(base, lanes) if zero else Ramp(base, stride, lanes)


def vector_cast(dtype: DataType, expr: PrimExpr) -> PrimExpr:
    """Convert lanes to the element type `dtype`; ramps of integers stay ramps when they widen."""
    target = dtype.element.with_lanes(expr.dtype.lanes)
    if isinstance(expr, Ramp) and target.is_int and target.bits >= expr.dtype.bits >= 32:
        return Ramp(cast(dtype.element, expr.base), cast(dtype.element, expr.stride), expr.lanes)
    return cast(target, expr)
