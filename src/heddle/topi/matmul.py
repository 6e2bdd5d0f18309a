"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from heddle import te
from heddle.arith.broadcast import broadcast_shape
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import cast
from heddle.runtime.dtype import DataType
from heddle.topi.broadcast import read_broadcast
from heddle.topi.reduce import accumulator, convert


def matmul(a: te.Tensor, b: te.Tensor, out_dtype: str | None = None) -> te.Tensor:
    """Matrix product with numpy's rules: `a: (..., m, k)`, `b: (..., k, n)` → `(..., m, n)`. A vector is a
    row (a) or a column (b).

    Products are accumulated in `out_dtype` (default: that of the inputs), or in float32 for narrow floats.
    """
    dtype = DataType(out_dtype or a.dtype)
    wide = accumulator(dtype)
    row, column = a.ndim == 1, b.ndim == 1
    batch = broadcast_shape(a.shape[: max(0, a.ndim - 2)], b.shape[: max(0, b.ndim - 2)])
    depth = a.shape[-1]
    k = te.reduce_axis((constant(0, depth.dtype), depth), name="k")
    shape = (*batch, *(() if row else (a.shape[-2],)), *(() if column else (b.shape[-1],)))

    def element(*index: PrimExpr) -> PrimExpr:
        outer, inner = index[: len(batch)], list(index[len(batch) :])
        left = (k.var,) if row else (inner.pop(0), k.var)
        right = (k.var,) if column else (k.var, inner.pop(0))
        x = read_batched(a, outer, batch, left)
        y = read_batched(b, outer, batch, right)
        total: PrimExpr = te.sum(cast(wide, x) * cast(wide, y), axis=k)
        return total

    result: te.Tensor = te.compute(shape, element, name="matmul")
    return convert(result, dtype)


def read_batched(
    x: te.Tensor, outer: Sequence[PrimExpr], batch: Sequence[PrimExpr], inner: tuple[PrimExpr, ...]
) -> PrimExpr:
    """An element of `x` at a broadcast batch index and the index of its last axes."""
    index, shape = (*outer, *inner), (*batch, *x.shape[x.ndim - len(inner) :])
    return read_broadcast(x, index, shape)
