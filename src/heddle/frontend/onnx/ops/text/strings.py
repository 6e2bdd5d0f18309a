"""Strings: values of the machine, whose operators are builtins. Numbers that they give are tensors."""

from __future__ import annotations

import json
from typing import Any

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.control.run_time_sequence import element_value, packed
from heddle.frontend.onnx.registry import converts
from heddle.frontend.onnx.values import TextKind, Value
from heddle.graph.types import TensorType
from heddle.ir.expr import Expr, StringImm, TupleGetItem
from heddle.ir.types import AnyType, TupleType
from heddle.prim.nodes import constant
from heddle.runtime.dtype import DataType
from heddle.vm.builtins.regex import PatternError, compile_pattern


def text_value(expr: Expr, ndim: int) -> Value:
    """A tensor of strings of the machine as a value of the graph."""
    return Value(expr=expr, dtype="string", kind=TextKind(ndim))


def ndim_of(ctx: NodeContext, index: int) -> int:
    """The rank of an input. Raises: ImportModelError where it is no tensor of strings."""
    kind = ctx.value(index).kind
    if not isinstance(kind, TextKind):
        ctx.malformed(f"input {index} must be a tensor of strings")
    return kind.ndim


def text_expr(ctx: NodeContext, index: int) -> Expr:
    """The expression of an input of strings."""
    return ctx.importer.tensor_of(ctx.value(index))


def word_list(words: Any) -> StringImm:
    """Words as one constant that a packed function reads."""
    return StringImm(json.dumps(list(words)))


def equal(ctx: NodeContext) -> Result:
    """Equal of strings."""
    ndim = max(ndim_of(ctx, 0), ndim_of(ctx, 1))
    ty = TensorType(None, DataType("bool"), None, ndim)
    return element_value(
        ctx, packed(ctx, "string_equal", [text_expr(ctx, 0), text_expr(ctx, 1)], ty), ctx.node.label
    )


@converts("StringConcat", since=20)
def concat(ctx: NodeContext) -> Result:
    """StringConcat: element by element, broadcast."""
    ndim = max(ndim_of(ctx, 0), ndim_of(ctx, 1))
    return text_value(packed(ctx, "string_concat", [text_expr(ctx, 0), text_expr(ctx, 1)], AnyType()), ndim)


@converts("StringSplit", since=20)
def split(ctx: NodeContext) -> Result:
    """The parts along a new axis, and their numbers."""
    ndim, most = ndim_of(ctx, 0), ctx.attr("maxsplit", -1)
    args = [text_expr(ctx, 0), StringImm(ctx.attr("delimiter", "")), constant(most, "int64")]
    counts = TensorType(None, DataType("int64"), None, ndim)
    made = packed(ctx, "string_split", args, TupleType((AnyType(), counts)))
    parts = [ctx.builder.emit(TupleGetItem(made, index)) for index in (0, 1)]
    return [text_value(parts[0], ndim + 1), element_value(ctx, parts[1], ctx.node.label)]


@converts("StringNormalizer", since=10)
def normalize(ctx: NodeContext) -> Result:
    """StringNormalizer: drops stop words and changes case."""
    case = ctx.attr("case_change_action", "NONE")
    if case not in ("NONE", "LOWER", "UPPER"):
        ctx.malformed(f"case_change_action must be NONE, LOWER or UPPER, got {case!r}")
    ndim = ndim_of(ctx, 0)
    if ndim not in (1, 2):
        ctx.malformed(f"expected strings of 1 or 2 dimensions, got {ndim}")
    sensitive = constant(int(ctx.flag("is_case_sensitive")), "int64")
    args = [text_expr(ctx, 0), StringImm(case), sensitive, word_list(ctx.attr("stopwords", ()))]
    return text_value(packed(ctx, "string_normalize", args, AnyType()), ndim)


@converts("RegexFullMatch", since=20)
def regex_full_match(ctx: NodeContext) -> Result:
    """The pattern is checked here, so that the machine is not the first to see a malformed one."""
    pattern = ctx.attr("pattern")
    try:
        compile_pattern(pattern)
    except PatternError as error:
        ctx.malformed(f"pattern {pattern[:80]!r}: {error}")
    ty = TensorType(None, DataType("bool"), None, ndim_of(ctx, 0))
    made = packed(ctx, "string_full_match", [text_expr(ctx, 0), StringImm(pattern)], ty)
    return element_value(ctx, made, ctx.node.label)
