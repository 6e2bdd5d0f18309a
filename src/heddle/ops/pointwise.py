"""Elementwise operators with scalar arguments, of three tensors, with a bool result, and of bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.graph.codes import R0204
from heddle.graph.infer import Inference
from heddle.graph.types import TensorType
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, declare_op
from heddle.ir.types import Type
from heddle.ops.elementwise import ANY_LAYOUT, FLOATS, random_array, random_values
from heddle.ops.rules import broadcast_type, same_as_input, unknown_dims
from heddle.prim import intrinsics, ops
from heddle.prim.values import convert
from heddle.runtime.dtype import DataType, dtype_of
from heddle.topi import math
from heddle.topi.broadcast import elementwise

_X = (Input("x", meaning="a tensor"),)
_SHAPES = ((3, 7), (), (0, 4), (33,))


def _clip_sample(shape: tuple[int, ...], low: float, high: float) -> Sample:
    return Sample(
        (shape, low, high),
        dtypes=("float32", "int32"),
        make=lambda rng, dtype: (random_array(rng, shape, dtype), low, high),
    )


def _declare_clip() -> None:
    declare_op(
        OpDef(
            name="clip",
            inputs=(
                *_X,
                Input("min", "prim", "the least value of the result"),
                Input("max", "prim", "the greatest"),
            ),
            attrs=(),
            doc=(
                "Elementwise min(max(x, min), max), so max where the bounds are in the wrong order; they are "
                "converted to x's element type. NaN, in x or as a bound, gives NaN."
            ),
            infer=same_as_input,
            reference=lambda attrs, x, low, high: np.clip(
                x, convert(low, dtype_of(x)), convert(high, dtype_of(x))
            ).astype(x.dtype),
            lower=lambda _attrs, x, low, high: math.clip(x, low, high),
            layout=ANY_LAYOUT,
            samples=(*(_clip_sample(shape, -1, 2) for shape in _SHAPES), _clip_sample((9,), 2, -1)),
        )
    )


def _infer_where(ctx: Inference) -> Type:
    condition, x, y = ctx.tensor(0), ctx.tensor(1), ctx.tensor(2)
    if condition.dtype is not None and not condition.dtype.is_bool:
        ctx.fail(R0204, f"the condition must be bool, got {condition.dtype}", "compare it with zero")
    return broadcast_type(ctx, ctx.same_dtype(x, y), condition, x, y)


def _declare_where() -> None:
    triples = (((3, 7), (3, 7), (3, 7)), ((5, 1, 1), (3, 1), (4,)), ((), (2, 3), (1,)), ((0, 3), (3,), ()))

    def make(triple: Any) -> Any:
        return lambda rng, dtype: (
            random_array(rng, triple[0], "bool"),
            *(random_array(rng, shape, dtype) for shape in triple[1:]),
        )

    declare_op(
        OpDef(
            name="where",
            inputs=(
                Input("condition", meaning="a bool tensor"),
                Input("x1", meaning="where it holds"),
                Input("x2", meaning="elsewhere"),
            ),
            attrs=(),
            doc="Elements of x1 where the condition holds, of x2 elsewhere; shapes broadcast.",
            infer=_infer_where,
            reference=lambda attrs, condition, x, y: np.where(condition, x, y),
            lower=lambda attrs, condition, x, y: elementwise(ops.select, condition, x, y, name="where"),
            layout=ANY_LAYOUT,
            samples=tuple(
                Sample(triple, dtypes=("float32", "int64", "bool"), make=make(triple)) for triple in triples
            ),
            errors=(ErrorSample(((2,), (2,), (2,)), {}, "R0204", "condition must be bool"),),
        )
    )


def _infer_astype(ctx: Inference) -> Type:
    ty = ctx.tensor(0)
    dtype = DataType(ctx.attrs.dtype)
    return TensorType(ty.dims, dtype) if ty.dims is not None else unknown_dims(dtype, ty.ndim)


def _reference_astype(attrs: Any, x: Any) -> Any:
    return convert(x, DataType(attrs.dtype))


def _declare_astype() -> None:
    targets = ("float32", "float16", "int32", "uint8", "bool", "int64", "float64", "bfloat16", "int8")

    def make(rng: Any, dtype: str) -> Any:
        return (np.abs(random_array(rng, (3, 7), dtype).astype("float32")).astype(dtype),)

    declare_op(
        OpDef(
            name="astype",
            inputs=_X,
            attrs=(AttrSpec("dtype", "dtype", meaning="the element type of the result"),),
            doc=(
                "Convert elements. Floats become integers by dropping the fraction; outside the range they "
                "give its nearest end, NaN gives 0. Integers wrap. Anything to bool is x ≠ 0."
            ),
            infer=_infer_astype,
            reference=_reference_astype,
            lower=lambda attrs, x: elementwise(lambda v: ops.cast(DataType(attrs.dtype), v), x, name="cast"),
            layout=ANY_LAYOUT,
            samples=tuple(
                Sample(
                    ((3, 7),),
                    {"dtype": target},
                    ("float32", "int32", "bool", "float16", "bfloat16", "int8"),
                    make,
                )
                for target in targets
            ),
            errors=(ErrorSample(((2,),), {"dtype": "float33"}, "U0101", "unknown dtype"),),
        )
    )


def _infer_bitcast(ctx: Inference) -> Type:
    ty, dtype = ctx.tensor(0), DataType(ctx.attrs.dtype)
    if ty.dtype is not None and (ty.dtype.bits != dtype.bits or ty.dtype.is_bool != dtype.is_bool):
        ctx.fail(R0204, f"the bits of {ty.dtype} are no {dtype}: they differ in number")
    return TensorType(ty.dims, dtype) if ty.dims is not None else unknown_dims(dtype, ty.ndim)


def _declare_bitcast() -> None:
    declare_op(
        OpDef(
            name="bitcast",
            inputs=_X,
            attrs=(AttrSpec("dtype", "dtype", meaning="the element type of the result"),),
            doc="The bits of each element as an element of another type with as many.",
            infer=_infer_bitcast,
            reference=lambda attrs, x: (
                np.ascontiguousarray(x).view(DataType(attrs.dtype).numpy()).reshape(x.shape)
            ),
            lower=lambda attrs, x: elementwise(
                lambda v: v if v.dtype == attrs.dtype else intrinsics.reinterpret(DataType(attrs.dtype), v),
                x,
                name="bitcast",
            ),
            layout=ANY_LAYOUT,
            samples=tuple(
                Sample((shape,), {"dtype": target}, (dtype,))
                for shape, dtype, target in (
                    ((3, 7), "float32", "int32"),
                    ((3, 7), "int32", "float32"),
                    ((5,), "float64", "uint64"),
                    ((0, 4), "int16", "float16"),
                    ((), "uint16", "bfloat16"),
                    ((33,), "int8", "uint8"),
                    ((4,), "int32", "int32"),
                )
            ),
            errors=(ErrorSample(((2,),), {"dtype": "int64"}, "R0204", "they differ in number"),),
        )
    )


def _infer_test(ctx: Inference) -> Type:
    ty = ctx.tensor(0)
    return TensorType(ty.dims, "bool") if ty.dims is not None else unknown_dims(DataType("bool"), ty.ndim)  # type: ignore[arg-type]


def _special_values(shape: tuple[int, ...]) -> Any:
    def make(rng: Any, dtype: str) -> tuple[Any, ...]:
        return (
            np.asarray(rng.choice(np.array([0.0, 1.5, -2.0, np.nan, np.inf, -np.inf]), size=shape)).astype(
                dtype
            ),
        )

    return make


def _declare_tests() -> None:
    for name, meaning in (
        ("isnan", "is NaN"),
        ("isinf", "is infinite"),
        ("isfinite", "is neither NaN nor infinite"),
    ):
        scalar, reference = getattr(intrinsics, name), getattr(np, name)
        declare_op(
            OpDef(
                name=name,
                inputs=_X,
                attrs=(),
                doc=f"Whether each element {meaning}.",
                infer=_infer_test,
                reference=lambda attrs, x, function=reference: function(np.asarray(x, np.float64)),
                lower=lambda attrs, x, function=scalar, name=name: elementwise(function, x, name=name),
                layout=ANY_LAYOUT,
                samples=tuple(
                    Sample((shape,), dtypes=FLOATS, make=_special_values(shape)) for shape in _SHAPES
                ),
            )
        )


def _infer_bits(ctx: Inference) -> Type:
    ty = ctx.tensor(0)
    if ty.dtype is not None and ty.dtype.is_float:
        ctx.fail(R0204, f"expected integers or bool, got {ty.dtype}", "convert with astype")
    return ty


def _infer_not(ctx: Inference) -> Type:
    ty = ctx.tensor(0)
    if ty.dtype is not None and not ty.dtype.is_bool:
        ctx.fail(R0204, f"expected bool, got {ty.dtype}", "compare with zero first")
    return ty


def _declare_nots() -> None:
    rows = (
        ("logical_not", ops.logical_not, np.logical_not, ("bool",), "not x", _infer_not),
        (
            "bitwise_not",
            ops.bitwise_not,
            np.invert,
            ("int32", "uint8", "bool"),
            "the complement of x's bits",
            _infer_bits,
        ),
    )
    for name, scalar, reference, dtypes, formula, rule in rows:
        declare_op(
            OpDef(
                name=name,
                inputs=_X,
                attrs=(),
                doc=f"Elementwise {formula}.",
                infer=rule,
                reference=lambda attrs, x, function=reference: function(x),
                lower=lambda attrs, x, function=scalar, name=name: elementwise(function, x, name=name),
                layout=ANY_LAYOUT,
                samples=tuple(
                    Sample((shape,), dtypes=dtypes, make=random_values(shape)) for shape in _SHAPES
                ),
                errors=(ErrorSample(((2, 3),), {}, "R0204", "expected"),),
            )
        )


def _declare_fma() -> None:
    declare_op(
        OpDef(
            name="ewise_fma",
            inputs=(
                Input("x1", meaning="a factor"),
                Input("x2", meaning="a factor"),
                Input("x3", meaning="what is added"),
            ),
            attrs=(),
            doc="Elementwise x1 * x2 + x3, the product rounded before the sum; shapes broadcast.",
            infer=lambda ctx: broadcast_type(ctx, ctx.same_dtype(*ctx.tensors()), *ctx.tensors()),
            reference=lambda attrs, a, b, c: (a * b + c).astype(a.dtype),
            lower=lambda attrs, a, b, c: elementwise(lambda x, y, z: x * y + z, a, b, c, name="ewise_fma"),
            layout=ANY_LAYOUT,
            samples=(
                Sample(((3, 7), (3, 7), (3, 7)), dtypes=("float32", "int32")),
                Sample(((2, 1), (3,), ())),
                Sample(((0,), (0,), (1,))),
            ),
            errors=(ErrorSample(((2, 3), (2, 3), (4,)), {}, "R0203", "broadcast"),),
        )
    )


def declare() -> None:
    """Put the operators of this file into the table."""
    _declare_clip()
    _declare_where()
    _declare_astype()
    _declare_bitcast()
    _declare_tests()
    _declare_nots()
    _declare_fma()
