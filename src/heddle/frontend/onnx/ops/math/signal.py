"""Fourier transforms and what goes with them. A complex number is two reals along the last axis."""

from __future__ import annotations

import math

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.tensor.axes import RunTimeAxes, around_axis, fixed_axes, one_axis
from heddle.frontend.onnx.ops.tensor.rearrange import slice_of
from heddle.frontend.onnx.proto import dtype_name
from heddle.frontend.onnx.registry import converts
from heddle.graph.types import ShapeExpr
from heddle.ir.expr import Expr
from heddle.prim import ops
from heddle.prim.nodes import IntImm, PrimExpr, constant
from heddle.runtime.dtype import DataType

_EXACT_IN_FLOAT32 = 1 << 20
"""Lengths below this have rows and corners that float32 holds, for frequencies that the rate has."""


@converts("DFT", since=17)
def dft_17(ctx: NodeContext) -> Result:
    """DFT of version 17: the axis is an attribute."""
    rank = ctx.ndim(0)
    return _transformed(ctx, fixed_axes([ctx.axis(ctx.attr("axis", 1), rank)], rank))


@converts("DFT", since=20)
def dft(ctx: NodeContext) -> Result:
    """DFT of version 20: the axis is an input, by default the last but one."""
    rank = ctx.ndim(0)
    axis = one_axis(ctx, 2, rank) if ctx.has(2) else ctx.axis(-2, rank)
    return _transformed(ctx, fixed_axes([axis], rank) if isinstance(axis, int) else axis)


def _transformed(ctx: NodeContext, axes: RunTimeAxes) -> Expr:
    """The tensor as (before, axis, after, parts)."""
    dims, x = ctx.dims(0), ctx.tensor(0)
    parts = ctx.static_dim(0, len(dims) - 1, "the last dimension")
    if parts not in (1, 2):
        ctx.malformed(f"the last dimension must be 1 or 2, got {parts}")
    inverse, onesided = ctx.flag("inverse"), ctx.flag("onesided")
    folded, _ = around_axis(ctx, x, axes)
    before, size, after = ctx.dims_of(folded)
    rest = ctx.importer.simplify(ops.floordiv(after, parts))
    folded = ctx.reshape(folded, (before, size, rest, parts))
    length = _length(ctx, 1, (size - 1) * 2 if inverse and onesided else size)
    made = fourier(ctx, folded, length, inverse, onesided)
    outputs, kinds = ctx.dims_of(made)[1], ctx.dims_of(made)[3]
    kept = [axes.pick(axis, [outputs], dim) for axis, dim in enumerate(dims[:-1])]
    return ctx.reshape(made, (*ctx.importer.named_dims(kept, "part"), kinds))


def _length(ctx: NodeContext, index: int, default: PrimExpr) -> PrimExpr:
    """What a length is: at least 1, checked when the model runs where it is not known before."""
    found = ctx.number(index) if ctx.has(index) else default
    if isinstance(found, IntImm):
        if found.value < 1:
            ctx.malformed(f"a length of {found}")
        return found
    (length,) = ctx.importer.named_dims([found], "length")
    ctx.require_equal([(ops.maximum(length, 1), length)], "transform_length")
    return length


def fourier(ctx: NodeContext, x: Expr, length: PrimExpr, inverse: bool, onesided: bool) -> Expr:
    """The transform of a length along axis 1 of (before, n, after, parts); what n has beyond the length does
    not count, what it lacks is 0. `onesided` gives the first half, or takes it where `inverse`."""
    dtype = str(ctx.type_of(x).dtype)
    wide = dtype if DataType(dtype).bits >= 32 else "float32"
    before, size, after, parts = ctx.dims_of(x)
    (rows,) = ctx.importer.named_dims([before * after], "rows")
    flat = ctx.reshape(ctx.call("permute_dims", x, axes=(0, 2, 1, 3)), (rows, size, parts))
    made = ctx.call(
        "signal.fft", ctx.astype(flat, wide), ShapeExpr((length,)), inverse=inverse, onesided=onesided
    )
    _, outputs, kinds = ctx.dims_of(made)
    made = ctx.reshape(ctx.astype(made, dtype), (before, after, outputs, kinds))
    return ctx.call("permute_dims", made, axes=(0, 2, 1, 3))


def _number(ctx: NodeContext, size: PrimExpr, dtype: str) -> Expr:
    return ctx.astype(ctx.size(size), dtype)


@converts("STFT")
def stft(ctx: NodeContext) -> Result:
    """(batch, samples, parts) → (batch, frames, frequencies, 2). Inputs: signal, step, window, length.

    PyTorch writes real signals without the last axis, and ONNX Runtime takes them.
    """
    ctx.require_rank(0, 2, 3)
    if ctx.has(2):
        ctx.require_rank(2, 1)
    signal = ctx.tensor(0) if ctx.ndim(0) == 3 else ctx.call("expand_dims", ctx.tensor(0), axis=(2,))
    batch, samples, parts = ctx.dims_of(signal)
    step = _length(ctx, 1, samples)
    if not ctx.has(2) and not ctx.has(3):
        ctx.malformed("neither a window nor the length of a frame is given")
    length = _length(ctx, 3, ctx.dims(2)[0] if ctx.has(2) else samples)
    count = ops.floordiv(samples - length, step) + 1
    ctx.require_equal([(samples, ops.maximum(samples, length))], "samples")
    (frames,) = ctx.importer.named_dims([count], "frames")
    begin = ctx.call("multiply", ctx.call("arange", 0, frames, 1, dtype="int64"), ctx.size(step))
    within = ctx.call("arange", 0, length, 1, dtype="int64")
    rows = ctx.call(
        "take", signal, ctx.call("add", ctx.call("expand_dims", begin, axis=(1,)), within), axis=1
    )
    if ctx.has(2):
        window = ctx.cast_shape(ctx.astype(ctx.tensor(2), ctx.dtype(0)), (length,))
        rows = ctx.call("multiply", rows, ctx.reshape(window, (length, 1)))
    whole = ctx.importer.named_dims([batch * frames], "rows")[0]
    x = ctx.reshape(rows, (whole, length, 1, parts))
    made = fourier(ctx, x, length, False, ctx.flag("onesided", True))
    return ctx.reshape(made, (batch, frames, ctx.dims_of(made)[1], 2))


@converts("MelWeightMatrix")
def mel_weight_matrix(ctx: NodeContext) -> Result:
    """(dft_length // 2 + 1, bins) triangles, whose corners are evenly spaced on the mel scale.

    Inputs: number of bins, length of the transform, sample rate, lowest and highest frequency.
    """
    target = dtype_name(ctx.attr("output_datatype", 1), "the result of MelWeightMatrix")
    bins, length = (_length(ctx, index, constant(1, "int64")) for index in (0, 1))
    rate, lowest, highest = (
        ctx.reshape(ctx.astype(ctx.tensor(index), "float64"), (1,)) for index in (2, 3, 4)
    )

    def number(value: float) -> Expr:
        return ctx.const([value], "float64")

    factor = 2595 / math.log(10)

    def mel(hertz: Expr) -> Expr:
        inner = ctx.call("log", ctx.call("add", ctx.call("divide", hertz, number(700)), number(1)))
        return ctx.call("multiply", inner, number(factor))

    low = mel(lowest)
    count = ctx.call("arange", 0, bins + 2, 1, dtype="int64")
    step = ctx.call("divide", ctx.call("subtract", mel(highest), low), _number(ctx, bins + 2, "float64"))
    points = ctx.call("add", ctx.call("multiply", ctx.astype(count, "float64"), step), low)
    hertz = ctx.call("subtract", ctx.call("exp", ctx.call("divide", points, number(factor))), number(1))
    hertz = ctx.call("multiply", hertz, number(700))
    corners = ctx.call("divide", ctx.call("multiply", _number(ctx, length + 1, "float64"), hertz), rate)
    is_short = isinstance(length, IntImm) and length.value < _EXACT_IN_FLOAT32
    exact = "float32" if is_short and target == "float32" else "float64"  # corners and rows are whole numbers
    corners = ctx.astype(ctx.call("floor", corners), exact)
    left, centre, right = (_corner(ctx, corners, at, bins) for at in range(3))
    row = ctx.astype(ctx.call("arange", 0, ops.floordiv(length, 2) + 1, 1, dtype="int64"), exact)
    return ctx.astype(_triangles(ctx, ctx.call("expand_dims", row, axis=(1,)), left, centre, right), target)


def _corner(ctx: NodeContext, corners: Expr, at: int, bins: PrimExpr) -> Expr:
    begin, end = constant(at, "int64"), ctx.importer.simplify(bins + at)
    return ctx.reshape(slice_of(ctx, corners, [0], [begin], [end], [1]), (bins,))


def _triangles(ctx: NodeContext, row: Expr, left: Expr, centre: Expr, right: Expr) -> Expr:
    """Rising from `left` to 1 at `centre`, falling to 0 at `right`; all are whole numbers. A division for
    each corner, none for each element."""
    dtype = str(ctx.type_of(row).dtype)
    zero, one = ctx.const([0], dtype), ctx.const([1], dtype)

    def side(reach: Expr, width: Expr) -> Expr:
        return ctx.call("multiply", reach, ctx.call("divide", one, ctx.call("maximum", width, one)))

    rising = side(ctx.call("subtract", row, left), ctx.call("subtract", centre, left))
    falling = side(ctx.call("subtract", right, row), ctx.call("subtract", right, centre))
    height = ctx.call("maximum", ctx.call("minimum", rising, falling), zero)
    return ctx.call("where", ctx.call("equal", row, centre), one, height)
