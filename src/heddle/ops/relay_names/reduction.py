"""Relay's reductions, and its operators that look elements up."""

from __future__ import annotations

from typing import Any

from heddle.graph.codes import R0203, R0205
from heddle.graph.op_builder import call_op, const
from heddle.ir.op_def import Input
from heddle.ops.relay_names.rules import (
    DATA,
    Given,
    Rows,
    alias,
    as_list,
    attr,
    axis_from,
    dims_of,
    rank,
    size_vector,
    stated,
    tensor_type,
    whole,
)
from heddle.prim.nodes import constant
from heddle.support.diagnostics import IRTypeError

_AXES = (attr("axis", "ints", None), attr("keepdims", "bool", False), attr("exclude", "bool", False))


def axes_of(given: Given) -> list[int] | None:
    """The axes to reduce: those named, all, or with `exclude` all others."""
    ndim = rank(given["data"])
    named = given["axis"]
    if named is None:
        return [] if given["exclude"] else None
    found = [axis_from(int(axis), ndim) for axis in as_list(named)]
    if given["exclude"]:
        return [axis for axis in range(ndim) if axis not in found]
    return found or None


def _one_axis(given: Given) -> int | None:
    found = axes_of(given)
    if found is not None and len(found) != 1:
        raise IRTypeError(R0205, f"expected one axis or none, got {found}")
    return None if found is None else found[0]


def _size(dim: Any) -> Any:
    """A size as a scalar of int64."""
    return call_op("reshape", size_vector([dim]), [])


def _extreme(name: str) -> Any:
    """The index of the first of equal elements; of the last by looking from the end."""

    def find(given: Given) -> Any:
        data, axis, keepdims = given["data"], _one_axis(given), bool(given["keepdims"])
        if not given["select_last_index"]:
            return call_op(name, data, axis=axis, keepdims=keepdims)
        ndim = rank(data)
        flat, along = (call_op("reshape", data, [-1]), 0) if axis is None else (data, axis)
        found = call_op(name, call_op("flip", flat, axis=along), axis=along, keepdims=keepdims)
        last = call_op("subtract", _size(dims_of(flat)[along]), const(1, "int64"))
        found = call_op("subtract", last, found)
        return call_op("reshape", found, [1] * ndim) if axis is None and keepdims else found

    return find


_MODES = ("clip", "wrap", "fast")


def _taken(given: Given) -> Any:
    """Elements by index. Each place of the first `batch_dims` axes has indices of its own: these axes lead,
    the one that is indexed comes behind them, and what was in front of it is moved back."""
    data, indices, mode = given["data"], given["indices"], str(given["mode"])
    count = int(given["batch_dims"])
    batch = axis_from(count, rank(indices)) if count not in (0, rank(indices)) else count
    if mode not in _MODES:
        raise IRTypeError(R0205, f"take: mode is one of {', '.join(_MODES)}, got {mode!r}")
    if not batch:
        return call_op("take", data, indices, axis=given["axis"], mode=mode)
    if given["axis"] is None:
        raise IRTypeError(R0205, "take: batch_dims goes with an axis")
    ndim, own = rank(data), rank(indices) - batch
    axis = axis_from(int(given["axis"]), ndim)
    if batch > axis:
        raise IRTypeError(R0205, f"take: batch_dims {batch} goes up to the axis {axis} at most")
    places = call_op("expand_dims", _within(indices, dims_of(data)[axis], mode), axis=[-1])
    before, behind = list(range(batch, axis)), list(range(axis + 1, ndim))
    moved = call_op("permute_dims", data, axes=[*range(batch), axis, *before, *behind])
    found = call_op("gather_nd", moved, places, batch_dims=batch)
    first, rest = batch + own, batch + own + len(before)
    order = [*range(batch), *range(first, rest), *range(batch, first), *range(rest, rest + len(behind))]
    return call_op("permute_dims", found, axes=order)


def _within(indices: Any, dim: Any, mode: str) -> Any:
    """Indices moved into an axis, as the mode says."""
    if mode == "fast":
        return indices
    dtype = "uint64" if tensor_type(indices).dtype == "uint64" else "int64"
    wide, size = call_op("astype", indices, dtype=dtype), call_op("astype", _size(dim), dtype=dtype)
    size = call_op("maximum", size, const(1, dtype))  # of an axis without elements nothing is read
    if mode == "wrap":
        return call_op("floor_mod", wide, size)
    last = call_op("subtract", size, const(1, dtype))
    return call_op("maximum", call_op("minimum", wide, last), const(0, dtype))


def _index_last(given: Given) -> Any:
    """Index vectors, which Relay has along the first axis. How long they are is known, or `index_rank`."""
    indices, length = given["indices"], given.get("index_rank")
    dims = dims_of(indices)
    known = whole(dims[0])
    if known is None and length is None:
        raise IRTypeError(R0205, "the first dimension of indices, which counts the axes, must be known")
    if length is not None and known not in (None, int(length)):
        raise IRTypeError(R0203, f"the first dimension of indices is {known}, and index_rank {length}")
    if length is not None:
        indices = stated(indices, [constant(int(length), "int64"), *dims[1:]])
    return call_op("permute_dims", indices, axes=[*range(1, rank(indices)), 0])


def aliases() -> Rows:
    """The names of this file."""
    for name in ("sum", "prod", "max", "min", "mean", "all", "any"):
        yield name, alias(name, DATA, _AXES, x="data", axis=axes_of)
    for name in ("argmax", "argmin"):
        yield (
            "astype",
            alias(
                name,
                DATA,
                (*_AXES, attr("select_last_index", "bool", False)),
                x=_extreme(name),
                dtype=lambda given: "int32",
            ),
        )
    yield (
        "take",
        alias(
            "take",
            (Input("data"), Input("indices")),
            (attr("axis", "int", None), attr("batch_dims", "int", 0), attr("mode", "str", "clip")),
            expression=_taken,
        ),
    )
    yield (
        "gather_elements",
        alias(
            "gather",
            (Input("data"), Input("indices")),
            (attr("axis", "int"),),
            function=lambda data, axis, indices: {"data": data, "indices": indices, "axis": axis},
        ),
    )
    yield (
        "gather_nd",
        alias(
            "gather_nd",
            (Input("data"), Input("indices")),
            (attr("batch_dims", "int", 0), attr("index_rank", "int", None)),
            indices=_index_last,
        ),
    )
    yield (
        "scatter_elements",
        alias(
            "scatter_elements",
            (Input("data"), Input("indices"), Input("updates")),
            (attr("axis", "int", 0), attr("reduction", "str", "update")),
        ),
    )
    yield (
        "scatter_nd",
        alias(
            "scatter_nd",
            (Input("data"), Input("indices"), Input("updates")),
            (attr("mode", "str", "update"),),
            indices=_index_last,
            reduction="mode",
        ),
    )
