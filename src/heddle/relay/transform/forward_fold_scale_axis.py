"""Factors before products, as part of the weights."""

from __future__ import annotations

from functools import partial
from typing import Any

from heddle.ir.expr import Function
from heddle.relay.placement import operands, post_order
from heddle.relay.transform.rewriting import is_call
from heddle.relay.transform.scaled_channels import (
    ANY,
    FoldScales,
    factors,
    uses_of,
    way_to,
    weight_axis,
    with_scale,
)
from heddle.support.frozen import frozen


@frozen
class ForwardFoldScaleAxis(FoldScales):
    """Multiply the weight of a convolution or `nn.dense` in the place of its data's channels.

        nn.conv2d(nn.relu(multiply(%x, %s)), %w)

    becomes, where `%s` is a positive constant of shape (c, 1, 1),

        nn.conv2d(nn.relu(%x), multiply(%w, expand_dims(reshape(%s, newshape=[-1]), ...)))

    Sums with something of each channel are between, where the factor is a constant without zeros, and
    activations where it is positive. All that use the data are such products.
    """

    def folded(self, func: Function) -> dict[int, Any]:
        """What stands for products and their data, by identity; a way that another one meets is left for
        later."""
        uses, users = uses_of(func), dict[int, list[Any]]()
        for expr in post_order(func):
            for child in operands(expr):
                users.setdefault(id(child), []).append(expr)
        made: dict[int, Any] = {}
        taken: set[int] = set()
        for expr in post_order(func):
            found = weight_axis(expr, "I")
            if found is None or id(expr) in taken:
                continue
            others = users[id(expr.args[0])]
            axes = [weight_axis(each, "I") if _reads(each, expr.args[0]) else None for each in others]
            way = way_to(expr.args[0], found[0], uses, partial(_gives, found[0]))
            if way is None or any(axis is None or axis[0] != found[0] for axis in axes):
                continue
            side = next(side for side, axis in factors(way.end) if axis in (ANY, found[0]))
            scale = way.end.args[side]
            named = way.named() | set(map(id, others))
            if way.allows(scale, is_divided=True) and not named & taken:
                data = way.rebuilt(way.end.args[1 - side], scale, "divide")
                for each, axis in zip(others, axes, strict=True):
                    made[id(each)] = with_scale(each, data, scale, axis[1])  # type: ignore[index]
                taken |= named
        return made


def _reads(expr: Any, data: Any) -> bool:
    """Whether an operator has a tensor as its data, and as nothing else."""
    return is_call(expr) and expr.args[0] is data and all(arg is not data for arg in expr.args[1:])


def _gives(axis: int, expr: Any) -> bool:
    """Whether an expression is a product that gives a tensor a factor along an axis."""
    return any(found in (ANY, axis) for _, found in factors(expr))
