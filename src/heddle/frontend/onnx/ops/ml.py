"""Operators of ai.onnx.ml: features and trees. Attributes are constants, so trees are walked level by level,
all rows and all trees at once."""

from __future__ import annotations

import numpy as np

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.registry import converts
from heddle.ir.expr import Expr

ML = "ai.onnx.ml"


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
        total = ctx.dims(1)[0]
        for dim in ctx.dims(1)[1:]:
            total = total * dim
        columns = ctx.reshape(columns, (total,))
    return ctx.call("take", x, columns, axis=-1)


@converts("Scaler", domain=ML)
def scaler(ctx: NodeContext) -> Result:
    """(x - offset) * scale, in float32."""
    x = ctx.astype(ctx.tensor(0), "float32")
    offset, scale = (
        ctx.const(np.asarray(ctx.attr(name), np.float32), "float32") for name in ("offset", "scale")
    )
    return ctx.call("multiply", ctx.call("subtract", x, offset), scale)


@converts("LinearRegressor", domain=ML)
def linear_regressor(ctx: NodeContext) -> Result:
    targets = ctx.attr("targets", 1)
    if ctx.attr("post_transform", "NONE") != "NONE":
        ctx.unsupported(f"the transform {ctx.attr('post_transform')} of results")
    weights = np.asarray(ctx.attr("coefficients"), np.float32).reshape(targets, -1)
    made = ctx.call("matmul", ctx.astype(ctx.tensor(0), "float32"), ctx.const(weights.T.copy(), "float32"))
    given = ctx.attr("intercepts", ())
    return ctx.call("add", made, ctx.const(np.asarray(given, np.float32), "float32")) if given else made


# ---- trees

_MODES = ("less_equal", "less", "greater_equal", "greater", "equal", "not_equal")
"""Of nodes, by number; 6 means: among the values of a set."""
_MEMBER = len(_MODES)
_AGGREGATES = ("mean", "sum", "min", "max")


@converts("TreeEnsemble", since=5, domain=ML)
def tree_ensemble(ctx: NodeContext) -> Result:
    """(rows, features) → (rows, targets). Leaves are numbered behind the nodes, and lead to themselves."""
    dtype = ctx.dtype(0)
    counts = len(ctx.attr("nodes_featureids"))
    leaves = len(ctx.attr("leaf_targetids"))
    roots = np.asarray(ctx.attr("tree_roots"), np.int64)
    onward = np.stack([_onward(ctx, side, counts, leaves) for side in ("false", "true")])
    alone = np.asarray(ctx.attr("nodes_trueleafs"))[roots].astype(bool)
    alone &= onward[0][roots] == onward[1][roots]  # a tree of one leaf
    roots = np.where(alone, onward[1][roots], roots)
    values = np.zeros(counts + leaves, dtype)
    values[:counts] = np.asarray(ctx.attr("nodes_splits")).reshape(-1)
    features = np.zeros(counts + leaves, np.int64)
    features[:counts] = ctx.attr("nodes_featureids")
    rows = ctx.dims(0)[0]
    at = ctx.call("broadcast_to", ctx.const(roots, "int64"), (rows, len(roots)))
    for _ in range(_depth(ctx, onward, counts, roots)):
        at = _step(ctx, at, onward, features, values)
    leaf = ctx.call("subtract", at, ctx.const([counts], "int64"))
    return _aggregated(ctx, leaf, len(roots))


def _onward(ctx: NodeContext, side: str, counts: int, leaves: int) -> np.ndarray:
    """Where each node goes, as a number among nodes and leaves."""
    targets = np.asarray(ctx.attr(f"nodes_{side}nodeids"), np.int64)
    is_leaf = np.asarray(ctx.attr(f"nodes_{side}leafs"), np.int64).astype(bool)
    if len(targets) != counts or (targets < 0).any() or (targets >= np.where(is_leaf, leaves, counts)).any():
        ctx.malformed(f"nodes_{side}nodeids name nodes that do not exist")
    return np.concatenate([np.where(is_leaf, targets + counts, targets), np.arange(counts, counts + leaves)])


def _depth(ctx: NodeContext, onward: np.ndarray, counts: int, roots: np.ndarray) -> int:
    """How many steps lead from every root to a leaf."""
    level, depth = np.unique(roots), 0
    while (level < counts).any():
        depth += 1
        if depth > counts:
            ctx.malformed("a tree has a cycle")
        level = np.unique(onward[:, level[level < counts]])
    return depth


def _step(ctx: NodeContext, at: Expr, onward: np.ndarray, features: np.ndarray, values: np.ndarray) -> Expr:
    """From nodes (rows, trees) to their children."""

    def of_node(table: np.ndarray, dtype: str) -> Expr:
        return ctx.call("take", ctx.const(table, dtype), at, axis=0)

    x = ctx.call("gather_elements", ctx.tensor(0), of_node(features, "int64"), axis=1)
    modes = np.asarray(ctx.attr("nodes_modes")).reshape(-1)
    kinds = np.full(len(features), -1, np.int64)
    kinds[: len(modes)] = modes
    split, kind = of_node(values, ctx.dtype(0)), of_node(kinds, "int64")
    is_true: Expr | None = None
    for number in np.unique(modes):
        if number == _MEMBER:
            found = _among(ctx, x, at, modes, len(features))
        elif 0 <= number < _MEMBER:
            found = ctx.call(_MODES[number], x, split)
        else:
            ctx.malformed(f"unknown mode {number} of a node")
        own = ctx.call("equal", kind, ctx.const([number], "int64"))
        is_true = found if is_true is None else ctx.call("where", own, found, is_true)
    assert is_true is not None
    missing = ctx.attr("nodes_missing_value_tracks_true", ())
    if any(missing):
        flags = np.zeros(len(features), bool)
        flags[: len(missing)] = np.asarray(missing, bool)
        lost = ctx.call("logical_and", ctx.call("isnan", x), of_node(flags, "bool"))
        is_true = ctx.call("logical_or", is_true, lost)
    return ctx.call("where", is_true, of_node(onward[1], "int64"), of_node(onward[0], "int64"))


def _among(ctx: NodeContext, x: Expr, at: Expr, modes: np.ndarray, size: int) -> Expr:
    """Whether values are members of the sets of their nodes; a NaN ends each set in the list."""
    given = np.asarray(ctx.attr("membership_values", ()), ctx.dtype(0)).reshape(-1)
    ends = np.flatnonzero(np.isnan(given))
    nodes = np.flatnonzero(modes == _MEMBER)
    if len(ends) != len(nodes):
        ctx.malformed(f"{len(ends)} sets of members for {len(nodes)} nodes")
    sets = [part[~np.isnan(part)] for part in np.split(given, ends + 1)[:-1]]
    table = np.full((size, max(len(part) for part in sets)), np.nan, given.dtype)
    for node, part in zip(nodes, sets, strict=True):
        table[node, : len(part)] = part
    members = ctx.call("take", ctx.const(table, ctx.dtype(0)), at, axis=0)
    return ctx.call("any", ctx.call("equal", ctx.call("expand_dims", x, axis=(2,)), members), axis=(2,))


def _aggregated(ctx: NodeContext, leaf: Expr, trees: int) -> Expr:
    """What the leaves of a row give each target."""
    aggregate = ctx.attr("aggregate_function", 1)
    if ctx.attr("post_transform", 0) or not 0 <= aggregate < len(_AGGREGATES):
        ctx.unsupported(f"the transform {ctx.attr('post_transform', 0)} of results")
    dtype, count = ctx.dtype(0), ctx.attr("n_targets")
    targets = ctx.call("take", ctx.const(np.asarray(ctx.attr("leaf_targetids")), "int64"), leaf, axis=0)
    weights = np.asarray(ctx.attr("leaf_weights")).reshape(-1).astype(dtype)
    found = ctx.call("expand_dims", ctx.call("take", ctx.const(weights, dtype), leaf, axis=0), axis=(2,))
    own = ctx.call("equal", ctx.call("expand_dims", targets, axis=(2,)), ctx.const(np.arange(count), "int64"))
    name = _AGGREGATES[aggregate]
    rest = {"min": np.finfo(dtype).max, "max": np.finfo(dtype).min}.get(name, 0)
    kept = ctx.call("where", own, found, ctx.const(np.asarray(rest, dtype), dtype))
    made = ctx.call("sum" if name == "mean" else name, kept, axis=(1,))
    return ctx.call("divide", made, ctx.const(np.asarray(trees, dtype), dtype)) if name == "mean" else made
