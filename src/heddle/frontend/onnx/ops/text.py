"""Strings: values of the machine, whose operators are builtins. Numbers that they give are tensors."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.ml import ML
from heddle.frontend.onnx.ops.run_time_sequence import element_value, packed
from heddle.frontend.onnx.proto import Node
from heddle.frontend.onnx.registry import converts, denies
from heddle.frontend.onnx.values import TextKind, Value
from heddle.ir.expr import Expr, StringImm, TupleGetItem
from heddle.ir.types import AnyType, TupleType
from heddle.prim.nodes import constant
from heddle.relax.types import TensorType
from heddle.runtime.dtype import DataType


def text_value(expr: Expr, ndim: int) -> Value:
    return Value(expr=expr, dtype="string", kind=TextKind(ndim))


def ndim_of(ctx: NodeContext, index: int) -> int:
    kind = ctx.value(index).kind
    if not isinstance(kind, TextKind):
        ctx.malformed(f"input {index} must be a tensor of strings")
    return kind.ndim


def _expr(ctx: NodeContext, index: int) -> Expr:
    return ctx.importer.tensor_of(ctx.value(index))


def _words(words: Any) -> StringImm:
    return StringImm(json.dumps(list(words)))


def equal(ctx: NodeContext) -> Result:
    """Equal of strings."""
    ndim = max(ndim_of(ctx, 0), ndim_of(ctx, 1))
    ty = TensorType(None, DataType("bool"), None, ndim)
    return element_value(ctx, packed(ctx, "string_equal", [_expr(ctx, 0), _expr(ctx, 1)], ty), ctx.node.label)


@converts("StringConcat", since=20)
def concat(ctx: NodeContext) -> Result:
    ndim = max(ndim_of(ctx, 0), ndim_of(ctx, 1))
    return text_value(packed(ctx, "string_concat", [_expr(ctx, 0), _expr(ctx, 1)], AnyType()), ndim)


@converts("StringSplit", since=20)
def split(ctx: NodeContext) -> Result:
    """The parts along a new axis, and their numbers."""
    ndim, most = ndim_of(ctx, 0), ctx.attr("maxsplit", -1)
    args = [_expr(ctx, 0), StringImm(ctx.attr("delimiter", "")), constant(most, "int64")]
    counts = TensorType(None, DataType("int64"), None, ndim)
    made = packed(ctx, "string_split", args, TupleType((AnyType(), counts)))
    parts = [ctx.builder.emit(TupleGetItem(made, index)) for index in (0, 1)]
    return [text_value(parts[0], ndim + 1), element_value(ctx, parts[1], ctx.node.label)]


@converts("StringNormalizer", since=10)
def normalize(ctx: NodeContext) -> Result:
    case = ctx.attr("case_change_action", "NONE")
    if case not in ("NONE", "LOWER", "UPPER"):
        ctx.malformed(f"case_change_action must be NONE, LOWER or UPPER, got {case!r}")
    ndim = ndim_of(ctx, 0)
    if ndim not in (1, 2):
        ctx.malformed(f"expected strings of 1 or 2 dimensions, got {ndim}")
    sensitive = constant(int(ctx.flag("is_case_sensitive")), "int64")
    args = [_expr(ctx, 0), StringImm(case), sensitive, _words(ctx.attr("stopwords", ()))]
    return text_value(packed(ctx, "string_normalize", args, AnyType()), ndim)


@denies("RegexFullMatch")
def regular_expression(node: Node) -> str | None:
    return "a regular expression of a model could match for ever"


@converts("RegexFullMatch", since=20)
def regex_full_match(ctx: NodeContext) -> Result:
    ctx.unsupported("a regular expression of a model could match for ever")


# ---- LabelEncoder

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
    place = _place(ctx, keys)
    if values.dtype == object:
        words = [*values.tolist(), str(ctx.attr("default_string", "_Unused"))]
        expr = ctx.importer.tensor_of(place)
        return text_value(
            packed(ctx, "string_take", [expr, _words(words)], AnyType()), ctx.type_of(expr).ndim
        )
    name, default = ("default_int64", -1) if values.dtype.kind == "i" else ("default_float", -0.0)
    given = ctx.attr("default_tensor", None)
    rest = given.reshape(-1)[0] if given is not None else ctx.attr(name, default)
    table = np.concatenate([values, np.asarray([rest]).astype(values.dtype)])
    return ctx.call("take", ctx.const(table, table.dtype.name), ctx.importer.tensor_of(place), axis=0)


def _place(ctx: NodeContext, keys: np.ndarray[Any, Any]) -> Value:
    """The number of each element's key, that of keys where there is none."""
    if keys.dtype == object:
        ty = TensorType(None, DataType("int64"), None, ndim_of(ctx, 0))
        return element_value(
            ctx, packed(ctx, "string_lookup", [_expr(ctx, 0), _words(keys)], ty), ctx.node.label
        )
    x = ctx.call("expand_dims", ctx.tensor(0), axis=(ctx.ndim(0),))
    own = ctx.const(keys.astype(ctx.dtype(0)), ctx.dtype(0))
    same = ctx.call("equal", x, own)
    if keys.dtype.kind == "f":
        lost = [ctx.call("isnan", value) for value in (x, own)]
        same = ctx.call("logical_or", same, ctx.call("logical_and", *lost))
    places = ctx.const(np.arange(len(keys)), "int64")
    rest = ctx.const(np.asarray(len(keys)), "int64")
    found = ctx.call("min", ctx.call("where", same, places, rest), axis=(ctx.ndim(0),))
    return Value(expr=found, dtype="int64")
