"""FusedConv of com.microsoft: a convolution, a bias, a tensor that is added, and an activation."""

from __future__ import annotations

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.contrib.activation import ACTIVATIONS, activated, unknown_activation
from heddle.frontend.onnx.ops.nn.conv import convolved
from heddle.frontend.onnx.registry import MICROSOFT, converts
from heddle.ir.expr import Expr


@converts("FusedConv", domain=MICROSOFT)
def fused_conv(ctx: NodeContext) -> Result:
    """activation(conv(x, w) + b + z)."""
    made = convolved(ctx, ctx.tensor(0), ctx.tensor(1), ctx.tensor(2) if ctx.has(2) else None)
    if ctx.has(3):
        made = ctx.call("add", made, ctx.cast_shape(ctx.tensor(3), ctx.dims_of(made)))
    name = ctx.attr("activation", "")
    return _activated(ctx, made, name) if name else made


def _activated(ctx: NodeContext, x: Expr, name: str) -> Expr:
    """The parameters are a list, in the order of the activation's attributes."""
    given = list(ctx.attr("activation_params", ()))
    if name == "Clip":
        if len(given) != 2:
            ctx.malformed(f"Clip takes 2 activation_params, got {len(given)}")
        return ctx.call("clip", x, *given)
    if name not in ACTIVATIONS:
        unknown_activation(ctx, name)
    keys = ACTIVATIONS[name]
    if given and len(given) != len(keys):
        ctx.malformed(f"{name} takes {len(keys)} activation_params, got {len(given)}")
    return activated(ctx, x, name, dict(zip(keys, given, strict=False)))
