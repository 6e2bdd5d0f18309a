"""Products of quantised matrices of com.microsoft: exact in int32, then scaled."""

from __future__ import annotations

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.contrib.attention import attend_with_past, projected_parts
from heddle.frontend.onnx.ops.contrib.standard import expect_ranks, standard
from heddle.frontend.onnx.ops.math.linear import product, with_common_inner
from heddle.frontend.onnx.ops.nn.quantize import quantized
from heddle.frontend.onnx.registry import MICROSOFT, converts
from heddle.ir.expr import Expr
from heddle.prim.nodes import is_const_int


def scalar_of(ctx: NodeContext, index: int, dtype: str = "float32") -> Expr:
    """An input of one element, of any rank, as a scalar."""
    if not all(is_const_int(dim, 1) for dim in ctx.dims(index)):
        ctx.unsupported(
            f"input {index} of shape {list(map(str, ctx.dims(index)))}", "one value for the whole tensor is"
        )
    return ctx.reshape(ctx.astype(ctx.tensor(index), dtype), ())


def integer_product(ctx: NodeContext, a: Expr, b: Expr, a_zero: Expr | None, b_zero: Expr | None) -> Expr:
    """(a - a_zero) @ (b - b_zero) of 8-bit integers, exact in int32. Differences fit int16. A zero point of b
    is one, or one for each column."""
    zeros = [None if zero is None else ctx.astype(zero, "int16") for zero in (a_zero, b_zero)]
    factors = [ctx.astype(x, "int16") for x in with_common_inner(ctx, a, b)]
    a, b = (
        x if zero is None else ctx.binary("subtract", x, zero) for x, zero in zip(factors, zeros, strict=True)
    )
    return product(ctx, a, b, "int32")


def columns_of(ctx: NodeContext, index: int, dtype: str) -> Expr:
    """A scale or zero point of b: one, or one for each column."""
    if ctx.ndim(index) > 1:
        ctx.unsupported(f"input {index} of {ctx.ndim(index)} dimensions")
    x = ctx.astype(ctx.tensor(index), dtype)
    return ctx.reshape(x, ()) if ctx.ndim(index) and is_const_int(ctx.dims(index)[0], 1) else x


def dynamic_product(ctx: NodeContext, a: Expr, b: Expr, scale: Expr, zero: Expr | None) -> Expr:
    """a @ (b - zero) * scale in float32, a quantised by its range."""
    numbers, a_scale, a_zero = standard(ctx, "DynamicQuantizeLinear", a, num_outputs=3)
    exact = ctx.astype(integer_product(ctx, numbers, b, a_zero, zero), "float32")
    return ctx.binary("multiply", exact, ctx.binary("multiply", a_scale, scale))


@converts("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(ctx: NodeContext) -> Result:
    """Inputs: a, b, scale and zero point of b, bias."""
    zero = columns_of(ctx, 3, "int32") if ctx.has(3) else None
    made = dynamic_product(ctx, ctx.tensor(0), ctx.tensor(1), columns_of(ctx, 2, "float32"), zero)
    return ctx.binary("add", made, ctx.tensor(4)) if ctx.has(4) else made


@converts("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(ctx: NodeContext) -> Result:
    """Inputs: a, b, their scales, their zero points, bias."""
    a_zero = scalar_of(ctx, 4, "int32") if ctx.has(4) else None
    b_zero = columns_of(ctx, 5, "int32") if ctx.has(5) else None
    exact = integer_product(ctx, ctx.tensor(0), ctx.tensor(1), a_zero, b_zero)
    scale = ctx.binary("multiply", scalar_of(ctx, 2), columns_of(ctx, 3, "float32"))
    made = ctx.binary("multiply", ctx.astype(exact, "float32"), scale)
    if ctx.has(6):
        made = ctx.binary("add", made, ctx.astype(ctx.tensor(6), "float32"))
    return ctx.astype(made, ctx.dtype(2))


@converts("QGemm", domain=MICROSOFT)
def q_gemm(ctx: NodeContext) -> Result:
    """alpha * (A' @ B' + c) * scales. Inputs: a, scale, zero, b, scale, zero, c in int32, and the result's
    scale and zero; without these it is float32."""
    factors = []
    for index, name in ((0, "transA"), (3, "transB")):
        if ctx.ndim(index) != 2:
            ctx.malformed(f"expected matrices, got {ctx.ndim(index)} dimensions")
        x = ctx.tensor(index)
        factors.append(ctx.call("permute_dims", x, axes=(1, 0)) if ctx.flag(name) else x)
    exact = integer_product(
        ctx, factors[0], factors[1], scalar_of(ctx, 2, "int32"), columns_of(ctx, 5, "int32")
    )
    if ctx.has(6):
        exact = ctx.binary("add", exact, ctx.tensor(6))
    scale = ctx.binary("multiply", scalar_of(ctx, 1), columns_of(ctx, 4, "float32"))
    alpha = ctx.attr("alpha", 1.0)
    if alpha != 1.0:
        scale = ctx.call("multiply", scale, ctx.const(alpha, "float32"))
    made = ctx.binary("multiply", ctx.astype(exact, "float32"), scale)
    if not ctx.has(7):
        return made
    dtype = ctx.dtype(8) if ctx.has(8) else ctx.dtype(0)
    return quantized(ctx, made, scalar_of(ctx, 7), scalar_of(ctx, 8) if ctx.has(8) else None, dtype)


@converts("QAttention", domain=MICROSOFT)
def q_attention(ctx: NodeContext) -> Result:
    """Inputs: x, weights, bias, their scales, mask, their zero points, past. Only the projection is of
    integers."""
    expect_ranks(ctx, input=3, weight=2, bias=1, past=5)
    x_zero = scalar_of(ctx, 6, "int32") if ctx.has(6) else None
    zero = columns_of(ctx, 7, "int32") if ctx.has(7) else None
    exact = integer_product(ctx, ctx.tensor(0), ctx.tensor(1), x_zero, zero)
    scale = ctx.binary("multiply", scalar_of(ctx, 3), columns_of(ctx, 4, "float32"))
    made = ctx.binary("multiply", ctx.astype(exact, "float32"), scale)
    made = ctx.binary("add", ctx.astype(made, ctx.dtype(2)), ctx.tensor(2))
    return attend_with_past(ctx, projected_parts(ctx, made), mask=5, past=8, bias=None)
