"""Convolutions and their transposes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.registry import converts
from heddle.graph.types import ShapeExpr
from heddle.ir.expr import Expr
from heddle.prim import ops
from heddle.prim.nodes import IntImm, PrimExpr, constant

LAYOUTS = {1: ("NCW", "OIW", "IOW"), 2: ("NCHW", "OIHW", "IOHW"), 3: ("NCDHW", "OIDHW", "IODHW")}


def spatial_rank(ctx: NodeContext) -> int:
    """The number of spatial dimensions. Raises: N0203 for other than 1, 2 and 3."""
    rank = ctx.ndim(0) - 2
    if rank not in LAYOUTS:
        ctx.unsupported(f"{rank} spatial dimensions, and 1, 2 or 3 are supported")
    return rank


def window_attr(ctx: NodeContext, name: str, rank: int, default: int = 1) -> tuple[int, ...]:
    """Strides, dilations or the like for `rank` axes. Raises: ImportModelError for a wrong number or sign."""
    values = tuple(ctx.attr(name, None) or (default,) * rank)
    if len(values) != rank or any(value < (0 if default == 0 else 1) for value in values):
        ctx.malformed(f"{name} must be {rank} positive numbers, got {list(values)}")
    return values


def paddings(
    ctx: NodeContext, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[int, ...]:
    """`padding_dims` as numbers. Raises: N0203 where only a run knows them."""
    made = padding_dims(ctx, kernel, strides, dilations)
    if not all(isinstance(pad, IntImm) for pad in made):
        ctx.unsupported("auto_pad of a symbolic dimension", "fix it with shape_dict")
    return tuple(int(pad) for pad in made)  # type: ignore[call-overload]


def padding_dims(
    ctx: NodeContext, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[PrimExpr, ...]:
    """Padding before each dimension, then after each, from `pads` or `auto_pad`."""
    rank, mode = len(kernel), _pad_mode(ctx)
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        sides = [_sides(mode, total) for total in _same_padding(ctx, kernel, strides, dilations)]
        return ctx.importer.short_dims([side[end] for end in (0, 1) for side in sides], "pad")
    given = ctx.attr("pads", None) if mode == "NOTSET" else None
    pads = tuple(given or (0,) * (2 * rank))
    if len(pads) != 2 * rank:
        ctx.malformed(f"pads must be {2 * rank} numbers, got {list(pads)}")
    return tuple(constant(pad, "int64") for pad in pads)


def _pad_mode(ctx: NodeContext) -> str:
    mode: str = ctx.attr("auto_pad", "NOTSET") or "NOTSET"
    if mode not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        ctx.malformed(f"unknown auto_pad {mode!r}")
    return mode


def _same_padding(
    ctx: NodeContext, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[PrimExpr]:
    """For each dimension what makes the output ceil(input / stride) long; with stride 1 it does not depend on
    the input."""
    found: list[PrimExpr] = []
    for size, taps, stride, dilation in zip(ctx.dims(0)[2:], kernel, strides, dilations, strict=True):
        reach = (taps - 1) * dilation + 1
        if stride == 1:
            found.append(constant(reach - 1, "int64"))
        else:
            total = (ops.ceildiv(size, stride) - 1) * stride + reach - size
            found.append(ctx.importer.simplify(ops.maximum(total, 0)))
    return found


def _sides(mode: str, total: Any) -> tuple[Any, Any]:
    """What of an amount lies before and what after: the odd one after where `auto_pad` is SAME_UPPER."""
    small = total // 2
    return (small, total - small) if mode == "SAME_UPPER" else (total - small, small)


def padded(
    ctx: NodeContext,
    x: Expr,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    fill: float = 0,
) -> tuple[Expr, tuple[int, ...]]:
    """The data, and the padding that the operator itself adds. Where `auto_pad` pads by sizes that only a run
    knows, the data is padded before, with `fill`."""
    mode = _pad_mode(ctx)
    total = _same_padding(ctx, kernel, strides, dilations) if mode.startswith("SAME") else []
    if all(isinstance(amount, IntImm) for amount in total):
        return x, paddings(ctx, kernel, strides, dilations)
    zero = constant(0, "int64")
    widths = [zero] * 4 + [side for amount in total for side in _sides(mode, amount)]
    amounts = ShapeExpr(ctx.importer.short_dims(widths, "pad"))
    made = ctx.call("dynamic_pad", x, ctx.const(fill, str(ctx.type_of(x).dtype)), amounts)
    return made, (0,) * (2 * len(kernel))


def kernel_shape(ctx: NodeContext, index: int, rank: int) -> tuple[int, ...]:
    """The sizes of a kernel, which the weight states. Raises: ImportModelError where the attribute says
    others.
    """
    dims = ctx.dims(index)[2:]
    if not all(isinstance(dim, IntImm) for dim in dims) or len(dims) != rank:
        ctx.unsupported(f"a kernel of shape {list(map(str, dims))}")
    stated = ctx.attr("kernel_shape", None)
    own = tuple(int(dim) for dim in dims)  # type: ignore[call-overload]
    if stated is not None and tuple(stated) != own:
        ctx.malformed(f"kernel_shape is {list(stated)}, and the weight has {list(own)}")
    return own


@converts("Conv")
def conv(ctx: NodeContext) -> Result:
    """Conv: (n, c, h, w) → (n, m, oh, ow), and of one and three dimensions."""
    return convolved(ctx, ctx.tensor(0), ctx.tensor(1), ctx.tensor(2) if ctx.has(2) else None)


def convolved(
    ctx: NodeContext, x: Expr, weight: Expr, bias: Expr | None, weight_index: int = 1, **more: Any
) -> Expr:
    """The convolution that the node's attributes say, of other tensors than its own if need be."""
    rank = spatial_rank(ctx)
    strides, dilations = window_attr(ctx, "strides", rank), window_attr(ctx, "dilations", rank)
    layout, kernel_layout, _ = LAYOUTS[rank]
    kernel = kernel_shape(ctx, weight_index, rank)
    x = _with_channels(ctx, x, ctx.dims_of(weight)[1], ctx.attr("group", 1))
    x, padding = padded(ctx, x, kernel, strides, dilations)
    made = ctx.call(
        f"nn.conv{rank}d",
        x,
        weight,
        strides=strides,
        padding=padding,
        dilation=dilations,
        groups=ctx.attr("group", 1),
        data_layout=layout,
        kernel_layout=kernel_layout,
        **more,
    )
    return made if bias is None else ctx.call("add", made, _per_channel(ctx, bias, rank))


def _with_channels(ctx: NodeContext, x: Expr, count: PrimExpr, groups: int) -> Expr:
    """The data with as many channels as the weight states for each group; where a model leaves them open they
    are checked when it runs, and loops know them."""
    dims = ctx.dims_of(x)
    if isinstance(dims[1], IntImm) or not isinstance(count, IntImm):
        return x
    return ctx.importer.cast_shape(x, (dims[0], constant(count.value * groups, "int64"), *dims[2:]))


def _per_channel(ctx: NodeContext, bias: Expr, rank: int) -> Expr:
    return ctx.reshape(bias, (1, *ctx.dims_of(bias), *([1] * rank)))


@converts("ConvTranspose")
def conv_transpose(ctx: NodeContext) -> Result:
    """ConvTranspose: (n, c, h, w) → (n, m, oh, ow), and of one and three dimensions."""
    rank = spatial_rank(ctx)
    kernel, strides = kernel_shape(ctx, 1, rank), window_attr(ctx, "strides", rank)
    dilations, extra = window_attr(ctx, "dilations", rank), window_attr(ctx, "output_padding", rank, 0)
    pads = _transpose_pads(ctx, kernel, strides, dilations, extra)
    is_known = all(isinstance(pad, IntImm) for pad in pads)
    known = tuple(int(pad) for pad in pads) if is_known else (0,) * (2 * rank)  # type: ignore[call-overload]
    layout, _, kernel_layout = LAYOUTS[rank]
    made = ctx.call(
        f"nn.conv{rank}d_transpose",
        _with_channels(ctx, ctx.tensor(0), ctx.dims(1)[0], 1),
        ctx.tensor(1),
        strides=strides,
        padding=tuple(max(0, pad) for pad in known),
        output_padding=tuple(more + max(0, -pad) for more, pad in zip(extra, known[rank:], strict=True)),
        dilation=dilations,
        groups=ctx.attr("group", 1),
        data_layout=layout,
        kernel_layout=kernel_layout,
    )
    made = made if is_known else _cropped(ctx, made, pads)
    return made if not ctx.has(2) else ctx.call("add", made, _per_channel(ctx, ctx.tensor(2), rank))


def _cropped(ctx: NodeContext, x: Expr, pads: Sequence[PrimExpr]) -> Expr:
    """What lies between paddings that only a run knows; zeros where one after is negative."""
    rank, zero = len(pads) // 2, constant(0, "int64")
    named = ctx.importer.short_dims(pads, "pad")
    more = [zero] * 4 + [part for pad in named[rank:] for part in (zero, ops.maximum(-pad, 0))]
    amounts = ShapeExpr(ctx.importer.simplify.dims(more))
    grown = ctx.call("dynamic_pad", x, ctx.const(0, str(ctx.type_of(x).dtype)), amounts)
    return ctx.call(
        "strided_slice",
        grown,
        axes=tuple(range(2, 2 + rank)),
        begin=named[:rank],
        end=tuple(named[k] + size for k, size in enumerate(_stated_sizes(ctx, rank))),
        strides=(1,) * rank,
        assume_inbound=True,
    )


def _stated_sizes(ctx: NodeContext, rank: int) -> list[int]:
    """The sizes that `output_shape` states, which may begin with the batch and the channels."""
    shape = tuple(ctx.attr("output_shape", None))
    if len(shape) not in (rank, rank + 2) or any(size < 0 for size in shape):
        ctx.malformed(f"output_shape must be {rank} sizes, got {list(shape)}")
    return list(shape[len(shape) - rank :])


def _transpose_pads(
    ctx: NodeContext,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    extra: Sequence[int],
) -> list[PrimExpr]:
    """From `pads`, or so that the output has `output_shape`, or size * stride where auto_pad says SAME. What
    an output is longer than all windows together lies after them, as negative padding."""
    rank = len(kernel)
    is_stated, mode = ctx.attr("output_shape", None) is not None, _pad_mode(ctx)
    if not is_stated and mode in ("NOTSET", "VALID"):
        return list(padding_dims(ctx, kernel, strides, dilations))
    before: list[PrimExpr] = []
    after: list[PrimExpr] = []
    stated = _stated_sizes(ctx, rank) if is_stated else []
    for axis in range(rank):
        reach = extra[axis] + (kernel[axis] - 1) * dilations[axis] + 1 - strides[axis]
        total: PrimExpr = constant(reach, "int64")
        if stated:
            total = total + ctx.dims(0)[axis + 2] * strides[axis] - stated[axis]
        sides = _sides(mode, ops.maximum(total, 0))
        before.append(ctx.importer.simplify(sides[0]))
        after.append(ctx.importer.simplify(sides[1] + ops.minimum(total, 0)))
    return [*before, *after]
