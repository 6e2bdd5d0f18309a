"""Indexing with tensors (take, gather). Negative indices count from the end. An index out of range is an
error (`prim.checked_index`) unless the operator says otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle import te
from heddle.arith.broadcast import broadcast_shape
from heddle.arith.sizes import as_dim
from heddle.prim.checked_index import checked_index
from heddle.prim.nodes import FloatImm, PrimExpr, as_expr, constant, is_const_int
from heddle.prim.ops import all as all_of
from heddle.prim.ops import cast, equal, floormod, if_then_else, maximum, minimum, select
from heddle.topi.broadcast import read_broadcast
from heddle.topi.dims import positive_axis, static, wide_index
from heddle.topi.transform import flatten


def wrapped_index(position: PrimExpr, size: PrimExpr) -> PrimExpr:
    """Return an index modulo the size, 0 where the size is 0 and known: then there is nothing to read."""
    if is_const_int(size, 0):
        return constant(0, "int64")
    if position.dtype == "uint64":
        return cast("int64", floormod(position, cast("uint64", size)))
    return floormod(cast("int64", position), cast("int64", size))


def from_front(position: PrimExpr, size: PrimExpr) -> PrimExpr:
    """Convert an index that may be negative to one that counts from the front."""
    at = wide_index(position)
    return at if position.dtype.is_unsigned else select(at < 0, at + size, at)


def valid_position(position: PrimExpr, size: PrimExpr) -> PrimExpr:
    """Convert an index to one that counts from the front, with a run-time check that it is in range."""
    return checked_index(position, size)


def element_of(x: te.Tensor, index: Sequence[PrimExpr]) -> PrimExpr:
    """Return the element at an index of a tensor of any rank."""
    result: PrimExpr = x[tuple(index)] if x.ndim else x()
    return result


def take(x: te.Tensor, indices: te.Tensor, axis: int | None = None, mode: str = "fast") -> te.Tensor:
    """Take slices of x along an axis (None: from the flattened tensor) at indices of any rank.

    `mode`: with "fast", negative indices count from the end, and an index out of range is an error; "wrap"
    takes indices modulo the size; "clip" clamps them; "nan" returns NaN for indices out of range.
    """
    if axis is None:
        return take(x if x.ndim == 1 else flatten(x), indices, 0, mode)
    at = positive_axis(axis, x.ndim)
    shape = (*x.shape[:at], *indices.shape, *x.shape[at + 1 :])

    def element(*index: PrimExpr) -> PrimExpr:
        given = element_of(indices, index[at : at + indices.ndim])
        position, inside = _mode_position(given, x.shape[at], mode)
        value: PrimExpr = x[(*index[:at], position, *index[at + indices.ndim :])]
        return value if inside is None else if_then_else(inside, value, FloatImm(x.dtype, float("nan")))

    result: te.Tensor = te.compute(shape, element, name="take")
    return result


def _mode_position(given: PrimExpr, size: PrimExpr, mode: str) -> tuple[PrimExpr, PrimExpr | None]:
    """Return the position for an index, and the condition under which it is valid; None if it need not be
    checked."""
    if mode == "wrap":
        return wrapped_index(given, size), None
    if mode == "clip":
        return maximum(minimum(wide_index(given), size - 1), 0), None
    if mode == "nan":
        position = from_front(given, size)
        return position, all_of(position >= 0, position < size)
    return valid_position(given, size), None


def gather_elements(x: te.Tensor, indices: te.Tensor, axis: int = 0) -> te.Tensor:
    """result[i][j] = x[indices[i][j]][j] for axis 0, and so on."""
    at = positive_axis(axis, x.ndim)

    def element(*index: PrimExpr) -> PrimExpr:
        position = valid_position(indices[index], x.shape[at])
        result: PrimExpr = x[(*index[:at], position, *index[at + 1 :])]
        return result

    result: te.Tensor = te.compute(indices.shape, element, name="gather_elements")
    return result


def gather_nd(x: te.Tensor, indices: te.Tensor, batch_dims: int = 0) -> te.Tensor:
    """Take slices at index vectors, which are the last axis of `indices`. The first `batch_dims` axes of x
    and indices are batch axes."""
    depth = static(indices.shape[-1], "the last dimension of indices")
    outer = indices.ndim - 1
    shape = (*indices.shape[:-1], *x.shape[batch_dims + depth :])

    def element(*index: PrimExpr) -> PrimExpr:
        vector = [
            valid_position(indices[(*index[:outer], constant(k, "int64"))], x.shape[batch_dims + k])
            for k in range(depth)
        ]
        return element_of(x, (*index[:batch_dims], *vector, *index[outer:]))

    result: te.Tensor = te.compute(shape, element, name="gather_nd")
    return result


def index_tensor(x: te.Tensor, indices: Sequence[te.Tensor]) -> te.Tensor:
    """Return x[indices[0], indices[1], ...]. The index tensors are broadcast together and index the first
    axes of x."""
    shape = broadcast_shape(*(i.shape for i in indices))
    count = len(shape)

    def element(*index: PrimExpr) -> PrimExpr:
        vector = [
            valid_position(read_broadcast(tensor, index[:count], shape), x.shape[k])
            for k, tensor in enumerate(indices)
        ]
        return element_of(x, (*vector, *index[count:]))

    result: te.Tensor = te.compute((*shape, *x.shape[len(indices) :]), element, name="index_tensor")
    return result


def one_hot(
    indices: te.Tensor, on_value: Any, off_value: Any, depth: Any, axis: int = -1, dtype: str = "float32"
) -> te.Tensor:
    """Return `on_value` at the index along a new axis of size `depth`, and `off_value` elsewhere."""
    at = positive_axis(axis, indices.ndim + 1)
    shape = (*indices.shape[:at], as_dim(depth), *indices.shape[at:])
    on, off = (cast(dtype, as_expr(value)) for value in (on_value, off_value))

    def element(*index: PrimExpr) -> PrimExpr:
        given = from_front(element_of(indices, (*index[:at], *index[at + 1 :])), as_dim(depth))
        return select(equal(given, index[at]), on, off)

    result: te.Tensor = te.compute(shape, element, name="one_hot")
    return result
