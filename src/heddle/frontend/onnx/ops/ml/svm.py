"""Support vector machines of ai.onnx.ml."""

from __future__ import annotations

import numpy as np

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.ml.linear import rows_of
from heddle.frontend.onnx.ops.ml.scores import floats, label_count, labels_of, transformed, two_classes
from heddle.frontend.onnx.registry import ML, converts, lacks
from heddle.ir.expr import Expr

_KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
_LEAST = 1e-7
"""Probabilities of a pair are at least this far from 0 and 1."""

lacks("SVMClassifier", "probabilities (prob_a, prob_b) of more than two classes", ML)


def _number(ctx: NodeContext, value: float) -> Expr:
    return ctx.const(np.float32(value), "float32")


def _kernel(ctx: NodeContext, vectors: np.ndarray) -> Expr:
    """(rows, vectors): how near each row is to each of the vectors."""
    kind, given = ctx.attr("kernel_type", "LINEAR"), floats(ctx, "kernel_params")
    if kind not in _KERNELS:
        ctx.malformed(f"kernel_type must be one of {', '.join(_KERNELS)}, got {kind!r}")
    if kind != "LINEAR" and len(given) != 3:
        ctx.malformed(f"kernel_params must be gamma, coef0 and degree, got {len(given)} numbers")
    gamma, shift, degree = given.tolist() if len(given) == 3 else (0.0, 0.0, 0.0)
    x = rows_of(ctx)
    if kind == "RBF":
        apart = ctx.call("subtract", ctx.call("expand_dims", x, axis=(1,)), ctx.const(vectors, "float32"))
        distance = ctx.call("sum", ctx.call("square", apart), axis=(2,))
        return ctx.call("exp", ctx.call("multiply", distance, _number(ctx, -gamma)))
    made = ctx.call("matmul", x, ctx.const(np.ascontiguousarray(vectors.T), "float32"))
    if kind == "LINEAR":
        return made
    line = ctx.call("add", ctx.call("multiply", made, _number(ctx, gamma)), _number(ctx, shift))
    return ctx.call("tanh", line) if kind == "SIGMOID" else ctx.call("power", line, _number(ctx, degree))


def _vectors(ctx: NodeContext, count: int) -> np.ndarray:
    flat = floats(ctx, "support_vectors")
    if count < 1 or len(flat) % count:
        ctx.malformed(f"support_vectors of {len(flat)} numbers for {count} vectors")
    return flat.reshape(count, -1)


def _rho(ctx: NodeContext, count: int) -> np.ndarray:
    rho = floats(ctx, "rho")
    if len(rho) < count:
        ctx.malformed(f"{len(rho)} numbers rho, and {count} are needed")
    return rho[:count]


@converts("SVMRegressor", domain=ML)
def svm_regressor(ctx: NodeContext) -> Result:
    """(rows, 1). Without support vectors the coefficients are those of a line; of one class, the sign is
    given."""
    coefficients, count = floats(ctx, "coefficients"), ctx.attr("n_supports", 0)
    if count:
        if len(coefficients) != count:
            ctx.malformed(f"{len(coefficients)} coefficients for {count} support vectors")
        near = _kernel(ctx, _vectors(ctx, count))
        made = ctx.call("matmul", near, ctx.const(coefficients.reshape(-1, 1), "float32"))
    else:
        made = _kernel(ctx, coefficients.reshape(1, -1))
    made = ctx.call("add", made, ctx.const(_rho(ctx, 1), "float32"))
    if ctx.flag("one_class"):
        is_in = ctx.call("greater", made, _number(ctx, 0))
        return ctx.call("where", is_in, _number(ctx, 1), _number(ctx, -1))
    return transformed(ctx, made, ctx.attr("post_transform", "NONE"))


@converts("SVMClassifier", domain=ML)
def svm_classifier(ctx: NodeContext) -> Result:
    """The label of each row, and scores: of each pair of classes, or of each class where there are two, or
    where there are no support vectors."""
    classes, counts = label_count(ctx), np.asarray(ctx.attr("vectors_per_class", ()), np.int64)
    transform = ctx.attr("post_transform", "NONE")
    if classes < 2:
        ctx.malformed(f"{classes} labels, and two are needed at least")
    if not len(counts):
        return _of_lines(ctx, classes, transform)
    if len(counts) != classes or (counts < 0).any():
        ctx.malformed(f"vectors_per_class of {len(counts)} numbers for {classes} classes")
    pairs = _pairs(ctx, counts)
    if len(floats(ctx, "prob_a")):
        return _of_probabilities(ctx, pairs, classes, transform)
    labels = labels_of(ctx, _voted(ctx, pairs, classes))
    if classes > 2:
        return labels, transformed(ctx, pairs, transform)
    if transform == "PROBIT":
        ctx.unsupported("the transform PROBIT of one score for two classes")
    shares = transform in ("SOFTMAX", "SOFTMAX_ZERO")
    other = ctx.call("subtract", _number(ctx, 1 if shares else 0), pairs)
    both = two_classes(ctx, other, pairs)
    return labels, both if shares else transformed(ctx, both, transform)


def _of_lines(ctx: NodeContext, classes: int, transform: str) -> Result:
    coefficients = floats(ctx, "coefficients")
    if len(coefficients) % classes:
        ctx.malformed(f"{len(coefficients)} coefficients for {classes} classes")
    scores = _kernel(ctx, coefficients.reshape(classes, -1))
    scores = ctx.call("add", scores, ctx.const(_rho(ctx, 1), "float32"))
    return labels_of(ctx, ctx.call("argmax", scores, axis=1)), transformed(ctx, scores, transform)


def _pairs(ctx: NodeContext, counts: np.ndarray) -> Expr:
    """(rows, pairs): positive where the first class of a pair is nearer. The coefficients of a vector are one
    for each other class, those of later classes one row up."""
    classes, total = len(counts), int(counts.sum())
    flat = floats(ctx, "coefficients")
    if len(flat) != (classes - 1) * total:
        ctx.malformed(f"{len(flat)} coefficients for {total} vectors of {classes} classes")
    own, ends = flat.reshape(classes - 1, total), np.concatenate([[0], np.cumsum(counts)])
    columns = []
    for first in range(classes):
        for second in range(first + 1, classes):
            column = np.zeros(total, np.float32)
            for mine, other in ((first, second - 1), (second, first)):
                part = slice(ends[mine], ends[mine + 1])
                column[part] = own[other, part]
            columns.append(column)
    weights = ctx.const(np.stack(columns, axis=1), "float32")
    made = ctx.call("matmul", _kernel(ctx, _vectors(ctx, total)), weights)
    return ctx.call("add", made, ctx.const(_rho(ctx, len(columns)), "float32"))


def _voted(ctx: NodeContext, pairs: Expr, classes: int) -> Expr:
    """The class that wins most pairs, the first of equals."""
    firsts, seconds = np.triu_indices(classes, 1)
    wins = ctx.astype(ctx.call("greater", pairs, _number(ctx, 0)), "float32")
    for_first, for_second = np.zeros((2, len(firsts), classes), np.float32)
    for_first[np.arange(len(firsts)), firsts] = 1
    for_second[np.arange(len(firsts)), seconds] = 1
    loses = ctx.call("subtract", _number(ctx, 1), wins)
    votes = ctx.call(
        "add",
        ctx.call("matmul", wins, ctx.const(for_first, "float32")),
        ctx.call("matmul", loses, ctx.const(for_second, "float32")),
    )
    return ctx.call("argmax", votes, axis=1)


def _of_probabilities(ctx: NodeContext, pairs: Expr, classes: int, transform: str) -> Result:
    """1 / (1 + exp(a * score + b)) for the first of two classes."""
    if classes > 2:
        ctx.unsupported(
            f"probabilities of {classes} classes, which are found step by step", "export scores without them"
        )
    a, b = (floats(ctx, name) for name in ("prob_a", "prob_b"))
    if len(a) != 1 or len(b) != 1:
        ctx.malformed(f"{len(a)} and {len(b)} numbers prob_a and prob_b for one pair")
    line = ctx.call("add", ctx.call("multiply", pairs, _number(ctx, a[0])), _number(ctx, b[0]))
    first = ctx.call("clip", ctx.call("sigmoid", ctx.call("negative", line)), _LEAST, 1 - _LEAST)
    both = two_classes(ctx, first, ctx.call("subtract", _number(ctx, 1), first))
    return labels_of(ctx, _voted(ctx, pairs, classes)), transformed(ctx, both, transform)
