"""What the form of an expression tells every code generator: bounds of floats, whole constants, products that
round with the sum they stand in, conditions of accesses, what may be evaluated unasked."""

from __future__ import annotations

import math

import numpy as np

from heddle.codegen.codes import G0101
from heddle.ir.visitor import walk
from heddle.prim.checked_index import CHECKED_INDEX
from heddle.prim.nodes import (
    Add,
    ArithExpr,
    Broadcast,
    Call,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Sub,
)
from heddle.prim.values import int_range
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import UsageError

_ROUNDINGS = ("tir.floor", "tir.ceil", "tir.trunc", "tir.round", "tir.nearbyint")
_ANY = (-math.inf, math.inf)


def plain_int(expr: PrimExpr) -> IntImm | None:
    """The constant that an integer is in all lanes, if it is one."""
    inner = expr.value if isinstance(expr, Broadcast) else expr
    return inner if isinstance(inner, IntImm) else None


def does_not_overflow(dtype: DataType, in_index: bool) -> bool:
    """Whether sums and products of a dtype are those of the integers: of signed ones of at least 32 bits, in
    indices and bounds. All others wrap."""
    return in_index and dtype.is_signed and dtype.bits >= 32


def fits_without_saturation(value: PrimExpr, target: DataType) -> bool:
    """Whether a float that is not NaN is in the range of an integer dtype once its fraction is dropped."""
    (low, high), (least, greatest) = int_range(target), float_bounds(value)
    return least > low - 1 and greatest < high + 1


def float_bounds(expr: PrimExpr) -> tuple[float, float]:
    """Between what a float lies if it is not NaN, as its last operations show.

    `max(x, c)` is c where x is NaN, so bounds of x do not raise c.
    """
    if isinstance(expr, Broadcast):
        return float_bounds(expr.value)
    if isinstance(expr, Let):
        return float_bounds(expr.body)
    if isinstance(expr, Cast) and (expr.value.dtype.is_int or expr.value.dtype.is_bool):
        if expr.dtype.bits < 32:
            return _ANY
        low, high = map(expr.dtype.element.numpy().type, int_range(expr.value.dtype.element))
        return float(low), float(high)  # rounded as the value: the greatest int32 is 2**31 in float32
    if isinstance(expr, Call) and expr.op.name in _ROUNDINGS:
        argument = expr.args[0]
        assert isinstance(argument, PrimExpr)
        low, high = float_bounds(argument)
        return float(np.floor(low)), float(np.ceil(high))
    if isinstance(expr, (Max, Min)):
        for limit, other in ((_number(expr.a), expr.b), (_number(expr.b), expr.a)):
            if limit is not None:
                low, high = float_bounds(other)
                return (limit, max(limit, high)) if isinstance(expr, Max) else (min(limit, low), limit)
    number = _number(expr)
    return _ANY if number is None else (number, number)


def _number(expr: PrimExpr) -> float | None:
    """A float constant, rounded to its dtype; None for NaN."""
    inner = expr.value if isinstance(expr, Broadcast) else expr
    if not isinstance(inner, FloatImm):
        return None
    number = float(inner.dtype.numpy().type(inner.value))
    return None if math.isnan(number) else number


def product_in_sum(node: ArithExpr) -> tuple[Mul, PrimExpr] | None:
    """The product that rounds together with the sum or difference `node`, and the other operand. Of two
    products it is the second, which is the new term of a sum that grows.
    """
    if not isinstance(node, (Add, Sub)) or node.dtype.code != "float" or node.dtype.bits not in (32, 64):
        return None
    if isinstance(node.b, Mul):
        return node.b, node.a
    return (node.a, node.b) if isinstance(node.a, Mul) else None


def is_mask(predicate: PrimExpr, element: DataType, access: DataType) -> bool:
    """Whether the predicate of an access holds or not for each lane; one of a single lane is a condition of
    the whole access. `element` is the dtype of the buffer's elements.

    Raises: UsageError G0101 for any other number of lanes, and for what is no bool.
    """
    lanes, given = access.lanes if element.lanes == 1 else 1, predicate.dtype
    if not given.is_bool or given.lanes not in (1, lanes):
        wanted = "a bool" if lanes == 1 else f"a bool or {lanes} of them"
        raise UsageError(G0101, f"expected {wanted} for a predicate, got {given}", span=predicate.span)
    return given.lanes > 1


def is_speculatable(expr: PrimExpr) -> bool:
    """Whether evaluating `expr` where it is not asked for can do no harm: no loads, divisions or calls with
    effects.
    """
    for node in walk(expr):
        if (
            isinstance(node, (Div, Mod, FloorDiv, FloorMod))
            and not node.dtype.is_float
            and plain_int(node.b) is None
        ):
            return False
        if isinstance(node, Call) and not (node.op.record.is_pure and node.op.name not in _COSTLY):
            return False
        if isinstance(node, PrimExpr) and node.node_kind == "tir.BufferLoad":
            return False
    return True


_COSTLY = ("tir.call_pure_extern", "tir.if_then_else", CHECKED_INDEX)
