"""Relay's operators on shapes, and those that move elements.

Over 450 lines: a table of names, one an operator.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from heddle.arith.sizes import as_dim, product
from heddle.graph.codes import R0203, R0205
from heddle.graph.op_builder import call_op, const
from heddle.graph.types import MAX_NDIM
from heddle.ir.expr import Call, Expr, Tuple
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
    fields_of,
    or_none,
    rank,
    sizes_of,
    stated,
    whole,
    whole_within,
)
from heddle.prim.nodes import IntImm, is_const_int
from heddle.support.diagnostics import IRTypeError, UsageError
from heddle.topi.transform import reshaped_dims

_LIKE = (Input("data"), Input("shape_like"))
_AXIS = attr("axis", "int", 0)


def _expanded_axes(given: Given) -> list[int]:
    count = whole_within(given, "num_newaxis", 0, MAX_NDIM)
    first = axis_from(int(given["axis"]), rank(given["data"]) + 1)
    return [first + place for place in range(count)]


def _new_shape(given: Given) -> list[Any]:
    """The sizes that a reshape asks for: 0 copies a size, -1 is what is left, -2 copies the rest, -3 joins
    two, -4 splits one into the next two numbers. What is left is of the sizes that the others do not stand
    for, over the other numbers; 0 where one of these is 0."""
    dims, wanted = list(dims_of(given["data"])), [int(size) for size in as_list(given["newshape"])]
    return _resolved(dims, wanted, bool(given.get("allowzero")))


def _for_shape(new_shape: Callable[[Given], list[Any]]) -> Callable[[Given], Any]:
    """The data to be reshaped. Where a new size of 0 would be read as that of the data, it has its new shape
    already: a vector has no other sizes to be read."""

    def made(given: Given) -> Any:
        data, found = given["data"], new_shape(given)
        sizes = [whole(as_dim(size)) for size in found]
        if 0 not in sizes or any(size is not None and size < 0 for size in sizes):
            return data
        read = reshaped_dims(dims_of(data), found)
        if all(is_const_int(dim, 0) for dim, size in zip(read, sizes, strict=True) if size == 0):
            return data
        vector = call_op("reshape", data, [-1])
        return call_op("squeeze", call_op("reshape", vector, [1, *found]), axis=[0])

    return made


def _from_the_right(given: Given) -> list[Any]:
    """The same with both lists read from their ends."""
    dims, wanted = dims_of(given["data"])[::-1], [int(size) for size in as_list(given["newshape"])][::-1]
    return _resolved(list(dims), wanted, False)[::-1]


def _resolved(dims: list[Any], wanted: list[int], allows_zero: bool) -> list[Any]:
    """The new sizes. -1 stays where the record of `reshape` finds the same for it."""
    found, numbers, rest = list[Any](), list[int](), list[Any]()
    place, hole, is_plain = 0, 0, all(whole(dim) != 0 for dim in dims)
    while wanted:
        size = wanted.pop(0)
        if size in (0, -3) and not (size == 0 and allows_zero) and place + (size == -3) >= len(dims):
            raise IRTypeError(R0203, f"reshape: {size} stands for a dimension that the data lacks")
        if size == -2:
            found += dims[place:]
            place = len(dims)
            continue
        if size == -3:
            found.append(dims[place] * dims[place + 1])
        elif size == -4:
            found += _split_dim(dims, place, wanted)
        elif size == 0 and not allows_zero:
            found.append(dims[place])
        else:
            hole = len(found) if size == -1 else hole
            found.append(size)
            numbers.append(size)
            rest += dims[place : place + 1]
        is_plain = is_plain and size not in (-3, -4)
        place += 2 if size == -3 else 1
    others = [number for number in numbers if number >= 0]
    if numbers.count(-1) == 1 == len(numbers) - len(others) and not (is_plain and all(others)):
        found[hole] = product([*rest, *dims[place:]]) // prod(others) if all(others) else 0
    return found


def _split_dim(dims: list[Any], place: int, wanted: list[int]) -> list[Any]:
    if place >= len(dims) or len(wanted) < 2:
        raise IRTypeError(R0203, "reshape: -4 splits a dimension of the data into the next two numbers")
    first, second = wanted.pop(0), wanted.pop(0)
    if first == -1:
        return [dims[place] // second, second]
    return [first, dims[place] // first if second == -1 else second]


def _reshaped_like(given: Given) -> list[Any]:
    """Dimensions lhs_begin to lhs_end of the data replaced by rhs_begin to rhs_end of the other."""
    own, other = list(dims_of(given["data"])), list(dims_of(given["shape_like"]))
    begin, end = _bounds(given["lhs_begin"], given["lhs_end"], len(own))
    first, last = _bounds(given["rhs_begin"], given["rhs_end"], len(other))
    return own[:begin] + other[first:last] + own[end:]


def _squeezed(given: Given) -> list[int]:
    """The axes that are named, or all of size 1, which have to be known."""
    if given["axis"] is not None:
        return as_list(given["axis"])
    sizes = [whole(dim) for dim in dims_of(given["data"])]
    if None in sizes:
        raise IRTypeError(
            R0205, "squeeze: a size of the data is not known", help="name the axes of size 1 in `axis`"
        )
    return [axis for axis, size in enumerate(sizes) if size == 1]


def _bounds(begin: Any, end: Any, size: int) -> tuple[int, int]:
    stop = size if end is None else int(end)
    return int(begin) % (size + 1) if int(begin) < 0 else int(begin), stop + size if stop < 0 else stop


def _bound_lists(given: Given) -> tuple[list[int], list[Any], list[Any], list[Any]]:
    """Axes, begins, ends and strides of a slice, one each for every axis that it names."""
    begin, end = as_list(given["begin"]), as_list(given["end"])
    axes = given["axes"] if given["axes"] is not None else range(len(begin))
    ndim = rank(given["data"])
    found = [axis_from(int(axis), ndim) for axis in axes]
    if given["slice_mode"] == "size":
        stops = [2**31 - 1 if int(n) < 0 else int(b) + int(n) for b, n in zip(begin, end, strict=True)]
        return found, begin, stops, [1] * len(begin)
    if given["slice_mode"] != "end":
        raise IRTypeError(R0205, f"slice_mode is end or size, got {given['slice_mode']!r}")
    strides = as_list(given["strides"]) if given["strides"] is not None else [1]
    strides = strides * len(begin) if len(strides) == 1 else strides + [1] * (len(begin) - len(strides))
    return found, begin, end, strides


def _sliced(place: int) -> Any:
    return lambda given: [int(item) for item in _bound_lists(given)[place]]


def _parts(call: Call) -> int | None:
    wanted = call.attrs["indices_or_sections"]
    if isinstance(wanted, tuple):
        return len(wanted) + 1
    return int(wanted) if isinstance(wanted, (int, IntImm)) else None


def _tensors(call: Call) -> int | None:
    """How many tensors a call takes, where its text says that."""
    if len(call.args) == 1 and isinstance(call.args[0], Tuple):
        return len(call.args[0].fields)
    return len(call.args)


def _sections(given: Given) -> Any:
    """A number of parts, which must divide the size, or places."""
    wanted, data = given["indices_or_sections"], given["data"]
    if isinstance(wanted, (tuple, list)):
        return list(wanted)
    size = whole(dims_of(data)[axis_from(int(given["axis"]), rank(data))])
    if size is not None and size % int(wanted):
        raise IRTypeError(R0203, f"split: a size of {size} has no {wanted} equal parts")
    return int(wanted)


def _in_sections(given: Given) -> Any:
    """The data; of an axis that is split into equal parts, what is not known is checked when it runs."""
    wanted, data = given["indices_or_sections"], given["data"]
    if isinstance(wanted, (tuple, list)) or int(wanted) < 1:
        return data
    dims, axis, count = list(dims_of(data)), axis_from(int(given["axis"]), rank(data)), int(wanted)
    if whole(dims[axis]) is None and count > 1:
        dims[axis] = dims[axis] // count * count
    return stated(data, dims)


def _dims_as_shape(name: str) -> Any:
    return lambda given: dims_of(given[name])


def _permuted(given: Given) -> Any:
    return None if not given["axes"] else [int(axis) for axis in given["axes"]]


def _changed_shapes() -> Rows:
    """Other shapes of the same elements."""
    yield (
        "expand_dims",
        alias(
            "expand_dims",
            DATA,
            (attr("axis", "int"), attr("num_newaxis", "int", 1)),
            x="data",
            axis=_expanded_axes,
        ),
    )
    yield "permute_dims", alias("transpose", DATA, (attr("axes", "list", None),), x="data", axes=_permuted)
    yield (
        "reshape",
        alias(
            "reshape",
            DATA,
            (attr("newshape", "ints"), attr("allowzero", "bool", False)),
            x=_for_shape(_new_shape),
            shape=_new_shape,
        ),
    )
    yield (
        "reshape",
        alias(
            "contrib_reverse_reshape",
            DATA,
            (attr("newshape", "ints"),),
            x=_for_shape(_from_the_right),
            shape=_from_the_right,
        ),
    )
    yield (
        "reshape",
        alias(
            "reshape_like",
            _LIKE,
            (
                attr("lhs_begin", "int", 0),
                attr("lhs_end", "int", None),
                attr("rhs_begin", "int", 0),
                attr("rhs_end", "int", None),
            ),
            x=_for_shape(_reshaped_like),
            shape=_reshaped_like,
        ),
    )
    yield "squeeze", alias("squeeze", DATA, (attr("axis", "ints", None),), x="data", axis=_squeezed)
    yield "nn.batch_flatten", alias("nn.batch_flatten", DATA)


def _joined_and_repeated() -> Rows:
    """Tensors put together, taken apart and repeated."""
    yield (
        "concat",
        alias(
            "concatenate",
            (Input("data", "tensors"),),
            (_AXIS,),
            tensors=lambda given: fields_of(given["data"]),
        ),
    )
    yield (
        "stack",
        alias("stack", (Input("data", "tensors"),), (_AXIS,), tensors=lambda given: fields_of(given["data"])),
    )
    yield (
        "split",
        alias(
            "split",
            DATA,
            (attr("indices_or_sections", "ints"), _AXIS),
            x=_in_sections,
            indices_or_sections=_sections,
            results=_parts,
        ),
    )
    yield "tile", alias("tile", DATA, (attr("reps", "ints"),), repeats="reps")
    yield "repeat", alias("repeat", DATA, (attr("repeats", "int"), attr("axis", "int", None)))
    yield "flip", alias("reverse", DATA, (attr("axis", "int"),), axis=lambda given: [int(given["axis"])])
    yield "broadcast_to", alias("broadcast_to", DATA, (attr("shape", "ints"),), x="data", shape="shape")
    yield (
        "broadcast_to",
        alias(
            "broadcast_to_like",
            (Input("data"), Input("broadcast_type")),
            x="data",
            shape=_dims_as_shape("broadcast_type"),
        ),
    )
    yield "collapse_sum_to", alias("collapse_sum_to", DATA, (attr("shape", "ints"),), shape="shape")
    yield (
        "collapse_sum_like",
        alias(
            "collapse_sum_like",
            (Input("data"), Input("collapse_type")),
            collapse_target="collapse_type",
        ),
    )


def _dynamic_slice(
    data: Any, begin: Any, end: Any, strides: Any = None, axes: Any = None, slice_mode: str = "end"
) -> Given:
    """Bounds that are tensors or lists, one for each axis."""
    if axes is not None or slice_mode != "end":
        raise UsageError(R0205, "strided_slice: bounds that are tensors go with slice_mode end, without axes")
    given = {"begin": begin, "end": end, "strides": strides}
    for name, value in given.items():
        if value is not None and not isinstance(value, Expr):
            given[name] = const(as_list(value), "int64")
    return {"data": data, **given}


def _own_or_ones(given: Given) -> Any:
    return const(np.ones(rank(given["data"])), "int64") if given["strides"] is None else given["strides"]


def _slices_and_sizes() -> Rows:
    """Parts of tensors, and what their sizes are."""
    yield (
        "strided_slice",
        alias(
            "strided_slice",
            DATA,
            (
                attr("begin", "ints"),
                attr("end", "ints"),
                attr("strides", "ints", None),
                attr("axes", "list", None),
                attr("slice_mode", "str", "end"),
            ),
            x="data",
            axes=_sliced(0),
            begin=_sliced(1),
            end=_sliced(2),
            strides=_sliced(3),
        ),
    )
    yield (
        "dynamic_strided_slice",
        alias(
            "dyn.strided_slice",
            (Input("data"), Input("begin"), Input("end"), Input("strides", optional=True)),
            x="data",
            strides=_own_or_ones,
            function=_dynamic_slice,
        ),
    )
    yield (
        "astype",
        alias(
            "shape_of",
            DATA,
            (attr("dtype", "dtype", "int32"),),
            x=lambda given: sizes_of(given["data"]),
        ),
    )
    yield (
        "astype",
        alias(
            "ndarray_size",
            DATA,
            (attr("dtype", "dtype", "int32"),),
            x=lambda given: call_op("prod", sizes_of(given["data"])),
        ),
    )


def _created() -> Rows:
    """Tensors that are made anew."""
    for name in ("zeros", "ones"):
        yield name, alias(name, (), (attr("shape", "ints"), attr("dtype", "dtype")), shape="shape")
        yield f"{name}_like", alias(f"{name}_like", DATA, x="data")
    yield (
        "full",
        alias(
            "full",
            (Input("fill_value"),),
            (attr("shape", "ints", ()), attr("dtype", "dtype", "")),
            shape="shape",
            dtype=or_none("dtype"),
        ),
    )
    yield "full_like", alias("full_like", (Input("data"), Input("fill_value")), x="data")
    yield (
        "meshgrid",
        alias(
            "meshgrid",
            (Input("data", "tensors"),),
            (attr("indexing", "str", "ij"),),
            tensors=lambda given: fields_of(given["data"]),
            results=_tensors,
        ),
    )


def _ordered() -> Rows:
    """Running sums and sorted elements."""
    for name in ("cumsum", "cumprod"):
        yield (
            name,
            alias(
                name,
                DATA,
                (attr("axis", "int", None), attr("dtype", "dtype", None), attr("exclusive", "bool", None)),
                exclusive=lambda given: bool(given["exclusive"]),
            ),
        )
    yield (
        "sort",
        alias(
            "sort",
            DATA,
            (attr("axis", "int", -1), attr("is_ascend", "bool", True)),
            x="data",
            descending=lambda given: not given["is_ascend"],
        ),
    )
    yield (
        "argsort",
        alias(
            "argsort",
            DATA,
            (attr("axis", "int", -1), attr("is_ascend", "bool", True), attr("dtype", "dtype", "int32")),
            descending=lambda given: not given["is_ascend"],
        ),
    )
    yield (
        "topk",
        alias(
            "topk",
            DATA,
            (
                attr("k", "int", 1),
                attr("axis", "int", -1),
                attr("ret_type", "str", "both"),
                attr("is_ascend", "bool", False),
                attr("dtype", "dtype", "int32"),
            ),
            largest=lambda given: not given["is_ascend"],
            results=lambda call: 2 if call.attrs["ret_type"] == "both" else None,
        ),
    )


def aliases() -> Rows:
    """The names of this file."""
    yield from _changed_shapes()
    yield from _joined_and_repeated()
    yield from _slices_and_sizes()
    yield from _created()
    yield from _ordered()
