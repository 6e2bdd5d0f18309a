"""Elementwise operators, broadcasts, casts."""

from __future__ import annotations

import numpy as np

from tests.fuzz.graphs.builder import Builder, Unfit
from tests.fuzz.graphs.recipes.registry import recipe
from tests.fuzz.graphs.values import ALL, BOOL, FLOATS, INTS, NUMBERS, ONNX_TYPES, UNSIGNED, Size, Value

# fmt: off
SMOOTH = (
    "Exp", "Sin", "Cos", "Atan", "Sinh", "Cosh", "Tanh", "Asinh", "Erf", "Sigmoid", "Abs", "Neg", "Relu",
    "Softplus", "Softsign", "Mish", "HardSwish", "Elu", "Celu", "Selu", "LeakyRelu", "HardSigmoid",
    "ThresholdedRelu", "Identity", "Floor", "Ceil", "Round", "Sign",
)
# fmt: on
PARTIAL = {
    "Log": (0.2, 4),
    "Sqrt": (0.1, 4),
    "Asin": (-0.9, 0.9),
    "Acos": (-0.9, 0.9),
    "Acosh": (1.1, 3),
    "Atanh": (-0.9, 0.9),
    "Reciprocal": (0.3, 3),
    "Tan": (-1.2, 1.2),
}  # fmt: skip
PARAMETERS = {
    "Elu": ("alpha",),
    "Celu": ("alpha",),
    "Selu": ("alpha", "gamma"),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "ThresholdedRelu": ("alpha",),
}


@recipe(6)
def unary(b: Builder) -> object:
    op = b.rng.choice(SMOOTH)
    attrs = {name: b.rng.choice((0.3, 0.75, 1.5)) for name in PARAMETERS.get(op, ()) if b.flag()}
    if op in ("Abs", "Neg", "Sign") and b.flag(0.3):
        return b.node(op, [b.pick(lambda v: v.dtype in INTS and not (op == "Neg" and v.dtype in UNSIGNED))])
    if op == "Relu" and b.opset >= 14 and b.flag(0.2):
        return b.node(op, [b.pick(lambda v: v.dtype in INTS and v.dtype not in UNSIGNED)])
    if op == "Identity" and b.flag():
        return b.node(op, [b.pick()])
    return b.node(op, [b.floating()], **attrs)


@recipe(1)
def newer_unary(b: Builder) -> object:
    if b.opset >= 24 and b.flag():
        return b.node("Swish", [b.floating()], alpha=b.rng.choice((1.0, 0.5)))
    if b.opset < 20:
        raise Unfit("too old")
    return b.node("Gelu", [b.floating()], approximate=b.rng.choice(("none", "tanh")))


@recipe(2)
def partial_unary(b: Builder) -> object:
    """Functions of a part of the numbers: their operand is brought there."""
    op = b.rng.choice(list(PARTIAL))
    low, high = PARTIAL[op]
    x = b.floating()
    unit = b.node("Sigmoid", [x])
    scale = b.given([np.asarray(high - low, x.dtype)] * b.num_samples, True)
    base = b.given([np.asarray(low, x.dtype)] * b.num_samples, True)
    return b.node(op, [b.node("Add", [b.node("Mul", [unit, scale]), base])])


def partner(b: Builder, x: Value, low: float = -2, high: float = 2, dtype: object = None) -> Value:
    """A value that broadcasts with x: one that is there, or a new one with some dimensions left out or 1."""
    wanted = x.dtype if dtype is None else np.dtype(dtype)  # type: ignore[call-overload]
    if dtype is None and b.flag() and low == -2:
        return b.pick(lambda v: v.dtype == x.dtype and broadcasts(v, x))
    shape: list[Size | int] = list(x.shape)
    shape = [1 if b.flag(0.25) else size for size in shape]
    if b.flag(0.3):
        shape = shape[b.integer(0, len(shape)) :]
    if b.flag(0.1) and len(shape) < 4:
        shape = [b.integer(1, 3), *shape]
    one = tuple(
        1 if b.flag() else size for size in (shape[-1] if shape and isinstance(shape[-1], tuple) else ())
    )
    if one and b.flag(0.3):
        shape[-1] = one  # a dimension of its own that is 1 in some samples
    return b.fresh(wanted, shape, low, high)


def broadcasts(left: Value, right: Value) -> bool:
    if left.rank > 5 or right.rank > 5:
        return False
    pairs = zip(reversed(left.shape), reversed(right.shape), strict=False)
    return all(a == c or a == 1 or c == 1 for one, two in pairs for a, c in zip(one, two, strict=True))


@recipe(8, special=True)
def arithmetic(b: Builder) -> object:
    x = b.pick(lambda v: v.dtype in NUMBERS)
    y = partner(b, x)
    pair = [x, y] if b.flag() else [y, x]
    return b.node(b.rng.choice(("Add", "Sub", "Mul")), pair)


@recipe(2)
def divide(b: Builder) -> object:
    x = b.pick(lambda v: v.dtype in NUMBERS)
    y = partner(b, x, 0.4 if x.is_float else 1, 3)
    if x.is_float and b.flag(0.4):
        return b.node("Pow", [b.node("Abs", [x]), y])
    if b.flag(0.3):
        return b.node("Mod", [x, y], fmod=int(x.is_float or b.flag()))
    return b.node("Div", [x, y])


@recipe(1)
def power(b: Builder) -> object:
    x = b.pick(lambda v: v.dtype.name in ("float32", "float64", "int32", "int64", "float16"))
    exponent = b.rng.choice((2, 3, 0, 1)) if not x.is_float else b.rng.choice((2, 3, 1))
    kind = b.rng.choice(("float32", "int64", x.dtype.name))
    return b.node("Pow", [x, b.given([np.asarray(exponent, kind)] * b.num_samples, b.flag(0.8) or None)])


@recipe(2)
def variadic(b: Builder) -> object:
    op = b.rng.choice(("Max", "Min", "Sum", "Mean"))
    x = b.pick(lambda v: v.dtype in (FLOATS if op in ("Sum", "Mean") else NUMBERS))
    return b.node(op, [x, *(partner(b, x) for _ in range(b.integer(0, 2)))])


@recipe(3, special=True)
def comparison(b: Builder) -> object:
    x = b.pick(lambda v: v.dtype in NUMBERS)
    op = b.rng.choice(("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"))
    return b.node(op, [x, partner(b, x)])


@recipe(1.5, special=True)
def logic(b: Builder) -> object:
    x = b.pick(lambda v: v.dtype == BOOL)
    if b.flag(0.3):
        return b.node("Not", [x])
    return b.node(b.rng.choice(("And", "Or", "Xor", "Equal")), [x, partner(b, x)])


@recipe(1, special=True)
def bits(b: Builder) -> object:
    x = b.pick(lambda v: v.dtype in INTS)
    if x.dtype in UNSIGNED and b.flag(0.4):
        y = partner(b, x, 0, 5)
        return b.node("BitShift", [x, y], direction=b.rng.choice(("LEFT", "RIGHT")))
    if b.opset < 18:
        raise Unfit("too old")
    if b.flag(0.2):
        return b.node("BitwiseNot", [x])
    return b.node(b.rng.choice(("BitwiseAnd", "BitwiseOr", "BitwiseXor")), [x, partner(b, x)])


@recipe(1, special=True)
def kinds_of_floats(b: Builder) -> object:
    x = b.floating(common=True)
    if b.flag():
        return b.node("IsNaN", [x])
    return b.node("IsInf", [x], detect_negative=int(b.flag()), detect_positive=int(b.flag()))


@recipe(3, special=True)
def select(b: Builder) -> object:
    x = b.pick()
    condition = b.pick(lambda v: v.dtype == BOOL and broadcasts(v, x)) if b.flag() else b.fresh(BOOL, x.shape)
    return b.node("Where", [condition, x, partner(b, x)])


@recipe(2)
def clip(b: Builder) -> object:
    x = b.pick(lambda v: v.dtype in NUMBERS)
    low = b.given([np.asarray(0 if x.dtype in UNSIGNED else -1).astype(x.dtype)] * b.num_samples, b.flag(0.8))
    high = b.given([np.asarray(b.rng.choice((1, 2))).astype(x.dtype)] * b.num_samples, b.flag(0.8))
    bounds = b.rng.choice(([low, high], [low], [None, high], [None]))
    return b.node("Clip", [x, *bounds])


@recipe(1)
def prelu(b: Builder) -> object:
    x = b.floating()
    shape = [1 if b.flag(0.3) else size for size in x.shape][b.integer(0, x.rank) :]
    return b.node("PRelu", [x, b.fresh(x.dtype, shape)])


@recipe(5)
def cast(b: Builder) -> object:
    x = b.pick()
    target = b.rng.choice(ALL)
    if x.is_float and target in UNSIGNED:
        x = b.node("Abs", [x])
    elif x.dtype in INTS and target in INTS and any((a.astype(target) != a).any() for a in x.clean):
        raise Unfit("out of range")
    if b.opset >= 15 and b.flag(0.2):
        return b.node("CastLike", [x, b.pick(lambda v: v.dtype == target)])
    if (
        x.is_float
        and target in INTS
        and any(np.abs(a.astype("float64")).max(initial=0) > 100 for a in x.clean)
    ):
        raise Unfit("out of range")
    return b.node("Cast", [x], to=ONNX_TYPES[target])


@recipe(1, special=True)
def dropout(b: Builder) -> object:
    x = b.floating()
    return b.nodes_of("Dropout", [x], b.integer(1, 2))[0]
