"""Building scalar expressions: casts to a common dtype, constants folded, identities with 0 and 1 dropped.

add(x, 0) → x        mul(x, 1) → x        add(2, 3) → 5        max(3, 4) → 4

Over 450 lines: a builder for each operation, each of a few lines.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

from heddle.ir.op import Op
from heddle.prim.codes import K0101, K0104, K0107
from heddle.prim.nodes import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    Sub,
    as_expr,
    constant,
    is_const_int,
)
from heddle.prim.operators import OPERATORS
from heddle.prim.values import convert, int_range, wrap_int
from heddle.prim.values import shift_left as shifted_left
from heddle.prim.values import shift_right as shifted_right
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import IRTypeError

const = constant


def match_types(a: Any, b: Any) -> tuple[PrimExpr, PrimExpr]:
    """Bring two operands to one dtype: Python numbers take the other's, lanes broadcast, the wider type wins.

    Raises: IRTypeError K0101 where no common type exists.
    """
    if not isinstance(a, PrimExpr) and isinstance(b, PrimExpr):
        a = _literal(a, b)
    if not isinstance(b, PrimExpr) and isinstance(a, PrimExpr):
        b = _literal(b, a)
    a, b = as_expr(a), as_expr(b)
    if a.dtype == b.dtype:
        return a, b
    if a.dtype.lanes != b.dtype.lanes:
        if a.dtype.lanes == 1:
            a = Broadcast(a, b.dtype.lanes)
        elif b.dtype.lanes == 1:
            b = Broadcast(b, a.dtype.lanes)
        else:
            raise IRTypeError(K0101, f"vectors of {a.dtype} and {b.dtype} have different lanes")
    common = common_dtype(a.dtype.element, b.dtype.element)
    return cast(common.with_lanes(a.dtype.lanes), a), cast(common.with_lanes(b.dtype.lanes), b)


def _literal(value: Any, other: PrimExpr) -> Any:
    if isinstance(value, float) and not other.dtype.is_float:
        return constant(value)
    if isinstance(value, (bool, int, float)):
        return constant(value, other.dtype if not other.dtype.is_bool or isinstance(value, bool) else None)
    return value


def common_dtype(a: DataType, b: DataType) -> DataType:
    """The dtype both convert to: floats over integers, wider over narrower, unsigned over signed at equal
    width, as in TVM and C."""
    if a == b:
        return a
    if a.is_handle or b.is_handle:
        raise IRTypeError(K0101, f"no common dtype of {a} and {b}")
    if a.is_float or b.is_float:
        if a.is_float and b.is_float:
            return a if a.bits >= b.bits else b
        return a if a.is_float else b
    if a.is_bool or b.is_bool:
        return b if a.is_bool else a
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return a if a.is_unsigned else b


def cast(dtype: str, value: Any) -> PrimExpr:
    """Convert; constants are converted at once, by the rules of `prim.values.convert`."""
    return _cast(DataType(dtype), as_expr(value))


def _cast(target: DataType, value: PrimExpr) -> PrimExpr:
    if value.dtype == target:
        return value
    if isinstance(value, (IntImm, FloatImm)) and target.lanes == 1 and not target.is_handle:
        return _converted(target, value)
    if isinstance(value, Broadcast) and target.lanes == value.lanes:
        return Broadcast(cast(target.element, value.value), value.lanes)
    if target.lanes > 1 and value.dtype.lanes == 1:
        return Broadcast(cast(target.element, value), target.lanes)
    return Cast(target, value)


def _converted(target: DataType, value: IntImm | FloatImm) -> PrimExpr:
    """A constant in another dtype. A float that stays one keeps its digits, as in TVM: it stands for the
    number that was written, and is rounded to the dtype where it is used."""
    if isinstance(value, FloatImm) and target.is_float:
        return FloatImm(target, value.value)
    if isinstance(value, IntImm) and value.dtype.is_handle:
        return Cast(target, value)
    if isinstance(value, IntImm) and target.is_int:
        return IntImm(target, wrap_int(value.value, target))
    return constant(convert(rounded(value), target).item(), target)


def rounded(value: IntImm | FloatImm) -> Any:
    """The value of a constant, rounded to its dtype, as a numpy scalar."""
    return value.dtype.numpy().type(value.value)


def trunc_div(a: int, b: int) -> int:
    """The quotient rounded to zero."""
    quotient = abs(a) // abs(b)
    return quotient if (a >= 0) == (b >= 0) else -quotient


def trunc_mod(a: int, b: int) -> int:
    """The remainder with the sign of a."""
    return a - b * trunc_div(a, b)


def _float_div(a: float, b: float) -> float:
    if b != 0:
        return a / b
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


_INT_FOLD: dict[type, Callable[[int, int], int]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    Div: trunc_div,
    Mod: trunc_mod,
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
    Min: min,
    Max: max,
}
_FLOAT_FOLD: dict[type, Callable[[float, float], float]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    Div: _float_div,
}
_COMPARE: dict[type, Callable[[Any, Any], bool]] = {
    EQ: lambda a, b: a == b,
    NE: lambda a, b: a != b,
    LT: lambda a, b: a < b,
    LE: lambda a, b: a <= b,
    GT: lambda a, b: a > b,
    GE: lambda a, b: a >= b,
}
_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)


def fold_binary(cls: Any, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """The constant or operand that `cls(a, b)` is, if that is plain; None otherwise, of a division by zero
    too: where sizes are 0 a rewrite may make one in code that never runs."""
    if _divides_by_zero(cls, a, b):
        return None
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        if cls in _INT_FOLD:
            return IntImm(a.dtype, wrap_int(_INT_FOLD[cls](a.value, b.value), a.dtype))
        return constant(_COMPARE[cls](a.value, b.value), "bool") if cls in _COMPARE else None
    if isinstance(a, FloatImm) and isinstance(b, FloatImm):
        if a.dtype == "float64" and cls in _FLOAT_FOLD:
            return FloatImm(a.dtype, _FLOAT_FOLD[cls](a.value, b.value))
        if cls in _COMPARE:
            return constant(_COMPARE[cls](float(rounded(a)), float(rounded(b))), "bool")
        return None
    return _identity(cls, a, b)


def _divides_by_zero(cls: Any, a: PrimExpr, b: PrimExpr) -> bool:
    return cls in _DIVISIONS and is_const_int(b, 0) and not a.dtype.is_float


def _identity(cls: Any, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """x + 0 → x,  x - 0 → x,  x * 1 → x,  x / 1 → x,  and for integers x * 0 → 0,  x // 1 → x,  x % 1 → 0."""
    if not (a.dtype.is_int or a.dtype.is_float):
        return None
    a_int, b_int = is_const_int(a), is_const_int(b)
    if cls is Add:
        return b if a_int and is_const_int(a, 0) else a if b_int and is_const_int(b, 0) else None
    if cls is Sub:
        return a if is_const_int(b, 0) else None
    if cls is Mul:
        if is_const_int(a, 1) or (isinstance(a, FloatImm) and a.value == 1.0):
            return b
        if is_const_int(b, 1) or (isinstance(b, FloatImm) and b.value == 1.0):
            return a
        return a if is_const_int(a, 0) else b if is_const_int(b, 0) else None
    if cls in (Div, FloorDiv):
        return a if is_const_int(b, 1) or (isinstance(b, FloatImm) and b.value == 1.0) else None
    if cls in (Mod, FloorMod) and is_const_int(b, 1):
        return constant(0, a.dtype)
    return None


def binary(cls: Any, a: Any, b: Any) -> PrimExpr:
    """`cls(a, b)` after matching dtypes and folding. Raises: IRTypeError K0104 for an integer divisor that is
    zero."""
    a, b = match_types(a, b)
    if _divides_by_zero(cls, a, b):
        raise IRTypeError(K0104, f"the divisor of {cls.node_kind} is zero")
    folded = fold_binary(cls, a, b)
    return folded if folded is not None else cls(a, b)


def add(a: Any, b: Any) -> PrimExpr:
    """a + b, folded where both are constant. Integers wrap; of two conditions it is "or", as numpy has it."""
    a, b = match_types(a, b)
    return logical_or(a, b) if a.dtype.is_bool else binary(Add, a, b)


def subtract(a: Any, b: Any) -> PrimExpr:
    """a - b, folded where both are constant. Integers wrap."""
    return binary(Sub, a, b)


def multiply(a: Any, b: Any) -> PrimExpr:
    """a * b, folded where both are constant. Integers wrap."""
    return binary(Mul, a, b)


def div(a: Any, b: Any) -> PrimExpr:
    """Float division; integer operands divide rounding to zero."""
    return binary(Div, a, b)


def truncdiv(a: Any, b: Any) -> PrimExpr:
    """a / b; of integers the quotient rounded to zero.

    Raises: IRTypeError K0104 for a constant divisor 0 of integers.
    """
    return binary(Div, a, b)


def truncmod(a: Any, b: Any) -> PrimExpr:
    """The remainder of `truncdiv`, with the sign of a.

    Raises: IRTypeError K0104 for a constant divisor 0 of integers.
    """
    return binary(Mod, a, b)


def floordiv(a: Any, b: Any) -> PrimExpr:
    """Division rounded down. Of floats the whole number that fits `floormod`, as numpy's and Python's; the
    rounded quotient may be greater by one."""
    return binary(FloorDiv, a, b)


def floormod(a: Any, b: Any) -> PrimExpr:
    """The remainder with the sign of the divisor, exact for floats."""
    return binary(FloorMod, a, b)


def ceildiv(a: Any, b: Any) -> PrimExpr:
    """The quotient of integers rounded up, for b above 0."""
    a, b = match_types(a, b)
    return floordiv(add(a, subtract(b, 1)), b)


def negative(a: Any) -> PrimExpr:
    """-a. Integers wrap."""
    a = as_expr(a)
    if isinstance(a, FloatImm):
        return FloatImm(a.dtype, -a.value)
    return multiply(a, constant(wrap_int(-1, a.dtype) if a.dtype.is_unsigned else -1, a.dtype))


def minimum(a: Any, b: Any) -> PrimExpr:
    """The lesser of a and b; b where one is NaN."""
    return binary(Min, a, b)


def maximum(a: Any, b: Any) -> PrimExpr:
    """The greater of a and b; b where one is NaN."""
    return binary(Max, a, b)


def equal(a: Any, b: Any) -> PrimExpr:
    """Whether a = b."""
    return binary(EQ, a, b)


def not_equal(a: Any, b: Any) -> PrimExpr:
    """Whether a ≠ b."""
    return binary(NE, a, b)


def less(a: Any, b: Any) -> PrimExpr:
    """Whether a < b."""
    return binary(LT, a, b)


def less_equal(a: Any, b: Any) -> PrimExpr:
    """Whether a ≤ b."""
    return binary(LE, a, b)


def greater(a: Any, b: Any) -> PrimExpr:
    """Whether a > b."""
    return binary(GT, a, b)


def greater_equal(a: Any, b: Any) -> PrimExpr:
    """Whether a ≥ b."""
    return binary(GE, a, b)


def not_floats(operation: str, *operands: PrimExpr) -> None:
    """Raises: IRTypeError K0107 where an operand is a float."""
    for operand in operands:
        if operand.dtype.is_float:
            raise IRTypeError(K0107, f"{operation}: expected integers or conditions, got {operand.dtype}")


def logical_and(a: Any, b: Any) -> PrimExpr:
    """Both; a constant side is folded. Raises: IRTypeError K0107 for floats."""
    a, b = match_types(a, b)
    not_floats("and", a, b)
    for one, other in ((a, b), (b, a)):
        if isinstance(one, IntImm):
            return other if one.value else one
    return And(a, b)


def logical_or(a: Any, b: Any) -> PrimExpr:
    """Whether one of two conditions holds. Raises: IRTypeError K0107 for floats."""
    a, b = match_types(a, b)
    not_floats("or", a, b)
    for one, other in ((a, b), (b, a)):
        if isinstance(one, IntImm):
            return one if one.value else other
    return Or(a, b)


def logical_not(a: Any) -> PrimExpr:
    """Whether a condition does not hold. Raises: IRTypeError K0107 for a float."""
    a = as_expr(a)
    not_floats("not", a)
    if isinstance(a, IntImm):
        return constant(not a.value, "bool")
    return a.a if isinstance(a, Not) else Not(a)


def all(*conditions: Any) -> PrimExpr:
    """The conjunction; of nothing it is true."""
    return reduce(logical_and, (as_expr(c) for c in conditions), constant(True, "bool"))


def conjuncts(condition: PrimExpr) -> tuple[PrimExpr, ...]:
    """The conditions that must all hold; none for a condition that always does."""
    if isinstance(condition, And):
        return (*conjuncts(condition.a), *conjuncts(condition.b))
    if isinstance(condition, Call) and condition.op.name == "tir.bitwise_and" and condition.dtype.is_bool:
        return tuple(part for arg in condition.args for part in conjuncts(as_expr(arg)))
    return () if is_const_int(condition, 1) else (condition,)


def any(*conditions: Any) -> PrimExpr:
    """The disjunction; of nothing it is false."""
    return reduce(logical_or, (as_expr(c) for c in conditions), constant(False, "bool"))


def select(condition: Any, true_value: Any, false_value: Any) -> PrimExpr:
    """One of two values, both evaluated."""
    test = as_expr(condition)
    on_true, on_false = match_types(true_value, false_value)
    if isinstance(test, IntImm):
        return on_true if test.value else on_false
    return Select(test, on_true, on_false)


def if_then_else(condition: Any, true_value: Any, false_value: Any) -> PrimExpr:
    """One of two values; only the chosen one is evaluated, so it guards loads."""
    test = as_expr(condition)
    on_true, on_false = match_types(true_value, false_value)
    if isinstance(test, IntImm):
        return on_true if test.value else on_false
    return Call(on_true.dtype, Op.get("tir.if_then_else"), (test, on_true, on_false))


def call_intrin(dtype: str, name: str, *args: Any) -> PrimExpr:
    """An intrinsic by name; a bare name is taken from the "tir." table."""
    full = name if "." in name else f"tir.{name}"
    return Call(DataType(dtype), Op.get(full), tuple(args))


def _bitwise(name: str, fold: Callable[[int, int], int]) -> Callable[[Any, Any], PrimExpr]:
    def build(a: Any, b: Any) -> PrimExpr:
        a, b = match_types(a, b)
        not_floats(name, a, b)
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return IntImm(a.dtype, wrap_int(fold(a.value, b.value), a.dtype))
        return call_intrin(a.dtype, name, a, b)

    build.__name__ = name
    build.__doc__ = f"`{name}` of two integers. Raises: IRTypeError K0107 for floats."
    return build


bitwise_and = _bitwise("bitwise_and", lambda a, b: a & b)
bitwise_or = _bitwise("bitwise_or", lambda a, b: a | b)
bitwise_xor = _bitwise("bitwise_xor", lambda a, b: a ^ b)


def _shift(name: str, evaluate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], PrimExpr]:
    def build(a: Any, b: Any) -> PrimExpr:
        a, b = match_types(a, b)
        not_floats(name, a, b)
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return IntImm(a.dtype, int(convert(evaluate(rounded(a), rounded(b)), a.dtype)))
        return call_intrin(a.dtype, name, a, b)

    build.__name__ = name
    build.__doc__ = evaluate.__doc__
    return build


shift_left, shift_right = _shift("shift_left", shifted_left), _shift("shift_right", shifted_right)


def bitwise_not(a: Any) -> PrimExpr:
    """The complement of the bits of an integer; of a bool its negation.

    Raises: IRTypeError K0107 for a float.
    """
    a = as_expr(a)
    not_floats("bitwise_not", a)
    if isinstance(a, IntImm):
        return IntImm(a.dtype, wrap_int(~a.value, a.dtype)) if not a.dtype.is_bool else logical_not(a)
    return logical_not(a) if a.dtype.is_bool else call_intrin(a.dtype, "bitwise_not", a)


def _and_by_type(a: Any, b: Any) -> PrimExpr:
    a, b = match_types(a, b)
    return logical_and(a, b) if a.dtype.is_bool else bitwise_and(a, b)


def _or_by_type(a: Any, b: Any) -> PrimExpr:
    a, b = match_types(a, b)
    return logical_or(a, b) if a.dtype.is_bool else bitwise_or(a, b)


def min_value(dtype: str) -> PrimExpr:
    """The least value of a dtype; minus infinity for floats with one."""
    return _extreme(DataType(dtype), -1)


def max_value(dtype: str) -> PrimExpr:
    """The greatest value of a dtype; infinity for floats with one."""
    return _extreme(DataType(dtype), 1)


def infinity(dtype: str) -> PrimExpr:
    """Infinity of a float dtype."""
    return FloatImm(DataType(dtype), math.inf)


def _extreme(dtype: DataType, sign: int) -> PrimExpr:
    if dtype.is_float:
        return FloatImm(dtype, sign * math.inf)
    return constant(int_range(dtype)[sign > 0], dtype)


OPERATORS.update(
    add=add,
    subtract=subtract,
    multiply=multiply,
    div=div,
    floordiv=floordiv,
    floormod=floormod,
    negative=negative,
    less=less,
    less_equal=less_equal,
    greater=greater,
    greater_equal=greater_equal,
    equal=equal,
    not_equal=not_equal,
    shift_left=shift_left,
    shift_right=shift_right,
    bitwise_and=_and_by_type,
    bitwise_or=_or_by_type,
    bitwise_xor=bitwise_xor,
    bitwise_not=bitwise_not,
    cast=cast,
)
