"""Axes that are an input of the running model: which they are is read then.

Where their number is known, so is the rank of every result, which depends on the number alone. Its dimensions
are scalar expressions over the axes: each axis of the data asks whether it is among them. Where their number
is not known, operators that keep the rank take them, spread over all axes.
"""

from __future__ import annotations

from collections.abc import Sequence

from heddle.frontend.onnx.context import NodeContext
from heddle.frontend.onnx.values import tensor_value
from heddle.ir.expr import Expr
from heddle.prim import ops
from heddle.prim.nodes import IntImm, PrimExpr, constant
from heddle.support.frozen import frozen

ONE, ZERO = constant(1, "int64"), constant(0, "int64")


@frozen
class RunTimeAxes:
    """`numbers` are the axes counted from 0, in the order of the input; `hits[k]` says whether axis k of
    `len(hits)` is one of them."""

    numbers: tuple[PrimExpr, ...]
    hits: tuple[PrimExpr, ...]

    def pick(self, axis: int, values: Sequence[PrimExpr], default: PrimExpr) -> PrimExpr:
        """What `values`, one for each of the axes, says of an axis."""
        found = default
        for number, value in zip(self.numbers, values, strict=True):
            found = ops.select(ops.equal(number, axis), value, found)
        return found

    def split(self, dims: Sequence[PrimExpr]) -> tuple[list[PrimExpr], list[PrimExpr]]:
        """For each dimension what is kept and what belongs to the axes: (d, 1), or (1, d)."""
        kept = [ops.select(hit, ONE, dim) for hit, dim in zip(self.hits, dims, strict=True)]
        taken = [ops.select(hit, dim, ONE) for hit, dim in zip(self.hits, dims, strict=True)]
        return kept, taken

    def without(self, dims: Sequence[PrimExpr]) -> list[PrimExpr]:
        """The dimensions that are not on the axes, in their order."""
        found: list[PrimExpr] = [ZERO] * (len(dims) - len(self.numbers))
        place: PrimExpr = ZERO
        for hit, dim in zip(self.hits, dims, strict=True):
            for index, old in enumerate(found):
                found[index] = ops.select(
                    ops.logical_and(ops.logical_not(hit), ops.equal(place, index)), dim, old
                )
            place = place + ops.select(hit, ZERO, ONE)
        return found

    def inserted(self, dims: Sequence[PrimExpr]) -> list[PrimExpr]:
        """Dimensions with ones put in at the axes, which are places in the result."""
        made: list[PrimExpr] = []
        place: PrimExpr = ZERO
        for hit in self.hits:
            own: PrimExpr = ONE
            for index, dim in enumerate(dims):
                own = ops.select(ops.equal(place, index), dim, own)
            made.append(ops.select(hit, ONE, own))
            place = place + ops.select(hit, ZERO, ONE)
        return made


def known_axes(ctx: NodeContext, index: int, rank: int, count: int | None = None) -> list[int] | None:
    """The axes of an input that is known now, counted from 0; else None. `count`: so many they must be."""
    values = ctx.shape_values(index, False, count)
    if not all(isinstance(value, IntImm) for value in values):
        return None
    return ctx.axes([int(value) for value in values], rank)  # type: ignore[call-overload]


def run_time_axes(ctx: NodeContext, index: int, rank: int, count: int | None = None) -> RunTimeAxes:
    """Axes of a tensor of `rank` that an input gives. Checked when it runs: each is in range, none occurs
    twice. `count`: so many they must be."""
    given = ctx.shape_values(index, False, count)
    if len(given) > rank:
        ctx.malformed(f"{len(given)} axes of a tensor of {rank} dimensions")
    numbers = tuple(ops.select(ops.less(axis, 0), axis + rank, axis) for axis in given)
    hits = tuple(ops.any(*(ops.equal(number, axis) for number in numbers)) for axis in range(rank))
    found: PrimExpr = ZERO
    for hit in hits:
        found = found + ops.select(hit, ONE, ZERO)
    ctx.require_equal([(constant(len(given), "int64"), found)], "distinct_axes")
    return RunTimeAxes(numbers, hits)


@frozen
class FreeAxes:
    """Axes of a tensor of `rank`, of a number that is known when the model runs. `numbers`: int64[count]."""

    ctx: NodeContext
    numbers: Expr
    count: PrimExpr
    rank: int

    def spread(self, values: Expr, default: int) -> tuple[PrimExpr, ...]:
        """For each axis of the tensor what `values` (int64[count]) says of it, else the default."""
        ctx = self.ctx
        base = ctx.const([default] * self.rank, "int64")
        made = ctx.call("scatter_elements", base, self.numbers, values, axis=0)
        return tuple(ctx.importer.elements_of(tensor_value(made, ctx.node.label), sizes=False))

    def hits(self) -> tuple[PrimExpr, ...]:
        """1 for each axis of the tensor that is one of them, else 0. Checked: none occurs twice."""
        ones = self.ctx.call("full", (self.count,), self.ctx.const(1, "int64"), dtype="int64")
        found = self.spread(ones, 0)
        self.ctx.require_equal([(self.count, sum(found, ZERO))], "distinct_axes")
        return found


def free_axes(ctx: NodeContext, index: int, count: PrimExpr, rank: int) -> FreeAxes:
    """The `count` axes that an input names, or, where it is left out, the first ones."""
    if not ctx.has(index):
        return FreeAxes(ctx, ctx.call("arange", ZERO, count, 1, dtype="int64"), count, rank)
    given = ctx.astype(ctx.importer.cast_shape(ctx.tensor(index), (count,)), "int64")
    size = ctx.const(rank, "int64")
    is_counted_back = ctx.call("less", given, ctx.const(0, "int64"))
    return FreeAxes(ctx, ctx.call("where", is_counted_back, ctx.call("add", given, size), given), count, rank)


def length_of(ctx: NodeContext, *indices: int) -> PrimExpr:
    """The common length of the inputs that are there: a number where one of them has a known length."""
    found: PrimExpr | None = None
    for index in filter(ctx.has, indices):
        known = ctx.value(index).elements()
        if known is not None:
            return constant(known.size, "int64")
        dims = ctx.dims(index)
        own = dims[0] if len(dims) == 1 else ONE
        if isinstance(own, IntImm):
            return own
        found = found if found is not None else own
    return ZERO if found is None else found


def fixed_axes(axes: Sequence[int], rank: int) -> RunTimeAxes:
    """Axes that are known, in the form of those that are not."""
    numbers = tuple(constant(axis, "int64") for axis in axes)
    return RunTimeAxes(numbers, tuple(constant(axis in axes, "bool") for axis in range(rank)))


def one_axis(ctx: NodeContext, index: int, rank: int) -> int | RunTimeAxes:
    """The axis that an input of one element gives: a number, or one that is read when the model runs."""
    if len(ctx.shape_values(index, sizes=False, count=1)) != 1:
        ctx.malformed("the axis must be one number")
    known = known_axes(ctx, index, rank, 1)
    return run_time_axes(ctx, index, rank, 1) if known is None else known[0]


def around_axis(ctx: NodeContext, x: Expr, axes: RunTimeAxes) -> tuple[Expr, tuple[PrimExpr, ...]]:
    """A tensor as (before the axis, the axis, behind it), and the dimensions to bring it back to."""
    dims = ctx.dims_of(x)
    (number,) = axes.numbers
    before: PrimExpr = ONE
    own: PrimExpr = ONE
    after: PrimExpr = ONE
    for axis, dim in enumerate(dims):
        before = before * ops.select(ops.less(axis, number), dim, ONE)
        own = own * ops.select(ops.equal(axis, number), dim, ONE)
        after = after * ops.select(ops.greater(axis, number), dim, ONE)
    return ctx.reshape(x, ctx.importer.named_dims((before, own, after), "part")), dims
