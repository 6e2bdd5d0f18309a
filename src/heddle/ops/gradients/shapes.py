"""Gradients of operators that move, repeat, join and cut elements."""

from __future__ import annotations

from typing import Any

from heddle.arith.sizes import as_dim
from heddle.graph.gradient import Cotangent, Step
from heddle.ir.expr import Tuple, TupleGetItem
from heddle.ir.op_def import Without
from heddle.ir.types import TupleType
from heddle.prim.nodes import IntImm

CREATED = (
    "zeros",
    "zeros_like",
    "ones",
    "ones_like",
    "arange",
    "eye",
    "eye_like",
    "one_hot",
    "row_numbers",
)
"""Operators whose values do not follow elements of floats: nothing flows back."""


def _nothing(step: Step) -> tuple[Cotangent, ...]:
    return tuple(None for _ in step.args)


def _as_before(step: Step) -> tuple[Cotangent, ...]:
    return (step.reshaped(step.grad, 0), *(None for _ in step.args[1:]))


def _summed(step: Step) -> tuple[Cotangent, ...]:
    grad = step.words.shaped("sum", step.grad, step.args[0], step.types[0])
    return (grad, *(None for _ in step.args[1:]))


def _broadcast_back(step: Step) -> tuple[Cotangent, ...]:
    return step.spread(step.grad, 0), None


def _permuted(step: Step) -> tuple[Cotangent, ...]:
    ndim = step.ndim(0)
    axes = step.attrs.axes
    order = list(reversed(range(ndim))) if axes is None else [int(axis) % ndim for axis in axes]
    return (step("permute_dims", step.grad, axes=[order.index(k) for k in range(ndim)]),)


def _fields(step: Step) -> list[Any]:
    """The tensors of the first argument, which is a tuple."""
    ty, given = step.types[0], step.args[0]
    assert isinstance(ty, TupleType)
    if isinstance(given, Tuple):
        return list(given.fields)
    return [TupleGetItem(given, place) for place in range(len(ty.fields))]


def _concat(step: Step) -> tuple[Cotangent, ...]:
    types = step.types[0].fields  # type: ignore[attr-defined]
    axis = int(step.attrs.axis) % max(types[0].ndim, 1)
    sizes: list[Any] = [ty.dims[axis] if ty.dims is not None else None for ty in types]
    if len(types) == 1:
        return ((step.grad,),)
    if not all(isinstance(size, IntImm) for size in sizes[:-1]):
        step.refuse(f"the sizes of the parts along axis {axis} must be known")
    places = [sum(int(size.value) for size in sizes[: k + 1]) for k in range(len(sizes) - 1)]
    parts = step("split", step.grad, indices_or_sections=places, axis=axis)
    return (tuple(TupleGetItem(parts, place) for place in range(len(types))),)


def _stack(step: Step) -> tuple[Cotangent, ...]:
    count = len(step.types[0].fields)  # type: ignore[attr-defined]
    axis = int(step.attrs.axis) % (step.types[0].fields[0].ndim + 1)  # type: ignore[attr-defined]
    if count == 1:
        return ((step("squeeze", step.grad, axis=[axis]),),)
    parts = step("split", step.grad, indices_or_sections=count, axis=axis)
    return (tuple(step("squeeze", TupleGetItem(parts, place), axis=[axis]) for place in range(count)),)


def _split(step: Step) -> tuple[Cotangent, ...]:
    parts = [
        step("zeros_like", TupleGetItem(step.result, place)) if part is None else part
        for place, part in enumerate(step.grad)
    ]
    return (step("concat", Tuple(tuple(parts)), axis=int(step.attrs.axis)),)


def _tile(step: Step) -> tuple[Cotangent, ...]:
    given = step.attrs.repeats
    repeats = [int(n) for n in (given if isinstance(given, (tuple, list)) else (given,))]
    ndim = step.ndim(0)
    repeats = [1] * (ndim - len(repeats)) + repeats
    grad, dims = step.grad, list(step.result_type.dims)  # type: ignore[attr-defined]
    lead = len(repeats) - ndim
    if 0 in repeats:
        return (step.zeros(0),)
    for axis in reversed(range(len(repeats))):
        if axis < lead:
            grad = step("sum", grad, axis=[axis])
        elif repeats[axis] > 1:
            grad = step.words.split_axis(grad, dims, axis, repeats[axis], -1)
            grad = step("sum", grad, axis=[axis])
        dims[axis : axis + 1] = [] if axis < lead else [step.dims(0)[axis - lead]]
    return (grad,)


def _repeat(step: Step) -> tuple[Cotangent, ...]:
    times = int(step.attrs.repeats)
    if times == 0:
        return (step.zeros(0),)
    dims = list(step.result_type.dims)  # type: ignore[attr-defined]
    axis = 0 if step.attrs.axis is None else step.axis(step.attrs.axis)
    grad = step.words.split_axis(step.grad, dims, axis, -1, times)
    grad = step("sum", grad, axis=[axis + 1])
    return (step.reshaped(grad, 0) if step.attrs.axis is None else grad,)


def _flip(step: Step) -> tuple[Cotangent, ...]:
    return (step("flip", step.grad, axis=step.attrs.axis),)


def _numbers(step: Step, arg: Any) -> list[int]:
    """The integers of an argument that lists them. Raises: IRTypeError R0210 for others."""
    items: Any = arg.fields if isinstance(arg, Tuple) else getattr(arg, "values", None)
    if items is None or not all(isinstance(item, IntImm) for item in items):
        step.refuse("its bounds must be known")
    return [int(item.value) for item in items]


def _strided_slice(step: Step) -> tuple[Cotangent, ...]:
    """What was taken goes back to its places, between zeros."""
    lists = [_numbers(step, arg) for arg in step.args[1:]]
    axes, begins = lists[0], lists[1]
    steps = lists[3] if len(lists) > 3 else [1] * len(axes)
    grad = step.grad
    dims = list(step.result_type.dims)  # type: ignore[attr-defined]
    for axis, begin, stride in zip(axes, begins, steps, strict=True):
        at = step.axis(axis)
        size = step.size(0, at)
        count = dims[at]
        if not isinstance(count, IntImm):
            step.refuse("its sizes must be known")
        grad = _put(step, grad, at, _start(begin, stride, size), stride, int(count.value), size, dims)
        dims[at] = as_dim(size)
    return (grad, *(None for _ in step.args[1:]))


def _start(begin: int, stride: int, size: int) -> int:
    """The place of the first element that a slice takes, as Python has it."""
    low, high = (0, size) if stride > 0 else (-1, size - 1)
    return min(max(begin + size if begin < 0 else begin, low), high)


def _put(
    step: Step, grad: Any, axis: int, begin: int, stride: int, count: int, size: int, dims: list[Any]
) -> Any:
    """`count` elements along an axis to the places begin, begin + stride, ... of `size`."""
    if count == 0:
        pads = [0] * (2 * len(dims))
        pads[2 * axis] = size
        return step("nn.pad", grad, pad_width=pads)
    if stride < 0:
        grad = step("flip", grad, axis=[axis])
        begin, stride = begin + (count - 1) * stride, -stride
    if stride > 1:  # zeros behind each element
        grad = step("expand_dims", grad, axis=[axis + 1])
        wide = [0] * (2 * (len(dims) + 1))
        wide[2 * axis + 3] = stride - 1
        grad = step("nn.pad", grad, pad_width=wide)
        more = [*dims[: axis + 1], as_dim(stride), *dims[axis + 1 :]]
        grad = step.words.join_axes(grad, more, axis)
        last = (count - 1) * stride + 1
        grad = step("strided_slice", grad, [axis], [0], [last], [1])
    extent = (count - 1) * stride + 1
    pads = [0] * (2 * len(dims))
    pads[2 * axis], pads[2 * axis + 1] = begin, size - begin - extent
    return step("nn.pad", grad, pad_width=pads) if any(pads) else grad


def _pad(step: Step) -> tuple[Cotangent, ...]:
    if step.attrs.pad_mode != "constant":
        step.refuse(f"of mode {step.attrs.pad_mode}")
    return (_inside(step, [int(n) for n in step.attrs.pad_width]),)


def _inside(step: Step, widths: list[int]) -> Any:
    ndim = step.ndim(0)
    if any(width < 0 for width in widths):  # what was cropped gets zeros
        return step("nn.pad", step.grad, pad_width=[-width for width in widths])
    if not any(widths):
        return step.grad
    if not any(widths[::2]):
        return step.words.cut(step.grad, step.args[0], step.types[0])
    axes = list(range(ndim))
    rest = step("strided_slice", step.grad, axes, widths[::2], [2**31 - 1] * ndim, [1] * ndim)
    return step.words.cut(rest, step.args[0], step.types[0]) if any(widths[1::2]) else rest


def _dynamic_pad(step: Step) -> tuple[Cotangent, ...]:
    if step.attrs.pad_mode != "constant":
        step.refuse(f"of mode {step.attrs.pad_mode}")
    inside = _inside(step, _numbers(step, step.args[2]))
    outside = step("subtract", step("sum", step.grad, axis=None), step("sum", inside, axis=None))
    return inside, step.reshaped(outside, 1), None


def _triangle(name: str) -> Any:
    return lambda step: (step(name, step.grad, *step.args[1:]), *(None for _ in step.args[1:]))


def _meshgrid(step: Step) -> tuple[Cotangent, ...]:
    parts = []
    for place, (field, grad) in enumerate(zip(_fields(step), step.grad, strict=True)):
        axis = place
        if step.attrs.indexing == "xy" and place < 2:
            axis = 1 - place
        others = [k for k in range(len(step.grad)) if k != axis]
        part = None if grad is None else step("sum", grad, axis=others) if others else grad
        ty = step.types[0].fields[place]  # type: ignore[attr-defined]
        parts.append(None if part is None else step.words.shaped("reshape", part, field, ty))
    return (tuple(parts),)


def rules() -> dict[str, Any]:
    """The rules of this file by the names of records."""
    blocks = Without("no rule is written: reshape and permute_dims have theirs")
    return {
        **dict.fromkeys(
            ("reshape", "flatten", "nn.batch_flatten", "expand_dims", "squeeze", "ensure_shape"), _as_before
        ),
        **dict.fromkeys(CREATED, _nothing),
        "full": lambda step: (None, step.reshaped(step("sum", step.grad, axis=None), 1)),
        "full_like": lambda step: (None, step.reshaped(step("sum", step.grad, axis=None), 1)),
        "permute_dims": _permuted,
        "broadcast_to": _summed,
        "collapse_sum_to": _broadcast_back,
        "collapse_sum_like": _broadcast_back,
        "concat": _concat,
        "stack": _stack,
        "split": _split,
        "tile": _tile,
        "repeat": _repeat,
        "flip": _flip,
        "strided_slice": _strided_slice,
        "nn.pad": _pad,
        "dynamic_pad": _dynamic_pad,
        "tril": _triangle("tril"),
        "triu": _triangle("triu"),
        "meshgrid": _meshgrid,
        "slice_scatter": blocks,
        "dynamic_strided_slice": Without("bounds are known only when the program runs"),
        "reverse_sequence": lambda step: (
            step("reverse_sequence", step.grad, step.args[1], **dict(step.attrs.items())),
            None,
        ),
        "nn.pixel_shuffle": lambda step: (_shuffled(step, "nn.pixel_unshuffle"),),
        "nn.pixel_unshuffle": lambda step: (_shuffled(step, "nn.pixel_shuffle"),),
    }


def _shuffled(step: Step, name: str) -> Any:
    attrs = step.attrs
    factor = attrs.upscale_factor if "upscale_factor" in attrs else attrs.downscale_factor
    key = "downscale_factor" if name.endswith("unshuffle") else "upscale_factor"
    return step(name, step.grad, **{key: factor, "blocks_first": bool(attrs.blocks_first)})
