"""LabelEncoder of ai.onnx.ml: elements by lists of keys and values."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.control.run_time_sequence import element_value, packed
from heddle.frontend.onnx.ops.text.strings import ndim_of, text_expr, text_value, word_list
from heddle.frontend.onnx.registry import ML, converts
from heddle.frontend.onnx.values import Value
from heddle.graph.types import TensorType
from heddle.ir.types import AnyType
from heddle.runtime.dtype import DataType

_KINDS = ("tensor", "strings", "int64s", "floats")


def _attribute(ctx: NodeContext, prefix: str) -> np.ndarray[Any, Any]:
    """Keys or values, whichever attribute holds them."""
    for kind in _KINDS:
        found = ctx.attr(f"{prefix}_{kind}", None)
        if found is not None:
            dtype = {"int64s": np.int64, "floats": np.float32, "strings": object}.get(kind)
            return np.asarray(found, dtype).reshape(-1)
    ctx.malformed(f"no {prefix} are given")


@converts("LabelEncoder", since=2, domain=ML)
def label_encoder(ctx: NodeContext) -> Result:
    """Each element's value in a list of keys and values, the default for one that is no key."""
    keys, values = _attribute(ctx, "keys"), _attribute(ctx, "values")
    if len(keys) != len(values):
        ctx.malformed(f"{len(keys)} keys and {len(values)} values")
    place = place_of(ctx, keys)
    if values.dtype == object:
        return _words_at(ctx, place, [*values.tolist(), str(ctx.attr("default_string", "_Unused"))])
    name, default = ("default_int64", -1) if values.dtype.kind == "i" else ("default_float", -0.0)
    given = ctx.attr("default_tensor", None)
    rest = given.reshape(-1)[0] if given is not None else ctx.attr(name, default)
    table = np.concatenate([values, np.asarray([rest]).astype(values.dtype)])
    return ctx.call("take", ctx.const(table, table.dtype.name), ctx.importer.tensor_of(place), axis=0)


def _words_at(ctx: NodeContext, place: Value, words: list[str]) -> Value:
    expr = ctx.importer.tensor_of(place)
    return text_value(packed(ctx, "string_take", [expr, word_list(words)], AnyType()), ctx.type_of(expr).ndim)


@converts("CategoryMapper", domain=ML)
def category_mapper(ctx: NodeContext) -> Result:
    """Strings to their numbers, or numbers to their strings."""
    words = np.asarray(ctx.attr("cats_strings", ()), object)
    numbers = np.asarray(ctx.attr("cats_int64s", ()), np.int64)
    if len(words) != len(numbers):
        ctx.malformed(f"{len(words)} strings and {len(numbers)} numbers")
    if ctx.dtype(0) != "string":
        return _words_at(
            ctx, place_of(ctx, numbers), [*words.tolist(), str(ctx.attr("default_string", "_Unused"))]
        )
    table = np.append(numbers, ctx.attr("default_int64", -1))
    return ctx.call("take", ctx.const(table, "int64"), ctx.importer.tensor_of(place_of(ctx, words)), axis=0)


def place_of(ctx: NodeContext, keys: np.ndarray[Any, Any], given: Value | None = None) -> Value:
    """The number of each element's key, that of keys where there is none; of input 0 or another value."""
    value = given or ctx.value(0)
    if keys.dtype == object:
        ty = TensorType(None, DataType("int64"), None, ndim_of(ctx, 0))
        return element_value(
            ctx, packed(ctx, "string_lookup", [text_expr(ctx, 0), word_list(keys)], ty), ctx.node.label
        )
    data = ctx.importer.tensor_of(value)
    ndim = ctx.type_of(data).ndim
    x = ctx.call("expand_dims", data, axis=(ndim,))
    own = ctx.const(keys.astype(value.dtype), value.dtype)
    same = ctx.call("equal", x, own)
    if keys.dtype.kind == "f":
        lost = [ctx.call("isnan", value) for value in (x, own)]
        same = ctx.call("logical_or", same, ctx.call("logical_and", *lost))
    places = ctx.const(np.arange(len(keys)), "int64")
    rest = ctx.const(np.asarray(len(keys)), "int64")
    found = ctx.call("min", ctx.call("where", same, places, rest), axis=(ndim,))
    return Value(expr=found, dtype="int64")
