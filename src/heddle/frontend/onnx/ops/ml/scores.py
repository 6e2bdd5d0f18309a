"""Scores of classes and targets: what is done with them at the end, and the labels that win."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from heddle.frontend.onnx.context import NodeContext
from heddle.frontend.onnx.ops.control.run_time_sequence import packed
from heddle.frontend.onnx.ops.text.strings import text_value, word_list
from heddle.frontend.onnx.values import Value
from heddle.ir.expr import Expr
from heddle.ir.types import AnyType

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_SMALL = 1e-7
"""Scores that SOFTMAX_ZERO takes for zero."""


def transformed(ctx: NodeContext, scores: Expr, name: str) -> Expr:
    """(rows, targets) by the attribute post_transform."""
    if name not in TRANSFORMS:
        ctx.malformed(f"post_transform must be one of {', '.join(TRANSFORMS)}, got {name!r}")
    if name == "NONE":
        return scores
    if name == "LOGISTIC":
        return ctx.call("sigmoid", scores)
    if name == "SOFTMAX":
        return ctx.call("nn.softmax", scores, axis=1)
    return _softmax_zero(ctx, scores) if name == "SOFTMAX_ZERO" else _probit(ctx, scores)


def _softmax_zero(ctx: NodeContext, scores: Expr) -> Expr:
    """A softmax over the scores that are not zero; the others stay zero."""
    dtype = str(ctx.type_of(scores).dtype)
    zero = ctx.const(0, dtype)
    is_zero = ctx.call("less_equal", ctx.call("abs", scores), ctx.const(_SMALL, dtype))
    most = ctx.call("max", scores, axis=(1,), keepdims=True)
    powers = ctx.call("where", is_zero, zero, ctx.call("exp", ctx.call("subtract", scores, most)))
    total = ctx.call("sum", powers, axis=(1,), keepdims=True)
    none = ctx.call("equal", total, zero)
    return ctx.call("where", none, scores, ctx.call("divide", powers, total))


def _probit(ctx: NodeContext, scores: Expr) -> Expr:
    """sqrt(2) * erfinv(2 * x - 1), the inverse by the approximation that ONNX Runtime and the standard's
    reference use."""
    dtype = str(ctx.type_of(scores).dtype)

    def number(value: float) -> Expr:
        return ctx.const(value, dtype)

    x = ctx.call("subtract", ctx.call("multiply", scores, number(2)), number(1))
    log = ctx.call(
        "log", ctx.call("multiply", ctx.call("subtract", number(1), x), ctx.call("add", number(1), x))
    )
    half = ctx.call("add", ctx.call("multiply", log, number(0.5)), number(2 / (math.pi * 0.147)))
    inner = ctx.call("subtract", ctx.call("square", half), ctx.call("multiply", log, number(1 / 0.147)))
    size = ctx.call("sqrt", ctx.call("subtract", ctx.call("sqrt", inner), half))
    sign = ctx.call("where", ctx.call("less", x, number(0)), number(-1), number(1))
    return ctx.call("multiply", ctx.call("multiply", sign, size), number(math.sqrt(2)))


def labels_of(ctx: NodeContext, places: Expr, prefix: str = "classlabels") -> Expr | Value:
    """The labels, numbers or strings, at places (rows)."""
    strings = label_strings(ctx, prefix)
    if strings:
        return text_value(packed(ctx, "string_take", [places, word_list(strings)], AnyType()), 1)
    ints = label_ints(ctx, prefix)
    return ctx.call("take", ctx.const(np.asarray(ints, np.int64), "int64"), places, axis=0)


def label_strings(ctx: NodeContext, prefix: str = "classlabels") -> tuple[str, ...]:
    """The classes' names, none where they are numbers."""
    return tuple(ctx.attr(f"{prefix}_strings", ()))


def label_ints(ctx: NodeContext, prefix: str = "classlabels") -> tuple[int, ...]:
    """The classes' numbers, under either spelling of the attribute."""
    return tuple(ctx.attr(f"{prefix}_int64s", ()) or ctx.attr(f"{prefix}_ints", ()))


def label_count(ctx: NodeContext, prefix: str = "classlabels") -> int:
    """How many classes the attributes name."""
    return len(label_strings(ctx, prefix)) or len(label_ints(ctx, prefix))


def two_classes(ctx: NodeContext, low: Expr, high: Expr) -> Expr:
    """(rows, 1) twice → (rows, 2)."""
    return ctx.call("concat", (low, high), axis=1)


def floats(ctx: NodeContext, name: str, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """An attribute of numbers as an array of one dimension; empty where it is left out."""
    return np.asarray(ctx.attr(name, ()), dtype).reshape(-1)
