"""Products, convolutions, pooling, normalisation, recurrent layers, resizing."""

from __future__ import annotations

import numpy as np

from tests.fuzz.graphs.builder import Builder, Unfit
from tests.fuzz.graphs.recipes.registry import recipe
from tests.fuzz.graphs.values import FLOAT32, Value

INTEGERS = ("int32", "int64")
NORMALISATIONS = (
    "LayerNormalization",
    "BatchNormalization",
    "InstanceNormalization",
    "GroupNormalization",
    "RMSNormalization",
    "LRN",
)


@recipe(6)
def matmul(b: Builder) -> object:
    x = (
        b.floating((1, 2, 3, 4))
        if b.flag(0.9)
        else b.pick(lambda v: v.dtype.name in INTEGERS and v.rank in (1, 2, 3))
    )
    depth = x.shape[-1]
    if b.flag(0.4):
        y = b.pick(
            lambda v: v.dtype == x.dtype and v.rank in (1, 2) and v.shape[-2 if v.rank > 1 else 0] == depth
        )
    else:
        batch = [1 if b.flag(0.3) else size for size in x.shape[:-2]][b.integer(0, max(0, x.rank - 2)) :]
        y = b.fresh(x.dtype, [*batch, depth, b.size()], -1, 1)
    return b.node("MatMul", [x, y])


@recipe(2)
def gemm(b: Builder) -> object:
    x = b.floating(2, common=True)
    left, right = b.flag(0.3), b.flag(0.5)
    depth, rows = (x.shape[0], x.shape[1]) if left else (x.shape[1], x.shape[0])
    columns = b.size()
    y = b.fresh(x.dtype, [columns, depth] if right else [depth, columns], -1, 1)
    bias = (
        [b.fresh(x.dtype, b.rng.choice(([], [columns], [1, columns], [rows, columns], [rows, 1])))]
        if b.flag(0.7)
        else []
    )
    attrs = {"alpha": 0.5} if b.flag(0.3) else {}
    attrs |= {"beta": b.rng.choice((0.0, 2.0))} if b.flag(0.3) else {}
    return b.node("Gemm", [x, y, *bias], transA=int(left), transB=int(right), **attrs)


@recipe(1)
def einsum(b: Builder) -> object:
    x = b.floating((2, 3), common=True)
    if x.rank == 2:
        y = b.fresh(x.dtype, [x.shape[1], b.size()], -1, 1)
        return b.node(
            "Einsum", [x, y], equation=b.rng.choice(("ij,jk->ik", "ij,jk->ki", "ij,jk->i", "ij,jk"))
        )
    y = b.fresh(x.dtype, [x.shape[0], x.shape[2], b.size()], -1, 1)
    return b.node("Einsum", [x, y], equation=b.rng.choice(("bij,bjk->bik", "bij,bjk->kib", "bij,bjk->ik")))


def image(b: Builder) -> Value:
    """A value of four (or three) dimensions, made of another one where there is none."""
    if b.flag(0.75):
        found = b.pick(
            lambda v: v.rank in (3, 4) and v.dtype.name in ("float32", "float64") and v.has_elements
        )
        if len(set(found.shape[1])) == 1:
            return found
    rank = b.rng.choice((3, 4, 4, 4))
    space = [b.rng.choice((b.size(), 5, 7, 8, 14)) for _ in range(rank - 2)]
    made = b.fresh(FLOAT32, [b.rng.choice((1, 1, 2, b.size())), b.rng.choice((1, 2, 3, 4, 8)), *space])
    if not made.has_elements:
        raise Unfit("empty")
    return made


def window(b: Builder, x: Value, largest: int = 3) -> dict[str, object]:
    rank = x.rank - 2
    kernel = [b.integer(1, min(largest, *size)) for size in x.shape[2:]]
    attrs: dict[str, object] = {"kernel_shape": kernel}
    if b.flag(0.6):
        attrs["strides"] = [b.integer(1, 2) for _ in range(rank)]
    if b.flag(0.6):
        attrs["pads"] = [b.integer(0, size - 1) if size > 1 else 0 for size in (*kernel, *kernel)]
    elif b.flag(0.2):
        attrs["auto_pad"] = b.rng.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    return attrs


@recipe(5)
def conv(b: Builder) -> object:
    x = image(b)
    channels = x.shape[1][0]
    group = b.rng.choice([g for g in (1, 1, 1, 2, channels) if channels % g == 0])
    out = group * b.integer(1, 4)
    attrs = window(b, x)
    if b.flag(0.2) and "auto_pad" not in attrs:
        attrs["dilations"] = [2] * (x.rank - 2)
    weight = b.fresh(
        x.dtype, [out, channels // group, *attrs["kernel_shape"]], -1, 1, constant=b.flag(0.85) or False
    )  # type: ignore[misc]
    bias = [b.fresh(x.dtype, [out], constant=True)] if b.flag(0.6) else []
    made = b.node("Conv", [x, weight, *bias], group=group, **attrs)
    return b.node(b.rng.choice(("Relu", "Sigmoid", "Identity", "HardSwish")), [made]) if b.flag(0.4) else made


@recipe(1)
def conv_transpose(b: Builder) -> object:
    x = image(b)
    channels = x.shape[1][0]
    group = b.rng.choice([g for g in (1, 1, 2, channels) if channels % g == 0])
    kernel = [b.integer(1, 3) for _ in x.shape[2:]]
    weight = b.fresh(x.dtype, [channels, b.integer(1, 3), *kernel], -1, 1, constant=True)
    attrs: dict[str, object] = {"strides": [b.integer(1, 2) for _ in kernel]} if b.flag() else {}
    if b.flag(0.4):
        attrs["pads"] = [0 if size == 1 else b.integer(0, 1) for size in (*kernel, *kernel)]
    return b.node("ConvTranspose", [x, weight], kernel_shape=kernel, group=group, **attrs)


@recipe(3)
def pool(b: Builder) -> object:
    x = image(b)
    op = b.rng.choice(("MaxPool", "AveragePool", "AveragePool", "LpPool"))
    attrs = window(b, x)
    if b.flag(0.2) and "auto_pad" not in attrs and (op != "LpPool" or b.opset >= 18):
        attrs["ceil_mode"] = 1
    if op == "AveragePool" and b.flag(0.3):
        attrs["count_include_pad"] = 1
    return b.node(op, [x], **attrs)


@recipe(1.5)
def global_pool(b: Builder) -> object:
    return b.node(b.rng.choice(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")), [image(b)])


@recipe(3)
def normalise(b: Builder) -> object:
    op = b.rng.choice(NORMALISATIONS)
    epsilon = {"epsilon": b.rng.choice((1e-2, 1e-3))}
    if op in ("LayerNormalization", "RMSNormalization"):
        if b.opset < (17 if op[0] == "L" else 23):
            raise Unfit("too old")
        x = b.floating((1, 2, 3, 4), common=True)
        axis = b.integer(0, x.rank - 1)
        operands = [b.fresh(x.dtype, x.shape[axis:]) for _ in range(1 if op[0] == "R" else b.integer(1, 2))]
        return b.node(op, [x, *operands], axis=axis, **epsilon)
    x = image(b)
    channels = x.shape[1][0]
    if op == "LRN":
        return b.node(op, [x], size=b.rng.choice((1, 3, 5)), alpha=0.1)
    if op == "BatchNormalization":
        places = [b.fresh(x.dtype, [channels], 0.3, 1.5, constant=b.flag(0.8) or None) for _ in range(4)]
        return b.node(op, [x, *places], **epsilon)
    pair = [b.fresh(x.dtype, [channels]) for _ in range(2)]
    if op == "GroupNormalization":
        if b.opset < 21:
            raise Unfit("too old")
        epsilon["num_groups"] = b.rng.choice([g for g in (1, 2, channels) if channels % g == 0])
    return b.node(op, [x, *pair], **epsilon)


@recipe(1)
def recurrent(b: Builder) -> object:
    x = b.pick(lambda v: v.rank == 3 and v.dtype == FLOAT32 and v.has_elements and len(set(v.shape[2])) == 1)
    op, gates = b.rng.choice((("LSTM", 4), ("GRU", 3), ("RNN", 1)))
    hidden, depth = b.integer(1, 4), x.shape[2][0]
    direction = b.rng.choice(("forward", "reverse", "bidirectional"))
    ways = 2 if direction[0] == "b" else 1
    weight = b.fresh(FLOAT32, [ways, gates * hidden, depth], -1, 1, constant=True)
    state = b.fresh(FLOAT32, [ways, gates * hidden, hidden], -1, 1, constant=True)
    bias = [b.fresh(FLOAT32, [ways, 2 * gates * hidden], -1, 1, constant=True)] if b.flag() else []
    attrs = {"linear_before_reset": 1} if op == "GRU" and b.flag() else {}
    return b.nodes_of(
        op, [x, weight, state, *bias], b.integer(1, 2), hidden_size=hidden, direction=direction, **attrs
    )


@recipe(1.5)
def resize(b: Builder) -> object:
    x = b.pick(lambda v: v.rank == 4 and v.dtype == FLOAT32 and v.has_elements)
    mode = b.rng.choice(("nearest", "linear", "cubic"))
    place = b.rng.choice(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"))
    attrs: dict[str, object] = {"mode": mode, "coordinate_transformation_mode": place}
    if mode == "nearest":
        attrs["nearest_mode"] = b.rng.choice(("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))
    if b.flag():
        scales = b.given(
            [np.asarray([1, 1, *b.rng.choices((1.0, 2.0, 0.5, 3.0), k=2)], "float32")] * b.num_samples, True
        )
        return b.node("Resize", [x, None, scales], **attrs)
    space = b.rng.choices((1, 2, 3, 5, 8), k=2)
    sizes = [[*array.shape[:2], *space] for array in x.clean]
    return b.node("Resize", [x, None, None, b.ints(sizes)], **attrs)


@recipe(3)
def quantise(b: Builder) -> object:
    """There and back, with a scale for all or for each channel."""
    x = b.pick(lambda v: v.dtype == FLOAT32 and v.rank > 0)
    kinds = ["int8", "uint8"] + (["int16", "uint16"] if b.opset >= 21 else [])
    kind = b.rng.choice(kinds)
    axis = b.integer(0, x.rank - 1)
    per_axis = b.flag(0.3) and len(set(x.shape[axis])) == 1 and x.shape[axis][0] > 0
    shape = [x.shape[axis]] if per_axis else []
    scale = b.fresh(FLOAT32, shape, 0.011, 0.093, constant=True)
    zero = b.fresh(np.dtype(kind), shape, 0, 5, constant=True)
    attrs = {"axis": axis} if per_axis else {}
    made = b.node("QuantizeLinear", [x, scale, zero], **attrs)
    if b.flag(0.3):
        return made
    return b.node("DequantizeLinear", [made, scale, zero], **attrs)


@recipe(1.5)
def quantised_products(b: Builder) -> object:
    x = b.pick(lambda v: v.dtype.name in ("int8", "uint8") and v.rank >= 2)
    y = b.fresh(np.dtype(b.rng.choice(("int8", "uint8"))), [x.shape[-1], b.size()], 0, 9, constant=None)
    zeros = [b.given([np.asarray(b.integer(0, 3), v.dtype)] * b.num_samples, True) for v in (x, y)]
    if b.flag():
        return b.node("MatMulInteger", [x, y, *(zeros if b.flag() else [])])
    scales = [b.fresh(FLOAT32, [], 0.011, 0.093, constant=True) for _ in range(3)]
    last = b.given([np.asarray(b.integer(0, 3), x.dtype)] * b.num_samples, True)
    return b.node("QLinearMatMul", [x, scales[0], zeros[0], y, scales[1], zeros[1], scales[2], last])


@recipe(1.5)
def dequantised_products(b: Builder) -> object:
    """What exporters write between the quantisation of a tensor and of the result."""
    x = b.pick(lambda v: v.dtype.name in ("int8", "uint8") and v.rank >= 2)
    kind = np.dtype(b.rng.choice(("int8", "uint8")))
    w = b.fresh(kind, [x.shape[-1], b.rng.choice((8, 24, b.size()))], 0, 9, constant=True)
    factors, per_column = [], b.flag() and len(set(w.shape[1])) == 1 and w.shape[1][0] > 0
    for v, shape, axis in ((x, [], 0), (w, [w.shape[1]] if per_column else [], 1)):
        scale = b.fresh(FLOAT32, shape, 0.011, 0.093, constant=True)
        zero = b.fresh(v.dtype, shape, 0, 5, constant=True)
        attrs = {"axis": axis} if shape else {}
        factors.append(b.node("DequantizeLinear", [v, scale, zero], **attrs))
    return b.node("MatMul", factors)


@recipe(1)
def quantised_convolutions(b: Builder) -> object:
    channels = b.integer(1, 4)
    x = b.fresh(
        np.dtype(b.rng.choice(("uint8", "int8"))), [1, channels, b.rng.choice((5, 8, b.size())), 6], 0, 9
    )
    if not x.has_elements or min(x.shape[2]) < 3:
        raise Unfit("too small")
    weight = b.fresh(
        np.dtype("int8") if x.dtype.name == "int8" else x.dtype,
        [b.integer(1, 3), channels, 3, 3],
        0,
        5,
        constant=True,
    )
    zeros = [
        b.given([np.asarray(b.integer(0, 3) * (v is x), v.dtype)] * b.num_samples, True) for v in (x, weight)
    ]
    if b.flag() and x.dtype.name == "uint8":
        return b.node("ConvInteger", [x, weight, *(zeros if b.flag() else [])])
    scales = [b.fresh(FLOAT32, [], 0.011, 0.093, constant=True) for _ in range(3)]
    last = b.given([np.asarray(b.integer(0, 3), x.dtype)] * b.num_samples, True)
    return b.node("QLinearConv", [x, scales[0], zeros[0], weight, scales[1], zeros[1], scales[2], last])
