"""Powers of integers as products, for any number of lanes.

    x ** y    →    let s = x * x, t = s * s, ... in (bit 0 of y is set: x, else 1) * (bit 1: s, else 1) * ...

Modulo 2**n the powers of an odd number repeat after 2**(n - 2) of them, and an even number to the n is 0:
n - 2 bits of the exponent are enough. (Modulo 4 they repeat after 2: one bit.) The same holds for negative
exponents of 1 and -1, the only numbers that have such powers. For an exponent that is known only the products
remain that it needs.
"""

from __future__ import annotations

from heddle.prim.nodes import Broadcast, IntImm, PrimExpr, constant
from heddle.prim.ops import (
    bitwise_and,
    equal,
    greater_equal,
    less,
    logical_and,
    logical_not,
    logical_or,
    multiply,
    not_equal,
    select,
)
from heddle.prim.values import int_range
from heddle.tir.vector_math.build import Scope, scoped


def _of_known(scope: Scope, x: PrimExpr, exponent: int) -> PrimExpr:
    """x to a positive number."""
    made: PrimExpr | None = None
    while True:
        if exponent & 1:
            made = x if made is None else scope.let(multiply(made, x))
        exponent >>= 1
        if not exponent:
            assert made is not None
            return made
        x = scope.let(multiply(x, x))


def _is_unit(x: PrimExpr) -> PrimExpr:
    is_one = equal(x, constant(1, x.dtype))
    return logical_or(is_one, equal(x, constant(-1, x.dtype))) if x.dtype.is_signed else is_one


def _integer_power(scope: Scope, x: PrimExpr, y: PrimExpr) -> PrimExpr:
    """x to the y of one integer dtype, modulo 2**bits; with a negative exponent 1 / x**-y rounded to zero."""
    zero, one, bits = constant(0, x.dtype), constant(1, x.dtype), x.dtype.bits
    places = max(bits - 2, 1)
    value = y.value if isinstance(y, Broadcast) else y
    if isinstance(value, IntImm):
        number = value.value
        if number > 0:
            return _of_known(scope, x, number if number < bits else bits + (number - bits) % (1 << places))
        if number == 0:
            return one
        of_units = x if number & 1 else one
        return select(_is_unit(x), of_units, zero)
    made, square = one, x
    for place in range(places):
        has_bit = not_equal(bitwise_and(y, constant(1 << place, y.dtype)), zero)
        made = scope.let(multiply(made, select(has_bit, square, one)) if place else select(has_bit, x, one))
        if place < places - 1:
            square = scope.let(multiply(square, square))
    is_even = equal(bitwise_and(x, one), zero)
    most = int_range(y.dtype.element)[1]  # of two bits with a sign none is as large as their number
    is_large = greater_equal(y, constant(bits, y.dtype)) if bits <= most else less(y, y)
    is_zero = logical_and(is_even, is_large)
    if y.dtype.is_signed:
        is_zero = logical_or(is_zero, logical_and(less(y, zero), logical_not(_is_unit(x))))
    return select(is_zero, zero, made)


integer_power = scoped(_integer_power)
