"""Quantised values: scales and zero points."""

from __future__ import annotations

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.math.elementwise import LARGEST, POWERS_OF_TWO, to_small_float
from heddle.frontend.onnx.ops.math.linear import product, with_common_inner
from heddle.frontend.onnx.ops.nn.conv import convolved
from heddle.frontend.onnx.ops.tensor.rearrange import slice_of
from heddle.frontend.onnx.proto import dtype_name
from heddle.frontend.onnx.registry import converts
from heddle.ir.expr import Expr
from heddle.prim import ops
from heddle.prim.nodes import constant, is_const_int

_RANGES = {
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-32768, 32767),
    "uint16": (0, 65535),
    "int4": (-8, 7),
    "uint4": (0, 15),
    "int2": (-2, 1),
    "uint2": (0, 3),
}


def _spread(ctx: NodeContext, index: int, axis: int, dtype: str, data: int = 0) -> Expr:
    """A scale or zero point, shaped to broadcast along `axis` of the data; one value of any rank counts as
    scalar."""
    x = ctx.astype(ctx.tensor(index), dtype)
    rank, own = ctx.ndim(data), ctx.ndim(index)
    if own == 0:
        return x
    if own == 1 and is_const_int(ctx.dims(index)[0], 1):
        return ctx.reshape(x, ())
    axis = ctx.axis(axis, rank)
    if own == rank and own > 1:
        return _of_blocks(ctx, x, axis, data)
    if own != 1:
        ctx.malformed(f"a scale or zero point of {own} dimensions for data of {rank}")
    return ctx.reshape(x, (*ctx.dims(index), *([1] * (rank - axis - 1))))


def _of_blocks(ctx: NodeContext, x: Expr, axis: int, data: int) -> Expr:
    """Values of blocks of `block_size` elements along an axis, the last one cut, as one for each element."""
    size = ctx.attr("block_size", 0)
    if size < 1:
        ctx.malformed(f"a block size of {size} for scales of blocks")
    whole = ctx.call("repeat", x, repeats=size, axis=axis)
    dim, have = ctx.dims(data)[axis], ctx.dims_of(whole)[axis]
    if ctx.importer.simplify.equal(dim, have):
        return whole
    ctx.require_equal([(have, ops.maximum(have, dim))], "blocks")
    return slice_of(ctx, whole, [axis], [constant(0, "int64")], [dim], [1])


def quantized(ctx: NodeContext, x: Expr, scale: Expr, zero: Expr | None, dtype: str) -> Expr:
    """saturate(round(x / scale) + zero), ties to even; to floats without the rounding to whole numbers, and
    without saturation where `saturate` says so."""
    if dtype in LARGEST:
        made = ctx.binary("divide", x, scale)
        made = made if zero is None else ctx.binary("add", made, zero)
        saturate = dtype == "float4_e2m1fn" or ctx.flag("saturate", True)
        return to_small_float(ctx, made, dtype) if saturate else ctx.astype(made, dtype)
    if dtype not in _RANGES:
        ctx.unsupported(f"quantisation to {dtype}")
    low, high = _RANGES[dtype]
    made = ctx.call("round", ctx.binary("divide", x, scale))
    made = made if zero is None else ctx.binary("add", made, zero)
    return ctx.astype(ctx.call("clip", made, float(low), float(high)), dtype)


@converts("QuantizeLinear")
def quantize_linear(ctx: NodeContext) -> Result:
    """QuantizeLinear: per tensor, per axis or in blocks; computed in float32."""
    axis = ctx.attr("axis", 1)
    dtype = ctx.dtype(2) if ctx.has(2) else "uint8"
    if ctx.attr("output_dtype", 0):
        dtype = dtype_name(ctx.attr("output_dtype"), "the result")
    zero = _spread(ctx, 2, axis, "float32") if ctx.has(2) else None
    return quantized(ctx, ctx.astype(ctx.tensor(0), "float32"), _spread(ctx, 1, axis, "float32"), zero, dtype)


@converts("DequantizeLinear")
def dequantize_linear(ctx: NodeContext) -> Result:
    """(x - zero) * scale. One operator where it can be, which products recognise in their factors."""
    axis, dtype = ctx.attr("axis", 1), ctx.dtype(1)
    if ctx.attr("output_dtype", 0):
        dtype = dtype_name(ctx.attr("output_dtype"), "the result")
    if dtype == POWERS_OF_TWO:
        ctx.malformed("scales that are powers of two need the attribute output_dtype")
    if _is_plain(ctx) and dtype == ctx.dtype(1):
        zero = ctx.tensor(2) if ctx.has(2) else ctx.like(0, 0)
        axis = 0 if _is_single(ctx) else ctx.axis(axis, ctx.ndim(0))
        return ctx.call("dequantize", ctx.tensor(0), ctx.tensor(1), zero, axis=axis, out_dtype=dtype)
    made = ctx.astype(ctx.tensor(0), "float32")
    if ctx.has(2):
        made = ctx.binary("subtract", made, _spread(ctx, 2, axis, "float32"))
    return ctx.astype(ctx.binary("multiply", made, _spread(ctx, 1, axis, "float32")), dtype)


def _is_plain(ctx: NodeContext) -> bool:
    """Whether integers have one scale and zero point in all, or a known number of them along one axis."""
    if ctx.dtype(0) not in (*_RANGES, "int32") or ctx.ndim(1) > 1:
        return False
    shapes = [ctx.dims(index) for index in (1, 2) if ctx.has(index)]
    if any(len(dims) != len(shapes[0]) or not all(map(is_const_int, dims)) for dims in shapes):
        return False
    return _is_single(ctx) or is_const_int(ctx.dims(0)[ctx.axis(ctx.attr("axis", 1), ctx.ndim(0))])


def _is_single(ctx: NodeContext) -> bool:
    """Whether scale and zero point are one for the whole tensor."""
    shapes = [ctx.dims(index) for index in (1, 2) if ctx.has(index)]
    return not shapes[0] or all(is_const_int(dims[0], 1) for dims in shapes)


def _centred(ctx: NodeContext, index: int, zero: int, axis: int, values: Expr | None = None) -> Expr:
    """An input of 8 bits less its zero point, exact in int16; wider ones in int32. `values`: the input with
    other dimensions."""
    wide = "int16" if ctx.dtype(index) in ("int8", "uint8") else "int32"
    x = ctx.astype(ctx.tensor(index) if values is None else values, wide)
    return ctx.binary("subtract", x, _spread(ctx, zero, axis, wide, index)) if ctx.has(zero) else x


@converts("ConvInteger")
def conv_integer(ctx: NodeContext) -> Result:
    """The convolution of (x - x_zero) and (w - w_zero) in int32."""
    x, weight = _centred(ctx, 0, 2, 1), _centred(ctx, 1, 3, 0)
    return convolved(ctx, x, weight, None, out_dtype="int32")


@converts("QLinearMatMul")
def qlinear_matmul(ctx: NodeContext) -> Result:
    """Inputs: a, its scale and zero, b, its scale and zero, the result's scale and zero."""
    left, right = with_common_inner(ctx, ctx.tensor(0), ctx.tensor(3))
    a, b = _centred(ctx, 0, 2, -2, left), _centred(ctx, 3, 5, -1, right)
    exact = ctx.astype(product(ctx, a, b, "int32"), "float32")
    scale = ctx.binary("multiply", _spread(ctx, 1, -2, "float32"), _spread(ctx, 4, -1, "float32", 3))
    return quantized(
        ctx,
        ctx.binary("multiply", exact, scale),
        _spread(ctx, 6, -1, "float32"),
        _spread(ctx, 7, -1, "float32"),
        ctx.dtype(7),
    )


@converts("QLinearConv")
def qlinear_conv(ctx: NodeContext) -> Result:
    """Inputs: x, scale, zero, w, scale, zero, the result's scale and zero, bias in int32."""
    x, weight = _centred(ctx, 0, 2, 1), _centred(ctx, 3, 5, 0)
    bias = ctx.tensor(8) if ctx.has(8) else None
    exact = convolved(ctx, x, weight, bias, weight_index=3, out_dtype="int32")
    scale = ctx.binary("multiply", _spread(ctx, 1, 1, "float32"), _spread(ctx, 4, 1, "float32"))
    return quantized(
        ctx,
        ctx.binary("multiply", ctx.astype(exact, "float32"), scale),
        _spread(ctx, 6, 1, "float32"),
        _spread(ctx, 7, 1, "float32"),
        ctx.dtype(7),
    )
