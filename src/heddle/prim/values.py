"""What scalar operations give, as numpy functions: the one definition of conversions, divisions and shifts.

The evaluator, the folding of constants, the loop interpreter and the operators' references use these
functions; machine code gives the same bits (`tests/fuzz/numbers.py`). docs/semantics.md states the rules.

Arguments are numpy scalars or arrays of one dtype, or Python numbers; results wrap as numpy's do.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from heddle.runtime.dtype import DataType

Value = Any
MAX_FLOAT32 = (2 - 2.0**-24) * 2.0**127
"""Greater numbers, even where they are rounded to nearest, are no finite float32."""


_FEW_BITS = {np.dtype(getattr(ml_dtypes, name)): name[0] for name in ("int2", "uint2", "int4", "uint4")}


@cache
def int_range(dtype: DataType) -> tuple[int, int]:
    """The least and the greatest value of an integer dtype, of bool, or of an address."""
    if dtype.is_bool:
        return 0, 1
    if dtype.is_unsigned or dtype.is_handle:
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


def wrap_int(value: int, dtype: DataType) -> int:
    """The value modulo 2**bits, in the dtype's range; a bool is 0 or 1."""
    if dtype.is_bool:
        return int(value != 0)
    low, high = int_range(dtype)
    if low <= value <= high:
        return value
    return (value - low) % (1 << dtype.bits) + low


def kind_of(dtype: Any) -> str:
    """The kind of a numpy dtype, also of those that numpy does not know: "b", "i", "u", or "f"."""
    given = np.dtype(dtype)
    return given.kind if given.kind in "iub" else _FEW_BITS.get(given, "f")


def is_float_array(array: Value) -> bool:
    """Whether a numpy value holds floats."""
    return kind_of(np.asarray(array).dtype) == "f"


def convert(value: Value, dtype: DataType) -> Value:
    """A numpy value as a scalar or vector of a dtype, by the rules of `Cast`.

    Floats become integers by dropping the fraction; what lies outside the range gives its nearest end, NaN
    gives 0. Integers wrap. Anything but zero (NaN too) is true. Floats are rounded to nearest, halves to
    even; float64 and integers become bfloat16 and 8-bit floats by way of float32.
    """
    target = dtype.numpy()
    if type(value) is target.type and dtype.lanes == 1 and (dtype.bits >= 8 or dtype.is_bool):
        return value
    array = np.asarray(value)
    with np.errstate(all="ignore"):
        if dtype.is_bool:
            array = array != 0
        elif dtype.is_int and is_float_array(array):
            array = _saturated(array, dtype)
        elif dtype.is_int and dtype.bits < 8:
            low = int_range(dtype)[0]
            array = (((array.astype(np.int64) - low) & ((1 << dtype.bits) - 1)) + low).astype(target)
        elif array.dtype != target:
            array = _in_float32(array).astype(target)
    if dtype.lanes > 1 and array.ndim == 0:
        array = np.full(dtype.lanes, array, dtype=target)
    return array[()]


def _in_float32(array: Value) -> Value:
    """Floats of a byte in float32, which holds each of them: ml_dtypes lacks some of their conversions."""
    return array.astype(np.float32) if array.dtype.itemsize == 1 and is_float_array(array) else array


def _saturated(array: Value, dtype: DataType) -> Value:
    (low, high), target = int_range(dtype), dtype.numpy()
    wide = array.astype(np.float64)
    above, below = wide >= float(high + 1), wide <= float(low)
    inside = np.where(above | below | np.isnan(wide), 0.0, wide)
    made = inside.astype(np.uint64 if dtype.is_unsigned else np.int64).astype(target)
    return np.where(above, target.type(high), np.where(below, target.type(low), made))


def trunc_divide(a: Value, b: Value) -> Value:
    """a / b; of integers the quotient rounded to zero, 0 where b is. The least integer by -1 wraps."""
    if is_float_array(a):
        return np.divide(a, b)
    quotient, rest = np.floor_divide(a, b), np.mod(a, b)
    was_rounded_down = (rest != 0) & ((np.asarray(a) < 0) != (np.asarray(b) < 0))
    return quotient + was_rounded_down.astype(np.asarray(quotient).dtype)


def trunc_mod(a: Value, b: Value) -> Value:
    """The remainder with the sign of a: C's fmod for floats; for integers 0 where b is."""
    return np.fmod(a, b)


def floor_divide(a: Value, b: Value) -> Value:
    """a / b rounded down; of integers 0 where b is."""
    return np.floor_divide(a, b)


def floor_mod(a: Value, b: Value) -> Value:
    """The remainder with the sign of b; of integers 0 where b is."""
    return np.mod(a, b)


def power(x: Value, y: Value) -> Value:
    """x to the y; of integers `integer_power`, of floats with the special cases of C's pow. numpy takes a
    square root for one exponent of 0.5, which is another thing for -0 and minus infinity."""
    if not is_float_array(x):
        return integer_power(x, y)
    is_other = (np.asarray(y) == 0.5) & ((np.asarray(x) == 0) | (np.asarray(x) == -np.inf))
    base: Value = np.where(is_other, np.abs(x), x) if is_other.any() else x
    return np.power(base[()] if isinstance(base, np.ndarray) else base, y)


def integer_power(x: Value, y: Value) -> Value:
    """x to the y of integers of one dtype, by squaring, modulo 2**bits; x**0 is 1. With a negative exponent
    1 / x**-y, rounded to zero: 1 of 1, 1 or -1 of -1, 0 of all else, 0 among them."""
    base, exponent = np.broadcast_arrays(x, y)
    if base.dtype in _FEW_BITS:  # ml_dtypes has no operations of their bits
        wide = integer_power(base.astype(np.int64), exponent.astype(np.int64))
        return np.asarray(wide).astype(base.dtype)[()]
    is_negative, one = exponent < 0, base.dtype.type(1)
    left = np.where(is_negative, np.where(is_unit(base), exponent & one, 0), exponent).astype(base.dtype)
    made, square = np.ones(base.shape, base.dtype), base.copy()
    with np.errstate(over="ignore"):
        while left.any():
            made = np.where(left & one, made * square, made)
            square, left = square * square, left >> one
    return np.where(is_negative & ~is_unit(base), base.dtype.type(0), made)[()]


def is_unit(x: Value) -> Value:
    """Whether an integer is 1 or -1."""
    array = np.asarray(x)
    return (array == 1) | ((array == -1) if kind_of(array.dtype) == "i" else False)


def popcount(x: Value, bits: int) -> Value:
    """How many of an integer's bits are set; numpy counts those of the magnitude."""
    array = np.asarray(x)
    stored = array.view(f"u{array.dtype.itemsize}")
    return np.bitwise_count(stored & stored.dtype.type((1 << bits) - 1))[()]


def shift_left(a: Value, count: Value) -> Value:
    """a * 2**count, wrapped; 0 for a count that is negative or as great as the width."""
    return np.left_shift(a, count)


def shift_right(a: Value, count: Value) -> Value:
    """a with its bits moved down and its sign (zeros, if unsigned) moved in; nothing but those for a count
    that is negative or as great as the width."""
    return np.right_shift(a, count)
