"""Rows of operators that work on each element alone."""

from __future__ import annotations

from benchmarks.onnx_ops.case import (
    IMAGE,
    LARGE_IMAGE,
    POSITIVE,
    SMALL_IMAGE,
    Case,
    Fill,
    Weight,
    between,
    on_images,
    scalar,
    uniform,
)

_UNARY = [
    "Abs",
    "Asinh",
    "Atan",
    "Ceil",
    "Celu",
    "Cos",
    "Cosh",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "IsInf",
    "IsNaN",
    "LeakyRelu",
    "Mish",
    "Neg",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
]
_OF_RANGE: dict[str, Fill] = {
    "Acos": uniform(-1, 1),
    "Acosh": uniform(1, 9),
    "Asin": uniform(-1, 1),
    "Atanh": uniform(-0.9, 0.9),
    "Log": POSITIVE,
    "Sqrt": POSITIVE,
}
_BINARY = [
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Max",
    "Min",
    "Mean",
    "Sum",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
]
_LOGIC = {"And": "bool", "Or": "bool", "Xor": "bool"}
_BITS = {"BitwiseAnd": "int32", "BitwiseOr": "int32", "BitwiseXor": "int32"}


def _binary(operator: str, dtype: str, call: str = "", **options: object) -> Case:
    inputs = f"{dtype}[n,c,h,w] x, {dtype}[n,c,h,w] z"
    return Case(operator, inputs, f"y = {call or operator}(x, z)", SMALL_IMAGE, LARGE_IMAGE, **options)  # type: ignore[arg-type]


def _by_channel(operator: str, fill: Fill | None = None) -> Case:
    weight = Weight(("c", 1, 1), fill=fill)
    return Case(
        operator,
        IMAGE,
        f"y = {operator}(x, z)",
        SMALL_IMAGE,
        LARGE_IMAGE,
        form="by channel",
        weights={"z": weight},
    )


def _of_integers(operator: str, dtype: str, call: str) -> Case:
    return Case(operator, f"{dtype}[n,c,h,w] x", f"y = {call}", SMALL_IMAGE, LARGE_IMAGE)


POINTWISE: tuple[Case, ...] = (
    *(on_images(name, f"{name}(x)") for name in _UNARY),
    *(on_images(name, f"{name}(x)", fills={"x": fill}) for name, fill in _OF_RANGE.items()),
    on_images("Gelu", "Gelu(x)"),
    on_images("Gelu", 'Gelu<approximate="tanh">(x)', form="tanh"),
    on_images("Swish", "Swish(x)", opset=24),
    on_images("Shrink", "Shrink<bias=0.5, lambd=0.5>(x)"),
    on_images("Dropout", "Dropout(x)"),
    on_images(
        "Clip",
        "Clip(x, low, high)",
        weights={"low": scalar(0), "high": scalar(6)},
    ),
    on_images("Cast", "Cast<to=6>(x)", form="float to int32"),
    on_images("Cast", "Cast<to=10>(x)", form="float to half"),
    _of_integers("Cast", "uint8", "Cast<to=1>(x)"),
    Case("CastLike", "float[n,c,h,w] x, int32[1] like", "y = CastLike(x, like)", SMALL_IMAGE, LARGE_IMAGE),
    on_images("BitCast", "BitCast<to=6>(x)"),
    _of_integers("Not", "bool", "Not(x)"),
    _of_integers("BitwiseNot", "int32", "BitwiseNot(x)"),
    *(_binary(name, "float") for name in _BINARY),
    *(_binary(name, dtype) for name, dtype in (_LOGIC | _BITS).items()),
    _binary("BitShift", "uint32", 'BitShift<direction="LEFT">', fills={"z": between(0, 31)}, opset=27),
    _binary("Mod", "int32", fills={"z": between(1, 50)}),
    _binary("Mod", "float", "Mod<fmod=1>", form="fmod"),
    _binary("Pow", "float", fills={"x": POSITIVE}),
    on_images("Pow", "Pow(x, two)", form="square", weights={"two": scalar(2)}),
    _by_channel("Add"),
    _by_channel("Mul"),
    _by_channel("PRelu"),
    Case(
        "Where",
        "bool[n,c,h,w] m, float[n,c,h,w] x, float[n,c,h,w] z",
        "y = Where(m, x, z)",
        SMALL_IMAGE,
        LARGE_IMAGE,
    ),
    Case(
        "Add",
        "float[n,c,1,w] x, float[n,1,h,w] z",
        "y = Add(x, z)",
        SMALL_IMAGE,
        LARGE_IMAGE,
        form="outer",
    ),
)
