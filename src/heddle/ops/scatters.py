"""Operators that write at positions that tensors give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from heddle.graph.infer import Inference
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, declare_op
from heddle.ir.types import Type
from heddle.ops.indexing import CHECKED, LAYOUT, check_along, indices_in, random_floats
from heddle.ops.rules import require_int, require_ndim
from heddle.prim.checked_index import checked_positions
from heddle.prim.nodes import IntImm
from heddle.prim.ops import maximum
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
    with np.errstate(all="ignore"):
        for index, value in places:
            result[index] = _NUMPY_COMBINE[reduction](result[index], value)
            counts[index] += 1
    if reduction != "mean":
        return result
    return result // counts.astype(x.dtype) if x.dtype.kind in "iu" else (result / counts).astype(x.dtype)


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


def _infer_scatter_rows(ctx: Inference) -> Type:
    x, updates, first = ctx.tensor(0), ctx.tensor(1), ctx.tensor(2)
    if ctx.attrs.mode not in ("linear", "circular"):
        ctx.attr_error(f"mode must be linear or circular, got {ctx.attrs.mode!r}")
    ctx.same_dtype(x, updates)
    require_int(ctx, first, "first")
    require_ndim(ctx, first, 1, "first")
    if x.ndim < 0 or updates.ndim < 0:
        return x
    if x.ndim != updates.ndim:
        ctx.shape_error(f"data and updates differ in rank: {x.ndim} and {updates.ndim}")
    at = ctx.axis(int(ctx.attrs.axis), x.ndim)
    if at == 0:
        ctx.attr_error("axis 0 is that of the batch")
    if x.dims is None or updates.dims is None:
        return x
    for k, (a, b) in enumerate(zip(x.dims, updates.dims, strict=True)):
        if k == at:
            ctx.require_equal(a, maximum(a, b), f"rows of the data, at least those of updates, on axis {k}")
        else:
            ctx.require_equal(a, b, f"sizes of data and updates on axis {k}")
    if first.dims is not None:
        ctx.require_equal(x.dims[0], first.dims[0], "sizes of the batch and first")
    return x


def _np_scatter_rows(attrs: Any, x: Any, updates: Any, first: Any) -> Any:
    result = x.copy()
    target, rows = (np.moveaxis(array, attrs.axis, 1) for array in (result, updates))
    size = target.shape[1]
    if rows.shape[1] > size:
        raise ValueError("more rows than the data has")
    for b, start in enumerate(first.tolist()):
        for k in range(rows.shape[1]):
            place = (start + k) % size if attrs.mode == "circular" else start + k
            if 0 <= place < size:
                target[b, place] = rows[b, k]
    return result


def _rows(shape: tuple[int, ...], axis: int, count: int, mode: str) -> Sample:
    part = list(shape)
    part[axis] = count
    return Sample(
        (shape, tuple(part), shape[:1]),
        {"axis": axis, "mode": mode},
        ("float32", "float16", "int8"),
        lambda rng, dtype: (
            random_floats(rng, shape, dtype),
            random_floats(rng, tuple(part), dtype),
            rng.integers(-2, shape[axis] + 2, size=shape[0]),
        ),
    )


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


def _declare_rows() -> None:
    declare_op(
        OpDef(
            name="scatter_rows",
            inputs=(
                Input("data", meaning="(b, ..., s, ...): a tensor"),
                Input("updates", meaning="(b, ..., k, ...), k ≤ s: rows along the axis"),
                Input("first", meaning="(b,) integers: where the rows of each batch go"),
            ),
            attrs=(
                AttrSpec("axis", "int", -2, "the axis of the rows, not that of the batch"),
                AttrSpec("mode", "str", "linear", "linear or circular"),
            ),
            doc=(
                "The data with rows written from row first[b] of each batch b on, as a cache of keys and "
                "values takes them. Rows beyond the ends are left out; circular, they go on at the other end."
            ),
            infer=_infer_scatter_rows,
            reference=_np_scatter_rows,
            lower=lambda attrs, x, updates, first: scatter.scatter_rows(
                x, updates, first, int(attrs.axis), str(attrs.mode)
            ),
            layout=LAYOUT,
            samples=(
                _rows((2, 5, 3), 1, 2, "linear"),
                _rows((3, 2, 7, 4), -2, 3, "circular"),
                _rows((2, 4), 1, 4, "circular"),
                _rows((2, 3, 4), -1, 0, "linear"),
            ),
            errors=(
                ErrorSample(
                    ((2, 3, 4), (2, 4, 4), (2,)), {}, "R0203", "rows of the data", "float32,float32,int64"
                ),
                ErrorSample(
                    ((2, 3, 4), (2, 1, 5), (2,)),
                    {},
                    "R0203",
                    "sizes of data and updates on axis 2",
                    "float32,float32,int64",
                ),
                ErrorSample(
                    ((2, 3), (2, 3), (2,)), {"mode": "wrap"}, "R0205", "mode must be", "float32,float32,int64"
                ),
            ),
        )
    )


def declare() -> None:
    """Put the operators of this file into the table."""
    _declare_scatters()
    _declare_rows()
