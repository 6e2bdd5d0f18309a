"""Factors behind products, as part of the weights."""

from __future__ import annotations

from functools import partial
from typing import Any

from heddle.ir.expr import Function
from heddle.relay.placement import post_order
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
class BackwardFoldScaleAxis(FoldScales):
    """Multiply the weight of a convolution or `nn.dense` in the place of its result's channels.

        multiply(nn.relu(nn.conv2d(%x, %w)), %s)

    becomes, where `%s` is a positive constant of shape (c, 1, 1),

        nn.relu(nn.conv2d(%x, multiply(%w, expand_dims(reshape(%s, newshape=[-1]), ...))))

    Sums with something of each channel are between, and activations where the factor is positive. What lies
    between has no other use.
    """

    def folded(self, func: Function) -> dict[int, Any]:
        """What stands for products with a factor, by their identity; ways that meet are left for later."""
        made: dict[int, Any] = {}
        uses, taken = uses_of(func), set[int]()
        for product in reversed(post_order(func)):
            for side, axis in factors(product):
                scale, data = product.args[side], product.args[1 - side]
                way = way_to(data, axis, uses, partial(_takes, axis)) if uses[id(data)] == 1 else None
                if way is None or not way.allows(scale, is_divided=False):
                    continue
                named = {id(product)} | way.named()
                if named & taken:
                    continue
                _, place = weight_axis(way.end, "O") or (0, 0)
                end = with_scale(way.end, way.end.args[0], scale, place)
                made[id(product)] = way.rebuilt(end, scale, "multiply")
                taken |= named
                break
        return made


def _takes(axis: int, expr: Any) -> bool:
    """Whether an expression is a product whose weight takes a factor along an axis of it."""
    found = weight_axis(expr, "O")
    return found is not None and axis in (ANY, found[0])
