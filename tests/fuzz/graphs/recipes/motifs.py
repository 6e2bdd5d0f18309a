"""Pieces of real networks: where passes and schedule rules meet."""

from __future__ import annotations

import numpy as np

from tests.fuzz.graphs.builder import Builder, Unfit
from tests.fuzz.graphs.recipes.contraction import image
from tests.fuzz.graphs.recipes.registry import recipe
from tests.fuzz.graphs.values import FLOAT32, NUMBERS


@recipe(1)
def squeeze_and_excitation(b: Builder) -> object:
    x = image(b)
    if x.rank != 4:
        raise Unfit("needs an image")
    channels, inner = x.shape[1][0], b.integer(1, 3)
    y = b.node("GlobalAveragePool", [x])
    y = b.node("Conv", [y, b.fresh(x.dtype, [inner, channels, 1, 1], -1, 1, constant=True)])
    y = b.node(b.rng.choice(("Relu", "Softplus")), [y])
    y = b.node("Conv", [y, b.fresh(x.dtype, [channels, inner, 1, 1], -1, 1, constant=True)])
    return b.node("Mul", [x, b.node("Sigmoid", [y])])


@recipe(1)
def class_token(b: Builder) -> object:
    """The first row of the tokens, after an affine layer."""
    x = b.floating(3, common=True)
    width = b.size()
    y = b.node("MatMul", [x, b.fresh(x.dtype, [x.shape[2], width], -1, 1)])
    y = b.node("Add", [y, b.fresh(x.dtype, [width])])
    if b.flag():
        y = b.node("Add", [y, y if b.flag() else b.fresh(x.dtype, y.shape)])
    if not min(y.shape[1]):
        raise Unfit("empty")
    return b.node("Gather", [y, b.given([np.asarray(0, "int64")] * b.num_samples, True)], axis=1)


@recipe(1.5)
def attention(b: Builder) -> object:
    x = b.pick(lambda v: v.rank == 3 and v.dtype.name in ("float32", "float64") and v.has_elements)
    heads, width = b.rng.choice((1, 2, 3)), b.rng.choice((1, 2, 4))
    target = b.given([np.asarray([0, 0, heads, width], "int64")] * b.num_samples, True)
    parts = []
    for place in range(3):
        y = b.node("MatMul", [x, b.fresh(x.dtype, [x.shape[2], heads * width], -1, 1)])
        perm = [0, 2, 3, 1] if place == 1 else [0, 2, 1, 3]
        parts.append(b.node("Transpose", [b.node("Reshape", [y, target])], perm=perm))
    scores = b.node("MatMul", parts[:2])
    scores = b.node("Div", [scores, b.given([np.asarray(1.5, x.dtype)] * b.num_samples, True)])
    if b.flag():
        scores = b.node(
            "Add", [scores, b.fresh(x.dtype, [1, 1, *scores.shape[2:]] if b.flag() else scores.shape)]
        )
    mixed = b.node("MatMul", [b.node("Softmax", [scores], axis=-1), parts[2]])
    back = b.node("Transpose", [mixed], perm=[0, 2, 1, 3])
    merged = b.given([np.asarray([0, 0, heads * width], "int64")] * b.num_samples, True)
    return b.node("Reshape", [back, merged])


@recipe(1)
def conv_into_product(b: Builder) -> object:
    x = image(b)
    channels = x.shape[1][0]
    y = b.node(
        "Conv",
        [x, b.fresh(x.dtype, [b.integer(1, 4), channels, *([1] * (x.rank - 2))], -1, 1, constant=True)],
    )
    y = b.node(b.rng.choice(("Sigmoid", "Tanh", "Relu")), [y])
    return b.node("MatMul", [y, b.fresh(x.dtype, [y.shape[-1], b.size()], -1, 1)])


@recipe(1.5, special=True)
def ladder(b: Builder) -> object:
    """A chain whose every step uses the one before twice."""
    x = b.pick(lambda v: v.dtype in NUMBERS)
    for _ in range(b.integer(2, 8)):
        if x.is_float and not b.plan.special and b.flag(0.7):
            x = b.node("Mul", [x, b.node(b.rng.choice(("Sigmoid", "Tanh")), [x])])
        else:
            x = b.node(b.rng.choice(("Add", "Sub", "Mul")), [x, x])
    return x


@recipe(1)
def residual(b: Builder) -> object:
    x = b.floating((2, 3), common=True)
    y = b.node("MatMul", [x, b.fresh(x.dtype, [x.shape[-1], x.shape[-1]], -1, 1)])
    total = b.node("Add", [x, b.node(b.rng.choice(("Relu", "Tanh")), [y])])
    mean = (
        b.node("ReduceMean", [total], keepdims=1)
        if b.opset >= 18
        else b.node("ReduceMean", [total], axes=[-1])
    )
    return b.node("Sub", [total, mean])


@recipe(0.5, special=True)
def constant_output(b: Builder) -> object:
    return b.node("Identity", [b.fresh(FLOAT32, [2, 3], constant=True)])
