"""Relay's operators of neural networks."""

from __future__ import annotations

from typing import Any

from heddle.graph.codes import R0203, R0205
from heddle.graph.op_builder import call_op
from heddle.graph.types import TensorType
from heddle.ir.expr import Expr
from heddle.ir.op_def import Input
from heddle.ir.types import Type
from heddle.ops.relay_names.pixels import laid_out
from heddle.ops.relay_names.rules import (
    DATA,
    Given,
    Rows,
    alias,
    as_list,
    attr,
    axis_from,
    dims_of,
    fixed,
    kernel_window,
    or_none,
    rank,
    stated,
    tensor_type,
    whole,
    window,
)
from heddle.prim.nodes import constant
from heddle.support.diagnostics import IRTypeError

_WEIGHT = (Input("data"), Input("weight"))
_OUT = attr("out_dtype", "dtype", "")


def _known(given: Given, name: str) -> bool:
    return given[name] is not None


# ---- products


def _swapped(tensor: Expr) -> Expr:
    """The last two axes exchanged."""
    axes = list(range(rank(tensor)))
    if len(axes) < 2:
        raise IRTypeError(R0203, f"a factor that is transposed must have 2 dimensions, got {len(axes)}")
    axes[-2:] = [axes[-1], axes[-2]]
    return call_op("permute_dims", tensor, axes=axes)


def _dense_weight(given: Given) -> Expr:
    weight, units = given["weight"], given["units"]
    if rank(weight) != 2:
        raise IRTypeError(R0203, f"nn.dense: the weight must have 2 dimensions, got {rank(weight)}")
    rows, columns = dims_of(weight)
    if units is None:
        return _swapped(weight)
    if whole(rows) not in (None, int(units)):
        raise IRTypeError(R0203, f"nn.dense: units is {units}, and the weight has {rows} rows")
    return _swapped(stated(weight, [constant(int(units), "int64"), columns]))


def _dense_type(given: Given) -> Type | None:
    if not _known(given, "data") or given["units"] is None:
        return None
    data = tensor_type(given["data"])
    return TensorType((int(given["units"]), dims_of(given["data"])[-1]), data.dtype)


def _maybe_swapped(tensor: str, flag: str) -> Any:
    return lambda given: _swapped(given[tensor]) if given[flag] else given[tensor]


# ---- channels


def _channel_type(attr_name: str = "axis") -> Any:
    """One value a channel of the data."""

    def derive(given: Given) -> Type | None:
        if not _known(given, "data"):
            return None
        dims = dims_of(given["data"])
        axis = axis_from(int(given[attr_name]), len(dims))
        return TensorType((dims[axis],), tensor_type(given["data"]).dtype)

    return derive


def _along(given: Given) -> Expr:
    """The bias with axes behind it, so that it lies along its axis of the data."""
    ndim = rank(given["data"])
    behind = ndim - 1 - axis_from(int(given["axis"]), ndim)
    bias = given["bias"]
    return call_op("expand_dims", bias, axis=[1 + k for k in range(behind)]) if behind else bias


# ---- windows


def _kernel_type(spatial: str, transposed: bool) -> Any:
    """The weight of a convolution, from `channels` and `kernel_size`."""

    def derive(given: Given) -> Type | None:
        if not _known(given, "data") or given["channels"] is None or given["kernel_size"] is None:
            return None
        data, groups = dims_of(given["data"]), int(given["groups"])
        layout, own = str(given["kernel_layout"]), str(given["data_layout"])
        if len(own) != len(data) or "C" not in own:
            return None  # the layout is told of where the operator is
        channels = data[own.index("C")]
        kernel = as_list(given["kernel_size"])
        kernel = kernel * len(spatial) if len(kernel) == 1 else kernel
        sizes: dict[str, Any] = dict(zip(spatial, kernel, strict=True))
        sizes["O"] = int(given["channels"]) // (groups if transposed else 1)
        sizes["I"] = channels if transposed else channels // groups
        return TensorType(tuple(sizes[letter] for letter in layout), tensor_type(given["data"]).dtype)

    return derive


def _checked_weight(spatial: str, transposed: bool) -> Any:
    """The weight, whose sizes agree with the attributes."""

    def check(given: Given) -> Any:
        weight = given["weight"]
        wanted = _kernel_type(spatial, transposed)(given)
        if wanted is None or rank(weight) != len(wanted.dims):
            return weight
        for size, other in zip(map(whole, dims_of(weight)), map(whole, wanted.dims), strict=True):
            if None not in (size, other) and size != other:
                raise IRTypeError(
                    R0203, f"the weight does not fit channels and kernel_size: expected {other}, got {size}"
                )
        return stated(weight, wanted.dims)

    return check


_LINE = {"strides": 1, "padding": 0, "dilation": 1}
"""What `nn.conv1d` leaves open: numbers for its one axis."""


def _convolutions() -> Rows:
    for ndim, spatial in ((1, "W"), (2, "HW"), (3, "DHW")):
        for transposed in (False, True):
            name = f"nn.conv{ndim}d_transpose" if transposed else f"nn.conv{ndim}d"
            kernel = ("IO" if transposed else "OI") + spatial
            extra = (attr("output_padding", "ints", (0,) * ndim),) if transposed else ()
            yield (
                name,
                alias(
                    name,
                    _WEIGHT,
                    (
                        *kernel_window(ndim),
                        attr("data_layout", "str", "NC" + spatial),
                        attr("kernel_layout", "str", kernel),
                        attr("out_layout", "str", ""),
                        *extra,
                        _OUT,
                    ),
                    derived={"weight": _kernel_type(spatial, transposed)},
                    weight=_checked_weight(spatial, transposed),
                    out_layout=or_none("out_layout"),
                    out_dtype=or_none("out_dtype"),
                    defaults=_LINE if name == "nn.conv1d" else {},
                ),
            )


def _pooled(record: str, output_size: Any = None) -> Any:
    """A pool, whose result is moved to `out_layout`."""

    def pooled(given: Given) -> Any:
        own = {name: value for name, value in given.items() if name not in ("data", "out_layout")}
        if output_size is not None:
            own["output_size"] = output_size(given)
        layout = str(given["layout"])
        return laid_out(call_op(record, given["data"], **own), layout, str(given["out_layout"] or layout))

    return pooled


def _pools() -> Rows:
    for ndim, spatial in ((1, "W"), (2, "HW"), (3, "DHW")):
        layout = (attr("layout", "str", "NC" + spatial), attr("out_layout", "str", ""))
        strides, padding, dilation = window(ndim)
        ones = (1,) * ndim
        for kind in ("max", "avg"):
            counted = (attr("count_include_pad", "bool", False),) if kind == "avg" else ()
            rest = (*layout, attr("ceil_mode", "bool", False), *counted)
            yield (
                f"nn.{kind}_pool{ndim}d",
                alias(
                    f"nn.{kind}_pool{ndim}d",
                    DATA,
                    (attr("pool_size", "ints"), strides, dilation, padding, *rest),
                    expression=_pooled(f"nn.{kind}_pool{ndim}d"),
                    defaults={"pool_size": ones},
                ),
            )
            yield (
                f"nn.{kind}_pool{ndim}d_grad",
                alias(
                    f"nn.{kind}_pool{ndim}d_grad",
                    (Input("out_grad"), Input("data")),
                    (attr("pool_size", "ints"), strides, padding, *rest, dilation),
                    grad="out_grad",
                    defaults={"pool_size": ones},
                ),
            )
            yield (
                f"nn.adaptive_{kind}_pool{ndim}d",
                alias(
                    f"nn.adaptive_{kind}_pool{ndim}d",
                    DATA,
                    (attr("output_size", "ints", None), *layout),
                    expression=_pooled(f"nn.adaptive_{kind}_pool{ndim}d", or_none("output_size")),
                ),
            )
            yield (
                f"nn.adaptive_{kind}_pool{ndim}d",
                alias(
                    f"nn.global_{kind}_pool{ndim}d",
                    DATA,
                    layout,
                    expression=_pooled(f"nn.adaptive_{kind}_pool{ndim}d", fixed((1,) * ndim)),
                ),
            )


# ---- padding and norms


def _flat_widths(given: Given) -> list[int]:
    return [int(width) for pair in given["pad_width"] for width in pair]


def _pad_value(given: Given) -> Expr:
    return call_op("astype", given["pad_val"], dtype=str(tensor_type(given["data"]).dtype))


def _pad_mode(given: Given) -> str:
    modes = {"constant": "constant", "edge": "replicate", "reflect": "reflect"}
    if given["pad_mode"] not in modes:
        raise IRTypeError(R0205, f"pad_mode is one of {', '.join(modes)}, got {given['pad_mode']!r}")
    return modes[given["pad_mode"]]


def _axes_without_channel(given: Given) -> list[int]:
    """All axes but the batch and the channels."""
    ndim = rank(given["data"])
    channel = axis_from(int(given["axis"]), ndim)
    return [axis for axis in range(1, ndim) if axis != channel]


_NORM = (attr("epsilon", "float", 1e-5), attr("center", "bool", True), attr("scale", "bool", True))
_SCALED = (Input("data"), Input("gamma"), Input("beta"))


def _norms() -> Rows:
    channel = {"gamma": _channel_type(), "beta": _channel_type()}
    moving = {**channel, "moving_mean": _channel_type(), "moving_var": _channel_type()}
    yield (
        "nn.batch_norm",
        alias(
            "nn.batch_norm",
            (*_SCALED, Input("moving_mean"), Input("moving_var")),
            (attr("axis", "int", 1), *_NORM),
            derived=moving,
            results=lambda call: 3,
            training=fixed(False),
        ),
    )
    yield (
        "nn.layer_norm",
        alias(
            "nn.layer_norm",
            _SCALED,
            (attr("axis", "int", -1), *_NORM),
            derived=channel,
            axes=lambda given: [int(given["axis"])],
        ),
    )
    yield (
        "nn.group_norm",
        alias(
            "nn.group_norm",
            _SCALED,
            (attr("num_groups", "int"), attr("axis", "int", 1), *_NORM),
            derived=channel,
            channel_axis="axis",
            axes=_axes_without_channel,
        ),
    )
    yield (
        "nn.instance_norm",
        alias(
            "nn.instance_norm",
            _SCALED,
            (attr("axis", "int", 1), *_NORM),
            derived=channel,
            channel_axis="axis",
            axes=_axes_without_channel,
        ),
    )


def _products() -> Rows:
    """Products of matrices."""
    yield (
        "matmul",
        alias(
            "nn.dense",
            _WEIGHT,
            (attr("units", "int", None), _OUT),
            derived={"weight": _dense_type},
            x1="data",
            x2=_dense_weight,
            out_dtype=or_none("out_dtype"),
        ),
    )
    for name, default in (("nn.matmul", False), ("nn.batch_matmul", True)):
        units = (attr("units", "int", None),) if name == "nn.matmul" else ()
        yield (
            "matmul",
            alias(
                name,
                (Input("tensor_a"), Input("tensor_b")),
                (*units, _OUT, attr("transpose_a", "bool", False), attr("transpose_b", "bool", default)),
                x1=_maybe_swapped("tensor_a", "transpose_a"),
                x2=_maybe_swapped("tensor_b", "transpose_b"),
                out_dtype=or_none("out_dtype"),
            ),
        )


def _activations() -> Rows:
    """Biases, activations and the like."""
    yield (
        "add",
        alias(
            "nn.bias_add",
            (Input("data"), Input("bias")),
            (attr("axis", "int", 1),),
            derived={"bias": _channel_type()},
            lhs="data",
            rhs=_along,
        ),
    )
    yield "nn.relu", alias("nn.relu", DATA)
    yield (
        "nn.leakyrelu",
        alias("nn.leaky_relu", DATA, (attr("alpha", "float", 0.25),), defaults={"alpha": 0.01}),
    )
    yield (
        "nn.prelu",
        alias(
            "nn.prelu",
            (Input("data"), Input("alpha")),
            (attr("axis", "int", 1),),
            derived={"alpha": _channel_type()},
        ),
    )
    for name in ("softmax", "log_softmax"):
        yield f"nn.{name}", alias(f"nn.{name}", DATA, (attr("axis", "int", -1),))
    yield "nn.softmax", alias("nn.fast_softmax", DATA, (attr("axis", "int", -1),))
    yield "nn.dropout", alias("nn.dropout", DATA, (attr("rate", "float", 0.5),), results=lambda call: 2)
    yield (
        "nn.l2_normalize",
        alias("nn.l2_normalize", DATA, (attr("eps", "float"), attr("axis", "ints", None))),
    )
    yield (
        "nn.lrn",
        alias(
            "nn.lrn",
            DATA,
            (
                attr("size", "int", 5),
                attr("axis", "int", 1),
                attr("bias", "float", 2.0),
                attr("alpha", "float", 1e-5),
                attr("beta", "float", 0.75),
            ),
        ),
    )


def aliases() -> Rows:
    """The names of this file."""
    yield from _products()
    yield from _activations()
    yield (
        "dynamic_pad",
        alias(
            "nn.pad",
            (Input("data"), Input("pad_val")),
            (attr("pad_width", "pairs"), attr("pad_mode", "str", "constant")),
            pad_value=_pad_value,
            pad_width=_flat_widths,
            pad_mode=_pad_mode,
            function=lambda data, pad_width, pad_value=0, pad_mode="constant": {
                "data": data,
                "pad_val": pad_value,
                "pad_width": pad_width,
                "pad_mode": pad_mode,
            },
        ),
    )
    yield from _convolutions()
    yield from _pools()
    yield from _norms()
