"""Gathers, scatters, reductions, sorting, scans."""

from __future__ import annotations

import numpy as np

from tests.fuzz.graphs.builder import Builder, Unfit
from tests.fuzz.graphs.recipes.registry import recipe
from tests.fuzz.graphs.recipes.shapes import axes_operand, signed
from tests.fuzz.graphs.values import BOOL, INTS, Size, Value

# fmt: off
REDUCTIONS = (
    "ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL1",
    "ReduceL2", "ReduceLogSum", "ReduceLogSumExp",
)
# fmt: on


@recipe(6)
def reduce(b: Builder) -> object:
    op = b.rng.choice(REDUCTIONS)
    whole = ("int32", "int64", "int8", "uint8") if op in ("ReduceMax", "ReduceMin") else ("int32", "int64")
    x = b.floating(common=b.flag(0.7)) if b.flag(0.8) else b.pick(lambda v: v.dtype.name in whole)
    if op in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp") and not x.is_float:
        raise Unfit("integers")
    if op == "ReduceLogSum":
        x = b.node("Sigmoid", [x])
    axes = [signed(b, axis, x.rank) for axis in b.rng.sample(range(x.rank), b.integer(0, x.rank))]
    attrs: dict[str, object] = {"keepdims": int(b.flag())} if b.flag(0.8) else {}
    names: list[str] = []
    if axes:
        names, more = axes_operand(b, op, axes, 13 if op == "ReduceSum" else 18)
        attrs |= more
    elif b.opset >= (13 if op == "ReduceSum" else 18) and b.flag(0.2):
        attrs["noop_with_empty_axes"] = 1
    return b.node(op, [x, *names], **attrs)


@recipe(1)
def arg_extreme(b: Builder) -> object:
    x = b.pick(
        lambda v: v.rank > 0 and v.dtype.name in ("float32", "float64", "int32", "int8", "uint8", "int64")
    )
    axis = b.integer(0, x.rank - 1)
    attrs = {"keepdims": int(b.flag()), "axis": signed(b, axis, x.rank)}
    if b.flag(0.3):
        attrs["select_last_index"] = 1
    return b.node(b.rng.choice(("ArgMax", "ArgMin")), [x], **attrs)


@recipe(1)
def top_k(b: Builder) -> object:
    x = b.pick(lambda v: v.rank > 0 and v.dtype.name in ("float32", "float64", "int32", "int64", "float16"))
    axis = b.integer(0, x.rank - 1)
    count = b.ints([[b.integer(0 if b.flag(0.1) else 1, max(1, min(x.shape[axis])))]] * b.num_samples)
    return b.nodes_of("TopK", [x, count], 2, axis=signed(b, axis, x.rank), largest=int(b.flag()))[0]


@recipe(1.5)
def scan_sum(b: Builder) -> object:
    x = b.pick(lambda v: v.rank > 0 and v.dtype.name in ("float32", "float64", "int32", "int64"))
    axis = b.given([np.asarray(signed(b, b.integer(0, x.rank - 1), x.rank), "int64")] * b.num_samples, True)
    op = "CumProd" if b.opset >= 26 and b.flag() else "CumSum"
    return b.node(op, [x, axis], exclusive=int(b.flag(0.3)), reverse=int(b.flag(0.3)))


def indices(b: Builder, shape: list[Size | int], bounds: Size, dtype: str = "int64") -> Value:
    """Indices within the bounds, negative ones among them."""
    if not min(bounds):
        raise Unfit("empty")
    sizes = [size if isinstance(size, tuple) else (size,) * b.num_samples for size in shape]
    low = 0 if b.flag(0.6) else -1
    arrays = [
        b.root.noise.integers(low * bounds[s], bounds[s], tuple(size[s] for size in sizes)).astype(dtype)
        for s in range(b.num_samples)
    ]
    fixed = all(len(set(size)) == 1 for size in sizes) and b.flag()
    if fixed and min(bounds) == bounds[0]:
        return b.given([arrays[0]] * b.num_samples, True)
    return b.given(arrays, False)


@recipe(4, special=True)
def gather(b: Builder) -> object:
    x = b.pick(lambda v: v.rank > 0)
    axis = b.integer(0, x.rank - 1)
    kinds: tuple[list[Size | int], ...] = ([], [], [1], [b.size()], [2, b.size()])
    shape = b.rng.choice(kinds)
    if x.rank + len(shape) > 5:
        raise Unfit("too many dimensions")
    at = indices(b, shape, x.shape[axis], b.rng.choice(("int64", "int32")))
    return b.node("Gather", [x, at], axis=signed(b, axis, x.rank))


@recipe(1.5, special=True)
def gather_elements(b: Builder) -> object:
    x = b.pick(lambda v: v.rank > 0)
    axis = b.integer(0, x.rank - 1)
    shape = [b.size() if i == axis else size for i, size in enumerate(x.shape)]
    return b.node("GatherElements", [x, indices(b, shape, x.shape[axis])], axis=signed(b, axis, x.rank))


@recipe(1.5, special=True)
def gather_nd(b: Builder) -> object:
    x = b.pick(lambda v: v.rank > 0)
    batch = b.integer(0, min(2, x.rank - 1)) if b.opset >= 12 and b.flag(0.4) else 0
    depth = b.integer(1, min(2, x.rank - batch))
    bounds = tuple(min(sizes) for sizes in zip(*x.shape[batch : batch + depth], strict=True))
    at = indices(b, [*x.shape[:batch], b.size(), depth], bounds)
    return b.node("GatherND", [x, at], **({"batch_dims": batch} if batch else {}))


@recipe(1.5)
def scatter_elements(b: Builder) -> object:
    x = b.pick(
        lambda v: v.rank > 0 and v.has_elements and v.dtype.name in ("float32", "int64", "float64", "int32")
    )
    axis = b.integer(0, x.rank - 1)
    counts = [min(x.shape[axis]) if i == axis else size for i, size in enumerate(x.shape)]
    permuted = []
    for s in range(b.num_samples):
        shape = tuple(size[s] if isinstance(size, tuple) else size for size in counts)
        order = b.root.noise.permutation(x.shape[axis][s])[: shape[axis]]
        line = order.reshape([-1 if i == axis else 1 for i in range(x.rank)])
        permuted.append(np.ascontiguousarray(np.broadcast_to(line, shape)).astype("int64"))
    at = b.given(permuted, False)
    attrs = {"reduction": b.rng.choice(("add", "mul"))} if b.opset >= 16 and b.flag() else {}
    return b.node("ScatterElements", [x, at, b.fresh(x.dtype, counts)], axis=signed(b, axis, x.rank), **attrs)


@recipe(1.5)
def scatter_nd(b: Builder) -> object:
    x = b.pick(
        lambda v: v.rank > 0 and v.has_elements and v.dtype.name in ("float32", "int64", "float64", "int32")
    )
    count = b.integer(1, min(3, min(x.shape[0])))
    rows = [b.root.noise.permutation(size)[:count].reshape(-1, 1).astype("int64") for size in x.shape[0]]
    if min(x.shape[0]) == x.shape[0][0] and b.flag():
        at = b.given([rows[0]] * b.num_samples, True)
    else:
        at = b.given(rows, False)
    attrs = {"reduction": b.rng.choice(("add", "mul"))} if b.opset >= 16 and b.flag() else {}
    return b.node("ScatterND", [x, at, b.fresh(x.dtype, [count, *x.shape[1:]])], **attrs)


@recipe(1)
def one_hot(b: Builder) -> object:
    x = b.pick(lambda v: v.dtype in INTS and v.rank < 3 and v.dtype.name in ("int64", "int32"))
    depth = b.ints([b.integer(1, 5)] * b.num_samples, may_compute=False)
    values = b.given([np.asarray([-1, 2], b.rng.choice(("float32", "int64")))] * b.num_samples, True)
    return b.node("OneHot", [x, depth, values], axis=b.integer(-1, x.rank))


@recipe(1)
def data_dependent(b: Builder) -> object:
    """Sizes that depend on elements."""
    if b.flag(0.4):
        return b.node(
            "NonZero",
            [b.pick(lambda v: v.rank > 0 and v.dtype.name in ("bool", "int64", "float32", "int32"))],
        )
    x = b.pick(lambda v: 0 < v.rank < 4)
    axis = b.integer(0, x.rank - 1)
    length = x.shape[axis]
    return b.node("Compress", [x, b.fresh(BOOL, [length])], axis=signed(b, axis, x.rank))


@recipe(0.5)
def unique(b: Builder) -> object:
    x = b.pick(lambda v: v.rank > 0 and v.dtype.name in ("int64", "float32", "int8", "float64"))
    return b.nodes_of("Unique", [x], b.integer(1, 2), sorted=1)[0]


@recipe(2)
def softmax(b: Builder) -> object:
    x = b.floating()
    if not x.rank:
        raise Unfit("scalar")
    axis = b.integer(0, x.rank - 1)
    op = b.rng.choice(("Softmax", "Softmax", "LogSoftmax", "Hardmax", "LpNormalization"))
    attrs = {"p": b.integer(1, 2)} if op[:2] == "Lp" else {}
    return b.node(op, [x], axis=signed(b, axis, x.rank), **attrs)
