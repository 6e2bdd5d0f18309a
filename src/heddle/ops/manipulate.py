"""Operators that rearrange elements: shapes, axes, joins and repetitions.

Over 450 lines: a table of records, one an operator.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.arith.sizes import as_dim, product, simplified
from heddle.graph.codes import R0202
from heddle.graph.infer import Inference
from heddle.graph.op_builder import call_op
from heddle.graph.types import ShapeExpr, ShapeType, TensorType
from heddle.ir.expr import Tuple
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import TupleType, Type
from heddle.ops.rules import axes_of, unknown_dims
from heddle.prim.nodes import IntImm, PrimExpr, constant
from heddle.topi import transform as topi
from heddle.topi.broadcast import broadcast_to

_X = Input("x", meaning="a tensor")
_LAYOUT = Without("axes are attributes")
_ALL = ("float32", "int64", "bool", "float16", "bfloat16", "int8")


def target_shape(ctx: Inference, index: int) -> tuple[PrimExpr, ...] | None:
    """The dimensions of a shape argument; None where they are not known."""
    ty = ctx.type_of(index)
    if not isinstance(ty, ShapeType):
        ctx.fail(R0202, f"argument {index} must be a shape, got {ty}")
    return ctx.args[index].values if isinstance(ctx.args[index], ShapeExpr) else ty.values  # type: ignore[attr-defined]


def _infer_reshape(ctx: Inference) -> Type:
    ty, target = ctx.tensor(0), target_shape(ctx, 1)
    if target is None:
        return unknown_dims(ty.dtype, ctx.type_of(1).ndim)  # type: ignore[attr-defined]
    holes = [dim for dim in target if isinstance(dim, IntImm) and dim.value < 0]
    if any(dim.value < -1 for dim in holes) or len(holes) > 1:
        ctx.shape_error(
            f"at most one dimension of the new shape may be -1, got ({', '.join(map(str, target))})"
        )
    if ty.dims is None:
        return unknown_dims(ty.dtype, len(target)) if holes else TensorType(target, ty.dtype)
    dims = topi.reshaped_dims(ty.dims, target)
    before, after = product(ty.dims), product(dims)
    if ctx.surely_differ(before, after):
        ctx.shape_error(f"the number of elements changes: expected {before}, got {after}")
    ctx.assume_equal(before, after)
    return TensorType(dims, ty.dtype)


def _np_reshape(_attrs: Any, x: Any, shape: Any) -> Any:
    if not x.size and -1 in shape:  # which numpy refuses beside a 0
        dims = topi.reshaped_dims([as_dim(size) for size in x.shape], shape)
        return x.reshape([dim.value for dim in dims if isinstance(dim, IntImm)])
    return x.reshape([x.shape[k] if d == 0 and x.size else d for k, d in enumerate(shape)])


def _declare_shapes() -> None:
    declare_op(
        OpDef(
            name="reshape",
            inputs=(_X, Input("shape", "shape", "-1 is what is left, 0 the same as the input's")),
            attrs=(),
            doc=(
                "The elements in row-major order in another shape. What is left is the product of the "
                "input's sizes that are not copied over that of the other numbers; 0 where that product is 0."
            ),
            infer=_infer_reshape,
            reference=_np_reshape,
            lower=lambda attrs, x, shape: topi.reshape(x, shape),
            layout=_LAYOUT,
            samples=tuple(
                Sample(row, dtypes=_ALL if k == 0 else ("float32",))
                for k, row in enumerate(
                    (
                        ((3, 4), (2, 6)),
                        ((2, 3, 5), (-1, 5)),
                        ((2, 3, 5), (0, -1)),
                        ((), (1, 1)),
                        ((1,), ()),
                        ((0, 3), (3, 0)),
                        ((2, 3, 5), (5, 3, 2)),
                        ((0, 3), (-1, 3)),
                        ((0, 3), (0, -1)),
                        ((2, 0), (-1, 0)),
                        ((2, 0), (-1, 0, 3)),
                        ((7,), (1, 7, 1)),
                    )
                )
            ),
            errors=(
                ErrorSample(((2, 3), (4, 2)), {}, "R0203", "number of elements changes"),
                ErrorSample(((2, 3), (-1, -1)), {}, "R0203", "at most one dimension"),
            ),
        )
    )
    declare_op(
        OpDef(
            name="flatten",
            inputs=(_X,),
            attrs=(),
            doc="All axes joined to one.",
            infer=lambda ctx: _joined(ctx, 0),
            reference=lambda attrs, x: x.reshape(-1),
            lower=lambda attrs, x: topi.flatten(x),
            layout=_LAYOUT,
            samples=(Sample(((2, 3, 5),)), Sample(((),)), Sample(((0, 3),))),
        )
    )
    declare_op(
        OpDef(
            name="nn.batch_flatten",
            inputs=(Input("data", meaning="at least one axis"),),
            attrs=(),
            doc="All axes but the first joined to one.",
            infer=lambda ctx: _joined(ctx, 1),
            reference=lambda attrs, x: x.reshape(x.shape[0], int(np.prod(x.shape[1:]))),
            lower=lambda attrs, x: topi.batch_flatten(x),
            layout=_LAYOUT,
            samples=(Sample(((2, 3, 5),)), Sample(((4,),)), Sample(((0, 3),))),
            errors=(ErrorSample(((),), {}, "R0203", "at least 1 dimension"),),
        )
    )


def _joined(ctx: Inference, kept: int) -> Type:
    ty = ctx.tensor(0)
    if 0 <= ty.ndim < kept:
        ctx.shape_error(f"the data must have at least {kept} dimension, got {ty.ndim}")
    if ty.dims is None:
        return unknown_dims(ty.dtype, kept + 1)
    return TensorType((*ty.dims[:kept], product(ty.dims[kept:])), ty.dtype)


def _infer_permute(ctx: Inference) -> Type:
    ty, axes = ctx.tensor(0), ctx.attrs.axes
    if ty.ndim < 0:
        return ty
    order = (
        tuple(reversed(range(ty.ndim))) if axes is None else tuple(ctx.axis(int(a), ty.ndim) for a in axes)
    )
    if sorted(order) != list(range(ty.ndim)):
        ctx.attr_error(f"axes must be an order of all {ty.ndim} axes, got {list(axes)}")
    return TensorType(tuple(ty.dims[a] for a in order), ty.dtype) if ty.dims is not None else ty


def _infer_expand(ctx: Inference) -> Type:
    ty, axis = ctx.tensor(0), ctx.attrs.axis
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    if ty.ndim < 0:
        return unknown_dims(ty.dtype)
    axes = axes_of(ctx, tuple(given), ty.ndim + len(given))
    if ty.dims is None:
        return unknown_dims(ty.dtype, ty.ndim + len(given))
    rest = iter(ty.dims)
    return TensorType(
        tuple(constant(1, "int64") if k in axes else next(rest) for k in range(ty.ndim + len(given))),
        ty.dtype,
    )


def _infer_squeeze(ctx: Inference) -> Type:
    ty, axis = ctx.tensor(0), ctx.attrs.axis
    if ty.dims is None:
        known = ty.ndim >= 0 and axis is not None
        return unknown_dims(ty.dtype, ty.ndim - len(axes_of(ctx, axis, ty.ndim)) if known else -1)
    axes = topi.squeezed_axes(ty.dims, None) if axis is None else axes_of(ctx, axis, ty.ndim)
    for k in axes:
        if ctx.surely_differ(ty.dims[k], constant(1, "int64")):
            ctx.shape_error(f"axis {k} has size {ty.dims[k]}, expected 1")
        ctx.assume_equal(constant(1, "int64"), ty.dims[k])
    return TensorType(tuple(dim for k, dim in enumerate(ty.dims) if k not in axes), ty.dtype)


def _declare_axes() -> None:
    declare_op(
        OpDef(
            name="permute_dims",
            inputs=(_X,),
            attrs=(AttrSpec("axes", "list", None, "the order; None reverses"),),
            doc="Axis k of the result is axis axes[k] of x.",
            infer=_infer_permute,
            reference=lambda attrs, x: np.ascontiguousarray(np.transpose(x, attrs.axes)).reshape(
                np.transpose(x, attrs.axes).shape
            ),
            lower=lambda attrs, x: topi.transpose(x, attrs.axes),
            layout=_LAYOUT,
            samples=(
                Sample(((3, 7),), dtypes=_ALL),
                Sample(((2, 3, 5),), {"axes": [1, 2, 0]}),
                Sample(((2, 3, 5, 4),), {"axes": [0, -1, 1, 2]}),
                Sample(((),)),
                Sample(((0, 3),)),
            ),
            errors=(
                ErrorSample(((2, 3),), {"axes": [0, 0]}, "R0205", "an order of all 2 axes"),
                ErrorSample(((2, 3),), {"axes": [0, 2]}, "R0205", "axis 2 is out of range"),
            ),
        )
    )
    declare_op(
        OpDef(
            name="expand_dims",
            inputs=(_X,),
            attrs=(AttrSpec("axis", "ints", meaning="places in the result"),),
            doc="New axes of size 1.",
            infer=_infer_expand,
            reference=lambda attrs, x: np.expand_dims(x, attrs.axis),
            lower=lambda attrs, x: topi.expand_dims(x, attrs.axis),
            layout=_LAYOUT,
            samples=(
                Sample(((3, 7),), {"axis": 0}),
                Sample(((3, 7),), {"axis": [-1, 1]}),
                Sample(((),), {"axis": [0, 1]}),
            ),
            errors=(
                ErrorSample(((2, 3),), {"axis": 3}, "R0205", "axis 3 is out of range"),
                ErrorSample(((2, 3),), {"axis": [0, -4]}, "R0205", "twice"),
            ),
        )
    )
    declare_op(
        OpDef(
            name="squeeze",
            inputs=(_X,),
            attrs=(AttrSpec("axis", "ints", None, "None: all that are surely 1"),),
            doc="Without axes of size 1. Symbolic dimensions stay unless `axis` names them.",
            infer=_infer_squeeze,
            reference=lambda attrs, x: np.squeeze(x, attrs.axis),
            lower=lambda attrs, x: topi.squeeze(x, attrs.axis),
            layout=_LAYOUT,
            samples=(
                Sample(((1, 3, 1, 5),)),
                Sample(((1, 3, 1, 5),), {"axis": [-2]}),
                Sample(((1, 1),)),
                Sample(((2, 1),), {"axis": 1}),
            ),
            errors=(ErrorSample(((2, 1),), {"axis": 0}, "R0203", "axis 0 has size 2, expected 1"),),
        )
    )


def tuple_types(ctx: Inference, index: int = 0) -> list[TensorType]:
    """The types of a tuple of tensors, which must not be empty."""
    ty = ctx.type_of(index)
    fields = ty.fields if isinstance(ty, TupleType) else ()
    if not fields or not all(isinstance(field, TensorType) for field in fields):
        ctx.fail(R0202, f"argument {index} must be a tuple of tensors, got {ty}")
    return list(fields)  # type: ignore[arg-type]


def _infer_concat(ctx: Inference) -> Type:
    types = tuple_types(ctx)
    dtype, ranks = ctx.same_dtype(*types), {ty.ndim for ty in types if ty.ndim >= 0}
    if len(ranks) > 1:
        ctx.shape_error(f"tensors differ in rank: {sorted(ranks)}")
    if not ranks:
        return unknown_dims(dtype)
    ndim = ranks.pop()
    axis = ctx.axis(int(ctx.attrs.axis), ndim)
    shapes = [ty.dims for ty in types if ty.dims is not None]
    for shape in shapes[1:]:
        for k in range(ndim):
            if k != axis:
                ctx.require_equal(shapes[0][k], shape[k], f"sizes on axis {k}")
    if len(shapes) != len(types):
        return unknown_dims(dtype, ndim)
    total: PrimExpr = constant(0, "int64")
    for shape in shapes:
        total = simplified(total + shape[axis])
    return TensorType((*shapes[0][:axis], total, *shapes[0][axis + 1 :]), dtype)


def _infer_stack(ctx: Inference) -> Type:
    types = tuple_types(ctx)
    dtype = ctx.same_dtype(*types)
    shapes = [ty.dims for ty in types if ty.dims is not None]
    if not shapes:
        return unknown_dims(dtype)
    for shape in shapes:
        if len(shape) != len(shapes[0]):
            ctx.shape_error(f"tensors differ in rank: {len(shapes[0])} and {len(shape)}")
        for k, (a, b) in enumerate(zip(shapes[0], shape, strict=True)):
            ctx.require_equal(a, b, f"sizes on axis {k}")
    axis = ctx.axis(int(ctx.attrs.axis), len(shapes[0]) + 1)
    return TensorType((*shapes[0][:axis], constant(len(types), "int64"), *shapes[0][axis:]), dtype)


def _infer_split(ctx: Inference) -> Type:
    ty, parts = ctx.tensor(0), ctx.attrs.indices_or_sections
    many = isinstance(parts, (tuple, list))
    if not many and int(parts) < 1:
        ctx.attr_error(f"the number of sections must be at least 1, got {parts}")
    if many and list(parts) != sorted(parts):
        ctx.attr_error(f"indices must rise, got {list(parts)}")
    if many and any(int(cut) < 0 for cut in parts):
        ctx.attr_error(f"indices must be at least 0, got {list(parts)}")
    count = len(parts) + 1 if many else int(parts)
    if ty.ndim < 0 or ty.dims is None:
        return TupleType((unknown_dims(ty.dtype, ty.ndim),) * count)
    axis = ctx.axis(int(ctx.attrs.axis), ty.ndim)
    size = ty.dims[axis]
    if not many and isinstance(size, IntImm) and -(-size.value // count) * (count - 1) > size.value:
        ctx.shape_error(
            f"axis {axis} of size {ty.dims[axis]} has no {count} sections of equal size but the last"
        )
    dims, bounds = ty.dims, topi.split_bounds(size, parts)
    return TupleType(tuple(TensorType((*dims[:axis], n, *dims[axis + 1 :]), ty.dtype) for _, n in bounds))


def _np_split(attrs: Any, x: Any) -> Any:
    parts, axis = attrs.indices_or_sections, attrs.axis
    if not isinstance(parts, (tuple, list)):
        length = -(-x.shape[axis] // int(parts))
        parts = [length * k for k in range(1, int(parts))]
    return tuple(np.split(x, list(parts), axis))


def _decompose_split(builder: Any, call: Any) -> Any:
    """Slices, which fuse into what reads them; along an axis of unknown size one loop function."""
    x, attrs = call.args[0], call.attrs
    parts, axis = attrs.indices_or_sections, int(attrs.axis) % x.ty.ndim
    if not isinstance(x.ty.dims[axis], IntImm):
        return builder.call_te(lambda data: topi.split(data, parts, axis), x, primfunc_name_hint="split")
    slices = [
        call_op("strided_slice", x, (axis,), (begin,), (simplified(begin + size),))
        for begin, size in topi.split_bounds(x.ty.dims[axis], parts)
    ]
    return Tuple(tuple(builder.emit(part) for part in slices))


def _declare_joins() -> None:
    declare_op(
        OpDef(
            name="concat",
            inputs=(Input("tensors", "tensors", "equal sizes but on the axis"),),
            attrs=(AttrSpec("axis", "int", 0),),
            doc="Tensors after each other along an axis.",
            infer=_infer_concat,
            reference=lambda attrs, xs: np.concatenate(xs, attrs.axis),
            lower=lambda attrs, xs: topi.concatenate(xs, int(attrs.axis)),
            layout=_LAYOUT,
            samples=(
                Sample((((3, 7), (3, 7)),), {"axis": 1}, _ALL),
                Sample((((2, 3), (5, 3), (1, 3)),)),
                Sample((((2, 3),),), {"axis": -1}),
                Sample((((0, 3), (2, 3)),)),
                Sample((((2, 3, 4), (2, 1, 4)),), {"axis": -2}),
            ),
            errors=(
                ErrorSample((((2, 3), (2, 4)),), {}, "R0203", "sizes on axis 1 differ"),
                ErrorSample((((2, 3), (2,)),), {}, "R0203", "differ in rank"),
                ErrorSample((((2, 3),),), {"axis": 2}, "R0205", "axis 2 is out of range"),
            ),
        )
    )
    declare_op(
        OpDef(
            name="stack",
            inputs=(Input("tensors", "tensors", "equal shapes"),),
            attrs=(AttrSpec("axis", "int", 0),),
            doc="Tensors of one shape along a new axis.",
            infer=_infer_stack,
            reference=lambda attrs, xs: np.stack(xs, attrs.axis),
            lower=lambda attrs, xs: topi.stack(xs, int(attrs.axis)),
            layout=_LAYOUT,
            samples=(
                Sample((((3, 7), (3, 7)),)),
                Sample((((2, 3),) * 3,), {"axis": -1}),
                Sample((((), ()),)),
            ),
            errors=(ErrorSample((((2, 3), (2, 4)),), {}, "R0203", "sizes on axis 1 differ"),),
        )
    )
    declare_op(
        OpDef(
            name="split",
            inputs=(_X,),
            attrs=(
                AttrSpec("indices_or_sections", "ints", meaning="a number of parts, or where parts begin"),
                AttrSpec("axis", "int", 0),
            ),
            doc=(
                "Parts along an axis. Of a number of parts all have the size rounded up, but the "
                "last, which has what is left; parts at the end of an axis that turns out too short "
                "are empty."
            ),
            infer=_infer_split,
            reference=_np_split,
            decompose=_decompose_split,
            layout=_LAYOUT,
            samples=(
                Sample(((6, 5),), {"indices_or_sections": 3}),
                Sample(((3, 7),), {"indices_or_sections": 3, "axis": 1}),
                Sample(((2, 7),), {"indices_or_sections": [2, 5], "axis": -1}),
                Sample(((5,),), {"indices_or_sections": 1}),
                Sample(((4,),), {"indices_or_sections": [0, 4]}),
            ),
            errors=(
                ErrorSample(((5, 2),), {"indices_or_sections": 4}, "R0203", "sections of equal size"),
                ErrorSample(((5, 2),), {"indices_or_sections": 0}, "R0205", "at least 1"),
                ErrorSample(((5, 2),), {"indices_or_sections": [3, 1]}, "R0205", "indices must rise"),
                ErrorSample(((5, 2),), {"indices_or_sections": [-1]}, "R0205", "must be at least 0"),
            ),
        )
    )


def _infer_broadcast_to(ctx: Inference) -> Type:
    ty, target = ctx.tensor(0), target_shape(ctx, 1)
    if target is None:
        return unknown_dims(ty.dtype, ctx.type_of(1).ndim)  # type: ignore[attr-defined]
    if ty.ndim > len(target):
        ctx.shape_error(f"a tensor of {ty.ndim} dimensions does not broadcast to {len(target)}")
    if ty.dims is not None:
        for k, (dim, wanted) in enumerate(zip(reversed(ty.dims), reversed(target), strict=False), start=1):
            if isinstance(wanted, IntImm) and isinstance(dim, IntImm) and dim.value not in (1, wanted.value):
                ctx.shape_error(f"shapes do not broadcast: {dim} to {wanted} on axis {-k}")
            ctx.assume_stretches(dim, wanted)
    return TensorType(target, ty.dtype)


def _infer_tile(ctx: Inference) -> Type:
    ty, given = ctx.tensor(0), ctx.attrs.repeats
    repeats = given if isinstance(given, (tuple, list)) else (given,)
    if any(int(r) < 0 for r in repeats):
        ctx.attr_error(f"repeats must be at least 0, got {list(repeats)}")
    if ty.dims is None:
        return unknown_dims(ty.dtype, max(ty.ndim, len(repeats)) if ty.ndim >= 0 else -1)
    ndim = max(ty.ndim, len(repeats))
    counts = (*(1,) * (ndim - len(repeats)), *repeats)
    dims = (*(constant(1, "int64"),) * (ndim - ty.ndim), *ty.dims)
    for dim, count in zip(dims, counts, strict=True):
        if isinstance(dim, IntImm) and dim.value * int(count) >= 1 << 63:
            ctx.shape_error(f"{count} times {dim} is no size")
    return TensorType(tuple(simplified(d * int(c)) for d, c in zip(dims, counts, strict=True)), ty.dtype)


def _infer_repeat(ctx: Inference) -> Type:
    ty, repeats, axis = ctx.tensor(0), int(ctx.attrs.repeats), ctx.attrs.axis
    if repeats < 0:
        ctx.attr_error(f"repeats must be at least 0, got {repeats}")
    if axis is None:
        return (
            unknown_dims(ty.dtype, 1)
            if ty.dims is None
            else TensorType((simplified(product(ty.dims) * repeats),), ty.dtype)
        )
    if ty.ndim < 0:
        return ty
    at = ctx.axis(int(axis), ty.ndim)
    if ty.dims is None:
        return unknown_dims(ty.dtype, ty.ndim)
    return TensorType((*ty.dims[:at], simplified(ty.dims[at] * repeats), *ty.dims[at + 1 :]), ty.dtype)


def _infer_flip(ctx: Inference) -> Type:
    ty = ctx.tensor(0)
    if ty.ndim >= 0:
        axes_of(ctx, ctx.attrs.axis, ty.ndim)
    return ty


def _repeats(attrs: Any) -> tuple[int, ...]:
    return tuple(attrs.repeats) if isinstance(attrs.repeats, (tuple, list)) else (int(attrs.repeats),)


def _declare_repetitions() -> None:
    declare_op(
        OpDef(
            name="broadcast_to",
            inputs=(_X, Input("shape", "shape", "the shape of the result")),
            attrs=(),
            doc="The tensor repeated along axes of size 1 and new leading axes.",
            infer=_infer_broadcast_to,
            reference=lambda attrs, x, shape: np.broadcast_to(x, shape).copy(),
            lower=lambda attrs, x, shape: broadcast_to(x, shape),
            layout=_LAYOUT,
            samples=(
                Sample(((3, 1), (2, 3, 5)), dtypes=_ALL),
                Sample(((), (3,))),
                Sample(((1, 4), (0, 4))),
                Sample(((3,), (3,))),
            ),
            errors=(
                ErrorSample(((3,), (4,)), {}, "R0203", "broadcast"),
                ErrorSample(((2, 3), (3,)), {}, "R0203", "does not broadcast to 1"),
                ErrorSample(((3,), (1,)), {}, "R0203", "3 to 1"),
            ),
        )
    )
    declare_op(
        OpDef(
            name="tile",
            inputs=(Input("data", meaning="a tensor"),),
            attrs=(AttrSpec("repeats", "ints", meaning="for the last axes"),),
            doc="The whole tensor repeated along axes.",
            infer=_infer_tile,
            reference=lambda attrs, x: np.tile(x, _repeats(attrs)),
            lower=lambda attrs, x: topi.tile(x, _repeats(attrs)),
            layout=_LAYOUT,
            samples=(
                Sample(((3, 5),), {"repeats": [2, 1]}),
                Sample(((3,),), {"repeats": [2, 2]}),
                Sample(((2, 3),), {"repeats": 3}),
                Sample(((),), {"repeats": [2]}),
                Sample(((2, 3),), {"repeats": [0, 1]}),
                Sample(((2, 0, 3),), {"repeats": [2, 2, 1]}),
            ),
            errors=(ErrorSample(((2,),), {"repeats": [-1]}, "R0205", "at least 0"),),
        )
    )
    declare_op(
        OpDef(
            name="repeat",
            inputs=(Input("data", meaning="a tensor"),),
            attrs=(AttrSpec("repeats", "int"), AttrSpec("axis", "int", None, "None flattens first")),
            doc="Every element repeated along an axis.",
            infer=_infer_repeat,
            reference=lambda attrs, x: np.repeat(x, attrs.repeats, attrs.axis),
            lower=lambda attrs, x: topi.repeat(x, int(attrs.repeats), attrs.axis),
            layout=_LAYOUT,
            samples=(
                Sample(((3, 5),), {"repeats": 2, "axis": 1}),
                Sample(((3, 5),), {"repeats": 3, "axis": -2}),
                Sample(((2, 3),), {"repeats": 2}),
            ),
            errors=(ErrorSample(((2,),), {"repeats": 2, "axis": 1}, "R0205", "axis 1 is out of range"),),
        )
    )
    declare_op(
        OpDef(
            name="flip",
            inputs=(Input("data", meaning="a tensor"),),
            attrs=(AttrSpec("axis", "ints"),),
            doc="The elements in reverse along axes.",
            infer=_infer_flip,
            reference=lambda attrs, x: np.flip(x, attrs.axis).copy(),
            lower=lambda attrs, x: topi.flip(x, attrs.axis),
            layout=_LAYOUT,
            samples=(
                Sample(((3, 5),), {"axis": 0}),
                Sample(((3, 5, 2),), {"axis": [-1, 0]}),
                Sample(((0,),), {"axis": 0}),
            ),
            errors=(ErrorSample(((2,),), {"axis": 1}, "R0205", "axis 1 is out of range"),),
        )
    )


def declare() -> None:
    """Put the operators of this file into the table."""
    _declare_shapes()
    _declare_axes()
    _declare_joins()
    _declare_repetitions()
