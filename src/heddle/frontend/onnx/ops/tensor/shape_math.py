"""Symbolic rules: integer operators on values whose elements are known as scalar expressions.

A rule gives the result's content, or None where it does not apply, and then the converter builds tensors.

Over 450 lines: a rule is a few lines, and readers compare rules with each other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from heddle.frontend.onnx.context import NodeContext
from heddle.frontend.onnx.float_dims import (
    as_float,
    float_combined,
    float_product,
    float_quotient,
    is_exact_dim,
    is_scaled_dim,
    whole_dim,
)
from heddle.frontend.onnx.proto import DTYPES
from heddle.frontend.onnx.registry import symbolic
from heddle.frontend.onnx.values import Value
from heddle.graph.contents import MAX_CONTENT, is_long, object_array, vector, zipped
from heddle.prim import ops
from heddle.prim.nodes import FloatImm, IntImm, PrimExpr, constant
from heddle.runtime.dtype import DataType

Array = np.ndarray[Any, Any]
_DTYPES = ("int64", "int32", "bool", "float32", "float64", "float16")


def contents(ctx: NodeContext) -> list[Array] | None:
    """The contents of all inputs, where each is known and of an element type that shapes are computed
    with."""
    found: list[Array] = []
    for value in ctx.inputs:
        if value is None or value.dtype not in _DTYPES:
            return None
        known = value.elements()
        if known is None:
            return None
        found.append(known)
    return found


def result(ctx: NodeContext, content: Array | None, dtype: str | None = None) -> Value | None:
    """A value of simplified content; None where it is too large, too long or not a dimension's multiple."""
    if content is None or content.size > MAX_CONTENT:
        return None
    made = ctx.importer.simplify.content(content)
    if any(is_long(item) for item in made.reshape(-1)):
        return None
    kind = dtype or ctx.dtype(0)
    if any(item.dtype.is_float and not is_scaled_dim(item, kind) for item in made.reshape(-1)):
        return None
    return Value(content=made, dtype=kind)


def _mapped(
    ctx: NodeContext, function: Callable[..., PrimExpr], arrays: list[Array], dtype: str | None = None
) -> Value | None:
    """A scalar function of contents; None where they do not broadcast, which the operator refuses."""
    try:
        made = zipped(function, arrays)
    except ValueError:
        return None
    return result(ctx, made, dtype)


# ---- elementwise


def _arithmetic(ctx: NodeContext, function: Callable[[Any, Any], PrimExpr]) -> Value | None:
    known = contents(ctx)
    if known is None or (ctx.opset < 7 and "axis" in ctx.node.attrs):
        return None
    try:
        made = [reduce(lambda a, b: zipped(function, [a, b]), known)]
    except ValueError:
        return None
    return result(ctx, made[0])


def _exact(ctx: NodeContext, function: Callable[[Any, Any], PrimExpr]) -> Value | None:
    """As `_arithmetic`; of floats where it rounds nothing."""
    if not _is_float(ctx):
        return _arithmetic(ctx, function)
    dtype = ctx.dtype(0)

    def combined(a: PrimExpr, b: PrimExpr) -> PrimExpr:
        made = float_combined(a, b, dtype, function)
        if made is None:
            raise ValueError(f"{dtype} may round {a} or {b}")
        return made

    return _arithmetic(ctx, combined)


@symbolic("Add", "Sum")
def add(ctx: NodeContext) -> Value | None:
    """Add and Sum of sizes."""
    return _exact(ctx, ops.add)


@symbolic("Sub")
def subtract(ctx: NodeContext) -> Value | None:
    """Sub of sizes."""
    return _exact(ctx, ops.subtract)


@symbolic("Mul")
def multiply(ctx: NodeContext) -> Value | None:
    """Mul of sizes, and of a size with a constant float."""
    dtype = ctx.dtype(0)
    if not _is_float(ctx):
        return _arithmetic(ctx, ops.multiply)
    return _arithmetic(ctx, lambda a, b: float_product(a, b, dtype))


@symbolic("Max")
def maximum(ctx: NodeContext) -> Value | None:
    """Max of sizes."""
    return _exact(ctx, ops.maximum)


@symbolic("Min")
def minimum(ctx: NodeContext) -> Value | None:
    """Min of sizes."""
    return _exact(ctx, ops.minimum)


@symbolic("Clip")
def clip(ctx: NodeContext) -> Value | None:
    """Between bounds that are inputs, each of which may be missing."""
    first = ctx.inputs[0]
    known = first.elements() if first is not None and first.dtype in _DTYPES else None
    if known is None or ctx.opset < 11:
        return None
    for position, function in ((1, ops.maximum), (2, ops.minimum)):
        if not ctx.has(position):
            continue
        bound = ctx.value(position).elements()
        if bound is None or bound.size != 1:
            return None
        limit = bound.reshape(-1)[0]
        items = [
            float_combined(item, limit, ctx.dtype(0), function) if _is_float(ctx) else function(item, limit)
            for item in known.reshape(-1)
        ]
        if any(item is None for item in items):
            return None
        known = object_array(items, known.shape)
    return result(ctx, known)


def _is_float(ctx: NodeContext) -> bool:
    return DataType(ctx.dtype(0)).is_float


@symbolic("Div")
def divide(ctx: NodeContext) -> Value | None:
    """Of integers the quotient rounded to zero, which for what is surely not negative is the floor."""
    known = contents(ctx)
    if known is None or any(isinstance(item, IntImm) and item.value == 0 for item in known[1].reshape(-1)):
        return None
    analyzer, dtype = ctx.importer.simplify.analyzer, ctx.dtype(0)

    def quotient(a: PrimExpr, b: PrimExpr) -> PrimExpr:
        if a.dtype.is_float:
            return float_quotient(a, b, dtype)
        bounds = analyzer.const_int_bound(a), analyzer.const_int_bound(b)
        plain = all(bound.min_value >= 0 for bound in bounds)
        return ops.floordiv(a, b) if plain else ops.truncdiv(a, b)

    return _arithmetic(ctx, quotient)


@symbolic("Mod")
def mod(ctx: NodeContext) -> Value | None:
    """Mod of sizes, whose sign is the divisor's; not by a known zero, and not the one of floats."""
    known = contents(ctx)
    if known is None or _is_float(ctx) or ctx.flag("fmod"):
        return None
    if any(isinstance(item, IntImm) and item.value == 0 for item in known[1].reshape(-1)):
        return None
    return _arithmetic(ctx, ops.floormod)


@symbolic("Neg")
def negative(ctx: NodeContext) -> Value | None:
    """Neg of sizes."""
    known = contents(ctx)
    return None if known is None or _is_float(ctx) else result(ctx, zipped(ops.negative, known))


@symbolic("Floor", "Ceil")
def round_float(ctx: NodeContext) -> Value | None:
    """Floor and Ceil of a size times a constant float."""
    known = contents(ctx)
    if known is None or not _is_float(ctx):
        return None
    dtype, items = ctx.dtype(0), known[0].reshape(-1)
    if not all(is_scaled_dim(item, dtype) for item in items):
        return None
    whole = [whole_dim(ctx.importer, item, dtype, ctx.node.op_type.lower()) for item in items]
    return result(ctx, object_array([ops.cast("float64", item) for item in whole], known[0].shape))


@symbolic("Cast")
def cast(ctx: NodeContext) -> Value | None:
    """Cast of sizes between integers, bool and floats."""
    known = contents(ctx)
    target = DTYPES.get(ctx.attr("to")) if not isinstance(ctx.attr("to"), str) else None
    if known is None or target not in _DTYPES:
        return None
    items = [_cast(ctx, item, DataType(target)) for item in known[0].reshape(-1)]
    if any(item is None for item in items):
        return None
    return result(ctx, object_array(items, known[0].shape), target)


def _cast(ctx: NodeContext, item: PrimExpr, target: DataType) -> PrimExpr | None:
    """Floats go to integers by truncation."""
    if target.is_bool:
        return item if item.dtype.is_bool else ops.not_equal(item, constant(0, item.dtype))
    if target.is_float:
        return _cast_to_float(ctx, item, str(target)) if not item.dtype.is_bool else None
    if item.dtype.is_bool:
        return ops.select(item, constant(1, "int64"), constant(0, "int64"))
    if not item.dtype.is_float:
        return item
    dtype = ctx.dtype(0)
    return whole_dim(ctx.importer, item, dtype, "trunc") if is_scaled_dim(item, dtype) else None


def _cast_to_float(ctx: NodeContext, item: PrimExpr, target: str) -> PrimExpr | None:
    if isinstance(item, FloatImm) or item.dtype.is_int:
        return as_float(item, target)
    is_kept = all(is_exact_dim(item, dtype) for dtype in {ctx.dtype(0), target})
    return item if is_kept or target == ctx.dtype(0) else None


_COMPARISONS = {
    "Equal": ops.equal,
    "Less": ops.less,
    "Greater": ops.greater,
    "LessOrEqual": ops.less_equal,
    "GreaterOrEqual": ops.greater_equal,
}


@symbolic(*_COMPARISONS)
def compare(ctx: NodeContext) -> Value | None:
    """Comparisons of sizes: what is decided for all of them is a constant."""
    known = contents(ctx)
    if known is None or _is_float(ctx):
        return None
    simplify, function = ctx.importer.simplify, _COMPARISONS[ctx.node.op_type]
    equality = ctx.node.op_type == "Equal"

    def decide(a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """A dimension is never negative: `n == -1` is false."""
        if equality:
            bound = (
                simplify.analyzer.const_int_bound(ops.subtract(*ops.match_types(a, b)))
                if a.dtype.is_int
                else None
            )
            if bound is not None and (bound.min_value > 0 or bound.max_value < 0):
                return constant(False, "bool")
        return function(a, b)

    return _mapped(ctx, decide, known, "bool")


@symbolic("Not")
def logical_not(ctx: NodeContext) -> Value | None:
    """Not of conditions about sizes."""
    known = contents(ctx)
    return None if known is None else result(ctx, zipped(ops.logical_not, known))


@symbolic("And", "Or")
def logic(ctx: NodeContext) -> Value | None:
    """And and Or of conditions about sizes."""
    known = contents(ctx)
    function = ops.logical_and if ctx.node.op_type == "And" else ops.logical_or
    return None if known is None else _mapped(ctx, function, known)


@symbolic("Where")
def where(ctx: NodeContext) -> Value | None:
    """Where by conditions about sizes."""
    known = contents(ctx)
    if known is None or DataType(ctx.dtype(1)).is_float:
        return None
    return _mapped(ctx, ops.select, known, ctx.dtype(1))


# ---- shapes of shapes


@symbolic("Identity")
def identity(ctx: NodeContext) -> Value | None:
    """Identity keeps the content."""
    return ctx.value(0)


@symbolic("Gather")
def gather(ctx: NodeContext) -> Value | None:
    """Gather of sizes at constant places."""
    known = contents(ctx)
    where_to = ctx.array(1) if ctx.has(1) else None
    if known is None or where_to is None or known[0].ndim == 0:
        return None
    axis = ctx.axis(ctx.attr("axis", 0), known[0].ndim)
    size = known[0].shape[axis]
    if where_to.size and (where_to.min() < -size or where_to.max() >= size):
        ctx.malformed(f"index out of range for a dimension of {size}")
    picked = np.take(known[0], where_to.astype(np.int64), axis=axis)
    return result(ctx, picked if isinstance(picked, np.ndarray) else object_array([picked], ()))


@symbolic("Concat")
def concat(ctx: NodeContext) -> Value | None:
    """Concat of sizes."""
    known = contents(ctx)
    if known is None or any(item.ndim != known[0].ndim or item.ndim == 0 for item in known):
        return None
    axis = ctx.axis(ctx.attr("axis", 1), known[0].ndim)
    shapes = {item.shape[:axis] + item.shape[axis + 1 :] for item in known}
    return result(ctx, np.concatenate(known, axis=axis)) if len(shapes) == 1 else None


@symbolic("Unsqueeze", "Squeeze")
def squeeze(ctx: NodeContext) -> Value | None:
    """Squeeze and Unsqueeze keep the content."""
    first = ctx.inputs[0]
    known = first.elements() if first is not None and first.dtype in _DTYPES else None
    if known is None:
        return None
    if ctx.has(1) and ctx.array(1) is None:
        return None
    axes = ctx.ints(1, "the axes") if ctx.has(1) else ctx.attr("axes", None)
    if ctx.node.op_type == "Unsqueeze":
        if axes is None:
            return None
        rank = known.ndim + len(axes)
        return result(ctx, np.expand_dims(known, tuple(ctx.axes(axes, rank))))
    if axes is None:
        return result(ctx, known.reshape([size for size in known.shape if size != 1]))
    found = ctx.axes(axes, known.ndim)
    if any(known.shape[axis] != 1 for axis in found):
        ctx.malformed(f"axes {list(axes)} of shape {known.shape} are not all 1")
    return result(ctx, known.reshape([size for axis, size in enumerate(known.shape) if axis not in found]))


@symbolic("Reshape")
def reshape(ctx: NodeContext) -> Value | None:
    """Reshape by a constant shape keeps the content."""
    first = ctx.inputs[0]
    known = first.elements() if first is not None and first.dtype in _DTYPES else None
    shape = ctx.array(1) if ctx.has(1) else np.asarray(ctx.attr("shape", ()))
    if known is None or shape is None or shape.ndim != 1:
        return None
    target = [
        int(known.shape[i]) if size == 0 and i < known.ndim else int(size) for i, size in enumerate(shape)
    ]
    try:
        return result(ctx, known.reshape(target))
    except ValueError:
        ctx.malformed(f"{known.size} elements do not fit the shape {target}")


@symbolic("Transpose")
def transpose(ctx: NodeContext) -> Value | None:
    """Transpose of content of any rank."""
    known = contents(ctx)
    if known is None:
        return None
    perm = ctx.attr("perm", None) or tuple(reversed(range(known[0].ndim)))
    return result(ctx, np.transpose(known[0], perm)) if sorted(perm) == list(range(known[0].ndim)) else None


@symbolic("Expand")
def expand(ctx: NodeContext) -> Value | None:
    """Expand of few sizes to a constant shape."""
    first = ctx.inputs[0]
    known = first.elements() if first is not None and first.dtype in _DTYPES else None
    shape = ctx.array(1)
    if known is None or shape is None or shape.ndim != 1 or int(np.prod(shape)) > MAX_CONTENT:
        return None
    try:
        whole = np.broadcast_shapes(known.shape, tuple(int(size) for size in shape))
    except ValueError:
        return None
    return result(ctx, np.broadcast_to(known, whole)) if int(np.prod(whole)) <= MAX_CONTENT else None


_REDUCTIONS = {
    "ReduceProd": ops.multiply,
    "ReduceSum": ops.add,
    "ReduceMax": ops.maximum,
    "ReduceMin": ops.minimum,
}


@symbolic(*_REDUCTIONS)
def reduction(ctx: NodeContext) -> Value | None:
    """Over everything, as products of dimensions are."""
    first = ctx.inputs[0]
    known = first.elements() if first is not None and first.dtype in _DTYPES else None
    if known is None or _is_float(ctx) or known.ndim != 1 or not known.size or ctx.dtype(0) == "bool":
        return None
    axes = ctx.array(1) if ctx.has(1) else ctx.attr("axes", None)
    if axes is not None and [int(axis) for axis in axes] not in ([0], [-1]):
        return None
    if axes is None and ctx.flag("noop_with_empty_axes"):
        return None
    total = reduce(_REDUCTIONS[ctx.node.op_type], known.reshape(-1))
    return result(ctx, object_array([total], (1,) if ctx.flag("keepdims", True) else ()))


@symbolic("Range")
def value_range(ctx: NodeContext) -> Value | None:
    """Range of few constant integers."""
    arrays = [ctx.array(index) for index in range(3)]
    if any(array is None or array.dtype.kind != "i" or array.size != 1 for array in arrays):
        return None
    start, stop, step = (int(array.reshape(-1)[0]) for array in arrays if array is not None)
    if step == 0 or len(range(start, stop, step)) > MAX_CONTENT:
        return None
    return result(ctx, vector(constant(item, "int64") for item in range(start, stop, step)))


@symbolic("ConstantOfShape")
def constant_of_shape(ctx: NodeContext) -> Value | None:
    """ConstantOfShape of a small constant shape."""
    shape, fill = ctx.array(0), ctx.attr("value", np.zeros(1, np.float32))
    if shape is None or fill.dtype.name not in ("int64", "int32", "bool") or fill.size != 1:
        return None
    if (shape < 0).any() or int(np.prod(shape)) > MAX_CONTENT:
        return None
    item = constant(fill.reshape(-1)[0].item(), "bool" if fill.dtype == bool else "int64")
    return result(
        ctx, object_array([item] * int(np.prod(shape)), tuple(int(size) for size in shape)), fill.dtype.name
    )


@symbolic("Shape")
def shape_of(ctx: NodeContext) -> Value | None:
    """A slice of the dimensions, by `start` and `end`."""
    dims = dims_of_value(ctx, 0)
    if dims is None:
        return None
    return result(ctx, vector(dims[slice(ctx.attr("start", 0), ctx.attr("end", None))]), "int64")


@symbolic("Size")
def size_of(ctx: NodeContext) -> Value | None:
    """Size of a tensor as an expression of its sizes."""
    dims = dims_of_value(ctx, 0)
    if dims is None:
        return None
    total = reduce(ops.multiply, dims, constant(1, "int64"))
    return result(ctx, object_array([total], ()), "int64")


def dims_of_value(ctx: NodeContext, index: int) -> tuple[PrimExpr, ...] | None:
    """The dimensions of an input, without making a tensor of a constant or content."""
    value = ctx.value(index)
    known = value.array if value.array is not None else value.content
    if known is not None and value.expr is None:
        return tuple(constant(size, "int64") for size in known.shape)
    return ctx.type(index).dims
