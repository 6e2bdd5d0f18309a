"""Dense layers, bias and rectified linear units."""

from __future__ import annotations

from heddle import te
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import cast, maximum, select
from heddle.runtime.dtype import DataType
from heddle.topi.broadcast import elementwise
from heddle.topi.dims import positive_axis
from heddle.topi.reduce import accumulator, convert


def relu(x: te.Tensor) -> te.Tensor:
    """max(x, 0)."""
    return elementwise(lambda v: maximum(v, constant(0, v.dtype)), x, name="relu")


def leaky_relu(x: te.Tensor, alpha: float) -> te.Tensor:
    """x where x > 0, else alpha * x."""
    return elementwise(lambda v: select(v > 0, v, v * constant(alpha, v.dtype)), x, name="leaky_relu")


def dense(
    data: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None, out_dtype: str | None = None
) -> te.Tensor:
    """data @ weight.T + bias: (n, k), (m, k), (m,) → (n, m)."""
    dtype = DataType(out_dtype or data.dtype)
    wide = accumulator(dtype)
    k = te.reduce_axis((0, data.shape[1]), name="k")
    product: te.Tensor = te.compute(
        (data.shape[0], weight.shape[0]),
        lambda i, j: te.sum(cast(wide, data[i, k.var]) * cast(wide, weight[j, k.var]), axis=k),
        name="dense",
    )
    if bias is None:
        return convert(product, dtype)
    result: te.Tensor = te.compute(
        product.shape, lambda i, j: cast(dtype, product[i, j] + cast(wide, bias[j])), name="dense_bias"
    )
    return result


def bias_add(data: te.Tensor, bias: te.Tensor, axis: int = 1) -> te.Tensor:
    """Add a vector along an axis."""
    at = positive_axis(axis, data.ndim)

    def element(*index: PrimExpr) -> PrimExpr:
        result: PrimExpr = data[index] + bias[index[at]]
        return result

    result: te.Tensor = te.compute(data.shape, element, name="bias_add")
    return result
