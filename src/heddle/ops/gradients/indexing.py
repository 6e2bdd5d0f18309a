"""Gradients of operators that pick and place elements by their positions."""

from __future__ import annotations

from typing import Any

from heddle.graph.gradient import Cotangent, Step
from heddle.ir.op_def import Without
from heddle.prim.nodes import IntImm

_RANDOM = Without("what is drawn has no gradient")
_ROUNDED = Without("rounding has no gradient: take the expression in floats")
_DYNAMIC = Without("its size depends on values")


def _within(step: Step, indices: Any, axis: int) -> Any:
    """Positions as `take` reads them."""
    mode = str(step.attrs.mode)
    if mode == "fast":
        return indices
    size = step.dims(0)[axis]
    if not isinstance(size, IntImm):
        step.refuse(f"in mode {mode}, along an axis of a free size")
    dtype = step.dtype(1)
    if mode == "wrap":
        return step("floor_mod", indices, step.number(int(size.value), dtype))
    high = step("minimum", indices, step.number(int(size.value) - 1, dtype))
    return step("maximum", high, step.number(0, dtype))


def _take(step: Step) -> tuple[Cotangent, ...]:
    """Each element that was taken goes back to its place; those of one place are added."""
    grad, index_ndim = step.grad, step.ndim(1)
    if step.attrs.axis is None:
        if step.ndim(0) > 1:
            step.refuse("of all elements in a row: reshape first")
        axis = 0
    else:
        axis = step.axis(step.attrs.axis)
    ndim = step.ndim(0)
    rest = [k for k in range(ndim) if k != axis]
    moved = step("permute_dims", step.zeros(0), axes=[axis, *rest]) if axis else step.zeros(0)
    if axis:
        picked = list(range(axis, axis + index_ndim))
        others = [k for k in range(ndim - 1 + index_ndim) if k not in picked]
        grad = step("permute_dims", grad, axes=[*picked, *others])
    places = step("expand_dims", _within(step, step.args[1], axis), axis=[index_ndim])
    made = step("scatter_nd", moved, places, grad, reduction="add")
    if axis:
        order = [axis, *rest]
        made = step("permute_dims", made, axes=[order.index(k) for k in range(ndim)])
    return made, None


def _gather_elements(step: Step) -> tuple[Cotangent, ...]:
    axis = int(step.attrs.axis)
    return (
        step("scatter_elements", step.zeros(0), step.args[1], step.grad, axis=axis, reduction="add"),
        None,
    )


def _gather_nd(step: Step) -> tuple[Cotangent, ...]:
    if int(step.attrs.batch_dims):
        step.refuse("with batch_dims")
    return step("scatter_nd", step.zeros(0), step.args[1], step.grad, reduction="add"), None


def _scatter(name: str, gather: str) -> Any:
    """What is added passes both ways; an update that is itself overwritten gets nothing."""

    def rule(step: Step) -> tuple[Cotangent, ...]:
        kind, places = str(step.attrs.reduction), step.args[1]
        attrs = {"axis": int(step.attrs.axis)} if "axis" in step.attrs else {}
        to_updates = step(gather, step.grad, places, **attrs)
        if kind == "add":
            return step.grad, None, to_updates
        if kind != "update":
            step.refuse(f"of the reduction {kind}")
        gone = step(name, step.grad, places, step.zeros(2), reduction="update", **attrs)
        ones = step("astype", step("ones_like", step.args[2]), dtype="int64")
        numbers = step.reshaped(step("cumsum", ones, axis=None, exclusive=False), 2)
        nothing = step("astype", step.zeros(0), dtype="int64")
        last = step(name, nothing, places, numbers, reduction="update", **attrs)
        is_last = step("equal", step(gather, last, places, **attrs), numbers)
        return gone, None, step("where", is_last, to_updates, step.number(0))

    return rule


def rules() -> dict[str, Any]:
    """The rules of this file by the names of records."""
    return {
        "take": _take,
        "gather_elements": _gather_elements,
        "gather_nd": _gather_nd,
        "scatter_elements": _scatter("scatter_elements", "gather_elements"),
        "scatter_nd": _scatter("scatter_nd", "gather_nd"),
        "scatter_rows": Without("no rule is written: scatter_elements has one"),
        "index_put": Without("no rule is written: scatter_nd has one"),
        "index_tensor": Without("no rule is written: gather_nd has one"),
        "multinomial_from_uniform": _RANDOM,
        "random.uniform": _RANDOM,
        "random.threefry": _RANDOM,
        "random.normal": _RANDOM,
        "nonzero": _DYNAMIC,
        "unique": _DYNAMIC,
        "quantize": _ROUNDED,
        "dequantize": _ROUNDED,
    }
