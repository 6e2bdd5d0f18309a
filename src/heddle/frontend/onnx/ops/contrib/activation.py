"""Activations of com.microsoft, and those that its fused operators name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.contrib.standard import standard
from heddle.frontend.onnx.registry import MICROSOFT, converts
from heddle.ir.expr import Expr

ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "Celu": ("alpha",),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "HardSwish": (),
    "LeakyRelu": ("alpha",),
    "Mish": (),
    "Relu": (),
    "Selu": ("alpha", "gamma"),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
    "ThresholdedRelu": ("alpha",),
}
"""Those that a fused operator may name, with their parameters in the order in which it gives them."""


def activated(ctx: NodeContext, x: Expr, name: str, parameters: Mapping[str, float]) -> Expr:
    """The function of the default domain that a fused operator names."""
    keys = ACTIVATIONS.get(name)
    if keys is None:
        unknown_activation(ctx, name)
    attrs: dict[str, Any] = {key: parameters[key] for key in keys if key in parameters}
    return standard(ctx, name, x, **attrs)[0]


def unknown_activation(ctx: NodeContext, name: str) -> NoReturn:
    """Refuse a name and say which activations there are."""
    ctx.unsupported(f"activation {name!r}", f"supported are {', '.join(ACTIVATIONS)}")


@converts("Gelu", domain=MICROSOFT)
def gelu(ctx: NodeContext) -> Result:
    """Gelu of com.microsoft: the exact one."""
    return ctx.call("nn.gelu", ctx.tensor(0))


@converts("BiasGelu", domain=MICROSOFT)
def bias_gelu(ctx: NodeContext) -> Result:
    """BiasGelu: the exact gelu of input plus bias."""
    return ctx.call("nn.gelu", ctx.binary("add", ctx.tensor(0), ctx.tensor(1)))


@converts("FastGelu", domain=MICROSOFT)
def fast_gelu(ctx: NodeContext) -> Result:
    """The tanh approximation, of x + bias where there is one."""
    x = ctx.tensor(0)
    return ctx.call("nn.gelu_tanh", ctx.binary("add", x, ctx.tensor(1)) if ctx.has(1) else x)


@converts("QuickGelu", domain=MICROSOFT)
def quick_gelu(ctx: NodeContext) -> Result:
    """x * sigmoid(alpha * x)."""
    return standard(ctx, "Swish", ctx.tensor(0), alpha=ctx.attr("alpha", 1.702))[0]
