"""Operators that make tensors from shapes and numbers, and triangles of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heddle.arith.sizes import as_dim
from heddle.graph.codes import R0202
from heddle.graph.infer import Inference
from heddle.graph.types import TensorType
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import PrimType, TupleType, Type
from heddle.ops.manipulate import target_shape, tuple_types
from heddle.ops.rules import unknown_dims
from heddle.prim.nodes import FloatImm, IntImm, PrimExpr, as_expr
from heddle.prim.values import convert
from heddle.runtime.dtype import DataType
from heddle.topi import create as topi
from heddle.topi import transform

_LAYOUT = Without("it has no data to lay out")
_SHAPE = Input("shape", "shape", "the shape of the result")
_LIKE = Input("x", meaning="gives the shape")
_FILL = Input("fill_value", meaning="a tensor of rank 0")


def _fill_dtype(ctx: Inference) -> DataType | None:
    fill = ctx.tensor(1)
    if fill.ndim > 0:
        ctx.shape_error(f"fill_value must have 0 dimensions, got {fill.ndim}")
    return fill.dtype


def _shaped(ctx: Inference, dtype: DataType | None) -> Type:
    dims = target_shape(ctx, 0)
    return TensorType(dims, dtype) if dims is not None else unknown_dims(dtype, ctx.type_of(0).ndim)  # type: ignore[attr-defined]


def _like(ctx: Inference, dtype: Any) -> Type:
    x = ctx.tensor(0)
    made = DataType(dtype) if dtype else x.dtype
    return TensorType(x.dims, made) if x.dims is not None else unknown_dims(made, x.ndim)


def _numpy(dtype: Any) -> Any:
    return DataType(dtype).numpy()


def _fill_sample(first: Any, attrs: dict[str, Any]) -> Sample:
    def make(rng: Any, dtype: str) -> tuple[Any, ...]:
        return first(rng, dtype), np.asarray(3).astype(dtype)

    return Sample(((), ()), attrs, ("float32", "int32"), make)


def _declare_fills() -> None:
    optional = AttrSpec("dtype", "dtype", None, "default: that of fill_value")
    declare_op(
        OpDef(
            name="full",
            inputs=(_SHAPE, _FILL),
            attrs=(optional,),
            doc="Every element is fill_value.",
            infer=lambda ctx: _shaped(
                ctx, DataType(ctx.attrs.dtype) if ctx.attrs.dtype else _fill_dtype(ctx)
            ),
            reference=lambda attrs, shape, v: np.full(
                shape, v, _numpy(attrs.dtype) if attrs.dtype else v.dtype
            ),
            lower=lambda attrs, shape, v: topi.full(shape, attrs.dtype or v.dtype, v),
            layout=_LAYOUT,
            samples=(
                _fill_sample(lambda rng, dtype: (3, 2), {}),
                _fill_sample(lambda rng, dtype: (), {"dtype": "float16"}),
            ),
            errors=(ErrorSample(((2,), (1,)), {}, "R0203", "fill_value must have 0 dimensions"),),
        )
    )
    declare_op(
        OpDef(
            name="full_like",
            inputs=(_LIKE, _FILL),
            attrs=(AttrSpec("dtype", "dtype", None, "default: that of x"),),
            doc="A tensor of x's shape, every element fill_value.",
            infer=lambda ctx: (_fill_dtype(ctx), _like(ctx, ctx.attrs.dtype))[1],
            reference=lambda attrs, x, v: np.full_like(x, v, _numpy(attrs.dtype) if attrs.dtype else x.dtype),
            lower=lambda attrs, x, v: topi.full(x.shape, attrs.dtype or x.dtype, v),
            layout=_LAYOUT,
            samples=(
                _fill_sample(lambda rng, dtype: np.zeros((3, 2), "float32"), {}),
                _fill_sample(lambda rng, dtype: np.zeros((0, 2), "int8"), {"dtype": "float64"}),
            ),
            errors=(ErrorSample(((2,), (1,)), {}, "R0203", "fill_value must have 0 dimensions"),),
        )
    )
    for name, value in (("zeros", 0), ("ones", 1)):
        declare_op(
            OpDef(
                name=name,
                inputs=(_SHAPE,),
                attrs=(AttrSpec("dtype", "dtype", meaning="the element type"),),
                doc=f"Every element is {value}.",
                infer=lambda ctx: _shaped(ctx, DataType(ctx.attrs.dtype)),
                reference=lambda attrs, shape, value=value: np.full(shape, value, _numpy(attrs.dtype)),
                lower=lambda attrs, shape, value=value: topi.full(shape, attrs.dtype, value),
                layout=_LAYOUT,
                samples=(
                    Sample(((3, 2),), {"dtype": "float32"}),
                    Sample(((),), {"dtype": "int64"}),
                    Sample(((0, 2),), {"dtype": "bool"}),
                ),
                errors=(ErrorSample(((2,),), {"dtype": "float31"}, "U0101", "unknown dtype"),),
            )
        )
        declare_op(
            OpDef(
                name=f"{name}_like",
                inputs=(_LIKE,),
                attrs=(AttrSpec("dtype", "dtype", None, "default: that of x"),),
                doc=f"A tensor of x's shape, every element {value}.",
                infer=lambda ctx: _like(ctx, ctx.attrs.dtype),
                reference=lambda attrs, x, value=value: np.full(
                    x.shape, value, _numpy(attrs.dtype) if attrs.dtype else x.dtype
                ),
                lower=lambda attrs, x, value=value: topi.full(x.shape, attrs.dtype or x.dtype, value),
                layout=_LAYOUT,
                samples=(
                    Sample(((3, 2),), dtypes=("float32", "int32")),
                    Sample(((3, 2),), {"dtype": "float16"}),
                ),
            )
        )


def _range_bounds(args: tuple[PrimExpr, ...]) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
    """Start, end and step; one argument is the end."""
    given = args if len(args) > 1 else (as_expr(0, "int64"), *args)
    return (*given, as_expr(1, "int64"))[:3] if len(given) == 2 else given  # type: ignore[return-value]


def _infer_arange(ctx: Inference) -> Type:
    for k in range(len(ctx.args)):
        if not isinstance(ctx.type_of(k), PrimType):
            ctx.fail(R0202, f"argument {k} must be a scalar, got {ctx.type_of(k)}")
    start, end, step = _range_bounds(ctx.args)  # type: ignore[arg-type]
    if isinstance(step, (IntImm, FloatImm)) and step.value == 0:
        ctx.attr_error("the step must not be 0")
    return TensorType((topi.range_length(start, end, step),), _range_dtype(ctx.attrs.dtype, ctx.args))


def _range_dtype(given: str | None, values: Sequence[Any]) -> DataType:
    """The dtype of `arange`: int64 if all numbers are integers, else float32."""
    if given is not None:
        return DataType(given)
    return DataType("float32" if any(as_expr(v).dtype.is_float for v in values) else "int64")


def _np_arange(attrs: Any, *values: Any) -> Any:
    start, end, step = values if len(values) == 3 else (*values, 1) if len(values) == 2 else (0, *values, 1)
    return convert(np.arange(start, end, step), _range_dtype(attrs.dtype, values))


def _declare_ranges() -> None:
    declare_op(
        OpDef(
            name="arange",
            inputs=(
                Input("start", "prim", "or the end, if alone"),
                Input("end", "prim", "", True),
                Input("step", "prim", "default 1", True),
            ),
            attrs=(
                AttrSpec("dtype", "dtype", None, "default: int64 if all numbers are integers, else float32"),
            ),
            doc="start, start + step, ... before end.",
            infer=_infer_arange,
            reference=_np_arange,
            lower=lambda attrs, *values: topi.arange(
                *_range_bounds(values), _range_dtype(attrs.dtype, values)
            ),
            layout=_LAYOUT,
            samples=(
                Sample((5,)),
                Sample((2, 9)),
                Sample((1, 10, 3), {"dtype": "float32"}),
                Sample((7, -2, -2), {"dtype": "int32"}),
                Sample((3, 3)),
                Sample((5, 2)),
                Sample((0.0, 1.0, 0.25), {"dtype": "float32"}),
                Sample((1, 10, 2.5)),
                Sample((1, 10, 2.5), {"dtype": "int32"}),
            ),
            errors=(ErrorSample((0, 3, 0), {}, "R0205", "must not be 0"),),
        )
    )
    declare_op(
        OpDef(
            name="eye",
            inputs=(Input("n", "prim", "rows"), Input("m", "prim", "columns; default n", True)),
            attrs=(AttrSpec("k", "int", 0, "the diagonal"), AttrSpec("dtype", "dtype", "float32")),
            doc="Ones on diagonal k, zeros elsewhere.",
            infer=lambda ctx: TensorType((as_dim(ctx.args[0]), as_dim(ctx.args[-1])), ctx.attrs.dtype),
            reference=lambda attrs, n, m=None: np.eye(n, m, attrs.k, _numpy(attrs.dtype)),
            lower=lambda attrs, n, m=None: topi.eye(n, n if m is None else m, int(attrs.k), attrs.dtype),
            layout=_LAYOUT,
            samples=(
                Sample((3,)),
                Sample((2, 5), {"k": 1, "dtype": "int32"}),
                Sample((4, 3), {"k": -2}),
                Sample((2, 3), {"k": 7, "dtype": "bool"}),
            ),
            errors=(ErrorSample((3,), {"dtype": "float31"}, "U0101", "unknown dtype"),),
        )
    )
    declare_op(
        OpDef(
            name="eye_like",
            inputs=(Input("x", meaning="a matrix"),),
            attrs=(
                AttrSpec("k", "int", 0, "the diagonal"),
                AttrSpec("dtype", "dtype", None, "default: that of x"),
            ),
            doc="A matrix of x's shape with ones on diagonal k, zeros elsewhere.",
            infer=_infer_eye_like,
            reference=lambda attrs, x: np.eye(
                x.shape[0], x.shape[1], attrs.k, _numpy(attrs.dtype) if attrs.dtype else x.dtype
            ),
            lower=lambda attrs, x: topi.eye(x.shape[0], x.shape[1], int(attrs.k), attrs.dtype or x.dtype),
            layout=_LAYOUT,
            samples=(Sample(((3, 5),)), Sample(((2, 2),), {"k": 1, "dtype": "int64"})),
            errors=(ErrorSample(((3,),), {}, "R0203", "must have 2 dimensions"),),
        )
    )


def _infer_eye_like(ctx: Inference) -> Type:
    if ctx.tensor(0).ndim not in (-1, 2):
        ctx.shape_error(f"x must have 2 dimensions, got {ctx.tensor(0).ndim}")
    return _like(ctx, ctx.attrs.dtype)


def _infer_triangle(ctx: Inference) -> Type:
    x = ctx.tensor(0)
    if 0 <= x.ndim < 2:
        ctx.shape_error(f"x must have at least 2 dimensions, got {x.ndim}")
    return x


def _infer_meshgrid(ctx: Inference) -> Type:
    types = tuple_types(ctx)
    dtype = ctx.same_dtype(*types)
    if ctx.attrs.indexing not in ("ij", "xy"):
        ctx.attr_error(f"indexing must be ij or xy, got {ctx.attrs.indexing!r}")
    if any(ty.ndim > 1 for ty in types):
        ctx.shape_error("meshgrid takes tensors of at most 1 dimension")
    if any(ty.dims is None for ty in types):
        return TupleType((unknown_dims(dtype, len(types)),) * len(types))
    sizes = [ty.dims[0] if ty.dims else as_dim(1) for ty in types]
    if ctx.attrs.indexing == "xy" and len(sizes) > 1:
        sizes[0], sizes[1] = sizes[1], sizes[0]
    return TupleType((TensorType(tuple(sizes), dtype),) * len(types))


def _declare_triangles() -> None:
    for name, upper, function in (("tril", False, np.tril), ("triu", True, np.triu)):
        declare_op(
            OpDef(
                name=name,
                inputs=(
                    Input("x", meaning="(..., n, m)"),
                    Input("k", "prim", "the diagonal; default 0", True),
                ),
                attrs=(),
                doc=(
                    f"The triangle on and {'above' if upper else 'below'} diagonal k of the last two "
                    f"axes, zeros elsewhere."
                ),
                infer=_infer_triangle,
                reference=lambda attrs, x, k=0, function=function: function(x, int(k)),
                lower=lambda attrs, x, k=0, upper=upper: transform.trilu(x, k, upper),
                layout=Without("of the last two axes"),
                samples=(
                    Sample(((3, 5),)),
                    Sample(((2, 4, 3), 1), dtypes=("float32", "int32")),
                    Sample(((4, 4), -2), dtypes=("bool", "float16")),
                    Sample(((0, 3),)),
                ),
                errors=(ErrorSample(((3,),), {}, "R0203", "at least 2 dimensions"),),
            )
        )
    declare_op(
        OpDef(
            name="meshgrid",
            inputs=(Input("tensors", "tensors", "vectors"),),
            attrs=(AttrSpec("indexing", "str", "ij", "ij or xy"),),
            doc="A grid of vectors: output k varies along axis k; `xy` swaps the first two axes.",
            infer=_infer_meshgrid,
            reference=lambda attrs, xs: tuple(a.copy() for a in np.meshgrid(*xs, indexing=attrs.indexing)),
            lower=lambda attrs, xs: transform.meshgrid(xs, str(attrs.indexing)),
            layout=_LAYOUT,
            samples=(
                Sample((((3,), (5,)),)),
                Sample((((3,), (5,), (2,)),), {"indexing": "xy"}),
                Sample((((4,),),)),
            ),
            errors=(
                ErrorSample((((3,), (2, 2)),), {}, "R0203", "at most 1 dimension"),
                ErrorSample((((3,),),), {"indexing": "yx"}, "R0205", "indexing must be ij or xy"),
            ),
        )
    )


def declare() -> None:
    """Put the operators of this file into the table."""
    _declare_fills()
    _declare_ranges()
    _declare_triangles()
