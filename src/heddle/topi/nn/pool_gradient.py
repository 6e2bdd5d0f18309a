"""Gradients of pooling: the gradient of a window goes to its maximum, or is shared by all of its elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle import te
from heddle.arith.sizes import as_dim
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import all as all_of
from heddle.prim.ops import cast, if_then_else, maximum, select
from heddle.topi.nn.pooling import pool, window_count
from heddle.topi.nn.window import pads, positions, spatial_letters, spread
from heddle.topi.reduce import accumulator


class _Windows:
    """Where the windows of a pool lie in its data."""

    def __init__(self, data: te.Tensor, attrs: Any) -> None:
        self.ndim, self.shape = data.ndim - 2, data.shape
        self.at = positions(str(attrs.layout), "NC" + spatial_letters(self.ndim))[2:]
        given = (attrs.pool_size, attrs.strides, attrs.dilation)
        self.sizes, self.steps, self.spaces = (spread(value, self.ndim) for value in given)
        self.before, self.after = pads(attrs.padding, self.ndim)

    def taps(self) -> list[Any]:
        return [
            te.reduce_axis((constant(0, "int64"), as_dim(size)), name=f"t{k}")
            for k, size in enumerate(self.sizes)
        ]

    def number(self, taps: Sequence[Any]) -> PrimExpr:
        """A tap's place in its window, as one number."""
        found: PrimExpr = constant(0, "int64")
        for tap, size in zip(taps, self.sizes, strict=True):
            found = found * size + tap.var
        return cast("int32", found)

    def windows_of(
        self, index: Sequence[PrimExpr], taps: Sequence[Any], outputs: Sequence[PrimExpr]
    ) -> tuple[list[PrimExpr], PrimExpr]:
        """The window that has an element of the data at a tap, and whether there is one."""
        found, valid = list(index), []
        for k, axis in enumerate(self.at):
            start = index[axis] + self.before[k] - taps[k].var * self.spaces[k]
            found[axis] = start // self.steps[k]
            valid += [start >= 0, found[axis] < outputs[axis]]
            if self.steps[k] > 1:
                valid.append((start % self.steps[k]).equal(0))
        return found, all_of(*valid)

    def element_of(self, index: Sequence[PrimExpr], taps: Sequence[Any]) -> tuple[list[PrimExpr], PrimExpr]:
        """The element of the data at a tap of a window, and whether it is not padding."""
        found, valid = list(index), []
        for k, axis in enumerate(self.at):
            found[axis] = index[axis] * self.steps[k] + taps[k].var * self.spaces[k] - self.before[k]
            valid += [found[axis] >= 0, found[axis] < self.shape[axis]]
        return found, all_of(*valid)


def max_pool_grad(grad: te.Tensor, data: te.Tensor, attrs: Any) -> te.Tensor:
    """Gradient of max pooling: the first maximum of a window receives the window's gradient."""
    here = _Windows(data, attrs)
    given = (attrs.pool_size, attrs.strides, attrs.padding, attrs.dilation)
    greatest = pool(data, "max", *given, bool(attrs.ceil_mode), False, str(attrs.layout))
    inner, none = here.taps(), constant(2**31 - 1, "int32")

    def place(*index: PrimExpr) -> Any:
        source, valid = here.element_of(index, inner)
        value = if_then_else(valid, data[tuple(source)], greatest[index])
        is_it = all_of(valid, value.equal(greatest[index]))
        return te.min(select(is_it, here.number(inner), none), axis=inner)

    places: te.Tensor = te.compute(greatest.shape, place, name="place")
    taps, wide = here.taps(), accumulator(data.dtype)

    def element(*index: PrimExpr) -> Any:
        window, valid = here.windows_of(index, taps, grad.shape)
        at, zero = tuple(window), constant(0, wide)
        chosen = if_then_else(
            valid, select(places[at].equal(here.number(taps)), cast(wide, grad[at]), zero), zero
        )
        return te.sum(chosen, axis=taps)

    return _narrowed(te.compute(data.shape, element, name="max_pool_grad"), data.dtype)


def avg_pool_grad(grad: te.Tensor, data: te.Tensor, attrs: Any) -> te.Tensor:
    """Gradient of average pooling: each element of a window receives its share of the window's gradient."""
    here = _Windows(data, attrs)
    leaves = [attrs.ceil_mode or here.before[k] or here.after[k] for k in range(here.ndim)]
    parts = (here.shape, here.at, here.sizes, here.steps, here.before, here.after, here.spaces, leaves)
    count = window_count(*parts, bool(attrs.count_include_pad))
    taps, wide = here.taps(), accumulator(data.dtype)

    def element(*index: PrimExpr) -> Any:
        window, valid = here.windows_of(index, taps, grad.shape)
        share = cast(wide, grad[tuple(window)]) / cast(wide, maximum(count(window), 1))
        return te.sum(if_then_else(valid, share, constant(0, wide)), axis=taps)

    return _narrowed(te.compute(data.shape, element, name="avg_pool_grad"), data.dtype)


def _narrowed(x: te.Tensor, dtype: Any) -> te.Tensor:
    if x.dtype == dtype:
        return x
    made: te.Tensor = te.compute(x.shape, lambda *i: cast(dtype, x[i]), name="narrowed")
    return made
