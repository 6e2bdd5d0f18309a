"""Transposes, joins, splits, tiles and the rearrangements of image blocks."""

from __future__ import annotations

from itertools import pairwise

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.registry import converts
from heddle.frontend.onnx.values import Value, tensor_value
from heddle.ir.expr import Expr
from heddle.prim import ops
from heddle.prim.nodes import IntImm, PrimExpr, constant


@converts("Transpose")
def transpose(ctx: NodeContext) -> Result:
    """Transpose: dimensions in the order `perm`, reversed by default."""
    rank = ctx.ndim(0)
    perm = tuple(ctx.attr("perm", None) or reversed(range(rank)))
    if sorted(perm) != list(range(rank)):
        ctx.malformed(f"perm {list(perm)} is no permutation of {rank} dimensions")
    return ctx.call("permute_dims", ctx.tensor(0), axes=perm) if rank > 1 else ctx.tensor(0)


@converts("Concat")
def concat(ctx: NodeContext) -> Result:
    """Concat along `axis`."""
    return joined(ctx, ctx.tensors(), ctx.attr("axis", 1))


def joined(ctx: NodeContext, tensors: list[Expr], axis: int) -> Expr:
    """The concatenation; the other dimensions are made to agree."""
    rank = ctx.type_of(tensors[0]).ndim
    axis = ctx.axis(axis, rank)
    if len(tensors) == 1:
        return tensors[0]
    shapes = [ctx.dims_of(item) for item in tensors]
    if any(len(shape) != rank for shape in shapes):
        ctx.malformed("the tensors have different numbers of dimensions")
    goal = [ctx.importer.common_dim([shape[i] for shape in shapes]) for i in range(rank)]
    same = [
        ctx.cast_shape(item, (*goal[:axis], shape[axis], *goal[axis + 1 :]))
        if _may_agree(shape, goal, axis)
        else item
        for item, shape in zip(tensors, shapes, strict=True)
    ]
    return ctx.call("concat", tuple(same), axis=axis)


def _may_agree(shape: tuple[PrimExpr, ...], goal: list[PrimExpr], axis: int) -> bool:
    """Different constants are left for the operator's own rule to refuse."""
    return not any(
        isinstance(dim, IntImm) and isinstance(want, IntImm) and dim.value != want.value
        for i, (dim, want) in enumerate(zip(shape, goal, strict=True))
        if i != axis
    )


@converts("Split", since=1)
def split_1(ctx: NodeContext) -> Result:
    """Split before version 13: sizes are an attribute."""
    return list(split_values(ctx, ctx.attr("axis", 0), ctx.attr("split", None), ctx.num_outputs))


@converts("Split", since=13)
def split(ctx: NodeContext) -> Result:
    """Split along `axis`, into the sizes that are given or equal parts."""
    sizes = ctx.shape_values(1) if ctx.has(1) else None
    return list(split_values(ctx, ctx.attr("axis", 0), sizes, ctx.attr("num_outputs", ctx.num_outputs)))


def split_values(ctx: NodeContext, axis: int, sizes: object, count: int) -> list[Value]:
    """Parts along an axis: of stated sizes, else equal ones with a smaller last."""
    x, axis = ctx.tensor(0), ctx.axis(axis, ctx.ndim(0))
    total = ctx.dims(0)[axis]
    if count < 1:
        ctx.malformed(f"a split into {count} parts")
    if sizes is None:
        part = ctx.importer.simplify(ops.ceildiv(total, count))
        stated: list[PrimExpr] = [part] * (count - 1)
    else:
        stated = [constant(size, "int64") if isinstance(size, int) else size for size in sizes]  # type: ignore[attr-defined]
        _check_sizes(ctx, stated, total)
        count, stated = len(stated), stated[:-1]
    if count == 1:
        return [tensor_value(x)]
    bounds: list[PrimExpr] = []
    at: PrimExpr = constant(0, "int64")
    for size in stated:
        at = ctx.importer.simplify(at + size)
        bounds.append(at)
    if all(isinstance(bound, IntImm) for bound in bounds):
        parts = ctx.call("split", x, indices_or_sections=tuple(int(b) for b in bounds), axis=axis)  # type: ignore[call-overload]
        return [tensor_value(ctx.item(parts, index)) for index in range(count)]
    edges = [constant(0, "int64"), *bounds, total]
    return [tensor_value(slice_of(ctx, x, [axis], [low], [high], [1])) for low, high in pairwise(edges)]


def _check_sizes(ctx: NodeContext, sizes: list[PrimExpr], total: PrimExpr) -> None:
    if any(isinstance(size, IntImm) and size.value < 0 for size in sizes) or not sizes:
        ctx.malformed("the parts of a split must not be negative")
    known = sum(size.value for size in sizes if isinstance(size, IntImm))
    if (isinstance(total, IntImm) and known > total.value) or known >= 1 << 62:
        ctx.malformed(f"the parts have {known} elements together, and the dimension has {total}")
    free = [size for size in sizes if not isinstance(size, IntImm)]
    if not free and isinstance(total, IntImm):
        if known != total.value:
            ctx.malformed(f"the parts have {known} elements together, and the dimension has {total}")
        return
    # each part lies within the axis: none is so great that the sum overflows
    ctx.require_equal([(total, ops.maximum(size, total)) for size in free], "size_of_each_part")
    whole = ctx.importer.simplify(sum(free, start=constant(known, "int64")))
    if not ctx.importer.simplify.equal(whole, total):
        ctx.require_equal([(total, whole)], "sum_of_the_parts")


def slice_of(
    ctx: NodeContext,
    x: Expr,
    axes: list[int],
    begin: list[PrimExpr],
    end: list[PrimExpr],
    strides: list[int],
    *,
    inbound: bool = True,
) -> Expr:
    """A slice whose bounds lie within the dimensions, or with Python's rules."""
    return ctx.call(
        "strided_slice",
        x,
        axes=tuple(axes),
        begin=tuple(begin),
        end=tuple(end),
        strides=tuple(strides),
        assume_inbound=inbound,
    )


@converts("Tile", since=6)
def tile(ctx: NodeContext) -> Result:
    """Tile: x repeated along each axis."""
    repeats = ctx.shape_values(1, count=ctx.ndim(0))
    if len(repeats) != ctx.ndim(0):
        ctx.malformed(f"{len(repeats)} repeats for a tensor of {ctx.ndim(0)} dimensions")
    if all(isinstance(count, IntImm) for count in repeats):
        return ctx.call("tile", ctx.tensor(0), repeats=tuple(int(count) for count in repeats))  # type: ignore[call-overload]
    return _tile_symbolic(ctx, repeats)


def _tile_symbolic(ctx: NodeContext, repeats: tuple[PrimExpr, ...]) -> Expr:
    """(a, b) tiled by (p, q): to (1, a, 1, b), broadcast to (p, a, q, b), and reshaped."""
    dims = ctx.dims(0)
    thin = [size for dim in dims for size in (constant(1, "int64"), dim)]
    wide = [size for dim, count in zip(dims, repeats, strict=True) for size in (count, dim)]
    spread = ctx.call("broadcast_to", ctx.reshape(ctx.tensor(0), thin), tuple(wide))
    return ctx.reshape(spread, [dim * count for dim, count in zip(dims, repeats, strict=True)])


@converts("DepthToSpace")
def depth_to_space(ctx: NodeContext) -> Result:
    """Channels to blocks of pixels: DCR reads a channel as (row, column, depth), CRD as (depth, row,
    column)."""
    _require_four(ctx)
    return ctx.call(
        "nn.pixel_shuffle",
        ctx.tensor(0),
        upscale_factor=ctx.attr("blocksize"),
        blocks_first=ctx.attr("mode", "DCR") == "DCR",
    )


@converts("SpaceToDepth")
def space_to_depth(ctx: NodeContext) -> Result:
    """SpaceToDepth: (n, c, h, w) → (n, c * b * b, h / b, w / b)."""
    _require_four(ctx)
    return ctx.call(
        "nn.pixel_unshuffle",
        ctx.tensor(0),
        downscale_factor=ctx.attr("blocksize"),
        blocks_first=ctx.attr("mode", "DCR") == "DCR",
    )


def _require_four(ctx: NodeContext) -> None:
    dims = ctx.dims(0)
    if len(dims) != 4 or ctx.attr("blocksize") < 1:
        ctx.malformed(
            f"expected 4 dimensions and a positive blocksize, got {len(dims)} and {ctx.attr('blocksize')}"
        )
