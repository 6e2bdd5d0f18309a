"""Divisions of floats that give a remainder or a whole number, from C's fmod, which is exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.prim.intrinsics import copysign, floor, fmod
from heddle.prim.nodes import FloorDiv, FloorMod, Mod, PrimExpr, constant
from heddle.prim.ops import (
    add,
    div,
    equal,
    greater,
    less,
    logical_and,
    not_equal,
    select,
    subtract,
)
from heddle.tir.vector_math.build import Scope, scoped


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
