"""Reshape, expand and their kin: operators that take a shape and keep the elements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from math import prod

from heddle.arith.broadcast import broadcast_dim, stretches_to
from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.tensor.axes import known_axes, run_time_axes
from heddle.frontend.onnx.registry import converts
from heddle.frontend.onnx.values import content_value
from heddle.graph.contents import Simplifier
from heddle.graph.types import ShapeExpr, TensorType
from heddle.ir.expr import Expr
from heddle.prim import ops
from heddle.prim.nodes import IntImm, Mul, PrimExpr, constant, is_const_int

_ONE = constant(1, "int64")


@converts("Reshape", since=1)
def reshape_1(ctx: NodeContext) -> Result:
    """Reshape of version 1: the shape is an attribute."""
    return ctx.reshape(ctx.tensor(0), resolved(ctx, [constant(size, "int64") for size in ctx.attr("shape")]))


@converts("Reshape", since=5)
def reshape(ctx: NodeContext) -> Result:
    """0 takes the input's dimension (unless allowzero), and -1 what is left."""
    if ctx.value(1).elements() is None:
        return _reshape_at_run_time(ctx)
    return ctx.reshape(ctx.tensor(0), resolved(ctx, ctx.shape_values(1)))


def resolved(ctx: NodeContext, target: Sequence[PrimExpr]) -> list[PrimExpr]:
    """The dimensions that a target with 0 and -1 means."""
    own = ctx.dims(0)
    if _are_sizes(own, target):
        return list(target)
    dims: list[PrimExpr | None] = []
    for axis, size in enumerate(target):
        if is_const_int(size, 0) and not ctx.flag("allowzero"):
            if axis >= len(own):
                ctx.malformed(f"0 on axis {axis} of the target, and the input has {len(own)} dimensions")
            dims.append(own[axis])
        elif isinstance(size, IntImm) and size.value < 0:
            if size.value != -1 or None in dims:
                ctx.malformed("the target shape must have at most one -1, and no other negative number")
            dims.append(None)
        else:
            dims.append(size)
    known = [dim for dim in dims if dim is not None]
    if None not in dims:
        _check_size(ctx, own, known)
        return known
    rest = quotient(ctx.importer.simplify, own, known)
    if rest is None:
        ctx.malformed(f"{product(own)} elements do not fit the shape {[str(size) for size in target]}")
    return [rest if dim is None else dim for dim in dims]


def _are_sizes(own: Sequence[PrimExpr], target: Sequence[PrimExpr]) -> bool:
    """Whether nothing is to be brought into a shape of constants without elements, which it would not fit if
    0 were the input's dimension. Bodies of specifications compute such shapes from sizes, and mean them: a
    symbolic size that is 0 when the model runs is not the input's dimension either."""
    sizes = [dim.value for dim in (*own, *target) if isinstance(dim, IntImm)]
    if len(sizes) < len(own) + len(target) or min(sizes) < 0:
        return False
    dims, wanted = sizes[: len(own)], sizes[len(own) :]
    copied = [dims[axis] if size == 0 and axis < len(dims) else size for axis, size in enumerate(wanted)]
    return prod(dims) == prod(wanted) == 0 and prod(copied) > 0


def _check_size(ctx: NodeContext, own: Sequence[PrimExpr], target: Sequence[PrimExpr]) -> None:
    have, want = ctx.importer.simplify(product(own)), ctx.importer.simplify(product(target))
    if isinstance(have, IntImm) and isinstance(want, IntImm) and have.value != want.value:
        ctx.malformed(f"{have.value} elements do not fit a shape of {want.value}")


def _reshape_at_run_time(ctx: NodeContext) -> Expr:
    """The target is an input of the running model: its 0 and -1 are resolved by scalar arithmetic there."""
    own, target = ctx.dims(0), ctx.shape_values(1, sizes=False)
    total = product(own)
    zero = not ctx.flag("allowzero")
    sizes = [
        ops.select(ops.equal(size, 0), own[axis], size) if zero and axis < len(own) else size
        for axis, size in enumerate(target)
    ]
    known = product([ops.select(ops.less(size, 0), _ONE, size) for size in sizes])
    rest = ops.floordiv(total, ops.maximum(known, 1))
    dims = [ops.select(ops.less(size, 0), rest, size) for size in sizes]
    made = ctx.call("reshape", ctx.tensor(0), ShapeExpr(tuple(dims)))
    fresh = tuple(ctx.importer.fresh_dim(f"{ctx.node.label}_d{axis}") for axis in range(len(dims)))
    return ctx.builder.match_cast(made, TensorType(fresh, ctx.type(0).dtype))


def product(dims: Sequence[PrimExpr]) -> PrimExpr:
    """How many elements these sizes make, 1 for none."""
    return reduce(ops.multiply, dims, _ONE)


def quotient(simplify: Simplifier, total: Sequence[PrimExpr], parts: Sequence[PrimExpr]) -> PrimExpr | None:
    """product(total) / product(parts), equal factors cancelled first; None where constants do not divide."""
    above, below = _factors(total), _factors(parts)
    rest: list[list[PrimExpr]] = [[f for f in side if not isinstance(f, IntImm)] for side in (above, below)]
    numbers = [Counter(f.value for f in side if isinstance(f, IntImm)) for side in (above, below)]
    shared = numbers[0] & numbers[1]  # of (0, 3, 32) by (0, 3, 4) 8 is left
    constants = [prod((side - shared).elements()) for side in numbers]
    for factor in list(rest[1]):
        same = next((item for item in rest[0] if simplify.equal(item, factor)), None)
        if same is not None:
            rest[0].remove(same)
            rest[1].remove(factor)
    if constants[1] and constants[0] % constants[1] == 0 and not rest[1]:
        return simplify(product([*rest[0], constant(constants[0] // constants[1], "int64")]))
    if not rest[0] and not rest[1]:
        return _ONE if constants == [0, 0] else None
    whole = product([*rest[0], constant(constants[0], "int64")])
    return (
        simplify(ops.floordiv(whole, product([*rest[1], constant(constants[1], "int64")])))
        if constants[1]
        else None
    )


def _factors(dims: Sequence[PrimExpr]) -> list[PrimExpr]:
    found: list[PrimExpr] = []
    for dim in dims:
        found.extend(_factors((dim.a, dim.b)) if isinstance(dim, Mul) else [dim])
    return found


@converts("Flatten")
def flatten(ctx: NodeContext) -> Result:
    """Two dimensions: those before `axis`, and those from it on."""
    rank, dims = ctx.ndim(0), ctx.dims(0)
    axis = ctx.attr("axis", 1)
    if not -rank <= axis <= rank:
        ctx.malformed(f"axis {axis} is out of range for a tensor of {rank} dimensions")
    axis += rank if axis < 0 else 0
    return ctx.reshape(ctx.tensor(0), (product(dims[:axis]), product(dims[axis:])))


@converts("Unsqueeze", since=1)
def unsqueeze_1(ctx: NodeContext) -> Result:
    """Before operator set 11 the standard wants axes that are not negative. Negative ones count from the end
    of the result, as they do later, and in ONNX Runtime."""
    return _unsqueezed(ctx, ctx.attr("axes"))


@converts("Unsqueeze", since=13)
def unsqueeze(ctx: NodeContext) -> Result:
    """Unsqueeze: axes are an input, which may be known at run time only."""
    rank = ctx.ndim(0) + len(ctx.shape_values(1, sizes=False))
    axes = known_axes(ctx, 1, rank)
    if axes is not None:
        return _unsqueezed(ctx, axes)
    dims = run_time_axes(ctx, 1, rank).inserted(ctx.dims(0))
    return ctx.reshape(ctx.tensor(0), ctx.importer.named_dims(dims, "part"))


def _unsqueezed(ctx: NodeContext, axes: Sequence[int]) -> Expr:
    found = sorted(ctx.axes(axes, ctx.ndim(0) + len(axes)))
    return ctx.call("expand_dims", ctx.tensor(0), axis=tuple(found)) if found else ctx.tensor(0)


@converts("Expand")
def expand(ctx: NodeContext) -> Result:
    """Broadcast against a shape: a 1 on either side takes the other's dimension."""
    own, target = ctx.dims(0), ctx.shape_values(1)
    rank = max(len(own), len(target))
    padded = ((_ONE,) * (rank - len(own)) + tuple(own), (_ONE,) * (rank - len(target)) + tuple(target))
    whole: list[PrimExpr] = []
    for have, want in zip(*padded, strict=True):
        if isinstance(have, IntImm) and isinstance(want, IntImm) and 1 not in (have.value, want.value):
            if have.value != want.value:
                ctx.malformed(f"a dimension of {have.value} does not expand to {want.value}")
        whole.append(broadcast_dim(have, want))
    checks = [stretches_to(want, size) for want, size in zip(padded[1], whole, strict=True)]
    ctx.require_equal([pair for pair in checks if pair is not None], "expanded_sizes")
    if len(own) == rank and ctx.importer.same_dims(own, whole):
        return ctx.tensor(0)
    return ctx.call("broadcast_to", ctx.tensor(0), ShapeExpr(tuple(whole)))


@converts("Shape")
def shape_of(ctx: NodeContext) -> Result:
    """The dimensions as content; the symbolic rule gives it wherever they are known."""
    return content_value(ctx.shape_content(ctx.tensor(0))[slice(ctx.attr("start", 0), ctx.attr("end", None))])


@converts("Size")
def size_of(ctx: NodeContext) -> Result:
    """Size: the number of elements, as content that later shapes may use."""
    return content_value(ctx.scalar_content(product(ctx.dims(0))))
