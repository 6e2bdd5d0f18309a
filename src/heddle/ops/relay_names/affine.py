"""Between integers with a scale and a zero point and other such integers, in arithmetic of the records.

A value `q` with scale `s` and zero point `z` means `(q - z) * s`. Scales and zero points are scalars or one
for each item of an axis; they need not be constant, and fold where they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.graph.codes import R0203, R0204, R0205
from heddle.graph.op_builder import call_op, const
from heddle.graph.requantize import RequantizeConfig, current_requantize_config
from heddle.ir.expr import Constant, Expr
from heddle.ops.relay_names.rules import axis_from, dims_of, rank, stated, tensor_type, whole
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import IRTypeError
from heddle.support.frozen import frozen


@frozen
class Affine:
    """How integers are meant: along `axis` where scale or zero point are vectors."""

    scale: Expr
    zero: Expr
    axis: int = -1

    def __post_init__(self) -> None:
        _require_whole(self.zero)


def _require_whole(zero: Any) -> None:
    dtype = tensor_type(zero).dtype
    if dtype is not None and not dtype.is_int:
        raise IRTypeError(R0204, f"a zero point is a whole number, got {dtype}")


# ---- parts


def cast(value: Any, dtype: str) -> Any:
    """A value of a dtype; constants at once."""
    if isinstance(value, Constant):
        return const(value.data.numpy().astype(dtype), dtype)
    return value if str(tensor_type(value).dtype) == dtype else call_op("astype", value, dtype=dtype)


def along(factor: Any, data: Any, axis: int) -> Any:
    """A scalar, or a vector shaped to lie along an axis of the data. Raises: IRTypeError R0203, R0205."""
    own = rank(factor)
    if own == 0:
        return factor
    if own > 1:
        raise IRTypeError(R0203, f"a scale or zero point has at most 1 dimension, got {own}")
    count = whole(dims_of(factor)[0])
    if count == 1:
        return call_op("squeeze", factor, axis=[0])
    ndim = rank(data)
    place = axis_from(axis, ndim)
    size = whole(dims_of(data)[place])
    if None not in (size, count) and size != count:
        raise IRTypeError(R0203, f"axis {place} has {size} items, the scale or zero point {count}")
    if count is not None:
        factor = stated(factor, [dims_of(data)[place]])
    behind = ndim - 1 - place
    return call_op("expand_dims", factor, axis=[1 + k for k in range(behind)]) if behind else factor


def is_zero(zero: Any) -> bool:
    """Whether a zero point is known to be 0."""
    return isinstance(zero, Constant) and not zero.data.numpy().any()


def difference(data: Any, zero: Any, axis: int, dtype: str) -> Any:
    """data - zero in a dtype. Raises: IRTypeError R0204 for a zero point that is no whole number."""
    _require_whole(zero)
    value = cast(data, dtype)
    return value if is_zero(zero) else call_op("subtract", value, along(cast(zero, dtype), data, axis))


def factor_of(data: Any, zero: Any, axis: int) -> Any:
    """data - zero as a factor of a product of integers: int16 where that holds it, of which products of bytes
    are made, else int32."""
    require_integers(data)
    dtype = tensor_type(data).dtype
    is_narrow = dtype is not None and dtype.bits <= 8
    if is_narrow and isinstance(zero, Constant):
        is_narrow = int(np.abs(zero.data.numpy().astype("int64")).max(initial=0)) < 1 << 14
    else:
        is_narrow = False
    return difference(data, zero, axis, "int16" if is_narrow else "int32")


def require_integers(data: Any) -> None:
    """Raises: IRTypeError R0204."""
    dtype = tensor_type(data).dtype
    if dtype is not None and (dtype.is_float or dtype.is_bool):
        raise IRTypeError(R0204, f"expected quantised integers, got {dtype}")


def require_floats(data: Any) -> None:
    """Raises: IRTypeError R0204."""
    dtype = tensor_type(data).dtype
    if dtype is not None and not dtype.is_float:
        raise IRTypeError(R0204, f"expected floats, got {dtype}")


def bounds(dtype: str) -> tuple[int, int]:
    """The least and the greatest of an integer dtype. Raises: IRTypeError R0204."""
    found = DataType(dtype)
    if found.is_float or found.is_bool:
        raise IRTypeError(R0204, f"quantised values are integers, got {dtype}")
    bits, is_signed = found.bits, not dtype.startswith("u")
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)


def limited(value: Any, dtype: str) -> Any:
    """The nearest value that a dtype holds. Integers to int32 are not limited."""
    own = tensor_type(value).dtype
    low, high = bounds(dtype)
    if own is not None and own.is_float:
        if high > 1 << 24:  # the float below: what is next is too large
            high = int(np.nextafter(np.dtype(str(own)).type(high + 1), 0))
        return call_op("astype", call_op("clip", value, float(low), float(high)), dtype=dtype)
    if dtype not in ("int32", "int64"):
        value = call_op("clip", value, low, high)
    return call_op("astype", value, dtype=dtype)


def rounded(value: Any) -> Any:
    """The nearest whole numbers of floats, halves away from zero."""
    dtype = str(tensor_type(value).dtype)
    cut = call_op("trunc", value)
    rest = call_op("abs", call_op("subtract", value, cut))
    is_more = call_op("astype", call_op("greater_equal", rest, const(0.5, dtype)), dtype=dtype)
    return call_op("add", cut, call_op("multiply", call_op("sign", value), is_more))


# ---- conversions


def quantized(data: Any, to: Affine, dtype: str) -> Any:
    """clip(round(data / scale) + zero), halves away from zero."""
    return limited(placed(data, to), dtype)


def placed(data: Any, to: Affine) -> Any:
    """round(data / scale) + zero as floats. Raises: IRTypeError R0203 to R0205."""
    require_floats(data)
    real = cast(data, "float32")
    steps = rounded(call_op("divide", real, along(cast(to.scale, "float32"), data, to.axis)))
    return (
        steps if is_zero(to.zero) else call_op("add", steps, along(cast(to.zero, "float32"), data, to.axis))
    )


def meant(data: Any, of: Affine) -> Any:
    """The real numbers (data - zero) * scale in float32."""
    values = cast(difference(data, of.zero, of.axis, "int32"), "float32")
    return call_op("multiply", values, along(cast(of.scale, "float32"), data, of.axis))


def _ratio(of: Affine, to: Affine, data: Any) -> Any:
    """in_scale / out_scale in float64."""
    if isinstance(to.scale, Constant) and not to.scale.data.numpy().all():
        raise IRTypeError(R0205, "the scale of the result is 0")
    left = along(cast(of.scale, "float64"), data, of.axis)
    return call_op("divide", left, along(cast(to.scale, "float64"), data, to.axis))


def requantized(
    data: Any, of: Affine, to: Affine, dtype: str, rounding: str = "None", compute_dtype: str = "None"
) -> Any:
    """Integers as they are with another scale and zero point. Raises: IRTypeError R0203 to R0205."""
    require_integers(data)
    given = current_requantize_config()
    config = RequantizeConfig(
        given.rounding if rounding == "None" else rounding,
        given.compute_dtype if compute_dtype == "None" else compute_dtype,
    )
    if is_same(of, to):
        steps = difference(data, of.zero, of.axis, "int64")
    elif config.compute_dtype == "int64":
        steps = _in_integers(data, of, to, config.rounding == "UPWARD")
    else:
        steps = _in_floats(data, of, to, config)
    if not is_zero(to.zero):
        steps = call_op("add", steps, along(cast(to.zero, str(tensor_type(steps).dtype)), data, to.axis))
    return limited(steps, dtype)


def is_same(of: Affine, to: Affine) -> bool:
    """Whether two scales are known to be equal."""
    if of.scale is to.scale:
        return True
    if not (isinstance(of.scale, Constant) and isinstance(to.scale, Constant)):
        return False
    a, b = of.scale.data.numpy(), to.scale.data.numpy()
    return bool(a.size == b.size == 1 and a.reshape(()) == b.reshape(()))


def _in_floats(data: Any, of: Affine, to: Affine, config: RequantizeConfig) -> Any:
    dtype = config.compute_dtype
    value = difference(data, of.zero, of.axis, dtype)
    scaled = call_op("multiply", value, cast(_ratio(of, to, data), dtype))
    if config.rounding == "UPWARD":
        return call_op("floor", call_op("add", scaled, const(0.5, dtype)))
    return rounded(scaled)


def _whole(value: int) -> Any:
    return const(value, "int64")


def _parts(ratio: Any) -> tuple[Any, Any]:
    """A ratio as significand * 2**(exponent - 31), with significands from 2**30, by the bits of a double."""
    bits = call_op("bitcast", ratio, dtype="int64")
    exponent = call_op("subtract", call_op("right_shift", bits, _whole(52)), _whole(1022))
    fraction = call_op("bitwise_and", bits, _whole((1 << 52) - 1))
    significand = call_op("right_shift", call_op("add", fraction, _whole((1 << 52) + (1 << 21))), _whole(22))
    carry = call_op("right_shift", significand, _whole(31))  # it was rounded up to 2**31
    is_null = call_op("equal", bits, _whole(0))
    significand = call_op("where", is_null, _whole(0), call_op("right_shift", significand, carry))
    return significand, call_op("add", exponent, carry)


def _in_integers(data: Any, of: Affine, to: Affine, is_upward: bool) -> Any:
    """((data - zero) << left) * significand >> right in int64, rounded to nearest."""
    significand, exponent = _parts(_ratio(of, to, data))
    left = call_op("clip", exponent, 0, 31)
    right = call_op("add", call_op("clip", call_op("negative", exponent), 0, 32), _whole(31))
    vanishes = call_op("greater", right, _whole(62))  # a factor below 2**-31: less than one half of all int32
    significand = call_op("where", vanishes, _whole(0), significand)
    right = call_op("minimum", right, _whole(62))
    value = call_op("left_shift", difference(data, of.zero, of.axis, "int64"), left)
    product = call_op("multiply", value, significand)
    half = call_op("left_shift", _whole(1), call_op("subtract", right, _whole(1)))
    if not is_upward:
        is_less = call_op("astype", call_op("less", product, _whole(0)), dtype="int64")
        half = call_op("subtract", half, is_less)
    return call_op("right_shift", call_op("add", product, half), right)
