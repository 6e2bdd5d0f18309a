"""Linear models of ai.onnx.ml."""

from __future__ import annotations

import numpy as np

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.ml.scores import floats, label_count, labels_of, transformed, two_classes
from heddle.frontend.onnx.registry import ML, converts
from heddle.ir.expr import Expr


def rows_of(ctx: NodeContext) -> Expr:
    """(rows, features) in float32; a vector is one row."""
    if ctx.ndim(0) not in (1, 2):
        ctx.malformed(f"expected rows of features, got {ctx.ndim(0)} dimensions")
    x = ctx.astype(ctx.tensor(0), "float32")
    return x if ctx.ndim(0) == 2 else ctx.call("expand_dims", x, axis=(0,))


def _linear(ctx: NodeContext, targets: int) -> Expr:
    """rows @ coefficients' + intercepts."""
    coefficients = floats(ctx, "coefficients")
    if targets < 1 or len(coefficients) % targets:
        ctx.malformed(f"{len(coefficients)} coefficients for {targets} targets")
    weights = coefficients.reshape(targets, -1)
    made = ctx.call("matmul", rows_of(ctx), ctx.const(weights.T.copy(), "float32"))
    given = floats(ctx, "intercepts")
    if len(given) not in (0, targets):
        ctx.malformed(f"{len(given)} intercepts for {targets} targets")
    return ctx.call("add", made, ctx.const(given, "float32")) if len(given) else made


@converts("LinearRegressor", domain=ML)
def linear_regressor(ctx: NodeContext) -> Result:
    """LinearRegressor: x times coefficients plus intercepts, then the transform it names."""
    return transformed(ctx, _linear(ctx, ctx.attr("targets", 1)), ctx.attr("post_transform", "NONE"))


@converts("LinearClassifier", domain=ML)
def linear_classifier(ctx: NodeContext) -> Result:
    """The label of each row, and scores (rows, classes). One row of coefficients for two labels gives the
    score of the second; the first has what is left of one."""
    transform, labels = ctx.attr("post_transform", "NONE"), label_count(ctx)
    count = len(floats(ctx, "intercepts")) or labels
    if labels != count and (labels, count) != (2, 1):
        ctx.malformed(f"{labels} labels for {count} classes")
    scores = _linear(ctx, count)
    if count > 1:
        return labels_of(ctx, ctx.call("argmax", scores, axis=1)), transformed(ctx, scores, transform)
    if transform == "PROBIT":
        ctx.unsupported("the transform PROBIT of one score for two classes")
    zero, one = (ctx.const(np.float32(value), "float32") for value in (0, 1))
    wins = ctx.astype(ctx.call("greater", scores, zero), "int64")
    chosen = labels_of(ctx, ctx.reshape(wins, (ctx.dims_of(scores)[0],)))
    if transform == "LOGISTIC":
        scores = ctx.call("sigmoid", scores)
    return chosen, two_classes(ctx, ctx.call("subtract", one, scores), scores)
