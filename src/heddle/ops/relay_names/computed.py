"""Relay's operators on shapes and images whose sizes or axes are tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.graph.codes import R0203
from heddle.graph.op_builder import build_call_in, call_op, const
from heddle.graph.types import MAX_NDIM
from heddle.ir.expr import Expr
from heddle.ir.op_def import Input
from heddle.ops.relay_names.images import RESIZED
from heddle.ops.relay_names.rules import (
    DATA,
    Given,
    Rows,
    alias,
    attr,
    dims_of,
    rank,
    shape_input,
    sizes_of,
    tensor_type,
    whole,
    whole_within,
)
from heddle.support.diagnostics import IRTypeError

_INT = "int64"


def number(value: int) -> Any:
    """A constant of int64."""
    return const(value, _INT)


def as_int64(tensor: Any) -> Any:
    """A tensor of integers as int64."""
    return call_op("astype", tensor, dtype=_INT)


def counted(count: Any) -> Any:
    """0, 1, ... up to a number of elements that a tensor of one element says: int64."""
    ones = call_op("ones", shape_input(call_op("reshape", count, [1])), dtype=_INT)
    return call_op("cumsum", ones, axis=0, exclusive=True)


def length(vector: Any, what: str) -> int:
    """How many numbers a vector has. Raises: IRTypeError R0203 where that is not known."""
    dims = dims_of(vector)
    size = whole(dims[0]) if len(dims) == 1 else None
    if size is None:
        raise IRTypeError(R0203, f"{what} is a vector of known length: the rank of the result depends on it")
    return size


def _reshaped(data: Any, sizes: Any) -> Any:
    return call_op("reshape", data, shape_input(sizes))


# ---- shapes


def _squeezed(given: Given) -> Any:
    """The data without the axes that the vector names: what is kept comes first when flags are sorted."""
    data, axes = given["data"], as_int64(given["axes"])
    ndim = rank(data)
    count = length(axes, "dyn.squeeze: axes")
    turned = call_op("floor_mod", axes, number(max(ndim, 1)))
    columns = call_op("expand_dims", turned, axis=[1])
    named = call_op("equal", columns, const(np.arange(ndim).reshape(1, -1), _INT))
    order = call_op("argsort", call_op("astype", call_op("any", named, axis=[0]), dtype="int8"), axis=0)
    kept = call_op("strided_slice", order, axes=[0], begin=[0], end=[ndim - count])
    return call_op("take", sizes_of(data), kept, axis=0)


def _widened(given: Given) -> Any:
    """The sizes with ones from an axis on."""
    data, count = given["data"], whole_within(given, "num_newaxis", 0, MAX_NDIM)
    ndim = rank(data)
    if not ndim:
        return const(np.ones(count), _INT)
    axis = call_op("floor_mod", call_op("reshape", as_int64(given["axis"]), [1]), number(ndim + 1))
    places = const(np.arange(ndim + count), _INT)
    end = call_op("add", axis, number(count))
    is_behind = call_op("greater_equal", places, end)
    sources = call_op("where", is_behind, call_op("subtract", places, number(count)), places)
    sizes = call_op("take", sizes_of(data), sources, axis=0, mode="clip")
    is_new = call_op("logical_and", call_op("greater_equal", places, axis), call_op("less", places, end))
    return call_op("where", is_new, number(1), sizes)


def _tiled(given: Given) -> Any:
    """Each axis behind one that repeats it; the two become one."""
    data, reps = given["data"], as_int64(given["reps"])
    count, ndim = length(reps, "dyn.tile: reps"), rank(data)
    sizes = sizes_of(data)
    if ndim < count:
        sizes = call_op("concat", (const(np.ones(count - ndim), _INT), sizes), axis=0)
    elif count < ndim:
        reps = call_op("concat", (const(np.ones(ndim - count), _INT), reps), axis=0)
    width = max(count, ndim)
    ones = const(np.ones(width), _INT)
    apart = call_op("reshape", call_op("stack", (ones, sizes), axis=1), [2 * width])
    repeated = call_op("reshape", call_op("stack", (reps, sizes), axis=1), [2 * width])
    wide = call_op("broadcast_to", _reshaped(data, apart), shape_input(repeated))
    return _reshaped(wide, call_op("multiply", reps, sizes))


def _first(vector: Any, count: int) -> Any:
    """The first numbers of a vector, the last one again where it has no more."""
    return call_op("take", vector, const(np.arange(count), _INT), axis=0, mode="clip")


def _zeros(vector: Any, first: int, count: int) -> Any:
    """Where one of the first numbers of a vector of `count` is 0."""
    return call_op("equal", vector, const(np.where(np.arange(count) < first, 0, -9), _INT))


def _asked(given: Given) -> Any:
    """The sizes that a tensor asks for: 0 copies a size, -1 is what is left, of the sizes that are not copied
    over the other numbers."""
    data, wanted = given["data"], as_int64(given["newshape"])
    count, ndim = length(wanted, "dyn.reshape: newshape"), rank(data)
    sizes, others = sizes_of(data), wanted
    if not given["allowzero"] and count and ndim:
        own, asked = _first(sizes, count), _first(wanted, ndim)
        copies, is_copied = _zeros(wanted, min(count, ndim), count), _zeros(asked, min(count, ndim), ndim)
        wanted, others = call_op("where", copies, own, wanted), call_op("where", copies, number(1), wanted)
        sizes = call_op("where", is_copied, number(1), sizes)
    is_left = call_op("less", wanted, number(0))
    rest = call_op("prod", call_op("where", is_left, number(1), others), axis=[0], keepdims=True)
    total = call_op("prod", sizes, axis=[0], keepdims=True)
    left = call_op("floor_divide", total, call_op("maximum", rest, number(1)))
    return call_op("where", is_left, left, wanted)


def _shapes() -> Rows:
    yield (
        "reshape",
        alias(
            "dyn.reshape",
            (Input("data"), Input("newshape")),
            (attr("allowzero", "bool", False),),
            x="data",
            shape=lambda given: shape_input(_asked(given)),
        ),
    )
    yield (
        "reshape",
        alias(
            "dyn.squeeze",
            (Input("data"), Input("axes")),
            x="data",
            shape=lambda given: shape_input(_squeezed(given)),
            function=lambda data, axis: {"data": data, "axes": axis},
        ),
    )
    yield (
        "reshape",
        alias(
            "dyn.expand_dims",
            (Input("data"), Input("axis")),
            (attr("num_newaxis", "int", 1),),
            x="data",
            shape=lambda given: shape_input(_widened(given)),
        ),
    )
    yield "tile", alias("dyn.tile", (Input("data"), Input("reps")), expression=_tiled)
    yield (
        "dynamic_pad",
        alias(
            "dyn.nn.pad",
            (Input("data"), Input("pad_width"), Input("pad_val")),
            (attr("pad_mode", "str", "constant"),),
            pad_value=lambda given: call_op(
                "astype",
                call_op("reshape", given["pad_val"], []),
                dtype=str(tensor_type(given["data"]).dtype),
            ),
            pad_width=lambda given: shape_input(
                call_op("reshape", given["pad_width"], [2 * rank(given["data"])])
            ),
            function=lambda data, pad_width, pad_value=0, pad_mode="constant": {
                "data": data,
                "pad_width": pad_width,
                "pad_val": pad_value,
                "pad_mode": pad_mode,
            },
        ),
    )


# ---- images


def _scaled(given: Given) -> Any:
    """The sizes of spatial axes times scales that are tensors, rounded."""
    layout, sizes = str(given["layout"]), sizes_of(given["data"])
    found = []
    for letter in (letter for letter in "DHW" if f"scale_{letter.lower()}" in given):
        scale = call_op("astype", call_op("reshape", given[f"scale_{letter.lower()}"], [1]), dtype="float64")
        size = call_op("take", sizes, const([layout.index(letter)], _INT), axis=0)
        found.append(call_op("round", call_op("multiply", call_op("astype", size, dtype="float64"), scale)))
    return as_int64(call_op("concat", tuple(found), axis=0))


def _resized_as(name: str, record: str, sizes: Any) -> Any:
    """The expression of a static operator's record, with sizes that are tensors."""

    def expression(given: Given) -> Any:
        own = {key: value for key, value in given.items() if not isinstance(value, Expr)}
        if "size" in given:
            own |= {"size": [1, 1]}
        scales = {f"scale_{letter}": 1.0 for letter in "dhw" if f"scale_{letter}" in given}
        static = build_call_in("relay", name, (given["data"],), {**own, **scales})
        geometry = (_region(given),) if given.get("coordinate_transformation_mode") == _CROPS else ()
        attrs = dict(static.attrs.items())
        return call_op(record, given["data"], shape_input(sizes(given)), *geometry, **attrs)

    return expression


_CROPS = "tf_crop_and_resize"


def _region(given: Given) -> Any:
    """Scales, begins and ends, as the record takes them."""
    layout = str(given["layout"])
    places = const([layout.index("H"), layout.index("W")], _INT)
    before = call_op("take", sizes_of(given["data"]), places, axis=0)
    scales = call_op(
        "divide", *(call_op("astype", value, dtype="float32") for value in (given["size"], before))
    )
    region = call_op("reshape", call_op("astype", given["roi"], dtype="float32"), [2, 2])
    return call_op("concat", (call_op("reshape", scales, [1, 2]), region), axis=0)


def _resize2d(data: Any, size: Any, roi: Any = None, *args: Any, **attrs: Any) -> Given:
    names = (spec.name for spec in _RESIZE)
    region = roi if isinstance(roi, Expr) else const((0, 0, 1, 1) if roi is None else roi, "float32")
    return {"data": data, "size": size, "roi": region, **dict(zip(names, args, strict=False)), **attrs}


_RESIZE = (attr("layout", "str", "NCHW"), *RESIZED)


def _images() -> Rows:
    method = attr("method", "str", "nearest_neighbor")
    scales = {letter: Input(f"scale_{letter}") for letter in "dhw"}
    yield (
        "image.resize2d",
        alias(
            "dyn.nn.upsampling",
            (*DATA, scales["h"], scales["w"]),
            (attr("layout", "str", "NCHW"), method, attr("align_corners", "bool", False)),
            expression=_resized_as("nn.upsampling", "image.resize2d", _scaled),
        ),
    )
    yield (
        "image.resize3d",
        alias(
            "dyn.nn.upsampling3d",
            (*DATA, scales["d"], scales["h"], scales["w"]),
            (
                attr("layout", "str", "NCDHW"),
                method,
                attr("coordinate_transformation_mode", "str", "half_pixel"),
            ),
            expression=_resized_as("nn.upsampling3d", "image.resize3d", _scaled),
        ),
    )
    yield (
        "image.resize2d",
        alias(
            "dyn.image.resize2d",
            (*DATA, Input("size"), Input("roi")),
            _RESIZE,
            expression=_resized_as("image.resize2d", "image.resize2d", lambda given: as_int64(given["size"])),
            function=_resize2d,
        ),
    )


def aliases() -> Rows:
    """The names of this file."""
    yield from _shapes()
    yield from _images()
