"""Tensors from nothing: constants, ranges, fills, triangles, identity matrices."""

from __future__ import annotations

import math

import numpy as np

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.proto import Node, dtype_name
from heddle.frontend.onnx.registry import converts, denies
from heddle.frontend.onnx.values import array_value, tensor_value
from heddle.ir.expr import Expr
from heddle.prim import ops
from heddle.prim.nodes import IntImm
from heddle.runtime.dtype import DataType

MAX_FILL = 1 << 20
"""Fills of constant shape and as many elements at most are constants."""

_FORMS = {
    "value": None,
    "value_float": np.float32,
    "value_int": np.int64,
    "value_floats": np.float32,
    "value_ints": np.int64,
}


@denies("Constant")
def constant_form(node: Node) -> str | None:
    """Why a Constant has no value, or None."""
    if any(name in node.attrs for name in _FORMS):
        return None
    given = ", ".join(node.attrs) or "none"
    return f"expected one of the attributes {', '.join(_FORMS)}, got {given}"


@converts("Constant")
def constant(ctx: NodeContext) -> Result:
    """Constant in any of its attributes' forms."""
    name = next(name for name in _FORMS if name in ctx.node.attrs)
    given, form = ctx.attr(name), _FORMS[name]
    if form is not None and not all(isinstance(each, (int, float)) for each in np.ravel(given).tolist()):
        ctx.malformed(f"{name} is no number, nor several")  # a function's body took it from its caller
    array = np.asarray(given, dtype=form)
    return array_value(array, ctx.node.tensor_dtypes.get(name, ""))


@converts("ConstantOfShape")
def constant_of_shape(ctx: NodeContext) -> Result:
    """ConstantOfShape: a known value where the shape is known and small, else filled at run time."""
    fill = ctx.attr("value", np.zeros(1, np.float32))
    if fill.size != 1:
        ctx.malformed(f"value must have one element, got {fill.size}")
    ctx.require_rank(0, 0, 1)
    dtype, shape = ctx.node.tensor_dtypes.get("value") or fill.dtype.name, ctx.array(0)
    shape = shape if shape is None else shape.reshape(-1)
    if shape is not None and (shape < 0).any():
        ctx.malformed(f"a tensor of shape {shape.tolist()}")
    if shape is not None and math.prod(shape.tolist()) <= MAX_FILL:
        return array_value(np.full(shape.tolist(), fill.reshape(()), fill.dtype), dtype)
    return ctx.call("full", ctx.shape_values(0), ctx.const(fill.reshape(()), dtype), dtype=dtype)


@converts("Range")
def value_range(ctx: NodeContext) -> Result:
    """Range: a known vector, or one whose length is computed from its bounds."""
    dtype = ctx.dtype(0)
    known = [ctx.array(index) for index in range(3)]
    if any(array is not None and not array.size for array in known):
        ctx.malformed("start, limit and delta must be numbers, one of them has no elements")
    if all(array is not None for array in known):
        start, stop, step = (array.reshape(-1)[0].item() for array in known if array is not None)
        if step == 0:
            ctx.malformed("a step of 0")
        if isinstance(start, int):
            count = max(0, -((start - stop) // step))
        elif math.isfinite((stop - start) / step):
            count = max(0, math.ceil((stop - start) / step))
        else:
            ctx.malformed(f"a range from {start} to {stop} in steps of {step} has no end")
        if count <= 1 << 20:
            return array_value((start + np.arange(count) * step).astype(dtype))
    if DataType(dtype).is_float:
        return _range_of_floats(ctx, dtype)
    start, stop, step = (ctx.number(index) for index in range(3))
    return ctx.call("arange", start, stop, step, dtype=dtype)


def _range_of_floats(ctx: NodeContext, dtype: str) -> Expr:
    """start + k * step; the number of elements, ceil((stop - start) / step), is read when the model runs. The
    least numbers are in float32 at least, as ONNX Runtime computes them."""
    wide = dtype if DataType(dtype).bits >= 32 else "float32"
    start, stop, step = (ctx.reshape(ctx.astype(ctx.tensor(index), wide), (1,)) for index in range(3))
    exact = [ctx.astype(bound, "float64") for bound in (ctx.call("subtract", stop, start), step)]
    count = ctx.astype(ctx.call("ceil", ctx.call("divide", *exact)), "int64")
    (length,) = ctx.importer.elements_of(tensor_value(count, "range"), sizes=False)
    (size,) = ctx.importer.named_dims([ops.maximum(length, 0)], "length")
    index = ctx.astype(ctx.call("arange", 0, size, 1, dtype="int64"), wide)
    return ctx.astype(ctx.call("add", ctx.call("multiply", index, step), start), dtype)


@converts("EyeLike")
def eye_like(ctx: NodeContext) -> Result:
    """A matrix of the input's shape with ones on diagonal k."""
    dims = ctx.dims(0)
    if len(dims) != 2:
        ctx.malformed(f"expected a matrix, got {len(dims)} dimensions")
    dtype = (
        dtype_name(ctx.attr("dtype"), "the result of EyeLike") if "dtype" in ctx.node.attrs else ctx.dtype(0)
    )
    offset = int(ctx.attr("k", 0))
    sizes = [int(dim) for dim in dims if isinstance(dim, IntImm)]
    if len(sizes) == 2 and sizes[0] * sizes[1] <= MAX_FILL:
        return array_value(np.eye(sizes[0], sizes[1], offset).astype(dtype), dtype)
    return ctx.call("eye", dims[0], dims[1], k=offset, dtype=dtype)


@converts("Trilu")
def trilu(ctx: NodeContext) -> Result:
    """Trilu: the upper or lower triangle, from a diagonal that may be an input."""
    offset = ctx.number(1) if ctx.has(1) else 0
    op = "triu" if ctx.flag("upper", True) else "tril"
    x: Expr = ctx.tensor(0)
    return ctx.call(op, x, offset)
