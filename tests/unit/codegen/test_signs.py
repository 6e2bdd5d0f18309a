"""What emitters know of signs: divisions become shifts, and unsigned ones, only where that is the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from heddle.prim import ops
from heddle.prim.nodes import Broadcast, PrimExpr, Ramp, constant
from heddle.prim.values import int_range
from heddle.runtime.dtype import DataType
from heddle.target import Target
from tests.fuzz.number_rows import Row
from tests.fuzz.numbers import compiled_for, kernel, machine_results
from tests.unit.codegen.kernel_runner import Kernels

INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
DIVISIONS = {
    "floordiv": ops.floordiv,
    "floormod": ops.floormod,
    "truncdiv": ops.truncdiv,
    "truncmod": ops.truncmod,
}


def points(dtype: str) -> np.ndarray:
    low, high = int_range(DataType(dtype))
    near = [low, low + 1, low + 5, high, high - 1, high // 2, high // 2 + 1, 0, 1, 5]
    return np.array([*near, *(-v for v in (1, 5) if low)], dtype)


def results(build, dtype: str, values: np.ndarray, target: str):
    """By machine code for each element, in a vector body, in lanes and in parallel."""
    row = Row("e", 1, build, lambda *_: None, (dtype,), result="int64")
    kernels = Kernels(compiled_for({f"e__{dtype}": kernel(row, dtype)}, Target(target)))
    return machine_results(kernels, f"e__{dtype}", [values], DataType("int64"))


def number(value: int, like: PrimExpr) -> PrimExpr:
    made = constant(value, like.dtype.element)
    return Broadcast(made, like.dtype.lanes) if like.dtype.lanes > 1 else made


def in_lanes(dtype: str, like: PrimExpr) -> DataType:
    return DataType(dtype).with_lanes(like.dtype.lanes)


def exact(name: str, a: int, b: int) -> int:
    quotient = a // b if name.startswith("floor") else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return quotient if name.endswith("div") else a - quotient * b


def wrapped(value: int, dtype: str) -> int:
    low, high = int_range(DataType(dtype))
    return (value - low) % (high - low + 1) + low


@pytest.mark.parametrize("target", ["llvm -opt-level=1", "c"])
@pytest.mark.parametrize("name", DIVISIONS)
@pytest.mark.parametrize("source", INTS)
def test_casts_are_divided_as_what_they_are(source: str, name: str, target: str) -> None:
    values = points(source)
    for goal, divisor in itertools.product(("int8", "int16", "int32", "int64"), (4, 7)):

        def build(x: PrimExpr, goal: str = goal, divisor: int = divisor) -> PrimExpr:
            cast = ops.cast(in_lanes(goal, x), x)
            return ops.cast(in_lanes("int64", x), DIVISIONS[name](cast, number(divisor, cast)))

        wanted = [exact(name, wrapped(int(v), goal), divisor) for v in values]
        for engine, got in results(build, source, values, target):
            np.testing.assert_array_equal(got, wanted, err_msg=f"{engine}: {source} as {goal} by {divisor}")


@pytest.mark.parametrize("target", ["llvm -opt-level=0", "llvm", "c"])
@pytest.mark.parametrize("name", DIVISIONS)
@pytest.mark.parametrize("dtype", INTS[::2])
def test_the_least_integer_by_minus_one_wraps(dtype: str, name: str, target: str) -> None:
    values = points(dtype)

    def build(x: PrimExpr) -> PrimExpr:
        return ops.cast(in_lanes("int64", x), DIVISIONS[name](x, number(-1, x)))

    wanted = [wrapped(exact(name, int(v), -1), dtype) for v in values]
    for engine, got in results(build, dtype, values, target):
        np.testing.assert_array_equal(got, wanted, err_msg=engine)


@pytest.mark.parametrize("through", ["float32", "float64"])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32"])
def test_integers_come_back_from_floats_within_their_range(dtype: str, through: str) -> None:
    """The greatest int32 is 2**31 in float32: too much by one."""
    values, (low, high) = points(dtype), int_range(DataType(dtype))

    def build(x: PrimExpr) -> PrimExpr:
        back = ops.cast(in_lanes(dtype, x), ops.cast(in_lanes(through, x), x))
        return ops.cast(in_lanes("int64", x), back)

    wanted = [min(high, max(low, int(np.dtype(through).type(v)))) for v in values]
    for engine, got in results(build, dtype, values, "llvm"):
        np.testing.assert_array_equal(got, wanted, err_msg=engine)


def test_a_narrow_ramp_wraps() -> None:
    def build(x: PrimExpr) -> PrimExpr:
        if x.dtype.lanes == 1:
            return ops.cast("int64", ops.floordiv(ops.cast("int8", x * 8), constant(4, "int8")))
        ramp = Ramp(constant(0, "int8"), constant(8, "int8"), x.dtype.lanes)
        offset = ops.cast(in_lanes("int8", x), (x - x % number(16, x)) * number(8, x))
        return ops.cast(in_lanes("int64", x), ops.floordiv(ramp + offset, number(4, ramp)))

    values = np.arange(64, dtype="int64")
    wanted = [wrapped(int(v) * 8, "int8") // 4 for v in values]
    for engine, got in results(build, "int64", values, "llvm"):
        np.testing.assert_array_equal(got, wanted, err_msg=engine)
