"""Relay's operators that ask where elements lie: masks, places, shapes that are tensors."""

from __future__ import annotations

from typing import Any

from heddle.graph.codes import R0205
from heddle.graph.op_builder import call_op, const
from heddle.ir.op_def import Input
from heddle.ops.relay_names.rules import (
    DATA,
    Given,
    Rows,
    alias,
    attr,
    axis_from,
    dims_of,
    fields_of,
    or_none,
    rank,
    shape_input,
    tensor_type,
    typed_as,
)
from heddle.support.diagnostics import IRTypeError


def _along(size: Any, axis: int, ndim: int, dtype: str) -> Any:
    """Positions 0, 1, ... of an axis, in a shape of `ndim` dimensions."""
    shape = [size if place == axis else 1 for place in range(ndim)]
    return call_op("reshape", call_op("arange", 0, size, 1, dtype=dtype), shape)


def _is_hot(given: Given) -> Any:
    indices, depth = given["indices"], int(given["depth"])
    ndim = rank(indices) + 1
    axis = axis_from(int(given["axis"]), ndim)
    dtype = str(tensor_type(indices).dtype)
    return call_op("equal", call_op("expand_dims", indices, axis=[axis]), _along(depth, axis, ndim, dtype))


def _is_valid(given: Given) -> Any:
    """Which elements of sequences, along axis 0 or 1, lie before the end of theirs."""
    data, lengths = given["data"], given["valid_length"]
    axis, ndim = int(given["axis"]), rank(data)
    if axis not in (0, 1):
        raise IRTypeError(R0205, f"sequence_mask: axis is 0 or 1, got {axis}")
    dims = dims_of(data)
    ends = [dims[place] if place == 1 - axis else 1 for place in range(ndim)]
    positions = _along(dims[axis], axis, ndim, str(tensor_type(lengths).dtype))
    return call_op("less", positions, call_op("reshape", lengths, ends))


def _other_axes(given: Given) -> list[int]:
    ndim = rank(given["shape_like"])
    return [axis_from(int(axis), ndim) for axis in given["axes"]] if given["axes"] else list(range(ndim))


def _ends_of_other(given: Given) -> list[Any]:
    dims = dims_of(given["shape_like"])
    return [dims[axis] for axis in _other_axes(given)]


def _in_triangle(given: Given) -> Any:
    """Where an element of the last two axes lies on or beyond diagonal k."""
    rows, columns = dims_of(given["data"])[-2:]
    distance = call_op("subtract", _along(columns, 1, 2, "int64"), _along(rows, 0, 2, "int64"))
    diagonal = call_op("astype", given["k"], dtype="int64")
    return call_op("greater_equal" if given["upper"] else "less_equal", distance, diagonal)


def _own_dtype(given: Given) -> str:
    return str(tensor_type(given["data"]).dtype)


def _tensors_of_shape() -> Rows:
    for name in ("zeros", "ones"):
        yield (
            name,
            alias(
                f"dyn.{name}",
                (Input("shape"),),
                (attr("dtype", "dtype"),),
                shape=lambda given: shape_input(given["shape"]),
            ),
        )
    yield (
        "full",
        alias(
            "dyn.full",
            (Input("fill_value"), Input("shape")),
            (attr("dtype", "dtype", ""),),
            shape=lambda given: shape_input(given["shape"]),
            dtype=or_none("dtype"),
        ),
    )
    yield (
        "broadcast_to",
        alias(
            "dyn.broadcast_to",
            (Input("data"), Input("shape")),
            x="data",
            shape=lambda given: shape_input(given["shape"]),
        ),
    )


def _masks() -> Rows:
    """What depends on where an element lies."""
    yield (
        "where",
        alias(
            "one_hot",
            (Input("indices"), Input("on_value"), Input("off_value")),
            (attr("depth", "int", 1), attr("axis", "int", -1), attr("dtype", "dtype", None)),
            condition=_is_hot,
            x1=typed_as("on_value"),
            x2=typed_as("off_value"),
        ),
    )
    yield (
        "where",
        alias(
            "sequence_mask",
            (Input("data"), Input("valid_length")),
            (attr("mask_value", "float", 0.0), attr("axis", "int", 0)),
            condition=_is_valid,
            x1="data",
            x2=lambda given: const(float(given["mask_value"]), _own_dtype(given)),
        ),
    )
    yield (
        "reverse_sequence",
        alias(
            "reverse_sequence",
            (Input("data"), Input("seq_lengths")),
            (attr("seq_axis", "int", 1), attr("batch_axis", "int", 0)),
        ),
    )
    yield (
        "strided_slice",
        alias(
            "slice_like",
            (Input("data"), Input("shape_like")),
            (attr("axes", "list", None),),
            x="data",
            axes=_other_axes,
            begin=lambda given: [0] * len(_other_axes(given)),
            end=_ends_of_other,
        ),
    )


def _lookups() -> Rows:
    """Positions as values."""
    yield (
        "argsort",
        alias("invert_permutation", DATA, dtype=_own_dtype),
    )
    yield (
        "where",
        alias(
            "trilu",
            (Input("data"), Input("k")),
            (attr("upper", "bool", True),),
            condition=_in_triangle,
            x1="data",
            x2=lambda given: const(0, _own_dtype(given)),
        ),
    )
    yield (
        "astype",
        alias(
            "argwhere",
            (Input("condition"),),
            x=lambda given: call_op("permute_dims", call_op("nonzero", given["condition"])),
            dtype=lambda given: "int32",
        ),
    )
    yield (
        "einsum",
        alias(
            "einsum",
            (Input("data", "tensors"),),
            (attr("equation", "str"),),
            operands=lambda given: fields_of(given["data"]),
            subscripts="equation",
        ),
    )
    yield (
        "index_tensor",
        alias(
            "adv_index",
            (Input("inputs", "tensors"),),
            data=lambda given: fields_of(given["inputs"])[0],
            indices=lambda given: fields_of(given["inputs"])[1:],
        ),
    )
    yield (
        "bucketize",
        alias(
            "searchsorted",
            (Input("sorted_sequence"), Input("values")),
            (attr("right", "bool", False), attr("dtype", "dtype", "int32")),
            input_tensor="values",
            boundaries="sorted_sequence",
            out_int32=lambda given: str(given["dtype"]) == "int32",
        ),
    )


def aliases() -> Rows:
    """The names of this file."""
    yield from _tensors_of_shape()
    yield from _masks()
    yield from _lookups()
