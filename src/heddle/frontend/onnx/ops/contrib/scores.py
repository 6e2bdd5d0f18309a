"""Attention between heads: scores of queries and keys, masks on them, and sums of values. What the operators
of com.microsoft share; each brings its inputs into this form.

Queries are (batch, heads, sequence, size), keys and values (batch, key heads, total, size). Where several
heads of queries share one of keys, all have 5 dimensions, the third counting the queries' heads of a group.
Scores, masks and their exponentials are computed in float32 at least.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heddle.frontend.onnx.context import NodeContext
from heddle.frontend.onnx.ops.contrib.standard import wide
from heddle.ir.expr import Expr
from heddle.prim.nodes import IntImm, PrimExpr
from heddle.support.frozen import frozen

MASKED = float(np.finfo(np.float32).min)
"""The score of a key that comes later than its query."""


@frozen
class Sizes:
    """Of one attention: the batch, the queries' positions, and the keys that they see."""

    batch: PrimExpr
    sequence: PrimExpr
    total: PrimExpr


def head_size(ctx: NodeContext, hidden: int, heads: int, what: str) -> int:
    """The size of one of `heads` equal parts of `hidden`. Raises: ImportModelError where there are none."""
    if heads < 1 or hidden % heads:
        ctx.malformed(f"{what} of {hidden} for {heads} heads")
    return hidden // heads


def static_dim_of(ctx: NodeContext, x: Expr, axis: int, what: str) -> int:
    """A size that must be known. Raises: ImportModelError N0203 with the dimension."""
    dim = ctx.dims_of(x)[axis]
    if not isinstance(dim, IntImm):
        ctx.unsupported(f"{what} must be constant, got {dim}", "fix the dimension with shape_dict")
    return int(dim)


def by_heads(ctx: NodeContext, x: Expr, heads: int, what: str) -> Expr:
    """(batch, sequence, heads * size) → (batch, heads, sequence, size)."""
    dims = ctx.dims_of(x)
    if len(dims) != 3:
        ctx.malformed(f"{what} must have 3 dimensions, got {len(dims)}")
    size = head_size(ctx, static_dim_of(ctx, x, 2, f"the size of {what}"), heads, f"a size of {what}")
    return ctx.call("permute_dims", ctx.reshape(x, (dims[0], dims[1], heads, size)), axes=(0, 2, 1, 3))


def joined_heads(ctx: NodeContext, x: Expr) -> Expr:
    """(batch, heads, sequence, size) → (batch, sequence, heads * size)."""
    batch, heads, sequence, size = ctx.dims_of(x)
    return ctx.reshape(ctx.call("permute_dims", x, axes=(0, 2, 1, 3)), (batch, sequence, heads * size))


def scores_of(ctx: NodeContext, q: Expr, k: Expr, scale: float) -> Expr:
    """q @ k' * scale, in the type of scores."""
    rank, dtype = len(ctx.dims_of(q)), wide(ctx, q)
    swapped = ctx.call("permute_dims", k, axes=(*range(rank - 2), rank - 1, rank - 2))
    made = ctx.call("matmul", q, swapped, out_dtype=dtype)
    return ctx.call("multiply", made, ctx.const(scale, dtype))


def weighted(ctx: NodeContext, scores: Expr, v: Expr, sink: Expr | None = None) -> Expr:
    """softmax(scores) @ v. `sink` is one more score of each row, whose value is 0."""
    axis, dtype = len(ctx.dims_of(scores)) - 1, str(ctx.type_of(v).dtype)
    shares = (
        ctx.call("nn.softmax", scores, axis=axis) if sink is None else _softmax_with(ctx, scores, sink, axis)
    )
    return ctx.call("matmul", ctx.astype(shares, dtype), v)


def _softmax_with(ctx: NodeContext, scores: Expr, sink: Expr, axis: int) -> Expr:
    most = ctx.call("maximum", ctx.call("max", scores, axis=(axis,), keepdims=True), sink)
    powers = ctx.call("exp", ctx.call("subtract", scores, most))
    rest = ctx.call("exp", ctx.call("subtract", sink, most))
    total = ctx.call("add", ctx.call("sum", powers, axis=(axis,), keepdims=True), rest)
    return ctx.call("divide", powers, total)


# ---- masks: what is added to scores (batch, heads, sequence, total), or which keys are seen


def padding_bias(ctx: NodeContext, index: int, sizes: Sizes, filtered: float) -> Expr:
    """From a mask of keys: `filtered` where it is 0, or where a key is outside of its row's bounds.

    The mask is (batch, total) or (batch, sequence, total) of zeros and ones, or (batch) ends of the keys,
    or (2 * batch) ends and then first keys.
    """
    rank, given = ctx.ndim(index), ctx.tensor(index)
    if rank == 1:
        seen = _within_bounds(ctx, index, sizes)
    elif rank == 2:
        given = ctx.cast_shape(given, (sizes.batch, sizes.total))
        seen = ctx.call("expand_dims", ctx.call("greater", given, ctx.like(0, index)), axis=(1, 2))
    elif rank == 3:
        given = ctx.cast_shape(given, (sizes.batch, sizes.sequence, sizes.total))
        seen = ctx.call("expand_dims", ctx.call("greater", given, ctx.like(0, index)), axis=(1,))
    else:
        ctx.unsupported(
            f"a mask of {rank} dimensions", "give one of (batch, total) or (batch, sequence, total)"
        )
    none = ctx.const(0.0, "float32")
    return ctx.call("where", seen, none, ctx.const(np.float32(filtered), "float32"))


def _within_bounds(ctx: NodeContext, index: int, sizes: Sizes) -> Expr:
    """(batch, 1, 1, total): which keys lie before the end, and not before the first."""
    bounds, count = ctx.tensor(index), ctx.dims(index)[0]
    same = ctx.importer.simplify.equal
    place = numbers(ctx, sizes.total, 4, 3, "int32")
    if same(count, sizes.batch):
        ends = ctx.reshape(bounds, (sizes.batch, 1, 1, 1))
        return ctx.call("less", place, ends)
    if not same(count, sizes.batch * 2):
        ctx.unsupported(
            f"a mask of {count} elements for a batch of {sizes.batch}",
            "give ends of keys, or ends and first keys",
        )
    both = ctx.reshape(bounds, (2, sizes.batch, 1, 1, 1))
    ends, firsts = (ctx.call("take", both, ctx.const(side, "int64"), axis=0, mode="fast") for side in (0, 1))
    inside = ctx.call("less", place, ends), ctx.call("greater_equal", place, firsts)
    return ctx.call("logical_and", *inside)


def numbers(ctx: NodeContext, size: PrimExpr, ndim: int, axis: int, dtype: str = "int64") -> Expr:
    """0, 1, .. along one of several dimensions, the others 1."""
    count = ctx.call("arange", 0, size, 1, dtype=dtype)
    return ctx.reshape(count, tuple(size if k == axis else 1 for k in range(ndim)))


def causal(ctx: NodeContext, sizes: Sizes, past: PrimExpr) -> Expr:
    """(1, 1, sequence, total): whether a key is not later than its query, which stands behind the past."""
    first = ctx.call("add", numbers(ctx, sizes.sequence, 4, 2), ctx.size(past))
    return ctx.call("less_equal", numbers(ctx, sizes.total, 4, 3), first)


def masked(
    ctx: NodeContext, scores: Expr, padding: Expr | None, seen: Expr | None, biases: Sequence[Expr]
) -> Expr:
    """Scores with what is added to them: the padding's bias, replaced where a key is not seen at all, and
    others."""
    dtype = wide(ctx, scores)
    if seen is not None:
        before = padding if padding is not None else ctx.const(0.0, "float32")
        padding = ctx.call("where", seen, before, ctx.const(np.float32(MASKED), "float32"))
    if padding is not None:
        scores = ctx.call("add", scores, ctx.astype(padding, dtype))
    for bias in biases:
        scores = ctx.call("add", scores, ctx.astype(bias, dtype))
    return scores
