"""Elementwise functions of one or two tensors by their usual names. Arguments may also be numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle import te
from heddle.ir.visitor import walk
from heddle.prim import intrinsics, ops
from heddle.prim.nodes import And, Or, PrimExpr, as_expr, constant, is_const_int
from heddle.runtime.dtype import DataType
from heddle.topi.broadcast import elementwise


def _unary(name: str, function: Callable[[Any], PrimExpr]) -> Callable[[te.Tensor], te.Tensor]:
    def build(x: te.Tensor) -> te.Tensor:
        return elementwise(function, x, name=name)

    build.__name__, build.__doc__ = name, f"Elementwise {name}."
    return build


def _binary(name: str, function: Callable[[Any, Any], PrimExpr]) -> Callable[[Any, Any], Any]:
    def build(lhs: Any, rhs: Any) -> Any:
        if isinstance(lhs, te.Tensor) and isinstance(rhs, te.Tensor):
            return elementwise(function, lhs, rhs, name=name)
        if isinstance(lhs, te.Tensor):
            return elementwise(lambda v: function(v, rhs), lhs, name=name)
        if isinstance(rhs, te.Tensor):
            return elementwise(lambda v: function(lhs, v), rhs, name=name)
        return function(as_expr(lhs), as_expr(rhs))

    build.__name__, build.__doc__ = (
        name,
        f"Elementwise {name} of tensors that broadcast, or of a tensor and a number.",
    )
    return build


exp, log, sqrt, rsqrt = (_unary(n, getattr(intrinsics, n)) for n in ("exp", "log", "sqrt", "rsqrt"))
sin, cos, tan, asin, acos, atan = (
    _unary(n, getattr(intrinsics, n)) for n in ("sin", "cos", "tan", "asin", "acos", "atan")
)
sinh, cosh, tanh = (_unary(n, getattr(intrinsics, n)) for n in ("sinh", "cosh", "tanh"))
asinh, acosh, atanh = (_unary(n, getattr(intrinsics, n)) for n in ("asinh", "acosh", "atanh"))
sigmoid, erf, abs, floor, ceil, trunc = (
    _unary(n, getattr(intrinsics, n)) for n in ("sigmoid", "erf", "abs", "floor", "ceil", "trunc")
)
round = _unary("round", intrinsics.nearbyint)
isnan, isinf, isfinite = (_unary(n, getattr(intrinsics, n)) for n in ("isnan", "isinf", "isfinite"))
negative, logical_not, bitwise_not = (
    _unary(n, getattr(ops, n)) for n in ("negative", "logical_not", "bitwise_not")
)
identity = _unary("identity", lambda x: x)
add, subtract, multiply = (_binary(n, getattr(ops, n)) for n in ("add", "subtract", "multiply"))


def division(function: Callable[[Any, Any], PrimExpr]) -> Callable[[Any, Any], PrimExpr]:
    """Make a division function for expressions. An integer division by the constant 0, which expressions must
    not contain, gives 0."""

    def divide_values(a: Any, b: Any) -> PrimExpr:
        divisor = as_expr(b)
        is_zero = divisor.dtype.is_int and is_const_int(divisor, 0)
        return constant(0, as_expr(a, divisor.dtype).dtype) if is_zero else function(a, divisor)

    return divide_values


divide_values, floor_divide_values, mod_values, floor_mod_values = (
    division(function) for function in (ops.div, ops.floordiv, ops.truncmod, ops.floormod)
)
divide, floor_divide = _binary("divide", divide_values), _binary("floor_divide", floor_divide_values)
mod, floor_mod = _binary("mod", mod_values), _binary("floor_mod", floor_mod_values)
maximum, minimum, power = (
    _binary("maximum", intrinsics.fmaximum),
    _binary("minimum", intrinsics.fminimum),
    _binary("power", intrinsics.power),
)
left_shift, right_shift = _binary("left_shift", ops.shift_left), _binary("right_shift", ops.shift_right)
bitwise_and, bitwise_or, bitwise_xor = (
    _binary(n, getattr(ops, n)) for n in ("bitwise_and", "bitwise_or", "bitwise_xor")
)


def _of_both(of_two: Callable[[Any, Any], PrimExpr], of_bits: Callable[[Any, Any], PrimExpr]) -> Any:
    def build(a: Any, b: Any) -> PrimExpr:
        """Elements of tensors are both evaluated: they are safe to read, and a branch on the first would cost
        more."""
        made = of_two(a, b)
        if not isinstance(made, (And, Or)) or not made.a.dtype.is_bool:
            return made
        has_elements = any(isinstance(part, te.TensorLoad) and part.indices for part in walk(made.b))
        return of_bits(made.a, made.b) if has_elements else made

    return build


and_values = _of_both(ops.logical_and, ops.bitwise_and)
or_values = _of_both(ops.logical_or, ops.bitwise_or)
logical_and, logical_or = _binary("logical_and", and_values), _binary("logical_or", or_values)
equal, not_equal = _binary("equal", ops.equal), _binary("not_equal", ops.not_equal)
less, less_equal = _binary("less", ops.less), _binary("less_equal", ops.less_equal)
greater, greater_equal = _binary("greater", ops.greater), _binary("greater_equal", ops.greater_equal)


def sign_value(x: PrimExpr) -> PrimExpr:
    """-1, x or 1: x itself where it is zero or NaN."""
    above = ops.select(x > constant(0, x.dtype), constant(1, x.dtype), x)
    if x.dtype.is_unsigned or x.dtype.is_bool:
        return above
    return ops.select(x < constant(0, x.dtype), constant(-1, x.dtype), above)


sign = _unary("sign", sign_value)


def clip(x: te.Tensor, a_min: Any, a_max: Any) -> te.Tensor:
    """Return min(max(x, a_min), a_max). If a_min > a_max, the result is a_max; if any value is NaN, it is
    NaN."""
    low, high = (ops.cast(x.dtype, as_expr(bound)) for bound in (a_min, a_max))
    return elementwise(lambda v: intrinsics.fminimum(high, intrinsics.fmaximum(low, v)), x, name="clip")


def cast(x: te.Tensor, dtype: str) -> te.Tensor:
    """Convert the elements to a dtype."""
    return elementwise(lambda v: ops.cast(DataType(dtype), v), x, name="cast")


def where(condition: te.Tensor, x: te.Tensor, y: te.Tensor) -> te.Tensor:
    """Elements of x where the condition holds, of y elsewhere."""
    return elementwise(ops.select, condition, x, y, name="where")
