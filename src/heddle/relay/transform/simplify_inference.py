"""Operators of training as what they are when a network runs."""

from __future__ import annotations

from typing import Any

from heddle.ir.expr import TupleGetItem
from heddle.relay.transform.rewriting import RewritePass, along, call, is_call, number, rank
from heddle.support.frozen import frozen


@frozen
class SimplifyInference(RewritePass):
    """Write normalisations as arithmetic, and leave dropout out.

        nn.batch_norm(%x, %gamma, %beta, %mean, %var).0

    becomes, with `%s = %gamma * rsqrt(%var + 1e-05f)`,

        add(multiply(%x, expand_dims(%s, ...)), expand_dims(%beta - %mean * %s, ...))

    A batch norm whose other results are used as well stays.
    """

    def rewrite(self, old: Any, new: Any) -> Any:
        if isinstance(old, TupleGetItem) and old.index == 0:
            if is_call(old.tuple_value, "nn.batch_norm"):
                return _batch_norm(old.tuple_value, new.tuple_value)
            if is_call(old.tuple_value, "nn.dropout"):
                return new.tuple_value.args[0]
        rule = _RULES.get(old.op.name) if is_call(old) else None
        return new if rule is None else rule(old, new)


def _batch_norm(old: Any, new: Any) -> Any:
    data, gamma, beta, mean, variance = new.args
    attrs, ndim = old.attrs, rank(old.args[0])
    factor = call("rsqrt", call("add", variance, number(attrs.epsilon, old.args[4])))
    if attrs.scale:
        factor = call("multiply", gamma, factor)
    shift = call("negative", call("multiply", mean, factor))
    if attrs.center:
        shift = call("add", shift, beta)
    scaled = call("multiply", data, along(factor, attrs.axis, ndim))
    return call("add", scaled, along(shift, attrs.axis, ndim))


def _scaled(old: Any, value: Any, gamma: Any, beta: Any, axis: int) -> Any:
    """Behind a normalisation, what its attributes say of `gamma` and `beta`."""
    ndim = rank(old.args[0])
    if old.attrs.scale:
        value = call("multiply", value, along(gamma, axis, ndim))
    return call("add", value, along(beta, axis, ndim)) if old.attrs.center else value


def _normalized(old: Any, data: Any, axes: list[int]) -> Any:
    """`(data - mean) * rsqrt(variance + epsilon)` over axes."""
    mean = call("mean", data, axis=axes, keepdims=True)
    centered = call("subtract", data, mean)
    variance = call("mean", call("multiply", centered, centered), axis=axes, keepdims=True)
    return call(
        "multiply", centered, call("rsqrt", call("add", variance, number(old.attrs.epsilon, old.args[0])))
    )


def _layer_norm(old: Any, new: Any) -> Any:
    data, gamma, beta = new.args
    return _scaled(old, _normalized(old, data, [old.attrs.axis]), gamma, beta, old.attrs.axis)


def _instance_norm(old: Any, new: Any) -> Any:
    data, gamma, beta = new.args
    ndim = rank(old.args[0])
    axes = [axis for axis in range(1, ndim) if axis != old.attrs.axis % ndim]
    return _scaled(old, _normalized(old, data, axes), gamma, beta, old.attrs.axis)


def _group_norm(old: Any, new: Any) -> Any:
    data, gamma, beta = new.args
    attrs, ndim = old.attrs, rank(old.args[0])
    axis = attrs.axis % ndim
    split = [0] * axis + [-4, attrs.num_groups, -1] + [0] * (ndim - axis - 1)
    groups = call("reshape", data, newshape=split)
    axes = [place for place in range(1, ndim + 1) if place != axis]
    whole = call("reshape_like", _normalized(old, groups, axes), data)
    return _scaled(old, whole, gamma, beta, axis)


def _l2_normalize(old: Any, new: Any) -> Any:
    data = new.args[0]
    squares = call("sum", call("multiply", data, data), axis=old.attrs.axis, keepdims=True)
    least = number(old.attrs.eps, old.args[0])
    return call("divide", data, call("sqrt", call("maximum", squares, least)))


_RULES = {
    "nn.layer_norm": _layer_norm,
    "nn.instance_norm": _instance_norm,
    "nn.group_norm": _group_norm,
    "nn.l2_normalize": _l2_normalize,
}
