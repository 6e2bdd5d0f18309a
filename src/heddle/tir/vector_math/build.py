"""Building blocks of elementary functions: bindings, polynomials, bits of floats."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from heddle.prim.intrinsics import fma, ldexp, reinterpret
from heddle.prim.nodes import Broadcast, FloatImm, IntImm, Let, Min, PrimExpr, Var, constant
from heddle.prim.ops import (
    add,
    bitwise_and,
    greater,
    logical_not,
    maximum,
    minimum,
    multiply,
    shift_left,
    shift_right,
    subtract,
)
from heddle.runtime.dtype import DataType

LOG2E = 1.4426950408889634
LN2_HI, LN2_LO = 0.693145751953125, 1.428606765330187e-06
"""ln 2 in two parts; the first has so few bits that its products with exponents are exact."""
LN2 = 0.6931471805599453
LOG10_2_HI, LOG10_2_LO = 0.301025390625, 4.605038981195214e-06
"""log10 2, likewise."""
LN10 = 2.302585092994046
_DOWN = 64
"""2**(n + 64) is a normal number for every n of which a float32 is e**x or 2**x, down to 2**-149."""
_ROUNDER = 12582912.0
_ROUNDER_BITS = 0x4B400000


class Scope:
    """Binds values that are used more than once; `close` wraps a result in the bindings. `has_ldexp`: the
    target scales by powers of two in one instruction."""

    def __init__(self, has_ldexp: bool = False) -> None:
        self._has_ldexp = has_ldexp
        self._bound: list[tuple[Var, PrimExpr]] = []

    def scaled(self, part: PrimExpr, n: PrimExpr, top: int) -> PrimExpr:
        """(1 + part) * 2**n for a part between -0.5 and 1, or NaN, and an int32 n in [-190, top], top at most
        254. Only the last operation rounds at the end of the range: the bits are the same on every target."""
        if self._has_ldexp:
            return ldexp(add(part, 1.0), n)
        if top <= 127 - _DOWN:
            scale, rest = power_of_two(add(n, _DOWN)), constant(2.0**-_DOWN, part.dtype)
        else:
            scale, rest = _two_powers(self, n)
        scale = self.let(scale)
        return multiply(fma(part, scale, scale), rest)

    def let(self, value: PrimExpr) -> PrimExpr:
        """A variable for a value that is used more than once; constants and variables stay what they are."""
        if isinstance(value, Var) or constant_lanes(value) is not None:
            return value
        var = Var("t", value.dtype)
        self._bound.append((var, value))
        return var

    def close(self, result: PrimExpr) -> PrimExpr:
        """The result under all that was bound, in order."""
        for var, value in reversed(self._bound):
            result = Let(var, value, result)
        return result


def constant_lanes(value: PrimExpr) -> float | None:
    """The number that all lanes are known to hold, if there is one."""
    value = value.value if isinstance(value, Broadcast) else value
    return float(value.value) if isinstance(value, (FloatImm, IntImm)) else None


def scoped(build: Callable[..., PrimExpr]) -> Callable[..., PrimExpr]:
    """Give `build` a scope and bound arguments."""

    def function(*args: PrimExpr, has_ldexp: bool = False) -> PrimExpr:
        scope = Scope(has_ldexp)
        return scope.close(build(scope, *(scope.let(arg) for arg in args)))

    function.__name__, function.__doc__ = build.__name__.lstrip("_"), build.__doc__
    return function


_CHAIN = 6
"""Terms of which each may wait for the next: a chain of more would keep the multipliers waiting."""


def polynomial(scope: Scope, x: PrimExpr, coefficients: Sequence[float]) -> PrimExpr:
    """A polynomial in x with fma; lowest coefficient first. A few terms are joined one by one (Horner's
    scheme). Many are joined in pairs, those in pairs by the square of x, and so on (Estrin's), but for the
    lowest, whose rounding counts: it comes last."""
    lowest, *terms = (constant(coefficient, x.dtype) for coefficient in coefficients)
    step = x = scope.let(x)
    if len(coefficients) > _CHAIN:
        while len(terms) > 1:
            joined = [fma(high, step, low) for low, high in zip(terms[::2], terms[1::2], strict=False)]
            terms = joined + terms[2 * len(joined) :]
            step = scope.let(multiply(step, step)) if len(terms) > 1 else step
    result = terms.pop()
    while terms:
        result = fma(result, x, terms.pop())
    return fma(result, x, lowest)


def int_dtype(x: PrimExpr) -> DataType:
    """int32, in as many lanes as `x` has."""
    return DataType("int32").with_lanes(x.dtype.lanes)


def float_bits(x: PrimExpr) -> PrimExpr:
    """The bits of a float32 as an int32, lane by lane."""
    return reinterpret(int_dtype(x), x)


def power_of_two(exponent: PrimExpr) -> PrimExpr:
    """2**exponent for an int32 exponent in [-126, 127]."""
    return reinterpret(
        DataType("float32").with_lanes(exponent.dtype.lanes), shift_left(add(exponent, 127), 23)
    )


def _two_powers(scope: Scope, n: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Two powers of two whose product is 2**n, for an int32 n in [-252, 254]."""
    half = scope.let(shift_right(n, 1))
    return power_of_two(half), power_of_two(subtract(n, half))


def ldexp_in_two_steps(scope: Scope, x: PrimExpr, n: PrimExpr) -> PrimExpr:
    """x * 2**n for an int32 n in [-252, 254], of which only the last product rounds."""
    scale, rest = _two_powers(scope, n)
    return multiply(multiply(x, scale), rest)


def upper_bound(x: PrimExpr) -> float:
    """What no lane of x exceeds, as its expression says: a minimum of a constant is below it."""
    parts = (x.a, x.b) if isinstance(x, Min) else ()
    return min((known for part in parts if (known := constant_lanes(part)) is not None), default=math.inf)


def clamped(x: PrimExpr, low: float, high: float) -> PrimExpr:
    """x within bounds; NaN stays (min and max take their second operand then)."""
    return maximum(constant(low, x.dtype), minimum(constant(high, x.dtype), x))


def rounded(scope: Scope, x: PrimExpr, factor: float = 1.0) -> tuple[PrimExpr, PrimExpr]:
    """The nearest integer of x * factor, of less than 2**22 in size, as float and as int32; nothing is
    undefined for NaN."""
    rounder = constant(_ROUNDER, x.dtype)
    shifted = scope.let(add(x, rounder) if factor == 1.0 else fma(x, constant(factor, x.dtype), rounder))
    return scope.let(subtract(shifted, rounder)), scope.let(subtract(float_bits(shifted), _ROUNDER_BITS))


def less_or_equal(a: PrimExpr, b: float) -> PrimExpr:
    """a <= b, true for NaN: the negation of a > b."""
    return logical_not(greater(a, b))


def with_sign(size: PrimExpr, x: PrimExpr) -> PrimExpr:
    """A value that is not negative, with the sign of x."""
    sign = bitwise_and(float_bits(x), -(2**31))
    return reinterpret(size.dtype, float_bits(size) | sign)


def flip_sign(value: PrimExpr, bit: PrimExpr) -> PrimExpr:
    """Negate where bit 1 of an int32 is set."""
    return reinterpret(value.dtype, float_bits(value) ^ shift_left(bitwise_and(bit, 2), 30))
