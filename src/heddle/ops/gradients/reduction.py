"""Gradients of reductions, scans and orders."""

from __future__ import annotations

from typing import Any

from heddle.graph.gradient import Cotangent, Step, Term
from heddle.ir.expr import TupleGetItem
from heddle.ir.op_def import Without

_POSITIONS = Without("positions and truth values have no gradient")


def reduced_axes(step: Step) -> list[int]:
    """The axes that a reduction runs over, from 0."""
    axis = step.attrs.axis
    if axis is None:
        return list(range(step.ndim(0)))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    return sorted(step.axis(each) for each in given)


def _kept(step: Step, x: Any) -> Any:
    """A result of the reduction with axes of size 1 where it ran."""
    axes = reduced_axes(step)
    return x if step.attrs.keepdims or not axes else step("expand_dims", x, axis=axes)


def _spread(step: Step, x: Any) -> Any:
    """A result of the reduction, at each element that it is made of."""
    return step.spread(_kept(step, x), 0)


def _count(step: Step) -> Any:
    """How many elements make one of the result, as a number, or as a tensor that fits the kept result."""
    sizes = [step.dims(0)[axis] for axis in reduced_axes(step)]
    if all(hasattr(size, "value") for size in sizes):
        found = 1
        for size in sizes:
            found *= int(size.value)
        return max(found, 1)
    ones = step("ones_like", step.args[0])
    return step.term(step("sum", ones, axis=reduced_axes(step), keepdims=True))


def _sum(step: Step) -> tuple[Cotangent, ...]:
    return (_spread(step, step.grad),)


def _mean(step: Step) -> tuple[Cotangent, ...]:
    return (step.spread((step.term(_kept(step, step.grad)) / _count(step)).expr, 0),)


def _extreme(step: Step) -> tuple[Cotangent, ...]:
    """Equal ones share."""
    axes = reduced_axes(step)
    is_it = step.term(step.args[0]).op("equal", _spread(step, step.result)).where(1, 0)
    spread = _broadcastable(step, is_it)
    share = step.term(_kept(step, step.grad)) / step("sum", spread.expr, axis=axes, keepdims=True)
    return ((spread * share).expr,)


def _broadcastable(step: Step, x: Term) -> Term:
    return step.term(step.spread(x.expr, 0))


def _prod(step: Step) -> tuple[Cotangent, ...]:
    """The product of the others, by running products from both sides: elements may be zero."""
    axes, ndim = reduced_axes(step), step.ndim(0)
    if not axes:
        return (step.grad,)
    order = [k for k in range(ndim) if k not in axes] + axes
    dims = [step.dims(0)[k] for k in order]
    moved = step("permute_dims", step.args[0], axes=order)
    row, first = moved, ndim - len(axes)
    for _ in axes[1:]:
        row = step.words.join_axes(row, dims, first)
        dims[first : first + 2] = [dims[first] * dims[first + 1]]
    before = step("cumprod", row, axis=first, exclusive=True)
    after = step("flip", row, axis=[first])
    after = step("flip", step("cumprod", after, axis=first, exclusive=True), axis=[first])
    others = step.term(step("multiply", before, after))
    ty = step.ty(0)
    like = type(ty)(tuple(step.dims(0)[k] for k in order), ty.dtype)
    others = step.term(step.words.shaped("reshape", others.expr, moved, like))
    back = others.op("permute_dims", axes=[order.index(k) for k in range(ndim)])
    return ((back * step.term(_spread(step, step.grad))).expr,)


def _deviation(step: Step) -> Term:
    """x less its mean."""
    x = step.term(step.args[0])
    return x - step.term(step("mean", step.args[0], axis=reduced_axes(step), keepdims=True))


def _variance(step: Step) -> tuple[Cotangent, ...]:
    share = step.term(_kept(step, step.grad)) * 2 / _count(step)
    return ((_deviation(step) * share).expr,)


def _std(step: Step) -> tuple[Cotangent, ...]:
    root = step.term(_kept(step, step.result))
    is_flat = root.op("equal", step.number(0))
    share = step.term(_kept(step, step.grad)) / _count(step) / is_flat.where(1, root)
    return ((_deviation(step) * share).expr,)


def _cumsum(step: Step) -> tuple[Cotangent, ...]:
    axis = 0 if step.attrs.axis is None else step.axis(step.attrs.axis)
    grad = step("flip", step.grad, axis=[axis])
    grad = step("cumsum", grad, axis=axis, exclusive=bool(step.attrs.exclusive))
    grad = step("flip", grad, axis=[axis])
    grad = grad if not step.attrs.dtype else step("astype", grad, dtype=step.dtype(0))
    return (step.reshaped(grad, 0) if step.attrs.axis is None else grad,)


def _sort(step: Step) -> tuple[Cotangent, ...]:
    attrs = {"axis": int(step.attrs.axis), "descending": bool(step.attrs.descending)}
    places = step("argsort", step.args[0], **attrs)
    return (scattered(step, places, step.grad, attrs["axis"]),)


def scattered(step: Step, places: Any, values: Any, axis: int) -> Any:
    """Zeros like the first argument, with values added at places along an axis."""
    return step("scatter_elements", step.zeros(0), places, values, axis=axis, reduction="add")


def _topk(step: Step) -> tuple[Cotangent, ...]:
    attrs = dict(step.attrs.items())
    kind = attrs["ret_type"]
    values = step.grad[0] if kind == "both" else step.grad
    if kind == "indices" or values is None:
        return (None,)
    both = step.result if kind == "both" else step("topk", step.args[0], **{**attrs, "ret_type": "both"})
    return (scattered(step, TupleGetItem(both, 1), values, int(attrs["axis"])),)


def rules() -> dict[str, Any]:
    """The rules of this file by the names of records."""
    return {
        **dict.fromkeys(("all", "any", "argmax", "argmin", "argsort", "bucketize"), _POSITIONS),
        "sum": _sum,
        "mean": _mean,
        "max": _extreme,
        "min": _extreme,
        "prod": _prod,
        "variance": _variance,
        "std": _std,
        "cumsum": _cumsum,
        "cumprod": Without("it would divide by elements, which may be zero"),
        "sort": _sort,
        "topk": _topk,
    }
