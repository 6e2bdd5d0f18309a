"""Activation functions: each is one elementwise loop. A table of scalar functions with numpy references."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from heddle import te
from heddle.graph.infer import Inference
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import Type
from heddle.ops.elementwise import ANY_LAYOUT, FLOATS, evaluate_of, unary_samples
from heddle.ops.rules import computed_in, float_same_as_input, require_float, require_ndim, same_as_input
from heddle.prim.intrinsics import erf, exp, log1p, sigmoid, tanh
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import cast, maximum, minimum, select
from heddle.runtime.dtype import DataType
from heddle.support.frozen import frozen
from heddle.topi.broadcast import elementwise
from heddle.topi.dims import positive_axis
from heddle.topi.reduce import accumulator

_DATA = (Input("data", meaning="a tensor"),)
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805
_GELU_TANH_SCALE, _GELU_TANH_CUBIC = math.sqrt(2 / math.pi), 0.044715


@frozen
class _Activation:
    """`scalar(attrs, x)` in loops, `reference(attrs, x)` in float64, of integers in their type. Bounds come
    first in `minimum` and `maximum`, whose second operand is the result where one is NaN: NaN stays.
    """

    name: str
    formula: str
    scalar: Callable[[Any, PrimExpr], PrimExpr]
    reference: Callable[[Any, Any], Any]
    attrs: tuple[AttrSpec, ...] = ()
    floats_only: bool = True
    variants: tuple[dict[str, Any], ...] = ()


def _c(value: float, like: PrimExpr) -> PrimExpr:
    return constant(value, like.dtype)


def _gelu(x: PrimExpr) -> PrimExpr:
    result: PrimExpr = x * _c(0.5, x) * (_c(1, x) + erf(x * _c(math.sqrt(0.5), x)))
    return result


def _gelu_tanh(x: PrimExpr) -> PrimExpr:
    inner = x * _c(_GELU_TANH_SCALE, x) * (_c(1, x) + x * x * _c(_GELU_TANH_CUBIC, x))
    result: PrimExpr = x * _c(0.5, x) * (_c(1, x) + tanh(inner))
    return result


def _softplus(attrs: Any, x: PrimExpr) -> PrimExpr:
    """log(1 + e ** (beta * x)) / beta; x itself above the threshold, where they are equal."""
    scaled = x * _c(attrs.beta, x)
    soft = log1p(exp(minimum(_c(attrs.threshold, x), scaled))) * _c(1 / attrs.beta, x)
    return select(scaled > _c(attrs.threshold, x), x, soft)


def _np_softplus(attrs: Any, x: Any) -> Any:
    scaled = x * attrs.beta
    return np.where(
        scaled > attrs.threshold, x, np.log1p(np.exp(np.minimum(scaled, attrs.threshold))) / attrs.beta
    )


def _exp_below_zero(x: PrimExpr) -> PrimExpr:
    result: PrimExpr = exp(minimum(_c(0, x), x)) - _c(1, x)
    return result


def _mish(x: PrimExpr) -> PrimExpr:
    """x * tanh(log(1 + e ** x)), with tanh(log(1 + u)) = (u * u + 2 * u) / (u * u + 2 * u + 2)."""
    u = exp(minimum(x, _c(20, x)))
    top = u * (u + _c(2, x))
    return select(x > _c(20, x), x, x * (top / (top + _c(2, x))))


def _np_sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _alpha(default: float, meaning: str) -> AttrSpec:
    return AttrSpec("alpha", "float", default, meaning)


_ACTIVATIONS = (
    _Activation(
        "relu",
        "max(x, 0)",
        lambda a, x: maximum(_c(0, x), x),
        lambda a, x: np.maximum(x, 0),
        floats_only=False,
    ),
    _Activation(
        "relu6",
        "min(max(x, 0), 6)",
        lambda a, x: minimum(_c(6, x), maximum(_c(0, x), x)),
        lambda a, x: np.clip(x, 0, 6),
        floats_only=False,
    ),
    _Activation(
        "leakyrelu",
        "x where x > 0, else alpha * x",
        lambda a, x: select(x > _c(0, x), x, x * _c(a.alpha, x)),
        lambda a, x: np.where(x > 0, x, a.alpha * x),
        (_alpha(0.01, "the slope below zero"),),
        variants=({"alpha": 0.2},),
    ),
    _Activation(
        "gelu",
        "x / 2 * (1 + erf(x / sqrt(2)))",
        lambda a, x: _gelu(x),
        lambda a, x: x / 2 * (1 + evaluate_of("erf")(x * math.sqrt(0.5))),
    ),
    _Activation(
        "gelu_tanh",
        "gelu by its tanh approximation, x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x ** 3)))",
        lambda a, x: _gelu_tanh(x),
        lambda a, x: x / 2 * (1 + np.tanh(_GELU_TANH_SCALE * (x + _GELU_TANH_CUBIC * x**3))),
    ),
    _Activation("silu", "x * sigmoid(x)", lambda a, x: x * sigmoid(x), lambda a, x: x * _np_sigmoid(x)),
    _Activation(
        "softplus",
        "log(1 + e ** (beta * x)) / beta, or x where beta * x > threshold",
        _softplus,
        _np_softplus,
        (AttrSpec("beta", "float", 1.0), AttrSpec("threshold", "float", 20.0)),
        variants=({"beta": 2.0, "threshold": 3.0},),
    ),
    _Activation(
        "elu",
        "x where x > 0, else alpha * (e ** x - 1)",
        lambda a, x: select(x > _c(0, x), x, _exp_below_zero(x) * _c(a.alpha, x)),
        lambda a, x: np.where(x > 0, x, a.alpha * np.expm1(np.minimum(x, 0))),
        (_alpha(1.0, "the limit is -alpha"),),
    ),
    _Activation(
        "celu",
        "x where x > 0, else alpha * (e ** (x / alpha) - 1)",
        lambda a, x: select(x > _c(0, x), x, _exp_below_zero(x * _c(1 / a.alpha, x)) * _c(a.alpha, x)),
        lambda a, x: np.where(x > 0, x, a.alpha * np.expm1(np.minimum(x, 0) / a.alpha)),
        (_alpha(1.0, "the limit is -alpha"),),
        variants=({"alpha": 2.0},),
    ),
    _Activation(
        "selu",
        "scale * elu(x) with the constants for which activations stay normalised",
        lambda a, x: select(x > _c(0, x), x, _exp_below_zero(x) * _c(_SELU_ALPHA, x)) * _c(_SELU_SCALE, x),
        lambda a, x: _SELU_SCALE * np.where(x > 0, x, _SELU_ALPHA * np.expm1(np.minimum(x, 0))),
    ),
    _Activation(
        "hardtanh",
        "x limited to [min_val, max_val]",
        lambda a, x: minimum(_c(a.max_val, x), maximum(_c(a.min_val, x), x)),
        lambda a, x: np.clip(x, a.min_val, a.max_val),
        (AttrSpec("min_val", "float", -1.0), AttrSpec("max_val", "float", 1.0)),
    ),
    _Activation(
        "hardsigmoid",
        "alpha * x + beta limited to [0, 1]",
        lambda a, x: minimum(_c(1, x), maximum(_c(0, x), x * _c(a.alpha, x) + _c(a.beta, x))),
        lambda a, x: np.clip(a.alpha * x + a.beta, 0, 1),
        (_alpha(1 / 6, "the slope"), AttrSpec("beta", "float", 0.5, "the value at zero")),
        variants=({"alpha": 0.2},),
    ),
    _Activation(
        "hardswish",
        "x * min(max(x / 6 + 1 / 2, 0), 1)",
        lambda a, x: x * minimum(_c(1, x), maximum(_c(0, x), x * _c(1 / 6, x) + _c(0.5, x))),
        lambda a, x: x * np.clip(x / 6 + 0.5, 0, 1),
    ),
    _Activation(
        "mish",
        "x * tanh(log(1 + e ** x))",
        lambda a, x: _mish(x),
        lambda a, x: x * np.tanh(np.log1p(np.exp(x))),
    ),
    _Activation(
        "softsign",
        "x / (1 + |x|)",
        lambda a, x: x / (_c(1, x) + maximum(x, _c(0, x) - x)),
        lambda a, x: x / (1 + np.abs(x)),
    ),
    _Activation(
        "log_sigmoid",
        "log(sigmoid(x))",
        lambda a, x: minimum(x, _c(0, x)) - log1p(exp(minimum(x, _c(0, x) - x))),
        lambda a, x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))),
    ),
)


def _wide_scalar(row: _Activation, attrs: Any) -> Callable[[PrimExpr], PrimExpr]:
    """The function computed in float32 for narrower floats."""

    def function(x: PrimExpr) -> PrimExpr:
        wide = accumulator(DataType(x.dtype))
        return cast(x.dtype, row.scalar(attrs, cast(wide, x)))

    return function


def _reference(row: _Activation, attrs: Any, x: Any) -> Any:
    """In float64; the numbers among the attributes are those that the kernel computes with."""
    x = np.asarray(x)
    of_kernel = accumulator(DataType(str(x.dtype))).numpy().type
    with np.errstate(all="ignore"):
        numbers = SimpleNamespace(**{spec.name: float(of_kernel(attrs[spec.name])) for spec in row.attrs})
        return np.asarray(row.reference(numbers, x.astype(computed_in(x.dtype)))).astype(x.dtype)


def _declare(row: _Activation) -> None:
    dtypes = FLOATS if row.floats_only else (*FLOATS, "int32")
    samples = unary_samples(-6.0, 6.0, dtypes)
    varied = tuple(Sample(samples[0].shapes, attrs, ("float32",), samples[0].make) for attrs in row.variants)
    declare_op(
        OpDef(
            name=f"nn.{row.name}",
            inputs=_DATA,
            attrs=row.attrs,
            doc=f"Elementwise {row.formula}.",
            infer=float_same_as_input if row.floats_only else same_as_input,
            reference=lambda attrs, x: _reference(row, attrs, x),
            lower=lambda attrs, x: elementwise(_wide_scalar(row, attrs), x, name=row.name),
            layout=ANY_LAYOUT,
            samples=(*samples, *varied),
            errors=(ErrorSample(((2, 3),), {}, "R0204", "float", "int32"),) if row.floats_only else (),
        )
    )


def _infer_prelu(ctx: Inference) -> Type:
    data, alpha = ctx.tensor(0), ctx.tensor(1)
    require_float(ctx, data)
    ctx.same_dtype(data, alpha)
    require_ndim(ctx, alpha, 1, "alpha")
    if data.ndim >= 0:
        axis = ctx.axis(int(ctx.attrs.axis), data.ndim)
        if data.dims is not None and alpha.dims is not None and not _is_one(alpha.dims[0]):
            ctx.require_equal(data.dims[axis], alpha.dims[0], "channels of data and alpha")
    return data


def _is_one(dim: PrimExpr) -> bool:
    return getattr(dim, "value", None) == 1


def _lower_prelu(attrs: Any, x: Any, alpha: Any) -> Any:
    axis = positive_axis(int(attrs.axis), x.ndim)

    def element(*i: PrimExpr) -> PrimExpr:
        slope = alpha[constant(0, "int64") if _is_one(alpha.shape[0]) else i[axis]]
        return select(x[i] > _c(0, x[i]), x[i], x[i] * slope)

    return te.compute(x.shape, element, name="prelu")


def _reference_prelu(attrs: Any, x: Any, alpha: Any) -> Any:
    shape = [1] * x.ndim
    shape[attrs.axis] = alpha.shape[0]
    return np.where(x > 0, x, x * alpha.reshape(shape)).astype(x.dtype)


def _declare_prelu() -> None:
    declare_op(
        OpDef(
            name="nn.prelu",
            inputs=(
                *_DATA,
                Input("alpha", meaning="(c,): the slope below zero of each channel, or one for all"),
            ),
            attrs=(AttrSpec("axis", "int", 1, "the axis of channels"),),
            doc="x where x > 0, else alpha * x, with a slope a channel.",
            infer=_infer_prelu,
            reference=_reference_prelu,
            lower=_lower_prelu,
            layout=Without("the channel axis is an attribute"),
            samples=(
                Sample(((2, 3, 5), (3,)), dtypes=("float32", "float16", "bfloat16")),
                Sample(((2, 3, 5), (5,)), {"axis": -1}),
                Sample(((4, 3), (1,))),
            ),
            errors=(
                ErrorSample(((2, 3), (4,)), {}, "R0203", "channels of data and alpha differ"),
                ErrorSample(((2, 3), (3,)), {"axis": 2}, "R0205", "axis 2 is out of range"),
            ),
        )
    )


def declare() -> None:
    """Put the operators of this file into the table."""
    for row in _ACTIVATIONS:
        _declare(row)
    _declare_prelu()
