"""Operators that read at positions that tensors give, and those that take a tuple of index tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.arith.sizes import as_dim, product
from heddle.graph.codes import R0202
from heddle.graph.infer import Inference
from heddle.graph.types import TensorType
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import PrimType, Type
from heddle.ops.manipulate import tuple_types
from heddle.ops.rules import broadcast_dims, require_int, unknown_dims, wide_indices, wrapped_indices
from heddle.prim.checked_index import checked_positions
from heddle.prim.nodes import IntImm, PrimExpr
from heddle.prim.ops import minimum
from heddle.runtime.dtype import DataType
from heddle.topi import index as topi
from heddle.topi import scatter

LAYOUT = Without("axes are attributes")
_MODES = ("fast", "wrap", "clip", "nan")
X = Input("x", meaning="a tensor")
CHECKED = "Negative indices count from the end; one out of range is an error (U1001)."


def indices_in(rng: Any, shape: tuple[int, ...], size: int, dtype: str = "int64") -> Any:
    """Random valid positions, negative ones among them."""
    return np.asarray(rng.integers(-size, size, size=shape)).astype(dtype)


def random_floats(rng: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Random whole numbers from -8 to 8, which sums and products of a few keep exactly."""
    return np.asarray(rng.integers(-8, 9, size=shape)).astype(dtype)


def _infer_take(ctx: Inference) -> Type:
    x, indices, axis = ctx.tensor(0), ctx.tensor(1), ctx.attrs.axis
    require_int(ctx, indices, "indices")
    if ctx.attrs.mode not in _MODES:
        ctx.attr_error(f"mode must be one of {', '.join(_MODES)}, got {ctx.attrs.mode!r}")
    if ctx.attrs.mode == "nan" and x.dtype is not None and not x.dtype.is_float:
        ctx.attr_error(f"mode 'nan' needs floats, got {x.dtype}")
    moves = ctx.attrs.mode in ("wrap", "clip")  # to an element that there must be
    if axis is None:
        if indices.dims is None:
            return unknown_dims(x.dtype, indices.ndim)
        if x.dims is not None and moves:
            ctx.require_elements(product(x.dims), indices.dims, "data")
        return TensorType(indices.dims, x.dtype)
    if x.ndim < 0 or indices.ndim < 0:
        return unknown_dims(x.dtype)
    at = ctx.axis(int(axis), x.ndim)
    if x.dims is None or indices.dims is None:
        return unknown_dims(x.dtype, x.ndim + indices.ndim - 1)
    if moves:
        ctx.require_elements(x.dims[at], (*indices.dims, *x.dims[:at], *x.dims[at + 1 :]), f"axis {at}")
    return TensorType((*x.dims[:at], *indices.dims, *x.dims[at + 1 :]), x.dtype)


def _np_take(attrs: Any, x: Any, indices: Any) -> Any:
    axis, mode = attrs.axis, attrs.mode
    size = x.size if axis is None else x.shape[axis]
    if mode == "wrap":  # numpy's own modes are slow, and know no uint64
        return np.asarray(np.take(x, wrapped_indices(indices, size), axis))
    if mode == "clip":
        return np.asarray(np.take(x, wide_indices(indices).clip(0, max(size - 1, 0)), axis))
    if mode == "nan":
        flat = x.reshape(-1) if axis is None else np.moveaxis(x, axis, 0)
        wide = wide_indices(indices)
        inside = (wide >= -size) & (wide < size)
        flat = flat if size else np.zeros((1, *flat.shape[1:]), x.dtype)
        taken = np.asarray(np.take(flat, np.where(inside, wide, 0), 0))
        taken[~inside] = np.nan
        at = 0 if axis is None else axis % x.ndim
        return np.moveaxis(taken, list(range(indices.ndim)), list(range(at, at + indices.ndim)))
    return np.asarray(np.take(x, checked_positions(indices, size), axis))


def _declare_take() -> None:
    def sample(
        shape: tuple[int, ...],
        index: tuple[int, ...],
        attrs: dict[str, Any],
        reach: float = 1,
        index_dtype: str = "int64",
    ) -> Sample:
        size = int(np.prod(shape)) if attrs.get("axis") is None else shape[attrs["axis"]]

        def make(rng: Any, dtype: str) -> tuple[Any, ...]:
            return random_floats(rng, shape, dtype), indices_in(rng, index, int(size * reach), index_dtype)

        return Sample(
            (shape, index),
            attrs,
            ("float32", "float16", "bfloat16", "int8") if attrs == {"axis": 0} else ("float32",),
            make,
        )

    declare_op(
        OpDef(
            name="take",
            inputs=(X, Input("indices", meaning="integers of any rank")),
            attrs=(
                AttrSpec("axis", "int", None, "None flattens x"),
                AttrSpec("mode", "str", "fast", "fast, wrap, clip or nan"),
            ),
            doc=(
                "Slices of x along an axis. `fast` counts negative indices from the end; one out of range is "
                "an error (U1001). `wrap` takes indices modulo the size, `clip` the nearest valid one: the "
                "axis must have elements where there are indices. `nan` gives NaN for those out of range."
            ),
            infer=_infer_take,
            reference=_np_take,
            lower=lambda attrs, x, i: topi.take(
                x, i, None if attrs.axis is None else int(attrs.axis), str(attrs.mode)
            ),
            layout=LAYOUT,
            samples=(
                sample((5, 3), (4,), {"axis": 0}),
                sample((5, 3), (6,), {"axis": 1}),
                sample((3, 7), (2, 2), {"axis": -1}, index_dtype="int32"),
                sample((3, 7), (), {"axis": 1}),
                sample((3, 5), (2,), {}),
                sample((7,), (3,), {}),
                sample((3, 5), (6,), {"axis": 1, "mode": "wrap"}, 3),
                sample((3, 5), (6,), {"axis": 0, "mode": "clip"}, 3),
                sample((5, 3), (7,), {"axis": 0, "mode": "nan"}, 3),
            ),
            errors=(
                ErrorSample(((2, 3), (2,)), {"axis": 0}, "R0204", "indices must be integers"),
                ErrorSample(((2, 3), (2,)), {"axis": 2}, "R0205", "axis 2 is out of range", "float32,int64"),
                ErrorSample(
                    ((2, 3), (2,)),
                    {"axis": 0, "mode": "far"},
                    "R0205",
                    "mode must be one of",
                    "float32,int64",
                ),
            ),
        )
    )


def check_along(ctx: Inference, x: TensorType, indices: TensorType, axis: int) -> None:
    """Tensors of one rank that agree but on an axis."""
    require_int(ctx, indices, "indices")
    if -1 in (x.ndim, indices.ndim):
        return
    if x.ndim != indices.ndim:
        ctx.shape_error(f"data and indices differ in rank: {x.ndim} and {indices.ndim}")
    at = ctx.axis(axis, x.ndim)
    for k, (a, b) in enumerate(zip(x.dims or (), indices.dims or (), strict=False)):
        if k == at:
            continue
        if isinstance(a, IntImm) and isinstance(b, IntImm) and b.value > a.value:
            ctx.shape_error(f"indices reach beyond the data on axis {k}: size {b} against {a}")
        ctx.assume_equal(minimum(a, b), b)


def _infer_gather_elements(ctx: Inference) -> Type:
    x, indices = ctx.tensor(0), ctx.tensor(1)
    check_along(ctx, x, indices, int(ctx.attrs.axis))
    return (
        TensorType(indices.dims, x.dtype) if indices.dims is not None else unknown_dims(x.dtype, indices.ndim)
    )


def _infer_gather_nd(ctx: Inference) -> Type:
    x, indices, batch = ctx.tensor(0), ctx.tensor(1), int(ctx.attrs.batch_dims)
    require_int(ctx, indices, "indices")
    if x.dims is None or indices.dims is None:
        return unknown_dims(x.dtype)
    if indices.ndim < 1 or batch < 0 or batch > min(x.ndim, indices.ndim - 1):
        ctx.attr_error(f"batch_dims {batch} is out of range for {x.ndim} and {indices.ndim} dimensions")
    depth = indices.dims[-1]
    if not isinstance(depth, IntImm):
        return unknown_dims(x.dtype)
    if batch + depth.value > x.ndim:
        ctx.shape_error(f"index vectors of {depth} numbers do not fit data of {x.ndim} dimensions")
    for k in range(batch):
        ctx.require_equal(x.dims[k], indices.dims[k], f"sizes of data and indices on axis {k}")
    return TensorType((*indices.dims[:-1], *x.dims[batch + depth.value :]), x.dtype)


def _np_gather_nd(attrs: Any, x: Any, indices: Any) -> Any:
    batch = int(attrs.batch_dims)
    grids = np.indices(indices.shape[:-1])[:batch]
    positions = [checked_positions(i, x.shape[batch + k]) for k, i in enumerate(np.moveaxis(indices, -1, 0))]
    shape = (*indices.shape[:-1], *x.shape[batch + len(positions) :])  # also of vectors without numbers
    return np.broadcast_to(x[(*grids, *positions)], shape).copy()


def _declare_gathers() -> None:
    def along(shape: tuple[int, ...], index: tuple[int, ...], axis: int) -> Sample:
        return Sample(
            (shape, index),
            {"axis": axis},
            ("float32",),
            lambda rng, dtype: (random_floats(rng, shape, dtype), indices_in(rng, index, shape[axis])),
        )

    declare_op(
        OpDef(
            name="gather_elements",
            inputs=(
                Input("data", meaning="a tensor"),
                Input("indices", meaning="integers of the data's rank"),
            ),
            attrs=(AttrSpec("axis", "int", 0),),
            doc=f"result[i][j] = data[indices[i][j]][j] for axis 0 of rank 2, and so on. {CHECKED}",
            infer=_infer_gather_elements,
            reference=lambda attrs, x, i: np.take_along_axis(
                x[
                    tuple(
                        slice(None) if k == attrs.axis % x.ndim else slice(n) for k, n in enumerate(i.shape)
                    )
                ],
                checked_positions(i, x.shape[attrs.axis]),
                attrs.axis,
            ),
            lower=lambda attrs, x, i: topi.gather_elements(x, i, int(attrs.axis)),
            layout=LAYOUT,
            samples=(along((5, 3), (2, 3), 0), along((3, 7), (3, 4), -1), along((3, 5), (2, 4), 1)),
            errors=(
                ErrorSample(((2, 3), (2,)), {}, "R0203", "differ in rank", "float32,int64"),
                ErrorSample(((2, 3), (2, 4)), {}, "R0203", "indices reach beyond", "float32,int64"),
            ),
        )
    )

    def vectors(shape: tuple[int, ...], index: tuple[int, ...], batch: int) -> Sample:
        def make(rng: Any, dtype: str) -> tuple[Any, ...]:
            columns = [indices_in(rng, index[:-1], shape[batch + k]) for k in range(index[-1])]
            return random_floats(rng, shape, dtype), np.stack(columns, -1) if columns else np.zeros(
                index, "int64"
            )

        return Sample((shape, index), {"batch_dims": batch}, ("float32",), make)

    declare_op(
        OpDef(
            name="gather_nd",
            inputs=(Input("data", meaning="a tensor"), Input("indices", meaning="(..., m): index vectors")),
            attrs=(AttrSpec("batch_dims", "int", 0, "leading axes that data and indices share"),),
            doc=f"Slices of the data at index vectors. {CHECKED}",
            infer=_infer_gather_nd,
            reference=_np_gather_nd,
            lower=lambda attrs, x, i: topi.gather_nd(x, i, int(attrs.batch_dims)),
            layout=LAYOUT,
            samples=(
                vectors((5, 3, 2), (4, 1), 0),
                vectors((5, 3), (2, 2, 1), 0),
                vectors((2, 3, 5), (2, 4, 1), 1),
                vectors((2, 3), (4, 0), 0),
            ),
            errors=(
                ErrorSample(
                    ((2, 3), (2, 3)), {}, "R0203", "do not fit data of 2 dimensions", "float32,int64"
                ),
                ErrorSample(
                    ((2, 3), (2, 1)),
                    {"batch_dims": 2},
                    "R0205",
                    "batch_dims 2 is out of range",
                    "float32,int64",
                ),
            ),
        )
    )


def _index_types(ctx: Inference, x: TensorType) -> tuple[PrimExpr, ...] | None:
    """The broadcast shape of a tuple of index tensors."""
    types = tuple_types(ctx, 1)
    for ty in types:
        require_int(ctx, ty, "indices")
    if 0 <= x.ndim < len(types):
        ctx.shape_error(f"{len(types)} index tensors do not fit data of {x.ndim} dimensions")
    return broadcast_dims(ctx, *types)


def _infer_index_put(ctx: Inference) -> Type:
    x, values = ctx.tensor(0), ctx.tensor(2)
    ctx.same_dtype(x, values)
    shape = _index_types(ctx, x)
    if shape is not None and x.dims is not None and values.dims is not None:
        points = (*shape, *x.dims[len(tuple_types(ctx, 1)) :])
        if values.ndim > len(points):
            ctx.shape_error(f"values must have at most {len(points)} dimensions, got {values.ndim}")
        broadcast_dims(ctx, TensorType(points, x.dtype), values)
    return x


def _infer_index_tensor(ctx: Inference) -> Type:
    x = ctx.tensor(0)
    shape = _index_types(ctx, x)
    if shape is None or x.dims is None:
        return unknown_dims(x.dtype)
    return TensorType((*shape, *x.dims[len(tuple_types(ctx, 1)) :]), x.dtype)


def _np_index_put(attrs: Any, x: Any, indices: Any, values: Any) -> Any:
    result = x.copy()
    positions = tuple(checked_positions(i, size) for i, size in zip(indices, x.shape, strict=False))
    if attrs.accumulate:
        np.add.at(result, positions, values)
    else:
        result[positions] = values
    return result


def _declare_index_tuples() -> None:
    def sample(
        shape: tuple[int, ...],
        index: tuple[tuple[int, ...], ...],
        values: tuple[int, ...] | None,
        accumulate: bool = False,
    ) -> Sample:
        def make(rng: Any, dtype: str) -> tuple[Any, ...]:
            positions = tuple(indices_in(rng, i, shape[k]) for k, i in enumerate(index))
            rest = () if values is None else (random_floats(rng, values, dtype),)
            return (random_floats(rng, shape, dtype), positions, *rest)

        return Sample(
            (shape, index, values), {} if values is None else {"accumulate": accumulate}, ("float32",), make
        )

    positions = Input("indices", "tensors", "index tensors that broadcast, one for each of the first axes")
    declare_op(
        OpDef(
            name="index_put",
            inputs=(
                Input("data", meaning="a tensor"),
                positions,
                Input("values", meaning="broadcasts to the slices"),
            ),
            attrs=(AttrSpec("accumulate", "bool", False, "add instead of replacing"),),
            doc=(f"The data with data[indices[0], indices[1], ...] replaced by values, in order. {CHECKED}"),
            infer=_infer_index_put,
            reference=_np_index_put,
            lower=lambda attrs, x, i, v: scatter.index_put(x, i, v, bool(attrs.accumulate)),
            layout=LAYOUT,
            samples=(
                sample((5, 3), ((4,), (4,)), (4,)),
                sample((5, 3), ((2,),), (2, 3), True),
                sample((5, 3), ((2, 1), (4,)), (), True),
            ),
            errors=(
                ErrorSample(((3,), ((2,), (2,)), (2,)), {}, "R0204", "indices must be integers", "float32"),
            ),
        )
    )
    declare_op(
        OpDef(
            name="index_tensor",
            inputs=(Input("data", meaning="a tensor"), positions),
            attrs=(),
            doc=(f"data[indices[0], indices[1], ...], as numpy's indexing with arrays. {CHECKED}"),
            infer=_infer_index_tensor,
            reference=lambda attrs, x, indices: x[
                tuple(checked_positions(i, size) for i, size in zip(indices, x.shape, strict=False))
            ],
            lower=lambda attrs, x, i: topi.index_tensor(x, i),
            layout=LAYOUT,
            samples=(
                sample((5, 3), ((4,), (4,)), None),
                sample((5, 3, 2), ((2, 1), (4,)), None),
                sample((5, 3), ((),), None),
            ),
            errors=(ErrorSample(((3,), ((2,), (2,))), {}, "R0204", "indices must be integers"),),
        )
    )


def _infer_one_hot(ctx: Inference) -> Type:
    indices = ctx.tensor(0)
    require_int(ctx, indices, "indices")
    kinds = [ctx.type_of(1), ctx.type_of(2)]
    if not all(isinstance(kind, PrimType) for kind in kinds):
        ctx.fail(R0202, "on_value and off_value must be scalars")
    dtype = DataType(kinds[0].dtype)  # type: ignore[attr-defined]
    if indices.dims is None:
        return unknown_dims(dtype, indices.ndim + 1 if indices.ndim >= 0 else -1)
    axis = ctx.axis(int(ctx.attrs.axis), indices.ndim + 1)
    if int(ctx.attrs.depth) < 0:
        ctx.attr_error(f"depth must be at least 0, got {ctx.attrs.depth}")
    return TensorType((*indices.dims[:axis], as_dim(ctx.attrs.depth), *indices.dims[axis:]), dtype)


def _np_one_hot(attrs: Any, indices: Any, on_value: Any, off_value: Any) -> Any:
    axis, depth = attrs.axis % (indices.ndim + 1), int(attrs.depth)
    hot = np.expand_dims(np.where(indices < 0, indices + depth, indices), axis)
    shape = [1] * hot.ndim
    shape[axis] = depth
    dtype = "float32" if isinstance(on_value, float) else "int64"
    return np.where(hot == np.arange(depth).reshape(shape), on_value, off_value).astype(dtype)


def _declare_one_hot() -> None:
    def sample(shape: tuple[int, ...], on: Any, off: Any, attrs: dict[str, Any]) -> Sample:
        return Sample(
            (shape, on, off),
            attrs,
            ("int64", "int32"),
            lambda rng, dtype: (indices_in(rng, shape, attrs["depth"], dtype), on, off),
        )

    declare_op(
        OpDef(
            name="one_hot",
            inputs=(
                Input("indices", meaning="integers"),
                Input("on_value", "prim", "gives the element type"),
                Input("off_value", "prim"),
            ),
            attrs=(AttrSpec("depth", "int"), AttrSpec("axis", "int", -1, "the new axis")),
            doc=(
                "on_value at the index along a new axis of size `depth`, off_value elsewhere. "
                "Negative indices count from the end; one out of range gives off_value everywhere."
            ),
            infer=_infer_one_hot,
            reference=_np_one_hot,
            lower=lambda attrs, i, on, off: topi.one_hot(
                i, on, off, attrs.depth, int(attrs.axis), str(on.dtype)
            ),
            layout=LAYOUT,
            samples=(
                sample((5,), 1.0, 0.0, {"depth": 7}),
                sample((2, 3), 5, -1, {"depth": 3, "axis": 1}),
                sample((), 1.0, 0.5, {"depth": 4}),
            ),
            errors=(
                ErrorSample(
                    ((3,), 1.0, 0.0), {"depth": 3, "axis": 2}, "R0205", "axis 2 is out of range", "int64"
                ),
            ),
        )
    )


def declare() -> None:
    """Put the operators of this file into the table."""
    _declare_take()
    _declare_gathers()
    _declare_index_tuples()
    _declare_one_hot()
