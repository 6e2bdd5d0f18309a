"""Scalar expressions: building, folding, evaluation, text."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.prim import intrinsics as prim
from heddle.prim import ops
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import Add, Broadcast, Cast, IntImm, Ramp, Range, Select, Shuffle, Var, constant
from heddle.prim.ops import (
    all as all_of,
)
from heddle.prim.ops import (
    cast,
    floordiv,
    floormod,
    if_then_else,
    logical_not,
    max_value,
    maximum,
    min_value,
    select,
    truncdiv,
    truncmod,
)
from heddle.prim.values import power, wrap_int
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import IRTypeError, TrapValueError

I32 = DataType("int32")
small = st.integers(-50, 50)


def var(name: str = "x", dtype: str = "int32") -> Var:
    return Var(name, DataType(dtype))


@given(small, small.filter(bool))
def test_divisions_round_as_stated(a, b):
    x, y = var("x"), var("y")
    env = {x: a, y: b}
    assert evaluate(floordiv(x, y), env) == a // b == evaluate(floordiv(constant(a), constant(b)))
    assert evaluate(floormod(x, y), env) == a % b
    assert evaluate(truncdiv(x, y), env) == int(a / b) == evaluate(truncdiv(constant(a), constant(b)))
    assert evaluate(truncmod(x, y), env) == a - b * int(a / b)


@pytest.mark.parametrize(
    ("dtype", "value", "kept"),
    [
        ("int8", 200, -56),
        ("uint8", -1, 255),
        ("int32", 2**31, -(2**31)),
        ("bool", 7, 1),
        ("int64", 2**63, -(2**63)),
    ],
)
def test_integers_wrap(dtype, value, kept):
    """What is computed wraps; a constant that is written must fit."""
    assert wrap_int(value, DataType(dtype)) == kept
    with pytest.raises(IRTypeError, match="outside the range") as caught:
        IntImm(DataType(dtype), value)
    assert caught.value.code == "K0106"
    assert cast(dtype, constant(kept, "int64")).value == kept


def test_folded_arithmetic_wraps():
    most = constant(127, "int8")
    assert ops.add(most, constant(1, "int8")).value == -128
    assert ops.multiply(most, constant(2, "int8")).value == -2
    assert truncdiv(constant(-128, "int8"), constant(-1, "int8")).value == -128
    assert ops.negative(constant(-128, "int8")).value == -128
    assert ops.negative(constant(1, "uint8")).value == 255


@pytest.mark.parametrize(
    ("a", "b", "common"),
    [
        ("int32", "uint32", "uint32"),
        ("uint8", "int8", "uint8"),
        ("int32", "uint8", "int32"),
        ("int8", "uint32", "uint32"),
        ("int64", "float16", "float16"),
        ("float32", "float16", "float32"),
        ("bool", "uint8", "uint8"),
    ],
)
def test_common_dtypes_are_those_of_tvm(a, b, common):
    for one, other in ((a, b), (b, a)):
        assert ops.add(Var("x", one), Var("y", other)).dtype == common


def test_a_constant_beyond_float32_is_float64():
    assert constant(3.4028235e38).dtype == "float32"
    assert constant(-3.402e39).dtype == "float64"
    assert constant(float("inf")).dtype == "float32"
    assert constant(1, "float32").dtype == "float32"


@pytest.mark.parametrize(
    ("value", "dtype", "whole"),
    [(1e9, "int8", 127), (-1e9, "uint8", 0), (math.nan, "int32", 0), (-1.9, "int4", -1), (9.0, "int4", 7)],
)
def test_folded_casts_saturate(value, dtype, whole):
    assert cast(dtype, constant(value)).value == whole
    assert evaluate(Cast(dtype, constant(value))) == whole


@pytest.mark.parametrize(
    ("count", "left", "right"), [(3, -40, -1), (31, -(2**31), -1), (32, 0, -1), (-1, 0, -1)]
)
def test_shifts_by_the_width_or_more_leave_no_bits(count, left, right):
    value = constant(-5)
    assert ops.shift_left(value, count).value == left
    assert ops.shift_right(value, count).value == right
    x = Var("x", "int32")
    assert evaluate(ops.shift_left(x, count), {x: -5}) == left
    assert evaluate(ops.shift_right(x, count), {x: -5}) == right


def test_identities_fold_and_floats_do_not_reassociate():
    x, f = var(), var("f", "float32")
    assert x + 0 is x
    assert x * 1 is x
    assert (x * 0).value == 0
    assert isinstance(f + 0.0, Add)
    assert isinstance((f + 1.0) + 2.0, Add)
    assert maximum(3, 4).value == 4


def test_operands_get_a_common_dtype():
    x, y, f = var("x", "int32"), var("y", "int64"), var("f", "float32")
    assert (x + y).dtype == "int64"
    assert (x + f).dtype == "float32"
    assert (f * 2).b.dtype == "float32"
    with pytest.raises(IRTypeError, match="differ"):
        Add(x, y)


def test_comparison_is_a_bool_by_identity_and_an_expression_on_demand():
    x, y = var("x"), var("y")
    assert bool(x == x)
    assert not bool(x == y)
    assert evaluate((x == y).asexpr(), {x: 1, y: 1}) is True
    assert {x: 1}[x] == 1
    with pytest.raises(IRTypeError, match="truth value"):
        bool(x < y)


def test_branches():
    x = var()
    guarded = if_then_else(x.equal(0), 0, floordiv(constant(10), x))
    assert evaluate(guarded, {x: 0}) == 0
    assert evaluate(guarded, {x: 3}) == 3
    with pytest.raises(TrapValueError, match="division by zero"):
        evaluate(Select(x.equal(0), constant(0), floordiv(constant(10), x)), {x: 0})
    assert evaluate(all_of(x > 1, logical_not(x > 5)), {x: 3}) is True


def test_vectors():
    x = var()
    ramp = Ramp(x, constant(2), 4)
    assert list(evaluate(ramp, {x: 1})) == [1, 3, 5, 7]
    assert list(evaluate(select(ramp > 3, ramp, Broadcast(constant(0), 4)), {x: 1})) == [0, 0, 5, 7]
    assert evaluate(Shuffle((ramp,), (2,)), {x: 1}) == 5


@pytest.mark.parametrize("value", [-3.5, -0.3, 0.0, 0.7, 2.9, 4.0])
def test_erf_and_sigmoid_against_math(value):
    assert evaluate(prim.erf(constant(value, "float64"))) == pytest.approx(math.erf(value), abs=1e-14)
    assert evaluate(prim.sigmoid(constant(value, "float64"))) == pytest.approx(
        1 / (1 + math.exp(-value)), rel=1e-12
    )


def test_halves_round_to_even():
    values = constant(2.5, "float32"), constant(-2.5, "float32")
    assert [evaluate(prim.round(v)) for v in values] == [2.0, -2.0]
    assert [evaluate(prim.nearbyint(v)) for v in values] == [2.0, -2.0]


def test_ranges_and_extremes():
    assert Range(2, 10).extent.value == 8
    assert Range(5).min.value == 0
    assert min_value("int8").value == -128
    assert max_value("float32").value == math.inf
    assert cast("int32", constant(2.9)).value == 2
    assert np.isnan(evaluate(constant(math.nan, "float16")))


@pytest.mark.parametrize("module", ["nodes", "operators", "substitute", "values"])
def test_operators_work_whichever_module_of_the_room_was_imported(module):
    text = (
        f"import heddle.prim.{module}\n"
        "from heddle.prim.nodes import Var\n"
        "n = Var('n', 'int64')\n"
        "print(n + 1, n // 2, -n, (n == 3).asexpr())\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "n + 1 n // 2 n * -1 n == 3", done.stderr


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("exponent", [0.5, 2.0, -1.0, 1.5])
def test_powers_have_the_special_cases_of_c(dtype, exponent):
    points = np.asarray([-math.inf, -0.0, 0.0, 4.0, math.inf], dtype)
    wanted = [math.pow(x, exponent) if x or exponent > 0 else math.copysign(math.inf, x) for x in points]
    with np.errstate(all="ignore"):
        one = np.asarray([power(x, points.dtype.type(exponent)) for x in points])
        for got in (
            power(points, points.dtype.type(exponent)),
            power(points, np.full(5, exponent, dtype)),
            one,
        ):
            assert got.dtype == dtype
            np.testing.assert_array_equal(got, np.asarray(wanted, dtype))
            np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))
