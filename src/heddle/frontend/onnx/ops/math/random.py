"""Numbers by chance. A seed gives the same numbers in every run; without one each run draws a new key."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.control.run_time_sequence import packed
from heddle.frontend.onnx.proto import dtype_name
from heddle.frontend.onnx.registry import converts
from heddle.graph.types import ShapeExpr, TensorType
from heddle.ir.expr import Expr
from heddle.prim.nodes import PrimExpr, constant


def uniform(ctx: NodeContext, dims: tuple[PrimExpr, ...]) -> Expr:
    """float32 numbers from [0, 1)."""
    return ctx.call("random.uniform", _key(ctx), ShapeExpr(dims))


def _key(ctx: NodeContext) -> Expr:
    place = zlib.crc32(ctx.node.label.encode())
    seed = ctx.attr("seed", None)
    if seed is not None:
        (bits,) = struct.unpack("<i", struct.pack("<f", seed))
        return ctx.const(np.asarray((bits << 32) ^ place), "int64")
    ty = TensorType(ShapeExpr(()), "int64")  # type: ignore[arg-type]
    return packed(ctx, "random_key", [constant(place, "int64")], ty)


def _dtype(ctx: NodeContext, default: str) -> str:
    given = ctx.attr("dtype", 0)
    return dtype_name(given, "the numbers") if given else default


def _between(ctx: NodeContext, dims: tuple[PrimExpr, ...], dtype: str) -> Expr:
    low, high = ctx.attr("low", 0.0), ctx.attr("high", 1.0)
    made = ctx.call("multiply", uniform(ctx, dims), ctx.const(np.asarray(high - low), "float32"))
    return ctx.astype(ctx.call("add", made, ctx.const(np.asarray(low), "float32")), dtype)


def _normal(ctx: NodeContext, dims: tuple[PrimExpr, ...], dtype: str) -> Expr:
    scale, mean = (
        ctx.const(np.asarray(ctx.attr(name, default)), "float32")
        for name, default in (("scale", 1.0), ("mean", 0.0))
    )
    drawn = ctx.call("random.normal", _key(ctx), ShapeExpr(dims))
    return ctx.astype(ctx.call("add", ctx.call("multiply", drawn, scale), mean), dtype)


@converts("RandomUniform", "RandomNormal")
def random_of_shape(ctx: NodeContext) -> Result:
    """RandomUniform and RandomNormal: of the shape in the attributes."""
    dims = tuple(constant(size, "int64") for size in ctx.attr("shape"))
    draw = _between if ctx.node.op_type == "RandomUniform" else _normal
    return draw(ctx, dims, _dtype(ctx, "float32"))


@converts("RandomUniformLike", "RandomNormalLike")
def random_like(ctx: NodeContext) -> Result:
    """RandomUniformLike and RandomNormalLike: of the input's shape."""
    draw = _between if ctx.node.op_type == "RandomUniformLike" else _normal
    return draw(ctx, ctx.dims(0), _dtype(ctx, ctx.dtype(0)))


@converts("Multinomial", since=7)
def multinomial(ctx: NodeContext) -> Result:
    """For each draw the first class whose running probability exceeds it. Inputs are logarithms."""
    ctx.require_rank(0, 2)
    rows, classes = ctx.dims(0)
    count = ctx.attr("sample_size", 1)
    chances = ctx.call("nn.softmax", ctx.astype(ctx.tensor(0), "float32"), axis=1)
    drawn = uniform(ctx, (rows, constant(count, "int64")))
    passed = ctx.call("bucketize", drawn, ctx.call("cumsum", chances, axis=1), right=True)
    last = ctx.call("subtract", ctx.size(classes), ctx.const([1], "int64"))
    return ctx.astype(ctx.call("minimum", passed, last), _dtype(ctx, "int32"))


@converts("Dropout", since=12)
def dropout(ctx: NodeContext) -> Result:
    """At inference the input itself and a mask of ones; in training a share `ratio` of elements is 0, and the
    others grow to make up for it. The mode may be known only when the model runs: then the ratio is 0
    outside of training."""
    mode = ctx.first(2) if ctx.has(2) else False
    ratio = ctx.first(1) if ctx.has(1) else 0.5
    if mode is not None and (not mode or (ratio is not None and not ratio)):
        if not ctx.has_output(1):
            return ctx.value(0)
        return ctx.value(0), ctx.call("full", ctx.dims(0), ctx.const(True, "bool"), dtype="bool")
    x, one, share = ctx.tensor(0), ctx.const(np.asarray(1), "float32"), ctx.const(np.asarray(0.5), "float32")
    if ctx.has(1):
        share = ctx.reshape(ctx.astype(ctx.tensor(1), "float32"), ())
    if mode is None:
        training = ctx.reshape(ctx.tensor(2), ())
        share = ctx.call("where", training, share, ctx.const(np.asarray(0), "float32"))
    kept = ctx.call("greater_equal", uniform(ctx, ctx.dims(0)), share)
    factor = ctx.astype(ctx.call("divide", one, ctx.call("subtract", one, share)), ctx.dtype(0))
    made = ctx.call("where", kept, ctx.call("multiply", x, factor), ctx.like(0, 0))
    return made, kept
