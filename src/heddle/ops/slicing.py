"""Slices with constant, symbolic and run-time bounds; reversing and collapsing parts of axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle import te
from heddle.graph.codes import R0202
from heddle.graph.infer import Inference
from heddle.graph.op_builder import call_op
from heddle.graph.types import ShapeExpr, ShapeType, TensorType
from heddle.ir.expr import Tuple
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.structural import structural_equal
from heddle.ir.types import Type
from heddle.ops.manipulate import target_shape
from heddle.ops.rules import computed_in, require_int, require_ndim, unknown_dims
from heddle.prim.checked_index import checked_positions
from heddle.prim.nodes import IntImm, PrimExpr, SizeVar, constant
from heddle.prim.ops import cast, maximum, minimum
from heddle.topi import scatter, transform
from heddle.topi.reduce import accumulator, convert, reduce_element

_X = Input("x", meaning="a tensor")
_LAYOUT = Without("axes are arguments")


def _scalars(ctx: Inference, index: int) -> tuple[PrimExpr, ...]:
    """The scalar expressions of a tuple argument."""
    arg = ctx.args[index]
    values = arg.fields if isinstance(arg, Tuple) else ()
    if not isinstance(arg, Tuple) or not all(isinstance(value, PrimExpr) for value in values):
        ctx.fail(R0202, f"argument {index} must be a tuple of scalars")
    return values  # type: ignore[return-value]


def _constant_axis(ctx: Inference, axis: PrimExpr) -> int:
    if not isinstance(axis, IntImm):
        ctx.attr_error(f"an axis must be a constant, got {axis}")
    return axis.value


def _infer_strided_slice(ctx: Inference) -> Type:
    x = ctx.tensor(0)
    axes, begin, end = (_scalars(ctx, k) for k in (1, 2, 3))
    strides = _scalars(ctx, 4) if len(ctx.args) > 4 else None
    lengths = {len(values) for values in (axes, begin, end, *(() if strides is None else (strides,)))}
    if len(lengths) > 1:
        ctx.shape_error(f"axes, begin, end and strides differ in length: {sorted(lengths)}")
    for step in strides or ():
        if isinstance(step, IntImm) and step.value == 0:
            ctx.attr_error("a stride must not be 0")
    if x.ndim < 0:
        return x
    over = [ctx.axis(_constant_axis(ctx, axis), x.ndim) for axis in axes]
    if len(set(over)) != len(over):
        ctx.attr_error(f"an axis occurs twice in {over}")
    if x.dims is None:
        return unknown_dims(x.dtype, x.ndim)
    dims = list(x.dims)
    steps = strides if strides is not None else (1,) * len(over)
    for axis, b, e, s in zip(over, begin, end, steps, strict=True):
        inbound = bool(ctx.attrs.assume_inbound)
        for wanted, given in transform.inbound_checks(dims[axis], b, e, s) if inbound else ():
            ctx.require_equal(
                wanted, given, f"the axis {axis} of the data and the slice, which must lie in it,"
            )
        if isinstance(s, PrimExpr) and not isinstance(s, IntImm):
            sign = minimum(maximum(s, constant(-1, s.dtype)), constant(1, s.dtype))
            ctx.assume_equal(constant(1, s.dtype), sign * sign)
        dims[axis] = transform.slice_bounds(dims[axis], b, e, s, inbound)[1]
    return TensorType(tuple(dims), x.dtype)


def _np_strided_slice(attrs: Any, x: Any, axes: Any, begin: Any, end: Any, strides: Any = None) -> Any:
    at = [slice(None)] * x.ndim
    for axis, b, e, s in zip(axes, begin, end, strides or (1,) * len(axes), strict=True):
        if attrs.assume_inbound and max(b, e) > x.shape[axis]:
            raise ValueError("a bound lies outside the axis")
        at[axis] = slice(b, e, s)
    return x[tuple(at)].copy()


def _lower_strided_slice(attrs: Any, x: Any, axes: Any, begin: Any, end: Any, strides: Any = None) -> Any:
    return transform.strided_slice(x, begin, end, strides, [int(a) for a in axes], bool(attrs.assume_inbound))


_END = 2**31 - 1


def _declare_strided_slice() -> None:
    declare_op(
        OpDef(
            name="strided_slice",
            inputs=(
                _X,
                Input("axes", "args", "the axes"),
                Input("begin", "args", "one an axis"),
                Input("end", "args", "one an axis"),
                Input("strides", "args", "one an axis; default 1", True),
            ),
            attrs=(
                AttrSpec(
                    "assume_inbound", "bool", False, "bounds lie within the axis: results get simpler sizes"
                ),
            ),
            doc=(
                "x[begin:end:stride] along axes, with Python's rules. Bounds may be symbolic, "
                "strides are constants."
            ),
            infer=_infer_strided_slice,
            reference=_np_strided_slice,
            lower=_lower_strided_slice,
            layout=_LAYOUT,
            samples=(
                Sample(((3, 7), (1,), (2,), (5,))),
                Sample(((3, 7), (0, -1), (1, -3), (_END, _END))),
                Sample(((7,), (0,), (6,), (1,), (-2,))),
                Sample(((7,), (0,), (-1,), (-_END,), (-1,))),
                Sample(((7,), (0,), (1,), (-1,), (3,))),
                Sample(((4,), (0,), (-1,), (-(2**63),), (-1,))),
                Sample(((4,), (0,), (-1,), (-5,), (-1,))),
                Sample(((4,), (0,), (1,), (4,), (-2,))),
                Sample(((3, 7), (1,), (2**63 - 1,), (-(2**40),), (-3,))),
                Sample(((5,), (0,), (4,), (2,))),
                Sample(((2, 5), (1,), (0,), (9,))),
                Sample(((7,), (0,), (0,), (3,), (1,)), {"assume_inbound": True}),
                Sample(((2, 7, 5), (2, 0), (2, 1), (5, 2), (1, 1))),
            ),
            errors=(
                ErrorSample(((3, 7), (2,), (0,), (1,)), {}, "R0205", "axis 2 is out of range"),
                ErrorSample(((3, 7), (0,), (0,), (1,), (0,)), {}, "R0205", "must not be 0"),
                ErrorSample(((3, 7), (0,), (0, 1), (1,)), {}, "R0203", "differ in length"),
            ),
        )
    )


def _infer_dynamic_slice(ctx: Inference) -> Type:
    x = ctx.tensor(0)
    for k in (1, 2, 3):
        ty = ctx.tensor(k)
        require_int(ctx, ty, f"argument {k}")
        require_ndim(ctx, ty, 1, f"argument {k}")
        if (
            ty.dims is not None
            and x.ndim >= 0
            and isinstance(ty.dims[0], IntImm)
            and ty.dims[0].value != x.ndim
        ):
            ctx.shape_error(f"argument {k} must have one number for each of {x.ndim} axes, got {ty.dims[0]}")
    return unknown_dims(x.dtype, x.ndim)


def _decompose_dynamic_slice(builder: Any, call: Any) -> Any:
    """Compute the sizes, name them, then copy into a tensor of that shape."""
    x, *bounds = call.args
    begin, end, strides = (_one_an_axis(builder, bound, x.ty.ndim) for bound in bounds)
    lengths = builder.emit(builder.call_te(transform.slice_lengths, x, begin, end, strides))
    shape = builder.emit(call_op("tensor_to_shape", lengths))
    sizes = tuple(SizeVar(builder.names.fresh("s")) for _ in range(x.ty.ndim))
    builder.match_cast(shape, ShapeType(sizes))
    return builder.call_te(transform.sliced, x, begin, strides, ShapeExpr(sizes))


def _one_an_axis(builder: Any, bound: Any, ndim: int) -> Any:
    """The bounds, checked when it runs where their number is not known."""
    ty = bound.ty
    if ty.dims is not None and isinstance(ty.dims[0], IntImm):
        return bound
    return builder.match_cast(bound, TensorType((ndim,), ty.dtype))


def _np_dynamic_slice(_attrs: Any, x: Any, *bounds: Any) -> Any:
    if any(len(bound) != x.ndim for bound in bounds):
        raise ValueError("bounds need one number for each axis")
    return x[tuple(slice(*map(int, row)) for row in zip(*bounds, strict=True))].copy()


def _declare_dynamic_slice() -> None:
    def make(shape: tuple[int, ...], bounds: tuple[tuple[int, ...], ...]) -> Any:
        return lambda rng, dtype: (
            rng.standard_normal(shape).astype(dtype),
            *(np.array(values, "int64") for values in bounds),
        )

    def sample(shape: tuple[int, ...], *bounds: tuple[int, ...]) -> Sample:
        return Sample((shape, *((len(shape),),) * 3), {}, ("float32",), make(shape, bounds))

    declare_op(
        OpDef(
            name="dynamic_strided_slice",
            inputs=(
                _X,
                Input("begin", meaning="(rank,) integers"),
                Input("end", meaning="(rank,)"),
                Input("strides", meaning="(rank,)"),
            ),
            attrs=(),
            doc="x[begin:end:stride] on every axis with bounds known when it runs, with Python's rules.",
            infer=_infer_dynamic_slice,
            reference=_np_dynamic_slice,
            decompose=_decompose_dynamic_slice,
            layout=_LAYOUT,
            samples=(
                sample((5, 7), (1, 0), (4, 7), (1, 2)),
                sample((5, 7), (-2, 6), (9, 1), (1, -2)),
                sample((5,), (3,), (2,), (1,)),
            ),
            errors=(
                ErrorSample(((5, 7), (2,), (2,), (2,)), {}, "R0204", "argument 1 must be integers"),
                ErrorSample(
                    ((5, 7), (3,), (2,), (2,)), {}, "R0203", "one number for each of 2 axes", "float32,int64"
                ),
            ),
        )
    )


def _infer_slice_scatter(ctx: Inference) -> Type:
    x, src = ctx.tensor(0), ctx.tensor(1)
    ctx.same_dtype(x, src)
    if x.ndim < 0 or src.ndim < 0:
        return x
    if x.ndim != src.ndim:
        ctx.shape_error(f"data and source differ in rank: {x.ndim} and {src.ndim}")
    at = ctx.axis(int(ctx.attrs.axis), x.ndim)
    step = ctx.args[4]
    if isinstance(step, IntImm) and step.value < 1:
        ctx.attr_error(f"the step must be at least 1, got {step}")
    if x.dims is not None and src.dims is not None:
        length = transform.slice_bounds(x.dims[at], ctx.args[2], ctx.args[3], step, False)[1]
        for k in range(x.ndim):
            ctx.require_equal(
                length if k == at else x.dims[k],
                src.dims[k],
                f"sizes of the slice and the source on axis {k}",
            )
    return x


def _np_slice_scatter(attrs: Any, x: Any, src: Any, start: Any, end: Any, step: Any) -> Any:
    result = x.copy()
    at = [slice(None)] * x.ndim
    at[attrs.axis] = slice(start, end, step)
    if result[tuple(at)].shape != src.shape:
        raise ValueError("the slice and the source differ in size")
    result[tuple(at)] = src
    return result


def _infer_reverse_sequence(ctx: Inference) -> Type:
    x, lengths = ctx.tensor(0), ctx.tensor(1)
    require_int(ctx, lengths, "seq_lengths")
    require_ndim(ctx, lengths, 1, "seq_lengths")
    if x.ndim >= 0:
        seq, batch = ctx.axis(int(ctx.attrs.seq_axis), x.ndim), ctx.axis(int(ctx.attrs.batch_axis), x.ndim)
        if seq == batch:
            ctx.attr_error(f"seq_axis and batch_axis are both {seq}")
        if x.dims is not None and lengths.dims is not None:
            ctx.require_equal(x.dims[batch], lengths.dims[0], "sizes of the batch and seq_lengths")
    return x


def _np_reverse_sequence(attrs: Any, x: Any, lengths: Any) -> Any:
    result = x.copy()
    seq, batch = attrs.seq_axis % x.ndim, attrs.batch_axis % x.ndim
    for b, length in enumerate(lengths):
        row = np.moveaxis(np.take(x, b, batch), seq - (seq > batch), 0).copy()
        count = int(checked_positions(length, x.shape[seq] + 1, from_end=False))
        row[:count] = row[:count][::-1]
        at: list[Any] = [slice(None)] * x.ndim
        at[batch] = b
        result[tuple(at)] = np.moveaxis(row, 0, seq - (seq > batch))
    return result


def _declare_parts() -> None:
    bounds = (Input("start", "prim"), Input("end", "prim"), Input("step", "prim", "at least 1"))
    declare_op(
        OpDef(
            name="slice_scatter",
            inputs=(Input("input_tensor", meaning="a tensor"), Input("src", meaning="the new part"), *bounds),
            attrs=(AttrSpec("axis", "int", 0),),
            doc="A tensor with [start:end:step] along an axis replaced.",
            infer=_infer_slice_scatter,
            reference=_np_slice_scatter,
            lower=lambda attrs, x, src, start, end, step: scatter.slice_scatter(
                x, src, start, end, step, int(attrs.axis)
            ),
            layout=_LAYOUT,
            samples=(
                Sample(((5, 3), (2, 3), 1, 3, 1)),
                Sample(((3, 7), (3, 3), 1, 7, 2), {"axis": 1}),
                Sample(((5, 3), (3, 3), -3, _END, 1)),
            ),
            errors=(
                ErrorSample(((5, 3), (2, 3), 0, 3, 1), {}, "R0203", "sizes of the slice and the source"),
                ErrorSample(((5, 3), (2, 3), 0, 3, 0), {}, "R0205", "step must be at least 1"),
            ),
        )
    )

    def reversed_sample(shape: tuple[int, ...], seq: int, batch: int) -> Sample:
        return Sample(
            (shape, (shape[batch],)),
            {"seq_axis": seq, "batch_axis": batch},
            ("float32",),
            lambda rng, dtype: (
                rng.standard_normal(shape).astype(dtype),
                rng.integers(0, shape[seq] + 1, size=shape[batch]),
            ),
        )

    declare_op(
        OpDef(
            name="reverse_sequence",
            inputs=(Input("data", meaning="a tensor"), Input("seq_lengths", meaning="(batch,) integers")),
            attrs=(AttrSpec("seq_axis", "int", 1), AttrSpec("batch_axis", "int", 0)),
            doc=(
                "The first seq_lengths[b] elements of seq_axis reversed, for each b. A length is one of "
                "0 to the size: another is an error (U1001, an index into that many lengths)."
            ),
            infer=_infer_reverse_sequence,
            reference=_np_reverse_sequence,
            lower=lambda attrs, x, n: transform.sequence_reverse(
                x, n, int(attrs.seq_axis), int(attrs.batch_axis)
            ),
            layout=_LAYOUT,
            samples=(
                reversed_sample((3, 5), 1, 0),
                reversed_sample((5, 3, 2), 0, 1),
                reversed_sample((2, 3, 4), -1, 1),
            ),
            errors=(ErrorSample(((3, 5), (2,)), {}, "R0203", "sizes of the batch", "float32,int64"),),
        )
    )


def _infer_collapse(ctx: Inference) -> Type:
    x = ctx.tensor(0)
    shape_ty = ctx.type_of(1)
    target = ctx.tensor(1).dims if isinstance(shape_ty, TensorType) else target_shape(ctx, 1)
    if target is None:
        return unknown_dims(x.dtype, shape_ty.ndim)  # type: ignore[attr-defined]
    if x.dims is not None:
        if len(target) > len(x.dims):
            ctx.shape_error(f"{x.ndim} dimensions cannot collapse to {len(target)}")
        for k, (dim, wanted) in enumerate(zip(reversed(x.dims), reversed(target), strict=False), start=1):
            if not isinstance(wanted, IntImm):
                ctx.assume_stretches(wanted, dim)
            elif wanted.value != 1:
                ctx.require_equal(dim, wanted, f"sizes on axis {-k}")
    return TensorType(target, x.dtype)


def _collapse(x: Any, target: Any) -> Any:
    """Sum over leading axes and over those that the target has as 1, or may have."""
    lead, ones = transform.collapse_axes(x.shape, target)
    wide = accumulator(x.dtype)
    led = (
        reduce_element(x.shape, lead, False, te.sum, lambda i: cast(wide, x[i]), "collapse_lead")
        if lead
        else x
    )
    axes = tuple(k - len(lead) for k in ones)
    led = _collapse_open(led, target, wide)
    if not axes:
        return convert(led, x.dtype)
    summed = reduce_element(led.shape, axes, True, te.sum, lambda i: cast(wide, led[i]), "collapse_sum")
    return convert(summed, x.dtype)


def _collapse_open(x: Any, target: Any, wide: Any) -> Any:
    """Sum over axes of which it is not known whether the target has them as they are or as 1: each is as many
    blocks as the target's size says, of one element or of all."""
    pairs = list(zip(x.shape, target, strict=True))
    is_open = [not isinstance(wanted, IntImm) and not structural_equal(dim, wanted) for dim, wanted in pairs]
    blocks = {
        k: dim // maximum(wanted, constant(1, wanted.dtype))
        for k, (dim, wanted) in enumerate(pairs)
        if is_open[k]
    }
    if not blocks:
        return x
    over = {k: te.reduce_axis((0, block), name=f"k{k}") for k, block in blocks.items()}

    def element(*index: Any) -> Any:
        full = [i * blocks[k] + over[k].var if k in over else i for k, i in enumerate(index)]
        return te.sum(cast(wide, x[tuple(full)]), axis=list(over.values()))

    shape = tuple(wanted if is_open[k] else dim for k, (dim, wanted) in enumerate(pairs))
    return te.compute(shape, element, name="collapse_open")


def _np_collapse(_attrs: Any, x: Any, target: Any) -> Any:
    shape = target.shape if isinstance(target, np.ndarray) else tuple(target)
    wide = computed_in(x.dtype)
    result = x.astype(wide).sum(axis=tuple(range(x.ndim - len(shape))), dtype=wide)
    axes = tuple(k for k, size in enumerate(shape) if size == 1)
    return result.sum(axis=axes, keepdims=True, dtype=wide).astype(x.dtype)


def _declare_collapse() -> None:
    rows = (((3, 7), (7,)), ((2, 3, 5), (3, 1)), ((3, 7), (3, 7)), ((2, 3), (1, 1)))
    errors = (ErrorSample(((2, 3), (2,)), {}, "R0203", "sizes on axis -1 differ"),)
    declare_op(
        OpDef(
            name="collapse_sum_to",
            inputs=(Input("data", meaning="a tensor"), Input("shape", "shape", "broadcasts to the data's")),
            attrs=(),
            doc="Sums over the axes that broadcasting from `shape` to the data's shape repeats.",
            infer=_infer_collapse,
            reference=_np_collapse,
            lower=lambda attrs, x, shape: _collapse(x, shape),
            layout=_LAYOUT,
            samples=tuple(Sample(row) for row in rows),
            errors=errors,
        )
    )
    declare_op(
        OpDef(
            name="collapse_sum_like",
            inputs=(Input("data", meaning="a tensor"), Input("collapse_target", meaning="gives the shape")),
            attrs=(),
            doc="collapse_sum_to the shape of another tensor.",
            infer=_infer_collapse,
            reference=_np_collapse,
            lower=lambda attrs, x, like: _collapse(x, like.shape),
            layout=_LAYOUT,
            samples=tuple(Sample(row) for row in rows),
            errors=errors,
        )
    )


def declare() -> None:
    """Put the operators of this file into the table."""
    _declare_strided_slice()
    _declare_dynamic_slice()
    _declare_parts()
    _declare_collapse()
