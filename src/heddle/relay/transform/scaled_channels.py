"""Factors of channels: where they stand, and the weights that can take them."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import field
from typing import Any

import numpy as np

from heddle.ir.expr import Call, Function
from heddle.ir.module import IRModule
from heddle.ir.structural import structural_equal
from heddle.prim.nodes import IntImm
from heddle.relay.placement import operands, post_order
from heddle.relay.transform.copying import with_nodes
from heddle.relay.transform.rewriting import (
    TypedPass,
    along,
    array_of,
    call,
    dtype_of,
    is_call,
    rank,
    recalled,
    sizes,
)
from heddle.relay.typed import infer_expr
from heddle.support.frozen import frozen

_CONVOLUTIONS = tuple(f"nn.conv{n}d{end}" for n in (1, 2, 3) for end in ("", "_transpose"))
_SIGNS = ("nn.relu", "nn.leaky_relu")
"""Operators that a positive factor commutes with."""
ANY = -1
"""The axis of a factor that is one number."""


def weight_axis(expr: Any, letter: str) -> tuple[int, int] | None:
    """The axes of channels in the data (`I`) or result (`O`) of a product, and in its weight; None for what
    is no product of floats, or whose weight has no axis of its own for each channel."""
    if not is_call(expr, "nn.dense", *_CONVOLUTIONS) or "float" not in dtype_of(expr):
        return None
    if len({dtype_of(each) for each in (*expr.args, expr)}) > 1:
        return None
    if expr.op.name == "nn.dense":
        return rank(expr) - 1, "OI".index(letter)
    attrs, weight = expr.attrs, str(expr.attrs.kernel_layout)
    layout = str(attrs.out_layout or attrs.data_layout) if letter == "O" else str(attrs.data_layout)
    if not (layout.isalpha() and layout.isupper() and weight.isalpha() and weight.isupper()):
        return None
    # The weight has all outputs of all groups side by side; a transposed one has all inputs.
    if attrs.groups != 1 and letter != ("I" if expr.op.name.endswith("transpose") else "O"):
        known, groups = sizes(expr.args[1]), attrs.groups
        is_depthwise = known is not None and (known[weight.index("O")], known[weight.index("I")])
        if is_depthwise not in ((groups, 1), (1, groups)):
            return None
        letter = "O" if is_depthwise == (groups, 1) else "I"
    return layout.index("C"), weight.index(letter)


def factor_axis(whole: Any, part: Any, scale: Any) -> int | None:
    """The axis of `whole` along which `scale` varies; ANY for one number; None where it varies along several,
    or where `whole` and `part` differ in type."""
    known, dims = sizes(scale), whole.ty.dims
    if known is None or dims is None or len(known) > len(dims) or not structural_equal(whole.ty, part.ty):
        return None
    axes = [len(dims) - len(known) + axis for axis, size in enumerate(known) if size != 1]
    if len(axes) > 1:
        return None
    is_same = not axes or (isinstance(dims[axes[0]], IntImm) and dims[axes[0]].value != 0)
    return (axes[0] if axes else ANY) if is_same else None


def factors(product: Any) -> list[tuple[int, int]]:
    """Of a product of floats, the numbers of operands that are a factor of channels, and its axis."""
    if not is_call(product, "multiply") or "float" not in dtype_of(product):
        return []
    found = ((side, factor_axis(product, product.args[1 - side], product.args[side])) for side in (1, 0))
    return [(side, axis) for side, axis in found if axis is not None]


@frozen
class Way:
    """A way from an expression down to where a factor goes to or comes from, at `end`.

    `steps`: the calls between, outermost first, each with the number of the operand that the way goes on in.
    """

    end: Any
    steps: list[tuple[Any, int]] = field(default_factory=list)

    def named(self) -> set[int]:
        """The identities of the end and of the steps."""
        return {id(self.end), *(id(step) for step, _ in self.steps)}

    def allows(self, scale: Any, is_divided: bool) -> bool:
        """Whether a factor commutes with the steps: what is compared with zero takes positive ones, what is
        added is divided by constants other than zero."""
        known = array_of(scale)
        is_known = known is not None
        if is_known and not np.all(np.isfinite(known)):
            return False  # a weight of 0 times infinity is no number
        has_signs = any(is_call(step, *_SIGNS) for step, _ in self.steps)
        adds = any(is_call(step, "add", "subtract", "nn.bias_add") for step, _ in self.steps)
        if (has_signs or (adds and is_divided)) and not is_known:
            return False
        return (not has_signs or bool(np.all(known > 0))) and not (
            adds and is_divided and bool(np.any(known == 0))
        )

    def rebuilt(self, end: Any, scale: Any, name: str) -> Any:
        """The steps over another end; what they add is scaled by `name`, `multiply` or `divide`."""
        for step, side in reversed(self.steps):
            args = [end if k == side else arg for k, arg in enumerate(step.args)]
            if is_call(step, "add", "subtract"):
                args[1 - side] = call(name, args[1 - side], scale)
            elif is_call(step, "nn.bias_add"):
                args[1] = call(name, args[1], vector(scale))
            end = recalled(step, *args)
        return end


def next_step(expr: Any, axis: int) -> int | None:
    """The operand of which an expression is a multiple where the operand is one, factors along an axis."""
    if is_call(expr, *_SIGNS):
        return 0
    if is_call(expr, "nn.bias_add"):
        return 0 if axis in (ANY, expr.attrs.axis % rank(expr)) else None
    if not is_call(expr, "add", "subtract", "multiply"):
        return None
    for side in (0, 1):
        other = factor_axis(expr, expr.args[side], expr.args[1 - side])
        fits = other is not None and (is_call(expr, "multiply") or ANY in (other, axis) or other == axis)
        if fits and is_call(expr.args[side]):
            return side
    return None


def way_to(expr: Any, axis: int, uses: Counter[int], is_end: Callable[[Any], bool]) -> Way | None:
    """From an expression to where a factor along an axis goes to or comes from; what lies between has no
    other use."""
    way = Way(expr)
    while not way.steps or uses[id(way.end)] == 1:
        if is_end(way.end):
            return way
        side = next_step(way.end, axis)
        if side is None:
            return None
        way = Way(way.end.args[side], [*way.steps, (way.end, side)])
    return None


def uses_of(root: Any) -> Counter[int]:
    """How often each expression is an operand, by its identity."""
    return Counter(id(child) for expr in post_order(root) for child in operands(expr))


def vector(scale: Any) -> Any:
    """A factor as a tensor of one axis."""
    return call("reshape", scale, newshape=[-1])


def with_scale(product: Any, data: Any, scale: Any, axis: int) -> Call:
    """A product with data, and a weight that is multiplied along an axis."""
    weight = product.args[1]
    spread = along(vector(scale), axis, rank(weight))
    return recalled(product, data, call("multiply", weight, spread))


class FoldScales(TypedPass):
    """What the passes share: they go over a function until no factor is left that a weight takes."""

    opt_level = 3

    @abstractmethod
    def folded(self, func: Function) -> dict[int, Any]:
        """What stands for expressions, by their identity; ways that meet are left for later."""

    def change(self, func: Function, mod: IRModule) -> Function:
        while made := self.folded(func):
            func = infer_expr(with_nodes(func, made), mod)
        return func
