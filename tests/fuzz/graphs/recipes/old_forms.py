"""Operators as older operator sets have them: attributes that became inputs, names that went."""

from __future__ import annotations

import numpy as np

from tests.fuzz.graphs.builder import Builder, Unfit
from tests.fuzz.graphs.recipes.contraction import image
from tests.fuzz.graphs.recipes.indexing import indices
from tests.fuzz.graphs.recipes.registry import recipe
from tests.fuzz.graphs.values import FLOAT32


def _until(b: Builder, last: int, first: int = 1) -> None:
    if not first <= b.opset <= last:
        raise Unfit("another operator set")


@recipe(3, special=True)
def slice_by_attributes(b: Builder) -> object:
    _until(b, 9)
    x = b.floating()
    if not x.rank:
        raise Unfit("scalar")
    axes = b.rng.sample(range(x.rank), b.integer(1, min(2, x.rank)))
    starts = [b.rng.choice((0, 1, -1, -3, 100)) for _ in axes]
    ends = [b.rng.choice((1, 2, -1, 100, (1 << 63) - 1)) for _ in axes]
    attrs = {"axes": axes} if axes != list(range(len(axes))) or b.flag() else {}
    made = b.node("Slice", [x], starts=starts, ends=ends, **attrs)
    if not made.has_elements and b.flag(0.9):
        b.nodes.pop()
        b.values.remove(made)
        raise Unfit("empty")
    return made


@recipe(2, special=True)
def pad_by_attributes(b: Builder) -> object:
    _until(b, 10)
    x = b.floating((1, 2, 3, 4), common=True)
    mode = b.rng.choice(("constant", "edge", "reflect"))
    if mode == "reflect" and min(min(size) for size in x.shape) < 3:
        raise Unfit("too short")
    low = -1 if mode == "constant" else 0
    amounts = [b.rng.choice((0, 0, 1, 2, low)) for _ in range(2 * x.rank)]
    return b.node("Pad", [x], pads=amounts, mode=mode, **({"value": 0.5} if b.flag() else {}))


@recipe(2)
def clip_by_attributes(b: Builder) -> object:
    _until(b, 10)
    bounds = {name: value for name, value in (("min", -0.5), ("max", 0.75)) if b.flag(0.7)}
    return b.node("Clip", [b.floating(common=True)], **bounds)


@recipe(2, special=True)
def split_by_attribute(b: Builder) -> object:
    _until(b, 12)
    x = b.floating((1, 2, 3, 4))
    axis = b.integer(0, x.rank - 1)
    sizes = x.shape[axis]
    if len(set(sizes)) != 1 or sizes[0] < 2:
        raise Unfit("another size in each sample")
    first = b.integer(1, sizes[0] - 1)
    return b.nodes_of("Split", [x], 2, axis=axis, split=[first, sizes[0] - first])


@recipe(1)
def top_k_by_attribute(b: Builder) -> object:
    _until(b, 9)
    x = b.floating((1, 2, 3), common=True)
    axis = b.integer(0, x.rank - 1)
    if not min(x.shape[axis]):
        raise Unfit("empty")
    return b.nodes_of("TopK", [x], 2, axis=axis, k=b.integer(1, min(x.shape[axis])))[0]


@recipe(2)
def upsample(b: Builder) -> object:
    """With scales as an attribute, and as an input; and the first Resize, which was the same."""
    _until(b, 10, 7)
    x = image(b)
    if x.dtype != FLOAT32 or x.rank != 4:
        raise Unfit("no image")
    scales = [1.0, 1.0, b.rng.choice((1.0, 2.0, 3.0)), b.rng.choice((1.0, 2.0))]
    mode = b.rng.choice(("nearest", "linear"))
    if b.opset < 9:
        return b.node("Upsample", [x], mode=mode, scales=scales)
    given = b.given([np.asarray(scales, "float32")] * b.num_samples, True)
    return b.node("Upsample" if b.opset == 9 else "Resize", [x, given], mode=mode)


@recipe(2)
def scatter(b: Builder) -> object:
    """ScatterElements under its first name."""
    _until(b, 10, 9)
    x = b.pick(lambda v: v.rank > 0 and v.has_elements and v.dtype.name in ("float32", "int64", "float64"))
    axis = b.integer(0, x.rank - 1)
    counts = [1 if i == axis else size for i, size in enumerate(x.shape)]
    at = indices(b, counts, x.shape[axis])
    return b.node("Scatter", [x, at, b.fresh(x.dtype, counts)], axis=axis)


@recipe(1)
def softmax_of_the_rest(b: Builder) -> object:
    """Over all dimensions from the axis on, as before operator set 13."""
    _until(b, 12)
    x = b.floating((1, 2, 3, 4), common=True)
    return b.node(b.rng.choice(("Softmax", "LogSoftmax", "Hardmax")), [x], axis=b.integer(0, x.rank - 1))
