"""Interval arithmetic with symbolic ends.

Of two ends of which neither is proved the lesser, `min` or `max` of both is the end; so the interval is
never too small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from heddle.arith.const_int_bound import ConstIntBound, internal_bound, keeps_value
from heddle.arith.terms import is_index_dtype
from heddle.ir.node import children
from heddle.prim.checked_index import CHECKED_INDEX
from heddle.prim.nodes import (
    Add,
    BinaryExpr,
    Broadcast,
    Call,
    Cast,
    CompareExpr,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    PrimExpr,
    Ramp,
    Select,
    Sub,
    Var,
    constant,
)
from heddle.prim.ops import (
    add,
    cast,
    floordiv,
    floormod,
    maximum,
    minimum,
    multiply,
    negative,
    subtract,
    truncdiv,
    truncmod,
)
from heddle.prim.substitute import free_vars
from heddle.support.frozen import frozen

End = PrimExpr | None


class Prover(Protocol):
    """What interval arithmetic asks of an analyzer."""

    def simplify(self, expr: Any, steps: int = 2) -> Any:
        """An equal expression, as simple as is found."""

    def can_prove(self, condition: Any, strength: int = 0) -> bool:
        """Whether the condition could be proved; False says nothing. A greater `strength` searches deeper."""

    def const_int_bound(self, expr: Any) -> ConstIntBound:
        """Constants between which the value always lies."""

    def can_prove_equal(self, a: Any, b: Any) -> bool:
        """Whether both are proved to have one value; False says nothing."""

    def can_prove_greater_equal(self, expr: Any, lower_bound: int) -> bool:
        """Whether the expression is proved to be at least `lower_bound`; False says nothing."""


@frozen
class Interval:
    """Both ends included; None is no end."""

    low: End
    high: End
    empty: bool = False

    @property
    def is_point(self) -> bool:
        """Whether both ends are one object. False does not say that there are several values."""
        return self.low is not None and self.low is self.high


EVERYTHING = Interval(None, None)


def unite(known: Prover, a: Interval, b: Interval) -> Interval:
    """The hull of two intervals; an empty one adds nothing."""
    if a.empty or b.empty:
        return b if a.empty else a
    if a.is_point and b.is_point and a.low is b.low:
        return a
    return Interval(_pick(known, minimum, a.low, b.low), _pick(known, maximum, a.high, b.high))


def _pick(known: Prover, function: Callable[[Any, Any], PrimExpr], a: End, b: End) -> End:
    if a is None or b is None:
        return None
    result: PrimExpr = known.simplify(function(a, b))
    return result


def intersect(known: Prover, a: Interval, b: Interval) -> Interval:
    """What lies in both intervals; empty where an end is proved to lie below the other interval."""
    if a.empty or b.empty:
        return Interval(None, None, empty=True)
    low = a.low if b.low is None else b.low if a.low is None else known.simplify(maximum(a.low, b.low))
    high = a.high if b.high is None else b.high if a.high is None else known.simplify(minimum(a.high, b.high))
    empty = low is not None and high is not None and known.can_prove(high < low)
    return Interval(low, high, empty)


class IntervalEvaluator:
    """The interval of an expression under intervals of variables. Variables not given stand for
    themselves."""

    def __init__(self, known: Prover, domains: Mapping[Var, Interval]) -> None:
        self.known = known
        self.domains = domains
        self._found: dict[int, tuple[Any, Interval]] = {}
        self._uses: dict[int, tuple[Any, bool]] = {}

    def ends(self, interval: Interval) -> Interval:
        """The values between ends that run through sets themselves."""
        if interval.empty:
            return interval
        low = None if interval.low is None else self.evaluate(interval.low).low
        return Interval(low, None if interval.high is None else self.evaluate(interval.high).high)

    def evaluate(self, expr: PrimExpr) -> Interval:
        """The interval of an expression; each shared part is looked at once."""
        found = self._found.get(id(expr))
        if found is None:
            made = self._evaluate(expr) if self._varies(expr) else self._point(expr)
            found = self._found[id(expr)] = expr, made
        return found[1]

    def _varies(self, expr: Any) -> bool:
        """Whether an expression uses a given variable."""
        if isinstance(expr, Var):
            return expr in self.domains
        found = self._uses.get(id(expr))
        if found is None:
            uses = any(self._varies(child) for child in children(expr))
            found = self._uses[id(expr)] = expr, uses
        return found[1]

    def _evaluate(self, expr: PrimExpr) -> Interval:
        if isinstance(expr, Var):
            return self._variable(expr)
        rule = _RULES.get(type(expr))
        if isinstance(expr, BinaryExpr) and _may_wrap(expr):
            return EVERYTHING
        if rule is not None and isinstance(expr, BinaryExpr):
            a, b = self.evaluate(expr.a), self.evaluate(expr.b)
            if a.empty or b.empty:
                return Interval(None, None, empty=True)
            return rule(self, a, b)
        if isinstance(expr, (Select, Call)):
            return self._choice(expr)
        if isinstance(expr, (CompareExpr, Not)):
            return Interval(constant(0, expr.dtype), constant(1, expr.dtype))
        if isinstance(expr, Cast) and expr.dtype.is_int and expr.value.dtype.is_int:
            return self._cast(expr)
        if isinstance(expr, Broadcast):
            return self.evaluate(expr.value)
        if isinstance(expr, Ramp):
            last = self.evaluate(add(expr.base, multiply(expr.stride, expr.lanes - 1)))
            return unite(self.known, self.evaluate(expr.base), last)
        return EVERYTHING

    def simple(self, expr: Any) -> PrimExpr:
        """The expression as the analyzer simplifies it."""
        result: PrimExpr = self.known.simplify(expr)
        return result

    def _point(self, expr: PrimExpr) -> Interval:
        value = self.simple(expr)
        return Interval(value, value)

    def _variable(self, var: Var) -> Interval:
        """The given interval; ends that use other given variables are evaluated too."""
        given = self.domains[var]
        rest = {other: dom for other, dom in self.domains.items() if other is not var}
        ends = [end for end in (given.low, given.high) if end is not None]
        if any(used in rest for end in ends for used in free_vars(end)):
            return IntervalEvaluator(self.known, rest).ends(given)
        return given

    def _choice(self, expr: Select | Call) -> Interval:
        if isinstance(expr, Select):
            return unite(self.known, self.evaluate(expr.true_value), self.evaluate(expr.false_value))
        if expr.op.name == "tir.if_then_else":
            one, other = expr.args[1], expr.args[2]
            assert isinstance(one, PrimExpr)
            assert isinstance(other, PrimExpr)
            return unite(self.known, self.evaluate(one), self.evaluate(other))
        if expr.op.name == CHECKED_INDEX:
            size = expr.args[1]
            assert isinstance(size, PrimExpr)
            last = self._end(subtract, self.evaluate(size).high, constant(1, "int64"))
            return Interval(constant(0, "int64"), last)
        return EVERYTHING

    def _cast(self, expr: Cast) -> Interval:
        inner = self.evaluate(expr.value)
        if inner.empty:
            return inner
        least, greatest = ConstIntBound.NEG_INF, ConstIntBound.POS_INF
        if inner.low is not None:
            least = self.known.const_int_bound(inner.low).min_value
        if inner.high is not None:
            greatest = self.known.const_int_bound(inner.high).max_value
        if not keeps_value(internal_bound(least, greatest), expr.value.dtype, expr.dtype):
            return EVERYTHING
        low = None if inner.low is None else self.simple(cast(expr.dtype, inner.low))
        return Interval(low, None if inner.high is None else self.simple(cast(expr.dtype, inner.high)))

    # -- operations on intervals -------------------------------------------------------------------

    def plus(self, a: Interval, b: Interval) -> Interval:
        """x + y for x in a, y in b."""
        return Interval(self._end(add, a.low, b.low), self._end(add, a.high, b.high))

    def minus(self, a: Interval, b: Interval) -> Interval:
        """x - y for x in a, y in b."""
        return Interval(self._end(subtract, a.low, b.high), self._end(subtract, a.high, b.low))

    def times(self, a: Interval, b: Interval) -> Interval:
        """x * y for x in a, y in b. No ends where one is missing, or the sign of a symbolic factor is not
        proved."""
        if a.is_point and not b.is_point:
            a, b = b, a
        if not b.is_point or b.low is None:
            return self._corners(multiply, a, b)
        return self._monotonic(multiply, a, b.low)

    def _monotonic(self, function: Callable[[Any, Any], PrimExpr], a: Interval, b: PrimExpr) -> Interval:
        """f(x, b) for x in a, where f grows with x if b > 0 and falls if b < 0."""
        if a.is_point:
            return self._point(function(a.low, b))
        if self.known.can_prove_greater_equal(b, 0):
            return Interval(self._end(function, a.low, b), self._end(function, a.high, b))
        if self.known.can_prove(b <= 0):
            return Interval(self._end(function, a.high, b), self._end(function, a.low, b))
        return EVERYTHING

    def _corners(self, function: Callable[[Any, Any], PrimExpr], a: Interval, b: Interval) -> Interval:
        """The hull of the four corners; right for multiplication, and for division by what has no zero
        between."""
        ends = (a.low, a.high, b.low, b.high)
        if any(end is None for end in ends):
            return EVERYTHING
        points = [self._point(function(x, y)) for x in (a.low, a.high) for y in (b.low, b.high)]
        result = points[0]
        for item in points[1:]:
            result = unite(self.known, result, item)
        return result

    def divided(self, function: Callable[[Any, Any], PrimExpr]) -> Callable[[Interval, Interval], Interval]:
        """The rule of a division: `function` rounds down or to zero. No ends where the divisor's sign is not
        proved."""

        def divide(a: Interval, b: Interval) -> Interval:
            if b.is_point and b.low is not None:
                if isinstance(b.low, IntImm) and b.low.value == 0:
                    return EVERYTHING
                return self._monotonic(function, a, b.low)
            positive = b.low is not None and self.known.can_prove(b.low > 0)
            negative_only = b.high is not None and self.known.can_prove(b.high < 0)
            return self._corners(function, a, b) if positive or negative_only else EVERYTHING

        return divide

    def floor_rest(self, a: Interval, b: Interval) -> Interval:
        """x % c: [0, c - 1] for c > 0; where all of a lies between two multiples of c it is a shifted."""
        c = b.low
        if not b.is_point or c is None or not self.known.can_prove(c > 0):
            return self._rest_of_range(b)
        if a.is_point:
            return self._point(floormod(a.low, c))
        if a.low is not None and a.high is not None:
            first, last = self.simple(floordiv(a.low, c)), self.simple(floordiv(a.high, c))
            if self.known.can_prove_equal(first, last):
                start = multiply(first, c)
                return Interval(self.simple(subtract(a.low, start)), self.simple(subtract(a.high, start)))
        return Interval(constant(0, c.dtype), self.simple(subtract(c, 1)))

    def _rest_of_range(self, b: Interval) -> Interval:
        if b.low is None or b.high is None or not self.known.can_prove(b.low > 0):
            return EVERYTHING
        return Interval(constant(0, b.high.dtype), self.simple(subtract(b.high, 1)))

    def trunc_rest(self, a: Interval, b: Interval) -> Interval:
        """x mod c: where x >= 0 the floor remainder, else within (-c, c)."""
        c = b.low
        if not b.is_point or c is None or not self.known.can_prove(c > 0):
            return EVERYTHING
        if a.is_point:
            return self._point(truncmod(a.low, c))
        if a.low is not None and self.known.can_prove_greater_equal(a.low, 0):
            return self.floor_rest(a, b)
        top = self.simple(subtract(c, 1))
        return Interval(self.simple(negative(top)), top)

    def lesser(self, a: Interval, b: Interval) -> Interval:
        """min(x, y) for x in a, y in b: an end above of one of them is enough."""
        high = a.high if b.high is None else b.high if a.high is None else self._end(minimum, a.high, b.high)
        return Interval(self._end(minimum, a.low, b.low), high)

    def greater(self, a: Interval, b: Interval) -> Interval:
        """max(x, y) for x in a, y in b: an end below of one of them is enough."""
        low = a.low if b.low is None else b.low if a.low is None else self._end(maximum, a.low, b.low)
        return Interval(low, self._end(maximum, a.high, b.high))

    def _end(self, function: Callable[[Any, Any], PrimExpr], a: End, b: End) -> End:
        return None if a is None or b is None else self.simple(function(a, b))


def _may_wrap(expr: BinaryExpr) -> bool:
    """Whether an operation on integers that are no indices may leave its dtype; a quotient does so for the
    least integer and -1."""
    if is_index_dtype(expr.dtype.element):
        return False
    if isinstance(expr, (Div, FloorDiv)):
        return expr.dtype.is_signed and not (isinstance(expr.b, IntImm) and expr.b.value > 0)
    return isinstance(expr, (Add, Sub, Mul))


_RULES: dict[type, Callable[[IntervalEvaluator, Interval, Interval], Interval]] = {
    Add: IntervalEvaluator.plus,
    Sub: IntervalEvaluator.minus,
    Mul: IntervalEvaluator.times,
    FloorDiv: lambda self, a, b: self.divided(floordiv)(a, b),
    Div: lambda self, a, b: self.divided(truncdiv)(a, b),
    FloorMod: IntervalEvaluator.floor_rest,
    Mod: IntervalEvaluator.trunc_rest,
    Min: IntervalEvaluator.lesser,
    Max: IntervalEvaluator.greater,
}
