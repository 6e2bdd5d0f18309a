"""What the data of pools gets of a gradient, as operators: TVM has them, and gradients of pools are made of
them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from heddle.graph.infer import Inference
from heddle.ir.attrs import attrs_of
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import Type
from heddle.ops.nn.pool import pool_reference, pool_rule
from heddle.ops.nn.window import layout_attrs, numpy_layout
from heddle.ops.rules import require_float
from heddle.topi.nn import pool_gradient as topi
from heddle.topi.nn.window import pads, spatial_letters, spread

_ROWS: dict[int, tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...]] = {
    1: (
        ((2, 3, 8), (2, 3, 4), {"pool_size": 2, "strides": 2}),
        ((1, 2, 7), (1, 2, 4), {"pool_size": 3, "strides": 2, "padding": 1, "ceil_mode": True}),
        ((1, 2, 7), (1, 2, 4), {"pool_size": 3, "dilation": 2, "padding": [1, 0]}),
    ),
    2: (
        ((1, 3, 6, 5), (1, 3, 3, 2), {"pool_size": [2, 2], "strides": [2, 2]}),
        ((1, 2, 7, 5), (1, 2, 4, 3), {"pool_size": 3, "strides": 2, "padding": [1, 1]}),
        ((2, 4, 3, 2), (2, 5, 4, 2), {"pool_size": 2, "layout": "NHWC", "padding": 1}),
        ((0, 2, 5, 4), (0, 2, 4, 3), {"pool_size": 2}),
    ),
    3: (
        (
            (1, 2, 3, 4, 3),
            (1, 2, 3, 2, 3),
            {"pool_size": [2, 2, 1], "strides": [1, 2, 1], "padding": [0, 0, 0, 1, 0, 0]},
        ),
    ),
}


def _rule(kind: str, ndim: int) -> Callable[[Inference], Type]:
    def infer(ctx: Inference) -> Type:
        grad, data = ctx.tensor(0), ctx.tensor(1)
        require_float(ctx, grad, data)
        ctx.same_dtype(grad, data)
        pooled = pool_rule(kind, ndim, data_at=1)(ctx)
        for k, (a, b) in enumerate(zip(grad.dims or (), pooled.dims or (), strict=False)):  # type: ignore[attr-defined]
            ctx.require_equal(a, b, f"sizes of the gradient and of the pool on axis {k}")
        return data

    return infer


def _reference(kind: str) -> Callable[..., Any]:
    """Window by window, in float64."""

    def reference(attrs: Any, grad: Any, data: Any) -> Any:
        if (
            grad.shape
            != pool_reference(kind)(attrs_of({**dict(attrs.items()), "count_include_pad": False}), data).shape
        ):
            raise ValueError("the gradient has another shape than the pool's result")
        ndim = data.ndim - 2
        letters = "NC" + spatial_letters(ndim)
        x, g = (numpy_layout(each, attrs.layout, letters).astype(np.float64) for each in (data, grad))
        before, after = pads(attrs.padding, ndim)
        size, step, space = (spread(v, ndim) for v in (attrs.pool_size, attrs.strides, attrs.dilation))
        found = np.zeros(x.shape)
        for at in np.ndindex(*g.shape[2:]):
            places = [
                [at[k] * step[k] - before[k] + t * space[k] for t in range(size[k])] for k in range(ndim)
            ]
            padded = [
                [p for p in ps if p < n + a] for ps, n, a in zip(places, x.shape[2:], after, strict=True)
            ]
            taps = [
                tap
                for tap in itertools.product(*places)
                if all(0 <= p < n for p, n in zip(tap, x.shape[2:], strict=True))
            ]
            here = g[(..., *at)]
            if kind == "avg":
                counted = bool(attrs.count_include_pad)
                count = int(np.prod([len(p) for p in padded])) if counted else len(taps)
                for tap in taps:
                    found[(..., *tap)] += here / max(1, count)
            elif taps:
                values = np.stack([x[(..., *tap)] for tap in taps])
                best = values.argmax(axis=0)
                for k, tap in enumerate(taps):
                    found[(..., *tap)] += np.where(best == k, here, 0)
        return numpy_layout(found, letters, attrs.layout).astype(data.dtype)

    return reference


def _declare(kind: str, ndim: int) -> None:
    letters, ones = "NC" + spatial_letters(ndim), (1,) * ndim
    counted = AttrSpec("count_include_pad", "bool", False, "the average is over padding too")
    lower = topi.avg_pool_grad if kind == "avg" else topi.max_pool_grad
    shape = (1, 1, *(4,) * ndim)
    declare_op(
        OpDef(
            name=f"nn.{kind}_pool{ndim}d_grad",
            inputs=(
                Input("grad", meaning="like the result of the pool"),
                Input("data", meaning="as the pool's"),
            ),
            attrs=(
                AttrSpec("pool_size", "ints", ones),
                AttrSpec("strides", "ints", ones),
                AttrSpec("padding", "ints", (0,) * ndim),
                AttrSpec("dilation", "ints", ones),
                AttrSpec("ceil_mode", "bool", False, "the pool kept a last, incomplete window"),
                *((counted,) if kind == "avg" else ()),
                *layout_attrs("layout", letters),
            ),
            doc=f"What the data of `nn.{kind}_pool{ndim}d` gets of a gradient of its result."
            + (" Of equal greatest elements the first gets it." if kind == "max" else ""),
            infer=_rule(kind, ndim),
            reference=_reference(kind),
            lower=lambda attrs, grad, data: lower(grad, data, attrs),
            layout=Without("the layout is an attribute"),
            samples=tuple(
                Sample((pooled, data), attrs if kind == "max" else {**attrs, "count_include_pad": k == 1})
                for k, (data, pooled, attrs) in enumerate(_ROWS[ndim])
            ),
            errors=(ErrorSample((shape, shape), {"pool_size": 2}, "R0203", "sizes of the gradient"),),
        )
    )


def declare() -> None:
    """Put the operators of this file into the table."""
    for kind in ("max", "avg"):
        for ndim in (1, 2, 3):
            _declare(kind, ndim)
