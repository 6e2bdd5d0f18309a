"""Elementwise functions, in units in the last place over all floats, and chains of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from heddle.ir.expr import Expr
from tests.accuracy.forms import Dims, Form, call, oracle, relative
from tests.accuracy.values import BITS, FINITE

_SIZES: tuple[Mapping[str, int], ...] = tuple(
    {"m": m, "n": n} for m, n in ((1, 1), (0, 5), (7, 13), (33, 16), (1, 4099), (613, 257))
)
_UNARY: dict[str, float] = {
    "exp": 1.5,
    "exp2": 1.5,
    "log": 1.0,
    "log2": 1.5,
    "log10": 1.5,
    "log1p": 1.5,
    "tanh": 2.5,
    "sigmoid": 4.0,
    "erf": 4.0,
    "sqrt": 0.5,
    "rsqrt": 1.5,
    "sin": 2.0,
    "cos": 2.0,
    "tan": 4.0,
    "atan": 4.0,
    "square": 0.5,
    "abs": 0.5,
    "floor": 0.5,
}
"""Function → its largest error in units in the last place."""
_BINARY: dict[str, float] = {"add": 0.5, "subtract": 0.5, "multiply": 0.5, "divide": 0.5, "power": 0.51}
_UNDERFLOW = 512
"""Of a product with a sigmoid below the normal range: steps of half the spacing of the smallest numbers."""
_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "gelu": lambda x: np.minimum(np.abs(x), 8.0),
    "gelu_tanh": lambda x: np.minimum(np.abs(x), 8.0),
    "silu": lambda x: 0.0 * x,
    "softplus": lambda x: 0.0 * x,
    "mish": lambda x: 0.0 * x,
    "relu": lambda x: 0.0 * x,
    "relu6": lambda x: 0.0 * x,
    "hardtanh": lambda x: 0.0 * x,
    "elu": lambda x: 0.0 * x + 1.0,
    "selu": lambda x: 0.0 * x + 1.0,
    "softsign": lambda x: 0.0 * x,
    "hardswish": lambda x: np.minimum(np.abs(x), 3.0),
    "hardsigmoid": lambda x: 0.0 * x + 1.0,
    "log_sigmoid": lambda x: 0.0 * x,
}
"""Activation → the scale of its terms, where they cancel."""


def _unary(name: str, ulp: float) -> Form:
    return Form(
        name, name, (("m", "n"),), call(name), relative(oracle(name), steps=0 if ulp <= 0.5 else 4),
        "transcendental", BITS, _SIZES, ulp=ulp, in_ci=True,
    )  # fmt: skip


def _binary(name: str, ulp: float) -> Form:
    two: tuple[Dims, ...] = (("m", "n"), ("m", "n"))
    return Form(
        name, name, two, call(name), relative(oracle(name), steps=1), "transcendental", BITS, _SIZES, ulp=ulp,
        in_ci=True,
    )  # fmt: skip


def _activation(name: str, scale: Callable[[Any], Any]) -> Form:
    return Form(
        name.partition("_")[0] if name.startswith("gelu") else "activations", name, (("m", "n"),),
        call(f"nn.{name}"), relative(oracle(f"nn.{name}"), scale, _UNDERFLOW), "transcendental", BITS, _SIZES,
        in_ci=True,
    )  # fmt: skip


def _chain(x: Expr, w: Expr, b: Expr) -> Expr:
    """What the benchmarks run: scale, shift, times its sigmoid, plus x."""
    scaled = call("add")(call("multiply")(x, w), b)
    return call("add")(call("multiply")(scaled, call("sigmoid")(scaled)), x)


def _np_chain(x: Any, w: Any, b: Any) -> Any:
    scaled = x * w + b
    return scaled / (1 + np.exp(-scaled)) + x


POINTWISE: tuple[Form, ...] = (
    *(_unary(name, ulp) for name, ulp in _UNARY.items()),
    *(_binary(name, ulp) for name, ulp in _BINARY.items()),
    *(_activation(name, scale) for name, scale in _ACTIVATIONS.items()),
    Form(
        "chain",
        "(x w + b) sigmoid(x w + b) + x",
        (("m", "n"), ("n",), ("n",)),
        _chain,
        relative(
            _np_chain, lambda x, w, b: (np.abs(x * w) + np.abs(b)) * (1 + np.abs(x * w + b)) + np.abs(x)
        ),
        "transcendental",
        FINITE,
        _SIZES,
        in_ci=True,
    ),
)
