"""What the type rules and references of convolution and pooling share."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.graph.infer import Inference
from heddle.ir.op_def import AttrSpec
from heddle.topi.nn.window import spread


def checked_positions(ctx: Inference, layout: str, letters: str) -> tuple[int, ...]:
    """The axis of each letter; another layout is an error."""
    if sorted(layout) != sorted(letters):
        ctx.attr_error(f"layout {layout!r} is not supported, expected an order of the letters {letters}")
    return tuple(layout.index(letter) for letter in letters)


def window_attrs(ctx: Inference, ndim: int) -> tuple[tuple[int, ...], ...]:
    """Strides, padding before, padding after and dilation of each spatial axis, checked."""
    attrs = ctx.attrs
    strides, dilation = (
        spread_attr(ctx, name, getattr(attrs, name), ndim) for name in ("strides", "dilation")
    )
    for name, values in (("strides", strides), ("dilation", dilation)):
        if any(value < 1 for value in values):
            ctx.attr_error(f"{name} must be at least 1, got {list(values)}")
    given = attrs.padding if isinstance(attrs.padding, (tuple, list)) else (attrs.padding,)
    if len(given) not in (1, ndim, 2 * ndim):
        ctx.attr_error(f"padding must have 1, {ndim} or {2 * ndim} numbers, got {list(given)}")
    if any(int(p) < 0 for p in given):
        ctx.attr_error(f"padding must be at least 0, got {list(given)}")
    both = len(given) == 2 * ndim
    before = tuple(int(p) for p in given[:ndim]) if both else spread(given, ndim)
    after = tuple(int(p) for p in given[ndim:]) if both else before
    return strides, before, after, dilation


def spread_attr(ctx: Inference, name: str, value: Any, ndim: int) -> tuple[int, ...]:
    """An attribute with one number, or one for each of `ndim` dimensions, as `ndim` numbers.

    Raises: IRTypeError R0205.
    """
    given = value if isinstance(value, (tuple, list)) else (value,)
    if len(given) not in (1, ndim):
        ctx.attr_error(f"{name} must have 1 or {ndim} numbers, got {list(given)}")
    return spread(given, ndim)


def per_axis(window: tuple[tuple[int, ...], ...], axis: int) -> tuple[int, int, int, int]:
    """Stride, padding before and after, and dilation of one axis of what `window_attrs` gives."""
    strides, before, after, dilation = window
    return strides[axis], before[axis], after[axis], dilation[axis]


def layout_attrs(name: str, default: str) -> tuple[AttrSpec, ...]:
    """The attribute that names a layout."""
    return (AttrSpec(name, "str", default, "the order of axes"),)


def numpy_layout(x: Any, source: str, target: str) -> Any:
    """An array whose axes are named by the letters of `source`, in the order of `target`."""
    return np.transpose(x, [source.index(letter) for letter in target])
