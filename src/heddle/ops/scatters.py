"""Operators that write at positions that tensors give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from heddle.graph.infer import Inference
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, declare_op
from heddle.ir.types import Type
from heddle.ops.indexing import CHECKED, LAYOUT, check_along, indices_in, random_floats
from heddle.ops.rules import require_int
from heddle.prim.checked_index import checked_positions
from heddle.prim.nodes import IntImm
from heddle.topi import scatter

_REDUCTIONS = (*scatter.REDUCTIONS, "mean")


def _check_reduction(ctx: Inference) -> None:
    if ctx.attrs.reduction not in _REDUCTIONS:
        ctx.attr_error(f"reduction must be one of {', '.join(_REDUCTIONS)}, got {ctx.attrs.reduction!r}")


def _infer_scatter_elements(ctx: Inference) -> Type:
    x, indices, updates = ctx.tensor(0), ctx.tensor(1), ctx.tensor(2)
    _check_reduction(ctx)
    check_along(ctx, x, indices, int(ctx.attrs.axis))
    ctx.same_dtype(x, updates)
    for k, (a, b) in enumerate(zip(indices.dims or (), updates.dims or (), strict=False)):
        ctx.require_equal(a, b, f"sizes of indices and updates on axis {k}")
    return x


def _infer_scatter_nd(ctx: Inference) -> Type:
    x, indices, updates = ctx.tensor(0), ctx.tensor(1), ctx.tensor(2)
    _check_reduction(ctx)
    require_int(ctx, indices, "indices")
    ctx.same_dtype(x, updates)
    if x.dims is None or indices.dims is None or updates.dims is None:
        return x
    depth = indices.dims[-1] if indices.dims else None
    if isinstance(depth, IntImm):
        if depth.value > x.ndim:
            ctx.shape_error(f"index vectors of {depth} numbers do not fit data of {x.ndim} dimensions")
        wanted = (*indices.dims[:-1], *x.dims[depth.value :])
        if len(wanted) != updates.ndim:
            ctx.shape_error(f"updates must have {len(wanted)} dimensions, got {updates.ndim}")
        for k, (a, b) in enumerate(zip(wanted, updates.dims, strict=True)):
            ctx.require_equal(a, b, f"sizes of updates on axis {k}")
    return x


_NUMPY_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "update": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "min": min,
    "max": max,
    "mean": lambda old, new: old + new,
}


def _np_scatter(x: Any, reduction: str, places: Any) -> Any:
    """Updates one after the other."""
    result, counts = x.copy(), np.ones(x.shape, np.int64)
    for index, value in places:
        result[index] = _NUMPY_COMBINE[reduction](result[index], value)
        counts[index] += 1
    return (result / counts).astype(x.dtype) if reduction == "mean" else result


def _np_scatter_elements(attrs: Any, x: Any, indices: Any, updates: Any) -> Any:
    axis = attrs.axis % x.ndim
    positions = checked_positions(indices, x.shape[axis])
    places = (
        ((*point[:axis], positions[point], *point[axis + 1 :]), updates[point])
        for point in np.ndindex(*indices.shape)
    )
    return _np_scatter(x, attrs.reduction, places)


def _np_scatter_nd(attrs: Any, x: Any, indices: Any, updates: Any) -> Any:
    outer = indices.ndim - 1
    columns = [
        checked_positions(i, size) for i, size in zip(np.moveaxis(indices, -1, 0), x.shape, strict=False)
    ]
    places = (
        ((*(column[point[:outer]] for column in columns), *point[outer:]), updates[point])
        for point in np.ndindex(*updates.shape)
    )
    return _np_scatter(x, attrs.reduction, places)


def _along(shape: tuple[int, ...], index: tuple[int, ...], axis: int, reduction: str) -> Sample:
    return Sample(
        (shape, index, index),
        {"axis": axis, "reduction": reduction},
        ("float32",),
        lambda rng, dtype: (
            random_floats(rng, shape, dtype),
            indices_in(rng, index, shape[axis]),
            random_floats(rng, index, dtype),
        ),
    )


def _vectors(shape: tuple[int, ...], index: tuple[int, ...], reduction: str) -> Sample:
    def make(rng: Any, dtype: str) -> tuple[Any, ...]:
        columns = np.stack([indices_in(rng, index[:-1], shape[k]) for k in range(index[-1])], -1)
        return (
            random_floats(rng, shape, dtype),
            columns,
            random_floats(rng, (*index[:-1], *shape[index[-1] :]), dtype),
        )

    return Sample((shape, index, ()), {"reduction": reduction}, ("float32",), make)


def _declare_scatters() -> None:
    attr = AttrSpec("reduction", "str", "update", "update, add, mul, min, max or mean")
    doc = f"Updates are applied in order. {CHECKED}"
    declare_op(
        OpDef(
            name="scatter_elements",
            inputs=(
                Input("data", meaning="a tensor"),
                Input("indices", meaning="integers"),
                Input("updates", meaning="as many values"),
            ),
            attrs=(AttrSpec("axis", "int", 0), attr),
            doc=(
                f"The data with data[indices[i][j]][j] = updates[i][j] for axis 0 of rank 2, and so on. {doc}"
            ),
            infer=_infer_scatter_elements,
            reference=_np_scatter_elements,
            lower=lambda attrs, x, i, u: scatter.scatter_elements(
                x, i, u, int(attrs.axis), str(attrs.reduction)
            ),
            layout=LAYOUT,
            samples=(
                _along((5, 3), (4, 3), 0, "update"),
                _along((3, 7), (3, 5), -1, "add"),
                _along((3, 5), (2, 4), 1, "mul"),
                _along((4, 3), (5, 3), 0, "max"),
                _along((4, 3), (5, 2), 0, "min"),
                _along((2, 3), (5, 3), 0, "mean"),
            ),
            errors=(
                ErrorSample(
                    ((2, 3), (2, 3), (2, 2)),
                    {},
                    "R0203",
                    "sizes of indices and updates",
                    "float32,int64,float32",
                ),
                ErrorSample(
                    ((2, 3), (2, 3), (2, 3)),
                    {"reduction": "sub"},
                    "R0205",
                    "reduction must be",
                    "float32,int64,float32",
                ),
            ),
        )
    )
    declare_op(
        OpDef(
            name="scatter_nd",
            inputs=(
                Input("data", meaning="a tensor"),
                Input("indices", meaning="(..., m): index vectors"),
                Input("updates", meaning="slices"),
            ),
            attrs=(attr,),
            doc=f"The data with slices at index vectors replaced or joined by updates. {doc}",
            infer=_infer_scatter_nd,
            reference=_np_scatter_nd,
            lower=lambda attrs, x, i, u: scatter.scatter_nd(x, i, u, str(attrs.reduction)),
            layout=LAYOUT,
            samples=(
                _vectors((5, 3), (4, 1), "update"),
                _vectors((5, 3), (2, 2, 1), "add"),
                _vectors((4,), (3, 1), "mul"),
            ),
            errors=(
                ErrorSample(
                    ((2, 3), (2, 3), (2,)),
                    {},
                    "R0203",
                    "do not fit data of 2 dimensions",
                    "float32,int64,float32",
                ),
                ErrorSample(
                    ((5, 3), (4, 1), (4, 2)),
                    {},
                    "R0203",
                    "sizes of updates on axis 1",
                    "float32,int64,float32",
                ),
            ),
        )
    )


def declare() -> None:
    """Put the operators of this file into the table."""
    _declare_scatters()
