"""Relay's reductions, and its operators that look elements up."""

from __future__ import annotations

from typing import Any

from heddle.graph.codes import R0205
from heddle.graph.op_builder import call_op
from heddle.ir.op_def import Input
from heddle.ops.relay_names.rules import DATA, Given, Rows, alias, as_list, attr, axis_from, rank
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


def _extreme(name: str) -> Any:
    def find(given: Given) -> Any:
        if given["select_last_index"]:
            raise IRTypeError(
                R0205, "select_last_index is not supported: the first of equal elements is found"
            )
        return call_op(name, given["data"], axis=_one_axis(given), keepdims=bool(given["keepdims"]))

    return find


_MODES = {"clip": "clip", "wrap": "wrap", "fast": "fast"}


def _mode(given: Given) -> str:
    mode = str(given["mode"])
    if mode not in _MODES or int(given["batch_dims"]) != 0:
        raise IRTypeError(
            R0205,
            f"take: mode is one of {', '.join(_MODES)} and batch_dims 0, got {mode!r}, {given['batch_dims']}",
        )
    return _MODES[mode]


def _index_last(given: Given) -> Any:
    """Index vectors, which Relay has along the first axis."""
    indices = given["indices"]
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
            x="data",
            mode=_mode,
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
