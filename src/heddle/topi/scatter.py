"""Scatter operations: copy the data, then write the updates in order. For duplicate indices the last update
wins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heddle import te
from heddle.arith.broadcast import broadcast_shape
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import all as all_of
from heddle.prim.ops import cast, equal, floormod, if_then_else, maximum, minimum
from heddle.support.diagnostics import IRTypeError
from heddle.te.codes import E0104
from heddle.tir.nodes import AllocBuffer, Buffer, Stmt, decl_buffer, seq
from heddle.topi.broadcast import read_broadcast
from heddle.topi.dims import positive_axis, static, wide_index
from heddle.topi.index import valid_position, wrapped_index
from heddle.topi.loops import copy_all, load, nest, store
from heddle.topi.transform import slice_bounds

Combine = Callable[[PrimExpr, PrimExpr], PrimExpr]
REDUCTIONS: dict[str, Combine] = {
    "update": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "min": minimum,
    "max": maximum,
}
"""How an update is combined with the present element. "mean" is handled separately: it divides at the end."""


def combination(reduction: str) -> Combine:
    """Raises: IRTypeError E0104."""
    if reduction not in REDUCTIONS:
        raise IRTypeError(E0104, f"reduction {reduction!r} is none of {sorted([*REDUCTIONS, 'mean'])}")
    return REDUCTIONS[reduction]


def _scatter(
    x: te.Tensor,
    tensors: Sequence[te.Tensor],
    points: Sequence[PrimExpr],
    reduction: str,
    place: Callable[[Sequence[Buffer], tuple[PrimExpr, ...]], tuple[Sequence[PrimExpr], PrimExpr]],
    name: str,
) -> te.Tensor:
    """For every point of a shape, `place` gives the target's index, which must be valid, and the update."""
    is_mean = reduction == "mean"
    combine = combination("add" if is_mean else reduction)

    def body(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Stmt:
        target = outputs[0]
        counts = decl_buffer(x.shape, "int64", f"{name}_count") if is_mean else None

        def update(point: tuple[PrimExpr, ...]) -> Stmt:
            index, value = place(inputs[1:], point)
            stmts = [store(target, combine(load(target, index), value), index)]
            if counts is not None:
                stmts.append(store(counts, load(counts, index) + 1, index))
            return seq(*stmts)

        copied, scattered = copy_all("c", target, inputs[0]), nest("u", points, update)
        if counts is None:
            return seq(copied, scattered)
        ones = nest("z", x.shape, lambda i: store(counts, constant(1, "int64"), i))
        mean = nest("m", x.shape, lambda i: store(target, _divide(load(target, i), load(counts, i)), i))
        return seq(AllocBuffer(counts), copied, ones, scattered, mean)

    result: te.Tensor = te.extern(tuple(x.shape), [x, *tensors], body, name=name, dtype=x.dtype)
    return result


def _divide(total: PrimExpr, count: PrimExpr) -> PrimExpr:
    value: PrimExpr = (
        total / cast(total.dtype, count) if total.dtype.is_float else total // cast(total.dtype, count)
    )
    return value


def scatter_elements(
    x: te.Tensor, indices: te.Tensor, updates: te.Tensor, axis: int = 0, reduction: str = "update"
) -> te.Tensor:
    """Return x with x[indices[i][j]][j] = updates[i][j] for axis 0, and so on. "mean" includes x's own
    element."""
    at = positive_axis(axis, x.ndim)

    def place(inputs: Sequence[Buffer], point: tuple[PrimExpr, ...]) -> tuple[Sequence[PrimExpr], PrimExpr]:
        position = valid_position(load(inputs[0], point), x.shape[at])
        return (*point[:at], position, *point[at + 1 :]), load(inputs[1], point)

    return _scatter(x, [indices, updates], indices.shape, reduction, place, "scatter_elements")


def scatter_nd(x: te.Tensor, indices: te.Tensor, updates: te.Tensor, reduction: str = "update") -> te.Tensor:
    """Return x with slices replaced by updates, at index vectors that are the last axis of `indices`."""
    depth = static(indices.shape[-1], "the last dimension of indices")
    outer = indices.ndim - 1

    def place(inputs: Sequence[Buffer], point: tuple[PrimExpr, ...]) -> tuple[Sequence[PrimExpr], PrimExpr]:
        vector = [
            valid_position(load(inputs[0], (*point[:outer], constant(k, "int64"))), x.shape[k])
            for k in range(depth)
        ]
        return (*vector, *point[outer:]), load(inputs[1], point)

    return _scatter(x, [indices, updates], updates.shape, reduction, place, "scatter_nd")


def index_put(
    x: te.Tensor, indices: Sequence[te.Tensor], values: te.Tensor, accumulate: bool = False
) -> te.Tensor:
    """Return x with x[indices[0], indices[1], ...] = values, or += with `accumulate`. Indices and values are
    broadcast."""
    shape = broadcast_shape(*(i.shape for i in indices))
    points = (*shape, *x.shape[len(indices) :])
    count = len(shape)

    def place(inputs: Sequence[Buffer], point: tuple[PrimExpr, ...]) -> tuple[Sequence[PrimExpr], PrimExpr]:
        vector = [
            valid_position(_read(inputs[k], tensor, point[:count], shape), x.shape[k])
            for k, tensor in enumerate(indices)
        ]
        return (*vector, *point[count:]), _read(inputs[-1], values, point, points)

    return _scatter(x, [*indices, values], points, "add" if accumulate else "update", place, "index_put")


def _read(
    buffer: Buffer, tensor: te.Tensor, index: Sequence[PrimExpr], shape: Sequence[PrimExpr]
) -> PrimExpr:
    """`read_broadcast` of the buffer that stands for a tensor."""
    found = read_broadcast(tensor, index, shape)
    return load(buffer, found.indices)  # type: ignore[attr-defined]


def slice_scatter(x: te.Tensor, src: te.Tensor, start: Any, end: Any, step: Any, axis: int = 0) -> te.Tensor:
    """Return x with x[start:end:step] along an axis replaced by src."""
    at = positive_axis(axis, x.ndim)
    begin, length, stride = slice_bounds(x.shape[at], start, end, step, False)

    def element(*index: PrimExpr) -> PrimExpr:
        distance = index[at] - begin
        inside = [distance >= 0, distance < length * stride]
        if stride > 1:
            inside.append(equal(floormod(distance, stride), 0))
        return if_then_else(
            all_of(*inside), src[(*index[:at], distance // stride, *index[at + 1 :])], x[index]
        )

    result: te.Tensor = te.compute(x.shape, element, name="slice_scatter")
    return result


def scatter_rows(
    x: te.Tensor, updates: te.Tensor, first: te.Tensor, axis: int = -2, mode: str = "linear"
) -> te.Tensor:
    """Return x with the rows of `updates` written along an axis, from row first[b] of each batch b on. Rows
    past the end are dropped, or wrap around if `mode` is circular.

    Shapes: x (b, ..., s, ...), updates (b, ..., k, ...) with k ≤ s at the axis, first (b,) → that of x.
    """
    at = positive_axis(axis, x.ndim)
    size, count = (cast("int64", tensor.shape[at]) for tensor in (x, updates))

    def element(*index: PrimExpr) -> PrimExpr:
        row, start = cast("int64", index[at]), first[index[0]]
        if mode == "circular":
            row = floormod(row - wrapped_index(start, maximum(size, 1)), maximum(size, 1))
        else:
            row = row - wide_index(start)
        inside = all_of(row >= 0, row < count)
        return if_then_else(inside, updates[(*index[:at], row, *index[at + 1 :])], x[index])

    result: te.Tensor = te.compute(x.shape, element, name="scatter_rows")
    return result
