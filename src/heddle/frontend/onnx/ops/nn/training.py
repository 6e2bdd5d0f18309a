"""Steps of optimisers. Inputs are the rate, the count of steps, and then one group of tensors after another:
values, gradients, states."""

from __future__ import annotations

from collections.abc import Callable

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.registry import converts
from heddle.ir.expr import Expr

_DOMAIN = "ai.onnx.preview.training"


class _Step:
    """Arithmetic on one group of tensors. Scalars take the element type of the values."""

    def __init__(self, ctx: NodeContext, dtype: str) -> None:
        self.ctx, self.dtype = ctx, dtype

    def __call__(self, op: str, *args: Expr | float) -> Expr:
        given = [arg if isinstance(arg, Expr) else self.ctx.const(arg, self.dtype) for arg in args]
        return self.ctx.call(op, *given)

    def rate(self) -> Expr:
        return self.ctx.reshape(self.ctx.astype(self.ctx.tensor(0), self.dtype), ())

    def count(self) -> Expr:
        return self.ctx.reshape(self.ctx.astype(self.ctx.tensor(1), self.dtype), ())

    def gradient(self, x: Expr, gradient: Expr) -> Expr:
        """With the gradient of the penalty on the values' squares."""
        return self("add", self("multiply", x, self.ctx.attr("norm_coefficient", 0.0)), gradient)

    def mean(self, factor: float, old: Expr, new: Expr) -> Expr:
        return self("add", self("multiply", old, factor), self("multiply", new, 1 - factor))


def _groups(ctx: NodeContext, states: int, step: Callable[..., tuple[Expr, ...]]) -> Result:
    """Each value with its gradient and states; first all new values, then the states."""
    kinds = 2 + states
    count, rest = divmod(ctx.num_inputs - 2, kinds)
    if rest or count < 1:
        ctx.malformed(f"{ctx.num_inputs} inputs are not two and {kinds} for each value")
    made = []
    for index in range(count):
        tensors = [ctx.tensor(2 + kind * count + index) for kind in range(kinds)]
        made.append(step(_Step(ctx, ctx.dtype(2 + index)), *tensors))
    return [result for kind in zip(*made, strict=True) for result in kind]


@converts("Adagrad", domain=_DOMAIN)
def adagrad(ctx: NodeContext) -> Result:
    """Adagrad: a step of each tensor against its gradient."""

    def step(do: _Step, x: Expr, gradient: Expr, squares: Expr) -> tuple[Expr, ...]:
        slower = do("add", do("multiply", do.count(), ctx.attr("decay_factor", 0.0)), 1.0)
        rate, whole = do("divide", do.rate(), slower), do.gradient(x, gradient)
        squares = do("add", squares, do("square", whole))
        root = do("add", do("sqrt", squares), ctx.attr("epsilon", 1e-6))
        return do("subtract", x, do("divide", do("multiply", rate, whole), root)), squares

    return _groups(ctx, 1, step)


@converts("Adam", domain=_DOMAIN)
def adam(ctx: NodeContext) -> Result:
    """Adam: a step of each tensor against its gradient."""
    alpha, beta = ctx.attr("alpha", 0.9), ctx.attr("beta", 0.999)

    def step(do: _Step, x: Expr, gradient: Expr, means: Expr, squares: Expr) -> tuple[Expr, ...]:
        whole = do.gradient(x, gradient)
        means, squares = do.mean(alpha, means, whole), do.mean(beta, squares, do("square", whole))
        root = do("add", do("sqrt", squares), ctx.attr("epsilon", 1e-6))
        count = do.count()
        seen = [do("subtract", 1.0, do("power", factor, count)) for factor in (beta, alpha)]
        corrected = do("divide", do("multiply", do.rate(), do("sqrt", seen[0])), seen[1])
        rate = do("where", do("greater", count, 0.0), corrected, do.rate())
        made = do("subtract", x, do("divide", do("multiply", rate, means), root))
        return do("multiply", made, 1 - ctx.attr("norm_coefficient_post", 0.0)), means, squares

    return _groups(ctx, 2, step)


@converts("Momentum", domain=_DOMAIN)
def momentum(ctx: NodeContext) -> Result:
    """Momentum: a step of each tensor against its gradient."""
    alpha, mode = ctx.attr("alpha"), ctx.attr("mode")
    if mode not in ("standard", "nesterov"):
        ctx.malformed(f"mode must be standard or nesterov, got {mode!r}")

    def step(do: _Step, x: Expr, gradient: Expr, velocity: Expr) -> tuple[Expr, ...]:
        whole = do.gradient(x, gradient)
        first = do("equal", do.count(), 0.0)
        share = do("where", first, 1.0, ctx.attr("beta"))
        velocity = do("add", do("multiply", velocity, alpha), do("multiply", whole, share))
        way = velocity if mode == "standard" else do("add", whole, do("multiply", velocity, alpha))
        return do("subtract", x, do("multiply", do.rate(), way)), velocity

    return _groups(ctx, 1, step)
