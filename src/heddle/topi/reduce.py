"""Reductions over axes. Floats narrower than float32 are accumulated in float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heddle import te
from heddle.arith.sizes import product, ravel
from heddle.prim.intrinsics import sqrt
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import cast, equal, logical_and, logical_or, max_value, min_value, select
from heddle.runtime.dtype import DataType
from heddle.tir.nodes import IterVar
from heddle.topi.dims import positive_axes, positive_axis

Axes = int | Sequence[int] | None
Reducer = Callable[..., Any]
Element = Callable[[tuple[PrimExpr, ...]], PrimExpr]


def accumulator(dtype: DataType) -> DataType:
    """The dtype in which values of `dtype` are summed."""
    return DataType("float32") if dtype.is_float and dtype.bits < 32 else dtype


def reduced_shape(shape: Sequence[PrimExpr], axes: Sequence[int], keepdims: bool) -> tuple[PrimExpr, ...]:
    """Return the shape after a reduction over the (nonnegative) `axes`. With `keepdims` these axes keep size
    1."""
    one = constant(1, "int64")
    kept = [one if k in axes else dim for k, dim in enumerate(shape) if keepdims or k not in axes]
    return tuple(kept)


def reduce_element(
    shape: Sequence[PrimExpr],
    axes: Sequence[int],
    keepdims: bool,
    reducer: Reducer,
    element: Element,
    name: str,
) -> te.Tensor:
    """`reducer` over `axes` of the tensor of `shape` whose element at an index is `element(index)`."""
    over: dict[int, IterVar] = {k: te.reduce_axis((0, shape[k]), name=f"k{k}") for k in axes}

    def body(*index: PrimExpr) -> Any:
        given = list(index)
        full = []
        for k in range(len(shape)):
            position = given.pop(0) if keepdims or k not in over else None
            full.append(over[k].var if k in over else position)
        value = element(tuple(full))  # type: ignore[arg-type]
        return reducer(value, axis=list(over.values())) if over else value

    result: te.Tensor = te.compute(reduced_shape(shape, axes, keepdims), body, name=name)
    return result


def _reduction(reducer: Reducer, name: str, accumulates: bool) -> Callable[..., te.Tensor]:
    def build(x: te.Tensor, axis: Axes = None, keepdims: bool = False) -> te.Tensor:
        axes = positive_axes(axis, x.ndim)
        wide = accumulator(x.dtype) if accumulates and axes else x.dtype
        result = reduce_element(x.shape, axes, keepdims, reducer, lambda i: cast(wide, x[i]), name)
        return convert(result, x.dtype)

    build.__name__, build.__doc__ = (
        name,
        f"The {name} over axes (all for None), which stay as 1 with `keepdims`.",
    )
    return build


def convert(x: te.Tensor, dtype: DataType) -> te.Tensor:
    """Convert the tensor to a dtype; a tensor that has it is returned unchanged."""
    if x.dtype == dtype:
        return x
    result: te.Tensor = te.compute(x.shape, lambda *i: cast(dtype, x[i]), name="cast")
    return result


_all = te.comm_reducer(logical_and, lambda dtype: constant(True, "bool"), "all")
_any = te.comm_reducer(logical_or, lambda dtype: constant(False, "bool"), "any")
sum, prod = _reduction(te.sum, "sum", True), _reduction(te.prod, "prod", True)
max, min = _reduction(te.max, "max", False), _reduction(te.min, "min", False)
all, any = _reduction(_all, "all", False), _reduction(_any, "any", False)


def count_of(shape: Sequence[PrimExpr], axes: Sequence[int], dtype: DataType) -> PrimExpr:
    """How many elements a reduction joins, as a scalar of `dtype`."""
    return cast(dtype, product(shape[k] for k in axes))


def moments(x: te.Tensor, axes: Sequence[int]) -> tuple[te.Tensor, te.Tensor]:
    """Return mean and variance over axes, which keep size 1, in the accumulation dtype. The variance is the
    mean squared distance from the mean."""
    wide = accumulator(x.dtype)
    return moments_of(x.shape, lambda index: cast(wide, x[index]), axes)


def moments_of(
    shape: Sequence[PrimExpr], element: Element, axes: Sequence[int]
) -> tuple[te.Tensor, te.Tensor]:
    """`moments` of the tensor of `shape` whose element at an index is `element(index)`."""
    average = _average(shape, axes, element, "mean")

    def distance(index: tuple[PrimExpr, ...]) -> PrimExpr:
        delta = element(index) - average[kept_index(index, axes)]
        result: PrimExpr = delta * delta
        return result

    return average, _average(shape, axes, distance, "variance")


def mean_square(x: te.Tensor, axes: Sequence[int]) -> te.Tensor:
    """The mean of squares over axes, kept as 1, in the accumulator's dtype."""
    wide = accumulator(x.dtype)
    return _average(x.shape, axes, lambda i: cast(wide, x[i]) * cast(wide, x[i]), "mean_square")


def kept_index(index: Sequence[PrimExpr], axes: Sequence[int]) -> tuple[PrimExpr, ...]:
    """An index into a tensor whose `axes` were reduced and kept as 1."""
    zero = constant(0, "int64")
    return tuple(zero if k in axes else position for k, position in enumerate(index))


def _average(shape: Sequence[PrimExpr], axes: Sequence[int], element: Element, name: str) -> te.Tensor:
    total = reduce_element(shape, axes, True, te.sum, element, f"{name}_sum")
    count = count_of(shape, axes, total.dtype)
    result: te.Tensor = te.compute(total.shape, lambda *i: total[i] / count, name=name)
    return result


def _drop(
    x: te.Tensor, axes: Sequence[int], keepdims: bool, function: Callable[[PrimExpr], PrimExpr], name: str
) -> te.Tensor:
    """`function` of the elements of a tensor with axes of size 1, those dropped unless `keepdims`."""
    shape = x.shape if keepdims else tuple(dim for k, dim in enumerate(x.shape) if k not in axes)

    def body(*index: PrimExpr) -> PrimExpr:
        rest = list(index)
        full = (
            index
            if keepdims
            else tuple(constant(0, "int64") if k in axes else rest.pop(0) for k in range(x.ndim))
        )
        return function(x[full])

    result: te.Tensor = te.compute(shape, body, name=name)
    return result


def mean(x: te.Tensor, axis: Axes = None, keepdims: bool = False) -> te.Tensor:
    """The mean over axes."""
    axes = positive_axes(axis, x.ndim)
    wide = accumulator(x.dtype)
    total = reduce_element(x.shape, axes, keepdims, te.sum, lambda i: cast(wide, x[i]), "mean_sum")
    count = count_of(x.shape, axes, wide)
    result: te.Tensor = te.compute(total.shape, lambda *i: cast(x.dtype, total[i] / count), name="mean")
    return result


def variance(x: te.Tensor, axis: Axes = None, keepdims: bool = False) -> te.Tensor:
    """The mean squared distance from the mean."""
    axes = positive_axes(axis, x.ndim)
    return _drop(moments(x, axes)[1], axes, keepdims, lambda v: cast(x.dtype, v), "variance")


def std(x: te.Tensor, axis: Axes = None, keepdims: bool = False) -> te.Tensor:
    """The square root of the variance."""
    axes = positive_axes(axis, x.ndim)
    return _drop(moments(x, axes)[1], axes, keepdims, lambda v: cast(x.dtype, sqrt(v)), "std")


def _arg_reducer(is_max: bool) -> Callable[..., Any]:
    """Of (index, value) pairs the one with the greatest (least) value, of equal values that with the least
    index.
    """

    def combine(lhs: Any, rhs: Any) -> tuple[PrimExpr, PrimExpr]:
        better = lhs[1] > rhs[1] if is_max else lhs[1] < rhs[1]
        keep = logical_or(better, logical_and(equal(lhs[1], rhs[1]), lhs[0] < rhs[0]))
        return select(keep, lhs[0], rhs[0]), select(keep, lhs[1], rhs[1])

    def identity(index_dtype: DataType, dtype: DataType) -> tuple[PrimExpr, PrimExpr]:
        return max_value(index_dtype), (min_value if is_max else max_value)(dtype)

    return te.comm_reducer(combine, identity, "argmax" if is_max else "argmin")


def _arg_reduction(is_max: bool, name: str) -> Callable[..., te.Tensor]:
    reducer = _arg_reducer(is_max)

    def build(x: te.Tensor, axis: int | None = None, keepdims: bool = False) -> te.Tensor:
        axes = tuple(range(x.ndim)) if axis is None else (positive_axis(axis, x.ndim),)
        if not axes:
            zero: te.Tensor = te.compute((), lambda: constant(0, "int64"), name=name)
            return zero
        over = {k: te.reduce_axis((0, x.shape[k]), name=f"k{k}") for k in axes}

        def body(*index: PrimExpr) -> Any:
            rest = list(index)
            given = [rest.pop(0) if keepdims or k not in over else None for k in range(x.ndim)]
            full = tuple(over[k].var if k in over else given[k] for k in range(x.ndim))
            position = ravel([over[k].var for k in axes], [x.shape[k] for k in axes])
            return reducer((position, x[full]), axis=list(over.values()))

        made: tuple[te.Tensor, ...] = te.compute(reduced_shape(x.shape, axes, keepdims), body, name=name)
        return made[0]

    build.__name__ = name
    build.__doc__ = (
        f"The index (int64) of the {name[3:]} value along an axis, of equal ones the first; None flattens."
    )
    return build


argmax, argmin = _arg_reduction(True, "argmax"), _arg_reduction(False, "argmin")
