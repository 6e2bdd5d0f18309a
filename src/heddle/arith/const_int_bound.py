"""Constant bounds of integer expressions, by interval arithmetic over what is known.

x in [0, 7], y in [2, 3]:  x * y + 1 in [1, 22]     x // y in [0, 3]     x % 4 in [0, 3]     min(x, y)
in [0, 3] Integers of at least 32 bits do not overflow here; a narrower result that may leave its dtype
has the dtype's bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from heddle.arith.facts import EVERYTHING, INF, LIMIT, Bound, Knowledge, clamp, intersect
from heddle.arith.linear import LinearForm
from heddle.arith.terms import is_index_dtype
from heddle.prim.checked_index import CHECKED_INDEX
from heddle.prim.nodes import (
    Add,
    BinaryExpr,
    Broadcast,
    Call,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Ramp,
    Select,
    Sub,
    Var,
)
from heddle.prim.values import int_range
from heddle.runtime.dtype import DataType
from heddle.support.frozen import frozen


@frozen
class ConstIntBound:
    """The inclusive interval [min_value, max_value]; POS_INF and NEG_INF stand for no bound."""

    min_value: int
    max_value: int

    POS_INF: ClassVar[int] = (1 << 63) - 1
    NEG_INF: ClassVar[int] = -((1 << 63) - 1)


def public_bound(bound: Bound) -> ConstIntBound:
    """A bound as a ConstIntBound: an end that is no signed 64-bit number becomes POS_INF or NEG_INF."""
    low = max(bound[0], ConstIntBound.NEG_INF)
    high = min(bound[1], ConstIntBound.POS_INF)
    return ConstIntBound(min(low, ConstIntBound.POS_INF), max(high, ConstIntBound.NEG_INF))


def internal_bound(low: int, high: int) -> Bound:
    """The bound of two ends; NEG_INF and below, and POS_INF and above, are no bound."""
    return (
        -INF if low <= ConstIntBound.NEG_INF else low,
        INF if high >= ConstIntBound.POS_INF else high,
    )


def dtype_bound(dtype: DataType) -> Bound:
    """What every value of a dtype satisfies; int64 counts as unbounded, since it does not overflow."""
    if dtype.is_bool:
        return (0, 1)
    if dtype.is_unsigned:
        return (0, (1 << dtype.bits) - 1)
    if dtype.is_signed and dtype.bits < 64:
        return (-(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1)
    return EVERYTHING


def bound_of(know: Knowledge, node: Any) -> Bound:
    """The bound of a stored integer or bool expression; of a vector, of all its lanes."""
    found = know.caches.bounds.get(id(node))
    if found is not None:
        return found
    bound = _compute(know, node)
    fact = know.facts.bounds.get(know.terms.key(node)) if know.facts.bounds else None
    if fact is not None:
        bound = intersect(bound, fact)
    know.caches.bounds[id(node)] = bound
    return bound


def _compute(know: Knowledge, node: Any) -> Bound:
    cls = type(node)
    if cls is IntImm:
        return (node.value, node.value)
    dtype = node.dtype
    if dtype.is_float or dtype.is_handle:
        return EVERYTHING
    if cls is Var:
        return _var_bound(know, node, dtype)
    if (cls is Add or cls is Sub or cls is Mul) and is_index_dtype(dtype):
        return form_bound(know, know.terms.form(node))
    rule = _RULES.get(cls)
    if rule is None:
        return dtype_bound(dtype)
    computed = rule(know, node)
    whole = dtype_bound(dtype)
    if dtype.bits < 32 or dtype.is_unsigned:
        fits = computed[0] >= whole[0] and computed[1] <= whole[1]
        return computed if fits else whole
    return computed


def _var_bound(know: Knowledge, var: Var, dtype: DataType) -> Bound:
    bound = dtype_bound(dtype)
    return (max(bound[0], 0), bound[1]) if var.is_size else bound


def form_bound(know: Knowledge, form: LinearForm) -> Bound:
    """The bound of a linear form: the sum of its terms' bounds, met with what constraints say of it."""
    low = high = 0
    for coef, factors in form.terms.values():
        term = bound_of(know, factors[0]) if len(factors) == 1 else product_bound(know, factors)
        if coef > 0:
            low += coef * term[0]
            high += coef * term[1]
        else:
            low += coef * term[1]
            high += coef * term[0]
    if know.facts.sums and form.terms:
        low, high = _meet_sums(know, form, low, high)
    return clamp(low + form.const, high + form.const)


def _meet_sums(know: Knowledge, form: LinearForm, low: int, high: int) -> Bound:
    content = form.coef_gcd()
    for sign in (content, -content):
        fact = know.facts.sums.get(frozenset((k, coef // sign) for k, (coef, _) in form.terms.items()))
        if fact is not None:
            scaled = (fact[0] * sign, fact[1] * sign)
            low, high = intersect((low, high), scaled if sign > 0 else (scaled[1], scaled[0]))
    return low, high


def product_bound(know: Knowledge, factors: tuple[PrimExpr, ...]) -> Bound:
    """The bound of a product; a factor that occurs twice makes a square, which is not negative."""
    result: Bound = (1, 1)
    rest = list(factors)
    while rest:
        factor = rest.pop()
        bound = bound_of(know, factor)
        twin = next((i for i, other in enumerate(rest) if other is factor), None)
        if twin is not None:
            del rest[twin]
            squares = (bound[0] * bound[0], bound[1] * bound[1])
            bound = clamp(0 if bound[0] <= 0 <= bound[1] else min(squares), max(squares))
        result = _multiply(result, bound)
    return result


def _multiply(a: Bound, b: Bound) -> Bound:
    corners = (a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1])
    return clamp(min(corners), max(corners))


def _trunc_div(a: int, b: int) -> int:
    return a // b if (a >= 0) == (b > 0) else -(-a // b)


def _without_zero(bound: Bound) -> Bound:
    """A divisor's bound: zero may be assumed away."""
    low, high = bound
    return (1 if low == 0 and high > 0 else low, -1 if high == 0 and low < 0 else high)


def _quotient(a: Bound, b: Bound, divide: Callable[[int, int], int]) -> Bound:
    """What is divided by 0 is 0. The range of a divisor may be empty: then anything holds."""
    zero = [0] if b[0] <= 0 <= b[1] else []
    b = _without_zero(b)
    if (b[0] > 0 or b[1] < 0) and b[0] <= b[1]:
        tops = [_corner(x, y, divide) for x in a for y in b] + zero
        return clamp(min(tops), max(tops))
    if b[0] == b[1] == 0:
        return EVERYTHING
    size = max(abs(a[0]), abs(a[1]))
    return clamp(-size, size)


def _corner(a: int, b: int, divide: Callable[[int, int], int]) -> int:
    if abs(b) <= LIMIT or abs(a) > LIMIT:
        return divide(a, b)
    return -1 if divide(-1, 2) == -1 and a != 0 and (a > 0) != (b > 0) else 0


def _div(know: Knowledge, node: Any) -> Bound:
    return _quotient(bound_of(know, node.a), bound_of(know, node.b), _trunc_div)


def _floordiv(know: Knowledge, node: Any) -> Bound:
    return _quotient(bound_of(know, node.a), bound_of(know, node.b), lambda a, b: a // b)


def _mod(know: Knowledge, node: Any) -> Bound:
    a, b = bound_of(know, node.a), bound_of(know, node.b)
    size = max(abs(b[0]), abs(b[1])) - 1
    if size < 0:
        return EVERYTHING
    low = 0 if a[0] >= 0 else max(-size, a[0])
    high = 0 if a[1] <= 0 else min(size, a[1])
    return clamp(low, high)


def _floormod(know: Knowledge, node: Any) -> Bound:
    a, b = bound_of(know, node.a), _without_zero(bound_of(know, node.b))
    if b[0] > 0:
        if a[0] >= 0:
            return (a[0], a[1]) if a[1] < b[0] else (0, min(a[1], clamp(0, b[1] - 1)[1]))
        return clamp(0, b[1] - 1)
    if b[1] < 0:
        return clamp(b[0] + 1, 0)
    return clamp(min(b[0] + 1, 0), max(b[1] - 1, 0))


def _plain(function: Callable[[Bound, Bound], Bound]) -> Callable[[Knowledge, Any], Bound]:
    def rule(know: Knowledge, node: BinaryExpr) -> Bound:
        return function(bound_of(know, node.a), bound_of(know, node.b))

    return rule


def _union(a: Bound, b: Bound) -> Bound:
    return (min(a[0], b[0]), max(a[1], b[1]))


def _cast(know: Knowledge, node: Cast) -> Bound:
    if not (node.value.dtype.is_int or node.value.dtype.is_bool):
        return dtype_bound(node.dtype)
    inner, whole = bound_of(know, node.value), dtype_bound(node.dtype)
    if node.dtype.is_bool:
        return (1, 1) if inner[0] > 0 or inner[1] < 0 else (0, int(inner != (0, 0)))
    return inner if keeps_value(inner, node.value.dtype, node.dtype) else whole


def keeps_value(bound: Bound, source: DataType, target: DataType) -> bool:
    """Whether integers of `source` within a bound are the same in `target`."""
    given, (low, high) = int_range(source.element), int_range(target.element)
    least, greatest = max(bound[0], given[0]), min(bound[1], given[1])
    return low <= least and greatest <= high


def _call(know: Knowledge, node: Call) -> Bound:
    name = node.op.name
    if name == "tir.if_then_else":
        return _union(bound_of(know, node.args[1]), bound_of(know, node.args[2]))
    if name == "tir.likely":
        return bound_of(know, node.args[0])
    if name == CHECKED_INDEX:
        return clamp(0, max(bound_of(know, node.args[1])[1] - 1, 0))
    if name == "tir.bitwise_and":
        a, b = bound_of(know, node.args[0]), bound_of(know, node.args[1])
        masks = [x[1] for x in (a, b) if x[0] >= 0]
        return (0, min(masks)) if masks else dtype_bound(node.dtype)
    if name == "tir.shift_right":
        a, b = bound_of(know, node.args[0]), bound_of(know, node.args[1])
        if b[0] >= 0 and b[1] < 64:
            shifted = [x >> y if abs(x) <= LIMIT else x for x in a for y in b]
            return clamp(min(shifted), max(shifted))
    return dtype_bound(node.dtype)


def _ramp(know: Knowledge, node: Ramp) -> Bound:
    base, stride = bound_of(know, node.base), bound_of(know, node.stride)
    steps = _multiply(stride, (0, node.lanes - 1))
    return clamp(base[0] + steps[0], base[1] + steps[1])


_RULES: dict[type, Callable[[Knowledge, Any], Bound]] = {
    Add: _plain(lambda a, b: clamp(a[0] + b[0], a[1] + b[1])),
    Sub: _plain(lambda a, b: clamp(a[0] - b[1], a[1] - b[0])),
    Mul: _plain(_multiply),
    Div: _div,
    Mod: _mod,
    FloorDiv: _floordiv,
    FloorMod: _floormod,
    Min: _plain(lambda a, b: (min(a[0], b[0]), min(a[1], b[1]))),
    Max: _plain(lambda a, b: (max(a[0], b[0]), max(a[1], b[1]))),
    Select: lambda know, node: _union(bound_of(know, node.true_value), bound_of(know, node.false_value)),
    Cast: _cast,
    Call: _call,
    Ramp: _ramp,
    Broadcast: lambda know, node: bound_of(know, node.value),
    Let: lambda know, node: bound_of(know, node.body),
}
