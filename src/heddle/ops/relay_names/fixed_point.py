"""Relay's operators on fixed-point numbers and on sparse positions."""

from __future__ import annotations

from typing import Any

from heddle.graph.op_builder import call_op, const
from heddle.ir.op_def import Input
from heddle.ops.relay_names.rules import (
    DATA,
    Given,
    Rows,
    alias,
    attr,
    dims_of,
    fixed,
    rank,
    tensor_type,
    whole_within,
)


def _multiplied(given: Given) -> Any:
    """data * multiplier / 2**31 * 2**shift in int64, halves up."""
    shift = whole_within(given, "shift", -32, 32)  # what the numbers of int64 take
    left, right = max(shift, 0), 31 + max(-shift, 0)
    wide = call_op("astype", given["data"], dtype="int64")
    product = call_op("multiply", wide, const(int(given["multiplier"]) << left, "int64"))
    rounded = call_op("add", product, const(1 << (right - 1), "int64"))
    return call_op("right_shift", rounded, const(right, "int64"))


def _strides(given: Given) -> Any:
    """How far apart elements along each axis of a shape are, as a column."""
    turned = call_op("flip", given["shape"], axis=[0])
    behind = call_op("cumprod", turned, axis=0, exclusive=True)
    return _column(call_op("flip", behind, axis=[0]), given)


def _column(vector: Any, given: Given) -> Any:
    count = rank(given["data"])
    return call_op("expand_dims", vector, axis=list(range(1, count + 1))) if count else vector


def _positions(given: Given) -> Any:
    """Sparse positions as vectors along the last axis: one number is a vector of rank 1."""
    indices = given["sparse_indices"]
    ndim = rank(indices)
    if ndim == 0:
        return call_op("expand_dims", indices, axis=[0, 1])
    return call_op("expand_dims", indices, axis=[1]) if ndim == 1 else indices


def _spread_values(given: Given) -> Any:
    """A value for each position."""
    values, indices = given["sparse_values"], given["sparse_indices"]
    return call_op("broadcast_to", values, [dims_of(indices)[0] if rank(indices) else 1])


def _background(given: Given) -> Any:
    value = given["default_value"]
    if value is None:
        value = const(0, str(tensor_type(given["sparse_values"]).dtype))
    return call_op("full", [int(size) for size in given["output_shape"]], value)


def aliases() -> Rows:
    """The names of this file."""
    yield (
        "astype",
        alias(
            "fixed_point_multiply",
            DATA,
            (attr("multiplier", "int"), attr("shift", "int")),
            x=_multiplied,
            dtype=lambda given: str(tensor_type(given["data"]).dtype),
        ),
    )
    yield (
        "floor_mod",
        alias(
            "unravel_index",
            (Input("data"), Input("shape")),
            lhs=lambda given: call_op("floor_divide", given["data"], _strides(given)),
            rhs=lambda given: _column(given["shape"], given),
            function=lambda indices, shape: {"data": indices, "shape": shape},
        ),
    )
    yield (
        "scatter_nd",
        alias(
            "sparse_to_dense",
            (Input("sparse_indices"), Input("sparse_values"), Input("default_value", optional=True)),
            (attr("output_shape", "list"),),
            data=_background,
            indices=_positions,
            updates=_spread_values,
            reduction=fixed("update"),
            function=lambda sparse_indices, output_shape, sparse_values, default_value=0: {
                "sparse_indices": sparse_indices,
                "output_shape": output_shape,
                "sparse_values": sparse_values,
                "default_value": default_value or None,
            },
        ),
    )
