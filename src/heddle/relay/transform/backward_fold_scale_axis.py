"""Factors behind products, as part of the weights."""

from __future__ import annotations

from collections import Counter
from typing import Any

from heddle.ir.expr import Function
from heddle.ir.module import IRModule
from heddle.relay.placement import post_order
from heddle.relay.transform.copying import with_nodes
from heddle.relay.transform.rewriting import TypedPass
from heddle.relay.transform.scaled_channels import (
    ANY,
    Way,
    factors,
    next_step,
    uses_of,
    weight_axis,
    with_scale,
)
from heddle.relay.typed import infer_expr
from heddle.support.frozen import frozen


@frozen
class BackwardFoldScaleAxis(TypedPass):
    """Multiply the weight of a convolution or `nn.dense` in the place of its result's channels.

        multiply(nn.relu(nn.conv2d(%x, %w)), %s)

    becomes, where `%s` is a positive constant of shape (c, 1, 1),

        nn.relu(nn.conv2d(%x, multiply(%w, expand_dims(reshape(%s, newshape=[-1]), ...))))

    Sums with something of each channel are between, and activations where the factor is positive. What lies
    between has no other use.
    """

    opt_level = 3

    def change(self, func: Function, mod: IRModule) -> Function:
        while made := _folded(func):
            func = infer_expr(with_nodes(func, made), mod)
        return func


def _folded(func: Function) -> dict[int, Any]:
    """What stands for products with a factor, by their identity; ways that meet are left for later."""
    made: dict[int, Any] = {}
    uses, taken = uses_of(func), set[int]()
    for product in reversed(post_order(func)):
        for side, axis in factors(product):
            scale, way = product.args[side], _way(product.args[1 - side], axis, uses)
            if way is None or not way.allows(scale, is_divided=False):
                continue
            named = {id(product), id(way.end), *(id(step) for step, _ in way.steps)}
            if named & taken:
                continue
            _, place = weight_axis(way.end, "O") or (0, 0)
            end = with_scale(way.end, way.end.args[0], scale, place)
            made[id(product)] = way.rebuilt(end, scale, "multiply")
            taken |= named
            break
    return made


def _way(expr: Any, axis: int, uses: Counter[int]) -> Way | None:
    """To the product whose weight takes a factor along an axis of an expression."""
    way = Way(expr)
    while uses[id(way.end)] == 1:
        found = weight_axis(way.end, "O")
        if found is not None:
            return way if axis in (ANY, found[0]) else None
        side = next_step(way.end, axis)
        if side is None:
            return None
        way = Way(way.end.args[side], [*way.steps, (way.end, side)])
    return None
