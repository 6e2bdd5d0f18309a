"""Relay's losses and statistics."""

from __future__ import annotations

from math import prod
from typing import Any

from heddle.graph.codes import R0205
from heddle.graph.op_builder import call_op, const
from heddle.ir.op_def import Input
from heddle.ops.relay_names.reduction import axes_of
from heddle.ops.relay_names.rules import Given, Rows, alias, attr, dims_of, tensor_type, whole
from heddle.support.diagnostics import IRTypeError

_X_Y = (Input("x"), Input("y"))


def _predicted(predictions: Any, targets: Any) -> Given:
    return {"x": predictions, "y": targets}


def _squares(given: Given) -> Any:
    """The squares of distances from the mean, for an unbiased variance greater by n / (n - 1)."""
    data = given["data"]
    far = call_op("subtract", data, given["mean"])
    found = call_op("multiply", far, far)
    if not given["unbiased"]:
        return found
    dims = dims_of(data)
    axes = axes_of(given)
    sizes = [whole(dims[axis]) for axis in (range(len(dims)) if axes is None else axes)]
    if None in sizes:
        raise IRTypeError(R0205, "an unbiased variance needs to know how many elements there are")
    count = prod(size for size in sizes if size is not None)
    if count < 2:
        raise IRTypeError(R0205, f"an unbiased variance is of at least 2 elements, got {count}")
    return call_op("multiply", found, const(count / (count - 1), str(tensor_type(data).dtype)))


def _mean_of_sums(products: Any) -> Any:
    return call_op("mean", call_op("sum", products, axis=[1]), axis=[0])


def aliases() -> Rows:
    """The names of this file."""
    yield (
        "mean",
        alias(
            "variance",
            (Input("data"), Input("mean")),
            (
                attr("axis", "ints", None),
                attr("keepdims", "bool", False),
                attr("exclude", "bool", False),
                attr("unbiased", "bool", False),
            ),
            x=_squares,
            axis=axes_of,
        ),
    )
    yield (
        "negative",
        alias(
            "nn.cross_entropy",
            _X_Y,
            function=_predicted,
            x=lambda given: _mean_of_sums(call_op("multiply", call_op("log", given["x"]), given["y"])),
        ),
    )
    yield (
        "negative",
        alias(
            "nn.cross_entropy_with_logits",
            _X_Y,
            function=_predicted,
            x=lambda given: _mean_of_sums(call_op("multiply", given["x"], given["y"])),
        ),
    )
    yield (
        "nn.nll_loss",
        alias(
            "nn.nll_loss",
            (Input("predictions"), Input("targets"), Input("weights")),
            (attr("reduction", "str", "mean"), attr("ignore_index", "int", -100)),
        ),
    )
