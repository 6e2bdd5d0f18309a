"""Type rules that many operators share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isqrt, prod
from typing import Any

import numpy as np

from heddle.arith.broadcast import broadcast_dim
from heddle.graph.codes import R0204
from heddle.graph.infer import Inference
from heddle.graph.types import UNKNOWN_NDIM, TensorType
from heddle.ir.types import Type
from heddle.prim.nodes import IntImm, PrimExpr
from heddle.prim.values import kind_of
from heddle.runtime.dtype import DataType

NO_PIXELS = "an image without elements cannot be {}"
"""Of operators that read images where their results have elements."""


def contraction_work(_attrs: Any, shapes: Sequence[tuple[int, ...]], result: tuple[int, ...]) -> int:
    """Multiply-adds of a product over common dimensions, those of a matrix product exactly: m k, k n and m n
    elements make m k n. Batched ones take no more than this."""
    sizes = sorted((prod(shape) for shape in shapes), reverse=True)[:2]
    return isqrt(prod(sizes) * prod(result)) + prod(result)


def convolution_work(attrs: Any, shapes: Sequence[tuple[int, ...]], result: tuple[int, ...]) -> int:
    """Multiply-adds of a convolution: each element of the larger side meets the weights of one channel, or
    the gaps between them."""
    data, weight = shapes[:2]
    gaps = prod(map(int, attrs.strides)) * prod(map(int, attrs.dilation))
    return max(prod(data), prod(result)) * (prod(weight) // max(1, *weight)) * gaps


def pool_work(attrs: Any, shapes: Sequence[tuple[int, ...]], result: tuple[int, ...]) -> int:
    """Elements of all windows, with the gaps between and inside them."""
    sizes = (attrs.pool_size, attrs.strides, attrs.dilation)
    return prod(result) * prod(int(size) for each in sizes for size in each)


def computed_in(dtype: Any) -> np.dtype[Any]:
    """What a reference computes in: float64; of integers their own type, in which they wrap as they do in
    loops, or int64 where numpy does not know it; of bool bool, where a sum is "or"."""
    given: np.dtype[Any] = np.dtype(dtype)
    if given.kind in "iub":
        return given
    return np.dtype(np.float64 if kind_of(given) == "f" else np.int64)


def same_as_input(ctx: Inference) -> Type:
    """The type of the first argument."""
    return ctx.tensor(0)


def float_same_as_input(ctx: Inference) -> Type:
    """The type of the first argument, which must be of floats."""
    ty = ctx.tensor(0)
    if ty.dtype is not None and not ty.dtype.is_float:
        ctx.fail(R0204, f"expected a float element type, got {ty.dtype}", "convert with astype")
    return ty


def number_same_as_input(ctx: Inference) -> Type:
    """The type of the first argument, which must be of integers or floats."""
    ty = ctx.tensor(0)
    if ty.dtype is not None and ty.dtype.is_bool:
        ctx.fail(R0204, f"expected integers or floats, got {ty.dtype}", "convert with astype")
    return ty


def _clash(a: int, b: int) -> bool:
    return a != b and 1 not in (a, b)


def broadcast_dims(ctx: Inference, *types: TensorType) -> tuple[PrimExpr, ...] | None:
    """The broadcast shape; None where a rank is unknown. Dimensions that surely cannot broadcast are an
    error; those that may differ are checked when it runs: each is 1 or the result's.
    """
    shapes = [ty.dims for ty in types]
    known = [shape for shape in shapes if shape is not None]
    if len(known) != len(shapes):
        return None
    ndim = max(len(shape) for shape in known)
    result: list[PrimExpr] = []
    for axis in range(-ndim, 0):
        dims = [shape[axis] for shape in known if len(shape) >= -axis]
        joined = dims[0]
        for dim in dims[1:]:
            if isinstance(joined, IntImm) and isinstance(dim, IntImm) and _clash(joined.value, dim.value):
                ctx.shape_error(f"shapes do not broadcast: {joined} against {dim} on axis {axis}")
            joined = broadcast_dim(joined, dim)
        for dim in dims:
            ctx.assume_stretches(dim, joined)
        result.append(joined)
    return tuple(result)


def broadcast_type(ctx: Inference, dtype: DataType | None, *types: TensorType) -> TensorType:
    """The type of tensors that broadcast, with the given element type. Raises: IRTypeError R0203."""
    dims = broadcast_dims(ctx, *types)
    if dims is not None:
        return TensorType(dims, dtype)
    ranks = [ty.ndim for ty in types]
    return TensorType(None, dtype, None, -1 if -1 in ranks else max(ranks))


def broadcast_rule(
    result_dtype: Callable[[DataType | None], DataType | None] = lambda dtype: dtype,
    kinds: Sequence[str] = (),
) -> Callable[[Inference], Type]:
    """Inputs of one dtype that broadcast; the result's dtype is a function of it. `kinds`: of bool, integer
    and float, those that the operator is defined on; by default all."""

    def rule(ctx: Inference) -> Type:
        types = ctx.tensors()
        dtype = ctx.same_dtype(*types)
        for ty in types:
            if kinds and ty.dtype is not None and _kind_of(ty.dtype) not in kinds:
                expected = " or ".join(kinds)
                ctx.fail(R0204, f"expected a {expected} element type, got {ty.dtype}", "convert with astype")
        return broadcast_type(ctx, result_dtype(dtype), *types)

    return rule


def _kind_of(dtype: DataType) -> str:
    return "float" if dtype.is_float else "bool" if dtype.is_bool else "integer"


def to_bool(_dtype: DataType | None) -> DataType:
    """bool, whatever the operands are: what comparisons give."""
    return DataType("bool")


def axes_of(ctx: Inference, axes: Any, ndim: int) -> tuple[int, ...]:
    """Axes from 0 in rising order; None means all. An axis out of range or given twice is an error."""
    if axes is None:
        return tuple(range(ndim))
    given = axes if isinstance(axes, (tuple, list)) else (axes,)
    found = sorted(ctx.axis(int(axis), ndim) for axis in given)
    if len(set(found)) != len(found):
        ctx.attr_error(f"an axis occurs twice in {list(given)}")
    return tuple(found)


def unknown_dims(dtype: DataType | None, ndim: int = UNKNOWN_NDIM) -> TensorType:
    """A tensor of which at most the rank is known."""
    return TensorType(None, dtype, None, ndim)


def require_float(ctx: Inference, *types: TensorType) -> None:
    """Raises: IRTypeError R0204 where elements are known and are no floats."""
    for ty in types:
        if ty.dtype is not None and not ty.dtype.is_float:
            ctx.fail(R0204, f"expected a float element type, got {ty.dtype}", "convert with astype")


def require_int(ctx: Inference, ty: TensorType, what: str) -> None:
    """Raises: IRTypeError R0204 where elements are known and are no integers."""
    if ty.dtype is not None and not ty.dtype.is_int:
        ctx.fail(R0204, f"{what} must be integers, got {ty.dtype}", "convert with astype")


def require_ndim(ctx: Inference, ty: TensorType, ndim: int, what: str) -> None:
    """Raises: IRTypeError R0203 where the number of dimensions is known and another."""
    if ty.ndim not in (UNKNOWN_NDIM, ndim):
        ctx.shape_error(f"{what} must have {ndim} dimensions, got {ty.ndim}")


def wide_indices(indices: Any) -> Any:
    """Indices as int64. Those of uint64 that are greater become the greatest int64, as in loops."""
    given = np.asarray(indices)
    limited = np.minimum(given, np.uint64(2**63 - 1)) if given.dtype == np.uint64 else given
    return limited.astype(np.int64)


def wrapped_indices(indices: Any, size: int) -> Any:
    """Indices modulo a size, as int64; 0 where the size is 0."""
    given = np.asarray(indices)
    wide = given if given.dtype == np.uint64 else given.astype(np.int64)
    return (wide % wide.dtype.type(max(size, 1))).astype(np.int64)
