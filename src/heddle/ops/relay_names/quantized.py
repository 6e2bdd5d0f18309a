"""Relay's operators on quantised tensors (`qnn.*`).

Each is an expression of the records: products in integers, as ONNX's quantised models have them, and
conversions of `affine`. So they reach the same kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.graph.codes import R0205
from heddle.graph.op_builder import build_call_in, call_op, const
from heddle.ir.op_def import AttrSpec, Input
from heddle.ops.relay_names.affine import (
    Affine,
    along,
    bounds,
    cast,
    difference,
    factor_of,
    is_same,
    meant,
    placed,
    quantized,
    requantized,
)
from heddle.ops.relay_names.rules import DATA, Given, Rows, alias, attr, fields_of, tensor_type, window
from heddle.support.diagnostics import IRTypeError

_AXIS = attr("axis", "int", -1)


def _inputs(names: str) -> tuple[Input, ...]:
    return tuple(Input(name) for name in names.split())


def _out(default: str) -> AttrSpec:
    return attr("out_dtype", "dtype", default)


def _whole_expression(
    name: str,
    inputs: tuple[Input, ...],
    attrs: tuple[AttrSpec, ...],
    make: Callable[[Given], Any],
    dtype: Callable[[Given], str],
) -> Any:
    """An operator that is a whole expression; `dtype` is that of its result, which it has already."""
    return "astype", alias(name, inputs, attrs, x=make, dtype=dtype)


def _dtype_of(name: str) -> Callable[[Given], str]:
    return lambda given: str(tensor_type(given[name]).dtype)


def _asked(given: Given) -> str:
    return str(given["out_dtype"] or "int8")


def _output(given: Given, axis: int = -1) -> Affine:
    return Affine(given["output_scale"], given["output_zero_point"], axis)


# ---- conversions


def _requantize(given: Given) -> Any:
    of = Affine(given["input_scale"], given["input_zero_point"], int(given["axis"]))
    to = _output(given, int(given["axis"]))
    return requantized(given["data"], of, to, _asked(given), given["rounding"], given["compute_dtype"])


def _simulated(given: Given) -> Any:
    """Values of integers, as floats."""
    dtype, data = str(given["out_dtype"]), given["data"]
    if dtype == "disable":
        return data
    low, high = bounds(dtype)
    values = placed(data, _output(given, int(given["axis"])))
    return cast(call_op("clip", values, float(low), float(high)), str(tensor_type(data).dtype))


def _simulated_back(given: Given) -> Any:
    data, axis = given["data"], int(given["axis"])
    if str(given["in_dtype"]) == "disable":
        return data
    bounds(str(given["in_dtype"]))
    dtype = str(tensor_type(data).dtype)
    values = difference(data, given["input_zero_point"], axis, dtype)
    return call_op("multiply", values, along(cast(given["input_scale"], dtype), data, axis))


def _in_steps(given: Given) -> Any:
    """Data as whole steps of a scale, from `clip_min` to `clip_max` of them; as it is, of kind 0."""
    data, scale, axis = given["data"], given["dom_scale"], int(given["axis"])
    if given["rounding"] != "round":
        raise IRTypeError(R0205, f"rounding is 'round', got {given['rounding']!r}")
    if int(given["kind"]) == 0:
        return data
    dtype = str(tensor_type(data).dtype)
    values = cast(placed(data, Affine(scale, const(0, "int32"), axis)), dtype)
    for name, word in (("maximum", "clip_min"), ("minimum", "clip_max")):
        values = call_op(name, values, cast(given[word], dtype))
    return call_op("multiply", values, along(cast(scale, dtype), data, axis))


def _conversions() -> Rows:
    output, source = "output_scale output_zero_point", "input_scale input_zero_point"
    yield _whole_expression(
        "qnn.quantize",
        _inputs(f"data {output}"),
        (_AXIS, _out("int8")),
        lambda given: quantized(given["data"], _output(given, int(given["axis"])), _asked(given)),
        _asked,
    )
    yield (
        "dequantize",
        alias(
            "qnn.dequantize",
            _inputs(f"data {source}"),
            (_AXIS, _out("float32")),
            scale="input_scale",
            zero_point="input_zero_point",
        ),
    )
    yield _whole_expression(
        "qnn.requantize",
        _inputs(f"data {source} {output}"),
        (_AXIS, attr("rounding", "str", "None"), attr("compute_dtype", "str", "None"), _out("int8")),
        _requantize,
        _asked,
    )
    for name, inputs, word, make in (
        ("qnn.simulated_quantize", output, "out_dtype", _simulated),
        ("qnn.simulated_dequantize", source, "in_dtype", _simulated_back),
    ):
        yield _whole_expression(
            name, _inputs(f"data {inputs}"), (_AXIS, attr(word, "str", "int8")), make, _dtype_of("data")
        )
    yield _whole_expression(
        "relay.op.annotation.simulated_quantize",
        _inputs("data dom_scale clip_min clip_max"),
        (attr("kind", "int"), attr("sign", "bool", True), attr("rounding", "str", "round"), _AXIS),
        _in_steps,
        _dtype_of("data"),
    )


# ---- products

_FACTORS = "input_zero_point kernel_zero_point input_scale kernel_scale"


def _sum(given: Given) -> str:
    return str(given["out_dtype"] or "int32")


def _convolution(name: str, kernel: str, attrs: tuple[AttrSpec, ...], output_axis: str) -> Any:
    """Of differences from zero points: what is padded is the zero point."""

    def make(given: Given) -> Any:
        own = {spec.name: given[spec.name] for spec in attrs}
        layout = str(given["kernel_layout"])
        data = factor_of(given["data"], given["input_zero_point"], str(given["data_layout"]).index("C"))
        weight = factor_of(given[kernel], given["kernel_zero_point"], layout.index(output_axis))
        return build_call_in("relay", f"nn.{name}", (data, weight), {**own, "out_dtype": _sum(given)})

    return _whole_expression(
        f"qnn.{name}", _inputs(f"data {kernel} {_FACTORS}"), (*attrs, _out("int32")), make, _sum
    )


def _convolutions() -> Rows:
    steps = (*window(2), attr("groups", "int", 1))
    layouts = (attr("data_layout", "str", "NCHW"), attr("out_layout", "str", ""))
    sizes = (attr("kernel_size", "ints", None), attr("channels", "int", None))
    plain = attr("kernel_layout", "str", "OIHW")
    turned = attr("kernel_layout", "str", "IOHW")
    first, last = layouts
    yield _convolution("conv2d", "kernel", (*sizes, *steps, first, plain, last), "O")
    yield _convolution(
        "conv2d_transpose",
        "weight",
        (*steps, *reversed(sizes), first, turned, last, attr("output_padding", "ints", (0, 0))),
        "O",
    )


def _dense(given: Given) -> Any:
    data = factor_of(given["data"], given["input_zero_point"], -1)
    weight = factor_of(given["weight"], given["kernel_zero_point"], 0)
    attrs = {"units": given["units"], "out_dtype": _sum(given)}
    return build_call_in("relay", "nn.dense", (data, weight), attrs)


def _dense_pack(given: Given) -> Any:
    """A weight in a layout NC, NC8n or the like, zero points of one value or one a row of it."""
    layout = str(given["kernel_layout"])
    if tensor_type(given["kernel_zero_point"]).ndim and layout != "NC":
        raise IRTypeError(R0205, "a packed weight has one zero point in all")
    data = factor_of(given["data"], given["input_zero_point"], -1)
    weight = factor_of(given["weight"], given["kernel_zero_point"], 0)
    if layout != "NC":
        attrs = {"src_layout": layout, "dst_layout": "NC"}
        weight = build_call_in("relay", "layout_transform", (weight,), attrs)
    attrs = {"units": given["units"], "out_dtype": _sum(given)}
    return build_call_in("relay", "nn.dense", (data, weight), attrs)


def _batch_matmul(given: Given) -> Any:
    x = factor_of(given["x"], given["x_zero_point"], -1)
    y = factor_of(given["y"], given["y_zero_point"], -1)
    return build_call_in("relay", "nn.batch_matmul", (x, y), {"out_dtype": _sum(given)})


def _products() -> Rows:
    yield from _convolutions()
    inputs = _inputs(f"data weight {_FACTORS}")
    units = attr("units", "int", None)
    yield _whole_expression("qnn.dense", inputs, (units, _out("int32")), _dense, _sum)
    yield _whole_expression(
        "qnn.contrib_dense_pack",
        inputs,
        (attr("kernel_layout", "str", "NC"), units, _out("int32")),
        _dense_pack,
        _sum,
    )
    yield _whole_expression(
        "qnn.batch_matmul",
        _inputs("x y x_zero_point y_zero_point x_scale y_scale"),
        (_out("int32"),),
        _batch_matmul,
        _sum,
    )


# ---- arithmetic


def _side(given: Given, name: str) -> Affine:
    return Affine(given[f"{name}_scale"], given[f"{name}_zero_point"], int(given[f"{name}_axis"]))


def _sum_of(operator: str) -> Callable[[Given], Any]:
    """Both sides with the scale of the result, in int32."""

    def make(given: Given) -> Any:
        to, zero = _output(given), Affine(given["output_scale"], const(0, "int32"))
        sides = [requantized(given[name], _side(given, name), zero, "int32") for name in ("lhs", "rhs")]
        exact = call_op(operator, *sides)
        return _limited_to(given, call_op("add", exact, along(cast(to.zero, "int32"), exact, -1)))

    return make


def _limited_to(given: Given, value: Any) -> Any:
    dtype = _dtype_of("lhs")(given)
    if dtype == "int32":
        return value
    return call_op("astype", call_op("clip", value, *bounds(dtype)), dtype=dtype)


def _mul(given: Given) -> Any:
    sides = [_side(given, name) for name in ("lhs", "rhs")]
    lhs, rhs = (
        difference(given[name], side.zero, side.axis, "int32")
        for name, side in zip(("lhs", "rhs"), sides, strict=True)
    )
    product = call_op("multiply", lhs, rhs)
    left, right = (along(side.scale, product, side.axis) for side in sides)
    if any(tensor_type(scale).ndim for scale in (left, right)):
        raise IRTypeError(R0205, "qnn.mul takes one scale for each side")
    of = Affine(call_op("multiply", left, right), const(0, "int32"))
    return requantized(product, of, _output(given), _dtype_of("lhs")(given))


def _concatenate(given: Given) -> Any:
    parts, scales, zeros = (fields_of(given[name]) for name in ("data", "input_scales", "input_zero_points"))
    if not len(parts) == len(scales) == len(zeros):
        counts = f"{len(parts)} tensors, {len(scales)} scales and {len(zeros)} zero points"
        raise IRTypeError(R0205, f"qnn.concatenate: {counts}")
    to, dtype = _output(given), str(tensor_type(parts[0]).dtype)
    made = [
        requantized(part, Affine(scale, zero), to, dtype)
        for part, scale, zero in zip(parts, scales, zeros, strict=True)
    ]
    return call_op("concat", made, axis=int(given["axis"]))


def _arithmetic() -> Rows:
    names = "lhs rhs lhs_scale lhs_zero_point rhs_scale rhs_zero_point output_scale output_zero_point"
    axes = (attr("lhs_axis", "int", -1), attr("rhs_axis", "int", -1))
    for name, make in (("add", _sum_of("add")), ("subtract", _sum_of("subtract")), ("mul", _mul)):
        yield _whole_expression(f"qnn.{name}", _inputs(names), axes, make, _dtype_of("lhs"))
    tuples = tuple(Input(name, "tensors") for name in ("data", "input_scales", "input_zero_points"))
    yield _whole_expression(
        "qnn.concatenate",
        (*tuples, *_inputs("output_scale output_zero_point")),
        (attr("axis", "int"),),
        _concatenate,
        lambda given: str(tensor_type(fields_of(given["data"])[0]).dtype),
    )


# ---- functions


def _through(
    name: str, scale: str, zero: str, function: Callable[[Any, Given], Any]
) -> Callable[[Given], Any]:
    """quantize(function(dequantize(x)))."""

    def make(given: Given) -> Any:
        data = given[name]
        real = function(meant(data, Affine(given[scale], given[zero])), given)
        return quantized(real, _output(given), str(tensor_type(data).dtype))

    return make


def _hardswish(real: Any, given: Given) -> Any:
    gate = call_op("clip", call_op("add", real, const(3.0, "float32")), 0.0, 6.0)
    return call_op("multiply", real, call_op("divide", gate, const(6.0, "float32")))


def _record(name: str) -> Callable[[Any, Given], Any]:
    return lambda real, given: call_op(name, real)


def _functions() -> Rows:
    inputs = _inputs("x scale zero_point output_scale output_zero_point")
    functions: dict[str, Any] = {
        name: _record(name) for name in ("tanh", "exp", "sqrt", "rsqrt", "erf", "abs", "sigmoid", "log")
    }
    functions["hardswish"] = _hardswish
    for name, function in functions.items():
        make = _through("x", "scale", "zero_point", function)
        yield _whole_expression(f"qnn.{name}", inputs, (), make, _dtype_of("x"))
    softmax = _through(
        "x",
        "scale",
        "zero_point",
        lambda real, given: call_op("nn.softmax", real, axis=int(given["axis"])),
    )
    yield _whole_expression("qnn.softmax", inputs, (_AXIS,), softmax, _dtype_of("x"))
    leaky = _through(
        "x",
        "input_scale",
        "input_zero_point",
        lambda real, given: call_op("nn.leakyrelu", real, alpha=float(given["alpha"])),
    )
    yield _whole_expression(
        "qnn.leaky_relu",
        _inputs("x input_scale input_zero_point output_scale output_zero_point"),
        (attr("alpha", "float"),),
        leaky,
        _dtype_of("x"),
    )
    yield _avg_pool()


_POOL = (
    attr("pool_size", "ints"),
    attr("strides", "ints", (1, 1)),
    attr("padding", "ints", (0, 0)),
    attr("dilation", "ints", (1, 1)),
    attr("ceil_mode", "bool", False),
    attr("count_include_pad", "bool", True),
    attr("layout", "str", "NHWC"),
    attr("out_layout", "str", ""),
)


def _pooled(given: Given) -> Any:
    """Sums of whole numbers are exact in float32; the scale follows them."""
    data = given["data"]
    own = {spec.name: given[spec.name] for spec in _POOL}
    values = difference(data, given["input_zero_point"], -1, "float64")
    # of float64, so that a mean between two integers is there exactly, whatever it is multiplied by
    mean = cast(build_call_in("relay", "nn.avg_pool2d", (values,), own), "float32")
    of, to = Affine(given["input_scale"], const(0, "int32")), _output(given)
    if not is_same(of, to):
        mean = call_op("multiply", mean, cast(along(of.scale, data, -1), "float32"))
        return quantized(mean, to, str(tensor_type(data).dtype))
    return quantized(mean, Affine(const(1.0, "float32"), to.zero), str(tensor_type(data).dtype))


def _avg_pool() -> Any:
    inputs = (*DATA, *_inputs("input_scale input_zero_point output_scale output_zero_point"))
    return _whole_expression("qnn.avg_pool2d", inputs, _POOL, _pooled, _dtype_of("data"))


def aliases() -> Rows:
    """The names of this file."""
    yield from _conversions()
    yield from _products()
    yield from _arithmetic()
    yield from _functions()
