"""Gradients of elementwise operators. In formulas `x` is the argument, `y` the result, `d` what
comes for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from heddle.graph.gradient import Cotangent, Step, Term, Through, scalar
from heddle.graph.op_builder import call_op
from heddle.ir.op_def import Without

Formula = Callable[[Term, Term, Term], Term]
_ROOT_PI = math.sqrt(math.pi)
NO_SLOPE = (
    "sign",
    "floor",
    "ceil",
    "trunc",
    "round",
    "floor_divide",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "isnan",
    "isinf",
    "isfinite",
)
"""Operators that are constant nearly everywhere: nothing flows back."""
INTEGERS = (
    "left_shift",
    "right_shift",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_not",
    "logical_and",
    "logical_or",
    "logical_xor",
    "logical_not",
)
_UNARY: dict[str, Formula] = {
    "exp": lambda x, y, d: d * y,
    "exp2": lambda x, y, d: d * y * math.log(2),
    "log": lambda x, y, d: d / x,
    "log2": lambda x, y, d: d / (x * math.log(2)),
    "log10": lambda x, y, d: d / (x * math.log(10)),
    "log1p": lambda x, y, d: d / (x + 1),
    "sqrt": lambda x, y, d: d * 0.5 / y,
    "rsqrt": lambda x, y, d: d * y * y * y * -0.5,
    "sin": lambda x, y, d: d * x.op("cos"),
    "cos": lambda x, y, d: -(d * x.op("sin")),
    "tan": lambda x, y, d: d * (y * y + 1),
    "asin": lambda x, y, d: d / (1 - x * x).op("sqrt"),
    "acos": lambda x, y, d: -(d / (1 - x * x).op("sqrt")),
    "atan": lambda x, y, d: d / (x * x + 1),
    "sinh": lambda x, y, d: d * x.op("cosh"),
    "cosh": lambda x, y, d: d * x.op("sinh"),
    "tanh": lambda x, y, d: d * (1 - y * y),
    "asinh": lambda x, y, d: d / (x * x + 1).op("sqrt"),
    "acosh": lambda x, y, d: d / (x * x - 1).op("sqrt"),
    "atanh": lambda x, y, d: d / (1 - x * x),
    "sigmoid": lambda x, y, d: d * y * (1 - y),
    "erf": lambda x, y, d: d * (-(x * x)).op("exp") * (2 / _ROOT_PI),
    "abs": lambda x, y, d: d * x.op("sign"),
    "negative": lambda x, y, d: -d,
    "square": lambda x, y, d: d * x * 2,
    "nn.relu": lambda x, y, d: x.op("greater", _zero(x)).where(d, 0),
    "nn.relu6": lambda x, y, d: x.op("greater", _zero(x)).where(x.op("less", _number(x, 6)).where(d, 0), 0),
    "nn.silu": lambda x, y, d: _swish(x, d),
}


def _number(x: Term, value: float) -> Any:
    return x.step.number(value)


def _zero(x: Term) -> Any:
    return _number(x, 0)


def _swish(x: Term, d: Term) -> Term:
    s = x.op("sigmoid")
    return d * s * (x * (1 - s) + 1)


def _unary(formula: Formula) -> Any:
    def rule(step: Step) -> tuple[Cotangent, ...]:
        x, y, d = map(step.term, (step.args[0], step.result, step.grad))
        return (formula(x, y, d).expr,)

    return rule


def _nothing(step: Step) -> tuple[Cotangent, ...]:
    return tuple(None for _ in step.args)


# ---- two operands


def _pair(formula: Callable[[Term, Term, Term, Term], tuple[Any, Any]]) -> Any:
    """A rule of `formula(a, b, y, d)`; what was broadcast is summed."""

    def rule(step: Step) -> tuple[Cotangent, ...]:
        a, b, y, d = map(step.term, (*step.args, step.result, step.grad))
        return tuple(step.fit(part.expr, k) for k, part in enumerate(formula(a, b, y, d)))

    return rule


def _power(a: Term, b: Term, y: Term, d: Term) -> tuple[Term, Term]:
    """d a^b: b a^(b-1) da + a^b log(a) db; there is no db where a is 0."""
    safe = a.op("greater", _zero(a)).where(a, 1)
    return d * b * a.op("power", b - 1), d * y * safe.op("log")


def _chosen(compare: str) -> Any:
    """The greater or the lesser of two gets all, equal ones half each."""

    def formula(a: Term, b: Term, y: Term, d: Term) -> tuple[Term, Term]:
        half = a.op("equal", b).where(0.5, 0)
        first = a.op(compare, b).where(1, half)
        return d * first, d * (1 - first)

    return _pair(formula)


def _remainder(quotient: str) -> Any:
    """a - b * q: q is constant nearly everywhere."""
    return _pair(lambda a, b, y, d: (d, -(d * (a / b).op(quotient))))


_PAIRS: dict[str, Any] = {
    "add": _pair(lambda a, b, y, d: (d, d)),
    "subtract": _pair(lambda a, b, y, d: (d, -d)),
    "multiply": _pair(lambda a, b, y, d: (d * b, d * a)),
    "divide": _pair(lambda a, b, y, d: (d / b, -(d * y / b))),
    "power": _pair(_power),
    "atan2": _pair(lambda a, b, y, d: (d * b / (a * a + b * b), -(d * a / (a * a + b * b)))),
    "maximum": _chosen("greater"),
    "minimum": _chosen("less"),
    "mod": _remainder("floor"),
    "floor_mod": _remainder("floor"),
    "fmod": _remainder("trunc"),
}


# ---- others


def _where(step: Step) -> tuple[Cotangent, ...]:
    zero = step.number(0, step.dtype(1))
    condition = step.args[0]
    parts = step("where", condition, step.grad, zero), step("where", condition, zero, step.grad)
    return None, step.fit(parts[0], 1), step.fit(parts[1], 2)


def _clip(step: Step) -> tuple[Cotangent, ...]:
    x, d = step.term(step.args[0]), step.term(step.grad)
    low, high = (step.number(_as_number(step, arg)) for arg in step.args[1:])
    inside = x.op("greater_equal", low).where(x.op("less_equal", high).where(d, 0), 0)
    return inside.expr, None, None


def _as_number(step: Step, arg: Any) -> Any:
    value = getattr(arg, "value", None)
    return step.refuse("a bound is no number") if value is None else value


def _astype(step: Step) -> tuple[Cotangent, ...]:
    if not step.result_type.dtype.is_float:  # type: ignore[attr-defined]
        return (None,)
    return (step("astype", step.grad, dtype=step.dtype(0)),)


# ---- activations, by what they are


def _positive(x: Any) -> Any:
    return call_op("greater", x, scalar(0, x))


def _leaky(attrs: Any, x: Any) -> Any:
    return call_op("where", _positive(x), x, call_op("multiply", x, scalar(float(attrs.alpha), x)))


def _gelu(attrs: Any, x: Any) -> Any:
    inner = call_op("erf", call_op("multiply", x, scalar(math.sqrt(0.5), x)))
    return call_op("multiply", call_op("multiply", x, scalar(0.5, x)), call_op("add", inner, scalar(1, x)))


def _gelu_tanh(attrs: Any, x: Any) -> Any:
    cube = call_op("multiply", call_op("multiply", x, x), scalar(0.044715, x))
    factor = call_op("add", cube, scalar(1, x))
    inner = call_op("multiply", call_op("multiply", x, scalar(math.sqrt(2 / math.pi), x)), factor)
    halved = call_op("multiply", x, scalar(0.5, x))
    return call_op("multiply", halved, call_op("add", call_op("tanh", inner), scalar(1, x)))


def _soft(x: Any) -> Any:
    """log(1 + e ** x), also for large x."""
    low = call_op("log", call_op("add", call_op("exp", call_op("negative", call_op("abs", x))), scalar(1, x)))
    return call_op("add", call_op("nn.relu", x), low)


def _softplus(step: Step) -> tuple[Cotangent, ...]:
    x, d = step.term(step.args[0]), step.term(step.grad)
    scaled = x * float(step.attrs.beta)
    slope = scaled.op("greater", step.number(float(step.attrs.threshold))).where(1, scaled.op("sigmoid"))
    return ((d * slope).expr,)


def _exp_below(x: Any, scale: float, alpha: float) -> Any:
    """scale * (x, or alpha * (e ** x - 1) below zero)."""
    low = call_op("subtract", call_op("exp", call_op("minimum", x, scalar(0, x))), scalar(1, x))
    made = call_op("where", _positive(x), x, call_op("multiply", low, scalar(alpha, x)))
    return call_op("multiply", made, scalar(scale, x)) if scale != 1 else made


def _celu(attrs: Any, x: Any) -> Any:
    alpha = float(attrs.alpha)
    made = _exp_below(call_op("multiply", x, scalar(1 / alpha, x)), 1.0, 1.0)
    return call_op("multiply", made, scalar(alpha, x))


def _clipped(x: Any, low: float, high: float) -> Any:
    return call_op("clip", x, low, high)


def _hardsigmoid(x: Any, alpha: float, beta: float) -> Any:
    line = call_op("add", call_op("multiply", x, scalar(alpha, x)), scalar(beta, x))
    return _clipped(line, 0.0, 1.0)


def _prelu(step: Step) -> tuple[Cotangent, ...]:
    ndim, axis = step.ndim(0), step.axis(step.attrs.axis)
    behind = list(range(1, ndim - axis)) if step.ndim(1) else []
    alpha = step("expand_dims", step.args[1], axis=behind) if behind else step.args[1]
    x, d = step.term(step.args[0]), step.term(step.grad)
    above = x.op("greater", step.number(0))
    rest = [k for k in range(ndim) if k != axis] if step.ndim(1) else None
    slopes = step("sum", above.where(0, d * x).expr, axis=rest)
    is_one = step.ndim(1) == 1 and getattr(step.dims(1)[0], "value", None) == 1
    return above.where(d, d * step.term(alpha)).expr, step.fit(slopes, 1) if is_one else slopes


_ACTIVATIONS: dict[str, Any] = {
    "nn.leakyrelu": Through(_leaky),
    "nn.gelu": Through(_gelu),
    "nn.gelu_tanh": Through(_gelu_tanh),
    "nn.softplus": _softplus,
    "nn.elu": Through(lambda attrs, x: _exp_below(x, 1.0, float(attrs.alpha))),
    "nn.celu": Through(_celu),
    "nn.selu": Through(lambda attrs, x: _exp_below(x, 1.0507009873554805, 1.6732632423543772)),
    "nn.hardtanh": Through(lambda attrs, x: _clipped(x, float(attrs.min_val), float(attrs.max_val))),
    "nn.hardsigmoid": Through(lambda attrs, x: _hardsigmoid(x, float(attrs.alpha), float(attrs.beta))),
    "nn.hardswish": Through(lambda attrs, x: call_op("multiply", x, _hardsigmoid(x, 1 / 6, 0.5))),
    "nn.mish": Through(lambda attrs, x: call_op("multiply", x, call_op("tanh", _soft(x)))),
    "nn.softsign": Through(
        lambda attrs, x: call_op("divide", x, call_op("add", call_op("abs", x), scalar(1, x)))
    ),
    "nn.log_sigmoid": Through(
        lambda attrs, x: call_op("negative", _soft(call_op("negative", x))),
    ),
    "nn.prelu": _prelu,
}


def rules() -> dict[str, Any]:
    """The rules of this file by the names of records."""
    return {
        **{name: _unary(formula) for name, formula in _UNARY.items()},
        **_PAIRS,
        **_ACTIVATIONS,
        **dict.fromkeys(NO_SLOPE, _nothing),
        **dict.fromkeys(INTEGERS, Without("integers and truth values have no gradient")),
        "bitcast": Without("the bits of a float are no smooth function of it"),
        "where": _where,
        "clip": _clip,
        "astype": _astype,
        "ewise_fma": Through(lambda attrs, a, b, c: call_op("add", call_op("multiply", a, b), c)),
    }
