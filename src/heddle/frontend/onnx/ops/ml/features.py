"""Features of ai.onnx.ml: scaled, chosen, filled in, made binary, joined."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.ml.label_encoder import place_of
from heddle.frontend.onnx.ops.tensor.shape import product
from heddle.frontend.onnx.registry import ML, converts
from heddle.frontend.onnx.values import Value, tensor_value
from heddle.ir.expr import Expr
from heddle.prim.nodes import IntImm, constant


@converts("Binarizer", domain=ML)
def binarizer(ctx: NodeContext) -> Result:
    """1 above the threshold, else 0."""
    x = ctx.tensor(0)
    return ctx.astype(ctx.call("greater", x, ctx.like(ctx.attr("threshold", 0.0), 0)), ctx.dtype(0))


@converts("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(ctx: NodeContext) -> Result:
    """Elements of the last axis by number; a vector counts as one row."""
    x = ctx.tensor(0)
    if ctx.ndim(0) == 1:
        x = ctx.call("expand_dims", x, axis=(0,))
    columns = ctx.tensor(1)
    if ctx.ndim(1) != 1:
        columns = ctx.reshape(columns, (product(ctx.dims(1)),))
    return ctx.call("take", x, columns, axis=-1)


@converts("Scaler", domain=ML)
def scaler(ctx: NodeContext) -> Result:
    """(x - offset) * scale, in float32."""
    x = ctx.astype(ctx.tensor(0), "float32")
    offset, scale = (
        ctx.const(np.asarray(ctx.attr(name), np.float32), "float32") for name in ("offset", "scale")
    )
    return ctx.call("multiply", ctx.call("subtract", x, offset), scale)


@converts("Imputer", domain=ML)
def imputer(ctx: NodeContext) -> Result:
    """Each element that equals the replaced value, or is NaN where that is, as its column has instead."""
    is_float = ctx.dtype(0).startswith("float")
    kind = "float" if is_float else "int64"
    values = np.asarray(ctx.attr(f"imputed_value_{kind}s", ()), np.float32 if is_float else np.int64).reshape(
        -1
    )
    if not len(values):
        ctx.malformed(f"no imputed_value_{kind}s for elements of {ctx.dtype(0)}")
    replaced = ctx.attr(f"replaced_value_{kind}", 0.0 if is_float else 0)
    x, dtype = ctx.tensor(0), ctx.dtype(0)
    if replaced != replaced:
        lost = ctx.call("isnan", x)
    else:
        lost = ctx.call("equal", x, ctx.const(replaced, dtype))
    last = ctx.dims(0)[-1] if ctx.ndim(0) else constant(1, "int64")
    if len(values) > 1 and (not isinstance(last, IntImm) or int(last) != len(values)):
        ctx.malformed(f"{len(values)} imputed values for a last dimension of {last}")
    instead = ctx.const(values.astype(dtype) if len(values) > 1 else values.astype(dtype)[0], dtype)
    return ctx.call("where", lost, instead, x)


@converts("Normalizer", domain=ML)
def normalizer(ctx: NodeContext) -> Result:
    """Rows divided by their largest element, the sum of sizes, or the root of the sum of squares, in float32;
    a row whose divisor is 0 stays as it is."""
    norm, axis = ctx.attr("norm", "MAX"), ctx.ndim(0) - 1
    if ctx.ndim(0) not in (1, 2):
        ctx.malformed(f"expected rows of features, got {ctx.ndim(0)} dimensions")
    x = ctx.astype(ctx.tensor(0), "float32")
    if norm == "MAX":
        divisor = ctx.call("max", x, axis=(axis,), keepdims=True)
    elif norm == "L1":
        divisor = ctx.call("sum", ctx.call("abs", x), axis=(axis,), keepdims=True)
    elif norm == "L2":
        divisor = ctx.call("sqrt", ctx.call("sum", ctx.call("square", x), axis=(axis,), keepdims=True))
    else:
        ctx.malformed(f"norm must be MAX, L1 or L2, got {norm!r}")
    is_zero = ctx.call("equal", divisor, ctx.const(0, "float32"))
    return ctx.call("divide", x, ctx.call("where", is_zero, ctx.const(1, "float32"), divisor))


@converts("OneHotEncoder", domain=ML)
def one_hot_encoder(ctx: NodeContext) -> Result:
    """A new last axis with 1 at the element's category; one that is in none has zeros only, or is refused
    when the model runs, as `zeros` says."""
    words, numbers = ctx.attr("cats_strings", ()), ctx.attr("cats_int64s", ())
    if bool(len(words)) == bool(len(numbers)):
        ctx.malformed("either cats_strings or cats_int64s must be given")
    keys = np.asarray(words, object) if len(words) else np.asarray(numbers, np.int64)
    place = _places(ctx, keys)
    ndim = ctx.type_of(place).ndim
    if not ctx.flag("zeros", True):
        missing = ctx.call("equal", place, ctx.const(len(keys), "int64"))
        total = ctx.call("sum", ctx.astype(missing, "int64"), axis=tuple(range(ndim)))
        (found,) = ctx.importer.elements_of(tensor_value(total, ctx.node.label)).reshape(-1)
        ctx.require_equal([(constant(0, "int64"), found)], "unknown_values")
    hits = ctx.call(
        "equal", ctx.call("expand_dims", place, axis=(ndim,)), ctx.const(np.arange(len(keys)), "int64")
    )
    return ctx.astype(hits, "float32")


def _places(ctx: NodeContext, keys: np.ndarray[Any, Any]) -> Expr:
    """The number of each element's category; floats are cut to whole numbers."""
    if keys.dtype == object:
        return ctx.known_dims(ctx.importer.tensor_of(place_of(ctx, keys)))
    x = Value(expr=ctx.astype(ctx.tensor(0), "int64"), dtype="int64")
    return ctx.importer.tensor_of(place_of(ctx, keys, x))


@converts("FeatureVectorizer", domain=ML)
def feature_vectorizer(ctx: NodeContext) -> Result:
    """Columns of all inputs next to each other, in float32; each is cut or filled with zeros to its size."""
    sizes = ctx.attr("inputdimensions", ())
    if len(sizes) != ctx.num_inputs:
        ctx.malformed(f"{len(sizes)} inputdimensions for {ctx.num_inputs} inputs")
    parts = [_columns(ctx, index, int(size)) for index, size in enumerate(sizes)]
    return parts[0] if len(parts) == 1 else ctx.call("concat", tuple(parts), axis=1)


def _columns(ctx: NodeContext, index: int, size: int) -> Expr:
    x = ctx.astype(ctx.tensor(index), "float32")
    if ctx.ndim(index) == 1:
        x = ctx.call("expand_dims", x, axis=(0,))
    if len(ctx.dims_of(x)) != 2 or not isinstance(ctx.dims_of(x)[1], IntImm):
        ctx.unsupported(f"input {index} must be rows of a known number of features")
    rows, have = ctx.dims_of(x)[0], int(ctx.dims_of(x)[1])  # type: ignore[call-overload]
    if have > size:
        return ctx.call(
            "strided_slice", x, axes=(1,), begin=(0,), end=(size,), strides=(1,), assume_inbound=True
        )
    if have == size:
        return x
    return ctx.call("concat", (x, ctx.call("zeros", (rows, size - have), dtype="float32")), axis=1)
