"""Rows of reductions, normalisations, running sums and pools over everything."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.onnx_ops.case import (
    POSITIVE,
    Case,
    Weight,
    integer,
    integers,
    on_images,
    on_tokens,
    uniform,
)

_REDUCTIONS = [
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
]
_AXES: dict[str, tuple[Weight, Callable[..., Case]]] = {
    "last axis": (integers(-1), on_tokens),
    "first axis": (integers(0), on_tokens),
    "rows and columns": (integers(2, 3), on_images),
}
_ROW = Weight(("d",))
_CHANNELS = Weight(("c",))


def _reduction(operator: str, form: str) -> Case:
    axes, make = _AXES[form]
    fills = {"ReduceLogSum": {"x": POSITIVE}, "ReduceProd": {"x": uniform(0.99, 1.01)}}.get(operator, {})
    return make(operator, f"{operator}<keepdims=0>(x, axes)", form=form, fills=fills, weights={"axes": axes})


def _vectors(operator: str, call: str, **weights: Weight) -> Case:
    return on_tokens(operator, call, weights=weights)


REDUCTIONS: tuple[Case, ...] = (
    *(_reduction(name, form) for name in _REDUCTIONS for form in _AXES),
    *(
        on_tokens(name, f"{name}<axis={axis}, keepdims=0>(x)", form=form)
        for name in ("ArgMax", "ArgMin")
        for axis, form in ((-1, "last axis"), (1, "middle axis"))
    ),
    *(on_tokens(name, f"{name}<axis=-1>(x)") for name in ("Softmax", "LogSoftmax", "Hardmax")),
    on_images("Softmax", "Softmax<axis=1>(x)", form="channels"),
    Case(
        "Softmax",
        "float[n, 4] x",
        "y = Softmax(x)",
        {"n": 64},
        {"n": 200_000},
        form="4 columns",
    ),
    *(
        on_tokens(
            name,
            f"{name}(x, axis)",
            form=form,
            fills={"x": uniform(0.99, 1.01)},
            weights={"axis": integer(axis)},
        )
        for name in ("CumSum", "CumProd")
        for axis, form in ((2, "last axis"), (1, "middle axis"))
    ),
    on_tokens("LpNormalization", "LpNormalization(x)"),
    _vectors("LayerNormalization", "LayerNormalization(x, scale, bias)", scale=_ROW, bias=_ROW),
    _vectors("RMSNormalization", "RMSNormalization(x, scale)", scale=_ROW),
    on_images("MeanVarianceNormalization", "MeanVarianceNormalization(x)"),
    on_images(
        "GroupNormalization",
        "GroupNormalization<num_groups=8>(x, scale, bias)",
        weights={"scale": _CHANNELS, "bias": _CHANNELS},
    ),
    on_images(
        "InstanceNormalization",
        "InstanceNormalization(x, scale, bias)",
        weights={"scale": _CHANNELS, "bias": _CHANNELS},
    ),
    on_images(
        "BatchNormalization",
        "BatchNormalization(x, scale, bias, mean, var)",
        weights={
            "scale": _CHANNELS,
            "bias": _CHANNELS,
            "mean": _CHANNELS,
            "var": Weight(("c",), fill=POSITIVE),
        },
    ),
    on_images("LRN", "LRN<size=5>(x)"),
    *(on_images(name, f"{name}(x)") for name in ("GlobalAveragePool", "GlobalMaxPool")),
    on_images("GlobalLpPool", "GlobalLpPool(x)", opset=21),
)
