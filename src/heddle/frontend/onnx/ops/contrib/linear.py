"""Matrix products of com.microsoft with transposes, a factor and an activation."""

from __future__ import annotations

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.contrib.activation import activated
from heddle.frontend.onnx.ops.math.linear import gemm, product, scaled
from heddle.frontend.onnx.registry import MICROSOFT, converts
from heddle.ir.expr import Expr


@converts("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_matmul(ctx: NodeContext) -> Result:
    """alpha * A' @ B'. `transBatch` says that the batch dimensions stand behind the first of the matrix."""
    a, b = (_transposed(ctx, index, side) for index, side in enumerate("AB"))
    return scaled(ctx, product(ctx, a, b), ctx.attr("alpha", 1.0))


def _transposed(ctx: NodeContext, index: int, side: str) -> Expr:
    """(d0, batch.., d1) → (batch.., d0, d1), then the last two exchanged; a vector stays as it is."""
    rank = ctx.ndim(index)
    axes = list(range(rank))
    if rank > 1 and ctx.flag(f"transBatch{side}"):
        axes = [*axes[1:-1], 0, rank - 1]
    if rank > 1 and ctx.flag(f"trans{side}"):
        axes[-2:] = reversed(axes[-2:])
    x = ctx.tensor(index)
    return x if axes == list(range(rank)) else ctx.call("permute_dims", x, axes=tuple(axes))


@converts("FusedGemm", domain=MICROSOFT)
def fused_gemm(ctx: NodeContext) -> Result:
    """FusedGemm: Gemm, then the activation that it names."""
    made: Expr = gemm(ctx)
    name = ctx.attr("activation", "")
    if not name:
        return made
    given = {key: ctx.attr(f"activation_{key}", None) for key in ("alpha", "beta", "gamma")}
    return activated(ctx, made, name, {key: value for key, value in given.items() if value is not None})
