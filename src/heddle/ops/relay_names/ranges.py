"""Relay's operators that count: ranges, bounds that are tensors, values that repeat, sparse positions."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from heddle.graph.codes import R0203, R0205
from heddle.graph.op_builder import build_call_in, call_op, const
from heddle.ir.expr import Constant, Expr, Tuple, TupleGetItem
from heddle.ir.op_def import Input
from heddle.ops.relay_names.computed import as_int64, counted, length, number
from heddle.ops.relay_names.rules import (
    DATA,
    Given,
    Rows,
    alias,
    attr,
    axis_from,
    dims_of,
    fixed,
    known_places,
    rank,
    shape_input,
    sizes_of,
    tensor_type,
    typed_as,
    whole,
)
from heddle.support.diagnostics import IRTypeError

_INT = "int64"

# ---- elements


def _is_hot(given: Given) -> Any:
    indices = given["indices"]
    ndim = rank(indices) + 1
    axis = axis_from(int(given["axis"]), ndim)
    places = counted(given["depth"])
    if ndim > 1:
        places = call_op("expand_dims", places, axis=[place for place in range(ndim) if place != axis])
    return call_op("equal", call_op("expand_dims", as_int64(indices), axis=[axis]), places)


def _best(given: Given) -> Any:
    """The first k of sorted elements along an axis."""
    data, kind = given["data"], str(given["ret_type"])
    if kind not in ("both", "values", "indices"):
        raise IRTypeError(R0205, f"ret_type is both, values or indices, got {kind!r}")
    ndim = rank(data)
    axis = axis_from(int(given["axis"]), ndim)
    order = call_op("argsort", data, axis=axis, descending=not given["is_ascend"], dtype=_INT)
    sizes = sizes_of(data)
    here = call_op("equal", const(np.arange(ndim), _INT), number(axis))
    most = call_op("minimum", call_op("reshape", as_int64(given["k"]), [1]), sizes)
    none, ones = const(np.zeros(ndim), _INT), const(np.ones(ndim), _INT)
    ends = call_op("where", here, call_op("where", call_op("less", most, number(1)), sizes, most), sizes)
    order = call_op("dynamic_strided_slice", order, none, ends, ones)
    values = call_op("gather_elements", data, order, axis=axis)
    indices = call_op("astype", order, dtype=str(given["dtype"]))
    return {"both": Tuple((values, indices)), "values": values, "indices": indices}[kind]


def _background(given: Given) -> Any:
    return call_op("full", shape_input(given["output_shape"]), given["default_value"])


def _between(begin: Any, end: Any, step: Any, dtype: str) -> Any:
    """begin, begin + step, ... before end."""
    distance = call_op("subtract", end, begin)
    if dtype.startswith(("float", "bfloat")):
        wide = "float64"
        parts = (call_op("astype", value, dtype=wide) for value in (distance, step))
        count = call_op("ceil", call_op("divide", *parts))
    else:
        wide = _INT
        count = call_op("negative", call_op("floor_divide", call_op("negative", distance), step))
    count = call_op("maximum", as_int64(count), number(0))
    steps = call_op(
        "multiply", call_op("astype", counted(count), dtype=wide), call_op("astype", step, dtype=wide)
    )
    return call_op("astype", call_op("add", call_op("astype", begin, dtype=wide), steps), dtype=dtype)


def _ranged(given: Given) -> Any:
    """Of numbers that the attributes say, a vector of known size; else of the tensors."""
    dtype = str(given["dtype"])
    known = [given[name] for name in ("start", "stop", "step")]
    if any(value is None for value in known):
        begin, end, stride = (call_op("reshape", given[name], []) for name in ("begin", "end", "stride"))
        return _between(begin, end, stride, dtype)
    start, stop, step = known
    if not step:
        raise IRTypeError(R0205, "arange: the step is 0")
    count = max(ceil((stop - start) / step), 0)
    return const(start + known_places(count, "arange") * step, dtype)


def _arange(start: Any, stop: Any = None, step: Any = None, dtype: str = "float32") -> Given:
    if stop is None:
        start, stop = const(0, dtype), start
    begin, end, stride = (
        value if isinstance(value, Expr) else const(value, dtype)
        for value in (start, stop, 1 if step is None else step)
    )
    numbers = {}
    for name, value in (("start", begin), ("stop", end), ("step", stride)):
        if isinstance(value, Constant) and value.data.numpy().size == 1:
            numbers[name] = value.data.numpy().reshape(()).item()
    if len(numbers) < 3:
        numbers = {}
    return {"begin": begin, "end": end, "stride": stride, "dtype": dtype, **numbers}


def _replaced(given: Given) -> Any:
    """The data with the elements of a slice replaced: along each axis a place is in the slice or not, and
    comes of a place of the values."""
    data, values = given["data"], given["v"]
    ndim, sizes = rank(data), sizes_of(data)
    count = length(given["begin"], "strided_set: begin")
    inside: Any = None
    for axis in range(count):
        begin, end, step = (
            call_op("take", as_int64(given[name]), const([axis], _INT), axis=0)
            for name in ("begin", "end", "strides")
        )
        dim = dims_of(data)[axis]
        size = call_op("take", sizes, const([axis], _INT), axis=0)
        is_back = call_op("less", step, number(0))
        first, last = (_in_range(bound, size, is_back) for bound in (begin, end))
        places = call_op("arange", 0, dim, 1, dtype=_INT)
        distance = call_op("subtract", places, first)
        source = call_op("floor_divide", distance, step)
        is_on = call_op("equal", call_op("floor_mod", distance, step), number(0))
        is_after = call_op("greater_equal", source, number(0))
        is_before = call_op("where", is_back, call_op("greater", places, last), call_op("less", places, last))
        here = call_op("logical_and", call_op("logical_and", is_on, is_after), is_before)
        others = [place for place in range(ndim) if place != axis]
        here = call_op("expand_dims", here, axis=others) if others else here
        inside = here if inside is None else call_op("logical_and", inside, here)
        values = call_op("take", values, source, axis=axis, mode="clip")
    if inside is None:
        return values
    return call_op("where", inside, values, data)


def _in_range(bound: Any, size: Any, is_back: Any) -> Any:
    """A bound of a slice from the end where it is negative, and within the axis."""
    own = call_op("where", call_op("less", bound, number(0)), call_op("add", bound, size), bound)
    low = call_op("where", is_back, number(-1), number(0))
    high = call_op("where", is_back, call_op("subtract", size, number(1)), size)
    return call_op("minimum", call_op("maximum", own, low), high)


def _strided_set(data: Any, v: Any, begin: Any, end: Any, strides: Any = None) -> Given:
    begin, end = (value if isinstance(value, Expr) else const(list(value), "int32") for value in (begin, end))
    if strides is None:
        strides = const(np.ones(length(begin, "strided_set: begin")), "int32")
    elif not isinstance(strides, Expr):
        strides = const(list(strides), "int32")
    return {"data": data, "v": v, "begin": begin, "end": end, "strides": strides}


def _elements() -> Rows:
    yield (
        "where",
        alias(
            "dyn.one_hot",
            (Input("indices"), Input("on_value"), Input("off_value"), Input("depth")),
            (attr("axis", "int", -1), attr("dtype", "dtype", None)),
            condition=_is_hot,
            x1=typed_as("on_value"),
            x2=typed_as("off_value"),
        ),
    )
    yield (
        "topk",
        alias(
            "dyn.topk",
            (*DATA, Input("k")),
            (
                attr("axis", "int", -1),
                attr("ret_type", "str", "both"),
                attr("is_ascend", "bool", False),
                attr("dtype", "dtype", "int32"),
            ),
            expression=_best,
            results=lambda call: 2 if call.attrs["ret_type"] == "both" else None,
        ),
    )
    yield (
        "arange",
        alias(
            "arange",
            (Input("begin"), Input("end"), Input("stride")),
            (
                attr("start", "float", None),
                attr("stop", "float", None),
                attr("step", "float", None),
                attr("dtype", "dtype", "float32"),
            ),
            expression=_ranged,
            function=_arange,
        ),
    )
    yield (
        "where",
        alias(
            "strided_set",
            tuple(Input(name) for name in ("data", "v", "begin", "end", "strides")),
            expression=_replaced,
            function=_strided_set,
        ),
    )


# ---- values that repeat, and sparse positions


def _distinct(given: Given) -> Any:
    """Values, where they come first, numbers of the elements, how many values, and how often each comes."""
    data, has_counts = given["data"], bool(given["return_counts"])
    if rank(data) != 1:
        raise IRTypeError(R0203, f"unique takes a vector, got {rank(data)} dimensions")
    found = call_op("unique", data, return_index=True, return_inverse=True, return_counts=True)
    values: Any
    first: Any
    numbers: Any
    counts: Any
    values, first, numbers, counts = (TupleGetItem(found, place) for place in range(4))
    if not given["sorted"]:
        order = call_op("argsort", first, axis=0, dtype=_INT)
        places = call_op("argsort", order, axis=0, dtype=_INT)
        values, first, counts = (call_op("take", part, order, axis=0) for part in (values, first, counts))
        numbers = call_op("take", places, numbers, axis=0)
    parts = [first, call_op("reshape", numbers, dims_of(data)), sizes_of(values)]
    parts += [counts] if has_counts else []
    return Tuple((values, *(call_op("astype", part, dtype="int32") for part in parts)))


def _apart(shape: Any) -> Any:
    """How far apart elements along each axis of a shape are."""
    turned = call_op("flip", shape, axis=[0])
    return call_op("flip", call_op("cumprod", turned, axis=0, exclusive=True), axis=[0])


def _moved_positions(given: Given) -> Any:
    """Positions in another shape of as many elements, of which one size may be -1; and that shape."""
    indices, before, after = (as_int64(given[name]) for name in ("sparse_indices", "prev_shape", "new_shape"))
    known = call_op("where", call_op("less", after, number(0)), number(1), after)
    total, rest = (call_op("prod", part, axis=[0], keepdims=True) for part in (before, known))
    left = call_op("floor_divide", total, call_op("maximum", rest, number(1)))
    shape = call_op("where", call_op("less", after, number(0)), left, after)
    flat = call_op("sum", call_op("multiply", indices, _apart(before)), axis=[1], keepdims=True)
    inner = call_op("maximum", _apart(shape), number(1))
    places = call_op("floor_mod", call_op("floor_divide", flat, inner), call_op("maximum", shape, number(1)))
    dtype = str(tensor_type(given["sparse_indices"]).dtype)
    return Tuple((call_op("astype", places, dtype=dtype), call_op("astype", shape, dtype=dtype)))


def _filled_rows(given: Given) -> Any:
    """Positions and values with one at the begin of each empty row, in the order of rows; which are empty."""
    indices, values = given["sparse_indices"], given["sparse_values"]
    width = whole(dims_of(indices)[1])
    if width is None:
        raise IRTypeError(R0203, "sparse_fill_empty_rows: the rank of the positions must be known")
    height = call_op("take", as_int64(given["dense_shape"]), const([0], _INT), axis=0)
    own = call_op("take", as_int64(indices), const(0, _INT), axis=1)
    none = call_op("zeros", shape_input(height), dtype=_INT)
    one = call_op("broadcast_to", number(1), [dims_of(indices)[0]])
    found = call_op("scatter_elements", none, own, one, axis=0, reduction="add")
    is_empty = call_op("equal", found, number(0))
    empty = call_op("take", call_op("nonzero", is_empty), const(0, _INT), axis=0)
    every_row = call_op("concat", (own, empty), axis=0)
    order = call_op("argsort", every_row, axis=0, dtype=_INT)
    column = call_op("expand_dims", empty, axis=[1])
    if width > 1:
        column = call_op("concat", (column,) + (call_op("zeros_like", column),) * (width - 1), axis=1)
    dtype = str(tensor_type(indices).dtype)
    places = call_op("concat", (indices, call_op("astype", column, dtype=dtype)), axis=0)
    added = call_op("full_like", empty, given["default_value"], dtype=str(tensor_type(values).dtype))
    every_value = call_op("concat", (values, added), axis=0)
    return Tuple(
        (call_op("take", places, order, axis=0), call_op("take", every_value, order, axis=0), is_empty)
    )


def _sparse() -> Rows:
    yield (
        "unique",
        alias(
            "unique",
            DATA,
            (attr("sorted", "bool", True), attr("return_counts", "bool", False)),
            expression=_distinct,
            results=lambda call: 5 if call.attrs["return_counts"] else 4,
            function=lambda data, is_sorted=True, return_counts=False: {
                "data": data,
                "sorted": is_sorted,
                "return_counts": return_counts,
            },
        ),
    )
    yield (
        "floor_mod",
        alias(
            "sparse_reshape",
            (Input("sparse_indices"), Input("prev_shape"), Input("new_shape")),
            expression=_moved_positions,
            results=fixed(2),
        ),
    )
    names = ("sparse_indices", "sparse_values", "dense_shape", "default_value")
    yield (
        "scatter_elements",
        alias(
            "sparse_fill_empty_rows",
            tuple(Input(name) for name in names),
            expression=_filled_rows,
            results=fixed(3),
        ),
    )
    yield (
        "scatter_nd",
        alias(
            "dyn.sparse_to_dense",
            tuple(
                Input(name) for name in ("sparse_indices", "sparse_values", "default_value", "output_shape")
            ),
            expression=_dense,
            function=lambda sparse_indices, output_shape, sparse_values, default_value=0: {
                "sparse_indices": sparse_indices,
                "sparse_values": sparse_values,
                "default_value": default_value,
                "output_shape": output_shape,
            },
        ),
    )


def _dense(given: Given) -> Any:
    """The positions as the static operator takes them, over a background of the sizes that a tensor says."""
    ndim = length(given["output_shape"], "dyn.sparse_to_dense: output_shape")
    attrs = {"output_shape": [1] * ndim}
    args = (given["sparse_indices"], given["sparse_values"], given["default_value"])
    static = build_call_in("relay", "sparse_to_dense", args, attrs)
    return call_op("scatter_nd", _background(given), *static.args[1:], reduction="update")


def aliases() -> Rows:
    """The names of this file."""
    yield from _elements()
    yield from _sparse()
