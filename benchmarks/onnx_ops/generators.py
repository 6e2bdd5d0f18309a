"""Rows of operators that make values: constants of a shape, ranges, random numbers."""

from __future__ import annotations

from benchmarks.onnx_ops.case import POSITIVE, SMALL_TOKENS, Case, just, uniform

_LARGE = {"b": 1, "s": 256, "d": 768}
_SHAPE = "int64[3] shape"


def _like(operator: str) -> Case:
    return Case(
        operator, "float[b,s,d] x", f"y = {operator}(x)", SMALL_TOKENS, _LARGE, is_random=True, opset=21
    )


def _of_shape(operator: str) -> Case:
    """Their shapes are attributes: nothing is free."""
    return Case(
        operator,
        "float[b] x",
        f"r = {operator}<shape=[16, 256]>() s = ReduceSum(x) y = Add(r, s)",
        {"b": 1},
        {"b": 2},
        is_random=True,
        opset=21,
    )


GENERATORS: tuple[Case, ...] = (
    Case(
        "ConstantOfShape",
        _SHAPE,
        "y = ConstantOfShape<value=float[1] {1.5}>(shape)",
        {"b": 1, "s": 16, "d": 256},
        _LARGE,
        fills={"shape": just("b", "s", "d")},
    ),
    Case(
        "Range",
        "int64 low, int64 high, int64 step",
        "y = Range(low, high, step)",
        {"n": 256},
        {"n": 1_000_000},
        fills={"low": just(0), "high": just("n"), "step": just(1)},
    ),
    Case(
        "Range",
        "float low, float high, float step",
        "y = Range(low, high, step)",
        {"n": 256},
        {"n": 1_000_000},
        form="float",
        fills={"low": just(0), "high": just("n"), "step": just(1)},
    ),
    _like("RandomNormalLike"),
    _like("RandomUniformLike"),
    _of_shape("RandomNormal"),
    _of_shape("RandomUniform"),
    Case(
        "Bernoulli",
        "float[b,s,d] x",
        "y = Bernoulli(x)",
        SMALL_TOKENS,
        _LARGE,
        fills={"x": uniform(0, 1)},
        is_random=True,
        opset=21,
    ),
    Case(
        "Multinomial",
        "float[n,k] x",
        "y = Multinomial<sample_size=8>(x)",
        {"n": 1, "k": 100},
        {"n": 32, "k": 5000},
        fills={"x": POSITIVE},
        is_random=True,
        opset=21,
    ),
)
