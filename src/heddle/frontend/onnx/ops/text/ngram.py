"""TfIdfVectorizer: how often the n-grams of a list occur in rows of integers."""

from __future__ import annotations

import numpy as np

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.tensor.rearrange import slice_of
from heddle.frontend.onnx.proto import Node
from heddle.frontend.onnx.registry import converts, denies
from heddle.ir.expr import Expr
from heddle.prim import ops
from heddle.prim.nodes import PrimExpr, constant


@denies("TfIdfVectorizer")
def strings(node: Node) -> str | None:
    """Why a pool of strings is refused, or None."""
    return "strings are no element type of ours" if node.attrs.get("pool_strings") else None


@converts("TfIdfVectorizer", since=9)
def tf_idf(ctx: NodeContext) -> Result:
    """Rows of (n, length), or one row. The elements of an n-gram stand next to each other, or with 1 to
    `max_skip_count` elements between each two."""
    mode = ctx.attr("mode")
    if mode not in ("TF", "IDF", "TFIDF"):
        ctx.malformed(f"mode must be TF, IDF or TFIDF, got {mode!r}")
    columns = np.asarray(ctx.attr("ngram_indexes"))
    rank = ctx.ndim(0)
    if rank not in (1, 2):
        ctx.malformed(f"expected one row or rows, got {rank} dimensions")
    x = ctx.astype(ctx.tensor(0), "int64")
    if rank == 1:
        x = ctx.call("expand_dims", x, axis=(0,))
    parts, places = [], []
    for first, grams in _grams(ctx):
        parts.append(_counts(ctx, x, grams))
        places.append(columns[first : first + len(grams)])
    size = int(columns.max(initial=-1)) + 1
    found = _in_columns(ctx, x, parts, np.concatenate(places) if places else columns[:0], size)
    made = _weighted(ctx, found, mode)
    return made if rank == 2 else ctx.reshape(made, (size,))


def _grams(ctx: NodeContext) -> list[tuple[int, np.ndarray]]:
    """The n-grams of the lengths that are asked for: number of the first, and (count, length) elements."""
    pool, starts = np.asarray(ctx.attr("pool_int64s", ()), np.int64), ctx.attr("ngram_counts")
    found, number = [], 0
    for index, start in enumerate(starts):
        end = starts[index + 1] if index + 1 < len(starts) else len(pool)
        length = index + 1
        if not 0 <= start <= end <= len(pool) or (end - start) % length:
            ctx.malformed(f"ngram_counts {list(starts)} do not fit a pool of {len(pool)}")
        grams = pool[start:end].reshape(-1, length)
        if len(grams) and ctx.attr("min_gram_length") <= length <= ctx.attr("max_gram_length"):
            found.append((number, grams))
        number += len(grams)
    if number != len(ctx.attr("ngram_indexes")):
        ctx.malformed(f"{len(ctx.attr('ngram_indexes'))} columns for {number} n-grams")
    return found


def _counts(ctx: NodeContext, x: Expr, grams: np.ndarray) -> Expr:
    """(rows, n-grams): in how many places each n-gram begins."""
    length = grams.shape[1]
    skips = ctx.attr("max_skip_count") + 1 if length > 1 else 1
    total: Expr | None = None
    for step in range(1, skips + 1):
        found = _with_step(ctx, x, grams, step)
        total = found if total is None else ctx.call("add", total, found)
    assert total is not None
    return total


def _with_step(ctx: NodeContext, x: Expr, grams: np.ndarray, step: int) -> Expr:
    reach = (grams.shape[1] - 1) * step
    size = ctx.dims_of(x)[1]
    (places,) = ctx.importer.named_dims([ops.maximum(size - reach, 0)], "places")
    hits: Expr | None = None
    for index in range(grams.shape[1]):
        begin: PrimExpr = ops.minimum(constant(index * step, "int64"), size)
        row = slice_of(ctx, x, [1], [begin], [begin + places], [1])
        row = ctx.reshape(row, (ctx.dims_of(x)[0], places, 1))
        same = ctx.call("equal", row, ctx.const(grams[:, index], "int64"))
        hits = same if hits is None else ctx.call("logical_and", hits, same)
    assert hits is not None
    return ctx.call("sum", ctx.astype(hits, "float32"), axis=(1,), keepdims=False)


def _in_columns(ctx: NodeContext, x: Expr, parts: list[Expr], places: np.ndarray, size: int) -> Expr:
    """The counts in the columns of their n-grams. Several n-grams of one column are added up."""
    if not parts:
        return ctx.call("zeros", (ctx.dims_of(x)[0], size), dtype="float32")
    counts = parts[0] if len(parts) == 1 else ctx.call("concat", tuple(parts), axis=1)
    target = np.zeros((len(places), size), np.float32)
    target[np.arange(len(places)), places] = 1
    return ctx.call("matmul", counts, ctx.const(target, "float32"))


def _weighted(ctx: NodeContext, counts: Expr, mode: str) -> Expr:
    """TF: the counts. IDF: the n-gram's weight where there is any. TFIDF: counts times weights."""
    given = ctx.attr("weights", ())
    if mode == "TF":
        return counts
    if mode == "IDF":
        counts = ctx.astype(ctx.call("greater", counts, ctx.const([0], "float32")), "float32")
    if not given:
        return counts
    places = np.asarray(ctx.attr("ngram_indexes"))
    weights = np.zeros(int(places.max(initial=-1)) + 1, np.float32)
    if len(given) != len(places):
        ctx.malformed(f"{len(given)} weights for {len(places)} n-grams")
    weights[places] = given
    return ctx.call("multiply", counts, ctx.const(weights, "float32"))
