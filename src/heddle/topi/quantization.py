"""Quantisation and dequantisation with a scale and a zero point, per tensor or per channel."""

from __future__ import annotations

from heddle import te
from heddle.prim.intrinsics import nearbyint
from heddle.prim.nodes import PrimExpr, constant, is_const_int
from heddle.prim.ops import cast, max_value, maximum, min_value, minimum
from heddle.runtime.dtype import DataType
from heddle.topi.dims import positive_axis
from heddle.topi.index import element_of

_FLOAT = DataType("float32")


def _channel(factor: te.Tensor, index: tuple[PrimExpr, ...], axis: int) -> PrimExpr:
    """The scale or zero point of an element."""
    if factor.ndim == 0:
        return element_of(factor, ())
    whole = is_const_int(factor.shape[0], 1)
    return element_of(factor, (constant(0, "int64") if whole else index[axis],))


def quantize(
    x: te.Tensor, scale: te.Tensor, zero_point: te.Tensor, axis: int = -1, out_dtype: str = "int8"
) -> te.Tensor:
    """Return round(x / scale) + zero_point, clamped to the range of `out_dtype`. Halves round to even."""
    at, target = positive_axis(axis, x.ndim) if x.ndim else 0, DataType(out_dtype)

    def element(*index: PrimExpr) -> PrimExpr:
        value = cast(_FLOAT, x[index] if x.ndim else x()) / cast(_FLOAT, _channel(scale, index, at))
        value = nearbyint(value) + cast(_FLOAT, _channel(zero_point, index, at))
        if target.is_float:
            return cast(target, value)
        low, high = cast(_FLOAT, min_value(target)), cast(_FLOAT, max_value(target))
        return cast(target, maximum(minimum(value, high), low))

    result: te.Tensor = te.compute(x.shape, element, name="quantize")
    return result


def dequantize(
    x: te.Tensor, scale: te.Tensor, zero_point: te.Tensor, axis: int = -1, out_dtype: str = "float32"
) -> te.Tensor:
    """(x - zero_point) * scale; integers are subtracted as int32."""
    at, target = positive_axis(axis, x.ndim) if x.ndim else 0, DataType(out_dtype)
    wide = _FLOAT if x.dtype.is_float else DataType("int32")

    def element(*index: PrimExpr) -> PrimExpr:
        value = cast(wide, x[index] if x.ndim else x()) - cast(wide, _channel(zero_point, index, at))
        return cast(target, cast(_FLOAT, value) * cast(_FLOAT, _channel(scale, index, at)))

    result: te.Tensor = te.compute(x.shape, element, name="dequantize")
    return result
