"""Trees of ai.onnx.ml.

The operators of operator sets 1 and 3 (`TreeEnsembleClassifier`, `TreeEnsembleRegressor`) name nodes by tree
and number, and the one of operator set 5 by their places; both become one `Forest`, which `tree_walk` walks.
"""

from __future__ import annotations

import numpy as np

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.ml.scores import (
    TRANSFORMS,
    floats,
    label_count,
    labels_of,
    transformed,
    two_classes,
)
from heddle.frontend.onnx.ops.ml.tree_walk import (
    AGGREGATES,
    MEMBER,
    Array,
    Forest,
    aggregated,
    leaves_of,
    without_inequality,
)
from heddle.frontend.onnx.registry import ML, converts
from heddle.ir.expr import Expr

_NAMES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
_LEAF = "LEAF"
_OF_NODES = (
    "nodes_splits",
    "nodes_modes",
    "nodes_truenodeids",
    "nodes_falsenodeids",
    "nodes_trueleafs",
    "nodes_falseleafs",
)
"""Attributes of operator set 5 with a value for each node."""


# ---- operator set 5


@converts("TreeEnsemble", since=5, domain=ML)
def tree_ensemble(ctx: NodeContext) -> Result:
    """(rows, features) → (rows, targets)."""
    forest = _forest(ctx)
    aggregate, transform = ctx.attr("aggregate_function", 1), ctx.attr("post_transform", 0)
    if not 0 <= aggregate < len(AGGREGATES) or not 0 <= transform < len(TRANSFORMS):
        ctx.malformed(f"aggregate_function {aggregate} and post_transform {transform}")
    made = aggregated(ctx, forest, leaves_of(ctx, forest, ctx.dtype(0)), AGGREGATES[aggregate], ctx.dtype(0))
    return transformed(ctx, made, TRANSFORMS[transform])


def _forest(ctx: NodeContext) -> Forest:
    dtype = ctx.dtype(0)
    counts, leaves = len(ctx.attr("nodes_featureids")), len(ctx.attr("leaf_targetids"))
    for names, count in ((_OF_NODES, counts), (("leaf_weights",), leaves)):
        for name in names:
            if np.size(ctx.attr(name)) != count:
                ctx.malformed(f"{name} has {np.size(ctx.attr(name))} values, expected {count}")
    roots = np.asarray(ctx.attr("tree_roots"), np.int64)
    if len(roots) == 0 or (roots < 0).any() or (roots >= counts).any():
        ctx.malformed("tree_roots name nodes that do not exist")
    onward = np.stack([_onward(ctx, side, counts, leaves) for side in ("false", "true")])
    alone = np.asarray(ctx.attr("nodes_trueleafs"))[roots].astype(bool)
    alone &= onward[0][roots] == onward[1][roots]  # a tree of one leaf
    values = np.zeros(counts + leaves, dtype)
    values[:counts] = np.asarray(ctx.attr("nodes_splits")).reshape(-1)
    features = np.zeros(counts + leaves, np.int64)
    features[:counts] = ctx.attr("nodes_featureids")
    modes = np.asarray(ctx.attr("nodes_modes")).reshape(-1).astype(np.int64)
    lost = np.zeros(counts, bool)
    given = ctx.attr("nodes_missing_value_tracks_true", ())
    lost[: len(given)] = np.asarray(given, bool)
    targets, count = np.asarray(ctx.attr("leaf_targetids"), np.int64), ctx.attr("n_targets")
    if (targets < 0).any() or (targets >= count).any():
        ctx.malformed(f"leaf_targetids name targets out of {count}")
    weights, has = np.zeros((leaves, count), dtype), np.zeros((leaves, count), bool)
    weights[np.arange(leaves), targets] = np.asarray(ctx.attr("leaf_weights")).reshape(-1)
    has[np.arange(leaves), targets] = True
    forest = Forest(
        np.where(alone, onward[1][roots], roots),
        onward,
        features,
        values,
        modes,
        lost,
        _members(ctx, modes, counts + leaves, dtype) if (modes == MEMBER).any() else None,
        weights,
        has,
    )
    return without_inequality(forest)


def _onward(ctx: NodeContext, side: str, counts: int, leaves: int) -> Array:
    """Where each node goes, as a number among nodes and leaves."""
    targets = np.asarray(ctx.attr(f"nodes_{side}nodeids"), np.int64)
    is_leaf = np.asarray(ctx.attr(f"nodes_{side}leafs"), np.int64).astype(bool)
    if len(targets) != counts or (targets < 0).any() or (targets >= np.where(is_leaf, leaves, counts)).any():
        ctx.malformed(f"nodes_{side}nodeids name nodes that do not exist")
    return np.concatenate([np.where(is_leaf, targets + counts, targets), np.arange(counts, counts + leaves)])


def _members(ctx: NodeContext, modes: Array, size: int, dtype: str) -> Array:
    """The sets of nodes, a row each, filled up by NaN, which also ends each set in the list."""
    given = np.asarray(ctx.attr("membership_values", ()), dtype).reshape(-1)
    ends = np.flatnonzero(np.isnan(given))
    nodes = np.flatnonzero(modes == MEMBER)
    if len(ends) != len(nodes):
        ctx.malformed(f"{len(ends)} sets of members for {len(nodes)} nodes")
    sets = [part[~np.isnan(part)] for part in np.split(given, ends + 1)[:-1]]
    table = np.full((size, max(len(part) for part in sets)), np.nan, given.dtype)
    for node, part in zip(nodes, sets, strict=True):
        table[node, : len(part)] = part
    return table


# ---- operator sets 1 and 3


@converts("TreeEnsembleRegressor", domain=ML)
def tree_ensemble_regressor(ctx: NodeContext) -> Result:
    """(rows, features) → (rows, targets) of float32."""
    count = ctx.attr("n_targets", 1)
    forest = _named_forest(ctx, "target", count)
    leaf = leaves_of(ctx, forest, str(forest.values.dtype))
    made = aggregated(ctx, forest, leaf, ctx.attr("aggregate_function", "SUM"), str(forest.weights.dtype))
    base = _base_values(ctx)
    if len(base):
        if len(base) != count:
            ctx.malformed(f"{len(base)} base values for {count} targets")
        made = ctx.call("add", made, ctx.const(base, str(forest.weights.dtype)))
    return ctx.astype(transformed(ctx, made, ctx.attr("post_transform", "NONE")), "float32")


@converts("TreeEnsembleClassifier", domain=ML)
def tree_ensemble_classifier(ctx: NodeContext) -> Result:
    """The label of each row, and scores (rows, classes) of float32."""
    count = label_count(ctx)
    if count < 1:
        ctx.malformed("no labels of classes")
    forest = _named_forest(ctx, "class", count)
    dtype = str(forest.weights.dtype)
    leaf = leaves_of(ctx, forest, str(forest.values.dtype))
    made = aggregated(ctx, forest, leaf, "SUM", dtype)
    base = _base_values(ctx)
    single = np.unique(np.flatnonzero(forest.given.any(axis=0)))
    if count == 2 and len(single) == 1:
        return _binary(ctx, forest, made, base, int(single[0]))
    if len(base):
        if len(base) != count:
            ctx.malformed(f"{len(base)} base values for {count} classes")
        made = ctx.call("add", made, ctx.const(base, dtype))
    labels = labels_of(ctx, ctx.call("argmax", _candidates(ctx, forest, leaf, made), axis=1))
    return labels, ctx.astype(transformed(ctx, made, ctx.attr("post_transform", "NONE")), "float32")


def _candidates(ctx: NodeContext, forest: Forest, leaf: Expr, scores: Expr) -> Expr:
    """Scores of classes, the lowest for one that no leaf of the row knows: its zero is no score."""
    if (forest.weights >= 0).all() or forest.given.all():
        return scores
    dtype = str(forest.weights.dtype)
    given = ctx.const(forest.at_places(forest.given), "bool")
    known = ctx.call("any", ctx.call("take", given, leaf, axis=0), axis=(1,))
    return ctx.call("where", known, scores, ctx.const(np.finfo(dtype).min, dtype))


def _binary(ctx: NodeContext, forest: Forest, made: Expr, base: Array, column: int) -> Result:
    """Two classes, and weights for one of them: the score of the other follows from it. Weights that are all
    positive are shares of one; others are differences. Weights for the second class leave the first at 0."""
    dtype, transform = str(forest.weights.dtype), ctx.attr("post_transform", "NONE")
    if len(base) > 1 - column or transform == "PROBIT":
        ctx.unsupported(f"{len(base)} base values and the transform {transform} of one score for two classes")
    score = ctx.call("take", made, ctx.const([column], "int64"), axis=1)
    if len(base):
        score = ctx.call("add", score, ctx.const(base, dtype))
    is_share = bool((forest.weights[forest.given] >= 0).all())
    limit = ctx.const(0.5 if is_share else 0.0, dtype)
    wins = ctx.astype(ctx.call("greater", score, limit), "int64")
    labels = labels_of(ctx, ctx.reshape(wins, (ctx.dims_of(score)[0],)))
    if column == 1:
        return labels, ctx.astype(transformed(ctx, made, transform), "float32")
    if is_share and transform != "LOGISTIC":
        low = ctx.call("subtract", ctx.const(1, dtype), score)
    else:
        low = ctx.call("negative", score)
    if transform == "LOGISTIC":
        low, score = (ctx.call("sigmoid", x) for x in (low, score))
    return labels, ctx.astype(two_classes(ctx, low, score), "float32")


def _base_values(ctx: NodeContext) -> Array:
    exact = floats(ctx, "base_values_as_tensor", np.float64)
    return exact if len(exact) else floats(ctx, "base_values").astype(np.float64)


def _numbers(ctx: NodeContext, name: str) -> Array:
    """An attribute of numbers, which operator set 3 may give in double precision."""
    exact = ctx.attr(f"{name}_as_tensor", None)
    return np.asarray(ctx.attr(name, ()), np.float32) if exact is None else np.asarray(exact).reshape(-1)


def _named_forest(ctx: NodeContext, kind: str, count: int) -> Forest:
    """From nodes that are named by their tree and a number in it; `kind` are targets or classes."""
    trees, ids = (np.asarray(ctx.attr(f"nodes_{name}"), np.int64) for name in ("treeids", "nodeids"))
    places = {key: place for place, key in enumerate(zip(trees.tolist(), ids.tolist(), strict=False))}
    if len(trees) != len(ids) or len(places) != len(ids) or not places:
        ctx.malformed("nodes_treeids and nodes_nodeids name a node twice, or none")
    modes = [str(mode) for mode in ctx.attr("nodes_modes")]
    unknown = sorted({mode for mode in modes if mode not in (*_NAMES, _LEAF)})
    if unknown or len(modes) != len(ids):
        ctx.malformed(f"{len(modes)} modes for {len(ids)} nodes, unknown {unknown}")
    is_leaf = np.asarray([mode == _LEAF for mode in modes])
    number = np.empty(len(ids), np.int64)  # inner nodes first, leaves behind them
    number[~is_leaf] = np.arange((~is_leaf).sum())
    number[is_leaf] = np.arange((~is_leaf).sum(), len(ids))
    inner = np.flatnonzero(~is_leaf)
    children = [_children(ctx, side, trees, places, inner) for side in ("false", "true")]
    onward = np.stack([np.concatenate([number[side], number[is_leaf]]) for side in children])
    firsts = [int(np.flatnonzero(trees == tree)[0]) for tree in dict.fromkeys(trees.tolist())]
    values = _numbers(ctx, "nodes_values")
    wide = "float64" if ctx.dtype(0) == "float64" or values.dtype == np.float64 else "float32"
    order = np.argsort(number)
    lost = np.zeros(len(ids), bool)
    given = ctx.attr("nodes_missing_value_tracks_true", ())
    lost[: len(given)] = np.asarray(given, bool)
    weights, has = _leaf_weights(ctx, kind, count, places, number, len(inner))
    forest = Forest(
        number[firsts],
        onward,
        np.where(is_leaf, 0, np.asarray(ctx.attr("nodes_featureids"), np.int64))[order],
        values.astype(wide)[order],
        np.asarray([_NAMES.index(modes[place]) for place in inner], np.int64),
        lost[inner],
        None,
        weights,
        has,
    )
    return without_inequality(forest)


def _children(
    ctx: NodeContext, side: str, trees: Array, places: dict[tuple[int, int], int], inner: Array
) -> Array:
    """The place of each inner node's child."""
    ids = ctx.attr(f"nodes_{side}nodeids")
    found = (
        [places.get((int(trees[node]), int(ids[node]))) for node in inner]
        if len(ids) == len(trees)
        else [None]
    )
    if None in found:
        ctx.malformed(f"nodes_{side}nodeids name nodes that do not exist")
    return np.asarray(found, np.int64)


def _leaf_weights(
    ctx: NodeContext, kind: str, count: int, places: dict[tuple[int, int], int], number: Array, inner: int
) -> tuple[Array, Array]:
    """(leaves, targets): weights, and which are there."""
    amounts = _numbers(ctx, f"{kind}_weights")
    wide = np.float64 if ctx.dtype(0) == "float64" or amounts.dtype == np.float64 else np.float32
    leaves = len(number) - inner
    weights, has = np.zeros((leaves, count), wide), np.zeros((leaves, count), bool)
    names = [ctx.attr(f"{kind}_{name}") for name in ("treeids", "nodeids", "ids")]
    if not all(len(name) == len(amounts) for name in names):
        ctx.malformed(f"{kind}_treeids, {kind}_nodeids, {kind}_ids and {kind}_weights differ in length")
    for tree, node, target, amount in zip(*names, amounts.tolist(), strict=True):
        place = places.get((int(tree), int(node)))
        if place is None or not 0 <= target < count:
            ctx.malformed(f"{kind}_ids name node {node} of tree {tree} and {kind} {target}")
        if number[place] < inner:
            continue  # weights of inner nodes are never reached
        weights[number[place] - inner, target] += amount
        has[number[place] - inner, target] = True
    return weights, has
