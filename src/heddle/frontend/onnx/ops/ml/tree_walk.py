"""Walking trees whose nodes are constants: level by level, all rows and all trees at once.

A walk is at places. The two children of a node lie side by side, first the one for a test that is false:

    at = first[at] + (x[feature[at]] <= value[at])

The first child and the feature of a place share one word where they fit. A leaf leads to itself: its value is
NaN, so its test is false for every x. Behind the last place lies one that no walk comes to: with it every
table has a row for each number that the formula may give, so that no step checks its index (`ProveIndices`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from heddle.frontend.onnx.context import NodeContext
from heddle.ir.expr import Expr
from heddle.support.frozen import frozen

_MODES = ("less_equal", "less", "greater_equal", "greater", "equal", "not_equal")
"""Tests of nodes, by number; 6 means: among the values of a set."""
_EQUAL, _NOT_EQUAL, MEMBER = 4, 5, len(_MODES)
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_WORD_BITS = 32

Array = np.ndarray[Any, Any]


@frozen(slots=False)
class Forest:
    """Nodes by number, leaves behind them, which lead to themselves. See `without_inequality`.

    `onward` has two rows: where a node goes where its test is false, and where it is true. `modes` and
    `is_lost` are those of nodes; `features` and `values` of nodes and leaves. `weights` are (leaves,
    targets), and `given` says which of them a leaf has.
    """

    roots: Array
    onward: Array
    features: Array
    values: Array
    modes: Array
    is_lost: Array
    members: Array | None
    weights: Array
    given: Array

    @property
    def num_nodes(self) -> int:
        """How many are no leaves."""
        return len(self.modes)

    @cached_property
    def places(self) -> Array:
        """The node or leaf at each place: roots first, then the children of each node, then a leaf that
        stands nowhere."""
        pairs = self.onward[:, : self.num_nodes].T.reshape(-1)
        return np.concatenate([self.roots, pairs, [self.num_nodes]])

    @cached_property
    def first(self) -> Array:
        """Where the first child of each place lies; a leaf's is the leaf. The last place leads to place 0."""
        pairs = len(self.roots) + 2 * self.places
        own = np.arange(len(self.places))
        own[-1] = 0
        return np.where(self.is_leaf, own, pairs)

    @property
    def is_leaf(self) -> Array:
        """Whether there is a leaf at each place."""
        return self.places >= self.num_nodes

    def of_nodes(self, table: Array, rest: Any) -> Array:
        """What nodes have, at their places; `rest` at leaves."""
        found = table[np.where(self.is_leaf, 0, self.places)] if len(table) else table
        shape = (-1, *[1] * (table.ndim - 1))
        made: Array = np.where(self.is_leaf.reshape(shape), np.asarray(rest, table.dtype), found)
        return made

    def at_places(self, table: Array) -> Array:
        """Rows of leaves at their places, zeros at those of nodes."""
        found = table[np.where(self.is_leaf, self.places - self.num_nodes, 0)]
        made: Array = np.where(self.is_leaf[:, None], found, np.zeros((), table.dtype))
        return made


def without_inequality(forest: Forest) -> Forest:
    """Nodes that test for what is not equal test for what is, with their children in the other order: then
    no test is true of a NaN that it compares with."""
    swapped = forest.modes == _NOT_EQUAL
    if not swapped.any():
        return forest
    onward = forest.onward.copy()
    onward[:, : forest.num_nodes][:, swapped] = onward[::-1, : forest.num_nodes][:, swapped]
    modes = np.where(swapped, _EQUAL, forest.modes)
    return replace(forest, onward=onward, modes=modes, is_lost=forest.is_lost & ~swapped)


def leaves_of(ctx: NodeContext, forest: Forest, dtype: str) -> Expr:
    """(rows, trees): the place of the leaf that a row comes to. Values are compared in `dtype`."""
    if ctx.ndim(0) not in (1, 2):
        ctx.malformed(f"expected rows of features, got {ctx.ndim(0)} dimensions")
    x = ctx.astype(ctx.tensor(0), dtype)
    x = ctx.call("expand_dims", x, axis=(0,)) if ctx.ndim(0) == 1 else x
    rows, depth = ctx.dims_of(x)[0], _depth(ctx, forest)
    word = "uint32" if len(forest.places).bit_length() <= _WORD_BITS else "int64"
    roots = ctx.const(np.arange(len(forest.roots)), word)
    at = ctx.call("broadcast_to", roots, (rows, len(forest.roots)))
    tables = _Tables.of(ctx, forest, word) if depth else None
    for _ in range(depth):
        assert tables is not None
        at = tables.step(ctx, x, at)
    return at


def _depth(ctx: NodeContext, forest: Forest) -> int:
    """How many steps lead from every root to a leaf."""
    counts = forest.num_nodes
    level, depth = np.unique(forest.roots), 0
    while (level < counts).any():
        depth += 1
        if depth > counts:
            ctx.malformed("a tree has a cycle")
        level = np.unique(forest.onward[:, level[level < counts]])
    return depth


@frozen
class _Tables:
    """What nodes have, by their places: constants that all steps of a walk read. `both` holds the first child
    above `bits` of the feature; or `feature` and `first` are apart. `last_feature` is the greatest."""

    word: str
    bits: int
    last_feature: int
    both: Expr | None
    feature: Expr
    first: Expr
    values: Expr
    kinds: Expr
    numbers: tuple[int, ...]
    members: Expr | None
    lost: Expr | None

    @staticmethod
    def of(ctx: NodeContext, forest: Forest, word: str) -> _Tables:
        for number in np.unique(forest.modes):
            if not (0 <= number < MEMBER or (number == MEMBER and forest.members is not None)):
                ctx.malformed(f"unknown mode {number} of a node")
        dtype = str(forest.values.dtype)
        features = forest.of_nodes(forest.features[: forest.num_nodes], 0)
        last = int(features.max(initial=0))
        bits = last.bit_length()
        fits = len(forest.places).bit_length() + bits <= _WORD_BITS
        sets = None if forest.members is None else forest.of_nodes(forest.members, np.nan)
        lost = forest.of_nodes(forest.is_lost, False) if forest.is_lost.any() else None
        return _Tables(
            word,
            bits,
            last,
            ctx.const(forest.first << bits | features, "uint32") if fits else None,
            ctx.const(features, "int64"),
            ctx.const(forest.first, word),
            ctx.const(forest.of_nodes(forest.values, np.nan), dtype),
            ctx.const(forest.of_nodes(forest.modes, -1), "int32"),
            tuple(int(number) for number in np.unique(forest.modes)),
            None if sets is None else ctx.const(sets, dtype),
            None if lost is None else ctx.const(lost, "bool"),
        )

    def step(self, ctx: NodeContext, rows: Expr, at: Expr) -> Expr:
        """From places (rows, trees) to their children."""

        def here(table: Expr) -> Expr:
            return ctx.call("take", table, at, axis=0)

        feature, first = self._feature_and_child(ctx, here)
        x = ctx.call("gather_elements", rows, feature, axis=1)
        split, kind = here(self.values), here(self.kinds)
        is_true: Expr | None = None
        for number in self.numbers:
            if number == MEMBER:
                assert self.members is not None
                found = ctx.call("equal", ctx.call("expand_dims", x, axis=(2,)), here(self.members))
                found = ctx.call("any", found, axis=(2,))
            else:
                found = ctx.call(_MODES[number], x, split)
            own = ctx.call("equal", kind, ctx.const([number], "int32"))
            is_true = found if is_true is None else ctx.call("where", own, found, is_true)
        assert is_true is not None
        if self.lost is not None:
            lost = ctx.call("logical_and", ctx.call("isnan", x), here(self.lost))
            is_true = ctx.call("logical_or", is_true, lost)
        return ctx.call("add", first, ctx.astype(is_true, self.word))

    def _feature_and_child(self, ctx: NodeContext, here: Callable[[Expr], Expr]) -> tuple[Expr, Expr]:
        """The feature that a place tests, and its first child; of one word, where both fit."""
        if self.both is None:
            return here(self.feature), here(self.first)
        both, mask = here(self.both), ctx.const((1 << self.bits) - 1, "uint32")
        shifted = ctx.call("right_shift", both, ctx.const(self.bits, "uint32"))
        feature = ctx.call("bitwise_and", both, mask)
        if self.last_feature < (1 << self.bits) - 1:  # within the range that is known of it
            feature = ctx.call("minimum", feature, ctx.const(self.last_feature, "uint32"))
        return feature, shifted


def aggregated(ctx: NodeContext, forest: Forest, leaf: Expr, aggregate: str, dtype: str) -> Expr:
    """(rows, targets): what the leaves of a row, given by their places, give each target."""
    if aggregate not in AGGREGATES:
        ctx.malformed(f"aggregate_function must be one of {', '.join(AGGREGATES)}, got {aggregate!r}")
    weights = forest.weights.astype(dtype)
    if aggregate in ("MIN", "MAX"):
        limits = np.finfo(dtype)
        weights = np.where(forest.given, weights, limits.max if aggregate == "MIN" else limits.min)
    table = forest.at_places(weights.astype(dtype))
    found = ctx.call("take", ctx.const(table, dtype), leaf, axis=0)  # (rows, trees, targets)
    made = ctx.call({"MIN": "min", "MAX": "max"}.get(aggregate, "sum"), found, axis=(1,))
    if aggregate != "AVERAGE":
        return made
    return ctx.call("divide", made, ctx.const(np.asarray(len(forest.roots), dtype), dtype))
