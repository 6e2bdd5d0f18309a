"""Softmax and normalisation layers. For floats narrower than float32, statistics are computed in float32."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from heddle import te
from heddle.arith.sizes import simplified
from heddle.prim.intrinsics import exp, log, power, rsqrt, sqrt
from heddle.prim.nodes import PrimExpr, constant, is_const_int
from heddle.prim.ops import add, all, cast, maximum, minimum, multiply, select
from heddle.topi.dims import positive_axes, positive_axis
from heddle.topi.reduce import accumulator, kept_index, mean_square, moments, moments_of, reduce_element


def softmax(x: te.Tensor, axis: int = -1) -> te.Tensor:
    """Return exp(x - max), divided by its sum along an axis."""
    axes = (positive_axis(axis, x.ndim),)
    wide = accumulator(x.dtype)
    top = reduce_element(x.shape, axes, True, te.max, lambda i: x[i], "softmax_max")
    power_of: te.Tensor = te.compute(
        x.shape,
        lambda *i: exp(_below_zero(cast(wide, x[i]) - cast(wide, top[kept_index(i, axes)]))),
        name="softmax_exp",
    )
    total = reduce_element(x.shape, axes, True, te.sum, lambda i: power_of[i], "softmax_sum")
    result: te.Tensor = te.compute(
        x.shape,
        lambda *i: cast(x.dtype, power_of[i] * (constant(1, wide) / total[kept_index(i, axes)])),
        name="softmax",
    )
    return result


def _below_zero(x: PrimExpr) -> PrimExpr:
    """A difference from the greatest one, with what an exponential gains by knowing."""
    return minimum(constant(0, x.dtype), x)


def log_softmax(x: te.Tensor, axis: int = -1) -> te.Tensor:
    """Return x - max - log(sum(exp(x - max))) along an axis."""
    axes = (positive_axis(axis, x.ndim),)
    wide = accumulator(x.dtype)
    top = reduce_element(x.shape, axes, True, te.max, lambda i: x[i], "log_softmax_max")

    def shifted(index: tuple[PrimExpr, ...]) -> PrimExpr:
        result: PrimExpr = cast(wide, x[index]) - cast(wide, top[kept_index(index, axes)])
        return result

    total = reduce_element(
        x.shape, axes, True, te.sum, lambda i: exp(_below_zero(shifted(i))), "log_softmax_sum"
    )
    result: te.Tensor = te.compute(
        x.shape, lambda *i: cast(x.dtype, shifted(i) - log(total[kept_index(i, axes)])), name="log_softmax"
    )
    return result


def _normalised(
    x: te.Tensor,
    axes: Sequence[int],
    gamma: te.Tensor | None,
    beta: te.Tensor | None,
    own: Sequence[int],
    epsilon: float,
    name: str,
) -> te.Tensor:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta; gamma and beta are indexed by the axes `own`."""
    average, spread = moments(x, axes)
    wide = average.dtype

    def element(*i: PrimExpr) -> PrimExpr:
        at, mine = kept_index(i, axes), tuple(i[k] for k in own)
        value = (cast(wide, x[i]) - average[at]) * rsqrt(spread[at] + constant(epsilon, wide))
        return cast(x.dtype, _affine(value, gamma, beta, mine))

    result: te.Tensor = te.compute(x.shape, element, name=name)
    return result


def _affine(
    value: PrimExpr, gamma: te.Tensor | None, beta: te.Tensor | None, index: tuple[PrimExpr, ...]
) -> PrimExpr:
    if gamma is not None:
        value = value * cast(value.dtype, gamma[index])
    return value if beta is None else value + cast(value.dtype, beta[index])


def layer_norm(
    x: te.Tensor, gamma: te.Tensor | None, beta: te.Tensor | None, axis: Any, epsilon: float = 1e-5
) -> te.Tensor:
    """Layer normalisation over axes. gamma and beta have the shape of those axes."""
    axes = positive_axes(axis, x.ndim)
    return _normalised(x, axes, gamma, beta, axes, epsilon, "layer_norm")


def instance_norm(
    x: te.Tensor,
    gamma: te.Tensor | None,
    beta: te.Tensor | None,
    channel_axis: int,
    axis: Any,
    epsilon: float = 1e-5,
) -> te.Tensor:
    """Instance normalisation over axes. gamma and beta have one value per channel."""
    channel = positive_axis(channel_axis, x.ndim)
    return _normalised(x, positive_axes(axis, x.ndim), gamma, beta, (channel,), epsilon, "instance_norm")


def rms_norm(x: te.Tensor, weight: te.Tensor, axis: Any, epsilon: float = 1e-5) -> te.Tensor:
    """Return x / sqrt(mean(x ** 2) + epsilon) * weight; the mean is over the axes, and the weight has their
    shape."""
    axes = positive_axes(axis, x.ndim)
    square = mean_square(x, axes)
    wide = square.dtype

    def element(*i: PrimExpr) -> PrimExpr:
        value = cast(wide, x[i]) * rsqrt(square[kept_index(i, axes)] + constant(epsilon, wide))
        return cast(x.dtype, _affine(value, weight, None, tuple(i[k] for k in axes)))

    result: te.Tensor = te.compute(x.shape, element, name="rms_norm")
    return result


def group_norm(
    x: te.Tensor,
    gamma: te.Tensor | None,
    beta: te.Tensor | None,
    num_groups: int,
    channel_axis: int,
    axes: Any,
    epsilon: float = 1e-5,
) -> te.Tensor:
    """Group normalisation over axes and groups of adjacent channels. gamma and beta have one value per
    channel."""
    channel = positive_axis(channel_axis, x.ndim)
    size = simplified(x.shape[channel] // num_groups)
    shape = (*x.shape[:channel], constant(num_groups, "int64"), size, *x.shape[channel + 1 :])
    over = (channel + 1, *(k + (k > channel) for k in positive_axes(axes, x.ndim)))
    wide = accumulator(x.dtype)

    def grouped(i: tuple[PrimExpr, ...]) -> PrimExpr:
        return cast(wide, x[(*i[:channel], i[channel] * size + i[channel + 1], *i[channel + 2 :])])

    average, spread = moments_of(shape, grouped, over)

    width = constant(1, "int64") if is_const_int(size, 0) else size  # without channels there is no element

    def element(*i: PrimExpr) -> PrimExpr:
        at = kept_index((*i[:channel], i[channel] // width, i[channel] % width, *i[channel + 1 :]), over)
        value = (cast(wide, x[i]) - average[at]) * rsqrt(spread[at] + constant(epsilon, wide))
        return cast(x.dtype, _affine(value, gamma, beta, (i[channel],)))

    result: te.Tensor = te.compute(x.shape, element, name="group_norm")
    return result


def batch_norm(
    x: te.Tensor,
    gamma: te.Tensor,
    beta: te.Tensor,
    moving_mean: te.Tensor,
    moving_var: te.Tensor,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    training: bool = False,
    momentum: float = 0.1,
) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """Batch normalisation by the moving statistics, in training by those of the batch. Return the result and
    the new moving mean and variance."""
    channel = positive_axis(axis, x.ndim)
    factors = gamma if scale else None, beta if center else None
    if training:
        axes = tuple(k for k in range(x.ndim) if k != channel)
        result = _normalised(x, axes, *factors, (channel,), epsilon, "batch_norm")
        average, spread = moments(x, axes)
        zero = constant(0, "int64")

        def batch(of: te.Tensor, c: PrimExpr) -> PrimExpr:
            value: PrimExpr = of[tuple(c if k == channel else zero for k in range(x.ndim))]
            return value

        moved = [
            _moving(old, lambda c, of=new: batch(of, c), momentum, name)
            for old, new, name in ((moving_mean, average, "new_mean"), (moving_var, spread, "new_var"))
        ]
        return result, moved[0], moved[1]

    def element(*i: PrimExpr) -> PrimExpr:
        c = i[channel]
        wide = accumulator(x.dtype)
        inverse = rsqrt(cast(wide, moving_var[c]) + constant(epsilon, wide))
        value = (cast(wide, x[i]) - cast(wide, moving_mean[c])) * inverse
        return cast(x.dtype, _affine(value, *factors, (c,)))

    result = te.compute(x.shape, element, name="batch_norm")
    return result, _copy(moving_mean, "moving_mean_out"), _copy(moving_var, "moving_var_out")


def _moving(old: te.Tensor, new: Any, momentum: float, name: str) -> te.Tensor:
    def element(c: PrimExpr) -> PrimExpr:
        value = new(c)
        rest, share = constant(1 - momentum, value.dtype), constant(momentum, value.dtype)
        return cast(old.dtype, cast(value.dtype, old[c]) * rest + value * share)

    result: te.Tensor = te.compute(old.shape, element, name=name)
    return result


def _copy(x: te.Tensor, name: str) -> te.Tensor:
    result: te.Tensor = te.compute(x.shape, lambda *i: x[i], name=name)
    return result


_WRITTEN_OUT = 8
"""Windows up to this size are sums of terms in one map; longer ones are reductions of their own."""


def lrn(
    x: te.Tensor, size: int, axis: int = 1, alpha: float = 1e-4, beta: float = 0.75, bias: float = 2.0
) -> te.Tensor:
    """Local response normalisation: x / (bias + alpha / size * s) ** beta, where s is the sum of squares in a
    window of `size` elements along an axis."""
    channel = positive_axis(axis, x.ndim)
    wide = accumulator(x.dtype)
    before = (size - 1) // 2

    def square(i: tuple[PrimExpr, ...], step: PrimExpr) -> PrimExpr:
        """Zero beyond the ends, where the last channel is read instead: vectors need no branch."""
        at = i[channel] + step - before
        place = maximum(0, minimum(at, x.shape[channel] - 1))
        inside = all(at >= 0, at < x.shape[channel])
        value = select(inside, cast(wide, x[(*i[:channel], place, *i[channel + 1 :])]), constant(0, wide))
        result: PrimExpr = value * value
        return result

    def sum_of_terms(*i: PrimExpr) -> PrimExpr:
        total: PrimExpr = reduce(add, (square(i, constant(step, "int64")) for step in range(size)))
        return total

    def reduced(*i: PrimExpr) -> PrimExpr:
        k = te.reduce_axis((constant(0, "int64"), constant(size, "int64")), name="k")
        total: PrimExpr = te.sum(square(i, k.var), axis=k)
        return total

    squares = te.compute(x.shape, sum_of_terms if size <= _WRITTEN_OUT else reduced, name="lrn_sum")

    def element(*i: PrimExpr) -> PrimExpr:
        base = constant(bias, wide) + squares[i] * constant(alpha / size, wide)
        return cast(x.dtype, cast(wide, x[i]) / _power_of_positive(base, beta))

    result: te.Tensor = te.compute(x.shape, element, name="lrn")
    return result


def _power_of_positive(base: PrimExpr, exponent: float) -> PrimExpr:
    """base ** exponent, by square roots where the exponent is a half or three quarters."""
    if exponent == 0.5:
        return sqrt(base)
    if exponent == 0.75:
        root = sqrt(base)
        return multiply(root, sqrt(root))
    return power(base, constant(exponent, base.dtype))


def l2_normalize(x: te.Tensor, eps: float, axis: Any = None) -> te.Tensor:
    """x / sqrt(max(the sum of squares over axes, eps))."""
    axes = positive_axes(axis, x.ndim)
    wide = accumulator(x.dtype)
    total = reduce_element(
        x.shape, axes, True, te.sum, lambda i: cast(wide, x[i]) * cast(wide, x[i]), "l2_sum"
    )

    def element(*i: PrimExpr) -> PrimExpr:
        size = sqrt(maximum(total[kept_index(i, axes)], constant(eps, wide)))
        return cast(x.dtype, cast(wide, x[i]) / size)

    result: te.Tensor = te.compute(x.shape, element, name="l2_normalize")
    return result
