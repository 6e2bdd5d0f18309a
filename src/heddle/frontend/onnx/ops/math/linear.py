"""Matrix products."""

from __future__ import annotations

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.registry import converts
from heddle.ir.expr import Expr
from heddle.prim.nodes import is_const_int


@converts("MatMul")
def matmul(ctx: NodeContext) -> Result:
    return product(ctx, ctx.tensor(0), ctx.tensor(1))


def product(ctx: NodeContext, a: Expr, b: Expr, out_dtype: str | None = None) -> Expr:
    """numpy's matmul; batch and inner dimensions that are symbolic are made to agree."""
    x, y = ctx.dims_of(a), ctx.dims_of(b)
    if len(x) > 1 and len(y) > 1:
        inner = ctx.importer.common_dim((x[-1], y[-2]))
        if not (is_const_int(x[-1]) and is_const_int(y[-2])):
            a = ctx.cast_shape(a, (*x[:-1], inner))
            b = ctx.cast_shape(b, (*y[:-2], inner, y[-1]))
    return ctx.call("matmul", a, b, out_dtype=out_dtype)


@converts("Gemm")
def gemm(ctx: NodeContext) -> Expr:
    """alpha * A' @ B' + beta * C."""
    a, b = ctx.tensor(0), ctx.tensor(1)
    if ctx.ndim(0) != 2 or ctx.ndim(1) != 2:
        ctx.malformed(f"expected matrices, got {ctx.ndim(0)} and {ctx.ndim(1)} dimensions")
    if ctx.flag("transA"):
        a = ctx.call("permute_dims", a, axes=(1, 0))
    if ctx.flag("transB"):
        b = ctx.call("permute_dims", b, axes=(1, 0))
    made = ctx.call("matmul", a, b)
    made = scaled(ctx, made, ctx.attr("alpha", 1.0))
    if not ctx.has(2):
        return made
    return ctx.binary("add", made, scaled(ctx, ctx.tensor(2), ctx.attr("beta", 1.0)))


def scaled(ctx: NodeContext, x: Expr, factor: float) -> Expr:
    return x if factor == 1.0 else ctx.call("multiply", x, ctx.like(factor, 0))


@converts("Einsum")
def einsum(ctx: NodeContext) -> Result:
    return ctx.call("einsum", tuple(ctx.tensors()), subscripts=ctx.attr("equation").replace(" ", ""))


@converts("Det")
def det(ctx: NodeContext) -> Result:
    return ctx.call("linalg.det", ctx.tensor(0))


@converts("MatMulInteger")
def matmul_integer(ctx: NodeContext) -> Result:
    """(A - a_zero) @ (B - b_zero) in int32, of differences that are exact in int16; a zero point is one
    value, or one for each row of A or column of B."""
    a, b = (ctx.astype(ctx.tensor(index), "int16") for index in (0, 1))
    if ctx.has(2):
        zero = ctx.astype(ctx.tensor(2), "int16")
        if ctx.ndim(2) == 1:
            zero = ctx.reshape(zero, (*ctx.dims(2), 1))
        a = ctx.binary("subtract", a, zero)
    if ctx.has(3):
        b = ctx.binary("subtract", b, ctx.astype(ctx.tensor(3), "int16"))
    return product(ctx, a, b, "int32")
