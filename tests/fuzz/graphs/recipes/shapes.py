"""Operators on shapes: they move elements, or compute sizes."""

from __future__ import annotations

import math

import numpy as np
from onnx import numpy_helper

from tests.fuzz.graphs.builder import Builder, Unfit
from tests.fuzz.graphs.recipes.registry import recipe
from tests.fuzz.graphs.values import NUMBERS, ONNX_TYPES, Value

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


def axes_operand(b: Builder, op: str, axes: list[int], since: int) -> tuple[list[str], dict[str, list[int]]]:
    """Axes as an input or as an attribute, as the operator set has it."""
    if b.opset < since:
        return [], {"axes": axes}
    return [b.ints([axes] * b.num_samples, may_compute=False)], {}


def signed(b: Builder, axis: int, rank: int) -> int:
    return axis - rank if b.flag(0.4) else axis


@recipe(3, special=True)
def transpose(b: Builder) -> object:
    x = b.pick(lambda v: v.rank > 1)
    order = list(range(x.rank))
    b.rng.shuffle(order)
    return b.node("Transpose", [x], **({"perm": order} if b.flag(0.8) else {}))


@recipe(4, special=True)
def reshape(b: Builder) -> object:
    """Neighbouring dimensions are joined, or one is split; the target is constant, given or computed."""
    x = b.pick(lambda v: v.rank > 0)
    shapes = [list(array.shape) for array in x.clean]
    at = b.integer(0, x.rank - 1)
    if at + 1 < x.rank and b.flag(0.6):
        made = [[*s[:at], s[at] * s[at + 1], *s[at + 2 :]] for s in shapes]
    else:
        factor = b.rng.choice((1, 2, 3, 4))
        if any(s[at] % factor for s in shapes):
            factor = 1
        made = [[*s[:at], factor, s[at] // factor, *s[at + 1 :]] for s in shapes]
    if len(made[0]) > 5:
        raise Unfit("too many dimensions")
    if b.flag(0.7):
        free = b.integer(0, len(made[0]) - 1)
        others = [math.prod(s[:free] + s[free + 1 :]) for s in made]
        if all(others):
            made = [[*s[:free], -1, *s[free + 1 :]] for s in made]
    kept = [
        all(i < len(s) and m[i] == s[i] and s[i] for m, s in zip(made, shapes, strict=True))
        for i in range(len(made[0]))
    ]
    if b.flag():
        made = [
            [0 if keep and b_zero else size for size, keep in zip(m, kept, strict=True)]
            for m in made
            for b_zero in [True]
        ]
    return b.node("Reshape", [x, b.ints(made)])


@recipe(2, special=True)
def reshape_by_shape(b: Builder) -> object:
    """The target is put together from the sizes of values, as exporters write it."""
    x = b.pick(lambda v: v.rank > 1)
    shape = b.node("Shape", [x])
    keep = b.integer(0, x.rank - 1)
    first = b.node("Gather", [shape, b.given([np.asarray([keep], "int64")] * b.num_samples, True)])
    rest = b.given([np.asarray([-1], "int64")] * b.num_samples, True)
    if any(not size for size in x.shape[keep]):
        raise Unfit("empty")
    return b.node("Reshape", [x, b.node("Concat", [first, rest] if b.flag() else [rest, first], axis=0)])


@recipe(3, special=True)
def unsqueeze(b: Builder) -> object:
    x = b.pick(lambda v: v.rank < 4)
    count = b.integer(1, 2)
    axes = [signed(b, axis, x.rank + count) for axis in b.rng.sample(range(x.rank + count), count)]
    names, attrs = axes_operand(b, "Unsqueeze", axes, 13)
    return b.node("Unsqueeze", [x, *names], **attrs)


@recipe(2, special=True)
def squeeze(b: Builder) -> object:
    x = b.pick(lambda v: any(set(size) == {1} for size in v.shape))
    ones = [axis for axis, size in enumerate(x.shape) if set(size) == {1}]
    axes = [signed(b, axis, x.rank) for axis in b.rng.sample(ones, b.integer(1, len(ones)))]
    names, attrs = axes_operand(b, "Squeeze", axes, 13)
    return b.node("Squeeze", [x, *names], **attrs)


@recipe(1, special=True)
def flatten(b: Builder) -> object:
    x = b.pick()
    return b.node("Flatten", [x], axis=signed(b, b.integer(0, x.rank), x.rank) if x.rank else 0)


@recipe(4, special=True)
def slice_(b: Builder) -> object:
    """Forwards and backwards, with bounds inside, outside and far outside."""
    x = b.pick(lambda v: v.rank > 0)
    axes = b.rng.sample(range(x.rank), b.integer(1, min(2, x.rank)))
    starts, ends, steps = [], [], []
    for axis in axes:
        step = b.rng.choice((1, 1, 2, 3, -1, -1, -2))
        largest = max(x.shape[axis])
        near = (0, 1, -1, largest // 2, -largest, largest, largest + 3, -largest - 2)
        far = (INT64_MIN, INT64_MAX, -(1 << 31), (1 << 31) - 1)
        steps.append(step)
        starts.append(b.rng.choice(near if b.flag(0.8) else far))
        ends.append(b.rng.choice(near if b.flag(0.6) else far))
    signs = [signed(b, axis, x.rank) for axis in axes]
    dtype = "int64"
    operands = [b.ints([item] * b.num_samples, dtype, False) for item in (starts, ends, signs, steps)]
    made = b.node("Slice", [x, *operands])
    if not made.has_elements and b.flag(0.9):
        b.nodes.pop()
        b.values.remove(made)
        raise Unfit("empty")
    return made


@recipe(1, special=True)
def slice_by_size(b: Builder) -> object:
    """x[: n // 2] or x[k :], where the bound is computed from the size when the model runs."""
    x = b.pick(lambda v: v.rank > 0)
    axis = b.integer(0, x.rank - 1)
    size = b.node(
        "Gather", [b.node("Shape", [x]), b.given([np.asarray([axis], "int64")] * b.num_samples, True)]
    )
    two = b.given([np.asarray([2], "int64")] * b.num_samples, True)
    half = b.node(b.rng.choice(("Div", "Sub")), [size, two])
    zero = b.given([np.asarray([0], "int64")] * b.num_samples, True)
    bounds = [zero, half] if b.flag() else [half, size]
    return b.node("Slice", [x, *bounds, b.ints([[axis]] * b.num_samples, may_compute=False)])


@recipe(3, special=True)
def concat(b: Builder) -> object:
    x = b.pick(lambda v: v.rank > 0)
    axis = b.integer(0, x.rank - 1)

    def fits(v: Value) -> bool:
        return (
            v.dtype == x.dtype
            and v.rank == x.rank
            and all(
                i == axis or mine == other
                for i, (mine, other) in enumerate(zip(v.shape, x.shape, strict=True))
            )
        )

    parts = [x, *(b.pick(fits) for _ in range(b.integer(0, 2)))]
    if b.flag(0.3):
        parts.append(b.fresh(x.dtype, [b.size() if i == axis else size for i, size in enumerate(x.shape)]))
    return b.node("Concat", parts, axis=signed(b, axis, x.rank))


@recipe(2, special=True)
def split(b: Builder) -> object:
    x = b.pick(lambda v: v.rank > 0)
    axis = b.integer(0, x.rank - 1)
    sizes = x.shape[axis]
    if len(set(sizes)) == 1 and sizes[0] > 1 and b.flag(0.6):
        first = b.integer(0, sizes[0])
        parts = [[first, sizes[0] - first]] * b.num_samples
        return b.nodes_of("Split", [x, b.ints(parts, may_compute=False)], 2, axis=signed(b, axis, x.rank))
    count = b.integer(2, 3)
    attrs = {"num_outputs": count} if b.opset >= 18 else {}
    if any(size % count for size in sizes) and (b.opset < 18 or min(sizes) < count):
        raise Unfit("not whole")
    return b.nodes_of("Split", [x], count, axis=axis, **attrs)


@recipe(1, special=True)
def tile(b: Builder) -> object:
    x = b.pick()
    return b.node(
        "Tile",
        [
            x,
            b.ints(
                [[b.rng.choice((1, 1, 2, 3, 0 if b.flag(0.1) else 1)) for _ in range(x.rank)]] * b.num_samples
            ),
        ],
    )


@recipe(2, special=True)
def expand(b: Builder) -> object:
    """To a shape that is given, or to that of another value."""
    x = b.pick(lambda v: any(1 in size for size in v.shape) or v.rank < 3)
    if b.flag():
        other = b.pick(lambda v: v.rank <= 4)
        return b.node("Expand", [x, b.node("Shape", [other])])
    target = [
        [b.plan.sizes[0][s] if set(size) == {1} else 1 for size in x.shape] for s in range(b.num_samples)
    ]
    if b.flag(0.3):
        target = [[2, *item] for item in target]
    return b.node("Expand", [x, b.ints(target)])


@recipe(2, special=True)
def pad(b: Builder) -> object:
    x = b.pick(lambda v: v.rank > 0 and v.dtype in NUMBERS)
    modes = ["constant", "edge", "reflect"] + (["wrap"] if b.opset >= 19 else [])
    mode = b.rng.choice(modes)
    low = -1 if mode == "constant" else 0
    amounts = [b.rng.choice((0, 0, 1, 2, low)) for _ in range(2 * x.rank)]
    if mode == "reflect" and min(min(size) for size in x.shape) < 3:
        raise Unfit("too short")
    value = (
        [b.given([np.asarray(1).astype(x.dtype)] * b.num_samples, True)]
        if mode == "constant" and b.flag()
        else []
    )
    return b.node("Pad", [x, b.ints([amounts] * b.num_samples, may_compute=False), *value], mode=mode)


@recipe(2, special=True)
def shape_arithmetic(b: Builder) -> object:
    """Sizes, and numbers computed from them; they become shapes, or outputs."""
    x = b.pick(lambda v: v.rank > 0)
    attrs = {"start": b.integer(-x.rank, x.rank - 1)} if b.opset >= 15 and b.flag(0.3) else {}
    made = b.node("Shape", [x], **attrs)
    if b.flag(0.3):
        made = b.node("Size", [x])
    for _ in range(b.integer(0, 2)):
        other = b.given([np.asarray(b.integer(1, 3), "int64")] * b.num_samples, True)
        made = b.node(b.rng.choice(("Add", "Mul", "Sub", "Div", "Mod", "Max", "Min")), [made, other])
    return made


@recipe(1)
def create(b: Builder) -> object:
    kind = b.rng.choice(("full", "range", "eye", "float range"))
    if kind == "full":
        source = b.pick(lambda v: 0 < v.rank < 4)
        dtype = b.rng.choice(("float32", "int64", "int32", "bool", "float16", "float64", "uint8"))
        fill = numpy_helper.from_array(np.asarray([1]).astype(dtype))
        return b.node(
            "ConstantOfShape", [b.node("Shape", [source])], **({"value": fill} if b.flag(0.8) else {})
        )
    if kind == "eye":
        x = b.pick(lambda v: v.rank == 2 and v.dtype in NUMBERS)
        attrs = {"dtype": ONNX_TYPES[b.rng.choice(NUMBERS)]} if b.flag() else {}
        return b.node("EyeLike", [x], k=b.integer(-1, 1), **attrs)
    if kind == "float range":
        ends = [np.asarray(item, "float32") for item in (0.25, 3.1, 0.5)]
        return b.node("Range", [b.given([item] * b.num_samples, True) for item in ends])
    step = b.rng.choice((1, 2, -1, -3))
    starts = [b.integer(-3, 3)] * b.num_samples
    ends_of = [
        start + step * size + (1 if step > 1 else 0)
        for start, size in zip(starts, b.plan.sizes[0], strict=True)
    ]
    operands = [b.ints(starts), b.ints(ends_of), b.ints([step] * b.num_samples, may_compute=False)]
    return b.node("Range", operands)


@recipe(1, special=True)
def triangle(b: Builder) -> object:
    if b.opset < 14:
        raise Unfit("too old")
    x = b.pick(lambda v: v.rank >= 2)
    offset = [b.ints([b.integer(-2, 2)] * b.num_samples, may_compute=False)] if b.flag() else []
    return b.node("Trilu", [x, *offset], upper=int(b.flag()))


@recipe(1, special=True)
def blocks(b: Builder) -> object:
    x = b.floating(4)
    if b.flag():
        if any(size % 4 for size in x.shape[1]):
            raise Unfit("channels")
        return b.node("DepthToSpace", [x], blocksize=2, mode=b.rng.choice(("DCR", "CRD")))
    if any(size % 2 for axis in (2, 3) for size in x.shape[axis]):
        raise Unfit("odd")
    return b.node("SpaceToDepth", [x], blocksize=2)


@recipe(1, special=True)
def reverse_sequence(b: Builder) -> object:
    x = b.pick(lambda v: v.rank >= 2 and v.has_elements)
    time_axis = b.integer(0, 1)
    lengths = [
        [b.integer(1, array.shape[time_axis]) for _ in range(array.shape[1 - time_axis])] for array in x.clean
    ]
    arrays = [np.asarray(item, "int64") for item in lengths]
    operand = b.given(arrays, False)
    return b.node("ReverseSequence", [x, operand], time_axis=time_axis, batch_axis=1 - time_axis)


@recipe(1.5, special=True)
def sequences(b: Builder) -> object:
    """Sequences that are made and used up."""
    x = b.pick(lambda v: v.rank > 0)
    parts = [
        x,
        *(b.pick(lambda v: v.dtype == x.dtype and v.shape == x.shape) for _ in range(b.integer(1, 2))),
    ]
    made = b.node("SequenceConstruct", parts)
    position = b.given([np.asarray(b.integer(-1, 1), "int64")] * b.num_samples, True)
    if b.flag(0.4):
        made = b.node("SequenceInsert", [made, x, *([position] if b.flag() else [])])
    if b.flag(0.3) and len(made.clean[0]) > 1:
        made = b.node("SequenceErase", [made, *([position] if b.flag() else [])])
    use = b.rng.choice(("SequenceAt", "ConcatFromSequence", "SequenceLength"))
    if use == "SequenceAt":
        return b.node(use, [made, b.given([np.asarray(0, "int64")] * b.num_samples, True)])
    return b.node(
        use, [made], **({"axis": b.integer(-1, 0), "new_axis": int(b.flag())} if use[0] == "C" else {})
    )


@recipe(1, special=True)
def split_to_sequence(b: Builder) -> object:
    x = b.pick(lambda v: v.rank > 0 and len(set(v.shape[0])) == 1 and v.shape[0][0] > 0)
    made = b.node("SplitToSequence", [x], axis=0, keepdims=int(b.flag()))
    at = b.given([np.asarray(b.rng.choice((0, -1)), "int64")] * b.num_samples, True)
    return b.node("SequenceAt", [made, at])


@recipe(0.5, special=True)
def optional(b: Builder) -> object:
    if b.opset < 15:
        raise Unfit("too old")
    made = b.node("Optional", [b.pick()])
    return b.node(b.rng.choice(("OptionalGetElement", "OptionalHasElement")), [made])
