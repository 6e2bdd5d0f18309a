"""Divisions of floats that give a remainder or a whole number, from fmod, which is exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.prim.intrinsics import abs as absolute
from heddle.prim.intrinsics import call_pure_extern, copysign, floor, fmod, trunc
from heddle.prim.nodes import FloorDiv, FloorMod, Mod, PrimExpr, constant
from heddle.prim.ops import (
    add,
    cast,
    div,
    equal,
    greater,
    if_then_else,
    less,
    logical_and,
    logical_not,
    multiply,
    not_equal,
    select,
    subtract,
)
from heddle.runtime.dtype import DataType
from heddle.tir.kernel_abi import any_lane
from heddle.tir.vector_math.build import Scope, scoped

_MOST = 2.0**29
"""Products of whole numbers below it and a float32's 24 bits are exact in float64."""


def remainder(scope: Scope, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """fmod of float32: |a| - n |b|, exact in float64 for n < 2**29.

    Where that is negative, the quotient was rounded up to the whole number n. C's function serves all other
    operands, infinite ones among them.
    """
    wide = DataType("float64").with_lanes(a.dtype.lanes)
    over, under = scope.let(cast(wide, absolute(a))), scope.let(cast(wide, absolute(b)))
    quotient = scope.let(trunc(div(over, under)))
    rest = scope.let(subtract(over, multiply(quotient, under)))
    rest = select(less(rest, constant(0.0, wide)), add(rest, under), rest)
    value = scope.let(copysign(cast(a.dtype, rest), a))
    is_exact = logical_and(less(quotient, _MOST), less(under, float("inf")))
    other = scope.let(logical_not(is_exact))
    return if_then_else(
        any_lane(other), select(other, call_pure_extern(a.dtype, "fmodf", a, b), value), value
    )


def trunc_mod(scope: Scope, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """The remainder with the sign of the dividend."""
    return fmod(a, b)


def floor_mod(scope: Scope, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """The remainder with the sign of the divisor: fmod, moved by the divisor where the signs differ."""
    zero, rest = constant(0.0, a.dtype), scope.let(fmod(a, b))
    moved = select(_differ_in_sign(rest, b), add(rest, b), rest)
    whole = equal(rest, zero)
    return select(whole, copysign(zero, b), moved)


def floor_divide(scope: Scope, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """(a - rest) / b, which is whole but for rounding, less one where `floor_mod` moved the rest.

    A zero has the sign of a / b; by zero it is a / b.
    """
    zero, one = constant(0.0, a.dtype), constant(1.0, a.dtype)
    rest = scope.let(fmod(a, b))
    quotient = div(subtract(a, rest), b)
    moved = logical_and(not_equal(rest, zero), _differ_in_sign(rest, b))
    near = scope.let(select(moved, subtract(quotient, one), quotient))
    below = scope.let(floor(near))
    nearest = select(greater(subtract(near, below), 0.5), add(below, one), below)
    ratio = scope.let(div(a, b))
    nearest = select(equal(near, zero), copysign(zero, ratio), nearest)
    return select(equal(b, zero), ratio, nearest)


def _differ_in_sign(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    zero = constant(0.0, a.dtype)
    return not_equal(less(a, zero), less(b, zero))


FLOAT_DIVISIONS: dict[type, Callable[..., Any]] = {
    Mod: scoped(trunc_mod),
    FloorMod: scoped(floor_mod),
    FloorDiv: scoped(floor_divide),
}
"""Node of floats → its expression for float32 or float64."""
